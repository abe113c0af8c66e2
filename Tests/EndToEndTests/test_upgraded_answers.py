"""`upgrade = true`: what answers say of https is told to the program in terms of http, so that it stays within the rule.

A login as curl, requests and Python's own cookie jar go through it, and every field by itself: what is told anew, and what stays,
because the program would leave the rule, or send a cookie in the clear.
"""

import subprocess
import urllib.request
from http.cookiejar import CookieJar

import pytest

from conftest import need
from proxy import clean_environment
from test_origination import get, origin  # noqa: F401
from tls_world import rule, secure_proxy, tls_origin, world  # noqa: F401

UP = rule("up", 'hosts = ["a.test", "wide.test", "**.wide.test"]', "upgrade = true")


def answering_with(*lines: str, status: int = 200):
    """Every request is answered with these fields."""

    def script(connection) -> None:
        while True:
            connection.read_request()
            head = f"HTTP/1.1 {status} Said\r\nContent-Length: 2\r\n" + "".join(f"{line}\r\n" for line in lines)
            connection.send(head.encode() + b"\r\nok")

    return script


@pytest.fixture
def told(origin, secure_proxy, raw_client):  # noqa: F811
    """A function that lets an upgraded origin say fields, with its port as PORT, and returns what the client is told."""

    def ask(*lines: str, policy: str = UP, status: int = 200, host: str = "a.test", path: str = "/"):
        server = origin(lambda connection: script(connection), names=(host,))
        script = answering_with(*(line.replace("PORT", str(server.port)) for line in lines), status=status)
        proxy = secure_proxy(policy)
        answer = raw_client(proxy).exchange(get(host, server.port, path, scheme="http"))
        names = {line.partition(":")[0].encode() for line in lines}
        return [
            f"{name.decode()}: {value.decode()}".replace(str(server.port), "PORT")
            for name, value in answer.fields
            if name in names
        ]

    return ask


