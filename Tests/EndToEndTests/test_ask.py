"""action = "ask": a request waits for an operator, who answers once, for a time, or by a rule."""

import datetime
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time

import pytest

from admin_client import AdminClient, Event
from ask_world import ASK, DENY, MEMBERS, OK, TEMPORARY, Asked, refused, reload, terms, word
from ask_world import asking, state  # noqa: F401
from cache_world import Site, said
from dns_server import Answer
from history_world import open_directory, recording, run  # noqa: F401
from http2_world import H2Client
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo
from problems import check_problem
from proxy import binary, clean_environment, command, configuration_text
from reachability_world import ADMIN
from test_admin_rights import ask_as
from tls_world import authority, client_context, secure_client, secure_proxy, tls_origin, world  # noqa: F401
from users_world import NAMED, NUMBERED, STRANGER, client_of  # noqa: F401

OPERATOR = "root"


# Yes, no, nobody


def test_nothing_is_opened_before_a_yes(asking):
    asked = asking()
    client = asked.start("/x?q=1")
    question = asked.question()
    assert sorted(question) == sorted(MEMBERS)
    assert (question["user"], question["uid"], question["waiting"]) == ("root", 0, 1)
    assert (question["method"], question["url"]) == ("GET", asked.origin.url + "/x")
    assert (question["host"], question["port"], question["path"]) == ("127.0.0.1", asked.origin.port, "/x")
    assert question["rule"] == "ask" and re.fullmatch(r".*sallyport\.toml:\d+", question["place"])
    assert question["allow"].startswith("[[rule]]\n")
    assert asked.origin.connections == [] and client.nothing_came()
    answered = asked.allow(question)
    assert answered["released"] == 1
    assert client.answer().body == b"ok"
    line = asked.proxy.access_of(question["ref"])
    assert (line["decision"], line["reason"]) == ("allow", "operator-allows")
    assert (line["answered_by"], line["rule"], line["status"]) == (OPERATOR, "ask", 200)
    assert asked.asks() == []


def test_a_no_is_told(asking):
    asked = asking()
    client = asked.start("/x")
    question = asked.question()
    assert asked.deny(question)["released"] == 1
    problem = refused(client.answer(), reason="operator-denies", rule="ask", ask="denied")
    assert problem.reference == question["ref"] and problem.body["allow"] == question["allow"]
    line = asked.line("/x")
    assert (line["decision"], line["reason"], line["answered_by"]) == ("deny", "operator-denies", OPERATOR)
    assert asked.origin.connections == []


def test_nobody_answers_in_time(asking):
    asked = asking(ASK + terms(wait="1s"))
    watcher = asked.admin.events("ask", "answer")
    client = asked.start("/x")
    problem = refused(client.answer(), "unanswered", reason="unanswered", rule="ask", ask="unanswered")
    assert f"sallyport allow {problem.reference}" in problem.body["detail"]
    assert watcher.until("ask")["ref"] == problem.reference
    assert watcher.until("answer")["answer"] == "none"
    line = asked.line("/x")
    assert (line["decision"], line["reason"], line["outcome"]) == ("deny", "unanswered", "unanswered")
    assert line["answered_by"] is None and asked.origin.connections == []
    watcher.close()
    # What was refused a moment ago may be allowed too: for the next.
    assert asked.allow(problem.reference, "for=1h")["rule"]["verdict"] == "allow"
    assert asked.get("/x").status == 200
    assert len(asked.origin.requests()) == 1


def test_explain_of_a_question_that_was_ended(asking):
    """The client was refused, though nobody said no."""
    asked = asking()
    client = asked.start("/x")
    question = asked.question()
    assert asked.admin.ask(f"/v1/cancel?ref={question['ref']}", method="POST").status == 200
    refused(client.answer(), "cancelled")
    asked.proxy.access_of(question["ref"])
    done = command("explain", question["ref"], "-c", asked.proxy.configuration)
    assert done.returncode == 3 and "cancelled" in done.stdout, done


def test_events_tell_of_questions_and_answers(asking):
    asked = asking()
    with asked.admin.events("ask", "answer") as watcher:
        for verb in ("allow", "deny"):
            client = asked.start(f"/{verb}")
            asking_event = watcher.next()
            assert isinstance(asking_event, Event) and asking_event.kind == "ask"
            question = {name: value for name, value in asking_event.data.items() if name != "time"}
            assert sorted(question) == sorted(MEMBERS) and question["url"].endswith(f"/{verb}")
            asked.answer(verb, question)
            event = watcher.next()
            assert event.kind == "answer"
            expected = {"ref": question["ref"], "answer": verb, "by": OPERATOR, "released": 1}
            assert {name: event.data[name] for name in expected} == expected
            client.answer()


def test_what_any_rule_decides_is_not_asked_about(asking):
    """Wherever the rule that asks stands."""
    rules = '[[rule]]\nname = "no"\npaths = ["/no"]\naction = "deny"\n[[rule]]\nname = "yes"\npaths = ["/yes"]\n'
    for policy in (ASK + rules, rules + ASK):
        asked = asking(policy)
        assert asked.get("/yes").status == 200
        refused(asked.get("/no"), reason="rule-denies", rule="no", ask=None)
        client = asked.start("/else")
        asked.allow(asked.question())
        assert client.answer().status == 200


def test_the_answer_comes_by_reference_and_only_once(asking):
    asked = asking(ASK + terms(remember="0s"))
    client = asked.start("/x")
    question = asked.question()
    for query in ("", "ref=x", "ref=AAAAAA&ref=BBBBBB", f"ref={question['ref']}&host=a.test", "what=x"):
        assert asked.post("allow", query).status == 400, query
    assert asked.post("allow", f"ref={question['ref']}&for=0s").status == 400
    assert asked.post("allow", "ref=ZZZZZZ").status == 404
    assert asked.question()["waiting"] == 1
    asked.allow(question)
    client.answer()
    other = asked.start("/x")
    assert asked.question()["ref"] != question["ref"]
    asked.allow(asked.question())
    assert other.answer().status == 200


# One question for all that ask the same

SAME = [
    ("/x", "/x?q=2", True),
    ("/users/17", "/users/18", True),
    ("/c/0f1e2d3c4b", "/c/a1b2c3d4e5", True),
    ("/v/01234567-89ab-cdef-0123-456789abcdef", "/v/99994567-89ab-cdef-0123-456789abcdef", True),
    ("/x", "/y", False),
    ("/x", "/x/", False),
    ("/users/17", "/users/17/delete", False),
    ("/users/17", "/users/me", False),
]


@pytest.mark.parametrize("one, two, is_same", SAME)
def test_which_requests_ask_the_same(asking, one, two, is_same):
    asked = asking()
    first = asked.start(one)
    asked.question()
    second = asked.start(two)
    questions = asked.questions(1, 2) if is_same else asked.questions(2)
    released = [asked.allow(question)["released"] for question in questions]
    assert released == ([2] if is_same else [1, 1])
    assert first.answer().status == second.answer().status == 200


def test_methods_hosts_and_ports_are_questions_of_their_own(asking, raw_origin):
    asked = asking()
    other = raw_origin(answering(OK))
    clients = [asked.start("/x"), asked.start("/x", "Content-Length: 0\r\n", "POST"), asked.client(), asked.client()]
    clients[2].send(asked.head("/x", origin=other))
    clients[3].send(f"GET http://localhost:{other.port}/x HTTP/1.1\r\nHost: localhost:{other.port}\r\n\r\n".encode())
    questions = asked.questions(4)
    assert len({question["url"] for question in questions}) == 3
    for question in questions:
        asked.deny(question)
    for client in clients:
        refused(client.answer())


def test_each_user_asks_for_itself(asking, client_of):
    asked = asking()
    clients = [client_of(asked.proxy, user) for user in (NAMED, NUMBERED, STRANGER)]
    for client in clients:
        client.send(asked.head("/x"))
    questions = asked.questions(3)
    assert {question["uid"] for question in questions} == {NAMED, NUMBERED, STRANGER}
    assert {question["user"] for question in questions} == {"daemon", None}
    mine = next(question for question in questions if question["uid"] == NUMBERED)
    asked.allow(mine, "for=1h")
    assert clients[1].answer().status == 200
    assert clients[0].nothing_came() and clients[2].nothing_came()
    # What is remembered is remembered of that user.
    again = client_of(asked.proxy, NUMBERED)
    assert again.exchange(asked.head("/x")).status == 200
    asked.questions(2)


