"""[dns] against a name server of the test: families, caches, failures, time-outs, and that a denied name is never asked for."""

import time

import pytest

from dns_server import REFUSED, SERVER_FAILURE, Answer
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo, unused_port
from problems import check_problem
from test_limits import full_listener

# The origin closes after each answer, so that each request needs the name anew and no pooled connection hides a look-up.
ONCE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


def get(host: str, port: int) -> bytes:
    return f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


def connect(host: str, port: int) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


@pytest.fixture
def resolving(sallyport, dns_server):
    """A function that starts a proxy with a name server: `proxy, server = resolving({"a.test": Answer(…)})`."""

    def start(names: dict[str, Answer], dns: str = "", policy: str = "", proxy: str = "workers = 1"):
        server = dns_server(names)
        return (
            sallyport(proxy=proxy, policy=f'[dns]\nservers = ["{server.address}"]\n{dns}\n{policy}'),
            server,
        )

    return start


# Answers


def test_a_name_is_looked_up_in_both_families(resolving, raw_origin, raw_client):
    proxy, server = resolving({"a.test": Answer(a=["127.0.0.1"])})
    origin = raw_origin(answering(ONCE))
    assert raw_client(proxy).exchange(get("a.test", origin.port)).body == b"ok"
    assert origin.requests()[0].value("Host") == b"a.test:%d" % origin.port
    assert sorted(question.kind for question in server.asked("a.test")) == ["A", "AAAA"]
    assert {question.name for question in server.questions.snapshot()} == {
        "a.test"
    }, "no search list, no other name"
    line = proxy.access(lambda line: line["status"] == 200)
    assert line["upstream"] == origin.authority and line["name_ms"] is not None


@pytest.mark.parametrize("host", ["A.Test", "a.test."])
def test_letters_and_the_final_dot_make_no_other_name(host, resolving, raw_origin, raw_client):
    proxy, server = resolving({"a.test": Answer(a=["127.0.0.1"])})
    assert raw_client(proxy).exchange(get(host, raw_origin(answering(ONCE)).port)).body == b"ok"


def test_a_name_with_ipv6_only(resolving, raw_origin, raw_client):
    proxy, _ = resolving({"six.test": Answer(aaaa=["::1"])})
    assert raw_client(proxy).exchange(get("six.test", raw_origin(answering(ONCE), "::1").port)).body == b"ok"


def test_an_alias_is_followed(resolving, raw_origin, raw_client):
    proxy, _ = resolving({"alias.test": Answer(cname="real.test"), "real.test": Answer(a=["127.0.0.1"])})
    origin = raw_origin(answering(ONCE))
    assert raw_client(proxy).exchange(get("alias.test", origin.port)).body == b"ok"
    assert origin.requests()[0].value("Host") == b"alias.test:%d" % origin.port


def test_a_truncated_answer_is_fetched_over_tcp(resolving, raw_origin, raw_client):
    proxy, server = resolving({"large.test": Answer(a=["127.0.0.1"] * 3, only_over_tcp=True)})
    assert raw_client(proxy).exchange(get("large.test", raw_origin(answering(ONCE)).port)).body == b"ok"
    assert {"udp", "tcp"} == {question.transport for question in server.asked("large.test")}


def test_a_tunnel_resolves_its_host(resolving, raw_origin, raw_client):
    proxy, _ = resolving({"a.test": Answer(a=["127.0.0.1"])})
    client = raw_client(proxy)
    assert client.exchange(connect("a.test", raw_origin(tunnel_echo).port)).status == 200
    client.send(b"x")
    assert client.receive_exactly(1) == b"x"


def test_an_address_is_not_looked_up(resolving, raw_origin, raw_client):
    proxy, server = resolving({})
    assert raw_client(proxy).exchange(get("127.0.0.1", raw_origin(answering(ONCE)).port)).body == b"ok"
    assert raw_client(proxy).exchange(get("[::1]", raw_origin(answering(ONCE), "::1").port)).body == b"ok"
    assert server.questions.snapshot() == []


@pytest.mark.own_network
def test_the_next_server_is_asked_when_the_first_is_dead(sallyport, dns_server, raw_origin, raw_client):
    nobody = unused_port()  # no UDP socket has this port
    server = dns_server({"a.test": Answer(a=["127.0.0.1"])})
    proxy = sallyport(policy=f'[dns]\nservers = ["127.0.0.1:{nobody}", "{server.address}"]\n')
    assert raw_client(proxy).exchange(get("a.test", raw_origin(answering(ONCE)).port)).body == b"ok"


