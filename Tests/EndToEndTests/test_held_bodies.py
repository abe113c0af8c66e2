"""Bodies that are held while something happens: who breaks off, who leaves, who is late, and when all memory is spent.

Then the whole of it once with nginx, and once each with curl, requests and urllib.
"""

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request

import pytest
import requests

from conftest import need
from journal import DEADLINE_SECONDS
from origins import ClosedByProxy, answering
from problems import check_problem
from serializer_world import (
    ANNOTATE_ALL,
    FORM,
    JSON,
    OK,
    ONE_WORKER,
    REJECT_ALL,
    accepted,
    adding,
    annotated,
    answer,
    as_it_came,
    decoded,
    ended_quietly,
    goes_on,
    goes_on_or_is_closed,
    gzip_nginx,
    only,
    policy,
    post,
    rejected,
    request,
    serving,
)
from test_clients import run

CHECKED = f'serializer = "json"\n{REJECT_ALL}\n'
NOTED = f'serializer = "json"\n{ANNOTATE_ALL}\n'


# An origin that does not finish


BROKEN_OFF = {
    "sized": f"HTTP/1.1 200 Said\r\nContent-Type: {JSON}\r\nContent-Length: 10\r\n\r\n[1, 2".encode(),
    "sized, what came is valid in itself": (
        f"HTTP/1.1 200 Said\r\nContent-Type: {JSON}\r\nContent-Length: 10\r\n\r\n[1, 2]".encode()
    ),
    "chunked, in a chunk": (
        f"HTTP/1.1 200 Said\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n[1".encode()
    ),
    "chunked, between chunks": (
        f"HTTP/1.1 200 Said\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]\r\n".encode()
    ),
    "chunked, before the end of the trailers": (
        f"HTTP/1.1 200 Said\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]\r\n0\r\n".encode()
    ),
    "chunked, with what is no chunk": (
        f"HTTP/1.1 200 Said\r\nContent-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]\r\nzz\r\n".encode()
    ),
}


@pytest.mark.parametrize("response", [CHECKED, NOTED], ids=["reject", "annotate"])
@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("name", BROKEN_OFF)
def test_an_origin_that_breaks_off_is_502_and_no_cut(name, how, response, sallyport, raw_origin, raw_client):
    """Nothing of the answer has left yet, so that the client can be told."""

    def breaking(connection) -> None:
        connection.read_body()
        connection.send(BROKEN_OFF[name])
        if how == "reset":
            connection.reset()

    proxy, origin = sallyport(policy=policy(response=response)), raw_origin(only(breaking))
    client = raw_client(proxy)
    said = client.exchange(request(origin, "/r", method="POST"))
    problem = check_problem(said, 502)
    assert problem.error in (
        "http_response_incomplete",
        "connection_terminated",
        "http_response_transfer_coding",
        "http_protocol_error",
    )
    assert proxy.access_of(problem.reference)["outcome"] != "done"
    # What breaks the grammar closes the client's connection too, under rules without a serializer as well.
    goes_on_or_is_closed(client, origin, said) if "no chunk" in name else goes_on(client, origin)


def test_a_body_until_the_close_that_is_reset_is_502(sallyport, raw_origin, raw_client):
    def breaking(connection) -> None:
        connection.read_body()
        connection.send(answer(b"[1]", framing="close"))
        connection.reset()

    origin = raw_origin(only(breaking))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    check_problem(client.exchange(request(origin, "/r", method="POST")), 502)
    goes_on(client, origin)


@contextlib.contextmanager
def takes_at_least(seconds: float):
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun >= seconds * 0.9, "it came too early"


def stalling(connection) -> None:
    connection.read_body()
    connection.send(answer(b"", lines="Content-Length: 9\r\n", framing="none") + b"[1, ")
    ended_quietly(connection)


def test_a_held_body_that_stalls_is_504(sallyport, raw_origin, raw_client):
    stall = '[proxy.timeouts]\nbody_stall = "300ms"\n'
    origin = raw_origin(only(stalling))
    client = raw_client(sallyport(policy=stall + policy(response=CHECKED)))
    with takes_at_least(0.3):
        check_problem(client.exchange(request(origin, "/r")), 504)
    origin.wait_for("done")
    goes_on(client, origin)


