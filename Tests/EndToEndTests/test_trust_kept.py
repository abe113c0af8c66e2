"""What was judged once must not outlive its judgement: certificates over the next route, in the store, and at parents that
only report; credentials, name servers and parents that a reload changes.
"""

import base64
import ssl

import pytest

from dns_server import Answer
from origins import answering, tunnel_echo, unused_port
from proxy import command
from scripted_parents import ESTABLISHED, far_end, relay, relaying
from scripted_parents import scripted_parent, scripted_secure_parent  # noqa: F401
from tls_world import OK, certify, client_context, pins, rule
from tls_world import authority, secure_client, secure_proxy, tls_origin, world  # noqa: F401

OTHER_PIN = "sha256/mTiH8WkJs9iiQAvIBKrOCsoBlUt+8vZUKjyiEF/ThOg="
STORED = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600, public\r\nContent-Length: 4\r\n\r\nkept"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


def pinned(leaf, *lines: str) -> str:
    return pins("p", f'spki = ["{leaf.pin}", "{OTHER_PIN}"]', *lines)


def ask(raw_client, proxy, port: int, host: str = "c.test", path: str = "/", lines: str = ""):
    client = raw_client(proxy)
    authority = f"{host}:{port}"
    return client.exchange(f"GET http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n".encode())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2], ids=lambda version: version.name)
def test_the_next_route_is_probed_as_well(version, secure_proxy, tls_origin, scripted_parent, secure_client, world):
    """The parent leads the probe to the right server and refuses the tunnel. What is met without it is somebody else."""
    good, stranger = world.leaf("p.test"), certify("Stranger", names=("p.test",))
    right = tls_origin(answering(OK), world.context(good, maximum=version), tunnelled=True)
    wrong = tls_origin(answering(OK), world.context(stranger, maximum=version), tunnelled=True)
    asked = []

    def parent(connection) -> None:
        connection.read_request()
        asked.append(connection)
        if len(asked) > 1:
            return connection.send(BUSY)
        connection.send(ESTABLISHED)
        connection.switch_protocol()
        with far_end(right.port) as far:
            relay(connection, far)

    office = scripted_parent(parent)
    proxy = secure_proxy(
        rule("pinned", 'hosts = ["p.test"]', 'connect = "verify"', 'route = ["office", "direct"]', security='pins = "p"')
        + pinned(good)
        + f'[routes.office]\nvia = "http://127.0.0.1:{office.port}"\n'
    )
    client = secure_client(proxy)
    client.looked_at = False
    assert client.tunnel("p.test", wrong.port).status == 502
    assert proxy.access(lambda line: line["method"] == "CONNECT")["outcome"] == "certificate-untrusted"


def test_what_passes_because_nothing_is_enforced_is_not_stored(secure_proxy, tls_origin, raw_client, world):
    """Once the rule is enforced, the store would give what the certificate check refuses."""
    origin = tls_origin(answering(STORED), world.context(certify("Stranger", names=("c.test",))))
    policy = rule("r", 'hosts = ["c.test"]', "upgrade = true", "enforce = %s") + "[rule.cache]\n"
    proxy = secure_proxy("[cache]\n" + policy % "false")
    for _ in range(2):
        assert ask(raw_client, proxy, origin.port).body == b"kept"
        line = proxy.access(lambda line: line["status"] == 200)
        assert (line["report"], line["cache"]) == ("certificate-untrusted", "miss")
    proxy.reload(policy=proxy.head + "[cache]\n" + policy % "true")
    assert ask(raw_client, proxy, origin.port).status == 502


def test_an_authority_that_is_withdrawn_vouches_for_nothing_in_the_store(secure_proxy, tls_origin, raw_client, world):
    origin = tls_origin(answering(STORED), world.context(world.leaf("c.test", issuer=world.private_issuing)))
    policy = "[cache]\n" + rule("r", 'hosts = ["c.test"]', "upgrade = true") + "[rule.cache]\n"
    both = world.file(world.root.pem + world.private.pem)
    proxy = secure_proxy(f'[trust]\nanchors = "{both}"\n{policy}', trusted="")
    ask(raw_client, proxy, origin.port)
    ask(raw_client, proxy, origin.port)
    assert [line["cache"] for line in proxy.log.wait_for_several(2, lambda line: "target" in line)] == ["stored", "hit"]
    proxy.reload(policy=proxy.head + f'[trust]\nanchors = "{world.root_file}"\n{policy}')
    assert ask(raw_client, proxy, origin.port).status == 502


