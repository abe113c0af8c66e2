"""HTTP/2 on both sides of the proxy: clients inside intercepted tunnels, origins by ALPN, and the bridges to HTTP/1.1.

Frames by hand here (http2_world.py); real programs are at the end. What malformed heads and hostile frames come to is told
frame by frame in HTTP2Tests.
"""

import base64
import concurrent.futures
import hashlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import threading

import grpc
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import hpack
import httpx
import pytest

from admin_client import AdminClient
from conftest import need
from http2_world import H2Client, H2Origin, Link
from journal import DEADLINE_SECONDS, Journal
from origins import answering, unused_port
from reachability_world import ADMIN
from tls_world import client_context, rule
from tls_world import authority, intercepting, secure_client, secure_proxy, tls_origin, world  # noqa: F401

LARGE = hashlib.shake_128(b"http2").digest(3 * 1024 * 1024)
MIDDLING = LARGE[: 500 * 1024]


@pytest.fixture
def inside(secure_client, authority):
    """A function that opens a tunnel, with these lines in CONNECT, and speaks HTTP/2 in it."""

    def enter(proxy, host: str, port: int, lines: str = "", **arguments) -> H2Client:
        client = secure_client(proxy)
        assert client.tunnel(host, port, lines).status == 200
        context = client_context(authority.file)
        context.set_alpn_protocols(["h2", "http/1.1"])
        client.shake_hands(context, host)
        assert client.secure.secured.selected_alpn_protocol() == "h2"
        return H2Client(client.secure, **arguments)

    return enter


@pytest.fixture
def h2_origin(world):
    """A function that starts an origin of HTTP/2; `alpn` is what it takes."""
    started = []

    def start(answer, alpn=("h2",), names=("a.test",), **knobs) -> H2Origin:
        origin = H2Origin(world.context(world.leaf(*names), alpn=alpn), answer, **knobs)
        started.append(origin)
        return origin

    yield start
    for origin in started:
        origin.stop()


def ok(link, request) -> None:
    link.respond(request, 200, ("content-type", "text/plain"), body=b"ok")


# The four bridges


def test_both_sides_speak_http_2(intercepting, inside, h2_origin):
    proxy = intercepting()
    origin = h2_origin(ok)
    client = inside(proxy, "a.test", origin.port)
    got = client.get(f"a.test:{origin.port}", "/x?y", ("x-a", "1"), ("cookie", "a=1"), ("cookie", "b=2"))
    assert (got.status, got.body, got.reset) == (200, b"ok", None)
    assert got.value("via") == "2 sallyport"
    asked = origin.requests[0]
    assert asked.headers[:4] == [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", f"a.test:{origin.port}"),
        (":path", "/x?y"),
    ]
    assert asked.value("x-a") == "1" and asked.value("cookie") == "a=1; b=2"
    assert asked.value("via").startswith("2 sallyport")
    line = proxy.access(lambda line: line["target"].endswith("/x"))
    assert (line["protocol"], line["upstream_protocol"], line["rule"]) == ("h2", "h2", "seen")


def test_a_client_of_http_2_and_an_origin_of_http_1_1(intercepting, inside, tls_origin, world):
    proxy = intercepting()
    origin = tls_origin(
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Hop\r\nX-Hop: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nok"),
        world.context(world.leaf("a.test")),
    )
    client = inside(proxy, "a.test", origin.port)
    got = client.get(f"a.test:{origin.port}", "/", ("te", "trailers"), method="POST", body=b"hello")
    assert (got.status, got.body) == (200, b"ok")
    assert got.value("x-hop") is None and got.values("set-cookie") == ["a=1", "b=2"]
    request = origin.requests()[0]
    assert (request.method, request.target, request.body) == (b"POST", b"/", b"hello")
    line = proxy.access(lambda line: line["method"] == "POST")
    assert (line["protocol"], line["upstream_protocol"]) == ("h2", "http/1.1")


def test_a_client_of_http_1_1_and_an_origin_of_http_2(intercepting, secure_client, authority, h2_origin):
    proxy = intercepting()

    def answer(link, request):
        link.hint(request, ("link", "</style.css>"))
        link.respond(request, 200, ("trailer", "x-sum"), body=request.body, trailers=[("x-sum", "5")])

    origin = h2_origin(answer)
    client = secure_client(proxy)
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    head = f"POST /up HTTP/1.1\r\nHost: a.test:{origin.port}\r\nTE: trailers\r\nConnection: TE\r\n"
    client.send(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n")
    got = client.answer()
    assert got.status == 200 and got.body == b"hello", got
    assert origin.requests[0].trailers == [("x-t", "1")] and origin.requests[0].value("te") == "trailers"
    line = proxy.access(lambda line: line["method"] == "POST")
    assert (line["protocol"], line["upstream_protocol"]) == ("http/1.1", "h2")


def test_requests_of_many_clients_share_one_connection(intercepting, inside, h2_origin):
    proxy = intercepting()
    origin = h2_origin(ok)
    first = inside(proxy, "a.test", origin.port)
    assert first.get(f"a.test:{origin.port}").status == 200
    numbers = [first.request(f"a.test:{origin.port}", f"/{index}") for index in range(50)]
    assert all(first.wait(number).body == b"ok" for number in numbers)
    assert len(origin.protocols) <= 2, "one a loop"


def test_trailers_and_informational_answers_pass(intercepting, inside, h2_origin):
    def answer(link, request):
        link.hint(request, ("link", "</a>"))
        link.respond(request, 200, body=b"abc", trailers=[("x-sum", "3")])

    origin = h2_origin(answer)
    client = inside(intercepting(), "a.test", origin.port)
    got = client.get(f"a.test:{origin.port}")
    assert (got.status, got.body, got.trailers) == (200, b"abc", [("x-sum", "3")])
    assert [("link", "</a>") in hint for hint in got.informational] == [True]


def test_answers_without_content(intercepting, inside, h2_origin):
    def answer(link, request):
        if request.value(":method") == "HEAD":
            return link.respond(request, 200, ("content-length", "500"))
        link.respond(request, int(request.path[1:]))

    origin = h2_origin(answer)
    client = inside(intercepting(), "a.test", origin.port)
    head = client.get(f"a.test:{origin.port}", method="HEAD")
    assert (head.status, head.value("content-length"), head.body, head.ended) == (200, "500", b"", True)
    for status in (200, 204, 304, 404):
        got = client.get(f"a.test:{origin.port}", f"/{status}")
        assert (got.status, got.body, got.ended) == (status, b"", True)


def test_large_bodies_arrive_whole(intercepting, inside, h2_origin, tls_origin, world):
    """Both ways, beside others that are small."""
    origin = h2_origin(lambda link, request: None, early=False)

    def answer(link, request):
        link.respond(request, 200, ("x-hash", hashlib.sha256(request.body).hexdigest()))

    origin.answer = answer
    plain = tls_origin(
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE) + LARGE), world.context(world.leaf("a.test"))
    )
    proxy = intercepting()
    up = inside(proxy, "a.test", origin.port)
    got = up.get(f"a.test:{origin.port}", method="PUT", body=LARGE)
    assert got.value("x-hash") == hashlib.sha256(LARGE).hexdigest()
    down = inside(proxy, "a.test", plain.port)
    assert hashlib.sha256(down.get(f"a.test:{plain.port}").body).digest() == hashlib.sha256(LARGE).digest()


