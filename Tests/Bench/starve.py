#!/usr/bin/env python3
"""One user attacks at full size; what does another get meanwhile?

    python3 Tests/Bench/starve.py                          # every attack, one after another
    python3 Tests/Bench/starve.py --attacks idle,names     # some of them
    python3 Tests/Bench/starve.py --binary other           # of another build

For each attack a proxy of its own is started with the limits as they are by default (connections_per_host, which has
none, at 64). A child process becomes the attacking user and takes what it can get; when it says that it has, a second user
asks REQUESTS times for a small answer, half on a kept connection and half on a fresh one each, and times it.

What it shows: nothing is refused, and 99 of 100 answers come within 100 ms. "alone" is the same without an attack. Exit
status: 0 where that holds, 1 where not. Needs root, to be several users. Python standard library only.
"""

import argparse
import asyncio
import ctypes
import os
import pathlib
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

SOURCES = pathlib.Path(__file__).resolve().parent
DEFAULT_BINARY = SOURCES.parent.parent / ".build/release/sallyport"
ATTACKER, SECOND = 54321, 54322
REQUESTS = 400
MOST_SECONDS = 0.1
CONNECTIONS = 10_050
PIPELINING, SLOW_READERS, SLOW_BODIES, TUNNELS, NAMES_SECOND = 512, 8_000, 80, 400, 4_000
HELD_BYTES = (1 << 20) - 1024
# More control groups than the proxy remembers, and as deep as the kernel lets anyone nest them within reason.
GROUPS, GROUPS_A_NEST = 4_000, 100
DESCRIPTORS = 16_000

CONFIGURATION = """
[proxy]
listen = ["127.0.0.1:0"]
workers = 2
[proxy.limits]
connections_per_host = 64
[dns]
servers = ["{dns}"]
[admin]
socket = "{directory}/admin.sock"
[log]
format = "text"
[[rule]]
name = "no"
hosts = ["denied.test"]
action = "deny"
[[rule]]
name = "backup"
hosts = ["backup.test"]
units = ["backup.service"]
[[rule]]
name = "held"
paths = ["/held"]
[rule.request]
parameters = {{ a = "b" }}
"""


# Children -------------------------------------------------------------------------------------------------------------


