"""The admin API on its unix socket: what it counts, connections, decisions, reload, drain, and that it shows no secret.

Every count is of traffic that the test made, and exact. Events, pins, metrics, the socket and the commands have files of
their own.
"""

import base64
import getpass
import json
import os
import re
import threading
from collections import Counter
from datetime import datetime

import pytest

from admin_world import (
    administered,
    ask_once,
    assert_none_went_down,
    DENY,
    many_refusals,
    OK,
    rewrite,
    samples,
    used,
)
from admin_client import request, said
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo, unused_port
from problems import check_problem
from proxy import command, configuration_text
from test_policy import connect, get


# What is counted


def test_status_counts_what_has_happened(used):
    status = used.admin.json("/v1/status")
    lines = used.access_lines()
    assert status["version"] == command("version").stdout.split()[-1]
    assert status["listen"] == [used.authority]
    assert status["workers"] >= 1 and status["draining"] is False and status["uptime_seconds"] >= 0
    assert status["started"] <= lines[0]["time"]
    assert (status["policy"]["rules"], status["policy"]["failure"]) == (6, None)
    exchanges = status["exchanges"]
    assert (exchanges["total"], exchanges["done"]) == (14, 9)
    errors = Counter(line["outcome"] for line in lines if line["outcome"] != "done")
    assert exchanges["failed"] == errors and errors["denied"] == 2 and errors["connection-refused"] == 2
    assert sum(exchanges["failed"].values()) + exchanges["done"] == exchanges["total"]
    assert status["bytes"]["in"] == sum(line["bytes_in"] for line in lines)
    assert status["bytes"]["out"] == sum(line["bytes_out"] for line in lines)
    assert status["connections"]["tunnels"] == status["connections"]["upstream_busy"] == 0
    assert status["held_bytes"] == 0 and status["resident_bytes"] > 1024 * 1024
    assert status["violations"] == {"unacceptable-content-type": 1}
    (reported,) = {line["report"] for line in lines if line["report"]}
    assert sum(status["reports"].values()) == 2 and set(status["reports"]) == {reported}
    assert status["warnings"] == []


def test_rules_have_their_hits(used):
    rules = {entry["name"]: entry for entry in used.admin.json("/v1/rules")}
    assert list(rules) == ["open", "no-ads", "lenient", "json", "strict", "never", None]
    assert {name: (entry["hits"], entry["done"]) for name, entry in rules.items()} == {
        "open": (5, 3),
        "no-ads": (2, 0),
        "lenient": (2, 2),
        "json": (1, 1),
        "strict": (1, 0),
        "never": (0, 0),
        None: (3, 3),
    }
    assert rules["open"]["failed"] == {"connection-refused": 2}
    assert rules["no-ads"]["failed"] == {"denied": 2}
    assert sum(rules["strict"]["failed"].values()) == 1 and rules["strict"]["violations"] == {}
    assert rules["json"]["violations"] == {"unacceptable-content-type": 1} and not rules["json"]["failed"]
    assert sum(rules["lenient"]["reports"].values()) == 2 and not rules["lenient"]["failed"]
    assert (rules["lenient"]["action"], rules["lenient"]["enforce"]) == ("deny", False)
    assert (rules["no-ads"]["action"], rules["no-ads"]["enforce"]) == ("deny", True)
    assert rules["never"]["last"] is None
    for name in ("open", "no-ads", None):
        times = [line["time"] for line in used.access_lines() if line["rule"] == name]
        assert rules[name]["last"] == max(times)
    text = used.configuration.read_text().split("\n")
    for name, entry in rules.items():
        if name:
            file, line = entry["location"].split(":")[:2]
            assert os.path.basename(file) == "sallyport.toml"
            assert text[int(line) - 1 : int(line) + 1] == ["[[rule]]", f'name = "{name}"']


