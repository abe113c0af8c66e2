"""What can be reached, as links, addresses, carriers and routes come and go; and what a destination's own route says.

Each change is followed through an event of the API, through what becomes of a request, and through /v1/reachability.
"""

import time

import pytest

from dns_server import Answer
from network_world import FAR, FAR6, network
from origins import tunnel_echo
from proxy import command
from reachability_world import (
    asked_until,
    check_ended_at_once,
    check_not_reachable,
    connect,
    events_until,
    far_origin,
    get,
    local_client,
    name_server,
    reaching,
    status_is,
    tells_the_way,
    way_of,
)

NOWHERE = {"status": "not-reachable", "interface": None, "gateway": None}


def refused_at_once(local_client, proxy, data: bytes, rule: str | None = None):
    begun = time.monotonic()
    problem = check_not_reachable(local_client(proxy).exchange(data), rule)
    check_ended_at_once(begun)
    return problem


def interface_of(state: dict, name: str) -> dict:
    (found,) = [interface for interface in state["interfaces"] if interface["name"] == name]
    return found


# The machine


def test_the_state_of_a_machine(network, reaching):
    link = network.wire("eth0")
    network.go_by(link)
    state = reaching().admin.json("/v1/reachability")
    assert set(state) == {"status", "ipv4", "ipv6", "interfaces", "routes", "waiting"}
    assert state["status"] == "wired"
    assert state["ipv4"] == {"status": "wired", "interface": "eth0", "gateway": link.far}
    assert state["ipv6"] == NOWHERE
    assert (state["routes"], state["waiting"]) == ([], 0)
    interface = interface_of(state, "eth0")
    assert set(interface) == {"name", "kind", "up", "carrier", "addresses"}
    assert (interface["kind"], interface["up"], interface["carrier"]) == ("wired", True, True)
    addresses = set(interface["addresses"])
    assert {link.near} <= addresses <= {link.near, link.near6, link.local}


def test_a_machine_without_any_link(network, reaching, local_client, far_origin, raw_origin):
    """Loopback counts as wired, whatever the machine's state."""
    proxy, origin = reaching(), far_origin()
    state = proxy.admin.json("/v1/reachability")
    assert state["status"] == "not-reachable" and state["ipv4"] == state["ipv6"] == NOWHERE
    problem = refused_at_once(local_client, proxy, get(origin))
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["outcome"], line["upstream"], line["route"]) == (
        503,
        "not-reachable",
        None,
        None,
    )
    with network.machine:
        near = raw_origin(tells_the_way)
    answer = local_client(proxy).exchange(get(near))
    assert way_of(answer).source == "127.0.0.1"
    assert proxy.access(lambda line: line["status"] == 200)["route"] == "direct"
    destination = proxy.admin.json("/v1/reachability?host=127.0.0.1")["destination"]
    assert destination["status"] == "wired" and destination["addresses"][0]["interface"] == "lo"


def test_a_link_goes_down_and_comes_up(network, reaching, local_client, far_origin):
    link, origin = network.wire("eth0"), far_origin()
    network.go_by(link)
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    for _ in range(3):
        assert way_of(client.exchange(get(origin))).source == link.near
        network.machine.ip("link", "set", "eth0", "down")
        event = events_until(watcher, status_is("not-reachable"))[-1]
        assert event["ipv4"] == NOWHERE and interface_of(event, "eth0")["up"] is False
        assert event["reason"] and "eth0" in event["reason"]
        refused_at_once(local_client, proxy, get(origin))
        refused_at_once(local_client, proxy, connect(origin))
        network.machine.batch("link set eth0 up", link.default)
        event = events_until(watcher, status_is("wired"))[-1]
        assert event["ipv4"] == {"status": "wired", "interface": "eth0", "gateway": link.far}
        client = local_client(proxy)


def test_the_address_goes_and_another_comes(network, reaching, local_client, far_origin):
    link, origin = network.wire("eth0"), far_origin()
    network.go_by(link)
    proxy = reaching()
    watcher = proxy.admin.events()
    network.machine.ip("address", "del", f"{link.near}/24", "dev", "eth0")
    event = events_until(watcher, status_is("not-reachable"))[-1]
    assert link.near not in interface_of(event, "eth0")["addresses"]
    refused_at_once(local_client, proxy, get(origin))
    network.machine.batch("address add 10.1.0.77/24 dev eth0", link.default)
    event = events_until(watcher, status_is("wired"))[-1]
    assert "10.1.0.77" in interface_of(event, "eth0")["addresses"]
    assert way_of(local_client(proxy).exchange(get(origin))).source == "10.1.0.77"


