"""The socket of the admin API, and HTTP on the raw wire: what is malformed, hostile, slow, or too much."""

import json
import os
import re
import signal
import socket
import stat
import threading
import time
from collections import Counter

import pytest

from admin_world import ADMIN, administered, DENY, raw_admin
from admin_client import AdminConnection, request
from journal import DEADLINE_SECONDS, readable
from problems import check_problem
from proxy import Proxy, command, configuration_text
from raw_client import Ended
from test_policy import get


# The socket


def test_the_socket_has_its_mode_and_goes_with_the_daemon(administered):
    old = os.umask(0o077)
    try:
        proxy = administered()
    finally:
        os.umask(old)
    status = proxy.admin.path.stat()
    assert stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o660
    proxy.terminate()
    assert proxy.wait_for_exit() == 0
    assert not proxy.admin.path.exists()


def test_the_socket_of_a_daemon_that_was_killed_is_replaced(administered, tmp_path):
    first = administered(directory=tmp_path)
    first.expected_exit = {-signal.SIGKILL}
    first.process.kill()
    first.wait_for_exit()
    assert first.admin.path.exists()
    second = administered(directory=tmp_path)
    assert second.admin.json("/v1/status")["exchanges"]["total"] == 0


def start_failure(tmp_path, path: str) -> str:
    """The daemon must not start with this socket; what it says."""
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(configuration_text(policy=f'[admin]\nsocket = "{path}"\n'))
    done = command("run", "--config", configuration)
    assert done.returncode == 1, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert done.stdout == "", "it must not say that it is ready"
    return done.stderr


def test_a_path_that_another_daemon_answers_on_is_left_to_it(administered, tmp_path):
    proxy = administered()
    said = start_failure(tmp_path, str(proxy.admin.path))
    assert str(proxy.admin.path) in said and re.search("in use|already|answers|another", said), said
    assert proxy.admin.json("/v1/status")["listen"] == [proxy.authority]


def test_a_path_that_a_foreign_program_listens_on_is_left_to_it(tmp_path, sallyport_binary):
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(tmp_path / "foreign.sock"))
        foreign.listen()
        assert "foreign.sock" in start_failure(tmp_path, "foreign.sock")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(tmp_path / "foreign.sock"))


@pytest.mark.parametrize("kind", ["file", "directory", "dangling link", "link to a file"])
def test_a_path_that_is_no_socket_is_left_as_it_is(kind, tmp_path, sallyport_binary):
    path = tmp_path / "there"
    (tmp_path / "content").write_text("precious")
    if kind == "file":
        path.write_text("precious")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / ("content" if kind == "link to a file" else "nowhere"))
    before = path.lstat()
    assert "there" in start_failure(tmp_path, "there")
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert (tmp_path / "content").read_text() == "precious" and not (tmp_path / "nowhere").exists()


def test_a_missing_directory_that_was_asked_for_is_a_failure(tmp_path, sallyport_binary):
    said = start_failure(tmp_path, "missing/admin.sock")
    assert "missing/admin.sock" in said and "No such file" in said


def test_a_path_that_is_too_long_for_a_socket_is_a_failure(tmp_path, sallyport_binary):
    assert "long" in start_failure(tmp_path, "x" * 120).lower()


def test_no_api_and_no_complaint_where_the_default_directory_is_missing(sallyport):
    if os.path.exists("/run/sallyport"):
        pytest.skip("/run/sallyport exists")
    proxy = sallyport(policy=DENY)
    proxy.terminate()
    assert proxy.wait_for_exit() == 0
    assert "admin" not in "".join(proxy.raw_log)
    done = command("status", "--config", proxy.configuration)
    assert done.returncode == 1 and "/run/sallyport/admin.sock" in done.stderr


