"""[rule.response] and how a body comes: framings, trailers, codings, streams, bodies that are too large or never end.

A rule with body checks holds a body; these tests show that what is held arrives whole or not at all, and that what must
stream does. What goes wrong meanwhile, and the memory of all of them, is in test_held_bodies.py.
"""

import gzip
import json
import threading

import pytest

from journal import DEADLINE_SECONDS
from serializer_world import (
    ANNOTATE_ALL,
    CODINGS,
    DECODINGS,
    JSON,
    OK,
    ONE_WORKER,
    REJECT_ALL,
    accepted,
    annotated,
    annotation,
    answer,
    as_it_came,
    chunks,
    decoded,
    ended_quietly,
    goes_on,
    only,
    policy,
    rejected,
    request,
    serving,
)

CHECKED = f'serializer = "json"\n{REJECT_ALL}\n'
NOTED = f'serializer = "json"\n{ANNOTATE_ALL}\n'
LARGE = json.dumps([{"number": number, "text": "ä" * 10} for number in range(3000)]).encode()
LIMIT_BYTES = 4096
LIMITS = 'buffered_body = "4KiB"'


def text_of(size: int, good: bool = True) -> bytes:
    """A JSON string of so many bytes, or what would be one but for its first byte."""
    return (b'"' if good else b"?") + b"x" * (size - 2) + b'"'


# Framings


