"""The parents themselves, asked by curl without any Sallyport: what the other test_routes_* rely on."""

import subprocess

import pytest

from conftest import need
from journal import DEADLINE_SECONDS
from origins import answering
from parents import PASSWORD, USER, dante, http_parent, microsocks, programs, real_parent, secure_parent
from proxy import clean_environment
from scripted_parents import (
    NAME_BOUND,
    V6_BOUND,
    Socks,
    relaying,
    scripted_parent,
    scripted_secure_parent,
    socks_server,
)
from tls_world import OK, tls_origin, world


def served(connection) -> None:
    """Answers everything, and is asked by curl, so that nothing of what a proxy owes is checked."""
    connection.switch_protocol()
    answering(OK)(connection)


def unchecked(script):
    """The same script, without a check of what it is asked."""

    def run(connection) -> None:
        try:
            script(connection)
        finally:
            connection.switched_after = 0

    return run


def curl(*arguments: str) -> tuple[int, str]:
    need("curl")
    done = subprocess.run(
        ["curl", "-s", "-i", "--noproxy", "", "-m", str(DEADLINE_SECONDS), *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout


def account(port: int, scheme: str = "http", host: str = "127.0.0.1") -> list[str]:
    return ["-x", f"{scheme}://{USER}:{PASSWORD}@{host}:{port}"]


def test_an_http_parent_forwards_and_asks_for_credentials(http_parent, raw_origin):
    http_parent.checked = False
    origin = raw_origin(served)
    status, said = curl(*account(http_parent.port), f"http://a.test:{origin.port}/x")
    assert status == 0 and said.startswith("HTTP/1.1 200 ") and said.endswith("ok"), said
    (request,) = origin.requests()
    assert request.target == b"/x" and not request.values("Proxy-Authorization")
    status, said = curl("-x", f"http://127.0.0.1:{http_parent.port}", f"http://a.test:{origin.port}/x")
    assert said.split()[1] == "407" and "basic realm=" in said.lower(), said


def test_an_http_parent_opens_tunnels(http_parent, tls_origin, world):
    http_parent.checked = False
    origin = tls_origin(served, world.context(world.leaf("a.test")), tunnelled=True)
    trusted = ["--cacert", str(world.root_file)]
    status, said = curl(*account(http_parent.port), *trusted, f"https://a.test:{origin.port}/x")
    assert status == 0 and said.endswith("ok"), said


def test_haproxy_ends_tls_before_a_parent(secure_parent, real_parent, raw_origin, world):
    behind = real_parent("squid")
    behind.checked = False
    origin = raw_origin(served)
    parent = secure_parent(world.leaf("office.test"), behind.port)
    resolve = ["--resolve", f"office.test:{parent.port}:127.0.0.1", "--proxy-cacert", str(world.root_file)]
    status, said = curl(
        *account(parent.port, "https", "office.test"), *resolve, f"http://a.test:{origin.port}/"
    )
    assert status == 0 and said.endswith("ok"), said
    assert all(stream["up"][:1] == b"\x16" for stream in parent.streams)


def test_microsocks_forwards_names(microsocks, raw_origin):
    origin = raw_origin(served)
    port = microsocks()
    status, said = curl("-x", f"socks5h://127.0.0.1:{port}", f"http://a.test:{origin.port}/")
    assert status == 0 and said.endswith("ok"), said


def test_microsocks_asks_for_credentials(microsocks, raw_origin):
    origin = raw_origin(served)
    port = microsocks(USER, PASSWORD)
    status, said = curl(*account(port, "socks5h"), f"http://a.test:{origin.port}/")
    assert status == 0 and said.endswith("ok"), said
    assert curl("-x", f"socks5h://127.0.0.1:{port}", f"http://a.test:{origin.port}/")[0] != 0


def test_dante_forwards_names(dante, raw_origin):
    origin = raw_origin(served)
    status, said = curl("-x", f"socks5h://127.0.0.1:{dante.port}", f"http://a.test:{origin.port}/")
    assert status == 0 and said.endswith("ok"), said


# The scripted ones


def test_a_scripted_parent_relays(scripted_parent, tls_origin, world):
    parent = scripted_parent(unchecked(relaying))
    origin = tls_origin(served, world.context(world.leaf("a.test")), tunnelled=True)
    proxy = ["-x", f"http://127.0.0.1:{parent.port}", "--cacert", str(world.root_file)]
    status, said = curl(*proxy, f"https://a.test:{origin.port}/", f"http://a.test:{origin.port}/")
    assert status == 0 and said.count("200 OK") == 2, said


def test_a_scripted_parent_relays_inside_tls(scripted_secure_parent, tls_origin, world):
    parent = scripted_secure_parent(world.context(world.leaf("office.test")), unchecked(relaying))
    origin = tls_origin(served, world.context(world.leaf("a.test")), tunnelled=True)
    proxy = ["-x", f"https://office.test:{parent.port}", "--resolve", f"office.test:{parent.port}:127.0.0.1"]
    trusted = ["--cacert", str(world.root_file), "--proxy-cacert", str(world.root_file)]
    body = "x" * 300_000
    status, said = curl(*proxy, *trusted, "--data-binary", body[:100_000], f"https://a.test:{origin.port}/")
    assert status == 0 and said.endswith("ok"), said


@pytest.mark.parametrize(
    "manner",
    [
        Socks(),
        Socks(method=2),
        Socks(bound=V6_BOUND),
        Socks(bound=NAME_BOUND),
        Socks(bytewise=True),
        Socks(method=2, bytewise=True),
    ],
)
def test_a_socks_server_relays(manner, socks_server, raw_origin):
    server, origin = socks_server(manner), raw_origin(served)
    status, said = curl(*account(server.port, "socks5h"), f"http://a.test:{origin.port}/")
    assert status == 0 and said.endswith("ok"), said
    (asked,) = server.asked
    assert (asked.kind, asked.host, asked.port) == (3, "a.test", origin.port)
    assert server.credentials == ([(USER.encode(), PASSWORD.encode())] if manner.method == 2 else [])


@pytest.mark.parametrize(
    "manner",
    [
        Socks(reply=5),
        Socks(method=0xFF),
        Socks(method=2, verdict=b"\x01\x01"),
        Socks(greeting=b""),
        Socks(answer=b"garbage"),
    ],
)
def test_a_socks_server_refuses(manner, socks_server, raw_origin):
    server, origin = socks_server(manner), raw_origin(served)
    assert curl(*account(server.port, "socks5h"), f"http://a.test:{origin.port}/")[0] == 97
    assert not origin.connections
