"""The package in a machine that runs: what installation, upgrade, removal and purge do to units, processes and files.

What they do to a root that is not booted is in test_package.py.
"""

import os
import re
import shutil
import stat
from pathlib import Path

import pytest

from booted import Machine
from debian import ENABLE, UNITS, changed
from origins import answering
from steady_load import RATE, SteadyLoad

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def dpkg(machine: Machine, action: str, package: Path | str) -> str:
    if isinstance(package, Path):
        shutil.copy(package, machine.file("/root"))
        package = f"/root/{package.name}"
    done = machine(f"DEBIAN_FRONTEND=noninteractive dpkg --force-confold --{action} {package}")
    return done.stdout + done.stderr


def active(machine: Machine) -> list[str]:
    return [unit for unit in UNITS if machine.show(unit, "ActiveState") != "inactive"]


def processes(machine: Machine) -> str:
    """The numbers of those of the user of the service, and of the program."""
    return machine("find /proc -maxdepth 1 -user sallyport; grep -l sallyport /proc/[0-9]*/comm", check=False).stdout


# MARK: Installation


def test_installation_starts_and_enables_nothing(bare_machine, package):
    said = dpkg(bare_machine, "install", package)
    assert ENABLE in said
    assert active(bare_machine) == []
    assert processes(bare_machine) == ""
    for unit in UNITS:
        assert bare_machine.show(unit, "UnitFileState") == "disabled"
        assert (bare_machine.show(unit, "LoadState"), bare_machine.show(unit, "NeedDaemonReload")) == ("loaded", "no")
    assert bare_machine("systemctl is-system-running").stdout == "running\n"


def test_what_the_package_says_is_enough(bare_machine, package):
    (command,) = re.findall(r"^ +(systemctl .*)$", dpkg(bare_machine, "install", package), re.MULTILINE)
    bare_machine(command)
    assert active(bare_machine) == UNITS
    assert bare_machine("sallyport status").stdout.startswith("sallyport ")


# MARK: Upgrade


def test_an_upgrade_restarts_what_runs_and_keeps_what_was_edited(serving, package, tmp_path):
    edited = "/etc/sallyport/sallyport.toml"
    text = serving.file(edited).read_text() + "\n# mine\n"
    serving.write(edited, text)
    process = serving.main_process()
    dpkg(serving, "install", changed(package, tmp_path, new_version="99.0", configuration="# theirs\n"))
    assert serving.main_process() != process
    assert active(serving) == UNITS
    assert [serving.show(unit, "UnitFileState") for unit in UNITS] == ["enabled"] * 3
    assert serving.file(edited).read_text() == text
    assert serving.show("sallyport.service", "NeedDaemonReload") == "no"


