"""A world of TLS for the tests: authorities and certificates of every kind, origins with knobs, and clients inside tunnels.

    world.leaf("a.test")                 a certificate and its key under the root that the proxy is told to trust
    TLSOrigin(script, contexts)          RawOrigin behind TLS: what each handshake brought is noted, scripts run inside
    SecureClient                         RawClient that sends CONNECT and then speaks TLS in the tunnel
    SecureSocket                         TLS over a plain socket with every byte in our hands
    ChainServer                          nginx with one site a certificate chain, TLS 1.2 on one port and 1.3 on another
    secure_proxy(policy)                 a proxy that knows every name as 127.0.0.1 and trusts the world's root
    intercepting(policy)                 the same, with a local authority, and what the tests speak to intercepted

Certificates are made with `cryptography`, but for the signature that it refuses to make (SHA-1), which openssl makes.
"""

import base64
import contextlib
import datetime
import hashlib
import ipaddress
import socket
import ssl
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certificates import openssl
from conftest import need, stop_all
from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import ClosedByProxy, OriginConnection, RawOrigin, unused_port, wait_until_it_listens
from proxy import Proxy, command
from raw_client import RawClient
from strict_http import Message

NOW = datetime.datetime.now(datetime.timezone.utc)
DAY = datetime.timedelta(days=1)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
OK_AND_CLOSE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


# Certificates


@dataclass(frozen=True)
class Identity:
    """A certificate, its key and who signed it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    issuer: "Identity | None" = field(default=None, repr=False)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def key_digest(self) -> bytes:
        """SHA-256 of the SubjectPublicKeyInfo (RFC 7469 §2.4)."""
        encoded = self.certificate.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return hashlib.sha256(encoded).digest()

    @property
    def pin(self) -> str:
        return "sha256/" + base64.b64encode(self.key_digest).decode()


def alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def certify(
    subject: str,
    *,
    names: tuple[str, ...] = (),
    issuer: Identity | None = None,
    authority: bool = False,
    path_length: int | None = None,
    starts: datetime.datetime = NOW - DAY,
    ends: datetime.datetime = NOW + 100 * DAY,
    purpose: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.SERVER_AUTH,
    key: ec.EllipticCurvePrivateKey | None = None,
) -> Identity:
    """A certificate for a P-256 key, signed by the issuer or by itself, with the extensions that strict checks ask for."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    signer_key = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer.certificate.subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=path_length), critical=True)
        .add_extension(key_usage(authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False
        )
    )
    if purpose and not authority:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([alternative_name(name) for name in names]), critical=False
        )
    return Identity(builder.sign(signer_key, hashes.SHA256()), key, issuer)


def key_usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def chain_pem(chain: list[Identity]) -> bytes:
    return b"".join(identity.pem for identity in chain)


