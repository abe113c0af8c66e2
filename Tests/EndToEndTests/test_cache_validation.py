"""Stored answers that are asked after: conditions on both sides, 304, HEAD; what unsafe methods drop (RFC 9111, 4.3, 4.4)."""

import pytest

from cache_world import (
    FRESH,
    STALE,
    cache_status,
    cached,
    check_forwarded,
    check_hit,
    http_date,
    numbered,
    said,
    validated,
)

CHANGED = http_date(-24 * 3600)
TAGGED = 'ETag: "a"'

# What the origin is asked

VALIDATORS = {
    "an entity tag": ([TAGGED], {"If-None-Match": b'"a"', "If-Modified-Since": None}),
    "a weak one": (['ETag: W/"a"'], {"If-None-Match": b'W/"a"', "If-Modified-Since": None}),
    "a date": ([f"Last-Modified: {CHANGED}"], {"If-None-Match": None, "If-Modified-Since": CHANGED.encode()}),
    "both": (
        [TAGGED, f"Last-Modified: {CHANGED}"],
        {"If-None-Match": b'"a"', "If-Modified-Since": CHANGED.encode()},
    ),
}


@pytest.mark.parametrize("name", VALIDATORS)
def test_a_stale_answer_is_asked_after(name, cached):
    fields, conditions = VALIDATORS[name]
    stored = cached()
    stored.site.say("/x", said(*STALE, *fields), said(FRESH, *fields, status=304), said(body=b"two"))
    check_forwarded(stored.ask("/x"), "uri-miss", b"one", stored=True)
    answer = stored.ask("/x")
    assert answer.status == 200 and answer.value("Content-Length") == b"3"
    assert check_forwarded(answer, "stale", b"one", fwd_status=304)["ttl"] > 3000
    asked = stored.site.requests("/x")[1]
    assert {name: asked.value(name) for name in conditions} == conditions
    check_hit(stored.ask("/x"), b"one")


def test_an_answer_without_a_validator_is_fetched_anew(cached):
    stored = cached()
    stored.site.say("/x", said(*STALE), said(FRESH, body=b"two"))
    stored.ask("/x")
    check_forwarded(stored.ask("/x"), "stale", b"two", stored=True)
    asked = stored.site.requests("/x")[1]
    assert not asked.values("If-None-Match") and not asked.values("If-Modified-Since")
    check_hit(stored.ask("/x"), b"two")


def test_an_answer_that_has_changed_takes_the_place(cached):
    stored = cached()
    stored.site.say("/x", said(*STALE, TAGGED), said(FRESH, 'ETag: "b"', "X-Run: 2", body=b"two"))
    stored.ask("/x")
    check_forwarded(stored.ask("/x"), "stale", b"two", stored=True)
    assert check_hit(stored.ask("/x"), b"two") and stored.count("/x") == 2


def test_an_answer_that_may_no_longer_be_stored(cached):
    stored = cached()
    stored.site.say("/x", said(*STALE, TAGGED), numbered("Cache-Control: no-store"))
    stored.ask("/x")
    for number in (1, 2):
        assert stored.ask("/x").body == b"answer %d" % number


def test_304_brings_new_fields(cached):
    """RFC 9111, 3.2: each field that came replaces the stored ones of its name, but for those of the content."""
    stored = cached()
    first = said(*STALE, TAGGED, "X-Run: 1", "X-Run: 1b", "X-Kept: 1", "Content-Type: text/x-test")
    renewed = [FRESH, TAGGED, "X-Run: 2", "X-New: 2", "Content-Length: 3"]
    stored.site.say("/x", first, said(*renewed, status=304))
    stored.ask("/x")
    for answer in (stored.ask("/x"), stored.ask("/x")):
        assert answer.values("X-Run") == [b"2"] and answer.values("X-New") == [b"2"]
        assert (answer.value("X-Kept"), answer.value("Content-Type")) == (b"1", b"text/x-test")
        assert (answer.body, answer.value("ETag")) == (b"one", b'"a"')
        assert answer.value("Cache-Control") == b"max-age=3600"
    check_hit(answer)
    assert int(answer.value("Age")) < 1000


def test_304_of_another_answer_updates_nothing(cached):
    """Its strong validator is of no answer that is stored; a client that set no condition never gets a 304."""
    stored = cached()
    stored.site.say(
        "/x", said(*STALE, TAGGED), said(FRESH, 'ETag: "b"', status=304), said(FRESH, 'ETag: "b"', body=b"two")
    )
    stored.ask("/x")
    assert stored.ask("/x").status != 304
    assert stored.ask("/x").body == b"two"


def test_304_from_an_origin_that_was_asked_nothing(cached):
    """Nothing is stored: it is passed on, and not stored either."""
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, status=304), said(FRESH, TAGGED))
    assert stored.ask("/x", 'If-None-Match: "a"').status == 304
    answer = stored.ask("/x")
    assert (answer.status, answer.body) == (200, b"one")


def test_no_cache_asks_each_time(cached):
    stored = cached()
    stored.site.say("/x", validated('"a"', "Cache-Control: no-cache"))
    stored.ask("/x")
    for _ in range(3):
        answer = stored.ask("/x")
        assert answer.status == 200
        check_forwarded(answer, ("stale", "request", "miss"), b"one", fwd_status=304)
    assert stored.count("/x") == 4


