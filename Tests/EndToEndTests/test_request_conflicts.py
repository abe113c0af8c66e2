"""[rule.request] on_conflict: a body that parameters cannot be merged into, or that cannot be transcoded.

"reject" answers 413 or 415 and sends nothing upstream; "pass" sends the request as it came, as does a rule that is not
enforced. Each row of CONFLICTS meets all three, sized and in chunks. Then: what Expect: 100-continue does to a body that
is held, with a raw client and with curl.
"""

import gzip
import json
import plistlib

import pytest

from conftest import need
from journal import readable
from origins import answering, echoing
from problems import check_problem
from serializer_world import (
    FORM,
    JSON,
    OK,
    PLIST,
    adding,
    goes_on,
    goes_on_or_is_closed,
    policy,
    post,
    post_chunked,
    request,
)
from test_clients import run

PARAMETERS = {"key": "rule's", "n": 7}
LIMIT_BYTES = 4096
LIMITS = f'buffered_body = "{LIMIT_BYTES // 1024}KiB"\njson_depth = 32'
MULTIPART = "multipart/form-data; boundary=b"
PART = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n'
# Each: [rule.request] beside the parameters, the client's fields, its body, and the status of the refusal
CONFLICTS = {
    "a form's rule and text": ('serializer = "http"', "text/plain", b"a=b", 415),
    "a form's rule and JSON": ('serializer = "http"', JSON, b"{}", 415),
    "a form's rule and a plist": ('serializer = "http"', PLIST, plistlib.dumps({}), 415),
    "a form's rule and multipart without an end": ('serializer = "http"', MULTIPART, PART[:-6], 415),
    "a rule for JSON and multipart of another boundary": ('serializer = "json"', MULTIPART + "x", PART, 415),
    "a form's rule and a body without a type": ('serializer = "http"', None, b"a=b", 415),
    "a form's rule and a type that is none": ('serializer = "http"', "form", b"a=b", 415),
    "a rule for JSON and a form": ('serializer = "json"', FORM, b"a=b", 415),
    "a rule for JSON and a plist": ('serializer = "json"', PLIST, plistlib.dumps({}), 415),
    "a rule for JSON and a type that begins so": ('serializer = "json"', "application/jsonx", b"{}", 415),
    "an array": ('serializer = "json"', JSON, b'[{"a":1}]', 415),
    "a string": ('serializer = "json"', JSON, b'"a"', 415),
    "null": ('serializer = "json"', JSON, b"null", 415),
    "JSON that is cut short": ('serializer = "json"', JSON, b'{"a":1', 415),
    "JSON and more": ('serializer = "json"', JSON, b'{"a":1}}', 415),
    "JSON with a comma too many": ('serializer = "json"', JSON, b'{"a":1,}', 415),
    "JSON in single quotes": ('serializer = "json"', JSON, b"{'a':1}", 415),
    "JSON that is no UTF-8": ('serializer = "json"', JSON, b'{"a":"\xff"}', 415),
    "JSON deeper than json_depth": (
        'serializer = "json"',
        JSON,
        b'{"a":' + b"[" * 40 + b"]" * 40 + b"}",
        415,
    ),
    "white space": ('serializer = "json"', JSON, b" \n", 415),
    "a rule for plists and JSON": ('serializer = "plist"', JSON, b"{}", 415),
    "an array in XML": ('serializer = "plist"', PLIST, plistlib.dumps([1]), 415),
    "a binary array": ('serializer = "plist"', PLIST, plistlib.dumps([1], fmt=plistlib.FMT_BINARY), 415),
    "a plist that is cut short": ('serializer = "plist"', PLIST, plistlib.dumps({"a": "b"})[:-10], 415),
    "a binary plist that is cut short": (
        'serializer = "plist"',
        PLIST,
        plistlib.dumps({"a": "b"}, fmt=plistlib.FMT_BINARY)[:-1],
        415,
    ),
    "XML that is no plist": ('serializer = "plist"', PLIST, b"<?xml version='1.0'?><a/>", 415),
    "a transcoding rule and text": ('serializer = "json"\ntranscode = true', "text/plain", b"a=b", 415),
    "a transcoding rule and an array": ('serializer = "json"\ntranscode = true', JSON, b"[]", 415),
    "a transcoding rule and a file": (
        'serializer = "json"\ntranscode = true',
        MULTIPART,
        PART.replace(b'"a"', b'"a"; filename="f"'),
        415,
    ),
    "a form of just more than the limit": (
        'serializer = "http"',
        FORM,
        b"a=" + b"b" * (LIMIT_BYTES - 1),
        413,
    ),
    "an object of much more than the limit": (
        'serializer = "json"',
        JSON,
        json.dumps({"a": "b" * 1_000_000}).encode(),
        413,
    ),
    "a dictionary of more than the limit": (
        'serializer = "plist"',
        PLIST,
        plistlib.dumps({"a": "b" * 10_000}),
        413,
    ),
}


