"""Routes by SOCKS5 parents (RFC 1928, RFC 1929): microsocks and Dante, and a scripted server for every answer there is.

The bytes of the conversation are read strictly by scripted_parents.SocksServer, which fails when one of them is not as
the RFC says. Which replies lead to the next route is in test_routes_fallback.py.
"""

import hashlib

import pytest

from dns_server import Answer
from origins import answering, echoing, tunnel_echo
from parents import ADA, PASSWORD, USER, ask, by, dante, microsocks, refused, route, routed
from scripted_parents import NAME_BOUND, V6_BOUND, Socks, socks_server
from tls_world import (
    OK,
    answering_and_closing,
    authority,
    client_context,
    get,
    rule,
    secure_client,
    tls_origin,
    world,
)

LARGE = hashlib.shake_128(b"through socks").digest(2 * 1024 * 1024)
PARENT_ONLY = {"office.test": Answer(a=["127.0.0.1"])}


@pytest.fixture
def office(socks_server, routed):
    """A function that starts a server of this manner, and a proxy whose every request goes by it."""

    def start(manner: Socks = Socks(), *lines: str, tables: str = "", **arguments):
        server = socks_server(manner)
        return routed(tables + route("office", server.via, *lines), "office", **arguments), server

    return start


# Real servers


@pytest.fixture(params=["microsocks", "microsocks with credentials", "dante"])
def real(request, routed):
    """A proxy that goes by a real server, which alone knows a.test."""
    lines, account = [], ()
    if request.param == "dante":
        port = request.getfixturevalue("dante").port
    else:
        if "credentials" in request.param:
            lines, account = [ADA], (USER, PASSWORD)
        port = request.getfixturevalue("microsocks")(*account)
    proxy = routed(route("office", f"socks5://office.test:{port}", *lines), "office", known=PARENT_ONLY)
    proxy.parent_port = port
    return proxy


def test_a_request_through_a_real_server(real, raw_origin, raw_client):
    origin, client = raw_origin(echoing), raw_client(real)
    for body in (b"sally", LARGE):
        client.send(ask("PUT", origin.port, "/path?q", f"Content-Length: {len(body)}\r\n") + body)
        assert client.answer().body == body
    request = origin.requests()[0]
    assert request.target == b"/path?q" and len(request.options("Via")) == 1
    line = real.access()
    assert (line["route"], line["upstream"]) == ("office", f"127.0.0.1:{real.parent_port}")
    assert not real.names.asked("a.test")


def test_a_tunnel_through_a_real_server(real, raw_origin, raw_client):
    origin, client = raw_origin(tunnel_echo), raw_client(real)
    assert client.exchange(ask("CONNECT", origin.port)).status == 200
    client.send(b"\x05\x01\x00sally")
    assert client.receive_exactly(8) == b"\x05\x01\x00sally"
    client.half_close()
    assert client.wait_for_end() == "closed"
    assert real.access()["route"] == "office"


def test_origination_through_a_real_server(real, tls_origin, raw_client, world):
    origin, client = tls_origin(echoing, world.context(world.leaf("a.test"))), raw_client(real)
    for size in (100_001, len(LARGE)):
        client.send(
            get("a.test", origin.port, method="PUT", lines=f"Content-Length: {size}\r\n") + LARGE[:size]
        )
        assert client.answer().body == LARGE[:size]
    assert [shake.server_name for shake in origin.handshakes] == ["a.test"]


def test_a_name_that_a_real_server_does_not_know(real, raw_client):
    for method in ("GET", "CONNECT"):
        answer = raw_client(real).exchange(ask(method, 443, host="absent.test"))
        refused(answer, 502, "parent-refused", "destination_unavailable", "office", "office.test")
    assert not real.names.asked("absent.test")


def test_a_real_server_that_takes_no_such_credentials(microsocks, routed, raw_client):
    tables = route(
        "office", f"socks5://office.test:{microsocks(USER, PASSWORD)}", ADA.replace(PASSWORD, "wrong")
    )
    answer = raw_client(routed(tables, "office")).exchange(ask("GET", 443))
    refused(answer, 502, "parent-authentication", "proxy_configuration_error", "office", "office.test")


# What is asked


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_the_server_gets_the_name(method, office, raw_origin, raw_client):
    proxy, server = office(known=PARENT_ONLY)
    origin = raw_origin(answering(OK) if method == "GET" else tunnel_echo)
    assert raw_client(proxy).exchange(ask(method, origin.port)).status == 200
    (asked,) = server.asked
    assert (asked.kind, asked.host, asked.port) == (3, "a.test", origin.port)
    assert asked.methods == b"\x00", "no method is offered that there are no credentials for"
    assert not proxy.names.asked("a.test")


