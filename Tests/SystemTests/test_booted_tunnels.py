"""Open tunnels over restarts, under a systemd that has been booted: its store keeps them while no daemon runs.

What a tunnel is and what is said of it is shown by Tests/EndToEndTests/test_tunnels_over_restarts.py, where systemd is
played. Here it is the real one: what it keeps, when it does not, and what the unit allows.
"""

import re
import time

import pytest

from origins import tunnel_echo

UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SERVICE = "sallyport.service"
MISTAKE = "[proxy]\nlisten = 3\n"


@pytest.fixture
def tunnel(serving, client):
    """A function that opens a tunnel."""

    def open_to(origin):
        opened = client()
        opened.send(f"CONNECT {origin.authority} HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode())
        assert opened.answer().status == 200
        return opened

    return open_to


def echoed(client, data: bytes) -> None:
    client.send(data)
    assert client.receive_exactly(len(data)) == data


def access_lines(machine) -> list[dict]:
    return [entry for entry in machine.entries(f"--unit={SERVICE}") if "SALLYPORT_REF" in entry]


def wait_for_access_lines(machine, count: int = 1) -> list[dict]:
    return machine.journal.wait_for_several(count, lambda entry: "SALLYPORT_REF" in entry)


# MARK: A restart


def test_a_connect_tunnel_survives_a_restart(serving, origin, tunnel):
    web = origin(tunnel_echo)
    client = tunnel(web)
    echoed(client, b"before")
    process = serving.main_process()
    begun = time.monotonic()
    serving(f"systemctl restart {SERVICE}")
    assert time.monotonic() - begun < 10, "it waited for the tunnel"
    assert serving.main_process() != process
    echoed(client, b"behind")
    assert access_lines(serving) == []
    client.half_close()
    assert client.wait_for_end() == "closed"
    (line,) = wait_for_access_lines(serving)
    assert line["SALLYPORT_METHOD"] == "CONNECT" and line["SALLYPORT_TARGET"] == web.authority
    head = len(f"CONNECT {web.authority} HTTP/1.1\r\nHost: {web.authority}\r\n\r\n")
    assert line["SALLYPORT_BYTES_IN"] == str(head + 12)
    # Nothing of it is left with systemd.
    assert serving.show(SERVICE, "NFileDescriptorStore") == "0"
    assert serving.show(SERVICE, "StatusText").endswith("rules")


def test_a_websocket_survives_a_restart(serving, origin, client):
    def script(connection) -> None:
        connection.read_request()
        connection.switch_protocol()
        connection.send(SWITCHING + b"\x81\x05hello")
        assert connection.read_exactly(6) == b"\x81\x80mask"
        connection.send(b"\x81\x00")
        connection.wait_for_end()

    web = origin(script)
    asking = client()
    asking.send(f"GET {web.url}/chat HTTP/1.1\r\nHost: {web.authority}\r\n".encode() + UPGRADE + b"\r\n")
    assert asking.message().status == 101
    assert asking.receive_exactly(7) == b"\x81\x05hello"
    serving(f"systemctl restart {SERVICE}")
    asking.send(b"\x81\x80mask")
    assert asking.receive_exactly(2) == b"\x81\x00"


@pytest.mark.parametrize("number", [200])
def test_many_tunnels_survive_restarts(serving, origin, tunnel, number):
    web = origin(tunnel_echo)
    clients = [tunnel(web) for _ in range(number)]
    for round in range(3):
        for index, client in enumerate(clients):
            client.send(b"%d in round %d" % (index, round))
        begun = time.monotonic()
        serving(f"systemctl restart {SERVICE}")
        print(f"a restart with {number} tunnels took {time.monotonic() - begun:.2f} s")
        for index, client in enumerate(clients):
            expected = b"%d in round %d" % (index, round)
            assert client.receive_exactly(len(expected)) == expected
    assert access_lines(serving) == []
    for client in clients:
        client.half_close()
    lines = wait_for_access_lines(serving, number)
    assert len({line["SALLYPORT_REF"] for line in lines}) == number
    assert {line["SALLYPORT_OUTCOME"] for line in lines} == {"done"}


def test_tunnels_wait_while_a_configuration_is_mended(serving, origin, tunnel):
    """A start that fails takes nothing away: systemd tries again, and passes them again."""
    client = tunnel(origin(tunnel_echo))
    configuration = serving.file("/etc/sallyport/sallyport.toml")
    good = configuration.read_text()
    configuration.write_text(MISTAKE)
    assert serving(f"systemctl restart {SERVICE}", check=False).returncode != 0
    configuration.write_text(good)
    serving(f"systemctl start {SERVICE}", check=False)
    echoed(client, b"here")


# MARK: What is kept, and what is not


def test_a_stop_gives_tunnels_their_time_and_says_how_they_ended(serving, origin, tunnel):
    """Systemd would drop what it was given: nobody starts the daemon again."""
    web = origin(tunnel_echo)
    client, other = tunnel(web), tunnel(web)
    serving(f"systemctl stop --no-block {SERVICE}")
    serving.said("stopping: requests under way have")
    echoed(client, b"still here")
    client.half_close()
    assert client.wait_for_end() == "closed"
    serving("systemctl kill --kill-whom=main --signal=SIGTERM sallyport.service")
    assert other.wait_for_end() == "reset"
    outcomes = {line["SALLYPORT_OUTCOME"] for line in wait_for_access_lines(serving, 2)}
    assert outcomes == {"done", "shut-down"}


def test_the_store_of_the_unit_has_room_and_no_more(serving, origin, tunnel):
    """Of those for which there is none the daemon says that they ended, once it has waited for them."""
    serving.drop_in(SERVICE, "[Service]\nFileDescriptorStoreMax=3\n")
    serving.write("/etc/sallyport/policy.d/50-test.toml", "")
    configuration = serving.file("/etc/sallyport/sallyport.toml")
    configuration.write_text(re.sub(r'(?m)^#? ?drain +=.*$', 'drain = "2s"', configuration.read_text()))
    assert 'drain = "2s"' in configuration.read_text()
    serving(f"systemctl restart {SERVICE}")
    web = origin(tunnel_echo)
    clients = [tunnel(web) for _ in range(5)]
    begun = time.monotonic()
    serving(f"systemctl restart {SERVICE}")
    assert time.monotonic() - begun >= 2
    assert [line["SALLYPORT_OUTCOME"] for line in access_lines(serving)] == ["shut-down"] * 2
    alive = [client for client in clients if client.nothing_came()]
    assert len(alive) == 3
    for client in alive:
        echoed(client, b"here")


def test_a_unit_without_a_store_restarts_as_before(serving, origin, tunnel):
    serving.drop_in(SERVICE, "[Service]\nFileDescriptorStoreMax=0\n")
    serving(f"systemctl restart {SERVICE}")
    client = tunnel(origin(tunnel_echo))
    serving(f"systemctl restart --no-block {SERVICE}")
    serving.said("stopping: requests under way have")
    echoed(client, b"still here")
    client.half_close()
    assert client.wait_for_end() == "closed"


def test_a_machine_without_a_bus_keeps_tunnels_too(serving, origin, tunnel):
    """Then nobody can be asked why the service is stopped, and a restart is taken for granted."""
    serving("systemctl stop dbus.socket dbus.service")
    client = tunnel(origin(tunnel_echo))
    serving(f"systemctl restart {SERVICE}")
    echoed(client, b"here")


def test_an_upgrade_of_the_package_keeps_tunnels(serving, origin, tunnel, package):
    process = serving.main_process()
    client = tunnel(origin(tunnel_echo))
    serving.file("/root/sallyport.deb").write_bytes(package.read_bytes())
    serving("DEBIAN_FRONTEND=noninteractive dpkg --install /root/sallyport.deb </dev/null")
    assert serving.main_process() != process
    echoed(client, b"here")
