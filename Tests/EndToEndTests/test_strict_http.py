"""Tests of the checker itself: what it must let pass, what it must refuse, and that a prefix is never a violation."""

import pytest

import strict_http
from strict_http import Violation, check_requests, check_responses

GET = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n"
CONNECT = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a.example\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"

VALID_REQUESTS = {
    "a GET": GET,
    "two requests, one behind the other": GET + GET,
    "an absolute target": b"GET http://a.example:80/x?y=[1] HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "an IPv6 host": b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n",
    "an empty Host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "HTTP/1.0 without Host": b"GET / HTTP/1.0\r\n\r\n",
    "OPTIONS of the whole server": b"OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "a CONNECT": CONNECT,
    "a method that nobody knows": b"M-SEARCH!# / HTTP/1.1\r\nHost: a\r\n\r\n",
    "tabs around a value": b"GET / HTTP/1.1\r\nHost:\ta\t \r\n\r\n",
    "obs-text in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: \xe9\r\n\r\n",
    "a sized body": POST + b"Content-Length: 5\r\n\r\nhello" + GET,
    "an empty sized body": POST + b"Content-Length: 0\r\n\r\n" + GET,
    "a chunked body": CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + GET,
    "chunk extensions": CHUNKED + b'5;a;b=c;d="e \\" f"\r\nhello\r\n000\r\n\r\n',
    "trailers": CHUNKED + b"0\r\nX-Sum: 1\r\nX-B:\r\n\r\n" + GET,
    "Chunked in other letters": POST + b"transfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
    "a sized body that is cut short": POST + b"Content-Length: 5\r\n\r\nhel",
}

INVALID_REQUESTS = {
    "bare LF behind the request line": b"GET / HTTP/1.1\nHost: a\r\n\r\n",
    "bare LF behind a field": b"GET / HTTP/1.1\r\nHost: a\n\r\n",
    "bare CR in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
    "CR CR LF": b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n",
    "an empty line before it": b"\r\n" + GET,
    "HTTP/0.9": b"GET /\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "a version in small letters": b"GET / http/1.1\r\nHost: a\r\n\r\n",
    "no target form": b"GET x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /#x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target with a byte above 0x7e": b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
    "userinfo in an absolute target": b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET *": b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT without a port": b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method with a bracket": b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "a Host with a space": b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    "a line without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    "DEL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n",
    "Content-Length with a sign": POST + b"Content-Length: +5\r\n\r\nhello",
    "Content-Length as a list": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "Content-Length twice": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "Content-Length that overflows": POST + b"Content-Length: 18446744073709551621\r\n\r\nhello",
    "Content-Length with Transfer-Encoding": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another transfer coding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding twice": POST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk size with a space": CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
    "a chunk size with 0x": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "an empty chunk size": CHUNKED + b"\r\nhello\r\n0\r\n\r\n",
    "a chunk size that overflows": CHUNKED + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a chunk that is longer than it said": CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n",
    "bare LF behind a chunk": CHUNKED + b"5\r\nhello\n0\r\n\r\n",
    "an extension with a bare LF": CHUNKED + b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "a framing field in the trailers": CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
    "more than Content-Length said": POST + b"Content-Length: 5\r\n\r\nhello\r\n",
    "a line that is cut short, but no line begins so": GET + b"\x16\x03",
    "a field that is cut short, but no field begins so": b"GET / HTTP/1.1\r\nHost : a",
    "a chunk size that is cut short, but none begins so": CHUNKED + b"0x",
    "bytes after Connection: close": b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GET,
}

VALID_RESPONSES = {
    "a sized body": (OK + b"Content-Length: 5\r\n\r\nhello", [GET]),
    "no reason": (b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", [GET]),
    "two answers": (OK + b"Content-Length: 0\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n", [GET, GET]),
    "a body until the close": (OK + b"\r\nhello", [GET]),
    "HEAD with a length": (
        OK + b"Content-Length: 5\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n",
        [HEAD, GET],
    ),
    "HEAD of a chunked answer": (OK + b"Transfer-Encoding: chunked\r\n\r\n", [HEAD]),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n" + OK + b"\r\n", [GET, GET]),
    "304 with a length": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n" + OK + b"\r\n",
        [GET, GET],
    ),
    "100 and 103 before the answer": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK + b"\r\n",
        [GET],
    ),
    "a tunnel": (b"HTTP/1.1 200 OK\r\n\r\n\x16\x03\x00", [CONNECT]),
    "a switch of protocols": (b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n\x00\xff", [GET]),
    "a chunked body with trailers": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
        [GET],
    ),
    "an answer that is cut short": (OK + b"Content-Length: 5\r\n\r\nhel", [GET]),
}

