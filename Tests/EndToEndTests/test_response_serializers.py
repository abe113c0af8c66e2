"""[rule.response]: which status, type and body a serializer accepts, and what the client is told of each violation.

Every row is met twice: with "reject" everywhere and with "annotate" everywhere, on a client's connection that must go
on. Framings, codings, streams and limits are in test_response_bodies.py, null removal in test_remove_nulls.py.
"""

import json
import plistlib

import pytest

from problems import check_problem
from serializer_world import (
    ANNOTATE_ALL,
    BAD_SERVER_RESPONSE,
    CANNOT_DECODE,
    IMAGES,
    JSON,
    PLIST,
    REJECT_ALL,
    accepted,
    annotated,
    annotation,
    answer,
    as_it_came,
    goes_on,
    icon,
    png,
    policy,
    rejected,
    request,
    serving,
)
from test_intercept import inside
from tls_world import authority, intercepting, secure_client, secure_proxy, tls_origin, world

XML = "application/xml"
VALID_JSON = b'{"a": [1, null, "\xc3\xa4"]}'
BINARY_PLIST = plistlib.dumps({"a": [1, 2.5, True, b"\0", "ä"]}, fmt=plistlib.FMT_BINARY)
XML_PLIST = plistlib.dumps({"a": [1, 2.5, True, b"\0", "ä"]})


@pytest.fixture
def ask(sallyport, raw_origin, raw_client):
    """A function that asks for an answer under a [rule.response], and then for something else on the same connection."""

    def exchange(response: str, said: bytes, method: str = "GET", lines: str = "", **rules):
        proxy = sallyport(policy=policy(response=response, **rules))
        origin, client = raw_origin(serving(said)), raw_client(proxy)
        got = client.exchange(request(origin, "/r", lines, method))
        goes_on(client, origin)
        got.line = proxy.access(lambda line: line["target"].endswith("/r"))
        return got

    return exchange


# Status and type


# Each: serializer and more, the type, and whether it is accepted (with the serializer's sample as the body)
TYPES = {
    "application/json": ('"json"', JSON, True),
    "text/json": ('"json"', "text/json", True),
    "text/javascript": ('"json"', "text/javascript", True),
    "capitals": ('"json"', "Application/JSON", True),
    "a parameter": ('"json"', "application/json; charset=utf-8", True),
    "a parameter, close by": ('"json"', 'application/json;charset="utf-8";a=b', True),
    "a parameter, far away": ('"json"', "application/json \t; charset=utf-8", True),
    "a type that begins so": ('"json"', "application/jsonp", False),
    "a type that another begins": ('"json"', "application/js", False),
    "problem+json is not among the defaults": ('"json"', "application/problem+json", False),
    "text/html": ('"json"', "text/html; charset=utf-8", False),
    "the type in a parameter": ('"json"', "text/html; x=application/json", False),
    "no type": ('"json"', None, False),
    "an empty type": ('"json"', "", False),
    "what is no type": ('"json"', "json", False),
    "two types": ('"json"', "application/json, text/html", False),
    "application/xml": ('"xml"', XML, True),
    "text/xml": ('"xml"', "text/xml", True),
    "svg+xml is not among the defaults": ('"xml"', "image/svg+xml", False),
    "JSON for xml": ('"xml"', JSON, False),
    "application/x-plist": ('"plist"', PLIST, True),
    "XML for plist": ('"plist"', XML, False),
    **{
        f"image/{name}": ('"image"', f"image/{name}", True)
        for name in "tiff jpeg gif png ico x-icon bmp x-bmp x-xbitmap x-win-bitmap webp avif".split()
    },
    "svg for image": ('"image"', "image/svg+xml", False),
    "http takes any": ('"http"', "text/odd", True),
    "http takes none": ('"http"', None, True),
    "a list of one's own": ('"json"\nacceptable_content_types = ["text/odd"]', "text/odd", True),
    "a list of one's own is all": ('"json"\nacceptable_content_types = ["text/odd"]', JSON, False),
    "a list for http": ('"http"\nacceptable_content_types = ["text/odd"]', JSON, False),
    "type/*": ('"json"\nacceptable_content_types = ["application/*"]', "application/odd; a=b", True),
    "type/* of another": ('"json"\nacceptable_content_types = ["application/*"]', "text/json", False),
    "type/* of one that begins so": ('"json"\nacceptable_content_types = ["text/*"]', "textual/json", False),
    "+json": ('"json"\nacceptable_content_types = ["+json"]', "application/hal+json;a=b", True),
    "+json in capitals": ('"json"\nacceptable_content_types = ["+json"]', "application/HAL+JSON", True),
    "+json of another": ('"json"\nacceptable_content_types = ["+json"]', "application/hal+xml", False),
    "+json before more": ('"json"\nacceptable_content_types = ["+json"]', "application/hal+jsonx", False),
    "*/*": ('"json"\nacceptable_content_types = ["*/*"]', "odd/odd", True),
    # Silent in the specification: "accepts any type" is taken to mean none at all too.
    "*/* without a type": ('"json"\nacceptable_content_types = ["*/*"]', None, True),
}
SAMPLES = {
    '"json"': VALID_JSON,
    '"xml"': b"<a/>",
    '"plist"': XML_PLIST,
    '"image"': png(),
    '"http"': b"\xff\0",
}


