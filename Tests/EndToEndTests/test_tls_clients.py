"""Real programs through tunnels that are verified and tunnels that are intercepted, nginx behind them.

curl, wget, Python's clients, git, pip, Java, Node and headless Chromium. Each way has a host name of its own; programs
are told to trust the world's root where they keep their own TLS, and the local authority where the proxy speaks to them.
"""

import hashlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import websockets.sync.server

from conftest import need
from dns_server import Answer, DNSServer
from journal import DEADLINE_SECONDS
from origins import Nginx
from problems import REASON
from proxy import Proxy, binary, clean_environment
from test_clients import FILE, LARGE, TUNNELLERS, git, package_index, pip_install, repository, run
from tls_world import (
    LocalAuthority,
    World,
    authority,
    certify,
    chain_pem,
    pins,
    rule,
    secure_proxy,
    trust,
    world,
)

WAYS = pytest.mark.parametrize("way", ["verify", "intercept"])


@dataclass(frozen=True)
class Gate:
    """A proxy with a rule for each way, and what programs must trust."""

    proxy: Proxy
    nginx: Nginx
    world: World
    authority: LocalAuthority

    def authority_of(self, way: str) -> Path:
        return self.authority.file if way == "intercept" else self.world.root_file

    def site(self, way: str) -> str:
        return f"{way}.test:{self.nginx.https_port}"

    def check(self, way: str, mark: str) -> dict:
        """nginx saw the request that carries the mark, and the proxy's log agrees on how it came."""
        seen = self.nginx.log.wait_for(
            lambda line: mark in line["request"] and line["host"].startswith(f"{way}.test")
        )
        assert (seen["scheme"], seen["host"]) == ("https", self.site(way))
        assert (seen["via"] != "") == (way == "intercept"), seen
        line = self.proxy.access(
            lambda line: line["method"] == "CONNECT" and line["target"] == self.site(way)
        )
        assert (line["rule"], line["status"]) == (way, 200)
        if way == "intercept":
            inside = self.proxy.access(
                lambda line: line["method"] != "CONNECT" and line["rule"] == "intercept"
            )
            assert (inside["status"], inside["assurance"]) == (200, "exact")
        return seen


@pytest.fixture(scope="module")
def nginx(world, tmp_path_factory):
    """As the suite's nginx, with a certificate of this world for both host names."""
    need("nginx")
    leaf = world.leaf("verify.test", "intercept.test")
    certificate, key = world.file(chain_pem([leaf, world.issuing])), world.file(leaf.key_pem)
    server = Nginx(tmp_path_factory.mktemp("nginx"), certificate, key)
    server.put_file("file.txt", FILE)
    server.put_file("large", LARGE)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shared_gate(nginx, world, authority, sallyport_binary, tmp_path_factory):
    names = DNSServer({}, otherwise=Answer(a=["127.0.0.1"]))
    policy = f'[dns]\nservers = ["{names.address}"]\n{trust(world)}{authority.table}'
    for way in ("verify", "intercept"):
        policy += rule(way, f'hosts = ["{way}.test"]', f'connect = "{way}"')
    proxy = Proxy.start(tmp_path_factory.mktemp("gate"), policy=policy)
    yield Gate(proxy, nginx, world, authority)
    proxy.stop()
    names.stop()


@pytest.fixture
def gate(shared_gate):
    shared_gate.proxy.test_begins = len(shared_gate.proxy.log.snapshot())
    yield shared_gate
    assert shared_gate.proxy.process.poll() is None, "the proxy did not live through this test"


def mark_of(*words: str) -> str:
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


@WAYS
@pytest.mark.parametrize("name", TUNNELLERS)
def test_a_page(name, way, gate):
    program, get = TUNNELLERS[name]
    need(program)
    mark = mark_of(name, way)
    url = f"https://{gate.site(way)}/file.txt?{mark}"
    assert get(url, gate.proxy, gate.authority_of(way)) == FILE
    assert gate.check(way, mark)["request"].startswith(f"GET /file.txt?{mark} HTTP/1.")


@WAYS
def test_curl_uploads_and_downloads(way, gate, tmp_path):
    need("curl")
    source = tmp_path / "large"
    source.write_bytes(LARGE)
    options = ("-sS", "--fail", "--proxy", gate.proxy.url, "--cacert", gate.authority_of(way))
    run("curl", *options, "-T", source, f"https://{gate.site(way)}/uploads/{way}")
    assert (gate.nginx.root / "uploads" / way).read_bytes() == LARGE
    assert run("curl", *options, f"https://{gate.site(way)}/large") == LARGE