def sent(origin, name: str, how: str, lines: str = "") -> bytes:
    _, content_type, body, _ = CONFLICTS[name]
    if how == "sized":
        return post(origin, body, content_type, lines, path="/p?x")
    return post_chunked(origin, body, content_type, lines, 1000, path="/p?x")


@pytest.mark.parametrize("how", ["sized", "chunked"])
@pytest.mark.parametrize("name", CONFLICTS)
def test_a_conflict_is_refused(name, how, sallyport, raw_origin, raw_client):
    """By default; and the connection goes on, or says that it does not."""
    table, _, _, status = CONFLICTS[name]
    proxy, origin = sallyport(policy=policy(adding(PARAMETERS, table), limits=LIMITS)), raw_origin(
        answering(OK)
    )
    client = raw_client(proxy)
    said = client.exchange(sent(origin, name, how))
    problem = check_problem(said, status, error="http_request_error", rule="r")
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["rule"], line["upstream"]) == (status, "r", None)
    assert line["outcome"] == problem.token
    assert origin.requests() == []
    goes_on_or_is_closed(client, origin, said)


AS_IT_CAME = {
    "on_conflict": ('on_conflict = "pass"', ""),
    "a rule that is not enforced": ("", "enforce = false"),
    "a rule that is not enforced and says reject": ('on_conflict = "reject"', "enforce = false"),
}


@pytest.mark.parametrize("how", ["sized", "chunked"])
@pytest.mark.parametrize("why", AS_IT_CAME)
@pytest.mark.parametrize("name", CONFLICTS)
def test_a_conflict_passes_as_it_came(name, why, how, sallyport, raw_origin, raw_client):
    table, content_type, body, status = CONFLICTS[name]
    more, conditions = AS_IT_CAME[why]
    rules = policy(adding(PARAMETERS, table, more), conditions=conditions, limits=LIMITS)
    proxy, origin = sallyport(policy=rules), raw_origin(echoing)
    client = raw_client(proxy)
    assert client.exchange(sent(origin, name, how)).body == body
    assert client.exchange(sent(origin, name, how)).body == body, "the same again, on the same connection"
    goes_on_empty(client, origin)
    for message in origin.requests()[:2]:
        assert (message.target, message.body) == (b"/p?x", body)
        assert message.values("Content-Type") == ([content_type.encode()] if content_type else [])
        assert message.framing == ("length" if how == "sized" else "chunked")
    line = proxy.access(lambda line: line["method"] == "POST")
    assert (line["status"], line["rule"]) == (200, "r")
    # What the rule would have refused, or found: silent in the specification on the key.
    assert line["violation"] == ("unsupported-body" if status == 415 else "request-body-too-large")


def goes_on_empty(client, origin) -> None:
    answer = client.exchange(request(origin, "/after"))
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("how", ["sized", "chunked"])
@pytest.mark.parametrize("on_conflict", ["reject", "pass"])
def test_a_body_of_just_the_limit_is_merged(on_conflict, how, sallyport, raw_origin, raw_client):
    rules = policy(adding({"a": "b"}, f'on_conflict = "{on_conflict}"'), limits=LIMITS)
    proxy, origin = sallyport(policy=rules), raw_origin(answering(OK))
    body = b"a=" + b"b" * (LIMIT_BYTES - 2)
    build = post if how == "sized" else post_chunked
    client = raw_client(proxy)
    assert client.exchange(build(origin, body, FORM)).status == 200
    assert origin.requests()[0].body == body + b"&a=b"
    goes_on(client, origin)


