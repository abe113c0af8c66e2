"""What systemd hands over: sockets, of which the first connection starts the service, and secrets, which are in use and
nowhere else.
"""

import base64

import pytest

from admin_client import AdminClient
from debian import ENABLE
from origins import answering

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POLICY = "/etc/sallyport/policy.d/50-test.toml"
ADMIN = "/run/sallyport/admin.sock"


def get(origin) -> bytes:
    return f"GET {origin.url}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n".encode()


# MARK: Activation


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_first_connection_starts_the_service_and_is_answered(machine, origin, client, address):
    machine("systemctl start sallyport.socket")
    assert machine.show("sallyport.service", "ActiveState") == "inactive"
    assert client((address, 3128)).exchange(get(origin(answering(OK)))).status == 200
    assert machine.show("sallyport.service", "ActiveState") == "active"


def test_the_first_question_to_the_admin_socket_starts_the_service_and_is_answered(machine, admin):
    machine("systemctl start sallyport-admin.socket")
    assert machine.show("sallyport.service", "ActiveState") == "inactive"
    assert admin.json("/v1/status")["draining"] is False
    assert machine.show("sallyport.service", "ActiveState") == "active"


def test_a_service_that_was_stopped_is_started_by_the_next_connection(serving, origin, client, admin):
    web = origin(answering(OK))
    serving("systemctl stop sallyport.service")
    assert serving.show("sallyport.service", "ActiveState") == "inactive"
    assert client().exchange(get(web)).status == 200
    serving("systemctl stop sallyport.service")
    assert admin.json("/v1/status")["exchanges"]["total"] == 0


def test_with_the_sockets_stopped_it_stays_down(serving, client):
    serving("systemctl stop sallyport.socket sallyport-admin.socket sallyport.service")
    with pytest.raises(ConnectionRefusedError):
        client()
    assert not serving.file(ADMIN).exists()
    assert serving.show("sallyport.service", "ActiveState") == "inactive"


def test_the_sockets_addresses_take_the_place_of_listen(machine, origin, client):
    machine.drop_in("sallyport.socket", "[Socket]\nListenStream=\nListenStream=127.0.0.1:8080\n")
    machine(ENABLE)
    assert machine.show("sallyport.service", "StatusText") == "127.0.0.1:8080; 0 rules"
    assert client(("127.0.0.1", 8080)).exchange(get(origin(answering(OK)))).status == 200
    with pytest.raises(ConnectionRefusedError):
        client()


@pytest.mark.parametrize("how", [ENABLE, "systemctl start sallyport.service"], ids=["of systemd", "of its own"])
def test_the_admin_socket_is_there_for_the_group(machine, how):
    machine(how)
    status = machine.file(ADMIN).stat()
    assert oct(status.st_mode & 0o777) == "0o660"
    assert machine(f"stat --format=%G {ADMIN}").stdout == "sallyport\n"
    assert AdminClient(machine.file(ADMIN)).json("/v1/status")["draining"] is False


# MARK: Credentials

SECRETS = {"api-password": "correct horse", "api-key": "battery staple"}
CREDENTIALS = """
[[rule]]
name = "api"
hosts = ["127.0.0.1"]

[rule.request]
authorization = { username = "kiosk", password = { credential = "api-password" } }
parameters = { key = { credential = "api-key" } }
"""


@pytest.fixture
def entrusted(machine):
    """A machine whose rule needs two secrets, which root alone can read, as the manual has it."""
    for name, secret in SECRETS.items():
        machine.write(f"/etc/sallyport/credentials/{name}", f"{secret}\n", mode=0o600)
    loads = "".join(f"LoadCredential={name}:/etc/sallyport/credentials/{name}\n" for name in SECRETS)
    machine.drop_in("sallyport.service", f"[Service]\n{loads}")
    machine.write(POLICY, CREDENTIALS)
    return machine


def authorization(secret: str) -> bytes:
    return b"Basic " + base64.b64encode(f"kiosk:{secret}".encode())