def test_a_daemon_that_cannot_listen_leaves_no_socket(tmp_path, sallyport_binary):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f'["127.0.0.1:{taken.getsockname()[1]}"]'
        (tmp_path / "sallyport.toml").write_text(configuration_text(policy=ADMIN, listen=listen))
        assert command("run", "--config", tmp_path / "sallyport.toml").returncode == 1
    assert not (tmp_path / "admin.sock").exists()


# The wire


def test_keep_alive_and_pipelining(administered, raw_admin):
    proxy = administered()
    connection = raw_admin(proxy)
    paths = ["/v1/status", "/v1/rules", "/nothing", "/v1/pins", "/v1/connections", "/metrics"] * 20
    connection.send(b"".join(request(path) for path in paths))
    statuses = [connection.answer().status for _ in paths]
    assert statuses == [404 if path == "/nothing" else 200 for path in paths]
    assert connection.exchange(request("/v1/status", lines="Connection: close\r\n")).status == 200
    assert connection.wait_for_end() == "closed"


def test_a_request_byte_by_byte(administered, raw_admin):
    connection = raw_admin(administered())
    connection.send_bytewise(request("/v1/status", lines="Accept: application/json\r\n"))
    assert connection.answer().status == 200


@pytest.mark.parametrize("path", ["/v1/status", "/v1/rules", "/v1/pins", "/v1/connections", "/metrics", "/nothing"])
def test_head_is_as_get_without_the_body(path, administered, raw_admin):
    proxy = administered()
    connection = raw_admin(proxy)
    head, whole = connection.exchange(request(path, "HEAD")), connection.exchange(request(path))
    assert head.status == whole.status and head.body == b""
    assert head.value("Content-Type") == whole.value("Content-Type") and head.value("Content-Length")


METHODS = [
    ("/v1/status", "POST", b"GET"),
    ("/v1/status", "DELETE", b"GET"),
    ("/v1/rules", "PUT", b"GET"),
    ("/v1/events", "POST", b"GET"),
    ("/metrics", "PATCH", b"GET"),
    ("/v1/decisions/AAAAAA", "POST", b"GET"),
    ("/v1/status", "FROBNICATE", b"GET"),
    ("/v1/reload", "GET", b"POST"),
    ("/v1/reload", "HEAD", b"POST"),
    ("/v1/drain", "GET", b"POST"),
    ("/v1/drain", "DELETE", b"POST"),
]


@pytest.mark.parametrize("path, method, allowed", METHODS)
def test_a_method_that_a_resource_has_not(path, method, allowed, administered, raw_admin):
    proxy = administered()
    connection = raw_admin(proxy)
    answer = connection.exchange(request(path, method))
    assert answer.status == 405 and allowed.lower() in answer.options("Allow")
    assert connection.exchange(request("/v1/status")).status == 200


def test_the_resources_list_themselves(administered, raw_admin):
    proxy = administered()
    connection = raw_admin(proxy)
    listed = json.loads(connection.exchange(request("/v1")).body)["resources"]
    assert {"method": "POST", "path": "/v1/reload", "right": "act", "query": ["close_denied"], "what": "Reads the configuration again."} in listed
    for row in listed:
        path = row["path"].replace("{ref}", "AAAAAA")
        own = [other for other in listed if other["path"] == row["path"]]
        answer = connection.exchange(request(path, "OPTIONS"))
        assert (answer.status, json.loads(answer.body)["resources"]) == (200, own)
        allowed = answer.options("Allow")
        assert row["method"].lower().encode() in allowed and b"options" in allowed and b"delete" not in allowed
        refused = connection.exchange(request(path, "DELETE"))
        assert refused.status == 405 and refused.options("Allow") == allowed
        # A name that its query does not have.
        assert connection.exchange(request(f"{path}?nonsense=1", row["method"])).status == 400


@pytest.mark.parametrize(
    "path",
    ["/", "/v1/", "/v1/status/", "/v2/status", "/v1/Status", "/v1/statusx", "/metrics/x",
     "/v1/../v1/status", "//v1/status", "/%76%31/nothing"],
)
def test_a_path_that_there_is_not(path, administered):
    answer = administered().admin.ask(path)
    assert answer.status == 404 and json.loads(answer.body)["status"] == 404


