"""Sallyports in a row: chains that look like a loop and are none, and loops that must end as one.

All of them may have the same name, as they do with the built-in defaults; what tells one from another is then not
the name.
"""

import pytest

from origins import answering, tunnel_echo, unused_port
from parents import ADA, PASSWORD, USER, ask, by, refused, route, routed
from problems import check_problem
from tls_world import (
    OK,
    answering_and_closing,
    authority,
    client_context,
    get,
    rule,
    secure_client,
    tls_origin,
    world,
)

NAMES = {"the same name": ("", ""), "names of their own": ('name = "outer"', 'name = "inner"')}


def next_hop(proxy) -> str:
    return f"http://office.test:{proxy.address[1]}"


@pytest.fixture(params=NAMES)
def chain(request, routed):
    """Two proxies, the first of which sends everything to the second."""
    outer, inner = NAMES[request.param]
    second = routed("", proxy=inner)
    first = routed(route("next", next_hop(second)), "next", proxy=outer)
    first.next, second.pseudonym = second, b"inner" if inner else b"sallyport"
    return first


def test_a_request_through_two(chain, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    origin.pseudonym = chain.next.pseudonym
    client = raw_client(chain)
    for path in ("/1", "/2"):
        assert client.exchange(ask("GET", origin.port, path)).body == b"ok"
    assert all(len(request.options("Via")) == 2 for request in origin.requests())
    assert len(origin.connections) == 1
    line = chain.access()
    assert (line["route"], line["upstream"], line["outcome"]) == ("next", chain.next.authority, "done")
    line = chain.next.access()
    assert (line["route"], line["upstream"], line["outcome"]) == ("direct", origin.authority, "done")
    assert not chain.names.asked("a.test") and chain.next.names.asked("a.test")


def test_a_tunnel_through_two(chain, raw_origin, raw_client):
    origin, client = raw_origin(tunnel_echo), raw_client(chain)
    assert client.exchange(ask("CONNECT", origin.port)).status == 200
    client.send(b"sally")
    assert client.receive_exactly(5) == b"sally"
    client.half_close()
    assert client.wait_for_end() == "closed"
    assert chain.access()["outcome"] == "done" and chain.next.access()["outcome"] == "done"


def test_origination_through_two(chain, tls_origin, raw_client, world):
    origin, client = tls_origin(answering(OK), world.context(world.leaf("a.test"))), raw_client(chain)
    if chain.next.pseudonym == b"inner":
        origin.pseudonym = b"outer"
    for _ in range(2):
        assert client.exchange(get("a.test", origin.port)).body == b"ok"
    assert len(origin.requests()[0].options("Via")) == 1, "the second one saw a tunnel"
    assert chain.next.access_lines() == [] and len(origin.handshakes) == 1


def test_verify_in_both(routed, tls_origin, secure_client, world):
    """The probe of each goes through what is behind it."""
    second = routed("", rules=rule("verified", 'connect = "verify"'))
    first = routed(route("next", next_hop(second)), rules=rule("verified", by("next"), 'connect = "verify"'))
    origin = tls_origin(answering_and_closing(), world.context(world.leaf("a.test")), tunnelled=True)
    client = secure_client(first)
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.leave()


def test_intercept_in_front(routed, tls_origin, secure_client, authority, world):
    second = routed("")
    tables = authority.table + route("next", next_hop(second))
    first = routed(tables, rules=rule("seen", by("next"), 'connect = "intercept"'))
    origin, client = tls_origin(answering(OK), world.context(world.leaf("a.test"))), secure_client(first)
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    assert client.get_inside(f"a.test:{origin.port}").body == b"ok"


def test_three_of_one_name_are_no_loop(routed, raw_origin, raw_client):
    third = routed("")
    second = routed(route("next", next_hop(third)), "next")
    first = routed(route("next", next_hop(second)), "next")
    origin, tunnel = raw_origin(answering(OK)), raw_origin(tunnel_echo)
    assert raw_client(first).exchange(ask("GET", origin.port)).body == b"ok"
    assert raw_client(first).exchange(ask("CONNECT", tunnel.port)).status == 200
    assert len(origin.requests()[0].options("Via")) == 3


# What the second says


def test_the_second_may_ask_for_credentials(routed, raw_origin, raw_client):
    guarded = {"proxy": 'credentials = { env = "USERS" }', "environment": {"USERS": f"{USER}:{PASSWORD}"}}
    second, origin = routed("", **guarded), raw_origin(answering(OK))
    good = routed(route("next", next_hop(second), ADA), "next")
    wrong = routed(route("next", next_hop(second), ADA.replace(PASSWORD, "wrong")), "next")
    assert raw_client(good).exchange(ask("GET", origin.port)).body == b"ok"
    for method in ("GET", "CONNECT"):
        answer = raw_client(wrong).exchange(ask(method, origin.port))
        refused(answer, 502, "parent-authentication", "proxy_configuration_error", "next", "office.test")
        assert second.access(lambda line, method=method: line["method"] == method and line["status"] == 407)
    assert len(origin.requests()) == 1


def test_a_denial_of_the_second_is_its_own(routed, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    second = routed("", rules='[[rule]]\nname = "no"\naction = "deny"\n')
    client = raw_client(routed(route("next", next_hop(second)), "next"))
    problem = check_problem(client.exchange(ask("GET", origin.port)), 403, rule="no")
    assert second.access_of(problem.reference), "the reference is that of the proxy that denied"
    answer = client.exchange(ask("CONNECT", origin.port))
    refused(answer, 502, "parent-refused", "destination_unavailable", "next", "office.test", "403")
    assert not origin.connections


def test_what_the_second_cannot_reach(routed, raw_client):
    second = routed("")
    client, nobody = raw_client(routed(route("next", next_hop(second)), "next")), unused_port()
    problem = check_problem(client.exchange(ask("GET", nobody)), 502, error="connection_refused")
    assert second.access_of(problem.reference)
    answer = client.exchange(ask("CONNECT", nobody))
    refused(answer, 502, "parent-refused", "destination_unavailable", "next", "office.test", "502")


# Loops


@pytest.fixture(params=NAMES)
def loop(request, routed):
    """Two proxies, each of which sends everything to the other."""
    ports, proxies = (unused_port(), unused_port()), []
    for number, name in enumerate(NAMES[request.param]):
        tables = route("other", f"http://office.test:{ports[1 - number]}")
        proxies.append(routed(tables, "other", proxy=name, listen=f'["127.0.0.1:{ports[number]}"]'))
    return proxies


def is_loop(line: dict) -> bool:
    return line["status"] == 502 and "loop" in line["outcome"]


def test_a_request_that_comes_round_is_a_loop(loop, raw_client):
    """The first proxy says so to the second, and its answer comes back as any answer of a parent does."""
    first, second = loop
    answer = raw_client(first).exchange(ask("GET", 8080))
    assert answer.status == 502 and b"proxy_loop_detected" in answer.value("Proxy-Status"), answer
    first.access(is_loop)
    second.access()
    first.access(lambda line: not is_loop(line))
    assert (len(first.access_lines()), len(second.access_lines())) == (2, 1), "it went round more than once"


@pytest.mark.parametrize("way", ["CONNECT", "https"])
def test_a_tunnel_that_comes_round_is_a_loop(way, loop, raw_client):
    """To each CONNECT the proxy before says that its parent refused, but the one at which it came round."""
    first, second = loop
    answer = raw_client(first).exchange(get("a.test", 8080) if way == "https" else ask(way, 8080))
    name = "outer" if 'name = "outer"' in first.configuration.read_text() else "sallyport"
    expected = ("parent-refused", "destination_unavailable", "other", "office.test", "502")
    refused(answer, 502, *expected, proxy_name=name)
    first.access(is_loop)
    assert second.access()["outcome"] == "parent-refused"
    first.access(lambda line: not is_loop(line))
    assert (len(first.access_lines()), len(second.access_lines())) == (2, 1), "it went round more than once"


@pytest.mark.parametrize("way", ["GET", "CONNECT"])
def test_a_loop_of_one(way, routed, raw_client):
    """Its parent is itself."""
    port = unused_port()
    proxy = routed(
        route("self", f"http://office.test:{port}"),
        "self",
        listen=f'["127.0.0.1:{port}"]',
        proxy="workers = 1",
    )
    answer = raw_client(proxy).exchange(ask(way, 8080))
    assert answer.status == 502, answer
    proxy.access(is_loop)


def test_a_loop_does_not_keep_others_from_working(request, loop, raw_origin, raw_client):
    """A reload that mends one of them mends both."""
    first, second = loop
    for _ in range(20):
        assert raw_client(first).exchange(ask("GET", 8080)).status == 502
    second.reload(policy=second.head)
    second.log.wait_for(lambda entry: entry.get("level") == "info" and "reload" in entry.get("message", ""))
    origin = raw_origin(answering(OK))
    # Names are those of the start.
    origin.pseudonym = b"inner" if "inner" in request.node.name or "their own" in request.node.name else b"sallyport"
    assert raw_client(first).exchange(ask("GET", origin.port)).body == b"ok"
