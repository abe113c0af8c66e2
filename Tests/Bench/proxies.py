"""The proxies that are compared, and the origin behind them: how each is configured and started, one at a time.

A proxy is a row of PROXIES and a function that writes its configuration and returns its command. Every one of them runs
on one thread, pinned to one CPU, and writes one access-log line for each request to a file (HAProxy: raw to its stderr,
which is that file; Sallyport: its stderr; Squid: its stdio module; tinyproxy: its LogFile). Part of bench.py.
"""

import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass

import load
import measure
import processes
from processes import HOST, BenchError, Child

# The client connections that each proxy is told to allow: above the 10,000 of the idle rows. Descriptors are another
# matter: a hard limit of 20,000 is what some machines give even root.
CLIENT_CONNECTIONS = 12_000
# Of nginx: far above what the timed rows open, and tinyproxy's one a request.
ORIGIN_CONNECTIONS = 8_192
# No time-out may end an idle connection, or a slow 10 MiB response, within a row.
IDLE_SECONDS = 600
FILES = {"/1k": 1024, "/64k": 64 * 1024, "/10m": 10 * 1024 * 1024}


class Origin:
    """nginx: one worker, static files, kept-alive connections without an end, no log.

    `/seen` answers with the request line and the connection as nginx saw them, which is how a proxy is checked. Small
    files are read, not sent with sendfile, so that head and body leave in one segment; for the others tcp_nopush does it.
    """

    sizes = FILES

    def __init__(self, bench):
        self.port = processes.free_port()
        self.authority = f"{HOST}:{self.port}"
        directory = bench.new_path("origin")
        root = directory / "files"
        root.mkdir(parents=True)
        for path, size in FILES.items():
            (root / path.lstrip("/")).write_bytes(os.urandom(size))
        # As root, nginx's worker would be another user, who need not be able to read our directory.
        user = "user root;" if os.geteuid() == 0 else ""
        configuration = directory / "nginx.conf"
        configuration.write_text(f"""
            daemon off; worker_processes 1; worker_rlimit_nofile {bench.descriptors_max}; {user}
            pid {directory}/pid; error_log stderr error;
            events {{ worker_connections {ORIGIN_CONNECTIONS}; }}
            http {{
              access_log off; default_type application/octet-stream; open_file_cache max=16;
              keepalive_timeout {IDLE_SECONDS}s; keepalive_requests 1000000000;
              sendfile on; tcp_nopush on; tcp_nodelay on;
              client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path {directory}/t3;
              uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;
              server {{
                listen {self.authority} backlog=4096; root {root};
                location = /1k {{ sendfile off; }}
                location = /seen {{ return 200 "$request|$connection"; }}
              }}
            }}""")
        self.child = Child("nginx", [required("nginx"), "-c", str(configuration), "-e", "stderr"],
                           cpu=bench.load_cpu, output=directory / "output")
        self.child.wait_for_port(self.port)


def required(program: str) -> str:
    path = processes.find(program)
    if path is None:
        raise BenchError(f"{program} is not installed; on Debian: apt install nginx-light haproxy squid tinyproxy wrk")
    return path


@dataclass(frozen=True)
class Start:
    """What a proxy is given to start with."""

    bench: "object"
    directory: pathlib.Path  # of this start alone, empty
    port: int
    log: pathlib.Path  # where access-log lines go, and the proxy's stderr
    rules: int = 0  # Sallyport: rules in its policy


@dataclass(frozen=True)
class Proxy:
    name: str
    what: str
    program: str | None  # what must be installed; None: built by us
    command: Callable[[Start], list[str]]
    forward: bool = True  # takes absolute-form; else origin-form, as an origin does
    tunnels: bool = False  # answers CONNECT
    pools: bool = True  # keeps connections to the origin alive between requests
    closes_unannounced: bool = False  # ends a connection after each response without saying so in it
    logs: bool = True
    prints_line: bool = False  # says on stdout that it is ready; else it is ready when its port is open
    is_pump: bool = False
    rules: int = 0
    note: str = ""

    @property
    def is_subject(self) -> bool:
        """Whether it is the program under test, in whichever configuration."""
        return self.command is sallyport