# Rules and refusals


def test_each_stream_meets_the_rules(intercepting, inside, h2_origin):
    deny = '[[rule]]\nname = "no"\naction = "deny"\nhosts = ["a.test"]\npaths = ["/secret/**"]\nschemes = ["https"]\n'
    proxy = intercepting(deny)
    origin = h2_origin(ok)
    client = inside(proxy, "a.test", origin.port)
    authority = f"a.test:{origin.port}"
    refused, allowed = client.request(authority, "/secret/x"), client.request(authority, "/open")
    assert client.wait(allowed).status == 200
    got = client.wait(refused)
    assert got.status == 403 and json.loads(got.body)["rule"] == "no"
    assert "sallyport" in got.value("proxy-status")
    assert [request.path for request in origin.requests] == ["/open"]


@pytest.mark.parametrize("upstream", ["h2", "http/1.1"])
def test_what_rules_do_holds_on_streams(upstream, intercepting, inside, h2_origin, tls_origin, world, tmp_path):
    """Serializers both ways, headers, held bodies, uploads that are taken whole, paces, answers from files."""
    offline = tmp_path / "offline.txt"
    offline.write_text("later")
    policy = rule(
        "api", 'hosts = ["a.test"]', 'paths = ["/json"]', 'connect = "intercept"', request='headers.set = { X-Set = "1" }'
    )
    policy = policy + '[rule.response]\nserializer = "json"\n'
    policy += rule("up", 'hosts = ["a.test"]', 'paths = ["/up"]', 'connect = "intercept"', request="buffer_uploads = true")
    policy += rule(
        "form",
        'hosts = ["a.test"]',
        'paths = ["/form"]',
        'connect = "intercept"',
        request='serializer = "http"\nparameters = { key = "k" }',
    )
    policy += rule(
        "slow",
        'hosts = ["a.test"]',
        'paths = ["/slow"]',
        'connect = "intercept"',
        request='throttle = { download = "100KiB" }',
    )
    policy += rule("file", 'hosts = ["a.test"]', 'paths = ["/file"]', 'connect = "intercept"')
    policy += f'[rule.response]\nanswer = {{ file = "{offline}", type = "text/plain", when = ["5xx"] }}\n'
    bodies = {"/json?good": b'{"a": 1}', "/json?bad": b"<html>", "/slow": b"x" * 20_000}

    def answer(link, request):
        status = 503 if request.path.startswith("/file") else 200
        body = bodies.get(request.path, b"ok")
        link.respond(request, status, ("content-type", "application/json"), ("content-length", str(len(body))), body=body)

    def answer_plainly(connection) -> None:
        while True:
            request = connection.read_request()
            path = request.target.decode()
            status, body = (b"503 No" if path.startswith("/file") else b"200 OK"), bodies.get(path, b"ok")
            head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
            connection.send(head + body)

    if upstream == "h2":
        origin = h2_origin(answer)
        seen = lambda: [(request.path, request.body, request.value("x-set")) for request in origin.requests]  # noqa: E731
    else:
        origin = tls_origin(answer_plainly, world.context(world.leaf("a.test")))
        seen = lambda: [  # noqa: E731
            (request.target.decode(), request.body, (request.value("x-set") or b"").decode() or None)
            for request in origin.requests()
        ]
    client = inside(intercepting(policy), "a.test", origin.port)
    authority = f"a.test:{origin.port}"
    good = client.get(authority, "/json?good")
    assert (good.status, good.body) == (200, b'{"a": 1}')
    bad = client.get(authority, "/json?bad")
    assert bad.status == 502 and json.loads(bad.body)["type"].endswith(":malformed-content")
    assert client.get(authority, "/up", method="POST", body=b"taken whole").status == 200
    assert client.get(authority, "/form").status == 200
    assert client.get(authority, "/slow").body == bodies["/slow"]
    file = client.get(authority, "/file")
    assert (file.status, file.body) == (503, b"later")
    asked = seen()
    assert ("/json?good", b"", "1") in asked and ("/up", b"taken whole", None) in asked
    assert any(path == "/form?key=k" for path, _, _ in asked), asked


def test_an_authority_of_another_tunnel_is_421(intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    client = inside(intercepting(), "a.test", origin.port)
    assert client.get("b.test").status == 421
    assert client.get(f"a.test:{origin.port}", scheme="http").status == 421
    assert client.get(f"a.test:{origin.port}").status == 200, "the connection serves on"
    assert len(origin.requests) == 1


@pytest.mark.parametrize(
    "fields",
    [
        [("x-a", "a\r\nb: c")],
        [("x-a", "a\0")],
        [("X-A", "1")],
        [("connection", "close")],
        [("transfer-encoding", "chunked")],
        [("host", "b.test")],
        [("te", "gzip")],
    ],
    ids=str,
)
def test_malformed_heads_reach_nobody(fields, intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    client = inside(intercepting(), "a.test", origin.port, validate=False)
    got = client.get(f"a.test:{origin.port}", "/", *fields)
    assert got.reset == h2.errors.ErrorCodes.PROTOCOL_ERROR
    assert client.get(f"a.test:{origin.port}", "/after").status == 200
    assert [request.path for request in origin.requests] == ["/after"]


def test_too_many_fields_are_431(intercepting, inside, h2_origin):
    """Each crumb of a cookie is one."""
    origin = h2_origin(ok)
    client = inside(intercepting(), "a.test", origin.port, validate=False)
    got = client.get(f"a.test:{origin.port}", "/", *[("cookie", f"a{index}=1") for index in range(200)])
    assert got.status == 431
    got = client.get(f"a.test:{origin.port}", "/", ("x-a", "v" * 70_000))
    assert got.status == 431 and not origin.requests


def test_what_an_origin_offers_may_not_be_what_a_rule_wants(intercepting, inside, tls_origin, h2_origin, world):
    policy = rule("only-2", 'hosts = ["two.test"]', 'connect = "intercept"', 'protocols = ["h2"]')
    policy += rule("only-1", 'hosts = ["one.test"]', 'connect = "intercept"', 'protocols = ["http/1.1"]')
    proxy = intercepting(policy)
    names = ("one.test", "two.test")
    plain = tls_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), world.context(world.leaf(*names)))
    got = inside(proxy, "two.test", plain.port).get(f"two.test:{plain.port}")
    assert got.status == 502 and json.loads(got.body)["type"] == "urn:sallyport:problem:protocol-not-offered"
    assert not plain.requests()
    both = h2_origin(ok, alpn=("h2", "http/1.1"), names=names)
    assert inside(proxy, "two.test", both.port).get(f"two.test:{both.port}").status == 200
    inside(proxy, "one.test", both.port).request(f"one.test:{both.port}")
    both.wait_until(lambda: both.protocols == ["h2", "http/1.1"])


