"""Dead marks: a parent that could not be connected to is passed over for a while, if another route can be taken.

For 1 s, doubled at each further failure up to 60 s, until a change of network. No test sleeps: each asks again and
again, and waits for what the parent sees. Where only a request within the first second decides, one that came later
decides nothing and the test begins anew.
"""

import subprocess
import threading
import time

import pytest

from admin_client import AdminClient
from conftest import need
from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo, unused_port
from parents import ADA, ask, route, routed
from problems import check_problem
from scripted_parents import (
    Socks,
    refusing,
    relaying,
    scripted_parent,
    scripted_secure_parent,
    socks_server,
    stop_listening,
)
from tls_world import OK, tls_origin, world

FIRST_MARK_SECONDS = 1.0
# A timer may be as coarse as a loop is busy; a mark that ends so much too early is not noticed.
SLACK_SECONDS = 0.05
KNOWN = {"office.test": Answer(a=["127.0.0.1"])}


@pytest.fixture
def broken(scripted_secure_parent, world):
    """A parent whose TLS fails: it counts how often it is asked, and when (`attempts`)."""
    times = []

    def context_for(number, hello):
        times.append(time.monotonic())
        return context

    context = world.context(world.leaf("elsewhere.test"))
    parent = scripted_secure_parent(context_for)
    parent.attempts = times
    return parent


