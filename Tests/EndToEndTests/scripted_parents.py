"""Parents that a test scripts: http, https and SOCKS5, for what no real one does on request. Real ones: parents.py.

    scripted_parent(script)                  an http parent; parents.check_asked_of_parent looks at what it is asked
    scripted_secure_parent(script, contexts) the same behind TLS, with the knobs of TLSOrigin
    socks_server(Socks(reply=5))             a SOCKS5 server (RFC 1928, 1929) that notes what it is asked in `asked`

Scripts: `relaying` (a forward proxy in a few lines: everything is on 127.0.0.1), `refusing(…)` (CONNECT is answered
so), `accepting(…)` (CONNECT is answered so, and the tunnel leads on), and whatever origins.py has for
absolute-form.
"""

import select
import socket
import struct
from dataclasses import dataclass

import pytest

import strict_http
from conftest import stop_all
from journal import DEADLINE_SECONDS
from origins import OriginConnection, RawOrigin, listening_socket
from parents import check_asked_of_parent
from tls_world import OK, SecureSocket, TLSOrigin

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


# Relays


def pending(source) -> bool:
    """Whether bytes of TLS have been taken off the socket and not been read yet."""
    return isinstance(source, SecureSocket) and bool(source.incoming.pending or source.secured.pending())


def relay(connection: OriginConnection, far: socket.socket) -> None:
    """Bytes both ways, until both ends have ended. One thread: what is large must not go both ways at once."""
    near = connection.socket
    open_ends = {near.fileno(), far.fileno()}
    near_number, far_number = near.fileno(), far.fileno()
    pass_on(connection, far)
    while open_ends:
        ready = {near_number} if pending(near) else wait_for_any(open_ends)
        if near_number in ready:
            if connection.receive_some():
                pass_on(connection, far)
            else:
                open_ends.discard(near_number)
                shut(far)
        if far_number in ready:
            try:
                data = far.recv(262144)
            except ConnectionResetError:
                connection.reset()
                return
            if data:
                connection.send(data)
            else:
                open_ends.discard(far_number)
                shut(near)


def wait_for_any(numbers: set[int]) -> set[int]:
    """The descriptors, of these, that can be read of."""
    poll = select.poll()
    for number in numbers:
        poll.register(number, select.POLLIN)
    ready = {number for number, _ in poll.poll(DEADLINE_SECONDS * 1000)}
    assert ready, f"nothing came through a tunnel for {DEADLINE_SECONDS} s"
    return ready


def pass_on(connection: OriginConnection, far: socket.socket) -> None:
    """What was received and not been looked at goes on to the far end, which may have gone."""
    rest = bytes(connection.received[connection.read_to :])
    connection.read_to += len(rest)
    try:
        far.sendall(rest)
    except (BrokenPipeError, ConnectionResetError):
        pass


def shut(sink: socket.socket) -> None:
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def far_end(port: int) -> socket.socket:
    far = socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS)
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return far


def accepting(answer: bytes = ESTABLISHED, then: bytes = b"", bytewise: bool = False):
    """Each CONNECT is answered so, `then` comes right behind it, and the tunnel leads on. Other requests get OK."""

    def script(connection: OriginConnection) -> None:
        while True:
            request = connection.read_request()
            if request.method != b"CONNECT":
                connection.send(OK)
                continue
            with far_end(int(request.target.rpartition(b":")[2])) as far:
                (connection.send_bytewise if bytewise else connection.send)(answer + then)
                connection.switch_protocol()
                relay(connection, far)
            return

    return script


relaying = accepting()


def refusing(status: str, lines: str = "", body: bytes = b"no", closing: bool = False):
    """Every request, CONNECT or not, is answered with this status."""
    end = "Connection: close\r\n" if closing else ""
    head = f"HTTP/1.1 {status}\r\n{lines}{end}Content-Length: {len(body)}\r\n\r\n".encode()

    def script(connection: OriginConnection) -> None:
        while True:
            connection.read_request()
            connection.send(head + body)
            if closing:
                return

    return script


def stop_listening(origin: RawOrigin) -> None:
    """From here on connections are refused there; those that are open live on."""
    listener, origin.listener = origin.listener, listening_socket()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


# HTTP


class ScriptedParent(RawOrigin):
    """An http parent. It is known as office.test, and as any other name that the DNS server of the proxy has."""

    scheme = "http"

    @property
    def via(self) -> str:
        return f"{self.scheme}://office.test:{self.port}"

    def via_as(self, host: str) -> str:
        return f"{self.scheme}://{host}:{self.port}"

    def check(self, connection: OriginConnection) -> None:
        stream = strict_http.check_requests(bytes(connection.received), connection.switched_after)
        for message in stream.messages:
            check_asked_of_parent(message, self.pseudonym)


class ScriptedSecureParent(TLSOrigin):
    """An https parent."""

    scheme = "https"
    via, via_as, check = ScriptedParent.via, ScriptedParent.via_as, ScriptedParent.check