@pytest.mark.parametrize("how", ["reject", "annotate"])
@pytest.mark.parametrize("name", TYPES)
def test_a_content_type(name, how, ask):
    serializer, content_type, good = TYPES[name]
    body = SAMPLES[serializer.partition("\n")[0]]
    if content_type == "image/x-xbitmap":
        body = b"#define a_width 8\n#define a_height 1\nstatic char a_bits[] = { 0x00 };\n"
    response = f"serializer = {serializer}\n" + (REJECT_ALL if how == "reject" else ANNOTATE_ALL)
    got = ask(response, answer(body, content_type))
    essence = (content_type or "").partition(";")[0].strip()
    if good and content_type != "image/x-xbitmap":
        accepted(got, body, content_type=content_type)
    elif content_type == "image/x-xbitmap":
        return  # the type is known and the format is not among those that are checked: what becomes of it is open
    elif how == "reject":
        rejected(got, names=(essence,))
        assert got.line["outcome"] != "done"
    else:
        as_it_came(got, body, content_type=content_type)
        annotated(got, names=(essence,))
        assert got.line["violation"]


def test_two_fields_of_a_type_are_a_violation(ask):
    """Clients differ in which they take. Silent in the specification."""
    got = ask(f'serializer = "json"\n{REJECT_ALL}', answer(VALID_JSON, lines="Content-Type: text/html\r\n"))
    rejected(got)
    (violation,) = json.loads(got.body)["violations"]
    assert violation["seen"].startswith("2 Content-Type fields: "), violation
    assert "text/html" in violation["seen"] and "application/json" in violation["seen"]


STATUSES = {
    "200": ("", 200, True),
    "201": ("", 201, True),
    "299": ("", 299, True),
    "300": ("", 300, False),
    "302": ("", 302, False),
    "404": ("", 404, False),
    "500": ("", 500, False),
    "one of one's own": ("acceptable_status = [404]", 404, True),
    "only one's own": ("acceptable_status = [404]", 200, False),
    "several": ('acceptable_status = ["200-201", 404, "410-419"]', 415, True),
    "between several": ('acceptable_status = ["200-201", 404, "410-419"]', 405, False),
    "any": ('acceptable_status = ["100-599"]', 503, True),
}