LITERALS = {"127.0.0.1": 1, "192.0.2.1": 1, "[::1]": 4, "[2001:db8::1]": 4}


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("host", LITERALS)
def test_a_literal_goes_as_an_address(host, method, office, raw_origin, raw_client):
    proxy, server = office()
    origin = raw_origin(answering(OK) if method == "GET" else tunnel_echo)
    assert raw_client(proxy).exchange(ask(method, origin.port, host=host)).status == 200
    (asked,) = server.asked
    assert (asked.kind, asked.host, asked.port) == (LITERALS[host], host.strip("[]"), origin.port)


def test_a_long_name(office, raw_origin, raw_client):
    proxy, server = office()
    host = ".".join(["a" * 61] * 4) + ".test"
    assert len(host) == 252
    assert raw_client(proxy).exchange(ask("GET", raw_origin(answering(OK)).port, host=host)).status == 200
    assert server.asked[0].host == host


def test_a_request_looks_to_the_origin_as_if_it_were_direct(office, raw_origin, raw_client):
    proxy, _ = office(Socks(method=2), ADA)
    origin = raw_origin(answering(OK))
    raw_client(proxy).exchange(
        ask("GET", origin.port, "/x?y", "Proxy-Authorization: Basic YTpi\r\nX-Mine: 1\r\n")
    )
    (request,) = origin.requests()
    assert request.target == b"/x?y" and request.value("X-Mine") == b"1"
    assert request.value("Host") == b"a.test:%d" % origin.port


def test_connections_are_kept_by_their_target(office, raw_origin, raw_client):
    proxy, server = office(proxy="workers = 1")
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    for host in ("a.test", "b.test") * 3:
        assert client.exchange(ask("GET", origin.port, host=host)).body == b"ok"
    assert sorted(asked.host for asked in server.asked) == ["a.test", "b.test"]


def test_verify_through_a_server(office, tls_origin, secure_client, world):
    proxy, server = office(rules=rule("verified", by("office"), 'connect = "verify"'))
    origin = tls_origin(answering_and_closing(), world.context(world.leaf("a.test")), tunnelled=True)
    client = secure_client(proxy)
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(world.root), "a.test")
    assert client.get_inside("a.test").body == b"ok"
    client.leave()
    assert {(asked.kind, asked.host) for asked in server.asked} == {(3, "a.test")}


def test_intercept_through_a_server(office, tls_origin, secure_client, authority, world):
    proxy, _ = office(tables=authority.table, rules=rule("seen", by("office"), 'connect = "intercept"'))
    origin, client = tls_origin(answering(OK), world.context(world.leaf("a.test"))), secure_client(proxy)
    assert client.tunnel("a.test", origin.port).status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    assert client.get_inside(f"a.test:{origin.port}", "/x").body == b"ok"
    assert origin.requests()[0].target == b"/x"


# Methods and credentials


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
def test_credentials_are_sent_when_they_are_asked_for(bytewise, office, raw_origin, raw_client):
    proxy, server = office(Socks(method=2, bytewise=bytewise), ADA)
    assert raw_client(proxy).exchange(ask("GET", raw_origin(answering(OK)).port)).body == b"ok"
    assert server.credentials == [(USER.encode(), PASSWORD.encode())]
    assert 2 in server.offered[0]


def test_credentials_are_not_sent_when_none_are_asked_for(office, raw_origin, raw_client):
    """A server that chose method 0 gets none, if it was offered; one that was not offered it has said nonsense."""
    proxy, server = office(Socks(method=0), ADA)
    answer = raw_client(proxy).exchange(ask("GET", raw_origin(answering(OK)).port))
    if 0 in server.offered[0]:
        assert answer.body == b"ok"
    else:
        refused(answer, 502, {"parent-failed", "parent-authentication"}, ERRORS_OF_METHODS, "office.test")
    assert PASSWORD.encode() not in server.connections[0].received


ERRORS_OF_METHODS = {"http_protocol_error", "proxy_configuration_error"}
NOT_TAKEN = {
    "none is acceptable": (Socks(method=0xFF), []),
    "none is acceptable, and there are credentials": (Socks(method=0xFF), [ADA]),
    "they are refused": (Socks(method=2, verdict=b"\x01\x01"), [ADA]),
    "they are refused with 255": (Socks(method=2, verdict=b"\x01\xff"), [ADA]),
}


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", NOT_TAKEN)
def test_a_server_that_takes_no_credentials_of_ours(name, method, office, raw_client):
    manner, lines = NOT_TAKEN[name]
    proxy, server = office(manner, *lines)
    answer = raw_client(proxy).exchange(ask(method, 443))
    problem = refused(
        answer, 502, "parent-authentication", "proxy_configuration_error", "office", "office.test"
    )
    assert PASSWORD not in problem.body["detail"] and not server.asked
    assert proxy.access_of(problem.reference)["outcome"] == "parent-authentication"


