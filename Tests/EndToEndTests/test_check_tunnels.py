"""What check says has no effect on https, against what real requests show: a table of policies and the ways in.

Each policy is about the host a.test. The same request goes in by http and through a CONNECT with TLS inside, of a client
that trusts the origin and the local authority alike. A rule has an effect where the origin sees its header or no cookie,
where the client gets its 403 or its 502. What works by http and not through the tunnel is what check must name: no more
and no less.
"""

import json

import pytest

from proxy import command
from tls_world import (
    authority, client_context, init_authority, rule, secure_client, secure_proxy, tls_origin, world
)

HEADERS = 'headers.set = { X-Rule = "seen" }'
NO_COOKIES = "cookies = false"
PARAMETERS = 'parameters = { k = "seen" }'
AGENT = 'user_agent = "seen"'
JSON_ONLY = '[rule.response]\nserializer = "json"\non_violation = { content_type = "reject" }\n'
ANSWER = '[rule.response]\nanswer = { file = "offline.html", type = "text/html", when = ["5xx"] }\n'
HOST = 'hosts = ["a.test"]'
OTHER = 'hosts = ["b.test"]'
OPEN = 'connect = "intercept"'
DENY_PATH = rule("no", HOST, 'paths = ["/admin/*"]', 'action = "deny"')
DENY_METHOD = rule("no", HOST, 'methods = ["DELETE"]', 'action = "deny"')
CLOSED = 'default = "deny"'

