"""One client cannot starve the rest: each attack of one user, and what a second user gets meanwhile.

An attack runs with small limits, so that it takes them whole; then the second user asks some dozens of times, over fresh
and kept connections, and is served as if it were alone. (At full size: Tests/Bench/starve.py.)
"""

import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from admin_client import AdminClient
from admin_world import samples
from dns_server import Answer
from http2_world import H2Origin
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo
from proxy import run_delay
from reachability_world import ADMIN, connect, get
from serializer_world import FORM, adding, post
from tls_world import get as secure_get
from tls_world import trust, world
from users_world import NUMBERED as ATTACKER
from users_world import STRANGER as SECOND
from users_world import client_of, guarded, rule_of

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASKED = 40
# What nine of ten requests take at most, but for the time in which the machine had no processor for whoever asks or serves;
# and what the slowest does, with that time. A sanitizer takes ten times as long for the same work.
SLOWER = 10 if "SALLYPORT_SANITIZED" in os.environ else 1
MOST_SECONDS, SLOWEST_SECONDS = 0.1 * SLOWER, 1.0 * SLOWER
WORKERS = pytest.mark.parametrize("workers", [1, 2], ids=["one loop", "two loops"])


class Times:
    """How long the requests of the second user took; and how long without the waits for a processor, of which other tests
    and the attackers themselves take what they get: what the proxy does to this user is the rest.
    """

    def __init__(self, proxy):
        self.proxy = proxy
        self.seconds: list[float] = []
        self.own_seconds: list[float] = []

    def __enter__(self) -> None:
        self.begun, self.delay = time.monotonic(), self.run_delay()

    def __exit__(self, *_) -> None:
        # Who asks and who serves may have waited at the same time: the longer wait is the least that both took.
        waited = max(after - before for before, after in zip(self.delay, self.run_delay(), strict=True))
        self.seconds.append(time.monotonic() - self.begun)
        self.own_seconds.append(self.seconds[-1] - waited)

    def run_delay(self) -> tuple[float, float]:
        """Of this thread, and of all loops of the proxy by their mean: one of them serves, and which is not known."""
        loops = self.proxy.run_delays("worker-")
        return run_delay(Path(f"/proc/self/task/{threading.get_native_id()}")), sum(loops) / len(loops)

    def check(self) -> None:
        assert sorted(self.own_seconds)[len(self.seconds) * 9 // 10] < MOST_SECONDS, (
            sorted(self.own_seconds),
            sorted(self.seconds),
        )
        assert max(self.seconds) < SLOWEST_SECONDS, sorted(self.seconds)


def second_user_is_served(proxy, client_of, data, status: int = 200) -> None:
    """Half of the requests each on a connection of its own, half on one. `data` makes the request of a number."""
    times, kept = Times(proxy), None
    for number in range(ASKED):
        with times:
            client = kept if number % 2 and kept else client_of(proxy, SECOND)
            answer = client.exchange(data(number))
        assert answer.status == status, answer
        if kept is None:
            kept = client
        elif client is not kept:
            client.close()
    times.check()


def limits(*lines: str) -> str:
    return "\n".join(["[proxy.limits]", *lines, ""])


# limits.connections


@WORKERS
def test_idle_connections(workers, guarded, raw_origin, client_of):
    proxy = guarded(limits("connections = 20"), proxy=f"workers = {workers}")
    origin = raw_origin(answering(OK))
    idle = [client_of(proxy, ATTACKER) for _ in range(40)]
    second_user_is_served(proxy, client_of, lambda number: get(origin))
    for client in idle:
        client.looked_at = False
    assert samples(proxy)["sallyport_client_connections_displaced_total", ()] > 0


def test_a_client_alone_uses_all_and_its_last_ones_wait(guarded, raw_origin, client_of):
    proxy, origin = guarded(limits("connections = 8")), raw_origin(answering(OK))
    clients = [client_of(proxy, ATTACKER) for _ in range(8)]
    assert [client.exchange(get(origin)).status for client in clients] == [200] * 8
    late = client_of(proxy, ATTACKER)
    late.send(get(origin))
    assert [client.exchange(get(origin)).status for client in clients] == [200] * 8, "none was closed for its own"
    assert late.nothing_came()
    clients[3].close()
    assert late.answer().status == 200


