"""Parent proxies for the tests of routes: real ones from Debian, the policy that names them, a tap before each.

How to run: `apt-get install tinyproxy squid-openssl haproxy microsocks dante-server`, then, as root, `pytest
Tests/EndToEndTests/test_routes_*.py`, with SALLYPORT_BINARY where the binary is not .build/release/sallyport. A
test whose program is absent skips and says which. test_routes_peers.py needs no Sallyport: it asks every peer with
curl.

    routed(route("office", parent.via), "office")     a proxy whose every request takes these routes, in this order
    real_parent("squid")                              a ParentTap before "tinyproxy", "squid", "open squid", …
    http_parent                                       tinyproxy and Squid in turn; both ask for ADA
    secure_parent(identity, behind)                   HAProxy that ends TLS with this certificate before another parent
    microsocks(user, password), dante                 real SOCKS5 servers
    ADA                                               the line of a route with the credentials that those ask for

Parents know a.test and b.test from a hosts file of their own, in a mount namespace; to the proxy only names of its
DNS server are known, which is every name unless `known` lists them. Scripted parents, for what no real one does:
scripted_parents.py.
"""

import base64
import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import strict_http
from conftest import need, stop_all, with_mounts
from dns_server import Answer
from journal import DEADLINE_SECONDS, Journal
from origins import Tap, unused_port, wait_until_it_listens
from problems import Problem, check_problem
from strict_http import Message, Violation
from tls_world import Identity, World, chain_pem, rule, trust, world

USER, PASSWORD = "ada", "open-sesame"
# What a parent answers that may be used again. Without the word a connection is used once, see RouteState.
KEPT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"

ADA = f'credentials = {{ username = "{USER}", password = "{PASSWORD}" }}'
BASIC = b"Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode())
SECRETS = [PASSWORD, BASIC.decode().removeprefix("Basic ")]
HOSTS = "127.0.0.1 localhost a.test b.test\n::1 six.test\n"


# Policy


def route(name: str, via: str, *lines: str, security: str = "") -> str:
    """One [routes.NAME] with its sub-table."""
    text = "\n".join([f"[routes.{name}]", f'via = "{via}"', *lines, ""])
    return text + (f"[routes.{name}.security]\n{security}\n" if security else "")


def by(*routes: str) -> str:
    """The line of a rule that lists these routes."""
    return f"route = [{', '.join(f'{chr(34)}{name}{chr(34)}' for name in routes)}]"


@pytest.fixture
def routed(sallyport, dns_server, world):
    """A function that starts a proxy on these tables, whose every request takes these routes, in this order.

    `rules` come before that rule. `known` are the names that its DNS server has; None: every name is 127.0.0.1.
    """

    def start(tables: str, *order: str, rules: str = "", known: dict[str, Answer] | None = None, **arguments):
        everything = Answer(a=["127.0.0.1"])
        names = dns_server({}, otherwise=everything) if known is None else dns_server(known)
        last = rule("routed", by(*order)) if order else ""
        # A port of its own, so that a reload has nothing to say of `listen`: its first line is then its outcome.
        listen = arguments.pop("listen", f'["127.0.0.1:{unused_port()}"]')
        head = f'[dns]\nservers = ["{names.address}"]\n{trust(world)}'
        proxy = sallyport(policy=head + tables + rules + last, listen=listen, **arguments)
        proxy.names, proxy.head = names, head
        proxy.secrets += SECRETS
        return proxy

    return start


# What is asked, and what is said


def ask(method: str, port: int, path: str = "/", lines: str = "", host: str = "a.test") -> bytes:
    """CONNECT, or a request in absolute form of http."""
    authority = f"{host}:{port}"
    target = authority if method == "CONNECT" else f"http://{authority}{path}"
    return f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n".encode()


def refused(
    answer: Message,
    status: int,
    token: str | set[str],
    error: str | set[str],
    *mentioned: str,
    proxy_name: str = "sallyport",
) -> Problem:
    """An error that the proxy made, of this token and type, whose detail mentions all of these."""
    problem = check_problem(answer, status, proxy_name=proxy_name)
    tokens, errors = ({word} if isinstance(word, str) else word for word in (token, error))
    assert problem.token in tokens and problem.error in errors, problem
    missing = [word for word in mentioned if word not in problem.body["detail"]]
    assert not missing, f"the detail does not mention {missing}: {problem.body['detail']!r}"
    return problem


