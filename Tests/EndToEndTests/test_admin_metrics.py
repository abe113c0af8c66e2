"""GET /metrics: the format, the counts, and a thousand scrapes."""

import re
import threading
from collections import Counter

from admin_world import (
    administered,
    ask_once,
    assert_none_went_down,
    DENY,
    many_refusals,
    samples,
    samples_of,
    used,
)
from admin_client import request
from journal import DEADLINE_SECONDS
from test_policy import get


def test_metrics_are_the_counts_that_status_has(used):
    metrics, status = samples(used), used.admin.json("/v1/status")

    def total(name: str) -> Counter:
        counts = Counter()
        for (sample, labels), value in metrics.items():
            if sample == name:
                counts[tuple(value for key, value in labels)] += value
        return counts

    by_rule = {
        (dict(labels)["rule"], dict(labels)["outcome"]): value
        for (name, labels), value in metrics.items()
        if name == "sallyport_exchanges_total"
    }
    assert sum(by_rule.values()) == 14 and by_rule["open", "done"] == 3
    assert by_rule["open", "connection-refused"] == by_rule["no-ads", "denied"] == 2
    assert sum(value for (rule, outcome), value in by_rule.items() if outcome == "done") == 9
    violation = (("kind", "unacceptable-content-type"), ("rule", "json"))
    assert metrics["sallyport_violations_total", violation] == 1
    assert sum(total("sallyport_reports_total").values()) == 2
    assert metrics["sallyport_request_duration_seconds_count", ()] == 14
    received = {labels: value for (name, labels), value in metrics.items() if "client_received_bytes" in name}
    sent = {labels: value for (name, labels), value in metrics.items() if "client_sent_bytes" in name}
    assert sum(received.values()) == status["bytes"]["in"] and sum(sent.values()) == status["bytes"]["out"]
    # Every rule has its series before its first request, and requests without a rule have theirs.
    rules = {rule["name"] or "" for rule in used.admin.json("/v1/rules")}
    assert {dict(labels)["rule"] for labels in received} == {dict(labels)["rule"] for labels in sent} == rules
    assert {rule for rule, outcome in by_rule if outcome == "done"} == rules
    assert metrics["sallyport_client_connections_total", ()] == 14
    assert metrics["sallyport_client_connections", ()] == metrics["sallyport_tunnels", ()] == 0
    lines = used.access_lines()
    assert metrics["sallyport_upstream_uses_total", (("connection", "kept"),)] == sum(
        line["reused"] for line in lines
    )
    assert sum(total("sallyport_upstream_uses_total").values()) == sum(
        line["upstream"] is not None for line in lines
    )
    assert metrics["sallyport_rules", ()] == 6
    total_seconds = sum(line["total_ms"] for line in lines) / 1000
    assert abs(metrics["sallyport_request_duration_seconds_sum", ()] - total_seconds) <= 0.001 * len(lines)


def test_metrics_follow_the_conventions(used):
    """promtool's rules: HELP and TYPE once and first, counters in _total, base units, histograms cumulative."""
    text = used.admin.ask("/metrics").body.decode("utf-8")
    assert text.endswith("\n") and "\r" not in text
    families, current, kind = {}, None, None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in families and len(line.split(" ")) > 3, line
            families[current] = None
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and families[name] is None, line
            families[name] = kind
            assert kind in ("counter", "gauge", "histogram"), line
        else:
            name = re.match(r"[a-z_:][a-z0-9_:]*", line)[0]
            suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            assert name in [current + suffix for suffix in suffixes], f"{line} is below {current}"
    for name, kind in families.items():
        assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
        assert not re.search("_(ms|milliseconds|minutes|kilobytes|kib|mib)(_|$)", name), name
        assert name.startswith(("sallyport_", "process_")), name
    metrics = samples_of(text)
    histograms = [name for name, kind in families.items() if kind == "histogram"]
    assert len(histograms) >= 3
    for name in histograms:
        buckets = [
            (float(dict(labels)["le"].replace("+Inf", "inf")), value)
            for (sample, labels), value in metrics.items()
            if sample == f"{name}_bucket"
        ]
        assert [edge for edge, _ in buckets] == sorted(edge for edge, _ in buckets)
        counts = [value for _, value in buckets]
        assert counts == sorted(counts) and buckets[-1] == (float("inf"), metrics[f"{name}_count", ()])
        assert metrics[f"{name}_sum", ()] >= 0


def test_metrics_that_the_issue_asks_for(used):
    names = {name for name in re.findall(r"# TYPE (\S+)", used.admin.ask("/metrics").body.decode())}
    for wanted in ("exchanges|requests", "duration", "bytes", "upstream_connections", "dns|name", "tls_handshakes",
                   "pin.*(mismatch|result|total|check)", "violations", "loop", "resident_memory"):
        assert any(re.search(wanted, name) for name in names), f"nothing of {wanted} in {sorted(names)}"


def test_counters_never_go_down(used, raw_client):
    before = samples(used)
    assert used.admin.ask("/v1/reload", "POST").status == 200
    after = samples(used)
    assert_none_went_down(before, after)
    ask_once(raw_client, used, get("x.ads.test", 80))
    assert_none_went_down(after, samples(used))


def test_labels_do_not_grow_with_what_clients_send(administered, raw_client):
    proxy = administered(DENY)
    ask_once(raw_client, proxy, get("x.ads.test", 80))
    before = len(samples(proxy))
    for number in range(50):
        ask_once(raw_client, proxy, get(f"n{number}.ads.test", 1000 + number, f"/{number}", method=f"M{number}"))
    assert len(samples(proxy)) == before


def test_a_thousand_scrapes_while_requests_run(administered, raw_client):
    proxy = administered(DENY + "[log]\naccess = false\n")
    failures = []

    def run() -> None:
        try:
            many_refusals(client, 10_000)
        except BaseException as failure:
            failures.append(failure)

    client = raw_client(proxy)
    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    last = 0
    denied = re.compile(rb'^sallyport_exchanges_total\{rule="no-ads",outcome="denied"\} (\d+)$', re.MULTILINE)
    with proxy.admin.connection() as connection:
        for _ in range(1000):
            answer = connection.exchange(request("/metrics"))
            assert answer.status == 200
            found = denied.search(answer.body)
            count = int(found[1]) if found else 0
            assert count >= last
            last = count
            connection.received.clear()
            connection.sent.clear()
            connection.read_to = connection.answered = 0
            connection.forget_what_was_asked()
    runner.join(DEADLINE_SECONDS)
    assert not failures and not runner.is_alive()
    assert samples(proxy)["sallyport_exchanges_total", (("outcome", "denied"), ("rule", "no-ads"))] == 10_000
