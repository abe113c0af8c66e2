"""What an operator does to what goes on: sallyport cancel and flush."""

import json
import os

import pytest

from admin_client import AdminClient
from cache_world import Site, said
from origins import tunnel_echo
from problems import check_problem
from proxy import command
from reachability_world import ADMIN

RULES = """
[[rule]]
name = "slow"
paths = ["/slow"]
"""


@pytest.fixture
def world(sallyport, raw_origin, raw_client):
    """A proxy with an API, an origin that answers when the test says so, and clients."""
    site = Site()
    origin = raw_origin(site)
    # Each loop keeps connections of its own.
    proxy = sallyport(proxy="workers = 1", policy=ADMIN + RULES)
    proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")

    class World:
        pass

    world = World()
    world.proxy, world.site, world.origin, world.admin = proxy, site, origin, proxy.admin

    def start(path: str):
        client = raw_client(proxy)
        client.send(f"GET {origin.url}{path} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
        return client

    world.start = start
    world.cancel = lambda query: proxy.admin.ask(f"/v1/cancel?{query}", method="POST")
    yield world
    site.release()


def references(world) -> list[str]:
    return [entry["ref"] for entry in world.admin.json("/v1/connections") if entry["request"] is not None]


@pytest.mark.parametrize("by", ["ref", "host", "rule", "user", "number", "all of them"])
def test_a_request_that_waits_is_ended_and_told(by, world):
    held = world.site.hold("/slow")
    client = world.start("/slow")
    request = held.next()
    (reference,) = references(world)
    query = {
        "ref": f"ref={reference}",
        "host": "host=127.0.0.1",
        "rule": "rule=slow",
        "user": "user=root",
        "number": f"user={os.getuid()}",
        "all of them": f"ref={reference}&host=127.0.0.1&rule=slow&user=root",
    }[by]
    answer = world.cancel(query)
    assert (answer.status, json.loads(answer.body)) == (200, {"cancelled": 1})
    problem = check_problem(client.answer(), 403)
    assert problem.token == "cancelled"
    assert request.wait_for_end()
    assert world.proxy.access()["outcome"] == "cancelled"


@pytest.mark.parametrize("query", ["ref=AAAAAA", "host=b.example", "rule=other", "user=nobody", "rule=slow&user=nobody"])
def test_others_go_on(query, world):
    held = world.site.hold("/slow")
    client = world.start("/slow")
    request = held.next()
    assert world.cancel(query).status == 404
    request.say(said(body=b"done"))
    assert client.answer().body == b"done"


def test_an_answer_that_has_begun_is_cut(world):
    held = world.site.hold("/x")
    client = world.start("/x")
    request = held.next()
    request.send(said(body=bytes(1000)).head() + bytes(10))
    client.receive_until(b"\r\n\r\n")
    assert json.loads(world.cancel("host=127.0.0.1").body) == {"cancelled": 1}
    client.wait_for_end()
    assert len(client.received) < 1000, "what came is not the whole"
    assert world.proxy.access()["outcome"] == "cancelled"


def test_a_tunnel_is_ended(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=ADMIN)
    echo = raw_origin(tunnel_echo)
    client = raw_client(proxy)
    assert client.exchange(f"CONNECT {echo.authority} HTTP/1.1\r\nHost: {echo.authority}\r\n\r\n".encode()).status == 200
    client.send(b"hello")
    assert client.receive_exactly(5) == b"hello"
    answer = AdminClient(proxy.configuration.parent / "admin.sock").ask("/v1/cancel?host=127.0.0.1", method="POST")
    assert json.loads(answer.body) == {"cancelled": 1}
    client.wait_for_end()
    assert proxy.access()["outcome"] == "cancelled"


def test_all_of_a_kind_are_ended(world):
    held = world.site.hold("/slow")
    clients = [world.start("/slow") for _ in range(20)]
    for _ in clients:
        held.next()
    assert json.loads(world.cancel("rule=slow").body) == {"cancelled": 20}
    for client in clients:
        assert check_problem(client.answer(), 403).token == "cancelled"


def test_a_mapped_request_is_ended_by_either_of_its_hosts(sallyport, raw_origin, raw_client):
    site = Site()
    origin = raw_origin(site)
    proxy = sallyport(
        policy=ADMIN + f'[[rule]]\nname = "api"\nhosts = ["api.test"]\nschemes = ["http"]\ntarget = "{origin.url}/"\n')
    held = site.hold("/x")
    for host in ("api.test", "127.0.0.1"):
        client = raw_client(proxy)
        client.send(b"GET http://API.test/x HTTP/1.1\r\nHost: api.test\r\n\r\n")
        held.next()
        admin = AdminClient(proxy.configuration.parent / "admin.sock")
        assert json.loads(admin.ask(f"/v1/cancel?host={host}", method="POST").body) == {"cancelled": 1}
        assert check_problem(client.answer(), 403).token == "cancelled"
    site.release()


@pytest.mark.parametrize("query", ["", "&", "&&", "ref=x", "host=a&host=b", "what=x"])
def test_what_is_not_understood_ends_nothing(query, world):
    assert world.cancel(query).status == 400


def test_the_command_ends_them_and_says_how_many(world):
    held = world.site.hold("/slow")
    client = world.start("/slow")
    held.next()
    done = command("cancel", "--rule", "slow", "--socket", world.admin.path)
    assert (done.returncode, done.stdout) == (0, "ended 1 request or tunnel\n")
    check_problem(client.answer(), 403)
    done = command("cancel", "--rule", "slow", "--socket", world.admin.path)
    assert (done.returncode, done.stderr) == (1, "nothing of the kind is under way\n")
    done = command("cancel", "--socket", world.admin.path)
    assert done.returncode == 2 and "expected a REF" in done.stderr


def test_kept_connections_are_dropped(world):
    world.site.say("/x", said())
    for _ in range(2):
        assert world.start("/x").answer().status == 200
    assert len(world.origin.connections) == 1
    done = command("flush", "--socket", world.admin.path)
    assert done.returncode == 0 and done.stdout.startswith("dropped 1 kept connection, 0 TLS sessions"), done
    assert world.start("/x").answer().status == 200
    assert len(world.origin.connections) == 2


def test_a_request_under_way_outlives_it(world):
    held = world.site.hold("/slow")
    client = world.start("/slow")
    request = held.next()
    assert json.loads(world.admin.ask("/v1/flush", method="POST").body) == {"connections": 0, "tls_sessions": 0}
    request.say(said(body=b"done"))
    assert client.answer().body == b"done"
