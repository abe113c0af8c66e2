"""Nobody is innocent: who keeps the proxy from finding out who it is gains nothing by it.

What could not be looked up is unknown: rules that refuse match, others do not, and the next request is looked up again. A
client of this machine that has no socket any more is gone, and not served.
"""

import contextlib
import json
import resource
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from cgroup_world import groups
from conftest import need
from journal import DEADLINE_SECONDS
from network_world import network
from problems import check_problem
from proxy import command, configuration_text
from raw_client import RawClient
from reachability_world import ADMIN, connect, far_origin, get, prefix_with_mounts, stopped, tells_the_way, way_of
from users_world import (
    DENY,
    LIBC,
    NAMED,
    NUMBERED,
    ROOT,
    STRANGER,
    UserClient,
    acting_as,
    client_of,
    guarded,
    rule_of,
)

TCP_LINGER2 = 8
NOT_THE_STRANGER = rule_of("denied", STRANGER, action="deny")


def over(made: socket.socket, address: tuple) -> RawClient:
    """A raw client on a socket that another has made."""
    return RawClient(address, made=made)


# Closing in time


def wait_until_forgotten(ways: set[tuple[int, int]]) -> None:
    """Until the kernel has no socket from the first to the second port of these any more, nor what is left of one.

    A port alone says too little: a connection to elsewhere, long closed, may have come from the same one.
    """
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        lines = Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
        known = {tuple(int(place.rpartition(":")[2], 16) for place in line.split()[1:3]) for line in lines}
        if not ways & known:
            return
    raise AssertionError(f"the kernel knows closed connections for ever: {ways & known}")


def leave_without_a_trace(client: UserClient, request: bytes) -> tuple[int, int]:
    """The request stands in the proxy's queue, and the socket it came from is forgotten after a second."""
    client.socket.setsockopt(socket.IPPROTO_TCP, TCP_LINGER2, 1)
    client.send(request)
    way = client.port, client.socket.getpeername()[1]
    client.close()
    client.looked_at = False
    return way


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_who_is_forgotten_before_the_proxy_looks(method, guarded, raw_origin, client_of):
    proxy, origin = guarded(NOT_THE_STRANGER), raw_origin(tells_the_way)
    request = connect(origin) if method == "CONNECT" else get(origin, "/secret")
    with stopped(proxy):
        wait_until_forgotten({leave_without_a_trace(client_of(proxy, STRANGER), request) for _ in range(5)})
    other = client_of(proxy, ROOT)
    assert way_of(other.exchange(get(origin, "/own"))).rule == "-"
    proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 1)
    assert [request.target for request in origin.requests()] == [b"/own"] and len(origin.connections) == 1


def test_who_is_forgotten_while_all_connections_are_taken(guarded, raw_origin, client_of):
    """The way that needs no stopped proxy: the others' connections fill the limit until the socket is forgotten."""
    proxy = guarded(NOT_THE_STRANGER + "[proxy.limits]\nconnections = 2\n")
    origin = raw_origin(tells_the_way)
    holders = [client_of(proxy, STRANGER) for _ in range(2)]
    for holder in holders:
        check_problem(holder.exchange(get(origin)), 403)
    wait_until_forgotten({leave_without_a_trace(client_of(proxy, STRANGER), get(origin, "/secret"))})
    for holder in holders:
        holder.close()
    other = client_of(proxy, ROOT)
    assert way_of(other.exchange(get(origin, "/own"))).rule == "-"
    proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 1)
    assert [request.target for request in origin.requests()] == [b"/own"]


def test_the_race_between_a_request_and_its_end(guarded, raw_origin, client_of):
    """A close right after the request, at every distance; `identity_race.py` makes a million of them."""
    proxy, origin = guarded(NOT_THE_STRANGER), raw_origin(tells_the_way)
    request = get(origin, "/secret")
    for number in range(3000):
        with acting_as(STRANGER):
            made = socket.socket()
        made.connect(proxy.address)
        made.send(request)
        if number % 3 == 1:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(number % 60):
            pass
        made.close()
    assert way_of(client_of(proxy, ROOT).exchange(get(origin, "/own"))).rule == "-"
    proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 1)
    assert [request.target for request in origin.requests()] == [b"/own"]


