"""What the tests of the serializers share: the policy, requests and answers with bodies, what is checked behind each.

    policy(request="…", response="…")     one rule "r" for every path but /after, which an earlier rule leaves alone
    post(origin, body, content_type)      a sized request; `chunks(…)` for one in pieces
    answer(body, content_type)            a sized answer; lines, framing and coding as asked for
    serving(answer)                       an origin that gives this answer, and a plain one for /after
    goes_on(client, origin)               the client's connection still carries a request
    rejected(…), annotated(…)             what the client is told of a violation

The encoder below is written from what AFNetworking documents, not from the proxy.
"""

import base64
import gzip
import json
import re
import struct
import subprocess
import urllib.parse
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard

from conftest import need
from journal import DEADLINE_SECONDS
from origins import ClosedByProxy, OriginConnection, unused_port, wait_until_it_listens
from problems import ERROR_TYPES, Problem, check_problem, read_proxy_status
from strict_http import Message

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ONE_WORKER = "workers = 1"
FORM, JSON, PLIST = "application/x-www-form-urlencoded", "application/json", "application/x-plist"
BAD_SERVER_RESPONSE, CANNOT_DECODE = -1011, -1016  # NSURLErrorBadServerResponse, …CannotDecodeContentData
REJECT_ALL = 'on_violation = { status = "reject", content_type = "reject", body = "reject" }'
ANNOTATE_ALL = 'on_violation = { status = "annotate", content_type = "annotate", body = "annotate" }'


# The policy


def toml(value) -> str:
    """A value as TOML writes it in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def policy(request: str = "", response: str = "", conditions: str = "", limits: str = "") -> str:
    """The rule under test, behind one that leaves /after as it is, for the requests that follow."""
    text = f'[proxy.limits]\n{limits}\n[[rule]]\nname = "after"\npaths = ["/after"]\n'
    text += f'[[rule]]\nname = "r"\n{conditions}\n'
    for name, table in (("request", request), ("response", response)):
        if table:
            text += f"[rule.{name}]\n{table}\n"
    return text


def adding(parameters: dict, *lines: str) -> str:
    """A [rule.request] that adds these parameters."""
    return "\n".join([f"parameters = {toml(parameters)}", *lines])


# AFNetworking's query encoding


def escape(text: str) -> str:
    return urllib.parse.quote(text, safe="-._~/?")


def pairs(key: str, value) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [
            pair
            for inner in sorted(value)
            for pair in pairs(f"{key}[{inner}]" if key else inner, value[inner])
        ]
    if isinstance(value, list):
        return [pair for item in value for pair in pairs(f"{key}[]", item)]
    if isinstance(value, bool):
        return [(key, str(int(value)))]
    return [(key, str(value))]


def encoded(parameters: dict) -> bytes:
    return "&".join(f"{escape(key)}={escape(value)}" for key, value in pairs("", parameters)).encode()


# Requests


def request(
    origin, path: str = "/", lines: str = "", method: str = "GET", body: bytes = b"", version: str = "1.1"
) -> bytes:
    """A request in absolute form; `lines` end with CRLF each."""
    authority = origin.authority
    head = f"{method} http://{authority}{path} HTTP/{version}\r\nHost: {authority}\r\n{lines}\r\n"
    return head.encode() + body


def post(
    origin,
    body: bytes | None = None,
    content_type: str | None = None,
    lines: str = "",
    method: str = "POST",
    path: str = "/",
) -> bytes:
    """A request with a sized body; None is a request that has none, and no Content-Length."""
    if content_type is not None:
        lines += f"Content-Type: {content_type}\r\n"
    if body is not None:
        lines += f"Content-Length: {len(body)}\r\n"
    return request(origin, path, lines, method, body or b"")


def chunks(body: bytes, size: int = 7, trailers: bytes = b"") -> bytes:
    """A body in the chunked coding, in pieces of this size."""
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailers + b"\r\n"


def post_chunked(
    origin, body: bytes, content_type: str | None = None, lines: str = "", size: int = 7, path: str = "/"
):
    if content_type is not None:
        lines += f"Content-Type: {content_type}\r\n"
    lines += "Transfer-Encoding: chunked\r\n"
    return request(origin, path, lines, "POST", chunks(body, size))


def goes_on(client, origin) -> None:
    """The client's connection carries another request, which the rule leaves alone."""
    answer = client.exchange(request(origin, "/after"))
    assert (answer.status, answer.body, answer.values("Proxy-Status")) == (200, b"ok", [])


def goes_on_or_is_closed(client, origin, said: Message) -> None:
    """After a refusal before the body was read, the connection may be closed, but then it says so."""
    if b"close" in said.options("Connection"):
        assert client.wait_for_end() == "closed"
    else:
        goes_on(client, origin)


