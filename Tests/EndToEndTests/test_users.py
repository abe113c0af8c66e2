"""Rules that name users: whose rules a client gets, over both families, kept connections and reloads; explain.

(Who tries to pass for another is in test_users_spoofing.py; units are tested under a systemd, in SystemTests.)
"""

import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from conftest import need
from journal import DEADLINE_SECONDS
from origins import tunnel_echo
from problems import check_problem
from proxy import clean_environment, command, configuration_text
from reachability_world import ADMIN, connect, get, tells_the_way, way_of
from test_policy import first_refusal
from users_world import DENY, NAMED, NUMBERED, OWN, ROOT, STRANGER, THREE, client_of, guarded, rule_of

# Who asks

OWNERS = {
    "by name": (NAMED, "named", "daemon"),
    "by number": (NUMBERED, "numbered", str(NUMBERED)),
    "root": (ROOT, "root", "root"),
    "nobody of the list": (STRANGER, "-", str(STRANGER)),
}


@pytest.mark.parametrize("listen", ['["127.0.0.1:0"]', '["[::1]:0"]'], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("name", OWNERS)
def test_users_get_their_rules(name, listen, guarded, raw_origin, client_of):
    user, rule, shown = OWNERS[name]
    proxy, origin = guarded(THREE, listen=listen), raw_origin(tells_the_way)
    client = client_of(proxy, user)
    for number in range(3):
        assert way_of(client.exchange(get(origin, f"/{number}"))).rule == rule
    lines = proxy.log.wait_for_several(3, lambda entry: "total_ms" in entry)
    assert [(line["user"], line["rule"]) for line in lines] == [(shown, rule if rule != "-" else None)] * 3


@pytest.mark.parametrize("user", [NAMED, NUMBERED, STRANGER])
def test_programs_of_users_get_their_rules(user, guarded, raw_origin):
    need("curl", "setpriv")
    proxy, origin = guarded(THREE), raw_origin(tells_the_way)
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    if subprocess.run([*become, "true"], cwd="/", capture_output=True).returncode != 0:
        pytest.skip("needs root, to be several users")
    done = subprocess.run(
        [*become, shutil.which("curl"), "-sS", "-x", proxy.url, origin.url],
        capture_output=True,
        text=True,
        cwd="/",
        env=clean_environment(HOME="/"),
        timeout=DEADLINE_SECONDS,
    )
    assert done.stdout.split()[2:3] == [{NAMED: "named", NUMBERED: "numbered"}.get(user, "-")], done


def test_a_mapped_address_is_that_of_its_user(guarded, raw_origin, client_of):
    """A socket of both families that goes to ::ffff:127.0.0.1 is one of IPv6 to the kernel that looks for it."""
    proxy, origin = guarded(THREE), raw_origin(tells_the_way)
    mapped = (f"::ffff:{proxy.address[0]}", proxy.address[1])
    for user, rule in ((NUMBERED, "numbered"), (ROOT, "root"), (STRANGER, "-")):
        client = client_of(mapped, user, family=socket.AF_INET6)
        assert way_of(client.exchange(get(origin))).rule == rule


def test_the_first_rule_that_holds_decides(guarded, raw_origin, client_of):
    policy = (
        rule_of("no-guests", STRANGER, "nobody", action="deny")
        + rule_of("both", NAMED, NUMBERED)
        + rule_of("all")
    )
    proxy, origin = guarded(policy), raw_origin(tells_the_way)
    for user, rule in ((NAMED, "both"), (NUMBERED, "both"), (ROOT, "all")):
        assert way_of(client_of(proxy, user).exchange(get(origin))).rule == rule
    for user in (STRANGER, pwd.getpwnam("nobody").pw_uid):
        problem = check_problem(client_of(proxy, user).exchange(get(origin)), 403, rule="no-guests")
        assert proxy.access_of(problem.reference)["user"] in (str(STRANGER), "nobody")


def test_a_tunnel_is_its_users(guarded, raw_origin, client_of):
    origin = raw_origin(tunnel_echo)
    listed = rule_of("numbered", NUMBERED).replace("users", f"ports = [{origin.port}]\nusers", 1)
    proxy = guarded(listed, DENY)
    client = client_of(proxy, NUMBERED)
    assert client.exchange(connect(origin)).status == 200
    # A line: a word without an end could still become a request, of which the rule speaks.
    client.send(b"sally\n")
    assert client.receive_exactly(6) == b"sally\n"
    client.close()
    line = proxy.access(lambda line: line["method"] == "CONNECT")
    assert (line["user"], line["rule"]) == (str(NUMBERED), "numbered")
    for user in (ROOT, STRANGER):
        check_problem(client_of(proxy, user).exchange(connect(origin)), 403)
    assert len(origin.connections) == 1


def test_nobody_is_looked_up_where_neither_a_rule_nor_the_log_asks(guarded, raw_origin, client_of):
    proxy, origin = guarded("[log]\nwho = false\n" + rule_of("all")), raw_origin(tells_the_way)
    assert way_of(client_of(proxy, NUMBERED).exchange(get(origin))).rule == "all"
    line = proxy.access()
    assert (line["user"], line["unit"]) == (None, None)


def test_many_users_at_once(guarded, raw_origin, client_of):
    """Each connection is its owner's, on whichever loop and in whichever order they ask."""
    policy = "".join(rule_of(f"u{user}", user) for user in range(60000, 60040))
    proxy, origin = guarded(policy, "workers = 2"), raw_origin(tells_the_way)
    clients = [(user, client_of(proxy, user)) for user in list(range(60000, 60040)) * 3]
    for turn in (clients, clients[::-1]):
        for _, client in turn:
            client.send(get(origin))
        assert all(way_of(client.answer()).rule == f"u{user}" for user, client in turn)


# Policies


def test_a_kept_connection_is_decided_anew_after_a_reload_that_adds_users(guarded, raw_origin, client_of):
    proxy, origin = guarded(rule_of("all")), raw_origin(tells_the_way)
    owner, stranger = client_of(proxy, NUMBERED), client_of(proxy, STRANGER)
    for client in (owner, stranger):
        assert way_of(client.exchange(get(origin))).rule == "all"
    proxy.reload(proxy=DENY, policy=ADMIN + OWN)
    check_problem(first_refusal(stranger, get(origin)), 403)
    assert way_of(owner.exchange(get(origin))).rule == "own"
    line = proxy.access(lambda line: line["rule"] == "own")
    assert line["user"] == str(NUMBERED)
    assert proxy.access(lambda line: line["status"] == 403)["user"] == str(STRANGER)


def test_a_kept_connection_is_decided_anew_when_users_change(guarded, raw_origin, client_of):
    """Whose it is has been looked up already; what follows from it is of the new policy."""
    proxy, origin = guarded(OWN, DENY), raw_origin(tells_the_way)
    client = client_of(proxy, STRANGER)
    check_problem(client.exchange(get(origin)), 403)
    proxy.reload(proxy=DENY, policy=ADMIN + rule_of("own", STRANGER))
    end = time.monotonic() + DEADLINE_SECONDS
    while (answer := client.exchange(get(origin))).status == 403:
        assert time.monotonic() < end
    assert way_of(answer).rule == "own"


def check(directory: Path, users: str, *options: str):
    (directory / "sallyport.toml").write_text(
        configuration_text(policy=f'[[rule]]\nname = "r"\nusers = {users}\n')
    )
    done = command("check", "--config", "sallyport.toml", *options, cwd=directory)
    return done.returncode, done.stdout + done.stderr


def test_an_unknown_name_is_a_warning(sallyport_binary, tmp_path):
    status, said = check(tmp_path, '["daemon", "no-such-user-here"]')
    assert status == 0 and " warning: " in said and "no-such-user-here" in said and "'daemon'" not in said
    assert check(tmp_path, '["daemon", "no-such-user-here"]', "--strict")[0] == 1
    assert check(tmp_path, '["daemon", 54321]', "--strict")[0] == 0


@pytest.mark.parametrize(
    "users", ["[-1]", "[4294967296]", "[4294967295]", "[1.5]", "[true]", '[["root"]]', '[""]', "3"]
)
def test_what_is_no_user(users, sallyport_binary, tmp_path):
    """4294967295 is what the kernel says for nobody at all (setuid(-1))."""
    status, said = check(tmp_path, users)
    if users == '[""]':  # a name that nobody has
        assert " error: " in said or " warning: " in said, said
        return
    assert status == 1 and ":7:" in said and "users" in said, said


def test_an_unknown_name_matches_nobody(guarded, raw_origin, client_of):
    proxy, origin = guarded(rule_of("ghosts", "no-such-user-here"), DENY), raw_origin(tells_the_way)
    for user in (ROOT, STRANGER):
        check_problem(client_of(proxy, user).exchange(get(origin)), 403)
    assert not origin.connections


# explain

EXPLAINED = rule_of("people", "daemon", NUMBERED) + (
    '[[rule]]\nname = "kiosk"\nunits = ["kiosk.service"]\n[[rule]]\nname = "rest"\naction = "deny"\n'
)
ASKED = {
    "a user by name": (["--user", "daemon"], "people", 0),
    "a user by number": (["--user", str(NUMBERED)], "people", 0),
    "a name by its number": (["--user", str(NAMED)], "people", 0),
    "another user": (["--user", "root"], "rest", 3),
    "a unit": (["--unit", "kiosk.service"], "kiosk", 0),
    "another unit": (["--unit", "other.service"], "rest", 3),
    "a user and a unit": (["--user", "root", "--unit", "kiosk.service"], "kiosk", 0),
    "nobody that is known": ([], "rest", 3),
}


@pytest.mark.parametrize("name", ASKED)
def test_explain_for_a_user(name, sallyport_binary, tmp_path):
    options, rule, status = ASKED[name]
    (tmp_path / "sallyport.toml").write_text(configuration_text(policy=EXPLAINED))
    done = command("explain", "--config", "sallyport.toml", "GET", "http://a.test/", *options, cwd=tmp_path)
    assert done.returncode == status, done
    assert f"'{rule}'" in done.stdout.split("rules before it")[0], done.stdout
    if rule == "rest":
        why = done.stdout.split("rules before it")[1]
        assert "people" in why and "users" in why and "kiosk" in why and "units" in why


def test_explain_for_a_user_that_is_none(sallyport_binary, tmp_path):
    (tmp_path / "sallyport.toml").write_text(configuration_text(policy=EXPLAINED))
    for options in (["--user", "no-such-user-here"], ["--user", "-1"], ["--user", ""], ["--user"]):
        done = command(
            "explain", "--config", "sallyport.toml", "GET", "http://a.test/", *options, cwd=tmp_path
        )
        assert done.returncode in (1, 2) and done.stderr and done.stdout == "", (options, done)
