"""[rule.response] remove_nulls: what is null goes, at any depth, and all else is what it was.

Compared is a tree that keeps the order of keys, repeated keys and the spelling of each number and string; white space
may change. Where there is nothing to remove, the client gets the bytes of the origin.
"""

import json

import pytest

from serializer_world import (
    ANNOTATE_ALL,
    CODINGS,
    JSON,
    REJECT_ALL,
    accepted,
    annotated,
    annotation,
    answer,
    as_it_came,
    decoded,
    goes_on,
    policy,
    rejected,
    request,
    serving,
)

RULE = f'serializer = "json"\nremove_nulls = true\n{REJECT_ALL}\n'


def tree(text: bytes):
    """Objects as lists of pairs, numbers as they are spelled."""
    return json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=lambda pairs: ("object", pairs))


REMOVALS = {
    "a key": (b'{"a":null,"b":1}', b'{"b":1}'),
    "the last key": (b'{"a":1,"b":null}', b'{"a":1}'),
    "keys in the middle": (b'{"a":1,"b":null,"c":null,"d":2}', b'{"a":1,"d":2}'),
    "every key": (b'{"a":null,"b":null}', b"{}"),
    "an element": (b"[null,1,null,2,null]", b"[1,2]"),
    "every element": (b"[null,null]", b"[]"),
    "at any depth": (
        b'{"a":[{"b":null,"c":[null,{"d":null}]}],"e":{"f":{"g":null}}}',
        b'{"a":[{"c":[{}]}],"e":{"f":{}}}',
    ),
    "what becomes empty stays": (b'{"a":{"b":null},"c":[null]}', b'{"a":{},"c":[]}'),
    "null as the whole": (b"null", b"null"),
    "what only looks like it": (b'{"null":"null","a":"[null]","b":null}', b'{"null":"null","a":"[null]"}'),
    "keys with escapes": (b'{"\\u0061\\"":null,"\\u0062\\n":1}', b'{"\\u0062\\n":1}'),
    "the order of keys": (b'{"z":1,"a":null,"m":2,"b":3}', b'{"z":1,"m":2,"b":3}'),
    "a key twice": (b'{"a":1,"a":null,"a":2}', b'{"a":1,"a":2}'),
    "the spelling of numbers": (
        b"[1.0,1.50,1e5,1E+5,-0,-0.0,12345678901234567890123,0.1e-7,null]",
        b"[1.0,1.50,1e5,1E+5,-0,-0.0,12345678901234567890123,0.1e-7]",
    ),
    "letters and escapes": (
        b'["\xc3\xa4\\u00e4\\/\\ud83d\\ude00\xf0\x9f\x98\x80\\u2028",null]',
        b'["\xc3\xa4\\u00e4\\/\\ud83d\\ude00\xf0\x9f\x98\x80\\u2028"]',
    ),
    "white space everywhere": (
        b' {\r\n "a" : null ,\t"b" : [ null , 1 , null ] \n, "c" : { "d" : null } } \n',
        b'{"b":[1],"c":{}}',
    ),
}


def spelled_as_in(text: bytes, others: bytes) -> bool:
    """Each string token that is left is spelled as it was."""
    strings = [part for part in text.split(b'"')[1::2] if b"\\" not in part]
    return all(b'"%s"' % part in others for part in strings)


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@pytest.mark.parametrize("name", REMOVALS)
def test_what_is_null_goes(name, framing, sallyport, raw_origin, raw_client):
    body, expected = REMOVALS[name]
    origin = raw_origin(serving(answer(body, framing=framing), close=framing == "close"))
    client = raw_client(sallyport(policy=policy(response=RULE)))
    for _ in range(2):
        got = client.exchange(request(origin, "/r"))  # strict_http: the length is that of the new body
        assert got.status == 200 and tree(got.body) == tree(expected)
        assert spelled_as_in(got.body, body)
        assert b"\\u00e4\\/\\ud83d\\ude00" in got.body or name != "letters and escapes"
        assert annotation(got) is None and got.value("Content-Type") == JSON.encode()
        if got.framing == "length":
            assert got.value("Content-Length") == b"%d" % len(got.body)
    goes_on(client, origin)


NOTHING_TO_REMOVE = [b'{ "a" : [1.0, "null"] }\n', b"null", b"[]", b"0", b"", b" "]


