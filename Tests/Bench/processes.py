"""Programs that the bench starts, and the promise that none of them outlives it.

Every child leads a process group of its own, so that killing the group also takes what the child started, and Ctrl-C in a
terminal reaches bench.py alone. The groups are killed when a `with` block is left, and by atexit whatever happens;
`raise_on_signals` turns SIGTERM and SIGHUP into an exit that runs both. Part of bench.py.
"""

import atexit
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import subprocess
import time

import measure

HOST = "127.0.0.1"
# Below net.ipv4.ip_local_port_range, so that no client's own port is ever in the way of a listener.
PORT_FIRST, PORT_LAST = 20_000, 29_999
PORT_ATTEMPTS_MAX = 200
STOP_SECONDS = 1.0  # from SIGTERM to SIGKILL; a proxy that drains longer than this is not waited for
READY_SECONDS_MAX = 20.0  # Squid under load takes about 1 s
READY_POLL_SECONDS = 0.02
# Of what a program that failed said, this much is shown in the error, on one line.
TAIL_BYTES = 4_000
TAIL_LINES, TAIL_CHARACTERS = 4, 500
# Where Debian keeps daemons, for a user without it in PATH.
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


class BenchError(Exception):
    """Something that makes a figure worthless: says which program, what was expected and what was seen."""


_children: list["Child"] = []
_priority = 0


def set_priority(nice: int):
    """For every child from now on. nice(2) does not do it: each child leads a session, the kernel shares the CPU among
    sessions first (sched_autogroup), and nice counts only within one; so the session itself is given the value."""
    global _priority
    _priority = nice


class Child:
    """A running program. `output` is the file that its stderr, and stdout unless it is read, go to."""

    def __init__(self, name: str, command: list[str], *, cpu: int | None, output: pathlib.Path,
                 environment: dict[str, str] | None = None, directory=None, read_stdout: bool = False):
        self.name = name
        self.output = output
        # taskset replaces itself by the program, so the process id is the program's.
        pinned = command if cpu is None else ["taskset", "-c", str(cpu), *command]
        with open(output, "ab") as file:
            self.process = subprocess.Popen(
                pinned, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if read_stdout else file, stderr=file,
                env={**os.environ, **(environment or {})}, cwd=directory, start_new_session=True)
        _children.append(self)
        if _priority:
            try:
                pathlib.Path(f"/proc/{self.pid}/autogroup").write_text(str(_priority))
            except OSError as error:
                raise BenchError(f"--priority {_priority} cannot be set: {error}; below 0 it takes root") from error

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """SIGTERM to the group, then SIGKILL. Safe to call twice."""
        if self in _children:
            _children.remove(self)
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            finally:
                self._signal(signal.SIGKILL)
                self.process.wait()
                if self.process.stdout:
                    self.process.stdout.close()

    def _signal(self, number: int):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def output_tail(self) -> str:
        """The end of what the program said, for an error message."""
        return tail(self.output.read_bytes()[-TAIL_BYTES:].decode(errors="replace"))

    def fail(self, what: str) -> BenchError:
        return BenchError(f"{self.name} {what}: {self.output_tail()}")

    def wait_for_port(self, port: int):
        """Until something listens there; the program may open other ports, or fork, before it does."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self.fail(f"ended with status {self.process.returncode} before it was ready")
            try:
                socket.create_connection((HOST, port), timeout=1).close()
                return
            except OSError:
                time.sleep(READY_POLL_SECONDS)
        raise self.fail(f"does not listen on {HOST}:{port} after {READY_SECONDS_MAX:.0f} s")

    def wait_for_line(self) -> str:
        """Until the program has printed its first line on stdout, which it returns."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise self.fail(f"printed no line on stdout in {READY_SECONDS_MAX:.0f} s")
            byte = os.read(self.process.stdout.fileno(), 1)
            if not byte:
                raise self.fail("ended, or closed its stdout, before it was ready")
            line += byte
        return line.decode(errors="replace").strip()


def tail(text: str) -> str:
    """The last lines of what a program said, as one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-TAIL_LINES:])[-TAIL_CHARACTERS:] or "(it said nothing)"


def run(name: str, command: list[str], *, cpu: int | None, output: pathlib.Path, seconds_max: float,
        environment: dict[str, str] | None = None) -> str:
    """Runs a program to its end and returns its stdout. BenchError on another status than 0, or when it takes too long."""
    with Child(name, command, cpu=cpu, output=output, environment=environment, read_stdout=True) as child:
        try:
            stdout, _ = child.process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            raise child.fail(f"is not done after {seconds_max:.0f} s") from None
        text = stdout.decode(errors="replace")
        if child.process.returncode != 0:
            raise child.fail(f"ended with status {child.process.returncode}, saying '{tail(text)}'")
        return text


def stop_all():
    """Ends everything that was started. A signal may have come between the start of a program and its entry in our list,
    so whatever is still below this process in the tree goes too."""
    for child in list(_children):
        child.stop()
    for pid in measure.process_tree(os.getpid())[1:]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


atexit.register(stop_all)


def raise_on_signals():
    """SIGTERM and SIGHUP end the bench as Ctrl-C does: by an exception, so that everything started is stopped."""

    def leave(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def find(program: str) -> str | None:
    """The path of an installed program."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def free_port() -> int:
    """A port that nothing listens on now. Another program may take it before ours does; then ours fails to start."""
    for _ in range(PORT_ATTEMPTS_MAX):
        port = random.randint(PORT_FIRST, PORT_LAST)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
                return port
            except OSError:
                continue
    raise BenchError(f"no free port found in {PORT_FIRST}…{PORT_LAST} after {PORT_ATTEMPTS_MAX} attempts")
