"""Routes by https parents: HAProxy before tinyproxy or Squid, and scripted ones with every kind of certificate.

Two questions are kept apart throughout: who the parent is (its [routes.NAME.security]) and who the origin is (the
rule's), on all ways: absolute-form, origination, verify and intercept, with TLS inside TLS.
"""

import hashlib
import ssl

import pytest

from origins import answering, echoing, tunnel_echo
from parents import ADA, BASIC, ask, by, programs, real_parent, refused, route, routed, secure_parent
from problems import check_problem
from scripted_parents import (
    ScriptedSecureParent,
    accepting,
    relaying,
    scripted_parent,
    scripted_secure_parent,
)
from test_origination import FAULTS, REFUSALS
from tls_world import (
    OK,
    answering_and_closing,
    authority,
    certify,
    client_context,
    get,
    pins,
    rule,
    secure_client,
    tls_origin,
    world,
)

LARGE = hashlib.shake_128(b"TLS inside TLS").digest(2 * 1024 * 1024)
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
PIN = "sha256/" + "A" * 43 + "="


# Through HAProxy


@pytest.fixture(params=["tinyproxy", "squid"])
def haproxy(request, real_parent, secure_parent, world):
    """HAProxy as office.test before each http parent; `behind` is the tap between the two."""
    behind = real_parent(request.param)
    parent = secure_parent(world.leaf("office.test"), behind.port)
    parent.behind = behind
    return parent


@pytest.fixture
def office(haproxy, routed):
    return routed(route("office", haproxy.via, ADA), "office")


