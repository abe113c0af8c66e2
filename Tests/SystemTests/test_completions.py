"""Completions of the shells: each shell is asked what it would offer, and every command and option of the program's own
help must be among it.

bash: the function is called with the words that readline would hand it. zsh: a real one at a terminal gets the keys,
and what it offers is read behind its back. fish completes without a terminal.
"""

import json
import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from installation import BINARY, SYSTEMD, command_table, commands, need, run

COMPLETIONS = SYSTEMD / "completions"
SHELLS = ["bash", "zsh", "fish"]
ZSH_DEADLINE_SECONDS = 30


def offered(shell: str, *words: str, directory: Path) -> set[str]:
    """What the shell offers in the place of the last word, as words without a final '=' or '/'."""
    need(shell)
    ask = {"bash": ask_bash, "zsh": ask_zsh, "fish": ask_fish}[shell]
    return {word.rstrip("/").removesuffix("=") for word in ask(words, directory) if word}


def ask_bash(words: tuple[str, ...], directory: Path) -> list[str]:
    # readline takes '=' for a word of its own.
    split = [part for word in words for part in separated(word)]
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); __sallyport; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = run(
        "bash", "--norc", "-u", "-c", script, "bash", COMPLETIONS / "sallyport.bash", "sallyport", *split, cwd=directory
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def separated(word: str) -> list[str]:
    if not word.startswith("--") or "=" not in word:
        return [word]
    name, value = word.split("=", 1)
    return [name, "=", value] if value else [name, "="]


def ask_fish(words: tuple[str, ...], directory: Path) -> list[str]:
    script = f"source {COMPLETIONS / 'sallyport.fish'}; complete -C $argv[1]"
    environment = {**os.environ, "HOME": str(directory), "XDG_CONFIG_HOME": str(directory / ".config")}
    done = run("fish", "-c", script, " ".join(["sallyport", *words]), cwd=directory, env=environment)
    assert done.stderr == ""
    lines = [line.split("\t")[0] for line in done.stdout.splitlines()]
    return [line.split("=", 1)[1] if "=" in words[-1] and "=" in line else line for line in lines]


ZSHRC = """
PS1='READY>' LISTMAX=10000
unsetopt prompt_sp
fpath=("$COMPLETIONS" $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
    local -a hits
    builtin compadd -A hits "$@"
    print -rl -- $hits >>"$OFFERED"
  fi
  builtin compadd "$@"
}
"""


def ask_zsh(words: tuple[str, ...], directory: Path) -> list[str]:
    home = directory / "zsh"
    home.mkdir()
    (home / ".zshrc").write_text(ZSHRC)
    (home / "functions").mkdir()
    (home / "functions/_sallyport").symlink_to(COMPLETIONS / "sallyport.zsh")
    answer = home / "offered"
    answer.touch()
    environment = {
        "PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(home), "ZDOTDIR": str(home),
        "COMPLETIONS": str(home / "functions"), "OFFERED": str(answer),
    }
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["zsh", "-d", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=directory,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        seen = read_until(ours, b"READY>")
        os.write(ours, " ".join(["sallyport", *words]).encode() + b"\t" + b"\x15exit\r")
        seen += read_until(ours, None)
        shell.wait(ZSH_DEADLINE_SECONDS)
    finally:
        shell.kill()
        os.close(ours)
    assert b"command not found" not in seen and b"error" not in seen, seen.decode(errors="replace")
    return answer.read_text().splitlines()


def read_until(terminal: int, mark: bytes | None) -> bytes:
    """What comes up to the mark; None: up to the end."""
    seen = b""
    deadline = time.monotonic() + ZSH_DEADLINE_SECONDS
    while mark is None or mark not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"zsh hangs behind {seen!r}"
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # the other end is closed
            return seen
    return seen


@pytest.fixture
def place(tmp_path) -> Path:
    """A directory with something to complete."""
    (tmp_path / "policy.toml").touch()
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_offered(shell, place):
    assert set(commands()) <= offered(shell, "", directory=place)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "command",
    ["run", "check", "test", "explain", "diff", "config", "schema", "pin", "ca init", "ca activate", "ca show", "ca export",
     "env", "status", "top", "dashboard", "reload", "events", "reachability", "cache status", "cache list", "cache show", "cache purge",
     "log", "learn", "replay", "asks", "allow", "deny", "cancel", "flush", "version", "help"],
)
def test_every_option_of_a_command_is_offered(shell, command, place):
    """The program's own table says which there are, and what values they take."""
    (entry,) = [entry for entry in command_table() if entry["name"] == command]
    wanted = {option["name"] for option in entry["options"]}
    assert "--help" in wanted
    assert wanted == {word for word in offered(shell, *command.split(), "--", directory=place) if word.startswith("--")}


def test_every_command_of_the_table_is_tried():
    (mark,) = [
        mark for mark in test_every_option_of_a_command_is_offered.pytestmark if mark.args[0] == "command"
    ]
    assert [entry["name"] for entry in command_table()] == mark.args[1]


VALUES = [
    (entry["name"], option["name"], option["choices"])
    for entry in (command_table() if BINARY.exists() else [])
    for option in entry["options"]
    if option["choices"]
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command, option, choices", VALUES, ids=lambda value: str(value)[:20])
def test_every_value_of_an_option_is_offered(shell, command, option, choices, place):
    assert set(choices) == offered(shell, *command.split(), option, "", directory=place)


# What is typed, what must be offered, and what must not.
ROWS = {
    "a prefix narrows commands": (["re"], {"reload", "reachability"}, {"run", "check"}),
    "an option of another command is not offered": (["env", "--"], {"--shell"}, {"--strict", "--json"}),
    "the languages of --shell": (["env", "--shell", ""], {"sh", "bash", "zsh", "fish", "systemd", "env-file", "json"}, {"--config"}),
    "the languages of --shell=": (["env", "--shell="], {"sh", "bash", "zsh", "fish", "systemd", "env-file", "json"}, {"--config"}),
    "a language that is begun": (["env", "--shell=fi"], {"fish"}, {"sh"}),
    "files behind -c": (["run", "-c", "pol"], {"policy.toml"}, set()),
    "files to check": (["check", "pol"], {"policy.toml"}, set()),
    "files behind --config": (["check", "--config", "pol"], {"policy.toml"}, {"--strict"}),
    "a command behind an option's value": (["help", ""], {"run", "reachability"}, set()),
    "what ca does": (["ca", ""], {"init", "activate", "show", "export"}, {"run"}),
    "what ca does, begun": (["ca", "ex"], {"export"}, {"init"}),
    "forms of an export": (["ca", "export", "--format", ""], {"pem", "der"}, set()),
    "authorities of an export": (["ca", "export", "--only", ""], {"active", "next", "previous"}, set()),
    "what cache does": (["cache", ""], {"status", "list", "show", "purge"}, {"run", "init"}),
    "what cache does, begun": (["cache", "p"], {"purge"}, {"list"}),
    "an option behind the value of another": (["cache", "purge", "--rule", "api", "--o"], {"--older"}, {"--host"}),
    "methods behind explain": (["explain", "P"], {"POST", "PUT", "PATCH"}, {"GET"}),
    "methods behind an option of explain": (["explain", "--config", "policy.toml", "CON"], {"CONNECT"}, {"GET"}),
    "kinds of link": (["explain", "--when", "w"], {"wwan", "wifi", "wired"}, {"unknown"}),
    "kinds of events": (["events", "--kind", ""], {"begun", "progress", "reload", "pin-mismatch"}, {"--json"}),
    "a kind of events that is begun": (["events", "--kind=re"], {"reload", "reachability"}, {"begun"}),
    "the time of a permission": (["allow", "a.test", "--for", ""], set(), {"deny-default"}),
    "the watch of reachability": (["reachability", "--w"], {"--watch"}, {"--json"}),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("row", ROWS)
def test_what_is_offered(shell, row, place):
    words, wanted, unwanted = ROWS[row]
    found = offered(shell, *words, directory=place)
    assert wanted <= found, json.dumps(sorted(found))
    assert not unwanted & found, json.dumps(sorted(found))


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_offered_behind_version(shell, place):
    assert offered(shell, "version", "", directory=place) == set()


def test_bash_finds_the_file_clean():
    need("bash")
    assert run("bash", "-n", COMPLETIONS / "sallyport.bash").stderr == ""
