"""`answer` of [rule.response]: the file that a client gets where its origin fails, on every way to one."""

import subprocess

import pytest

from conftest import need
from origins import answering, unused_port
from parents import routed
from problems import check_problem, read_proxy_status
from proxy import clean_environment, command
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from test_limits import get
from tls_world import OK, authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import way

PAGE = b"<!doctype html><p>We are offline."
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbusy"


@pytest.fixture
def page(tmp_path):
    file = tmp_path / "offline.html"
    file.write_bytes(PAGE)
    return file


def response(file, *lines: str, when: str = "") -> str:
    occasions = f", when = [{when}]" if when else ""
    answer = f'answer = {{ file = "{file}", type = "text/html"{occasions} }}'
    return "\n".join(["[rule.response]", *lines, answer, ""])


def is_page(answer, status: int, error: str | None) -> bool:
    assert (answer.status, answer.body) == (status, PAGE), (answer.status, answer.reason, answer.body)
    assert answer.value("Content-Type") == b"text/html" and answer.value("Cache-Control") == b"no-store"
    name, parameters = read_proxy_status(answer.value("Proxy-Status").decode())
    return name == "sallyport" and parameters["error"] == error and b" ref=" in answer.reason


def failing(connection) -> None:
    """/busy fails, /gone ends before an answer, /broken is no JSON, the rest is well."""
    while True:
        request = connection.read_request()
        path = request.target.rpartition(b"/")[2]
        if request.method == b"CONNECT":
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        elif path == b"busy":
            connection.send(BUSY)
        elif path == b"gone":
            connection.close()
            return
        else:
            body = b'{"a":' if path == b"broken" else b"{}"
            connection.send(JSON % (len(body), body))


def test_each_occasion(way, page):
    checks = response(page, 'serializer = "json"', when='"unreachable", "5xx", "violation"')
    started = way(failing, after=checks)
    assert is_page(started.ask("GET", path="/busy"), 503, "destination_unavailable")
    assert is_page(started.ask("GET", path="/gone"), 502, "connection_terminated")
    assert is_page(started.ask("GET", path="/broken"), 502, "http_protocol_error")
    well = started.ask("GET", path="/well")
    assert (well.status, well.body) == (200, b"{}")
    for path, error, status in [("busy", "origin-failed", 503), ("gone", "connection-closed", 502), ("broken", "malformed-content", 502)]:
        line = started.proxy.access(lambda line: line["target"].endswith(f"/{path}") and line["method"] == "GET")
        assert (line["outcome"], line["status"], line["rule"]) == (error, status, "kept")


def test_only_the_occasions_that_are_listed(way, page):
    started = way(failing, after=response(page, 'serializer = "json"', when='"violation"'))
    # The status alone is annotated; the type is what is rejected of it.
    assert is_page(started.ask("GET", path="/busy"), 502, "http_protocol_error")
    check_problem(started.ask("GET", path="/gone"), 502, error="connection_terminated")
    assert is_page(started.ask("GET", path="/broken"), 502, "http_protocol_error")


def test_a_head_has_no_body(way, page):
    def busy(connection) -> None:
        while connection.read_request().method == b"CONNECT":
            connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\n")
        connection.wait_for_end()

    answer = way(busy, after=response(page)).ask("HEAD")
    assert (answer.status, answer.body) == (503, b"")
    assert answer.value("Content-Length") == str(len(PAGE)).encode()


def test_a_kept_connection_goes_on(sallyport, raw_origin, raw_client, page):
    """What the origin says behind its status never reaches the client, nor the next request."""
    origin = raw_origin(failing)
    client = raw_client(sallyport(policy=rule("kept") + response(page)))
    for path, status in [("/busy", 503), ("/well", 200), ("/gone", 502), ("/well", 200), ("/busy", 503)]:
        answer = client.exchange(get(origin, path))
        assert (answer.status, answer.body) == (status, b"{}" if status == 200 else PAGE)


