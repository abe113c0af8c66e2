"""check, explain, env, version and help: what they print, and how they exit (0 done, 1 the answer is no, 2 wrong usage,
3 denied).

The diagnostics are the greater part: every error of every file in one pass, each with file, line, column, the line
itself and a caret, and a suggestion for a near miss. `run` refuses to start on the same errors.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from certificates import ServerCertificate
from conftest import need, with_mounts
from origins import answering
from proxy import clean_environment, command
from reachability_world import ADMIN
from serializer_world import request as absolute

DIAGNOSTIC = re.compile(
    r"(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<severity>error|warning): (?P<message>.*)"
)


@dataclass(frozen=True)
class Diagnostic:
    file: str
    line: int
    column: int
    severity: str
    message: str


def diagnostics(output: str) -> list[Diagnostic]:
    """Every diagnostic of an output; each must be followed by its line and by a caret below its column."""
    lines = output.splitlines()
    found = []
    for index, text in enumerate(lines):
        match = DIAGNOSTIC.fullmatch(text)
        if not match:
            continue
        found.append(
            Diagnostic(
                match["file"], int(match["line"]), int(match["column"]), match["severity"], match["message"]
            )
        )
        source = re.fullmatch(r" *(\d+) \| (.*)", lines[index + 1])
        caret = re.fullmatch(r" *\| ( *)\^", lines[index + 2])
        assert source and int(source[1]) == found[-1].line, f"no source line below {text!r}:\n{output}"
        assert caret, f"no caret below {text!r}:\n{output}"
        if "…" not in source[2]:  # a line with a secret is shown without it, and its caret moves
            assert (
                len(caret[1]) + 1 == found[-1].column
            ), f"the caret is not below column {match['column']}:\n{output}"
        assert lines[index + 1].index("|") == lines[index + 2].index("|")
    return found


def check(directory: Path, text: str, *options: str, expect: int = 0) -> list[Diagnostic]:
    """`sallyport check` on this text."""
    (directory / "sallyport.toml").write_text(text)
    done = command("check", "--config", "sallyport.toml", *options, cwd=directory)
    output = done.stdout + done.stderr
    assert done.returncode == expect, f"exit status {done.returncode}, not {expect}:\n{output}"
    return diagnostics(output)


RULE = '[[rule]]\nname = "r"\n'

# Each: the text, the line of the one error, and what its message must hold
ERRORS = {
    "a near miss in [proxy]": (
        '[proxy]\nlisen = ["127.0.0.1:1"]\n',
        2,
        ["unknown key 'lisen' in [proxy]", "did you mean 'listen'?"],
    ),
    "a near miss in [proxy.limits]": (
        "[proxy.limits]\nconections = 1\n",
        2,
        ["'conections'", "did you mean 'connections'?"],
    ),
    "a near miss in [proxy.timeouts]": (
        '[proxy.timeouts]\nconect = "1s"\n',
        2,
        ["'conect'", "did you mean 'connect'?"],
    ),
    "a near miss in [[rule]]": (RULE + 'host = ["a.test"]\n', 3, ["'host'", "did you mean 'hosts'?"]),
    "a near miss in [rule.request]": (
        RULE + '[rule.request]\nuser_agnet = "x"\n',
        4,
        ["'user_agnet'", "'user_agent'?"],
    ),
    "a near miss of a table": ("[proxi]\n", 1, ["proxi", "did you mean 'proxy'?"]),
    "a key that resembles nothing": ("[proxy]\nxyzzy = 1\n", 2, ["unknown key 'xyzzy' in [proxy]"]),
    "what is no TOML": ("[proxy\n", 1, []),
    "a value that is no TOML": ("[proxy]\nlisten = [127]\nname = \n", 3, []),
    "a key that comes twice": ('[proxy]\nname = "a"\nname = "b"\n', 3, ["name"]),
    "a string where a list belongs": ('[proxy]\nlisten = "127.0.0.1:1"\n', 2, ["listen"]),
    "a number where a string belongs": ("[proxy]\nname = 1\n", 2, ["name"]),
    "a string where a boolean belongs": (RULE + 'enforce = "no"\n', 3, ["enforce"]),
    "a string where a number belongs": ('[proxy.limits]\nheaders = "many"\n', 2, ["headers"]),
    "a negative limit": ("[proxy.limits]\nconnections = -1\n", 2, ["connections"]),
    "a list with a member of another type": (RULE + 'hosts = ["a.test", 1]\n', 3, ["hosts"]),
    "a duration without a unit": ('[proxy.timeouts]\nconnect = "10"\n', 2, ["connect"]),
    "a duration that is a number": ("[proxy.timeouts]\nconnect = 10\n", 2, ["connect"]),
    "a duration with an unknown unit": ('[proxy.timeouts]\nconnect = "10 parsecs"\n', 2, ["connect"]),
    "a negative duration": ('[proxy.timeouts]\nconnect = "-1s"\n', 2, ["connect"]),
    "a size with an unknown unit": ('[proxy.limits]\nheader_bytes = "1XiB"\n', 2, ["header_bytes"]),
    "a size that overflows": (
        '[proxy.limits]\nheader_bytes = "99999999999999999999MiB"\n',
        2,
        ["header_bytes"],
    ),
    "another default than allow and deny": ('[proxy]\ndefault = "maybe"\n', 2, ["default", "maybe"]),
    "a listen address that is none": ('[proxy]\nlisten = ["nonsense"]\n', 2, ["nonsense"]),
    "a listen address without a port": ('[proxy]\nlisten = ["127.0.0.1"]\n', 2, ["127.0.0.1"]),
    "a listen port above 65535": ('[proxy]\nlisten = ["127.0.0.1:70000"]\n', 2, ["70000"]),
    "a listen address that others can reach": ('[proxy]\nlisten = ["0.0.0.0:3128"]\n', 2, ["allow_remote"]),
    "allow_remote without credentials": (
        '[proxy]\nlisten = ["0.0.0.0:3128"]\nallow_remote = true\n',
        None,
        ["credentials"],
    ),
    "workers that are no number": ('[proxy]\nworkers = "many"\n', 2, ["workers"]),
    "no worker": ("[proxy]\nworkers = 0\n", 2, ["workers"]),
    "a name of the proxy that is no token": ('[proxy]\nname = "a b"\n', 2, ["name"]),
    "a denied address that is none": ('[proxy]\ndeny_addresses = ["everywhere"]\n', 2, ["everywhere"]),
    "a denied block that is too narrow": (
        '[proxy]\ndeny_addresses = ["10.0.0.0/33"]\n',
        2,
        ["deny_addresses", "33"],
    ),
    "a name server that is none": ('[dns]\nservers = ["nonsense"]\n', 2, ["nonsense"]),
    "a log format that there is not": ('[log]\nformat = "xml"\n', 2, ["xml"]),
    "a log level that there is not": ('[log]\nlevel = "loud"\n', 2, ["loud"]),
    "a rule without a name": ('[[rule]]\nhosts = ["a.test"]\n', 1, ["name"]),
    "two rules of one name": (RULE + RULE, 4, ["'r'"]),
    "a rule whose name is empty": ('[[rule]]\nname = ""\n', 2, ["name"]),
    "a rule whose name would break a header": ('[[rule]]\nname = "a\\r\\nb"\n', 2, ["name"]),
    "an action that there is not": (RULE + 'action = "drop"\n', 3, ["drop"]),
    "a way of connect that there is not": (RULE + 'connect = "sideways"\n', 3, ["sideways"]),
    "a scheme that there is not": (RULE + 'schemes = ["gopher"]\n', 3, ["gopher"]),
    "a port 0": (RULE + "ports = [0]\n", 3, ["port"]),
    "a port above 65535": (RULE + "ports = [443, 65536]\n", 3, ["65536"]),
    "a method that is no token": (RULE + 'methods = ["G ET"]\n', 3, ["G ET"]),
    "a star in the middle of a host": (RULE + 'hosts = ["a.*.test"]\n', 3, ["a.*.test"]),
    "a star that is part of a label": (RULE + 'hosts = ["a*.test"]\n', 3, ["a*.test"]),
    "three stars": (RULE + 'hosts = ["***.a.test"]\n', 3, ["***.a.test"]),
    "a URL as a host": (RULE + 'hosts = ["http://a.test/"]\n', 3, ["http://a.test/"]),
    "a host with a port": (RULE + 'hosts = ["a.test:80"]\n', 3, ["a.test:80"]),
    "an empty host": (RULE + 'hosts = [""]\n', 3, ["hosts"]),
    "a number-like host": (RULE + 'hosts = ["0x7f.1"]\n', 3, ["0x7f.1"]),
    "a label of 64 letters": (RULE + f'hosts = ["{"a" * 64}.test"]\n', 3, ["hosts"]),
    "a block of addresses with a length that is none": (RULE + 'hosts = ["10.0.0.0/x"]\n', 3, ["hosts", "x"]),
    "CR LF in a field value": (
        RULE + '[rule.request]\nheaders.set = { X-A = "a\\r\\nX-B: c" }\n',
        4,
        ["X-A"],
    ),
    "NUL in a field value": (RULE + '[rule.request]\nheaders.default = { X-A = "a\\u0000" }\n', 4, ["X-A"]),
    "CR LF in user_agent": (RULE + '[rule.request]\nuser_agent = "a\\r\\nb"\n', 4, ["user_agent"]),
    "a field name that is no token": (RULE + '[rule.request]\nheaders.set = { "X A" = "b" }\n', 4, ["X A"]),
    "setting a field that frames the message": (
        RULE + '[rule.request]\nheaders.set = { Content-Length = "1" }\n',
        4,
        ["Content-Length"],
    ),
    "removing Host": (RULE + '[rule.request]\nheaders.remove = ["Host"]\n', 4, ["Host"]),
    "a language that would break the field": (
        RULE + '[rule.request]\naccept_language = ["en\\r\\n"]\n',
        4,
        ["accept_language"],
    ),
    "credentials without a user": (
        RULE + '[rule.request]\nauthorization = { password = "x" }\n',
        4,
        ["username"],
    ),
    "a user name with a colon": (
        RULE + '[rule.request]\nauthorization = { username = "a:b", password = "x" }\n',
        4,
        ["username"],
    ),
    "a secret in a file that is not there": (
        RULE + '[rule.request]\nuser_agent = { file = "absent" }\n',
        4,
        ["absent"],
    ),
    "a secret from two places": (
        RULE + '[rule.request]\nuser_agent = { env = "A", file = "b" }\n',
        4,
        ["user_agent"],
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_reported_where_it_is(name, sallyport_binary, tmp_path):
    text, line, fragments = ERRORS[name]
    found = check(tmp_path, text, expect=1)
    errors = [diagnostic for diagnostic in found if diagnostic.severity == "error"]
    assert errors, "no error in the promised form"
    assert all(error.file == "sallyport.toml" for error in errors)
    matching = [
        error
        for error in errors
        if (line is None or error.line == line) and all(part in error.message for part in fragments)
    ]
    assert matching, f"no error at line {line} with {fragments}: {errors}"
    if not (len(errors) == 1 or name in ("a value that is no TOML", "allow_remote without credentials")):
        raise AssertionError(f"one mistake, several errors: {errors}")


@pytest.mark.parametrize("name", ["an unknown key", "what is no TOML"])
def test_run_refuses_to_start_on_an_error(name, sallyport_binary, tmp_path):
    text = {"an unknown key": "[proxy]\nlisen = []\n", "what is no TOML": "[proxy\n"}[name]
    (tmp_path / "sallyport.toml").write_text(text)
    done = command("run", "--config", "sallyport.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert diagnostics(done.stdout + done.stderr)


# Keys of every table
EVERYTHING = """
include = ["policy.d/*.toml"]

