"""Routes and the rest of the policy: denied addresses, devices, how many connections, explain, the access line."""

import re
import subprocess

import pytest

from conftest import need
from dns_server import Answer
from origins import answering, tunnel_echo, unused_port
from parents import ADA, KEPT, PASSWORD, ask, by, refused, route, routed
from problems import check_problem
from proxy import command, configuration_text
from scripted_parents import accepting, refusing, relaying, scripted_parent, socks_server
from test_connections_per_host import CAP, Crowd, wait_for_one
from tls_world import OK, get, rule, tls_origin, world

# deny_addresses


DENIED = {
    "an address": "10.1.2.3",
    "mapped to IPv6": "[::ffff:10.1.2.3]",
    "behind NAT64": "[64:ff9b::a01:203]",
    "in 6to4": "[2002:a01:203::1]",
}


def request_for(way: str, host: str) -> bytes:
    return get(host, 443) if way == "https" else ask(way, 443, host=host)


@pytest.mark.parametrize("way", ["GET", "CONNECT", "https"])
@pytest.mark.parametrize("name", DENIED)
@pytest.mark.parametrize("where", ["[proxy]", "[[rule]]"])
def test_a_literal_that_is_denied_goes_to_no_parent(
    where, name, way, scripted_parent, socks_server, routed, raw_client
):
    denied = 'deny_addresses = ["private"]'
    for parent in (scripted_parent(relaying), socks_server()):
        if where == "[proxy]":
            proxy = routed(route("office", parent.via), "office", proxy=denied)
        else:
            proxy = routed(route("office", parent.via), rules=rule("routed", by("office"), denied))
        answer = raw_client(proxy).exchange(request_for(way, DENIED[name]))
        check_problem(answer, 403, error="destination_ip_prohibited", rule="routed")
        assert not parent.connections


def test_what_is_denied_by_default_goes_to_no_parent(scripted_parent, routed, raw_client):
    parent = scripted_parent(relaying)
    client = raw_client(routed(route("office", parent.via), "office"))
    for host in ("169.254.169.254", "[fe80::1]", "224.0.0.1", "0.0.0.0"):
        check_problem(client.exchange(ask("GET", 80, host=host)), 403, error="destination_ip_prohibited")
    assert not parent.connections


def test_a_name_passes_wherever_it_may_lead(scripted_parent, routed, raw_client):
    """Nobody here knows where: it is not even looked up."""
    parent = scripted_parent(answering(OK))
    known = {"office.test": Answer(a=["127.0.0.1"]), "inside.test": Answer(a=["10.1.2.3"])}
    proxy = routed(route("office", parent.via), "office", known=known, proxy='deny_addresses = ["private"]')
    assert raw_client(proxy).exchange(ask("GET", 80, host="inside.test")).body == b"ok"
    assert not proxy.names.asked("inside.test")


@pytest.mark.parametrize("way", ["GET", "CONNECT"])
def test_a_parent_is_no_target(way, scripted_parent, socks_server, routed, raw_origin, raw_client):
    """It is the operator who named it: that loopback is denied to clients does not forbid a parent there."""
    for parent in (scripted_parent(relaying), socks_server()):
        origin = raw_origin(answering(OK) if way == "GET" else tunnel_echo)
        proxy = routed(route("office", parent.via), "office", proxy='deny_addresses = ["loopback"]')
        assert raw_client(proxy).exchange(ask(way, origin.port)).status == 200
        before = len(parent.connections)
        answer = raw_client(proxy).exchange(ask(way, origin.port, host="127.0.0.1"))
        check_problem(answer, 403, error="destination_ip_prohibited")
        assert len(parent.connections) == before


@pytest.mark.parametrize("way", ["GET", "CONNECT"])
def test_the_way_round_a_dead_parent_is_no_way_round_this(way, routed, raw_origin, raw_client):
    """Where direct is the next route, the address that the name leads to counts again."""
    origin = raw_origin(answering(OK))
    tables = route("office", f"http://office.test:{unused_port()}")
    proxy = routed(tables, "office", "direct", proxy='deny_addresses = ["loopback"]')
    check_problem(raw_client(proxy).exchange(ask(way, origin.port)), 403, error="destination_ip_prohibited")
    assert not origin.connections


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "127.1", "0177.0.0.1"])
def test_a_host_that_looks_like_a_number_goes_to_no_parent(host, scripted_parent, routed, raw_client):
    parent = scripted_parent(relaying)
    proxy = routed(route("office", parent.via), "office")
    for way in ("GET", "CONNECT"):
        check_problem(raw_client(proxy).exchange(ask(way, 80, host=host)), 400)
    assert not parent.connections


# interface


def bound_devices(port: int) -> set[str]:
    """The devices to which sockets are bound that are connected to this port: `127.0.0.1%lo:40000`."""
    need("ss")
    done = subprocess.run(["ss", "-Htn", f"dport = :{port}"], capture_output=True, text=True, check=True)
    locals_ = [line.split()[3] for line in done.stdout.splitlines()]
    return {local.partition("%")[2].partition(":")[0] for local in locals_}


