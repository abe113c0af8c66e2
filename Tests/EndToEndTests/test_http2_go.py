"""Programs in Go through tunnels that are intercepted: net/http and gRPC, clients and servers (go/).

Their HTTP/2 is another than that of the other tests (nghttp2, h2, grpcio). Whether net/http speaks it is up to GODEBUG,
as it is for users. The clients in Go also call the server in Python of test_http2.py.
"""

import concurrent.futures
import hashlib

import grpc
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from go_world import WITHOUT_HTTP_2, go_client, go_program, go_server  # noqa: F401
from journal import Journal
from origins import answering, unused_port
from test_http2 import Calls
from tls_world import authority, chain_pem, intercepting, secure_proxy, tls_origin, world  # noqa: F401

# The first test builds the program.
pytestmark = pytest.mark.timeout(360)

LARGE_BYTES = 64 << 20
CROWD = 100
PING_PONGS = 1000
FLOOD_MESSAGES = 1024


@pytest.fixture(scope="module")
def large() -> str:
    """The digest of what the programs send where much is to be sent: `content` of main.go."""
    stream = Cipher(algorithms.AES(bytes(16)), modes.CTR(bytes(16))).encryptor()
    return hashlib.sha256(stream.update(bytes(LARGE_BYTES))).hexdigest()


# net/http

PROTOCOLS = {"h2": "HTTP/2.0", "http/1.1": "HTTP/1.1"}


class Web:
    """A client, a server, and the proxy between them."""

    def __init__(self, client: str, origin: str, proxy, server, program):
        self.client, self.origin = client, origin
        self.proxy, self.server, self.program = proxy, server, program
        self.arguments = {} if client == "h2" else WITHOUT_HTTP_2

    @property
    def address(self) -> str:
        return f"a.test:{self.server.port}"

    def begin(self, task: str):
        return self.program.begin("web", self.address, task, **self.arguments)

    def __call__(self, task: str) -> dict:
        return self.program.end(self.begin(task))

    def check(self, answer: dict, status: int = 200) -> None:
        """Each side has spoken what it should."""
        assert answer["status"] == status
        assert (answer["protocol"], answer["origin_protocol"]) == (PROTOCOLS[self.client], PROTOCOLS[self.origin])

    def check_line(self, path: str) -> dict:
        line = self.proxy.access(lambda line: line["target"].endswith(path))
        assert (line["protocol"], line["upstream_protocol"], line["rule"]) == (self.client, self.origin, "seen")
        return line


@pytest.fixture(params=["h2", "http/1.1"])
def origin_protocol(request) -> str:
    return request.param


@pytest.fixture(params=["h2", "http/1.1"])
def web(request, origin_protocol, intercepting, go_server, go_client) -> Web:
    proxy = intercepting()
    server = go_server("web-server", http2=origin_protocol == "h2")
    return Web(request.param, origin_protocol, proxy, server, go_client(proxy))


def test_get(web):
    got = web("get")
    web.check(got)
    assert got["body"] == "hello, GET"
    assert web.check_line("/hello")["status"] == 200


def test_post(web):
    got = web("post")
    web.check(got)
    assert got["body"] == f"14 {hashlib.sha256(b'what is posted').hexdigest()}"
    assert web.check_line("/digest")["method"] == "POST"


def test_trailers_pass_both_ways(web):
    got = web("trailers")
    web.check(got)
    assert got["body"] == "with trailers"
    assert got["trailers"] == {"X-Digest": [hashlib.sha256(b"in pieces").hexdigest()], "X-Asked": ["of the client"]}


def test_a_crowd_is_served_at_once(web):
    """The server answers none before it has them all."""
    answers = web("crowd")["answers"]
    assert [answer["body"] for answer in answers] == [f"met {index}" for index in range(CROWD)]
    for answer in answers:
        web.check(answer)
    connections = len({answer["peer"] for answer in answers})
    if web.origin == "h2":
        assert connections < CROWD / 2, "streams share connections"
    else:
        assert connections == CROWD


