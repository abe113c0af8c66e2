"""A realm of Kerberos for the tests: MIT's key distribution center on a port of its own, and keys in keytabs."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import need
from journal import DEADLINE_SECONDS
from parents import Program, unused_port

REALM = "OFFICE.TEST"
LIBRARY = """
[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  .test = {realm}
"""
CENTER = """
[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {directory}/principals
    key_stash_file = {directory}/stash
    acl_file = {directory}/acl
    max_life = 1h
  }}
"""


class Realm:
    def __init__(self, directory: Path):
        need("krb5kdc", "kdb5_util", "kadmin.local")
        self.directory = directory
        self.port = unused_port()
        settings = dict(realm=REALM, directory=directory, port=self.port)
        (directory / "krb5.conf").write_text(LIBRARY.format(**settings))
        (directory / "kdc.conf").write_text(CENTER.format(**settings))
        self.environment = {
            "KRB5_CONFIG": str(directory / "krb5.conf"), "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
        }
        self._run("kdb5_util", "-r", REALM, "create", "-s", "-P", "test")
        self.center: Program | None = None
        self.principals: set[str] = set()

    def _run(self, *command: str) -> None:
        subprocess.run(
            command, env=os.environ | self.environment, check=True, capture_output=True, timeout=DEADLINE_SECONDS)

    def keytab(self, *principals: str) -> Path:
        """New keys of these principals, which are made where they are not there."""
        path = self.directory / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            if principal not in self.principals:
                self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self.principals.add(principal)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        path.chmod(0o640)
        return path

    def start(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            self.center = Program(
                self.directory, self.port, "krb5kdc", "-n", "-r", REALM, "-P", self.directory / "kdc.pid")

    def stop(self) -> None:
        if self.center:
            self.center.stop()
        self.center = None


@pytest.fixture(scope="session")
def _realm(tmp_path_factory):
    made = Realm(tmp_path_factory.mktemp("realm"))
    yield made
    made.stop()


@pytest.fixture
def realm(_realm, monkeypatch) -> Realm:
    """The realm, with its center running, in the environment of whatever the test starts."""
    for name, value in _realm.environment.items():
        monkeypatch.setenv(name, value)
    if _realm.center is None:
        _realm.start()
    return _realm
