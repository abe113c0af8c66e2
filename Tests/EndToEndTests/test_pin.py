"""sallyport pin: what it shows of a server's or a file's certificates, what it says of each as a pin, and its failures.

The table that it prints is pasted into a configuration and read by `sallyport check`; which pins are called backups is
compared with what is known of the chain here, not with what the command thinks.
"""

import json
import re
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from certificates import openssl
from conftest import stop_all
from journal import DEADLINE_SECONDS
from origins import unused_port
from proxy import command
from tls_world import DAY, NOW, Identity, certify, world


class Server:
    """Shakes hands with whoever comes, notes the server name each asked for, and waits for the end."""

    def __init__(self, context: ssl.SSLContext, address: str):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, 0), family=family)
        self.port = self.listener.getsockname()[1]
        self.context = context
        self.server_names: list[str | None] = []
        self.protocols: list[str | None] = []
        context.sni_callback = lambda secured, name, _: self.server_names.append(name)
        context.set_alpn_protocols(["http/1.1"])
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(DEADLINE_SECONDS)
            try:
                with self.context.wrap_socket(connection, server_side=True) as secured:
                    self.protocols.append(secured.selected_alpn_protocol())
                    secured.recv(1)
            except OSError:  # it refuses what we show, or has seen enough
                connection.close()

    def stop(self) -> None:
        """Once the connection that it may have is over."""
        if self.thread.is_alive():
            self.listener.shutdown(socket.SHUT_RDWR)
            self.thread.join()
            self.listener.close()


@pytest.fixture
def serve(world):
    """A function that starts a server which shows this chain; answers its port and the server."""
    running: list[Server] = []

    def start(leaf: Identity, *above: Identity, **arguments):
        address = arguments.pop("address", "127.0.0.1")
        running.append(Server(world.context(leaf, *above, **arguments), address))
        return running[-1].port, running[-1]

    yield start
    stop_all(running)


def pin(*arguments, expect: int = 0) -> dict:
    """`sallyport pin --json`."""
    done = command("pin", "--json", *map(str, arguments))
    assert done.returncode == expect, done.stdout + done.stderr
    return json.loads(done.stdout)


def roles(answer: dict) -> list[tuple[str, bool, str]]:
    """(role, sent, common name)"""
    return [(found["role"], found["sent"], found["subject"]) for found in answer["certificates"]]


def subject(identity: Identity) -> str:
    return identity.certificate.subject.rfc4514_string()


# Chains


def test_a_chain_that_verifies(serve, world):
    leaf = world.leaf("localhost", "127.0.0.1", ends=NOW + 50.5 * DAY)
    port, _ = serve(leaf)
    answer = pin(f"localhost:{port}", "--anchors", world.root_file)
    assert (answer["host"], answer["port"]) == ("localhost", port)
    assert (answer["verified"], answer["fault"], answer["name_matches"]) == (True, None, True)
    assert roles(answer) == [
        ("leaf", True, subject(leaf)),
        ("intermediate", True, subject(world.issuing)),
        ("root", False, subject(world.root)),
    ]
    assert [found["pin"] for found in answer["certificates"]] == [
        leaf.pin,
        world.issuing.pin,
        world.root.pin,
    ]
    assert [found["backup"] for found in answer["certificates"]] == [False, True, True]
    shown = answer["certificates"][0]
    assert shown["names"] == ["localhost", "127.0.0.1"]
    assert shown["key"] == "EC P-256"
    assert shown["issuer"] == subject(world.issuing)
    assert shown["days_left"] == 50
    assert shown["not_after"] == leaf.certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert int(shown["serial"], 16) == leaf.certificate.serial_number


def test_the_text_says_the_same(serve, world):
    leaf = world.leaf("localhost", ends=NOW + 50.5 * DAY)
    port, _ = serve(leaf)
    done = command("pin", f"localhost:{port}", "--anchors", world.root_file)
    assert done.returncode == 0 and done.stderr == ""
    for expected in (
        f"localhost:{port} (127.0.0.1:{port}, TLSv1.3)",
        f"verified against {world.root_file}",
        "for 'localhost'",
        f"pin      {leaf.pin}",
        f"pin      {world.issuing.pin}",
        f"pin      {world.root.pin}",
        "50 days left",
        "names    localhost",
        "3. root, not sent: an anchor",
        "good backup",
    ):
        assert expected in done.stdout, done.stdout