def test_the_page_for_a_person(used):
    page = used.admin.text("/v1/status")
    assert used.authority in page and "6 rules" in page
    assert re.search(r"exchanges +14: 9 done", page), page
    for part in ("2 denied", "2 connection-refused", "1 unacceptable-content-type"):
        assert part in page, page
    for name, hits in (("open", 5), ("no-ads", 2), ("lenient", 2), ("json", 1), ("strict", 1)):
        assert re.search(rf"^ +{name} +{hits}\b", page, re.MULTILINE), page
    assert "warnings" not in page
    assert page.isascii() and max(map(len, page.split("\n"))) <= 120 and not re.search(r"[ \t]$", page, re.M)


STATUS_ACCEPTS = {
    "": b"application/json",
    "Accept: */*\r\n": b"application/json",
    "Accept: application/json\r\n": b"application/json",
    "Accept: text/plain\r\n": b"text/plain",
    "Accept: text/plain;q=0, application/json\r\n": b"application/json",
    "Accept: text/plain;q=0.5, application/json\r\n": b"application/json",
    "Accept: image/png\r\n": b"application/json",
}


@pytest.mark.parametrize("lines", STATUS_ACCEPTS)
def test_the_type_of_status_is_what_accept_prefers(lines, administered):
    answer = administered().admin.ask("/v1/status", lines=lines)
    assert answer.value("Content-Type").split(b";")[0] == STATUS_ACCEPTS[lines]


def test_a_tunnel_is_counted_when_it_ends(administered, raw_origin, raw_client):
    proxy, origin = administered(DENY), raw_origin(tunnel_echo)
    client = raw_client(proxy)
    assert client.exchange(connect("a.test", origin.port)).status == 200
    client.send(b"x" * 1000)
    assert client.receive_exactly(1000) == b"x" * 1000
    status = proxy.admin.json("/v1/status")
    assert (status["connections"]["clients"], status["connections"]["tunnels"]) == (1, 1)
    client.close()
    line = proxy.access()
    status = proxy.admin.asked_until("/v1/status", lambda status: status["connections"]["tunnels"] == 0)
    assert status["exchanges"] == {"total": 1, "done": 1, "failed": {}, "http2": 0, "http2_upstream": 0}
    assert status["bytes"] == {"in": line["bytes_in"], "out": line["bytes_out"]}
    assert samples(proxy)[("sallyport_tunnel_duration_seconds_count", ())] == 1
    assert samples(proxy)[("sallyport_request_duration_seconds_count", ())] == 0


# Connections


def test_connections_say_what_each_does(administered, raw_origin, raw_client):
    open_tunnel = raw_origin(tunnel_echo)
    released = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        released.wait(DEADLINE_SECONDS)
        connection.send(OK)

    slow = raw_origin(script)
    proxy = administered('[[rule]]\nname = "all"\n')
    idle, tunnel, asking, silent_one = (raw_client(proxy) for _ in range(4))
    assert idle.exchange(get("refused.test", unused_port())).status == 502
    assert tunnel.exchange(connect("tunnel.test", open_tunnel.port)).status == 200
    tunnel.send(b"12345")
    tunnel.receive_exactly(5)
    asking.send(get("slow.test", slow.port, "/path"))
    slow.wait_for("accepted")
    every = {
        entry["client"]: entry
        for entry in proxy.admin.asked_until(
            "/v1/connections", lambda all: len(all) == 4 and sum(c["upstream"] is not None for c in all) == 2
        )
    }

    def of(client) -> dict:
        return every["%s:%d" % client.socket.getsockname()]

    assert of(idle)["state"] == of(silent_one)["state"] == "idle"
    assert of(idle)["request"] is None and of(silent_one)["request"] is None
    assert of(tunnel)["state"] == "tunnel"
    assert of(tunnel)["upstream"] == open_tunnel.authority and of(tunnel)["rule"] == "all"
    assert f"tunnel.test:{open_tunnel.port}" in of(tunnel)["request"]
    assert of(tunnel)["bytes_in"] >= 5 and of(tunnel)["bytes_out"] >= 5 and of(tunnel)["age_ms"] >= 0
    assert of(asking)["state"] not in ("idle", "tunnel")
    assert of(asking)["upstream"] == slow.authority and of(asking)["rule"] == "all"
    assert f"slow.test:{slow.port}/path" in of(asking)["request"]
    assert len({entry["ref"] for entry in every.values() if entry["ref"]}) == 2
    reference = of(asking)["ref"]
    released.set()
    assert asking.answer().status == 200
    asking.close()
    line = proxy.access(lambda line: "slow.test" in line["target"])
    assert line["ref"] == reference, "the reference is the one that the log line will have"
    for client in (idle, tunnel, silent_one):
        client.close()
    proxy.admin.asked_until("/v1/connections", lambda all: all == [])