[proxy]
listen = ["127.0.0.1:3128", "[::1]:3128"]
workers = "auto"
name = "sallyport"
default = "allow"
allow_remote = false
credentials = { file = "credentials" }
deny_addresses = ["link-local", "multicast", "unspecified", "loopback", "private", "cgnat", "192.0.2.0/24", "2001:db8::/32"]

[proxy.limits]
connections = 10000
header_bytes = "32KiB"
headers = 128
idle_per_host = 64
connections_per_host = 0

[proxy.timeouts]
client_header = "10s"
client_idle = "5m"
connect = "10s"
tls_handshake = "10s"
response_header = "60s"
body_stall = "60s"
upstream_idle = "60s"
tunnel_idle = "1h"
drain = "250ms"

[dns]
servers = ["127.0.0.1:5353", "[::1]:5353", "192.0.2.1"]
timeout = "5s"
cache = "60s"

[trust]
anchors = "system"

[authority]
directory = "authority"
key = { file = "authority.key" }

[reachability.interfaces]
tun0 = "wwan"
"eth0.5" = "wired"

[log]
format = "auto"
level = "info"
access = true

[defaults.security]
min_tls = "1.2"

[defaults.request]
user_agent = "kiosk"

[pins.payments]
mode = "public-key"
spki = [
  "sha256/36oRSyvfY1Gt+1zH6B+H36CTuB9p7ex+bLtL5p6IakQ=",
  "sha256//5YzPAvW3Uf1VO85eN+PZJxobUtBDY/0VrP7dELUFo40=",
]
certificates = ["pins/*.cer"]
expires = 2099-12-31
on_expiry = "fail"
enforce = true