def test_the_reference_is_that_of_the_first_and_all_go_in_their_order(asking):
    count, all_there = 20, threading.Event()

    def script(connection) -> None:
        connection.read_request()
        assert all_there.wait(DEADLINE_SECONDS)
        connection.send(OK)
        connection.wait_for_end()

    asked = asking(script=script)
    clients = [asked.start("/x?n=0")]
    first = asked.question()["ref"]
    for number in range(1, count):
        clients.append(asked.start(f"/x?n={number}"))
        asked.question(number + 1)
    question = asked.question(count)
    assert question["ref"] == first
    assert asked.allow(question)["released"] == count
    asked.origin.wait_for("accepted", count - 1)
    all_there.set()
    for client in clients:
        assert client.answer().status == 200
    order = [connection.requests[0].target for connection in asked.origin.connections]
    assert order == [b"/x?n=%d" % number for number in range(count)]


# Whoever leaves, and whoever only stops talking


def test_a_client_that_leaves_is_forgotten(asking):
    asked = asking()
    clients = [asked.start("/x"), asked.start("/x")]
    reference = asked.question(2)["ref"]
    with asked.admin.events("answer") as watcher:
        clients[0].looked_at = clients[1].looked_at = False
        clients[0].close()
        assert asked.question(1)["ref"] == reference
        clients[1].reset()
        assert watcher.until("answer")["answer"] == "none"
    asked.none_waits()
    for _ in clients:
        assert asked.proxy.access()["outcome"] == "client-left"
    # The question is over, and what it asked about may still be allowed.
    assert asked.post("allow", f"ref={reference}").status == 200
    assert asked.origin.connections == []


def test_a_client_that_leaves_lets_the_others_have_their_answer(asking):
    asked = asking()
    clients = [asked.start("/x") for _ in range(3)]
    asked.question(3)
    clients[1].looked_at = False
    clients[1].close()
    assert asked.allow(asked.question(2))["released"] == 2
    assert clients[0].answer().status == clients[2].answer().status == 200
    assert len(asked.origin.requests()) == 2


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_a_client_that_has_said_all_gets_its_answer(asking, verb):
    asked = asking()
    client = asked.start("/x")
    client.half_close()
    question = asked.question()
    asked.admin.json("/v1/status")
    asked.answer(verb, question)
    assert client.answer().status == (200 if verb == "allow" else 403)
    client.wait_for_end()


def test_netcat_that_has_said_all_gets_its_answer(asking):
    """`nc -N` closes its sending direction before the question is put."""
    asked = asking()
    client = asked.client()
    client.send(asked.head("/x", "Connection: close\r\n"))
    client.half_close()
    asked.allow(asked.question())
    assert client.answer().body == b"ok"
    client.wait_for_end()


# When the proxy stops


@pytest.mark.parametrize("how", ["SIGTERM", "the API"])
def test_a_stop_tells_all_who_wait_at_once(asking, how):
    asked = asking(proxy='workers = 2\n[proxy.timeouts]\ndrain = "10m"')
    clients = [asked.start(path) for path in ("/x", "/x", "/y")]
    tunnel = asked.client()
    tunnel.send(asked.connect_head())
    asked.questions(3, 4)
    if how == "SIGTERM":
        asked.proxy.terminate()
    else:
        assert asked.post("drain", "").status == 202
    for client in [*clients, tunnel]:
        assert check_problem(client.answer(), 503).token == "shutting-down"
    assert asked.proxy.wait_for_exit() == 0
    assert asked.origin.connections == []


# Requests with bodies, and those behind them

BODIES = {
    "counted": ("Content-Length: 5\r\n", b"sally", b"sally"),
    "chunked": ("Transfer-Encoding: chunked\r\n", b"5\r\nsally\r\n4\r\nport\r\n0\r\n\r\n", b"sallyport"),
    "large": (f"Content-Length: {1 << 20}\r\n", b"s" * (1 << 20), b"s" * (1 << 20)),
    "none": ("Content-Length: 0\r\n", b"", b""),
}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_bodies_arrive_whole(asking, kind, verb):
    asked = asking()
    lines, sent, content = BODIES[kind]
    client = asked.client()
    sender = threading.Thread(target=client.send, args=(asked.head("/x", lines, "POST") + sent,))
    sender.start()
    question = asked.question()
    assert question["method"] == "POST" and asked.origin.connections == []
    asked.answer(verb, question)
    answer = client.answer()
    sender.join(DEADLINE_SECONDS)
    if verb == "allow":
        assert answer.status == 200
        assert [request.body for request in asked.origin.requests()] == [content]
    else:
        refused(answer)
        assert asked.origin.connections == []


def test_a_body_that_comes_while_the_operator_thinks(asking):
    asked = asking()
    client = asked.start("/x", "Content-Length: 9\r\n", "POST")
    question = asked.question()
    client.send(b"sally")
    asked.admin.json("/v1/status")
    asked.allow(question)
    client.send(b"port")
    assert client.answer().status == 200
    assert asked.origin.requests()[0].body == b"sallyport"


def test_who_expects_100_continue_waits_for_the_operator(asking):
    asked = asking()
    client = asked.start("/x", "Content-Length: 5\r\nExpect: 100-continue\r\n", "POST")
    question = asked.question()
    assert client.nothing_came(), "nobody should send a body that may be refused"
    asked.deny(question)
    refused(client.answer())


def test_requests_behind_one_that_waits_stay_in_order(asking):
    asked = asking(ASK + 'paths = ["/ask"]\n')
    client = asked.client()
    client.send(asked.head("/first") + asked.head("/ask") + asked.head("/third") + asked.head("/fourth"))
    assert client.answer().status == 200
    question = asked.question()
    assert client.nothing_came() and asked.asked_paths() == ["/first"]
    asked.allow(question)
    assert [client.answer().status for _ in range(3)] == [200] * 3
    assert asked.asked_paths() == ["/first", "/ask", "/third", "/fourth"]


def test_requests_behind_one_that_is_refused_go_on(asking):
    asked = asking(ASK + 'paths = ["/ask"]\n')
    client = asked.client()
    client.send(asked.head("/ask") + asked.head("/second"))
    asked.deny(asked.question())
    refused(client.answer())
    assert client.answer().status == 200


# Tunnels


def test_a_tunnel_is_asked_about(asking):
    asked = asking(script=tunnel_echo)
    client = asked.client()
    client.send(asked.connect_head())
    question = asked.question()
    assert (question["method"], question["url"], question["path"]) == ("CONNECT", asked.origin.authority, None)
    assert client.nothing_came() and asked.origin.connections == []
    asked.allow(question)
    assert client.answer().status == 200
    client.send(b"hello")
    assert client.receive_exactly(5) == b"hello"
    client.half_close()
    client.wait_for_end()
    line = asked.proxy.access()
    assert (line["reason"], line["answered_by"]) == ("operator-allows", OPERATOR)


def test_a_tunnel_that_is_refused(asking):
    asked = asking()
    client = asked.client()
    client.send(asked.connect_head())
    question = asked.question()
    asked.deny(question)
    refused(client.answer(), reason="operator-denies", allow=question["allow"])
    assert asked.origin.connections == []


def test_what_a_client_says_before_the_tunnel_is_there(asking):
    asked = asking(script=tunnel_echo)
    client = asked.client()
    client.send(asked.connect_head() + b"early")
    asked.allow(asked.question())
    assert client.answer().status == 200
    assert client.receive_exactly(5) == b"early"


def test_a_port_that_is_not_listed_is_denied_without_a_question(asking):
    asked = asking(proxy=f"workers = 1\n{DENY}")
    refused(asked.client().exchange(asked.connect_head()), reason="port-not-listed", ask=None)
    assert asked.asks() == []


def test_listed_addresses_are_denied_without_a_question(asking):
    asked = asking(ASK + 'deny_addresses = ["127.0.0.0/8"]\n')
    problem = check_problem(asked.get("/x"), 403)
    assert problem.token == "address-denied"
    assert asked.asks() == []