# Answers


def answer(
    body: bytes = b"",
    content_type: str | None = JSON,
    status: int = 200,
    lines: str = "",
    framing: str = "length",
    version: str = "1.1",
) -> bytes:
    """An answer of an origin; `framing` is "length", "chunked", "close" or "none"."""
    head = f"HTTP/{version} {status} Said\r\n{lines}"
    if content_type is not None:
        head += f"Content-Type: {content_type}\r\n"
    if framing == "length":
        head += f"Content-Length: {len(body)}\r\n"
    elif framing == "chunked":
        head += "Transfer-Encoding: chunked\r\n"
        body = chunks(body)
    return head.encode() + b"\r\n" + body


def ok_to_all(connection: OriginConnection) -> None:
    """Every request is answered 200, one for HEAD without the body."""
    while True:
        head = connection.read_request().method == b"HEAD"
        connection.send(OK.removesuffix(b"ok") if head else OK)


def serving(*answers: bytes, close: bool = False):
    """Each request gets the next answer, the last one again and again; /after gets a plain one. `close`: after each."""
    waiting = list(answers)

    def script(connection: OriginConnection) -> None:
        while True:
            if connection.read_request().target == b"/after":
                connection.send(OK)
                continue
            connection.send(waiting.pop(0) if len(waiting) > 1 else waiting[0])
            if close:
                return

    return script


def only(script):
    """A script for requests of any path but /after, which gets a plain answer."""

    def either(connection: OriginConnection) -> None:
        while True:
            head = connection.read_head()
            if head.target != b"/after":
                script(connection)
                return
            connection.read_body()
            connection.send(OK)

    return either


def ended_quietly(connection: OriginConnection) -> None:
    """Read until the proxy has ended the connection, however it does."""
    try:
        connection.wait_for_end()
    except (ClosedByProxy, OSError):
        pass


# What the client is told


def rejected(
    said: Message,
    error: str = "http_protocol_error",
    code: int | None = CANNOT_DECODE,
    names: tuple[str, ...] = (),
    rule: str = "r",
) -> Problem:
    """502 in place of the answer; `names` stand in the detail, in this order."""
    problem = check_problem(said, 502, error=error, rule=rule)
    assert code is None or problem.body.get("nsurlError") == code, problem.body
    in_order(problem.body["detail"], names)
    return problem


def in_order(text: str, names: tuple[str, ...]) -> None:
    at = 0
    for name in names:
        found = text.find(name, at)
        assert found >= 0, f"{name!r} is not named, or not in this place: {text!r}"
        at = found + len(name)


def annotation(said: Message) -> dict[str, str] | None:
    """What the proxy says of an answer that it forwards: the parameters of its member of Proxy-Status."""
    members = [
        member
        for value in said.values("Proxy-Status")
        for member in re.findall(r'(?:"(?:\\.|[^"\\])*"|[^",])+', value.decode("ascii"))
    ]
    ours = [read_proxy_status(member.strip()) for member in members if member.strip().startswith("sallyport")]
    assert len(ours) <= 1, f"the proxy speaks twice: {members}"
    return ours[0][1] if ours else None


def annotated(said: Message, names: tuple[str, ...] = (), rule: str = "r") -> dict[str, str]:
    parameters = annotation(said)
    assert parameters is not None, f"nothing is said of the violation: {said.status} {said.fields}"
    assert parameters.get("rule") == rule and parameters.get("details"), parameters
    assert parameters.get("error", "http_protocol_error") in ERROR_TYPES, parameters
    in_order(parameters["details"], names)
    return parameters


def as_it_came(said: Message, body: bytes, status: int = 200, content_type: str | None = JSON) -> None:
    """Status, type and body are the origin's."""
    assert said.status == status and said.reason == b"Said", f"{said.status} {said.reason} {said.body[:300]}"
    assert said.value("Content-Type") == (content_type.encode() if content_type is not None else None)
    assert said.body == body


def accepted(said: Message, body: bytes, status: int = 200, content_type: str | None = JSON) -> None:
    as_it_came(said, body, status, content_type)
    assert annotation(said) is None, f"a violation is seen where none is: {annotation(said)}"


# nginx


GZIP_NGINX = """
user root;
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  types {{ application/json json; application/xml xml; text/html html; image/png png; }}
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  gzip on; gzip_types application/json application/xml; gzip_min_length 1; gzip_proxied any;
  server {{ listen 127.0.0.1:{port}; root {directory}/root; location = /after {{ default_type text/plain; return 200 "ok"; }} }}
}}
"""


