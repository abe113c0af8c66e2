"""A client that leaves while its request waits is not served; one that has only said all it had to say is.

What it waits for: a place among the client connections, a connection to its host, a name. (Of the network: test_waiting.py.) Both close their
sending direction; only the kernel knows which of them is gone.
"""

import threading

import pytest

from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo
from reachability_world import connect, get, stopped
from test_limits import limits
from users_world import STRANGER, client_of, guarded

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POST = "Content-Length: 5\r\n"
# Nothing may come of it: how long the origin is watched is as long as three other exchanges take.
LATER = 3


class Ways:
    """How a client may end its side."""

    @staticmethod
    def leaves(client) -> bool:
        client.looked_at = False
        client.close()
        return False

    @staticmethod
    def listens(client) -> bool:
        client.half_close()
        return True


HOW = pytest.mark.parametrize("how", [Ways.leaves, Ways.listens], ids=["leaves", "listens"])


def check(origin, client, is_served: bool, later) -> None:
    """`later` makes an exchange with the origin that comes after."""
    if is_served:
        assert client.answer().status == 200
    for _ in range(LATER):
        later()
    paths = [request.target for request in origin.requests()]
    assert (b"/left" in paths) is is_served, paths


@HOW
@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
def test_waiting_for_a_connection_to_the_host(how, method, guarded, raw_origin, client_of):
    proxy = guarded(limits("connections_per_host = 1"))
    origin = raw_origin(tunnel_echo if method == "CONNECT" else answering(OK))
    release = hold_the_place(client_of(proxy, STRANGER), proxy, origin, method)
    client = client_of(proxy, STRANGER)
    if method == "CONNECT":
        client.send(connect(origin))
    elif method == "POST":
        client.send(get(origin, "/left", POST, "POST") + b"sally")
    else:
        client.send(get(origin, "/left"))
    is_queued(proxy)
    served = how(client)
    release()
    if method == "CONNECT":
        if served:
            assert client.answer().status == 200
        else:
            proxy.access(lambda line: line["outcome"] == "client-left")
    else:
        later_client = client_of(proxy, STRANGER)
        check(origin, client, served, lambda: later_client.exchange(get(origin, "/later")))


def is_queued(proxy) -> None:
    """Who the client is has been found out, and the request waits behind the one that is under way."""
    proxy.admin.asked_until("/v1/connections", lambda all: len([one for one in all if one["decision"]]) == 2)


def hold_the_place(holder, proxy, origin, method):
    """Takes the one connection to the origin; answers what gives it back."""
    if method == "CONNECT":
        assert holder.exchange(connect(origin)).status == 200

        def release() -> None:
            holder.half_close()
            holder.wait_for_end()

        return release
    holder.send(get(origin, "/held", "Content-Length: 4\r\n", "POST") + b"hel")
    origin.wait_for("accepted")

    def release() -> None:
        holder.send(b"d")
        assert holder.answer().status == 200

    return release


