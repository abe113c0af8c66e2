"""GET /v1/events: what happens, as it happens, for those who read, and for those who do not."""

import json
import re
import threading
import time
from collections import Counter

import pytest

from admin_world import (
    ADMIN,
    administered,
    ask_once,
    DENY,
    OK,
    POLICY,
    raw_admin,
    rewrite,
    samples,
    TWO_PINS,
)
from admin_client import TIME, AdminClient, Watcher, request, said
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo
from problems import check_problem
from test_policy import connect, get
from tls_world import pins, rule, secure_client, secure_proxy, tls_origin, world


BEGUN = {
    "time", "ref", "client", "method", "target", "protocol", "user", "unit", "program", "proxy_user", "rule", "place", "decision",
    "reason", "answered_by",
}


def test_events_of_what_happens(administered, raw_origin, raw_client):
    proxy, origin = administered(POLICY), raw_origin(answering(OK))
    with proxy.admin.events() as one, proxy.admin.events() as two:
        assert "text/event-stream" in one.head
        check_problem(ask_once(raw_client, proxy, get("x.ads.test", 80)), 403)
        ask_once(raw_client, proxy, get("json.test", origin.port))
        ask_once(raw_client, proxy, get("lenient.test", origin.port))
        assert proxy.admin.ask("/v1/reload", "POST").status == 200
        rewrite(proxy, "[nonsense]\n")
        assert proxy.admin.ask("/v1/reload", "POST").status == 422
        denied, annotated, lenient = proxy.access_lines()
        for watcher in (one, two):
            events = []
            while not events or events[-1].data.get("done") is not False:
                events.append(watcher.next())
            finished = [event.data for event in events if event.kind == "finished"]
            # The log tells when an exchange began, the event when it ended.
            assert all(event["time"] >= line["time"] for event, line in zip(finished, proxy.access_lines()))
            finished = [event | {"time": line["time"]} for event, line in zip(finished, proxy.access_lines())]
            assert [said(event) for event in finished] == [denied, annotated, lenient]
            violations = [event.data["ref"] for event in events if event.kind == "violation"]
            assert violations in ([annotated["ref"]], [annotated["ref"], lenient["ref"]])
            reloads = [event.data for event in events if event.kind == "reload"]
            assert [reload["done"] for reload in reloads] == [True, False]
            assert reloads[0]["rules"] == 6 and reloads[0]["errors"] == []
            assert "nonsense" in reloads[1]["errors"][0]
            assert {event.kind for event in events} == {"begun", "finished", "violation", "reload"}
            begun = [event.data for event in events if event.kind == "begun"]
            assert begun == [
                {"ref": line["ref"]} | {name: line[name] for name in BEGUN - {"ref"}} for line in finished
            ]
            order = [(event.kind, event.data.get("ref")) for event in events]
            for line in finished:
                assert order.index(("begun", line["ref"])) < order.index(("finished", line["ref"]))


def test_a_pin_mismatch_is_an_event(secure_proxy, secure_client, tls_origin, world):
    policy = ADMIN + pins("wrong", 'mode = "public-key"', TWO_PINS)
    policy += rule("payments", 'hosts = ["pay.test"]', 'connect = "verify"', security='pins = "wrong"')
    proxy = secure_proxy(policy)
    proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")
    origin = tls_origin(answering(OK), world.context(world.leaf("pay.test", "watched.test")), tunnelled=True)
    with proxy.admin.events() as watcher:
        problem = check_problem(secure_client(proxy).tunnel("pay.test", origin.port), 502, rule="payments")
        assert problem.token == "pin-mismatch"
        told = watcher.until("pin-mismatch")
        assert told["rule"] == "payments" and told["ref"] == problem.reference
    assert proxy.admin.json("/v1/rules")[0]["failed"] == {"pin-mismatch": 1}


