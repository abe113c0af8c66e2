"""The history: what is in it, who may read it, what an end of the daemon leaves, and what keeps it from being written."""

import contextlib
import csv
import fcntl
import io
import json
import os
import pty
import re
import shutil
import sqlite3
import struct
import subprocess
import termios

import pytest

from admin_client import AdminClient
from conftest import with_mounts
from history_world import GROUP, MEMBER, open_directory, Recording, recording, run, STRANGER  # noqa: F401
from journal import DEADLINE_SECONDS
from proxy import binary, clean_environment
from reachability_world import ADMIN

DENY = 'workers = 2\ndefault = "deny"'
RULES = """
[[rule]]
name = "open"
hosts = ["127.0.0.1", "a.test"]
[[rule]]
name = "no-ads"
hosts = ["**.ads.test"]
action = "deny"
"""
NAMES = (
    "ref method status user program rule place decision reason outcome route protocol bytes_in bytes_out total_ms"
)


def test_an_exchange_is_recorded_as_the_log_has_it(recording, web):
    recorded = recording(RULES, 'workers = 1\ndefault = "deny"')
    recorded.get(f"http://127.0.0.1:{web.port}/file.txt?secret=query")
    recorded.get("http://x.ads.test/banner")
    recorded.get("b.test:443", "CONNECT")
    found = recorded.records(3)
    lines = [recorded.proxy.access_of(record["ref"]) for record in found]
    for record, line in zip(found, lines):
        assert {name: record.get(name) for name in NAMES.split()} == {name: line[name] for name in NAMES.split()}
        assert (record["time"], record["target"]) == (line["time"], line["target"])
    allowed, denied, tunnel = found
    assert (allowed["scheme"], allowed["host"], allowed["path"]) == ("http", "127.0.0.1", "/file.txt")
    assert allowed["upstream"] == "127.0.0.1" and "secret" not in json.dumps(found)
    assert (denied["decision"], denied["reason"], denied["rule"]) == ("deny", "rule-denies", "no-ads")
    assert (tunnel["host"], tunnel["port"], tunnel["decision"]) == ("b.test", 443, "deny")
    assert "path" not in tunnel and "rule" not in tunnel


def test_no_history_without_a_table(sallyport, open_directory):
    proxy = sallyport(policy=ADMIN)
    result = run("log", "-c", proxy.configuration)
    assert result.returncode == 1
    assert "has no [history], so nothing is recorded: add the table and reload" in result.stderr
    assert "sallyport_history" not in proxy_metrics(proxy)


def proxy_metrics(proxy) -> str:
    return AdminClient(proxy.configuration.parent / "admin.sock").text("/metrics")


# MARK: Ends


def test_a_stop_loses_nothing(recording):
    recorded = recording(proxy=DENY)
    recorded.many(700)
    recorded.end("terminate")
    assert len(recorded.read()) == 700
    assert not list(recorded.file.parent.glob("history.db-*"))


def test_a_kill_loses_only_what_was_not_written_yet(recording):
    recorded = recording(proxy=DENY)
    recorded.many(300)
    recorded.records(300)
    recorded.end("kill")
    assert len(recorded.read()) == 300
    again = recording(proxy=DENY)
    again.many(5)
    again.end("terminate")
    assert len(again.read()) == 305


def test_status_and_metrics_say_how_much_there_is(recording):
    recorded = recording(proxy=DENY)
    recorded.many(3)
    recorded.records(3)
    page = proxy_metrics(recorded.proxy)
    assert 'sallyport_history_exchanges_total{result="written"} 3\n' in page
    assert 'sallyport_history_exchanges_total{result="dropped"} 0\n' in page
    assert "sallyport_history_failing 0\n" in page
    status = run("status", "-c", recorded.configuration).stdout
    assert f"of 512.0 MiB in {recorded.file}, the last 0 s\n" in status.replace("the last 1 s", "the last 0 s")