@pytest.mark.parametrize("how", ["whole", "byte by byte"])
@pytest.mark.parametrize("good", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize("version", ["1.1", "1.0"], ids=lambda version: f"a client of HTTP/{version}")
@pytest.mark.parametrize("framing", ["length", "chunked", "close", "close, HTTP/1.0"])
def test_a_body_in_each_framing(framing, version, good, how, sallyport, raw_origin, raw_client):
    body = b'{"a": [1, 2]}' if good else b'{"a": [1, 2}'
    of_version = framing.partition("HTTP/")[2] or "1.1"
    data = answer(body, framing=framing.partition(",")[0], version=of_version)

    def script(connection) -> None:
        connection.read_body()
        connection.send_bytewise(data) if how == "byte by byte" else connection.send(data)
        if "close" not in framing:
            connection.read_request()
            connection.send(OK)
            connection.wait_for_end()

    proxy, origin = sallyport(policy=policy(response=CHECKED)), raw_origin(only(script))
    client = raw_client(proxy)
    got = client.exchange(request(origin, "/r", "Connection: keep-alive\r\n", version=version))
    if good:
        accepted(got, body)
    else:
        rejected(got, names=("line 1", "column 12"))
    if got.framing == "close" or b"close" in got.options("Connection"):
        assert version == "1.0" and client.wait_for_end() == "closed"
    else:
        assert client.exchange(request(origin, "/after", version=version)).body == b"ok"


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_large_body_in_each_framing(framing, sallyport, raw_origin, raw_client):
    origin = raw_origin(serving(answer(LARGE, framing=framing), close=framing == "close"))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    for _ in range(3):
        accepted(client.exchange(request(origin, "/r")), LARGE)
    goes_on(client, origin)


@pytest.mark.parametrize("violation", [CHECKED, NOTED], ids=["reject", "annotate"])
def test_trailers_behind_a_body_that_was_held_are_kept(violation, sallyport, raw_origin, raw_client):
    body = b"[1" if violation is NOTED else b"[1]"
    head = (
        f"HTTP/1.1 200 Said\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    )
    origin = raw_origin(serving(head.encode() + chunks(body, trailers=b"X-Sum: y\r\nX-Other: z\r\n")))
    client = raw_client(sallyport(policy=policy(response=violation)))
    got = client.exchange(request(origin, "/r", "TE: trailers\r\nConnection: TE\r\n"))
    as_it_came(got, body)
    assert got.trailers == [(b"X-Sum", b"y"), (b"X-Other", b"z")]
    goes_on(client, origin)


def test_pipelined_requests_get_their_answers_in_order(sallyport, raw_origin, raw_client):
    origin = raw_origin(
        serving(answer(b"[0]"), answer(b"["), answer(b"[2]", framing="chunked"), answer(b"[3]"))
    )
    client = raw_client(sallyport(proxy=ONE_WORKER, policy=policy(response=CHECKED)))
    client.send(request(origin, "/r") * 4 + request(origin, "/after"))
    got = [client.answer() for _ in range(5)]
    accepted(got[0], b"[0]")
    rejected(got[1])
    accepted(got[2], b"[2]")
    accepted(got[3], b"[3]")
    assert got[4].body == b"ok"


def test_interim_answers_come_before_the_body_is_held(sallyport, raw_origin, raw_client):
    """A 103 carries nothing to check, and whoever sends it wants it seen at once."""

    def hinting(connection) -> None:
        connection.read_body()
        connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        assert seen.wait(DEADLINE_SECONDS)
        connection.send(answer(b"["))
        connection.wait_for_end()

    seen = threading.Event()
    origin = raw_origin(only(hinting))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    client.send(request(origin, "/r"))
    assert client.message().status == 103
    seen.set()
    rejected(client.message())


def test_an_upgrade_is_no_body(sallyport, raw_origin, raw_client):
    def switching(connection) -> None:
        connection.read_body()
        connection.switch_protocol()
        connection.send(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"
        )
        connection.send(connection.read_exactly(2))
        connection.wait_for_end()

    origin = raw_origin(only(switching))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    client.send(request(origin, "/r", "Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    assert client.message().status == 101
    assert client.receive_exactly(5) == b"hello"
    client.send(b"hi")
    assert client.receive_exactly(2) == b"hi"


@pytest.mark.parametrize("good", [True, False], ids=["right", "wrong"])
def test_a_part_of_a_body(good, sallyport, raw_origin, raw_client):
    """206: what is right passes with its range. Silent in the specification on a part that is none in itself: it is
    not whole, so it cannot be checked; a rule that rejects may reject it, and may say so, but must not alter it.
    """
    body = b"[1]" if good else b'1], "a'
    lines = "Content-Range: bytes 5-7/100\r\n"
    origin = raw_origin(serving(answer(body, status=206, lines=lines)))
    client = raw_client(sallyport(policy=policy(response=CHECKED + "remove_nulls = true")))
    got = client.exchange(request(origin, "/r", "Range: bytes=5-7\r\n"))
    if good or got.status == 206:
        as_it_came(got, body, 206)
        assert got.value("Content-Range") == b"bytes 5-7/100"
    else:
        rejected(got)
    goes_on(client, origin)


# Codings


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("accept", ["", "Accept-Encoding: gzip, deflate, br, zstd\r\n"], ids=["", "accepted"])
@pytest.mark.parametrize("coding", CODINGS)
def test_a_coded_body_is_checked_and_comes_as_it_was(
    coding, accept, framing, sallyport, raw_origin, raw_client
):
    lines = f"Content-Encoding: {coding}\r\n"
    good, bad = CODINGS[coding](LARGE), CODINGS[coding](LARGE[:-1])
    answers = [answer(body, lines=lines, framing=framing) for body in (good, bad, good)]
    origin = raw_origin(serving(*answers, close=framing == "close"))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    for number in range(3):
        got = client.exchange(request(origin, "/r", accept))
        if number == 1:
            rejected(got)
        else:
            accepted(got, good)
            assert got.value("Content-Encoding") == coding.encode()
    goes_on(client, origin)
    assert {message.value("Accept-Encoding") for message in origin.requests()[:3]} == {
        accept.partition(": ")[2].strip().encode() or None
    }


@pytest.mark.parametrize("coding", CODINGS)
def test_an_annotated_coded_body_comes_as_it_was(coding, sallyport, raw_origin, raw_client):
    body = CODINGS[coding](b"[\n?]")
    origin = raw_origin(serving(answer(body, lines=f"Content-Encoding: {coding}\r\n")))
    client = raw_client(sallyport(policy=policy(response=NOTED)))
    got = client.exchange(request(origin, "/r"))
    as_it_came(got, body)
    annotated(got, names=("line 2", "column 1"))
    assert got.value("Content-Encoding") == coding.encode()
    goes_on(client, origin)


GZIPPED = gzip.compress(LARGE)
CODED = {
    "x-gzip, its old name": ("x-gzip", GZIPPED, True),
    "capitals": ("GZIP", GZIPPED, True),
    "identity": ("identity", LARGE, True),
    "two, one within the other": ("br, gzip", gzip.compress(CODINGS["br"](LARGE)), True),
    "two in the wrong order": ("gzip, br", gzip.compress(CODINGS["br"](LARGE)), False),
    "gzip cut short": ("gzip", GZIPPED[:-1], False),
    "gzip cut in its middle": ("gzip", GZIPPED[: len(GZIPPED) // 2], False),
    "gzip with a wrong checksum": ("gzip", GZIPPED[:-8] + b"\0\0\0\0" + GZIPPED[-4:], False),
    "gzip with a wrong length": ("gzip", GZIPPED[:-4] + b"\0\0\0\0", False),
    "gzip with a turned bit": ("gzip", GZIPPED[:500] + bytes([GZIPPED[500] ^ 16]) + GZIPPED[501:], False),
    "what is no gzip": ("gzip", LARGE, False),
    "deflate cut short": ("deflate", CODINGS["deflate"](LARGE)[:-3], False),
    "what is no deflate": ("deflate", LARGE, False),
    "br cut short": ("br", CODINGS["br"](LARGE)[:-1], False),
    "what is no br": ("br", b"\xff" * 100, False),
    "zstd cut short": ("zstd", CODINGS["zstd"](LARGE)[:-1], False),
    "what is no zstd": ("zstd", LARGE, False),
    "another coding's bytes": ("zstd", GZIPPED, False),
    "a coding that nobody knows": ("x-odd", LARGE, False),
    "a known and an unknown one": ("gzip, x-odd", GZIPPED, False),
}


@pytest.mark.parametrize("how", ["reject", "annotate"])
@pytest.mark.parametrize("name", CODED)
def test_a_coding(name, how, sallyport, raw_origin, raw_client):
    coding, body, good = CODED[name]
    origin = raw_origin(serving(answer(body, lines=f"Content-Encoding: {coding}\r\n")))
    proxy = sallyport(policy=policy(response=CHECKED if how == "reject" else NOTED))
    client = raw_client(proxy)
    got = client.exchange(request(origin, "/r"))
    if good:
        accepted(got, body)
    elif how == "reject":
        problem = rejected(got, "http_response_content_coding")
        assert coding.rpartition(", ")[2] in problem.body["detail"] or "coding" in problem.body["detail"]
        assert proxy.access_of(problem.reference)["outcome"] == problem.token
    else:
        as_it_came(got, body)
        annotated(got)
        assert got.value("Content-Encoding") == coding.encode()
    goes_on(client, origin)


def test_a_coded_body_of_nothing(sallyport, raw_origin, raw_client):
    """An empty body under a coding, and the coding of an empty body, carry nothing to check."""
    answers = [
        answer(body, lines="Content-Encoding: gzip\r\n")
        for body in (b"", gzip.compress(b""), gzip.compress(b" "))
    ]
    origin = raw_origin(serving(*answers))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    for said in answers:
        accepted(client.exchange(request(origin, "/r")), said.partition(b"\r\n\r\n")[2])


# Streams


EVENTS = (b"data: one\n\n", b"data: two\n\n", b"data: three\n\n")
EVENT_RULES = {
    "any type": CHECKED + 'acceptable_content_types = ["*/*"]\n',
    "its type is acceptable": CHECKED + 'acceptable_content_types = ["text/event-stream"]\n',
    "with null removal": CHECKED + 'acceptable_content_types = ["*/*"]\nremove_nulls = true\n',
    "its type is annotated": NOTED,
    "a rule for http": 'serializer = "http"\n',
    "a large body would be rejected": CHECKED + 'acceptable_content_types = ["*/*"]\noversize = "reject"\n',
}


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("content_type", ["text/event-stream", "Text/Event-Stream; charset=utf-8"])
@pytest.mark.parametrize("name", EVENT_RULES)
def test_an_event_stream_is_never_held(name, content_type, framing, sallyport, raw_origin, raw_client):
    """The origin sends the next event only when the client has the one before."""
    arrived = threading.Semaphore(0)

    def telling(connection) -> None:
        connection.read_body()
        head = answer(b"", content_type, framing="none").removesuffix(b"\r\n")
        connection.send(head + (b"Transfer-Encoding: chunked\r\n\r\n" if framing == "chunked" else b"\r\n"))
        for event in EVENTS:
            connection.send(b"%x\r\n%s\r\n" % (len(event), event) if framing == "chunked" else event)
            if not arrived.acquire(timeout=DEADLINE_SECONDS):
                return  # the test says what the client did not get, or it was told no at once
        if framing == "chunked":
            connection.send(b"0\r\n\r\n")
            connection.wait_for_end()

    origin = raw_origin(only(telling))
    client = raw_client(sallyport(policy=policy(response=EVENT_RULES[name], limits=LIMITS)))
    client.send(request(origin, "/r"))
    if name == "a large body would be rejected" and client.receive_until(b"\r\n").startswith(
        b"HTTP/1.1 502 "
    ):
        # Silent in the specification: it cannot be checked, so that it may be rejected; then at once.
        client.read_to = 0
        rejected(client.answer(), "http_response_body_size", code=None)
        arrived.release(len(EVENTS))
        return
    for event in EVENTS:
        client.receive_until(event)
        arrived.release()
    client.read_to = 0
    got = client.answer()
    as_it_came(got, b"".join(EVENTS), content_type=content_type)
    # Silent in the specification whether an event stream that is acceptable is annotated as unchecked.
    if name in ("its type is annotated", "a rule for http"):
        assert (annotation(got) is not None) == (name == "its type is annotated")


def test_an_event_stream_of_a_wrong_type_is_rejected_at_once(sallyport, raw_origin, raw_client):
    """Nobody waits for its end, and the origin is let go."""

    def endless(connection) -> None:
        connection.read_body()
        connection.send(answer(b"data: one\n\n", "text/event-stream", framing="close"))
        ended_quietly(connection)
        origin.note("let go")

    origin = raw_origin(only(endless))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    rejected(client.exchange(request(origin, "/r")), names=("text/event-stream",))
    origin.wait_for("let go")


REJECTED_BY_THE_HEAD = {
    "a status": (answer(b"[", status=500, framing="close"), -1011),
    "a type": (answer(b"[", "text/html", framing="close"), -1016),
    "a status, with a length": (
        answer(b"", status=500, lines="Content-Length: 100000000\r\n", framing="none"),
        -1011,
    ),
}


@pytest.mark.parametrize("name", REJECTED_BY_THE_HEAD)
def test_what_the_head_decides_waits_for_no_body(name, sallyport, raw_origin, raw_client):
    said, code = REJECTED_BY_THE_HEAD[name]

    def endless(connection) -> None:
        connection.read_body()
        connection.send(said)
        ended_quietly(connection)
        origin.note("let go")

    origin = raw_origin(only(endless))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    rejected(client.exchange(request(origin, "/r")), code=code)
    origin.wait_for("let go")
    goes_on(client, origin)


@pytest.mark.parametrize(
    "response", ['serializer = "http"', 'serializer = "http"\nacceptable_status = ["100-599"]']
)
def test_a_rule_without_body_checks_never_holds(response, sallyport, raw_origin, raw_client):
    def halting(connection) -> None:
        connection.read_body()
        connection.send(answer(b"", lines="Content-Length: 10\r\n", framing="none") + b"first")
        assert arrived.wait(DEADLINE_SECONDS)
        connection.send(b"other")
        connection.wait_for_end()

    arrived = threading.Event()
    origin = raw_origin(only(halting))
    client = raw_client(sallyport(policy=policy(response=response)))
    client.send(request(origin, "/r"))
    client.receive_until(b"first")
    arrived.set()
    client.read_to = 0
    accepted(client.answer(), b"firstother")


# Too large


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("oversize", ["annotate", "reject"])
@pytest.mark.parametrize("size", [LIMIT_BYTES, LIMIT_BYTES + 1, 1_000_000])
def test_the_limit_of_a_held_body(size, oversize, framing, sallyport, raw_origin, raw_client):
    """Just the limit is checked; one byte more streams unchecked and says so, or is rejected."""
    right, wrong = text_of(size), text_of(size, good=False)
    answers = [answer(body, framing=framing) for body in (right, wrong)]
    origin = raw_origin(serving(*answers, close=framing == "close"))
    proxy = sallyport(policy=policy(response=f'{CHECKED}oversize = "{oversize}"', limits=LIMITS))
    for body in (right, wrong):
        client = raw_client(proxy)
        got = client.exchange(request(origin, "/r"))
        if size == LIMIT_BYTES and body is right:
            accepted(got, body)
        elif size == LIMIT_BYTES:
            rejected(got)
        elif oversize == "reject":
            problem = rejected(got, "http_response_body_size", code=None)
            assert proxy.access_of(problem.reference)["outcome"] == problem.token
        else:
            as_it_came(got, body)
            annotated(got)
        if got.framing != "close":  # what streams until the close of the origin may do so to the client
            goes_on(client, origin)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("oversize", ["annotate", "reject"])
def test_the_limit_counts_what_a_coding_holds(oversize, coding, sallyport, raw_origin, raw_client):
    body = CODINGS[coding](text_of(1_000_000))
    assert len(body) < LIMIT_BYTES
    origin = raw_origin(serving(answer(body, lines=f"Content-Encoding: {coding}\r\n")))
    client = raw_client(sallyport(policy=policy(response=f'{CHECKED}oversize = "{oversize}"', limits=LIMITS)))
    got = client.exchange(request(origin, "/r"))
    if oversize == "reject":
        rejected(got, "http_response_body_size", code=None)
    else:
        as_it_came(got, body)
        annotated(got)
        assert decoded(got) == DECODINGS[coding.encode()](body)
    goes_on(client, origin)


def test_a_body_that_is_too_large_streams_before_its_end(sallyport, raw_origin, raw_client):
    """A response without an end is one: once more came than is held, it goes to the client as it comes."""

    def endless(connection) -> None:
        connection.read_body()
        connection.send(answer(b"~" * (LIMIT_BYTES + 1), framing="close"))
        assert arrived.wait(DEADLINE_SECONDS)
        connection.send(b"and more")
        assert arrived_again.wait(DEADLINE_SECONDS)

    arrived, arrived_again = threading.Event(), threading.Event()
    origin = raw_origin(only(endless))
    client = raw_client(sallyport(policy=policy(response=CHECKED, limits=LIMITS)))
    client.send(request(origin, "/r"))
    while client.received.count(b"~") <= LIMIT_BYTES:
        assert client.receive_some(), "what is held came to an end"
    arrived.set()
    client.receive_until(b"and more")
    arrived_again.set()
    client.read_to = 0
    got = client.answer()
    as_it_came(got, b"~" * (LIMIT_BYTES + 1) + b"and more")
    annotated(got)
