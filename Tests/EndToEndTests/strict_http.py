"""A strict checker of HTTP/1.1 byte streams, written from RFC 9112 and RFC 9110 §5 and from nothing else.

It answers one question about every byte that left the proxy: is this stream exactly one valid message after another?
A last message that is cut short is allowed and reported (`Stream.ended`), for connections do break; anything else that
the grammar does not allow is a `Violation`, with the offset of the byte at fault. It repairs nothing and skips nothing.

    check_requests(received)                  what an origin received
    check_responses(received, asked)          what a client received; `asked` are the requests that it had sent
    check_forwarded_request(request)          what a proxy owes beyond the grammar: origin-form, Via, no hop-by-hop field
    read_request / read_response              the same grammar for one message, for origins and clients in the tests

It shares no code and no table with the proxy. Its one leniency is written at TARGET_BYTE. Tests: test_strict_http.py.
"""

import re
from dataclasses import dataclass, field

TOKEN_BYTE = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
TOKEN = re.compile(rb"%s+" % TOKEN_BYTE)
# RFC 9110 §5.5: visible bytes and obs-text, with SP and HTAB inside but not at either end.
FIELD_VALUE = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
REASON = re.compile(rb"[\t \x21-\x7e\x80-\xff]*")
# RFC 3986 allows fewer: browsers leave [ ] | \ ^ ` { } and a lone % as they are (WHATWG URL), and no byte of these can
# move a delimiter of HTTP. What can never stand in a target: SP, control bytes, bytes above 0x7e, # and " < >.
TARGET_BYTE = rb"[!$-;=?-~]"
ORIGIN_FORM = re.compile(rb"/%s*" % TARGET_BYTE)
REG_NAME = rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
HOST = rb"(?:\[[0-9A-Fa-f:.]+\]|%s+)" % REG_NAME
HOST_AND_PORT = re.compile(rb"%s(?::[0-9]{0,5})?" % HOST)
AUTHORITY_FORM = re.compile(rb"%s:[0-9]{1,5}" % HOST)
ABSOLUTE_FORM = re.compile(
    rb"[A-Za-z][A-Za-z0-9+.\-]*://%s(?::[0-9]{0,5})?(?:[/?]%s*)?" % (HOST, TARGET_BYTE)
)
QUOTED_STRING = rb'"(?:[\t !\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"'
CHUNK_LINE = re.compile(
    rb"(?P<size>[0-9A-Fa-f]+)(?:;%s+(?:=(?:%s+|%s))?)*" % (TOKEN_BYTE, TOKEN_BYTE, QUOTED_STRING)
)
# What a line that is cut short may hold: no excuse for bytes that no longer line could have begun with.
CUT_SHORT = {
    "request line": re.compile(
        rb"(?:%s+(?: (?:[!-~]+(?: (?:H(?:T(?:T(?:P(?:/(?:1(?:\.[01]?)?)?)?)?)?)?)?)?)?)?)?" % TOKEN_BYTE
    ),
    "status line": re.compile(
        rb"(?:H(?:T(?:T(?:P(?:/(?:1(?:\.(?:[01](?: [0-9]{0,3}| [0-9]{3} [\t -~\x80-\xff]*)?)?)?)?)?)?)?)?)?"
    ),
    "head": re.compile(rb"(?:%s+(?::[\t -~\x80-\xff]*)?)?" % TOKEN_BYTE),
    "trailer section": re.compile(rb"(?:%s+(?::[\t -~\x80-\xff]*)?)?" % TOKEN_BYTE),
    "chunk size": re.compile(rb"(?:[0-9A-Fa-f]+(?:;[\t -~\x80-\xff]*)?)?"),
}
CHUNK_SIZE_MAXIMUM = 2**63 - 1
CONTENT_LENGTH_MAXIMUM = 2**63 - 1
# RFC 9110 §6.5.1: what a trailer may never carry, for it would change framing, routing or authentication afterwards.
FORBIDDEN_IN_TRAILERS = {
    b"authorization",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"host",
    b"keep-alive",
    b"max-forwards",
    b"proxy-authorization",
    b"proxy-connection",
    b"set-cookie",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"via",
}
# RFC 9110 §7.6.1: fields of one hop. Connection, TE and Upgrade may be sent by a proxy on its own behalf.
NEVER_FORWARDED = {b"proxy-connection", b"keep-alive", b"proxy-authorization", b"proxy-authenticate"}
OWN_CONNECTION_OPTIONS = {b"close", b"keep-alive", b"te", b"upgrade"}


