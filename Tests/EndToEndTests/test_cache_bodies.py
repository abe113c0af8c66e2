"""Contents of stored answers: their framing, their length, parts of them (RFC 9110, 14), and what makes room for what."""

import hashlib
import re

import pytest

from cache_world import (
    FRESH,
    STALE,
    cache_status,
    cached,
    check_forwarded,
    check_hit,
    http_date,
    said,
    validated,
)
from raw_client import Ended

LARGE = hashlib.shake_128(b"cache").digest(10 << 20)
TAGGED = 'ETag: "a"'

# Framing

FRAMINGS = {
    "a length": {},
    "chunks": {"framing": "chunked"},
    "chunks and trailers": {"framing": "chunked", "trailers": b"X-Sum: 5\r\n"},
    "until the close": {"framing": "close"},
    "HTTP/1.0 until the close": {"framing": "close", "version": "1.0"},
    "HTTP/1.0 and a length": {"version": "1.0"},
}
BODIES = {"no byte": b"", "a few": b"sally", "10 MiB": LARGE}


@pytest.mark.parametrize("size", BODIES)
@pytest.mark.parametrize("name", FRAMINGS)
def test_an_answer_is_replayed_whole(name, size, cached):
    body = BODIES[size]
    stored = cached()
    stored.site.say("/x", said(FRESH, body=body, **FRAMINGS[name]))
    first = stored.ask("/x")
    assert first.body == body
    client = stored.enter()
    for _ in range(2):
        answer = stored.ask("/x", client=client)
        check_hit(answer)
        assert answer.body == body
        # RFC 9110, 6.5.1: trailers are never merged into the head.
        assert not answer.values("X-Sum") and answer.trailers in ([], [(b"X-Sum", b"5")])
    assert stored.ask("/x", method="HEAD", client=client).status == 200
    assert stored.count("/x") == 1


@pytest.mark.parametrize("name", FRAMINGS)
def test_a_client_of_http_1_0_gets_what_is_stored(name, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, body=b"sally", **FRAMINGS[name]))
    stored.ask("/x")
    client = stored.start("/x", version="1.0")
    client.wait_for_end()
    check_hit(client.answer(), b"sally")


# Answers that break off

BROKEN = {
    "a length": {"cut": 500},
    "a length, at its end": {"cut": 999},
    "chunks": {"framing": "chunked", "cut": 500},
    "before the last chunk": {"framing": "chunked", "cut": 5 + 1000 + 2},
    "within the trailers": {"framing": "chunked", "trailers": b"X-Sum: 5\r\n", "cut": 5 + 1000 + 2 + 3 + 4},
    "until the close, by a reset": {"framing": "close", "resets": True, "cut": 500},
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_breaks_off_is_not_stored(name, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, body=b"x" * 1000, **BROKEN[name]), said(FRESH, body=b"two"))
    client = stored.start("/x")
    try:
        answer = client.answer()
    except Ended:
        pass
    else:
        # Whoever closed that much has been told nothing else; what is until the close cannot be told from the whole otherwise.
        assert client.ended == "reset" and answer.framing == "close", "it was taken for the whole"
    check_forwarded(stored.ask("/x"), "uri-miss", b"two", stored=True)


# Parts of what is stored

