"""The dashboard: who gets in, who does not, and what a real browser shows.

The first half sends what other pages and other users of the machine could send. The second half is Chromium.
"""

import json
import os
import re
import time

import pytest

from admin_client import request
from admin_world import administered, ask_once, rewrite
from dashboard_world import WEB, acting, ask, browse, cookie_of, signed_in, watched
from journal import DEADLINE_SECONDS
from origins import answering, tunnel_echo
from proxy import command, configuration_text
from raw_client import Ended, RawClient
from test_admin_rights import ask_as
from test_policy import get
from users_world import NUMBERED, ROOT, STRANGER, UserClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POLICY = """
[[rule]]
name = "open"
hosts = ["open.test", "127.0.0.1"]
methods = ["GET", "CONNECT"]
[[rule]]
name = "no-ads"
hosts = ["**.ads.test"]
action = "deny"
reason = "no advertisements"
"""
FILES = ["/", "/app.js", "/charts.js", "/style.css"]
QUESTIONS = ["/v1/status", "/v1/rules", "/v1/pins", "/v1/connections", "/v1/decisions", "/v1/series", "/v1/dashboard"]
ACTIONS = ["/v1/reload", "/v1/drain", "/v1/flush", "/v1/cancel?host=a.test", "/v1/cache/purge?all=true"]


# Getting in


def test_a_link_opens_a_session_once(watched):
    proxy = watched()
    link = proxy.link()
    assert re.fullmatch(rf"http://{proxy.web_host}/open\?token=[0-9a-f]{{48}}", link)
    path = link.removeprefix(f"http://{proxy.web_host}")
    assert ask(proxy, path, "HEAD").status == 403, "a look uses nothing up"
    answer = ask(proxy, path)
    assert (answer.status, answer.value("Location")) == (303, b"/")
    cookie = answer.value("Set-Cookie").decode()
    name = f"sallyport-{proxy.web[1]}"
    assert re.fullmatch(rf"{name}=[0-9a-f]{{48}}; Path=/; HttpOnly; SameSite=Strict", cookie)
    again = ask(proxy, path)
    assert again.status == 403 and b"sallyport dashboard" in again.body and again.values("Set-Cookie") == []
    session = f"Cookie: {cookie_of(answer)}\r\n"
    for file in FILES:
        assert ask(proxy, file, lines=session).status == 200, file
    for question in QUESTIONS:
        got = ask(proxy, question, lines=session)
        assert got.status == 200 and got.value("Content-Type").startswith(b"application/json"), question


def test_nothing_is_there_without_a_session(watched):
    proxy = watched()
    port = proxy.web[1]
    for lines in ["", "Cookie: a=b\r\n", f"Cookie: sallyport-{port}=\r\n", f"Cookie: sallyport-{port}={'0' * 48}\r\n",
                  "Cookie: sallyport-1=" + "0" * 48 + "\r\n"]:
        for path in [*FILES, *QUESTIONS, "/v1/events", "/metrics", "/nothing", "/open", "/open?token=", "/v1/"]:
            answer = ask(proxy, path, lines=lines)
            assert answer.status == 403 and b"sallyport dashboard" in answer.body, (path, lines)
            assert answer.value("Connection") == b"close"
            time.sleep(0.04)  # strangers have thirty answers a second
    for path in ACTIONS:
        assert ask(proxy, path, "POST", lines=acting(proxy)).status == 403
    assert not proxy.admin.json("/v1/status")["draining"]


@pytest.mark.parametrize("path", [*FILES, "/v1/status", "/nothing", "/open?token=x", "/v1/reload"])
@pytest.mark.parametrize("inside", [True, False])
def test_every_answer_says_what_browsers_may_do_with_it(watched, path, inside):
    proxy = watched()
    answer = ask(proxy, path, lines=signed_in(proxy) if inside else "")
    policy = answer.value("Content-Security-Policy").decode()
    assert policy.split("; ") == [
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
        "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'",
    ]
    for name, value in {
        "X-Content-Type-Options": b"nosniff", "X-Frame-Options": b"DENY", "Referrer-Policy": b"no-referrer",
        "Cross-Origin-Opener-Policy": b"same-origin", "Cross-Origin-Resource-Policy": b"same-origin",
        "Cache-Control": b"no-store",
    }.items():
        assert answer.value(name) == value
    assert not [name for name, _ in answer.fields if name.lower().startswith(b"access-control")]