class World:
    """`root` is what the proxy trusts here, `issuing` signs leaves under it; `private` is an authority that nobody trusts."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.made = 0
        self.root = certify("Root of the test", authority=True, ends=NOW + 400 * DAY)
        self.issuing = certify("Issuing of the test", issuer=self.root, authority=True, path_length=0)
        self.private = certify("Private root", authority=True, ends=NOW + 400 * DAY)
        self.private_issuing = certify("Private issuing", issuer=self.private, authority=True, path_length=0)
        self.root_file = self.file(self.root.pem)
        self.private_file = self.file(self.private.pem)

    def file(self, content: bytes, suffix: str = ".pem") -> Path:
        """A new file with this content."""
        self.made += 1
        path = self.directory / f"{self.made}{suffix}"
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    def leaf(self, *names: str, issuer: Identity | None = None, **arguments) -> Identity:
        return certify(f"Leaf {names[0]}"[:60], names=names, issuer=issuer or self.issuing, **arguments)

    def weakly_signed(self, *names: str) -> Identity:
        """A leaf whose signature is over SHA-1, which security level 2 forbids."""
        strong = self.leaf(*names)
        request = x509.CertificateSigningRequestBuilder().subject_name(strong.certificate.subject)
        encoded = request.sign(strong.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        extensions = self.file(
            b"basicConstraints = critical, CA:FALSE\nkeyUsage = critical, digitalSignature\n"
            b"extendedKeyUsage = serverAuth\nauthorityKeyIdentifier = keyid\nsubjectAltName = "
            + ", ".join(f"DNS:{name}" for name in names).encode()
        )
        weak = openssl(
            *["x509", "-req", "-sha1", "-days", "30", "-extfile", extensions, "-in", self.file(encoded)],
            *["-CA", self.file(self.issuing.pem), "-CAkey", self.file(self.issuing.key_pem)],
        )
        return Identity(x509.load_pem_x509_certificate(weak), strong.key, self.issuing)

    def context(
        self,
        leaf: Identity,
        *above: Identity,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        alpn: tuple[str, ...] = (),
        client_authority: Identity | None = None,
        client_needed: bool = True,
        ciphers: str = "DEFAULT@SECLEVEL=0",
    ) -> ssl.SSLContext:
        """How an origin shows this leaf. Without `above`, the issuers below the root are sent along as they should."""
        chain = list(above)
        issuer = leaf.issuer
        while not above and issuer and issuer.issuer:
            chain.append(issuer)
            issuer = issuer.issuer
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(ciphers)
        context.minimum_version, context.maximum_version = minimum, maximum
        context.load_cert_chain(self.file(chain_pem([leaf, *chain]) + leaf.key_pem))
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if client_authority:
            context.verify_mode = ssl.CERT_REQUIRED if client_needed else ssl.CERT_OPTIONAL
            context.load_verify_locations(self.file(client_authority.pem))
        return context


# TLS with every byte in our hands


@dataclass(frozen=True)
class Hello:
    """What a ClientHello says, as far as tests ask (RFC 8446 §4.1.2)."""

    server_name: str | None
    alpn: tuple[str, ...]
    versions: tuple[int, ...]
    ciphers: tuple[int, ...]
    ticket: bool  # a session is offered: a pre_shared_key, or a session_ticket that is not empty


def read_hello(message: bytes) -> Hello:
    """A handshake message of type client_hello, its header included."""
    at = 4 + 2 + 32
    at += 1 + message[at]
    length = struct.unpack_from("!H", message, at)[0]
    ciphers = struct.unpack_from(f"!{length // 2}H", message, at + 2)
    at += 2 + length
    at += 1 + message[at]
    end = at + 2 + struct.unpack_from("!H", message, at)[0]
    at += 2
    extensions = {}
    while at < end:
        kind, length = struct.unpack_from("!HH", message, at)
        extensions[kind] = message[at + 4 : at + 4 + length]
        at += 4 + length
    name = extensions.get(0, b"")[5:].decode("ascii") or None
    protocols, rest = [], extensions.get(16, b"\0\0")[2:]
    while rest:
        protocols.append(rest[1 : 1 + rest[0]].decode("ascii"))
        rest = rest[1 + rest[0] :]
    versions = extensions.get(43, b"\0")[1:]
    return Hello(
        name,
        tuple(protocols),
        struct.unpack(f"!{len(versions) // 2}H", versions),
        ciphers,
        41 in extensions or bool(extensions.get(35)),
    )


class SecureSocket:
    """TLS over a connected socket, with the parts of a socket that RawClient and OriginConnection use."""

    def __init__(self, plain: socket.socket):
        self.plain = plain
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.secured: ssl.SSLObject | None = None
        self.raw_received = bytearray()
        self.ended_with: str | None = None  # "close_notify" | "end of file" | what OpenSSL says of an alert

    # The handshake

    def serve(self, context_for) -> Hello:
        """The handshake of a server; `context_for` takes the ClientHello and gives the context to answer it with."""
        while len(message := self._first_message()) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
            if not self._fill():
                raise ClosedByProxy
        hello = read_hello(message)
        self.secured = context_for(hello).wrap_bio(self.incoming, self.outgoing, server_side=True)
        self._step(self.secured.do_handshake)
        return hello

    def _first_message(self) -> bytes:
        """The handshake messages so far, out of their records."""
        message, at = b"", 0
        while at + 5 <= len(self.raw_received):
            if self.raw_received[at] != 22:
                raise ssl.SSLError("no handshake record")
            length = struct.unpack_from("!H", self.raw_received, at + 3)[0]
            message += self.raw_received[at + 5 : at + 5 + length]
            at += 5 + length
        return bytes(message)

    def begin(self, context: ssl.SSLContext, server_name: str | None, session=None) -> bytes:
        """The client's first flight: the bytes of its ClientHello, not sent yet."""
        self.secured = context.wrap_bio(
            self.incoming, self.outgoing, server_hostname=server_name, session=session
        )
        try:
            self.secured.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self.outgoing.read()

    def finish(self, then: bytes = b"") -> None:
        """The rest of the client's handshake; `then` leaves in one segment with its last flight."""

        def last_step() -> None:
            self.secured.do_handshake()
            if then:
                self.secured.write(then)

        self._step(last_step)

    # What a socket does

    def recv(self, count: int) -> bytes:
        try:
            data = self._step(self.secured.read, count)
            self.ended_with = None if data else "close_notify"
            return data
        except (ssl.SSLEOFError, ssl.SSLSyscallError):
            self.ended_with = "end of file"
        except ssl.SSLError as alert:
            self.ended_with = str(alert)
        return b""

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._step(self.secured.write, view[: 1 << 20]) :]

    def send_close_notify(self) -> None:
        try:
            self.secured.unwrap()
        except ssl.SSLError:
            pass  # the peer's own close_notify is not waited for
        self._flush()

    def close(self) -> None:
        """As a polite peer does: close_notify, then the end of the connection."""
        try:
            if self.secured and self.plain.fileno() >= 0:
                self.send_close_notify()
        except OSError:
            pass
        self.plain.close()

    def shutdown(self, how: int) -> None:
        if how == socket.SHUT_WR and self.secured:
            self.send_close_notify()
        self.plain.shutdown(how)

    def reset(self) -> None:
        self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.plain.close()

    def truncate(self) -> None:
        """End the connection without close_notify, as an attacker on the path can."""
        self.plain.shutdown(socket.SHUT_WR)

    def linger(self) -> None:
        """Let an alert arrive: closing at once would reset the connection if more bytes of the peer are on their way."""
        try:
            self.plain.shutdown(socket.SHUT_WR)
            while self.plain.recv(65536):
                pass
        except OSError:
            pass

    def fileno(self) -> int:
        return self.plain.fileno()

    def settimeout(self, seconds: float | None) -> None:
        self.plain.settimeout(seconds)

    def setsockopt(self, *arguments) -> None:
        self.plain.setsockopt(*arguments)

    def _fill(self) -> bool:
        data = self.plain.recv(262144)
        self.raw_received += data
        self.incoming.write(data)
        if not data:
            self.incoming.write_eof()
        return bool(data)

    def _flush(self) -> None:
        if data := self.outgoing.read():
            self.plain.sendall(data)

    def _step(self, call, *arguments):
        while True:
            try:
                result = call(*arguments)
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            except ssl.SSLError:
                with contextlib.suppress(OSError):  # the peer may have gone
                    self._flush()  # the alert
                raise