def test_what_is_not_there(secure_proxy, raw_client, page):
    """A port on which nothing listens, and a name that nobody knows; a denial is none of it."""
    policy = rule("no", 'hosts = ["denied.test"]', 'action = "deny"') + rule("kept") + response(page)
    proxy = secure_proxy(policy)
    closed = raw_client(proxy).exchange(
        f"GET http://a.test:{unused_port()}/ HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()
    )
    assert is_page(closed, 502, "connection_refused")
    denied = raw_client(proxy).exchange(b"GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n")
    check_problem(denied, 403, rule="no")


def test_a_certificate_is_no_outage(secure_proxy, tls_origin, world, raw_client, page):
    origin = tls_origin(answering(OK), world.context(world.leaf("b.test")))
    proxy = secure_proxy(rule("kept", "upgrade = true") + response(page))
    answer = raw_client(proxy).exchange(
        f"GET http://a.test:{origin.port}/ HTTP/1.1\r\nHost: a.test:{origin.port}\r\n\r\n".encode()
    )
    check_problem(answer, 502, error="tls_certificate_error")


def test_a_rule_that_is_not_enforced_lets_the_origin_speak(sallyport, raw_origin, raw_client, page):
    origin = raw_origin(failing)
    proxy = sallyport(policy=rule("kept", "enforce = false") + response(page))
    answer = raw_client(proxy).exchange(get(origin, "/busy"))
    assert (answer.status, answer.body) == (503, b"busy")
    assert proxy.access(lambda line: line["status"] == 503)["report"] == "origin-failed"


def test_the_file_is_read_with_the_configuration(secure_proxy, raw_origin, raw_client, page):
    """What is written to it later is sent after a reload, and not before; a reload that finds it too long changes nothing."""
    origin = raw_origin(failing)
    policy = rule("kept") + response(page)
    proxy = secure_proxy(policy)
    policy = proxy.head + policy
    ask = lambda: raw_client(proxy).exchange(get(origin, "/busy")).body
    assert ask() == PAGE
    page.write_bytes(b"new")
    assert ask() == PAGE
    proxy.reload(policy=policy)
    assert ask() == b"new"
    page.write_bytes(b"x" * ((1 << 20) + 1))
    proxy.reload(policy=policy)
    assert ask() == b"new"
    page.write_bytes(b"x" * (1 << 20))
    proxy.reload(policy=policy)
    assert ask() == b"x" * (1 << 20)


def test_check_and_explain(sallyport_binary, tmp_path, page):
    (tmp_path / "policy.d").mkdir()
    (tmp_path / "policy.d" / "offline.html").write_bytes(PAGE)
    (tmp_path / "s.toml").write_text('include = ["policy.d/*.toml"]\n')
    included = tmp_path / "policy.d" / "a.toml"
    included.write_text(rule("kept", 'schemes = ["http"]') + response("offline.html"))
    checked = command("check", "--strict", "--config", tmp_path / "s.toml")
    assert checked.returncode == 0, checked
    told = command("explain", "--config", tmp_path / "s.toml", "GET", "http://a.test/")
    assert "policy.d/offline.html (text/html, 33B) where unreachable, 5xx" in told.stdout
    included.write_text(rule("kept") + response("none.html"))
    checked = command("check", "--config", tmp_path / "s.toml")
    assert checked.returncode == 1 and "policy.d/none.html', of 1 MiB at most: No such file" in checked.stdout, checked


def test_curl_sees_a_failure(sallyport, raw_origin, page):
    need("curl")
    origin = raw_origin(failing)
    proxy = sallyport(policy=rule("kept") + response(page))

    def curl(*arguments: str) -> subprocess.CompletedProcess:
        url = f"http://127.0.0.1:{origin.port}/busy"
        line = ["curl", "-q", "-sS", "--proxy", proxy.url, "--noproxy", "", *arguments, url]
        return subprocess.run(line, capture_output=True, env=clean_environment(), timeout=40)

    shown = curl("-w", " %{http_code}")
    assert (shown.returncode, shown.stdout) == (0, PAGE + b" 503"), shown
    assert curl("-f").returncode == 22
