"""Stored answers: which are stored, for how long they are fresh, and what Cache-Status says of them (RFC 9111, 9211, 9213).

Validation is in test_cache_validation.py, what requests may ask for in test_cache_requests.py, contents and parts of them in
test_cache_bodies.py, stale answers in test_cache_stale.py, no destination in test_cache_offline.py, shared fetches in
test_cache_sharing.py, whose answers they are in test_cache_owners.py, and https in test_cache_intercepted.py.
"""

import pytest

from cache_world import (
    FRESH,
    Site,
    cache_status,
    cached,
    check_forwarded,
    check_hit,
    http_date,
    members_of_cache_status,
    numbered,
    said,
)
from reachability_world import get

# What is fresh

FRESH_ANSWERS = {
    "max-age": [FRESH],
    "in other letters": ["cache-control: MAX-AGE=3600"],
    "as a quoted string": ['Cache-Control: max-age="3600"'],
    "among unknown directives": ['Cache-Control: x-new, y="a, no-store, b", max-age=3600, z=1'],
    "in a second field": ["Cache-Control: x-new", FRESH],
    "longer than any integer": ["Cache-Control: max-age=99999999999999999999"],
    "s-maxage before max-age": ["Cache-Control: max-age=0, s-maxage=3600"],
    "Expires": [f"Expires: {http_date(3600)}"],
    "max-age before Expires": [FRESH, f"Expires: {http_date(-3600)}"],
    "old, but not too old": [FRESH, "Age: 1800"],
    "must-revalidate": ["Cache-Control: max-age=3600, must-revalidate"],
    "heuristically": [f"Last-Modified: {http_date(-10 * 24 * 3600)}"],
    "public": ["Cache-Control: public, max-age=3600"],
}


@pytest.mark.parametrize("name", FRESH_ANSWERS)
def test_a_fresh_answer_is_used(name, cached):
    stored = cached()
    stored.site.say("/x", numbered(*FRESH_ANSWERS[name]))
    first = stored.ask("/x")
    parameters = check_forwarded(first, "uri-miss", b"answer 1", stored=True, collapsed=None)
    assert parameters["ttl"] > 0
    second = stored.ask("/x")
    assert check_hit(second, b"answer 1")["ttl"] > 0
    assert stored.count("/x") == 1
    age = {bytes(value) for name, value in first.fields if name.lower() == b"age"} or {b"0"}
    assert int(second.value("Age")) >= int(age.pop())


STALE_ANSWERS = {
    "max-age=0": ["Cache-Control: max-age=0"],
    "s-maxage before max-age": ["Cache-Control: max-age=3600, s-maxage=0"],
    "no-cache": ["Cache-Control: no-cache, max-age=3600"],
    "Expires has passed": [f"Expires: {http_date(-10)}"],
    "Expires is no date": ["Expires: 0"],
    "Expires twice, and no date": ["Expires: 0", "Expires: -1"],
    "max-age before Expires": ["Cache-Control: max-age=0", f"Expires: {http_date(3600)}"],
    "no number": ["Cache-Control: max-age=soon"],
    "a negative number": ["Cache-Control: max-age=-1"],
    "as old as it may be": ["Cache-Control: max-age=100", "Age: 100"],
    "made long ago": ["Cache-Control: max-age=100", f"Date: {http_date(-200)}"],
    "nothing is said": [],
    "heuristically, changed since": [f"Last-Modified: {http_date(3600)}"],
}


@pytest.mark.parametrize("name", STALE_ANSWERS)
def test_an_answer_that_is_not_fresh_is_not_used(name, cached):
    stored = cached()
    stored.site.say("/x", numbered(*STALE_ANSWERS[name]))
    for number in (1, 2):
        answer = stored.ask("/x")
        assert "hit" not in cache_status(answer) and answer.body == b"answer %d" % number
    assert stored.count("/x") == 2


NOT_STORED = {
    "no-store": ["Cache-Control: no-store, max-age=3600"],
    "no-store in capitals": ["Cache-Control: No-Store", FRESH],
    "private": ["Cache-Control: private, max-age=3600"],
    "every request differs": [FRESH, "Vary: *"],
    "every request differs in one of them": [FRESH, "Vary: Accept, *"],
    "a cookie for one": [FRESH, "Set-Cookie: a=1"],
}


@pytest.mark.parametrize("name", NOT_STORED)
def test_what_may_not_be_stored_is_not(name, cached):
    stored = cached()
    stored.site.say("/x", numbered(*NOT_STORED[name]))
    for number in (1, 2):
        answer = stored.ask("/x")
        check_forwarded(answer, ("uri-miss", "vary-miss", "miss"), b"answer %d" % number, stored=None)
    assert stored.count("/x") == 2


