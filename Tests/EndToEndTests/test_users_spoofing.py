"""Nobody passes for another: clients of other networks, ports that change hands, clients that have gone already.

A port is not a person: by the time that the proxy looks it may be another user's. The proxy is stopped for a moment, in
which the kernel takes connections, requests and resets for it, so that each race is lost, or won, every time.
"""

import socket
import time
from pathlib import Path

import pytest

from journal import DEADLINE_SECONDS
from network_world import network
from problems import check_problem
from reachability_world import ADMIN, connect, far_origin, get, stopped, tells_the_way, way_of
from test_policy import first_refusal
from users_world import (
    DENY,
    NAMED,
    NUMBERED,
    OWN,
    ROOT,
    STRANGER,
    THREE,
    UserClient,
    acting_as,
    client_of,
    guarded,
    rule_of,
)

# Others' sockets


def test_a_client_of_another_network_is_unknown(network, sallyport, far_origin, client_of, tmp_path):
    """And matches only rules without users, even if a socket of this machine listens on the port it comes from."""
    network.go_by(network.wire("eth0"))
    (tmp_path / "credentials").write_text("me:word\n")
    (tmp_path / "credentials").chmod(0o600)
    authorized = "Proxy-Authorization: Basic bWU6d29yZA==\r\n"
    head = f'workers = 1\nallow_remote = true\ncredentials = {{ file = "{tmp_path}/credentials" }}\n'
    policy = rule_of("nobody-s", ROOT, NUMBERED, action="deny") + rule_of("all")
    origin = far_origin()
    with network.machine:
        proxy = sallyport(proxy=head, policy=policy, listen='["10.1.0.2:0"]')
        here = client_of(proxy, NUMBERED)
        with acting_as(NUMBERED):
            decoy = socket.socket()
        decoy.bind(("0.0.0.0", 0))
        decoy.listen()
    check_problem(here.exchange(get(origin, lines=authorized)), 403, rule="nobody-s")
    with decoy, network.far:
        for arguments in ({}, {"port": decoy.getsockname()[1]}):
            client = client_of(proxy, ROOT, **arguments)
            assert way_of(client.exchange(get(origin, lines=authorized))).rule == "all"
    unknown = proxy.log.wait_for_several(2, lambda entry: entry.get("rule") == "all")
    assert [(line["user"], line["unit"]) for line in unknown] == [(None, None)] * 2


def test_an_unknown_client_gets_nothing_that_is_someones(network, sallyport, far_origin, client_of, tmp_path):
    network.go_by(network.wire("eth0"))
    (tmp_path / "credentials").write_text("me:word\n")
    (tmp_path / "credentials").chmod(0o600)
    head = f'{DENY}\nallow_remote = true\ncredentials = {{ file = "{tmp_path}/credentials" }}\n'
    units = '[[rule]]\nname = "units"\nunits = ["user.slice", "system.slice", "init.scope"]\n'
    origin = far_origin()
    with network.machine:
        proxy = sallyport(
            proxy=head, policy=rule_of("users", ROOT, "nobody") + units, listen='["10.1.0.2:0"]'
        )
    with network.far:
        client = client_of(proxy, ROOT)
    check_problem(client.exchange(get(origin, lines="Proxy-Authorization: Basic bWU6d29yZA==\r\n")), 403)
    assert not origin.connections


def listed(proxy, client: UserClient) -> bool:
    """Whether the proxy has taken this connection."""
    name = "%s:%d" % client.socket.getsockname()[:2]
    return any(entry["client"] == name for entry in proxy.admin.json("/v1/connections"))


def wait_until_taken(proxy, client: UserClient) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not listed(proxy, client):
        assert time.monotonic() < end, "the proxy does not take a connection"


@pytest.mark.parametrize("moment", ["before it is taken", "in the middle of its head"])
@pytest.mark.parametrize("user", [STRANGER, ROOT])
def test_a_port_that_another_user_has_taken_over(user, moment, guarded, raw_origin, client_of):
    """A request is sent and its connection reset; before the proxy looks, the port is of a user who may do more."""
    proxy, origin = guarded(OWN, DENY), raw_origin(tells_the_way)
    secret = get(origin, "/secret")
    if moment == "in the middle of its head":
        spoofer = client_of(proxy, user)
        spoofer.send(secret[:20])
        wait_until_taken(proxy, spoofer)
    with stopped(proxy):
        if moment == "before it is taken":
            spoofer = client_of(proxy, user)
        spoofer.send(secret[len(spoofer.sent) :])
        owner = take_over(proxy, spoofer, client_of, NUMBERED)
        owner.send(get(origin, "/own"))
    assert way_of(owner.answer())[2:] == ("own", "/own")
    check_that_only_the_owner_was_served(proxy, origin, ["/own"])


def take_over(proxy, client: UserClient, client_of, user: int) -> UserClient:
    """The connection is reset, and a user connects from its port."""
    port = client.port
    client.reset()
    client.looked_at = False
    return client_of(proxy, user, port=port)


