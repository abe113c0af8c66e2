"""throttle of tunnels and of downloads, on every way to an origin.

A pace is seen by bounds that hold however slow the machine is: at no time had more come than was due by then, and what a
pause of a minute holds back does not come at all. That others go on meanwhile, and that nothing spins, is seen as well.
"""

import hashlib
import threading
import time
from pathlib import Path

import pytest

from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo
from parents import routed
from proxy import command
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from serializer_world import ONE_WORKER, request
from service import passing
from test_request_pacing import TimedOrigin
from test_tunnels_over_restarts import service
from tls_world import OK, authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import way

RATE = 512 << 10
STEP_SECONDS = 0.05
BODY = hashlib.shake_256(b"a download").digest(320 << 10)
LARGE = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%b\r\n" % (len(BODY[at : at + 5000]), BODY[at : at + 5000]) for at in range(0, len(BODY), 5000))
    + b"0\r\n\r\n"
)
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\n" + BODY
DOWNLOAD = f'throttle = {{ download = "{RATE >> 10}KiB" }}'
HOUR = 'throttle = {{ packet = "1KiB", delay = "1m"{} }}'


class Watched:
    """Reads from a client and notes what had come when, from the moment before the first byte may have been sent."""

    def __init__(self, client):
        self.client, self.begun = client, time.monotonic()
        self.before = len(client.received)

    def read(self, count: int) -> None:
        """Until so many bytes have come: never more than were due."""
        while len(self.client.received) - self.before < count:
            assert self.client.receive_some(), "the client got less"
            self.check()

    def check(self) -> None:
        elapsed = time.monotonic() - self.begun
        # Four steps may leave at once where nothing left for a while, as before the first byte.
        due = RATE * (elapsed + 4 * STEP_SECONDS)
        assert len(self.client.received) - self.before <= due + 2048, f"too much after {elapsed:.3f} s"


def least_seconds(count: int) -> float:
    return count / RATE - 4 * STEP_SECONDS


