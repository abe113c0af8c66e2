"""`sallyport learn`: what it prints is a policy under which the same happens again, and nothing that was denied."""

import os
import re
import subprocess

import pytest

from history_world import MEMBER, open_directory, recording, run, STRANGER  # noqa: F401
from proxy import configuration_text
from reachability_world import ADMIN
from users_world import client_of  # noqa: F401

WATCH = """
[[rule]]
name = "no-ads"
hosts = ["**.ads.test"]
action = "deny"
"""


def learned(recorded, *arguments: str) -> str:
    result = run("learn", "--file", recorded.file, *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def check(directory, text: str) -> subprocess.CompletedProcess:
    file = directory / "try.toml"
    file.write_text(configuration_text('default = "deny"', text))
    return run("check", "--strict", file)


@pytest.fixture
def used(recording, web):
    recorded = recording(WATCH, "workers = 1")
    site = f"http://127.0.0.1:{web.port}"
    for path in ("/file.txt?token=1", "/users/1", "/users/2"):
        recorded.get(site + path)
    recorded.get(site + "/users/3", "HEAD")
    recorded.get(f"127.0.0.1:{web.port}", "CONNECT")
    recorded.get("http://x.ads.test/banner")
    recorded.records(6)
    recorded.site = site
    return recorded


def test_what_is_learned_is_a_policy_of_what_happened(used, web, tmp_path):
    text = learned(used)
    result = check(tmp_path, text)
    assert result.returncode == 0, result.stdout
    rules = [line for line in text.splitlines() if not line.startswith("#")]
    assert 'paths   = ["/file.txt", "/users/{}"]' in rules
    assert f"ports   = [{web.port}]" in rules and 'methods = ["GET"]' in rules and 'methods = ["HEAD"]' in rules
    assert "token" not in text and "**" not in text
    assert re.search(r"^# 3 times, last \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", text, re.MULTILINE)
    assert '# hosts   = ["x.ads.test"]' in text.splitlines()
    used.proxy.reload('workers = 1\ndefault = "deny"', ADMIN + f'[history]\nfile = "{used.file}"\n' + text)
    assert used.get(f"{used.site}/users/77").status == 404
    assert used.get(f"{used.site}/users/77", "DELETE").status == 403
    assert used.get(f"{used.site}/other").status == 403
    assert used.get("http://x.ads.test/banner").status == 403


def test_a_replay_of_what_was_learned_changes_nothing(used, tmp_path):
    policy = tmp_path / "new.toml"
    policy.write_text(configuration_text('default = "deny"', learned(used)))
    result = run("replay", "--config", policy, "--file", used.file)
    assert result.returncode == 0 and result.stdout.startswith("newly denied 0, newly allowed 0, of 6\n")


def test_users_have_rules_of_their_own(recording, client_of, web):
    recorded = recording(proxy="workers = 1")
    for user, path in ((MEMBER, "/a"), (STRANGER, "/b")):
        client = client_of(recorded.proxy, user)
        host = f"127.0.0.1:{web.port}"
        client.exchange(f"GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        client.close()
    recorded.records(2)
    text = learned(recorded)
    for user, path in ((MEMBER, "/a"), (STRANGER, "/b")):
        assert re.search(rf'users   = \[{user}\]\n(.*\n)*?paths   = \["{path}"\]', text)
    only = learned(recorded, "--user", str(MEMBER))
    assert f"[{MEMBER}]" in only and f"[{STRANGER}]" not in only


def test_a_file_is_written_and_replaced_only_as_it_was(used, tmp_path):
    file = tmp_path / "learned.toml"
    for _ in range(2):
        result = run("learn", "--file", used.file, "--write", file)
        assert result.returncode == 0, result.stderr
        assert "rules in" in result.stderr and result.stdout == ""
    text = file.read_text()
    assert text.startswith("# sallyport learn --write replaces this file unless it has been changed. sha256:")
    assert check(tmp_path, text).returncode == 0
    for changed in (text + "\n", text.replace('"/file.txt"', '"*"'), text.replace("# 1 time", "# one time")):
        file.write_text(changed)
        result = run("learn", "--file", used.file, "--write", file)
        assert result.returncode == 1 and "was changed by hand since it was learned" in result.stderr
        assert file.read_text() == changed
    file.write_text("[[rule]]\nname = 'mine'\n")
    result = run("learn", "--file", used.file, "--write", file)
    assert result.returncode == 1 and "is not of 'sallyport learn', and stays as it is" in result.stderr


def test_nothing_to_learn_is_said(recording):
    recorded = recording(proxy='workers = 1\ndefault = "deny"')
    recorded.get("http://a.test/")
    recorded.records(1)
    result = run("learn", "--file", recorded.file)
    assert result.returncode == 1 and "nothing was allowed in this time" in result.stderr
    result = run("learn", "--file", recorded.file, "--for", "allow-default")
    assert result.returncode == 2 and "takes deny-default" in result.stderr
