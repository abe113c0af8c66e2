"""What the proxy must refuse, and never repair: requests with 400, responses with 502.

Each row of the tables is a sentence and its bytes. A row is delivered whole, byte by byte, or with more bytes right
behind it. Whatever the row: the proxy answers before it closes, the answer is a well-formed problem with a reference
that the log has too, no invalid byte reaches the origin (none at all, where the head is at fault), nothing behind the
fault is served, and the next client is served. The rows come from RFC 9112, from the public collections of request
smuggling (CL.TE, TE.CL, TE.TE, chunk tricks), and from what strays into a proxy's port.
"""

import random
import time
from pathlib import Path

import pytest

import strict_http
from conftest import stop_all
from journal import DEADLINE_SECONDS
from origins import ClosedByProxy, answering, check_received
from problems import check_problem
from proxy import Proxy
from raw_client import Ended, RawClient
from readings import unescaped

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SMUGGLED = b"GET http://ORIGIN/smuggled HTTP/1.1\r\nHost: ORIGIN\r\n\r\n"
DELIVERIES = ["whole", "byte by byte", "with trailing data"]
HEAD_OVER_A_LIMIT = (431,)


def start(line: bytes) -> bytes:
    """A request with this request line."""
    return line + b"\r\nHost: ORIGIN\r\n\r\n"


def to(target: bytes, method: bytes = b"GET") -> bytes:
    return start(method + b" " + target + b" HTTP/1.1")


def get(lines: bytes) -> bytes:
    """A GET with these bytes among its field lines."""
    return b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n" + lines + b"\r\n\r\n"


def hosted(lines: bytes) -> bytes:
    """A GET whose only field lines are these."""
    return b"GET http://ORIGIN/ HTTP/1.1\r\n" + lines + b"\r\n\r\n"


def post(lines: bytes, body: bytes = b"hello") -> bytes:
    return b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n" + lines + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", body)


ROWS = Path(__file__).resolve().parents[1] / "Rows"


def rows(name: str, forms: dict) -> dict[str, tuple[str, bytes]]:
    """The rows of a file that the Swift tests read too: by its sentence, each row's fault and bytes."""
    found = {}
    for line in (ROWS / name).read_text("ascii").splitlines():
        if line and not line.startswith("#"):
            fault, sentence, value = line.split(" | ", 2)
            form, _, text = value.partition(" ")
            assert sentence not in found, f"two rows: {sentence}"
            found[sentence] = fault, forms[form](unescaped(text))
    return found


def section(text: bytes, body: bytes) -> bytes:
    """Field lines with the end of their section, and a body unless they have one."""
    return text if b"\r\n\r\n" in text else text + b"\r\n\r\n" + body


def once(rows) -> list:
    """Each row in a delivery of its own, always the same. The Swift tests try every delivery."""
    return [pytest.param(row, random.Random(row).choice(DELIVERIES), id=row) for row in rows]


