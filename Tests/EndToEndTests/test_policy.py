"""Rules, end to end: who is refused and how it is said, what is changed on the way, reload, and what a request costs.

Host names resolve at a name server of the test that knows every name as 127.0.0.1, so that what a rule lets through
arrives at a raw origin.
"""

import base64
import json
import signal
import threading
import time

import pytest

from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import answering, silent, tunnel_echo
from problems import check_problem, read_proxy_status

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def get(host: str, port: int, path: str = "/", lines: str = "", method: str = "GET") -> bytes:
    return f"{method} http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n{lines}\r\n".encode()


def connect(host: str, port: int) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


@pytest.fixture
def ruled(sallyport, dns_server):
    """A function that starts a proxy with these rules; every name is 127.0.0.1."""

    def start(policy: str, proxy: str = "", **arguments):
        server = dns_server({}, otherwise=Answer(a=["127.0.0.1"]))
        return sallyport(proxy=proxy, policy=f'[dns]\nservers = ["{server.address}"]\n{policy}', **arguments)

    return start


# Refusals by a rule

DENY_ADS = """
[[rule]]
name = "no-ads"
hosts = ["**.ads.test"]
action = "deny"
reason = "Advertisements are not for the kiosk."
"""


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "CONNECT", "FROBNICATE"])
def test_a_deny_rule_is_said_in_every_way(method, ruled, raw_origin, raw_client):
    proxy, origin = ruled(DENY_ADS), raw_origin(answering(OK))
    client = raw_client(proxy)
    data = (
        connect("x.ads.test", origin.port)
        if method == "CONNECT"
        else get("x.ads.test", origin.port, method=method)
    )
    answer = client.exchange(data)
    assert answer.status == 403
    assert answer.reason.startswith(b"denied rule=no-ads ref=")
    reference = answer.reason[-6:].decode()
    _, parameters = read_proxy_status(answer.value("Proxy-Status").decode())
    assert (parameters["error"], parameters["rule"]) == ("http_request_denied", "no-ads")
    if method != "HEAD":
        problem = check_problem(answer, 403, error="http_request_denied", rule="no-ads")
        assert "Advertisements are not for the kiosk." in problem.body["detail"]
    else:
        assert answer.body == b""
    line = proxy.access_of(reference)
    assert (line["rule"], line["status"], line["method"], line["upstream"]) == ("no-ads", 403, method, None)
    assert line["decision"] == "deny"
    assert not origin.connections
    if method == "CONNECT" and b"close" in answer.options("Connection"):
        return  # what follows a CONNECT need not be HTTP, so that ending there is sound
    assert client.exchange(get("other.test", origin.port)).body == b"ok"


ACCEPTS = {
    "no Accept": ("", "application/problem+json"),
    "anything": ("Accept: */*\r\n", "application/problem+json"),
    "JSON": ("Accept: application/json\r\n", "application/problem+json"),
    "problem+json": ("Accept: application/problem+json\r\n", "application/problem+json"),
    "plain text": ("Accept: text/plain\r\n", "text/plain"),
    "any text": ("Accept: text/*\r\n", "text/plain"),
    "plain text before JSON": ("Accept: text/plain, application/json;q=0.5\r\n", "text/plain"),
    "JSON before plain text": (
        "Accept: text/plain;q=0.5, application/problem+json\r\n",
        "application/problem+json",
    ),
    "plain text that is not wanted": ("Accept: text/plain;q=0, */*\r\n", "application/problem+json"),
    "nothing that there is": ("Accept: image/png\r\n", "application/problem+json"),
}


@pytest.mark.parametrize("name", ACCEPTS)
def test_the_body_of_a_refusal_is_what_accept_prefers(name, ruled, raw_client):
    lines, expected = ACCEPTS[name]
    answer = raw_client(ruled(DENY_ADS)).exchange(get("ads.test", 80, lines=lines))
    assert answer.status == 403
    assert answer.value("Content-Type").split(b";")[0].decode() == expected
    if expected == "text/plain":
        text = answer.body.decode("utf-8")
        assert "no-ads" in text and "Advertisements are not for the kiosk." in text
        assert answer.reason[-6:].decode() in text, "the reference is what a person would report"
        assert answer.value("Proxy-Status")


