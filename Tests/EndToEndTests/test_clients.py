"""Real programs through the proxy, nginx behind it: curl, wget, BusyBox, Python's four clients, git, pip, apt, Chromium.

Each test asserts what the origin saw (by the bytes that the tap before nginx kept, or by nginx's log inside TLS) and
what the client got. That every forwarded request has an origin-form target, a Via, and no field of the client's hop is
checked on all of them at once, in check_received.
"""

import asyncio
import hashlib
import os
import signal
import ssl
import subprocess
import sys
import threading
import urllib.request
import zipfile
from pathlib import Path

import aiohttp
import httpx
import pytest
import requests
import websockets.sync.client
import websockets.sync.server
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from conftest import need
from journal import DEADLINE_SECONDS
from proxy import clean_environment

FILE = b"what the origin has to say\n"
LARGE = hashlib.shake_128(b"a large file").digest(3 * 1024 * 1024)


def run(*arguments, given: bytes | None = None, cwd=None, **environment: str) -> bytes:
    """A program, to its end; its output, or a failure that shows what it said."""
    done = subprocess.run(
        [str(argument) for argument in arguments],
        input=given if given is not None else b"",
        capture_output=True,
        cwd=cwd,
        env=clean_environment(**environment),
        timeout=60,
    )
    assert (
        done.returncode == 0
    ), f"{arguments[0]} ended with {done.returncode}: {done.stderr.decode()[-2000:]}"
    return done.stdout


# Clients that get one URL: each takes (url, proxy, authority) and returns the body


