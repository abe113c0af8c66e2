"""Pins: the decision table on all three ways through the proxy, how pins may be written, and what a mismatch says.

The table is (policy × chain × way). `expected` below is the oracle: the order of evaluation of sallyport.toml(5), written
down again from the text, over facts of each chain that are stated where the chain is made. One nginx shows every chain,
by the name that is asked for; one proxy a way has a rule for every policy: `POLICY.CHAIN.test`.
"""

import itertools
import re
from ssl import TLSVersion as ssl_versions
import zlib
from dataclasses import dataclass

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from dns_server import Answer, DNSServer
from origins import answering
from problems import check_problem
from proxy import Proxy, command, configuration_text
from raw_client import RawClient
from tls_world import (
    DAY,
    NOW,
    OK,
    ChainServer,
    Identity,
    SecureClient,
    Site,
    World,
    answering_and_closing,
    authority,
    certify,
    client_context,
    get,
    pins,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    trust,
    world,
)

WAYS = ("origination", "verify", "intercept")


# The chains


@dataclass(frozen=True)
class Fault:
    """What is wrong with the certificate at this place of the path (0 is the leaf), or with the signature on it."""

    place: int
    kind: str  # "certificate" | "signature"
    tokens: frozenset[str] = frozenset({"certificate-untrusted"})


@dataclass(frozen=True)
class Chain:
    """What the origin shows, and the truth of it: the path from the leaf up, and every fault on that path."""

    shown: list[Identity]
    path: list[Identity]
    trusted: bool = True  # the path ends at an anchor of the rule, and what is shown suffices to find it
    fault: Fault | None = None
    names_the_host: bool = True
    private_anchors: bool = False  # the rule brings anchors for it

    @property
    def leaf(self) -> Identity:
        return self.path[0]

    def is_shown(self, identity: Identity) -> bool:
        return any(identity.der == shown.der for shown in self.shown)


def make_chains(world: World, other: Identity) -> dict[str, Chain]:
    root, issuing = world.root, world.issuing
    above = [issuing, root]
    expired = frozenset({"certificate-expired"})
    early = frozenset({"certificate-not-yet-valid"})
    numbers = itertools.count()

    def leaf(name: str, **arguments) -> Identity:
        return world.leaf(f"*.{name}.test", **arguments)

    def intermediate(issuer: Identity = root, **arguments) -> Identity:
        arguments = {"authority": True} | arguments
        # Names differ: a certificate whose issuer has its own name would not count in a path length (RFC 5280 §4.2.1.9).
        return certify(f"Intermediate {next(numbers)}", issuer=issuer, **arguments)

    chains = {}

    def add(name: str, path: list[Identity], shown: list[Identity] | None = None, **facts) -> None:
        chains[name] = Chain(shown or [identity for identity in path if identity.issuer], path, **facts)

    add("good", [leaf("good"), *above])
    add("expired", [leaf("expired", ends=NOW - DAY / 2), *above], fault=Fault(0, "certificate", expired))
    add("early", [leaf("early", starts=NOW + DAY), *above], fault=Fault(0, "certificate", early))
    old = intermediate(ends=NOW - DAY / 2)
    add(
        "expired-intermediate",
        [leaf("expired-intermediate", issuer=old), old, root],
        fault=Fault(1, "certificate", expired),
    )
    add("wrong-name", [leaf("elsewhere"), *above], names_the_host=False)
    add(
        "self-signed",
        [self_signed := certify("Alone", names=("*.self-signed.test",))],
        [self_signed],
        trusted=False,
    )
    private_above = [world.private_issuing, world.private]
    add("private", [leaf("private", issuer=world.private_issuing), *private_above], trusted=False)
    add(
        "anchored",
        [leaf("anchored", issuer=world.private_issuing), *private_above],
        private_anchors=True,
    )
    lone = leaf("incomplete")
    add("incomplete", [lone, *above], [lone], trusted=False)
    upper = intermediate()
    lower = intermediate(upper)
    mixed = leaf("reordered", issuer=lower)
    add("reordered", [mixed, lower, upper, root], [mixed, upper, root, lower])
    longer = leaf("appended")
    add("appended", [longer, *above], [longer, issuing, other])
    attacker = certify("Attacker", names=("*.attacker.test",))
    add("attacker", [attacker], [attacker, *chains["good"].shown, root, other], trusted=False)
    no_authority = intermediate(authority=False)
    add(
        "no-ca-bit",
        [leaf("no-ca-bit", issuer=no_authority), no_authority, root],
        fault=Fault(1, "certificate"),
    )
    short = intermediate(path_length=0)
    below = intermediate(short)
    add("path-length", [leaf("path-length", issuer=below), below, short, root], fault=Fault(2, "certificate"))
    add("weak-signature", [world.weakly_signed("*.weak-signature.test"), *above], fault=Fault(0, "signature"))
    client = leaf("wrong-purpose", purpose=ExtendedKeyUsageOID.CLIENT_AUTH)
    add("wrong-purpose", [client, *above], fault=Fault(0, "certificate"))
    return chains