def test_connections_say_who_asks_whom(administered, raw_origin, raw_client):
    echo = raw_origin(tunnel_echo)
    proxy = administered('[[rule]]\nname = "all"\nusers = ["%s"]\n' % getpass.getuser())
    tunnel, idle = raw_client(proxy), raw_client(proxy)
    assert tunnel.exchange(connect("tunnel.test", echo.port)).status == 200
    all = proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 2)
    of_tunnel, of_idle = sorted(all, key=lambda entry: entry["state"], reverse=True)
    assert (of_tunnel["user"], of_tunnel["uid"]) == (getpass.getuser(), os.getuid())
    assert (of_tunnel["host"], of_tunnel["port"]) == ("tunnel.test", echo.port)
    assert (of_tunnel["protocol"], of_tunnel["decision"], of_tunnel["reason"]) == ("http/1.1", "allow", "rule")
    assert all_none(of_idle, "user", "uid", "unit", "program", "host", "port", "decision", "reason")
    tunnel.close(), idle.close()
    line = proxy.access()
    assert (line["user"], line["unit"], line["program"]) == (of_tunnel["user"], of_tunnel["unit"], of_tunnel["program"])


def all_none(entry: dict, *names: str) -> bool:
    return all(entry[name] is None for name in names)


def test_a_thousand_connections_are_listed(administered, raw_client):
    proxy = administered()
    clients = [raw_client(proxy) for _ in range(1000)]
    listed = proxy.admin.asked_until("/v1/connections", lambda all: len(all) >= 1000)
    assert {entry["client"] for entry in listed} == {"%s:%d" % c.socket.getsockname() for c in clients}


# Decisions


def test_a_decision_is_found_by_the_reference_of_the_reason_phrase(administered, raw_origin, raw_client):
    proxy, origin = administered(DENY), raw_origin(answering(OK))
    refused = check_problem(ask_once(raw_client, proxy, get("x.ads.test", 80, "/secretless")), 403)
    decision = proxy.admin.json(f"/v1/decisions/{refused.reference}")
    explanation = decision.pop("explanation")
    advised = {"allow": decision.pop("allow")}
    assert advised["allow"].startswith("# Before rule 'no-ads'")
    assert said(decision) == proxy.access_of(refused.reference)
    assert (explanation["decision"], explanation["rule"]["name"]) == ("deny", "no-ads")
    assert (decision["rule"], decision["decision"], decision["outcome"]) == ("no-ads", "deny", "denied")
    assert ask_once(raw_client, proxy, get("a.test", origin.port)).status == 200
    line = proxy.access(lambda line: line["status"] == 200)
    allowed = proxy.admin.json(f"/v1/decisions/{line['ref']}")
    # Why each earlier rule did not decide.
    assert [passed["rule"] for passed in allowed.pop("explanation")["passed_over"]] == ["no-ads"]
    assert said(allowed) == line
    done = command("explain", "--config", proxy.configuration, refused.reference)
    assert done.returncode == 3 and refused.reference in done.stdout
    assert "\ndenied by rule 'no-ads' (" in done.stdout, "it prints what explain prints"
    done = command("explain", "--json", "--socket", proxy.admin.path, refused.reference)
    assert done.returncode == 3 and json.loads(done.stdout) == decision | {"explanation": explanation} | advised