@pytest.mark.parametrize("body", NOTHING_TO_REMOVE, ids=repr)
def test_where_nothing_is_null_the_bytes_are_those_of_the_origin(body, sallyport, raw_origin, raw_client):
    origin = raw_origin(serving(answer(body, lines='ETag: "a"\r\n')))
    client = raw_client(sallyport(policy=policy(response=RULE)))
    got = client.exchange(request(origin, "/r"))
    accepted(got, body)
    assert got.value("ETag") == b'"a"'
    goes_on(client, origin)


LARGE = json.dumps([{"n": number, "gone": None, "text": "ä" * 5} for number in range(5000)]).encode()
KEPT = json.dumps([{"n": number, "text": "ä" * 5} for number in range(5000)]).encode()
ACCEPTS = {
    "it accepts none but this": lambda coding: f"Accept-Encoding: {coding}\r\n",
    "it accepts it among others": lambda coding: f"Accept-Encoding: x-odd, {coding};q=0.5, identity;q=0.1\r\n",
    "it accepts any": lambda coding: "Accept-Encoding: *\r\n",
    "it says nothing": lambda coding: "",
    "it wants none": lambda coding: "Accept-Encoding: identity\r\n",
    "it refuses it": lambda coding: f"Accept-Encoding: {coding};q=0, *;q=0.1\r\n",
}


@pytest.mark.parametrize("client_says", ACCEPTS)
@pytest.mark.parametrize("coding", CODINGS)
def test_nulls_under_a_coding(coding, client_says, sallyport, raw_origin, raw_client):
    """What the client gets has no coding that it does not accept, and says which."""
    lines = f'Content-Encoding: {coding}\r\nETag: "a"\r\n'
    origin = raw_origin(serving(answer(CODINGS[coding](LARGE), lines=lines)))
    client = raw_client(sallyport(policy=policy(response=RULE)))
    got = client.exchange(request(origin, "/r", ACCEPTS[client_says](coding)))
    assert got.status == 200 and tree(decoded(got)) == tree(KEPT)
    assert got.options("Content-Encoding") in ([], [b"identity"], [coding.encode()])
    if client_says in ("it wants none", "it refuses it"):
        assert got.options("Content-Encoding") in ([], [b"identity"])
    goes_on(client, origin)


@pytest.mark.parametrize("coding", CODINGS)
def test_where_nothing_is_null_the_coded_bytes_are_those_of_the_origin(
    coding, sallyport, raw_origin, raw_client
):
    body = CODINGS[coding](KEPT)
    origin = raw_origin(serving(answer(body, lines=f"Content-Encoding: {coding}\r\n")))
    got = raw_client(sallyport(policy=policy(response=RULE))).exchange(request(origin, "/r"))
    accepted(got, body)
    assert got.value("Content-Encoding") == coding.encode()


def test_a_changed_body_does_not_keep_what_vouched_for_the_old_one(sallyport, raw_origin, raw_client):
    """Silent in the specification: RFC 9530's and RFC 1864's digests of other bytes would make a client refuse it."""
    lines = "Content-Digest: sha-256=:AAAA:\r\nContent-MD5: AAAA\r\nDigest: md5=AAAA\r\nX-Own: y\r\n"
    origin = raw_origin(serving(answer(b"[null]", lines=lines)))
    got = raw_client(sallyport(policy=policy(response=RULE))).exchange(request(origin, "/r"))
    assert tree(got.body) == [] and got.value("X-Own") == b"y"
    assert [got.values(name) for name in ("Content-Digest", "Content-MD5", "Digest")] == [[], [], []]


def test_a_changed_body_keeps_no_strong_validator(sallyport, raw_origin, raw_client):
    """Silent in the specification: RFC 9110 §8.8.3.3, two representations must not share one. Weak, or none."""
    origin = raw_origin(serving(answer(b"[null]", lines='ETag: "a"\r\n')))
    got = raw_client(sallyport(policy=policy(response=RULE))).exchange(request(origin, "/r"))
    assert got.values("ETag") in ([], [b'W/"a"'])