def test_a_request_goes_in_absolute_form_inside_tls(office, haproxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    origin.pseudonym = haproxy.behind.name.encode()
    assert raw_client(office).exchange(ask("GET", origin.port, "/x")).body == b"ok"
    (asked,) = haproxy.behind.asked
    assert asked.target == b"http://a.test:%d/x" % origin.port
    assert asked.value("Proxy-Authorization") == BASIC
    assert all(stream["up"][:1] == b"\x16" for stream in haproxy.streams)
    line = office.access()
    assert (line["route"], line["upstream"]) == ("office", f"127.0.0.1:{haproxy.port}")
    assert line["tls_ms"] is not None


def test_a_tunnel_inside_tls(office, haproxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        assert connection.read_exactly(len(LARGE)) == LARGE
        connection.send(LARGE[::-1])
        connection.wait_for_end()

    origin, client = raw_origin(script), raw_client(office)
    assert client.exchange(ask("CONNECT", origin.port)).status == 200
    client.send(LARGE)
    assert client.receive_exactly(len(LARGE)) == LARGE[::-1]
    assert [asked.target for asked in haproxy.behind.asked] == [b"a.test:%d" % origin.port]


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_tls_inside_tls_carries_bodies_both_ways(version, office, haproxy, tls_origin, raw_client, world):
    origin = tls_origin(
        echoing, world.context(world.leaf("a.test"), minimum=version, maximum=version), tunnelled=False
    )
    client = raw_client(office)
    for size in (100_001, len(LARGE), 0):
        lines = f"Content-Length: {size}\r\n"
        client.send(get("a.test", origin.port, method="POST", lines=lines) + LARGE[:size])
        assert client.answer().body == LARGE[:size]
    assert [request.body for request in origin.requests()] == [LARGE[:100_001], LARGE, b""]
    assert len(origin.handshakes) == 1
    (asked,) = haproxy.behind.asked
    assert (asked.method, asked.target) == (b"CONNECT", b"a.test:%d" % origin.port)
    line = office.access(lambda line: line["status"] == 200)
    assert line["assurance"] == "exact" and line["route"] == "office"


def test_a_download_inside_tls_inside_tls(office, tls_origin, raw_client, world):
    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(LARGE), 70_000):
            part = LARGE[at : at + 70_000]
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        connection.send(b"0\r\n\r\n")
        connection.wait_for_end()

    origin = tls_origin(script, world.context(world.leaf("a.test")))
    assert raw_client(office).exchange(get("a.test", origin.port)).body == LARGE


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_verified_tunnel_inside_tls(version, haproxy, routed, tls_origin, secure_client, world):
    proxy = routed(
        route("office", haproxy.via, ADA), rules=rule("verified", by("office"), 'connect = "verify"')
    )
    context = world.context(world.leaf("a.test"), minimum=version, maximum=version)
    origin = tls_origin(answering_and_closing(), context, tunnelled=True)
    client = secure_client(proxy)
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.leave()
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert line["assurance"] == ("exact" if version == TLS12 else "probe") and line["route"] == "office"
    assert {asked.target for asked in haproxy.behind.asked} == {b"a.test:%d" % origin.port}


def test_an_intercepted_tunnel_inside_tls(haproxy, routed, tls_origin, secure_client, authority, world):
    tables = authority.table + route("office", haproxy.via, ADA)
    proxy = routed(tables, rules=rule("seen", by("office"), 'connect = "intercept"'))
    origin, client = tls_origin(echoing, world.context(world.leaf("a.test"))), secure_client(proxy)
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    host = f"Host: a.test:{origin.port}\r\nContent-Length: 100001\r\n"
    for _ in range(2):
        client.send(f"PUT /x HTTP/1.1\r\n{host}\r\n".encode() + LARGE[:100_001])
        assert client.answer().body == LARGE[:100_001]
    assert origin.requests()[0].target == b"/x" and len(origin.handshakes) == 1


# Who the parent is


@pytest.fixture
def shown(scripted_secure_parent, routed, world):
    """A function: a parent that shows this chain, and a proxy whose route has these lines of security."""

    def start(*chain, security: str = "", tables: str = "", script=None, order=("office",), **knobs):
        parent = scripted_secure_parent(world.context(*chain, **knobs), script or accepting())
        return routed(tables + route("office", parent.via, ADA, security=security), *order), parent

    return start


def assert_nothing_was_said(parent: ScriptedSecureParent) -> None:
    """Of a parent that was refused: no handshake, and in the clear neither the target nor credentials."""
    for connection in parent.connections:
        parent.wait_for("done", connection.number)
    assert parent.connections and not parent.handshakes and not parent.requests()
    for connection in parent.connections:
        raw = bytes(connection.socket.raw_received)
        assert b"a.test" not in raw.replace(b"office.test", b"") and BASIC not in raw and b"HTTP" not in raw


def test_the_hello_is_for_the_parent(shown, world, raw_client):
    proxy, parent = shown(world.leaf("office.test"), alpn=("http/1.1",), script=answering(OK))
    assert raw_client(proxy).exchange(ask("GET", 8080)).body == b"ok"
    (handshake,) = parent.handshakes
    assert handshake.server_name == "office.test" and handshake.version == "TLSv1.3"
    assert handshake.hello.alpn == ("h2", "http/1.1")


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_certificate_of_a_parent_that_is_refused(
    name, method, scripted_secure_parent, routed, raw_client, world
):
    make, token, nsurl_error = REFUSALS[name]
    chain = [identity for identity in make(RenamedWorld(world))]
    parent = scripted_secure_parent(world.context(*chain))
    proxy = routed(route("office", parent.via, ADA), "office")
    answer = raw_client(proxy).exchange(ask(method, 443))
    problem = refused(answer, 502, token, "tls_certificate_error", "office", "office.test")
    assert problem.body["nsurlError"] == nsurl_error
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["outcome"]) == (502, token)
    assert_nothing_was_said(parent)


class RenamedWorld:
    """The world, in which certificates that were meant for a.test are for office.test."""

    def __init__(self, world):
        self.world, self.root, self.issuing = world, world.root, world.issuing

    def leaf(self, *names: str, **arguments):
        return self.world.leaf(*("office.test" if name == "a.test" else name for name in names), **arguments)

    def weakly_signed(self, *names: str):
        return self.world.weakly_signed("office.test")


def test_anchors_of_a_route_are_for_its_parent_alone(shown, tls_origin, raw_client, world):
    """In place of [trust] for the parent, and of no avail to an origin."""
    leaf = world.leaf("office.test", issuer=world.private_issuing)
    proxy, parent = shown(leaf, security=f'anchors = "{world.private_file}"')
    client = raw_client(proxy)
    good = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    assert client.exchange(get("a.test", good.port)).body == b"ok"
    private = tls_origin(answering(OK), world.context(world.leaf("a.test", issuer=world.private_issuing)))
    answer = client.exchange(get("a.test", private.port))
    problem = refused(answer, 502, "certificate-untrusted", "tls_certificate_error", "a.test")
    assert "office.test" not in problem.body["detail"], "it is the origin that is not trusted"
    assert not private.handshakes


