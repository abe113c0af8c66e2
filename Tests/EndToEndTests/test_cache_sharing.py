"""Equal requests share a fetch: who waits for whom, who gets what where they differ, and what is left of it when some leave."""

import contextlib
import hashlib
import threading
import time

import pytest

from cache_world import FRESH, STALE, Said, cache_status, cached, check_forwarded, check_hit, numbered, said, validated
from journal import DEADLINE_SECONDS
from origins import ClosedByProxy
from raw_client import Ended
from users_world import NUMBERED, STRANGER, client_of

LARGE = hashlib.shake_128(b"shared").digest(10 << 20)
HEAD = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: %d\r\n\r\n"
# What the issue allows, and what a busy machine needs to see it.
ENDED_SECONDS = 2 + 1


def followers(answers: list) -> int:
    return sum("collapsed" in cache_status(answer) for answer in answers)


# At once


@pytest.mark.parametrize("count", [12, 1000])
def test_equal_requests_at_once_are_one(count, cached):
    stored = cached()
    held = stored.site.hold("/x")
    clients = stored.start_several(count, "/x")
    fetch = held.next()
    stored.wait_until_asked(count)
    fetch.say(said(FRESH, body=b"sally" * 1000))
    answers = [client.answer() for client in clients]
    assert {(answer.status, answer.body) for answer in answers} == {(200, b"sally" * 1000)}
    assert stored.count("/x") == 1 and len(stored.origin.connections) == 1
    assert followers(answers) == count - 1
    leader = next(answer for answer in answers if "collapsed" not in cache_status(answer))
    check_forwarded(leader, "uri-miss", stored=True)
    check_hit(stored.ask("/x"))


def test_the_end_of_a_fetch_is_of_those_that_wait_for_it(cached):
    """A client waits for a fetch that its rule's timeout ends at the same moment as its own request, and has sent two
    more requests, whose fetches others have begun. It is told of the first when it waits for the second.
    """
    others = '[[rule]]\nname = "others"\nhosts = ["127.0.0.1"]\n[rule.cache]\nfresh_for = "1h"\n[log]\nwho = false\n'
    stored = cached('paths = ["/x"]', request='timeout = "1s"', more=others, proxy="workers = 1")
    held = {path: stored.site.hold(path) for path in ("/x", "/y", "/z")}
    others = [stored.start("/y"), stored.start("/z")]
    fetches = [held["/y"].next(), held["/z"].next()]
    leader, client = stored.enter(), stored.enter()
    leader.send(stored.head("/x"))
    client.send(b"".join(stored.head(path) for path in ("/x", "/y", "/z")))
    assert leader.answer().status == client.answer().status == 504
    fetches[0].say(said(FRESH, body=b"of y"))
    assert client.answer().body == others[0].answer().body == b"of y"
    fetches[1].say(said(FRESH, body=b"of z"))
    assert client.answer().body == others[1].answer().body == b"of z"


def test_requests_that_come_within_the_body_share_it(cached):
    """The first ones have its beginning already; the last one gets it from there, and all of it."""
    stored = cached()
    held = stored.site.hold("/x")
    clients = [stored.start("/x")]
    fetch = held.next()
    fetch.send(HEAD % 15)
    for piece in (b"12345", b"67890", b"abcde"):
        fetch.send(piece)
        for client in clients:
            client.receive_until(piece)
            client.read_to = 0
        if piece != b"abcde":
            clients.append(stored.start("/x"))
    fetch.end()
    assert [client.answer().body for client in clients] == [b"1234567890abcde"] * 3
    assert stored.count("/x") == 1
    check_hit(stored.ask("/x"), b"1234567890abcde")


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_a_shared_answer_of_no_known_length(framing, cached):
    stored = cached()
    held = stored.site.hold("/x")
    clients = stored.start_several(5, "/x")
    fetch = held.next()
    stored.wait_until_asked(5)
    fetch.say(said(FRESH, body=LARGE[: 1 << 20], framing=framing))
    assert all(client.answer().body == LARGE[: 1 << 20] for client in clients)
    assert stored.count("/x") == 1


def test_a_shared_validation(cached):
    stored = cached()
    stored.site.say("/x", said(*STALE, 'ETag: "a"'))
    stored.ask("/x")
    held = stored.site.hold("/x")
    clients = stored.start_several(12, "/x")
    fetch = held.next()
    stored.wait_until_asked(12)
    fetch.say(said(FRESH, 'ETag: "a"', status=304))
    answers = [client.answer() for client in clients]
    assert {(answer.status, answer.body) for answer in answers} == {(200, b"one")}
    assert stored.count("/x") == 2


