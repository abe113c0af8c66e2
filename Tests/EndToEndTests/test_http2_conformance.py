"""What a server of HTTP/2 must do with each frame that it may get or may not: a table of RFC 9113 and RFC 7541.

A case sends frames by hand inside an intercepted tunnel, and says what may come of them. Sections are those of
RFC 7540, as conformance suites number them; "generic" are frames that must be taken. Where RFC 9113 asks for less, a
comment says so.
"""

import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import hpack
import pytest
from hpack.hpack import encode_integer
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame

from journal import DEADLINE_SECONDS
from tls_world import client_context
from tls_world import authority, intercepting, secure_client, secure_proxy, tls_origin, world  # noqa: F401

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CONTENT = b"0123456789"

# RFC 9113, 6: types of frames, flags, and settings.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
UNKNOWN = 0x16
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20
WHOLE = END_STREAM | END_HEADERS
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS = 1, 2, 3
INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 4, 5, 6
# 7: codes of errors.
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0x0, 0x1, 0x3, 0x5, 0x6
REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = 0x7, 0x8, 0x9
LARGEST_WINDOW = (1 << 31) - 1


# Frames


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def data(stream: int, content: bytes = b"test", flags: int = END_STREAM) -> bytes:
    return frame(DATA, stream, content, flags)


def headers(stream: int, block: bytes, flags: int = WHOLE) -> bytes:
    return frame(HEADERS, stream, block, flags)


def continuation(stream: int, block: bytes, flags: int = END_HEADERS) -> bytes:
    return frame(CONTINUATION, stream, block, flags)


def dependence(on: int = 0, weight: int = 256, exclusive: bool = False) -> bytes:
    return struct.pack("!IB", exclusive << 31 | on, weight - 1)


def priority(stream: int, **what) -> bytes:
    return frame(PRIORITY, stream, dependence(**what))


def reset(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, stream, struct.pack("!I", code))


def settings(*values: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, b"".join(struct.pack("!HI", *value) for value in values))


def ping(payload: bytes = b"question", stream: int = 0, flags: int = 0) -> bytes:
    return frame(PING, stream, payload, flags)


def goaway(code: int, more: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, struct.pack("!II", 0, code) + more)


def window(stream: int, more: int) -> bytes:
    return frame(WINDOW_UPDATE, stream, struct.pack("!I", more))


# Field sections (RFC 7541), as the library would not write them


def number(value: int, prefix: int, pattern: int) -> bytes:
    encoded = encode_integer(value, prefix)
    encoded[0] |= pattern
    return bytes(encoded)


def huffman(symbols, padding: str = "1") -> bytes:
    bits = "".join(f"{REQUEST_CODES[symbol]:0{REQUEST_CODES_LENGTH[symbol]}b}" for symbol in symbols)
    bits += padding * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8)


def string(value: bytes, is_huffman: bool = False) -> bytes:
    """`value` is encoded already."""
    return number(len(value), 7, 0x80 if is_huffman else 0) + value


def literal(kind: tuple[int, int], name: int | bytes, value: bytes, is_huffman: bool = False) -> bytes:
    """`kind`: prefix and pattern; `name`: an index or a name."""
    code = huffman if is_huffman else bytes
    named = number(name, *kind) if isinstance(name, int) else number(0, *kind) + string(code(name), is_huffman)
    return named + string(code(value), is_huffman)


INDEXING, WITHOUT_INDEXING, NEVER_INDEXED = (6, 0x40), (4, 0x00), (4, 0x10)
USER_AGENT = 58  # its index in the static table, with an empty value
END_OF_STRING = 256


def indexed(index: int) -> bytes:
    return number(index, 7, 0x80)


def table_size(size: int) -> bytes:
    return number(size, 5, 0x20)


def x_test(encoded_value: bytes) -> bytes:
    return number(0, *WITHOUT_INDEXING) + string(b"x-test") + string(encoded_value, is_huffman=True)


# The connection


