"""Bodies that are small on the wire and enormous inside, or made to exhaust a parser: refused quickly, in bounded memory.

Of each: 502, within the deadline of every wait here and little CPU; the peak of the proxy's memory (VmHWM) grew by less
than GROWTH_BYTES, however large the bomb; and the same proxy, on the same connection, answers afterwards. The limit on
what is held is larger than any bomb on the wire, so that it is not its size that has it refused.
"""

import gzip
import os
import plistlib
import struct
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard

from serializer_world import (
    ANNOTATE_ALL,
    FORM,
    JSON,
    ONE_WORKER,
    PLIST,
    REJECT_ALL,
    adding,
    annotated,
    answer,
    as_it_came,
    goes_on,
    goes_on_or_is_closed,
    ok_to_all,
    png,
    png_chunk,
    policy,
    post,
    rejected,
    request,
    serving,
)

GIBIBYTE = 1 << 30
MEBIBYTE = 1 << 20
# Twice: what came, and what is being decoded or parsed of it. Then what parsers, windows (br 16 MiB, zstd 8 MiB) and
# the proxy's own buffers need.
HELD_BYTES = 4 * MEBIBYTE
GROWTH_BYTES = 2 * HELD_BYTES + 32 * MEBIBYTE
# Most of a second is more than any of these takes by far; a bomb that goes off takes many.
CPU_SECONDS = 5.0
SANITIZED = "SALLYPORT_SANITIZED" in os.environ  # shadow memory and quarantine are no memory of the proxy's
LIMITS = f'buffered_body = "{HELD_BYTES // MEBIBYTE}MiB"'
ZEROS = bytes(MEBIBYTE)
EXTERNAL = b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>'


def peak_bytes(proxy) -> int:
    for line in Path(f"/proc/{proxy.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM in /proc")


