"""Answers that are a step on the way to one: redirects, challenges and parts pass rules with serializers as they came, and
what a rule rejects says what it was.

With curl as people use it: --digest, -L and -C. What the origin is sent and what reaches the client is judged by strict_http.
"""

import gzip
import hashlib
import json
import re
import subprocess
import threading

import pytest

from conftest import need
from proxy import clean_environment
from serializer_world import (
    JSON,
    REJECT_ALL,
    accepted,
    annotation,
    answer,
    as_it_came,
    chunks,
    goes_on,
    policy,
    rejected,
    request,
    serving,
)
from test_response_serializers import ask  # noqa: F401

STRICT_JSON = f'serializer = "json"\n{REJECT_ALL}'
HTML = b"<html>Moved</html>"

UNJUDGED = {
    "302 with Location": (302, "Location: /there\r\n", "redirect"),
    "308 with Location": (308, "Location: http://elsewhere.test/\r\n", "redirect"),
    "401 with a challenge": (401, 'WWW-Authenticate: Basic realm="r"\r\n', "challenge"),
    "407": (407, 'Proxy-Authenticate: Basic realm="r"\r\n', "challenge"),
    "206 that was asked for": (206, "Content-Range: bytes 0-17/100\r\n", "part"),
}
JUDGED = {
    "302 without Location": (302, ""),
    "302 that leads nowhere": (302, "Location: \r\n"),
    "300, which no client follows": (300, "Location: /there\r\n"),
    "399, which is none": (399, "Location: /there\r\n"),
    "206 that nobody asked for": (206, "Content-Range: bytes 0-17/100\r\n"),
    "401 without a challenge": (401, ""),
    "403 with a challenge": (403, 'WWW-Authenticate: Basic realm="r"\r\n'),
    "200 with Location": (200, "Location: /there\r\n"),
    "503": (503, ""),
}


@pytest.mark.parametrize("name", UNJUDGED)
def test_what_is_not_judged(name, ask):  # noqa: F811
    status, lines, reason = UNJUDGED[name]
    asked = "Range: bytes=0-17\r\n" if status == 206 else ""
    got = ask(STRICT_JSON + "\nremove_nulls = true", answer(HTML, "text/html", status, lines), lines=asked)
    as_it_came(got, HTML, status, "text/html")
    assert annotation(got) == {"details": f"not judged: {reason}", "rule": "r"}
    assert got.line["status"] == status and got.line["outcome"] == "done" and got.line["violation"] is None
    name, _, value = lines.strip().partition(": ")
    assert name == "Proxy-Authenticate" or got.value(name) == value.encode()


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_judged_all_the_same(name, ask):  # noqa: F811
    status, lines = JUDGED[name]
    rejected(ask(STRICT_JSON, answer(HTML, "text/html", status, lines)), code=None, names=("text/html",))


def test_a_part_is_judged_where_the_rule_says_so(ask):  # noqa: F811
    part = answer(b'[1, "half', status=206, lines="Content-Range: bytes 0-8/100\r\n")
    assert rejected(ask(STRICT_JSON + '\nparts = "judge"', part)).body["upstream"]["status"] == 206
    whole = answer(b"[1]", status=206, lines="Content-Range: bytes 0-2/3\r\n")
    accepted(ask(STRICT_JSON + '\nparts = "judge"', whole), b"[1]", 206)


# What a rejected answer was


def test_a_rejected_answer_says_what_it_was(ask):  # noqa: F811
    page = "<h1>Der Dienst ist überlastet</h1>".encode()
    got = ask(STRICT_JSON, answer(page, "text/html; charset=utf-8", 503))
    problem = rejected(got, code=None, names=("503",))
    assert problem.body["upstream"] == {
        "status": 503,
        "type": "text/html; charset=utf-8",
        "text": page.decode(),
    }
    assert b"; received-status=503;" in got.value("Proxy-Status")


FRAMINGS = {
    "in chunks": lambda body: answer(body, "text/plain", 500, framing="chunked"),
    "until the close": lambda body: answer(body, "text/plain", 500, framing="close"),
    "in gzip": lambda body: answer(gzip.compress(body), "text/plain", 500, "Content-Encoding: gzip\r\n"),
    "in gzip and chunks": lambda body: answer(
        gzip.compress(body), "text/plain", 500, "Content-Encoding: gzip\r\n", framing="chunked"
    ),
}


@pytest.mark.parametrize("how", FRAMINGS)
def test_its_text_is_told_however_it_came(how, sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=policy(response=STRICT_JSON))
    body = b"what went wrong\n" * 20
    origin, client = raw_origin(serving(FRAMINGS[how](body), close=True)), raw_client(proxy)
    problem = rejected(client.exchange(request(origin, "/r")), code=None)
    assert problem.body["upstream"]["text"] == body.decode()


