"""Every limit and every time-out of [proxy.limits] and [proxy.timeouts], drain and second SIGTERM, descriptors used up.

Each time-out is set to a fraction of a second and the test waits for what it brings, so that nothing sleeps. That it did
not come at once is seen by the clock. Where a test must know that nothing happens, it watches the process for as long
as another time-out of the proxy takes to end.
"""

import contextlib
import socket
import threading
import time

import pytest

from admin_client import AdminClient
from conftest import need
from journal import DEADLINE_SECONDS, readable, writable
from origins import answering, listening_socket, silent, tunnel_echo
from problems import check_problem
from raw_client import Ended, RawClient
from reachability_world import ADMIN
from users_world import NUMBERED, STRANGER, client_of  # noqa: F401

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ONE_WORKER = "workers = 1"


def get(origin, path: str = "/", lines: str = "", method: str = "GET") -> bytes:
    return f"{method} http://{origin.authority}{path} HTTP/1.1\r\nHost: {origin.authority}\r\n{lines}\r\n".encode()


def connect(origin) -> bytes:
    return f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()


def limits(*lines: str) -> str:
    return "\n".join(["[proxy.limits]", *lines, ""])


def timeouts(*lines: str) -> str:
    return "\n".join(["[proxy.timeouts]", *lines, ""])


