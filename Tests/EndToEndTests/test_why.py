"""Why: by whose word, what was expected and what was seen, of whom; in the line of the log, in the event, in
/v1/decisions/REF and in what `explain REF` prints."""

from admin_client import AdminClient, said
from admin_world import ADMIN, administered
from origins import answering, tunnel_echo
from parents import routed
from problems import check_problem
from proxy import command
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from test_plain_tunnels import hello
from test_policy import get
from tls_world import OK, authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import way

PAGE = b"HTTP/1.1 203 Fine\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<br/>"
WANTS_JSON = '[rule.response]\nserializer = "json"\n'
# A rule before the one that decides.
EARLIER = rule("elsewhere", 'hosts = ["elsewhere.test"]', 'action = "deny"')


def place(proxy, name: str) -> str:
    """File and line of a rule: where its [[rule]] stands."""
    lines = proxy.configuration.read_text().splitlines()
    named = f'name = "{name}"'
    return f"{proxy.configuration}:{lines.index(named)}"


def what(line: dict, *names: str) -> tuple:
    return tuple(line[name] for name in names)


def everywhere(proxy, reference: str) -> dict:
    """The line, which is the same by the API; `explain REF` prints why each earlier rule did not decide."""
    line = proxy.access_of(reference)
    admin = AdminClient(proxy.configuration.parent / "admin.sock")
    decision = admin.json(f"/v1/decisions/{reference}")
    explanation = decision.pop("explanation")
    decision.pop("allow")
    assert said(decision) == line
    assert (explanation["decision"], explanation["rule"]["name"]) == (line["decision"], line["rule"])
    explained = command("explain", "--config", proxy.configuration, reference).stdout
    assert f" {reference} " in explained.splitlines()[0]
    assert "elsewhere (" in explained and "): hosts: expected elsewhere.test, seen a.test" in explained, explained
    assert [passed["rule"] for passed in explanation["passed_over"]] == ["elsewhere"]
    return line


def test_a_response_that_is_rejected_says_what_it_was_on_every_way(way):
    started = way(answering(PAGE), before=ADMIN + EARLIER, after=WANTS_JSON)
    problem = check_problem(started.ask("GET"), 502, rule="kept")
    line = everywhere(started.proxy, problem.reference)
    assert what(line, "decision", "outcome") == ("allow", "unacceptable-content-type")
    assert what(line, "expected", "seen") == ("application/json, text/json, text/javascript", "text/html")
    assert what(line, "serializer", "status", "upstream_status", "upstream_type") == ("json", 502, 203, "text/html")
    assert line["place"] == place(started.proxy, "kept") and line["route"] and "seen text/html" in line["detail"]
    assert problem.body["upstream"] == {"status": 203, "type": "text/html", "text": "<br/>"}
    assert (line["assurance"] == "exact") == (started.name in ("upgrade", "intercept", "upgrade by parent"))


def test_a_response_that_passes_says_what_it_was_on_every_way(way):
    started = way(answering(PAGE))
    assert started.ask("GET").status == 203
    line = started.proxy.access(lambda line: line["method"] == "GET")
    assert what(line, "outcome", "upstream_status", "upstream_type") == ("done", 203, "text/html")
    assert what(line, "detail", "expected", "seen", "serializer", "report") == (None,) * 5


def test_a_rule_that_is_not_enforced_reports_what_it_would_have_rejected(way):
    started = way(answering(PAGE), "enforce = false", before=ADMIN + EARLIER, after=WANTS_JSON)
    assert started.ask("GET").status == 203
    line = started.proxy.access(lambda line: line["method"] == "GET")
    assert what(line, "outcome", "report", "violation") == ("done",) + ("unacceptable-content-type",) * 2
    assert line["seen"] == "text/html" and everywhere(started.proxy, line["ref"])
    metrics = AdminClient(started.proxy.configuration.parent / "admin.sock").ask("/metrics").body.decode()
    assert 'sallyport_reports_total{rule="kept",kind="unacceptable-content-type"} 1' in metrics


