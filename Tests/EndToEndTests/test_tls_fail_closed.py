"""Nothing fails open: each fault of files, of clocks, of time and of peers is a test that sees the refusal.

Faults that belong to one way through the proxy stand with it: a ClientHello that cannot be read, a certificate that
changes between probe and tunnel (test_verify.py), an answer that is cut short, sessions and pools (test_origination.py).
"""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import need
from journal import DEADLINE_SECONDS
from origins import answering, unused_port, wait_until_it_listens
from problems import check_problem
from proxy import binary, clean_environment, configuration_text
from tls_world import (
    DAY,
    NOW,
    OK,
    authority,
    certify,
    client_context,
    get,
    init_authority,
    pins,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)

PIN = "sha256/" + "A" * 43 + "="
OTHER_PIN = "sha256/" + "B" * 42 + "A="


# A configuration that cannot be relied on: the proxy does not start


def refused_start(directory: Path, policy: str, **environment: str) -> str:
    """`sallyport run` ends at once with 1, and has not said that it listens."""
    configuration = directory / "sallyport.toml"
    configuration.write_text(configuration_text(policy=policy))
    done = subprocess.run(
        [binary(), "run", "--config", configuration],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=clean_environment(**environment),
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 1 and "listening" not in done.stdout, done
    assert done.stderr
    return done.stderr


ANCHORS = {
    "absent": "absent.pem",
    "empty": "empty.pem",
    "no certificate": "words.pem",
    "cut short": "short.pem",
    "a private key": "key.pem",
    "an empty directory": "nothing",
}


@pytest.mark.parametrize("where", ["[trust]", "[rule.security]"])
@pytest.mark.parametrize("name", ANCHORS)
def test_anchors_that_cannot_be_read(name, where, world, tmp_path):
    (tmp_path / "empty.pem").write_bytes(b"")
    (tmp_path / "words.pem").write_bytes(b"these are no anchors\n")
    (tmp_path / "short.pem").write_bytes(world.root.pem[:300])
    (tmp_path / "key.pem").write_bytes(world.root.key_pem)
    (tmp_path / "nothing").mkdir()
    line = f'anchors = "{ANCHORS[name]}"'
    policy = f"[trust]\n{line}\n" if where == "[trust]" else rule("r", security=line)
    assert ANCHORS[name] in refused_start(tmp_path, policy)


@pytest.mark.parametrize(
    "table",
    [
        "",
        'mode = "public-key"',
        'mode = "public-key"\nspki = []',
        'mode = "certificate"\ncertificates = []',
        'mode = "certificate"\ncertificates = ["none/*.cer"]',
        'mode = "public-key"\nspki = ["sha256/AAAA"]',
    ],
    ids=["nothing", "mode only", "no digest", "no file", "no match", "a digest cut short"],
)
def test_pins_that_pin_nothing(table, tmp_path):
    assert "[pins.p]" in refused_start(tmp_path, f"[pins.p]\n{table}\n" + rule("r", security='pins = "p"'))


def test_a_rule_that_names_absent_pins(tmp_path):
    assert "absent" in refused_start(tmp_path, rule("r", security='pins = "absent"'))


AUTHORITIES = {
    "absent": lambda directory: directory.rename(directory.with_name("gone")),
    "without its key": lambda directory: (directory / "authority.key").unlink(),
    "without its certificate": lambda directory: (directory / "authority.pem").unlink(),
    "with the key of another": lambda directory: (directory / "authority.key").write_bytes(
        certify("Other").key_pem
    ),
    "with a key cut short": lambda directory: (directory / "authority.key").write_bytes(
        (directory / "authority.key").read_bytes()[:90]
    ),
    "with a certificate that is no authority": lambda directory: replace_authority(
        directory, authority=False
    ),
    "expired": lambda directory: replace_authority(
        directory, authority=True, starts=NOW - 9 * DAY, ends=NOW - DAY
    ),
}


def replace_authority(directory: Path, **facts) -> None:
    made = certify("An authority", **facts)
    (directory / "authority.pem").write_bytes(made.pem)
    (directory / "authorities.pem").write_bytes(made.pem)
    (directory / "authority.key").write_bytes(made.key_pem)


@pytest.mark.parametrize("name", AUTHORITIES)
def test_a_rule_that_intercepts_needs_a_sound_authority(name, sallyport_binary, tmp_path):
    made = init_authority(tmp_path / "authority")
    AUTHORITIES[name](made.directory)
    said = refused_start(tmp_path, made.table + rule("r", 'connect = "intercept"'))
    assert "authority" in said


def test_an_absent_authority_harms_nobody_who_does_not_intercept(secure_proxy, tmp_path):
    proxy = secure_proxy(
        f'[authority]\ndirectory = "{tmp_path / "absent"}"\n' + rule("r", 'connect = "verify"')
    )
    assert proxy.process.poll() is None


@pytest.mark.parametrize(
    "broken",
    [
        rule("r", security='anchors = "absent.pem"'),
        rule("r", security='pins = "absent"'),
        pins("p", "spki = []") + rule("r", security='pins = "p"'),
        rule("r", 'connect = "intercept"'),
    ],
    ids=["anchors", "pins", "an empty set", "no authority"],
)
def test_a_reload_with_a_fault_leaves_the_pins_in_force(
    broken, secure_proxy, tls_origin, raw_client, world, tmp_path
):
    absent = f'[authority]\ndirectory = "{tmp_path / "absent"}"\n'
    policy = absent + pins("p", 'mode = "public-key"', f'spki = ["{PIN}", "{OTHER_PIN}"]')
    policy += rule("pinned", security='pins = "p"')
    proxy = secure_proxy(policy, proxy="workers = 1")
    server = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    client = raw_client(proxy)
    check_problem(client.exchange(get("a.test", server.port)), 502, rule="pinned")
    said = proxy.reload(proxy="workers = 1", policy=proxy.head + absent + broken)
    assert said["level"] in ("error", "warning"), said
    problem = check_problem(client.exchange(get("a.test", server.port)), 502, rule="pinned")
    assert problem.token == "pin-mismatch"
    assert not server.handshakes


# A clock that is wrong


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t ahead(void) { const char *days = getenv("CLOCK_DAYS_AHEAD"); return days ? atol(days) * 86400 : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += ahead();
  return result;
}

time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where) *where = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
"""


@pytest.fixture(scope="session")
def clock_library(tmp_path_factory) -> Path:
    """A library to load before the C library: the time of day is some days off, what is measured is not touched."""
    need("gcc")
    if "SALLYPORT_SANITIZED" in os.environ:
        pytest.skip("a sanitizer wants to be the first library")
    directory = tmp_path_factory.mktemp("clock")
    source, library = directory / "clock.c", directory / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def days_ahead(clock_library):
    """A function: the environment of a program whose clock is so many days ahead."""
    return lambda days: {"LD_PRELOAD": str(clock_library), "CLOCK_DAYS_AHEAD": str(days)}


CLOCKS = {
    "in 24 years": (24 * 365, "certificate-expired", -1201),
    "25 years ago": (-25 * 365, "certificate-not-yet-valid", -1204),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_a_wrong_clock_refuses_every_certificate(
    name, days_ahead, secure_proxy, tls_origin, raw_client, secure_client, world
):
    days, token, nsurl_error = CLOCKS[name]
    proxy = secure_proxy(rule("verified", 'connect = "verify"'), environment=days_ahead(days))
    server = tls_origin(answering(OK), world.context(world.leaf("a.test", "v.test")))
    for answer in (
        raw_client(proxy).exchange(get("a.test", server.port)),
        secure_client(proxy).tunnel("v.test", server.port),
    ):
        problem = check_problem(answer, 502, error="tls_certificate_error")
        assert (problem.token, problem.body["nsurlError"]) == (token, nsurl_error)
    assert not server.handshakes


def test_a_certificate_that_expires_is_refused_inside_an_intercepted_tunnel(
    days_ahead, secure_proxy, tls_origin, secure_client, authority, world
):
    """The clock is 150 days on: past the origin's certificate, within the authority and the root."""
    proxy = secure_proxy(authority.table + rule("seen", 'connect = "intercept"'), environment=days_ahead(150))
    server = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    client = secure_client(proxy)
    assert client.tunnel("a.test", server.port).status == 200
    client.shake_hands(client_context(), "a.test")
    problem = check_problem(client.get_inside(f"a.test:{server.port}"), 502, rule="seen")
    assert problem.token == "certificate-expired"
    assert not server.handshakes