@pytest.mark.parametrize("how", ["reject", "annotate"])
@pytest.mark.parametrize("serializer", ["json", "http"])
@pytest.mark.parametrize("name", STATUSES)
def test_a_status(name, serializer, how, ask):
    lines, status, good = STATUSES[name]
    violation = REJECT_ALL if how == "reject" else ANNOTATE_ALL
    got = ask(f'serializer = "{serializer}"\n{lines}\n{violation}', answer(VALID_JSON, status=status))
    if good:
        accepted(got, VALID_JSON, status)
    elif how == "reject":
        rejected(got, code=BAD_SERVER_RESPONSE, names=(str(status),))
        assert got.line["status"] == 502 and got.line["outcome"] != "done"
    else:
        as_it_came(got, VALID_JSON, status)
        annotated(got, names=(str(status),))
        assert got.line["status"] == status and got.line["violation"]


def test_what_is_expected_is_named(ask):
    response = (
        'serializer = "json"\nacceptable_status = ["200-204", 404]\nacceptable_content_types = ["+json"]\n'
    )
    both = answer(VALID_JSON, "text/html", 500)
    detail = rejected(ask(response + REJECT_ALL, both), code=BAD_SERVER_RESPONSE).body["detail"]
    for name in ("200-204", "404", "500", "+json", "text/html"):
        assert name in detail
    details = annotated(ask(response + ANNOTATE_ALL, both))["details"]
    for name in ("200-204", "404", "500", "+json", "text/html"):
        assert name in details


VIOLATIONS = {"status": 0, "content_type": 1, "body": 2}


@pytest.mark.parametrize("status", ["reject", "annotate"])
@pytest.mark.parametrize("content_type", ["reject", "annotate"])
@pytest.mark.parametrize("body", ["reject", "annotate"])
@pytest.mark.parametrize(
    "wrong",
    [
        ("status",),
        ("content_type",),
        ("body",),
        ("status", "content_type"),
        ("status", "body"),
        ("content_type", "body"),
        ("status", "content_type", "body"),
    ],
    ids=" and ".join,
)
def test_each_violation_has_its_own_answer(wrong, status, content_type, body, ask):
    """Where any of those that came says reject, it is rejected; status and type are named, the status first."""
    answers = {"status": status, "content_type": content_type, "body": body}
    table = ", ".join(f'{key} = "{value}"' for key, value in answers.items())
    data = b'{"a":\n  ?}' if "body" in wrong else VALID_JSON
    of_type = "text/html" if "content_type" in wrong else JSON
    of_status = 500 if "status" in wrong else 200
    got = ask(f'serializer = "json"\non_violation = {{ {table} }}', answer(data, of_type, of_status))
    names = ("500",) * ("status" in wrong) + ("text/html",) * ("content_type" in wrong)
    if any(answers[kind] == "reject" for kind in wrong):
        code = BAD_SERVER_RESPONSE if "status" in wrong else CANNOT_DECODE
        problem = rejected(got, code=code, names=names)
        if wrong == ("body",):
            assert "line 2" in problem.body["detail"] and "column 3" in problem.body["detail"]
    else:
        as_it_came(got, data, of_status, of_type)
        annotated(got, names=names)


def test_the_defaults_of_a_violation(ask):
    """What holds where the rule says nothing: a status is annotated, a type and a body are rejected."""
    response = 'serializer = "json"'
    as_it_came(ask(response, answer(VALID_JSON, status=404)), VALID_JSON, 404)
    annotated(ask(response, answer(VALID_JSON, status=404)), names=("404",))
    rejected(ask(response, answer(VALID_JSON, "text/html")), names=("text/html",))
    rejected(ask(response, answer(b"[")))


def test_a_rejected_answer_is_said_in_plain_text_where_that_is_preferred(ask):
    got = ask(f'serializer = "json"\n{REJECT_ALL}', answer(b"[1,]"), lines="Accept: text/plain\r\n")
    assert got.status == 502 and got.value("Content-Type").startswith(b"text/plain")
    assert b"line 1" in got.body and b"rule=r" in got.reason