@pytest.mark.parametrize(
    "reference",
    ["AAAAAA", "A", "", "AAAAAAA", "aaaaaa", "AA%41AAA", "../../etc/passwd", "%00%00%00%00%00%00", "A" * 6000],
    ids=lambda reference: reference[:20],
)
def test_a_reference_that_is_unknown_or_none(reference, administered):
    proxy = administered()
    answer = proxy.admin.ask(f"/v1/decisions/{reference}")
    assert answer.status in (400, 404)
    assert json.loads(answer.body)["status"] == answer.status and json.loads(answer.body)["detail"]
    assert proxy.admin.json("/v1/status")["exchanges"]["total"] == 0


def test_the_memory_of_decisions_is_bounded_and_keeps_the_latest(administered, raw_client):
    proxy = administered(DENY + '[log]\naccess = false\n', "workers = 1")
    client = raw_client(proxy)
    first = check_problem(client.exchange(get("x.ads.test", 80)), 403).reference
    many_refusals(client, 30_000)
    before = proxy.private_bytes()
    many_refusals(client, 30_000)
    assert proxy.private_bytes() - before < 4 * 1024 * 1024
    last = check_problem(client.exchange(get("x.ads.test", 80)), 403).reference
    assert proxy.admin.ask(f"/v1/decisions/{first}").status == 404
    assert proxy.admin.json(f"/v1/decisions/{last}")["ref"] == last


def test_the_last_decisions_are_lines_of_the_log(used):
    found = used.admin.json("/v1/decisions")
    logged = [said(entry) for entry in used.log.snapshot() if "total_ms" in entry]
    assert sorted(map(said, found), key=by_reference) == sorted(logged, key=by_reference) and len(found) == 14
    ends = [end_of(entry) for entry in found]
    assert all(later > earlier - LOGGED_SECONDS for later, earlier in zip(ends, ends[1:])), ends
    assert used.admin.json("/v1/decisions?limit=3") == found[:3]
    refused = used.admin.json("/v1/decisions?refused=true")
    # Two were denied, one came with the wrong type; the two that no origin answered were not refused.
    assert Counter(entry["outcome"] for entry in refused) == {"denied": 2, "unacceptable-content-type": 1}
    others = used.admin.json("/v1/decisions?refused=false&limit=1000")
    assert len(others) == 11 and not {entry["ref"] for entry in others} & {entry["ref"] for entry in refused}


def by_reference(entry: dict) -> str:
    return entry["ref"]


# A time in the log is cut to a millisecond, and so is how long it took.
LOGGED_SECONDS = 0.002


def end_of(entry: dict) -> float:
    return datetime.fromisoformat(entry["time"]).timestamp() + entry["total_ms"] / 1000


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "refused=yes", "limits=1"])
def test_a_wrong_query_of_decisions_is_refused(administered, query):
    proxy = administered()
    assert proxy.admin.json("/v1/decisions") == []
    assert proxy.admin.ask(f"/v1/decisions?{query}").status == 400
    assert proxy.admin.ask("/v1/decisions", "POST").status == 405


def test_what_was_refused_outlasts_what_passes(administered, raw_client, raw_origin):
    proxy = administered(DENY + '[log]\naccess = false\n', "workers = 1")
    refused = check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403).reference
    origin = raw_origin(answering(OK))
    client = raw_client(proxy)
    for _ in range(1100):
        assert client.exchange(get("open.test", origin.port)).status == 200
    assert [entry["ref"] for entry in proxy.admin.json("/v1/decisions?refused=true")] == [refused]
    assert refused not in {entry["ref"] for entry in proxy.admin.json("/v1/decisions?limit=1000")}
    assert proxy.admin.json(f"/v1/decisions/{refused}")["ref"] == refused


# Reload


def test_a_good_reload(administered, raw_client):
    proxy = administered()
    loaded = proxy.admin.json("/v1/status")["policy"]
    rewrite(proxy, DENY)
    answer = proxy.admin.ask("/v1/reload", "POST")
    assert answer.status == 200 and json.loads(answer.body)["rules"] == 1
    policy = proxy.admin.json("/v1/status")["policy"]
    assert policy["rules"] == 1 and policy["failure"] is None and policy["loaded"] > loaded["loaded"]
    # The answer comes when the policy is in force, not before.
    check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403, rule="no-ads")
    assert samples(proxy)[("sallyport_reloads_total", (("result", "done"),))] == 1