class Violation(Exception):
    """The stream is not HTTP/1.1: what the grammar wanted, and the bytes it met instead."""

    def __init__(self, offset: int, what: str, seen: bytes):
        super().__init__(f"byte {offset}: {what}: {bytes(seen[:120])!r}")
        self.offset = offset


class Incomplete(Exception):
    """The bytes end inside a message, which is valid as far as it goes."""

    def __init__(self, where: str):
        super().__init__(f"ends inside the {where}")
        self.where = where


@dataclass
class Message:
    """One request or response. `method`/`target` are None in a response, `status`/`reason` in a request."""

    version: bytes
    fields: list[tuple[bytes, bytes]]
    method: bytes | None = None
    target: bytes | None = None
    status: int | None = None
    reason: bytes | None = None
    framing: str = "none"  # "none" | "length" | "chunked" | "close" | "tunnel"
    body: bytes = b""
    chunk_sizes: list[int] = field(default_factory=list)
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def values(self, name: str) -> list[bytes]:
        """Every value of a field, in order; names are compared without case."""
        wanted = name.lower().encode()
        return [value for key, value in self.fields if key.lower() == wanted]

    def value(self, name: str) -> bytes | None:
        """The value of a field that must not come twice; None when it is absent."""
        values = self.values(name)
        assert len(values) < 2, f"{name} came {len(values)} times: {values}"
        return values[0] if values else None

    def options(self, name: str) -> list[bytes]:
        """The members of a comma-separated list, in lower case."""
        members = b",".join(self.values(name)).split(b",")
        return [member.strip(b" \t").lower() for member in members if member.strip(b" \t")]


@dataclass
class Stream:
    """A stream that held no violation. `ended` says where the last byte left it."""

    messages: list[Message]
    ended: str  # "between messages" | "in the head" | "in the body" | "tunnel"
    rest: bytes = b""  # of the message that was cut short, or what flowed through the tunnel


# One line, one section of fields


def read_line(data: bytes, at: int, where: str) -> tuple[bytes, int]:
    """The line that starts at `at`, and the offset behind its CRLF. CR and LF stand nowhere but at its end."""
    line_feed = data.find(b"\n", at)
    carriage_return = data.find(b"\r", at, line_feed if line_feed >= 0 else len(data))
    if carriage_return < 0:
        if line_feed >= 0:
            raise Violation(line_feed, f"bare LF in the {where}", data[at : line_feed + 1])
        raise cut_short(data, at, len(data), where)
    if carriage_return + 1 == len(data):
        raise cut_short(data, at, carriage_return, where)
    if data[carriage_return + 1 : carriage_return + 2] != b"\n":
        raise Violation(carriage_return, f"bare CR in the {where}", data[at : carriage_return + 2])
    return data[at:carriage_return], carriage_return + 2


def cut_short(data: bytes, at: int, end: int, where: str) -> Exception:
    if CUT_SHORT[where].fullmatch(data[at:end]):
        return Incomplete(where)
    return Violation(at, f"no {where} begins so", data[at:end])