def test_anchors_of_a_route_stand_instead_of_the_others(shown, raw_client, world):
    proxy, parent = shown(world.leaf("office.test"), security=f'anchors = "{world.private_file}"')
    answer = raw_client(proxy).exchange(ask("GET", 8080))
    refused(answer, 502, "certificate-untrusted", "tls_certificate_error", "office.test")
    assert_nothing_was_said(parent)


def test_anchors_of_a_rule_are_not_for_the_parent(scripted_secure_parent, routed, raw_client, world):
    leaf = world.leaf("office.test", issuer=world.private_issuing)
    parent = scripted_secure_parent(world.context(leaf))
    rules = rule("private", by("office"), security=f'anchors = "{world.private_file}"')
    answer = raw_client(routed(route("office", parent.via), rules=rules)).exchange(get("a.test", 443))
    refused(answer, 502, "certificate-untrusted", "tls_certificate_error", "office.test")


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_parent_with_a_pinned_key(method, shown, tls_origin, raw_client, world):
    leaf = world.leaf("office.test")
    tables = pins("parent", 'mode = "public-key"', f'spki = ["{leaf.pin}", "{PIN}"]')
    proxy, parent = shown(leaf, security='pins = "parent"', tables=tables)
    origin = tls_origin(tunnel_echo, world.context(world.leaf("a.test")), tunnelled=True)
    assert raw_client(proxy).exchange(ask(method, origin.port)).status == 200
    assert len(parent.requests()) == 1


@pytest.mark.parametrize("method", ["GET", "CONNECT", "https"])
def test_a_parent_with_another_key_is_named(method, shown, raw_client, world):
    leaf = world.leaf("office.test")
    tables = pins("parent", 'mode = "public-key"', f'spki = ["{PIN}", "sha256/{"B" * 42}A="]')
    proxy, parent = shown(leaf, security='pins = "parent"', tables=tables)
    asked = get("a.test", 443) if method == "https" else ask(method, 443)
    problem = refused(
        raw_client(proxy).exchange(asked),
        502,
        "pin-mismatch",
        "tls_certificate_error",
        "office",
        "office.test",
    )
    assert "'parent'" in problem.body["detail"], "the set that was expected"
    assert_nothing_was_said(parent)


def test_a_certificate_may_be_waived_where_a_pin_vouches(shown, raw_client, world):
    alone = certify("Alone", names=("office.test",))
    tables = pins("parent", 'mode = "public-key"', f'spki = ["{alone.pin}", "{PIN}"]')
    proxy, parent = shown(
        alone,
        security='pins = "parent"\nallow_invalid_certificates = true',
        tables=tables,
        script=answering(OK),
    )
    assert raw_client(proxy).exchange(ask("GET", 8080)).body == b"ok"


def test_server_name_is_what_is_asked_for_and_verified(shown, raw_client, world):
    proxy, parent = shown(
        world.leaf("inner.test"), security='server_name = "inner.test"', script=answering(OK)
    )
    assert raw_client(proxy).exchange(ask("GET", 8080)).body == b"ok"
    assert parent.handshakes[0].server_name == "inner.test"


def test_a_parent_by_its_address(scripted_secure_parent, routed, raw_client, world):
    parent = scripted_secure_parent(world.context(world.leaf("127.0.0.1")), answering(OK))
    proxy = routed(route("office", parent.via_as("127.0.0.1")), "office")
    assert raw_client(proxy).exchange(ask("GET", 8080)).body == b"ok"
    assert parent.handshakes[0].server_name is None


def test_a_parent_of_an_old_version(shown, raw_client, world):
    proxy, parent = shown(world.leaf("office.test"), security='min_tls = "1.3"', maximum=TLS12)
    problem = check_problem(raw_client(proxy).exchange(ask("GET", 8080)), 502)
    assert problem.token.startswith("tls-") and "office.test" in problem.body["detail"], problem
    assert not parent.handshakes


