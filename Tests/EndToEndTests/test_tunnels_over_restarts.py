"""Open tunnels survive a restart: systemd, played by service.py, keeps them while no daemon runs.

What is shown here: not a byte is lost or said twice, whatever stood where when the daemon stopped; each tunnel is one line
in the log, of the daemon that sees its end; what cannot be kept ends as without a store; and whatever comes back that is
no tunnel is closed.
"""

import hashlib
import os
import pwd
import random
import select
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from journal import DEADLINE_SECONDS, Journal, readable, wait_until
from origins import answering, listening_socket, tunnel_echo
from parents import by, route
from proxy import binary, clean_environment, is_access
from scripted_parents import scripted_parent, socks_server
from service import Stored, passing
from tls_world import client_context, rule, secure_client, secure_proxy, tls_origin, world

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


class Service:
    """One unit with a socket and a store: the daemons that follow each other in it."""

    def __init__(self, manager, start_passed):
        self.manager = manager
        self.start_passed = start_passed
        self.listener = listening_socket()
        self.proxy = None
        self.arguments = {}

    def start(self, **arguments):
        self.arguments |= arguments
        environment = self.manager.environment | self.arguments.get("environment", {})
        sockets = [("proxy", self.listener), *self.manager.stored]
        self.proxy = self.start_passed(sockets, **(self.arguments | {"environment": environment}))
        return self.proxy

    def stop(self) -> None:
        self.proxy.terminate()
        assert self.proxy.wait_for_exit() == 0

    def restart(self, **arguments):
        self.stop()
        return self.start(**arguments)


@pytest.fixture
def service(manager, start_passed):
    manager.store_places = 1000
    service = Service(manager, start_passed)
    yield service
    service.listener.close()


