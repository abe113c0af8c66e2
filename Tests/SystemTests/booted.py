"""A Debian root that has been booted by systemd-nspawn, and is driven from outside.

    with boot(root, directory) as machine:      up when the block begins, gone when it ends, however it ends
        machine("systemctl start sallyport")    a line of shell inside, as root
        machine.file("/run/…")                  a file of the running system, as seen from here
        with machine.network(): …               sockets that this thread makes are in the machine's network
        machine.said("…")                       waits until its journal says so

The machine has loopback and nothing else. It needs root; a machine without a systemd of its own will do.
"""

import contextlib
import ctypes
import itertools
import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from debian import Root
from installation import need, run
from journal import Journal

# A safety net, not a measure: a machine boots in two seconds.
DEADLINE_SECONDS = 60.0
SYSTEMD_RUNS = "/run/systemd/system"
CLONE_NEWNET = 0x40000000
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": "dumb"}
NUMBERS = itertools.count()


@dataclass(frozen=True)
class Machine:
    root: Path
    leader: int
    process: subprocess.Popen
    journal: Journal = field(default_factory=lambda: Journal("the journal of the machine"))

    def __call__(
        self, command: str, *, check: bool = True, user: str | None = None, stdin: str | None = None
    ) -> subprocess.CompletedProcess:
        """Runs a line of shell inside, as root or as a user with their groups."""
        # No session: it is the command that is to be seen, not what a log-in brings along.
        who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        return run(
            *self.entering, *who, "/bin/sh", "-c", command, check=check, env=ENVIRONMENT, timeout=DEADLINE_SECONDS,
            **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}),
        )

    @property
    def entering(self) -> list[str]:
        return ["nsenter", f"--target={self.leader}", "--all", "--root", "--wd", "--"]

    def file(self, path: str) -> Path:
        return Path(f"/proc/{self.leader}/root") / path.lstrip("/")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        file = self.file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """The calling thread is in the machine's network meanwhile, and sockets that it makes stay there."""
        with open("/proc/thread-self/ns/net") as own, open(f"/proc/{self.leader}/ns/net") as inside:
            enter_network(inside.fileno())
            try:
                yield
            finally:
                enter_network(own.fileno())

    # Units

    def show(self, unit: str, name: str) -> str:
        return self(f"systemctl show --property={name} --value {unit}").stdout.strip()

    def drop_in(self, unit: str, text: str) -> None:
        """What `systemctl edit` does."""
        self.write(f"/etc/systemd/system/{unit}.d/test.conf", text)
        self("systemctl daemon-reload")

    def main_process(self, unit: str = "sallyport.service") -> int:
        """The number of the main process of a unit, as it is seen from here."""
        inside = self.show(unit, "MainPID")
        assert inside != "0", f"{unit} does not run"
        ours = os.readlink(f"/proc/{self.leader}/ns/pid")
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns/pid") == ours and numbers_of(entry)[-1] == inside:
                    return int(entry.name)
        raise AssertionError(f"process {inside} of {unit} is not to be seen")

    def entries(self, *matches: str) -> list[dict]:
        """What journalctl finds."""
        words = shlex.join(matches)
        return [json.loads(line) for line in self(f"journalctl --output=json --all {words}").stdout.splitlines()]

    def said(self, text: str) -> dict:
        """Waits for an entry of the journal with this in its message, from whomever."""
        return self.journal.wait_for(lambda entry: text in (entry["MESSAGE"] or ""))

    def power_off(self) -> None:
        self("systemctl poweroff")
        self.process.wait(DEADLINE_SECONDS)


def numbers_of(process: Path) -> list[str]:
    """The numbers of a process, from the outermost namespace to its own."""
    return re.search(r"^NSpid:\t(.*)$", (process / "status").read_text(), re.MULTILINE)[1].split("\t")


def enter_network(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


# MARK: Booting


@contextlib.contextmanager
def boot(root: Root, directory: Path) -> Iterator[Machine]:
    """`directory` is for what systemd-nspawn says, and for the socket on which it does."""
    need("systemd-nspawn", "journalctl", "unshare", "nsenter", "setpriv")
    with control_groups() as groups, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(directory / "notify"))
        console = directory / "console"
        with console.open("w") as output:
            process = subprocess.Popen(
                command(root, groups), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=ENVIRONMENT | {
                    "NOTIFY_SOCKET": str(directory / "notify"), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
                },
            )
        try:
            leader = wait_for_leader(notified, process, console)
            machine = Machine(root.path, leader, process)
            with ending(leader):
                wait_for(rb"^READY=1$", notified, process, console)
                # Were it full of what nobody reads, systemd-nspawn would wait for ever.
                notified.close()
                with following(machine):
                    yield machine
            process.wait(DEADLINE_SECONDS)
        finally:
            process.kill()
            process.wait()


