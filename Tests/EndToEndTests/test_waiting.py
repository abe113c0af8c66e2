"""`unreachable = "wait"`: a request is held, with nothing sent, until a path appears, its time runs out or it leaves.

That a request is held is told by an event, so that no test waits for the clock; /v1/reachability counts who waits.
"""

import time

import pytest

from dns_server import Answer
from journal import DEADLINE_SECONDS
from network_world import FAR, Link, capture, network
from origins import echoing, tunnel_echo, unused_port
from problems import check_problem
from reachability_world import (
    AT_ONCE_SECONDS,
    check_cellular,
    check_not_reachable,
    connect,
    events_until,
    far_origin,
    get,
    local_client,
    name_server,
    reaching,
    status_is,
    way_of,
)
from test_limits import takes_at_least


def patient(wait: str = "10m", *lines: str, request: str = "") -> str:
    """A policy whose one route waits so long."""
    return (
        '[[rule]]\nname = "patient"\nroute = ["calm"]\n'
        + (f"[rule.request]\n{request}\n" if request else "")
        + f'[routes.calm]\nvia = "direct"\nunreachable = "wait"\nwait = "{wait}"\n'
        + "".join(line + "\n" for line in lines)
    )


ON_WIFI = 'when = ["wifi"]'


@pytest.fixture
def links(network) -> dict[str, Link]:
    """No default route is there yet."""
    return {"wired": network.wire("eth0"), "wifi": network.wire("wlan0"), "wwan": network.wire("wwan0")}


class Waits:
    """What the API tells of requests that wait."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.watcher = proxy.admin.events()

    def next(self, state: str) -> dict:
        """The next event of a wait, which must be this one."""
        data = self.watcher.until("wait")
        assert set(data) == {"time", "ref", "rule", "host", "state", "reason", "waited_ms"}
        assert data["state"] == state, f"{state} was expected: {data}"
        assert data["reason"] and data["waited_ms"] >= 0
        return data

    def count(self) -> int:
        return self.proxy.admin.json("/v1/reachability")["waiting"]

    def ends(self) -> None:
        self.proxy.admin.asked_until("/v1/reachability", lambda state: state["waiting"] == 0)


# Held, and let go


def test_a_request_is_held_until_there_is_a_path(network, reaching, local_client, far_origin, links, capture):
    proxy, origin = reaching(patient()), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    client.send(get(origin))
    began = waits.next("began")
    assert (began["rule"], began["host"], waits.count()) == ("patient", FAR[0], 1)
    assert client.nothing_came() and not capture.to(origin.port)
    network.go_by(links["wifi"])
    assert way_of(client.answer()).source == links["wifi"].near
    resumed = waits.next("resumed")
    assert resumed["ref"] == began["ref"] and resumed["waited_ms"] >= began["waited_ms"]
    assert waits.count() == 0
    line = proxy.access()
    assert (line["ref"], line["route"], line["outcome"]) == (began["ref"], "calm", "done")
    assert way_of(client.exchange(get(origin))).connection == 0, "the next one does not wait"


def test_nothing_is_sent_by_a_path_that_the_route_does_not_take(
    network, reaching, local_client, far_origin, links, capture
):
    """The destination could be reached all the time, by a link that the route's `when` does not name."""
    network.go_by(links["wired"])
    proxy, origin = reaching(patient("10m", ON_WIFI)), far_origin()
    waits, watcher, client = Waits(proxy), proxy.admin.events(), local_client(proxy)
    client.send(get(origin))
    began = waits.next("began")
    assert "wired" in began["reason"] or "wifi" in began["reason"]
    for kind in ("wwan", "wired", "wwan"):
        network.go_by(links[kind])
        events_until(watcher, status_is(kind))
        assert client.nothing_came() and waits.count() == 1
    network.go_by(links["wifi"])
    assert way_of(client.answer()).source == links["wifi"].near
    assert waits.next("resumed")["ref"] == began["ref"]
    assert {packet.interface for packet in capture.to(origin.port)} == {"wlan0"}


