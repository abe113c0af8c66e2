"""Parents that speak HTTP/2: a scripted one that opens tunnels on streams, and nghttpx before a real http parent.

    parent = h2_parent()                  a TunnellingParent; `via` is for a route, `requests` is what it was asked
    h2_parent(judge)                      judge(link, request) answers instead, unless it returns nothing
    h2_parent(alpn=("http/1.1",))         one that knows no other protocol, which `script` serves (scripted_parents.py)
    nghttpx(behind)                       the port of nghttpx, which ends HTTP/2 before an http parent on this port

What a connection was offered is in `offers`, what was agreed on in `protocols`, both in the order of the handshakes.
"""

import queue
import re
import socket
import ssl
import threading
from dataclasses import dataclass, field

import h2.connection
import h2.errors
import h2.settings
import pytest

import strict_http
from conftest import stop_all
from http2_world import H2Origin, Link, Request
from journal import DEADLINE_SECONDS
from origins import ClosedByProxy, OriginConnection, unused_port
from parents import Program, check_asked_of_parent
from scripted_parents import relaying
from tls_world import SecureSocket, chain_pem

RECEIVE_BYTES = 16 << 10
# For all tunnels together, so that one whose destination does not read stops no other.
CONNECTION_WINDOW = 16 << 20
CONNECT_FAILED = 10


class Wire:
    """TLS that one thread reads and others write. What is written waits here, so that reading never does."""

    def __init__(self, secure: SecureSocket):
        self.plain, self.secured = secure.plain, secure.secured
        self.incoming, self.outgoing = secure.incoming, secure.outgoing
        self.lock = threading.Lock()
        self.waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def recv(self, count: int) -> bytes:
        while True:
            with self.lock:
                try:
                    return self.secured.read(count)
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLError:
                    return b""
                finally:
                    self._pass_on()
            data = self.plain.recv(count)
            with self.lock:
                self.incoming.write(data) if data else self.incoming.write_eof()

    def sendall(self, data: bytes) -> None:
        with self.lock:
            self.secured.write(data)
            self._pass_on()

    def _pass_on(self) -> None:
        if data := self.outgoing.read():
            self.waiting.put(data)

    def _send(self) -> None:
        try:
            while data := self.waiting.get():
                self.plain.sendall(data)
        except OSError:  # the proxy is gone
            pass

    def shutdown(self, how: int) -> None:
        self.plain.shutdown(how)

    def close(self) -> None:
        """Once everything has been sent."""
        self.waiting.put(None)
        self.thread.join(DEADLINE_SECONDS)
        self.plain.close()


class TunnellingParent(H2Origin):
    """A parent whose every tunnel leads to 127.0.0.1, whatever the name."""

    def __init__(self, context, judge=None, settings: dict | None = None, script=relaying, checked: bool = True):
        self.judge = judge
        self.checked = checked
        self.script = script
        self.most = (settings or {}).get(h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS, 1000)
        self.offers: list[tuple[str, ...]] = []
        self.plain: list[OriginConnection] = []
        self.failures: list[BaseException] = []
        self.stopping = False
        super().__init__(context, self._asked, settings=settings, link=TunnellingLink)

    @property
    def via(self) -> str:
        return f"https://office.test:{self.port}"

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def tunnels(self) -> list[str]:
        """The targets of CONNECT on streams."""
        return [request.value(":authority") for request in self.requests if request.value(":method") == "CONNECT"]

    def _asked(self, link: "TunnellingLink", request: Request) -> None:
        if len([tunnel for tunnel in link.tunnels.values() if not tunnel.is_over]) >= self.most:
            link.refused.append(request.number)
            return link.reset(request, h2.errors.ErrorCodes.REFUSED_STREAM)
        if self.judge and self.judge(link, request):
            return
        if request.value(":method") == "CONNECT":
            return link.open_tunnel(request)
        link.respond(request, 200, ("content-length", "2"), ("via", "2 office"), body=b"ok")

    def _serve(self, plain: socket.socket) -> None:
        secure = SecureSocket(plain)
        try:
            hello = secure.serve(lambda hello: self.context)
        except (OSError, ClosedByProxy):
            plain.close()
            return
        agreed = secure.secured.selected_alpn_protocol()
        try:
            (self._serve_streams if agreed == "h2" else self._serve_plainly)(secure, hello.alpn, agreed)
        except ClosedByProxy:
            pass
        except BaseException as failure:
            if not self.stopping:
                self.failures.append(failure)

    def _serve_streams(self, secure: SecureSocket, offer: tuple[str, ...], agreed: str) -> None:
        with self.changed:
            self.offers.append(offer)
            self.protocols.append(agreed)
            link = self.link(self, Wire(secure), len(self.protocols))
            self.links.append(link)
            self.changed.notify_all()
        try:
            link.run()
        finally:
            link.end()

    def _serve_plainly(self, secure: SecureSocket, offer: tuple[str, ...], agreed: str | None) -> None:
        secure.plain.settimeout(DEADLINE_SECONDS)
        with self.changed:
            self.offers.append(offer)
            self.protocols.append(agreed)
            connection = OriginConnection(secure, len(self.plain))
            self.plain.append(connection)
            self.changed.notify_all()
        try:
            self.script(connection)
        finally:
            secure.plain.close()

    def stop(self) -> None:
        self.stopping = True
        self.listener.shutdown(socket.SHUT_RDWR)
        super().stop()
        for connection in self.plain:
            try:
                connection.socket.plain.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if self.failures:
            raise self.failures[0]
        if self.checked:
            self._check()

    def _check(self) -> None:
        for connection in self.plain:
            stream = strict_http.check_requests(bytes(connection.received), connection.switched_after)
            for message in stream.messages:
                check_asked_of_parent(message)
        for request in self.requests:
            check_asked_on_a_stream(request)


