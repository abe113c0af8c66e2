"""Stale answers that are used: while they are asked after, and in place of an error (RFC 5861)."""

import contextlib

import pytest

from cache_world import (
    FRESH,
    STALE,
    breaks_off,
    cache_status,
    cached,
    check_forwarded,
    check_hit,
    never_answers,
    numbered,
    said,
    validated,
)
from reachability_world import asked_until
from test_limits import takes_at_least

# While it is asked after

WHILE = ("Cache-Control: max-age=100, stale-while-revalidate=5000", "Age: 1000")


def test_the_stale_answer_comes_at_once_and_the_origin_is_asked_once(cached):
    stored = cached()
    stored.site.say("/x", said(*WHILE, 'ETag: "a"'))
    stored.ask("/x")
    held = stored.site.hold("/x")
    for _ in range(5):
        assert check_hit(stored.ask("/x"), b"one", stale=True)["ttl"] <= -900
    background = held.next()
    assert background.request.value("If-None-Match") == b'"a"'
    check_hit(stored.ask("/x"), b"one", stale=True)
    assert stored.count("/x") == 2
    background.say(said(FRESH, 'ETag: "b"', body=b"two"))
    answer = asked_until(stored.enter(), stored.head("/x"), lambda answer: answer.body == b"two")
    assert check_hit(answer)["ttl"] > 3000
    assert stored.count("/x") == 2


def test_the_background_finds_that_it_still_holds(cached):
    stored = cached()
    stored.site.say("/x", said(*WHILE, 'ETag: "a"'), validated('"a"', FRESH))
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"one", stale=True)
    stored.site.wait_for("/x", 2)
    fresh = lambda answer: cache_status(answer).get("ttl", -1) > 0  # noqa: E731
    check_hit(asked_until(stored.enter(), stored.head("/x"), fresh), b"one")
    assert stored.count("/x") == 2


def test_a_client_that_leaves_at_once_ends_no_background_fetch(cached):
    stored = cached()
    stored.site.say("/x", said(*WHILE))
    stored.ask("/x")
    held = stored.site.hold("/x")
    client = stored.enter()
    check_hit(stored.ask("/x", client=client), b"one", stale=True)
    background = held.next()
    client.close()
    stored.proxy.admin.json("/v1/status")  # the loop has turned
    background.say(said(FRESH, body=b"two"))
    asked_until(stored.enter(), stored.head("/x"), lambda answer: answer.body == b"two")
    assert stored.count("/x") == 2


def test_a_background_fetch_that_fails_drops_nothing(cached):
    stored = cached()
    stored.site.say("/x", said(*WHILE, "Connection: close"), breaks_off)
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"one", stale=True)
    stored.site.wait_for("/x", 2)
    stored.origin.wait_for("done", 1)
    stored.site.say("/x", said(FRESH, body=b"two"))
    check_hit(stored.ask("/x"), b"one", stale=True)
    asked_until(stored.enter(), stored.head("/x"), lambda answer: answer.body == b"two")


def test_head_gets_the_stale_answer_too(cached):
    stored = cached()
    stored.site.say("/x", said(*WHILE), said(FRESH, body=b"two"))
    stored.ask("/x")
    answer = stored.ask("/x", method="HEAD")
    check_hit(answer, b"", stale=True)
    assert answer.value("Content-Length") == b"3"


NOT_WHILE = {
    "it went stale too long ago": ("Cache-Control: max-age=100, stale-while-revalidate=500", "Age: 1000"),
    "must-revalidate": ("Cache-Control: max-age=100, stale-while-revalidate=5000, must-revalidate", "Age: 1000"),
    "no-cache": ("Cache-Control: max-age=100, stale-while-revalidate=5000, no-cache", "Age: 1000"),
}


@pytest.mark.parametrize("name", NOT_WHILE)
def test_answers_that_have_to_be_asked_after_first(name, cached):
    stored = cached()
    stored.site.say("/x", said(*NOT_WHILE[name]), said(FRESH, body=b"two"))
    stored.ask("/x")
    check_forwarded(stored.ask("/x"), "stale", b"two", stored=True)


def test_a_request_that_wants_no_stale_answer(cached):
    stored = cached()
    stored.site.say("/x", said(*WHILE), said(FRESH, body=b"two"))
    stored.ask("/x")
    assert stored.ask("/x", "Cache-Control: no-cache").body == b"two"


# In place of an error