def read_fields(data: bytes, at: int, where: str) -> tuple[list[tuple[bytes, bytes]], int]:
    """Field lines up to and with the empty line."""
    fields = []
    while True:
        start = at
        line, at = read_line(data, at, where)
        if not line:
            return fields, at
        name, colon, value = line.partition(b":")
        if not TOKEN.fullmatch(name):
            raise Violation(start, "field name is no token", line)
        if not colon:
            raise Violation(start, "field line without a colon", line)
        value = value.strip(b" \t")
        if not FIELD_VALUE.fullmatch(value):
            raise Violation(start, "field value holds a byte that it must not", line)
        fields.append((name, value))


# Framing: RFC 9112 §6


def declared_length(message: Message) -> int | None:
    """Content-Length, which must be one decimal number in one field."""
    values = message.values("content-length")
    if not values:
        return None
    if len(values) > 1:
        raise Violation(message.start, "more than one Content-Length", b" | ".join(values))
    if not re.fullmatch(rb"[0-9]+", values[0]) or int(values[0]) > CONTENT_LENGTH_MAXIMUM:
        raise Violation(message.start, "Content-Length is no decimal number", values[0])
    return int(values[0])


def declared_chunked(message: Message) -> bool:
    """Whether the one transfer coding is exactly `chunked`; any other is a violation."""
    values = message.values("transfer-encoding")
    if not values:
        return False
    if len(values) > 1 or values[0].lower() != b"chunked":
        raise Violation(message.start, "Transfer-Encoding is not exactly chunked", b" | ".join(values))
    if message.version != b"HTTP/1.1":
        raise Violation(message.start, "Transfer-Encoding in a message of HTTP/1.0", message.version)
    if message.values("content-length"):
        raise Violation(
            message.start, "Content-Length with Transfer-Encoding", message.value("content-length") or b""
        )
    return True


def read_chunked(message: Message, data: bytes, at: int) -> int:
    """RFC 9112 §7.1: chunks, the last chunk, trailers. The chunks gather in `message.body`."""
    body = bytearray()
    try:
        while True:
            start = at
            line, at = read_line(data, at, "chunk size")
            match = CHUNK_LINE.fullmatch(line)
            if not match:
                raise Violation(start, "chunk line breaks the grammar", line)
            size = int(match["size"], 16)
            if size > CHUNK_SIZE_MAXIMUM:
                raise Violation(start, "chunk size overflows", line)
            if size == 0:
                break
            message.chunk_sizes.append(size)
            body += data[at : at + size]
            if data[at + size : at + size + 2] != b"\r\n"[: max(0, len(data) - at - size)]:
                raise Violation(
                    at + size, "chunk data without CRLF behind it", data[at + size : at + size + 2]
                )
            if at + size + 2 > len(data):
                raise Incomplete("chunk data")
            at += size + 2
        message.trailers, at = read_fields(data, at, "trailer section")
    finally:
        message.body = bytes(body)
    for name, _ in message.trailers:
        if name.lower() in FORBIDDEN_IN_TRAILERS:
            raise Violation(at, "field that must not stand in a trailer", name)
    return at


def read_sized(message: Message, data: bytes, at: int, length: int) -> int:
    message.body = data[at : at + length]
    if at + length > len(data):
        raise Incomplete("sized body")
    return at + length


# One message


def check_host(message: Message) -> None:
    hosts = message.values("host")
    if len(hosts) > 1 or (not hosts and message.version == b"HTTP/1.1"):
        raise Violation(message.start, f"{len(hosts)} Host fields", b" | ".join(hosts))
    if hosts and hosts[0] and not HOST_AND_PORT.fullmatch(hosts[0]):
        raise Violation(message.start, "Host is no host and port", hosts[0])


def check_target(message: Message, at: int) -> None:
    if message.method == b"CONNECT":
        valid = AUTHORITY_FORM.fullmatch(message.target)
    elif message.target == b"*":
        valid = message.method == b"OPTIONS"
    else:
        valid = ORIGIN_FORM.fullmatch(message.target) or ABSOLUTE_FORM.fullmatch(message.target)
    if not valid:
        raise Violation(at, "target has none of the four forms", message.target)


