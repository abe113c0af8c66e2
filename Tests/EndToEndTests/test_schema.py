"""`sallyport schema` and `sallyport help KEY`: what editors and people are told of the configuration is what is read of it.

A JSON Schema cannot know everything that `sallyport check` does; what it refuses, though, must be wrong, and what it can refuse it
must refuse.
"""

import datetime
import functools
import json
import re
import tomllib

import jsonschema
import pytest

from proxy import REPOSITORY, command

CONFIGURATION = sorted((REPOSITORY / "config").rglob("*.toml"))


@functools.cache
def validator() -> jsonschema.Draft7Validator:
    schema = json.loads(command("schema").stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def as_json(value):
    """As plug-ins of editors hand TOML to a schema: a date is a text."""
    if isinstance(value, dict):
        return {name: as_json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [as_json(element) for element in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


def faults(text: str) -> list[str]:
    return [fault.message for fault in validator().iter_errors(as_json(tomllib.loads(text)))]


@pytest.mark.parametrize("file", CONFIGURATION, ids=lambda file: file.name)
def test_what_is_installed_is_valid(file):
    assert faults(file.read_text()) == []


# One of each kind of value, in each place where it is another.
WHOLE = """
include = ["policy.d/*.toml"]
[proxy]
listen = ["127.0.0.1:0"]
workers = 2
default = "deny"
credentials = { file = "users" }
deny_addresses = ["private", "192.0.2.0/24"]
limits = { connections = 10, share = 0.5, header_bytes = "32KiB", image_pixels = 1_000_000 }
timeouts = { drain = "250ms" }
[dns]
servers = ["192.0.2.1", "[2001:db8::1]:53"]
[log]
format = "text"
[reachability]
interfaces = { tun0 = "wwan" }
[cache]
memory = "16MiB"
purge_to = 0.5
targets = ["CDN-Cache-Control"]
[defaults.security]
min_tls = "1.3"
[pins.a]
spki = ["sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "sha256/BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]
expires = 2099-01-31
[routes.office]
via = "http://parent.example:3128"
credentials = { username = "ada", password = "x" }
when = ["wired", "wifi"]
[[rule]]
name = "one"
hosts = ["a.example"]
ports = [443, 8443]
users = ["root", 1]
schemes = ["https"]
route = ["office", "direct"]
security = { pins = "a", revocation = "staple" }
request.headers.set = { X-Client = "7" }
request.parameters = { key = "x", deep = { list = [1, true] } }
request.throttle = { rate = "64KiB", when = ["wwan"] }
response.serializer = ["json", "image"]
response.acceptable_status = [404, "200-299"]
response.on_violation = { body = "annotate" }
cache.offline = "7d"
[[rule]]
name = "two"
action = "ask"
ask = { wait = "10s" }
request.headers.set = { X-Client = "7" }
[[expect]]
request = "https://a.example/"
user = "root"
rule = "one"
verdict = "allow"
route = ["office", "direct"]
[[expect]]
request = "http://b.example/"
rule = "two"
verdict = "ask"
header = { X-Client = true }
"""


def test_one_of_each_kind_is_valid(tmp_path):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "users").write_text("ada:x\n")
    (tmp_path / "users").chmod(0o600)
    (tmp_path / "whole.toml").write_text(WHOLE)
    assert faults(WHOLE) == []
    checked = command("check", tmp_path / "whole.toml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


RULE = '[[rule]]\nname = "a"\n'
REFUSED = {
    "an unknown table": "[prox]\nname = 'a'\n",
    "an unknown key": RULE + 'hots = ["a.example"]\n',
    "a key of another table": RULE + 'min_tls = "1.3"\n',
    "a string for a list": RULE + 'hosts = "a.example"\n',
    "a number for a string": "[proxy]\nname = 7\n",
    "a string for a number": '[proxy.limits]\nheaders = "7"\n',
    "a string for a boolean": RULE + 'upgrade = "yes"\n',
    "a number for a duration": "[proxy.timeouts]\nconnect = 10\n",
    "a duration of no known unit": '[proxy.timeouts]\nconnect = "10 seconds"\n',
    "a size in another unit": '[proxy.limits]\nheader_bytes = "64kB"\n',
    "a word that is none": RULE + 'action = "block"\n',
    "a version for a number": RULE + "security.min_tls = 1.2\n",
    "a version that is none": RULE + 'security.min_tls = "1.4"\n',
    "too small a number": "[proxy.limits]\nstreams = 1\n",
    "too large a number": "[proxy.limits]\nheaders = 10001\n",
    "too large a share": "[proxy.limits]\nshare = 1.5\n",
    "a port that is none": RULE + "ports = [70000]\n",
    "a scheme that is none": RULE + 'schemes = ["ftp"]\n',
    "a kind of link that is none": RULE + 'when = ["ethernet"]\n',
    "a secret kept twice": '[proxy]\ncredentials = { file = "a", env = "B" }\n',
    "a secret kept nowhere": "[proxy]\ncredentials = {}\n",
    "a table for a list of tables": '[rule]\nname = "a"\n',
    "a list for a table": "[[proxy]]\nname = 'a'\n",
    "an unknown key of a set of pins": '[pins.a]\nkeys = ["x"]\n',
    "an unknown key of a route": '[routes.a]\nurl = "direct"\n',
    "an unknown key below defaults": '[defaults.request]\nagent = "x"\n',
    "a policy of caches that is none": RULE + 'request.cache_policy = "always"\n',
    "an expectation of what cannot be": '[[expect]]\nrequest = "http://a.example/"\nverdict = "maybe"\n',
    "true for no rule": '[[expect]]\nrequest = "http://a.example/"\nrule = true\n',
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_can_be_refused_is_refused(text, tmp_path):
    assert faults(text) != []
    (tmp_path / "wrong.toml").write_text(text)
    assert command("check", tmp_path / "wrong.toml").returncode == 1


def settings() -> dict[str, dict]:
    """Every key with its table: `proxy.limits.share`."""
    schema = validator().schema
    tables = {"": schema["properties"], **{name: table["properties"] for name, table in schema["definitions"].items()}}
    return {f"{table}.{key}".lstrip("."): said for table, keys in tables.items() for key, said in keys.items()}


def test_every_key_is_said_what_it_is_for():
    for name, said in settings().items():
        assert said["description"].endswith("."), name


UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def value(toml: str):
    """What a text of TOML says; of a duration, milliseconds."""
    read = tomllib.loads(f"it = {toml}")["it"]
    duration = isinstance(read, str) and re.fullmatch(r"(\d+)(ms|s|m|h|d)", read)
    return int(duration[1]) * UNITS[duration[2]] if duration else read


def test_what_holds_without_a_key_is_what_the_program_says(tmp_path):
    """`sallyport config` prints what is in force, with what it is where the file is silent."""
    file = tmp_path / "empty.toml"
    file.write_text("[cache]\n[history]\n")
    table, compared = "", 0
    for line in command("config", file).stdout.splitlines():
        if heading := re.fullmatch(r"\[([\w.]+)\].*", line):
            table = heading[1]
        if said := re.fullmatch(r"(\w+) = (.*?) +# default", line):
            described = settings()[f"{table}.{said[1]}"]["description"]
            if standard := re.search(r' Default: (["\[\d]\S.*?|true|false|\d+)\.$', described):
                if " for " not in standard[1]:
                    assert value(standard[1]) == value(said[2]), (table, line)
                    compared += 1
    assert compared > 30


SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
RULE = '[[rule]]\nname = "r"\naction = "ask"\n'
RANGED = {"proxy.limits": "", "proxy.timeouts": "", "dns": "", "cache": "", "history": ""} | {
    f"rule.{table}": RULE for table in ("timeouts", "cache", "ask", "request")}


def beyond(said: dict) -> list[tuple[str, str]]:
    """Values of TOML just outside the range that is said of a key, with the range as an error says it."""
    if "minimum" in said:
        text, step = f"{said['minimum']:.15g} to {said['maximum']:.15g}", 1 if said["type"] == "integer" else 0.001
        return [(f"{value:.15g}", text) for value in (said["minimum"] - step, said["maximum"] + step)]
    if not (found := re.search(r" From ((\d+)([a-zA-Z]+) to (\d+)([a-zA-Z]+))\.", said["description"])):
        return []
    units, least = (SIZES, "B") if found[3] in SIZES else (UNITS, "ms")
    lower, upper = int(found[2]) * units[found[3]] - 1, int(found[4]) * units[found[5]] + 1
    return [(f'"{value}{least}"', found[1]) for value in (lower, upper) if value >= 0]


def test_a_range_is_said_as_it_is_read(tmp_path):
    compared = 0
    for name, said in settings().items():
        table, _, key = name.rpartition(".")
        for outside, text in beyond(said) if table in RANGED else []:
            file = tmp_path / "outside.toml"
            file.write_text(f"{RANGED[table]}[{table}]\n{key} = {outside}\n")
            answer = command("check", file)
            compared += 1
            assert answer.returncode == 1 and f" from {text}, found" in answer.stdout + answer.stderr, (name, outside, answer)
    assert compared > 50


def test_help_of_a_key():
    text = command("help", "rule.request.timeout").stdout
    assert text.startswith("[rule.request]; what is not set there comes from [defaults.request]\n\n  timeout = a duration")
    assert "[dns]" not in text and command("help", "defaults.request.timeout").stdout == text
    both = command("help", "timeout").stdout
    assert "[dns]" in both and "[rule.request]" in both
    table = command("help", "proxy.limits").stdout
    assert table.startswith("[proxy.limits]\n") and "  share = a number, 0.01 to 1" in table and "Default: 0.25" in table
    for name in ("rule", "min_tls", "expires", "serializer", "interfaces", "header", "workers", "key", "parameters"):
        assert command("help", name).returncode == 0, name


def test_help_of_what_is_neither_a_key_nor_a_command():
    wrong = command("help", "min_tsl")
    assert wrong.returncode == 2
    assert "'min_tsl' is neither a command nor a key of the configuration; did you mean 'min_tls'?" in wrong.stderr


def test_the_table_of_the_readme_has_every_key():
    """Of a table whose keys are few and clear its name is enough."""
    schema = json.loads(command("schema").stdout)
    text = (REPOSITORY / "README.md").read_text()
    rows = dict(re.findall(r"^\| (`\[+[^|]*) \| (.*) \|$", text, re.MULTILINE))
    missing = []
    for name, definition in schema["definitions"].items():
        titles = {f"[{name}]", f"[[{name}]]", f"[{name.replace('rule.', 'defaults.', 1)}]"}
        listed = " ".join(f"{title} {keys}" for title, keys in rows.items() if titles & set(re.findall(r"`([^`]+)`", title)))
        if not listed:
            # A table within a table stands by its name in the row of the other.
            own = name.rpartition(".")[2]
            assert name == "secret" or re.search(rf"\b{own}\b", " ".join([*rows, *rows.values()])), f"{name} is in no row"
            continue
        keys = set(re.findall(r"`([a-z_.]+)`", listed)) | set(re.findall(r"\[(?:\w+\.)*(\w+)\]", " ".join(rows)))
        tables = set(re.findall(r"`([a-z_]+)\.[a-z_]+`", listed))
        missing += [f"{name}.{key}" for key in definition["properties"] if key not in keys | tables | {"limits", "timeouts"}]
    assert missing == []
