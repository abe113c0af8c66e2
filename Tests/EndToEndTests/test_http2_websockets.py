"""WebSockets whose origin may take them on streams (RFC 8441): which way the first one goes, before anything is known."""

import base64

import h2.errors
import pytest

from http2_world import Link
from test_http2 import TunnelOrigin, accept, h2_origin, inside, ok, open_websocket  # noqa: F401
from tls_world import authority, client_context, intercepting, rule, secure_client, secure_proxy, tls_origin, world  # noqa: F401

ONE_LOOP = "workers = 1"
ONLY_2 = rule("two", 'hosts = ["a.test"]', 'connect = "intercept"', 'protocols = ["h2"]')


def problem_of(got) -> str:
    return got.body.decode().split("urn:sallyport:problem:")[1].split('"')[0]


def shouting(secure) -> None:
    """An origin of HTTP/1.1 that switches to WebSocket, and sends back in capitals what comes."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += secure.recv(65536)
    key = head.lower().split(b"sec-websocket-key: ")[1].split(b"\r\n")[0]
    key = head[head.lower().index(key):][: len(key)]
    secure.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
        + accept(key) + b"\r\n\r\n")
    while more := secure.recv(65536):
        secure.sendall(more.upper())


def talks(client, port: int) -> None:
    number, exchange = open_websocket(client, port)
    client.wait_until(lambda: exchange.status)
    assert exchange.status == 200, exchange
    client.content(number, b"hello", ends=False)
    client.wait_until(lambda: exchange.body == b"HELLO")
    client.content(number, b"", ends=True)


@pytest.mark.parametrize("policy", ["", ONLY_2], ids=["either", "h2 alone"])
@pytest.mark.parametrize("alpn", [("h2",), ("h2", "http/1.1")])
def test_the_first_request_may_be_one(alpn, policy, intercepting, inside, h2_origin):
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True, alpn=alpn)
    proxy = intercepting(policy, proxy=ONE_LOOP)
    client = inside(proxy, "a.test", origin.port, validate=False)
    for _ in range(3):
        talks(client, origin.port)
    assert origin.protocols == ["h2"] and len(serve.asked) == 3
    line = proxy.access(lambda line: line["target"].endswith("/chat"))
    assert (line["status"], line["protocol"], line["upstream_protocol"]) == (101, "h2", "h2")


def test_the_first_one_of_a_client_of_http_1_1(intercepting, secure_client, h2_origin, authority):
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True)
    client = secure_client(intercepting())
    place = f"a.test:{origin.port}"
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    key = base64.b64encode(b"sixteen bytes 01")
    client.send(
        f"GET /chat HTTP/1.1\r\nHost: {place}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n\r\n".encode())
    assert client.receive_until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
    client.send(b"hello")
    assert client.receive_exactly(5) == b"HELLO"
    client.close()


def test_many_first_ones_share_few_connections(intercepting, inside, h2_origin):
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True)
    client = inside(intercepting(proxy=ONE_LOOP), "a.test", origin.port, validate=False)
    opened = [open_websocket(client, origin.port) for _ in range(20)]
    client.wait_until(lambda: all(exchange.status == 200 for _, exchange in opened))
    assert len(origin.protocols) <= 6, "as many as a burst of requests opens"


def test_an_origin_that_opens_none_on_streams_gets_upgrade(intercepting, inside, h2_origin):
    """The connection of HTTP/2 that showed it serves the requests, and no further WebSocket asks again."""
    origin = h2_origin(ok, alpn=("h2", "http/1.1"), other=shouting)
    client = inside(intercepting(proxy=ONE_LOOP), "a.test", origin.port, validate=False)
    for _ in range(2):
        talks(client, origin.port)
    assert client.get(f"a.test:{origin.port}").body == b"ok"
    assert origin.protocols == ["h2", "http/1.1", "http/1.1"]


def test_where_no_way_is_left_the_client_is_told_which(intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    client = inside(intercepting(ONLY_2, proxy=ONE_LOOP), "a.test", origin.port, validate=False)
    for _ in range(2):
        number, _ = open_websocket(client, origin.port)
        got = client.wait(number)
        assert got.status == 502 and problem_of(got) == "protocol-not-offered"
        assert "RFC 8441" in got.body.decode()
    assert client.get(f"a.test:{origin.port}").body == b"ok"
    assert origin.protocols == ["h2"]


CAP = "[proxy.limits]\nconnections_per_host = {}\n"


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_first_ones_under_a_limit_of_connections(limit, intercepting, inside, h2_origin):
    """One connection serves them all, and is not given up for those that wait for its settings."""
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True)
    client = inside(intercepting(CAP.format(limit), proxy=ONE_LOOP), "a.test", origin.port, validate=False)
    opened = [open_websocket(client, origin.port) for _ in range(6)]
    client.wait_until(lambda: all(exchange.status for _, exchange in opened))
    assert [exchange.status for _, exchange in opened] == [200] * 6
    assert len(origin.protocols) <= limit


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_connections_that_show_no_tunnels_give_their_places_back(limit, intercepting, inside, h2_origin):
    """As many as are allowed at a time, round after round, of an origin that wants Upgrade."""
    origin = h2_origin(ok, alpn=("h2", "http/1.1"), other=shouting)
    client = inside(intercepting(CAP.format(limit), proxy=ONE_LOOP), "a.test", origin.port, validate=False)
    for _ in range(4):
        opened = [open_websocket(client, origin.port) for _ in range(limit)]
        client.wait_until(lambda: all(exchange.status for _, exchange in opened))
        assert [exchange.status for _, exchange in opened] == [200] * limit
        for number, _ in opened:
            client.content(number, b"hello", ends=True)
            client.wait(number)
        assert client.get(f"a.test:{origin.port}").body == b"ok"


class Silent(Link):
    """It never sends its settings."""

    def run(self) -> None:
        while self.secure.recv(65536):
            pass


class Leaving(Link):
    def run(self) -> None:
        pass


@pytest.mark.parametrize("link, token", [(Silent, "tls-timeout"), (Leaving, "connection-closed")])
def test_settings_that_never_come(link, token, intercepting, inside, h2_origin):
    origin = h2_origin(ok, link=link)
    proxy = intercepting(proxy='timeouts = { tls_handshake = "500ms" }')
    client = inside(proxy, "a.test", origin.port, validate=False)
    got = client.wait(open_websocket(client, origin.port)[0])
    assert got.status == 502 + 2 * (token == "tls-timeout") and problem_of(got) == token


@pytest.mark.parametrize("side", ["client", "origin"])
def test_a_reset_of_one_side_reaches_the_other(side, intercepting, inside, h2_origin):
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True)
    client = inside(intercepting(), "a.test", origin.port, validate=False)
    number, exchange = open_websocket(client, origin.port)
    client.wait_until(lambda: exchange.status == 200)
    if side == "client":
        client.reset(number)
        origin.wait_until(lambda: serve.asked[0].reset is not None)
    else:
        link = origin.links[-1]
        link.reset(serve.asked[0], h2.errors.ErrorCodes.INTERNAL_ERROR)
        assert client.wait(number).reset is not None and not exchange.ended
    assert client.get(f"a.test:{origin.port}").body == b"ok"


@pytest.mark.parametrize("host, opens", [("a.test:{}", True), ("b.test:{}", False)])
def test_a_host_beside_its_authority(host, opens, intercepting, inside, h2_origin):
    """RFC 9113, 8.3.1: it may be there, and must be the same."""
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True)
    client = inside(intercepting(), "a.test", origin.port, validate=False)
    head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":authority", f"a.test:{origin.port}"),
            (":path", "/chat"), ("sec-websocket-version", "13"), ("host", host.format(origin.port))]
    number = client.send(head, ends=False)
    exchange = client.exchanges[number]
    client.wait_until(lambda: exchange.status or exchange.reset is not None)
    assert exchange.status == 200 if opens else exchange.reset == h2.errors.ErrorCodes.PROTOCOL_ERROR
