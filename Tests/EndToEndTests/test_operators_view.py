"""What an operator is told: warnings where they are read, why a route is not taken, events of one rule, the end of a drain."""

import json
import os
import socket
import subprocess
import time

import pytest

from admin_client import Watcher
from admin_world import DENY, administered, ask_once, rewrite
from journal import DEADLINE_SECONDS
from origins import answering, silent
from problems import check_problem
from proxy import binary, clean_environment, command
from test_policy import get

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SHADOWED = '[[rule]]\nname = "a"\n[[rule]]\nname = "b"\nhosts = ["b.test"]\n'
OTHERS = '[[rule]]\nname = "others"\n'

# Events


@pytest.mark.parametrize("choice", ["rule=no-ads", "ref", "user=root", "user=0", "kind=finished&rule=no-ads"])
def test_a_reader_chooses_exchanges(choice, administered, raw_origin, raw_client):
    proxy, origin = administered(DENY + OTHERS), raw_origin(answering(OK))
    users = f"user={os.getuid()}" if choice == "user=0" else choice
    if choice.startswith("user"):
        rewrite(proxy, DENY + '[[rule]]\nname = "mine"\nusers = ["root"]\nhosts = ["b.test"]\n' + OTHERS)
        assert proxy.admin.ask("/v1/reload", "POST").status == 200
    if choice == "ref":
        # Its reference is known when it is answered; a reader of all has it from the beginning.
        with proxy.admin.events("begun") as all_events:
            client = raw_client(proxy)
            held = raw_origin(silent)
            client.send(get("b.test", held.port))
            reference = all_events.until("begun")["ref"]
            with Watcher(proxy.admin.path, query=f"?ref={reference}") as watcher:
                ask_once(raw_client, proxy, get("x.ads.test", 80))
                client.close()
                assert watcher.until("finished")["ref"] == reference
        return
    with Watcher(proxy.admin.path, query=f"?{users}") as watcher:
        ask_once(raw_client, proxy, get("b.test", origin.port))
        assert proxy.admin.ask("/v1/reload", "POST").status == 200
        ask_once(raw_client, proxy, get("x.ads.test", 80))
        seen = [watcher.next()]
        while seen[-1].kind != "finished" or seen[-1].data["rule"] != "no-ads":
            seen.append(watcher.next())
        assert all(event.kind != "reload" for event in seen)
        if "rule" in choice:
            assert all(event.data["rule"] == "no-ads" for event in seen)
            assert len(seen) == (1 if "kind" in choice else 2)


def test_the_moment_of_an_end_is_its_own(administered, raw_origin, raw_client):
    def late(connection) -> None:
        connection.read_request()
        time.sleep(0.3)  # the matter of the test
        connection.send(OK)

    proxy, origin = administered(OTHERS), raw_origin(late)
    with proxy.admin.events("begun", "finished") as watcher:
        ask_once(raw_client, proxy, get("b.test", origin.port))
        begun, finished = watcher.until("begun"), watcher.until("finished")
    assert begun["time"] < finished["time"]
    assert proxy.access(lambda line: line["rule"] == "others")["time"] == begun["time"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/status?x",
        "/metrics?name=a",
        "/v1/events?kinds=reload",
        "/v1/reachability?hosts=a.test",
        "/v1/rules?a=b",
    ],
)
def test_an_unknown_name_in_a_query_is_said(path, administered):
    answer = administered(DENY).admin.ask(path)
    assert answer.status == 400 and b"unknown name '" in answer.body
    assert (b"expected kind, rule, user or ref" in answer.body) == ("events" in path)


def test_the_command_chooses_events(administered, raw_client):
    proxy = administered(DENY)
    with subprocess.Popen(
        [binary(), "events", "--socket", proxy.admin.path, "--rule", "no-ads", "--kind", "finished"],
        stdout=subprocess.PIPE,
        env=clean_environment(),
    ) as process:
        end = time.monotonic() + DEADLINE_SECONDS
        line = b""
        os.set_blocking(process.stdout.fileno(), False)
        while not line and time.monotonic() < end:
            ask_once(raw_client, proxy, get("x.ads.test", 80))
            line = process.stdout.readline() or b""
        process.terminate()
    assert b"rule=no-ads" in line


# Reload


