"""limits.connections_per_host: a cap for the whole process, tunnels included; what is above it waits, first in first out.

A slot must come free whenever what held it is over, however that came about, and an idle connection that is only kept
for later must never be what somebody waits for. (One loop and its order are in test_limits.py.)
"""

import select
import threading

import pytest

from journal import DEADLINE_SECONDS, happens
from origins import answering, tunnel_echo
from problems import check_problem
from tls_world import (
    OK,
    answering_and_closing,
    authority,
    client_context,
    get,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)

CAP = "[proxy.limits]\nconnections_per_host = {}\n"


def plain(origin, path: str = "/", lines: str = "") -> bytes:
    return get("a.test", origin.port, path, lines, scheme="http")


def connect(origin) -> bytes:
    return f"CONNECT a.test:{origin.port} HTTP/1.1\r\nHost: a.test:{origin.port}\r\n\r\n".encode()


class Crowd:
    """A script that counts how many connections are open at once, and answers when it is let."""

    def __init__(self):
        self.lock = threading.Lock()
        self.connections = []
        self.most = 0
        self.released = threading.Semaphore(0)

    def __call__(self, connection) -> None:
        with self.lock:
            self.connections.append(connection)
            self.most = max(self.most, sum(map(is_open, self.connections)))
        while True:
            connection.read_request()
            assert self.released.acquire(timeout=DEADLINE_SECONDS)
            connection.send(OK)


def is_open(connection) -> bool:
    """Whether the proxy has not closed it. The kernel knows at once, a thread that reads would learn it too late; what is
    there to be read another thread may read, and a peek would wait."""
    try:
        return not happens(connection.socket, select.POLLRDHUP, 0)
    except (OSError, ValueError):  # closed on this side already
        return False


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("cap", [1, 3])
def test_the_cap_is_of_the_whole_process(cap, workers, secure_proxy, raw_origin, raw_client):
    """Forty clients over all loops: all are served, and never by more connections than the cap."""
    crowd = Crowd()
    proxy, origin = secure_proxy(CAP.format(cap), proxy=f"workers = {workers}"), raw_origin(crowd)
    clients = [raw_client(proxy) for _ in range(40)]
    for client in clients:
        client.send(plain(origin))
    origin.events.wait_for_several(cap, lambda event: event[0] == "accepted")
    for _ in clients:
        crowd.released.release()
    assert {client.answer().status for client in clients} == {200}
    assert crowd.most <= cap, f"{crowd.most} connections were open at once"


def test_another_host_is_not_held_up(secure_proxy, raw_origin, raw_client):
    crowd = Crowd()
    proxy, full, free = secure_proxy(CAP.format(1)), raw_origin(crowd), raw_origin(answering(OK))
    first, second = raw_client(proxy), raw_client(proxy)
    first.send(plain(full))
    full.wait_for("accepted")
    second.send(plain(full))
    assert raw_client(proxy).exchange(plain(free)).body == b"ok"
    crowd.released.release(2)
    assert first.answer().body == second.answer().body == b"ok"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_tunnel_counts(workers, secure_proxy, raw_origin, raw_client):
    """Eight tunnels through one slot: each waits for the end of the one before."""
    proxy, origin = secure_proxy(CAP.format(1), proxy=f"workers = {workers}"), raw_origin(tunnel_echo)
    clients = [raw_client(proxy) for _ in range(8)]
    for client in clients:
        client.send(connect(origin))
    waiting = list(clients)
    while waiting:
        (client,) = wait_for_one(waiting)
        waiting.remove(client)
        assert client.answer().status == 200
        client.send(b"sally")
        assert client.receive_exactly(5) == b"sally"
        assert all(other.nothing_came() for other in waiting), "two tunnels were open at once"
        client.half_close()
        client.wait_for_end()
    assert len(origin.connections) == 8