def test_a_port_that_is_taken_over_after_a_reload(guarded, raw_origin, client_of):
    """Nobody needed to know whose the connection was until the reload, and then it is another's port."""
    proxy, origin = guarded(rule_of("all")), raw_origin(tells_the_way)
    spoofer = client_of(proxy, STRANGER)
    assert way_of(spoofer.exchange(get(origin, "/before"))).rule == "all"
    proxy.reload(proxy=DENY, policy=ADMIN + OWN)
    probe = client_of(proxy, STRANGER)
    check_problem(first_refusal(probe, get(origin, "/probe")), 403)
    probes = len([request for request in origin.requests() if request.target == b"/probe"])
    with stopped(proxy):
        spoofer.send(get(origin, "/secret"))
        owner = take_over(proxy, spoofer, client_of, NUMBERED)
        owner.send(get(origin, "/own"))
    assert way_of(owner.answer())[2:] == ("own", "/own")
    probe.close()
    check_that_only_the_owner_was_served(proxy, origin, ["/before"] + ["/probe"] * probes + ["/own"])


def test_a_port_whose_owner_was_known_is_not_its_next_users(guarded, raw_origin, client_of):
    """The other way round: what is remembered of a connection ends with it."""
    proxy, origin = guarded(OWN, DENY), raw_origin(tells_the_way)
    for _ in range(3):
        owner = client_of(proxy, NUMBERED)
        assert way_of(owner.exchange(get(origin, "/own"))).rule == "own"
        with stopped(proxy):
            spoofer = take_over(proxy, owner, client_of, STRANGER)
            spoofer.send(get(origin, "/secret"))
        check_problem(spoofer.answer(), 403)
        spoofer.reset()
    assert {request.target for request in origin.requests()} == {b"/own"}


def test_a_request_of_a_reset_connection_is_not_its_next_owners(guarded, raw_origin, client_of):
    """The owner's request, and the port a stranger's now: it may be lost, but it makes the stranger nobody else."""
    proxy, origin = guarded(OWN, DENY), raw_origin(tells_the_way)
    with stopped(proxy):
        owner = client_of(proxy, NUMBERED)
        owner.send(get(origin, "/own"))
        spoofer = take_over(proxy, owner, client_of, STRANGER)
        spoofer.send(get(origin, "/secret"))
    check_problem(spoofer.answer(), 403)
    assert {request.target for request in origin.requests()} <= {b"/own"}


def check_that_only_the_owner_was_served(proxy, origin, targets: list[str]) -> None:
    """Once the proxy has done with everything else: it has one connection, and it has asked for nothing else."""
    proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 1)
    assert [request.target.decode() for request in origin.requests()] == targets
    for line in proxy.access_lines():
        if "/secret" in line["target"]:
            assert line["rule"] != "own" and line["user"] != str(NUMBERED), line


# Clients that do not stay


def wait_until_nobodys(client_port: int, proxy_port: int) -> None:
    """Until the kernel says 0 of a connection that was closed while its answer is to come, or has forgotten it."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            ports = [int(field.rpartition(":")[2], 16) for field in fields[1:3]]
            if ports == [client_port, proxy_port] and fields[7] != "0":
                break
        else:
            return
    raise AssertionError("the kernel knows the owner of a closed connection for ever")


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_client_that_has_closed_is_not_root(method, guarded, raw_origin, client_of):
    """Of a connection whose program is gone the kernel says user 0; its request has arrived all the same."""
    proxy, origin = guarded(rule_of("root", "root"), DENY), raw_origin(tells_the_way)
    with stopped(proxy):
        for _ in range(5):
            client = client_of(proxy, STRANGER)
            client.send(connect(origin) if method == "CONNECT" else get(origin, "/secret"))
            port = client.port
            client.close()
            client.looked_at = False
            wait_until_nobodys(port, proxy.address[1])
    root = client_of(proxy, ROOT)
    assert way_of(root.exchange(get(origin, "/own"))).rule == "root"
    proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 1)
    assert [request.target for request in origin.requests()] == [b"/own"]
    assert len(origin.connections) == 1
    assert proxy.access(lambda line: line["rule"] == "root")["target"].endswith("/own")
    assert [line["rule"] for line in proxy.access_lines()].count("root") == 1


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_who_closes_behind_a_request_does_not_pass_the_rule_that_denies_it(
    method, leave, guarded, raw_origin, client_of
):
    """Of a connection whose program is gone nobody can say whose it was: what it asked for is not done."""
    proxy = guarded(rule_of("denied", STRANGER, action="deny"))
    origin = raw_origin(tells_the_way)
    with stopped(proxy):
        for _ in range(5):
            client = client_of(proxy, STRANGER)
            client.send(connect(origin) if method == "CONNECT" else get(origin, "/secret"))
            port = client.port
            client.reset() if leave == "reset" else client.close()
            client.looked_at = False
            wait_until_nobodys(port, proxy.address[1])
    other = client_of(proxy, ROOT)
    assert way_of(other.exchange(get(origin, "/own"))).rule == "-"
    proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 1)
    assert [request.target for request in origin.requests()] == [b"/own"]
    assert len(origin.connections) == 1
    # One line for all that leave within ten seconds: whoever does this without end fills no log.
    told = proxy.log.wait_for_several(1 if leave == "close" else 0, lambda line: "left before it was known" in str(line))
    assert leave == "reset" or len(told) == 1


def test_a_client_that_has_closed_its_side_is_who_it_was(guarded, raw_origin, client_of):
    """Its socket is open for the answer, and its owner's."""
    proxy, origin = guarded(THREE), raw_origin(tells_the_way)
    with stopped(proxy):
        owners = {"named": NAMED, "numbered": NUMBERED, "root": ROOT, "-": STRANGER}
        clients = [(rule, client_of(proxy, user)) for rule, user in owners.items()]
        for _, client in clients:
            client.send(get(origin))
            client.half_close()
    for rule, client in clients:
        assert way_of(client.answer()).rule == rule
