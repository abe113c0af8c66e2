"""The proxies that are compared: how each is configured and started, one at a time, and checked.

A proxy is a row of PROXIES and a function that writes its configuration and returns its command. Every one of them runs
on one thread, pinned to one CPU, and writes one access-log line for each request to a file (HAProxy: raw to its stderr,
which is that file; Sallyport: its stderr; Squid: its stdio module; tinyproxy: its LogFile; nginx: its access_log).
Those of the TLS rows verify the origin's certificate, against the bench's CA alone. Part of bench.py.
"""

import json
import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import documents
import load
import measure
import processes
from certificates import ORIGIN_NAME, UNCOVERED_NAME
from origin import (API, API_BROKEN, API_DOCUMENT, API_DOCUMENT_GZIP, API_SEEN, CONNECTIONS, FILES, IDLE_SECONDS, Site,
                    numbered_host, required)
from processes import HOST, BenchError, Child

# The client connections that each proxy is told to allow: above the 10,000 of the idle rows. Descriptors are another
# matter: a hard limit of 20,000 is what some machines give even root.
CLIENT_CONNECTIONS = 12_000
# Names of the TLS origin that a proxy is told of, where it must be told: above what any row asks for in one run.
NUMBERED_HOSTS = 2_000
# More than two, for Squid was seen to close a TLS connection at once that it could have kept.
CHECK_REQUESTS = 4


@dataclass(frozen=True)
class Start:
    """What a proxy is given to start with."""

    bench: "object"
    directory: pathlib.Path  # of this start alone, empty
    port: int
    log: pathlib.Path  # where access-log lines go, and the proxy's stderr
    proxy: "Proxy"