@WAYS
def test_curl_uses_one_connection_for_many_requests(way, gate):
    need("curl")
    url = f"https://{gate.site(way)}/file.txt"
    options = ("-sS", "--proxy", gate.proxy.url, "--cacert", gate.authority_of(way), "-w", "%{num_connects}")
    assert run("curl", *options, url, url, url) == FILE + b"1" + FILE + b"0" + FILE + b"0"


@WAYS
def test_git_clones_and_pushes(way, repository, gate, tmp_path):
    path, commit = repository
    options = ("-c", f"http.proxy={gate.proxy.url}", "-c", f"http.sslCAInfo={gate.authority_of(way)}")
    clone = tmp_path / "clone"
    git(*options, "clone", "-q", f"https://{gate.site(way)}{path}", clone)
    assert git("-C", clone, "rev-parse", "HEAD").strip() == commit
    assert (clone / "file").read_bytes() == LARGE
    (clone / "more").write_bytes(LARGE[::-1])
    git("-C", clone, "add", "more")
    git("-C", clone, "commit", "-q", "-m", "second")
    git(
        *options, "-c", "http.postBuffer=65536", "-C", clone, "push", "-q", "origin", f"HEAD:refs/heads/{way}"
    )
    bare = gate.nginx.directory / "repositories/project.git"
    assert git("-C", bare, "rev-parse", way) == git("-C", clone, "rev-parse", "HEAD")
    gate.check(way, "service=git-receive-pack")


@WAYS
def test_pip_installs(way, package_index, gate, tmp_path):
    index = f"https://{gate.site(way)}/simple"
    pip_install(gate.proxy, index, tmp_path / "target", "--cert", gate.authority_of(way))
    gate.check(way, "/simple/sallyport-sample/")


# Java

JAVA = """
import java.net.*;
import java.net.http.*;

public class Clients {
  public static void main(String[] arguments) throws Exception {
    InetSocketAddress address = new InetSocketAddress(arguments[1], Integer.parseInt(arguments[2]));
    URL url = URI.create(arguments[0] + "-HttpsURLConnection").toURL();
    for (int round = 0; round < 2; round++) {
      URLConnection connection = url.openConnection(new Proxy(Proxy.Type.HTTP, address));
      System.out.print(new String(connection.getInputStream().readAllBytes()));
    }
    HttpClient client = HttpClient.newBuilder().proxy(ProxySelector.of(address)).build();
    HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0] + "-HttpClient")).build();
    for (int round = 0; round < 2; round++) {
      System.out.print(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
  }
}
"""


