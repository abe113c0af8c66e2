"""Routes by http parents that are real: tinyproxy and Squid, both of which ask for credentials.

What the parent is asked is kept by a tap and checked when the test ends (parents.check_asked_of_parent); here is what
else it must be, what the origin gets through it, and what the access line says. Byte for byte: test_routes_requests.py.
"""

import hashlib
import subprocess

import pytest

from conftest import need
from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import answering, echoing, tunnel_echo
from parents import ADA, BASIC, ask, by, http_parent, programs, real_parent, route, routed
from proxy import clean_environment
from tls_world import OK, get, rule, tls_origin, world

LARGE = hashlib.shake_128(b"through a parent").digest(4 * 1024 * 1024)
# The proxy knows its parent only: where a.test is found, the parent has found it.
PARENT_ONLY = {"office.test": Answer(a=["127.0.0.1"])}


@pytest.fixture
def office(http_parent, routed):
    """A proxy whose every request goes by this parent, which alone knows a.test."""
    return routed(route("office", http_parent.via, ADA), "office", known=PARENT_ONLY)


@pytest.fixture
def behind(raw_origin, http_parent):
    """A function that starts an origin that is asked by the parent."""

    def start(script, **arguments):
        origin = raw_origin(script, **arguments)
        origin.pseudonym = http_parent.name.encode()
        return origin

    return start


def closing_as_told(*answers: bytes):
    """`answering` that ends when it is told to. tinyproxy relies on that where an answer has no body."""
    waiting = list(answers)

    def script(connection) -> None:
        while True:
            request = connection.read_request()
            connection.send(waiting.pop(0) if len(waiting) > 1 else waiting[0])
            if b"close" in request.options("Connection"):
                return

    return script


def vias(message) -> list[bytes]:
    return message.options("Via")


# What is asked


def test_a_request_goes_in_absolute_form(office, http_parent, behind, raw_client):
    origin = behind(answering(OK))
    answer = raw_client(office).exchange(ask("GET", origin.port, "/path?query=1", "X-Mine: yes\r\n"))
    assert (answer.status, answer.body) == (200, b"ok")
    (asked,) = http_parent.asked
    assert (asked.method, asked.target) == (b"GET", b"http://a.test:%d/path?query=1" % origin.port)
    assert asked.value("Host") == b"a.test:%d" % origin.port
    assert asked.value("Proxy-Authorization") == BASIC
    assert asked.value("X-Mine") == b"yes" and len(vias(asked)) == 1
    (request,) = origin.requests()
    assert request.target == b"/path?query=1" and not request.values("Proxy-Authorization")
    assert request.value("Host") == b"a.test:%d" % origin.port
    seen = vias(request)
    assert len(seen) == 2 and seen[0] == vias(asked)[0] and http_parent.name.encode() in seen[1]


def test_the_name_is_left_to_the_parent(office, behind, raw_client):
    origin = behind(answering(OK))
    assert raw_client(office).exchange(ask("GET", origin.port)).body == b"ok"
    tunnel = raw_client(office)
    assert tunnel.exchange(ask("CONNECT", origin.port)).status == 200
    assert not office.names.asked("a.test") and office.names.asked("office.test")


def test_the_access_line_names_the_route_and_the_parent(office, http_parent, behind, raw_client):
    origin = behind(answering(OK))
    raw_client(office).exchange(ask("GET", origin.port))
    line = office.access()
    assert (line["route"], line["upstream"]) == ("office", f"127.0.0.1:{http_parent.port}")
    assert (line["rule"], line["decision"], line["status"]) == ("routed", "allow", 200)
    assert line["target"] == f"http://a.test:{origin.port}/" and line["outcome"] == "done"


def test_a_tunnel_is_asked_for_with_connect(office, http_parent, raw_origin, raw_client):
    origin, client = raw_origin(tunnel_echo), raw_client(office)
    assert client.exchange(ask("CONNECT", origin.port, lines="X-Mine: yes\r\nCookie: a=b\r\n")).status == 200
    client.send(b"\x00sally\r\n\r\n")
    assert client.receive_exactly(10) == b"\x00sally\r\n\r\n"
    client.half_close()
    client.wait_for_end()
    (asked,) = http_parent.asked
    assert (asked.method, asked.target) == (b"CONNECT", b"a.test:%d" % origin.port)
    assert asked.value("Proxy-Authorization") == BASIC
    assert bytes(origin.connections[0].received) == b"\x00sally\r\n\r\n"
    line = office.access()
    assert (line["method"], line["status"], line["route"]) == ("CONNECT", 200, "office")
    assert line["upstream"] == f"127.0.0.1:{http_parent.port}" and line["outcome"] == "done"


