"""Every attack on a server of HTTP/2 that has a name, by many connections at once: what the proxy spends on them is bounded,
and another client is served meanwhile. Which frame ends which connection, and why: HTTP2Tests, test_http2_conformance.py.
"""

import os
import threading
import time

import pytest
from hpack.hpack import encode_integer

from http2_world import H2Client
from journal import DEADLINE_SECONDS
from test_http2 import LARGE, h2_origin, inside, ok  # noqa: F401
from tls_world import authority, intercepting, secure_client, secure_proxy, tls_origin, world  # noqa: F401

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
CONNECTIONS = 10
# Far more than any limit allows.
TIMES = 20_000
STREAMS = 128
# `waitingContentOfFew` of the proxy, a head and what the kernel and TLS have on their way, for each stream.
STREAM_BYTES = 160 << 10
SANITIZED = "SALLYPORT_SANITIZED" in os.environ


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes, indexed: bool = False) -> bytes:
    """RFC 7541, 6.2, without Huffman codes."""
    out = b"\x40" if indexed else b"\0"
    for text in (name, value):
        out += bytes(encode_integer(len(text), 7)) + text
    return out


def head(port: int, path: bytes = b"/", method: bytes = b"GET") -> bytes:
    authority = f"a.test:{port}".encode()
    return literal(b":method", method) + literal(b":scheme", b"https") + literal(b":authority", authority) + literal(b":path", path)


def request(port: int, stream: int, path: bytes = b"/", ends: bool = True) -> bytes:
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, head(port, path, b"GET" if ends else b"POST"))


def numbers(count: int = TIMES):
    return range(3, 2 * count, 2)


def rapid_reset(port):
    for stream in numbers():
        yield request(port, stream) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")


def made_you_reset(port):
    for stream in numbers():
        yield request(port, stream, ends=False) + frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff")


def streams_at_once(port):
    for stream in numbers(2000):
        yield request(port, stream, ends=False)


def continuations(port):
    yield frame(HEADERS, END_STREAM, 3, head(port))
    for _ in range(TIMES):
        yield frame(CONTINUATION, 0, 3, literal(b"x", b"y"))


def empty_continuations(port):
    yield frame(HEADERS, END_STREAM, 3, head(port))
    for _ in range(TIMES):
        yield frame(CONTINUATION, 0, 3)


def pings(port):
    for _ in range(TIMES):
        yield frame(PING, 0, 0, bytes(8))


def settings(port):
    for _ in range(TIMES):
        yield frame(SETTINGS, 0, 0, b"\0\x04\0\0\xff\xff")


def priorities(port):
    for stream in numbers():
        yield frame(PRIORITY, 0, stream, b"\0\0\0\0\x10")


def window_updates(port):
    for _ in range(TIMES):
        yield frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")


def empty_data(port):
    yield request(port, 3, ends=False)
    for _ in range(TIMES):
        yield frame(DATA, 0, 3)


def unknown_frames(port):
    for _ in range(TIMES):
        yield frame(0xEE, 0, 0, b"x")


def long_heads(port):
    for stream in numbers(300):
        block = head(port) + literal(b"x-a", b"v" * 100_000)
        yield frame(HEADERS, END_STREAM, stream, block[:16_384])
        pieces = [block[at : at + 16_384] for at in range(16_384, len(block), 16_384)]
        for index, piece in enumerate(pieces):
            yield frame(CONTINUATION, END_HEADERS if index == len(pieces) - 1 else 0, stream, piece)


def bomb(name: bytes):
    """One entry of the table, and then a byte for each time that it is meant: sixty mebibytes in a frame of sixteen kibibytes."""

    def attack(port):
        yield frame(HEADERS, END_STREAM | END_HEADERS, 3, head(port) + literal(name, b"v" * 3900, indexed=True))
        for stream in range(5, 400, 2):
            yield frame(HEADERS, END_STREAM | END_HEADERS, stream, head(port) + b"\xbe" * 16_000)

    return attack


def shut_windows(port):
    yield frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0")
    for stream in numbers(STREAMS):
        yield request(port, stream, b"/large")


def tiny_windows(port):
    yield frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x01")
    for stream in numbers(20):
        yield request(port, stream, b"/large")
    for _ in range(TIMES // 20):
        for stream in numbers(20):
            yield frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\x01")


ATTACKS = {
    "rapid reset (CVE-2023-44487)": rapid_reset,
    "made you reset (CVE-2025-8671)": made_you_reset,
    "more streams than are allowed": streams_at_once,
    "CONTINUATION without end": continuations,
    "empty CONTINUATION (CVE-2024-27316)": empty_continuations,
    "PING": pings,
    "SETTINGS": settings,
    "PRIORITY": priorities,
    "WINDOW_UPDATE": window_updates,
    "empty DATA (CVE-2019-9518)": empty_data,
    "frames of no known type": unknown_frames,
    "heads that are too large": long_heads,
    "a bomb of cookies": bomb(b"cookie"),
    "a bomb of fields": bomb(b"x-a"),
    "windows that stay shut": shut_windows,
    "windows of one byte": tiny_windows,
}


class Attacker(threading.Thread):
    """Sends it all, or as much as is taken, and stays until the end."""

    def __init__(self, client: H2Client, frames, over: threading.Event):
        super().__init__(daemon=True)
        self.client, self.frames, self.over = client, frames, over
        self.sent = 0
        self.done = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            waiting = b""
            for piece in self.frames:
                waiting += piece
                if len(waiting) > 8192:
                    self.client.secure.sendall(waiting)
                    self.sent += len(waiting)
                    waiting = b""
            self.client.secure.sendall(waiting)
            self.sent += len(waiting)
        except OSError:
            pass
        self.done.set()
        self.over.wait(3 * DEADLINE_SECONDS)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_costs_its_client_more_than_the_proxy(attack, intercepting, inside, h2_origin):
    def answer(link, request):
        if request.path == "/large":
            # All of them together are within the window of the connection, which this origin does not wait for.
            return link.respond(request, 200, ("content-length", "2048"), body=LARGE[:2048])
        ok(link, request)

    origin = h2_origin(answer)
    proxy = intercepting()
    place = f"a.test:{origin.port}"
    good = inside(proxy, "a.test", origin.port)
    for _ in range(20):
        assert good.get(place).status == 200
    over = threading.Event()
    clients = [inside(proxy, "a.test", origin.port) for _ in range(CONNECTIONS)]
    memory, cpu = proxy.private_bytes(), proxy.cpu_seconds()
    attackers = [Attacker(client, attack(origin.port), over) for client in clients]
    try:
        served, slowest = 0, 0.0
        while served < 50 or not all(one.done.is_set() for one in attackers):
            begun = time.monotonic()
            assert good.get(place).status == 200
            slowest = max(slowest, time.monotonic() - begun)
            served += 1
        memory, cpu = proxy.private_bytes() - memory, proxy.cpu_seconds() - cpu
    finally:
        over.set()
        for one in attackers:
            one.join(DEADLINE_SECONDS)
    sent = sum(one.sent for one in attackers)
    print(f"\n{attack.__name__}: {sent >> 10} KiB taken, {cpu:.2f} s, {memory >> 10} KiB more, {served} served, slowest {slowest * 1000:.0f} ms")
    # What a connection may hold by the limits, and what the allocator keeps of it.
    assert memory < CONNECTIONS * STREAMS * STREAM_BYTES if attack is shut_windows else memory < 24 << 20
    assert SANITIZED or cpu < 4
    assert SANITIZED or slowest < 5
    assert good.get(place).status == 200
