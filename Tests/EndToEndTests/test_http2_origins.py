"""Connections to origins of HTTP/2: what goes again when they refuse it, who shares them, and when they are dead."""

import threading

import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest

from digest_server import Digest
from http2_world import Link
from journal import DEADLINE_SECONDS
from origins import answering
from test_http2 import h2_origin, inside, ok  # noqa: F401
from test_who_asks import CREDENTIALS, basic
from ways import SECRET
from tls_world import authority, intercepting, pins, rule, secure_client, secure_proxy, tls_origin, world  # noqa: F401

REFUSED = h2.errors.ErrorCodes.REFUSED_STREAM
PIECES = [bytes([65 + index]) * 500 for index in range(10)]


def problem_of(got) -> str:
    return got.body.decode().split("urn:sallyport:problem:")[1].split('"')[0]


# What peers do that works without a proxy


def test_a_receiver_that_opens_its_windows_after_each_small_read(intercepting, inside, h2_origin):
    """As Go's net/http does where its handler reads by lines or forms: two updates for every 512 bytes."""

    class Small(Link):
        def take(self, event) -> None:
            if isinstance(event, h2.events.DataReceived):
                self.open[event.stream_id].body += event.data
                for _ in range(0, event.flow_controlled_length, 512):
                    self.connection.increment_flow_control_window(512)
                    self.connection.increment_flow_control_window(512, event.stream_id)
            else:
                super().take(event)

    body = bytes(3 << 20)
    origin = h2_origin(ok, link=Small)
    client = inside(intercepting(), "a.test", origin.port)
    got = client.get(f"a.test:{origin.port}", "/form", method="POST", body=body)
    assert got.status == 200 and origin.requests[0].body == body and len(origin.links) == 1


def test_content_after_a_reset_is_no_flood(intercepting, inside, h2_origin):
    """Clients give up downloads: what was under way then must be passed over (RFC 9113, 5.1)."""

    def answer(link, request):
        if request.path == "/slow":
            return None
        link.respond(request, 200, body=b"x" * 200_000, ends=False)

    origin = h2_origin(answer)
    proxy = intercepting(proxy="workers = 1")
    client, other = (inside(proxy, "a.test", origin.port) for _ in range(2))
    place = f"a.test:{origin.port}"
    slow = other.request(place, "/slow")
    origin.wait_until(lambda: origin.requests)
    for _ in range(40):
        number = client.request(place, "/large")
        client.wait_until(lambda: client.exchanges[number].body)
        client.reset(number)
    origin.links[0].respond(origin.requests[0], 200, body=b"at last")
    assert other.wait(slow).body == b"at last" and len(origin.links) == 1


def test_empty_answers_that_end_with_an_empty_frame(intercepting, inside, h2_origin):
    def answer(link, request):
        link.respond(request, 204, ends=False)
        with link.lock:
            link.connection.send_data(request.number, b"", end_stream=True)
            link.flush()

    origin = h2_origin(answer)
    client = inside(intercepting(), "a.test", origin.port)
    for _ in range(3000):
        assert client.get(f"a.test:{origin.port}").status == 204
    assert len(origin.links) == 1


@pytest.mark.parametrize("where", ["head", "trailers"])
def test_fields_that_the_limits_allow_pass(where, intercepting, inside, tls_origin, world):
    """libnghttp2 counts twelve bytes more for each field, and would drop these without a word."""
    fields = b"".join(b"X-%03d: %s\r\n" % (index, b"v" * 530) for index in range(120))
    if where == "head":
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + fields + b"\r\n"
    else:
        names = b", ".join(b"X-%03d" % index for index in range(120))
        answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: %s\r\n\r\n0\r\n%s\r\n" % (names, fields)
    origin = tls_origin(answering(answer), world.context(world.leaf("a.test")), tunnelled=True)
    client = inside(intercepting(), "a.test", origin.port)
    client.connection.decoder.max_header_list_size = 1 << 20
    got = client.get(f"a.test:{origin.port}", "/", ("te", "trailers"))
    came = got.headers if where == "head" else got.trailers
    assert got.ended and sum(name.startswith("x-") for name, _ in came) == 120


