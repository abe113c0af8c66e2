"""An origin whose objects change, and clients that hold every answer of a proxy against all that the origin ever said.

    origin = ChangingOrigin()                 /KIND/NAME: an object with versions; its bytes follow from path and version
    reader = Reader(address, origin)          a client on one connection
    reader.get("/fixed/1")                    what came, or None where the connection ended before it was whole
    reader.change("/fixed/1")                 an unsafe request; from its answer on no older version may come

Two versions of an object differ in every byte and mostly in length, so bytes of two of them, or fewer than there are, are never the
content of one. What is wrong is a `WrongAnswer`.

    load = Load(address, origin, seed)        several of them, until load.stop(), which fails where an answer was wrong

Kinds: `fixed` is fresh for an hour and changes by unsafe requests alone, `validated` says no-cache and changes whenever it wants,
`stale` has to be validated once its head has come, `purged` is fresh for an hour, changes at the origin and is purged after that.
"""

import hashlib
import itertools
import random
import re
import socket
import threading

from journal import DEADLINE_SECONDS
from origins import listening_socket

MOST_BYTES = 3 << 20
CACHE_CONTROL = {
    "fixed": "max-age=3600",
    "purged": "max-age=3600",
    "validated": "no-cache",
    "stale": "max-age=0, must-revalidate",
}


# Objects of a kind.
PATHS = 24


class WrongAnswer(Exception):
    def __init__(self, path: str, what: str, answer: "Answer | None" = None):
        shown = f"; {answer.status} {answer.fields}, {len(answer.body)} bytes" if answer else ""
        super().__init__(f"{path}: {what}{shown}")
        self.path, self.what, self.answer = path, what, answer


def size_of(path: str, version: int) -> int:
    """Small ones mostly, some of a few chunks of 64 KiB, some of 3 MiB."""
    chance = random.Random(f"{path} {version}")
    return round(100 * (MOST_BYTES / 100) ** (chance.random() ** 2))


def content(path: str, version: int) -> bytes:
    return hashlib.shake_128(f"{path} {version}".encode()).digest(size_of(path, version))