def test_a_pin_mismatch_that_is_only_reported_is_an_event_too(secure_proxy, secure_client, tls_origin, world):
    policy = ADMIN + pins("watched", 'mode = "public-key"', TWO_PINS, "enforce = false")
    policy += rule("watched", 'hosts = ["watched.test"]', 'connect = "verify"', security='pins = "watched"')
    proxy = secure_proxy(policy)
    proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")
    origin = tls_origin(answering(OK), world.context(world.leaf("watched.test")), tunnelled=True)
    with proxy.admin.events() as watcher:
        client = secure_client(proxy)
        assert client.tunnel("watched.test", origin.port).status == 200
        client.close()
        assert proxy.access()["report"] == "pin-mismatch"
        entry = proxy.admin.json("/v1/rules")[0]
        assert entry["reports"] == {"pin-mismatch": 1} and "pin-mismatch" not in entry["failed"]
        reports = ("sallyport_reports_total", (("kind", "pin-mismatch"), ("rule", "watched")))
        assert samples(proxy)[reports] == 1
        proxy.admin.ask("/v1/reload", "POST")
        kinds = []
        while "reload" not in kinds:
            kinds.append(watcher.next().kind)
        assert "pin-mismatch" in kinds, kinds


def test_events_as_text(administered, raw_client):
    proxy = administered(DENY)
    with proxy.admin.events(lines="Accept: text/plain\r\n") as watcher:
        assert "Content-Type: text/plain" in watcher.head
        reference = check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403).reference
        for kind in ("begun", "finished"):
            line = watcher.next_line()
            assert line.startswith(f"{kind} ") and f" {reference} " in line and "rule=no-ads" in line, line
            assert " GET http://x.ads.test:80/ " in line and "{" not in line
        assert " 403 " in line and "outcome=denied" in line
        proxy.admin.ask("/v1/reload", "POST")
        assert re.fullmatch(rf"reload +{TIME.pattern} done=true rules=1", watcher.next_line())


def test_events_come_without_access_lines_too(administered, raw_client):
    proxy = administered(DENY + "[log]\naccess = false\n")
    with proxy.admin.events() as watcher:
        reference = check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403).reference
        assert watcher.until("finished")["ref"] == reference


def test_an_event_stream_in_answer_to_head_and_http_1_0(administered, raw_admin, raw_client):
    proxy = administered(DENY)
    connection = raw_admin(proxy)
    answer = connection.exchange(request("/v1/events", "HEAD"))
    assert answer.status == 200 and answer.body == b""
    old = proxy.admin.connection()
    old.send(b"GET /v1/events HTTP/1.0\r\n\r\n")
    assert b" 200 " in old.receive_until(b"\r\n\r\n")
    raw_client(proxy).exchange(get("x.ads.test", 80))
    assert b"begun" in old.receive_until(b"\n\n") and b"finished" in old.receive_until(b"\n\n")
    old.close()


def test_watchers_that_leave_cost_nothing(administered, raw_client):
    """Many more than may be at once, one after the other, half of them without a proper end: each finds its place, for
    whoever left before it came has left its own."""
    proxy = administered(DENY)
    assert proxy.admin.json("/v1/status")["connections"]["clients"] == 0  # every loop has what it opens at its start
    before = proxy.descriptors()
    for number in range(200):
        watcher = proxy.admin.events()
        if number % 2:
            watcher.half_close()
        watcher.close()
    client = raw_client(proxy)
    for _ in range(10):
        client.exchange(get("x.ads.test", 80))
    assert proxy.admin.json("/v1/status")["exchanges"]["total"] == 10
    # The last of them may be on its way out still.
    end = time.monotonic() + DEADLINE_SECONDS
    while proxy.descriptors() > before + 1:
        assert time.monotonic() < end, f"{proxy.descriptors()} descriptors, {before} before"


MOST_WATCHERS = 16


def test_watchers_are_limited_and_never_lock_an_operator_out(administered, raw_client):
    proxy = administered(DENY)
    watchers = [proxy.admin.events() for _ in range(MOST_WATCHERS)]
    refused = proxy.admin.ask("/v1/events")
    assert refused.status == 503 and "16" in json.loads(refused.body)["detail"]
    assert proxy.admin.json("/v1/status")["draining"] is False
    watchers.pop().close()
    watchers.append(proxy.admin.events())
    reference = check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403).reference
    for watcher in watchers:
        assert watcher.until("finished")["ref"] == reference
        watcher.close()


# Kinds