@dataclass(frozen=True)
class Rule:
    """What a rule of Sallyport for the paths below API says, besides whom it is for, and what comes of it."""

    tables: str = ""
    checks_json: bool = False  # a document with a fault is refused
    removes_nulls: bool = False
    seen: tuple[str, ...] = ()  # of a request with load.FIELDS: the origin's SEEN_VARIABLES


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
    is_tunnel: bool = False  # knows no CONNECT: a connection to it is a tunnel to the origin from the start
    rules: int = 0  # Sallyport: in its policy
    rule: Rule | None = None  # Sallyport: the only one of its policy
    records: bool = False  # Sallyport: keeps a history
    secure: bool = False  # speaks TLS with the origin itself, and verifies it
    connect: str = "tunnel"  # what CONNECT gets, in Sallyport's words: also "verify", "intercept"
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
        self.admin_socket = admin_socket(directory)
        command = proxy.command(Start(bench, directory, self.port, self.log, proxy))
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

    def target(self, site: Site, path: str) -> str:
        """The request-target for a path of a site, in the form that this proxy takes."""
        return site.url(path) if self.proxy.forward else path

    def tunnel_ca(self) -> pathlib.Path:
        """Whom a client inside a tunnel must trust: the CA of the origin, or the authority that stands in for it."""
        certificates = self.bench.certificates
        return certificates.authority if self.proxy.connect == "intercept" else certificates.ca

    def cpu_ns(self) -> int:
        return measure.cpu_ns(self.child.pid)

    def loops_ns(self) -> int:
        """Of Sallyport's event loops alone."""
        return measure.threads_ns(self.child.pid, "worker-")

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

    def check(self, *, secure: bool = False):
        """That requests arrive at the origin as they should; without it a fast figure may be that of an error page."""
        site = self.bench.origin.site(secure=secure)
        seen = []
        for _ in range(CHECK_REQUESTS):
            # A connection of its own for each, so that the pump and a proxy that pairs connections cannot seem to pool.
            with load.Client(self.port) as client:
                seen.append(self._connection_seen(client.get(self.target(site, "/seen"), site.authority)))
        pooled = len(set(seen)) < len(seen)
        if pooled != self.proxy.pools:
            raise BenchError(f"{self.name}: {len(seen)} requests used {len(set(seen))} connections to the origin; expected "
                             f"{'fewer' if self.proxy.pools else 'as many'}")
        for path in FILES:
            self._check_content(site, path)
        if secure and self.proxy.forward:
            uncovered = replace(site, host=UNCOVERED_NAME)
            with load.Client(self.port) as client:
                self._must_refuse(client.exchange(self.target(uncovered, "/seen"), uncovered.authority)[0])

    def check_documents(self):
        """That a document arrives, whole or without its nulls, and one with a fault where nobody looks at it."""
        site = self.bench.origin.plain
        self._check_content(site, API_DOCUMENT)
        # What has a content coding leaves in it; no row removes nulls there.
        if not self.proxy.rule.removes_nulls:
            self._check_content(site, API_DOCUMENT_GZIP)
        if not self.proxy.rule.checks_json:
            return self._check_content(site, API_BROKEN)
        with load.Client(self.port) as client:
            status, _ = client.exchange(self.target(site, API_BROKEN), site.authority)
        if status < 500:
            raise BenchError(f"{self.name} checks nothing: a document without its end gets {status}, expected 5xx")

    def check_fields(self):
        """That the origin gets the fields and the query that the rule makes of those of a client."""
        site = self.bench.origin.plain
        with load.Client(self.port) as client:
            seen = client.get(self.target(site, API_SEEN), site.authority, fields=load.FIELDS).decode()
        if seen != "|".join(self.proxy.rule.seen):
            raise BenchError(f"{self.name}: the origin got {seen}, not {'|'.join(self.proxy.rule.seen)}")

    def content(self, path: str) -> bytes:
        """What a client gets for a path of the origin."""
        content = self.bench.origin.files[path]
        if path == API_DOCUMENT and self.proxy.rule and self.proxy.rule.removes_nulls:
            return documents.text(documents.without_nulls(json.loads(content)))
        return content

    def _check_content(self, site: Site, path: str):
        with load.Client(self.port) as client:
            body = client.get(self.target(site, path), site.authority)
        content = self.content(path)
        if body != content:
            raise BenchError(f"{self.name}: {path} has {len(body)} bytes, not the {len(content)} of the origin, or others")

    def check_tunnel(self, *, secure: bool = False):
        """That CONNECT opens a tunnel to the origin which stays for more than one request."""
        site = self.bench.origin.site(secure=secure)
        with load.Client(self.port) as client:
            if not self.proxy.is_tunnel:
                client.connect_tunnel(site.authority)
            if secure:
                client.start_tls(self.tunnel_ca(), site.host)
            first, second = (self._connection_seen(client.get("/seen", site.authority)) for _ in range(2))
            if first != second and self.proxy.connect != "intercept":
                raise BenchError(f"{self.name}: a tunnel led to two connections, {first} and {second}")
        if secure and self.proxy.connect != "tunnel" and not self.proxy.is_tunnel:
            self._check_tunnel_refusal(replace(site, host=UNCOVERED_NAME))

    def _connection_seen(self, answer: bytes) -> str:
        """What the origin said of the connection that a request for /seen came on."""
        line, connection = answer.decode().split("|")
        if line.split(" ")[:2] != ["GET", "/seen"]:
            raise BenchError(f"{self.name}: the origin got '{line}', not GET /seen in origin-form")
        return connection

    def _check_tunnel_refusal(self, uncovered: Site):
        """That a tunnel to a name which the origin's certificate does not cover is refused: "verify" refuses CONNECT,
        "intercept" the request inside."""
        with load.Client(self.port) as client:
            status = client.connect(uncovered.authority)
            if self.proxy.connect == "intercept":
                client.start_tls(self.tunnel_ca(), uncovered.host)
                status, _ = client.exchange("/seen", uncovered.authority)
            self._must_refuse(status)

    def _must_refuse(self, status: int):
        if status < 500:
            raise BenchError(f"{self.name} does not verify: a name that is not in the origin's certificate gets {status}, "
                             "expected 5xx")


# Sallyport ------------------------------------------------------------------------------------------------------------


def admin_socket(directory: pathlib.Path) -> pathlib.Path:
    """Where a Sallyport that was started there answers questions."""
    return directory / "admin.sock"