def test_an_answer_without_a_body_has_the_validator_of_the_changed_one(sallyport, raw_origin, raw_client):
    """RFC 9110, 15.4.5: a 304 has the tag that the 200 had. With a strong one, a client joins parts of two texts."""
    origin = raw_origin(serving(b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n'))
    asked = request(origin, "/r", 'If-None-Match: W/"a"\r\n')
    got = raw_client(sallyport(policy=policy(response=RULE))).exchange(asked)
    assert (got.status, got.values("ETag")) == (304, [b'W/"a"'])


@pytest.mark.parametrize("validator", ['"a"', "Wed, 01 Jan 2025 00:00:00 GMT"])
def test_a_download_is_not_gone_on_with(validator, sallyport, raw_origin, raw_client):
    """The client has a part of the changed body, and the validator is that of the origin's: a part of that would not fit."""
    seen = []

    def script(connection) -> None:
        seen.append(connection.read_request())
        connection.send(answer(b'{"a":null,"b":[1,2]}', lines="Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n"))

    origin = raw_origin(script)
    asked = request(origin, "/r", f"Range: bytes=5-\r\nIf-Range: {validator}\r\n")
    got = raw_client(sallyport(policy=policy(response=RULE))).exchange(asked)
    assert (got.status, got.body) == (200, b'{"b":[1,2]}')
    assert seen[0].value("Range") is None and seen[0].value("If-Range") is None


def test_a_part_is_never_changed(sallyport, raw_origin, raw_client):
    """Its bytes have their place in a whole. Silent in the specification; rejecting it would be sound as well."""
    origin = raw_origin(serving(answer(b"[null]", status=206, lines="Content-Range: bytes 0-5/9\r\n")))
    got = raw_client(sallyport(policy=policy(response=RULE))).exchange(request(origin, "/r"))
    if got.status != 502:
        as_it_came(got, b"[null]", 206)


def test_what_is_too_large_is_left_as_it_is_and_says_so(sallyport, raw_origin, raw_client):
    origin = raw_origin(serving(answer(LARGE)))
    client = raw_client(sallyport(policy=policy(response=RULE, limits='buffered_body = "4KiB"')))
    got = client.exchange(request(origin, "/r"))
    as_it_came(got, LARGE)
    annotated(got)
    goes_on(client, origin)


def test_what_is_malformed_and_only_annotated_is_left_as_it_is(sallyport, raw_origin, raw_client):
    rule = f'serializer = "json"\nremove_nulls = true\n{ANNOTATE_ALL}'
    origin = raw_origin(
        serving(answer(b"[null, 1"), answer(b"[null, 1]", "text/html"), answer(b"[null, 1]", status=500))
    )
    client = raw_client(sallyport(policy=policy(response=rule)))
    broken = client.exchange(request(origin, "/r"))
    as_it_came(broken, b"[null, 1")
    annotated(broken)
    for status, content_type in ((200, "text/html"), (500, JSON)):
        # "annotate" forwards the response as it came
        got = client.exchange(request(origin, "/r"))
        as_it_came(got, b"[null, 1]", status, content_type)
        annotated(got)


def test_in_a_compound_only_json_loses_its_nulls(sallyport, raw_origin, raw_client):
    rule = f'serializer = ["json", "xml"]\nremove_nulls = true\n{REJECT_ALL}'
    origin = raw_origin(serving(answer(b"[null]"), answer(b"<a>null</a>", "text/xml"), answer(b"[null")))
    client = raw_client(sallyport(policy=policy(response=rule)))
    assert tree(client.exchange(request(origin, "/r")).body) == []
    accepted(client.exchange(request(origin, "/r")), b"<a>null</a>", content_type="text/xml")
    rejected(client.exchange(request(origin, "/r")))


def test_a_client_of_http_1_0_gets_the_right_length(sallyport, raw_origin, raw_client):
    origin = raw_origin(serving(answer(b'{"a": null, "b": 1}', framing="chunked")))
    client = raw_client(sallyport(policy=policy(response=RULE)))
    got = client.exchange(request(origin, "/r", "Connection: keep-alive\r\n", version="1.0"))
    assert tree(got.body) == tree(b'{"b":1}') and not got.values("Transfer-Encoding")


def test_head_of_what_would_be_changed(sallyport, raw_origin, raw_client):
    """Silent in the specification: a length that GET would not have is worse than none (RFC 9110 §8.6)."""
    origin = raw_origin(serving(answer(b"", lines="Content-Length: 19\r\n", framing="none")))
    client = raw_client(sallyport(policy=policy(response=RULE)))
    got = client.exchange(request(origin, "/r", method="HEAD"))
    assert got.status == 200 and got.values("Content-Length") == []
    goes_on(client, origin)
