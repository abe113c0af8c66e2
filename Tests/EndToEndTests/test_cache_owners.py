"""Whose a stored answer is (`share`), what of a rule's judgement is stored, and what a reload keeps."""

import pytest

from cache_world import FRESH, STALE, cached, check_forwarded, check_hit, numbered, policy, said
from cgroup_world import groups
from problems import check_problem
from raw_client import RawClient
from reachability_world import ADMIN
from serializer_world import REJECT_ALL
from users_world import NAMED, NUMBERED, STRANGER, client_of

# Users


def test_two_users_never_get_each_others_answers(cached, client_of):
    stored = cached(cache='share = "user"')
    stored.site.say("/x", numbered(FRESH))
    users = [NUMBERED, STRANGER, NAMED]
    for _ in range(3):
        bodies = [stored.ask("/x", client=client_of(stored.proxy, user)).body for user in users]
        assert bodies == [b"answer 1", b"answer 2", b"answer 3"]
    assert stored.count("/x") == 3


@pytest.mark.parametrize("field", ["public, max-age=3600", "s-maxage=3600", "max-age=3600"])
def test_what_is_public_is_not_shared_by_users_either(field, cached, client_of):
    """`share` is the rule's, and nothing that an origin says makes it wider."""
    stored = cached(cache='share = "user"')
    stored.site.say("/x", numbered(f"Cache-Control: {field}"))
    for user, body in ((NUMBERED, b"answer 1"), (STRANGER, b"answer 2"), (NUMBERED, None)):
        answer = stored.ask("/x", client=client_of(stored.proxy, user))
        assert body is None or answer.body == body
        assert body is not None or answer.body != b"answer 2"


def test_two_users_at_once_share_no_fetch(cached, client_of):
    stored = cached(cache='share = "user"')
    held = stored.site.hold("/x")
    clients = []
    for user in (NUMBERED, STRANGER) * 3:
        clients.append((user, client_of(stored.proxy, user)))
        clients[-1][1].send(stored.head("/x"))
    fetches = [held.next(), held.next()]
    stored.wait_until_asked(6)
    for number, fetch in enumerate(fetches):
        fetch.say(said(FRESH, body=b"%d" % number))
    bodies = {user: {client.answer().body for owner, client in clients if owner == user} for user in (NUMBERED, STRANGER)}
    assert sorted(map(sorted, bodies.values())) == [[b"0"], [b"1"]]
    assert stored.count("/x") == 2


def test_a_stale_answer_of_another_user_is_not_given_offline(cached, client_of):
    stored = cached(cache='share = "user"\noffline = "1d"\nstale_if_error = "1d"')
    stored.site.say("/x", said(*STALE, body=b"secret"))
    stored.ask("/x", client=client_of(stored.proxy, NUMBERED))
    stored.leave()
    answer = stored.ask("/x", client=client_of(stored.proxy, STRANGER))
    assert answer.status >= 502 and b"secret" not in answer.body
    assert stored.ask("/x", client=client_of(stored.proxy, NUMBERED)).body == b"secret"


@pytest.mark.parametrize("policy_of", ["return-cache-else-load", "reload-revalidating"])
def test_no_policy_gives_one_user_what_is_anothers(policy_of, cached, client_of):
    stored = cached(cache='share = "user"', request=f'cache_policy = "{policy_of}"')
    stored.site.say("/x", numbered(FRESH, 'ETag: "a"'))
    bodies = [stored.ask("/x", client=client_of(stored.proxy, user)).body for user in (NUMBERED, STRANGER)]
    assert bodies == [b"answer 1", b"answer 2"]
    assert [request.values("If-None-Match") for request in stored.site.requests("/x")] == [[], []]


