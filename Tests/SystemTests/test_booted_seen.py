"""What an operator sees of the running service, and who else does: the journal by its fields, commands, metrics."""

import re
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from booted import Machine
from origins import RawOrigin, answering
from raw_client import RawClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POLICY = """
[[rule]]
name = "payments"
hosts = ["127.0.0.1"]
paths = ["/pay/*"]

[[rule]]
name = "no-ads"
hosts = ["**.ads.test"]
action = "deny"
"""
ADMIN = "/run/sallyport/admin.sock"
METRICS = f"curl --silent --show-error --fail --unix-socket {ADMIN} http://localhost/metrics"


@pytest.fixture(scope="module")
def reference(shared_machine) -> str:
    """The proxy has answered six requests: three by a rule, two by none, and one that it refused, of which this is the
    reference. The journal has them."""
    machine = shared_machine
    machine("useradd alice && useradd --groups sallyport bob")
    machine.write("/etc/sallyport/policy.d/50-test.toml", POLICY)
    machine("systemctl start sallyport.socket sallyport-admin.socket sallyport.service")
    with machine.network():
        web, asking = RawOrigin(answering(OK)), RawClient(("127.0.0.1", 3128))
    for path in ("/pay/1", "/pay/2", "/pay/3", "/other", "/other"):
        request = f"GET {web.url}{path} HTTP/1.1\r\nHost: {web.authority}\r\n\r\n"
        assert asking.exchange(request.encode()).status == 200
    refused = asking.exchange(b"GET http://www.ADS.test/x HTTP/1.1\r\nHost: www.ADS.test\r\n\r\n")
    assert refused.status == 403
    machine.said(" GET http://www.ADS.test/x 403")
    asking.close()
    asking.check()
    web.stop()
    return re.search(rb"ref=(\w+)", refused.reason)[1].decode()


@pytest.fixture
def used(shared_machine, reference) -> Machine:
    return shared_machine


# MARK: The journal


def test_requests_are_found_by_the_rule_that_decided(used):
    paid = used.entries("--unit=sallyport", "SALLYPORT_RULE=payments")
    assert [entry["SALLYPORT_TARGET"].split("/")[-1] for entry in paid] == ["1", "2", "3"]
    for entry in paid:
        assert entry["SALLYPORT_STATUS"] == "200" and entry["SALLYPORT_METHOD"] == "GET"
        assert entry["SALLYPORT_HOST"] == "127.0.0.1" and entry["SALLYPORT_DECISION"] == "allow"
        assert entry["SALLYPORT_CLIENT"].startswith("127.0.0.1:")
        assert (entry["PRIORITY"], entry["SALLYPORT_OUTCOME"]) == ("6", "done")
        assert entry["MESSAGE"].startswith(entry["SALLYPORT_REF"] + " ")
        # What the journal itself vouches for.
        assert entry["_SYSTEMD_UNIT"] == "sallyport.service" and entry["SYSLOG_IDENTIFIER"] == "sallyport"
        assert entry["_UID"] == used("id --user sallyport").stdout.strip()


def test_a_refusal_is_found_by_its_reference_host_and_priority(used, reference):
    ways = (f"SALLYPORT_REF={reference}", "SALLYPORT_HOST=www.ads.test", "SALLYPORT_OUTCOME=denied", "--priority=notice")
    for way in ways:
        (entry,) = used.entries("--unit=sallyport", "_TRANSPORT=journal", "_COMM=sallyport", way)[-1:]
        assert entry["SALLYPORT_REF"] == reference, way
        assert entry["SALLYPORT_RULE"] == "no-ads" and entry["PRIORITY"] == "5"
    assert len(used.entries("SALLYPORT_OUTCOME=denied")) == 1


def test_each_request_has_one_line_and_no_other_line_has_their_fields(used):
    lines = used.entries("--unit=sallyport.service")
    requests = [entry for entry in lines if "SALLYPORT_REF" in entry]
    assert len(requests) == len({entry["SALLYPORT_REF"] for entry in requests}) == 6
    assert Counter(entry.get("SALLYPORT_RULE") for entry in requests) == {"payments": 3, None: 2, "no-ads": 1}


def test_the_journal_takes_more_lines_than_it_would_of_others(machine, origin, client):
    """By its own limit it would suppress nearly all of them."""
    machine.write("/etc/systemd/journald.conf.d/test.conf", "[Journal]\nRateLimitIntervalSec=1h\nRateLimitBurst=20\n")
    machine("systemctl restart systemd-journald.service && systemctl start sallyport.socket")
    web, asking, number = origin(answering(OK)), client(), 100
    request = f"GET {web.url}/ HTTP/1.1\r\nHost: {web.authority}\r\n\r\n".encode()
    for _ in range(number):
        assert asking.exchange(request).status == 200
    machine.journal.wait_for_several(number, lambda entry: "SALLYPORT_REF" in entry)


# MARK: Who may ask


@pytest.mark.parametrize("user", ["root", "bob"])
def test_root_and_the_group_may_ask(used, reference, user):
    page = used("sallyport status", user=user).stdout
    assert "127.0.0.1:3128, [::1]:3128" in page and re.search(r"payments +3\b", page), page
    explained = used(f"sallyport explain {reference}", user=user, check=False)
    assert explained.returncode == 3 and "no-ads" in explained.stdout
    reload = used("sallyport reload", user=user, check=False)
    if user == "root":
        assert reload.returncode == 0
    else:  # the group reads; what changes the daemon is for operators
        assert reload.returncode == 1 and "'operators' in [admin]" in reload.stderr
    assert "sallyport_exchanges_total" in used(METRICS, user=user).stdout


def test_others_may_not(used):
    for command in ("status", "reload", "explain AAAAAA", "events"):
        asked = used(f"sallyport {command}", user="alice", check=False)
        assert asked.returncode == 1 and asked.stdout == ""
        expected = f"sallyport: cannot reach the daemon at {ADMIN}: Permission denied; "
        assert asked.stderr == expected + "root and the socket's group (sallyport) may use it\n"
    assert used(METRICS, user="alice", check=False).returncode == 7  # curl: failed to connect


# MARK: Metrics


def test_metrics_are_what_a_scraper_reads(used):
    families = {family.name: family for family in text_string_to_metric_families(used(METRICS, user="bob").stdout)}
    assert all(family.documentation and family.type != "unknown" for family in families.values())
    exchanges = {
        (sample.labels["rule"], sample.labels["outcome"]): sample.value
        for sample in families["sallyport_exchanges"].samples if sample.value
    }
    assert exchanges == {("payments", "done"): 3, ("", "done"): 2, ("no-ads", "denied"): 1}
    durations = {sample.name: sample for sample in families["sallyport_request_duration_seconds"].samples}
    assert durations["sallyport_request_duration_seconds_count"].value == 6
    assert families["sallyport_rules"].samples[0].value == 2
    resident = families["process_resident_memory_bytes"].samples[0].value
    status = (used.file("/proc") / used.show("sallyport.service", "MainPID") / "status").read_text()
    assert resident == pytest.approx(int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024, rel=0.2)


def test_metrics_come_as_the_type_that_a_scraper_expects(used):
    head = used(f"{METRICS} --output /dev/null --write-out '%{{content_type}}'").stdout
    assert head == "text/plain; version=0.0.4; charset=utf-8"