class GzipNginx:
    """nginx that compresses what it serves, in chunks, for clients that accept it."""

    def __init__(self, directory: Path):
        self.root = directory / "root"
        self.root.mkdir()
        directory.chmod(0o755)
        self.port = unused_port()
        configuration = directory / "nginx.conf"
        configuration.write_text(GZIP_NGINX.format(directory=directory, port=self.port))
        self.process = subprocess.Popen(
            ["nginx", "-p", directory, "-e", directory / "error.log", "-c", configuration],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until_it_listens(self.port, self.process, directory / "error.log")

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    def put(self, name: str, content: bytes) -> str:
        """A file, and its URL."""
        (self.root / name).write_bytes(content)
        return f"http://{self.authority}/{name}"

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_SECONDS)


@pytest.fixture(scope="module")
def gzip_nginx(tmp_path_factory):
    need("nginx")
    server = GzipNginx(tmp_path_factory.mktemp("gzip-nginx"))
    yield server
    server.stop()


# Codings


def deflated(data: bytes) -> bytes:
    return zlib.compress(data, 9)


def zstandard_coded(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


CODINGS = {"gzip": gzip.compress, "deflate": deflated, "br": brotli.compress, "zstd": zstandard_coded}
DECODINGS = {
    b"gzip": gzip.decompress,
    b"deflate": zlib.decompress,
    b"br": brotli.decompress,
    b"zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


def decoded(said: Message) -> bytes:
    body = said.body
    for coding in reversed(said.options("Content-Encoding")):
        body = DECODINGS[coding](body)
    return body


# Images of three by two pixels (the ICO: sixteen by sixteen), as Pillow writes them


def image(text: str) -> bytes:
    return base64.b64decode(text)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 3, height: int = 2, rows: int | None = None) -> bytes:
    """An 8-bit grey PNG; `rows` of its lines are there (None: all)."""
    lines = (b"\0" + bytes(width)) * (height if rows is None else rows)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + png_chunk(b"IDAT", zlib.compress(lines))
        + png_chunk(b"IEND", b"")
    )


def icon(inner: bytes) -> bytes:
    """An ICO with one PNG in it."""
    return struct.pack("<HHH", 0, 1, 1) + struct.pack("<BBBBHHII", 3, 2, 0, 0, 1, 32, len(inner), 22) + inner


IMAGES = {
    "image/png": png(),
    "image/jpeg": image(
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62r"
        "Z4C8ybqmx5moq6T/2wBDARweHigjKE4rK06kbl1upKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSk"
        "pKT/wAARCAACAAMDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQID"
        "AAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlq"
        "c3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3"
        "+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEI"
        "FEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImK"
        "kpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwCp"
        "IMMMeg/lRRRWS2PWj8KP/9k="
    ),
    "image/gif": image("R0lGODdhAwACAIEAAAD/AMgePAAAAAAAACwAAAAAAwACAAAICAADCAwAIEBAADs="),
    "image/webp": image(
        "UklGRjYAAABXRUJQVlA4ICoAAACwAQCdASoDAAIAB0CWJagCdAEO9sTIAP0lJoeKcGRA/W/M3qf63ud4AAA="
    ),
    "image/bmp": image(
        "Qk1OAAAAAAAAADYAAAAoAAAAAwAAAAIAAAABABgAAAAAABgAAADEDgAAxA4AAAAAAAAAAAAAPB7IAP8APB7IAAAAPB7IPB7IPB7IAAAA"
    ),
    "image/tiff": image(
        "SUkqAAgAAAAKAAABBAABAAAAAwAAAAEBBAABAAAAAgAAAAIBAwADAAAAhgAAAAMBAwABAAAAAQAAAAYBAwABAAAAAgAAABEBBAABAAAA"
        "jAAAABUBAwABAAAAAwAAABYBBAABAAAAAgAAABcBBAABAAAAEgAAABwBAwABAAAAAQAAAAAAAAAIAAgACADIHjzIHjzIHjzIHjwA/wDIHjw="
    ),
    "image/x-icon": icon(png()),
    "image/avif": image(
        "AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUIAAADrbWV0YQAAAAAAAAAhaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAAAA"
        "AAAOcGl0bQAAAAAAAQAAAB5pbG9jAAAAAEQAAAEAAQAAAAEAAAETAAAAJwAAAChpaW5mAAAAAAABAAAAGmluZmUCAAAAAAEAAGF2MDFD"
        "b2xvcgAAAABqaXBycAAAAEtpcGNvAAAAFGlzcGUAAAAAAAAAAwAAAAIAAAAQcGl4aQAAAAADCAgIAAAADGF2MUOBAAwAAAAAE2NvbHJu"
        "Y2x4AAEADQAGgAAAABdpcG1hAAAAAAAAAAEAAQQBAoMEAAAAL21kYXQSAAoIGAQrRAQ0GhAyGR2Hh4Wd3HHHAsUVgJA1lIoapnyLWaZT"
        "csc="
    ),
}
