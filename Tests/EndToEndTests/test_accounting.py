"""The access log: one line for each request or tunnel, whatever became of it, with every field, and without a secret.

The keys are in the spelling that the tests assume: FIELDS.
"""

import base64
import json
import re
from datetime import datetime, timezone

import pytest

from dns_server import Answer
from journal import Journal
from origins import answering, echoing, silent, tunnel_echo, unused_port
from problems import check_problem

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ALWAYS = {
    "time": str,
    "ref": str,
    "client": str,
    "reused": bool,
    "status": int,
    "bytes_in": int,
    "bytes_out": int,
    "total_ms": (int, float),
    "outcome": str,
    "retried": bool,
}
# Where there is something to say.
FIELDS = ALWAYS | {
    "user": str,
    "method": str,
    "target": str,
    "rule": str,
    "decision": str,
    "reason": str,
    "route": str,
    "upstream": str,
    "name_ms": (int, float),
    "connect_ms": (int, float),
    "tls_ms": (int, float),
    "first_byte_ms": (int, float),
    "unit": str,
    "program": str,
    "protocol": str,
    "upstream_protocol": str,
    "cache": str,
    "proxy_user": str,
    "place": str,
    "detail": str,
    "expected": str,
    "seen": str,
    "report": str,
    "violation": str,
    "serializer": str,
    "mended": str,
    "assurance": str,
    "pins": str,
    "upstream_status": int,
    "upstream_type": str,
}


def get(origin, path: str = "/", lines: str = "", method: str = "GET", body: str = "") -> bytes:
    return f"{method} http://{origin.authority}{path} HTTP/1.1\r\nHost: {origin.authority}\r\n{lines}\r\n{body}".encode()


def connect(origin) -> bytes:
    return f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()


def check_fields(line: dict) -> dict:
    missing = ALWAYS.keys() - line.keys()
    assert not missing, f"the access line lacks {missing}: {line}"
    wrong = {name: value for name, value in line.items() if not isinstance(value, FIELDS.get(name, ()))}
    assert not wrong, f"fields of another type: {wrong}"
    return line


@pytest.fixture
def proxy(sallyport):
    return sallyport(proxy="workers = 1")


def settled_lines(proxy, raw_client, raw_origin) -> list[dict]:
    """All access lines so far: a last request is made, and what is logged before it is all there will be."""
    raw_client(proxy).exchange(get(raw_origin(answering(OK)), "/the-last-one"))
    proxy.access(lambda line: "/the-last-one" in (line["target"] or ""))
    uncounted = ("/the-last-one", "/uncounted")
    return [
        line for line in proxy.access_lines() if not any(path in (line["target"] or "") for path in uncounted)
    ]


# Every field


def test_the_line_of_a_request(proxy, raw_origin, raw_client):
    origin = raw_origin(echoing)
    client = raw_client(proxy)
    before = datetime.now(timezone.utc)
    client.exchange(get(origin, "/path?query=1", "Content-Length: 1000\r\n", "POST", "x" * 1000))
    line = check_fields(proxy.access())
    assert (
        before.timestamp() - 1 <= datetime.fromisoformat(line["time"]).timestamp() <= before.timestamp() + 20
    )
    assert re.fullmatch(r"[0-9A-Z]{6}", line["ref"])
    assert line["client"] == "%s:%d" % client.socket.getsockname()
    assert (line["method"], line["status"]) == ("POST", 200)
    assert line["target"] == f"{origin.url}/path", "the target without its query"
    assert (line["rule"], line["decision"], line["route"]) == (None, "allow", "direct")
    assert (line["upstream"], line["reused"], line["outcome"]) == (origin.authority, False, "done")
    assert 1000 <= line["bytes_in"] <= 1300 and 1000 <= line["bytes_out"] <= 1300
    assert line["connect_ms"] is not None and line["first_byte_ms"] is not None and line["tls_ms"] is None
    assert 0 <= line["first_byte_ms"] <= line["total_ms"] < 20_000


