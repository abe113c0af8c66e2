"""What the request, the answer or the pace of one client must not do to another, or to what is stored for all."""

import time

import pytest

from cache_world import FRESH, STALE, Site, cache_status, cached, check_forwarded, check_hit, numbered, policy, said  # noqa: F401
from cache_world import validated
from journal import DEADLINE_SECONDS
from reachability_world import ADMIN
from tls_world import authority, client_context, secure_client, secure_proxy, tls_origin, world  # noqa: F401

# Whose URL it is


@pytest.mark.parametrize("first", ["a port of another's", "the usual port"])
def test_a_host_without_a_port_means_the_tunnels_port(first, cached, authority, secure_client, tls_origin, world):
    """Two servers of one host: what one answers is not stored for the other."""
    stored = cached(secure=True)
    stored.site.say("/x", said(FRESH, body=b"one"))
    site = Site()
    other = tls_origin(site, world.context(world.leaf("a.test")))
    site.say("/x", said(FRESH, body=b"two"))

    def ask(port: int) -> bytes:
        client = secure_client(stored.proxy)
        assert client.tunnel("a.test", port).status == 200
        client.shake_hands(client_context(authority.file), "a.test")
        return client.exchange(b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n").body

    assert [ask(stored.origin.port), ask(other.port), ask(stored.origin.port)] == [b"one", b"two", b"one"]
    site.release()


# Answers that are for one request


@pytest.mark.parametrize(
    "lines",
    [[], ["Cache-Control: max-age=0"], ["Cache-Control: s-maxage=0"], ["Expires: 0"], list(STALE)],
    ids=lambda lines: ", ".join(lines) or "nothing",
)
def test_an_answer_that_is_stale_when_it_comes_is_for_one(lines, cached):
    stored = cached()
    held = stored.site.hold("/x")
    alice = stored.start("/x", "Cookie: sid=alice")
    fetch = held.next()
    bob = stored.start("/x", "Cookie: sid=bob")
    stored.wait_until_asked(2)
    fetch.say(said(*lines, body=b"alice's"))
    own = held.next()
    assert own.request.value("Cookie") == b"sid=bob"
    own.say(said(*lines, body=b"bob's"))
    assert (alice.answer().body, bob.answer().body) == (b"alice's", b"bob's")
    # Nothing was gained by waiting: the next ones do not.
    clients = stored.start_several(2, "/x")
    for fetch in [held.next(), held.next()]:
        fetch.say(said(*lines, body=b"x"))
    assert [client.answer().body for client in clients] == [b"x", b"x"]


@pytest.mark.parametrize("lines", [["Set-Cookie: sid=alice"], ["Cache-Control: private, no-store", "X-For: alice"]])
def test_a_304_that_forbids_to_store_is_for_one(lines, cached):
    stored = cached()
    stored.site.say("/x", said('ETag: "v"', "Cache-Control: max-age=0", body=b"page"))
    stored.ask("/x")
    held = stored.site.hold("/x")
    alice = stored.start("/x")
    fetch = held.next()
    bob = stored.start("/x")
    stored.wait_until_asked(2)
    fetch.say(said('ETag: "v"', *lines, status=304))
    own = held.next()
    own.say(said("Cache-Control: no-store", body=b"bob's"))
    first, second = alice.answer(), bob.answer()
    assert (first.body, second.body) == (b"page", b"bob's")
    assert not second.values("Set-Cookie") and not second.values("X-For")


# One that does not read


def test_one_that_does_not_read_holds_nobody_up(cached, raw_client):
    """Each of its requests asks the origin whether what is stored is valid, and others wait for that."""
    stored = cached(timeouts='response_header = "2s"')
    stored.site.say("/v", validated('"v"', "Cache-Control: max-age=0", body=bytes(20_000)))
    stored.ask("/v")
    slow = raw_client(stored.proxy, receive_buffer=4096)
    slow.looked_at = False
    slow.send(stored.head("/v") * 200)

    def is_stuck() -> bool:
        """Its requests get no further for a while: nothing of an answer finds room."""
        counts = []
        for _ in range(10):
            counts.append(stored.count("/v"))
            time.sleep(0.05)
        return counts[0] > 1 and counts[0] == counts[-1]

    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_stuck():
        assert time.monotonic() < deadline
    for _ in range(3):
        assert stored.ask("/v").status == 200


# One that asks an origin that fails


@pytest.mark.parametrize("end", ["breaks off", "503"])
def test_all_that_wait_get_what_stands_in(end, cached):
    stored = cached(cache='stale_if_error = "1d"')
    stored.site.say("/x", said(*STALE, 'ETag: "1"', "Connection: close", body=b"old"))
    stored.ask("/x")
    held = stored.site.hold("/x")
    clients = stored.start_several(4, "/x")
    fetch = held.next()
    stored.wait_until_asked(4)
    if end == "503":
        fetch.say(said(status=503))
    else:
        fetch.break_off()
    assert {client.answer().body for client in clients} == {b"old"}
    assert stored.count("/x") == 2


# Changes


def test_a_write_that_another_rule_decides_invalidates(cached):
    stored = cached('methods = ["GET", "HEAD"]', more='[[rule]]\nname = "writes"\nmethods = ["POST"]\n')
    stored.site.say("/x", said(FRESH, body=b"old"), said(), said(FRESH, body=b"new"))
    stored.ask("/x")
    assert not stored.ask("/x", method="POST").values("Cache-Status"), "its rule has no cache"
    check_forwarded(stored.ask("/x"), "uri-miss", b"new")


def test_a_write_invalidates_what_the_rules_parameters_name(cached):
    stored = cached(
        request='parameters = { client = "kiosk" }\nparameters_in_uri = ["GET", "HEAD"]\nserializer = "http"')
    stored.site.say("/x?client=kiosk", numbered(FRESH))
    stored.site.say("/x", said())
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"answer 1")
    assert stored.ask("/x", method="DELETE").status == 200
    check_forwarded(stored.ask("/x"), "uri-miss", b"answer 2")


