"""The certificates of the TLS rows: a CA with the origin's certificate, and the authority of intercepting proxies.

All keys are P-256, made anew by each bench with the openssl program and valid for a few days. Part of bench.py.
"""

import pathlib
import subprocess

import processes
from processes import BenchError

DAYS = 60  # proxies warn of what expires sooner than in 30
COMMAND_SECONDS_MAX = 10
# Names below .localhost are the local machine's (RFC 6761), so that no name server takes part.
DOMAIN = "bench.localhost"
ORIGIN_NAME = f"origin.{DOMAIN}"
# What the origin's certificate does not cover: a proxy that fetches something from there has not verified it.
UNCOVERED_NAME = "uncovered.localhost"

EXTENSIONS = f"""
[req]
distinguished_name = name
prompt = no
[name]
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[origin]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:*.{DOMAIN}
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
"""


class Certificates:
    """PEM files. `ca` vouches for `origin` (its key: `origin_key`), which covers every name one label below DOMAIN.
    `authority_directory` has what Sallyport's [authority] reads, `authority_with_key` is the same in one file, as Squid
    wants it, `authority` the certificate for clients to trust. `stand_in_with_key` covers the names of the origin too, but
    is signed by the authority: for a proxy that cannot make such certificates itself."""

    def __init__(self, directory: pathlib.Path):
        directory.mkdir()
        self._configuration = directory / "openssl.cnf"
        self._configuration.write_text(EXTENSIONS)
        self.ca, ca_key = self._create(directory / "ca", "Sallyport bench CA", "ca")
        self.origin, self.origin_key = self._create(
            directory / "origin", ORIGIN_NAME, "origin", "-CA", str(self.ca), "-CAkey", str(ca_key))
        self.authority_directory = directory / "authority"
        self.authority_directory.mkdir(mode=0o700)
        self.authority, authority_key = self._create(
            self.authority_directory / "authority", "Sallyport bench authority", "ca", key_suffix=".key")
        self.authority_with_key = self._join(directory / "authority-with-key.pem", self.authority, authority_key)
        self.stand_in_with_key = self._join(directory / "stand-in-with-key.pem", *self._create(
            directory / "stand-in", ORIGIN_NAME, "origin", "-CA", str(self.authority), "-CAkey", str(authority_key)))

    @staticmethod
    def _join(whole: pathlib.Path, *parts: pathlib.Path) -> pathlib.Path:
        whole.write_bytes(b"".join(part.read_bytes() for part in parts))
        return whole

    def _create(self, stem: pathlib.Path, name: str, extensions: str, *issuer: str, key_suffix: str = "-key.pem"):
        """A certificate and its key, which openssl writes with mode 0600; without an issuer it signs itself."""
        certificate, key = stem.with_suffix(".pem"), stem.with_name(stem.name + key_suffix)
        openssl = processes.find("openssl")
        if openssl is None:
            raise BenchError("openssl is not installed; on Debian: apt install openssl")
        done = subprocess.run(
            [openssl, "req", "-x509", "-config", self._configuration, "-extensions", extensions, "-subj", f"/CN={name}",
             "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", str(DAYS), *issuer,
             "-keyout", key, "-out", certificate],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=COMMAND_SECONDS_MAX)
        if done.returncode != 0:
            raise BenchError(f"openssl cannot make a certificate: {processes.tail(done.stdout.decode(errors='replace'))}")
        return certificate, key
