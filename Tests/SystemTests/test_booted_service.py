"""The service under a systemd that has been booted: start, stop, restart, reload, what `systemctl status` says, and the
watchdog. Units are as the package installed them; each test boots a machine of its own.
"""

import re
import signal
import threading

import pytest

from booted import DEADLINE_SECONDS, boot
from debian import ENABLE, UNITS
from origins import answering
from service import StoppedThread, threads

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POLICY = "/etc/sallyport/policy.d/50-test.toml"
RULE = '[[rule]]\nname = "no-ads"\nhosts = ["**.ads.test"]\naction = "deny"\n'
MISTAKE = RULE.replace("hosts", "hots")
COMPLAINT = f"{POLICY}:3:1: error: unknown key 'hots' in [rule]; did you mean 'hosts'?"
LISTENING = "127.0.0.1:3128, [::1]:3128"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
FORBIDDEN = b"GET http://www.ads.test/ HTTP/1.1\r\nHost: www.ads.test\r\n\r\n"


def get(origin) -> bytes:
    return f"GET {origin.url}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()


def sockets(machine) -> set[str]:
    """The inode numbers of what listens on the port of the proxy."""
    tables = machine("cat /proc/net/tcp /proc/net/tcp6").stdout
    return set(re.findall(r": \w+:0C38 \w+:0000 0A (?:\S+ +){5}(\d+) ", tables))


# MARK: Start and stop


def test_the_machine_itself_is_well(machine):
    """What the other tests stand on: it came up whole, and nothing of ours runs in it."""
    assert machine("systemctl is-system-running").stdout == "running\n"
    assert machine.show("sallyport.service", "ActiveState") == "inactive"
    assert sockets(machine) == set()


def test_start_is_done_when_it_listens(machine, origin, client):
    """Without the sockets of systemd: it opens the addresses of its configuration itself."""
    machine("systemctl start sallyport.service")
    web = origin(answering(OK))
    assert client().exchange(get(web)).status == 200
    assert client(("::1", 3128)).exchange(get(web)).status == 200
    assert machine.show("sallyport.service", "StatusText") == f"{LISTENING}; 0 rules"


