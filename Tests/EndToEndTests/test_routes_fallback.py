"""Several routes in a row: what leads to the next one, what ends it, and that nothing is sent twice or round the list.

The rules (sallyport.toml(5), `route`): the next route is tried when `when` does not hold, when the parent is not
reachable, or connect or TLS fails, when SOCKS5 fails for reasons of the network, or when CONNECT is answered 5xx.
Any other answer of a parent ends it, and so does every failure after bytes of the request have left. Dead marks:
test_routes_dead.py.
"""

import pytest

from dns_server import Answer
from origins import answering, echoing, tunnel_echo, unused_port
from parents import ADA, KEPT, ask, by, refused, route, routed
from problems import check_problem
from scripted_parents import (
    Socks,
    refusing,
    relaying,
    scripted_parent,
    scripted_secure_parent,
    socks_server,
    stop_listening,
)
from test_limits import full_listener
from test_routes_failures import closes_after_the_request, exchange, resets_after_the_request, says
from tls_world import DAY, NOW, OK, certify, pins, rule, tls_origin, world

WAYS = ["GET", "POST", "CONNECT", "https"]
PIN = "sha256/" + "A" * 43 + "="
LIMITS = '[proxy.timeouts]\nconnect = "300ms"\ntls_handshake = "300ms"\n'


@pytest.fixture
def opened(raw_origin, tls_origin, world):
    """A function that starts what a request of this kind is for, be it asked directly or by a parent that relays."""

    def start(way: str):
        if way == "https":
            return tls_origin(answering(OK), world.context(world.leaf("a.test")))
        return raw_origin(tunnel_echo if way == "CONNECT" else answering(OK))

    return start


# First routes that lead on: each is a function of the fixtures that gives the tables of the route `first`.


class Firsts:
    """What the first route of a list can be like. Every method gives the text of [routes.first]."""

    def __init__(self, request):
        self.start = request.getfixturevalue
        self.world = self.start("world")
        self.listeners = []

    def secure(self, *chain, security: str = "", tables: str = "", **knobs) -> str:
        parent = self.start("scripted_secure_parent")(self.world.context(*chain, **knobs))
        return tables + route("first", parent.via_as("first.test"), ADA, security=security)

    def http(self, script) -> str:
        return route("first", self.start("scripted_parent")(script).via_as("first.test"), ADA)

    def socks(self, reply: int) -> str:
        return route("first", self.start("socks_server")(Socks(reply=reply)).via_as("first.test"))

    def refuses_the_connection(self) -> str:
        return route("first", f"http://first.test:{unused_port()}")

    def takes_no_connection(self) -> str:
        self.listeners.append(full_listener())
        return LIMITS + route("first", f"http://first.test:{self.listeners[-1].__enter__()}")

    def has_no_address(self) -> str:
        return route("first", "http://absent.test:3128")

    def cannot_be_reached(self) -> str:
        return route("first", "http://192.0.2.1:3128")

    def is_not_for_this_link(self) -> str:
        parent = self.start("scripted_parent")(relaying)
        return route("first", parent.via_as("first.test"), 'when = ["wwan", "wifi"]')

    def has_a_device_that_does_not_exist(self) -> str:
        parent = self.start("scripted_parent")(relaying)
        return route("first", parent.via_as("first.test"), 'interface = "absent0"')

    def is_expired(self) -> str:
        return self.secure(self.world.leaf("first.test", ends=NOW - DAY / 2))

    def has_another_name(self) -> str:
        return self.secure(self.world.leaf("b.test"))

    def is_not_trusted(self) -> str:
        return self.secure(certify("first.test", names=("first.test",)))

    def has_another_key(self) -> str:
        tables = pins("parent", 'mode = "public-key"', f'spki = ["{PIN}", "sha256/{"B" * 42}A="]')
        return self.secure(self.world.leaf("first.test"), security='pins = "parent"', tables=tables)

    def is_no_tls(self) -> str:
        server = self.start("raw_origin")(lambda connection: connection.switch_protocol())
        return route("first", f"https://first.test:{server.port}")

    def is_silent_in_tls(self) -> str:
        def script(connection) -> None:
            connection.switch_protocol()
            connection.wait_for_end()

        return LIMITS + route("first", f"https://first.test:{self.start('raw_origin')(script).port}")


LEADING_ON = [
    name for name in vars(Firsts) if name.startswith(("refuses_", "takes_", "has_", "cannot_", "is_"))
]


@pytest.fixture
def firsts(request):
    made = Firsts(request)
    yield made
    for listener in made.listeners:
        listener.__exit__(None, None, None)


