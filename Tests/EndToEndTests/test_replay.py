"""`sallyport replay`: what another configuration would change, equal to what the daemon decides, a million at a time."""

import json
import random
import resource
import sqlite3
import subprocess
import time

import pytest

from history_world import open_directory, recording, run  # noqa: F401
from proxy import binary, clean_environment, configuration_text
from reachability_world import ADMIN

OPEN = """
[[rule]]
name = "open"
hosts = ["a.test"]
"""
CLOSED = """
[[rule]]
name = "closed"
hosts = ["a.test"]
paths = ["/secret/*"]
action = "deny"
[[rule]]
name = "ads"
hosts = ["**.ads.test"]
"""


@pytest.fixture
def recorded(recording):
    recorded = recording(OPEN, 'workers = 1\ndefault = "deny"')
    for url in ("http://a.test/secret/1", "http://a.test/secret/1?x", "http://a.test/2", "http://x.ads.test/3"):
        recorded.get(url)
    recorded.get("a.test:443", "CONNECT")
    recorded.get("a.test:25", "CONNECT")
    recorded.records(6)
    return recorded


def replay(recorded, policy: str, *arguments: str, proxy: str = ""):
    file = recorded.file.parent / "new.toml"
    file.write_text(configuration_text(proxy, policy))
    return run("replay", "--config", file, "--file", recorded.file, *arguments)


def test_what_would_change_is_said(recorded):
    result = replay(recorded, CLOSED)
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "newly denied 2, newly allowed 2, of 6"
    begin = next(index for index, line in enumerate(lines) if line.startswith("newly denied by"))
    assert "newly denied by rule 'closed' (" in lines[begin] and "): 2, last " in lines[begin]
    assert lines[begin + 1] == "  root; before: rule 'open'"
    assert lines[begin + 2] == "  2  GET http://a.test/secret/1"
    assert "newly allowed by rule 'ads'" in result.stdout
    assert "  1  GET http://x.ads.test/3" in lines
    assert result.stdout.index("newly denied by") < result.stdout.index("newly allowed by")


def test_a_program_reads_the_same(recorded):
    report = json.loads(replay(recorded, CLOSED, "--json").stdout)
    assert (report["total"], report["newly_denied"], report["newly_allowed"], report["inexact"]) == (6, 2, 2, 0)
    first = report["groups"][0]
    assert (first["change"], first["rule"], first["count"], first["user"]) == ("newly-denied", "closed", 2, "root")
    assert first["requests"] == [{"request": "GET http://a.test/secret/1", "count": 2}]


def test_the_policy_of_then_changes_nothing(recorded):
    result = replay(recorded, OPEN, proxy='default = "deny"')
    assert result.returncode == 0 and result.stdout == "newly denied 0, newly allowed 0, of 6\n"
    result = replay(recorded, OPEN, "--since", "2030-01-01", proxy='default = "deny"')
    assert result.stdout == "newly denied 0, newly allowed 0, of 0\n"


def test_a_configuration_with_errors_is_not_tried(recorded):
    result = replay(recorded, "[[rule]]\nnam = 1\n")
    assert result.returncode == 1 and "unknown key 'nam'" in result.stderr and result.stdout == ""
    result = run("replay")
    assert result.returncode == 2 and "expected --config FILE" in result.stderr


def test_the_history_is_that_of_the_configuration(recorded):
    result = replay(recorded, OPEN)
    named = recorded.file.parent / "named.toml"
    named.write_text(configuration_text("", f'[history]\nfile = "{recorded.file}"\n{OPEN}'))
    assert run("replay", "-c", named).stdout.splitlines()[0] == result.stdout.splitlines()[0]


