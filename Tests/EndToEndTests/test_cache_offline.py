"""Stored answers where the destination cannot be reached: `offline` of [rule.cache], and what is kept even then."""

import pytest

from cache_world import FRESH, STALE, Site, cache_status, cached, check_forwarded, check_hit, numbered, policy, said
from dns_server import Answer
from problems import check_problem
from reachability_world import ADMIN
from test_limits import full_listener

OFFLINE = 'offline = "1d"'
MUST_REVALIDATE = ("Cache-Control: max-age=100, must-revalidate", "Age: 1000")


def test_a_stale_answer_where_the_destination_refuses(cached):
    stored = cached(cache=OFFLINE)
    stored.site.say("/x", said(*STALE, 'ETag: "a"', "X-A: 1"))
    stored.ask("/x")
    stored.leave()
    client = stored.enter()
    for _ in range(3):
        answer = stored.ask("/x", client=client)
        assert (answer.status, answer.body, answer.value("X-A")) == (200, b"one", b"1")
        assert int(answer.value("Age")) >= 1000
        cache_status(answer)
    answer = stored.ask("/x", method="HEAD", client=client)
    assert (answer.status, answer.value("Content-Length")) == (200, b"3")
    answer = stored.ask("/x", 'If-None-Match: "a"', client=client)
    assert answer.status == 304


def test_a_fresh_answer_does_not_know(cached):
    stored = cached(cache=OFFLINE)
    stored.site.say("/x", said(FRESH))
    stored.ask("/x")
    stored.leave()
    check_hit(stored.ask("/x"), b"one")


def test_a_destination_that_does_not_answer_the_connection(cached):
    """Time-outs of a connection count as unreachable."""
    stored = cached(cache=OFFLINE, timeouts='connect = "300ms"')
    stored.site.say("/x", said(*STALE))
    stored.ask("/x")
    port = stored.origin.port
    stored.leave()
    with full_listener(port=port):
        answer = stored.ask("/x")
        assert (answer.status, answer.body) == (200, b"one")
        assert stored.ask("/never").status in (503, 504)


def test_a_name_that_can_no_longer_be_resolved(sallyport, dns_server, raw_origin, raw_client):
    """A laptop without a network has no name server first of all."""
    site = Site()
    server = dns_server({"a.test": Answer(a=["127.0.0.1"], ttl=1)})
    names = f'[dns]\nservers = ["{server.address}"]\ntimeout = "500ms"\n'
    proxy, origin = sallyport(policy=names + policy(cache=OFFLINE)), raw_origin(site)
    site.say("/x", said(*STALE, "Connection: close"))
    host = f"a.test:{origin.port}"
    head = f"GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    assert raw_client(proxy).exchange(head).body == b"one"
    server.silent_kinds = {"A", "AAAA"}
    asked, before = len(server.questions.snapshot()), 0
    # As long as the name is remembered, the origin is asked.
    while len(site.requests("/x")) > before:
        before = len(site.requests("/x"))
        answer = raw_client(proxy).exchange(head)
        assert (answer.status, answer.body) == (200, b"one"), answer.reason
    assert len(server.questions.snapshot()) > asked


NOT_OFFLINE = {
    "nothing is said": ("", STALE),
    "0s": ('offline = "0s"', STALE),
    "too old": ('offline = "10m"', STALE),
    "must-revalidate": (OFFLINE, MUST_REVALIDATE),
    "proxy-revalidate": (OFFLINE, ("Cache-Control: max-age=100, proxy-revalidate", "Age: 1000")),
    "no-cache": (OFFLINE, ("Cache-Control: no-cache",)),
}


@pytest.mark.parametrize("name", NOT_OFFLINE)
def test_answers_that_are_not_used_offline(name, cached):
    """must-revalidate and no-cache are kept (RFC 9111, 5.2.2.2): an error, whatever it is."""
    cache, fields = NOT_OFFLINE[name]
    stored = cached(cache=cache)
    stored.site.say("/x", said(*fields, 'ETag: "a"'))
    stored.ask("/x")
    stored.leave()
    check_problem(stored.ask("/x"), stored.ask("/never").status)
    assert stored.ask("/x").status in (502, 503, 504)


def test_the_whole_age_counts(cached):
    """Older than it may be by what it had before it came."""
    stored = cached(cache='offline = "2000s"')
    stored.site.say("/younger", said(*STALE))
    stored.site.say("/older", said("Cache-Control: max-age=100", "Age: 2001"))
    for path in ("/younger", "/older"):
        stored.ask(path)
    stored.leave()
    assert stored.ask("/younger").body == b"one"
    assert stored.ask("/older").status >= 502