CHAINS = (
    *("good", "expired", "early", "expired-intermediate", "wrong-name", "self-signed", "private", "anchored"),
    *("incomplete", "reordered", "appended", "attacker", "no-ca-bit", "path-length", "weak-signature"),
    "wrong-purpose",
)


# The policies


@dataclass(frozen=True)
class PinSet:
    """A [pins.*] of one mode. `expiry`: None, or what on_expiry says of a set that expired yesterday."""

    name: str
    mode: str
    identities: list[Identity]
    expiry: str | None = None
    enforce: bool = True

    @property
    def blocks(self) -> bool:
        return self.enforce and self.expiry != "report"

    def table(self, world: World) -> str:
        lines = [f'mode = "{self.mode}"']
        if self.mode == "certificate":
            files = ", ".join(f'"{world.file(identity.pem)}"' for identity in self.identities)
            lines.append(f"certificates = [{files}]")
        else:
            written = [forms(identity)[at % 3] for at, identity in enumerate(self.identities)]
            lines.append("spki = [" + ", ".join(f'"{pin}"' for pin in written) + "]")
        if self.expiry:
            lines += [f"expires = {(NOW - DAY).date()}", f'on_expiry = "{self.expiry}"']
        if not self.enforce:
            lines.append("enforce = false")
        return pins(self.name, *lines)


def forms(identity: Identity) -> tuple[str, str, str]:
    """OkHttp's, curl's, and hexadecimal digits."""
    return identity.pin, identity.pin.replace("sha256/", "sha256//"), identity.key_digest.hex()


@dataclass(frozen=True)
class SecurityPolicy:
    name: str
    allow_invalid: bool
    validates_name: bool
    pins: PinSet | None

    @property
    def pinned(self) -> bool:
        return self.pins is not None and self.pins.mode != "none"

    def table(self) -> str:
        lines = [
            f"allow_invalid_certificates = {str(self.allow_invalid).lower()}",
            f"validates_domain_name = {str(self.validates_name).lower()}",
        ]
        if self.pins:
            lines.append(f'pins = "{self.pins.name}"')
        return "\n".join(lines)


def make_pin_sets(chains: dict[str, Chain], other: Identity, spare: Identity) -> list[PinSet | None]:
    """A set "leaf" holds the leaf of every chain, and so on: each chain has keys of its own, so that they do not meet."""
    paths = [chain.path for name, chain in chains.items() if name != "attacker"]
    roles = {
        "leaf": [path[0] for path in paths],
        "intermediate": unique([path[1] for path in paths if len(path) > 1]),
        "root": unique([path[-1] for path in paths if len(path) > 1]),
        "other": [other, spare],
        "several": unique([other, spare, *(path[1] for path in paths if len(path) > 1)]),
    }
    sets: list[PinSet | None] = [None, PinSet("none", "none", [other])]
    for mode in ("public-key", "certificate"):
        sets += [PinSet(f"{mode}-{role}", mode, identities) for role, identities in roles.items()]
        sets += [
            PinSet(f"{mode}-expired", mode, roles["leaf"], expiry="fail"),
            PinSet(f"{mode}-expired-report", mode, roles["other"], expiry="report"),
            PinSet(f"{mode}-report-only", mode, roles["other"], enforce=False),
        ]
    return sets