def check_pasted(directory, table: str, *options: str):
    name = re.search(r"^\[pins\.(.+)\]$", table, re.MULTILINE)[1]
    rule = f'[[rule]]\nname = "r"\nhosts = ["localhost"]\n[rule.security]\npins = "{name}"\n'
    path = directory / "sallyport.toml"
    path.write_text(table + rule)
    return command("check", "--config", path, *options)


def test_the_table_can_be_pasted(serve, world, tmp_path):
    leaf = world.leaf("localhost")
    port, _ = serve(leaf)
    done = command("pin", f"localhost:{port}", "--anchors", world.root_file)
    # The whole of it: what is no table is comment.
    table = done.stdout
    live = [line for line in table.splitlines() if line.lstrip().startswith('"sha256/')]
    assert [line.split('"')[1] for line in live] == [leaf.pin, world.issuing.pin]
    assert f'# "{world.root.pin}"' in table
    checked = check_pasted(tmp_path, table, "--strict")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_advice_on_a_rule_is_valid(serve, world, tmp_path):
    port, _ = serve(world.leaf("a.test"))
    table = pin(f"127.0.0.1:{port}", "--server-name", "a.test", "--anchors", world.root_file)["toml"]
    assert table.startswith("# in a rule:\n")
    lines = "\n".join(re.findall(r"^# (security\..*)$", table, re.MULTILINE))
    path = tmp_path / "sallyport.toml"
    path.write_text(f'[[rule]]\nname = "r"\nhosts = ["b.test"]\n{lines}\n{table}')
    checked = command("check", "--config", path, "--strict")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert 'security.server_name = "a.test"' in lines


def test_a_lone_pin_says_what_is_missing(serve, tmp_path):
    port, _ = serve(certify("alone", names=("localhost",)))
    answer = pin(f"localhost:{port}")
    assert "no backup here" in answer["toml"]
    assert check_pasted(tmp_path, answer["toml"]).returncode == 0
    strict = check_pasted(tmp_path, answer["toml"], "--strict")
    assert strict.returncode == 1 and "backup" in strict.stdout + strict.stderr


def test_a_certificate_of_no_chain_is_no_backup(serve, world):
    """What a server appends, and nothing vouches for it, could be anybody's."""
    leaf = world.leaf("localhost")
    port, _ = serve(leaf, world.issuing, world.private)
    answer = pin(f"localhost:{port}", "--anchors", world.root_file)
    assert answer["verified"] is True
    assert ("unverified", True, subject(world.private)) in roles(answer)
    assert world.private.pin not in answer["toml"]
    worth = next(found["worth"] for found in answer["certificates"] if found["role"] == "unverified")
    assert "never met" in worth


def test_a_chain_out_of_order_is_put_together(serve, world):
    between = certify("Between", issuer=world.root, authority=True, path_length=1)
    below = certify("Below", issuer=between, authority=True, path_length=0)
    leaf = world.leaf("localhost", issuer=below)
    port, _ = serve(leaf, between, below)
    answer = pin(f"localhost:{port}", "--anchors", world.root_file)
    assert answer["verified"] is True
    assert {found["role"] for found in answer["certificates"][1:3]} == {"intermediate"}


def test_an_unknown_authority_is_said_and_nothing_but_the_leaf_is_pinned(serve, world):
    leaf = world.leaf("localhost", issuer=world.private_issuing)
    port, _ = serve(leaf)
    answer = pin(f"localhost:{port}", "--anchors", world.root_file)
    assert answer["verified"] is False and answer["fault"]
    assert answer["name_matches"] is True
    assert roles(answer) == [
        ("leaf", True, subject(leaf)),
        ("unverified", True, subject(world.private_issuing)),
    ]
    assert world.private_issuing.pin not in answer["toml"]
    assert "allow_invalid_certificates" in answer["certificates"][0]["worth"]


def test_a_chain_that_is_incomplete_is_not_verified(serve, world):
    context_free = certify("Leaf alone", names=("localhost",), issuer=world.issuing)
    port, _ = serve(Identity(context_free.certificate, context_free.key))
    answer = pin(f"localhost:{port}", "--anchors", world.root_file)
    assert answer["verified"] is False
    assert [found["role"] for found in answer["certificates"]] == ["leaf"]


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"ends": NOW - 3 * DAY, "starts": NOW - 30 * DAY}, "expired 3 days ago"),
        ({"starts": NOW + 3 * DAY}, "not valid yet"),
    ],
)
def test_a_certificate_out_of_its_time(serve, world, arguments, text):
    port, _ = serve(world.leaf("localhost", **arguments))
    done = command("pin", f"localhost:{port}", "--anchors", world.root_file)
    assert done.returncode == 0
    assert "not verified" in done.stdout and text in done.stdout


