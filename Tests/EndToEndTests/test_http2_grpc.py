"""What the proxy itself answers to gRPC calls, frame by frame: trailers-only, whatever was wrong, and however early it was
found. Real gRPC programs: test_http2.py, test_http2_go.py.
"""

import pytest

from origins import answering
from test_http2 import h2_origin, inside, ok  # noqa: F401
from test_who_asks import CREDENTIALS
from tls_world import authority, intercepting, rule, secure_client, secure_proxy, tls_origin, world  # noqa: F401

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CALL = (("content-type", "application/grpc+proto"), ("te", "trailers"))


def refused(got, status: int, token: str) -> None:
    """A trailers-only answer (PROTOCOL-HTTP2.md of gRPC): a head with the outcome, and nothing more."""
    assert (got.status, got.value("content-type"), got.body, got.trailers) == (200, "application/grpc", b"", None), got
    assert got.value("grpc-status") == str(status), got
    assert got.value("grpc-message").startswith(f"{token} ") and " ref=" in got.value("grpc-message")
    assert got.value("proxy-status").startswith("sallyport; error=")


HEADS = {
    "too many fields": ("/s/Call", [("x-a", "1")] * 200, 8, "head-too-large"),
    "too many fields before its type": ("/s/Call", None, 8, "head-too-large"),
    "too many bytes": ("/s/Call", [("x-a", "v" * 70_000)], 8, "head-too-large"),
    "a path that is none": ("/s\\Call", [], 14, "malformed-request"),
}


@pytest.mark.parametrize("path, fields, status, token", HEADS.values(), ids=HEADS)
def test_a_call_whose_head_is_refused(intercepting, inside, h2_origin, path, fields, status, token):
    origin = h2_origin(ok)
    client = inside(intercepting(), "a.test", origin.port, validate=False)
    lines = [("x-a", "1")] * 200 + list(CALL) if fields is None else [*CALL, *fields]
    refused(client.get(f"a.test:{origin.port}", path, *lines, method="POST", body=b"\0\0\0\0\0"), status, token)
    assert not origin.requests
    assert client.get(f"a.test:{origin.port}", "/after").status == 200


def test_a_call_that_takes_too_long(intercepting, inside, h2_origin):
    origin = h2_origin(lambda link, request: None)
    proxy = intercepting(rule("short", 'hosts = ["a.test"]', 'connect = "intercept"', request='timeout = "200ms"'))
    client = inside(proxy, "a.test", origin.port)
    refused(client.get(f"a.test:{origin.port}", "/s/Call", *CALL, method="POST", body=b"\0\0\0\0\0"), 4, "exchange-timeout")


def test_a_call_of_http_1_1(intercepting, sallyport, raw_client, raw_origin):
    """It is a call all the same, and its origin cannot answer it; CONNECT is none, whatever it says."""
    serves = raw_origin(answering(EMPTY))
    call = f"POST http://127.0.0.1:{serves.port}/s/Call HTTP/1.1\r\nHost: 127.0.0.1:{serves.port}\r\n"
    call += "Content-Type: application/grpc\r\nContent-Length: 5\r\n\r\n"
    got = raw_client(sallyport()).exchange(call.encode() + b"\0\0\0\0\0")
    assert got.status == 200 and got.value("grpc-status") == b"14" and got.body == b"", got
    assert got.value("grpc-message").startswith(b"protocol-not-offered ") and not serves.requests()

    known = sallyport(proxy=CREDENTIALS)
    got = raw_client(known).exchange(call.encode() + b"\0\0\0\0\0")
    assert got.status == 200 and got.value("grpc-status") == b"16", got
    assert got.value("proxy-authenticate").startswith(b"Basic ")
    tunnel = f"CONNECT 127.0.0.1:{serves.port} HTTP/1.1\r\nHost: 127.0.0.1:{serves.port}\r\nContent-Type: application/grpc\r\n\r\n"
    got = raw_client(known).exchange(tunnel.encode())
    assert got.status == 407 and got.value("grpc-status") is None, got


def test_a_call_takes_no_kept_connection_of_http_1_1(intercepting, inside, h2_origin):
    """The origin speaks both, and what another rule has left open says nothing of that."""

    def plainly(secure) -> None:
        while more := secure.recv(65536):
            if more.endswith(b"\r\n\r\n"):
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold")

    def answer(link, request):
        link.respond(request, 200, ("content-type", "application/grpc"), trailers=[("grpc-status", "0")])

    origin = h2_origin(answer, alpn=("h2", "http/1.1"), other=plainly)
    policy = rule("old", 'hosts = ["a.test"]', 'paths = ["/old"]', 'protocols = ["http/1.1"]')
    client = inside(intercepting(policy, proxy="workers = 1"), "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}", "/old").body == b"old"
    got = client.get(f"a.test:{origin.port}", "/s/Call", *CALL, method="POST", body=b"\0\0\0\0\0")
    assert (got.status, got.trailers) == (200, [("grpc-status", "0")]), got
    assert origin.protocols == ["http/1.1", "h2"]
