"""What stands behind the proxy: origins that a test scripts byte by byte, a tap that records what a real one gets, nginx.

    RawOrigin(script)        a thread a connection runs `script(connection)`; every byte received is kept and checked
    Tap(address)             relays to a real server and keeps the bytes of both directions
    Nginx(directory, …)      nginx for http and https, with a log of JSON lines that tests wait on

Scripts that most tests need: `answering(…)`, `echoing`, `silent`, `tunnel_echo`.
"""

import collections
import itertools
import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import strict_http
from journal import DEADLINE_SECONDS, Journal, readable, writable
from strict_http import Incomplete, Message


def listening_socket(address: str = "127.0.0.1", port: int = 0, backlog: int = 4096) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(backlog)
    return listener


# Ports of the latest origins. The kernel gives a listener every second port of its range, 14,000 or so: a suite has more
# origins than that, so an old port has to come back. By then the lines of its last test are long written.
RECENT_PORTS: collections.deque[int] = collections.deque(maxlen=2048)
PARSE_AGAIN_BYTES = 8 * 1024 * 1024


def socket_on_an_unused_port(address: str) -> socket.socket:
    """A port that none of the latest origins had: tests find their access line by it."""
    while True:
        listener = listening_socket(address)
        port = listener.getsockname()[1]
        if port not in RECENT_PORTS:
            RECENT_PORTS.append(port)
            return listener
        listener.close()


class ClosedByProxy(Exception):
    """The proxy ended a connection while a script wanted to read on. Ends the script quietly."""


class OriginConnection:
    """One connection that the proxy made."""

    def __init__(self, accepted: socket.socket, number: int):
        self.socket = accepted
        self.number = number  # 0 for the first connection of this origin
        self.received = bytearray()
        self.sent = bytearray()
        self.requests: list[Message] = []
        self.read_to = 0
        self.ended: str | None = None  # "closed" | "reset", by the proxy
        self.switched_after: int | None = None  # so many requests in, bytes are those of a tunnel

    def receive_some(self) -> bool:
        if self.ended:
            return False
        try:
            data = self.socket.recv(262144)
        except ConnectionResetError:
            self.ended = "reset"
            return False
        if not data:
            self.ended = "closed"
            return False
        self.received += data
        return True

    def _read(self, parse) -> Message:
        while True:
            try:
                return parse(bytes(self.received), self.read_to)
            except Incomplete:
                if not self.receive_some():
                    raise ClosedByProxy from None
                length = len(
                    self.received
                )  # take all that is there: a large body is then parsed a few times only
                while len(self.received) < length + PARSE_AGAIN_BYTES and readable(self.socket, 0.001):
                    if not self.receive_some():
                        break

    def read_head(self) -> Message:
        """The next request's head; its body is left to `read_body`."""
        message = self._read(strict_http.read_request_head)
        self.requests.append(message)
        return message

    def read_body(self) -> Message:
        """The rest of the request whose head was read last."""
        message = self._read(strict_http.read_request)
        self.requests[-1] = message
        self.read_to = message.end
        return message

    def read_request(self) -> Message:
        self.read_head()
        return self.read_body()

    def read_exactly(self, count: int) -> bytes:
        """The next bytes of a tunnel or of a body that the script looks at itself."""
        while len(self.received) - self.read_to < count:
            if not self.receive_some():
                raise ClosedByProxy
        data = bytes(self.received[self.read_to : self.read_to + count])
        self.read_to += count
        return data

    def switch_protocol(self) -> None:
        """From here on the bytes are no HTTP (after a 101, or in a CONNECT tunnel)."""
        self.switched_after = len(self.requests)

    def send(self, data: bytes) -> None:
        self.sent += data
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.ended = self.ended or "reset"
            raise ClosedByProxy from None

    def send_bytewise(self, data: bytes) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for offset in range(len(data)):
            self.send(data[offset : offset + 1])

    def send_until_stuck(self, data: bytes, quiet_seconds: float) -> int:
        """Send until the peer has taken nothing for so long; how many bytes the kernel took."""
        self.socket.setblocking(False)
        taken = 0
        while taken < len(data) and writable(self.socket, quiet_seconds):
            try:
                taken += self.socket.send(data[taken : taken + 262144])
            except BlockingIOError:
                continue
        self.socket.settimeout(DEADLINE_SECONDS)
        return taken

    def wait_for_end(self) -> str:
        """Read until the proxy ends the connection."""
        while self.receive_some():
            pass
        return self.ended

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()


