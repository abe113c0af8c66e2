"""On every way to an origin: secrets that do not come back, fields that Connection takes away, methods, and Upgrade."""

import pytest

from origins import answering
from parents import route, routed
from problems import check_problem
from proxy import command
from raw_client import RawClient
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from tls_world import OK, authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import SECRET, way

AUTHORIZATION = f'authorization = {{ username = "u", password = "{SECRET}" }}'
SECRETS = {
    "authorization": AUTHORIZATION,
    "a field that is set": 'headers.set = { X-Token = { env = "HIDDEN" } }',
    "a default of a field": 'headers.default = { X-Token = { env = "HIDDEN" } }',
    "a parameter": 'parameters = { api_key = { env = "HIDDEN" } }',
}


def tracing(connection) -> None:
    """What Apache does with TRACE, and here with every method: the request is the answer."""
    while True:
        asked = connection.read_request()
        echo = bytes(connection.received[asked.start : asked.end])
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: message/http\r\nContent-Length: %d\r\n\r\n" % len(echo))
        connection.send(echo)


# Secrets


@pytest.mark.parametrize("secret", SECRETS)
def test_a_rule_with_a_secret_refuses_trace(secret, way):
    started = way(tracing, request=SECRETS[secret])
    for method in ("TRACE", "TRACK"):
        answer = started.ask(method)
        problem = check_problem(answer, 405)
        assert problem.token == "method-not-allowed" and problem.rule == "kept"
        assert "GET" in answer.value("Allow").decode().split(", ") and b"TRACE" not in answer.value("Allow")
        assert SECRET.encode() not in answer.body
    assert started.requests == []
    # The same rule lets other methods pass, with what it adds.
    assert started.ask("GET").status == 200
    assert len(started.requests) == 1


def test_an_inherited_secret_is_kept_too(way):
    started = way(tracing, defaults=AUTHORIZATION)
    check_problem(started.ask("TRACE"), 405)
    assert started.requests == []


def test_nothing_that_a_rule_adds_goes_with_trace(way):
    added = 'headers.set = { X-Added = "by-rule" }\nheaders.default = { X-Default = "by-rule" }\nuser_agent = "by-rule"'
    started = way(tracing, request=added + '\nparameters = { page = "by-rule" }\nparameters_in_uri = ["GET", "TRACE"]')
    answer = started.ask("TRACE")
    assert answer.status == 200 and answer.body.startswith(b"TRACE ") and b"by-rule" not in answer.body
    assert b"by-rule" in started.ask("GET").body


def test_no_parent_echoes_the_credentials_that_it_is_sent(routed, scripted_parent, raw_client):
    """Max-Forwards may make the parent the last recipient, which answers with what it got."""
    parent = scripted_parent(tracing)
    table = route("office", parent.via, f'credentials = {{ username = "u", password = "{SECRET}" }}')
    proxy = routed(table, "office")
    for lines in ("", "Max-Forwards: 1\r\n", "Max-Forwards: 9\r\n"):
        asked = f"TRACE http://a.test:80/ HTTP/1.1\r\nHost: a.test:80\r\n{lines}\r\n".encode()
        check_problem(raw_client(proxy).exchange(asked), 405)
    assert not parent.connections


def test_a_stock_apache_echoes_and_the_proxy_does_not(sallyport, raw_client, tmp_path):
    """Apache as it comes has TraceEnable on."""
    from path_servers import PathServer

    apache = PathServer("apache", tmp_path)
    try:
        proxy = sallyport(policy=rule("kept", request=AUTHORIZATION) + "", environment={"HIDDEN": SECRET})
        proxy.secrets.append(SECRET)
        place = f"127.0.0.1:{apache.port}"
        direct = RawClient(("127.0.0.1", apache.port))
        direct.send(f"TRACE / HTTP/1.1\r\nHost: {place}\r\nX-Mine: m\r\nConnection: close\r\n\r\n".encode())
        while direct.receive_some():
            pass
        direct.close()
        assert b"X-Mine: m" in direct.received, "this Apache does not echo"
        check_problem(
            raw_client(proxy).exchange(f"TRACE http://{place}/ HTTP/1.1\r\nHost: {place}\r\n\r\n".encode()), 405
        )
    finally:
        apache.stop()


def test_explain_says_the_same(tmp_path):
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text(rule("kept", 'hosts = ["a.test"]', request=AUTHORIZATION))
    said = command("explain", "--config", configuration, "TRACE", "http://a.test/")
    assert said.returncode != 0 and "405" in said.stdout and "'kept'" in said.stdout, said.stdout
    assert command("explain", "--config", configuration, "GET", "http://a.test/").returncode == 0


# Connection


NAMED = [
    "content-encoding",
    "Content-Type",
    "content-range",
    "content-length",
    "transfer-encoding",
    "trailer",
    "host",
    "authorization",
    "cookie",
]


def test_connection_names_no_field_that_was_checked(way):
    started = way()
    for name in NAMED:
        problem = check_problem(started.ask("GET", f"Connection: keep-alive, {name}\r\n"), 400)
        assert "Connection field" in problem.body["detail"]
    assert started.requests == []
    assert started.ask("GET", "Connection: TE, x-mine\r\nTE: trailers\r\nX-Mine: m\r\n").status == 200
    assert started.requests[0].values("X-Mine") == []


def test_connection_of_an_answer_names_none_either(way):
    names = iter([*NAMED, "te", "set-cookie"])

    def script(connection) -> None:
        connection.read_request()
        lines = b"Content-Type: text/plain\r\nConnection: %s, close\r\nContent-Length: 2\r\n\r\nok"
        connection.send(b"HTTP/1.1 200 OK\r\n" + lines % next(names).encode())

    started = way(script)
    for name in [*NAMED, "te", "set-cookie"]:
        problem = check_problem(started.ask("GET"), 502)
        assert problem.token == "malformed-response", name


# Methods


def test_a_method_in_another_case_is_malformed(way):
    started = way(answering(OK), 'methods = ["GET"]')
    for method in ("delete", "Get", "post", "trace", "Options"):
        problem = check_problem(started.ask(method), 400)
        assert "case-sensitive" in problem.body["detail"]
    assert started.requests == []


# Upgrade

ASKING = "Connection: Upgrade\r\nUpgrade: websocket\r\n"


def test_a_rule_that_lists_no_protocol_forbids_upgrade(way):
    started = way(answering(OK), "upgrades = []")
    problem = check_problem(started.ask("GET", ASKING), 403)
    assert problem.rule == "kept" and "websocket" in problem.body["detail"]
    assert started.requests == []
    assert started.ask("GET", "Connection: Upgrade\r\nUpgrade: h2c\r\n").status == 200
    assert not started.requests[0].values("Upgrade")


def test_another_protocol_than_was_asked_for_is_not_passed_on(way):
    def script(connection) -> None:
        connection.read_request()
        connection.send(b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x-other\r\n\r\n")

    started = way(script, 'upgrades = ["websocket"]')
    problem = check_problem(started.ask("GET", ASKING), 502)
    assert problem.token == "malformed-response"
