"""Real programs twice through interception and a store, the second time with the link of the machine down: pip, apt, git, curl,
Node and Chromium, from an index, an archive and a repository of the test.

    mirror = programs(cache="…")       a proxy on the machine of network_world.py, and nginx beyond its only link
    mirror.run("curl", …)              a program on the machine, told of the proxy by its environment
    mirror.go_offline()                the link is down, the name server and the origin with it

What a program has itself of the first time is thrown away, so that all that it gets the second time comes out of the store.
"""

import hashlib
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from admin_client import AdminClient
from cache_world import policy
from conftest import need
from dns_server import Answer
from journal import DEADLINE_SECONDS
from network_world import network  # noqa: F401
from origins import SyslogReader
from proxy import Proxy, clean_environment
from reachability_world import ADMIN, name_server, prefix_with_mounts  # noqa: F401
from test_clients import APT_CONFIGURATION, git, pip_install, run
from tls_world import authority, chain_pem, trust, world  # noqa: F401

HOST = "mirror.test"
LARGE = hashlib.shake_128(b"a large file of the mirror").digest(5 << 20)

NGINX = """
user root; daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/error.log warn;
events {{ worker_connections 1024; }}
http {{
  log_format asked '<$request_method $request_uri $status>';
  access_log syslog:server=unix:{directory}/log.socket,nohostname asked;
  types {{ text/html html; text/plain txt; application/javascript js; image/svg+xml svg; text/css css; }}
  default_type application/octet-stream;
  server {{
    listen {address}:443 ssl; listen {address}:80;
    ssl_certificate {certificate}; ssl_certificate_key {key};
    root {directory}/root;
  }}
}}
"""


