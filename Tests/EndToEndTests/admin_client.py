"""A client of the admin API on its unix socket: whole answers, raw bytes under the strict checker, and event streams.

    admin = AdminClient(path)
    admin.json("/v1/status")                  one GET, answered 200 with JSON
    admin.ask("/v1/reload", method="POST")    one request on a connection of its own
    admin.connection()                        RawClient over the unix socket: any bytes
    admin.events("reload", …)                 a watcher of these kinds, or of all; `next()` waits for the next event
"""

import json
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from journal import DEADLINE_SECONDS
from raw_client import Ended, RawClient
from strict_http import Message


def request(path: str, method: str = "GET", lines: str = "", body: bytes = b"") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: sallyport\r\n{lines}{length}\r\n".encode() + body


class AdminConnection(RawClient):
    """One connection to the admin socket."""

    def __init__(self, path: Path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(DEADLINE_SECONDS)
        self.socket.connect(str(path))
        self.sent, self.received = bytearray(), bytearray()
        self.read_to = self.answered = 0
        self.forget_what_was_asked()
        self.ended: str | None = None
        self.looked_at = True

    def __enter__(self) -> "AdminConnection":
        return self

    def __exit__(self, *_) -> None:
        self.close()


# RFC 3339, in UTC.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True)
class Event:
    kind: str
    data: dict


class Watcher(AdminConnection):
    """A reader of /v1/events, as server-sent events."""

    def __init__(self, path: Path, lines: str = "Accept: text/event-stream\r\n", query: str = ""):
        super().__init__(path)
        self.send(request(f"/v1/events{query}", lines=lines))
        self.head = self.receive_until(b"\r\n\r\n").decode()
        assert self.head.startswith("HTTP/1.1 200 "), self.head

    def next(self) -> Event:
        """The next event; comments are passed over."""
        while True:
            fields: dict[str, str] = {}
            for line in self.receive_until(b"\n\n").decode().split("\n"):
                name, colon, value = line.partition(":")
                if line and name:
                    assert colon, f"no field of an event: {line!r}"
                    fields[name] = value.removeprefix(" ")
            if fields:
                assert set(fields) <= {"event", "data", "id", "retry"}, fields
                event = Event(fields["event"], json.loads(fields["data"]))
                assert TIME.fullmatch(event.data["time"]) and next(iter(event.data)) == "time", event
                return event

    def until(self, kind: str, predicate=lambda data: True) -> dict:
        """The data of the next event of this kind that the predicate holds for."""
        while True:
            event = self.next()
            if event.kind == kind and predicate(event.data):
                return event.data

    def next_line(self) -> str:
        return self.receive_until(b"\n").decode().rstrip("\n")

    def rest(self) -> list[Event]:
        """Every event until the proxy ends the stream."""
        events = []
        while True:
            try:
                events.append(self.next())
            except Ended:
                return events


class AdminClient:
    def __init__(self, path: Path):
        self.path = path

    def connection(self) -> AdminConnection:
        return AdminConnection(self.path)

    def events(self, *kinds: str, lines: str = "Accept: text/event-stream\r\n") -> Watcher:
        """A reader of these kinds; without any, of all."""
        return Watcher(self.path, lines, f"?kind={','.join(kinds)}" if kinds else "")

    def ask(self, path: str, method: str = "GET", lines: str = "", body: bytes = b"") -> Message:
        with self.connection() as connection:
            answer = connection.exchange(request(path, method, lines, body))
            connection.check()
            return answer

    def json(self, path: str):
        answer = self.ask(path)
        assert answer.status == 200, f"{path}: {answer.status} {answer.body!r}"
        assert answer.value("Content-Type").startswith(b"application/json"), answer.fields
        return json.loads(answer.body)

    def text(self, path: str) -> str:
        answer = self.ask(path, lines="Accept: text/plain\r\n")
        assert answer.status == 200 and answer.value("Content-Type").startswith(b"text/plain"), answer.fields
        return answer.body.decode("utf-8")

    def asked_until(self, path: str, predicate):
        """Ask again until the predicate holds for the answer: for what no event tells."""
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            answer = self.json(path)
            if predicate(answer):
                return answer
            assert time.monotonic() < end, f"{path} does not come to what was expected, but stays {answer}"


def said(members: dict) -> dict:
    """What is not null of an answer: what a line of the log has of it."""
    return {name: value for name, value in members.items() if value is not None}