def test_a_shared_answer_and_what_each_asked_of_it(cached):
    """Whoever has it already, and whoever wants a part."""
    stored = cached()
    held = stored.site.hold("/x")
    plain = stored.start("/x")
    fetch = held.next()
    stored.site.say("/x", validated('"a"', FRESH, body=b"0123456789"))
    knows, part, method = (
        stored.start("/x", 'If-None-Match: "a"'),
        stored.start("/x", "Range: bytes=2-4"),
        stored.start("/x", method="HEAD"),
    )
    fetch.say(said(FRESH, 'ETag: "a"', body=b"0123456789"))
    assert plain.answer().body == b"0123456789"
    assert knows.answer().status == 304
    answer = part.answer()
    assert (answer.status, answer.body) in ((206, b"234"), (200, b"0123456789"))
    answer = method.answer()
    assert (answer.status, answer.body, answer.value("Content-Length")) == (200, b"", b"10")


# What cannot be shared


def in_language(request) -> Said:
    return said(FRESH, "Vary: Accept-Language", body=request.value("Accept-Language") * 100)


def languages_at_once(stored) -> list[bytes]:
    """Thirteen clients of two languages; the languages that the origin was asked for."""
    held = stored.site.hold("/x")
    first = stored.start("/x", "Accept-Language: en")
    fetch = held.next()
    clients = [(language, stored.start("/x", f"Accept-Language: {language}")) for language in ("en", "de") * 6]
    stored.wait_until_asked(13)
    stored.site.say("/x", lambda connection, request: in_language(request))
    fetch.say(in_language(fetch.request))
    assert first.answer().body == b"en" * 100
    for language, client in clients:
        assert client.answer().body == language.encode() * 100
    return sorted(request.value("Accept-Language") for request in stored.site.requests("/x"))


def test_each_of_two_variants_gets_its_own(cached):
    """Nothing is known of the URL: who speaks the other language waits for the head, and then asks itself."""
    asked = languages_at_once(cached())
    assert asked.count(b"en") == 1 and set(asked) == {b"en", b"de"}


def test_two_variants_at_once_are_two_fetches(cached):
    """What it varies by is known with the head of the first."""
    assert languages_at_once(cached()) == [b"de", b"en"]


def test_a_known_vary_is_a_fetch_a_variant(cached):
    stored = cached()
    fields = ("Vary: Accept-Language",)
    stored.site.say("/x", said(*STALE, 'ETag: "1"', *fields))
    stored.ask("/x", "Accept-Language: fr")
    held = stored.site.hold("/x")
    clients = [(language, stored.start("/x", f"Accept-Language: {language}")) for language in ("en", "de") * 6]
    fetches = [held.next(), held.next()]
    stored.wait_until_asked(12)
    for fetch in fetches:
        fetch.say(said(FRESH, *fields, body=fetch.request.value("Accept-Language") * 100))
    for language, client in clients:
        assert client.answer().body == language.encode() * 100
    assert stored.count("/x") == 3


NOT_SHARED = {
    "no-store": ["Cache-Control: no-store"],
    "private": ["Cache-Control: private, max-age=3600"],
    "a cookie for one": [FRESH, "Set-Cookie: a=1"],
    "every request differs": [FRESH, "Vary: *"],
}


@pytest.mark.parametrize("name", NOT_SHARED)
def test_an_answer_for_one_is_for_one(name, cached):
    """Nobody gets what another was sent: each asks itself, as soon as the head of the first has come."""
    stored = cached()
    held = stored.site.hold("/x")
    clients = stored.start_several(12, "/x")
    fetch = held.next()
    stored.wait_until_asked(12)
    stored.site.say("/x", numbered(*NOT_SHARED[name]))
    fetch.say(said(*NOT_SHARED[name], body=b"answer 0"))
    answers = [client.answer() for client in clients]
    assert sorted(answer.body for answer in answers) == sorted(b"answer %d" % number for number in range(12))
    assert stored.count("/x") == 12 and followers(answers) == 0


