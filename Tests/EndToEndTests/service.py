"""systemd's side of a service, as far as it is sockets: what is notified, what is passed, what is sent to the journal.

    manager = ServiceManager(directory)      a NOTIFY_SOCKET; manager.messages is a journal of dictionaries
    manager.store_places = 100               it keeps so many descriptors; manager.stored are those, as `passing` takes them
    journal = FakeJournal(directory)         the journal's socket; journal.entries is a journal of dictionaries
    passing([("proxy", socket)])             a prefix command that passes sockets as systemd does
"""

import ctypes
import os
import signal
import socket
import struct
import sys
import threading
from pathlib import Path

from journal import Journal

# Sets what sd_listen_fds(3) reads, in the process that becomes the proxy: LISTEN_PID is its own. Descriptors from 3 on
# may be those that are to be passed, which therefore move out of the way first.
PASSING = """
import fcntl, os, sys
numbers, names, command = sys.argv[1].split(","), sys.argv[2], sys.argv[3:]
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD_CLOEXEC, 3 + len(numbers)) for number in numbers]
for number in numbers:
    if number not in map(str, range(3 + len(numbers))):
        os.close(int(number))
for index, number in enumerate(high):
    os.dup2(number, 3 + index, inheritable=True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=names)
os.execvp(command[0], command)
"""


def passing(sockets: list[tuple[str, socket.socket]]) -> tuple[str, ...]:
    for _, passed in sockets:
        passed.set_inheritable(True)
    numbers = ",".join(str(passed.fileno()) for _, passed in sockets)
    return (sys.executable, "-c", PASSING, numbers, ":".join(name for name, _ in sockets))


class Datagrams:
    """A socket of the file system whose messages a thread decodes into a journal."""

    def __init__(self, path: Path, name: str):
        self.path = path
        self.received = Journal(name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while True:
            data, ancillary, _, _ = self.socket.recvmsg(1 << 18, 1 << 10)
            if data == b"stop":
                return
            numbers = []
            for _, _, rights in ancillary:
                numbers += struct.unpack(f"{len(rights) // 4}i", rights)
            self.take(data, numbers)

    def take(self, data: bytes, numbers: list[int]) -> None:
        for number in numbers:  # large entries of the journal come as descriptors
            os.close(number)
        self.received.append(self.decode(data))

    def stop(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"stop", str(self.path))
        self.thread.join()
        self.socket.close()


class Stored:
    """A descriptor that the manager keeps, for `passing`."""

    def __init__(self, number: int):
        self.number = number

    def fileno(self) -> int:
        return self.number

    def set_inheritable(self, inheritable: bool) -> None:
        os.set_inheritable(self.number, inheritable)

    def close(self) -> None:
        os.close(self.number)


class ServiceManager(Datagrams):
    """Keeps descriptors as sd_pid_notify_with_fds(3) says, up to `store_places` of them, and says nothing of it."""

    def __init__(self, directory: Path):
        self.store_places = 0
        self.stored: list[tuple[str, Stored]] = []
        self.most_stored = 0
        self.forgotten = Journal("what systemd was told to keep no longer")
        self.asks_for_polling = False  # systemd would drop what is reset while it keeps it
        super().__init__(directory / "notify", "what systemd was told")

    def take(self, data: bytes, numbers: list[int]) -> None:
        message = self.decode(data)
        name = message.get("FDNAME", "stored")
        if "FDSTOREREMOVE" in message:
            for gone in [stored for stored in self.stored if stored[0] == name]:
                self.stored.remove(gone)
                gone[1].close()
            self.forgotten.append(name)
        elif "FDSTORE" in message:
            assert name.isascii() and len(name) <= 255 and ":" not in name
            self.asks_for_polling |= message.get("FDPOLL") != "0"
            while numbers and len(self.stored) < self.store_places:
                self.stored.append((name, Stored(numbers.pop())))
            self.most_stored = max(self.most_stored, len(self.stored))
        elif "BARRIER" not in message:
            self.received.append(message)
        for number in numbers:  # what is not kept, and barriers, which wait for it
            os.close(number)

    def stop(self) -> None:
        super().stop()
        for _, stored in self.stored:
            stored.close()

    @property
    def messages(self) -> Journal:
        return self.received

    @property
    def environment(self) -> dict[str, str]:
        # A systemd that runs the tests is not to be asked of the service.
        return {"NOTIFY_SOCKET": str(self.path), "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}

    def decode(self, data: bytes) -> dict[str, str]:
        return dict(line.split("=", 1) for line in data.decode().split("\n") if line)


class FakeJournal(Datagrams):
    def __init__(self, directory: Path):
        super().__init__(directory / "socket", "the journal")

    @property
    def entries(self) -> Journal:
        return self.received

    def decode(self, data: bytes) -> dict[str, str]:
        """The journal's native protocol: lines, and values with a length where they hold a line feed."""
        fields = {}
        while data:
            line, _, data = data.partition(b"\n")
            name, equals, value = line.partition(b"=")
            if not equals:
                (length,) = struct.unpack("<Q", data[:8])
                value, data = data[8 : 8 + length], data[9 + length :]
            assert name.decode() not in fields
            fields[name.decode()] = value.decode()
        return fields


def threads(pid: int, name: str) -> list[int]:
    """The numbers of the threads of a process that have this name."""
    tasks = Path(f"/proc/{pid}/task")
    return [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().strip() == name]


class StoppedThread:
    """Stops one thread of a process while the others run, as a debugger does."""

    SEIZE, INTERRUPT, DETACH, WAIT_ALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, number: int):
        self.number = number
        self.lives = True
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long

    def __enter__(self) -> "StoppedThread":
        self._ask(self.SEIZE)
        self._ask(self.INTERRUPT)
        _, status = os.waitpid(self.number, self.WAIT_ALL)
        assert os.WIFSTOPPED(status) and os.WSTOPSIG(status) == signal.SIGTRAP
        return self

    def __exit__(self, *exception) -> None:
        if self.lives:
            self._ask(self.DETACH)

    def wait_for_death(self) -> int:
        """Waits until its process has been killed, and answers by which signal."""
        _, status = os.waitpid(self.number, self.WAIT_ALL)
        self.lives = False
        assert os.WIFSIGNALED(status), status
        return os.WTERMSIG(status)

    def _ask(self, request: int) -> None:
        if self.libc.ptrace(request, self.number, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