def wait_for_one(clients) -> list:
    """The clients, one of which has got something; there must be exactly one."""
    poll = select.poll()
    for client in clients:
        poll.register(client.socket, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(DEADLINE_SECONDS * 1000)}
    return [client for client in clients if client.socket.fileno() in ready]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_an_idle_connection_is_given_up_for_whoever_waits(workers, secure_proxy, raw_origin, raw_client):
    """Requests leave a kept connection behind, on whichever loop; a tunnel to the same host must not wait for its time-out."""

    def script(connection) -> None:
        if connection.number % 2 == 0:
            answering(OK)(connection)
        else:
            tunnel_echo(connection)

    proxy, origin = secure_proxy(CAP.format(1), proxy=f"workers = {workers}"), raw_origin(script)
    for _ in range(4):
        assert raw_client(proxy).exchange(plain(origin)).body == b"ok"
        tunnel = raw_client(proxy)
        assert tunnel.exchange(connect(origin)).status == 200
        tunnel.send(b"sally")
        assert tunnel.receive_exactly(5) == b"sally"
        tunnel.half_close()
        tunnel.wait_for_end()


@pytest.mark.parametrize("workers", [2, 4])
def test_an_idle_connection_of_another_loop_is_given_up(workers, secure_proxy, raw_origin, raw_client):
    """Sixteen clients in turn, each on a loop of its own choice, all with one slot."""
    proxy, origin = secure_proxy(CAP.format(1), proxy=f"workers = {workers}"), raw_origin(answering(OK))
    clients = [raw_client(proxy) for _ in range(16)]
    for _ in range(2):
        for client in clients:
            assert client.exchange(plain(origin)).body == b"ok"


@pytest.mark.parametrize("ending", ["closes", "resets"])
def test_who_waits_may_leave(ending, secure_proxy, raw_origin, raw_client):
    crowd = Crowd()
    proxy, origin = secure_proxy(CAP.format(1)), raw_origin(crowd)
    first, *waiting = [raw_client(proxy) for _ in range(6)]
    first.send(plain(origin, "/first"))
    origin.wait_for("accepted")
    for number, client in enumerate(waiting):
        client.send(plain(origin, f"/{number}"))
    for client in waiting[:3]:
        client.close() if ending == "closes" else client.reset()
    for _ in range(6):
        crowd.released.release()
    assert [client.answer().status for client in [first, *waiting[3:]]] == [200] * 3


def test_who_is_served_may_leave(secure_proxy, raw_origin, raw_client):
    """A client that goes in the middle of its answer frees the slot."""

    def script(connection) -> None:
        if connection.number == 0:
            connection.read_request()
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            connection.wait_for_end()
        else:
            answering(OK)(connection)

    proxy, origin = secure_proxy(CAP.format(1)), raw_origin(script)
    first, second = raw_client(proxy), raw_client(proxy)
    first.send(plain(origin))
    first.receive_until(b"half")
    second.send(plain(origin))
    first.reset()
    first.looked_at = False
    assert second.answer().body == b"ok"


def test_a_connection_that_fails_frees_its_slot(secure_proxy, raw_client, raw_origin):
    def script(connection) -> None:
        if connection.number < 3:
            connection.read_request()
            connection.reset()
        else:
            answering(OK)(connection)

    proxy, origin = secure_proxy(CAP.format(1)), raw_origin(script)
    for _ in range(3):
        post = get("a.test", origin.port, "/", "Content-Length: 0\r\n", method="POST", scheme="http")
        check_problem(raw_client(proxy).exchange(post), 502)
    assert raw_client(proxy).exchange(plain(origin)).body == b"ok"