@contextlib.contextmanager
def takes_at_least(seconds: float):
    """What a time-out brings must not come before it."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun >= seconds * 0.9, "it came too early"


# Heads


def test_a_request_head_of_just_the_limit_passes_and_a_longer_one_is_431(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=limits('header_bytes = "4KiB"')), raw_origin(answering(OK))
    fill = 4096 - len(get(origin, lines="X: \r\n"))
    assert raw_client(proxy).exchange(get(origin, lines=f"X: {'a' * fill}\r\n")).body == b"ok"
    client = raw_client(proxy)
    client.send(get(origin, lines=f"X: {'a' * (fill + 1)}\r\n"))
    problem = check_problem(client.answer(), 431)
    assert client.wait_for_end() == "closed"
    assert proxy.access_of(problem.reference)["status"] == 431
    assert len(origin.requests()) == 1


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_a_response_head_above_the_limit_is_502(size, sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=limits('header_bytes = "4KiB"'))
    origin = raw_origin(
        answering(b"HTTP/1.1 200 OK\r\nX: " + b"a" * size + b"\r\nContent-Length: 2\r\n\r\nok")
    )
    problem = check_problem(raw_client(proxy).exchange(get(origin)), 502)
    assert problem.error in ("http_response_header_section_size", "http_response_header_size")


def test_too_many_fields_of_a_request_are_431(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=limits("headers = 20")), raw_origin(answering(OK))
    fields = [f"X-{number}: y\r\n" for number in range(40)]
    assert raw_client(proxy).exchange(get(origin, lines="".join(fields[:15]))).body == b"ok"
    client = raw_client(proxy)
    client.send(get(origin, lines="".join(fields)))
    check_problem(client.answer(), 431)
    assert client.wait_for_end() == "closed"


def test_too_many_fields_of_a_response_are_502(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=limits("headers = 20"))
    fields = b"".join(b"X-%d: y\r\n" % number for number in range(40))
    origin = raw_origin(answering(b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 2\r\n\r\nok"))
    problem = check_problem(raw_client(proxy).exchange(get(origin)), 502)
    assert problem.error in ("http_response_header_section_size", "http_response_header_size")


@pytest.mark.parametrize("where", ["request", "response"])
def test_trailers_have_the_limits_of_a_head(where, sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=limits('header_bytes = "4KiB"'))
    body = b"2\r\nok\r\n0\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"
    if where == "response":
        origin = raw_origin(answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body))
        client = raw_client(proxy)
        client.send(get(origin))
        client.wait_for_end() if not client.receive_until(b"\r\n\r\n").startswith(b"HTTP/1.1 502 ") else None
        assert not any(message.status == 200 for message in client.check().messages)
    else:
        origin = raw_origin(answering(OK))
        client = raw_client(proxy)
        client.send(get(origin, lines="Transfer-Encoding: chunked\r\n", method="POST") + body)
        answer = client.answer()
        check_problem(answer, 431 if answer.status == 431 else 400)
        assert client.wait_for_end() == "closed"


# Slow and idle clients


def test_a_slow_head_is_408(sallyport, raw_client):
    proxy = sallyport(policy=timeouts('client_header = "300ms"', 'client_idle = "10m"'))
    client = raw_client(proxy)
    with takes_at_least(0.3):
        client.send(b"GET http://a.test/ HTTP/1.1\r\nHost: a")
        problem = check_problem(client.answer(), 408)
        assert client.wait_for_end() == "closed"
    assert proxy.access_of(problem.reference)["status"] == 408


def test_a_head_that_trickles_is_408_all_the_same(sallyport, raw_client):
    """The time counts from the first byte to the end of the head, not from byte to byte."""
    proxy = sallyport(policy=timeouts('client_header = "500ms"'))
    client = raw_client(proxy)
    begun = time.monotonic()
    client.send(b"GET http://a.test/ HTTP/1.1\r\nX: ")
    while not readable(client.socket, 0.02):
        client.send(b"a")
        assert time.monotonic() - begun < DEADLINE_SECONDS, "a client that trickles is never cut off"
    check_problem(client.answer(), 408)


def test_a_slow_second_head_is_408(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=timeouts('client_header = "300ms"')), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.exchange(get(origin))
    client.send(b"G")
    check_problem(client.answer(), 408)


def test_a_slow_head_is_not_the_time_before_its_first_byte(sallyport, raw_origin, raw_client):
    """client_header of 100 ms, a client that begins its second request after 300: it is served."""
    proxy, origin = sallyport(policy=timeouts('client_header = "100ms"', 'client_idle = "10m"')), raw_origin(
        answering(OK)
    )
    client = raw_client(proxy)
    assert client.exchange(get(origin)).body == b"ok"
    for _ in range(3):  # three time-outs of another client pass
        other = raw_client(proxy)
        other.send(b"G")
        check_problem(other.answer(), 408)
    assert client.exchange(get(origin)).body == b"ok"


def test_a_client_that_says_nothing_has_the_time_of_a_head(sallyport, raw_client):
    """Between requests a client may be idle for long; one that never asked has nothing to be kept for."""
    proxy = sallyport(policy=timeouts('client_header = "300ms"', 'client_idle = "10m"'))
    client = raw_client(proxy)
    with takes_at_least(0.3):
        assert client.wait_for_end() == "closed"
    assert client.unread() == b""
    assert proxy.access_lines() == []


@pytest.mark.parametrize("after", [0, 1], ids=["that never asked", "between two requests"])
def test_an_idle_client_is_closed_without_a_word(after, sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=timeouts('client_idle = "300ms"')), raw_origin(answering(OK))
    client = raw_client(proxy)
    for _ in range(after):
        client.exchange(get(origin))
    with takes_at_least(0.3):
        assert client.wait_for_end() == "closed"
    assert client.unread() == b""
    assert len(proxy.access_lines()) == after


def test_a_client_that_waits_for_its_answer_is_not_idle(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=timeouts('client_idle = "100ms"'))
    idle = raw_client(proxy)

    def late(connection) -> None:
        connection.read_request()
        connection.socket.setblocking(True)
        closed.wait(DEADLINE_SECONDS)
        connection.send(OK)
        connection.wait_for_end()

    closed = threading.Event()
    client = raw_client(proxy)
    client.send(get(raw_origin(late)))
    for _ in range(3):  # three idle clients come and are closed meanwhile
        assert idle.wait_for_end() == "closed"
        idle = raw_client(proxy)
    closed.set()
    assert client.answer().body == b"ok"


# Upstream time-outs


@contextlib.contextmanager
def full_listener(address: str = "127.0.0.1", port: int = 0):
    """A listening socket whose queue is full: the kernel drops every further SYN, so that a connect never ends."""
    listener = listening_socket(address, port, backlog=0)
    fillers = []
    try:
        while True:
            filler = socket.socket(listener.family, socket.SOCK_STREAM)
            filler.setblocking(False)
            fillers.append(filler)
            with contextlib.suppress(BlockingIOError):
                filler.connect(listener.getsockname())
            if not writable(filler, 0.2):
                break
        yield listener.getsockname()[1]
    finally:
        for each in [*fillers, listener]:
            each.close()


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_connect_that_never_ends_is_504(method, sallyport, raw_client):
    proxy = sallyport(policy=timeouts('connect = "300ms"'))
    with full_listener() as port:
        target = f"127.0.0.1:{port}" if method == "CONNECT" else f"http://127.0.0.1:{port}/"
        with takes_at_least(0.3):
            answer = raw_client(proxy).exchange(
                f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
            )
    problem = check_problem(answer, 504, error="connection_timeout")
    line = proxy.access_of(problem.reference)
    assert line["status"] == 504 and line["outcome"] != "done"


def test_an_origin_that_never_answers_is_504(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=timeouts('response_header = "300ms"')), raw_origin(silent)
    with takes_at_least(0.3):
        problem = check_problem(raw_client(proxy).exchange(get(origin)), 504, error="http_response_timeout")
    assert proxy.access_of(problem.reference)["status"] == 504
    origin.wait_for("done")


def test_an_origin_that_answers_half_a_head_is_504(sallyport, raw_origin, raw_client):
    def half(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")
        connection.wait_for_end()

    proxy = sallyport(policy=timeouts('response_header = "300ms"'))
    check_problem(raw_client(proxy).exchange(get(raw_origin(half))), 504, error="http_response_timeout")


def test_a_timed_out_exchange_is_not_retried(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(proxy=ONE_WORKER, policy=timeouts('response_header = "300ms"')), raw_origin(
        silent
    )
    check_problem(raw_client(proxy).exchange(get(origin)), 504)
    origin.wait_for("done", 0)
    assert len(origin.connections) == 1


def test_the_time_of_an_upload_is_not_the_time_of_the_answer(sallyport, raw_origin, raw_client):
    """response_header counts from the end of the request: a slow upload that never stalls is no slow answer."""
    proxy, origin = sallyport(policy=timeouts('response_header = "300ms"')), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(get(origin, lines="Content-Length: 30\r\n", method="POST"))
    for _ in range(30):
        assert not readable(client.socket, 0.03), "an answer in the middle of the upload"
        client.send(b"x")
    assert client.answer().body == b"ok"


def test_a_stalled_request_body_is_given_up(sallyport, raw_origin, raw_client):
    def reading(connection) -> None:
        connection.read_head()
        connection.wait_for_end()

    proxy, origin = sallyport(policy=timeouts('body_stall = "300ms"', 'response_header = "10m"')), raw_origin(
        reading
    )
    client = raw_client(proxy)
    client.send(get(origin, lines="Content-Length: 10\r\n", method="POST") + b"hello")
    with takes_at_least(0.2):
        check_problem(client.answer(), 408)
    assert client.wait_for_end() == "closed"
    origin.wait_for("done")


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]
)
def test_a_stalled_response_body_is_given_up(framing, sallyport, raw_origin, raw_client):
    def stalling(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\n" + framing)
        connection.wait_for_end()

    proxy, origin = sallyport(policy=timeouts('body_stall = "300ms"')), raw_origin(stalling)
    client = raw_client(proxy)
    client.send(get(origin))
    with takes_at_least(0.2):
        client.wait_for_end()
    assert client.check().ended == "in the body"
    origin.wait_for("done")
    assert proxy.access(lambda line: line["upstream"] == origin.authority)["outcome"] != "done"


def test_a_client_that_stops_reading_is_given_up(sallyport, raw_origin, raw_client):
    """The stall may be the client's: nobody may hold an upstream connection by not reading."""

    def endless(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.send(bytes(1 << 20))

    proxy, origin = sallyport(policy=timeouts('body_stall = "300ms"')), raw_origin(endless)
    client = raw_client(proxy, receive_buffer=4096)
    client.looked_at = False
    client.send(get(origin))
    origin.wait_for("done")
    assert proxy.access(lambda line: line["upstream"] == origin.authority)["outcome"] != "done"


def test_a_body_that_trickles_is_no_stall(sallyport, raw_origin, raw_client):
    def trickling(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n")
        for _ in range(20):
            readable(connection.socket, 0.03)
            connection.send(b"x")
        connection.wait_for_end()

    proxy = sallyport(policy=timeouts('body_stall = "300ms"'))
    assert raw_client(proxy).exchange(get(raw_origin(trickling))).body == b"x" * 20


def test_an_idle_upstream_connection_is_closed(sallyport, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(OK)
        begun = time.monotonic()
        connection.wait_for_end()
        origin.note("idle for", time.monotonic() - begun)

    proxy, origin = sallyport(policy=timeouts('upstream_idle = "300ms"', 'client_idle = "10m"')), raw_origin(
        script
    )
    client = raw_client(proxy)
    client.exchange(get(origin))
    assert origin.wait_for("idle for")[1] >= 0.27
    assert client.exchange(get(origin)).body == b"ok"


def test_an_idle_tunnel_is_closed(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=timeouts('tunnel_idle = "300ms"', 'client_idle = "50ms"')), raw_origin(
        tunnel_echo
    )
    client = raw_client(proxy)
    client.exchange(connect(origin))
    client.send(b"x")
    assert client.receive_exactly(1) == b"x"
    with takes_at_least(0.25):
        client.wait_for_end()
    origin.wait_for("done")
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert (line["status"], line["target"]) == (200, origin.authority)


def test_a_tunnel_with_bytes_one_way_is_not_idle(sallyport, raw_origin, raw_client):
    def ticking(connection) -> None:
        connection.switch_protocol()
        for _ in range(20):
            readable(connection.socket, 0.03)
            connection.send(b"x")
        connection.wait_for_end()

    proxy = sallyport(policy=timeouts('tunnel_idle = "300ms"'))
    client = raw_client(proxy)
    client.exchange(connect(raw_origin(ticking)))
    assert client.receive_exactly(20) == b"x" * 20


# Numbers of connections


def test_clients_above_the_limit_wait_and_are_served_when_one_leaves(sallyport, raw_origin, raw_client):
    """They wait in the kernel's queue, unaccepted and unanswered."""
    proxy, origin = sallyport(proxy=ONE_WORKER, policy=limits("connections = 4")), raw_origin(answering(OK))
    served = [raw_client(proxy) for _ in range(4)]
    assert [client.exchange(get(origin)).body for client in served] == [b"ok"] * 4
    waiting = [raw_client(proxy) for _ in range(3)]
    for client in waiting:
        client.send(get(origin, "/waited"))
    for client in served * 5:
        assert client.exchange(get(origin)).body == b"ok"
    assert all(client.nothing_came() for client in waiting)
    assert not any(message.target == b"/waited" for message in origin.requests())
    for leaving, client in zip(served, waiting):
        leaving.close()
        assert client.answer().body == b"ok"


def test_tunnels_count_as_client_connections(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(proxy=ONE_WORKER, policy=limits("connections = 2")), raw_origin(tunnel_echo)
    tunnels = [raw_client(proxy) for _ in range(2)]
    for client in tunnels:
        assert client.exchange(connect(origin)).status == 200
    waiting = raw_client(proxy)
    waiting.send(connect(origin))
    tunnels[0].send(b"x")
    assert tunnels[0].receive_exactly(1) == b"x"
    assert waiting.nothing_came()
    tunnels[0].close()
    assert waiting.message().status == 200


def test_only_so_many_idle_connections_of_one_host_are_kept(sallyport, raw_origin, raw_client):
    proxy = sallyport(proxy=ONE_WORKER, policy=limits("idle_per_host = 2"))
    together = threading.Barrier(5)

    def script(connection) -> None:
        connection.read_request()
        together.wait(DEADLINE_SECONDS)
        connection.send(OK)
        connection.wait_for_end()

    origin = raw_origin(script)
    clients = [raw_client(proxy) for _ in range(5)]
    for client in clients:
        client.send(get(origin))
    assert [client.answer().body for client in clients] == [b"ok"] * 5
    origin.events.wait_for_several(3, lambda event: event[0] == "done")
    assert len(origin.connections) == 5
    assert sum(connection.ended is None for connection in origin.connections) == 2


def test_requests_above_the_cap_of_one_host_queue_in_order(sallyport, raw_origin, raw_client):
    proxy = sallyport(proxy=ONE_WORKER, policy=limits("connections_per_host = 1"))
    released = threading.Semaphore(0)

    def script(connection) -> None:
        while True:
            request = connection.read_request()
            origin.note("asked", request.target)
            released.acquire(timeout=DEADLINE_SECONDS)
            connection.send(OK)

    origin = raw_origin(script)
    clients = []
    for number in range(4):
        clients.append(raw_client(proxy))
        clients[-1].send(get(origin, f"/{number}"))
        if number == 0:
            origin.wait_for("asked")
        else:  # an exchange with another origin in between: the one before has been read by then
            assert raw_client(proxy).exchange(get(raw_origin(answering(OK)))).body == b"ok"
    asked = [event for event in origin.events.snapshot() if event[0] == "asked"]
    assert asked == [("asked", b"/0")], "more than one at a time"
    for number, client in enumerate(clients):
        released.release()
        assert client.answer().body == b"ok"
    asked = [event[1] for event in origin.events.snapshot() if event[0] == "asked"]
    assert asked == [b"/0", b"/1", b"/2", b"/3"]
    assert len(origin.connections) == 1


# The end


def test_sigterm_lets_requests_under_way_finish_and_takes_no_new_ones(sallyport, raw_origin, raw_client):
    released = threading.Event()

    def late(connection) -> None:
        connection.read_request()
        released.wait(DEADLINE_SECONDS)
        connection.send(OK)
        connection.wait_for_end()

    proxy, origin = sallyport(), raw_origin(late)
    idle, client = raw_client(proxy), raw_client(proxy)
    idle.exchange(get(raw_origin(answering(OK))))
    client.send(get(origin))
    origin.wait_for("accepted")
    proxy.terminate()
    assert idle.wait_for_end() == "closed", "an idle client need not be waited for"
    wait_until_refused(proxy.address)
    released.set()
    answer = client.answer()
    assert answer.body == b"ok"
    assert client.wait_for_end() == "closed"
    assert proxy.wait_for_exit() == 0


def test_a_line_end_behind_a_request_is_no_request(sallyport, raw_origin, raw_client):
    """Old clients send one behind a body (RFC 9112, 2.2): no head is awaited then, and a stop need not wait for it."""
    proxy, origin = sallyport(policy=timeouts('client_header = "200ms"')), raw_origin(answering(OK))
    clients = [raw_client(proxy) for _ in range(2)]
    for client in clients:
        assert client.exchange(get(origin) + b"\r\n").body == b"ok"
    assert not readable(clients[0].socket, 1), "it was told of a head that it has not begun"
    assert clients[0].exchange(get(origin)).body == b"ok"
    proxy.terminate()
    assert [client.wait_for_end() for client in clients] == ["closed"] * 2
    assert not clients[1].received[clients[1].read_to :]
    assert proxy.wait_for_exit() == 0


def wait_until_refused(address) -> None:
    """Connect until the kernel refuses. A connection that comes before every worker has heard is closed unserved."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        try:
            client = RawClient(address)
        except ConnectionRefusedError:
            return
        client.wait_for_end()
        assert not client.received
        client.close()
    raise AssertionError("it still takes connections")


def test_drain_ends_what_takes_too_long(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=timeouts('drain = "500ms"')), raw_origin(silent)
    tunnel_origin = raw_origin(tunnel_echo)
    client, tunnel = raw_client(proxy), raw_client(proxy)
    tunnel.exchange(connect(tunnel_origin))
    client.send(get(origin))
    origin.wait_for("accepted")
    begun = time.monotonic()
    proxy.terminate()
    status = proxy.wait_for_exit()
    assert 0.4 <= time.monotonic() - begun < DEADLINE_SECONDS / 2
    assert status == 0
    client.wait_for_end()
    tunnel.wait_for_end()
    assert {line["method"] for line in proxy.access_lines()} >= {
        "GET",
        "CONNECT",
    }, "what was cut off is accounted for"


def test_a_second_sigterm_ends_at_once(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=timeouts('drain = "10m"')), raw_origin(silent)
    client, idle = raw_client(proxy), raw_client(proxy)
    idle.exchange(get(raw_origin(answering(OK))))
    client.send(get(origin))
    origin.wait_for("accepted")
    proxy.terminate()
    assert idle.wait_for_end() == "closed"  # the first one has been taken
    assert proxy.process.poll() is None
    proxy.terminate()
    status = proxy.wait_for_exit()
    assert status >= 0 or status == -15
    proxy.expected_exit = {status}


def test_a_stopped_proxy_can_be_started_on_its_port_at_once(sallyport, raw_origin, raw_client):
    first, origin = sallyport(), raw_origin(answering(OK))
    client = raw_client(first)
    client.exchange(get(origin))
    first.terminate()
    assert first.wait_for_exit() == 0
    second = sallyport(listen=f'["{first.authority}"]')
    assert raw_client(second).exchange(get(origin)).body == b"ok"


# Descriptors


def test_descriptors_used_up_pause_accept_and_nothing_spins(sallyport, raw_origin, raw_client):
    """64 descriptors, 200 clients: it works on for those it has, sleeps, and serves the others when they leave."""
    need("prlimit")
    proxy = sallyport(
        proxy=ONE_WORKER,
        policy=timeouts('response_header = "2s"', 'client_idle = "10m"'),
        prefix=("prlimit", "--nofile=64:64"),
    )
    unanswering, origin = raw_origin(silent), raw_origin(answering(OK))
    clock = raw_client(proxy)
    clock.send(get(unanswering))
    unanswering.wait_for("accepted")
    crowd = [raw_client(proxy) for _ in range(200)]
    for client in crowd:
        client.send(b"G")
    before, begun = proxy.cpu_seconds(), time.monotonic()
    check_problem(clock.answer(), 504)
    share = (proxy.cpu_seconds() - before) / (time.monotonic() - begun)
    assert proxy.descriptors() >= 32, f"only {proxy.descriptors()} of 64 are used: the test measures nothing"
    assert share < 0.25, f"it spins: {share:.0%} of a core while there is nothing to do"
    assert proxy.process.poll() is None
    for client in crowd:
        client.close()
    assert raw_client(proxy).exchange(get(origin)).body == b"ok"


def test_one_users_idle_clients_leave_descriptors_to_others(sallyport, raw_origin, client_of):
    """Each has asked once and stays. Whoever comes then is served, and operators can see what is going on."""
    need("prlimit")
    proxy = sallyport(proxy=ONE_WORKER, policy=ADMIN, prefix=("prlimit", "--nofile=256:256"))
    origin = raw_origin(answering(OK))
    for _ in range(300):
        client = client_of(proxy, STRANGER)
        client.looked_at = False
        with contextlib.suppress(ConnectionError):
            client.send(get(origin))
    assert client_of(proxy, NUMBERED).exchange(get(origin)).body == b"ok"
    assert AdminClient(proxy.configuration.parent / "admin.sock").json("/v1/status")["connections"]["clients"] > 60


@pytest.mark.parametrize("attempt", range(6))
def test_a_crowd_at_the_moment_it_is_ready_ends_nothing(attempt, sallyport, raw_origin, raw_client):
    """Whatever the proxy needs for itself it must hold before it says that it is ready. Six attempts: it is a race."""
    need("prlimit")
    proxy = sallyport(proxy=ONE_WORKER, prefix=("prlimit", "--nofile=40:40"))
    crowd = []
    with contextlib.suppress(ConnectionError):
        for _ in range(100):
            crowd.append(raw_client(proxy))
    for client in crowd:
        client.close()
    with contextlib.suppress(ConnectionError, Ended):
        assert raw_client(proxy).exchange(get(raw_origin(answering(OK)))).body == b"ok"
    assert proxy.process.poll() is None, "".join(proxy.raw_log[-3:])


def test_a_request_without_a_descriptor_for_its_upstream_is_answered(sallyport, raw_origin, raw_client):
    """Clients that hold every descriptor ask all at once: each is served or told; none is left without a word."""
    need("prlimit")
    proxy = sallyport(proxy=ONE_WORKER, prefix=("prlimit", "--nofile=40:40"))
    origin = raw_origin(answering(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"))
    clients = [raw_client(proxy) for _ in range(100)]
    for client in clients:
        client.send(get(origin, lines="Connection: close\r\n"))
    statuses = [client.answer().status for client in clients]
    assert set(statuses) <= {200, 502, 503}, statuses
    assert statuses.count(200) >= 1
    assert raw_client(proxy).exchange(get(origin)).status == 200


# Many


def test_two_thousand_idle_clients(sallyport, raw_origin, raw_client):
    """Each has asked once and stays; the next is served, none is closed, and the memory of each is small."""
    proxy, origin = sallyport(), raw_origin(answering(OK))
    # What each loop remembers of its last exchanges is nobody's: it is full before anything is measured.
    for _ in range(16):
        client = raw_client(proxy)
        for _ in range(160):
            client.exchange(get(origin))
    before = proxy.private_bytes()
    # One after another: what is held is what they leave behind, not what they needed together. Each asks as it comes:
    # on a slow machine the last would wait longer for its turn than a client may wait before it asks.
    clients = []
    for _ in range(2000):
        clients.append(raw_client(proxy))
        assert clients[-1].exchange(get(origin)).body == b"ok"
    assert raw_client(proxy).exchange(get(origin)).body == b"ok"
    assert all(client.nothing_came() for client in clients), "some were closed"
    each = (proxy.private_bytes() - before) / len(clients)
    assert each < 2048, f"an idle client costs {each:.0f} bytes"
    for client in clients:
        client.send(get(origin))
    for client in clients:
        assert client.answer().body == b"ok"


def test_a_thousand_tunnels(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(), raw_origin(tunnel_echo)
    tunnels = [raw_client(proxy) for _ in range(1000)]
    for client in tunnels:
        client.send(connect(origin) + b"hello")
    for client in tunnels:
        assert client.message().status == 200
        assert client.receive_exactly(5) == b"hello"
    for client in tunnels:
        client.close()
    proxy.log.wait_for_several(1000, lambda line: line.get("method") == "CONNECT")


def test_descriptors_come_back(sallyport, raw_origin, raw_client):
    """Clients that come, ask, break off or stay silent, many times: as many descriptors as before."""
    proxy = sallyport(proxy=ONE_WORKER, policy=timeouts('upstream_idle = "100ms"'))
    origin, tunnel = raw_origin(answering(OK)), raw_origin(tunnel_echo)
    raw_client(proxy).exchange(get(origin))
    before = proxy.descriptors()
    for _ in range(50):
        plain, broken, tunnelling, nothing = (raw_client(proxy) for _ in range(4))
        plain.exchange(get(origin))
        tunnelling.exchange(connect(tunnel))
        broken.send(b"GET http://a")
        broken.reset()
        for client in (plain, tunnelling, nothing):
            client.close()
    spare = 2  # the exchange that follows keeps a pair of its own
    end = time.monotonic() + DEADLINE_SECONDS
    while proxy.descriptors() > before + spare and time.monotonic() < end:
        client = raw_client(proxy)  # an exchange takes a moment, in which the last ones are closed
        client.exchange(get(origin, lines="Connection: close\r\n"))
        client.wait_for_end()
    assert proxy.descriptors() <= before + spare
