"""How messages go through: connections, framing, fields, interim answers, tunnels, credentials and the loop guard.

Both sides are raw sockets, so that a test decides every byte and sees every byte.
"""

import base64
import hashlib
import re
import threading
from pathlib import Path

import pytest

from journal import DEADLINE_SECONDS
from origins import answering, echoing, tunnel_echo, unused_port
from problems import check_problem
from raw_client import RawClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
ONE_WORKER = "workers = 1"  # one pool and one accept queue, so that what is reused is certain
LARGE = hashlib.shake_128(b"ten mebibytes").digest(10 * 1024 * 1024)


def request(
    origin, lines: bytes = b"", method: bytes = b"GET", path: bytes = b"/", version: bytes = b"1.1", body=b""
):
    """An absolute-form request to an origin; `lines` end with CRLF each."""
    authority = origin.authority.encode()
    return b"%s http://%s%s HTTP/%s\r\nHost: %s\r\n%s\r\n%s" % (
        method,
        authority,
        path,
        version,
        authority,
        lines,
        body,
    )


def connect(origin, lines: bytes = b"") -> bytes:
    return b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (
        origin.authority.encode(),
        origin.authority.encode(),
        lines,
    )


def numbered(count: int) -> list[bytes]:
    return [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number for number in range(count)]


# What looks odd and is right

