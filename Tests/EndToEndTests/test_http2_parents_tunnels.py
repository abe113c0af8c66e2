"""Tunnels on streams of a connection to a parent: they share it, end alone, and go elsewhere when it takes no more."""

import hashlib
import socket
import threading

import h2.errors
import h2.settings
import pytest

from http2_parents import h2_parent
from journal import DEADLINE_SECONDS
from origins import tunnel_echo
from parents import ask, by, refused, route, routed
from scripted_parents import scripted_parent
from tls_world import rule, world

LARGE = hashlib.shake_128(b"a tunnel on a stream").digest(3 * 1024 * 1024)
ONE_LOOP = dict(proxy="workers = 1")
CODES = h2.errors.ErrorCodes
STREAMS = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS


@pytest.fixture
def office(h2_parent, routed):
    """A function that starts a parent of this judge, and a proxy of one loop that goes by it."""

    def start(judge=None, *lines: str, tables: str = "", order=("office",), proxy: str = "", **arguments):
        parent = h2_parent(judge, **arguments)
        tables += route("office", parent.via, *lines)
        return parent, routed(tables, *order, proxy=f"workers = 1\n{proxy}")

    return start


def opened(client, port: int):
    """The client, in a tunnel that was granted."""
    assert client.exchange(ask("CONNECT", port)).status == 200
    return client


def echoed(client, data: bytes) -> None:
    client.send(data)
    assert client.receive_exactly(len(data)) == data


# One connection