class RawConnection:
    """A client whose every byte is in the hands of the case."""

    def __init__(self, secure, authority: str):
        self.secure = secure
        self.authority = authority
        self.encoder, self.decoder = hpack.Encoder(), hpack.Decoder()
        self.settings: dict[int, int] = {}
        self.received = bytearray()
        self.came: list[str] = []
        self.ended: str | None = None  # "closed" | "reset" | "silent"

    def send(self, frames: bytes) -> None:
        """A server that has closed already is no error here: what it said before decides."""
        try:
            self.secure.sendall(frames)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def frames(self) -> Iterator[Frame]:
        """Frames as they come, until the connection ends or nothing more comes."""
        while not self.ended:
            if len(self.received) >= 9:
                found, length = Frame.parse_frame_header(memoryview(self.received)[:9])
                if len(self.received) >= 9 + length:
                    found.parse_body(memoryview(bytes(self.received[9 : 9 + length])))
                    del self.received[: 9 + length]
                    self.came.append(repr(found))
                    yield found
                    continue
            self.receive()

    def receive(self) -> None:
        try:
            more = self.secure.recv(1 << 16)
            self.ended = None if more else "closed"
            self.received += more
        except TimeoutError:
            self.ended = "silent"
        except ConnectionResetError:
            self.ended = "reset"
        if self.ended:
            self.came.append(self.ended)

    def require(self, holds: bool) -> None:
        assert holds, "what came:\n  " + "\n  ".join(self.came)

    def wait_for(self, condition) -> Frame:
        """The first such frame; none of them may be an error."""
        for found in self.frames():
            if condition(found):
                return found
            self.require(error_of(found) in (None, NO_ERROR))
        self.require(False)

    def begin(self) -> None:
        """Both sides know the other's settings, so that nothing of it is among what comes later."""
        self.send(PREFACE + settings((INITIAL_WINDOW_SIZE, 65535)))
        awaited = {0, ACK}
        while awaited:
            found = self.wait_for(lambda found: isinstance(found, SettingsFrame))
            awaited.discard(ACK if "ACK" in found.flags else 0)
            self.settings |= found.settings
        self.send(frame(SETTINGS, 0, flags=ACK))

    # Requests

    def head(self, method: str = "GET", without: str = "", **instead: str) -> list[tuple[str, str]]:
        """The pseudo-header fields, less one of them or with another value."""
        fields = {"method": method, "scheme": "https", "path": "/", "authority": self.authority} | instead
        return [(f":{name}", value) for name, value in fields.items() if name != without]

    def block(self, *more: tuple[str, str], **instead: str) -> bytes:
        return self.encoder.encode([*self.head(**instead), *more])

    def fields(self, *fields: tuple[str, str]) -> bytes:
        return self.encoder.encode(fields)

    def get(self, stream: int, *more: tuple[str, str], flags: int = WHOLE, **instead: str) -> bytes:
        return headers(stream, self.block(*more, **instead), flags)

    def post(self, stream: int, *more: tuple[str, str], flags: int = END_HEADERS) -> bytes:
        return self.get(stream, *more, flags=flags, method="POST")

    @property
    def dummy(self) -> bytes:
        return self.fields(("x-dummy", "x" * 4000))

    @property
    def frame_size(self) -> int:
        return self.settings.get(MAX_FRAME_SIZE, 1 << 14)

    def too_long_block(self) -> bytes:
        """A field section that is one byte longer than a frame may be, and faultless otherwise."""
        block = self.block()
        filler = literal(WITHOUT_INDEXING, b"x-long", b"x" * 1000)
        filler *= (self.frame_size + 1 - len(block)) // len(filler)
        rest = self.frame_size + 1 - len(block) - len(filler)
        last = literal(WITHOUT_INDEXING, b"x-long", b"x" * 200)
        return block + filler + last * (rest // len(last) + 1)


def error_of(found: Frame) -> int | None:
    return found.error_code if isinstance(found, GoAwayFrame | RstStreamFrame) else None


# Waits, which stand among the frames of a case


def until_settings_are_acknowledged(connection: RawConnection) -> None:
    connection.wait_for(lambda found: isinstance(found, SettingsFrame) and "ACK" in found.flags)


def until_content(connection: RawConnection) -> None:
    connection.wait_for(lambda found: isinstance(found, DataFrame))


def until_the_end(connection: RawConnection) -> None:
    """The answer is whole: the stream is closed, for the client has ended its side before."""
    connection.wait_for(lambda found: isinstance(found, DataFrame | HeadersFrame) and "END_STREAM" in found.flags)


# What may come


def connection_error(*codes: int):
    """GOAWAY, or the end: 5.4.1 asks for no more. One that says NO_ERROR is none."""

    def judge(connection: RawConnection) -> None:
        for found in connection.frames():
            if isinstance(found, GoAwayFrame) and found.error_code != NO_ERROR:
                return connection.require(found.error_code in codes)
        connection.require(connection.ended == "closed")

    return judge


def stream_error(*codes: int, stream: int = 1):
    """RST_STREAM; or GOAWAY, for a server may end the connection for an error of a stream (5.4.1)."""

    def judge(connection: RawConnection) -> None:
        for found in connection.frames():
            if error_of(found):
                return connection.require(found.error_code in codes and found.stream_id in (0, stream))
        connection.require(connection.ended == "closed")

    return judge


def too_many_streams(connection: RawConnection) -> None:
    """The last one is refused."""
    last = 1 + 2 * connection.settings[MAX_CONCURRENT_STREAMS]
    stream_error(PROTOCOL_ERROR, REFUSED_STREAM, stream=last)(connection)


def only(kind: type[Frame], code: int):
    """This frame with this code, and nothing instead of it."""

    def judge(connection: RawConnection) -> None:
        found = next((found for found in connection.frames() if error_of(found)), None)
        connection.require(isinstance(found, kind) and found.error_code == code)

    return judge


def closed(connection: RawConnection) -> None:
    for _ in connection.frames():
        pass
    connection.require(connection.ended == "closed")


def answered(connection: RawConnection, stream: int = 1) -> None:
    found = connection.wait_for(lambda found: isinstance(found, HeadersFrame))
    status = dict(connection.decoder.decode(found.data))[":status"]
    connection.require(found.stream_id == stream and status == "200")


def one_byte(connection: RawConnection) -> None:
    """The window has room for no more."""
    found = connection.wait_for(lambda found: isinstance(found, DataFrame))
    connection.require(len(found.data) == 1)


def acknowledged(connection: RawConnection) -> None:
    """The first PING that comes answers ping()."""
    found = connection.wait_for(lambda found: isinstance(found, PingFrame))
    connection.require("ACK" in found.flags and found.opaque_data == b"question")


def acknowledged_or_closed(connection: RawConnection) -> None:
    for found in connection.frames():
        if isinstance(found, PingFrame):
            return connection.require("ACK" in found.flags and found.opaque_data == b"question")
    connection.require(connection.ended == "closed")


def settings_acknowledged(connection: RawConnection) -> None:
    found = connection.wait_for(lambda found: isinstance(found, SettingsFrame))
    connection.require("ACK" in found.flags and not found.settings)


def settings_first(connection: RawConnection) -> None:
    found = next(connection.frames(), None)
    connection.require(isinstance(found, SettingsFrame) and "ACK" not in found.flags)


# The table


@dataclass
class Case:
    name: str
    # Bytes to send and waits.
    steps: Callable[[RawConnection], list]
    judge: Callable[[RawConnection], None]
    # The prefaces have been exchanged before.
    begins: bool = True


def malformed(name: str, *more: tuple[str, str], **head: str) -> Case:
    """A request with a head that 8.1.2 does not allow (RFC 9113, 8.2 and 8.3)."""
    return Case(name, lambda c: [c.get(1, *more, **head)], stream_error(PROTOCOL_ERROR))


def undecodable(name: str, after: bytes = b"", before: bytes = b"") -> Case:
    """RFC 9113, 4.3: what cannot be decoded is an error of the connection."""
    return Case(name, lambda c: [headers(1, before + c.block() + after)], connection_error(COMPRESSION_ERROR))


def decodable(name: str, after: bytes = b"", before: bytes = b"") -> Case:
    return Case(name, lambda c: [headers(1, before + c.block() + after)], answered)


def begun(name: str, judge) -> Case:
    return Case(name, lambda c: [PREFACE + settings((INITIAL_WINDOW_SIZE, 65535))], judge, begins=False)


GENERIC = [
    begun("generic 1 the server's preface comes first", settings_first),
    Case("generic 2 idle: PRIORITY", lambda c: [priority(1), ping()], acknowledged),
    Case(
        "generic 2 half-closed (remote): WINDOW_UPDATE",
        lambda c: [settings((INITIAL_WINDOW_SIZE, 0)), c.get(1), window(1, 1)],
        one_byte,
    ),
    Case(
        "generic 2 half-closed (remote): PRIORITY",
        lambda c: [settings((INITIAL_WINDOW_SIZE, 0)), c.get(1), priority(1), window(1, 1)],
        one_byte,
    ),
    Case("generic 2 half-closed (remote): RST_STREAM", lambda c: [c.get(1), reset(1), ping()], acknowledged),
    Case("generic 2 closed: PRIORITY", lambda c: [c.get(1), until_the_end, priority(1), ping()], acknowledged),
    Case("generic 3.1 DATA", lambda c: [c.post(1), data(1)], answered),
    Case("generic 3.1 several DATA", lambda c: [c.post(1), data(1, flags=0), data(1)], answered),
    Case(
        "generic 3.1 DATA with padding",
        lambda c: [c.post(1), data(1, b"\x06test" + bytes(6), END_STREAM | PADDED)],
        answered,
    ),
    Case("generic 3.2 HEADERS", lambda c: [c.get(1)], answered),
    Case(
        "generic 3.2 HEADERS with padding",
        lambda c: [headers(1, b"\x08" + c.block() + bytes(8), WHOLE | PADDED)],
        answered,
    ),
    Case(
        "generic 3.2 HEADERS with priority",
        lambda c: [headers(1, dependence() + c.block(), WHOLE | PRIORITIZED)],
        answered,
    ),
    Case("generic 3.3 PRIORITY: weight 1", lambda c: [priority(1, weight=1), c.get(1)], answered),
    Case("generic 3.3 PRIORITY: weight 256", lambda c: [priority(1, weight=256), c.get(1)], answered),
    Case("generic 3.3 PRIORITY: dependence", lambda c: [priority(3, on=1, weight=1), c.get(1)], answered),
    Case("generic 3.3 PRIORITY: exclusive", lambda c: [priority(1, weight=1, exclusive=True), c.get(1)], answered),
    Case("generic 3.3 PRIORITY: idle stream, then HEADERS of a lower one", lambda c: [priority(3), c.get(1)], answered),
    Case("generic 3.4 RST_STREAM", lambda c: [c.get(1, flags=END_HEADERS), reset(1), ping()], acknowledged),
    Case(
        "generic 3.5 SETTINGS: all that are defined",
        lambda c: [
            settings(
                (HEADER_TABLE_SIZE, 4096),
                (ENABLE_PUSH, 1),
                (MAX_CONCURRENT_STREAMS, 100),
                (INITIAL_WINDOW_SIZE, 65535),
                (MAX_FRAME_SIZE, 16384),
                (MAX_HEADER_LIST_SIZE, 100),
            )
        ],
        settings_acknowledged,
    ),
    Case("generic 3.7 PING", lambda c: [ping()], acknowledged),
    Case("generic 3.8 GOAWAY", lambda c: [goaway(NO_ERROR, b"bye"), ping()], acknowledged_or_closed),
    Case("generic 3.9 WINDOW_UPDATE: connection", lambda c: [window(0, 1), ping()], acknowledged),
    Case("generic 3.9 WINDOW_UPDATE: stream", lambda c: [c.get(1), window(1, 1)], answered),
    Case(
        "generic 3.10 CONTINUATION",
        lambda c: [headers(1, (block := c.block())[:5], END_STREAM), continuation(1, block[5:])],
        answered,
    ),
    Case(
        "generic 3.10 several CONTINUATION",
        lambda c: [
            headers(1, (block := c.block())[:5], END_STREAM),
            continuation(1, block[5:10], 0),
            continuation(1, block[10:]),
        ],
        answered,
    ),
    Case("generic 4 GET", lambda c: [c.get(1)], answered),
    Case("generic 4 HEAD", lambda c: [c.get(1, method="HEAD")], answered),
    Case("generic 4 POST", lambda c: [c.post(1), data(1)], answered),
    Case(
        "generic 4 POST with trailers",
        lambda c: [c.post(1, ("trailer", "x-test")), data(1, flags=0), headers(1, c.fields(("x-test", "ok")))],
        answered,
    ),
    decodable("generic 5 indexed field", after=indexed(USER_AGENT)),
    *[
        decodable(f"generic 5 literal {said} indexed, {novelty} name{coded}", literal(kind, name, b"ok", is_huffman))
        for kind, said in [(INDEXING, "that is"), (WITHOUT_INDEXING, "that is not"), (NEVER_INDEXED, "never")]
        for name, novelty in [(USER_AGENT, "known"), (b"x-test", "new")]
        for is_huffman, coded in [(False, ""), (True, " (Huffman)")]
    ],
    decodable("generic 5 size of the table: 128", before=table_size(128)),
    decodable("generic 5 size of the table: 0, then 4096", before=table_size(0) + table_size(4096)),
]

CONNECTION = [
    begun("3.5 the server's preface comes first", settings_first),
    Case("3.5 an invalid preface", lambda c: [b"INVALID CONNECTION PREFACE\r\n\r\n"], closed, begins=False),
    Case("4.1 unknown type", lambda c: [frame(UNKNOWN, 0, bytes(8)), ping()], acknowledged),
    Case("4.1 undefined flags", lambda c: [ping(flags=0x16)], acknowledged),
    Case("4.1 reserved bit", lambda c: [ping(stream=1 << 31, flags=0x16)], acknowledged),
    Case("4.2 DATA of the largest size", lambda c: [c.post(1), data(1, bytes(c.frame_size))], answered),
    Case(
        "4.2 DATA larger than allowed",
        lambda c: [c.post(1), data(1, bytes(c.frame_size + 1))],
        stream_error(FRAME_SIZE_ERROR),
    ),
    Case(
        "4.2 HEADERS larger than allowed",
        lambda c: [headers(1, c.too_long_block())],
        connection_error(FRAME_SIZE_ERROR),
    ),
    Case("4.3 half a field", lambda c: [headers(1, b"\x40")], connection_error(COMPRESSION_ERROR)),
    Case(
        "4.3 PRIORITY within a field section",
        lambda c: [c.get(1, flags=0), priority(1), continuation(1, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case(
        "4.3 HEADERS of another stream within a field section",
        lambda c: [c.get(1, flags=0), c.get(3), continuation(1, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
]

STREAMS = [
    Case("5.1 idle: DATA", lambda c: [data(1)], connection_error(PROTOCOL_ERROR)),
    Case("5.1 idle: RST_STREAM", lambda c: [reset(1)], connection_error(PROTOCOL_ERROR)),
    Case("5.1 idle: WINDOW_UPDATE", lambda c: [window(1, 100)], connection_error(PROTOCOL_ERROR)),
    Case("5.1 idle: CONTINUATION", lambda c: [continuation(1, c.block())], connection_error(PROTOCOL_ERROR)),
    Case("5.1 half-closed (remote): DATA", lambda c: [c.get(1), data(1)], stream_error(STREAM_CLOSED)),
    Case("5.1 half-closed (remote): HEADERS", lambda c: [c.get(1), c.get(1)], stream_error(STREAM_CLOSED)),
    Case(
        "5.1 half-closed (remote): CONTINUATION",
        lambda c: [c.get(1), continuation(1, c.block())],
        stream_error(STREAM_CLOSED, PROTOCOL_ERROR),
    ),
    # RFC 9113 lets a server pass over what comes behind a RST_STREAM; RFC 7540 does not.
    Case(
        "5.1 closed by RST_STREAM: DATA",
        lambda c: [c.get(1, flags=END_HEADERS), reset(1), data(1)],
        stream_error(STREAM_CLOSED),
    ),
    Case(
        "5.1 closed by RST_STREAM: HEADERS",
        lambda c: [c.get(1, flags=END_HEADERS), reset(1), c.get(1)],
        stream_error(STREAM_CLOSED),
    ),
    Case(
        "5.1 closed by RST_STREAM: CONTINUATION",
        lambda c: [c.get(1, flags=END_HEADERS), reset(1), continuation(1, c.dummy)],
        stream_error(STREAM_CLOSED, PROTOCOL_ERROR),
    ),
    Case("5.1 closed: DATA", lambda c: [c.get(1), until_the_end, data(1)], stream_error(STREAM_CLOSED)),
    Case("5.1 closed: HEADERS", lambda c: [c.get(1), until_the_end, c.get(1)], connection_error(STREAM_CLOSED)),
    Case(
        "5.1 closed: CONTINUATION",
        lambda c: [c.get(1), until_the_end, continuation(1, c.dummy)],
        connection_error(STREAM_CLOSED, PROTOCOL_ERROR),
    ),
    Case("5.1.1 an even number", lambda c: [c.get(2)], connection_error(PROTOCOL_ERROR)),
    Case("5.1.1 a lower number", lambda c: [c.get(5), c.get(3)], connection_error(PROTOCOL_ERROR)),
    Case("5.1.1 the same number", lambda c: [c.get(5), c.get(5)], stream_error(STREAM_CLOSED, stream=5)),
    Case(
        "5.1.2 more streams than allowed",
        lambda c: [
            settings((INITIAL_WINDOW_SIZE, 0)),
            *[c.get(1 + 2 * index) for index in range(c.settings[MAX_CONCURRENT_STREAMS] + 1)],
        ],
        too_many_streams,
    ),
    # RFC 9113, 5.3.2, has given priorities up, and this rule with them.
    Case(
        "5.3.1 HEADERS: a stream depends on itself",
        lambda c: [headers(1, dependence(on=1) + c.block(), WHOLE | PRIORITIZED)],
        stream_error(PROTOCOL_ERROR),
    ),
    Case("5.3.1 PRIORITY: a stream depends on itself", lambda c: [priority(1, on=1)], stream_error(PROTOCOL_ERROR)),
    Case("5.4.1 the connection is closed after an error", lambda c: [ping(stream=3)], closed),
    Case("5.4.1 GOAWAY tells of the error", lambda c: [ping(stream=3)], only(GoAwayFrame, PROTOCOL_ERROR)),
    Case("5.5 an extension", lambda c: [frame(UNKNOWN, 0, bytes(8)), ping()], acknowledged),
    Case(
        "5.5 an extension within a field section",
        lambda c: [c.get(1, flags=END_STREAM), frame(UNKNOWN, 0, bytes(8))],
        connection_error(PROTOCOL_ERROR),
    ),
]

FRAMES = [
    Case("6.1 DATA: stream 0", lambda c: [data(0)], connection_error(PROTOCOL_ERROR)),
    Case("6.1 DATA: stream not open", lambda c: [c.post(1, flags=WHOLE), data(1)], stream_error(STREAM_CLOSED)),
    Case(
        "6.1 DATA: more padding than there is",
        lambda c: [c.post(1, ("content-length", "4")), data(1, b"\x06test", END_STREAM | PADDED)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case(
        "6.2 HEADERS without END_HEADERS, then PRIORITY",
        lambda c: [c.get(1, flags=0), priority(1), continuation(1, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case(
        "6.2 HEADERS without END_HEADERS, then HEADERS of another stream",
        lambda c: [c.get(1, flags=0), c.get(3), continuation(1, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case("6.2 HEADERS: stream 0", lambda c: [c.get(0)], connection_error(PROTOCOL_ERROR)),
    Case(
        "6.2 HEADERS: more padding than there is",
        lambda c: [headers(1, bytes([len(block := c.block()) + 1]) + block, WHOLE | PADDED)],
        stream_error(PROTOCOL_ERROR),
    ),
    Case("6.3 PRIORITY: stream 0", lambda c: [priority(0)], connection_error(PROTOCOL_ERROR)),
    Case(
        "6.3 PRIORITY: length of 4",
        lambda c: [c.get(1), frame(PRIORITY, 1, b"\x80\0\0\x01")],
        stream_error(FRAME_SIZE_ERROR),
    ),
    Case("6.3 PRIORITY: idle stream, then HEADERS of a lower one", lambda c: [priority(3), c.get(1)], answered),
    Case("6.4 RST_STREAM: stream 0", lambda c: [reset(0)], connection_error(PROTOCOL_ERROR)),
    Case("6.4 RST_STREAM: idle stream", lambda c: [reset(1)], connection_error(PROTOCOL_ERROR)),
    Case(
        "6.4 RST_STREAM: length of 3",
        lambda c: [c.get(1), frame(RST_STREAM, 1, bytes(3))],
        connection_error(FRAME_SIZE_ERROR),
    ),
    Case(
        "6.5 SETTINGS: ACK with payload", lambda c: [frame(SETTINGS, 0, b"\0", ACK)], connection_error(FRAME_SIZE_ERROR)
    ),
    Case(
        "6.5 SETTINGS: stream 1", lambda c: [frame(SETTINGS, 1, b"\0\x03\0\0\0\x64")], connection_error(PROTOCOL_ERROR)
    ),
    Case("6.5 SETTINGS: length of 3", lambda c: [frame(SETTINGS, 0, b"\0\x03\0")], connection_error(FRAME_SIZE_ERROR)),
    *[
        Case(f"6.5.2 {said}", lambda c, value=value: [settings(value)], connection_error(code))
        for said, value, code in [
            ("ENABLE_PUSH: 2", (ENABLE_PUSH, 2), PROTOCOL_ERROR),
            ("INITIAL_WINDOW_SIZE: 2^31", (INITIAL_WINDOW_SIZE, 1 << 31), FLOW_CONTROL_ERROR),
            ("MAX_FRAME_SIZE: 2^14 - 1", (MAX_FRAME_SIZE, (1 << 14) - 1), PROTOCOL_ERROR),
            ("MAX_FRAME_SIZE: 2^24", (MAX_FRAME_SIZE, 1 << 24), PROTOCOL_ERROR),
        ]
    ],
    Case("6.5.2 an unknown setting", lambda c: [settings((0xFF, 1)), ping()], acknowledged),
    Case(
        "6.5.3 one setting twice: in order",
        lambda c: [
            settings((INITIAL_WINDOW_SIZE, 100), (INITIAL_WINDOW_SIZE, 1)),
            until_settings_are_acknowledged,
            c.get(1),
        ],
        one_byte,
    ),
    Case("6.5.3 ACK", lambda c: [settings((ENABLE_PUSH, 0))], settings_acknowledged),
    Case("6.7 PING", lambda c: [ping()], acknowledged),
    Case("6.7 PING: ACK is not answered", lambda c: [ping(b"answered", flags=ACK), ping()], acknowledged),
    Case("6.7 PING: stream 1", lambda c: [ping(stream=1)], connection_error(PROTOCOL_ERROR)),
    Case("6.7 PING: length of 6", lambda c: [ping(bytes(6))], connection_error(FRAME_SIZE_ERROR)),
    Case("6.8 GOAWAY: stream 1", lambda c: [frame(GOAWAY, 1, bytes(8))], connection_error(PROTOCOL_ERROR)),
    Case("6.9 WINDOW_UPDATE: 0, connection", lambda c: [window(0, 0)], connection_error(PROTOCOL_ERROR)),
    Case(
        "6.9 WINDOW_UPDATE: 0, stream",
        lambda c: [c.get(1, flags=END_HEADERS), window(1, 0)],
        stream_error(PROTOCOL_ERROR),
    ),
    Case(
        "6.9 WINDOW_UPDATE: length of 3",
        lambda c: [frame(WINDOW_UPDATE, 0, b"\0\0\x01")],
        connection_error(FRAME_SIZE_ERROR),
    ),
    Case(
        "6.9.1 a window of one byte",
        lambda c: [settings((INITIAL_WINDOW_SIZE, 1)), until_settings_are_acknowledged, c.get(1)],
        one_byte,
    ),
    Case(
        "6.9.1 more than the largest window, connection",
        lambda c: [window(0, LARGEST_WINDOW)] * 2,
        only(GoAwayFrame, FLOW_CONTROL_ERROR),
    ),
    Case(
        "6.9.1 more than the largest window, stream",
        lambda c: [c.get(1, flags=END_HEADERS), *[window(1, LARGEST_WINDOW)] * 2],
        only(RstStreamFrame, FLOW_CONTROL_ERROR),
    ),
    Case(
        "6.9.2 a change holds for open streams",
        lambda c: [
            settings((INITIAL_WINDOW_SIZE, 0)),
            until_settings_are_acknowledged,
            c.get(1),
            settings((INITIAL_WINDOW_SIZE, 1)),
        ],
        one_byte,
    ),
    Case(
        "6.9.2 a window below 0",
        lambda c: [
            settings((INITIAL_WINDOW_SIZE, 3)),
            until_settings_are_acknowledged,
            c.get(1),
            until_content,
            settings((INITIAL_WINDOW_SIZE, 2)),
            until_settings_are_acknowledged,
            window(1, 2),
        ],
        one_byte,
    ),
    Case(
        "6.9.2 a setting above the largest window",
        lambda c: [settings((INITIAL_WINDOW_SIZE, LARGEST_WINDOW + 1))],
        connection_error(FLOW_CONTROL_ERROR),
    ),
    Case(
        "6.10 several CONTINUATION",
        lambda c: [c.get(1, flags=END_STREAM), continuation(1, c.dummy, 0), continuation(1, c.dummy)],
        answered,
    ),
    Case(
        "6.10 CONTINUATION, then DATA",
        lambda c: [c.post(1, flags=0), continuation(1, c.dummy, 0), data(1)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case(
        "6.10 CONTINUATION: stream 0",
        lambda c: [c.get(1, flags=END_STREAM), continuation(0, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case(
        "6.10 CONTINUATION behind HEADERS with END_HEADERS",
        lambda c: [c.get(1), continuation(1, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case(
        "6.10 CONTINUATION behind CONTINUATION with END_HEADERS",
        lambda c: [c.get(1, flags=END_STREAM), continuation(1, c.dummy), continuation(1, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case(
        "6.10 CONTINUATION behind DATA",
        lambda c: [c.post(1, flags=0), data(1), continuation(1, c.dummy, 0), continuation(0, c.dummy)],
        connection_error(PROTOCOL_ERROR),
    ),
    Case("7 GOAWAY with an unknown code", lambda c: [goaway(0xFF), ping()], acknowledged_or_closed),
    Case("7 RST_STREAM with an unknown code", lambda c: [c.post(1), reset(1, 0xFF), ping()], acknowledged),
]

MESSAGES = [
    Case(
        "8.1 a second HEADERS without END_STREAM",
        lambda c: [c.post(1), data(1, flags=0), headers(1, c.fields(("x-test", "ok")), END_HEADERS)],
        stream_error(PROTOCOL_ERROR),
    ),
    malformed("8.1.2 a name in uppercase", ("X-TEST", "ok")),
    malformed("8.1.2.1 an unknown pseudo-header field", (":test", "ok")),
    malformed("8.1.2.1 a pseudo-header field of answers", (":status", "200")),
    *[
        Case(
            f"8.1.2.1 a pseudo-header field in trailers, {said}",
            lambda c, flags=flags: [c.post(1), data(1, flags=0), headers(1, c.fields((":method", "POST")), flags)],
            stream_error(PROTOCOL_ERROR),
        )
        for said, flags in [("with END_STREAM", WHOLE), ("without END_STREAM", END_HEADERS)]
    ],
    Case(
        "8.1.2.1 pseudo-header fields behind another",
        lambda c: [headers(1, c.fields(("x-test", "ok"), *c.head()))],
        stream_error(PROTOCOL_ERROR),
    ),
    malformed("8.1.2.2 Connection", ("connection", "keep-alive")),
    malformed("8.1.2.2 TE: other than trailers", ("trailers", "test"), ("te", "trailers, deflate")),
    malformed("8.1.2.3 an empty :path", path=""),
    *[malformed(f"8.1.2.3 without :{name}", without=name) for name in ("method", "scheme", "path")],
    Case(
        "8.1.2.3 without :method and :scheme",
        lambda c: [headers(1, c.fields((":path", "/"), (":authority", c.authority)))],
        stream_error(PROTOCOL_ERROR),
    ),
    malformed("8.1.2.3 :method twice", (":method", "GET")),
    malformed("8.1.2.3 :scheme twice", (":scheme", "https")),
    malformed("8.1.2.3 :path twice", (":path", "/")),
    Case(
        "8.1.2.6 content-length is not that of DATA",
        lambda c: [c.post(1, ("content-length", "1")), data(1)],
        stream_error(PROTOCOL_ERROR),
    ),
    Case(
        "8.1.2.6 content-length is not that of several DATA",
        lambda c: [c.post(1, ("content-length", "1")), data(1, flags=0), data(1)],
        stream_error(PROTOCOL_ERROR),
    ),
    Case(
        "8.2 PUSH_PROMISE",
        lambda c: [frame(PUSH_PROMISE, 1, struct.pack("!I", 3) + c.block(), END_HEADERS)],
        connection_error(PROTOCOL_ERROR),
    ),
]

COMPRESSION = [
    undecodable("hpack 2.3.3 an indexed field beyond both tables", after=indexed(70)),
    undecodable("hpack 2.3.3 a literal with a name beyond both tables", after=literal(INDEXING, 70, b"")),
    undecodable("hpack 4.2 a size of the table at the end of the section", after=table_size(1)),
    undecodable("hpack 5.2 Huffman: padding of more than 7 bits", after=x_test(huffman(b"test") + b"\xff")),
    undecodable("hpack 5.2 Huffman: padding of zeros", after=x_test(huffman(b"test", "0"))),
    undecodable("hpack 5.2 Huffman: the end within the string", after=x_test(huffman([*b"te", END_OF_STRING, *b"st"]))),
    undecodable("hpack 6.1 index 0", after=indexed(0)),
    Case(
        "hpack 6.3 a size of the table above the setting",
        lambda c: [headers(1, table_size(c.settings.get(HEADER_TABLE_SIZE, 4096) + 1) + c.block())],
        connection_error(COMPRESSION_ERROR),
    ),
]

CASES = [*GENERIC, *CONNECTION, *STREAMS, *FRAMES, *MESSAGES, *COMPRESSION]


def serve(connection) -> None:
    """An origin of HTTP/1.1."""
    while True:
        request = connection.read_request()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(CONTENT)
        connection.send(head if request.method == b"HEAD" else head + CONTENT)


@pytest.fixture
def raw_connection(intercepting, secure_client, authority, tls_origin, world) -> RawConnection:
    """In a tunnel that agreed on HTTP/2; nothing has been said."""
    origin = tls_origin(serve, world.context(world.leaf("a.test")))
    client = secure_client(intercepting())
    assert client.tunnel("a.test", origin.port).status == 200
    context = client_context(authority.file)
    context.set_alpn_protocols(["h2"])
    client.shake_hands(context, "a.test")
    assert client.secure.secured.selected_alpn_protocol() == "h2"
    client.secure.settimeout(DEADLINE_SECONDS)
    return RawConnection(client.secure, f"a.test:{origin.port}")


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_conformance(case, at_once, raw_connection):
    """Frames leave in one write, which no answer can overtake, and each in its own, as suites send them."""
    if case.begins:
        raw_connection.begin()
    for is_frame, steps in itertools.groupby(case.steps(raw_connection), lambda step: isinstance(step, bytes)):
        steps = list(steps)
        for step in [b"".join(steps)] if is_frame and at_once else steps:
            raw_connection.send(step) if is_frame else step(raw_connection)
    case.judge(raw_connection)