@HOW
def test_waiting_for_a_name(how, guarded, raw_origin, client_of, dns_server):
    server = dns_server({"slow.test": Answer(a=["127.0.0.1"])})
    server.silent_kinds = {"A", "AAAA"}
    proxy = guarded(f'[dns]\nservers = ["{server.address}"]\ntimeout = "3s"\n')
    origin = raw_origin(answering(OK))
    client = client_of(proxy, STRANGER)
    host = f"slow.test:{origin.port}"
    client.send(f"GET http://{host}/left HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    server.questions.wait_for(lambda question: question.name == "slow.test")
    served = how(client)
    server.silent_kinds = set()  # c-ares asks again after a third of the time
    later = client_of(proxy, STRANGER)
    check(origin, client, served, lambda: later.exchange(get(origin, "/later")))
    if not served:
        proxy.access(lambda line: line["outcome"] == "client-left")


@HOW
def test_waiting_for_a_place_among_the_connections(how, guarded, raw_origin, client_of):
    proxy = guarded(limits("connections = 2"))
    origin = raw_origin(answering(OK))
    holders = [client_of(proxy, STRANGER) for _ in range(2)]
    for holder in holders:
        assert holder.exchange(get(origin, "/held")).status == 200
    client = client_of(proxy, STRANGER)
    client.send(get(origin, "/left"))
    served = how(client)
    assert holders[0].exchange(get(origin, "/held")).status == 200
    holders[0].close()
    if served:
        assert client.answer().status == 200
        client.wait_for_end()
    for _ in range(LATER):
        assert holders[1].exchange(get(origin, "/later")).status == 200
    paths = [request.target for request in origin.requests()]
    assert (b"/left" in paths) is served


@pytest.mark.parametrize("tries", [20])
def test_a_close_right_behind_the_request(tries, guarded, raw_origin, client_of):
    """The FIN comes a moment before the socket loses its owner: it is asked again before anything is sent."""
    proxy = guarded(limits("connections_per_host = 1"))
    origin = raw_origin(answering(OK))
    holder = client_of(proxy, STRANGER)
    release = hold_the_place(holder, proxy, origin, "POST")
    for _ in range(tries):
        client = client_of(proxy, STRANGER)
        client.looked_at = False
        client.send(get(origin, "/left"))
        client.close()
    release()
    later = client_of(proxy, STRANGER)
    for _ in range(LATER):
        later.exchange(get(origin, "/later"))
    assert b"/left" not in [request.target for request in origin.requests()]


def test_a_connection_is_on_its_way_to_a_client_that_leaves(guarded, raw_origin, client_of):
    """The place of a connection that is handed over is given back once, whoever leaves meanwhile: twice ended the daemon."""
    proxy = guarded(limits("connections_per_host = 1"))
    arrived, turns = threading.Semaphore(0), threading.Semaphore(0)

    def one_at_a_time(connection) -> None:
        while True:
            connection.read_request()
            arrived.release()
            assert turns.acquire(timeout=DEADLINE_SECONDS)
            connection.send(OK)

    origin = raw_origin(one_at_a_time)
    for number in range(10):
        first, second = client_of(proxy, STRANGER), client_of(proxy, STRANGER)
        first.send(get(origin, f"/first{number}"))
        assert arrived.acquire(timeout=DEADLINE_SECONDS)
        second.send(get(origin, "/left"))
        is_queued(proxy)
        with stopped(proxy):
            turns.release()
            first.looked_at = second.looked_at = False
            second.reset()
        assert first.answer().status == 200
        first.close()
    turns.release()
    assert client_of(proxy, STRANGER).exchange(get(origin, "/last")).status == 200
    assert b"/left" not in [request.target for request in origin.requests()]


# How long a client that has closed its side is given, in milliseconds, where nothing shows that it is gone.
GRACE = 5000
# The FIN may be seen a moment before the socket loses its owner. Then the grace holds.
LEAVERS = 6


def test_an_origin_that_works_for_a_client_that_is_gone_hears_of_it(guarded, raw_origin, client_of):
    proxy = guarded("")
    origin = raw_origin(lambda connection: (connection.read_request(), connection.wait_for_end()))
    for number in range(LEAVERS):
        client = client_of(proxy, STRANGER)
        client.looked_at = False
        client.send(get(origin, f"/{number}"))
        proxy.admin.asked_until("/v1/connections", lambda all: any(one.get("upstream") for one in all))
        client.close()
        line = proxy.access(lambda line: line["target"].endswith(f"/{number}"))
        assert line["outcome"] == "client-left"
        if line["total_ms"] < GRACE:
            return
    raise AssertionError("nobody was seen to be gone")


def test_a_client_that_listens_gets_an_answer_that_takes_its_time(guarded, raw_origin, client_of):
    proxy, turn = guarded(""), threading.Semaphore(0)

    def slowly(connection) -> None:
        connection.read_request()
        assert turn.acquire(timeout=DEADLINE_SECONDS)
        connection.send(OK)

    origin, client = raw_origin(slowly), client_of(proxy, STRANGER)
    client.send(get(origin, "/"))
    origin.wait_for("accepted")
    client.half_close()
    turn.release()
    assert client.answer().status == 200