# RFC 9113, 8.2.2: fields of one connection, of which a stream has none.
NEVER_ON_STREAMS = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host"}
FIELDS_OF_CONNECT = {":method", ":authority", "proxy-authorization", "via"}
VIA = re.compile(r"(.*, )?(1\.[01]|2) sallyport( .*)?")


def check_asked_on_a_stream(request: Request) -> None:
    """CONNECT with its target alone, or a request of http; Via; and no field of the client's hop or of a connection."""
    names = [name for name, _ in request.headers]
    assert not NEVER_ON_STREAMS & set(names), request.headers
    assert request.values("te") in ([], ["trailers"]), request.headers
    assert VIA.fullmatch(request.value("via") or ""), request.headers
    if request.value(":method") == "CONNECT":
        assert set(names) <= FIELDS_OF_CONNECT and len(names) == len(set(names)), request.headers
    else:
        pseudo = [name for name in names if name.startswith(":")]
        assert names[:4] == pseudo and set(pseudo) == {":method", ":scheme", ":authority", ":path"}, request.headers
        assert request.value(":scheme") == "http", request.headers


@dataclass
class Tunnel:
    """What a stream leads to."""

    request: Request
    end: socket.socket
    arrived: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    # Bytes that came from the proxy.
    came: int = 0
    is_over: bool = False
    workers: int = 2


class LastingConnection(h2.connection.H2Connection):
    """Streams live on after GOAWAY of either side (RFC 9113, 6.8), and one too many ends no connection (5.1.2)."""

    open_inbound_streams = 0

    def _receive_goaway_frame(self, frame):
        received = super()._receive_goaway_frame(frame)
        self.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN
        return received

    def close_connection(self, *arguments, **more) -> None:
        super().close_connection(*arguments, **more)
        self.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN


class TunnellingLink(Link):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.connection = LastingConnection(self.connection.config)
        self.refused: list[int] = []
        self.last: int | None = None
        self.tunnels: dict[int, Tunnel] = {}
        self.room = threading.Condition(self.lock)
        self.is_wide = False

    def open_tunnel(self, request: Request) -> None:
        port = int(request.value(":authority").rpartition(":")[2])
        try:
            end = socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS)
        except OSError:
            return self.respond(request, 502, body=b"no")
        end.settimeout(None)
        # What is on its way is in the windows of HTTP/2, and little of it here.
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, buffer, 2 * RECEIVE_BYTES)
        tunnel = self.tunnels[request.number] = Tunnel(request, end)
        self.respond(request, 200, ends=False)
        for work in (self._fetch, self._deliver):
            threading.Thread(target=self._work, args=(work, tunnel), daemon=True).start()

    def _work(self, work, tunnel: Tunnel) -> None:
        work(tunnel)
        with self.lock:
            tunnel.workers -= 1
            if not tunnel.workers:
                tunnel.is_over = True
                tunnel.end.close()

    def _fetch(self, tunnel: Tunnel) -> None:
        """From the destination to the proxy, as far as the window allows."""
        number = tunnel.request.number
        try:
            while data := tunnel.end.recv(RECEIVE_BYTES):
                while data:
                    with self.room:
                        while not (window := min(self.connection.local_flow_control_window(number), RECEIVE_BYTES)):
                            if tunnel.is_over or not self.room.wait(DEADLINE_SECONDS):
                                return
                        self.connection.send_data(number, data[:window])
                        data = data[window:]
                        self.flush()
            with self.room:
                self.connection.end_stream(number)
                self.flush()
        except Exception:  # an end is gone
            self.give_up(tunnel)

    def _deliver(self, tunnel: Tunnel) -> None:
        """From the proxy to the destination, whose pace opens the window."""
        try:
            while (piece := tunnel.arrived.get()) is not None:
                tunnel.end.sendall(piece[0])
                with self.lock:
                    self.connection.acknowledge_received_data(piece[1], tunnel.request.number)
                    self.flush()
            tunnel.end.shutdown(socket.SHUT_WR)
        except Exception:  # an end is gone
            self.give_up(tunnel)

    def give_up(self, tunnel: Tunnel) -> None:
        try:
            self.reset(tunnel.request, CONNECT_FAILED)
        except Exception:  # the stream is closed, or the connection
            pass

    def take(self, event) -> None:
        name, number = type(event).__name__, getattr(event, "stream_id", None)
        if name in ("WindowUpdated", "RemoteSettingsChanged"):
            self.room.notify_all()
        if not self.is_wide:  # the proxy's settings have come, and those of the parent have gone
            self.is_wide = True
            self.connection.increment_flow_control_window(CONNECTION_WINDOW)
        tunnel = self.tunnels.get(number)
        if tunnel and name == "DataReceived":
            tunnel.came += len(event.data)
            return tunnel.arrived.put((event.data, event.flow_controlled_length))
        if name == "StreamEnded" and self.open[number].value(":method") == "CONNECT":
            self.ended.add(number)
            if tunnel:
                tunnel.arrived.put(None)
            return self.origin.note()
        super().take(event)
        is_refused = self.last is not None and number is not None and number > self.last
        if name == "RequestReceived" and not is_refused and self.open[number].value(":method") == "CONNECT":
            self.origin.answer(self, self.open[number])
        if tunnel and name == "StreamReset":
            self._close(tunnel)
            self.room.notify_all()

    @staticmethod
    def _close(tunnel: Tunnel) -> None:
        tunnel.is_over = True
        tunnel.arrived.put(None)
        try:
            tunnel.end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def leave(self, last: int) -> None:
        self.last = last
        super().leave(last)

    def break_off(self) -> None:
        """The connection ends, with no word to its streams."""
        self.secure.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        with self.room:
            for tunnel in self.tunnels.values():
                self._close(tunnel)
            self.room.notify_all()
        self.secure.close()


@pytest.fixture
def h2_parent(world):
    """A function that starts a parent."""
    running: list[TunnellingParent] = []

    def start(judge=None, alpn=("h2", "http/1.1"), name: str = "office.test", **arguments) -> TunnellingParent:
        running.append(TunnellingParent(world.context(world.leaf(name), alpn=alpn), judge, **arguments))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def nghttpx(tmp_path_factory, world):
    """A function that starts nghttpx as an HTTP/2 proxy before the http parent on this port, and gives its port."""
    running: list[Program] = []

    def start(behind: int, *options: str) -> int:
        leaf = world.leaf("office.test")
        chain = world.file(chain_pem([leaf, world.issuing]))
        port, directory = unused_port(), tmp_path_factory.mktemp("nghttpx")
        command = ["nghttpx", f"--frontend=127.0.0.1,{port}", f"--backend=127.0.0.1,{behind}", "--http2-proxy"]
        command += ["--workers=1", "--conf=/dev/null", *options]
        running.append(Program(directory, port, *command, world.file(leaf.key_pem), chain))
        return port

    yield start
    stop_all(running)