# Ends


def test_a_client_that_resets_its_stream_is_heard_at_the_origin(intercepting, inside, h2_origin):
    origin = h2_origin(lambda link, request: None)
    client = inside(intercepting(), "a.test", origin.port)
    number = client.request(f"a.test:{origin.port}", "/slow")
    origin.wait_until(lambda: origin.requests)
    client.reset(number)
    origin.wait_until(lambda: origin.requests[0].reset == h2.errors.ErrorCodes.CANCEL)
    origin.answer = ok
    assert client.get(f"a.test:{origin.port}").status == 200
    assert len(origin.protocols) == 1, "the connection is as good as before"


def test_an_answer_that_breaks_off_is_no_whole_one(intercepting, inside, h2_origin, tls_origin, world):
    def answer(link, request):
        link.respond(request, 200, body=b"half", ends=False)
        link.reset(request, h2.errors.ErrorCodes.INTERNAL_ERROR)

    origin = h2_origin(answer)
    proxy = intercepting()
    got = inside(proxy, "a.test", origin.port).get(f"a.test:{origin.port}")
    assert not got.ended and got.reset == h2.errors.ErrorCodes.INTERNAL_ERROR
    plain = tls_origin(
        answering_half,
        world.context(world.leaf("a.test")),
    )
    got = inside(proxy, "a.test", plain.port).get(f"a.test:{plain.port}")
    assert not got.ended and got.reset is not None


def answering_half(connection) -> None:
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    connection.close()


def test_a_stream_that_the_origin_refuses_is_tried_again(intercepting, inside, h2_origin):
    """RFC 9113, 8.7: nothing of it was done."""
    refused = []

    def answer(link, request):
        if request.path == "/again" and not refused:
            refused.append(request)
            return link.reset(request, h2.errors.ErrorCodes.REFUSED_STREAM)
        ok(link, request)

    origin = h2_origin(answer)
    client = inside(intercepting(), "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}", "/first").status == 200
    assert client.get(f"a.test:{origin.port}", "/again").status == 200
    assert refused


@pytest.mark.parametrize("code", ["PROTOCOL_ERROR", "INTERNAL_ERROR", "CANCEL", "ENHANCE_YOUR_CALM"])
def test_a_stream_that_the_origin_resets_is_not_tried_again(code, intercepting, inside, h2_origin):
    """The origin is there and has seen the request: another one would be done twice (RFC 9110, 9.2.2)."""

    def answer(link, request):
        if request.path == "/reset":
            return link.reset(request, h2.errors.ErrorCodes[code])
        ok(link, request)

    origin, proxy = h2_origin(answer), intercepting()
    client = inside(proxy, "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}", "/first").status == 200
    got = client.get(f"a.test:{origin.port}", "/reset", method="DELETE")
    assert got.status == 502 and f"reset the stream ({code})".encode() in got.body, got.body
    assert [request.path for request in origin.requests] == ["/first", "/reset"]
    assert client.get(f"a.test:{origin.port}", "/last").status == 200
    assert len(origin.links) == 1


@pytest.mark.parametrize(
    "fields",
    [[("content-length", "2"), ("content-length", "3")], [("transfer-encoding", "chunked")], [("X-Upper", "a")], [("x", "a\r\nb: c")]],
    ids=["two lengths", "transfer-encoding", "capitals", "a line end"],
)
def test_a_malformed_head_of_an_origin_is_said_to_be_one(fields, intercepting, inside, h2_origin):
    def answer(link, request):
        if request.path != "/bad":
            return ok(link, request)
        link.connection.config.validate_outbound_headers = False
        link.connection.config.normalize_outbound_headers = False
        link.connection.send_headers(request.number, [(":status", "200"), *fields])

    origin, proxy = h2_origin(answer), intercepting()
    client = inside(proxy, "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}", "/first").status == 200
    got = client.get(f"a.test:{origin.port}", "/bad")
    assert got.status == 502 and b"malformed-response" in got.body, got.body
    assert [request.path for request in origin.requests] == ["/first", "/bad"]
    assert client.get(f"a.test:{origin.port}", "/last").status == 200


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_refused_stream_is_tried_again_whatever_its_method(method, intercepting, inside, h2_origin):
    refused = []

    def answer(link, request):
        if not refused:
            refused.append(request)
            return link.reset(request, h2.errors.ErrorCodes.REFUSED_STREAM)
        link.respond(request, 200, body=request.body)

    origin = h2_origin(answer)
    client = inside(intercepting(), "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}", method=method).status == 200
    assert [request.value(":method") for request in origin.requests] == [method, method]


SHORT = bytes(range(256)) * 48


@pytest.mark.parametrize("parts", [[b"body"], [SHORT], [SHORT[:100], SHORT[100:]]], ids=["tiny", "short", "in two"])
@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_a_short_body_goes_again_with_its_request(protocol, parts, intercepting, inside, secure_client, authority, h2_origin):
    """The origin refuses the stream at its head. Of the body, whatever has been sent is sent again."""
    refused = []

    def answer(link, request):
        if not refused:
            refused.append(request)
            link.reset(request, h2.errors.ErrorCodes.REFUSED_STREAM)

    origin, proxy = h2_origin(answer, early=True), intercepting()
    body = b"".join(parts)
    if protocol == "h2":
        client = inside(proxy, "a.test", origin.port)
        fields = [("content-length", str(len(body)))]
        number = client.request(f"a.test:{origin.port}", "/", *fields, method="POST", ends=False)
        for index, part in enumerate(parts):
            client.content(number, part, ends=index == len(parts) - 1)
    else:
        client = secure_client(proxy)
        client.tunnel("a.test", origin.port)
        client.shake_hands(client_context(authority.file), "a.test")
        head = f"POST / HTTP/1.1\r\nHost: a.test:{origin.port}\r\nContent-Length: {len(body)}\r\n\r\n"
        client.send(head.encode() + parts[0])
        for part in parts[1:]:
            origin.wait_until(lambda: refused)
            client.send(part)
    origin.wait_until(lambda: len(origin.requests) == 2 and origin.requests[1].number in origin.links[-1].ended)
    again = origin.requests[1]
    assert bytes(again.body) == body
    origin.links[again.connection - 1].respond(again, 200, body=b"ok")
    assert client.wait(number).body == b"ok" if protocol == "h2" else client.answer().body == b"ok"