@pytest.mark.own_network
def test_a_parent_by_a_device(scripted_parent, routed, raw_client):
    parent = scripted_parent(answering(KEPT))
    proxy = routed(route("office", parent.via, 'interface = "lo"'), "office")
    assert raw_client(proxy).exchange(ask("GET", 80)).body == b"ok"
    assert bound_devices(parent.port) == {"lo"}


@pytest.mark.own_network
def test_direct_by_a_device(routed, raw_origin, raw_client):
    origin, free = raw_origin(answering(OK)), raw_origin(answering(OK))
    proxy = routed(
        route("wire", "direct", 'interface = "lo"'), rules=rule("w", f"ports = [{origin.port}]", by("wire"))
    )
    client = raw_client(proxy)
    for server in (origin, free):
        assert client.exchange(ask("GET", server.port)).body == b"ok"
    assert bound_devices(origin.port) == {"lo"} and bound_devices(free.port) == {""}
    line = proxy.access(lambda line: f":{origin.port}/" in line["target"])
    assert (line["route"], line["upstream"]) == ("wire", origin.authority)


@pytest.mark.own_network
@pytest.mark.parametrize("way", ["GET", "CONNECT", "https"])
@pytest.mark.parametrize("kind", ["direct", "http", "socks5"])
def test_a_device_that_does_not_exist(
    kind, way, scripted_parent, socks_server, routed, raw_origin, raw_client
):
    parent = {"http": scripted_parent, "socks5": socks_server}.get(kind, scripted_parent)()
    origin = raw_origin(answering(OK))
    via = "direct" if kind == "direct" else parent.via
    proxy = routed(route("wire", via, 'interface = "absent0"'), "wire")
    request = get("a.test", origin.port) if way == "https" else ask(way, origin.port)
    answer = raw_client(proxy).exchange(request)
    problem = refused(answer, 503, "not-reachable", "destination_ip_unroutable", "wire")
    assert int(answer.value("Retry-After")) > 0
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["route"], line["upstream"]) == (503, None, None)
    assert not parent.connections and not origin.connections


# The link of a route


def test_loopback_counts_as_wired(scripted_parent, routed, raw_client):
    parent = scripted_parent(answering(OK))
    for when, holds in ((["wired"], True), (["wifi", "wired"], True), (["wwan", "wifi"], False)):
        proxy = routed(route("office", parent.via, f"when = {when!r}".replace("'", '"')), "office")
        answer = raw_client(proxy).exchange(ask("GET", 80))
        if holds:
            assert answer.body == b"ok"
        else:
            refused(answer, 503, "not-reachable", "destination_ip_unroutable", "office")


# connections_per_host


@pytest.mark.parametrize("workers", [1, 2])
def test_tunnels_by_a_parent_wait_for_each_other(workers, scripted_parent, routed, raw_origin, raw_client):
    parent, origin = scripted_parent(relaying), raw_origin(tunnel_echo)
    proxy = routed(CAP.format(1) + route("office", parent.via), "office", proxy=f"workers = {workers}")
    waiting = [raw_client(proxy) for _ in range(6)]
    for client in waiting:
        client.send(ask("CONNECT", origin.port))
    while waiting:
        (client,) = wait_for_one(waiting)
        waiting.remove(client)
        assert client.answer().status == 200
        client.send(b"sally")
        assert client.receive_exactly(5) == b"sally"
        assert all(other.nothing_came() for other in waiting), "two tunnels were open at once"
        client.half_close()
        client.wait_for_end()
    assert len(origin.connections) == 6


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_by_a_parent_wait_for_each_other(workers, scripted_parent, routed, raw_client):
    crowd = Crowd()
    parent = scripted_parent(crowd)
    proxy = routed(CAP.format(2) + route("office", parent.via), "office", proxy=f"workers = {workers}")
    clients = [raw_client(proxy) for _ in range(20)]
    for client in clients:
        client.send(ask("GET", 8080))
    parent.events.wait_for_several(2, lambda event: event[0] == "accepted")
    for _ in clients:
        crowd.released.release()
    assert {client.answer().status for client in clients} == {200}
    assert crowd.most <= 2, f"{crowd.most} connections were open at once"


FREEING = {
    "a parent that refuses": refusing("403 No"),
    "a parent that fails": refusing("502 No"),
    "a parent that asks for credentials": refusing("407 No"),
    "a parent that closes": lambda connection: connection.read_request(),
}


@pytest.mark.parametrize("name", FREEING)
def test_a_tunnel_that_was_refused_frees_its_slot(name, scripted_parent, routed, raw_client):
    parent = scripted_parent(FREEING[name])
    proxy = routed(CAP.format(1) + route("office", parent.via), "office", proxy="workers = 1")
    for _ in range(4):
        check_problem(raw_client(proxy).exchange(ask("CONNECT", 443)), 502)