def test_listed_addresses_are_denied_after_a_yes_by_name(asking, dns_server):
    names = dns_server({"a.test": Answer(a=["127.0.0.1"])})
    policy = f'[dns]\nservers = ["{names.address}"]\n' + ASK + 'deny_addresses = ["127.0.0.0/8"]\n'
    asked = asking(policy)
    client = asked.client()
    host = f"a.test:{asked.origin.port}"
    client.send(f"GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    question = asked.question()
    assert names.questions.snapshot() == [], "a name is asked for before the operator has said yes"
    asked.allow(question)
    assert check_problem(client.answer(), 403).token == "address-denied"
    assert asked.origin.connections == []


@pytest.fixture
def secure_asking(secure_proxy, tls_origin, world, authority, raw_client):
    """A function that starts a proxy that knows every name, with an authority, and a TLS origin "a.test" behind it."""

    def start(policy: str, proxy: str = "workers = 1", **arguments) -> Asked:
        origin = tls_origin(answering(OK), world.context(world.leaf("a.test")), **arguments)
        started = secure_proxy(ADMIN + authority.table + policy, proxy=proxy)
        started.admin = AdminClient(started.configuration.parent / "admin.sock")
        asked = Asked(started, origin, raw_client)
        asked.authority = f"a.test:{origin.port}"
        asked.head_of_file = started.head + ADMIN + authority.table
        return asked

    return start


@pytest.fixture
def enter(secure_client, authority):
    """A function that opens a tunnel to be intercepted, and speaks in it."""

    def start(asked, protocol: str = "http/1.1"):
        client = secure_client(asked.proxy)
        assert client.tunnel("a.test", asked.origin.port).status == 200
        context = client_context(authority.file)
        context.set_alpn_protocols([protocol])
        client.shake_hands(context, "a.test")
        return client if protocol == "http/1.1" else H2Client(client.secure)

    return start


def test_a_tunnel_that_is_verified_is_asked_about(secure_asking, secure_client, world):
    asked = secure_asking(ASK + 'connect = "verify"\n', tunnelled=True)
    client = secure_client(asked.proxy)
    head = f"CONNECT {asked.authority} HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n".encode()
    client.send(head)
    question = asked.question()
    assert question["method"] == "CONNECT" and 'connect = "verify"' in question["allow"]
    assert asked.origin.connections == []
    asked.allow(question)
    assert client.answer().status == 200
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside(asked.authority, "/x").body == b"ok"


def test_requests_in_a_tunnel_that_is_read_are_asked_about(secure_asking, enter):
    asked = secure_asking(ASK + 'connect = "intercept"\n')
    client = enter(asked)
    assert asked.asks() == [] and asked.origin.connections == []
    client.send(f"GET /x?q HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n".encode())
    question = asked.question()
    assert (question["method"], question["url"]) == ("GET", f"https://{asked.authority}/x")
    assert asked.origin.connections == []
    asked.allow(question)
    assert client.answer().body == b"ok"
    client.send(f"GET /y HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n".encode())
    asked.deny(asked.question())
    assert json.loads(client.answer().body)["reason"] == "operator-denies"
    client.leave()
    lines = [asked.proxy.access(lambda line, method=method: line["method"] == method) for method in ("CONNECT", "GET")]
    assert [line["reason"] for line in lines] == ["asks-inside", "operator-allows"]
    assert [request.target for request in asked.origin.requests()] == [b"/x?q"]


def test_streams_wait_each_for_itself(secure_asking, enter):
    free = '[[rule]]\nname = "free"\npaths = ["/free"]\nconnect = "intercept"\n'
    asked = secure_asking(ASK + 'connect = "intercept"\n' + free)
    client = enter(asked, "h2")
    numbers = [client.request(asked.authority, path) for path in ("/x", "/y", "/z")]
    by_path = {question["path"]: question for question in asked.questions(3)}
    assert client.get(asked.authority, "/free").status == 200
    asked.allow(by_path["/y"])
    assert client.wait(numbers[1]).body == b"ok"
    assert not client.exchanges[numbers[0]].headers and not client.exchanges[numbers[2]].headers
    asked.deny(by_path["/z"])
    refusal = client.wait(numbers[2])
    body = json.loads(refusal.body)
    assert (refusal.status, body["reason"], body["ask"]) == (403, "operator-denies", "denied")
    # A stream that is reset asks nobody any more.
    client.reset(numbers[0])
    asked.none_waits()
    number = client.request(asked.authority, "/up", method="POST", body=b"sallyport")
    asked.allow(asked.question())
    assert client.wait(number).status == 200
    assert asked.origin.requests()[-1].body == b"sallyport"


def test_requests_that_are_originated_are_asked_about(secure_asking):
    """https:// in absolute form, without CONNECT."""
    asked = secure_asking(ASK)
    client = asked.client()
    client.send(f"GET https://{asked.authority}/x HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n".encode())
    question = asked.question()
    assert question["url"] == f"https://{asked.authority}/x" and asked.origin.connections == []
    asked.allow(question)
    assert client.answer().body == b"ok"


# What an answer holds for


def test_an_answer_once_holds_for_the_same_question(asking):
    asked = asking()
    client = asked.start("/users/17")
    answered = asked.allow(asked.question())
    client.answer()
    rule = answered["rule"]
    assert sorted(rule) == sorted(TEMPORARY)
    assert (rule["verdict"], rule["host"], rule["method"], rule["path"]) == ("allow", "127.0.0.1", "GET", "/users/{}")
    assert (rule["user"], rule["by"]) == ("root", OPERATOR)
    assert asked.temporary() == [rule]
    assert asked.get("/users/18").status == 200
    line = asked.line("/users/18")
    assert (line["decision"], line["reason"], line["answered_by"]) == ("allow", "temporary-allow", OPERATOR)
    other = asked.start("/other")
    asked.deny(asked.question())
    refused(other.answer())
    refused(asked.get("/other"), reason="temporary-deny", ask=None)
    assert asked.line("/other")["answered_by"] == OPERATOR


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_what_lies_below_a_path_that_was_answered_is_a_question_of_its_own(asking, verb):
    """`*` of a shape is one part of the path: a yes to /users/17 is none to /users/17/delete."""
    asked = asking()
    client = asked.start("/users/17")
    asked.answer(verb, asked.question())
    client.answer()
    other = asked.start("/users/17/delete")
    question = asked.question()
    asked.allow(question)
    assert other.answer().status == 200


def test_what_is_not_to_be_remembered_is_asked_again(asking):
    asked = asking(ASK + terms(remember="0s"))
    for _ in range(3):
        client = asked.start("/x")
        assert asked.allow(asked.question())["rule"] is None
        assert client.answer().status == 200
    assert asked.temporary() == []
    client = asked.start("/x")
    assert asked.allow(asked.question(), "for=1h")["rule"]["verdict"] == "allow"
    client.answer()
    assert asked.get("/x").status == 200


def test_a_temporary_rule_ends_by_itself(asking, state):
    asked = asking(proxy=f'workers = 1\nstate = "{state}"')
    client = asked.start("/x")
    asked.allow(asked.question(), "for=1s")
    assert client.answer().status == 200
    asked.admin.asked_until("/v1/asks", lambda page: page["temporary"] == [])
    client = asked.start("/x")
    asked.deny(asked.question())
    refused(client.answer())


def test_answers_of_more_than_a_question(asking):
    """For a host: what no rule decides, and nothing that a rule denies."""
    rules = '[[rule]]\nname = "no"\npaths = ["/no"]\naction = "deny"\n'
    asked = asking(rules, proxy=f"workers = 1\n{DENY}")
    refused(asked.get("/x"), reason="default-denies")
    rule = asked.rule("allow", "host=127.0.0.1&for=1h")
    assert rule["method"] is None and rule["path"] is None and rule["port"] is None
    assert asked.get("/x").status == 200
    assert asked.line("/x").get("decision") in ("deny", "allow")
    refused(asked.get("/no"), reason="rule-denies")
    # A tunnel to another port than 443 is none of it, but of a rule for this port.
    refused(asked.client().exchange(asked.connect_head()))
    asked.rule("allow", f"host=127.0.0.1&for=1h&port={asked.origin.port}")
    assert asked.client().exchange(asked.connect_head()).status == 200


def test_a_denial_holds_whatever_the_rules_allow(asking):
    asked = asking('[[rule]]\nname = "yes"\n')
    assert asked.get("/x").status == 200
    rule = asked.rule("deny", "host=127.0.0.1&for=1h")
    refused(asked.get("/x"), reason="temporary-deny")
    refused(asked.client().exchange(asked.connect_head()), reason="temporary-deny")
    # It comes before a permission.
    asked.rule("allow", f"host=127.0.0.1&for=1h&port={asked.origin.port}")
    refused(asked.get("/x"), reason="temporary-deny")
    assert asked.post("revoke", f"id={rule['id']}").status == 200
    assert asked.get("/x").status == 200


def test_a_permission_for_a_host_lets_those_go_who_wait(asking):
    """Or those who wait go on waiting for their own answer: either way there is one."""
    asked = asking()
    client = asked.start("/x")
    question = asked.question()
    asked.rule("allow", "host=127.0.0.1&for=1h")
    assert asked.get("/y").status == 200
    if asked.asks():
        asked.allow(question)
    assert client.answer().status == 200


def test_a_rule_for_one_user(asking, client_of):
    asked = asking("", proxy=f"workers = 1\n{DENY}")
    asked.rule("allow", f"host=127.0.0.1&for=1h&user={NUMBERED}")
    assert client_of(asked.proxy, NUMBERED).exchange(asked.head("/x")).status == 200
    refused(client_of(asked.proxy, STRANGER).exchange(asked.head("/x")))
    refused(asked.get("/x"))
    asked.rule("allow", "host=127.0.0.1&for=1h&user=daemon")
    assert client_of(asked.proxy, NAMED).exchange(asked.head("/x")).status == 200


@pytest.mark.parametrize(
    "query",
    [
        "host=127.0.0.1",
        "host=a..b&for=1h",
        "host=a.test&for=0s",
        "host=a.test&for=366d",
        "host=a.test&for=x",
        "host=a.test&for=1h&port=0",
        "host=a.test&for=1h&port=65536",
        "host=a.test&for=1h&user=nobody-of-this-name",
        "host=a.test&for=1h&unit=x",
        "host=a.test&for=1h&path=/x",
        "host=&for=1h",
    ],
)
def test_what_is_not_understood_makes_no_rule(asking, query):
    asked = asking()
    for verb in ("allow", "deny"):
        assert asked.post(verb, query).status == 400, query
    assert asked.temporary() == []


def test_what_is_revoked_holds_no_more(asking):
    asked = asking()
    client = asked.start("/x")
    rule = asked.allow(asked.question())["rule"]
    client.answer()
    for query in ("", "id=x", "id=1&id=2"):
        assert asked.post("revoke", query).status == 400, query
    assert asked.post("revoke", "id=4711").status == 404
    answer = asked.post("revoke", f"id={rule['id']}")
    assert (answer.status, json.loads(answer.body)) == (200, {"revoked": rule, "warning": None})
    assert asked.temporary() == []
    client = asked.start("/x")
    asked.deny(asked.question())
    refused(client.answer())


# What outlives the daemon


def restarted(asking, asked, **arguments) -> Asked:
    """Another daemon on the same configuration directory."""
    return asking(directory=asked.proxy.configuration.parent, **arguments)


@pytest.mark.parametrize("how", ["stops", "is killed"])
def test_answers_outlive_the_daemon(asking, state, how):
    lines = f'workers = 1\nstate = "{state}"'
    asked = asking(proxy=lines)
    client = asked.start("/x")
    asked.allow(asked.question(), "for=1h")
    client.answer()
    asked.rule("deny", "host=**.ads.test&for=1d")
    asked.rule("allow", f"host=10.0.0.0/8&for=1d&port=8443&user={NUMBERED}")
    before = asked.temporary()
    assert [rule["id"] for rule in before] == [1, 2, 3]
    file = state / "temporary-rules.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if how == "stops":
        asked.proxy.terminate()
        assert asked.proxy.wait_for_exit() == 0
    else:
        asked.proxy.expected_exit.add(-signal.SIGKILL)
        asked.proxy.process.kill()
        asked.proxy.wait_for_exit()
    again = restarted(asking, asked, proxy=lines)
    assert again.temporary() == before
    ads = b"GET http://x.ads.test/ HTTP/1.1\r\nHost: x.ads.test\r\n\r\n"
    refused(again.client().exchange(ads), reason="temporary-deny")
    again.origin = asked.origin
    assert again.get("/x").status == 200
    assert again.rule("deny", "host=b.test&for=1h")["id"] == 4
    assert again.post("revoke", "id=1").status == 200
    assert [rule["id"] for rule in again.temporary()] == [2, 3, 4]


def test_the_directory_that_systemd_made_is_used(asking, state):
    asked = asking(environment={"STATE_DIRECTORY": str(state)})
    asked.rule("deny", "host=a.test&for=1h")
    assert "a.test" in (state / "temporary-rules.toml").read_text()


def test_without_a_directory_nothing_is_written(asking):
    asked = asking()
    before = {path.name for path in asked.proxy.configuration.parent.iterdir()}
    asked.rule("deny", "host=a.test&for=1h")
    assert {path.name for path in asked.proxy.configuration.parent.iterdir()} == before


@pytest.mark.parametrize(
    "content",
    [b"[[temporary]\n", b"\xff\xfe", b"x = 1\n", b"[[temporary]]\nid = 1\nverdict = \"allow\"\n"],
    ids=["no TOML", "no text", "another file", "half a rule"],
)
def test_a_file_that_cannot_be_read_ends_the_start(tmp_path, state, content, sallyport_binary):
    file = state / "temporary-rules.toml"
    file.write_bytes(content)
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(configuration_text(f'state = "{state}"', ASK))
    done = command("run", "--config", configuration)
    assert done.returncode == 1 and done.stdout == ""
    assert str(file) in done.stderr, done.stderr
    assert file.read_bytes() == content


def test_a_file_that_cannot_be_written_is_said_and_written_later(asking, state):
    """A full disk, say: what was revoked would come back with the next start."""
    lines = f'workers = 1\nstate = "{state}"'
    asked = asking(proxy=lines)
    allowed = asked.rule("allow", "host=127.0.0.1&for=1h")
    asked.rule("deny", "host=b.test&for=1h")
    before = (state / "temporary-rules.toml").read_text()
    shutil.rmtree(state)
    answer = json.loads(asked.post("revoke", f"id={allowed['id']}").body)
    assert answer["warning"].startswith("warning: cannot write ")
    assert answer["warning"].endswith("; temporary rules end with this process"), "there is no file any more"
    assert asked.admin.json("/v1/status")["warnings"] == [answer["warning"].removeprefix("warning: ")]
    done = command("deny", "a.test", "--for", "1h", "--config", asked.proxy.configuration)
    assert done.returncode == 0 and "temporary rule 3" in done.stdout and "warning: cannot write" in done.stdout
    state.mkdir(mode=0o700)
    (state / "temporary-rules.toml").write_text(before)
    asked.proxy.terminate()
    assert asked.proxy.wait_for_exit() == 0
    again = restarted(asking, asked, proxy=lines)
    assert [(rule["verdict"], rule["host"]) for rule in again.temporary()] == [("deny", "b.test"), ("deny", "a.test")]
    assert again.admin.json("/v1/status")["warnings"] == []


def test_a_file_that_somebody_else_prepared_ends_the_start(asking, tmp_path, sallyport_binary):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    lines = f'workers = 1\nstate = "{shared}"'
    asked = asking(proxy=lines)
    asked.rule("allow", "host=a.test&for=1h")
    asked.proxy.terminate()
    assert asked.proxy.wait_for_exit() == 0
    file = shared / "temporary-rules.toml"
    os.chown(file, STRANGER, STRANGER)
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(configuration_text(lines, ASK))
    done = command("run", "--config", configuration)
    assert done.returncode == 1 and f"cannot read {file}: It belongs to another user" in done.stderr, done.stderr


# Who may answer


def test_who_may_read_may_answer_what_waits_and_nothing_else(asking):
    asked = asking(admin=f"operators = [{NUMBERED}]\n")
    client = asked.start("/x")
    reference = asked.question()["ref"]
    for path in ("allow?host=a.test&for=1h", "deny?host=a.test&for=1h", "revoke?id=1"):
        assert ask_as(STRANGER, asked.proxy, f"/v1/{path}", "POST").status == 403, path
    assert ask_as(STRANGER, asked.proxy, f"/v1/allow?ref={reference}", "POST").status == 200
    assert client.answer().status == 200
    assert asked.line("/x")["answered_by"] == f"user {STRANGER}"
    # Nor what is over, nor what he allowed himself.
    assert ask_as(STRANGER, asked.proxy, f"/v1/allow?ref={reference}&for=1d", "POST").status in (403, 404)
    identity = asked.temporary()[0]["id"]
    assert ask_as(STRANGER, asked.proxy, f"/v1/revoke?id={identity}", "POST").status == 403
    assert len(asked.temporary()) == 1
    for path in ("deny?host=a.test&for=1h", f"allow?ref={reference}&for=1d", f"revoke?id={identity}"):
        assert ask_as(NUMBERED, asked.proxy, f"/v1/{path}", "POST").status in (200, 404), path
    assert [rule["by"] for rule in asked.temporary()][0] == f"user {NUMBERED}"


# The commands


def test_the_commands_show_and_answer(asking):
    asked = asking()
    at = ("--socket", asked.admin.path)
    done = command("asks", *at)
    assert (done.returncode, done.stdout) == (0, "no question waits\n")
    client = asked.start("/x")
    reference = asked.question()["ref"]
    done = command("asks", *at)
    assert done.returncode == 0 and reference in done.stdout and f"GET {asked.origin.url}/x" in done.stdout
    done = command("asks", "--json", *at)
    assert json.loads(done.stdout) == asked.admin.json("/v1/asks")
    done = command("allow", reference, *at)
    assert done.returncode == 0 and "allowed 1 request that waited" in done.stdout, done
    assert client.answer().status == 200
    client = asked.start("/y")
    done = command("deny", asked.question()["ref"].lower(), "--for", "1h", *at)
    assert done.returncode == 0 and "denied 1 request that waited" in done.stdout, done
    refused(client.answer())
    done = command("asks", *at)
    assert "temporary rules:" in done.stdout
    for rule in asked.temporary():
        assert command("asks", "--revoke", str(rule["id"]), *at).returncode == 0
    assert asked.temporary() == []
    assert command("allow", "127.0.0.1", "--for", "1h", *at).returncode == 0
    assert asked.get("/z").status == 200
    done = command("deny", "a.test", "--for", "1h", "--user", "daemon", "--unit", "x.service", "--port", "25", *at)
    assert done.returncode == 0, done
    (rule,) = [rule for rule in asked.temporary() if rule["verdict"] == "deny"]
    assert (rule["user"], rule["uid"], rule["unit"], rule["port"]) == ("daemon", NAMED, "x.service", 25)


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_the_commands_say_what_is_wrong(asking, verb):
    asked = asking()
    at = ("--socket", asked.admin.path)
    done = command(verb, "ZZZZZZ", *at)
    assert done.returncode == 1 and done.stderr, done
    assert command("asks", "--revoke", "4711", *at).returncode == 1
    wrong = [
        (),
        ("a.test",),
        ("ZZZZZZ", "other"),
        ("ZZZZZZ", "--port", "25"),
        ("ZZZZZZ", "--once", "--for", "1h"),
        ("ZZZZZZ", "--once", "--always"),
        ("ZZZZZZ", "--for", "1h", "--always"),
        ("ZZZZZZ", "--what"),
        ("a..b", "--for", "1h"),
        ("a.test", "--once"),
        ("ZZZZZZ", "--write", "x.toml"),
    ]
    codes = {arguments: command(verb, *arguments, *at).returncode for arguments in wrong}
    assert codes == {arguments: 2 for arguments in wrong}
    assert command("asks", "--revoke", "x", *at).returncode == 2


def test_the_command_watches(asking):
    asked = asking()
    with subprocess.Popen(
        [binary(), "asks", "--watch", "--socket", asked.admin.path],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, env=clean_environment(),
    ) as watching:
        guard = threading.Timer(DEADLINE_SECONDS, watching.kill)
        guard.start()
        assert watching.stdout.readline() == "no question waits\n"
        # It has watched since before it asked what waits.
        client = asked.start("/x")
        reference = asked.question()["ref"]
        seen = ""
        while reference not in seen:
            line = watching.stdout.readline()
            assert line, f"it ended: {seen}"
            seen += line
        asked.deny(reference)
        while "deny" not in seen:
            line = watching.stdout.readline()
            assert line, f"it ended: {seen}"
            seen += line
        watching.terminate()
        guard.cancel()
    refused(client.answer())


INCLUDE = 'include = ["policy.d/*.toml"]\n'


@pytest.fixture
def including(asking):
    """A proxy whose configuration includes policy.d."""
    asked = asking()
    asked.directory = asked.proxy.configuration.parent / "policy.d"
    asked.directory.mkdir()
    asked.file = asked.directory / "90-answers.toml"
    text = asked.proxy.configuration.read_text()
    asked.proxy.configuration.write_text(INCLUDE + text)
    asked.at = ("--config", asked.proxy.configuration)
    done = command("reload", *asked.at)
    assert done.returncode == 0, done
    return asked


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_an_answer_for_good_is_a_rule(including, verb):
    asked = including
    clients = [asked.start("/users/17"), asked.start("/users/18")]
    question = asked.question(2)
    done = command(verb, question["ref"], "--always", *asked.at)
    assert done.returncode == 0, done
    for client in clients:
        answer = client.answer()
        assert answer.status == (200 if verb == "allow" else 403)
    text = asked.file.read_text()
    assert 'paths   = ["/users/{}"]' in text and 'users   = ["root"]' in text and 'methods = ["GET"]' in text
    answer = asked.get("/users/19")
    if verb == "allow":
        assert answer.status == 200
    else:
        refused(answer, reason="rule-denies")
    assert asked.line("/users/19")["reason"] == ("rule" if verb == "allow" else "rule-denies")
    # Another for the same host has a name of its own.
    client = asked.start("/y")
    assert command(verb, asked.question()["ref"], "--always", *asked.at).returncode == 0
    client.answer()
    names = re.findall(r'^name +="?.*$|^name .*$', asked.file.read_text(), re.MULTILINE)
    assert len(names) == len(set(names)) == 2
    assert command("check", *asked.at).returncode == 0


def test_a_rule_for_a_host_for_good(including):
    asked = including
    done = command("allow", "127.0.0.1", "--always", "--user", "root", "--port", str(asked.origin.port), *asked.at)
    assert done.returncode == 0, done
    assert asked.get("/x").status == 200
    assert asked.line("/x")["reason"] == "rule"


def test_a_lasting_no_that_would_have_no_effect_is_not_written(including):
    """A rule that comes first allows the host."""
    asked = including
    (asked.directory / "10-sites.toml").write_text('[[rule]]\nname = "sites"\nhosts = ["127.0.0.1"]\n')
    done = command("deny", "127.0.0.1", "--always", *asked.at)
    assert done.returncode == 1 and "not have its effect" in done.stderr and "'sites'" in done.stderr, done
    assert not asked.file.exists()
    done = command("deny", "other.example", "--always", *asked.at)
    assert done.returncode == 0 and asked.file.exists(), done


SETTINGS = {
    "redirects": 'redirects = "deny"\n',
    "deny_addresses": 'deny_addresses = ["192.0.2.0/24"]\n',
    "route": 'route = ["office"]\n[routes.office]\nvia = "http://127.0.0.1:1"\n',
    "set": 'request.headers.set.X-Team = "a"\n',
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_lasting_yes_takes_no_settings_away(name, asking):
    """They are of the rule that asks. With --for they stay."""
    asked = asking(ASK + SETTINGS[name])
    directory = asked.proxy.configuration.parent / "policy.d"
    directory.mkdir()
    asked.proxy.configuration.write_text(INCLUDE + asked.proxy.configuration.read_text())
    client = asked.start("/x")
    reference = asked.question()["ref"]
    done = command("allow", reference, "--always", "--config", asked.proxy.configuration)
    assert done.returncode == 1 and f"would not have: {name}" in done.stderr and "--for" in done.stderr, done
    for host in ("127.0.0.1", "*.example"):
        done = command("allow", host, "--always", "--config", asked.proxy.configuration)
        assert done.returncode == 1 and f"would not have: {name}" in done.stderr, done
    assert not (directory / "90-answers.toml").exists() and asked.question()["ref"] == reference
    asked.deny(reference)
    refused(client.answer())


def test_where_the_file_is_not_included_nothing_is_added(including, tmp_path):
    asked = including
    client = asked.start("/x")
    reference = asked.question()["ref"]
    other = tmp_path / "elsewhere.toml"
    other.write_text("# mine\n")
    done = command("allow", reference, "--always", "--write", other, *asked.at)
    assert done.returncode == 1 and str(other) in done.stderr and "include" in done.stderr, done
    assert other.read_text() == "# mine\n" and asked.question()["ref"] == reference
    absent = tmp_path / "absent.toml"
    assert command("allow", reference, "--always", "--write", absent, *asked.at).returncode == 1
    assert not absent.exists()
    asked.deny(reference)
    refused(client.answer())


def test_where_the_configuration_has_errors_nothing_is_added(including):
    asked = including
    client = asked.start("/x")
    reference = asked.question()["ref"]
    (asked.directory / "10-broken.toml").write_text("[[rule]]\nnam = 1\n")
    done = command("allow", reference, "--always", *asked.at)
    assert done.returncode == 1 and done.stderr, done
    assert not asked.file.exists() and asked.question()["ref"] == reference
    (asked.directory / "10-broken.toml").unlink()
    asked.file.write_text("# mine\n")
    named = asked.directory / "80-mine.toml"
    done = command("allow", reference, "--always", "--write", named, *asked.at)
    assert done.returncode == 0, done
    assert named.exists() and asked.file.read_text() == "# mine\n"
    assert client.answer().status == 200


# What is stored, and what changes meanwhile


def test_a_stored_answer_is_no_way_around_the_operator(asking):
    site = Site()
    site.say("/x", said("Cache-Control: max-age=3600", body=b"ok"))
    asked = asking("[cache]\n" + ASK + terms(remember="0s") + "[rule.cache]\n", script=site)
    for _ in range(2):
        client = asked.start("/x")
        asked.allow(asked.question())
        assert client.answer().body == b"ok"
    client = asked.start("/x")
    asked.deny(asked.question())
    refused(client.answer())
    assert len(site.requests("/x")) == 1


def test_who_waits_over_a_reload_is_answered(asking):
    asked = asking()
    clients = [asked.start("/x")]
    question = asked.question()
    reload(asked, ADMIN + ASK.replace('"ask"', '"other"', 1))
    clients.append(asked.start("/x"))
    assert asked.question(2)["ref"] == question["ref"]
    assert asked.allow(question)["released"] == 2
    assert [client.answer().status for client in clients] == [200, 200]


def test_an_upgrade_is_asked_about(asking):
    def script(connection) -> None:
        connection.read_request()
        connection.switch_protocol()
        connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        connection.wait_for_end()

    asked = asking(script=script)
    client = asked.start("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\n")
    question = asked.question()
    assert asked.origin.connections == []
    asked.allow(question)
    assert client.message().status == 101


def test_a_host_that_is_denied_while_a_question_waits(asking):
    """What comes from then on is refused; the question is answered for itself."""
    asked = asking()
    client = asked.start("/x")
    question = asked.question()
    asked.rule("deny", "host=127.0.0.1&for=1h")
    refused(asked.get("/y"), reason="temporary-deny")
    asked.deny(question)
    refused(client.answer())


# Limits


def test_one_client_leaves_room_for_others(asking, client_of):
    asked = asking()
    clients = [asked.start(f"/{word(number)}") for number in range(256)]
    asked.questions(256)
    problem = refused(asked.get(f"/{word(256)}"), "unanswered", ask="unasked", reason="unanswered")
    assert "256" in problem.body["detail"], problem.body
    # Who asks what is asked already joins; others are asked about.
    clients.append(asked.start(f"/{word(0)}"))
    asked.questions(256, 257)
    other = client_of(asked.proxy, NUMBERED)
    other.send(asked.head("/x"))
    questions = asked.questions(257, 258)
    mine = next(question for question in questions if question["uid"] == NUMBERED)
    asked.allow(mine)
    assert other.answer().status == 200
    clients[5].looked_at = False
    clients[5].close()
    asked.questions(255, 256)
    clients.append(asked.start(f"/{word(256)}"))
    asked.questions(256, 257)


def test_there_are_at_most_so_many_questions(asking, client_of):
    asked = asking()
    for user in range(4):
        for number in range(256):
            client = client_of(asked.proxy, NUMBERED + user)
            client.send(asked.head(f"/{word(number)}"))
    asked.questions(1024)
    last = client_of(asked.proxy, NUMBERED + 4)
    problem = refused(last.exchange(asked.head("/x")), "unanswered", ask="unasked")
    assert "1024" in problem.body["detail"], problem.body


# A rule that is not enforced, and what the other commands say


def test_a_rule_that_is_not_enforced_asks_nobody(asking):
    asked = asking(ASK + "enforce = false\n")
    assert asked.get("/x").status == 200
    line = asked.line("/x")
    assert (line["decision"], line["reason"], line["report"]) == ("allow", "rule-would-ask", "unanswered")
    assert asked.asks() == []


def test_explain_says_who_asks(tmp_path, sallyport_binary):
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(configuration_text(policy=ASK + '[[rule]]\nname = "free"\nhosts = ["free.test"]\n'))
    for request in (("http://a.test/x",), ("CONNECT", "a.test:443"), ("POST", "http://a.test/x")):
        done = command("explain", "--config", configuration, *request)
        assert done.returncode == 3 and "asks an operator, by rule 'ask'" in done.stdout, done
    done = command("explain", "--config", configuration, "http://free.test/")
    assert done.returncode == 0 and "asks an operator" not in done.stdout, done
    done = command("explain", "--config", configuration, "--json", "http://a.test/x")
    assert done.returncode == 3 and json.loads(done.stdout)["decision"] == "ask", done.stdout


def test_an_expectation_may_be_that_it_is_asked(tmp_path, sallyport_binary):
    configuration = tmp_path / "sallyport.toml"
    expects = '[[expect]]\nrequest = "http://a.test/x"\nverdict = "{}"\n'
    for verdict, code in (("ask", 0), ("allow", 3), ("deny", 3)):
        configuration.write_text(configuration_text(policy=ASK + expects.format(verdict)))
        done = command("test", "--config", configuration)
        assert done.returncode == code, done
    assert 'seen "ask"' in done.stdout


def test_diff_says_what_is_newly_asked(tmp_path, sallyport_binary):
    (tmp_path / "old.toml").write_text('[[rule]]\nname = "all"\n')
    (tmp_path / "new.toml").write_text(ASK)
    done = command("diff", "old.toml", "new.toml", cwd=tmp_path)
    # Its status is 1 where anything is newly denied alone.
    assert done.returncode == 0 and "newly asked about:\n" in done.stdout, done
    assert re.search(r"^newly denied 0, newly asked [1-9]\d*, newly allowed 0, ", done.stdout, re.MULTILINE), done
    assert command("diff", "new.toml", "new.toml", cwd=tmp_path).returncode == 0
    done = command("diff", "new.toml", "old.toml", cwd=tmp_path)
    assert done.returncode == 0 and "newly allowed:\n  asks an operator, by rule 'ask'" in done.stdout, done


def test_replay_says_what_is_newly_asked(recording):
    recorded = recording('[[rule]]\nname = "open"\n', "workers = 1")
    recorded.get("http://refused.test/x")
    recorded.records(1)
    file = recorded.file.parent / "new.toml"
    file.write_text(configuration_text("workers = 1", ASK))
    done = run("replay", "--config", file, "--file", recorded.file)
    assert done.stdout.startswith("newly denied 0, newly asked 1, newly allowed 0, of 1\n"), done
    assert "http://refused.test/x" in done.stdout, done


# What a refusal says

CONTACT = 'contact = "the \\"desk\\" <ops@a.test>"'


def test_a_refusal_says_whom_to_ask(asking):
    asked = asking("", proxy=f"workers = 1\n{DENY}\n{CONTACT}")
    for request in (asked.head("/x"), asked.connect_head()):
        problem = refused(
            asked.client().exchange(request), reason="default-denies", contact='the "desk" <ops@a.test>', ask=None
        )
        assert problem.body["allow"].startswith("[[rule]]\n")


# Inside a tunnel, requests are refused that no rule allows; the tunnel itself is granted for one that nobody sends.
INSIDE = """
[[rule]]
name = "inside"
hosts = ["a.test"]
methods = ["BREW"]
ports = [443, {port}]
connect = "intercept"
"""


def test_a_refusal_says_the_same_inside_tunnels(secure_asking, enter):
    asked = secure_asking("")
    policy = INSIDE.format(port=asked.origin.port)
    lines = f"workers = 1\n{DENY}\n{CONTACT}"
    reload(asked, asked.head_of_file + policy, lines)
    client = enter(asked)
    body = json.loads(client.exchange(f"GET /x HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n".encode()).body)
    stream = enter(asked, "h2").get(asked.authority, "/x")
    other = json.loads(stream.body)
    for members in (body, other):
        assert members.pop("ref")
        assert members["reason"] == "default-denies" and members["contact"] == 'the "desk" <ops@a.test>'
        assert "https" in members["allow"] and "/x" in members["allow"]
    assert body == other and stream.status == 403


PLAIN = [
    ("GET", "/x", [("GET", "/y"), ("POST", "/x"), ("GET", "/x/"), ("GET", "/x/y")]),
    ("POST", "/x", [("GET", "/x")]),
    ("GET", "/", [("GET", "/x")]),
    ("GET", "/x?token=s3cret", [("GET", "/y?token=s3cret")]),
    ("GET", "/users/17", [("GET", "/users"), ("GET", "/users/me/17"), ("GET", "/users/17/delete")]),
    ("GET", "/users/17/a.png", [("GET", "/users/17/b.png"), ("GET", "/users/17/x/a.png")]),
    ("GET", "/a*b", [("GET", "/axb"), ("GET", "/ab")]),
    ("GET", "/*", [("GET", "/x")]),
    ("GET", "/a%2Ab", [("GET", "/axb")]),
    ("GET", "/a%20b", [("GET", "/a"), ("GET", "/a%20c")]),
    ("GET", "/a%2fb", [("GET", "/a%2fc")]),
    ("GET", "/%41", [("GET", "/B")]),
    ("GET", "/b%C3%BCcher", [("GET", "/bucher")]),
    ("GET", "/it's(a)~test", [("GET", "/its")]),
    ("GET", "/" + "/".join("1" * 12), [("GET", "/x")]),
    ("OPTIONS", "", [("GET", "/")]),  # no pattern of paths says "none"
    ("DELETE", "/v1/things/0f1e2d3c4b5a", [("GET", "/v1/things/0f1e2d3c4b5a")]),
    ("CONNECT", "", [("GET", "/"), ("CONNECT other", "")]),
]


@pytest.mark.parametrize("method, path", [row[:2] for row in PLAIN], ids=lambda value: value or "none")
def test_every_kind_of_request_is_remembered(asking, method, path):
    asked = asking(ASK + terms(wait="3s"), script=tunnel_echo if method == "CONNECT" else None)
    head = asked.connect_head() if method == "CONNECT" else asked.head(path, "Content-Length: 0\r\n", method)
    client = asked.client()
    client.send(head)
    asked.allow(asked.question())
    assert client.answer().status == 200
    client.close()
    again = asked.client()
    assert again.exchange(head).status == 200, asked.temporary()
    again.close()
    assert asked.proxy.access(lambda line: line["reason"] == "temporary-allow")


class Advised:
    """A policy that refuses, and what its refusals say would allow a request."""

    def __init__(self, asked, head: str, lines: str):
        self.asked, self.head, self.lines = asked, head, lines

    def check(self, request, neighbours, ask, before: bool = False) -> None:
        """`ask(request)` answers the status and the body."""
        status, body = ask(request)
        assert status == 403, (request, status)
        text = json.loads(body)["allow"]
        reload(self.asked, self.placed(text), self.lines)
        try:
            status, body = ask(request)
            assert status == 200, f"{request} is refused with\n{text}\n{body!r}"
            for neighbour in neighbours:
                status, body = ask(neighbour)
                assert status == 403, f"{neighbour} passes with\n{text}"
                assert json.loads(body)["reason"] != "temporary-deny"
        finally:
            reload(self.asked, self.head, self.lines)

    def placed(self, text: str) -> str:
        """Before the rule that denies where the text says so, else behind all."""
        first = self.head.find("[[rule]]")
        return self.head[:first] + text + self.head[first:] if text.startswith("# Before") else self.head + text


@pytest.mark.parametrize("method, path, neighbours", PLAIN, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.parametrize("why", ["default-denies", "rule-denies"])
def test_the_rule_that_is_advised_allows_the_request_and_no_other(asking, raw_origin, method, path, neighbours, why):
    policy = "" if why == "default-denies" else '[[rule]]\nname = "no"\naction = "deny"\n'
    lines = f"workers = 1\n{DENY}" if not policy else "workers = 1"
    asked = asking(policy, proxy=lines)
    other = raw_origin(answering(OK))

    def ask(request) -> tuple[int, bytes]:
        verb, target = request
        if verb.startswith("CONNECT"):
            answer = asked.client().exchange(asked.connect_head(other if "other" in verb else None))
        else:
            length = "Content-Length: 0\r\n" if verb == "POST" else ""
            answer = asked.client().exchange(asked.head(target, length, verb))
        return answer.status, answer.body

    Advised(asked, ADMIN + policy, lines).check((method, path), neighbours, ask)


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_the_rule_that_is_advised_inside_a_tunnel(secure_asking, enter, protocol):
    asked = secure_asking("")
    lines = f"workers = 1\n{DENY}"
    head = asked.head_of_file + INSIDE.format(port=asked.origin.port)
    reload(asked, head, lines)

    def ask(request) -> tuple[int, bytes]:
        verb, target = request
        client = enter(asked, protocol)
        if protocol == "h2":
            exchange = client.get(asked.authority, target, method=verb)
            return exchange.status, exchange.body
        length = "Content-Length: 0\r\n" if verb == "POST" else ""
        answer = client.exchange(f"{verb} {target} HTTP/1.1\r\nHost: {asked.authority}\r\n{length}\r\n".encode())
        return answer.status, answer.body

    advised = Advised(asked, head, lines)
    # How wide `*` is, is the subject of the test above.
    for method, path, neighbours in PLAIN:
        if path and "/users/" not in path:
            advised.check((method, path), neighbours, ask)


def test_the_rule_that_is_advised_for_a_request_that_is_originated(secure_asking):
    """Without an authority of its own the proxy can read no tunnel, and the rule must not ask for it."""
    asked = secure_asking("")
    head = re.sub(r"\[authority\]\n.*\n", "", asked.head_of_file)
    lines = f"workers = 1\n{DENY}"
    reload(asked, head, lines)

    def ask(request) -> tuple[int, bytes]:
        verb, target = request
        text = f"{verb} https://{asked.authority}{target} HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n"
        answer = asked.client().exchange(text.encode())
        return answer.status, answer.body

    Advised(asked, head, lines).check(("GET", "/x"), [("GET", "/y")], ask)


def test_the_rule_that_is_advised_for_a_port_that_is_not_listed(asking):
    policy = '[[rule]]\nname = "listed"\nhosts = ["127.0.0.1"]\n'
    lines = f"workers = 1\n{DENY}"
    asked = asking(policy, proxy=lines)

    def ask(_) -> tuple[int, bytes]:
        answer = asked.client().exchange(asked.connect_head())
        return answer.status, answer.body

    Advised(asked, ADMIN + policy, lines).check("CONNECT", [], ask)


@pytest.mark.own_network
def test_the_rule_that_is_advised_for_the_usual_port_is_for_no_other(asking, raw_origin):
    lines = f"workers = 1\n{DENY}"
    asked = asking("", proxy=lines)
    usual = raw_origin(answering(OK), port=80)

    def ask(origin) -> tuple[int, bytes]:
        answer = asked.client().exchange(asked.head("/x", origin=origin))
        return answer.status, answer.body

    Advised(asked, ADMIN, lines).check(usual, [asked.origin], ask)


def test_a_yes_to_a_scheme_is_none_to_another(secure_asking, enter):
    """http:// and https:// of one port are two questions."""
    asked = secure_asking(ASK + 'connect = "intercept"\n')
    client = enter(asked)
    client.send(f"GET /x HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n".encode())
    asked.allow(asked.question())
    assert client.answer().status == 200
    plain = asked.client()
    plain.send(f"GET http://{asked.authority}/x HTTP/1.1\r\nHost: {asked.authority}\r\n\r\n".encode())
    question = asked.question()
    assert question["url"] == f"http://{asked.authority}/x"
    asked.deny(question)
    refused(plain.answer())


def test_a_refused_address_is_a_refusal_too(asking):
    asked = asking('[[rule]]\nname = "all"\ndeny_addresses = ["127.0.0.0/8"]\n', proxy=f"workers = 1\n{CONTACT}")
    problem = check_problem(asked.get("/x"), 403)
    assert problem.token == "address-denied" and "allow" not in problem.body
    assert problem.body.get("reason") == "address-denied" and problem.body.get("contact")


@pytest.mark.parametrize("line", ['path = 7', 'port = "80"', 'pth = "/x"'])
def test_a_file_with_a_condition_that_is_none_ends_the_start(tmp_path, state, line, sallyport_binary):
    """Passed over, it would make the permission wider than it was written."""
    rule = f'id = 1\nverdict = "allow"\nhost = "a.test"\nsince = 1\nuntil = 9999999999999\nby = "root"\n{line}\n'
    (state / "temporary-rules.toml").write_text("[[temporary]]\n" + rule)
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(configuration_text(f'state = "{state}"\nworkers = 1', ASK))
    starting = subprocess.Popen(
        [binary(), "run", "--config", configuration],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=clean_environment(),
    )
    ready = starting.stdout.readline()
    starting.terminate()
    _, said_of_it = starting.communicate(timeout=DEADLINE_SECONDS)
    assert ready == "" and "temporary-rules.toml" in said_of_it, "it starts"


def test_two_rules_that_are_advised_for_a_host_stand_beside_each_other(asking):
    lines = f"workers = 1\n{DENY}"
    asked = asking("", proxy=lines)
    texts = [json.loads(asked.get(path).body)["allow"] for path in ("/x", "/y")]
    reload(asked, ADMIN + "".join(texts), lines)
    assert asked.get("/x").status == asked.get("/y").status == 200


# Many


# What a second reader found


def test_a_denial_holds_on_the_way_to_a_target(asking):
    target = '[[rule]]\nname = "api"\nhosts = ["api.test"]\ntarget = "http://127.0.0.1:{port}/v2/"\n'
    asked = asking("")
    reload(asked, ADMIN + target.format(port=asked.origin.port))
    head = b"GET http://api.test/x HTTP/1.1\r\nHost: api.test\r\n\r\n"

    def answer():
        client = asked.client()
        client.send(head)
        return client.answer()

    assert answer().status == 200
    asked.rule("deny", "host=127.0.0.1&for=1h")
    refused(answer(), reason="temporary-deny")
    assert len(asked.asked_paths()) == 1


def test_explain_says_what_an_operator_denies_for_now(asking):
    """By its exit status too, and for where the request is sent instead."""
    target = '[[rule]]\nname = "api"\nhosts = ["api.test"]\ntarget = "http://hh.test/v2/"\n'
    asked = asking(target)
    asked.rule("deny", "host=**.hh.test&for=1h")
    for url in ("http://hh.test/", "http://a.hh.test/x", "https://hh.test/", "http://api.test/x"):
        done = command("explain", "-c", asked.proxy.configuration, "--user", "root", url)
        assert done.returncode == 3 and "temporary rule 1 decides" in done.stderr, (url, done)
        shown = json.loads(command("explain", "-c", asked.proxy.configuration, "--user", "root", "--json", url).stdout)
        assert shown["temporary"]["decision"] == "deny" and "rule 1 decides" in shown["temporary"]["detail"]
    assert command("explain", "-c", asked.proxy.configuration, "--user", "root", "http://a.test/").returncode == 0


def test_explain_knows_that_an_address_stays_denied_after_a_yes(asking):
    asked = asking(ASK + 'deny_addresses = ["192.0.2.0/24"]\n')
    for host, status in (("192.0.2.1", 3), ("192.0.3.1", 0)):
        asked.rule("allow", f"host={host}&for=1h")
        done = command("explain", "-c", asked.proxy.configuration, "--user", "root", f"http://{host}/")
        assert done.returncode == status and "decides" in done.stderr, done


def test_an_answer_to_half_a_path_is_none(asking):
    """The log shortens long paths: what is left of one is another path."""
    asked = asking()
    path = "/" + "a" * 1100 + "/one"
    client = asked.start(path)
    asked.deny(asked.question())
    problem = refused(client.answer())
    reference = problem.reference
    for verb in ("allow", "deny"):
        done = command(verb, reference, "--for", "1h", "--config", asked.proxy.configuration)
        assert done.returncode == 1 and "too long" in done.stderr, done


def test_a_permission_that_would_change_nothing_is_refused(asking):
    asked = asking('[[rule]]\nname = "no"\naction = "deny"\n')
    problem = refused(asked.get("/x"), reason="rule-denies")
    done = command("allow", problem.reference, "--for", "1h", "--config", asked.proxy.configuration)
    assert done.returncode == 1 and "would change nothing" in done.stderr and "'no'" in done.stderr, done
    assert command("deny", problem.reference, "--for", "1h", "--config", asked.proxy.configuration).returncode == 0


def test_a_denial_of_a_path_closes_requests_in_the_clear(asking):
    """A tunnel is no way around it."""
    asked = asking("")
    problem = asked.get("/secret")
    assert problem.status == 200
    reference = asked.line("/secret")["ref"]
    assert command("deny", reference, "--for", "1h", "--config", asked.proxy.configuration).returncode == 0
    for path in ("/secret", "/SECRET", "/secret/"):
        refused(asked.get(path), reason="temporary-deny")
    tunnel = asked.client()
    tunnel.send(asked.connect_head())
    assert tunnel.answer().status == 200
    tunnel.send(asked.head("/secret"))
    tunnel.wait_for_end()
    assert tunnel.unread() == b""
    assert asked.asked_paths() == ["/secret"]


def test_a_rule_for_a_user_holds_where_no_policy_asks_for_users(asking, client_of):
    asked = asking("[log]\nwho = false\n")

    def as_user(user: int):
        return client_of(asked.proxy, user).exchange(asked.head("/x"))

    assert as_user(NUMBERED).status == 200
    asked.rule("deny", f"host=127.0.0.1&user={NUMBERED}&for=1h")
    refused(as_user(NUMBERED), reason="temporary-deny")
    assert as_user(STRANGER).status == 200


def test_a_permission_releases_no_tunnel_that_it_would_not_allow(asking):
    asked = asking()
    tunnel = asked.client()
    tunnel.send(asked.connect_head())
    asked.question()
    asked.rule("allow", "host=127.0.0.1&for=1h")
    question = asked.question()
    assert question["method"] == "CONNECT"
    asked.deny(question)
    refused(tunnel.answer(), reason="operator-denies")


def test_nobody_is_asked_about_what_is_denied_meanwhile(asking):
    """And whoever waited is told which rule denies it, which is not the one that asked."""
    asked = asking()
    clients = [asked.start("/x"), asked.start("/x")]
    question = asked.question(2)
    reload(asked, ADMIN + '[[rule]]\nname = "no"\naction = "deny"\n')
    for client in clients:
        answer = client.answer()
        refused(answer)
        told = json.loads(answer.body)
        assert "rule no denies" in told["detail"] and told.get("allow") is None
    asked.none_waits()
    assert asked.post("allow", f"ref={question['ref']}").status == 409
    assert asked.asked_paths() == []


def test_explain_tells_of_rules_for_an_address(asking, state):
    """Of a client elsewhere: explain does not know from where a request comes, so it says for which address."""
    (state / "temporary-rules.toml").write_text(
        'next = 2\n[[temporary]]\nid = 1\nverdict = "deny"\nhost = "a.test"\nclient = "192.0.2.7"\n'
        f'since = 0\nuntil = {2**52}\nby = "root"\n'
    )
    asked = asking("", proxy=f'workers = 1\nstate = "{state}"')
    done = command("explain", "-c", asked.proxy.configuration, "http://a.test/x")
    assert done.returncode == 0 and "temporary rule 1 decides" in done.stderr and "for 192.0.2.7" in done.stderr
    done = command("explain", "-c", asked.proxy.configuration, "http://b.test/x")
    assert "temporary" not in done.stderr


def test_a_path_of_many_segments_holds_nobody_up(asking):
    """One question, without a rule that could name it, and an answer that is remembered."""
    asked = asking()
    path = "/" + "a/" * 20_000
    clients = [asked.start(path) for _ in range(3)]
    question = asked.question(3)
    assert len(question["url"]) < 200 and question["allow"] is None
    asked.allow(question)
    assert [client.answer().status for client in clients] == [200] * 3
    assert asked.get(path).status == 200
    assert asked.admin.json("/v1/status")["policy"]["rules"] == 1


@pytest.mark.parametrize("verb", ["allow", "deny"])
def test_a_thousand_wait_for_one_answer(asking, verb, record_property):
    """One question; that they wait costs the daemon next to nothing, as measured while another question expires."""
    short = '[[rule]]\nname = "short"\naction = "ask"\npaths = ["/short"]\n' + terms(wait="2s")
    asked = asking(short + ASK, proxy="workers = 2\n[proxy.limits]\nconnections_per_host = 2000")
    count = 1000
    clients = [asked.start("/x") for _ in range(count)]
    question = asked.question(count)
    used, begin = asked.proxy.cpu_seconds(), time.monotonic()
    refused(asked.start("/short").answer(), "unanswered")
    used, seconds = asked.proxy.cpu_seconds() - used, time.monotonic() - begin
    begin = time.monotonic()
    assert asked.answer(verb, question)["released"] == count
    answered = time.monotonic() - begin
    for client in clients:
        assert client.answer().status == (200 if verb == "allow" else 403)
    released = time.monotonic() - begin
    figures = {
        "cpu_while_waiting_s": round(used, 3), "waited_s": round(seconds, 2),
        "operator_told_s": round(answered, 4), "last_released_s": round(released, 4),
    }
    lines = asked.proxy.log.wait_for_several(count, lambda line: str(line.get("reason")).startswith("operator-"))
    word_of_it = asked.proxy.log.wait_for(lambda line: "the answer of root" in line.get("message", ""))
    figures["by_the_log_s"] = round(max(moment(line) for line in lines) - moment(word_of_it), 3)
    print(f"\n{verb}: {figures}")
    record_property("figures", json.dumps(figures))
    assert used < 0.2 and asked.asks() == []


def moment(line: dict) -> float:
    """When a line of the log was written: that of an exchange says when it began, and how long it took."""
    return datetime.datetime.fromisoformat(line["time"]).timestamp() + line.get("total_ms", 0) / 1000