@pytest.fixture
def tunnel(raw_client):
    """A function that opens a tunnel through a proxy; the reference of its answer does not come with it."""

    def open_to(proxy, origin, **arguments):
        client = raw_client(proxy, **arguments)
        client.send(f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
        assert client.answer().status == 200
        return client

    return open_to


def echoed(client, data: bytes) -> None:
    client.send(data)
    assert client.receive_exactly(len(data)) == data


def talk(proxy) -> list[str]:
    """What the daemon says besides its access lines."""
    return [entry["message"] for entry in proxy.log.snapshot() if "message" in entry]


# What survives


def test_a_connect_tunnel_goes_on(service, manager, raw_origin, tunnel):
    first = service.start(policy='[[rule]]\nname = "web"\nhosts = ["127.0.0.1"]\n')
    origin = raw_origin(tunnel_echo)
    client = tunnel(first, origin)
    echoed(client, b"before")
    second = service.restart()
    echoed(client, b"behind")
    client.half_close()
    assert client.wait_for_end() == "closed"
    line = second.access()
    assert (line["method"], line["target"], line["rule"]) == ("CONNECT", origin.authority, "web")
    assert (line["status"], line["outcome"], line["upstream"]) == (200, "done", origin.authority)
    assert (line["route"], line["decision"], line["reason"]) == ("direct", "allow", "rule")
    head = len(f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n")
    assert line["bytes_in"] == head + 12
    assert line["bytes_out"] == len("HTTP/1.1 200 Connection established\r\n\r\n") + 12
    assert line["connect_ms"] is not None and line["assurance"] == "none"
    assert first.access_lines() == []
    assert "stopped; 1 open tunnel waits with systemd" in talk(first)
    assert "1 open tunnel goes on" in talk(second)
    assert manager.stored == [] and not manager.asks_for_polling


def test_a_websocket_goes_on(service, raw_origin, raw_client):
    def script(connection):
        connection.read_request()
        connection.switch_protocol()
        connection.send(SWITCHING + b"\x81\x05hello")
        assert connection.read_exactly(6) == b"\x81\x80mask"
        connection.send(b"\x81\x00")
        connection.wait_for_end()

    first = service.start()
    origin = raw_origin(script)
    client = raw_client(first)
    client.send(f"GET {origin.url}/chat HTTP/1.1\r\nHost: {origin.authority}\r\n".encode() + UPGRADE + b"\r\n")
    assert client.message().status == 101
    assert client.receive_exactly(7) == b"\x81\x05hello"
    second = service.restart()
    client.send(b"\x81\x80mask")
    assert client.receive_exactly(2) == b"\x81\x00"
    client.half_close()
    assert client.wait_for_end() == "closed"
    line = second.access()
    assert (line["method"], line["target"], line["status"]) == ("GET", f"{origin.url}/chat", 101)
    assert (line["bytes_out"], first.access_lines()) == (len(client.received), [])


def test_the_reference_and_the_beginning_are_the_first_ones(service, raw_origin, tunnel, tmp_path):
    """The admin API of the first daemon names the tunnel; the line of the third has the same reference."""
    first = service.start(policy=f'[admin]\nsocket = "{tmp_path}/admin.sock"\n')
    client = tunnel(first, raw_origin(tunnel_echo))
    listed = subprocess.run(
        ["curl", "-s", "--unix-socket", tmp_path / "admin.sock", "http://localhost/v1/connections"],
        capture_output=True, text=True, timeout=DEADLINE_SECONDS,
    ).stdout
    service.restart()
    begun = time.monotonic()
    third = service.restart()
    client.half_close()
    assert client.wait_for_end() == "closed"
    line = third.access()
    assert line["ref"] in listed and len(line["ref"]) == 6
    assert line["total_ms"] >= (time.monotonic() - begun) * 1000 - 100
    assert time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S")


def test_tunnels_of_all_loops_are_spread_over_all_loops(service, raw_origin, tunnel):
    origin = raw_origin(tunnel_echo)
    clients = [tunnel(service.start(proxy="workers = 1"), origin)]
    clients += [tunnel(service.proxy, origin) for _ in range(9)]
    service.restart(proxy="workers = 3")
    for number, client in enumerate(clients):
        echoed(client, b"%d" % number * 1000)
    service.restart(proxy="workers = 2")
    for client in clients:
        echoed(client, b"again")


class Stream(threading.Thread):
    """Sends bytes that follow from a seed, in pieces of every size, until it is told to end; then closes this direction."""

    def __init__(self, sink: socket.socket, seed: int):
        super().__init__(daemon=True)
        self.sink, self.random = sink, random.Random(seed)
        self.digest, self.count, self.over = hashlib.sha256(), 0, threading.Event()

    def run(self) -> None:
        block = self.random.randbytes(1 << 20)
        while not self.over.is_set():
            size = self.random.choice([1, 100, 5000, 70_000, 400_000])
            start = self.random.randrange(len(block) - size)
            piece = block[start : start + size]
            self.sink.sendall(piece)
            self.digest.update(piece)
            self.count += size
        self.sink.shutdown(socket.SHUT_WR)


def read_all(source: socket.socket, pauses: random.Random) -> tuple[int, bytes]:
    """All bytes to the end; now and then nothing is read until more waits than fits anywhere."""
    digest, count = hashlib.sha256(), 0
    while data := source.recv(pauses.choice([1000, 65536, 1 << 20])):
        digest.update(data)
        count += len(data)
    return count, digest.digest()


@pytest.mark.parametrize("seed", range(3))
def test_no_byte_is_lost_of_streams_both_ways(service, raw_origin, tunnel, seed):
    """Both ends send and read all the time while four daemons follow each other."""
    results = {}
    streams = {}

    def run(end: str, plain: socket.socket) -> None:
        plain.settimeout(DEADLINE_SECONDS)
        streams[end] = Stream(plain, seed * 2 + (end == "client"))
        streams[end].start()
        results[end] = read_all(plain, random.Random(seed))
        streams[end].join()

    def script(connection):
        connection.switch_protocol()
        assert connection.socket.recv(1) == b"!"
        run("origin", connection.socket)

    origin = raw_origin(script)
    client = tunnel(service.start(), origin)
    client.looked_at = False
    client.send(b"!")  # from here on nobody but `run` reads of it
    thread = threading.Thread(target=run, args=("client", client.socket))
    thread.start()
    wait_until(lambda: len(streams) == 2)
    for _ in range(3):
        waiting = streams["client"].count + (8 << 20)
        wait_until(lambda: streams["client"].count > waiting and streams["origin"].count > 1 << 20)
        service.restart()
    for stream in streams.values():
        stream.over.set()
    thread.join(DEADLINE_SECONDS)
    origin.wait_for("done")
    for sender, receiver in (("client", "origin"), ("origin", "client")):
        assert results[receiver] == (streams[sender].count, streams[sender].digest.digest()), (sender, receiver)
    line = service.proxy.access()
    assert line["outcome"] == "done"
    assert line["bytes_in"] > streams["client"].count and line["bytes_out"] > streams["origin"].count


@pytest.mark.parametrize("piece", [1000, 200_000], ids=["copied", "spliced"])
def test_what_waits_in_the_proxy_both_ways_is_not_lost(service, raw_origin, tunnel, piece):
    """Neither end reads, so that sockets, buffers and pipes are full when the daemon stops."""
    data = {"client": random.Random(1).randbytes(32 << 20), "origin": random.Random(2).randbytes(32 << 20)}
    taken = {}
    reads = threading.Event()

    def script(connection):
        connection.switch_protocol()
        assert connection.socket.recv(1) == b"!"
        taken["origin"] = stuck(connection.socket, data["origin"], piece)
        connection.note("stuck")
        assert reads.wait(DEADLINE_SECONDS)
        read_exactly(connection, data["client"][: taken["client"]])
        connection.wait_for_end()

    def read_exactly(connection, expected: bytes) -> None:
        got = bytearray()
        while len(got) < len(expected):
            got += connection.socket.recv(1 << 20)
        assert got == expected

    origin = raw_origin(lambda connection: script(Noting(connection, origin)))
    client = tunnel(service.start(), origin)
    client.looked_at = False
    client.send(b"!")
    taken["client"] = stuck(client.socket, data["client"], piece)
    origin.wait_for("stuck")
    service.restart()
    service.restart()
    reads.set()
    read_exactly(client, data["origin"][: taken["origin"]])
    client.half_close()
    line = service.proxy.access()
    assert line["bytes_in"] > taken["client"] and line["bytes_out"] > taken["origin"]
    assert line["outcome"] == "done"


class Noting:
    """An origin's connection that can tell the test of something."""

    def __init__(self, connection, origin):
        self.connection, self.note = connection, origin.note

    def __getattr__(self, name: str):
        return getattr(self.connection, name)


def stuck(sink: socket.socket, data: bytes, piece: int) -> int:
    """Sends until nothing has been taken for a while; how much was."""
    sink.setblocking(False)
    taken = 0
    poll = select.poll()
    poll.register(sink, select.POLLOUT)
    while taken < len(data) and poll.poll(300):
        try:
            taken += sink.send(data[taken : taken + piece])
        except BlockingIOError:
            continue
    assert taken < len(data)
    sink.settimeout(DEADLINE_SECONDS)
    return taken


@pytest.mark.parametrize("stops_reading", [False, True], ids=["reading", "not reading"])
def test_a_tunnel_whose_client_has_said_all_goes_on(service, raw_origin, tunnel, stops_reading):
    """What the client said last, and its end, may still wait in the proxy when the daemon stops."""
    goes_on = threading.Event()
    got = {}

    def script(connection):
        connection.switch_protocol()
        if stops_reading:
            assert goes_on.wait(DEADLINE_SECONDS)
        data = bytearray()
        while part := connection.socket.recv(1 << 20):
            data += part
        got["data"] = bytes(data)
        origin.note("all of it")
        assert goes_on.wait(DEADLINE_SECONDS)
        connection.send(b"the answer")

    origin = raw_origin(script)
    client = tunnel(service.start(), origin)
    sent = random.Random(3).randbytes(32 << 20)
    if stops_reading:
        client.looked_at = False
        sent = sent[: stuck(client.socket, sent, 200_000)]
    else:
        client.send(sent[:5000])
        sent = sent[:5000]
    client.half_close()
    if not stops_reading:
        origin.wait_for("all of it")
    service.restart()
    service.restart()
    goes_on.set()
    assert client.receive_exactly(10) == b"the answer"
    assert client.wait_for_end() == "closed"
    assert got["data"] == sent
    assert service.proxy.access()["outcome"] == "done"


def test_a_tunnel_whose_origin_has_said_all_goes_on(service, raw_origin, tunnel):
    sent = {}

    def script(connection):
        connection.switch_protocol()
        data = random.Random(4).randbytes(32 << 20)
        sent["data"] = data[: stuck(connection.socket, data, 200_000)]
        connection.half_close()
        origin.note("all of it")
        assert connection.read_exactly(5) == b"still"
        connection.wait_for_end()

    origin = raw_origin(script)
    client = tunnel(service.start(), origin)
    client.looked_at = False
    origin.wait_for("all of it")
    service.restart()
    client.send(b"still")
    got = client.receive_exactly(len(sent["data"]))
    assert client.wait_for_end() == "closed" and got == sent["data"]
    service.restart()
    client.half_close()
    assert service.proxy.access()["outcome"] == "done"


def test_both_ends_may_leave_while_no_daemon_runs(service, raw_origin, tunnel):
    """What they said last still arrives."""
    leaves = threading.Event()

    def script(connection):
        connection.switch_protocol()
        assert leaves.wait(DEADLINE_SECONDS)
        connection.send(b"the last word")
        connection.half_close()
        origin.note("left")
        connection.wait_for_end()
        origin.note(bytes(connection.received))

    origin = raw_origin(script)
    client = tunnel(service.start(), origin)
    service.stop()
    leaves.set()
    client.send(b"farewell")
    client.half_close()
    origin.wait_for("left")
    service.start()
    assert client.receive_exactly(13) == b"the last word"
    assert client.wait_for_end() == "closed"
    assert origin.events.wait_for(lambda event: event[0] == b"farewell")
    assert service.proxy.access()["outcome"] == "done"


def test_an_end_that_breaks_while_no_daemon_runs_is_logged(service, raw_origin, tunnel):
    origin = raw_origin(tunnel_echo)
    client = tunnel(service.start(), origin)
    service.stop()
    client.reset()
    service.start()
    assert service.proxy.access()["outcome"] == "client-left"
    origin.wait_for("done")


def test_an_idle_tunnel_is_given_no_second_hour(service, raw_origin, tunnel):
    """The time of the configuration holds from the last byte on, which an earlier daemon saw."""
    origin = raw_origin(tunnel_echo)
    client = tunnel(service.start(), origin)
    echoed(client, b"the last byte for long")
    spoken = time.monotonic()
    service.restart()
    service.restart(proxy='[proxy.timeouts]\ntunnel_idle = "1s"')
    assert client.wait_for_end() == "reset"
    assert time.monotonic() - spoken >= 0.9
    line = service.proxy.access()
    assert line["outcome"] == "tunnel-idle" and line["total_ms"] < 1000 * (time.monotonic() - spoken) + 1000


def test_two_hundred_tunnels_go_on(service, raw_origin, tunnel):
    origin = raw_origin(tunnel_echo)
    service.start()
    clients = [tunnel(service.proxy, origin) for _ in range(200)]
    for number, client in enumerate(clients):
        client.send(b"%d" % number * 100)
    service.restart()
    for number, client in enumerate(clients):
        expected = b"%d" % number * 100
        assert client.receive_exactly(len(expected)) == expected
        client.half_close()
    lines = service.proxy.log.wait_for_several(200, is_access)
    assert len({line["ref"] for line in lines}) == 200 and {line["outcome"] for line in lines} == {"done"}
    assert talk(service.proxy)[0] == "200 open tunnels go on"
    assert len(origin.connections) == 200


def test_a_verified_tunnel_goes_on_once_it_is_not_looked_at_any_more(
    manager, secure_proxy, secure_client, tls_origin, world, start_passed
):
    manager.store_places = 10
    listener = listening_socket()
    policy = rule("verified", 'hosts = ["*.test"]', 'connect = "verify"')
    first = secure_proxy(policy, environment=manager.environment)
    server = tls_origin(answering(OK), world.context(world.leaf("a.test")), tunnelled=True)
    client, silent = secure_client(first), secure_client(first)
    assert client.tunnel("a.test", server.port).status == 200
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    assert silent.tunnel("a.test", server.port).status == 200  # and no ClientHello: it is still inspected
    first.terminate()
    silent.close()
    assert first.wait_for_exit() == 0
    (line,) = first.access_lines()
    assert line["outcome"] != "done"
    second = start_passed([("proxy", listener), *manager.stored], environment=manager.environment)
    assert client.get_inside("a.test").body == b"ok"
    client.leave()
    line = second.access()
    assert (line["rule"], line["assurance"], line["outcome"]) == ("verified", "probe", "done")


def test_a_tunnel_by_a_parent_goes_on_and_keeps_its_names(
    service, raw_origin, scripted_parent, socks_server, tunnel
):
    """Route, rule, user: what they were. The route may be gone."""
    parents = {"office": scripted_parent(), "home": socks_server()}
    origins = {name: raw_origin(tunnel_echo) for name in parents}
    policy = "".join(route(name, parent.via_as("127.0.0.1")) for name, parent in parents.items())
    for name, origin in origins.items():
        policy += rule(name, f"ports = [{origin.port}]", f"users = [{os.getuid()}]", by(name))
    first = service.start(policy=policy)
    clients = {name: tunnel(first, origin) for name, origin in origins.items()}
    service.restart()
    service.restart(policy=rule("web"))
    for name, client in clients.items():
        echoed(client, b"here")
        client.half_close()
        line = service.proxy.access(lambda line: line["rule"] == name)
        assert (line["route"], line["upstream"]) == (name, parents[name].authority)
        assert line["user"] == pwd.getpwuid(os.getuid()).pw_name and line["outcome"] == "done"


# What the configuration says meanwhile


@pytest.mark.parametrize(
    "policy", ["", '[[rule]]\nname = "web"\nhosts = ["*"]\naction = "deny"\n'], ids=["no such rule", "denied now"]
)
def test_a_tunnel_stays_allowed_and_is_logged_by_its_rule(service, raw_origin, tunnel, policy):
    """As over a reload: what was allowed when it was opened is not cut."""
    rules = '[[rule]]\nname = "web"\nhosts = ["127.0.0.1"]\n'
    origin = raw_origin(tunnel_echo)
    client = tunnel(service.start(policy=rules), origin)
    service.restart(policy=policy)
    echoed(client, b"x")
    client.half_close()
    assert service.proxy.access()["rule"] == "web"


def test_tunnels_count_for_connections_per_host_again(service, raw_origin, raw_client, tunnel):
    cap = "[proxy.limits]\nconnections_per_host = 2\n"
    origin = raw_origin(tunnel_echo)
    clients = [tunnel(service.start(proxy="workers = 2", policy=cap), origin) for _ in range(1)]
    clients += [tunnel(service.proxy, origin)]
    service.restart()
    waiting = raw_client(service.proxy)
    waiting.send(f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
    # An answer to another client shows that the daemon runs and has had time to be wrong.
    other = raw_client(service.proxy)
    other.send(b"OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
    assert other.answer().status == 200 and waiting.nothing_came() and len(origin.connections) == 2
    clients[0].close()
    assert waiting.answer().status == 200
    origin.wait_for("accepted", 2)


# When it happens


def test_tunnels_move_while_requests_finish(service, raw_origin, raw_client, tunnel):
    answers = threading.Event()

    def slow(connection):
        connection.read_request()
        assert answers.wait(DEADLINE_SECONDS)
        connection.send(OK)
        connection.wait_for_end()

    proxy = service.start(proxy="workers = 2")
    client, asking = tunnel(proxy, raw_origin(tunnel_echo)), raw_client(proxy)
    late = raw_origin(slow)
    asking.send(f"GET {late.url}/ HTTP/1.1\r\nHost: {late.authority}\r\n\r\n".encode())
    late.wait_for("accepted")
    service.manager.messages.wait_for(lambda message: "READY" in message)
    proxy.terminate()
    service.manager.messages.wait_for(lambda message: "STOPPING" in message)
    # It tries out whether something is kept, and takes that back.
    service.manager.forgotten.wait_for()
    for _ in range(20):
        echoed(client, b"still here")
    assert service.manager.stored == [] and proxy.process.poll() is None
    answers.set()
    assert asking.answer().status == 200
    assert proxy.wait_for_exit() == 0
    service.start()
    echoed(client, b"and now here")


def test_the_deadline_hands_over_too(service, raw_origin, raw_client, tunnel):
    """A request that never ends is answered 503 when the time for draining is over; the tunnel beside it goes on."""
    proxy = service.start(proxy='[proxy.timeouts]\ndrain = "500ms"')
    client, asking = tunnel(proxy, raw_origin(tunnel_echo)), raw_client(proxy)
    never = raw_origin(lambda connection: (connection.read_request(), connection.wait_for_end()))
    asking.send(f"GET {never.url}/ HTTP/1.1\r\nHost: {never.authority}\r\n\r\n".encode())
    never.wait_for("accepted")
    service.restart()
    assert proxy.access()["outcome"] == "shutting-down"
    echoed(client, b"here")


def test_a_second_signal_hands_over_at_once(service, raw_origin, raw_client, tunnel):
    proxy = service.start()
    client, asking = tunnel(proxy, raw_origin(tunnel_echo)), raw_client(proxy)
    never = raw_origin(lambda connection: (connection.read_request(), connection.wait_for_end()))
    asking.send(f"GET {never.url}/ HTTP/1.1\r\nHost: {never.authority}\r\n\r\n".encode())
    never.wait_for("accepted")
    proxy.terminate()
    service.manager.messages.wait_for(lambda message: "STOPPING" in message)
    service.restart()
    assert proxy.access()["outcome"] == "shutting-down"
    echoed(client, b"here")


# What the store does not hold


def test_without_a_store_tunnels_have_the_time_for_draining(service, raw_origin, tunnel):
    service.manager.store_places = 0
    proxy = service.start()
    client, other = tunnel(proxy, raw_origin(tunnel_echo)), tunnel(proxy, raw_origin(tunnel_echo))
    proxy.terminate()
    service.manager.messages.wait_for(lambda message: "STOPPING" in message)
    echoed(client, b"still here")
    client.half_close()
    assert client.wait_for_end() == "closed"
    assert proxy.process.poll() is None
    proxy.terminate()
    assert other.wait_for_end() == "reset"
    assert proxy.wait_for_exit() == 0
    assert {line["outcome"] for line in proxy.access_lines()} == {"done", "shut-down"}
    assert talk(proxy)[-1] == "stopped"


def test_what_the_store_does_not_hold_ends_as_without_one(service, raw_origin, tunnel):
    """Systemd says nothing of how much it keeps: what it refuses is found out and ends, and the rest goes on."""
    service.manager.store_places = 3
    proxy = service.start()
    origin = raw_origin(tunnel_echo)
    clients = [tunnel(proxy, origin) for _ in range(5)]
    service.restart()
    assert [line["outcome"] for line in proxy.access_lines()] == ["shut-down"] * 2
    going_on = [client for client in clients if not readable(client.socket)]
    assert len(going_on) == 3
    for client in going_on:
        echoed(client, b"here")
    for client in clients:
        if client not in going_on:
            assert client.wait_for_end() == "reset"


def test_where_the_store_says_that_it_is_too_small_nothing_ends_before_it_must(service, raw_origin, tunnel):
    service.manager.store_places = 3
    proxy = service.start(environment={"FDSTORE": "3"}, proxy="workers = 2")
    origin = raw_origin(tunnel_echo)
    clients = [tunnel(proxy, origin) for _ in range(5)]
    proxy.terminate()
    service.manager.messages.wait_for(lambda message: "STOPPING" in message)
    for client in clients:
        echoed(client, b"still here")
    for client in clients[:2]:
        client.half_close()
        assert client.wait_for_end() == "closed"
    assert proxy.wait_for_exit() == 0  # as soon as the rest fits
    service.start()
    for client in clients[2:]:
        echoed(client, b"here")
    assert [line["outcome"] for line in proxy.access_lines()] == ["done", "done"]


def test_a_bus_that_does_not_answer_is_not_waited_for(service, raw_origin, tunnel, tmp_path):
    """Systemd cannot be asked then why it stops the daemon: a restart is taken for granted."""
    with socket.socket(socket.AF_UNIX) as bus:
        bus.bind(str(tmp_path / "bus"))
        bus.listen()
        address = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={tmp_path}/bus"}
        client = tunnel(service.start(environment=address), raw_origin(tunnel_echo))
        begun = time.monotonic()
        service.restart()
        assert readable(bus), "nobody asked"
        assert 0.9 <= time.monotonic() - begun < DEADLINE_SECONDS / 2
        echoed(client, b"here")


def test_a_connection_under_tls_that_ends_here_is_not_kept(
    service, manager, secure_proxy, tls_origin, raw_client, world
):
    """An upgraded connection with TLS to the origin ends with the daemon: its keys do."""

    def script(connection):
        connection.read_request()
        connection.switch_protocol()
        connection.send(SWITCHING)
        connection.wait_for_end()

    server = tls_origin(script, world.context(world.leaf("a.test")))
    proxy = secure_proxy(environment=manager.environment)
    client = raw_client(proxy)
    client.send(f"GET https://a.test:{server.port}/ HTTP/1.1\r\nHost: a.test:{server.port}\r\n".encode() + UPGRADE)
    client.send(b"\r\n")
    assert client.message().status == 101
    proxy.terminate()
    manager.messages.wait_for(lambda message: "STOPPING" in message)
    proxy.terminate()
    assert client.wait_for_end() == "reset"
    assert proxy.wait_for_exit() == 0
    assert proxy.access()["outcome"] == "shut-down" and manager.stored == []


# What comes back


def test_a_start_that_fails_takes_nothing_away(service, raw_origin, tunnel, tmp_path):
    """The next one that succeeds has the tunnels."""
    client = tunnel(service.start(), raw_origin(tunnel_echo))
    service.stop()
    configuration = tmp_path / "bad.toml"
    for text in ("[proxy]\nlisten = 3\n", f'[admin]\nsocket = "{tmp_path}/no/such/directory"\n'):
        configuration.write_text(text)
        run = subprocess.run(
            [*passing([("proxy", service.listener), *service.manager.stored]), binary(), "run", "--config", configuration],
            capture_output=True, env=clean_environment(**service.manager.environment), close_fds=False,
            timeout=DEADLINE_SECONDS,
        )
        assert run.returncode == 1
    assert len(service.manager.stored) == 1
    service.start()
    echoed(client, b"here")
    assert service.manager.stored == []


def test_no_tunnel_comes_twice(service, raw_origin, tunnel):
    """A daemon that crashes has moved bytes of which its successor would know nothing."""
    client = tunnel(service.start(), raw_origin(tunnel_echo))
    service.restart()
    echoed(client, b"moved")
    service.proxy.expected_exit = {-signal.SIGKILL}
    service.proxy.process.kill()
    service.proxy.process.wait(DEADLINE_SECONDS)
    assert service.manager.stored == []
    assert client.wait_for_end() in ("closed", "reset")


def memory_file(content: bytes) -> int:
    number = os.memfd_create("test")
    os.write(number, content)
    return number


def parcel(*contents: int, messages: int = 1) -> int:
    """As a daemon makes them: a socket in whose queue a message with descriptors waits."""
    kept, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for _ in range(messages):
        socket.send_fds(sender, [b"p"], list(contents))
    sender.close()
    for number in contents:
        os.close(number)
    return kept.detach()


def connection() -> tuple[int, socket.socket]:
    """One end of a TCP connection, to be passed, and the other, on which its end is seen."""
    with listening_socket() as listener:
        one = socket.create_connection(listener.getsockname())
        other = listener.accept()[0]
    other.settimeout(DEADLINE_SECONDS)
    return one.detach(), other


def junk_parcels() -> list[tuple[str, int, list[socket.socket]]]:
    """What each is, its number, and sockets that must be closed when it is."""
    cases = [
        ("a file", memory_file(b"junk"), []),
        ("a pipe", os.dup(os.pipe()[0]), []),
        ("an empty parcel", parcel(messages=0), []),
        ("one descriptor only", parcel(memory_file(b"junk")), []),
    ]
    plain, seen = connection()
    cases.append(("a bare connection", plain, [seen]))
    for name, content in [
        ("no record", b""),
        ("junk", b"junk" * 1000),
        ("a record of the future", b"sallyport tunnel" + struct.pack(">H", 999)),
        ("a record that is cut", b"sallyport tunnel" + struct.pack(">H", 1) + b"\0" * 40),
        ("a record of nothing but ones", b"sallyport tunnel" + struct.pack(">H", 1) + b"\xff" * 2000),
        ("too much", b"\0" * (8 << 20)),
    ]:
        one, first = connection()
        other, second = connection()
        cases.append((name, parcel(memory_file(content), one, other), [first, second]))
    one, first = connection()
    cases.append(("no file", parcel(os.dup(one), one, os.dup(one)), [first]))
    one, first = connection()
    cases.append(("too many", parcel(memory_file(b"x"), *(os.dup(one) for _ in range(6)), one), [first]))
    return cases


def test_what_is_no_tunnel_is_closed(service, raw_origin, tunnel):
    """One good tunnel among much that is none: the daemon starts, says what it closed, and carries the good one on."""
    client = tunnel(service.start(), raw_origin(tunnel_echo))
    service.stop()
    cases = junk_parcels()
    seen = [end for _, _, ends in cases for end in ends]
    for _, number, _ in cases:
        service.manager.stored.append(("tunnel", Stored(number)))
    service.start()
    echoed(client, b"here")
    for end in seen:
        with end:
            assert end.recv(1) == b""
    service.proxy.log.wait_for(lambda entry: entry.get("message") == "1 open tunnel goes on")
    said = [text for text in talk(service.proxy) if "that systemd kept" in text]
    assert len(said) == len(cases), said
    assert service.manager.stored == []


def test_records_with_swapped_bytes_never_break_the_daemon(service, raw_origin, tunnel):
    """A true record, altered at random: each comes to a tunnel or to a line, and the daemon lives."""
    client = tunnel(service.start(), raw_origin(tunnel_echo))
    service.stop()
    (name, true_parcel), = service.manager.stored
    with socket.socket(fileno=os.dup(true_parcel.number)) as opened:
        # recv_fds() of the library takes flags and heeds none: it would take the message out.
        _, ((_, _, rights),), _, _ = opened.recvmsg(1, socket.CMSG_SPACE(12), socket.MSG_PEEK)
    numbers = struct.unpack("3i", rights[:12])
    record = os.pread(numbers[0], 1 << 20, 0)
    for number in numbers:
        os.close(number)
    generator = random.Random(6)
    ends = []
    for _ in range(300):
        altered = bytearray(record)
        for _ in range(generator.choice([1, 1, 2, 10])):
            altered[generator.randrange(18, len(altered))] = generator.choice([0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x41])
        one, first = connection()
        other, second = connection()
        ends += [first, second]
        service.manager.stored.append((name, Stored(parcel(memory_file(bytes(altered)), one, other))))
    service.start()
    echoed(client, b"here")
    said = service.proxy.log.wait_for(lambda entry: entry.get("message", "").endswith("go on"))["message"]
    closed = [text for text in talk(service.proxy) if "that systemd kept" in text]
    assert len(closed) > 50 and int(said.split()[0]) == 301 - len(closed)
    for end in ends:
        end.close()
    client.half_close()
    lines = service.proxy.log.wait_for_several(301 - len(closed), is_access)
    assert all(entry.get("not_json") is None for entry in service.proxy.log.snapshot()) and lines