def test_credentials_are_in_use(entrusted, origin, client):
    entrusted(ENABLE)
    web = origin(answering(OK))
    assert client().exchange(get(web)).status == 200
    (request,) = web.requests()
    assert request.value("Authorization") == authorization("correct horse")
    assert request.target == b"/?key=battery%20staple"


def test_credentials_are_nowhere_else(entrusted, origin, client, admin):
    entrusted("useradd alice && useradd --groups sallyport bob")
    entrusted(ENABLE)
    assert client().exchange(get(origin(answering(OK)))).status == 200
    entrusted.said(" GET http://127.0.0.1")
    for user in ("alice", "bob"):
        for place in ("/run/credentials/sallyport.service/api-password", "/etc/sallyport/credentials/api-password"):
            read = entrusted(f"cat {place}", user=user, check=False)
            assert read.returncode != 0 and "Permission denied" in read.stderr, f"{user} reads {place}"
    process = entrusted.main_process()
    seen = {
        "the journal": entrusted("journalctl --all --output=export").stdout,
        "the unit": entrusted("systemctl show sallyport.service; systemctl status sallyport.service").stdout,
        "the environment": entrusted(f"cat /proc/{entrusted.show('sallyport.service', 'MainPID')}/environ").stdout,
        "the rules": admin.ask("/v1/rules").body.decode(),
        "the connections": admin.ask("/v1/connections").body.decode(),
        "the metrics": admin.ask("/metrics").body.decode(),
    }
    assert process and "CREDENTIALS_DIRECTORY=" in seen["the environment"]
    for place, text in seen.items():
        for secret in ("correct horse", "battery", authorization("correct horse").decode()):
            assert secret not in text, f"{secret} is in {place}"


def test_a_new_secret_is_in_use_after_a_restart(entrusted, origin, client):
    """A reload reads what the daemon was given when it started, for systemd hands secrets over with the start."""
    entrusted(ENABLE)
    web = origin(answering(OK))
    entrusted.write("/etc/sallyport/credentials/api-password", "changed", mode=0o600)
    for command, secret in (("reload", "correct horse"), ("restart", "changed")):
        entrusted(f"systemctl {command} sallyport.service")
        assert client().exchange(get(web)).status == 200
        assert web.requests()[-1].value("Authorization") == authorization(secret)


def test_a_secret_that_was_not_handed_over_is_named(entrusted):
    entrusted.drop_in("sallyport.service", "[Service]\nLoadCredential=api-key:/etc/sallyport/credentials/api-key\n")
    assert entrusted("systemctl start sallyport.service", check=False).returncode != 0
    said = [entry["MESSAGE"] for entry in entrusted.entries("--unit=sallyport.service")]
    assert any(f"{POLICY}:7:" in message and "api-password" in message for message in said), said


def test_a_file_with_the_secret_that_is_gone_keeps_the_service_down(entrusted):
    entrusted.file("/etc/sallyport/credentials/api-key").unlink()
    assert entrusted("systemctl start sallyport.service", check=False).returncode != 0
    assert entrusted.show("sallyport.service", "Result") != "success"


def test_credentials_may_be_kept_encrypted(entrusted, origin, client):
    entrusted.drop_in("sallyport.service", (
        "[Service]\nLoadCredential=api-key:/etc/sallyport/credentials/api-key\n"
        "LoadCredentialEncrypted=api-password:/etc/credstore.encrypted/sallyport.api-password\n"
    ))
    entrusted("systemd-creds setup && mkdir -p /etc/credstore.encrypted && systemd-creds encrypt --with-key=host "
              "--name=api-password - /etc/credstore.encrypted/sallyport.api-password", stdin="from the store")
    entrusted(ENABLE)
    web = origin(answering(OK))
    assert client().exchange(get(web)).status == 200
    assert web.requests()[-1].value("Authorization") == authorization("from the store")
