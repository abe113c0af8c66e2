"""GET /v1/reachability and `sallyport reachability`: the shape, the page, the exit status, and the watch.

What the network is, and how it changes, is for other files; here there is a loopback and little else.
"""

import json
import re
import subprocess

import pytest

from admin_world import administered, samples
from journal import DEADLINE_SECONDS
from proxy import binary, clean_environment, command

STATES = {"unknown", "not-reachable", "wwan", "wifi", "wired"}
MACHINE = {"status", "ipv4", "ipv6", "interfaces", "routes", "waiting"}
ROUTES = """
[[rule]]
name = "r"
hosts = ["a.test"]
route = ["office", "direct"]
[routes.office]
via = "http://proxy.office.test:3128"
credentials = { username = "u", password = "S3cret" }
"""


def check_machine(machine: dict) -> None:
    assert machine["status"] in STATES and machine["waiting"] == 0
    for family in ("ipv4", "ipv6"):
        assert set(machine[family]) == {"status", "interface", "gateway"} and machine[family]["status"] in STATES
    assert machine["status"] in (machine["ipv4"]["status"], machine["ipv6"]["status"])
    (loopback,) = [interface for interface in machine["interfaces"] if interface["name"] == "lo"]
    assert set(loopback) == {"name", "kind", "up", "carrier", "addresses"}
    assert loopback["up"] is True and "127.0.0.1" in loopback["addresses"]


def test_the_machine(administered):
    proxy = administered(ROUTES)
    proxy.secrets = ["S3cret"]
    machine = proxy.admin.json("/v1/reachability")
    assert set(machine) == MACHINE
    check_machine(machine)
    office = {"name": "office", "via": "http://proxy.office.test:3128", "dead_for_ms": None, "unusable": None}
    assert office in machine["routes"] and {route["name"] for route in machine["routes"]} <= {"office", "direct"}
    assert proxy.admin.json("/v1/status")["reachability"] == machine["status"]
    metrics = samples(proxy)
    states = {dict(labels)["status"]: value for (name, labels), value in metrics.items() if "reachability_s" in name}
    assert states == {state: float(state == machine["status"]) for state in STATES}
    assert metrics["sallyport_network_changes_total", ()] >= 0 and metrics["sallyport_requests_waiting", ()] == 0


HOSTS = {
    "a.test": "a.test",
    "A.Test.": "a.test",
    "127.0.0.1": "127.0.0.1",
    "%3A%3A1": "::1",
    "::1": "::1",
    "[::1]": "::1",
    "[0:0::0001]": "::1",
}


@pytest.mark.parametrize("host", HOSTS)
def test_a_host(host, administered):
    proxy = administered()
    answer = proxy.admin.ask(f"/v1/reachability?host={host}")
    assert answer.status == 200
    machine = json.loads(answer.body)
    check_machine(machine)
    destination = machine["destination"]
    assert set(machine) == MACHINE | {"destination"}
    assert set(destination) == {"host", "status", "error", "addresses"}
    assert destination["host"] == HOSTS[host] and destination["status"] in STATES
    reachable = destination["error"] is None and destination["status"] != "not-reachable"
    assert answer.value("Sallyport-Reachable") == (b"yes" if reachable else b"no")


@pytest.mark.parametrize("query", ["", "no..host", "a%20b", "a%00", "%", "0x7f.1", "a.test:80", "[::1", "a" * 300])
def test_what_is_no_host(query, administered):
    proxy = administered()
    answer = proxy.admin.ask(f"/v1/reachability?host={query}")
    assert answer.status == 400 and "expected" in json.loads(answer.body)["detail"]
    assert proxy.admin.ask("/v1/reachability?host=a.test&host=b.test").status == 400


def test_the_page_for_a_person(administered):
    proxy = administered(ROUTES)
    done = command("reachability", "--socket", proxy.admin.path)
    assert (done.returncode, done.stderr) == (0, "")
    machine = proxy.admin.json("/v1/reachability")
    assert re.search(rf"^machine +{machine['status']}$", done.stdout, re.M)
    assert re.search(r"^  lo +\w+ +up +.*127\.0\.0\.1", done.stdout, re.M)
    assert re.search(r"^  office +http://proxy\.office\.test:3128$", done.stdout, re.M)
    assert not re.search(r"[ \t]$", done.stdout, re.M)
    done = command("reachability", "127.0.0.1", "--config", proxy.configuration)
    assert done.returncode == 0 and re.search(r"^127\.0\.0\.1: \w+", done.stdout, re.M)


def test_json_of_the_command(administered):
    proxy = administered()
    done = command("reachability", "--json", "--socket", proxy.admin.path)
    assert done.returncode == 0 and set(json.loads(done.stdout)) == MACHINE
    done = command("reachability", "--json", "::1", "--socket", proxy.admin.path)
    assert done.returncode == 0 and json.loads(done.stdout)["destination"]["host"] == "::1"
    done = command("reachability", "MÜNCHEN.test", "--json", "--socket", proxy.admin.path)
    assert json.loads(done.stdout)["destination"]["host"] == "xn--mnchen-3ya.test"


@pytest.fixture
def address():
    """A function that gives loopback another address, or takes it away: a change of the network."""
    own = "127.77.0.1/32"

    def change(verb: str) -> None:
        subprocess.run(["ip", "address", verb, own, "dev", "lo"], check=True)

    yield change
    subprocess.run(["ip", "address", "del", own, "dev", "lo"], stderr=subprocess.DEVNULL)


@pytest.mark.own_network
@pytest.mark.parametrize("options", [[], ["--json"], ["127.0.0.1"], ["127.0.0.1", "--json"]], ids=" ".join)
def test_a_watch_tells_the_state_and_then_each_change(options, administered, address):
    proxy = administered()
    watch = subprocess.Popen(
        [binary(), "reachability", "--watch", *options, "--socket", proxy.admin.path],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    # The state comes when changes are listened for already.
    first = watch.stdout.readline()
    if "--json" in options:
        assert set(json.loads(first)) == MACHINE | ({"destination"} if "127.0.0.1" in options else set())
    else:
        last = "127.0.0.1: " if "127.0.0.1" in options else "  lo "
        while not watch.stdout.readline().startswith(last):
            pass
    for verb in ("add", "del"):
        address(verb)
        line = watch.stdout.readline()
        while line.startswith("  "):  # the rest of the first page
            line = watch.stdout.readline()
        if options == ["--json"]:
            change = json.loads(line)
            assert change["reason"] and ("127.77.0.1" in str(change["interfaces"])) == (verb == "add")
        elif "--json" in options:
            state = json.loads(line)
            assert ("127.77.0.1" in str(state["interfaces"])) == (verb == "add")
            assert state["destination"]["host"] == "127.0.0.1"
        else:
            assert "reason=" in line and line.startswith("127.0.0.1: ") == bool(options), line
    proxy.terminate()
    watch.communicate(timeout=DEADLINE_SECONDS)
    assert watch.returncode == 0
