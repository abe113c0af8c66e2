"""How nginx, Python, curl and Chromium read the odd responses of Tests/Responses/corpus.txt.

    python3 Tests/EndToEndTests/readings.py          reads every case with what is installed and records it in the file

A case says, one `key: value` a line: `case`, a sentence; `bytes`, what a server sends before it closes, with \\r \\n \\t \\\\
and \\xHH for what cannot stand there; a reading for each client; `verdict`, what the proxy does (`pass`, `mend WORDS` or
`refuse WORD`); `gets`, what a client of the proxy reads then; and `why`, where the verdict is not what the four readings say.

A reading is the status, the body, and the fields whose names begin with X: `200 "ok" x="a"`. A client that reports a failure,
or a body that is cut short, has the reading `refused`. Nothing leaves the machine: Chromium, which would, gets a network
namespace of its own.
"""

import ctypes
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[1] / "Responses" / "corpus.txt"
CLIENTS = ("nginx", "python", "curl", "chromium")
KEYS = ("case", "bytes", *CLIENTS, "verdict", "gets", "why")
DEADLINE_SECONDS = 20
REFUSED = "refused"


@dataclass
class Case:
    name: str
    data: bytes
    entries: dict[str, str] = field(default_factory=dict)

    @property
    def readings(self) -> dict[str, str]:
        return {client: self.entries[client] for client in CLIENTS if client in self.entries}

    @property
    def agreement(self) -> str | None:
        """The one reading that all four have; None where one refuses, or two differ."""
        seen = set(self.readings.values())
        return seen.pop() if len(self.readings) == len(CLIENTS) and len(seen) == 1 else None


def unescaped(text: str) -> bytes:
    def byte(match: re.Match) -> str:
        word = match[1]
        return chr(int(word[1:], 16)) if word[0] == "x" else {"r": "\r", "n": "\n", "t": "\t", "\\": "\\"}[word]

    return re.sub(r"\\(x[0-9a-f]{2}|[rnt\\])", byte, text).encode("latin-1")


def escaped(data: bytes) -> str:
    plain = {0x0D: "\\r", 0x0A: "\\n", 0x09: "\\t", 0x5C: "\\\\"}
    return "".join(plain.get(b, chr(b) if 0x20 <= b < 0x7F else f"\\x{b:02x}") for b in data)


def load(path: Path = CORPUS) -> list[Case]:
    cases: list[Case] = []
    for line in path.read_text("ascii").splitlines():
        if not line or line.startswith("#"):
            continue
        key, _, value = line.partition(": ")
        assert key in KEYS, line
        if key == "case":
            cases.append(Case(value, b""))
        elif key == "bytes":
            cases[-1].data = unescaped(value)
        else:
            cases[-1].entries[key] = value
    assert len({case.name for case in cases}) == len(cases), "two cases of one name"
    return cases


def save(cases: list[Case], path: Path = CORPUS) -> None:
    """The comments before the first case stay."""
    preface = path.read_text("ascii").partition("case: ")[0]
    versions = "; ".join(f"{client} {version}" for client, version in installed_versions().items())
    preface = re.sub(r"(?m)^# Read by: .*$", f"# Read by: {versions}", preface)
    blocks = []
    for case in cases:
        lines = [f"case: {case.name}", f"bytes: {escaped(case.data)}"]
        lines += [f"{key}: {case.entries[key]}" for key in KEYS[2:] if case.entries.get(key)]
        blocks.append("\n".join(lines) + "\n")
    path.write_text(preface + "\n".join(blocks), "ascii")


def recorded_versions() -> dict[str, str]:
    line = re.search(r"(?m)^# Read by: (.*)$", CORPUS.read_text("ascii"))[1]
    return dict(part.split(" ", 1) for part in line.split("; "))


