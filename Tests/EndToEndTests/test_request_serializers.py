"""[rule.request] parameters: what the origin sees of them in the query, in a body of the proxy's own, and in the client's.

Each test looks at the whole request that arrives: target, Content-Type, framing (strict_http checks the length) and
body, and then sends another request on the client's connection. What cannot be merged is in test_request_conflicts.py,
transcoding in test_request_transcoding.py.
"""

import json
import plistlib
import urllib.parse

import pytest

from origins import answering
from serializer_world import (
    FORM,
    JSON,
    OK,
    ONE_WORKER,
    PLIST,
    adding,
    encoded,
    escape,
    goes_on,
    ok_to_all,
    policy,
    post,
    post_chunked,
    request,
)
from test_intercept import inside
from tls_world import authority, intercepting, secure_client, secure_proxy, tls_origin, world


@pytest.fixture
def seen(sallyport, raw_origin, raw_client):
    """A function that sends one request under a [rule.request], and another one behind it: what the origin saw."""

    def send(table: str, build, **arguments):
        proxy, origin = sallyport(policy=policy(table), **arguments), raw_origin(ok_to_all)
        client = raw_client(proxy)
        data = build(origin)
        for _ in range(2):  # the second time on the same connection
            assert client.exchange(data).status == 200
        goes_on(client, origin)
        first, again, after = origin.requests()
        assert (after.method, after.target, after.body) == (b"GET", b"/after", b"")
        assert described(first) == described(again)
        return first

    return send


def described(message) -> tuple:
    return message.method, message.target, message.values("Content-Type"), message.framing, message.body


