"""`clients`, `proxy_users` and `programs` of a rule, by real sockets, names and executables; and `until` and `log`."""

import base64
import os
import shutil
import subprocess

import pytest

from journal import DEADLINE_SECONDS
from origins import answering
from problems import check_problem
from proxy import command
from test_policy import get
from tls_world import OK, authority, client_context, rule, secure_client, secure_proxy, tls_origin, world  # noqa: F401

CURL = os.path.realpath(shutil.which("curl"))
CREDENTIALS = 'credentials = "ci:one\\nada:two"'


def basic(name: str, password: str) -> str:
    return f"Proxy-Authorization: Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}\r\n"


def fetched(proxy, origin, *command: str, **arguments) -> int:
    """The status that a program gets."""
    done = subprocess.run(
        [*(command or ("curl",)), "-s", "-o", "/dev/null", "-w", "%{http_code}", "-x", f"http://{proxy.authority}",
         f"http://{origin.authority}/"],
        check=True, timeout=DEADLINE_SECONDS, capture_output=True, text=True, **arguments)
    return int(done.stdout)


def test_the_address_of_a_client(sallyport, raw_client, raw_origin):
    proxy = sallyport(policy=rule("there", 'clients = ["127.0.0.2"]', 'action = "deny"'))
    origin = raw_origin(answering(OK))
    assert fetched(proxy, origin) == 200
    assert fetched(proxy, origin, "curl", "--interface", "127.0.0.2") == 403


def test_the_name_that_a_client_gives(sallyport, raw_client, raw_origin):
    proxy = sallyport(policy=rule("ci", 'proxy_users = ["ci"]'), proxy=f'default = "deny"\n{CREDENTIALS}')
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    assert client.exchange(get("127.0.0.1", origin.port, lines=basic("ci", "one"))).status == 200
    # One connection, and another name: each request is by the name that it brings.
    problem = check_problem(client.exchange(get("127.0.0.1", origin.port, lines=basic("ada", "two"))), 403)
    line = proxy.access_of(problem.reference)
    assert (line["proxy_user"], line["reason"]) == ("ada", "default-denies")
    assert client.exchange(get("127.0.0.1", origin.port, lines=basic("ci", "two"))).status == 407