def test_a_body_above_the_limit_that_passes_streams(sallyport, raw_origin, raw_client):
    """Once it is known to be too large, nothing waits for its end: the origin gets what there is before the rest comes."""

    def reading(connection) -> None:
        connection.read_head()
        connection.read_to = bytes(connection.received).index(b"\r\n\r\n") + 4
        connection.read_exactly(LIMIT_BYTES)
        origin.note("some came")
        connection.read_to = 0
        connection.read_body()
        connection.send(OK)
        connection.wait_for_end()

    rules = policy(adding({"a": "b"}, 'on_conflict = "pass"'), limits=LIMITS)
    proxy, origin = sallyport(policy=rules), raw_origin(reading)
    client = raw_client(proxy)
    body = bytes(range(256)) * 100
    data = post_chunked(origin, body, FORM, size=1000)
    client.send(data[:-500])
    origin.wait_for("some came")
    client.send(data[-500:])
    assert client.answer().body == b"ok"
    assert origin.requests()[0].body == body


@pytest.mark.parametrize("coding", ["gzip", "identity"])
@pytest.mark.parametrize("on_conflict", ["reject", "pass"])
def test_a_body_in_a_content_coding(on_conflict, coding, sallyport, raw_origin, raw_client):
    """Silent in the specification: parameters are not appended to coded bytes, so that it is a conflict; identity is none."""
    proxy = sallyport(policy=policy(adding({"a": "b"}, f'on_conflict = "{on_conflict}"')))
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    body = gzip.compress(b"own=1") if coding == "gzip" else b"own=1"
    said = client.exchange(post(origin, body, FORM, f"Content-Encoding: {coding}\r\n"))
    if coding == "identity":
        assert said.status == 200 and origin.requests()[0].body == b"own=1&a=b"
    elif on_conflict == "pass":
        assert said.status == 200 and origin.requests()[0].body == body
        assert origin.requests()[0].value("Content-Encoding") == b"gzip"
    else:
        check_problem(said, 415, error="http_request_error", rule="r")
        assert origin.requests() == []
    goes_on_or_is_closed(client, origin, said)


def test_a_refusal_says_what_was_expected_and_seen(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=policy(adding(PARAMETERS, 'serializer = "json"'))), raw_origin(
        answering(OK)
    )

    def detail(body: bytes, content_type: str) -> str:
        said = raw_client(proxy).exchange(post(origin, body, content_type))
        return check_problem(said, 415, rule="r").body["detail"]

    of_type, of_array = detail(b"a=b", "text/odd"), detail(b"[]", JSON)
    assert "text/odd" in of_type and "json" in of_type.lower()
    assert "array" in of_array and "object" in of_array
    of_fault = detail(b'{"a":\n  ?}', JSON)
    assert "line 2" in of_fault and "column 3" in of_fault


def test_a_broken_chunk_in_a_held_body_is_400(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=policy(adding(PARAMETERS))), raw_origin(answering(OK))
    client = raw_client(proxy)
    data = post_chunked(origin, b"own=1", FORM).replace(b"0\r\n\r\n", b"x\r\n\r\n")
    check_problem(client.exchange(data), 400)
    assert client.wait_for_end() == "closed"
    assert origin.requests() == []


def test_trailers_behind_a_merged_body_do_no_harm(sallyport, raw_origin, raw_client):
    """Silent in the specification whether they go on; the body and the next request must be right."""
    proxy, origin = sallyport(policy=policy(adding({"a": "b"}))), raw_origin(answering(OK))
    client = raw_client(proxy)
    data = post_chunked(origin, b"own=1", FORM).replace(b"0\r\n\r\n", b"0\r\nX-Sum: y\r\n\r\n")
    for _ in range(2):
        assert client.exchange(data).status == 200
    goes_on(client, origin)
    assert [message.body for message in origin.requests()] == [b"own=1&a=b"] * 2 + [b""]


# Expect: 100-continue


def test_a_client_that_waits_for_100_is_told_to_go_on(sallyport, raw_origin, raw_client):
    """The origin sees nothing before the body is whole, so the proxy speaks for it."""
    proxy, origin = sallyport(policy=policy(adding({"a": "b"}))), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(post(origin, lines="Expect: 100-continue\r\nContent-Length: 5\r\n", content_type=FORM))
    assert client.message().status == 100
    assert origin.requests() == []
    client.send(b"own=1")
    assert client.message().body == b"ok"
    assert origin.requests()[0].body == b"own=1&a=b"
    goes_on(client, origin)