CHANGES = {
    "a default route": lambda links: [links["wifi"].default],
    "a route to the destination": lambda links: [f"route add {FAR[0]}/32 via 10.2.0.1 dev wlan0"],
    "a route that was in its way goes": lambda links: [
        links["wifi"].default,
        f"route del unreachable {FAR[0]}",
    ],
}


@pytest.mark.parametrize("name", CHANGES)
def test_any_change_that_makes_a_path_lets_it_go(name, network, reaching, local_client, far_origin, links):
    """Also one that the machine's own state does not show."""
    if name == "a route that was in its way goes":
        network.machine.ip("route", "add", "unreachable", FAR[0])
    proxy, origin = reaching(patient()), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    client.send(get(origin))
    waits.next("began")
    begun = time.monotonic()
    network.machine.batch(*CHANGES[name](links))
    assert way_of(client.answer()).source == links["wifi"].near
    assert time.monotonic() - begun < AT_ONCE_SECONDS
    waits.next("resumed")


def test_a_link_that_regains_its_carrier_lets_it_go(network, reaching, local_client, far_origin, links):
    network.go_by(links["wired"])
    network.far.ip("link", "set", "eth0", "down")
    proxy, origin = reaching(patient()), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    proxy.admin.asked_until("/v1/reachability", status_is("not-reachable"))
    client.send(get(origin))
    waits.next("began")
    network.far.ip("link", "set", "eth0", "up")
    assert way_of(client.answer()).source == links["wired"].near


def test_several_go_in_order(network, reaching, local_client, far_origin, links):
    """With one slot for the host: the next goes when the one before has its answer."""
    limit = "workers = 1\n[proxy.limits]\nconnections_per_host = 1\n"
    proxy, origin = reaching(patient(), proxy=limit), far_origin()
    waits, clients = Waits(proxy), [local_client(proxy) for _ in range(8)]
    references = []
    for number, client in enumerate(clients):
        client.send(get(origin, f"/{number}"))
        references.append(waits.next("began")["ref"])
        assert waits.count() == number + 1
    network.go_by(links["wifi"])
    assert [way_of(client.answer()).target for client in clients] == [f"/{number}" for number in range(8)]
    assert [request.target for request in origin.requests()] == [b"/%d" % number for number in range(8)]
    assert [waits.next("resumed")["ref"] for _ in clients] == references
    assert waits.count() == 0


def test_many_are_let_go_at_once(network, reaching, local_client, far_origin, links):
    """Over all loops."""
    proxy, origin = reaching(patient(), proxy="workers = 2"), far_origin()
    waits, clients = Waits(proxy), [local_client(proxy) for _ in range(100)]
    for client in clients:
        client.send(get(origin))
    references = {waits.next("began")["ref"] for _ in clients}
    assert len(references) == waits.count() == 100 and not origin.connections
    network.go_by(links["wifi"])
    assert {way_of(client.answer()).source for client in clients} == {links["wifi"].near}
    assert {waits.next("resumed")["ref"] for _ in clients} == references


def test_a_name_that_cannot_be_asked_for_waits_with_its_server(
    network, reaching, local_client, far_origin, links, name_server
):
    """Without a path there is none to the name server either: the name is as little reachable as its host."""
    names = name_server({"a.test": Answer(a=[FAR[0]])}, address=FAR[2], namespace=network.far)
    proxy, origin = reaching(patient(), names=names), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    client.send(get(origin, host="a.test"))
    assert waits.next("began")["host"] == "a.test"
    network.go_by(links["wifi"])
    assert way_of(client.answer()).source == links["wifi"].near
    waits.next("resumed")


@pytest.mark.parametrize("framing", ["sized", "chunked"])
def test_a_body_is_held_with_its_head(framing, network, reaching, local_client, far_origin, links, capture):
    """A client that goes on sending is read no further than the proxy's buffers; later all of it arrives, once."""
    proxy, origin = reaching(patient()), far_origin(echoing)
    waits, client = Waits(proxy), local_client(proxy)
    body = bytes(range(256)) * 256
    if framing == "sized":
        lines, data = f"Content-Length: {len(body)}\r\n", body
    else:
        lines, data = "Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    client.send(get(origin, method="POST", lines=lines) + data)
    waits.next("began")
    assert not capture.to(origin.port)
    network.go_by(links["wifi"])
    assert client.answer().body == body
    assert len(origin.requests()) == 1