[routes.office]
via = "https://proxy.office.example:3128"
credentials = { username = "ada", password = { file = "password" } }
when = ["wired", "wifi"]
interface = "eth0"
unreachable = "wait"
wait = "30s"
[routes.office.security]
anchors = "anchors"
"""
EVERY_RULE = """
[[rule]]
name = "everything"
hosts = ["pay.example.com", "**.pay.example.com", "*.other.example", "10.0.0.0/8", "::1"]
ports = [443, 8443]
methods = ["GET", "POST"]
paths = ["/v2/*"]
schemes = ["https", "http"]
users = ["root", 1001]
units = ["kiosk.service", "user-1000.slice"]
when = ["wired", "wifi", "wwan", "unknown", "not-reachable"]
route = ["office", "direct"]
action = "deny"
reason = "No."
enforce = true
connect = "intercept"
upgrade = true
deny_addresses = ["private"]

[rule.security]
pins = "payments"
allow_invalid_certificates = false
validates_domain_name = true
anchors = "../anchors"
min_tls = "1.2"
max_tls = "1.3"
ciphers = "ECDHE+AESGCM:TLS_AES_128_GCM_SHA256"
server_name = "pay.example.com"
client_certificate = { certificate = "../client.pem", key = { file = "../client.key" } }
revocation = "staple"

[rule.request]
headers.default = { Accept-Language = "en" }
headers.set = { X-Client = "kiosk-7" }
headers.remove = ["Cookie"]
user_agent = "kiosk"
accept_language = ["en", "de"]
authorization = { username = "ada", password = { file = "../password" } }
timeout = "30s"
cookies = true
"""


def write_everything(directory: Path, server: ServerCertificate) -> None:
    for name in ("policy.d", "pins", "anchors"):
        (directory / name).mkdir()
    (directory / "policy.d/a.toml").write_text(EVERY_RULE)
    (directory / "pins/a.cer").write_bytes(server.certificate.read_bytes())
    (directory / "anchors/a.pem").write_bytes(server.authority.read_bytes())
    (directory / "client.pem").write_bytes(server.certificate.read_bytes())
    key = server.key.read_text()
    secrets = {"credentials": "ada:word\n", "password": "word\n", "client.key": key, "authority.key": key}
    for name, content in secrets.items():
        (directory / name).write_text(content)
        (directory / name).chmod(0o600)


def test_every_key_is_known(sallyport_binary, server_certificate, tmp_path):
    """Relative paths are relative to the file that names them: the rule's password is beside policy.d, not in it."""
    write_everything(tmp_path, server_certificate)
    # A rule intercepts: `check` looks for the authority too, and here its key lies elsewhere.
    assert command("ca", "init", "--directory", tmp_path / "authority").returncode == 0
    (tmp_path / "authority/authority.key").replace(tmp_path / "authority.key")
    assert [found for found in check(tmp_path, EVERYTHING) if found.severity == "error"] == []


@pytest.mark.parametrize(
    "line",
    [
        'limits.buffered_body = "1MiB"',
        'limits.held_bodies = "64MiB"',
        "limits.json_depth = 512",
        "limits.image_pixels = 100_000_000",
    ],
)
def test_a_limit_on_bodies_is_taken(line, sallyport_binary, tmp_path):
    assert check(tmp_path, f"[proxy]\n{line}\n") == []


