"""`authorization = { scheme = "digest" }`: the proxy answers the challenge of an origin, on every way to it."""

import json

import pytest

from digest_server import Digest, guarding
from parents import routed
from problems import check_problem
from proxy import command
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from tls_world import authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import SECRET, way

USER = "mufasa"
CREDENTIALS = 'authorization = { scheme = "digest", username = "mufasa", password = { env = "HIDDEN" } }'


def digest(**arguments) -> Digest:
    return Digest(USER, SECRET, **arguments)


def authorizations(started) -> list[bool]:
    return [bool(request.values("Authorization")) for request in started.requests]


def test_a_challenge_is_answered_and_the_nonce_remembered(way):
    started = way(guarding(digest()), request=CREDENTIALS)
    client = started.enter()
    for _ in range(3):
        answer = client.exchange(started.head("GET"))
        assert (answer.status, answer.body) == (200, b"ok")
    assert authorizations(started) == [False, True, True, True]
    used = [c for c in started.origin.connections if any(r.method != b"CONNECT" for r in c.requests)]
    # A parent that does not say that it keeps a connection is not taken to.
    assert len(used) == (4 if started.name in ("http parent", "https parent") else 1)


KINDS = [
    dict(algorithm=None, qop=None, opaque=None),
    dict(algorithm="MD5", qop="auth,auth-int"),
    dict(algorithm="MD5-sess"),
    dict(algorithm="SHA-256"),
    dict(algorithm="SHA-256-sess", qop="auth-int, auth"),
    dict(algorithm="SHA-512-256", userhash=True, utf8=True),
    dict(algorithm="SHA-256", realm='a "quoted" \\ realm'),
    dict(algorithm="MD5", names_next=True, lasts=1),
]


@pytest.fixture
def guarded(sallyport, raw_origin, raw_client):
    """A function that starts an origin that asks, and a proxy that answers; a client of it."""

    def start(script, request: str = CREDENTIALS, proxy: str = ""):
        origin = raw_origin(script)
        policy = rule("kept", request=request)
        started = sallyport(policy=policy, proxy=proxy, environment={"HIDDEN": SECRET})
        started.secrets.append(SECRET)
        return origin, started, raw_client(started)

    return start


def ask(origin, client, method: str = "GET", lines: str = "", body: bytes = b"", path: str = "/x?a=1"):
    head = f"{method} {origin.url}{path} HTTP/1.1\r\nHost: {origin.authority}\r\n{lines}"
    if body and "chunked" not in lines:
        head += f"Content-Length: {len(body)}\r\n"
    return client.exchange(head.encode() + b"\r\n" + body)


def shown(origin) -> list[bool]:
    return [bool(request.values("Authorization")) for request in origin.requests()]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def test_kinds_of_challenges(guarded, kind):
    origin, _, client = guarded(guarding(digest(**kind)))
    for _ in range(3):
        answer = ask(origin, client)
        assert answer.status == 200
        assert not answer.values("Authentication-Info"), "what helps to guess the password"
    assert shown(origin) == [False, True, True, True]


def test_the_strongest_challenge_is_answered(guarded):
    also = ['Digest realm="r", nonce="n", algorithm=MD5, qop="auth", Basic realm="b"', "Negotiate"]
    origin, _, client = guarded(guarding(digest(algorithm="SHA-256"), also=also))
    assert ask(origin, client).status == 200
    assert shown(origin) == [False, True]


def test_the_name_of_a_user_beyond_ascii(guarded):
    user = "Jäsøn"
    request = CREDENTIALS.replace("mufasa", user)
    origin, _, client = guarded(guarding(Digest(user, SECRET, algorithm="SHA-256", utf8=True)), request)
    assert ask(origin, client).status == 200


def test_a_nonce_that_has_gone_stale(guarded):
    origin, _, client = guarded(guarding(digest(lasts=2)))
    assert [ask(origin, client).status for _ in range(5)] == [200] * 5
    assert shown(origin) == [False, True, True, True, True, True, True, True]


@pytest.mark.parametrize("manner", [dict(chunked=True), dict(closes=True), dict(challenge_body=b"x" * 200_000), dict(challenge_body=b"")])
def test_the_content_of_a_challenge(guarded, manner):
    origin, _, client = guarded(guarding(digest(), **manner))
    assert ask(origin, client).body == b"ok"
    assert ask(origin, client, "HEAD").status == 200
    keeps = not manner.get("closes") and len(manner.get("challenge_body", b"")) < 65536
    assert len(origin.connections) == (1 if keeps else 2)


def test_a_wrong_password_is_tried_once(guarded):
    origin, _, client = guarded(guarding(Digest(USER, "another")))
    for _ in range(2):
        answer = ask(origin, client)
        assert (answer.status, answer.body) == (401, b"who are you?")
        assert b"the rule's digest credentials were refused" in answer.values("Proxy-Status")[0]
    assert shown(origin) == [False, True, False, True]


@pytest.mark.parametrize(
    "challenge, seen",
    [
        ('Basic realm="b"', b"it offers basic, not Digest"),
        ('Digest realm="r", nonce="n", qop="auth-int"', b"qop=auth-int alone"),
        ('Digest realm="r", nonce="n", algorithm=SHA-3, qop="auth"', b"algorithm 'SHA-3' is not known"),
        ('Digest realm="r"', b"no nonce"),
    ],
)
def test_a_challenge_that_cannot_be_answered_passes(guarded, challenge, seen):
    def script(connection) -> None:
        while True:
            connection.read_request()
            connection.send(f"HTTP/1.1 401 Who\r\nWWW-Authenticate: {challenge}\r\nContent-Length: 2\r\n\r\nno".encode())

    origin, _, client = guarded(script)
    answer = ask(origin, client)
    assert (answer.status, answer.body) == (401, b"no")
    assert seen in answer.values("Proxy-Status")[0]
    assert shown(origin) == [False]


