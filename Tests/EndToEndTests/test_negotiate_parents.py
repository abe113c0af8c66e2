"""`[routes.NAME] credentials = { scheme = "negotiate" }`: a parent that is shown a ticket of Kerberos."""

import glob
import os
import subprocess

import pytest

from conftest import with_mounts
from kerberos_world import _realm, realm
from origins import answering, listening_socket, tunnel_echo
from parents import ParentTap, ask, by, let_others_read, refused, route, routed, start_squid
from proxy import command
from scripted_parents import scripted_parent, scripted_secure_parent
from tls_world import OK, rule, secure_client, tls_origin, world

SQUID_ASKS_FOR_TICKETS = """
auth_param negotiate program /usr/lib/squid/negotiate_kerberos_auth -k {directory}/service.keytab -s HTTP/office.test
auth_param negotiate children 1 startup=1
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
"""


def credentials(keytab, principal: str = "") -> str:
    more = f', principal = "{principal}"' if principal else ""
    return f'credentials = {{ scheme = "negotiate", keytab = "{keytab}"{more} }}'


@pytest.fixture(scope="session")
def client_keytab(_realm):
    return _realm.keytab("other", "proxy")


@pytest.fixture
def squid(realm, tmp_path_factory):
    """A tap before a Squid that takes tickets and nothing else."""
    directory = tmp_path_factory.mktemp("ticket-squid")
    keytab = realm.keytab("HTTP/office.test")
    (directory / "service.keytab").write_bytes(keytab.read_bytes())
    (directory / "service.keytab").chmod(0o644)
    let_others_read(realm.directory / "krb5.conf")
    started = start_squid(directory, SQUID_ASKS_FOR_TICKETS)
    tap = ParentTap(("127.0.0.1", started.port), "squid.test")
    yield tap
    tap.stop()
    started.stop()


def shown(messages) -> list[tuple[bytes, list[bytes]]]:
    return [
        (message.method, [value.split()[0] for value in message.values("Proxy-Authorization")]) for message in messages
    ]


