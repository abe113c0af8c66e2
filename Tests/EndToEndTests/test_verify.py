"""connect = "verify": the client keeps TLS to the origin, and the proxy looks before it lets the tunnel open.

What is shown here: the 200 comes after the probe; what the client says first must be a ClientHello for the very host;
what is refused after the 200 reaches the origin with not one byte; under TLS 1.2 the certificate in the tunnel itself
counts; and what a verdict is remembered for. The table of policies and chains is in test_pins.py.
"""

import hashlib
import ssl
import struct
import subprocess
import threading

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from conftest import need
from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo, unused_port, wait_until_it_listens
from problems import check_problem
from proxy import command
from test_origination import STAPLES, kiosk, stapling_origin
from tls_world import (
    OK,
    ChainServer,
    RecordSplittingSocket,
    Site,
    SecureSocket,
    TLSOrigin,
    TricklingSocket,
    answering_and_closing,
    certify,
    chain_pem,
    client_context,
    get,
    in_records_of,
    pins,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
VERSIONS = pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
VERIFY = rule("verified", 'hosts = ["*.test", "127.0.0.1"]', 'connect = "verify"')
LARGE = hashlib.shake_128(b"through a tunnel").digest(10 * 1024 * 1024)


@pytest.fixture
def tunnelled(tls_origin, world):
    """A function that starts an origin whose connections are a client's own."""

    def start(
        script=answering(OK), names: tuple[str, ...] = ("a.test",), contexts=None, **knobs
    ) -> TLSOrigin:
        return tls_origin(script, contexts or world.context(world.leaf(*names), **knobs), tunnelled=True)

    return start


def bytes_of_tunnels(origin: TLSOrigin) -> list[bytes]:
    """What came on each connection but those on which a handshake was made and nothing was asked: the probes.

    Each of them must have ended, or is about to: it is waited for.
    """
    for connection in origin.connections:
        origin.wait_for("done", connection.number)
    probes = {shake.number for shake in origin.handshakes if not origin.connections[shake.number].received}
    return [
        bytes(connection.socket.raw_received)
        for connection in origin.connections
        if connection.number not in probes and isinstance(connection.socket, SecureSocket)
    ]


# A tunnel that is verified


@VERSIONS
def test_a_tunnel_opens_after_the_probe_and_carries_the_clients_own_tls(
    version, tunnelled, secure_proxy, secure_client, world
):
    proxy, server = secure_proxy(VERIFY), tunnelled(minimum=version, maximum=version)
    client = secure_client(proxy)
    answer = client.tunnel("a.test", server.port)
    assert answer.status == 200
    server.wait_for("handshake")
    (probe,) = server.handshakes
    # Nobody knows what the client will speak: a server of HTTP/2 alone must not refuse the probe (RFC 7301 §3.2).
    assert (probe.server_name, probe.hello.alpn) == ("a.test", ())
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.leave()
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert (line["target"], line["rule"], line["status"]) == (f"a.test:{server.port}", "verified", 200)
    assert line["assurance"] == ("exact" if version == TLS12 else "probe") and line["outcome"] == "done"
    assert line["tls_ms"] is not None and line["bytes_in"] > 0 and line["bytes_out"] > 0
    (request,) = [connection for connection in server.connections if connection.received]
    assert b"Via" not in bytes(request.received)
    assert not server.connections[probe.number].received


def test_a_plain_tunnel_has_no_assurance(tunnelled, secure_proxy, secure_client, world):
    proxy, server = secure_proxy(rule("open", 'connect = "tunnel"')), tunnelled()
    client = secure_client(proxy)
    client.tunnel("a.test", server.port)
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.close()
    assert proxy.access()["assurance"] == "none"
    assert len(server.connections) == 1


def test_what_is_not_verified_is_called_sni(tunnelled, secure_proxy, secure_client):
    """Where any certificate passes, and where the client asks for another of the two names than was verified, under a rule
    that is not enforced."""
    anything = "allow_invalid_certificates = true\nvalidates_domain_name = false"
    policy = rule("anything", 'hosts = ["a.test"]', 'connect = "verify"', security=anything)
    policy += rule(
        "inner", 'hosts = ["b.test"]', 'connect = "verify"', "enforce = false", security='server_name = "inner.test"')
    proxy, server = secure_proxy(policy), tunnelled(names=("inner.test",))
    for host in ("a.test", "b.test"):
        client = secure_client(proxy)
        assert client.tunnel(host, server.port).status == 200
        client.shake_hands(client_context(), host)
        assert client.get_inside(host).body == b"ok"
        client.leave()
        assert proxy.access(lambda line: line["target"].startswith(host))["assurance"] == "sni"


def test_another_name_than_the_verified_one_is_refused(tunnelled, secure_proxy, secure_client):
    """Under TLS 1.3 the certificate is hidden, and the server may have another for that name: pins say nothing of it."""
    policy = rule("inner", 'hosts = ["b.test"]', 'connect = "verify"', security='server_name = "inner.test"')
    proxy, server = secure_proxy(policy), tunnelled(names=("inner.test", "b.test"))
    client = secure_client(proxy)
    assert client.tunnel("b.test", server.port).status == 200
    with pytest.raises(OSError):
        client.shake_hands(client_context(), "b.test")
    client.looked_at = False
    assert "other-server-name" in proxy.access(lambda line: line["method"] == "CONNECT")["outcome"]
    again = secure_client(proxy)
    assert again.tunnel("b.test", server.port).status == 200
    again.shake_hands(client_context(), "inner.test")
    assert again.get_inside("b.test").body == b"ok"


def test_explain_states_the_assurance(secure_proxy):
    proxy = secure_proxy(VERIFY + rule("open", 'hosts = ["open.example"]', 'connect = "tunnel"'))
    explain = ("explain", "--config", proxy.configuration, "CONNECT")
    said = command(*explain, "a.test:443").stdout
    assert "verified" in said and "assurance: probe under TLS 1.3, exact under TLS 1.2" in said
    assert "assurance: none" in command(*explain, "open.example:443").stdout


@VERSIONS
def test_large_bodies_both_ways(version, tunnelled, secure_proxy, secure_client, world):
    def script(connection) -> None:
        body = connection.read_request().body
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    proxy, server = secure_proxy(VERIFY), tunnelled(script, maximum=version)
    client = secure_client(proxy)
    client.tunnel("a.test", server.port)
    client.shake_hands(client_context(world.root), "a.test")
    head = b"PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n" % len(LARGE)
    client.send(head + LARGE)
    assert hashlib.sha256(client.answer().body).digest() == hashlib.sha256(LARGE).digest()


@VERSIONS
def test_a_hello_byte_by_byte(version, tunnelled, secure_proxy, secure_client, world):
    server = tunnelled()
    client = secure_client(secure_proxy(VERIFY))
    client.tunnel("a.test", server.port)
    context = client_context(world.root, minimum_version=version, maximum_version=version)
    client.shake_hands(context, "a.test", sending=client.send_bytewise)
    assert client.get_inside("a.test").body == b"ok"


@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_hello_over_many_records(size, tunnelled, secure_proxy, secure_client, world):
    server = tunnelled()
    client = secure_client(secure_proxy(VERIFY))
    client.tunnel("a.test", server.port)
    client.shake_hands(
        client_context(world.root), "a.test", sending=lambda hello: client.send(in_records_of(size, hello))
    )
    assert client.get_inside("a.test").body == b"ok"


def large_context(world) -> ssl.SSLContext:
    """A ClientHello of more than 16 KiB, as post-quantum keys may bring it: here by the names of many protocols."""
    context = client_context(world.root)
    context.set_alpn_protocols([f"{number:0250}" for number in range(70)] + ["http/1.1"])
    return context


@pytest.mark.parametrize("manner", ["at once", "in pieces"])
def test_a_hello_above_16_kib(manner, tunnelled, secure_proxy, secure_client, world):
    server = tunnelled(alpn=("http/1.1",))
    client = secure_client(secure_proxy(VERIFY))
    client.tunnel("a.test", server.port)

    def in_pieces(hello: bytes) -> None:
        for at in range(0, len(hello), 1000):
            client.send(hello[at : at + 1000])

    client.shake_hands(
        large_context(world), "a.test", sending=client.send if manner == "at once" else in_pieces
    )
    assert client.get_inside("a.test").body == b"ok"
    assert len(server.handshakes[-1].hello.alpn) == 71


def test_a_hello_in_the_segment_of_connect(tunnelled, secure_proxy, secure_client, world):
    server = tunnelled()
    client = secure_client(secure_proxy(VERIFY))
    client.secure = SecureSocket(client.socket)
    hello = client.secure.begin(client_context(world.root), "a.test")
    assert client.tunnel("a.test", server.port, then=hello).status == 200
    client.finish_handshake()
    assert client.get_inside("a.test").body == b"ok"


@VERSIONS
def test_an_origin_that_asks_for_another_key_share(version, tunnelled, secure_proxy, secure_client, world):
    """A HelloRetryRequest under TLS 1.3: the client says hello twice."""
    context = world.context(world.leaf("a.test"), maximum=version)
    context.set_ecdh_curve("secp384r1")
    server = tunnelled(contexts=context)
    client = secure_client(secure_proxy(VERIFY))
    assert client.tunnel("a.test", server.port).status == 200
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"


@VERSIONS
def test_an_origin_that_trickles(version, tunnelled, secure_proxy, secure_client, world):
    context = world.context(world.leaf("a.test"), minimum=version, maximum=version)

    def trickling(number, hello):
        secure = server.connections[number].socket
        secure.plain = TricklingSocket(secure.plain)
        return context

    server = tunnelled(contexts=trickling)
    proxy = secure_proxy(VERIFY)
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.close()
    assert proxy.access()["assurance"] == ("exact" if version == TLS12 else "probe")


def test_early_data(secure_proxy, world, tmp_path):
    """A client that resumes sends its request right behind the hello (RFC 8446 §2.3); openssl s_client and nginx do."""
    need("openssl", "nginx")
    site = Site(("a.test",), [world.leaf("a.test"), world.issuing], "ssl_early_data on;")
    server = ChainServer(world, tmp_path, [site])
    try:
        proxy, port = secure_proxy(VERIFY), server.ports["TLSv1.3"]
        request, session = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", tmp_path / "session"
        (tmp_path / "request").write_bytes(request)
        client = [
            *["openssl", "s_client", "-proxy", proxy.authority, "-connect", f"a.test:{port}", "-ign_eof"],
            *["-servername", "a.test", "-tls1_3", "-CAfile", world.root_file, "-verify_return_error"],
        ]
        for options, given in (
            (["-sess_out", session], request),
            (["-sess_in", session, "-early_data", tmp_path / "request"], b""),
        ):
            done = subprocess.run(
                [*client, *options], input=given, capture_output=True, timeout=DEADLINE_SECONDS
            )
        said = done.stdout.decode("utf-8", "replace")
        assert (
            "Early data was accepted" in said and "HTTP/1.1 200 OK" in said
        ), f"{said}\n{''.join(proxy.raw_log)}"
    finally:
        server.stop()


def test_an_origin_that_serves_one_connection_at_a_time(secure_proxy, secure_client, world):
    """openssl s_server: the connection of the tunnel must not stand in the way of the probe's."""
    need("openssl")
    leaf, port, log = world.leaf("a.test"), unused_port(), world.file(b"", ".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *[
                    "openssl",
                    "s_server",
                    "-accept",
                    f"127.0.0.1:{port}",
                    "-www",
                    "-cert",
                    world.file(leaf.pem),
                ],
                *["-key", world.file(leaf.key_pem), "-cert_chain", world.file(world.issuing.pem)],
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until_it_listens(port, process, log)
        client = secure_client(secure_proxy('[proxy.timeouts]\ntls_handshake = "2s"\n' + VERIFY))
        answer = client.tunnel("a.test", port)
        assert answer.status == 200, answer.reason
        client.shake_hands(client_context(world.root), "a.test")
        assert b"s_server" in client.get_inside("a.test").body
    finally:
        process.kill()
        process.wait()


@VERSIONS
def test_an_origin_that_asks_the_client_for_a_certificate(
    version, tunnelled, secure_proxy, secure_client, world, kiosk
):
    """The probe shows the certificate of the rule; in the tunnel the client shows its own."""
    certificate, key = world.file(chain_pem([kiosk, world.private_issuing])), world.file(kiosk.key_pem)
    shown = f'client_certificate = {{ certificate = "{certificate}", key = {{ file = "{key}" }} }}'
    proxy = secure_proxy(rule("verified", 'connect = "verify"', security=shown))
    server = tunnelled(client_authority=world.private, maximum=version)
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    own = world.leaf("own", issuer=world.private_issuing, purpose=ExtendedKeyUsageOID.CLIENT_AUTH)
    context = client_context(world.root)
    context.load_cert_chain(world.file(chain_pem([own, world.private_issuing]) + own.key_pem))
    client.shake_hands(context, "a.test")
    assert client.get_inside("a.test").body == b"ok"
    probe, tunnel = sorted(
        server.handshakes, key=lambda shake: len(server.connections[shake.number].received)
    )
    assert (probe.client_certificate, tunnel.client_certificate) == (kiosk.der, own.der)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_stapled_answer_is_required_of_the_probe(
    version, secure_proxy, secure_client, stapling_origin, world
):
    """Whether the client asks for one as well is its own affair."""
    policy = rule("stapled", 'hosts = ["*.test"]', 'connect = "verify"', security='revocation = "staple"')
    proxy, port = secure_proxy(policy), stapling_origin.ports[version]
    wrong = []
    for row, (_, accepted) in STAPLES.items():
        client = secure_client(proxy)
        answer = client.tunnel(f"{row}.test", port)
        if not accepted:
            wrong += [] if "revo" in check_problem(answer, 502, rule="stapled").token else [row]
            continue
        assert answer.status == 200, (row, answer.reason)
        client.shake_hands(client_context(world.root), f"{row}.test")
        assert client.get_inside(f"{row}.test").body == b"ok"
    assert not wrong


# The name that the client asks for


ACCEPTED_NAMES = {
    "the host": ("a.test", "a.test", ""),
    "the host in capitals": ("a.test", "A.TEST", ""),
    "the host, asked for in capitals": ("A.Test", "a.test", ""),
    "none for an address": ("127.0.0.1", None, ""),
    "the rule's server_name": ("a.test", "inner.test", 'server_name = "inner.test"'),
    "the host without its dot": ("a.test.", "a.test", ""),
}


@pytest.mark.parametrize("name", ACCEPTED_NAMES)
def test_a_server_name_that_passes(name, tunnelled, secure_proxy, secure_client):
    host, server_name, security = ACCEPTED_NAMES[name]
    server = tunnelled(names=("a.test", "inner.test", "127.0.0.1"))
    client = secure_client(secure_proxy(rule("verified", 'connect = "verify"', security=security)))
    assert client.tunnel(host, server.port).status == 200
    client.shake_hands(client_context(), server_name)
    assert client.get_inside("a.test").body == b"ok"


def extension(kind: int, data: bytes) -> bytes:
    return struct.pack("!HH", kind, len(data)) + data


def names_extension(*names: bytes, kind: int = 0) -> bytes:
    """RFC 6066 §3."""
    entries = b"".join(struct.pack("!BH", kind, len(name)) + name for name in names)
    return extension(0, struct.pack("!H", len(entries)) + entries)


VERSIONS_EXTENSION = extension(43, b"\x02\x03\x04")


def hello_with(*extensions: bytes, kind: int = 1) -> bytes:
    """A ClientHello in one record, or in as many as it takes."""
    tail = b"".join(extensions)
    body = (
        b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + struct.pack("!H", len(tail)) + tail
    )
    message = bytes([kind]) + struct.pack("!I", len(body))[1:] + body
    return b"".join(
        b"\x16\x03\x01" + struct.pack("!H", len(message[at : at + 16384])) + message[at : at + 16384]
        for at in range(0, len(message), 16384)
    )


A_TEST = names_extension(b"a.test")
REFUSED_FIRST_BYTES = {
    "another name": hello_with(names_extension(b"b.test"), VERSIONS_EXTENSION),
    "a name below the host": hello_with(names_extension(b"x.a.test"), VERSIONS_EXTENSION),
    "the host and more": hello_with(names_extension(b"a.testing"), VERSIONS_EXTENSION),
    "the host cut by a zero": hello_with(names_extension(b"a.test\0.b.test"), VERSIONS_EXTENSION),
    "an empty name": hello_with(names_extension(b""), VERSIONS_EXTENSION),
    "an address": hello_with(names_extension(b"127.0.0.1"), VERSIONS_EXTENSION),
    "no name": hello_with(VERSIONS_EXTENSION),
    "no extension at all": hello_with()[:-2]
    .replace(b"\x16\x03\x01\0\x2f", b"\x16\x03\x01\0\x2d")
    .replace(b"\x01\0\0\x2b", b"\x01\0\0\x29"),
    "two names": hello_with(names_extension(b"a.test", b"b.test"), VERSIONS_EXTENSION),
    "two names, the other first": hello_with(names_extension(b"b.test", b"a.test"), VERSIONS_EXTENSION),
    "two name extensions": hello_with(A_TEST, names_extension(b"b.test"), VERSIONS_EXTENSION),
    "a name of another kind": hello_with(names_extension(b"a.test", kind=1), VERSIONS_EXTENSION),
    "an extension that runs over": hello_with(A_TEST, b"\0\x10\xff\xff\0"),
    "a name that runs over": hello_with(extension(0, b"\0\x09\0\0\xffa.test")),
    "a ServerHello": hello_with(A_TEST, VERSIONS_EXTENSION, kind=2),
    "an alert": b"\x15\x03\x01\0\x02\x02\x28",
    "application data": b"\x17\x03\x03\0\x05hello",
    "an empty record": b"\x16\x03\x01\0\0" * 3 + b"\x17\x03\x03\0\0",
    "a record that is too long": b"\x16\x03\x01\xff\xff\x01\0\xff\xf0" + bytes(1000),
    "a record of SSL 2": b"\x80\x2e\x01\0\x02\0\x15\0\0\0\x10" + bytes(37),
    "a record of another version": b"\x16\x02\0" + hello_with(A_TEST)[3:],
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
    "a banner of SSH": b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "a banner of SMTP": b"EHLO a.test\r\n",
    "zeroes": bytes(64),
    "a hello without an end": hello_with(A_TEST, extension(21, bytes(65000)), extension(22, bytes(100)))[:300]
    + b"\x16\x03\x01\x40\0".join([bytes(16384)] * 20),
    "a message of 16 MiB": b"\x16\x03\x01\x40\0\x01\xff\xff\xff"
    + bytes(16380)
    + (b"\x16\x03\x01\x40\0" + bytes(16384)) * 40,
}


MANNERS = [
    (name, manner)
    for name, data in REFUSED_FIRST_BYTES.items()
    for manner in ("at once", "byte by byte")
    if manner == "at once" or len(data) < 2000
]


@pytest.mark.parametrize(("name", "manner"), MANNERS, ids=" ".join)
def test_first_bytes_that_are_refused_reach_nobody(name, manner, tunnelled, secure_proxy, secure_client):
    """The 200 has gone out by then: the tunnel closes, the origin has seen a probe and nothing else, the line says why."""
    data = REFUSED_FIRST_BYTES[name]
    proxy, server = secure_proxy(VERIFY), tunnelled()
    client = secure_client(proxy)
    client.looked_at = False
    assert client.tunnel("a.test", server.port).status == 200
    (client.send if manner == "at once" else client.send_bytewise)(data)
    client.wait_for_end()
    after = client.unread()
    assert after == b"" or after[:1] == b"\x15", f"what came back is no alert: {after!r}"
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert line["status"] == 200 and line["outcome"] != "done", line
    assert not any(bytes_of_tunnels(server)), "bytes went upstream"
    assert len(server.handshakes) <= 1


@pytest.mark.parametrize("ending", ["an end", "a reset"])
@pytest.mark.parametrize("sent", [0, 1, 5, 60])
def test_a_client_that_ends_before_its_hello_is_whole(sent, ending, tunnelled, secure_proxy, secure_client):
    proxy, server = secure_proxy(VERIFY), tunnelled()
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    client.send(hello_with(A_TEST, VERSIONS_EXTENSION)[:sent])
    if ending == "an end":
        client.half_close()
        client.wait_for_end()
    else:
        client.reset()
    proxy.access(lambda line: line["method"] == "CONNECT")
    assert not any(bytes_of_tunnels(server)), "bytes went upstream"


@pytest.mark.parametrize("sent", [0, 40])
def test_a_client_that_does_not_finish_its_hello_is_closed(sent, tunnelled, secure_proxy, secure_client):
    timeouts = '[proxy.timeouts]\ntls_handshake = "300ms"\nclient_header = "300ms"\n'
    proxy, server = secure_proxy(timeouts + VERIFY), tunnelled()
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    client.send(hello_with(A_TEST, VERSIONS_EXTENSION)[:sent])
    client.wait_for_end()
    assert proxy.access(lambda line: line["method"] == "CONNECT")["outcome"] != "done"
    assert not any(bytes_of_tunnels(server))


def test_a_host_that_is_an_address_of_version_6(tls_origin, secure_proxy, secure_client, world):
    server = tls_origin(answering(OK), world.context(world.leaf("::1")), address="::1", tunnelled=True)
    client = secure_client(secure_proxy(rule("verified", 'connect = "verify"')))
    assert client.tunnel("::1", server.port).status == 200
    client.shake_hands(client_context(), None)
    assert client.get_inside("[::1]").body == b"ok"


def test_a_name_is_not_expected_where_the_host_is_an_address(tunnelled, secure_proxy, secure_client):
    proxy, server = secure_proxy(VERIFY), tunnelled(names=("127.0.0.1", "a.test"))
    client = secure_client(proxy)
    client.looked_at = False
    assert client.tunnel("127.0.0.1", server.port).status == 200
    client.send(hello_with(A_TEST, VERSIONS_EXTENSION))
    client.wait_for_end()
    assert proxy.access(lambda line: line["method"] == "CONNECT")["outcome"] != "done"
    assert not any(bytes_of_tunnels(server))
    assert [handshake.server_name for handshake in server.handshakes] == [None]


@pytest.mark.parametrize("server_name", ["b.test", None])
def test_the_reason_of_a_wrong_name_is_in_the_access_line(
    server_name, tunnelled, secure_proxy, secure_client
):
    proxy, server = secure_proxy(VERIFY), tunnelled(names=("a.test", "b.test"))
    client = secure_client(proxy)
    client.tunnel("a.test", server.port)
    with pytest.raises(OSError):
        client.shake_hands(client_context(), server_name)
    client.looked_at = False
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert "server-name" in line["outcome"]
    logged = proxy.log.wait_for(
        lambda entry: entry.get("level") == "warning" and line["ref"] in entry["message"]
    )
    assert "a.test" in logged["message"] and (server_name or "no server") in logged["message"]


# The probe


def test_a_probe_that_is_refused_is_a_502(secure_proxy, secure_client):
    problem = check_problem(
        secure_client(secure_proxy(VERIFY)).tunnel("a.test", unused_port()), 502, rule="verified"
    )
    assert (problem.token, problem.error) == ("connection-refused", "connection_refused")


def test_a_name_that_does_not_exist_is_a_502(secure_proxy, secure_client):
    proxy = secure_proxy(VERIFY, names={"absent.test": Answer(code=3)})
    problem = check_problem(secure_client(proxy).tunnel("absent.test", 443), 502, rule="verified")
    assert problem.error == "dns_error"


def test_a_probe_that_is_not_answered_is_a_504(secure_proxy, secure_client, raw_origin):
    def script(connection) -> None:
        connection.switch_protocol()
        connection.wait_for_end()

    proxy, server = secure_proxy('[proxy.timeouts]\ntls_handshake = "300ms"\n' + VERIFY), raw_origin(script)
    problem = check_problem(secure_client(proxy).tunnel("a.test", server.port), 504, rule="verified")
    assert proxy.access_of(problem.reference)["outcome"] == problem.token
    seen = [bytes(connection.received) for connection in server.connections]
    assert all(data == b"" or data.startswith(b"\x16\x03\x01") for data in seen)


@pytest.mark.parametrize(
    "flight", [b"", b"\x16", b"\x15\x03\x03\0\x02\x02\x28", b"HTTP/1.1 400 Bad Request\r\n\r\n"]
)
def test_a_probe_that_breaks_is_a_502(flight, secure_proxy, secure_client, raw_origin):
    def script(connection) -> None:
        connection.switch_protocol()
        connection.receive_some()
        connection.send(flight)

    proxy, server = secure_proxy(VERIFY), raw_origin(script)
    problem = check_problem(secure_client(proxy).tunnel("a.test", server.port), 502, rule="verified")
    assert problem.error.startswith(("tls_", "connection_terminated"))
    assert "a.test" in problem.body["detail"]


def test_a_tunnel_for_plain_http_is_refused(secure_proxy, secure_client, raw_origin):
    """curl --proxytunnel http://…: there is no TLS to verify, so nothing may pass."""
    server = raw_origin(tunnel_echo)
    proxy = secure_proxy(VERIFY)
    client = secure_client(proxy)
    check_problem(client.tunnel("a.test", server.port, then=b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), 502)
    assert all(b"GET" not in bytes(connection.received) for connection in server.connections)


# What is remembered


def test_a_verdict_is_remembered(tunnelled, secure_proxy, secure_client):
    proxy, server = secure_proxy(VERIFY, proxy="workers = 1"), tunnelled()
    for _ in range(3):
        client = secure_client(proxy)
        client.tunnel("a.test", server.port)
        client.shake_hands(client_context(), "a.test")
        assert client.get_inside("a.test").body == b"ok"
        client.close()
    assert len(server.handshakes) == 4, "one probe and three clients"
    assert proxy.access()["assurance"] == "probe"


def test_a_verdict_is_of_one_host(tunnelled, secure_proxy, secure_client):
    """Two names at one address: what was verified for one says nothing of the other."""
    proxy, server = secure_proxy(VERIFY, proxy="workers = 1"), tunnelled()
    assert secure_client(proxy).tunnel("a.test", server.port).status == 200
    problem = check_problem(secure_client(proxy).tunnel("b.test", server.port), 502, rule="verified")
    assert problem.token == "certificate-name-mismatch"


def test_a_verdict_is_of_one_policy(tunnelled, secure_proxy, secure_client, world):
    """The ports of two rules lead to one origin; only one of them pins another key."""
    spare, other = certify("Spare"), certify("Other")
    set_of_pins = pins("p", f'mode = "public-key"\nspki = ["{spare.pin}", "{other.pin}"]')
    proxy = secure_proxy(set_of_pins + VERIFY, proxy="workers = 1")
    server = tunnelled()
    assert secure_client(proxy).tunnel("a.test", server.port).status == 200
    pinned = VERIFY + '[rule.security]\npins = "p"\n'
    said = proxy.reload(proxy="workers = 1", policy=proxy.head + set_of_pins + pinned)
    assert said["level"] != "error"
    problem = check_problem(secure_client(proxy).tunnel("a.test", server.port), 502, rule="verified")
    assert problem.token == "pin-mismatch"


def test_a_verdict_is_of_one_address(tls_origin, secure_proxy, secure_client, world):
    """A name with a second address that is somebody else's, and the first one goes away."""
    good = TLSOrigin(answering(OK), world.context(world.leaf("a.test")), tunnelled=True)
    evil = tls_origin(
        *(answering(OK), world.context(world.leaf("evil.test"))), address="127.0.0.2", port=good.port
    )
    names = {"a.test": Answer(a=["127.0.0.1", "127.0.0.2"])}
    proxy = secure_proxy(VERIFY, proxy="workers = 1", names=names)
    assert secure_client(proxy).tunnel("a.test", good.port).status == 200
    good.stop()
    problem = check_problem(secure_client(proxy).tunnel("a.test", good.port), 502, rule="verified")
    assert problem.token == "certificate-name-mismatch"
    evil.wait_for("handshake failed")


def test_concurrent_tunnels_share_one_probe(
    tunnelled, raw_origin, secure_proxy, secure_client, raw_client, world
):
    """The probe is held back until all have asked; one of them loses patience meanwhile, which harms nobody."""
    released = threading.Event()
    context = world.context(world.leaf("a.test"))

    def held_back(number, hello):
        assert released.wait(DEADLINE_SECONDS)
        return context

    proxy, server = secure_proxy(VERIFY, proxy="workers = 1"), tunnelled(contexts=held_back)
    clients = [secure_client(proxy) for _ in range(20)]
    for client in clients:
        client.send(f"CONNECT a.test:{server.port} HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode())
    # One loop serves all: when a later request has been answered, the earlier ones have been read.
    other = raw_origin(answering(OK))
    for _ in range(2):
        assert raw_client(proxy).exchange(get("b.test", other.port, scheme="http")).body == b"ok"
    clients.pop(0).close()
    released.set()
    assert [client.answer().status for client in clients] == [200] * 19
    server.wait_for("handshake")
    assert len(server.handshakes) == 1
    for client in clients:
        client.shake_hands(client_context(), "a.test")
        assert client.get_inside("a.test").body == b"ok"
    assert len(server.handshakes) == 20


def test_concurrent_tunnels_share_one_refusal(
    tunnelled, raw_origin, secure_proxy, secure_client, raw_client, world
):
    released = threading.Event()
    context = world.context(world.leaf("b.test"))

    def held_back(number, hello):
        assert released.wait(DEADLINE_SECONDS)
        return context

    proxy, server = secure_proxy(VERIFY, proxy="workers = 1"), tunnelled(contexts=held_back)
    clients = [secure_client(proxy) for _ in range(10)]
    for client in clients:
        client.send(f"CONNECT a.test:{server.port} HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode())
    other = raw_origin(answering(OK))
    for _ in range(2):
        assert raw_client(proxy).exchange(get("b.test", other.port, scheme="http")).body == b"ok"
    released.set()
    problems = [check_problem(client.answer(), 502, rule="verified") for client in clients]
    assert {problem.token for problem in problems} == {"certificate-name-mismatch"}
    assert len({problem.reference for problem in problems}) == 10
    server.wait_for("handshake failed")
    assert len(server.failed_handshakes) == 1


# An origin that shows the probe one certificate and the client another


def two_faced(world, good, evil, **knobs):
    """The first handshake meets `good`, every other meets `evil`."""
    contexts = [world.context(good, **knobs), world.context(evil, **knobs)]
    return lambda number, hello: contexts.pop(0) if len(contexts) > 1 else contexts[0]


EVIL = {
    "another key": lambda world: world.leaf("a.test"),
    "another name": lambda world: world.leaf("b.test"),
    "an unknown authority": lambda world: world.leaf("a.test", issuer=world.private_issuing),
    "itself as authority": lambda world: certify("a.test", names=("a.test",)),
}


WARNING = b"\x15\x03\x03\0\x02\x01\x70"  # unrecognized_name, which clients pass over
HELLO_REQUEST = b"\x16\x03\x03\0\x04\0\0\0\0"  # clients pass over it as well (RFC 5246 §7.4.1.1)
MANNERS_OF_FLIGHTS = {
    "at once": lambda plain: plain,
    "byte by byte": TricklingSocket,
    "a byte a record": RecordSplittingSocket,
    "after a warning": lambda plain: RecordSplittingSocket(plain, WARNING),
    "after a HelloRequest": lambda plain: RecordSplittingSocket(plain, HELLO_REQUEST),
}


def with_manner(server: list, manner: str, choose):
    """Contexts for an origin that sends its flights in this manner, but for the probe's."""

    def context_for(number, hello):
        context = choose(number, hello)
        if server[0].handshakes:
            secure = server[0].connections[number].socket
            secure.plain = MANNERS_OF_FLIGHTS[manner](secure.plain)
        return context

    return context_for


@pytest.mark.parametrize("manner", MANNERS_OF_FLIGHTS)
@pytest.mark.parametrize("name", EVIL)
def test_under_tls_1_2_the_certificate_in_the_tunnel_itself_counts(
    name, manner, tunnelled, secure_proxy, secure_client, world
):
    good, evil, spare = world.leaf("a.test"), EVIL[name](world), certify("Spare")
    policy = pins("p", 'mode = "public-key"', f'spki = ["{good.pin}", "{spare.pin}"]')
    policy += rule("verified", 'connect = "verify"', security='pins = "p"')
    proxy, server = secure_proxy(policy), []
    server.append(
        tunnelled(contexts=with_manner(server, manner, two_faced(world, good, evil, maximum=TLS12)))
    )
    client = secure_client(proxy)
    assert client.tunnel("a.test", server[0].port).status == 200
    server[0].wait_for("handshake")
    with pytest.raises(OSError):  # ssl.SSLError is one
        client.shake_hands(client_context(), "a.test")
    client.looked_at = False
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    tokens = {"another name": "certificate-name-mismatch", "another key": "pin-mismatch"}
    if manner in ("at once", "byte by byte", "a byte a record"):
        assert line["outcome"] == tokens.get(name, "certificate-untrusted")
    assert line["outcome"] != "done" and line["assurance"] != "exact"
    assert not server[0].bytes_of_requests() and len(server[0].handshakes) == 1


@pytest.mark.parametrize("manner", ["byte by byte", "a byte a record"])
def test_a_flight_of_tls_1_2_in_pieces_passes_when_it_is_good(
    manner, tunnelled, secure_proxy, secure_client, world
):
    server, leaf = [], world.leaf("a.test")
    context = world.context(leaf, maximum=TLS12)
    server.append(tunnelled(contexts=with_manner(server, manner, lambda number, hello: context)))
    proxy = secure_proxy(VERIFY)
    client = secure_client(proxy)
    assert client.tunnel("a.test", server[0].port).status == 200
    server[0].wait_for("handshake")
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.leave()
    assert proxy.access()["assurance"] == "exact"


@pytest.mark.parametrize(
    ("security", "maximum"), [("", ssl.TLSVersion.TLSv1_1), ('min_tls = "1.3"', TLS12)], ids=str
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_a_tunnel_below_the_least_version_of_the_rule_is_refused(
    security, maximum, tunnelled, secure_proxy, secure_client
):
    """The probe speaks a version that is allowed, the client and the origin agree on one that is not."""
    proxy = secure_proxy(rule("verified", 'connect = "verify"', security=security))
    server = tunnelled(minimum=ssl.TLSVersion.TLSv1)
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    with pytest.raises(OSError):
        client.shake_hands(
            client_context(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=maximum), "a.test"
        )
    client.looked_at = False
    assert proxy.access(lambda line: line["method"] == "CONNECT")["outcome"] != "done"
    assert not server.bytes_of_requests()


AECDH_CIPHERS = {0xC019, 0xC018, 0xC017, 0xC016, 0xC015}


def test_a_handshake_without_a_certificate_is_refused(tunnelled, secure_proxy, secure_client, world):
    """A client that offers anonymous key exchange, and an origin that takes it: nobody has proved anything."""
    leaf, ciphers = world.leaf("a.test"), "AECDH@SECLEVEL=0"
    good = world.context(leaf, maximum=TLS12)
    anonymous = world.context(leaf, maximum=TLS12, ciphers=ciphers)
    server = tunnelled(
        contexts=lambda number, hello: anonymous if hello.ciphers[0] in AECDH_CIPHERS else good
    )
    proxy = secure_proxy(VERIFY)
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    context = client_context(maximum_version=TLS12)
    context.set_ciphers(ciphers)
    with pytest.raises(OSError):
        client.shake_hands(context, "a.test")
    client.looked_at = False
    assert proxy.access(lambda line: line["method"] == "CONNECT")["outcome"] != "done"
    assert not server.bytes_of_requests()


def test_an_origin_that_saves_its_evil_for_clients_of_tls_1_2(tunnelled, secure_proxy, secure_client, world):
    """The probe speaks TLS 1.3, the client does not: what the client is shown is read all the same."""
    good, evil = world.context(world.leaf("a.test")), world.context(world.leaf("b.test"))
    server = tunnelled(contexts=lambda number, hello: good if 0x0304 in hello.versions else evil)
    proxy = secure_proxy(VERIFY)
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    with pytest.raises(OSError):
        client.shake_hands(client_context(maximum_version=TLS12), "a.test")
    client.looked_at = False
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert line["outcome"] == "certificate-name-mismatch"
    assert not server.bytes_of_requests()


def test_under_tls_1_3_the_probe_is_all_that_is_seen(tunnelled, secure_proxy, secure_client, world):
    """The limit of "verify", which the line states: the certificate in the tunnel is encrypted."""
    server = tunnelled(contexts=two_faced(world, world.leaf("a.test"), world.leaf("b.test")))
    proxy = secure_proxy(VERIFY)
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    client.shake_hands(client_context(), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.close()
    assert proxy.access()["assurance"] == "probe"


def test_a_session_of_tls_1_2_that_is_resumed_in_the_tunnel_is_not_called_exact(
    tunnelled, secure_proxy, secure_client, world
):
    """An abbreviated handshake shows no certificate (RFC 5246 §7.3), so the line must not claim to have seen one."""
    server = tunnelled(answering_and_closing(), maximum=TLS12)
    proxy = secure_proxy(VERIFY)
    context, session = client_context(), None
    for turn in range(2):
        client = secure_client(proxy)
        assert client.tunnel("a.test", server.port).status == 200
        client.shake_hands(context, "a.test", session=session)
        assert client.get_inside("a.test").body == b"ok"
        session = client.secure.secured.session
        client.close()
        server.wait_for(
            "done", max(connection.number for connection in server.connections if connection.received)
        )
    asked = [shake for shake in server.handshakes if server.connections[shake.number].received]
    assert [shake.resumed for shake in asked] == [False, True]
    lines = proxy.log.wait_for_several(2, lambda entry: entry.get("method") == "CONNECT")
    assert [line["assurance"] for line in lines] == ["exact", "probe"]


# What else a tunnel is


def test_a_tunnel_that_the_origin_ends(tunnelled, secure_proxy, secure_client):
    server = tunnelled(answering_and_closing())
    client = secure_client(secure_proxy(VERIFY))
    client.tunnel("a.test", server.port)
    client.shake_hands(client_context(), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    assert client.wait_for_end() == "closed"
    assert client.secure.ended_with == "close_notify"


def test_an_origin_that_refuses_the_second_connection(secure_proxy, secure_client, world):
    """The tunnel goes to the very address of the probe; should that be gone, nothing hangs and nothing crashes."""
    proxy = secure_proxy(VERIFY, proxy="workers = 1")
    server = TLSOrigin(answering(OK), world.context(world.leaf("a.test")), tunnelled=True)
    assert secure_client(proxy).tunnel("a.test", server.port).status == 200
    server.stop()
    check_problem(secure_client(proxy).tunnel("a.test", server.port), 502, rule="verified")
