"""Routes by parents that speak HTTP/2: requests as streams, TLS with the origin on a stream, credentials, protocols.

Tunnels themselves, and what becomes of them: test_http2_parents_tunnels.py.
"""

import hashlib
import subprocess

import h2.errors
import pytest

from conftest import need
from digest_server import Digest, Refused
from http2_parents import h2_parent, nghttpx
from journal import DEADLINE_SECONDS
from origins import answering, echoing, tunnel_echo
from parents import (
    ADA,
    BASIC,
    KEPT,
    PASSWORD,
    USER,
    ask,
    by,
    programs,
    refused,
    route,
    routed,
)
from proxy import clean_environment
from scripted_parents import scripted_parent
from test_http2 import h2_origin, inside, ok
from test_http2_parents_tunnels import echoed, office, opened
from tls_world import (
    OK,
    answering_and_closing,
    authority,
    client_context,
    get,
    intercepting,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)
from users_world import NUMBERED, STRANGER, client_of

LARGE = hashlib.shake_128(b"a request on a stream").digest(2 * 1024 * 1024)
DIGEST = f'credentials = {{ scheme = "digest", username = "{USER}", password = "{PASSWORD}" }}'
CODES = h2.errors.ErrorCodes


# Requests


def test_a_request_is_a_stream(office, raw_client):
    parent, proxy = office(None, ADA)
    client = raw_client(proxy)
    lines = "X-Mine: yes\r\nConnection: X-Hop\r\nX-Hop: 1\r\nProxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n"
    lines += "Proxy-Authorization: Basic eDp5\r\nTE: gzip\r\n"
    answer = client.exchange(ask("GET", 8080, "/path?query=1", lines))
    assert (answer.status, answer.body) == (200, b"ok")
    assert [value.split()[1] for value in answer.options("via")] == [b"office", b"sallyport"]
    (request,) = parent.requests
    assert dict(request.headers[:4]) == {
        ":method": "GET",
        ":scheme": "http",
        ":authority": "a.test:8080",
        ":path": "/path?query=1",
    }
    assert request.values("proxy-authorization") == [BASIC.decode()] and request.value("x-mine") == "yes"
    assert request.value("x-hop") is None and request.value("te") is None
    line = proxy.access()
    assert (line["route"], line["upstream"]) == ("office", parent.authority)
    assert (line["protocol"], line["upstream_protocol"]) == ("http/1.1", "h2")
    assert client.exchange(ask("GET", 8081, host="b.test")).status == 200
    assert len(parent.links) == 1, "to whatever host"


@pytest.mark.parametrize(
    "target, path",
    [("GET http://a.test:8080", "/"), ("GET http://a.test:8080?a=b", "/?a=b"), ("OPTIONS http://a.test:8080", "*"),
     ("OPTIONS http://a.test:8080/", "/"), ("OPTIONS http://a.test:8080/x", "/x")],
)
def test_what_has_no_path(target, path, office, raw_client):
    parent, proxy = office()
    answer = raw_client(proxy).exchange(f"{target} HTTP/1.1\r\nHost: a.test:8080\r\n\r\n".encode())
    assert answer.status == 200
    (request,) = parent.requests
    assert (request.value(":path"), request.value(":authority")) == (path, "a.test:8080")
    assert request.value(":scheme") == "http"


def when_whole(answer):
    """A judge that answers a request once its body is there."""
    return lambda link, request: request.value(":method") != "CONNECT" and (answer(link, request) or True)


