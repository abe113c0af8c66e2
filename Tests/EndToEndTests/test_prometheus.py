"""Prometheus as Debian ships it: it scrapes, the alerts of config/prometheus fire, and the dashboard's queries hold."""

import json
import re
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from admin_world import administered, ask_once, DENY
from conftest import need
from journal import DEADLINE_SECONDS
from origins import unused_port
from proxy import clean_environment
from test_policy import get

CONFIG = Path(__file__).resolve().parents[2] / "config"
RULES = CONFIG / "prometheus" / "sallyport.rules.yml"
DASHBOARD = CONFIG / "grafana" / "sallyport.json"


def test_the_alerts_are_right_by_their_own_tests():
    need("promtool")
    test = RULES.with_name("sallyport.test.yml")
    for arguments in (["check", "rules", RULES], ["test", "rules", test]):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A running Prometheus that scrapes one target every 100 ms."""

    def __init__(self, target: str, rules: str, directory: Path):
        (directory / "rules.yml").write_text(rules)
        (directory / "prometheus.yml").write_text(
            "global: { scrape_interval: 100ms, evaluation_interval: 100ms }\n"
            "rule_files: [rules.yml]\n"
            "scrape_configs:\n"
            f"  - {{ job_name: sallyport, static_configs: [{{ targets: ['{target}'] }}] }}\n"
        )
        self.address = f"127.0.0.1:{unused_port()}"
        self.log = open(directory / "prometheus.log", "w+")
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address={self.address}",
            ],
            stdout=self.log,
            stderr=self.log,
            env=clean_environment(),
        )

    def get(self, path: str):
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=DEADLINE_SECONDS) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list:
        return self.get("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))["result"]

    def asked_until(self, question, predicate):
        """Ask again until the predicate holds: Prometheus announces nothing."""
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                answer = question()
            except OSError:
                answer = None
            if answer is not None and predicate(answer):
                return answer
            assert self.process.poll() is None and time.monotonic() < end, f"it stays {answer}"
            select_nothing()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_SECONDS)
        self.log.close()


def select_nothing() -> None:
    """Leaves the processor to Prometheus between two questions."""
    import select

    select.select([], [], [], 0.05)


@pytest.fixture
def prometheus(tmp_path_factory):
    running: list[Prometheus] = []

    def start(target: str, rules: str) -> Prometheus:
        need("prometheus")
        running.append(Prometheus(target, rules, tmp_path_factory.mktemp("prometheus")))
        return running[-1]

    yield start
    for one in running:
        one.stop()


def quick(rules: str) -> str:
    """The alerts as they are, but for how long they wait: a test has seconds."""
    return re.sub(r"\bfor: \d+m\b", "for: 0s", re.sub(r"\[(10m|1h)\]", "[2s]", rules))


def test_prometheus_scrapes_and_alerts_fire(administered, raw_client, prometheus):
    proxy = administered(DENY, admin='metrics = "127.0.0.1:0"\n')
    server = prometheus(proxy.admin.json("/v1/status")["metrics"], quick(RULES.read_text()))
    server.asked_until(lambda: server.query('up{job="sallyport"}'), lambda found: found and found[0]["value"][1] == "1")
    denied = 'sallyport_exchanges_total{rule="no-ads",outcome="denied"}'
    # The series is there before the first denial, so the increase counts it.
    server.asked_until(lambda: server.query(denied), lambda found: found and found[0]["value"][1] == "0")
    firing = lambda: {alert["labels"]["alertname"] for alert in server.get("/api/v1/alerts")["alerts"]}
    assert "SallyportManyDenied" not in firing()
    client = raw_client(proxy)
    for _ in range(20):
        assert client.exchange(get("a.ads.test", 80)).status == 403
    server.asked_until(firing, lambda names: "SallyportManyDenied" in names)

    proxy.configuration.write_text("nonsense")
    assert proxy.admin.ask("/v1/reload", "POST").status == 422
    server.asked_until(firing, lambda names: "SallyportReloadFailed" in names)

    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".*")
            server.query(expression)  # what it cannot read is answered 400

    proxy.terminate()
    assert proxy.wait_for_exit() == 0
    server.asked_until(firing, lambda names: "SallyportDown" in names)


def test_the_dashboard_and_the_alerts_use_metrics_that_exist(administered):
    proxy = administered(DENY, admin='metrics = "127.0.0.1:0"\n')
    page = proxy.admin.ask("/metrics").body.decode()
    known = set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
    for file in (RULES, DASHBOARD):
        used = set(re.findall(r"\b(?:sallyport|process)_[a-z_]+(?=[{\[ ,)\"\\]|\b)", file.read_text()))
        used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
        assert used and used <= known, f"{file.name}: {sorted(used - known)}"
