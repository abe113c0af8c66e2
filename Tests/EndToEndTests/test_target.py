"""`target`: a short name on the machine stands for a base URL, on every way to it, and as programs use it."""

import subprocess
import urllib.request

import pytest

from conftest import need
from origins import answering
from parents import routed
from problems import check_problem
from proxy import clean_environment, command
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from tls_world import OK, authority, client_context, rule, secure_client, secure_proxy, tls_origin, world
from ways import way

SHORT = "short.test"
TARGET = 'target = "{SCHEME}://a.test:{PORT}/v2"'


def head(started, path: str, method: str = "GET") -> bytes:
    place = f"{SHORT}:{started.port}" if started.name == "intercept" else SHORT
    target = (path or "/") if started.name == "intercept" else f"http://{SHORT}{path}"
    return f"{method} {target} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()


def ask(started, path: str):
    return started.enter(host=SHORT).exchange(head(started, path))


def leading(connection) -> None:
    """/v2/in leads on by a whole URL, /v2/on by a path, /v2/out past the base path; the rest is home."""
    while True:
        request = connection.read_request()
        host = request.value("Host").decode()
        places = {"/v2/in": f"http://{host}/v2/on?x", "/v2/on?x": "/v2/home", "/v2/out": "/login"}
        place = places.get(request.target.decode())
        lines = f"Location: {place}\r\nSet-Cookie: s=1; Domain=a.test; Path=/v2\r\n" if place else ""
        status = 302 if place else 200
        connection.send(f"HTTP/1.1 {status} x\r\n{lines}Content-Length: 4\r\n\r\nhome".encode())


def test_every_way_leads_to_the_target(way):
    started = way(answering(OK), TARGET)
    paths = {"/users?id=1": "/v2/users?id=1", "": "/v2/", "/v2/x": "/v2/v2/x", "//x": "/v2//x", "/x/?a=/..": "/v2/x/?a=/.."}
    for path in paths:
        assert ask(started, path).body == b"ok"
    place = f"a.test:{started.port}"
    seen = {request.target.decode().removeprefix(f"http://{place}") for request in started.requests}
    assert seen == set(paths.values())
    assert {request.value("Host") for request in started.requests} == {place.encode()}
    line = started.proxy.access(lambda line: "/users" in line["target"])
    assert line["rule"] == "kept" and f"//{SHORT}" in line["target"]


