"""A client that sends exactly the bytes a test gives it, and keeps every byte that it gets for the strict checker."""

import socket

import strict_http
from journal import DEADLINE_SECONDS, readable
from strict_http import Incomplete, Message


class Ended(Exception):
    """The proxy closed, or reset, before a whole answer had come."""


class RawClient:
    """One connection to the proxy."""

    def __init__(
        self, address: tuple[str, int], receive_buffer: int | None = None, made: socket.socket | None = None
    ):
        """On a socket of its own, or on one that another has made."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = made or socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(address)
        self.sent = bytearray()
        self.received = bytearray()
        self.read_to = 0  # offset in `received` behind the last message that the test took
        self.answered = 0  # final answers that the test took
        self.forget_what_was_asked()
        self.ended: str | None = None  # "closed" | "reset"
        self.looked_at = True  # False: the test checks the bytes itself

    # Sending

    def send(self, data: bytes) -> None:
        """All at once. A proxy that has closed already is no error here: what it answered decides."""
        self.sent += data
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def send_bytewise(self, data: bytes) -> None:
        """One send a byte, none of them delayed."""
        for offset in range(len(data)):
            self.send(data[offset : offset + 1])

    def half_close(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close with an RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.socket.close()

    # Receiving

    def receive_some(self) -> bool:
        """Wait for more bytes; False once the proxy has ended the connection."""
        if self.ended:
            return False
        try:
            data = self.socket.recv(262144)
        except ConnectionResetError:
            self.ended = "reset"
            return False
        except TimeoutError:
            raise AssertionError(
                f"no byte from the proxy for {DEADLINE_SECONDS} s; so far {bytes(self.received)!r}"
            )
        if not data:
            self.ended = "closed"
            return False
        self.received += data
        return True

    def receive_what_is_there(self) -> bool:
        """Wait for more bytes and take all that have come, so that a large body is parsed a few times only."""
        if not self.receive_some():
            return False
        length = len(self.received)
        while (
            not self.nothing_came() and len(self.received) < length + 4 * 1024 * 1024 and self.receive_some()
        ):
            pass
        return True

    def forget_what_was_asked(self) -> None:
        self.asked_cache: list[Message | None] = []
        self.asked_of = 0  # the length of `sent` that the cache is of
        self.asked_whole = self.asked_to = 0  # how many of the cache are whole, and where the last of them ends

    def asked(self) -> list[Message | None]:
        """The requests among the bytes that were sent. Of a thousand, only the last is read again."""
        if self.asked_of != len(self.sent):
            rest, count, end = strict_http.requests_in(bytes(self.sent[self.asked_to :]))
            self.asked_cache[self.asked_whole :] = rest
            self.asked_of = len(self.sent)
            self.asked_whole += count
            self.asked_to += end
        return self.asked_cache

    def message(self) -> Message:
        """The next answer, a 1xx counts as one."""
        asked = self.asked()
        request = asked[self.answered] if self.answered < len(asked) else None
        while True:
            try:
                closed = self.ended is not None
                message = strict_http.read_response(bytes(self.received[self.read_to :]), 0, request, closed)
                message.start, message.end = self.read_to, self.read_to + message.end
                self.read_to = message.end
                self.answered += message.status >= 200 or message.status == 101
                return message
            except Incomplete as incomplete:
                if not self.receive_what_is_there() and not (
                    self.ended == "closed" and incomplete.where.startswith("close-delimited")
                ):
                    rest = bytes(self.received[self.read_to :])
                    raise Ended(f"{self.ended} while the answer {incomplete}: {rest[:300]!r}") from None

    def answer(self) -> Message:
        """The next final answer."""
        while True:
            message = self.message()
            if message.status >= 200 or message.status == 101:
                return message

    def exchange(self, data: bytes) -> Message:
        self.send(data)
        return self.answer()

    def wait_for_end(self) -> str:
        """Read until the proxy ends the connection: "closed" or "reset"."""
        while self.receive_some():
            pass
        return self.ended

    def receive_exactly(self, count: int) -> bytes:
        """The next bytes of a tunnel."""
        while len(self.received) - self.read_to < count:
            if not self.receive_some():
                raise Ended(f"{self.ended} after {len(self.received) - self.read_to} of {count} bytes")
        data = bytes(self.received[self.read_to : self.read_to + count])
        self.read_to += count
        return data

    def receive_until(self, mark: bytes) -> bytes:
        """The next bytes up to and with this mark, for tests that look into a body on its way."""
        while (at := self.received.find(mark, self.read_to)) < 0:
            if not self.receive_some():
                raise Ended(f"{self.ended} before {mark!r}: {self.unread()!r}")
        return self.receive_exactly(at + len(mark) - self.read_to)

    def nothing_came(self) -> bool:
        """Whether there is no byte and no end to read just now."""
        return not readable(self.socket)

    def unread(self) -> bytes:
        return bytes(self.received[self.read_to :])

    def check(self) -> strict_http.Stream:
        """Every byte that came, under the strict grammar."""
        return strict_http.check_responses(bytes(self.received), self.asked(), closed=self.ended == "closed")