# What a parent may be asked


# RFC 9110 §7.6.1, §11.7.1: Proxy-Authorization is for the next hop, which is the parent; the others end here.
NEVER_SENT_TO_PARENTS = strict_http.NEVER_FORWARDED - {b"proxy-authorization"}
VIA_OF = rb"(http/)?1\.[01] %s( .*)?"
# What CONNECT may carry: nothing of the client's that is meant for the origin (Cookie, Authorization) can be among it.
FIELDS_OF_CONNECT = {b"host", b"proxy-authorization", b"via", b"user-agent", b"connection", b"date"}


def check_asked_of_parent(message: Message, pseudonym: bytes = b"sallyport") -> None:
    """CONNECT and its authority in Host, or absolute-form of http; Via; and no field of the client's hop."""
    if message.version != b"HTTP/1.1":
        raise Violation(message.start, "a proxy sends its own version", message.version)
    if message.method == b"CONNECT":
        if message.value("Host").lower() != message.target.lower():
            raise Violation(message.start, "Host is not the target of CONNECT", message.value("Host"))
        if message.framing != "none":
            raise Violation(message.start, "a CONNECT with a body", message.target)
        if strange := {name.lower() for name, _ in message.fields} - FIELDS_OF_CONNECT:
            raise Violation(
                message.start, "a CONNECT tells the parent more than it must", b", ".join(strange)
            )
    else:
        target = re.fullmatch(rb"http://([^/?]*)(?:[/?].*)?", message.target)
        if not target:
            raise Violation(message.start, "a parent gets absolute-form of http", message.target)
        if message.value("Host").lower() != target[1].lower():
            raise Violation(message.start, "Host is not the authority of the target", message.value("Host"))
    for name, value in message.fields:
        if name.lower() in NEVER_SENT_TO_PARENTS:
            raise Violation(message.start, "field of the client's hop was forwarded", name + b": " + value)
    if strange := set(message.options("connection")) - strict_http.OWN_CONNECTION_OPTIONS:
        raise Violation(message.start, "Connection option of the client's hop", b", ".join(strange))
    last_hop = message.options("via")[-1:]
    if not last_hop or not re.fullmatch(VIA_OF % re.escape(pseudonym.lower()), last_hop[0]):
        raise Violation(message.start, "Via must end with the proxy", b",".join(last_hop))


def asked_in(up: bytes, down: bytes) -> list[Message]:
    """The whole requests in a stream to a parent, strictly parsed, up to where it becomes a tunnel."""
    messages: list[Message] = []
    at = answers_at = 0
    while at < len(up):
        try:
            messages.append(strict_http.read_request(up, at))
        except strict_http.Incomplete:
            break
        at = messages[-1].end
        answer = None
        try:
            while answer is None or (answer.status < 200 and answer.framing != "tunnel"):
                answer = strict_http.read_response(down, answers_at, messages[-1], closed=True)
                answers_at = answer.end
        except strict_http.Incomplete:
            break  # what follows an answer that is not whole yet is not looked at
        if answer.framing == "tunnel":
            break
    return messages


class ParentTap(Tap):
    """A tap before a real parent: `asked` is what the proxy asked of it; all of it is checked at the end."""

    pseudonym = b"sallyport"  # of the proxy that is expected in Via
    checked = True  # False: it is no Sallyport that asks

    def __init__(self, server: tuple[str, int], name: str, scheme: str = "http"):
        super().__init__(server)
        self.name = name  # how the parent calls itself in Via
        self.scheme = scheme

    @property
    def via(self) -> str:
        return f"{self.scheme}://office.test:{self.port}"

    @property
    def asked(self) -> list[Message]:
        streams = [(bytes(stream["up"]), bytes(stream["down"])) for stream in self.streams]
        return [message for up, down in streams for message in asked_in(up, down)]

    def check(self, stream: dict[str, bytearray], switched_after: int | None) -> None:
        if self.checked and self.scheme == "http":
            for message in asked_in(bytes(stream["up"]), bytes(stream["down"])):
                check_asked_of_parent(message, self.pseudonym)


