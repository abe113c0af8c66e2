"""Plain tunnels whose beginning is looked at: names that front for others, requests in the clear, ports that are not listed.

What is refused reaches the other end with not one byte, whether the tunnel goes straight or by a parent; what is not TLS
and no request passes as it came, and a server may speak first.
"""

import hashlib
import socket
import ssl
import subprocess
import threading

import pytest

from conftest import need
from journal import DEADLINE_SECONDS
from origins import RawOrigin, listening_socket, unused_port
from parents import (
    ADA, by, http_parent, microsocks, need_users, programs, real_parent, route, routed, secure_parent
)
from proxy import clean_environment
from tls_world import ChainServer, Site, client_context, rule, secure_proxy, world

SANDBOX = 'default = "deny"'
LARGE = hashlib.shake_128(b"a plain tunnel").digest(4 * 1024 * 1024)
SPEAKING = rule("no-deletes", 'hosts = ["*.test"]', 'methods = ["DELETE"]', 'action = "deny"')


class Peer:
    """A server that keeps what it gets; what it says at first and answers is the test's."""

    def __init__(self, greeting: bytes = b"", answer: bytes = b"", address: str = "127.0.0.1", port: int = 0):
        self.greeting, self.answer = greeting, answer
        self.listener = listening_socket(address, port)
        self.port = self.listener.getsockname()[1]
        self.received: list[bytearray] = []
        self.done = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            connection.settimeout(DEADLINE_SECONDS)
            kept = bytearray()
            self.received.append(kept)
            try:
                connection.sendall(self.greeting)
                while part := connection.recv(65536):
                    kept += part
                    if self.answer and bytes(kept).endswith(b"\n"):
                        connection.sendall(self.answer)
            except OSError:
                pass
            connection.close()
            self.done.release()

    def wait_until_done(self) -> bytes:
        """What came on the connection that ended last."""
        assert self.done.acquire(timeout=DEADLINE_SECONDS)
        return bytes(self.received[-1])

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@pytest.fixture
def peer():
    running: list[Peer] = []

    def start(*arguments, **more) -> Peer:
        running.append(Peer(*arguments, **more))
        return running[-1]

    yield start
    for started in running:
        started.stop()


@pytest.fixture
def fronted(world, tmp_path):
    """nginx with two names, of which a policy may allow one."""
    need("nginx")
    server = ChainServer(
        world, tmp_path, [Site((name,), [world.leaf(name), world.issuing]) for name in ("a.test", "b.test")]
    )
    yield server
    server.stop()


def tunnel(proxy, host: str, port: int, then: bytes = b"") -> socket.socket:
    """A tunnel that was granted; `then` goes with the CONNECT."""
    client = socket.create_connection(proxy.address, DEADLINE_SECONDS)
    client.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode() + then)
    head = b""
    while b"\r\n\r\n" not in head:
        part = client.recv(1)
        assert part, head
        head += part
    assert head.startswith(b"HTTP/1.1 200 "), head
    return client


def read_to_end(client: socket.socket) -> bytes:
    received = b""
    try:
        while part := client.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    client.close()
    return received


