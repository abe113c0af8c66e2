"""The commands that ask the daemon: status, reload, events, reachability, explain REF."""

import json
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from admin_client import TIME
from admin_world import administered, DENY, rewrite, used
from journal import DEADLINE_SECONDS, readable
from problems import check_problem
from proxy import Proxy, binary, clean_environment, command
from test_policy import get


def test_commands_of_a_daemon_that_runs(used):
    for where in (["--socket", used.admin.path], ["--config", used.configuration]):
        done = command("status", *where)
        assert done.returncode == 0 and done.stderr == ""
        assert re.search(r"exchanges +14: 9 done", done.stdout) and not done.stdout.startswith("HTTP")
        done = command("status", "--json", *where)
        assert done.returncode == 0 and json.loads(done.stdout)["exchanges"]["total"] == 14
        done = command("reload", "--json", *where)
        assert done.returncode == 0 and json.loads(done.stdout)["rules"] == 6
        done = command("reload", *where)
        assert (done.returncode, done.stderr) == (0, "")
        assert "6" in done.stdout and not done.stdout.startswith("{"), f"no line for a person: {done.stdout}"


def test_reload_prints_the_errors(administered):
    proxy = administered(DENY)
    rewrite(proxy, "[nonsense]\n[rubbish]\n")
    done = command("reload", "--socket", proxy.admin.path)
    output = done.stdout + done.stderr
    assert done.returncode == 1
    assert len(re.findall(r"^\S*sallyport\.toml:\d+:\d+: error: ", output, re.MULTILINE)) == 2, output
    done = command("reload", "--json", "--socket", proxy.admin.path)
    assert done.returncode == 1 and len(json.loads(done.stdout)["errors"]) == 2, done.stdout + done.stderr


@pytest.mark.parametrize("options", [["status"], ["reload"]], ids=" ".join)
def test_commands_where_the_configuration_has_become_wrong(options, administered):
    """They are asked most just then: of the file they need no more than [admin], and it is the daemon that answers."""
    proxy = administered(DENY)
    rewrite(proxy, "[nonsense]\n")
    assert proxy.admin.ask("/v1/reload", "POST").status == 422
    failure = proxy.admin.json("/v1/status")["policy"]["failure"]
    done = command(*options, "--config", proxy.configuration)
    assert "nonsense" in done.stdout + done.stderr
    if options == ["status"]:
        assert done.returncode == 0 and proxy.authority in done.stdout, done.stdout + done.stderr
    else:
        assert done.returncode == 1
        assert proxy.admin.json("/v1/status")["policy"]["failure"]["at"] > failure["at"], "the daemon was not asked"


@pytest.mark.parametrize(
    "options",
    [["status"], ["reload"], ["events"], ["reachability"], ["reachability", "--watch", "a.test"], ["explain", "AAAAAA"]],
)
def test_commands_without_a_daemon(options, sallyport_binary, tmp_path):
    done = command(*options, "--socket", tmp_path / "nobody.sock")
    assert done.returncode == 1 and done.stdout == ""
    assert str(tmp_path / "nobody.sock") in done.stderr
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead.sock"))
    dead.close()
    done = command(*options, "--socket", tmp_path / "dead.sock")
    assert done.returncode == 1 and "dead.sock" in done.stderr and "refused" in done.stderr.lower()


ADMIN_USAGE = [
    ["status", "surplus"],
    ["status", "--sockt", "x"],
    ["status", "--socket"],
    ["reload", "surplus"],
    ["reload", "--socket"],
    ["events", "surplus"],
    ["events", "--sock"],
    ["events", "--kind"],
    ["status", "--kind", "reload"],
    ["reachability", "a.test", "surplus"],
    ["reachability", "no..host"],
    ["reachability", "--watched"],
    ["explain", "--socket", "a"],
    ["explain", "AAAAAA", "surplus", "more"],
]


