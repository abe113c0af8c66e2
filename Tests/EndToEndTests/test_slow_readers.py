"""A client that does not read its answer costs little more memory than one whose origin sends nothing, however it is reached."""

import contextlib
import socket

from parents import routed
from raw_client import RawClient
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from tls_world import authority, secure_client, secure_proxy, tls_origin, world
from ways import way

CLIENTS = 40
# What issue and manual allow for each, beside what its connections cost in any case.
MOST_BYTES = 24 << 10
SMALL_BUFFER = 4096
# Answers of the proxy between two looks at what the origin has sent: each loop has turned meanwhile.
TURNS = 20
OPTIONS = b"OPTIONS * HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"


class Origin:
    """Sends without end by /length and /chunked, and next to nothing of a long body by /stalled."""

    def __init__(self):
        self.sent = 0

    def __call__(self, connection) -> None:
        target = connection.read_request().target.rpartition(b"/")[2]
        framing = b"Transfer-Encoding: chunked" if target == b"chunked" else b"Content-Length: 1000000000"
        piece = b"x" * 32768
        piece = b"8000\r\n" + piece + b"\r\n" if target == b"chunked" else piece
        connection.send(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n")
        # The client leaves at the end of the test.
        with contextlib.suppress(OSError, AssertionError):
            if target == b"stalled":
                connection.send(b"xx")
                return connection.wait_for_end()
            while True:
                connection.send(piece)
                self.sent += len(piece)


def test_memory_of_clients_that_do_not_read(way):
    origin = Origin()
    way = way(origin)
    clients = []

    def cost(*paths: str) -> int:
        """Of CLIENTS more, in bytes."""
        before = way.proxy.private_bytes()
        for number in range(CLIENTS):
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            client = way.enter(made)
            client.looked_at = False
            client.send(way.head("GET", path=paths[number % len(paths)]))
            client.socket.recv(1)
            clients.append(client)
        seen = -1
        while seen != origin.sent:
            seen = origin.sent
            for _ in range(TURNS):
                RawClient(way.proxy.address).exchange(OPTIONS)
        return way.proxy.private_bytes() - before

    cost("/stalled", "/length", "/chunked")  # What the first ones cost is the process's.
    # What the process takes or gives back once, in one of the two, is not a client's.
    stalled = max(cost("/stalled") for _ in range(2))
    unread = min(cost("/length", "/chunked") for _ in range(2))
    assert unread - stalled <= CLIENTS * MOST_BYTES, f"{(unread - stalled) / CLIENTS / 1024:.1f} KiB each"
    print(f"{way.name}: {stalled / CLIENTS / 1024:.1f} and {unread / CLIENTS / 1024:.1f} KiB")