def test_a_long_rule_name_keeps_the_reference_and_the_limit_of_the_reason(ruled, raw_client):
    name = "a-rule-with-a-name-that-no-reason-phrase-of-60-bytes-can-carry"
    proxy = ruled(f'[[rule]]\nname = "{name}"\naction = "deny"\n')
    answer = raw_client(proxy).exchange(get("a.test", 80))
    assert answer.status == 403 and len(answer.reason) <= 60
    assert answer.reason.startswith(b"denied rule=a-rule-with") and answer.reason[-11:-6] == b" ref="
    assert json.loads(answer.body)["rule"] == name


def test_a_reason_that_is_not_ascii_is_told_in_the_body(ruled, raw_client):
    proxy = ruled('[[rule]]\nname = "r"\naction = "deny"\nreason = "Nicht für „Kioske“ \\u0022 \\\\"\n')
    problem = check_problem(raw_client(proxy).exchange(get("a.test", 80)), 403, rule="r")
    assert 'Nicht für „Kioske“ " \\' in problem.body["detail"]


def test_what_no_rule_matches_is_denied_by_default(ruled, raw_origin, raw_client):
    """The sandbox: only what is listed goes out, tunnels included."""
    origin, tunnel = raw_origin(answering(OK)), raw_origin(tunnel_echo)
    ports = f"ports = [{origin.port}, {tunnel.port}]"
    proxy = ruled(f'[[rule]]\nname = "listed"\nhosts = ["listed.test"]\n{ports}\n', 'default = "deny"')
    client = raw_client(proxy)
    assert client.exchange(get("listed.test", origin.port)).body == b"ok"
    check_problem(client.exchange(get("other.test", origin.port)), 403, error="http_request_denied")
    check_problem(client.exchange(connect("other.test", tunnel.port)), 403, error="http_request_denied")
    assert raw_client(proxy).exchange(connect("listed.test", tunnel.port)).status == 200
    assert len(origin.connections) == 1


# Conditions

PATTERNS = [
    ("a.test", "a.test", True),
    ("a.test", "A.Test", True),
    ("A.TEST", "a.test", True),
    ("a.test", "a.test.", True),
    ("a.test.", "a.test", True),
    ("a.test", "b.a.test", False),
    ("a.test", "xa.test", False),
    ("a.test", "a.test.b.test", False),
    ("*.a.test", "b.a.test", True),
    ("*.a.test", "a.test", False),
    ("*.a.test", "c.b.a.test", False),
    ("*.a.test", "xa.test", False),
    ("**.a.test", "a.test", True),
    ("**.a.test", "b.a.test", True),
    ("**.a.test", "d.c.b.a.test.", True),
    ("**.a.test", "xa.test", False),
    ("**.a.test", "a.test.b.test", False),
    ("*", "any.name.test", True),
    ("*", "single", True),
    ("127.0.0.1", "127.0.0.1", True),
    ("127.0.0.1", "127.0.0.2", False),
    ("127.0.0.1", "a.test", False),
    ("127.0.0.1", "localhost", False),
    ("127.0.0.0/8", "127.9.9.9", True),
    ("127.0.0.0/9", "127.200.0.1", False),
    ("127.0.0.0/8", "a.test", False),
    ("::1", "[::1]", True),
    ("::1", "[0:0:0:0:0:0:0:1]", True),
    ("::/64", "[::1]", True),
    ("bücher.test", "xn--bcher-kva.test", True),
    ("xn--bcher-kva.test", "xn--bcher-kva.test", True),
    ("BÜCHER.test", "xn--bcher-kva.test", True),
    ("*.bücher.test", "a.xn--bcher-kva.test", True),
    ("bücher.test", "bucher.test", False),
]


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("pattern, host, matches", PATTERNS)
def test_a_host_pattern(pattern, host, matches, method, ruled, raw_origin, raw_client):
    """A match is denied. What is let through arrives, or is refused by nobody listening: then it was let through too."""
    proxy = ruled(f'[[rule]]\nname = "r"\nhosts = ["{pattern}"]\naction = "deny"\n')
    origin = raw_origin(tunnel_echo if method == "CONNECT" else answering(OK))
    data = connect(host, origin.port) if method == "CONNECT" else get(host, origin.port)
    answer = raw_client(proxy).exchange(data)
    if matches:
        check_problem(answer, 403, rule="r")
    else:
        assert answer.status in (200, 502)


