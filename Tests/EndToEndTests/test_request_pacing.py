"""[rule.request] beyond headers and bodies: service_type on the wire, throttle by time, timeout and cookies beside a body.

service_type is read from the packets themselves, which needs a packet socket (CAP_NET_RAW): those tests skip without.
A throttle is seen by a lower bound: at no time had the origin got more than the packets that were due by then.
"""

import socket
import struct
import threading
import time

import pytest

from journal import DEADLINE_SECONDS, Journal, readable
from origins import answering
from problems import check_problem
from serializer_world import (
    FORM,
    OK,
    ONE_WORKER,
    adding,
    ended_quietly,
    goes_on,
    policy,
    post,
    post_chunked,
    request,
)
from strict_http import Incomplete, read_request

ETH_P_ALL = 0x0003
PACKET_OUTGOING = 4
EXPEDITED, CLASS_SELECTOR_1, LOWER_EFFORT, DEFAULT = 46, 8, 1, 0


# service_type


class Capture:
    """What goes over loopback to one port: the code point of each packet that carries bytes, and the bytes."""

    def __init__(self, port: int):
        try:
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        except PermissionError:
            pytest.skip("needs CAP_NET_RAW, to see the code point of a packet")
        self.socket.bind(("lo", ETH_P_ALL))
        self.port = port
        self.packets = Journal("packets to the origin")
        self.closing = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while not self.closing:
            if not readable(self.socket, 0.1):
                continue
            packet, address = self.socket.recvfrom(65536)
            if address[2] == PACKET_OUTGOING or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                continue
            segment = packet[(packet[0] & 15) * 4 : struct.unpack(">H", packet[2:4])[0]]
            data = segment[(segment[12] >> 4) * 4 :]
            if struct.unpack(">H", segment[2:4])[0] == self.port and data:
                self.packets.append((packet[1] >> 2, data))

    def code_point_of(self, needle: bytes) -> int:
        return self.packets.wait_for(lambda packet: needle in packet[1])[0]

    def stop(self) -> None:
        self.closing = True
        self.thread.join(DEADLINE_SECONDS)
        self.socket.close()


@pytest.fixture
def capture():
    running: list[Capture] = []

    def start(port: int) -> Capture:
        running.append(Capture(port))
        return running[-1]

    yield start
    for started in running:
        started.stop()


SERVICE_TYPES = ("default", "background", "video", "voice", "responsive")


def test_the_service_type_is_in_every_packet(sallyport, raw_origin, raw_client, capture):
    """On one connection of a client, whatever upstream connections were used before for another type."""
    rules = "".join(
        f'[[rule]]\nname = "{kind}"\npaths = ["/{kind}"]\n[rule.request]\nservice_type = "{kind}"\n'
        for kind in SERVICE_TYPES
    )
    proxy, origin = sallyport(proxy=ONE_WORKER, policy=rules), raw_origin(answering(OK))
    packets, client = capture(origin.port), raw_client(proxy)
    seen: dict[str, int] = {}
    for turn, kind in enumerate((*SERVICE_TYPES, *reversed(SERVICE_TYPES))):
        lines = "Content-Length: 5\r\n"
        client.send(request(origin, f"/{kind}", f"X-Turn: {turn}.\r\n{lines}", "POST"))
        client.send(b"body%d" % turn)
        assert client.answer().body == b"ok"
        code_points = {packets.code_point_of(b"X-Turn: %d." % turn), packets.code_point_of(b"body%d" % turn)}
        assert len(code_points) == 1, "head and body differ"
        assert seen.setdefault(kind, *code_points) in code_points, f"{kind} is not what it was before"
    # Silent in the specification on the values: these are those of RFC 4594, RFC 8622 and everybody's default.
    assert seen["default"] == DEFAULT and seen["voice"] == EXPEDITED
    assert seen["background"] in (CLASS_SELECTOR_1, LOWER_EFFORT)
    assert len(set(seen.values())) == len(SERVICE_TYPES), seen


def test_the_service_type_is_on_a_request_without_a_rule_of_its_own_too(
    sallyport, raw_origin, raw_client, capture
):
    rules = '[defaults.request]\nservice_type = "voice"\n'
    proxy, origin = sallyport(policy=rules), raw_origin(answering(OK))
    packets = capture(origin.port)
    assert raw_client(proxy).exchange(request(origin, "/first")).status == 200
    assert packets.code_point_of(b"GET /first ") == EXPEDITED


# throttle


PACKET_BYTES, DELAY_SECONDS = 1024, 0.04


class TimedOrigin:
    """A script that notes when which byte of a body had come."""

    def __init__(self):
        self.arrivals: list[tuple[float, int]] = []
        self.body = b""

    def __call__(self, connection) -> None:
        connection.read_head()
        begin = bytes(connection.received).index(b"\r\n\r\n") + 4
        while True:
            self.arrivals.append((time.monotonic(), len(connection.received) - begin))
            message = self.whole(connection)
            if message:
                break
            if not connection.receive_some():
                return
        connection.send(OK)
        while connection.read_request().target == b"/after":
            connection.send(OK)

    def whole(self, connection):
        try:
            message = read_request(bytes(connection.received), 0)
        except Incomplete:
            return None
        connection.requests[-1], connection.read_to, self.body = message, message.end, message.body
        return message


# Of so many packets, a minute apart, none but the first comes within a test.
NEVER_WHOLE = bytes(100 * PACKET_BYTES)
THROTTLE = f'throttle = {{ packet = "{PACKET_BYTES}B", delay = "{DELAY_SECONDS * 1000:.0f}ms" }}'


