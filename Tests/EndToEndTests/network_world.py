"""Networks for the tests of reachability: a machine whose links come and go, and a far side beyond all of them.

    network.wire("eth0")       a veth pair between the machine and the far side: 10.1.0.2 – 10.1.0.1, and so on
    network.tun("wwan0")       a real tun device, its packets carried by a thread to one of the far side
    network.go_by(link)        the machine's default route; go_nowhere() takes it away
    network.machine, .far      namespaces: `with network.machine:` whatever this thread makes is made there

The proxy and its clients live on the machine; origins live on the far side, on addresses that only a route leads to.
The address that an origin sees says which link a request took: 10.1.… is the first one made, 10.2.… the second.

How to run: as root on Linux, with iproute2 and util-linux, as `make test` does, or these files alone:

    make build && .build/venv/bin/pytest -q Tests/EndToEndTests -k "reachability or waiting or users"

SALLYPORT_BINARY names another binary than .build/release/sallyport. test_reachability_world.py tries the world itself
without a proxy, reachability_world.py puts the proxy in it. A namespace is held by a descriptor alone: whatever becomes
of a test, nothing of it stays behind.
"""

import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from dns_server import Answer, DNSServer
from journal import DEADLINE_SECONDS, Journal, readable

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

# Addresses of the far side (RFC 5737, RFC 3849): an origin listens on any of them.
FAR = [f"203.0.113.{number}" for number in range(1, 10)]
FAR6 = [f"2001:db8:f::{number}" for number in range(1, 4)]
BLACK_HOLE = "203.0.113.99"  # what is sent there is lost without a word


# Namespaces


def own_namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter_namespace(descriptor: int) -> None:
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Namespace:
    """A network of its own. Entering is of the calling thread: its sockets, programs and new threads are there."""

    def __init__(self):
        home = own_namespace()
        if LIBC.unshare(CLONE_NEWNET) != 0:
            os.close(home)
            raise OSError(ctypes.get_errno(), "unshare")
        try:
            self.descriptor = own_namespace()
            self._quieten()
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        finally:
            enter_namespace(home)
            os.close(home)
        self.homes = threading.local()

    @staticmethod
    def _quieten() -> None:
        """No address and no message that a test did not ask for, and packets are taken on whichever link they come."""
        for version, setting, value in (
            (6, "default/addr_gen_mode", 1),
            (6, "default/accept_dad", 0),
            (6, "default/accept_ra", 0),
            (6, "default/router_solicitations", 0),
            (4, "all/rp_filter", 0),
            (4, "default/rp_filter", 0),
        ):
            Path(f"/proc/sys/net/ipv{version}/conf/{setting}").write_text(str(value))

    @property
    def path(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def __enter__(self) -> "Namespace":
        home = own_namespace()
        enter_namespace(self.descriptor)
        self.homes.stack = [*getattr(self.homes, "stack", []), home]
        return self

    def __exit__(self, *_) -> None:
        home = self.homes.stack.pop()
        enter_namespace(home)
        os.close(home)

    def ip(self, *arguments: str) -> None:
        self._run(arguments, None)

    def batch(self, *lines: str) -> None:
        """All by one process, microseconds apart: one change of the network, as a network manager makes it."""
        self._run(("-batch", "-"), "\n".join(lines) + "\n")

    def _run(self, arguments: tuple[str, ...], text: str | None) -> None:
        with self:
            done = subprocess.run(
                ["ip", *arguments], input=text, capture_output=True, text=True, timeout=DEADLINE_SECONDS
            )
        assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}\n{(text or '')[:2000]}"

    def close(self) -> None:
        os.close(self.descriptor)


# Links


