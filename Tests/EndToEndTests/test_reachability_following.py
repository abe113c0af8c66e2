"""What follows a change of the network: rules, pooled connections, names, dead marks; and what must not be disturbed.

The kernel itself would go on using a connection whose route has moved, and leave one hanging whose address is gone
(test_reachability_world.py shows both), so that what is seen here is the proxy's doing.
"""

import statistics
import threading
import time

import pytest

from dns_server import Answer
from journal import DEADLINE_SECONDS
from network_world import BLACK_HOLE, FAR, FAR6, NetlinkListener, capture, listener, network
from origins import answering, silent, tunnel_echo, unused_port
from problems import check_problem
from raw_client import Ended
from reachability_world import (
    check_ended_at_once,
    connect,
    events_until,
    far_origin,
    get,
    local_client,
    name_server,
    reaching,
    status_is,
    tells_the_way,
    way_of,
)

FOLLOWED_WITHIN_SECONDS = 0.2
ROUNDS = 9
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ONCE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"

BY_KIND = "".join(
    f'[[rule]]\nname = "on-{kind}"\nwhen = ["{kind}"]\n[rule.request]\nheaders.set = {{ X-Rule = "{kind}" }}\n'
    for kind in ("wired", "wifi", "wwan")
)


# How soon


def check_followed(delays: list[float], what: str) -> None:
    """The middle one counts: this machine may be busy with other things for a moment, not for half of the rounds."""
    shown = ", ".join(f"{delay * 1000:.1f}" for delay in sorted(delays))
    assert statistics.median(delays) <= FOLLOWED_WITHIN_SECONDS, f"{what} after so many ms: {shown}"


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_requests_take_the_new_way_within_200_ms(
    family, network, reaching, local_client, far_origin, listener
):
    """From the netlink message to the sending of the first request that goes by the new link, under the new rule."""
    links = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0")}
    six = family == "IPv6"
    origin = far_origin(address=FAR6[0] if six else FAR[0])
    go = {kind: link.default6 if six else link.default for kind, link in links.items()}
    source = {kind: link.near6 if six else link.near for kind, link in links.items()}
    network.machine.batch(go["wired"])
    client = local_client(reaching(BY_KIND))
    delays = []
    for kind in (["wifi", "wired"] * ROUNDS)[:ROUNDS]:
        before = listener.count()
        network.machine.batch(go[kind])
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            sent = time.monotonic()
            way = way_of(client.exchange(get(origin)))
            if (way.source, way.rule) == (source[kind], kind):
                break
            assert sent < end, f"{way}, though the default route is by {kind}"
        delays.append(max(0.0, sent - listener.first_after(before)))
        for _ in range(20):
            way = way_of(client.exchange(get(origin)))
            assert (way.source, way.rule) == (source[kind], kind), "it went back"
    check_followed(delays, "the first request took the new way")


def test_events_are_published_within_200_ms(network, reaching, listener):
    links = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0")}
    network.go_by(links["wired"])
    watcher = reaching().admin.events()
    delays = []
    for kind in (["wifi", "wired"] * ROUNDS)[:ROUNDS]:
        before = listener.count()
        network.go_by(links[kind])
        events_until(watcher, status_is(kind))
        delays.append(time.monotonic() - listener.first_after(before))
    check_followed(delays, "the event came")


# Pooled connections


def test_a_kept_connection_is_not_used_once_its_route_has_moved(network, reaching, local_client, far_origin):
    """And it is closed, not only passed over. One whose route stays is kept: it need not be renewed."""
    wired, wireless = network.wire("eth0"), network.wire("wlan0")
    network.go_by(wired)
    network.machine.ip("route", "add", f"{FAR[6]}/32", "via", wired.far, "dev", "eth0")
    moving, staying = far_origin(address=FAR[0]), far_origin(address=FAR[6])
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    for _ in range(3):
        assert way_of(client.exchange(get(moving)))[:2] == (wired.near, 0)
        assert way_of(client.exchange(get(staying)))[:2] == (wired.near, 0)
    network.go_by(wireless)
    events_until(watcher, status_is("wifi"))
    for _ in range(3):
        assert way_of(client.exchange(get(moving)))[:2] == (wireless.near, 1)
        assert way_of(client.exchange(get(staying)))[:2] == (wired.near, 0)
    moving.wait_for("done", 0)
    network.go_by(wired)
    events_until(watcher, status_is("wired"))
    assert way_of(client.exchange(get(moving)))[:2] == (wired.near, 2)
    assert way_of(client.exchange(get(staying)))[:2] == (wired.near, 0)