def test_a_held_body_runs_into_the_timeout_of_its_rule(sallyport, raw_origin, raw_client):
    origin = raw_origin(only(stalling))
    client = raw_client(sallyport(policy=policy(request='timeout = "300ms"', response=CHECKED)))
    with takes_at_least(0.3):
        check_problem(client.exchange(request(origin, "/r")), 504, rule="r")
    origin.wait_for("done")
    goes_on(client, origin)


def test_a_body_that_trickles_is_held_until_it_is_whole(sallyport, raw_origin, raw_client):
    """Slower than body_stall as a whole, and never from byte to byte."""
    body = b'{"trickling": [1, 2, 3]}'

    def trickling(connection) -> None:
        connection.read_body()
        connection.send(answer(b"", lines=f"Content-Length: {len(body)}\r\n", framing="none"))
        for at in range(len(body)):
            waiting.wait(0.03)  # nobody sets it: the pace of a slow origin
            connection.send(body[at : at + 1])
        serving(b"")(connection)

    waiting = threading.Event()
    stall = '[proxy.timeouts]\nbody_stall = "400ms"\n'
    origin = raw_origin(only(trickling))
    client = raw_client(sallyport(policy=stall + policy(response=CHECKED)))
    accepted(client.exchange(request(origin, "/r")), body)
    goes_on(client, origin)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_lets_go_of_the_origin(how, sallyport, raw_origin, raw_client):
    origin = raw_origin(only(stalling))
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    client.send(request(origin, "/r"))
    origin.wait_for("accepted")
    getattr(client, how)()
    origin.wait_for("done")


# All memory of held bodies


BODY_BYTES = 64 * 1024
# One of the largest bodies and one of the others are more than all may hold, and neither is so alone.
MEMORY = 'buffered_body = "64KiB"\nheld_bodies = "96KiB"'
MOST = b'"' + b"x" * (BODY_BYTES - 2) + b'"'
OTHER = b'"' + b"y" * 40_000 + b'"'


class HoldingOrigin:
    """Answers /r/hold with MOST but for its last byte, which comes when it is let go; all else with OTHER."""

    def __init__(self):
        self.let_go = threading.Event()

    def __call__(self, connection) -> None:
        while True:
            target = connection.read_request().target
            if target == b"/r/hold":
                said = answer(MOST)
                connection.send(said[:-1])
                if not self.let_go.wait(DEADLINE_SECONDS):
                    raise ClosedByProxy
                connection.send(said[-1:])
            else:
                connection.send(OK if target == b"/after" else answer(OTHER))


def until(client, data: bytes, status: int):
    """Ask until this is the answer: that a body has been let go is an event of the proxy's own."""
    end = time.monotonic() + DEADLINE_SECONDS
    while (got := client.exchange(data)).status != status and time.monotonic() < end:
        continue
    return got


def refused_while_held(connect, hold: bytes, other, data: bytes):
    """Send what will be held, and ask beside it until there is no memory left for that: the client whose body is held,
    and the refusal. Who came second is refused: where that was the one to be held, it comes again."""
    end = time.monotonic() + DEADLINE_SECONDS
    holding = connect()
    holding.send(hold)
    while (got := other.exchange(data)).status != 503 and time.monotonic() < end:
        if not holding.nothing_came():
            check_problem(holding.answer(), 503, error="proxy_internal_response", rule="r")
            holding = connect()
            holding.send(hold)
    return holding, check_problem(got, 503, error="proxy_internal_response", rule="r")


@pytest.mark.parametrize("leaves", [False, True], ids=["it is answered", "its client leaves"])
@pytest.mark.parametrize("response", [CHECKED, NOTED], ids=["reject", "annotate"])
def test_when_all_memory_of_held_bodies_is_spent(response, leaves, sallyport, raw_origin, raw_client):
    """503 for whoever comes then, whatever the rule says of violations; and when it is free again, all is well."""
    script = HoldingOrigin()
    proxy = sallyport(policy=policy(response=response, limits=MEMORY))
    origin = raw_origin(script)
    other = raw_client(proxy)
    ask, ask_beside = request(origin, "/r/hold"), request(origin, "/r/other")
    holding, problem = refused_while_held(lambda: raw_client(proxy), ask, other, ask_beside)
    assert proxy.access_of(problem.reference)["outcome"] == problem.token
    goes_on(other, origin)
    if leaves:
        holding.reset()
        holding.looked_at = False
    script.let_go.set()
    if not leaves:
        accepted(holding.answer(), MOST)
    accepted(until(other, request(origin, "/r/other"), 200), OTHER)
    goes_on(other, origin)


