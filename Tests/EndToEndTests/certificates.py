"""A certificate authority for the tests, made with openssl at the start of each run."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ServerCertificate:
    """A certificate for localhost and 127.0.0.1, its key, the authority to trust, and Chromium's name for the key."""

    authority: Path
    certificate: Path
    key: Path
    spki_sha256: str


def openssl(*arguments: str | Path, given: bytes | None = None) -> bytes:
    return subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=True).stdout


def make_server_certificate(directory: Path) -> ServerCertificate:
    authority, authority_key = directory / "authority.pem", directory / "authority.key"
    key, request, certificate = directory / "server.key", directory / "server.csr", directory / "server.pem"
    extensions = directory / "extensions.cnf"
    extensions.write_text(
        "basicConstraints = CA:FALSE\nkeyUsage = digitalSignature\nextendedKeyUsage = serverAuth\n"
        "subjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1\n"
    )
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(
        *["req", "-x509", *new_key, "-keyout", authority_key, "-out", authority, "-days", "2"],
        *["-subj", "/CN=Sallyport test authority"],
        *["-addext", "keyUsage = critical, keyCertSign, cRLSign"],
    )
    openssl("req", *new_key, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    openssl(
        *["x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key, "-CAcreateserial"],
        *["-out", certificate, "-days", "2", "-extfile", extensions],
    )
    public_key = openssl("x509", "-in", certificate, "-noout", "-pubkey")
    encoded = openssl("pkey", "-pubin", "-outform", "DER", given=public_key)
    digest = openssl("dgst", "-sha256", "-binary", given=encoded)
    return ServerCertificate(authority, certificate, key, openssl("base64", "-A", given=digest).decode())