TEXTS = {
    "nothing": (b"", None),
    "no text": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", None),
    "more than a KiB": (b"x" * 5000, "x" * 1024),
    "a character that the limit cuts": ("x" * 1023 + "é" * 9, "x" * 1023),
    "bytes that are no UTF-8": (b"caf\xe9 au lait", "caf\ufffd au lait"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_of_it_is_told(name, ask):  # noqa: F811
    body, told = TEXTS[name]
    body = body.encode() if isinstance(body, str) else body
    got = ask(STRICT_JSON, answer(body, "text/plain", 500))
    assert rejected(got, code=None).body["upstream"]["text"] == told


def test_content_that_is_rejected_is_told_too(ask):  # noqa: F811
    got = ask(STRICT_JSON, answer(b'{"error": "no such table", '))
    assert rejected(got).body["upstream"] == {"status": 200, "type": JSON, "text": '{"error": "no such table", '}


def test_an_answer_to_head_is_told_without_text(ask):  # noqa: F811
    got = ask(STRICT_JSON, b"HTTP/1.1 500 Said\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n", "HEAD")
    assert got.status == 502 and b"received-status=500" in got.value("Proxy-Status")


def test_in_plain_text_it_stands_last(ask):  # noqa: F811
    got = ask(STRICT_JSON, answer(b"out of disk", "text/plain", 507), lines="Accept: text/plain\r\n")
    assert b"\nupstream: 507 text/plain\n" in got.body and got.body.endswith(b"\n\nout of disk\n")


def test_the_head_comes_alone_and_its_text_after_it(sallyport, raw_origin, raw_client):
    """Many servers write head and body one after the other: the text is waited for."""

    def script(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 500 Said\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\n")
        go.wait(20)
        connection.send(b"reasons")

    go = threading.Event()
    proxy = sallyport(policy=policy(response=STRICT_JSON))
    origin, client = raw_origin(script), raw_client(proxy)
    client.send(request(origin, "/r"))
    assert client.nothing_came()
    go.set()
    assert rejected(client.answer(), code=None).body["upstream"]["text"] == "reasons"


def test_text_that_does_not_come_is_not_waited_for_for_long(sallyport, raw_origin, raw_client):
    def script(connection):
        connection.read_request()
        connection.send(b"HTTP/1.1 500 Said\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nso f")
        connection.wait_for_end()

    proxy = sallyport(policy=policy(response=STRICT_JSON))
    origin, client = raw_origin(script), raw_client(proxy)
    assert rejected(client.exchange(request(origin, "/r")), code=None).body["upstream"]["text"] == "so f"
    assert proxy.access(lambda line: line["target"].endswith("/r"))["total_ms"] < 5000


# Bodies


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_json_in_another_encoding(encoding, ask):  # noqa: F811
    body = '{"a": [null, "ä😀"]}'.encode(encoding)
    accepted(ask(STRICT_JSON, answer(body)), body)
    got = ask(STRICT_JSON + "\nremove_nulls = true", answer(body))
    assert json.loads(got.body) == {"a": ["ä😀"]} and got.body == '{"a": [ "ä😀"]}'.encode(encoding)
    rejected(ask(STRICT_JSON, answer('{"a": ?}'.encode(encoding))), names=("line 1, column 7",))


@pytest.mark.parametrize("body", [b'"a"', b"1", b"null", b"true"])
def test_json_that_must_be_a_container(body, ask):  # noqa: F811
    accepted(ask(STRICT_JSON, answer(body)), body)
    rejected(ask(STRICT_JSON + '\njson = "container"', answer(body)), names=("an object or an array",))
    accepted(ask(STRICT_JSON + '\njson = "container"', answer(b" [1]")), b" [1]")


def test_a_status_as_number_and_as_text(ask):  # noqa: F811
    response = STRICT_JSON + '\nacceptable_status = [200, "404", "500-502"]'
    for status in (200, 404, 500, 502):
        accepted(ask(response, answer(b"[]", status=status)), b"[]", status)
    rejected(ask(response, answer(b"[]", status=405)), code=None, names=("200, 404, 500-502", "405"))


# curl


def curl(proxy, *arguments: str) -> subprocess.CompletedProcess:
    need("curl")
    command = ["curl", "-q", "-sS", "--fail-with-body", "--proxy", proxy.url, "--noproxy", "", "--max-time", "30"]
    return subprocess.run([*command, *arguments], capture_output=True, env=clean_environment(), timeout=40)


def test_curl_digest(sallyport, raw_origin):
    """The challenge, which is a page of HTML, reaches curl, and the answer to the second request is judged."""

    def script(connection):
        while True:
            said = connection.read_request()
            given = (said.value("Authorization") or b"").decode()
            if not given.startswith("Digest "):
                challenge = 'WWW-Authenticate: Digest realm="r", qop="auth", algorithm=SHA-256, nonce="n"\r\n'
                connection.send(answer(HTML, "text/html", 401, challenge))
                continue
            parts = dict(re.findall(r'(\w+)="?([^",]*)"?', given))
            digest = lambda text: hashlib.sha256(text.encode()).hexdigest()  # noqa: E731
            secret = f'{digest("u:r:p")}:n:{parts["nc"]}:{parts["cnonce"]}:auth:'
            right = parts["response"] == digest(secret + digest(f"GET:{said.target.decode()}"))
            connection.send(answer(b'{"welcome": true}' if right else HTML, status=200 if right else 403))

    proxy, origin = sallyport(policy=policy(response=STRICT_JSON)), raw_origin(script)
    done = curl(proxy, "--digest", "-u", "u:p", f"http://{origin.authority}/private")
    assert (done.returncode, done.stdout) == (0, b'{"welcome": true}'), done
    proxy.access(lambda line: line["status"] == 200)
    assert [line["status"] for line in proxy.access_lines()] == [401, 200]


def test_curl_follows_a_redirect(sallyport, raw_origin):
    def script(connection):
        while True:
            if connection.read_request().target == b"/there":
                connection.send(answer(b"[1]"))
            else:
                connection.send(answer(HTML, "text/html", 302, "Location: /there\r\n"))

    proxy, origin = sallyport(policy=policy(response=STRICT_JSON)), raw_origin(script)
    done = curl(proxy, "-L", f"http://{origin.authority}/here")
    assert (done.returncode, done.stdout) == (0, b"[1]"), done


def test_curl_resumes_a_download(sallyport, nginx, web, tmp_path):
    document = json.dumps(list(range(20_000))).encode()
    nginx.put_file("numbers.json", document)
    half = tmp_path / "numbers.json"
    half.write_bytes(document[: len(document) // 2])
    rule = STRICT_JSON + '\nacceptable_content_types = ["*/*"]'
    done = curl(
        sallyport(policy=policy(response=rule)), "-C", "-", "-o", str(half), f"http://{web.authority}/numbers.json"
    )
    assert done.returncode == 0, done
    assert half.read_bytes() == document


# 1xx, versions, trailers, 417


def test_a_hundred_informational_responses_pass(plain_proxy, raw_origin, raw_client):
    said = b"HTTP/1.1 102 Processing\r\n\r\n" * 100 + answer(b"[]")
    origin, client = raw_origin(serving(said)), raw_client(plain_proxy)
    client.send(request(origin))
    assert [client.message().status for _ in range(101)] == [102] * 100 + [200]


def test_a_flood_of_informational_responses_is_cut(plain_proxy, raw_origin, raw_client):
    def script(connection):
        connection.read_request()
        try:
            for _ in range(20_000):
                connection.send(b"HTTP/1.1 102 Processing\r\n\r\n" * 10)
        except OSError:
            pass

    origin, client = raw_origin(script), raw_client(plain_proxy)
    client.send(request(origin))
    assert client.answer().status == 502


def test_426_says_what_to_speak(plain_proxy, raw_origin, raw_client):
    said = answer(b"[]", status=426, lines="Upgrade: TLS/1.0, HTTP/2.0\r\nConnection: upgrade\r\n")
    origin, client = raw_origin(serving(said)), raw_client(plain_proxy)
    got = client.exchange(request(origin, "/r"))
    assert got.value("Upgrade") == b"TLS/1.0, HTTP/2.0" and got.options("Connection") == [b"upgrade"]
    goes_on(client, origin)
    got = client.exchange(request(raw_origin(serving(answer(b"[]", lines="Upgrade: h2c\r\n"))), "/r"))
    assert got.values("Upgrade") == [] and got.values("Connection") == []


def test_an_empty_port_is_that_of_the_scheme(sallyport, raw_client):
    """Port 80 of loopback, where nothing listens: what was tried stands in the log."""
    proxy = sallyport()
    client = raw_client(proxy)
    assert client.exchange(b"GET http://127.0.0.1:/ HTTP/1.1\r\nHost: 127.0.0.1:\r\n\r\n").status == 502
    assert proxy.access()["outcome"] == "connection-refused" and proxy.access()["target"] == "http://127.0.0.1/"


@pytest.mark.parametrize("version", ["1.2", "1.9"])
def test_a_higher_minor_version_is_read_as_the_highest(version, plain_proxy, raw_origin, raw_client):
    origin, client = raw_origin(serving(answer(b"[]"))), raw_client(plain_proxy)
    client.sent += request(origin)  # the checker knows no other
    client.socket.sendall(request(origin, version=version))
    assert client.answer().status == 200
    assert origin.connections[0].requests[0].version == b"HTTP/1.1"


@pytest.mark.parametrize("version", ["2.0", "0.9", "3.0"])
def test_another_version_is_505(version, plain_proxy, raw_origin, raw_client):
    origin, client = raw_origin(serving(answer(b"[]"))), raw_client(plain_proxy)
    got = client.exchange(request(origin, version=version))
    assert got.status == 505 and b"version-not-supported" in got.reason and b"HTTP/1.1" in got.body
    assert client.wait_for_end() == "closed" and not origin.connections


def test_trailers_that_connection_does_not_name_pass(plain_proxy, raw_origin, raw_client):
    trailers = b"X-Sum: 1\r\nX-Other: 2\r\n"
    head = b"HTTP/1.1 200 Said\r\nConnection: x-other\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"
    origin = raw_origin(serving(head + chunks(b"body", trailers=trailers)))
    client = raw_client(plain_proxy)
    lines = "Connection: X-Other\r\nTransfer-Encoding: chunked\r\nX-Other: 0\r\n"
    got = client.exchange(request(origin, "/", lines, "POST", chunks(b"sent", trailers=trailers)))
    assert got.trailers == [(b"X-Sum", b"1")]
    seen = origin.connections[0].requests[0]
    assert seen.trailers == [(b"X-Sum", b"1")] and seen.values("X-Other") == []


EXPECTING = "Expect: 100-continue\r\nContent-Length: 5\r\n"


def refusing(connection) -> None:
    """417 to what expects, 200 to what does not."""
    while True:
        said = connection.read_head()
        if said.values("Expect"):
            connection.send(answer(b"", status=417))
            connection.wait_for_end()
            return
        connection.read_body()
        connection.send(answer(b"[]"))


def test_an_early_417_keeps_the_connection(plain_proxy, raw_origin, raw_client):
    origin, client = raw_origin(refusing), raw_client(plain_proxy)
    for _ in range(3):
        client.socket.sendall(request(origin, "/up", EXPECTING, "POST"))
        # To the checker the body of this request never comes.
        client.sent += request(origin, "/up", "Content-Length: 0\r\n", "POST")
        got = client.answer()
        assert got.status == 417 and got.options("Connection") == []
    got = client.exchange(request(origin, "/up", "Content-Length: 5\r\n", "POST", b"hello"))
    assert got.status == 200


def test_a_body_after_417_is_no_request(plain_proxy, raw_origin, raw_client):
    """Whoever chose the body must not choose a request: only the same one may follow."""
    origin, client = raw_origin(refusing), raw_client(plain_proxy)
    client.looked_at = False
    client.send(request(origin, "/up", EXPECTING, "POST"))
    assert client.answer().status == 417
    client.send(request(origin, "/other"))
    assert client.answer().status == 400 and client.wait_for_end() == "closed"
    assert all(seen.target == b"/up" for connection in origin.connections for seen in connection.requests)


def test_a_417_after_the_body_has_begun_ends_the_connection(plain_proxy, raw_origin, raw_client):
    def script(connection):
        connection.read_head()
        connection.read_exactly(2)
        connection.send(answer(b"", status=417))

    origin, client = raw_origin(script), raw_client(plain_proxy)
    client.looked_at = False
    client.send(request(origin, "/up", EXPECTING, "POST") + b"he")
    assert client.answer().options("Connection") == [b"close"]


def test_curl_sends_it_again(plain_proxy, raw_origin, tmp_path):
    """Without Expect, and on the same connection to the proxy."""
    origin, upload = raw_origin(refusing), tmp_path / "upload"
    upload.write_bytes(b"x" * 2_000_000)  # curl expects 100 from 1 MiB on
    url = f"http://{origin.authority}/"
    done = curl(plain_proxy, "--data-binary", f"@{upload}", "-w", "%{num_connects}", url)
    assert (done.returncode, done.stdout) == (0, b"[]1"), done
    refused, taken = [request for connection in origin.connections for request in connection.requests]
    assert refused.values("Expect") and len(taken.body) == 2_000_000


def test_a_head_of_60_kib_passes(plain_proxy, raw_origin, raw_client):
    long = "X-Long: " + "x" * 60_000 + "\r\n"
    origin, client = raw_origin(serving(answer(b"[]", lines=long))), raw_client(plain_proxy)
    got = client.exchange(request(origin, "/", long))
    assert len(got.value("X-Long")) == 60_000
    assert len(origin.connections[0].requests[0].value("X-Long")) == 60_000