@pytest.mark.parametrize("held", ["streamed", "held"])
@pytest.mark.parametrize("how", ["sized", "chunked"])
@pytest.mark.parametrize("packets", [1, 5, 12])
def test_a_throttled_upload(packets, how, held, sallyport, raw_origin, raw_client):
    """It arrives whole, and never faster than packet by packet; a body that was merged first as well."""
    script = TimedOrigin()
    table = adding({"k": "v"}, THROTTLE) if held == "held" else THROTTLE
    proxy, origin = sallyport(policy=policy(table)), raw_origin(script)
    client = raw_client(proxy)
    body = b"a=" + b"b" * (packets * PACKET_BYTES - 2)
    build = post if how == "sized" else lambda *arguments: post_chunked(*arguments, size=700)
    data = build(origin, body, FORM)
    begun = time.monotonic()
    assert client.exchange(data).status == 200
    assert script.body == body + (b"&k=v" if held == "held" else b"")
    for moment, count in script.arrivals:
        due = 1 + int((moment - begun) / (DELAY_SECONDS * 0.9))
        framing = (
            64 * due if how == "chunked" else 0
        )  # chunk lines are no part of a packet, or they are: both are sound
        assert (
            count <= due * PACKET_BYTES + framing
        ), f"{count} bytes after {moment - begun:.3f} s, {due} packets due"
    assert script.arrivals[-1][0] - begun >= (packets - 1) * DELAY_SECONDS * 0.9
    goes_on(client, origin)


def test_a_throttled_upload_does_not_hold_up_others(sallyport, raw_origin, raw_client):
    """One worker: while an upload waits for its next packet, requests of others go through."""
    table = 'throttle = { packet = "1KiB", delay = "1m" }'
    proxy, origin = sallyport(proxy=ONE_WORKER, policy=policy(table)), raw_origin(answering(OK))
    slow, other = raw_client(proxy), raw_client(proxy)
    slow.looked_at = False
    slow.send(post(origin, NEVER_WHOLE, FORM))
    origin.wait_for("accepted")
    for _ in range(10):
        goes_on(other, origin)
    assert slow.nothing_came()


def test_a_throttle_for_another_kind_of_link_is_none(sallyport, raw_origin, raw_client):
    """Loopback counts as wired. Were it throttled, this would take hours."""
    table = 'throttle = { packet = "1KiB", delay = "1m", when = ["wwan"] }'
    proxy, origin = sallyport(policy=policy(table)), raw_origin(answering(OK))
    client = raw_client(proxy)
    body = b"x" * 1_000_000
    assert client.exchange(post(origin, body, FORM)).status == 200
    goes_on(client, origin)
    assert origin.requests()[0].body == body


def test_downloads_and_requests_without_a_body_are_not_throttled(sallyport, raw_origin, raw_client):
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(1_000_000)
    table = 'throttle = { packet = "1KiB", delay = "1m" }'
    proxy, origin = sallyport(policy=policy(table)), raw_origin(answering(large))
    client = raw_client(proxy)
    for _ in range(3):
        assert len(client.exchange(request(origin)).body) == 1_000_000


def test_a_client_that_leaves_a_throttled_upload_ends_it(sallyport, raw_origin, raw_client):
    """While the proxy waits for the next packet to be due, not when it is."""

    def reading(connection) -> None:
        head = connection.read_head()
        connection.read_to = head.end
        connection.read_exactly(PACKET_BYTES)
        origin.note("the first packet")
        ended_quietly(connection)

    table = 'throttle = { packet = "1KiB", delay = "1m" }'
    proxy, origin = sallyport(policy=policy(table)), raw_origin(reading)
    client = raw_client(proxy)
    client.looked_at = False
    client.send(post(origin, NEVER_WHOLE, FORM))
    origin.wait_for("the first packet")
    client.reset()
    origin.wait_for("done")


# timeout, cookies


def test_a_body_that_is_held_and_does_not_come_runs_into_the_timeout(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=policy(adding({"a": "b"}, 'timeout = "300ms"')))
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    client.send(post(origin, b"own=1", FORM)[:-1])
    said = client.answer()
    # Silent in the specification: it is the client that is slow (408), and it is the exchange that took too long (504).
    assert said.status in (408, 504)
    check_problem(said, said.status, rule="r")
    assert client.wait_for_end() == "closed"
    assert origin.requests() == []


def test_a_held_body_that_stalls_is_408(sallyport, raw_origin, raw_client):
    stall = '[proxy.timeouts]\nbody_stall = "300ms"\n'
    proxy = sallyport(policy=stall + policy(adding({"a": "b"})))
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    client.send(post(origin, b"own=1", FORM)[:-1])
    check_problem(client.answer(), 408)
    assert client.wait_for_end() == "closed"
    assert origin.requests() == []


def test_cookies_are_removed_beside_a_merged_body(sallyport, raw_origin, raw_client):
    cookies = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nset-cookie: c=d\r\nContent-Length: 2\r\n\r\nok"
    proxy = sallyport(policy=policy(adding({"a": "b"}, "cookies = false")))
    origin, client = raw_origin(answering(cookies)), raw_client(proxy)
    for _ in range(2):
        answer = client.exchange(post(origin, b"own=1", FORM, "Cookie: e=f\r\nCOOKIE: g=h\r\nX-Own: 1\r\n"))
        assert answer.values("Set-Cookie") == [] and answer.body == b"ok"
    for message in origin.requests():
        assert message.values("Cookie") == [] and message.value("X-Own") == b"1"
        assert message.body == b"own=1&a=b"