@dataclass(frozen=True)
class Link:
    """A way from the machine to the far side."""

    name: str
    number: int
    local = "fe80::2"  # the machine's, on every link

    @property
    def near(self) -> str:
        return f"10.{self.number}.0.2"

    @property
    def far(self) -> str:
        return f"10.{self.number}.0.1"

    @property
    def near6(self) -> str:
        return f"fd00:{self.number}::2"

    @property
    def far6(self) -> str:
        return f"fd00:{self.number}::1"

    @property
    def default(self) -> str:
        """For `ip`: the default route is by this link now."""
        return f"route replace default via {self.far} dev {self.name}"

    @property
    def default6(self) -> str:
        return f"route replace default via {self.far6} dev {self.name}"


class Tun:
    """A tun device of the same name in both namespaces; a thread carries packets from one to the other."""

    SET_INTERFACE, SET_LINK_TYPE, SET_CARRIER = (
        0x400454CA,
        0x400454CD,
        0x400454E2,
    )  # TUNSETIFF, …LINK, …CARRIER
    TUN, NO_PACKET_INFORMATION = 0x0001, 0x1000

    def __init__(self, name: str, near: Namespace, far: Namespace):
        self.near, self.far = self._open(name, near), self._open(name, far)
        self.wake, self.woken = os.pipe()
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()

    def _open(self, name: str, namespace: Namespace) -> int:
        with namespace:
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        flags = self.TUN | self.NO_PACKET_INFORMATION
        fcntl.ioctl(device, self.SET_INTERFACE, struct.pack("16sH22x", name.encode(), flags))
        return device

    def _carry(self) -> None:
        poll = select.poll()
        for descriptor in (self.wake, self.near, self.far):
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self.wake:
                    return
                self._move(descriptor, self.far if descriptor == self.near else self.near)

    @staticmethod
    def _move(source: int, sink: int) -> None:
        """One packet. A device that is down loses it, as a link would."""
        try:
            os.write(sink, os.read(source, 65536))
        except OSError:
            pass

    def set_link_type(self, kind: int) -> None:
        """ARPHRD_… of the machine's device, which must be down."""
        fcntl.ioctl(self.near, self.SET_LINK_TYPE, kind)

    def set_carrier(self, has: bool) -> None:
        fcntl.ioctl(self.near, self.SET_CARRIER, struct.pack("i", has))

    def unplug(self) -> None:
        """The devices vanish, as a modem does that is pulled out."""
        if self.thread.is_alive():
            os.write(self.woken, b"x")
            self.thread.join(DEADLINE_SECONDS)
            for descriptor in (self.near, self.far, self.wake, self.woken):
                os.close(descriptor)


class Network:
    """The machine and the far side."""

    def __init__(self):
        self.machine, self.far = Namespace(), Namespace()
        self.links: list[Link] = []
        self.tuns: dict[str, Tun] = {}
        self.far.batch(
            *(f"address add {address}/32 dev lo" for address in FAR),
            *(f"address add {address}/128 dev lo nodad" for address in FAR6),
            f"route add blackhole {BLACK_HOLE}/32",
        )

    def wire(self, name: str) -> Link:
        """Its ends have different numbers: the kernel tells of a carrier at once only then, else within a second."""
        index = str(101 + len(self.links))
        peer = ("peer", "name", name, "netns", self.far.path)
        self.machine.ip("link", "add", name, "index", index, "type", "veth", *peer)
        return self._address(name)

    def tun(self, name: str) -> Link:
        self.tuns[name] = Tun(name, self.machine, self.far)
        return self._address(name)

    def _address(self, name: str) -> Link:
        link = Link(name, len(self.links) + 1)
        self.links.append(link)
        for namespace, address, address6, local in (
            (self.far, link.far, link.far6, "fe80::1"),
            (self.machine, link.near, link.near6, link.local),
        ):
            namespace.batch(
                f"address add {address}/24 dev {name}",
                f"address add {address6}/64 dev {name} nodad",
                f"address add {local}/64 dev {name} nodad",  # neighbours are asked for by it
                f"link set {name} up",
            )
        return link

    def go_by(self, link: Link) -> None:
        self.machine.batch(link.default)

    def go_nowhere(self) -> None:
        self.machine.ip("route", "del", "default")

    def set(self, setting: str, value: int) -> None:
        """A setting of the machine's kernel, below /proc/sys/net."""
        with self.machine:
            Path(f"/proc/sys/net/{setting}").write_text(str(value))

    def close(self) -> None:
        for tun in self.tuns.values():
            tun.unplug()
        self.machine.close()
        self.far.close()


