"""Rules about users and units on every way to an origin: who is denied is, and who is in doubt too."""

import contextlib
import socket

from cgroup_world import groups
from origins import answering
from parents import routed
from problems import check_problem
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from tls_world import OK, authority, rule, secure_client, secure_proxy, tls_origin, world
from users_world import NUMBERED, ROOT, STRANGER, acting_as
from ways import way


def denying(condition: str) -> str:
    return rule("denied", condition, 'paths = ["/secret"]', 'action = "deny"')


def socket_of(user: int) -> socket.socket:
    with acting_as(user):
        return socket.socket()


DENY_ALL = rule("rest", 'action = "deny"')


def check_ways(started, made_by_the_denied, made_by_another) -> None:
    """The one is refused what the rule names, on its first request and behind another; the other is not."""
    check_problem(started.ask("GET", path="/secret", made=made_by_the_denied()), 403, rule="denied")
    client = started.enter(made_by_the_denied())
    assert client.exchange(started.head("GET", path="/open")).status == 200
    for method in ("GET", "POST"):
        lines = "Content-Length: 0\r\n" if method == "POST" else ""
        check_problem(client.exchange(started.head(method, lines, path="/secret")), 403, rule="denied")
    assert started.ask("GET", path="/secret", made=made_by_another()).status == 200
    assert [request.target.split(b"/")[-1] for request in started.requests] == [b"open", b"secret"]


def test_a_user_that_is_denied(way):
    started = way(answering(OK), before=denying(f"users = [{STRANGER}]"))
    check_ways(started, lambda: socket_of(STRANGER), lambda: socket_of(NUMBERED))


def test_a_unit_that_is_denied(way, groups):
    started = way(answering(OK), before=denying('units = ["secret.service"]'))
    place, beside = (groups.make(f"{groups.own_slice()}/{name}.service") for name in ("secret", "other"))
    check_ways(started, lambda: groups.socket(place, STRANGER), lambda: groups.socket(beside, STRANGER))


def test_a_unit_that_cannot_be_known(way, groups):
    """A control group that is gone: it may have been the unit's that is denied."""
    started = way(answering(OK), before=denying('units = ["secret.service"]'))
    beside = groups.make(groups.own_slice() + "/other.service")

    def made_in_a_group_that_is_gone() -> socket.socket:
        place = groups.make(groups.own_slice() + "/secret.service")
        made = groups.socket(place, STRANGER)
        groups.remove(place)
        return made

    check_ways(started, made_in_a_group_that_is_gone, lambda: groups.socket(beside, ROOT))


def test_what_a_rule_adds_for_a_unit_is_not_for_who_is_in_doubt(way, groups):
    """The rule that adds a secret and takes the way is the unit's alone: nobody else's request gets either."""
    only = 'units = ["secret.service"]'
    started = way(answering(OK), only, request='headers.set = { X-Token = { env = "HIDDEN" } }', after=DENY_ALL)
    place = groups.make(groups.own_slice() + "/secret.service")
    assert started.ask("GET", path="/in", made=groups.socket(place, STRANGER)).status == 200
    gone = groups.make(groups.own_slice() + "/secret.service")
    in_doubt, beside = groups.socket(gone, STRANGER), socket_of(STRANGER)
    groups.remove(gone)
    for made in (in_doubt, beside):
        answer = started.reach("GET", "/out", made)
        check_problem(answer, 403, rule="rest")
    assert [request.target.split(b"/")[-1] for request in started.requests] == [b"in"]