# Caches


def test_an_answer_is_kept_for_its_time(resolving, raw_origin, raw_client):
    proxy, server = resolving({"a.test": Answer(a=["127.0.0.1"], ttl=300)})
    origin = raw_origin(answering(ONCE))
    for _ in range(5):
        assert raw_client(proxy).exchange(get("a.test", origin.port)).body == b"ok"
    assert len(server.asked("a.test")) == 2, "one question a family"


def test_ten_clients_at_once_ask_once(resolving, raw_origin, raw_client):
    proxy, server = resolving({"a.test": Answer(a=["127.0.0.1"], ttl=300)})
    origin = raw_origin(answering(ONCE))
    clients = [raw_client(proxy) for _ in range(10)]
    for client in clients:
        client.send(get("a.test", origin.port))
    assert [client.answer().body for client in clients] == [b"ok"] * 10
    assert len(server.asked("a.test")) <= 4, "look-ups of one name under way are shared"


EXPIRIES = {
    "the time of the record": (Answer(a=["127.0.0.1"], ttl=1), 'cache = "60s"'),
    "dns.cache, which is the ceiling": (Answer(a=["127.0.0.1"], ttl=300), 'cache = "1s"'),
}


@pytest.mark.parametrize("name", EXPIRIES)
def test_an_answer_is_asked_for_again_after(name, resolving, raw_origin, raw_client):
    answer, dns = EXPIRIES[name]
    proxy, server = resolving({"a.test": answer}, dns=dns)
    origin = raw_origin(answering(ONCE))
    client = raw_client(proxy)
    client.exchange(get("a.test", origin.port))
    begun = time.monotonic()
    while len(server.asked("a.test")) <= 2:
        assert client.exchange(get("a.test", origin.port)).body == b"ok"
        assert time.monotonic() - begun < DEADLINE_SECONDS, "it is kept for ever"
    assert time.monotonic() - begun > 0.4, "it was not kept at all"


def test_a_changed_answer_counts_after_the_old_one_expired(resolving, raw_origin, raw_client):
    first = raw_origin(answering(ONCE), "127.0.0.1")
    second = raw_origin(answering(ONCE.replace(b"ok", b"2.")), "127.0.0.2", first.port)
    proxy, server = resolving({"a.test": Answer(a=["127.0.0.1"], ttl=1)})
    client = raw_client(proxy)
    assert client.exchange(get("a.test", first.port)).body == b"ok"
    server.names["a.test"] = Answer(a=["127.0.0.2"], ttl=1)
    begun = time.monotonic()
    while client.exchange(get("a.test", first.port)).body != b"2.":
        assert time.monotonic() - begun < DEADLINE_SECONDS
    assert second.requests()


@pytest.mark.parametrize("what", ["no such name", "no address"])
def test_a_failure_is_kept_too(what, resolving, raw_client):
    names = {"empty.test": Answer(ttl=300)}
    proxy, server = resolving(names)
    host = "empty.test" if what == "no address" else "absent.test"
    for _ in range(5):
        check_problem(raw_client(proxy).exchange(get(host, 80)), 502, error="dns_error")
    assert len(server.asked(host)) == 2


def test_a_failure_of_the_server_is_not_kept_for_long(resolving, raw_origin, raw_client):
    """SERVFAIL says nothing of the name: once the server is well, so is the name, within a few seconds."""
    proxy, server = resolving({"a.test": Answer(code=SERVER_FAILURE)})
    origin = raw_origin(answering(ONCE))
    client = raw_client(proxy)
    assert client.exchange(get("a.test", origin.port)).status == 502
    server.names["a.test"] = Answer(a=["127.0.0.1"])
    begun = time.monotonic()
    while client.exchange(get("a.test", origin.port)).status != 200:
        assert time.monotonic() - begun < DEADLINE_SECONDS


# Failures