class Watch:
    """What a proxy has used since the watch began."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.peak, self.cpu = peak_bytes(proxy), proxy.cpu_seconds()

    def check(self) -> None:
        assert self.proxy.process.poll() is None, "the proxy has ended"
        if not SANITIZED:
            grown = peak_bytes(self.proxy) - self.peak
            assert grown < GROWTH_BYTES, f"{grown / MEBIBYTE:.1f} MiB more at the peak"
            used = self.proxy.cpu_seconds() - self.cpu
            assert used < CPU_SECONDS, f"{used:.1f} s of CPU"


# Codings


def stream(compressor) -> bytes:
    """A gibibyte of zeros through this."""
    return b"".join(compressor.compress(ZEROS) for _ in range(GIBIBYTE // MEBIBYTE)) + compressor.flush()


class Brotli:
    def __init__(self):
        self.compressor = brotli.Compressor(quality=5, lgwin=24)
        self.compress, self.flush = self.compressor.process, self.compressor.finish


MAKERS = {
    "gzip": lambda: stream(zlib.compressobj(9, zlib.DEFLATED, 31)),
    "deflate": lambda: stream(zlib.compressobj(9)),
    "br": lambda: stream(Brotli()),
    "zstd": lambda: stream(zstandard.ZstdCompressor(level=3).compressobj()),
}


@pytest.fixture(scope="module")
def bombs():
    """A function that makes the bomb of a coding, once."""
    made: dict[str, bytes] = {}

    def make(coding: str) -> bytes:
        if coding not in made:
            made[coding] = MAKERS[coding]()
            assert len(made[coding]) < HELD_BYTES
        return made[coding]

    return make


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("serializer", ["json", "xml", "plist", "image"])
@pytest.mark.parametrize("coding", MAKERS)
def test_a_gibibyte_in_a_coding(coding, serializer, framing, bombs, sallyport, raw_origin, raw_client):
    response = (
        f'serializer = "{serializer}"\nacceptable_content_types = ["*/*"]\noversize = "reject"\n{REJECT_ALL}'
    )
    proxy = sallyport(proxy=ONE_WORKER, policy=policy(response=response, limits=LIMITS))
    origin = raw_origin(
        serving(answer(bombs(coding), lines=f"Content-Encoding: {coding}\r\n", framing=framing))
    )
    client = raw_client(proxy)
    goes_on(client, origin)
    watch = Watch(proxy)
    for _ in range(3):
        # A fault at the first byte of what is inside may be found before there is too much of it.
        said = client.exchange(request(origin, "/r"))
        rejected(
            said,
            "http_protocol_error" if b"http_protocol_error" in said.body else "http_response_body_size",
            None,
        )
    watch.check()
    goes_on(client, origin)


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_a_gibibyte_of_valid_json_in_a_coding(coding, sallyport, raw_origin, raw_client):
    """Spaces before a value are no fault, so that only the limit ends it."""
    spaces = b" " * MEBIBYTE
    compressor = {
        "gzip": lambda: zlib.compressobj(9, zlib.DEFLATED, 31),
        "br": Brotli,
        "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
    }[coding]()
    body = b"".join(compressor.compress(spaces) for _ in range(GIBIBYTE // MEBIBYTE))
    body += compressor.compress(b"[]") + compressor.flush()
    response = f'serializer = "json"\nremove_nulls = true\noversize = "reject"\n{REJECT_ALL}'
    proxy = sallyport(proxy=ONE_WORKER, policy=policy(response=response, limits=LIMITS))
    origin = raw_origin(serving(answer(body, lines=f"Content-Encoding: {coding}\r\n")))
    client = raw_client(proxy)
    goes_on(client, origin)
    watch = Watch(proxy)
    rejected(client.exchange(request(origin, "/r")), "http_response_body_size", None)
    watch.check()
    goes_on(client, origin)


@pytest.mark.parametrize("coding", MAKERS)
def test_a_bomb_that_is_only_annotated_goes_to_the_client_as_it_came(
    coding, bombs, sallyport, raw_origin, raw_client
):
    """It is for the client to decode it or not; the proxy does not."""
    response = f'serializer = "json"\noversize = "annotate"\n{ANNOTATE_ALL}'
    proxy = sallyport(proxy=ONE_WORKER, policy=policy(response=response, limits=LIMITS))
    origin = raw_origin(serving(answer(bombs(coding), lines=f"Content-Encoding: {coding}\r\n")))
    client = raw_client(proxy)
    goes_on(client, origin)
    watch = Watch(proxy)
    got = client.exchange(request(origin, "/r"))
    as_it_came(got, bombs(coding))
    annotated(got)
    watch.check()
    goes_on(client, origin)


def nested(coding: str, inner: bytes, times: int) -> tuple[str, bytes]:
    for _ in range(times):
        inner = gzip.compress(inner)
    return ", ".join([coding] + ["gzip"] * times), inner


@pytest.mark.parametrize("coding, times", [("gzip", 1), ("gzip", 2), ("zstd", 1), ("gzip", 30)])
def test_codings_within_codings(coding, times, bombs, sallyport, raw_origin, raw_client):
    """A few kilobytes that say gzip, gzip; and a list of codings that is longer than anyone needs."""
    codings, body = nested(coding, bombs(coding), times)
    response = f'serializer = "json"\noversize = "reject"\n{REJECT_ALL}'
    proxy = sallyport(proxy=ONE_WORKER, policy=policy(response=response, limits=LIMITS))
    origin = raw_origin(serving(answer(body, lines=f"Content-Encoding: {codings}\r\n")))
    client = raw_client(proxy)
    goes_on(client, origin)
    watch = Watch(proxy)
    said = client.exchange(request(origin, "/r"))
    errors = ("http_response_body_size", "http_response_content_coding", "http_protocol_error")
    assert (
        rejected(said, said.value("Proxy-Status").split(b"error=")[1].split(b";")[0].decode(), None).error
        in errors
    )
    watch.check()
    goes_on(client, origin)


def test_twenty_bombs_at_once(bombs, sallyport, raw_origin, raw_client):
    """The bound is for all of them together, as held_bodies is."""
    response = f'serializer = "json"\noversize = "reject"\n{REJECT_ALL}'
    limits = f'{LIMITS}\nheld_bodies = "8MiB"'
    proxy = sallyport(policy=policy(response=response, limits=limits))
    origin = raw_origin(serving(answer(bombs("zstd"), lines="Content-Encoding: zstd\r\n")))
    clients = [raw_client(proxy) for _ in range(20)]
    for client in clients:
        goes_on(client, origin)
    watch = Watch(proxy)
    for client in clients:
        client.send(request(origin, "/r"))
    assert {client.answer().status for client in clients} <= {502, 503}
    watch.check()
    for client in clients:
        goes_on(client, origin)


def test_a_window_that_is_larger_than_any_body(sallyport, raw_origin, raw_client):
    """zstd frames may claim a window of terabytes, br (large window) of a gibibyte: nothing is allocated for a claim."""
    window_log_41 = 31 << 3  # RFC 8878 §3.1.1.1.2: exponent 31, a window of 2 TiB
    frames = {
        "zstd": b"\x28\xb5\x2f\xfd" + bytes([0b0000_0000, window_log_41]) + b"\x0b\x00\x00" + b"[",
        "br": b"\x11\x1e" + b"\0" * 8,
    }
    response = f'serializer = "json"\noversize = "reject"\n{REJECT_ALL}'
    proxy = sallyport(proxy=ONE_WORKER, policy=policy(response=response, limits=LIMITS))
    for coding, frame in frames.items():
        origin, client = raw_origin(
            serving(answer(frame, lines=f"Content-Encoding: {coding}\r\n"))
        ), raw_client(proxy)
        goes_on(client, origin)
        watch = Watch(proxy)
        said = client.exchange(request(origin, "/r"))
        assert said.status == 502
        watch.check()
        goes_on(client, origin)


# Content


def laughs(before: bytes = b"", of: bytes = b"a", levels: int = 10) -> bytes:
    """Ten levels of entities, each ten of the one below."""
    entities = b'<!ENTITY l0 "lol">'
    for level in range(1, levels):
        entities += b'<!ENTITY l%d "%s">' % (level, b"&l%d;" % (level - 1) * 10)
    return before + b"<!DOCTYPE %s [%s]><%s>&l%d;</%s>" % (of, entities, of, levels - 1, of)


def attribute_laughs() -> bytes:
    return laughs().replace(b"<a>&l9;</a>", b'<a b="&l9;"/>')


def parameter_laughs() -> bytes:
    entities = b'<!ENTITY %% p0 "lol">'.replace(b"%%", b"%")
    for level in range(1, 10):
        entities += b'<!ENTITY %% p%d "%s">' % (level, b"&#37;p%d;" % (level - 1) * 10)
    return b"<!DOCTYPE a [" + entities + b"%p9;]><a/>"


DEEP = 1_000_000
XML = "application/xml"
QUADRATIC = b'<!DOCTYPE a [<!ENTITY e "%s">]><a>%s</a>' % (b"x" * 100_000, b"&e;" * 100_000)
CONTENT = {
    "nested arrays": ("json", JSON, b"[" * DEEP),
    "nested arrays that end": ("json", JSON, b"[" * DEEP + b"]" * DEEP),
    "nested objects": ("json", JSON, b'{"":' * DEEP),
    "nested arrays and objects": ("json", JSON, b'[{"a":' * (DEEP // 2)),
    "a string that does not end": ("json", JSON, b'"' + b"\\u0041" * 600_000),
    "a number without an end and a fault": ("json", JSON, b"9" * 4_000_000 + b"x"),
    "a billion laughs": ("xml", XML, laughs()),
    "a billion laughs in an attribute": ("xml", XML, attribute_laughs()),
    "a billion laughs in parameter entities": ("xml", XML, parameter_laughs()),
    "an entity that holds itself": (
        "xml",
        XML,
        b'<!DOCTYPE a [<!ENTITY e "&f;"><!ENTITY f "&e;">]><a>&e;</a>',
    ),
    "one large entity a hundred thousand times": ("xml", XML, QUADRATIC),
    "an external entity of a file": ("xml", XML, EXTERNAL),
    "an external entity of a device": ("xml", XML, EXTERNAL.replace(b"/etc/passwd", b"/dev/zero")),
    # Silent in the specification: one that is not loaded is no fault of form, but "no external entities" it says.
    "an external parameter entity": (
        "xml",
        XML,
        b'<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><a/>',
    ),
    "nested elements": ("xml", XML, b"<a>" * DEEP),
    "nested elements that end": ("xml", XML, b"<a>" * (DEEP // 2) + b"</a>" * (DEEP // 2)),
    "an element with half a million attributes and a fault": (
        "xml",
        XML,
        b"<a" + b"".join(b' a%d=""' % number for number in range(300_000)) + b">",
    ),
    "a billion laughs in a plist": (
        "plist",
        PLIST,
        laughs(of=b"plist").replace(b"&l9;", b"<string>&l9;</string>"),
    ),
    "nested arrays in a plist": ("plist", PLIST, b"<plist>" + b"<array>" * 500_000),
    "nested arrays in a plist that end": (
        "plist",
        PLIST,
        b"<plist>" + b"<array>" * 200_000 + b"</array>" * 200_000 + b"</plist>",
    ),
    "an external entity in a plist": (
        "plist",
        PLIST,
        b'<!DOCTYPE plist [<!ENTITY e SYSTEM "file:///etc/passwd">]><plist><string>&e;</string></plist>',
    ),
    "a binary plist of lists of lists": ("plist", PLIST, None),
    "a binary plist that claims a billion objects": (
        "plist",
        PLIST,
        b"bplist00\xa0\x08" + bytes(6) + b"\x01\x01" + struct.pack(">QQQ", 1 << 30, 0, 9),
    ),
    "a binary plist with a length of 2^63": (
        "plist",
        PLIST,
        b"bplist00\xaf\x13"
        + b"\x7f"
        + b"\xff" * 7
        + b"\x08"
        + bytes(6)
        + b"\x01\x01"
        + struct.pack(">QQQ", 1, 0, 18),
    ),
    "a PNG of 60,000 by 60,000": ("image", "image/png", png(60_000, 60_000, rows=1)),
    "a PNG of 2^31 - 1 by 2^31 - 1": ("image", "image/png", png(2**31 - 1, 2**31 - 1, rows=0)),
    "a PNG with a chunk of 2 GiB": (
        "image",
        "image/png",
        png()[:33] + struct.pack(">I", 2**31 - 1) + b"IDAT" + bytes(1000),
    ),
    "a PNG whose data is a gibibyte": ("image", "image/png", None),
    "a GIF of 65,535 by 65,535": ("image", "image/gif", b"GIF89a\xff\xff\xff\xff\x00\x00\x00" + b"\x3b"),
    "a BMP of 60,000 by 60,000": (
        "image",
        "image/bmp",
        b"BM"
        + struct.pack("<IHHI", 54, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 60_000, 60_000, 1, 24, *[0] * 6),
    ),
    "a TIFF whose directories go round": (
        "image",
        "image/tiff",
        b"II*\0\x08\0\0\0" + struct.pack("<HHHIII", 1, 256, 3, 1, 1, 8),
    ),
    "a TIFF with 65,535 entries": ("image", "image/tiff", b"II*\0\x08\0\0\0\xff\xff"),
    "an AVIF of nested boxes": ("image", "image/avif", None),
}


def doubling_lists() -> list:
    """Sixty arrays, each of which holds the next twice: 2^60 leaves for whoever follows each reference."""
    value: list = []
    for _ in range(60):
        value = [value, value]
    return value


def list_of_lists() -> bytes:
    return plistlib.dumps(doubling_lists(), fmt=plistlib.FMT_BINARY)


def many_pixels() -> bytes:
    """A PNG of an allowed size, whose IDAT goes on for a gibibyte of zeros."""
    data = stream(zlib.compressobj(9))
    head = struct.pack(">IIBBBBB", 100, 100, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")
    )


def nested_boxes() -> bytes:
    """Boxes within boxes, each as long as the rest."""
    depth = 100_000
    ftyp = struct.pack(">I4s4sI4s", 20, b"ftyp", b"avif", 0, b"avif")
    boxes = b"".join(struct.pack(">I4s", 8 * (depth - level), b"iprp") for level in range(depth))
    return ftyp + struct.pack(">I4sI", 12 + len(boxes), b"meta", 0) + boxes


MADE = {
    "a binary plist of lists of lists": list_of_lists,
    "a PNG whose data is a gibibyte": many_pixels,
    "an AVIF of nested boxes": nested_boxes,
}
# A binary plist that refers to the same object twice is valid, and so is an image that is only checked for structure:
# for those nothing is asked but that they cost little.
MAY_PASS = {"a binary plist of lists of lists", "a PNG whose data is a gibibyte"}


@pytest.mark.parametrize("name", CONTENT)
def test_content_that_would_exhaust_a_parser(name, sallyport, raw_origin, raw_client):
    serializer, content_type, body = CONTENT[name]
    body = MADE[name]() if body is None else body
    assert len(body) <= HELD_BYTES
    response = f'serializer = "{serializer}"\noversize = "reject"\n{REJECT_ALL}'
    proxy = sallyport(proxy=ONE_WORKER, policy=policy(response=response, limits=LIMITS))
    origin = raw_origin(serving(answer(body, content_type)))
    client = raw_client(proxy)
    goes_on(client, origin)
    watch = Watch(proxy)
    said = client.exchange(request(origin, "/r"))
    if name not in MAY_PASS or said.status != 200:
        rejected(said)
        assert b"root:" not in said.body, "a file of this machine is in what the client is told"
    watch.check()
    goes_on(client, origin)


def test_an_external_entity_is_not_fetched(sallyport, raw_origin, raw_client):
    """Neither by HTTP: the server that it names is never spoken to."""
    named = raw_origin(ok_to_all)
    for body in (
        b'<!DOCTYPE a [<!ENTITY e SYSTEM "http://%s/e">]><a>&e;</a>',
        b'<!DOCTYPE a SYSTEM "http://%s/dtd"><a/>',
        b'<!DOCTYPE a [<!ENTITY %% p SYSTEM "http://%s/p"> %%p;]><a/>',
        b'<?xml-stylesheet href="http://%s/s"?><a xmlns:xi="http://www.w3.org/2001/XInclude"/>',
    ):
        proxy = sallyport(policy=policy(response=f'serializer = "xml"\n{REJECT_ALL}'))
        origin = raw_origin(serving(answer(body % named.authority.encode(), XML)))
        client = raw_client(proxy)
        client.exchange(request(origin, "/r"))
        goes_on(client, origin)
    assert not named.connections


# Requests


REQUESTS = {
    "nested brackets": ('serializer = "json"\ntranscode = true', FORM, b"a" + b"[b]" * 1_000_000 + b"=c"),
    "many keys": (
        'serializer = "json"\ntranscode = true',
        FORM,
        b"&".join(b"k%d=" % n for n in range(300_000)),
    ),
    "one key many times": ('serializer = "json"\ntranscode = true', FORM, b"a[]=&" * 700_000),
    "many prefixes": (
        'serializer = "json"\ntranscode = true',
        FORM,
        b"&".join(b"a[k%d]=" % n for n in range(250_000)),
    ),
    "nested arrays": (
        adding({"a": "b"}, 'serializer = "json"'),
        JSON,
        b'{"k":' + b"[" * DEEP + b"]" * DEEP + b"}",
    ),
    "a dictionary with a billion laughs": (
        adding({"a": "b"}, 'serializer = "plist"'),
        PLIST,
        laughs(of=b"plist").replace(b"&l9;", b"<dict><key>&l9;</key><true/></dict>"),
    ),
    "a dictionary of lists of lists": (adding({"a": "b"}, 'serializer = "plist"'), PLIST, None),
    "many empty parts": (
        'serializer = "json"\ntranscode = true',
        "multipart/form-data; boundary=b",
        b"--b\r\n\r\n\r\n" * 300_000,
    ),
}


# A form of many keys is a form, and a list that refers to another twice is a list.
MAY_BE_SENT = {"many keys", "one key many times", "many prefixes", "a dictionary of lists of lists"}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_would_exhaust_a_parser(name, sallyport, raw_origin, raw_client):
    """Refused, or sent on as what it is; in bounded time and memory either way."""
    table, content_type, body = REQUESTS[name]
    if body is None:
        body = plistlib.dumps({"k": doubling_lists()}, fmt=plistlib.FMT_BINARY)
    proxy = sallyport(proxy=ONE_WORKER, policy=policy(request=table, limits=LIMITS))
    origin, client = raw_origin(ok_to_all), raw_client(proxy)
    goes_on(client, origin)
    watch = Watch(proxy)
    said = client.exchange(post(origin, body, content_type, path="/r"))
    assert said.status in ((200, 413, 415) if name in MAY_BE_SENT else (413, 415))
    watch.check()
    goes_on_or_is_closed(client, origin, said)