def test_what_says_that_it_is_public_is_stored_with_its_cookie(cached):
    """What is stored is replayed whole."""
    stored = cached()
    stored.site.say("/x", numbered("Cache-Control: public, max-age=3600", "Set-Cookie: a=1", "Set-Cookie: b=2"))
    stored.ask("/x")
    answer = stored.ask("/x")
    check_hit(answer, b"answer 1")
    assert answer.values("Set-Cookie") == [b"a=1", b"b=2"]


@pytest.mark.parametrize("status", [200, 203, 301, 302, 307, 308, 404, 405, 410, 414, 501])
def test_statuses_that_are_stored_where_the_origin_says_how_long(status, cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH, status=status))
    stored.ask("/x")
    answer = stored.ask("/x")
    check_hit(answer, b"answer 1")
    assert answer.status == status


def test_an_answer_without_content_is_stored(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, "X-Run: 1", status=204), said(FRESH, "X-Run: 2", status=204))
    stored.ask("/x")
    answer = stored.ask("/x")
    check_hit(answer, b"")
    assert (answer.status, answer.value("X-Run")) == (204, b"1")


@pytest.mark.parametrize("status", [302, 403, 500, 503])
def test_statuses_that_are_not_fresh_by_themselves(status, cached):
    """Heuristics are for statuses that RFC 9110 (15.1) lists."""
    stored = cached()
    stored.site.say("/x", numbered(f"Last-Modified: {http_date(-10 * 24 * 3600)}", status=status))
    for number in (1, 2):
        assert stored.ask("/x").body == b"answer %d" % number


def test_a_part_is_not_stored_as_the_whole(cached):
    """Of an origin that answers with a part: it is not complete (RFC 9111, 3.3)."""
    stored = cached()
    part = said(FRESH, 'ETag: "a"', "Content-Range: bytes 0-2/6", status=206, body=b"one")
    stored.site.say("/x", part, said(FRESH, 'ETag: "a"', body=b"onetwo"))
    assert stored.ask("/x", "Range: bytes=0-2").status == 206
    answer = stored.ask("/x")
    assert (answer.status, answer.body) == (200, b"onetwo")


MUST_UNDERSTAND = {
    "understood": (200, "must-understand, no-store, max-age=3600", True),
    "understood, nothing said of storing": (404, "must-understand, max-age=3600", True),
    "not understood": (299, "must-understand, max-age=3600", False),
    "not understood, and not to be stored": (299, "must-understand, no-store, max-age=3600", False),
}


@pytest.mark.parametrize("name", MUST_UNDERSTAND)
def test_must_understand(name, cached):
    status, directives, is_stored = MUST_UNDERSTAND[name]
    stored = cached()
    stored.site.say("/x", numbered(f"Cache-Control: {directives}", status=status))
    stored.ask("/x")
    assert stored.is_stored("/x") is is_stored


AUTHORIZED = {
    "nothing said of it": (FRESH, False),
    "public": ("Cache-Control: public, max-age=3600", True),
    "s-maxage": ("Cache-Control: s-maxage=3600", True),
    "must-revalidate": ("Cache-Control: must-revalidate, max-age=3600", True),
    "private": ("Cache-Control: private, max-age=3600", False),
}


@pytest.mark.parametrize("lines", [["Authorization: Basic Yjpi"], []], ids=["of another", "none"])
@pytest.mark.parametrize("name", AUTHORIZED)
def test_answers_to_requests_with_credentials(name, lines, cached):
    """RFC 9111, 3.5: they are shared where the origin says so."""
    field, is_shared = AUTHORIZED[name]
    stored = cached()
    stored.site.say("/x", numbered(field))
    stored.ask("/x", "Authorization: Basic YTph")
    assert (stored.ask("/x", *lines).body == b"answer 1") is is_shared


# Age


def test_the_age_counts_what_came_before(cached):
    stored = cached()
    stored.site.say("/x", said("Cache-Control: max-age=5000", "Age: 1000"))
    assert stored.ask("/x").value("Age") == b"1000"
    answer = stored.ask("/x")
    parameters = check_hit(answer)
    assert 1000 <= int(answer.value("Age")) < 2000
    assert parameters["ttl"] + int(answer.value("Age")) == 5000


def test_the_age_is_at_least_what_the_date_says(cached):
    stored = cached()
    stored.site.say("/x", said("Cache-Control: max-age=5000", f"Date: {http_date(-1000)}"))
    stored.ask("/x")
    assert 999 <= int(stored.ask("/x").value("Age")) < 2000