def unique(identities: list[Identity]) -> list[Identity]:
    return list({identity.der: identity for identity in identities}.values())


def make_policies(sets: list[PinSet | None]) -> list[SecurityPolicy]:
    policies = []
    for pin_set, allow_invalid, validates_name in itertools.product(sets, (False, True), (False, True)):
        flags = ("-any" if allow_invalid else "") + ("" if validates_name else "-unnamed")
        policy = SecurityPolicy(
            (pin_set.name if pin_set else "unpinned") + flags, allow_invalid, validates_name, pin_set
        )
        if not (allow_invalid and validates_name and not policy.pinned):  # an error of the configuration
            policies.append(policy)
    return policies


# The oracle

ALLOWED: frozenset[str] = frozenset()
PIN_MISMATCH = frozenset({"pin-mismatch"})
PINS_EXPIRED = frozenset({"pins-expired"})
WRONG_NAME = frozenset({"certificate-name-mismatch"})
UNTRUSTED = frozenset({"certificate-untrusted"})


def expected(policy: SecurityPolicy, chain: Chain) -> frozenset[str]:
    """The tokens one of which a refusal must carry; none when the connection is allowed."""
    # 2. The chain is verified; allow_invalid_certificates waives it, but for the name where that is asked for.
    if not policy.allow_invalid:
        if chain.fault:
            return chain.fault.tokens
        if not chain.trusted:
            return UNTRUSTED
    if policy.validates_name and not chain.names_the_host:
        return WRONG_NAME
    # 3. The pins. What would be refused is forgiven by a set that only reports.
    if not policy.pinned or not policy.pins.blocks:
        return ALLOWED
    if policy.pins.expiry == "fail":
        return PINS_EXPIRED
    if policy.pins.mode == "public-key":
        counted = [chain.leaf] if policy.allow_invalid else chain.path
        pinned = {identity.key_digest for identity in policy.pins.identities}
        return ALLOWED if any(identity.key_digest in pinned for identity in counted) else PIN_MISMATCH
    return verified_against_pins(policy.pins, chain)


def verified_against_pins(pin_set: PinSet, chain: Chain) -> frozenset[str]:
    """Certificate mode: pinned certificates are the only anchors; the first on the path decides, or a later one."""
    pinned = {identity.der for identity in pin_set.identities}
    outcome = PIN_MISMATCH
    for place, identity in enumerate(chain.path):
        if identity.der not in pinned or not all(map(chain.is_shown, chain.path[1:place])):
            continue
        fault = chain.fault
        if fault and fault.place <= place - (fault.kind == "signature"):
            outcome = outcome | fault.tokens
            continue
        return ALLOWED
    return outcome


# The table, one way and one chain a test