def test_an_authority_that_has_expired_meanwhile_does_not_intercept(authority, days_ahead, tmp_path):
    table = authority.table + rule("r", 'connect = "intercept"')
    assert "expired" in refused_start(tmp_path, table, **days_ahead(24 * 365))


@pytest.mark.parametrize("on_expiry", ["fail", "report"])
def test_pins_that_expire_while_the_certificate_is_valid(
    on_expiry, days_ahead, secure_proxy, tls_origin, raw_client, world
):
    """The clock is ten days on: past the pins, within everything else."""
    leaf, spare = world.leaf("a.test"), certify("Spare")
    day = (NOW + 5 * DAY).date()
    policy = pins(
        *("p", 'mode = "public-key"', f'spki = ["{leaf.pin}", "{spare.pin}"]', f"expires = {day}"),
        f'on_expiry = "{on_expiry}"',
    )
    policy += rule("pinned", security='pins = "p"')
    server = tls_origin(answering(OK), world.context(leaf))
    assert raw_client(secure_proxy(policy)).exchange(get("a.test", server.port)).body == b"ok"
    answer = raw_client(secure_proxy(policy, environment=days_ahead(10))).exchange(get("a.test", server.port))
    if on_expiry == "report":
        assert answer.body == b"ok"
    else:
        assert check_problem(answer, 502, rule="pinned").token == "pins-expired"