@pytest.mark.parametrize("way", ["moved", "removed"])
def test_a_file_that_is_gone_is_begun_again(way, recording):
    """Log rotation, or somebody who cleans up."""
    recorded = recording(proxy=DENY)
    recorded.many(3)
    recorded.records(3)
    moved = recorded.file.with_name("yesterday.db")
    if way == "moved":
        recorded.file.rename(moved)
    else:
        recorded.file.unlink()
    recorded.many(5)
    entry = recorded.proxy.log.wait_for(lambda line: "was moved or removed" in line.get("message", ""))
    assert str(recorded.file) in entry["message"] and entry["level"] == "warning"
    assert len(recorded.records(5)) == 5
    recorded.end("terminate")
    assert len(recorded.read()) == 5
    if way == "moved":
        moved.rename(recorded.file)
        assert len(recorded.read()) == 3


def test_a_file_that_somebody_else_prepared_is_not_used(recording, open_directory):
    file = open_directory / "history.db"
    file.touch(mode=0o644)
    os.chown(file, STRANGER, STRANGER)
    recorded = recording(proxy=DENY)
    recorded.many(1)
    entry = recorded.proxy.log.wait_for(lambda line: "it belongs to another user" in line.get("message", ""))
    assert str(file) in entry["message"] and file.stat().st_size == 0


# MARK: Who may read it


def check_readers(recorded) -> None:
    recorded_file = recorded.file
    os.chown(recorded_file, 0, GROUP)
    for beside in recorded_file.parent.glob("history.db-*"):
        os.chown(beside, 0, GROUP)
    result = recorded.log("--json", user=MEMBER, group=GROUP)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 4
    refused = recorded.log(user=STRANGER)
    assert refused.returncode == 1 and f"members of the group '{GROUP}' may" in refused.stderr


@pytest.mark.parametrize("moment", ["while it runs", "after a stop", "after a kill"])
def test_members_of_the_group_read_it(moment, recording):
    if os.geteuid() != 0 or not can_be_others():
        pytest.skip("needs root, to be several users")
    recorded = recording(proxy=DENY)
    recorded.many(4)
    recorded.records(4)
    assert recorded.file.stat().st_mode & 0o777 == 0o640
    if moment != "while it runs":
        recorded.end("terminate" if moment == "after a stop" else "kill")
    check_readers(recorded)


def can_be_others() -> bool:
    try:
        return subprocess.run(["true"], user=MEMBER, group=GROUP, extra_groups=[]).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


# MARK: What keeps it from being written


def test_another_programs_file_is_left_alone(sallyport, open_directory):
    file = open_directory / "accounts"
    file.write_text("nothing of ours\n" * 100)
    proxy = sallyport(proxy=DENY, policy=f'{ADMIN}[history]\nfile = "{file}"\n')
    entry = proxy.log.wait_for(lambda entry: "history" in entry.get("message", ""))
    assert entry["level"] == "warning" and "is no history of this version; it is left as it is" in entry["message"]
    assert file.read_text() == "nothing of ours\n" * 100
    result = run("log", "--file", file)
    assert result.returncode == 1 and "is no history of sallyport" in result.stderr
    status = run("status", "-c", proxy.configuration).stdout
    assert "is no history of this version" in status


def test_a_full_disk_ends_the_history_and_nothing_else(sallyport, open_directory):
    disk = open_directory / "disk"
    disk.mkdir()
    table = f'[history]\nfile = "{disk}/h.db"\n'
    proxy = sallyport(proxy=DENY, policy=ADMIN + table, prefix=with_mounts(f"mount -t tmpfs -o size=1m none {disk}"))
    recorded = Recording(proxy, disk / "h.db")
    recorded.many(20)
    filler = f"/proc/{proxy.process.pid}/root{disk}/filler"
    fill(filler)
    path = "http://refused.test/" + "p" * 900
    while not recorded.warnings():
        recorded.many(50, path)
    recorded.many(200, path)
    assert "what is decided is not recorded until that works again" in recorded.warnings()[0]
    assert "sallyport_history_failing 1\n" in proxy_metrics(proxy)
    os.unlink(filler)
    proxy.reload(DENY, ADMIN + table + 'keep = "7d"\n')
    recorded.many(3)
    entry = proxy.log.wait_for(lambda entry: "is written again" in entry.get("message", ""))
    assert re.search(r"is written again, without \d+ exchanges? of the time between", entry["message"])
    assert len(recorded.warnings()) == 1