def test_each_variant_has_its_own_tag(cached):
    stored = cached()
    vary = [*STALE, "Vary: Accept-Language"]
    stored.site.say("/x", said(*vary, 'ETag: "en"', body=b"en"), said(*vary, 'ETag: "de"', body=b"de"))
    stored.ask("/x", "Accept-Language: en")
    stored.ask("/x", "Accept-Language: de")
    for language in ("en", "de"):
        renewed = said(*vary, f'ETag: "{language}"', status=304)
        stored.site.say("/x", renewed)
        assert stored.ask("/x", f"Accept-Language: {language}").body == language.encode()
    for language, request in zip(("en", "de"), stored.site.requests("/x")[2:]):
        assert f'"{language}"'.encode() in request.value("If-None-Match")


def test_an_error_of_the_origin_drops_nothing(cached):
    """It is passed on where nothing says that a stale answer may stand in for it; the next one is asked after again."""
    stored = cached()
    failed = said("Cache-Control: no-store", status=503, body=b"down")
    stored.site.say("/x", said(*STALE, TAGGED), failed, validated('"a"', FRESH))
    stored.ask("/x")
    assert stored.ask("/x").status == 503
    assert stored.ask("/x").body == b"one"


# What clients ask

CLIENT_CONDITIONS = {
    "the same tag": ('If-None-Match: "a"', 304),
    "the same tag, weak": ('If-None-Match: W/"a"', 304),
    "one of several": ('If-None-Match: "c", "a"', 304),
    "any": ("If-None-Match: *", 304),
    "another tag": ('If-None-Match: "b"', 200),
    "not changed since": (f"If-Modified-Since: {http_date(-3600)}", 304),
    "the same date": (f"If-Modified-Since: {CHANGED}", 304),
    "changed since": (f"If-Modified-Since: {http_date(-48 * 3600)}", 200),
    "no date": ("If-Modified-Since: yesterday", 200),
    "the tag decides, not the date": (f'If-None-Match: "b"\r\nIf-Modified-Since: {http_date(-3600)}', 200),
}


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("name", CLIENT_CONDITIONS)
def test_a_condition_is_answered_of_what_is_stored(name, method, cached):
    condition, status = CLIENT_CONDITIONS[name]
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, f"Last-Modified: {CHANGED}", "Vary: X"), said(FRESH, body=b"two"))
    stored.ask("/x")
    answer = stored.ask("/x", condition, method=method)
    check_hit(answer, b"one" if status == 200 and method == "GET" else b"")
    assert (answer.status, answer.value("ETag")) == (status, b'"a"')
    if status == 304:  # RFC 9110, 15.4.5
        assert (answer.value("Cache-Control"), answer.value("Vary")) == (b"max-age=3600", b"X")
        assert answer.value("Date")
    assert stored.count("/x") == 1


# Named, as what is parallel collects the tests at several moments, and wants them to be the same.
@pytest.mark.parametrize(
    "condition", ['If-Match: "b"', f"If-Unmodified-Since: {http_date(-48 * 3600)}"], ids=["If-Match", "If-Unmodified-Since"])
def test_conditions_that_are_for_the_origin(condition, cached):
    """RFC 9111, 4.3.2: a cache must not evaluate them, for it is no origin; the request is passed on."""
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, f"Last-Modified: {CHANGED}"), said(status=412, body=b"no"))
    stored.ask("/x")
    answer = stored.ask("/x", condition)
    if stored.count("/x") == 1:
        check_hit(answer, b"one")  # it may be ignored by who has no need of the origin
    else:
        assert answer.status == 412


STALE_CONDITIONS = {
    "the client knows what is stored": ('If-None-Match: "a"', '"a"', 304, b""),
    "the client knows something older": ('If-None-Match: "0"', '"a"', 200, b"one"),
    "the client knows what is new": ('If-None-Match: "b"', '"b"', 304, b""),
    "nobody knows what is new": ('If-None-Match: "0"', '"b"', 200, b"new"),
    "what is stored is no longer so": ('If-None-Match: "a"', '"b"', 200, b"new"),
}


@pytest.mark.parametrize("name", STALE_CONDITIONS)
def test_a_condition_where_what_is_stored_is_stale(name, cached):
    condition, current, status, body = STALE_CONDITIONS[name]
    stored = cached()
    stored.site.say("/x", said(*STALE, TAGGED), validated(current, FRESH, body=b"one" if current == '"a"' else b"new"))
    stored.ask("/x")
    answer = stored.ask("/x", condition)
    assert (answer.status, answer.body) == (status, body)
    assert cache_status(answer)["fwd"] in ("stale", "miss", "request")
    # Whoever has no condition gets the whole, and what is new.
    answer = stored.ask("/x")
    assert (answer.status, answer.body) == (200, b"one" if current == '"a"' else b"new")


