"""What is sent to a proxy: timed load by wrk or tunnel-load, and single exchanges by a small client of our own.

The client does what the timed tools cannot: it checks that a proxy does what its row says before it is timed, holds
thousands of idle connections, and sends a known number of requests for the count of allocations.
Part of bench.py; tested by test_bench.py.
"""

import contextlib
import json
import pathlib
import socket
import ssl
import sys
from dataclasses import dataclass

import processes
from certificates import DOMAIN
from origin import Site
from processes import HOST, BenchError

RESPONSE_BYTES_MAX = 64 * 1024 * 1024  # six times the largest file of the origin
HEAD_BYTES_MAX = 64 * 1024
EXCHANGE_SECONDS_MAX = 30.0  # on a machine that is building, nginx was seen to wait 7 s for its CPU
# wrk ends on time but for its last responses, tunnel-load on time; beyond this they hang.
LOAD_GRACE_SECONDS = 30.0
NEW_HOST_MILLISECONDS_MAX = 200  # Squid takes about a twentieth
# One wrong answer in a thousand makes a figure worthless. Below it are the responses cut off where a run ends.
ERROR_SHARE_MAX = 0.001
# What a program's HTTP library sends besides Host, for the rows of header rules: some of it is kept, some removed, some
# replaced.
FIELDS = {"Accept": "application/json", "Cookie": "session=2f8c0a51e7d94b63; theme=dark",
          "Referer": "https://shop.example/orders", "User-Agent": "ShopClient/3.2 (Linux)"}
NO_FIELDS: dict[str, str] = {}
# Linux gives one source address 28,232 ports by default towards one destination.
CLIENTS_PER_SOURCE = 20_000


@dataclass(frozen=True)
class Load:
    """What a timed run did. `bytes` counts what arrived of responses, complete or not (wrk: heads too)."""

    requests: int
    bytes: int
    seconds: float
    p50_us: float
    p99_us: float
    errors: int
    ended: int = 0  # connections that the server closed with no word of it in the response

    def check(self, running, path: str):
        """BenchError when it is not what the row asked for."""
        name = running.name
        if self.requests == 0:
            raise BenchError(f"{name}: not one request was answered in {self.seconds:.1f} s; {self.errors} errors")
        errors = self.errors + (0 if running.proxy.closes_unannounced else self.ended)
        if errors > self.requests * ERROR_SHARE_MAX:
            raise BenchError(f"{name}: {errors} errors in {self.requests} requests")
        size = len(running.content(path))
        if self.bytes < self.requests * size:
            raise BenchError(f"{name}: {self.bytes} bytes in {self.requests} responses, expected {size} in each")


def wrk(bench, running, site: Site, path: str, seconds: int, *, close: bool = False,
        fields: dict[str, str] = NO_FIELDS) -> Load:
    """GETs of a site's `path` by wrk over `bench.connections` connections and one thread. wrk takes whole seconds only."""
    more = [word for name, value in fields.items() for word in ("-H", f"{name}: {value}")]
    text = processes.run(
        "wrk", [processes.find("wrk"), "-t1", f"-c{bench.connections}", f"-d{seconds}s",
                "--timeout", f"{EXCHANGE_SECONDS_MAX:.0f}s", *more,
                "-s", str(bench.sources / "absolute.lua"), f"http://{HOST}:{running.port}/"],
        cpu=bench.load_cpu, output=bench.directory / "wrk.err", seconds_max=seconds + LOAD_GRACE_SECONDS,
        environment={"BENCH_TARGET": running.target(site, path), "BENCH_HOST": site.authority,
                     "BENCH_CLOSE": "1" if close else "0"})
    for line in text.splitlines():
        if line.startswith("BENCH "):
            return Load(**json.loads(line.removeprefix("BENCH ")))
    raise BenchError(f"wrk printed no BENCH line, but: {processes.tail(text)}")


def tunnels(bench, running, site: Site, path: str, seconds: int, *, close: bool = False) -> Load:
    """GETs of `path` by tunnel-load, inside tunnels that CONNECT opens; or straight away, where the proxy is a tunnel."""
    options = ["--connections", str(bench.connections), "--host", site.host]
    if site.scheme == "https":
        options += ["--ca", str(running.tunnel_ca())]
    if close:
        options.append("--close")
    return _tunnel_load(bench, running, site, path, seconds * 1000, options)


def new_hosts(bench, running, site: Site, path: str, first: int, count: int) -> Load:
    """A GET of `path` from each of `count` hosts, one after another, each on a connection of its own, inside TLS."""
    options = ["--connections", "1", "--host", DOMAIN, "--ca", str(running.tunnel_ca()),
               "--first-host", str(first), "--hosts", str(count)]
    return _tunnel_load(bench, running, site, path, NEW_HOST_MILLISECONDS_MAX * count, options)


