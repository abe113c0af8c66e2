"""What a parent that speaks HTTP/2 may do besides, and what comes of many exchanges at once on its connection."""

import h2.errors
import pytest

from http2_parents import h2_parent
from origins import tunnel_echo
from parents import ask, refused, routed
from test_http2_parents_tunnels import STREAMS, echoed, office, opened
from tls_world import get, tls_origin, world

CODES = h2.errors.ErrorCodes
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
UPGRADE += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
PROOF = b"ICX+Yqv66kxgM0FcWaLWlFLwTAI="


# Answers to CONNECT


def test_a_server_that_speaks_first(office, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        connection.send(b"220 hello")
        connection.wait_for_end()

    parent, proxy = office()
    origin, client = raw_origin(script), raw_client(proxy)
    assert opened(client, origin.port).receive_exactly(9) == b"220 hello"


@pytest.mark.parametrize(
    "fields", [[("content-length", "5")], [("content-length", "0")], [("x-a", "1"), ("date", "x")]], ids=str
)
def test_what_a_grant_carries_means_nothing(fields, office, raw_origin, raw_client):
    """RFC 9110, 9.3.6."""

    def judge(link, request) -> bool:
        respond = link.respond
        link.respond = lambda request, status, ends: respond(request, status, *fields, ends=ends)
        link.open_tunnel(request)
        link.respond = respond
        return True

    parent, proxy = office(judge)
    client = opened(raw_client(proxy), raw_origin(tunnel_echo).port)
    echoed(client, b"all the same" * 10)


def test_interim_answers_before_a_grant(office, raw_origin, raw_client):
    def judge(link, request) -> bool:
        for _ in range(3):
            link.hint(request, ("link", "</a>"))
        link.open_tunnel(request)
        return True

    parent, proxy = office(judge)
    echoed(opened(raw_client(proxy), raw_origin(tunnel_echo).port), b"x")


def test_a_grant_that_is_the_end(office, raw_client):
    parent, proxy = office(lambda link, request: link.respond(request, 200) or True)
    client = opened(raw_client(proxy), 443)
    assert client.wait_for_end() == "closed"
    client.half_close()
    parent.wait_until(lambda: parent.links[0].ended or parent.requests[0].reset is not None)


def test_a_malformed_answer_is_one_tunnels(office, raw_origin, raw_client):
    def judge(link, request) -> bool:
        if request.value(":authority").startswith("no.test"):
            link.respond(request, 200, ("X-Upper", "1"), ends=False)
            return True

    parent, proxy = office(judge)
    standing = opened(raw_client(proxy), raw_origin(tunnel_echo).port)
    answer = raw_client(proxy).exchange(ask("CONNECT", 443, host="no.test"))
    refused(answer, 502, "parent-failed", "http_protocol_error", "office")
    echoed(standing, b"x")
    assert len(parent.links) == 1 and parent.requests[1].reset == CODES.PROTOCOL_ERROR


def test_a_parent_that_says_nothing_of_one_tunnel(office, raw_origin, raw_client):
    """The stream is given up, the others are not, and the parent is not taken for dead."""
    judge = lambda link, request: request.value(":authority").startswith("no.test")  # noqa: E731
    parent, proxy = office(judge, proxy='timeouts = { connect = "300ms" }')
    origin = raw_origin(tunnel_echo)
    standing = opened(raw_client(proxy), origin.port)
    answer = raw_client(proxy).exchange(ask("CONNECT", 443, host="no.test"))
    refused(answer, 504, "connection-timeout", "connection_timeout", "office")
    parent.wait_until(lambda: parent.requests[1].reset is not None)
    echoed(standing, b"x")
    echoed(opened(raw_client(proxy), origin.port), b"y")
    assert len(parent.links) == 1


def test_a_client_that_does_not_wait_for_its_tunnel(office, raw_origin, raw_client):
    judge = lambda link, request: request.value(":authority").startswith("no.test")  # noqa: E731
    parent, proxy = office(judge)
    client = raw_client(proxy)
    client.send(ask("CONNECT", 443, host="no.test"))
    parent.wait_until(lambda: parent.requests)
    client.reset()
    parent.wait_until(lambda: parent.requests[0].reset is not None)
    echoed(opened(raw_client(proxy), raw_origin(tunnel_echo).port), b"x")
    assert len(parent.links) == 1


# What came before an end is delivered


LAST_WORDS = b"x" * 60_000


@pytest.mark.parametrize("way", ["goaway", "break"])
def test_what_came_before_the_end_is_delivered(way, office, raw_origin, raw_client):
    """The client reads slowly; the destination has ended, and the parent leaves or is gone."""

    def judge(link, request) -> bool:
        link.respond(request, 200, ends=False)
        link.connection.send_data(request.number, LAST_WORDS[:16_000])
        for at in range(16_000, len(LAST_WORDS), 11_000):
            link.connection.send_data(request.number, LAST_WORDS[at : at + 11_000])
        link.connection.end_stream(request.number)
        link.flush()
        link.leave(request.number) if way == "goaway" else link.secure.close()
        return True

    parent, proxy = office(judge)
    client = raw_client(proxy, receive_buffer=4096)
    assert opened(client, 443).receive_exactly(len(LAST_WORDS)) == LAST_WORDS
    assert client.wait_for_end() == "closed"


# Many at once


@pytest.mark.parametrize("last", [0, 1], ids=["all refused", "one served"])
def test_a_parent_that_leaves_many_waiting_is_asked_on_few_connections(last, office, raw_origin, raw_client):
    """What one GOAWAY refuses does not open a connection each."""

    def judge(link, request) -> bool:
        return link.number == 1 and request.number > last

    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    clients = [raw_client(proxy) for _ in range(30)]
    clients[0].send(ask("CONNECT", origin.port))
    parent.wait_until(lambda: parent.requests)
    for client in clients[1:]:
        client.send(ask("CONNECT", origin.port))
    parent.wait_until(lambda: len(parent.requests) == 30)
    parent.links[0].leave(last)
    for number, client in enumerate(clients):
        assert client.answer().status == 200
        echoed(client, b"%d" % number)
    assert len(parent.links) - 1 <= 6


def test_a_parent_that_takes_no_stream_at_all(office, raw_client):
    """MAX_CONCURRENT_STREAMS of 0: an answer comes, and after a few connections."""
    parent, proxy = office(settings={STREAMS: 0}, proxy='timeouts = { connect = "2s" }')
    for method in ("CONNECT", "GET"):
        answer = raw_client(proxy).exchange(ask(method, 443))
        assert answer.status in (502, 503, 504), answer
        assert b"office" in answer.body
    assert len(parent.links) <= 8


def test_requests_above_the_limit_of_a_parent_are_served(office, raw_client):
    parent, proxy = office(settings={STREAMS: 1})
    clients = [raw_client(proxy) for _ in range(20)]
    assert clients[0].exchange(ask("GET", 80)).body == b"ok"
    for number, client in enumerate(clients):
        client.send(ask("GET", 80, f"/{number}"))
    assert all(client.answer().body == b"ok" for client in clients)
    assert not any(link.refused for link in parent.links[1:]) and len(parent.links) <= 20


def test_a_request_does_not_wait_for_tunnels_to_end(office, raw_origin, raw_client):
    """The limit is used up by tunnels that are open for good."""
    parent, proxy = office(settings={STREAMS: 2})
    origin = raw_origin(tunnel_echo)
    tunnels = [opened(raw_client(proxy), origin.port) for _ in range(2)]
    assert raw_client(proxy).exchange(ask("GET", 80)).body == b"ok"
    for tunnel in tunnels:
        echoed(tunnel, b"x")


def test_nothing_is_kept_of_what_has_ended(office, raw_origin, raw_client):
    """Tunnels of every fate, many times over: the parent's connection has no stream left, the proxy no descriptor."""

    def judge(link, request) -> bool:
        host = request.value(":authority").partition(":")[0]
        if host == "no.test":
            link.respond(request, 403, body=b"no")
        elif host == "reset.test":
            link.reset(request, CODES.CONNECT_ERROR)
        elif host == "again.test":
            link.reset(request, CODES.REFUSED_STREAM)
        elif host != "silent.test":
            return False
        return True

    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    opened(raw_client(proxy), origin.port).close()
    before = None
    for turn in range(60):
        for host in ("no.test", "reset.test", "again.test"):
            client = raw_client(proxy)
            assert client.exchange(ask("CONNECT", 443, host=host)).status == 502
            client.close()
        seen = len(parent.requests)
        client = raw_client(proxy)
        client.send(ask("CONNECT", 443, host="silent.test"))
        parent.wait_until(lambda: len(parent.requests) > seen)
        client.close()
        client = opened(raw_client(proxy), origin.port)
        echoed(client, b"x" * 1000)
        client.half_close()
        assert client.wait_for_end() == "closed"
        client.close()
        if turn == 9:
            before = proxy.descriptors()
    link = parent.links[0]
    left = [request for request in parent.requests if request.value(":authority").startswith(("silent.test", "a.test"))]
    parent.wait_until(lambda: all(request.reset is not None or request.number in link.ended for request in left))
    assert proxy.descriptors() <= before + 2 and len(parent.links) == 1


# Upgrades


def websocket(connection) -> None:
    connection.read_request()
    connection.switch_protocol()
    connection.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: " + PROOF + b"\r\n\r\n"
    )
    while connection.receive_some():
        connection.send(bytes(connection.received[connection.read_to :]))
        connection.read_to = len(connection.received)