def test_a_reload_prints_its_warnings(administered):
    proxy = administered(DENY)
    rewrite(proxy, SHADOWED, lines="workers = 3")
    done = command("reload", "--socket", proxy.admin.path)
    assert done.returncode == 0 and "warning: " in done.stdout and "'b'" in done.stdout
    assert "take effect only at a restart" in done.stdout and "reloaded: 2 rules" in done.stdout
    done = command("reload", "--json", "--socket", proxy.admin.path)
    assert any("'b'" in warning for warning in json.loads(done.stdout)["warnings"])


def test_a_reload_while_the_daemon_stops_says_so(administered, raw_origin, raw_client):
    proxy, origin = administered(DENY, proxy="workers = 1"), raw_origin(silent)
    client = raw_client(proxy)
    client.send(get("b.test", origin.port))
    proxy.admin.asked_until("/v1/connections", lambda found: found)
    assert proxy.admin.ask("/v1/drain", "POST").status == 202
    answer = proxy.admin.ask("/v1/reload", "POST")
    assert answer.status == 503 and b"stopping" in answer.body and b"errors" not in answer.body
    done = command("reload", "--socket", proxy.admin.path)
    assert done.returncode == 1 and "stopping" in done.stderr
    client.close()


def test_a_daemon_that_has_hung_is_said_to(tmp_path):
    """Nobody takes connections from the queue, or nobody answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "admin.sock"))
        listener.listen(0)
        began = time.monotonic()
        done = command("status", "--socket", str(tmp_path / "admin.sock"))
        assert done.returncode == 1 and "did not answer within" in done.stderr
        assert time.monotonic() - began < DEADLINE_SECONDS


# Starting and stopping


def test_warnings_of_the_start_are_lines_of_the_log(sallyport):
    proxy = sallyport(policy='[log]\nformat = "json"\n' + SHADOWED)
    line = proxy.log.wait_for(lambda entry: "'b'" in json.dumps(entry))
    assert "not_json" not in line and line["level"] == "warning"


@pytest.mark.parametrize("way", ["GET", "POST"])
def test_a_request_that_is_held_when_the_drain_ends_is_answered(way, sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(proxy='workers = 1\n[proxy.timeouts]\ndrain = "300ms"'), raw_origin(silent)
    client = raw_client(proxy)
    body = b"abc" if way == "POST" else b""
    lines = f"Content-Length: {len(body)}\r\n" if body else ""
    authority = f"127.0.0.1:{origin.port}"
    head = f"{way} http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n"
    client.send(head.encode() + body)
    end = time.monotonic() + DEADLINE_SECONDS
    while not origin.requests() and time.monotonic() < end:
        time.sleep(0.01)
    proxy.terminate()
    problem = check_problem(client.answer(), 503)
    assert problem.token == "shutting-down"
    assert proxy.access(lambda line: True)["outcome"] == "shutting-down"
    assert proxy.wait_for_exit() == 0


# Routes


@pytest.mark.own_network
def test_a_route_that_cannot_be_used_is_marked(administered):
    policy = (
        '[routes.gone]\nvia = "http://127.0.0.1:9"\ninterface = "eth77"\n'
        '[routes.mobile]\nvia = "http://127.0.0.1:9"\nwhen = ["wwan"]\n'
        '[routes.fine]\nvia = "http://127.0.0.1:9"\nwhen = ["wired"]\n'
        '[[rule]]\nname = "r"\nroute = ["gone", "mobile", "fine"]\n'
    )
    proxy = administered(policy)
    routes = {route["name"]: route["unusable"] for route in proxy.admin.json("/v1/reachability")["routes"]}
    assert routes["gone"] == "there is no interface eth77"
    assert routes["mobile"] == "reached by wired, and 'when' asks for wwan"
    assert routes["fine"] is None
    assert "not usable: there is no interface eth77" in command("reachability", "--socket", proxy.admin.path).stdout


# check


def test_check_counts_configuration_and_says_where_none_could_be_read(tmp_path):
    (tmp_path / "secret").write_text("u:p\n")
    (tmp_path / "secret").chmod(0o600)
    file = tmp_path / "sallyport.toml"
    file.write_text('[proxy]\ncredentials = { file = "secret" }\n')
    assert command("check", "--config", file).stdout == "1 file, 0 rules: 0 errors, 0 warnings\n"
    done = command("check", "--config", tmp_path / "none.toml")
    assert done.returncode == 1 and "built-in" not in done.stdout and "nothing read: 1 error" in done.stdout


def test_a_host_written_as_a_mapped_address_is_the_ipv4_one(sallyport, raw_origin, raw_client):
    hosts = '["::ffff:127.0.0.2", "::ffff:10.0.0.0/104"]'
    proxy = sallyport(policy=f'[[rule]]\nname = "no"\nhosts = {hosts}\naction = "deny"\n')
    for host in ("127.0.0.2", "[::ffff:127.0.0.2]", "10.9.9.9", "[::ffff:10.9.9.9]"):
        check_problem(raw_client(proxy).exchange(get(host, 80)), 403, rule="no")
    origin = raw_origin(answering(OK))
    assert raw_client(proxy).exchange(get("127.0.0.1", origin.port)).status == 200


# explain

PATHS = """
[[rule]]
name = "no-admin"
hosts = ["a.test"]
paths = ["/admin/*"]
action = "deny"
[[rule]]
name = "rest"
hosts = ["a.test"]
"""


@pytest.fixture
def explain(tmp_path):
    def run(*arguments: str):
        (tmp_path / "sallyport.toml").write_text(PATHS)
        return command("explain", "--config", tmp_path / "sallyport.toml", *arguments)

    return run


def test_explain_says_where_a_request_without_connect_is_decided_otherwise(sallyport_binary, explain):
    tunnel = explain("GET", "https://a.test/admin/x")
    assert tunnel.returncode == 0 and "\nCONNECT a.test:443\n" in tunnel.stdout
    assert "without CONNECT, is denied by rule 'no-admin'" in tunnel.stderr and "--absolute" in tunnel.stderr
    request = explain("--absolute", "GET", "https://a.test/admin/x")
    assert request.returncode != 0 and request.stdout.startswith("GET https://a.test:443/admin/x\n")
    assert "denied by rule 'no-admin'" in request.stdout and "CONNECT" not in request.stderr
    assert "--absolute" not in explain("GET", "https://a.test/x").stderr


def test_what_an_operator_is_asked_about_is_not_said_to_be_denied(sallyport_binary, tmp_path):
    rules = tmp_path / "sallyport.toml"
    asking = PATHS.split('[[rule]]\nname = "rest"')[0].replace('action = "deny"', 'action = "ask"')
    rules.write_text(asking + '[admin]\nsocket = "admin.sock"\n')
    done = command("explain", "--config", rules, "GET", "https://a.test/admin/x")
    assert "without CONNECT, is put to an operator by rule 'no-admin'" in done.stderr, done.stderr


def test_explain_keeps_the_query(sallyport_binary, explain):
    done = explain("GET", "http://a.test/b?c=d&e")
    assert done.stdout.startswith("GET http://a.test:80/b?c=d&e\n")
    assert explain("GET", "http://a.test?c").stdout.startswith("GET http://a.test:80?c\n")


def test_explain_takes_names_in_any_script(sallyport_binary, explain):
    assert explain("GET", "http://bücher.example/").stdout.startswith("GET http://xn--bcher-kva.example:80/\n")
    assert explain("CONNECT", "bücher.example:443").stdout.startswith("CONNECT xn--bcher-kva.example:443\n")


# Words


def test_a_request_that_is_malformed_is_told_why(sallyport, raw_client):
    proxy = sallyport()
    problem = check_problem(raw_client(proxy).exchange(b"CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n\r\n"), 400)
    assert "names no port" in problem.body["detail"]


def test_a_key_of_a_table_of_the_rule_is_known_there(tmp_path):
    file = tmp_path / "sallyport.toml"
    file.write_text('[[rule]]\nname = "a"\npins = "p"\nuser_agent = "x"\n')
    done = command("check", "--config", file)
    assert "write 'security.pins'" in done.stdout and "write 'request.user_agent'" in done.stdout


def test_what_is_no_socket_is_not_in_use(tmp_path):
    (tmp_path / "admin.sock").write_text("mine")
    file = tmp_path / "sallyport.toml"
    file.write_text(f'[proxy]\nlisten = ["127.0.0.1:0"]\n[admin]\nsocket = "{tmp_path}/admin.sock"\n')
    done = command("run", "--config", file)
    assert done.returncode == 1 and "non-socket" in done.stderr and "in use" not in done.stderr
    assert (tmp_path / "admin.sock").read_text() == "mine"
