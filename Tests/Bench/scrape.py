#!/usr/bin/env python3
"""Asks for /metrics on a unix socket, so many times a second, for so long, and says how often it was answered.

    scrape.py SOCKET TIMES_A_SECOND SECONDS

Each scrape has its moment; where none of the connections is free by then, it is skipped, so that a daemon that cannot follow is asked less and not all at once afterwards. Prints a line when it begins,
and one JSON object at the end. A program of its own, for it runs on the CPU of the load generator. Part of bench.py; tested by test_bench.py.
"""

import json
import selectors
import socket
import sys
import time

CONNECTIONS = 16
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: sallyport\r\n\r\n"
# A page of a small policy has some ten thousand bytes.
RECEIVE_BYTES = 1 << 18
# The last answers are waited for.
GRACE_SECONDS = 2.0


class Connection:
    """One kept connection, one scrape at a time."""

    def __init__(self, path: str):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.setblocking(False)
        self.missing = 0  # bytes of the answer that have yet to come; 0: it is free
        self.received = b""

    def ask(self):
        self.socket.sendall(REQUEST)
        self.received, self.missing = b"", 1

    def receive(self) -> int:
        """The length of an answer that is complete, else 0."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise SystemExit("the daemon closed a connection")
        self.received += data
        head, mark, body = self.received.partition(b"\r\n\r\n")
        if not mark:
            return 0
        if not head.startswith(b"HTTP/1.1 200 "):
            raise SystemExit(f"not 200 but {head[:60]!r}")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        self.missing = length - len(body)
        return len(self.received) if self.missing == 0 else 0


def scrape(path: str, times_a_second: int, seconds: float) -> dict:
    connections = [Connection(path) for _ in range(CONNECTIONS)]
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    free = list(connections)
    print("begun", flush=True)
    done = skipped = size = 0
    begun = time.monotonic()
    end = begun + seconds
    moment = 0
    while (now := time.monotonic()) < end:
        while (due := begun + moment / times_a_second) <= now:
            moment += 1
            if free:
                free.pop().ask()
            else:
                skipped += 1
        for key, _ in selector.select(min(due, end) - now):
            if answer := key.data.receive():
                done, size = done + 1, answer
                free.append(key.data)
    elapsed = time.monotonic() - begun
    while len(free) < len(connections) and time.monotonic() < end + GRACE_SECONDS:
        for key, _ in selector.select(GRACE_SECONDS):
            if key.data.receive():
                free.append(key.data)
    return {"scrapes": done, "skipped": skipped, "seconds": elapsed, "bytes": size}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    print(json.dumps(scrape(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