FAILURES = {
    "no such name": None,
    "a name without an address": Answer(),
    "an alias to nowhere": Answer(cname="absent.test"),
    "a failure of the server": Answer(code=SERVER_FAILURE),
    "a refusal of the server": Answer(code=REFUSED),
}


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", FAILURES)
def test_a_name_that_cannot_be_resolved_is_502(name, method, resolving, raw_client):
    proxy, _ = resolving({"a.test": FAILURES[name]} if FAILURES[name] else {})
    answer = raw_client(proxy).exchange(connect("a.test", 443) if method == "CONNECT" else get("a.test", 80))
    problem = check_problem(answer, 502, error="dns_error")
    line = proxy.access_of(problem.reference)
    assert line["status"] == 502 and line["upstream"] is None and line["outcome"] != "done"


def test_a_server_that_never_answers_is_504(resolving, raw_client):
    proxy, _ = resolving({"a.test": Answer(silent=True)}, dns='timeout = "300ms"')
    begun = time.monotonic()
    problem = check_problem(raw_client(proxy).exchange(get("a.test", 80)), 504, error="dns_timeout")
    assert 0.27 <= time.monotonic() - begun < 5
    line = proxy.access_of(problem.reference)
    assert line["status"] == 504 and line["name_ms"] >= 270


def test_a_look_up_does_not_hold_up_other_clients(resolving, raw_origin, raw_client):
    proxy, _ = resolving({"slow.test": Answer(silent=True)}, dns='timeout = "2s"')
    slow, origin = raw_client(proxy), raw_origin(answering(ONCE))
    slow.send(get("slow.test", 80))
    for _ in range(10):
        assert raw_client(proxy).exchange(get("127.0.0.1", origin.port)).body == b"ok"
    assert slow.nothing_came()
    check_problem(slow.answer(), 504, error="dns_timeout")


def test_a_client_that_leaves_during_a_look_up_is_forgotten(resolving, raw_origin, raw_client):
    proxy, server = resolving({"slow.test": Answer(silent=True)}, dns='timeout = "500ms"')
    client = raw_client(proxy)
    client.send(get("slow.test", 80))
    server.questions.wait_for(lambda question: question.name == "slow.test")
    client.reset()
    assert proxy.access(lambda line: "slow.test" in line["target"])["outcome"] != "done"
    origin = raw_origin(answering(ONCE))
    assert raw_client(proxy).exchange(get("127.0.0.1", origin.port)).body == b"ok"


# Happy Eyeballs (RFC 8305)


def test_a_family_that_refuses_gives_way_to_the_other(resolving, raw_origin, raw_client):
    proxy, _ = resolving({"both.test": Answer(a=["127.0.0.1"], aaaa=["::1"])})
    origin = raw_origin(answering(ONCE))
    assert raw_client(proxy).exchange(get("both.test", origin.port)).body == b"ok"
    assert proxy.access(lambda line: line["status"] == 200)["upstream"] == origin.authority


def test_a_family_that_hangs_gives_way_to_the_other(resolving, raw_origin, raw_client):
    """The second attempt starts after a quarter of a second, not after the connect time-out."""
    proxy, _ = resolving({"both.test": Answer(a=["127.0.0.1"], aaaa=["::1"])})
    origin = raw_origin(answering(ONCE))
    with full_listener("::1", origin.port):
        begun = time.monotonic()
        assert raw_client(proxy).exchange(get("both.test", origin.port)).body == b"ok"
        assert time.monotonic() - begun < 5, "it waited for the connect time-out of 10 s"


def test_ipv6_is_preferred_where_both_work(resolving, raw_origin, raw_client):
    four = raw_origin(answering(ONCE))
    six = raw_origin(answering(ONCE), "::1", four.port)
    proxy, _ = resolving({"both.test": Answer(a=["127.0.0.1"], aaaa=["::1"])})
    assert raw_client(proxy).exchange(get("both.test", four.port)).body == b"ok"
    assert len(six.requests()) == 1 and not four.requests()


def test_a_silent_answer_for_one_family_does_not_hold_up_the_other(resolving, raw_origin, raw_client):
    """No AAAA answer ever comes: RFC 8305 §3 waits for it 50 ms once the A answer is there."""

    proxy, server = resolving({"four.test": Answer(a=["127.0.0.1"])}, dns='timeout = "5s"')
    server.silent_kinds = {"AAAA"}
    begun = time.monotonic()
    assert raw_client(proxy).exchange(get("four.test", raw_origin(answering(ONCE)).port)).body == b"ok"
    assert time.monotonic() - begun < 3


