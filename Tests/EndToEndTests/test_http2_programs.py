"""Real programs through interception to real origins, each client of one wire with each origin of either.

Clients: curl, nghttp, h2load, Node's http2, Python's httpx and Chromium; origins: nginx, nghttpd and Node's http2, and nginx
without HTTP/2. Go and gRPC: test_http2_go.py, test_http2.py.
"""

import hashlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from conftest import need
from journal import DEADLINE_SECONDS
from origins import unused_port, wait_until_it_listens
from proxy import clean_environment
from tls_world import authority, chain_pem, intercepting, secure_proxy, world  # noqa: F401

# More than a window, and no multiple of any frame.
FILE = hashlib.shake_128(b"programs").digest(1_234_567)
SUM = hashlib.sha256(FILE).hexdigest()
SHORT = b"ok\n"
# Asks for the file eight times at once, and then for what is named by the digest that all eight have.
PAGE = b"""<!DOCTYPE html><script>
const digest = async () => {
  const bytes = await crypto.subtle.digest('SHA-256', await (await fetch('/file', {cache: 'no-store'})).arrayBuffer());
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
};
Promise.all(Array.from({length: 8}, digest)).then((all) => fetch('/' + [...new Set(all)].join('-')));
</script>"""

NGINX = """
user root;
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  default_type application/octet-stream;
  types {{ text/html html; }}
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  keepalive_requests {requests};
  server {{
    listen 127.0.0.1:{port} ssl {http2};
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    root {root};
  }}
}}
"""

NODE_SERVER = """
const http2 = require('http2'), fs = require('fs');
const [port, cert, key, root] = process.argv.slice(2);
const server = http2.createSecureServer({cert: fs.readFileSync(cert), key: fs.readFileSync(key)});
server.on('stream', (stream, headers) => {
  stream.on('error', () => {});
  fs.readFile(root + headers[':path'], (error, content) => {
    stream.respond({':status': error ? 404 : 200}, {waitForTrailers: true});
    stream.on('wantTrailers', () => stream.sendTrailers({'x-length': String(error ? 0 : content.length)}));
    stream.end(error ? '' : content);
  });
});
server.listen(Number(port), '127.0.0.1');
"""

NODE_CLIENT = """
const http = require('http'), http2 = require('http2'), tls = require('tls'), fs = require('fs'), crypto = require('crypto');
const [proxy, place, ca, path, times] = process.argv.slice(2);
const [host, port] = proxy.split(':');
http.request({host, port, method: 'CONNECT', path: place}).on('connect', (answer, socket) => {
  if (answer.statusCode != 200) throw new Error('CONNECT: ' + answer.statusCode);
  const secure = tls.connect({socket, servername: 'a.test', ALPNProtocols: ['h2'], ca: fs.readFileSync(ca)});
  const session = http2.connect('https://' + place, {createConnection: () => secure});
  let left = Number(times);
  for (let index = 0; index < Number(times); index++) {
    const request = session.request({':path': path}), hash = crypto.createHash('sha256');
    let trailers = null;
    request.on('trailers', (fields) => { trailers = fields['x-length'] });
    request.on('data', (piece) => hash.update(piece));
    request.on('end', () => {
      console.log(hash.digest('hex'), trailers);
      if (--left == 0) session.close();
    });
  }
}).end();
"""


class Opener:
    """What opens a tunnel for programs that know no proxy: each connection to `port` is one through the proxy."""

    def __init__(self, proxy, place: str):
        self.proxy, self.place = proxy, place
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.proxy.address, DEADLINE_SECONDS)
            server.sendall(f"CONNECT {self.place} HTTP/1.1\r\nHost: {self.place}\r\n\r\n".encode())
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += server.recv(1)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            self.sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    @staticmethod
    def _relay(source: socket.socket, sink: socket.socket) -> None:
        try:
            while more := source.recv(65536):
                sink.sendall(more)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self) -> None:
        self.listener.close()
        for one in self.sockets:
            one.close()


