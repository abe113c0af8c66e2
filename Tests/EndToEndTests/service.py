"""systemd's side of a service, as far as it is sockets: what is notified, what is passed, what is sent to the journal.

    manager = ServiceManager(directory)      a NOTIFY_SOCKET; manager.messages is a journal of dictionaries
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

# Sets what sd_listen_fds(3) reads, in the process that becomes the proxy: LISTEN_PID is its own.
PASSING = """
import os, sys
numbers, names, command = sys.argv[1].split(","), sys.argv[2], sys.argv[3:]
kept = [os.dup(int(number)) for number in numbers]
high = [os.dup2(number, 100 + index) for index, number in enumerate(kept)]
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
            for _, _, rights in ancillary:  # barriers (sd_notify_barrier) and large entries come as descriptors
                for number in struct.unpack(f"{len(rights) // 4}i", rights):
                    os.close(number)
            self.received.append(self.decode(data))

    def stop(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"stop", str(self.path))
        self.thread.join()
        self.socket.close()


class ServiceManager(Datagrams):
    def __init__(self, directory: Path):
        super().__init__(directory / "notify", "what systemd was told")

    @property
    def messages(self) -> Journal:
        return self.received

    @property
    def environment(self) -> dict[str, str]:
        return {"NOTIFY_SOCKET": str(self.path)}

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
    """Stops one thread of a child of ours while the others run, as a debugger does."""

    SEIZE, INTERRUPT, DETACH, WAIT_ALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, number: int):
        self.number = number
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
        self._ask(self.DETACH)

    def _ask(self, request: int) -> None:
        if self.libc.ptrace(request, self.number, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
