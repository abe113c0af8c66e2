"""The daemon as a service of systemd: what it tells it, the watchdog, sockets that are passed, and the journal.

systemd itself is not needed: its sockets are played by service.py, and the journal's stands in a mount namespace.
"""

import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import need, with_mounts
from journal import DEADLINE_SECONDS, Journal, wait_until
from admin_client import AdminClient
from origins import answering, silent, unused_port
from problems import check_problem
from proxy import binary, clean_environment
from service import FakeJournal, StoppedThread, passing, threads

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
RULE = '[[rule]]\nname = "payments"\nhosts = ["127.0.0.1"]\n'


def listening(family=socket.AF_INET, address="127.0.0.1") -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind((address, 0))
    made.listen(64)
    return made


def refused(*arguments: str, prefix=(), **extra: str) -> str:
    """What a daemon says that does not start."""
    run = subprocess.run(
        [*prefix, binary(), "run", *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(**extra),
        stdin=subprocess.DEVNULL,
        close_fds=False,
        timeout=DEADLINE_SECONDS,
    )
    assert run.returncode == 1, run
    return run.stderr


# Where it listens


@pytest.mark.own_network
def test_a_listen_address_that_comes_later(sallyport, raw_client, raw_origin):
    """The network may come up after the daemon: it listens on addresses that no interface has yet."""
    need("ip")

    def change(word: str) -> None:
        subprocess.run(["ip", "-6", "address", word, "::1/128", "dev", "lo"], check=True)

    origin = raw_origin(answering(ANSWER))
    port = unused_port()
    change("del")
    try:
        proxy = sallyport(listen=f'["127.0.0.1:{port}", "[::1]:{port}"]', proxy="workers = 2")
        warning = proxy.log.wait_for(lambda entry: entry.get("level") == "warning")
        assert warning["message"] == (
            f"no interface has the listen address [::1]:{port} yet; clients are served once one has"
        )
    finally:
        change("add")
    # The kernel makes its route after `ip` has ended.
    wait_until(lambda: subprocess.run(["ip", "route", "get", "::1"], capture_output=True).returncode == 0)
    for _ in range(8):
        client = raw_client(("::1", port))
        client.send(f"GET http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
        assert client.answer().status == 200


# What systemd is told


def test_ready_comes_first_and_says_addresses_and_rules(sallyport, manager):
    proxy = sallyport(policy=RULE, environment=manager.environment)
    first = manager.messages.wait_for()
    assert first == {"READY": "1", "STATUS": f"{proxy.authority}; 1 rule"}


def test_a_good_reload_begins_and_ends(sallyport, manager):
    proxy = sallyport(environment=manager.environment)
    manager.messages.wait_for(lambda message: "READY" in message)
    before = time.monotonic_ns() // 1000
    proxy.reload(policy=RULE)
    begun, ended = manager.messages.wait_for_several(2, after=1)
    assert begun.keys() == {"RELOADING", "MONOTONIC_USEC"} and begun["RELOADING"] == "1"
    assert before <= int(begun["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    assert ended["READY"] == "1"
    assert ended["STATUS"].startswith(f"{proxy.authority}; 1 rule; reloaded 20")


def test_a_bad_reload_says_why_and_what_still_holds(sallyport, manager):
    proxy = sallyport(policy=RULE, environment=manager.environment)
    manager.messages.wait_for(lambda message: "READY" in message)
    proxy.reload(policy=RULE + 'hots = ["b.example"]\n')
    begun, ended = manager.messages.wait_for_several(2, after=1)
    assert begun["RELOADING"] == "1" and ended["READY"] == "1"
    status = ended["STATUS"]
    assert status.startswith("reload failed 20") and "unknown key 'hots'" in status, status
    assert "sallyport.toml:" in status and "; still the policy of 20" in status
    assert status.endswith(f"; {proxy.authority}; 1 rule")
    proxy.reload()
    _, ended = manager.messages.wait_for_several(2, after=3)
    assert ended["STATUS"].startswith(f"{proxy.authority}; 0 rules; reloaded 20")


def test_stopping_is_said_when_the_drain_begins(sallyport, manager):
    proxy = sallyport(proxy="[proxy.timeouts]\ndrain = '7s'", environment=manager.environment)
    manager.messages.wait_for(lambda message: "READY" in message)
    proxy.terminate()
    stopping = manager.messages.wait_for(after=1)
    assert stopping == {"STOPPING": "1", "STATUS": "stopping: requests under way have 7 s"}
    assert proxy.wait_for_exit() == 0


def test_nothing_is_said_of_a_start_that_fails(sallyport_binary, manager, tmp_path):
    configuration = tmp_path / "bad.toml"
    configuration.write_text("[proxy]\nlisten = 3\n")
    refused("--config", str(configuration), **manager.environment)
    assert manager.messages.snapshot() == []


# The watchdog


def watched(manager, milliseconds: int) -> dict[str, str]:
    return manager.environment | {"WATCHDOG_USEC": str(milliseconds * 1000)}


def test_the_watchdog_hears_of_loops_that_turn(sallyport, manager):
    sallyport(proxy="workers = 3", environment=watched(manager, 200))
    begun = time.monotonic()
    manager.messages.wait_for_several(5, lambda message: message == {"WATCHDOG": "1"})
    # The first comes at once, four more 100 ms apart.
    assert time.monotonic() - begun > 0.3


@pytest.mark.skipif("SALLYPORT_SANITIZED" in os.environ, reason="sanitizers have threads of their own")
@pytest.mark.parametrize("worker", ["worker-0", "worker-1"])
def test_a_loop_that_hangs_silences_the_watchdog(sallyport, manager, worker):
    proxy = sallyport(proxy="workers = 2", environment=watched(manager, 100))

    def is_ping(message):
        return message == {"WATCHDOG": "1"}

    manager.messages.wait_for_several(2, is_ping)
    (number,) = threads(proxy.process.pid, worker)
    with StoppedThread(number):
        stopped = len(manager.messages.snapshot())
        # That nothing comes can only be seen by waiting: ten rounds. One may have been answered before the stop.
        time.sleep(0.5)
        assert len(manager.messages.snapshot()) - stopped <= 1
        # The daemon's own thread runs, and would have spoken.
        silent = len(manager.messages.snapshot())
        proxy.process.send_signal(signal.SIGHUP)
        assert "RELOADING" in manager.messages.wait_for(after=silent)
    manager.messages.wait_for_several(3, is_ping, after=silent)


def test_a_watchdog_of_another_process_is_left_alone(sallyport, manager):
    proxy = sallyport(environment=watched(manager, 20) | {"WATCHDOG_PID": "1"})
    manager.messages.wait_for(lambda message: "READY" in message)
    proxy.reload()
    manager.messages.wait_for_several(2, lambda message: "READY" in message)
    assert not [message for message in manager.messages.snapshot() if "WATCHDOG" in message]


# Sockets that are passed


@pytest.mark.parametrize("name", ["sallyport.socket", "proxy"])
def test_a_passed_socket_replaces_listen(start_passed, raw_origin, raw_client, manager, name):
    passed = listening()
    # Were `listen` heeded, the start would fail: the port is taken.
    taken = f'["127.0.0.1:{passed.getsockname()[1]}"]'
    proxy = start_passed(
        [(name, passed)], listen=taken, proxy="workers = 3", environment=manager.environment
    )
    assert proxy.addresses == [passed.getsockname()]
    assert manager.messages.wait_for()["STATUS"] == f"{proxy.authority}; 0 rules"
    origin = raw_origin(answering(ANSWER))
    for _ in range(40):
        client = raw_client(proxy)
        client.send(f"GET http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
        assert client.answer().status == 200


def test_a_drained_service_stays_drained(start_passed, raw_origin, raw_client, manager, tmp_path):
    """Were it to end, systemd would start it again for the next connection."""
    admin = tmp_path / "admin.sock"
    released = threading.Event()

    def script(connection) -> None:
        connection.read_request()
        released.wait(DEADLINE_SECONDS)
        connection.send(ANSWER)

    proxy = start_passed(
        [("proxy", listening())], policy=f'[admin]\nsocket = "{admin}"\n', environment=manager.environment,
        proxy="workers = 2")
    origin = raw_origin(script)
    request = f"GET http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()
    busy, idle = raw_client(proxy), raw_client(proxy)
    idle.send(b"OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
    assert idle.answer().status == 200
    busy.send(request)
    origin.wait_for("accepted")
    api = AdminClient(admin)
    try:
        assert api.ask("/v1/drain", "POST").status == 202
        assert idle.wait_for_end() == "closed"
        for _ in range(6):  # both loops
            client = raw_client(proxy)
            problem = check_problem(client.exchange(request), 503)
            assert problem.token == "shutting-down" and "drained" in problem.body["detail"]
            assert client.wait_for_end() == "closed"
        tunnel = raw_client(proxy).exchange(b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n")
        assert check_problem(tunnel, 503).token == "shutting-down"
        assert api.json("/v1/status")["draining"] is True
        assert api.ask("/v1/reload", "POST").status == 200
        assert check_problem(raw_client(proxy).exchange(request), 503).token == "shutting-down"
    finally:
        released.set()
    assert busy.answer().status == 200, "what was under way has its time"
    said = manager.messages.wait_for(lambda message: message.get("STATUS", "").startswith("drained"))
    assert "STOPPING" not in said and proxy.process.poll() is None
    proxy.stop()


def test_what_is_under_way_is_ended_when_a_drain_has_had_its_time(start_passed, raw_origin, raw_client, tmp_path):
    admin = tmp_path / "admin.sock"
    proxy = start_passed(
        [("proxy", listening())], policy=f'[admin]\nsocket = "{admin}"\n[proxy.timeouts]\ndrain = "300ms"\n')
    origin = raw_origin(silent)
    client = raw_client(proxy)
    client.send(f"GET http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
    origin.wait_for("accepted")
    assert AdminClient(admin).ask("/v1/drain", "POST").status == 202
    assert check_problem(client.answer(), 503).token == "shutting-down"
    assert proxy.process.poll() is None


def test_two_passed_sockets_are_both_served(start_passed):
    sockets = [("proxy", listening()), ("proxy", listening(socket.AF_INET6, "::1"))]
    proxy = start_passed(sockets)
    assert proxy.addresses == [passed.getsockname()[:2] for _, passed in sockets]
    for address in proxy.addresses:
        with socket.create_connection(address, DEADLINE_SECONDS) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 400 ")


def test_connections_of_a_passed_socket_are_spread_over_the_loops(start_passed):
    """The kernel alone would give one loop all of them, for they come one by one."""
    proxy = start_passed([("proxy", listening())], proxy="workers = 2")
    clients = [socket.create_connection(proxy.address, DEADLINE_SECONDS) for _ in range(40)]
    for client in clients:  # an answer shows that its loop has it
        client.sendall(b"OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 ")
    *_, one, other = sorted(watched_descriptors(proxy.process.pid))
    assert one == other >= 20
    for client in clients:
        client.close()


def watched_descriptors(pid: int) -> list[int]:
    """How many descriptors each epoll of a process waits on: the daemon's, and one a loop."""
    found = []
    for entry in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda entry: int(entry.name)):
        if "eventpoll" in os.readlink(entry):
            found.append(Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text().count("tfd:"))
    return found


def test_the_admin_socket_is_taken_beside_it(start_passed, tmp_path):
    admin = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    admin.bind(str(tmp_path / "admin"))
    admin.listen()
    passed = listening()
    proxy = start_passed([("admin", admin), ("proxy", passed)])
    assert proxy.addresses == [passed.getsockname()]


def test_sockets_that_were_passed_to_another_process_are_not_touched(sallyport):
    proxy = sallyport(environment={"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "web"})
    assert proxy.address[1] != 0


def wrong_sockets():
    datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagram.bind(("127.0.0.1", 0))
    silent = socket.socket()
    silent.bind(("127.0.0.1", 0))
    return [
        ("another name", "web", listening(), "FileDescriptorName= was expected"),
        ("a datagram socket", "proxy", datagram, "a listening TCP socket was expected"),
        ("a socket that does not listen", "proxy", silent, "a listening TCP socket was expected"),
        ("a TCP socket for the admin API", "admin", listening(), "of the file system was expected"),
        ("a socket for other machines", "proxy", listening(address="0.0.0.0"), "'allow_remote = true'"),
    ]


@pytest.mark.parametrize("case", wrong_sockets(), ids=lambda case: case[0])
def test_a_wrong_socket_is_a_failure_to_start(sallyport_binary, tmp_path, case):
    _, name, passed, words = case
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text("")
    said = refused("--config", str(configuration), prefix=passing([(name, passed)]))
    assert words in said, said


def test_a_reload_cannot_open_a_passed_socket_to_other_machines(start_passed, raw_client):
    passed = listening(address="0.0.0.0")
    proxy = start_passed([("proxy", passed)], proxy='allow_remote = true\ncredentials = "a:b"')
    proxy.configuration.write_text('[proxy]\nlisten = ["127.0.0.1:0"]\n')
    proxy.process.send_signal(signal.SIGHUP)
    said = proxy.log.wait_for(lambda entry: "reload" in entry.get("message", ""))
    assert "nothing has changed" in said["message"] and "allow_remote" in said["message"]
    client = raw_client(("127.0.0.1", passed.getsockname()[1]))
    client.send(b"GET http://127.0.0.1:1/ HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
    assert client.answer().status == 407


def test_a_restart_loses_no_connection_attempt(start_passed, raw_origin):
    """Clients connect one after the other while three daemons follow each other on one socket."""
    origin = raw_origin(answering(ANSWER))
    passed = listening()
    request = (
        f"GET http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\nConnection: close\r\n\r\n".encode()
    )
    answers = Journal("the answers")
    finished = threading.Event()

    def ask_all_the_time():
        while not finished.is_set():
            try:
                with socket.create_connection(passed.getsockname(), DEADLINE_SECONDS) as client:
                    client.sendall(request)
                    answer = b""
                    while part := client.recv(4096):
                        answer += part
                    answers.append(answer)
            except OSError as error:
                answers.append(repr(error).encode())

    clients = [threading.Thread(target=ask_all_the_time) for _ in range(4)]
    proxy = start_passed([("proxy", passed)])
    for client in clients:
        client.start()
    try:
        for _ in range(3):
            answers.wait_for_several(50, after=len(answers.snapshot()))
            proxy.terminate()
            assert proxy.wait_for_exit() == 0
            proxy = start_passed([("proxy", passed)])
        answers.wait_for_several(50, after=len(answers.snapshot()))
    finally:
        finished.set()
        for client in clients:
            client.join()
    assert {answer[:15] for answer in answers.snapshot()} == {b"HTTP/1.1 200 OK"}


def test_a_client_that_has_just_come_may_still_ask(sallyport, raw_origin, raw_client, manager):
    """One whose request is on its way when the daemon is told to stop; one that has been answered before is let go."""
    proxy = sallyport(proxy="workers = 1", environment=manager.environment)
    origin = raw_origin(answering(ANSWER))
    request = f"GET http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()
    new, kept = raw_client(proxy), raw_client(proxy)
    assert kept.exchange(request).status == 200
    proxy.terminate()
    assert kept.wait_for_end() == "closed"
    answer = new.exchange(request)
    assert answer.status == 200 and answer.value("connection") == b"close"
    assert new.wait_for_end() == "closed"
    assert proxy.wait_for_exit() == 0


def test_a_client_that_never_asks_does_not_hold_the_daemon(sallyport, raw_client):
    proxy = sallyport()
    silent = raw_client(proxy)
    proxy.terminate()
    assert silent.wait_for_end() == "closed"
    assert proxy.wait_for_exit() == 0


# The journal


@pytest.fixture
def journal(tmp_path):
    directory = tmp_path / "journal"
    directory.mkdir()
    journal = FakeJournal(directory)
    yield journal
    journal.stop()


def with_journal(directory) -> tuple[str, ...]:
    """A prefix that puts a directory in the place of /run/systemd/journal, for the proxy alone."""
    return with_mounts(
        f"mount -t tmpfs none /run; mkdir /run/systemd; ln -s {shlex.quote(str(directory))} /run/systemd/journal"
    )


JOURNAL = '[log]\nformat = "journal"\n'


def test_requests_are_found_in_the_journal_by_their_fields(sallyport, raw_origin, raw_client, journal):
    origin = raw_origin(answering(ANSWER))
    proxy = sallyport(policy=RULE + JOURNAL, prefix=with_journal(journal.path.parent))
    client = raw_client(proxy)
    client.send(f"GET http://{origin.authority}/a HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
    assert client.answer().status == 200
    entry = journal.entries.wait_for(lambda entry: "SALLYPORT_REF" in entry)
    assert entry["SYSLOG_IDENTIFIER"] == "sallyport" and entry["PRIORITY"] == "6"
    assert entry["SALLYPORT_RULE"] == "payments" and entry["SALLYPORT_HOST"] == "127.0.0.1"
    assert entry["SALLYPORT_METHOD"] == "GET" and entry["SALLYPORT_STATUS"] == "200"
    assert entry["SALLYPORT_TARGET"] == f"http://{origin.authority}/a"
    assert entry["SALLYPORT_DECISION"] == "allow" and entry["SALLYPORT_REASON"] == "rule"
    assert entry["SALLYPORT_UPSTREAM"] == origin.authority
    assert entry["SALLYPORT_CLIENT"].startswith("127.0.0.1:")
    words = entry["MESSAGE"].split(" ")
    assert words[0] == entry["SALLYPORT_REF"] and words[2:5] == ["GET", entry["SALLYPORT_TARGET"], "200"]
    assert proxy.raw_log == []


def test_a_refusal_is_a_notice_with_its_error(sallyport, raw_client, journal):
    proxy = sallyport(policy=RULE + 'action = "deny"\n' + JOURNAL, prefix=with_journal(journal.path.parent))
    client = raw_client(proxy)
    client.send(b"CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n")
    response = client.answer()
    assert response.status == 403
    entry = journal.entries.wait_for(lambda entry: "SALLYPORT_REF" in entry)
    assert entry["PRIORITY"] == "5" and entry["SALLYPORT_DECISION"] == "deny"
    assert entry["SALLYPORT_OUTCOME"] == "denied" and entry["SALLYPORT_HOST"] == "127.0.0.1"


def test_what_is_not_of_a_request_has_its_level_as_priority(sallyport, journal):
    proxy = sallyport(policy=JOURNAL, prefix=with_journal(journal.path.parent))
    proxy.configuration.write_text("[proxy]\nlisten = 3\n")
    proxy.process.send_signal(signal.SIGHUP)
    entry = journal.entries.wait_for(lambda entry: "nothing has changed" in entry["MESSAGE"])
    assert entry["PRIORITY"] == "3" and entry["SYSLOG_IDENTIFIER"] == "sallyport"


def test_under_systemd_the_journal_is_chosen(sallyport_binary, journal, tmp_path):
    """JOURNAL_STREAM names standard error by device and inode; of a standard error redirected since it is not true."""
    configuration = tmp_path / "sallyport.toml"
    configuration.write_text('[proxy]\nlisten = ["127.0.0.1:0"]\n')

    def entries_with(stream: str) -> list[dict]:
        stream_end, standard_error = socket.socketpair()
        status = os.fstat(standard_error.fileno())
        process = subprocess.Popen(
            [*with_journal(journal.path.parent), binary(), "run", "--config", configuration],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=standard_error,
            env=clean_environment(JOURNAL_STREAM=stream.format(device=status.st_dev, inode=status.st_ino)),
        )
        before = len(journal.entries.snapshot())
        process.stdout.readline()
        process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0
        process.stdout.close()
        stream_end.close()
        standard_error.close()
        return journal.entries.snapshot()[before:]

    assert [entry["MESSAGE"] for entry in entries_with("{device}:{inode}")][-1] == "stopped"
    assert entries_with("{device}:1{inode}") == []


def test_a_journal_that_is_gone_is_said_once_and_its_lines_follow(sallyport, raw_client, journal, tmp_path):
    proxy = sallyport(policy=JOURNAL, prefix=with_journal(journal.path.parent))
    aside = journal.path.with_name("aside")
    journal.path.rename(aside)

    def ask():
        client = raw_client(proxy)
        client.send(b"CONNECT nobody.invalid:1 HTTP/1.1\r\nHost: nobody.invalid:1\r\n\r\n")
        client.answer()

    for _ in range(3):
        ask()
    lines = proxy.log.wait_for_several(4)
    assert "the journal cannot be written to" in lines[0]["not_json"]
    assert all("CONNECT nobody.invalid:1 " in line["not_json"] for line in lines[1:])
    aside.rename(journal.path)
    ask()
    journal.entries.wait_for(lambda entry: entry.get("SALLYPORT_HOST") == "nobody.invalid")
    assert len(proxy.log.snapshot()) == 4
