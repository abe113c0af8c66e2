"""Rules that name systemd units: clients that systemd runs in units, slices and scopes get the rules of those, and one
that only calls itself so does not.
"""

import json
import shlex
from collections.abc import Iterator

import pytest

from booted import Machine
from debian import ENABLE
from origins import RawOrigin, answering

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
POLICY = """
[[rule]]
name = "desk"
users = ["alice"]
units = ["desk.service"]

[[rule]]
name = "kiosk"
units = ["kiosk.service"]

[[rule]]
name = "batch"
units = ["batch.slice"]

[[rule]]
name = "nobody-else"
action = "deny"
"""
CURL = "curl --silent --output /dev/null --write-out '%{http_code}' --proxy http://127.0.0.1:3128"


@pytest.fixture(scope="module")
def guarded(shared_machine) -> Machine:
    """A machine with a policy for units, and two users."""
    machine = shared_machine
    machine("useradd --create-home alice && useradd bob")
    machine.write("/etc/sallyport/policy.d/50-test.toml", POLICY)
    machine(ENABLE)
    return machine


@pytest.fixture(scope="module")
def web(guarded) -> Iterator[RawOrigin]:
    with guarded.network():
        origin = RawOrigin(answering(OK))
    yield origin
    origin.stop()


def asked(machine: Machine, web: RawOrigin, wrapper: str, user: str | None = None) -> dict:
    """The line of the log of the request that a client makes in a wrapper."""
    path = f"/{len(machine.journal.snapshot())}"
    done = machine(f"{wrapper} {CURL} {web.url}{path}", user=user)
    target = f"{web.url}{path}"
    entry = machine.journal.wait_for(lambda entry: entry.get("SALLYPORT_TARGET") == target)
    explained = machine(f"sallyport explain --json {entry['SALLYPORT_REF']}", check=False)
    line = json.loads(explained.stdout)
    assert explained.returncode == (3 if line["decision"] == "deny" else 0), explained
    assert done.stdout.endswith(str(line["status"]))
    assert (entry.get("SALLYPORT_USER"), entry.get("SALLYPORT_UNIT")) == (line["user"], line["unit"])
    return line


def service(unit: str, user: str = "alice", **properties: str) -> str:
    more = [f"--property={name}={value}" for name, value in properties.items()]
    return shlex.join(["systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--unit={unit}",
                       f"--property=User={user}", *more])


# Moves into a group of its own making that is called as a unit is, and runs there what follows.
INNER = """
own=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)
mkdir "$own/kiosk.service" && echo $$ > "$own/kiosk.service/cgroup.procs"
exec "$@"
"""

# In what the client runs; the rule that it gets, the unit and the user that the log names.
CLIENTS = {
    "a service that a rule names": (service("kiosk.service"), "kiosk", "kiosk.service", "alice"),
    "the same of another user": (service("kiosk.service", "bob"), "kiosk", "kiosk.service", "bob"),
    "another service": (service("other.service"), "nobody-else", "other.service", "alice"),
    "a service whose name begins so": (
        service("kiosk.service.service"), "nobody-else", "kiosk.service.service", "alice"),
    "a service in a slice": (service("job.service", Slice="batch.slice"), "batch", "job.service", "alice"),
    "a slice below that slice": (
        service("job.service", Slice="batch-nightly.slice"), "batch", "job.service", "alice"),
    "a slice whose name begins so": (
        service("job.service", Slice="batches.slice"), "nobody-else", "job.service", "alice"),
    "a scope in a slice": (
        "systemd-run --quiet --scope --collect --unit=job.scope --slice=batch.slice --uid=alice",
        "batch", "job.scope", "alice"),
    "user and unit": (service("desk.service"), "desk", "desk.service", "alice"),
    "the unit, but another user": (service("desk.service", "bob"), "nobody-else", "desk.service", "bob"),
    "the user, but another unit": (service("other.service"), "nobody-else", "other.service", "alice"),
    "a group that a service makes below itself": (
        service("podman.service", "root", Delegate="yes") + " " + shlex.join(["sh", "-ec", INNER, "sh"]),
        "nobody-else", "podman.service", "root"),
    "a user that has no name": (
        service("kiosk.service", "root") + " setpriv --reuid=61234 --regid=61234 --clear-groups",
        "kiosk", "kiosk.service", "61234"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_gets_the_rule_of_its_unit(guarded, web, name):
    wrapper, rule, unit, user = CLIENTS[name]
    line = asked(guarded, web, wrapper)
    assert (line["rule"], line["unit"], line["user"]) == (rule, unit, user)
    assert line["status"] == (403 if rule == "nobody-else" else 200)


def test_a_client_outside_of_the_machines_tree_is_of_an_unknown_unit(guarded, web):
    """It entered the machine and stayed in the control group of the host, which nobody inside can look up."""
    line = asked(guarded, web, "env")
    assert (line["rule"], line["unit"], line["user"], line["status"]) == ("nobody-else", "unknown", "root", 403)


def test_clients_at_once_are_told_apart(guarded, web):
    """Both are there when either is looked up."""
    units = ("kiosk.service", "other.service")
    guarded(" & ".join(f"{service(unit)} {CURL} {web.url}/{unit}" for unit in units) + " & wait")
    for unit, rule in zip(units, ("kiosk", "nobody-else")):
        target = f"{web.url}/{unit}"
        entry = guarded.journal.wait_for(lambda entry: entry.get("SALLYPORT_TARGET") == target)
        assert (entry["SALLYPORT_UNIT"], entry["SALLYPORT_RULE"]) == (unit, rule)


def test_a_unit_that_starts_anew_is_known_again(guarded, web):
    """Each time in a control group of its own, with another number."""
    for _ in range(3):
        assert asked(guarded, web, service("kiosk.service"))["rule"] == "kiosk"
        assert asked(guarded, web, service("other.service"))["rule"] == "nobody-else"


def test_a_user_cannot_call_a_unit_of_their_own_so(guarded, web):
    """A user's manager runs units of any name; they count only beside `users`."""
    guarded("loginctl enable-linger alice")
    number = guarded("id --user alice").stdout.strip()
    guarded(f"systemctl start user@{number}.service")
    own = f"XDG_RUNTIME_DIR=/run/user/{number} systemd-run --user --quiet --wait --pipe --collect"
    forged = asked(guarded, web, f"{own} --unit=kiosk.service", user="alice")
    assert (forged["rule"], forged["unit"], forged["user"]) == ("nobody-else", "kiosk.service", "alice")
    forged = asked(guarded, web, f"{own} --unit=job.service --slice=batch.slice", user="alice")
    assert (forged["rule"], forged["user"]) == ("nobody-else", "alice")
    # What a rule says of a user holds for what that user runs.
    assert asked(guarded, web, f"{own} --unit=desk.service", user="alice")["rule"] == "desk"


def test_explain_says_what_a_unit_would_get(guarded):
    for unit, rule in (("kiosk.service", "kiosk"), ("batch.slice", "batch"), ("other.service", "nobody-else")):
        explained = guarded(f"sallyport explain --unit {unit} GET http://127.0.0.1/", check=False)
        assert f"'{rule}'" in explained.stdout, explained.stdout
        assert explained.returncode == (3 if rule == "nobody-else" else 0)