class ChangingOrigin:
    """`chance`: what it decides framing, pauses and breaks by."""

    def __init__(self, chance: random.Random, address: str = "127.0.0.1", port: int = 0):
        self.chance = chance
        self.breaks_off = 0.02
        self.lock = threading.Lock()
        self.versions: dict[str, int] = {}
        # The oldest version that may still come: made by a change that was answered, or by one that was purged after it, or,
        # of what must be validated, had by a client. An answer that is still fresh may be older than another that a client had.
        self.known: dict[str, int] = {}
        self.served = 0
        self.failures: list[BaseException] = []
        self.connections: set[socket.socket] = set()
        self.listener = listening_socket(address, port)
        self.address = self.listener.getsockname()[:2]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    @property
    def authority(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def version(self, path: str) -> int:
        with self.lock:
            return self.versions.setdefault(path, 1)

    def change(self, path: str) -> int:
        with self.lock:
            self.versions[path] = self.versions.get(path, 1) + 1
            return self.versions[path]

    def note_known(self, path: str, version: int) -> None:
        with self.lock:
            self.known[path] = max(self.known.get(path, 0), version)

    def oldest_allowed(self, path: str) -> int:
        """For a request that is about to be sent."""
        with self.lock:
            current, known = self.versions.setdefault(path, 1), self.known.get(path, 0)
        # Every use is validated after the request came. Of what is merely stale, requests may share one validation.
        return current if path.startswith("/validated/") else known

    def _accept(self) -> None:
        while True:
            try:
                accepted = self.listener.accept()[0]
            except OSError:
                return
            accepted.settimeout(DEADLINE_SECONDS)
            self.connections.add(accepted)
            threading.Thread(target=self._run, args=(accepted,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        try:
            while (head := read_head(stream)) and self._answer(connection, head):
                pass
        except OSError:
            pass  # the proxy was killed
        except BaseException as failure:
            self.failures.append(failure)
        stream.close()
        connection.close()
        self.connections.discard(connection)

    def _answer(self, connection: socket.socket, head: list[str]) -> bool:
        """False: the connection ends."""
        method, path, _ = head[0].split(" ")
        fields = fields_of(head)
        if method != "GET":
            version = self.change(path)
            connection.sendall(b"HTTP/1.1 200 Changed\r\nX-Version: %d\r\nContent-Length: 0\r\n\r\n" % version)
            return True
        version = self.version(path)
        self.served += 1
        tag = f'"{version}"'
        lines = [f"Cache-Control: {CACHE_CONTROL[path.split('/')[1]]}", f"ETag: {tag}"]
        if tag in fields.get("if-none-match", ""):
            connection.sendall("\r\n".join(["HTTP/1.1 304 Not Modified", *lines, "", ""]).encode())
            return True
        return self._send(connection, lines, content(path, version))

    def _send(self, connection: socket.socket, lines: list[str], body: bytes) -> bool:
        framing = self.chance.choice(("length", "length", "chunked", "close"))
        # One that the end of the connection frames is not cut here: nobody could tell.
        ends = framing != "close" and self.chance.random() < self.breaks_off
        whole = body
        if framing == "length":
            lines = [*lines, f"Content-Length: {len(body)}"]
        elif framing == "chunked":
            lines = [*lines, "Transfer-Encoding: chunked"]
            parts = [body[at : at + (48 << 10)] for at in range(0, len(body), 48 << 10)]
            whole = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        if ends:
            whole = whole[: self.chance.randrange(len(whole))]
        connection.sendall("\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode())
        for at in range(0, len(whole), 256 << 10):
            connection.sendall(whole[at : at + (256 << 10)])
        return not ends and framing != "close"

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(DEADLINE_SECONDS)
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if self.failures:
            raise self.failures[0]


def read_head(stream) -> list[str]:
    """The lines of a head; none: the connection has ended before its end."""
    lines = []
    while (line := stream.readline()) not in (b"\r\n", b""):
        lines.append(line.decode("latin-1").rstrip("\r\n"))
    return lines if line else []


def fields_of(head: list[str]) -> dict[str, str]:
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}


class Cut(Exception):
    """The connection ended within an answer."""


class Answer:
    def __init__(self, status: int, fields: dict[str, str], body: bytes):
        self.status, self.fields, self.body = status, fields, body

    @property
    def is_hit(self) -> bool:
        return "; hit" in self.fields.get("cache-status", "")


class Reader:
    """A client on one connection, which is made again where it has ended."""

    numbers = itertools.count()

    def __init__(self, address: tuple[str, int], origin: ChangingOrigin):
        self.address, self.origin = address, origin
        self.number = next(self.numbers)
        self.socket = self.stream = None

    def close(self) -> None:
        if self.socket:
            self.stream.close()
            self.socket.close()
        self.socket = self.stream = None

    def exchange(self, method: str, path: str, *lines: str, whole: bool = True) -> Answer | None:
        """None: there is no whole answer. `whole`: False leaves in the middle of it."""
        try:
            if not self.socket:
                self.socket = socket.create_connection(self.address, DEADLINE_SECONDS)
                self.stream = self.socket.makefile("rb")
            length = ("Content-Length: 0",) if method != "GET" else ()
            url = f"http://{self.origin.authority}{path}"
            head = [f"{method} {url} HTTP/1.1", f"Host: {self.origin.authority}", *lines, *length, "", ""]
            self.socket.sendall("\r\n".join(head).encode())
            if not whole:
                self.stream.read(1)
                self.close()
                return None
            answer, stays = self._read()
            if not stays:
                self.close()
            return answer
        except TimeoutError:
            raise WrongAnswer(path, f"{method} is not answered within {DEADLINE_SECONDS} s") from None
        except (Cut, OSError):
            self.close()
            return None

    def _read(self) -> tuple[Answer, bool]:
        head = read_head(self.stream)
        if not head:
            raise Cut
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", head[0])
        if not match:
            raise WrongAnswer("", f"no status line: {head[0]!r}")
        status, fields = int(match[1]), fields_of(head)
        stays = fields.get("connection") != "close"
        if status == 304:
            return Answer(status, fields, b""), stays
        if fields.get("transfer-encoding") == "chunked":
            return Answer(status, fields, self._chunks()), stays
        if "content-length" not in fields:
            # An origin framed it so, and it passes unstored: nobody can tell whether it is whole.
            raise Cut
        return Answer(status, fields, self._bytes(int(fields["content-length"]))), stays

    def _bytes(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) < count:
            raise Cut
        return data

    def _chunks(self) -> bytes:
        parts = []
        while True:
            line = self.stream.readline()
            if not line.endswith(b"\r\n"):
                raise Cut
            size = int(line, 16)
            if size:
                parts.append(self._bytes(size))
            if self._bytes(2) != b"\r\n":
                raise WrongAnswer("", "a chunk that is longer than it says")
            if not size:
                return b"".join(parts)

    # Requests whose answers are judged

    def get(self, path: str, *lines: str, range: tuple[int, int] | None = None) -> Answer | None:
        oldest = self.origin.oldest_allowed(path)
        if range:
            lines += (f"Range: bytes={range[0]}-{range[1]}",)
        answer = self.exchange("GET", path, *lines)
        if answer is None or answer.status >= 500:
            return None if answer is None else self.problem(path, answer)
        version = self.judge(path, answer, oldest, range)
        if path.startswith("/stale/"):
            self.origin.note_known(path, version)
        return answer

    def problem(self, path: str, answer: Answer) -> Answer:
        """What an origin that breaks off makes of it: an answer of the proxy's own."""
        if answer.status not in (502, 504) or "application/problem+json" not in answer.fields.get("content-type", ""):
            raise WrongAnswer(path, "no problem of the proxy's", answer)
        return answer

    def judge(self, path: str, answer: Answer, oldest: int, range: tuple[int, int] | None) -> int:
        """The version that came."""
        if answer.status == 416:
            return oldest
        match = re.fullmatch(r'"(\d+)"', answer.fields.get("etag", ""))
        if answer.status not in (200, 206, 304) or not match:
            raise WrongAnswer(path, "no answer of the origin's", answer)
        version = int(match[1])
        if version > self.origin.version(path):
            raise WrongAnswer(path, f"version {version}, which never was", answer)
        if version < oldest:
            raise WrongAnswer(path, f"version {version}, when {oldest} was known", answer)
        expected = content(path, version) if answer.status != 304 else b""
        if answer.status == 206:
            given = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.fields.get("content-range", ""))
            first, last, total = map(int, given.groups()) if given else (0, 0, 0)
            if total != len(expected) or range is None or first != range[0]:
                raise WrongAnswer(path, f"not the range {range} of {len(expected)}", answer)
            expected = expected[first : last + 1]
        if answer.body != expected:
            raise WrongAnswer(path, f"version {version}, but {difference(answer.body, expected)}", answer)
        return version

    def change(self, path: str) -> bool:
        """Whether the change was answered."""
        answer = self.exchange("PUT", path)
        if answer is None or answer.status >= 500:
            return False
        self.origin.note_known(path, int(answer.fields["x-version"]))
        return True


def difference(got: bytes, expected: bytes) -> str:
    at = next((at for at, (one, other) in enumerate(zip(got, expected)) if one != other), min(len(got), len(expected)))
    return f"{len(got)} bytes instead of {len(expected)}, which differ from byte {at} on"


class Load:
    """Several readers that ask for random objects and change them until `stop`. `purge`: purges a URL, and says whether it is done."""

    def __init__(self, address, origin: ChangingOrigin, seed: int, purge=None, readers: int = 6, only=CACHE_CONTROL):
        self.origin, self.purge = origin, purge
        self.paths = [f"/{kind}/{number}" for kind in only for number in range(PATHS)]
        self.failures: list[BaseException] = []
        self.wrong: dict[tuple, WrongAnswer] = {}  # by path and what is wrong, each as it was seen first
        self.counts = {"whole": 0, "hits": 0, "cut": 0, "changed": 0, "purged": 0, "problems": 0}
        self.changed = threading.Event()  # an unsafe request has just been answered
        self.stopped = threading.Event()
        self.is_up = threading.Event()  # cleared while there is nobody to ask
        self.is_up.set()
        self.lock = threading.Condition()
        self.readers = [Reader(address, origin) for _ in range(readers)]
        self.threads = [
            threading.Thread(target=self._run, args=(reader, random.Random(f"{seed} {number}")), daemon=True)
            for number, reader in enumerate(self.readers)
        ]
        for thread in self.threads:
            thread.start()

    def _count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1
            self.lock.notify_all()

    def wait_for(self, what: str, count: int) -> None:
        with self.lock:
            enough = self.lock.wait_for(lambda: self.counts[what] >= count or self.failures, 3 * DEADLINE_SECONDS)
        assert enough, f"not {count} {what}: {self.counts}"

    def _run(self, reader: Reader, chance: random.Random) -> None:
        while not self.stopped.is_set():
            self.is_up.wait()
            try:
                self._ask(reader, chance)
            except WrongAnswer as wrong:
                # All that are wrong are of interest, each once.
                reader.close()
                with self.lock:
                    self.wrong.setdefault((wrong.path, wrong.what), wrong)
            except BaseException as failure:
                self.failures.append(failure)
                return
        reader.close()

    def _ask(self, reader: Reader, chance: random.Random) -> None:
        path = chance.choice(self.paths)
        kind = path.split("/")[1]
        turn = chance.random()
        if kind == "fixed" and turn < 0.15:
            if reader.change(path):
                self._count("changed")
                self.changed.set()
            return
        if kind in ("validated", "stale", "purged") and turn < 0.15:
            version = self.origin.change(path)
            if kind == "purged" and self.purge and self.purge(f"http://{self.origin.authority}{path}"):
                self.origin.note_known(path, version)
                self._count("purged")
            return
        if turn < 0.18:
            reader.exchange("GET", path, whole=False)
            return
        part = None
        if turn > 0.9:
            size = size_of(path, self.origin.version(path))
            part = (first := chance.randrange(size), first + chance.randrange(size))
        answer = reader.get(path, range=part)
        if answer is None:
            self._count("cut")
        elif answer.status >= 500:
            self._count("problems")
        else:
            self._count("whole")
            if answer.is_hit:
                self._count("hits")

    def stop(self) -> None:
        self.stopped.set()
        self.is_up.set()
        for thread in self.threads:
            thread.join(DEADLINE_SECONDS)
        if self.failures:
            raise self.failures[0]
        assert not self.wrong, f"{len(self.wrong)} wrong answers:\n" + "\n".join(map(str, list(self.wrong.values())[:20]))