def test_nothing_is_stored_and_the_destination_is_gone(cached):
    stored = cached(cache=OFFLINE)
    stored.leave()
    # What happened is told as ever: the connection was refused.
    assert stored.ask("/x").status == 502


def test_an_unsafe_method_is_not_answered_of_what_is_stored(cached):
    stored = cached(cache=OFFLINE)
    stored.site.say("/x", said(*STALE))
    stored.ask("/x")
    stored.leave()
    for method in ("POST", "PUT", "DELETE"):
        assert stored.ask("/x", method=method).status >= 502
    # It was not done, so that it changes nothing.
    assert stored.ask("/x").body == b"one"


def test_an_answer_that_nobody_may_get_is_not_given_offline(cached):
    stored = cached(cache=OFFLINE)
    stored.site.say("/x", said("Cache-Control: max-age=100", "Age: 1000", "Vary: X"))
    stored.ask("/x", "X: a")
    stored.leave()
    assert stored.ask("/x", "X: b").status >= 502
    assert stored.ask("/x", "X: a").body == b"one"


def test_an_error_of_a_destination_that_is_there_is_its_answer(cached):
    """`offline` is of destinations that cannot be reached, not of those that fail."""
    stored = cached(cache=OFFLINE)
    stored.site.say("/x", said(*STALE), said(status=503, body=b"failed"))
    stored.ask("/x")
    answer = stored.ask("/x")
    assert (answer.status, answer.body) == (503, b"failed")


@pytest.mark.parametrize("how", ["breaks off", "malformed"])
def test_a_destination_that_is_there_and_fails(how, cached):
    """Likewise where it ends the connection, or what it says is not HTTP. With `stale_if_error` these are errors."""
    failing = {
        "breaks off": lambda connection, request: False,
        "malformed": lambda connection, request: connection.send(b"HTTP/1.1 2000 What\r\n\r\n") and False,
    }[how]
    stored = cached(cache=OFFLINE)
    stored.site.say("/x", said(*STALE, "Connection: close"), failing)
    stored.ask("/x")
    assert stored.ask("/x").status == 502
    stored = cached(cache='stale_if_error = "1h"')
    stored.site.say("/x", said(*STALE, "Connection: close"), failing)
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"one", stale=True)


@pytest.mark.parametrize("word", ["reload-ignoring-cache", "reload-revalidating"])
def test_a_rule_that_wants_the_origins_word_gets_nothing_else(word, cached):
    stored = cached(cache=OFFLINE + '\nstale_if_error = "1d"', request=f'cache_policy = "{word}"')
    stored.site.say("/x", said(FRESH), said(status=503, body=b"failed"))
    stored.ask("/x")
    assert stored.ask("/x").body == b"failed"
    stored.leave()
    assert stored.ask("/x").status == 502


def test_a_destination_that_comes_back(cached, raw_origin):
    stored = cached(cache=OFFLINE)
    stored.site.say("/x", said(*STALE))
    stored.ask("/x")
    port = stored.origin.port
    stored.leave()
    assert stored.ask("/x").body == b"one"
    stored.site.say("/x", said(FRESH, body=b"two"))
    raw_origin(stored.site, port=port)
    check_forwarded(stored.ask("/x"), "stale", b"two", stored=True)
    check_hit(stored.ask("/x"), b"two")


# A rule that asks no origin


def test_a_rule_that_asks_no_origin_gives_what_is_stored_however_old(cached):
    """Without `offline`: it never tries."""
    stored = cached()
    stored.site.say("/x", numbered("Cache-Control: max-age=1", "Age: 1000000"))
    stored.ask("/x")
    connections = len(stored.origin.connections)
    stored.proxy.reload(policy=ADMIN + policy(request='cache_policy = "return-cache-dont-load"'))
    for _ in range(2):
        check_hit(stored.ask("/x"), b"answer 1", stale=True)
    assert check_problem(stored.ask("/y"), 504).token == "not-stored"
    assert len(stored.origin.connections) == connections


# Over a reload


def test_a_write_that_ends_after_a_reload_is_heard_by_the_new_store(cached):
    """The write began under the old one, and the answer in between is from before the change."""
    stored = cached()
    held = stored.site.hold("/x")
    writing = stored.start("/x", "Content-Length: 0", method="POST")
    write = held.next()
    stored.site.say("/x", said(FRESH, body=b"before"))
    stored.proxy.reload(policy=ADMIN + policy(store='memory = "9MiB"'))
    check_forwarded(stored.ask("/x"), "uri-miss", b"before", stored=True)
    check_hit(stored.ask("/x"), b"before")
    stored.site.say("/x", said(FRESH, body=b"after"))
    write.say(said(status=204))
    assert writing.answer().status == 204
    check_forwarded(stored.ask("/x"), "uri-miss", b"after")
