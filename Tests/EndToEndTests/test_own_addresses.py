"""deny_addresses = ["self"] and ["loopback"]: a service of this machine is refused by whatever address it is asked for.

The machine's addresses come and go; what the daemon knows of them follows over rtnetlink.
"""

import pytest

from dns_server import Answer
from network_world import FAR, network
from origins import answering, tunnel_echo
from problems import check_problem
from proxy import command, configuration_text
from reachability_world import far_origin, local_client, name_server, reaching
from scripted_parents import relaying, scripted_parent

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

WORDS = ["self", "loopback"]


def ask(host: str, port: int, method: str = "GET") -> bytes:
    authority = f"{host}:{port}"
    target = authority if method == "CONNECT" else f"http://{authority}/"
    return f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()


def check_denied(answer) -> None:
    problem = check_problem(answer, 403, error="destination_ip_prohibited")
    assert "address of this machine" in problem.body["detail"], problem.body["detail"]


@pytest.fixture
def own_origin(network, raw_origin):
    """A function that starts an origin on the machine itself."""

    def start(script=answering(OK), address: str = "0.0.0.0"):
        with network.machine:
            return raw_origin(script, address)

    return start


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("word", WORDS)
def test_the_addresses_of_the_machine_are_denied_under_every_name(
    word, method, network, reaching, local_client, own_origin, far_origin, name_server
):
    link = network.wire("eth0")
    network.go_by(link)
    script = answering(OK) if method == "GET" else tunnel_echo
    origin, origin6, far = own_origin(script), own_origin(script, "::"), far_origin(script)
    names = name_server({"me.test": Answer(a=[link.near]), "far.test": Answer(a=[FAR[0]])})
    proxy = reaching(proxy=f'workers = 1\ndeny_addresses = ["{word}"]', names=names)
    for host, port in (
        (link.near, origin.port),
        (f"[::ffff:{link.near}]", origin.port),
        ("me.test", origin.port),
        (f"[{link.near6}]", origin6.port),
    ):
        check_denied(local_client(proxy).exchange(ask(host, port, method)))
    for host in ("127.0.0.1", "127.9.9.9", "[::1]", "0.0.0.0"):
        answer = local_client(proxy).exchange(ask(host, origin.port, method))
        check_problem(answer, 403, error="destination_ip_prohibited")
    assert not origin.connections and not origin6.connections
    for host in (FAR[0], "far.test"):
        assert local_client(proxy).exchange(ask(host, far.port, method)).status == 200


@pytest.mark.parametrize("where", ["[proxy]", "[[rule]]"])
def test_an_address_that_comes_is_denied_and_one_that_goes_is_not(
    where, network, reaching, local_client, far_origin, own_origin
):
    link = network.wire("eth0")
    network.go_by(link)
    far, own = far_origin(), own_origin()
    denied = 'deny_addresses = ["self"]'
    if where == "[proxy]":
        proxy = reaching(proxy=f"workers = 1\n{denied}")
    else:
        proxy = reaching(f'[[rule]]\nname = "out"\n{denied}\n')
    client = local_client(proxy)
    assert client.exchange(ask(FAR[0], far.port)).status == 200
    watcher = proxy.admin.events()
    network.machine.ip("address", "add", f"{FAR[0]}/32", "dev", "eth0")
    watcher.until("reachability")
    check_denied(local_client(proxy).exchange(ask(FAR[0], own.port)))
    assert not own.connections
    network.machine.ip("address", "del", f"{FAR[0]}/32", "dev", "eth0")
    watcher.until("reachability")
    assert local_client(proxy).exchange(ask(FAR[0], far.port)).status == 200


def test_an_address_is_denied_at_once_where_no_interface_has_it(network, reaching, local_client, own_origin):
    """`ip route add local`: the kernel takes a whole network for the machine's own, and lists none of its addresses."""
    link = network.wire("eth0")
    network.go_by(link)
    own = own_origin()
    proxy = reaching(proxy='workers = 1\ndeny_addresses = ["self"]')
    network.machine.ip("route", "add", "local", "192.0.2.0/24", "dev", "lo")
    check_denied(local_client(proxy).exchange(ask("192.0.2.77", own.port)))
    assert not own.connections


def test_a_literal_that_is_denied_goes_to_no_parent(
    network, reaching, local_client, scripted_parent, own_origin
):
    """The parent may be another machine of this network, which would come back."""
    link = network.wire("eth0")
    network.go_by(link)
    own = own_origin()
    with network.machine:
        parent = scripted_parent(relaying)
    proxy = reaching(
        f'[routes.office]\nvia = "{parent.via}"\n[[rule]]\nname = "routed"\nroute = ["office"]\n',
        proxy='workers = 1\ndeny_addresses = ["self"]',
    )
    for method in ("GET", "CONNECT"):
        check_denied(local_client(proxy).exchange(ask(link.near, own.port, method)))
    assert not parent.connections


def test_a_rule_that_is_not_enforced_says_what_it_would_deny(network, reaching, local_client, own_origin):
    link = network.wire("eth0")
    own = own_origin()
    proxy = reaching('[[rule]]\nname = "trial"\nenforce = false\ndeny_addresses = ["self"]\n')
    assert local_client(proxy).exchange(ask(link.near, own.port)).status == 200
    line = proxy.access(lambda line: line["status"] == 200)
    assert (line["reason"], line["report"]) == ("rule-would-deny", "address-denied")


def test_explain_and_check_know_the_words(network, tmp_path):
    link = network.wire("eth0")
    file = tmp_path / "policy.toml"
    file.write_text(configuration_text('deny_addresses = ["self"]'))
    with network.machine:
        done = command("check", "--config", str(file))
        assert (done.returncode, done.stderr) == (0, "")
        done = command(
            "explain", "--config", str(file), "GET", f"http://{link.near}/"
        )
        assert f"{link.near} is an address of this machine, which deny_addresses of [proxy] names" in done.stdout
        done = command("explain", "--config", str(file), "GET", f"http://{FAR[0]}/")
        assert f"{FAR[0]} is not in deny_addresses" in done.stdout