def test_a_clock_that_is_ahead_makes_nothing_younger_than_new(cached):
    stored = cached()
    stored.site.say("/x", said("Cache-Control: max-age=5000", f"Date: {http_date(1000)}", "Age: 10"))
    stored.ask("/x")
    answer = stored.ask("/x")
    check_hit(answer)
    assert 10 <= int(answer.value("Age")) < 1000


def test_the_fields_of_a_stored_answer_are_those_that_came(cached):
    """But for those of the hop that it came by (RFC 9111, 3.1)."""
    stored = cached()
    own = ["X-A: 1", "X-A: 2", "Content-Type: text/x-test; a=b", f"Date: {http_date(-5)}", 'ETag: "a"', "Link: </a>"]
    stored.site.say("/x", said(FRESH, *own, "Connection: X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5"))
    stored.ask("/x")
    answer = stored.ask("/x")
    check_hit(answer, b"one")
    for name in ("X-A", "Content-Type", "Date", "ETag", "Link"):
        expected = [line.partition(": ")[2].encode() for line in own if line.startswith(name + ":")]
        assert answer.values(name) == expected, name
    assert not answer.values("X-Hop") and not answer.values("Keep-Alive")
    assert (answer.status, answer.reason, answer.value("Content-Length")) == (200, b"Said", b"3")


@pytest.mark.parametrize("directive", ["no-cache", "private"])
def test_fields_that_are_only_for_the_first(directive, cached):
    """RFC 9111, 5.2.2.4 and 5.2.2.7: the rest may be used, these not."""
    stored = cached()
    fields = [f'Cache-Control: max-age=3600, {directive}="X-Secret, X-Other"', "X-Secret: mine", "X-Other: too"]
    stored.site.say("/x", said(*fields), said("Cache-Control: no-store"))
    assert stored.ask("/x").value("X-Secret") == b"mine"
    answer = stored.ask("/x")
    assert answer.body == b"one" and not answer.values("X-Secret") and not answer.values("X-Other")


# A rule's own word


def test_the_rule_says_how_long_an_answer_is_fresh(cached):
    stored = cached(cache='fresh_for = "1h"')
    stored.site.say("/x", numbered("Cache-Control: max-age=0"))
    assert 3500 < check_forwarded(stored.ask("/x"), "uri-miss", stored=True)["ttl"] <= 3600
    assert 3500 < check_hit(stored.ask("/x"), b"answer 1")["ttl"] <= 3600


def test_the_rule_makes_fresh_answers_stale_too(cached):
    stored = cached(cache='fresh_for = "1m"')
    stored.site.say("/x", numbered(FRESH, "Age: 100"))
    stored.ask("/x")
    assert not stored.is_stored("/x")


@pytest.mark.parametrize("name", ["no-store", "private"])
def test_the_rule_stores_nothing_that_the_origin_forbids(name, cached):
    """`fresh_for` is for what it lets be stored."""
    stored = cached(cache='fresh_for = "1h"')
    stored.site.say("/x", numbered(f"Cache-Control: {name}"))
    stored.ask("/x")
    assert not stored.is_stored("/x")


# Targeted fields (RFC 9213)

CDN = 'targets = ["CDN-Cache-Control"]'
TARGETED = {
    "speaks to us": (CDN, ["CDN-Cache-Control: max-age=3600", "Cache-Control: no-store"], True),
    "forbids it to us": (CDN, ["CDN-Cache-Control: no-store", FRESH], False),
    "stands before Expires": (CDN, ["CDN-Cache-Control: max-age=0", f"Expires: {http_date(3600)}"], False),
    "is empty": (CDN, ["CDN-Cache-Control:", FRESH], True),
    "is no dictionary": (CDN, ["CDN-Cache-Control: max-age=0, =", FRESH], True),
    "speaks to others": ("", ["CDN-Cache-Control: no-store", FRESH], True),
    "speaks to others of another name": (CDN, ["Other-Cache-Control: max-age=3600", "Cache-Control: no-store"], False),
    "the first of two": (
        'targets = ["Our-Cache-Control", "CDN-Cache-Control"]',
        ["CDN-Cache-Control: no-store", "Our-Cache-Control: max-age=3600"],
        True,
    ),
    "the second of two": (
        'targets = ["Our-Cache-Control", "CDN-Cache-Control"]',
        ["CDN-Cache-Control: max-age=3600", "Cache-Control: no-store"],
        True,
    ),
}


@pytest.mark.parametrize("name", TARGETED)
def test_a_targeted_field(name, cached):
    store, fields, is_stored = TARGETED[name]
    stored = cached(store=store)
    stored.site.say("/x", numbered(*fields))
    stored.ask("/x")
    assert stored.is_stored("/x") is is_stored