def trusting(authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


def with_curl(url, proxy, authority):
    return run("curl", "-sS", "--fail", "--proxy", proxy.url, "--cacert", authority, url)


def with_curl_1_0(url, proxy, authority):
    return run("curl", "-sS", "--fail", "--http1.0", "--proxy", proxy.url, "--cacert", authority, url)


def with_curl_by_environment(url, proxy, authority):
    variables = {"http_proxy": proxy.url, "https_proxy": proxy.url, "CURL_CA_BUNDLE": str(authority)}
    return run("curl", "-sS", "--fail", url, **variables)


def with_curl_tunnel(url, proxy, authority):
    return run("curl", "-sS", "--fail", "--proxytunnel", "--proxy", proxy.url, "--cacert", authority, url)


def with_wget(url, proxy, authority):
    variables = {"http_proxy": proxy.url, "https_proxy": proxy.url}
    return run("wget", "-nv", "-O", "-", f"--ca-certificate={authority}", url, **variables)


def with_busybox(url, proxy, authority):
    return run("busybox", "wget", "-q", "-O", "-", url, http_proxy=proxy.url)


def with_urllib(url, proxy, authority):
    handlers = (
        urllib.request.ProxyHandler({"http": proxy.url, "https": proxy.url}),
        urllib.request.HTTPSHandler(context=trusting(authority)),
    )
    with urllib.request.build_opener(*handlers).open(url, timeout=DEADLINE_SECONDS) as response:
        return response.read()


def with_requests(url, proxy, authority):
    with requests.Session() as session:
        session.proxies = {"http": proxy.url, "https": proxy.url}
        response = session.get(url, verify=str(authority), timeout=DEADLINE_SECONDS)
        response.raise_for_status()
        return response.content


def with_httpx(url, proxy, authority):
    with httpx.Client(proxy=proxy.url, verify=trusting(authority), timeout=DEADLINE_SECONDS) as client:
        return client.get(url).raise_for_status().content


def with_aiohttp(url, proxy, authority):
    async def get() -> bytes:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            async with session.get(url, proxy=proxy.url, ssl=trusting(authority)) as response:
                return await response.read()

    return asyncio.run(get())


GETTERS = {
    "curl": ("curl", with_curl),
    "curl speaking HTTP/1.0": ("curl", with_curl_1_0),
    "curl told by the environment": ("curl", with_curl_by_environment),
    "wget": ("wget", with_wget),
    "BusyBox wget": ("busybox", with_busybox),
    "urllib": ("sh", with_urllib),
    "requests": ("sh", with_requests),
    "httpx": ("sh", with_httpx),
    "aiohttp": ("sh", with_aiohttp),
}
# BusyBox sends `GET https://…` to a proxy: that is origination, an issue of its own.
TUNNELLERS = {name: getter for name, getter in GETTERS.items() if name != "BusyBox wget"}


@pytest.mark.parametrize("name", GETTERS)
def test_a_page_over_http(name, plain_proxy, web, server_certificate):
    program, get = GETTERS[name]
    need(program)
    assert get(f"http://{web.authority}/file.txt?x=1", plain_proxy, server_certificate.authority) == FILE
    request = web.requests()[0]
    assert (request.method, request.target) == (b"GET", b"/file.txt?x=1")
    assert request.value("Host") == web.authority.encode()
    assert request.value("User-Agent"), "the client's own User-Agent went missing"
    line = plain_proxy.access(lambda line: line["target"] == f"http://{web.authority}/file.txt")
    assert (line["method"], line["status"], line["upstream"]) == ("GET", 200, web.authority)


@pytest.mark.parametrize("name", TUNNELLERS)
def test_a_page_over_https(name, plain_proxy, secure_web, nginx, server_certificate):
    program, get = TUNNELLERS[name]
    need(program)
    mark = hashlib.sha256(name.encode()).hexdigest()[:12]
    assert (
        get(f"https://{secure_web.authority}/file.txt?{mark}", plain_proxy, server_certificate.authority)
        == FILE
    )
    seen = nginx.seen(mark)
    assert seen["request"].startswith(f"GET /file.txt?{mark} HTTP/1.")
    assert (seen["scheme"], seen["host"], seen["via"]) == ("https", secure_web.authority, "")
    assert (
        bytes(secure_web.streams[0]["up"][:1]) == b"\x16"
    ), "a tunnel begins with the client's own ClientHello"
    line = plain_proxy.access(
        lambda line: line["method"] == "CONNECT" and line["upstream"] == secure_web.authority
    )
    assert line["target"] == secure_web.authority


def test_curl_tunnels_plain_http_when_told_to(plain_proxy, nginx, server_certificate):
    need("curl")
    url = f"http://127.0.0.1:{nginx.http_port}/file.txt?tunnelled"
    assert with_curl_tunnel(url, plain_proxy, server_certificate.authority) == FILE
    assert nginx.seen("?tunnelled")["via"] == ""


def test_curl_follows_a_redirect_on_one_connection(plain_proxy, web):
    need("curl")
    output = run(
        "curl",
        "-sSL",
        "-w",
        "%{num_connects}",
        "--proxy",
        plain_proxy.url,
        f"http://{web.authority}/redirect",
    )
    assert output == FILE + b"1"
    assert [request.target for request in web.requests()] == [b"/redirect", b"/file.txt"]


def test_curl_shows_the_reason_of_a_refusal(sallyport):
    """Seven of eleven clients show the reason phrase and nothing else, curl on CONNECT among them."""
    need("curl")
    proxy = sallyport(proxy='default = "deny"')
    done = subprocess.run(
        ["curl", "-sv", "--proxy", proxy.url, "https://127.0.0.1:9/"],
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    assert done.returncode == 56, done.stderr
    assert " 403 denied" in done.stderr and "ref=" in done.stderr


# Uploads


def put_with_curl(url, proxy, path):
    run("curl", "-sS", "--fail", "--proxy", proxy.url, "-T", path, url)


def put_with_curl_chunked(url, proxy, path):
    run("curl", "-sS", "--fail", "--proxy", proxy.url, "-T", "-", url, given=path.read_bytes())


def put_with_wget(url, proxy, path):
    run("wget", "-nv", "-O", "/dev/null", "--method=PUT", f"--body-file={path}", url, http_proxy=proxy.url)


def put_with_requests_chunked(url, proxy, path):
    data = path.read_bytes()
    blocks = (data[at : at + 50_000] for at in range(0, len(data), 50_000))
    requests.put(url, data=blocks, proxies={"http": proxy.url}, timeout=DEADLINE_SECONDS).raise_for_status()


def put_with_httpx(url, proxy, path):
    with httpx.Client(proxy=proxy.url, timeout=DEADLINE_SECONDS) as client:
        client.put(url, content=path.read_bytes()).raise_for_status()


def put_with_aiohttp_chunked(url, proxy, path):
    async def blocks():
        data = path.read_bytes()
        for at in range(0, len(data), 50_000):
            yield data[at : at + 50_000]

    async def put() -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            async with session.put(url, data=blocks(), proxy=proxy.url, expect100=True):
                pass

    asyncio.run(put())


PUTTERS = {
    "curl, sized, waiting for 100": ("curl", put_with_curl, b"length"),
    "curl, chunked": ("curl", put_with_curl_chunked, b"chunked"),
    "wget": ("wget", put_with_wget, b"length"),
    "requests, chunked": ("sh", put_with_requests_chunked, b"chunked"),
    "httpx": ("sh", put_with_httpx, b"length"),
    "aiohttp, chunked, waiting for 100": ("sh", put_with_aiohttp_chunked, b"chunked"),
}


@pytest.mark.parametrize("name", PUTTERS)
def test_an_upload(name, plain_proxy, web, nginx, tmp_path):
    program, put, framing = PUTTERS[name]
    need(program)
    source = tmp_path / "large"
    source.write_bytes(LARGE)
    stored = f"uploads/{hashlib.sha256(name.encode()).hexdigest()}"
    put(f"http://{web.authority}/{stored}", plain_proxy, source)
    assert (nginx.root / stored).read_bytes() == LARGE
    request = web.requests()[0]
    assert (request.method, request.target, request.framing.encode()) == (
        b"PUT",
        b"/" + stored.encode(),
        framing,
    )


# git


@pytest.fixture(scope="module")
def repository(nginx):
    """A bare repository behind git-http-backend with one commit: its path below /git/ and the commit."""
    need("git", "fcgiwrap")
    if not nginx.GIT_BACKEND.exists():
        pytest.skip("not installed: git-http-backend")
    socket_path = nginx.directory / "fcgiwrap.socket"
    backend = subprocess.Popen(["fcgiwrap", "-s", f"unix:{socket_path}"], stdin=subprocess.DEVNULL)
    bare = nginx.directory / "repositories/project.git"
    work = nginx.directory / "work"
    git("init", "-q", "--bare", bare)
    git("-C", bare, "config", "http.receivepack", "true")
    git("init", "-q", "-b", "main", work)
    (work / "file").write_bytes(LARGE)
    git("-C", work, "add", "file")
    git("-C", work, "commit", "-q", "-m", "first")
    git("-C", work, "push", "-q", bare, "main")
    git("-C", bare, "symbolic-ref", "HEAD", "refs/heads/main")
    git("-C", bare, "update-server-info")
    yield "/git/project.git", git("-C", work, "rev-parse", "main").strip()
    backend.terminate()
    backend.wait()


def git(*arguments, **environment: str) -> bytes:
    identity = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
    }
    return run("git", *arguments, **identity, **environment)


def test_git_clones_over_http(repository, plain_proxy, web, tmp_path):
    path, commit = repository
    url = f"http://{web.authority}{path}"
    git("-c", f"http.proxy={plain_proxy.url}", "clone", "-q", url, tmp_path / "clone")
    assert git("-C", tmp_path / "clone", "rev-parse", "HEAD").strip() == commit
    assert (tmp_path / "clone/file").read_bytes() == LARGE
    asked = [(request.method, request.target) for request in web.requests()]
    assert asked[0] == (b"GET", b"/git/project.git/info/refs?service=git-upload-pack")
    assert asked[-1] == (b"POST", b"/git/project.git/git-upload-pack")


def test_git_clones_over_https(repository, plain_proxy, secure_web, nginx, server_certificate, tmp_path):
    path, commit = repository
    url = f"https://{secure_web.authority}{path}"
    git(
        *["-c", f"http.proxy={plain_proxy.url}", "-c", f"http.sslCAInfo={server_certificate.authority}"],
        *["clone", "-q", url, tmp_path / "clone"],
    )
    assert git("-C", tmp_path / "clone", "rev-parse", "HEAD").strip() == commit
    line = plain_proxy.access(
        lambda line: line["method"] == "CONNECT" and line["upstream"] == secure_web.authority
    )
    assert line["bytes_out"] > len(LARGE)


def test_git_clones_a_dumb_repository(repository, plain_proxy, web, nginx, tmp_path):
    _, commit = repository
    link = nginx.root / "dumb.git"
    if not link.exists():
        link.symlink_to(nginx.directory / "repositories/project.git")
    url = f"http://{web.authority}/dumb.git"
    git("-c", f"http.proxy={plain_proxy.url}", "clone", "-q", url, tmp_path / "clone", GIT_SMART_HTTP="0")
    assert git("-C", tmp_path / "clone", "rev-parse", "HEAD").strip() == commit


def test_git_pushes_a_large_commit_in_chunks(repository, plain_proxy, web, nginx, tmp_path):
    path, _ = repository
    clone = tmp_path / "clone"
    proxied = ["-c", f"http.proxy={plain_proxy.url}", "-c", "http.postBuffer=65536"]
    git(*proxied, "clone", "-q", f"http://{web.authority}{path}", clone)
    (clone / "more").write_bytes(LARGE[::-1])
    git("-C", clone, "add", "more")
    git("-C", clone, "commit", "-q", "-m", "second")
    git(*proxied, "-C", clone, "push", "-q", "origin", "HEAD:refs/heads/pushed")
    bare = nginx.directory / "repositories/project.git"
    assert git("-C", bare, "rev-parse", "pushed") == git("-C", clone, "rev-parse", "HEAD")
    pushed = [request for request in web.requests() if request.target.endswith(b"/git-receive-pack")]
    assert pushed[-1].framing == "chunked"


# Package managers


@pytest.fixture(scope="module")
def package_index(nginx):
    """A simple index (PEP 503) with one wheel, made by hand."""
    name = "sallyport_sample-1.0-py3-none-any.whl"
    record = "sallyport_sample-1.0.dist-info"
    path = nginx.directory / name
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("sallyport_sample.py", "WORD = 'sally'\n")
        wheel.writestr(f"{record}/METADATA", "Metadata-Version: 2.1\nName: sallyport-sample\nVersion: 1.0\n")
        wheel.writestr(
            f"{record}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(
            f"{record}/RECORD",
            f"sallyport_sample.py,,\n{record}/METADATA,,\n{record}/WHEEL,,\n{record}/RECORD,,\n",
        )
    nginx.put_file(f"wheels/{name}", path.read_bytes())
    link = f'<!DOCTYPE html><html><body><a href="/wheels/{name}">{name}</a></body></html>'
    nginx.put_file("simple/sallyport-sample/index.html", link.encode())


def pip_install(proxy, index: str, target: Path, *more) -> None:
    run(
        *[
            sys.executable,
            "-m",
            "pip",
            "--isolated",
            "--disable-pip-version-check",
            "--no-cache-dir",
            "install",
            "-q",
        ],
        *[
            "--proxy",
            proxy.url,
            "--index-url",
            index,
            "--no-deps",
            "--target",
            target,
            *more,
            "sallyport-sample",
        ],
        HOME=str(target.parent),
    )
    assert (target / "sallyport_sample.py").read_text() == "WORD = 'sally'\n"


def test_pip_installs_over_http(package_index, plain_proxy, web, tmp_path):
    index = f"http://{web.authority}/simple"
    pip_install(plain_proxy, index, tmp_path / "target", "--trusted-host", "127.0.0.1")
    assert [request.target for request in web.requests()] == [
        b"/simple/sallyport-sample/",
        b"/wheels/sallyport_sample-1.0-py3-none-any.whl",
    ]


def test_pip_installs_over_https(package_index, plain_proxy, secure_web, nginx, server_certificate, tmp_path):
    index = f"https://{secure_web.authority}/simple"
    pip_install(plain_proxy, index, tmp_path / "target", "--cert", server_certificate.authority)
    assert nginx.log.wait_for(lambda line: line["scheme"] == "https" and "/wheels/" in line["request"])


@pytest.fixture(scope="module")
def debian_repository(nginx):
    """A repository with one package, its indexes by apt-ftparchive."""
    need("apt-get", "apt-ftparchive", "dpkg-deb")
    tree = nginx.directory / "package"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: sallyport-sample\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example>\nDescription: a sample\n"
    )
    (tree / "usr/share/sallyport-sample").mkdir(parents=True)
    (tree / "usr/share/sallyport-sample/word").write_text("sally\n")
    (nginx.root / "debian").mkdir()
    run("dpkg-deb", "--root-owner-group", "--build", tree, nginx.root / "debian/sallyport-sample_1.0_all.deb")
    nginx.put_file("debian/Packages", run("apt-ftparchive", "packages", ".", cwd=nginx.root / "debian"))
    nginx.put_file("debian/Release", run("apt-ftparchive", "release", ".", cwd=nginx.root / "debian"))