def lose_carrier(network) -> None:
    network.far.ip("link", "set", "eth0", "down")


def regain_carrier(network) -> None:
    network.far.ip("link", "set", "eth0", "up")


def test_a_link_without_carrier_counts_as_down(network, reaching, local_client, far_origin):
    """The kernel leaves its address and its routes as they were, and a connect would hang."""
    link, origin = network.wire("eth0"), far_origin()
    network.go_by(link)
    proxy = reaching()
    watcher = proxy.admin.events()
    lose_carrier(network)
    event = events_until(watcher, status_is("not-reachable"))[-1]
    interface = interface_of(event, "eth0")
    assert (interface["up"], interface["carrier"]) == (True, False)
    refused_at_once(local_client, proxy, get(origin))
    regain_carrier(network)
    events_until(watcher, status_is("wired"))
    assert way_of(local_client(proxy).exchange(get(origin))).source == link.near


def test_a_route_without_carrier_gives_way_where_the_kernel_says_so(
    network, reaching, local_client, far_origin
):
    wired, wireless, origin = network.wire("eth0"), network.wire("wlan0"), far_origin()
    network.set("ipv4/conf/all/ignore_routes_with_linkdown", 1)
    network.machine.batch(f"{wired.default} metric 100", f"{wireless.default} metric 600")
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(origin))).source == wired.near
    lose_carrier(network)
    event = events_until(watcher, status_is("wifi"))[-1]
    assert event["ipv4"] == {"status": "wifi", "interface": "wlan0", "gateway": wireless.far}
    assert way_of(client.exchange(get(origin))).source == wireless.near
    regain_carrier(network)
    events_until(watcher, status_is("wired"))
    assert way_of(client.exchange(get(origin))).source == wired.near


def test_a_tun_loses_its_carrier_and_is_pulled_out(network, reaching, local_client, far_origin):
    link, origin = network.tun("wwan0"), far_origin()
    network.go_by(link)
    proxy = reaching(kinds="")
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(origin))).source == link.near
    network.tuns["wwan0"].set_carrier(False)
    assert interface_of(events_until(watcher, status_is("not-reachable"))[-1], "wwan0")["carrier"] is False
    refused_at_once(local_client, proxy, get(origin))
    network.tuns["wwan0"].set_carrier(True)
    events_until(watcher, status_is("wwan"))
    assert way_of(local_client(proxy).exchange(get(origin))).source == link.near
    network.tuns["wwan0"].unplug()
    event = events_until(watcher, status_is("not-reachable"))[-1]
    assert "wwan0" not in [interface["name"] for interface in event["interfaces"]]
    refused_at_once(local_client, proxy, get(origin))


def test_the_default_route_moves_from_link_to_link(network, reaching, local_client, far_origin):
    links = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0"), "wwan": network.wire("wwan0")}
    origin = far_origin()
    network.go_by(links["wired"])
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    for status in ("wifi", "wwan", "wired", "wwan", "wifi", "wired"):
        before = len(proxy.log.snapshot())
        network.go_by(links[status])
        (event,) = events_until(watcher, status_is(status))
        assert event["ipv4"]["interface"] == links[status].name
        assert way_of(client.exchange(get(origin))).source == links[status].near
        line = proxy.log.wait_for(
            lambda entry: entry.get("message", "").startswith("reachability: "), after=before
        )
        assert line["level"] == "info"
        assert status in line["message"] and links[status].name in line["message"]


def test_the_route_of_the_lower_metric_counts_until_it_goes(network, reaching, local_client, far_origin):
    wired, wireless, origin = network.wire("eth0"), network.wire("wlan0"), far_origin()
    network.machine.batch(f"{wired.default} metric 100", f"{wireless.default} metric 600")
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert proxy.admin.json("/v1/reachability")["status"] == "wired"
    network.machine.ip("link", "set", "eth0", "down")
    events_until(watcher, status_is("wifi"))
    assert way_of(client.exchange(get(origin))).source == wireless.near