def test_bodies_and_trailers_pass(office, raw_client):
    def answer(link, request) -> None:
        digest = hashlib.sha256(request.body).hexdigest()
        link.respond(request, 200, ("x-hash", digest), body=b"echo", trailers=[("x-sum", "4")])

    parent, proxy = office(when_whole(answer))
    client = raw_client(proxy)
    client.send(ask("POST", 80, "/up", f"Content-Length: {len(LARGE)}\r\n") + LARGE)
    got = client.answer()
    assert got.value("x-hash").decode() == hashlib.sha256(LARGE).hexdigest() and got.body == b"echo"
    chunked = "Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-T\r\n"
    client.send(ask("PUT", 80, "/up", chunked) + b"5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n")
    got = client.answer()
    assert got.body == b"echo" and (b"x-sum", b"4") in [(name.lower(), value) for name, value in got.trailers]
    length, chunks = parent.requests
    assert length.value("content-length") == str(len(LARGE)) and length.body == LARGE
    assert chunks.body == b"hello" and chunks.trailers == [("x-t", "1")] and chunks.value("te") == "trailers"


def test_a_large_answer(office, raw_client):
    """As far as the windows go: the parent has no flow control of its own in an answer."""
    body = LARGE[:200_000]
    parent, proxy = office(when_whole(lambda link, request: link.respond(request, 200, body=body)))
    client = raw_client(proxy)
    for _ in range(5):
        assert client.exchange(ask("GET", 80)).body == body
    assert len(parent.links) == 1


def test_answers_without_content(office, raw_client):
    def answer(link, request) -> None:
        if request.value(":method") == "HEAD":
            return link.respond(request, 200, ("content-length", "500"))
        link.respond(request, int(request.path[1:]))

    parent, proxy = office(when_whole(answer))
    client = raw_client(proxy)
    head = client.exchange(ask("HEAD", 80))
    assert (head.status, head.value("Content-Length"), head.body) == (200, b"500", b"")
    for status in (204, 304, 404, 200):
        got = client.exchange(ask("GET", 80, f"/{status}"))
        assert (got.status, got.body) == (status, b"")


def test_an_interim_answer_passes(office, raw_client):
    def answer(link, request) -> None:
        link.hint(request, ("link", "</a>"))
        link.respond(request, 200, body=b"ok")

    parent, proxy = office(when_whole(answer))
    client = raw_client(proxy)
    client.send(ask("GET", 80))
    hint = client.message()
    assert (hint.status, hint.value("Link")) == (103, b"</a>") and client.answer().body == b"ok"


def test_requests_and_tunnels_share_one_connection(office, raw_origin, raw_client):
    parent, proxy = office()
    origin, client = raw_origin(tunnel_echo), raw_client(proxy)
    assert client.exchange(ask("GET", 80)).body == b"ok"
    tunnel = opened(raw_client(proxy), origin.port)
    assert client.exchange(ask("GET", 80)).body == b"ok"
    echoed(tunnel, b"beside")
    assert len(parent.links) == 1


@pytest.mark.parametrize("status", [403, 404, 502])
def test_an_answer_of_the_parent_is_the_clients(status, office, raw_client):
    parent, proxy = office(when_whole(lambda link, request: link.respond(request, status, body=b"no")))
    answer = raw_client(proxy).exchange(ask("GET", 80))
    assert (answer.status, answer.body) == (status, b"no")


def test_a_request_that_is_refused_is_asked_again(office, raw_client):
    def judge(link, request) -> bool:
        if len(parent.requests) == 1:
            link.reset(request, CODES.REFUSED_STREAM)
            return True

    parent, proxy = office(judge)
    answer = raw_client(proxy).exchange(ask("POST", 80, lines="Content-Length: 0\r\n"))
    assert answer.status == 200
    assert [request.value(":method") for request in parent.requests] == ["POST", "POST"]
    assert len(parent.links) == 1


def test_a_request_for_which_the_parent_wants_http_1_1(office, raw_client):
    judge = lambda link, request: link.reset(request, CODES.HTTP_1_1_REQUIRED) or True  # noqa: E731
    parent, proxy = office(judge, script=answering(KEPT))
    client = raw_client(proxy)
    for _ in range(3):
        assert client.exchange(ask("GET", 80)).body == b"ok"
    assert parent.offers == [("h2", "http/1.1"), ("http/1.1",)]
    assert len(parent.plain[0].requests) == 3 and len(parent.requests) == 1


