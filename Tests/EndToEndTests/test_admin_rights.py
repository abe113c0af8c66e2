"""Who may do what: readers and operators at the admin socket, and strangers at the address of the metrics."""

import json
import os
import socket

import pytest

from admin_world import ADMIN, administered, DENY, ask_once, samples, samples_of
from admin_client import AdminConnection, request
from journal import DEADLINE_SECONDS
from proxy import command, configuration_text
from raw_client import RawClient
from test_policy import get
from users_world import NUMBERED, ROOT, STRANGER

METRICS = 'metrics = "127.0.0.1:0"\n'
QUESTIONS = ["/v1/status", "/v1/rules", "/v1/pins", "/v1/connections", "/v1/reachability"]


class PeerConnection(AdminConnection):
    """A connection to the socket that the kernel says is a user's: a process of the user makes it, and hands it over."""

    def __init__(self, path, user: int):
        self.socket = connected_as(path, user)
        self.socket.settimeout(DEADLINE_SECONDS)
        self.sent, self.received = bytearray(), bytearray()
        self.read_to = self.answered = 0
        self.forget_what_was_asked()
        self.ended, self.looked_at = None, True


def connected_as(path, user: int) -> socket.socket:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be several users")
    # Whether a user may connect at all is for the socket's mode, which is not the question here.
    os.chmod(path, 0o666)
    os.chmod(path.parent, 0o711)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        try:
            os.chdir(path.parent)  # the directories above it are the test's alone
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(path.name)
            socket.send_fds(there, [b"!"], [connection.fileno()])
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, f"user {user} cannot connect to {path}"
    with here, there:
        _, descriptors, _, _ = socket.recv_fds(here, 1, 1)
    return socket.socket(fileno=descriptors[0])


def ask_as(user: int, proxy, path: str, method: str = "GET", lines: str = ""):
    with PeerConnection(proxy.admin.path, user) as connection:
        answer = connection.exchange(request(path, method, lines))
        connection.check()
        return answer


def test_who_may_connect_may_ask_everything(administered):
    proxy = administered()
    for path in [*QUESTIONS, "/metrics"]:
        assert ask_as(STRANGER, proxy, path).status == 200, path


@pytest.mark.parametrize("path", ["/v1/reload", "/v1/drain"])
def test_who_may_only_read_changes_nothing(administered, path):
    proxy = administered()
    answer = ask_as(STRANGER, proxy, path, "POST")
    assert answer.status == 403
    detail = json.loads(answer.body)["detail"]
    assert f"user {STRANGER}" in detail and "'operators'" in detail and "root" in detail
    assert not proxy.admin.json("/v1/status")["draining"]
    assert samples(proxy)["sallyport_reloads_total", (("result", "done"),)] == 0


def test_operators_may_reload_and_a_reload_may_name_others(administered):
    proxy = administered(admin=f"operators = [{NUMBERED}]\n")
    assert ask_as(NUMBERED, proxy, "/v1/reload", "POST").status == 200
    assert ask_as(STRANGER, proxy, "/v1/reload", "POST").status == 403
    text = proxy.configuration.read_text()
    proxy.configuration.write_text(text.replace(str(NUMBERED), str(STRANGER)))
    assert ask_as(ROOT, proxy, "/v1/reload", "POST").status == 200
    assert ask_as(NUMBERED, proxy, "/v1/reload", "POST").status == 403
    assert ask_as(STRANGER, proxy, "/v1/reload", "POST").status == 200


def test_an_operator_may_stop_it(administered):
    proxy = administered(admin=f"operators = [{NUMBERED}]\n")
    assert ask_as(NUMBERED, proxy, "/v1/drain", "POST").status == 202
    assert proxy.wait_for_exit() == 0


def scraper(proxy) -> RawClient:
    host, _, port = proxy.admin.json("/v1/status")["metrics"].rpartition(":")
    return RawClient((host, int(port)))


def test_the_metrics_have_an_address_of_their_own(administered, raw_client):
    proxy = administered(DENY, admin=METRICS)
    ask_once(raw_client, proxy, get("a.ads.test", 80))
    client = scraper(proxy)
    answer = client.exchange(request("/metrics"))
    assert answer.status == 200
    denied = ("outcome", "denied"), ("rule", "no-ads")
    assert samples_of(answer.body.decode())["sallyport_exchanges_total", denied] == 1
    assert f"http://{proxy.admin.json('/v1/status')['metrics']}/metrics" in proxy.admin.text("/v1/status")
    client.close()


def test_the_address_of_the_metrics_has_nothing_else(administered):
    proxy = administered(admin=METRICS)
    client = scraper(proxy)
    for path in [*QUESTIONS, "/v1/events", "/v1/decisions/AAAAAA", "/", "/metrics/"]:
        assert client.exchange(request(path)).status == 404, path
    for path in ["/v1/reload", "/v1/drain", "/metrics"]:
        assert client.exchange(request(path, "POST")).status == 404, path
    client.close()
    status = proxy.admin.json("/v1/status")
    assert not status["draining"] and status["policy"]["failure"] is None


def test_scrapers_take_no_place_of_the_socket(administered):
    proxy = administered(admin=METRICS)
    scrapers = [scraper(proxy) for _ in range(40)]
    commands = [proxy.admin.connection() for _ in range(20)]
    for connection in commands:
        assert connection.exchange(request("/v1/status")).status == 200
    # The newest of them has its answer, though the places of scrapers are few.
    assert scrapers[-1].exchange(request("/metrics")).status == 200
    for connection in [*scrapers, *commands]:
        connection.close()


def test_a_thousand_quick_scrapes_ask_the_loops_a_few_times(administered):
    """Whoever asks as fast as it can gets the page that is there: the loops have other things to do."""
    proxy = administered(admin=METRICS)
    client = scraper(proxy)
    pages = {bytes(client.exchange(request("/metrics")).body) for _ in range(1000)}
    client.close()
    turns = [samples_of(page.decode())["sallyport_loop_turn_seconds_count", ()] for page in pages]
    assert max(turns) - min(turns) < 500, "every scrape wakes every loop"


def test_an_address_that_is_taken_is_named(administered, tmp_path):
    proxy = administered(admin=METRICS)
    taken = proxy.admin.json("/v1/status")["metrics"]
    configuration = tmp_path / "second.toml"
    configuration.write_text(configuration_text(policy=f'{ADMIN}metrics = "{taken}"\n'))
    done = command("run", "--config", configuration)
    assert done.returncode == 1 and done.stdout == ""
    assert taken in done.stderr and "'metrics' of [admin]" in done.stderr, done.stderr


def test_an_address_that_others_reach_is_warned_of(tmp_path, sallyport_binary):
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text('[admin]\nmetrics = "0.0.0.0:9101"\n')
    done = command("check", "--config", configuration)
    assert done.returncode == 0 and "'metrics' in [admin]: 0.0.0.0:9101 shows the names of rules" in done.stdout