@pytest.mark.parametrize("what", ["a tunnel", "what is inside"])
def test_a_tunnel_is_held(what, network, reaching, local_client, far_origin, links, capture):
    """No 200 comes before there is a path; a client that sends ahead of it loses nothing."""
    proxy, origin = reaching(patient()), far_origin(tunnel_echo)
    waits, client = Waits(proxy), local_client(proxy)
    client.send(connect(origin))
    if what == "what is inside":
        client.send(b"ahead ")
    assert waits.next("began")["host"] == FAR[0]
    assert client.nothing_came() and not capture.to(origin.port)
    network.go_by(links["wifi"])
    assert client.answer().status == 200
    waits.next("resumed")
    client.send(b"sally")
    expected = b"ahead sally" if what == "what is inside" else b"sally"
    assert client.receive_exactly(len(expected)) == expected


def test_a_second_wait_on_the_same_connection(network, reaching, local_client, far_origin, links):
    """The origin's connection is kept each time, and not used while no route leads to it."""
    proxy, origin = reaching(patient()), far_origin()
    waits, watcher, client = Waits(proxy), proxy.admin.events(), local_client(proxy)
    for _ in range(3):
        client.send(get(origin))
        waits.next("began")
        network.go_by(links["wifi"])
        assert way_of(client.answer()).source == links["wifi"].near
        waits.next("resumed")
        events_until(watcher, status_is("wifi"))
        network.go_nowhere()
        events_until(watcher, status_is("not-reachable"))


# Time runs out


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
def test_a_wait_that_runs_out(method, network, reaching, local_client, far_origin, links):
    proxy, origin = reaching(patient("400ms")), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    data = (
        connect(origin) if method == "CONNECT" else get(origin, method=method, lines="Content-Length: 0\r\n")
    )
    with takes_at_least(0.4):
        problem = check_not_reachable(client.exchange(data), "patient")
    began, expired = waits.next("began"), waits.next("expired")
    assert began["ref"] == expired["ref"] == problem.reference
    assert 380 <= expired["waited_ms"] < 1000 * AT_ONCE_SECONDS
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["outcome"], line["upstream"]) == (503, "not-reachable", None)
    assert waits.count() == 0 and not origin.connections


def test_changes_that_bring_no_path_do_not_lengthen_a_wait(
    network, reaching, local_client, far_origin, links
):
    """Each change tries anew, none begins the time anew."""
    network.go_by(links["wired"])
    proxy, origin = reaching(patient("1s", ON_WIFI)), far_origin()
    waits, watcher, client = Waits(proxy), proxy.admin.events(), local_client(proxy)
    begun = time.monotonic()
    client.send(get(origin))
    waits.next("began")
    while client.nothing_came():
        for kind in ("wwan", "wired"):
            network.go_by(links[kind])
            events_until(watcher, status_is(kind))
        assert time.monotonic() - begun < DEADLINE_SECONDS, "it waits for ever"
    check_not_reachable(client.answer(), "patient")
    assert 0.9 <= time.monotonic() - begun < 1 + AT_ONCE_SECONDS
    waits.next("expired")


def test_the_longest_wait_of_the_routes_counts(network, reaching, local_client, far_origin, links):
    policy = '[[rule]]\nname = "patient"\nroute = ["short", "long", "hasty"]\n'
    for name, wait in (("short", "100ms"), ("long", "800ms")):
        policy += f'[routes.{name}]\nvia = "direct"\nunreachable = "wait"\nwait = "{wait}"\n'
    policy += '[routes.hasty]\nvia = "direct"\nwait = "10m"\n'
    with takes_at_least(0.8):
        problem = check_not_reachable(local_client(reaching(policy)).exchange(get(far_origin())), "patient")
    assert all(name in problem.body["detail"] for name in ("short", "long", "hasty"))


