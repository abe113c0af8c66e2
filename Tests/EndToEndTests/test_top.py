"""sallyport top in a real terminal: tmux shows it, types for it and resizes it. The daemon is a real one where traffic counts,
and a scripted one where it has to say what no daemon would, or to go away.

Nothing sleeps: a test waits until the screen shows what it expects.
"""

import http.server
import json
import re
import socketserver
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from admin_world import administered, OK
from conftest import need
from journal import DEADLINE_SECONDS, Journal
from origins import answering, tunnel_echo
from proxy import binary, clean_environment, command
from test_policy import connect, get

need("tmux")

RULES = """
[[rule]]
name = "no-ads"
hosts = ["**.ads.test"]
action = "deny"
[[rule]]
name = "work"
hosts = ["**.work.test"]
[[rule]]
name = "rest"
"""

# The status of the program stays on the screen after it.
SCRIPT = '"$@"; echo "exit status $?"; exec cat'


class Screen:
    """A terminal with the program in it."""

    def __init__(self, directory: Path, *arguments, columns: int = 80, lines: int = 24, term: str | None = None, **extra):
        self.socket = directory / "tmux"
        self.columns, self.height = columns, lines
        program = ["env", f"TERM={term}"] if term else []
        program += [binary(), "top", "--interval", "200ms", *arguments]
        self.environment = clean_environment(**({"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"} | extra))
        self.environment.pop("TMUX", None)
        self.tmux(
            "new-session", "-d", "-x", str(columns), "-y", str(lines), "sh", "-c", SCRIPT, "sh", *map(str, program)
        )

    def tmux(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-S", str(self.socket), "-f", "/dev/null", *arguments],
            check=True, capture_output=True, text=True, env=self.environment, timeout=DEADLINE_SECONDS,
        ).stdout

    def lines(self, *more: str) -> list[str]:
        return self.tmux("capture-pane", "-p", *more).split("\n")[: self.height]

    def until(self, predicate, what: str) -> list[str]:
        """The lines of the screen, once the predicate holds for them."""
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            lines = self.lines()
            if predicate(lines):
                return lines
            assert time.monotonic() < end, f"{what} does not come:\n" + "\n".join(lines)
            time.sleep(0.02)

    def shows(self, *texts: str) -> list[str]:
        return self.until(lambda lines: all(any(text in line for line in lines) for text in texts), f"{texts}")

    def hides(self, text: str) -> list[str]:
        return self.until(lambda lines: not any(text in line for line in lines), f"that {text!r} goes")

    def row(self, *texts: str) -> str:
        """The row of the table that holds all of these, once it is there."""
        of = lambda lines: [line for line in lines[4:-1] if all(text in line for text in texts)]
        return of(self.until(lambda lines: len(of(lines)) > 0, f"a row with {texts}"))[0]

    def rows(self) -> list[str]:
        return [line for line in self.lines()[4:-1] if line.strip()]

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.height = columns, lines
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], capture_output=True, env=self.environment)


@pytest.fixture
def screen(tmp_path):
    """A function that opens a terminal on a daemon."""
    opened: list[Screen] = []

    def open_one(daemon, **arguments) -> Screen:
        directory = tmp_path / f"screen{len(opened)}"
        directory.mkdir()
        opened.append(Screen(directory, "--socket", daemon.admin.path, **arguments))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def top(administered, raw_origin, screen):
    """A proxy, an origin, and the terminal."""

    class World:
        proxy = administered(RULES)
        origin = raw_origin(answering(OK))
        echo = raw_origin(tunnel_echo)

    World.screen = screen(World.proxy)
    World.screen.shows("sallyport", "1 Traffic")
    return World


def ask(raw_client, proxy, host: str, port: int) -> int:
    client = raw_client(proxy)
    status = client.exchange(get(host, port)).status
    client.close()
    return status


# What is shown