@pytest.fixture
def listed(routed):
    """A function that starts a proxy on these tables. absent.test does not exist, the others are 127.0.0.1."""
    known = {name: Answer(a=["127.0.0.1"]) for name in ("a.test", "first.test", "office.test", "last.test")}

    def start(tables: str, *order: str, **arguments):
        return routed(tables, *order, known=known, **arguments)

    return start


def served(answer, client, way: str) -> bool:
    if way != "CONNECT":
        return answer.status == 200 and answer.body == b"ok"
    client.send(b"sally")
    return answer.status == 200 and client.receive_exactly(5) == b"sally"


@pytest.mark.own_network
@pytest.mark.parametrize(
    "way, second",
    [("GET", "parent"), ("GET", "direct"), ("POST", "direct"), ("CONNECT", "parent"), ("https", "parent")],
)
@pytest.mark.parametrize("name", LEADING_ON)
def test_the_next_route_is_taken(name, way, second, firsts, listed, opened, scripted_parent, raw_client):
    parent, origin = scripted_parent(relaying), opened(way)
    tables = getattr(firsts, name)() + route("second", parent.via)
    proxy = listed(tables, "first", "second" if second == "parent" else "direct")
    client = raw_client(proxy)
    answer = exchange(client, way, origin.port)
    assert served(answer, client, way), answer
    client.close()
    assert len(parent.requests()) == (second == "parent")
    line = proxy.access()
    assert line["route"] == ("second" if second == "parent" else "direct") and line["outcome"] == "done"
    assert line["upstream"] == f"127.0.0.1:{parent.port if second == 'parent' else origin.port}"


@pytest.mark.parametrize("status", [500, 501, 502, 503, 504, 599])
@pytest.mark.parametrize("way", ["CONNECT", "https"])
def test_connect_answered_5xx_leads_on(way, status, firsts, listed, opened, raw_client):
    origin = opened(way)
    proxy = listed(firsts.http(refusing(f"{status} Later")), "first", "direct")
    client = raw_client(proxy)
    assert served(exchange(client, way, origin.port), client, way)
    client.close()
    line = proxy.access()
    assert line["route"] == "direct"
    # The line is about the route that was taken; why not the first is told beside it.
    told = proxy.log.wait_for(lambda entry: "route 'first' failed, the next is tried" in str(entry))
    assert told["level"] == "warning" and f"ref={line['ref']} " in str(told) and str(status) in str(told)


@pytest.mark.parametrize("reply", [1, 3, 4, 5, 6])
@pytest.mark.parametrize("way", WAYS)
def test_socks_that_fails_for_reasons_of_the_network_leads_on(way, reply, firsts, listed, opened, raw_client):
    origin, client = opened(way), raw_client(listed(firsts.socks(reply), "first", "direct"))
    assert served(exchange(client, way, origin.port), client, way)


def test_a_body_is_whole_on_the_route_that_is_taken(firsts, listed, scripted_parent, raw_client):
    """What the client has sent of its body by then waits for the route that works."""
    parent = scripted_parent(echoing)
    tables = firsts.is_not_trusted() + route("second", parent.via)
    client = raw_client(listed(tables, "first", "second"))
    body = b"0123456789" * 20_000
    client.send(ask("POST", 8080, lines=f"Content-Length: {len(body)}\r\n") + body)
    assert client.answer().body == body
    assert [request.body for request in parent.requests()] == [body]


# Order


def test_routes_are_tried_in_the_order_of_the_rule(scripted_parent, routed, raw_client):
    """Not in that of the tables, nor by which of them was quickest before."""
    parents = {name: scripted_parent(answering(OK)) for name in ("c", "a", "b")}
    tables = "".join(route(name, parent.via) for name, parent in parents.items())
    rules = rule("back", 'paths = ["/back"]', by("b", "c", "a"))
    client = raw_client(routed(tables, "a", "b", "c", rules=rules))
    for path in ("/", "/back", "/"):
        assert client.exchange(ask("GET", 8080, path)).body == b"ok"
    asked = {name: len(parent.requests()) for name, parent in parents.items()}
    assert asked == {"a": 2, "b": 1, "c": 0} and not parents["c"].connections


def test_the_list_ends_where_it_works(scripted_parent, routed, raw_client):
    last = scripted_parent(relaying)
    middle = scripted_parent(answering(OK))
    tables = route("first", f"http://first.test:{unused_port()}") + route("middle", middle.via)
    tables += route("last", last.via)
    proxy = routed(tables, "first", "middle", "last")
    assert raw_client(proxy).exchange(ask("GET", 8080)).body == b"ok"
    assert not last.connections and proxy.access()["route"] == "middle"