def test_a_parent_that_asks_for_a_certificate(shown, raw_client, world):
    kiosk = certify("Kiosk", issuer=world.private_issuing, purpose=None)
    certificate, key = world.file(kiosk.pem + world.private_issuing.pem), world.file(kiosk.key_pem)
    proxy, parent = shown(
        world.leaf("office.test"),
        security=f'client_certificate = {{ certificate = "{certificate}", key = {{ file = "{key}" }} }}',
        client_authority=world.private,
        script=answering(OK),
    )
    assert raw_client(proxy).exchange(ask("GET", 8080)).body == b"ok"
    assert parent.handshakes[0].client_certificate == kiosk.der


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_parent_that_is_no_tls(name, method, routed, raw_origin, raw_client):
    script, errors = FAULTS[name]
    server = raw_origin(script)
    proxy = routed(route("office", f"https://office.test:{server.port}", ADA), "office")
    problem = check_problem(raw_client(proxy).exchange(ask(method, 443, "/secret")), 502)
    assert problem.error in errors and "office.test" in problem.body["detail"], problem
    for connection in server.connections:
        assert b"secret" not in connection.received and BASIC not in connection.received


def test_a_parent_that_never_answers_the_hello(routed, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        connection.wait_for_end()

    limit = '[proxy.timeouts]\ntls_handshake = "300ms"\n'
    proxy = routed(limit + route("office", f"https://office.test:{raw_origin(script).port}"), "office")
    problem = check_problem(raw_client(proxy).exchange(ask("GET", 8080)), 504)
    assert problem.error in ("connection_timeout", "connection_read_timeout"), problem
    assert "office.test" in problem.body["detail"]


def test_a_lax_route_opens_nothing_for_a_strict_one(scripted_secure_parent, routed, raw_client, world):
    """Two routes to one parent, one of them without its pins: each has connections and sessions of its own."""
    leaf = world.leaf("office.test")
    parent = scripted_secure_parent(world.context(leaf), answering(OK))
    tables = pins("parent", 'mode = "public-key"', f'spki = ["{PIN}", "sha256/{"B" * 42}A="]')
    tables += route("lax", parent.via) + route("strict", parent.via, security='pins = "parent"')
    rules = rule("strict", 'paths = ["/strict"]', by("strict"))
    client = raw_client(routed(tables, "lax", rules=rules, proxy="workers = 1"))
    for _ in range(2):
        assert client.exchange(ask("GET", 8080)).body == b"ok"
        refused(
            client.exchange(ask("GET", 8080, "/strict")),
            502,
            "pin-mismatch",
            "tls_certificate_error",
            "strict",
        )
    assert {asked.target for asked in parent.requests()} == {b"http://a.test:8080/"}


# Who the origin is, through a parent


WAYS = ["origination", "verify", "intercept"]


@pytest.mark.parametrize("kind", ["another name", "another key"])
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("way", WAYS)
def test_an_origin_is_judged_through_a_parent(
    way,
    scheme,
    kind,
    scripted_parent,
    scripted_secure_parent,
    routed,
    tls_origin,
    secure_client,
    authority,
    world,
):
    """The name is the origin's, and so is what the pins of its rule speak of."""
    if scheme == "http":
        parent = scripted_parent(relaying)
    else:
        parent = scripted_secure_parent(world.context(world.leaf("office.test")))
    leaf = world.leaf("a.test" if kind == "another key" else "b.test")
    tables = pins("origin", 'mode = "public-key"', f'spki = ["{PIN}", "sha256/{"B" * 42}A="]')
    tables += authority.table + route("office", parent.via)
    connect = [f'connect = "{way}"'] if way != "origination" else []
    rules = rule("judged", by("office"), *connect, security='pins = "origin"')
    proxy = routed(tables, rules=rules)
    origin = tls_origin(answering(OK), world.context(leaf), tunnelled=way == "verify")
    client = secure_client(proxy)
    if way == "origination":
        answer = client.exchange(get("a.test", origin.port))
    else:
        answer = client.tunnel("a.test", origin.port)
        if way == "intercept":
            assert answer.status == 200
            client.shake_hands(client_context(authority.file), "a.test")
            answer = client.get_inside(f"a.test:{origin.port}")
    token = "pin-mismatch" if kind == "another key" else "certificate-name-mismatch"
    problem = refused(answer, 502, token, "tls_certificate_error", "a.test")
    assert problem.rule == "judged" and not origin.bytes_of_requests()