def _tunnel_load(bench, running, site: Site, path: str, milliseconds: int, options: list[str]) -> Load:
    command = [str(bench.tunnel_load), "--proxy", str(running.port), "--origin", str(site.port), "--path", path,
               "--milliseconds", str(milliseconds), *options]
    if running.proxy.is_tunnel:
        command.append("--direct")
    text = processes.run("tunnel-load", command, cpu=bench.load_cpu, output=bench.directory / "tunnel-load.err",
                         seconds_max=milliseconds / 1000 + LOAD_GRACE_SECONDS + 5)
    return Load(**json.loads(text))


@contextlib.contextmanager
def scraping(bench, running, times_a_second: int, seconds: float):
    """Has /metrics scraped while the block runs; a function that waits for the end and says how often is what it gets."""
    path = running.admin_socket
    if not path.exists():
        raise BenchError(f"{running.name} has no admin socket to scrape")
    command = [sys.executable, str(bench.sources / "scrape.py"), str(path), str(times_a_second), str(seconds)]
    with processes.Child("scrape.py", command, cpu=bench.load_cpu, output=bench.directory / "scrape.err",
                         read_stdout=True) as child:
        child.wait_for_line()

        def outcome() -> dict:
            text = child.process.communicate(timeout=seconds + LOAD_GRACE_SECONDS)[0]
            if child.process.returncode != 0:
                raise child.fail(f"ended with status {child.process.returncode}")
            return json.loads(text)

        yield outcome


class Client:
    """One connection to a proxy, blocking, one exchange at a time."""

    def __init__(self, port: int, source: str | None = None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(EXCHANGE_SECONDS_MAX)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if source is not None:
                # Else the kernel would reserve a port for the address alone, at bind, instead of for the connection.
                self.socket.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
                self.socket.bind((source, 0))
            self.socket.connect((HOST, port))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _more(self) -> bytes:
        try:
            received = self.socket.recv(1 << 16)
        except TimeoutError:
            raise BenchError(f"the proxy sent nothing for {EXCHANGE_SECONDS_MAX:.0f} s within a response") from None
        if not received:
            raise BenchError("the proxy closed the connection within a response")
        return received

    def _head(self) -> tuple[int, dict[str, str], bytes]:
        """Status, fields with names in lower case, and what came behind the head."""
        received = b""
        while b"\r\n\r\n" not in received:
            if len(received) > HEAD_BYTES_MAX:
                raise BenchError(f"the head of a response is longer than {HEAD_BYTES_MAX} bytes")
            received += self._more()
        head, rest = received.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        return int(lines[0].split(" ", 2)[1]), fields, rest

    def exchange(self, target: str, authority: str, *, close: bool = False,
                 fields: dict[str, str] = NO_FIELDS) -> tuple[int, bytes]:
        """Status and body of the response to GET."""
        fields = {"Host": authority} | fields | ({"Connection": "close"} if close else {})
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.socket.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode())
        status, fields, body = self._head()
        if "content-length" not in fields:  # tinyproxy drops it where the origin has none; then the end is the end
            raise BenchError(f"a response to GET {target} without Content-Length, status {status}")
        length = int(fields["content-length"])
        if length > RESPONSE_BYTES_MAX:
            raise BenchError(f"a response of {length} bytes, more than {RESPONSE_BYTES_MAX}")
        parts, received = [body], len(body)
        while received < length:
            parts.append(self._more())
            received += len(parts[-1])
        return status, b"".join(parts)

    def get(self, target: str, authority: str, *, close: bool = False, fields: dict[str, str] = NO_FIELDS) -> bytes:
        """The body of a response to GET. BenchError on another status than 200."""
        status, body = self.exchange(target, authority, close=close, fields=fields)
        if status != 200:
            raise BenchError(f"GET {target} was answered with {status}, not 200: {body[:500]!r}")
        return body

    def connect(self, authority: str) -> int:
        """The status that CONNECT is answered with. BenchError when bytes of the tunnel come with it."""
        self.socket.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        status, _, rest = self._head()
        if 200 <= status < 300 and rest:
            raise BenchError(f"CONNECT {authority} was answered with {status} and {len(rest)} bytes of the tunnel")
        return status

    def connect_tunnel(self, authority: str):
        """CONNECT. BenchError on another status than 2xx."""
        status = self.connect(authority)
        if not 200 <= status < 300:
            raise BenchError(f"CONNECT {authority} was answered with {status}, not 200")

    def start_tls(self, ca: pathlib.Path, host: str):
        """TLS from here on, with whoever has a certificate for `host` that `ca` vouches for. BenchError when nobody."""
        try:
            self.socket = ssl.create_default_context(cafile=ca).wrap_socket(self.socket, server_hostname=host)
        except OSError as error:
            raise BenchError(f"no TLS with {host}: {error}") from error


def source_address(index: int) -> str:
    """The address to bind the client of this index to: 127.0.0.2 and on, so that no address runs out of ports."""
    return f"127.0.0.{2 + index // CLIENTS_PER_SOURCE}"


