"""Stored answers of intercepted https, over both versions of HTTP."""

import hashlib

import pytest

from cache_world import FRESH, STALE, cached, check_forwarded, check_hit, said
from http2_world import H2Client
from raw_client import Ended
from test_cache_sharing import HEAD, followers
from tls_world import authority, client_context, secure_client, secure_proxy, tls_origin, world  # noqa: F401

LARGE = hashlib.shake_128(b"intercepted").digest(10 << 20)


@pytest.fixture
def inside(secure_client, authority):
    """A function that speaks HTTP/2 in a tunnel to the origin."""

    def enter(stored) -> H2Client:
        client = secure_client(stored.proxy)
        assert client.tunnel(stored.host, stored.origin.port).status == 200
        context = client_context(authority.file)
        context.set_alpn_protocols(["h2"])
        client.shake_hands(context, stored.host)
        return H2Client(client.secure)

    return enter


def test_fresh_stale_and_changed(cached):
    stored = cached(secure=True)
    stored.site.say(
        "/x", said(*STALE, 'ETag: "a"'), said(FRESH, 'ETag: "a"', status=304), said(FRESH, 'ETag: "b"', body=b"two")
    )
    check_forwarded(stored.ask("/x"), "uri-miss", b"one", stored=True)
    check_forwarded(stored.ask("/x"), "stale", b"one", fwd_status=304)
    check_hit(stored.ask("/x"), b"one")
    check_hit(stored.ask("/x", method="HEAD"), b"")
    answer = stored.ask("/x", "Range: bytes=1-1")
    assert (answer.status, answer.body) == (206, b"n")
    check_forwarded(stored.ask("/x", "Cache-Control: no-cache"), "request", b"two", stored=True)
    assert stored.count("/x") == 3


def test_a_large_answer(cached):
    stored = cached(secure=True)
    stored.site.say("/x", said(FRESH, body=LARGE, framing="chunked"))
    for _ in range(2):
        answer = stored.ask("/x")
        assert answer.body == LARGE
    check_hit(answer)


def test_what_came_by_https_is_not_for_http(cached, raw_client):
    """Nor the other way round: another URL."""
    stored = cached(secure=True)
    stored.site.say("/x", said(FRESH, body=b"secret"))
    stored.ask("/x")
    head = f"GET http://{stored.authority}/x HTTP/1.1\r\nHost: {stored.authority}\r\nConnection: close\r\n\r\n"
    answer = raw_client(stored.proxy).exchange(head.encode())
    assert b"secret" not in answer.body


def test_offline(cached):
    stored = cached(secure=True, cache='offline = "1d"')
    stored.site.say("/x", said(*STALE))
    client = stored.enter()
    stored.ask("/x", client=client)
    stored.leave()
    for each in (client, stored.enter()):
        answer = stored.ask("/x", client=each)
        assert (answer.status, answer.body) == (200, b"one")


def test_twelve_at_once(cached):
    stored = cached(secure=True)
    held = stored.site.hold("/x")
    clients = stored.start_several(12, "/x")
    fetch = held.next()
    stored.wait_until_asked(12)
    fetch.say(said(FRESH, body=b"sally" * 1000))
    answers = [client.answer() for client in clients]
    assert {answer.body for answer in answers} == {b"sally" * 1000} and followers(answers) == 11
    assert stored.count("/x") == 1


# HTTP/2


def test_both_versions_use_one_answer(cached, inside):
    stored = cached(secure=True)
    stored.site.say("/x", said(FRESH, 'ETag: "a"', "X-A: 1", "Connection: X-Hop", "X-Hop: 1"))
    client = inside(stored)
    got = client.get(stored.authority, "/x")
    assert (got.status, got.body) == (200, b"one")
    check_forwarded(got, "uri-miss", stored=True)
    check_hit(stored.ask("/x"), b"one")
    got = client.get(stored.authority, "/x")
    assert (got.status, got.body, got.value("x-a"), got.value("x-hop")) == (200, b"one", "1", None)
    check_hit(got)
    got = client.get(stored.authority, "/x", method="HEAD")
    assert (got.status, got.body, got.value("content-length")) == (200, b"", "3")
    assert client.get(stored.authority, "/x", ("if-none-match", '"a"')).status == 304
    got = client.get(stored.authority, "/x", ("range", "bytes=1-"))
    assert (got.status, got.body, got.value("content-range")) == (206, b"ne", "bytes 1-2/3")
    assert client.get(stored.authority, "/y", ("cache-control", "only-if-cached")).status == 504
    assert stored.count("/x") == 1 and stored.count("/y") == 0