def test_a_bad_reload_changes_nothing_and_status_says_so_until_a_good_one(administered, raw_client):
    proxy = administered(DENY)
    loaded = proxy.admin.json("/v1/status")["policy"]["loaded"]
    rewrite(proxy, '[[rule]]\nname = "other"\nhots = ["x"]\n[nonsense]\n')
    answer = proxy.admin.ask("/v1/reload", "POST")
    assert answer.status == 422
    errors = json.loads(answer.body)["errors"]
    assert len(errors) == 2 and "hots" in errors[0] and "nonsense" in errors[1]
    assert all(re.match(r"\S*sallyport\.toml:\d+:\d+: error: ", error) for error in errors), errors
    policy = proxy.admin.json("/v1/status")["policy"]
    assert (policy["rules"], policy["loaded"]) == (1, loaded)
    assert policy["failure"]["reasons"] == errors and policy["failure"]["at"] > loaded
    page = proxy.admin.text("/v1/status")
    assert all(error in page for error in errors) and "1 rule" in page
    check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403, rule="no-ads")
    assert samples(proxy)[("sallyport_reloads_total", (("result", "failed"),))] == 1
    rewrite(proxy, DENY)
    assert proxy.admin.ask("/v1/reload", "POST").status == 200
    assert proxy.admin.json("/v1/status")["policy"]["failure"] is None
    assert "failed" not in proxy.admin.text("/v1/status").split("exchanges")[0]


def test_a_reload_by_signal_is_told_as_well(administered):
    proxy = administered(DENY)
    proxy.reload(policy=proxy.head + "[nonsense]\n")
    status = proxy.admin.asked_until("/v1/status", lambda status: status["policy"]["failure"])
    assert "nonsense" in status["policy"]["failure"]["reasons"][0]


def test_many_reloads_at_once_are_all_answered(administered):
    proxy = administered(DENY)
    connections = [proxy.admin.connection() for _ in range(20)]
    for connection in connections:
        connection.send(request("/v1/reload", "POST"))
    assert [connection.answer().status for connection in connections] == [200] * 20
    assert samples(proxy)[("sallyport_reloads_total", (("result", "done"),))] == 20


def test_counts_outlive_a_reload(used):
    before, rules = used.admin.json("/v1/status"), used.admin.json("/v1/rules")
    assert used.admin.ask("/v1/reload", "POST").status == 200
    after = used.admin.json("/v1/status")
    for key in ("started", "exchanges", "bytes", "violations", "reports"):
        assert after[key] == before[key]
    assert used.admin.json("/v1/rules") == rules


def test_counts_of_a_rule_that_is_gone_stay_in_the_totals(used):
    before, metrics = used.admin.json("/v1/status"), samples(used)
    rewrite(used, DENY)
    assert used.admin.ask("/v1/reload", "POST").status == 200
    assert used.admin.json("/v1/status")["exchanges"] == before["exchanges"]
    assert [entry["name"] for entry in used.admin.json("/v1/rules")] == ["no-ads", None]
    assert used.admin.json("/v1/rules")[0]["hits"] == 2
    assert_none_went_down(metrics, samples(used))


# Drain and stop


def test_a_drain_finishes_what_is_under_way(administered, raw_origin, raw_client):
    released = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        released.wait(DEADLINE_SECONDS)
        connection.send(OK)

    origin = raw_origin(script)
    proxy = administered()
    client, watcher = raw_client(proxy), proxy.admin.events()
    client.send(get("a.test", origin.port))
    origin.wait_for("accepted")
    answer = proxy.admin.ask("/v1/drain", "POST")
    assert answer.status == 202 and json.loads(answer.body) == {"draining": True}
    proxy.log.wait_for(lambda entry: "stopping" in entry.get("message", ""))
    # What waits can be looked at: the page of a daemon that drains is when a person wants it most.
    try:
        assert proxy.admin.json("/v1/status")["draining"] is True
    finally:
        released.set()
    assert client.answer().status == 200
    watcher.until("finished")
    assert proxy.wait_for_exit() == 0
    assert watcher.wait_for_end() == "closed"
    assert not proxy.admin.path.exists()
    watcher.close()