def fill(path: str) -> None:
    """Takes all the room that is left on a disk."""
    with open(path, "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass


def test_a_reload_begins_moves_and_ends_it(sallyport, open_directory):
    first, second = open_directory / "first.db", open_directory / "second.db"
    proxy = sallyport(proxy=DENY, policy=ADMIN)
    recorded = Recording(proxy, first)
    recorded.many(1)
    for file in (first, second):
        proxy.reload(DENY, f'{ADMIN}[history]\nfile = "{file}"\n')
        recorded.file = file
        recorded.many(2)
    recorded.records(2)
    proxy.reload(DENY, ADMIN)
    recorded.many(4)
    proxy.terminate()
    proxy.wait_for_exit()
    for file in (first, second):
        recorded.file = file
        assert len(recorded.read()) == 2


# MARK: Questions


@pytest.fixture
def asked(recording):
    recorded = recording(RULES, 'workers = 1\ndefault = "deny"')
    for url in ("http://x.ads.test/1", "http://y.ads.test/2", "http://x.ads.test/3", "http://c.test/4"):
        recorded.get(url)
    recorded.records(4)
    return recorded


def paths(recorded, *arguments: str) -> list[str]:
    return [record["path"] for record in recorded.read(*arguments)]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ("", "/1 /2 /3 /4"),
        ("--host x.ads.test", "/1 /3"),
        ("--host **.ads.test", "/1 /2 /3"),
        ("--host c.test --host y.ads.test", "/2 /4"),
        ("--rule no-ads", "/1 /2 /3"),
        ("--rule -", "/4"),
        ("--denied", "/1 /2 /3 /4"),
        ("--user 0", "/1 /2 /3 /4"),
        ("--user nobody", ""),
        ("--unit ssh.service", ""),
        ("--since 1h", "/1 /2 /3 /4"),
        ("--until 1h", ""),
        ("--since 2030-01-01", ""),
        ("--slow 1h", ""),
        ("--slow 99999999999d", ""),
        ("--limit 2", "/3 /4"),
        ("--limit 0", "/1 /2 /3 /4"),
        ("--host **.ads.test --limit 1", "/3"),
    ],
)
def test_selections(arguments, expected, asked):
    assert paths(asked, *arguments.split()) == expected.split()


def test_counts(asked):
    table = asked.log("--by", "host,rule").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["COUNT", "2", "1", "1"]
    assert table[1].endswith("  x.ads.test  no-ads") and table[2].split()[-2:] == ["c.test", "-"]
    counts = asked.read("--by", "rule")
    assert [(count["rule"], count["count"], count["refused"]) for count in counts] == [("no-ads", 3, 3), (None, 1, 1)]
    rows = list(csv.DictReader(io.StringIO(asked.log("--by", "rule", "--csv").stdout)))
    assert [(row["rule"], row["count"]) for row in rows] == [("no-ads", "3"), ("", "1")]
    assert len(asked.read("--by", "path", "--limit", "2")) == 2


def test_comma_separated_values(asked):
    rows = list(csv.DictReader(io.StringIO(asked.log("--csv").stdout)))
    for row, record in zip(rows, asked.read(), strict=True):
        assert {name: text for name, text in row.items() if text} == {
            name: f"{value:.3f}" if name == "total_ms" else str(value) for name, value in record.items() if name != "scheme"
        }