def test_https_in_absolute_form_is_tls_inside_a_tunnel(office, http_parent, tls_origin, raw_client, world):
    origin = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    client = raw_client(office)
    for number in range(3):
        assert client.exchange(get("a.test", origin.port, f"/secret/{number}")).body == b"ok"
    (asked,) = http_parent.asked
    assert (asked.method, asked.target) == (b"CONNECT", b"a.test:%d" % origin.port)
    (handshake,) = origin.handshakes
    assert handshake.server_name == "a.test"
    first, *_ = origin.requests()
    assert first.target == b"/secret/0" and len(vias(first)) == 1
    assert not first.values("Proxy-Authorization")
    assert all(b"secret" not in stream["up"] for stream in http_parent.streams)
    lines = [office.access(lambda line, n=n: line["target"].endswith(f"/{n}")) for n in range(3)]
    assert [line["reused"] for line in lines] == [False, True, True]
    assert {line["route"] for line in lines} == {"office"} and lines[0]["assurance"] == "exact"
    assert {line["upstream"] for line in lines} == {f"127.0.0.1:{http_parent.port}"}


@pytest.mark.own_network
def test_upgrade_goes_through_a_tunnel_to_port_443(http_parent, routed, tls_origin, raw_client, world):
    origin = tls_origin(answering(OK), world.context(world.leaf("a.test")), port=443)
    proxy = routed(
        route("office", http_parent.via, ADA),
        rules=rule("up", by("office"), "upgrade = true"),
        known=PARENT_ONLY,
    )
    answer = raw_client(proxy).exchange(b"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert answer.body == b"ok"
    assert [(asked.method, asked.target) for asked in http_parent.asked] == [(b"CONNECT", b"a.test:443")]
    assert origin.requests()[0].target == b"/x"


# Bodies


def test_a_sized_body_goes_both_ways(office, behind, raw_client):
    origin = behind(echoing)
    lines = f"Content-Length: {len(LARGE)}\r\n"
    client = raw_client(office)
    client.send(ask("POST", origin.port, lines=lines) + LARGE)
    assert client.answer().body == LARGE
    assert origin.requests()[0].body == LARGE


def test_a_chunked_body_goes_both_ways(office, behind, raw_client):
    def script(connection) -> None:
        body = connection.read_request().body
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(body), 30_000):
            part = body[start : start + 30_000]
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        connection.send(b"0\r\n\r\n")
        connection.wait_for_end()

    origin, client = behind(script), raw_client(office)
    chunks = b"".join(b"%x\r\n%s\r\n" % (50_000, LARGE[at : at + 50_000]) for at in range(0, 500_000, 50_000))
    client.send(ask("POST", origin.port, lines="Transfer-Encoding: chunked\r\n") + chunks + b"0\r\n\r\n")
    assert client.answer().body == LARGE[:500_000]


def test_a_body_that_ends_with_the_connection(office, behind, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + LARGE)

    assert raw_client(office).exchange(ask("GET", behind(script).port)).body == LARGE


def test_a_large_body_inside_a_tunnel(office, tls_origin, raw_client, world):
    origin = tls_origin(echoing, world.context(world.leaf("a.test")))
    client = raw_client(office)
    client.send(get("a.test", origin.port, method="PUT", lines=f"Content-Length: {len(LARGE)}\r\n") + LARGE)
    assert client.answer().body == LARGE


BODILESS = {
    "HEAD": ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n", 200),
    "204": ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
    "304": ("GET", b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n', 304),
    "an empty body": ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200),
}