class TricklingSocket:
    """A socket that sends one byte at a time."""

    def __init__(self, plain: socket.socket):
        self.plain = plain
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def sendall(self, data: bytes) -> None:
        for offset in range(len(data)):
            self.plain.sendall(data[offset : offset + 1])

    def __getattr__(self, name: str):
        return getattr(self.plain, name)


class RecordSplittingSocket(TricklingSocket):
    """A socket that sends the first flight in records of one byte each, after `before`, which is sent as it is."""

    def __init__(self, plain: socket.socket, before: bytes = b""):
        super().__init__(plain)
        self.before = before
        self.first = True

    def sendall(self, data: bytes) -> None:
        self.plain.sendall(self.before + in_records_of(1, data) if self.first else data)
        self.first = False


def in_records_of(size: int, flight: bytes) -> bytes:
    """The same handshake messages, not encrypted, over records of so many bytes (RFC 8446 §5.1)."""
    messages, version = b"", flight[1:3]
    while flight:
        length = struct.unpack_from("!H", flight, 3)[0]
        messages, flight = messages + flight[5 : 5 + length], flight[5 + length :]
    pieces = [messages[at : at + size] for at in range(0, len(messages), size)]
    return b"".join(b"\x16" + version + struct.pack("!H", len(piece)) + piece for piece in pieces)