# Other pages


def test_a_name_that_was_pointed_here_gets_nothing(watched):
    """DNS rebinding: the browser sends the page's name as Host, and its cookie would not even be needed."""
    proxy = watched()
    session, port = signed_in(proxy), proxy.web[1]
    for host in [f"evil.test:{port}", "evil.test", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.2:{port}",
                 f"localhost.evil.test:{port}", f"0.0.0.0:{port}", f"[::1]:{port}", f"127.1:{port}"]:
        for path in ["/", "/v1/status", proxy.link().partition(proxy.web_host)[2]]:
            answer = ask(proxy, path, host=host, lines=session)
            assert answer.status == 421 and answer.values("Set-Cookie") == [], host
            time.sleep(0.04)
    assert ask(proxy, "/v1/status", host=f"localhost:{port}", lines=session).status == 200
    assert ask(proxy, "/v1/status", host=f"LOCALHOST:{port}", lines=session).status == 200
    client = RawClient(proxy.web)
    client.looked_at = False
    client.send(f"GET /v1/status HTTP/1.0\r\n{session}\r\n".encode())
    assert client.receive_until(b"\r\n").startswith(b"HTTP/1.1 421 ")
    client.close()


FOREIGN = [
    "Origin: http://evil.test\r\n", "Origin: null\r\n", "Origin: https://{host}\r\n", "Origin: http://127.0.0.1\r\n",
    "Origin: http://localhost:{port}\r\n", "Origin: http://{host}.evil.test\r\n", "Origin: http://127.0.0.1:1\r\n",
    "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n", "Sec-Fetch-Site: \r\n",
]


@pytest.mark.parametrize("line", FOREIGN)
def test_another_page_gets_nothing_and_changes_nothing(watched, line):
    proxy = watched()
    session = signed_in(proxy)
    line = line.format(host=proxy.web_host, port=proxy.web[1])
    for path in ["/", "/v1/status", "/v1/events"]:
        assert ask(proxy, path, lines=session + line).status == 403, path
    own = acting(proxy) if line.startswith("Sec") else "Sallyport-Dashboard: 1\r\n"
    for path in [*ACTIONS, "/leave"]:
        assert ask(proxy, path, "POST", lines=session + own + line).status == 403, path
    assert samples_reloads(proxy) == 0 and not proxy.admin.json("/v1/status")["draining"]
    assert ask(proxy, "/v1/status", lines=session).status == 200, "the session is none the worse"


def samples_reloads(proxy) -> int:
    text = proxy.admin.ask("/metrics").body.decode()
    return int(re.search(r'sallyport_reloads_total\{result="done"\} (\d+)', text)[1])


def test_a_form_changes_nothing(watched):
    proxy = watched()
    session, origin = signed_in(proxy), f"Origin: http://{proxy.web_host}\r\n"
    # Without the field that a form cannot send, from our own page even.
    assert ask(proxy, "/v1/reload", "POST", lines=session + origin).status == 403
    for kind in ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain",
                 "text/plain; charset=application/json", "application/jsonx"]:
        answer = ask(proxy, "/v1/reload", "POST", lines=session + acting(proxy) + f"Content-Type: {kind}\r\n", body=b"{}")
        assert answer.status == 415, kind
    assert ask(proxy, "/v1/reload", "POST", lines=session + acting(proxy), body=b"{}").status == 415
    # Without Origin: no browser's POST.
    assert ask(proxy, "/v1/reload", "POST", lines=session + "Sallyport-Dashboard: 1\r\n").status == 403
    assert samples_reloads(proxy) == 0
    lines = session + acting(proxy) + "Content-Type: application/json; charset=utf-8\r\n"
    assert ask(proxy, "/v1/reload", "POST", lines=lines, body=b"{}").status == 200
    assert ask(proxy, "/v1/reload", "POST", lines=session + acting(proxy)).status == 200
    assert samples_reloads(proxy) == 2