def origin():
    """Small answers, endless ones, and tunnels that say nothing."""

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.input, self.endless = transport, b"", False

        def data_received(self, data):
            self.input += data
            while b"\r\n\r\n" in self.input:
                head, _, self.input = self.input.partition(b"\r\n\r\n")
                if head.startswith(b"POST"):
                    self.input = b""
                if b" /endless " in head:
                    self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    self.endless = True
                    self.resume_writing()
                else:
                    self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        def resume_writing(self):
            if self.endless:
                self.transport.write(b"8000\r\n" + b"x" * 32_768 + b"\r\n")
                asyncio.get_running_loop().call_later(0.05, self.more)

        def more(self):
            if not self.transport.is_closing() and self.transport.get_write_buffer_size() == 0:
                self.resume_writing()

    async def run():
        server = await asyncio.get_running_loop().create_server(Protocol, "127.0.0.1", 0, backlog=4096)
        say(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def names():
    """A name server that is quick: names that begin with an n are 127.0.0.1, no other exists."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    say(server.getsockname()[1])
    while True:
        query, peer = server.recvfrom(4096)
        end = query.index(b"\0", 12) + 5
        question, kind = query[12:end], query[end - 3]
        if query[13:14] == b"n" and kind == 1:
            record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1"
            server.sendto(query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question + record, peer)
        else:
            code = b"\x81\x80" if query[13:14] == b"n" else b"\x81\x83"
            server.sendto(query[:2] + code + b"\0\1\0\0\0\0\0\0" + question, peer)


def say(*words):
    print(*words, flush=True)


def connected(proxy, buffer=None):
    client = socket.socket()
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.connect(proxy)
    return client


def request(host, path="/", method="GET", fields="", body=b""):
    return f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode() + body


def attack(kind, proxy, origin_host, socket_path):
    import encodings.idna  # noqa: F401  (afterwards the library cannot be read)

    if kind == "groups":
        return attack_groups(proxy, origin_host)
    os.setgid(ATTACKER)
    os.setuid(ATTACKER)
    {
        "alone": attack_alone, "idle": attack_idle, "pipelining": attack_pipelining, "bodies": attack_bodies,
        "readers": attack_readers, "tunnels": attack_tunnels, "names": attack_names, "events": attack_events,
    }[kind](proxy, origin_host, socket_path)  # fmt: skip


def attack_alone(*_):
    say("taken")
    sys.stdin.readline()


def attack_idle(proxy, *_):
    """As many as there may be and some more; whichever is closed is opened again."""
    held = {}
    poll = select.epoll()

    def add():
        client = connected(proxy)
        held[client.fileno()] = client
        poll.register(client, select.EPOLLIN | select.EPOLLRDHUP)

    for _ in range(CONNECTIONS):
        add()
    say("taken")
    while True:
        for number, _ in poll.poll():
            held.pop(number).close()
            add()


def attack_pipelining(proxy, *_):
    data = request("denied.test") * 500
    clients = {}
    poll = select.epoll()
    for _ in range(PIPELINING):
        client = connected(proxy)
        client.setblocking(False)
        clients[client.fileno()] = client
        poll.register(client, select.EPOLLIN | select.EPOLLOUT)
    say("taken")
    while True:
        for number, events in poll.poll():
            client = clients[number]
            try:
                if events & select.EPOLLIN:
                    client.recv(1 << 18)
                if events & select.EPOLLOUT:
                    client.send(data)
            except BlockingIOError:
                pass


def attack_bodies(proxy, origin_host, _):
    fields = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {1 << 20}\r\n"
    clients = []
    for _ in range(SLOW_BODIES):
        clients.append(connected(proxy))
        try:
            clients[-1].sendall(request(origin_host, "/held", "POST", fields, b"k=" + b"x" * (HELD_BYTES - 2)))
        except OSError:
            pass
    say("taken")
    while True:
        for client in clients:
            try:
                client.send(b"x")
            except OSError:
                pass
        time.sleep(0.5)


def attack_readers(proxy, origin_host, _):
    clients = []
    for _ in range(SLOW_READERS):
        clients.append(connected(proxy, 4096))
        clients[-1].sendall(request(origin_host, "/endless"))
    say("taken")
    sys.stdin.readline()


def attack_tunnels(proxy, origin_host, _):
    data = f"CONNECT {origin_host} HTTP/1.1\r\nHost: {origin_host}\r\n\r\n".encode()
    clients = []
    for number in range(TUNNELS):
        clients.append(connected(proxy))
        clients[-1].sendall(data)
        if number < 64:
            clients[-1].recv(100)
    say("taken")
    sys.stdin.readline()


def attack_names(proxy, *_):
    """New names, NAMES_SECOND of them a second over 200 connections."""
    clients = {}
    poll = select.epoll()
    for _ in range(200):
        client = connected(proxy)
        clients[client.fileno()] = client
        poll.register(client, select.EPOLLIN)
    begun, asked, waiting = time.monotonic(), 0, list(clients.values())
    say("taken")
    while True:
        due = int((time.monotonic() - begun) * NAMES_SECOND) + 1 - asked
        while waiting and due > 0:
            asked, due = asked + 1, due - 1
            waiting.pop().send(request(f"x{asked}.test"))
        for number, _ in poll.poll(0.001):
            if clients[number].recv(1 << 16):
                waiting.append(clients[number])
            else:
                poll.unregister(number)


def attack_events(_proxy, _origin, socket_path):
    readers = []
    for _ in range(80):
        reader = socket.socket(socket.AF_UNIX)
        reader.connect(socket_path)
        reader.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        readers.append(reader)
    say("taken")
    sys.stdin.readline()


def attack_groups(proxy, origin_host):
    """A socket of the attacker in each of many nested groups, and all of them ask in turn, again and again."""
    root, home = control_groups()
    library, made, sockets = ctypes.CDLL(None), [root / f"starve-{os.getpid()}.service"], []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        nest = made[0]
        nest.mkdir()
        for number in range(GROUPS):
            if number % GROUPS_A_NEST == 0:
                nest = nest / "n"
                nest.mkdir()
                made.append(nest)
            group = nest / f"g{number}"
            group.mkdir()
            made.append(group)
            (group / "cgroup.procs").write_text("0")
            library.setfsuid(ATTACKER)
            sockets.append(socket.socket())
            library.setfsuid(0)
        (home / "cgroup.procs").write_text("0")
        say("taken")
        # A socket that is connected to nothing may connect again, and stays in the group that it was made in.
        nothing = struct.pack("=H14x", socket.AF_UNSPEC)
        while True:
            for each in sockets:
                each.connect(proxy)
                each.send(request(origin_host))
                each.recv(1 << 12)
                library.connect(each.fileno(), nothing, len(nothing))
    finally:
        (home / "cgroup.procs").write_text("0")
        for each in reversed(made):
            each.rmdir()


def control_groups():
    """The root of the tree of version 2, and where this process is in it."""
    mounted = [line.split()[1:3] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    root = next(pathlib.Path(place) for place, kind in mounted if kind == "cgroup2")
    own = re.search(r"^0::/(.*)$", pathlib.Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    return root, root / own[1]


def ask(kind, proxy, origin_host, socket_path):
    """The second user: a line with how many were refused, and the times in milliseconds."""
    import encodings.idna  # noqa: F401

    os.setgid(SECOND)
    os.setuid(SECOND)
    times, refused, kept = [], 0, None
    for number in range(REQUESTS):
        begun = time.monotonic()
        try:
            if kind == "events":
                answer = ask_events(socket_path)
            else:
                client = kept if kept and number % 2 else connected(proxy)
                client.settimeout(30)
                client.sendall(question(kind, origin_host, number))
                answer = client.recv(1 << 16)
                if kept is None:
                    kept = client
                elif client is not kept:
                    client.close()
        except OSError:
            answer = b""
        times.append((time.monotonic() - begun) * 1000)
        if not answer.startswith(b"HTTP/1.1 200"):
            refused, kept = refused + 1, None
    say(refused, *(f"{each:.3f}" for each in times))


def question(kind, origin_host, number):
    if kind == "tunnels" and number % 2 == 0 and number:
        return f"CONNECT {origin_host} HTTP/1.1\r\nHost: {origin_host}\r\n\r\n".encode()
    if kind == "names":
        return request(f"n{number}.test:{origin_host.rpartition(':')[2]}")
    if kind == "bodies":
        fields = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100002\r\n"
        return request(origin_host, "/held", "POST", fields, b"k=" + b"y" * 100_000)
    return request(origin_host)


def ask_events(socket_path):
    reader = socket.socket(socket.AF_UNIX)
    reader.settimeout(30)
    reader.connect(socket_path)
    reader.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = reader.recv(100)
    reader.close()
    return answer


# The bench ------------------------------------------------------------------------------------------------------------


def child(role, *arguments):
    return subprocess.Popen(
        [sys.executable, __file__, "--role", role, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
    )  # fmt: skip


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process, what):
    lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def run(kind, binary):
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        directory.chmod(0o755)
        children = [child("origin"), child("names")]
        origin_port, names_port = (each.stdout.readline().strip() for each in children)
        configuration = directory / "sallyport.toml"
        configuration.write_text(CONFIGURATION.format(dns=f"127.0.0.1:{names_port}", directory=directory))
        log = (directory / "log").open("wb")
        proxy = subprocess.Popen(
            [binary, "run", "--config", configuration], stdout=subprocess.PIPE, stderr=log, text=True
        )
        children.append(proxy)
        try:
            port = re.search(r":(\d+)", proxy.stdout.readline())[1]
            socket_path = directory / "admin.sock"
            socket_path.chmod(0o666)
            arguments = (kind, port, f"127.0.0.1:{origin_port}", socket_path)
            children.append(child("attack", *arguments))
            if children[-1].stdout.readline().strip() != "taken":
                raise SystemExit(f"the attack '{kind}' failed")
            time.sleep(1)
            before, begun = processor_seconds(proxy.pid), time.monotonic()
            asking = child("ask", *arguments)
            children.append(asking)
            refused, *times = asking.stdout.readline().split()
            busy = (processor_seconds(proxy.pid) - before) / (time.monotonic() - begun)
            private = memory(proxy.pid, "Private_")
            lines = (directory / "log").read_bytes()
            return int(refused), sorted(map(float, times)), busy, private, lines.count(b"were dropped")
        finally:
            # An attacker has control groups to remove.
            for each in reversed(children):
                each.terminate()
                each.wait()


def main():
    kinds = ["alone", "idle", "pipelining", "bodies", "readers", "tunnels", "names", "events", "groups"]
    parser = argparse.ArgumentParser(description="One user attacks; what does another get?")
    parser.add_argument("--attacks", default=",".join(kinds), help=f"of {', '.join(kinds)}")
    parser.add_argument("--binary", type=pathlib.Path, default=DEFAULT_BINARY)
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < DESCRIPTORS:
        raise SystemExit(f"needs {DESCRIPTORS:,} descriptors, and may have {most:,}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if options.role:
        role, *rest = options.role
        if role in ("origin", "names"):
            return {"origin": origin, "names": names}[role]()
        kind, port, origin_host, socket_path = rest
        return {"attack": attack, "ask": ask}[role](kind, ("127.0.0.1", int(port)), origin_host, socket_path)
    say(f"{'attack':12}{'refused':>8}{'p50 ms':>9}{'p99 ms':>9}{'max ms':>9}{'cores':>7}{'MiB':>7}{'dropped':>9}")
    failed = False
    for kind in options.attacks.split(","):
        refused, times, busy, private, dropped = run(kind, options.binary)
        p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
        failed = failed or refused > 0 or p99 > MOST_SECONDS * 1000 or dropped > 0
        say(f"{kind:12}{refused:8}{p50:9.2f}{p99:9.2f}{times[-1]:9.2f}{busy:7.2f}{private:7.1f}{dropped:9}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