# TLS with the origin


@pytest.mark.parametrize("alpn", [("http/1.1",), ("h2",)], ids=lambda alpn: alpn[0])
def test_origination_on_a_stream(alpn, office, h2_origin, tls_origin, raw_client, world):
    parent, proxy = office(None, ADA)
    if alpn == ("h2",):
        answer = lambda link, request: link.respond(request, 200, body=request.body)  # noqa: E731
        origin = h2_origin(answer, alpn=alpn)
    else:
        origin = tls_origin(echoing, world.context(world.leaf("a.test"), alpn=alpn))
    client = raw_client(proxy)
    for size in (0, 40_000, 5):
        client.send(get("a.test", origin.port, method="POST", lines=f"Content-Length: {size}\r\n") + LARGE[:size])
        assert client.answer().body == LARGE[:size]
    assert parent.tunnels == [f"a.test:{origin.port}"], "one tunnel for all of them"
    assert parent.requests[0].values("proxy-authorization") == [BASIC.decode()]
    if alpn == ("h2",):
        assert len(origin.requests) == 3 and not any(r.value("proxy-authorization") for r in origin.requests)
    else:
        assert len(origin.handshakes) == 1 and b"roxy-" not in origin.bytes_of_requests()
    line = proxy.access(lambda line: line["status"] == 200)
    assert line["assurance"] == "exact" and (line["route"], line["upstream_protocol"]) == ("office", alpn[0])


def test_large_bodies_in_tls_on_a_stream(office, tls_origin, raw_client, world):
    parent, proxy = office()
    origin = tls_origin(echoing, world.context(world.leaf("a.test")))
    client = raw_client(proxy)
    client.send(get("a.test", origin.port, method="PUT", lines=f"Content-Length: {len(LARGE)}\r\n") + LARGE)
    assert client.answer().body == LARGE


def test_many_origins_of_http_2_on_one_connection(office, h2_origin, raw_client):
    """HTTP/2 inside TLS inside a stream of HTTP/2."""
    parent, proxy = office()
    origins = [h2_origin(ok) for _ in range(4)]
    clients = [raw_client(proxy) for _ in origins]
    for _ in range(3):
        for client, origin in zip(clients, origins):
            client.send(get("a.test", origin.port))
        assert all(client.answer().body == b"ok" for client in clients)
    assert len(parent.tunnels) == 4 and len(parent.links) <= 4
    parent.links[0].break_off()
    for client, origin in zip(clients, origins):
        assert client.exchange(get("a.test", origin.port)).body == b"ok"


@pytest.mark.parametrize("alpn", [("http/1.1",), ("h2",)], ids=lambda alpn: alpn[0])
def test_an_intercepted_tunnel_on_a_stream(alpn, h2_parent, routed, authority, inside, h2_origin, tls_origin, world):
    parent = h2_parent()
    tables = authority.table + route("office", parent.via)
    proxy = routed(tables, rules=rule("seen", by("office"), 'connect = "intercept"'), proxy="workers = 1")
    if alpn == ("h2",):
        origin = h2_origin(lambda link, request: link.respond(request, 200, body=request.body), alpn=alpn)
    else:
        origin = tls_origin(echoing, world.context(world.leaf("a.test"), alpn=alpn))
    client = inside(proxy, "a.test", origin.port)
    for _ in range(2):
        got = client.get(f"a.test:{origin.port}", "/x", method="PUT", body=LARGE[:40_000])
        assert (got.status, got.body) == (200, LARGE[:40_000])
    assert parent.tunnels == [f"a.test:{origin.port}"]
    line = proxy.access(lambda line: line["method"] == "PUT")
    assert (line["protocol"], line["upstream_protocol"], line["route"]) == ("h2", alpn[0], "office")


