"""A small DNS server on loopback (RFC 1035, UDP and TCP on one port) that answers what a test wrote and notes each question.

    server = DNSServer({"a.test": Answer(a=["127.0.0.1"])})
    server.questions                       a journal of Question(transport, name, kind)

A name that is not listed does not exist, unless `otherwise` says what to answer.
"""

import ipaddress
import socket
import struct
import threading
from dataclasses import dataclass, field

from journal import Journal

A, NS, CNAME, SOA, AAAA = 1, 2, 5, 6, 28
NO_ERROR, SERVER_FAILURE, NO_SUCH_NAME, REFUSED = 0, 2, 3, 5
KINDS = {A: "A", AAAA: "AAAA", CNAME: "CNAME", SOA: "SOA"}


@dataclass
class Answer:
    """What is said of a name. `ttl` is of every record, and of the SOA that comes with a negative answer."""

    a: list[str] = field(default_factory=list)
    aaaa: list[str] = field(default_factory=list)
    cname: str | None = None
    ttl: int = 300
    code: int = NO_ERROR
    silent: bool = False
    only_over_tcp: bool = False  # over UDP: truncated, without a record


@dataclass(frozen=True)
class Question:
    transport: str
    name: str
    kind: str


class DNSServer:
    """Runs until `stop`."""

    def __init__(self, names: dict[str, Answer], otherwise: Answer = Answer(code=NO_SUCH_NAME)):
        self.names = names
        self.otherwise = otherwise
        self.silent_kinds: set[str] = set()  # "A", "AAAA": questions of these are never answered
        self.questions = Journal("the name server")
        self.udp, self.tcp = self._bind()
        self.address = "%s:%d" % self.udp.getsockname()
        self.threads = [
            threading.Thread(target=serve, daemon=True) for serve in (self._serve_udp, self._serve_tcp)
        ]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def _bind() -> tuple[socket.socket, socket.socket]:
        """One free port for both transports."""
        while True:
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.bind(("127.0.0.1", 0))
            tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                tcp.bind(udp.getsockname())
            except OSError:
                udp.close()
                tcp.close()
                continue
            tcp.listen(16)
            return udp, tcp

    def asked(self, name: str) -> list[Question]:
        return [question for question in self.questions.snapshot() if question.name == name]

    def _serve_udp(self) -> None:
        while True:
            try:
                message, client = self.udp.recvfrom(4096)
            except OSError:
                return
            if not message:
                return
            reply = self._reply(message, "udp")
            if reply:
                self.udp.sendto(reply, client)

    def _serve_tcp(self) -> None:
        while True:
            try:
                connection = self.tcp.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve_connection, args=(connection,), daemon=True).start()

    def _serve_connection(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while len(prefix := stream.read(2)) == 2:
                reply = self._reply(stream.read(struct.unpack("!H", prefix)[0]), "tcp")
                if reply:
                    connection.sendall(struct.pack("!H", len(reply)) + reply)

    def _reply(self, message: bytes, transport: str) -> bytes | None:
        identity, flags = struct.unpack("!HH", message[:4])
        name, end = read_name(message, 12)
        kind = struct.unpack("!H", message[end : end + 2])[0]
        question = message[12 : end + 4]
        self.questions.append(Question(transport, name, KINDS.get(kind, str(kind))))
        answer = self.names.get(name, self.otherwise)
        if answer.silent or KINDS.get(kind) in self.silent_kinds:
            return None
        records: list[bytes] = []
        truncated = answer.only_over_tcp and transport == "udp"
        if not truncated:
            records = self._records(name, kind, answer)
        authority = (
            [] if records or truncated else [record(name, SOA, answer.ttl, start_of_authority(answer.ttl))]
        )
        flags = 0x8400 | (flags & 0x0100) | 0x0080 | answer.code | (0x0200 if truncated else 0)
        header = struct.pack("!HHHHHH", identity, flags, 1, len(records), len(authority), 0)
        return header + question + b"".join(records + authority)

    def _records(self, name: str, kind: int, answer: Answer) -> list[bytes]:
        if answer.cname:
            target = self.names.get(answer.cname, self.otherwise)
            return [record(name, CNAME, answer.ttl, write_name(answer.cname))] + self._records(
                answer.cname, kind, target
            )
        addresses = {A: answer.a, AAAA: answer.aaaa}.get(kind, [])
        return [record(name, kind, answer.ttl, ipaddress.ip_address(address).packed) for address in addresses]

    def stop(self) -> None:
        wake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wake.sendto(b"", self.udp.getsockname())
        wake.close()
        self.tcp.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()
        self.udp.close()
        self.tcp.close()


def read_name(message: bytes, at: int) -> tuple[str, int]:
    """A name without compression, as questions have it, in small letters; and the offset behind it."""
    labels = []
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("ascii").lower())
        at += 1 + message[at]
    return ".".join(labels), at + 1


def write_name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def record(name: str, kind: int, ttl: int, data: bytes) -> bytes:
    return write_name(name) + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data


def start_of_authority(ttl: int) -> bytes:
    return write_name("ns.test") + write_name("admin.test") + struct.pack("!IIIII", 1, 3600, 600, 86400, ttl)