INVALID_RESPONSES = {
    "nobody asked": (OK + b"Content-Length: 0\r\n\r\n" + OK, [GET]),
    "no space behind the status": (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", [GET]),
    "a status of two digits": (b"HTTP/1.1 20 OK\r\n\r\n", [GET]),
    "a status below 100": (b"HTTP/1.1 099 OK\r\n\r\n", [GET]),
    "HTTP/2": (b"HTTP/2 200 OK\r\n\r\n", [GET]),
    "HTTP/0.9": (b"<html>\r\n", [GET]),
    "NUL in the reason": (b"HTTP/1.1 200 O\0K\r\n\r\n", [GET]),
    "204 with a body": (b"HTTP/1.1 204 N\r\n\r\nhello\r\n", [GET, GET]),
    "204 with Content-Length": (b"HTTP/1.1 204 N\r\nContent-Length: 0\r\n\r\n", [GET]),
    "HEAD with a body": (OK + b"Content-Length: 5\r\n\r\nhello\r\n", [HEAD, GET]),
    "Content-Length with Transfer-Encoding": (
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        [GET],
    ),
    "chunked for HTTP/1.0": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        [b"GET http://a/ HTTP/1.0\r\n\r\n"],
    ),
    "1xx for HTTP/1.0": (b"HTTP/1.1 100 Continue\r\n\r\n", [b"GET http://a/ HTTP/1.0\r\n\r\n"]),
    "CONNECT answered with a length": (OK + b"Content-Length: 0\r\n\r\n", [CONNECT]),
    "bytes after Connection: close": (OK + b"Connection: close\r\nContent-Length: 0\r\n\r\nx", [GET, GET]),
    "a folded line": (OK + b"X: a\r\n b\r\n\r\n", [GET]),
}


def asked(requests: list[bytes]) -> list:
    return [strict_http.read_request_head(request) for request in requests]


@pytest.mark.parametrize("name", VALID_REQUESTS)
def test_a_valid_request_stream_passes(name):
    check_requests(VALID_REQUESTS[name])


@pytest.mark.parametrize("name", INVALID_REQUESTS)
def test_an_invalid_request_stream_is_a_violation(name):
    with pytest.raises(Violation):
        check_requests(INVALID_REQUESTS[name])


@pytest.mark.parametrize("name", VALID_RESPONSES)
def test_a_valid_response_stream_passes(name):
    data, requests = VALID_RESPONSES[name]
    check_responses(data, asked(requests))


@pytest.mark.parametrize("name", INVALID_RESPONSES)
def test_an_invalid_response_stream_is_a_violation(name):
    data, requests = INVALID_RESPONSES[name]
    with pytest.raises(Violation):
        check_responses(data, asked(requests))


@pytest.mark.parametrize("name", VALID_REQUESTS)
def test_a_prefix_of_valid_requests_is_cut_short_but_no_violation(name):
    data = VALID_REQUESTS[name]
    for length in range(len(data)):
        check_requests(data[:length])


@pytest.mark.parametrize("name", VALID_RESPONSES)
def test_a_prefix_of_valid_responses_is_cut_short_but_no_violation(name):
    data, requests = VALID_RESPONSES[name]
    for length in range(len(data)):
        check_responses(data[:length], asked(requests))


def test_where_a_stream_ended_is_told():
    assert check_requests(GET).ended == "between messages"
    assert check_requests(GET + b"GET").ended == "in the head"
    assert check_requests(CHUNKED + b"5\r\nhel").ended == "in the body"
    assert check_requests(CONNECT + b"\x16\x03", switched_after=1).rest == b"\x16\x03"
    assert check_responses(OK + b"Content-Length: 5\r\n\r\nhel", asked([GET])).ended == "in the body"


def test_the_body_and_its_chunks_are_read():
    message = check_requests(CHUNKED + b"5\r\nhello\r\n2;a=b\r\n!!\r\n0\r\nX: y\r\n\r\n").messages[0]
    assert (message.body, message.chunk_sizes, message.trailers) == (b"hello!!", [5, 2], [(b"X", b"y")])


def test_what_a_client_asked_is_counted_even_when_it_is_no_request():
    assert strict_http.requests_in(GET + b"\0\0")[0][1] is None
    assert len(strict_http.requests_in(GET + CHUNKED + b"zz\r\n")[0]) == 2
    assert len(strict_http.requests_in(b"\r\n" + GET + GET)[0]) == 2
    for lengths in (b"Content-Length: 2\r\nContent-Length: 2", b"Content-Length: 2, 2,2"):
        assert len(strict_http.requests_in(POST + lengths + b"\r\n\r\nhi" + GET)[0]) == 2


def forwarded(*lines: bytes) -> strict_http.Message:
    return strict_http.read_request(
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    )


@pytest.mark.parametrize(
    "lines",
    [
        (b"Via: 1.1 sallyport",),
        (b"Via: 1.0 other, 1.1 sallyport (x)",),
        (b"Via: 1.1 sallyport", b"Connection: te", b"TE: trailers"),
        (b"Via: 1.1 sallyport", b"Connection: Upgrade", b"Upgrade: websocket"),
    ],
)
def test_a_well_forwarded_request_passes(lines):
    strict_http.check_forwarded_request(forwarded(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (b"Via: 1.1 sallyport, 1.1 other",),
        (b"Via: 1.1 sallyport", b"Keep-Alive: 5"),
        (b"Via: 1.1 sallyport", b"Proxy-Connection: close"),
        (b"Via: 1.1 sallyport", b"Proxy-Authorization: Basic eA=="),
        (b"Via: 1.1 sallyport", b"Connection: X-Hop"),
        (b"Via: 1.1 sallyport", b"TE: trailers"),
        (b"Via: 1.1 sallyport", b"Connection: te"),
        (b"Via: 1.1 sallyport", b"Connection: te", b"TE: gzip"),
    ],
)
def test_a_badly_forwarded_request_is_a_violation(lines):
    with pytest.raises(Violation):
        strict_http.check_forwarded_request(forwarded(*lines))