@pytest.mark.parametrize(
    "query, kinds",
    [
        ("?kind=reload", {"reload"}),
        ("?kind=finished,reload", {"finished", "reload"}),
        ("?kind=finished%2Creload", {"finished", "reload"}),
        ("?kind=begun&kind=reload", {"begun", "reload"}),
        ("", {"begun", "finished", "reload"}),
    ],
)
def test_a_reader_chooses_kinds(query, kinds, administered, raw_client):
    proxy = administered(DENY)
    with Watcher(proxy.admin.path, query=query) as watcher, proxy.admin.events() as other:
        check_problem(ask_once(raw_client, proxy, get("x.ads.test", 80)), 403)
        assert proxy.admin.ask("/v1/reload", "POST").status == 200
        seen = [watcher.next().kind]
        while seen[-1] != "reload":
            seen.append(watcher.next().kind)
        assert set(seen) == kinds
        assert [other.next().kind for _ in range(3)] == ["begun", "finished", "reload"]


@pytest.mark.parametrize("value", ["nonsense", "", "reload,", "Reload", "lost", "reload,%00", "%zz", "a" * 500])
def test_a_kind_that_there_is_not(value, administered):
    proxy = administered()
    answer = proxy.admin.ask(f"/v1/events?kind={value}")
    assert answer.status == 400 and len(answer.body) < 400
    detail = json.loads(answer.body)["detail"]
    assert "kind" in detail and ("pin-mismatch" in detail or "control characters" in detail), detail


# Beginnings


def test_everything_that_ends_has_begun(administered, raw_origin, raw_client):
    """What is refused before any rule is asked too; and a tunnel begins long before it ends."""
    proxy, origin = administered(DENY), raw_origin(tunnel_echo)
    with proxy.admin.events("begun", "finished") as watcher:
        client = raw_client(proxy)
        assert client.exchange(connect("a.test", origin.port)).status == 200
        tunnel = watcher.next()
        assert tunnel.kind == "begun" and tunnel.data["method"] == "CONNECT" and set(tunnel.data) == BEGUN
        assert (tunnel.data["decision"], tunnel.data["rule"]) == ("allow", None)
        broken = raw_client(proxy)
        assert broken.exchange(b"nonsense\r\n\r\n").status == 400
        first, second = watcher.next(), watcher.next()
        assert (first.kind, second.kind) == ("begun", "finished") and first.data["ref"] == second.data["ref"]
        assert first.data["decision"] is None and first.data["reason"] is None and first.data["rule"] is None
        half = raw_client(proxy)
        half.send(b"GET http://a.test/ HT")
        half.half_close()
        assert half.answer().status == 400
        first, second = watcher.next(), watcher.next()
        assert (first.kind, second.kind) == ("begun", "finished") and first.data["ref"] == second.data["ref"]
        client.close()
        end = watcher.next()
        assert end.kind == "finished" and end.data["ref"] == tunnel.data["ref"]


def test_what_began_before_the_reader_came_only_ends_for_it(administered, raw_origin, raw_client):
    proxy, origin = administered(), raw_origin(tunnel_echo)
    client = raw_client(proxy)
    assert client.exchange(connect("a.test", origin.port)).status == 200
    with proxy.admin.events("begun", "finished") as watcher:
        client.close()
        assert watcher.next().kind == "finished"


# Progress

PROGRESS = {"time", "ref", "rule", "bytes_in", "bytes_out", "expected_in", "expected_out", "age_ms"}
# A loop reads its clock once a turn.
TURN_MILLISECONDS = 20


def test_the_progress_of_a_response(administered, raw_origin, raw_client):
    """A hundred bytes, then more when the reader has heard of those, then the rest."""
    steps = [threading.Event() for _ in range(2)]

    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"a" * 100)
        for step, count in zip(steps, (200, 700)):
            assert step.wait(DEADLINE_SECONDS)
            connection.send(b"b" * count)

    proxy, origin = administered('[[rule]]\nname = "all"\n'), raw_origin(script)
    with proxy.admin.events() as watcher:
        client = raw_client(proxy)
        client.send(get("a.test", origin.port))
        begun = watcher.until("begun")
        told = [watcher.until("progress")]
        steps[0].set()
        told.append(watcher.until("progress"))
        steps[1].set()
        assert client.answer().status == 200
        line = watcher.until("finished")
    for progress in told:
        assert set(progress) == PROGRESS
        assert (progress["ref"], progress["rule"]) == (begun["ref"], "all")
        assert progress["bytes_in"] == progress["expected_in"] == line["bytes_in"]
        assert progress["expected_out"] == line["bytes_out"]
    assert [line["bytes_out"] - progress["bytes_out"] for progress in told] == [900, 700]
    assert told[0]["age_ms"] >= 500 and told[1]["age_ms"] - told[0]["age_ms"] >= 500 - TURN_MILLISECONDS
    assert line["total_ms"] >= told[1]["age_ms"]


