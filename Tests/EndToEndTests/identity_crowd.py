"""10,000 clients of 100 users ask at once, each in a service of its user, while another user attacks the look-ups.

    .build/venv/bin/python Tests/EndToEndTests/identity_crowd.py

As root, with a release build. The attacker keeps opening connections from 4,000 nested control groups of its own, each
request a look-up that no memory answers. Prints how long the clients waited; exits 1 if one waited a second or was
taken for another user.
"""

import argparse
import contextlib
import os
import resource
import select
import socket
import sys
import tempfile
import time
from pathlib import Path

from cgroup_world import Groups
from proxy import Proxy
from users_world import STRANGER, rule_of

USERS = range(60_000, 60_100)
REQUEST = b"GET http://127.0.0.1:9/ HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n"
BAR_SECONDS = 1.0


def sockets(groups: Groups, place: str, user: int, count: int) -> list[socket.socket]:
    return [groups.socket(place, user) for _ in range(count)]


class Attacker:
    """Sockets that were made beforehand, one of each group, connect and ask in turn."""

    def __init__(self, groups: Groups, own: str, address: tuple[str, int], count: int):
        nest = groups.make(f"{own}/attacker.service")
        self.sockets = []
        for number in range(count):
            if number % 100 == 0:
                nest = groups.make(f"{nest}/n")
            self.sockets.append(groups.socket(groups.make(f"{nest}/g{number}"), STRANGER))
        self.address = address

    def start(self) -> None:
        """In a process of its own, so that it takes no time from those who are measured."""
        self.process = os.fork()
        if self.process:
            return
        for made in self.sockets:
            with contextlib.suppress(OSError):
                made.connect(self.address)
                made.send(REQUEST)
        os._exit(0)


def ask_all(clients: list[tuple[int, socket.socket]]) -> list[float]:
    """Every client asks; how long each waits for its answer, which names the rule of its user."""
    poller = select.epoll()
    waiting = {}
    for user, client in clients:
        client.setblocking(False)
        poller.register(client.fileno(), select.EPOLLIN)
        client.send(REQUEST)
        waiting[client.fileno()] = (user, client, time.monotonic())
    waits = []
    while waiting:
        events = poller.poll(30)
        if not events:
            raise AssertionError(f"{len(waiting)} clients get no answer")
        for number, _ in events:
            user, client, asked = waiting.pop(number)
            waits.append(time.monotonic() - asked)
            poller.unregister(number)
            head = client.recv(4096).split(b"\r\n")[0]
            if f"rule=u{user} ".encode() not in head + b" ":
                raise AssertionError(f"a client of user {user} got {head!r}")
    return waits


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clients", type=int, default=10_000)
    options.add_argument("--attackers", type=int, default=4_000)
    asked = options.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    policy = "".join(rule_of(f"u{user}", user, action="deny") for user in USERS)
    policy += '[[rule]]\nname = "units"\nunits = ["some.service"]\naction = "deny"\n'
    policy += '[proxy.limits]\nconnections = 20000\n[log]\nlevel = "warning"\naccess = false\n'
    with tempfile.TemporaryDirectory() as directory, Groups() as groups:
        proxy = Proxy.start(Path(directory), proxy='default = "deny"\nworkers = 2', policy=policy)
        own = groups.own_slice()
        share = asked.clients // len(USERS)
        clients = []
        for user in USERS:
            place = groups.make(f"{own}/user{user}.service")
            clients += [(user, made) for made in sockets(groups, place, user, share)]
        for _, client in clients:
            client.connect(proxy.address)
        attacker = Attacker(groups, own, proxy.address, asked.attackers)
        attacker.start()
        waits = sorted(ask_all(clients))
        os.waitpid(attacker.process, 0)
        used = Path(f"/proc/{proxy.process.pid}/stat").read_text().rsplit(")")[-1].split()[11:13]
        seconds = sum(map(int, used)) / os.sysconf("SC_CLK_TCK")
        for made in [client for _, client in clients] + attacker.sockets:
            made.close()
        proxy.process.terminate()
        proxy.process.wait()
    share_at = lambda part: waits[min(len(waits) - 1, int(len(waits) * part))]
    print(
        f"{len(waits)} clients of {len(USERS)} users beside {asked.attackers} of an attacker: "
        f"p50 {share_at(0.5) * 1e3:.0f} ms, p99 {share_at(0.99) * 1e3:.0f} ms, longest {waits[-1] * 1e3:.0f} ms; "
        f"the proxy has used {seconds:.2f} s of processor"
    )
    return 1 if waits[-1] >= BAR_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