def test_the_time_in_the_queue_counts_for_the_whole_exchange(secure_proxy, raw_origin, raw_client):
    crowd = Crowd()
    policy = CAP.format(1) + rule("hasty", 'paths = ["/hasty"]', request='timeout = "300ms"')
    proxy, origin = secure_proxy(policy), raw_origin(crowd)
    first, hasty = raw_client(proxy), raw_client(proxy)
    first.send(plain(origin))
    origin.wait_for("accepted")
    problem = check_problem(hasty.exchange(plain(origin, "/hasty")), 504, rule="hasty")
    assert proxy.access_of(problem.reference)["status"] == 504
    crowd.released.release(2)
    assert first.answer().body == b"ok"
    assert raw_client(proxy).exchange(plain(origin)).body == b"ok"


# With TLS


@pytest.mark.parametrize("workers", [1, 2])
def test_a_probe_does_not_wait_for_the_slot_of_its_own_tunnel(
    workers, secure_proxy, tls_origin, secure_client, world
):
    proxy = secure_proxy(CAP.format(1) + rule("verified", 'connect = "verify"'), proxy=f"workers = {workers}")
    origin = tls_origin(answering_and_closing(), world.context(world.leaf("a.test")), tunnelled=True)
    for _ in range(4):
        client = secure_client(proxy)
        assert client.tunnel("a.test", origin.port).status == 200
        client.shake_hands(client_context(world.root), "a.test")
        assert client.get_inside("a.test").body == b"ok"
        client.leave()


def test_verified_tunnels_wait_for_each_other(secure_proxy, tls_origin, secure_client, world):
    proxy = secure_proxy(CAP.format(1) + rule("verified", 'connect = "verify"'), proxy="workers = 1")
    origin = tls_origin(answering_and_closing(), world.context(world.leaf("a.test")), tunnelled=True)
    waiting = [secure_client(proxy) for _ in range(5)]
    for client in waiting:
        client.send(connect(origin))
    while waiting:
        (client,) = wait_for_one(waiting)
        waiting.remove(client)
        assert client.answer().status == 200
        client.shake_hands(client_context(world.root), "a.test")
        assert client.get_inside("a.test").body == b"ok"
        client.leave()


@pytest.mark.parametrize("workers", [1, 2])
def test_connections_of_two_policies_make_way_for_each_other(
    workers, secure_proxy, tls_origin, raw_client, world
):
    """They are pooled apart, but the host is one."""
    policy = CAP.format(1) + rule("old", 'paths = ["/old/*"]', security='max_tls = "1.2"')
    proxy = secure_proxy(policy, proxy=f"workers = {workers}")
    origin = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    for number in range(4):
        for path in ("/old", "/new"):
            answer = raw_client(proxy).exchange(get("a.test", origin.port, f"{path}/{number}"))
            assert answer.body == b"ok"


def test_a_handshake_that_is_refused_frees_its_slot(secure_proxy, tls_origin, raw_client, world):
    proxy = secure_proxy(CAP.format(1), proxy="workers = 1")
    contexts = [world.context(world.leaf("b.test"))] * 3 + [world.context(world.leaf("a.test"))]
    origin = tls_origin(answering(OK), lambda number, hello: contexts[min(number, 3)])
    client = raw_client(proxy)
    for _ in range(3):
        check_problem(client.exchange(get("a.test", origin.port)), 502, error="tls_certificate_error")
    assert client.exchange(get("a.test", origin.port)).body == b"ok"


def test_intercepted_clients_share_what_there_is(secure_proxy, tls_origin, secure_client, authority, world):
    policy = CAP.format(1) + authority.table + rule("seen", 'connect = "intercept"')
    proxy = secure_proxy(policy, proxy="workers = 2")
    origin = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    clients = [secure_client(proxy) for _ in range(6)]
    for client in clients:
        assert client.tunnel("a.test", origin.port).status == 200
        client.shake_hands(client_context(authority.file), "a.test")
    head = f"GET / HTTP/1.1\r\nHost: a.test:{origin.port}\r\n\r\n".encode()
    for _ in range(3):
        for client in clients:
            client.send(head)
        assert {client.answer().body for client in clients} == {b"ok"}