class RawOrigin:
    """A listening socket whose every connection runs the test's script in a thread of its own."""

    def __init__(self, script, address: str = "127.0.0.1", port: int = 0):
        self.script = script
        self.listener = listening_socket(address, port) if port else socket_on_an_unused_port(address)
        self.host, self.port = self.listener.getsockname()[:2]
        self.connections: list[OriginConnection] = []
        self.events = Journal("the origin")
        self.failures: list[BaseException] = []
        self.closing = False
        self.pseudonym = b"sallyport"  # of the proxy that is expected in Via
        self.threads: list[threading.Thread] = []
        self.accept_thread = threading.Thread(target=self._accept, daemon=True)
        self.accept_thread.start()

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}"

    def _accept(self) -> None:
        while True:
            try:
                accepted = self.listener.accept()[0]
            except OSError:
                return
            accepted.settimeout(DEADLINE_SECONDS)
            connection = OriginConnection(accepted, len(self.connections))
            self.connections.append(connection)
            self.events.append(("accepted", connection.number))
            thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _run(self, connection: OriginConnection) -> None:
        try:
            self.script(connection)
        except ClosedByProxy:
            pass
        except BaseException as failure:
            if not self.closing:
                self.failures.append(failure)
        connection.socket.close()
        self.events.append(("done", connection.number, connection.ended))

    def note(self, *event) -> None:
        """For scripts: tell the test that something happened."""
        self.events.append(event)

    def wait_for(self, *event):
        """Wait until an event that begins so has happened."""
        return self.events.wait_for(lambda entry: entry[: len(event)] == event)

    def requests(self) -> list[Message]:
        """Every request so far whose head was read, of all connections."""
        return [request for connection in self.connections for request in connection.requests]

    def stop(self) -> None:
        """Close everything, then check every byte that arrived under the strict grammar."""
        self.closing = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.accept_thread.join(DEADLINE_SECONDS)
        for connection in self.connections:
            try:
                connection.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(DEADLINE_SECONDS)
        for connection in self.connections:
            self.check(connection)
        if self.failures:
            raise self.failures[0]

    def check(self, connection: OriginConnection) -> None:
        """What arrived is what an origin may get. Peers that are none (parents) look at it in their own way."""
        check_received(bytes(connection.received), connection.switched_after, self.pseudonym)


def check_received(data: bytes, switched_after: int | None = None, pseudonym: bytes = b"sallyport"):
    """What the proxy sent to an origin: strictly valid, and every request forwarded as a proxy must."""
    stream = strict_http.check_requests(data, switched_after)
    for message in stream.messages:
        strict_http.check_forwarded_request(message, pseudonym)
    return stream


# Scripts


def answering(*answers: bytes):
    """Each request gets the next answer, on whichever connection it comes; the last one serves all that follow."""
    waiting = list(answers)
    lock = threading.Lock()

    def script(connection: OriginConnection) -> None:
        while True:
            connection.read_request()
            with lock:
                answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            connection.send(answer)

    return script


def echoing(connection: OriginConnection) -> None:
    """Every request is answered 200 with its own body."""
    while True:
        request = connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)


def silent(connection: OriginConnection) -> None:
    """Reads and never answers."""
    connection.read_request()
    connection.wait_for_end()


def tunnel_echo(connection: OriginConnection) -> None:
    """No HTTP: sends back what it gets, and closes when the other side has."""
    connection.switch_protocol()
    while connection.receive_some():
        connection.send(bytes(connection.received[connection.read_to :]))
        connection.read_to = len(connection.received)


# Real servers