def test_traffic_appears_as_it_happens(top, raw_client):
    top.screen.shows("no traffic yet")
    assert ask(raw_client, top.proxy, "a.work.test", top.origin.port) == 200
    row = top.screen.row("a.work.test", "work")
    assert " - " in row, "nothing is open any more"
    tunnel = raw_client(top.proxy)
    assert tunnel.exchange(connect("b.work.test", top.echo.port)).status == 200
    top.screen.shows("1 client", "1 tunnel")
    top.screen.until(
        lambda lines: any("b.work.test" in line and " 1 " in line for line in lines), "the tunnel as an open one")
    # A rate is one of the last interval.
    end = time.monotonic() + DEADLINE_SECONDS
    while True:
        tunnel.send(b"x" * 10_000)
        tunnel.receive_exactly(10_000)
        if any("b.work.test" in line and "iB" in line for line in top.screen.lines()):
            break
        assert time.monotonic() < end, top.screen.lines()
    tunnel.close()
    top.screen.shows("0 tunnels")


def test_refusals_say_why_and_enter_explains(top, raw_client):
    assert ask(raw_client, top.proxy, "x.ads.test", top.origin.port) == 403
    assert ask(raw_client, top.proxy, "a.work.test", top.origin.port) == 200
    top.screen.type("4")
    row = top.screen.row("x.ads.test", "rule-denies", "no-ads", "GET")
    assert len(top.screen.rows()) == 1, "what passed is no refusal"
    reference = row.split()[1]
    top.screen.type("Enter")
    top.screen.shows(f"Request {reference}", "denied by rule 'no-ads'", "decision=deny")
    top.screen.type("Escape")
    top.screen.row("x.ads.test")


def test_rules_have_their_hits(top, raw_client):
    for host in ("x.ads.test", "x.ads.test", "a.work.test"):
        ask(raw_client, top.proxy, host, top.origin.port)
    top.screen.type("3")
    top.screen.until(
        lambda lines: any(line.split()[0:5:3] == ["no-ads", "2"] for line in lines if line.strip()),
        "two hits of no-ads",
    )
    row = top.screen.row("no-ads", "deny").split()
    assert row[3:6] == ["2", "2", "0"] and row[-1].startswith("sallyport:")
    top.screen.type("End", "Home", "Enter")
    top.screen.shows("Rule ", "location", "enforce")


def test_a_connection_is_shown_and_cancelled_after_a_question(top, raw_client):
    tunnel = raw_client(top.proxy)
    assert tunnel.exchange(connect("b.work.test", top.echo.port)).status == 200
    top.screen.type("2")
    row = top.screen.row("b.work.test", "tunnel", "work")
    reference = row.split()[0]
    top.screen.type("Enter")
    top.screen.shows("Connection", "client", f"CONNECT b.work.test:{top.echo.port}")
    top.screen.type("Enter")
    top.screen.row(reference)
    top.screen.type("c")
    top.screen.shows(f"cancel {reference}", "y/n")
    top.screen.type("n")
    top.screen.shows("nothing was done")
    tunnel.send(b"still there")
    assert tunnel.receive_exactly(11) == b"still there"
    top.screen.type("c", "y")
    assert top.proxy.access(lambda line: line["ref"] == reference)["outcome"] == "cancelled"
    top.screen.hides(reference)


def test_a_filter_and_a_sort_order(top, raw_client):
    for host in ("b.work.test", "a.work.test", "c.rest.test"):
        ask(raw_client, top.proxy, host, top.origin.port)
        top.screen.row(host)
    top.screen.type("/", "WORK")
    top.screen.shows("filter: WORK_")
    top.screen.hides("c.rest.test")
    top.screen.type("Enter")
    top.screen.shows("[WORK]")
    # From REQ/S to the left: OPEN, RULE, HOST.
    top.screen.type("<", "<", "<")
    top.screen.shows("HOST^")
    top.screen.until(lambda lines: first_hosts(lines) == ["a", "b"], "a before b")
    top.screen.type("r")
    top.screen.shows("HOSTv")
    top.screen.until(lambda lines: first_hosts(lines) == ["b", "a"], "b before a")
    top.screen.type("/", "nowhere", "Enter")
    top.screen.shows("no row holds 'WORKnowhere'")
    top.screen.type("Escape")
    top.screen.row("c.rest.test")