def test_a_write_of_another_rule_invalidates_what_parameters_name(cached):
    """Whichever of the two rules adds parameters to the URL: they are of the rule, and not of the resource."""
    stored = cached(
        'methods = ["GET", "HEAD"]',
        request='parameters = { client = "kiosk" }\nparameters_in_uri = ["GET", "HEAD"]\nserializer = "http"',
        more='[[rule]]\nname = "writes"\nmethods = ["POST"]\n'
        '[[rule]]\nname = "marks"\nmethods = ["DELETE"]\n[rule.request]\n'
        'parameters = { by = "kiosk" }\nparameters_in_uri = ["DELETE"]\nserializer = "http"\n')
    stored.site.say("/x?client=kiosk", numbered(FRESH))
    stored.site.say("/x", said())
    stored.site.say("/x?by=kiosk", said())
    for method in ("POST", "DELETE"):
        # What was asked for in the millisecond of a write is not stored.
        stored.ask("/x")
        check_hit(stored.ask("/x"))
        assert stored.ask("/x", method=method).status == 200
        check_forwarded(stored.ask("/x"), "uri-miss")


def test_who_asks_after_a_change_joins_no_fetch_from_before(cached):
    stored = cached()
    stored.site.say("/x", said('ETag: "1"', "Cache-Control: max-age=0", body=b"old"))
    stored.ask("/x")
    held = stored.site.hold("/x")
    before = stored.start("/x")
    validation = held.next()
    writer = stored.start("/x", "Content-Length: 0", method="POST")
    held.next().say(said())
    assert writer.answer().status == 200
    after = stored.start("/x")
    fetch = held.next()
    fetch.say(said(FRESH, body=b"new"))
    assert after.answer().body == b"new"
    validation.say(said('ETag: "1"', status=304))
    assert before.answer().body == b"old"


# The rule's own settings


def test_what_is_fetched_keeps_the_pace_of_its_rule(cached):
    stored = cached(request='throttle = { download = "50KiB" }')
    stored.site.say("/x", said(FRESH, body=bytes(60_000)))
    begun = time.monotonic()
    check_forwarded(stored.ask("/x"), "uri-miss", bytes(60_000), stored=True)
    assert time.monotonic() - begun > 0.5


def test_a_background_fetch_of_a_request_with_credentials_is_one(cached):
    stored = cached()
    stored.site.say("/x", said("Cache-Control: public, max-age=100, stale-while-revalidate=9999", "Age: 1000"))
    stored.ask("/x", "Authorization: Bearer x")
    held = stored.site.hold("/x")
    for _ in range(5):
        check_hit(stored.ask("/x", "Authorization: Bearer x"), stale=True)
    fetch = held.next()
    fetch.say(said("Cache-Control: public, max-age=100", body=b"new"))
    stored.proxy.admin.asked_until("/v1/connections", lambda all: not any(one["request"] for one in all))
    check_hit(stored.ask("/x", "Authorization: Bearer x"), b"new")
    assert stored.count("/x") == 2


@pytest.mark.parametrize("table", ["set", "default"])
def test_a_rule_that_adds_something_else_has_its_own_answers(table, cached):
    def lines(value: str) -> str:
        return f'headers.{table} = {{ X-Tenant = "{value}" }}'

    stored = cached(request=lines("a"))
    stored.site.say("/x", numbered(FRESH))
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"answer 1")
    if table == "default":
        check_forwarded(stored.ask("/x", "X-Tenant: mine"), "uri-miss", b"answer 2")
        check_hit(stored.ask("/x", "X-Tenant: a"), b"answer 1")
    stored.proxy.reload(policy=ADMIN + policy(request=lines("b")))
    check_forwarded(stored.ask("/x"), "uri-miss")


def test_fresh_for_is_that_of_the_policy_in_force(cached):
    stored = cached(cache='fresh_for = "30d"')
    stored.site.say("/x", numbered("Cache-Control: max-age=0", "Date: Sun, 06 Nov 1994 08:49:37 GMT"))
    stored.ask("/x")
    assert check_hit(stored.ask("/x"), b"answer 1")["ttl"] > 29 * 86400, "whatever the origin's clock says"
    stored.proxy.reload(policy=ADMIN + policy(cache='fresh_for = "0s"'))
    check_forwarded(stored.ask("/x"), "stale", b"answer 2")
    stored.proxy.reload(policy=ADMIN + policy())
    check_forwarded(stored.ask("/x"), "stale", b"answer 3")


# The disk


def test_an_answer_from_the_disk_is_used_however_little_memory_there_is(cached, tmp_path):
    stored = cached(store=f'directory = "{tmp_path / "store"}"\nmemory = "1MiB"')
    stored.site.say("/x", numbered(FRESH, framing="length"))
    big = bytes(1_500_000)
    stored.site.say("/x", said(FRESH, body=big))
    stored.ask("/x")
    for _ in range(3):
        stored.proxy.admin.asked_until("/v1/connections", lambda all: not any(one["request"] for one in all))
        check_hit(stored.ask("/x"), big)
    assert stored.count("/x") == 1