@pytest.mark.parametrize("name", BODILESS)
def test_an_answer_without_a_body_leaves_the_client_in_step(name, office, behind, raw_client):
    method, said, status = BODILESS[name]
    origin, client = behind(closing_as_told(said, OK)), raw_client(office)
    answer = client.exchange(ask(method, origin.port, lines='If-None-Match: "x"\r\n'))
    assert (answer.status, answer.body) == (status, b"")
    assert client.exchange(ask("GET", origin.port, "/next")).body == b"ok"


def test_the_status_of_an_origin_is_its_own(office, behind, raw_client):
    """A parent that hands on a 502 or 403 in absolute-form has not refused anything."""
    for status in (b"403 Forbidden", b"404 Not Found", b"502 Bad Gateway", b"503 Service Unavailable"):
        origin = behind(answering(b"HTTP/1.1 " + status + b"\r\nContent-Length: 4\r\n\r\nmine"))
        answer = raw_client(office).exchange(ask("GET", origin.port))
        assert (answer.status, answer.body) == (int(status[:3]), b"mine")


# Connections


def test_connections_to_squid_are_kept(real_parent, routed, raw_origin, raw_client):
    """Squid keeps connections alive: one of them, and one tunnel, suffices for a client that asks in turn."""
    squid, origin = real_parent("squid"), raw_origin(answering(OK))
    origin.pseudonym = b"squid.test"
    client = raw_client(routed(route("office", squid.via, ADA), "office", proxy="workers = 1"))
    for number in range(6):
        assert client.exchange(ask("GET", origin.port, f"/{number}")).body == b"ok"
    assert len(squid.streams) == 1
    assert {asked.value("Proxy-Authorization") for asked in squid.asked} == {BASIC}


def test_a_parent_that_closes_after_each_answer_is_asked_anew(real_parent, routed, raw_origin, raw_client):
    """tinyproxy says nothing of `Connection: close`, and closes."""
    tinyproxy, origin = real_parent("tinyproxy"), raw_origin(answering(OK))
    origin.pseudonym = b"tinyproxy"
    client = raw_client(routed(route("office", tinyproxy.via, ADA), "office", proxy="workers = 1"))
    for number in range(12):
        assert client.exchange(ask("GET", origin.port, f"/{number}")).body == b"ok"
    assert {request.target for request in origin.requests()} == {b"/%d" % number for number in range(12)}


def test_two_origins_through_one_parent_are_not_mixed_up(office, behind, raw_client):
    def says(word: bytes):
        return answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + word)

    first, second, client = behind(says(b"1")), behind(says(b"2")), raw_client(office)
    said = [client.exchange(ask("GET", origin.port)).body for origin in (first, second) * 4]
    assert said == [b"1", b"2"] * 4


# Other protocols, other programs


def websocket_like(connection) -> None:
    request = connection.read_request()
    assert request.options("Upgrade") == [b"websocket"], request.fields
    connection.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst"
    )
    tunnel_echo(connection)


