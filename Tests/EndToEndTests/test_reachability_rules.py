"""Rules and routes that ask by what link: `when` of both, allows_cellular_access, the throttle's `when`, and explain.

A rule asks for the machine, so for its default route; a route, and allows_cellular_access, for the destination.
"""

import time

import pytest

from network_world import FAR, Link, network
from origins import answering, tunnel_echo
from problems import check_problem
from proxy import command, configuration_text
from reachability_world import (
    check_cellular,
    check_ended_at_once,
    check_not_reachable,
    connect,
    events_until,
    far_origin,
    get,
    local_client,
    reaching,
    status_is,
    tells_the_way,
    way_of,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def links(network) -> dict[str, Link]:
    """The machine is on the wired one."""
    made = {"wired": network.wire("eth0"), "wifi": network.wire("wlan0"), "wwan": network.wire("wwan0")}
    network.go_by(made["wired"])
    return made


def lead_over(network, link: Link, address: str) -> None:
    """A route of its own for this address."""
    network.machine.ip("route", "replace", f"{address}/32", "via", link.far, "dev", link.name)


# Rules

MARKED = "".join(
    f'[[rule]]\nname = "on-{kind}"\nwhen = ["{kind}"]\n[rule.request]\nheaders.set = {{ X-Rule = "{kind}" }}\n'
    for kind in ("wired", "wifi")
)


def test_a_rule_holds_while_the_default_route_is_of_its_kind(
    network, reaching, local_client, far_origin, links
):
    proxy, origin = reaching(MARKED), far_origin()
    watcher, client = proxy.admin.events(), local_client(proxy)
    for kind in ("wired", "wifi", "wwan", "wifi", "wired"):
        network.go_by(links[kind])
        if kind != "wired" or client.answered:
            events_until(watcher, status_is(kind))
        way = way_of(client.exchange(get(origin)))
        assert (way.rule, way.source) == ("-" if kind == "wwan" else kind, links[kind].near)
    lines = proxy.log.wait_for_several(5, lambda entry: "total_ms" in entry)
    assert [line["rule"] for line in lines] == ["on-wired", "on-wifi", None, "on-wifi", "on-wired"]


def test_a_rule_asks_for_the_machine_and_not_for_the_destination(
    network, reaching, local_client, far_origin, links
):
    """Nothing need be looked up to decide: a destination over another link, or on this machine, changes nothing."""
    lead_over(network, links["wifi"], FAR[5])
    client = local_client(reaching(MARKED))
    way = way_of(client.exchange(get(far_origin(address=FAR[5]))))
    assert (way.rule, way.source) == ("wired", links["wifi"].near)


def test_a_machine_without_a_network_is_on_no_link(network, reaching, local_client, raw_origin, links):
    network.go_nowhere()
    with network.machine:
        origin = raw_origin(tells_the_way)
    assert way_of(local_client(reaching(MARKED)).exchange(get(origin))).rule == "-"


def test_a_rule_for_several_kinds_that_denies(network, reaching, local_client, far_origin, links):
    policy = '[[rule]]\nname = "radio"\nwhen = ["wifi", "wwan"]\naction = "deny"\nreason = "Not by radio."\n'
    proxy, origin = reaching(policy), far_origin(tunnel_echo)
    watcher = proxy.admin.events()
    assert local_client(proxy).exchange(connect(origin)).status == 200
    for kind in ("wifi", "wwan"):
        network.go_by(links[kind])
        events_until(watcher, status_is(kind))
        for data in (get(origin), connect(origin)):
            problem = check_problem(local_client(proxy).exchange(data), 403, rule="radio")
            assert problem.token == "denied" and "Not by radio." in problem.body["detail"]
    assert len(origin.connections) == 1


@pytest.mark.parametrize("value", ['["cellular"]', '["wifi", 3]', "true"])
@pytest.mark.parametrize(
    "table", ['[[rule]]\nname = "r"\n', '[routes.r]\nvia = "direct"\n[[rule]]\nname = "x"\nroute = ["r"]\n']
)
def test_a_kind_that_is_none(table, value, sallyport_binary, tmp_path):
    text = table.replace('via = "direct"\n', f'via = "direct"\nwhen = {value}\n')
    if text == table:
        text += f"when = {value}\n"
    (tmp_path / "sallyport.toml").write_text(configuration_text(policy=text))
    done = command("check", "--config", "sallyport.toml", cwd=tmp_path)
    assert done.returncode == 1 and "when" in done.stdout + done.stderr, done


# Routes

BY_KIND = """
[[rule]]
name = "r"
route = ["cable", "radio"]
[routes.cable]
via = "direct"
when = ["wired"]
[routes.radio]
via = "direct"
when = ["wifi"]
interface = "wlan0"
"""


def test_the_first_route_whose_when_holds_is_taken(network, reaching, local_client, far_origin, links):
    proxy, origin = reaching(BY_KIND), far_origin()
    watcher, client = proxy.admin.events(), local_client(proxy)
    names = []
    for kind in ("wired", "wifi", "wired"):
        network.go_by(links[kind])
        if names:
            events_until(watcher, status_is(kind))
        assert way_of(client.exchange(get(origin))).source == links[kind].near
        names.append(proxy.log.wait_for_several(len(names) + 1, lambda e: "total_ms" in e)[-1]["route"])
    assert names == ["cable", "radio", "cable"]


@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_where_no_route_holds_nothing_goes_direct(method, network, reaching, local_client, far_origin, links):
    """A silent fall-back to direct would be a bypass: it is taken only where the rule lists it."""
    network.go_by(links["wwan"])
    origin, proxy = far_origin(), reaching(BY_KIND)
    begun = time.monotonic()
    problem = check_not_reachable(
        local_client(proxy).exchange(connect(origin) if method == "CONNECT" else get(origin)), "r"
    )
    check_ended_at_once(begun)
    assert "cable" in problem.body["detail"] and "radio" in problem.body["detail"]
    line = proxy.access_of(problem.reference)
    assert (line["route"], line["upstream"]) == (None, None)
    assert not origin.connections
    watched = reaching(BY_KIND.replace('"radio"]', '"radio", "direct"]'))
    assert way_of(local_client(watched).exchange(get(origin))).source == links["wwan"].near
    assert watched.access()["route"] == "direct"


def test_a_route_asks_for_its_destination(network, reaching, local_client, far_origin, links):
    """The machine is on the wire, and this destination is reached by radio."""
    lead_over(network, links["wifi"], FAR[5])
    proxy = reaching(BY_KIND)
    client = local_client(proxy)
    assert way_of(client.exchange(get(far_origin(address=FAR[5])))).source == links["wifi"].near
    assert way_of(client.exchange(get(far_origin(address=FAR[6])))).source == links["wired"].near
    lines = proxy.log.wait_for_several(2, lambda entry: "total_ms" in entry)
    assert [line["route"] for line in lines] == ["radio", "cable"]


def test_two_routes_share_no_connection(network, reaching, local_client, far_origin, links):
    """One is bound to an interface, the other is not: pooled by route, though the destination is the same."""
    network.go_by(links["wifi"])
    policy = '[[rule]]\nname = "a"\npaths = ["/bound"]\nroute = ["bound"]\n'
    policy += '[routes.bound]\nvia = "direct"\ninterface = "wlan0"\n'
    client, origin = local_client(reaching(policy)), far_origin()
    ways = [way_of(client.exchange(get(origin, path))) for path in ("/bound", "/free", "/bound", "/free")]
    assert [way.connection for way in ways] == [0, 1, 0, 1]


# Cellular

NO_CELLULAR = '[[rule]]\nname = "home"\n[rule.request]\nallows_cellular_access = false\n'


def test_cellular_access_that_is_not_allowed(network, reaching, local_client, far_origin, links):
    proxy, origin = reaching(NO_CELLULAR), far_origin()
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(origin))).source == links["wired"].near
    for kind in ("wwan", "wifi", "wwan", "wired"):
        network.go_by(links[kind])
        events_until(watcher, status_is(kind))
        if kind != "wwan":
            assert way_of(client.exchange(get(origin))).source == links[kind].near
            continue
        problem = check_cellular(client.exchange(get(origin)), "home")
        line = proxy.access_of(problem.reference)
        assert (line["outcome"], line["upstream"]) == ("cellular-not-allowed", None)
        check_cellular(local_client(proxy).exchange(connect(origin)), "home")
    assert len(origin.connections) == 3, "one for each link that is allowed"


