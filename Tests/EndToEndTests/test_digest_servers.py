"""Digest against servers and clients of others: Apache's mod_auth_digest, and curl as the check of the tests' own server."""

import hashlib
import subprocess
import time

import pytest

from conftest import need
from digest_server import Digest, guarding
from journal import DEADLINE_SECONDS
from origins import unused_port
from proxy import clean_environment
from test_digest import CREDENTIALS, KINDS, USER, ask, digest
from tls_world import rule
from ways import SECRET

APACHE_MODULES = "/usr/lib/apache2/modules"
APACHE = """
ServerRoot {directory}
ServerName localhost
PidFile {directory}/pid
ErrorLog {directory}/errors
Listen 127.0.0.1:{port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authn_file_module {modules}/mod_authn_file.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule auth_digest_module {modules}/mod_auth_digest.so
LoadModule dav_module {modules}/mod_dav.so
LoadModule dav_fs_module {modules}/mod_dav_fs.so
DavLockDB {directory}/locks
DocumentRoot {directory}/root
LogFormat "%m %U %>s %u %k" short
CustomLog {directory}/access short
<Directory {directory}/root>
  Dav On
  AuthType Digest
  AuthName "staff only"
  AuthDigestProvider file
  AuthUserFile {directory}/users
  AuthDigestNonceLifetime {lifetime}
  Require valid-user
</Directory>
"""


@pytest.fixture
def apache(tmp_path):
    """A function that starts Apache with one user; its port, and the file that it logs to."""
    need("apache2")
    started = []

    def start(lifetime: int = 300) -> tuple[int, object]:
        port = unused_port()
        (tmp_path / "root").mkdir()
        (tmp_path / "root").chmod(0o777)
        (tmp_path / "root/page").write_text("a page")
        realm = "staff only"
        key = hashlib.md5(f"{USER}:{realm}:{SECRET}".encode()).hexdigest()
        (tmp_path / "users").write_text(f"{USER}:{realm}:{key}\n")
        file = tmp_path / "apache.conf"
        file.write_text(APACHE.format(directory=tmp_path, port=port, modules=APACHE_MODULES, lifetime=lifetime))
        process = subprocess.Popen(["apache2", "-X", "-f", str(file)], env=clean_environment())
        started.append(process)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (tmp_path / "pid").exists():
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "errors").read_text()
            time.sleep(0.02)
        return port, tmp_path / "access"

    yield start
    for process in started:
        process.terminate()
        process.wait(DEADLINE_SECONDS)


class Place:
    """What `ask` wants to know of an origin."""

    def __init__(self, port: int):
        self.authority = f"localhost:{port}"
        self.url = f"http://{self.authority}"


def lines(file, count: int) -> list[str]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not file.exists() or len(file.read_text().splitlines()) < count:
        assert time.monotonic() < deadline, file.read_text() if file.exists() else "no log"
        time.sleep(0.02)
    return file.read_text().splitlines()


def test_apache(apache, sallyport, raw_client):
    port, log = apache()
    proxy = sallyport(policy=rule("kept", request=CREDENTIALS), environment={"HIDDEN": SECRET})
    client = raw_client(proxy)
    assert ask(Place(port), client, path="/page").body == b"a page"
    assert ask(Place(port), client, path="/page?q=1").body == b"a page"
    assert ask(Place(port), client, "PUT", body=b"x" * 300_000, path="/new").status == 201
    assert len(ask(Place(port), client, path="/new").body) == 300_000
    # Method, path, status, user, and how many requests the connection had before.
    assert lines(log, 5) == [
        "GET /page 401 - 0",
        f"GET /page 200 {USER} 1",
        f"GET /page 200 {USER} 2",
        f"PUT /new 201 {USER} 3",
        f"GET /new 200 {USER} 4",
    ]


def test_nonces_of_apache_that_go_stale(apache, sallyport, raw_client):
    port, log = apache(lifetime=1)
    proxy = sallyport(policy=rule("kept", request=CREDENTIALS), environment={"HIDDEN": SECRET})
    client = raw_client(proxy)
    assert ask(Place(port), client, path="/page").status == 200
    time.sleep(1.2)  # the lifetime that Apache is told above
    assert ask(Place(port), client, path="/page").status == 200
    assert [line.split()[2] for line in lines(log, 4)] == ["401", "200", "401", "200"]


def test_apache_refuses_a_wrong_password(apache, sallyport, raw_client):
    port, log = apache()
    proxy = sallyport(policy=rule("kept", request=CREDENTIALS), environment={"HIDDEN": "wrong"})
    answer = ask(Place(port), raw_client(proxy), path="/page")
    assert answer.status == 401 and b"credentials were refused" in answer.values("Proxy-Status")[0]
    assert [line.split()[2] for line in lines(log, 2)] == ["401", "401"]


def curl(*arguments: str) -> str:
    need("curl")
    done = subprocess.run(
        ["curl", "-s", "-w", "%{http_code}", "-m", str(DEADLINE_SECONDS), *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    return done.stdout


# curl of Debian 12 computes another hash under the name SHA-512-256 (RFC 7616's erratum), and takes no nonce for one request.
@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.get("algorithm") != "SHA-512-256" and "names_next" not in kind],
    ids=lambda kind: "-".join(map(str, kind.values())),
)
def test_the_server_of_the_tests_by_curl(raw_origin, kind):
    """What the tests of the proxy rely on."""
    guard = guarding(digest(**kind))

    def unchecked(connection) -> None:
        try:
            guard(connection)
        finally:
            connection.switched_after = 0

    origin = raw_origin(unchecked)
    assert curl("--digest", "-u", f"{USER}:{SECRET}", origin.url + "/x?a=1") == "ok200"
    assert curl("--digest", "-u", f"{USER}:wrong", origin.url + "/x").endswith("401")
