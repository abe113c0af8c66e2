"""The origin behind the proxies: nginx, the same files over plain HTTP and over TLS. Part of bench.py."""

import gzip
import os
import socket
from dataclasses import dataclass

import documents
import processes
from certificates import DOMAIN, ORIGIN_NAME
from processes import HOST, BenchError, Child

# Far above what the timed rows open, and tinyproxy's one a request.
CONNECTIONS = 8_192
# No time-out may end an idle connection, or a slow 10 MiB response, within a row.
IDLE_SECONDS = 600
FILES = {"/1k": 1024, "/64k": 64 * 1024, "/10m": 10 * 1024 * 1024}
# Below it is what Sallyport's rules of the serializer rows are for; what else is asked for shows that a proxy works.
API = "/api/"
API_1K, API_DOCUMENT, API_DOCUMENT_GZIP = f"{API}1k", f"{API}document", f"{API}document-gzip"
# The document without its last brace: what a serializer refuses.
API_BROKEN = f"{API}broken"
# What arrives of a request: the fields that rules of [rule.request] change, and the query.
API_SEEN = f"{API}seen"
SEEN_VARIABLES = ("http_x_client", "http_x_environment", "http_accept", "http_accept_language", "http_cookie",
                  "http_referer", "http_user_agent", "args")
GZIP_LEVEL = 6  # that of most servers which compress once and keep the result
# What every TLS connection of the bench is encrypted with, that no proxy is compared with another's cipher.
CIPHER_SUITE = "TLS_AES_256_GCM_SHA384"


@dataclass(frozen=True)
class Site:
    """Where the files are, as a client asks for them."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"

    def url(self, path: str) -> str:
        return f"{self.scheme}://{self.authority}{path}"


def numbered_host(number: int) -> str:
    """One of the names that are all the TLS origin's. tunnel-load makes the same."""
    return f"h{number}.{DOMAIN}"


class Origin:
    """nginx: one worker, static files, kept-alive connections without an end, no log.

    `/seen` answers with the request line and the connection as nginx saw them, which is how a proxy is checked. Small
    files are read, not sent with sendfile, so that head and body leave in one segment; for the others tcp_nopush does it.
    """

    def __init__(self, bench):
        self.plain = Site("http", HOST, processes.free_port())
        self.secure = Site("https", ORIGIN_NAME, processes.free_port())
        directory = bench.new_path("origin")
        root = directory / "files"
        (root / API.strip("/")).mkdir(parents=True)
        document = documents.document()
        self.files = {path: os.urandom(size) for path, size in FILES.items()} | {
            API_1K: os.urandom(1024), API_DOCUMENT: document, API_BROKEN: document[:-1],
            API_DOCUMENT_GZIP: gzip.compress(document, GZIP_LEVEL, mtime=0)}
        for path, content in self.files.items():
            (root / path.lstrip("/")).write_bytes(content)
        # As root, nginx's worker would be another user, who need not be able to read our directory.
        user = "user root;" if os.geteuid() == 0 else ""
        # Names below .localhost have both addresses, and ::1 is tried first; so who must be told the address gets that.
        self.secure_address = "::1" if has_ipv6() else HOST
        self.secure_endpoint = f"{'[::1]' if has_ipv6() else HOST}:{self.secure.port}"
        locations = f"""
                root {root};
                location = /1k {{ sendfile off; }}
                location = /seen {{ return 200 "$request|$connection"; }}
                location {API} {{ default_type application/json; }}
                location = {API_DOCUMENT_GZIP} {{ default_type application/json; add_header Content-Encoding gzip; }}
                location = {API_1K} {{ sendfile off; }}
                location = {API_SEEN} {{ return 200 "{'|'.join('$' + name for name in SEEN_VARIABLES)}"; }}"""
        configuration = directory / "nginx.conf"
        configuration.write_text(f"""
            daemon off; worker_processes 1; worker_rlimit_nofile {bench.descriptors_max}; {user}
            pid {directory}/pid; error_log stderr error;
            events {{ worker_connections {CONNECTIONS}; }}
            http {{
              access_log off; default_type application/octet-stream; open_file_cache max=16;
              keepalive_timeout {IDLE_SECONDS}s; keepalive_requests 1000000000;
              sendfile on; tcp_nopush on; tcp_nodelay on;
              client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path {directory}/t3;
              uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;
              server {{
                listen {self.plain.authority} backlog=4096;
                {locations}
              }}
              server {{
                listen {self.secure_endpoint} ssl backlog=4096;
                ssl_certificate {bench.certificates.origin}; ssl_certificate_key {bench.certificates.origin_key};
                ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {CIPHER_SUITE};
                {locations}
              }}
            }}""")
        self.child = Child("nginx", [required("nginx"), "-c", str(configuration), "-e", "stderr"],
                           cpu=bench.load_cpu, output=directory / "output")
        self.child.wait_for_port(self.plain.port)

    def site(self, *, secure: bool) -> Site:
        return self.secure if secure else self.plain


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


def required(program: str) -> str:
    path = processes.find(program)
    if path is None:
        raise BenchError(f"{program} is not installed; on Debian: "
                         "apt install nginx-light haproxy squid-openssl tinyproxy wrk openssl")
    return path