CLIENT_HELLO = bytes.fromhex("16030100f7010000f30303") + bytes(range(256))[:240]
REQUESTS = rows("refused-requests.txt", {
    "line": start, "get": get, "hosted": hosted, "raw": bytes,
    "post": lambda text: b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n" + section(text, b"hello")})
# The head is right as far as its grammar goes.
REQUESTS["a host with an empty label"] = "", to(b"http://a..example/")

# Here the head is right and may have been forwarded: the origin may get it, and a body that never ends.
BODIES = {name: text for name, (_, text) in rows("refused-bodies.txt", {"raw": bytes}).items()} | {
    "chunk extension of 64 KiB": b"5;" + b"a" * 65536 + b"\r\nhello\r\n0\r\n\r\n",
    "a chunk size of 64 KiB of zeros": b"0" * 65536 + b"5\r\nhello\r\n0\r\n\r\n",
    "chunks of one byte with extensions of a thousand": (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 100 + b"0\r\n\r\n",
}

# A valid request first, which is answered, and then what is none.
SECOND_REQUESTS = {
    "a body that a GET did not announce": get(b"X: y") + b"hello\r\n\r\n",
    "a body that is longer than Content-Length": post(b"Content-Length: 4", b"hello\r\n\r\n"),
    "a chunk behind the last": chunked(b"0\r\n\r\n") + b"5\r\nhello\r\n0\r\n\r\n",
    "a malformed request behind a good one": get(b"X: y") + get(b"X : y"),
    "a ClientHello behind a good request": get(b"X: y") + CLIENT_HELLO,
    "a bare LF behind a good request": get(b"X: y") + b"\n" + get(b"X: y"),
}

# RFC 9112 lets a recipient choose: refuse with 400, or forward exactly one valid request.
EITHER = {
    "version 1.2, a later minor version": start(b"GET http://ORIGIN/ HTTP/1.2"),
    "Content-Length as a list that agrees": post(b"Content-Length: 5, 5"),
    "Content-Length twice, the same": post(b"Content-Length: 5\r\nContent-Length: 5"),
    "Content-Length with leading zeros": post(b"Content-Length: 0005"),
    "a chunk size with leading zeros": chunked(b"0005\r\nhello\r\n0\r\n\r\n"),
    "spaces around a chunk extension": chunked(b'5 ; a = "b"\r\nhello\r\n0\r\n\r\n'),
    "Content-Length in a trailer": chunked(b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"),
    "Transfer-Encoding in a trailer": chunked(b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "Host in a trailer": chunked(b"5\r\nhello\r\n0\r\nHost: b\r\n\r\n"),
    "Connection naming Content-Length": post(b"Connection: content-length\r\nContent-Length: 5"),
    "Connection naming Transfer-Encoding": post(
        b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "Connection naming Host": get(b"Connection: host"),
    "Connection naming Via": get(b"Connection: via"),
    "Connection that is no list of tokens": get(b"Connection: close;x, (a)"),
    "an empty Host where the target has one": hosted(b"Host:"),
    "Expect that nobody knows": get(b"Expect: 200-ok"),
    "a body on TRACE": b"TRACE http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 5\r\n\r\nhello",
    "a Max-Forwards that is no number": to(b"http://ORIGIN/", b"OPTIONS")[:-2] + b"Max-Forwards: x\r\n\r\n",
}

OVERSIZED = {
    "a request line above header_bytes": to(b"http://ORIGIN/" + b"a" * 70_000),
    "a method above header_bytes": to(b"http://ORIGIN/", b"G" * 70_000),
    "a value above header_bytes": get(b"X: " + b"a" * 70_000),
    "a name above header_bytes": get(b"X" * 70_000 + b": a"),
    "too many fields": get(b"\r\n".join(b"X%d: y" % number for number in range(200))),
    "a line that never ends": b"GET http://ORIGIN/" + b"a" * 200_000,
}


def deliver(client: RawClient, data: bytes, how: str, trailing: bytes) -> None:
    if how == "byte by byte":
        client.send_bytewise(data)
    else:
        client.send(data + (trailing if how == "with trailing data" else b""))


def expect_refusal(
    proxy, client: RawClient, origin, statuses, served: int = 0, body_at_fault: bool = False
) -> None:
    """Reads to the end, and checks the answer, the log, and what had reached the origin."""
    assert (
        client.wait_for_end() == "closed"
    ), f"reset instead of closed, answers may be lost: {bytes(client.received)!r}"
    stream = client.check()
    assert stream.ended == "between messages", f"the answer was cut short: {bytes(client.received)!r}"
    statuses_seen = [message.status for message in stream.messages if message.status >= 200]
    assert len(statuses_seen) == served + 1, f"{statuses_seen} is not {served} answers and one refusal"
    assert statuses_seen[:served] == [200] * served
    refusal = stream.messages[-1]
    assert refusal.status in statuses, f"{refusal.status} {refusal.reason!r}, not {statuses}"
    problem = check_problem(refusal, refusal.status)
    assert b"close" in refusal.options("Connection"), "a refusal that ends the connection must say so"
    assert proxy.access_of(problem.reference)["status"] == refusal.status
    reached = [check_received(bytes(connection.received)) for connection in origin.connections]
    whole = [message for stream in reached for message in stream.messages]
    assert len(whole) == served, f"the origin got {len(whole)} whole requests, not {served}: {whole}"
    assert not any(b"smuggled" in message.target for message in whole)
    if not body_at_fault:
        assert all(stream.ended == "between messages" for stream in reached), f"bytes leaked: {reached}"


def expect_service(raw_client, proxy, origin) -> None:
    """The next client is served."""
    request = b"GET http://%s/next HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (
        (origin.authority.encode(),) * 2
    )
    assert raw_client(proxy).exchange(request).body == b"ok"


@pytest.fixture
def refused(plain_proxy, raw_origin, raw_client):
    """A function that delivers a row and checks everything that holds for every refusal."""

    def check(data: bytes, how: str, statuses=(400,), served: int = 0, body_at_fault: bool = False) -> None:
        origin = raw_origin(answering(OK))
        authority = origin.authority.encode()
        client = raw_client(plain_proxy)
        deliver(client, data.replace(b"ORIGIN", authority), how, SMUGGLED.replace(b"ORIGIN", authority) * 3)
        expect_refusal(plain_proxy, client, origin, statuses, served, body_at_fault)
        expect_service(raw_client, plain_proxy, origin)

    return check


def test_there_are_more_rows_than_the_73_of_the_comparison():
    assert len(REQUESTS) + len(BODIES) + len(SECOND_REQUESTS) >= 73


@pytest.mark.parametrize("name, how", once(REQUESTS))
def test_a_malformed_head_is_refused(name, how, refused):
    fault, data = REQUESTS[name]
    # Well-formed but for a version that is not spoken here (RFC 9110, 15.6.6).
    refused(data, how, statuses=(505,) if fault == "unsupported-version" else (400,))


@pytest.mark.parametrize("name, how", once(BODIES))
def test_a_malformed_chunked_body_is_refused(name, how, refused):
    refused(chunked(BODIES[name]), how, body_at_fault=True)


@pytest.mark.parametrize("name, how", once(SECOND_REQUESTS))
def test_a_malformed_second_request_is_refused_after_the_first_is_served(name, how, refused):
    refused(SECOND_REQUESTS[name], how, served=1)


@pytest.mark.parametrize("how", ["whole", "with trailing data"])
@pytest.mark.parametrize("name", OVERSIZED)
def test_a_head_above_a_limit_is_refused(name, how, refused):
    refused(OVERSIZED[name], how, statuses=HEAD_OVER_A_LIMIT)


@pytest.mark.parametrize("how", ["whole", "byte by byte"])
@pytest.mark.parametrize("name", EITHER)
def test_what_may_be_refused_or_served_is_one_of_both(name, how, plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    client = raw_client(plain_proxy)
    deliver(client, EITHER[name].replace(b"ORIGIN", origin.authority.encode()), how, b"")
    answer = client.answer()
    if answer.status == 200:
        assert [message.end for message in origin.requests()] == [len(origin.connections[0].received)]
    else:
        assert client.wait_for_end() == "closed"
        check_problem(answer, 417 if answer.status == 417 else 400)
        assert not any(
            check_received(bytes(connection.received)).messages for connection in origin.connections
        )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HEAD / HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", id="its target"),
        pytest.param(b"HEAD http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nX : y\r\n\r\n", id="a field"),
        pytest.param(b"HEAD http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nHost: ORIGIN\r\n\r\n", id="its Host"),
        pytest.param(
            b"HEAD http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: x\r\n\r\n", id="its length"
        ),
    ],
)
def test_a_refused_head_request_gets_no_body(data, plain_proxy, raw_client):
    """Whatever else was wrong, HEAD was understood, and no client expects a body of it (RFC 9110 §9.3.2)."""
    client = raw_client(plain_proxy)
    client.looked_at = False  # the checker takes what is no request for a GET
    client.send(data.replace(b"ORIGIN", b"127.0.0.1:9"))
    assert client.wait_for_end() == "closed"
    head, _, body = bytes(client.received).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"ref=" in head
    assert body == b""


# Every byte value that is not allowed, in every place

TCHAR = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
CONTROLS = frozenset(range(32)) | {127}
FORBIDDEN_BYTES = {
    "the method": (b"GE\xaaT http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", frozenset(range(256)) - TCHAR),
    "the path": (
        b"GET http://ORIGIN/a\xaab HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' #"<>'),
    ),
    "the query": (
        b"GET http://ORIGIN/?\xaab HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' #"<>'),
    ),
    "the host of the target": (
        b"GET http://a\xaab.test/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' "<>@[\\]^`{|}%'),
    ),
    "the version": (
        b"GET http://ORIGIN/ HTTP/1\xaa1\r\nHost: ORIGIN\r\n\r\n",
        frozenset(range(256)) - set(b"."),
    ),
    "Host": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: a\xaab\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' "#/<>?@[\\]^`{|}'),
    ),
    "a field name": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nX\xaaA: b\r\n\r\n",
        frozenset(range(256)) - TCHAR - set(b":"),
    ),
    "a field value": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nX-A: b\xaac\r\n\r\n",
        CONTROLS - set(b"\t"),
    ),
    "Content-Length": (
        b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 1\xaa\r\n\r\n",
        frozenset(range(256)) - set(b"0123456789 \t"),
    ),
}


@pytest.mark.parametrize("where", FORBIDDEN_BYTES)
def test_every_byte_that_is_not_allowed_is_refused(where, plain_proxy, raw_origin, raw_client):
    template, forbidden = FORBIDDEN_BYTES[where]
    origin = raw_origin(answering(OK))
    wrong = {}
    for byte in sorted(forbidden):
        client = raw_client(plain_proxy)
        client.send(template.replace(b"\xaa", bytes([byte])).replace(b"ORIGIN", origin.authority.encode()))
        ended = client.wait_for_end()
        if ended != "closed" or not bytes(client.received).startswith(b"HTTP/1.1 400 "):
            wrong[byte] = (ended, bytes(client.received[:60]))
        client.close()
    assert not wrong, f"bytes that were not refused with 400: {wrong}"
    assert not any(connection.received for connection in origin.connections)


# Requests that are cut short

WHOLE = {
    "a GET": get(b"X-A: b"),
    "a sized POST": post(b"Content-Length: 5"),
    "a chunked POST with a trailer": chunked(b"5;a=b\r\nhello\r\n3\r\n!!!\r\n0\r\nX-Sum: 1\r\n\r\n"),
    "a CONNECT": b"CONNECT ORIGIN HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_request_that_is_cut_short_is_answered_and_leaves_a_valid_stream(
    name, plain_proxy, raw_origin, raw_client
):
    """The client says half a request and closes its side: it is told, and the origin gets no whole request."""
    origin = raw_origin(answering(OK))
    data = WHOLE[name].replace(b"ORIGIN", origin.authority.encode())
    unanswered = []
    for length in range(1, len(data)):
        client = raw_client(plain_proxy)
        client.send(data[:length])
        client.half_close()
        client.wait_for_end()
        if not bytes(client.received).startswith(b"HTTP/1.1 400 "):
            unanswered.append((data[:length], client.ended, bytes(client.received[:60])))
        client.close()
    assert (
        not unanswered
    ), f"{len(unanswered)} of {len(data) - 1} not answered with 400, the first: {unanswered[0]}"
    whole = [check_received(bytes(connection.received)).messages for connection in origin.connections]
    assert not any(whole), "half a request became a whole one"


@pytest.mark.parametrize("name", WHOLE)
def test_a_client_that_resets_within_a_request_leaves_a_valid_stream(
    name, plain_proxy, raw_origin, raw_client
):
    origin = raw_origin(answering(OK))
    data = WHOLE[name].replace(b"ORIGIN", origin.authority.encode())
    for length in range(1, len(data)):
        client = raw_client(plain_proxy)
        client.send(data[:length])
        client.reset()
    expect_service(raw_client, plain_proxy, origin)


# Responses: an upstream that says it gets 502 said to the client, and its connection closed


def response(lines: bytes, body: bytes = b"hello", status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return status + b"\r\n" + lines + (b"\r\n" if lines else b"") + b"\r\n" + body


def sized(status: bytes) -> bytes:
    return response(b"Content-Length: 5", status=status)


RESPONSES = {name: data for name, (_, data) in rows("refused-responses.txt", {
    "line": sized, "raw": bytes, "ok": lambda text: b"HTTP/1.1 200 OK\r\n" + section(text, b"hello")}).items()} | {
    "101 that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a malformed 103 before the answer": b"HTTP/1.1 103 Early\r\nLink : x\r\n\r\n" + sized(b"HTTP/1.1 200 OK"),
    "garbage behind a 100": b"HTTP/1.1 100 Continue\r\n\r\nhello\r\n\r\n" + sized(b"HTTP/1.1 200 OK"),
}

SECRET_BEHIND = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"


def saying(data: bytes, how: str):
    """A script for an origin that answers its first request with this, in that delivery, and waits for the end."""

    def script(connection) -> None:
        connection.read_request()
        if connection.number > 0:
            connection.send(OK)
            connection.wait_for_end()
            return
        try:
            if how == "byte by byte":
                connection.send_bytewise(data)
            else:
                connection.send(data + (SECRET_BEHIND if how == "with trailing data" else b""))
            connection.wait_for_end()
        except ClosedByProxy:
            pass
        connection.ended = connection.ended or "reset"

    return script


def ask(raw_client, proxy, origin) -> RawClient:
    client = raw_client(proxy)
    client.send(b"GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % ((origin.authority.encode(),) * 2))
    return client


@pytest.fixture(scope="module")
def rejecting_proxies(sallyport_binary, tmp_path_factory):
    policy = '[defaults.response]\nmalformed = "reject"\n'
    running = [Proxy.start(tmp_path_factory.mktemp("rejecting"), policy=policy)]
    yield running
    stop_all(running)


@pytest.fixture
def rejecting_proxy(rejecting_proxies) -> Proxy:
    """A proxy that mends no head of a response; test_odd_responses.py says what one that mends takes."""
    proxy = rejecting_proxies[0]
    proxy.test_begins = len(proxy.log.snapshot())
    yield proxy
    assert proxy.process.poll() is None


@pytest.mark.parametrize("name, how", once(RESPONSES))
def test_a_malformed_response_head_becomes_502(name, how, rejecting_proxy, raw_origin, raw_client):
    origin = raw_origin(saying(RESPONSES[name], how))
    client = ask(raw_client, rejecting_proxy, origin)
    answer = client.answer()
    problem = check_problem(answer, 502)
    assert rejecting_proxy.access_of(problem.reference)["status"] == 502
    origin.wait_for("done", 0)
    if b"close" in answer.options("Connection"):
        assert client.wait_for_end() == "closed"
        assert client.unread() == b""
    expect_service(raw_client, rejecting_proxy, origin)


@pytest.mark.parametrize("name, how", once(BODIES))
def test_a_malformed_chunked_response_never_looks_whole(name, how, plain_proxy, raw_origin, raw_client):
    """502 where nothing had been sent; else the answer is cut short and the connection closed."""
    origin = raw_origin(saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + BODIES[name], how))
    client = ask(raw_client, plain_proxy, origin)
    expect_502_or_cut_short(client)
    assert b"smuggled" not in client.received
    origin.wait_for("done", 0)
    line = plain_proxy.access(lambda line: line["upstream"] == origin.authority)
    assert line["outcome"] != "done", "the log must say that the answer was malformed"
    expect_service(raw_client, plain_proxy, origin)


def expect_502_or_cut_short(client: RawClient) -> None:
    """A broken body: a problem where the head had not gone out, else the client's connection ends within the message."""
    try:
        answer = client.answer()
    except Ended:
        assert bytes(client.received).startswith(b"HTTP/1.1 200 ") and not client.check().messages
    else:
        check_problem(answer, 502)


CUT_RESPONSES = {
    "nothing at all": b"",
    "half a status line": b"HTTP/1.1 20",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a head without its empty line": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
    "only a 100": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("name", CUT_RESPONSES)
def test_an_origin_that_leaves_within_the_head_becomes_502(name, plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(CUT_RESPONSES[name])
        connection.close()

    client = ask(raw_client, plain_proxy, raw_origin(script))
    problem = check_problem(client.answer(), 502)
    assert problem.error in ("http_response_incomplete", "connection_terminated")


CUT_BODIES = {
    "a sized body": response(b"Content-Length: 10"),
    "a chunk": response(b"Transfer-Encoding: chunked", b"a\r\nhello"),
    "between two chunks": response(b"Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
    "the trailers": response(b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\nX-A: b\r\n"),
}


@pytest.mark.parametrize("name", CUT_BODIES)
def test_an_origin_that_leaves_within_the_body_never_looks_whole(name, plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(CUT_BODIES[name])
        connection.close()

    expect_502_or_cut_short(ask(raw_client, plain_proxy, raw_origin(script)))


FORBIDDEN_RESPONSE_BYTES = {
    "the reason": (b"HTTP/1.1 200 O\xaaK\r\nContent-Length: 0\r\n\r\n", CONTROLS - set(b"\t")),
    "the status": (
        b"HTTP/1.1 2\xaa0 OK\r\nContent-Length: 0\r\n\r\n",
        frozenset(range(256)) - set(b"0123456789"),
    ),
    "a name": (
        b"HTTP/1.1 200 OK\r\nX\xaaA: b\r\nContent-Length: 0\r\n\r\n",
        frozenset(range(256)) - TCHAR - set(b":"),
    ),
    "a value": (b"HTTP/1.1 200 OK\r\nX: a\xaab\r\nContent-Length: 0\r\n\r\n", CONTROLS - set(b"\t")),
}


@pytest.mark.parametrize("where", FORBIDDEN_RESPONSE_BYTES)
def test_every_byte_that_is_not_allowed_in_a_response_becomes_502(
    where, rejecting_proxy, raw_origin, raw_client
):
    template, forbidden = FORBIDDEN_RESPONSE_BYTES[where]
    wrong = {}

    def script(connection) -> None:
        target = connection.read_request().target
        connection.send(template.replace(b"\xaa", bytes([int(target[1:])])))
        connection.wait_for_end()

    origin = raw_origin(script)
    for byte in sorted(forbidden):
        client = raw_client(rejecting_proxy)
        client.send(b"GET http://%s/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (origin.authority.encode(), byte))
        try:
            answer = client.answer()
        except strict_http.Violation as violation:
            wrong[byte] = str(violation)
            client.looked_at = False
            continue
        if answer.status != 502:
            wrong[byte] = answer.status
        client.close()
    assert not wrong, f"bytes in {where} that did not become 502: {wrong}"


# The proxy closes with nothing lost even when the client keeps sending


def test_the_answer_is_not_lost_when_the_client_sends_on(plain_proxy, raw_client):
    """A close with unread bytes would reset the connection and could take the answer with it (RFC 9112 §9.6)."""
    client = raw_client(plain_proxy)
    client.send(get(b"X : y"))
    for _ in range(64):
        client.send(b"x" * 16384)
    assert client.wait_for_end() == "closed"
    assert bytes(client.received).startswith(b"HTTP/1.1 400 ")


def test_a_refused_client_that_never_leaves_is_closed(plain_proxy, raw_client):
    """The lingering close ends by itself: it does not wait for a client that stays for ever."""
    client = raw_client(plain_proxy)
    client.send(get(b"X : y"))
    assert client.wait_for_end() == "closed"
    client.socket.settimeout(0.01)
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        try:
            client.socket.send(b"x")  # once the proxy has closed for good, its kernel answers this with RST
            client.socket.recv(1)
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            return
    raise AssertionError(f"{DEADLINE_SECONDS} s after its answer the proxy still held the connection")