def read_request_head(data: bytes, at: int = 0) -> Message:
    """Request line and fields; `end` is the offset behind the empty line, `framing` says what follows."""
    line, end = read_line(data, at, "request line")
    parts = line.split(b" ")
    if len(parts) != 3 or not TOKEN.fullmatch(parts[0]) or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise Violation(at, "request line is not method SP target SP version", line)
    message = Message(version=parts[2], fields=[], method=parts[0], target=parts[1], start=at)
    check_target(message, at)
    message.fields, message.end = read_fields(data, end, "head")
    check_host(message)
    if declared_chunked(message):
        message.framing = "chunked"
    elif declared_length(message) is not None:
        message.framing = "length"
    return message


def read_request(data: bytes, at: int = 0) -> Message:
    """One whole request."""
    message = read_request_head(data, at)
    return read_body(message, data)


def read_response_head(data: bytes, at: int = 0, asked: Message | None = None) -> Message:
    """Status line and fields of the answer to `asked` (None: as to a GET of HTTP/1.1)."""
    line, end = read_line(data, at, "status line")
    match = re.fullmatch(rb"(HTTP/1\.[01]) ([1-9][0-9][0-9]) (.*)", line, re.DOTALL)
    if not match or not REASON.fullmatch(match[3]):
        raise Violation(at, "status line is not version SP status SP reason", line)
    message = Message(version=match[1], fields=[], status=int(match[2]), reason=match[3], start=at)
    message.fields, message.end = read_fields(data, end, "head")
    message.framing = response_framing(message, asked)
    return message


def response_framing(message: Message, asked: Message | None) -> str:
    """RFC 9112 §6.3, in its order, with what a sender must not write (§6.1, §6.2) refused on the way."""
    method = asked.method if asked else b"GET"
    chunked = declared_chunked(message)
    length = declared_length(message)
    if message.status < 200 or message.status == 204 or (method == b"CONNECT" and message.status < 300):
        if chunked or length is not None:
            raise Violation(
                message.start, f"a {message.status} with a framing field", bytes(str(message.fields), "ascii")
            )
        return "tunnel" if message.status == 101 or method == b"CONNECT" and message.status >= 200 else "none"
    if chunked and asked and asked.version == b"HTTP/1.0":
        raise Violation(message.start, "chunked coding for a client of HTTP/1.0", message.reason)
    if method == b"HEAD" or message.status == 304:
        return "none"
    if chunked:
        return "chunked"
    return "close" if length is None else "length"


def read_response(data: bytes, at: int = 0, asked: Message | None = None, closed: bool = False) -> Message:
    """One whole response. A body that runs until the close is whole only when `closed`."""
    message = read_response_head(data, at, asked)
    if message.framing == "close":
        message.body = data[message.end :]
        message.end = len(data)
        if not closed:
            raise Incomplete("close-delimited body")
        return message
    return read_body(message, data)


def read_body(message: Message, data: bytes) -> Message:
    if message.framing == "chunked":
        message.end = read_chunked(message, data, message.end)
    elif message.framing == "length":
        message.end = read_sized(message, data, message.end, declared_length(message))
    return message


# Whole streams


def check_requests(data: bytes, switched_after: int | None = None) -> Stream:
    """All requests of a connection. `switched_after` requests the origin answered 101 or a CONNECT with 200."""
    messages: list[Message] = []
    at = 0
    while at < len(data):
        if switched_after is not None and len(messages) == switched_after:
            return Stream(messages, "tunnel", data[at:])
        if messages and b"close" in messages[-1].options("connection"):
            raise Violation(at, "bytes after a request that said Connection: close", data[at:])
        try:
            messages.append(read_request(data, at))
        except Incomplete:
            return Stream(messages, place(data, at), data[at:])
        at = messages[-1].end
    return Stream(messages, "between messages")


