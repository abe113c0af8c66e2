"""Peers of HTTP/2 whose every frame is in our hands: a client inside an intercepted tunnel, and an origin (the h2 library)."""

import fcntl
import socket
import ssl
import struct
import termios
import threading
import time
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from journal import DEADLINE_SECONDS

RECEIVE_BYTES = 64 << 10


@dataclass(kw_only=True)
class Received:
    """What a peer said on one stream."""

    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    trailers: list[tuple[str, str]] | None = None
    reset: int | None = None

    def value(self, name: str) -> str | None:
        return next((value for known, value in self.headers if known == name), None)

    def values(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]


@dataclass
class Exchange(Received):
    """What came of one stream."""

    informational: list[list[tuple[str, str]]] = field(default_factory=list)
    ended: bool = False

    @property
    def status(self) -> int:
        return int(self.value(":status") or 0)


def text(headers) -> list[tuple[str, str]]:
    return [tuple(part if isinstance(part, str) else part.decode("latin-1") for part in pair) for pair in headers]


class H2Client:
    """`secure` is a socket under TLS that has agreed on h2."""

    def __init__(self, secure, validate: bool = True, window: int | None = None):
        self.secure = secure
        # What is malformed can be sent, too.
        config = h2.config.H2Configuration(
            client_side=True,
            validate_outbound_headers=validate,
            normalize_outbound_headers=validate,
            header_encoding=None,
        )
        self.connection = h2.connection.H2Connection(config)
        self.exchanges: dict[int, Exchange] = {}
        self.gone: int | None = None
        self.closed = False
        self.reads = True
        if window is not None:
            self.connection.local_settings = h2.settings.Settings(
                client=True, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
            )
        self.connection.initiate_connection()
        self.flush()

    def flush(self) -> None:
        data = self.connection.data_to_send()
        if data and not self.closed:
            try:
                self.secure.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                # What the proxy has said before it closed is still there to be read.
                pass

    def request(self, authority: str, path: str = "/", *fields, method="GET", body=None, ends=True, scheme="https"):
        """The number of a new stream."""
        head = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path), *fields]
        return self.send(head, body, ends)

    def send(self, head, body: bytes | None = None, ends: bool = True) -> int:
        number = self.connection.get_next_available_stream_id()
        self.connection.send_headers(number, head, end_stream=ends and body is None)
        self.exchanges[number] = Exchange()
        if body is not None:
            self.content(number, body, ends)
        self.flush()
        return number

    def content(self, number: int, body: bytes, ends: bool = True) -> None:
        sent = 0
        while sent < len(body) or (ends and not body):
            room = min(self.connection.local_flow_control_window(number), self.connection.max_outbound_frame_size)
            if room == 0:
                self.flush()
                self.step()
                if self.exchanges[number].reset is not None:
                    return
                continue
            piece = body[sent : sent + room]
            sent += len(piece)
            self.connection.send_data(number, piece, end_stream=ends and sent == len(body))
            if not body:
                break
        self.flush()

    def step(self) -> bool:
        """Reads once; False: the connection is over."""
        try:
            data = self.secure.recv(RECEIVE_BYTES)
        except (TimeoutError, ssl.SSLWantReadError):
            raise
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return False
        for event in self.connection.receive_data(data):
            self.take(event)
        self.flush()
        return True

    def take(self, event) -> None:
        exchange = self.exchanges.setdefault(getattr(event, "stream_id", 0) or 0, Exchange())
        match event:
            case h2.events.ResponseReceived():
                exchange.headers = text(event.headers)
            case h2.events.InformationalResponseReceived():
                exchange.informational.append(text(event.headers))
            case h2.events.DataReceived():
                exchange.body += event.data
                if self.reads:
                    self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                exchange.trailers = text(event.headers)
            case h2.events.StreamEnded():
                exchange.ended = True
            case h2.events.StreamReset():
                exchange.reset = int(event.error_code)
            case h2.events.ConnectionTerminated():
                self.gone = int(event.error_code)

    def wait(self, number: int) -> Exchange:
        """The exchange, once it has ended or was reset."""
        exchange = self.exchanges[number]
        while not exchange.ended and exchange.reset is None and self.step():
            pass
        return exchange

    def wait_until(self, condition) -> None:
        while not condition() and self.step():
            pass
        assert condition(), "the connection ended before it was so"

    def get(self, authority: str, path: str = "/", *fields, **arguments) -> Exchange:
        return self.wait(self.request(authority, path, *fields, **arguments))

    def wait_for_end(self) -> int | None:
        """The code of GOAWAY, once the connection is over."""
        while self.step():
            pass
        return self.gone

    def reset(self, number: int, code: int = h2.errors.ErrorCodes.CANCEL) -> None:
        self.connection.reset_stream(number, code)
        self.flush()