def test_a_kept_connection_is_not_used_once_its_address_is_gone(network, reaching, local_client, far_origin):
    link, origin = network.wire("eth0"), far_origin()
    network.go_by(link)
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(origin)))[:2] == (link.near, 0)
    network.machine.batch(
        f"address del {link.near}/24 dev eth0", "address add 10.1.0.3/24 dev eth0", link.default
    )
    events_until(watcher, lambda event: "10.1.0.3" in str(event["interfaces"]))
    begun = time.monotonic()
    assert way_of(client.exchange(get(origin)))[:2] == ("10.1.0.3", 1)
    check_ended_at_once(begun)


def test_a_kept_connection_to_loopback_outlives_every_change(network, reaching, local_client, raw_origin):
    link = network.wire("eth0")
    network.go_by(link)
    with network.machine:
        origin = raw_origin(tells_the_way)
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    for _ in range(3):
        assert way_of(client.exchange(get(origin)))[:2] == ("127.0.0.1", 0)
        network.go_nowhere()
        events_until(watcher, status_is("not-reachable"))
        network.go_by(link)
        events_until(watcher, status_is("wired"))
    assert way_of(client.exchange(get(origin)))[:2] == ("127.0.0.1", 0)


# Names


def test_names_are_asked_for_again_after_a_change(network, reaching, local_client, far_origin, name_server):
    """Another network may know the name by another address. Between changes it is not asked for twice."""
    links = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0")}
    network.go_by(links["wired"])
    servers = name_server({"a.test": Answer(a=[FAR[0]], ttl=300)})
    first = far_origin(answering(ONCE), FAR[0])
    second = far_origin(answering(ONCE.replace(b"ok", b"2.")), FAR[1], first.port)
    proxy = reaching(names=servers)
    watcher, client = proxy.admin.events(), local_client(proxy)
    for number, kind in enumerate(("wifi", "wired", "wifi"), 1):
        for _ in range(3):
            assert client.exchange(get(first, host="a.test")).status == 200
        assert len(servers.asked("a.test")) == 2 * number
        network.go_by(links[kind])
        events_until(watcher, status_is(kind))
    servers.names["a.test"] = Answer(a=[FAR[1]], ttl=300)
    assert client.exchange(get(first, host="a.test")).body == b"2."
    assert len(second.requests()) == 1


def test_a_failure_to_find_a_name_is_forgotten_too(network, reaching, local_client, far_origin, name_server):
    link = network.wire("eth0")
    servers, origin = name_server({}), far_origin()
    proxy = reaching(names=servers)
    watcher, client = proxy.admin.events(), local_client(proxy)
    check_problem(client.exchange(get(origin, host="a.test")), 502, error="dns_error")
    servers.names["a.test"] = Answer(a=[FAR[0]])
    network.go_by(link)
    events_until(watcher, status_is("wired"))
    assert way_of(client.exchange(get(origin, host="a.test"))).source == link.near


def test_a_name_server_beyond_the_link_is_asked_from_the_new_address(
    network, reaching, local_client, far_origin, name_server
):
    wired, wireless, origin = network.wire("eth0"), network.wire("wlan0"), far_origin()
    network.go_by(wired)
    names = {f"{name}.test": Answer(a=[FAR[0]]) for name in ("a", "b")}
    servers = name_server(names, address=FAR[2], namespace=network.far)
    proxy = reaching(names=servers)
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(origin, host="a.test"))).source == wired.near
    network.machine.batch(f"address del {wired.near}/24 dev eth0", wireless.default)
    events_until(watcher, status_is("wifi"))
    begun = time.monotonic()
    assert way_of(client.exchange(get(origin, host="b.test"))).source == wireless.near
    check_ended_at_once(begun)


def test_the_file_of_name_servers_is_read_again(
    network, reaching, local_client, far_origin, name_server, tmp_path
):
    """Another network, another name server: what DHCP has written is there before, or with, the change."""
    links = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0")}
    network.go_by(links["wired"])
    origin = far_origin()
    servers = {
        kind: name_server({"a.test": Answer(a=[FAR[0]]), f"{kind}.test": Answer(a=[FAR[0]])}, address, 53)
        for kind, address in (("wired", "127.0.0.53"), ("wifi", "127.0.0.54"))
    }
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 127.0.0.53\n")
    proxy = reaching(mounts={"/etc/resolv.conf": file})
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(origin, host="a.test"))).source == links["wired"].near
    assert servers["wired"].asked("a.test") and not servers["wifi"].asked("a.test")
    file.write_text("nameserver 127.0.0.54\n")
    network.go_by(links["wifi"])
    events_until(watcher, status_is("wifi"))
    before = len(servers["wired"].questions.snapshot())
    for host in ("a.test", "wifi.test"):
        assert way_of(client.exchange(get(origin, host=host))).source == links["wifi"].near
        assert servers["wifi"].asked(host)
    assert len(servers["wired"].questions.snapshot()) == before, "the old server was asked"