def test_a_large_download(web, large):
    got = web("download")
    web.check(got)
    assert (got["size"], got["digest"]) == (LARGE_BYTES, large)
    web.check_line("/content")


def test_a_large_upload(web, large):
    got = web("upload")
    web.check(got)
    assert got["body"] == f"-1 {large}"
    web.check_line("/digest")


def test_cancelled_requests_are_heard_at_the_origin(web):
    """Two at once: the answer to one has begun. A client of HTTP/1.1 only closes, which may mean that it listens on."""
    client = web.begin("cancel")
    web.server.wait_for("began", times=2)
    got = web.program.end(client, "\n")
    assert got["cancelled"] == [True, True], got["errors"]
    assert got["begun"] == "begun"
    assert [event["why"] for event in web.server.wait_for("left", times=2)] == ["context canceled"] * 2
    web.check(got["before"])
    web.check(got["after"])
    lines = web.proxy.log.wait_for_several(2, lambda line: line.get("target", "").endswith("/stay"))
    assert [line["outcome"] for line in lines] == ["client-left"] * 2
    if web.client == "h2" and web.origin == "h2":
        assert got["after"]["peer"] == got["before"]["peer"], "the connection is as good as before"


# gRPC


class CallsInPython(Calls):
    """As the methods of the server in Go, and with the same events."""

    def __init__(self):
        self.events = Journal("the server in Python")

    def wait_for(self, name: str) -> list[dict]:
        return self.events.wait_for_several(1, lambda entry: entry["event"] == name)

    def service(self, details):
        match details.method.rsplit("/", 1)[1]:
            case "Fails":

                def fails(request, context):
                    context.set_trailing_metadata((("x-why", "gone"), ("x-why-bin", b"\0\xff")))
                    context.abort(grpc.StatusCode.NOT_FOUND, "nö %")

                return grpc.unary_unary_rpc_method_handler(fails)
            case "Waits":
                waits = super().service(details).unary_unary

                def noted(request, context):
                    remaining = context.time_remaining()
                    limit = -1 if remaining is None else remaining * 1000
                    context.add_callback(lambda: self.events.append({"event": "left"}))
                    self.events.append({"event": "began", "limit": limit})
                    return waits(request, context)

                return grpc.unary_unary_rpc_method_handler(noted)
            case _:
                return super().service(details)


@pytest.fixture
def python_server(world):
    """A function that starts it."""
    started = []

    def start() -> CallsInPython:
        calls = CallsInPython()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        server.add_generic_rpc_handlers((calls,))
        leaf = world.leaf("a.test")
        credentials = grpc.ssl_server_credentials([(leaf.key_pem, chain_pem([leaf, leaf.issuer]))])
        calls.port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        started.append(server)
        return calls

    yield start
    for server in started:
        server.stop(None).wait()


@pytest.fixture(params=["go", "python"])
def rpc_server(request, go_server, python_server):
    return go_server("rpc-server") if request.param == "go" else python_server()


def address(server) -> str:
    return f"a.test:{server.port}"


# With protocol buffers, the name of the codec is not said.
@pytest.mark.parametrize("subtype", ["", "raw"])
def test_calls_of_every_kind(subtype, intercepting, rpc_server, go_client):
    proxy = intercepting()
    got = go_client(proxy)("rpc", "-subtype", subtype, address(rpc_server), "kinds")
    assert (got["unary"]["code"], got["unary"]["answer"]) == ("OK", "cba")
    assert got["unary"]["trailers"]["x-sum"] == ["3"]
    numbers = [str(index) for index in range(1000)]
    assert got["server"] == numbers and got["client"] == ["10000"] and got["both"] == numbers
    for method in ("Unary", "Server", "Client", "Echo"):
        line = proxy.access(lambda line: line["target"].endswith(f"/s/{method}"))
        assert (line["status"], line["protocol"], line["upstream_protocol"]) == (200, "h2", "h2")