def test_fields_that_come_twice_are_believed_neither_way(watched):
    proxy = watched()
    session = signed_in(proxy)
    for line in ["Origin: http://{host}\r\nOrigin: http://evil.test\r\n",
                 "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\n"]:
        assert ask(proxy, "/v1/status", lines=session + line.format(host=proxy.web_host)).status == 400
    assert ask(proxy, "/v1/status", lines=session + "Host: evil.test\r\n").status == 400


def test_no_preflight_is_answered_and_no_protocol_switched(watched):
    proxy = watched()
    session = signed_in(proxy)
    lines = session + "Origin: http://evil.test\r\nAccess-Control-Request-Method: POST\r\n"
    assert ask(proxy, "/v1/reload", "OPTIONS", lines=lines).status == 403
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    for path in ["/", "/v1/events?kind=reload", "/ws"]:
        assert ask(proxy, path, lines=session + "Origin: http://evil.test\r\n" + upgrade).status == 403
    assert ask(proxy, "/ws", lines=session + f"Origin: http://{proxy.web_host}\r\n" + upgrade).status == 404


TRICKS = ["//", "/./", "/app.js/", "/../app.js", "/%61pp.js", "/app.js%00", "/app.js;x", "/page/app.js", "/APP.JS",
          "/v1/../app.js", "/v1/status/", "/v1//status", "/%76%31/status", "/etc/passwd", "/..%2f..%2fetc%2fpasswd"]


@pytest.mark.parametrize("path", TRICKS)
def test_paths_mean_what_they_say(watched, path):
    proxy = watched()
    session = signed_in(proxy)
    assert ask(proxy, path, lines=session).status == 404
    assert ask(proxy, path).status == 403


def test_the_port_is_no_proxy(watched):
    proxy = watched()
    session = signed_in(proxy)
    for target in ["http://evil.test/", f"http://{proxy.web_host}/v1/status", "evil.test:443", "*"]:
        for method in ["GET", "CONNECT"]:
            client = RawClient(proxy.web)
            client.looked_at = False
            client.send(f"{method} {target} HTTP/1.1\r\nHost: {proxy.web_host}\r\n{session}\r\n".encode())
            assert client.receive_until(b"\r\n").startswith(b"HTTP/1.1 4"), (method, target)
            client.close()


# Other users


def test_a_link_and_a_cookie_are_worth_nothing_to_another_user(watched):
    """Arguments of a browser are for everyone to see, and cookies go to every port of a host."""
    proxy = watched()
    link = proxy.link(f"?user={NUMBERED}")
    path = link.removeprefix(f"http://{proxy.web_host}")
    thief = UserClient(proxy.web, STRANGER)
    refused = ask(proxy, path, client=thief)
    assert refused.status == 403 and f"user {NUMBERED}".encode() in refused.body
    thief.close()
    owner = UserClient(proxy.web, NUMBERED)
    session = signed_in(proxy, link, owner)
    assert ask(proxy, "/v1/status", lines=session, client=owner).status == 200
    owner.close()
    for user in [STRANGER, ROOT]:
        thief = UserClient(proxy.web, user)
        assert ask(proxy, "/v1/status", lines=session, client=thief).status == 403
        thief.close()


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_the_way_there_is_not_through_the_proxy(method, watched, raw_client):
    """Such a connection belongs to the daemon's own user."""
    proxy = watched()
    link = proxy.link()
    path = link.removeprefix(f"http://{proxy.web_host}")
    client = raw_client(proxy)
    if method == "CONNECT":
        answer = client.exchange(f"CONNECT {proxy.web_host} HTTP/1.1\r\nHost: {proxy.web_host}\r\n\r\n".encode())
    else:
        answer = client.exchange(f"GET {link} HTTP/1.1\r\nHost: {proxy.web_host}\r\n\r\n".encode())
    assert answer.status == 403 and b"this proxy's dashboard" in answer.body, answer.body
    assert ask(proxy, path).status == 303, "the link has not been used"