# Sockets that are found only by their interface


def check_by_interface(proxy, origin, dial) -> None:
    """`dial(user)`: the stranger is denied, and the others are who they are."""
    for user, rule in ((NUMBERED, "numbered"), (ROOT, "rest")):
        assert way_of(dial(user).exchange(get(origin, lines=CREDENTIALS))).rule == rule
    check_problem(dial(STRANGER).exchange(get(origin, lines=CREDENTIALS)), 403, rule="denied")
    line = proxy.access(lambda line: line["rule"] == "denied")
    assert line["user"] == str(STRANGER)


CREDENTIALS = "Proxy-Authorization: Basic bWU6d29yZA==\r\n"
THREE_WAYS = NOT_THE_STRANGER + rule_of("numbered", NUMBERED) + rule_of("rest")


def remote_head(tmp_path: Path) -> str:
    (tmp_path / "credentials").write_text("me:word\n")
    (tmp_path / "credentials").chmod(0o600)
    return f'workers = 1\nallow_remote = true\ncredentials = {{ file = "{tmp_path}/credentials" }}\n'


def test_a_socket_bound_to_an_interface(network, sallyport, far_origin, tmp_path):
    link = network.wire("eth0")
    network.go_by(link)
    origin = far_origin()
    with network.machine, contextlib.ExitStack() as open_clients:
        proxy = sallyport(proxy=remote_head(tmp_path), policy=THREE_WAYS, listen='["10.1.0.2:0"]')

        def dial(user: int) -> RawClient:
            with acting_as(user):
                made = socket.socket()
            made.settimeout(DEADLINE_SECONDS)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
            client = over(made, proxy.address)
            open_clients.callback(client.close)
            return client

        check_by_interface(proxy, origin, dial)


def test_a_link_local_address_of_this_machine(network, sallyport, far_origin, tmp_path):
    link = network.wire("eth0")
    network.go_by(link)
    origin = far_origin()
    with network.machine, contextlib.ExitStack() as open_clients:
        index = socket.if_nametoindex("eth0")
        proxy = sallyport(proxy=remote_head(tmp_path), policy=THREE_WAYS, listen='["[::]:0"]')

        def dial(user: int) -> RawClient:
            with acting_as(user):
                made = socket.socket(socket.AF_INET6)
            made.settimeout(DEADLINE_SECONDS)
            client = over(made, ("fe80::2", proxy.address[1], 0, index))
            open_clients.callback(client.close)
            return client

        check_by_interface(proxy, origin, dial)


def test_a_socket_whose_interface_hides_it_and_that_is_closed(network, sallyport, far_origin, tmp_path):
    network.go_by(network.wire("eth0"))
    origin = far_origin()
    with network.machine:
        proxy = sallyport(proxy=remote_head(tmp_path), policy=THREE_WAYS, listen='["10.1.0.2:0"]')
        with stopped(proxy):
            with acting_as(STRANGER):
                made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
            made.setsockopt(socket.IPPROTO_TCP, TCP_LINGER2, 1)
            made.connect(proxy.address)
            made.send(get(origin, "/secret", lines=CREDENTIALS))
            way = made.getsockname()[1], made.getpeername()[1]
            made.close()
            wait_until_forgotten({way})
        with contextlib.closing(UserClient(proxy.address, ROOT)) as other:
            assert way_of(other.exchange(get(origin, "/own", lines=CREDENTIALS))).rule == "rest"
        proxy.log.wait_for(lambda line: "left before it was known" in str(line))
    assert [request.target for request in origin.requests()] == [b"/own"]


# Control groups


def units_of(service: str) -> str:
    return f'[[rule]]\nname = "secret"\nunits = ["{service}"]\naction = "deny"\n' + rule_of("rest")