class Tap:
    """A relay before a real server that keeps what passes: `up` is what the proxy sent, `down` what the server said."""

    def __init__(self, server: tuple[str, int]):
        self.server = server
        self.listener = listening_socket()
        self.port = self.listener.getsockname()[1]
        self.streams: list[dict[str, bytearray]] = []
        self.threads: list[threading.Thread] = []
        self.sockets: list[socket.socket] = []
        self.accept_thread = threading.Thread(target=self._accept, daemon=True)
        self.accept_thread.start()

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(self.server)
            stream = {"up": bytearray(), "down": bytearray()}
            self.streams.append(stream)
            self.sockets += [near, far]
            for source, sink, kept in ((near, far, stream["up"]), (far, near, stream["down"])):
                thread = threading.Thread(target=self._relay, args=(source, sink, kept), daemon=True)
                self.threads.append(thread)
                thread.start()

    @staticmethod
    def _relay(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        try:
            while data := source.recv(262144):
                kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def requests(self) -> list[Message]:
        """What the server was asked in the clear, strictly parsed."""
        streams = [bytes(stream["up"]) for stream in self.streams if stream["up"][:1] != b"\x16"]
        return [request for data in streams for request in strict_http.check_requests(data).messages]

    def stop(self, switched_after: int | None = None) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.accept_thread.join(DEADLINE_SECONDS)
        for end in self.sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(DEADLINE_SECONDS)
        for end in self.sockets:
            end.close()
        for stream in self.streams:
            if stream["up"][:1] != b"\x16":
                self.check(stream, switched_after)

    def check(self, stream: dict[str, bytearray], switched_after: int | None) -> None:
        check_received(bytes(stream["up"]), switched_after)


NGINX_CONFIGURATION = """
user root;
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  log_format seen escape=json '{{"scheme":"$scheme","request":"$request","host":"$http_host","via":"$http_via",'
    '"connection":"$http_connection","proxy_connection":"$http_proxy_connection","status":"$status"}}';
  access_log syslog:server=unix:{directory}/log.socket,nohostname seen;
  types {{ text/html html; text/plain txt; application/javascript js; image/svg+xml svg; text/css css; }}
  default_type application/octet-stream;
  client_max_body_size 100m;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  absolute_redirect off;
  server {{
    listen 127.0.0.1:{http_port};
    listen 127.0.0.1:{https_port} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    root {directory}/root;
    autoindex on;
    location /uploads/ {{ dav_methods PUT DELETE; create_full_put_path on; }}
    location /reported {{ return 204; }}
    location /redirect {{ return 302 /file.txt; }}
    location /missing {{ return 404; }}
    location ~ ^/git(/.*)$ {{
      fastcgi_pass unix:{directory}/fcgiwrap.socket;
      fastcgi_param SCRIPT_FILENAME {git_backend};
      fastcgi_param GIT_PROJECT_ROOT {directory}/repositories;
      fastcgi_param GIT_HTTP_EXPORT_ALL "";
      fastcgi_param PATH_INFO $1;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;
      fastcgi_param REMOTE_ADDR $remote_addr;
      fastcgi_param REMOTE_USER pusher;
      fastcgi_param SERVER_PROTOCOL $server_protocol;
    }}
  }}
}}
"""


# Below the ports that the kernel gives to those who ask for any (ip_local_port_range). Workers that have to share a network
# begin at different ones.
FIRST_UNUSED, UNUSED = 10_000, 22_000
UNUSED_PORTS = (FIRST_UNUSED + (os.getpid() * 997 + number) % UNUSED for number in itertools.count())


def unused_port() -> int:
    """A port that nothing listens on, and that nobody else gets meanwhile."""
    for port in itertools.islice(UNUSED_PORTS, UNUSED):
        try:
            listening_socket(port=port).close()
            return port
        except OSError:
            continue
    raise AssertionError("every port is taken")


def wait_until_it_listens(port: int, process: subprocess.Popen, error_log: Path) -> None:
    """A program that does not say when it is ready is asked until it answers or ends."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(0.01)
            break
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(
        f"{process.args[0]} does not listen: {error_log.read_text() if error_log.exists() else ''}"
    )


class SyslogReader:
    """Puts what a program sends to a syslog socket into a journal, each line as `parse` reads it."""

    def __init__(self, path: Path, name: str, parse):
        self.journal, self.parse = Journal(name), parse
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while line := self.socket.recv(65536):
            self.journal.append(self.parse(line))
        self.socket.close()

    def stop(self) -> None:
        """Its thread ends at a datagram of nothing."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"", self.socket.getsockname())


class Nginx:
    """nginx with one site on http and https; files under `root`."""

    GIT_BACKEND = Path("/usr/lib/git-core/git-http-backend")

    def __init__(self, directory: Path, certificate: Path, key: Path):
        self.directory = directory
        self.root = directory / "root"
        for name in ("root/uploads", "repositories"):
            (directory / name).mkdir(parents=True)
        self.http_port, self.https_port = unused_port(), unused_port()
        self.log_reader = SyslogReader(
            directory / "log.socket", "nginx's access log", lambda line: json.loads(line[line.index(b"{") :]))
        self.log = self.log_reader.journal
        configuration = directory / "nginx.conf"
        configuration.write_text(
            NGINX_CONFIGURATION.format(
                directory=directory,
                http_port=self.http_port,
                https_port=self.https_port,
                certificate=certificate,
                key=key,
                git_backend=self.GIT_BACKEND,
            )
        )
        self.process = subprocess.Popen(
            ["nginx", "-p", directory, "-e", directory / "error.log", "-c", configuration],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait_until_it_listens()

    def _wait_until_it_listens(self) -> None:
        for port in (self.http_port, self.https_port):
            wait_until_it_listens(port, self.process, self.directory / "error.log")

    def seen(self, needle: str) -> dict:
        """The first access line whose request holds `needle`; nginx writes it when it has answered."""
        return self.log.wait_for(lambda line: needle in line["request"])

    def put_file(self, name: str, content: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.chmod(path, 0o644)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_SECONDS)
        self.log_reader.stop()