def test_a_link_has_the_rights_of_who_asks_for_it(watched):
    proxy = watched(admin=f"operators = [{NUMBERED}]\n")
    for user, acts in [(ROOT, True), (NUMBERED, True), (STRANGER, False)]:
        link = json.loads(ask_as(user, proxy, "/v1/dashboard", "POST").body)
        assert link["act"] is acts
        client = UserClient(proxy.web, user)
        session = signed_in(proxy, link["url"], client)
        told = json.loads(ask(proxy, "/v1/dashboard", lines=session, client=client).body)
        assert (told["user"], told["act"]) == (user, acts)
        answer = ask(proxy, "/v1/reload", "POST", lines=session + acting(proxy), client=client)
        assert answer.status == (200 if acts else 403), user
        if not acts:
            assert f"user {user}" in json.loads(answer.body)["detail"]
            for path in ACTIONS:
                assert ask(proxy, path, "POST", lines=session + acting(proxy), client=client).status == 403
        client.close()
    assert ask_as(STRANGER, proxy, f"/v1/dashboard?user={NUMBERED}", "POST").status == 403


def test_a_reload_takes_rights_from_a_session(watched):
    proxy = watched(admin=f"operators = [{NUMBERED}]\n")
    link = json.loads(ask_as(NUMBERED, proxy, "/v1/dashboard", "POST").body)["url"]
    client = UserClient(proxy.web, NUMBERED)
    session = signed_in(proxy, link, client) + acting(proxy)
    proxy.configuration.write_text(proxy.configuration.read_text().replace(str(NUMBERED), str(STRANGER)))
    assert ask(proxy, "/v1/reload", "POST", lines=session, client=client).status == 200
    assert ask(proxy, "/v1/reload", "POST", lines=session, client=client).status == 403
    client.close()


def test_a_session_makes_no_other_and_ends_when_it_is_left(watched):
    proxy = watched()
    session = signed_in(proxy)
    assert ask(proxy, "/v1/dashboard", "POST", lines=session + acting(proxy)).status == 403
    reader = RawClient(proxy.web)
    reader.looked_at = False
    data = request("/v1/events?kind=reload", lines=session).replace(b"Host: sallyport", f"Host: {proxy.web_host}".encode())
    reader.send(data)
    assert b"text/event-stream" in reader.receive_until(b"\r\n\r\n")
    left = ask(proxy, "/leave", "POST", lines=session + acting(proxy))
    assert left.status == 200 and b"Max-Age=0" in left.value("Set-Cookie")
    assert ask(proxy, "/v1/status", lines=session).status == 403
    assert reader.wait_for_end() == "closed"


def test_strangers_take_no_place_and_no_time_of_others(watched):
    """More connections than there are places, silent and asking; a browser with a session and the socket are served."""
    proxy = watched()
    session = signed_in(proxy)
    browser = RawClient(proxy.web)
    assert ask(proxy, "/v1/status", lines=session, client=browser).status == 200
    silent = [RawClient(proxy.web) for _ in range(80)]
    assert ask(proxy, "/v1/status", lines=session, client=browser).status == 200, "its connection keeps its place"
    # Guesses beyond what strangers may have are closed without an answer; what is right still counts.
    answered = 0
    for number in range(200):
        client = RawClient(proxy.web)
        client.looked_at = False
        client.send(f"GET /open?token={number:048x} HTTP/1.1\r\nHost: {proxy.web_host}\r\n\r\n".encode())
        try:
            answered += client.receive_until(b"\r\n").startswith(b"HTTP/1.1 403 ")
        except Ended:
            pass
        client.close()
    assert 30 <= answered < 200
    assert ask(proxy, "/v1/status", lines=signed_in(proxy)).status == 200
    assert proxy.admin.ask("/v1/status").status == 200
    for client in [*silent, browser]:
        client.close()


