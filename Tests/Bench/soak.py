#!/usr/bin/env python3
"""A soak: full load over loopback beside clients that abort, origins that misbehave and a reload every second.

    python3 Tests/Bench/soak.py --seconds 600            # ten minutes
    python3 Tests/Bench/soak.py --seconds 20             # a look

What it shows: no request is lost that was not aborted and whose origin behaved; what a misbehaving origin sends is never
passed off as whole; every exchange has exactly one access line; afterwards descriptors and memory are back to where they
were after a warm-up of the same load.

The rule for "lost": a request of a well-behaved kind (GOOD_KINDS) whose answer is not 200 with exactly the expected bytes. Those
go to nginx and to two origins in Python: `good`, and `closing`, which closes kept connections at any moment, also when
a request is on its way, but answers every request on a new connection: the proxy has to send that one again. What goes
to the origin `bad`, or is aborted by the client, cannot be lost, but it has one of the outcomes of BAD, within a time limit.

How it is built: this file is also the program of its children (--role): client processes, each with a thread for each
connection; and origins. A target is /k/KIND/NUMBER/…, so that the access lines, which arrive here by a FIFO, can be counted
and their numbers summed for each kind: a line missing and another written twice would not cancel out.

Exit status: 0 all checks hold, 1 one does not, 2 wrong usage. Needs nginx. Python standard library only.
"""

import argparse
import asyncio
import collections
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import measure
import processes
from processes import HOST, BenchError, Child

SOURCES = pathlib.Path(__file__).resolve().parent
DEFAULT_BINARY = SOURCES.parent.parent / ".build/release/sallyport"
SECONDS_MAX = 24 * 3600
WORKERS = 2
# The warm-up is the same load: pools and buffers grow to what it needs. At least so long that each stall is in it.
WARM_UP_SECONDS_MIN, WARM_UP_SECONDS_MAX, WARM_UP_SHARE = 10, 60, 0.25
RELOAD_SECONDS = 1.0
BROKEN_EVERY = 10
ANSWERED_SECONDS_MAX = 40.0  # one request, of any kind: above it, it hangs
SETTLE_SECONDS_MAX = 30.0
SETTLE_STEP_SECONDS = 2.0
UPSTREAM_IDLE_SECONDS, STALL_SECONDS = 2, 5

# Sockets, and everything else that is not a pipe, must be back to the exact number. Spare pipes for splice(2) are kept, each
# with two descriptors: PipePool.longestSpare for each worker, as many as the largest burst has needed.
SPARE_PIPES_A_WORKER = 32
PIPE_DESCRIPTORS_MAX = 2 * SPARE_PIPES_A_WORKER * WORKERS
# PSS: 1.5 MiB for the allocator's fragments, the log's two batches and the share of libc that others stopped using; and
# for each worker 1 MiB of pooled blocks, eight of a read (Worker.readBytes), for a burst larger than any of the warm-up.
# Less than the 20 MiB that BufferPool may keep for a worker: what it keeps has to follow from what was lent at once, not
# from how long the proxy has run. A leak of 4 bytes a request is above it in ten minutes at 1,700 a second.
PSS_SLACK = 1536 * 1024
POOL_SLACK = WORKERS << 20

SIZES = {"1k": 1 << 10, "64k": 64 << 10, "1m": 1 << 20}
VARIANTS = {"1k": 64, "64k": 16, "1m": 4}
PIPELINED = 16
TUNNEL_HOST, ECHO_HOST, TUNNEL_ABORT_HOST = "127.0.0.2", "127.0.0.3", "127.0.0.4"
PROBLEM_SAMPLES, PROBLEM_CHARACTERS = 12, 600  # of what went wrong, so many are shown