TEXT = b"0123456789"
PARTS = {
    "from the front": ("bytes=0-3", b"0123", b"bytes 0-3/10"),
    "from within": ("bytes=4-6", b"456", b"bytes 4-6/10"),
    "to the end": ("bytes=7-", b"789", b"bytes 7-9/10"),
    "beyond the end": ("bytes=7-100", b"789", b"bytes 7-9/10"),
    "the last ones": ("bytes=-3", b"789", b"bytes 7-9/10"),
    "more than all": ("bytes=-100", TEXT, b"bytes 0-9/10"),
    "one byte": ("bytes=9-9", b"9", b"bytes 9-9/10"),
    "in capitals": ("Bytes=0-3", b"0123", b"bytes 0-3/10"),
}


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_what_is_stored(name, framing, cached):
    asked, body, place = PARTS[name]
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, body=TEXT, framing=framing))
    stored.ask("/x")
    answer = stored.ask("/x", f"Range: {asked}")
    check_hit(answer, body)
    assert (answer.status, answer.value("Content-Range")) == (206, place)
    assert answer.value("ETag") == b'"a"' and answer.value("Date") and answer.value("Cache-Control")
    check_hit(stored.ask("/x"), TEXT)
    assert stored.count("/x") == 1


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=100-200", "bytes=-0"])
def test_a_part_that_there_is_not(asked, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", f"Range: {asked}")
    assert (answer.status, answer.value("Content-Range")) == (416, b"bytes */10")
    assert stored.count("/x") == 1 and stored.ask("/x").body == TEXT


@pytest.mark.parametrize("asked", ["bytes=5-3", "bytes=a-b", "bytes=", "lines=0-3", "bytes 0-3", "bytes=-"])
def test_what_is_no_range_is_as_if_it_were_not_there(asked, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, body=TEXT), said("Cache-Control: no-store", body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", f"Range: {asked}")
    assert (answer.status, answer.body) == (200, TEXT)


def parts_of(answer) -> list[tuple[bytes, bytes]]:
    """Content-Range and content of each part."""
    boundary = re.search(rb'boundary="?([^";]+)', answer.value("Content-Type"))[1]
    pieces = answer.body.split(b"--" + boundary)[1:-1]
    return [
        (re.search(rb"(?i)content-range: *([^\r]+)", piece)[1], piece.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n"))
        for piece in pieces
    ]


def test_several_parts(cached):
    """All of it, or multipart/byteranges (RFC 9110, 14.6); the origin may be asked as well."""
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, body=TEXT), said("Cache-Control: no-store", body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", "Range: bytes=0-1,8-9")
    if answer.status == 200:
        assert answer.body == TEXT
    else:
        assert answer.status == 206
        assert parts_of(answer) == [(b"bytes 0-1/10", b"01"), (b"bytes 8-9/10", b"89")]


CHANGED = http_date(-24 * 3600)
IF_RANGES = {
    "the same tag": ('"a"', TAGGED, 206),
    "another tag": ('"b"', TAGGED, 200),
    "a weak tag": ('W/"a"', 'ETag: W/"a"', 200),
    "the same date": (CHANGED, f"Last-Modified: {CHANGED}", 206),
    "an earlier date": (http_date(-48 * 3600), f"Last-Modified: {CHANGED}", 200),
    "a later date": (http_date(-3600), f"Last-Modified: {CHANGED}", 200),
}


@pytest.mark.parametrize("name", IF_RANGES)
def test_a_part_if_it_is_of_the_same(name, cached):
    condition, field, status = IF_RANGES[name]
    stored = cached()
    stored.site.say("/x", said(FRESH, field, body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", "Range: bytes=0-3", f"If-Range: {condition}")
    check_hit(answer, b"0123" if status == 206 else TEXT)
    assert answer.status == status


def test_a_condition_comes_before_the_part(cached):
    """RFC 9110, 13.2.2."""
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", "Range: bytes=0-3", 'If-None-Match: "a"')
    assert (answer.status, answer.body) == (304, b"")


def test_head_knows_no_parts(cached):
    """RFC 9110, 14.2: Range is of GET."""
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", "Range: bytes=0-3", method="HEAD")
    assert answer.status == 200 and answer.value("Content-Length") == b"10"


def test_a_part_of_an_answer_that_is_no_200(cached):
    """RFC 9110, 14.2: a range is of what would have been a 200."""
    stored = cached()
    stored.site.say("/x", said(FRESH, status=404, body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", "Range: bytes=0-3")
    assert (answer.status, answer.body) == (404, TEXT)


def test_a_part_of_what_is_stale(cached):
    """It is asked after; where it still holds, the part is of what is stored."""
    stored = cached()
    stored.site.say("/x", said(*STALE, TAGGED, body=TEXT), validated('"a"', FRESH, body=TEXT))
    stored.ask("/x")
    answer = stored.ask("/x", "Range: bytes=0-3")
    assert (answer.status, answer.body, answer.value("Content-Range")) == (206, b"0123", b"bytes 0-3/10")
    answer = stored.ask("/x")
    assert (answer.status, answer.body) == (200, TEXT)


def test_a_part_of_what_is_stale_and_has_changed(cached):
    """Never a part of one and the length of the other."""
    stored = cached()
    new = said(FRESH, 'ETag: "b"', "Content-Range: bytes 0-3/4", status=206, body=b"anew")
    stored.site.say("/x", said(*STALE, TAGGED, body=TEXT), new, said(FRESH, 'ETag: "b"', body=b"anew"))
    stored.ask("/x")
    answer = stored.ask("/x", "Range: bytes=0-3")
    assert answer.body == b"anew"
    assert stored.ask("/x").body == b"anew"


def test_a_part_where_nothing_is_stored(cached):
    """The origin is asked for the part, or for all of it; and a part is never taken for the whole."""
    stored = cached()

    def parts(connection, request):
        if request.values("Range"):
            return said(FRESH, TAGGED, "Content-Range: bytes 0-3/10", status=206, body=b"0123")
        return said(FRESH, TAGGED, body=TEXT)

    stored.site.say("/x", parts)
    answer = stored.ask("/x", "Range: bytes=0-3")
    assert (answer.status, answer.body) == (206, b"0123")
    assert "hit" not in cache_status(answer)
    answer = stored.ask("/x")
    assert (answer.status, answer.body) == (200, TEXT)
    check_hit(stored.ask("/x", "Range: bytes=4-6"), b"456")


def test_a_part_of_ten_mebibytes(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, body=LARGE))
    stored.ask("/x")
    client = stored.enter()
    for first, last in ((0, 0), (65_535, 65_536), (1 << 20, (9 << 20) + 1), (len(LARGE) - 1, len(LARGE) - 1)):
        answer = stored.ask("/x", f"Range: bytes={first}-{last}", client=client)
        check_hit(answer, LARGE[first : last + 1])
    assert stored.count("/x") == 1


# Room


def test_what_is_longer_than_an_object_may_be_is_not_stored(cached):
    stored = cached(store='object = "64KiB"')
    for path, body, framing, is_stored in (
        ("/just", b"x" * 65_536, "length", True),
        ("/longer", b"x" * 65_537, "length", False),
        ("/chunks", b"x" * 65_537, "chunked", False),
        ("/close", b"x" * 65_537, "close", False),
    ):
        stored.site.say(path, said(FRESH, body=body, framing=framing))
        assert stored.ask(path).body == body
        assert stored.is_stored(path) is is_stored, path


KEPT = LARGE[: 200 << 10]


def still_stored(stored, paths: list[str]) -> list[str]:
    """HEAD stores nothing, and so makes nothing leave."""
    return [path for path in paths if cache_status(stored.ask(path, method="HEAD")).get("hit")]


def test_the_store_does_not_grow_beyond_its_memory(cached):
    stored = cached(store='memory = "1MiB"\npurge_to = 0.5')
    paths = [f"/{number}" for number in range(12)]
    for path in paths:
        stored.site.say(path, said(FRESH, body=KEPT))
        assert stored.ask(path).body == KEPT
    kept = still_stored(stored, paths)
    assert 1 <= len(kept) <= 5 and kept == paths[-len(kept) :], kept


def test_what_was_used_least_recently_makes_room(cached):
    """Five fit; the sixth leaves three at most, of which the first is one, for it was asked for again."""
    stored = cached(store='memory = "1MiB"\npurge_to = 0.6')
    paths = [f"/{number}" for number in range(6)]
    for path in paths:
        stored.site.say(path, said(FRESH, body=KEPT))
    for path in paths[:5]:
        stored.ask(path)
    check_hit(stored.ask(paths[0]))
    stored.ask(paths[5])
    kept = still_stored(stored, paths)
    assert "/0" in kept and "/5" in kept and len(kept) <= 3, kept