def ask_until(client, happened, port: int = 8080) -> None:
    """Ask, and wait a little for what the request may bring about, until it has happened."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert time.monotonic() < end, "it never happened"
        client.exchange(ask("GET", port))


def within_the_first_mark(attempt):
    """The attempt, made anew until it was quick enough to decide. It gives the time at which it began."""
    for _ in range(10):
        began = attempt()
        if time.monotonic() - began < FIRST_MARK_SECONDS - SLACK_SECONDS:
            return
    pytest.skip("this machine is too slow just now for a second to be long")


def test_a_dead_parent_is_passed_over(scripted_parent, scripted_secure_parent, routed, raw_client, world):
    """While the mark stands it is not even connected to."""

    def attempt() -> float:
        broken = scripted_secure_parent(world.context(world.leaf("elsewhere.test")))
        second = scripted_parent(answering(OK))
        tables = route("first", broken.via) + route("second", second.via)
        client = raw_client(routed(tables, "first", "second", proxy="workers = 1"))
        began = time.monotonic()
        for _ in range(5):
            assert client.exchange(ask("GET", 8080, lines="Cache-Control: no-store\r\n")).body == b"ok"
        in_time = time.monotonic() - began < FIRST_MARK_SECONDS - SLACK_SECONDS
        assert len(broken.connections) == 1 or not in_time, "it was asked again at once"
        assert len(second.requests()) == 5
        return began

    within_the_first_mark(attempt)


def test_a_parent_that_refused_is_passed_over(scripted_parent, routed, raw_client):
    """It listens again before the second request comes, and is not asked all the same."""

    def attempt() -> float:
        first, second = scripted_parent(answering(OK)), scripted_parent(answering(OK))
        port = first.port
        stop_listening(first)
        tables = route("first", f"http://office.test:{port}") + route("second", second.via)
        client = raw_client(routed(tables, "first", "second", proxy="workers = 1"))
        began = time.monotonic()
        assert client.exchange(ask("GET", 8080)).body == b"ok"
        back = scripted_parent(answering(OK), port=port)
        assert client.exchange(ask("GET", 8080)).body == b"ok"
        in_time = time.monotonic() - began < FIRST_MARK_SECONDS - SLACK_SECONDS
        assert not back.connections or not in_time
        return began

    within_the_first_mark(attempt)


def test_a_parent_that_comes_back_is_taken_again(scripted_parent, routed, raw_client):
    port = unused_port()
    second = scripted_parent(answering(OK))
    tables = route("first", f"http://office.test:{port}") + route("second", second.via)
    proxy = routed(tables, "first", "second", proxy="workers = 1")
    client = raw_client(proxy)
    assert client.exchange(ask("GET", 8080)).body == b"ok" and len(second.requests()) == 1
    first = scripted_parent(answering(OK), port=port)
    ask_until(client, first.requests)
    before = len(second.requests())
    for _ in range(3):
        assert client.exchange(ask("GET", 8080)).body == b"ok"
    assert len(second.requests()) == before and len(first.requests()) >= 4
    assert proxy.access(lambda line: line["route"] == "first")["upstream"] == f"127.0.0.1:{port}"


def test_the_time_is_doubled(broken, scripted_parent, routed, raw_client):
    second = scripted_parent(answering(OK))
    tables = route("first", broken.via) + route("second", second.via)
    client = raw_client(routed(tables, "first", "second", proxy="workers = 1"))
    ask_until(client, lambda: len(broken.attempts) == 3)
    one, two, three = broken.attempts
    assert two - one >= FIRST_MARK_SECONDS - SLACK_SECONDS
    assert three - two >= 2 * FIRST_MARK_SECONDS - SLACK_SECONDS


# A parent that is the only way is asked, dead or not


def test_a_single_parent_is_asked_each_time(scripted_parent, routed, raw_client):
    port = unused_port()
    client = raw_client(routed(route("office", f"http://office.test:{port}"), "office", proxy="workers = 1"))
    for _ in range(3):
        check_problem(client.exchange(ask("GET", 8080)), 502, error="connection_refused")
    scripted_parent(answering(OK), port=port)
    assert client.exchange(ask("GET", 8080)).body == b"ok", "it was there, and was not asked"


@pytest.mark.parametrize("who", [0, 1], ids=["the first comes back", "the second comes back"])
def test_where_all_are_dead_all_are_asked(who, scripted_parent, routed, raw_client):
    ports = [unused_port(), unused_port()]
    tables = "".join(route(f"r{number}", f"http://office.test:{port}") for number, port in enumerate(ports))
    client = raw_client(routed(tables, "r0", "r1", proxy="workers = 1"))
    for _ in range(2):
        check_problem(client.exchange(ask("GET", 8080)), 502, error="connection_refused")
    back = scripted_parent(answering(OK), port=ports[who])
    assert client.exchange(ask("GET", 8080)).body == b"ok" and len(back.requests()) == 1


def test_a_route_that_does_not_hold_is_no_other_way(scripted_parent, routed, raw_client):
    port, unheld = unused_port(), scripted_parent(relaying)
    tables = route("first", f"http://office.test:{port}") + route("second", unheld.via, 'when = ["wwan"]')
    client = raw_client(routed(tables, "first", "second", proxy="workers = 1"))
    check_problem(client.exchange(ask("GET", 8080)), 502, error="connection_refused")
    scripted_parent(answering(OK), port=port)
    assert client.exchange(ask("GET", 8080)).body == b"ok" and not unheld.connections


# What marks nobody


def test_a_parent_that_answers_is_alive(scripted_parent, routed, raw_origin, raw_client):
    """5xx to CONNECT leads on, and the next request asks there again."""
    first, origin = scripted_parent(refusing("503 Later")), raw_origin(tunnel_echo)
    proxy = routed(route("first", first.via), "first", "direct", proxy="workers = 1")
    for count in (1, 2, 3):
        assert raw_client(proxy).exchange(ask("CONNECT", origin.port)).status == 200
        assert len(first.requests()) == count


@pytest.mark.parametrize("reply", [1, 3, 4, 5, 6])
def test_a_socks_server_that_answers_is_alive(reply, socks_server, routed, raw_origin, raw_client):
    first, origin = socks_server(Socks(reply=reply)), raw_origin(answering(OK))
    proxy = routed(route("first", first.via), "first", "direct", proxy="workers = 1")
    for count in (1, 2):
        answer = raw_client(proxy).exchange(ask("GET", origin.port, lines="Connection: close\r\n"))
        assert answer.body == b"ok" and len(first.asked) <= count
    assert len(first.asked) == 2


# Seen from outside, and a change of network


@pytest.mark.own_network
def test_a_change_of_network_forgets_the_marks(broken, scripted_parent, routed, raw_client):
    """After the second failure the mark would stand for 2 s; a default route that comes up ends it."""
    need("ip")
    second = scripted_parent(answering(OK))
    tables = route("first", broken.via) + route("second", second.via)
    client = raw_client(routed(tables, "first", "second", proxy="workers = 1"))
    ask_until(client, lambda: len(broken.attempts) == 2)
    with another_network():
        ask_until(client, lambda: len(broken.attempts) == 3)
    waited = broken.attempts[2] - broken.attempts[1]
    assert waited < 2 * FIRST_MARK_SECONDS - SLACK_SECONDS, f"the mark stood for {waited} s"


class another_network:
    """A link of its own with a default route, for as long as the block lasts."""

    COMMANDS = [
        "link add veth-marks type veth peer name veth-peer",
        "address add 192.0.2.10/24 dev veth-marks",
        "link set veth-peer up",
        "link set veth-marks up",
        "route add default via 192.0.2.1 dev veth-marks",
    ]

    def __enter__(self) -> None:
        for command in self.COMMANDS:
            subprocess.run(["ip", *command.split()], check=True)

    def __exit__(self, *_) -> None:
        subprocess.run(["ip", "link", "delete", "veth-marks"], check=True)


def test_the_marks_are_shown(scripted_parent, routed, raw_client, tmp_path):
    second, port = scripted_parent(answering(OK)), unused_port()
    tables = f'[admin]\nsocket = "{tmp_path}/admin.sock"\n'
    tables += route("first", f"http://office.test:{port}", ADA) + route("second", second.via)
    proxy = routed(tables, "first", "second", known=KNOWN, proxy="workers = 1")
    admin, client = AdminClient(tmp_path / "admin.sock"), raw_client(proxy)

    def shown() -> dict:
        return {entry["name"]: entry for entry in admin.json("/v1/reachability")["routes"]}

    assert shown()["first"] == {"name": "first", "via": f"http://office.test:{port}", "dead_for_ms": None, "unusable": None}
    ask_until(client, lambda: shown()["first"]["dead_for_ms"])
    assert shown()["second"]["dead_for_ms"] is None


# Silent about one destination


@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside others"])
def test_a_parent_that_hangs_on_destinations_serves_the_others(
    others, scripted_parent, routed, raw_origin, raw_client
):
    """As one that waits for an address. No client must send all the others round a parent by asking it for those.

    Where nothing else comes back from it, it may as well be dead, and is marked.
    """
    hung = threading.Semaphore(0)

    def script(connection) -> None:
        request = connection.read_request()
        if request.target.startswith(b"hangs"):
            hung.release()
            connection.wait_for_end()
            return
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.switch_protocol()
        connection.wait_for_end()

    first, origin = scripted_parent(script), raw_origin(tunnel_echo)
    here = Answer(a=["127.0.0.1"])
    known = {f"hangs{number}.test": here for number in range(3)}
    limits = 'workers = 1\n[proxy.timeouts]\nconnect = "500ms"'
    proxy = routed(route("first", first.via), "first", "direct", known={**KNOWN, "a.test": here, **known}, proxy=limits)
    clients = []
    for name in known:
        clients.append(raw_client(proxy))
        clients[-1].send(ask("CONNECT", origin.port, host=name))
        assert hung.acquire(timeout=DEADLINE_SECONDS)
    if others:
        assert raw_client(proxy).exchange(ask("CONNECT", origin.port)).status == 200
    for client in clients:
        assert client.answer().status == 200, "direct is its second way"
    before = len(first.requests())
    assert raw_client(proxy).exchange(ask("CONNECT", origin.port)).status == 200
    assert len(first.requests()) - before == (1 if others else 0)