def test_the_idlest_goes_first(guarded, raw_origin, client_of):
    """Of the greediest, and only down to its share."""
    proxy, origin = guarded(limits("connections = 8")), raw_origin(answering(OK))
    held = [client_of(proxy, ATTACKER) for _ in range(8)]
    for client in held[1:]:
        assert client.exchange(get(origin)).status == 200
    second = [client_of(proxy, SECOND) for _ in range(2)]
    assert [client.exchange(get(origin)).status for client in second] == [200, 200]
    assert [held[0].wait_for_end(), held[1].wait_for_end()] == ["closed", "closed"]
    assert [client.exchange(get(origin)).status for client in held[2:]] == [200] * 6
    third = client_of(proxy, SECOND)  # above its share: it waits
    third.send(get(origin))
    assert [client.exchange(get(origin)).status for client in held[2:]] == [200] * 6
    assert third.nothing_came()


def test_no_share_is_first_come_first_served(guarded, raw_origin, client_of):
    proxy, origin = guarded(limits("connections = 4", "share = 1")), raw_origin(answering(OK))
    held = [client_of(proxy, ATTACKER) for _ in range(4)]
    assert [client.exchange(get(origin)).status for client in held] == [200] * 4
    second = client_of(proxy, SECOND)
    second.send(get(origin))
    assert [client.exchange(get(origin)).status for client in held] == [200] * 4
    assert second.nothing_came()


def test_who_is_displaced_amid_an_exchange_has_a_line_that_says_so(guarded, raw_origin, client_of):
    proxy, origin = guarded(limits("connections = 2", "share = 0.5")), raw_origin(tunnel_echo)
    tunnels = [client_of(proxy, ATTACKER) for _ in range(2)]
    for tunnel in tunnels:
        assert tunnel.exchange(connect(origin)).status == 200
    assert client_of(proxy, SECOND).exchange(connect(origin)).status == 200
    line = proxy.access(lambda line: line["outcome"] != "done")
    assert line["outcome"] == "displaced"
    for tunnel in tunnels:
        tunnel.looked_at = False


# Requests in a row


PIPELINED = 3000


