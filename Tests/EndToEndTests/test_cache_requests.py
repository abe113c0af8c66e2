"""What a request may ask of a cache (RFC 9111, 5.2.1), and what a rule asks for it: cache_policy."""

import pytest

from cache_world import (
    FRESH,
    STALE,
    STALE_BY,
    breaks_off,
    cache_status,
    cached,
    check_forwarded,
    check_hit,
    numbered,
    policy,
    said,
    validated,
)
from problems import check_problem
from reachability_world import ADMIN

# Fresh for 1000 s, and 500 s old: fresh for 500 s more.
HALF = ("Cache-Control: max-age=1000", "Age: 500")

USED = {
    "max-age": (HALF, "max-age=700"),
    "max-age that the answer does not reach": (HALF, "max-age=5000"),
    "min-fresh": (HALF, "min-fresh=300"),
    "both": (HALF, "max-age=700, min-fresh=300"),
    "max-stale of a fresh one": (HALF, "max-stale=0"),
    "only-if-cached": (HALF, "only-if-cached"),
    "no-transform": (HALF, "no-transform"),
    "something unknown": (HALF, "x-new=1"),
}


@pytest.mark.parametrize("name", USED)
def test_a_request_that_a_stored_answer_satisfies(name, cached):
    fields, directives = USED[name]
    stored = cached()
    stored.site.say("/x", said(*fields), said(body=b"two"))
    stored.ask("/x")
    check_hit(stored.ask("/x", f"Cache-Control: {directives}"), b"one")


NOT_USED = {
    "no-cache": "no-cache",
    "max-age": "max-age=300",
    "max-age=0": "max-age=0",
    "min-fresh": "min-fresh=700",
    "in capitals": "Max-Age=300",
    "quoted": 'max-age="300"',
    "max-age, though some staleness may be": "max-age=300, max-stale=10",
}


@pytest.mark.parametrize("name", NOT_USED)
def test_a_request_that_a_stored_answer_does_not_satisfy(name, cached):
    stored = cached()
    stored.site.say("/x", said(*HALF), said(FRESH, body=b"two"))
    stored.ask("/x")
    check_forwarded(stored.ask("/x", f"Cache-Control: {NOT_USED[name]}"), "request", b"two", stored=True)
    check_hit(stored.ask("/x"), b"two")


def test_no_cache_asks_after_what_is_stored(cached):
    stored = cached()
    stored.site.say("/x", validated('"a"', FRESH))
    stored.ask("/x")
    answer = stored.ask("/x", "Cache-Control: no-cache")
    check_forwarded(answer, "request", b"one", fwd_status=304)
    assert answer.status == 200 and stored.count("/x") == 2


def test_no_store_of_a_request(cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH))
    for number in (1, 2):
        check_forwarded(
            stored.ask("/x", "Cache-Control: no-store"), ("uri-miss", "request"), b"answer %d" % number, stored=None
        )
    check_forwarded(stored.ask("/x"), "uri-miss", b"answer 3", stored=True)


def test_no_store_of_a_request_leaves_what_is_stored(cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH))
    stored.ask("/x")
    assert stored.ask("/x", "Cache-Control: no-store").status == 200
    check_hit(stored.ask("/x"), b"answer 1")


STALE_USED = {"any": "max-stale", "enough": f"max-stale={STALE_BY + 500}"}


@pytest.mark.parametrize("name", STALE_USED)
def test_max_stale(name, cached):
    stored = cached()
    stored.site.say("/x", said(*STALE), said(body=b"two"))
    stored.ask("/x")
    parameters = check_hit(stored.ask("/x", f"Cache-Control: {STALE_USED[name]}"), b"one", stale=True)
    assert -STALE_BY - 100 < parameters["ttl"] <= -STALE_BY


STALE_NOT_USED = {
    "too little": (STALE, f"max-stale={STALE_BY - 100}"),
    "must-revalidate": (("Cache-Control: max-age=100, must-revalidate", "Age: 1000"), "max-stale"),
    "proxy-revalidate": (("Cache-Control: max-age=100, proxy-revalidate", "Age: 1000"), "max-stale"),
    "s-maxage": (("Cache-Control: s-maxage=100", "Age: 1000"), "max-stale"),
    "no-cache": (("Cache-Control: no-cache",), "max-stale"),
}


@pytest.mark.parametrize("name", STALE_NOT_USED)
def test_max_stale_that_does_not_help(name, cached):
    """RFC 9111, 5.2.2: s-maxage means proxy-revalidate, too."""
    fields, directives = STALE_NOT_USED[name]
    stored = cached()
    stored.site.say("/x", said(*fields), said(FRESH, body=b"two"))
    stored.ask("/x")
    assert stored.ask("/x", f"Cache-Control: {directives}").body == b"two"


# only-if-cached


def check_not_stored(answer) -> None:
    assert check_problem(answer, 504).token == "not-stored"
    assert "hit" not in cache_status_or_none(answer)


def cache_status_or_none(answer) -> dict:
    return cache_status(answer) if answer.values("Cache-Status") else {}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_only_if_cached_without_anything_stored(method, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH))
    answer = stored.ask("/x", "Cache-Control: only-if-cached", method=method)
    assert answer.status == 504
    assert not stored.origin.connections


