"""Every way to an origin: plain http, http that a rule upgrades, an intercepted tunnel, each kind of parent.

A way takes every request by one rule, `kept`, or by what [defaults.request] says where a test asks for that.
"""

import socket

import pytest

from origins import answering, unused_port
from parents import by, route, routed
from raw_client import RawClient
from scripted_parents import relaying, scripted_parent, scripted_secure_parent, socks_server
from tls_world import (
    OK,
    authority,
    client_context,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)

SECRET = "open-sesame"
WAYS = ["plain", "upgrade", "intercept", "http parent", "https parent", "socks5", "upgrade by parent"]


class Way:
    """A proxy whose every request takes one way to one origin."""

    def __init__(self, name: str, proxy, origin, parent, port: int, enter):
        self.name, self.proxy, self.origin, self.parent, self.port = name, proxy, origin, parent, port
        self.enter = enter

    def head(self, method: str, lines: str = "", path: str = "/x") -> bytes:
        place = f"a.test:{self.port}"
        target = path if self.name == "intercept" else f"http://{place}{path}"
        return f"{method} {target} HTTP/1.1\r\nHost: {place}\r\n{lines}\r\n".encode()

    def ask(self, method: str, lines: str = "", path: str = "/x", made: socket.socket | None = None):
        """On a connection of its own: on the socket `made`, where another is to have made it."""
        return self.enter(made).exchange(self.head(method, lines, path))

    def reach(self, method: str, path: str, made: socket.socket):
        """As `ask`, but the answer may be that to CONNECT."""
        if self.name != "intercept":
            return self.ask(method, path=path, made=made)
        return RawClient(self.proxy.address, made=made).exchange(
            f"CONNECT a.test:{self.port} HTTP/1.1\r\nHost: a.test:{self.port}\r\n\r\n".encode()
        )

    @property
    def requests(self) -> list:
        return [message for message in self.origin.requests() if message.method != b"CONNECT"]


@pytest.fixture(params=WAYS)
def way(
    request,
    routed,
    secure_proxy,
    raw_origin,
    raw_client,
    tls_origin,
    scripted_parent,
    scripted_secure_parent,
    socks_server,
    secure_client,
    authority,
    world,
):
    """A function that starts the way of this test: `way(script, request="lines of [rule.request]")`.

    {SCHEME} and {PORT} in `lines` are those of the origin. `before` and `after` are rules around the one that takes the way; as a function, `before` gets the lines of a rule that
    make it take the same way.
    """
    name = request.param

    def start(
        script=answering(OK), *lines: str, request: str = "", defaults: str = "", before="", after: str = ""
    ) -> Way:
        def kept(*more: str) -> str:
            inherited = f"[defaults.request]\n{defaults}\n" if defaults else ""
            ahead = before(*more) if callable(before) else before
            own = [line.replace("{SCHEME}", scheme).replace("{PORT}", str(port)) for line in lines]
            return inherited + ahead + rule("kept", *more, *own, request=request) + after

        environment = {"environment": {"HIDDEN": SECRET}}
        secured = world.context(world.leaf("a.test"))
        parent = None
        scheme = "https" if name in ("upgrade", "intercept", "upgrade by parent") else "http"
        if name in ("plain", "upgrade", "intercept"):
            origin = raw_origin(script) if name == "plain" else tls_origin(script, secured)
            port = origin.port
            more = {"plain": [], "upgrade": ["upgrade = true"], "intercept": ['connect = "intercept"']}[name]
            policy = (authority.table if name == "intercept" else "") + kept(*more)
            proxy = secure_proxy(policy, **environment)
        else:
            if name == "http parent":
                origin = parent = scripted_parent(script)
            elif name == "https parent":
                origin = parent = scripted_secure_parent(world.context(world.leaf("office.test")), script)
            elif name == "socks5":
                origin, parent = raw_origin(script), socks_server()
            else:
                origin, parent = tls_origin(script, secured), scripted_parent(relaying)
            port = origin.port if origin is not parent else unused_port()
            table = route("office", parent.via)
            more = ["upgrade = true"] if name == "upgrade by parent" else []
            proxy = routed(table, rules=kept(by("office"), *more), **environment)
        proxy.secrets.append(SECRET)

        def enter(made: socket.socket | None = None, host: str = "a.test") -> RawClient:
            if name != "intercept":
                return raw_client(proxy, made=made)
            client = secure_client(proxy, made=made)
            assert client.tunnel(host, port).status == 200
            client.shake_hands(client_context(authority.file), host)
            return client

        return Way(name, proxy, origin, parent, port, enter)

    return start
