"""Requests that the proxy itself takes into TLS: `GET https://…` and `upgrade = true`, whom it trusts, and what it keeps.

The table of policies and chains is in test_pins.py. Here: what the origin sees, trust and names, versions and ciphers,
client certificates, pools and sessions, revocation, and an origin that breaks the protocol.
"""

import hashlib
import os
import ssl
import subprocess
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from conftest import need
from journal import DEADLINE_SECONDS
from origins import answering, echoing, unused_port, wait_until_it_listens
from problems import Problem, check_problem
from proxy import clean_environment, command, configuration_text
from raw_client import Ended
from tls_world import (
    DAY,
    NOW,
    OK,
    ChainServer,
    Identity,
    Site,
    TricklingSocket,
    answering_and_closing,
    certify,
    chain_pem,
    get,
    rule,
    secure_proxy,
    tls_origin,
    world,
)

LARGE = hashlib.shake_128(b"ten mebibytes").digest(10 * 1024 * 1024)
TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture
def origin(tls_origin, world):
    """A function that starts an origin with a good certificate for these names."""

    def start(script=answering(OK), names: tuple[str, ...] = ("a.test",), **arguments):
        knobs = {key: arguments.pop(key) for key in list(arguments) if key in CONTEXT_KNOBS}
        return tls_origin(script, world.context(world.leaf(*names), **knobs), **arguments)

    return start


CONTEXT_KNOBS = ("minimum", "maximum", "alpn", "client_authority", "client_needed", "ciphers")


def refused(answer, token: str, nsurl_error: int, **arguments) -> Problem:
    """A certificate that was not accepted, said in every way that it must be."""
    problem = check_problem(answer, 502, error="tls_certificate_error", **arguments)
    assert (problem.token, problem.body["nsurlError"]) == (token, nsurl_error), problem
    return problem


# The request


def test_an_https_request_in_absolute_form_is_sent_over_tls(origin, secure_proxy, raw_client):
    proxy, server = secure_proxy(), origin(alpn=("http/1.1",))
    client = raw_client(proxy)
    answer = client.exchange(get("a.test", server.port, "/path?query=1", "X-Mine: yes\r\n"))
    assert (answer.status, answer.body) == (200, b"ok")
    (request,) = server.requests()
    assert (request.method, request.target) == (b"GET", b"/path?query=1")
    assert request.value("Host") == f"a.test:{server.port}".encode()
    assert request.value("X-Mine") == b"yes"
    (handshake,) = server.handshakes
    assert handshake.server_name == "a.test"
    assert handshake.hello.alpn == ("h2", "http/1.1")
    assert (handshake.alpn, handshake.version) == ("http/1.1", "TLSv1.3")
    assert set(handshake.hello.versions) == {0x0304, 0x0303}
    line = proxy.access(lambda line: line["status"] == 200)
    assert line["target"] == f"https://a.test:{server.port}/path"
    assert (line["method"], line["upstream"]) == ("GET", f"127.0.0.1:{server.port}")
    assert line["tls_ms"] is not None and line["assurance"] == "exact" and line["outcome"] == "done"


def test_a_head_that_comes_byte_by_byte(origin, secure_proxy, raw_client):
    server = origin()
    client = raw_client(secure_proxy())
    client.send_bytewise(get("a.test", server.port).replace(b"https:", b"HTTPS:"))
    assert client.answer().body == b"ok"


