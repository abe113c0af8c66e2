"""[rule.request] transcode: a form, or the fields of a multipart body, that the origin gets as JSON or as a plist.

Bracket syntax becomes objects and arrays, values stay strings, and type and length are those of the new body.
"""

import gzip
import json
import plistlib

import pytest
import requests

from conftest import need
from journal import DEADLINE_SECONDS
from origins import answering
from problems import check_problem
from serializer_world import (
    FORM,
    JSON,
    OK,
    PLIST,
    adding,
    encoded,
    goes_on,
    goes_on_or_is_closed,
    policy,
    post,
    post_chunked,
    request,
)
from test_clients import run

READ = {"json": json.loads, "plist": plistlib.loads}
TYPES = {"json": JSON, "plist": PLIST}


def transcoding(serializer: str, *lines: str) -> str:
    return "\n".join([f'serializer = "{serializer}"', "transcode = true", *lines])


FORMS = {
    "one": (b"a=b", {"a": "b"}),
    "several, values that stay strings": (
        b"n=7&t=true&z=null&e=&d=1.0",
        {"n": "7", "t": "true", "z": "null", "e": "", "d": "1.0"},
    ),
    "a plus and escapes": (b"a+b=c+d%2Be%26%3d&%C3%A4=%e2%82%ac", {"a b": "c d+e&=", "ä": "€"}),
    "a value with an equals sign": (b"a=b=c", {"a": "b=c"}),
    "quotes, backslashes, control bytes": (b"a=%22%5C%0A%09%1F%2F%7F", {"a": '"\\\n\t\x1f/\x7f'}),
    "markup": (b"a%3Cb=%3C%26%3E%22'%5D%5D%3E", {"a<b": "<&>\"']]>"}),
    "a four-byte letter": (b"a=%F0%9F%98%80", {"a": "😀"}),
    "an object": (b"a[c]=2&a[b]=1", {"a": {"c": "2", "b": "1"}}),
    "an object, its brackets encoded": (b"a%5Bc%5D=2&a%5bb%5d=1", {"a": {"c": "2", "b": "1"}}),
    "an array": (b"a[]=z&a[]=b", {"a": ["z", "b"]}),
    "objects in objects": (b"a[b][c][d]=e&a[b][x]=y", {"a": {"b": {"c": {"d": "e"}, "x": "y"}}}),
    "an array in an object": (b"f[l][]=en&f[l][]=de&f[x]=y", {"f": {"l": ["en", "de"], "x": "y"}}),
    "an object in an array": (b"a[][b]=c", {"a": [{"b": "c"}]}),
    "an array in an array": (b"a[][]=c", {"a": [["c"]]}),
    "keys in between": (b"a[]=1&b=2&a[]=3", {"a": ["1", "3"], "b": "2"}),
    "a key that looks like an index": (b"a[0]=x", {"a": {"0": "x"}}),
}
CONTROL = "quotes, backslashes, control bytes"  # XML 1.0 has no U+001F


@pytest.mark.parametrize("how", ["sized", "chunked"])
@pytest.mark.parametrize("serializer", READ)
@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_transcoded(name, serializer, how, sallyport, raw_origin, raw_client):
    body, expected = FORMS[name]
    proxy, origin = sallyport(policy=policy(transcoding(serializer))), raw_origin(answering(OK))
    client = raw_client(proxy)
    data = (post if how == "sized" else post_chunked)(origin, body, FORM, path="/p?x")
    if name == CONTROL and serializer == "plist":
        # Silent in the specification: what XML cannot carry is a conflict, never a broken plist.
        check_problem(client.exchange(data), 415, rule="r")
        return
    for _ in range(2):
        assert client.exchange(data).status == 200
    goes_on(client, origin)
    for message in origin.requests()[:2]:
        assert (message.target, message.values("Content-Type")) == (b"/p?x", [TYPES[serializer].encode()])
        assert READ[serializer](message.body) == expected
        if serializer == "plist":
            assert message.body.startswith(b"<?xml")


def test_what_afnetworking_encodes_comes_back(sallyport, raw_origin, raw_client):
    """Down through the encoder and up again: the same tree, with strings for leaves."""
    tree = {"a": {"b": ["1", "2", "ä &=+%[]"], "c": {"d": {"e": "f/?"}}}, "g": ["h"], "Z": ""}
    proxy, origin = sallyport(policy=policy(transcoding("json"))), raw_origin(answering(OK))
    assert raw_client(proxy).exchange(post(origin, encoded(tree), FORM)).status == 200
    assert json.loads(origin.requests()[0].body) == tree