def test_held_requests_count_too(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=policy(request=adding({"a": "b"}), limits=MEMORY))
    origin = raw_origin(answering(OK))
    body = b"k=" + b"x" * (BODY_BYTES - 2)
    data = post(origin, body, FORM, path="/r")
    beside = post(origin, b"k=" + b"y" * 40_000, FORM, path="/r")
    holding, _ = refused_while_held(lambda: raw_client(proxy), data[:-1], raw_client(proxy), beside)
    holding.send(data[-1:])
    assert holding.answer().status == 200
    assert body + b"&a=b" in [message.body for message in origin.requests()]
    again = raw_client(proxy)
    assert until(again, post(origin, b"k=y", FORM, path="/r"), 200).status == 200


def test_held_bodies_are_let_go_one_after_another(sallyport, raw_origin, raw_client):
    """Two hundred bodies in a row, each nearly half of all there is: none of them stays."""
    origin = raw_origin(serving(answer(OTHER), answer(OTHER[:-1]), answer(OTHER), *[answer(OTHER)] * 197))
    client = raw_client(sallyport(proxy=ONE_WORKER, policy=policy(response=CHECKED, limits=MEMORY)))
    for number in range(200):
        got = client.exchange(request(origin, "/r"))
        if number == 1:
            rejected(got)
        else:
            accepted(got, OTHER)


def test_streams_and_bodies_of_other_rules_need_none_of_it(sallyport, raw_origin, raw_client):
    script = HoldingOrigin()
    rules = policy(response=CHECKED, conditions='paths = ["/r/*"]', limits=MEMORY)
    proxy, origin = sallyport(policy=rules), raw_origin(script)
    other = raw_client(proxy)
    ask, ask_beside = request(origin, "/r/hold"), request(origin, "/r/other")
    holding, _ = refused_while_held(lambda: raw_client(proxy), ask, other, ask_beside)
    as_it_came(other.exchange(request(origin, "/elsewhere")), OTHER)
    script.let_go.set()
    accepted(holding.answer(), MOST)


# nginx, and real clients


DOCUMENT = json.dumps({"a": None, "b": [1, None, {"c": None}], "text": "ä" * 20_000}).encode()
KEPT = {"b": [1, {}], "text": "ä" * 20_000}


def test_nginx_with_gzip(gzip_nginx, sallyport, raw_client):
    gzip_nginx.put("good.json", DOCUMENT)
    gzip_nginx.put("bad.json", DOCUMENT[:-1])
    gzip_nginx.put("page.html", b"<p>")
    client = raw_client(sallyport(policy=policy(response=CHECKED)))
    coded = client.exchange(request(gzip_nginx, "/good.json", "Accept-Encoding: gzip\r\n"))
    assert (coded.status, coded.value("Content-Encoding")) == (200, b"gzip")
    assert decoded(coded) == DOCUMENT and len(coded.body) < len(DOCUMENT) and not coded.values("Proxy-Status")
    plain = client.exchange(request(gzip_nginx, "/good.json"))
    assert (plain.status, plain.body, plain.values("Content-Encoding")) == (200, DOCUMENT, [])
    rejected(
        client.exchange(request(gzip_nginx, "/bad.json", "Accept-Encoding: gzip\r\n")), names=("line 1",)
    )
    rejected(client.exchange(request(gzip_nginx, "/page.html")), names=("text/html",))
    rejected(client.exchange(request(gzip_nginx, "/missing.json")), code=-1011, names=("404", "text/html"))
    head = client.exchange(request(gzip_nginx, "/good.json", method="HEAD"))
    assert head.status == 200 and head.value("Content-Length") == b"%d" % len(DOCUMENT)
    part = client.exchange(request(gzip_nginx, "/good.json", "Range: bytes=0-9\r\n"))
    assert part.status in (206, 502)  # Silent in the specification: see test_a_part_of_a_body
    etag = plain.value("ETag").decode()
    fresh = client.exchange(request(gzip_nginx, "/good.json", f"If-None-Match: {etag}\r\n"))
    assert fresh.status == 304 and not fresh.values("Proxy-Status")
    goes_on(client, gzip_nginx)