def test_the_timeout_of_the_rule_covers_the_wait(network, reaching, local_client, far_origin, links):
    proxy, origin = reaching(patient("10m", request='timeout = "400ms"')), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    with takes_at_least(0.4):
        answer = client.exchange(get(origin))
    check_problem(answer, 504, rule="patient")
    waits.next("began")
    waits.ends()


def test_by_default_nothing_waits(network, reaching, local_client, far_origin, links):
    policy = '[[rule]]\nname = "r"\nroute = ["hasty"]\n[routes.hasty]\nvia = "direct"\nwait = "10m"\n'
    proxy, origin = reaching(policy), far_origin()
    for data in (get(origin), connect(origin)):
        check_not_reachable(local_client(proxy).exchange(data), "r")


# Who waits for what


def test_another_route_of_the_list_is_taken_rather_than_to_wait(
    network, reaching, local_client, far_origin, links
):
    network.go_by(links["wired"])
    proxy = reaching(patient("10m", ON_WIFI).replace('["calm"]', '["calm", "direct"]'))
    assert way_of(local_client(proxy).exchange(get(far_origin()))).source == links["wired"].near
    assert proxy.access()["route"] == "direct"


def test_all_routes_are_tried_anew_in_order(network, reaching, local_client, far_origin, links):
    """The second of them waits; the first can be taken by then as well, and goes before it."""
    policy = patient().replace('["calm"]', '["hasty", "calm"]') + '[routes.hasty]\nvia = "direct"\n'
    proxy, origin = reaching(policy), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    client.send(get(origin))
    waits.next("began")
    network.go_by(links["wifi"])
    assert way_of(client.answer()).source == links["wifi"].near
    assert proxy.access()["route"] == "hasty"


def test_a_failure_that_is_not_of_reachability_does_not_wait(
    network, reaching, local_client, far_origin, links
):
    network.go_by(links["wired"])
    with network.far:
        authority = f"{FAR[0]}:{unused_port()}"
    answer = local_client(reaching(patient())).exchange(
        f"GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
    )
    check_problem(answer, 502, error="connection_refused", rule="patient")


def test_cellular_access_that_is_not_allowed_waits_too(network, reaching, local_client, far_origin, links):
    network.go_by(links["wwan"])
    proxy, origin = reaching(patient(request="allows_cellular_access = false")), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    client.send(get(origin))
    reason = waits.next("began")["reason"]
    assert "wwan" in reason or "cellular" in reason
    assert client.nothing_came() and not origin.connections
    network.go_by(links["wifi"])
    assert way_of(client.answer()).source == links["wifi"].near
    waits.next("resumed")


def test_cellular_access_that_is_not_allowed_runs_out(network, reaching, local_client, far_origin, links):
    network.go_by(links["wwan"])
    proxy, origin = reaching(patient("400ms", request="allows_cellular_access = false")), far_origin()
    with takes_at_least(0.4):
        answer = local_client(proxy).exchange(get(origin))
    # The vocabulary has one token for a wait that ran out and one for cellular access: either tells the truth.
    check = check_cellular if b"cellular" in answer.reason else check_not_reachable
    check(answer, "patient")
    assert not origin.connections


def test_others_are_not_held_up(network, reaching, local_client, far_origin, links):
    """Nor do those who wait keep a slot of the host that another rule reaches by another route."""
    network.go_by(links["wired"])
    policy = '[[rule]]\nname = "now"\npaths = ["/now"]\n' + patient("10m", ON_WIFI)
    limit = "workers = 1\n[proxy.limits]\nconnections_per_host = 1\n"
    proxy, origin = reaching(policy, proxy=limit), far_origin()
    waits, waiting = Waits(proxy), [local_client(proxy) for _ in range(3)]
    for client in waiting:
        client.send(get(origin))
        waits.next("began")
    other = local_client(proxy)
    for _ in range(5):
        assert way_of(other.exchange(get(origin, "/now"))).source == links["wired"].near
    assert all(client.nothing_came() for client in waiting) and waits.count() == 3
    network.go_by(links["wifi"])
    assert {way_of(client.answer()).source for client in waiting} == {links["wifi"].near}