def test_an_upgrade_goes_by_http_1_1(office, raw_client):
    parent, proxy = office(script=websocket)
    assert raw_client(proxy).exchange(ask("GET", 80)).body == b"ok"
    client = raw_client(proxy)
    assert client.exchange(ask("GET", 80, lines=UPGRADE)).status == 101
    echoed(client, b"\x81\x02hi")
    assert raw_client(proxy).exchange(ask("GET", 80)).body == b"ok"
    assert parent.offers == [("h2", "http/1.1"), ("http/1.1",)]


def test_an_upgrade_where_the_route_allows_http_2_alone(office, raw_client):
    parent, proxy = office(None, 'protocols = ["h2"]')
    answer = raw_client(proxy).exchange(ask("GET", 80, lines=UPGRADE))
    problem = refused(answer, 502, "protocol-not-offered", "http_protocol_error", "office", "by h2: ")
    assert problem.body["expected"] == "h2" and () not in parent.offers


def test_an_upgrade_inside_tls_on_a_stream(office, tls_origin, raw_client, world):
    parent, proxy = office()
    origin = tls_origin(websocket, world.context(world.leaf("a.test"), alpn=("http/1.1",)))
    client = raw_client(proxy)
    assert client.exchange(get("a.test", origin.port, lines=UPGRADE)).status == 101
    echoed(client, b"\x81\x02hi")
    assert parent.tunnels == [f"a.test:{origin.port}"] and parent.protocols == ["h2"]


# HTTP/1.1 after all


def test_other_tunnels_go_on_when_a_parent_asks_for_http_1_1(office, raw_origin, raw_client):
    def judge(link, request) -> bool:
        if request.value(":authority").startswith("old.test"):
            link.reset(request, CODES.HTTP_1_1_REQUIRED)
            return True

    parent, proxy = office(judge)
    origin = raw_origin(tunnel_echo)
    standing = opened(raw_client(proxy), origin.port)
    client = raw_client(proxy)
    assert client.exchange(ask("CONNECT", origin.port, host="old.test")).status == 200
    echoed(client, b"by HTTP/1.1")
    echoed(standing, b"on its stream")
    assert parent.protocols == ["h2", "http/1.1"]