class Table:
    """The world of the table, and a proxy a way."""

    def __init__(self, world: World, directory):
        self.other, self.spare = certify("Other", names=("other.test",)), certify("Spare")
        self.chains = make_chains(world, self.other)
        assert tuple(self.chains) == CHAINS
        self.sets = make_pin_sets(self.chains, self.other, self.spare)
        self.policies = make_policies(self.sets)
        sites = [Site((f"*.{name}.test",), chain.shown) for name, chain in self.chains.items()]
        self.origin = ChainServer(world, directory, sites)
        self.names = DNSServer({}, otherwise=Answer(a=["127.0.0.1"]))
        self.world, self.directory = world, directory
        self.proxies: dict[str, Proxy] = {}

    def proxy(self, way: str, table: str) -> Proxy:
        """Verify and origination share one."""
        connect = "intercept" if way == "intercept" else "verify"
        if connect not in self.proxies:
            directory = self.directory / connect
            directory.mkdir()
            policy = f'[dns]\nservers = ["{self.names.address}"]\n{trust(self.world)}{table}' + self.rules(
                connect
            )
            self.proxies[connect] = Proxy.start(directory, policy=policy)
        return self.proxies[connect]

    def rules(self, connect: str) -> str:
        text = "".join(pin_set.table(self.world) for pin_set in self.sets if pin_set)
        for policy in self.policies:
            hosts = [f'"{policy.name}.{name}.test"' for name in self.chains if name != "anchored"]
            lines = f"hosts = [{', '.join(hosts)}]", f'connect = "{connect}"'
            text += rule(policy.name, *lines, security=policy.table())
            text += rule(
                f"{policy.name}-anchored",
                f'hosts = ["{policy.name}.anchored.test"]',
                f'connect = "{connect}"',
                security=policy.table() + f'\nanchors = "{self.world.private_file}"',
            )
        return text

    def stop(self) -> None:
        for proxy in self.proxies.values():
            proxy.stop()
        self.names.stop()
        self.origin.stop()


@pytest.fixture(scope="module")
def table(world, sallyport_binary, tmp_path_factory):
    made = Table(world, tmp_path_factory.mktemp("table"))
    yield made
    made.stop()


def ask_by_origination(proxy: Proxy, host: str, port: int, trusting):
    client = RawClient(proxy.address)
    answer = client.exchange(get(host, port, lines="Connection: close\r\n"))
    client.close()
    return answer


def ask_by_verify(proxy: Proxy, host: str, port: int, trusting):
    """A refusal is the answer to CONNECT itself."""
    client = SecureClient(proxy.address)
    answer = client.tunnel(host, port)
    if answer.status == 200:
        client.shake_hands(client_context(), host)
        answer = client.get_inside(f"{host}:{port}")
    client.close()
    return answer


def ask_by_intercept(proxy: Proxy, host: str, port: int, trusting):
    """CONNECT is answered 200 whatever the upstream is like; a refusal is an answer inside."""
    client = SecureClient(proxy.address)
    answer = client.tunnel(host, port)
    assert answer.status == 200, answer
    client.shake_hands(trusting, host)
    answer = client.get_inside(f"{host}:{port}", lines="Connection: close\r\n")
    client.close()
    return answer


ASK = {"origination": ask_by_origination, "verify": ask_by_verify, "intercept": ask_by_intercept}


@pytest.mark.parametrize("chain_name", CHAINS)
@pytest.mark.parametrize("way", WAYS)
def test_the_table(way, chain_name, table, authority):
    """TLS 1.2 and 1.3 take turns, so that each policy and each chain meets both."""
    proxy = table.proxy(way, authority.table)
    trusting = client_context(authority.file) if way == "intercept" else None
    chain = table.chains[chain_name]
    wrong = []
    for policy in table.policies:
        host = f"{policy.name}.{chain_name}.test"
        version = ("TLSv1.2", "TLSv1.3")[zlib.crc32(f"{way} {host}".encode()) % 2]
        answer = ASK[way](proxy, host, table.origin.ports[version], trusting)
        tokens = expected(policy, chain)
        if answer.status == 200 and answer.body == b"ok":
            seen = "allowed"
        else:
            rule_name = policy.name + ("-anchored" if chain.private_anchors else "")
            problem = check_problem(answer, 502, error="tls_certificate_error")
            assert problem.body["rule"] == rule_name, problem
            seen = problem.token
        if seen not in (tokens or {"allowed"}):
            wrong.append(f"{policy.name} ({version}): {seen}, expected {', '.join(tokens) or 'allowed'}")
    assert not wrong, f"{len(wrong)} of {len(table.policies)} policies:\n" + "\n".join(wrong)


def test_the_table_has_both_outcomes_everywhere(table):
    """A table of refusals alone would prove nothing: each chain is allowed by some policy and refused by another."""
    for name, chain in table.chains.items():
        outcomes = {bool(expected(policy, chain)) for policy in table.policies}
        assert outcomes == {True, False}, name


# How pins are written