@pytest.mark.parametrize("arguments", ADMIN_USAGE, ids=" ".join)
def test_usage_of_the_commands(arguments, sallyport_binary):
    done = command(*arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr, done.stdout + done.stderr


def test_explain_of_what_is_not_remembered(administered):
    proxy = administered()
    for reference in ("AAAAAA", "zz"):
        done = command("explain", "--socket", proxy.admin.path, reference)
        assert done.returncode in ((1,) if reference == "AAAAAA" else (1, 2))
        assert done.stdout == "" and "reference" in done.stderr
        assert not done.stderr.startswith("{"), f"no line for a person: {done.stderr}"


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_the_events_command(options, administered, raw_client):
    proxy = administered(DENY)
    watching = subprocess.Popen(
        [binary(), "events", "--socket", proxy.admin.path, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    lines = []

    def read() -> None:
        for line in watching.stdout:
            lines.append(line.decode())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    # Nothing says when it is watching, which may be in the middle of a request: they are sent until one shows whole.
    end = time.monotonic() + DEADLINE_SECONDS
    while not any("begun" in line for line in lines):
        assert time.monotonic() < end, f"no request was seen to begin: {lines}"
        check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(DEADLINE_SECONDS) in (0, 130, -signal.SIGINT)
    reader.join(DEADLINE_SECONDS)
    watching.stdout.close()
    watching.stderr.close()


def test_the_events_command_ends_with_the_daemon_and_with_its_reader(administered, raw_client):
    proxy = administered(DENY)
    watching = subprocess.Popen(
        [binary(), "events", "--socket", proxy.admin.path], stdout=subprocess.PIPE, env=clean_environment()
    )
    end = time.monotonic() + DEADLINE_SECONDS
    while not readable(watching.stdout, 0.01):
        assert time.monotonic() < end
        raw_client(proxy).exchange(get("x.ads.test", 80))
    proxy.terminate()
    watching.communicate(timeout=DEADLINE_SECONDS)
    assert watching.returncode in (0, 1)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_events_that_cannot_be_written_end_the_command(form, administered, raw_client):
    proxy = administered(DENY)
    with open("/dev/full", "w") as full:
        watching = subprocess.Popen(
            [binary(), "events", "--socket", proxy.admin.path, *form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
    end = time.monotonic() + DEADLINE_SECONDS
    while watching.poll() is None:
        assert time.monotonic() < end, "it goes on, and nobody can read what it prints"
        raw_client(proxy).exchange(get("x.ads.test", 80))
    assert "standard output" in watching.communicate()[1] and watching.returncode == 1


def watching(proxy: Proxy, *arguments: str) -> subprocess.Popen:
    """A command that goes on until it is interrupted; its output as lines."""
    return subprocess.Popen(
        [binary(), *arguments, "--socket", proxy.admin.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )


def test_events_of_some_kinds(administered):
    proxy = administered(DENY)
    command_of_events = watching(proxy, "events", "--kind", "reload")
    end = time.monotonic() + DEADLINE_SECONDS
    # Nothing says when it is watching: the configuration is read again until that shows.
    while not readable(command_of_events.stdout, 0.01):
        assert time.monotonic() < end
        assert proxy.admin.ask("/v1/reload", "POST").status == 200
    line = command_of_events.stdout.readline()
    assert re.fullmatch(rf"reload +{TIME.pattern} done=true rules=1\n", line), line
    command_of_events.send_signal(signal.SIGINT)
    command_of_events.communicate(timeout=DEADLINE_SECONDS)


@pytest.mark.parametrize(
    "option, value, said",
    [
        ("--ref", "zz", "expected a reference of six characters as 'ref', found 'zz'"),
        ("--rule", "no-ad", "no rule of the policy in force is named 'no-ad'; did you mean 'no-ads'?"),
        ("--user", "nosuch", "'--user': there is no user named 'nosuch'"),
    ],
)
def test_events_that_cannot_come(administered, option, value, said):
    """Nobody waits for ever for the events of a name that is misspelt."""
    done = command("events", option, value, "--socket", administered(DENY).admin.path)
    assert done.returncode != 0 and said in done.stderr, done


def test_events_of_a_kind_that_there_is_not(administered):
    done = command("events", "--kind", "reload,nonsense", "--socket", administered().admin.path)
    assert done.returncode == 1 and done.stdout == "" and "nonsense" in done.stderr and "pin-mismatch" in done.stderr
