"""Who, always: user, unit and program of each client stand in its line, whether a rule asks or not; the proxy user too."""

import base64
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import with_mounts
from journal import DEADLINE_SECONDS
from origins import answering
from parents import routed
from problems import check_problem
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from test_policy import get
from tls_world import OK, authority, client_context, rule, secure_client, secure_proxy, tls_origin, world
from ways import way

ME = pwd.getpwuid(os.getuid()).pw_name
CURL = os.path.realpath(shutil.which("curl"))


def curl(proxy, origin, *arguments: str, user: int | None = None) -> dict:
    """What curl fetched, by its line."""
    before = len(proxy.log.snapshot())
    subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-x", f"http://{proxy.authority}", *arguments, f"http://{origin.authority}/"],
        check=True, timeout=DEADLINE_SECONDS, user=user)
    return proxy.log.wait_for(lambda entry: "total_ms" in entry, after=before)


def who(line: dict) -> tuple:
    return line["user"], line["program"]


@pytest.mark.parametrize("policy", ["", rule("mine", f'users = ["{ME}"]')], ids=["nobody asks", "a rule asks"])
def test_user_and_program_of_every_client(policy, sallyport, raw_origin):
    proxy, origin = sallyport(policy=policy), raw_origin(answering(OK))
    for _ in range(3):
        assert who(curl(proxy, origin)) == (ME, CURL)


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs something as another user, and sees what it is")
def test_another_user(sallyport, raw_origin):
    proxy, origin = sallyport(), raw_origin(answering(OK))
    nobody = pwd.getpwnam("nobody")
    assert who(curl(proxy, origin, user=nobody.pw_uid)) == ("nobody", CURL)
    assert who(curl(proxy, origin)) == (ME, CURL)


def test_what_is_refused_at_once_names_its_program_too(sallyport, raw_origin):
    proxy, origin = sallyport(policy=rule("no", 'action = "deny"')), raw_origin(answering(OK))
    line = curl(proxy, origin)
    assert line["status"] == 403 and who(line) == (ME, CURL)


def test_unless_it_is_switched_off(sallyport, raw_origin):
    proxy, origin = sallyport(policy="[log]\nwho = false\n"), raw_origin(answering(OK))
    line = curl(proxy, origin)
    assert who(line) == (None, None) and line["unit"] is None


def test_on_every_way(way):
    # So that the search may take as long as a busy machine makes it.
    started = way(answering(OK), after=rule("any-program", 'programs = ["/nowhere"]'))
    assert started.ask("GET").status == 200
    line = started.proxy.access(lambda line: line["method"] == "GET")
    assert line["user"] == ME and line["program"] == os.path.realpath("/proc/self/exe")


def test_the_proxy_user_is_named_inside_a_tunnel_too(secure_proxy, secure_client, tls_origin, authority, world, tmp_path):
    secret = tmp_path / "users"
    secret.write_text("ada:open-sesame\nci-runner:other\n")
    secret.chmod(0o600)
    policy = authority.table + rule("seen", 'connect = "intercept"', 'hosts = ["a.test"]')
    proxy = secure_proxy(policy, proxy=f'credentials = {{ file = "{secret}" }}')
    origin = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    given = base64.b64encode(b"ci-runner:other").decode()
    client = secure_client(proxy)
    place = f"a.test:{origin.port}"
    granted = client.exchange(
        f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\nProxy-Authorization: Basic {given}\r\n\r\n".encode())
    assert granted.status == 200
    client.shake_hands(client_context(authority.file), "a.test")
    assert client.get_inside(place).status == 200
    client.close()
    for method in ("GET", "CONNECT"):
        assert proxy.access(lambda line: line["method"] == method)["proxy_user"] == "ci-runner"


def test_a_wrong_password_names_nobody(sallyport, raw_client, raw_origin, tmp_path):
    secret = tmp_path / "users"
    secret.write_text("ada:open-sesame\n")
    secret.chmod(0o600)
    proxy, origin = sallyport(proxy=f'credentials = {{ file = "{secret}" }}'), raw_origin(answering(OK))
    given = base64.b64encode(b"ada:wrong").decode()
    problem = check_problem(
        raw_client(proxy).exchange(get("a.test", origin.port, lines=f"Proxy-Authorization: Basic {given}\r\n")), 407)
    assert proxy.access_of(problem.reference)["proxy_user"] is None


def test_a_client_that_says_what_it_wants_and_leaves_is_served_where_no_rule_asks(sallyport, raw_client, raw_origin):
    """The log alone refuses nobody."""
    proxy, origin = sallyport(), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.looked_at = False
    client.send(get("127.0.0.1", origin.port))
    client.close()
    assert proxy.access(lambda line: line["method"] == "GET")["decision"] == "allow"


def test_where_no_rule_asks_a_client_is_looked_up_once(sallyport, raw_client, raw_origin):
    """Without a tree of control groups nothing is certain, and of what is not certain nothing is remembered."""
    proxy = sallyport(prefix=with_mounts("mount -t tmpfs none /sys/fs/cgroup"))
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    assert client.exchange(get("127.0.0.1", origin.port)).status == 200
    before = turns_of_the_look_ups(proxy)
    for _ in range(20):
        assert client.exchange(get("127.0.0.1", origin.port)).status == 200
    # It may not have gone to sleep after the first look-up when it was asked before.
    assert turns_of_the_look_ups(proxy) <= before + 1


def turns_of_the_look_ups(proxy) -> int:
    """How often the thread that looks clients up has gone to sleep."""
    for task in Path(f"/proc/{proxy.process.pid}/task").iterdir():
        if (task / "comm").read_text() == "clients\n":
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (task / "status").read_text(), re.M)[1])
    raise AssertionError("no thread looks clients up")
