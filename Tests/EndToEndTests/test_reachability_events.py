"""One change of the network is one event, however many messages it takes; storms and overruns; what the commands say.

That nothing more was published is shown by a change after it: what comes before its event is all that there was.
"""

import json
import re
import signal
import subprocess
import threading
import time

import pytest

from dns_server import Answer
from journal import DEADLINE_SECONDS, Journal
from network_world import FAR, Link, Network, network
from proxy import binary, clean_environment, command
from reachability_world import (
    AT_ONCE_SECONDS,
    events_until,
    far_origin,
    get,
    local_client,
    name_server,
    reaching,
    status_is,
    stopped,
    way_of,
)


@pytest.fixture
def links(network) -> dict[str, Link]:
    """The machine is on the wired one."""
    made = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0"), "wwan": network.wire("wwan0")}
    network.go_by(made["wired"])
    return made


# One change, one event


def lines_of_a_burst(links: dict[str, Link]) -> list[str]:
    """As a network manager goes from one link to another: many messages, and the last word is wifi."""
    wireless = links["wifi"]
    return [
        "route del default",
        links["wwan"].default,
        "address add 10.2.0.9/24 dev wlan0",
        "address del 10.2.0.9/24 dev wlan0",
        *(f"route add 198.18.{number}.0/24 via {wireless.far} dev wlan0" for number in range(100)),
        "route del default",
        wireless.default,
        f"route replace default via {wireless.far} dev wlan0 metric 600",
        *(f"route del 198.18.{number}.0/24" for number in range(100)),
    ]


def test_a_burst_is_one_event(network, reaching, links):
    watcher = reaching().admin.events()
    for _ in range(5):
        network.machine.batch(*lines_of_a_burst(links))
        events = events_until(watcher, status_is("wifi"))
        network.machine.batch("route del default metric 600", links["wired"].default)
        events += events_until(watcher, status_is("wired"))
        assert [event["status"] for event in events] == ["wifi", "wired"]


SAME_AGAIN = {
    "the same address": ["address replace 10.1.0.2/24 dev eth0"],
    "the same route": ["route replace default via 10.1.0.1 dev eth0"],
    "the same state of a link": ["link set eth0 up", "link set wlan0 up"],
    "a route that leads elsewhere": ["route replace 198.18.0.0/15 via 10.2.0.1 dev wlan0"],
    "there and back within a burst": [
        "route replace default via 10.2.0.1 dev wlan0",
        "route replace default via 10.1.0.1 dev eth0",
    ],
    "another size of packets": ["link set eth0 mtu 1400"],
}


@pytest.mark.parametrize("name", SAME_AGAIN)
def test_what_changes_nothing_is_no_event(name, network, reaching, links):
    proxy = reaching()
    watcher = proxy.admin.events()
    assert proxy.admin.json(f"/v1/reachability?host={FAR[7]}")["destination"]["status"] == "wired"
    for change, status in (("add", "not-reachable"), ("del", "wired"), ("add", "not-reachable")):
        network.machine.batch(*SAME_AGAIN[name], f"route {change} unreachable {FAR[7]}")
        # That the proxy has seen it is shown by the route to an address that no event speaks of.
        proxy.admin.asked_until(
            f"/v1/reachability?host={FAR[7]}", lambda state: state["destination"]["status"] == status
        )
    for kind in ("wifi", "wired"):
        network.go_by(links[kind])
        assert [event["status"] for event in events_until(watcher, status_is(kind))] == [kind]
    said = [entry for entry in proxy.log.snapshot() if entry.get("message", "").startswith("reachability: ")]
    assert len(said) <= 3, f"the log has more than the beginning and the two changes: {said}"


def test_addresses_of_any_interface_show(network, reaching, links):
    watcher = reaching().admin.events()
    network.machine.ip("address", "add", "10.3.0.9/24", "dev", "wwan0")
    event = watcher.until("reachability")
    assert event["status"] == "wired" and event["reason"]
    assert any("10.3.0.9" in interface["addresses"] for interface in event["interfaces"])


def test_an_event_says_all_that_the_state_says(network, reaching, links):
    proxy = reaching()
    watcher = proxy.admin.events()
    for kind in ("wifi", "wwan"):
        network.go_by(links[kind])
        event = events_until(watcher, status_is(kind))[-1]
        state = proxy.admin.json("/v1/reachability")
        assert set(event) == {"time", "status", "ipv4", "ipv6", "interfaces", "reason"}
        assert all(event[key] == state[key] for key in ("status", "ipv4", "ipv6", "interfaces"))
        assert isinstance(event["reason"], str) and event["reason"]


# Storms