@pytest.mark.parametrize("serializer", READ)
def test_parameters_are_merged_into_what_was_transcoded(serializer, sallyport, raw_origin, raw_client):
    table = adding({"n": 7, "key": "rule's", "t": {"x": True}}, transcoding(serializer))
    proxy, origin = sallyport(policy=policy(table)), raw_origin(answering(OK))
    client = raw_client(proxy)
    assert client.exchange(post(origin, b"key=client%27s&own[]=1", FORM)).status == 200
    assert client.exchange(request(origin, "/p")).status == 200
    first, second = origin.requests()
    assert READ[serializer](first.body) == {"own": ["1"], "key": "rule's", "n": 7, "t": {"x": True}}
    assert first.value("Content-Type") == TYPES[serializer].encode()
    assert second.target == b"/p?key=rule%27s&n=7&t%5Bx%5D=1"


def test_methods_with_parameters_in_the_uri_have_their_forms_transcoded_too(
    sallyport, raw_origin, raw_client
):
    """`parameters_in_uri` is about parameters; a form in the body of a DELETE is a form. Silent in the specification."""
    proxy, origin = sallyport(policy=policy(adding({"k": 1}, transcoding("json")))), raw_origin(answering(OK))
    assert raw_client(proxy).exchange(post(origin, b"a=b", FORM, method="DELETE")).status == 200
    (message,) = origin.requests()
    assert message.target == b"/?k=1"
    assert (message.value("Content-Type"), json.loads(message.body)) == (JSON.encode(), {"a": "b"})


NOT_FORMS = {
    "no body": lambda origin: request(origin, method="POST"),
    "an object": lambda origin: post(origin, b'{ "a": 1.0 }', JSON),
    "a GET": lambda origin: request(origin, "/p?a[b]=c"),
}


@pytest.mark.parametrize("name", NOT_FORMS)
def test_what_needs_no_transcoding_passes_as_it_came(name, sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=policy(transcoding("json"))), raw_origin(answering(OK))
    data = NOT_FORMS[name](origin)
    client = raw_client(proxy)
    assert client.exchange(data).status == 200
    goes_on(client, origin)
    message = origin.requests()[0]
    assert message.body == data.partition(b"\r\n\r\n")[2]
    assert message.target == (b"/p?a[b]=c" if name == "a GET" else b"/")


# Each: a form that has no tree
CLASHES = {
    "a value and an object": b"a=1&a[b]=2",
    "an object and a value": b"a[b]=2&a=1",
    "an array and an object": b"a[]=1&a[b]=2",
    "an object and an array": b"a[b]=2&a[]=1",
    "a value that is no UTF-8": b"a=%ff",
    "a key that is no UTF-8": b"%ff=a",
    "an escape that is none": b"a=%zz",
    "an escape that is cut short": b"a=%4",
    "brackets deeper than json_depth": b"a" + b"[b]" * 600 + b"=c",
}


@pytest.mark.parametrize("on_conflict", ["reject", "pass"])
@pytest.mark.parametrize("name", CLASHES)
def test_a_form_that_cannot_be_transcoded(name, on_conflict, sallyport, raw_origin, raw_client):
    """Silent in the specification on which: nothing is dropped, and nothing is made up."""
    table = transcoding("json", f'on_conflict = "{on_conflict}"')
    proxy, origin = sallyport(policy=policy(table)), raw_origin(answering(OK))
    client = raw_client(proxy)
    said = client.exchange(post(origin, CLASHES[name], FORM))
    if on_conflict == "reject":
        check_problem(said, 415, error="http_request_error", rule="r")
        assert origin.requests() == []
    else:
        assert said.status == 200
        assert (origin.requests()[0].body, origin.requests()[0].value("Content-Type")) == (
            CLASHES[name],
            FORM.encode(),
        )
    goes_on_or_is_closed(client, origin, said)


def test_a_form_whose_new_body_would_be_above_the_limit(sallyport, raw_origin, raw_client):
    """Each bracket is a few bytes here and an object there: what is made has the limit too. Silent in the specification."""
    form = b"&".join(b"k%d[]=" % number for number in range(400))
    table = policy(transcoding("plist"), limits='buffered_body = "4KiB"')
    proxy, origin = sallyport(policy=table), raw_origin(answering(OK))
    said = raw_client(proxy).exchange(post(origin, form, FORM))
    if said.status == 200:
        assert plistlib.loads(origin.requests()[0].body) == {f"k{number}": [""] for number in range(400)}
    else:
        check_problem(said, 413, rule="r")
        assert origin.requests() == []