@dataclass
class Request(Received):
    number: int
    connection: int

    @property
    def path(self) -> str:
        return self.value(":path")


class H2Origin:
    """`answer(link, request)` is called once a request is whole, or with `early` once its head is there."""

    def __init__(self, context: ssl.SSLContext, answer, early: bool = False, settings: dict | None = None, link=None, other=None):
        """`other(socket)` serves a connection that has not agreed on h2."""
        self.link = link or Link
        self.other = other
        self.context = context
        self.answer = answer
        self.early = early
        self.settings = settings
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.changed = threading.Condition()
        self.requests: list[Request] = []
        self.links: list["Link"] = []
        self.protocols: list[str | None] = []
        self.stopped = False
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            secure = self.context.wrap_socket(plain, server_side=True)
        except OSError:
            plain.close()
            return
        with self.changed:
            self.protocols.append(secure.selected_alpn_protocol())
            link = self.link(self, secure, len(self.protocols))
            self.links.append(link)
            self.changed.notify_all()
        if secure.selected_alpn_protocol() == "h2":
            link.run()
        elif self.other:
            self.other(secure)
        secure.close()

    def note(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def wait_until(self, condition) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, DEADLINE_SECONDS), "it did not happen"

    def stop(self) -> None:
        self.stopped = True
        self.note()
        self.listener.close()
        for link in self.links:
            try:
                link.secure.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Link:
    """One connection of an origin."""

    def __init__(self, origin: H2Origin, secure: ssl.SSLSocket, number: int):
        self.origin = origin
        self.secure = secure
        self.number = number
        self.lock = threading.RLock()
        self.connection = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False)
        )
        self.open: dict[int, Request] = {}
        self.ended: set[int] = set()
        self.goaway: int | None = None
        self.pings = 0

    def run(self) -> None:
        if self.origin.settings:
            self.connection.local_settings = h2.settings.Settings(
                client=False, initial_values=self.origin.settings
            )
        self.connection.initiate_connection()
        self.flush()
        while True:
            try:
                data = self.secure.recv(RECEIVE_BYTES)
            except OSError:
                return
            if not data:
                return
            with self.lock:
                try:
                    for event in self.connection.receive_data(data):
                        self.take(event)
                    self.flush()
                except (h2.exceptions.ProtocolError, OSError):
                    return

    def take(self, event) -> None:
        match event:
            case h2.events.RequestReceived():
                request = Request(event.stream_id, self.number, headers=text(event.headers))
                self.open[event.stream_id] = request
                self.origin.requests.append(request)
                if self.origin.early:
                    self.origin.answer(self, request)
            case h2.events.DataReceived():
                self.open[event.stream_id].body += event.data
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                self.open[event.stream_id].trailers = text(event.headers)
            case h2.events.StreamEnded():
                self.ended.add(event.stream_id)
                if not self.origin.early:
                    self.origin.answer(self, self.open[event.stream_id])
            case h2.events.StreamReset():
                self.open[event.stream_id].reset = int(event.error_code)
            case h2.events.PingReceived():
                self.pings += 1
            case h2.events.ConnectionTerminated():
                self.goaway = int(event.error_code)
                # Streams under way are still answered (RFC 9113, 6.8); the library takes the connection for closed.
                if self.goaway == 0:
                    self.connection.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN
        self.origin.note()

    def flush(self) -> None:
        data = self.connection.data_to_send()
        if data:
            self.secure.sendall(data)

    def respond(self, request: Request, status: int = 200, *fields, body: bytes = b"", trailers=None, ends=True) -> None:
        with self.lock:
            head = [(":status", str(status)), *fields]
            over = ends and not body and trailers is None
            self.connection.send_headers(request.number, head, end_stream=over)
            size = self.connection.max_outbound_frame_size
            for at in range(0, len(body), size):
                last = at + size >= len(body) and ends and trailers is None
                self.connection.send_data(request.number, body[at : at + size], end_stream=last)
            if trailers is not None:
                self.connection.send_headers(request.number, trailers, end_stream=True)
            self.flush()

    def hint(self, request: Request, *fields) -> None:
        with self.lock:
            self.connection.send_headers(request.number, [(":status", "103"), *fields])
            self.flush()

    def reset(self, request: Request, code: int) -> None:
        with self.lock:
            self.connection.reset_stream(request.number, code)
            self.flush()

    def reset_delivered(self) -> None:
        """Resets the connection once the other machine has all that was sent, read by its program or not."""
        end = time.monotonic() + DEADLINE_SECONDS
        while any(fcntl.ioctl(self.secure, termios.TIOCOUTQ, bytes(4))):
            assert time.monotonic() < end, "what was sent is not acknowledged"
            time.sleep(0.001)
        self.secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.secure.close()

    def leave(self, last: int) -> None:
        with self.lock:
            self.connection.close_connection(last_stream_id=last)
            self.flush()