IF_ERROR = ("Cache-Control: max-age=100, stale-if-error=5000", "Age: 1000", "Connection: close")
HASTY = 'response_header = "300ms"'
FAILURES = {
    "a close": breaks_off,
    "a time-out": never_answers,
    "half a head": lambda connection, request: connection.send(b"HTTP/1.1 200 OK\r\nConte"),
    "500": said(status=500, body=b"failed"),
    "502": said(status=502, body=b"failed"),
    "503": said(status=503, body=b"failed"),
    "504": said(status=504, body=b"failed"),
    "503, which may be stored": said(FRESH, status=503, body=b"failed"),
}
WORDS = {
    "the origin's": (IF_ERROR, ""),
    "the rule's": ((*STALE, "Connection: close"), 'stale_if_error = "1h"'),
    "both, the longer": (("Cache-Control: max-age=100, stale-if-error=1", *IF_ERROR[1:]), 'stale_if_error = "1h"'),
}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", FAILURES)
def test_a_stale_answer_stands_in_for_an_error(name, word, cached):
    fields, cache = WORDS[word]
    stored = cached(cache=cache, timeouts=HASTY)
    stored.site.say("/x", said(*fields, 'ETag: "a"'), FAILURES[name])
    stored.ask("/x")
    with takes_at_least(0.3) if name == "a time-out" else contextlib.nullcontext():
        answer = stored.ask("/x")
    assert (answer.status, answer.body) == (200, b"one")
    assert int(answer.value("Age")) >= 1000
    cache_status(answer)
    # It is the origin's turn again.
    stored.site.say("/x", said(FRESH, body=b"two"))
    assert stored.ask("/x").body == b"two"


def test_a_stale_answer_stands_in_for_what_is_no_http(cached):
    """RFC 5861, 4: an error is any situation that would result in a 500, 502, 503 or 504."""
    stored = cached()
    stored.site.say("/x", said(*IF_ERROR), lambda connection, request: connection.send(b"220 mail.test ESMTP\r\n"))
    stored.ask("/x")
    assert stored.ask("/x").body == b"one"


@pytest.mark.parametrize("status", [200, 403, 404, 410])
def test_what_is_no_error_is_the_answer(status, cached):
    stored = cached()
    stored.site.say("/x", said(*IF_ERROR), said(status=status, body=b"new"))
    stored.ask("/x")
    answer = stored.ask("/x")
    assert (answer.status, answer.body) == (status, b"new")


NOT_IF_ERROR = {
    "nothing is said": (STALE, ""),
    "it went stale too long ago": (("Cache-Control: max-age=100, stale-if-error=500", "Age: 1000"), ""),
    "too long ago for the rule": (STALE, 'stale_if_error = "500s"'),
    "must-revalidate": (("Cache-Control: max-age=100, stale-if-error=5000, must-revalidate", "Age: 1000"), ""),
    "must-revalidate, whatever the rule says": (
        ("Cache-Control: max-age=100, must-revalidate", "Age: 1000"),
        'stale_if_error = "1h"',
    ),
    "no-cache, whatever the rule says": (("Cache-Control: no-cache",), 'stale_if_error = "1h"'),
}


@pytest.mark.parametrize("failure", ["a close", "503"])
@pytest.mark.parametrize("name", NOT_IF_ERROR)
def test_nothing_stands_in_for_an_error(name, failure, cached):
    fields, cache = NOT_IF_ERROR[name]
    stored = cached(cache=cache)
    stored.site.say("/x", said(*fields, "Connection: close"), FAILURES[failure])
    stored.ask("/x")
    answer = stored.ask("/x")
    assert answer.status == (502 if failure == "a close" else 503) and answer.body != b"one"


def test_an_error_is_passed_on_where_nothing_is_stored(cached):
    stored = cached(cache='stale_if_error = "1h"')
    stored.site.say("/x", numbered("Cache-Control: no-store", status=503))
    for number in (1, 2):
        answer = stored.ask("/x")
        assert (answer.status, answer.body) == (503, b"answer %d" % number)


def test_an_answer_that_breaks_off_drops_nothing(cached):
    """The head of what is new has gone out: what is old cannot take its place, but is there for the next error."""
    stored = cached()
    stored.site.say("/x", said(*IF_ERROR), said(FRESH, body=b"x" * 1000, cut=100), breaks_off)
    stored.ask("/x")
    client = stored.start("/x")
    assert client.wait_for_end() in ("closed", "reset")
    assert client.received.endswith(b"x" * 100)
    answer = stored.ask("/x")
    assert answer.body == b"one"