def test_a_control_group_that_was_removed(groups, guarded, raw_origin):
    """Whoever was in it may have been in the unit: a rule that denies the unit matches, one that allows it does not."""
    proxy, origin = guarded(units_of("secret.service")), raw_origin(tells_the_way)
    allowing = '[[rule]]\nname = "own"\nunits = ["secret.service"]\n'
    other = guarded(allowing, DENY)
    place = groups.make(groups.own_slice() + "/secret.service")
    made = [groups.socket(place, STRANGER) for _ in range(2)]
    groups.remove(place)
    with contextlib.closing(over(made[0], proxy.address)) as client:
        for _ in range(2):
            check_problem(client.exchange(get(origin)), 403, rule="secret")
    line = proxy.access(lambda line: line["rule"] == "secret")
    assert (line["user"], line["unit"]) == (str(STRANGER), "unknown")
    with contextlib.closing(over(made[1], other.address)) as client:
        check_problem(client.exchange(get(origin)), 403)
    assert other.access()["rule"] is None
    assert not origin.connections
    explained = command("explain", "--socket", str(proxy.configuration.parent / "admin.sock"), "--json", line["ref"])
    assert json.loads(explained.stdout)["unit"] == "unknown", explained


def test_a_client_in_a_unit_while_descriptors_run_out(groups, guarded, raw_origin):
    """The look-up fails, and the unit is unknown; nothing of that is remembered once there are descriptors again."""
    proxy, origin = guarded(units_of("secret.service") + rule_of("x", "root")), raw_origin(tells_the_way)
    place = groups.make(groups.own_slice() + "/other.service")
    with contextlib.closing(over(groups.socket(place, STRANGER), proxy.address)) as client:
        proxy.admin.asked_until("/v1/connections", lambda all: len(all) == 1)
        pid = proxy.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
        check_problem(client.exchange(get(origin)), 403, rule="secret")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert way_of(client.exchange(get(origin))).rule == "rest"
    lines = proxy.log.wait_for_several(2, lambda entry: "total_ms" in entry)
    assert [line["unit"] for line in lines] == ["unknown", "other.service"]


def test_what_a_unit_makes_below_itself_is_not_another_unit(groups, guarded, raw_origin):
    """Only slices nest: `podman.service/backup.service` is podman.service."""
    policy = "".join(
        f'[[rule]]\nname = "{name}"\nunits = ["{unit}"]\n[rule.request]\nheaders.set = {{ X-Rule = "{name}" }}\n'
        for name, unit in (("backup", "backup.service"), ("podman", "podman.service"))
    )
    proxy, origin = guarded(policy, DENY), raw_origin(tells_the_way)
    own = groups.own_slice()
    for path, rule, unit in (
        ("podman.service/backup.service", "podman", "podman.service"),
        ("backup.service", "backup", "backup.service"),
        ("backup.service/podman.service", "backup", "backup.service"),
        ("plain/backup.service", None, own),
        ("plain/x.slice/backup.service", None, own),
    ):
        place = groups.make(f"{own}/{path}")
        with contextlib.closing(over(groups.socket(place, STRANGER), proxy.address)) as client:
            answer = client.exchange(get(origin, f"/in/{path}"))
            assert (answer.status == 200) == (rule is not None)
        line = proxy.access(lambda line: line["target"].endswith(f"/in/{path}"))
        assert (line["rule"], line["unit"]) == (rule, unit)


# Subordinate users


@pytest.fixture
def with_subordinates(guarded, tmp_path):
    """A function that starts a proxy whose /etc/subuid is a file of the test's: the second of what it returns."""

    def start(policy: str, lines: str, proxy: str = DENY):
        file = tmp_path / "subuid"
        file.write_text(lines)
        mounted = prefix_with_mounts({"/etc/subuid": file})
        return guarded(policy, proxy, prefix=mounted), file

    if not Path("/etc/subuid").exists():
        pytest.skip("needs /etc/subuid, to mount another over it")
    return start


FIRST = 700_000