def test_the_name_of_a_tunnel_is_that_of_the_requests_in_it(secure_proxy, secure_client, tls_origin, authority, world):
    policy = (
        authority.table
        + rule("opened", 'connect = "intercept"', 'proxy_users = ["ci", "ada"]', 'paths = ["/ok"]')
        + rule("read", 'proxy_users = ["ci"]')
        + rule("rest", 'action = "deny"'))
    proxy = secure_proxy(policy, proxy=CREDENTIALS)
    origin = tls_origin(answering(OK), world.context(world.leaf("a.test")))
    place = f"a.test:{origin.port}"
    for name, password, expected in [("ci", "one", 200), ("ada", "two", 403)]:
        client = secure_client(proxy)
        granted = client.exchange(
            f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{basic(name, password)}\r\n".encode())
        assert granted.status == 200
        client.shake_hands(client_context(authority.file), "a.test")
        assert client.get_inside(place, "/other").status == expected
        client.close()


def test_the_program_of_a_client(sallyport, raw_origin):
    proxy = sallyport(policy=rule("curl", f'programs = ["{CURL}"]'), proxy='default = "deny"')
    origin = raw_origin(answering(OK))
    for _ in range(3):
        assert fetched(proxy, origin) == 200
    other = subprocess.run(
        ["wget", "-q", "-O", "/dev/null", "-e", f"http_proxy=http://{proxy.authority}", f"http://{origin.authority}/"],
        timeout=DEADLINE_SECONDS)
    assert other.returncode == 8
    line = proxy.access(lambda line: line["status"] == 403)
    assert line["program"] == os.path.realpath(shutil.which("wget"))


def test_a_program_that_is_put_in_the_place_of_another_is_in_doubt(sallyport, raw_origin, tmp_path):
    """In a view of the file system of its own anybody can be /usr/bin/git."""
    git = os.path.realpath(shutil.which("git"))
    policy = rule("no-git-core", 'programs = ["/nowhere/*"]', 'hosts = ["127.0.0.1"]', 'action = "deny"', 'schemes = ["https"]')
    proxy = sallyport(policy=policy + rule("git", f'programs = ["{git}"]'), proxy='default = "deny"')
    origin = raw_origin(answering(OK))
    command = ["unshare", "--mount", "sh", "-c", f'mount --bind {CURL} {git} && exec {git} "$@"', "sh"]
    assert fetched(proxy, origin, *command) == 403
    line = proxy.access(lambda line: line["status"] == 403)
    assert line["program"] == f"{git} (another file)"


def test_a_program_whose_file_is_gone_is_in_doubt(sallyport, raw_client, raw_origin, tmp_path):
    copy = tmp_path / "fetch"
    shutil.copy(CURL, copy)
    proxy = sallyport(policy=rule("fetch", f'programs = ["{copy}"]'), proxy='default = "deny"')
    origin = raw_origin(answering(OK))
    assert fetched(proxy, origin, str(copy)) == 200
    # It removes its own file before it asks.
    removed = ["sh", "-c", 'exec 9<"$0" && rm "$0" && exec /proc/self/fd/9 "$@"', str(copy)]
    assert fetched(proxy, origin, *removed) == 403
    assert proxy.access(lambda line: line["status"] == 403)["program"] == f"{copy} (deleted)"


@pytest.mark.skipif(os.getuid() != 0, reason="only root has a capability to do without")
def test_what_the_kernel_hides_is_refused(sallyport, raw_origin):
    """The packaged service may not look into processes of other users."""
    policy = rule("no-curl", f'programs = ["{CURL}"]', 'action = "deny"')
    proxy = sallyport(policy=policy, prefix=["setpriv", "--bounding-set=-sys_ptrace"])
    origin = raw_origin(answering(OK))
    assert fetched(proxy, origin, user=65534) == 403
    assert proxy.access(lambda line: line["status"] == 403)["program"] is None


def test_a_reload_that_asks_for_programs_asks_of_open_connections_too(sallyport, raw_client, raw_origin):
    proxy, origin = sallyport(policy="[log]\nwho = false\n"), raw_origin(answering(OK))
    client = raw_client(proxy)
    assert client.exchange(get("127.0.0.1", origin.port)).status == 200
    own = os.path.realpath("/proc/self/exe")
    proxy.reload(policy="[log]\nwho = false\n" + rule("me", f'programs = ["{own}"]', 'action = "deny"'))
    check_problem(client.exchange(get("127.0.0.1", origin.port)), 403)


EXPLAINED = {
    "a client": (["--client", "10.0.3.7"], "by-client"),
    "a name": (["--proxy-user", "ci"], "by-name"),
    "a program": (["--program", "/usr/bin/git"], "by-program"),
    "nothing": ([], None),
}


@pytest.mark.parametrize("case", EXPLAINED)
def test_explain_and_expect_are_told_who_asks(case, tmp_path):
    options, decides = EXPLAINED[case]
    expectation = {"--client": "client", "--proxy-user": "proxy_user", "--program": "program"}
    asker = f'{expectation[options[0]]} = "{options[1]}"' if options else ""
    (tmp_path / "sallyport.toml").write_text(
        f"[proxy]\n{CREDENTIALS}\n" + rule("by-client", 'clients = ["10.0.3.0/24"]', 'action = "deny"', 'enforce = false')
        + rule("by-name", 'proxy_users = ["ci"]') + rule("by-program", 'programs = ["/usr/bin/git"]')
        + f'[[expect]]\nrequest = "GET http://a.test/"\n{asker}\nrule = {f"{chr(34)}{decides}{chr(34)}" if decides else "false"}\n')
    config = ["--config", str(tmp_path / "sallyport.toml")]
    explained = command("explain", *config, *options, "http://a.test/")
    assert (f"rule '{decides}'" if decides else "no rule") in explained.stdout
    assert explained.returncode == 0 and ("407" in explained.stderr) == (decides != "by-name")
    if decides == "by-name":
        explained = command("explain", *config, "--proxy-user", "nobody", "http://a.test/")
        assert explained.returncode == 3 and "has no 'nobody'" in explained.stderr
    assert command("test", *config).returncode == 0


@pytest.mark.parametrize("until, status", [("2020-01-01", 200), ("2099-01-01T00:00:00Z", 403)])
def test_a_rule_that_has_ended_matches_nothing(until, status, sallyport, raw_client, raw_origin, tmp_path):
    policy = rule("closed", f"until = {until}", 'action = "deny"')
    proxy, origin = sallyport(policy=policy), raw_origin(answering(OK))
    assert raw_client(proxy).exchange(get("127.0.0.1", origin.port)).status == status
    (tmp_path / "sallyport.toml").write_text(policy)
    checked = command("check", str(tmp_path / "sallyport.toml"))
    assert ("the rule has expired on 2020-01-01: it matches nothing" in checked.stdout + checked.stderr) == (status == 200)
    explained = command("explain", "--config", str(tmp_path / "sallyport.toml"), "http://a.test/")
    assert ("until: expected before 2020-01-02 00:00:00 UTC" in explained.stdout) == (status == 200)


def test_a_rule_without_lines_in_the_log_is_still_counted(sallyport, raw_client, raw_origin):
    proxy, origin = sallyport(policy=rule("quiet", 'hosts = ["127.0.0.1"]', "log = false")), raw_origin(answering(OK))
    client = raw_client(proxy)
    for _ in range(3):
        assert client.exchange(get("127.0.0.1", origin.port)).status == 200
    # The line of a later request is written after those that there are not.
    check_problem(client.exchange(get("no.such.host.test", 80)), 502)
    proxy.access(lambda line: line["status"] == 502)
    assert [line["status"] for line in proxy.access_lines()] == [502]