@pytest.mark.parametrize("answer", [LARGE, CHUNKED, UNTIL_CLOSE], ids=["sized", "chunked", "until close"])
def test_a_download_keeps_its_rate(answer, sallyport, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(answer)
        connection.close()

    proxy, origin = sallyport(policy=rule("r", request=DOWNLOAD)), raw_origin(script)
    client = raw_client(proxy)
    client.send(request(origin))
    watched = Watched(client)
    watched.read(len(BODY))
    assert client.answer().body == BODY
    assert time.monotonic() - watched.begun >= least_seconds(len(BODY))


def test_a_download_keeps_its_rate_on_every_way(way):
    started = way(answering(LARGE), request=DOWNLOAD)
    client = started.enter()
    begun = time.monotonic()
    answer = client.exchange(started.head("GET"))
    assert answer.status == 200 and answer.body == BODY
    assert time.monotonic() - begun >= least_seconds(len(BODY))
    # The connection goes on.
    assert client.exchange(started.head("HEAD")).status == 200


def test_a_held_response_leaves_at_its_pace(sallyport, raw_origin, raw_client):
    body = b'{"a": "%b"}' % (b"x" * (300 << 10))
    script = answering(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    policy = rule("r", request=DOWNLOAD) + '[rule.response]\nserializer = "json"\n'
    proxy, origin = sallyport(policy=policy), raw_origin(script)
    client = raw_client(proxy)
    client.send(request(origin))
    watched = Watched(client)
    watched.read(len(body))
    assert client.answer().body == body
    assert time.monotonic() - watched.begun >= least_seconds(len(body))


def connect(origin) -> bytes:
    return f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()


def saying(data: bytes):
    """An origin that says this, then waits for the client's end."""

    def script(connection) -> None:
        connection.switch_protocol()
        connection.send(data)
        connection.half_close()
        connection.wait_for_end()

    return script


def test_a_tunnel_keeps_its_rate_towards_the_client(sallyport, raw_origin, raw_client):
    """And its end comes behind the last byte, not instead of it."""
    proxy, origin = sallyport(policy=rule("r", request=DOWNLOAD)), raw_origin(saying(BODY))
    client = raw_client(proxy)
    client.send(connect(origin))
    watched = Watched(client)
    assert client.answer().status == 200
    watched.read(len(BODY))
    client.half_close()
    assert client.wait_for_end() == "closed"
    assert bytes(client.received[-len(BODY) :]) == BODY
    assert time.monotonic() - watched.begun >= least_seconds(len(BODY))


@pytest.mark.parametrize("packets", [1, 4, 9])
def test_a_tunnel_keeps_its_pace_towards_the_destination(packets, sallyport, raw_origin, raw_client):
    arrivals: list[tuple[float, int]] = []
    data = hashlib.shake_256(b"an upload").digest(packets * 1024)

    def script(connection) -> None:
        connection.switch_protocol()
        while connection.receive_some():
            arrivals.append((time.monotonic(), len(connection.received)))
        connection.send(hashlib.sha256(connection.received).digest())
        connection.close()

    proxy, origin = sallyport(policy=rule("r", request='throttle = { packet = "1KiB", delay = "60ms" }')), raw_origin(script)
    client = raw_client(proxy)
    assert client.exchange(connect(origin)).status == 200
    begun = time.monotonic()
    client.send(data)
    client.half_close()
    # The end of what the client says comes behind all of it.
    assert client.receive_exactly(32) == hashlib.sha256(data).digest()
    for moment, count in arrivals:
        due = 1 + int((moment - begun) / 0.054)
        assert count <= due * 1024, f"{count} bytes after {moment - begun:.3f} s"
    assert arrivals[-1][1] == len(data)


def test_an_upgraded_connection_keeps_its_pace(sallyport, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.switch_protocol()
        connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + BODY)
        connection.wait_for_end()

    proxy, origin = sallyport(policy=rule("r", request=DOWNLOAD)), raw_origin(script)
    client = raw_client(proxy)
    client.send(request(origin, lines="Connection: Upgrade\r\nUpgrade: websocket\r\n"))
    watched = Watched(client)
    watched.read(len(BODY))
    assert client.message().status == 101
    assert client.receive_exactly(len(BODY)) == BODY


def ticks(proxy) -> int:
    """Processor time of the daemon in hundredths of a second."""
    fields = Path(f"/proc/{proxy.process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_pause_costs_nothing_and_holds_up_nobody(sallyport, raw_origin, raw_client):
    """One worker, both sides of a tunnel full: what waits a minute for its turn is not looked at meanwhile."""

    def full(connection) -> None:
        connection.switch_protocol()
        connection.send(b"y" * 2048)
        connection.wait_for_end()

    policy = rule("r", request=HOUR.format(', download = "1KiB"'))
    proxy, origin = sallyport(proxy=ONE_WORKER, policy=policy), raw_origin(full)
    client = raw_client(proxy)
    client.looked_at = False
    client.send(connect(origin))
    client.send(b"x" * 100_000)
    assert b" 200 " in client.receive_until(b"\r\n\r\n")
    assert client.receive_exactly(1) == b"y"
    before, begun = ticks(proxy), time.monotonic()
    web = raw_origin(answering(OK))
    for _ in range(20):
        # Itself paced, but with little to say.
        assert raw_client(proxy).exchange(request(web)).status == 200
    while time.monotonic() - begun < 1.5:
        time.sleep(0.1)
    spent = ticks(proxy) - before
    assert spent <= 75, f"{spent / 100} s of processor time in {time.monotonic() - begun:.1f} s"
    client.reset()
    origin.wait_for("done")


def test_a_pause_is_no_stall(sallyport, raw_origin, raw_client):
    """Pauses are longer than what a body, or a tunnel, may stand still."""
    policy = '[proxy.timeouts]\nbody_stall = "300ms"\ntunnel_idle = "300ms"\nresponse_header = "10s"\n'
    policy += rule("r", request='throttle = { packet = "1KiB", delay = "700ms", download = "1KiB" }')
    web, echo = raw_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n" + bytes(3000))), raw_origin(tunnel_echo)
    proxy = sallyport(policy=policy)
    client, tunnel = raw_client(proxy), raw_client(proxy)
    tunnel.send(connect(echo))
    assert tunnel.answer().status == 200
    tunnel.send(bytes(2500))
    answer = client.exchange(request(web, method="POST", lines="Content-Length: 2500\r\n") + bytes(2500))
    assert answer.status == 200 and len(answer.body) == 3000
    assert tunnel.receive_exactly(2500) == bytes(2500)


def test_an_answer_of_the_proxys_own_is_not_paced(sallyport, raw_origin, raw_client):
    policy = rule("r", request=HOUR.format(', download = "1KiB"')) + '[rule.response]\nserializer = "json"\n'
    proxy, origin = sallyport(policy=policy), raw_origin(answering(LARGE))
    answer = raw_client(proxy).exchange(request(origin))
    assert answer.status == 502


def test_a_client_that_leaves_a_paced_download_ends_it(sallyport, raw_origin, raw_client):
    def endless(connection) -> None:
        connection.read_request()
        connection.looked_at = False
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 5000)
        connection.wait_for_end()

    proxy, origin = sallyport(policy=rule("r", request='throttle = { download = "1KiB" }')), raw_origin(endless)
    client = raw_client(proxy)
    client.looked_at = False
    client.send(request(origin))
    client.receive_some()
    client.reset()
    origin.wait_for("done")
    assert proxy.access()["outcome"] == "client-left"


def test_the_rules_time_ends_a_download_that_its_own_pace_holds_up(sallyport, raw_origin, raw_client):
    """The origin has sent everything, and the client takes whatever comes."""
    lines = 'throttle = { download = "1KiB" }\ntimeout = "1s"'
    proxy, origin = sallyport(policy=rule("r", request=lines)), raw_origin(answering(CHUNKED))
    client = raw_client(proxy)
    client.looked_at = False
    client.send(request(origin))
    while client.receive_some():
        pass
    assert proxy.access()["outcome"] == "exchange-timeout"


def test_a_tunnel_keeps_its_pace_over_a_restart(service, raw_origin, raw_client):
    policy = rule("r", request=DOWNLOAD)
    first = service.start(policy=policy)
    origin = raw_origin(saying(BODY))
    client = raw_client(first)
    client.send(connect(origin))
    watched = Watched(client)
    assert client.answer().status == 200
    watched.read(64 << 10)
    service.restart()
    watched.before, watched.begun = len(client.received), time.monotonic()
    left = len(BODY) - len(client.received) + client.received.index(b"\r\n\r\n") + 4
    while len(client.received) - watched.before < left:
        assert client.receive_some()
    assert bytes(client.received[-len(BODY) :]) == BODY


def test_explain_and_check_know_it(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(rule("r", request='throttle = { packet = "16KiB", delay = "200ms", download = "1MiB" }'))
    checked = command("check", "--config", str(file))
    assert checked.returncode == 0 and "throttle" not in checked.stdout + checked.stderr
    for asked in (["CONNECT", "a.test:443"], ["GET", "http://a.test/"]):
        told = command("explain", "--config", str(file), *asked).stdout
        assert "1MiB a second towards the client" in told and "after each 16KiB" in told, told