# Programs


class Program:
    """A server from Debian, in a mount namespace in which /etc/hosts is the one above."""

    def __init__(self, directory: Path, port: int, *command: str | Path, memory: str | None = None):
        if os.geteuid() != 0:
            pytest.skip("needs root: the parents get a hosts file of their own")
        need(str(command[0]))
        hosts = directory / "hosts"
        hosts.write_text(HOSTS)
        hosts.chmod(0o644)
        self.port = port
        # What its segments of shared memory are called, which it leaves behind when it is killed.
        self.memory = memory
        self.lines = Journal(str(command[0]))
        self.process = subprocess.Popen(
            [*with_mounts(f"mount --bind {shlex.quote(str(hosts))} /etc/hosts"), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            wait_until_it_listens(port, self.process, directory / "error.log")
        except AssertionError as failure:
            self.stop()
            raise AssertionError(f"{failure}; it said: {self.lines.snapshot()[-20:]}") from None

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def stop(self) -> None:
        """At once, and with the children it has. Nothing is asked of how a parent leaves."""
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.reader.join(DEADLINE_SECONDS)
        for segment in Path("/dev/shm").glob(f"{self.memory}-*.shm") if self.memory else ():
            segment.unlink()
        self.process.stdout.close()


def let_others_read(directory: Path) -> None:
    """pytest's directories are for their owner alone; some programs give up root and have to find what is in theirs."""
    for path in [directory, *directory.parents]:
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)


def need_users() -> None:
    """Skip the test where root is only called so: some programs insist on leaving it for another user."""
    if Path("/proc/self/uid_map").read_text().split()[2] == "1":
        pytest.skip("needs root: this parent runs as a user of its own")


TINYPROXY = """
Port {port}
Listen 127.0.0.1
Allow 127.0.0.1
Timeout 60
MaxClients 200
LogLevel Connect
ViaProxyName "tinyproxy"
"""


def start_tinyproxy(directory: Path, more: str) -> Program:
    configuration, port = directory / "tinyproxy.conf", unused_port()
    configuration.write_text(TINYPROXY.format(port=port) + more)
    return Program(directory, port, "tinyproxy", "-d", "-c", configuration)


SQUID = """
http_port 127.0.0.1:{port}
pid_filename none
cache deny all
access_log none
cache_log {directory}/cache.log
cache_store_log none
netdb_filename none
pinger_enable off
coredump_dir {directory}
hosts_file {directory}/hosts
visible_hostname squid.test
shutdown_lifetime 0 seconds
http_upgrade_request_protocols OTHER allow all
"""
SQUID_ASKS = """
auth_param basic program /usr/lib/squid/basic_ncsa_auth {directory}/users
auth_param basic children 1 startup=1
auth_param basic realm squid
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
"""
SQUID_ASKS_FOR_DIGEST = """
auth_param digest program /usr/lib/squid/digest_file_auth {directory}/passwords
auth_param digest children 1 startup=1
auth_param digest realm squid
auth_param digest nonce_max_count 4
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
"""


def start_squid(directory: Path, more: str) -> Program:
    need("squid", "openssl")
    need_users()
    configuration, port = directory / "squid.conf", unused_port()
    hashed = subprocess.run(
        ["openssl", "passwd", "-apr1", PASSWORD], capture_output=True, text=True, check=True
    )
    (directory / "users").write_text(f"{USER}:{hashed.stdout}")
    (directory / "passwords").write_text(f"{USER}:{PASSWORD}\n")
    configuration.write_text((SQUID + more).format(port=port, directory=directory))
    for path in (directory, directory / "users", directory / "passwords"):  # it leaves root for this user
        subprocess.run(["chown", "proxy", path], check=True)
    let_others_read(directory)
    # A name of its own for its shared memory: one of the same name is in the way, dead or alive.
    service = f"sallyporttest{os.getpid()}x{port}"
    return Program(directory, port, "squid", "-N", "-n", service, "-f", configuration, memory=service)


HAPROXY = """
global
  maxconn 500
defaults
  mode tcp
  retries 0
  timeout connect 10s
  timeout client 60s
  timeout server 60s
frontend parent
  bind 127.0.0.1:{port} ssl crt {certificate} {options}
  default_backend behind
backend behind
  server behind 127.0.0.1:{behind}
"""


def start_haproxy(
    directory: Path, world: World, identity: Identity, behind: int, options: str = ""
) -> Program:
    chain, issuer = [identity], identity.issuer
    while issuer and issuer.issuer:
        chain.append(issuer)
        issuer = issuer.issuer
    certificate = world.file(chain_pem(chain) + identity.key_pem)
    configuration, port = directory / "haproxy.cfg", unused_port()
    configuration.write_text(
        HAPROXY.format(port=port, certificate=certificate, behind=behind, options=options)
    )
    return Program(directory, port, "haproxy", "-db", "-f", configuration)


DANTE = """
logoutput: stdout
internal: 127.0.0.1 port = {port}
external: 127.0.0.1
clientmethod: none
socksmethod: none
user.privileged: root
user.unprivileged: nobody
client pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 log: error }}
socks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 log: connect error }}
"""


# Fixtures


STARTS = {
    "tinyproxy": (start_tinyproxy, f"BasicAuth {USER} {PASSWORD}\n", "tinyproxy"),
    "squid": (start_squid, SQUID_ASKS, "squid.test"),
    "digest squid": (start_squid, SQUID_ASKS_FOR_DIGEST, "squid.test"),
    "open tinyproxy": (start_tinyproxy, "", "tinyproxy"),
    "open squid": (start_squid, "http_access allow all\n", "squid.test"),
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """A function that gives the running http parent of this name; each is started when it is first asked for."""
    running: dict[str, Program] = {}

    def running_program(name: str) -> Program:
        if name not in running:
            start, more, _ = STARTS[name]
            running[name] = start(tmp_path_factory.mktemp(name.replace(" ", "-")), more)
        return running[name]

    yield running_program
    for started in running.values():
        started.stop()


@pytest.fixture
def real_parent(programs):
    """A function that gives a tap before "squid" or "tinyproxy", which ask for ADA, or before an "open" one."""
    taps: list[ParentTap] = []

    def tap(name: str) -> ParentTap:
        taps.append(ParentTap(("127.0.0.1", programs(name).port), STARTS[name][2]))
        return taps[-1]

    yield tap
    stop_all(taps)


@pytest.fixture(params=["tinyproxy", "squid"])
def http_parent(request, real_parent) -> ParentTap:
    """Each real http parent in turn; it asks for ADA."""
    return real_parent(request.param)


@pytest.fixture
def secure_parent(tmp_path_factory, world):
    """A function that starts HAProxy with this certificate before the parent on this port, and a tap before it."""
    running = []

    def start(identity: Identity, behind: int, options: str = "") -> ParentTap:
        server = start_haproxy(tmp_path_factory.mktemp("haproxy"), world, identity, behind, options)
        running.append(server)
        running.append(ParentTap(("127.0.0.1", server.port), "haproxy", "https"))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def microsocks(tmp_path_factory):
    """A function that starts microsocks, and gives its port."""
    running: list[Program] = []

    def start(*account: str) -> int:
        port, options = unused_port(), ["-u", account[0], "-P", account[1]] if account else []
        command = ["microsocks", "-i", "127.0.0.1", "-p", str(port), *options]
        running.append(Program(tmp_path_factory.mktemp("microsocks"), port, *command))
        return port

    yield start
    stop_all(running)


@pytest.fixture
def dante(tmp_path_factory) -> Program:
    need_users()
    directory, port = tmp_path_factory.mktemp("dante"), unused_port()
    configuration = directory / "danted.conf"
    configuration.write_text(DANTE.format(port=port))
    started = Program(directory, port, "danted", "-f", configuration)
    yield started
    started.stop()