# The rule that check is asked about is the first. Values: policy, [proxy].
TABLE = {
    "headers": (rule("r", HOST, request=HEADERS), ""),
    "headers, intercepted": (rule("r", HOST, OPEN, request=HEADERS), ""),
    "headers, verified": (rule("r", HOST, 'connect = "verify"', request=HEADERS), ""),
    "headers, tunnelled": (rule("r", HOST, 'connect = "tunnel"', request=HEADERS), ""),
    "headers of https": (rule("r", HOST, 'schemes = ["https"]', request=HEADERS), ""),
    "headers of both": (rule("r", HOST, 'schemes = ["http", "https"]', request=HEADERS), ""),
    "headers of http": (rule("r", HOST, 'schemes = ["http"]', request=HEADERS), ""),
    "headers, opened by a later rule": (
        rule("r", HOST, 'paths = ["/*"]', request=HEADERS) + rule("open", HOST, OPEN), ""),
    "headers, opened for any host": (
        rule("r", HOST, 'paths = ["/*"]', request=HEADERS) + rule("open", OPEN), ""),
    "headers, opened for another host": (
        rule("r", HOST, 'paths = ["/*"]', request=HEADERS) + rule("open", OTHER, OPEN), ""),
    "headers, and a rule too late": (rule("r", HOST, request=HEADERS) + rule("open", HOST, OPEN, 'methods = ["GET"]'), ""),
    "headers, opened by an earlier rule about requests": (
        rule("r", HOST, 'methods = ["GET"]', request=HEADERS) + rule("late", HOST, 'methods = ["PUT"]', OPEN), ""),
    "headers for any host": (rule("r", request=HEADERS), ""),
    "headers for hosts below": (rule("r", 'hosts = ["**.test"]', request=HEADERS), ""),
    "headers for hosts below, intercepted": (rule("r", 'hosts = ["**.test"]', OPEN, request=HEADERS), ""),
    "no cookies": (rule("r", HOST, request=NO_COOKIES), ""),
    "no cookies, intercepted": (rule("r", HOST, OPEN, request=NO_COOKIES), ""),
    "parameters": (rule("r", HOST, request=PARAMETERS), ""),
    "parameters, intercepted": (rule("r", HOST, OPEN, request=PARAMETERS), ""),
    "parameters, verified": (rule("r", HOST, 'connect = "verify"', request=PARAMETERS), ""),
    "an agent": (rule("r", HOST, request=AGENT), ""),
    "an agent, intercepted": (rule("r", HOST, OPEN, request=AGENT), ""),
    "a response": (rule("r", HOST) + JSON_ONLY, ""),
    "a response, intercepted": (rule("r", HOST, OPEN) + JSON_ONLY, ""),
    "a response, verified": (rule("r", HOST, 'connect = "verify"') + JSON_ONLY, ""),
    "a denial by path": (DENY_PATH, ""),
    "a denial by path, then an allowance": (DENY_PATH + rule("a", HOST), ""),
    "a denial by path, intercepted": (DENY_PATH + rule("a", HOST, OPEN), ""),
    "a denial by path, verified": (DENY_PATH + rule("a", HOST, 'connect = "verify"'), ""),
    "a denial by path, intercepted elsewhere": (DENY_PATH + rule("a", OTHER, OPEN), ""),
    "a denial by method": (DENY_METHOD, ""),
    "a denial by method, intercepted": (DENY_METHOD + rule("a", OPEN), ""),
    "a denial by path, and no tunnels": (DENY_PATH + rule("a", HOST, 'connect = "deny"'), ""),
    "an allow-list": (rule("r", HOST, 'methods = ["GET"]', 'PORTS'), CLOSED),
    "an allow-list, intercepted": (rule("r", HOST, 'methods = ["GET"]', OPEN, "PORTS"), CLOSED),
    "an allow-list, tunnelled": (rule("r", HOST, 'methods = ["GET"]', 'connect = "tunnel"', "PORTS"), CLOSED),
    "an allow-list, and a rule for tunnels": (
        rule("r", HOST, 'methods = ["GET"]', "PORTS") + rule("t", HOST, 'schemes = ["https"]', OPEN, 'methods = ["GET"]', "PORTS"), CLOSED),
    "an allow-list of http": (rule("r", HOST, 'methods = ["GET"]', 'schemes = ["http"]', "PORTS"), CLOSED),
    "nothing about requests": (rule("r", HOST), ""),
    "redirects": (rule("r", HOST, 'redirects = "deny"'), ""),
    "redirects, intercepted": (rule("r", HOST, OPEN, 'redirects = "deny"'), ""),
    "redirects, verified": (rule("r", HOST, 'connect = "verify"', 'redirects = "same-host"'), ""),
    "an answer": (rule("r", HOST) + ANSWER, ""),
    "an answer, intercepted": (rule("r", HOST, OPEN) + ANSWER, ""),
    "a target": (rule("r", HOST, 'target = "PLAIN/v2/"'), ""),
    "a target, intercepted": (rule("r", HOST, OPEN, 'target = "PLAIN/v2/"'), ""),
    "a time-out": (rule("r", HOST, request='timeout = "30s"'), ""),
    "a port that is not asked for": (rule("r", HOST, "ports = [80]", request=HEADERS), ""),
}
REQUESTS = [("GET", "/"), ("GET", "/admin/x"), ("DELETE", "/x"), ("PUT", "/x"), ("GET", "/moved"), ("GET", "/broken")]
HEADS = {b"/moved": b"302 Found\r\nLocation: http://elsewhere.test/", b"/broken": b"503 Busy"}


def echo(connection) -> None:
    """Answers with what it was asked."""
    while request := connection.read_request():
        body = json.dumps({
            "line": f"{request.method.decode()} {request.target.decode()}",
            "fields": sorted(f"{name.decode().lower()}: {value.decode()}" for name, value in request.fields),
        }).encode()
        connection.send(
            b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s"
            % (HEADS.get(request.target, b"200 OK"), len(body), body)
        )


def effect(answer) -> str | None:
    """What a rule has done to the exchange; nil: nothing."""
    if answer is None:
        return "no tunnel"
    if answer.status in (403, 502):
        return str(answer.status)
    if answer.body == b"<p>offline</p>":
        return "the file"
    said = json.loads(answer.body)
    if "/v2/" in said["line"]:
        return "the target"
    seen = [field for field in said["fields"] if field in ("x-rule: seen", "user-agent: seen")]
    seen += ["parameter"] if "k=seen" in said["line"] else []
    seen += ["no cookie"] if not any(field.startswith("cookie:") for field in said["fields"]) else []
    return ", ".join(seen) or None