def test_the_progress_of_a_request(administered, raw_origin, raw_client):
    proxy, origin = administered(), raw_origin(answering(OK))
    with proxy.admin.events("progress", "finished") as watcher:
        client = raw_client(proxy)
        client.send(get("a.test", origin.port, "/", lines="Content-Length: 1000\r\n", method="POST") + b"a" * 100)
        first = watcher.until("progress")
        client.send(b"b" * 300)
        second = watcher.until("progress")
        client.send(b"c" * 600)
        assert client.answer().status == 200
        line = watcher.until("finished")
    assert [line["bytes_in"] - progress["bytes_in"] for progress in (first, second)] == [900, 600]
    assert first["expected_in"] == second["expected_in"] == line["bytes_in"]
    assert first["expected_out"] is None and first["bytes_out"] == 0


def test_the_progress_of_what_has_no_length(administered, raw_origin, raw_client):
    def chunks(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        assert released.wait(DEADLINE_SECONDS)
        connection.send(b"0\r\n\r\n")

    released = threading.Event()
    proxy, chunked, tunnelled = administered(), raw_origin(chunks), raw_origin(tunnel_echo)
    with proxy.admin.events("progress") as watcher:
        tunnel, client = raw_client(proxy), raw_client(proxy)
        assert tunnel.exchange(connect("a.test", tunnelled.port)).status == 200
        tunnel.send(b"12345")
        assert tunnel.receive_exactly(5) == b"12345"
        client.send(get("a.test", chunked.port))
        of_both = {}
        while len(of_both) < 2:
            told = watcher.until("progress")
            of_both[told["ref"]] = told
        of_tunnel, of_chunks = sorted(of_both.values(), key=lambda told: told["expected_in"] is not None)
        assert (of_tunnel["expected_in"], of_tunnel["expected_out"]) == (None, None)
        assert of_chunks["expected_in"] == of_chunks["bytes_in"] and of_chunks["expected_out"] is None
        released.set()
        assert client.answer().status == 200


def test_what_does_not_move_is_told_of_once(administered, raw_origin, raw_client):
    proxy, origin = administered(), raw_origin(tunnel_echo)
    still, moving = raw_client(proxy), raw_client(proxy)
    assert still.exchange(connect("still.test", origin.port)).status == 200
    assert moving.exchange(connect("moving.test", origin.port)).status == 200
    with proxy.admin.events("progress") as watcher:
        told = Counter()
        while max(told.values(), default=0) < 3:
            moving.send(b"x")
            assert moving.receive_exactly(1) == b"x"
            told[watcher.until("progress")["ref"]] += 1
        assert sorted(told.values()) == [1, 3], told


def test_the_last_word_is_finished(administered, raw_origin, raw_client):
    """Whatever loops and rounds there are: nothing is told of an exchange that is over."""
    proxy, origin = administered(), raw_origin(tunnel_echo)
    with proxy.admin.events("begun", "progress", "finished") as watcher:
        over, begun = set(), set()
        clients = [raw_client(proxy) for _ in range(8)]
        left = list(clients)
        for client in clients:
            assert client.exchange(connect("a.test", origin.port)).status == 200
        while len(over) < len(clients):
            event = watcher.next()
            reference = event.data.get("ref")
            assert reference not in over, f"{event} comes after its end"
            if event.kind == "begun":
                begun.add(reference)
            assert reference in begun
            if event.kind == "finished":
                over.add(reference)
            elif event.kind == "progress" and left:
                left.pop().close()
                for client in left:
                    client.send(b"x")
