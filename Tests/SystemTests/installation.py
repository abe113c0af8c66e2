"""What the tests of the installation share: where the project and its program are."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest


def _project() -> Path:
    """The directory with Package.swift: SALLYPORT_PROJECT, or the first one above these tests or the directory that
    pytest was started in."""
    if named := os.environ.get("SALLYPORT_PROJECT"):
        return Path(named).resolve()
    for start in (Path(__file__).resolve().parent, Path.cwd()):
        for directory in (start, *start.parents):
            if (directory / "Package.swift").exists():
                return directory
    raise RuntimeError("no Package.swift above the tests; set SALLYPORT_PROJECT")


PROJECT = _project()
SYSTEMD = PROJECT / "systemd"
SOURCES = PROJECT / "Sources"
BINARY = Path(os.environ.get("SALLYPORT_BINARY", PROJECT / ".build/release/sallyport")).resolve()

# Commands that ask the running daemon. A build without them says so, and has no help on them.
DAEMON_COMMANDS = ("status", "reload", "events", "reachability", "cache")


def need(*programs: str) -> None:
    """Skips the test where a program is absent, and says which."""
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


def need_binary() -> None:
    if not BINARY.exists():
        pytest.skip(f"{BINARY} is not built")


def run(*command, check: bool = True, **options) -> subprocess.CompletedProcess:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if check:
        assert done.returncode == 0, f"{command} exits {done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def version() -> str:
    need_binary()
    return run(BINARY, "version").stdout.removeprefix("sallyport ").strip()


def commands() -> list[str]:
    """Every command of the program."""
    need_binary()
    listed = re.findall(r"^  ([a-z]+)  +\S", run(BINARY, "help").stdout, re.MULTILINE)
    return list(dict.fromkeys([*listed, *DAEMON_COMMANDS]))


def command_table() -> list[dict]:
    """Every command with its options, as the program has them."""
    return json.loads(run(BINARY, "help", "--json").stdout)


def usage(command: str) -> str:
    """The usage of a command: from `usage:` to the first empty line. Empty where the build has no help on it."""
    need_binary()
    done = run(BINARY, "help", command, check=False)
    return done.stdout.split("\n\n")[0] if done.returncode == 0 else ""


def options(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", text))