def test_links_and_sessions_are_bounded(watched):
    proxy = watched()
    first, links = proxy.link(), [proxy.link() for _ in range(16)]
    assert ask(proxy, first.partition(proxy.web_host)[2]).status == 403
    sessions = [signed_in(proxy, link) for link in links]
    newest = signed_in(proxy)
    assert ask(proxy, "/v1/status", lines=newest).status == 200
    assert ask(proxy, "/v1/status", lines=sessions[0]).status == 403
    assert json.loads(ask(proxy, "/v1/dashboard", lines=newest).body)["sessions"] == 16


# The command, and the configuration


def test_the_command_prints_a_link_and_opens_a_browser(watched, tmp_path):
    proxy = watched()
    said = tmp_path / "said"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{said}.new && mv {said}.new {said}\n')
    browser.chmod(0o755)
    done = command("dashboard", "--socket", proxy.admin.path, BROWSER=f"{browser} --new %s:other")
    assert done.returncode == 0 and done.stderr == ""
    end = time.monotonic() + DEADLINE_SECONDS
    while not said.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert said.read_text() == f"--new\n{done.stdout}"
    assert ask(proxy, done.stdout.strip().partition(proxy.web_host)[2]).status == 303
    said.unlink()
    # By sudo nothing is opened, and the link is for who ran it.
    environment = {"BROWSER": str(browser), "DISPLAY": ":0", "SUDO_UID": str(NUMBERED)}
    done = command("dashboard", "--socket", proxy.admin.path, **environment)
    assert ask(proxy, done.stdout.strip().partition(proxy.web_host)[2]).status == 403
    done = command("dashboard", "--no-open", "--json", "--socket", proxy.admin.path, BROWSER=str(browser))
    assert set(json.loads(done.stdout)) == {"url", "until", "act"}
    assert not said.exists()


def test_without_a_dashboard_the_command_says_what_is_missing(administered):
    proxy = administered()
    done = command("dashboard", "--socket", proxy.admin.path)
    assert done.returncode == 1 and done.stdout == "" and 'web = "127.0.0.1:3129"' in done.stderr
    assert proxy.admin.ask("/v1/series").status == 404
    assert proxy.admin.json("/v1/status")["web"] is None


@pytest.mark.parametrize("address", ["0.0.0.0:3129", "192.0.2.1:3129", "[::]:3129"])
def test_only_the_loopback_interface_may_have_it(tmp_path, address):
    file = tmp_path / "c.toml"
    file.write_text(f'[admin]\nweb = "{address}"\n')
    done = command("check", file)
    assert done.returncode == 1 and "'web' in [admin]" in done.stdout and "ssh -L" in done.stdout


def test_another_address_takes_a_restart(watched):
    proxy = watched()
    text = proxy.configuration.read_text()
    proxy.configuration.write_text(text.replace(WEB, ""))
    answer = json.loads(proxy.admin.ask("/v1/reload", "POST").body)
    assert any("web of [admin]" in warning for warning in answer["warnings"])
    assert ask(proxy, "/", lines=signed_in(proxy)).status == 200


def test_samples_are_what_was_counted(watched, raw_client):
    proxy = watched(POLICY)
    for _ in range(3):
        ask_once(raw_client, proxy, get("a.ads.test", 80))
    found = proxy.admin.asked_until("/v1/series", lambda series: sum(series["refused"]) == 3)
    assert sum(found["requests"]) == 3 and sum(found["failed"]) == 0
    assert [(one["rule"], sum(one["counts"])) for one in found["refusals"]] == [("no-ads", 3)]
    columns = {len(value) for name, value in found.items() if isinstance(value, list) and name != "refusals"}
    assert columns == {len(found["times"])}


# A browser


