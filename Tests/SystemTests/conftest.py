"""Fixtures of the tests of the installation: the package, Debian roots with what it needs, machines booted from them.

The run has a mount namespace of its own where it may, as root: what it mounts is gone with it, however it ends.
"""

import ctypes
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from debian import ENABLE, Root, base_root, build, control, kept_layer, layer
from installation import PROJECT, need, need_binary

# Origins, clients and the strict checker of HTTP are those of the end-to-end tests.
sys.path.append(str(PROJECT / "Tests/EndToEndTests"))

from admin_client import AdminClient  # noqa: E402
from booted import Machine, boot  # noqa: E402
from origins import RawOrigin  # noqa: E402
from raw_client import RawClient  # noqa: E402

CLONE_NEWNS = 0x20000


def pytest_configure(config) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    if os.geteuid() == 0 and ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rslave", "/"], check=True)


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Path:
    """The package of the program that is there."""
    need("dpkg-buildpackage", "dh")
    need_binary()
    return build(tmp_path_factory.mktemp("package"))


Layers = tuple[Path, ...]


@pytest.fixture(scope="session")
def prepared(package, tmp_path_factory) -> Iterator[Layers]:
    """The layers of a Debian root in which everything is installed that the package depends on, the uppermost first."""
    need("unshare", "mount")
    depends = shlex.quote(control(package, "Depends"))

    def install(root: Root) -> None:
        shutil.copy("/etc/resolv.conf", root.file("/etc/resolv.conf"))
        installed = root(
            f"apt-get update -q && apt-get satisfy -q -y --no-install-recommends {depends}", check=False
        )
        if installed.returncode != 0:
            pytest.skip(
                f"what the package depends on cannot be installed:\n{installed.stdout}{installed.stderr}"
            )

    base = base_root()
    with kept_layer(tmp_path_factory.mktemp("prepared"), base, prepare=install) as path:
        yield path, base


@pytest.fixture
def root(prepared, tmp_path) -> Iterator[Root]:
    """A layer above the prepared root."""
    with layer(tmp_path, *prepared) as made:
        yield made


# MARK: Booted machines

# Programs that act as clients inside, and what gives users a systemd of their own. Not in `prepared`, where they would
# bring along what the package must ask for.
CLIENTS = "curl libpam-systemd dbus-user-session"


@pytest.fixture(scope="session")
def with_clients(prepared, tmp_path_factory) -> Iterator[Layers]:
    def install(root: Root) -> None:
        installed = root(f"apt-get install -q -y --no-install-recommends {CLIENTS}", check=False)
        if installed.returncode != 0:
            pytest.skip(f"{CLIENTS} cannot be installed:\n{installed.stdout}{installed.stderr}")

    with kept_layer(tmp_path_factory.mktemp("clients"), *prepared, prepare=install) as path:
        yield path, *prepared


@pytest.fixture(scope="session")
def installed(with_clients, package, tmp_path_factory) -> Iterator[Layers]:
    """The package is in it too."""

    def install(root: Root) -> None:
        root.dpkg("--install", package)

    with kept_layer(tmp_path_factory.mktemp("installed"), *with_clients, prepare=install) as path:
        yield path, *with_clients


@pytest.fixture
def bare_machine(with_clients, tmp_path) -> Iterator[Machine]:
    """A machine without the package, but with everything that it depends on."""
    with layer(tmp_path, *with_clients) as root, boot(root, tmp_path) as machine:
        yield machine


@pytest.fixture
def installed_root(installed, tmp_path) -> Iterator[Root]:
    """A layer above a root with the package in it."""
    with layer(tmp_path, *installed) as root:
        yield root


@pytest.fixture
def machine(installed_root, tmp_path) -> Iterator[Machine]:
    """A machine with the package, as its installation left it."""
    with boot(installed_root, tmp_path) as machine:
        yield machine


@pytest.fixture(scope="module")
def shared_machine(installed, tmp_path_factory) -> Iterator[Machine]:
    """One for all tests of a file, which must not mind what the others have done to it."""
    directory = tmp_path_factory.mktemp("shared")
    with layer(directory, *installed) as root, boot(root, directory) as machine:
        yield machine


@pytest.fixture
def serving(machine) -> Machine:
    """A machine whose operator did what the package said."""
    machine(ENABLE)
    return machine


@pytest.fixture
def admin(machine) -> AdminClient:
    """The admin API, asked by root."""
    return AdminClient(machine.file("/run/sallyport/admin.sock"))


@pytest.fixture
def origin(machine):
    """A function that starts a scripted origin inside; every byte that it received is checked at the end."""
    running: list[RawOrigin] = []

    def start(script) -> RawOrigin:
        with machine.network():
            running.append(RawOrigin(script))
        return running[-1]

    yield start
    for started in running:
        started.stop()


@pytest.fixture
def client(machine):
    """A function that connects to the proxy; every byte that came back is checked at the end."""
    connected: list[RawClient] = []

    def connect(address: tuple[str, int] = ("127.0.0.1", 3128)) -> RawClient:
        with machine.network():
            connected.append(RawClient(address))
        return connected[-1]

    yield connect
    for made in connected:
        made.close()
    for made in connected:
        made.check()