def test_requests_above_the_limit_of_an_origin_wait(intercepting, inside, h2_origin):
    origin = h2_origin(ok, settings={h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    client = inside(intercepting(), "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}").status == 200
    numbers = [client.request(f"a.test:{origin.port}", f"/{index}") for index in range(20)]
    assert all(client.wait(number).body == b"ok" for number in numbers)
    # Another one was opened, for the first might have been in use for days; then they wait.
    assert len(origin.protocols) <= 3


def test_a_burst_opens_few_connections(intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    client = inside(intercepting(), "a.test", origin.port)
    numbers = [client.request(f"a.test:{origin.port}", f"/{index}") for index in range(60)]
    assert all(client.wait(number).body == b"ok" for number in numbers)
    assert len(origin.protocols) <= 6


def test_one_connection_to_a_host_serves_all_that_wait(intercepting, inside, h2_origin):
    """Streams take no place of connections_per_host, and the connection that has one does not keep it idle."""
    origin = h2_origin(ok)
    proxy = intercepting(proxy="limits = { connections_per_host = 1 }")
    clients = [inside(proxy, "a.test", origin.port) for _ in range(3)]
    asked = [(client, client.request(f"a.test:{origin.port}", f"/{index}")) for client in clients for index in range(10)]
    assert all(client.wait(number).body == b"ok" for client, number in asked)


def test_what_came_before_a_connection_went_away_is_delivered(intercepting, inside, h2_origin):
    """The client takes the answer slowly, and meanwhile the origin has said GOAWAY and closed."""

    def answer(link, request):
        body = b"x" * 60_000
        link.respond(request, 200, ("content-length", str(len(body))), body=body)
        link.leave(request.number)
        # Its end only: what the proxy says meanwhile is read, as a closed socket would answer it by a reset.
        with socket.socket(fileno=os.dup(link.secure.fileno())) as plain:
            plain.shutdown(socket.SHUT_WR)

    origin = h2_origin(answer)
    client = inside(intercepting(), "a.test", origin.port, window=1000)
    number = client.request(f"a.test:{origin.port}")
    assert len(client.wait(number).body) == 60_000


def test_what_came_before_a_reset_is_delivered(intercepting, inside, h2_origin):
    """The proxy has something to say in between, finds that it cannot be sent, and has not yet read the rest."""
    proxy = intercepting()

    def answer(link, request):
        proxy.process.send_signal(signal.SIGSTOP)
        link.connection.ping(b"in-there")
        link.respond(request, 200, ("content-length", "50000"), body=b"x" * 50_000)
        link.reset_delivered()
        proxy.process.send_signal(signal.SIGCONT)

    origin = h2_origin(answer)
    client = inside(proxy, "a.test", origin.port)
    assert len(client.wait(client.request(f"a.test:{origin.port}")).body) == 50_000


def test_a_malformed_answer_leaves_other_streams_alone(intercepting, inside, h2_origin):
    held = []

    def answer(link, request):
        if request.path == "/held":
            return held.append((link, request))
        link.respond(request, 200, ("X-Upper", "1"), body=b"x")

    origin = h2_origin(answer)
    proxy = intercepting(proxy='timeouts = { response_header = "500ms", body_stall = "30s" }')
    client = inside(proxy, "a.test", origin.port)
    waiting = client.request(f"a.test:{origin.port}", "/held", body=b"a", ends=False, method="POST")
    origin.wait_until(lambda: origin.requests)
    assert client.get(f"a.test:{origin.port}", "/bad").status == 502
    # Longer than a head may take.
    assert client.get("other.test").status == 421
    client.content(waiting, b"b", ends=True)
    origin.wait_until(lambda: held)
    ok(*held[0])
    assert client.wait(waiting).body == b"ok"


def test_a_burst_that_nobody_takes_is_refused_at_once(intercepting, inside):
    """Those that wait for the connection of another are told with it."""
    port = unused_port()
    client = inside(intercepting(), "a.test", port)
    numbers = [client.request(f"a.test:{port}", f"/{index}") for index in range(30)]
    assert all(client.wait(number).status == 502 for number in numbers)


def accept(key: bytes) -> bytes:
    """RFC 6455, 4.2.2."""
    return base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())


def open_websocket(client, port: int):
    number = client.send(
        [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "https"),
            (":authority", f"a.test:{port}"),
            (":path", "/chat"),
            ("sec-websocket-version", "13"),
        ],
        ends=False,
    )
    return number, client.exchanges[number]


PROOFS = {
    "none": lambda key: b"",
    "of another key": lambda key: b"Sec-WebSocket-Accept: " + accept(b"x" + key) + b"\r\n",
    "the key itself": lambda key: b"Sec-WebSocket-Accept: " + key + b"\r\n",
    "twice": lambda key: (b"Sec-WebSocket-Accept: " + accept(key) + b"\r\n") * 2,
}


@pytest.mark.parametrize("proof", PROOFS)
def test_a_websocket_without_proof_is_not_opened(proof, intercepting, inside, tls_origin, world):
    """The key is the proxy's, so nobody else can tell that the server has not read it."""

    def switching(connection) -> None:
        key = connection.read_request().value("sec-websocket-key")
        connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            + PROOFS[proof](key) + b"\r\n")

    server = tls_origin(switching, world.context(world.leaf("a.test")))
    proxy = intercepting()
    client = inside(proxy, "a.test", server.port, validate=False)
    number, exchange = open_websocket(client, server.port)
    client.wait_until(lambda: exchange.status)
    assert exchange.status == 502
    line = proxy.access(lambda line: line["target"].endswith("/chat"))
    assert (line["status"], line["outcome"]) == (502, "malformed-response")