@pytest.mark.parametrize("name", TABLE)
def test_check_says_what_has_no_effect(
    name, secure_proxy, secure_client, raw_client, tls_origin, raw_origin, world, authority, tmp_path
):
    secure = tls_origin(echo, world.context(world.leaf("a.test")), tunnelled=True)
    plain = raw_origin(echo)
    text, default = TABLE[name]
    policy = text.replace("PORTS", f"ports = [443, {secure.port}, {plain.port}]").replace("PLAIN", f"http://a.test:{plain.port}")
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "offline.html").write_text("<p>offline</p>")
    proxy = secure_proxy(authority.table + policy, proxy=default, directory=tmp_path / "proxy")
    context = client_context(world.root_file, authority.file)
    by_http, by_https = [], []
    for method, path in REQUESTS:
        fields = "Cookie: a=b\r\nUser-Agent: test\r\nContent-Length: 0\r\n"
        head = f"{method} http://a.test:{plain.port}{path} HTTP/1.1\r\nHost: a.test:{plain.port}\r\n{fields}\r\n"
        by_http.append(effect(raw_client(proxy).exchange(head.encode())))
        client = secure_client(proxy)
        if client.tunnel("a.test", secure.port).status != 200:
            by_https.append("no tunnel")
            continue
        client.shake_hands(context, "a.test")
        head = f"{method} {path} HTTP/1.1\r\nHost: a.test:{secure.port}\r\n{fields}\r\n"
        by_https.append(effect(client.exchange(head.encode())))
    checked = command("check", "--json", "--config", proxy.configuration)
    said = [entry["message"] for entry in json.loads(checked.stdout) if entry["severity"] == "warning"]
    idle = [message for message in said if "no effect on https" in message]
    unusable = [message for message in said if "allows no https" in message]
    meant = 'schemes = ["http"]' not in text.split("[[rule]]")[1] and "ports = [80]" not in text
    if 'schemes = ["https"]' in text.split("[[rule]]")[1]:
        by_http = ["x-rule: seen"] * len(REQUESTS)  # what the rule would do
    denies_tunnels = 'connect = "deny"' in text
    lost = meant and any(
        http is not None and https is None for http, https in zip(by_http, by_https)
    )
    closed = meant and not denies_tunnels and any(
        http is None and https == "no tunnel" for http, https in zip(by_http, by_https)
    )
    if name in ("headers", "redirects", "an answer", "a target"):
        assert lost, (by_http, by_https)  # the requests show it
    assert (bool(idle), bool(unusable)) == (lost, closed), (by_http, by_https, said)


def test_what_the_authority_may_not_sign_is_found(sallyport_binary, tmp_path):
    made = init_authority(tmp_path / "authority", "--permit", "permitted.test")
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(
        made.table
        + rule("fine", 'hosts = ["permitted.test", "*.sub.permitted.test"]', OPEN)
        + rule("some", 'hosts = ["permitted.test", "other.test", "10.0.0.0/8"]', "ports = [8443]", OPEN)
        + rule("all", OPEN)
    )
    checked = command("check", "--config", configuration)
    assert checked.returncode == 0, checked
    warnings = [line for line in checked.stdout.splitlines() if " warning: " in line]
    assert len(warnings) == 2 and all("may sign only for permitted.test" in line for line in warnings), checked
    assert "rule 'some' intercepts other.test, 10.0.0.0/8, and" in warnings[0]
    assert "rule 'all' intercepts any host, and" in warnings[1]
    for host, refused in [("www.permitted.test", False), ("other.test", True), ("10.1.2.3", True)]:
        told = command("explain", "--config", configuration, "GET", f"https://{host}/")
        assert told.stdout.startswith("The tunnel is refused: the local authority may not sign for") == refused, told


def test_explain_leads_with_what_has_no_effect(sallyport_binary, tmp_path):
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(DENY_PATH + rule("a", HOST))
    told = command("explain", "--config", configuration, "GET", "https://a.test/admin/x")
    assert told.stdout.startswith("Rule 'no' (")
    assert "has no effect on https" in told.stdout.splitlines()[0]
    as_json = command("explain", "--json", "--config", configuration, "GET", "https://a.test/admin/x")
    assert "has no effect on https" in json.loads(as_json.stdout)["note"]
    assert "note" not in json.loads(command("explain", "--json", "--config", configuration, "GET", "https://a.test/").stdout)
