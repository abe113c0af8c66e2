"""`[routes.NAME] credentials = { scheme = "digest" }`: what a parent asks for before it forwards or opens a tunnel."""

import pytest

from digest_server import Digest, guarding
from origins import answering, tunnel_echo
from parents import (
    PASSWORD,
    USER,
    ask,
    by,
    programs,
    real_parent,
    refused,
    route,
    routed,
    secure_parent,
)
from proxy import command
from scripted_parents import scripted_parent, scripted_secure_parent
from tls_world import OK, rule, secure_client, tls_origin, world

CREDENTIALS = f'credentials = {{ scheme = "digest", username = "{USER}", password = "{PASSWORD}" }}'

# Nonces are remembered by each.
ONE_LOOP = dict(proxy="workers = 1")


def digest(password: str = PASSWORD, **arguments) -> Digest:
    return Digest(USER, password, status=407, **arguments)


def shown(parent) -> list[tuple[bytes, bool]]:
    return [(message.method, bool(message.values("Proxy-Authorization"))) for message in parent.requests()]


@pytest.fixture
def asking(routed, scripted_parent, raw_client):
    """A function that starts a parent of this script, and a proxy that goes by it; a client of that."""

    def start(script, policy: str = "", **arguments):
        parent = scripted_parent(script)
        proxy = routed(route("office", parent.via, CREDENTIALS), "office", rules=policy, **ONE_LOOP, **arguments)
        return parent, proxy, raw_client(proxy)

    return start


# Requests in absolute-form


def test_a_challenge_is_answered_and_the_nonce_remembered(asking):
    parent, _, client = asking(guarding(digest()))
    for _ in range(3):
        assert client.exchange(ask("GET", 80)).body == b"ok"
    assert shown(parent) == [(b"GET", False), (b"GET", True), (b"GET", True), (b"GET", True)]
    assert len(parent.connections) == 1


@pytest.mark.parametrize(
    "manner", [dict(closes=True), dict(chunked=True), dict(challenge_body=b"x" * 100_000), dict(challenge_body=b"")]
)
def test_the_content_of_a_challenge(asking, manner):
    parent, _, client = asking(guarding(digest(algorithm="SHA-256"), **manner))
    assert client.exchange(ask("GET", 80)).body == b"ok"
    assert shown(parent) == [(b"GET", False), (b"GET", True)]


def test_a_body_is_sent_again(asking):
    parent, _, client = asking(guarding(digest()))
    body = b"0123456789" * 5000
    client.send(ask("POST", 80, lines=f"Content-Length: {len(body)}\r\n") + body)
    assert client.answer().status == 200
    assert [message.body for message in parent.requests()] == [body, body]


def test_a_wrong_password_is_tried_once(asking):
    parent, _, client = asking(guarding(digest("another")))
    for _ in range(2):
        said = "the route's digest credentials were refused"
        refused(client.exchange(ask("GET", 80)), 502, "parent-authentication", "proxy_configuration_error", "407", said)
    assert shown(parent) == [(b"GET", False), (b"GET", True)] * 2


def test_what_a_parent_asks_for_that_is_not_digest(asking):
    challenge = b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
    parent, _, client = asking(answering(challenge))
    refused(
        client.exchange(ask("GET", 80)), 502, "parent-authentication", "proxy_configuration_error", "it offers basic, not Digest"
    )
    assert shown(parent) == [(b"GET", False)]