def test_an_origin_that_does_not_switch_opens_no_websocket(intercepting, inside, tls_origin, world):
    """200 would open the tunnel on a stream (RFC 8441, 5). The client and the log are told the same."""

    def serve(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    server = tls_origin(serve, world.context(world.leaf("a.test")))
    proxy = intercepting()
    client = inside(proxy, "a.test", server.port)
    number, exchange = open_websocket(client, server.port)
    client.wait(number)
    assert exchange.status == 502 and exchange.value("proxy-status").startswith("sallyport; error=http_protocol_error")
    assert json.loads(exchange.body)["seen"] == "200"
    line = proxy.access(lambda line: line["method"] == "GET")
    assert (line["status"], line["upstream_status"], line["outcome"]) == (502, 200, "protocol-not-offered")


def test_websocket_over_a_stream(intercepting, inside, tls_origin, world):
    """RFC 8441 towards the client, Upgrade towards the origin."""

    def switching(connection) -> None:
        key = connection.read_request().value("sec-websocket-key")
        connection.switch_protocol()
        connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "
            + accept(key) + b"\r\n\r\n")
        while connection.receive_some():
            connection.send(bytes(connection.received[connection.read_to :]).upper())
            connection.read_to = len(connection.received)

    server = tls_origin(switching, world.context(world.leaf("a.test")))
    proxy = intercepting()
    client = inside(proxy, "a.test", server.port, validate=False)
    client.wait_until(
        lambda: client.connection.remote_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL) == 1
    )
    number, exchange = open_websocket(client, server.port)
    client.wait_until(lambda: exchange.status)
    assert exchange.status == 200 and exchange.value("sec-websocket-accept") is None
    client.content(number, b"hello", ends=False)
    client.wait_until(lambda: exchange.body == b"HELLO")
    client.content(number, b"bye", ends=True)
    assert client.wait(number).body == b"HELLOBYE"
    assert len(base64.b64decode(server.requests()[0].value("sec-websocket-key"), validate=True)) == 16
    line = proxy.access(lambda line: line["target"].endswith("/chat"))
    assert (line["status"], line["protocol"], line["upstream_protocol"]) == (101, "h2", "http/1.1")


class TunnelOrigin:
    """An origin of HTTP/2 that opens tunnels on streams, and sends back in capitals what comes on one."""

    settings = {h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL: 1}

    def __init__(self, status: int = 200):
        self.status = status
        self.asked: list = []

    def __call__(self, link, request) -> None:
        if request.value(":method") != "CONNECT":
            return ok(link, request)
        self.asked.append(request)
        if self.status == 200:
            link.respond(request, 200, ("sec-websocket-protocol", "chat"), ends=False)
            threading.Thread(target=self.echo, args=(link, request)).start()
        else:
            link.respond(request, self.status, ("content-length", "2"), body=b"no")

    def echo(self, link, request) -> None:
        sent = 0
        while request.reset is None:
            link.origin.wait_until(
                lambda: len(request.body) > sent or request.number in link.ended or request.reset is not None or link.origin.stopped)
            if link.origin.stopped:
                return
            with link.lock:
                if request.reset is not None:
                    return
                more = request.body[sent:].upper()
                sent += len(more)
                ends = request.number in link.ended and sent == len(request.body)
                try:
                    link.connection.send_data(request.number, more, end_stream=ends)
                    link.flush()
                except OSError:
                    # The test is over, and its connections are closed.
                    return
            if ends:
                return


def test_websocket_goes_on_as_a_stream_where_the_origin_takes_it(intercepting, inside, h2_origin):
    """RFC 8441 on both sides: no connection of its own is opened, and nothing of the handshake of HTTP/1.1 is seen."""
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True, alpn=("h2", "http/1.1"))
    proxy = intercepting()
    client = inside(proxy, "a.test", origin.port, validate=False)
    assert client.wait(client.request(f"a.test:{origin.port}")).body == b"ok"
    number, exchange = open_websocket(client, origin.port)
    client.wait_until(lambda: exchange.status)
    assert exchange.status == 200 and exchange.value("sec-websocket-protocol") == "chat"
    assert exchange.value("sec-websocket-accept") is None
    client.content(number, b"hello", ends=False)
    client.wait_until(lambda: exchange.body == b"HELLO")
    client.content(number, b"bye", ends=True)
    assert client.wait(number).body == b"HELLOBYE"
    (asked,) = serve.asked
    assert (asked.value(":protocol"), asked.value("sec-websocket-version")) == ("websocket", "13")
    assert asked.value("sec-websocket-key") is None and asked.value("upgrade") is None
    line = proxy.access(lambda line: line["target"].endswith("/chat"))
    assert (line["status"], line["protocol"], line["upstream_protocol"]) == (101, "h2", "h2")
    assert len(origin.protocols) == 1


def test_a_client_of_http1_opens_a_websocket_on_a_stream(intercepting, secure_client, h2_origin, authority):
    serve = TunnelOrigin()
    origin = h2_origin(serve, settings=serve.settings, early=True, alpn=("h2", "http/1.1"))
    client = secure_client(intercepting())
    place = f"a.test:{origin.port}"
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    assert client.get_inside(place).body == b"ok"
    key = base64.b64encode(b"sixteen bytes 01")
    client.send(
        f"GET /chat HTTP/1.1\r\nHost: {place}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key.decode()}\r\n\r\n".encode())
    head = client.receive_until(b"\r\n\r\n").lower()
    assert head.startswith(b"http/1.1 101 ") and b"\r\nsec-websocket-accept: " + accept(key).lower() in head
    client.send(b"hello")
    assert client.receive_exactly(5) == b"HELLO"
    assert serve.asked[0].value("sec-websocket-key") is None
    client.close()
    origin.wait_until(lambda: serve.asked[0].number in origin.links[0].ended or serve.asked[0].reset is not None)


def test_a_tunnel_that_an_origin_refuses_is_an_answer(intercepting, inside, h2_origin):
    serve = TunnelOrigin(status=403)
    origin = h2_origin(serve, settings=serve.settings, early=True, alpn=("h2", "http/1.1"))
    client = inside(intercepting(), "a.test", origin.port, validate=False)
    assert client.wait(client.request(f"a.test:{origin.port}")).body == b"ok"
    number, exchange = open_websocket(client, origin.port)
    assert client.wait(number).body == b"no" and exchange.status == 403


def test_websocket_is_not_announced_where_no_way_is_left(intercepting, inside):
    policy = rule("none", 'hosts = ["none.test"]', 'connect = "intercept"', "upgrades = []")
    policy += rule("two", 'hosts = ["two.test"]', 'connect = "intercept"', 'protocols = ["h2"]')
    proxy = intercepting(policy)
    for host, announced in (("none.test", 0), ("two.test", 1)):
        client = inside(proxy, host, 443)
        client.wait_until(lambda: client.connection.remote_settings.max_concurrent_streams == 128)
        assert (client.connection.remote_settings.get(h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL) or 0) == announced