def test_cellular_access_is_of_the_destination(
    network, reaching, local_client, far_origin, raw_origin, links
):
    lead_over(network, links["wwan"], FAR[5])
    proxy, over_modem, over_wire = (
        reaching(NO_CELLULAR),
        far_origin(address=FAR[5]),
        far_origin(address=FAR[6]),
    )
    watcher, client = proxy.admin.events(), local_client(proxy)
    assert way_of(client.exchange(get(over_wire))).source == links["wired"].near
    check_cellular(client.exchange(get(over_modem)), "home")
    lead_over(network, links["wired"], FAR[6])
    network.go_by(links["wwan"])
    events_until(watcher, status_is("wwan"))
    assert way_of(client.exchange(get(over_wire))).source == links["wired"].near
    with network.machine:
        here = raw_origin(tells_the_way)
    assert way_of(client.exchange(get(here))).source == "127.0.0.1"
    assert not over_modem.connections


def test_cellular_access_is_allowed_by_default(network, reaching, local_client, far_origin, links):
    network.go_by(links["wwan"])
    policy = '[[rule]]\nname = "r"\n[rule.request]\nallows_cellular_access = true\n'
    for text in ("", policy):
        assert way_of(local_client(reaching(text)).exchange(get(far_origin()))).source == links["wwan"].near


