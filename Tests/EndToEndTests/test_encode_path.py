"""[rule.request] encode_path: bytes above 0x7F in a path are percent-encoded, matched so, and refused where the rule says nothing.

With curl, which sends such paths as they are, and a raw client; with real servers; plainly and in intercepted tunnels.
"""

import json

import pytest

from conftest import need
from form_servers import form_server, reading
from origins import answering
from problems import check_problem
from proxy import command
from serializer_world import OK, request
from test_clients import run
from tls_world import authority, rule, secure_client, secure_proxy, tls_origin, world
from tls_world import client_context
from ways import way
from parents import routed
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server

ENCODES = "encode_path = true"
ENCODED = b"/%E6%9F%A5%E8%AF%A2/%FF?q=1"
RAW = "/查询/".encode() + b"\xff?q=1"


def raw(way, path: bytes, method: bytes = b"GET", lines: bytes = b"", body: bytes = b"") -> bytes:
    marked = way.head(method.decode(), lines.decode(), path="/MARK")
    return marked.replace(b"/MARK", path) + body


def test_on_every_way_the_encoded_path_leaves(way):
    """And a request behind it, on the same connection; one that came encoded is the same to the origin."""
    started = way(answering(OK), request=ENCODES)
    client = started.enter()
    for path in (RAW, ENCODED, b"/plain"):
        assert client.exchange(raw(started, path)).status == 200
    client.looked_at = False  # the reader of what was asked takes no raw path
    assert client.exchange(raw(started, RAW, b"POST", b"Content-Length: 3\r\n", b"a=b")).status == 200
    targets = [message.target for message in started.requests]
    assert [target[target.find(b"/", 8) if b"://" in target else 0 :] for target in targets] == [
        ENCODED, ENCODED, b"/plain", ENCODED,
    ]
    assert started.requests[-1].body == b"a=b"


def test_on_every_way_it_is_refused_where_the_rule_is_silent(way):
    """Another rule, which does not decide, says that it takes such paths."""
    other = '[[rule]]\nname = "other"\nhosts = ["other.test"]\n[rule.request]\nencode_path = true\n'
    started = way(answering(OK), after=other)
    said = started.enter().exchange(raw(started, RAW))
    problem = check_problem(said, 400, rule="kept")
    assert "encode_path = true" in json.loads(said.body)["detail"]
    assert started.requests == []
    assert started.proxy.access_of(problem.reference)["status"] == 400
    assert started.enter().exchange(raw(started, b"/plain")).status == 200


def test_defaults_are_inherited_and_taken_back(way):
    started = way(answering(OK), defaults=ENCODES)
    assert started.enter().exchange(raw(started, RAW)).status == 200
    started = way(answering(OK), defaults=ENCODES, request="encode_path = false")
    check_problem(started.enter().exchange(raw(started, RAW)), 400, rule="kept")


ADMIN = '[[rule]]\nname = "no-admin"\naction = "deny"\npaths = ["/admin", "/admin/*", "/%E6%9F%A5%E8%AF%A2/*"]\n'
# Raw spellings that some server may take for /admin, or for the rule's own path
WALKS = {
    "an overlong slash": b"/public/..\xc0\xafadmin",
    "overlong dots": b"/public/\xc0\xae\xc0\xae/admin",
    "a wide slash": b"/public/..\xef\xbc\x8fadmin",
    "a byte before dots": b"/\xff/../admin",
    "a byte before encoded dots": b"/\xff%2f..%2fadmin",
    "the rule's own path": "/查询/x".encode(),
    "the rule's own path, half encoded": b"/%e6\x9f%a5%E8%AF%A2/x",
    "a byte behind": b"/admin/\xff",
    "a byte in a parameter": b"/admin;\xff",
}
# No server that was measured reads these so, whichever way they are spelt.
UNREAD = ["an overlong slash", "overlong dots", "a wide slash"]


@pytest.mark.parametrize("name", WALKS)
def test_a_rule_that_denies_is_not_walked_around(name, secure_proxy, raw_origin, raw_client):
    """A raw path is decided as the encoded one is: the same verdict, by the same rule."""
    policy = ADMIN + rule("r", request=ENCODES)
    origin = raw_origin(answering(OK))
    proxy = secure_proxy(policy)
    path = WALKS[name]
    encoded = b"".join(b"%%%02X" % byte if byte > 0x7F else bytes([byte]) for byte in path)
    said = []
    for spelling in (path, encoded):
        data = request(origin, "/MARK").replace(b"/MARK", spelling)
        answer = raw_client(proxy).exchange(data)
        said.append((answer.status, b"no-admin" in answer.reason))
    assert said[0] == said[1]
    if name not in UNREAD:
        assert said[0] == (403, True)
    assert all(message.target == encoded for message in origin.requests())