class Running:
    """A proxy that is started and ready; stopped when its `with` block is left."""

    def __init__(self, bench, proxy: Proxy, environment: dict[str, str] | None = None):
        self.bench = bench
        self.proxy = proxy
        self.name = proxy.name
        self.port = processes.free_port()
        directory = bench.new_path(proxy.name)
        directory.mkdir()
        directory.chmod(0o777)  # as root, Squid writes as a user of its own
        self.log = directory / "log"
        self.log.touch()
        self.log.chmod(0o666)
        command = proxy.command(Start(bench, directory, self.port, self.log, proxy.rules))
        self.child = Child(proxy.name, command, cpu=bench.proxy_cpu, output=self.log, environment=environment,
                           directory=directory, read_stdout=proxy.prints_line)

    def __enter__(self):
        try:
            if self.proxy.prints_line:
                self.child.wait_for_line()
            else:
                self.child.wait_for_port(self.port)
        except BaseException:
            self.child.stop()
            raise
        return self

    def __exit__(self, *_):
        self.child.stop()
        remove_shared_memory()

    def target(self, path: str) -> str:
        """The request-target for a path of the origin, in the form that this proxy takes."""
        return f"http://{self.bench.origin.authority}{path}" if self.proxy.forward else path

    def cpu_ns(self) -> int:
        return measure.cpu_ns(self.child.pid)

    def memory(self) -> measure.Memory:
        return measure.memory(self.child.pid)

    def descriptors(self) -> int:
        return measure.descriptors(self.child.pid)

    def must_be_alive(self):
        if self.child.process.poll() is not None:
            raise self.child.fail(f"ended with status {self.child.process.returncode}")

    def empty_log(self) -> int:
        """Empties the access log, which everyone opens for appending, and says how many bytes it had."""
        size = self.log.stat().st_size
        os.truncate(self.log, 0)
        return size

    def check(self):
        """That requests arrive at the origin as they should; without it a fast figure may be that of an error page."""
        origin = self.bench.origin.authority
        seen = []
        for _ in range(2):
            # A connection of its own for each, so that the pump and a proxy that pairs connections cannot seem to pool.
            with load.Client(self.port) as client:
                line, connection = client.get(self.target("/seen"), origin).decode().split("|")
                seen.append(connection)
                method, target, _ = line.split(" ")
                if (method, target) != ("GET", "/seen"):
                    raise BenchError(f"{self.name}: the origin got '{line}', not GET /seen in origin-form")
        pooled = seen[0] == seen[1]
        if pooled != self.proxy.pools:
            raise BenchError(f"{self.name}: two requests used {'one connection' if pooled else 'two connections'} to the "
                             f"origin; expected {'one' if self.proxy.pools else 'two'}")
        for path, size in FILES.items():
            with load.Client(self.port) as client:
                body = client.get(self.target(path), origin)
                if len(body) != size:
                    raise BenchError(f"{self.name}: {path} has {len(body)} bytes, not {size}")

    def check_tunnel(self):
        """That CONNECT opens a tunnel to the origin which stays for more than one request."""
        origin = self.bench.origin.authority
        with load.Client(self.port) as client:
            if not self.proxy.is_pump:
                client.connect_tunnel(origin)
            first, second = (client.get("/seen", origin) for _ in range(2))
            if first != second:
                raise BenchError(f"{self.name}: a tunnel led to two connections: {first!r}, then {second!r}")


# Sallyport ------------------------------------------------------------------------------------------------------------


def sallyport(start: Start) -> list[str]:
    configuration = start.directory / "sallyport.toml"
    # The last rule is the one that holds, so that a policy which tries one after another has to try them all.
    hosts = [f"host-{index}.bench.example" for index in range(start.rules - 1)] + [HOST] if start.rules else []
    rules = "".join(f'[[rule]]\nname = "rule-{index}"\nhosts = ["{host}"]\n' for index, host in enumerate(hosts))
    admin = f'[admin]\nsocket = "{start.directory}/admin.sock"' if start.bench.admin_socket else ""
    configuration.write_text(f"""
[proxy]
listen = ["{HOST}:{start.port}"]
workers = 1
[proxy.limits]
connections = {CLIENT_CONNECTIONS}
[log]
access = true
{admin}
{rules}""")
    return [str(start.bench.binary), "run", "--config", str(configuration)]


# HAProxy --------------------------------------------------------------------------------------------------------------

# The cheapest correct form that we know, so that the bar is not too low: `pathq` cuts the target without a regular
# expression, which regsub would cost on each request.
HAPROXY_FORWARD = """
          http-request set-dst url_ip
          http-request set-dst-port url_port
          http-request set-uri %[pathq]"""


def haproxy(start: Start, frontend: str, server: str, option: str = "") -> list[str]:
    configuration = start.directory / "haproxy.cfg"
    # no strict-limits: maxconn asks for two descriptors a client, more than some machines give; no row needs them.
    configuration.write_text(f"""
        global
          nbthread 1
          maxconn {CLIENT_CONNECTIONS}
          no strict-limits
          log fd@2 format raw local0
        defaults
          mode http
          log global
          option httplog
          {option}
          http-reuse always
          timeout client {IDLE_SECONDS}s
          timeout server {IDLE_SECONDS}s
          timeout connect 5s
        frontend clients
          bind {HOST}:{start.port}{frontend}
          default_backend origin
        backend origin
          server origin {server}
""")
    return [required("haproxy"), "-db", "-f", str(configuration)]


