"""Programs in Go for the tests: one program, go/, which is a server or a client by its first argument.

    go_program                           the program, built once a run; the tests skip where Go or its gRPC is absent
    go_server("rpc-server")              a server with a certificate of the world for a.test; `events` is what it says
    go_client(proxy)("web", address, …)  a client, to its end; its result
    go_client(proxy).begin("web", …)     a client that is not waited for; `end` may give it a line on stdin

A client knows its proxy and its authority from HTTPS_PROXY and SSL_CERT_FILE alone.
"""

import fcntl
import functools
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest

from conftest import need, stop_all
from journal import DEADLINE_SECONDS, Journal
from proxy import REPOSITORY, Proxy, clean_environment
from tls_world import chain_pem
from tls_world import authority, world  # noqa: F401

SOURCES = Path(__file__).resolve().parent / "go"
# Where Debian's packages of libraries are.
GOPATH = Path("/usr/share/gocode")
GRPC = GOPATH / "src/google.golang.org/grpc"
# Without it a build takes a quarter of a minute, and with it half a second.
CACHE = REPOSITORY / ".build/go"
BUILD_SECONDS = 240
# Longer than a client's own limit, so that it can say what it waits for.
CLIENT_SECONDS = 70
WITHOUT_HTTP_2 = {"GODEBUG": "http2client=0,http2server=0"}


def build(program: Path) -> None:
    settings = {"GO111MODULE": "off", "GOPATH": str(GOPATH), "GOCACHE": str(CACHE), "CGO_ENABLED": "0"}
    settings |= {"GOENV": "off", "GOFLAGS": ""}
    unfinished = program.with_suffix(".new")
    done = subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", unfinished, "."],
        cwd=SOURCES,
        env=clean_environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    assert done.returncode == 0, f"go build: {done.stdout}{done.stderr}"
    unfinished.rename(program)


@pytest.fixture(scope="session")
def go_program(tmp_path_factory) -> Path:
    """The first worker that asks builds it, and the others wait for that one."""
    need("go")
    if not GRPC.is_dir():
        pytest.skip(f"not installed: golang-google-grpc-dev ({GRPC} does not exist)")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # The directory of the whole run.
        shared = shared.parent
    program = shared / "go-program"
    with (shared / "go-program.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            build(program)
    return program


class GoServer:
    """A server. It ends when its stdin does, so also with the process of the tests."""

    def __init__(self, program: Path, kind: str, certificate: Path, environment: dict[str, str]):
        self.events = Journal(kind)
        self.process = subprocess.Popen(
            [program, kind, certificate],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment(**environment),
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    @functools.cached_property
    def port(self) -> int:
        return self.wait_for("listening")[0]["port"]

    def wait_for(self, name: str, times: int = 1) -> list[dict]:
        return self.events.wait_for_several(times, lambda entry: entry["event"] == name)

    def stop(self) -> None:
        self.process.stdin.close()
        try:
            status = self.process.wait(DEADLINE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self.reader.join(DEADLINE_SECONDS)
            self.process.stdout.close()
        assert status == 0, f"the server in Go ended with {status}"


class GoClient:
    """What begins clients of one proxy."""

    def __init__(self, program: Path, environment: dict[str, str]):
        self.program = program
        self.environment = environment
        self.running: list[subprocess.Popen] = []

    def begin(self, *arguments: str, **environment: str) -> subprocess.Popen:
        client = subprocess.Popen(
            [self.program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(**self.environment, **environment),
        )
        self.running.append(client)
        return client

    def end(self, client: subprocess.Popen, given: str = "") -> dict:
        out, told = client.communicate(given, timeout=CLIENT_SECONDS)
        assert client.returncode == 0, f"{client.args[1:]} ended with {client.returncode}: {told}"
        return json.loads(out)

    def __call__(self, *arguments: str, **environment: str) -> dict:
        return self.end(self.begin(*arguments, **environment))

    def stop(self) -> None:
        for client in self.running:
            client.kill()
            client.communicate()


@pytest.fixture
def go_server(go_program, world):
    """A function that starts a server."""
    running: list[GoServer] = []

    def start(kind: str, http2: bool = True) -> GoServer:
        leaf = world.leaf("a.test")
        certificate = world.file(chain_pem([leaf, leaf.issuer]) + leaf.key_pem)
        running.append(GoServer(go_program, kind, certificate, {} if http2 else WITHOUT_HTTP_2))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def go_client(go_program, authority):
    """A function that gives the clients of a proxy."""
    made: list[GoClient] = []

    def of(proxy: Proxy) -> GoClient:
        environment = {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(authority.file)}
        made.append(GoClient(go_program, environment))
        return made[-1]

    yield of
    stop_all(made)