def test_subordinate_users_are_their_owners(with_subordinates, raw_origin, client_of):
    origin = raw_origin(tells_the_way)
    policy = NOT_THE_STRANGER + rule_of("named", "daemon") + rule_of("rest")
    lines = f"# no line\n{STRANGER}:{FIRST}:10\ndaemon:{FIRST + 10}:10\nnobody-of-this-name:{FIRST + 20}:5\nx:y:z\n"
    proxy, file = with_subordinates(policy, lines)
    for user, rule in (
        (FIRST - 1, "rest"),
        (FIRST, None),
        (FIRST + 9, None),
        (FIRST + 10, "named"),
        (FIRST + 19, "named"),
        (FIRST + 20, "rest"),
        (STRANGER, None),
    ):
        answer = client_of(proxy, user).exchange(get(origin))
        if rule is None:
            check_problem(answer, 403, rule="denied")
        else:
            assert way_of(answer).rule == rule, user
    # Read again upon a reload, for connections that are known already too.
    kept = client_of(proxy, FIRST + 10)
    assert way_of(kept.exchange(get(origin))).rule == "named"
    file.write_text(f"{STRANGER}:{FIRST}:20\n")
    proxy.reload(proxy=DENY, policy=ADMIN + policy)
    end = time.monotonic() + DEADLINE_SECONDS
    while (answer := kept.exchange(get(origin))).status != 403:
        assert time.monotonic() < end and way_of(answer).rule == "named"
    check_problem(answer, 403, rule="denied")


def test_a_range_of_two_users_is_either_for_what_is_denied_and_neither_for_what_is_allowed(
    with_subordinates, raw_origin, client_of
):
    origin = raw_origin(tells_the_way)
    lines = f"{STRANGER}:{FIRST}:10\ndaemon:{FIRST}:10\n"
    denying, _ = with_subordinates(NOT_THE_STRANGER + rule_of("rest"), lines)
    check_problem(client_of(denying, FIRST).exchange(get(origin)), 403, rule="denied")
    allowing, _ = with_subordinates(rule_of("named", "daemon"), lines)
    check_problem(client_of(allowing, FIRST).exchange(get(origin)), 403)


BECOME = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
CONTAINERS = {
    "unshare": [*BECOME, "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"],
    "nspawn": [
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--directory=/", "--volatile=yes",
        "--machine=sallyport-test", "--pipe", *BECOME,
    ],
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_client_in_a_container_is_who_it_is_outside(name, guarded, raw_origin):
    """In the machine's network: as root of a user namespace of its own, and in another tree of files."""
    container = CONTAINERS[name]
    need("curl", "setpriv", next(word for word in container if word in ("unshare", "systemd-nspawn")))
    proxy, origin = guarded(NOT_THE_STRANGER), raw_origin(tells_the_way)
    if subprocess.run([*container, "true"], cwd="/", capture_output=True).returncode != 0:
        pytest.skip("needs a container of this kind")
    done = subprocess.run(
        [*container, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-x", proxy.url, origin.url],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd="/", timeout=DEADLINE_SECONDS,
    )
    assert done.stdout.strip() == "403" and not origin.connections, done


# Others on the same port


def place_of(origin) -> tuple[str, int]:
    return origin.host, origin.port


def test_sockets_that_share_a_port(guarded, raw_origin, client_of):
    """SO_REUSEPORT lets one user's sockets share a port; each is still who made it, whatever its siblings do."""
    proxy, origin = guarded(NOT_THE_STRANGER + rule_of("rest")), raw_origin(tells_the_way)
    elsewhere = raw_origin(tells_the_way)
    siblings = []

    def sibling(user: int, port: int) -> socket.socket:
        with acting_as(user):
            made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.settimeout(DEADLINE_SECONDS)
        siblings.append(made)
        return made

    first = sibling(STRANGER, 0)
    port = first.getsockname()[1]
    client = over(first, proxy.address)
    others = [sibling(STRANGER, port) for _ in range(3)]
    others[0].connect(place_of(elsewhere))
    others[1].connect(place_of(origin))
    check_problem(client.exchange(get(origin)), 403, rule="denied")
    for made in siblings:
        made.close()


# What a rule decides


def test_a_rule_that_is_not_enforced_allows_nothing_to_the_unknown(groups, guarded, raw_origin):
    """It would allow, and keep later rules from being asked."""
    unenforced = '[[rule]]\nname = "trial"\nunits = ["a.service"]\naction = "deny"\nenforce = false\n'
    proxy, origin = guarded(unenforced + units_of("secret.service")), raw_origin(tells_the_way)
    place = groups.make(groups.own_slice() + "/a.service")
    made = groups.socket(place, STRANGER)
    groups.remove(place)
    with contextlib.closing(over(made, proxy.address)) as client:
        check_problem(client.exchange(get(origin)), 403, rule="secret")


# A look-up that does not end

SLOW_NAMES = r'''
#include <pwd.h>
#include <unistd.h>
int getpwuid_r(uid_t user, struct passwd *entry, char *room, size_t size, struct passwd **found) {
  while (user == %d) pause();
  *found = 0;
  return 0;
}
'''


@pytest.fixture
def slow_names(tmp_path):
    """A name service that never answers for the stranger, to preload."""
    need("cc")
    (tmp_path / "slow.c").write_text(SLOW_NAMES % STRANGER)
    built = tmp_path / "slow.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", built, tmp_path / "slow.c"], check=True)
    return {"LD_PRELOAD": str(built)}


