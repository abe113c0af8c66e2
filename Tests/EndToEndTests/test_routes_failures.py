"""What becomes of a request when its only parent fails: a status, a token, a detail that names the parent; no bypass.

In every test here the origin listens and its name is known, so that going there directly would succeed: that it
does not happen is asserted each time. What is tried after a failure, where a rule lists more:
test_routes_fallback.py. SOCKS5 and TLS have failures of their own: test_routes_socks.py, test_routes_tls.py.
"""

import queue
from dataclasses import dataclass

import pytest

from dns_server import Answer
from journal import DEADLINE_SECONDS
from origins import answering, unused_port
from parents import ADA, BASIC, PASSWORD, ask, programs, real_parent, refused, route, routed, secure_parent
from problems import check_problem
from scripted_parents import ESTABLISHED, refusing, scripted_parent
from test_limits import full_listener
from tls_world import OK, get, tls_origin, world

CONNECT_WITHIN = '[proxy.timeouts]\nconnect = "300ms"\n'
RESPONSE_WITHIN = '[proxy.timeouts]\nresponse_header = "300ms"\nconnect = "300ms"\n'
WAYS = ["GET", "POST", "CONNECT", "https"]


@pytest.fixture
def origin(raw_origin):
    """Where nothing may ever arrive."""
    started = raw_origin(answering(OK))
    yield started
    assert not started.connections, "a request went round its only parent"


def exchange(client, way: str, port: int):
    """The answer to a request of this kind, and of what is behind CONNECT."""
    if way == "https":
        return client.exchange(get("a.test", port, "/secret"))
    if way == "POST":
        return client.exchange(ask(way, port, "/secret", "Content-Length: 4\r\n") + b"body")
    return client.exchange(ask(way, port, "/secret"))


def tunnels(way: str) -> bool:
    return way in ("CONNECT", "https")


# What a parent does


def closes_at_once(connection) -> None:
    connection.switch_protocol()
    connection.close()


def closes_after_the_request(connection) -> None:
    connection.read_request()


def resets_after_the_request(connection) -> None:
    connection.read_request()
    connection.reset()


def says(data: bytes):
    def script(connection) -> None:
        connection.read_request()
        connection.send(data)

    return script


def says_and_stays(data: bytes):
    def script(connection) -> None:
        connection.read_request()
        connection.send(data)
        connection.wait_for_end()

    return script


@dataclass(frozen=True)
class Failure:
    """What a parent does, and what is said of it to CONNECT and to absolute-form (None: its answer is the client's)."""

    script: object
    connect: tuple[int, set[str], set[str]]
    absolute: tuple[int, set[str], set[str]] | None
    mentioned: tuple[str, ...] = ()
    limits: str = ""


CLOSED = {"http_protocol_error", "connection_terminated", "http_response_incomplete"}
HEAD_SIZE = {"http_protocol_error", "http_response_header_section_size", "http_response_header_size"}
AUTHENTICATION = (502, {"parent-authentication"}, {"proxy_configuration_error"})
REFUSED = (502, {"parent-refused"}, {"destination_unavailable"})
NO_ANSWER = (502, {"parent-failed"}, {"http_protocol_error"})
# In absolute-form an end or nonsense may be said in the words that are used of origins: no token is asked for.
ENDED = (502, set(), CLOSED)
SILENT = (504, {"connection-timeout"}, {"connection_timeout"})
LATE = (504, set(), {"http_response_timeout"})

