"""`sallyport diff`: what two configurations decide differently, each difference with a request that shows it.

Each request that is shown is given to `explain` under both configurations: it says the same.
"""

import json
import shlex

import pytest

from proxy import command

OLD = """
[proxy]
default = "deny"

[[rule]]
name  = "mirrors"
hosts = ["deb.example", "security.example"]

[[rule]]
name  = "code"
hosts = ["git.example"]
users = ["root"]
"""
NEW = """
[proxy]
default = "deny"

[[rule]]
name    = "mirrors"
hosts   = ["deb.example"]
connect = "verify"

[[rule]]
name  = "code"
hosts = ["git.example"]
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "old.toml").write_text(OLD)
    (tmp_path / "new.toml").write_text(NEW)
    return tmp_path


def test_it_prints_what_is_denied_first(directory):
    done = command("diff", "old.toml", "new.toml", cwd=directory)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(
        "newly denied:\n"
        "  allowed by rule 'mirrors' (old.toml:5)\n"
        "  → denied: no rule matches, and 'default' in [proxy] is \"deny\"\n"
        "    GET http://security.example/\n"
    )
    allowed = done.stdout.index("newly allowed:")
    otherwise = done.stdout.index("allowed or denied as before, but otherwise:")
    assert 0 < allowed < otherwise
    assert "  → allowed by rule 'code' (new.toml:10)\n    GET http://git.example/\n" in done.stdout
    assert '    differs: connect "tunnel" → "verify"' in done.stdout
    assert done.stdout.splitlines()[-1].startswith("newly denied ")


def test_each_witness_shows_its_difference(directory):
    """`explain` says of it what `diff` says, by both."""
    done = command("diff", "--json", "old.toml", "new.toml", cwd=directory)
    comparison = json.loads(done.stdout)
    assert comparison["complete"] and comparison["newly_denied"] > 0 and comparison["newly_allowed"] > 0
    assert sum(found["requests"] for found in comparison["differences"]) <= comparison["requests"]
    for found in comparison["differences"]:
        if "cannot be looked up" in found["witness"]:
            continue
        for name in ["old", "new"]:
            said = command("explain", "-c", f"{name}.toml", *shlex.split(found["witness"]), cwd=directory)
            assert said.returncode == {"allow": 0, "deny": 3}[found[name]["verdict"]], found["witness"]
            assert found[name]["why"] in said.stdout, found["witness"]


def test_more_is_allowed(directory):
    done = command("diff", "new.toml", "new.toml", cwd=directory)
    assert done.returncode == 0
    assert done.stdout.startswith("no difference in ") and done.stdout.endswith(" requests made from the rules of both\n")
    (directory / "new.toml").write_text(OLD.replace('default = "deny"', 'default = "allow"'))
    done = command("diff", "old.toml", "new.toml", cwd=directory)
    assert done.returncode == 0 and done.stdout.startswith("newly allowed:\n")


def test_a_broken_configuration(directory):
    (directory / "new.toml").write_text("[[rule]]\n")
    done = command("diff", "old.toml", "new.toml", cwd=directory)
    assert (done.returncode, done.stdout) == (1, "")
    assert "new.toml:1:1: error: [[rule]] has no 'name'" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["old.toml"]])
def test_it_takes_two(arguments, directory):
    done = command("diff", *arguments, cwd=directory)
    assert done.returncode == 2 and "two configurations were expected" in done.stderr


def test_hundreds_of_rules(tmp_path):
    rules = "".join(f'[[rule]]\nname = "r{number}"\nhosts = ["h{number}.example"]\n' for number in range(300))
    (tmp_path / "old.toml").write_text('[proxy]\ndefault = "deny"\n' + rules)
    (tmp_path / "new.toml").write_text('[proxy]\ndefault = "deny"\n' + rules.replace('"h7.example"', '"i7.example"'))
    done = command("diff", "--json", "old.toml", "new.toml", cwd=tmp_path)
    comparison = json.loads(done.stdout)
    assert done.returncode == 1 and comparison["complete"]
    verdicts = {found["kind"]: found["witness"] for found in comparison["differences"]}
    assert verdicts["newly-denied"] == "GET http://h7.example/"
    assert verdicts["newly-allowed"] == "GET http://i7.example/"
    assert comparison["differences"][0]["hosts"] == ["h7.example"]