def test_an_upgrade_loses_no_request(serving, package, tmp_path):
    later = changed(package, tmp_path, new_version="99.0")
    with SteadyLoad(serving) as load:
        load.wait_for_answers(RATE // 4)
        process = serving.main_process()
        dpkg(serving, "install", later)
        assert serving.main_process() != process
        load.wait_for_answers(RATE // 4)
    load.check()


@pytest.mark.parametrize("enabled", [True, False], ids=["enabled", "not enabled"])
def test_an_upgrade_starts_nothing_that_was_stopped(machine, package, tmp_path, enabled):
    if enabled:
        machine(ENABLE)
        machine(f"systemctl stop {' '.join(UNITS)}")
    dpkg(machine, "install", changed(package, tmp_path, new_version="99.0"))
    assert active(machine) == []
    assert machine.show("sallyport.service", "UnitFileState") == ("enabled" if enabled else "disabled")


def test_an_upgrade_to_units_that_changed_uses_them(serving, package, tmp_path):
    dpkg(serving, "install", changed(package, tmp_path, new_version="99.0", watchdog="31s"))
    assert serving.show("sallyport.service", "WatchdogUSec") == "31s"
    assert active(serving) == UNITS


# MARK: Removal


def test_removal_stops_everything_and_keeps_configuration_and_state(serving, package):
    serving("runuser -u sallyport -- sallyport ca init")
    dpkg(serving, "remove", "sallyport")
    assert active(serving) == [] and processes(serving) == ""
    assert "0C38" not in serving("cat /proc/net/tcp /proc/net/tcp6").stdout
    assert not serving.file("/run/sallyport").exists()
    assert serving.file("/etc/sallyport/sallyport.toml").exists()
    assert serving.file("/var/lib/sallyport/authority/authority.key").exists()
    assert serving("systemctl is-system-running").stdout == "running\n"
    dpkg(serving, "install", package)
    serving("systemctl start sallyport.service")


OPERATORS_OWN = {
    "/etc/sallyport/policy.d/payments.toml": '[[rule]]\nname = "payments"\nhosts = ["pay.example.com"]\n',
    "/etc/sallyport/credentials/api-key": "secret\n",
    "/etc/systemd/system/sallyport.service.d/override.conf": "[Service]\nCPUWeight=200\n",
}
# What dpkg, systemd and the making of a user keep of any package.
BOOKKEEPING = re.compile(
    r"/(root/sallyport_.*|etc/(passwd|shadow|group|gshadow)-?|etc/\.pwd\.lock|var/(lib/dpkg|log|cache)/.*"
    r"|var/lib/systemd/(timers|deb-systemd-helper-enabled|deb-systemd-user-helper-enabled)(/.*)?"
    r"|(proc|sys|dev|run|tmp)/.*)"
)


@pytest.mark.parametrize("own", [{}, OPERATORS_OWN], ids=["unedited", "edited"])
def test_purge_leaves_only_what_the_operator_made(bare_machine, package, own, tmp_path):
    before, users = files(bare_machine), bare_machine.file("/etc/passwd").read_text()
    dpkg(bare_machine, "install", package)
    for path, text in own.items():
        bare_machine.write(path, text, mode=0o600 if "credentials" in path else 0o644)
    used(bare_machine)
    if own:
        bare_machine.write("/etc/sallyport/sallyport.toml", "# mine\n")
        bare_machine("systemctl reload sallyport.service")
    said = dpkg(bare_machine, "purge", "sallyport")
    after = files(bare_machine)
    changes = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    directories = {str(parent) for path in own for parent in Path(path).parents[:-1]} - before.keys()
    assert changes == own.keys() | directories
    assert {path: bare_machine.file(path).read_text() for path in own} == own
    # Nor is anything left that is not in files.
    assert processes(bare_machine) == ""
    assert bare_machine("find /run /tmp /var/tmp /dev/shm -name '*sallyport*'").stdout == ""
    assert bare_machine("systemctl list-units --all --no-legend 'sallyport*'").stdout == ""
    assert bare_machine("systemctl is-system-running").stdout == "running\n"
    # The user stays, so that its number goes to nobody else.
    added = set(bare_machine.file("/etc/passwd").read_text().splitlines()) - set(users.splitlines())
    assert [line.split(":")[0] for line in added] == ["sallyport"]
    assert own or "warning" not in said, said


def used(machine: Machine) -> None:
    """Everything has been used that leaves something behind."""
    machine("runuser -u sallyport -- sallyport ca init")
    machine(ENABLE)
    machine("sallyport status && systemctl reload sallyport.service && systemctl restart sallyport.service")
    machine("curl --silent --output /dev/null --proxy http://127.0.0.1:3128 http://nobody.invalid/", check=False)
    machine.said("http://nobody.invalid/")


def files(machine: Machine) -> dict[str, tuple]:
    """Every file and directory on disk with what it is; of a file also its length and when it was changed."""
    found = {}
    for directory, names, others in os.walk(machine.root):
        above = "/" + os.path.relpath(directory, machine.root).removeprefix(".")
        places = {name: os.path.join(above, name) for name in names + others}
        names[:] = [name for name in names if not BOOKKEEPING.fullmatch(places[name] + "/")]
        for name, place in places.items():
            if not BOOKKEEPING.fullmatch(place):
                status = os.lstat(os.path.join(directory, name))
                content = (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else ()
                found[place] = (oct(status.st_mode), status.st_uid, status.st_gid, content)
    return found