# Which answer it is


def test_another_url_is_another_answer(cached):
    stored = cached()
    paths = ["/x", "/x?", "/x?a", "/x?b", "/X", "/x/"]
    for path in paths:
        stored.site.say(path, said(FRESH, body=path.encode()))
    for path in paths * 2:
        assert stored.ask(path).body == path.encode()
    assert [stored.count(path) for path in paths] == [1] * len(paths)


def test_another_port_is_another_answer(cached, raw_origin):
    stored, other = cached(), cached()
    for site, body in ((stored.site, b"here"), (other.site, b"there")):
        site.say("/x", said(FRESH, body=body))
    client = stored.enter()
    for origin, body in ((stored, b"here"), (other, b"there")) * 2:
        assert client.exchange(origin.head("/x")).body == body


def test_a_variant_for_each_that_the_answer_varies_by(cached):
    stored = cached()
    fields = [FRESH, "Vary: Accept-Language, X-Kind"]
    stored.site.say("/x", *(said(*fields, body=body) for body in (b"en", b"de", b"en-b", b"none")))
    asked = {
        b"en": ["Accept-Language: en", "X-Kind: a"],
        b"de": ["Accept-Language: de", "X-Kind: a"],
        b"en-b": ["Accept-Language: en", "X-Kind: b"],
        b"none": [],
    }
    reasons = ["uri-miss", "vary-miss", "vary-miss", "vary-miss"]
    for reason, (body, lines) in zip(reasons, asked.items()):
        check_forwarded(stored.ask("/x", *lines), reason, body, stored=True)
    for body, lines in asked.items():
        check_hit(stored.ask("/x", *lines), body)
    assert stored.count("/x") == 4


def test_fields_that_an_answer_does_not_vary_by(cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH, "Vary: Accept-Language"))
    stored.ask("/x", "Accept-Language: en", "User-Agent: a", "Cookie: a=1")
    check_hit(stored.ask("/x", "User-Agent: b", "Accept-Language: en", "Accept: text/*", "Cookie: a=2"), b"answer 1")


# Cache-Status


def test_what_other_caches_said_comes_before(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, 'Cache-Status: "edge 1"; hit; ttl=5, OtherCache; fwd=miss'))
    for _ in range(2):
        answer = stored.ask("/x")
        members = members_of_cache_status(", ".join(value.decode() for value in answer.values("Cache-Status")))
        assert [name for name, _ in members] == ['"edge 1"', "OtherCache", "sallyport"]
    check_hit(answer)


def test_a_method_that_is_not_stored_says_so(cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH))
    for method in ("POST", "PUT", "OPTIONS"):
        check_forwarded(stored.ask("/x", method=method), "method", stored=None)
    check_forwarded(stored.ask("/x"), "uri-miss")


def test_a_rule_that_stores_nothing_says_nothing(cached):
    stored = cached('paths = ["/kept"]', more='[[rule]]\nname = "rest"\n')
    stored.site.say("/x", numbered(FRESH))
    for number in (1, 2):
        answer = stored.ask("/x")
        assert answer.body == b"answer %d" % number and not answer.values("Cache-Status")


def test_nothing_is_stored_without_a_place_for_it(sallyport, raw_origin, raw_client):
    """[rule.cache] without [cache]."""
    site = Site()
    proxy, origin = sallyport(policy='[[rule]]\nname = "kept"\n[rule.cache]\n'), raw_origin(site)
    site.say("/x", numbered(FRESH))
    client = raw_client(proxy)
    assert [client.exchange(get(origin, "/x")).body for _ in range(2)] == [b"answer 1", b"answer 2"]


def test_one_client_gets_stored_and_other_answers_in_turn(cached):
    stored = cached()
    stored.site.say("/kept", numbered(FRESH))
    stored.site.say("/new", numbered("Cache-Control: no-store"))
    client = stored.enter()
    for number in range(1, 6):
        assert stored.ask("/kept", client=client).body == b"answer 1"
        assert stored.ask("/new", client=client).body == b"answer %d" % number
    client.send(stored.head("/kept") + stored.head("/new") + stored.head("/kept"))
    assert [client.answer().body for _ in range(3)] == [b"answer 1", b"answer 6", b"answer 1"]


def test_a_stored_answer_has_its_line_in_the_log(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH))
    stored.ask("/x")
    stored.ask("/x")
    lines = stored.proxy.log.wait_for_several(2, lambda entry: "total_ms" in entry)
    assert [(line["status"], line["rule"], line["outcome"]) for line in lines] == [(200, "kept", "done")] * 2