def test_a_query_that_a_resource_has_not_is_400(administered):
    answer = administered().admin.ask("/v1/status?pretty=1")
    assert answer.status == 400 and "'pretty'" in json.loads(answer.body)["detail"]


def test_every_answer_says_when_and_that_it_is_not_to_be_kept(administered):
    """RFC 9110 section 6.6.1: who has a clock sends Date with each 2xx, 3xx and 4xx."""
    proxy = administered()
    for path in ("/v1/status", "/metrics", "/nothing"):
        answer = proxy.admin.ask(path)
        assert answer.value("Cache-Control") == b"no-store"
        assert answer.value("Date"), f"{path}: no Date in {answer.fields}"


DRAIN = b"POST /v1/drain HTTP/1.1\r\nHost: a\r\n\r\n"


# Each: what is sent, and the statuses that are sound; None: an end without an answer is sound too
HOSTILE = {
    "garbage": (b"\x00\xff\xfe garbage \x01\r\n\r\n", {400, None}),
    "a TLS ClientHello": (bytes.fromhex("16030100c8010000c40303") + b"\0" * 189, {400, None}),
    "a preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 405, 505, None}),
    "HTTP/0.9": (b"GET /v1/status\r\n\r\n", {400, 505, None}),
    "HTTP/3.0": (b"GET /v1/status HTTP/3.0\r\nHost: a\r\n\r\n", {400, 505}),
    "a version that is none": (b"GET /v1/status HTPP/1.1\r\nHost: a\r\n\r\n", {400, 505}),
    "no Host": (b"GET /v1/status HTTP/1.1\r\n\r\n", {400}),
    "two Hosts": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", {400}),
    "a space before the colon": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", {400}),
    "a folded line": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", {400}),
    "a NUL in a value": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", {400}),
    "a bare CR in a value": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", {400}),
    "a line without a colon": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", {400}),
    "a line without a name": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n", {400}),
    "a head of 1 MiB": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2**20 + b"\r\n\r\n", {400, 431}),
    "a head without an end": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 2**20, {400, 431}),
    "a target of 1 MiB": (b"GET /" + b"x" * 2**20 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {400, 404, 414, 431}),
    "100,000 fields": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\n" + b"x:\r\n" * 100_000 + b"\r\n", {400, 431}),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", {400, 404, 405, 501}),
    "an asterisk": (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", {200, 204, 400, 404, 405}),
    "a length that is none": (b"POST /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n" + DRAIN, {400}),
    "a negative length": (b"POST /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n" + DRAIN, {400}),
    "a length with a sign": (b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n" + DRAIN, {400}),
    "two lengths": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 39\r\n\r\n" + DRAIN,
        {400},
    ),
    "a length and chunks": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + DRAIN,
        {400},
    ),
    "an unknown coding": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n" + DRAIN,
        {400, 501},
    ),
    "chunks that are none": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + DRAIN,
        {200, 400, 411, 413, 501},
    ),
    "a length above all numbers": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n" + DRAIN,
        {400, 413},
    ),
    "drain in a body": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(DRAIN) + DRAIN,
        {200, 400, 413},
    ),
    "drain in a chunk": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(DRAIN)
        + DRAIN
        + b"\r\n0\r\n\r\n",
        {200, 400, 411, 413, 501},
    ),
    "a body of 10 MiB": (
        b"GET /v1/status HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (10 * 2**20)
        + DRAIN * (10 * 2**20 // len(DRAIN)),
        {200, 400, 413, None},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_refused_and_harms_nothing(name, administered):
    data, statuses = HOSTILE[name]
    proxy = administered()
    connection = proxy.admin.connection()
    sender = threading.Thread(target=connection.send, args=(data,), daemon=True)
    sender.start()  # beside the reading: what is sent may be refused before it is taken
    status = None
    try:
        head = connection.receive_until(b"\r\n\r\n")
        status = int(re.match(rb"HTTP/1\.[01] (\d{3}) ", head)[1])
    except Ended:
        pass
    assert status in statuses, f"{status}: {bytes(connection.received)[:300]!r}"
    connection.half_close()
    connection.wait_for_end()
    assert len(re.findall(rb"HTTP/1\.1 202 ", connection.received)) == 0, "a body was taken for a request"
    try:
        connection.socket.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sender.join(DEADLINE_SECONDS)
    connection.close()
    after = proxy.admin.json("/v1/status")
    assert after["draining"] is False and proxy.process.poll() is None


def test_chunked_and_lengthy_bodies_do_not_shift_the_next_request(administered, raw_admin):
    """Either the body is read and the connection goes on in step, or the connection ends."""
    proxy = administered()
    for framing in (
        request("/v1/reload", "POST", body=b"x" * 10),
        request("/v1/reload", "POST", "Transfer-Encoding: chunked\r\n") + b"a;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
    ):
        connection = raw_admin(proxy)
        connection.looked_at = False
        connection.send(framing + request("/nothing"))
        first = connection.answer()
        assert first.status in (200, 400, 411, 413, 501)
        try:
            assert connection.answer().status == 404
        except Ended:
            assert b"close" in first.options("Connection")


def test_expect_100_continue_is_not_a_deadlock(administered, raw_admin):
    connection = raw_admin(administered())
    connection.looked_at = False
    connection.send(b"POST /v1/reload HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    status = int(connection.receive_until(b"\r\n\r\n").split()[1])
    assert status == 100 or status in (200, 413, 417)
    if status == 100:
        connection.send(b"hello")
        assert connection.receive_until(b"\r\n\r\n").split()[1] == b"200"


def test_http_1_0(administered):
    proxy = administered()
    connection = proxy.admin.connection()
    connection.send(b"GET /v1/status HTTP/1.0\r\n\r\n")
    assert connection.wait_for_end() == "closed"
    head, _, body = bytes(connection.received).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and json.loads(body)["version"]
    assert b"transfer-encoding" not in head.lower()
    connection.close()


@pytest.mark.parametrize("path", ["/v1/status", "/metrics", "/v1/connections"])
def test_a_client_that_half_closes_gets_its_answer(path, administered, raw_client):
    proxy = administered()
    for _ in range(200):
        raw_client(proxy)
    with proxy.admin.connection() as connection:
        connection.send(request(path))
        connection.half_close()
        assert connection.answer().status == 200
        assert connection.wait_for_end() == "closed"


def test_a_reader_that_takes_no_answers_is_no_burden(administered, raw_client):
    """Requests without end and nobody who reads: what is held for the answers has a bound."""
    proxy = administered(DENY)
    proxy.admin.json("/v1/status")
    before = proxy.private_bytes()
    connection = proxy.admin.connection()
    connection.socket.setblocking(False)
    data, sent = request("/metrics") * 1000, 0
    poll_rounds = 0
    while sent < 20 * 2**20 and poll_rounds < 20:
        try:
            sent += connection.socket.send(data[: len(data)])
            poll_rounds = 0
        except BlockingIOError:
            check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403)
            poll_rounds += 1
        except (BrokenPipeError, ConnectionResetError):
            break
    assert proxy.private_bytes() - before < 16 * 1024 * 1024
    assert proxy.admin.json("/v1/status")["draining"] is False
    connection.close()


# Places

MOST_CONNECTIONS = 64


def fill(proxy: Proxy, data: bytes, count: int = MOST_CONNECTIONS) -> list[AdminConnection]:
    """So many connections that have said this, each of which the daemon has seen."""
    connections = []
    for number in range(count):
        connections.append(proxy.admin.connection())
        connections[-1].send(data)
        if number % 16 == 15 or number == count - 1:
            proxy.admin.json("/v1/status")  # whoever came before has been taken in
    return connections


SILENT = {
    "nothing": b"",
    "a part of a head": b"GET /v1/status HTTP/1.1\r\nHost: a\r\n",
    "a head without its body": b"POST /v1/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhell",
}


@pytest.mark.parametrize("said", SILENT)
def test_who_never_asks_makes_way(said, administered, raw_client):
    """Every place is taken by clients that ask nothing; an operator is served at once, and the oldest of them has left."""
    proxy = administered(DENY)
    silent = fill(proxy, SILENT[said], MOST_CONNECTIONS + 10)
    for _ in range(3):
        assert proxy.admin.json("/v1/status")["draining"] is False
    # 74 have come, and one more at a time that was served; 64 may be there.
    ended = [connection for connection in silent if readable(connection.socket, 0)]
    assert ended == silent[: len(ended)] and 10 <= len(ended) <= 11, len(ended)
    check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403)
    for connection in silent:
        connection.close()


def test_bytes_that_make_no_request_win_no_time(administered):
    """The one that came first goes first, though it has just sent another byte."""
    proxy = administered()
    dripping = fill(proxy, b"GET /v1/status HT")
    for connection in dripping[:32]:
        connection.send(b"T")
    assert proxy.admin.json("/v1/status")["draining"] is False
    assert dripping[0].wait_for_end() in ("closed", "reset")
    for connection in dripping[-8:]:
        connection.send(b"TP/1.1\r\nHost: a\r\n\r\n")
        assert b" 200 " in connection.receive_until(b"\r\n")
    for connection in dripping:
        connection.close()


def test_who_has_asked_stays_longer_than_who_has_not(administered):
    proxy = administered()
    kept = [proxy.admin.connection() for _ in range(8)]
    for connection in kept:
        assert connection.exchange(request("/v1/status")).status == 200
    silent = fill(proxy, b"", MOST_CONNECTIONS)
    for connection in kept:
        assert connection.exchange(request("/v1/status")).status == 200, "the silent ones had to go first"
        connection.close()
    for connection in silent:
        connection.close()


def test_readers_of_events_are_pushed_out_by_nobody(administered):
    proxy = administered()
    watchers = [proxy.admin.events() for _ in range(16)]
    silent = fill(proxy, b"", MOST_CONNECTIONS * 2)
    assert proxy.admin.ask("/v1/reload", "POST").status == 200
    for watcher in watchers:
        assert watcher.next().kind == "reload"
        watcher.close()
    for connection in silent:
        connection.close()


def as_many_as_possible(proxy: Proxy, wanted: int) -> list[AdminConnection]:
    """Connections until there are so many, or the kernel's queue is full (EAGAIN on a unix socket): at least the 64."""
    connections = []
    try:
        while len(connections) < wanted:
            connections.append(proxy.admin.connection())
    except BlockingIOError:
        assert len(connections) >= 64, f"{len(connections)} connections only"
    return connections


def test_more_connections_than_are_served(administered, raw_client):
    """100 at once: each is answered, or ended, once others have left; the proxy itself does not notice."""
    proxy = administered(DENY)
    connections = as_many_as_possible(proxy, 100)
    check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403)
    for connection in connections:
        connection.send(request("/v1/status"))
    statuses = Counter()
    waiting = connections
    while waiting:
        ready = [connection for connection in waiting if readable(connection.socket, 0.01)]
        if not ready:
            end = time.monotonic() + DEADLINE_SECONDS
            while not any(readable(connection.socket, 0.05) for connection in waiting):
                assert time.monotonic() < end, f"{len(waiting)} connections hang; so far {statuses}"
            continue
        for connection in ready:
            try:
                statuses[connection.answer().status] += 1
            except Ended:
                statuses["ended"] += 1
            connection.close()
            waiting.remove(connection)
    assert set(statuses) <= {200, 503, "ended"} and statuses[200] >= 64, statuses
    assert proxy.admin.json("/v1/status")["draining"] is False
    check_problem(raw_client(proxy).exchange(get("x.ads.test", 80)), 403)