# In the query: the encoding


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/?"
OTHERS = "".join(chr(code) for code in range(128) if chr(code) not in LETTERS)
ENCODINGS = {
    "one": ({"a": "b"}, "a=b"),
    "an empty value": ({"a": ""}, "a="),
    "what needs no escape": ({LETTERS[::-1]: LETTERS}, f"{LETTERS[::-1]}={LETTERS}"),
    "all the rest of ASCII": ({"k": OTHERS}, "k=" + "".join(f"%{ord(byte):02X}" for byte in OTHERS)),
    "all the rest of ASCII in a key": ({OTHERS: "v"}, "".join(f"%{ord(byte):02X}" for byte in OTHERS) + "=v"),
    "what is encoded already": ({"a%41": "%41+%"}, "a%2541=%2541%2B%25"),
    "two, three and four bytes": ({"ä": "€😀"}, "%C3%A4=%E2%82%AC%F0%9F%98%80"),
    "an emoji of several code points": (
        {"f": "👩‍👩‍👧"},
        "f=%F0%9F%91%A9%E2%80%8D%F0%9F%91%A9%E2%80%8D%F0%9F%91%A7",
    ),
    "a letter and its accent apart": ({"a": "e\u0301"}, "a=e%CC%81"),
    "keys by code point": (
        {"b": 1, "a": 2, "Z": 3, "ä": 4, "😀": 5, "～": 6, "_": 7, "aa": 8},
        "Z=3&_=7&a=2&aa=8&b=1&%C3%A4=4&%EF%BD%9E=6&%F0%9F%98%80=5",
    ),
    "a table": ({"a": {"c": "2", "b": "1"}}, "a%5Bb%5D=1&a%5Bc%5D=2"),
    "keys of each table on their own, not of the whole text": (
        {"a!": 2, "a": {"b": 1}, "a.": 3},
        "a%5Bb%5D=1&a%21=2&a.=3",
    ),
    "tables in tables": ({"a": {"b": {"c": {"d": "e"}}}}, "a%5Bb%5D%5Bc%5D%5Bd%5D=e"),
    "a key with brackets of its own": ({"a[b]": {"c]": 1}}, "a%5Bb%5D%5Bc%5D%5D=1"),
    "an array, in its order": ({"a": ["z", "b", "z"]}, "a%5B%5D=z&a%5B%5D=b&a%5B%5D=z"),
    "arrays in an array": ({"a": [["x"], ["y", "z"]]}, "a%5B%5D%5B%5D=x&a%5B%5D%5B%5D=y&a%5B%5D%5B%5D=z"),
    "tables in an array": (
        {"a": [{"c": 1, "b": 2}, {"b": 3}]},
        "a%5B%5D%5Bb%5D=2&a%5B%5D%5Bc%5D=1&a%5B%5D%5Bb%5D=3",
    ),
    "an array in a table": (
        {"filter": {"lang": ["en", "de"]}},
        "filter%5Blang%5D%5B%5D=en&filter%5Blang%5D%5B%5D=de",
    ),
    "empty containers vanish": ({"a": {}, "b": [], "c": {"d": [{}]}, "e": "f"}, "e=f"),
    "integers": (
        {"a": 0, "b": -7, "c": 9223372036854775807, "d": -9223372036854775808},
        "a=0&b=-7&c=9223372036854775807&d=-9223372036854775808",
    ),
    "floats": (
        {"a": 0.5, "b": 3.0, "c": -2.25, "d": 0.1, "e": 100000.0, "f": 3.141592653589793},
        "a=0.5&b=3&c=-2.25&d=0.1&e=100000&f=3.141592653589793",
    ),
    "booleans": ({"yes": True, "no": False}, "no=0&yes=1"),
    "strings that look like others": ({"a": "true", "b": "1.0", "c": "null"}, "a=true&b=1.0&c=null"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_parameters_in_a_query(name, seen):
    parameters, expected = ENCODINGS[name]
    message = seen(adding(parameters), lambda origin: request(origin, "/p"))
    assert message.target.decode() == "/p?" + expected
    assert (message.framing, message.body, message.values("Content-Type")) == ("none", b"", [])


def test_a_float_reads_back(seen):
    """What is written of a very large or small one is left to the proxy."""
    floats = {"a": 1e300, "b": 5e-324, "c": 1.7976931348623157e308, "d": 1e-7, "e": 123456789012345680.0}
    message = seen(adding(floats), lambda origin: request(origin))
    read = urllib.parse.parse_qs(message.target.decode().partition("?")[2], strict_parsing=True)
    assert {key: float(value) for key, (value,) in read.items()} == floats
    assert not any(value.endswith(".0") for (value,) in read.values())


def test_parameters_that_are_empty_change_nothing(seen):
    message = seen(adding({"a": {}, "b": [[]]}), lambda origin: request(origin, "/p?x"))
    assert message.target == b"/p?x"


def test_parameters_as_tables_of_their_own(seen):
    """[rule.request.parameters] with a table below it, instead of one line."""
    table = "[rule.request.parameters]\nz = 1\n[rule.request.parameters.a]\nb = [true]\n"
    assert seen(table, lambda origin: request(origin)).target == b"/?a%5Bb%5D%5B%5D=1&z=1"


# Each: the target, and what is before the parameters then
TARGETS = {
    "a path": ("/p", "/p?"),
    "no path": ("", "/?"),
    "a query": ("/p?x=1", "/p?x=1&"),
    "a query without a path": ("?x=1", "/?x=1&"),
    "the same key": ("/p?a=0", "/p?a=0&"),
    "a query that is not in this encoding": ("/p?x[]=|^`{}'%zz%7e+", "/p?x[]=|^`{}'%zz%7e+&"),
    "a question mark in the query": ("/p?x?y", "/p?x?y&"),
    # Silent in the specification: AFNetworking takes "?" for a query, if an empty one, and so appends with "&".
    "a query of nothing": ("/p?", "/p?&"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_where_parameters_go_in_a_target(name, seen):
    target, expected = TARGETS[name]
    assert (
        seen(adding({"a": "b"}), lambda origin: request(origin, target)).target.decode() == expected + "a=b"
    )


@pytest.mark.parametrize("serializer", ["http", "json", "plist"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_methods_with_parameters_in_the_uri(method, serializer, seen):
    table = adding({"a": {"b": True}}, f'serializer = "{serializer}"')
    message = seen(table, lambda origin: request(origin, "/p?x", method=method))
    assert (message.target, message.framing) == (b"/p?x&a%5Bb%5D=1", "none")
    assert message.values("Content-Type") == []


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_body_beside_parameters_in_the_uri_is_left_alone(method, seen):
    message = seen(adding({"a": "b"}), lambda origin: post(origin, b"as it is", "text/plain", method=method))
    assert (message.target, message.body) == (b"/?a=b", b"as it is")
    assert message.value("Content-Type") == b"text/plain"


def test_the_methods_can_be_chosen(seen):
    table = adding({"a": "b"}, 'parameters_in_uri = ["POST"]')
    of_post = seen(table, lambda origin: post(origin, b"as it is", "text/plain"))
    of_get = seen(table, lambda origin: request(origin, "/p"))
    assert (of_post.target, of_post.body) == (b"/?a=b", b"as it is")
    assert (of_get.target, of_get.body, of_get.value("Content-Type")) == (b"/p", b"a=b", FORM.encode())


def test_no_method_needs_to_have_them_in_the_uri(seen):
    message = seen(adding({"a": "b"}, "parameters_in_uri = []"), lambda origin: request(origin, "/p"))
    assert (message.target, message.body) == (b"/p", b"a=b")


# Secrets


SECRET = "s3cret/of the&test"
SECRETS = {
    "a file": {"file": "secret.txt"},
    "a credential of systemd": {"credential": "the-secret"},
    "the environment": {"env": "THE_SECRET"},
    "a plain string": SECRET,
}


@pytest.mark.parametrize("where", ["the query", "a form", "JSON", "a plist"])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_parameters(name, where, seen, sallyport, raw_origin, raw_client, tmp_path):
    """At any depth; neither the log nor what a client is told of a failure holds it, encoded or not."""
    for directory, file in ((tmp_path, "secret.txt"), (tmp_path / "credentials", "the-secret")):
        directory.mkdir(exist_ok=True)
        (directory / file).write_text(SECRET + "\n")
        (directory / file).chmod(0o600)
    serializer = {"JSON": "json", "a plist": "plist"}.get(where, "http")
    method = "GET" if where == "the query" else "POST"
    table = adding({"key": SECRETS[name], "in": {"a": [SECRETS[name]]}}, f'serializer = "{serializer}"')
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials"), "THE_SECRET": SECRET}
    proxy = sallyport(policy=policy(table), directory=tmp_path, environment=environment)
    proxy.secrets += [SECRET, escape(SECRET)]
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    assert client.exchange(request(origin, "/p", method=method)).status == 200
    (message,) = origin.requests()
    expected = {"key": SECRET, "in": {"a": [SECRET]}}
    read = {
        "the query": lambda: message.target == b"/p?" + encoded(expected),
        "a form": lambda: message.body == encoded(expected),
        "JSON": lambda: json.loads(message.body) == expected,
        "a plist": lambda: plistlib.loads(message.body) == expected,
    }
    assert read[where](), message
    nobody = f"{method} http://127.0.0.1:1/p HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n".encode()
    refusal = client.exchange(nobody)
    assert refusal.status == 502 and SECRET.encode() not in bytes(client.received)
    assert escape(SECRET).encode() not in bytes(client.received)
    assert proxy.access(lambda line: line["status"] == 502)


# In a body of the proxy's own


PARAMETERS = {
    "key": "r&r €",
    "n": 7,
    "half": 0.5,
    "flag": True,
    "list": ["x", 1],
    "table": {"y": "z", "inner": {"deep": False}},
}
READ = {"http": bytes, "json": json.loads, "plist": plistlib.loads}
TYPES = {"http": FORM, "json": JSON, "plist": PLIST}
MADE = {"http": encoded(PARAMETERS), "json": PARAMETERS, "plist": PARAMETERS}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "OPTIONS", "FROBNICATE"])
@pytest.mark.parametrize("serializer", READ)
def test_a_body_is_made_where_there_is_none(serializer, method, seen):
    table = adding(PARAMETERS, f'serializer = "{serializer}"')
    message = seen(table, lambda origin: request(origin, "/p?x", method=method))
    assert (message.target, message.framing) == (b"/p?x", "length")
    assert message.value("Content-Type") == TYPES[serializer].encode()
    assert READ[serializer](message.body) == MADE[serializer]
    if serializer == "plist":
        assert message.body.startswith(b"<?xml"), "a plist that the proxy makes is one in XML"


def test_the_serializer_is_http_where_none_is_named(seen):
    message = seen(adding({"a": "b"}), lambda origin: post(origin))
    assert (message.body, message.value("Content-Type")) == (b"a=b", FORM.encode())


NO_BODIES = {
    "a length of 0": lambda origin: post(origin, b""),
    "chunked, without a chunk": lambda origin: post_chunked(origin, b""),
    "HTTP/1.0 without a length": lambda origin: request(
        origin, lines="Connection: keep-alive\r\n", method="POST", version="1.0"
    ),
    "a length of 0 and a form's type": lambda origin: post(origin, b"", FORM),
}


@pytest.mark.parametrize("name", NO_BODIES)
def test_what_counts_as_no_body(name, sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=policy(adding({"a": "b"}))), raw_origin(answering(OK))
    assert raw_client(proxy).exchange(NO_BODIES[name](origin)).status == 200
    (message,) = origin.requests()
    assert (message.body, message.value("Content-Type")) == (b"a=b", FORM.encode())


@pytest.mark.parametrize("serializer", READ)
def test_a_type_that_the_request_or_the_default_has_is_kept(serializer, seen):
    """The serializer's own comes last: the client's, then headers.default, then it."""
    table = adding(PARAMETERS, f'serializer = "{serializer}"')
    default = table + '\nheaders.default = { Content-Type = "application/vnd.kiosk" }'
    of_client = seen(table, lambda origin: post(origin, content_type="text/odd; a=b"))
    of_default = seen(default, lambda origin: post(origin))
    of_both = seen(default, lambda origin: post(origin, content_type="text/odd; a=b"))
    types = [message.value("Content-Type") for message in (of_client, of_default, of_both)]
    assert types == [b"text/odd; a=b", b"application/vnd.kiosk", b"text/odd; a=b"]
    assert all(
        READ[serializer](message.body) == MADE[serializer] for message in (of_client, of_default, of_both)
    )


def test_no_body_is_made_without_parameters(seen):
    """Not even of an empty table; of one that vanishes only in a form, the form's type may be said."""
    for table in ('serializer = "json"', 'serializer = "json"\nparameters = {}', adding({"a": {}})):
        message = seen(table, lambda origin: request(origin, method="POST"))
        assert message.body == b""
        # Silent in the specification: AFNetworking names the type of a form without a pair.
        assert message.values("Content-Type") == [] or (table == adding({"a": {}}))


# Merged into the client's body


XML, BINARY = plistlib.FMT_XML, plistlib.FMT_BINARY
OLD = {"key": "client", "table": {"y": "old", "w": 1}, "own": [1, {"a": "b"}], "e": ""}
MERGED = {**OLD, **PARAMETERS}
# Each: the serializer, the client's type and body, and what the origin reads
MERGES = {
    "a form": ("http", FORM, b"own=1&o=2", b"own=1&o=2&" + encoded(PARAMETERS)),
    "a form with the key already, which gets both": (
        "http",
        FORM,
        b"key=client&n=8",
        b"key=client&n=8&" + encoded(PARAMETERS),
    ),
    "a form in another spelling, which stays": (
        "http",
        FORM,
        b"a+b=%e4[]&c",
        b"a+b=%e4[]&c&" + encoded(PARAMETERS),
    ),
    "a form with a charset": ("http", FORM + "; charset=UTF-8", b"o=2", b"o=2&" + encoded(PARAMETERS)),
    "a form whose type is in capitals": ("http", FORM.upper(), b"o=2", b"o=2&" + encoded(PARAMETERS)),
    "an object: the rule's value wins": ("json", JSON, json.dumps(OLD).encode(), MERGED),
    "an object in white space": ("json", JSON, b' \r\n\t{ "own" : 1 }\n', {"own": 1, **PARAMETERS}),
    "an empty object": ("json", JSON, b"{}", PARAMETERS),
    "an object with a charset": (
        "json",
        JSON + ";charset=utf-8",
        b'{"own":"\xc3\xa4"}',
        {"own": "ä", **PARAMETERS},
    ),
    "an object with a key in escapes": (
        "json",
        JSON,
        b'{"\\u006bey":1,"k\\u0065y2":2}',
        {"key2": 2, **PARAMETERS},
    ),
    "a dictionary in XML": ("plist", PLIST, plistlib.dumps(OLD, fmt=XML), MERGED),
    "a binary dictionary": ("plist", PLIST, plistlib.dumps(OLD, fmt=BINARY), MERGED),
    "an empty dictionary in XML": ("plist", PLIST, plistlib.dumps({}, fmt=XML), PARAMETERS),
    "an empty binary dictionary": ("plist", PLIST, plistlib.dumps({}, fmt=BINARY), PARAMETERS),
    "a dictionary with data": (
        "plist",
        PLIST,
        plistlib.dumps({"own": b"\0\xff"}),
        {"own": b"\0\xff", **PARAMETERS},
    ),
}


@pytest.mark.parametrize("how", ["sized", "chunked"])
@pytest.mark.parametrize("name", MERGES)
def test_parameters_are_merged_into_the_body(name, how, seen):
    serializer, content_type, body, expected = MERGES[name]
    build = post if how == "sized" else post_chunked
    table = adding(PARAMETERS, f'serializer = "{serializer}"')
    message = seen(table, lambda origin: build(origin, body, content_type, path="/p?x"))
    assert message.target == b"/p?x" and message.value("Content-Type") == content_type.encode()
    assert READ[serializer](message.body) == expected


def test_what_the_rule_does_not_name_in_an_object_keeps_its_spelling_and_order(seen):
    """Numbers that no double holds pass too. Silent in the specification for requests: as remove_nulls has it."""
    body = b'{"z":1.50,"a":12345678901234567890123,"m":[1e5,-0,null,"\\u00e4"],"b":{"y":0.10}}'
    message = seen(adding({"k": 1}, 'serializer = "json"'), lambda origin: post(origin, body, JSON))
    read = json.loads(message.body, parse_float=str, parse_int=str, object_pairs_hook=list)
    assert [pair for pair in read if pair[0] != "k"] == json.loads(
        body, parse_float=str, parse_int=str, object_pairs_hook=list
    )
    assert ("k", "1") in read


def test_a_body_in_many_segments_is_merged(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=policy(adding({"a": "b"})))
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    for build in (post, post_chunked):
        client.send_bytewise(build(origin, b"own=1", FORM))
        assert client.answer().status == 200
    goes_on(client, origin)
    assert [message.body for message in origin.requests()] == [b"own=1&a=b"] * 2 + [b""]


def test_pipelined_requests_are_each_merged(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=policy(adding({"a": "b"})))
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    asked = [post(origin, b"n=%d" % number, FORM) for number in range(10)]
    asked[3], asked[6] = post_chunked(origin, b"n=3", FORM), request(origin, "/get")
    client.send(b"".join(asked))
    assert [client.answer().status for _ in asked] == [200] * 10
    bodies = [b"n=%d&a=b" % number for number in range(10)]
    bodies[6] = b""
    assert [message.body for message in origin.requests()] == bodies
    assert origin.requests()[6].target == b"/get?a=b"


def test_a_merged_request_is_sent_again_whole(sallyport, raw_origin, raw_client):
    """A pooled connection that dies on an idempotent request: the retry carries the merged body and the query."""

    def dying(connection) -> None:
        connection.read_request()
        connection.send(OK)
        connection.read_request()
        if connection.number > 0:
            connection.send(OK)
            connection.wait_for_end()

    proxy, origin = sallyport(proxy=ONE_WORKER, policy=policy(adding({"a": "b"}))), raw_origin(dying)
    client = raw_client(proxy)
    assert client.exchange(post(origin, b"n=1", FORM, method="PUT")).status == 200
    assert client.exchange(post(origin, b"n=2", FORM, method="PUT")).status == 200
    assert client.exchange(request(origin)).status == 200
    bodies = [message.body for message in origin.requests()]
    assert bodies[:3] == [b"n=1&a=b", b"n=2&a=b", b"n=2&a=b"]
    assert origin.requests()[-1].target == b"/?a=b"


def test_a_client_that_leaves_within_its_body_sends_nothing(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=policy(adding({"a": "b"}))), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(post(origin, b"own=1", FORM)[:-1])
    client.close()
    assert proxy.access()["outcome"] != "done"
    assert origin.requests() == []


def test_parameters_inside_an_intercepted_tunnel(intercepting, inside, tls_origin, world):
    rules = (
        '[[rule]]\nname = "r"\nhosts = ["a.test"]\nconnect = "intercept"\n[rule.request]\n'
        'serializer = "json"\nparameters = { key = { env = "THE_SECRET" }, n = 1 }\n'
    )
    proxy = intercepting(rules, environment={"THE_SECRET": SECRET})
    proxy.secrets += [SECRET, escape(SECRET)]
    server = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    client = inside(proxy, "a.test", server.port)
    host = f"a.test:{server.port}"
    assert client.get_inside(host, "/p?x").body == b"ok"
    body = b'{"own":true}'
    head = f"POST /p HTTP/1.1\r\nHost: {host}\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
    assert client.exchange(head.encode() + body).body == b"ok"
    assert client.get_inside(host).body == b"ok"
    first, second, third = server.requests()
    query = encoded({"key": SECRET, "n": 1})
    assert (first.target, third.target) == (b"/p?x&" + query, b"/?" + query)
    assert json.loads(second.body) == {"own": True, "key": SECRET, "n": 1}
