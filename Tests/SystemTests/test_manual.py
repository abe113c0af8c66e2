"""The manual pages: sound mdoc, and complete. What they say is compared with the sources that it is about: keys with
the schema, defaults with the commented configuration, commands and options with the program's help, fields of the log,
words of refusals, members of answers and metrics with the code that writes them.
"""

import json
import os
import re
from dataclasses import dataclass

import pytest

from installation import (
    BINARY, DAEMON_COMMANDS, PROJECT, SOURCES, SYSTEMD, commands, need, need_binary, options, run, usage
)

MANUAL = SYSTEMD / "man"
PAGES = sorted(MANUAL.iterdir())

# Where the keys of a table of the schema stand, if not below its own name: the heading, and what precedes the key there.
PLACES = {
    "": ("Top level", ""),
    "rule": ("[[rule]]", ""),
    "expect": ("[[expect]]", ""),
    "rule.security.client_certificate": ("[rule.security]", "client_certificate."),
    "rule.request.query_style": ("[rule.request]", "query_style."),
    "rule.request.throttle": ("[rule.request]", "throttle."),
    "rule.request.headers": ("[rule.request]", "headers."),
    "rule.request.authorization": ("[rule.request]", "authorization."),
    "rule.response.on_violation": ("[rule.response]", "on_violation."),
    "rule.response.answer": ("[rule.response]", "answer."),
    "secret": ("Secrets", ""),
    "routes.NAME.credentials": ("[routes.NAME]", "credentials."),
}
# Keys whose value is a table, described by the keys of that table.
CONTAINERS = {
    ("rule.security", "client_certificate"),
    ("rule.request", "query_style"),
    ("rule.request", "throttle"),
    ("rule.request", "headers"),
    ("rule.request", "authorization"),
    ("rule.response", "on_violation"),
    ("rule.response", "answer"),
    ("routes.NAME", "credentials"),
}


@dataclass(frozen=True)
class Key:
    heading: str
    name: str


def schema() -> set[Key]:
    """Every key that the program knows, as it is described."""
    printed = json.loads(run(BINARY, "schema").stdout)
    keys = set()
    for table, content in {"": printed, **printed["definitions"]}.items():
        heading, prefix = PLACES.get(table, (f"[{table}]", ""))
        for name in content["properties"]:
            if (table, name) not in CONTAINERS:
                keys.add(Key(heading, prefix + name))
    assert len(keys) > 150
    return keys


def described() -> dict[Key, str]:
    """Every key that sallyport.toml(5) describes, with the source of its description."""
    heading = ""
    found: dict[Key, list[str]] = {}
    lines: list[str] = []
    depth = 0
    for line in (MANUAL / "sallyport.toml.5").read_text().splitlines():
        if line.startswith((".Sh ", ".Ss ")):
            lines = []
            heading = line[4:].removesuffix("\\&")
        depth += line.startswith(".Bl ") - line.startswith(".El")
        if depth == 1 and (item := re.match(r"\.It Cm (\S+)", line)):
            key = Key(heading, item[1])
            assert key not in found, f"{key} is described twice"
            lines = found[key] = []
        lines.append(line)
    return {key: "\n".join(text) for key, text in found.items()}


# MARK: The form of the pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_mandoc_finds_nothing(page):
    need("mandoc")
    lint = run("mandoc", "-Tlint", "-Wall", page, check=False).stdout.splitlines()
    # Whether a page that is referred to is installed here says nothing of this one.
    assert [line for line in lint if "referenced manual not found" not in line] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_groff_warns_of_nothing(page):
    need("man", "groff")
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"}
    done = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page, env=environment)
    assert done.stderr == ""
    done = run("groff", "-ww", "-man", "-Tutf8", page, env=environment)
    assert done.stderr == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_own_pages_that_are_referred_to_exist(page):
    for name, section in re.findall(r"^\.Xr (sallyport\S*) (\d)", page.read_text(), re.MULTILINE):
        assert (MANUAL / f"{name}.{section}").exists()


# MARK: sallyport.toml(5)