def test_direct_may_come_first(firsts, listed, raw_origin, scripted_parent, raw_client):
    """A name that only the parent knows, and an origin that does not listen, are found by the next route."""
    parent = scripted_parent(answering(OK))
    proxy = listed(route("office", parent.via), "direct", "office")
    for host, port in (("absent.test", 8080), ("a.test", unused_port())):
        assert raw_client(proxy).exchange(ask("GET", port, host=host)).body == b"ok"
    assert len(parent.requests()) == 2
    origin = raw_origin(answering(OK))
    assert raw_client(proxy).exchange(ask("GET", origin.port)).body == b"ok"
    assert len(parent.requests()) == 2 and len(origin.requests()) == 1


def test_a_rule_without_routes_goes_direct_though_there_are_some(
    scripted_parent, routed, raw_origin, raw_client
):
    parent, origin = scripted_parent(relaying), raw_origin(answering(OK))
    proxy = routed(route("office", parent.via), rules=rule("plain", 'hosts = ["a.test"]'))
    for host in ("a.test", "b.test"):
        assert raw_client(proxy).exchange(ask("GET", origin.port, host=host)).body == b"ok"
    assert not parent.connections


# Direct is used only where it is listed


@pytest.mark.own_network
@pytest.mark.parametrize("way", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", LEADING_ON)
def test_no_route_that_is_not_listed_is_taken(
    name, way, firsts, listed, raw_origin, scripted_parent, raw_client
):
    """Both parents fail; the origin, and a parent that the rule does not list, would work."""
    origin, unlisted = raw_origin(answering(OK)), scripted_parent(relaying)
    tables = getattr(firsts, name)() + route("last", f"http://last.test:{unused_port()}")
    proxy = listed(tables + route("unlisted", unlisted.via), "first", "last")
    problem = refused(
        exchange(raw_client(proxy), way, origin.port),
        *[502, "connection-refused", "connection_refused", "first", "last", "last.test"],
    )
    assert proxy.access_of(problem.reference)["status"] == 502
    assert not origin.connections and not unlisted.connections


@pytest.mark.own_network
@pytest.mark.parametrize("name", ["cannot_be_reached", "is_not_for_this_link"])
def test_when_no_route_holds_it_is_503(name, firsts, listed, raw_origin, raw_client):
    origin, tables = raw_origin(answering(OK)), getattr(firsts, name)()
    tables += route("last", "http://192.0.2.2:3128", 'when = ["wwan"]')
    answer = raw_client(listed(tables, "first", "last")).exchange(ask("GET", origin.port))
    refused(answer, 503, "not-reachable", "destination_ip_unroutable", "first", "last")
    assert int(answer.value("Retry-After")) > 0 and not origin.connections


@pytest.mark.own_network
def test_the_status_is_that_of_the_last_route_that_was_tried(firsts, listed, raw_client):
    """`last` does not hold, so it is `first` that has failed; both stand in the detail."""
    tables = firsts.is_expired() + route("last", "http://last.test:3128", 'when = ["wwan"]')
    answer = raw_client(listed(tables, "first", "last")).exchange(ask("GET", 8080))
    refused(answer, 502, "certificate-expired", "tls_certificate_error", "first", "first.test", "last")


# What ends it


ENDING = {
    "407": (refusing("407 No", 'Proxy-Authenticate: Basic realm="x"\r\n'), 502, "parent-authentication"),
    "400": (refusing("400 No"), 502, "parent-refused"),
    "403": (refusing("403 No"), 502, "parent-refused"),
    "404": (refusing("404 No"), 502, "parent-refused"),
    "302": (refusing("302 No", "Location: http://login.test/\r\n"), 502, "parent-refused"),
    "garbage": (says(b"what is this\r\n\r\n"), 502, "parent-failed"),
}


@pytest.mark.parametrize("way", ["CONNECT", "https"])
@pytest.mark.parametrize("name", ENDING)
def test_an_answer_to_connect_that_ends_it(name, way, firsts, listed, opened, scripted_parent, raw_client):
    script, status, token = ENDING[name]
    second, origin = scripted_parent(relaying), opened(way)
    proxy = listed(firsts.http(script) + route("second", second.via), "first", "second", "direct")
    problem = check_problem(exchange(raw_client(proxy), way, origin.port), status)
    assert problem.token == token and "first.test" in problem.body["detail"], problem
    assert not second.connections and not origin.connections
    assert proxy.access_of(problem.reference)["route"] == "first"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("manner", [Socks(reply=2), Socks(reply=7), Socks(reply=8), Socks(method=0xFF)])
def test_an_answer_of_socks_that_ends_it(
    manner, way, listed, socks_server, opened, scripted_parent, raw_client
):
    server, second, origin = socks_server(manner), scripted_parent(relaying), opened(way)
    tables = route("first", server.via_as("first.test")) + route("second", second.via)
    answer = exchange(raw_client(listed(tables, "first", "second", "direct")), way, origin.port)
    token = "parent-refused" if manner.reply else "parent-authentication"
    refused(answer, 502, token, {"destination_unavailable", "proxy_configuration_error"}, "first.test")
    assert not second.connections and not origin.connections


@pytest.mark.parametrize("way", ["GET", "POST"])
@pytest.mark.parametrize("status", [403, 407, 500, 502, 503, 504])
def test_an_answer_in_absolute_form_ends_it(
    status, way, firsts, listed, raw_origin, scripted_parent, raw_client
):
    """By then the request has left."""
    second, origin = scripted_parent(relaying), raw_origin(answering(OK))
    tables = firsts.http(refusing(f"{status} No")) + route("second", second.via)
    answer = exchange(raw_client(listed(tables, "first", "second", "direct")), way, origin.port)
    if status == 407:
        refused(answer, 502, "parent-authentication", "proxy_configuration_error", "first.test")
    else:
        assert (answer.status, answer.body) == (status, b"no")
    assert not second.connections and not origin.connections


# After bytes of a request have left


DYING = {
    "it closes": closes_after_the_request,
    "it resets": resets_after_the_request,
    "it says half a head": says(b"HTTP/1.1 200 OK\r\nX"),
    "it says nonsense": says(b"nonsense\r\n\r\n"),
}


@pytest.mark.parametrize("way", ["GET", "POST"])
@pytest.mark.parametrize("name", DYING)
def test_a_parent_that_dies_with_a_request_has_no_successor(
    name, way, firsts, listed, raw_origin, scripted_parent, raw_client
):
    second, origin = scripted_parent(relaying), raw_origin(answering(OK))
    first = scripted_parent(DYING[name])
    tables = route("first", first.via_as("first.test")) + route("second", second.via)
    proxy = listed(tables, "first", "second", "direct")
    check_problem(exchange(raw_client(proxy), way, origin.port), 502)
    assert len(first.requests()) == 1 and not second.connections and not origin.connections


def dying_once(connection) -> None:
    """The first connection dies with its second request; later ones answer each request."""
    connection.read_request()
    connection.send(KEPT)
    connection.read_request()
    if connection.number > 0:
        connection.send(KEPT)
        connection.wait_for_end()


@pytest.mark.parametrize("way", ["GET", "POST"])
def test_a_request_on_a_kept_connection_is_retried_as_it_would_be_directly(
    way, listed, scripted_parent, raw_client
):
    """Once, if it is idempotent, on a new connection to the same parent. Never by another route."""
    first, second = scripted_parent(dying_once), scripted_parent(relaying)
    tables = route("first", first.via_as("first.test")) + route("second", second.via)
    proxy = listed(tables, "first", "second", "direct", proxy="workers = 1")
    client = raw_client(proxy)
    assert client.exchange(ask("GET", 8080)).body == b"ok"
    answer = exchange(client, way, 8080)
    if way == "GET":
        assert answer.body == b"ok"
        assert [len(connection.requests) for connection in first.connections] == [2, 1]
    else:
        check_problem(answer, 502)
        assert len(first.connections) == 1
    assert not second.connections


def test_a_retry_that_finds_nobody_ends_there(listed, scripted_parent, raw_origin, raw_client):
    """Bytes of the request have left once: its parent has gone, and no other route may see it."""

    def script(connection) -> None:
        connection.read_request()
        connection.send(KEPT)
        connection.read_request()
        stop_listening(first)

    first, second, origin = scripted_parent(script), scripted_parent(relaying), raw_origin(answering(OK))
    tables = route("first", first.via_as("first.test")) + route("second", second.via)
    client = raw_client(listed(tables, "first", "second", "direct", proxy="workers = 1"))
    assert client.exchange(ask("GET", origin.port)).body == b"ok"
    check_problem(client.exchange(ask("GET", origin.port)), 502)
    assert not second.connections and not origin.connections