def test_the_configuration_that_is_installed_is_right(sallyport_binary):
    path = Path(__file__).resolve().parents[2] / "config/sallyport.toml"
    if not path.exists():
        pytest.skip(f"{path} is not written yet")
    done = command("check", "--config", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_error_of_every_file_in_one_pass(sallyport_binary, tmp_path):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d/10-first.toml").write_text('[[rule]]\nname = "a"\nhostss = ["x"]\nports = [0]\n')
    (tmp_path / "policy.d/20-second.toml").write_text('[[rule]]\nname = "a"\nactoin = "deny"\n')
    (tmp_path / "policy.d/ignored.txt").write_text("[[[")
    text = (
        'include = ["policy.d/*.toml"]\n[proxy]\nlisen = []\ndefault = "maybe"\n[proxy.timeouts]\ndrain = 5\n'
    )
    errors = {(error.file, error.line) for error in check(tmp_path, text, expect=1)}
    assert errors >= {
        ("sallyport.toml", 3),
        ("sallyport.toml", 4),
        ("sallyport.toml", 6),
        ("policy.d/10-first.toml", 3),
        ("policy.d/10-first.toml", 4),
        ("policy.d/20-second.toml", 2),
        ("policy.d/20-second.toml", 3),
    }


def test_included_files_are_read_in_lexical_order_after_the_main_one(sallyport_binary, tmp_path):
    (tmp_path / "policy.d").mkdir()
    for name in ("30", "10", "20"):
        (tmp_path / f"policy.d/{name}.toml").write_text(
            f'[[rule]]\nname = "r{name}"\naction = "deny"\nhosts = ["h{name}.test", "all.test"]\n'
        )
    (tmp_path / "sallyport.toml").write_text(
        'include = ["policy.d/*.toml"]\n[[rule]]\nname = "main"\nhosts = ["main.test"]\n'
    )
    output = explain(tmp_path, "GET", "http://all.test/", expect=None)
    assert "'r10'" in output and output.index("main") < output.rindex("sallyport.toml:2") + 1
    assert "policy.d/10.toml:1" in output


def test_a_file_that_is_named_and_not_there_is_an_error(sallyport_binary, tmp_path):
    done = command("check", "--config", "absent.toml", cwd=tmp_path)
    assert done.returncode == 1 and "absent.toml" in done.stdout + done.stderr


# Nothing of it is lost in tunnels, and no secret leaves in the clear.
OVER_TLS = RULE + 'schemes = ["http"]\nupgrade = true\n'
WARNINGS = {
    "a user who is not there": (RULE + 'users = ["no-such-user"]\n', 3),
    "a route that no rule lists": ('[routes.a]\nvia = "direct"\n' + RULE, 1),
    "a secret that others can read": (
        OVER_TLS + '[rule.request]\nauthorization = { username = "a", password = { file = "open" } }\n',
        6,
    ),
    "a secret in place": (
        OVER_TLS + '[rule.request]\nauthorization = { username = "a", password = "in-the-open" }\n',
        6,
    ),
    "a rule that can never match": (RULE + '[[rule]]\nname = "s"\nhosts = ["a.test"]\n', 3),
    "more languages than six": (
        OVER_TLS + '[rule.request]\naccept_language = ["a", "b", "c", "d", "e", "f", "g"]\n',
        6,
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_fails_only_a_strict_check(name, sallyport_binary, tmp_path):
    text, line = WARNINGS[name]
    (tmp_path / "open").write_text("in-the-open\n")
    (tmp_path / "open").chmod(0o644)
    found = check(tmp_path, text)
    assert [(warning.severity, warning.line) for warning in found] == [("warning", line)]
    check(tmp_path, text, "--strict", expect=1)


def test_the_diagnostics_as_json(sallyport_binary, tmp_path):
    (tmp_path / "sallyport.toml").write_text("[proxy]\nlisen = []\n" + RULE + "ports = [0]\n")
    done = command("check", "--json", "--config", "sallyport.toml", cwd=tmp_path)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert [(entry["file"], entry["line"], entry["severity"]) for entry in found] == [
        ("sallyport.toml", 2, "error"),
        ("sallyport.toml", 5, "error"),
    ]
    assert all(entry["column"] >= 1 and entry["message"] for entry in found)
    (tmp_path / "sallyport.toml").write_text("")
    done = command("check", "--json", "--config", "sallyport.toml", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])


def test_no_diagnostic_shows_a_secret(sallyport_binary, tmp_path):
    """Not even where the line of the secret is the line at fault."""
    lines = [
        'authorization = { username = "a:b", password = "very-secret" }',
        'authorization = { username = "a", password = "very-secret", surplus = 1 }',
        'authorization = { password = "very-secret" }',
        'headers.set = { "X A" = "very-secret" }',
        'authorization = { username = "a", password = "very-secret\\r\\n" }',
    ]
    texts = [RULE + f"[rule.request]\n{line}\n" for line in lines]
    texts += [
        '[routes.a]\nvia = "http://ada:very-secret@proxy.test"\n',
        '[routes.a]\nvia = "ada:very-secret@proxy.test:3128"\n',
        '[routes.a]\nvia = "http://proxy.test"\ncredentials = { username = "a:very-secret", password = "very-secret" }\n',
    ]
    for line in texts:
        (tmp_path / "sallyport.toml").write_text(line)
        for options in ((), ("--json",), ("--strict",)):
            done = command("check", *options, "--config", "sallyport.toml", cwd=tmp_path)
            assert "very-secret" not in done.stdout + done.stderr, line


# explain

POLICY = """[proxy]
default = "deny"

[[rule]]
name = "updates"
hosts = ["**.updates.test"]
ports = [80]

[[rule]]
name = "no-uploads"
methods = ["POST", "PUT"]
action = "deny"
reason = "This machine uploads nothing."

[[rule]]
name = "api"
hosts = ["api.test"]
paths = ["/v2/*"]
[rule.request]
user_agent = "kiosk"
authorization = { username = "ada", password = "hidden-word" }

[[rule]]
name = "tunnels"
hosts = ["shop.test"]
ports = [443]
"""


def explain(directory: Path, *arguments: str, expect: int | None = 0) -> str:
    done = command("explain", "--config", "sallyport.toml", *arguments, cwd=directory)
    output = done.stdout + done.stderr
    assert (
        expect is None or done.returncode == expect
    ), f"exit status {done.returncode}, not {expect}:\n{output}"
    return output


EXPLAINED = {
    "the first rule": (["GET", "http://a.updates.test/x"], 0, ["updates", "sallyport.toml:4", "allow"]),
    "a later rule, and why not the earlier": (
        ["GET", "http://api.test/v2/x?key=1"],
        0,
        ["api", "sallyport.toml:15", "updates", "hosts", "no-uploads", "methods", "User-Agent"],
    ),
    "a denial": (
        ["POST", "http://api.test/v2/x"],
        3,
        ["no-uploads", "sallyport.toml:9", "This machine uploads nothing."],
    ),
    "the default": (["GET", "http://elsewhere.test/"], 3, ["default", "updates", "no-uploads", "api"]),
    "a tunnel": (["CONNECT", "shop.test:443"], 0, ["tunnels", "sallyport.toml:23", "tunnel"]),
    "https, which is a tunnel": (["GET", "https://shop.test/"], 0, ["tunnels"]),
    "a tunnel to another port": (["CONNECT", "shop.test:22"], 3, ["default"]),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explain_names_the_rule_and_the_reasons(name, sallyport_binary, tmp_path):
    arguments, status, fragments = EXPLAINED[name]
    (tmp_path / "sallyport.toml").write_text(POLICY)
    (tmp_path / "sallyport.toml").chmod(0o600)
    output = explain(tmp_path, *arguments, expect=None)
    assert all(fragment in output for fragment in fragments), output
    assert "hidden-word" not in output


@pytest.mark.parametrize("name", EXPLAINED)
def test_explain_exits_with_3_when_the_answer_is_no(name, sallyport_binary, tmp_path):
    arguments, status, _ = EXPLAINED[name]
    (tmp_path / "sallyport.toml").write_text(POLICY)
    explain(tmp_path, *arguments, expect=status)


ASKERS = """
[routes.office]
via = "http://proxy.office.test:3128"
when = ["wired"]

[[rule]]
name = "by-user"
hosts = ["user.test"]
users = ["root", 4711]
action = "deny"

[[rule]]
name = "by-unit"
hosts = ["unit.test"]
units = ["kiosk.service"]
action = "deny"

[[rule]]
name = "by-link"
hosts = ["link.test"]
when = ["wwan"]
action = "deny"

[[rule]]
name = "rest"
route = ["office", "direct"]
"""

ASKED = {
    "a user by name": (["--user", "root", "GET", "http://user.test/"], 3, ["by-user"], ["asked without"]),
    "a user by number": (["--user", "4711", "GET", "http://user.test/"], 3, ["by-user"], ["asked without"]),
    "another user": (
        ["--user", "4712", "GET", "http://user.test/"],
        0,
        ["users: expected root, 4711, seen 4712", "route office: by http://proxy.office.test:3128", "route direct"],
        ["asked without"],
    ),
    "a user who is not named": (
        ["GET", "http://user.test/"],
        0,
        ["seen a client that is not known", "asked without --user", "'by-user' (sallyport.toml:6)"],
        ["--unit", "--when"],
    ),
    "a unit": (["--unit", "kiosk.service", "GET", "http://unit.test/"], 3, ["by-unit"], ["asked without"]),
    "a unit of a user who is not named": (
        ["--unit", "kiosk.service", "GET", "http://user.test/"],
        0,
        ["seen a user who is not known", "asked without --user"],
        ["--unit"],
    ),
    "a unit that is not named": (
        ["--user", "root", "CONNECT", "unit.test:443"],
        0,
        ["asked without --unit"],
        ["--user"],
    ),
    "a link": (["--when=wwan", "GET", "http://link.test/"], 3, ["by-link"], ["asked without"]),
    "another link": (["--when=wifi", "GET", "http://link.test/"], 0, ["expected wwan, seen wifi"], ["asked without"]),
    "a link that is not named": (["GET", "http://link.test/"], 0, ["asked without --when"], ["--user"]),
}


@pytest.mark.parametrize("name", ASKED)
def test_explain_for_a_client_and_a_link(name, sallyport_binary, tmp_path):
    arguments, status, fragments, absent = ASKED[name]
    (tmp_path / "sallyport.toml").write_text(ASKERS)
    output = explain(tmp_path, *arguments, expect=status)
    assert all(fragment in output for fragment in fragments), output
    assert not any(fragment in output for fragment in absent), output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--user", "no-such-user"], "no user named 'no-such-user'"),
        (["--user", "4294967295"], "no user named '4294967295'"),
        (["--unit", "kiosk"], "did you mean 'kiosk.service'?"),
        (["--when", "lte"], "unknown, not-reachable, wwan, wifi or wired"),
        (["--when"], "'--when' needs a value"),
    ],
)
def test_explain_for_nobody_and_no_link(arguments, message, sallyport_binary, tmp_path):
    (tmp_path / "sallyport.toml").write_text(ASKERS)
    assert message in explain(tmp_path, "GET", "http://a.test/", *arguments, expect=2)


def test_explain_of_a_broken_configuration_fails(sallyport_binary, tmp_path):
    (tmp_path / "sallyport.toml").write_text("[proxy]\nlisen = []\n")
    assert diagnostics(explain(tmp_path, "GET", "http://a.test/", expect=1))


# env


def environment_of(shell_output: str, interpreter: list[str]) -> dict[str, str]:
    done = subprocess.run(
        [*interpreter, shell_output + "\nenv"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


@pytest.fixture
def two_ports(sallyport_binary, tmp_path) -> Path:
    path = tmp_path / "sallyport.toml"
    path.write_text('[proxy]\nlisten = ["[::1]:4129", "127.0.0.1:4128"]\n')
    return path


PROXY_VARIABLES = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"]


def test_env_points_a_shell_at_the_proxy(sallyport_binary):
    if Path("/etc/sallyport/sallyport.toml").exists():
        pytest.skip("the defaults are not what holds here: /etc/sallyport/sallyport.toml exists")
    for arguments in ((), ("--shell", "sh")):
        done = command("env", *arguments)
        assert done.returncode == 0
        variables = environment_of(done.stdout, ["sh", "-c"])
        assert {variables[name] for name in PROXY_VARIABLES} == {"http://127.0.0.1:3128"}


def test_env_follows_the_configuration(two_ports):
    done = command("env", "--config", two_ports)
    assert done.returncode == 0, done.stderr
    variables = environment_of(done.stdout, ["sh", "-c"])
    assert variables["http_proxy"] in ("http://[::1]:4129", "http://127.0.0.1:4128")


def test_env_for_fish(sallyport_binary):
    done = command("env", "--shell", "fish")
    assert done.returncode == 0
    for name in PROXY_VARIABLES:
        assert re.search(rf"^set -gx {name} ['\"]?http://[^ '\"]+['\"]?;?$", done.stdout, re.MULTILINE)


def test_env_is_understood_by_fish(sallyport_binary):
    need("fish")
    variables = environment_of(command("env", "--shell", "fish").stdout, ["fish", "-c"])
    assert set(PROXY_VARIABLES) <= set(variables)


def test_env_for_systemd(sallyport_binary):
    """As lines of a unit, or as lines of an EnvironmentFile: both name each variable once."""
    done = command("env", "--shell", "systemd")
    assert done.returncode == 0
    for name in PROXY_VARIABLES:
        assert (
            len(re.findall(rf'^(?:Environment="?)?{name}=http://[^ "]+"?$', done.stdout, re.MULTILINE)) == 1
        )


# Usage

USAGE = {
    "version": (["version"], 0, r"sallyport \d+\.\d+"),
    "--version": (["--version"], 0, r"sallyport \d+\.\d+"),
    "help": (["help"], 0, r"(?s)run.*check.*explain.*env.*version.*help"),
    "--help": (["--help"], 0, r"(?s)run.*check.*explain"),
    "help on a command": (["help", "check"], 0, r"(?s)check.*--strict"),
    "help on no command": (["help", "frobnicate"], 2, r"frobnicate"),
    "no command": ([], 2, r"(?i)help|usage"),
    "a command that there is not": (["frobnicate"], 2, r"frobnicate"),
    "an option that there is not": (["check", "--frobnicate"], 2, r"--frobnicate"),
    "an option without its value": (["run", "--config"], 2, r"--config"),
    "an argument too many": (["check", "one", "surplus"], 2, r"surplus"),
    "a file named twice": (["check", "-c", "one", "two"], 2, r"'--config one' and 'two' both name"),
    "two ways to the daemon": (["status", "-c", "a", "--socket", "b"], 2, r"'--config' and '--socket' both name"),
    "a command, almost": (["chekc"], 2, r"unknown command 'chekc'; did you mean 'check'\?"),
    "help on a command, almost": (["help", "statsu"], 2, r"did you mean 'status'\?"),
    "a part of ca, almost": (["ca", "exprot"], 2, r"init, activate, show or export, not 'exprot'; did you mean 'ca export'\?"),
    "an option, almost": (["check", "--stric"], 2, r"unknown option '--stric' of 'check'; did you mean '--strict'\?"),
    "an option of another command": (["env", "--strict"], 2, r"expected --config, --socket, --shell or --help"),
    "a letter that there is not": (["check", "-x"], 2, r"unknown option '-x'"),
    "a flag with a value": (["check", "--json=yes"], 2, r"'--json' takes no value"),
    "a value, almost": (["env", "--shell", "fis"], 2, r"did you mean 'fish'\?"),
    "explain of a name": (["explain", "a.test"], 2, r"did you mean 'https://a\.test' or 'http://a\.test'\?"),
    "explain of a name and a port": (["explain", "a.test:443"], 2, r"did you mean 'CONNECT a\.test:443'"),
    "where to read more": (["check", "--frobnicate"], 2, r"Try 'sallyport check --help'\."),
    "an argument too many for version": (["version", "surplus"], 2, r"surplus"),
    "explain of nothing": (["explain"], 2, r"(?i)method|url|explain"),
    "explain of what is no URL": (["explain", "GET", "nonsense"], 2, r"nonsense"),
    "explain of a bad method": (["explain", "G ET", "http://a.test/"], 2, r"(?i)method|G ET"),
    "a shell that there is not": (["env", "--shell", "tcsh"], 2, r"tcsh"),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage(name, sallyport_binary):
    arguments, status, expected = USAGE[name]
    done = command(*arguments)
    assert done.returncode == status, done.stdout + done.stderr
    output = done.stdout if status == 0 else done.stderr
    assert re.search(expected, output), f"{done.stdout!r} {done.stderr!r}"


def command_names() -> list[str]:
    return [entry["name"] for entry in json.loads(command("help", "--json").stdout)]


def test_every_command_has_help(sallyport_binary):
    assert "ca export" in command_names() and "explain" in command_names()
    for entry in json.loads(command("help", "--json").stdout):
        name = entry["name"].split()
        pages = [command(*name, "--help"), command(*name, "-h"), command("help", *name)]
        assert {(page.returncode, page.stderr) for page in pages} == {(0, "")}
        assert len({page.stdout for page in pages}) == 1
        text = pages[0].stdout
        assert text.startswith(f"usage: sallyport {entry['name']}")
        assert max(map(len, text.splitlines())) <= 100
        for option in entry["options"]:
            assert f" {option['name']}" in text and option["summary"] in text
        # What a command says of itself is what it takes.
        for option in entry["options"]:
            refused = command(*name, f"{option['name']}-not")
            assert refused.returncode == 2


def test_help_is_given_whatever_else_is_wrong(sallyport_binary):
    for arguments in (["check", "a", "b", "c", "--help"], ["status", "-h", "-c", "a", "--socket", "b"], ["ca", "-h"]):
        done = command(*arguments)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: ")


def test_the_file_is_named_in_four_ways(sallyport_binary, tmp_path):
    (tmp_path / "x.toml").write_text("[proxy]\nlisen = []\n")
    for arguments in (["x.toml"], ["-c", "x.toml"], ["-cx.toml"], ["--config=x.toml"], ["--", "x.toml"]):
        done = command("check", *arguments, cwd=tmp_path)
        assert done.returncode == 1 and done.stdout.startswith("x.toml:2:1: error: "), done


def test_explain_of_a_url_is_a_get(sallyport_binary, tmp_path):
    (tmp_path / "sallyport.toml").write_text(POLICY)
    assert explain(tmp_path, "http://api.test/v2/x") == explain(tmp_path, "GET", "http://api.test/v2/x")
    assert "no rule matches" in explain(tmp_path, "http://elsewhere.test/", expect=3)


def test_json_is_one_document(sallyport_binary, tmp_path):
    """Of a request in a tunnel that is intercepted, too."""
    (tmp_path / "sallyport.toml").write_text(
        f'[authority]\ndirectory = "{tmp_path}/authority"\n\n[[rule]]\nname = "seen"\nconnect = "intercept"\npaths = ["/*"]\n'
    )
    assert command("ca", "init", "--directory", tmp_path / "authority").returncode == 0
    for url in ("http://a.test/", "https://a.test/x"):
        done = command("explain", "--json", "-c", "sallyport.toml", url, cwd=tmp_path)
        found = json.loads(done.stdout)
        assert found["decision"] == "allow"
        assert found.get("inside", {}).get("request", "") == ("GET https://a.test:443/x" if "https" in url else "")
    for arguments in (["check", "--json", "sallyport.toml"], ["help", "--json"], ["ca", "show", "--json", "-c", "sallyport.toml"]):
        json.loads(command(*arguments, cwd=tmp_path).stdout)


UNREADABLE = {
    "a file": ('{ file = "secret" }', "'file'", "secret': Permission denied"),
    "a credential": ('{ credential = "api" }', "'credential'", "the credential 'api' of systemd"),
    "a variable": ('{ env = "NOT_HERE" }', "'env'", "your environment has no variable 'NOT_HERE'"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_secrets_that_only_the_service_may_read_are_notes(kind, sallyport_binary):
    """check and explain go on without them; run does not."""
    secret, key, cause = UNREADABLE[kind]
    directory = Path(tempfile.mkdtemp(prefix="sallyport-"))
    try:
        directory.chmod(0o755)
        (directory / "secret").write_text("very-secret")
        (directory / "secret").chmod(0o600)
        (directory / "s.toml").write_text(
            f'[proxy]\ndefault = "deny"\ncredentials = {secret}\n{RULE}hosts = ["a.test"]\n'
            'schemes = ["http"]\nupgrade = true\n'
            f'[rule.request]\nauthorization = {{ username = "ada", password = {secret} }}\n'
        )
        (directory / "s.toml").chmod(0o644)
        prefix = ()
        if kind == "a file":
            need("setpriv")
            prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
            if subprocess.run([*prefix, sallyport_binary, "version"], capture_output=True).returncode != 0:
                pytest.skip("no other user here that may run the program")

        def ask(*arguments) -> subprocess.CompletedProcess:
            return subprocess.run(
                [*prefix, sallyport_binary, *arguments], capture_output=True, text=True, cwd=directory,
                env=clean_environment(),
            )

        done = ask("check", "--strict", "s.toml")
        assert done.returncode == 0, done.stdout
        notes = re.findall(r"^s\.toml:\d+:\d+: note: (.*)$", done.stdout, re.MULTILINE)
        assert len(notes) == 2 and all("not readable by you: the service reads it" in note for note in notes)
        assert all(note.startswith(key) and cause in note for note in notes), notes
        assert done.stdout.endswith("0 errors, 0 warnings\n")
        done = ask("explain", "-c", "s.toml", "http://a.test/")
        assert done.returncode == 0 and "set Authorization: (value hidden)" in done.stdout
        assert "not readable by you" in done.stderr
        refused = ask("run", "-c", "s.toml")
        assert refused.returncode == 1 and "error: " in refused.stderr and "not started" in refused.stderr
    finally:
        shutil.rmtree(directory)


def test_a_port_that_is_taken_is_said_to_be_by_whom(sallyport_binary, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "s.toml").write_text(f'[proxy]\nlisten = ["127.0.0.1:{port}"]\n')
        done = command("run", "-c", "s.toml", cwd=tmp_path)
    assert done.returncode == 1
    program = Path("/proc/self/comm").read_text().strip()
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use by {program} (process {os.getpid()}, user " in done.stderr
    assert "change 'listen' in [proxy]" in done.stderr


def test_run_works_with_no_file_at_all(sallyport_binary, tmp_path):
    """The built-in defaults: a plain forward proxy on loopback. Only where port 3128 is free."""
    if os.path.exists("/etc/sallyport/sallyport.toml"):
        pytest.skip("/etc/sallyport/sallyport.toml exists")
    process = subprocess.Popen(
        [sallyport_binary, "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        cwd=tmp_path,
    )
    line = process.stdout.readline().decode()
    process.terminate()
    _, errors = process.communicate(timeout=20)
    if not line and b"in use" in errors:
        pytest.skip("port 3128 is taken")
    assert "127.0.0.1:3128" in line, errors
    assert process.returncode == 0


@pytest.fixture
def with_standard_file(tmp_path):
    """A function that gives a command's prefix: its /etc/sallyport/sallyport.toml is what `make` makes of a path."""

    def prefix(make) -> tuple[str, ...]:
        upper, work = tmp_path / "upper", tmp_path / "work"
        (upper / "sallyport").mkdir(parents=True)
        work.mkdir()
        make(upper / "sallyport/sallyport.toml")
        return with_mounts(f"mount -t overlay -o lowerdir=/etc,upperdir={upper},workdir={work} overlay /etc")

    return prefix


@pytest.mark.parametrize("make", [
    pytest.param(lambda path: path.symlink_to("gone.toml"), id="a link that leads nowhere"),
    pytest.param(lambda path: path.symlink_to(path.name), id="a link to itself"),
    pytest.param(lambda path: path.mkdir(), id="a directory"),
    pytest.param(lambda path: (path.parent.rmdir(), path.parent.write_text("")), id="a file in the place of its directory"),
])
def test_a_standard_file_that_cannot_be_read_is_not_taken_for_none(make, with_standard_file, sallyport_binary):
    """Without a policy everything would be allowed."""
    prefix = with_standard_file(make)
    for word, *more in (["check"], ["run"], ["explain", "GET", "http://a.test/"]):
        done = subprocess.run(
            [*prefix, sallyport_binary, word, *more], capture_output=True, text=True, timeout=20, env=clean_environment()
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert "/etc/sallyport/sallyport.toml" in done.stdout + done.stderr and "allowed" not in done.stdout


def test_a_reload_without_the_standard_file_changes_nothing(with_standard_file, sallyport_binary):
    policy = '[proxy]\nlisten = ["127.0.0.1:0"]\ndefault = "deny"\n[log]\nformat = "text"\n'
    prefix = with_standard_file(lambda path: path.write_text(policy))
    process = subprocess.Popen(
        [*prefix, sallyport_binary, "run"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(),
    )
    try:
        line = process.stdout.readline()
        port = int(re.search(r"127\.0\.0\.1:(\d+)", line)[1])
        os.unlink(f"/proc/{process.pid}/root/etc/sallyport/sallyport.toml")
        process.send_signal(signal.SIGHUP)
        told = process.stderr.readline()
        assert "error" in told and "/etc/sallyport/sallyport.toml" in told, told
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 403 ")
    finally:
        process.terminate()
        process.communicate(timeout=20)


# Answers that cannot be written, or are about a moment


@pytest.mark.parametrize("name", ["schema", "config", "version"])
def test_an_answer_that_cannot_be_written_is_a_failure(name, sallyport_binary):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sallyport_binary, name], stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment())
    assert done.returncode == 1 and "standard output" in done.stderr, done


@pytest.mark.parametrize("key", ["headers.set", "throttle.download", "answer.when"])
def test_help_on_a_key_as_people_write_it(key):
    done = command("help", key)
    assert done.returncode == 0 and f"{key.split('.')[1]} = " in done.stdout, done


ALLOWED = '[proxy]\ndefault = "deny"\n[[rule]]\nname = "r"\nhosts = ["a.example"]\n'
PARENT = '[routes.out]\nvia = "http://%s:8080"\n'
CHANGES = {
    "a rule that has ended": (ALLOWED, ALLOWED + "until = 2020-01-01\n", 1, "newly denied"),
    "a target": (
        ALLOWED + 'target = "https://one.example/"\n', ALLOWED + 'target = "https://two.example/"\n', 0,
        "target https://one.example/ → https://two.example/"),
    "a parent": (
        PARENT % "one.example" + ALLOWED + 'route = ["out"]\n', PARENT % "two.example" + ALLOWED + 'route = ["out"]\n',
        0, "via [http://one.example:8080] → [http://two.example:8080]"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_difference_that_is_in_no_rules_name(name, tmp_path):
    old, new, status, sentence = CHANGES[name]
    for file, text in (("old.toml", old), ("new.toml", new)):
        (tmp_path / file).write_text(text)
    done = command("diff", tmp_path / "old.toml", tmp_path / "new.toml")
    assert done.returncode == status and sentence in done.stdout, done


def test_check_warns_of_a_program_that_is_a_link(tmp_path):
    (tmp_path / "tool").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "tool")
    real = os.path.realpath(tmp_path / "tool")
    file = tmp_path / "s.toml"
    file.write_text(f'[[rule]]\nname = "r"\nusers = ["root"]\nprograms = ["{os.path.realpath(tmp_path)}/link"]\n')
    done = command("check", "-c", file)
    assert "is a link" in done.stdout and real in done.stdout, done


@pytest.mark.parametrize("action, status", [("deny", 3), ("allow", 0)])
def test_explain_of_a_reference_says_by_its_status_what_was_decided(action, status, sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=ADMIN + f'[[rule]]\nname = "r"\naction = "{action}"\n')
    origin = raw_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    raw_client(proxy).exchange(absolute(origin, "/x"))
    reference = proxy.access(lambda line: line["target"].endswith("/x"))["ref"]
    done = command("explain", reference, "--socket", proxy.configuration.parent / "admin.sock")
    assert done.returncode == status and reference in done.stdout, done


@pytest.mark.parametrize("place", ["include", "secret"])
def test_a_pipe_among_the_files_keeps_nothing_waiting(place, sallyport, tmp_path):
    """Whoever reads one waits for its writer; the daemon would answer nothing, and not even stop."""
    pipe = tmp_path / "late.toml"
    os.mkfifo(pipe)
    proxy = sallyport()
    text = proxy.configuration.read_text()
    if place == "include":
        proxy.configuration.write_text(f'include = ["{tmp_path}/*.toml"]\n{text}')
    else:
        proxy.configuration.write_text(text.replace("[proxy]\n", f'[proxy]\ncredentials = {{ file = "{pipe}" }}\n'))
    proxy.process.send_signal(signal.SIGHUP)
    said = proxy.log.wait_for(lambda line: line.get("message", "").startswith("reload: "))
    assert said["message"] == "reload: the configuration has errors; nothing has changed"
    done = command("check", "--config", proxy.configuration)
    assert done.returncode == 1 and f"{pipe}" in done.stdout + done.stderr
    assert "Not a regular file" in done.stdout + done.stderr
    proxy.terminate()
    assert proxy.wait_for_exit() == 0