def test_an_origin_that_goes_away_is_replaced(intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    client = inside(intercepting(), "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}").status == 200
    origin.links[0].leave(1)
    for _ in range(3):
        assert client.get(f"a.test:{origin.port}").status == 200
    assert len(origin.protocols) == 2


def test_a_slow_reader_stops_nobody_else(intercepting, inside, tls_origin, h2_origin, world):
    """Neither on its own connection nor on the origin's."""

    def answer(link, request):
        if request.path == "/small":
            return ok(link, request)
        link.respond(request, 200, ("content-length", str(len(LARGE))), ends=False)
        with link.lock:
            room = link.connection.local_flow_control_window(request.number)
            sent = 0
            while sent < room:
                piece = LARGE[sent : min(room, sent + link.connection.max_outbound_frame_size)]
                link.connection.send_data(request.number, piece)
                sent += len(piece)
            link.flush()

    origin = h2_origin(answer)
    proxy = intercepting()
    slow = inside(proxy, "a.test", origin.port)
    slow.reads = False
    number = slow.request(f"a.test:{origin.port}", "/large")
    slow.wait_until(lambda: len(slow.exchanges[number].body) >= 65_535)
    assert slow.connection.remote_flow_control_window(number) == 0
    other = inside(proxy, "a.test", origin.port)
    assert other.get(f"a.test:{origin.port}", "/small").body == b"ok"


@pytest.mark.parametrize("count", [16_384, 32_768, 49_152, 65_536, 600_000, 1 << 20])
def test_nothing_waits_for_content_that_does_not_come(count, intercepting, inside, tls_origin, world):
    """What is a little more than whole records of TLS goes on without what would fill the next one."""

    def script(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE))
        connection.send(LARGE[:count])
        connection.wait_for_end()

    origin = tls_origin(script, world.context(world.leaf("a.test")))
    client = inside(intercepting(), "a.test", origin.port)
    number = client.request(f"a.test:{origin.port}", "/large")
    client.wait_until(lambda: len(client.exchanges[number].body) == count)
    assert client.exchanges[number].body == LARGE[:count]