def test_tunnels_share_one_connection(office, raw_origin, raw_client):
    parent, proxy = office()
    origin = raw_origin(tunnel_echo)
    clients = [opened(raw_client(proxy), origin.port) for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(b"%d" % number)
    for number, client in enumerate(clients):
        assert client.receive_exactly(1) == b"%d" % number
    assert parent.tunnels == [f"a.test:{origin.port}"] * 5
    assert len(parent.links) == 1 and parent.offers == [("h2", "http/1.1")]
    clients[0].half_close()
    assert clients[0].wait_for_end() == "closed"
    line = proxy.access()
    assert (line["route"], line["upstream"], line["outcome"]) == ("office", parent.authority, "done")
    assert line["bytes_in"] == len(clients[0].sent) and line["bytes_out"] == len(clients[0].received)


@pytest.mark.parametrize("known", [True, False], ids=["known to be h2", "unknown"])
def test_a_burst_opens_few_connections(known, office, raw_origin, raw_client):
    parent, proxy = office()
    origins = [raw_origin(tunnel_echo) for _ in range(30)]
    clients = [raw_client(proxy) for _ in origins]
    if known:
        first = opened(raw_client(proxy), origins[0].port)
        parent.links[0].break_off()
        assert first.wait_for_end() == "reset"
    before = len(parent.links)
    for client, origin in zip(clients, origins):
        client.send(ask("CONNECT", origin.port))
    for number, client in enumerate(clients):
        assert client.answer().status == 200
        echoed(client, b"%d" % number)
    assert len(parent.links) - before <= (1 if known else 6)
    assert sorted(parent.tunnels[before:]) == sorted(f"a.test:{origin.port}" for origin in origins)


# Bytes


def test_both_ends_are_passed_on(office, raw_origin, raw_client):
    """One side's end is not the tunnel's."""

    def script(connection) -> None:
        connection.switch_protocol()
        assert connection.read_exactly(2) == b"up"
        connection.half_close()
        assert connection.wait_for_end() == "closed"

    parent, proxy = office()
    origin, client = raw_origin(script), raw_client(proxy)
    opened(client, origin.port).send(b"up")
    assert client.wait_for_end() == "closed"
    client.send(b" and still up")
    client.half_close()
    origin.wait_for("done", 0, "closed")
    assert bytes(origin.connections[0].received) == b"up and still up"
    assert proxy.access()["outcome"] == "done" and parent.requests[0].reset is None


def test_the_end_of_a_client_is_passed_on(office, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        assert connection.wait_for_end() == "closed"
        connection.send(b"heard " + bytes(connection.received))

    parent, proxy = office()
    origin, client = raw_origin(script), raw_client(proxy)
    opened(client, origin.port).send(b"all")
    client.half_close()
    assert client.receive_exactly(9) == b"heard all" and client.wait_for_end() == "closed"
    parent.wait_until(lambda: parent.links[0].ended == {1})


def test_much_passes_both_ways_at_once_beside_one_that_reads_nothing(office, raw_origin, raw_client):
    """On one connection: the tunnel of the slow reader waits, and no other."""

    def sending(connection) -> None:
        connection.switch_protocol()
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        connection.send(LARGE)
        sent.append(True)
        connection.wait_for_end()

    def exchanging(connection) -> None:
        connection.switch_protocol()
        sender = threading.Thread(target=connection.socket.sendall, args=(LARGE[::-1],))
        sender.start()
        assert hashlib.sha256(connection.read_exactly(len(LARGE))).digest() == hashlib.sha256(LARGE).digest()
        sender.join(DEADLINE_SECONDS)
        connection.wait_for_end()

    sent = []
    parent, proxy = office()
    source, busy = raw_origin(sending), raw_origin(exchanging)
    slow = opened(raw_client(proxy, receive_buffer=4096), source.port)
    others = [opened(raw_client(proxy), busy.port) for _ in range(3)]
    senders = [threading.Thread(target=other.send, args=(LARGE,)) for other in others]
    for sender in senders:
        sender.start()
    for other, sender in zip(others, senders):
        assert other.receive_exactly(len(LARGE)) == LARGE[::-1]
        sender.join(DEADLINE_SECONDS)
        other.half_close()
        assert other.wait_for_end() == "closed"
    assert not sent, "the tunnel of who does not read holds little"
    assert slow.receive_exactly(len(LARGE)) == LARGE
    assert len(parent.links) == 1


def test_a_destination_that_does_not_read_stops_its_own_client(office, raw_origin, raw_client):
    read = threading.Event()

    def script(connection) -> None:
        connection.switch_protocol()
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        assert read.wait(DEADLINE_SECONDS)
        assert connection.read_exactly(len(LARGE)) == LARGE
        connection.send(b"whole")

    parent, proxy = office()
    stuck, echo = raw_origin(script), raw_origin(tunnel_echo)
    client, other = opened(raw_client(proxy), stuck.port), opened(raw_client(proxy), echo.port)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    before = proxy.private_bytes()
    sender = threading.Thread(target=client.send, args=(LARGE,))
    sender.start()
    for _ in range(20):
        echoed(other, b"x" * 10_000)
    # The kernel may hold all of it before the proxy, but neither the proxy nor the parent does.
    assert parent.links[0].tunnels[1].came < len(LARGE) // 2 and proxy.private_bytes() - before < len(LARGE) // 2
    read.set()
    assert client.receive_exactly(5) == b"whole"
    sender.join(DEADLINE_SECONDS)


# Ends


def test_a_reset_of_a_client_ends_its_stream_alone(office, raw_origin, raw_client):
    parent, proxy = office()
    origin = raw_origin(tunnel_echo)
    client, other = opened(raw_client(proxy), origin.port), opened(raw_client(proxy), origin.port)
    client.looked_at = False
    client.reset()
    parent.wait_until(lambda: parent.requests[0].reset is not None)
    echoed(other, b"on it goes")
    assert parent.requests[1].reset is None and len(parent.links) == 1
    origin.wait_for("done", 0)


def test_a_client_that_leaves_ends_its_stream(office, raw_origin, raw_client):
    """It closes while the destination is still there: the parent need not keep half a tunnel for ever."""

    def script(connection) -> None:
        connection.switch_protocol()
        connection.send(b"hello")
        connection.wait_for_end()
        while True:
            connection.send(b"more" * 1000)

    parent, proxy = office()
    origin, client = raw_origin(script), raw_client(proxy)
    opened(client, origin.port)
    assert client.receive_exactly(5) == b"hello"
    client.looked_at = False
    client.close()
    parent.wait_until(lambda: parent.requests[0].reset is not None)
    origin.wait_for("done", 0)


def test_a_stream_that_the_parent_resets_is_one_tunnel(office, raw_origin, raw_client):
    parent, proxy = office()
    origin = raw_origin(tunnel_echo)
    client, other = opened(raw_client(proxy), origin.port), opened(raw_client(proxy), origin.port)
    parent.links[0].reset(parent.requests[0], CODES.CONNECT_ERROR)
    assert client.wait_for_end() == "reset"
    echoed(other, b"on it goes")
    assert proxy.access()["outcome"] not in ("done", None) and len(parent.links) == 1


def test_a_connection_that_breaks_is_replaced(office, raw_origin, raw_client):
    parent, proxy = office()
    origin = raw_origin(tunnel_echo)
    clients = [opened(raw_client(proxy), origin.port) for _ in range(3)]
    parent.links[0].break_off()
    assert [client.wait_for_end() for client in clients] == ["reset"] * 3
    echoed(opened(raw_client(proxy), origin.port), b"on another")
    assert len(parent.links) == 2


# What a parent refuses


@pytest.mark.parametrize("status", [302, 400, 403, 429, 500, 502, 503])
def test_an_answer_that_is_no_tunnel(status, office, raw_origin, raw_client):
    """It ends one request; the connection carries on."""

    def judge(link, request) -> bool:
        if request.value(":authority").startswith("no.test"):
            link.respond(request, status, ("proxy-status", "office; error=dns_error"), body=b"no")
            return True

    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    standing = opened(raw_client(proxy), origin.port)
    answer = raw_client(proxy).exchange(ask("CONNECT", origin.port, host="no.test"))
    problem = refused(answer, 502, "parent-refused", "destination_unavailable", "office", str(status))
    assert proxy.access_of(problem.reference)["route"] == "office"
    echoed(standing, b"here")
    echoed(opened(raw_client(proxy), origin.port), b"and there")
    assert len(parent.links) == 1 and len(origin.connections) == 2


@pytest.mark.parametrize("status, goes_on", [(502, True), (503, True), (403, False)])
def test_another_route_is_tried_after_a_failure(status, goes_on, office, scripted_parent, raw_origin, raw_client):
    home = scripted_parent()
    judge = lambda link, request: link.respond(request, status, body=b"no") or True  # noqa: E731
    parent, proxy = office(judge, tables=route("home", home.via), order=("office", "home"))
    origin, client = raw_origin(tunnel_echo), raw_client(proxy)
    answer = client.exchange(ask("CONNECT", origin.port))
    if goes_on:
        assert answer.status == 200
        echoed(client, b"by home")
    else:
        refused(answer, 502, "parent-refused", "destination_unavailable", "403")
    assert len(home.requests()) == (1 if goes_on else 0) and len(parent.tunnels) == 1


# Streams that are not taken


def test_a_stream_that_is_refused_once_is_asked_for_again(office, raw_origin, raw_client):
    def judge(link, request) -> bool:
        if len(parent.requests) == 2:
            link.reset(request, CODES.REFUSED_STREAM)
            return True

    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    for _ in range(2):
        echoed(opened(raw_client(proxy), origin.port), b"x")
    assert len(parent.tunnels) == 3 and len(origin.connections) == 2


def test_a_parent_that_refuses_every_stream_is_asked_three_times(office, raw_origin, raw_client):
    judge = lambda link, request: link.reset(request, CODES.REFUSED_STREAM) or True  # noqa: E731
    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    answer = raw_client(proxy).exchange(ask("CONNECT", origin.port))
    refused(answer, 502, "parent-failed", "http_protocol_error", "office")
    assert len(parent.tunnels) == 3 and not origin.connections


@pytest.mark.parametrize("code", [CODES.CANCEL, CODES.CONNECT_ERROR, CODES.INTERNAL_ERROR])
def test_a_stream_that_ends_otherwise_is_not_asked_for_again(code, office, raw_client):
    parent, proxy = office(lambda link, request: link.reset(request, code) or True)
    answer = raw_client(proxy).exchange(ask("CONNECT", 443))
    refused(answer, 502, "parent-failed", "http_protocol_error", "office")
    assert len(parent.tunnels) == 1


def test_a_connection_that_ends_before_the_answer_is_no_reason_to_ask_again(office, raw_client):
    """The parent may have opened the tunnel."""
    parent, proxy = office(lambda link, request: link.break_off() or True)
    answer = raw_client(proxy).exchange(ask("CONNECT", 443))
    refused(answer, 502, "parent-failed", "http_protocol_error", "office")
    assert len(parent.tunnels) == 1


def test_a_parent_that_goes_away_first_is_asked_on_another_connection(office, raw_origin, raw_client):
    """GOAWAY names the streams that were served: this one was not."""

    def judge(link, request) -> bool:
        if link.number == 1 and len(parent.requests) == 2:
            link.leave(parent.requests[0].number)
            return True

    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    first = opened(raw_client(proxy), origin.port)
    echoed(opened(raw_client(proxy), origin.port), b"on another connection")
    assert len(parent.links) == 2 and len(parent.tunnels) == 3


def test_tunnels_outlive_the_announcement_that_there_will_be_no_more(office, raw_origin, raw_client):
    parent, proxy = office()
    origin = raw_origin(tunnel_echo)
    first = opened(raw_client(proxy), origin.port)
    parent.links[0].leave(1)
    second = opened(raw_client(proxy), origin.port)
    echoed(first, b"here")
    echoed(second, b"there")
    assert parent.requests[-1].connection == 2 and [len(link.tunnels) for link in parent.links] == [1, 1]


def test_a_parent_that_wants_http_1_1_gets_it(office, raw_origin, raw_client):
    def judge(link, request) -> bool:
        link.reset(request, CODES.HTTP_1_1_REQUIRED)
        return True

    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    echoed(opened(raw_client(proxy), origin.port), b"after all")
    echoed(opened(raw_client(proxy), origin.port), b"at once")
    assert parent.offers == [("h2", "http/1.1"), ("http/1.1",), ("http/1.1",)]
    assert parent.protocols == ["h2", "http/1.1", "http/1.1"] and len(parent.tunnels) == 1


def test_who_wants_http_1_1_where_it_may_not_be(office, raw_client):
    """The route allows HTTP/2 alone."""
    judge = lambda link, request: link.reset(request, CODES.HTTP_1_1_REQUIRED) or True  # noqa: E731
    parent, proxy = office(judge, 'protocols = ["h2"]')
    for _ in range(2):
        answer = raw_client(proxy).exchange(ask("CONNECT", 443))
        problem = refused(answer, 502, "protocol-not-offered", "http_protocol_error", "office", "by h2: ")
        assert problem.body["expected"] == "h2" and problem.body["seen"] == "http/1.1"
    assert () not in parent.offers and len(parent.tunnels) <= 2


# A parent's limit


def test_tunnels_above_the_limit_of_a_parent_do_not_wait_for_others_to_end(office, raw_origin, raw_client):
    """The two that are open stay open for good."""
    parent, proxy = office(settings={STREAMS: 2})
    origin = raw_origin(tunnel_echo)
    clients = [opened(raw_client(proxy), origin.port) for _ in range(5)]
    for number, client in enumerate(clients):
        echoed(client, b"%d" % number)
    assert 2 <= len(parent.links) <= 4
    assert all(len(link.tunnels) <= 2 for link in parent.links)


def test_a_burst_above_the_limit_of_a_parent(office, raw_origin, raw_client):
    parent, proxy = office(settings={STREAMS: 2})
    origin = raw_origin(tunnel_echo)
    clients = [raw_client(proxy) for _ in range(8)]
    for client in clients:
        client.send(ask("CONNECT", origin.port))
    for number, client in enumerate(clients):
        assert client.answer().status == 200
        echoed(client, b"%d" % number)
    assert all(len(link.tunnels) <= 2 for link in parent.links)


# The proxy's own end


def test_a_drain_waits_for_tunnels_on_streams(office, raw_origin, raw_client):
    parent, proxy = office()
    origin = raw_origin(tunnel_echo)
    client = opened(raw_client(proxy), origin.port)
    proxy.terminate()
    proxy.log.wait_for(lambda line: "drain" in line.get("message", "") or "stopp" in line.get("message", ""))
    echoed(client, b"still here")
    assert proxy.process.poll() is None
    client.half_close()
    assert client.wait_for_end() == "closed"
    assert proxy.wait_for_exit() == 0
    assert proxy.access()["outcome"] == "done"


def test_a_second_signal_ends_them(office, raw_origin, raw_client):
    parent, proxy = office()
    origin = raw_origin(tunnel_echo)
    client = opened(raw_client(proxy), origin.port)
    proxy.terminate()
    proxy.log.wait_for(lambda line: "drain" in line.get("message", "") or "stopp" in line.get("message", ""))
    proxy.terminate()
    assert client.wait_for_end() == "reset" and proxy.wait_for_exit() == 0
    assert proxy.access()["outcome"] == "shut-down"


def test_a_tunnel_on_a_stream_is_not_left_to_systemd(raw_origin, raw_client, manager, h2_parent, routed):
    """Its connection is shared and under TLS: it ends where it began, with its line in the log."""
    manager.store_places = 1000
    parent = h2_parent()
    proxy = routed(route("office", parent.via), "office", environment=manager.environment, **ONE_LOOP)
    client = opened(raw_client(proxy), raw_origin(tunnel_echo).port)
    proxy.terminate()
    manager.messages.wait_for(lambda message: "STOPPING" in message)
    echoed(client, b"still here")
    client.half_close()
    assert client.wait_for_end() == "closed" and proxy.wait_for_exit() == 0
    assert proxy.access()["outcome"] == "done"


def test_a_reload_that_changes_the_route_opens_a_new_connection(office, h2_parent, raw_origin, raw_client):
    parent, proxy = office()
    other = h2_parent()
    origin = raw_origin(tunnel_echo)
    first = opened(raw_client(proxy), origin.port)
    same = proxy.head + route("office", parent.via) + rule("routed", by("office"))
    assert proxy.reload(policy=same, proxy="workers = 1")["level"] != "error"
    second = opened(raw_client(proxy), origin.port)
    assert len(parent.links) == 1, "nothing has changed"
    changed = proxy.head + route("office", other.via) + rule("routed", by("office"))
    assert proxy.reload(policy=changed, proxy="workers = 1")["level"] != "error"
    third = opened(raw_client(proxy), origin.port)
    for number, client in enumerate((first, second, third)):
        echoed(client, b"%d" % number)
    assert (len(parent.tunnels), len(other.tunnels)) == (2, 1)