def first_hosts(lines: list[str]) -> list[str]:
    """`a` of `a.work.test`, of each row in order."""
    return [line.split(".work.test")[0][-1] for line in lines if ".work.test" in line]


def test_a_pause_stands_still(top, raw_client):
    top.screen.type("p")
    top.screen.shows("PAUSED")
    assert ask(raw_client, top.proxy, "a.work.test", top.origin.port) == 200
    before = top.screen.lines()
    # The help comes and goes: the program is alive, and still asks nothing.
    top.screen.type("?")
    top.screen.shows("Keys", "take a temporary answer back")
    top.screen.type("q")
    assert top.screen.hides("Keys") == before
    top.screen.type("p")
    top.screen.row("a.work.test")


def test_any_size_will_do(top, raw_client):
    assert ask(raw_client, top.proxy, "a.work.test", top.origin.port) == 200
    for columns, lines in ((80, 24), (132, 50), (60, 12), (40, 8), (200, 24), (80, 24)):
        top.screen.resize(columns, lines)
        footer = "? help" if columns > 40 else "? help  / filter"
        shown = top.screen.until(
            lambda all: len(all) >= lines and footer in all[lines - 1] and all[0].startswith("sallyport")
            and "WHO" in all[3] and ("LAST" in all[3]) == (columns >= 80),
            f"a screen of {columns}x{lines}",
        )
        assert all(len(line) <= columns for line in shown)
    top.screen.resize(30, 5)
    top.screen.shows("needs 40x8")
    top.screen.resize(80, 24)
    top.screen.row("a.work.test")


@pytest.mark.parametrize("key, status", [("a", 200), ("d", 403)])
def test_a_request_that_waits_is_shown_and_answered(key, status, administered, raw_origin, screen, raw_client):
    proxy = administered('[[rule]]\nname = "strangers"\nhosts = ["**.work.test"]\naction = "ask"\n')
    origin = raw_origin(answering(OK))
    one = screen(proxy)
    one.type("5")
    client = raw_client(proxy)
    client.send(get("a.work.test", origin.port, "/users/17"))
    one.shows("1 QUESTION")
    one.row("root", "GET", "a.work.test")
    one.type("Home", key)
    assert client.answer().status == status
    # What was answered once holds for a while, and is listed.
    one.row("#1", "a.work.test")


# How it begins and ends


def test_q_ends_it_and_the_terminal_is_as_it_was(top):
    top.screen.type("q")
    lines = top.screen.shows("exit status 0")
    assert not any("Traffic" in line for line in lines)


def test_it_begins_only_in_a_terminal_that_can_show_it(administered, screen):
    proxy = administered()
    one = screen(proxy, term="dumb")
    one.shows("cannot place the cursor", "exit status 1")
    other = screen(proxy, term="no-such-terminal")
    other.shows("that TERM names cannot show it", "exit status 1")
    answer = command("top", "--socket", proxy.admin.path)
    assert answer.returncode == 1 and "sallyport status" in answer.stderr and answer.stdout == ""


def test_it_ends_where_no_daemon_is(tmp_path):
    (tmp_path / "t").mkdir()
    one = Screen(tmp_path / "t", "--socket", tmp_path / "none.sock")
    try:
        one.shows("cannot reach the daemon at", "exit status 1")
    finally:
        one.close()


@pytest.mark.parametrize("interval", ["0s", "100ms", "61s", "often", "-1s"])
def test_an_interval_has_bounds(interval):
    answer = command("top", f"--interval={interval}")
    assert answer.returncode == 2 and "from 200ms to 60s" in answer.stderr


def test_without_colour_nothing_is_coloured(administered, screen):
    one = screen(administered(), term="vt100")
    one.shows("1 Traffic")
    drawn = "\n".join(one.lines("-e"))
    assert not re.search(r"\x1b\[([0-9;]*;)?[34][0-7]m", drawn) and "\x1b[7m" in drawn
    other = screen(administered())
    other.shows("1 Traffic")
    assert re.search(r"\x1b\[([0-9;]*;)?3[0-7]m", "\n".join(other.lines("-e"))), "this one has colours"