def test_a_form_in_a_content_coding_is_not_transcoded(sallyport, raw_origin, raw_client):
    """Silent in the specification: coded bytes are a conflict, and never sent on under a type that they are not."""
    proxy, origin = sallyport(policy=policy(transcoding("json"))), raw_origin(answering(OK))
    said = raw_client(proxy).exchange(post(origin, gzip.compress(b"a=b"), FORM, "Content-Encoding: gzip\r\n"))
    check_problem(said, 415, rule="r")
    assert origin.requests() == []


def test_a_client_that_waits_for_100_has_its_form_transcoded(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=policy(transcoding("json"))), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(post(origin, None, FORM, "Expect: 100-continue\r\nContent-Length: 3\r\n"))
    assert client.message().status == 100
    client.send(b"a=b")
    assert client.message().body == b"ok"
    assert json.loads(origin.requests()[0].body) == {"a": "b"}


# Multipart


def multipart(
    *parts: tuple[str, bytes], boundary: str = "b", before: bytes = b"", after: bytes = b""
) -> bytes:
    """`parts` are the fields of a part, without the last CRLF, and its body."""
    mark = boundary.encode()
    body = b"".join(b"--%s\r\n%s\r\n\r\n%s\r\n" % (mark, fields.encode(), data) for fields, data in parts)
    return before + body + b"--" + mark + b"--\r\n" + after


def field(name: str, more: str = "") -> str:
    return f'Content-Disposition: form-data; name="{name}"{more}'


MULTIPART = "multipart/form-data; boundary="
# Each: boundary as the type has it, the body, and the tree
MULTIPARTS = {
    "one field": ("b", multipart((field("a"), b"1")), {"a": "1"}),
    "several, one empty": ("b", multipart((field("a"), b"1"), (field("e"), b"")), {"a": "1", "e": ""}),
    "brackets in names": (
        "b",
        multipart((field("a[b][]"), b"1"), (field("a[b][]"), b"2"), (field("a[c]"), b"3")),
        {"a": {"b": ["1", "2"], "c": "3"}},
    ),
    "values that a form would encode": (
        "b",
        multipart((field("a"), b"x+y%20&=\r\n--c\r\n"), (field("ä"), "€".encode())),
        {"a": "x+y%20&=\r\n--c\r\n", "ä": "€"},
    ),
    "a quoted boundary": ('"a b:c"', multipart((field("a"), b"1"), boundary="a b:c"), {"a": "1"}),
    "a type for a field": ("b", multipart((field("a") + "\r\nContent-Type: text/plain", b"1")), {"a": "1"}),
    "field names in small letters": (
        "b",
        multipart(('content-disposition: form-data;name="a"', b"1")),
        {"a": "1"},
    ),
}


@pytest.mark.parametrize("how", ["sized", "chunked"])
@pytest.mark.parametrize("serializer", READ)
@pytest.mark.parametrize("name", MULTIPARTS)
def test_multipart_fields_are_transcoded(name, serializer, how, sallyport, raw_origin, raw_client):
    boundary, body, expected = MULTIPARTS[name]
    proxy, origin = sallyport(policy=policy(transcoding(serializer))), raw_origin(answering(OK))
    client = raw_client(proxy)
    build = post if how == "sized" else post_chunked
    for _ in range(2):
        assert client.exchange(build(origin, body, MULTIPART + boundary)).status == 200
    goes_on(client, origin)
    message = origin.requests()[0]
    if (
        serializer == "plist"
    ):  # XML makes one line feed of CR LF, unless it is written as a reference: both are right
        expected = json.loads(json.dumps(expected).replace("\\r\\n", "\\n"))
        read = json.loads(json.dumps(plistlib.loads(message.body)).replace("\\r\\n", "\\n"))
    else:
        read = json.loads(message.body)
    assert (read, message.values("Content-Type")) == (expected, [TYPES[serializer].encode()])


@pytest.mark.parametrize(
    "before, after", [(b"preamble\r\n", b""), (b"", b"epilogue")], ids=["before", "behind"]
)
def test_text_around_the_parts(before, after, sallyport, raw_origin, raw_client):
    """RFC 2046 §5.1.1 has it ignored, nobody sends it. Silent in the specification: ignored, or a conflict."""
    body = multipart((field("a"), b"1"), before=before, after=after)
    proxy, origin = sallyport(policy=policy(transcoding("json"))), raw_origin(answering(OK))
    said = raw_client(proxy).exchange(post(origin, body, MULTIPART + "b"))
    if said.status == 200:
        assert json.loads(origin.requests()[0].body) == {"a": "1"}
    else:
        check_problem(said, 415, rule="r")


