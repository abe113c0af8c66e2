"""sallyport ca: the files of the local authority, who may read them, a roll-over and its interruption; and what
`sallyport env` says of the authority to each shell.

What a certificate says is read with openssl and `cryptography`; leaves are signed with the authority's key by openssl, so
that name constraints are judged by OpenSSL's verifier and not by the program that wrote them.
"""

import base64
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certificates import openssl
from conftest import need, with_mounts
from proxy import binary, clean_environment, command
from tls_world import DAY, NOW, certify

SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


def ca(*arguments, expect: int = 0, **options) -> subprocess.CompletedProcess:
    done = command("ca", *map(str, arguments), **options)
    assert done.returncode == expect, f"{done.returncode}: {done.stdout}{done.stderr}"
    assert "BEGIN PRIVATE" not in done.stdout + done.stderr
    return done


def init(directory: Path, *arguments, **options) -> Path:
    ca("init", "--directory", directory, *arguments, **options)
    return directory


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def snapshot(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def public_key(path: Path) -> bytes:
    """Of a certificate or of a private key."""
    if path.suffix == ".pem":
        key = certificate(path).public_key()
    else:
        key = serialization.load_pem_private_key(path.read_bytes(), None).public_key()
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def authority(sallyport_binary, tmp_path) -> Path:
    return init(tmp_path / "authority")


# init


def test_init_makes_a_certificate_and_its_key(sallyport_binary, tmp_path):
    need("openssl")
    directory = tmp_path / "not" / "there" / "yet"
    init(directory)
    assert sorted(snapshot(directory)) == [
        "authorities.pem", "authority.key", "authority.pem", "bundle.pem", "truststore.jks",
    ]
    assert (mode(directory / "authority.key"), mode(directory / "authority.pem")) == (0o600, 0o644)
    assert public_key(directory / "authority.key") == public_key(directory / "authority.pem")
    assert (directory / "authority.key").read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----\n")
    text = openssl("x509", "-in", directory / "authority.pem", "-noout", "-text").decode()
    for expected in (
        "CA:TRUE, pathlen:0",
        "Certificate Sign, CRL Sign",
        "NIST CURVE: P-256",
        "ecdsa-with-SHA256",
        "CN = Sallyport local authority",
    ):
        assert expected in text
    assert "Name Constraints" not in text


def test_the_umask_opens_and_closes_nothing(sallyport_binary, tmp_path):
    for mask in (0o000, 0o077):
        directory = tmp_path / f"{mask}"
        shell = f'umask {mask:o}; exec "$0" "$@"'
        subprocess.run(
            ["sh", "-c", shell, sallyport_binary, "ca", "init", "--directory", directory],
            check=True,
            capture_output=True,
            env=clean_environment(),
        )
        assert mode(directory / "authority.key") == 0o600
        assert mode(directory / "authority.pem") == mode(directory / "bundle.pem") == 0o644


def test_a_second_init_makes_the_next_one_and_a_third_nothing(authority):
    before = snapshot(authority)
    assert "next.pem" in ca("init", "--directory", authority).stdout
    after = snapshot(authority)
    assert set(after) - set(before) == {"next.pem", "next.key"}
    assert all(after[name] == before[name] for name in ("authority.pem", "authority.key"))
    assert mode(authority / "next.key") == 0o600
    assert public_key(authority / "next.key") == public_key(authority / "next.pem")
    assert public_key(authority / "next.key") != public_key(authority / "authority.key")
    refused = ca("init", "--directory", authority, expect=1)
    assert "next.pem" in refused.stderr and "ca activate" in refused.stderr
    assert snapshot(authority) == after


@pytest.mark.parametrize("left", ["authority.key", "next.key"])
def test_a_key_without_its_certificate_is_not_overwritten(left, authority):
    init(authority)
    (authority / left.replace(".key", ".pem")).unlink()
    before = (authority / left).read_bytes()
    assert left in ca("init", "--directory", authority, expect=1).stderr
    assert not (authority / left.replace(".key", ".pem")).exists()
    assert (authority / left).read_bytes() == before


def test_two_at_the_same_time_make_one_pair(sallyport_binary, tmp_path):
    directory = tmp_path / "authority"
    directory.mkdir()
    started = [
        subprocess.Popen(
            [sallyport_binary, "ca", "init", "--directory", directory],
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(6)
    ]
    for process in started:
        process.wait(20)
    assert public_key(directory / "authority.key") == public_key(directory / "authority.pem")
    if (directory / "next.pem").exists():
        assert public_key(directory / "next.key") == public_key(directory / "next.pem")
    assert not [name for name in os.listdir(directory) if name.startswith(".")]


def test_a_directory_that_cannot_be_made_is_named(sallyport_binary, tmp_path):
    (tmp_path / "file").write_text("")
    refused = ca("init", "--directory", tmp_path / "file" / "authority", expect=1)
    assert str(tmp_path / "file" / "authority") in refused.stderr


def test_what_root_makes_belongs_to_the_owner_of_the_directory(sallyport_binary, tmp_path):
    directory = tmp_path / "authority"
    directory.mkdir()
    try:
        os.chown(directory, 12345, 12346)
    except OSError:
        pytest.skip("files cannot be given away here")
    init(directory / "below")
    for path in (directory / "below", *(directory / "below").iterdir()):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346), path


PERMITS = {
    "a name": (
        ["a.example"],
        ["DNS:a.example"],
        ["IP:0.0.0.0/0.0.0.0", "IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0"],
    ),
    "a name as hosts write it": (["**.A.example."], ["DNS:a.example"], ["IP:0.0.0.0/0.0.0.0"]),
    "a name in another script": (["bücher.example"], ["DNS:xn--bcher-kva.example"], []),
    "a block": (["10.0.0.0/8"], ["IP:10.0.0.0/255.0.0.0"], ["DNS:"]),
    "an address": (["192.0.2.1"], ["IP:192.0.2.1/255.255.255.255"], ["DNS:"]),
    "a name and a block of IPv6": (["a.example", "fd00::/8"], ["DNS:a.example", "IP:FD00:0"], None),
}


@pytest.mark.parametrize("name", PERMITS)
def test_permit_becomes_name_constraints(name, sallyport_binary, tmp_path):
    need("openssl")
    permitted, expected, excluded = PERMITS[name]
    directory = init(tmp_path / "a", *(f"--permit={value}" for value in permitted))
    text = openssl("x509", "-in", directory / "authority.pem", "-noout", "-ext", "nameConstraints").decode()
    assert "critical" in text
    inside, _, outside = text.partition("Excluded:")
    assert all(line in inside for line in expected), text
    assert (outside == "") if excluded is None else all(line in outside for line in excluded), text


def sign_leaf(directory: Path, authority: Path, name: str) -> Path:
    """A leaf for this name, signed with the authority's key by openssl, which asks no constraint."""
    (directory / "leaf.cnf").write_text(
        "basicConstraints = critical, CA:FALSE\nkeyUsage = critical, digitalSignature\n"
        "extendedKeyUsage = serverAuth\nsubjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid:always\n"
        f"subjectAltName = {name}\n"
    )
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(
        *["req", *new_key, "-keyout", directory / "leaf.key", "-out", directory / "leaf.csr"],
        *["-subj", "/O=leaf"],
    )
    openssl(
        *["x509", "-req", "-in", directory / "leaf.csr", "-days", "2", "-out", directory / "leaf.pem"],
        *["-CA", authority / "authority.pem", "-CAkey", authority / "authority.key"],
        *["-extfile", directory / "leaf.cnf"],
    )
    return directory / "leaf.pem"


@pytest.mark.parametrize(
    "permitted, leaf, accepted",
    [
        ([], "DNS:anything.test", True),
        (["a.example"], "DNS:a.example", True),
        (["a.example"], "DNS:b.a.example", True),
        (["a.example"], "DNS:b.example", False),
        (["a.example"], "IP:192.0.2.1", False),
        (["a.example", "192.0.2.0/24"], "IP:192.0.2.1", True),
        (["a.example", "192.0.2.0/24"], "IP:192.0.3.1", False),
        (["192.0.2.0/24"], "DNS:a.example", False),
    ],
)
def test_a_strict_client_holds_the_authority_to_what_it_permits(
    permitted, leaf, accepted, sallyport_binary, tmp_path
):
    need("openssl")
    directory = init(tmp_path / "a", *(f"--permit={value}" for value in permitted))
    path = sign_leaf(tmp_path, directory, leaf)
    done = subprocess.run(
        [
            "openssl",
            "verify",
            "-x509_strict",
            "-purpose",
            "sslserver",
            "-CAfile",
            directory / "authority.pem",
            path,
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == accepted, done.stdout + done.stderr
    if not accepted:
        assert "subtree violation" in done.stdout + done.stderr


# activate


def test_a_roll_over_and_back(authority):
    old = snapshot(authority)
    init(authority)
    new = snapshot(authority)
    ca("activate", "--directory", authority)
    now = snapshot(authority)
    assert (now["authority.pem"], now["authority.key"]) == (new["next.pem"], new["next.key"])
    assert (now["previous.pem"], now["previous.key"]) == (old["authority.pem"], old["authority.key"])
    assert "next.pem" not in now and "next.key" not in now
    assert mode(authority / "authority.key") == mode(authority / "previous.key") == 0o600
    ca("activate", "--previous", "--directory", authority)
    back = snapshot(authority)
    assert (back["authority.pem"], back["authority.key"]) == (old["authority.pem"], old["authority.key"])
    assert (back["next.pem"], back["next.key"]) == (new["next.pem"], new["next.key"])
    assert "previous.pem" not in back and "previous.key" not in back


def test_a_second_roll_over_lets_the_oldest_go(authority):
    init(authority)
    ca("activate", "--directory", authority)
    middle = snapshot(authority)
    init(authority)
    ca("activate", "--directory", authority)
    now = snapshot(authority)
    assert (now["previous.pem"], now["previous.key"]) == (middle["authority.pem"], middle["authority.key"])
    assert public_key(authority / "previous.key") == public_key(authority / "previous.pem")


def test_an_activation_that_was_interrupted_is_completed(authority):
    """Between the key and the certificate: the pair that signs does not fit, is refused, and the same command mends it."""
    init(authority)
    wanted = snapshot(authority)
    for kind in ("pem", "key"):
        shutil.copy2(authority / f"authority.{kind}", authority / f"previous.{kind}")
    (authority / "next.key").rename(authority / "authority.key")
    assert "not that of the certificate" in ca("show", "--directory", authority).stdout
    ca("activate", "--directory", authority)
    now = snapshot(authority)
    assert (now["authority.pem"], now["authority.key"]) == (wanted["next.pem"], wanted["next.key"])
    assert (now["previous.pem"], now["previous.key"]) == (wanted["authority.pem"], wanted["authority.key"])
    assert "next.pem" not in now


def test_nothing_is_activated_that_could_not_sign(authority):
    init(authority)
    good = snapshot(authority)

    def refuse(reason: str) -> None:
        refused = ca("activate", "--directory", authority, expect=1)
        assert reason in refused.stderr, refused.stderr
        now = snapshot(authority)
        assert all(now[name] == good[name] for name in ("authority.pem", "authority.key"))

    (authority / "next.key").write_bytes(good["authority.key"])
    refuse("the key is not that of the certificate")
    (authority / "next.key").write_bytes(good["next.key"][:80])
    refuse("expected a private key")
    (authority / "next.key").write_bytes(good["next.key"])
    (authority / "next.key").chmod(0o644)
    refuse("mode 0644")
    (authority / "next.key").chmod(0o600)
    (authority / "next.key").unlink()
    refuse("next.key is missing")
    old = certify("Old", authority=True, path_length=0, starts=NOW - 9 * DAY, ends=NOW - 5 * DAY)
    (authority / "next.pem").write_bytes(old.pem)
    (authority / "next.key").write_bytes(old.key_pem)
    (authority / "next.key").chmod(0o600)
    refuse("expired 5 days ago")


def test_nothing_to_activate_is_said(authority):
    for option in ([], ["--previous"]):
        refused = ca("activate", *option, "--directory", authority, expect=1)
        assert "to activate" in refused.stderr
    init(authority)
    ca("activate", "--directory", authority)
    init(authority)
    refused = ca("activate", "--previous", "--directory", authority, expect=1)
    assert "in the way" in refused.stderr


def test_a_key_that_the_configuration_has_goes_with_its_certificate(authority, tmp_path):
    """The next key is moved to where the configuration takes it from; no key that fits nothing stays behind."""
    init(authority)
    (authority / "next.key").rename(tmp_path / "secret")
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(
        f'[authority]\ndirectory = "{authority}"\nkey = {{ file = "{tmp_path / "secret"}" }}\n'
    )
    old_key = (authority / "authority.key").read_bytes()
    ca("activate", "--config", configuration)
    assert not (authority / "authority.key").exists()
    assert (authority / "previous.key").read_bytes() == old_key
    shown = json.loads(ca("show", "--json", "--config", configuration).stdout)
    assert [(entry["role"], entry["key"]) for entry in shown] == [
        ("active", "from the configuration"),
        ("previous", str(authority / "previous.key")),
    ]


# show


def test_show_agrees_with_openssl(sallyport_binary, tmp_path):
    need("openssl")
    directory = init(tmp_path / "a", "--permit", "a.example", "--permit", "10.0.0.0/8")
    (shown,) = json.loads(ca("show", "--json", "--directory", directory).stdout)
    path = directory / "authority.pem"
    fingerprint = openssl("x509", "-in", path, "-noout", "-fingerprint", "-sha256").decode().strip()
    assert fingerprint.lower().removeprefix("sha256 fingerprint=") == shown["fingerprint_sha256"].lower()
    digest = base64.b64encode(hashlib.sha256(public_key(path)).digest()).decode()
    assert shown["pin"] == f"sha256/{digest}"
    made = certificate(path)
    assert int(shown["serial"], 16) == made.serial_number
    assert shown["not_after"] == made.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert 1823 <= shown["days_left"] <= 1825
    assert (shown["permitted"], shown["excluded"]) == (["a.example", "10.0.0.0/8"], [])
    assert (shown["certificate"], shown["key"]) == (str(path), str(directory / "authority.key"))
    text = ca("show", "--directory", directory).stdout
    for value in (
        shown["subject"],
        shown["pin"],
        shown["fingerprint_sha256"],
        "a.example, 10.0.0.0/8",
        "days left",
    ):
        assert value in text


def test_show_says_what_is_wrong_with_a_key(authority):
    def key() -> str:
        (shown,) = json.loads(ca("show", "--json", "--directory", authority).stdout)
        return shown["key"]

    path = authority / "authority.key"
    for bits, exposed in (
        (0o600, False),
        (0o640, False),
        (0o400, False),
        (0o644, True),
        (0o660, True),
        (0o604, True),
    ):
        path.chmod(bits)
        assert (f"mode 0{bits:o}" in key()) == exposed, key()
    path.chmod(0o600)
    path.write_bytes(certify("another").key_pem)
    assert "not that of the certificate" in key()
    path.unlink()
    assert key() == f"{path} is not there"


def test_no_authority_is_said(sallyport_binary, tmp_path):
    for arguments in (["show"], ["show", "--json"], ["export"]):
        refused = ca(*arguments, "--directory", tmp_path, expect=1)
        assert f"no authority in {tmp_path}" in refused.stderr and refused.stdout == ""


UNFIT = {
    "a leaf": (certify("leaf", names=("a.test",)).pem, "expected a certificate of an authority"),
    "no path length": (certify("ca", authority=True).pem, "expected path length 0, found none"),
    "path length 1": (certify("ca", authority=True, path_length=1).pem, "expected path length 0, found 1"),
    "a key": (certify("ca").key_pem, "found"),
    "text": (b"no certificate\n", "expected one certificate"),
    "nothing": (b"", "expected one certificate"),
    "two certificates": (certify("a").pem + certify("b").pem, "found 2 of them"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_no_authority_is_refused_with_its_file(name, authority):
    content, expected = UNFIT[name]
    (authority / "authority.pem").write_bytes(content)
    for arguments in (["show"], ["export"], ["export", "--bundle"]):
        refused = ca(*arguments, "--directory", authority, expect=1)
        assert f"{authority}/authority.pem" in refused.stderr and expected in refused.stderr


def test_an_expired_authority_is_shown_and_said_to_be(authority):
    old = certify("Old", authority=True, path_length=0, starts=NOW - 30 * DAY, ends=NOW - 3 * DAY)
    (authority / "authority.pem").write_bytes(old.pem)
    (authority / "authority.key").write_bytes(old.key_pem)
    shown = ca("show", "--directory", authority).stdout
    assert "expired 3 days ago" in shown
    (entry,) = json.loads(ca("show", "--json", "--directory", authority).stdout)
    assert entry["days_left"] < 0


# export


def common_names(pem: bytes) -> list[str]:
    return [found.subject.rfc4514_string() for found in x509.load_pem_x509_certificates(pem)]


def test_export_gives_what_is_to_be_trusted(authority, tmp_path):
    active = (authority / "authority.pem").read_bytes()
    assert ca("export", "--directory", authority).stdout.encode() == active
    init(authority)
    following = (authority / "next.pem").read_bytes()
    assert ca("export", "--directory", authority).stdout.encode() == active + following
    assert ca("export", "--only", "next", "--directory", authority).stdout.encode() == following
    output = tmp_path / "exported"
    ca("export", "--format", "der", "--only", "active", "--output", output, "--directory", authority)
    assert x509.load_der_x509_certificate(output.read_bytes()) == certificate(authority / "authority.pem")
    assert mode(output) == 0o644
    ca("activate", "--directory", authority)
    assert ca("export", "--directory", authority).stdout.encode() == following + active
    refused = ca("export", "--format", "der", "--directory", authority, expect=1)
    assert "active, previous" in refused.stderr
    refused = ca("export", "--only", "next", "--directory", authority, expect=1)
    assert "no authority of that kind" in refused.stderr


def test_an_authority_that_has_expired_is_no_longer_exported(authority):
    old = certify("Old", authority=True, path_length=0, starts=NOW - 30 * DAY, ends=NOW - 3 * DAY)
    (authority / "previous.pem").write_bytes(old.pem)
    exported = ca("export", "--directory", authority).stdout.encode()
    assert exported == (authority / "authority.pem").read_bytes()


def test_the_bundle_is_the_systems_and_the_authorities(authority, tmp_path):
    if not SYSTEM_BUNDLE.exists():
        pytest.skip(f"{SYSTEM_BUNDLE} does not exist")
    init(authority)
    expected = SYSTEM_BUNDLE.read_bytes() + b"".join(
        (authority / name).read_bytes() for name in ("authority.pem", "next.pem")
    )
    output = tmp_path / "bundle.pem"
    ca("export", "--bundle", "--output", output, "--directory", authority)
    assert output.read_bytes() == expected
    assert (authority / "bundle.pem").read_bytes() == expected
    openssl("storeutl", "-noout", "-certs", output)


def test_the_bundle_does_not_grow_on_itself(authority):
    """A shell that `env` has set up names the bundle as SSL_CERT_FILE."""
    before = (authority / "bundle.pem").read_bytes()
    ca("export", "--bundle", "--output", authority / "bundle.pem", "--directory", authority,
       SSL_CERT_FILE=str(authority / "bundle.pem"))  # fmt: skip
    assert (authority / "bundle.pem").read_bytes() == before


# env

ADDITIVE = ["NODE_EXTRA_CA_CERTS", "DENO_CERT"]
REPLACING = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "NIX_SSL_CERT_FILE",
]


def configure(directory: Path, authority: Path) -> Path:
    path = directory / "sallyport.toml"
    path.write_text(f"[authority]\ndirectory = {json.dumps(str(authority))}\n")
    return path


def intercepting(authority: Path) -> str:
    """A policy of which rule 'seen', on line 4, needs the authority."""
    return f'[authority]\ndirectory = "{authority}"\n\n[[rule]]\nname = "seen"\nconnect = "intercept"\n'


def env(configuration: Path, shell: str = "sh", prefix: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [*prefix, binary(), "env", "--config", configuration, "--shell", shell],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def variables(script: str) -> dict[str, str]:
    """What the lines set in a shell that knew none of them."""
    done = subprocess.run(
        ["sh", "-euc", script + "\nenv -0"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        check=True,
    )
    assert done.stderr == ""
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)


def test_env_says_nothing_of_an_authority_that_there_is_not(sallyport_binary, tmp_path):
    found = variables(env(configure(tmp_path, tmp_path / "none")))
    assert not set(found) & {*ADDITIVE, *REPLACING}
    assert found["https_proxy"] == "http://127.0.0.1:3128"


def test_env_points_programs_at_the_authority(authority, tmp_path):
    found = variables(env(configure(tmp_path, authority)))
    assert {found[name] for name in ADDITIVE} == {str(authority / "authorities.pem")}
    assert {found[name] for name in REPLACING} == {str(authority / "bundle.pem")}
    assert (authority / "authorities.pem").read_bytes() == (authority / "authority.pem").read_bytes()


ODD = 'it\'s 100% "odd" $HOME `x` \\ here'


def test_odd_paths_reach_the_shell_as_they_are(sallyport_binary, tmp_path):
    authority = init(tmp_path / ODD)
    configuration = configure(tmp_path, authority)
    assert variables(env(configuration))["SSL_CERT_FILE"] == str(authority / "bundle.pem")
    line = next(line for line in env(configuration, "systemd").splitlines() if "SSL_CERT_FILE" in line)
    escaped = str(authority / "bundle.pem").replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    assert line == f'Environment="SSL_CERT_FILE={escaped}"'
    assert shlex.split(line.replace("%%", "%").replace("$", "\\$").replace("`", "\\`"))[0].endswith(
        "bundle.pem"
    )


def test_a_path_cannot_leave_its_line(sallyport_binary, tmp_path):
    """Comments name paths too: one with a line feed in it must not become a command."""
    authority = init(tmp_path / "a\ntouch SAID; b")
    (authority / "bundle.pem").unlink()
    (authority / "bundle.pem").mkdir()
    configuration = configure(tmp_path, authority)
    found = variables(f"cd {tmp_path}\n{env(configuration)}")
    assert found["NODE_EXTRA_CA_CERTS"] == str(authority / "authorities.pem")
    assert not (tmp_path / "SAID").exists()
    assert all(
        line.startswith(("# ", 'Environment="')) for line in env(configuration, "systemd").splitlines()
    )


def test_odd_paths_reach_fish(sallyport_binary, tmp_path):
    need("fish")
    authority = init(tmp_path / ODD)
    script = env(configure(tmp_path, authority), "fish")
    done = subprocess.run(
        ["fish", "-c", script + "\necho $SSL_CERT_FILE"],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.stdout.strip() == str(authority / "bundle.pem")


@pytest.mark.parametrize(
    "shell, line",
    [
        ("sh", r"export \w+='[^']*'"),
        ("fish", r"set -gx \w+ '[^']*'"),
        ("systemd", r'Environment="\w+=[^"]*"'),
    ],
)
def test_every_line_is_an_assignment_or_a_comment(shell, line, authority, tmp_path):
    for text in env(configure(tmp_path, authority), shell).splitlines():
        assert text.startswith("# ") or re.fullmatch(line, text), text


def test_env_brings_the_files_up_to_date(authority, tmp_path):
    configuration = configure(tmp_path, authority)
    wanted = snapshot(authority)
    for name in ("bundle.pem", "authorities.pem"):
        (authority / name).write_text("out of date")
    env(configuration)
    assert snapshot(authority) == wanted
    for name in ("bundle.pem", "authorities.pem"):
        (authority / name).unlink()
    env(configuration)
    assert snapshot(authority) == wanted


@pytest.fixture
def unwritable(sallyport_binary):
    """An authority in a directory that the user `prefix` becomes may read and not write."""
    directory = Path(tempfile.mkdtemp(prefix="sallyport-"))
    directory.chmod(0o755)
    init(directory / "authority")
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        need("setpriv")
        prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        probe = subprocess.run([*prefix, sallyport_binary, "version"], capture_output=True)
        if probe.returncode != 0:
            shutil.rmtree(directory)
            pytest.skip("no other user here that may run the program")
    else:
        (directory / "authority").chmod(0o555)
    yield directory, prefix
    (directory / "authority").chmod(0o755)
    shutil.rmtree(directory)


def test_a_file_that_is_out_of_date_and_cannot_be_written_is_said_to_be(unwritable):
    directory, prefix = unwritable
    authority = directory / "authority"
    configuration = configure(directory, authority)
    configuration.chmod(0o644)
    assert "out of date" not in env(configuration, prefix=prefix)
    if not prefix:
        authority.chmod(0o755)
    (authority / "bundle.pem").write_text("something else")
    if not prefix:
        authority.chmod(0o555)
    script = env(configuration, prefix=prefix)
    assert f"# {authority}/bundle.pem is out of date" in script
    assert variables(script)["SSL_CERT_FILE"] == str(authority / "bundle.pem")
    assert (authority / "bundle.pem").read_text() == "something else"


def test_a_file_that_is_not_there_and_cannot_be_written_is_not_pointed_at(unwritable):
    """A program that is pointed at nothing trusts nobody."""
    directory, prefix = unwritable
    authority = directory / "authority"
    configuration = configure(directory, authority)
    configuration.chmod(0o644)
    if not prefix:
        authority.chmod(0o755)
    (authority / "bundle.pem").unlink()
    if not prefix:
        authority.chmod(0o555)
    script = env(configuration, prefix=prefix)
    assert f"# {authority}/bundle.pem does not exist" in script
    assert not set(variables(script)) & set(REPLACING)
    assert variables(script)["NODE_EXTRA_CA_CERTS"] == str(authority / "authorities.pem")


def test_env_with_an_authority_that_is_none_fails(authority, tmp_path):
    (authority / "authority.pem").write_text("nothing of the kind")
    done = command("env", "--config", configure(tmp_path, authority))
    assert done.returncode == 1
    assert "authority.pem" in done.stderr
    assert not set(variables(done.stdout)) & {*ADDITIVE, *REPLACING}


def test_java_trusts_the_authority_and_the_systems_anchors(authority, tmp_path):
    need("keytool")
    options = shlex.split(variables(env(configure(tmp_path, authority)))["JAVA_TOOL_OPTIONS"])
    store = dict(option.removeprefix("-D").split("=", 1) for option in options)
    assert store["https.proxyHost"] == "127.0.0.1" and store["https.proxyPort"] == "3128"
    path, password = store["javax.net.ssl.trustStore"], store["javax.net.ssl.trustStorePassword"]
    assert path == str(authority / "truststore.jks") and mode(Path(path)) == 0o644
    listed = subprocess.run(
        ["keytool", "-list", "-v", "-keystore", path, "-storepass", password],
        check=True, capture_output=True, text=True,
    ).stdout
    assert "CN=Sallyport local authority" in listed
    wanted = (authority / "bundle.pem").read_text().count("BEGIN CERTIFICATE")
    assert int(re.search(r"contains (\d+) entries", listed)[1]) == wanted > 50
    refused = subprocess.run(
        ["keytool", "-list", "-keystore", path, "-storepass", "another"], capture_output=True, text=True
    )
    assert refused.returncode != 0


def test_an_odd_path_of_a_trust_store_reaches_java(sallyport_binary, tmp_path):
    need("java")
    authority = init(tmp_path / "it's \"odd\" here")
    options = variables(env(configure(tmp_path, authority)))["JAVA_TOOL_OPTIONS"]
    done = subprocess.run(
        ["java", "-XshowSettings:properties", "-version"], capture_output=True, text=True,
        env={**clean_environment(), "JAVA_TOOL_OPTIONS": options},
    )
    assert f"javax.net.ssl.trustStore = {authority}/truststore.jks" in done.stderr


def test_the_bundle_holds_the_anchors_of_trust_too(authority, tmp_path):
    """Programs check the certificates in plain tunnels themselves, by what the bundle says."""
    (tmp_path / "corporate.pem").write_bytes(certify("Corporate root", authority=True).pem)
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(
        f'[trust]\nanchors = "corporate.pem"\n[authority]\ndirectory = {json.dumps(str(authority))}\n'
    )
    before = (authority / "bundle.pem").read_bytes()
    found = variables(env(configuration))
    after = Path(found["SSL_CERT_FILE"]).read_bytes()
    assert after.count(b"BEGIN CERTIFICATE") == before.count(b"BEGIN CERTIFICATE") + 1
    assert (tmp_path / "corporate.pem").read_bytes() in after
    exported = ca("export", "--bundle", "--config", configuration)
    assert exported.stdout.encode() == after


# Usage

USAGE = {
    "no subcommand": ([], "init, activate, show or export"),
    "another subcommand": (["revoke"], "'revoke'"),
    "an operand": (["show", "surplus"], "surplus"),
    "an unknown option": (["init", "--frobnicate"], "--frobnicate"),
    "permit without a value": (["init", "--permit"], "--permit"),
    "permit of any name": (["init", "--permit", "*"], "leave it out"),
    "permit of one label more": (["init", "--permit", "*.a.example"], "'a.example'"),
    "permit of a URL": (["init", "--permit", "https://a.example/"], "URL"),
    "permit of a block with bits behind it": (["init", "--permit", "10.0.0.1/8"], "10.0.0.0/8"),
    "permit of nothing": (["init", "--permit", ""], "--permit"),
    "another format": (["export", "--format", "p12"], "pem or der"),
    "another role": (["export", "--only", "future"], "active, next or previous"),
    "a bundle as DER": (["export", "--bundle", "--format", "der"], "--bundle"),
    "a bundle of one": (["export", "--bundle", "--only", "next"], "--bundle"),
}


@pytest.mark.parametrize("name", USAGE)
def test_usage(name, sallyport_binary, tmp_path):
    arguments, expected = USAGE[name]
    done = command("ca", *arguments[:1], "--directory", str(tmp_path / "a"), *arguments[1:])
    if not arguments:
        done = command("ca")
    assert done.returncode == 2, done.stdout + done.stderr
    assert expected in done.stderr
    assert not (tmp_path / "a").exists()


def test_the_directory_of_the_configuration_is_the_one_meant(sallyport_binary, tmp_path):
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text('[authority]\ndirectory = "mine"\n')
    ca("init", "--config", configuration)
    assert (tmp_path / "mine" / "authority.pem").exists()
    configuration.write_text("[authority]\ndirectroy = 1\n")
    assert "directroy" in ca("show", "--config", configuration, expect=1).stderr


def test_help(sallyport_binary):
    done = command("help", "ca")
    assert done.returncode == 0
    for word in ("init", "activate", "show", "export", "--permit", "--directory", "--bundle", "roll-over"):
        assert word in done.stdout


# check


def test_check_warns_of_an_authority_that_ends_soon_and_of_its_directory(tmp_path):
    """Without an authority the daemon does not start, so its end is told of before."""
    configuration = tmp_path / "sallyport.toml"
    directory = tmp_path / "authority"
    configuration.write_text(intercepting(directory))
    directory.mkdir(mode=0o755)
    for days, words in ((29.5, "expires on "), (31, None)):
        soon = certify("Soon", authority=True, path_length=0, starts=NOW - 30 * DAY, ends=NOW + days * DAY)
        (directory / "authority.pem").write_bytes(soon.pem)
        (directory / "authority.pem").chmod(0o644)
        (directory / "authority.key").write_bytes(soon.key_pem)
        (directory / "authority.key").chmod(0o600)
        done = command("check", "--config", configuration)
        assert done.returncode == 0 and (": warning: " in done.stdout) == (words is not None), done
        if words:
            assert words in done.stdout and "'sallyport ca init' makes the next one" in done.stdout
    for path, mode, kept in (directory, 0o777, 0o755), (directory / "authority.pem", 0o664, 0o644):
        path.chmod(mode)
        done = command("check", "--config", configuration)
        assert done.returncode == 1 and f"{path} has mode 0{mode:o}" in done.stdout and "chmod go-w" in done.stdout
        refused = command("run", "--config", configuration)
        assert refused.returncode == 1 and f"{path} has mode 0{mode:o}" in refused.stderr
        path.chmod(kept)


def test_what_keeps_the_files_of_programs_from_being_made_is_said(sallyport, tmp_path):
    """`check`, the start and a reload: until it is mended, programs go on with the files of before."""
    directory = init(init(tmp_path / "authority"))
    policy = intercepting(directory)
    said = f"{directory}/next.pem has mode 0666"
    stays = f"until that is mended, {directory}/authorities.pem and {directory}/bundle.pem stay as they are"
    before = (directory / "bundle.pem").read_bytes()
    proxy = sallyport(policy=policy)
    (directory / "next.pem").chmod(0o666)
    (directory / "bundle.pem").write_text("something else")
    checked = command("check", "--config", proxy.configuration)
    assert checked.returncode == 0 and ": warning: rule 'seen' intercepts, and " + said in checked.stdout
    assert stays in checked.stdout
    for start in (lambda: proxy, lambda: sallyport(policy=policy)):
        begun = start()
        if begun is proxy:
            proxy.reload(policy=policy)
        warning = begun.log.wait_for(lambda entry: stays in entry.get("message", ""))
        assert warning["level"] == "warning" and warning["message"].startswith(said)
    assert (directory / "bundle.pem").read_text() == "something else"
    # A key that only the daemon may read keeps nobody from being told of it.
    (directory / "authority.key").chmod(0o644)
    checked = command("check", "--config", proxy.configuration)
    assert checked.returncode == 1 and "authority.key" in checked.stdout and said in checked.stdout
    (directory / "authority.key").chmod(0o600)
    (directory / "next.pem").chmod(0o644)
    assert "stay as they are" not in command("check", "--config", proxy.configuration).stdout
    proxy.reload(policy=policy)
    assert (directory / "bundle.pem").read_bytes() == before


def test_a_file_of_programs_that_cannot_be_written_is_said(sallyport, tmp_path):
    """Of a file that is as it should be, nothing; of one that is another's, that programs go on with it."""
    directory = init(tmp_path / "authority")
    policy = intercepting(directory)
    shut = with_mounts(f"mount --bind {directory} {directory}; mount -o remount,bind,ro {directory}")
    silent = sallyport(policy=policy, prefix=shut)
    (directory / "bundle.pem").write_text("something else")
    silent.reload(policy=policy)
    said = [entry for entry in silent.log.snapshot() if "out of date" in entry.get("message", "")]
    assert [entry["message"] for entry in said] == [
        f"{directory}/bundle.pem is out of date and cannot be written; until that is mended, programs go on with it"
    ]
    assert said[0]["level"] == "warning" and (directory / "bundle.pem").read_text() == "something else"


def test_check_looks_for_the_authority_that_a_rule_needs(tmp_path):
    """`run` would refuse to start, and `check` says so where the rule stands."""
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(intercepting(tmp_path / "authority"))
    missing = command("check", "--config", configuration)
    assert missing.returncode == 1
    assert f"{configuration}:4:1: error: rule 'seen' intercepts" in missing.stdout
    assert "sallyport ca init" in missing.stdout
    (found,) = [entry for entry in json.loads(command("check", "--json", "--config", configuration).stdout)]
    assert found["severity"] == "error" and found["line"] == 4
    init(tmp_path / "authority")
    assert command("check", "--config", configuration).returncode == 0
    (tmp_path / "authority" / "authority.key").write_text("no key")
    broken = command("check", "--config", configuration)
    assert broken.returncode == (1 if os.geteuid() == 0 else 0)
    assert "authority.key" in broken.stdout or "authority.pem" in broken.stdout