# Dead marks

PARENT = """
[[rule]]
name = "by-parent"
route = ["parent", "direct"]
[routes.parent]
via = "http://{}:{}"
"""


def test_a_dead_mark_is_cleared_by_a_change(network, reaching, local_client, far_origin, raw_origin):
    """A mark lives for a second at first. A round that took longer shows nothing, and is made again."""
    links = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0")}
    network.go_by(links["wired"])
    with network.machine:
        port = unused_port()
    origin, proxy = far_origin(), reaching(PARENT.format("127.0.0.1", port))
    watcher, client = proxy.admin.events(), local_client(proxy)
    for kind in ["wifi", "wired"] * 5:
        begun = time.monotonic()
        assert way_of(client.exchange(get(origin))).source in (link.near for link in links.values())
        (route,) = [r for r in proxy.admin.json("/v1/reachability")["routes"] if r["name"] == "parent"]
        if route["dead_for_ms"] is None:  # the mark of the round before had just gone as this one began
            continue
        assert 0 < route["dead_for_ms"] <= 60_000 and route["via"] == f"http://127.0.0.1:{port}"
        network.go_by(links[kind])
        events_until(watcher, status_is(kind))
        (route,) = [r for r in proxy.admin.json("/v1/reachability")["routes"] if r["name"] == "parent"]
        if time.monotonic() - begun < 0.9:
            assert route["dead_for_ms"] is None, "the change did not clear the mark"
            break
    else:
        pytest.fail("no round took less than the second that a mark lives")
    with network.machine:
        raw_origin(parent_answering, port=port)
    assert client.exchange(get(origin)).body == b"by the parent"


def parent_answering(connection) -> None:
    """What a parent gets is in absolute-form: no origin's request, so that it is not checked as one."""
    connection.receive_some()
    assert bytes(connection.received).startswith(b"GET http://")
    connection.received.clear()
    connection.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nby the parent")


# What must not be disturbed


def test_a_long_download_is_not_disturbed_by_another_link(network, reaching, local_client, far_origin):
    """Fifty times the other link goes and comes, with its default route, between the parts of one response."""
    wired, wireless = network.wire("eth0"), network.wire("wlan0")
    network.machine.batch(f"{wired.default} metric 100", f"{wireless.default} metric 50")
    network.machine.ip("route", "add", f"{FAR[6]}/32", "via", wired.far, "dev", "eth0")
    part, parts = bytes(range(256)) * 1024, 50
    more = threading.Semaphore(0)

    def trickling(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(part) * parts))
        for _ in range(parts):
            assert more.acquire(timeout=DEADLINE_SECONDS)
            connection.send(part)
        connection.wait_for_end()

    origin = far_origin(trickling, FAR[6])
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    client.looked_at = False
    client.send(get(origin))
    client.receive_until(b"\r\n\r\n")
    for _ in range(parts):
        network.machine.ip("link", "set", "wlan0", "down")
        events_until(watcher, status_is("wired"))
        more.release()
        assert client.receive_exactly(len(part)) == part
        network.machine.batch("link set wlan0 up", f"{wireless.default} metric 50")
        events_until(watcher, status_is("wifi"))
    assert client.nothing_came() and len(origin.connections) == 1
    line = proxy.access(lambda line: line["status"] == 200)
    assert line["retried"] is False and line["outcome"] == "done"


