"""The Debian package and the Debian root that it is installed in.

The root is made by debootstrap, once, and kept: .build/debian-root, or where SALLYPORT_DEBIAN_ROOT says. It is never
changed: each test works on a layer of its own above it, which is gone when the test ends.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from installation import BINARY, PROJECT, SYSTEMD, need, run

SUITE = "bookworm"
MIRROR = os.environ.get("SALLYPORT_DEBIAN_MIRROR", "http://deb.debian.org/debian")
BASE_PACKAGES = "systemd,systemd-sysv,dbus"
UNITS = ["sallyport.service", "sallyport.socket", "sallyport-admin.socket"]
# What the package says is to be done to run the proxy.
ENABLE = "systemctl enable --now sallyport.socket sallyport-admin.socket sallyport.service"


# MARK: The package


def build(directory: Path) -> Path:
    return Path(run(SYSTEMD / "debian/build-package", BINARY, directory).stdout.strip())


def control(package: Path, field: str) -> str:
    return run("dpkg-deb", "--field", package, field).stdout.strip()


def changed(
    package: Path, directory: Path, *, new_version: str, configuration: str | None = None, watchdog: str | None = None
) -> Path:
    """The package as a later version, with another sallyport.toml, and another WatchdogSec=, where one is given."""
    tree = directory / new_version
    run("dpkg-deb", "--raw-extract", package, tree)
    file = tree / "DEBIAN/control"
    file.write_text(re.sub(r"^Version: .*$", f"Version: {new_version}", file.read_text(), flags=re.MULTILINE))
    if configuration is not None:
        (tree / "etc/sallyport/sallyport.toml").write_text(configuration)
    if watchdog is not None:
        unit = tree / "lib/systemd/system/sallyport.service"
        unit.write_text(re.sub(r"^WatchdogSec=.*$", f"WatchdogSec={watchdog}", unit.read_text(), flags=re.MULTILINE))
    later = directory / f"sallyport_{new_version}.deb"
    # Not compressed: xz takes seconds, and nobody keeps it.
    run("dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, later)
    return later


# MARK: The root


@dataclass(frozen=True)
class Root:
    """A Debian system in a directory, without a running systemd."""

    path: Path

    def __call__(self, command: str, check: bool = True) -> subprocess.CompletedProcess:
        """Runs a line of shell inside, with a /proc of its own, which systemd-tmpfiles needs."""
        inside = f"mount -t proc proc /proc && export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 && {command}"
        return run(
            "unshare", "--mount", "--pid", "--fork", "chroot", self.path, "/bin/sh", "-c", inside, check=check,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"},
        )

    def dpkg(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess:
        words = []
        for argument in arguments:
            if isinstance(argument, Path):
                shutil.copy(argument, self.path / "root")
                argument = f"/root/{argument.name}"
            words.append(shlex.quote(argument))
        return self(f"dpkg {' '.join(words)} </dev/null", check=check)

    def file(self, path: str) -> Path:
        return self.path / path.lstrip("/")

    def user(self) -> str | None:
        lines = self.file("/etc/passwd").read_text().splitlines()
        return next((line for line in lines if line.startswith("sallyport:")), None)

    def snapshot(self) -> dict[str, tuple]:
        """Every path with what it is: type and mode, owner, and of a file its content."""
        found = {}
        for directory, names, files in os.walk(self.path):
            for name in names + files:
                path = Path(directory, name)
                status = path.lstat()
                content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                place = "/" + str(path.relative_to(self.path))
                found[place] = (oct(status.st_mode), status.st_uid, status.st_gid, content)
        return found


def base_root() -> Path:
    """The root as debootstrap makes it. Skips where it is neither there nor can be made."""
    if os.geteuid() != 0:
        pytest.skip("only root may change its root directory")
    path = Path(os.environ.get("SALLYPORT_DEBIAN_ROOT", PROJECT / ".build/debian-root"))
    if not (path / "usr/bin/dpkg").exists():
        need("debootstrap")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        done = run(
            "debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", SUITE, draft, MIRROR, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"debootstrap fails, is {MIRROR} in reach?\n{done.stdout}{done.stderr}")
        draft.rename(path)
    return path


@contextlib.contextmanager
def layer(directory: Path, *below: Path) -> Iterator[Root]:
    """A layer above a root and the layers on it, the uppermost first. It is in memory, and gone at the end."""
    with memory(directory), overlaid(directory, *below) as root:
        yield root


@contextlib.contextmanager
def kept_layer(directory: Path, *below: Path, prepare: Callable[[Root], object]) -> Iterator[Path]:
    """A layer that is prepared once, and then is at rest below others."""
    with memory(directory):
        with overlaid(directory, *below) as root:
            prepare(root)
        yield directory / "memory/upper"


@contextlib.contextmanager
def memory(directory: Path) -> Iterator[None]:
    place = directory / "memory"
    place.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", place)
    try:
        yield
    finally:
        run("umount", place)


@contextlib.contextmanager
def overlaid(directory: Path, *below: Path) -> Iterator[Root]:
    upper, work, path = (directory / name for name in ("memory/upper", "memory/work", "root"))
    for made in (upper, work, path):
        made.mkdir()
    lower = ":".join(str(place) for place in below)
    run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "overlay", path)
    try:
        yield Root(path)
    finally:
        run("umount", path)