def test_a_failure_arrives_whole(intercepting, rpc_server, go_client):
    """Its code, its message and its metadata."""
    got = go_client(intercepting())("rpc", address(rpc_server), "fails")
    assert (got["code"], got["message"], got["answer"]) == ("NotFound", "nö %", "")
    assert got["trailers"]["x-why"] == ["gone"]
    # The bytes 0 and 255, of which JSON has the second as the sign for what is no text.
    assert got["trailers"]["x-why-bin"] == ["\0\ufffd"]


def test_a_deadline_is_known_to_the_server(intercepting, rpc_server, go_client):
    got = go_client(intercepting())("rpc", address(rpc_server), "deadline")
    assert got["before"]["answer"] == "erofeb"
    assert got["waited"]["code"] == "DeadlineExceeded"
    assert 0 < rpc_server.wait_for("began")[0]["limit"] <= 1000
    rpc_server.wait_for("left")
    assert got["after"]["answer"] == "retfa"


def test_a_cancellation_reaches_the_server(intercepting, rpc_server, go_client):
    program = go_client(intercepting())
    client = program.begin("rpc", address(rpc_server), "cancel")
    rpc_server.wait_for("began")
    got = program.end(client, "\n")
    assert got["waited"]["code"] == "Canceled"
    rpc_server.wait_for("left")
    assert got["after"]["answer"] == "retfa"


def test_messages_pass_one_by_one(intercepting, rpc_server, go_client):
    """The next is sent when the last one is back."""
    got = go_client(intercepting())("rpc", address(rpc_server), "ping-pong")
    assert (got["right"], got["more"], got["code"]) == (PING_PONGS, 0, "OK")


@pytest.mark.parametrize("apart", [False, True], ids=["one connection", "two connections"])
@pytest.mark.parametrize("task", ["pour", "take"])
def test_a_slow_reader_stops_no_other_flood(task, apart, intercepting, go_server, go_client, large):
    """64 MiB are stuck at the client or at the server, and beside them as many pass. Then the stuck ones pass too."""
    server = go_server("rpc-server")
    got = go_client(intercepting())("rpc", f"-apart={apart}", address(server), task)
    assert got["fast"] == large and got["slow"] == large
    assert 0 < got["slow_messages_meanwhile"] < FLOOD_MESSAGES / 2, "it was stuck while the other went by"


DENY = '[[rule]]\nname = "no"\naction = "deny"\nhosts = ["a.test"]\npaths = ["/s/*"]\nschemes = ["https"]\n'


@pytest.mark.parametrize("subtype", ["", "raw"])
def test_a_refusal_is_a_status(subtype, intercepting, go_server, go_client):
    server = go_server("rpc-server")
    proxy = intercepting(DENY)
    got = go_client(proxy)("rpc", "-subtype", subtype, address(server), "refused")
    for kind, method in (("unary", "Unary"), ("stream", "Echo")):
        line = proxy.access(lambda line: line["target"].endswith(f"/s/{method}"))
        assert got[kind]["code"] == "PermissionDenied"
        assert got[kind]["message"] == f"denied rule=no ref={line['ref']}: Rule no denies this request."


def test_a_refused_tunnel_says_why(intercepting, go_server, go_client):
    """The call has no answer that could carry a status. The client quotes what it was told instead."""
    server = go_server("rpc-server")
    proxy = intercepting('[[rule]]\nname = "no"\naction = "deny"\nhosts = ["a.test"]\n')
    got = go_client(proxy)("rpc", address(server), "fails")
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert got["code"] == "Unavailable"
    assert f"403 denied rule=no ref={line['ref']}" in got["message"]


def test_what_is_out_of_reach_is_unavailable(intercepting, tls_origin, world, go_client):
    client = go_client(intercepting())
    plain = tls_origin(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), world.context(world.leaf("a.test")))
    for port, token in ((plain.port, "protocol-not-offered"), (unused_port(), "connection-refused")):
        got = client("rpc", f"a.test:{port}", "refused")
        for kind in ("unary", "stream"):
            assert got[kind]["code"] == "Unavailable"
            assert token in got[kind]["message"]
    assert not plain.requests()