def installed_versions() -> dict[str, str]:
    """The version of each client that is installed."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for client, flag in (("nginx", "-v"), ("curl", "--version"), ("chromium", "--version")):
        if shutil.which(client):
            said = subprocess.run([client, flag], capture_output=True, text=True)
            versions[client] = re.search(r"\d+(\.\d+)+", said.stdout or said.stderr)[0]
    return {client: versions[client] for client in CLIENTS if client in versions}


def reading(status: int, body: bytes, fields: list[tuple[str, str]]) -> str:
    """`fields`: names and values, as characters of latin-1."""
    values: dict[str, list[str]] = {}
    for name, value in fields:
        if name.lower().startswith("x"):
            values.setdefault(name.lower(), []).append(value.strip(" \t"))  # RFC 9110, 5.5: no part of the value
    shown = [f'{escaped(name.encode("latin-1"))}="{escaped(", ".join(value).encode("latin-1", "replace"))}"'
             for name, value in sorted(values.items())]
    return " ".join([str(status), f'"{escaped(body)}"', *shown])


class CaseOrigin:
    """Answers /N with the bytes of case N, and closes. `pages` are served as they should be."""

    def __init__(self, cases: list[Case], pages: dict[str, bytes] | None = None):
        self.cases, self.pages = cases, pages or {}
        self.posted: list[bytes] = []
        self.got_post = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(DEADLINE_SECONDS)
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    data += piece
                head, _, body = data.partition(b"\r\n\r\n")
                path = head.split(b" ")[1].decode()
                path = "/" + path.rpartition("/")[2]
                if head.startswith(b"POST"):
                    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
                    while len(body) < length:
                        body += connection.recv(65536)
                    self.posted.append(body)
                    connection.sendall(b"HTTP/1.1 204 x\r\nConnection: close\r\n\r\n")
                    self.got_post.set()
                elif path in self.pages:
                    page = self.pages[path]
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page) + page
                    )
                elif path[1:].isdigit():
                    connection.sendall(self.cases[int(path[1:])].data)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:
                pass

    def stop(self) -> None:
        self.listener.close()


# The clients


def python_reads(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        return reading(response.status, body, list(response.headers.items()))
    except (http.client.HTTPException, OSError, ValueError, OverflowError):
        return REFUSED
    finally:
        connection.close()


def curl_reads(port: int, path: str) -> str:
    command = ["curl", "-q", "-sS", "--noproxy", "*", "-w", "\n%{http_code} %{header_json}", "--max-time", "20"]
    done = subprocess.run([*command, f"http://127.0.0.1:{port}{path}"], capture_output=True)
    if done.returncode != 0:
        return REFUSED
    body, said = cut(done.stdout.decode("latin-1"))
    status, _, fields = said.partition(" ")
    # Of bytes that are no printable ASCII curl 7.88 writes the escape without its backslash, signed, and of an empty value CR.
    fields = re.sub(r"(?<!\\)u(?:ffffff|00)([0189a-f][0-9a-f])", r"\\u00\1", fields)
    listed = json.loads(fields, strict=False)
    pairs = [(name, value.strip("\r")) for name, values in listed.items() for value in values]
    return reading(int(status), body.encode("latin-1"), pairs)


def cut(output: str) -> tuple[str, str]:
    """What curl wrote: the body, and after the last line that begins so, status and fields."""
    at = [match.start() for match in re.finditer(r"\n\d{3} \{", output)][-1]
    return output[:at], output[at + 1 :]


class NginxBefore:
    """nginx as a reverse proxy before an origin."""

    def __init__(self, directory: Path, origin_port: int):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (directory / "nginx.conf").write_text(
            f"""daemon off; pid {directory}/pid; error_log {directory}/error.log; worker_processes 1;
            events {{ worker_connections 64; }}
            http {{ access_log off; client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
              fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
              server {{ listen 127.0.0.1:{self.port};
                location / {{ proxy_pass http://127.0.0.1:{origin_port}; proxy_http_version 1.1; }} }} }}"""
        )
        self.process = subprocess.Popen(
            ["nginx", "-e", directory / "error.log", "-c", directory / "nginx.conf", "-p", directory],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                continue
        raise AssertionError("nginx did not start: " + (directory / "error.log").read_text())

    def reads(self, path: str) -> str:
        """What nginx passes on, read byte by byte; its own 502 is a refusal."""
        with socket.create_connection(("127.0.0.1", self.port), DEADLINE_SECONDS) as client:
            client.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path.encode())
            data = b""
            while piece := client.recv(65536):
                data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        word = (lines[0].split(b" ") + [b""])[1]
        status = int(word) if word.isdigit() else 0  # it passes on what it took for one
        if status == 502 or not data:
            return REFUSED
        fields = [line.decode("latin-1").partition(":") for line in lines[1:]]
        pairs = [(name, value.strip(" ")) for name, _, value in fields]
        named = {name.lower(): value for name, value in pairs}
        if named.get("transfer-encoding") == "chunked":
            body, whole = unchunked(body)
            if not whole:
                return REFUSED
        elif "content-length" in named and len(body) < int(named["content-length"]):
            return REFUSED
        return reading(status, body, pairs)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(DEADLINE_SECONDS)


def unchunked(data: bytes) -> tuple[bytes, bool]:
    """nginx writes plain chunks, and breaks off where its upstream did."""
    body, at = b"", 0
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end], 16)
        if size == 0:
            return body, True
        body += data[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
    return body, False


PAGE = b"""<!doctype html><meta charset="utf-8"><script>
(async () => {
  const readings = []
  for (let number = 0; number < COUNT; number++) {
    try {
      const response = await fetch("/" + number, { redirect: "manual", cache: "no-store" })
      const body = Array.from(new Uint8Array(await response.arrayBuffer()))
      readings.push({ status: response.status, body, fields: Array.from(response.headers) })
    } catch (failure) { readings.push(null) }
  }
  await fetch("/report", { method: "POST", body: JSON.stringify(readings) })
})()
</script>"""


def chromium_readings(cases: list[Case]) -> list[str]:
    origin = CaseOrigin(cases, {"/page": PAGE.replace(b"COUNT", str(len(cases)).encode())})
    with tempfile.TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-proxy-server", "--no-first-run",
             f"--user-data-dir={profile}", f"http://127.0.0.1:{origin.port}/page"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            assert origin.got_post.wait(180), "Chromium did not report"
        finally:
            os.killpg(browser.pid, 15)
            browser.wait(DEADLINE_SECONDS)
            origin.stop()
    return [
        reading(seen["status"], bytes(seen["body"]), [tuple(pair) for pair in seen["fields"]]) if seen else REFUSED
        for seen in json.loads(origin.posted[0])
    ]


def enter_own_network() -> None:
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if unshare(0x40000000) != 0:
        sys.exit("needs a network namespace of its own, so that Chromium reaches nothing: run it as root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def main() -> None:
    enter_own_network()
    cases = load()
    origin = CaseOrigin(cases)
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        nginx = NginxBefore(Path(directory), origin.port)
        for number, case in enumerate(cases):
            case.entries["nginx"] = nginx.reads(f"/{number}")
            case.entries["python"] = python_reads(origin.port, f"/{number}")
            case.entries["curl"] = curl_reads(origin.port, f"/{number}")
        nginx.stop()
    if shutil.which("chromium"):
        for case, seen in zip(cases, chromium_readings(cases)):
            case.entries["chromium"] = seen
    save(cases)


if __name__ == "__main__":
    main()