def test_the_page_shows_traffic_as_it_comes(watched, browse, raw_origin, raw_client):
    proxy, origin, echo = watched(POLICY), raw_origin(answering(OK)), raw_origin(tunnel_echo)
    page = browse(proxy.link())
    page.until("return document.getElementById('version')?.textContent", "the version")
    assert page.run("return location.pathname + location.search + document.cookie") == "/", "no token stays, no cookie shows"
    assert "read and act" in page.text()

    # Rows come by themselves, and a filter hides those that are not meant.
    ask_once(raw_client, proxy, get("open.test", origin.port, "/one"))
    ask_once(raw_client, proxy, get("x.ads.test", 80))
    page.until("return document.querySelectorAll('#traffic-rows tr').length === 2", "two rows")
    page.run("const box = document.getElementById('filter'); box.value = 'no-ads'; box.dispatchEvent(new Event('input'))")
    assert page.run("return [...document.querySelectorAll('#traffic-rows .target')].map(cell => cell.textContent)") == [
        "GET http://x.ads.test:80/"
    ]

    # From a request to its explanation, by keyboard.
    page.run("document.querySelector('#traffic-rows button').focus()")
    page.press("Enter", 13)
    page.until("return document.getElementById('detail').open && document.getElementById('detail-body').innerText.includes('no-ads')", "the explanation")
    shown = page.run("return document.getElementById('detail').innerText")
    assert "no advertisements" in shown and f"{proxy.configuration}:" in shown
    assert "open" in shown and "expected" in shown, "why the earlier rule does not match"
    page.press("Escape", 27)
    page.until("return !document.getElementById('detail').open", "the end of the dialog")

    # A tunnel that is cancelled.
    page.run("const box = document.getElementById('filter'); box.value = ''; box.dispatchEvent(new Event('input'))")
    client = raw_client(proxy)
    target = f"127.0.0.1:{echo.port}"
    assert client.exchange(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()).status == 200
    page.until("return document.querySelector('#traffic-rows button.danger') !== null", "a row under way")
    page.run("document.querySelector('#traffic-rows button.danger').click()")
    assert client.wait_for_end() in ("closed", "reset")
    page.until("return document.getElementById('said').textContent.includes('was ended')", "word of it")
    assert proxy.access(lambda line: line["outcome"] == "cancelled")

    # Every control has a name, every table a caption, every chart a text.
    assert page.run("""
      const unnamed = [...document.querySelectorAll('button, input, select')].filter((node) =>
        !(node.textContent.trim() || node.getAttribute('aria-label') || node.labels?.length));
      const bare = [...document.querySelectorAll('table')].filter((table) => !table.caption?.textContent);
      const charts = [...document.querySelectorAll('svg[role=img]')].filter((chart) => !chart.closest('[hidden]') && !chart.getAttribute('aria-label'));
      return [unnamed.length, bare.length, document.querySelectorAll('h1').length, charts.length]
    """)[:3] == [0, 0, 1]
    assert page.addresses() == {proxy.web_host}
    assert page.complaints() == []

    page.run("document.getElementById('leave').click()")
    page.until("return document.getElementById('trouble').textContent.includes('signed out')", "the end")


def test_a_request_that_waits_is_answered_on_the_page(watched, browse, raw_origin, raw_client):
    proxy, origin = watched(POLICY + '[[rule]]\nname = "strangers"\naction = "ask"\n'), raw_origin(answering(OK))
    page = browse(proxy.link())
    clients = [raw_client(proxy) for _ in range(2)]
    for number, client in enumerate(clients):
        client.send(get("new.test", origin.port, f"/users/{number}"))
    page.until("return document.querySelector('#asks-list li')?.innerText.includes('2 requests wait')", "the question")
    assert page.run("return document.title") == "(1) Sallyport"
    assert "New question" in page.run("return document.getElementById('asks-news').textContent")
    page.run("document.querySelector('#asks-list button.first').focus()")
    page.press("Enter", 13)
    for client in clients:
        assert client.answer().status == 200
    page.until("return document.getElementById('asks').hidden", "the end of the question")
    page.until("return document.querySelector('#temporary-rows tr')?.innerText.includes('/users/{}')", "the rule that came of it")
    page.run("document.querySelector('#temporary-rows button').click()")
    page.until("return document.getElementById('temporary').hidden", "the end of the rule")
    assert proxy.admin.json("/v1/asks") == {"asks": [], "temporary": []}
    assert page.complaints() == []