def body(name: str, variant: int) -> bytes:
    """The content of a file, the same in every process; no two begin alike, and none has a '<', which SSI would read."""
    size = SIZES[name]
    return random.Random(f"{name}/{variant}").randbytes(size // 2).hex().encode()


BODIES: dict[str, bytes] = {}


def load_bodies():
    for name, variants in VARIANTS.items():
        for variant in range(variants):
            BODIES[f"{name}-{variant}"] = body(name, variant)


def any_file(name: str) -> str:
    return f"{name}-{random.randrange(VARIANTS[name])}"


# The origins in Python ------------------------------------------------------------------------------------------------


class Good(asyncio.Protocol):
    """Answers GET with a file, POST and PUT with their body. Never closes, but where the target says that it ends so."""

    def connection_made(self, transport):
        self.transport = transport
        self.input = bytearray()
        self.served = 0
        self.head = None
        self.gone = False

    def connection_lost(self, _error):
        self.gone = True

    def eof_received(self):
        return False

    def data_received(self, data):
        self.input += data
        while not self.gone and self.step():
            pass

    def step(self) -> bool:
        """One request, if the whole of it is here."""
        if self.head is None:
            end = self.input.find(b"\r\n\r\n")
            if end < 0:
                return False
            lines = bytes(self.input[:end]).decode("latin-1").split("\r\n")
            del self.input[:end + 4]
            self.method, self.target, _ = lines[0].split(" ")
            self.head = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            self.received = bytearray()
        if "transfer-encoding" in self.head:
            if not self.take_chunks():
                return False
        else:
            length = int(self.head.get("content-length", 0))
            if len(self.input) < length:
                return False
            self.received = self.input[:length]
            del self.input[:length]
        head, self.head = self.head, None
        self.served += 1
        self.respond(head)
        return True

    def take_chunks(self) -> bool:
        while True:
            end = self.input.find(b"\r\n")
            if end < 0:
                return False
            size = int(self.input[:end], 16)
            if len(self.input) < end + 2 + size + 2:
                return False
            self.received += self.input[end + 2:end + 2 + size]
            del self.input[:end + 2 + size + 2]
            if size == 0:
                return True

    def respond(self, head):
        _, _, kind, _, what = self.target.split("/", 4)
        content = bytes(self.received) if self.method in ("POST", "PUT") else BODIES[what.partition("?")[0]]
        mark = f"X-Soak: {head.get('x-soak', 'none')}\r\n".encode()
        if kind == "eof":
            self.transport.write(b"HTTP/1.1 200 OK\r\n" + mark + b"\r\n" + content)
            self.close()
        elif kind in ("slow", "abort-wait-fin", "abort-wait-rst"):
            asyncio.get_running_loop().call_later(random.uniform(0.0, 0.1), self.send, mark, content, False)
        else:
            self.send(mark, content, kind.endswith("-odd"))

    def send(self, mark, content, chunked):
        if self.gone:
            return
        if not chunked:
            self.transport.write(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n" % (mark, len(content)) + content)
            return
        parts = [b"HTTP/1.1 200 OK\r\n" + mark + b"Trailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n"]
        at = 0
        while at < len(content):
            size = min(random.choice((1, 17, 1000, 4096, 70_000, 300_000)), len(content) - at)
            parts.append(b"%x\r\n%b\r\n" % (size, content[at:at + size]))
            at += size
        parts.append(b"0\r\nX-End: yes\r\n\r\n")
        if random.random() < 0.2 and len(content) <= SIZES["1k"]:
            for part in parts:  # in segments of their own
                self.transport.write(part)
        else:
            self.transport.write(b"".join(parts))

    def close(self, reset=False):
        if self.gone:
            return
        self.gone = True
        if reset:
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()


class Closing(Good):
    """Closes kept connections when it likes, unannounced: behind a response, some time later, or with a request in hand.

    The first request of a connection is always answered, so that one that is sent again on a new one is. A reset is never sent
    right behind a response, of which it could destroy what the proxy has not read yet."""

    def respond(self, head):
        if self.served > 1 and random.random() < 0.1:
            return self.close(reset=random.random() < 0.5)
        super().respond(head)
        roll = random.random()
        if roll < 0.1:
            self.close()
        elif roll < 0.3:
            asyncio.get_running_loop().call_later(random.uniform(0.0, 0.02), self.close)


MALFORMED = {
    "bad-status": b"HTTP/1.1 2x0 OK\r\nContent-Length: 2\r\n\r\nok",
    "bad-version": b"HTTQ/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
    "both-framings": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "nul": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
    # In other fields it is mended.
    "space-colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    "bare-cr": b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 2\r\n\r\nok",
    "noise": bytes(range(256)) * 4,
    "long-head": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\nContent-Length: 2\r\n\r\nok",
}
CUT, REFUSED, TIMED_OUT, WHOLE = "cut", "502", "504", "whole"
# What a client may see for each misbehaviour: never a whole response that is not the origin's.
BAD: dict[str, set[str]] = {
    "rst-first": {REFUSED}, "fin-first": {REFUSED}, "rst-head": {REFUSED}, "fin-head": {REFUSED},
    # A reset may overtake the head, which then was never read.
    "rst-body": {CUT, REFUSED}, "fin-body": {CUT}, "fin-chunk": {CUT, REFUSED}, "bad-chunk": {CUT, REFUSED},
    "stall-first": {TIMED_OUT}, "stall-head": {TIMED_OUT}, "stall-body": {CUT}, "stall-chunk": {CUT, TIMED_OUT},
    # The response is whole and what follows it is not a part of it.
    "extra": {WHOLE}, "whole": {WHOLE}, "whole-close": {WHOLE},
    **dict.fromkeys(MALFORMED, {REFUSED}),
    # Nobody listens there; the origin resets each connection that it accepts.
    "no-origin": {REFUSED},
}
STALLS = [name for name in BAD if name.startswith("stall")]


class Bad(Good):
    """Does what the target says, of BAD."""

    def respond(self, _head):
        what = self.target.split("/", 4)[4]
        content = BODIES["64k-0"] if random.random() < 0.5 else BODIES["1m-0"]
        some = random.randrange(1, len(content))
        sized = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        part = random.randrange(1, len(sized) - 4)
        ok = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODIES["1k-0"]), BODIES["1k-0"])
        first = {
            "rst-first": b"", "fin-first": b"", "stall-first": b"", "rst-head": sized[:part], "fin-head": sized[:part],
            "stall-head": sized[:part], "rst-body": sized + content[:some], "fin-body": sized + content[:some],
            "stall-body": sized + content[:some], "fin-chunk": chunked + b"%x\r\n%b" % (len(content), content[:some]),
            "stall-chunk": chunked + b"%x\r\n%b" % (len(content), content[:some]),
            "bad-chunk": chunked + b"400\r\n%b\r\n0x400\r\n%b\r\n0\r\n\r\n" % (BODIES["1k-0"], BODIES["1k-0"]),
            "extra": ok + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnever", "whole": ok, "whole-close": ok, **MALFORMED,
        }[what]
        if first:
            self.transport.write(first)
        later = asyncio.get_running_loop().call_later
        if what.startswith("rst"):
            later(random.uniform(0.0, 0.02), self.close, True)
        elif what.startswith(("fin", "whole-close")):
            self.close()
        elif what.startswith("stall"):
            later(4 * STALL_SECONDS, self.close)


class Echo(asyncio.Protocol):
    """Sends everything back, and its own end when the other side has ended."""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)
        if self.transport.get_write_buffer_size() > 1 << 20:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(0.005, self.resume)

    def resume(self):
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() > 1 << 20:
            asyncio.get_running_loop().call_later(0.005, self.resume)
        else:
            self.transport.resume_reading()

    def eof_received(self):
        self.transport.close()  # once everything has left
        return True


class Resetting(Good):
    def connection_made(self, transport):
        super().connection_made(transport)
        self.close(reset=True)


async def serve(listeners: list[tuple[str, str, int]]):
    loop = asyncio.get_running_loop()
    for name, host, port in listeners:
        kind = {"good": Good, "closing": Closing, "bad": Bad, "echo": Echo, "resetting": Resetting}[name]
        await loop.create_server(kind, host, port, backlog=1024)
    print("ready", flush=True)
    await asyncio.Event().wait()


# The clients ----------------------------------------------------------------------------------------------------------


class Lost(Exception):
    """An answer that is not what it must be."""


class Cut(Lost):
    """A connection that ended before the answer did."""