@pytest.mark.parametrize("violation", [CHECKED, NOTED], ids=["reject", "annotate"])
def test_curl(violation, gzip_nginx, sallyport):
    need("curl")
    proxy = sallyport(policy=policy(response=f"{violation}remove_nulls = true"))
    good, bad = gzip_nginx.put("good.json", DOCUMENT), gzip_nginx.put("bad.json", DOCUMENT[:-1])
    curl = ["curl", "-sS", "--max-time", "15", "--compressed", "--proxy", proxy.url]
    assert json.loads(run(*curl, "--fail", good)) == KEPT
    said = run(*curl, "-w", "\n%{http_code} %header{proxy-status}", bad, good)
    first, status = said.split(b"\n")[0], said.split(b"\n")[-1] if violation is NOTED else said
    if violation is CHECKED:
        assert json.loads(first)["status"] == 502 and b"\n502 " in said
        assert b"ref=" in run(*curl, "-D", "-", "-o", "/dev/null", bad).splitlines()[0]
    else:
        assert first == DOCUMENT[:-1] and b"\n200 sallyport" in said and status


@pytest.mark.parametrize("violation", [CHECKED, NOTED], ids=["reject", "annotate"])
def test_requests(violation, gzip_nginx, sallyport):
    proxy = sallyport(policy=policy(response=f"{violation}remove_nulls = true"))
    good, bad = gzip_nginx.put("good.json", DOCUMENT), gzip_nginx.put("bad.json", DOCUMENT[:-1])
    with requests.Session() as session:
        session.proxies = {"http": proxy.url}
        for _ in range(2):
            assert session.get(good, timeout=DEADLINE_SECONDS).json() == KEPT
            got = session.get(bad, timeout=DEADLINE_SECONDS)
            if violation is CHECKED:
                assert (got.status_code, got.json()["error"], got.json()["rule"]) == (
                    502,
                    "http_protocol_error",
                    "r",
                )
            else:
                assert (got.status_code, got.content) == (200, DOCUMENT[:-1])
                assert got.headers["Proxy-Status"].startswith("sallyport")


@pytest.mark.parametrize("violation", [CHECKED, NOTED], ids=["reject", "annotate"])
def test_urllib(violation, gzip_nginx, sallyport):
    proxy = sallyport(policy=policy(response=f"{violation}remove_nulls = true"))
    good, bad = gzip_nginx.put("good.json", DOCUMENT), gzip_nginx.put("bad.json", DOCUMENT[:-1])
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy.url}))
    with opener.open(good, timeout=DEADLINE_SECONDS) as got:
        assert json.loads(got.read()) == KEPT
    if violation is CHECKED:
        with pytest.raises(urllib.error.HTTPError) as refusal:
            opener.open(bad, timeout=DEADLINE_SECONDS)
        assert refusal.value.code == 502 and "rule=r ref=" in refusal.value.reason
        assert json.loads(refusal.value.read())["nsurlError"] == -1016
    else:
        with opener.open(bad, timeout=DEADLINE_SECONDS) as got:
            assert got.read() == DOCUMENT[:-1]


def test_an_annotation_is_what_a_client_can_log(gzip_nginx, sallyport, raw_client):
    """The words beside each other: what a person finds in the field is in the access line too."""
    gzip_nginx.put("bad.json", b"[1,\n 2,]")
    proxy = sallyport(policy=policy(response=NOTED))
    got = raw_client(proxy).exchange(request(gzip_nginx, "/bad.json"))
    annotated(got, names=("line 2", "column 4"))
    line = proxy.access(lambda line: line["target"].endswith("/bad.json"))
    assert line["violation"] and line["outcome"] == "done" and line["status"] == 200