def test_a_machine_with_ipv6_only(network, reaching, local_client, far_origin, name_server):
    link = network.wire("wlan0")
    network.machine.batch(f"address del {link.near}/24 dev wlan0", link.default6)
    names = {"both.test": Answer(a=[FAR[0]], aaaa=[FAR6[0]]), "four.test": Answer(a=[FAR[0]])}
    proxy = reaching(names=name_server(names))
    state = proxy.admin.json("/v1/reachability")
    assert state["status"] == "wifi" and state["ipv4"] == NOWHERE
    assert state["ipv6"] == {"status": "wifi", "interface": "wlan0", "gateway": link.far6}
    six = far_origin(address=FAR6[0])
    far_origin(address=FAR[0], port=six.port)
    assert way_of(local_client(proxy).exchange(get(six))).source == link.near6
    assert way_of(local_client(proxy).exchange(get(six, host="both.test"))).source == link.near6
    refused_at_once(local_client, proxy, get(six, host=FAR[0]))
    refused_at_once(local_client, proxy, get(six, host="four.test"))
    watcher = proxy.admin.events()
    network.machine.ip("route", "del", "default", "via", link.far6)
    assert events_until(watcher, status_is("not-reachable"))[-1]["ipv6"] == NOWHERE
    refused_at_once(local_client, proxy, get(six))


def test_ipv4_speaks_for_a_machine_with_both(network, reaching):
    modem, wireless = network.wire("wwan0"), network.wire("wlan0")
    network.machine.batch(modem.default, wireless.default6)
    proxy = reaching()
    state = proxy.admin.json("/v1/reachability")
    assert (state["status"], state["ipv4"]["status"], state["ipv6"]["status"]) == ("wwan", "wwan", "wifi")
    watcher = proxy.admin.events()
    network.go_nowhere()
    event = events_until(watcher, status_is("wifi"))[-1]
    assert (event["ipv4"], event["ipv6"]["status"]) == (NOWHERE, "wifi")


# A destination


@pytest.mark.parametrize("kind", ["unreachable", "prohibit", "blackhole", "throw"])
def test_a_destination_becomes_unreachable_and_others_stay(kind, network, reaching, local_client, far_origin):
    """A black hole too: the kernel answers for it at once, so nobody has to wait for a time-out."""
    link, lost, kept = network.wire("eth0"), far_origin(address=FAR[5]), far_origin(address=FAR[6])
    network.go_by(link)
    proxy = reaching()
    clients = [local_client(proxy) for _ in range(2)]
    for client in clients:
        assert way_of(client.exchange(get(lost))) and way_of(client.exchange(get(kept)))
    # Known before, the answer changes with the change that the loops have been told of.
    assert proxy.admin.json(f"/v1/reachability?host={FAR[5]}")["destination"]["status"] == "wired"
    network.machine.ip("route", "add", kind, f"{FAR[5]}/32")
    proxy.admin.asked_until(
        f"/v1/reachability?host={FAR[5]}", lambda state: state["destination"]["status"] == "not-reachable"
    )
    for client in clients:
        begun = time.monotonic()
        check_not_reachable(client.exchange(get(lost)))
        check_ended_at_once(begun)
        assert way_of(client.exchange(get(kept))).source == link.near
    refused_at_once(local_client, proxy, connect(lost))
    network.machine.ip("route", "del", kind, f"{FAR[5]}/32")
    proxy.admin.asked_until(
        f"/v1/reachability?host={FAR[5]}", lambda state: state["destination"]["status"] == "wired"
    )
    assert way_of(clients[0].exchange(get(lost))).source == link.near


def test_a_more_specific_route_leads_over_another_link(network, reaching, local_client, far_origin):
    wired, modem = network.wire("eth0"), network.wire("wwan0")
    network.go_by(wired)
    special, other = far_origin(address=FAR[5]), far_origin(address=FAR[6])
    proxy = reaching()
    client = local_client(proxy)
    assert way_of(client.exchange(get(special))).source == wired.near
    assert proxy.admin.json(f"/v1/reachability?host={FAR[5]}")["destination"]["status"] == "wired"
    network.machine.ip("route", "add", f"{FAR[5]}/32", "via", modem.far, "dev", "wwan0")
    state = proxy.admin.asked_until(
        f"/v1/reachability?host={FAR[5]}", lambda state: state["destination"]["status"] == "wwan"
    )
    assert state["status"] == "wired", "the machine's state is that of its default route"
    assert state["destination"] == {
        "host": FAR[5],
        "status": "wwan",
        "error": None,
        "addresses": [{"address": FAR[5], "status": "wwan", "interface": "wwan0", "source": modem.near}],
    }
    assert (
        way_of(client.exchange(get(special))).source == modem.near
    ), "the pooled connection was of the old way"
    assert way_of(client.exchange(get(other))).source == wired.near