def sallyport(start: Start) -> list[str]:
    configuration = start.directory / "sallyport.toml"
    # The last rule is the one that holds, so that a policy which tries one after another has to try them all.
    count = start.proxy.rules
    hosts = [f"host-{index}.bench.example" for index in range(count - 1)] + [HOST] if count else []
    rules = "".join(f'[[rule]]\nname = "rule-{index}"\nhosts = ["{host}"]\n' for index, host in enumerate(hosts))
    if start.proxy.rule:
        rules += f'[[rule]]\nname = "bench"\nhosts = ["{HOST}"]\npaths = ["{API}*"]\n{start.proxy.rule.tables}'
    # Lest it takes that of the system's daemon.
    admin = f'[admin]\nsocket = "{admin_socket(start.directory)}"'
    history = f'[history]\nfile = "{start.directory}/history.db"' if start.proxy.records else ""
    configuration.write_text(f"""
[proxy]
listen = ["{HOST}:{start.port}"]
workers = 1
[proxy.limits]
connections = {CLIENT_CONNECTIONS}
[log]
access = true
{admin}
{history}
{rules}
{sallyport_security(start) if start.proxy.secure else ""}""")
    return [str(start.bench.binary), "run", "--config", str(configuration)]


# What is weighed against a rule that says no more than whom it is for.
ONLY_A_RULE = Rule(seen=("", "", load.FIELDS["Accept"], "", load.FIELDS["Cookie"], load.FIELDS["Referer"],
                         load.FIELDS["User-Agent"], ""))
JSON_CHECK = Rule("""
[rule.response]
serializer = "json"
""", checks_json=True)
NULL_REMOVAL = Rule("""
[rule.response]
serializer = "json"
remove_nulls = true
""", checks_json=True, removes_nulls=True)
# Of the two defaults the client has one and lacks the other; it has both fields that are removed, and a User-Agent.
HEADER_RULES = Rule("""
[rule.request]
headers.set = { X-Client = "kiosk-7", X-Environment = "production" }
headers.default = { Accept = "text/plain", Accept-Language = "en" }
headers.remove = ["Cookie", "Referer"]
user_agent = "Kiosk/7.1 (managed)"
""", seen=("kiosk-7", "production", load.FIELDS["Accept"], "en", "", "", "Kiosk/7.1 (managed)", ""))
QUERY_PARAMETER = Rule("""
[rule.request]
parameters = { api_key = "7d1f0c92b84e46a3a5c1e0f2" }
""", seen=(*ONLY_A_RULE.seen[:-1], "api_key=7d1f0c92b84e46a3a5c1e0f2"))

# By loopback, which counts as wired: the first route asks for another link, the second is taken, the third never needed.
ROUTES = Rule("""
when = ["wired", "wifi", "wwan", "unknown", "not-reachable"]
route = ["far", "near", "direct"]
[routes.far]
via = "http://127.0.0.1:9"
when = ["wifi"]
[routes.near]
via = "direct"
when = ["wired"]
unreachable = "wait"
""", seen=ONLY_A_RULE.seen)
USERS = Rule(f"""
users = [{os.getuid()}]
""", seen=ONLY_A_RULE.seen)


def sallyport_security(start: Start) -> str:
    """Whom it trusts, and what it does with tunnels."""
    certificates = start.bench.certificates
    authority = f'[authority]\ndirectory = "{certificates.authority_directory}"'
    return f"""
[trust]
anchors = "{certificates.ca}"
{authority if start.proxy.connect == "intercept" else ""}
[[rule]]
name = "bench"
hosts = ["*"]
connect = "{start.proxy.connect}"
"""


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
    return haproxy(start, "", start.bench.origin.plain.authority)


# The name that a request asks for, without its port.
REQUESTED_NAME = "req.hdr(host),field(1,:)"
# Of HAProxy's server line: idle connections are kept, so that a row may count them.
KEEP_IDLE = f"pool-purge-delay {IDLE_SECONDS}s pool-low-conn {NUMBERED_HOSTS}"


def haproxy_server(start: Start, name: str, pooling: str) -> str:
    """The TLS origin. `name` is an expression for SNI, by which the certificate is verified too."""
    return (f"{start.bench.origin.secure_endpoint} ssl verify required ca-file {start.bench.certificates.ca} "
            f"sni {name} {pooling}")


def haproxy_tls(start: Start) -> list[str]:
    # As a reverse proxy: what HAProxy can do with the least work.
    return haproxy(start, "", haproxy_server(start, f"str({ORIGIN_NAME})", KEEP_IDLE))


