"""What a bridge between HTTP/2 and HTTP/1.1 must carry whole in each of the four combinations: 100 Continue, informational
responses, HEAD, 204 and 304, and uploads and downloads that break off.
"""

import threading

import pytest

from journal import DEADLINE_SECONDS
from test_http2 import h2_origin, inside, ok  # noqa: F401
from tls_world import authority, client_context, intercepting, rule, secure_client, secure_proxy, tls_origin, world  # noqa: F401

CLIENTS = ORIGINS = ["h2", "http/1.1"]


@pytest.fixture
def tunnel(secure_client, authority):
    """A function that opens a tunnel and speaks HTTP/1.1 in it."""

    def enter(proxy, host: str, port: int):
        client = secure_client(proxy)
        assert client.tunnel(host, port).status == 200
        client.shake_hands(client_context(authority.file), host)
        return client

    return enter


class Expecting:
    """A client that sends its body once it hears 100, on either wire."""

    def __init__(self, wire: str, inside, tunnel, proxy, port: int):
        self.wire, self.place = wire, f"a.test:{port}"
        if wire == "h2":
            self.client = inside(proxy, "a.test", port)
            self.number = self.client.request(
                self.place, "/", ("expect", "100-continue"), ("content-length", "5"), method="POST", ends=False)
        else:
            self.client = tunnel(proxy, "a.test", port)
            head = f"POST / HTTP/1.1\r\nHost: {self.place}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
            self.client.send(head.encode())

    def wait_for_100(self) -> None:
        if self.wire == "h2":
            hints = self.client.exchanges[self.number].informational
            self.client.wait_until(lambda: hints)
            assert (":status", "100") in hints[0]
        else:
            assert self.client.receive_until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")

    def say(self, body: bytes) -> None:
        if self.wire == "h2":
            self.client.content(self.number, body)
        else:
            self.client.send(body)

    def status(self) -> int:
        return self.client.wait(self.number).status if self.wire == "h2" else self.client.answer().status


