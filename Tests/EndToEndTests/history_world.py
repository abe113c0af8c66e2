"""A proxy that records what it decides, and the commands that read it.

    recorded = recording(policy="…")     a proxy with [history] in a directory that everybody may enter
    recorded.get("http://a.test/x")      one request; its answer
    recorded.records(3)                  what `sallyport log --json` prints, once there are three
"""

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from journal import DEADLINE_SECONDS
from proxy import Proxy, binary, clean_environment
from raw_client import RawClient
from reachability_world import ADMIN

# Users and a group that nobody is in by itself.
MEMBER, STRANGER, GROUP = 54321, 54322, 54400
KEY_OF_MESSAGE = "message"


def run(*arguments, user: int | None = None, group: int | None = None, stdin=subprocess.DEVNULL, **extra):
    """One run of a command of sallyport, as a user if need be."""
    identity = {} if user is None else {"user": user, "group": group or user, "extra_groups": []}
    return subprocess.run(
        [binary(), *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(**extra),
        stdin=stdin,
        timeout=DEADLINE_SECONDS,
        **identity,
    )


class Recording:
    def __init__(self, proxy: Proxy, file: Path):
        self.proxy, self.file = proxy, file

    @property
    def configuration(self) -> Path:
        return self.proxy.configuration

    def get(self, url: str, method: str = "GET", lines: str = ""):
        """One request on a connection of its own."""
        client = RawClient(self.proxy.address)
        try:
            host = urlsplit(url).netloc if method != "CONNECT" else url
            text = f"{method} {url} HTTP/1.1\r\nHost: {host}\r\n{lines}Connection: close\r\n\r\n"
            return client.exchange(text.encode())
        finally:
            client.close()

    def many(self, count: int, url: str = "http://refused.test/") -> None:
        """Requests that the proxy refuses, all on one connection; the last is over when its line is in the log."""
        client = RawClient(self.proxy.address)
        for number in range(count):
            client.send(f"GET {url}{number} HTTP/1.1\r\nHost: refused.test\r\n\r\n".encode())
            answer = client.answer()
            assert answer.status == 403
        client.close()
        self.proxy.access_of(answer.reason.decode().rpartition("ref=")[2])

    def log(self, *arguments: str, **who) -> subprocess.CompletedProcess:
        return run("log", "--file", self.file, *arguments, **who)

    def read(self, *arguments: str) -> list[dict]:
        result = self.log("--json", *arguments)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    def records(self, count: int, *arguments: str) -> list[dict]:
        """What is recorded, once there are so many."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            if self.file.exists() and self.log("--limit", "1").returncode == 0:
                found = self.read(*arguments)
                if len(found) >= count:
                    return found
        raise AssertionError(f"there are not {count} exchanges in {self.file}: {self.log().stderr}")

    def end(self, how: str) -> None:
        self.proxy.expected_exit = {0, -9}
        getattr(self.proxy.process, how)()
        self.proxy.wait_for_exit()

    def warnings(self) -> list[str]:
        return [
            entry[KEY_OF_MESSAGE]
            for entry in self.proxy.log.snapshot()
            if entry.get("level") == "warning" and "history" in entry[KEY_OF_MESSAGE]
        ]


@pytest.fixture
def open_directory():
    """A directory that everybody may enter, and only the owner writes in."""
    directory = Path(tempfile.mkdtemp(prefix="sallyport-history-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def recording(sallyport, open_directory):
    """A function that starts a proxy with a history."""

    def start(policy: str = "", proxy: str = "workers = 2", history: str = "", **arguments) -> Recording:
        file = open_directory / "history.db"
        table = f'[history]\nfile = "{file}"\n{history}\n'
        started = sallyport(proxy=proxy, policy=ADMIN + table + policy, **arguments)
        return Recording(started, file)

    return start