def test_a_look_up_that_does_not_end_is_a_503(slow_names, guarded, raw_origin, client_of):
    proxy = guarded(NOT_THE_STRANGER + rule_of("rest"), environment=slow_names)
    origin = raw_origin(tells_the_way)
    known = client_of(proxy, ROOT)
    assert way_of(known.exchange(get(origin))).rule == "rest"
    client = client_of(proxy, STRANGER)
    client.send(get(origin, "/a") + get(origin, "/b"))
    answer = client.answer()
    assert answer.status == 503 and b"client-not-identified" in answer.reason
    client.wait_for_end()
    line = proxy.access(lambda line: line["status"] == 503)
    assert (line["user"], line["unit"], line["method"], line["rule"]) == ("unknown", "unknown", "GET", None)
    # Whoever is known already is not held up, nor is a client that leaves waited for.
    assert way_of(known.exchange(get(origin))).rule == "rest"
    other = client_of(proxy, STRANGER)
    other.send(get(origin))
    other.close()
    other.looked_at = False
    proxy.log.wait_for(lambda line: "left before it was known" in str(line))
    assert len(origin.requests()) == 2


# Many at once

# A look-up takes some milliseconds; the first of the others waits behind 4,000 connections that are taken before it.
IN_TIME_SECONDS = 4.0


def test_a_user_with_thousands_of_control_groups_holds_nobody_up(groups, guarded, raw_origin, client_of):
    """4,000 sockets from as many nested groups of one user wait for their look-up when the others come."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 10_000:
        pytest.skip("needs 10,000 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    policy = "".join(rule_of(f"u{user}", user) for user in range(60000, 60020)) + rule_of(
        "s", STRANGER, action="deny"
    ) + '[[rule]]\nname = "units"\nunits = ["some.service"]\naction = "deny"\n'
    proxy, origin = guarded(policy, "workers = 2"), raw_origin(tells_the_way)
    own = groups.own_slice()
    attackers: list[socket.socket] = []
    try:
        nest = groups.make(f"{own}/attacker.service")
        for _ in range(40):
            nest = groups.make(f"{nest}/n")
            for number in range(100):
                attackers.append(groups.socket(groups.make(f"{nest}/g{number}"), STRANGER))
        with stopped(proxy):
            for attacker in attackers:
                attacker.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    attacker.connect(proxy.address)
            for attacker in attackers:
                with contextlib.suppress(BlockingIOError, BrokenPipeError):
                    attacker.send(get(origin, "/secret"))
        began = time.monotonic()
        slowest = 0.0
        for user in list(range(60000, 60020)) * 5:
            place = groups.make(f"{own}/{user}.service")
            with contextlib.closing(over(groups.socket(place, user), proxy.address)) as client:
                asked = time.monotonic()
                assert way_of(client.exchange(get(origin, "/own"))).rule == f"u{user}"
                slowest = max(slowest, time.monotonic() - asked)
        assert slowest < IN_TIME_SECONDS, f"{slowest:.3f} s for one, {time.monotonic() - began:.1f} s for all"
        assert {request.target for request in origin.requests()} == {b"/own"}
    finally:
        for attacker in attackers:
            attacker.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