REFUSED_BY_THE_HEAD = {
    "a type that cannot be merged": ("Content-Type: text/plain\r\nContent-Length: 5\r\n", 415),
    "a length above the limit": (f"Content-Type: {FORM}\r\nContent-Length: 5000000\r\n", 413),
}


@pytest.mark.parametrize("name", REFUSED_BY_THE_HEAD)
def test_a_client_that_waits_for_100_is_refused_before_it_sends(name, sallyport, raw_origin, raw_client):
    lines, status = REFUSED_BY_THE_HEAD[name]
    proxy, origin = sallyport(policy=policy(adding({"a": "b"}), limits=LIMITS)), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(post(origin, lines="Expect: 100-continue\r\n" + lines))
    said = client.message()
    check_problem(said, status, rule="r")
    assert b"close" in said.options("Connection"), "the body may come or not: nobody knows where it would end"
    assert client.wait_for_end() == "closed"
    assert origin.requests() == []


def test_another_expectation_is_the_origins(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=policy(adding({"a": "b"}))), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(post(origin, lines="Expect: foo\r\nContent-Length: 5\r\n", content_type=FORM) + b"own=1")
    assert client.message().body == b"ok"
    assert origin.requests()[0].values("Expect") == [b"foo"] and origin.requests()[0].body == b"own=1&a=b"


def test_a_conflict_that_passes_leaves_100_to_the_origin(sallyport, raw_origin, raw_client):
    def agreeing(connection) -> None:
        connection.read_head()
        assert not readable(connection.socket), "the body came before anyone had agreed"
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.read_body()
        connection.send(OK)
        connection.wait_for_end()

    proxy = sallyport(policy=policy(adding({"a": "b"}, 'on_conflict = "pass"')))
    origin = raw_origin(agreeing)
    client = raw_client(proxy)
    client.send(
        post(origin, lines="Expect: 100-continue\r\nContent-Length: 5\r\n", content_type="text/plain")
    )
    assert client.message().status == 100
    client.send(b"hello")
    assert client.message().body == b"ok"
    assert origin.requests()[0].body == b"hello"


def curl(proxy, origin, *arguments, given: bytes | None = None) -> bytes:
    """curl as it is, but that it would wait a minute for its 100, longer than it may take as a whole."""
    need("curl")
    patience = ["--expect100-timeout", "60", "--max-time", "15"]
    return run("curl", "-sS", "--proxy", proxy.url, *patience, *arguments, f"{origin.url}/p", given=given)


@pytest.mark.parametrize("how", ["sized", "chunked"])
def test_curl_waits_for_100_and_gets_it(how, sallyport, raw_origin):
    rules = policy(adding({"a": "b"}, 'serializer = "json"'), limits='buffered_body = "4MiB"')
    proxy, origin = sallyport(policy=rules), raw_origin(answering(OK))
    body = json.dumps({"own": "x" * 1_500_000}).encode()
    chunked = ["-H", "Transfer-Encoding: chunked"] if how == "chunked" else []
    fields = ["-H", f"Content-Type: {JSON}", "-H", "Expect: 100-continue"]
    assert curl(proxy, origin, *fields, *chunked, "--data-binary", "@-", given=body) == b"ok"
    (message,) = origin.requests()
    assert json.loads(message.body) == {"own": "x" * 1_500_000, "a": "b"}


def test_curl_sends_a_form(sallyport, raw_origin):
    proxy, origin = sallyport(policy=policy(adding({"a": ["b"]}))), raw_origin(answering(OK))
    assert curl(proxy, origin, "--data-urlencode", "own=x&z", "-H", "Expect: 100-continue") == b"ok"
    assert curl(proxy, origin, "-G", "--data-urlencode", "own=x&z") == b"ok"
    first, second = origin.requests()
    assert first.body == b"own=x%26z&a%5B%5D=b" and second.target == b"/p?own=x%26z&a%5B%5D=b"


def test_curl_shows_why_its_body_was_refused(sallyport, raw_origin):
    proxy, origin = sallyport(policy=policy(adding({"a": "b"}))), raw_origin(answering(OK))
    said = curl(proxy, origin, "-H", "Content-Type: text/plain", "-H", "Expect: 100-continue", "-d", "x")
    assert json.loads(said)["status"] == 415
    assert origin.requests() == []
