"""Real servers that read queries, forms and uploads in ways of their own, and answer with what they have read, as JSON.

    server = FormServer.start(name, directory, files=(certificate, key) or None)     one of SERVERS
    server.port

What a server has read: {"path", "query", "form", "files", "type"}. A name that comes more than once is a list. A test skips by
name what is not installed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import need
from journal import DEADLINE_SECONDS
from origins import unused_port, wait_until_it_listens
from proxy import clean_environment
from tls_world import chain_pem, client_context, rule

FLASK = """
import sys
from flask import Flask, request
app = Flask(__name__)
def plain(values): return {name: all if len(all) > 1 else all[0] for name, all in values.lists()}
@app.route("/", defaults={"path": ""}, methods=["GET", "POST", "PUT"])
@app.route("/<path:path>", methods=["GET", "POST", "PUT"])
def echo(path):
    files = {name: [file.filename, file.mimetype, len(file.read())] for name, file in request.files.items()}
    return {"path": "/" + path, "query": plain(request.args), "form": plain(request.form), "files": files,
            "type": request.headers.get("Content-Type"), "length": request.content_length}
tls = tuple(sys.argv[2:]) or None
app.run(host="127.0.0.1", port=int(sys.argv[1]), ssl_context=tls)
"""

# The standard library alone, told by its second argument in which encoding forms are.
STDLIB = """
import http.server, json, ssl, sys, urllib.parse
encoding = sys.argv[2]
def plain(pairs):
    read = {}
    for name, value in pairs: read.setdefault(name, []).append(value)
    return {name: all if len(all) > 1 else all[0] for name, all in read.items()}
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *arguments): pass
    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        def read(text):
            return plain(urllib.parse.parse_qsl(text, True, True, encoding=encoding, errors="strict"))
        is_form = self.headers.get_content_type() == "application/x-www-form-urlencoded"
        said = {"path": urllib.parse.unquote(path), "raw": self.path, "query": read(query),
                "form": read(body.decode("ascii")) if is_form else {}, "files": {},
                "type": self.headers.get("Content-Type")}
        if self.headers.get_content_type() == "application/json": said["form"] = json.loads(body)
        answer = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    do_POST = do_PUT = do_GET
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Echo)
if sys.argv[3:]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[3:])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""

# Express reads queries and forms with qs, which knows brackets, indices and repeated fields, and commas if it is told.
EXPRESS = """
const express = require("express"), qs = require("qs"), fs = require("fs");
const comma = process.argv[3] === "comma";
const app = express();
const read = (text) => qs.parse(text, { comma });
app.set("query parser", read);
if (comma) {
  app.use(express.text({ type: "application/x-www-form-urlencoded" }));
  app.use((request, response, next) => {
    if (typeof request.body === "string") request.body = read(request.body);
    next();
  });
} else {
  app.use(express.urlencoded({ extended: true }));
}
app.use(express.json());
app.use((request, response) => {
  response.json({
    path: decodeURIComponent(request.path), raw: request.url, query: request.query, form: request.body || {}, files: {},
    type: request.headers["content-type"],
  });
});
const [certificate, key] = process.argv.slice(4);
const port = Number(process.argv[2]);
if (certificate) {
  const options = { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
  require("https").createServer(options, app).listen(port, "127.0.0.1");
} else {
  app.listen(port, "127.0.0.1");
}
"""


def start_flask(directory: Path, port: int, files: list) -> list:
    pytest.importorskip("flask")
    (directory / "application.py").write_text(FLASK)
    return [sys.executable, directory / "application.py", str(port), *files]


def stdlib(encoding: str):
    def start(directory: Path, port: int, files: list) -> list:
        (directory / "server.py").write_text(STDLIB)
        return [sys.executable, directory / "server.py", str(port), encoding, *files]

    return start


def express(style: str):
    def start(directory: Path, port: int, files: list) -> list:
        need("node")
        if not os.path.exists("/usr/share/nodejs/express"):
            pytest.skip("node-express is not installed")
        (directory / "server.js").write_text(EXPRESS)
        return [shutil.which("node"), directory / "server.js", str(port), style, *files]

    return start


SERVERS = {
    "flask": start_flask,
    "stdlib": stdlib("utf-8"),
    "express": express("brackets"),
    "express with commas": express("comma"),
}


class FormServer:
    """One of SERVERS, running; over TLS where there are files of a certificate and its key."""

    def __init__(self, command, directory: Path, files: tuple = ()):
        self.port = unused_port()
        self.authority = f"127.0.0.1:{self.port}"
        self.output = directory / "output.log"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                command(directory, self.port, list(files)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                # Node.js of another origin than Debian's does not look for Debian's modules by itself.
                env=clean_environment(NODE_PATH="/usr/share/nodejs"),
            )
        wait_until_it_listens(self.port, self.process, self.output)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def form_server(tmp_path):
    """A function that starts a server: a name of SERVERS, or a function as they are."""
    running: list[FormServer] = []

    def start(name, identity=None, *above) -> FormServer:
        directory = tmp_path / f"server-{len(running)}"
        directory.mkdir()
        files = ()
        if identity is not None:
            certificate, key = directory / "certificate.pem", directory / "key.pem"
            certificate.write_bytes(chain_pem([identity, *above]))
            key.write_bytes(identity.key_pem)
            files = (certificate, key)
        running.append(FormServer(SERVERS.get(name, name) if isinstance(name, str) else name, directory, files))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def reading(form_server, secure_proxy, raw_client, secure_client, authority, world):
    """A function that asks a server by a rule, plainly or in an intercepted tunnel: what the server has read."""
    def ask(
        server, request: str, method: str = "GET", path: str = "/", content_type: str | None = None,
        body: bytes | None = None, secured: bool = False, status: int = 200,
    ):
        lines = f"Content-Type: {content_type}\r\n" if content_type else ""
        lines += f"Content-Length: {len(body)}\r\n" if body is not None else ""
        started = form_server(server, *([world.leaf("a.test"), world.issuing] if secured else []))
        place = f"a.test:{started.port}"
        target = path if secured else f"http://{place}{path}"
        data = f"{method} {target} HTTP/1.1\r\nHost: {place}\r\n{lines}\r\n".encode() + (body or b"")
        if secured:
            client = secure_client(
                secure_proxy(authority.table + rule("r", 'connect = "intercept"', request=request)))
            assert client.tunnel("a.test", started.port).status == 200
            client.shake_hands(client_context(authority.file), "a.test")
        else:
            client = raw_client(secure_proxy(rule("r", request=request)))
        answer = client.exchange(data)
        assert answer.status == status, (answer, started.output.read_text())
        return json.loads(answer.body)

    return ask