def test_a_body_that_cannot_be_merged_is_reported(way):
    started = way(answering(OK), "enforce = false", request="parameters = { a = 1 }")
    answer = started.enter().exchange(
        started.head("POST", "Content-Type: text/plain\r\nContent-Length: 1\r\n") + b"x")
    assert answer.status == 200
    line = started.proxy.access(lambda line: line["method"] == "POST")
    assert what(line, "outcome", "report", "violation") == ("done", "unsupported-body", "unsupported-body")
    assert line["detail"]


def test_what_a_policy_denies(administered, raw_client):
    policy = EARLIER + rule("no", 'hosts = ["a.test"]', 'action = "deny"', 'reason = "not from here"')
    proxy = administered(policy)
    with proxy.admin.events() as watcher:
        problem = check_problem(raw_client(proxy).exchange(get("a.test", 80)), 403, rule="no")
        begun, finished = watcher.until("begun"), watcher.until("finished")
    line = everywhere(proxy, problem.reference)
    assert what(line, "decision", "reason", "outcome", "detail") == ("deny", "rule-denies", "denied", "not from here")
    assert begun["place"] == finished["place"] == line["place"] == place(proxy, "no")
    assert finished["detail"] == "not from here" and line["upstream_status"] is None


def test_pins_and_names_that_do_not_match(secure_proxy, secure_client, tls_origin, authority, world):
    pin = '"sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="'
    other = pin.replace("AAA=", "AAE=")
    policy = f"[pins.bank]\nspki = [{pin}, {other}]\n" + rule(
        "kept", "upgrade = true", 'hosts = ["a.test"]', security='pins = "bank"') + rule("rest", "upgrade = true")
    proxy = secure_proxy(policy)
    leaf = world.leaf("a.test")
    origin = tls_origin(answering(OK), world.context(leaf))
    problem = check_problem(secure_client(proxy).exchange(get("a.test", origin.port)), 502, rule="kept")
    line = proxy.access_of(problem.reference)
    assert line["outcome"] == "pin-mismatch" and pin.strip('"') in line["expected"] and leaf.pin in line["seen"]
    assert problem.body["expected"] == line["expected"] and problem.body["seen"] == line["seen"]
    problem = check_problem(secure_client(proxy).exchange(get("b.test", origin.port)), 502, rule="rest")
    assert what(proxy.access_of(problem.reference), "expected", "seen") == ("b.test", "a.test")


def test_a_tunnel_that_names_another_server(administered, raw_client, raw_origin):
    proxy, origin = administered(rule("kept", 'tunnel_sni = "match"')), raw_origin(tunnel_echo)
    client = raw_client(proxy)
    place = f"a.test:{origin.port}"
    assert client.exchange(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()).status == 200
    client.send(hello("other.test"))
    client.wait_for_end()
    client.looked_at = False
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert what(line, "decision", "outcome", "expected", "seen") == ("allow", "other-server-name", "a.test", "other.test")


def test_the_earlier_rules_of_a_long_policy_are_bounded(administered, raw_client):
    many = "".join(rule(f"r{number}", f'hosts = ["h{number}.test"]') for number in range(40))
    proxy = administered(many + rule("no", 'action = "deny"'))
    problem = check_problem(raw_client(proxy).exchange(get("a.test", 80)), 403, rule="no")
    explanation = proxy.admin.json(f"/v1/decisions/{problem.reference}")["explanation"]
    assert (len(explanation["passed_over"]), explanation["passed_over_more"]) == (32, 8)
    assert "\n  and 8 more\n" in command("explain", "--config", proxy.configuration, problem.reference).stdout


def test_an_exchange_is_explained_by_the_policy_that_decided_it(administered, raw_client):
    proxy = administered(rule("no", 'action = "deny"'))
    problem = check_problem(raw_client(proxy).exchange(get("a.test", 80)), 403, rule="no")
    text = proxy.configuration.read_text()
    proxy.configuration.write_text(text.replace('"deny"', '"allow"').replace('"no"', '"yes"'))
    assert command("reload", "--config", proxy.configuration).returncode == 0
    explained = command("explain", "--config", proxy.configuration, problem.reference).stdout
    assert "denied by rule 'no' (" in explained
