"""Control groups of the tests' own, and sockets that are made in them.

    with Groups() as groups:
        groups.make("kiosk.slice/kiosk.service")
        socket = groups.socket("kiosk.slice/kiosk.service", user)

They stand in one group below the root of the tree; at the end all of them are removed. A socket belongs to the group
that its maker is in, so a process of its own makes them, and hands each over.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from journal import DEADLINE_SECONDS

# Reads lines of JSON from the socket that is its standard input, and answers each with a byte and a socket.
MAKER = """
import array, ctypes, json, socket, sys
channel = socket.socket(fileno=0)
libc = ctypes.CDLL(None)
for line in channel.makefile():
    asked = json.loads(line)
    with open(asked["group"] + "/cgroup.procs", "w") as procs:
        procs.write("0")
    libc.setfsuid(asked["user"])
    made = socket.socket(asked["family"], socket.SOCK_STREAM)
    libc.setfsuid(0)
    with open(asked["rest"] + "/cgroup.procs", "w") as procs:
        procs.write("0")
    socket.send_fds(channel, [b"."], [made.fileno()])
    made.close()
"""


def tree() -> Path:
    """Where control groups of version 2 are mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind = line.split()[:3]
        if kind == "cgroup2":
            return Path(place)
    pytest.skip("needs control groups of version 2")


class Groups:
    """Groups below one whose name no unit has. `beside`: in the root itself, as systemd's slices are."""

    def __init__(self):
        self.root = tree()
        self.made: list[Path] = []
        self.maker: subprocess.Popen | None = None
        self.home = self.root / Path("/proc/self/cgroup").read_text().split("0::/")[-1].split("\n")[0]

    def __enter__(self) -> "Groups":
        return self

    def make(self, path: str) -> str:
        place = self.root
        for name in path.split("/"):
            place = place / name
            try:
                place.mkdir()
            except FileExistsError:
                continue
            except OSError as error:
                pytest.skip(f"needs to make control groups: {error}")
            self.made.append(place)
        return path

    def own_slice(self) -> str:
        """The path of a slice that no machine has."""
        return self.make(f"sallyport{uuid.uuid4().hex[:8]}.slice")

    def socket(self, path: str, user: int, family: int = socket.AF_INET) -> socket.socket:
        if self.maker is None:
            self.channel, theirs = socket.socketpair()
            self.maker = subprocess.Popen([sys.executable, "-c", MAKER], stdin=theirs.fileno())
            theirs.close()
            self.channel.settimeout(DEADLINE_SECONDS)
        asked = {"group": str(self.root / path), "rest": str(self.home), "user": user, "family": int(family)}
        self.channel.sendall(json.dumps(asked).encode() + b"\n")
        said, descriptors, _, _ = socket.recv_fds(self.channel, 1, 1)
        assert said == b"." and descriptors, "the maker of sockets has failed"
        made = socket.socket(fileno=descriptors[0])
        made.settimeout(DEADLINE_SECONDS)
        return made

    def remove(self, path: str) -> None:
        place = self.root / path
        place.rmdir()
        self.made.remove(place)

    def __exit__(self, *_) -> None:
        if self.maker is not None:
            self.channel.close()
            self.maker.wait(DEADLINE_SECONDS)
        for place in reversed(self.made):
            with contextlib.suppress(FileNotFoundError):
                place.rmdir()


@pytest.fixture
def groups():
    if os.geteuid() != 0:
        pytest.skip("needs root, to make control groups")
    with Groups() as made:
        yield made
