"""What kind of link an interface is: the operator's word, sysfs, the type of its hardware, its name; in this order.

The devices are tuns, which the kernel says nothing of, and veth pairs, which it calls Ethernet. What sysfs says of
radio links is laid over /sys/class/net for the proxy alone.
"""

import subprocess

import pytest

from network_world import network
from reachability_world import events_until, far_origin, get, local_client, reaching, status_is, way_of


def kind_of(proxy, name: str) -> str:
    state = proxy.admin.json("/v1/reachability")
    (kind,) = [interface["kind"] for interface in state["interfaces"] if interface["name"] == name]
    assert state["status"] == kind and state["ipv4"]["interface"] == name
    return kind


NAMES = {
    "wwan0": "wwan",
    "wwp0s20u6": "wwan",
    "wlan0": "wifi",
    "wlp2s0": "wifi",
    "wlx00c0caabcdef": "wifi",
    "eth0": "wired",
    "enp3s0": "wired",
    "tun0": "unknown",
    "wg-office": "unknown",
    "vpn": "unknown",
    "new": "unknown",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_device_without_any_mark_is_known_by_its_name(name, network, reaching):
    network.go_by(network.tun(name))
    assert kind_of(reaching(kinds=""), name) == NAMES[name]


@pytest.mark.parametrize("name", ["wlan0", "wwan0", "eth0", "strange"])
def test_ethernet_is_wired_whatever_its_name(name, network, reaching):
    network.go_by(network.wire(name))
    assert kind_of(reaching(kinds=""), name) == "wired"


# ARPHRD_…, of linux/if_arp.h: PPP, RAWIP, IEEE80211, IEEE80211_PRISM, IEEE80211_RADIOTAP
LINK_TYPES = {512: "wwan", 519: "wwan", 801: "wifi", 802: "wifi", 803: "wifi"}


@pytest.mark.parametrize("name", ["tun0", "eth0"])
@pytest.mark.parametrize("link_type", LINK_TYPES)
def test_the_type_of_the_hardware_is_heeded_before_the_name(link_type, name, network, reaching):
    link = network.tun(name)
    network.machine.ip("link", "set", name, "down")
    network.tuns[name].set_link_type(link_type)
    network.machine.batch(f"link set {name} up", link.default)
    assert kind_of(reaching(kinds=""), name) == LINK_TYPES[link_type]


MARKS = {
    "DEVTYPE=wlan": ("wifi", {"uevent": "DEVTYPE=wlan\n"}),
    "DEVTYPE=wwan": ("wwan", {"uevent": "DEVTYPE=wwan\n"}),
    "DEVTYPE last of several": ("wwan", {"uevent": "INTERFACE={name}\nIFINDEX={index}\nDEVTYPE=wwan\n"}),
    "DEVTYPE of a bridge": ("wired", {"uevent": "DEVTYPE=bridge\n"}),
    "no DEVTYPE": ("wired", {"uevent": "INTERFACE={name}\nIFINDEX={index}\n"}),
    "a value that only begins so": ("wired", {"uevent": "DEVTYPE=wlan-bridge\n"}),
    "a directory wireless": ("wifi", {"uevent": "", "wireless/": ""}),
    "a directory phy80211": ("wifi", {"uevent": "", "phy80211/": ""}),
    "the mark of an interface of another network": (
        "wired",
        {"ifindex": "4711\n", "uevent": "INTERFACE={name}\nIFINDEX=4711\nDEVTYPE=wlan\n", "wireless/": ""},
    ),
    "nothing at all": ("wired", {}),
}


@pytest.mark.parametrize("mark", MARKS)
def test_what_sysfs_says(mark, network, reaching, tmp_path):
    expected, files = MARKS[mark]
    network.go_by(network.wire("lan7"))
    with network.machine:
        shown = subprocess.run(["ip", "-o", "link", "show", "lan7"], capture_output=True, text=True).stdout
    index = shown.split(":")[0]
    directory = tmp_path / "lan7"
    for name, text in ({"ifindex": f"{index}\n", "type": "1\n"} | files).items() if files else ():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text(text.format(name="lan7", index=index))
    assert kind_of(reaching(kinds="", mounts={"/sys/class/net": tmp_path}), "lan7") == expected


@pytest.mark.parametrize("kind", ["wwan", "wifi", "wired"])
@pytest.mark.parametrize("make", ["wire", "tun"])
def test_the_operator_knows_better(make, kind, network, reaching):
    network.go_by(getattr(network, make)("wlan0"))
    assert kind_of(reaching(kinds=f'[reachability.interfaces]\nwlan0 = "{kind}"\n'), "wlan0") == kind


def test_a_reload_renames_what_is_known(network, reaching, local_client, far_origin):
    """Nothing has happened in the network, and yet the machine is on another kind of link now."""
    link, origin = network.wire("eth0"), far_origin()
    network.go_by(link)
    rule = '[[rule]]\nname = "r"\nwhen = ["wwan"]\n[rule.request]\nheaders.set = { X-Rule = "r" }\n'
    proxy = reaching(rule, kinds="")
    client = local_client(proxy)
    assert way_of(client.exchange(get(origin))).rule == "-"
    proxy.reload(proxy="workers = 1", policy=proxy.head + '[reachability.interfaces]\neth0 = "wwan"\n' + rule)
    proxy.admin.asked_until("/v1/reachability", status_is("wwan"))
    assert way_of(client.exchange(get(origin))).rule == "r"


def test_a_device_that_is_plugged_in_later(network, reaching):
    network.go_by(network.wire("eth0"))
    proxy = reaching(kinds="")
    watcher = proxy.admin.events()
    link = network.tun("wwan0")
    network.go_by(link)
    assert events_until(watcher, status_is("wwan"))[-1]["ipv4"]["interface"] == "wwan0"


def test_a_device_that_is_renamed(network, reaching):
    """As udev does when it has found out what a device is."""
    network.tun("tun0")
    network.machine.batch("link set tun0 down", "link set tun0 name wlan0", "link set wlan0 up")
    proxy = reaching(kinds="")
    network.machine.batch("route replace default via 10.1.0.1 dev wlan0")
    proxy.admin.asked_until("/v1/reachability", status_is("wifi"))
    network.machine.batch("link set wlan0 down", "link set wlan0 name wwan0", "link set wwan0 up")
    network.machine.batch("route replace default via 10.1.0.1 dev wwan0")
    proxy.admin.asked_until("/v1/reachability", status_is("wwan"))