def lines_of_a_storm(link: Link, count: int) -> list[str]:
    """So many changes: half of them come, half of them go."""
    routes = [
        f"198.{18 + number // 65536}.{number // 256 % 256}.{number % 256}/32" for number in range(count // 2)
    ]
    return [f"route add {route} via {link.far} dev {link.name}" for route in routes] + [
        f"route del {route}" for route in routes
    ]


STORM = 10_000


def test_a_storm_of_changes_costs_no_request(network, reaching, local_client, far_origin, links):
    """Four clients go on asking; each request is answered in its time, and what comes after the storm counts."""
    proxy, origin = reaching(proxy="workers = 2"), far_origin()
    watcher = proxy.admin.events()
    over, failures, slowest = threading.Event(), [], [0.0] * 4
    counts = [0] * 4

    def ask(number: int) -> None:
        try:
            client = local_client(proxy)
            while not over.is_set():
                begun = time.monotonic()
                assert way_of(client.exchange(get(origin))).source == links["wired"].near
                slowest[number] = max(slowest[number], time.monotonic() - begun)
                counts[number] += 1
                if counts[number] % 50 == 0:  # what a client keeps of its bytes is parsed again as it grows
                    client = local_client(proxy)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    storm = lines_of_a_storm(links["wwan"], STORM)
    network.machine.batch(*storm)
    over.set()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert not failures, failures[0]
    assert min(counts) > 0 and max(slowest) < AT_ONCE_SECONDS, f"{counts} requests, the slowest {slowest}"
    begun = time.monotonic()
    network.go_by(links["wifi"])
    events = events_until(watcher, status_is("wifi"))
    assert time.monotonic() - begun < AT_ONCE_SECONDS
    assert [event["status"] for event in events] == ["wifi"], "the storm itself showed nothing"
    assert way_of(local_client(proxy).exchange(get(origin))).source == links["wifi"].near
    assert proxy.admin.json("/v1/reachability")["status"] == "wifi"


def test_a_storm_costs_bounded_time(network, reaching, links):
    """At most 0.1 ms of the processor for each of 10,000 changes, nobody asking anything."""
    proxy = reaching()
    watcher = proxy.admin.events()
    before = proxy.cpu_seconds()
    network.machine.batch(*lines_of_a_storm(links["wwan"], STORM), links["wifi"].default)
    events_until(watcher, status_is("wifi"))
    spent = proxy.cpu_seconds() - before
    assert spent <= STORM * 0.0001, f"{spent:.2f} s of the processor for {STORM} changes"


def test_a_storm_that_changes_the_state_ends_in_the_last_one(
    network, reaching, local_client, far_origin, links
):
    """A thousand times the default route moves: fewer events than that, and the last is the truth."""
    proxy, origin = reaching(), far_origin()
    watcher, client = proxy.admin.events(), local_client(proxy)
    turns = [links[kind].default for kind in ("wifi", "wired", "wwan")] * 334
    network.machine.batch(*turns, "address add 10.3.0.9/24 dev wwan0")
    events = events_until(watcher, lambda event: "10.3.0.9" in str(event["interfaces"]))
    assert events[-1]["status"] == "wwan" and len(events) < len(turns) / 2
    assert way_of(client.exchange(get(origin))).source == links["wwan"].near


def drops(network: Network) -> int:
    """How many messages were lost to listeners of rtnetlink on the machine, so far."""
    with network.machine, open("/proc/thread-self/net/netlink") as file:
        columns = next(file).split()
        drop, protocol = columns.index("Drops"), columns.index("Eth")
        return sum(int(fields[drop]) for line in file if (fields := line.split())[protocol] == "0")


def test_an_overrun_is_made_good(network, reaching, local_client, far_origin, links):
    """The proxy stands still until the kernel has lost messages to it (ENOBUFS), which no later one repeats."""
    proxy, origin = reaching(), far_origin()
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(origin))).source == links["wired"].near
    storm = lines_of_a_storm(links["wwan"], STORM)
    with stopped(proxy):
        for _ in range(20):
            network.machine.batch(*storm)
            if drops(network):
                break
        else:
            pytest.fail("200,000 changes did not fill the socket of the proxy: is there one?")
        network.machine.batch(
            "address add 10.3.0.9/24 dev wwan0", "link set wwan0 down", links["wifi"].default
        )
    begun = time.monotonic()
    event = events_until(watcher, status_is("wifi"))[-1]
    assert time.monotonic() - begun < AT_ONCE_SECONDS
    (modem,) = [interface for interface in event["interfaces"] if interface["name"] == "wwan0"]
    assert modem["up"] is False and "10.3.0.9" in modem["addresses"]
    assert way_of(client.exchange(get(origin))).source == links["wifi"].near
    network.go_by(links["wired"])
    events_until(watcher, status_is("wired"))
    assert way_of(client.exchange(get(origin))).source == links["wired"].near


# Commands


def reachability(proxy, *arguments: str) -> subprocess.CompletedProcess:
    return command("reachability", *arguments, "--socket", proxy.admin.path)