@dataclass(frozen=True)
class Handshake:
    """What an origin saw of one handshake that succeeded."""

    number: int
    hello: Hello
    version: str
    cipher: str
    alpn: str | None
    resumed: bool
    client_certificate: bytes | None  # DER

    @property
    def server_name(self) -> str | None:
        return self.hello.server_name


class TLSOrigin(RawOrigin):
    """RawOrigin behind TLS. `contexts` is one SSLContext, one for each server name, or a function of (number, Hello).

    `handshakes` are those that succeeded; `failures_of_handshakes` are the others: (number, what OpenSSL said).
    `tunnelled` says that the bytes inside are a client's own, so that they are not checked as a forwarded request's.
    """

    def __init__(self, script, contexts, address: str = "127.0.0.1", port: int = 0, tunnelled: bool = False):
        self.contexts = contexts
        self.tunnelled = tunnelled
        self.handshakes: list[Handshake] = []
        self.failed_handshakes: list[tuple[int, str]] = []
        super().__init__(script, address, port)

    def context_for(self, number: int, hello: Hello) -> ssl.SSLContext:
        if isinstance(self.contexts, ssl.SSLContext):
            return self.contexts
        if isinstance(self.contexts, dict):
            return self.contexts[hello.server_name]
        return self.contexts(number, hello)

    def _run(self, connection: OriginConnection) -> None:
        secure = SecureSocket(connection.socket)
        connection.socket = secure
        if self.tunnelled:
            connection.switch_protocol()
        try:
            hello = secure.serve(lambda hello: self.context_for(connection.number, hello))
            secured = secure.secured
            handshake = Handshake(
                connection.number,
                hello,
                secured.version(),
                secured.cipher()[0],
                secured.selected_alpn_protocol(),
                secured.session_reused,
                secured.getpeercert(True),
            )
        except ClosedByProxy:
            self.note("silent", connection.number)
        except OSError as failure:  # ssl.SSLError is one
            self.failed_handshakes.append((connection.number, str(failure)))
            self.note("handshake failed", connection.number, str(failure))
            secure.linger()
        else:
            self.handshakes.append(handshake)
            self.note("handshake", connection.number)
            super()._run(connection)
            return
        secure.plain.close()
        self.note("done", connection.number, connection.ended)

    @property
    def url(self) -> str:
        return f"https://{self.authority}"

    def bytes_of_requests(self) -> bytes:
        """What was said inside TLS, on all connections."""
        return b"".join(bytes(connection.received) for connection in self.connections)


def answering_and_closing(*answers: bytes):
    """One answer a connection, then close_notify and the end; the last one serves all that follow."""
    waiting = list(answers or [OK_AND_CLOSE])

    def script(connection: OriginConnection) -> None:
        connection.read_request()
        connection.send(waiting.pop(0) if len(waiting) > 1 else waiting[0])

    return script


# Clients


