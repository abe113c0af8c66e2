"""Fixtures of the end-to-end tests: the proxy on a policy text, origins, raw clients, nginx with a certificate.

What holds for every test, whichever fixture it uses:
- The suite moves into a network namespace of its own where it may (as root, or with user namespaces), so that it can
  name addresses outside loopback and can reach nothing of the machine's.
- Every byte that a raw origin or a raw client got goes through strict_http when the test ends.
- A test whose program is absent skips and says which.
- Nothing sleeps: tests wait for an event, and a deadline is only there so that a broken build ends.
"""

import ctypes
import functools
import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from certificates import ServerCertificate, make_server_certificate
from dns_server import Answer, DNSServer
from origins import Nginx, RawOrigin, Tap
from proxy import Proxy, binary
from raw_client import RawClient
from service import ServiceManager, passing

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
OWN_NETWORK = pytest.StashKey[bool]()


def pytest_configure(config) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    config.stash[OWN_NETWORK] = enter_own_network()
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]


def enter_own_network() -> bool:
    """Leave the machine's network for an empty one with loopback up. Must come before the first thread."""
    user, group = os.geteuid(), os.getegid()
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if user != 0:
        if unshare(CLONE_NEWUSER) != 0:
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    if not shutil.which("ip") or unshare(CLONE_NEWNET) != 0:
        return False
    if subprocess.run(["ip", "link", "set", "lo", "up"]).returncode != 0:
        return False
    try:  # smaller socket buffers than some machines have, so that tests of back-pressure need not move so much
        Path("/proc/sys/net/ipv4/tcp_rmem").write_text("4096 131072 6291456")
        Path("/proc/sys/net/ipv4/tcp_wmem").write_text("4096 16384 4194304")
    except OSError:
        pass
    return True


def pytest_collection_modifyitems(config, items) -> None:
    """strict_http's own tests come first: what judges is tried before it judges."""
    items.sort(key=lambda item: item.path.name != "test_strict_http.py")
    if not config.stash[OWN_NETWORK]:
        reason = "needs a network namespace: neither root nor user namespaces here, or no `ip` (iproute2)"
        for item in items:
            if item.get_closest_marker("own_network"):
                item.add_marker(pytest.mark.skip(reason=reason))


def need(*programs: str) -> None:
    """Skip the test, naming what is absent."""
    absent = [program for program in programs if not shutil.which(program)]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")


@functools.cache
def has_own_mounts() -> bool:
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


def with_mounts(script: str) -> tuple[str, ...]:
    """What to put before a command so that it runs where `script`, of shell, has mounted what it sees alone."""
    need("unshare", "mount")
    if not has_own_mounts():
        pytest.skip("needs a mount namespace: root, and a / that is a mount point, which a plain chroot is not")
    return ("unshare", "--mount", "sh", "-ec", f'{script}; exec "$@"', "sh")


@pytest.fixture(scope="session")
def sallyport_binary() -> Path:
    if not binary().exists():
        pytest.skip(f"no proxy to test: {binary()} does not exist (make build, or set SALLYPORT_BINARY)")
    return binary()


@pytest.fixture
def sallyport(sallyport_binary, tmp_path_factory):
    """A function that starts a proxy: `sallyport(proxy="lines of [proxy]", policy="other tables", …)`."""
    running: list[Proxy] = []

    def start(**arguments) -> Proxy:
        running.append(
            Proxy.start(arguments.pop("directory", None) or tmp_path_factory.mktemp("proxy"), **arguments)
        )
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def manager(tmp_path):
    """systemd, as far as a service hears of it."""
    manager = ServiceManager(tmp_path)
    yield manager
    manager.stop()


@pytest.fixture
def start_passed(sallyport, monkeypatch):
    """A function that starts a proxy with sockets passed to it."""
    ordinary = subprocess.Popen

    def start(sockets, **arguments):
        monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: ordinary(*a, **k, close_fds=False))
        proxy = sallyport(prefix=passing(sockets), **arguments)
        monkeypatch.setattr(subprocess, "Popen", ordinary)
        return proxy

    return start


@pytest.fixture(scope="session")
def shared_proxies(sallyport_binary, tmp_path_factory):
    """The proxy with defaults that most tests share, in a list: another is started should it ever die."""
    proxies = [Proxy.start(tmp_path_factory.mktemp("shared"))]
    yield proxies
    stop_all(proxies)


@pytest.fixture
def plain_proxy(shared_proxies, tmp_path_factory) -> Proxy:
    """A proxy with defaults only; it must live through every test that uses it."""
    proxy = shared_proxies[-1]
    proxy.test_begins = len(proxy.log.snapshot())
    yield proxy
    status = proxy.process.poll()
    if status is not None:
        shared_proxies.append(Proxy.start(tmp_path_factory.mktemp("shared")))
        pytest.fail(f"the proxy ended with {status} in this test; its last words: {proxy.raw_log[-3:]}")


@pytest.fixture
def raw_origin():
    """A function that starts a scripted origin; every byte that it received is checked at the end."""
    running: list[RawOrigin] = []

    def start(script, address: str = "127.0.0.1", port: int = 0) -> RawOrigin:
        running.append(RawOrigin(script, address, port))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def dns_server():
    """A function that starts a name server on loopback: `dns_server({"a.test": Answer(a=["127.0.0.1"])})`."""
    running: list[DNSServer] = []

    def start(names: dict[str, Answer], **arguments) -> DNSServer:
        running.append(DNSServer(names, **arguments))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def raw_client():
    """A function that connects to a proxy; every byte that came back is checked at the end."""
    clients: list[RawClient] = []

    def connect(proxy: Proxy | tuple[str, int], **arguments) -> RawClient:
        address = proxy.address if isinstance(proxy, Proxy) else proxy
        clients.append(RawClient(address, **arguments))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
    for client in clients:
        if client.looked_at:
            client.check()


def stop_all(running: list) -> None:
    """Stop each, the last started first, and only then report what was wrong with any of them."""
    failures = []
    for started in reversed(running):
        try:
            started.stop()
        except Exception as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


@pytest.fixture(scope="session")
def server_certificate(tmp_path_factory) -> ServerCertificate:
    need("openssl")
    return make_server_certificate(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def nginx(server_certificate, tmp_path_factory):
    need("nginx")
    server = Nginx(tmp_path_factory.mktemp("nginx"), server_certificate.certificate, server_certificate.key)
    server.put_file("file.txt", b"what the origin has to say\n")
    yield server
    server.stop()


@pytest.fixture
def web(nginx):
    """nginx over http, behind a tap that keeps and checks every byte the proxy sends to it."""
    tap = Tap(("127.0.0.1", nginx.http_port))
    yield tap
    tap.stop()


@pytest.fixture
def secure_web(nginx):
    """nginx over https, behind a tap."""
    tap = Tap(("127.0.0.1", nginx.https_port))
    yield tap
    tap.stop()