def test_the_origin_asks_too(routed, scripted_parent, raw_client):
    """Both challenges, one after the other, by one script that plays parent and origin."""
    outer, inner = digest(), Digest("kiosk", "hunter2", algorithm="SHA-256")

    def script(connection) -> None:
        while True:
            request = connection.read_request()
            for judge, status, names in [(outer, 407, outer.fields), (inner, 401, inner.fields)]:
                values = request.values(names[1])
                if not values:
                    connection.send(
                        f"HTTP/1.1 {status} Who\r\nConnection: keep-alive\r\n{names[0]}: {judge.challenge()}\r\n"
                        "Content-Length: 2\r\n\r\nno".encode()
                    )
                    break
                judge.judge(values[0], request.method, request.target if status == 407 else b"/")
            else:
                connection.send(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")

    parent = scripted_parent(script)
    inside = 'authorization = { scheme = "digest", username = "kiosk", password = "hunter2" }'
    proxy = routed(
        route("office", parent.via, CREDENTIALS), rules=rule("kept", by("office"), request=inside)
    )
    client = raw_client(proxy)
    for _ in range(2):
        client.send(ask("POST", 80, lines="Content-Length: 4\r\n") + b"body")
        assert client.answer().status == 200
    assert [message.body for message in parent.requests()] == [b"body"] * 4
    assert len(parent.connections) == 1


# CONNECT


@pytest.mark.parametrize("manner", [dict(), dict(closes=True), dict(chunked=True), dict(challenge_body=b"")])
def test_tunnels(asking, raw_client, manner):
    parent, proxy, client = asking(guarding(digest(), **manner))
    assert client.exchange(ask("CONNECT", 443)).status == 200
    other = raw_client(proxy)
    assert other.exchange(ask("CONNECT", 443)).status == 200
    assert shown(parent) == [(b"CONNECT", False), (b"CONNECT", True), (b"CONNECT", True)]


def test_a_tunnel_with_a_wrong_password(asking):
    parent, _, client = asking(guarding(digest("another")))
    said = "The digest credentials of its route were refused"
    refused(client.exchange(ask("CONNECT", 443)), 502, "parent-authentication", "proxy_configuration_error", said, "407")
    assert shown(parent) == [(b"CONNECT", False), (b"CONNECT", True)]


def test_a_parent_that_closes_after_all(asking):
    """It says that it keeps the connection, and does not."""
    judge = digest()

    def script(connection) -> None:
        request = connection.read_request()
        values = request.values("Proxy-Authorization")
        if not values:
            connection.send(
                f"HTTP/1.1 407 Who\r\nProxy-Authenticate: {judge.challenge()}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            connection.close()
            return
        connection.switch_protocol()
        connection.send(b"HTTP/1.1 200 Opened\r\n\r\n")
        connection.wait_for_end()

    parent, _, client = asking(script)
    assert client.exchange(ask("CONNECT", 443)).status == 200
    assert len(parent.connections) == 2


# Squid


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_squid(routed, real_parent, secure_parent, raw_client, raw_origin, secure_client, tls_origin, world, secure):
    squid = real_parent("digest squid")
    parent = secure_parent(world.leaf("office.test"), squid.port) if secure else squid
    origin, inside = raw_origin(answering(OK, OK, OK, OK, OK, OK)), tls_origin(
        answering(OK), world.context(world.leaf("a.test")), tunnelled=True
    )
    origin.pseudonym = b"squid.test"
    proxy = routed(route("office", parent.via, CREDENTIALS), "office", **ONE_LOOP)
    client = raw_client(proxy)
    for number in range(6):  # Squid lets a nonce count to four
        answer = client.exchange(ask("GET", origin.port, f"/{number}?x=y"))
        assert (answer.status, answer.body) == (200, b"ok")
    for _ in range(2):
        through = secure_client(proxy)
        assert through.tunnel("a.test", inside.port).status == 200
        through.close()
    assert not any(request.values("Proxy-Authorization") for request in origin.requests())
    if not secure:
        asked = [(m.method, bool(m.values("Proxy-Authorization"))) for m in squid.asked]
        assert asked[0] == (b"GET", False) and all(has for _, has in asked[1:]), asked


def test_squid_refuses_a_wrong_password(routed, real_parent, raw_client):
    squid = real_parent("digest squid")
    proxy = routed(route("office", squid.via, CREDENTIALS.replace(PASSWORD, "wrong")), "office")
    for method in ("GET", "CONNECT"):
        answer = raw_client(proxy).exchange(ask(method, 443))
        refused(answer, 502, "parent-authentication", "proxy_configuration_error", "were refused", "407")


def test_explain(tmp_path):
    file = tmp_path / "sallyport.toml"
    file.write_text(route("office", "http://p.test:3128", CREDENTIALS) + rule("a", by("office")))
    done = command("explain", "-c", file, "http://a.test/")
    assert "by http://p.test:3128; with credentials (digest)" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