def test_an_idle_daemon_ends_by_a_drain(administered):
    proxy = administered()
    with proxy.admin.events() as watcher:
        assert proxy.admin.ask("/v1/drain", "POST").status == 202
        assert proxy.wait_for_exit() == 0
        assert watcher.wait_for_end() == "closed"


# Secrets

SECRETS = {
    "header": "S3cret-header-value",
    "parameter": "S3cret-parameter-value",
    "password": "S3cret-password-value",
    "client": "S3cret-client-password",
    "parent": "S3cret-parent-password",
}


def test_no_secret_is_in_any_page(administered, raw_origin, raw_client, tmp_path):
    credentials, parameter = tmp_path / "credentials", tmp_path / "parameter"
    credentials.write_text(f"me:{SECRETS['client']}\n")
    parameter.write_text(SECRETS["parameter"] + "\n")
    for file in (credentials, parameter):
        file.chmod(0o600)
    policy = f"""
[[rule]]
name = "full"
hosts = ["full.test"]
[rule.request]
parameters = {{ api_key = {{ file = "{parameter}" }} }}
headers.set = {{ X-Key = "{SECRETS['header']}" }}
authorization = {{ username = "u", password = {{ env = "PASSWORD_OF_TEST" }} }}
[rule.response]
serializer = "json"
on_violation = {{ status = "annotate", content_type = "annotate", body = "annotate" }}
[[rule]]
name = "parent"
hosts = ["parent.test"]
route = ["office"]
[routes.office]
via = "http://127.0.0.1:{unused_port()}"
credentials = {{ username = "p", password = "{SECRETS['parent']}" }}
"""
    proxy = administered(
        policy,
        f'credentials = {{ file = "{credentials}" }}',
        environment={"PASSWORD_OF_TEST": SECRETS["password"]},
    )
    origin = raw_origin(answering(OK))
    token = base64.b64encode(f"me:{SECRETS['client']}".encode()).decode()
    hidden = [*SECRETS.values(), token, base64.b64encode(f"u:{SECRETS['password']}".encode()).decode()]
    proxy.secrets = hidden
    watchers = [proxy.admin.events(), proxy.admin.events(lines="Accept: text/plain\r\n")]
    authorized = f"Proxy-Authorization: Basic {token}\r\n"
    client = raw_client(proxy)
    client.send(get("full.test", origin.port, lines=authorized))
    assert client.answer().status == 200
    assert SECRETS["parameter"].encode() in origin.requests()[0].target, "the rule did not work on the request"
    client.send(get("full.test", unused_port(), lines=authorized))
    assert client.answer().status == 502
    client.send(get("full.test", origin.port))
    assert client.answer().status == 407
    client.send(get("parent.test", origin.port, lines=authorized))
    client.answer()
    # a reload whose error stands in the very line of a secret
    rewrite(
        proxy,
        f'[[rule]]\nname = "r"\n[rule.request]\nheaders.sett = {{ X-Key = "{SECRETS["header"]}" }}\n'
        f'authorization = {{ username = "u", password = "{SECRETS["password"]}", passwort = 1 }}\n',
    )
    assert proxy.admin.ask("/v1/reload", "POST").status == 422
    lines = [line["ref"] for line in proxy.log.wait_for_several(4, lambda entry: "total_ms" in entry)]
    paths = ["/v1/status", "/v1/rules", "/v1/pins", "/v1/connections", "/metrics", "/v1/reload"]
    pages = {path: proxy.admin.ask(path).body for path in paths + [f"/v1/decisions/{id}" for id in lines]}
    pages["text"] = proxy.admin.text("/v1/status").encode()
    watchers[0].until("reload")
    while not watchers[1].next_line().startswith("reload"):
        pass
    for watcher in watchers:
        pages[f"events {len(pages)}"] = bytes(watcher.received)
        watcher.close()
    for path, page in pages.items():
        for secret in hidden:
            assert secret.encode() not in page, f"the secret {secret} is in {path}: {page.decode()}"