def test_a_client_that_asks_after_what_is_stale_stores_for_the_others(cached):
    stored = cached()
    stored.site.say("/x", said(*STALE, TAGGED), validated('"a"', FRESH))
    stored.ask("/x")
    assert stored.ask("/x", 'If-None-Match: "a"').status == 304
    check_hit(stored.ask("/x"), b"one")


# HEAD


def test_head_is_answered_of_what_is_stored(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED, "X-A: 1", body=b"sally" * 100))
    stored.ask("/x")
    client = stored.enter()
    for _ in range(2):
        answer = stored.ask("/x", method="HEAD", client=client)
        check_hit(answer, b"")
        assert (answer.status, answer.value("X-A"), answer.value("Content-Length")) == (200, b"1", b"500")
    assert stored.ask("/x", client=client).body == b"sally" * 100
    assert stored.count("/x") == 1


def test_head_brings_nothing_that_get_could_use(cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED))
    check_forwarded(stored.ask("/x", method="HEAD"), ("uri-miss", "method"), b"", stored=None)
    check_forwarded(stored.ask("/x"), "uri-miss", b"one", stored=True)
    assert [request.method for request in stored.site.requests("/x")] == [b"HEAD", b"GET"]


def head_of(answer):
    """Says it to HEAD, and something else to GET."""

    def script(connection, request):
        return answer if request.method == b"HEAD" else said(FRESH, 'ETag: "b"', body=b"new")

    return script


def test_head_makes_a_stored_answer_fresh(cached):
    """RFC 9111, 4.3.5: its validators and its length are those of what is stored."""
    stored = cached()
    stored.site.say("/x", said(*STALE, TAGGED, "X-Run: 1"), head_of(said(FRESH, TAGGED, "X-Run: 2")))
    stored.ask("/x")
    assert stored.ask("/x", method="HEAD").status == 200
    answer = stored.ask("/x")
    check_hit(answer, b"one")
    assert answer.values("X-Run") == [b"2"]
    assert stored.count("/x") == 2


OTHER_HEADS = {"another tag": said(FRESH, 'ETag: "b"'), "another length": said(FRESH, TAGGED, body=b"longer")}


@pytest.mark.parametrize("name", OTHER_HEADS)
def test_head_of_another_answer(name, cached):
    """What is stored is not made fresh by it."""
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED), head_of(OTHER_HEADS[name]))
    stored.ask("/x")
    stored.ask("/x", "Cache-Control: no-cache", method="HEAD")
    assert stored.count("/x") == 2
    assert stored.ask("/x").body == b"new"


# What is dropped


@pytest.mark.parametrize("sent", [b"", b"sent"], ids=["without content", "with content"])
@pytest.mark.parametrize("status", [200, 201, 204, 301])
@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "FROB"])
def test_an_unsafe_method_drops_what_is_stored(method, status, sent, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, TAGGED), said(status=status, body=b""), said(FRESH, body=b"two"))
    stored.ask("/x")
    check_forwarded(stored.ask("/x", method=method, body=sent), "method")
    check_forwarded(stored.ask("/x"), ("uri-miss", "stale"), b"two")
    assert stored.count("/x") == 3


def test_all_variants_are_dropped(cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH, "Vary: X"))
    for kind in "ab":
        stored.ask("/x", f"X: {kind}")
    stored.site.say("/x", said(status=204))
    stored.ask("/x", method="DELETE")
    stored.site.say("/x", said(FRESH, body=b"new"))
    assert [stored.ask("/x", f"X: {kind}").body for kind in "ab"] == [b"new", b"new"]


@pytest.mark.parametrize("status", [400, 404, 500])
def test_an_unsafe_method_that_failed_drops_nothing(status, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH), said(status=status, body=b"no"))
    stored.ask("/x")
    assert stored.ask("/x", method="PUT", body=b"sent").status == status
    check_hit(stored.ask("/x"), b"one")


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE"])
def test_a_safe_method_drops_nothing(method, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH), said(body=b"options"))
    stored.ask("/x")
    stored.ask("/x", method=method)
    check_hit(stored.ask("/x"), b"one")


@pytest.mark.parametrize("field", ["Location", "Content-Location"])
def test_what_another_origin_stored_is_not_dropped_by_this_one(field, cached):
    """RFC 9111, 4.4: a site must not be able to drop what is another's."""
    stored = cached()
    other = cached()
    for site in (stored, other):
        site.site.say("/x", said(FRESH))
    client = stored.enter()
    client.exchange(other.head("/x"))
    stored.site.say("/x", said(f"{field}: http://{other.authority}/x", status=201))
    stored.ask("/x", method="PUT", body=b"sent", client=client)
    check_hit(client.exchange(other.head("/x")), b"one")


def test_what_is_fetched_while_it_changes_is_not_kept(cached):
    """A GET began before the PUT and ends after it: nobody knows which of both it is of."""
    stored = cached()
    held = stored.site.hold("/x")
    reader = stored.start("/x")
    get = held.next()
    stored.site.say("/x", said(status=204))
    assert stored.ask("/x", method="PUT").status == 204
    get.say(said(FRESH, body=b"old"))
    assert reader.answer().body == b"old"
    stored.site.say("/x", said(FRESH, body=b"new"))
    assert stored.ask("/x").body == b"new"