# What is seen on the way


class Heard(NamedTuple):
    moment: float  # time.monotonic()
    kind: int


class NetlinkListener:
    """Each rtnetlink message of a namespace, with the moment it came: what `ip monitor` sees."""

    GROUPS = 0x1 | 0x10 | 0x40 | 0x100 | 0x400  # links, addresses and routes of IPv4, of IPv6

    def __init__(self, namespace: Namespace):
        with namespace:
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self.socket.bind((0, self.GROUPS))
        self.messages = Journal("netlink")
        self.closing = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while not self.closing:
            if not readable(self.socket, 0.1):
                continue
            data, moment = self.socket.recv(65536), time.monotonic()
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                self.messages.append(Heard(moment, kind))
                data = data[(length + 3) & ~3 :]

    def count(self) -> int:
        return len(self.messages.snapshot())

    def first_after(self, count: int) -> float:
        """The moment of the first message that came after so many."""
        return self.messages.wait_for(after=count).moment

    def close(self) -> None:
        self.closing = True
        self.thread.join(DEADLINE_SECONDS)
        self.socket.close()


class Packet(NamedTuple):
    interface: str
    port: int  # of its destination
    data: bytes


class Capture:
    """The TCP packets that come to the far side, on whichever link."""

    def __init__(self, namespace: Namespace):
        with namespace:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))  # ETH_P_ALL
        self.packets = Journal("packets to the far side")
        self.closing = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while not self.closing:
            if not readable(self.socket, 0.1):
                continue
            packet, address = self.socket.recvfrom(65536)
            if address[2] == socket.PACKET_OUTGOING or address[0] == "lo":
                continue
            if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_TCP:
                segment = packet[(packet[0] & 15) * 4 : struct.unpack("!H", packet[2:4])[0]]
            elif packet[0] >> 4 == 6 and packet[6] == socket.IPPROTO_TCP:
                segment = packet[40 : 40 + struct.unpack("!H", packet[4:6])[0]]
            else:
                continue
            port = struct.unpack("!H", segment[2:4])[0]
            self.packets.append(Packet(address[0], port, segment[(segment[12] >> 4) * 4 :]))

    def to(self, port: int) -> list[Packet]:
        return [packet for packet in self.packets.snapshot() if packet.port == port]

    def first_to(self, port: int) -> Packet:
        return self.packets.wait_for(lambda packet: packet.port == port)

    def close(self) -> None:
        self.closing = True
        self.thread.join(DEADLINE_SECONDS)
        self.socket.close()


class PlacedNameServer(DNSServer):
    """A name server in a namespace, at an address of its own."""

    def __init__(
        self, namespace: Namespace, names: dict[str, Answer], address: str, port: int, otherwise: Answer
    ):
        self.namespace, self.place = namespace, (address, port)
        with namespace:
            super().__init__(names, otherwise)

    def _bind(self) -> tuple[socket.socket, socket.socket]:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(self.place)
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind(udp.getsockname())
        tcp.listen(16)
        return udp, tcp

    def stop(self) -> None:
        with self.namespace:
            super().stop()


# Fixtures, imported by the tests that use them


@pytest.fixture
def network():
    try:
        made = Network()
    except OSError as error:
        pytest.skip(f"needs network namespaces: {error}")
    yield made
    made.close()


@pytest.fixture
def listener(network):
    started = NetlinkListener(network.machine)
    yield started
    started.close()


@pytest.fixture
def capture(network):
    try:
        started = Capture(network.far)
    except PermissionError:
        pytest.skip("needs CAP_NET_RAW, to see packets")
    yield started
    started.close()