MULTIPART_CONFLICTS = {
    "a file": ("b", multipart((field("a"), b"1"), (field("f", '; filename="f.txt"'), b"x"))),
    "a file of no name": ("b", multipart((field("f", '; filename=""'), b""))),
    "a file with an encoded name": ("b", multipart((field("f", "; filename*=UTF-8''f"), b"x"))),
    "no end": ("b", multipart((field("a"), b"1"))[:-6]),
    "another boundary": ("c", multipart((field("a"), b"1"))),
    "a part without a name": ("b", multipart(("Content-Disposition: form-data", b"1"))),
    "a part without fields": ("b", b"--b\r\n\r\n1\r\n--b--\r\n"),
    "no boundary in the type": ('""', multipart((field("a"), b"1"))),
    "a type that ends before its boundary": ("", multipart((field("a"), b"1"))),
    "a boundary that needs quotes": ("b c", multipart((field("a"), b"1"), boundary="b c")),
    "a value that is no UTF-8": ("b", multipart((field("a"), b"\xff"))),
}


@pytest.mark.parametrize("on_conflict", ["reject", "pass"])
@pytest.mark.parametrize("name", MULTIPART_CONFLICTS)
def test_multipart_that_cannot_be_transcoded(name, on_conflict, sallyport, raw_origin, raw_client):
    boundary, body = MULTIPART_CONFLICTS[name]
    table = transcoding("json", f'on_conflict = "{on_conflict}"')
    proxy, origin = sallyport(policy=policy(table)), raw_origin(answering(OK))
    client = raw_client(proxy)
    said = client.exchange(post(origin, body, MULTIPART + boundary))
    if on_conflict == "reject":
        check_problem(said, 415, error="http_request_error", rule="r")
        assert origin.requests() == []
    else:
        assert said.status == 200
        (message,) = origin.requests()
        assert (message.body, message.value("Content-Type")) == (body, (MULTIPART + boundary).encode())
    goes_on_or_is_closed(client, origin, said)


def test_curl_and_requests_send_multipart(sallyport, raw_origin, tmp_path):
    need("curl")
    proxy, origin = sallyport(policy=policy(transcoding("json"))), raw_origin(answering(OK))
    curl = ["curl", "-sS", "--fail", "--max-time", "15", "--proxy", proxy.url]
    assert run(*curl, "-F", "a[b]=1", "-F", "a[c]=ä;type=text/plain; charset=utf-8", origin.url) == b"ok"
    with requests.Session() as session:
        session.proxies = {"http": proxy.url}
        fields = {"a[b]": (None, "1"), "l[]": (None, "x y")}
        assert session.post(origin.url, files=fields, timeout=DEADLINE_SECONDS).text == "ok"
        assert (
            session.post(origin.url, data={"a[b]": "1", "l[]": "x y"}, timeout=DEADLINE_SECONDS).text == "ok"
        )
    of_curl, of_requests, of_form = (json.loads(message.body) for message in origin.requests())
    assert of_curl == {"a": {"b": "1", "c": "ä"}}
    assert of_requests == of_form == {"a": {"b": "1"}, "l": ["x y"]}


def test_curl_and_requests_send_files(sallyport, raw_origin, tmp_path):
    """Files are left alone: refused, or passed as they came."""
    need("curl")
    file = tmp_path / "file.bin"
    file.write_bytes(bytes(range(256)) * 100)
    for on_conflict, status in (("reject", 415), ("pass", 200)):
        table = transcoding("json", f'on_conflict = "{on_conflict}"')
        proxy, origin = sallyport(policy=policy(table)), raw_origin(answering(OK))
        curl = [
            "curl",
            "-sS",
            "--max-time",
            "15",
            "--proxy",
            proxy.url,
            "-w",
            "%{http_code}",
            "-o",
            "/dev/null",
        ]
        assert run(*curl, "-F", "a=1", "-F", f"f=@{file}", origin.url) == str(status).encode()
        with requests.Session() as session:
            session.proxies = {"http": proxy.url}
            files = {"f": ("file.bin", file.read_bytes())}
            got = session.post(origin.url, data={"a": "1"}, files=files, timeout=DEADLINE_SECONDS)
        assert got.status_code == status
        assert [file.read_bytes() in message.body for message in origin.requests()] == [True] * (
            status == 200
        ) * 2