@WORKERS
def test_pipelined_refusals(workers, guarded, raw_origin, client_of):
    """64 connections send 3,000 requests each that are all refused: every one is answered and logged."""
    proxy = guarded(
        '[[rule]]\nname = "no"\nhosts = ["denied.test"]\naction = "deny"\n', proxy=f"workers = {workers}"
    )
    origin = raw_origin(answering(OK))
    script = f"""
import encodings.idna, os, socket, sys, threading
os.setuid({ATTACKER})
data = b"GET http://denied.test/ HTTP/1.1\\r\\nHost: denied.test\\r\\n\\r\\n" * {PIPELINED}
def attack():
    client = socket.create_connection({proxy.address!r})
    threading.Thread(target=lambda: client.sendall(data), daemon=True).start()
    count, rest = 0, b""
    while count < {PIPELINED}:
        got = client.recv(1 << 16)
        if not got: return
        count += (rest[-11:] + got).count(b"HTTP/1.1 403")
        rest = got if len(got) > 11 else rest + got
    print(count, flush=True)
threads = [threading.Thread(target=attack) for _ in range(64)]
print("begun", flush=True)
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    attack = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd="/"
    )
    try:
        assert attack.stdout.readline() == "begun\n"
        proxy.access(lambda line: line["status"] == 403)
        second_user_is_served(proxy, client_of, lambda number: get(origin))
    finally:
        attack.kill()
        attack.wait()
    assert not [line for line in proxy.raw_log if "dropped" in line]


def test_all_pipelined_requests_are_answered_in_order(guarded, raw_origin, client_of):
    proxy = guarded('[[rule]]\nname = "no"\nhosts = ["denied.test"]\naction = "deny"\n')
    origin = raw_origin(answering(OK))
    client = client_of(proxy, SECOND)
    denied = b"GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n"
    client.send((denied + denied + get(origin)) * 100)
    assert [client.answer().status for _ in range(300)] == [403, 403, 200] * 100
    client.send((denied * 50 + get(origin, lines="Connection: close\r\n")))
    client.half_close()
    assert [client.answer().status for _ in range(51)] == [403] * 50 + [200]
    assert client.wait_for_end() == "closed"


# limits.held_bodies


MEMORY = 'buffered_body = "16KiB"\nheld_bodies = "64KiB"\n'
HOLDING = f"[proxy.limits]\n{MEMORY}" + '[[rule]]\nname = "r"\n[rule.request]\n' + adding({"a": "b"}) + "\n"


@WORKERS
def test_slow_bodies(workers, guarded, raw_origin, client_of):
    proxy, origin = guarded(HOLDING, proxy=f"workers = {workers}"), raw_origin(answering(OK))
    body = b"k=" + b"x" * 12_000
    slow = []
    for _ in range(8):
        slow.append(client_of(proxy, ATTACKER))
        slow[-1].send(post(origin, body, FORM)[:-1])
        slow[-1].looked_at = False
    proxy.admin.asked_until("/v1/status", lambda status: status["held_bytes"] > 50_000)
    second_user_is_served(proxy, client_of, lambda number: post(origin, body, FORM))


@WORKERS
def test_bodies_that_go_to_files(workers, guarded, raw_origin, client_of):
    """What is buffered whole gives way into its file, in a later turn of its loop: nobody may wait for that."""
    bounds = limits('held_bodies = "256KiB"', 'buffered_body = "128KiB"')
    rule = '[[rule]]\nname = "r"\n[rule.request]\nbuffer_uploads = true\n'
    proxy = guarded(bounds + rule, proxy=f"workers = {workers}")
    origin = raw_origin(answering(OK))
    begin = f"POST http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\n".encode()
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    greedy = [client_of(proxy, ATTACKER) for _ in range(3)]
    for client in greedy:
        client.send(begin + chunked + b"%x\r\n" % (80 << 10) + bytes((80 << 10) - 1))
    content = bytes(40 << 10)
    upload = begin + chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(content), content)
    second_user_is_served(proxy, client_of, lambda number: upload)
    for client in greedy:
        client.send(b"x\r\n0\r\n\r\n")
        assert client.answer().status == 200


def test_a_client_alone_holds_all(guarded, raw_origin, client_of):
    proxy, origin = guarded(HOLDING), raw_origin(answering(OK))
    body = b"k=" + b"x" * 12_000
    clients = [client_of(proxy, ATTACKER) for _ in range(5)]
    for client in clients:
        client.send(post(origin, body, FORM)[:-1])
    proxy.admin.asked_until("/v1/status", lambda status: status["held_bytes"] > 59_000)
    for client in clients:
        client.send(b"x")
        assert client.answer().status == 200


# A body of 4 MB is more than the sockets between the proxy and a client that does not read take.
CHECKED = b"[" + b"1," * (2 << 20) + b"1]"
CHECKING = limits('held_bodies = "16MiB"', 'buffered_body = "8MiB"') + """
[[rule]]
name = "r"
[rule.response]
serializer = "json"
"""


def checked_answer(content: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content) + content


@WORKERS
def test_checked_bodies_that_are_not_read(workers, guarded, raw_origin, client_of):
    """They have passed, and still take memory until their client has them: theirs that does not read go first."""
    proxy = guarded(CHECKING, proxy=f"workers = {workers}")
    large, small = raw_origin(answering(checked_answer(CHECKED))), raw_origin(answering(checked_answer(b"[1]")))
    lazy = [client_of(proxy, ATTACKER) for _ in range(8)]
    for client in lazy:
        client.looked_at = False
        client.send(get(large))
    status = proxy.admin.asked_until(
        "/v1/status", lambda status: status["held_bytes"] > 3 << 20 and status["exchanges"]["failed"]
    )
    assert status["held_bytes"] <= 16 << 20 and status["exchanges"]["failed"].keys() == {"held-bodies-spent"}
    second_user_is_served(proxy, client_of, lambda number: get(small))
    for client in lazy:
        client.reset()
    proxy.admin.asked_until("/v1/status", lambda status: status["held_bytes"] == 0)


def test_the_log_tells_what_a_client_did_not_take(guarded, raw_origin, client_of):
    proxy, origin = guarded(CHECKING), raw_origin(answering(checked_answer(CHECKED)))
    client = client_of(proxy, ATTACKER)
    client.looked_at = False
    client.send(get(origin))
    assert client.receive_until(b"\r\n").startswith(b"HTTP/1.1 200 ")
    client.reset()
    line = proxy.access()
    assert line["outcome"] == "client-left" and 0 < line["bytes_out"] < len(CHECKED)


def test_the_log_tells_what_a_client_did_not_take_in_time(guarded, raw_origin, client_of):
    proxy = guarded(CHECKING + '[rule.timeouts]\nbody_stall = "300ms"\n')
    client = client_of(proxy, ATTACKER)
    client.looked_at = False
    client.send(get(raw_origin(answering(checked_answer(CHECKED)))))
    line = proxy.access()
    assert line["outcome"] == "stalled" and 0 < line["bytes_out"] < len(CHECKED)


def test_a_rewritten_body_that_waits_for_its_upstream(guarded, raw_origin, client_of):
    """An origin that reads nothing: what waits for it is held, and nothing is once the client has gone."""
    proxy = guarded(HOLDING.replace("16KiB", "8MiB").replace("64KiB", "16MiB"))
    origin = raw_origin(lambda connection: connection.wait_for_end())
    client = client_of(proxy, ATTACKER)
    client.looked_at = False
    client.send(post(origin, b"k=" + b"x" * (4 << 20), FORM))
    proxy.admin.asked_until("/v1/status", lambda status: status["held_bytes"] > 1 << 20)
    client.reset()
    proxy.admin.asked_until("/v1/status", lambda status: status["held_bytes"] == 0)


def test_a_body_that_dribbles_is_not_held_for_ever(guarded, raw_origin, client_of):
    """A byte now and then is no stall, and still too little for what is held."""
    proxy = guarded(HOLDING + '[proxy.timeouts]\nbody_stall = "500ms"\n')
    origin = raw_origin(answering(OK))
    client = client_of(proxy, ATTACKER)
    data = post(origin, b"k=" + b"x" * 12_000, FORM)
    head = data.index(b"\r\n\r\n") + 4
    client.send(data[:head])
    begun = time.monotonic()
    for at in range(head, len(data)):
        client.send(data[at : at + 1])
        if select.select([client.socket], [], [], 0.02)[0]:
            break
        assert time.monotonic() - begun < DEADLINE_SECONDS, "a body that dribbles is held for ever"
    answer = client.answer()
    assert answer.status == 408 and b"bytes a second" in answer.body


# limits.connections_per_host


@WORKERS
def test_hoarded_tunnels(workers, guarded, raw_origin, client_of):
    proxy = guarded(limits("connections_per_host = 8"), proxy=f"workers = {workers}")
    origin = raw_origin(tunnel_echo)
    tunnels = []
    for _ in range(8):
        tunnels.append(client_of(proxy, ATTACKER))
        assert tunnels[-1].exchange(connect(origin)).status == 200
        tunnels[-1].looked_at = False
    waiting = []
    for _ in range(8):
        waiting.append(client_of(proxy, ATTACKER))
        waiting[-1].send(connect(origin))
        waiting[-1].looked_at = False
    times = Times(proxy)
    for _ in range(ASKED):
        with times:
            client = client_of(proxy, SECOND)
            assert client.exchange(connect(origin)).status == 200
            client.send(b"sally")
            assert client.receive_exactly(5) == b"sally"
        client.half_close()
        client.wait_for_end()
    times.check()


def test_a_client_alone_has_all_connections_to_a_host(guarded, raw_origin, client_of):
    proxy, origin = guarded(limits("connections_per_host = 4")), raw_origin(tunnel_echo)
    tunnels = [client_of(proxy, ATTACKER) for _ in range(4)]
    for tunnel in tunnels:
        assert tunnel.exchange(connect(origin)).status == 200
    late = client_of(proxy, ATTACKER)
    late.send(connect(origin))
    for tunnel in tunnels:
        tunnel.send(b"sally")
        assert tunnel.receive_exactly(5) == b"sally"
    assert late.nothing_came()
    late.looked_at = False


class Gathering(H2Origin):
    """An origin that answers nobody, and shakes hands once as many have come as are expected."""

    def __init__(self, context, expected: int):
        self.barrier = threading.Barrier(expected)
        super().__init__(context, lambda link, request: None)

    def _serve(self, plain) -> None:
        if len(self.protocols) < self.barrier.parties:
            self.barrier.wait(DEADLINE_SECONDS)
        super()._serve(plain)


def test_hoarded_connections_of_http_2(guarded, client_of, world):
    """Where rules name users, a connection carries the requests of one user alone."""
    origin = Gathering(world.context(world.leaf("127.0.0.1"), alpn=("h2",)), 4)
    rules = rule_of("first", ATTACKER) + rule_of("second", SECOND)
    proxy = guarded(limits("connections_per_host = 4") + trust(world) + rules)
    hoarders = [client_of(proxy, ATTACKER) for _ in range(4)]
    for client in hoarders:
        client.send(secure_get("127.0.0.1", origin.port))
        client.looked_at = False
    origin.wait_until(lambda: len(origin.requests) == 4)
    assert {request.connection for request in origin.requests} == {1, 2, 3, 4}
    second = client_of(proxy, SECOND)
    second.send(secure_get("127.0.0.1", origin.port))
    origin.wait_until(lambda: len(origin.requests) == 5)
    assert origin.requests[-1].value("x-rule") == "second"
    origin.links[origin.requests[-1].connection - 1].respond(origin.requests[-1], 200, body=b"ok")
    assert second.answer().body == b"ok"
    # One of the hoarders has lost its request; the others still wait.
    assert [client.nothing_came() for client in hoarders].count(False) == 1
    origin.stop()


# Names


def test_a_flood_of_names(guarded, raw_origin, client_of, dns_server):
    """600 names of a server that does not answer, in flight and waiting at once."""
    origin = raw_origin(answering(OK))
    names = {f"n{number}.test": Answer(a=["127.0.0.1"]) for number in range(ASKED)}
    server = dns_server(names, otherwise=Answer(silent=True))
    proxy = guarded(f'[dns]\nservers = ["{server.address}"]\ntimeout = "20s"\n')
    flood = []
    for number in range(600):
        flood.append(client_of(proxy, ATTACKER))
        flood[-1].looked_at = False
        flood[-1].send(b"GET http://x%d.test/ HTTP/1.1\r\nHost: x%d.test\r\n\r\n" % (number, number))
    # One or the other datagram may be lost where so many come at once.
    server.questions.wait_for_several(200, lambda question: question.name.startswith("x"))

    def ask(number: int) -> bytes:
        host = f"n{number}.test:{origin.port}"
        return f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()

    second_user_is_served(proxy, client_of, ask)
    asked = {question.name for question in server.questions.snapshot() if question.name.startswith("x")}
    assert len(asked) <= 256, "of one client no more are asked for at once"


def test_names_whose_clients_left_are_not_asked_for(guarded, raw_origin, client_of, dns_server):
    server = dns_server({"last.test": Answer(a=["127.0.0.1"])}, otherwise=Answer(silent=True))
    proxy = guarded(f'[dns]\nservers = ["{server.address}"]\ntimeout = "1s"\n')
    origin = raw_origin(answering(OK))
    flood = []
    for number in range(400):
        flood.append(client_of(proxy, ATTACKER))
        flood[-1].looked_at = False
        flood[-1].send(b"GET http://x%d.test/ HTTP/1.1\r\nHost: x%d.test\r\n\r\n" % (number, number))
    server.questions.wait_for(lambda question: question.name == "x200.test")
    for client in flood:
        client.reset()
    host = f"last.test:{origin.port}"
    # The same client, behind all of its others.
    client = client_of(proxy, ATTACKER)
    assert client.exchange(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).status == 200
    asked = {question.name for question in server.questions.snapshot() if question.name.startswith("x")}
    assert len(asked) <= 256


# Readers of events


READERS = """
import os, socket, sys
os.setuid(int(sys.argv[3]))
readers = []
for _ in range(int(sys.argv[2])):
    reader = socket.socket(socket.AF_UNIX)
    reader.connect(sys.argv[1])
    reader.sendall(b"GET /v1/events HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    readers.append((reader, reader.recv(100)[9:12].decode()))
print(" ".join(status for _, status in readers), flush=True)
sys.stdin.readline()
"""


def readers_of(proxy, user: int, count: int):
    socket_path = proxy.configuration.parent / "admin.sock"
    reading = subprocess.Popen(
        [sys.executable, "-c", READERS, socket_path, str(count), str(user)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
    )
    return reading, reading.stdout.readline().split()


def test_readers_of_events(guarded):
    proxy = guarded("")
    directory = proxy.configuration.parent
    for each in [directory, *directory.parents]:
        if each.stat().st_uid == 0 and str(each).startswith("/tmp/"):
            each.chmod(each.stat().st_mode | 0o011)
    (directory / "admin.sock").chmod(0o666)
    hoard, statuses = readers_of(proxy, ATTACKER, 16)
    more = second = None
    try:
        assert statuses == ["200"] * 16
        more, statuses = readers_of(proxy, ATTACKER, 1)
        assert statuses == ["503"], "one of its own does not make way"
        second, statuses = readers_of(proxy, SECOND, 4)
        assert statuses == ["200"] * 4
        assert AdminClient(directory / "admin.sock").json("/v1/status")
    finally:
        for each in (hoard, more, second):
            if each:
                each.kill()
                each.wait()


# Memory of readers that do not read


SLOW_READERS = 60
MOST_PRIVATE_BYTES = 24 << 10


class Endless:
    """An origin whose answer is as long as whoever asks takes it."""

    HEADS = {
        "chunked": b"Transfer-Encoding: chunked\r\n",
        "sized": b"Content-Length: 1000000000\r\n",
        "until the end": b"",
    }

    def __init__(self, framing: str):
        self.head = b"HTTP/1.1 200 OK\r\n" + self.HEADS[framing] + b"\r\n"
        piece = b"x" * 65_536
        self.data = (b"10000\r\n" + piece + b"\r\n" if framing == "chunked" else piece) * 128
        self.stuck = threading.Semaphore(0)

    def __call__(self, connection) -> None:
        connection.read_request()
        connection.send(self.head)
        assert connection.send_until_stuck(self.data, 0.5) < len(self.data), "the proxy takes what nobody reads"
        self.stuck.release()
        connection.wait_for_end()

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.stuck.acquire(timeout=DEADLINE_SECONDS)


@pytest.mark.parametrize("framing", Endless.HEADS)
def test_a_reader_that_does_not_read_holds_little_memory(framing, guarded, raw_origin, raw_client):
    endless = Endless(framing)
    proxy, origin = guarded("", proxy="workers = 1"), raw_origin(endless)

    def read_nothing(count: int) -> None:
        for _ in range(count):
            client = raw_client(proxy, receive_buffer=4096)
            client.looked_at = False
            client.send(get(origin))
        endless.wait(count)

    read_nothing(4)
    before = proxy.private_bytes()
    read_nothing(SLOW_READERS)
    each = (proxy.private_bytes() - before) / SLOW_READERS
    assert each <= MOST_PRIVATE_BYTES, f"{each / 1024:.1f} KiB for each"