def haproxy_tls_hosts(start: Start) -> list[str]:
    return haproxy(start, "", haproxy_server(start, REQUESTED_NAME, KEEP_IDLE))


def haproxy_handshakes(start: Start) -> list[str]:
    return haproxy(start, f" ssl crt {start.bench.certificates.stand_in_with_key} alpn http/1.1",
                   haproxy_server(start, REQUESTED_NAME, "no-ssl-reuse pool-max-conn 0"), "option http-server-close")


# nginx ----------------------------------------------------------------------------------------------------------------


def nginx_tls(start: Start) -> list[str]:
    origin, directory = start.bench.origin.secure, start.directory
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = directory / "nginx.conf"
    configuration.write_text(f"""
        daemon off; worker_processes 1; worker_rlimit_nofile {start.bench.descriptors_max}; {user}
        pid {directory}/pid; error_log stderr error;
        events {{ worker_connections {CONNECTIONS}; }}
        http {{
          access_log {start.log}; keepalive_timeout {IDLE_SECONDS}s; keepalive_requests 1000000000; tcp_nodelay on;
          client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path {directory}/t3;
          uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;
          upstream origin {{
            server {start.bench.origin.secure_endpoint};
            keepalive 64; keepalive_requests 1000000000; keepalive_timeout {IDLE_SECONDS}s;
          }}
          server {{
            listen {HOST}:{start.port} backlog=4096;
            location / {{
              proxy_pass https://origin; proxy_http_version 1.1; proxy_max_temp_file_size 0;
              proxy_set_header Connection ""; proxy_set_header Host {origin.authority};
              proxy_ssl_server_name on; proxy_ssl_name {origin.host}; proxy_ssl_protocols TLSv1.3;
              proxy_ssl_verify on; proxy_ssl_trusted_certificate {start.bench.certificates.ca};
            }}
          }}
        }}""")
    return [required("nginx"), "-c", str(configuration), "-e", "stderr"]


# Squid, tinyproxy, the pump -------------------------------------------------------------------------------------------


# Squid makes segments of shared memory named after its service, even as one process. A name of our own keeps two benches
# and a Squid of the system apart; a Squid that is killed leaves them behind, so Running removes them.
SHARED_MEMORY = pathlib.Path("/dev/shm")
SQUID_SERVICE = f"sallyportbench{os.getpid()}"
# Of Debian's squid-openssl; the package squid is built without OpenSSL and cannot intercept.
SQUID_CERTIFICATE_PROGRAM = "/usr/lib/squid/security_file_certgen"


def remove_shared_memory():
    for segment in SHARED_MEMORY.glob(f"{SQUID_SERVICE}-*.shm"):
        segment.unlink(missing_ok=True)


def squid(start: Start, port_options: str = "", more: str = "") -> list[str]:
    # The two _extras name the client's host by default, for which Squid asks the DNS about the address of every client:
    # 9 KB each while the answer is awaited. Without it nothing is asked, and nothing leaves the machine.
    configuration = start.directory / "squid.conf"
    configuration.write_text(f"""
http_port {HOST}:{start.port} {port_options}
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
{more}""")
    # -N: one process, no supervisor; -d1: what goes wrong is said on stderr.
    return [required("squid"), "-N", "-d1", "-n", SQUID_SERVICE, "-f", str(configuration)]


def squid_intercept(start: Start, rules: str) -> list[str]:
    # One helper makes certificates, with no database on disk.
    certificates = start.bench.certificates
    hosts = start.directory / "hosts"
    names = [ORIGIN_NAME, UNCOVERED_NAME, *map(numbered_host, range(NUMBERED_HOSTS))]
    hosts.write_text("".join(f"{start.bench.origin.secure_address} {name}\n" for name in names))
    return squid(
        start,
        f"ssl-bump tls-cert={certificates.authority_with_key} generate-host-certificates=on "
        "dynamic_cert_mem_cache_size=64MB",
        f"""
{rules}
sslcrtd_program {SQUID_CERTIFICATE_PROGRAM}
sslcrtd_children 1 startup=1 idle=1
tls_outgoing_options cafile={certificates.ca} default-ca=off
hosts_file {hosts}
ipcache_size {2 * NUMBERED_HOSTS}
""")