FAILURES = {
    "407": Failure(
        refusing("407 No", 'Proxy-Authenticate: Basic realm="x"\r\n'), AUTHENTICATION, AUTHENTICATION
    ),
    "407, closing": Failure(refusing("407 No", closing=True), AUTHENTICATION, AUTHENTICATION),
    "400": Failure(refusing("400 Bad Request"), REFUSED, None, ("400",)),
    "403": Failure(refusing("403 Forbidden"), REFUSED, None, ("403",)),
    "403, closing": Failure(refusing("403 Forbidden", closing=True), REFUSED, None, ("403",)),
    "302": Failure(refusing("302 Found", "Location: http://login.test/\r\n"), REFUSED, None, ("302",)),
    "429": Failure(refusing("429 Too Many Requests"), REFUSED, None, ("429",)),
    "500": Failure(refusing("500 Internal Server Error"), REFUSED, None, ("500",)),
    "502": Failure(refusing("502 Bad Gateway"), REFUSED, None, ("502",)),
    "503": Failure(refusing("503 Service Unavailable"), REFUSED, None, ("503",)),
    "504": Failure(refusing("504 Gateway Timeout"), REFUSED, None, ("504",)),
    "an end at once": Failure(closes_at_once, NO_ANSWER, ENDED),
    "an end after the request": Failure(closes_after_the_request, NO_ANSWER, ENDED),
    "a reset after the request": Failure(resets_after_the_request, NO_ANSWER, ENDED),
    "an end within the head": Failure(says(b"HTTP/1.1 200 OK\r\nX: "), NO_ANSWER, ENDED),
    "garbage": Failure(says(b"\x00\x01\x02 what is this\r\n\r\n"), NO_ANSWER, ENDED),
    "the greeting of another protocol": Failure(says(b"SSH-2.0-OpenSSH_9.2\r\n"), NO_ANSWER, ENDED),
    "a malformed head": Failure(says(b"HTTP/1.1 200 OK\r\nX Y: z\r\n\r\n"), NO_ANSWER, ENDED),
    "a bare carriage return": Failure(says(b"HTTP/1.1 200 OK\r\nX: y\rz\r\n\r\n"), NO_ANSWER, ENDED),
    "a head above the limit": Failure(
        says(b"HTTP/1.1 200 OK\r\n" + b"X: %s\r\n" % (b"y" * 1000) * 70 + b"\r\n"),
        *[(502, {"parent-failed"}, HEAD_SIZE), (502, set(), HEAD_SIZE)],
    ),
    "interim answers without end": Failure(
        says(b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * 5000), (502, {"parent-failed"}, HEAD_SIZE), ENDED
    ),
    "silence": Failure(says_and_stays(b""), SILENT, LATE, limits=RESPONSE_WITHIN),
    "half a head, and silence": Failure(
        says_and_stays(b"HTTP/1.1 200 O"), SILENT, LATE, limits=RESPONSE_WITHIN
    ),
}