def test_a_rule_of_the_kernel_leads_elsewhere(network, reaching, local_client, far_origin):
    """`ip rule`, as a VPN sets it: the route to an address changes though no route of its table does."""
    wired, wireless, origin = network.wire("eth0"), network.wire("wlan0"), far_origin()
    network.go_by(wired)
    network.machine.ip("route", "add", "default", "via", wireless.far, "dev", "wlan0", "table", "100")
    proxy = reaching()
    client = local_client(proxy)
    assert way_of(client.exchange(get(origin))).source == wired.near
    # Known before, the answer changes with the change that the loops have been told of.
    assert proxy.admin.json(f"/v1/reachability?host={FAR[0]}")["destination"]["status"] == "wired"
    network.machine.ip("rule", "add", "to", f"{FAR[0]}/32", "lookup", "100")
    proxy.admin.asked_until(
        f"/v1/reachability?host={FAR[0]}", lambda state: state["destination"]["status"] == "wifi"
    )
    assert way_of(client.exchange(get(origin))).source == wireless.near


def test_a_name_is_as_reachable_as_its_best_address(network, reaching, local_client, far_origin, name_server):
    link, origin = network.wire("eth0"), far_origin(address=FAR[1])
    network.go_by(link)
    network.machine.ip("route", "add", "unreachable", f"{FAR[0]}/32")
    proxy = reaching(names=name_server({"two.test": Answer(a=[FAR[0], FAR[1]])}))
    destination = proxy.admin.json("/v1/reachability?host=two.test")["destination"]
    assert (destination["host"], destination["status"]) == ("two.test", "wired")
    assert {entry["address"]: entry["status"] for entry in destination["addresses"]} == {
        FAR[0]: "not-reachable",
        FAR[1]: "wired",
    }
    assert way_of(local_client(proxy).exchange(get(origin, host="two.test"))).source == link.near


def test_a_host_that_has_no_name(network, reaching, name_server):
    network.go_by(network.wire("eth0"))
    proxy = reaching(names=name_server({}))
    destination = proxy.admin.json("/v1/reachability?host=absent.test")["destination"]
    assert destination["host"] == "absent.test" and destination["addresses"] == []
    assert destination["error"] and destination["status"] != "wired"
    assert command("reachability", "absent.test", "--socket", proxy.admin.path).returncode == 1


# Routes that name an interface

BOUND = '[[rule]]\nname = "bound"\nroute = ["bound"]\n[routes.bound]\nvia = "direct"\ninterface = "eth0"\n'


def test_a_route_by_an_interface_needs_a_route_there(network, reaching, local_client, far_origin):
    """RTM_GETROUTE with an output interface says "on link" of an address that no route leads to: that is no route."""
    wired, wireless, origin = network.wire("eth0"), network.wire("wlan0"), far_origin()
    network.go_by(wireless)
    proxy = reaching(BOUND)
    refused_at_once(local_client, proxy, get(origin), "bound")
    refused_at_once(local_client, proxy, connect(origin), "bound")
    network.machine.batch(f"{wired.default} metric 900")
    answer = asked_until(local_client(proxy), get(origin), lambda answer: answer.status == 200)
    assert way_of(answer).source == wired.near
    state = proxy.admin.json("/v1/reachability")
    assert state["status"] == "wifi" and state["ipv4"]["interface"] == "wlan0"
    line = proxy.access(lambda line: line["status"] == 200)
    assert line["route"] == "bound"


@pytest.mark.parametrize("where", ["absent", "down"])
def test_a_route_by_an_interface_that_cannot_be_used(where, network, reaching, local_client, far_origin):
    wireless, origin = network.wire("wlan0"), far_origin()
    network.go_by(wireless)
    if where == "down":
        network.wire("eth0")
        network.machine.ip("link", "set", "eth0", "down")
    proxy = reaching(BOUND)
    refused_at_once(local_client, proxy, get(origin), "bound")
    assert not origin.connections, "it went by another link"


def test_a_tunnel_by_an_interface(network, reaching, local_client, far_origin):
    wired, wireless, origin = network.wire("eth0"), network.wire("wlan0"), far_origin(tunnel_echo)
    network.machine.batch(wireless.default, f"{wired.default} metric 900")
    client = local_client(reaching(BOUND))
    assert client.exchange(connect(origin)).status == 200
    client.send(b"sally")
    assert client.receive_exactly(5) == b"sally"
    assert origin.connections[0].socket.getpeername()[0] == wired.near