class Peer:
    """A client's connection to the proxy."""

    def __init__(self, port: int):
        self.input = b""
        self.socket = socket.create_connection((HOST, port), timeout=ANSWERED_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        self.socket.sendall(data)

    def more(self, size=1 << 18):
        data = self.socket.recv(size)
        if not data:
            raise Cut("the connection was closed")
        return data

    def read_head(self) -> tuple[int, bytes]:
        while (end := self.input.find(b"\r\n\r\n")) < 0:
            self.input += self.more()
        head, self.input = self.input[:end + 2], self.input[end + 4:]
        if not head.startswith(b"HTTP/1.1 "):
            raise Lost(f"not a response: {head[:80]!r}")
        return int(head[9:12]), head

    def read_sized(self, size: int):
        have = self.input
        if len(have) >= size:
            self.input = have[size:]
            return have[:size]
        whole = bytearray(size)
        whole[:len(have)] = have
        self.input = b""
        at, view = len(have), memoryview(whole)
        while at < size:
            count = self.socket.recv_into(view[at:])
            if count == 0:
                raise Cut(f"closed after {at} of {size} bytes of a body")
            at += count
        return whole

    def read_line(self) -> bytes:
        while (end := self.input.find(b"\r\n")) < 0:
            self.input += self.more()
        line, self.input = self.input[:end], self.input[end + 2:]
        return line

    def read_chunks(self) -> bytes:
        parts = []
        while size := int(self.read_line(), 16):
            parts.append(bytes(self.read_sized(size)))
            if self.read_line():
                raise Lost("a chunk does not end where it should")
        while self.read_line():
            pass
        return b"".join(parts)

    def read_rest(self) -> bytes:
        parts = [self.input]
        while data := self.socket.recv(1 << 18):
            parts.append(data)
        self.input = b""
        return b"".join(parts)

    def read_answer(self) -> tuple[int, bytes, object, bool]:
        """Status, head, body, and whether another request may follow."""
        status, head = self.read_head()
        lower = head.lower()
        keeps = b"\r\nconnection: close\r\n" not in lower
        if found := re.search(rb"\r\ncontent-length: (\d+)\r\n", lower):
            return status, head, self.read_sized(int(found[1])), keeps
        if b"\r\ntransfer-encoding: chunked\r\n" in lower:
            return status, head, self.read_chunks(), keeps
        if keeps:
            raise Lost(f"a response whose end cannot be known: {head!r}")
        return status, head, self.read_rest(), False

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Client:
    """What a thread of load shares with the others of its process: ports, numbers, counts."""

    def __init__(self, options: dict):
        self.ports = options["ports"]
        self.proxy = self.ports["proxy"]
        self.deadline = time.monotonic() + options["seconds"]
        self.numbers = itertools.count(options["first"])
        self.lock = threading.Lock()
        # For each kind: what was asked, what came of it, the sum of the numbers.
        self.asked, self.sums, self.outcomes = collections.Counter(), collections.Counter(), collections.Counter()
        self.bytes = 0
        self.problems: list[str] = []

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.deadline

    def target(self, kind: str, origin: str, what: str, host: str = HOST) -> str:
        """A target that was not used before, counted as asked."""
        with self.lock:
            number = next(self.numbers)
            self.asked[kind] += 1
            self.sums[kind] += number
        return f"http://{host}:{self.ports[origin]}/k/{kind}/{number}/{what}"

    def count(self, kind: str, outcome: str, size: int = 0):
        with self.lock:
            self.outcomes[f"{kind} {outcome}"] += 1
            self.bytes += size

    def problem(self, kind: str, text: str):
        with self.lock:
            if len(self.problems) < PROBLEM_SAMPLES:
                self.problems.append(f"{time.strftime('%H:%M:%S')} {kind}: {text[:PROBLEM_CHARACTERS]}")

    def lost(self, kind: str, text: str):
        self.count(kind, "lost")
        self.problem(kind, text)


def get(target: str, method="GET", fields="") -> bytes:
    authority = target.split("/", 3)[2]
    return f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{fields}\r\n".encode()


def chunks(content: bytes) -> bytes:
    parts, at = [], 0
    while at < len(content):
        size = min(random.choice((1, 100, 5_000, 65_536, 200_000)), len(content) - at)
        parts.append(b"%x\r\n%b\r\n" % (size, content[at:at + size]))
        at += size
    return b"".join(parts) + b"0\r\n\r\n"


def verify(answer, expected: bytes):
    status, head, content, _ = answer
    if status != 200:
        raise Lost(f"{head[:400]!r} {bytes(content[:300])!r}")
    if content != expected:
        at = next((i for i, (a, b) in enumerate(zip(content, expected)) if a != b), min(len(content), len(expected)))
        raise Lost(f"{len(content)} bytes, expected {len(expected)}; they differ at {at}: {bytes(content[at:at + 40])!r}, "
                   f"expected {expected[at:at + 40]!r}; {head[:400]!r}")


def keeping(client: Client, kind: str, exchange, pipelined=1, fresh=False):
    """Runs exchanges, each on the connection of the one before it as long as there is one; any failure is a loss."""
    peer = None
    while not client.over:
        left = pipelined
        target = "connecting"
        try:
            if peer is None:
                peer = Peer(client.proxy)
            keeps = True
            for target, size, keeps in exchange(peer):
                client.count(kind, "whole", size)
                left -= 1
            if peer.input and keeps:
                raise Lost(f"bytes behind the answer: {peer.input[:200]!r}")
            if fresh or not keeps:
                peer.close()
                peer = None
        except (Lost, OSError, ValueError) as error:
            for _ in range(max(1, left)):
                client.lost(kind, f"{target} {type(error).__name__} {error}")
            if peer:
                peer.close()
            peer = None
    if peer:
        peer.close()


def getting(name: str, kind: str, origin="nginx", host=HOST, fresh=False):
    def run(client: Client):
        def exchange(peer):
            what = any_file(name)
            target = client.target(kind, origin, what, host)
            peer.send(get(target))
            answer = peer.read_answer()
            try:
                verify(answer, BODIES[what])
            except Lost as error:
                raise Lost(f"{target}: {error}") from None
            yield target, SIZES[name], answer[3]

        keeping(client, kind, exchange, fresh=fresh)

    return run


def pipelining(client: Client):
    def exchange(peer):
        files = [any_file("1k") for _ in range(PIPELINED)]
        targets = [client.target("pipelined", "nginx", what) for what in files]
        peer.send(b"".join(map(get, targets)))
        for target, what in zip(targets, files):
            answer = peer.read_answer()
            verify(answer, BODIES[what])
            yield target, SIZES["1k"], answer[3]

    keeping(client, "pipelined", exchange, PIPELINED)


def posting(client: Client, kind: str, origin: str, method: str, sizes, chunked: bool):
    def exchange(peer):
        content = BODIES[any_file(random.choice(sizes))]
        content = content[random.randrange(100):]
        target = client.target(kind, origin, "echo")
        if chunked:
            peer.send(get(target, method, "Transfer-Encoding: chunked\r\n") + chunks(content))
        else:
            peer.send(get(target, method, f"Content-Length: {len(content)}\r\n") + content)
        answer = peer.read_answer()
        verify(answer, content)
        # Every request has gone by exactly one policy, whole.
        if not re.search(rb"\r\nx-soak: [ab]\r\n", answer[1].lower()):
            raise Lost(f"the origin did not see the field of a policy: {answer[1]!r}")
        yield target, 2 * len(content), answer[3]

    keeping(client, kind, exchange)


def post(kind, method="POST", sizes=("1k", "1k", "64k", "64k", "1m"), chunked=False, origin="good"):
    return lambda client: posting(client, kind, origin, method, sizes, chunked)


def open_tunnel(peer: Peer, host: str, port: int):
    peer.send(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    status, head = peer.read_head()
    if status != 200:
        raise Lost(f"CONNECT: {head!r}")


def tunnelling(client: Client):
    """HTTP inside a tunnel; nginx serves these under the same paths, which the proxy does not see."""
    while not client.over:
        peer = None
        with client.lock:
            client.asked["tunnel"] += 1
        try:
            peer = Peer(client.proxy)
            open_tunnel(peer, TUNNEL_HOST, client.ports["nginx"])
            for _ in range(random.randrange(1, 60)):
                what = any_file(random.choice(("1k", "1k", "1k", "64k", "1m")))
                peer.send(f"GET /k/inside/0/{what} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                verify(peer.read_answer(), BODIES[what])
                client.count("tunnel-inside", "whole", len(BODIES[what]))
            client.count("tunnel", "whole")
        except (Lost, OSError, ValueError) as error:
            client.lost("tunnel", f"{type(error).__name__} {error}")
        if peer:
            peer.close()


def echoing(client: Client):
    """Bytes both ways at once through a tunnel, then the end of one direction, then the rest of the other."""
    while not client.over:
        peer = None
        with client.lock:
            client.asked["tunnel-echo"] += 1
        try:
            peer = Peer(client.proxy)
            open_tunnel(peer, ECHO_HOST, client.ports["echo"])
            content = b"".join(BODIES[any_file(random.choice(("1k", "64k", "1m")))] for _ in range(random.randrange(1, 5)))
            failure: list[OSError] = []

            def sending(peer=peer, content=content, failure=failure):
                try:
                    peer.send(content)
                    peer.socket.shutdown(socket.SHUT_WR)
                except OSError as error:
                    failure.append(error)

            sender = threading.Thread(target=sending)
            sender.start()
            try:
                back = peer.read_rest()
            finally:
                sender.join(ANSWERED_SECONDS_MAX)
            if failure or back != content:
                raise Lost(f"{len(back)} bytes came back of {len(content)}; {failure}")
            client.count("tunnel-echo", "whole", 2 * len(content))
        except (Lost, OSError, ValueError) as error:
            client.lost("tunnel-echo", f"{type(error).__name__} {error}")
        if peer:
            peer.close()


def aborting(client: Client):
    """Leaves at a random point of a random exchange. Where it can know that the proxy has begun it, the kind is one of
    KNOWN_ABORTS, and there must be a line; else there may be."""
    while not client.over:
        peer = None
        reset = random.random() < 0.5
        how = "rst" if reset else "fin"
        where = random.choice(("head", "body", "wait", "response", "response", "chunked", "connect", "tunnel", "nothing"))
        kind = f"abort-{where}-{how}"
        try:
            peer = Peer(client.proxy)
            if where == "nothing":
                with client.lock:
                    client.asked[kind] += 1
            elif where == "head":
                with client.lock:
                    client.asked[kind] += 1
                head = get(f"http://{HOST}:{client.ports['good']}/k/{kind}/0/1k-0", fields="X: " + "a" * 3000 + "\r\n")
                peer.send(head[:random.randrange(1, len(head))])
            elif where == "body":
                content = BODIES[any_file(random.choice(("64k", "1m")))]
                target = client.target(kind, "good", "echo")
                if random.random() < 0.5:
                    whole = chunks(content)
                    head = get(target, "POST", "Transfer-Encoding: chunked\r\n")
                else:
                    whole = content
                    head = get(target, "POST", f"Content-Length: {len(content)}\r\n")
                peer.send(head + whole[:random.randrange(0, len(whole) - 1)])
            elif where == "wait":
                peer.send(get(client.target(kind, "good", "64k-0")))
            elif where in ("response", "chunked"):
                what = any_file(random.choice(("1k", "64k", "1m", "1m")))
                peer.send(get(client.target(kind, "nginx", what)))
                left = random.randrange(1, SIZES[what.partition("-")[0]])
                while left > 0:
                    left -= len(peer.more(min(left, 1 << 16)))
            else:
                with client.lock:
                    client.asked[kind] += 1
                origin = random.choice(("nginx", "echo"))
                authority = f"{TUNNEL_ABORT_HOST}:{client.ports[origin]}"
                peer.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
                if where == "tunnel":
                    status, head = peer.read_head()
                    if status != 200:
                        raise Lost(f"CONNECT: {head!r}")
                    if origin == "nginx":
                        peer.send(f"GET /k/inside/0/{any_file('1m')} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    else:
                        peer.socket.settimeout(0.05)  # nobody reads what comes back: it fills up
                        try:
                            peer.send(BODIES["1m-0"])
                        except TimeoutError:
                            pass
                        peer.socket.settimeout(ANSWERED_SECONDS_MAX)
                    for _ in range(random.randrange(0, 8)):
                        peer.more(1 << 16)
            if random.random() < 0.5:
                time.sleep(random.uniform(0.0, 0.02))
            client.count(kind, "aborted")
        except (Lost, OSError) as error:
            # It did nothing wrong until it left, so that being refused before is a fault, of the proxy or of this file.
            client.lost(kind, f"before it left: {type(error).__name__} {error}")
        if peer:
            peer.close(reset)
        time.sleep(random.uniform(0.0, 0.01))


def suffering(choices):
    """Asks an origin that misbehaves, and checks that the outcome is one that may be."""

    def run(client: Client):
        peer = None
        while not client.over:
            what = random.choice(choices)
            kind = f"bad-{what}"
            origin = "bad" if what != "no-origin" else random.choice(("resetting", "nobody"))
            answer = None
            try:
                if peer is None:
                    peer = Peer(client.proxy)
                target = client.target(kind, origin, what)
                peer.send(get(target))
                answer = peer.read_answer()
                outcome = {200: WHOLE, 502: REFUSED, 504: TIMED_OUT}.get(answer[0], str(answer[0]))
                if outcome == WHOLE and (what not in ("extra", "whole", "whole-close") or answer[2] != BODIES["1k-0"]):
                    outcome = "forged"
            except (Cut, ConnectionResetError):
                outcome = CUT
            except (Lost, OSError, ValueError) as error:
                outcome = f"{type(error).__name__} {error}"
            if answer is None or not answer[3]:
                if peer:
                    peer.close()
                peer = None
            if outcome in BAD[what]:
                client.count(kind, outcome)
            else:
                client.count(kind, "wrong")
                client.problem(kind, f"{outcome}, expected {BAD[what]}: {answer and (answer[1], bytes(answer[2][:200]))}")
        if peer:
            peer.close()

    return run


# The threads of one client process, each a connection or a run of them: (how many, kind, what it does).
QUICK_BAD = [name for name in BAD if name not in STALLS]
THREADS = [
    (4, getting("1k", "1k")), (2, getting("64k", "64k")), (1, getting("1m", "1m")), (2, pipelining),
    (1, getting("1k", "chunked-1k")), (1, getting("64k", "chunked-64k")), (1, getting("1m", "chunked-1m")),
    (1, getting("1k", "odd-odd", "good")), (1, getting("64k", "eof", "good")), (1, getting("1k", "slow", "good")),
    (1, getting("1k", "name", host="localhost")), (1, getting("1k", "fresh", fresh=True)),
    (1, post("post")), (1, post("post-chunked", chunked=True)), (1, post("post-odd", chunked=True)),
    (2, getting("1k", "closing", "closing")), (1, getting("64k", "closing-64k", "closing")),
    (1, post("closing-put", "PUT", ("1k",), origin="closing")),
    (1, tunnelling), (1, echoing), (4, aborting), (2, suffering(QUICK_BAD)), (2, suffering(STALLS)),
]
GOOD_KINDS = {
    "1k", "64k", "1m", "pipelined", "chunked-1k", "chunked-64k", "chunked-1m", "odd-odd", "eof", "slow", "name", "fresh",
    "post", "post-chunked", "post-odd", "closing", "closing-64k", "closing-put",
}
RETRIED_KINDS = {"closing", "closing-64k", "closing-put"}
# A client that has sent its whole head and closes by FIN, or has seen a part of the answer, knows that there is an exchange.
KNOWN_ABORTS = {
    "abort-body-fin", "abort-wait-fin", "abort-response-fin", "abort-response-rst", "abort-chunked-fin", "abort-chunked-rst",
}


def run_client(options: dict):
    load_bodies()
    client = Client(options)

    def guarded(run):
        try:
            run(client)
        except Exception:  # a thread that ends in silence would be load that is missing
            client.lost("harness", traceback.format_exc())

    threads = [threading.Thread(target=guarded, args=(run,), daemon=True) for count, run in THREADS for _ in range(count)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, client.deadline + 2 * ANSWERED_SECONDS_MAX - time.monotonic()))
    hanging = sum(thread.is_alive() for thread in threads)
    with client.lock:
        print(json.dumps({"asked": client.asked, "sums": client.sums, "outcomes": client.outcomes, "bytes": client.bytes,
                          "problems": client.problems, "hanging": hanging, "seconds": time.monotonic() - began}), flush=True)
    os._exit(0)


# The log --------------------------------------------------------------------------------------------------------------

LINE = re.compile(
    rb'"method":("[^"]*"),"target":(?:"http://[^/"]+/k/([\w-]+)/(\d+)/[^"]*"|"([^"]*)")'
    rb',"status":(\d+),.*?"outcome":"([^"]*)",.*?"retried":(true|false),')


class Log:
    """Counts the access lines that come by a FIFO, and keeps the others."""

    def __init__(self, path: pathlib.Path):
        os.mkfifo(path)
        self.file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(self.file, True)
        self.events: collections.deque[str] = collections.deque(maxlen=1000)
        self.reloads, self.refusals, self.dropped, self.unread = 0, 0, 0, 0
        self.unexpected: collections.deque[str] = collections.deque(maxlen=PROBLEM_SAMPLES)
        self.lines = 0
        self.clear()
        # Our own writing end: the FIFO does not end before we say so.
        self.keeper = os.open(path, os.O_WRONLY)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def clear(self):
        self.counts, self.sums = collections.Counter(), collections.Counter()
        self.retried, self.failed = collections.Counter(), collections.Counter()

    def run(self):
        left = b""
        while data := os.read(self.file, 1 << 20):
            *lines, left = (left + data).split(b"\n")
            for line in lines:
                self.take(line)

    def take(self, line: bytes):
        found = LINE.search(line)
        if found is None and b'"total_ms"' in line and b'"target"' not in line:
            # What could not be read is left out.
            self.lines += 1
            self.counts["null"] += 1
            return
        if found is None:
            if b'"target"' in line:
                self.unread += 1
            text = line.decode(errors="replace")
            self.events.append(text)
            if '"reload: ' in text and "rules" in text:
                self.reloads += 1
            elif "nothing has changed" in text:
                self.refusals += 1
            elif "were dropped" in text:
                self.dropped += 1
            return
        _, kind, number, target, status, outcome, retried = found.groups()
        self.lines += 1
        if kind:
            name = kind.decode()
            self.sums[name] += int(number)
        else:
            name = target.decode()
        self.counts[name] += 1
        if retried == b"true":
            self.retried[name] += 1
        if name in GOOD_KINDS and (status != b"200" or outcome != b"done"):
            self.failed[name] += 1
            self.unexpected.append(line.decode(errors="replace"))


# The soak -------------------------------------------------------------------------------------------------------------


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, holds: bool, text: str):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
        print(f"{'PASS' if holds else 'FAIL'}  {text}", flush=True)


def descriptors(pid: int) -> collections.Counter:
    """Open descriptors by what they are: socket, pipe, the others by name."""
    kinds = collections.Counter()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            kinds[os.readlink(f"/proc/{pid}/fd/{entry}").partition(":[")[0]] += 1
        except FileNotFoundError:
            continue
    return kinds


def anonymous(pid: int) -> int:
    """Bytes of memory that are of no file: what a leak would grow, whoever else maps our libraries."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) * 1024
    return 0


class Soak:
    def __init__(self, options, directory: pathlib.Path):
        self.options = options
        self.directory = directory
        self.checks = Checks()
        # The file that is run may be built again while it is.
        self.binary = directory / "sallyport"
        shutil.copy2(options.binary, self.binary)
        self.ports = {name: processes.free_port()
                      for name in ("proxy", "nginx", "good", "closing", "bad", "echo", "resetting", "nobody")}
        if len(set(self.ports.values())) != len(self.ports):
            raise BenchError("two ports are the same; try again")
        self.first = 1
        self.peak_pss = self.peak_descriptors = 0
        self.samples: list[int] = []
        self.reloads = self.refusals = self.unanswered = 0

    # Starting

    def start_nginx(self):
        root = self.directory / "files"
        root.mkdir()
        for name, content in BODIES.items():
            (root / name).write_bytes(content)
        program = processes.find("nginx")
        if program is None:
            raise BenchError("nginx is not installed; on Debian: apt install nginx-light")
        user = "user root;" if os.geteuid() == 0 else ""
        configuration = self.directory / "nginx.conf"
        listen = "".join(f"listen {host}:{self.ports['nginx']} backlog=2048;\n"
                         for host in (HOST, TUNNEL_HOST, TUNNEL_ABORT_HOST))
        configuration.write_text(f"""
            daemon off; worker_processes 1; {user} pid {self.directory}/pid; error_log stderr error;
            events {{ worker_connections 8192; }}
            http {{
              access_log off; default_type application/octet-stream; open_file_cache max=200;
              keepalive_timeout {2 * SECONDS_MAX}s; keepalive_requests 1000000000; keepalive_time {2 * SECONDS_MAX}s;
              sendfile on; tcp_nopush on; tcp_nodelay on;
              client_body_temp_path {self.directory}/t1; proxy_temp_path {self.directory}/t2;
              fastcgi_temp_path {self.directory}/t3; uwsgi_temp_path {self.directory}/t4; scgi_temp_path {self.directory}/t5;
              server {{
                {listen} root {root};
                location ~ ^/k/(?:chunked-|abort-chunked)[^/]*/[^/]+/(.+)$ {{ ssi on; ssi_types *; try_files /$1 =404; }}
                location ~ ^/k/[^/]+/[^/]+/(.+)$ {{ try_files /$1 =404; }}
              }}
            }}""")
        Child("nginx", [program, "-c", str(configuration), "-e", "stderr"], cpu=None,
              output=self.directory / "nginx.log").wait_for_port(self.ports["nginx"])

    def start_origins(self):
        good = [("good", HOST, self.ports["good"]), ("closing", HOST, self.ports["closing"])]
        other = [("bad", HOST, self.ports["bad"]), ("echo", ECHO_HOST, self.ports["echo"]),
                 ("echo", TUNNEL_ABORT_HOST, self.ports["echo"]), ("resetting", HOST, self.ports["resetting"])]
        self.origins = []
        for name, listeners in (("good", good), ("bad", other)):
            child = self.python(f"{name}-origins", "origins", listeners)
            child.wait_for_line()
            self.origins.append(child)

    def python(self, name: str, role: str, argument) -> Child:
        return Child(name, [sys.executable, __file__, "--role", role, json.dumps(argument)], cpu=None,
                     output=self.directory / f"{name}.log", read_stdout=True)

    def policy(self, which: str) -> str:
        # Two policies of different sizes: what a reload allocates has to be given back.
        hosts = [] if which == "a" else [f"host-{number}.soak.example" for number in range(500)]
        rules = "".join(f'[[rule]]\nname = "rule-{number}"\nhosts = ["{host}"]\n' for number, host in enumerate(hosts))
        admin = f'[admin]\nsocket = "{self.directory}/admin.sock"\n'
        return f"""[proxy]
listen = ["{HOST}:{self.ports['proxy']}"]
workers = {WORKERS}
[proxy.timeouts]
upstream_idle = "{UPSTREAM_IDLE_SECONDS}s"
response_header = "{STALL_SECONDS}s"
body_stall = "{STALL_SECONDS}s"
[log]
format = "json"
access = true
{admin}{rules}# No rule speaks of requests to these hosts: in the clear they may pass through a tunnel.
[[rule]]
name = "tunnels"
hosts = ["{TUNNEL_HOST}", "{ECHO_HOST}", "{TUNNEL_ABORT_HOST}"]
[[rule]]
name = "loopback"
hosts = ["{HOST}"]
[rule.request]
headers.set = {{ X-Soak = "{which}" }}
"""

    def write_configuration(self, text: str):
        # As an editor or a package does it: there is no moment at which half of it is there.
        new = self.configuration.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self.configuration)

    def start_sallyport(self):
        self.configuration = self.directory / "sallyport.toml"
        self.write_configuration(self.policy("a"))
        fifo = self.directory / "log"
        self.log = Log(fifo)
        self.proxy = Child("sallyport", [str(self.binary), "run", "--config", str(self.configuration)], cpu=None,
                           output=fifo, read_stdout=True)
        deadline = time.monotonic() + processes.READY_SECONDS_MAX
        line = b""
        os.set_blocking(self.proxy.process.stdout.fileno(), False)
        while not line.endswith(b"\n"):
            line += self.proxy.process.stdout.read() or b""
            if self.proxy.process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"sallyport is not ready: {line!r} {list(self.log.events)}")
            time.sleep(0.02)

    # The load

    @property
    def alive(self) -> bool:
        return self.proxy.process.poll() is None

    def load(self, seconds: float) -> dict:
        """Runs the clients and the reloads beside them; what the clients counted, summed up."""
        clients = []
        for number in range(self.options.clients):
            clients.append(self.python(f"client-{self.first}-{number}", "client",
                                       {"ports": self.ports, "seconds": seconds, "first": self.first + number * 10**9}))
        self.first += self.options.clients * 10**9
        deadline = time.monotonic() + seconds
        next_reload = time.monotonic()
        for turn in itertools.count(1):
            if time.monotonic() >= deadline or not self.alive:
                break
            self.reload(turn)
            try:
                pss = measure.memory(self.proxy.pid).proportional
                self.samples.append(pss)
                self.peak_pss = max(self.peak_pss, pss)
                self.peak_descriptors = max(self.peak_descriptors, descriptors(self.proxy.pid).total())
            except (OSError, ValueError):
                break
            next_reload = max(next_reload + RELOAD_SECONDS, time.monotonic())
            time.sleep(max(0.0, next_reload - time.monotonic()))
        total = collections.defaultdict(collections.Counter)
        result = {"bytes": 0, "problems": [], "hanging": 0, "seconds": seconds}
        left = max(0.0, deadline - time.monotonic()) + 2 * ANSWERED_SECONDS_MAX + 10
        for child in clients:
            try:
                stdout, _ = child.process.communicate(timeout=left if self.alive else 10)
                counted = json.loads(stdout)
            except (subprocess.TimeoutExpired, ValueError) as error:
                result["problems"].append(f"{child.name}: {error} {child.output_tail()}")
                result["hanging"] += 1
                continue
            finally:
                child.stop()
            for key in ("asked", "sums", "outcomes"):
                total[key].update(counted[key])
            for key in ("bytes", "hanging"):
                result[key] += counted[key]
            result["problems"] += counted["problems"]
        return {**result, **{key: total[key] for key in ("asked", "sums", "outcomes")}}

    def reload(self, turn: int):
        """Changes the file, sends SIGHUP, waits until the log says what came of it."""
        broken = turn % BROKEN_EVERY == 0
        text = self.policy("ab"[turn % 2])
        if broken:
            text = text.replace("[log]", "[lgo]") if turn % (2 * BROKEN_EVERY) else text[:-5]
        self.write_configuration(text)
        before = (self.log.reloads, self.log.refusals)
        os.kill(self.proxy.pid, signal.SIGHUP)
        deadline = time.monotonic() + 10
        while (self.log.reloads, self.log.refusals) == before:
            if time.monotonic() > deadline or not self.alive:
                self.unanswered += 1
                return
            time.sleep(0.01)
        expected = (before[0], before[1] + 1) if broken else (before[0] + 1, before[1])
        if (self.log.reloads, self.log.refusals) != expected:
            self.unanswered += 1
        self.reloads += not broken
        self.refusals += broken

    def settle(self) -> tuple[collections.Counter, int, int]:
        """Waits until all that is kept for a while has been let go: descriptors and PSS do not change any more."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        time.sleep(UPSTREAM_IDLE_SECONDS + STALL_SECONDS + 1)
        before = None
        while self.alive:
            now = descriptors(self.proxy.pid)
            if now == before or time.monotonic() > deadline:
                break
            before = now
            time.sleep(SETTLE_STEP_SECONDS)
        if not self.alive:
            return collections.Counter(), 0, 0
        return descriptors(self.proxy.pid), measure.memory(self.proxy.pid).proportional, anonymous(self.proxy.pid)

    # The run

    def run(self) -> int:
        options, checks = self.options, self.checks
        load_bodies()
        self.start_nginx()
        self.start_origins()
        self.start_sallyport()
        warm_up = min(WARM_UP_SECONDS_MAX, max(WARM_UP_SECONDS_MIN, options.seconds * WARM_UP_SHARE))
        say(f"sallyport {self.proxy.pid}, ports {self.ports}; warm-up of {warm_up:.0f} s")
        first = self.load(warm_up)
        before = self.settle()
        self.report_load("warm-up", first, warm_up)
        self.verify_load(first, "in the warm-up ")
        say(f"soak of {options.seconds} s; before it: {dict(before[0])}, PSS {before[1] / 1024:.0f} KiB, "
            f"anonymous {before[2] / 1024:.0f} KiB")
        self.log.clear()
        self.samples.clear()
        self.reloads = self.refusals = 0
        cpu = measure.cpu_ns(self.proxy.pid) if self.alive else 0
        main = self.load(options.seconds)
        cpu = (measure.cpu_ns(self.proxy.pid) if self.alive else 0) - cpu
        after = self.settle()
        self.report_load("soak", main, options.seconds)
        print(f"      sallyport used {cpu / 1e9 / options.seconds:.2f} of {WORKERS} CPUs; reloads {self.reloads}, of broken "
              f"files {self.refusals}; requests sent again: "
              f"{ {kind: self.log.retried[kind] for kind in sorted(RETRIED_KINDS)} }")
        quarters = [self.samples[i * len(self.samples) // 4] // 1024 for i in range(4)] if self.samples else []
        print(f"      PSS under load, KiB, at each quarter: {quarters}, peak {self.peak_pss // 1024}; "
              f"peak of descriptors {self.peak_descriptors}")
        self.verify_load(main, "")
        checks.check(self.alive, f"sallyport is running (status {self.proxy.process.poll()})")
        checks.check(self.unanswered == 0 and self.refusals > 0 or options.seconds < BROKEN_EVERY + 5,
                     f"each reload was answered in the log as it must be ({self.unanswered} were not)")
        checks.check(sum(self.log.retried[kind] for kind in RETRIED_KINDS) > 0,
                     "requests on kept connections that the origin had closed were sent again")
        for child in self.origins:
            checks.check(child.process.poll() is None and child.output.stat().st_size == 0,
                         f"{child.name} had no fault of their own: {child.output_tail()}")
        self.verify_ends(before, after)
        self.stop_sallyport()
        for line in self.log.unexpected:
            print(f"      {line}")
        print(f"{checks.passed} passed, {checks.failed} failed", flush=True)
        return 1 if checks.failed else 0

    def report_load(self, name: str, result: dict, seconds: float):
        print(f"{name}: kind, asked, outcomes")
        for kind in sorted(result["asked"]):
            outcomes = {key.partition(" ")[2]: count for key, count in sorted(result["outcomes"].items())
                        if key.partition(" ")[0] == kind}
            print(f"      {kind:20} {result['asked'][kind]:>9,}  {outcomes}")
        whole = sum(count for key, count in result["outcomes"].items() if key.endswith(" whole"))
        aborted = sum(count for key, count in result["outcomes"].items() if key.endswith(" aborted"))
        lost = sum(count for key, count in result["outcomes"].items() if key.endswith(" lost"))
        print(f"      requests {sum(result['asked'].values()):,}, whole answers {whole:,} ({whole / seconds:,.0f}/s, "
              f"{result['bytes'] / seconds / 1e6:,.0f} MB/s verified), aborted {aborted:,}, lost {lost}")

    def verify_load(self, result: dict, when: str):
        checks, log, asked = self.checks, self.log, result["asked"]
        for problem in result["problems"][:PROBLEM_SAMPLES]:
            print(f"      {problem}")
        ended = collections.Counter(key.partition(" ")[2] for key in result["outcomes"].elements())
        checks.check(ended["lost"] == 0 and ended["whole"] > 0, f"{when}lost = {ended['lost']}")
        checks.check(ended["wrong"] == 0, f"{when}{ended['wrong']} wrong outcomes with origins that misbehave")
        checks.check(result["hanging"] == 0, f"{when}{result['hanging']} clients hang")
        # The line of a tunnel is written when both sides are gone, so that some may come late.
        exact = GOOD_KINDS | KNOWN_ABORTS | {f"bad-{name}" for name in BAD}
        missing = {kind: f"{log.counts[kind]} lines for {asked[kind]}" for kind in exact
                   if log.counts[kind] != asked[kind] or log.sums[kind] != result["sums"][kind]}
        port = self.ports
        for kind, target in (("tunnel", f"{TUNNEL_HOST}:{port['nginx']}"), ("tunnel-echo", f"{ECHO_HOST}:{port['echo']}")):
            if log.counts[target] != asked[kind]:
                missing[kind] = f"{log.counts[target]} lines for {asked[kind]}"
        checks.check(not missing, f"{when}one access line for each of {sum(asked[kind] for kind in exact):,} exchanges {missing or ''}")
        # Where a client cannot know, between what it knows and what it tried.
        aborted = sum(log.counts[f"{TUNNEL_ABORT_HOST}:{port[name]}"] for name in ("nginx", "echo"))
        known = asked["abort-tunnel-fin"] + asked["abort-tunnel-rst"] + asked["abort-connect-fin"]
        checks.check(known <= aborted <= known + asked["abort-connect-rst"],
                     f"{when}access lines of aborted tunnels: {aborted}, at least {known}, at most {asked['abort-connect-rst']} more")
        checks.check(asked["abort-head-fin"] <= log.counts["null"] <= asked["abort-head-fin"] + asked["abort-head-rst"],
                     f"{when}access lines of heads cut short: {log.counts['null']}, at least {asked['abort-head-fin']}, "
                     f"at most {asked['abort-head-rst']} more")
        twice = [kind for kind in ("abort-body-rst", "abort-wait-rst") if log.counts[kind] > asked[kind]]
        checks.check(not twice, f"{when}no exchange has two lines {twice or ''}")
        known_names = {*exact, "null", "abort-body-rst", "abort-wait-rst"}
        strange = {name: count for name, count in log.counts.items() if name not in known_names and ":" not in name}
        checks.check(not strange and log.unread == 0, f"{when}no other access lines: {strange} {log.unread}")
        checks.check(log.failed.total() == 0, f"{when}the log shows no failure where the client saw none: {dict(log.failed)}")
        checks.check(log.dropped == 0, f"{when}the log dropped no lines")

    def verify_ends(self, before, after):
        checks = self.checks
        kinds = {kind for kind in before[0] | after[0] if kind != "pipe"}
        changed = {kind: (before[0][kind], after[0][kind]) for kind in kinds if before[0][kind] != after[0][kind]}
        checks.check(not changed and after[0].total() > 0,
                     f"descriptors but for pipes: {before[0].total() - before[0]['pipe']} before, "
                     f"{after[0].total() - after[0]['pipe']} after {changed or ''}")
        most = PIPE_DESCRIPTORS_MAX + 1  # stdout, which we read, is one too
        checks.check(after[0]["pipe"] <= most,
                     f"descriptors of pipes: {before[0]['pipe']} before, {after[0]['pipe']} after, at most {most}")
        slack = PSS_SLACK + POOL_SLACK
        checks.check(0 < after[1] <= before[1] + slack,
                     f"PSS: {before[1] // 1024:,} KiB before, {after[1] // 1024:,} after, at most {slack // 1024:,} more "
                     f"(anonymous: {before[2] // 1024:,} and {after[2] // 1024:,})")

    def stop_sallyport(self):
        """SIGTERM: nothing is under way, so that it ends at once and well."""
        if not self.alive:
            return
        os.kill(self.proxy.pid, signal.SIGTERM)
        try:
            status = self.proxy.process.wait(10)
        except subprocess.TimeoutExpired:
            status = "none: still running"
        self.checks.check(status == 0, f"SIGTERM ends it, status {status}")


def say(text: str):
    print(f"--    {text}", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="soak.py", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=600, help="of the soak itself (default: %(default)s)")
    parser.add_argument("--binary", default=DEFAULT_BINARY, help="the sallyport to load (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=3, help="client processes (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the directory with the configuration and the logs")
    parser.add_argument("--role", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.role:
        role, argument = options.role
        if role == "client":
            run_client(json.loads(argument))
        load_bodies()
        asyncio.run(serve(json.loads(argument)))
        return 0
    if not 5 <= options.seconds <= SECONDS_MAX or not 1 <= options.clients <= 64:
        parser.error(f"--seconds is 5 to {SECONDS_MAX}, --clients 1 to 64")
    processes.raise_on_signals()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-soak-"))
    directory.chmod(0o755)
    try:
        return Soak(options, directory).run()
    except BenchError as error:
        print(f"FAIL  {error}\n0 passed, 1 failed")
        return 1
    finally:
        processes.stop_all()
        if options.keep:
            say(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