# Peers that mean harm


def test_a_chain_of_many_certificates_is_refused_and_holds_nobody_up(
    secure_proxy, tls_origin, raw_client, world
):
    """Sixty intermediates of one name, each with another key: every one could have signed every other, none did."""
    crowd = [certify("One of many", issuer=certify("One of many"), authority=True) for _ in range(60)]
    leaf = world.leaf("a.test", issuer=crowd[0])
    server = tls_origin(answering(OK), world.context(leaf, *crowd[1:]))
    other = tls_origin(answering(OK), world.context(world.leaf("b.test")))
    proxy = secure_proxy(proxy="workers = 1")
    first, second = raw_client(proxy), raw_client(proxy)
    first.send(get("a.test", server.port))
    assert second.exchange(get("b.test", other.port)).body == b"ok"
    problem = check_problem(first.answer(), 502, error="tls_certificate_error")
    assert problem.token == "certificate-untrusted"
    if "SALLYPORT_SANITIZED" not in os.environ:
        assert proxy.cpu_seconds() < 2


def test_a_chain_that_signs_itself_in_a_circle_is_refused(secure_proxy, tls_origin, raw_client, world):
    first, second = certify("First", authority=True), certify("Second", authority=True)
    circle = [
        certify("First", issuer=second, authority=True, key=first.key),
        certify("Second", issuer=first, authority=True, key=second.key),
    ]
    leaf = world.leaf("a.test", issuer=circle[0])
    server = tls_origin(answering(OK), world.context(leaf, *circle, first, second))
    problem = check_problem(raw_client(secure_proxy()).exchange(get("a.test", server.port)), 502)
    assert problem.token == "certificate-untrusted"