# Who leaves


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("ending", ["close", "reset"])
def test_a_client_that_leaves_frees_its_place(
    ending, method, network, reaching, local_client, far_origin, links, capture
):
    """One that only closes its side looks the same as one that has closed: while nothing is sent, both have left."""
    proxy, origin = reaching(patient()), far_origin()
    waits = Waits(proxy)
    leaving, staying = local_client(proxy), local_client(proxy)
    leaving.send(connect(origin) if method == "CONNECT" else get(origin, "/leaving"))
    began = waits.next("began")
    staying.send(get(origin, "/staying"))
    waits.next("began")
    assert waits.count() == 2
    getattr(leaving, ending)()
    leaving.looked_at = False
    left = waits.next("left")
    assert left["ref"] == began["ref"] and waits.count() == 1
    assert proxy.access_of(began["ref"])["outcome"] != "done"
    network.go_by(links["wifi"])
    assert way_of(staying.answer()).target == "/staying"
    assert len(origin.connections) == 1 and [r.target for r in origin.requests()] == [b"/staying"]
    assert waits.next("resumed") and waits.count() == 0


def test_a_client_that_ends_its_side_is_told_at_once(network, reaching, local_client, far_origin, links):
    """It may have left, so that nothing is sent for it later on; if it listens, it hears of that."""
    proxy, origin = reaching(patient()), far_origin()
    waits = Waits(proxy)
    client = local_client(proxy)
    client.send(get(origin, "/abandoned"))
    began = waits.next("began")
    client.half_close()
    left = waits.next("left")
    assert left["ref"] == began["ref"] and left["waited_ms"] < 4_000
    problem = check_problem(client.answer(), 503)
    assert "ended its side" in problem.details
    client.wait_for_end()
    network.go_by(links["wifi"])
    other = local_client(proxy)
    assert way_of(other.exchange(get(origin, "/other"))).target == "/other"
    assert [request.target for request in origin.requests()] == [b"/other"]


def test_descriptors_of_those_who_left_come_back(network, reaching, local_client, far_origin, links):
    proxy, origin = reaching(patient()), far_origin()
    waits = Waits(proxy)

    def wait_and_leave() -> None:
        client = local_client(proxy)
        client.send(get(origin))
        waits.next("began")
        client.reset()
        client.looked_at = False
        waits.next("left")
        proxy.admin.asked_until("/v1/connections", lambda all: all == [])

    wait_and_leave()  # what the loops open once is open now
    before = proxy.descriptors()
    for _ in range(20):
        wait_and_leave()
    end = time.monotonic() + DEADLINE_SECONDS
    while proxy.descriptors() > before:
        assert time.monotonic() < end, f"{before} descriptors have become {proxy.descriptors()}"


# Reload and stop


def test_who_waits_finishes_with_the_policy_it_began_with(network, reaching, local_client, far_origin, links):
    proxy, origin = reaching(patient(request='headers.set = { X-Rule = "old" }')), far_origin()
    waits, client = Waits(proxy), local_client(proxy)
    client.send(get(origin))
    waits.next("began")
    proxy.reload(proxy="workers = 1", policy=proxy.head + '[[rule]]\nname = "no"\naction = "deny"\n')
    network.go_by(links["wifi"])
    way = way_of(client.answer())
    assert (way.source, way.rule) == (links["wifi"].near, "old")
    assert proxy.access()["rule"] == "patient"


def test_a_stop_does_not_wait_longer_than_the_drain(network, reaching, local_client, far_origin, links):
    proxy, origin = (
        reaching(patient(), proxy='workers = 1\n[proxy.timeouts]\ndrain = "400ms"\n'),
        far_origin(),
    )
    waits, client = Waits(proxy), local_client(proxy)
    client.send(get(origin))
    waits.next("began")
    proxy.terminate()
    assert proxy.wait_for_exit() == 0
    client.wait_for_end()
