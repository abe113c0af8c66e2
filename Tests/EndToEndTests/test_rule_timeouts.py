"""[rule.timeouts]: a rule's own time-outs on every way to an origin, beside those of the proxy for all others."""

import json
import threading

import pytest

from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo
from parents import routed
from problems import check_problem
from proxy import command
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from test_limits import connect, full_listener, get, takes_at_least, timeouts
from tls_world import OK, authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import way


def rule_timeouts(*lines: str) -> str:
    return "\n".join(["[rule.timeouts]", *lines, ""])


def patient(*lines: str) -> str:
    return rule("patient", 'paths = ["/poll"]', *lines) + rule_timeouts('response_header = "10m"')


class LongPoll:
    """An origin that answers /others never, and anything else once `news` is set."""

    def __init__(self):
        self.asked, self.news = threading.Event(), threading.Event()

    def __call__(self, connection) -> None:
        while True:
            request = connection.read_request()
            if request.method == b"CONNECT":
                connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
                continue
            if request.target.endswith(b"/others"):
                connection.wait_for_end()
                return
            self.asked.set()
            assert self.news.wait(DEADLINE_SECONDS)
            connection.send(OK)


def test_a_long_poll_outlives_the_time_of_others(way):
    """The one whose rule is patient is still waited for when another, which asked later, has run out of time."""
    poll = LongPoll()
    hasty = rule_timeouts('response_header = "400ms"')
    started = way(poll, after=hasty, before=patient)
    polling, other = started.enter(), started.enter()
    polling.send(started.head("GET", path="/poll"))
    assert poll.asked.wait(DEADLINE_SECONDS)
    check_problem(other.exchange(started.head("GET", path="/others")), 504)
    poll.news.set()
    assert polling.answer().body == b"ok"


def test_a_rule_that_is_less_patient(way):
    started = way(LongPoll(), after=rule_timeouts('response_header = "300ms"'))
    with takes_at_least(0.3):
        answer = started.ask("GET", path="/others")
    check_problem(answer, 504)
    assert "within the rule's 300 ms" in json.loads(answer.body)["detail"]


def test_a_body_that_stalls(way):
    def half(connection) -> None:
        while connection.read_request().method == b"CONNECT":
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
        connection.wait_for_end()

    started = way(half, after=rule_timeouts('body_stall = "300ms"'))
    client = started.enter()
    with takes_at_least(0.25):
        client.send(started.head("GET"))
        client.wait_for_end()
    client.looked_at = False
    line = started.proxy.access(lambda line: line["method"] == "GET")
    assert line["outcome"] == "stalled"


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_connect_that_never_ends(method, sallyport, raw_client):
    policy = rule("kept") + rule_timeouts('connect = "300ms"') + timeouts('connect = "10m"')
    proxy = sallyport(policy=policy)
    with full_listener() as port:
        target = f"127.0.0.1:{port}" if method == "CONNECT" else f"http://127.0.0.1:{port}/"
        with takes_at_least(0.3):
            answer = raw_client(proxy).exchange(
                f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
            )
    check_problem(answer, 504, error="connection_timeout")
    assert "300 ms" in json.loads(answer.body)["detail"]


def test_a_tunnel_of_a_rule_may_rest_longer_than_others(sallyport, raw_origin, raw_client):
    kept, other = raw_origin(tunnel_echo), raw_origin(tunnel_echo)
    policy = rule("kept", f"ports = [{kept.port}]") + rule_timeouts('tunnel_idle = "10m"')
    proxy = sallyport(policy=policy + timeouts('tunnel_idle = "300ms"'))
    resting, passing = raw_client(proxy), raw_client(proxy)
    for client, origin in ((resting, kept), (passing, other)):
        assert client.exchange(connect(origin)).status == 200
    passing.wait_for_end()
    resting.send(b"x")
    assert resting.receive_exactly(1) == b"x"


def test_a_tunnel_of_a_rule_may_rest_less_than_others(sallyport, raw_origin, raw_client):
    origin = raw_origin(tunnel_echo)
    proxy = sallyport(policy=rule("kept") + rule_timeouts('tunnel_idle = "300ms"'))
    client = raw_client(proxy)
    client.exchange(connect(origin))
    with takes_at_least(0.25):
        client.wait_for_end()
    origin.wait_for("done")


def test_an_upstream_connection_is_kept_as_the_rule_says(sallyport, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    proxy = sallyport(proxy="workers = 1", policy=rule("kept") + rule_timeouts('upstream_idle = "300ms"'))
    client = raw_client(proxy)
    with takes_at_least(0.25):
        assert client.exchange(get(origin)).status == 200
        origin.wait_for("done")
    assert client.exchange(get(origin)).status == 200
    assert len(origin.connections) == 2


def test_explain_tells(sallyport_binary, tmp_path):
    configuration = tmp_path / "s.toml"
    configuration.write_text(rule("kept") + rule_timeouts('response_header = "10m"'))
    said = command("explain", "--config", configuration, "GET", "http://a.test/")
    assert "timeouts: response_header 10m" in said.stdout
    told = json.loads(command("explain", "--config", configuration, "--json", "GET", "http://a.test/").stdout)
    assert told["actions"]["timeouts"] == {"response_header_ms": 600_000}