def test_nothing_of_a_rejected_answer_reaches_the_client(ask):
    """None of its fields: a cookie, a redirect or a validator of it would say that it was fine. How its content begins is
    told as text, in the problem."""
    lines = 'Set-Cookie: a=b\r\nETag: "x"\r\nLocation: /x\r\nCache-Control: max-age=9\r\nX-Own: y\r\n'
    got = ask(f'serializer = "json"\n{REJECT_ALL}', answer(b'["' + b"x" * 5000, lines=lines))
    assert rejected(got).body["upstream"]["text"] == '["' + "x" * 1022
    for name in ("Set-Cookie", "ETag", "Location", "X-Own", "Content-Encoding"):
        assert got.values(name) == []
    assert got.values("Cache-Control") != [b"max-age=9"]


def test_an_annotation_comes_behind_those_of_others(ask):
    """RFC 9209 §2: each intermediary adds its member at the end."""
    lines = 'Proxy-Status: inner; received-status=200; details="a, b"\r\n'
    got = ask(f'serializer = "json"\n{ANNOTATE_ALL}', answer(b"[", lines=lines))
    annotated(got)
    together = b", ".join(got.values("Proxy-Status"))
    assert together.startswith(b'inner; received-status=200; details="a, b"')


# Bodies that are right


DEPTH = 40
BODIES = {
    "an object": ("json", VALID_JSON),
    **{
        f"the fragment {text}": ("json", text.encode())
        for text in ("1", "-0.5e+10", '"a"', "true", "false", "null", "[]", "{}")
    },
    "white space around": ("json", b" \t\r\n[ ]\r\n"),
    "a huge number": ("json", b"[" + b"9" * 5000 + b", 1e99999]"),
    "escapes": ("json", b'"\\u00e4\\ud83d\\ude00\\"\\\\\\/\\b\\f\\n\\r\\t"'),
    "the same key twice": ("json", b'{"a":1,"a":2}'),
    "an empty key": ("json", b'{"":1}'),
    "just json_depth": ("json", b"[" * DEPTH + b"]" * DEPTH),
    "well-formed XML": ("xml", b"<a/>"),
    "XML with everything": (
        "xml",
        b'<?xml version="1.0" encoding="UTF-8"?>\n<!-- c -->\n<!DOCTYPE a [<!ENTITY e "\xc3\xa4"><!ELEMENT a ANY>]>\n'
        b'<a x="1" xmlns:b="urn:b">&e;&amp;&#x41;<![CDATA[<&]]><b:c/><?p i?></a>\n<!-- d -->\n',
    ),
    "XML with a byte order mark": ("xml", b"\xef\xbb\xbf<a/>"),
    "an XML plist": ("plist", XML_PLIST),
    "an XML plist without its declaration": ("plist", b"<plist version='1.0'><dict/></plist>"),
    "a binary plist": ("plist", BINARY_PLIST),
    **{f"{content_type}": ("image", body) for content_type, body in IMAGES.items()},
    "anything for http": ("http", b"\0\xff<{["),
}
BODY_TYPES = {"json": JSON, "xml": XML, "plist": PLIST, "image": "image/png", "http": "a/b"}
LIMITS = f"json_depth = {DEPTH}\nimage_pixels = 1_000_000"


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_right_is_what_it_was(name, ask):
    serializer, body = BODIES[name]
    content_type = name if name in IMAGES else BODY_TYPES[serializer]
    got = ask(f'serializer = "{serializer}"\n{REJECT_ALL}', answer(body, content_type), limits=LIMITS)
    accepted(got, body, content_type=content_type)