def client_context(*authorities: Identity | Path, **versions: ssl.TLSVersion) -> ssl.SSLContext:
    """Trusts these authorities; without any, whatever it is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    if not authorities:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for authority in authorities:
        path = authority if isinstance(authority, Path) else None
        context.load_verify_locations(path, cadata=None if path else authority.pem.decode())
    for name, version in versions.items():
        setattr(context, name, version)
    return context


class SecureClient(RawClient):
    """RawClient that can go on in TLS through a tunnel; `sent` and `received` are then what is inside."""

    secure: SecureSocket | None = None

    def tunnel(self, host: str, port: int, lines: str = "", then: bytes = b"") -> Message:
        """Send CONNECT, and `then` with it, in one segment; the proxy's answer to it."""
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n".encode()
        self.socket.sendall(head + then)
        self.sent += head
        return self.answer()

    def shake_hands(
        self, context: ssl.SSLContext, server_name: str | None, sending=None, session=None
    ) -> None:
        """TLS in the tunnel. `sending` sends the ClientHello, in the test's own way."""
        self.begin_handshake(context, server_name, sending, session)
        self.finish_handshake()

    def begin_handshake(
        self, context: ssl.SSLContext, server_name: str | None, sending=None, session=None
    ) -> None:
        self.secure = SecureSocket(self.socket)
        (sending or self.send)(self.secure.begin(context, server_name, session))

    def finish_handshake(self, then: bytes = b"") -> None:
        rest = self.unread()
        self.check()
        self.secure.incoming.write(rest)
        self.secure.finish(then)
        self.enter()
        self.sent += then

    def enter(self) -> None:
        """From here on, everything is inside."""
        self.socket = self.secure
        self.sent, self.received = bytearray(), bytearray()
        self.read_to = self.answered = 0
        self.forget_what_was_asked()

    def leave(self) -> None:
        """Say that nothing more will be asked, and wait until the other side has ended as well."""
        self.half_close()
        self.wait_for_end()
        self.close()

    @property
    def certificate(self) -> x509.Certificate:
        return x509.load_der_x509_certificate(self.secure.secured.getpeercert(True))

    def nothing_came(self) -> bool:
        return super().nothing_came() and not (self.secure and self.secure.incoming.pending)

    def get_inside(self, host: str, path: str = "/", lines: str = "") -> Message:
        return self.exchange(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode())


def get(
    host: str, port: int, path: str = "/", lines: str = "", method: str = "GET", scheme: str = "https"
) -> bytes:
    """A request in absolute form, as BusyBox wget sends it."""
    authority = f"{host}:{port}"
    return f"{method} {scheme}://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n".encode()


# nginx


SITE = """
  server {{
    listen 127.0.0.1:{port} ssl;
    server_name {names};
    ssl_protocols {protocol};
    ssl_ciphers DEFAULT@SECLEVEL=0;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    {more}
    location / {{ return 200 "ok"; }}
  }}"""
CHAIN_SERVER = """
user root;
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log {directory}/access.log;
  default_type text/plain;
  keepalive_timeout 0;
  server_names_hash_bucket_size 128;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
{sites}
}}
"""


@dataclass(frozen=True)
class Site:
    """A chain to be shown for these names, and more lines of nginx's configuration."""

    names: tuple[str, ...]
    chain: list[Identity]
    more: str = ""


class ChainServer:
    """nginx that shows each chain for its names: `ports["TLSv1.2"]` and `ports["TLSv1.3"]`."""

    def __init__(self, world: World, directory: Path, sites: list[Site]):
        need("nginx")
        self.ports = {"TLSv1.2": unused_port(), "TLSv1.3": unused_port()}
        blocks = []
        for site in sites:
            certificate, key = world.file(chain_pem(site.chain)), world.file(site.chain[0].key_pem)
            for protocol, port in self.ports.items():
                blocks.append(
                    SITE.format(
                        port=port,
                        names=" ".join(site.names),
                        protocol=protocol,
                        certificate=certificate,
                        key=key,
                        more=site.more,
                    )
                )
        configuration = directory / "nginx.conf"
        configuration.write_text(CHAIN_SERVER.format(directory=directory, sites="\n".join(blocks)))
        self.process = subprocess.Popen(
            ["nginx", "-p", directory, "-e", directory / "error.log", "-c", configuration],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for port in self.ports.values():
            wait_until_it_listens(port, self.process, directory / "error.log")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_SECONDS)


