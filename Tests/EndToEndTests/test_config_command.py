"""`sallyport config`: the configuration as it is in force, each key with its place, without secrets, and readable again."""

import json
import os
from pathlib import Path

import pytest

from proxy import command

REPOSITORY = Path(__file__).resolve().parents[2]
MAIN = """include = ["policy.d/*.toml"]

[proxy]
listen = ["127.0.0.1:3129"]
default = "deny"
credentials = { file = "users" }

[admin]
socket = "admin.sock"
"""
POLICY = """[[rule]]
name = "shop"
hosts = ["shop.example"]
schemes = ["http"]
upgrade = true

[rule.request]
headers.set = { Authorization = "Bearer very-secret", X-Client = "kiosk-7", Accept-Language = "de" }
parameters = { api_key = "very-secret", lang = "de" }
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "users").write_text("ada:very-secret\n")
    (tmp_path / "users").chmod(0o600)
    (tmp_path / "sallyport.toml").write_text(MAIN)
    (tmp_path / "sallyport.toml").chmod(0o600)
    (tmp_path / "policy.d/10.toml").write_text(POLICY)
    (tmp_path / "policy.d/10.toml").chmod(0o600)
    return tmp_path


def lines(text: str) -> set[str]:
    return {" ".join(line.split()) for line in text.splitlines()}


def test_each_key_has_its_place_and_no_secret_is_shown(directory):
    done = command("config", "sallyport.toml", cwd=directory)
    assert (done.returncode, done.stderr) == (0, "")
    assert "very-secret" not in done.stdout
    shown = lines(done.stdout)
    assert 'listen = ["127.0.0.1:3129"] # sallyport.toml:4' in shown
    assert 'default = "deny" # sallyport.toml:5' in shown
    assert f'credentials = {{ file = "{directory}/users" }} # sallyport.toml:6' in shown
    assert 'workers = "auto" # default' in shown
    assert 'tunnel_idle = "1h" # default' in shown
    assert "# metrics is not set" in shown
    assert "[[rule]] # policy.d/10.toml:1" in shown
    assert 'headers.set.Authorization = "hidden" # policy.d/10.toml:8' in shown
    assert 'headers.set.Accept-Language = "de" # policy.d/10.toml:8' in shown
    assert 'parameters.api_key = "hidden" # policy.d/10.toml:9' in shown


def test_what_it_prints_is_a_configuration_that_prints_the_same(directory, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "one.toml"
    elsewhere.write_text(command("config", "-c", "sallyport.toml", cwd=directory).stdout)
    elsewhere.chmod(0o600)
    checked = command("check", "--strict", elsewhere)
    assert checked.returncode == 0, checked.stdout
    again = command("config", elsewhere)

    def bare(text: str) -> list[str]:
        return [" ".join(line.split("#")[0].split()) for line in text.splitlines() if not line.startswith("#")]

    assert bare(again.stdout) == bare(elsewhere.read_text())


def test_the_shipped_configuration_prints_and_reads_back(tmp_path):
    done = command("config", REPOSITORY / "config/sallyport.toml")
    assert done.returncode == 0
    (tmp_path / "one.toml").write_text(done.stdout)
    checked = command("check", "--strict", "one.toml", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_as_json(directory):
    done = command("config", "sallyport.toml", "--json", cwd=directory)
    settings = json.loads(done.stdout)["settings"]
    assert "very-secret" not in done.stdout
    place = {(entry["table"], entry["key"]): entry for entry in settings}
    assert place["proxy", "workers"] == {
        "table": "proxy", "name": None, "key": "workers", "value": "auto", "file": None, "line": None,
    }
    assert place["rule", "hosts"] == {
        "table": "rule", "name": "shop", "key": "hosts", "value": ["shop.example"], "file": "policy.d/10.toml", "line": 3,
    }
    assert place["rule.request", "parameters.lang"]["value"] == "de"


def test_errors_are_printed_and_nothing_else(directory):
    (directory / "policy.d/10.toml").write_text("[[rule]]\nname = 1\n")
    done = command("config", "sallyport.toml", cwd=directory)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: 'name' in [rule]: expected a string, found an integer" in done.stderr


def test_without_a_file_all_is_a_default(tmp_path):
    if os.path.exists("/etc/sallyport/sallyport.toml"):
        pytest.skip("/etc/sallyport/sallyport.toml exists")
    done = command("config", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("# The built-in defaults as in force.")
    assert all("# default" in line for line in done.stdout.splitlines() if " = " in line)