# Names


def test_another_name_is_said(serve, world):
    port, _ = serve(world.leaf("a.test"))
    answer = pin(f"localhost:{port}", "--anchors", world.root_file)
    assert (answer["verified"], answer["name_matches"]) == (True, False)
    assert "localhost" in answer["name_fault"]


def test_another_name_is_said_of_an_untrusted_chain_too(serve):
    port, _ = serve(certify("alone", names=("a.test",)))
    answer = pin(f"localhost:{port}")
    assert (answer["verified"], answer["name_matches"]) == (False, False)


def test_the_server_name_is_sent_and_checked(serve, world):
    port, server = serve(world.leaf("a.test"))
    answer = pin(f"localhost:{port}", "--server-name", "A.test.", "--anchors", world.root_file)
    assert (answer["server_name"], answer["name_matches"]) == ("a.test", True)
    assert server.server_names == ["a.test"]
    assert "[pins.a-test]" in answer["toml"]


def test_the_host_is_sent_as_the_server_name(serve, world):
    port, server = serve(world.leaf("localhost"))
    pin(f"LOCALHOST.:{port}")
    server.stop()
    assert (server.server_names, server.protocols) == (["localhost"], ["http/1.1"])


@pytest.mark.parametrize("host, bracketed", [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_an_address_is_checked_as_one_and_no_name_is_sent(serve, world, host, bracketed):
    port, server = serve(world.leaf("localhost", host), address=host)
    answer = pin(f"{bracketed}:{port}", "--anchors", world.root_file)
    assert (answer["host"], answer["name_matches"]) == (host, True)
    assert server.server_names == [None]
    assert check_name(answer["toml"])


def check_name(table: str) -> bool:
    return re.search(r"^\[pins\.[A-Za-z0-9_-]+\]$", table, re.MULTILINE) is not None


# Handshakes that are not like others


def test_a_server_that_asks_for_a_certificate_is_shown_all_the_same(serve, world):
    leaf = world.leaf("localhost")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        port, _ = serve(leaf, minimum=version, maximum=version, client_authority=world.root)
        answer = pin(f"localhost:{port}", "--anchors", world.root_file)
        assert answer["verified"] is True
        assert answer["certificates"][0]["pin"] == leaf.pin
        assert (answer["complaint"] is not None) == (version == ssl.TLSVersion.TLSv1_2)


def test_an_old_version_and_a_weak_key_are_shown(serve, world):
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weak")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    weak = Identity(builder.sign(key, hashes.SHA256()), key)
    port, _ = serve(weak, minimum=ssl.TLSVersion.TLSv1, maximum=ssl.TLSVersion.TLSv1)
    answer = pin(f"localhost:{port}")
    assert "TLSv1" in answer["server"]
    assert answer["verified"] is False
    assert answer["certificates"][0]["key"] == "RSA 1024"
    assert answer["certificates"][0]["pin"] == weak.pin


class Listener:
    """A server that does with each connection what it is told, and no TLS."""

    def __init__(self, treat):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.treat = treat
        self.open: list[socket.socket] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.open.append(connection)
            self.treat(connection)

    def stop(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        for connection in self.open:
            connection.close()


def speaks_http(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def sends_an_alert(connection: socket.socket) -> None:
    connection.sendall(b"\x15\x03\x03\x00\x02\x02\x28")  # handshake_failure


FAILURES = {
    "it speaks HTTP": (speaks_http, "expected TLS, but the server speaks something else"),
    "it closes at once": (lambda connection: connection.close(), "closed the connection"),
    "it sends an alert": (sends_an_alert, "handshake"),
    "it is silent": (lambda connection: None, "no answer within 10 seconds"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_server_without_tls_is_a_failure_with_its_reason(name, sallyport_binary):
    treat, expected = FAILURES[name]
    server = Listener(treat)
    try:
        done = command("pin", f"127.0.0.1:{server.port}")
    finally:
        server.stop()
    assert done.returncode == 1 and done.stdout == ""
    assert expected in done.stderr and f"127.0.0.1:{server.port}" in done.stderr, done.stderr


def test_a_port_where_nobody_listens(sallyport_binary):
    done = command("pin", f"localhost:{unused_port()}")
    assert done.returncode == 1
    assert "cannot connect: Connection refused" in done.stderr


def test_a_name_that_is_not_found(sallyport_binary):
    done = command("pin", "nowhere.invalid")
    assert done.returncode == 1
    assert "nowhere.invalid:443: the name is not found" in done.stderr


# Files


def test_certificates_of_files(sallyport_binary, world, tmp_path):
    leaf = world.leaf("a.test")
    whole, der = tmp_path / "chain.pem", tmp_path / "root.cer"
    whole.write_bytes(b"text before\n" + leaf.pem + b"text between\n" + world.issuing.pem)
    der.write_bytes(world.root.der)
    answer = pin("--file", whole, f"--file={der}", "--anchors", world.root_file)
    assert roles(answer) == [
        ("leaf", True, subject(leaf)),
        ("intermediate", True, subject(world.issuing)),
        ("root", True, subject(world.root)),
    ]
    assert answer["server"] is None and answer["name_matches"] is None
    assert "[pins.a-test]" in answer["toml"]
    named = pin("a.test", "--file", whole, "--anchors", world.root_file)
    assert (named["verified"], named["name_matches"]) == (True, True)
    assert pin("b.test", "--file", whole, "--anchors", world.root_file)["name_matches"] is False


@pytest.mark.parametrize(
    "content, expected",
    [
        (None, "No such file"),
        (b"", "expected a certificate"),
        (b"no certificate", "expected a certificate"),
        ("key", "expected a certificate"),
    ],
)
def test_a_file_that_holds_no_certificate_is_named(content, expected, sallyport_binary, world, tmp_path):
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_bytes(world.root.key_pem if content == "key" else content)
    for arguments in (["--file", path], ["--file", world.root_file, "--anchors", path]):
        done = command("pin", *arguments)
        assert done.returncode == 1
        assert str(path) in done.stderr and expected in done.stderr, done.stderr
        assert "BEGIN" not in done.stdout + done.stderr


def test_kinds_of_keys(sallyport_binary, world, tmp_path):
    kinds = {
        "RSA 2048": ["rsa:2048"],
        "EC P-384": ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
        "ED25519": ["ed25519"],
        "EC secp256k1": ["ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"],
    }
    for kind, arguments in kinds.items():
        path = tmp_path / "kind.pem"
        openssl(
            *["req", "-x509", "-nodes", "-newkey", *arguments, "-keyout", tmp_path / "key", "-out", path],
            *["-subj", "/CN=k"],
        )
        assert pin("--file", path)["certificates"][0]["key"] == kind


def test_a_certificate_cannot_speak_to_the_terminal(sallyport_binary, tmp_path):
    """A stranger wrote the names in it: they leave as printable text, and stay within their comment."""
    key = ec.generate_private_key(ec.SECP256R1())
    hostile = 'x\x1b[2J\r\n"]\n[pins.evil]\nmode = "none"\n#'
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostile)])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.DNSName('a"]\nmode = "none"\x1b[2J')]), critical=False
    )
    path = tmp_path / "hostile.pem"
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    done = command("pin", "--file", path)
    assert done.returncode == 0
    assert all(" " <= letter <= "~" or letter == "\n" for letter in done.stdout), repr(done.stdout)
    assert not re.search(r"^\[pins\.evil\]", done.stdout, re.MULTILINE)
    assert check_name(done.stdout)
    assert check_pasted(tmp_path, pin("--file", path)["toml"]).returncode == 0


# Usage

USAGE = {
    "nothing": ([], "HOST"),
    "two hosts": (["a.test", "b.test"], "b.test"),
    "a URL": (["https://a.test/"], "HOST or HOST:PORT"),
    "a port that is none": (["a.test:https"], "'https'"),
    "a port above 65535": (["a.test:65536"], "'65536'"),
    "port 0": (["a.test:0"], "'0'"),
    "a host that is none": (["a b"], "a b"),
    "an empty host": ([":443"], "host"),
    "an address that only some read": (["0x7f.1"], "0x7f.1"),
    "a server name that is none": (["a.test", "--server-name", "b/c"], "b/c"),
    "an option without its value": (["a.test", "--file"], "--file"),
    "an unknown option": (["a.test", "--frobnicate"], "--frobnicate"),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage(name, sallyport_binary):
    arguments, expected = USAGE[name]
    done = command("pin", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert expected in done.stderr


def test_help(sallyport_binary):
    done = command("help", "pin")
    assert done.returncode == 0
    for option in ("--server-name", "--anchors", "--file", "--json"):
        assert option in done.stdout