class Server:
    """A program that serves FILE as /file and SHORT as /short."""

    def __init__(self, kind: str, directory: Path, certificate: Path, key: Path):
        self.kind, self.port = kind, unused_port()
        root = directory / "root"
        root.mkdir()
        (root / "file").write_bytes(FILE)
        (root / "short").write_bytes(SHORT)
        (root / "page.html").write_bytes(PAGE)
        (root / SUM).write_bytes(SHORT)
        error_log = directory / "error.log"
        if kind.startswith("nginx"):
            configuration = directory / "nginx.conf"
            # An origin that says GOAWAY now and then, with requests under way.
            requests = 37 if kind == "nginx that leaves" else 1000
            http2 = "" if kind == "nginx without HTTP/2" else "http2"
            configuration.write_text(
                NGINX.format(
                    directory=directory, port=self.port, http2=http2, certificate=certificate, key=key, root=root, requests=requests))
            command = [need_program("nginx"), "-p", directory, "-e", error_log, "-c", configuration]
        elif kind == "nghttpd":
            command = [need_program("nghttpd"), "-a", "127.0.0.1", f"--htdocs={root}", "--trailer=x-length: 3", str(self.port), key, certificate]
        else:
            script = directory / "server.js"
            script.write_text(NODE_SERVER)
            command = [need_program("node"), script, str(self.port), certificate, key, root]
        with error_log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=clean_environment())
        wait_until_it_listens(self.port, self.process, error_log)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_SECONDS)


def need_program(name: str) -> str:
    need(name)
    return shutil.which(name)


ORIGINS = ["nginx", "nginx that leaves", "nghttpd", "node", "nginx without HTTP/2"]


@pytest.fixture(params=ORIGINS)
def programs(request, intercepting, world, authority, tmp_path):
    leaf = world.leaf("a.test")
    certificate, key = world.file(chain_pem([leaf, world.issuing])), world.file(leaf.key_pem)
    server = Server(request.param, tmp_path, certificate, key)
    place = f"a.test:{server.port}"
    proxy = intercepting()
    opener = Opener(proxy, place)
    yield Programs(server, proxy, opener, place, authority.file, tmp_path)
    opener.stop()
    server.stop()


class Programs:
    def __init__(self, server, proxy, opener, place, authority, directory):
        self.server, self.proxy, self.opener = server, proxy, opener
        self.place, self.authority, self.directory = place, authority, directory
        self.wire = "http/1.1" if server.kind == "nginx without HTTP/2" else "h2"
        self.sends_trailers = server.kind in ("nghttpd", "node")

    def run(self, *command, **arguments) -> bytes:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=3 * DEADLINE_SECONDS, env=clean_environment(), **arguments)
        assert done.returncode == 0, done
        return done.stdout

    def lines(self, wire: str) -> list[dict]:
        """The log's lines of what was asked so far; each is checked."""
        entries = [line for line in self.proxy.log.snapshot() if line.get("target", "").startswith("https://")]
        for line in entries:
            assert (line["status"], line["outcome"], line["protocol"]) == (200, "done", wire), line
            assert line["upstream_protocol"] == self.wire, line
        return entries


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_curl(programs, version):
    need("curl")
    command = ["curl", "-sS", version, "-x", programs.proxy.url, "--cacert", programs.authority, "--parallel", "--parallel-max", "8"]
    for index in range(8):
        command += ["-o", programs.directory / f"got-{index}", f"https://{programs.place}/file?{index}"]
    if programs.server.kind == "node":
        command = [part.split("?")[0] if isinstance(part, str) else part for part in command]
    programs.run(*command)
    for index in range(8):
        assert (programs.directory / f"got-{index}").read_bytes() == FILE
    programs.proxy.log.wait_for(lambda line: line.get("target", "").startswith("https://"))
    programs.lines("h2" if version == "--http2" else "http/1.1")


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
def test_curl_sees_why_its_upload_is_denied(version, intercepting, authority, tmp_path):
    """libcurl 7.88 drops the answer if a reset of the stream comes right after it."""
    need("curl")
    proxy = intercepting('[[rule]]\nname = "no"\nhosts = ["a.test"]\nmethods = ["PUT"]\naction = "deny"\n')
    (tmp_path / "file").write_bytes(FILE * 2)
    command = [
        "curl", "-q", "-sS", version, "-x", proxy.url, "--cacert", authority.file, "-T", tmp_path / "file",
        f"https://a.test:{unused_port()}/"]
    done = subprocess.run(command, capture_output=True, timeout=3 * DEADLINE_SECONDS, env=clean_environment())
    assert b"Rule no denies this request" in done.stdout, done