# Each: the serializer, the body, and where the fault is, for texts whose first fault is beyond doubt
FAULTS = {
    "JSON cut short": ("json", b'{"a": [1, 2', ()),
    "a comma too many": ("json", b"[1,\n 2,\n ]", ("line 3", "column 2")),
    "a comma too few": ("json", b'{"a": 1 "b": 2}', ("line 1", "column 9")),
    "a value that begins with nothing": ("json", b'{"a":\n  ?}', ("line 2", "column 3")),
    "a carriage return counts no line": ("json", b"[\r\n\r\n   ?]", ("line 3", "column 4")),
    "columns behind letters of several bytes": ("json", b'["\xc3\xa4"?]', ("line 1",)),
    "two values": ("json", b"1 2", ("line 1", "column 3")),
    "bytes behind": ("json", b"[]\n\0", ("line 2", "column 1")),
    "a bracket too many": ("json", b"[]]", ("line 1", "column 3")),
    "another bracket": ("json", b"[}", ("line 1", "column 2")),
    "single quotes": ("json", b"['a']", ("line 1", "column 2")),
    "a bare key": ("json", b"{a:1}", ("line 1", "column 2")),
    "a comment": ("json", b"[/* */]", ("line 1", "column 2")),
    "a leading zero": ("json", b"[01]", ("line 1",)),
    "a plus": ("json", b"[+1]", ("line 1", "column 2")),
    "a point without digits": ("json", b"[1.]", ("line 1",)),
    "hexadecimal": ("json", b"[0x1]", ("line 1",)),
    "NaN": ("json", b"[NaN]", ("line 1", "column 2")),
    "Infinity": ("json", b"[-Infinity]", ("line 1",)),
    "capitals": ("json", b"[True]", ("line 1", "column 2")),
    "half a literal": ("json", b"[tru]", ("line 1",)),
    "a line feed in a string": ("json", b'["a\nb"]', ("line 1",)),
    "an escape that is none": ("json", b'["\\x41"]', ("line 1",)),
    "half an escape": ("json", b'["\\u00e"]', ("line 1",)),
    "no UTF-8": ("json", b'["\xff"]', ("line 1",)),
    "an overlong letter": ("json", b'["\xc0\xaf"]', ("line 1",)),
    "a surrogate in UTF-8": ("json", b'["\xed\xa0\x80"]', ("line 1",)),
    "white space alone": ("json", b" \n", ()),
    "a form feed": ("json", b"\x0c[]", ("line 1", "column 1")),
    "deeper than json_depth": ("json", b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), ("line 1",)),
    "a page instead": ("json", b"<!doctype html>\n<p>hello", ("line 1", "column 1")),
    "XML cut short": ("xml", b"<a>\n <b>\n", ()),
    "tags that do not match": ("xml", b"<a>\n <b></c>\n</a>", ("line 2",)),
    "two roots": ("xml", b"<a/>\n<b/>", ("line 2",)),
    "text behind the root": ("xml", b"<a/>\ntext", ("line 2",)),
    "an attribute twice": ("xml", b'<a x="1" x="2"/>', ("line 1",)),
    "an attribute without quotes": ("xml", b"<a x=1/>", ("line 1",)),
    "an entity that nobody declared": ("xml", b"<a>&nope;</a>", ("line 1",)),
    "a bare ampersand": ("xml", b"<a>a & b</a>", ("line 1",)),
    "a control byte in XML": ("xml", b"<a>\x01</a>", ("line 1",)),
    "XML that is no UTF-8": ("xml", b"<a>\xff</a>", ("line 1",)),
    "a prefix that nobody declared": ("xml", b"<x:a/>", ("line 1",)),
    "JSON for XML": ("xml", b"{}", ("line 1", "column 1")),
    "a plist cut short": ("plist", XML_PLIST[:-12], ()),
    "a plist with another root": ("plist", b"<?xml version='1.0'?>\n<a/>", ("line 2",)),
    "a plist with another element": (
        "plist",
        b"<plist>\n<dict><key>a</key><odd/></dict></plist>",
        ("line 2",),
    ),
    "a plist with a key too many": ("plist", b"<plist><dict><key>a</key></dict></plist>", ("line 1",)),
    "a plist with no integer": ("plist", b"<plist><integer>1x</integer></plist>", ("line 1",)),
    "a plist with no base64": ("plist", b"<plist><data>*</data></plist>", ("line 1",)),
    "two values in a plist": ("plist", b"<plist><true/><true/></plist>", ("line 1",)),
    "the old plist format": ("plist", b"{ a = b; }", ()),
    "a binary plist cut short": ("plist", BINARY_PLIST[:-1], ()),
    "a binary plist without its trailer": ("plist", BINARY_PLIST[:-32], ()),
    "a binary plist of its magic alone": ("plist", b"bplist00", ()),
    "a binary plist with an object beyond its end": (
        "plist",
        BINARY_PLIST[:-16] + b"\xff" * 8 + BINARY_PLIST[-8:],
        (),
    ),
    "a binary plist that holds itself": (
        "plist",
        b"bplist00\xa1\x00\x08" + bytes(6) + b"\x01\x01" + bytes(7) + b"\x01" + bytes(8) + bytes(7) + b"\x0a",
        (),
    ),
    "text for an image": ("image", b"<html>not found</html>", ()),
    "a PNG with a wrong checksum": ("image", png().replace(b"IDAT", b"IDAU"), ()),
    "a PNG with a turned bit": ("image", bytes([*png()[:20], png()[20] ^ 1, *png()[21:]]), ()),
    "a PNG without its end": ("image", png()[:-12], ()),
    "a PNG without data": ("image", png()[:33] + png()[-12:], ()),
    "a PNG of no width": ("image", png(0, 2), ()),
    "more than image_pixels": ("image", png(1001, 1000), ()),
    "the signature of a PNG": ("image", png()[:8], ()),
    "an icon with a broken image": ("image", icon(png()[:-4]), ()),
    "an SVG": ("image", b"<svg xmlns='http://www.w3.org/2000/svg'/>", ()),
}