def test_squid(realm, client_keytab, squid, routed, raw_client, raw_origin, secure_client, tls_origin, world):
    origin = raw_origin(answering(*[OK] * 4))
    inside = tls_origin(answering(OK), world.context(world.leaf("a.test")), tunnelled=True)
    origin.pseudonym = b"squid.test"
    proxy = routed(route("office", squid.via, credentials(client_keytab, "proxy@OFFICE.TEST")), "office")
    client = raw_client(proxy)
    for number in range(4):
        answer = client.exchange(ask("GET", origin.port, f"/{number}"))
        assert (answer.status, answer.body) == (200, b"ok")
    for _ in range(2):
        through = secure_client(proxy)
        assert through.tunnel("a.test", inside.port).status == 200
        through.close()
    assert not any(request.values("Proxy-Authorization") for request in origin.requests())
    # The first request of a connection answers for those behind it (RFC 4559, 6).
    assert shown(squid.asked) == [(b"GET", [b"Negotiate"])] + [(b"GET", [])] * 3 + [(b"CONNECT", [b"Negotiate"])] * 2
    tickets = [m.values("Proxy-Authorization")[0] for m in squid.asked if m.values("Proxy-Authorization")]
    assert len(set(tickets)) == 3, "each ticket is good for one use"
    log = "".join(proxy.raw_log)
    assert not any(ticket.decode()[10:40] in log for ticket in tickets)


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_every_connection_shows_one(
    realm, client_keytab, routed, scripted_parent, scripted_secure_parent, world, raw_client, secure
):
    realm.keytab("HTTP/office.test")
    script = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    parent = scripted_secure_parent(world.context(world.leaf("office.test")), script) if secure else scripted_parent(script)
    proxy = routed(route("office", parent.via, credentials(client_keytab)), "office")
    for _ in range(3):
        assert raw_client(proxy).exchange(ask("GET", 80)).body == b"ok"
    assert shown(parent.requests()) == [(b"GET", [b"Negotiate"])] * 3


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_parent_that_does_not_take_it(realm, client_keytab, routed, scripted_parent, raw_client, method):
    realm.keytab("HTTP/office.test")
    parent = scripted_parent(
        answering(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Negotiate\r\nContent-Length: 0\r\n\r\n"))
    proxy = routed(route("office", parent.via, credentials(client_keytab)), "office")
    answer = raw_client(proxy).exchange(ask(method, 443))
    refused(answer, 502, "parent-authentication", "proxy_configuration_error", "407")


def test_without_a_key_of_that_name(realm, client_keytab, routed, scripted_parent, raw_client):
    parent = scripted_parent(answering(OK))
    proxy = routed(route("office", parent.via, credentials(client_keytab, "nobody@OFFICE.TEST")), "office")
    answer = raw_client(proxy).exchange(ask("GET", 80))
    refused(answer, 502, "parent-authentication", "proxy_configuration_error", "no Kerberos ticket", "nobody@OFFICE.TEST")
    assert not parent.requests()


def test_another_route_is_taken_where_there_is_no_ticket(
    realm, client_keytab, routed, scripted_parent, raw_client, raw_origin
):
    """The realm does not know the service."""
    parent, origin = scripted_parent(answering(OK)), raw_origin(answering(OK))
    via = parent.via.replace("office.test", "unknown.test")
    proxy = routed(route("office", via, credentials(client_keytab)), "office", "direct")
    assert raw_client(proxy).exchange(ask("GET", origin.port)).status == 200
    why = proxy.log.wait_for(lambda entry: "route 'office'" in (entry["message"] or ""))["message"]
    assert "Server HTTP/unknown.test@OFFICE.TEST not found in Kerberos database" in why, why
    assert proxy.access()["route"] == "direct" and not parent.requests()


def test_a_center_that_says_nothing_holds_up_nobody_else(
    realm, client_keytab, routed, scripted_parent, raw_client, raw_origin, tmp_path, monkeypatch
):
    deaf = listening_socket()
    settings = (realm.directory / "krb5.conf").read_text()
    (tmp_path / "krb5.conf").write_text(settings.replace(f":{realm.port}", f":{deaf.getsockname()[1]}"))
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    parent, origin = scripted_parent(answering(OK)), raw_origin(answering(OK, OK))
    waits = rule("waits", by("office"), 'hosts = ["slow.test"]') + '[rule.timeouts]\nconnect = "1s"\n'
    proxy = routed(
        route("office", parent.via, credentials(client_keytab)), "direct", rules=waits, proxy="workers = 1")
    slow, quick = raw_client(proxy), raw_client(proxy)
    slow.send(ask("GET", 80, host="slow.test"))
    assert quick.exchange(ask("GET", origin.port)).status == 200
    refused(
        slow.answer(), 502, "parent-authentication", "proxy_configuration_error", "no Kerberos ticket for it within 1000 ms")
    assert quick.exchange(ask("GET", origin.port)).status == 200
    deaf.close()


@pytest.mark.skipif("SALLYPORT_SANITIZED" in os.environ, reason="the sanitizers' symbolizer needs the library too")
def test_without_the_library(realm, client_keytab, routed, scripted_parent, raw_client):
    (library,) = glob.glob("/usr/lib/*/libgssapi_krb5.so.2")
    parent = scripted_parent(answering(OK))
    proxy = routed(
        route("office", parent.via, credentials(client_keytab)), "office",
        prefix=with_mounts(f"mount --bind /dev/null {library}"))
    answer = raw_client(proxy).exchange(ask("GET", 80))
    refused(answer, 502, "parent-authentication", "proxy_configuration_error", "install libgssapi-krb5-2")


def test_check_and_explain(client_keytab, tmp_path):
    file = tmp_path / "sallyport.toml"
    text = route("office", "http://office.test:3128", credentials(client_keytab)) + rule("all", by("office"))
    file.write_text(text)
    said = command("check", "-c", file)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "with credentials (negotiate)" in command("explain", "-c", file, "http://a.test/").stdout
    file.write_text(text.replace(str(client_keytab), str(file)))
    said = command("check", "-c", file)
    assert said.returncode == 1 and "expected a keytab" in said.stdout + said.stderr