@WAYS
def test_java(way, gate, tmp_path):
    """HttpsURLConnection and java.net.http, twice each, with a trust store of keytool."""
    need("java", "javac", "keytool")
    source, store = tmp_path / "Clients.java", tmp_path / "trust.p12"
    source.write_text(JAVA)
    run(
        *["keytool", "-importcert", "-noprompt", "-alias", "authority", "-file", gate.authority_of(way)],
        *["-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit"],
    )
    mark = mark_of("java", way)
    said = run(
        *["java", f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"],
        *[
            "-XX:TieredStopAtLevel=1",
            source,
            f"https://{gate.site(way)}/file.txt?{mark}",
            *map(str, gate.proxy.address),
        ],
    )
    assert said == FILE * 4
    gate.check(way, f"{mark}-HttpsURLConnection")
    gate.check(way, f"{mark}-HttpClient")


# Node

NODE = """
const http = require("http"), https = require("https"), tls = require("tls");
const [url, proxyHost, proxyPort] = process.argv.slice(2);

// Node's own agents know no proxy: this one asks it for a tunnel, and speaks TLS in that.
class ConnectAgent extends https.Agent {
  createConnection(options, done) {
    const authority = `${options.host}:${options.port}`;
    const request = http.request({host: proxyHost, port: proxyPort, method: "CONNECT", path: authority,
                                  headers: {Host: authority}});
    request.once("connect", (answer, socket) => {
      if (answer.statusCode !== 200) return done(new Error(`${answer.statusCode} ${answer.statusMessage}`));
      done(null, tls.connect({socket, servername: options.host, ALPNProtocols: ["http/1.1"]}));
    });
    request.once("error", done);
    request.end();
  }
}

const agent = new ConnectAgent({keepAlive: true, maxSockets: 1});
const get = () => new Promise((resolve, reject) => https.get(url, {agent}, (answer) => {
  answer.on("data", (data) => process.stdout.write(data));
  answer.on("end", resolve);
}).on("error", reject));
get().then(get).then(() => agent.destroy(), (error) => { console.error(error.message); process.exit(1); });
"""


@WAYS
def test_node(way, gate, tmp_path):
    """NODE_EXTRA_CA_CERTS, and an agent that asks for a tunnel; two requests on one connection."""
    need("node")
    script = tmp_path / "get.js"
    script.write_text(NODE)
    mark = mark_of("node", way)
    url = f"https://{gate.site(way)}/file.txt?{mark}"
    trusted = {"NODE_EXTRA_CA_CERTS": str(gate.authority_of(way))}
    assert run("node", script, url, *map(str, gate.proxy.address), **trusted) == FILE * 2
    gate.check(way, mark)
    assert len([line for line in gate.proxy.access_lines() if line["method"] == "CONNECT"]) == 1


# A browser

PAGE = """<!DOCTYPE html><html><head><title>page</title><link rel="stylesheet" href="style.css"></head>
<body><img src="picture.svg"><p id="word">nothing ran</p><script src="script.js"></script></body></html>"""
SCRIPT = """
const word = document.getElementById("word");
const socket = new WebSocket(`wss://${location.hostname}:WEBSOCKET_PORT/`);
socket.onopen = () => socket.send("sally");
socket.onmessage = async (event) => {
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done));
  const text = await (await fetch("file.txt")).text();
  const picture = document.querySelector("img").naturalWidth, colour = getComputedStyle(word).color;
  const said = [event.data, picture, colour, text.length].join("|");
  await fetch(`/reported?${location.hostname}=${encodeURIComponent(said)}`, {method: "POST", body: said});
};
"""


@pytest.fixture
def secure_echo(world):
    """A WebSocket server behind TLS for both host names; its port."""

    def echo(connection) -> None:
        for message in connection:
            connection.send(message)

    context = world.context(world.leaf("verify.test", "intercept.test"))
    with websockets.sync.server.serve(echo, "127.0.0.1", 0, ssl=context, compression=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join(DEADLINE_SECONDS)


@pytest.fixture
def browser(gate, tmp_path):
    """A function that opens a URL in headless Chromium, with an authority in its NSS store."""
    need("chromium", "certutil")
    processes = []

    def open_page(url: str, trusted: Path) -> None:
        store = tmp_path / ".pki/nssdb"
        store.mkdir(parents=True)
        run("certutil", "-d", f"sql:{store}", "-N", "--empty-password")
        run("certutil", "-d", f"sql:{store}", "-A", "-t", "C,,", "-n", "authority", "-i", trusted)
        arguments = [
            *["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            *[
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
            *[f"--user-data-dir={tmp_path}/profile", f"--proxy-server={gate.proxy.url}"],
            *["--remote-debugging-port=0", url],
        ]
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(HOME=str(tmp_path)),
            start_new_session=True,
        )
        processes.append(process)

    def close() -> None:
        while processes:
            process = processes.pop()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    open_page.close = close
    yield open_page
    close()


@WAYS
def test_chromium(way, browser, gate, secure_echo):
    """A page with a style sheet, a picture, a script, a fetch, a POST and a WebSocket, all over TLS."""
    gate.nginx.put_file("page/index.html", PAGE.encode())
    gate.nginx.put_file("page/script.js", SCRIPT.replace("WEBSOCKET_PORT", str(secure_echo)).encode())
    gate.nginx.put_file("page/style.css", b"#word { color: rgb(1, 2, 3); }")
    gate.nginx.put_file("page/picture.svg", b'<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"/>')
    gate.nginx.put_file("page/file.txt", FILE)
    browser(f"https://{gate.site(way)}/page/", gate.authority_of(way))
    seen = gate.nginx.seen(f"/reported?{way}.test=")
    assert seen["request"].startswith(
        f"POST /reported?{way}.test=sally%7C7%7Crgb(1%2C%202%2C%203)%7C{len(FILE)} "
    )
    assert (seen["scheme"], seen["via"] != "") == ("https", way == "intercept")
    browser.close()  # a tunnel has its line when it ends
    tunnel = gate.proxy.access(lambda line: line["target"] == f"{way}.test:{secure_echo}")
    assert (tunnel["rule"], tunnel["status"]) == (way, 200)


# A client that pins for itself


def curl_with_own_pin(gate: Gate, way: str, pin: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            *["curl", "-sS", "--fail", "--proxy", gate.proxy.url, "--cacert", gate.authority_of(way)],
            *["--pinnedpubkey", pin, f"https://{gate.site(way)}/file.txt"],
        ],
        capture_output=True,
        env=clean_environment(),
        timeout=60,
    )


def test_a_client_with_a_pin_of_its_own_goes_through_a_verified_tunnel(gate, nginx):
    """It sees the origin's own certificate; an intercepted tunnel it would rightly refuse."""
    need("curl")
    with socket.create_connection(("127.0.0.1", nginx.https_port), DEADLINE_SECONDS) as plain:
        context = ssl.create_default_context(cafile=gate.world.root_file)
        with context.wrap_socket(plain, server_hostname="verify.test") as secured:
            shown = secured.getpeercert(True)
    pin = run("openssl", "x509", "-inform", "DER", "-noout", "-pubkey", given=shown)
    encoded = run("openssl", "pkey", "-pubin", "-outform", "DER", given=pin)
    digest = run("openssl", "base64", "-A", given=hashlib.sha256(encoded).digest()).decode()
    through = curl_with_own_pin(gate, "verify", f"sha256//{digest}")
    assert (through.returncode, through.stdout) == (0, FILE), through.stderr
    intercepted = curl_with_own_pin(gate, "intercept", f"sha256//{digest}")
    assert intercepted.returncode == 90, intercepted.stderr  # CURLE_SSL_PINNEDPUBKEYNOTMATCH


# What a person sees when pins do not match


@pytest.fixture
def pinned_gate(secure_proxy, authority, nginx, world):
    """The same site, under rules whose pins it does not carry."""
    first, second = certify("First"), certify("Second")
    policy = authority.table + pins("p", 'mode = "public-key"', f'spki = ["{first.pin}", "{second.pin}"]')
    for way in ("verify", "intercept"):
        policy += rule(way, f'hosts = ["{way}.test"]', f'connect = "{way}"', security='pins = "p"')
    return Gate(secure_proxy(policy), nginx, world, authority)


@WAYS
@pytest.mark.parametrize("program", ["curl", "wget"])
def test_a_mismatch_is_shown_by_the_reason_phrase(program, way, pinned_gate):
    need(program)
    gate = pinned_gate
    url, trusted = f"https://{gate.site(way)}/file.txt", gate.authority_of(way)
    if program == "curl":
        arguments = ["curl", "-sv", "--fail", "--http1.1", "--proxy", gate.proxy.url, "--cacert", trusted, url]
    else:
        arguments = ["wget", "-O", "-", f"--ca-certificate={trusted}", url]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        env=clean_environment(https_proxy=gate.proxy.url),
        timeout=60,
    )
    assert done.returncode != 0 and FILE.decode() not in done.stdout
    assert REASON.search(done.stderr) and f"pin-mismatch rule={way} ref=" in done.stderr, done.stderr