def test_every_address_is_tried_before_it_is_given_up(resolving, raw_origin, raw_client):
    proxy, _ = resolving({"many.test": Answer(a=["127.0.0.9", "127.0.0.8", "127.0.0.1"], aaaa=["::1"])})
    assert raw_client(proxy).exchange(get("many.test", raw_origin(answering(ONCE)).port)).body == b"ok"


def test_when_every_address_refuses_it_is_502(resolving, raw_client):
    port = unused_port()
    proxy, _ = resolving({"both.test": Answer(a=["127.0.0.1", "127.0.0.2"], aaaa=["::1"])})
    check_problem(raw_client(proxy).exchange(get("both.test", port)), 502, error="connection_refused")


# Names and rules


def test_a_name_is_decided_on_before_it_is_looked_up(resolving, raw_client):
    rules = '[[rule]]\nname = "no"\nhosts = ["**.denied.test"]\naction = "deny"\n'
    proxy, server = resolving({"a.denied.test": Answer(a=["127.0.0.1"])}, policy=rules)
    check_problem(raw_client(proxy).exchange(get("a.denied.test", 80)), 403, rule="no")
    check_problem(raw_client(proxy).exchange(connect("denied.test", 443)), 403, rule="no")
    assert server.questions.snapshot() == []


def test_a_name_is_never_looked_up_to_match_a_rule(resolving, raw_origin, raw_client):
    """A rule for addresses speaks of literals: a name that has such an address passes it by."""
    rules = '[[rule]]\nname = "literals"\nhosts = ["127.0.0.0/8"]\naction = "deny"\n'
    proxy, _ = resolving({"a.test": Answer(a=["127.0.0.1"])}, policy=rules)
    assert raw_client(proxy).exchange(get("a.test", raw_origin(answering(ONCE)).port)).body == b"ok"


DENIED = {
    "link-local": Answer(a=["169.254.169.254"]),
    "unspecified": Answer(a=["0.0.0.0"]),
    "unspecified of IPv6": Answer(aaaa=["::"]),
    "link-local, mapped": Answer(aaaa=["::ffff:169.254.169.254"]),
    "link-local behind NAT64": Answer(aaaa=["64:ff9b::a9fe:a9fe"]),
    "link-local in 6to4": Answer(aaaa=["2002:a9fe:a9fe::1"]),
    "link-local of IPv6": Answer(aaaa=["fe80::1"]),
    "multicast": Answer(a=["224.0.0.1"]),
    "behind an alias": Answer(cname="metadata.test"),
}


@pytest.mark.own_network
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", DENIED)
def test_a_name_cannot_lead_to_a_denied_address(name, method, resolving, raw_client):
    """DNS rebinding: what counts is the address that would be connected to."""
    proxy, _ = resolving({"inner.test": DENIED[name], "metadata.test": Answer(a=["169.254.169.254"])})
    answer = raw_client(proxy).exchange(
        connect("inner.test", 80) if method == "CONNECT" else get("inner.test", 80)
    )
    check_problem(answer, 403, error="destination_ip_prohibited")


def test_a_denied_address_among_others_is_not_connected_to(resolving, raw_origin, raw_client):
    """127.0.0.1 is denied, 127.0.0.100 is not: either the second is used or the request refused; never the first."""
    denied = raw_origin(answering(ONCE), "127.0.0.1")
    allowed = raw_origin(answering(ONCE), "127.0.0.100", denied.port)
    proxy, _ = resolving(
        {"mixed.test": Answer(a=["127.0.0.1", "127.0.0.100"])},
        proxy='workers = 1\ndeny_addresses = ["127.0.0.0/28"]',
    )
    for _ in range(4):
        answer = raw_client(proxy).exchange(get("mixed.test", denied.port))
        assert answer.status in (200, 403)
    assert not denied.connections and len(allowed.requests()) in (0, 4)


def test_a_name_of_the_proxy_itself_is_a_loop(resolving, raw_client):
    proxy, _ = resolving({"me.test": Answer(a=["127.0.0.1"])})
    answer = raw_client(proxy).exchange(get("me.test", proxy.address[1]))
    check_problem(answer, 502, error="proxy_loop_detected")


def test_the_hosts_file_counts_where_no_server_is_named(plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(ONCE))
    assert raw_client(plain_proxy).exchange(get("localhost", origin.port)).body == b"ok"