def test_every_key_is_described():
    missing = schema() - set(described())
    assert not missing, f"not described, or not in the section where it belongs: {sorted(map(str, missing))}"


def test_nothing_is_described_that_is_no_key():
    surplus = set(described()) - schema()
    assert not surplus, f"not in the schema, or not in the section where it belongs: {sorted(map(str, surplus))}"


def unquoted(text: str) -> str:
    """mdoc's word for a quotation mark, as the mark."""
    return text.replace(r"\(dq", '"')


def commented_defaults() -> dict[tuple[str, str], str]:
    """The values that config/sallyport.toml shows, commented out, as those that hold without it."""
    found = {}
    table = "Top level"
    for line in (PROJECT / "config/sallyport.toml").read_text().splitlines():
        # A table that does something by being there is commented out itself.
        if header := re.fullmatch(r"(?:# (?=\[cache))?(\[[a-z.]+\])", line):
            table = header[1]
        elif line.startswith("# [defaults"):
            break
        elif setting := re.fullmatch(r"# ([a-z_]+) = (.+)", line):
            found[table, setting[1]] = setting[2]
    return found


# Shown in the configuration as examples: there is no value without them.
NO_DEFAULT = {
    ("[proxy]", "credentials"), ("[authority]", "key"), ("[admin]", "metrics"), ("[admin]", "web"), ("[admin]", "operators"),
    ("[proxy]", "contact"), ("[proxy]", "state"),
    ("[cache]", "directory"),
}


def test_defaults_are_those_of_the_configuration():
    pages = {(key.heading, key.name): text for key, text in described().items()}
    wanted = commented_defaults()
    assert len(wanted) > 25
    for place, value in wanted.items():
        if place in NO_DEFAULT:
            continue
        stated = re.search(r"^Default:\n\.Ql (.*)$", pages[place], re.MULTILINE)
        assert stated, f"no default of {place}"
        assert unquoted(stated[1]) == value, place


TABLES_OF_THE_DAEMON = [
    "[proxy]", "[proxy.limits]", "[proxy.timeouts]", "[dns]", "[trust]", "[authority]", "[log]", "[cache]", "[history]",
]


def test_every_default_of_the_page_holds():
    """A configuration of all defaults that the page states is sound."""
    need_binary()
    text = ""
    for key, source in described().items():
        stated = re.search(r"^Default:\n\.Ql (.*)$", source, re.MULTILINE)
        if not stated or key.heading not in TABLES_OF_THE_DAEMON:
            continue
        if f"{key.heading}\n" not in text:
            text += f"{key.heading}\n"
        text += f"{key.name} = {unquoted(stated[1])}\n"
    done = run(BINARY, "check", "--strict", "--config", "/dev/stdin", input=text, check=False)
    assert done.returncode == 0, f"{text}\n{done.stdout}"