def hello(name: str | None) -> bytes:
    """The first bytes of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def warning(proxy, *words: str) -> None:
    proxy.log.wait_for(lambda entry: all(word in str(entry) for word in words))


def s_client(proxy, server: ChainServer, protocol: str, host: str, name: str | None, *more: str):
    need("openssl")
    return subprocess.run(
        ["openssl", "s_client", "-proxy", proxy.authority, "-connect", f"{host}:{server.ports[protocol]}",
         *(["-servername", name] if name else ["-noservername"]), "-verify_quiet", *more],
        input=f"GET / HTTP/1.0\r\nHost: {name or host}\r\n\r\n",
        capture_output=True, text=True, env=clean_environment(), timeout=DEADLINE_SECONDS,
    )


def is_ok(run) -> bool:
    """Whether nginx answered what was asked inside."""
    return "\nok" in run.stdout.replace("\r", "")


# Names


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_tunnel_to_an_allowed_name_fronts_for_no_other(protocol, fronted, secure_proxy, tmp_path):
    port = fronted.ports[protocol]
    proxy = secure_proxy(
        rule("a", 'hosts = ["a.test"]', f"ports = [{port}]"), proxy=SANDBOX
    )
    right = s_client(proxy, fronted, protocol, "a.test", "a.test", "-ign_eof")
    assert is_ok(right), right
    # However the two ends part.
    assert proxy.access(lambda line: line["assurance"] == "sni")["status"] == 200
    for name, error, expected in [
        ("b.test", "other-server-name", ["names the server b.test", "a.test was expected"]),
        (None, "missing-server-name", ["names no server", "a.test was expected"]),
    ]:
        wrong = s_client(proxy, fronted, protocol, "a.test", name)
        assert wrong.returncode != 0 and not is_ok(wrong)
        line = proxy.access(lambda line: line["outcome"] == error)
        assert line["rule"] == "a" and line["status"] == 200 and line["assurance"] == "none"
        warning(proxy, "tunnel refused", *expected)
    assert (tmp_path / "access.log").read_text().count("\n") <= 1


def test_clients_that_resume_and_curl_pass(fronted, secure_proxy, world, tmp_path):
    need("curl")
    ports = sorted(fronted.ports.values())
    proxy = secure_proxy(rule("a", 'hosts = ["a.test"]', f"ports = {ports}"), proxy=SANDBOX)
    for protocol in fronted.ports:
        session = tmp_path / f"session-{protocol}"
        for option in ("-sess_out", "-sess_in"):
            answer = s_client(proxy, fronted, protocol, "a.test", "a.test", "-ign_eof", option, str(session))
            assert is_ok(answer), answer
        fetched = subprocess.run(
            ["curl", "-sS", "--proxy", proxy.url, "--cacert", world.root_file,
             f"https://a.test:{fronted.ports[protocol]}/"],
            capture_output=True, text=True, env=clean_environment(), timeout=DEADLINE_SECONDS,
        )
        assert fetched.stdout == "ok", fetched


def test_any_is_what_it_was(fronted, secure_proxy):
    port = fronted.ports["TLSv1.3"]
    proxy = secure_proxy(rule("a", f"ports = [{port}]", 'tunnel_sni = "any"'), proxy=SANDBOX)
    assert is_ok(s_client(proxy, fronted, "TLSv1.3", "a.test", "b.test", "-ign_eof"))
    assert proxy.access(lambda line: line["status"] == 200)["assurance"] == "none"


@pytest.mark.parametrize("then", [True, False], ids=["with CONNECT", "after it"])
def test_nothing_of_a_refused_hello_arrives(then, peer, secure_proxy):
    server = peer()
    proxy = secure_proxy(rule("a", f"ports = [{server.port}]"), proxy=SANDBOX)
    says = hello("b.test") + b"more"
    client = tunnel(proxy, "a.test", server.port, says if then else b"")
    if not then:
        for byte in says:
            client.sendall(bytes([byte]))
    # A fatal alert: unrecognized_name.
    assert read_to_end(client) == bytes([21, 3, 3, 0, 2, 2, 112])
    assert server.wait_until_done() == b""


def test_on_443_a_tunnel_begins_with_a_hello(peer, secure_proxy):
    try:
        server = peer(address="127.0.0.1", port=443)
    except PermissionError:
        pytest.skip("port 443 is not ours")
    proxy = secure_proxy(rule("a", 'hosts = ["a.test"]'), proxy=SANDBOX)
    for says, error in [
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "client-plain-http"),
        (b"SSH-2.0-client\r\n", "client-ssh"),
        (b"\x00\x00", "client-not-tls"),
        (hello("b.test"), "other-server-name"),
    ]:
        client = tunnel(proxy, "a.test", 443)
        client.sendall(says)
        read_to_end(client)
        assert server.wait_until_done() == b""
        proxy.access(lambda line: line["outcome"] == error)
    right = hello("a.test")
    client = tunnel(proxy, "a.test", 443)
    client.sendall(right)
    client.shutdown(socket.SHUT_WR)
    read_to_end(client)
    assert server.wait_until_done() == right


def test_a_hello_that_dribbles_ends(peer, secure_proxy):
    server = peer()
    proxy = secure_proxy(
        '[proxy.timeouts]\ntls_handshake = "200ms"\n' + rule("a", f"ports = [{server.port}]"), proxy=SANDBOX
    )
    client = tunnel(proxy, "a.test", server.port)
    client.sendall(hello("a.test")[:40])
    read_to_end(client)
    assert proxy.access(lambda line: line["outcome"] == "stalled")["bytes_out"] < 100
    assert server.wait_until_done() == b""


# Other protocols


@pytest.mark.parametrize("more", ["", SPEAKING], ids=["sandbox", "with rules about requests"])
def test_a_server_that_speaks_first(more, peer, secure_proxy):
    server = peer(b"SSH-2.0-server\r\n" + LARGE, b"keys")
    proxy = secure_proxy(more + rule("a", 'hosts = ["a.test"]', f"ports = [{server.port}]"), proxy=SANDBOX)
    client = tunnel(proxy, "a.test", server.port)
    greeting = b""
    while len(greeting) < 16 + len(LARGE):
        greeting += client.recv(1 << 20)
    assert greeting == b"SSH-2.0-server\r\n" + LARGE
    client.sendall(b"SSH-2.0-client\r\n")
    assert client.recv(100) == b"keys"
    client.sendall(LARGE)
    client.shutdown(socket.SHUT_WR)
    assert server.wait_until_done() == b"SSH-2.0-client\r\n" + LARGE
    client.close()
    assert proxy.access(lambda line: line["status"] == 200)["outcome"] == "done"


@pytest.mark.parametrize("says", [b"hello", b"hello there", b"EHLO a.test\r\n", b"\x16", bytes(9), b"\x80\x2e\x01\x01\x01"])
def test_what_is_no_request_passes_whole(says, peer, secure_proxy):
    server = peer()
    proxy = secure_proxy(SPEAKING + rule("a", 'hosts = ["a.test"]', f"ports = [{server.port}]"), proxy=SANDBOX)
    client = tunnel(proxy, "a.test", server.port)
    client.sendall(says)
    client.shutdown(socket.SHUT_WR)
    assert server.wait_until_done() == says
    client.close()


# Requests in the clear

REQUESTS = {
    "DELETE": b"DELETE /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "GET, which no rule denies": b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "a method of its own": b"PURGE /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "HTTP/0.9": b"GET /x\r\n",
    "spaces before it": b"\r\n \tDELETE /x HTTP/1.1\r\nHost: a.test\r\n\r\n",
}


@pytest.mark.parametrize("pace", ["whole", "byte by byte"])
@pytest.mark.parametrize("says", REQUESTS.values(), ids=REQUESTS)
def test_a_request_in_the_clear_ends_the_tunnel(says, pace, peer, secure_proxy):
    server = peer()
    proxy = secure_proxy(SPEAKING)
    client = tunnel(proxy, "a.test", server.port)
    try:
        for part in [says] if pace == "whole" else [bytes([byte]) for byte in says]:
            client.sendall(part)
    except (BrokenPipeError, ConnectionResetError):
        pass
    assert read_to_end(client) == b""
    assert server.wait_until_done() == b""
    assert proxy.access(lambda line: line["outcome"] == "clear-request")["rule"] is None
    warning(proxy, "HTTP request in the clear")


def test_curl_sends_no_delete_through_a_tunnel(peer, secure_proxy):
    need("curl")
    server = peer(answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def delete(proxy):
        return subprocess.run(
            ["curl", "-sS", "--proxytunnel", "--proxy", proxy.url, "-X", "DELETE", f"http://a.test:{server.port}/x"],
            capture_output=True, text=True, env=clean_environment(), timeout=DEADLINE_SECONDS,
        )

    assert delete(secure_proxy(SPEAKING)).returncode != 0
    assert server.wait_until_done() == b""
    # Where no rule speaks of requests, it is a tunnel like others.
    assert delete(secure_proxy("")).stdout == "ok"


# Ports


def test_a_port_that_is_not_listed_is_refused(peer, secure_proxy, raw_client):
    server = peer()
    proxy = secure_proxy(rule("a", 'hosts = ["a.test"]'), proxy=SANDBOX)
    client = raw_client(proxy)
    answer = client.exchange(
        f"CONNECT a.test:{server.port} HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode()
    )
    assert answer.status == 403
    assert f"Add ports = [443, {server.port}] to the rule" in answer.body.decode()
    line = proxy.access(lambda line: line["status"] == 403)
    assert (line["decision"], line["reason"], line["rule"]) == ("deny", "port-not-listed", "a")
    assert server.received == []


# By parents


@pytest.fixture(params=["squid", "tinyproxy", "https", "microsocks"])
def parent(request):
    """The table of a route by a real parent of each kind."""
    if request.param == "microsocks":
        return route("office", f"socks5://127.0.0.1:{request.getfixturevalue('microsocks')()}")
    if request.param == "https":
        world, programs = request.getfixturevalue("world"), request.getfixturevalue("programs")
        server = request.getfixturevalue("secure_parent")(world.leaf("office.test"), programs("squid").port)
        return route("office", server.via, ADA, security=f'anchors = "{world.root_file}"')
    return route("office", request.getfixturevalue("real_parent")(request.param).via, ADA)


def test_nothing_is_sent_through_a_parent_before_the_verdict(parent, peer, routed):
    server = peer(answer=b"pong")
    place = f"ports = [{server.port}]"
    proxy = routed(
        parent,
        rules=rule("strict", 'hosts = ["127.0.0.1"]', place, by("office"), 'tunnel_sni = "match"')
        + rule("requests", 'hosts = ["127.0.0.1"]', 'paths = ["/admin/*"]', 'action = "deny"'),
    )
    for says, error in [
        (hello("b.test"), "unexpected-server-name"),
        (b"DELETE /admin/x HTTP/1.1\r\nHost: a.test\r\n\r\n", "clear-request"),
    ]:
        for then in (says, b""):
            client = tunnel(proxy, "127.0.0.1", server.port, then)
            if not then:
                client.sendall(says)
            read_to_end(client)
            assert server.wait_until_done() == b""
        proxy.access(lambda line: line["outcome"] == error)
    client = tunnel(proxy, "127.0.0.1", server.port)
    client.sendall(b"PING\n")
    assert client.recv(100) == b"pong"
    client.close()
    assert server.wait_until_done() == b"PING\n"
    assert proxy.access(lambda line: line["outcome"] == "done")["route"] == "office"
