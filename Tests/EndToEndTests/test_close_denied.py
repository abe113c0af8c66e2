"""sallyport reload --close-denied: what the new policy denies ends, and nothing else does."""

import json

import pytest

from admin_client import AdminClient
from cache_world import Site, said
from origins import tunnel_echo
from problems import check_problem
from proxy import command
from reachability_world import ADMIN

DENY = '[[rule]]\nname = "no-more"\nhosts = ["localhost"]\naction = "deny"\n'


@pytest.fixture
def world(sallyport, raw_origin, raw_client):
    site = Site()
    origin = raw_origin(site)
    echo = raw_origin(tunnel_echo)
    proxy = sallyport(proxy="workers = 2\ndeny_addresses = []", policy=ADMIN)
    proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")

    class World:
        pass

    world = World()
    world.proxy, world.site, world.origin = proxy, site, origin

    def start(host: str, path: str):
        client = raw_client(proxy)
        port = origin.authority.split(":")[1]
        client.send(f"GET http://{host}:{port}{path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        return client

    def tunnel(host: str):
        client = raw_client(proxy)
        client.send(f"CONNECT {host}:{echo.port} HTTP/1.1\r\nHost: {host}:{echo.port}\r\n\r\n".encode())
        client.receive_until(b"\r\n\r\n")
        client.looked_at = False
        return client

    world.start, world.tunnel = start, tunnel
    yield world
    site.release()


def change(world, policy: str) -> None:
    text = world.proxy.configuration.read_text()
    world.proxy.configuration.write_text(text + "\n" + policy)


def test_what_is_denied_now_ends_and_the_rest_goes_on(world):
    held = world.site.hold("/slow")
    waiting = world.start("localhost", "/slow")
    request = held.next()
    kept = world.start("127.0.0.1", "/slow")
    other = held.next()
    ended, open_one = world.tunnel("localhost"), world.tunnel("127.0.0.1")
    change(world, DENY)
    done = command("reload", "--close-denied", "--socket", world.proxy.configuration.parent / "admin.sock")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ended 2 that the policy now denies")
    problem = check_problem(waiting.answer(), 403)
    assert problem.token == "denied"
    assert request.wait_for_end()
    assert not ended.receive_some()
    other.say(said(body=b"done"))
    assert kept.answer().body == b"done"
    open_one.send(b"still here\n")
    assert open_one.receive_some()
    outcomes = [
        world.proxy.access(lambda line, method=method: line["method"] == method)["outcome"]
        for method in ("GET", "CONNECT")
    ]
    assert outcomes == ["denied", "policy-changed"]


def test_without_the_word_everything_goes_on(world):
    tunnel = world.tunnel("localhost")
    change(world, DENY)
    assert command("reload", "-c", world.proxy.configuration).returncode == 0
    tunnel.send(b"still here\n")
    assert tunnel.receive_some()


def test_a_broken_configuration_ends_nothing(world):
    tunnel = world.tunnel("localhost")
    change(world, DENY + "nonsense = 1\n")
    socket = world.proxy.configuration.parent / "admin.sock"
    assert command("reload", "--close-denied", "--socket", socket).returncode == 1
    tunnel.send(b"still here\n")
    assert tunnel.receive_some()


def test_as_json(world):
    world.tunnel("localhost")
    change(world, DENY)
    answer = world.proxy.admin.ask("/v1/reload?close_denied=true", method="POST")
    assert (answer.status, json.loads(answer.body)) == (200, {"rules": 1, "closed": 1})
    assert world.proxy.admin.ask("/v1/reload?close_denied=no", method="POST").status == 400


def test_what_the_log_shows_only_the_beginning_of_ends(world):
    """It cannot be decided again."""
    held = world.site.hold("/" + "a" * 2000 + "/secret")
    waiting = world.start("127.0.0.1", "/" + "a" * 2000 + "/secret")
    held.next()
    change(world, '[[rule]]\nname = "no-more"\npaths = ["*/secret"]\naction = "deny"\n')
    done = command("reload", "--close-denied", "--socket", world.proxy.configuration.parent / "admin.sock")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ended 1 that the policy now denies")
    assert check_problem(waiting.answer(), 403).token == "denied"