FIELDS = {
    "Location": ("Location: https://a.test:PORT/b?c=d#e", "Location: http://a.test:PORT/b?c=d#e"),
    "Location in capitals": ("Location: HTTPS://A.TEST:PORT/b", "Location: http://a.test:PORT/b"),
    "Location without a path": ("Location: https://a.test:PORT", "Location: http://a.test:PORT"),
    "Location with a query alone": ("Location: https://a.test:PORT?x", "Location: http://a.test:PORT?x"),
    "Content-Location": ("Content-Location: https://a.test:PORT/b", "Content-Location: http://a.test:PORT/b"),
    "Refresh": ("Refresh: 0; url=https://a.test:PORT/b", "Refresh: 0; url=http://a.test:PORT/b"),
    "Refresh in quotes": ("Refresh: 5;URL='https://a.test:PORT/b'", "Refresh: 5;URL='http://a.test:PORT/b'"),
    "a relative Location": ("Location: /b", "Location: /b"),
    "a Location of http": ("Location: http://a.test:PORT/b", "Location: http://a.test:PORT/b"),
    "another host": ("Location: https://b.test:PORT/b", "Location: https://b.test:PORT/b"),
    "another port": ("Location: https://a.test:1/b", "Location: https://a.test:1/b"),
    "the port of https": ("Location: https://a.test/b", "Location: https://a.test/b"),
    "user information": ("Location: https://a.test:PORT@b.test/", "Location: https://a.test:PORT@b.test/"),
    "a host that begins so": ("Location: https://a.test.evil:PORT/", "Location: https://a.test.evil:PORT/"),
    "a backslash": ("Location: https://b.test\\@a.test:PORT/", "Location: https://b.test\\@a.test:PORT/"),
    "Strict-Transport-Security": ("Strict-Transport-Security: max-age=99", None),
    "Secure": ("Set-Cookie: a=b; Path=/; Secure; HttpOnly", "Set-Cookie: a=b; Path=/; HttpOnly"),
    "secure, close by": ("Set-Cookie: a=b;secure;HttpOnly", "Set-Cookie: a=b;HttpOnly"),
    "Secure with a value": ("Set-Cookie: a=b; Secure=1", "Set-Cookie: a=b"),
    "SameSite=None": ("Set-Cookie: a=b; SameSite=None; Secure", "Set-Cookie: a=b"),
    "SameSite=Lax": ("Set-Cookie: a=b; SameSite=Lax; Secure", "Set-Cookie: a=b; SameSite=Lax"),
    "Partitioned": ("Set-Cookie: a=b; Secure; Partitioned; Max-Age=9", "Set-Cookie: a=b; Max-Age=9"),
    "a cookie without Secure": ("Set-Cookie: secure=1; Path=/", "Set-Cookie: secure=1; Path=/"),
    "a value that says secure": ("Set-Cookie: a=secure", "Set-Cookie: a=secure"),
    "a domain that the rule does not cover": ("Set-Cookie: a=b; Domain=test; Secure", "Set-Cookie: a=b"),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field(name, told):
    said, heard = FIELDS[name]
    assert told(said, status=302 if "ocation" in said else 200) == ([heard] if heard else [])


def test_a_domain_that_the_rule_covers_stays(told):
    said = told("Set-Cookie: a=b; Domain=.wide.test; Secure", host="x.wide.test")
    assert said == ["Set-Cookie: a=b; Domain=.wide.test"]


def test_cookies_keep_their_order(told):
    said = told("Set-Cookie: a=1", "Set-Cookie: a=2; Secure", "Set-Cookie: a=3", "Set-Cookie: b=4; Secure")
    assert said == ["Set-Cookie: a=1", "Set-Cookie: a=2", "Set-Cookie: a=3", "Set-Cookie: b=4"]


NARROW = rule("up", 'hosts = ["a.test"]', 'paths = ["/up/*"]', "upgrade = true")


def test_what_leads_out_of_the_rule_stays_https(told):
    """A program that followed it by http would speak in the clear."""
    for where in ("/down", "/up/../down", "/up", ""):
        location = f"Location: https://a.test:PORT{where}"
        assert told(location, policy=NARROW, path="/up/x", status=302) == [location]
    assert told("Location: https://a.test:PORT/up/y", policy=NARROW, path="/up/x") == ["Location: http://a.test:PORT/up/y"]


def test_a_cookie_that_would_leave_in_the_clear_stays_secure(told):
    for cookie in ("Set-Cookie: a=b; Secure", "Set-Cookie: a=b; Path=/; Secure", "Set-Cookie: a=b; Path=/u; Secure"):
        assert told(cookie, policy=NARROW, path="/up/x") == [cookie]
    within = told("Set-Cookie: a=b; Path=/up/in; Secure", policy=NARROW, path="/up/x")
    assert within == ["Set-Cookie: a=b; Path=/up/in"]


def test_another_method_by_another_rule_stays_https(told):
    """308 keeps the method: both must be upgraded."""
    reading = rule("up", 'hosts = ["a.test"]', 'methods = ["POST"]', "upgrade = true")
    location = "Location: https://a.test:PORT/b"
    assert told(location, policy=reading + UP.replace('"up"', '"more"')) == ["Location: http://a.test:PORT/b"]


def test_nothing_is_told_anew_where_nothing_was_upgraded(origin, secure_proxy, raw_client):  # noqa: F811
    lines = ("Location: https://a.test/b", "Set-Cookie: a=b; Secure", "Strict-Transport-Security: max-age=9")
    server = origin(answering_with(*lines))
    answer = raw_client(secure_proxy(UP)).exchange(get("a.test", server.port))
    for line in lines:
        name, _, value = line.partition(": ")
        assert answer.value(name) == value.encode()


# A login


def logging_in(connection) -> None:
    """/login gives a cookie and leads to /home, which greets who has it."""
    while True:
        said = connection.read_request()
        authority = said.value("Host").decode()
        if said.target == b"/login":
            connection.send(
                b"HTTP/1.1 303 See Other\r\nContent-Type: text/html\r\nContent-Length: 0\r\n"
                b"Strict-Transport-Security: max-age=31536000\r\n"
                b"Set-Cookie: sid=secret; Path=/; Secure; HttpOnly; SameSite=None\r\n"
                + f"Location: https://{authority}/home\r\n\r\n".encode()
            )
        else:
            known = said.value("Cookie") == b"sid=secret"
            body = b'{"hello": "you"}' if known else b'{"who": "are you"}'
            head = f"HTTP/1.1 {200 if known else 403} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            connection.send(head.encode() + b"\r\n\r\n" + body)


LOGIN = UP + '[rule.response]\nserializer = "json"\non_violation = { status = "reject" }\n'


def test_a_login_with_curl(origin, secure_proxy, tmp_path):  # noqa: F811
    need("curl")
    server, proxy = origin(logging_in), secure_proxy(LOGIN)
    arguments = ["-q", "-sS", "-L", "-c", tmp_path / "jar", "-b", tmp_path / "jar", "--proxy", proxy.url, "--noproxy", ""]
    url = f"http://a.test:{server.port}/login"
    done = subprocess.run(
        ["curl", *arguments, "-d", "user=u", url], capture_output=True, env=clean_environment(), timeout=40
    )
    assert done.stdout == b'{"hello": "you"}', done
    proxy.access(lambda line: line["target"].endswith("/home"))
    assert all(line["rule"] == "up" and line["target"].startswith("http://") for line in proxy.access_lines())
    assert [request.target for request in server.requests()] == [b"/login", b"/home"]


def test_a_login_with_pythons_cookie_jar(origin, secure_proxy):  # noqa: F811
    server, proxy = origin(logging_in), secure_proxy(LOGIN)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({"http": proxy.url}), urllib.request.HTTPCookieProcessor(CookieJar())
    )
    with opener.open(f"http://a.test:{server.port}/login", b"user=u", timeout=30) as answer:
        assert answer.read() == b'{"hello": "you"}'


def test_a_login_with_requests(origin, secure_proxy):  # noqa: F811
    requests = pytest.importorskip("requests")
    server, proxy = origin(logging_in), secure_proxy(LOGIN)
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"http": proxy.url}
        answer = session.post(f"http://a.test:{server.port}/login", data={"user": "u"}, timeout=30)
        assert answer.json() == {"hello": "you"}