def test_the_rule_that_would_allow_a_refusal_is_on_the_page(watched, browse, raw_client):
    proxy = watched(POLICY)
    ask_once(raw_client, proxy, get("x.ads.test", 80))
    page = browse(proxy.link())
    page.until("return document.querySelector('#traffic-rows button') !== null", "the refusal")
    page.run("document.querySelector('#traffic-rows button').click()")
    page.until("return document.getElementById('detail-body').innerText.includes('[[rule]]')", "the rule")
    assert 'hosts   = ["x.ads.test"]' in page.run("return document.getElementById('detail-body').innerText")


def test_a_page_that_may_only_read_has_no_buttons_that_act(watched, browse, raw_origin, raw_client):
    proxy, echo = watched(POLICY), raw_origin(tunnel_echo)
    link = json.loads(ask_as(STRANGER, proxy, "/v1/dashboard", "POST").body)["url"]
    # A browser of root sees why the link is not for it, and does not use it up.
    stranger = browse(link)
    stranger.until("return document.body?.innerText.includes('run sallyport dashboard')", "the doorstep")
    assert f"user {STRANGER}" in stranger.text()
    page = browse(link, user=STRANGER)
    client, target = raw_client(proxy), f"127.0.0.1:{echo.port}"
    assert client.exchange(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()).status == 200
    page.until("return document.querySelectorAll('#traffic-rows tr').length", "a row under way")
    assert "read only" in page.text()
    assert page.run("return document.querySelectorAll('button.danger').length") == 0
    assert page.run("return document.getElementById('reload').hidden") is True
    # What the page does not offer the daemon does not do.
    assert page.run(
        "return (await fetch('/v1/reload', {method: 'POST', headers: {'Sallyport-Dashboard': '1'}})).status"
    ) == 403


def test_the_page_makes_no_html_of_data(watched):
    proxy = watched()
    session = signed_in(proxy)
    for file in FILES:
        text = ask(proxy, file, lines=session).body.decode()
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser",
                    "http://", "https://"]:
            assert way not in text.replace('"http://www.w3.org/2000/svg"', ""), (file, way)
        assert not re.search(r"<[^>]* (style|on\w+)=", text), "the policy stops it"


def test_ten_thousand_exchanges_stall_nothing(watched, browse, raw_client):
    from admin_world import many_refusals

    proxy = watched(POLICY)
    page = browse(proxy.link())
    page.until("return document.getElementById('version')?.textContent", "the version")
    page.run("window.longest = 0; new PerformanceObserver((list) => { for (const one of list.getEntries()) "
             "window.longest = Math.max(window.longest, one.duration) }).observe({type: 'longtask'})")
    client = raw_client(proxy)
    client.looked_at = False
    many_refusals(client, 10_000)
    page.until("return document.querySelectorAll('#traffic-rows tr').length >= 100", "the newest rows")
    rows = page.run("return document.querySelectorAll('#traffic-rows tr').length")
    assert rows <= 200
    assert page.run("return window.longest") < 1000
    assert page.complaints() == []


def test_a_hidden_page_rests(watched, browse):
    proxy = watched()
    page = browse(proxy.link())
    page.until("return document.getElementById('version')?.textContent", "the version")
    page.run("Object.defineProperty(document, 'hidden', {get: () => true}); document.dispatchEvent(new Event('visibilitychange'))")
    before = page.run("await new Promise((done) => setTimeout(done, 500)); return performance.getEntriesByType('resource').length")
    after = page.run("await new Promise((done) => setTimeout(done, 3500)); return performance.getEntriesByType('resource').length")
    assert after == before