def squid_peek(start: Start) -> list[str]:
    # What Squid's documents advise: SNI is known, and each tunnel has a handshake with the origin, whose certificate is
    # copied.
    return squid_intercept(start, "acl step1 at_step SslBump1\nssl_bump peek step1\nssl_bump bump all")


def squid_bump(start: Start) -> list[str]:
    # At the first step, before SNI: the certificate is made for the name in CONNECT, and connections to the origin are
    # pooled over all clients. The least work for Squid.
    return squid_intercept(start, "ssl_bump bump all")


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
    return [str(start.bench.pump), str(start.port), str(start.bench.origin.plain.port)]


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
              pools=False, logs=False, is_tunnel=True),
        Proxy("sallyport-rules-10", "with 10 rules, the last of which holds", None, sallyport, tunnels=True,
              prints_line=True, rules=10),
        Proxy("sallyport-rules-10000", "with 10,000 rules, the last of which holds", None, sallyport, tunnels=True,
              prints_line=True, rules=10_000),
        Proxy("sallyport-rule", "with one rule, which changes nothing and looks at nothing", None, sallyport, tunnels=True,
              prints_line=True, rule=ONLY_A_RULE),
        Proxy("sallyport-history", "with a history of what it decides", None, sallyport, tunnels=True, prints_line=True,
              records=True),
        Proxy("sallyport-json", "the same with a response serializer that checks JSON", None, sallyport, tunnels=True,
              prints_line=True, rule=JSON_CHECK),
        Proxy("sallyport-nulls", "the same with one that removes nulls", None, sallyport, tunnels=True, prints_line=True,
              rule=NULL_REMOVAL),
        Proxy("sallyport-headers", "the same with header rules: two set, two defaults, two removed, User-Agent", None,
              sallyport, tunnels=True, prints_line=True, rule=HEADER_RULES),
        Proxy("sallyport-parameter", "the same with a parameter for each query", None, sallyport, tunnels=True,
              prints_line=True, rule=QUERY_PARAMETER),
        Proxy("sallyport-routes", "the same with `when`, three routes, and the second of them taken", None, sallyport,
              tunnels=True, prints_line=True, rule=ROUTES),
        Proxy("sallyport-users", "the same for the user that asks", None, sallyport, tunnels=True, prints_line=True,
              rule=USERS),
        Proxy("sallyport-tls", "which verifies https:// origins itself", None, sallyport, tunnels=True, prints_line=True,
              secure=True),
        Proxy("sallyport-verify", 'with connect = "verify"', None, sallyport, tunnels=True, prints_line=True, secure=True,
              connect="verify"),
        Proxy("sallyport-intercept", 'with connect = "intercept"', None, sallyport, tunnels=True, prints_line=True,
              secure=True, connect="intercept"),
        Proxy("haproxy-tls", "HAProxy as a reverse proxy to a TLS origin that it verifies", "haproxy", haproxy_tls,
              forward=False, secure=True),
        Proxy("haproxy-tls-hosts", "the same, with the name that each request asks for", "haproxy", haproxy_tls_hosts,
              forward=False, secure=True),
        Proxy("haproxy-handshakes", "what two full handshakes cost: HAProxy with TLS on both sides, nothing reused",
              "haproxy", haproxy_handshakes, forward=False, is_tunnel=True, secure=True, connect="intercept",
              note="no CONNECT, and no certificate is made"),
        Proxy("nginx-tls", "nginx as a reverse proxy to a TLS origin that it verifies", "nginx", nginx_tls,
              forward=False, secure=True),
        Proxy("squid-peek", "Squid, which intercepts: a look at the ClientHello, then a copy of the origin's certificate",
              SQUID_CERTIFICATE_PROGRAM, squid_peek, tunnels=True, secure=True, connect="intercept",
              note="as its documents have it; of the package squid-openssl"),
        Proxy("squid-bump", "the same without a look: a certificate for the name in CONNECT", SQUID_CERTIFICATE_PROGRAM,
              squid_bump, tunnels=True, secure=True, connect="intercept"),
    ]
}
