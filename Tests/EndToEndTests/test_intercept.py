"""connect = "intercept": the proxy speaks TLS to the client under its local authority, and every request meets the rules.

What is shown here: what a leaf is like and when one is minted, the handshakes with clients of every manner, requests
inside (rules, serializers, refusals, bodies, WebSocket), and a client that does not trust the authority. The table of
policies and chains is in test_pins.py, real programs are in test_tls_clients.py.
"""

import asyncio
import hashlib
import ssl
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import websockets.asyncio.client
import websockets.asyncio.server
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from conftest import need
from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import answering, echoing, unused_port
from problems import check_problem
from proxy import command
from tls_world import (
    INTERCEPT,
    NOW,
    OK,
    SecureClient,
    SecureSocket,
    authority,
    certify,
    client_context,
    init_authority,
    intercepting,
    pins,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)

TLS12, TLS13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
LARGE = hashlib.shake_128(b"intercepted").digest(10 * 1024 * 1024)
MAXIMUM_DAYS = 200


@pytest.fixture
def inside(secure_client, authority):
    """A function that opens a tunnel and goes into TLS, trusting the authority: `inside(proxy, "a.test", 443)`."""

    def enter(
        proxy, host: str, port: int, context=None, server_name="", session=None, **arguments
    ) -> SecureClient:
        client = secure_client(proxy, **arguments)
        assert client.tunnel(host, port).status == 200
        client.shake_hands(
            context or client_context(authority.file),
            server_name if server_name != "" else host,
            session=session,
        )
        return client

    return enter


@pytest.fixture
def origin(tls_origin, world):
    def start(script=answering(OK), names: tuple[str, ...] = ("a.test",), **knobs):
        return tls_origin(script, world.context(world.leaf(*names), **knobs))

    return start


# Leaves


LONG_NAME = ".".join(["a" * 60] * 3 + ["test"])