@pytest.mark.parametrize("origin_wire", ORIGINS)
@pytest.mark.parametrize("client_wire", CLIENTS)
@pytest.mark.parametrize("final", [200, 417])
def test_a_body_that_waits_to_be_asked_for(final, client_wire, origin_wire, intercepting, inside, tunnel, h2_origin, tls_origin, world):
    bodies = []

    def h2_answer(link, request):
        if final == 417:
            return link.respond(request, 417)
        with link.lock:
            link.connection.send_headers(request.number, [(":status", "100")])
            link.flush()

    def h1_answer(connection) -> None:
        connection.read_head()
        if final == 417:
            return connection.send(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        bodies.append(connection.read_body().body)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    origin = h2_origin(h2_answer, early=True) if origin_wire == "h2" else tls_origin(h1_answer, world.context(world.leaf("a.test")))
    client = Expecting(client_wire, inside, tunnel, intercepting(), origin.port)
    if final == 200:
        client.wait_for_100()
        assert not bodies
        client.say(b"hello")
        if origin_wire == "h2":
            origin.wait_until(lambda: origin.requests and origin.requests[0].number in origin.links[0].ended)
            bodies.append(bytes(origin.requests[0].body))
            origin.links[0].respond(origin.requests[0], 200)
    assert client.status() == final
    assert bodies == ([b"hello"] if final == 200 else [])


HEADS = {
    "HEAD": ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\n", 200, "5"),
    "204": ("GET", b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", 204, None),
    "304": ("GET", b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 5\r\nX-A: 1\r\n\r\n', 304, "5"),
}


@pytest.mark.parametrize("method, answer, status, length", HEADS.values(), ids=HEADS)
def test_answers_without_content_from_http_1_1(method, answer, status, length, intercepting, inside, tls_origin, world):
    """After a 103, which comes through; and the next request on the same connections is as good as the first."""

    def script(connection) -> None:
        while True:
            connection.read_request()
            connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + answer)

    origin = tls_origin(script, world.context(world.leaf("a.test")))
    client = inside(intercepting(proxy="workers = 1"), "a.test", origin.port)
    for _ in range(2):
        got = client.get(f"a.test:{origin.port}", "/", method=method)
        assert got.informational == [[(":status", "103"), ("link", "</a>")]] or got.informational[0][0] == (":status", "103")
        assert (got.status, got.body, got.value("x-a"), got.value("content-length")) == (status, b"", "1", length)
        assert got.ended and got.reset is None
    assert len(origin.handshakes) == 1


@pytest.mark.parametrize("how", ["reset", "gone"])
@pytest.mark.parametrize("length", [None, 100])
@pytest.mark.parametrize("origin_wire", ORIGINS)
def test_an_upload_that_breaks_off_is_no_whole_one(origin_wire, length, how, intercepting, inside, h2_origin, tls_origin, world):
    """Whatever the origin can see of it ends as something broken: RST_STREAM, or a connection closed within the body."""
    arrived = threading.Event()

    def script(connection) -> None:
        connection.read_head()
        while b"half" not in connection.received and connection.receive_some():
            pass
        arrived.set()
        connection.wait_for_end()

    origin = h2_origin(lambda link, request: None, early=True) if origin_wire == "h2" else tls_origin(script, world.context(world.leaf("a.test")))
    client = inside(intercepting(), "a.test", origin.port)
    fields = [("content-length", str(length))] if length else []
    number = client.request(f"a.test:{origin.port}", "/", *fields, method="POST", body=b"half", ends=False)
    if origin_wire == "h2":
        origin.wait_until(lambda: origin.requests and origin.requests[0].body == b"half")
    else:
        assert arrived.wait(DEADLINE_SECONDS)
    if how == "reset":
        client.reset(number)
    else:
        client.secure.close()
    if origin_wire == "h2":
        origin.wait_until(lambda: origin.requests[0].reset is not None)
        assert origin.requests[0].number not in origin.links[0].ended
    else:
        origin.wait_for("done")
        received = bytes(origin.connections[0].received)
        assert b"half" in received and not received.endswith(b"0\r\n\r\n")


def test_a_request_for_another_port_is_misdirected(intercepting, inside, h2_origin):
    """RFC 9110, 15.5.20: the tunnel was opened for one port of the host, and rules have judged that one."""
    origin = h2_origin(ok)
    client = inside(intercepting(), "a.test", origin.port)
    other = 443 if origin.port != 443 else 8443
    for place in (f"a.test:{other}", f"b.test:{origin.port}"):
        got = client.get(place)
        assert got.status == 421, place
    assert not origin.requests
    assert client.get(f"a.test:{origin.port}").status == 200


def test_a_reload_finishes_streams_under_the_policy_that_they_began_with(intercepting, inside, h2_origin):
    """New ones on the same connection come under the new one, and those that it denies are not broken off."""
    origin = h2_origin(lambda link, request: None if request.path == "/stays" else ok(link, request))
    proxy = intercepting()
    client = inside(proxy, "a.test", origin.port)
    stays = client.request(f"a.test:{origin.port}", "/stays")
    origin.wait_until(lambda: origin.requests)
    deny = rule("no", 'hosts = ["a.test"]', 'paths = ["/stays", "/new"]', 'action = "deny"')
    lines, policy = proxy.configuration.read_text().split("\n\n", 1)
    table, rest = policy.split("[[rule]]", 1)
    done = proxy.reload(proxy="\n".join(lines.split("\n")[2:]), policy=f"{table}{deny}[[rule]]{rest}")
    assert done["level"] != "error"
    assert client.get(f"a.test:{origin.port}", "/new").status == 403
    assert client.get(f"a.test:{origin.port}", "/open").status == 200
    origin.links[0].respond(origin.requests[0], 200, body=b"as it began")
    assert client.wait(stays).body == b"as it began"