def pin_forms(leaf: Identity, directory) -> dict[str, str]:
    """Lines of a pin set, each of which pins this leaf."""

    def written(name: str, content: bytes) -> str:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return name

    spare = certify("Spare")
    written("cer/one.cer", leaf.der)
    written("cer/two.cer", spare.pem)
    written("cer/readme.txt", b"no certificate")
    written("glob/one.crt", spare.der)
    written("glob/two.crt", leaf.pem)
    told = b"Subject: a leaf\nsome words, as openssl x509 -text writes them\n"
    okhttp, curl, hexadecimal = forms(leaf)
    return {
        "okhttp": f'spki = ["{okhttp}", "{spare.pin}"]',
        "curl": f'spki = ["{spare.pin}", "{curl}"]',
        "hex": f'spki = ["{hexadecimal}"]',
        "capital-hex": f'spki = ["{hexadecimal.upper()}"]',
        "pem": f'certificates = ["{written("leaf.pem", leaf.pem)}"]',
        "der": f'certificates = ["{written("leaf.der", leaf.der)}"]',
        "der-named-pem": f'certificates = ["{written("really-der.pem", leaf.der)}"]',
        "several-in-one": f'certificates = ["{written("both.pem", spare.pem + told + leaf.pem)}"]',
        "glob": 'certificates = ["glob/*.crt"]',
        "directory": 'certificates = ["cer"]',
        "absolute": f'certificates = ["{directory / "leaf.pem"}"]',
    }


@pytest.mark.parametrize("mode", ["public-key", "certificate"])
def test_every_form_of_a_pin(mode, secure_proxy, tls_origin, raw_client, world, tmp_path):
    """One rule a form. An origin with the pinned certificate is accepted, one with another of the same authority is not."""
    leaf, other = world.leaf("*.pinned.test"), world.leaf("*.pinned.test")
    rows = pin_forms(leaf, tmp_path)
    if mode == "certificate":
        rows = {name: line for name, line in rows.items() if line.startswith("certificates")}
    policy = "".join(
        pins(name, f'mode = "{mode}"', line)
        + rule(name, f'hosts = ["{name}.pinned.test"]', security=f'pins = "{name}"')
        for name, line in rows.items()
    )
    client = raw_client(secure_proxy(policy, directory=tmp_path))
    pinned = tls_origin(answering(OK), world.context(leaf))
    unpinned = tls_origin(answering(OK), world.context(other))
    refused = {name: client.exchange(get(f"{name}.pinned.test", pinned.port)).reason for name in rows}
    assert set(refused.values()) == {b"OK"}, refused
    for name in rows:
        answer = client.exchange(get(f"{name}.pinned.test", unpinned.port))
        problem = check_problem(answer, 502, error="tls_certificate_error", rule=name)
        assert problem.token == "pin-mismatch"


def test_a_key_that_is_pinned_outlives_its_certificate(secure_proxy, tls_origin, raw_client, world):
    """The point of public-key pins: a renewed certificate with the same key passes, in certificate mode it does not."""
    old = world.leaf("*.pinned.test")
    new = world.leaf("*.pinned.test", key=old.key)
    spare = certify("Spare")
    files = f'"{world.file(old.pem)}", "{world.file(spare.pem)}"'
    policy = "".join(
        pins(mode, f'mode = "{mode}"', f"certificates = [{files}]")
        + rule(mode, f'hosts = ["{mode}.pinned.test"]', security=f'pins = "{mode}"')
        for mode in ("public-key", "certificate")
    )
    client, server = raw_client(secure_proxy(policy)), tls_origin(answering(OK), world.context(new))
    assert client.exchange(get("public-key.pinned.test", server.port)).body == b"ok"
    problem = check_problem(
        client.exchange(get("certificate.pinned.test", server.port)), 502, rule="certificate"
    )
    assert problem.token == "pin-mismatch"