def test_streams_that_stay_open_keep_nobody_waiting(intercepting, inside, h2_origin):
    """The origin allows two at once, and both are event streams: the next request opens another connection."""

    def answer(link, request):
        if request.path == "/events":
            link.respond(request, 200, body=b"data: 1\n\n", ends=False)
        else:
            ok(link, request)

    origin = h2_origin(answer, settings={h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    client = inside(intercepting(), "a.test", origin.port)
    place = f"a.test:{origin.port}"
    for _ in range(2):
        number = client.request(place, "/events")
        client.wait_until(lambda: client.exchanges[number].body)
    assert [client.get(place, "/quick").status for _ in range(3)] == [200] * 3
    assert [request.connection for request in origin.requests] == [1, 1, 2, 2, 2]


def test_a_refused_request_of_a_rule_with_a_pace_goes_again(intercepting, inside, h2_origin):
    refused = []

    def answer(link, request):
        if refused:
            return ok(link, request)
        refused.append(request)
        link.reset(request, REFUSED)

    origin = h2_origin(answer, early=True)
    proxy = intercepting(
        rule("paced", 'connect = "intercept"', request='throttle = { rate = "1MiB", download = "1MiB" }'))
    assert inside(proxy, "a.test", origin.port).get(f"a.test:{origin.port}").status == 200
    assert len(origin.requests) == 2


# What is refused


@pytest.mark.parametrize("times, refusal", [(1, "reset"), (2, "reset"), (1, "goaway"), (3, "goaway")])
def test_content_without_a_length_goes_again(times, refusal, intercepting, inside, h2_origin):
    """As a gRPC call has it: some of it has been sent, and more of it comes later. Nothing is lost or sent twice."""
    refused = []

    def answer(link, request):
        if request.path == "/first":
            return ok(link, request)
        if len(refused) < times:
            refused.append(request)
            if refusal == "reset":
                link.reset(request, REFUSED)
            else:
                link.leave(max(0, request.number - 2))

    origin = h2_origin(answer, early=True)
    client = inside(intercepting(), "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}", "/first").status == 200
    number = client.request(f"a.test:{origin.port}", "/call", ("te", "trailers"), method="POST", ends=False)
    for piece in PIECES[:5]:
        client.content(number, piece, ends=False)
    origin.wait_until(lambda: len([one for one in origin.requests if one.path == "/call"]) == times + 1)
    for piece in PIECES[5:]:
        client.content(number, piece, ends=piece is PIECES[-1])
    again = origin.requests[-1]
    link = origin.links[again.connection - 1]
    origin.wait_until(lambda: again.number in link.ended)
    assert bytes(again.body) == b"".join(PIECES) and len(refused) == times
    link.respond(again, 200, body=b"done")
    assert client.wait(number).body == b"done"


def test_an_origin_that_refuses_everything_is_given_up(intercepting, inside, h2_origin):
    origin = h2_origin(lambda link, request: link.reset(request, REFUSED), early=True)
    got = inside(intercepting(), "a.test", origin.port).get(f"a.test:{origin.port}", method="POST", body=b"x")
    assert got.status == 502 and problem_of(got) == "connection-closed"
    assert len(origin.requests) == 5


def test_what_is_long_does_not_go_again(intercepting, inside, h2_origin):
    """More than the proxy keeps has been sent: the client hears of it, and the origin gets no half."""
    origin = h2_origin(lambda link, request: None, early=True)
    client = inside(intercepting(), "a.test", origin.port)
    number = client.request(f"a.test:{origin.port}", "/", method="POST", ends=False)
    for _ in range(50):
        client.content(number, b"x" * 1000, ends=False)
    origin.wait_until(lambda: origin.requests and len(origin.requests[0].body) == 50_000)
    origin.links[0].reset(origin.requests[0], REFUSED)
    got = client.wait(number)
    assert got.status == 502 and problem_of(got) == "connection-closed"
    assert len(origin.requests) == 1


def test_requests_above_the_last_of_goaway_go_elsewhere_and_those_below_are_answered(intercepting, inside, h2_origin):
    origin = h2_origin(lambda link, request: None if request.path != "/elsewhere" or link.number == 1 else ok(link, request))
    client = inside(intercepting(proxy="workers = 1"), "a.test", origin.port)
    stays = client.request(f"a.test:{origin.port}", "/stays", method="POST", body=b"a")
    origin.wait_until(lambda: len(origin.requests) == 1)
    goes = [client.request(f"a.test:{origin.port}", "/elsewhere", method="POST", body=b"b") for _ in range(5)]
    origin.wait_until(lambda: len(origin.requests) == 6)
    assert {request.connection for request in origin.requests} == {1}
    origin.links[0].leave(origin.requests[0].number)
    assert [client.wait(number).body for number in goes] == [b"ok"] * 5
    link = origin.links[0]
    link.connection.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN
    link.respond(origin.requests[0], 200, body=b"stayed")
    assert client.wait(stays).body == b"stayed"


# Who shares a connection


def test_users_of_the_proxy_share_no_connection_where_rules_name_them(intercepting, inside, h2_origin):
    origin = h2_origin(ok)
    for policy, connections in [("", 1), (rule("none", 'hosts = ["other.test"]', 'proxy_users = ["ci"]'), 2)]:
        before = len(origin.protocols)
        proxy = intercepting(policy, proxy=f"workers = 1\n{CREDENTIALS}")
        for name, password in [("ci", "one"), ("ada", "two"), ("ci", "one"), ("ada", "two")]:
            client = inside(proxy, "a.test", origin.port, lines=basic(name, password))
            assert client.get(f"a.test:{origin.port}").status == 200
        assert len(origin.protocols) - before == connections


def test_a_pinned_request_takes_no_stream_of_an_unpinned_connection(intercepting, inside, h2_origin):
    """Policies are judged when a connection is made: one that is open says nothing for another policy."""
    wrong = "sha256/" + "A" * 43 + "="
    policy = pins("other", f'spki = ["{wrong}"]', 'expires = 2100-01-01')
    policy += rule("pinned", 'hosts = ["a.test"]', 'paths = ["/pay"]', security='pins = "other"')
    origin = h2_origin(ok)
    proxy = intercepting(policy, proxy="workers = 1")
    client = inside(proxy, "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}", "/open").status == 200
    numbers = [client.request(f"a.test:{origin.port}", path) for path in ("/pay", "/open", "/pay")]
    first, between, last = [client.wait(number) for number in numbers]
    assert between.status == 200
    for got in (first, last):
        assert got.status == 502 and problem_of(got) == "pin-mismatch"
    assert [request.path for request in origin.requests] == ["/open", "/open"]


# Challenges


@pytest.mark.parametrize("challenge_body", [b"", b"who are you?"])
@pytest.mark.parametrize("body", [b"", b"short", b"l" * 3_000_000])
def test_a_challenge_is_answered_on_another_stream(body, challenge_body, intercepting, inside, h2_origin):
    digest = Digest("mufasa", SECRET)

    def answer(link, request):
        value = request.value("authorization")
        if value:
            digest.judge(value.encode(), request.value(":method").encode(), request.path.encode())
            return link.respond(request, 200, body=str(len(request.body)).encode())
        link.respond(request, 401, ("www-authenticate", digest.challenge()), body=challenge_body)

    # A body that is too long to be kept is asked about first.
    origin = h2_origin(answer, early=len(body) > 1_000_000, link=Waiting if len(body) > 1_000_000 else None)
    policy = rule(
        "kept", 'hosts = ["a.test"]', 'connect = "intercept"',
        request='authorization = { scheme = "digest", username = "mufasa", password = { env = "HIDDEN" } }')
    proxy = intercepting(policy, proxy="workers = 1", environment={"HIDDEN": SECRET})
    proxy.secrets.append(SECRET)
    client = inside(proxy, "a.test", origin.port)
    fields = [("content-length", str(len(body)))]
    number = client.request(f"a.test:{origin.port}", "/x?a=1", *fields, method="POST", body=body)
    got = client.wait(number)
    assert (got.status, got.body) == (200, str(len(body)).encode()), got
    assert len(origin.protocols) == 1 and [bool(one.value("authorization")) for one in origin.requests] == [False, True]


class Waiting(Link):
    """It answers a head that has credentials only once its body is there."""

    def take(self, event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.origin.early = not any(name == b"authorization" for name, _ in event.headers)
        super().take(event)


# Liveness

HASTY = rule("hasty", 'hosts = ["a.test"]', 'paths = ["/never"]', request='timeout = "1500ms"')
ONE_LOOP = 'workers = 1\ntimeouts = { connect = "500ms" }'


def test_a_time_out_on_a_connection_that_lives_costs_a_ping(intercepting, inside, h2_origin):
    origin = h2_origin(lambda link, request: None if request.path in ("/never", "/slow") else ok(link, request))
    proxy = intercepting(HASTY, proxy=ONE_LOOP)
    client = inside(proxy, "a.test", origin.port)
    slow = client.request(f"a.test:{origin.port}", "/slow")
    origin.wait_until(lambda: origin.requests)
    assert client.get(f"a.test:{origin.port}", "/never").status == 504
    origin.wait_until(lambda: origin.links[0].pings == 1)
    # Its answer to PING comes before this one, and is as good as any sign of life.
    origin.links[0].respond(origin.requests[0], 200, body=b"late")
    assert client.wait(slow).body == b"late"
    assert client.get(f"a.test:{origin.port}").status == 200
    assert {request.connection for request in origin.requests} == {1} and origin.links[0].pings == 1


def test_a_connection_that_leads_nowhere_is_not_used_again(intercepting, inside, h2_origin):
    released = threading.Event()

    class Deaf(Link):
        """It reads nothing after a request for this path, as behind a router that has forgotten the connection."""

        def take(self, event) -> None:
            super().take(event)
            if self.open and next(reversed(self.open.values())).path == "/never":
                released.wait(DEADLINE_SECONDS)

    origin = h2_origin(lambda link, request: None if request.path == "/never" else ok(link, request), link=Deaf)
    proxy = intercepting(HASTY, proxy=ONE_LOOP)
    try:
        client = inside(proxy, "a.test", origin.port)
        assert client.get(f"a.test:{origin.port}").status == 200
        assert client.get(f"a.test:{origin.port}", "/never").status == 504
        # At once, and on another connection.
        assert client.get(f"a.test:{origin.port}").status == 200
        assert [request.connection for request in origin.requests] == [1, 1, 2]
        line = proxy.log.wait_for(lambda line: "no answer to PING within 500 ms" in line.get("message", ""))
        assert line["level"] == "warning" and f"with a.test port {origin.port}" in line["message"]
    finally:
        released.set()


@pytest.mark.parametrize("rests", [False, True])
def test_a_request_that_its_client_gives_up_soon_costs_no_ping(rests, intercepting, inside, h2_origin):
    """Nor if the connection had nothing to say for long before it."""
    origin = h2_origin(lambda link, request: None if request.path == "/never" else ok(link, request))
    proxy = intercepting(rule("slow", 'hosts = ["b.test"]', 'connect = "intercept"', request='timeout = "1500ms"'), proxy="workers = 1")
    client = inside(proxy, "a.test", origin.port)
    if rests:
        other = h2_origin(lambda link, request: None, names=("b.test",))
        assert client.get(f"a.test:{origin.port}").status == 200
        assert inside(proxy, "b.test", other.port).get(f"b.test:{other.port}").status == 504
        origin.requests.clear()
    number = client.request(f"a.test:{origin.port}", "/never")
    origin.wait_until(lambda: origin.requests)
    client.reset(number)
    origin.wait_until(lambda: origin.requests[0].reset is not None)
    assert client.get(f"a.test:{origin.port}").status == 200
    assert origin.links[0].pings == 0 and len(origin.protocols) == 1


# Stored answers


@pytest.mark.parametrize("times, body, asked", [(1, b"new", 3), (100, b"stored", 6)], ids=["once", "always"])
def test_a_stored_answer_stands_in_for_an_origin_that_refuses_too_often(times, body, asked, intercepting, inside, h2_origin):
    """And only then: a stream that was refused goes again first."""
    left = []

    def answer(link, request):
        if len(origin.requests) == 1:
            return link.respond(request, 200, ("cache-control", "max-age=100"), ("age", "1000"), body=b"stored")
        if len(left) < times:
            left.append(request)
            return link.reset(request, REFUSED)
        link.respond(request, 200, body=b"new")

    origin = h2_origin(answer)
    policy = '[cache]\n[[rule]]\nname = "kept"\nhosts = ["a.test"]\nconnect = "intercept"\n[rule.cache]\nstale_if_error = "1d"\n'
    client = inside(intercepting(policy, proxy="workers = 1"), "a.test", origin.port)
    assert client.get(f"a.test:{origin.port}").body == b"stored"
    assert client.get(f"a.test:{origin.port}").body == body
    assert len(origin.requests) == asked