APT_CONFIGURATION = """
Dir "{apt}";
Dir::State::status "{root}/var/lib/dpkg/status";
Acquire::http::Proxy "{proxy}";
Acquire::Languages "none";
APT::Sandbox::User "root";
DPkg::Options {{ "--root={root}"; "--log={root}/dpkg.log"; }};
Debug::NoLocking "true";
"""


def test_apt_updates_and_installs(debian_repository, plain_proxy, web, tmp_path):
    apt, root = tmp_path / "apt", tmp_path / "root"
    wanted = [
        *[apt / "etc/apt/apt.conf.d", apt / "etc/apt/preferences.d", apt / "etc/apt/sources.list.d"],
        *[apt / "var/lib/apt/lists/partial", apt / "var/cache/apt/archives/partial", apt / "var/log/apt"],
        *[root / "var/lib/dpkg/info", root / "var/lib/dpkg/updates"],
    ]
    for directory in wanted:
        directory.mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (apt / "etc/apt/sources.list").write_text(f"deb [trusted=yes] http://{web.authority}/debian ./\n")
    (apt / "apt.conf").write_text(APT_CONFIGURATION.format(apt=apt, root=root, proxy=plain_proxy.url))
    variables = {"APT_CONFIG": str(apt / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    run("apt-get", "-q", "update", **variables)
    targets = [request.target for request in web.requests()]
    assert b"/debian/./Release" in targets and b"/debian/./Packages" in targets
    if os.geteuid() == 0:
        run("apt-get", "-q", "-y", "install", "sallyport-sample", **variables)
        assert (root / "usr/share/sallyport-sample/word").read_text() == "sally\n"
    else:
        run("apt-get", "-q", "-y", "--download-only", "install", "sallyport-sample", **variables)
        assert list((apt / "var/cache/apt/archives").glob("*.deb"))
    assert web.requests()[-1].target == b"/debian/./sallyport-sample_1.0_all.deb"


# WebSocket


@pytest.fixture
def websocket_echo():
    """A WebSocket server that echoes, on loopback."""

    def echo(connection) -> None:
        for message in connection:
            connection.send(message)

    with websockets.sync.server.serve(echo, "127.0.0.1", 0, compression=None, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield "127.0.0.1", server.socket.getsockname()[1]
        server.shutdown()
        thread.join(DEADLINE_SECONDS)


def test_a_websocket_through_upgrade_by_aiohttp(plain_proxy, websocket_echo):
    """aiohttp sends `GET http://… HTTP/1.1` with Upgrade to a proxy, not CONNECT."""
    host, port = websocket_echo

    async def talk() -> list:
        async with aiohttp.ClientSession() as session:
            async with session.ws_connect(f"http://{host}:{port}/chat", proxy=plain_proxy.url) as connection:
                await connection.send_str("sally")
                await connection.send_bytes(LARGE[:200_000])
                return [(await connection.receive()).data, (await connection.receive()).data]

    assert asyncio.run(talk()) == ["sally", LARGE[:200_000]]
    line = plain_proxy.access(lambda line: line["target"] == f"http://{host}:{port}/chat")
    assert (line["method"], line["status"]) == ("GET", 101)
    assert line["bytes_in"] > 200_000 and line["bytes_out"] > 200_000


def test_a_websocket_through_upgrade_byte_by_byte(plain_proxy, websocket_echo, raw_client):
    """The library's own handshake and frames, with the request line of a client that knows of its proxy."""
    host, port = websocket_echo
    protocol = ClientProtocol(parse_uri(f"ws://{host}:{port}/chat"))
    protocol.send_request(protocol.connect())
    handshake = b"".join(protocol.data_to_send()).replace(
        b"GET /chat", b"GET http://%s:%d/chat" % (host.encode(), port)
    )
    client = raw_client(plain_proxy)
    client.send_bytewise(handshake)
    answer = client.message()
    assert answer.status == 101
    assert (answer.options("Connection"), answer.options("Upgrade")) == ([b"upgrade"], [b"websocket"])
    protocol.receive_data(bytes(client.received))
    protocol.events_received()
    protocol.send_text(b"sally")
    client.send_bytewise(b"".join(protocol.data_to_send()))
    assert client.receive_exactly(7) == b"\x81\x05sally"
    protocol.send_close(1000)
    client.send(b"".join(protocol.data_to_send()))
    assert client.receive_exactly(4) == b"\x88\x02\x03\xe8"
    assert client.wait_for_end() == "closed"


def test_a_websocket_through_a_tunnel(plain_proxy, websocket_echo, raw_client):
    """CONNECT first, as browsers do for ws://; the library then speaks over the tunnel's socket."""
    host, port = websocket_echo
    client = raw_client(plain_proxy)
    client.looked_at = False
    assert (
        client.exchange(b"CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n" % ((host.encode(), port) * 2)).status
        == 200
    )
    assert client.unread() == b""
    with websockets.sync.client.connect(
        f"ws://{host}:{port}/", sock=client.socket, compression=None, proxy=None
    ) as peer:
        peer.send("sally")
        assert peer.recv(DEADLINE_SECONDS) == "sally"
        peer.send(LARGE[:500_000])
        assert peer.recv(DEADLINE_SECONDS) == LARGE[:500_000]
    line = plain_proxy.access(lambda line: line["target"] == f"{host}:{port}")
    assert (line["method"], line["status"]) == ("CONNECT", 200)


# A browser

PAGE = """<!DOCTYPE html><html><head><title>page</title><link rel="stylesheet" href="style.css"></head>
<body><img src="picture.svg"><p id="word">nothing ran</p><script src="script.js"></script></body></html>"""
SCRIPT = """
document.getElementById("word").textContent = "the script ran";
const report = new URLSearchParams(location.search).get("report");
const socket = new WebSocket("ws://127.0.0.1:WEBSOCKET_PORT/");
socket.onopen = () => socket.send("sally");
socket.onmessage = async (event) => {
  if (document.readyState !== "complete") await new Promise((done) => addEventListener("load", done));
  const picture = document.querySelector("img").naturalWidth;
  const style = getComputedStyle(document.getElementById("word")).color;
  const text = await (await fetch("file.txt", {method: "GET"})).text();
  const said = [event.data, picture, style, text.length].join("|");
  await fetch(`/reported?${report}=${encodeURIComponent(said)}`, {method: "POST", body: said});
};
"""


@pytest.fixture
def browser(plain_proxy, server_certificate, tmp_path):
    """A function that opens a URL in headless Chromium through the proxy, until the test has ended."""
    need("chromium")
    processes = []

    def open_page(url: str) -> None:
        arguments = [
            *[
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ],
            *["--disable-background-networking", "--disable-component-update", "--disable-sync"],
            *[f"--user-data-dir={tmp_path}/profile", f"--proxy-server={plain_proxy.url}"],
            *["--proxy-bypass-list=<-loopback>", "--remote-debugging-port=0"],
            f"--ignore-certificate-errors-spki-list={server_certificate.spki_sha256}",
            url,
        ]
        processes.append(
            subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=clean_environment(HOME=str(tmp_path)),
                start_new_session=True,
            )
        )

    yield open_page
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_chromium_loads_a_page(scheme, browser, plain_proxy, request, nginx, websocket_echo):
    """A page with a style sheet, a picture, a script, a fetch, a POST and, from the http page, a WebSocket."""
    tap = request.getfixturevalue("web" if scheme == "http" else "secure_web")
    nginx.put_file("page/index.html", PAGE.encode())
    nginx.put_file("page/script.js", SCRIPT.replace("WEBSOCKET_PORT", str(websocket_echo[1])).encode())
    nginx.put_file("page/style.css", b"#word { color: rgb(1, 2, 3); }")
    nginx.put_file("page/picture.svg", b'<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"/>')
    nginx.put_file("page/file.txt", FILE)
    browser(f"{scheme}://{tap.authority}/page/?report={scheme}-page")
    seen = nginx.seen(f"/reported?{scheme}-page=")
    assert seen["request"].startswith(
        f"POST /reported?{scheme}-page=sally%7C7%7Crgb(1%2C%202%2C%203)%7C{len(FILE)} "
    )
    assert (seen["scheme"], seen["host"], seen["proxy_connection"]) == (scheme, tap.authority, "")
    if scheme == "http":
        targets = {request.target for request in tap.requests()}
        assert {b"/page/script.js", b"/page/style.css", b"/page/picture.svg", b"/page/file.txt"} <= targets
    else:
        assert seen["via"] == ""
        assert any(stream["up"][:1] == b"\x16" for stream in tap.streams)