GOOD_PIN = "sha256/" + "A" * 43 + "="
OTHER_PIN = "sha256/" + "B" * 42 + "A="
MISTAKES = {
    "an empty set": ('mode = "public-key"', "[pins.p]"),
    "an empty list": ('mode = "public-key"\nspki = []', "[pins.p]"),
    "an empty list of files": ('mode = "certificate"\ncertificates = []', "[pins.p]"),
    "no base64": ('mode = "public-key"\nspki = ["sha256/!!!!"]', "sha256/!!!!"),
    "too short": ('mode = "public-key"\nspki = ["sha256/AAAA"]', "sha256/AAAA"),
    "another digest": (f'mode = "public-key"\nspki = ["{GOOD_PIN.replace("256", "1")}"]', "sha256/"),
    "odd hexadecimal": ('mode = "public-key"\nspki = ["abc"]', "abc"),
    "an absent file": ('mode = "certificate"\ncertificates = ["absent.pem"]', "absent.pem"),
    "a glob without a match": ('mode = "certificate"\ncertificates = ["none/*.cer"]', "none/*.cer"),
    "an empty directory": ('mode = "certificate"\ncertificates = ["empty"]', "empty"),
    "an empty file": ('mode = "certificate"\ncertificates = ["empty.pem"]', "empty.pem"),
    "a file of words": ('mode = "public-key"\ncertificates = ["words.cer"]', "words.cer"),
    "a private key": ('mode = "public-key"\ncertificates = ["key.pem"]', "key.pem"),
    "a certificate cut short": ('mode = "certificate"\ncertificates = ["short.pem"]', "short.pem"),
    "a directory with foreign content": ('mode = "certificate"\ncertificates = ["foreign"]', "foreign"),
    "certificate mode with digests only": (f'mode = "certificate"\nspki = ["{GOOD_PIN}"]', "certificates"),
    "an unknown mode": (f'mode = "key"\nspki = ["{GOOD_PIN}"]', "public-key"),
    "an unknown on_expiry": (f'mode = "public-key"\nspki = ["{GOOD_PIN}"]\non_expiry = "x"', "on_expiry"),
    "a date that is none": (f'mode = "public-key"\nspki = ["{GOOD_PIN}"]\nexpires = "soon"', "expires"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_pin_set_is_an_error_that_names_it(name, world, tmp_path):
    table, named = MISTAKES[name]
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/one.cer").write_bytes(world.root.der)
    (tmp_path / "foreign/two.cer").write_bytes(b"no certificate")
    (tmp_path / "empty.pem").write_bytes(b"")
    (tmp_path / "words.cer").write_bytes(b"this is no certificate")
    (tmp_path / "key.pem").write_bytes(world.root.key_pem)
    (tmp_path / "short.pem").write_bytes(world.root.pem[:200])
    done = check(tmp_path, pins("p", table) + rule("r", security='pins = "p"'))
    assert done.returncode == 1 and "error:" in done.stdout and named in done.stdout, done.stdout


def check(directory, policy: str):
    configuration = directory / "sallyport.toml"
    configuration.write_text(configuration_text(policy=policy))
    return command("check", "--config", configuration)


def test_a_rule_that_names_no_pin_set_is_an_error(tmp_path):
    done = check(
        tmp_path, pins("payments", f'spki = ["{GOOD_PIN}"]') + rule("r", security='pins = "payment"')
    )
    assert done.returncode == 1 and "payment" in done.stdout


TWO = f'mode = "public-key"\nspki = ["{GOOD_PIN}", "{OTHER_PIN}"]'
WARNINGS = {
    "one pin only": (f'mode = "public-key"\nspki = ["{GOOD_PIN}"]', "", "backup"),
    "the same pin twice": (f'mode = "public-key"\nspki = ["{GOOD_PIN}", "{GOOD_PIN}"]', "", "backup"),
    "an expired set": (TWO + "\nexpires = 2020-01-01", "", "expire"),
    "a set that expires soon": (TWO + f"\nexpires = {(NOW + 10 * DAY).date()}", "", "expire"),
    "never in a tunnel, by path": (TWO, 'paths = ["/x"]', "tunnel"),
    "never in a tunnel, by method": (TWO, 'methods = ["GET"]', "tunnel"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_what_check_warns_of(name, tmp_path):
    table, condition, word = WARNINGS[name]
    done = check(tmp_path, pins("p", table) + rule("r", condition, security='pins = "p"'))
    assert done.returncode == 0 and "warning:" in done.stdout and word in done.stdout, done.stdout
    strict = command("check", "--config", tmp_path / "sallyport.toml", "--strict")
    assert strict.returncode == 1


def test_a_good_set_is_no_warning(tmp_path):
    done = check(tmp_path, pins("p", TWO + "\nexpires = 2099-01-01") + rule("r", security='pins = "p"'))
    assert (done.returncode, "warning" in done.stdout.replace("0 warnings", "")) == (0, False), done.stdout


# What a mismatch says


PINNED = """
[pins.p]
mode = "public-key"
spki = ["{first}", "{second}"]
{more}
[[rule]]
name = "pinned"
hosts = ["a.test"]
connect = "{connect}"
[rule.security]
pins = "p"
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_mismatch_shows_the_pins_that_were_seen_beside_those_configured(
    way, secure_proxy, tls_origin, authority, world
):
    """So that a person can mend the file from the message: in the problem body and in the log."""
    leaf, first, second = world.leaf("a.test"), certify("First"), certify("Second")
    connect = "intercept" if way == "intercept" else "verify"
    policy = PINNED.format(first=first.pin, second=second.pin, connect=connect, more="")
    proxy = secure_proxy(authority.table + policy)
    server = tls_origin(answering(OK), world.context(leaf))
    answer = ASK[way](proxy, "a.test", server.port, client_context(authority.file))
    problem = check_problem(answer, 502, error="tls_certificate_error", rule="pinned")
    assert (problem.token, problem.body["nsurlError"]) == ("pin-mismatch", -1202)
    line = proxy.access_of(problem.reference)
    assert (line["outcome"], line["rule"], line["assurance"]) == ("pin-mismatch", "pinned", None)
    logged = proxy.log.wait_for(
        lambda entry: entry.get("level") == "warning" and problem.reference in entry["message"]
    )
    for text in (problem.body["detail"], logged["message"]):
        assert "'p'" in text
        for pin in (first.pin, second.pin, leaf.pin, world.issuing.pin, world.root.pin):
            assert pin in text
        for identity in (leaf, world.issuing, world.root):
            subject = identity.certificate.subject.rfc4514_string()
            assert re.search(re.escape(subject) + r"\W+" + re.escape(identity.pin), text), (subject, text)
    assert not server.bytes_of_requests()


@pytest.mark.parametrize("way", WAYS)
def test_a_set_that_only_reports_logs_what_it_would_have_done(
    way, secure_proxy, tls_origin, authority, world
):
    leaf, first, second = world.leaf("a.test"), certify("First"), certify("Second")
    connect = "intercept" if way == "intercept" else "verify"
    policy = PINNED.format(first=first.pin, second=second.pin, connect=connect, more="enforce = false")
    proxy = secure_proxy(authority.table + policy)
    server = tls_origin(answering_and_closing(), world.context(leaf), tunnelled=way == "verify")
    answer = ASK[way](proxy, "a.test", server.port, client_context(authority.file))
    assert (answer.status, answer.body) == (200, b"ok")
    logged = proxy.log.wait_for(
        lambda entry: entry.get("level") == "warning" and leaf.pin in entry.get("message", "")
    )
    assert "rule=pinned" in logged["message"] and first.pin in logged["message"]


@pytest.mark.parametrize("way", WAYS)
def test_a_rule_that_is_not_enforced_blocks_nothing(way, secure_proxy, tls_origin, authority, world):
    """`enforce = false` of a rule: nothing of it blocks, and what it would have done is logged."""
    connect = "intercept" if way == "intercept" else "verify"
    policy = PINNED.format(first=GOOD_PIN, second=OTHER_PIN, connect=connect, more="")
    policy = policy.replace('name = "pinned"', 'name = "pinned"\nenforce = false')
    proxy = secure_proxy(authority.table + policy)
    leaf = world.leaf("a.test")
    server = tls_origin(answering_and_closing(), world.context(leaf), tunnelled=way == "verify")
    answer = ASK[way](proxy, "a.test", server.port, client_context(authority.file))
    assert (answer.status, answer.body) == (200, b"ok")
    proxy.log.wait_for(
        lambda entry: entry.get("level") == "warning"
        and "pinned" in entry.get("message", "")
        and leaf.pin in entry["message"]
    )


def test_a_rule_that_pins_verifies_tunnels_unless_it_says_otherwise(
    secure_proxy, tls_origin, secure_client, world
):
    policy = PINNED.format(first=GOOD_PIN, second=OTHER_PIN, connect="verify", more="")
    proxy = secure_proxy(policy.replace('connect = "verify"', ""))
    server = tls_origin(answering(OK), world.context(world.leaf("a.test", "b.test")), tunnelled=True)
    problem = check_problem(secure_client(proxy).tunnel("a.test", server.port), 502, rule="pinned")
    assert problem.token == "pin-mismatch"
    assert secure_client(proxy).tunnel("b.test", server.port).status == 200


# Pins and what was opened before


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("kept", [True, False], ids=["pooled", "tickets only"])
@pytest.mark.parametrize("way", WAYS)
def test_pins_that_a_reload_changes_refuse_the_next_request(
    way, kept, version, secure_proxy, tls_origin, authority, world
):
    """Although a connection is pooled, although the origin offers tickets, although a verdict is remembered."""
    leaf, other = world.leaf("a.test"), certify("Other")
    connect = "intercept" if way == "intercept" else "verify"
    before = PINNED.format(first=leaf.pin, second=GOOD_PIN, connect=connect, more="")
    after = PINNED.format(first=other.pin, second=GOOD_PIN, connect=connect, more="")
    proxy = secure_proxy(authority.table + before, proxy="workers = 1")
    versions = {"minimum": getattr(ssl_versions, version), "maximum": getattr(ssl_versions, version)}
    server = tls_origin(
        answering(OK) if kept else answering_and_closing(),
        world.context(leaf, **versions),
        tunnelled=way == "verify",
    )
    trusting = client_context(authority.file)
    for _ in range(2):
        assert ASK[way](proxy, "a.test", server.port, trusting).body == b"ok"
    handshakes = len(server.handshakes)
    said = proxy.reload(proxy="workers = 1", policy=proxy.head + authority.table + after)
    assert said["level"] != "error", said
    before_refusal = server.bytes_of_requests()
    problem = check_problem(ASK[way](proxy, "a.test", server.port, trusting), 502, rule="pinned")
    assert problem.token == "pin-mismatch"
    assert server.bytes_of_requests() == before_refusal
    assert len(server.handshakes) == handshakes, "a handshake went through after the pins had changed"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("kept", [True, False], ids=["pooled", "tickets only"])
def test_what_a_rule_without_pins_opened_serves_no_rule_with_pins(
    kept, version, secure_proxy, tls_origin, raw_client, world
):
    policy = pins("p", f'mode = "public-key"\nspki = ["{GOOD_PIN}", "{OTHER_PIN}"]') + rule(
        "pinned", 'hosts = ["a.test"]', 'paths = ["/pinned/*"]', security='pins = "p"'
    )
    proxy = secure_proxy(policy, proxy="workers = 1")
    maximum = getattr(ssl_versions, version)
    server = tls_origin(
        answering(OK) if kept else answering_and_closing(),
        world.context(world.leaf("a.test"), maximum=maximum),
    )
    client = raw_client(proxy)
    for _ in range(2):
        assert client.exchange(get("a.test", server.port, "/free")).body == b"ok"
        problem = check_problem(client.exchange(get("a.test", server.port, "/pinned/x")), 502, rule="pinned")
        assert problem.token == "pin-mismatch"
    assert b"/pinned" not in server.bytes_of_requests()