def test_they_do_not_wait_for_the_body_of_what_is_for_one(cached):
    stored = cached()
    held = stored.site.hold("/x")
    clients = stored.start_several(3, "/x")
    fetch = held.next()
    stored.wait_until_asked(3)
    fetch.send(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 1\r\n\r\n")
    others = [held.next(), held.next()]
    for number, request in enumerate([fetch, *others]):
        if number:
            request.send(b"HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 1\r\n\r\n")
        request.send(b"%d" % number)
        request.end()
    assert sorted(client.answer().body for client in clients) == [b"0", b"1", b"2"]


def test_credentials_are_not_shared(cached):
    """RFC 9111, 3.5: an answer to one of them is for who showed them."""

    def to_whom(connection, request) -> Said:
        # A stored answer to nobody would be for everybody who asks later.
        shown = request.value("Authorization")
        return said(FRESH if shown else "Cache-Control: no-store", body=shown or b"nobody")

    stored = cached()
    held = stored.site.hold("/x")
    first = stored.start("/x", "Authorization: Basic YTph")
    fetch = held.next()
    stored.site.say("/x", to_whom)
    second, third = stored.start("/x", "Authorization: Basic Yjpi"), stored.start("/x")
    fetch.say(to_whom(None, fetch.request))
    bodies = [client.answer().body for client in (first, second, third)]
    assert bodies == [b"Basic YTph", b"Basic Yjpi", b"nobody"]
    assert stored.count("/x") == 3


def test_a_request_that_stores_nothing_shares_nothing(cached):
    """no-store of a request: nothing of its answer is for others."""
    stored = cached()
    held = stored.site.hold("/x")
    secret = stored.start("/x", "Cache-Control: no-store")
    first = held.next()
    other = stored.start("/x")
    second = held.next()
    first.say(said(FRESH, body=b"secret"))
    second.say(said(FRESH, body=b"for all"))
    assert (secret.answer().body, other.answer().body) == (b"secret", b"for all")


# collapse


@pytest.mark.parametrize("collapse", ["auto", "never"])
def test_requests_that_do_not_wait(collapse, cached):
    """"auto": the last answer could not be stored. All of them are at the origin before one is answered."""
    stored = cached(cache=f'collapse = "{collapse}"')
    if collapse == "auto":
        stored.site.say("/x", said("Cache-Control: no-store"))
        stored.ask("/x")
    held = stored.site.hold("/x")
    clients = stored.start_several(3, "/x")
    for number, fetch in enumerate([held.next() for _ in range(3)]):
        fetch.say(said(FRESH, body=b"%d" % number))
    assert sorted(client.answer().body for client in clients) == [b"0", b"1", b"2"]


def test_always_waits_even_where_the_last_answer_was_for_one(cached):
    stored = cached(cache='collapse = "always"')
    stored.site.say("/x", said("Cache-Control: no-store"))
    stored.ask("/x")
    held = stored.site.hold("/x")
    clients = stored.start_several(5, "/x")
    fetch = held.next()
    stored.wait_until_asked(5)
    fetch.say(said(FRESH, body=b"two"))
    assert {client.answer().body for client in clients} == {b"two"}
    assert stored.count("/x") == 2


def test_auto_waits_again_once_an_answer_could_be_stored(cached):
    stored = cached()
    stored.site.say("/x", said("Cache-Control: no-store"), said(*STALE, 'ETag: "1"'))
    stored.ask("/x")
    stored.ask("/x")
    held = stored.site.hold("/x")
    clients = stored.start_several(3, "/x")
    fetch = held.next()
    stored.wait_until_asked(3)
    fetch.say(said(FRESH, body=b"new"))
    assert {client.answer().body for client in clients} == {b"new"}
    assert stored.count("/x") == 3


# Who leaves, who is slow, what breaks off


def leader_and_followers(stored, held, count: int = 3):
    """The first request is at the origin before the others come."""
    leader = stored.start("/x")
    fetch = held.next()
    others = stored.start_several(count, "/x")
    stored.wait_until_asked(count + 1)
    return leader, others, fetch


def leaves(client) -> None:
    """As a program that is killed."""
    client.looked_at = False
    client.reset()


def closes(client) -> None:
    """As a program that has seen enough, and all that has come."""
    client.looked_at = False
    client.close()


def test_the_first_one_leaves_before_the_head(cached):
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    stored.site.say("/x", said(FRESH, body=b"for the others"))
    leaves(leader)
    stored.proxy.admin.asked_until("/v1/connections", lambda all: len(all) == len(others))
    with contextlib.suppress(ClosedByProxy):  # Another may lead: it has asked itself then.
        fetch.say(said(FRESH, body=b"for the others"))
    assert {client.answer().body for client in others} == {b"for the others"}
    assert stored.count("/x") <= 2
    check_hit(stored.ask("/x"), b"for the others")


def test_an_operator_ends_the_first_one_before_the_head(cached, client_of):
    """It ends the requests of that user. The others ask for themselves, and share what they ask."""
    stored = cached()
    held = stored.site.hold("/x")
    leader = client_of(stored.proxy, STRANGER)
    leader.send(stored.head("/x"))
    held.next()
    others = stored.start_several(3, "/x")
    stored.wait_until_asked(4)
    assert stored.proxy.admin.ask(f"/v1/cancel?user={STRANGER}", method="POST").status == 200
    assert leader.answer().status == 403
    held.next().say(said(FRESH, body=b"for the others"))
    assert [client.answer().body for client in others] == [b"for the others"] * 3
    assert stored.count("/x") == 2


def test_the_first_one_runs_out_of_its_own_time(cached):
    """`timeout` counts from each request; what the first one had left is not the others'."""
    stored = cached(request='timeout = "2s"')
    held = stored.site.hold("/x")
    leader = stored.start("/x")
    held.next()
    stored.proxy.admin.asked_until(
        "/v1/connections", lambda all: any(entry["request"] and entry["age_ms"] > 1000 for entry in all)
    )
    other = stored.start("/x")
    assert leader.answer().status == 504
    held.next().say(said(FRESH, body=b"for the other"))
    assert other.answer().body == b"for the other"


def test_nobody_waits_in_the_queue_of_another_user(cached, client_of):
    """A user with a full queue at a host does not keep what is shared from others."""
    stored = cached(proxy="[proxy.limits]\nconnections_per_host = 2\n")
    paths = ["/a", "/b", "/c", "/x"]
    held = [stored.site.hold(path) for path in paths[:3]]
    stored.site.say("/x", said(FRESH))
    greedy = [client_of(stored.proxy, STRANGER) for _ in paths]
    for count, (client, path) in enumerate(zip(greedy, paths), 1):
        client.send(stored.head(path))
        stored.wait_until_asked(count)
    for one in held[:2]:
        one.next()
    # Nothing was answered: one of the greedy user's exchanges has to go.
    assert stored.ask("/x", client=client_of(stored.proxy, NUMBERED)).body == b"one"
    held[2].next()
    for client in greedy:
        client.looked_at = False


@pytest.mark.parametrize("table, status", [('offline = "1d"', 502), ('stale_if_error = "1d"', 200)])
def test_an_origin_that_fails_is_the_same_for_all(table, status, cached):
    """What may stand in for the first one's answer, and only that, stands in for those of the others."""
    stored = cached(cache=table)
    stored.site.say("/x", said(*STALE, 'ETag: "a"', "Connection: close"))
    stored.ask("/x")
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    stored.site.say("/x", lambda connection, request: False)
    fetch.break_off()
    assert {client.answer().status for client in [leader, *others]} == {status}


def test_the_first_one_leaves_within_the_body(cached):
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    fetch.send(HEAD % 10 + b"12345")
    for client in [leader, *others]:
        client.receive_until(b"12345")
        client.read_to = 0
    leaves(leader)
    stored.proxy.access(lambda line: line["outcome"] == "client-left")
    fetch.send(b"67890")
    fetch.end()
    assert {client.answer().body for client in others} == {b"1234567890"}
    assert stored.count("/x") == 1
    check_hit(stored.ask("/x"), b"1234567890")


def test_another_one_leaves_within_the_body(cached):
    stored = cached()
    held = stored.site.hold("/x")
    leader, (other, *rest), fetch = leader_and_followers(stored, held)
    fetch.send(HEAD % 10 + b"12345")
    other.receive_until(b"12345")
    leaves(other)
    stored.proxy.access(lambda line: line["outcome"] == "client-left")
    fetch.send(b"67890")
    fetch.end()
    assert {client.answer().body for client in [leader, *rest]} == {b"1234567890"}


@pytest.mark.parametrize("place", ["before the head", "within the body"])
@pytest.mark.parametrize("how", [leaves, closes])
@pytest.mark.parametrize("count", [1, 4])
def test_the_last_one_that_leaves_ends_the_fetch(count, how, place, cached):
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held, count - 1)
    if place == "within the body":
        fetch.send(HEAD % 10 + b"12345")
        for client in [leader, *others]:
            client.receive_until(b"12345")
    for client in [leader, *others]:
        how(client)
    left = time.monotonic()
    fetch.wait_for_end()
    assert time.monotonic() - left < ENDED_SECONDS
    stored.site.say("/x", said(FRESH, body=b"two"))
    check_forwarded(stored.ask("/x"), "uri-miss", b"two", stored=True)