# The variables that `sallyport env` prints


PROGRAMS = {
    "curl": 'curl -sS --fail "$URL"',
    "urllib": "\"$PYTHON\" -c \"import os, urllib.request as u; print(u.urlopen(os.environ['URL']).read().decode(), end='')\"",
    "requests": "\"$PYTHON\" -c \"import os, requests as r; print(r.get(os.environ['URL']).text, end='')\"",
    "httpx": "\"$PYTHON\" -c \"import os, httpx as r; print(r.get(os.environ['URL']).text, end='')\"",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_variables_of_env_are_all_that_programs_need(name, gate):
    """`eval "$(sallyport env)"`, and an intercepted site is trusted, whatever the program looks at."""
    need("sh", *(["curl"] if name == "curl" else []))
    mark = mark_of("env", name)
    configuration = gate.proxy.configuration.with_name("told.toml")
    text = gate.proxy.configuration.read_text().replace('"127.0.0.1:0"', f'"{gate.proxy.authority}"')
    configuration.write_text(text)
    said = run(
        *["sh", "-ec", f'eval "$("$SALLYPORT" env --config "$CONFIGURATION")"\n{PROGRAMS[name]}'],
        SALLYPORT=str(binary()),
        CONFIGURATION=str(configuration),
        PYTHON=sys.executable,
        URL=f"https://{gate.site('intercept')}/file.txt?{mark}",
    )
    assert said == FILE
    gate.check("intercept", mark)