def command(root: Root, groups: list[Path]) -> list[str]:
    """Where this process ends, the machine does: in a namespace of process numbers whose first process dies with us.

    /run is private: systemd-nspawn keeps files there, and need not find a systemd.
    """
    if Path(SYSTEMD_RUNS).is_dir():
        scope = ["systemd-run", "--quiet", "--scope", "--collect", "--property=Delegate=yes"]
    else:
        joins = "".join(f"echo $$ >{shlex.quote(str(group))}/cgroup.procs && " for group in groups)
        scope = ["/bin/sh", "-c", f'{joins}exec "$@"', "sh"]
    return [
        *scope, "setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
        "/bin/sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh",
        "systemd-nspawn", "--quiet", "--boot", f"--directory={root.path}", "--machine=sallyport-test", "--keep-unit",
        "--register=no", "--private-network", "--notify-ready=yes", "--resolv-conf=off", "--timezone=off",
        "--link-journal=no",
    ]


@contextlib.contextmanager
def control_groups() -> Iterator[list[Path]]:
    """Control groups for one machine, so that several do not meet in one. systemd would give it a scope; where none
    runs, they are made in each hierarchy that systemd would use."""
    if Path(SYSTEMD_RUNS).is_dir():
        yield []
        return
    name = f"sallyport-test-{os.getpid()}-{next(NUMBERS)}"
    groups = [Path(mounted) / name for mounted in hierarchies()]
    try:
        for group in groups:
            group.mkdir()
        yield groups
    finally:
        for group in groups:
            for place, _, _ in os.walk(group, topdown=False):
                # One is still in use where a machine was killed: systemd-nspawn then ends after who started it.
                with contextlib.suppress(OSError):
                    os.rmdir(place)


def hierarchies() -> list[str]:
    mounted = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    found = [
        place for _, place, kind, options, *_ in mounted
        if kind == "cgroup2" or kind == "cgroup" and "name=systemd" in options.split(",")
    ]
    if not found:
        pytest.skip("no tree of control groups is mounted that systemd could use")
    return found


def wait_for_leader(notified: socket.socket, process: subprocess.Popen, console: Path) -> int:
    """The number of the machine's first process, as it is seen from here."""
    try:
        inside = wait_for(rb"^X_NSPAWN_LEADER_PID=(\d+)$", notified, process, console)[1].decode()
    except ProcessLookupError as error:
        pytest.skip(f"systemd-nspawn cannot start a container here: {error}")
    for first in children(process.pid):
        for second in children(first):
            if numbers_of(Path(f"/proc/{second}"))[-2:] == [inside, "1"]:
                return second
    raise AssertionError(f"the first process of the machine, {inside} to systemd-nspawn, is not to be seen")


def children(number: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


def wait_for(pattern: bytes, notified: socket.socket, process: subprocess.Popen, console: Path) -> re.Match:
    """What systemd-nspawn notifies of, or ProcessLookupError where it ends before."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    poll = select.poll()
    ended = os.pidfd_open(process.pid)
    try:
        poll.register(notified, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = [number for number, _ in poll.poll(left * 1000)]
            if notified.fileno() in ready:
                if found := re.search(pattern, notified.recv(4096), re.MULTILINE):
                    return found
            elif ready:
                raise ProcessLookupError(console.read_text())
    finally:
        os.close(ended)
    raise AssertionError(f"not booted in {DEADLINE_SECONDS} s:\n{console.read_text()}")


@contextlib.contextmanager
def ending(leader: int) -> Iterator[None]:
    """Ends every process of the machine, and waits until they are gone."""
    descriptor = os.pidfd_open(leader)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(DEADLINE_SECONDS * 1000), "the machine does not end"
        os.close(descriptor)


@contextlib.contextmanager
def following(machine: Machine) -> Iterator[None]:
    """Reads the journal into `machine.journal`, from outside: what is inside is stopped when the machine powers off."""
    process = subprocess.Popen(
        [
            "journalctl", "--follow", "--lines=all", "--output=json", "--all",
            f"--directory={machine.root}/var/log/journal",
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
    )

    def read() -> None:
        for line in process.stdout:
            # The last one may have been cut when journalctl was killed.
            if line.endswith(b"\n"):
                machine.journal.append(json.loads(line))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        process.kill()
        process.wait()
        thread.join()
        process.stdout.close()