# Each: the conditions of a rule that denies, a request, and whether it is denied
CONDITIONS = {
    "the port of the rule": ("ports = [PORT]", "GET", "/", True),
    "another port": ("ports = [1, 2]", "GET", "/", False),
    "the port of the rule, in a tunnel": ("ports = [PORT]", "CONNECT", "", True),
    "another port, in a tunnel": ("ports = [443]", "CONNECT", "", False),
    "the method of the rule": ('methods = ["POST", "PUT"]', "PUT", "/", True),
    "another method": ('methods = ["POST", "PUT"]', "GET", "/", False),
    "a method that nobody knows is another": ('methods = ["GET"]', "gets", "/", False),
    "a path below the pattern": ('paths = ["/v2/*"]', "GET", "/v2/a/b", True),
    "a path below the pattern, with a query": ('paths = ["/v2/*"]', "GET", "/v2/a?b", True),
    "nothing behind the pattern's slash": ('paths = ["/v2/*"]', "GET", "/v2/", True),
    "the pattern without its slash": ('paths = ["/v2/*"]', "GET", "/v2", False),
    "another path": ('paths = ["/v2/*"]', "GET", "/v1/v2/a", False),
    "a path in other letters, which some servers read as these": ('paths = ["/v2/*"]', "GET", "/V2/a", True),
    "the query is no path": ('paths = ["/v2/*"]', "GET", "/?/v2/", False),
    "an exact path": ('paths = ["/login"]', "GET", "/login", True),
    "an exact path and a query": ('paths = ["/login"]', "GET", "/login?next=/", True),
    "more than an exact path": ('paths = ["/login"]', "GET", "/login/x", False),
    "the end of a path": ('paths = ["*.exe"]', "GET", "/a/b.exe", True),
    "the end of a path before a query": ('paths = ["*.exe"]', "GET", "/a/b.exe?x", True),
    "the end of a query is not the end of a path": ('paths = ["*.exe"]', "GET", "/a?b.exe", False),
    "a star in the middle, over slashes": ('paths = ["/a/*/z"]', "GET", "/a/b/c/z", True),
    "two stars": ('paths = ["/*/b/*"]', "GET", "/a/b/c", True),
    "a pattern that would need a slow match": ('paths = ["*a*a*a*a*a*a*b"]', "GET", "/" + "a" * 4000, False),
    "one of several paths": ('paths = ["/x", "/y*"]', "GET", "/yes", True),
    "the scheme of the rule": ('schemes = ["http"]', "GET", "/", True),
    "another scheme": ('schemes = ["https"]', "GET", "/", False),
    "a tunnel counts as https": ('schemes = ["https"]', "CONNECT", "", True),
    "a tunnel is not http": ('schemes = ["http"]', "CONNECT", "", False),
    "a rule with methods is passed over at CONNECT": ('methods = ["GET"]', "CONNECT", "", False),
    "a rule with the method CONNECT is one with methods": ('methods = ["CONNECT"]', "CONNECT", "", False),
    "a rule with paths is passed over at CONNECT": ('paths = ["*"]', "CONNECT", "", False),
    "all conditions hold": (
        'ports = [PORT]\nmethods = ["GET"]\npaths = ["/a"]\nschemes = ["http"]',
        "GET",
        "/a",
        True,
    ),
    "one condition does not": (
        'ports = [PORT]\nmethods = ["GET"]\npaths = ["/b"]\nschemes = ["http"]',
        "GET",
        "/a",
        False,
    ),
    "no condition at all": ("", "GET", "/", True),
    "no condition at all, in a tunnel": ("", "CONNECT", "", True),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition(name, ruled, raw_origin, raw_client):
    conditions, method, path, denied = CONDITIONS[name]
    origin = raw_origin(tunnel_echo if method == "CONNECT" else answering(OK))
    proxy = ruled(f'[[rule]]\nname = "r"\naction = "deny"\n{conditions.replace("PORT", str(origin.port))}\n')
    data = (
        connect("a.test", origin.port)
        if method == "CONNECT"
        else get("a.test", origin.port, path, method=method)
    )
    answer = raw_client(proxy).exchange(data)
    if denied:
        check_problem(answer, 403, rule="r")
    else:
        assert answer.status == 200


# Each: two or more rules, a request, and which rule decides (None: no rule)
PRECEDENCE = {
    "the first of two that match": ('N="one"\nN="two"\naction = "deny"', "GET", "one", 200),
    "a narrow one behind a broad one never decides": (
        'N="broad"\nhosts = ["**.test"]\nN="narrow"\nhosts = ["a.test"]\naction = "deny"',
        "GET",
        "broad",
        200,
    ),
    "the exception before the rule": (
        'N="exception"\nhosts = ["a.test"]\nN="all"\nhosts = ["*"]\naction = "deny"',
        "GET",
        "exception",
        200,
    ),
    "a pattern before an exact name": (
        'N="pattern"\nhosts = ["*.test"]\naction = "deny"\nN="exact"\nhosts = ["a.test"]',
        "GET",
        "pattern",
        403,
    ),
    "an exact name behind rules for other names": (
        'N="x"\nhosts = ["b.test"]\nN="y"\nhosts = ["c.test"]\nN="z"\nhosts = ["a.test"]\naction = "deny"',
        "GET",
        "z",
        403,
    ),
    "the first whose every condition holds": (
        'N="post"\nmethods = ["POST"]\naction = "deny"\nN="any"\nN="last"\naction = "deny"',
        "GET",
        "any",
        200,
    ),
    "connect = deny only stops the tunnel": ('N="r"\nconnect = "deny"', "GET", "r", 200),
    "connect = deny stops the tunnel": ('N="r"\nconnect = "deny"', "CONNECT", "r", 403),
    "connect = deny with methods speaks of the tunnel itself": (
        'N="r"\nconnect = "deny"\nmethods = ["GET"]',
        "CONNECT",
        "r",
        403,
    ),
    "connect = tunnel": ('N="r"\nconnect = "tunnel"\nN="s"\naction = "deny"', "CONNECT", "r", 200),
    "rules with methods are passed over at CONNECT": (
        'N="r"\nmethods = ["GET"]\nN="s"\nports = [PORT]\naction = "deny"',
        "CONNECT",
        "s",
        403,
    ),
}


@pytest.mark.parametrize("name", PRECEDENCE)
def test_which_rule_decides(name, ruled, raw_origin, raw_client):
    rules, method, decides, status = PRECEDENCE[name]
    origin = raw_origin(tunnel_echo if method == "CONNECT" else answering(OK))
    proxy = ruled(rules.replace("N=", "[[rule]]\nname = ").replace("PORT", str(origin.port)))
    client = raw_client(proxy)
    answer = client.exchange(
        connect("a.test", origin.port) if method == "CONNECT" else get("a.test", origin.port)
    )
    assert answer.status == status
    if status == 403:
        check_problem(answer, 403, rule=decides)
    client.close()
    assert proxy.access(lambda line: line["method"] == method)["rule"] == decides


def test_a_rule_that_is_not_enforced_blocks_nothing_and_is_logged(ruled, raw_origin, raw_client):
    rules = '[[rule]]\nname = "trial"\nhosts = ["a.test"]\naction = "deny"\nreason = "some day"\nenforce = false\n'
    proxy, origin, tunnel = ruled(rules), raw_origin(answering(OK)), raw_origin(tunnel_echo)
    assert raw_client(proxy).exchange(get("a.test", origin.port)).body == b"ok"
    client = raw_client(proxy)
    assert client.exchange(connect("a.test", tunnel.port)).status == 200
    client.close()
    for method in ("GET", "CONNECT"):
        line = proxy.access(lambda line: line["method"] == method)
        assert (line["rule"], line["status"]) == ("trial", 200)
        assert "deny" in f"{line['decision']} {line['reason']}", "the log must say what it would have done"


def test_deny_addresses_of_a_rule(ruled, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    proxy = ruled(
        '[[rule]]\nname = "outside"\nhosts = ["a.test", "127.0.0.1", "0.0.0.0", "::"]\n'
        'deny_addresses = ["loopback"]\n'
    )
    # Linux connects 0.0.0.0 and :: to the machine itself.
    for host in ("a.test", "127.0.0.1", "0.0.0.0", "[::]"):
        answer = raw_client(proxy).exchange(get(host, origin.port))
        check_problem(answer, 403, error="destination_ip_prohibited", rule="outside")
    assert raw_client(proxy).exchange(get("b.test", origin.port)).body == b"ok"


def test_a_path_that_an_origin_reads_otherwise_does_not_pass(ruled, raw_origin, raw_client):
    """What names the directory, and what names a file whose name has to be written percent-encoded."""
    proxy = ruled('[[rule]]\nname = "closed"\npaths = ["/admin/*", "/a%20b"]\naction = "deny"\n')
    origin = raw_origin(answering(OK))
    directory = ["/admin/", "/admin/.", "/admin/x/..", "/admin/%2e", "/admin/x/%2e%2e", "/admin/.?a"]
    for path in [*directory, "/a%20b", "/%61%20%62"]:
        check_problem(raw_client(proxy).exchange(get("a.test", origin.port, path=path)), 403, rule="closed")
    for path in ("/admin", "/a%2520b"):
        assert raw_client(proxy).exchange(get("a.test", origin.port, path=path)).body == b"ok"


def test_ten_thousand_rules_find_theirs(ruled, raw_origin, raw_client):
    """What it costs is a matter for the benchmark; here, that each of many is found."""
    rules = "".join(
        f'[[rule]]\nname = "r{n}"\nhosts = ["h{n}.test", "*.s{n}.test"]\naction = "deny"\n'
        for n in range(10_000)
    )
    proxy, origin = ruled(rules), raw_origin(answering(OK))
    client = raw_client(proxy)
    for number in (0, 1, 4_999, 9_999):
        check_problem(client.exchange(get(f"h{number}.test", 80)), 403, rule=f"r{number}")
        check_problem(client.exchange(get(f"a.s{number}.test", 80)), 403, rule=f"r{number}")
    assert client.exchange(get("h10000.test", origin.port)).body == b"ok"


# What is changed in a request


def seen_by_origin(policy: str, lines: str, ruled, raw_origin, raw_client, host: str = "a.test", **arguments):
    proxy, origin = ruled(policy, **arguments), raw_origin(answering(OK))
    assert raw_client(proxy).exchange(get(host, origin.port, lines=lines)).status == 200
    return proxy, origin.requests()[0]


RULE = '[[rule]]\nname = "r"\nhosts = ["a.test"]\n[rule.request]\n'
# Each: [rule.request], the client's fields, and the values of some fields at the origin
CHANGES = {
    "a default fills what is absent": ('headers.default = { X-A = "rule" }', "", {"X-A": [b"rule"]}),
    "a default leaves what is there": (
        'headers.default = { X-A = "rule" }',
        "x-a: client\r\n",
        {"X-A": [b"client"]},
    ),
    "a default leaves what is there and empty": (
        'headers.default = { X-A = "rule" }',
        "X-A:\r\n",
        {"X-A": [b""]},
    ),
    "set adds": ('headers.set = { X-A = "rule" }', "", {"X-A": [b"rule"]}),
    "set replaces every one": ('headers.set = { X-A = "rule" }', "X-A: 1\r\nx-a: 2\r\n", {"X-A": [b"rule"]}),
    "remove removes every one": (
        'headers.remove = ["X-A"]',
        "X-A: 1\r\nx-a: 2\r\nX-B: 3\r\n",
        {"X-A": [], "X-B": [b"3"]},
    ),
    "remove of what is not there": ('headers.remove = ["X-A"]', "", {"X-A": []}),
    "user_agent replaces": ('user_agent = "kiosk/7"', "User-Agent: curl/8\r\n", {"User-Agent": [b"kiosk/7"]}),
    "user_agent adds": ('user_agent = "kiosk/7"', "", {"User-Agent": [b"kiosk/7"]}),
    "a default user agent leaves the client's": (
        'headers.default = { User-Agent = "kiosk/7" }',
        "User-Agent: curl/8\r\n",
        {"User-Agent": [b"curl/8"]},
    ),
    "no cookies": (
        "cookies = false",
        "Cookie: a=b\r\nCookie: c=d\r\nX-A: 1\r\n",
        {"Cookie": [], "X-A": [b"1"]},
    ),
    "cookies": ("cookies = true", "Cookie: a=b\r\n", {"Cookie": [b"a=b"]}),
    "authorization replaces the client's": (
        'authorization = { username = "ada", password = "plain" }',
        "Authorization: Bearer client\r\n",
        {"Authorization": [b"Basic " + base64.b64encode(b"ada:plain")]},
    ),
    "authorization of a user outside ASCII": (
        'authorization = { username = "ädä", password = "wörd" }',
        "",
        {"Authorization": [b"Basic " + base64.b64encode("ädä:wörd".encode())]},
    ),
    "nothing of another rule": (
        "",
        "User-Agent: u\r\nCookie: c=d\r\n",
        {"User-Agent": [b"u"], "Cookie": [b"c=d"]},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_request_is_changed(name, ruled, raw_origin, raw_client):
    request, lines, expected = CHANGES[name]
    _, seen = seen_by_origin(RULE + request + "\n", lines, ruled, raw_origin, raw_client)
    assert {field: seen.values(field) for field in expected} == expected


LANGUAGES = {
    "one": (["en"], [("en", 1.0)]),
    "two": (["en", "de"], [("en", 1.0), ("de", 0.9)]),
    "six": (
        ["a", "b", "c", "d", "e", "f"],
        [("a", 1.0), ("b", 0.9), ("c", 0.8), ("d", 0.7), ("e", 0.6), ("f", 0.5)],
    ),
    "seven, of which six count": (
        ["a", "b", "c", "d", "e", "f", "g"],
        [("a", 1.0), ("b", 0.9), ("c", 0.8), ("d", 0.7), ("e", 0.6), ("f", 0.5)],
    ),
}


@pytest.mark.parametrize("name", LANGUAGES)
def test_accept_language_falls_by_a_tenth(name, ruled, raw_origin, raw_client):
    languages, expected = LANGUAGES[name]
    policy = RULE + f"accept_language = {json.dumps(languages)}\n"
    _, seen = seen_by_origin(policy, "Accept-Language: fr\r\n", ruled, raw_origin, raw_client)
    members = [member.partition(b";q=") for member in seen.options("Accept-Language")]
    assert [(tag.decode(), float(weight or 1)) for tag, _, weight in members] == expected


def test_the_defaults_of_requests_hold_where_a_rule_is_silent(ruled, raw_origin, raw_client):
    policy = (
        '[defaults.request]\nuser_agent = "default/1"\nheaders.set = { X-Default = "d" }\n'
        '[[rule]]\nname = "r"\nhosts = ["a.test"]\n[rule.request]\nuser_agent = "rule/1"\n'
    )
    _, of_rule = seen_by_origin(policy, "", ruled, raw_origin, raw_client)
    _, of_none = seen_by_origin(policy, "", ruled, raw_origin, raw_client, host="b.test")
    assert of_rule.values("User-Agent") == [b"rule/1"]
    assert of_none.values("User-Agent") == [b"default/1"]
    assert of_none.values("X-Default") == [b"d"] and of_rule.values("X-Default") == [b"d"]


def test_no_cookies_removes_set_cookie_too(ruled, raw_origin, raw_client):
    origin = raw_origin(
        answering(
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nX: y\r\nContent-Length: 0\r\n\r\n"
        )
    )
    answer = raw_client(ruled(RULE + "cookies = false\n")).exchange(get("a.test", origin.port))
    assert answer.values("Set-Cookie") == [] and answer.values("X") == [b"y"]


SECRET = "s3cret-of-the-test"
SECRETS = {
    "a file": '{ file = "secret.txt" }',
    "a credential of systemd": '{ credential = "the-secret" }',
    "the environment": '{ env = "THE_SECRET" }',
    "a plain string": f'"{SECRET}"',
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_reaches_the_origin_and_nobody_else(name, ruled, raw_origin, raw_client, tmp_path):
    """The final newline is not part of it; the log holds it in no form, not even when the request fails."""
    for directory, file in ((tmp_path, "secret.txt"), (tmp_path / "credentials", "the-secret")):
        directory.mkdir(exist_ok=True)
        (directory / file).write_text(SECRET + "\n")
        (directory / file).chmod(0o600)
    policy = (
        RULE
        + f'headers.set = {{ X-Key = {SECRETS[name]} }}\nauthorization = {{ username = "u", password = {SECRETS[name]} }}\n'
    )
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials"), "THE_SECRET": SECRET}
    proxy, seen = seen_by_origin(
        policy, "", ruled, raw_origin, raw_client, directory=tmp_path, environment=environment
    )
    proxy.secrets += [SECRET, base64.b64encode(f"u:{SECRET}".encode()).decode()]
    assert seen.values("X-Key") == [SECRET.encode()]
    assert seen.values("Authorization") == [b"Basic " + base64.b64encode(f"u:{SECRET}".encode())]
    raw_client(proxy).exchange(get("a.test", 1))


# Time


def test_the_timeout_of_a_rule_is_504(ruled, raw_origin, raw_client):
    proxy, origin = ruled(RULE + 'timeout = "300ms"\n'), raw_origin(silent)
    problem = check_problem(
        raw_client(proxy).exchange(get("a.test", origin.port)), 504, error="http_response_timeout", rule="r"
    )
    assert proxy.access_of(problem.reference)["total_ms"] >= 290
    origin.wait_for("done")


def test_the_timeout_of_a_rule_covers_the_whole_exchange(ruled, raw_origin, raw_client):
    """A body that trickles for ever stalls nothing, yet takes too long: it ends, and not as a whole one."""

    def trickling(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        connection.socket.settimeout(0.05)
        while True:
            connection.send(b"x")
            try:
                if not connection.receive_some():
                    return
            except TimeoutError:
                continue

    proxy, origin = ruled(RULE + 'timeout = "500ms"\n'), raw_origin(trickling)
    client = raw_client(proxy)
    client.send(get("a.test", origin.port))
    client.wait_for_end()
    assert client.check().ended == "in the body"
    origin.wait_for("done")
    assert proxy.access(lambda line: line["rule"] == "r")["outcome"] != "done"


# Reload


def rule_for(host: str) -> str:
    return f'[[rule]]\nname = "stop-{host}"\nhosts = ["{host}"]\naction = "deny"\n'


@pytest.fixture
def reloadable(sallyport, dns_server):
    """A proxy whose rules a test replaces: it, and a function that reloads it with others."""
    server = dns_server({}, otherwise=Answer(a=["127.0.0.1"]))
    prefix = f'[dns]\nservers = ["{server.address}"]\n'
    proxy = sallyport(proxy="workers = 2", policy=prefix + rule_for("old.test"))
    return proxy, lambda policy: proxy.reload(proxy="workers = 2", policy=prefix + policy)


def first_refusal(client, data: bytes):
    """Ask until the answer is no: each worker takes a new policy over in its turn, a moment after the log's line."""
    end = time.monotonic() + DEADLINE_SECONDS
    while (answer := client.exchange(data)).status != 403 and time.monotonic() < end:
        continue
    return answer


def test_a_reload_changes_the_rules_of_open_connections(reloadable, raw_origin, raw_client):
    proxy, reload = reloadable
    origin = raw_origin(answering(OK))
    clients = [raw_client(proxy) for _ in range(8)]
    for client in clients:
        check_problem(client.exchange(get("old.test", origin.port)), 403, rule="stop-old.test")
        assert client.exchange(get("new.test", origin.port)).status == 200
    reload(rule_for("new.test"))
    for client in clients:
        check_problem(first_refusal(client, get("new.test", origin.port)), 403, rule="stop-new.test")
        assert client.exchange(get("old.test", origin.port)).status == 200


def test_a_request_under_way_finishes_with_the_policy_it_began_with(reloadable, raw_origin, raw_client):
    proxy, reload = reloadable
    released = threading.Event()

    def late(connection) -> None:
        while True:  # a request may come again before the new policy has reached its loop
            connection.read_request()
            origin.note("reached")
            released.wait(DEADLINE_SECONDS)
            connection.send(OK)

    origin, tunnel = raw_origin(late), raw_origin(tunnel_echo)
    client, tunnelling = raw_client(proxy), raw_client(proxy)
    assert tunnelling.exchange(connect("new.test", tunnel.port)).status == 200
    client.send(get("new.test", origin.port))
    origin.wait_for("reached")
    reload(rule_for("new.test"))
    released.set()
    assert client.answer().body == b"ok"
    tunnelling.send(b"still here")
    assert tunnelling.receive_exactly(10) == b"still here"
    check_problem(first_refusal(client, get("new.test", origin.port)), 403, rule="stop-new.test")


BROKEN = {
    "what is no TOML": "[[rule\n",
    "an unknown key": rule_for("new.test") + 'hotss = ["x"]\n',
    "a wrong type": '[proxy.limits]\nheaders = "many"\n',
    "two rules of one name": rule_for("new.test") + rule_for("new.test"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_reload_changes_nothing_and_says_so(name, reloadable, raw_origin, raw_client):
    proxy, reload = reloadable
    origin = raw_origin(answering(OK))
    before = len(proxy.log.snapshot())
    reload(BROKEN[name])
    said = proxy.log.wait_for(
        lambda entry: "total_ms" not in entry and "error" in json.dumps(entry).lower(), after=before
    )
    assert said
    log = json.dumps([entry for entry in proxy.log.snapshot()[before:]])
    assert "sallyport.toml:" in log, "the log must say where"
    client = raw_client(proxy)
    check_problem(client.exchange(get("old.test", origin.port)), 403, rule="stop-old.test")
    assert client.exchange(get("new.test", origin.port)).status == 200
    reload(rule_for("new.test"))
    check_problem(first_refusal(client, get("new.test", origin.port)), 403, rule="stop-new.test")


def test_a_reload_that_cannot_read_the_file_changes_nothing(reloadable, raw_client):
    proxy, _ = reloadable
    before = len(proxy.log.snapshot())
    proxy.configuration.unlink()
    proxy.process.send_signal(signal.SIGHUP)
    proxy.log.wait_for(lambda entry: "reload" in json.dumps(entry).lower(), after=before)
    check_problem(raw_client(proxy).exchange(get("old.test", 80)), 403, rule="stop-old.test")


def test_a_reload_reads_included_files_too(ruled, raw_origin, raw_client, tmp_path):
    (tmp_path / "policy.d").mkdir()
    rules = tmp_path / "policy.d/rules.toml"
    rules.write_text(rule_for("a.test"))
    proxy = ruled("", "workers = 1", directory=tmp_path)
    text = proxy.configuration.read_text()
    proxy.configuration.write_text('include = ["policy.d/*.toml"]\n' + text)
    for host, other in (("a.test", "b.test"), ("b.test", "a.test")):
        rules.write_text(rule_for(host))
        before = len(proxy.log.snapshot())
        proxy.process.send_signal(signal.SIGHUP)
        proxy.log.wait_for(lambda entry: "reload" in json.dumps(entry).lower(), after=before)
        # The loop hears of it after the line is written.
        assert first_refusal(raw_client(proxy), get(host, 1)).status == 403
        assert raw_client(proxy).exchange(get(other, 1)).status == 502


def test_reloads_under_load_lose_no_request(reloadable, raw_origin, raw_client):
    proxy, reload = reloadable
    origin = raw_origin(answering(OK))
    client = raw_client(proxy)
    for number in range(20):
        reload(rule_for(f"h{number}.test"))
        for _ in range(5):
            assert client.exchange(get("new.test", origin.port)).body == b"ok"