@pytest.mark.parametrize("path", ["/../x", "/..%2fx", "/%2e%2e/x", "/..;/x", "/..%5cx", "/%252e%252e/x", "/a/../../x", "//../../x"])
def test_no_path_leads_out_of_the_base_path(path, secure_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    proxy = secure_proxy(rule("api", f'hosts = ["{SHORT}"]', f'target = "http://a.test:{origin.port}/v2/"'))
    answer = raw_client(proxy).exchange(f"GET http://{SHORT}{path} HTTP/1.1\r\nHost: {SHORT}\r\n\r\n".encode())
    problem = check_problem(answer, 403, rule="api")
    assert "leads out of it" in problem.details
    assert origin.requests() == []
    assert proxy.access(lambda line: line["status"] == 403)["reason"] == "outside-target"


def test_a_rule_that_denies_the_target_denies(secure_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    policy = rule("api", f'hosts = ["{SHORT}"]', f'target = "http://a.test:{origin.port}/v2/"')
    policy += rule("no", 'hosts = ["a.test"]', 'paths = ["/v2/admin/*"]', 'action = "deny"')
    client = raw_client(secure_proxy(policy, proxy='default = "deny"'))
    ask = lambda path: client.exchange(f"GET http://{SHORT}{path} HTTP/1.1\r\nHost: {SHORT}\r\n\r\n".encode())
    assert ask("/fine").status == 200
    for path in ("/admin/x", "/b/../admin/x", "/%61dmin/x", "/admin%2fx"):
        problem = check_problem(ask(path), 403, rule="no")
        assert "The request would go to http://a.test" in problem.details
    # By its own name it stays what it was.
    direct = client.exchange(f"GET http://a.test:{origin.port}/v2/fine HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
    check_problem(direct, 403)


def test_the_certificate_is_the_targets(secure_proxy, tls_origin, world, raw_client):
    right = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    wrong = tls_origin(answering(OK), world.context(world.leaf(SHORT)))
    for origin, status in [(right, 200), (wrong, 502)]:
        proxy = secure_proxy(rule("api", f'hosts = ["{SHORT}"]', f'target = "https://a.test:{origin.port}/"'))
        answer = raw_client(proxy).exchange(f"GET http://{SHORT}/ HTTP/1.1\r\nHost: {SHORT}\r\n\r\n".encode())
        assert answer.status == status, answer


def test_a_rule_that_is_reached_does_not_map_again(secure_proxy, raw_origin, raw_client):
    first, second = raw_origin(answering(OK)), raw_origin(answering(OK))
    policy = rule("one", f'hosts = ["{SHORT}"]', f'target = "http://a.test:{first.port}/"')
    policy += rule("two", 'hosts = ["a.test"]', f'target = "http://b.test:{second.port}/"')
    answer = raw_client(secure_proxy(policy)).exchange(f"GET http://{SHORT}/ HTTP/1.1\r\nHost: {SHORT}\r\n\r\n".encode())
    assert answer.status == 200 and len(first.requests()) == 1 and second.requests() == []


# Programs


@pytest.fixture
def walk(secure_proxy, raw_origin):
    origin = raw_origin(leading)
    policy = rule("api", f'hosts = ["{SHORT}"]', f'target = "http://a.test:{origin.port}/v2/"')
    others = rule("others", 'hosts = ["a.test"]', 'paths = ["/login"]', 'action = "deny"')
    return origin, secure_proxy(policy + others)


def test_curl_stays_with_the_short_name(walk, tmp_path):
    need("curl")
    origin, proxy = walk

    def curl(path: str, *arguments: str) -> subprocess.CompletedProcess:
        line = ["curl", "-q", "-sS", "-L", "-c", tmp_path / "jar", "--proxy", proxy.url, "--noproxy", "", *arguments]
        return subprocess.run(
            [*line, f"http://{SHORT}{path}"], capture_output=True, env=clean_environment(), timeout=40
        )

    done = curl("/in", "-w", " %{url_effective} %{num_redirects}")
    assert (done.returncode, done.stdout) == (0, f"home http://{SHORT}/home 2".encode()), done
    assert [request.target for request in origin.requests()] == [b"/v2/in", b"/v2/on?x", b"/v2/home"]
    jar = (tmp_path / "jar").read_text()
    assert f"{SHORT}\tFALSE\t/\tFALSE" in jar, jar
    # What the target keeps outside of the base URL is asked for by its own name, which another rule denies here.
    out = curl("/out", "-o", "/dev/null", "-w", "%{http_code} %{url_effective}")
    assert out.stdout == f"403 http://a.test:{origin.port}/login".encode(), out


def test_python_does_too(walk):
    origin, proxy = walk
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy.url}))
    with opener.open(f"http://{SHORT}/in", timeout=30) as answer:
        assert (answer.read(), answer.url) == (b"home", f"http://{SHORT}/home")


def test_explain_says_where_it_goes(sallyport_binary, tmp_path):
    configuration = tmp_path / "s.toml"
    configuration.write_text(rule("api", 'hosts = ["api"]', 'schemes = ["http"]', 'target = "https://a.test/v2"'))
    assert command("check", "--strict", "--config", configuration).returncode == 0
    told = command("explain", "--config", configuration, "GET", "http://api/users?id=1")
    assert told.returncode == 0 and "target: https://a.test/v2/users?id=1" in told.stdout, told
    out = command("explain", "--config", configuration, "GET", "http://api/..%2fx")
    assert out.returncode == 3 and "the path leads out of its target" in out.stdout, out