def check_responses(data: bytes, asked: list[Message | None], closed: bool = True) -> Stream:
    """All responses of a connection. Fewer than were asked for is allowed here, more is not."""
    messages: list[Message] = []
    waiting = list(asked)
    last = False
    at = 0
    while at < len(data):
        if messages and messages[-1].framing == "tunnel":
            return Stream(messages, "tunnel", data[at:])
        if last:
            raise Violation(
                at, "bytes behind the answer of an exchange that said Connection: close", data[at:]
            )
        if not waiting:
            raise Violation(at, "a response that nobody asked for", data[at:])
        try:
            message = read_response(data, at, waiting[0], closed)
        except Incomplete:
            return Stream(messages, place(data, at), data[at:])
        if message.status < 200 and waiting[0] is not None and waiting[0].version == b"HTTP/1.0":
            raise Violation(at, "a 1xx for a client of HTTP/1.0", data[at : message.end])
        if message.status >= 200 or message.status == 101:
            request = waiting.pop(0)
            last = b"close" in message.options("connection") + (
                request.options("connection") if request else []
            )
        messages.append(message)
        at = message.end
    if messages and messages[-1].framing == "tunnel":
        return Stream(messages, "tunnel")
    return Stream(messages, "between messages")


def place(data: bytes, at: int) -> str:
    return "in the body" if b"\r\n\r\n" in data[at:] else "in the head"


EQUAL_LENGTHS = re.compile(
    rb"(?i)(\r\nContent-Length:[ \t]*([0-9]+))(?:\r\nContent-Length:[ \t]*|[ \t]*,[ \t]*)\2(?=\r\n|[ \t,])"
)


def requests_in(data: bytes) -> tuple[list[Message | None], int, int]:
    """What a client asked: its valid requests, then one None for whatever came that is no request; how many of them are
    certainly whole, and where the last of these ends.

    Bytes in a tunnel may add to it, which does no harm: what a tunnel carries back is not looked at. A Content-Length
    that is repeated and agrees is what a recipient may take for one (RFC 9110 §8.6), so it counts as one here.
    """
    sent = data
    while (single := EQUAL_LENGTHS.sub(rb"\1", data)) != data:
        data = single
    messages: list[Message | None] = []
    at = count = end = 0
    try:
        while at < len(data):
            while data[at : at + 2] == b"\r\n":  # RFC 9112 §2.2: empty lines before a request are skipped
                at += 2
            message = read_request_head(data, at)
            messages.append(message)
            at = read_body(message, data).end
            if data is sent:
                count, end = len(messages), at
    except (Incomplete, Violation):
        if not messages or messages[-1].end <= at:  # else it was the body, and its request is counted already
            messages.append(None)
    return messages, count, end


def check_forwarded_request(message: Message, pseudonym: bytes = b"sallyport") -> None:
    """What RFC 9110 §7.6 and the design ask of a request that a forward proxy sends to an origin."""
    if message.target != b"*" and not message.target.startswith(b"/"):
        raise Violation(message.start, "an origin gets origin-form", message.target)
    if message.version != b"HTTP/1.1":
        raise Violation(message.start, "a proxy sends its own version", message.version)
    for name, value in message.fields:
        if name.lower() in NEVER_FORWARDED:
            raise Violation(message.start, "field of the client's hop was forwarded", name + b": " + value)
    for option in message.options("connection"):
        if option not in OWN_CONNECTION_OPTIONS:
            raise Violation(message.start, "Connection option of the client's hop", option)
    if message.options("te") not in ([], [b"trailers"]) or (
        bool(message.options("te")) != (b"te" in message.options("connection"))
    ):
        raise Violation(message.start, "TE must be named by Connection and say trailers", b"")
    last_hop = message.options("via")[-1:]
    if not last_hop or not re.fullmatch(rb"((http/)?1\.[01]|2) %s.*" % re.escape(pseudonym.lower()), last_hop[0]):
        raise Violation(message.start, "Via must end with the proxy", b",".join(last_hop))
