"""What the tests of the admin API share: a proxy that has one, a used one, and readers of what it says.

    administered(policy)      a proxy with an admin socket; `proxy.admin` is its client, every name is 127.0.0.1
    used                      one that has ended 14 exchanges under POLICY
    raw_admin(proxy)          a connection to the API, whose bytes are checked at the end
    samples(proxy)            every sample of /metrics
    rewrite(proxy, policy)    another configuration, to be reloaded
"""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from admin_client import AdminClient, AdminConnection
from dns_server import Answer
from origins import answering, unused_port
from proxy import Proxy, configuration_text
from test_policy import get

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ADMIN = '[admin]\nsocket = "admin.sock"\n'
DENY = '[[rule]]\nname = "no-ads"\nhosts = ["**.ads.test"]\naction = "deny"\n'
ONE_PIN = '"sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="'
TWO_PINS = f'spki = [{ONE_PIN}, "sha256/BBBBAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]'


@pytest.fixture
def administered(sallyport, dns_server):
    """A function that starts a proxy with the API; `admin` is a client of it. Every name is 127.0.0.1."""

    def start(policy: str = "", proxy: str = "", admin: str = "", **arguments) -> Proxy:
        names = dns_server({}, otherwise=Answer(a=["127.0.0.1"]))
        head = f'{ADMIN}{admin}[dns]\nservers = ["{names.address}"]\n'
        listen = f'["127.0.0.1:{unused_port()}"]'
        started = sallyport(proxy=proxy, policy=head + policy, listen=listen, **arguments)
        started.head = head
        started.admin = AdminClient(started.configuration.parent / "admin.sock")
        return started

    return start


@pytest.fixture
def raw_admin():
    """A function that opens a connection to the API; every byte that came back is checked at the end."""
    connections: list[AdminConnection] = []

    def open_one(proxy: Proxy) -> AdminConnection:
        connections.append(proxy.admin.connection())
        return connections[-1]

    yield open_one
    for connection in connections:
        connection.close()
    for connection in connections:
        if connection.looked_at:
            connection.check()


def ask_once(raw_client, proxy: Proxy, data: bytes):
    """One request on a connection of its own, and its access line."""
    before = len(proxy.log.snapshot())
    client = raw_client(proxy)
    answer = client.exchange(data)
    client.close()
    proxy.log.wait_for(lambda entry: "total_ms" in entry, after=before)
    return answer


POLICY = """
[[rule]]
name = "open"
hosts = ["open.test"]
[[rule]]
name = "no-ads"
hosts = ["**.ads.test"]
action = "deny"
[[rule]]
name = "lenient"
hosts = ["lenient.test"]
action = "deny"
enforce = false
[[rule]]
name = "json"
hosts = ["json.test"]
[rule.response]
serializer = "json"
on_violation = { status = "annotate", content_type = "annotate", body = "annotate" }
[[rule]]
name = "strict"
hosts = ["strict.test"]
[rule.response]
serializer = "json"
[[rule]]
name = "never"
hosts = ["never.test"]
"""


@pytest.fixture
def used(administered, raw_origin, raw_client) -> Proxy:
    """A proxy that has ended 14 exchanges, all of whose connections are closed."""
    proxy, origin, nobody = administered(POLICY), raw_origin(answering(OK)), unused_port()
    for host, port, count, status in (
        ("open.test", origin.port, 3, 200),
        ("a.ads.test", origin.port, 2, 403),
        ("lenient.test", origin.port, 2, 200),
        ("json.test", origin.port, 1, 200),
        ("strict.test", origin.port, 1, 502),
        ("open.test", nobody, 2, 502),
        ("other.test", origin.port, 3, 200),
    ):
        for _ in range(count):
            assert ask_once(raw_client, proxy, get(host, port)).status == status
    proxy.admin.asked_until("/v1/status", lambda status: status["connections"]["clients"] == 0)
    return proxy


def many_refusals(client, count: int, batch: int = 100) -> None:
    """So many requests that are denied, pipelined in batches; nothing of the answers is kept."""
    data = get("x.ads.test", 80)
    assert count % batch == 0
    for _ in range(count // batch):
        client.socket.sendall(data * batch)
        answers, tail = 0, b""
        while answers < batch or not tail.rstrip().endswith(b"}"):
            chunk = client.socket.recv(262144)
            assert chunk, "the proxy closed a connection of requests"
            text = tail[-12:] + chunk
            answers += text.count(b"HTTP/1.1 403 ") - tail[-12:].count(b"HTTP/1.1 403 ")
            tail = text


def rewrite(proxy: Proxy, policy: str, lines: str = "") -> None:
    proxy.configuration.write_text(configuration_text(lines, proxy.head + policy, f'["{proxy.authority}"]'))


def samples(proxy: Proxy) -> dict:
    """Every sample by its name and its sorted labels."""
    answer = proxy.admin.ask("/metrics")
    assert answer.status == 200
    assert answer.value("Content-Type").startswith(b"text/plain; version=0.0.4")
    return samples_of(answer.body.decode("utf-8"))


def samples_of(text: str) -> dict:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} comes twice"
            found[key] = sample.value
    return found


def assert_none_went_down(before: dict, after: dict) -> None:
    for key, value in before.items():
        if re.search("_(total|count|sum|bucket)$", key[0]):
            assert after.get(key, -1) >= value, f"{key} was {value} and is {after.get(key)}"
