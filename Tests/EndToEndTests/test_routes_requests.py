"""Routes byte for byte: what a scripted http parent is asked, and which of its answers to CONNECT open a tunnel.

parents.check_asked_of_parent looks at every head when a test ends: CONNECT or absolute-form, Host, Via, nothing of the
client's hop, and in a CONNECT nothing of the client's at all.
"""

import hashlib

import pytest

from origins import answering, echoing, tunnel_echo
from parents import ADA, BASIC, KEPT, ask, by, route, routed
from scripted_parents import ESTABLISHED, accepting, refusing, relaying, scripted_parent
from tls_world import OK, get, rule, tls_origin, world

LARGE = hashlib.shake_128(b"behind a parent").digest(1_000_000)


@pytest.fixture
def office(scripted_parent, routed):
    """A function that starts a parent with this script, and a proxy whose every request goes by it."""

    def start(script=relaying, *lines: str, **arguments):
        parent = scripted_parent(script)
        tables = route("office", parent.via, *lines) + arguments.pop("tables", "")
        return routed(tables, "office", **arguments), parent

    return start


# What is asked


TARGETS = {
    "a path and a query": "http://a.test:8080/a/b?c=d&e",
    "the port of the scheme": "http://a.test/",
    "what is percent-encoded": "http://a.test:8080/%7Ea/%2e%2E/b?x=%20",
    "an address": "http://127.0.0.1:8080/",
    "an address of IPv6": "http://[::1]:8080/x",
    "an address that nothing here leads to": "http://192.0.2.1/x",
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_stays_as_it_is(name, office, raw_client):
    proxy, parent = office(answering(OK))
    target = TARGETS[name]
    host = target.split("/")[2]
    answer = raw_client(proxy).exchange(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answer.body == b"ok"
    (asked,) = parent.requests()
    assert (asked.target, asked.value("Host")) == (target.encode(), host.encode())


def test_options_of_the_whole_server_has_no_path(office, raw_client):
    """RFC 9112 §3.2.4: the last proxy makes `*` of a target without a path, so this one must not add a path."""
    proxy, parent = office(answering(OK))
    answer = raw_client(proxy).exchange(b"OPTIONS http://a.test:8080 HTTP/1.1\r\nHost: a.test:8080\r\n\r\n")
    assert answer.body == b"ok"
    assert parent.requests()[0].target == b"http://a.test:8080"


AUTHORITIES = ["a.test:443", "a.test:22", "127.0.0.1:443", "[::1]:443", "192.0.2.1:443"]


@pytest.mark.parametrize("authority", AUTHORITIES)
def test_connect_names_host_and_port(authority, office, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(ESTABLISHED + b"hello")
        connection.switch_protocol()
        connection.wait_for_end()

    proxy, parent = office(script)
    client = raw_client(proxy)
    assert (
        client.exchange(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()).status == 200
    )
    assert client.receive_exactly(5) == b"hello"
    (asked,) = parent.requests()
    assert (asked.target, asked.value("Host")) == (authority.encode(),) * 2


def test_a_client_of_http_1_0(office, raw_client):
    proxy, parent = office(answering(OK))
    assert raw_client(proxy).exchange(b"GET http://a.test/ HTTP/1.0\r\n\r\n").body == b"ok"
    assert parent.requests()[0].value("Host") == b"a.test"


OWN = "Proxy-Authorization: Basic Y2xpZW50Om93bg==\r\nProxy-Connection: keep-alive\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("configured", [True, False], ids=["with credentials", "without credentials"])
def test_credentials_are_those_of_the_route(configured, method, office, raw_origin, raw_client):
    """What a client sends for the hop to the proxy goes no farther, be it the parent's own kind of credentials."""
    proxy, parent = office(relaying, *([ADA] if configured else []))
    origin = raw_origin(tunnel_echo)
    assert raw_client(proxy).exchange(ask(method, origin.port, lines=OWN)).status == 200
    (asked,) = parent.requests()
    assert asked.values("Proxy-Authorization") == ([BASIC] if configured else [])
    assert not asked.values("X-Hop")


def test_fields_of_the_client_pass_and_keep_their_order(office, raw_client):
    proxy, parent = office(answering(OK))
    lines = "X-A: 1\r\nCookie: a=b\r\nX-A: 2\r\nAuthorization: Basic YTpi\r\n"
    raw_client(proxy).exchange(ask("GET", 8080, lines=lines))
    wanted = [(b"X-A", b"1"), (b"Cookie", b"a=b"), (b"X-A", b"2"), (b"Authorization", b"Basic YTpi")]
    assert [pair for pair in parent.requests()[0].fields if pair in wanted] == wanted


def test_what_a_rule_adds_is_for_the_origin(office, tls_origin, raw_client, world):
    """In absolute-form the parent sees it; of a tunnel it sees nothing, the CONNECT is the proxy's own."""
    request = 'headers.set = { X-Client = "kiosk-7" }\nauthorization = { username = "o", password = "rigin" }'
    rules = rule("added", by("office"), request=request)
    proxy, parent = office(relaying, ADA, rules=rules)
    proxy.secrets.append("rigin")
    origin, client = tls_origin(answering(OK), world.context(world.leaf("a.test"))), raw_client(proxy)
    assert client.exchange(get("a.test", origin.port)).body == b"ok"
    assert client.exchange(ask("GET", origin.port)).body == b"ok"
    connect, plain = parent.requests()
    assert not connect.values("X-Client") and not connect.values("Authorization")
    for asked in (plain, origin.requests()[0]):
        assert asked.value("X-Client") == b"kiosk-7" and asked.value("Authorization").startswith(b"Basic ")
    assert connect.value("Proxy-Authorization") == plain.value("Proxy-Authorization") == BASIC
    assert not origin.requests()[0].values("Proxy-Authorization")


@pytest.mark.parametrize("framing", ["sized", "chunked"])
def test_bodies_are_framed_as_they_came(framing, office, raw_client):
    proxy, parent = office(echoing)
    lines = f"Content-Length: {len(LARGE)}\r\n" if framing == "sized" else "Transfer-Encoding: chunked\r\n"
    body = LARGE if framing == "sized" else b"%x\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n" % (len(LARGE), LARGE)
    client = raw_client(proxy)
    client.send(ask("POST", 8080, lines=lines) + body)
    assert client.answer().body == LARGE
    (asked,) = parent.requests()
    assert asked.body == LARGE and asked.framing == ("length" if framing == "sized" else "chunked")


def test_expect_100_continue_is_between_client_and_parent(office, raw_client):
    def script(connection) -> None:
        assert connection.read_head().value("Expect").lower() == b"100-continue"
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = connection.read_body().body
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.wait_for_end()

    proxy, _ = office(script)
    client = raw_client(proxy)
    client.send(ask("POST", 8080, lines="Expect: 100-continue\r\nContent-Length: 5\r\n"))
    assert client.message().status == 100
    client.send(b"sally")
    assert client.answer().body == b"sally"


def test_an_upgrade_is_asked_of_the_parent(office, raw_client):
    def script(connection) -> None:
        request = connection.read_request()
        assert request.options("Upgrade") == [b"websocket"] and b"upgrade" in request.options("Connection")
        connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        tunnel_echo(connection)

    proxy, parent = office(script)
    client = raw_client(proxy)
    client.send(ask("GET", 8080, lines="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    assert client.message().status == 101
    client.send(b"sally")
    assert client.receive_exactly(5) == b"sally"
    assert parent.requests()[0].target == b"http://a.test:8080/"


# Pools


def test_connections_to_a_parent_are_kept_and_not_shared_with_direct_ones(office, raw_origin, raw_client):
    """One host by two routes: what was opened for one is never used for the other."""
    rules = rule("straight", 'paths = ["/direct/*"]', by("direct"))
    proxy, parent = office(answering(KEPT), rules=rules, proxy="workers = 1")
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    for number in range(3):
        for way in ("parent", "direct"):
            assert client.exchange(ask("GET", origin.port, f"/{way}/{number}")).body == b"ok"
    assert len(parent.connections) == len(origin.connections) == 1
    assert {asked.target.split(b"/")[3] for asked in parent.requests()} == {b"parent"}
    assert {asked.target.split(b"/")[1] for asked in origin.requests()} == {b"direct"}


def test_two_routes_to_one_parent_do_not_share_connections(scripted_parent, routed, raw_client):
    """A parent may remember on a connection who asked first: credentials of one route must not vouch for the other."""
    parent = scripted_parent(answering(OK))
    tables = route("named", parent.via, ADA) + route("nameless", parent.via)
    proxy = routed(tables, "nameless", rules=rule("n", 'paths = ["/n"]', by("named")), proxy="workers = 1")
    client = raw_client(proxy)
    for _ in range(2):
        assert client.exchange(ask("GET", 8080, "/n")).body == client.exchange(ask("GET", 8080)).body == b"ok"
    for connection in parent.connections:
        asked = [
            (asked.target.endswith(b"/n"), *asked.values("Proxy-Authorization"))
            for asked in connection.requests
        ]
        assert set(asked) in ({(True, BASIC)}, {(False,)}), asked


def test_tunnels_for_https_are_kept_by_their_target(office, tls_origin, raw_client, world):
    """A tunnel leads to one host for ever, however many share its parent."""
    proxy, parent = office(proxy="workers = 1")
    names = ("a.test", "b.test")
    origin = tls_origin(answering(OK), {name: world.context(world.leaf(name)) for name in names})
    client = raw_client(proxy)
    for number in range(4):
        assert client.exchange(get(names[number % 2], origin.port)).body == b"ok"
    assert sorted(asked.target.partition(b":")[0] for asked in parent.requests()) == [b"a.test", b"b.test"]
    assert sorted(shake.server_name for shake in origin.handshakes) == ["a.test", "b.test"]


# Answers that open a tunnel


OPENING = {
    "200": (ESTABLISHED, {}),
    "200 of HTTP/1.0, as tinyproxy says it": (b"HTTP/1.0 200 OK\r\nProxy-agent: x\r\n\r\n", {}),
    "a reason that is empty": (b"HTTP/1.1 200 \r\n\r\n", {}),
    # RFC 9110 §9.3.6: any 2xx, and a client must ignore Content-Length and Transfer-Encoding in it.
    "another 2xx": (b"HTTP/1.1 299 Fine\r\n\r\n", {}),
    "a Content-Length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", {}),
    "a Transfer-Encoding": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", {}),
    "Connection: close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", {}),
    "after interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + ESTABLISHED,
        {},
    ),
    "many fields": (b"HTTP/1.1 200 OK\r\n" + b"X: %s\r\n" % (b"y" * 400) * 40 + b"\r\n", {}),
    "byte by byte": (ESTABLISHED, {"bytewise": True}),
    "with what the server says first": (ESTABLISHED, {"then": b"220 smtp.test\r\n"}),
    "with what the server says first, byte by byte": (ESTABLISHED, {"then": b"220 x\r\n", "bytewise": True}),
}


@pytest.mark.parametrize("name", OPENING)
def test_an_answer_that_opens_a_tunnel(name, office, raw_origin, raw_client):
    answer, how = OPENING[name]
    (proxy, _), origin = office(accepting(answer, **how)), raw_origin(tunnel_echo)
    client = raw_client(proxy)
    assert client.exchange(ask("CONNECT", origin.port)).status == 200
    assert client.receive_exactly(len(how.get("then", b""))) == how.get("then", b"")
    client.send(b"sally")
    assert client.receive_exactly(5) == b"sally"


# With TLS it is the client that speaks first.
@pytest.mark.parametrize("name", [name for name, (_, how) in OPENING.items() if not how.get("then")])
def test_the_same_before_tls(name, office, tls_origin, raw_client, world):
    answer, how = OPENING[name]
    (proxy, _), origin = office(accepting(answer, **how)), tls_origin(
        answering(OK), world.context(world.leaf("a.test"))
    )
    assert raw_client(proxy).exchange(get("a.test", origin.port)).body == b"ok"


def test_what_a_client_sends_with_its_connect_waits_for_the_answer(office, raw_origin, raw_client):
    """Nothing of a tunnel goes to a parent that has not opened it."""
    seen = []

    def script(connection) -> None:
        connection.read_request()
        seen.append(bytes(connection.received[connection.read_to :]))
        connection.send(ESTABLISHED)
        connection.switch_protocol()
        seen.append(connection.read_exactly(5))
        connection.wait_for_end()

    proxy, _ = office(script)
    client = raw_client(proxy)
    client.looked_at = False
    client.send(ask("CONNECT", 443) + b"early")
    assert client.receive_until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    client.half_close()
    client.wait_for_end()
    assert seen == [b"", b"early"]


def test_what_a_client_sends_with_its_connect_stays_here_when_it_is_refused(office, raw_client):
    proxy, parent = office(refusing("403 Forbidden"))
    client = raw_client(proxy)
    client.looked_at = False
    client.send(ask("CONNECT", 443) + b"GET /secret HTTP/1.1\r\n\r\n")
    assert client.receive_until(b"\r\n\r\n").startswith(b"HTTP/1.1 502 ")
    client.half_close()
    client.wait_for_end()
    assert len(parent.requests()) == 1 and b"secret" not in parent.connections[0].received


@pytest.mark.parametrize("who", ["client", "origin"])
def test_a_tunnel_may_be_half_closed(who, office, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        if who == "origin":
            connection.half_close()
            connection.wait_for_end()
        else:
            connection.wait_for_end()
            connection.send(b"to the end")

    (proxy, _), origin = office(), raw_origin(script)
    client = raw_client(proxy)
    assert client.exchange(ask("CONNECT", origin.port)).status == 200
    if who == "origin":
        assert client.wait_for_end() == "closed"
        client.socket.sendall(b"to the end")
        client.socket.close()
        origin.wait_for("done")
        assert bytes(origin.connections[0].received) == b"to the end"
    else:
        client.half_close()
        assert client.receive_exactly(10) == b"to the end"


def test_a_reload_changes_the_route(office, scripted_parent, raw_client):
    """What is pooled under the old policy leads to the old parent, and is not used for the new one."""
    (proxy, first), second = office(answering(OK)), scripted_parent(answering(OK))
    client = raw_client(proxy)
    assert client.exchange(ask("GET", 8080)).body == b"ok"
    said = proxy.reload(policy=proxy.head + route("office", second.via) + rule("routed", by("office")))
    assert said["level"] == "info", said
    assert client.exchange(ask("GET", 8080)).body == b"ok"
    assert len(first.requests()) == len(second.requests()) == 1