@pytest.mark.parametrize(
    "host", ["a.test", "127.0.0.1", "::1", "x.y.a.test", "xn--mnchen-3ya.test", LONG_NAME]
)
def test_a_leaf_is_what_strict_clients_want(host, intercepting, inside, authority, tmp_path):
    """RFC 5280, the rules of browsers, and Python's VERIFY_X509_STRICT."""
    need("openssl")
    context = client_context(authority.file)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    client = inside(intercepting(), host, 443, context)
    leaf = client.certificate
    ca = x509.load_pem_x509_certificate(authority.file.read_bytes())
    names = extension(leaf, ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    assert [str(name.value) for name in names] == [host]
    assert isinstance(names[0], x509.DNSName if host[-1] == "t" else x509.IPAddress)
    assert list(extension(leaf, ExtensionOID.EXTENDED_KEY_USAGE)) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert extension(leaf, ExtensionOID.KEY_USAGE).digital_signature
    assert not extension(leaf, ExtensionOID.BASIC_CONSTRAINTS).ca
    key_identifier = extension(ca, ExtensionOID.SUBJECT_KEY_IDENTIFIER).digest
    assert extension(leaf, ExtensionOID.AUTHORITY_KEY_IDENTIFIER).key_identifier == key_identifier
    assert leaf.issuer == ca.subject and leaf.version == x509.Version.v3
    assert leaf.serial_number.bit_length() >= 64
    life = leaf.not_valid_after_utc - leaf.not_valid_before_utc
    assert life.days < MAXIMUM_DAYS and leaf.not_valid_before_utc < NOW < leaf.not_valid_after_utc
    assert leaf.not_valid_before_utc >= ca.not_valid_before_utc
    assert leaf.not_valid_after_utc <= ca.not_valid_after_utc
    assert isinstance(leaf.public_key().curve, ec.SECP256R1)
    assert key_of(leaf) != key_of(ca)
    leaf.verify_directly_issued_by(ca)
    path = tmp_path / "leaf.pem"
    path.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    check = "-verify_hostname" if host[-1] == "t" else "-verify_ip"
    done = subprocess.run(
        [
            *["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-policy_check"],
            *["-CAfile", authority.file, "-no-CApath", "-no-CAstore", check, host, path],
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def extension(certificate: x509.Certificate, oid: x509.ObjectIdentifier):
    return certificate.extensions.get_extension_for_oid(oid).value


def key_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def test_a_leaf_is_made_once_and_all_have_one_key(intercepting, inside):
    proxy = intercepting()
    first, again, other = (inside(proxy, host, 443).certificate for host in ("a.test", "A.test", "b.test"))
    assert first == again
    assert first != other and key_of(first) == key_of(other)
    assert first.serial_number != other.serial_number


def test_concurrent_clients_of_a_new_host_get_one_leaf(intercepting, inside):
    proxy = intercepting()
    with ThreadPoolExecutor(20) as pool:
        leaves = list(pool.map(lambda _: inside(proxy, "new.test", 443).certificate, range(20)))
    assert len(set(leaf.serial_number for leaf in leaves)) == 1


def test_many_hosts(intercepting, inside):
    """Each gets a leaf of its own, the first one again as well."""
    proxy = intercepting(proxy="workers = 1")
    context = None
    for number in [*range(300), 0]:
        client = inside(proxy, f"h{number}.test", 443, context or client_context())
        names = extension(client.certificate, ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
        assert [name.value for name in names] == [f"h{number}.test"]
        client.close()


# Handshakes with clients


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
@pytest.mark.parametrize("manner", ["at once", "byte by byte", "in the segment of CONNECT"])
def test_a_handshake(manner, version, intercepting, secure_client, origin, authority):
    proxy, server = intercepting(), origin()
    client = secure_client(proxy)
    context = client_context(authority.file, minimum_version=version, maximum_version=version)
    if manner == "in the segment of CONNECT":
        client.secure = SecureSocket(client.socket)
        hello = client.secure.begin(context, "a.test")
        assert client.tunnel("a.test", server.port, then=hello).status == 200
        client.finish_handshake()
    else:
        assert client.tunnel("a.test", server.port).status == 200
        client.shake_hands(context, "a.test", client.send_bytewise if manner == "byte by byte" else None)
    assert client.secure.secured.version() == version.name.replace("_", ".")
    assert client.get_inside(f"a.test:{server.port}").body == b"ok"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_request_in_the_segment_of_the_last_flight(version, intercepting, secure_client, origin, authority):
    """It may be in the library's buffers already when the handshake is over, and no event will tell of it."""
    server = origin()
    client = secure_client(intercepting())
    client.tunnel("a.test", server.port)
    client.begin_handshake(
        client_context(authority.file, minimum_version=version, maximum_version=version), "a.test"
    )
    client.finish_handshake(then=f"GET / HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode())
    assert client.answer().body == b"ok"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ((), None),
        (("http/1.1",), "http/1.1"),
        (("http/1.0",), "http/1.0"),
    ],
    ids=str,
)
def test_the_protocol_is_http_1_1_where_the_client_does_not_offer_another(offered, chosen, intercepting, inside, origin, authority):
    context = client_context(authority.file)
    if offered:
        context.set_alpn_protocols(list(offered))
    server = origin()
    client = inside(intercepting(), "a.test", server.port, context)
    assert client.secure.secured.selected_alpn_protocol() == chosen
    assert client.get_inside(f"a.test:{server.port}").body == b"ok"


def test_a_client_that_speaks_nothing_of_what_is_spoken_here_is_refused(intercepting, inside, authority):
    """By an alert that says so (RFC 7301 §3.2), before it sends what would be malformed."""
    context = client_context(authority.file)
    context.set_alpn_protocols(["h3"])
    with pytest.raises(ssl.SSLError, match="no application protocol"):
        inside(intercepting(), "a.test", 443, context)


def test_a_client_that_names_no_server_gets_the_leaf_of_the_host(intercepting, inside, origin):
    server = origin()
    client = inside(intercepting(), "a.test", server.port, client_context(), server_name=None)
    names = extension(client.certificate, ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    assert [name.value for name in names] == ["a.test"]
    assert client.get_inside(f"a.test:{server.port}").body == b"ok"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_are_refused(intercepting, inside):
    old = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        inside(intercepting(), "a.test", 443, client_context(minimum_version=old, maximum_version=old))


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_client_resumes_its_session(version, intercepting, inside, origin, authority):
    proxy, server = intercepting(proxy="workers = 1"), origin()
    context = client_context(authority.file, minimum_version=version, maximum_version=version)
    first = inside(proxy, "a.test", server.port, context)
    assert first.get_inside(f"a.test:{server.port}").body == b"ok"
    again = inside(proxy, "a.test", server.port, context, session=first.secure.secured.session)
    assert again.secure.secured.session_reused
    assert again.get_inside(f"a.test:{server.port}").body == b"ok"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_session_of_one_host_is_not_resumed_for_another(version, intercepting, inside, origin):
    """RFC 6066 §3, and the certificate would otherwise never be seen."""
    proxy, server = intercepting(proxy="workers = 1"), origin(names=("a.test", "b.test"))
    context = client_context(minimum_version=version, maximum_version=version)
    first = inside(proxy, "a.test", server.port, context)
    assert first.get_inside(f"a.test:{server.port}").body == b"ok"
    other = inside(proxy, "b.test", server.port, context, session=first.secure.secured.session)
    assert not other.secure.secured.session_reused
    assert other.get_inside(f"b.test:{server.port}").body == b"ok"


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", b"SSH-2.0-x\r\n", bytes(64), b"\x16\x03\x01\xff\xff"],
    ids=str,
)
def test_a_client_that_speaks_no_tls(data, intercepting, secure_client, origin):
    proxy, server = intercepting(), origin()
    client = secure_client(proxy)
    client.looked_at = False
    client.tunnel("a.test", server.port)
    client.send(data)
    client.half_close()
    client.wait_for_end()
    assert said_of_the_handshake(proxy, "a.test")
    assert not server.connections


@pytest.mark.parametrize("sent", [0, 3, 100])
def test_a_client_that_does_not_finish_its_hello_is_closed(sent, intercepting, secure_client):
    proxy = intercepting('[proxy.timeouts]\ntls_handshake = "300ms"\nclient_header = "300ms"\n')
    client = secure_client(proxy)
    client.tunnel("a.test", 443)
    client.send(SecureSocket(client.socket).begin(client_context(), "a.test")[:sent])
    client.wait_for_end()
    client.looked_at = False
    assert said_of_the_handshake(proxy, "a.test")


def said_of_the_handshake(proxy, host: str) -> dict:
    """Why a handshake with a client came to nothing: in the line of the tunnel, or in one of its own that names the host."""
    return proxy.log.wait_for(
        lambda entry: (
            entry.get("method") == "CONNECT" and entry["outcome"] != "done" and entry["target"].startswith(host)
        )
        or (entry.get("level") in ("warning", "notice", "info") and host in entry.get("message", "")),
    )


def test_a_client_that_goes_away_in_the_middle(intercepting, secure_client, inside, origin, authority):
    proxy, server = intercepting(), origin()
    for at in (0, 1, 100):
        client = secure_client(proxy)
        client.tunnel("a.test", server.port)
        client.send(SecureSocket(client.socket).begin(client_context(), "a.test")[:at])
        client.reset()
    assert inside(proxy, "a.test", server.port).get_inside(f"a.test:{server.port}").body == b"ok"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_client_that_does_not_trust_the_authority_is_logged_once_a_host(
    version, intercepting, secure_client, world
):
    """With a hint for its trust store."""
    proxy = intercepting(proxy="workers = 1")
    for host in ("a.test", "a.test", "b.test", "a.test"):
        client = secure_client(proxy)
        client.looked_at = False
        client.tunnel(host, 443)
        with pytest.raises(ssl.SSLCertVerificationError):
            client.shake_hands(client_context(world.root, maximum_version=version), host)
        client.wait_for_end()
        client.close()
    for host in ("a.test", "b.test"):
        hint = said_of_the_handshake(proxy, host)["message"]
        assert "unknown ca" in hint and "sallyport env" in hint
    hints = [entry["message"] for entry in proxy.log.snapshot() if "unknown ca" in entry.get("message", "")]
    assert len(hints) == 2, hints


# Requests inside


def test_a_request_inside_is_one_of_its_own_in_the_log(intercepting, inside, origin):
    proxy, server = intercepting(), origin()
    client = inside(proxy, "a.test", server.port)
    answer = client.get_inside(f"a.test:{server.port}", "/path?query=1")
    assert answer.body == b"ok"
    (request,) = server.requests()
    assert (request.method, request.target) == (b"GET", b"/path?query=1")
    assert request.value("Host") == f"a.test:{server.port}".encode()
    assert server.handshakes[0].server_name == "a.test"
    line = proxy.access(lambda line: line["method"] == "GET")
    assert line["target"] == f"https://a.test:{server.port}/path"
    assert (line["rule"], line["status"], line["assurance"]) == ("seen", 200, "exact")
    client.leave()
    tunnel = proxy.access(lambda line: line["method"] == "CONNECT")
    assert (tunnel["rule"], tunnel["status"], tunnel["outcome"]) == ("seen", 200, "done")
    assert tunnel["client"] == line["client"]


def test_rules_are_matched_anew_inside(intercepting, inside, origin):
    policy = (
        rule("no", 'hosts = ["a.test"]', 'paths = ["/no/*"]', 'action = "deny"', 'reason = "not from here"')
        + rule("read-only", 'hosts = ["a.test"]', 'methods = ["DELETE"]', 'action = "deny"')
        + rule(
            *("edit", 'hosts = ["a.test"]', 'paths = ["/edit/*"]'),
            request='headers.set = { X-Client = "kiosk-7" }\nheaders.remove = ["Cookie"]',
        )
    )
    proxy, server = intercepting(policy), origin()
    client = inside(proxy, "a.test", server.port)
    host = f"a.test:{server.port}"
    problem = check_problem(client.get_inside(host, "/no/way"), 403, error="http_request_denied", rule="no")
    assert "not from here" in problem.body["detail"]
    deletion = f"DELETE /x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    check_problem(client.exchange(deletion), 403, rule="read-only")
    assert not server.connections
    assert client.get_inside(host, "/edit/x", "Cookie: a=b\r\n").body == b"ok"
    assert client.get_inside(host, "/y", "Cookie: a=b\r\n").body == b"ok"
    edited, plain = server.requests()
    assert (edited.value("X-Client"), edited.value("Cookie")) == (b"kiosk-7", None)
    assert (plain.value("X-Client"), plain.value("Cookie")) == (None, b"a=b")
    assert proxy.access_of(problem.reference)["rule"] == "no"


def test_a_denied_host_is_denied_at_connect(intercepting, secure_client):
    proxy = intercepting(rule("no", 'hosts = ["no.test"]', 'action = "deny"'))
    check_problem(secure_client(proxy).tunnel("no.test", 443), 403, rule="no")


def test_what_no_rule_lets_through_is_denied_inside(intercepting, inside, origin):
    """default = "deny": the rule for the tunnel has paths, and what is not one of them goes nowhere."""
    server = origin()
    policy = rule(
        "listed", 'hosts = ["a.test"]', f"ports = [{server.port}]", 'paths = ["/yes/*"]', 'connect = "intercept"'
    )

    def start(policy):
        return intercepting(policy, proxy='default = "deny"')

    client = inside(start(policy.replace("INTERCEPT", "")), "a.test", server.port)
    assert client.get_inside(f"a.test:{server.port}", "/yes/x").body == b"ok"


OTHER_HOSTS = {
    "another host": "GET / HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n",
    "another port": "GET / HTTP/1.1\r\nHost: a.test:1\r\n\r\n",
    "no host": "GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "absolute form of another host": "GET https://b.test:{port}/ HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n",
    "absolute form of another scheme": "GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n",
    "CONNECT": "CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n",
    "CONNECT to another host": "CONNECT b.test:{port} HTTP/1.1\r\nHost: b.test:{port}\r\n\r\n",
}


@pytest.mark.parametrize("name", OTHER_HOSTS)
def test_a_request_inside_for_something_else_is_refused(name, intercepting, inside, origin):
    """What was asked for at CONNECT was decided on; a request for another host may not come in under it."""
    proxy, server = intercepting(), origin(names=("a.test", "b.test"))
    client = inside(proxy, "a.test", server.port)
    client.send(OTHER_HOSTS[name].format(port=server.port).encode())
    answer = client.answer()
    assert 400 <= answer.status < 500, answer
    check_problem(answer, answer.status)
    assert not server.requests()


def test_a_host_without_the_port_of_the_tunnel_is_that_of_the_tunnel(intercepting, inside, origin):
    """Some clients leave the port out; the rules then see the port that was asked for at CONNECT."""
    proxy, server = intercepting(), origin()
    client = inside(proxy, "a.test", server.port)
    answer = client.get_inside("a.test")
    if answer.status == 200:
        line = proxy.access(lambda line: line["method"] == "GET")
        assert line["target"] == f"https://a.test:{server.port}/"
        assert len(server.requests()) == 1
    else:
        check_problem(answer, 400)


def test_absolute_form_of_the_very_host_is_fine_inside(intercepting, inside, origin):
    server = origin()
    client = inside(intercepting(), "a.test", server.port)
    host = f"a.test:{server.port}"
    assert client.exchange(f"GET https://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).body == b"ok"
    assert server.requests()[0].target == b"/x"


@pytest.mark.own_network
def test_port_443_needs_no_port_in_host(intercepting, inside, tls_origin, world):
    server = tls_origin(answering(OK), world.context(world.leaf("a.test")), port=443)
    client = inside(intercepting(), "a.test", 443)
    assert client.get_inside("a.test").body == b"ok"
    assert client.get_inside("a.test:443").body == b"ok"
    assert {request.value("Host") for request in server.requests()} <= {b"a.test", b"a.test:443"}


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
    ids=str,
)
def test_malformed_requests_inside_are_400(data, intercepting, inside, origin):
    server = origin()
    client = inside(intercepting(), "a.test", server.port)
    client.send(data)
    problem = check_problem(client.answer(), 400)
    assert problem.reference
    assert client.wait_for_end() == "closed"
    assert not server.requests()


def test_another_version_inside_is_505(intercepting, inside, origin):
    """ALPN offered HTTP/1.1 alone: a client that says the preface of HTTP/2 all the same is told the version."""
    server = origin()
    client = inside(intercepting(), "a.test", server.port)
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    check_problem(client.answer(), 505)
    assert client.wait_for_end() == "closed" and not server.requests()


def test_credentials_are_for_connect_and_not_inside(intercepting, secure_client, origin, authority, world):
    proxy = intercepting(proxy='credentials = { env = "USERS" }', environment={"USERS": "kiosk:word"})
    server = origin()
    check_problem(secure_client(proxy).tunnel("a.test", server.port), 407)
    client = secure_client(proxy)
    basic = "Proxy-Authorization: Basic a2lvc2s6d29yZA==\r\n"
    assert client.tunnel("a.test", server.port, basic).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    for _ in range(2):
        assert client.get_inside(f"a.test:{server.port}").body == b"ok"


def test_what_goes_wrong_upstream_is_an_answer_inside(intercepting, inside, tls_origin, secure_client, world):
    """CONNECT is answered 200 whatever is behind it."""
    proxy = intercepting(names={"absent.test": Answer(code=3)})
    closed = unused_port()
    problem = check_problem(inside(proxy, "a.test", closed).get_inside(f"a.test:{closed}"), 502, rule="seen")
    assert problem.error == "connection_refused"
    problem = check_problem(inside(proxy, "absent.test", 443).get_inside("absent.test"), 502, rule="seen")
    assert problem.error == "dns_error"
    private = tls_origin(answering(OK), world.context(world.leaf("a.test", issuer=world.private_issuing)))
    client = inside(proxy, "a.test", private.port)
    problem = check_problem(client.get_inside(f"a.test:{private.port}"), 502, rule="seen")
    assert (problem.token, problem.error) == ("certificate-untrusted", "tls_certificate_error")
    again = check_problem(client.get_inside(f"a.test:{private.port}"), 502, rule="seen")
    assert again.token == "certificate-untrusted", "the client's connection lives on"


def test_a_pin_mismatch_is_an_answer_inside(intercepting, inside, origin, world):
    first, second = certify("First"), certify("Second")
    policy = pins("p", 'mode = "public-key"', f'spki = ["{first.pin}", "{second.pin}"]')
    policy += rule("pinned", 'hosts = ["a.test"]', 'connect = "intercept"', security='pins = "p"')
    server = origin()
    client = inside(intercepting(policy), "a.test", server.port)
    problem = check_problem(client.get_inside(f"a.test:{server.port}"), 502, rule="pinned")
    assert problem.token == "pin-mismatch" and first.pin in problem.body["detail"]


def test_two_rules_inside_one_tunnel_use_connections_of_their_own(intercepting, inside, origin):
    policy = rule("old", 'hosts = ["a.test"]', 'paths = ["/old/*"]', security='max_tls = "1.2"')
    proxy, server = intercepting(policy, proxy="workers = 1"), origin()
    client = inside(proxy, "a.test", server.port)
    for path in ("/old/1", "/new/1", "/old/2", "/new/2"):
        assert client.get_inside(f"a.test:{server.port}", path).body == b"ok"
    served = {
        handshake.version: [request.target for request in server.connections[handshake.number].requests]
        for handshake in server.handshakes
    }
    assert served == {"TLSv1.2": [b"/old/1", b"/old/2"], "TLSv1.3": [b"/new/1", b"/new/2"]}


def test_requests_keep_both_connections(intercepting, inside, origin):
    proxy, server = intercepting(proxy="workers = 1"), origin()
    first, second = inside(proxy, "a.test", server.port), inside(proxy, "a.test", server.port)
    for number in range(10):
        for client in (first, second):
            assert client.get_inside(f"a.test:{server.port}", f"/{number}").body == b"ok"
    assert len(server.connections) == 1
    assert proxy.access(lambda line: (line["target"] or "").endswith("/9"))["reused"] is True


def test_connection_close_ends_with_close_notify(intercepting, inside, origin):
    server = origin()
    client = inside(intercepting(), "a.test", server.port)
    assert client.get_inside(f"a.test:{server.port}", lines="Connection: close\r\n").body == b"ok"
    assert client.wait_for_end() == "closed"
    assert client.secure.ended_with == "close_notify"


@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_a_client_that_says_close_notify_behind_its_request_is_answered(
    version, intercepting, inside, origin, authority
):
    server = origin()
    context = client_context(authority.file, maximum_version=version)
    client = inside(intercepting(), "a.test", server.port, context)
    client.send(f"GET / HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode())
    client.half_close()
    assert client.answer().body == b"ok"
    assert client.wait_for_end() == "closed"


def test_an_answer_that_runs_until_the_end_is_ended_with_close_notify(intercepting, inside, origin):
    """The client can tell a whole answer from one that was cut, and the proxy must not lend a cut one its own."""
    endless = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"

    def script(connection) -> None:
        target = connection.read_request().target
        connection.send(endless)
        if target == b"/cut":
            connection.socket.truncate()
            connection.wait_for_end()

    proxy, server = intercepting(), origin(script)
    whole = inside(proxy, "a.test", server.port)
    assert whole.get_inside(f"a.test:{server.port}", "/whole").body == b"all of it"
    cut = inside(proxy, "a.test", server.port)
    cut.send(f"GET /cut HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode())
    ended = cut.wait_for_end()
    chunked_and_open = b"chunked" in cut.received and not cut.received.endswith(b"0\r\n\r\n")
    assert ended == "reset" or cut.secure.ended_with != "close_notify" or chunked_and_open
    assert proxy.access(lambda line: (line["target"] or "").endswith("/cut"))["outcome"] != "done"


def test_an_http_1_0_client_inside(intercepting, inside, origin):
    server = origin(answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
    client = inside(intercepting(), "a.test", server.port)
    client.send(f"GET / HTTP/1.0\r\nHost: a.test:{server.port}\r\n\r\n".encode())
    assert client.answer().body == b"ok"
    assert client.wait_for_end() == "closed"


def test_pipelined_requests_inside(intercepting, inside, origin):
    def script(connection) -> None:
        while True:
            target = connection.read_request().target
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target))

    policy = rule("no", 'paths = ["/3"]', 'action = "deny"')
    server = origin(script)
    client = inside(intercepting(policy), "a.test", server.port)
    head = f"GET /%d HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode()
    client.send(b"".join(head % number for number in range(6)))
    answers = [client.answer() for _ in range(6)]
    assert [answer.status for answer in answers] == [200, 200, 200, 403, 200, 200]
    assert [answer.body for answer in answers if answer.status == 200] == [b"/0", b"/1", b"/2", b"/4", b"/5"]


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("version", [TLS12, TLS13], ids=["TLS 1.2", "TLS 1.3"])
def test_large_bodies_both_ways(version, framing, intercepting, inside, origin, authority):
    server = origin(echoing)
    context = client_context(authority.file, maximum_version=version)
    client = inside(intercepting(), "a.test", server.port, context)
    if framing == "length":
        lines, body = f"Content-Length: {len(LARGE)}", LARGE
    else:
        pieces = [LARGE[at : at + 50_021] for at in range(0, len(LARGE), 50_021)]
        lines = "Transfer-Encoding: chunked"
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    client.send(f"PUT / HTTP/1.1\r\nHost: a.test:{server.port}\r\n{lines}\r\n\r\n".encode() + body)
    answer = client.answer()
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(LARGE).digest()
    assert hashlib.sha256(server.requests()[0].body).digest() == hashlib.sha256(LARGE).digest()


def test_a_large_answer_that_is_read_slowly(intercepting, inside, origin):
    """A small receive buffer, so that TLS records are written in pieces; every byte arrives in order."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(LARGE)
    server = origin(answering(head + LARGE))
    client = inside(intercepting(), "a.test", server.port, receive_buffer=4096)
    answer = client.get_inside(f"a.test:{server.port}")
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(LARGE).digest()


def test_expect_100_continue_inside(intercepting, inside, origin):
    def script(connection) -> None:
        connection.read_head()
        connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = connection.read_body().body
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    server = origin(script)
    client = inside(intercepting(), "a.test", server.port)
    lines = f"Host: a.test:{server.port}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    client.send(f"PUT / HTTP/1.1\r\n{lines}".encode())
    assert client.message().status == 100
    client.send(b"sally")
    assert client.answer().body == b"sally"


def test_a_websocket_inside(intercepting, authority, world):
    """The library's own client and server, TLS on both sides, the proxy between.

    On one thread: its client with threads reads and writes one SSL object at once, and now and then loses what it wrote.
    """

    async def echo(connection) -> None:
        async for message in connection:
            await connection.send(message)

    async def converse(proxy: str) -> int:
        context = world.context(world.leaf("a.test"))
        async with websockets.asyncio.server.serve(echo, "127.0.0.1", 0, ssl=context, max_size=None) as server:
            port = server.sockets[0].getsockname()[1]
            trusting = ssl.create_default_context(cafile=authority.file)
            async with websockets.asyncio.client.connect(
                f"wss://a.test:{port}/chat", proxy=proxy, ssl=trusting, max_size=None
            ) as peer:
                for message in ("sally", LARGE[:1_000_000]):
                    await peer.send(message)
                    assert await asyncio.wait_for(peer.recv(), DEADLINE_SECONDS) == message
            return port

    proxy = intercepting()
    port = asyncio.run(converse(proxy.url))
    line = proxy.access(lambda line: line["method"] == "GET")
    assert (line["status"], line["target"]) == (101, f"https://a.test:{port}/chat")
    assert line["bytes_in"] > 1_000_000 and line["bytes_out"] > 1_000_000


def test_a_client_that_is_slow_inside_is_408(intercepting, inside, origin):
    proxy, server = intercepting('[proxy.timeouts]\nclient_header = "300ms"\n'), origin()
    client = inside(proxy, "a.test", server.port)
    assert client.get_inside(f"a.test:{server.port}").body == b"ok"
    client.send(b"GET / HTTP/1.1\r\nHo")
    check_problem(client.answer(), 408)


def test_an_idle_client_inside_is_closed(intercepting, inside, origin):
    proxy, server = intercepting('[proxy.timeouts]\nclient_idle = "300ms"\n'), origin()
    client = inside(proxy, "a.test", server.port)
    assert client.get_inside(f"a.test:{server.port}").body == b"ok"
    assert client.wait_for_end() == "closed"
    assert client.secure.ended_with == "close_notify"


def test_sigterm_lets_a_request_inside_finish(intercepting, inside, origin):
    released = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        connection.events = None
        server.note("asked")
        released.wait(DEADLINE_SECONDS)
        connection.send(OK)

    proxy, server = intercepting(), origin(script)
    client = inside(proxy, "a.test", server.port)
    client.send(f"GET / HTTP/1.1\r\nHost: a.test:{server.port}\r\n\r\n".encode())
    server.wait_for("asked")
    proxy.terminate()
    released.set()
    assert client.answer().body == b"ok"
    assert client.wait_for_end() == "closed"
    assert proxy.wait_for_exit() == 0


# The authority


def test_the_key_comes_from_a_credential(secure_proxy, inside, origin, tmp_path):
    made = init_authority(tmp_path / "authority")
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (made.directory / "authority.key").rename(credentials / "ca-key")
    table = made.table + 'key = { credential = "ca-key" }\n'
    proxy = secure_proxy(table + INTERCEPT, environment={"CREDENTIALS_DIRECTORY": str(credentials)})
    server = origin()
    client = inside(proxy, "a.test", server.port, client_context(made.file))
    assert client.get_inside(f"a.test:{server.port}").body == b"ok"


def test_the_key_is_for_its_owner_only_and_is_never_overwritten(tmp_path):
    made = init_authority(tmp_path / "authority")
    key = made.directory / "authority.key"
    assert key.stat().st_mode & 0o777 == 0o600
    before = (key.read_bytes(), made.file.read_bytes())
    command("ca", "init", "--directory", made.directory)
    show = command("ca", "show", "--directory", made.directory)
    assert show.returncode == 0 and "PRIVATE KEY" not in show.stdout
    kept = {path.read_bytes() for path in made.directory.rglob("*") if path.is_file()}
    assert set(before) <= kept, "an authority that clients trust was thrown away"


def test_what_the_authority_is_like(authority):
    ca = x509.load_pem_x509_certificate(authority.file.read_bytes())
    constraints = ca.extensions.get_extension_for_oid(ExtensionOID.BASIC_CONSTRAINTS)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    usage = ca.extensions.get_extension_for_oid(ExtensionOID.KEY_USAGE)
    assert usage.critical and usage.value.key_cert_sign
    assert isinstance(ca.public_key().curve, ec.SECP256R1)
    exported = command("ca", "export", "--directory", authority.directory)
    assert exported.stdout.encode().strip() == authority.file.read_bytes().strip()


def test_a_roll_over(secure_proxy, inside, origin, tmp_path):
    """Two authorities live: a program that trusts both of them notices nothing when the next one takes over."""
    made = init_authority(tmp_path / "authority")
    first = x509.load_pem_x509_certificate(made.file.read_bytes())
    init_authority(made.directory)
    proxy, server = secure_proxy(made.table + INTERCEPT), origin()
    both = made.directory / "both.pem"
    both.write_text(command("ca", "export", "--directory", made.directory).stdout)
    client = inside(proxy, "a.test", server.port, client_context(both))
    assert client.certificate.issuer == first.subject
    assert command("ca", "activate", "--directory", made.directory).returncode == 0
    assert proxy.reload(policy=proxy.head + made.table + INTERCEPT)["level"] != "error"
    after = inside(proxy, "a.test", server.port, client_context(both))
    assert after.certificate.issuer != first.subject
    for each in (client, after):
        assert each.get_inside(f"a.test:{server.port}").body == b"ok"


def test_an_authority_with_name_constraints(secure_proxy, inside, origin, tmp_path):
    """`--permit` is in the certificate, so that not even a stolen key could speak for other names."""
    made = init_authority(tmp_path / "authority", "--permit", "a.test")
    ca = x509.load_pem_x509_certificate(made.file.read_bytes())
    permitted = extension(ca, ExtensionOID.NAME_CONSTRAINTS).permitted_subtrees
    assert x509.DNSName("a.test") in permitted
    proxy, server = secure_proxy(made.table + INTERCEPT), origin(names=("a.test", "b.test"))
    client = inside(proxy, "a.test", server.port, client_context(made.file))
    assert client.get_inside(f"a.test:{server.port}").body == b"ok"


def test_a_host_outside_the_name_constraints_is_said_to_be_so(secure_proxy, secure_client, origin, tmp_path):
    """No client would accept a leaf for it; whatever the proxy does, it must not pass the tunnel unseen."""
    made = init_authority(tmp_path / "authority", "--permit", "a.test")
    proxy, server = secure_proxy(made.table + INTERCEPT), origin(names=("b.test",))
    client = secure_client(proxy)
    answer = client.tunnel("b.test", server.port)
    if answer.status == 200:
        client.looked_at = False
        with pytest.raises(OSError):
            client.shake_hands(client_context(made.file), "b.test")
    else:
        check_problem(answer, answer.status, rule="seen")
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert line["outcome"] != "done"
    assert not server.handshakes