def test_a_verified_tunnel_on_a_stream(h2_parent, routed, secure_client, tls_origin, world):
    parent = h2_parent()
    rules = rule("verified", by("office"), 'connect = "verify"')
    proxy = routed(route("office", parent.via), rules=rules, proxy="workers = 1")
    origin = tls_origin(answering_and_closing(), world.context(world.leaf("a.test")), tunnelled=True)
    for _ in range(2):
        client = secure_client(proxy)
        assert client.tunnel("a.test", origin.port).status == 200
        client.shake_hands(client_context(world.root), "a.test")
        assert client.get_inside("a.test").body == b"ok"
        client.leave()
    assert len(parent.links) == 1 and set(parent.tunnels) == {f"a.test:{origin.port}"}
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert line["assurance"] in ("probe", "exact") and line["route"] == "office"


@pytest.mark.parametrize("way", ["origination", "verify", "intercept"])
def test_an_origin_is_judged_on_a_stream(way, h2_parent, routed, tls_origin, secure_client, authority, world):
    parent = h2_parent()
    connect = [f'connect = "{way}"'] if way != "origination" else []
    tables = authority.table + route("office", parent.via)
    proxy = routed(tables, rules=rule("judged", by("office"), *connect), proxy="workers = 1")
    origin = tls_origin(answering(OK), world.context(world.leaf("b.test")), tunnelled=way == "verify")
    client = secure_client(proxy)
    if way == "origination":
        answer = client.exchange(get("a.test", origin.port))
    else:
        answer = client.tunnel("a.test", origin.port)
        if way == "intercept":
            client.shake_hands(client_context(authority.file), "a.test")
            answer = client.get_inside(f"a.test:{origin.port}")
    refused(answer, 502, "certificate-name-mismatch", "tls_certificate_error", "a.test")
    assert not origin.bytes_of_requests() and len(parent.links) == 1
    parent.wait_until(lambda: parent.links[0].ended or parent.requests[0].reset is not None)


def test_an_origin_that_wants_http_1_1_gets_it(intercepting, secure_client, authority, h2_parent):
    """RFC 9113, 7. The server is a parent by name only."""
    judge = lambda link, request: link.reset(request, CODES.HTTP_1_1_REQUIRED) or True  # noqa: E731
    origin = h2_parent(judge, name="a.test", script=echoing, checked=False)
    client = secure_client(intercepting(proxy="workers = 1"))
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    for _ in range(2):
        assert client.get_inside(f"a.test:{origin.port}").status == 200
    assert [request.value(":method") for request in origin.requests] == ["GET"]
    assert origin.offers == [("h2", "http/1.1"), ("http/1.1",)]
    assert [len(connection.requests) for connection in origin.plain] == [2]


# Credentials


def test_basic_goes_with_connect(office, raw_origin, raw_client):
    parent, proxy = office(None, ADA)
    origin = raw_origin(tunnel_echo)
    lines = "Proxy-Authorization: Basic eDp5\r\nUser-Agent: x\r\nCookie: a=1\r\n"
    client = raw_client(proxy)
    assert client.exchange(ask("CONNECT", origin.port, lines=lines)).status == 200
    echoed(client, b"x")
    assert parent.requests[0].values("proxy-authorization") == [BASIC.decode()]


def guarding(judge: Digest):
    """A judge of streams that wants Digest."""

    def asked(link, request) -> bool:
        values = request.values("proxy-authorization")
        target = request.value(":authority")
        if request.value(":method") != "CONNECT":
            target = f"http://{target}{request.path}"
        stale = False
        try:
            if values:
                judge.judge(values[0].encode(), request.value(":method").encode(), target.encode())
                return False
        except Refused as why:
            stale = str(why) == "stale"
        challenge = ("proxy-authenticate", judge.challenge(stale))
        link.respond(request, 407, challenge, ("content-length", "2"), body=b"no")
        return True

    return asked