def test_it_serves_after_the_next_boot_and_does_not_hold_up_the_end(installed_root, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with boot(installed_root, tmp_path / "first") as machine:
        machine(ENABLE)
        machine.power_off()
    with boot(installed_root, tmp_path / "second") as machine:
        assert machine("systemctl is-system-running").stdout == "running\n"
        assert [machine.show(unit, "ActiveState") for unit in UNITS] == ["active"] * 3
        # They came before the service, or it would have opened others.
        assert len(sockets(machine)) == 2 and all(held_by_systemd(machine, inode) for inode in sockets(machine))


def held_by_systemd(machine, inode: str) -> bool:
    return bool(machine(f"ls -l /proc/1/fd | grep -F 'socket:[{inode}]'", check=False).stdout)


def test_a_start_with_an_error_in_the_configuration_fails_and_says_where(machine):
    machine.write(POLICY, MISTAKE)
    assert machine("systemctl start sallyport.service", check=False).returncode != 0
    said = [entry["MESSAGE"] for entry in machine.entries("--unit=sallyport.service")]
    assert COMPLAINT in said, said
    assert "sallyport: not started: the configuration has errors" in said


def test_stop_lets_a_request_under_way_finish(serving, origin, client):
    go_on = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        web.note("asked")
        assert go_on.wait(DEADLINE_SECONDS)
        connection.send(OK)

    web = origin(script)
    asking = client()
    asking.send(get(web))
    web.wait_for("asked")
    serving("systemctl stop --no-block sallyport.service")
    serving.said("stopping: requests under way have")
    assert serving.show("sallyport.service", "StatusText").startswith("stopping: requests under way have ")
    go_on.set()
    assert asking.answer().status == 200
    assert asking.wait_for_end() == "closed"
    serving.said("sallyport.service: Deactivated successfully.")


# MARK: Restart


def test_a_restart_is_another_process_on_the_same_sockets(serving, origin, client):
    web = origin(answering(OK))
    assert client().exchange(get(web)).status == 200
    before, process = sockets(serving), serving.main_process()
    assert len(before) == 2
    serving("systemctl restart sallyport.service")
    assert serving.main_process() != process
    assert sockets(serving) == before
    assert client().exchange(get(web)).status == 200


def test_a_daemon_that_was_killed_is_replaced_and_who_came_meanwhile_is_answered(serving, origin, client):
    web = origin(answering(OK))
    assert client().exchange(get(web)).status == 200
    serving("systemctl kill --kill-whom=main --signal=SIGKILL sallyport.service")
    serving.said("Failed with result 'signal'")
    assert client().exchange(get(web)).status == 200
    assert serving.show("sallyport.service", "NRestarts") == "1"


def test_a_service_that_systemd_gave_up_has_its_sockets_again_when_it_is_mended(serving, origin, client):
    """A service that came back without them would lose connections at each restart from then on."""
    serving.drop_in("sallyport.service", "[Service]\nRestartSec=10ms\n")
    serving.write(POLICY, MISTAKE)
    assert serving("systemctl restart sallyport.service", check=False).returncode != 0
    serving.said("sallyport.socket: Failed with result 'service-start-limit-hit'")
    serving.said("sallyport-admin.socket: Failed with result 'service-start-limit-hit'")
    serving.write(POLICY, RULE)
    # Who comes more than ten seconds later need not reset anything.
    serving("systemctl reset-failed sallyport.service && systemctl start sallyport.service")
    assert len(sockets(serving)) == 2 and all(held_by_systemd(serving, inode) for inode in sockets(serving))
    assert [serving.show(unit, "ActiveState") for unit in UNITS] == ["active"] * 3
    assert client().exchange(get(origin(answering(OK)))).status == 200


def test_wrong_usage_is_not_tried_again(machine):
    machine.drop_in("sallyport.service", "[Service]\nExecStart=\nExecStart=/usr/bin/sallyport run --nonsense\n")
    assert machine("systemctl start sallyport.service", check=False).returncode != 0
    assert machine.show("sallyport.service", "ActiveState") == "failed"
    assert machine.show("sallyport.service", "ExecMainStatus") == "2"
    assert machine.show("sallyport.service", "NRestarts") == "0"


# MARK: Reload


def test_a_good_reload_is_in_force_when_the_command_returns(serving, client):
    serving.write(POLICY, RULE)
    process = serving.main_process()
    serving("systemctl reload sallyport.service")
    assert client().exchange(FORBIDDEN).status == 403
    assert serving.main_process() == process
    status = serving.show("sallyport.service", "StatusText")
    assert re.fullmatch(rf"{re.escape(LISTENING)}; 1 rule; reloaded {TIME}", status)


def test_a_bad_reload_fails_says_why_and_changes_nothing(serving, client):
    serving.write(POLICY, RULE)
    serving("systemctl reload sallyport.service")
    serving.write(POLICY, MISTAKE)
    reloaded = serving("systemctl reload sallyport.service", check=False)
    assert reloaded.returncode == 1 and "Job for sallyport.service failed" in reloaded.stderr
    # What held before holds on.
    assert client().exchange(FORBIDDEN).status == 403
    assert serving.show("sallyport.service", "ActiveState") == "active"
    status = serving.show("sallyport.service", "StatusText")
    assert re.fullmatch(
        rf"reload failed {TIME}: {re.escape(COMPLAINT)}; still the policy of {TIME}; {re.escape(LISTENING)}; 1 rule",
        status,
    )
    said = [entry["MESSAGE"] for entry in serving.entries("--unit=sallyport.service")]
    # By the daemon, and by the command that systemd ran.
    assert said.count(COMPLAINT) == 2, said
    # A mended file makes all well again.
    serving.write(POLICY, RULE)
    serving("systemctl reload sallyport.service")
    assert "failed" not in serving.show("sallyport.service", "StatusText")


@pytest.mark.parametrize("text", [RULE, MISTAKE], ids=["good", "bad"])
def test_what_systemctl_status_shows(serving, text):
    serving.write(POLICY, text)
    serving("systemctl reload sallyport.service", check=False)
    page = serving("systemctl status --no-pager --full sallyport.service").stdout
    state = rf"{re.escape(LISTENING)}; 1 rule; reloaded {TIME}"
    if text == MISTAKE:
        complaint, listening = re.escape(COMPLAINT), re.escape(LISTENING)
        state = rf"reload failed {TIME}: {complaint}; still the policy of {TIME}; {listening}; 0 rules"
    for line in (
        r"sallyport\.service - Sallyport forward proxy$",
        r" Active: active \(running\) since ",
        r" . sallyport\.socket$",
        r" . sallyport-admin\.socket$",
        r" Docs: man:sallyport\(1\)$",
        r" Main PID: \d+ \(sallyport\)$",
        rf' Status: "{state}"$',
    ):
        assert re.search(line, page, re.MULTILINE), f"{line} is not in:\n{page}"


# MARK: The watchdog


@pytest.mark.parametrize("loop", [0, -1], ids=["the first loop", "the last loop"])
def test_the_watchdog_restarts_a_daemon_of_which_one_loop_hangs(machine, origin, client, loop):
    machine.drop_in("sallyport.service", "[Service]\nWatchdogSec=1s\n")
    machine(ENABLE)
    assert machine.show("sallyport.service", "WatchdogUSec") == "1s"
    process = machine.main_process()
    loops = [number for name in ("worker-0", "worker-1") for number in threads(process, name)]
    # Every other thread of the daemon goes on.
    with StoppedThread(loops[loop]) as stopped:
        assert stopped.wait_for_death() == signal.SIGABRT
    machine.said("Watchdog timeout (limit 1s)")
    machine.said("Failed with result 'watchdog'")
    # Who connects now waits for the next one.
    assert client().exchange(get(origin(answering(OK)))).status == 200
    assert machine.main_process() != process
    assert machine.show("sallyport.service", "NRestarts") == "1"