def test_only_if_cached_beside_what_passes_the_store_by(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH))
    answer = stored.ask("/x", "Cache-Control: only-if-cached, no-store")
    assert answer.status == 504 and not stored.origin.connections


def test_only_if_cached_and_stale(cached):
    stored = cached()
    stored.site.say("/x", said(*STALE))
    stored.ask("/x")
    assert stored.ask("/x", "Cache-Control: only-if-cached").status == 504
    assert stored.ask("/x", "Cache-Control: only-if-cached, max-stale").body == b"one"
    assert stored.count("/x") == 1


def test_the_connection_goes_on_after_only_if_cached(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH))
    client = stored.enter()
    answer = stored.ask("/x", "Cache-Control: only-if-cached", client=client)
    check_not_stored(answer)
    assert stored.ask("/x", client=client).body == b"one"
    assert stored.ask("/x", "Cache-Control: only-if-cached", client=client).body == b"one"


def test_a_refusal_says_what_the_cache_did(cached):
    stored = cached()
    assert "hit" not in cache_status(stored.ask("/x", "Cache-Control: only-if-cached"))


def test_a_failed_fetch_says_what_the_cache_did(cached):
    stored = cached()
    stored.site.say("/x", breaks_off)
    answer = stored.ask("/x")
    assert answer.status == 502
    check_forwarded(answer, "uri-miss", stored=None)


# cache_policy


def asking(way: str) -> str:
    return f'cache_policy = "{way}"'


def test_reload_ignoring_cache(cached):
    """The origin is asked each time, and without a condition."""
    stored = cached(request=asking("reload-ignoring-cache"))
    stored.site.say("/x", validated('"a"', FRESH))
    for _ in range(3):
        check_forwarded(stored.ask("/x"), "bypass", b"one", fwd_status=None)
    assert [request.values("If-None-Match") for request in stored.site.requests("/x")] == [[]] * 3


def test_reload_revalidating(cached):
    """What is fresh is asked after, too."""
    stored = cached(request=asking("reload-revalidating"))
    stored.site.say("/x", validated('"a"', FRESH))
    check_forwarded(stored.ask("/x"), "uri-miss", b"one", stored=True)
    for _ in range(2):
        answer = stored.ask("/x")
        assert answer.status == 200
        assert cache_status(answer)["fwd-status"] == 304 and answer.body == b"one"
    assert [request.values("If-None-Match") for request in stored.site.requests("/x")] == [[], [b'"a"'], [b'"a"']]


ELSE_LOAD = {
    "fresh": [FRESH],
    "stale": [*STALE],
    "must-revalidate": ["Cache-Control: max-age=100, must-revalidate", "Age: 1000"],
    "no-cache": ["Cache-Control: no-cache"],
}


@pytest.mark.parametrize("name", ELSE_LOAD)
def test_return_cache_else_load(name, cached):
    """It serves regardless, as AFNetworking's does."""
    stored = cached(request=asking("return-cache-else-load"))
    stored.site.say("/x", numbered(*ELSE_LOAD[name]))
    check_forwarded(stored.ask("/x"), "uri-miss", b"answer 1", stored=True)
    for _ in range(2):
        check_hit(stored.ask("/x"), b"answer 1", stale=name != "fresh")
    assert stored.count("/x") == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_return_cache_dont_load_without_anything_stored(method, cached):
    stored = cached(request=asking("return-cache-dont-load"))
    stored.site.say("/x", said(FRESH))
    client = stored.enter()
    for _ in range(2):
        answer = stored.ask("/x", method=method, client=client)
        assert answer.status == 504 and answer.reason.startswith(b"not-stored ")
        if method == "GET":
            check_not_stored(answer)
    assert not stored.origin.connections


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_return_cache_dont_load_and_unsafe_methods(method, cached):
    stored = cached(request=asking("return-cache-dont-load"))
    check_problem(stored.ask("/x", method=method, body=b"sent"), 504)
    assert not stored.origin.connections


def test_return_cache_dont_load_where_the_rule_does_not_store(sallyport, raw_client, raw_origin):
    """It is always 504 then."""
    proxy = sallyport(policy='[[rule]]\nname = "r"\n[rule.request]\ncache_policy = "return-cache-dont-load"\n')
    origin = raw_origin(lambda connection: None)
    head = f"GET {origin.url}/x HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()
    assert check_problem(raw_client(proxy).exchange(head), 504).token == "not-stored"
    assert not origin.connections


@pytest.mark.parametrize("name", ELSE_LOAD)
def test_return_cache_dont_load_of_what_is_stored(name, cached):
    """It was stored before the rule forbade to ask the origin; a reload keeps it."""
    stored = cached()
    stored.site.say("/x", numbered(*ELSE_LOAD[name]))
    stored.ask("/x")
    stored.proxy.reload(policy=ADMIN + policy(request=asking("return-cache-dont-load")))
    for method, body in (("GET", b"answer 1"), ("HEAD", b""), ("GET", b"answer 1")):
        check_hit(stored.ask("/x", method=method), body, stale=name != "fresh")
    assert stored.ask("/other").status == 504
    assert stored.count("/x") == 1 and len(stored.origin.connections) == 1