def shown(parent) -> list[bool]:
    return [bool(request.values("proxy-authorization")) for request in parent.requests]


def test_a_challenge_is_answered_on_another_stream(office, raw_origin, raw_client):
    parent, proxy = office(guarding(Digest(USER, PASSWORD, status=407)), DIGEST)
    origin = raw_origin(tunnel_echo)
    for _ in range(2):
        echoed(opened(raw_client(proxy), origin.port), b"in")
    assert shown(parent) == [False, True, True] and len(parent.links) == 1


def test_a_challenge_to_a_request_is_answered(office, raw_client):
    parent, proxy = office(guarding(Digest(USER, PASSWORD, status=407)), DIGEST)
    client = raw_client(proxy)
    for _ in range(2):
        client.send(ask("POST", 80, lines="Content-Length: 4\r\n") + b"body")
        assert client.answer().body == b"ok"
    assert shown(parent) == [False, True, True] and len(parent.links) == 1


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_wrong_password_is_tried_once(method, office, raw_client):
    parent, proxy = office(guarding(Digest(USER, "another", status=407)), DIGEST)
    answer = raw_client(proxy).exchange(ask(method, 443))
    refused(answer, 502, "parent-authentication", "proxy_configuration_error", "were refused", "407")
    assert shown(parent) == [False, True]


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_parent_that_refuses_basic(method, office, raw_client):
    challenge = ("proxy-authenticate", 'Basic realm="x"')
    parent, proxy = office(lambda link, request: link.respond(request, 407, challenge, body=b"no") or True, ADA)
    client = raw_client(proxy)
    answer = client.exchange(ask(method, 443))
    refused(answer, 502, "parent-authentication", "proxy_configuration_error", "407")
    assert shown(parent) == [True]
    assert not answer.values("Proxy-Authenticate")


# Protocols


def test_a_ticket_is_for_http_1_1(office, h2_parent, routed, raw_client, tmp_path):
    """RFC 4559, 6. The handshake comes before the ticket, for which there is no server here."""
    keytab = tmp_path / "keytab"
    keytab.write_bytes(b"\x05\x02")
    keytab.chmod(0o600)
    parent, proxy = office(None, f'credentials = {{ scheme = "negotiate", keytab = "{keytab}" }}')
    answer = raw_client(proxy).exchange(ask("CONNECT", 443))
    refused(answer, 502, "parent-authentication", "proxy_configuration_error")
    parent.wait_until(lambda: parent.offers)
    assert parent.offers == [("http/1.1",)] and parent.protocols == ["http/1.1"]


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize(
    "line, offer", [('protocols = ["http/1.1"]', ("http/1.1",)), ('protocols = ["http/1.1", "h2"]', ("http/1.1", "h2"))]
)
def test_a_route_says_what_is_offered(line, offer, method, office, raw_origin, raw_client):
    """In its order."""
    parent, proxy = office(None, line)
    origin, client = raw_origin(tunnel_echo), raw_client(proxy)
    assert client.exchange(ask(method, origin.port)).status == 200
    if method == "CONNECT":
        echoed(client, b"x")
    assert parent.offers == [offer]


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("alpn", [("http/1.1",), ()], ids=["http/1.1", "no ALPN"])
def test_a_parent_of_http_1_1_where_the_route_wants_2(alpn, method, office, raw_client):
    parent, proxy = office(None, 'protocols = ["h2"]', alpn=alpn)
    answer = raw_client(proxy).exchange(ask(method, 443))
    problem = refused(answer, 502, "protocol-not-offered", "http_protocol_error", "office", "h2")
    assert (problem.body["expected"], problem.body["seen"]) == ("h2", "http/1.1")
    assert not any(connection.received for connection in parent.plain)


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_the_next_route_is_tried_where_one_does_not_speak_the_protocol(
    method, office, scripted_parent, raw_origin, raw_client
):
    home = scripted_parent()
    tables = route("home", home.via)
    parent, proxy = office(None, 'protocols = ["h2"]', alpn=("http/1.1",), tables=tables, order=("office", "home"))
    client = raw_client(proxy)
    assert client.exchange(ask(method, raw_origin(tunnel_echo).port)).status == 200
    client.half_close()
    assert client.wait_for_end() == "closed"
    assert len(home.requests()) == 1 and proxy.access()["route"] == "home"