def test_the_line_of_a_request_on_a_reused_connection(proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    client = raw_client(proxy)
    for path in ("/1", "/2"):
        client.exchange(get(origin, path))
    line = check_fields(proxy.access(lambda line: line["target"].endswith("/2")))
    assert line["reused"] is True and line["upstream"] == origin.authority
    assert not line["connect_ms"] and not line["name_ms"]


def test_the_line_of_a_tunnel_comes_when_it_ends(proxy, raw_origin, raw_client):
    origin = raw_origin(tunnel_echo)
    client = raw_client(proxy)
    client.exchange(connect(origin))
    client.send(b"x" * 5000)
    client.receive_exactly(5000)
    assert proxy.access_lines() == []
    client.close()
    line = check_fields(proxy.access())
    assert (line["method"], line["target"], line["status"]) == ("CONNECT", origin.authority, 200)
    assert 5000 <= line["bytes_in"] <= 5300 and 5000 <= line["bytes_out"] <= 5300
    assert (line["upstream"], line["outcome"]) == (origin.authority, "done")


def test_the_line_of_a_name(sallyport, dns_server, raw_origin, raw_client):
    server, origin = dns_server({"a.test": Answer(a=["127.0.0.1"])}), raw_origin(answering(OK))
    proxy = sallyport(policy=f'[dns]\nservers = ["{server.address}"]\n[[rule]]\nname = "all"\n')
    raw_client(proxy).exchange(f"GET http://a.test:{origin.port}/ HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
    line = check_fields(proxy.access())
    assert (line["target"], line["upstream"]) == (f"http://a.test:{origin.port}/", origin.authority)
    assert (line["rule"], line["decision"]) == ("all", "allow") and line["name_ms"] is not None


@pytest.mark.own_network
def test_the_line_of_a_denied_address_says_deny(proxy, raw_client):
    """Who looks for attempts at the inside of a network looks for decision = deny, whatever denied it."""
    for data in (
        b"GET http://169.254.169.254/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT [fe80::1]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        problem = check_problem(raw_client(proxy).exchange(data), 403)
        line = check_fields(proxy.access_of(problem.reference))
        assert (line["status"], line["upstream"], line["decision"]) == (403, None, "deny")


def test_the_line_of_a_malformed_request_tells_what_was_readable(proxy, raw_client):
    """The request line was right and a field was not: who asked for what is what an operator wants to know."""
    data = b"GET http://127.0.0.1/path?query HTTP/1.1\r\nHost: 127.0.0.1\r\nX : y\r\n\r\n"
    raw_client(proxy).exchange(data)
    line = check_fields(proxy.access())
    assert (line["status"], line["method"], line["target"]) == (400, "GET", "http://127.0.0.1/path")
    assert line["bytes_in"] > 0


def test_the_line_of_a_request_that_was_cut_short_counts_its_bytes(proxy, raw_client):
    client = raw_client(proxy)
    client.send(b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127")
    client.half_close()
    client.wait_for_end()
    line = check_fields(proxy.access())
    assert line["bytes_in"] == len(client.sent) and line["bytes_out"] == len(client.received)


def test_the_log_can_be_switched_off(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy="[log]\naccess = false\n")
    assert raw_client(proxy).exchange(get(raw_origin(answering(OK)))).body == b"ok"
    proxy.terminate()
    assert proxy.wait_for_exit() == 0
    assert proxy.access_lines() == []


def test_the_log_as_text(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy='[log]\nformat = "text"\n')
    client = raw_client(proxy)
    origin = raw_origin(answering(OK))
    client.exchange(get(origin, "/path?token=of-the-query"))
    entry = proxy.log.wait_for(lambda entry: "/path" in entry.get("not_json", ""))
    assert all(part in entry["not_json"] for part in ("GET", origin.authority, "200"))
    assert "of-the-query" not in "".join(proxy.raw_log)
    proxy.log = Journal("nothing: this log is meant to be text")


# Exactly one, whatever became of it


def served(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(get(raw_origin(answering(OK))))
    return "GET", 200


def served_head(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(get(raw_origin(answering(b"HTTP/1.1 200 OK\r\n\r\n")), method="HEAD"))
    return "HEAD", 200


def early_hints(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(get(raw_origin(answering(b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK))))
    return "GET", 200


def an_error_of_the_origin(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(get(raw_origin(answering(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"))))
    return "GET", 500


def refused_by_the_origin(proxy, raw_origin, raw_client):
    port = unused_port()
    raw_client(proxy).exchange(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return "GET", 502


def a_tunnel_refused_by_the_origin(proxy, raw_origin, raw_client):
    port = unused_port()
    raw_client(proxy).exchange(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return "CONNECT", 502


def a_malformed_head(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n")
    return None, 400


def no_http_at_all(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(b"\x16\x03\x01\x00\xf7\x01\x00\x00\xf3")
    return None, 400


def a_malformed_body(proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    raw_client(proxy).exchange(
        get(origin, lines="Transfer-Encoding: chunked\r\n", method="POST", body="zz\r\n")
    )
    return "POST", 400


def a_head_above_the_limit(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(b"GET http://127.0.0.1/" + b"a" * 70_000)
    return None, 431


def a_loop(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(f"GET {proxy.url}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return "GET", 502


def a_malformed_response(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(get(raw_origin(answering(b"HTTP/1.1 2000 OK\r\n\r\n"))))
    return "GET", 502


def an_origin_that_closes(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(get(raw_origin(lambda connection: connection.read_request())))
    return "GET", 502


def a_client_that_left(proxy, raw_origin, raw_client):
    origin = raw_origin(silent)
    client = raw_client(proxy)
    client.send(get(origin))
    origin.wait_for("accepted")
    client.reset()
    origin.wait_for("done")
    return "GET", None


def answered_by_the_proxy(proxy, raw_origin, raw_client):
    raw_client(proxy).exchange(get(raw_origin(answering(OK)), lines="Max-Forwards: 0\r\n", method="TRACE"))
    return "TRACE", 200


def retried(proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(OK)
        if connection.number == 0:
            connection.read_request()
        else:
            connection.wait_for_end()

    origin = raw_origin(script)
    client = raw_client(proxy)
    client.exchange(get(origin, "/uncounted"))  # it opens the connection that will die
    client.exchange(get(origin))
    return "GET", 200


ENDS = [
    *[
        served,
        served_head,
        early_hints,
        an_error_of_the_origin,
        refused_by_the_origin,
        a_tunnel_refused_by_the_origin,
    ],
    *[
        a_malformed_head,
        no_http_at_all,
        a_malformed_body,
        a_head_above_the_limit,
        a_loop,
        a_malformed_response,
    ],
    *[an_origin_that_closes, a_client_that_left, answered_by_the_proxy, retried],
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__.replace("_", " "))
def test_there_is_exactly_one_line(end, proxy, raw_origin, raw_client):
    method, status = end(proxy, raw_origin, raw_client)
    lines = settled_lines(proxy, raw_client, raw_origin)
    assert len(lines) == 1, lines
    line = check_fields(lines[0])
    if status is not None:
        assert line["status"] == status
    if method is not None:
        assert line["method"] == method
    ours = status in (400, 431, 502) or status is None
    assert (
        (line["outcome"] != "done") == ours
    ), "an error is what went wrong on the proxy's way; a 500 of the origin is none"


def test_the_lines_of_pipelined_requests_are_one_each(proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(b"".join(get(origin, f"/{number}") for number in range(20)) + b"junk\r\n\r\n")
    for _ in range(20):
        assert client.answer().status == 200
    check_problem(client.answer(), 400)
    lines = settled_lines(proxy, raw_client, raw_origin)
    assert [line["status"] for line in lines] == [200] * 20 + [400]
    assert len({line["ref"] for line in lines}) == 21, "each has a reference of its own"


def test_the_bytes_of_all_lines_are_the_bytes_that_moved(proxy, raw_origin, raw_client):
    """With or without the heads; what a refused request said counts as well."""
    origin = raw_origin(echoing)
    sizes = [0, 1, 1000, 65_536, 1_000_000]
    client = raw_client(proxy)
    for size in sizes:
        client.exchange(get(origin, f"/{size}", f"Content-Length: {size}\r\n", "POST", "x" * size))
    for size in sizes:
        line = proxy.access(lambda line: line["target"].endswith(f"/{size}"))
        assert size <= line["bytes_in"] <= size + 400 and size <= line["bytes_out"] <= size + 400


def test_a_line_is_valid_json_whatever_the_client_sent(proxy, raw_origin, raw_client):
    """Quotes, backslashes and bytes above 0x7f in what is logged; the fixture checks that every line parses."""
    origin = raw_origin(answering(OK))
    raw_client(proxy).exchange(get(origin, "/a'b{}[]|^`c", method="M'TH!D"))
    raw_client(proxy).exchange(b'GET http://127.0.0.1/"\\\xff\x00 HTTP/1.1\r\nHost: "\\\xff\r\n\r\n')
    raw_client(proxy).exchange(b'"\\\xff\xfe\r\n\r\n')
    lines = settled_lines(proxy, raw_client, raw_origin)
    assert [line["status"] for line in lines] == [200, 400, 400]
    assert lines[0]["target"] == f"{origin.url}/a'b{{}}[]|^`c" and lines[0]["method"] == "M'TH!D"
    for text in proxy.raw_log:
        json.loads(text)
        assert text.isprintable() or text.rstrip("\n").isprintable()


# Secrets

WORD = "tell-nobody"
ENCODED = base64.b64encode(f"user:{WORD}".encode()).decode()
CREDENTIALS = {
    "in the query": ("/path?api_key=WORD", ""),
    "in the query, behind a semicolon": ("/path?a;token=WORD", ""),
    "in Authorization, Basic": ("/path", "Authorization: Basic ENCODED\r\n"),
    "in Authorization, Bearer": ("/path", "Authorization: Bearer WORD\r\n"),
    "in Proxy-Authorization": ("/path", "Proxy-Authorization: Basic ENCODED\r\n"),
    "in Cookie": ("/path", "Cookie: session=WORD\r\n"),
    "in a field of the application": ("/path", "X-Api-Key: WORD\r\n"),
    "in Referer": ("/path", "Referer: http://a.test/?token=WORD\r\n"),
}


@pytest.mark.parametrize("fate", ["served", "refused by the origin", "malformed", "denied", "cut short"])
@pytest.mark.parametrize("name", CREDENTIALS)
def test_credentials_are_never_logged(name, fate, sallyport, raw_origin, raw_client):
    path, lines = CREDENTIALS[name]
    proxy = sallyport(proxy='default = "deny"' if fate == "denied" else "", policy='[log]\nlevel = "debug"\n')
    proxy.secrets += [WORD, ENCODED]
    origin = raw_origin(answering(OK))
    data = get(origin, path.replace("WORD", WORD), lines.replace("WORD", WORD).replace("ENCODED", ENCODED))
    if fate == "refused by the origin":
        data = data.replace(origin.authority.encode(), b"127.0.0.1:%d" % unused_port())
    if fate == "malformed":
        data = data.replace(b"\r\n\r\n", b"\r\nX : y\r\n\r\n")
    client = raw_client(proxy)
    if fate == "cut short":
        client.send(data[:-3])
        client.half_close()
        client.wait_for_end()
    else:
        client.exchange(data)
    check_fields(proxy.access())
    answer = bytes(client.received).decode("latin-1")
    assert fate == "served" or WORD not in answer and ENCODED not in answer, "nor told in a problem"


@pytest.mark.parametrize("target", ["http://user:WORD@ORIGIN/", "http://WORD@ORIGIN/", "user:WORD@ORIGIN"])
def test_userinfo_of_a_refused_target_is_never_logged(target, sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(), raw_origin(answering(OK))
    proxy.secrets.append(WORD)
    method = "GET" if target.startswith("http") else "CONNECT"
    target = target.replace("WORD", WORD).replace("ORIGIN", origin.authority)
    answer = raw_client(proxy).exchange(
        f"{method} {target} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()
    )
    check_problem(answer, 400)
    check_fields(proxy.access())
    assert WORD.encode() not in answer.body


def test_cookies_of_an_answer_are_never_logged(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy='[log]\nlevel = "debug"\n')
    proxy.secrets.append(WORD)
    for answer in (OK, b"HTTP/1.1 200 OK\r\nX: \0y\r\n\r\n"):
        answer = answer.replace(b"OK\r\n", f"OK\r\nSet-Cookie: session={WORD}\r\n".encode(), 1)
        raw_client(proxy).exchange(get(raw_origin(answering(answer))))
    proxy.log.wait_for_several(2, lambda line: "total_ms" in line)