@pytest.mark.parametrize("ahead", [9_000, 40_000, 130_000])
@pytest.mark.parametrize("seed", range(2))
def test_a_slow_reader_gets_all_in_whatever_pieces_it_comes(
    seed, ahead, intercepting, secure_client, authority, tls_origin, world
):
    """The socket is full again and again, within a record and between two, and what is tried again has grown meanwhile."""
    chance = random.Random(seed)
    came = Journal("how much of the content has come")

    def script(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        at = 0
        while at < len(MIDDLING):
            piece = MIDDLING[at : at + chance.randrange(1, 14_000)]
            connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            at += len(piece)
            came.wait_for(lambda count, at=at: count >= at - ahead)
        connection.send(b"0\r\n\r\n")
        connection.wait_for_end()

    origin = tls_origin(script, world.context(world.leaf("a.test")))
    raw = secure_client(intercepting(), receive_buffer=4096)
    assert raw.tunnel("a.test", origin.port).status == 200
    context = client_context(authority.file)
    context.set_alpn_protocols(["h2"])
    raw.shake_hands(context, "a.test")
    client = H2Client(raw.secure)
    number = client.request(f"a.test:{origin.port}", "/large")
    exchange = client.exchanges[number]
    while not exchange.ended and client.step():
        came.append(len(exchange.body))
    assert (exchange.status, exchange.reset, exchange.body == MIDDLING) == (200, None, True)


def test_a_drain_lets_streams_end(intercepting, h2_origin, authority):
    need("curl")
    held = []
    origin = h2_origin(lambda link, request: held.append((link, request)))
    proxy = intercepting()
    curl = subprocess.Popen(
        ["curl", "-sS", "-v", "--http2", "-x", proxy.url, "--cacert", authority.file, f"https://a.test:{origin.port}/"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    origin.wait_until(lambda: held)
    proxy.terminate()
    proxy.log.wait_for(lambda line: "drain" in line.get("message", "") or "stopp" in line.get("message", ""))
    ok(*held[0])
    out, told = curl.communicate(timeout=DEADLINE_SECONDS)
    assert out == "ok" and curl.returncode == 0, told
    assert proxy.wait_for_exit() == 0


def test_a_flood_ends_its_connection_and_no_other(intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    proxy = intercepting()
    good, bad = (inside(proxy, "a.test", origin.port) for _ in range(2))
    assert good.get(f"a.test:{origin.port}").status == 200
    for _ in range(5_000):
        bad.connection.ping(b"12345678")
        bad.flush()
    assert bad.wait_for_end() in (h2.errors.ErrorCodes.ENHANCE_YOUR_CALM, None)
    assert good.get(f"a.test:{origin.port}").status == 200
    proxy.log.wait_for(lambda line: "frames that move nothing" in line.get("message", ""))


@pytest.mark.parametrize(
    "frame, reason",
    [
        (bytes([0, 0, 1, 0, 0, 0, 0, 0, 0, 1]), "DATA"),  # on no stream
        (bytes([0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "WINDOW_UPDATE"),  # by nothing
        (bytes([0, 64, 1, 6, 0, 0, 0, 0, 0]) + bytes(16_385), ""),  # a PING that is too large
    ],
    ids=["DATA", "WINDOW_UPDATE", "PING"],
)
def test_a_peer_that_breaks_the_protocol_is_told_of_and_counted(frame, reason, intercepting, inside, tmp_path):
    proxy = intercepting('[admin]\nsocket = "admin.sock"\n')
    client = inside(proxy, "a.test", 443)
    client.secure.sendall(frame)
    assert client.wait_for_end() is not None
    line = proxy.log.wait_for(lambda line: "the peer broke the protocol" in line.get("message", ""))
    assert line["level"] == "warning" and reason in line["message"]
    admin = AdminClient(proxy.configuration.parent / "admin.sock")
    assert "\nsallyport_http2_faults_total 1\n" in admin.ask("/metrics").body.decode()


def never_indexed(fields, name: bytes) -> list[bool]:
    """Of the fields with this name: whether each came as one that is never indexed."""
    return [isinstance(field, hpack.NeverIndexedHeaderTuple) for field in fields if field[0] == name]


def test_what_a_peer_never_indexes_is_never_indexed(intercepting, inside, h2_origin):
    """RFC 7541, 6.2.3 and 7.1.3: a table would let others on the connection guess the value."""
    asked, answered = [], []

    class Watched(Link):
        def take(self, event):
            if isinstance(event, h2.events.RequestReceived):
                asked.append(event.headers)
            super().take(event)

    def answer(link, request):
        link.respond(request, 200, hpack.NeverIndexedHeaderTuple("x-token", "s3cret"), ("x-plain", "1"), body=b"ok")

    origin = h2_origin(answer, link=Watched)
    client = inside(intercepting(), "a.test", origin.port)
    take = client.take

    def watch(event):
        if isinstance(event, h2.events.ResponseReceived):
            answered.append(event.headers)
        take(event)

    client.take = watch
    for _ in range(2):
        number = client.send([
            (":method", "GET"), (":scheme", "https"), (":authority", f"a.test:{origin.port}"), (":path", "/"),
            hpack.NeverIndexedHeaderTuple("x-api-key", "s3cret"), ("x-plain", "1"),
        ])
        assert client.wait(number).status == 200
    assert [never_indexed(fields, b"x-api-key") for fields in asked] == [[True]] * 2
    assert [never_indexed(fields, b"x-token") for fields in answered] == [[True]] * 2
    assert [never_indexed(fields, b"x-plain") for fields in asked + answered] == [[False]] * 4


def test_a_head_that_never_ends_ends_its_connection(intercepting, inside):
    proxy = intercepting(proxy='timeouts = { client_header = "300ms" }')
    client = inside(proxy, "a.test", 443)
    # Nothing of ours may come between: the settings are acknowledged first.
    client.wait_until(lambda: client.connection.remote_settings.max_concurrent_streams == 128)
    # HEADERS without END_HEADERS.
    client.secure.sendall(bytes([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]))
    assert client.wait_for_end() == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM


def test_an_idle_connection_ends(intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    proxy = intercepting(proxy='timeouts = { client_idle = "300ms", upstream_idle = "200ms" }')
    client = inside(proxy, "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}").status == 200
    assert client.wait_for_end() == h2.errors.ErrorCodes.NO_ERROR
    origin.wait_until(lambda: origin.links[0].goaway is not None)


def test_a_window_that_stays_shut_ends_its_stream(intercepting, inside, h2_origin):
    origin = h2_origin(lambda link, request: link.respond(request, 200, body=b"x" * 1000))
    proxy = intercepting(proxy='timeouts = { body_stall = "500ms" }')
    client = inside(proxy, "a.test", origin.port, window=0)
    number = client.request(f"a.test:{origin.port}")
    client.wait_until(lambda: client.exchanges[number].status == 200)
    assert client.wait(number).reset == h2.errors.ErrorCodes.CANCEL and client.exchanges[number].body == b""


def test_checked_bodies_behind_a_shut_window_are_held(intercepting, inside, tls_origin, world):
    """A stream takes no more than a socket would: what waits is in `held_bodies`, and the log tells what was not taken."""
    content = b"[" + b"1," * (400 << 10) + b"1]"
    fields = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(content)
    answer = answering(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n" + content)
    origin = tls_origin(answer, world.context(world.leaf("a.test")), tunnelled=True)
    limits = '[proxy.limits]\nheld_bodies = "4MiB"\n[defaults.response]\nserializer = "json"\n'
    proxy = intercepting(ADMIN + limits)
    client = inside(proxy, "a.test", origin.port, window=0)
    numbers = [client.request(f"a.test:{origin.port}", f"/{number}") for number in range(12)]
    client.wait_until(lambda: all(client.exchanges[number].status for number in numbers))
    assert {client.exchanges[number].status for number in numbers} == {200, 503}
    held = AdminClient(proxy.configuration.parent / "admin.sock").json("/v1/status")["held_bytes"]
    assert 2 << 20 < held <= 4 << 20
    for number in numbers:
        if client.exchanges[number].status == 200:
            client.reset(number)
    line = proxy.access(lambda line: line["status"] == 200 and line["method"] == "GET")
    assert line["outcome"] == "client-left" and line["bytes_out"] < len(content)


def test_a_stream_that_waits_costs_nothing(intercepting, inside, h2_origin):
    """Also where nothing moves on its connections for longer than bodies may rest."""
    origin = h2_origin(lambda link, request: None)
    proxy = intercepting(proxy='timeouts = { body_stall = "100ms", response_header = "2s" }')
    client = inside(proxy, "a.test", origin.port)
    number = client.request(f"a.test:{origin.port}")
    origin.wait_until(lambda: origin.requests)
    before = proxy.cpu_seconds()
    assert client.wait(number).status == 504
    spent = proxy.cpu_seconds() - before
    assert spent < 0.1, spent


# So many streams, of random sizes and ends; SALLYPORT_STREAMS asks for more.
STREAMS = int(os.environ.get("SALLYPORT_STREAMS", "300"))
AT_ONCE = 20
MOST_BYTES = 100_000


def content_of(path: str) -> bytes:
    size, seed = path.strip("/").split("/")[:2]
    return hashlib.shake_128(seed.encode()).digest(int(size))


@pytest.mark.parametrize("upstream", ["h2", "http/1.1"])
def test_no_byte_is_lost_or_misplaced(upstream, intercepting, inside, h2_origin, tls_origin, world):
    """Downloads and uploads, and either that its sender breaks off or its reader resets, each body compared with its hash."""
    # What an origin took for whole.
    uploaded: list[str] = []

    def answer(link, request):
        if request.value(":method") == "PUT":
            uploaded.append(request.path)
            return link.respond(request, 200, ("x-hash", hashlib.sha256(request.body).hexdigest()))
        threading.Thread(target=deliver, args=(link, request), daemon=True).start()

    def deliver(link, request):
        body = content_of(request.path)
        breaks = request.path.endswith("/breaks")
        try:
            link.respond(request, 200, ("content-length", str(len(body))), ends=not body and not breaks)
            sent = 0
            most = len(body) // 2 if breaks else len(body)
            while sent < most:
                with link.lock:
                    room = min(
                        link.connection.local_flow_control_window(request.number),
                        link.connection.max_outbound_frame_size,
                    )
                    piece = body[sent : min(most, sent + room)]
                    if piece:
                        sent += len(piece)
                        link.connection.send_data(request.number, piece, end_stream=sent == len(body))
                        link.flush()
                if not piece:
                    with link.origin.changed:
                        link.origin.changed.wait(0.05)
            if breaks:
                link.reset(request, h2.errors.ErrorCodes.INTERNAL_ERROR)
        except (h2.exceptions.ProtocolError, OSError, KeyError):
            pass  # the stream was reset

    def answer_plainly(connection) -> None:
        while True:
            request = connection.read_request()
            if request.method == b"PUT":
                uploaded.append(request.target.decode())
                digest = hashlib.sha256(request.body).hexdigest().encode()
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Hash: " + digest + b"\r\n\r\n")
            else:
                body = content_of(request.target.decode())
                head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
                if request.target.endswith(b"/breaks"):
                    return connection.send(head + body[: len(body) // 2])
                connection.send(head + body)

    chance = random.Random(upstream)
    if upstream == "h2":
        origin = h2_origin(answer)
    else:
        origin = tls_origin(answer_plainly, world.context(world.leaf("a.test")))
    client = inside(intercepting(), "a.test", origin.port)
    authority = f"a.test:{origin.port}"
    cut: list[str] = []
    for _ in range(STREAMS // AT_ONCE):
        asked = {}
        for index in range(AT_ONCE):
            path = f"/{chance.choice([0, 1, chance.randrange(2000), chance.randrange(MOST_BYTES)])}/{index}"
            kind = chance.random()
            if kind < 0.3:
                asked[client.request(authority, path, method="PUT", body=content_of(path))] = path
            elif kind < 0.3 + min(0.1, 60 / STREAMS):
                # Cut short: with a length or without, and and then reset.
                body = content_of(path)
                fields = [("content-length", str(len(body) + 1))] if chance.random() < 0.5 else []
                number = client.request(authority, path + "/cut", *fields, method="PUT", body=body, ends=False)
                if client.exchanges[number].reset is None:
                    client.reset(number)
                cut.append(path + "/cut")
            elif kind < 0.5:
                # Nothing of it is whole, not even what has no content.
                path = f"/{2 + int(path.split('/')[1])}/{index}/breaks"
                asked[client.request(authority, path)] = path
            else:
                asked[client.request(authority, path)] = path
        given_up = [number for number in asked if chance.random() < min(0.15, 100 / STREAMS)]
        for number in given_up:
            if not client.exchanges[number].ended:
                client.reset(number)
        for number, path in asked.items():
            if number in given_up:
                continue
            got = client.wait(number)
            if path.endswith("/breaks"):
                assert not got.ended and got.reset is not None, (path, got.status)
                assert content_of(path).startswith(got.body) and len(got.body) < len(content_of(path))
                continue
            assert got.ended and got.status == 200, (path, got.status, got.reset)
            if got.value("x-hash"):
                assert got.value("x-hash") == hashlib.sha256(content_of(path)).hexdigest()
            else:
                assert hashlib.sha256(got.body).digest() == hashlib.sha256(content_of(path)).digest(), path
    assert cut and not [path for path in uploaded if path.endswith("/cut")]


# gRPC


class Calls(grpc.GenericRpcHandler):
    def service(self, details):
        match details.method.rsplit("/", 1)[1]:
            case "Unary":

                def unary(request, context):
                    context.set_trailing_metadata((("x-sum", str(len(request))),))
                    return request[::-1]

                return grpc.unary_unary_rpc_method_handler(unary)
            case "Fails":
                return grpc.unary_unary_rpc_method_handler(
                    lambda request, context: context.abort(grpc.StatusCode.NOT_FOUND, "nö %")
                )
            case "Server":
                return grpc.unary_stream_rpc_method_handler(
                    lambda request, context: (b"%d" % index for index in range(int(request)))
                )
            case "Client":
                return grpc.stream_unary_rpc_method_handler(
                    lambda requests, context: b"%d" % sum(map(len, requests))
                )
            case "Echo":
                return grpc.stream_stream_rpc_method_handler(lambda requests, context: (x for x in requests))
            case "Waits":

                def waits(request, context):
                    over = threading.Event()
                    context.add_callback(over.set)
                    over.wait()
                    return b""

                return grpc.unary_unary_rpc_method_handler(waits)


@pytest.fixture
def grpc_server(world):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Calls(),))
    leaf = world.leaf("localhost")
    chain = leaf.pem + leaf.issuer.pem if getattr(leaf, "issuer", None) else leaf.pem
    port = unused_port()
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([(leaf.key_pem, chain)]))
    server.start()
    server.port = port
    yield server
    server.stop(None)


@pytest.fixture
def channel(authority):
    opened = []

    def connect(proxy, port: int) -> grpc.Channel:
        credentials = grpc.ssl_channel_credentials(authority.file.read_bytes())
        options = [("grpc.http_proxy", proxy.url)]
        opened.append(grpc.secure_channel(f"localhost:{port}", credentials, options))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


SECONDS = 20


def test_grpc_calls_of_every_kind(intercepting, grpc_server, channel):
    calls = channel(intercepting(), grpc_server.port)
    answer, call = calls.unary_unary("/s/Unary").with_call(b"abc", timeout=SECONDS)
    assert answer == b"cba" and ("x-sum", "3") in call.trailing_metadata()
    with pytest.raises(grpc.RpcError) as failed:
        calls.unary_unary("/s/Fails")(b"", timeout=SECONDS)
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.NOT_FOUND, "nö %")
    assert len(list(calls.unary_stream("/s/Server")(b"1000", timeout=SECONDS))) == 1000
    assert calls.stream_unary("/s/Client")((b"x" * 10 for _ in range(1000)), timeout=SECONDS) == b"10000"
    echoed = list(calls.stream_stream("/s/Echo")((b"%d" % index for index in range(1000)), timeout=SECONDS))
    assert echoed == [b"%d" % index for index in range(1000)]


def test_grpc_messages_pass_one_by_one(intercepting, grpc_server, channel):
    """Nothing is held: an answer to each message comes before the next is sent."""
    import queue

    sent: queue.Queue = queue.Queue()
    answers = channel(intercepting(), grpc_server.port).stream_stream("/s/Echo")(iter(sent.get, None), timeout=SECONDS)
    for index in range(100):
        sent.put(b"%d" % index)
        assert next(answers) == b"%d" % index
    sent.put(None)
    assert list(answers) == []


def test_a_grpc_deadline_and_a_cancellation(intercepting, grpc_server, channel):
    calls = channel(intercepting(), grpc_server.port)
    with pytest.raises(grpc.RpcError) as failed:
        calls.unary_unary("/s/Waits")(b"", timeout=0.3)
    assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    call = calls.unary_unary("/s/Waits").future(b"", timeout=SECONDS)
    call.cancel()
    assert call.cancelled()


def test_grpc_programs_read_what_the_proxy_says(intercepting, grpc_server, channel, tls_origin, world):
    deny = '[[rule]]\nname = "no"\naction = "deny"\nhosts = ["localhost"]\npaths = ["/s/Unary"]\nschemes = ["https"]\n'
    proxy = intercepting(deny)
    with pytest.raises(grpc.RpcError) as failed:
        channel(proxy, grpc_server.port).unary_unary("/s/Unary")(b"", timeout=SECONDS)
    assert failed.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert failed.value.details().startswith("denied rule=no ref=")
    plain = tls_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), world.context(world.leaf("localhost")))
    with pytest.raises(grpc.RpcError) as failed:
        channel(proxy, plain.port).unary_unary("/s/Other")(b"", timeout=SECONDS)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "protocol-not-offered" in failed.value.details() and not plain.requests()
    with pytest.raises(grpc.RpcError) as failed:
        channel(proxy, unused_port()).unary_unary("/s/Other")(b"", timeout=SECONDS)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE and "connection-refused" in failed.value.details()


# Programs


def test_curl_and_httpx(intercepting, h2_origin, authority):
    need("curl")
    proxy = intercepting()
    origin = h2_origin(ok)
    url = f"https://a.test:{origin.port}/x"
    for version in ("--http2", "--http1.1"):
        done = subprocess.run(
            ["curl", "-sS", version, "-x", proxy.url, "--cacert", authority.file, "-w", " %{http_version}", url],
            capture_output=True,
            text=True,
        )
        assert done.stdout == ("ok 2" if version == "--http2" else "ok 1.1"), done
    context = ssl.create_default_context(cafile=str(authority.file))
    with httpx.Client(http2=True, proxy=proxy.url, verify=context) as client:
        answer = client.get(url)
        assert (answer.http_version, answer.text) == ("HTTP/2", "ok")
