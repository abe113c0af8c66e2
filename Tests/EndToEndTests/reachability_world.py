"""The proxy on the machine of network_world.py: started there, with its API, name servers and origins around it.

    proxy = reaching(policy)               in the machine's network; `proxy.admin` is a client of its API
    watcher = proxy.admin.events()         events_until(watcher, status_is("wifi")) reads what is published
    client = local_client(proxy)           a raw client on the machine
    origin = far_origin()                  answers each request with the way that it came: way_of(answer)

Each proxy gets a mount namespace of its own, for /sys tells of the network that it was mounted in.
"""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from admin_client import AdminClient, Watcher
from conftest import with_mounts
from dns_server import NO_SUCH_NAME, Answer
from journal import DEADLINE_SECONDS
from network_world import FAR, PlacedNameServer, network
from origins import OriginConnection, RawOrigin
from problems import Problem, check_problem
from proxy import Proxy
from raw_client import RawClient
from strict_http import Message

ADMIN = '[admin]\nsocket = "admin.sock"\n'
# veth pairs are Ethernet, so wired, whatever their name is: an operator says what they stand for here.
KINDS = '[reachability.interfaces]\nwlan0 = "wifi"\nwwan0 = "wwan"\n'

# Far less than any time-out of the proxy that could end a hanging exchange, far more than a busy machine needs.
AT_ONCE_SECONDS = 3.0

# Starting it


def prefix_with_mounts(mounts: dict[str, Path]) -> tuple[str, ...]:
    """The command before the proxy's: /sys is of its network, and files of the test lie over others."""
    script = ["mount -t sysfs sysfs /sys"]
    script += [f"mount --bind '{source}' '{target}'" for target, source in mounts.items()]
    return with_mounts("; ".join(script))


@contextlib.contextmanager
def stopped(proxy: Proxy):
    """While this holds, the kernel goes on and the proxy sees nothing of it."""
    proxy.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, proxy.process.pid, os.WSTOPPED)
    try:
        yield
    finally:
        proxy.process.send_signal(signal.SIGCONT)


def events_until(watcher: Watcher, predicate) -> list[dict]:
    """The data of each reachability event up to and with the first that the predicate holds for."""
    seen = []
    while not seen or not predicate(seen[-1]):
        seen.append(watcher.until("reachability"))
    return seen


def status_is(status: str):
    return lambda data: data["status"] == status


class Way(NamedTuple):
    """What `tells_the_way` answers of a request."""

    source: str
    connection: int
    rule: str  # the value of X-Rule, "-" without one
    target: str


def tells_the_way(connection: OriginConnection) -> None:
    """A script: each request is answered with the address and the connection that it came by."""
    source = connection.socket.getpeername()[0]
    while True:
        request = connection.read_request()
        rule = (request.value("X-Rule") or b"-").decode()
        body = f"{source} {connection.number} {rule} {request.target.decode()}".encode()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def way_of(answer: Message) -> Way:
    assert answer.status == 200, f"{answer.status} {answer.reason!r} {answer.body!r}"
    source, connection, rule, target = answer.body.decode().split(" ")
    return Way(source, int(connection), rule, target)


def asked_until(client: RawClient, data: bytes, predicate) -> Message:
    """Ask again until the predicate holds for the answer: for a change that no event tells of."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not predicate(answer := client.exchange(data)):
        assert time.monotonic() < end, f"it does not come: {answer.status} {answer.reason!r} {answer.body!r}"
    return answer


def get(origin: RawOrigin, path: str = "/", lines: str = "", method: str = "GET", host: str = "") -> bytes:
    authority = f"{host}:{origin.port}" if host else origin.authority
    return f"{method} http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n".encode()


def connect(origin: RawOrigin) -> bytes:
    return f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()


def check_not_reachable(answer: Message, rule: str | None = None) -> Problem:
    problem = check_problem(answer, 503, error="destination_ip_unroutable", rule=rule)
    assert problem.token == "not-reachable"
    assert (answer.value("Retry-After") or b"").isdigit(), f"no Retry-After: {answer.fields}"
    return problem


def check_cellular(answer: Message, rule: str | None = None) -> Problem:
    problem = check_problem(answer, 503, error="http_request_denied", rule=rule)
    assert problem.token == "cellular-not-allowed" and problem.body["nsurlError"] == -1020
    assert (answer.value("Retry-After") or b"").isdigit(), f"no Retry-After: {answer.fields}"
    return problem


def check_ended_at_once(begun: float) -> None:
    took = time.monotonic() - begun
    assert took < AT_ONCE_SECONDS, f"it ended {took:.3f} s after the change"


# Fixtures, imported by the tests that use them


@pytest.fixture
def name_server(network):
    """A function that starts a name server: on the machine's loopback unless told otherwise."""
    running: list[PlacedNameServer] = []

    def start(names: dict[str, Answer], address="127.0.0.1", port=0, namespace=None, otherwise=None):
        otherwise = otherwise or Answer(code=NO_SUCH_NAME)
        running.append(PlacedNameServer(namespace or network.machine, names, address, port, otherwise))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def reaching(network, sallyport):
    """A function that starts a proxy on the machine; `admin` is a client of its API.

    `names` is its name server, `mounts` lays files of the test over those that it reads.
    """

    def start(policy: str = "", proxy: str = "workers = 1", names=None, mounts=None, kinds=KINDS) -> Proxy:
        dns = f'[dns]\nservers = ["{names.address}"]\n' if names else ""
        head = ADMIN + kinds + dns
        with network.machine:
            started = sallyport(proxy=proxy, policy=head + policy, prefix=prefix_with_mounts(mounts or {}))
        started.head = head
        started.admin = AdminClient(started.configuration.parent / "admin.sock")
        return started

    return start


@pytest.fixture
def local_client(network, raw_client):
    """A function that connects to a proxy from the machine that it runs on."""

    def connect_to(proxy: Proxy | tuple[str, int], **arguments) -> RawClient:
        with network.machine:
            return raw_client(proxy, **arguments)

    return connect_to


@pytest.fixture
def far_origin(network, raw_origin):
    """A function that starts a scripted origin on the far side, on FAR[0] unless told otherwise."""

    def start(script=tells_the_way, address: str = FAR[0], port: int = 0) -> RawOrigin:
        with network.far:
            return raw_origin(script, address, port)

    return start
