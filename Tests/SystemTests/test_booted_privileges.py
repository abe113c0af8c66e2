"""What the running service may do: as the kernel counts it, as its mount namespace looks, and as a program finds that
is started beside it in the same sandbox and tries what a daemon that was taken over would try.
"""

import re
import shlex

import pytest

from booted import Machine
from debian import ENABLE
from test_units import MOST_EXPOSURE


@pytest.fixture(scope="module")
def running(shared_machine) -> Machine:
    """A machine with a user whose files are nobody's business."""
    shared_machine("useradd --create-home alice && echo secret >/home/alice/secret && echo secret >/root/secret")
    shared_machine(ENABLE)
    return shared_machine


# MARK: As the kernel counts


def test_it_has_a_user_of_its_own_and_no_capability(running):
    number, group = (running(f"id {option} sallyport").stdout.strip() for option in ("--user", "--group"))
    process = running.main_process()
    for task in running.file("/proc").glob(f"{running.show('sallyport.service', 'MainPID')}/task/*"):
        lines = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
        assert lines["Uid"].split() == [number] * 4
        assert lines["Gid"].split() == [group] * 4
        assert lines["Groups"].split() in ([], [group])
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(lines[kind], 16) == 0, f"{kind} of {lines['Name']}"
        assert lines["NoNewPrivs"] == "1"
        assert lines["Seccomp"] == "2", "no filter of system calls"
    assert process and number != "0"


def test_systemd_calls_it_safe(running):
    """Of the running unit, with whatever drop-ins the system has."""
    page = running("systemd-analyze security --no-pager sallyport.service").stdout
    assert float(re.search(r"Overall exposure level for \S+: ([\d.]+)", page)[1]) <= MOST_EXPOSURE, page


# MARK: As its mount namespace looks, to root

# Not /run, which systemd 252 in a container leaves writable to root where it gives a service a /proc of its own.
READ_ONLY = ["/", "/etc", "/etc/sallyport", "/usr/bin", "/var", "/var/log", "/boot", "/sys/fs/cgroup"]
WRITABLE = ["/var/lib/sallyport", "/run/sallyport", "/tmp", "/var/tmp"]


@pytest.mark.parametrize("kind", ["read-only", "writable"])
def test_it_can_write_its_own_state_alone(running, kind):
    """Tried by root inside, so that it is the mounts that decide."""
    inside = shlex.join(["nsenter", f"--target={running.show('sallyport.service', 'MainPID')}", "--mount", "--"])
    for place in READ_ONLY if kind == "read-only" else WRITABLE:
        made = running(f"{inside} touch {place}/touched", check=False)
        assert (made.returncode == 0) == (kind == "writable"), f"{place}: {made.stderr}"
        assert kind == "writable" or "Read-only file system" in made.stderr, f"{place}: {made.stderr}"
    # What is written to /tmp is seen by nobody else.
    assert not running.file("/tmp/touched").exists()


# MARK: As a program in the same sandbox finds

# Perl, for Debian always has it. Numbers of system calls are those of the machine: x86_64, aarch64.
PROBE = r"""
use POSIX ();
sub tried { my ($what, $done) = @_; print "$what: ", ($done ? "done" : $!), "\n"; }
sub called {
    my ($what, $numbers, @arguments) = @_;
    my ($number) = (POSIX::uname())[4] eq "aarch64" ? $numbers->[1] : $numbers->[0];
    tried($what, syscall($number, @arguments) != -1);
}
tried("write the state", open(my $state, ">", "/var/lib/sallyport/x"));
tried("write the configuration", open(my $file, ">", "/etc/sallyport/sallyport.toml"));
tried("list /home", opendir(my $home, "/home"));
tried("list /root", opendir(my $root, "/root"));
tried("see process 1", -e "/proc/1");
tried("see devices of the network", -e "/dev/net");
tried("see /dev/null", -e "/dev/null");
tried("see the tree of control groups", -e "/sys/fs/cgroup/system.slice/cgroup.procs");
tried("see links", -e "/sys/class/net/lo/ifindex");
tried("a TCP socket", socket(my $tcp, 2, 1, 0));
tried("a netlink socket", socket(my $netlink, 16, 3, 0));
tried("a packet socket", socket(my $packet, 17, 3, 0));
tried("a socket of a kind nobody needs", socket(my $vsock, 40, 1, 0));
tried("give a file away", chown(0, 0, "/var/lib/sallyport/x"));
tried("set a file's user to run as", chmod(04755, "/var/lib/sallyport/x"));
tried("become root", do { $! = 0; $< = 0; $< == 0 });
called("a namespace of mounts", [272, 97], 0x20000);
called("pages to write and run", [9, 222], 0, 4096, 7, 34, -1, 0);
called("trace a process", [101, 117], 16, 1, 0, 0);
called("load a program into the kernel", [321, 280], 0, 0, 0);
called("set the clock", [227, 112], 0, 0);
called("another domain for execution", [135, 92], 8);
called("a key of the kernel's", [250, 219], 0, -3, 0);
called("a namespace of users", [272, 97], 0x10000000);
tried("change the root", chroot("/tmp"));
"""
DENIED = "Operation not permitted"
FOUND = {
    "write the state": "done",
    "write the configuration": "Read-only file system",
    "list /home": "Permission denied",
    "list /root": "Permission denied",
    "see process 1": "No such file or directory",
    "see devices of the network": "No such file or directory",
    "see /dev/null": "done",
    # For `units` and for the kinds of links.
    "see the tree of control groups": "done",
    "see links": "done",
    "a TCP socket": "done",
    # For routes, and for who asks.
    "a netlink socket": "done",
    "a packet socket": "Address family not supported by protocol",
    "a socket of a kind nobody needs": "Address family not supported by protocol",
    "give a file away": DENIED,
    "set a file's user to run as": DENIED,
    "become root": DENIED,
    "a namespace of users": DENIED,
    "a namespace of mounts": DENIED,
    "pages to write and run": DENIED,
    "trace a process": DENIED,
    "load a program into the kernel": DENIED,
    "set the clock": DENIED,
    "another domain for execution": DENIED,
    "a key of the kernel's": DENIED,
    "change the root": DENIED,
}


def test_what_a_program_in_its_sandbox_is_let_do(running):
    running.write("/etc/sallyport/probe", PROBE)
    running.drop_in("sallyport.service", "[Service]\nExecStartPost=/usr/bin/perl /etc/sallyport/probe\n")
    running("systemctl restart sallyport.service")
    said = [entry["MESSAGE"] for entry in running.entries("--unit=sallyport.service", "_COMM=perl")]
    assert dict(line.split(": ", 1) for line in said) == FOUND
    assert running.show("sallyport.service", "ActiveState") == "active"


def test_the_same_program_outside_the_sandbox_is_let_do_more(running):
    """The probe finds what there is to find: root without the sandbox."""
    running.write("/etc/sallyport/probe", PROBE)
    said = running("perl /etc/sallyport/probe").stdout.splitlines()
    found = dict(line.split(": ", 1) for line in said)
    assert found.keys() == FOUND.keys()
    same = [what for what in found if found[what] == FOUND[what] != "done"]
    assert same == [], same