@pytest.mark.parametrize("what", ["request", "tunnel"])
def test_what_is_in_flight_is_left_to_tcp_while_its_address_stays(
    what, network, reaching, local_client, far_origin
):
    """The default route moves away; the connection is of the old link still, and works."""
    wired, wireless = network.wire("eth0"), network.wire("wlan0")
    network.go_by(wired)
    released = threading.Event()

    def late(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        released.wait(DEADLINE_SECONDS)
        connection.send(b"ok")
        connection.wait_for_end()

    origin = far_origin(late if what == "request" else tunnel_echo)
    proxy = reaching()
    watcher, client = proxy.admin.events(), local_client(proxy)
    if what == "request":
        client.send(get(origin))
        client.receive_until(b"\r\n\r\n")
        client.read_to = 0
    else:
        assert client.exchange(connect(origin)).status == 200
    network.go_by(wireless)
    events_until(watcher, status_is("wifi"))
    if what == "request":
        released.set()
        assert client.answer().body == b"ok"
    else:
        client.send(b"sally")
        assert client.receive_exactly(5) == b"sally"
    assert len(origin.connections) == 1


# What must end at once

PATIENT = "workers = 1\n[proxy.timeouts]\n" + "".join(
    f'{name} = "10m"\n' for name in ("connect", "response_header", "body_stall", "tunnel_idle")
)


def lose_the_address(network, listener: NetlinkListener, *lines: str) -> float:
    """Take the address of eth0 away; the moment that the kernel said so."""
    before = listener.count()
    network.machine.batch("address del 10.1.0.2/24 dev eth0", *lines)
    return listener.first_after(before)


def test_a_request_whose_address_vanished_fails_at_once(
    network, reaching, local_client, far_origin, listener
):
    network.go_by(network.wire("eth0"))
    origin, proxy = far_origin(silent), reaching(proxy=PATIENT)
    client = local_client(proxy)
    client.send(get(origin, method="POST", lines="Content-Length: 5\r\n") + b"hello")
    origin.wait_for("accepted")
    begun = lose_the_address(network, listener)
    answer = client.answer()
    check_ended_at_once(begun)
    problem = check_problem(answer, 503 if answer.status == 503 else 502)
    assert proxy.access_of(problem.reference)["outcome"] == problem.token
    assert len(origin.connections) == 1, "a POST was sent twice"


def test_a_post_is_not_sent_again_by_another_link(network, reaching, local_client, far_origin, listener):
    network.go_by(network.wire("eth0"))
    wireless, origin, proxy = network.wire("wlan0"), far_origin(silent), reaching(proxy=PATIENT)
    client = local_client(proxy)
    client.send(get(origin, method="POST", lines="Content-Length: 5\r\n") + b"hello")
    origin.wait_for("accepted")
    begun = lose_the_address(network, listener, wireless.default)
    check_problem(client.answer(), 502)
    check_ended_at_once(begun)
    assert len(origin.connections) == 1, "a POST was sent twice"


def test_a_get_on_a_reused_connection_is_sent_again_by_another_link(
    network, reaching, local_client, far_origin, listener
):
    """As any reused connection that ends before the first byte of the answer: once, for the method is idempotent."""

    def answers_the_first(connection) -> None:
        if connection.number > 0:
            return tells_the_way(connection)
        connection.read_request()
        connection.send(OK)
        connection.read_request()
        origin.note("asked again")
        connection.wait_for_end()

    network.go_by(network.wire("eth0"))
    wireless, origin, proxy = network.wire("wlan0"), far_origin(answers_the_first), reaching(proxy=PATIENT)
    client = local_client(proxy)
    assert client.exchange(get(origin)).body == b"ok"
    client.send(get(origin))
    origin.wait_for("asked again")
    begun = lose_the_address(network, listener, wireless.default)
    assert way_of(client.answer())[:2] == (wireless.near, 1)
    check_ended_at_once(begun)
    assert proxy.access(lambda line: line["retried"])["status"] == 200


def test_an_answer_whose_address_vanished_is_cut_short_at_once(
    network, reaching, local_client, far_origin, listener
):
    def half(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        connection.wait_for_end()

    network.go_by(network.wire("eth0"))
    origin, proxy = far_origin(half), reaching(proxy=PATIENT)
    client = local_client(proxy)
    client.send(get(origin))
    client.receive_until(b"half")
    client.read_to = 0
    begun = lose_the_address(network, listener)
    with pytest.raises(Ended):
        client.answer()
    check_ended_at_once(begun)
    assert proxy.access()["outcome"] != "done"


def test_a_tunnel_whose_address_vanished_ends_at_once(network, reaching, local_client, far_origin, listener):
    """So that the client knows, and connects anew; with another way there just as without."""
    network.go_by(network.wire("eth0"))
    wireless, origin, proxy = network.wire("wlan0"), far_origin(tunnel_echo), reaching(proxy=PATIENT)
    client = local_client(proxy)
    assert client.exchange(connect(origin)).status == 200
    client.send(b"sally")
    client.receive_exactly(5)
    begun = lose_the_address(network, listener, wireless.default)
    client.wait_for_end()
    check_ended_at_once(begun)
    again = local_client(proxy)
    assert again.exchange(connect(origin)).status == 200
    again.send(b"sally")
    assert again.receive_exactly(5) == b"sally"
    assert origin.connections[1].socket.getpeername()[0] == wireless.near


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_connect_whose_address_vanished_fails_at_once(
    method, network, reaching, local_client, far_origin, listener, capture
):
    """SYNs into a black hole, and then not even that."""
    network.go_by(network.wire("eth0"))
    proxy = reaching(proxy=PATIENT)
    client = local_client(proxy)
    target = f"{BLACK_HOLE}:4711"
    line = f"CONNECT {target}" if method == "CONNECT" else f"GET http://{target}/"
    client.send(f"{line} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    capture.first_to(4711)
    begun = lose_the_address(network, listener)
    answer = client.answer()
    check_ended_at_once(begun)
    check_problem(answer, 503 if answer.status == 503 else 502)