BODIES = [
    ("Content-Type: a/b\r\n", b"0123456789" * 10_000),
    ("Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 7\r\n\r\n"),
    ("Expect: 100-continue\r\n", b"expected"),
]


@pytest.mark.parametrize("lines, body", BODIES)
def test_a_body_is_sent_again(way, lines, body):
    started = way(guarding(digest()), request=CREDENTIALS)
    client = started.enter()
    length = "" if "chunked" in lines else f"Content-Length: {len(body)}\r\n"
    client.send(started.head("POST", lines + length) + body)
    assert client.answer().status == 200
    first, second = started.requests
    wanted = b"hello world" if "chunked" in lines else body
    assert first.body == second.body == wanted
    assert first.values("Content-Type") == second.values("Content-Type")


def test_a_body_that_a_serializer_makes_is_sent_again(guarded):
    request = CREDENTIALS + '\nserializer = "json"\nparameters = { a = 1 }'
    origin, _, client = guarded(guarding(digest()), request)
    assert ask(origin, client, "POST", "Content-Type: application/json\r\n", b'{"b": 2}').status == 200
    assert [json.loads(request.body) for request in origin.requests()] == [{"a": 1, "b": 2}] * 2


SMALL = '[proxy.limits]\nbuffered_body = "4KiB"'


def waiting_for_the_body(digest: Digest, continues: bool):
    """Reads no body before it has looked at the credentials, where it is told that one waits."""

    def script(connection) -> None:
        while True:
            request = connection.read_head()
            values = request.values("Authorization")
            if not values:
                if request.values("Expect") and not continues:
                    connection.send(f"HTTP/1.1 401 Who\r\nWWW-Authenticate: {digest.challenge()}\r\nContent-Length: 0\r\n\r\n".encode())
                    connection.wait_for_end()
                    return
                if request.values("Expect"):
                    connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
                connection.read_body()
                connection.send(f"HTTP/1.1 401 Who\r\nWWW-Authenticate: {digest.challenge()}\r\nContent-Length: 0\r\n\r\n".encode())
                continue
            digest.judge(values[0], request.method, request.target)
            if request.values("Expect"):
                connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.read_body()
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    return script


@pytest.mark.parametrize("lines", ["", "Expect: 100-continue\r\n"])
def test_a_body_that_is_too_long_to_be_held_waits_for_the_origin(guarded, lines):
    origin, _, client = guarded(waiting_for_the_body(digest(), continues=False), proxy=SMALL)
    body = b"x" * 100_000
    head = f"PUT {origin.url}/x HTTP/1.1\r\nHost: {origin.authority}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    client.send(head.encode())
    if lines:
        while b"100 Continue" not in client.received:
            assert client.receive_some()
    client.send(body)
    answer = client.answer()
    while answer.status < 200:
        answer = client.answer()
    assert answer.status == 200
    first, second = origin.requests()
    assert first.values("Expect") == [b"100-continue"] and second.body == body


def test_a_body_that_has_left_is_not_kept(guarded):
    """The origin bade the proxy to go on and challenges afterwards: the client is told, and its next request is right."""
    origin, _, client = guarded(waiting_for_the_body(digest(), continues=True), proxy=SMALL)
    body = b"x" * 100_000
    answer = ask(origin, client, "PUT", body=body)
    assert answer.status == 401
    assert b"is longer than buffered_body" in answer.values("Proxy-Status")[0]
    assert ask(origin, client, "PUT", body=body).status == 200
    assert shown(origin) == [False, True]


def test_an_origin_that_knows_no_expectation(guarded):
    def deaf(connection) -> None:
        connection.read_head()
        connection.read_body()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        connection.wait_for_end()

    origin, _, client = guarded(deaf, proxy=SMALL)
    assert ask(origin, client, "PUT", body=b"x" * 100_000).status == 200


def test_what_the_client_sends_is_replaced(guarded):
    origin, _, client = guarded(guarding(digest()))
    for _ in range(2):
        assert ask(origin, client, lines="Authorization: Basic bWluZTptaW5l\r\n").status == 200
    for request in origin.requests():
        assert all(value.startswith(b"Digest ") for value in request.values("Authorization"))


def test_echoes_are_refused(guarded):
    origin, _, client = guarded(guarding(digest()))
    check_problem(ask(origin, client, "TRACE"), 405)
    assert not origin.connections


def test_nothing_goes_to_another_host(sallyport, raw_origin, raw_client):
    one, other = raw_origin(guarding(digest())), raw_origin(guarding(digest()))
    proxy = sallyport(policy=rule("kept", request=CREDENTIALS), environment={"HIDDEN": SECRET})
    client = raw_client(proxy)
    assert ask(one, client).status == ask(other, client).status == 200
    assert shown(other) == [False, True]


def test_explain_and_check(tmp_path):
    file = tmp_path / "sallyport.toml"
    password = tmp_path / "password"
    password.write_text(SECRET)
    text = CREDENTIALS.replace('env = "HIDDEN"', f'file = "{password}"')
    file.write_text(rule("kept", 'hosts = ["a.test"]', request=text))
    done = command("explain", "-c", file, "http://a.test/")
    assert "authorization: digest, where the origin asks for it" in done.stdout
    assert SECRET not in done.stdout + done.stderr and USER not in done.stdout
    said = json.loads(command("explain", "--json", "-c", file, "http://a.test/").stdout)
    assert said["actions"]["authorization"] == "digest"
    checked = command("check", "-c", file)
    assert "from which a weak password can be guessed" in checked.stdout + checked.stderr