# In absolute-form interim answers are for the client to count.
@pytest.mark.parametrize(
    "name, way",
    [(name, way) for name in FAILURES for way in WAYS if not name.startswith("interim") or tunnels(way)],
)
def test_a_parent_that_fails(name, way, scripted_parent, routed, origin, raw_client):
    failure = FAILURES[name]
    parent = scripted_parent(failure.script)
    proxy = routed(failure.limits + route("office", parent.via, ADA), "office")
    client = raw_client(proxy)
    answer = exchange(client, way, origin.port)
    expected = failure.connect if tunnels(way) else failure.absolute
    if expected is None:
        assert (answer.status, answer.body) == (
            int(name[:3]),
            b"no",
        ), "the answer was not for the proxy to judge"
        return
    status, tokens, errors = expected
    problem = check_problem(answer, status)
    assert problem.token in (tokens or {problem.token}) and problem.error in errors, problem
    if tokens:
        mentioned = ("office", "office.test", *failure.mentioned)
        assert all(word in problem.body["detail"] for word in mentioned), problem
    assert not answer.values("Proxy-Authenticate"), "nobody asks the client for the parent's password"
    assert PASSWORD not in problem.body["detail"]
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["outcome"], line["rule"]) == (status, problem.token, "routed")
    assert (line["route"], line["upstream"]) == ("office", f"127.0.0.1:{parent.port}")
    if tunnels(way):
        assert all(b"secret" not in connection.received for connection in parent.connections)
    parent.wait_for("done", 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_parent_that_is_not_there(way, routed, origin, raw_client):
    proxy = routed(route("office", f"http://office.test:{unused_port()}", ADA), "office")
    problem = refused(
        exchange(raw_client(proxy), way, origin.port),
        *[502, "connection-refused", "connection_refused", "office", "office.test"],
    )
    assert proxy.access_of(problem.reference)["outcome"] == "connection-refused"


@pytest.mark.parametrize("way", WAYS)
def test_a_parent_that_takes_no_connection(way, routed, origin, raw_client):
    with full_listener() as port:
        proxy = routed(CONNECT_WITHIN + route("office", f"http://office.test:{port}", ADA), "office")
        answer = exchange(raw_client(proxy), way, origin.port)
    refused(answer, 504, "connection-timeout", "connection_timeout", "office", "office.test")


@pytest.mark.parametrize("way", WAYS)
def test_a_parent_whose_name_does_not_exist(way, routed, origin, raw_client):
    known = {"a.test": Answer(a=["127.0.0.1"])}
    proxy = routed(route("office", "http://office.test:3128"), "office", known=known)
    problem = check_problem(exchange(raw_client(proxy), way, origin.port), 502)
    assert problem.error in ("dns_error", "destination_not_found"), problem
    assert "office.test" in problem.body["detail"] and "a.test" not in [
        question.name for question in proxy.names.questions.snapshot()
    ]


@pytest.mark.own_network
@pytest.mark.parametrize("way", WAYS)
def test_a_parent_to_which_no_way_leads(way, routed, origin, raw_client):
    known = {"a.test": Answer(a=["127.0.0.1"]), "office.test": Answer(a=["192.0.2.1"])}
    proxy = routed(route("office", "http://office.test:3128"), "office", known=known)
    answer = exchange(raw_client(proxy), way, origin.port)
    refused(answer, 503, "not-reachable", "destination_ip_unroutable", "office")
    assert int(answer.value("Retry-After")) > 0


def test_a_parent_with_an_address_that_is_not_there(scripted_parent, routed, raw_client):
    """Every address of a parent is tried, as of any host."""
    parent = scripted_parent(answering(OK))
    known = {"office.test": Answer(a=["127.0.0.2", "127.0.0.1"])}
    proxy = routed(route("office", parent.via), "office", known=known)
    for _ in range(3):  # whichever address comes first
        assert raw_client(proxy).exchange(ask("GET", 8080, lines="Connection: close\r\n")).body == b"ok"


# Real ones


@pytest.mark.parametrize("way", WAYS)
def test_squid_that_does_not_take_the_password(way, real_parent, routed, origin, raw_client):
    proxy = routed(route("office", real_parent("squid").via, ADA.replace(PASSWORD, "no-sesame")), "office")
    answer = exchange(raw_client(proxy), way, origin.port)
    refused(answer, *AUTHENTICATION, "office", "office.test")
    assert not answer.values("Proxy-Authenticate")


@pytest.mark.parametrize("way", ["CONNECT", "https"])
def test_tinyproxy_that_does_not_take_the_password(way, real_parent, routed, origin, raw_client):
    """It says 401 where 407 is meant. In absolute-form nobody can tell that from an origin's."""
    wrong = ADA.replace(PASSWORD, "no-sesame")
    proxy = routed(route("office", real_parent("tinyproxy").via, wrong), "office")
    answer = exchange(raw_client(proxy), way, origin.port)
    refused(answer, *REFUSED, "office", "office.test", "401")


@pytest.mark.parametrize("name, status", [("tinyproxy", 500), ("squid", 503)])
def test_real_parents_that_cannot_reach_the_origin(name, status, real_parent, routed, raw_client):
    """tinyproxy says 500 of it, Squid 503. In absolute-form that is an answer like any other."""
    proxy, nobody = routed(route("office", real_parent(name).via, ADA), "office"), unused_port()
    answer = raw_client(proxy).exchange(ask("GET", nobody))
    assert answer.status == status and b"ref=" not in answer.reason, answer
    for way in ("CONNECT", "https"):
        answer = exchange(raw_client(proxy), way, nobody)
        refused(answer, *REFUSED, "office", "office.test", str(status))


def test_haproxy_with_nothing_behind_it(secure_parent, routed, origin, raw_client, world):
    """Its TLS is sound, and then it ends the connection."""
    parent = secure_parent(world.leaf("office.test"), unused_port())
    proxy = routed(route("office", parent.via, ADA), "office")
    refused(exchange(raw_client(proxy), "CONNECT", origin.port), *NO_ANSWER, "office", "office.test")
    assert check_problem(exchange(raw_client(proxy), "GET", origin.port), 502).error in CLOSED


# What is left behind


@pytest.mark.parametrize("name", ["407", "403", "503", "407, closing", "403, closing"])
def test_a_tunnel_that_was_refused_leaves_a_proxy_that_works(name, scripted_parent, routed, raw_client):
    """The connection on which a CONNECT was refused is not taken for a tunnel by whoever comes next."""

    def script(connection) -> None:
        request = connection.read_request()
        (FAILURES[name].script if request.method == b"CONNECT" else answering(OK))(
            Replayed(connection, request)
        )

    parent = scripted_parent(script)
    client = raw_client(routed(route("office", parent.via), "office", proxy="workers = 1"))
    for _ in range(3):
        check_problem(client.exchange(ask("CONNECT", 443)), 502)
        assert client.exchange(ask("GET", 8080)).body == b"ok"


class Replayed:
    """A connection whose first request has been read already."""

    def __init__(self, connection, request):
        self.connection, self.waiting = connection, [request]

    def read_request(self):
        return self.waiting.pop() if self.waiting else self.connection.read_request()

    def __getattr__(self, name: str):
        return getattr(self.connection, name)


def test_a_parent_that_dies_in_a_tunnel(scripted_parent, routed, origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(ESTABLISHED)
        connection.switch_protocol()
        connection.read_exactly(5)
        connection.send(b"half")
        connection.reset()

    parent = scripted_parent(script)
    proxy = routed(route("office", parent.via), "office")
    client = raw_client(proxy)
    assert client.exchange(ask("CONNECT", origin.port)).status == 200
    client.send(b"sally")
    client.wait_for_end()
    client.close()
    assert client.unread() in (b"half", b"") and len(parent.connections) == 1
    assert proxy.access()["route"] == "office"


def test_a_parent_that_dies_in_a_body(scripted_parent, routed, origin, raw_client):
    parent = scripted_parent(says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"))
    client = raw_client(routed(route("office", parent.via), "office"))
    client.send(ask("GET", origin.port))
    client.receive_until(b"half")
    client.wait_for_end()
    assert len(parent.connections) == 1


def test_a_client_that_leaves_ends_what_was_asked_of_a_parent(scripted_parent, routed, origin, raw_client):
    asked = queue.Queue()

    def script(connection) -> None:
        connection.read_request()
        asked.put(None)
        connection.wait_for_end()

    parent = scripted_parent(script)
    proxy = routed(route("office", parent.via), "office")
    for way, number in (("CONNECT", 0), ("GET", 1)):
        client = raw_client(proxy)
        client.send(ask(way, origin.port))
        # Before that, nothing is asked of it yet: the connection is kept for others.
        asked.get(timeout=DEADLINE_SECONDS)
        client.reset()
        parent.wait_for("done", number)


def test_no_password_is_anywhere_in_the_log(scripted_parent, routed, raw_client):
    """The proxy of every test here is searched for it when it stops; this one says it in every way there is."""
    parent = scripted_parent(refusing(f"403 {PASSWORD[:4]}", f"X-Echo: {BASIC.decode()}\r\n"))
    proxy = routed('[log]\nlevel = "debug"\n' + route("office", parent.via, ADA), "office")
    for way in ("CONNECT", "https"):
        check_problem(exchange(raw_client(proxy), way, 443), 502)


def test_a_parent_that_refuses_the_connection_is_in_the_line(routed, raw_client):
    """Its route is what an operator looks for, though there was no connection."""
    proxy = routed(route("office", f"http://office.test:{unused_port()}"), "office", proxy="workers = 1")
    check_problem(raw_client(proxy).exchange(ask("GET", 8080)), 502)
    assert proxy.access(lambda line: line["outcome"] == "connection-refused")["route"] == "office"


@pytest.mark.parametrize(
    "answer, words",
    [(b"nonsense\r\n\r\n", "The response of the parent"), (b"HTTP/1.1 200 OK\r\n", "The parent")],
    ids=["nonsense", "half a head"],
)
def test_what_a_parent_does_wrong_is_said_of_the_parent(answer, words, scripted_parent, routed, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(answer)
        connection.close()

    parent = scripted_parent(script)
    proxy = routed(route("office", parent.via), "office", proxy="workers = 1")
    problem = check_problem(raw_client(proxy).exchange(ask("POST", 8080, lines="Content-Length: 0\r\n")), 502)
    assert f"{words} office.test:{parent.port} of route 'office', asked for " in problem.body["detail"]