@pytest.mark.own_network
def test_port_443_is_understood_and_is_not_named_in_host(origin, secure_proxy, raw_client):
    server = origin(port=443)
    answer = raw_client(secure_proxy()).exchange(b"GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert answer.body == b"ok"
    assert server.requests()[0].value("Host") == b"a.test"


def test_busybox_wget_fetches_an_https_url(origin, secure_proxy):
    """It sends `GET https://…` to its proxy, and the proxy is all that it relies on for trust."""
    need("busybox")
    proxy, server = secure_proxy(), origin(answering_and_closing())
    url = f"https://a.test:{server.port}/file"
    done = subprocess.run(
        ["busybox", "wget", "-q", "-O", "-", url],
        capture_output=True,
        env=clean_environment(http_proxy=proxy.url, https_proxy=proxy.url),
        timeout=DEADLINE_SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, b"ok"), done.stderr
    line = proxy.access(lambda line: line["status"] == 200)
    assert (line["method"], line["target"]) == ("GET", url), "it did not ask in absolute form"


def test_busybox_wget_shows_why_a_certificate_is_refused(origin, secure_proxy):
    need("busybox")
    proxy, server = secure_proxy(trusted=""), origin()
    done = subprocess.run(
        ["busybox", "wget", "-O", "-", f"https://a.test:{server.port}/"],
        capture_output=True,
        env=clean_environment(http_proxy=proxy.url, https_proxy=proxy.url),
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode != 0 and b"502 certificate-untrusted" in done.stderr, done.stderr


@pytest.mark.own_network
def test_upgrade_sends_http_over_tls_and_port_80_becomes_443(origin, secure_proxy, raw_client):
    proxy, server = secure_proxy(rule("up", 'hosts = ["a.test"]', "upgrade = true")), origin(port=443)
    answer = raw_client(proxy).exchange(b"GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert answer.body == b"ok"
    (request,) = server.requests()
    assert (request.target, request.value("Host")) == (b"/x", b"a.test")
    assert server.handshakes[0].server_name == "a.test"
    assert proxy.access(lambda line: line["status"] == 200)["rule"] == "up"


def test_upgrade_keeps_any_other_port(origin, secure_proxy, raw_client):
    proxy, server = secure_proxy(rule("up", "upgrade = true")), origin()
    assert raw_client(proxy).exchange(get("a.test", server.port, scheme="http")).body == b"ok"
    assert server.requests()[0].value("Host") == f"a.test:{server.port}".encode()


def test_upgrade_never_falls_back_to_plain_http(secure_proxy, raw_origin, raw_client):
    plain = raw_origin(echoing_the_first_bytes)
    answer = raw_client(secure_proxy(rule("up", "upgrade = true"))).exchange(
        get("a.test", plain.port, "/secret", scheme="http")
    )
    check_problem(answer, 502, rule="up")
    assert all(data.startswith(b"\x16\x03") for data in first_bytes(plain)), first_bytes(plain)


def test_upgrade_is_of_its_rule_only(origin, secure_proxy, raw_origin, raw_client):
    proxy = secure_proxy(rule("up", 'hosts = ["a.test"]', 'paths = ["/up/*"]', "upgrade = true"))
    plain = raw_origin(answering(OK))
    assert raw_client(proxy).exchange(get("a.test", plain.port, "/down", scheme="http")).body == b"ok"
    assert plain.requests()[0].target == b"/down"


def echoing_the_first_bytes(connection) -> None:
    """Whatever comes is answered in plain HTTP."""
    connection.switch_protocol()
    if connection.receive_some():
        connection.send(OK)


def first_bytes(origin) -> list[bytes]:
    return [bytes(connection.received) for connection in origin.connections if connection.received]


def test_an_https_request_never_rides_on_a_plain_connection_of_the_same_port(
    secure_proxy, raw_origin, raw_client
):
    def script(connection) -> None:
        if connection.number == 0:
            answering(OK)(connection)
        else:
            echoing_the_first_bytes(connection)

    proxy, plain = secure_proxy(proxy="workers = 1"), raw_origin(script)
    client = raw_client(proxy)
    assert client.exchange(get("a.test", plain.port, "/in-the-clear", scheme="http")).body == b"ok"
    check_problem(client.exchange(get("a.test", plain.port, "/secret")), 502)
    assert [request.target for request in plain.requests()] == [b"/in-the-clear"]
    assert plain.connections[1].received.startswith(b"\x16\x03")


def test_a_plain_request_never_rides_on_a_secure_connection(origin, secure_proxy, raw_client):
    proxy, server = secure_proxy(proxy="workers = 1"), origin()
    client = raw_client(proxy)
    assert client.exchange(get("a.test", server.port)).body == b"ok"
    client.exchange(get("a.test", server.port, "/plain", scheme="http"))
    assert [request.target for request in server.requests()] == [b"/"]


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_large_bodies_both_ways(framing, origin, secure_proxy, raw_client):
    proxy, server = secure_proxy(), origin(echoing)
    client = raw_client(proxy)
    if framing == "length":
        body = LARGE
        lines = f"Content-Length: {len(body)}\r\n"
    else:
        chunks = [LARGE[at : at + 50_021] for at in range(0, len(LARGE), 50_021)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        lines = "Transfer-Encoding: chunked\r\n"
    sender = threading.Thread(
        target=client.send, args=(get("a.test", server.port, "/", lines, method="POST") + body,)
    )
    sender.start()
    answer = client.answer()
    sender.join()
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(LARGE).digest()
    assert hashlib.sha256(server.requests()[0].body).digest() == hashlib.sha256(LARGE).digest()
    line = proxy.access(lambda line: line["status"] == 200)
    assert line["bytes_in"] > len(LARGE) and line["bytes_out"] > len(LARGE)


def test_a_large_answer_that_is_read_slowly(origin, secure_proxy, raw_client):
    """The proxy must not hold what the client does not take."""
    proxy = secure_proxy()
    before = proxy.private_bytes()
    served = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (8 * len(LARGE)))
        for _ in range(8):
            connection.send(LARGE)
            served.set()
        connection.wait_for_end()

    client = raw_client(proxy, receive_buffer=4096)
    client.send(get("a.test", origin(script).port))
    client.receive_until(b"\r\n\r\n")
    assert not served.wait(0.5), "ten mebibytes went into a client that reads nothing"
    if "SALLYPORT_SANITIZED" not in os.environ:
        assert proxy.private_bytes() - before < 4 * 1024 * 1024
    client.looked_at = False


def test_interim_answers_trailers_and_answers_without_a_body(origin, secure_proxy, raw_client):
    server = origin(
        answering(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
            OK,
        )
    )
    client = raw_client(secure_proxy(proxy="workers = 1"))
    client.send(get("a.test", server.port))
    assert client.message().status == 103
    answer = client.answer()
    assert (answer.body, answer.trailers) == (b"ok", [(b"X-Sum", b"1")])
    assert client.exchange(get("a.test", server.port, method="HEAD")).value("Content-Length") == b"5"
    assert client.exchange(get("a.test", server.port)).status == 204
    assert client.exchange(get("a.test", server.port)).status == 304
    assert client.exchange(get("a.test", server.port)).body == b"ok"
    assert len(server.connections) == 1


def test_expect_100_continue(origin, secure_proxy, raw_client):
    def script(connection) -> None:
        connection.read_head()
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = connection.read_body().body
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    client, server = raw_client(secure_proxy()), origin(script)
    lines = "Content-Length: 5\r\nExpect: 100-continue\r\n"
    client.send(get("a.test", server.port, "/", lines, method="PUT"))
    assert client.message().status == 100
    client.send(b"sally")
    assert client.answer().body == b"sally"


def test_pipelined_requests_are_answered_in_order(origin, secure_proxy, raw_client):
    def script(connection) -> None:
        while True:
            target = connection.read_request().target
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target))

    client, server = raw_client(secure_proxy()), origin(script)
    client.send(b"".join(get("a.test", server.port, f"/{number}") for number in range(5)))
    assert [client.answer().body for _ in range(5)] == [b"/%d" % number for number in range(5)]


def test_another_protocol_over_tls(origin, secure_proxy, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.switch_protocol()
        connection.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
        while connection.receive_some():
            connection.send(bytes(connection.received[connection.read_to :]))
            connection.read_to = len(connection.received)

    client, server = raw_client(secure_proxy()), origin(script)
    lines = "Connection: Upgrade\r\nUpgrade: echo\r\n"
    assert client.exchange(get("a.test", server.port, "/", lines)).status == 101
    for size in (1, 17_000, 500_000):
        sender = threading.Thread(target=client.send, args=(LARGE[:size],))
        sender.start()
        assert client.receive_exactly(size) == LARGE[:size]
        sender.join()


def test_what_a_rule_says_holds_for_https_requests(origin, secure_proxy, raw_client):
    policy = (
        rule("no", 'hosts = ["a.test"]', 'schemes = ["https"]', 'paths = ["/no/*"]', 'action = "deny"')
        + rule("edit", 'hosts = ["a.test"]', request='headers.set = { X-Client = "kiosk-7" }')
        + rule("plain", 'hosts = ["b.test"]', 'schemes = ["http"]', 'action = "deny"')
    )
    client, server = raw_client(secure_proxy(policy)), origin(names=("a.test", "b.test"))
    check_problem(client.exchange(get("a.test", server.port, "/no/way")), 403, rule="no")
    assert not server.connections
    assert client.exchange(get("a.test", server.port)).body == b"ok"
    assert server.requests()[0].value("X-Client") == b"kiosk-7"
    assert client.exchange(get("b.test", server.port)).body == b"ok"


# Trust


def test_a_private_authority_is_refused_by_default(origin, secure_proxy, raw_client):
    """Without [trust] the machine's own anchors count, and the root of the test is not one of them."""
    proxy, server = secure_proxy(trusted=""), origin()
    client = raw_client(proxy)
    problem = refused(client.exchange(get("a.test", server.port, "/secret")), "certificate-untrusted", -1202)
    assert "a.test" in problem.details and "Issuing of the test" in problem.body["detail"]
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["outcome"], line["assurance"]) == (502, "certificate-untrusted", None)
    assert not server.handshakes and not server.bytes_of_requests()
    assert "/secret" not in str(server.failed_handshakes)
    refused(client.exchange(get("a.test", server.port)), "certificate-untrusted", -1202)


@pytest.mark.parametrize("kind", ["file", "bundle", "directory"])
@pytest.mark.parametrize("where", ["[trust]", "[rule.security]"])
def test_anchors_of_every_kind(where, kind, origin, secure_proxy, raw_client, world, tmp_path):
    if kind == "directory":
        (tmp_path / "one.pem").write_bytes(world.private.pem)
        (tmp_path / "two.pem").write_bytes(world.root.pem)
        path = tmp_path
    else:
        path = tmp_path / "anchors.pem"
        path.write_bytes((world.private.pem if kind == "bundle" else b"") + world.root.pem)
    anchors = f'anchors = "{path}"'
    if where == "[trust]":
        proxy = secure_proxy(trusted=f"[trust]\n{anchors}\n")
    else:
        proxy = secure_proxy(rule("anchored", security=anchors), trusted="")
    assert raw_client(proxy).exchange(get("a.test", origin().port)).body == b"ok"


def test_anchors_of_a_rule_stand_instead_of_the_others(tls_origin, secure_proxy, raw_client, world):
    proxy = secure_proxy(rule("private", 'hosts = ["p.test"]', security=f'anchors = "{world.private_file}"'))
    names = ("a.test", "p.test")
    trusted = tls_origin(answering(OK), world.context(world.leaf(*names)))
    private = tls_origin(answering(OK), world.context(world.leaf(*names, issuer=world.private_issuing)))
    client = raw_client(proxy)
    assert client.exchange(get("a.test", trusted.port)).body == b"ok"
    assert client.exchange(get("p.test", private.port)).body == b"ok"
    refused(client.exchange(get("p.test", trusted.port)), "certificate-untrusted", -1202, rule="private")
    refused(client.exchange(get("a.test", private.port)), "certificate-untrusted", -1202)


def test_an_intermediate_as_the_anchor_of_a_rule(origin, secure_proxy, raw_client, world):
    """Partial chains are for what an operator gave: here the issuing authority, without the root."""
    proxy = secure_proxy(rule("partial", security=f'anchors = "{world.file(world.issuing.pem)}"'), trusted="")
    assert raw_client(proxy).exchange(get("a.test", origin().port)).body == b"ok"


REFUSALS = {
    "expired": (lambda world: [world.leaf("a.test", ends=NOW - DAY / 2)], "certificate-expired", -1201),
    "not yet valid": (
        lambda world: [world.leaf("a.test", starts=NOW + DAY)],
        "certificate-not-yet-valid",
        -1204,
    ),
    "for another name": (lambda world: [world.leaf("b.test")], "certificate-name-mismatch", -1202),
    "for no name": (
        lambda world: [certify("a.test", issuer=world.issuing)],
        "certificate-name-mismatch",
        -1202,
    ),
    "signed by itself": (
        lambda world: [certify("a.test", names=("a.test",))],
        "certificate-untrusted",
        -1202,
    ),
    "without its intermediate": (
        lambda world: [world.leaf("a.test"), world.root],
        "certificate-untrusted",
        -1202,
    ),
    "for clients": (
        lambda world: [world.leaf("a.test", purpose=ExtendedKeyUsageOID.CLIENT_AUTH)],
        "certificate-untrusted",
        -1202,
    ),
    "weakly signed": (lambda world: [world.weakly_signed("a.test")], "certificate-untrusted", -1202),
}


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("name", REFUSALS)
def test_a_certificate_that_is_refused(name, version, tls_origin, secure_proxy, raw_client, world):
    make, token, nsurl_error = REFUSALS[name]
    chain = make(world)
    server = tls_origin(answering(OK), world.context(*chain, minimum=version, maximum=version))
    proxy = secure_proxy()
    problem = refused(raw_client(proxy).exchange(get("a.test", server.port)), token, nsurl_error)
    assert "a.test" in problem.body["detail"]
    assert proxy.access_of(problem.reference)["outcome"] == token
    assert not server.bytes_of_requests()


NAMES = {
    "itself": ("a.test", ("a.test",), True),
    "itself in capitals": ("A.TeST", ("a.test",), True),
    "a certificate in capitals": ("a.test", ("A.TEST",), True),
    "one of many": ("a.test", tuple(f"n{number}.test" for number in range(50)) + ("a.test",), True),
    "one label for a star": ("x.a.test", ("*.a.test",), True),
    "no label for a star": ("a.test", ("*.a.test",), False),
    "two labels for a star": ("y.x.a.test", ("*.a.test",), False),
    "part of a label for a star": ("foo.a.test", ("f*.a.test",), False),
    "a star that is not the first label": ("x.a.test", ("x.*.test",), False),
    "two stars": ("x.a.test", ("*.*.test",), False),
    "a star before a top level": ("a.test", ("*.test",), False),
    "a star alone": ("test", ("*",), False),
    "a longer name": ("evil-a.test", ("a.test",), False),
    "a name below it": ("x.a.test", ("a.test",), False),
    "a dot at its end": ("a.test.", ("a.test",), True),
    "a name that begins with a dot": ("x.a.test", (".a.test",), False),
    "an address": ("127.0.0.1", ("127.0.0.1",), True),
    "another address": ("127.0.0.1", ("127.0.0.2",), False),
    "a name for an address": ("127.0.0.1", ("a.test",), False),
    "an address of version 6": ("[::1]", ("::1",), True),
    "an address of version 6, spelt out": ("[0:0:0:0:0:0:0:1]", ("::1",), True),
}


def test_names_are_compared_as_rfc_9525_says(tls_origin, secure_proxy, raw_client, world):
    """All rows with one proxy; the origins listen on both loopback addresses."""
    proxy = secure_proxy()
    wrong = []
    for row, (host, names, accepted) in NAMES.items():
        address = "::1" if host.startswith("[") else "127.0.0.1"
        server = tls_origin(answering_and_closing(), world.context(world.leaf(*names)), address=address)
        answer = raw_client(proxy).exchange(get(host, server.port))
        if not accepted:
            refused(answer, "certificate-name-mismatch", -1202)
        elif answer.status != 200:
            wrong.append((row, answer.reason))
        sent = server.handshakes[0].server_name if server.handshakes else None
        if accepted and sent != (host.lower().rstrip(".") if host[-1] in "tT." else None):
            wrong.append((row, f"the server name was {sent}"))
    assert not wrong


def test_an_address_written_as_a_dns_name_is_no_address(tls_origin, secure_proxy, raw_client, world):
    leaf = openssl_leaf_with_dns_name(world, "127.0.0.1")
    server = tls_origin(answering(OK), world.context(leaf))
    answer = raw_client(secure_proxy()).exchange(get("127.0.0.1", server.port))
    refused(answer, "certificate-name-mismatch", -1202)


def openssl_leaf_with_dns_name(world, name: str) -> Identity:
    made = certify("Leaf", issuer=world.issuing)
    builder = x509.CertificateBuilder(
        issuer_name=made.certificate.issuer,
        subject_name=made.certificate.subject,
        public_key=made.key.public_key(),
        serial_number=made.certificate.serial_number,
        not_valid_before=NOW - DAY,
        not_valid_after=NOW + DAY,
        extensions=list(made.certificate.extensions),
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return Identity(builder.sign(world.issuing.key, hashes.SHA256()), made.key, world.issuing)


# Versions, ciphers, server_name


@pytest.mark.parametrize(
    ("security", "origin_speaks", "spoken"),
    [
        ("", (TLS12, TLS13), "TLSv1.3"),
        ("", (TLS12, TLS12), "TLSv1.2"),
        ('max_tls = "1.2"', (TLS12, TLS13), "TLSv1.2"),
        ('max_tls = "1.2"', (TLS13, TLS13), None),
        ('min_tls = "1.3"', (TLS12, TLS12), None),
        ('min_tls = "1.3"', (TLS12, TLS13), "TLSv1.3"),
        ("", (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_1), None),
        ("", (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1), None),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_versions(security, origin_speaks, spoken, origin, secure_proxy, raw_client):
    minimum, maximum = origin_speaks
    server = origin(minimum=minimum, maximum=maximum)
    answer = raw_client(secure_proxy(rule("r", security=security))).exchange(get("a.test", server.port))
    if spoken:
        assert (answer.status, server.handshakes[0].version) == (200, spoken)
    else:
        problem = check_problem(answer, 502, rule="r")
        assert problem.error in ("tls_protocol_error", "tls_alert_received")
        assert not server.handshakes


def test_ciphers(origin, secure_proxy, raw_client):
    policy = rule("r", security='max_tls = "1.2"\nciphers = "ECDHE-ECDSA-CHACHA20-POLY1305"')
    proxy, server = secure_proxy(policy), origin()
    client = raw_client(proxy)
    assert client.exchange(get("a.test", server.port)).body == b"ok"
    assert server.handshakes[0].cipher == "ECDHE-ECDSA-CHACHA20-POLY1305"
    assert set(server.handshakes[0].hello.ciphers) <= {0xCCA9, 0x00FF}
    other = origin(ciphers="ECDHE-ECDSA-AES256-GCM-SHA384")
    problem = check_problem(client.exchange(get("a.test", other.port)), 502, rule="r")
    assert problem.error in ("tls_protocol_error", "tls_alert_received")


def test_server_name_is_sent_and_verified_instead_of_the_host(tls_origin, secure_proxy, raw_client, world):
    policy = rule("r", 'hosts = ["a.test"]', security='server_name = "inner.test"')
    proxy = secure_proxy(policy)
    inner = tls_origin(answering(OK), world.context(world.leaf("inner.test")))
    outer = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    client = raw_client(proxy)
    assert client.exchange(get("a.test", inner.port)).body == b"ok"
    assert inner.handshakes[0].server_name == "inner.test"
    assert inner.requests()[0].value("Host") == f"a.test:{inner.port}".encode()
    refused(client.exchange(get("a.test", outer.port)), "certificate-name-mismatch", -1202)


def test_server_name_of_a_host_that_is_an_address(origin, secure_proxy, raw_client):
    policy = rule("r", 'hosts = ["127.0.0.1"]', security='server_name = "a.test"')
    server = origin()
    assert raw_client(secure_proxy(policy)).exchange(get("127.0.0.1", server.port)).body == b"ok"
    assert server.handshakes[0].server_name == "a.test"


# Client certificates


@pytest.fixture(scope="module")
def kiosk(world) -> Identity:
    """A client certificate of the private authority."""
    return world.leaf("kiosk", issuer=world.private_issuing, purpose=ExtendedKeyUsageOID.CLIENT_AUTH)


def shows(world, kiosk, key: str = "") -> str:
    certificate = world.file(chain_pem([kiosk, world.private_issuing]))
    key = key or f'{{ file = "{world.file(kiosk.key_pem)}" }}'
    return f'client_certificate = {{ certificate = "{certificate}", key = {key} }}'


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("source", ["file", "credential"])
def test_a_client_certificate_is_shown_to_an_origin_that_asks(
    source, version, origin, secure_proxy, raw_client, world, kiosk, tmp_path
):
    (tmp_path / "client-key").write_bytes(kiosk.key_pem)
    key = "" if source == "file" else '{ credential = "client-key" }'
    policy = rule("r", 'hosts = ["a.test"]', security=shows(world, kiosk, key))
    proxy = secure_proxy(policy, environment={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    server = origin(client_authority=world.private, maximum=version)
    assert raw_client(proxy).exchange(get("a.test", server.port)).body == b"ok"
    assert server.handshakes[0].client_certificate == kiosk.der


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_client_certificate_is_of_its_rule_only(version, origin, secure_proxy, raw_client, world, kiosk):
    """Also not by a pooled connection or a session that the rule with the certificate opened."""
    policy = rule("r", 'paths = ["/mine/*"]', security=shows(world, kiosk))
    proxy = secure_proxy(policy, proxy="workers = 1")
    server = origin(client_authority=world.private, client_needed=False, maximum=version)
    client = raw_client(proxy)
    assert client.exchange(get("a.test", server.port, "/mine/x")).body == b"ok"
    assert client.exchange(get("a.test", server.port, "/other")).body == b"ok"
    shown = {
        connection.requests[0].target: server.handshakes[connection.number].client_certificate
        for connection in server.connections
    }
    assert shown == {b"/mine/x": kiosk.der, b"/other": None}
    assert not any(handshake.resumed for handshake in server.handshakes)


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_client_certificate_is_not_shown_to_an_origin_that_is_refused(
    version, tls_origin, secure_proxy, raw_client, world, kiosk
):
    """A server asks for the certificate in its first flight; who it belongs to must not leave before it is trusted."""
    context = world.context(
        world.leaf("a.test", issuer=world.private_issuing), client_authority=world.private, maximum=version
    )
    server = tls_origin(answering(OK), context)
    answer = raw_client(secure_proxy(rule("r", security=shows(world, kiosk)))).exchange(
        get("a.test", server.port)
    )
    refused(answer, "certificate-untrusted", -1202, rule="r")
    server.wait_for("handshake failed")
    received = bytes(server.connections[0].socket.raw_received)
    assert kiosk.der not in received
    assert "alert" in server.failed_handshakes[0][1].lower(), "the client ended the handshake otherwise"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_an_origin_that_wants_a_client_certificate_and_gets_none(
    version, origin, secure_proxy, raw_client, world
):
    """Under TLS 1.3 its alert comes when the handshake is over for the client (RFC 8446 §4.4.2.4)."""
    server = origin(client_authority=world.private, maximum=version)
    problem = check_problem(raw_client(secure_proxy()).exchange(get("a.test", server.port)), 502)
    assert problem.error == "tls_alert_received", problem


# Pools


def test_requests_share_a_connection(origin, secure_proxy, raw_client):
    proxy, server = secure_proxy(proxy="workers = 1"), origin()
    for path in ("/1", "/2", "/3"):
        assert raw_client(proxy).exchange(get("a.test", server.port, path)).body == b"ok"
    assert len(server.connections) == 1
    assert proxy.access(lambda line: line["target"].endswith("/3"))["reused"] is True


@pytest.mark.parametrize("idle", ["closed", "reset", "said close_notify"])
def test_a_pooled_connection_that_the_origin_ended_is_no_error(
    idle, tls_origin, secure_proxy, raw_client, world
):
    answered = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        connection.send(OK)
        if connection.number > 0:
            connection.wait_for_end()
        elif idle == "reset":
            answered.wait(DEADLINE_SECONDS)
            connection.socket.reset()
        elif idle == "said close_notify":
            answered.wait(DEADLINE_SECONDS)
            connection.socket.send_close_notify()
            server.note("done", 0)
            connection.wait_for_end()

    proxy = secure_proxy(proxy="workers = 1")
    server = tls_origin(script, world.context(world.leaf("a.test")))
    client = raw_client(proxy)
    assert client.exchange(get("a.test", server.port, "/1")).body == b"ok"
    answered.set()
    server.wait_for("done", 0)
    assert client.exchange(get("a.test", server.port, "/2")).body == b"ok"


PINNED_PATHS = """
[[rule]]
name = "strict"
hosts = ["a.test"]
paths = ["/strict/*"]
[rule.security]
min_tls = "1.2"
{strict}
[[rule]]
name = "other"
hosts = ["a.test"]
paths = ["/other/*"]
[rule.security]
{other}
"""


def test_rules_of_two_security_policies_do_not_share_connections(origin, secure_proxy, raw_client):
    policy = PINNED_PATHS.format(strict='max_tls = "1.2"', other='max_tls = "1.3"')
    proxy, server = secure_proxy(policy, proxy="workers = 1"), origin()
    client = raw_client(proxy)
    for path in ("/strict/1", "/other/1", "/strict/2", "/other/2", "/neither"):
        assert client.exchange(get("a.test", server.port, path)).body == b"ok"
    served = [
        {request.target.split(b"/")[1] for request in connection.requests}
        for connection in server.connections
    ]
    assert {b"strict"} in served and all(len(rules - {b"neither"}) <= 1 for rules in served), served


def laxer(world) -> str:
    """Another policy that accepts the same origin: it does not ask for the name."""
    return "validates_domain_name = false"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_session_is_resumed_under_the_same_policy_and_under_no_other(
    version, origin, secure_proxy, raw_client, world
):
    policy = PINNED_PATHS.format(strict="", other=laxer(world))
    proxy = secure_proxy(policy, proxy="workers = 1")
    server = origin(answering_and_closing(), maximum=version)
    client = raw_client(proxy)
    paths = ["/other/1", "/strict/1", "/strict/2", "/other/2", "/strict/3"]
    for number, path in enumerate(paths):
        assert client.exchange(get("a.test", server.port, path)).body == b"ok"
        server.wait_for("done", number)
    resumed = [handshake.resumed for handshake in server.handshakes]
    assert resumed == [False, False, True, True, True]
    offered = [handshake.hello.ticket for handshake in server.handshakes]
    assert offered == [False, False, True, True, True], "a session of another policy was offered"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_resumed_session_is_of_the_same_host_only(version, origin, secure_proxy, raw_client):
    """The certificate covers both names, and still what was verified for one says nothing of the other."""
    server = origin(answering_and_closing(), names=("a.test", "b.test"), maximum=version)
    client = raw_client(secure_proxy(proxy="workers = 1"))
    for number, host in enumerate(("a.test", "b.test", "a.test", "b.test")):
        assert client.exchange(get(host, server.port)).body == b"ok"
        server.wait_for("done", number)
    assert [handshake.resumed for handshake in server.handshakes] == [False, False, True, True]


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("kept", [True, False], ids=["pooled", "tickets only"])
def test_anchors_that_a_reload_takes_away_refuse_the_next_request(
    kept, version, origin, secure_proxy, raw_client, world
):
    """Although the connection is pooled, and although the origin offers tickets."""
    private = f'anchors = "{world.private_file}"'
    before, after = rule("r", security=f'anchors = "{world.root_file}"'), rule("r", security=private)
    proxy = secure_proxy(before, proxy="workers = 1")
    server = origin(answering(OK) if kept else answering_and_closing(), maximum=version)
    client = raw_client(proxy)
    assert client.exchange(get("a.test", server.port)).body == b"ok"
    said = proxy.reload(proxy="workers = 1", policy=proxy.head + after)
    assert said["level"] != "error", said
    refused(client.exchange(get("a.test", server.port, "/secret")), "certificate-untrusted", -1202)
    assert b"/secret" not in server.bytes_of_requests()
    assert len(server.handshakes) == 1


def test_a_reload_that_changes_nothing_in_security_keeps_connections_and_sessions(
    origin, secure_proxy, raw_client
):
    proxy, server = secure_proxy(proxy="workers = 1"), origin()
    client = raw_client(proxy)
    assert client.exchange(get("a.test", server.port)).body == b"ok"
    proxy.reload(proxy="workers = 1", policy=proxy.head + rule("new", 'hosts = ["b.test"]'))
    assert client.exchange(get("a.test", server.port)).body == b"ok"
    assert len(server.handshakes) == 1 or server.handshakes[1].resumed


# Revocation: a stapled answer (RFC 6960), a list (RFC 5280 §5)


def stapled(world, leaf: Identity, status=ocsp.OCSPCertStatus.GOOD, **arguments) -> bytes:
    issuer, signer = world.issuing, arguments.get("signer", world.issuing)
    revoked = status == ocsp.OCSPCertStatus.REVOKED
    answer = (
        ocsp.OCSPResponseBuilder()
        .add_response(
            cert=leaf.certificate,
            issuer=issuer.certificate,
            algorithm=hashes.SHA1(),
            cert_status=status,
            this_update=arguments.get("this_update", NOW - DAY),
            next_update=arguments.get("next_update", NOW + DAY),
            revocation_time=NOW - DAY if revoked else None,
            revocation_reason=x509.ReasonFlags.key_compromise if revoked else None,
        )
        .responder_id(ocsp.OCSPResponderEncoding.HASH, signer.certificate)
        .sign(signer.key, hashes.SHA256())
    )
    return answer.public_bytes(serialization.Encoding.DER)


STAPLES = {
    "good": (lambda world, leaf: stapled(world, leaf), True),
    "none": (lambda world, leaf: None, False),
    "revoked": (lambda world, leaf: stapled(world, leaf, ocsp.OCSPCertStatus.REVOKED), False),
    "unknown": (lambda world, leaf: stapled(world, leaf, ocsp.OCSPCertStatus.UNKNOWN), False),
    "out-of-date": (
        lambda world, leaf: stapled(world, leaf, this_update=NOW - 9 * DAY, next_update=NOW - DAY),
        False,
    ),
    "of-the-future": (
        lambda world, leaf: stapled(world, leaf, this_update=NOW + DAY, next_update=NOW + 2 * DAY),
        False,
    ),
    "of-another": (lambda world, leaf: stapled(world, world.leaf("other.test")), False),
    "signed-by-another": (lambda world, leaf: stapled(world, leaf, signer=world.private), False),
    "signed-by-the-leaf": (lambda world, leaf: stapled(world, leaf, signer=leaf), False),
    "garbage": (lambda world, leaf: b"no answer at all", False),
    "an-error": (
        lambda world, leaf: ocsp.OCSPResponseBuilder.build_unsuccessful(
            ocsp.OCSPResponseStatus.TRY_LATER
        ).public_bytes(serialization.Encoding.DER),
        False,
    ),
}


@pytest.fixture(scope="module")
def stapling_origin(world, tmp_path_factory):
    """nginx with a site for each row."""
    sites = []
    for row, (make, _) in STAPLES.items():
        leaf = world.leaf(f"{row}.test")
        answer = make(world, leaf)
        more = f"ssl_stapling on; ssl_stapling_file {world.file(answer, '.der')};" if answer else ""
        if answer == b"no answer at all":  # nginx would not start
            more = ""
        sites.append(Site((f"{row}.test",), [leaf, world.issuing], more))
    server = ChainServer(world, tmp_path_factory.mktemp("stapling"), sites)
    yield server
    server.stop()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_stapled_answer_is_required_and_checked(version, secure_proxy, raw_client, stapling_origin):
    policy = rule("stapled", 'hosts = ["*.test"]', security='revocation = "staple"')
    client, port = raw_client(secure_proxy(policy)), stapling_origin.ports[version]
    wrong = []
    for row, (_, accepted) in STAPLES.items():
        answer = client.exchange(get(f"{row}.test", port))
        if accepted and answer.status != 200:
            wrong.append((row, answer.reason))
        elif not accepted:
            problem = check_problem(answer, 502, error="tls_certificate_error", rule="stapled")
            if problem.body["nsurlError"] not in (-1202, -1200) or "revo" not in problem.token:
                wrong.append((row, problem))
    assert not wrong


def test_a_stapled_answer_of_openssl_s_server(secure_proxy, raw_client, world):
    policy = rule("stapled", security='revocation = "staple"')
    leaf = world.leaf("a.test")
    port = unused_port()
    log = world.file(b"", ".log")
    certificate = world.file(leaf.pem)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-www", "-cert", certificate],
                *["-key", world.file(leaf.key_pem), "-cert_chain", world.file(world.issuing.pem)],
                *["-status_file", world.file(stapled(world, leaf), ".der")],
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until_it_listens(port, process, log)
        answer = raw_client(secure_proxy(policy)).exchange(get("a.test", port))
        assert answer.status == 200 and b"s_server" in answer.body
    finally:
        process.kill()
        process.wait()


def list_of(issuer: Identity, *revoked: Identity, **times) -> bytes:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(times.get("last_update", NOW - DAY))
        .next_update(times.get("next_update", NOW + DAY))
    )
    for identity in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(identity.certificate.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(NOW - DAY).build())
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    "row", ["good", "revoked", "out of date", "of another issuer", "revoked intermediate"]
)
def test_a_list_of_revoked_certificates(row, tls_origin, secure_proxy, raw_client, world):
    leaf = world.leaf("a.test")
    of_root = list_of(world.root)
    lists = {
        "good": list_of(world.issuing, world.leaf("b.test")) + of_root,
        "revoked": list_of(world.issuing, leaf) + of_root,
        "out of date": list_of(world.issuing, last_update=NOW - 9 * DAY, next_update=NOW - DAY) + of_root,
        "of another issuer": list_of(world.private, leaf),
        "revoked intermediate": list_of(world.issuing) + list_of(world.root, world.issuing),
    }
    crl_file = world.file(lists[row], ".crl")
    policy = rule("listed", security=f'revocation = "crl"\ncrl_file = "{crl_file}"')
    server = tls_origin(answering(OK), world.context(leaf))
    answer = raw_client(secure_proxy(policy)).exchange(get("a.test", server.port))
    if row == "good":
        assert answer.status == 200, answer
    else:
        problem = check_problem(answer, 502, error="tls_certificate_error", rule="listed")
        assert "revo" in problem.token, problem


# An origin that breaks the protocol


def speaks_http(connection) -> None:
    connection.socket.settimeout(DEADLINE_SECONDS)
    connection.switch_protocol()
    connection.receive_some()
    connection.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def closes_at_once(connection) -> None:
    connection.switch_protocol()


def closes_after_the_hello(connection) -> None:
    connection.switch_protocol()
    connection.receive_some()


def resets_after_the_hello(connection) -> None:
    connection.switch_protocol()
    connection.receive_some()
    connection.reset()


def sends_an_alert(connection) -> None:
    """handshake_failure, fatal."""
    connection.switch_protocol()
    connection.receive_some()
    connection.send(b"\x15\x03\x03\x00\x02\x02\x28")


def sends_a_record_of_no_kind(connection) -> None:
    connection.switch_protocol()
    connection.receive_some()
    connection.send(b"\x16\x03\x03\xff\xff" + bytes(70_000))


FAULTS = {
    "plain HTTP": (speaks_http, {"tls_protocol_error"}),
    "an end at once": (closes_at_once, {"connection_terminated", "tls_protocol_error"}),
    "an end after the ClientHello": (closes_after_the_hello, {"connection_terminated", "tls_protocol_error"}),
    "a reset after the ClientHello": (
        resets_after_the_hello,
        {"connection_terminated", "tls_protocol_error"},
    ),
    "an alert": (sends_an_alert, {"tls_alert_received"}),
    "a record that is too long": (sends_a_record_of_no_kind, {"tls_protocol_error"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_origin_that_is_no_tls(name, secure_proxy, raw_origin, raw_client):
    script, errors = FAULTS[name]
    proxy, server = secure_proxy(), raw_origin(script)
    answer = raw_client(proxy).exchange(get("a.test", server.port, "/secret"))
    problem = check_problem(answer, 502)
    assert problem.error in errors, problem
    assert "a.test" in problem.body["detail"]
    assert proxy.access_of(problem.reference)["outcome"] == problem.token
    assert all(b"/secret" not in bytes(connection.received) for connection in server.connections)


def test_an_origin_that_never_answers_the_hello(secure_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.switch_protocol()
        connection.wait_for_end()

    proxy = secure_proxy('[proxy.timeouts]\ntls_handshake = "300ms"\n')
    problem = check_problem(raw_client(proxy).exchange(get("a.test", raw_origin(script).port)), 504)
    assert problem.error in ("connection_timeout", "connection_read_timeout")
    assert proxy.access_of(problem.reference)["status"] == 504


def test_an_origin_that_trickles_its_flight(secure_proxy, tls_origin, raw_client, world):
    """Byte by byte, but in time: the handshake is made, and so is the exchange."""

    def context_for(number, hello):
        secure = server.connections[number].socket
        secure.plain = TricklingSocket(secure.plain)
        return context

    context = world.context(world.leaf("a.test"))
    server = tls_origin(answering_and_closing(), context_for)
    assert raw_client(secure_proxy()).exchange(get("a.test", server.port)).body == b"ok"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_an_origin_that_asks_for_another_key_share(version, tls_origin, secure_proxy, raw_client, world):
    """A HelloRetryRequest under TLS 1.3 (RFC 8446 §4.1.4)."""
    context = world.context(world.leaf("a.test"), maximum=version)
    context.set_ecdh_curve("secp384r1")
    server = tls_origin(answering(OK), context)
    assert raw_client(secure_proxy()).exchange(get("a.test", server.port)).body == b"ok"


def wait_for_output(process: subprocess.Popen, needle: bytes) -> None:
    while needle not in (line := process.stdout.readline()):
        assert line, f"{process.args[0]} ended before it said {needle!r}"


def test_new_keys_in_the_middle_of_an_answer(secure_proxy, raw_client, world):
    """KeyUpdate, asked for by openssl s_server: `K` on a line of its input (RFC 8446 §4.6.3)."""
    leaf, port = world.leaf("a.test"), unused_port()
    log = world.file(b"", ".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-tls1_3", "-naccept", "2", "-msg"],
                *["-cert", world.file(leaf.pem), "-key", world.file(leaf.key_pem)],
                *["-cert_chain", world.file(world.issuing.pem)],
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
        )
    try:
        wait_until_it_listens(port, process, log)  # the first of the two connections
        client = raw_client(secure_proxy())
        client.send(get("a.test", port, "/the-request"))
        wait_for_output(process, b"/the-request")
        for line in (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab\n", b"K\n", b"cd\n", b"K\n", b"ef\n"):
            process.stdin.write(line)
            process.stdin.flush()
            if line == b"K\n":
                wait_for_output(process, b">>> TLS 1.3, Handshake [length 0005], KeyUpdate")
            else:
                client.receive_until(line[-3:])
    finally:
        process.kill()
        process.wait()


# The end of an answer that runs until the connection ends (RFC 8446 §6.1, RFC 9112 §9.8)

UNTIL_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"half of it"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("polite", [True, False], ids=["with close_notify", "without close_notify"])
def test_an_answer_that_ends_with_the_connection(polite, version, origin, secure_proxy, raw_client):
    """Without close_notify nobody can tell an end from an attacker's cut: the client must not take it for whole."""

    def script(connection) -> None:
        connection.read_request()
        connection.send(UNTIL_THE_END)
        if not polite:
            connection.socket.truncate()
            connection.wait_for_end()

    proxy, server = secure_proxy(), origin(script, maximum=version)
    client = raw_client(proxy)
    client.send(get("a.test", server.port))
    if polite:
        assert client.answer().body == b"half of it"
        assert proxy.access(lambda line: line["status"] == 200)["outcome"] == "done"
        return
    assert client.wait_for_end() == "reset", bytes(client.received)
    assert proxy.access()["outcome"] != "done", "the log does not say that the answer was cut short"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_answer_that_is_whole_needs_no_close_notify(framing, origin, secure_proxy, raw_client):
    body = (
        b"Content-Length: 2\r\n\r\nok"
        if framing == "length"
        else b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    )

    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + body)
        connection.socket.truncate()
        connection.wait_for_end()

    assert raw_client(secure_proxy()).exchange(get("a.test", origin(script).port)).body == b"ok"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_answer_that_is_cut_short_is_not_passed_on_as_whole(framing, origin, secure_proxy, raw_client):
    body = (
        b"Content-Length: 9\r\n\r\nok"
        if framing == "length"
        else b"Transfer-Encoding: chunked\r\n\r\n9\r\nok"
    )

    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\n" + body)

    proxy, client = secure_proxy(), raw_client
    one = client(proxy)
    one.send(get("a.test", origin(script).port))
    with pytest.raises(Ended):
        one.answer()
    assert proxy.access()["outcome"] != "done"


# The configuration


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ('ciphers = "no-such-cipher"', "ciphers"),
        ('min_tls = "1.3"\nmax_tls = "1.2"', "max_tls"),
        ('min_tls = "0.9"', "min_tls"),
        ('revocation = "crl"', "crl_file"),
        ('revocation = "crl"\ncrl_file = "absent.crl"', "absent.crl"),
        ('anchors = "absent.pem"', "absent.pem"),
        ('client_certificate = { certificate = "absent.pem", key = { file = "absent.key" } }', "absent"),
        ('server_name = "not a name"', "server_name"),
        ("allow_invalid_certificates = true", "allow_invalid_certificates"),
    ],
    ids=str,
)
def test_a_mistake_in_the_table_is_named(security, expected, tmp_path):
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(configuration_text(policy=rule("r", security=security)))
    done = command("check", "--config", configuration)
    assert done.returncode == 1 and expected in done.stdout + done.stderr, done
    assert "sallyport.toml:" in done.stdout + done.stderr


def test_a_client_certificate_with_the_key_of_another_is_an_error(world, kiosk, tmp_path):
    wrong = f'{{ file = "{world.file(world.leaf("other").key_pem)}" }}'
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(configuration_text(policy=rule("r", security=shows(world, kiosk, wrong))))
    done = command("check", "--config", configuration)
    assert done.returncode == 1 and "key" in done.stdout + done.stderr, done