@pytest.mark.parametrize("first", ["HTTP/1.1", "HTTP/2"])
def test_clients_of_both_versions_share_a_fetch(first, cached, inside):
    stored = cached(secure=True)
    held = stored.site.hold("/x")
    streams = inside(stored)
    numbers, clients = [], []
    for turn in range(6):
        if (turn == 0) == (first == "HTTP/2") or turn > 1:
            numbers.append(streams.request(stored.authority, "/x"))
        if turn == 0:
            if first == "HTTP/1.1":
                clients.append(stored.start("/x"))
            fetch = held.next()
        elif turn > 0:
            clients.append(stored.start("/x"))
    stored.wait_until_asked(len(clients) + 1)
    fetch.say(said(FRESH, body=LARGE[:1_000_000]))
    got = [client.answer() for client in clients] + [streams.wait(number) for number in numbers]
    assert {answer.status for answer in got} == {200}
    assert all(answer.body == LARGE[:1_000_000] for answer in got)
    assert stored.count("/x") == 1 and followers(got) == len(got) - 1


def test_a_stream_that_is_reset_leaves_the_others_their_answer(cached, inside):
    stored = cached(secure=True)
    held = stored.site.hold("/x")
    client = inside(stored)
    first = client.request(stored.authority, "/x")
    fetch = held.next()
    second = client.request(stored.authority, "/x")
    third = stored.start("/x")
    fetch.send(HEAD % 10 + b"12345")
    client.wait_until(lambda: all(client.exchanges[number].body == b"12345" for number in (first, second)))
    client.reset(first)
    fetch.send(b"67890")
    fetch.end()
    assert client.wait(second).body == third.answer().body == b"1234567890"
    assert stored.count("/x") == 1


def test_the_last_stream_that_is_reset_ends_the_fetch(cached, inside):
    stored = cached(secure=True)
    held = stored.site.hold("/x")
    client = inside(stored)
    streams = [client.request(stored.authority, "/x")]
    fetch = held.next()
    streams.append(client.request(stored.authority, "/x"))
    fetch.send(HEAD % 10 + b"12345")
    client.wait_until(lambda: all(client.exchanges[number].body == b"12345" for number in streams))
    for number in streams:
        client.reset(number)
    fetch.wait_for_end()
    stored.site.say("/x", said(FRESH, body=b"two"))
    got = client.get(stored.authority, "/x")
    assert got.body == b"two"


def test_an_origin_that_breaks_off_tells_both_versions(cached, inside):
    """A reset stream, and a connection that ends: nobody takes it for the whole."""
    stored = cached(secure=True)
    held = stored.site.hold("/x")
    client = inside(stored)
    number = client.request(stored.authority, "/x")
    fetch = held.next()
    other = stored.start("/x")
    fetch.send(HEAD % 10 + b"12345")
    other.receive_until(b"12345")
    other.read_to = 0
    fetch.break_off()
    got = client.wait(number)
    assert got.reset is not None and not got.ended
    with pytest.raises(Ended):
        other.answer()
    stored.site.say("/x", said(FRESH, body=b"two"))
    assert stored.ask("/x").body == b"two"


def test_a_large_answer_over_both(cached, inside):
    stored = cached(secure=True)
    stored.site.say("/x", said(FRESH, body=LARGE))
    for _ in range(2):
        assert inside(stored).get(stored.authority, "/x").body == LARGE
        assert stored.ask("/x").body == LARGE
    assert stored.count("/x") == 1
