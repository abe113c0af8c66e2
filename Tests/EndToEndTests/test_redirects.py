"""`redirects`: what answers may lead a program to, on every way to an origin, and as curl -L follows them."""

import json
import subprocess
from urllib.parse import urljoin

import pytest

from conftest import need
from parents import routed
from problems import check_problem
from proxy import clean_environment
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from tls_world import authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import way

# What leads where, and which of the three that refuse let it through: S the same host, s the same scheme. SCHEME and PORT are
# those that the request leaves by.
LEADS = {
    "Location: /b": "Ss",
    "Location: b?c#d": "Ss",
    "Location: SCHEME://a.test:PORT/b": "Ss",
    "Location: SCHEME://A.TEST:PORT": "Ss",
    "Location: SCHEME://b.test:PORT/b": "s",
    "Location: SCHEME://a.test:1/b": "s",
    "Location: SCHEME://a.test:PORT@b.test/": "s",
    "Location: SCHEME://a.test:PORT\\@b.test/": "s",
    "Location: SCHEME://a.test:0PORT/": "s",
    "Location: SCHEME:/a.test:PORT/": "",
    "Location: SCHEME:a.test": "",
    "Location: \\\\b.test/": "",
    "Location: /\\b.test/": "",
    "Location: /\t/b.test/": "",
    "Location: /b c": "",
    "Location: /\u00e9": "",
    "Location: ftp://a.test/": "",
    "Location: javascript:x": "",
    "Location: /b\r\nLocation: /b": "",
    "Location: /b\r\nlocation: //b.test/": "",
    "Location: /b\r\nRefresh: 0; url=//b.test:1/x y": "",
    "Refresh: 5": "Ss",
    "Refresh: 0; url=/b": "Ss",
    "Refresh: 0;URL='SCHEME://a.test:PORT/b'": "Ss",
    "Refresh: 0; url=SCHEME://b.test/": "s",
    "Refresh: 0; SCHEME://b.test/": "",
}
# Where both ports are those of their schemes the scheme may rise; here neither is.
FALLS = {"http": "Location: https://a.test:PORT/b", "https": "Location: http://a.test:PORT/b"}
# What leads a client nowhere.
IDLE = [(201, "Location: https://b.test/"), (200, "Content-Location: https://b.test/"), (302, "X-Location: //b.test/")]


def leading(said: list):
    """An origin that answers /N with the status and the fields of `said[N]`."""

    def script(connection) -> None:
        while True:
            request = connection.read_request()
            if request.method == b"CONNECT":
                connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
                continue
            status, fields = said[int(request.target.rpartition(b"/")[2])]
            head = f"HTTP/1.1 {status} Said\r\n{fields}\r\nContent-Length: 2\r\n\r\n"
            connection.send(head.encode("utf-8") + b"ok")

    return script


def table(started) -> list:
    scheme = "https" if started.name in ("upgrade", "intercept", "upgrade by parent") else "http"
    rows = [*LEADS.items(), (FALLS[scheme], "")]
    # `//b.test` of an upgraded request is http to the program.
    rows.append(("Location: //b.test/", "" if "upgrade" in started.name else "s"))
    place = lambda text: text.replace("SCHEME", scheme).replace("PORT", str(started.port))
    return [(302 if "ocation" in fields else 200, place(fields), allowed) for fields, allowed in rows]


@pytest.mark.parametrize("redirects", ["same-host", "same-scheme", "deny"])
def test_what_leads_elsewhere_is_refused(redirects, way):
    said = []
    started = way(leading(said), f'redirects = "{redirects}"')
    rows = table(started)
    said += [(status, fields) for status, fields, _ in rows]
    key = {"same-host": "S", "same-scheme": "s", "deny": "-"}[redirects]
    for number, (status, fields, allowed) in enumerate(rows):
        answer = started.ask("GET", path=f"/{number}")
        if key in allowed:
            assert (answer.status, answer.body) == (status, b"ok"), fields
            continue
        problem = check_problem(answer, 502, error="http_protocol_error", rule="kept")
        assert problem.token == "redirect-refused", fields
        assert f'redirects = "{redirects}"' in problem.details and "seen " in problem.details, fields
        assert json.loads(answer.body)["upstream"]["status"] == status
        assert not answer.values("Location") and not answer.values("Refresh")


@pytest.mark.parametrize("redirects", ["pass", "deny"])
def test_what_leads_nowhere_passes(redirects, way):
    started = way(leading(IDLE), f'redirects = "{redirects}"')
    for number, (status, _) in enumerate(IDLE):
        assert started.ask("GET", path=f"/{number}").status == status


def test_all_passes_where_nothing_is_said(way):
    said = []
    started = way(leading(said))
    said += [(status, fields) for status, fields, _ in table(started)]
    for number, (status, fields) in enumerate(said):
        assert started.ask("GET", path=f"/{number}").status == status, fields