def haproxy_forward(start: Start) -> list[str]:
    return haproxy(start, HAPROXY_FORWARD, "0.0.0.0:0")


def haproxy_splice(start: Start) -> list[str]:
    return haproxy(start, HAPROXY_FORWARD, "0.0.0.0:0", "option splice-auto")


def haproxy_splice_response(start: Start) -> list[str]:
    return haproxy(start, HAPROXY_FORWARD, "0.0.0.0:0", "option splice-response")


def haproxy_reverse(start: Start) -> list[str]:
    return haproxy(start, "", start.bench.origin.authority)


# Squid, tinyproxy, the pump -------------------------------------------------------------------------------------------


# Squid makes segments of shared memory named after its service, even as one process. A name of our own keeps two benches
# and a Squid of the system apart; a Squid that is killed leaves them behind, so Running removes them.
SHARED_MEMORY = pathlib.Path("/dev/shm")
SQUID_SERVICE = f"sallyportbench{os.getpid()}"


def remove_shared_memory():
    for segment in SHARED_MEMORY.glob(f"{SQUID_SERVICE}-*.shm"):
        segment.unlink(missing_ok=True)


def squid(start: Start) -> list[str]:
    # The two _extras name the client's host by default, for which Squid asks the DNS about the address of every client:
    # 9 KB each while the answer is awaited. Without it nothing is asked, and nothing leaves the machine.
    configuration = start.directory / "squid.conf"
    configuration.write_text(f"""
http_port {HOST}:{start.port}
http_access allow all
cache deny all
workers 1
max_filedescriptors {start.bench.descriptors_max}
access_log stdio:{start.log} squid
cache_log {start.directory}/cache.log
pid_filename none
coredump_dir {start.directory}
netdb_filename none
pinger_enable off
logfile_rotate 0
dns_nameservers {HOST}
url_rewrite_extras "%>a"
store_id_extras "%>a"
client_idle_pconn_timeout {IDLE_SECONDS} seconds
shutdown_lifetime 0 seconds
""")
    # -N: one process, no supervisor; -d1: what goes wrong is said on stderr.
    return [required("squid"), "-N", "-d1", "-n", SQUID_SERVICE, "-f", str(configuration)]


def tinyproxy(start: Start) -> list[str]:
    configuration = start.directory / "tinyproxy.conf"
    configuration.write_text(f"""
Port {start.port}
Listen {HOST}
Allow {HOST}
Timeout {IDLE_SECONDS}
MaxClients 1000
LogFile "{start.log}"
LogLevel Connect
PidFile "{start.directory}/pid"
""")
    return [required("tinyproxy"), "-d", "-c", str(configuration)]


def pump(start: Start) -> list[str]:
    return [str(start.bench.pump), str(start.port), str(start.bench.origin.port)]


PROXIES = {
    proxy.name: proxy
    for proxy in [
        Proxy("sallyport", "the proxy under test, one worker", None, sallyport, tunnels=True, prints_line=True),
        Proxy("haproxy", "HAProxy as a forward proxy, one thread", "haproxy", haproxy_forward,
              note="no CONNECT: HAProxy cannot open a tunnel to where a client says"),
        Proxy("haproxy-splice", "the same with option splice-auto", "haproxy", haproxy_splice,
              note="HAProxy 2.6 was seen not to splice with it over loopback"),
        Proxy("haproxy-splice-response", "the same with option splice-response", "haproxy", haproxy_splice_response,
              note="splices every response with a body"),
        Proxy("haproxy-reverse", "HAProxy as a reverse proxy, for the record", "haproxy", haproxy_reverse,
              forward=False),
        Proxy("squid", "Squid, one process, cache deny all", "squid", squid, tunnels=True),
        Proxy("tinyproxy", "tinyproxy, a thread a connection", "tinyproxy", tinyproxy, tunnels=True, pools=False,
              closes_unannounced=True),
        Proxy("pump", "the floor: copies bytes one to one, parses nothing", None, pump, forward=False, tunnels=True,
              pools=False, logs=False, is_pump=True),
        Proxy("sallyport-rules-10", "with 10 rules, the last of which holds", None, sallyport, tunnels=True,
              prints_line=True, rules=10),
        Proxy("sallyport-rules-10000", "with 10,000 rules, the last of which holds", None, sallyport, tunnels=True,
              prints_line=True, rules=10_000),
    ]
}