@pytest.mark.parametrize("kind", ["absolute", "connect"])
def test_pins_of_a_parent_that_only_report_are_reported_each_time(
    kind, secure_proxy, raw_origin, scripted_secure_parent, raw_client, world
):
    """A session of such a parent that is resumed would look as if all were well."""
    parent = scripted_secure_parent(world.context(world.leaf("office.test")), answering(OK) if kind == "absolute" else relaying)
    origin = raw_origin(answering(OK))
    proxy = secure_proxy(
        rule("r", 'hosts = ["h.test"]', 'route = ["office"]')
        + f'[routes.office]\nvia = "https://office.test:{parent.port}"\nprotocols = ["http/1.1"]\n'
        + '[routes.office.security]\npins = "p"\n'
        + pinned(world.leaf("x.test"), "enforce = false"),
        proxy="workers = 1",
    )
    for number in range(3):
        client = raw_client(proxy)
        if kind == "absolute":
            assert ask(raw_client, proxy, origin.port, "h.test").status == 200
        else:
            client.looked_at = False
            client.send(f"CONNECT h.test:{origin.port} HTTP/1.1\r\nHost: h.test:{origin.port}\r\n\r\n".encode())
            assert client.answer().status == 200
            client.close()
        lines = proxy.log.wait_for_several(number + 1, lambda line: "target" in line)
        assert lines[-1]["report"] == "pin-mismatch"
    assert not any(handshake.resumed for handshake in parent.handshakes)


def credentials(text: str) -> str:
    return f"Proxy-Authorization: Basic {base64.b64encode(text.encode()).decode()}\r\n"


@pytest.mark.parametrize("withdrawn", ["the user", "the password"])
def test_what_was_opened_with_credentials_that_are_withdrawn_ends(
    withdrawn, secure_proxy, authority, tls_origin, raw_origin, secure_client, world, tmp_path
):
    origin = tls_origin(answering(OK), world.context(world.leaf("i.test")))
    echo = raw_origin(tunnel_echo)
    users, admin = tmp_path / "users", tmp_path / "admin.sock"
    users.write_text("alice:leaked\nbob:kept\n")
    users.chmod(0o600)
    proxy = secure_proxy(
        authority.table + f'[admin]\nsocket = "{admin}"\n' + rule("inside", 'hosts = ["i.test"]', 'connect = "intercept"'),
        proxy=f'credentials = {{ file = "{users}" }}\nworkers = 1',
    )

    def enter(host: str, port: int, shown: str):
        client = secure_client(proxy)
        client.looked_at = False
        return client, client.tunnel(host, port, credentials(shown)).status

    inside, _ = enter("i.test", origin.port, "alice:leaked")
    inside.shake_hands(client_context(authority.file), "i.test")
    assert inside.get_inside(f"i.test:{origin.port}").status == 200
    plain, status = enter("localhost", echo.port, "alice:leaked")
    other, other_status = enter("localhost", echo.port, "bob:kept")
    assert (status, other_status) == (200, 200)
    users.write_text("bob:kept\n" + ("" if withdrawn == "the user" else "alice:fresh\n"))
    done = command("reload", "--close-denied", "--socket", admin)
    assert done.stdout.splitlines()[-1] == "ended 2 that the policy now denies", done
    assert not inside.receive_some() and not plain.receive_some()
    other.socket.sendall(b"still here\n")
    other.receive_until(b"still here\n")


def test_other_name_servers_are_asked_after_a_reload(dns_server, sallyport, raw_origin, raw_client):
    """Even for a host that has a tunnel open, whose answer the old server wanted to be kept for a day."""
    port = unused_port()
    for address, body in (("127.0.0.1", b"old"), ("127.0.0.2", b"new")):
        raw_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + body), address, port)
    old = dns_server({"d.test": Answer(a=["127.0.0.1"], ttl=86400)})
    new = dns_server({"d.test": Answer(a=["127.0.0.2"])})
    proxy = sallyport(policy=f'[dns]\nservers = ["{old.address}"]\ncache = "1h"\n', proxy="workers = 1")
    held = raw_client(proxy)
    held.looked_at = False
    held.send(f"CONNECT d.test:{port} HTTP/1.1\r\nHost: d.test:{port}\r\n\r\n".encode())
    assert held.answer().status == 200
    proxy.reload(policy=f'[dns]\nservers = ["{new.address}"]\n', proxy="workers = 1")
    assert ask(raw_client, proxy, port, "d.test").body == b"new"
    held.close()


def test_a_parent_that_was_corrected_is_used_at_once(sallyport, raw_origin, scripted_parent, raw_client):
    """The one before it failed, and is skipped for a while; it is of the same name."""
    origin, parent = raw_origin(answering(OK)), scripted_parent()
    policy = (
        '[[rule]]\nname = "r"\nhosts = ["localhost"]\nroute = ["office", "direct"]\n'
        '[routes.office]\nvia = "http://127.0.0.1:%d"\n'
    )
    proxy = sallyport(policy=policy % unused_port(), proxy="workers = 1\ndeny_addresses = []")
    for _ in range(3):
        assert ask(raw_client, proxy, origin.port, "localhost").status == 200
    assert proxy.access(lambda line: line["status"] == 200)["route"] == "direct"
    proxy.reload(policy=policy % parent.port, proxy="workers = 1\ndeny_addresses = []")
    assert ask(raw_client, proxy, origin.port, "localhost").status == 200
    lines = proxy.log.wait_for_several(4, lambda line: "target" in line)
    assert lines[-1]["route"] == "office"