def test_an_upgrade_goes_through_squid(real_parent, routed, raw_origin, raw_client):
    """In absolute-form: a CONNECT to port 80 is what many parents refuse."""
    squid, origin = real_parent("squid"), raw_origin(websocket_like)
    origin.pseudonym = b"squid.test"
    client = raw_client(routed(route("office", squid.via, ADA), "office"))
    client.send(ask("GET", origin.port, "/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    assert client.message().status == 101
    assert client.receive_exactly(5) == b"first"
    client.send(b"\x81\x05sally")
    assert client.receive_exactly(7) == b"\x81\x05sally"
    assert [asked.target for asked in squid.asked] == [b"http://a.test:%d/chat" % origin.port]


def test_an_upgrade_inside_a_tunnel(office, tls_origin, raw_client, world):
    origin = tls_origin(websocket_like, world.context(world.leaf("a.test")))
    client = raw_client(office)
    client.send(get("a.test", origin.port, "/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    assert client.message().status == 101
    assert client.receive_exactly(5) == b"first"
    client.send(b"\x81\x05sally")
    assert client.receive_exactly(7) == b"\x81\x05sally"


def test_expect_100_continue_through_squid(real_parent, routed, raw_origin, raw_client):
    def script(connection) -> None:
        assert connection.read_head().value("Expect").lower() == b"100-continue"
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = connection.read_body().body
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.wait_for_end()

    squid, origin = real_parent("squid"), raw_origin(script)
    origin.pseudonym = b"squid.test"
    client = raw_client(routed(route("office", squid.via, ADA), "office"))
    client.send(ask("POST", origin.port, lines="Expect: 100-continue\r\nContent-Length: 5\r\n"))
    assert client.message().status == 100
    client.send(b"sally")
    assert client.answer().body == b"sally"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_curl_goes_through_both(scheme, office, behind, tls_origin, world):
    need("curl")
    context = world.context(world.leaf("a.test"))
    origin = behind(answering(OK)) if scheme == "http" else tls_origin(answering(OK), context, tunnelled=True)
    done = subprocess.run(
        ["curl", "-sS", "--cacert", world.root_file, "-x", office.url, f"{scheme}://a.test:{origin.port}/"],
        capture_output=True,
        env=clean_environment(),
        timeout=DEADLINE_SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, b"ok"), done.stderr


# Credentials


def test_a_parent_whose_credentials_are_missing_is_named(http_parent, routed, raw_origin, raw_client):
    """407 is between the proxy and its parent: the client is not asked, whatever it sent itself."""
    origin = raw_origin(answering(OK))
    proxy = routed(route("office", http_parent.via), "office")
    for method in ("GET", "CONNECT"):
        lines = f"Proxy-Authorization: {BASIC.decode()}\r\n"
        answer = raw_client(proxy).exchange(ask(method, origin.port, lines=lines))
        assert answer.status == 502 and not answer.values("Proxy-Authenticate"), answer
    assert not origin.connections
    assert not any(asked.values("Proxy-Authorization") for asked in http_parent.asked)


@pytest.mark.parametrize("said", [b"204 No Content", b"304 Not Modified", b"200 OK\r\nContent-Length: 0"])
def test_the_password_does_not_reach_an_origin_through_tinyproxy(
    said, real_parent, routed, raw_origin, raw_client
):
    """After an answer without a body tinyproxy waits for the origin to close, and hands it whatever comes until then.

    It does not say `Connection: close`. A second request on that connection would reach the origin as it was meant for
    the parent: in absolute-form, with Proxy-Authorization; and the wrong origin, if it was for another one.
    """
    tinyproxy, origin = real_parent("tinyproxy"), raw_origin(answering(b"HTTP/1.1 " + said + b"\r\n\r\n"))
    other = raw_origin(answering(OK))
    origin.pseudonym = other.pseudonym = b"tinyproxy"
    client = raw_client(routed(route("office", tinyproxy.via, ADA), "office", proxy="workers = 1"))
    for number in range(3):
        assert client.exchange(ask("GET", origin.port, f"/{number}")).body == b""
        assert client.exchange(ask("GET", other.port, f"/{number}")).body == b"ok"
    for server in (origin, other):
        assert not any(b"Proxy-Authorization" in connection.received for connection in server.connections)


@pytest.mark.parametrize("name", ["open tinyproxy", "open squid"])
def test_a_parent_without_credentials(name, real_parent, routed, raw_origin, raw_client):
    parent, origin = real_parent(name), raw_origin(answering(OK))
    origin.pseudonym = parent.name.encode()
    proxy = routed(route("office", parent.via), "office", known=PARENT_ONLY)
    assert raw_client(proxy).exchange(ask("GET", origin.port)).body == b"ok"
    tunnel = raw_origin(tunnel_echo)
    client = raw_client(proxy)
    assert client.exchange(ask("CONNECT", tunnel.port)).status == 200
    client.send(b"sally")
    assert client.receive_exactly(5) == b"sally"
    assert not any(asked.values("Proxy-Authorization") for asked in parent.asked)


def test_the_password_may_come_from_a_file(http_parent, routed, raw_origin, raw_client, tmp_path):
    (tmp_path / "word").write_text("open-sesame\n")
    (tmp_path / "word").chmod(0o600)
    origin = raw_origin(answering(OK))
    origin.pseudonym = http_parent.name.encode()
    word = f'credentials = {{ username = "ada", password = {{ file = "{tmp_path / "word"}" }} }}'
    proxy = routed(route("office", http_parent.via, word), "office")
    assert raw_client(proxy).exchange(ask("GET", origin.port)).body == b"ok"
