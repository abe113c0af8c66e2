"""[[expect]]: `sallyport test` says which expectations fail and why, and no daemon takes a configuration with one.

What an expectation says of a request is compared with what the running daemon does with it.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import need
from proxy import clean_environment, command

POLICY = """
[proxy]
default = "deny"

[[rule]]
name    = "no-admin"
hosts   = ["**.shop.example"]
schemes = ["http"]
paths   = ["/admin/*"]
action  = "deny"
reason  = "ask the owners"

[[rule]]
name    = "shop"
hosts   = ["**.shop.example"]
schemes = ["http"]

[rule.request]
headers.set = { X-Client = "kiosk-7" }
"""
HOLDS = """
[[expect]]
request = "http://shop.example/admin/x"
verdict = "deny"
rule    = "no-admin"
"""
FAILS = """
[[expect]]
name    = "all of the shop"
request = "POST http://www.shop.example/admin/x"
verdict = "allow"
"""
WHY = "denied by rule 'no-admin' (sallyport.toml:5)"


def write(directory: Path, text: str) -> Path:
    path = directory / "sallyport.toml"
    path.write_text(text)
    return path


def test_all_hold(tmp_path):
    write(tmp_path, POLICY + HOLDS)
    done = command("test", "sallyport.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 expectation holds\n", "")
    done = command("test", "-c", "sallyport.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"expectations": 1, "failed": 0, "unchecked": [], "failures": []}


def test_there_are_none(tmp_path):
    write(tmp_path, POLICY)
    done = command("test", "sallyport.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "no expectations: the configuration has no [[expect]]\n")


def test_one_fails(tmp_path):
    write(tmp_path, POLICY + HOLDS + FAILS)
    done = command("test", "sallyport.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == (
        "sallyport.toml:26: POST http://www.shop.example/admin/x (all of the shop)\n"
        '  expected verdict = "allow", seen "deny"\n'
        f"  {WHY}\n"
        "  reason shown to the client: ask the owners\n"
        "1 of 2 expectations failed\n"
    )
    done = command("test", "sallyport.toml", "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stdout) == {
        "expectations": 2,
        "failed": 1,
        "unchecked": [],
        "failures": [
            {
                "file": "sallyport.toml",
                "line": 26,
                "name": "all of the shop",
                "request": "POST http://www.shop.example/admin/x",
                "failures": [{"expected": 'verdict = "allow"', "seen": '"deny"'}],
                "why": [WHY, "reason shown to the client: ask the owners"],
            }
        ],
    }


def test_included_files_hold_them_too(tmp_path):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d/10.toml").write_text(FAILS)
    write(tmp_path, 'include = ["policy.d/*.toml"]\n' + POLICY)
    done = command("test", "sallyport.toml", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("policy.d/10.toml:2: POST")


def test_a_broken_configuration_is_another_failure(tmp_path):
    write(tmp_path, POLICY + HOLDS.replace("no-admin", "no-admins"))
    done = command("test", "sallyport.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no rule named 'no-admins'; did you mean 'no-admin'?" in done.stderr


def test_check_takes_a_failure_for_an_error(tmp_path):
    write(tmp_path, POLICY + FAILS)
    done = command("check", "sallyport.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert 'sallyport.toml:24:11: error: expectation failed: POST http://www.shop.example/admin/x: expected' in done.stdout
    assert f'verdict = "allow", seen "deny": {WHY}; reason shown to the client: ask the owners' in done.stdout
    assert '   24 | verdict = "allow"\n      |           ^\n' in done.stdout
    assert done.stdout.endswith("1 file, 2 rules: 1 error, 0 warnings\n")


def test_explain_goes_on(tmp_path):
    """Whoever looks for the reason needs it."""
    write(tmp_path, POLICY + FAILS)
    done = command("explain", "-c", "sallyport.toml", "http://shop.example/admin/x", cwd=tmp_path)
    assert done.returncode == 3 and "denied by rule 'no-admin'" in done.stdout


def test_a_daemon_does_not_start(tmp_path):
    write(tmp_path, POLICY.replace("[proxy]", '[proxy]\nlisten = ["127.0.0.1:0"]') + FAILS)
    done = command("run", "-c", "sallyport.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "expectation failed: POST http://www.shop.example/admin/x" in done.stderr
    assert done.stderr.endswith("sallyport: not started: the expectation failed\n")


RULES = "[[rule]]" + POLICY.partition("[[rule]]")[2]


def asked(raw_client, proxy) -> bytes:
    """The reason phrase for a request that the policy at the start denies."""
    client = raw_client(proxy)
    client.send(b"GET http://www.shop.example/admin/x HTTP/1.1\r\nHost: www.shop.example\r\n\r\n")
    return client.answer().reason


def test_a_reload_changes_nothing_and_says_which(sallyport, raw_client):
    proxy = sallyport(proxy='default = "deny"', policy=RULES + HOLDS)
    assert asked(raw_client, proxy).startswith(b"denied rule=no-admin ")
    line = proxy.reload('default = "deny"', RULES.replace("/admin/*", "/owners/*") + HOLDS)
    assert line["level"] == "error" and line["message"] == "reload: the expectation failed; nothing has changed"
    failure = next(entry for entry in proxy.log.snapshot() if "expectation failed" in entry.get("message", ""))
    assert failure["level"] == "error" and "GET http://shop.example/admin/x" in failure["message"]
    assert "allowed by rule 'shop'" in failure["message"]
    assert asked(raw_client, proxy).startswith(b"denied rule=no-admin ")


def test_the_reload_command_prints_which(sallyport, tmp_path):
    socket = tmp_path / "admin.sock"
    proxy = sallyport(proxy='default = "deny"', policy=f'[admin]\nsocket = "{socket}"\n' + RULES + HOLDS)
    text = proxy.configuration.read_text()
    proxy.configuration.write_text(text + FAILS)
    done = command("reload", "--socket", socket)
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    assert "error: expectation failed: POST http://www.shop.example/admin/x" in lines[0]
    assert lines[1] == "1 of 2 expectations failed; nothing has changed"
    assert "expectation failed" in command("status", "--socket", socket, "--json").stdout
    proxy.configuration.write_text(text + FAILS.replace("allow", "deny"))
    done = command("reload", "--socket", socket)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "reloaded: 2 rules")


def test_a_secret_that_only_the_service_may_read(sallyport_binary):
    """Who may not read it goes on with a note; who may never sees it printed."""
    directory = Path(tempfile.mkdtemp(prefix="sallyport-"))
    try:
        directory.chmod(0o755)
        (directory / "token").write_text("s3cr3t-t0k3n\n")
        (directory / "token").chmod(0o600)
        policy = POLICY.replace('"kiosk-7"', '"kiosk-7", X-Token = { file = "token" }') + HOLDS
        write(directory, policy + '[[expect]]\nrequest = "http://shop.example/"\nheader = { X-Token = "other" }\n')
        done = command("test", "sallyport.toml", cwd=directory)
        assert done.returncode == 3 and "s3cr3t" not in done.stdout + done.stderr
        assert "expected header X-Token = (value hidden), seen another value (hidden)" in done.stdout
        need("setpriv")
        prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        if subprocess.run([*prefix, sallyport_binary, "version"], capture_output=True).returncode != 0:
            pytest.skip("no other user here that may run the program")
        done = subprocess.run(
            [*prefix, sallyport_binary, "test", "sallyport.toml"], capture_output=True, text=True, cwd=directory,
            env=clean_environment(),
        )
        assert (done.returncode, done.stdout) == (0, "1 of 2 expectations hold, 1 not checked\n")
        assert "not readable by you" in done.stderr
    finally:
        shutil.rmtree(directory)