# A scripted daemon


class ScriptedDaemon:
    """Serves the resources of `pages` by path, and notes each request."""

    def __init__(self, path: Path, pages: dict):
        self.path, self.admin, self.pages = path, self, pages
        self.requests = Journal("requests to the daemon")
        self.answers = threading.Event()
        self.answers.set()
        self.start()

    def start(self) -> None:
        daemon = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                daemon.requests.append(f"{self.command} {self.path}")
                daemon.answers.wait(DEADLINE_SECONDS)
                page = daemon.pages.get(self.path.split("?")[0] if self.command == "GET" else self.path)
                status, page = (404, {"status": 404, "detail": "nothing is here"}) if page is None else (200, page)
                content = page.encode() if isinstance(page, str) else json.dumps(page).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, *_) -> None:
                pass

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

            def get_request(self):
                connection, _ = super().get_request()
                daemon.connections.append(connection)
                return connection, ("client", 0)

        self.connections: list = []
        self.server = Server(str(self.path), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.path.unlink(missing_ok=True)
        for connection in self.connections:
            try:
                connection.shutdown(2)
            except OSError:
                pass


STATUS = {
    "version": "9.9", "started": "2026-11-20T15:23:56.457Z", "uptime_seconds": 60, "reachability": "wired",
    "policy": {"rules": 1, "loaded": None, "failure": None}, "connections": {"clients": 1, "tunnels": 0},
    "exchanges": {"total": 5, "done": 5, "failed": {}}, "bytes": {"in": 1, "out": 1}, "warnings": ["one"],
    "cache": {"results": {"hit": 3, "miss": 1}},
}

HOSTILE = "evil\x1b[2J\x1b]0;owned\x07\r\n\u009b31m\u202e漢字\u0301\u0301\u0301\u0301.test"


def decision(reference: str, **more) -> dict:
    return {
        "time": "2026-11-20T15:23:56.457Z", "ref": reference, "client": "127.0.0.1:1", "method": "GET",
        "target": "http://a.test/", "user": "ci", "rule": "r", "outcome": "denied", "reason": "rule-denies",
        "decision": "deny", "total_ms": 1, "bytes_in": 1, "bytes_out": 1, **more,
    }


@pytest.fixture
def scripted(tmp_path):
    daemon = ScriptedDaemon(
        tmp_path / "admin.sock",
        {"/v1/status": STATUS, "/v1/rules": [], "/v1/connections": [], "/v1/decisions": [decision("AAAAAA")]},
    )
    yield daemon
    daemon.stop()


def test_the_network_cannot_write_to_the_terminal(scripted, screen):
    scripted.pages["/v1/decisions"] = [
        decision("AAAAAA", target=f"http://{HOSTILE}/{HOSTILE}", method=HOSTILE, user=HOSTILE, rule=HOSTILE),
        decision("BBBBBB", target="http://漢字漢字漢字漢字漢字漢字漢字.test/"),
    ]
    scripted.pages["/v1/decisions/AAAAAA"] = HOSTILE * 20
    one = screen(scripted)
    one.type("4")
    one.row("AAAAAA", "\\u001b[2J")
    wide = one.row("BBBBBB", "rule-denies", "漢字")
    titles = next(line for line in one.lines() if line.startswith("TIME"))
    columns = lambda text: sum(2 if character in "漢字" else 1 for character in text)
    assert columns(wide[: wide.index("rule-denies")]) == titles.index("REASON")
    one.type("Home", "Enter")
    one.shows("Request ", "evil\\u001b[2J")
    title = one.tmux("display-message", "-p", "#{pane_title}")
    assert "owned" not in title
    one.type("q", "q")
    one.shows("exit status 0")


def test_without_utf8_only_ascii_is_shown(scripted, screen):
    scripted.pages["/v1/decisions"] = [decision("AAAAAA", user="zoë")]
    one = screen(scripted, LANG="C", LC_ALL="C")
    one.type("4")
    one.row("AAAAAA", "zo\\u{eb}")


ASKS = {
    "asks": [
        {
            "ref": "7F3K2A", "since": "2026-11-20T15:23:56Z", "until": None, "waiting": 3, "user": "ci", "uid": 1000,
            "unit": None, "program": "/usr/bin/git", "client": "127.0.0.1", "method": "GET", "url": "https://asked.test/x/{}",
            "host": "asked.test", "port": 443, "path": "/x/{}", "rule": "ask-all", "place": "p.toml:3",
        }
    ],
    "temporary": [
        {"id": 4, "verdict": "allow", "host": "given.test", "port": 443, "method": None, "path": None, "user": None,
         "unit": None, "client": None, "since": "2026-11-20T15:23:56Z", "until": None, "by": "root"}
    ],
}


@pytest.mark.parametrize(
    "key, request_line",
    [("a", "POST /v1/allow?ref=7F3K2A"), ("A", "POST /v1/allow?ref=7F3K2A&for=1h"), ("d", "POST /v1/deny?ref=7F3K2A")],
)
def test_a_question_is_seen_and_answered(scripted, screen, key, request_line):
    scripted.pages["/v1/asks"] = ASKS
    scripted.pages[request_line.removeprefix("POST ")] = "3 requests go on\n"
    one = screen(scripted)
    one.shows("1 QUESTION", "5 Questions (1)", "1 warning", "cache 75 %")
    one.type("5")
    one.row("7F3K2A", "ci", "git", "https://asked.test")
    one.row("#4", "allow", "given.test:443")
    one.type("Home", "/", "7F3K2A", "Enter", key)
    scripted.requests.wait_for(lambda line: line == request_line)
    one.shows("3 requests go on")


def test_a_permission_is_taken_back(scripted, screen):
    scripted.pages["/v1/asks"] = ASKS
    one = screen(scripted)
    one.type("5", "/", "given", "Enter")
    one.row("#4")
    one.type("x")
    scripted.requests.wait_for(lambda line: line == "POST /v1/revoke?id=4")
    one.shows("nothing is here")


def test_a_daemon_that_goes_away_is_waited_for(scripted, screen):
    one = screen(scripted)
    one.row("a.test")
    scripted.stop()
    one.shows("trying again")
    one.row("a.test")
    scripted.pages["/v1/decisions"] = [decision("BBBBBB", target="http://b.test/")]
    scripted.start()
    one.row("b.test")
    one.hides("trying again")
    one.hides("http://a.test")


def test_a_daemon_that_does_not_answer_holds_no_key_up(scripted, screen):
    one = screen(scripted)
    one.row("a.test")
    scripted.answers.clear()
    seen = len(scripted.requests.snapshot())
    scripted.requests.wait_for(after=seen)
    one.type("?")
    one.shows("take a temporary answer back")
    one.type("q", "4")
    one.shows("TIME UTCv")
    one.type("1", "/", "none", "Enter")
    one.shows("no row holds 'none'")
    one.type("q")
    one.shows("exit status 0")
    scripted.answers.set()


def test_one_kept_connection_and_only_what_the_view_needs(scripted, screen):
    one = screen(scripted)
    one.row("a.test")
    scripted.requests.wait_for_several(3, lambda line: line.startswith("GET /v1/decisions"))
    # One that looked whether the daemon is there is the one that is used.
    assert len(scripted.connections) == 1
    kinds = Counter(line.split("?")[0] for line in scripted.requests.snapshot())
    assert set(kinds) == {"GET /v1/status", "GET /v1/asks", "GET /v1/connections", "GET /v1/decisions"}
    one.type("3")
    scripted.requests.wait_for(lambda line: line == "GET /v1/rules")
    one.shows("the policy has no rules")
    seen = len(scripted.requests.snapshot())
    scripted.requests.wait_for_several(2, lambda line: line == "GET /v1/rules", after=seen)
    assert "GET /v1/connections" not in scripted.requests.snapshot()[seen:]


def test_a_thing_that_is_no_daemon_is_said(scripted, screen):
    scripted.pages["/v1/status"] = "no JSON"
    screen(scripted).shows("/v1/status: no JSON")