@pytest.mark.parametrize("slow", ["the first", "another"])
def test_one_that_reads_slowly_holds_nobody_up(slow, cached):
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    lazy = leader if slow == "the first" else others[0]
    quick = [client for client in [leader, *others] if client is not lazy]
    # The origin must be able to say all of it while the test reads.
    saying = threading.Thread(target=fetch.say, args=[said(FRESH, body=LARGE)])
    saying.start()
    for client in quick:
        assert client.answer().body == LARGE
    saying.join(DEADLINE_SECONDS)
    check_hit(stored.ask("/x"), LARGE)
    assert lazy.answer().body == LARGE
    assert stored.count("/x") == 1


BREAKS = {
    "a length": (HEAD % 1000, b"x" * 500),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1f4\r\n" + b"x" * 500 + b"\r\n",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_an_origin_that_breaks_off_within_the_body(name, cached):
    """Nobody takes it for the whole, and nothing is stored."""
    head, piece = BREAKS[name]
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    fetch.send(head + piece)
    for client in [leader, *others]:
        client.receive_until(b"x" * 500)
        client.read_to = 0
    fetch.break_off()
    for client in [leader, *others]:
        with pytest.raises(Ended):
            client.answer()
    stored.site.say("/x", said(FRESH, body=b"two"))
    check_forwarded(stored.ask("/x"), "uri-miss", b"two", stored=True)


def test_an_origin_that_breaks_off_before_the_head(cached):
    """Each is told, or asks itself; nobody waits for ever."""
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    stored.site.say("/x", numbered(FRESH))
    fetch.break_off()
    for client in [leader, *others]:
        answer = client.answer()
        assert (answer.status, answer.body) == (200, b"answer 1") or answer.status == 502
    assert stored.ask("/x").body == b"answer 1"


def test_an_error_is_not_shared_for_longer_than_it_lasts(cached):
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    stored.site.say("/x", numbered(FRESH))
    fetch.say(said("Cache-Control: no-store", status=503, body=b"failed"))
    assert leader.answer().status == 503
    for client in others:
        assert client.answer().status in (200, 503)
    assert stored.ask("/x").status == 200


# Longer than what may be stored, which shows only on the way


def read_at_once(clients: list) -> list:
    """What each gets that reads at the same time as the others; None for what is not whole."""
    got = [None] * len(clients)

    def read(number: int) -> None:
        with contextlib.suppress(Ended, AssertionError):
            got[number] = clients[number].answer().body

    threads = [threading.Thread(target=read, args=[number]) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def say_slowly(fetch, answer: Said) -> None:
    """As far as the proxy takes it."""

    def say() -> None:
        with contextlib.suppress(ClosedByProxy, OSError):
            fetch.say(answer)
        fetch.break_off()

    threading.Thread(target=say, daemon=True).start()


def test_what_turns_out_to_be_too_long_is_still_shared(cached):
    stored = cached(store='object = "64KiB"')
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    say_slowly(fetch, said(FRESH, body=LARGE, framing="chunked"))
    assert [body == LARGE for body in read_at_once([leader, *others])] == [True] * 4
    stored.site.say("/x", said(FRESH))
    assert not stored.is_stored("/x")


def test_one_that_reads_slowly_what_is_too_long_holds_nobody_up(cached):
    stored = cached(store='object = "64KiB"')
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    say_slowly(fetch, said(FRESH, body=LARGE, framing="chunked"))
    others[0].looked_at = False
    assert [body == LARGE for body in read_at_once([leader, *others[1:]])] == [True] * 3


def test_early_hints_before_a_shared_answer(cached):
    stored = cached()
    held = stored.site.hold("/x")
    leader, others, fetch = leader_and_followers(stored, held)
    fetch.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    fetch.say(said(FRESH))
    assert [client.answer().body for client in [leader, *others]] == [b"one"] * 4
    assert stored.count("/x") == 1


def test_an_answer_that_another_request_fetches_keeps_the_pace(cached):
    """Whoever asks several times at once gets nothing faster."""
    stored = cached(request='throttle = { download = "1KiB" }')
    held = stored.site.hold("/x")
    clients = stored.start_several(3, "/x")
    fetch = held.next()
    stored.wait_until_asked(3)
    fetch.say(said("Cache-Control: max-age=60", body=bytes(64 << 10)))
    for client in clients:
        client.looked_at = False
        while len(client.received) < 1024:
            assert client.receive_some()
        assert len(client.received) < 32 << 10, "at once"
    for client in clients:
        client.reset()
