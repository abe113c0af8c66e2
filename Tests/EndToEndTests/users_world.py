"""Clients that belong to users, and proxies whose rules ask for them.

    client = client_of(proxy, user)        a raw client whose socket is the user's, from a port of its choice
    proxy = guarded(rule_of("ada-s", "ada"))    each rule of rule_of() marks what it lets through with X-Rule

A socket belongs to the user that made it, so that one thread can make sockets of several users.
"""

import contextlib
import ctypes
import errno
import os
import pwd
import random
import socket

import pytest

from admin_client import AdminClient
from journal import DEADLINE_SECONDS
from raw_client import RawClient
from reachability_world import ADMIN

LIBC = ctypes.CDLL(None)
ROOT, NAMED, NUMBERED, STRANGER = 0, pwd.getpwnam("daemon").pw_uid, 54321, 54322

# Below those that Linux gives out by itself (ip(7), ip_local_port_range), and above what services listen on.
OWN_PORTS = (10_240, 32_768)


@contextlib.contextmanager
def acting_as(user: int):
    """What this thread makes within is the user's. Nothing else happens within: the user may read next to nothing."""
    LIBC.setfsuid(user)
    if LIBC.setfsuid(-1) != user:
        LIBC.setfsuid(os.geteuid())
        pytest.skip("needs root, to be several users")
    try:
        yield
    finally:
        LIBC.setfsuid(os.geteuid())


class UserClient(RawClient):
    """A raw client whose socket is a user's, from a port of its choice."""

    def __init__(self, address: tuple[str, int], user: int, port: int = 0, family: int | None = None):
        family = family or (socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        while not self._connect(address, user, port, family):
            pass
        self.sent, self.received = bytearray(), bytearray()
        self.read_to = self.answered = 0
        self.forget_what_was_asked()
        self.ended = None
        self.looked_at = True

    def _connect(self, address: tuple[str, int], user: int, port: int, family: int) -> bool:
        """Without a port of its choice: one that the kernel gives to nobody by itself, so that it can be taken over later.
        False where another has it: that shows when it is bound, or, as both may reuse addresses, only now."""
        with acting_as(user):
            self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(DEADLINE_SECONDS)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            any_address = "::" if family == socket.AF_INET6 else "0.0.0.0"
            self.socket.bind((any_address, port or random.randrange(*OWN_PORTS)))
            self.socket.connect(address)
            return True
        except OSError as error:
            if port or error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise
            self.socket.close()
            return False

    @property
    def port(self) -> int:
        return self.socket.getsockname()[1]


@pytest.fixture
def client_of():
    """A function that connects as a user; every byte that came back is checked at the end."""
    clients: list[UserClient] = []

    def connect_as(proxy, user: int, **arguments) -> UserClient:
        address = proxy if isinstance(proxy, tuple) else proxy.address
        clients.append(UserClient(address, user, **arguments))
        return clients[-1]

    yield connect_as
    for client in clients:
        client.close()
    for client in clients:
        if client.looked_at:
            client.check()


@pytest.fixture
def guarded(sallyport):
    """A function that starts a proxy with an API on these rules."""

    def start(policy: str, proxy: str = "workers = 1", **arguments):
        started = sallyport(proxy=proxy, policy=ADMIN + policy, **arguments)
        started.admin = AdminClient(started.configuration.parent / "admin.sock")
        return started

    return start


def rule_of(name: str, *users: str | int, action: str = "allow") -> str:
    names = ", ".join(f'"{user}"' if isinstance(user, str) else str(user) for user in users)
    condition = f"users = [{names}]\n" if users else ""
    mark = f'[rule.request]\nheaders.set = {{ X-Rule = "{name}" }}\n' if action == "allow" else ""
    return f'[[rule]]\nname = "{name}"\n{condition}action = "{action}"\n{mark}'


THREE = rule_of("named", "daemon") + rule_of("numbered", NUMBERED) + rule_of("root", "root")
DENY = 'workers = 1\ndefault = "deny"'
OWN = rule_of("own", NUMBERED)