class Mirror:
    def __init__(self, network, proxy: Proxy, directory: Path, link, ca: Path, log: SyslogReader):
        self.network, self.proxy, self.link, self.ca = network, proxy, link, ca
        self.root, self.log = directory / "root", log

    @property
    def url(self) -> str:
        return f"https://{HOST}"

    def put(self, name: str, content: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def run(self, *command, **environment: str) -> bytes:
        told = {"https_proxy": self.proxy.url, "HTTPS_PROXY": self.proxy.url, "CURL_CA_BUNDLE": str(self.ca)}
        with self.network.machine:
            return run(*command, **{**told, "GIT_SSL_CAINFO": str(self.ca), **environment})

    def asked(self) -> list[str]:
        """All that it was asked for. It sends its lines in their order, so all of them have come once that of a last question has."""
        already = len(self.log.journal.snapshot())
        with self.network.far:
            run("curl", "-sS", "-o", "/dev/null", f"http://{self.link.far}/last")
        self.log.journal.wait_for(lambda line: line.startswith("<GET /last "), after=already)
        return [line for line in self.log.journal.snapshot() if not line.startswith("<GET /last ")]

    def go_offline(self) -> None:
        """From here on nothing that is asked for can come from the origin."""
        self.network.machine.ip("link", "set", self.link.name, "down")
        self.before = self.asked()
        assert self.before, "the origin was not asked"

    def check_offline(self) -> None:
        """All came out of the store."""
        assert self.asked() == self.before
        self.proxy.access(lambda line: line["method"] != "CONNECT" and line["cache"] in ("offline", "hit", "stale"))


@pytest.fixture
def programs(network, name_server, sallyport, world, authority, tmp_path):
    """A function that starts a mirror, and a proxy whose rule intercepts and stores."""
    need("nginx")
    running, logs = [], []

    def start(*lines: str, **tables) -> Mirror:
        link = network.wire("eth0")
        network.go_by(link)
        directory = tmp_path / "mirror"
        (directory / "root").mkdir(parents=True)
        logs.append(log := SyslogReader(
            directory / "log.socket", "the mirror's access log", lambda line: line[line.rindex(b"<") :].decode()))
        leaf = world.leaf(HOST)
        certificate = world.file(chain_pem([leaf, leaf.issuer]))
        configuration = directory / "nginx.conf"
        configuration.write_text(
            NGINX.format(directory=directory, address=link.far, certificate=certificate, key=world.file(leaf.key_pem)))
        with network.far:
            running.append(subprocess.Popen(["nginx", "-p", directory, "-c", configuration], stdin=subprocess.DEVNULL))
        names = name_server({HOST: Answer(a=[link.far])}, address=link.far, namespace=network.far)
        text = f'[dns]\nservers = ["{names.address}"]\n' + ADMIN + trust(world) + authority.table
        rules = policy(f'hosts = ["{HOST}"]', 'connect = "intercept"', *lines, **tables)
        with network.machine:
            proxy = sallyport(policy=text + rules, prefix=prefix_with_mounts({}))
        proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")
        mirror = Mirror(network, proxy, directory, link, authority.file, log)
        mirror.put("up.txt", b"up")
        wait_until_up(mirror)
        return mirror

    yield start
    for process in running:
        process.terminate()
        process.wait(DEADLINE_SECONDS)
    for log in logs:
        log.stop()


def wait_until_up(mirror: Mirror) -> None:
    """nginx does not say when it listens: asked until it answers."""
    assert mirror.run("curl", "-sS", "--fail", "--retry", "20", "--retry-all-errors", "--retry-delay", "1", f"{mirror.url}/up.txt")


OFFLINE = 'offline = "30d"'


def test_curl(programs, tmp_path):
    mirror = programs(cache=OFFLINE)
    mirror.put("large", LARGE)
    url = f"{mirror.url}/large"
    assert mirror.run("curl", "-sS", "--fail", url) == LARGE
    mirror.go_offline()
    assert mirror.run("curl", "-sS", "--fail", url) == LARGE
    assert mirror.run("curl", "-sS", "--fail", "--http1.1", url) == LARGE
    mirror.check_offline()


def test_curl_goes_on_with_what_it_has(programs, tmp_path):
    """Ranges out of the store: the rest of a file, a part of its middle, its end."""
    mirror = programs(cache=OFFLINE)
    mirror.put("large", LARGE)
    url = f"{mirror.url}/large"
    assert mirror.run("curl", "-sS", "--fail", url) == LARGE
    mirror.go_offline()
    for count in (1, 65_536, 3_000_001, len(LARGE) - 1):
        part = tmp_path / "part"
        part.write_bytes(LARGE[:count])
        mirror.run("curl", "-sS", "--fail", "-C", "-", "-o", part, url)
        assert part.read_bytes() == LARGE
    assert mirror.run("curl", "-sS", "--fail", "-r", "100-199", url) == LARGE[100:200]
    assert mirror.run("curl", "-sS", "--fail", "-r", "-1000", url) == LARGE[-1000:]
    statuses = {line["status"] for line in mirror.proxy.access_lines() if line["cache"] == "offline"}
    assert statuses == {206}
    mirror.check_offline()


def test_what_is_not_stored_is_refused_at_once(programs):
    mirror = programs(cache=OFFLINE)
    mirror.go_offline()
    with mirror.network.machine:
        done = subprocess.run(
            ["curl", "-sS", "-w", "%{http_code} %{time_total}", "-o", "/dev/null", "--cacert", mirror.ca, f"{mirror.url}/nothing"],
            capture_output=True, text=True, env=clean_environment(https_proxy=mirror.proxy.url), timeout=DEADLINE_SECONDS)
    status, seconds = done.stdout.split()
    assert status in ("000", "502", "503"), done
    assert float(seconds) < 3, done


# pip


def put_index(mirror: Mirror, tmp_path: Path) -> None:
    """A simple index (PEP 503) with one wheel."""
    name, record = "sallyport_sample-1.0-py3-none-any.whl", "sallyport_sample-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / name, "w") as wheel:
        wheel.writestr("sallyport_sample.py", "WORD = 'sally'\n")
        wheel.writestr(f"{record}/METADATA", "Metadata-Version: 2.1\nName: sallyport-sample\nVersion: 1.0\n")
        wheel.writestr(
            f"{record}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(
            f"{record}/RECORD", f"sallyport_sample.py,,\n{record}/METADATA,,\n{record}/WHEEL,,\n{record}/RECORD,,\n")
    mirror.put(f"wheels/{name}", (tmp_path / name).read_bytes())
    mirror.put("simple/sallyport-sample/index.html", f'<!DOCTYPE html><a href="/wheels/{name}">{name}</a>'.encode())


def test_pip(programs, tmp_path):
    """It asks for the index with max-age=0, and keeps nothing itself."""
    mirror = programs(cache=OFFLINE)
    put_index(mirror, tmp_path)
    for number in range(2):
        if number == 1:
            mirror.go_offline()
        with mirror.network.machine:
            pip_install(mirror.proxy, f"{mirror.url}/simple", tmp_path / f"target{number}", "--cert", mirror.ca)
    mirror.check_offline()


# apt


def put_archive(mirror: Mirror, tmp_path: Path) -> None:
    need("apt-get", "apt-ftparchive", "dpkg-deb")
    tree, archive = tmp_path / "package", mirror.root / "debian"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: sallyport-sample\nVersion: 1.0\nArchitecture: all\nMaintainer: A <a@example>\nDescription: a sample\n")
    (tree / "usr/share/sallyport-sample").mkdir(parents=True)
    (tree / "usr/share/sallyport-sample/word").write_text("sally\n")
    archive.mkdir()
    run("dpkg-deb", "--root-owner-group", "--build", tree, archive / "sallyport-sample_1.0_all.deb")
    mirror.put("debian/Packages", run("apt-ftparchive", "packages", ".", cwd=archive))
    mirror.put("debian/Release", run("apt-ftparchive", "release", ".", cwd=archive))


def install_by_apt(mirror: Mirror, place: Path) -> None:
    """A machine that has neither lists nor packages yet."""
    apt, root = place / "apt", place / "root"
    for directory in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "var/lib/apt/lists/partial",
                      "var/cache/apt/archives/partial", "var/log/apt"):
        (apt / directory).mkdir(parents=True)
    for directory in ("var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (root / directory).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    (apt / "etc/apt/sources.list").write_text(f"deb [trusted=yes] {mirror.url}/debian ./\n")
    secure = f'Acquire::https::Proxy "{mirror.proxy.url}";\nAcquire::https::CAInfo "{mirror.ca}";\nAcquire::Retries "0";\n'
    (apt / "apt.conf").write_text(APT_CONFIGURATION.format(apt=apt, root=root, proxy=mirror.proxy.url) + secure)
    variables = {"APT_CONFIG": str(apt / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    mirror.run("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update", **variables)
    mirror.run("apt-get", "-q", "-y", "install", "sallyport-sample", **variables)
    assert (root / "usr/share/sallyport-sample/word").read_text() == "sally\n"


def test_apt(programs, tmp_path):
    mirror = programs(cache=OFFLINE)
    put_archive(mirror, tmp_path)
    install_by_apt(mirror, tmp_path / "one")
    mirror.go_offline()
    install_by_apt(mirror, tmp_path / "two")
    mirror.check_offline()


# git


def put_repository(mirror: Mirror, tmp_path: Path) -> bytes:
    """A repository of files alone; its commit."""
    need("git")
    bare, work = mirror.root / "project.git", tmp_path / "work"
    git("init", "-q", "--bare", bare)
    git("init", "-q", "-b", "main", work)
    (work / "file").write_bytes(LARGE)
    git("-C", work, "add", "file")
    git("-C", work, "commit", "-q", "-m", "first")
    git("-C", work, "push", "-q", bare, "main")
    git("-C", bare, "symbolic-ref", "HEAD", "refs/heads/main")
    git("-C", bare, "gc", "-q")
    git("-C", bare, "update-server-info")
    return git("-C", work, "rev-parse", "main").strip()


def test_git(programs, tmp_path):
    """It says no-cache with each question for refs, so the rule says that what is stored is used all the same."""
    mirror = programs(cache=OFFLINE, request='cache_policy = "return-cache-else-load"')
    commit = put_repository(mirror, tmp_path)
    for name in ("one", "two"):
        if name == "two":
            mirror.go_offline()
        with mirror.network.machine:
            git("-c", f"http.proxy={mirror.proxy.url}", "-c", f"http.sslCAInfo={mirror.ca}", "clone", "-q", f"{mirror.url}/project.git",
                tmp_path / name, GIT_SMART_HTTP="0")
        assert git("-C", tmp_path / name, "rev-parse", "HEAD").strip() == commit
        assert (tmp_path / name / "file").read_bytes() == LARGE
    mirror.check_offline()


# Node

SCRIPT = """
const http = require("http"), https = require("https"), tls = require("tls"), fs = require("fs"), crypto = require("crypto");
const proxy = new URL(process.env.https_proxy), target = new URL(process.argv[2]);
const connect = http.request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: `${target.hostname}:443`});
connect.on("connect", (answer, socket) => {
  if (answer.statusCode !== 200) { console.log("CONNECT", answer.statusCode); process.exit(1); }
  const secure = tls.connect({socket, servername: target.hostname}, () => {
    https.get(target, {createConnection: () => secure, defaultPort: 443, headers: {Accept: "*/*"}}, (response) => {
      const hash = crypto.createHash("sha256");
      response.on("data", (data) => hash.update(data));
      response.on("end", () => { console.log(response.statusCode, hash.digest("hex")); process.exit(0); });
    });
  });
});
connect.end();
"""


def test_node(programs, tmp_path):
    need("node")
    mirror = programs(cache=OFFLINE)
    mirror.put("large", LARGE)
    (tmp_path / "get.js").write_text(SCRIPT)
    expected = f"200 {hashlib.sha256(LARGE).hexdigest()}\n".encode()
    for number in range(2):
        if number == 1:
            mirror.go_offline()
        got = mirror.run("node", tmp_path / "get.js", f"{mirror.url}/large", NODE_EXTRA_CA_CERTS=str(mirror.ca))
        assert got == expected
    mirror.check_offline()


# A browser

PAGE = {
    "page/index.html": """<!DOCTYPE html><meta charset="utf-8"><link rel="stylesheet" href="style.css"><link rel="icon" href="data:,">
<p id="word">waits</p><img id="picture" src="picture.svg"><script src="script.js"></script>""",
    "page/style.css": "#word { color: rgb(1, 2, 3); }",
    "page/picture.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="7" height="5"/>',
    "page/file.txt": "what the origin has to say",
    "page/script.js": """window.onload = async () => {
  const word = document.getElementById("word"), picture = document.getElementById("picture");
  const text = await (await fetch("file.txt")).text();
  word.textContent = [text, picture.naturalWidth, getComputedStyle(word).color].join("|");
};""",
}


def test_chromium(programs, tmp_path):
    """A page with a style sheet, a picture, a script and a fetch: whole without a network, in a profile that knows nothing of it."""
    need("chromium", "certutil")
    mirror = programs(cache=OFFLINE)
    for name, content in PAGE.items():
        mirror.put(name, content.encode())
    for number in range(2):
        if number == 1:
            mirror.go_offline()
        home = tmp_path / f"home{number}"
        nss = home / ".pki/nssdb"
        nss.mkdir(parents=True)
        run("certutil", "-d", f"sql:{nss}", "-N", "--empty-password")
        run("certutil", "-d", f"sql:{nss}", "-A", "-t", "C,,", "-n", "authority", "-i", mirror.ca)
        dom = mirror.run(
            *["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"],
            *["--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=20000"],
            *[f"--user-data-dir={home}/profile", f"--proxy-server={mirror.proxy.url}", "--dump-dom", f"{mirror.url}/page/"],
            HOME=str(home),
        ).decode()
        assert "what the origin has to say|7|rgb(1, 2, 3)" in dom, dom
        shutil.rmtree(home)
    mirror.check_offline()