# Proxies


def trust(world: World) -> str:
    return f'[trust]\nanchors = "{world.root_file}"\n'


def rule(name: str, *lines: str, security: str = "", request: str = "") -> str:
    """One [[rule]] with its sub-tables."""
    text = "\n".join([f'[[rule]]\nname = "{name}"', *lines, ""])
    if security:
        text += f"[rule.security]\n{security}\n"
    if request:
        text += f"[rule.request]\n{request}\n"
    return text


def pins(name: str, *lines: str) -> str:
    return "\n".join([f"[pins.{name}]", *lines, ""])


@dataclass(frozen=True)
class LocalAuthority:
    """What `sallyport ca init` made."""

    directory: Path

    @property
    def file(self) -> Path:
        return self.directory / "authority.pem"

    @property
    def table(self) -> str:
        return f'[authority]\ndirectory = "{self.directory}"\n'


def init_authority(directory: Path, *arguments: str) -> LocalAuthority:
    done = command("ca", "init", "--directory", directory, *arguments)
    assert done.returncode == 0, f"sallyport ca init: {done.stdout}{done.stderr}"
    return LocalAuthority(directory)


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> World:
    need("openssl")
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def authority(sallyport_binary, tmp_path_factory) -> LocalAuthority:
    """One authority for all tests that intercept."""
    return init_authority(tmp_path_factory.mktemp("authority") / "made")


@pytest.fixture
def secure_proxy(sallyport, dns_server, world):
    """A function that starts a proxy with this policy; every name is 127.0.0.1 and the world's root is trusted."""

    def start(policy: str = "", proxy: str = "", trusted: str | None = None, **arguments) -> Proxy:
        names = dns_server(arguments.pop("names", {}), otherwise=Answer(a=["127.0.0.1"]))
        anchors = trust(world) if trusted is None else trusted
        head = f'[dns]\nservers = ["{names.address}"]\n{anchors}'
        # A port of its own, so that a reload has nothing to say of `listen`: its first line is then its outcome.
        listen = arguments.pop("listen", f'["127.0.0.1:{unused_port()}"]')
        started = sallyport(proxy=proxy, policy=head + policy, listen=listen, **arguments)
        started.head = head  # for tests that reload
        return started

    return start


# Of every host that the tests intercept.
INTERCEPT = rule("seen", 'hosts = ["**.test", "127.0.0.1", "::1", "localhost"]', 'connect = "intercept"')


@pytest.fixture
def intercepting(secure_proxy, authority):
    """A function that starts a proxy with the authority; INTERCEPT comes after the rules of the test."""

    def start(policy: str = "", **arguments) -> Proxy:
        return secure_proxy(authority.table + policy + INTERCEPT, **arguments)

    return start


@pytest.fixture
def tls_origin():
    """A function that starts a TLS origin; every byte inside is checked at the end."""
    running: list[TLSOrigin] = []

    def start(script, contexts, **arguments) -> TLSOrigin:
        running.append(TLSOrigin(script, contexts, **arguments))
        return running[-1]

    yield start
    stop_all(running)


@pytest.fixture
def secure_client():
    """A function that connects to a proxy, for tunnels with TLS in them; what came is checked at the end."""
    clients: list[SecureClient] = []

    def connect(proxy: Proxy, **arguments) -> SecureClient:
        clients.append(SecureClient(proxy.address, **arguments))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
    for client in clients:
        if client.looked_at:
            client.check()