# SOCKS5


V4_BOUND = b"\x01" + socket.inet_aton("127.0.0.1") + b"\x12\x34"
V6_BOUND = b"\x04" + socket.inet_pton(socket.AF_INET6, "::1") + b"\x12\x34"
NAME_BOUND = b"\x03\x0bparent.test\x12\x34"
NO_CREDENTIALS, USER_AND_PASSWORD, NONE_ACCEPTABLE = 0, 2, 0xFF


AS_IT_SHOULD_BE = b"as it should be"


@dataclass(frozen=True)
class Socks:
    """How a server answers. Its three flights can be any bytes; `b""` is an end, None is silence."""

    method: int = NO_CREDENTIALS
    reply: int = 0
    bound: bytes = V4_BOUND
    greeting: bytes | None = AS_IT_SHOULD_BE
    verdict: bytes | None = b"\x01\x00"
    answer: bytes | None = AS_IT_SHOULD_BE
    behind: bytes = b""  # comes in one segment with the answer
    bytewise: bool = False


@dataclass(frozen=True)
class SocksRequest:
    """What a client of SOCKS5 said. `kind`: 1 IPv4, 3 a name, 4 IPv6."""

    methods: bytes
    user: bytes | None
    password: bytes | None
    kind: int
    host: str
    port: int


class SocksServer(RawOrigin):
    """Every target that it lets pass is on 127.0.0.1."""

    def __init__(self, manner: Socks = Socks()):
        self.manner = manner
        self.asked: list[SocksRequest] = []
        self.offered: list[bytes] = []  # the methods of each greeting
        self.credentials: list[tuple[bytes, bytes]] = []
        super().__init__(self.converse)

    @property
    def via(self) -> str:
        return self.via_as("office.test")

    def via_as(self, host: str) -> str:
        return f"socks5://{host}:{self.port}"

    def say(self, connection: OriginConnection, flight: bytes | None, regular: bytes) -> bool:
        """One flight; whether the conversation goes on."""
        if flight is None:
            connection.wait_for_end()
            return False
        if flight == AS_IT_SHOULD_BE:
            flight = regular
        (connection.send_bytewise if self.manner.bytewise else connection.send)(flight)
        return flight == regular

    def converse(self, connection: OriginConnection) -> None:
        connection.switch_protocol()
        manner, user, password = self.manner, None, None
        version, count = connection.read_exactly(2)
        assert version == 5, f"the version of SOCKS is {version}"
        methods = connection.read_exactly(count)
        self.offered.append(methods)
        if not self.say(connection, manner.greeting, bytes([5, manner.method])):
            return
        if manner.method == NONE_ACCEPTABLE:  # RFC 1928 §3: the client must close
            connection.wait_for_end()
            return
        if manner.method == USER_AND_PASSWORD:
            version, length = connection.read_exactly(2)
            assert version == 1, f"the version of the sub-negotiation is {version}"
            user = connection.read_exactly(length)
            password = connection.read_exactly(connection.read_exactly(1)[0])
            self.credentials.append((user, password))
            if not self.say(connection, manner.verdict, b"\x01\x00"):
                return
        self.asked.append(SocksRequest(methods, user, password, *self.read_target(connection)))
        regular = bytes([5, manner.reply, 0]) + manner.bound + manner.behind
        if manner.reply != 0 or manner.answer != AS_IT_SHOULD_BE:
            self.say(connection, manner.answer, regular)
            return
        with far_end(self.asked[-1].port) as far:
            self.say(connection, manner.answer, regular)
            relay(connection, far)

    @staticmethod
    def read_target(connection: OriginConnection) -> tuple[int, str, int]:
        version, command, reserved, kind = connection.read_exactly(4)
        assert (version, command, reserved) == (5, 1, 0), f"the request begins {(version, command, reserved)}"
        if kind == 3:
            host = connection.read_exactly(connection.read_exactly(1)[0]).decode("ascii")
        else:
            assert kind in (1, 4), f"the kind of address is {kind}"
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, connection.read_exactly(size))
        return kind, host, struct.unpack("!H", connection.read_exactly(2))[0]


# Fixtures


@pytest.fixture
def scripted_parent():
    """A function that starts a scripted http parent."""
    running: list[ScriptedParent] = []

    def start(script=relaying, **arguments) -> ScriptedParent:
        running.append(ScriptedParent(script, **arguments))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def scripted_secure_parent():
    """A function that starts a scripted https parent."""
    running: list[ScriptedSecureParent] = []

    def start(contexts, script=relaying, **arguments) -> ScriptedSecureParent:
        running.append(ScriptedSecureParent(script, contexts, **arguments))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def socks_server():
    """A function that starts a SOCKS5 server."""
    running: list[SocksServer] = []

    def start(manner: Socks = Socks()) -> SocksServer:
        running.append(SocksServer(manner))
        return running[-1]

    yield start
    stop_all(running)