def test_the_command_for_a_person(network, reaching, links):
    proxy = reaching()
    done = reachability(proxy)
    assert (done.returncode, done.stderr) == (0, "")
    assert "wired" in done.stdout and "eth0" in done.stdout and links["wired"].far in done.stdout
    assert not done.stdout.startswith(("{", "HTTP"))
    network.machine.batch("link set eth0 down", "link set wlan0 down", "link set wwan0 down")
    proxy.admin.asked_until("/v1/reachability", status_is("not-reachable"))
    done = reachability(proxy)
    assert done.returncode == 0 and "not-reachable" in done.stdout
    done = command("reachability", "--config", proxy.configuration)
    assert done.returncode == 0 and "not-reachable" in done.stdout


def test_the_command_for_a_program(reaching, links):
    proxy = reaching(
        '[routes.office]\nvia = "http://10.1.0.1:3128"\n[[rule]]\nname = "r"\nroute = ["office"]\n'
    )
    done = reachability(proxy, "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == proxy.admin.json("/v1/reachability")
    assert json.loads(done.stdout)["routes"] == [
        {"name": "office", "via": "http://10.1.0.1:3128", "dead_for_ms": None, "unusable": None}
    ]
    done = reachability(proxy, FAR[0], "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["destination"] == {
        "host": FAR[0],
        "status": "wired",
        "error": None,
        "addresses": [
            {"address": FAR[0], "status": "wired", "interface": "eth0", "source": links["wired"].near}
        ],
    }


def test_the_command_of_a_host(network, reaching, links, name_server):
    names = name_server({"a.test": Answer(a=[FAR[0]]), "lost.test": Answer(a=[FAR[1]])})
    network.machine.ip("route", "add", "unreachable", f"{FAR[1]}/32")
    proxy = reaching(names=names)
    for host in ("a.test", FAR[0]):
        done = reachability(proxy, host)
        assert done.returncode == 0 and FAR[0] in done.stdout and "wired" in done.stdout, done
    for host in ("lost.test", FAR[1]):
        done = reachability(proxy, host)
        assert done.returncode == 1 and "not-reachable" in done.stdout, done
        done = reachability(proxy, host, "--json")
        assert done.returncode == 1
        assert json.loads(done.stdout)["destination"]["status"] == "not-reachable"


@pytest.mark.parametrize("host", ["a b", "", "http://a.test/", "a\r\nb", "..", "x" * 300, "[::1"])
def test_the_command_of_what_is_no_host(host, reaching, links):
    done = reachability(reaching(), host)
    assert done.returncode in (1, 2) and done.stderr and "HTTP" not in done.stdout, done


KINDS_IN_A_LINE = re.compile(r"\b(wired|wifi|wwan|not-reachable|unknown)\b")


def test_watching(network, reaching, links):
    """The state first, then one line for each change, which begins with what is now."""
    proxy = reaching()
    watching = subprocess.Popen(
        [binary(), "reachability", "--watch", "--socket", proxy.admin.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    lines = Journal("the command's lines")

    def read() -> None:
        for line in watching.stdout:
            lines.append(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    expected = ["wifi", "wwan", "wired", "wifi"]

    def all_told(_) -> bool:
        kinds = [KINDS_IN_A_LINE.search(line) for line in lines.entries[-len(expected) :]]
        return [kind and kind[0] for kind in kinds] == expected

    try:
        lines.wait_for(lambda line: "wired" in line)
        events = proxy.admin.events()
        for kind in expected:
            network.go_by(links[kind])
            events_until(events, status_is(kind))
        lines.wait_for(all_told)
        for line, kind in zip(lines.snapshot()[-len(expected) :], expected):
            assert links[kind].name in line
    finally:
        watching.send_signal(signal.SIGINT)
        assert watching.wait(DEADLINE_SECONDS) in (0, 130, -signal.SIGINT)
        reader.join(DEADLINE_SECONDS)
        watching.stdout.close()
        watching.stderr.close()


@pytest.mark.parametrize("arguments", [["a.test", "b.test"], ["--wach"], ["--socket"]], ids=" ".join)
def test_wrong_usage_of_the_command(arguments, sallyport_binary):
    done = command("reachability", *arguments)
    assert done.returncode == 2 and done.stdout == "" and done.stderr


def test_the_command_without_a_daemon(sallyport_binary, tmp_path):
    done = command("reachability", "--socket", tmp_path / "nobody.sock")
    assert done.returncode == 1 and done.stdout == "" and str(tmp_path / "nobody.sock") in done.stderr


def test_the_pages_of_the_api(reaching, links):
    """Bad queries are told as such and never taken for the machine's own state."""
    proxy = reaching()
    for query in ("?host=", "?host=a%20b", "?host=%zz"):
        answer = proxy.admin.ask(f"/v1/reachability{query}")
        assert answer.status == 400, f"{query}: {answer.status} {answer.body!r}"
    assert proxy.admin.json("/v1/reachability?host=%3A%3A1")["destination"]["status"] == "wired"
    assert proxy.admin.ask("/v1/reachability", "POST").status == 405