ODD_BUT_RIGHT = {
    "an empty line before the request": (b"\r\nGET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"/"),
    "a target without a path": (b"GET http://ORIGIN HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"/"),
    "a target without a path but with a query": (
        b"GET http://ORIGIN?x=1 HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        b"/?x=1",
    ),
    "a scheme in capitals": (b"GET HTTP://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"/"),
    "dot segments, which are the origin's": (
        b"GET http://ORIGIN/a/../b/./c HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        b"/a/../b/./c",
    ),
    "percent-encoding, which is the origin's": (
        b"GET http://ORIGIN/%2e%2F%41 HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        b"/%2e%2F%41",
    ),
    "two slashes": (b"GET http://ORIGIN//a//b HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"//a//b"),
    "a URL within the path": (b"GET http://ORIGIN/http://b/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"/http://b/"),
    "an at sign and a colon in the path": (
        b"GET http://ORIGIN/@a:b HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        b"/@a:b",
    ),
    "what browsers leave in a query": (
        b"GET http://ORIGIN/?a[]=|^`{}' HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        b"/?a[]=|^`{}'",
    ),
    "a backslash in a query, which browsers leave too": (
        b"GET http://ORIGIN/?a\\b HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        b"/?a\\b",
    ),
    "a lone percent sign": (b"GET http://ORIGIN/100% HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"/100%"),
    "a long query": (
        b"GET http://ORIGIN/?" + b"a" * 16000 + b" HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        b"/?" + b"a" * 16000,
    ),
    "a Host in capitals": (b"GET http://ORIGIN/ HTTP/1.1\r\nHOST: ORIGIN\r\n\r\n", b"/"),
    "a Host with blanks around it": (b"GET http://ORIGIN/ HTTP/1.1\r\nHost:\t ORIGIN \t\r\n\r\n", b"/"),
    "HTTP/1.0 without Host": (b"GET http://ORIGIN/ HTTP/1.0\r\n\r\n", b"/"),
    "a method in small letters": (b"m-search http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"/"),
    "a method that nobody knows": (b"M-SEARCH http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", b"/"),
    "a name of odd token bytes": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n!#$%&'*+-.^_`|~: x\r\n\r\n",
        b"/",
    ),
    "bytes above 0x7f in a value": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nX: \xe9\xff\r\n\r\n",
        b"/",
    ),
    "a length of 0 on a GET": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 0\r\n\r\n",
        b"/",
    ),
    "a body on a GET": (b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 2\r\n\r\nhi", b"/"),
    "Chunked in capitals": (
        b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n",
        b"/",
    ),
    "Transfer-Encoding with a tab behind": (
        b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nTransfer-Encoding:chunked\t\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"/",
    ),
    "chunk extensions": (
        b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'2;a;b=c;d="e\\"f;\\\\"\r\nhi\r\n000;z\r\n\r\n',
        b"/",
    ),
}


@pytest.mark.parametrize("how", ["whole", "byte by byte"])
@pytest.mark.parametrize("name", ODD_BUT_RIGHT)
def test_what_looks_odd_and_is_right_is_served(name, how, plain_proxy, raw_origin, raw_client):
    data, target = ODD_BUT_RIGHT[name]
    origin = raw_origin(answering(OK))
    client = raw_client(plain_proxy)
    data = data.replace(b"ORIGIN", origin.authority.encode())
    client.send(data) if how == "whole" else client.send_bytewise(data)
    assert client.answer().body == b"ok"
    assert [message.target for message in origin.requests()] == [target]
    assert origin.requests()[0].value("Host") == origin.authority.encode()


# Connections


def test_a_connection_is_kept_for_many_requests(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(*numbered(8)))
    client = raw_client(plain_proxy)
    assert [client.exchange(request(origin)).body for _ in range(8)] == [
        b"%d" % number for number in range(8)
    ]
    assert len(origin.connections) == 1, "one client in a row needs one upstream connection"


def test_pipelined_requests_are_answered_in_order(plain_proxy, raw_origin, raw_client):
    """The first origin answers last: the second's answer must wait."""
    released = threading.Event()

    def late(connection) -> None:
        connection.read_request()
        released.wait(DEADLINE_SECONDS)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
        connection.wait_for_end()

    slow, fast = raw_origin(late), raw_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfast"))
    client = raw_client(plain_proxy)
    client.send(request(slow) + request(fast) + request(fast))
    slow.wait_for("accepted")
    released.set()
    assert [client.answer().body for _ in range(3)] == [b"late", b"fast", b"fast"]


def test_a_hundred_pipelined_requests_in_one_segment(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(echoing)
    client = raw_client(plain_proxy)
    bodies = [b"body %d" % number for number in range(100)]
    lines = [b"Content-Length: %d\r\n" % len(body) for body in bodies]
    client.send(b"".join(request(origin, line, b"POST", body=body) for line, body in zip(lines, bodies)))
    assert [client.answer().body for _ in bodies] == bodies


def test_pipelined_requests_byte_by_byte(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(echoing)
    client = raw_client(plain_proxy)
    chunked = request(origin, b"Transfer-Encoding: chunked\r\n", b"POST", body=b"3\r\none\r\n0\r\n\r\n")
    sized = request(origin, b"Content-Length: 3\r\n", b"PUT", body=b"two")
    client.send_bytewise(chunked + sized + request(origin))
    assert [client.answer().body for _ in range(3)] == [b"one", b"two", b""]


def test_connection_close_of_the_client_is_honoured(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    client = raw_client(plain_proxy)
    assert client.exchange(request(origin, b"Connection: close\r\n")).options("Connection") == [b"close"]
    assert client.wait_for_end() == "closed"


@pytest.mark.parametrize("name", ["Connection", "Proxy-Connection"])
def test_http_1_0_is_closed_unless_it_asks_to_be_kept(name, plain_proxy, raw_origin, raw_client):
    """Proxy-Connection was never standard (RFC 9112 appendix C.2.2), so only Connection may keep HTTP/1.0 open."""
    origin = raw_origin(answering(OK))
    client = raw_client(plain_proxy)
    assert client.exchange(request(origin, version=b"1.0")).body == b"ok"
    assert client.wait_for_end() == "closed"
    client = raw_client(plain_proxy)
    answer = client.exchange(request(origin, b"%s: keep-alive\r\n" % name.encode(), version=b"1.0"))
    if b"keep-alive" in answer.options("Connection"):
        assert client.exchange(request(origin, version=b"1.0")).body == b"ok"
    assert client.wait_for_end() == "closed"


def test_connection_close_of_the_origin_does_not_end_the_client(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"))
    client = raw_client(plain_proxy)
    for _ in range(3):
        answer = client.exchange(request(origin))
        assert b"close" not in answer.options("Connection")
    assert [len(connection.requests) for connection in origin.connections] == [1, 1, 1]


def test_the_pool_is_shared_between_clients(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(proxy=ONE_WORKER), raw_origin(answering(OK))
    for number in range(4):
        client = raw_client(proxy)
        client.exchange(request(origin, path=b"/%d" % number, lines=b"Connection: close\r\n"))
        client.wait_for_end()
    assert [len(connection.requests) for connection in origin.connections] == [4]
    reused = [
        proxy.access(lambda line: line["target"].endswith(f"/{number}"))["reused"] for number in range(4)
    ]
    assert reused == [False, True, True, True]


def test_the_pool_keeps_destinations_apart(sallyport, raw_origin, raw_client):
    proxy = sallyport(proxy=ONE_WORKER)
    first, second = raw_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")), raw_origin(
        answering(OK)
    )
    client = raw_client(proxy)
    assert [client.exchange(request(origin)).body for origin in (first, second, first, second)] == [
        b"1",
        b"ok",
    ] * 2


def test_a_pooled_connection_that_the_origin_closed_is_not_used(sallyport, raw_origin, raw_client):
    """The origin closes after each answer without a word of it; no client may notice, POST or not."""
    proxy = sallyport(proxy=ONE_WORKER)

    def once(connection) -> None:
        connection.read_request()
        connection.send(OK)

    origin = raw_origin(once)
    client = raw_client(proxy)
    for number in range(5):
        answer = client.exchange(request(origin, b"Content-Length: 2\r\n", b"PUT", body=b"hi"))
        assert answer.status == 200
        origin.wait_for("done", number)


# Surplus bytes


@pytest.mark.parametrize(
    "surplus",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled", id="a second answer"),
        pytest.param(b"smuggled", id="bytes that are no answer"),
        pytest.param(b"\r\n", id="an empty line"),
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_bytes_behind_an_answer_never_answer_the_next_request(
    method, surplus, sallyport, raw_origin, raw_client
):
    proxy = sallyport(proxy=ONE_WORKER)
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + (b"ok" if method == b"GET" else b"")

    def script(connection) -> None:
        connection.read_request()
        connection.send(first + surplus if connection.number == 0 else OK)
        connection.wait_for_end()

    origin = raw_origin(script)
    client = raw_client(proxy)
    client.exchange(request(origin, method=method))
    origin.wait_for("done", 0)
    assert client.exchange(request(origin)).body == b"ok"
    assert len(origin.connections) == 2


# Retry


def dying(*second: str):
    """First connection: one answer, then it dies on the next request in the way of `second`. Later ones answer."""

    def script(connection) -> None:
        connection.read_request()
        if connection.number > 0:
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nretry")
            connection.wait_for_end()
            return
        connection.send(OK)
        connection.read_request()
        if "after bytes" in second:
            connection.send(b"HTTP/1.1 2")
        connection.reset() if "reset" in second else connection.close()

    return script


@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"])
def test_an_idempotent_request_is_retried_once_on_a_new_connection(
    method, how, sallyport, raw_origin, raw_client
):
    proxy, origin = sallyport(proxy=ONE_WORKER), raw_origin(dying(how))
    client = raw_client(proxy)
    client.exchange(request(origin))
    answer = client.exchange(request(origin, method=method, path=b"/again"))
    assert answer.status == 200
    assert [len(connection.requests) for connection in origin.connections] == [2, 1]
    line = proxy.access(lambda line: line["target"].endswith("/again"))
    assert line["reused"] is False, "the connection that answered was new"


def test_an_idempotent_request_with_a_short_body_is_retried_with_it(sallyport, raw_origin, raw_client):
    """The body came in one segment with the head: the proxy still has what it must send again."""
    proxy, origin = sallyport(proxy=ONE_WORKER), raw_origin(dying("closed"))
    client = raw_client(proxy)
    client.exchange(request(origin))
    assert client.exchange(request(origin, b"Content-Length: 2\r\n", b"PUT", body=b"hi")).body == b"retry"
    assert [message.body for message in origin.requests()] == [b"", b"hi", b"hi"]


@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("method", [b"POST", b"PATCH", b"FROBNICATE"])
def test_a_request_that_is_not_idempotent_is_not_retried(method, how, sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(proxy=ONE_WORKER), raw_origin(dying(how))
    client = raw_client(proxy)
    client.exchange(request(origin))
    answer = client.exchange(request(origin, b"Content-Length: 2\r\n", method=method, body=b"hi"))
    check_problem(answer, 502)
    assert len(origin.connections) == 1


def test_a_request_is_not_retried_after_the_first_byte_of_an_answer(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(proxy=ONE_WORKER), raw_origin(dying("after bytes"))
    client = raw_client(proxy)
    client.exchange(request(origin))
    check_problem(client.exchange(request(origin)), 502)
    assert len(origin.connections) == 1


def test_a_request_on_a_new_connection_is_not_retried(sallyport, raw_origin, raw_client):
    origin = raw_origin(lambda connection: connection.read_request())
    check_problem(raw_client(sallyport(proxy=ONE_WORKER)).exchange(request(origin)), 502)
    assert len(origin.connections) == 1


def test_a_request_is_retried_only_once(sallyport, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        if connection.number == 0:
            connection.send(OK)
            connection.read_request()

    proxy, origin = sallyport(proxy=ONE_WORKER), raw_origin(script)
    client = raw_client(proxy)
    client.exchange(request(origin))
    check_problem(client.exchange(request(origin)), 502)
    assert len(origin.connections) == 2


# Fields


def test_fields_of_the_clients_hop_are_removed_and_the_others_kept_in_order(
    plain_proxy, raw_origin, raw_client
):
    origin = raw_origin(answering(OK))
    lines = (
        b"X-First: 1\r\nConnection: X-Hop, keep-alive , X-Other\r\nX-Hop: secret\r\nKeep-Alive: timeout=5\r\n"
        b"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nTE: gzip\r\nX-Twice: a\r\nX-OTHER: b\r\n"
        b"X-Twice: b\r\nUpgrade: h2c\r\nTrailer: X-Sum\r\nCookie: a=b\r\nAuthorization: Basic YTpi\r\nX-Last:\r\n"
    )
    raw_client(plain_proxy).exchange(request(origin, lines))
    seen = origin.requests()[0]
    gone = {
        b"x-hop",
        b"x-other",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authorization",
        b"te",
        b"upgrade",
    }
    assert not gone & {name.lower() for name, _ in seen.fields}
    kept = [(b"X-First", b"1"), (b"X-Twice", b"a"), (b"X-Twice", b"b"), (b"Cookie", b"a=b"), (b"X-Last", b"")]
    assert [pair for pair in seen.fields if pair in kept] == kept
    assert seen.value("Authorization") == b"Basic YTpi"


def test_fields_of_the_origins_hop_are_removed(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(
        answering(
            b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: a\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n"
            b"Proxy-Authenticate: Basic realm=x\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nX-A: b\r\nContent-Length: 0\r\n\r\n"
        )
    )
    answer = raw_client(plain_proxy).exchange(request(origin))
    gone = {b"x-hop", b"keep-alive", b"proxy-connection", b"proxy-authenticate"}
    assert not gone & {name.lower() for name, _ in answer.fields}
    assert (answer.values("Set-Cookie"), answer.value("X-A")) == ([b"a=b", b"c=d"], b"b")


def test_connection_cannot_remove_what_frames_or_routes_the_request(plain_proxy, raw_origin, raw_client):
    """Naming Content-Length, Host or Transfer-Encoding in Connection would let a client break the next hop."""
    origin = raw_origin(echoing)
    client = raw_client(plain_proxy)
    answer = client.exchange(
        request(
            origin,
            b"Connection: content-length, host, transfer-encoding\r\nContent-Length: 2\r\n",
            b"POST",
            body=b"hi",
        )
    )
    if answer.status == 200:
        assert origin.requests()[0].body == b"hi"
    else:
        check_problem(answer, 400)


def test_via_is_added_both_ways(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(b"HTTP/1.0 200 OK\r\nVia: 1.1 inner\r\nContent-Length: 0\r\n\r\n"))
    client = raw_client(plain_proxy)
    answer = client.exchange(request(origin, b"Via: 1.0 outer\r\n"))
    request_hops = origin.requests()[0].options("Via")
    assert (
        request_hops[0] == b"1.0 outer"
        and request_hops[1].startswith(b"1.1 sallyport")
        and len(request_hops) == 2
    )
    answer_hops = answer.options("Via")
    assert (
        answer_hops[0] == b"1.1 inner"
        and answer_hops[1].startswith(b"1.0 sallyport")
        and len(answer_hops) == 2
    )
    assert answer.version == b"HTTP/1.1"
    raw_client(plain_proxy).exchange(request(origin, version=b"1.0"))
    assert origin.requests()[1].options("Via")[-1].startswith(b"1.0 sallyport")


def test_the_name_of_the_proxy_is_configured(sallyport, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    origin.pseudonym = b"postern"
    client = raw_client(sallyport(proxy='name = "postern"'))
    answer = client.exchange(request(origin))
    assert answer.options("Via")[-1].startswith(b"1.1 postern")
    assert origin.requests()[0].options("Via")[-1].startswith(b"1.1 postern")


def test_host_is_rewritten_when_it_differs_from_the_target(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    target = b"GET http://%s/ HTTP/1.1\r\nHost: other.example:81\r\n\r\n" % origin.authority.encode()
    assert raw_client(plain_proxy).exchange(target).status == 200
    assert origin.requests()[0].values("Host") == [origin.authority.encode()]


def test_end_to_end_fields_that_a_proxy_must_not_touch(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(
        answering(
            b'HTTP/1.1 200 OK\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nServer: o\r\nETag: W/"a"\r\nContent-Length: 0\r\n\r\n'
        )
    )
    lines = b"Accept-Encoding: zstd\r\nUser-Agent: u/1 (x)\r\nReferer: http://r/\r\nRange: bytes=0-1\r\n"
    answer = raw_client(plain_proxy).exchange(request(origin, lines))
    seen = origin.requests()[0]
    assert [seen.value(name) for name in ("Accept-Encoding", "User-Agent", "Referer", "Range")] == [
        b"zstd",
        b"u/1 (x)",
        b"http://r/",
        b"bytes=0-1",
    ]
    assert (answer.value("Server"), answer.value("ETag")) == (b"o", b'W/"a"')
    assert answer.values("Date") == [b"Tue, 15 Nov 1994 08:12:31 GMT"]
    assert answer.reason == b"OK"


def test_te_trailers_is_passed_on_and_nothing_else_of_te(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    raw_client(plain_proxy).exchange(request(origin, b"Connection: TE\r\nTE: deflate;q=0.5, trailers\r\n"))
    raw_client(plain_proxy).exchange(request(origin, b"Connection: TE\r\nTE: gzip\r\n"))
    assert [message.options("TE") for message in origin.requests()] == [[b"trailers"], []]


# Bodies


def test_trailers_are_carried_both_ways(plain_proxy, raw_origin, raw_client):
    answer = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        b"2\r\nhi\r\n0\r\nX-Sum: down\r\nX-Other: x\r\n\r\n"
    )
    origin = raw_origin(answering(answer))
    body = b"2\r\nhi\r\n0\r\nX-Sum: up\r\n\r\n"
    client = raw_client(plain_proxy)
    lines = b"TE: trailers\r\nConnection: TE\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n"
    got = client.exchange(request(origin, lines, b"POST", body=body))
    assert origin.requests()[0].trailers == [(b"X-Sum", b"up")]
    assert got.trailers == [(b"X-Sum", b"down"), (b"X-Other", b"x")]
    assert client.exchange(request(origin)).status == 200, "the connection goes on behind trailers"


LAST_OF_A_KIND = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast"
FRAMINGS = {
    "HEAD of a sized answer": (b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b""),
    "HEAD of a chunked answer": (b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b""),
    "HEAD without a length": (b"HEAD", b"HTTP/1.1 200 OK\r\n\r\n", b""),
    "204": (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    "204 that a sloppy origin gave a length of 0": (
        b"GET",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        b"",
    ),
    "304 with the length of what it spares": (
        b"GET",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        b"",
    ),
    "304 without a length": (b"GET", b"HTTP/1.1 304 Not Modified\r\n\r\n", b""),
    "205": (b"GET", b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", b""),
    "a length of 0": (b"GET", EMPTY, b""),
    "an empty chunked body": (b"GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b""),
    "a chunked body": (
        b"GET",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"hi",
    ),
    "a status that nobody knows": (b"GET", b"HTTP/1.1 299 \r\nContent-Length: 2\r\n\r\nhi", b"hi"),
    "a reason of Latin-1": (b"GET", b"HTTP/1.1 200 D\xe9j\xe0 vu\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
    "HTTP/1.0 with a length": (
        b"GET",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi",
        b"hi",
    ),
    "a 401 of the origin": (
        b"GET",
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nhi",
        b"hi",
    ),
}


@pytest.mark.parametrize("how", ["whole", "byte by byte"])
@pytest.mark.parametrize("name", FRAMINGS)
def test_the_framing_of_an_answer(name, how, plain_proxy, raw_origin, raw_client):
    """And that the next request on the same connection is answered: nothing was left over, nothing was missing."""
    method, data, body = FRAMINGS[name]

    def script(connection) -> None:
        for answer in (data, LAST_OF_A_KIND):
            connection.read_request()
            connection.send_bytewise(answer) if how == "byte by byte" else connection.send(answer)
        connection.wait_for_end()

    def next_connection(connection) -> None:
        if connection.number == 0:
            script(connection)
        else:
            answering(LAST_OF_A_KIND)(connection)

    origin = raw_origin(next_connection)
    client = raw_client(plain_proxy)
    answer = client.exchange(request(origin, method=method))
    assert answer.status == int(data[9:12]) and answer.body == body
    assert client.exchange(request(origin)).body == b"last"


def test_head_keeps_the_length_that_get_would_have(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"))
    assert (
        raw_client(plain_proxy).exchange(request(origin, method=b"HEAD")).value("Content-Length") == b"12345"
    )


def until_close(body: bytes, version: bytes = b"1.1"):
    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/%s 200 OK\r\nContent-Type: text/plain\r\n\r\n" % version + body)
        connection.close()

    return script


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("body", [pytest.param(b"", id="empty"), pytest.param(LARGE[:100_000], id="100 kB")])
def test_a_body_until_the_close_is_carried_whole(body, version, plain_proxy, raw_origin, raw_client):
    origin = raw_origin(until_close(body, version))
    client = raw_client(plain_proxy)
    answer = client.exchange(request(origin))
    assert answer.body == body
    if answer.framing != "close":  # re-framed as chunked: the client's connection goes on
        assert client.exchange(request(origin)).body == body


def test_an_origin_that_resets_within_a_body_until_the_close_never_looks_whole(
    plain_proxy, raw_origin, raw_client
):
    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1000)
        connection.reset()

    client = raw_client(plain_proxy)
    client.send(request(raw_origin(script)))
    ended = client.wait_for_end()
    stream = client.check()
    if stream.messages and stream.messages[0].status == 502:
        check_problem(stream.messages[0], 502)
    elif stream.messages:
        assert (
            stream.messages[0].framing == "close" and ended == "reset"
        ), "a broken body looked like a whole one"


@pytest.mark.parametrize("body", [b"", b"hello", LARGE[:200_000]], ids=["empty", "short", "200 kB"])
def test_a_client_of_http_1_0_gets_no_chunked_coding(body, plain_proxy, raw_origin, raw_client):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]) if part)
    origin = raw_origin(
        answering(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
            + chunks
            + b"0\r\nX: y\r\n\r\n"
        )
    )
    client = raw_client(plain_proxy)
    answer = client.exchange(request(origin, b"Connection: keep-alive\r\n", version=b"1.0"))
    assert answer.body == body and not answer.values("Transfer-Encoding")
    if answer.framing == "close":
        assert client.wait_for_end() == "closed"


def test_http_1_0_with_a_sized_body(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(echoing)
    lines = b"Content-Length: 5\r\n"
    assert (
        raw_client(plain_proxy).exchange(request(origin, lines, b"POST", version=b"1.0", body=b"hello")).body
        == b"hello"
    )


def chunks_of(data: bytes, size: int) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n" % len(part) + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


LARGE_BODIES = {
    "sized": (b"Content-Length: %d\r\n" % len(LARGE), LARGE),
    "in chunks of 8 KiB": (b"Transfer-Encoding: chunked\r\n", chunks_of(LARGE, 8192)),
    "in one chunk": (b"Transfer-Encoding: chunked\r\n", chunks_of(LARGE, len(LARGE))),
    "in chunks of odd sizes": (b"Transfer-Encoding: chunked\r\n", chunks_of(LARGE, 65521)),
}


@pytest.mark.parametrize("name", LARGE_BODIES)
def test_ten_mebibytes_each_way(name, plain_proxy, raw_origin, raw_client):
    lines, body = LARGE_BODIES[name]

    def script(connection) -> None:
        assert connection.read_request().body == LARGE
        connection.send(b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n" + body)
        assert connection.read_request().target == b"/after"
        connection.send(OK)
        connection.wait_for_end()

    origin = raw_origin(script)
    client = raw_client(plain_proxy)
    answer = client.exchange(request(origin, lines, b"POST", body=body))
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(LARGE).digest()
    assert client.exchange(request(origin, path=b"/after")).body == b"ok"
    line = plain_proxy.access(lambda line: line["upstream"] == origin.authority and line["method"] == "POST")
    assert line["bytes_in"] >= len(LARGE) and line["bytes_out"] >= len(LARGE)


def test_ten_mebibytes_until_the_close(plain_proxy, raw_origin, raw_client):
    client = raw_client(plain_proxy)
    answer = client.exchange(request(raw_origin(until_close(LARGE)), version=b"1.0"))
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(LARGE).digest()


QUIET_SECONDS = 0.5  # a sender that could send nothing for so long is held back


def kernel_buffer_bytes() -> int:
    """What the buffers of the four sockets on the way may take by themselves, and 4 MiB for the proxy. The kernel counts
    what its packets occupy, which may be less than what is in them: 2.5 times the limits were seen."""
    limits = [Path(f"/proc/sys/net/ipv4/tcp_{kind}mem").read_text().split()[2] for kind in "rw"]
    return 3 * sum(map(int, limits)) + 4 * 1024 * 1024


def test_a_client_that_does_not_read_holds_back_the_origin(sallyport, raw_origin, raw_client):
    """Back-pressure: the origin cannot send all of it, the proxy does not hold it, and then it arrives."""
    proxy = sallyport(proxy=ONE_WORKER)
    length = 2 * kernel_buffer_bytes()
    block = LARGE * (length // len(LARGE) + 1)
    resumed = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
        taken = connection.send_until_stuck(block[:length], QUIET_SECONDS)
        origin.note("stuck", taken)
        resumed.wait(DEADLINE_SECONDS)
        connection.send(block[taken:length])
        connection.wait_for_end()

    origin = raw_origin(script)
    client = raw_client(proxy, receive_buffer=65536)
    client.send(request(origin))
    _, taken = origin.wait_for("stuck")
    assert taken < kernel_buffer_bytes(), f"the proxy took {taken} bytes that nobody read"
    assert proxy.private_bytes() < 32 * 1024 * 1024
    resumed.set()
    assert hashlib.sha256(client.answer().body).digest() == hashlib.sha256(block[:length]).digest()


def test_an_origin_that_does_not_read_holds_back_the_client(sallyport, raw_origin, raw_client):
    proxy = sallyport(proxy=ONE_WORKER)
    length = 2 * kernel_buffer_bytes()
    block = LARGE * (length // len(LARGE) + 1)
    released = threading.Event()

    def script(connection) -> None:
        connection.read_head()
        released.wait(DEADLINE_SECONDS)
        digest = hashlib.sha256(connection.read_body().body).hexdigest().encode()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + digest)
        connection.wait_for_end()

    origin = raw_origin(script)
    client = raw_client(proxy)
    client.send(request(origin, b"Content-Length: %d\r\n" % length, b"PUT"))
    taken = send_until_stuck(client, block[:length])
    assert taken < kernel_buffer_bytes(), f"the proxy took {taken} bytes that nobody read"
    released.set()
    client.send(block[taken:length])
    assert client.answer().body == hashlib.sha256(block[:length]).hexdigest().encode()


def send_until_stuck(client: RawClient, data: bytes) -> int:
    """Send until the proxy has taken nothing for a while; how many bytes the kernel took."""
    client.socket.settimeout(QUIET_SECONDS)
    taken = 0
    try:
        while taken < len(data):
            taken += client.socket.send(data[taken : taken + 262144])
    except TimeoutError:
        pass
    client.socket.settimeout(DEADLINE_SECONDS)
    client.sent += data[:taken]
    return taken


@pytest.mark.parametrize("side", ["client", "origin"])
def test_a_side_of_a_tunnel_that_does_not_read_holds_back_the_other(side, sallyport, raw_origin, raw_client):
    proxy = sallyport(proxy=ONE_WORKER)
    length = 2 * kernel_buffer_bytes()
    block = LARGE * (length // len(LARGE) + 1)
    resumed = threading.Event()

    def script(connection) -> None:
        connection.switch_protocol()
        if side == "client":
            taken = connection.send_until_stuck(block[:length], QUIET_SECONDS)
            origin.note("stuck", taken)
            resumed.wait(DEADLINE_SECONDS)
            connection.send(block[taken:length])
            connection.close()
        else:
            resumed.wait(DEADLINE_SECONDS)
            connection.wait_for_end()
            origin.note("got", hashlib.sha256(connection.received).digest())

    origin = raw_origin(script)
    client = raw_client(proxy)
    client.exchange(connect(origin))
    taken = origin.wait_for("stuck")[1] if side == "client" else send_until_stuck(client, block[:length])
    assert taken < kernel_buffer_bytes(), f"the proxy took {taken} bytes that nobody read"
    assert proxy.private_bytes() < 32 * 1024 * 1024
    resumed.set()
    if side == "client":
        got = hashlib.sha256(client.receive_exactly(length)).digest()
    else:
        client.send(block[taken:length])
        client.half_close()
        got = origin.wait_for("got")[1]
    assert got == hashlib.sha256(block[:length]).digest()


def test_a_client_that_pipelines_and_never_reads_is_held_back(sallyport, raw_origin, raw_client):
    """Answers that nobody takes must stop the proxy from reading requests, not gather in it."""
    proxy, origin = sallyport(proxy=ONE_WORKER), raw_origin(
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + bytes(60000))
    )
    client = raw_client(proxy, receive_buffer=4096)
    client.looked_at = False
    taken = send_until_stuck(client, request(origin) * (2 * kernel_buffer_bytes() // len(request(origin))))
    assert taken < kernel_buffer_bytes()
    assert proxy.private_bytes() < 32 * 1024 * 1024


def test_a_slow_reader_gets_everything(plain_proxy, raw_origin, raw_client):
    """A client with the smallest receive buffer that takes a kilobyte at a time."""
    origin = raw_origin(
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 1_000_000 + LARGE[:1_000_000])
    )
    client = raw_client(plain_proxy, receive_buffer=2048)
    client.send(request(origin, b"Connection: close\r\n"))
    while data := client.socket.recv(1024):
        client.received += data
    client.ended = "closed"
    assert client.answer().body == LARGE[:1_000_000]


# Interim answers


def test_expect_100_continue_is_relayed_and_the_body_follows(plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        head = connection.read_head()
        assert head.value("Expect").lower() == b"100-continue"
        assert connection.received[head.end :] == b"", "the body came before anyone had agreed"
        connection.send(b"HTTP/1.1 100 Continue\r\nX-Said: go\r\n\r\n")
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + connection.read_body().body)
        connection.wait_for_end()

    client = raw_client(plain_proxy)
    client.send(request(raw_origin(script), b"Expect: 100-continue\r\nContent-Length: 5\r\n", b"POST"))
    assert client.message().status == 100
    client.send(b"hello")
    assert client.message().body == b"hello"


def test_expect_100_continue_that_the_origin_refuses(plain_proxy, raw_origin, raw_client):
    """The final answer comes at once; the body was never sent, so the connection cannot be kept by guessing."""

    def script(connection) -> None:
        connection.read_head()
        connection.send(b"HTTP/1.1 417 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        connection.wait_for_end()

    client = raw_client(plain_proxy)
    client.send(request(raw_origin(script), b"Expect: 100-continue\r\nContent-Length: 5\r\n", b"POST"))
    answer = client.message()
    assert (answer.status, answer.body) == (417, b"no")


def test_expect_100_continue_when_the_client_does_not_wait(plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)
        connection.wait_for_end()

    client = raw_client(plain_proxy)
    lines = b"Expect: 100-continue\r\nContent-Length: 5\r\n"
    assert client.exchange(request(raw_origin(script), lines, b"POST", body=b"hello")).body == b"ok"


def test_every_interim_answer_is_relayed_in_order(plain_proxy, raw_origin, raw_client):
    interim = (
        b"HTTP/1.1 102 Processing\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n"
        b"HTTP/1.1 103 Early Hints\r\nLink: </b.js>; rel=preload\r\n\r\n"
        b"HTTP/1.1 199 Odd\r\n\r\n"
    )
    client = raw_client(plain_proxy)
    client.send(request(raw_origin(answering(interim + OK))))
    got = [client.message() for _ in range(5)]
    assert [message.status for message in got] == [102, 103, 103, 199, 200]
    assert [message.value("Link") for message in got[1:3]] == [
        b"</a.css>; rel=preload",
        b"</b.js>; rel=preload",
    ]


def test_early_hints_come_before_the_answer_does(plain_proxy, raw_origin, raw_client):
    """Relayed at once, not held until the final answer."""
    seen = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        assert seen.wait(DEADLINE_SECONDS)
        connection.send(OK)
        connection.wait_for_end()

    client = raw_client(plain_proxy)
    client.send(request(raw_origin(script)))
    assert client.message().status == 103
    seen.set()
    assert client.message().status == 200


def test_a_client_of_http_1_0_gets_no_interim_answer(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(
        answering(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK)
    )
    client = raw_client(plain_proxy)
    client.send(request(origin, version=b"1.0"))
    assert client.message().status == 200


# Timing of both directions


def test_an_answer_that_comes_before_the_body_has_ended(plain_proxy, raw_origin, raw_client):
    """The origin refuses an upload half-way: the client must hear it, and the next client must be served."""

    def script(connection) -> None:
        connection.read_head()
        connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nless")
        connection.wait_for_end()

    origin = raw_origin(script)
    client = raw_client(plain_proxy)
    client.send(request(origin, b"Content-Length: 100000000\r\n", b"PUT", body=LARGE[:100_000]))
    answer = client.answer()
    assert (answer.status, answer.body) == (413, b"less")
    assert client.wait_for_end() == "closed", "a body that nobody reads cannot be followed by a request"


def test_an_answer_that_streams_while_the_body_does(plain_proxy, raw_origin, raw_client):
    """Both directions at once, one byte of each in turn."""

    def script(connection) -> None:
        connection.read_head()
        connection.read_to = connection.requests[0].end
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            line = connection.read_exactly(6)
            assert line[:3] == b"1\r\n"
            connection.send(line)
        assert connection.read_exactly(5) == b"0\r\n\r\n"
        connection.send(b"0\r\n\r\n")
        connection.wait_for_end()

    client = raw_client(plain_proxy)
    client.send(request(raw_origin(script), b"Transfer-Encoding: chunked\r\n", b"POST"))
    head = client.receive_until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    for number in range(20):
        client.send(b"1\r\n%c\r\n" % (65 + number))
        assert client.receive_exactly(6) == b"1\r\n%c\r\n" % (65 + number)
    client.send(b"0\r\n\r\n")
    assert client.receive_exactly(5) == b"0\r\n\r\n"


@pytest.mark.parametrize("how", ["closes", "resets"])
@pytest.mark.parametrize("when", ["before the answer", "within the answer", "within the request"])
def test_a_client_that_leaves_cancels_the_upstream(when, how, plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_head()
        if when == "within the answer":
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello")
        origin.note("reached")
        connection.wait_for_end()
        origin.note("cancelled")

    origin = raw_origin(script)
    client = raw_client(plain_proxy)
    lines = b"Content-Length: 1000\r\n" if when == "within the request" else b""
    client.send(request(origin, lines, b"POST" if lines else b"GET", body=b"hello" if lines else b""))
    origin.wait_for("reached")
    if when == "within the answer":
        client.receive_until(b"hello")
    client.close() if how == "closes" else client.reset()
    origin.wait_for("cancelled")
    line = plain_proxy.access(lambda line: line["upstream"] == origin.authority)
    assert line["outcome"] != "done", "an exchange that was given up is no success"


# Tunnels


def test_a_tunnel_carries_bytes_both_ways(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(tunnel_echo)
    client = raw_client(plain_proxy)
    answer = client.exchange(connect(origin))
    assert (
        answer.status == 200
        and not answer.values("Content-Length")
        and not answer.values("Transfer-Encoding")
    )
    client.send(bytes(range(256)) * 1000)
    assert client.receive_exactly(256_000) == bytes(range(256)) * 1000
    client.half_close()
    assert client.wait_for_end() == "closed"
    line = plain_proxy.access(lambda line: line["target"] == origin.authority)
    # The heads of the CONNECT and of its answer count too: bytes are those of the client's connection.
    assert (line["method"], line["status"]) == ("CONNECT", 200)
    assert 256_000 < line["bytes_in"] < 256_200 and 256_000 < line["bytes_out"] < 256_200


CONNECTS = {
    "HTTP/1.0 without Host, as Python's http.client": b"CONNECT ORIGIN HTTP/1.0\r\n\r\n",
    "HTTP/1.0 with Host": b"CONNECT ORIGIN HTTP/1.0\r\nHost: ORIGIN\r\n\r\n",
    "Host without the port": b"CONNECT ORIGIN HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "fields of all kinds": b"CONNECT ORIGIN HTTP/1.1\r\nHost: ORIGIN\r\nUser-Agent: x\r\nProxy-Connection: keep-alive\r\n\r\n",
    "Connection: close": b"CONNECT ORIGIN HTTP/1.1\r\nHost: ORIGIN\r\nConnection: close\r\n\r\n",
}


@pytest.mark.parametrize("how", ["whole", "byte by byte", "with the bytes that follow"])
@pytest.mark.parametrize("name", CONNECTS)
def test_a_connect_opens_a_tunnel(name, how, plain_proxy, raw_origin, raw_client):
    origin = raw_origin(tunnel_echo)
    client = raw_client(plain_proxy)
    data = CONNECTS[name].replace(b"ORIGIN", origin.authority.encode())
    if how == "byte by byte":
        client.send_bytewise(data)
    else:
        client.send(data + (b"early" if how == "with the bytes that follow" else b""))
    assert client.message().status == 200
    client.send(b" and late")
    expected = b"early and late" if how == "with the bytes that follow" else b" and late"
    assert client.receive_exactly(len(expected)) == expected


def test_megabytes_right_behind_a_connect(plain_proxy, raw_origin, raw_client):
    """A client that does not wait for the 200 and sends more than any one buffer."""
    origin = raw_origin(tunnel_echo)
    client = raw_client(plain_proxy)
    sender = threading.Thread(target=client.send, args=(connect(origin) + LARGE[: 3 << 20],), daemon=True)
    sender.start()
    assert client.message().status == 200
    assert client.receive_exactly(3 << 20) == LARGE[: 3 << 20]
    sender.join(DEADLINE_SECONDS)


def test_a_tunnel_half_closed_by_the_client_still_carries_the_answer(plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        assert connection.wait_for_end() == "closed"
        connection.send(b"you said " + bytes(connection.received))
        connection.close()

    client = raw_client(plain_proxy)
    client.exchange(connect(raw_origin(script)))
    client.send(b"all there is")
    client.half_close()
    assert client.receive_exactly(21) == b"you said all there is"
    assert client.wait_for_end() == "closed"


def test_a_tunnel_half_closed_by_the_origin_still_carries_the_question(plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        connection.send(b"my last word")
        connection.half_close()
        assert connection.wait_for_end() == "closed"
        origin.note("heard", bytes(connection.received))

    origin = raw_origin(script)
    client = raw_client(plain_proxy)
    client.exchange(connect(origin))
    assert client.receive_exactly(12) == b"my last word"
    assert client.wait_for_end() == "closed"
    client.send(LARGE[: 1 << 20])
    client.half_close()
    assert origin.wait_for("heard")[1] == LARGE[: 1 << 20]


def test_a_tunnel_that_the_client_resets_is_ended_at_the_origin(plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        connection.read_exactly(5)
        origin.note("reached")
        origin.note("ended", connection.wait_for_end())

    origin = raw_origin(script)
    client = raw_client(plain_proxy)
    client.exchange(connect(origin))
    client.send(b"hello")
    origin.wait_for("reached")
    client.reset()
    origin.wait_for("ended")


def test_ten_mebibytes_through_a_tunnel_both_ways_at_once(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(tunnel_echo)
    client = raw_client(plain_proxy)
    client.exchange(connect(origin))
    sender = threading.Thread(target=lambda: (client.send(LARGE), client.half_close()), daemon=True)
    sender.start()
    assert hashlib.sha256(client.receive_exactly(len(LARGE))).digest() == hashlib.sha256(LARGE).digest()
    assert client.wait_for_end() == "closed"
    sender.join(DEADLINE_SECONDS)


@pytest.mark.parametrize("status", [502, 403])
def test_bytes_behind_a_connect_that_failed_are_no_tunnel(status, sallyport, raw_origin, raw_client):
    """A client that did not wait sends its ClientHello: it is told of both, and the connection ends."""
    proxy = sallyport(proxy='default = "deny"' if status == 403 else "")
    port = unused_port()
    client = raw_client(proxy)
    client.send(
        b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: x\r\n\r\n" % port + bytes.fromhex("16030100f7010000f30303")
    )
    check_problem(client.answer(), status)
    assert client.wait_for_end() == "closed"


def test_a_tunnel_to_nobody_is_a_problem_and_the_connection_goes_on(plain_proxy, raw_origin, raw_client):
    port = unused_port()
    client = raw_client(plain_proxy)
    answer = client.exchange(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: x\r\n\r\n" % port)
    problem = check_problem(answer, 502, error="connection_refused")
    assert plain_proxy.access_of(problem.reference)["status"] == 502


def test_an_origin_that_refuses_is_a_problem_and_the_connection_goes_on(plain_proxy, raw_origin, raw_client):
    port = unused_port()
    client = raw_client(plain_proxy)
    answer = client.exchange(b"GET http://127.0.0.1:%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % port)
    check_problem(answer, 502, error="connection_refused")
    if b"close" not in answer.options("Connection"):
        assert client.exchange(request(raw_origin(answering(OK)))).body == b"ok"


def test_an_https_target_never_leaves_in_the_clear(plain_proxy, raw_origin, raw_client):
    """`GET https://…` asks the proxy to speak TLS. A build that cannot must say so, not fall back to http."""

    def script(connection) -> None:
        connection.switch_protocol()
        connection.receive_some()

    origin = raw_origin(script)
    client = raw_client(plain_proxy)
    authority = origin.authority.encode()
    answer = client.exchange(b"GET https://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (authority, authority))
    assert answer.status >= 400
    check_problem(answer, answer.status)
    assert not any(b"HTTP/1.1" in connection.received for connection in origin.connections)


# Upgrade


def test_an_upgrade_becomes_a_tunnel(plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        request = connection.read_request()
        assert (request.options("Connection"), request.options("Upgrade")) == ([b"upgrade"], [b"websocket"])
        connection.switch_protocol()
        connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi "
        )
        while connection.receive_some():
            connection.send(bytes(connection.received[connection.read_to :]))
            connection.read_to = len(connection.received)

    client = raw_client(plain_proxy)
    client.send(request(raw_origin(script), b"Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    answer = client.message()
    assert (answer.status, answer.options("Upgrade"), answer.options("Connection")) == (
        101,
        [b"websocket"],
        [b"upgrade"],
    )
    client.send(b"\x00\xff")
    assert client.receive_exactly(5) == b"hi \x00\xff"
    client.half_close()
    assert client.wait_for_end() == "closed"


def test_an_upgrade_that_the_origin_ignores_is_a_plain_answer(plain_proxy, raw_origin, raw_client):
    client = raw_client(plain_proxy)
    origin = raw_origin(answering(OK))
    assert client.exchange(request(origin, b"Connection: Upgrade\r\nUpgrade: websocket\r\n")).body == b"ok"
    assert client.exchange(request(origin)).body == b"ok"


def test_bytes_behind_an_upgrade_are_requests_when_the_origin_declines(sallyport, raw_origin, raw_client):
    """Whoever asks for an Upgrade and sends on must not get past the rules when the origin stays with HTTP."""
    proxy = sallyport(proxy=ONE_WORKER, policy='[[rule]]\nname = "r"\npaths = ["/denied"]\naction = "deny"\n')
    origin = raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(
        request(origin, b"Connection: Upgrade\r\nUpgrade: websocket\r\n")
        + request(origin, path=b"/denied")
        + request(origin)
    )
    assert client.answer().body == b"ok"
    check_problem(client.answer(), 403, rule="r")
    assert client.answer().body == b"ok"
    assert [message.target for message in origin.requests()] == [b"/", b"/"]


def test_bytes_behind_an_upgrade_wait_for_the_101(plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        assert (
            bytes(connection.received[connection.read_to :]) == b""
        ), "frames came before the origin had agreed"
        connection.switch_protocol()
        connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        connection.send(connection.read_exactly(5))
        connection.wait_for_end()

    client = raw_client(plain_proxy)
    client.send(request(raw_origin(script), b"Connection: Upgrade\r\nUpgrade: websocket\r\n") + b"early")
    assert client.message().status == 101
    assert client.receive_exactly(5) == b"early"


def test_an_upgrade_field_that_connection_does_not_name_is_not_passed_on(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    raw_client(plain_proxy).exchange(request(origin, b"Upgrade: websocket\r\n"))
    assert not origin.requests()[0].values("Upgrade")


def test_an_upgrade_to_h2c_is_not_passed_on(plain_proxy, raw_origin, raw_client):
    """What a proxy cannot read afterwards would carry requests past its rules (h2c smuggling)."""
    origin = raw_origin(answering(OK))
    lines = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    assert raw_client(plain_proxy).exchange(request(origin, lines)).body == b"ok"
    assert not origin.requests()[0].values("Upgrade") and not origin.requests()[0].values("HTTP2-Settings")


# TRACE, OPTIONS and Max-Forwards


def test_options_of_the_whole_server(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    client = raw_client(plain_proxy)
    authority = origin.authority.encode()
    client.exchange(b"OPTIONS http://%s HTTP/1.1\r\nHost: %s\r\n\r\n" % (authority, authority))
    client.exchange(b"OPTIONS http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (authority, authority))
    assert [message.target for message in origin.requests()] == [b"*", b"/"]


def test_options_of_the_proxy_itself_is_answered_by_it(plain_proxy, raw_client):
    answer = raw_client(plain_proxy).exchange(
        b"OPTIONS * HTTP/1.1\r\nHost: %s\r\n\r\n" % plain_proxy.authority.encode()
    )
    assert answer.status in (200, 204)


@pytest.mark.parametrize("method", [b"TRACE", b"OPTIONS"])
def test_max_forwards_of_0_is_answered_by_the_proxy(method, plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    secrets = b"Cookie: c=kept-back\r\nAuthorization: Basic a2VwdC1iYWNr\r\nProxy-Authorization: Basic a2VwdC1iYWNr\r\n"
    answer = raw_client(plain_proxy).exchange(
        request(origin, b"Max-Forwards: 0\r\nX-Mark: m\r\n" + secrets, method)
    )
    assert answer.status in (200, 204) and not origin.connections
    if method == b"TRACE":
        assert answer.value("Content-Type") == b"message/http"
        assert answer.body.startswith(b"TRACE http://") and b"X-Mark: m" in answer.body
        assert b"kept-back" not in answer.body and b"a2VwdC1iYWNr" not in answer.body, "RFC 9110 §9.3.8"


@pytest.mark.parametrize("method", [b"TRACE", b"OPTIONS"])
def test_max_forwards_is_counted_down(method, plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    raw_client(plain_proxy).exchange(request(origin, b"Max-Forwards: 5\r\n", method))
    assert origin.requests()[0].values("Max-Forwards") == [b"4"]


# The loop guard


OWN_HOSTS = {
    "its address": "127.0.0.1",
    "a name of its address": "localhost",
    "a name in capitals": "LOCALHOST",
    "its address mapped to IPv6": "[::ffff:127.0.0.1]",
}


@pytest.mark.parametrize("name", OWN_HOSTS)
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_target_that_is_the_proxy_itself_is_a_loop(method, name, plain_proxy, raw_client):
    authority = f"{OWN_HOSTS[name]}:{plain_proxy.address[1]}"
    target = authority if method == "CONNECT" else f"http://{authority}/"
    answer = raw_client(plain_proxy).exchange(
        f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
    )
    check_problem(answer, 502, error="proxy_loop_detected")


def test_a_target_that_is_another_of_its_listeners_is_a_loop(sallyport, raw_client):
    proxy = sallyport(listen='["127.0.0.1:0", "[::1]:0"]')
    assert len(proxy.addresses) == 2
    authority = f"[::1]:{proxy.addresses[1][1]}"
    answer = raw_client(proxy).exchange(
        f"GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
    )
    check_problem(answer, 502, error="proxy_loop_detected")


def test_a_request_that_comes_back_is_a_loop_and_one_of_a_namesake_is_none(sallyport, raw_origin, raw_client):
    """Two proxies of one name in a row are no loop; the same request at the first one again is."""
    first, second = sallyport(), sallyport()
    origin = raw_origin(answering(OK))
    assert raw_client(first).exchange(request(origin)).status == 200
    via = b"Via: " + b", ".join(origin.requests()[0].values("Via")) + b"\r\n"
    assert raw_client(second).exchange(request(origin, via)).status == 200
    check_problem(raw_client(first).exchange(request(origin, via)), 502, error="proxy_loop_detected")


def test_a_loop_whose_via_lost_its_comments_ends(plain_proxy, raw_origin, raw_client):
    """RFC 9110, 7.6.3 lets intermediaries strip them: eight of one name are a chain, nine are a loop."""
    origin = raw_origin(answering(OK))
    names = b"Via: " + b", ".join([b"1.1 sallyport"] * 8)
    assert raw_client(plain_proxy).exchange(request(origin, names + b"\r\n")).status == 200
    ninth = names + b", 1.1 sallyport (x)\r\n"
    check_problem(raw_client(plain_proxy).exchange(request(origin, ninth)), 502, error="proxy_loop_detected")


def test_a_pseudonym_of_others_is_no_loop(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    lines = b"Via: 1.1 other, 1.0 sallyport-2 (x), 1.1 squid.example:3128 (squid)\r\n"
    assert raw_client(plain_proxy).exchange(request(origin, lines)).status == 200


# Credentials


def basic(user_and_password: bytes) -> bytes:
    return b"Proxy-Authorization: Basic " + base64.b64encode(user_and_password) + b"\r\n"


@pytest.fixture
def guarded_proxy(sallyport, tmp_path):
    """A proxy that asks for credentials; the passwords may not appear in its log."""
    secret = tmp_path / "credentials"
    secret.write_text("ada:open-sesame\nbob:pass:with:colons\n")
    secret.chmod(0o600)
    proxy = sallyport(proxy=f'credentials = {{ file = "{secret}" }}')
    guesses = ["open-sesame", "pass:with:colons", "wrong-guess"]
    proxy.secrets += guesses + [base64.b64encode(b"ada:" + guess.encode()).decode() for guess in guesses]
    return proxy


RIGHT = {
    "the first line of the file": basic(b"ada:open-sesame"),
    "a password with colons": basic(b"bob:pass:with:colons"),
    "the scheme in small letters": basic(b"ada:open-sesame").replace(b"Basic", b"basic"),
}
WRONG = {
    "nothing": b"",
    "another password": basic(b"ada:wrong-guess"),
    "another user": basic(b"eve:open-sesame"),
    "the password of another user": basic(b"ada:pass:with:colons"),
    "an empty password": basic(b"ada:"),
    "no colon": basic(b"ada"),
    "a prefix of the password": basic(b"ada:open"),
    "another scheme": b"Proxy-Authorization: Bearer open-sesame\r\n",
    "what is no Base64": b"Proxy-Authorization: Basic !!!\r\n",
    "an empty value": b"Proxy-Authorization:\r\n",
    "Authorization instead": basic(b"ada:open-sesame").replace(b"Proxy-", b""),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_credentials_are_let_in_and_not_passed_on(name, guarded_proxy, raw_origin, raw_client):
    origin, tunnel = raw_origin(answering(OK)), raw_origin(tunnel_echo)
    assert raw_client(guarded_proxy).exchange(request(origin, RIGHT[name])).status == 200
    assert not origin.requests()[0].values("Proxy-Authorization")
    assert raw_client(guarded_proxy).exchange(connect(tunnel, RIGHT[name])).status == 200


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_credentials_get_407(name, method, guarded_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    data = request(origin, WRONG[name]) if method == "GET" else connect(origin, WRONG[name])
    client = raw_client(guarded_proxy)
    answer = client.exchange(data)
    problem = check_problem(answer, 407)
    assert re.match(rb"(?i)basic +realm=", answer.value("Proxy-Authenticate"))
    assert not origin.connections
    assert guarded_proxy.access_of(problem.reference)["status"] == 407
    if b"close" not in answer.options("Connection"):  # browsers try again on the same connection
        assert client.exchange(request(origin, RIGHT["the first line of the file"])).status == 200


def test_a_body_behind_a_407_is_not_taken_for_a_request(guarded_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    inner = request(origin, RIGHT["the first line of the file"], path=b"/inner")
    client = raw_client(guarded_proxy)
    client.send(request(origin, b"Content-Length: %d\r\n" % len(inner), b"POST", body=inner))
    check_problem(client.answer(), 407)
    client.half_close()
    client.wait_for_end()
    assert not origin.connections and client.unread() == b""


# Addresses that are never connected to


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"]
)
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_deny_addresses_refuses_an_address_under_every_name(method, host, sallyport, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    proxy = sallyport(proxy='deny_addresses = ["loopback"]')
    authority = f"{host}:{origin.port}"
    target = authority if method == "CONNECT" else f"http://{authority}/"
    answer = raw_client(proxy).exchange(f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    check_problem(answer, 403, error="destination_ip_prohibited")
    assert not origin.connections


DENIED_BY_DEFAULT = {
    "link-local": "169.254.169.254",
    "link-local, mapped": "[::ffff:169.254.169.254]",
    "link-local, mapped, in hexadecimal": "[::ffff:a9fe:a9fe]",
    "link-local behind NAT64": "[64:ff9b::a9fe:a9fe]",
    "link-local in 6to4": "[2002:a9fe:a9fe::1]",
    "link-local of IPv6": "[fe80::1]",
    "multicast": "224.0.0.1",
    "multicast of IPv6": "[ff02::1]",
    "unspecified": "0.0.0.0",
    "unspecified of IPv6": "[::]",
}


@pytest.mark.own_network
@pytest.mark.parametrize("name", DENIED_BY_DEFAULT)
def test_some_addresses_are_denied_by_default(name, plain_proxy, raw_client):
    host = DENIED_BY_DEFAULT[name]
    answer = raw_client(plain_proxy).exchange(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    check_problem(answer, 403, error="destination_ip_prohibited")


@pytest.mark.own_network
def test_a_block_of_deny_addresses_denies_its_addresses_only(sallyport, raw_origin, raw_client):
    proxy = sallyport(proxy='deny_addresses = ["127.0.0.128/25", "::1/128"]')
    inside, outside = raw_origin(answering(OK), "127.0.0.200"), raw_origin(answering(OK), "127.0.0.100")
    assert raw_client(proxy).exchange(request(outside)).status == 200
    check_problem(raw_client(proxy).exchange(request(inside)), 403, error="destination_ip_prohibited")


NUMBER_LIKE = [
    "0x7f.1",
    "2130706433",
    "0x7f000001",
    "127.1",
    "127.0.1",
    "0177.0.0.1",
    "127.0.0.01",
    "1",
    "127.0.0.1.1",
    "256.1.1.1",
]


@pytest.mark.parametrize("host", NUMBER_LIKE)
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_number_like_hosts_are_refused(method, host, plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    authority = f"{host}:{origin.port}"
    target = authority if method == "CONNECT" else f"http://{authority}/"
    answer = raw_client(plain_proxy).exchange(
        f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
    )
    assert answer.status in (400, 403)
    check_problem(answer, answer.status)
    assert not origin.connections


# Ends


def test_a_client_may_come_over_ipv6(sallyport, raw_origin, raw_client):
    proxy = sallyport(listen='["[::1]:0"]')
    origin = raw_origin(answering(OK), "::1")
    assert raw_client(proxy).exchange(request(origin)).body == b"ok"
    assert origin.requests()[0].value("Host") == origin.authority.encode()


def test_forty_clients_at_once_do_not_mix_answers(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(echoing)
    clients = [raw_client(plain_proxy) for _ in range(40)]
    for round_number in range(5):
        bodies = [b"%d of %d" % (round_number, index) * (index + 1) for index in range(40)]
        for client, body in zip(clients, bodies):
            client.send(request(origin, b"Content-Length: %d\r\n" % len(body), b"POST", body=body))
        assert [client.answer().body for client in clients] == bodies


def test_a_client_that_sends_nothing_is_no_request(plain_proxy, raw_client):
    """No answer, no access line: there was nothing to answer."""
    before = len(plain_proxy.access_lines())
    client = raw_client(plain_proxy)
    client.half_close()
    assert client.wait_for_end() == "closed"
    assert not client.received
    assert len(plain_proxy.access_lines()) == before
