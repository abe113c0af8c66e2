"""Requests that end right after they were sent, by a user whom a rule denies: not one may be served.

    .build/venv/bin/python Tests/EndToEndTests/identity_race.py --tries 1000000

As root, with a release build. Prints how many were made, how, and what the origin has seen; exits 1 if it saw one of
them. `test_users_unknown.py` makes a few thousand of the same.
"""

import argparse
import os
import random
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

from origins import RawOrigin, answering
from proxy import Proxy
from users_world import STRANGER, acting_as, rule_of

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
TCP_LINGER2 = 8
WAYS = ("close", "reset", "half", "linger", "pipelined")


def leave(made: socket.socket, way: str) -> None:
    if way == "reset":
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif way == "half":
        made.shutdown(socket.SHUT_WR)
    elif way == "linger":
        made.setsockopt(socket.IPPROTO_TCP, TCP_LINGER2, 1)
    made.close()


def attack(address: tuple[str, int], request: bytes, tries: int, seed: int) -> None:
    chance = random.Random(seed)
    made = 0
    while made < tries:
        try:
            with acting_as(STRANGER):
                client = socket.socket()
            client.connect(address)
            way = chance.choice(WAYS)
            client.send(request * (3 if way == "pipelined" else 1))
            # The window is some 120 microseconds wide: a turn of this loop takes a twentieth of one.
            for _ in range(chance.randrange(3000)):
                pass
            leave(client, way)
            made += 1
        except OSError:
            time.sleep(0.01)  # ports or descriptors are spent for a moment


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tries", type=int, default=1_000_000)
    options.add_argument("--processes", type=int, default=2)
    asked = options.parse_args()
    served = RawOrigin(answering(OK))
    with tempfile.TemporaryDirectory() as directory:
        policy = rule_of("denied", STRANGER, action="deny") + "[log]\naccess = false\nlevel = \"warning\"\n"
        proxy = Proxy.start(Path(directory), proxy="workers = 1", policy=policy)
        request = f"GET {served.url}/secret HTTP/1.1\r\nHost: {served.authority}\r\n\r\n".encode()
        began = time.monotonic()
        children = []
        for number in range(asked.processes):
            child = os.fork()
            if child == 0:
                attack(proxy.address, request, asked.tries // asked.processes, number)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        # Whatever is still on its way is over once the proxy has stopped.
        proxy.process.terminate()
        proxy.process.wait()
    seconds = time.monotonic() - began
    print(f"{asked.tries} tries in {seconds:.0f} s: the origin has seen {len(served.connections)} connections")
    return 1 if served.connections else 0


if __name__ == "__main__":
    sys.exit(main())