def test_a_request_under_way_is_left_alone_when_the_link_becomes_cellular(
    network, reaching, local_client, far_origin, links
):
    def late(connection) -> None:
        connection.read_request()
        connection.send(OK[:-1])
        events_until(watcher, status_is("wwan"))
        connection.send(OK[-1:])
        connection.wait_for_end()

    proxy, origin = reaching(NO_CELLULAR), far_origin(late)
    watcher, client = proxy.admin.events(), local_client(proxy)
    client.send(get(origin))
    client.receive_until(b"o")
    client.read_to = 0
    network.go_by(links["wwan"])
    assert client.answer().body == b"ok"


def test_the_next_route_is_taken_where_cellular_access_is_not_allowed(
    network, reaching, local_client, far_origin, links
):
    network.machine.batch(links["wwan"].default, f"{links['wifi'].default} metric 900")
    policy = NO_CELLULAR.replace("[rule.request]", 'route = ["direct", "radio"]\n[rule.request]')
    policy += '[routes.radio]\nvia = "direct"\ninterface = "wlan0"\n'
    proxy = reaching(policy)
    assert proxy.admin.json("/v1/reachability")["status"] == "wwan"
    assert way_of(local_client(proxy).exchange(get(far_origin()))).source == links["wifi"].near
    assert proxy.access()["route"] == "radio"


def test_a_rule_that_is_not_enforced_only_reports_it(network, reaching, local_client, far_origin, links):
    network.go_by(links["wwan"])
    policy = NO_CELLULAR.replace("[rule.request]", "enforce = false\n[rule.request]")
    proxy = reaching(policy)
    assert way_of(local_client(proxy).exchange(get(far_origin()))).source == links["wwan"].near
    assert "cellular" in proxy.access()["report"]


# The throttle

THROTTLED = (
    '[[rule]]\nname = "r"\n[rule.request]\n'
    'throttle = {{ packet = "1KiB", delay = "{}", when = ["wwan", "wifi"] }}\n'
)


def upload(origin, body: bytes) -> bytes:
    return get(origin, method="POST", lines=f"Content-Length: {len(body)}\r\n") + body


def test_a_throttle_holds_on_its_links_only(network, reaching, local_client, far_origin, links):
    proxy, origin = reaching(THROTTLED.format("100ms")), far_origin(answering(OK))
    watcher, body = proxy.admin.events(), bytes(range(256)) * 24
    for kind, held in (("wwan", True), ("wired", False), ("wifi", True)):
        network.go_by(links[kind])
        events_until(watcher, status_is(kind))
        begun = time.monotonic()
        assert local_client(proxy).exchange(upload(origin, body)).status == 200
        took = time.monotonic() - begun
        if held:
            assert took >= 5 * 0.1 * 0.9, f"6 packets on {kind} took {took:.3f} s"
        assert origin.requests()[-1].body == body


def test_a_throttle_of_another_link_does_not_hold_at_all(network, reaching, local_client, far_origin, links):
    """Were it throttled, this would take hours."""
    proxy, origin = reaching(THROTTLED.format("1m")), far_origin(answering(OK))
    body = b"x" * 1_000_000
    assert local_client(proxy).exchange(upload(origin, body)).status == 200
    assert origin.requests()[0].body == body


# explain

EXPLAINED = """
[[rule]]
name = "on-wire"
hosts = ["a.test"]
when = ["wired"]
[[rule]]
name = "by-radio"
hosts = ["a.test"]
when = ["wifi", "wwan"]
action = "deny"
"""


def explain(directory, *arguments: str):
    (directory / "sallyport.toml").write_text(configuration_text(policy=EXPLAINED))
    return command(
        "explain", "--config", "sallyport.toml", "GET", "http://a.test/", *arguments, cwd=directory
    )


@pytest.mark.parametrize("kind", ["wired", "wifi", "wwan"])
def test_explain_for_a_kind_of_link(kind, sallyport_binary, tmp_path):
    done = explain(tmp_path, "--when", kind)
    wired = kind == "wired"
    assert done.returncode == (0 if wired else 3), done
    first = done.stdout.split("rules before it")[0]
    assert ("'on-wire'" if wired else "'by-radio'") in first, done.stdout
    if not wired:
        why = done.stdout.split("rules before it")[1]
        assert "on-wire" in why and "when" in why and "wired" in why and kind in why


@pytest.mark.parametrize("value", ["cellular", "WIFI", ""])
def test_explain_for_what_is_no_kind(value, sallyport_binary, tmp_path):
    done = explain(tmp_path, "--when", value)
    assert done.returncode == 2 and "wwan" in done.stderr and done.stdout == "", done
    assert explain(tmp_path, "--when").returncode == 2