def test_a_rule_for_the_path_decides(secure_proxy, raw_origin, raw_client):
    """The rule is chosen by the encoded path, and only its own word counts."""
    policy = rule("chinese", 'paths = ["/%E6%9F%A5%E8%AF%A2/*"]', request=ENCODES) + rule("rest")
    proxy, origin = secure_proxy(policy), raw_origin(answering(OK))
    asked = request(origin, "/MARK")
    assert raw_client(proxy).exchange(asked.replace(b"/MARK", "/查询/x".encode())).status == 200
    check_problem(raw_client(proxy).exchange(asked.replace(b"/MARK", "/询/x".encode())), 400, rule="rest")
    assert [message.target for message in origin.requests()] == [b"/%E6%9F%A5%E8%AF%A2/x"]


REFUSED = {
    "a space": "/查 询".encode(),
    "a tab": "/查\t".encode(),
    "a control character": "/查\x01".encode(),
    "DEL": "/查\x7f".encode(),
    "a quote": '/查"'.encode(),
    "a query": "/?查".encode(),
    "a path and a query": "/查?询".encode(),
    "a backslash": "/查\\询".encode(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_stays_refused(name, secure_proxy, raw_origin, raw_client):
    proxy, origin = secure_proxy(rule("r", request=ENCODES)), raw_origin(answering(OK))
    data = request(origin, "/MARK").replace(b"/MARK", REFUSED[name])
    check_problem(raw_client(proxy).exchange(data), 400)
    assert origin.requests() == []
    assert proxy.access(lambda line: line["status"] == 400)["target"] in ("", None)


def test_options_that_go_no_further(secure_proxy, raw_origin, raw_client):
    """No rule is asked, so none takes the path; TRACE would echo what never came."""
    proxy, origin = secure_proxy(rule("r", request=ENCODES)), raw_origin(answering(OK))
    for method in ("OPTIONS", "TRACE"):
        data = request(origin, "/MARK", "Max-Forwards: 0\r\n", method).replace(b"/MARK", b"/\xff")
        check_problem(raw_client(proxy).exchange(data), 400)


def test_a_head_that_is_too_long_once_it_is_encoded(secure_proxy, raw_origin, raw_client):
    proxy, origin = secure_proxy(rule("r", request=ENCODES)), raw_origin(answering(OK))
    for count, status in ((2_000, 200), (30_000, 431)):
        data = request(origin, "/MARK").replace(b"/MARK", b"/" + b"\xff" * count)
        answer = raw_client(proxy).exchange(data)
        assert answer.status == status
    assert len(origin.requests()) == 1


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("server", ["flask", "express", "stdlib"])
def test_servers_read_the_path(server, secured, form_server, secure_proxy, authority, world, tmp_path):
    """curl sends the path as it is typed."""
    need("curl")
    identities = [world.leaf("a.test"), world.issuing] if secured else []
    started = form_server(server, *identities)
    more = ['connect = "intercept"'] if secured else []
    proxy = secure_proxy((authority.table if secured else "") + rule("r", *more, request=ENCODES))
    scheme = "https" if secured else "http"
    curl = ["curl", "-sS", "--fail", "--max-time", "15", "--proxy", proxy.url, "--noproxy", "", "--cacert", authority.file]
    said = json.loads(run(*curl, f"{scheme}://a.test:{started.port}/查询/é"))
    assert said["path"] == "/查询/é"


def test_explain_says_what_becomes_of_it(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('[[rule]]\nname = "a"\npaths = ["/%E6%9F%A5%E8%AF%A2"]\n[rule.request]\nencode_path = true\n[[rule]]\nname = "b"\n')
    done = command("explain", "--config", str(file), "GET", "http://a.test/查询?x=1")
    assert done.returncode == 0, done.stderr
    assert "GET http://a.test:80/%E6%9F%A5%E8%AF%A2?x=1" in done.stdout
    assert "path: bytes above 0x7f are percent-encoded" in done.stdout
    done = command("explain", "--config", str(file), "GET", "http://a.test/询")
    assert done.returncode == 3
    assert "is refused (400)" in done.stdout and "encode_path = true" in done.stdout
    done = command("explain", "--config", str(file), "GET", "http://a.test/%E8%AF%A2")
    assert done.returncode == 0 and "refused" not in done.stdout
