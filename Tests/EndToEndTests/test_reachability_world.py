"""The networks of network_world.py do what they say, without a proxy: what judges is tried before it judges."""

import socket
import subprocess

import pytest

from conftest import need
from journal import DEADLINE_SECONDS, readable
from network_world import BLACK_HOLE, FAR, FAR6, Network, capture, listener, network
from reachability_world import far_origin, way_of
from strict_http import read_response

RTM_NEWLINK, RTM_NEWROUTE, RTM_DELROUTE = 16, 24, 25
VIA = "Via: 1.1 sallyport\r\n"  # the origin's checks ask for it, as if the proxy had been there


def fetch(network: Network, origin, connection: socket.socket | None = None):
    """One request from the machine, and by which way it came."""
    with network.machine:
        connection = connection or socket.create_connection((origin.host, origin.port), DEADLINE_SECONDS)
    connection.sendall(f"GET / HTTP/1.1\r\nHost: {origin.authority}\r\n{VIA}\r\n".encode())
    return way_of(read_response(connection.recv(65536)))


@pytest.mark.parametrize("make", ["wire", "tun"])
@pytest.mark.parametrize("address", [FAR[0], FAR[8], FAR6[0]])
def test_the_source_says_which_link_was_taken(address, make, network, far_origin):
    first, second = (getattr(network, make)(name) for name in ("wwan0", "wlan0"))
    origin = far_origin(address=address)
    for link in (first, second, first):
        network.machine.batch(link.default, link.default6)
        assert fetch(network, origin).source == (link.near6 if ":" in address else link.near)


def test_curl_goes_where_the_route_leads(network, far_origin):
    need("curl")
    first, second = network.wire("eth0"), network.tun("wwan0")
    origin = far_origin()
    for link in (first, second):
        network.go_by(link)
        with network.machine:
            said = subprocess.run(
                ["curl", "-sS", "--noproxy", "*", "-H", VIA.strip(), "-H", "Accept:", origin.url],
                capture_output=True,
                text=True,
                timeout=DEADLINE_SECONDS,
            )
        assert said.stdout.startswith(f"{link.near} "), said


def test_without_a_route_nothing_leaves(network, far_origin):
    link, origin = network.wire("eth0"), far_origin()
    with network.machine:
        with pytest.raises(OSError, match="unreachable"):
            socket.create_connection((origin.host, origin.port), DEADLINE_SECONDS)
    network.go_by(link)
    assert fetch(network, origin).source == link.near
    network.go_nowhere()
    with network.machine:
        with pytest.raises(OSError, match="unreachable"):
            socket.create_connection((origin.host, origin.port), DEADLINE_SECONDS)


@pytest.mark.parametrize("address", [FAR[0], FAR6[0]])
def test_a_connection_survives_that_the_default_moves(address, network, far_origin):
    """What the tests of pools rest on: the kernel itself would go on using the old connection."""
    first, second, origin = network.wire("eth0"), network.wire("wlan0"), far_origin(address=address)
    network.machine.batch(first.default, first.default6)
    with network.machine:
        connection = socket.create_connection((origin.host, origin.port), DEADLINE_SECONDS)
    source = fetch(network, origin, connection).source
    assert source in (first.near, first.near6)
    network.machine.batch(second.default, second.default6)
    assert fetch(network, origin, connection) == (source, 0, "-", "/")


def test_the_kernel_leaves_a_connection_hanging_whose_address_is_gone(network, far_origin):
    link, origin = network.wire("eth0"), far_origin()
    network.go_by(link)
    with network.machine:
        connection = socket.create_connection((origin.host, origin.port), DEADLINE_SECONDS)
    fetch(network, origin, connection)
    network.machine.ip("address", "del", f"{link.near}/24", "dev", link.name)
    connection.sendall(b"GET / HTTP/1.1\r\n")
    assert not readable(
        connection, 0.3
    ), "the kernel ends it by itself: the tests of vanished addresses show nothing"


def flags_of(network: Network, name: str) -> str:
    with network.machine:
        return subprocess.run(["ip", "-o", "link", "show", name], capture_output=True, text=True).stdout


def test_a_link_loses_its_carrier_with_its_peer(network):
    network.wire("eth0")
    assert ",LOWER_UP" in flags_of(network, "eth0")
    network.far.ip("link", "set", "eth0", "down")
    assert "NO-CARRIER" in flags_of(network, "eth0") and ",UP" in flags_of(network, "eth0")


def test_a_tun_loses_its_carrier_and_vanishes(network):
    network.tun("wwan0")
    assert ",LOWER_UP" in flags_of(network, "wwan0")
    network.tuns["wwan0"].set_carrier(False)
    assert "NO-CARRIER" in flags_of(network, "wwan0")
    network.tuns["wwan0"].set_carrier(True)
    assert ",LOWER_UP" in flags_of(network, "wwan0")
    network.tuns["wwan0"].unplug()
    assert flags_of(network, "wwan0") == ""


def test_netlink_is_heard(network, listener):
    link = network.wire("eth0")
    before = listener.count()
    network.go_by(link)
    # Addresses of IPv6 that the kernel makes by itself may come first.
    heard = listener.messages.wait_for(lambda message: message.kind == RTM_NEWROUTE, after=before)
    assert listener.first_after(before) <= heard.moment
    network.go_nowhere()
    listener.messages.wait_for(lambda message: message.kind == RTM_DELROUTE, after=before)
    network.machine.ip("link", "set", "eth0", "down")
    listener.messages.wait_for(lambda message: message.kind == RTM_NEWLINK, after=before)


def test_a_quiet_network_says_nothing_by_itself(network, listener):
    """Events are counted: no message may come that no test asked for, such as those of IPv6's automatic addresses."""
    links = [network.wire("eth0"), network.tun("wwan0")]
    network.machine.ip("link", "set", "lo", "mtu", "60000")  # after it, what making the links has caused
    before = listener.count()
    network.go_by(links[0])
    network.go_by(links[1])
    kinds = [message.kind for message in listener.messages.wait_for_several(2, after=before)]
    assert {kind for kind in kinds if kind != RTM_NEWLINK} == {RTM_NEWROUTE}


@pytest.mark.parametrize("address", [FAR[1], FAR6[1]])
def test_packets_are_seen_with_their_link(address, network, capture, far_origin):
    first, second = network.wire("eth0"), network.tun("wwan0")
    origin = far_origin(address=address)
    for link in (first, second):
        network.machine.batch(link.default, link.default6)
        fetch(network, origin)
    capture.packets.wait_for(lambda packet: packet.interface == "wwan0" and b"GET /" in packet.data)
    assert {packet.interface for packet in capture.to(origin.port)} == {"eth0", "wwan0"}
    assert capture.first_to(origin.port) == ("eth0", origin.port, b"")


def test_a_black_hole_says_nothing(network, capture):
    network.go_by(network.wire("eth0"))
    with network.machine:
        lost = socket.socket()
    lost.setblocking(False)
    lost.connect_ex((BLACK_HOLE, 80))
    assert capture.first_to(80).interface == "eth0"
    assert not readable(lost, 0.3)