def test_examples_are_sound(tmp_path):
    """What stands under EXAMPLES can be pasted."""
    need_binary()
    examples = (MANUAL / "sallyport.toml.5").read_text().split(".Sh EXAMPLES")[1].split(".Sh")[0]
    text = "\n".join(re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", examples, re.DOTALL | re.MULTILINE))
    assert text.count("[[rule]]") == 4
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(text)
    (tmp_path / "maps-key").write_text("secret")
    environment = {**os.environ, "CREDENTIALS_DIRECTORY": str(tmp_path)}
    done = run(BINARY, "check", "--config", configuration, env=environment, check=False)
    assert done.returncode == 0, done.stdout


# MARK: sallyport(1)


def synopsis() -> dict[str, str]:
    """Of each command, all of its lines in the synopsis."""
    text = (MANUAL / "sallyport.1").read_text().split(".Sh SYNOPSIS\n")[1].split(".Sh ")[0]
    found: dict[str, str] = {}
    for entry in text.split(".Nm\n")[1:]:
        command = re.match(r"\.Cm (\w+)", entry)[1]
        found[command] = found.get(command, "") + entry.replace("Fl Fl ", "--")
    return found


def test_every_command_and_option_is_in_the_synopsis():
    lines = synopsis()
    for command in commands():
        assert command in lines, f"{command} is not in the synopsis"
        missing = options(usage(command)) - options(lines[command])
        assert not missing, f"{command}: {missing}"


def test_every_command_is_described():
    text = (MANUAL / "sallyport.1").read_text()
    for command in commands():
        assert f".Ss sallyport {command}\n" in text
    assert set(synopsis()) == set(commands())


def test_what_the_synopsis_says_of_daemon_commands():
    for command in DAEMON_COMMANDS:
        assert {"--config", "--socket", "--json"} <= options(synopsis()[command])


def function(source: str, name: str) -> str:
    begin = source.index(f"func {name}")
    return source[begin : source.index("\n  }\n", begin)]


def fields_of_the_log() -> list[str]:
    source = server_source("AccessLine.swift")
    whole, request, decision = (
        re.findall(r'facts\.\w+\(\s*"(\w+)"', function(source, name))
        for name in ("write(_ record: borrowing ExchangeRecord, _ facts", "writeRequest(", "writeDecision(")
    )
    assert whole[0] == "status" and len(whole) > 20, "the log is written in another way now; read it anew here"
    return ["time", *request, "status", *dict.fromkeys(decision), *whole[1:]]


def test_every_field_of_the_log_is_described():
    fields = set(fields_of_the_log())
    log = (MANUAL / "sallyport.1").read_text().split(".Sh LOG")[1].split(".Sh ")[0]
    assert fields == set(re.findall(r"^\.It Ql (\w+)$", log, re.MULTILINE))


def test_every_refusal_stands_under_its_status():
    rows = re.findall(r'Row\(\s*"([a-z-]+)", (\d{3}),', source("Session", "ProblemKinds.swift"))
    assert len(rows) > 50, "refusals are written in another way now; read them anew here"
    page = (MANUAL / "sallyport.1").read_text().split(".Sh REFUSALS")[1].split(".Sh ")[0]
    listed = {
        token: status
        for status, words in re.findall(r"^\.It (\d{3})\n((?:\.Ql .*\n)+)", page, re.MULTILINE)
        for token in re.findall(r"^\.Ql ([a-z-]+)", words, re.MULTILINE)
    }
    assert listed == dict(rows)



def test_variables_and_paths_of_the_service_are_those_of_the_units():
    text = (MANUAL / "sallyport.1").read_text()
    socket = re.search(r"ListenStream=(/\S+)", (SYSTEMD / "sallyport-admin.socket").read_text())[1]
    assert f".It Pa {socket}\n" in text
    for unit in ("sallyport.service", "sallyport.socket", "sallyport-admin.socket"):
        assert unit in text


# MARK: sallyport-admin(7)

def administration() -> str:
    return (MANUAL / "sallyport-admin.7").read_text()


def shapes() -> dict[str, object]:
    """Of each resource that answers JSON, the answer that the page shows."""
    displays = re.findall(r'\.\\" SHAPE: ([^\n]*)\n\.Bd -literal[^\n]*\n([{\[].*?)\.Ed', administration(), re.DOTALL)
    return {resource: json.loads(text) for resource, text in displays}


def members(value: object) -> set[str]:
    """The names of all members, at any depth."""
    if isinstance(value, list):
        return set().union(*map(members, value))
    if isinstance(value, dict):
        return set(value).union(*map(members, value.values()))
    return set()


def server_source(name: str) -> str:
    return source("Server", name)


def source(module: str, name: str) -> str:
    found = list((SOURCES / module).rglob(name))
    assert len(found) == 1, f"{name} of {module}: {found}"
    return found[0].read_text()


def test_the_resources_are_those_of_the_daemon():
    rows = re.findall(r'AdminRoute\(\s*"(GET|POST)", "([^"]+)"', server_source("AdminRoutes.swift"))
    served = [f"{method} {path.replace('{ref}', 'REF')}" for method, path in rows]
    assert len(served) > 20, "the API is written in another way now; read it anew here"
    assert sorted(served) == sorted(re.findall(r"^\.Ss ((?:GET|POST) \S+)$", administration(), re.MULTILINE))


@pytest.mark.parametrize("resource", re.findall(r"^\.Ss ((?:GET|POST) \S+)$", administration(), re.MULTILINE))
def test_the_shape_of_every_resource_is_marked(resource):
    assert f'.\\" SHAPE: {resource}\n' in administration()


# Members under names of the policy or words of the log: examples of them stand in the page.
EXAMPLES = {"denied", "pin-mismatch", "unacceptable-status"}


def test_the_members_of_answers_are_those_of_the_daemon():
    parts = re.split(r"// MARK: (GET [^\n]*|Parts)\n", server_source("AdminResources.swift"))
    found = dict(zip(parts[1::2], parts[2::2]))
    checked = 0
    for resource, source in found.items():
        names = set(re.findall(r'\(\s*"(\w+)",', source))
        if names:
            assert names == members(shapes()[resource]) - EXAMPLES, resource
            checked += 1
    assert checked >= 4, "the API is written in another way now; read it anew here"


def test_the_members_of_questions_are_those_of_the_daemon():
    desk = server_source("OperatorDesk.swift")
    written = {
        name
        for part in (block_of(desk, "extension TemporaryRule {"), block_of(desk, "extension OpenQuestion {"))
        for name in re.findall(r'\(\s*"(\w+)",\s', part)
    }
    assert len(written) > 20
    assert members(shapes()["GET /v1/asks"]) == written | {"asks", "temporary"}


def test_the_members_of_stored_answers_are_those_of_the_daemon():
    results = block_of(source("Session", "CachedExchange.swift"), "enum CacheResult").split("var token")[0]
    written = set(re.findall(r'\(\s*"(\w+)",\s', block_of(server_source("CachePages.swift"), "enum CachePages")))
    shown = members([value for resource, value in shapes().items() if "/v1/cache" in resource and "purge" not in resource])
    assert shown - {"accept-encoding"} == written | set(re.findall(r"^  case (\w+)$", results, re.MULTILINE))


def block_of(text: str, beginning: str) -> str:
    """The body of what begins so at the top level of a file."""
    begin = text.index(beginning)
    return text[begin : text.index("\n}\n", begin)]


def test_a_decision_is_a_line_of_the_log():
    assert list(shapes()["GET /v1/decisions/REF"]) == [*fields_of_the_log(), "explanation", "allow"]
    (listed,) = shapes()["GET /v1/decisions"]
    assert list(listed) == fields_of_the_log()


def test_the_metrics_are_those_of_the_daemon():
    source = server_source("MetricsPage.swift")
    names = set(re.findall(r'(?:begin|histogram)\(\s*"(\w+)"', source))
    section = administration().split(".Ss GET /metrics")[1].split(".Sh ")[0]
    listed = [word for line in re.findall(r"^\.It Ic (.*)$", section, re.MULTILINE) for word in line.split(" , ")]
    assert {word.split("{")[0] for word in listed} == names and len(listed) == len(names) > 20
    for word in listed:
        labels = re.findall(r"\w+", word.partition("{")[2])
        samples = re.search(rf'"{word.split("{")[0]}"(.*?)(?:page\.begin|\n  }})', source, re.DOTALL)[1]
        assert set(re.findall(r'"(\w+)":', samples)) == set(labels), word


def test_the_events_are_those_of_the_daemon():
    source = server_source("EventHub.swift").split("enum Kind")[1].split("\n  }")[0]
    kinds = {value or name for name, value in re.findall(r'case (\w+)(?: = "([\w-]+)")?$', source, re.MULTILINE)}
    section = administration().split(".Ss GET /v1/events")[1].split(".Ss ")[0]
    assert kinds | {"lost"} == set(re.findall(r"^\.It Ic (\S+)$", section, re.MULTILINE))


def test_names_of_metrics_follow_the_conventions():
    """Prometheus: base units, one prefix, no metric twice."""
    section = administration().split(".Ss GET /metrics")[1].split(".Sh ")[0]
    names = re.findall(r"\b((?:sallyport|process)_[a-z_]+)", section)
    assert len(names) > 20 and len(names) == len(set(names))
    for name in names:
        assert not re.search(r"_(ms|milliseconds|kib|mib|count|sum|bucket)$", name)