def test_nghttp(programs):
    """Ten requests at once on one connection, and what has trailers has them."""
    need("nghttp")
    url = f"https://127.0.0.1:{programs.opener.port}/file"
    got = programs.run("nghttp", "-m10", "-y", f"-H:authority: {programs.place}", url)
    assert len(got) == 10 * len(FILE), "the ten are mixed, as they came"
    told = programs.run("nghttp", "-nv", "-y", f"-H:authority: {programs.place}", url).decode()
    assert ":status: 200" in told
    assert ("x-length: " in told) == programs.sends_trailers, told
    programs.lines("h2")


def test_h2load(programs):
    """Three thousand requests over four connections with ten each under way: all succeed, also where the origin leaves."""
    need("h2load")
    url = f"https://a.test:{programs.server.port}/short"
    told = programs.run(
        "h2load", "-n3000", "-c4", "-m10", f"--connect-to=127.0.0.1:{programs.opener.port}", url).decode()
    assert "3000 succeeded, 0 failed, 0 errored, 0 timeout" in told and "status codes: 3000 2xx" in told, told
    assert programs.proxy.log.wait_for_several(3000, lambda line: line.get("target", "").endswith("/short"))
    programs.lines("h2")


def test_node(programs):
    script = programs.directory / "client.js"
    script.write_text(NODE_CLIENT)
    host, port = programs.proxy.address
    got = programs.run(need_program("node"), script, f"{host}:{port}", programs.place, programs.authority, "/file", "8").decode()
    sums = [line.split() for line in got.splitlines()]
    assert [one for one, _ in sums] == [SUM] * 8
    lengths = {"nghttpd": "3", "node": str(len(FILE))}
    assert {length for _, length in sums} == {lengths.get(programs.server.kind, "null")}
    programs.lines("h2")


@pytest.mark.parametrize("http2", [True, False])
def test_httpx(programs, http2):
    context = ssl.create_default_context(cafile=str(programs.authority))
    with httpx.Client(http2=http2, proxy=programs.proxy.url, verify=context) as client:
        for _ in range(3):
            answer = client.get(f"https://{programs.place}/file")
            assert answer.content == FILE and answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
    programs.lines("h2" if http2 else "http/1.1")


def test_chromium(programs):
    need("chromium", "certutil")
    store = programs.directory / ".pki/nssdb"
    store.mkdir(parents=True)
    programs.run("certutil", "-d", f"sql:{store}", "-N", "--empty-password")
    programs.run("certutil", "-d", f"sql:{store}", "-A", "-t", "C,,", "-n", "authority", "-i", programs.authority)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0"]
    command += [f"--user-data-dir={programs.directory}/profile", f"--proxy-server={programs.proxy.url}"]
    browser = subprocess.Popen(
        [*command, f"https://{programs.place}/page.html"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=clean_environment(HOME=str(programs.directory)), start_new_session=True)
    try:
        ours = f"https://{programs.place}/"
        programs.proxy.log.wait_for(lambda line: line.get("target") == ours + SUM)
        lines = [line for line in programs.proxy.log.snapshot() if line.get("target") in (ours + "page.html", ours + "file", ours + SUM)]
        assert {(line["status"], line["protocol"], line["upstream_protocol"]) for line in lines} == {(200, "h2", programs.wire)}
    finally:
        os.killpg(browser.pid, signal.SIGKILL)
        browser.wait(DEADLINE_SECONDS)
