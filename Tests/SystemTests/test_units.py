"""The units, and what creates the user and the directories: sound to systemd itself, hardened, and agreed with each
other and with the package's promises. Nothing is started here.
"""

import configparser
import re
from pathlib import Path

import pytest

from installation import SYSTEMD, need, run

UNITS = ["sallyport.service", "sallyport.socket", "sallyport-admin.socket"]
# Systemd's own measure: 0.0 is hidden from everything, 10.0 is open to everything.
MOST_EXPOSURE = 1.5


class Unit(configparser.RawConfigParser):
    """A unit file. Of a key that stands twice, both values, by newlines."""

    def __init__(self, path: Path):
        super().__init__(strict=False, delimiters=("=",), comment_prefixes=("#",), dict_type=_Repeated)
        self.optionxform = str
        self.read(path)


class _Repeated(dict):
    def __setitem__(self, key, value):
        if isinstance(value, list) and key in self:
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


@pytest.fixture
def service() -> Unit:
    return Unit(SYSTEMD / "sallyport.service")


@pytest.fixture
def installed(tmp_path) -> Path:
    """A root with the units in it, and with a program where they look for it."""
    for directory in ("usr/lib/systemd/system", "usr/bin"):
        (tmp_path / directory).mkdir(parents=True)
    for unit in UNITS:
        (tmp_path / "usr/lib/systemd/system" / unit).write_text((SYSTEMD / unit).read_text())
    program = tmp_path / "usr/bin/sallyport"
    program.touch()
    program.chmod(0o755)
    # What the units refer to, and every root has.
    for unit in ("network.target", "nss-user-lookup.target", "sysinit.target", "basic.target", "shutdown.target",
                 "sockets.target", "multi-user.target"):
        (tmp_path / "usr/lib/systemd/system" / unit).write_text("[Unit]\nDescription=x\n")
    return tmp_path


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_nothing_to_complain_of(unit, installed):
    need("systemd-analyze")
    done = run(
        "systemd-analyze", f"--root={installed}", "--man=no", "--recursive-errors=one", "verify", unit, check=False
    )
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "sallyport" in line]
    assert complaints == [] and done.returncode == 0


def test_a_mistake_in_a_unit_would_be_found(installed):
    need("systemd-analyze")
    unit = installed / "usr/lib/systemd/system/sallyport.service"
    unit.write_text(unit.read_text().replace("WatchdogSec=", "WatchDogSec="))
    done = run("systemd-analyze", f"--root={installed}", "--man=no", "verify", "sallyport.service", check=False)
    assert "WatchDogSec" in done.stderr


def test_exposure():
    need("systemd-analyze")
    done = run("systemd-analyze", "security", "--offline=true", SYSTEMD / "sallyport.service")
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)[1])
    assert exposure <= MOST_EXPOSURE, done.stdout


def test_what_must_not_be_locked_away(service):
    section = service["Service"]
    # In a user namespace of its own every client would look like nobody.
    assert section["PrivateUsers"] == "no"
    assert section.get("PrivateNetwork", "no") == "no"
    # Routes, and who owns a client's socket.
    assert set(section["RestrictAddressFamilies"].split()) == {"AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX"}
    # Units of clients are found in the tree of control groups.
    assert section["ProtectControlGroups"] == "yes"
    assert section["CapabilityBoundingSet"] == section["AmbientCapabilities"] == ""
    # Programs read the certificates of the local authority.
    assert section["StateDirectoryMode"] == "0755"
    assert "DynamicUser" not in section


def test_a_restart_keeps_what_it_should(service):
    section = service["Service"]
    assert section["RuntimeDirectoryPreserve"] == "yes", "systemd would remove the bound admin.sock"
    drain_seconds = 30  # of [proxy.timeouts]
    assert seconds(section["TimeoutStopSec"]) > drain_seconds
    assert int(section["FileDescriptorStoreMax"]) > 0, "open tunnels would end"
    assert section["NotifyAccess"] == "main", "any process of the service could store descriptors"


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_sockets_have_names_and_one_service():
    names = {unit: Unit(SYSTEMD / unit)["Socket"] for unit in UNITS[1:]}
    assert names["sallyport.socket"]["FileDescriptorName"] == "proxy"
    assert names["sallyport.socket"]["ListenStream"].split() == ["127.0.0.1:3128", "[::1]:3128"]
    admin = names["sallyport-admin.socket"]
    assert admin["FileDescriptorName"] == "admin"
    assert admin["Service"] == "sallyport.service"
    assert (admin["ListenStream"], admin["SocketMode"], admin["SocketGroup"]) == (
        "/run/sallyport/admin.sock", "0660", "sallyport",
    )


def test_reload_names_the_socket(service):
    path = Unit(SYSTEMD / "sallyport-admin.socket")["Socket"]["ListenStream"]
    assert service["Service"]["ExecReload"] == f"/usr/bin/sallyport reload --socket {path}"


def test_the_user_is_made(service, tmp_path):
    need("systemd-sysusers")
    (tmp_path / "etc").mkdir()
    run("systemd-sysusers", f"--root={tmp_path}", SYSTEMD / "sysusers.d/sallyport.conf")
    name, _, number, _, _, home, shell = (tmp_path / "etc/passwd").read_text().strip().split(":")
    assert (name, home) == (service["Service"]["User"], "/var/lib/sallyport")
    assert shell.endswith("/nologin") and 0 < int(number) < 1000
    assert (tmp_path / "etc/group").read_text().startswith(f"{service['Service']['Group']}:")


def test_the_directories_are_made(tmp_path):
    need("systemd-tmpfiles")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("sallyport:x:990:990::/:/usr/sbin/nologin\n")
    (tmp_path / "etc/group").write_text("sallyport:x:990:\n")
    done = run(
        "systemd-tmpfiles", f"--root={tmp_path}", "--create", SYSTEMD / "tmpfiles.d/sallyport.conf", check=False
    )
    if "not permitted" in done.stderr:
        pytest.skip("only root gives directories to others")
    for path in ("run/sallyport", "var/lib/sallyport"):
        status = (tmp_path / path).stat()
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o755, 990, 990)