def test_an_unsafe_method_of_one_user_drops_it_for_all(cached, client_of):
    """RFC 9111, 4.4: what is stored for the URL, and not only what one of them would get."""
    stored = cached(cache='share = "user"')
    stored.site.say("/x", numbered(FRESH))
    for user in (NUMBERED, STRANGER):
        stored.ask("/x", client=client_of(stored.proxy, user))
    stored.site.say("/x", said(status=204))
    stored.ask("/x", method="DELETE", client=client_of(stored.proxy, NUMBERED))
    stored.site.say("/x", said(FRESH, body=b"new"))
    for user in (NUMBERED, STRANGER):
        assert stored.ask("/x", client=client_of(stored.proxy, user)).body == b"new"


def test_all_users_share_what_is_the_machines(cached, client_of):
    stored = cached(cache='share = "machine"')
    stored.site.say("/x", numbered(FRESH))
    for user in (NUMBERED, STRANGER, NAMED):
        assert stored.ask("/x", client=client_of(stored.proxy, user)).body == b"answer 1"
    assert stored.count("/x") == 1


def test_units_do_not_get_each_others_answers(cached, groups):
    stored = cached(cache='share = "unit"')
    stored.site.say("/x", numbered(FRESH))
    place = groups.own_slice()
    units = [groups.make(f"{place}/{name}.service") for name in ("one", "two")]
    for _ in range(2):
        for unit, body in zip(units, (b"answer 1", b"answer 2")):
            for _ in range(2):
                client = RawClient(stored.proxy.address, made=groups.socket(unit, NUMBERED))
                assert stored.ask("/x", client=client).body == body
                client.close()
    assert stored.count("/x") == 2


# Rules


def test_what_a_rule_adds_is_its_rules(cached):
    """Another rule asks with other fields: what came of them is not the other's."""
    other = '[[rule]]\nname = "other"\n[rule.cache]\n[rule.request]\nheaders.set = { X-Kind = "other" }\n'
    stored = cached('paths = ["/x"]', request='headers.set = { X-Kind = "kept" }', more=other)
    for path in ("/x", "/y"):
        stored.site.say(
            path, lambda connection, request: said(FRESH, "Vary: X-Kind", body=request.value("X-Kind"))
        )
    for _ in range(2):
        assert (stored.ask("/x").body, stored.ask("/y").body) == (b"kept", b"other")


# What a response rule refuses