@pytest.mark.parametrize("how", ["reject", "annotate"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_body(name, how, ask):
    serializer, body, place = FAULTS[name]
    content_type = BODY_TYPES[serializer]
    violation = REJECT_ALL if how == "reject" else ANNOTATE_ALL
    got = ask(f'serializer = "{serializer}"\n{violation}', answer(body, content_type), limits=LIMITS)
    if how == "reject":
        problem = rejected(got, names=place)
        assert got.line["outcome"] == problem.token
    else:
        as_it_came(got, body, content_type=content_type)
        annotated(got, names=place)
        assert got.line["violation"]


@pytest.mark.parametrize("content_type", IMAGES)
def test_an_image_cut_short_anywhere(content_type, sallyport, raw_origin, raw_client):
    """Whatever the format: a proper prefix is never a picture. Some prefixes each, on one connection."""
    body = IMAGES[content_type]
    cuts = sorted({*range(2, len(body), max(1, len(body) // 12)), len(body) - 1})
    proxy = sallyport(policy=policy(response=f'serializer = "image"\n{REJECT_ALL}'))
    origin = raw_origin(serving(*(answer(body[:cut], content_type) for cut in cuts)))
    client = raw_client(proxy)
    passed = []
    for cut in cuts:
        got = client.exchange(request(origin, "/r"))
        if got.status == 200:
            passed.append(cut)
        else:
            rejected(got)
    goes_on(client, origin)
    assert not passed, f"taken for whole, of {len(body)} bytes: {passed}"


# Compound


COMPOUND = {
    "the first": ('["json", "image"]', JSON, VALID_JSON, True),
    "the second": ('["json", "image"]', "image/png", png(), True),
    "neither's type": ('["json", "image"]', "text/html", VALID_JSON, False),
    "the type of one and the body of the other": ('["json", "image"]', JSON, png(), False),
    "the first's type and a broken body": ('["json", "image"]', JSON, b"[", False),
    "the second's type and a broken body": ('["json", "image"]', "image/png", png()[:-1], False),
    "any type, the first's body": ('["json", "xml"]\nacceptable_content_types = ["*/*"]', "a/b", b"[]", True),
    "any type, the second's body": (
        '["json", "xml"]\nacceptable_content_types = ["*/*"]',
        "a/b",
        b"<a/>",
        True,
    ),
    "any type, nobody's body": ('["json", "xml"]\nacceptable_content_types = ["*/*"]', "a/b", b"text", False),
    "three": ('["image", "plist", "json"]', JSON, VALID_JSON, True),
    "one": ('["json"]', JSON, VALID_JSON, True),
    "one, broken": ('["json"]', JSON, b"[", False),
}


@pytest.mark.parametrize("how", ["reject", "annotate"])
@pytest.mark.parametrize("name", COMPOUND)
def test_a_compound(name, how, ask):
    """It never falls back to the bytes as they are, as AFNetworking's does."""
    serializers, content_type, body, good = COMPOUND[name]
    violation = REJECT_ALL if how == "reject" else ANNOTATE_ALL
    got = ask(f"serializer = {serializers}\n{violation}", answer(body, content_type))
    if good:
        accepted(got, body, content_type=content_type)
    elif how == "reject":
        rejected(got)
    else:
        as_it_came(got, body, content_type=content_type)
        annotated(got)


# Where nothing, or not everything, is checked


def test_http_checks_the_status_only(ask):
    response = f'serializer = "http"\n{REJECT_ALL}'
    accepted(ask(response, answer(b"\xff{", "text/odd")), b"\xff{", content_type="text/odd")
    rejected(ask(response, answer(b"\xff{", "text/odd", 500)), code=BAD_SERVER_RESPONSE, names=("500",))


def test_a_rule_without_a_response_table_checks_nothing(ask):
    accepted(ask("", answer(b"[", "text/odd", 500)), b"[", 500, "text/odd")


NOTHING_TO_CHECK = {
    "204": answer(b"", None, 204, framing="none"),
    "304": answer(b"", None, 304, 'ETag: "a"\r\n', framing="none"),
    "304 with a type and a length": answer(b"", "text/html", 304, "Content-Length: 9\r\n", framing="none"),
}


@pytest.mark.parametrize("name", NOTHING_TO_CHECK)
def test_what_carries_nothing_to_check(name, ask):
    """Not even a status: a 304 is what a client with a validator of its own asked for."""
    got = ask(f'serializer = "json"\n{REJECT_ALL}', NOTHING_TO_CHECK[name])
    assert got.status == int(name[:3]) and annotation(got) is None


@pytest.mark.parametrize("how", ["reject", "annotate"])
@pytest.mark.parametrize(
    "status, content_type", [(200, JSON), (200, "text/html"), (500, JSON), (500, "text/html")]
)
@pytest.mark.parametrize("kind", ["HEAD", "empty", "a space", "empty, chunked", "a space, chunked"])
def test_head_empty_and_single_space_are_checked_for_status_and_type(kind, status, content_type, how, ask):
    violation = REJECT_ALL if how == "reject" else ANNOTATE_ALL
    framing = "chunked" if kind.endswith("chunked") else "length"
    if kind == "HEAD":
        said, body = answer(b"", content_type, status, "Content-Length: 7\r\n", framing="none"), b""
    else:
        body = b" " if kind.startswith("a space") else b""
        said = answer(body, content_type, status, framing=framing)
    got = ask(f'serializer = "json"\n{violation}', said, "HEAD" if kind == "HEAD" else "GET")
    names = ("500",) * (status == 500) + ("text/html",) * (content_type != JSON)
    if not names:
        accepted(got, body)
        assert kind != "HEAD" or got.value("Content-Length") == b"7"
    elif how == "reject" and kind == "HEAD":
        assert got.status == 502 and b"rule=r ref=" in got.reason and got.body == b""
    elif how == "reject":
        rejected(got, code=BAD_SERVER_RESPONSE if status == 500 else CANNOT_DECODE, names=names)
    else:
        as_it_came(got, body, status, content_type)
        annotated(got, names=names)


def test_two_spaces_are_no_single_space(ask):
    rejected(ask(f'serializer = "json"\n{REJECT_ALL}', answer(b"  ")))


# Whose rule it is


def test_a_rule_that_is_not_enforced_rejects_nothing_and_is_logged(ask):
    wrong = {
        "status": answer(VALID_JSON, status=500),
        "type": answer(VALID_JSON, "text/html"),
        "body": answer(b"["),
    }
    for kind, said in wrong.items():
        response = f'serializer = "json"\noversize = "reject"\n{REJECT_ALL}'
        got = ask(response, said, conditions="enforce = false")
        assert (got.status, got.body) == ((500 if kind == "status" else 200), said.partition(b"\r\n\r\n")[2])
        assert got.line["violation"] and got.line["outcome"] == "done"


def test_the_defaults_of_responses_hold_where_a_rule_is_silent(sallyport, raw_origin, raw_client):
    defaults = f'[defaults.response]\nserializer = "json"\nacceptable_status = [200]\n{REJECT_ALL}\n'
    rules = (
        '[[rule]]\nname = "silent"\npaths = ["/silent"]\n'
        '[[rule]]\nname = "other"\npaths = ["/other"]\n[rule.response]\nserializer = "xml"\n'
    )
    proxy = sallyport(policy=defaults + rules)
    origin = raw_origin(
        serving(answer(b"[]"), answer(b"["), answer(b"<a/>", XML), answer(b"<a/>", XML, 201), answer(b"["))
    )
    client = raw_client(proxy)
    accepted(client.exchange(request(origin, "/silent")), b"[]")
    rejected(client.exchange(request(origin, "/silent")), rule="silent")
    accepted(client.exchange(request(origin, "/other")), b"<a/>", content_type=XML)
    rejected(
        client.exchange(request(origin, "/other")), code=BAD_SERVER_RESPONSE, names=("201",), rule="other"
    )
    # Silent in the specification: what no rule matches has the defaults as well, as for requests.
    of_none = client.exchange(request(origin, "/nobody"))
    assert of_none.status == 502 and check_problem(of_none, 502).rule is None


def test_the_log_names_each_violation(sallyport, raw_origin, raw_client):
    """By a word that is stable, and different for status, type and body; the same whether rejected or annotated."""
    words = {}
    for violation in (REJECT_ALL, ANNOTATE_ALL):
        proxy = sallyport(policy=policy(response=f'serializer = "json"\n{violation}'))
        origin = raw_origin(serving(answer(b"[]", status=500), answer(b"[]", "text/html"), answer(b"[")))
        client = raw_client(proxy)
        for path in ("/status", "/type", "/body"):
            client.exchange(request(origin, path))
            line = proxy.access(lambda line: line["target"].endswith(path))
            assert line["rule"] == "r" and (line["outcome"] != "done") != bool(line["violation"])
            assert line["upstream"] == origin.authority
            words.setdefault(path, set()).add(line["violation"] or line["outcome"])
    assert all(len(word) == 1 for word in words.values()), words
    assert len(set().union(*words.values())) == 3, words


def test_an_answer_inside_an_intercepted_tunnel_is_checked(intercepting, inside, tls_origin, world):
    rules = (
        '[[rule]]\nname = "r"\nhosts = ["a.test"]\nconnect = "intercept"\n[rule.response]\n'
        f'serializer = "json"\nremove_nulls = true\n{REJECT_ALL}\n'
    )
    script = serving(answer(b"[1, null]"), answer(b"["), answer(b"[2]"))
    server = tls_origin(script, world.context(world.leaf("a.test")))
    client = inside(intercepting(rules), "a.test", server.port)
    host = f"a.test:{server.port}"
    assert json.loads(client.get_inside(host).body) == [1]
    rejected(client.get_inside(host), names=("line 1",))
    accepted(client.get_inside(host), b"[2]")