# Replies


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("bound", [Socks.bound, V6_BOUND, NAME_BOUND], ids=["IPv4", "IPv6", "a name"])
def test_an_address_of_any_kind_in_the_reply(bound, bytewise, office, raw_origin, raw_client):
    proxy, _ = office(Socks(bound=bound, bytewise=bytewise))
    assert raw_client(proxy).exchange(ask("GET", raw_origin(answering(OK)).port)).body == b"ok"


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("bound", [Socks.bound, V6_BOUND, NAME_BOUND], ids=["IPv4", "IPv6", "a name"])
def test_what_a_server_says_first_comes_right_behind_the_reply(
    bound, bytewise, office, raw_origin, raw_client
):
    proxy, _ = office(Socks(bound=bound, behind=b"220 smtp.test\r\n", bytewise=bytewise))
    client = raw_client(proxy)
    assert client.exchange(ask("CONNECT", raw_origin(tunnel_echo).port)).status == 200
    assert client.receive_exactly(15) == b"220 smtp.test\r\n"
    client.send(b"sally")
    assert client.receive_exactly(5) == b"sally"


REPLIES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 255]


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("method", ["GET", "CONNECT", "https"])
def test_a_reply_that_refuses(method, reply, office, raw_origin, raw_client):
    proxy, server = office(Socks(reply=reply))
    origin = raw_origin(answering(OK))
    asked = get("a.test", origin.port) if method == "https" else ask(method, origin.port)
    answer = raw_client(proxy).exchange(asked)
    problem = refused(
        answer, 502, "parent-refused", "destination_unavailable", "office", "office.test", str(reply)
    )
    line = proxy.access_of(problem.reference)
    assert (line["status"], line["outcome"]) == (502, "parent-refused")
    assert len(server.asked) == 1 and not origin.connections


# What is no answer


NO_ANSWERS = {
    "an end before the method": Socks(greeting=b""),
    "an end within the method": Socks(greeting=b"\x05"),
    "SOCKS4": Socks(greeting=b"\x04\x00"),
    "HTTP": Socks(greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "a method that was not offered": Socks(greeting=b"\x05\x01"),
    "credentials that were not offered": Socks(greeting=b"\x05\x02"),
    "a verdict of no version": Socks(method=2, verdict=b"\x05\x00"),
    "an end before the verdict": Socks(method=2, verdict=b""),
    "an end before the reply": Socks(answer=b""),
    "an end within the reply": Socks(answer=b"\x05\x00\x00\x01\x7f\x00"),
    "a reply of another version": Socks(answer=b"\x04\x00\x00\x01\x7f\x00\x00\x01\x12\x34"),
    "an address of no kind": Socks(answer=b"\x05\x00\x00\x02\x7f\x00\x00\x01\x12\x34"),
    "garbage": Socks(answer=b"\x00" * 40),
}


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
@pytest.mark.parametrize("name", NO_ANSWERS)
def test_a_server_that_does_not_answer_as_it_must(name, method, office, raw_origin, raw_client):
    manner = NO_ANSWERS[name]
    proxy, server = office(manner, *([ADA] if manner.method == 2 else []))
    origin = raw_origin(answering(OK))
    answer = raw_client(proxy).exchange(ask(method, origin.port, "/secret"))
    tokens, errors = {"parent-failed"}, {"http_protocol_error"}
    if "offered" in name:  # "took none of our methods" says it as well
        tokens, errors = tokens | {"parent-authentication"}, ERRORS_OF_METHODS
    problem = refused(answer, 502, tokens, errors, "office", "office.test")
    assert proxy.access_of(problem.reference)["outcome"] == problem.token
    assert not origin.connections and b"secret" not in server.connections[0].received


SILENCES = {
    "before the method": Socks(greeting=None),
    "before the verdict": Socks(method=2, verdict=None),
    "before the reply": Socks(answer=None),
}


@pytest.mark.parametrize("name", SILENCES)
def test_a_server_that_is_silent(name, office, raw_client):
    proxy, server = office(SILENCES[name], ADA, tables='[proxy.timeouts]\nconnect = "300ms"\n')
    problem = refused(
        raw_client(proxy).exchange(ask("GET", 443)),
        *[504, "connection-timeout", "connection_timeout", "office", "office.test"],
    )
    assert proxy.access_of(problem.reference)["status"] == 504
    server.wait_for("done", 0)


def test_a_client_that_leaves_is_not_negotiated_for(office, raw_client):
    proxy, server = office(Socks(answer=None))
    client = raw_client(proxy)
    client.send(ask("CONNECT", 443))
    server.wait_for("accepted")
    client.reset()
    server.wait_for("done", 0)