REFUSED = {
    "a malformed body": ('serializer = "json"', said(FRESH, "Content-Type: application/json", body=b'{"a":')),
    "another type": ('serializer = "json"', said(FRESH, "Content-Type: text/html", body=b"<p>")),
    "a status": ("acceptable_status = [200]", said(FRESH, status=404, body=b"none")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_not_stored(name, cached):
    response, answer = REFUSED[name]
    good = said(FRESH, "Content-Type: application/json", body=b'{"a":1}')
    stored = cached(response=f"{response}\n{REJECT_ALL}")
    stored.site.say("/x", answer, good)
    check_problem(stored.ask("/x"), 502)
    check_forwarded(stored.ask("/x"), "uri-miss", b'{"a":1}', stored=True)
    check_hit(stored.ask("/x"), b'{"a":1}')
    assert stored.count("/x") == 2


def test_what_is_refused_does_not_take_the_place_of_what_is_stored(cached):
    stored = cached(cache='stale_if_error = "1d"', response=f'serializer = "json"\n{REJECT_ALL}')
    good, bad = (said(*STALE, "Content-Type: application/json", body=body) for body in (b'{"a":1}', b'{"a":'))
    stored.site.say("/x", good, bad)
    stored.ask("/x")
    assert stored.ask("/x").body != b'{"a":'
    stored.site.say("/x", lambda connection, request: False)
    assert stored.ask("/x").body == b'{"a":1}'


@pytest.mark.parametrize("way", ["changed", "purged"])
def test_what_is_gone_meanwhile_does_not_come_back_for_what_is_refused(way, cached):
    """The new answer has taken its place; then the old one is not wanted any more, and then the new one is refused."""
    stored = cached(cache='stale_if_error = "1d"', response=f'serializer = "json"\n{REJECT_ALL}')
    stored.site.say("/x", said(*STALE, "Content-Type: application/json", body=b'{"a":1}'))
    stored.ask("/x")
    held = stored.site.hold("/x")
    client = stored.start("/x")
    fetch = held.next()
    fetch.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n")
    admin = stored.proxy.admin
    admin.asked_until("/v1/cache/answers", lambda said: any(not answer["complete"] for answer in said["answers"]))
    if way == "changed":
        other = stored.start("/x", method="DELETE")
        held.next().say(said("Content-Type: application/json", body=b"{}"))
        assert other.answer().status == 200
    else:
        assert admin.ask("/v1/cache/purge?host=127.0.0.1", "POST").status == 200
    fetch.send(b'{"a":')
    fetch.end()
    check_problem(client.answer(), 502)
    stored.leave()
    check_problem(stored.ask("/x"), 502)


def test_what_is_refused_is_for_nobody_who_waited(cached):
    stored = cached(response=f'serializer = "json"\n{REJECT_ALL}')
    held = stored.site.hold("/x")
    clients = stored.start_several(5, "/x")
    fetch = held.next()
    stored.wait_until_asked(5)
    bad = said(FRESH, "Content-Type: application/json", body=b'{"a":')
    stored.site.say("/x", bad)
    fetch.say(bad)
    for client in clients:
        check_problem(client.answer(), 502)
    assert not stored.is_stored("/x")


# Reloads


def test_a_reload_keeps_what_is_stored(cached):
    stored = cached(store='memory = "32MiB"')
    stored.site.say("/x", numbered(FRESH))
    stored.ask("/x")
    for _ in range(3):
        stored.proxy.reload(policy=ADMIN + policy(store='memory = "32MiB"') + '[[rule]]\nname = "more"\n')
        check_hit(stored.ask("/x"), b"answer 1")


@pytest.mark.parametrize("store", ['memory = "16MiB"', 'memory = "32MiB"\nobject = "1MiB"'])
def test_a_reload_that_changes_the_store_starts_anew(store, cached):
    stored = cached(store='memory = "32MiB"')
    stored.site.say("/x", numbered(FRESH))
    stored.ask("/x")
    stored.proxy.reload(policy=ADMIN + policy(store=store))
    check_forwarded(stored.ask("/x"), "uri-miss", b"answer 2", stored=True)
    check_hit(stored.ask("/x"), b"answer 2")


def test_a_reload_that_has_no_store_any_more(cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH))
    client = stored.enter()
    stored.ask("/x", client=client)
    stored.proxy.reload(policy=ADMIN + '[[rule]]\nname = "kept"\n')
    assert [stored.ask("/x").body for _ in range(2)] == [b"answer 2", b"answer 3"]
    stored.proxy.reload(policy=ADMIN + policy())
    assert [stored.ask("/x").body for _ in range(2)] == [b"answer 4", b"answer 4"]


def test_a_reload_that_is_refused_keeps_what_is_stored(cached):
    stored = cached()
    stored.site.say("/x", numbered(FRESH))
    stored.ask("/x")
    stored.proxy.reload(policy=ADMIN + policy(store='memory = "nothing"'))
    check_hit(stored.ask("/x"), b"answer 1")


@pytest.mark.parametrize("store", ["", 'memory = "16MiB"'], ids=["kept", "anew"])
def test_a_reload_within_a_shared_body(store, cached):
    """Whoever reads it gets all of it, by the policy that it began with."""
    stored = cached()
    held = stored.site.hold("/x")
    clients = stored.start_several(3, "/x")
    fetch = held.next()
    fetch.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 10\r\n\r\n12345")
    for client in clients:
        client.receive_until(b"12345")
        client.read_to = 0
    stored.proxy.reload(policy=ADMIN + policy(store=store))
    fetch.send(b"67890")
    fetch.end()
    assert [client.answer().body for client in clients] == [b"1234567890"] * 3
    stored.site.say("/x", said(FRESH, body=b"two"))
    assert stored.ask("/x").body == (b"1234567890" if not store else b"two")