def test_an_origin_that_hides_a_zero_in_its_name(secure_proxy, tls_origin, raw_client, world):
    leaf = world.leaf("a.test\0.evil.test")
    server = tls_origin(answering(OK), world.context(leaf))
    problem = check_problem(raw_client(secure_proxy()).exchange(get("a.test", server.port)), 502)
    assert problem.error == "tls_certificate_error"
    assert not server.handshakes


@pytest.mark.parametrize("connect", ["verify", "intercept"])
def test_an_origin_that_never_answers(connect, secure_proxy, secure_client, raw_origin, authority):
    """The probe, and the handshake of a request inside, end by tls_handshake; nothing of the client has left by then."""

    def script(connection) -> None:
        connection.switch_protocol()
        connection.wait_for_end()

    policy = '[proxy.timeouts]\ntls_handshake = "300ms"\n' + authority.table
    proxy = secure_proxy(policy + rule("r", f'connect = "{connect}"'))
    server = raw_origin(script)
    client = secure_client(proxy)
    answer = client.tunnel("a.test", server.port)
    if connect == "intercept":
        client.shake_hands(client_context(authority.file), "a.test")
        answer = client.get_inside(f"a.test:{server.port}", "/secret")
    problem = check_problem(answer, 504, rule="r")
    assert proxy.access_of(problem.reference)["status"] == 504
    assert all(b"/secret" not in bytes(connection.received) for connection in server.connections)


# Ways round the verdict


@pytest.fixture
def openssl_server(world):
    """A function that starts `openssl s_server` with these arguments, and answers its port."""
    running = []

    def start(*arguments: str) -> int:
        port, log = unused_port(), world.file(b"", ".log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-www", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
            )
        running.append(process)
        wait_until_it_listens(port, process, log)
        return port

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("ciphers", ["ALL:@SECLEVEL=0", "DEFAULT:aNULL:@SECLEVEL=0"])
@pytest.mark.parametrize("way", ["origination", "verify"])
def test_a_server_that_shows_no_certificate_is_not_trusted(
    way, ciphers, openssl_server, secure_proxy, raw_client
):
    """Under an anonymous cipher OpenSSL asks for no verdict (RFC 5246 §F.1.1.1)."""
    port = openssl_server("-nocert", "-cipher", "aNULL:@SECLEVEL=0", "-tls1_2", "-naccept", "9")
    security = f'ciphers = "{ciphers}"\npins = "p"'
    proxy = secure_proxy(rule("r", security=security) + pins("p", f'spki = ["{PIN}", "{OTHER_PIN}"]'))
    client = raw_client(proxy)
    tunnel = f"CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()
    asked = get("a.test", port) if way == "origination" else tunnel
    check_problem(client.exchange(asked), 502, rule="r")


def test_a_server_with_endless_tickets_is_ended(openssl_server, secure_proxy, raw_client, world):
    """Each is held until the connection is done with, and a read goes on as long as they come."""
    leaf = world.leaf("a.test")
    certificate = ["-cert", world.file(leaf.pem), "-key", world.file(leaf.key_pem)]
    chain = ["-cert_chain", world.file(world.issuing.pem)]
    port = openssl_server(*map(str, certificate + chain), "-tls1_3", "-num_tickets", "5000")
    proxy = secure_proxy()
    assert raw_client(proxy).exchange(get("a.test", port)).status == 502
    assert proxy.access(lambda line: line["method"] == "GET")["outcome"] != "done"


def test_what_an_unenforced_rule_lets_pass_is_said_of_each_exchange(tls_origin, secure_proxy, raw_client, world):
    server = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    policy = rule("soft", "enforce = false", security='pins = "p"') + pins("p", f'spki = ["{PIN}", "{OTHER_PIN}"]')
    proxy = secure_proxy(policy, proxy="workers = 1")
    for path in ("/1", "/2"):
        assert raw_client(proxy).exchange(get("a.test", server.port, path)).status == 200
        line = proxy.access(lambda line, path=path: line["target"].endswith(path))
        assert (line["report"], line["assurance"]) == ("pin-mismatch", "none")