def test_a_rule_that_is_not_enforced_reports(way):
    started = way(leading([(302, "Location: https://b.test/")]), 'redirects = "deny"', "enforce = false")
    assert started.ask("GET", path="/0").value("Location") == b"https://b.test/"
    line = started.proxy.access(lambda line: line["method"] == "GET")
    assert (line["report"], line["outcome"], line["status"]) == ("redirect-refused", "done", 302)


# curl -L


def curl(proxy, url: str, *arguments: str) -> subprocess.CompletedProcess:
    need("curl")
    return subprocess.run(
        ["curl", "-q", "-sS", "-L", "--max-time", "30", "--proxy", proxy.url, "--noproxy", "", *arguments, url],
        capture_output=True,
        env=clean_environment(),
        timeout=40,
    )


def walking(places: dict):
    def script(connection) -> None:
        while True:
            place = places[connection.read_request().target.decode()]
            if place is None:
                connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhome")
            else:
                connection.send(f"HTTP/1.1 302 x\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())

    return script


def test_curl_goes_on_within_the_host_and_no_further(sallyport, raw_origin):
    other = raw_origin(walking({"/": None}))
    places = {"/in": "/next", "/home": None, "/out": f"http://127.0.0.1:{other.port}/"}
    origin = raw_origin(walking(places))
    places["/next"] = f"http://127.0.0.1:{origin.port}/home"
    proxy = sallyport(policy=rule("kept", f"ports = [{origin.port}]", 'redirects = "same-host"'))
    begin = f"http://127.0.0.1:{origin.port}"
    inside = curl(proxy, f"{begin}/in")
    assert (inside.returncode, inside.stdout) == (0, b"home"), inside
    outside = curl(proxy, f"{begin}/out", "-w", "%{http_code} %{num_redirects}", "-o", "/dev/null")
    assert (outside.returncode, outside.stdout) == (0, b"502 0"), outside
    assert curl(proxy, f"{begin}/out", "-f").returncode == 22
    assert [request.target for request in other.requests()] == []
    line = proxy.access(lambda line: line["outcome"] == "redirect-refused")
    assert line["rule"] == "kept"


def test_curl_goes_anywhere_by_default(sallyport, raw_origin):
    other = raw_origin(walking({"/": None}))
    origin = raw_origin(walking({"/out": f"http://127.0.0.1:{other.port}/"}))
    done = curl(sallyport(policy=rule("kept")), f"http://127.0.0.1:{origin.port}/out")
    assert (done.returncode, done.stdout) == (0, b"home"), done


# How clients read what passes

SPELLINGS = """
/b //b.test/ ///b.test/ /\\b.test/ \\\\b.test/ \\/b.test/ /.//b.test/ /..//b.test/ .//b.test/ /./\\b.test %2f%2fb.test/ /%2fb.test/
/%5cb.test/ /%09/b.test/ ;//b.test/ ?//b.test/ #//b.test/ b.test:80/x b.test:x /@b.test/ @b.test/ http:b.test http:/b.test
http:///b.test http:\\\\b.test BASE@b.test/ BASE.b.test/ BASE\\@b.test/ BASE#@b.test/ BASE?@b.test/ BASE;@b.test/ BASE%40b.test/
BASE/@b.test/ BASE//b.test/ BASE/..//b.test/ BASE: BASE:@b.test/ BASE,b.test/ BASE%2eb.test/ BASE%00.b.test/ HOST.:PORT/ HOST:0PORT/
HTTP://HOST:PORT/x http://u@HOST:PORT/ http://%31%32%37.0.0.1:PORT/ http://2130706433:PORT/ http://0x7f.1:PORT/ http://[::1]:PORT/
""".split()


def test_what_passes_stays_with_the_host_as_curl_and_python_read_it(secure_proxy, raw_origin):
    need("curl")
    places: list[str] = []

    def script(connection) -> None:
        while True:
            place = places[int(connection.read_request().target.rpartition(b"/")[2])]
            connection.send(f"HTTP/1.1 302 x\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())

    origin = raw_origin(script)
    base = f"http://127.0.0.1:{origin.port}"
    for text in SPELLINGS:
        places.append(text.replace("BASE", base).replace("HOST", "127.0.0.1").replace("PORT", str(origin.port)))
    line = ["curl", "-q", "-sS", "--noproxy", "", "-w", "%{http_code} %{redirect_url}\\n", "-o", "/dev/null"]
    line += ["--proxy", secure_proxy(rule("kept", 'redirects = "same-host"')).url]
    read = {}
    for number, place in enumerate(places):
        url = f"{base}/d/{number}"
        done = subprocess.run([*line, url], capture_output=True, text=True, env=clean_environment(), timeout=40)
        status, _, following = done.stdout.strip().partition(" ")
        if status == "502":
            continue
        read[place] = (following.replace("HTTP://", "http://"), urljoin(url, place).replace("HTTP://", "http://"))
    assert 8 < len(read) < len(places) - 20, read
    for place, leads in read.items():
        for lead in leads:
            assert lead == base or lead.startswith((f"{base}/", f"{base}?", f"{base}#")), (place, leads)