def a_policy(chance: random.Random) -> str:
    hosts = ["a.test", "*.test", "**.b.test", "c.b.test", "127.0.0.0/8", "*"]
    text = f'default = "{chance.choice(["allow", "deny"])}"\nworkers = 1\n'
    rules = ""
    for number in range(chance.randrange(1, 6)):
        rules += f'[[rule]]\nname = "r{number}"\nhosts = ["{chance.choice(hosts)}"]\n'
        if chance.random() < 0.4:
            rules += f'methods = ["{chance.choice(["GET", "POST"])}"]\n'
        if chance.random() < 0.4:
            rules += f'paths = ["{chance.choice(["/a/*", "/b", "*/x", "/A/*"])}"]\n'
        if chance.random() < 0.3:
            rules += f"ports = [{chance.choice([80, 81, 443])}]\n"
        if chance.random() < 0.2:
            rules += f'users = [{chance.choice([0, 4242])}]\n'
        if chance.random() < 0.4:
            rules += 'action = "deny"\n'
    return text, rules


def requests(chance: random.Random) -> list[tuple[str, str]]:
    made = []
    for _ in range(40):
        host = chance.choice(["a.test", "b.test", "c.b.test", "127.0.0.9"])
        port = chance.choice(["", ":81"])
        path = chance.choice(["/a/1", "/a/x", "/b", "/B", "/a//b", "/a/%2e%2e/b", "/"])
        made.append((chance.choice(["GET", "POST", "HEAD"]), f"http://{host}{port}{path}"))
    made += [("CONNECT", f"{host}:{port}") for host in ("a.test", "c.b.test") for port in (443, 444)]
    return made


@pytest.mark.parametrize("seed", range(4))
def test_replay_is_what_the_daemon_decides(seed, recording):
    """Random requests under one random policy, then under another: the replay says what the second one did."""
    chance = random.Random(seed)
    first, second = a_policy(chance), a_policy(chance)
    asked = requests(chance)
    decided = []
    recorded = recording(first[1], first[0])
    table = f'[history]\nfile = "{recorded.file}"\n'
    for policy in (first, second):
        recorded.proxy.reload(policy[0], ADMIN + table + policy[1])
        count = len(decided) + len(asked)
        for method, url in asked:
            recorded.get(url, method)
        decided += recorded.records(count)[len(decided) :]
    # A client may have its answer before the exchange is written down: two that follow each other may change places.
    before, after = (
        sorted(records, key=lambda record: [str(record.get(name)) for name in ("method", "scheme", "host", "port", "path")])
        for records in (decided[: len(asked)], decided[len(asked) :])
    )
    file = recorded.file.parent / "second.toml"
    file.write_text(configuration_text(*second))
    report = json.loads(run("replay", "--config", file, "--file", recorded.file, "--json").stdout)
    denied = sum(
        (one["decision"], other["decision"]) == ("allow", "deny") for one, other in zip(before, after, strict=True)
    )
    allowed = sum(
        (one["decision"], other["decision"]) == ("deny", "allow") for one, other in zip(before, after, strict=True)
    )
    assert (report["newly_denied"], report["newly_allowed"]) == (denied, allowed), (first, second)


def test_a_million_decisions_take_less_than_twenty_seconds(recorded):
    recorded.end("terminate")
    database = sqlite3.connect(recorded.file)
    first = database.execute("SELECT max(id) FROM exchanges").fetchone()[0] + 1
    kinds = [row[0] for row in database.execute("SELECT id FROM kinds")]
    database.executemany(
        "INSERT INTO exchanges VALUES (?, ?, 0, ?, 200, 100, 1000, 5)",
        ((first + number, kinds[number % len(kinds)], f"/p/{number // 3}") for number in range(1_000_000)),
    )
    database.commit()
    database.close()
    file = recorded.file.parent / "new.toml"
    file.write_text(configuration_text("", CLOSED))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    result = subprocess.run(
        [binary(), "replay", "--config", file, "--file", recorded.file],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"1,000,000 decisions: {seconds:.1f} s of CPU, {time.monotonic() - begun:.1f} s")
    assert "of 1000006\n" in result.stdout
    assert seconds < 20