def test_a_parent_without_alpn_is_spoken_to_by_http_1_1(office, raw_origin, raw_client):
    parent, proxy = office(None, alpn=())
    origin, client = raw_origin(tunnel_echo), raw_client(proxy)
    for _ in range(2):
        assert client.exchange(ask("GET", 80)).body == b"ok"
    echoed(opened(raw_client(proxy), origin.port), b"x")
    assert set(parent.protocols) == {None}


# Users


def test_users_do_not_share_a_connection_where_rules_name_them(h2_parent, routed, client_of, raw_origin):
    parent, origin = h2_parent(), raw_origin(tunnel_echo)
    rules = rule("named", f"users = [{NUMBERED}]", by("office"))
    proxy = routed(route("office", parent.via), "office", rules=rules, proxy="workers = 1")
    for _ in range(2):
        for user in (NUMBERED, STRANGER):
            client = client_of(proxy, user)
            assert client.exchange(ask("GET", 80)).body == b"ok"
            echoed(opened(client_of(proxy, user), origin.port), b"x")
    assert [request.connection for request in parent.requests] == [1, 1, 2, 2] * 2


# Programs


def curl(proxy, url: str, *options) -> str:
    need("curl")
    done = subprocess.run(
        ["curl", "-sS", "-x", proxy.url, *options, "-w", " %{http_code}", url],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.parametrize("name", ["open tinyproxy", "open squid"])
def test_nghttpx_before_a_real_parent(
    name, nghttpx, programs, routed, raw_origin, tls_origin, h2_origin, authority, world
):
    port = nghttpx(programs(name).port)
    tables = authority.table + route("office", f"https://office.test:{port}", 'protocols = ["h2"]')
    rules = rule("seen", 'hosts = ["b.test"]', by("office"), 'connect = "intercept"')
    proxy = routed(tables, "office", rules=rules, proxy="workers = 1")
    plain = raw_origin(answering(OK))
    plain.check = lambda connection: None  # those between add what they like
    secure = tls_origin(answering(OK), world.context(world.leaf("a.test")), tunnelled=True)
    both = h2_origin(ok, names=("b.test",))
    root = world.file(world.root.pem)
    for _ in range(3):
        assert curl(proxy, f"http://a.test:{plain.port}/x") == "ok 200"
        assert curl(proxy, f"https://a.test:{secure.port}/", "--cacert", root) == "ok 200"
        assert curl(proxy, f"https://b.test:{both.port}/", "--cacert", str(authority.file)) == "ok 200"
    lines = [line for line in proxy.access_lines() if line["method"] == "GET"]
    assert {line["route"] for line in proxy.access_lines() if line["upstream"]} == {"office"}
    assert {line["upstream_protocol"] for line in lines} == {"h2"}
    assert {line["upstream"] for line in lines} == {f"127.0.0.1:{port}"}


def test_much_through_nghttpx(nghttpx, programs, routed, tls_origin, raw_client, world):
    port = nghttpx(programs("open squid").port)
    proxy = routed(route("office", f"https://office.test:{port}"), "office", proxy="workers = 1")
    origin = tls_origin(echoing, world.context(world.leaf("a.test")))
    clients = [raw_client(proxy) for _ in range(3)]
    for client in clients:
        client.send(get("a.test", origin.port, method="PUT", lines=f"Content-Length: {len(LARGE)}\r\n") + LARGE)
        assert client.answer().body == LARGE