@pytest.mark.parametrize("way", ["CONNECT", "https"])
def test_a_route_that_was_left_frees_its_slot(
    way, scripted_parent, routed, raw_origin, tls_origin, raw_client, world
):
    """What the first route held must not be what the second waits for."""
    parent = scripted_parent(refusing("503 Later"))
    proxy = routed(CAP.format(1) + route("office", parent.via), "office", "direct", proxy="workers = 1")
    context = world.context(world.leaf("a.test"))
    origin = raw_origin(tunnel_echo) if way == "CONNECT" else tls_origin(answering(OK), context)
    for _ in range(3):
        client = raw_client(proxy)
        request = get("a.test", origin.port) if way == "https" else ask(way, origin.port)
        assert client.exchange(request).status == 200
        client.half_close()
        client.wait_for_end()


def test_who_waits_for_a_parent_may_leave(scripted_parent, routed, raw_client):
    crowd = Crowd()
    parent = scripted_parent(crowd)
    proxy = routed(CAP.format(1) + route("office", parent.via), "office", proxy="workers = 1")
    first, *waiting = [raw_client(proxy) for _ in range(5)]
    first.send(ask("GET", 8080))
    parent.wait_for("accepted")
    for client in waiting:
        client.send(ask("GET", 8080))
    for client in waiting[:2]:
        client.reset()
    for _ in range(5):
        crowd.released.release()
    assert [client.answer().status for client in [first, *waiting[2:]]] == [200] * 3


# explain, check, the log


EXPLAINED = (
    route("office", "http://proxy.office.example:3128", ADA)
    + route("phone", "socks5://10.0.0.9:1080", 'when = ["wwan"]', 'interface = "wwan0"')
    + rule("most", 'hosts = ["a.test"]', by("office", "phone", "direct"))
    + rule("own", 'hosts = ["b.test"]', by("direct"))
    + rule("none", 'hosts = ["c.test"]')
)


def explained(directory, *arguments: str) -> str:
    (directory / "sallyport.toml").write_text(configuration_text(policy=EXPLAINED))
    (directory / "sallyport.toml").chmod(0o600)
    done = command("explain", "--config", "sallyport.toml", *arguments, cwd=directory)
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.parametrize(
    "target", [("GET", "http://a.test/"), ("CONNECT", "a.test:443")], ids=["GET", "CONNECT"]
)
def test_explain_names_the_routes_in_their_order(target, sallyport_binary, tmp_path):
    said = explained(tmp_path, *target)
    assert re.search(r"(?s)office.*phone.*direct", said), said
    for word in ("http://proxy.office.example:3128", "socks5://10.0.0.9:1080", "wwan", "wwan0"):
        assert word in said, f"{word} is missing:\n{said}"
    assert PASSWORD not in said


@pytest.mark.parametrize("host", ["b.test", "c.test"])
def test_explain_of_what_goes_direct_names_no_parent(host, sallyport_binary, tmp_path):
    said = explained(tmp_path, "GET", f"http://{host}/")
    assert "proxy.office.example" not in said and "10.0.0.9" not in said, said


FAULTS = {
    "a route that is not there": (rule("r", by("absent")), "absent"),
    "a scheme of no parent": (route("office", "ftp://office.test:21") + rule("r", by("office")), "ftp"),
    "no via": ("[routes.office]\n" + rule("r", by("office")), "via"),
    "a port that is none": (route("office", "http://office.test:99999") + rule("r", by("office")), "99999"),
    "an unknown link": (route("office", "direct", 'when = ["wire"]') + rule("r", by("office")), "wire"),
    "a list that is empty": (rule("r", "route = []"), "route"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_routes_is_an_error(name, sallyport_binary, tmp_path):
    policy, word = FAULTS[name]
    (tmp_path / "sallyport.toml").write_text(configuration_text(policy=policy))
    done = command("check", "--config", "sallyport.toml", cwd=tmp_path)
    output = done.stdout + done.stderr
    assert done.returncode == 1 and "error:" in output and word in output, output


def test_check_prints_no_password(sallyport_binary, tmp_path):
    policy = route("office", "http://office.test:3128", ADA, "whn = []") + rule("r", by("office"))
    (tmp_path / "sallyport.toml").write_text(configuration_text(policy=policy))
    for options in ([], ["--json"]):
        done = command("check", "--config", "sallyport.toml", *options, cwd=tmp_path)
        assert done.returncode == 1 and "whn" in done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr


def test_the_access_line_has_a_route_where_one_was_taken(scripted_parent, routed, raw_origin, raw_client):
    parent, origin = scripted_parent(accepting()), raw_origin(answering(OK))
    rules = rule("no", 'paths = ["/no"]', 'action = "deny"') + rule("plain", 'paths = ["/direct"]')
    proxy = routed(route("office", parent.via), "office", rules=rules, proxy="workers = 1")
    client = raw_client(proxy)
    expected = {
        "/no": (None, None),
        "/direct": ("direct", origin.authority),
        "/parent": ("office", f"127.0.0.1:{parent.port}"),
    }
    for path in expected:
        client.exchange(ask("GET", origin.port, path))
    for path, taken in expected.items():
        line = proxy.access(lambda line, path=path: line["target"].endswith(path))
        assert (line["route"], line["upstream"]) == taken, line
