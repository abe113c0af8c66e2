"""What the tests of the dashboard share: a proxy that has one, raw clients of it, and a real browser.

    proxy = watched(policy)                a proxy with a dashboard; `proxy.web` is its address, `proxy.link()` a new link
    page = browse(proxy.link())            headless Chromium on that page
    page.run("return document.title")      a function's body, run there; its value
    page.until("return …", what)           the first true value of it
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest
from websockets.sync.client import connect

from admin_client import request
from admin_world import administered
from conftest import need
from journal import DEADLINE_SECONDS
from proxy import clean_environment
from raw_client import RawClient

WEB = 'web = "127.0.0.1:0"\n'


@pytest.fixture
def watched(administered):
    def start(policy: str = "", admin: str = "", **arguments):
        proxy = administered(policy, admin=WEB + admin, **arguments)
        address = proxy.admin.json("/v1/status")["web"]
        host, _, port = address.rpartition(":")
        proxy.web, proxy.web_host = (host, int(port)), address
        proxy.link = lambda query="": json.loads(proxy.admin.ask(f"/v1/dashboard{query}", "POST").body)["url"]
        return proxy

    return start


def ask(proxy, path: str, method: str = "GET", host: str | None = None, lines: str = "", body: bytes = b"", client=None):
    """One request to the dashboard's port, on a connection of its own unless one is given."""
    own = client or RawClient(proxy.web)
    data = request(path, method, lines, body).replace(b"Host: sallyport", f"Host: {host or proxy.web_host}".encode())
    answer = own.exchange(data)
    if client is None:
        own.check()
        own.close()
    return answer


def cookie_of(answer) -> str:
    """What a browser sends back of the cookie."""
    return answer.value("Set-Cookie").decode().partition(";")[0]


def signed_in(proxy, link: str | None = None, client=None) -> str:
    """The field of a session."""
    path = (link or proxy.link()).removeprefix(f"http://{proxy.web_host}")
    answer = ask(proxy, path, client=client)
    assert answer.status == 303 and answer.value("Location") == b"/", answer.body
    return f"Cookie: {cookie_of(answer)}\r\n"


def acting(proxy) -> str:
    """What the page's script sends with a POST."""
    return f"Origin: http://{proxy.web_host}\r\nSallyport-Dashboard: 1\r\n"


class Page:
    """A page of headless Chromium, over its debugging protocol."""

    def __init__(self, directory, url: str, width: int = 1280, dark: bool = False, user: int | None = None):
        self.directory = directory
        self.process = subprocess.Popen(
            [
                *["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
                *["--no-first-run", "--disable-background-networking", "--disable-component-update"],
                *["--disable-sync", "--no-proxy-server", "--remote-debugging-port=0", "--hide-scrollbars"],
                *[f"--user-data-dir={directory}/profile", f"--window-size={width},1000", "about:blank"],
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(HOME=str(directory), TMPDIR=str(directory)),
            start_new_session=True,
            **({} if user is None else {"user": user, "group": user, "extra_groups": []}),
        )
        port = self._port()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=DEADLINE_SECONDS) as answer:
            target = next(one for one in json.load(answer) if one["type"] == "page")
        self.connection = connect(target["webSocketDebuggerUrl"], max_size=None, proxy=None)
        self.socket = self.connection.__enter__()
        self.number, self.said = 0, []
        for method in ("Page.enable", "Runtime.enable", "Network.enable", "Log.enable"):
            self.call(method)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)

    def _port(self) -> int:
        file, end = self.directory / "profile" / "DevToolsActivePort", time.monotonic() + 60
        while not (file.exists() and file.read_text().count("\n")):
            assert self.process.poll() is None and time.monotonic() < end, "Chromium does not start"
            time.sleep(0.02)
        return int(file.read_text().split("\n")[0])

    def call(self, method: str, **parameters) -> dict:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self.said.append(message)

    def run(self, body: str):
        result = self.call(
            "Runtime.evaluate",
            expression=f"(async () => {{ {body} }})()",
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, body: str, what: str):
        end = time.monotonic() + 60
        while not (value := self.run(body)):
            assert time.monotonic() < end, f"{what} does not come: {self.text()[:2000]}"
            time.sleep(0.05)
        return value

    def press(self, key: str, code: int = 0) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def text(self) -> str:
        return self.run("return document.body.innerText")

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the content security policy has stopped."""
        found = []
        for message in self.said:
            if message["method"] == "Runtime.exceptionThrown":
                found.append(str(message["params"]["exceptionDetails"]))
            entry = message["params"].get("entry", {}) if message["method"] == "Log.entryAdded" else {}
            # Questions that no daemon takes yet are answered 404.
            if entry.get("level") == "error" and "/v1/asks" not in entry.get("url", ""):
                found.append(str(entry))
        return found

    def addresses(self) -> set[str]:
        """Where requests went."""
        return {
            message["params"]["request"]["url"].split("/")[2]
            for message in self.said
            if message["method"] == "Network.requestWillBeSent"
            and message["params"]["request"]["url"].startswith("http")
        }

    def picture(self, path: str, whole: bool = True) -> None:
        """A screenshot for whoever changes the page; no test takes one."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.__exit__(None, None, None)


@pytest.fixture
def browse():
    """A function that opens a page; `user`: whose browser it is."""
    need("chromium")
    pages: list[Page] = []

    def open_page(url: str, **arguments) -> Page:
        # Not below the directories of the test, which another user may not enter.
        directory = Path(tempfile.mkdtemp(prefix="browser-"))
        if (user := arguments.get("user")) is not None:
            os.chown(directory, user, user)
        pages.append(Page(directory, url, **arguments))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()
        shutil.rmtree(page.directory, ignore_errors=True)