def test_a_table_fits_the_terminal(asked):
    wide = max(len(line) for line in asked.log().stdout.splitlines())
    assert wide > 80
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    subprocess.run(
        [binary(), "log", "--file", asked.file],
        stdout=terminal,
        stdin=subprocess.DEVNULL,
        env=clean_environment(),
        timeout=DEADLINE_SECONDS,
    )
    os.close(terminal)
    text = b""
    try:
        while part := os.read(main, 4096):
            text += part
    except OSError:
        pass
    os.close(main)
    lines = text.decode().splitlines()
    assert len(lines) == 5 and max(map(len, lines)) == 80 and all(line.endswith("…") for line in lines[1:])


def test_nothing_that_is_printed_is_obeyed_by_a_terminal(recording, tmp_path):
    recorded = recording(proxy=DENY)
    program = tmp_path / "\x1b[31mred\n"
    shutil.copy(shutil.which("curl") or pytest.skip("not installed: curl"), program)
    for _ in range(2):  # the first is decided before the program is known
        subprocess.run([program, "-s", "-x", recorded.proxy.url, "http://a.test/"], stdout=subprocess.DEVNULL)
    recorded.records(2)
    for form in ([], ["--json"], ["--csv"], ["--by", "program"], ["--by", "program", "--csv"]):
        text = recorded.log(*form).stdout
        assert "\x1b" not in text
    assert "\\u001b[31mred\\n" in recorded.log("--by", "program").stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--since yesterday", "'--since': expected a time before now such as 7d"),
        ("--since 1h --until 2h", "'--since' is not before '--until'"),
        ("--host a*.test", "'--host': 'a*.test' has a wildcard in a place where none may stand"),
        ("--by hosts", "'--by': expected client, uid,"),
        ("--by hosts", "did you mean 'host'?"),
        ("--limit -1", "'--limit': expected a number from 0"),
        ("--slow fast", "'--slow': expected a duration such as 1s, found 'fast'"),
        ("--json --csv", "are two forms"),
        ("-c x --file y", "both name the history"),
        ("something", "unexpected 'something'"),
    ],
)
def test_wrong_usage_is_said(arguments, message):
    result = run("log", *arguments.split())
    assert result.returncode == 2 and message in result.stderr


DAMAGES = {
    "a time without end": "total_ms = 1e300",
    "a time before any": "total_ms = -1e300",
    "no time": "total_ms = 'x'",
    "sizes": f"bytes_in = {2**63 - 1}, bytes_out = {-(2**63)}",
    "a status": f"status = {2**63 - 1}, ref = {2**63 - 1}",
    "an end in a far future": f"id = {2**63 - 1} - id",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_ends_no_command(damage, asked, tmp_path):
    """Whatever its rows hold: what can be shown is shown."""
    file = tmp_path / "history.db"
    source, target = sqlite3.connect(asked.file), sqlite3.connect(file)
    with contextlib.closing(source), contextlib.closing(target):
        source.backup(target)
        target.execute(f"UPDATE exchanges SET {DAMAGES[damage]}")
        target.commit()
    for arguments in ("", "--json", "--csv", "--by day", "--by host --json", "--by path --csv", "--slow 1s", "--since 1h"):
        assert run("log", "--file", file, *arguments.split()).returncode == 0, arguments
    assert run("learn", "--file", file).returncode in (0, 1)
    assert run("replay", "--file", file, "--config", asked.configuration).returncode in (0, 1)


def test_a_pipe_is_no_history(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for command in ("log", "learn"):
        result = run(command, "--file", tmp_path / "pipe")
        assert result.returncode == 1 and "no regular file" in result.stderr


def test_a_file_that_is_not_there_is_said(open_directory):
    result = run("log", "--file", open_directory / "none.db")
    assert result.returncode == 1 and "there is no history at" in result.stderr
