"""An origin whose answers a test scripts path by path, and a proxy that stores them.

    stored = cached(cache='offline = "1d"')        a proxy with an API, one rule "kept" that stores, and an origin behind it
    stored.site.say("/x", said("Cache-Control: max-age=60"), said(body=b"two"))     the last one serves all that follow
    held = stored.site.hold("/x")                  the test itself answers: held.next() waits for a request of it
    answer = stored.ask("/x", "Accept-Language: en")        over a connection of its own, unless `client` is one
    check_hit(answer), check_forwarded(answer, "uri-miss")  what Cache-Status says; stored.count("/x") is what the origin saw

An answer is made stale by the origin, which says that it is old already (Age): no test waits until one is.
"""

import re
import threading
import time
from dataclasses import dataclass, replace
from email.utils import formatdate

import pytest

from admin_client import AdminClient
from journal import DEADLINE_SECONDS, Journal
from origins import ClosedByProxy, OriginConnection, unused_port
from reachability_world import ADMIN
from serializer_world import chunks
from strict_http import Message
from tls_world import client_context

FRESH = "Cache-Control: max-age=3600"
# Old by 1000 s, fresh for 100 s: stale by 900 s.
STALE = ("Cache-Control: max-age=100", "Age: 1000")
STALE_BY = 900


# What an origin says


@dataclass(frozen=True)
class Said:
    """An answer. `cut`: the connection ends after so many bytes of the body, by a reset if `resets`."""

    fields: tuple[str, ...] = ()
    body: bytes = b"one"
    status: int = 200
    framing: str = "length"
    version: str = "1.1"
    trailers: bytes = b""
    cut: int | None = None
    resets: bool = False

    def head(self) -> bytes:
        lines = [f"HTTP/{self.version} {self.status} Said", *self.fields]
        names = {line.partition(":")[0].lower() for line in self.fields}
        if "date" not in names:
            lines.append(f"Date: {http_date()}")
        if self.status not in (204, 304) and self.status >= 200:
            if self.framing == "length":
                lines.append(f"Content-Length: {len(self.body)}")
            elif self.framing == "chunked":
                lines.append("Transfer-Encoding: chunked")
        return "\r\n".join([*lines, "", ""]).encode()

    def content(self) -> bytes:
        return chunks(self.body, 64 << 10, self.trailers) if self.framing == "chunked" else self.body

    def give(self, connection: OriginConnection, request: Message) -> bool:
        """False: nothing more is said on this connection."""
        has_content = request.method != b"HEAD" and self.status not in (204, 304)
        content = self.content() if has_content else b""
        connection.send(self.head() + (content if self.cut is None else content[: self.cut]))
        if self.resets:
            connection.reset()
        closes = "connection: close" in {line.lower() for line in self.fields}
        return self.cut is None and not closes and (self.framing != "close" or not has_content)


def said(*fields: str, **knobs) -> Said:
    return Said(fields, **knobs)


def http_date(seconds: float = 0) -> str:
    """The time so many seconds from now, as HTTP writes it."""
    return formatdate(time.time() + seconds, usegmt=True)


def validated(tag: str, *fields: str, body: bytes = b"one", **knobs):
    """Says 304 to whoever has this entity tag already, and all of it to others."""

    def answer(connection: OriginConnection, request: Message) -> Said:
        known = [tag.removeprefix("W/").encode() in value for value in request.values("If-None-Match")]
        full = said(f"ETag: {tag}", *fields, body=body, **knobs)
        return replace(full, status=304, body=b"") if any(known) else full

    return answer


def breaks_off(connection: OriginConnection, request: Message) -> bool:
    """Nothing is said: the connection ends."""
    return False


def never_answers(connection: OriginConnection, request: Message) -> bool:
    connection.wait_for_end()
    return False


class HeldRequest:
    """A request that the test answers itself, as slowly as it wants."""

    def __init__(self, connection: OriginConnection, request: Message):
        self.connection, self.request = connection, request
        self.is_answered = threading.Event()
        self.goes_on = True

    def send(self, data: bytes) -> None:
        try:
            self.connection.send(data)
        except ClosedByProxy:
            raise AssertionError("the proxy has left the origin") from None

    def say(self, answer: Said) -> None:
        """All of it."""
        self.goes_on = answer.give(self.connection, self.request)
        self.is_answered.set()

    def end(self) -> None:
        """All of the body has been sent."""
        self.is_answered.set()

    def break_off(self) -> None:
        self.goes_on = False
        self.is_answered.set()

    def wait_for_end(self) -> str:
        """Until the proxy ends the connection."""
        end = self.connection.wait_for_end()
        self.break_off()
        return end


class Held:
    """Requests of a path, in the order in which they came."""

    def __init__(self, path: str):
        self.requests = Journal(f"held requests of {path}")
        self.taken = 0

    def next(self) -> HeldRequest:
        self.taken += 1
        return self.requests.wait_for_several(self.taken)[-1]

    def __call__(self, connection: OriginConnection, request: Message) -> bool:
        held = HeldRequest(connection, request)
        self.requests.append(held)
        held.is_answered.wait(DEADLINE_SECONDS)
        return held.goes_on


class Site:
    """The script of an origin. An answer is `Said`, or a function of the connection and the request that returns one, or
    has answered itself and returns whether the connection goes on."""

    def __init__(self):
        self.answers: dict[str, list] = {}
        self.asked = Journal("what the origin was asked")
        self.held: list[Held] = []
        self.lock = threading.Lock()

    def say(self, path: str, *answers) -> None:
        """From now on; the last one serves all that follow."""
        with self.lock:
            self.answers[path] = list(answers)

    def hold(self, path: str) -> Held:
        held = Held(path)
        self.held.append(held)
        self.say(path, held)
        return held

    def __call__(self, connection: OriginConnection) -> None:
        while True:
            request = connection.read_request()
            path = request.target.decode()
            self.asked.append((path, request))
            with self.lock:
                answers = self.answers.get(path) or [said("Cache-Control: no-store", status=404, body=b"none")]
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
            said_or_not = answer if isinstance(answer, Said) else answer(connection, request)
            goes_on = said_or_not.give(connection, request) if isinstance(said_or_not, Said) else said_or_not
            if not goes_on:
                return

    def requests(self, path: str) -> list[Message]:
        return [request for asked, request in self.asked.snapshot() if asked == path]

    def wait_for(self, path: str, count: int = 1) -> Message:
        """The request that makes them so many."""
        return self.asked.wait_for_several(count, lambda entry: entry[0] == path)[-1][1]

    def release(self) -> None:
        """Nobody waits for the test any longer."""
        for held in self.held:
            for request in held.requests.snapshot():
                request.break_off()


def numbered(*fields: str, **knobs):
    """Each request gets a body of its own: `b"answer 1"`, `b"answer 2"`, …"""
    lock, count = threading.Lock(), 0

    def answer(connection: OriginConnection, request: Message) -> Said:
        nonlocal count
        with lock:
            count += 1
            return said(*fields, body=b"answer %d" % count, **knobs)

    return answer


# The proxy


def policy(
    *lines: str,
    cache: str = "",
    request: str = "",
    response: str = "",
    timeouts: str = "",
    store: str = "",
    name: str = "kept",
) -> str:
    """[cache], and a rule that stores."""
    tables = {"cache": cache, "request": request, "response": response, "timeouts": timeouts}
    text = f"[cache]\n{store}\n" + "\n".join([f'[[rule]]\nname = "{name}"', *lines, ""])
    for table, content in tables.items():
        if content or table == "cache":
            text += f"[rule.{table}]\n{content}\n"
    return text


class Stored:
    """A proxy that stores, and one origin."""

    def __init__(self, proxy, site: Site, origin, host: str, enter, is_secure: bool):
        self.proxy, self.site, self.origin, self.host = proxy, site, origin, host
        self.enter = enter  # a client that is ready to send `head`
        self.is_secure = is_secure

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.origin.port}"

    def head(self, path: str, *lines: str, method: str = "GET", version: str = "1.1") -> bytes:
        target = path if self.is_secure else f"http://{self.authority}{path}"
        fields = "".join(f"{line}\r\n" for line in lines)
        return f"{method} {target} HTTP/{version}\r\nHost: {self.authority}\r\n{fields}\r\n".encode()

    def ask(self, path: str, *lines: str, method: str = "GET", body: bytes = b"", client=None) -> Message:
        if body or method in ("POST", "PUT", "PATCH"):
            lines += (f"Content-Length: {len(body)}",)
        client = client or self.enter()
        return client.exchange(self.head(path, *lines, method=method) + body)

    def start(self, path: str, *lines: str, **more):
        """A client that has asked."""
        client = self.enter()
        client.send(self.head(path, *lines, **more))
        return client

    def start_several(self, count: int, path: str, *lines: str) -> list:
        return [self.start(path, *lines) for _ in range(count)]

    def wait_until_asked(self, count: int) -> None:
        """Until the proxy has read requests of so many clients that it has not answered."""
        self.proxy.admin.asked_until(
            "/v1/connections", lambda all: sum(entry["request"] is not None for entry in all) >= count
        )

    def leave(self) -> None:
        """The destination is gone: whoever connects is refused, and nothing is kept open."""
        self.origin.stop()
        self.origin.stop = lambda: None

    def count(self, path: str) -> int:
        return len(self.site.requests(path))

    def is_stored(self, path: str, *lines: str) -> bool:
        """Whether the next request is answered without the origin."""
        before = self.count(path)
        self.ask(path, *lines)
        return self.count(path) == before


@pytest.fixture
def cached(sallyport, raw_origin, raw_client, request):
    """A function that starts a proxy whose rule stores, and an origin: over https inside interception where `secure`."""
    sites = []

    def start(*lines: str, secure: bool = False, more: str = "", proxy: str = "", client=None, **tables) -> Stored:
        sites.append(site := Site())
        if not secure:
            origin = raw_origin(site)
            # A port of its own, so that a reload has nothing to say of `listen`.
            listen = f'["127.0.0.1:{unused_port()}"]'
            started = sallyport(proxy=proxy, policy=ADMIN + policy(*lines, **tables) + more, listen=listen)
            host, enter = "127.0.0.1", lambda: (client or raw_client)(started)
        else:
            world, authority, secure_client = (
                request.getfixturevalue(name) for name in ("world", "authority", "secure_client")
            )
            origin = request.getfixturevalue("tls_origin")(site, world.context(world.leaf("a.test")))
            host = "a.test"
            text = ADMIN + authority.table + policy('connect = "intercept"', *lines, **tables) + more
            started = request.getfixturevalue("secure_proxy")(text, proxy=proxy)

            def enter():
                made = secure_client(started)
                assert made.tunnel(host, origin.port).status == 200
                made.shake_hands(client_context(authority.file), host)
                return made

        started.admin = AdminClient(started.configuration.parent / "admin.sock")
        return Stored(started, site, origin, host, enter, secure)

    yield start
    for site in sites:
        site.release()


# Cache-Status: RFC 9211, in the grammar of RFC 8941

STRING = r'"(?:[ !\x23-\x5b\x5d-\x7e]|\\["\\])*"'
TOKEN = r"[A-Za-z*][A-Za-z0-9:/!#$%&'*+\-.^_`|~]*"
PARAMETERS = rf"(?:; *[a-z*][a-z0-9_\-.*]*(?:=(?:{STRING}|-?\d{{1,15}}|{TOKEN}|\?[01]))?)*"
MEMBER = re.compile(rf"({STRING}|{TOKEN})({PARAMETERS})")
PARAMETER = re.compile(rf"; *([a-z*][a-z0-9_\-.*]*)(?:=({STRING}|-?\d+|{TOKEN}|\?[01]))?")
REASONS = {"bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"}
KINDS = {"hit": bool, "fwd": str, "fwd-status": int, "ttl": int, "stored": bool, "collapsed": bool}


def typed(text: str):
    if text in ("", "?1"):
        return True
    if text == "?0":
        return False
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def members_of_cache_status(value: str) -> list[tuple[str, dict]]:
    members, at = [], 0
    while at < len(value):
        match = MEMBER.match(value, at)
        assert match, f"Cache-Status is no list of RFC 8941: {value!r}"
        members.append((match[1], {name: typed(text) for name, text in PARAMETER.findall(match[2])}))
        at = match.end()
        if at < len(value):
            comma = re.compile(r"[ \t]*,[ \t]*(?=.)").match(value, at)
            assert comma, f"Cache-Status is no list of RFC 8941: {value!r}"
            at = comma.end()
    return members


def cache_status(answer) -> dict:
    """The parameters of the last member, which must be ours and consistent. `answer` is of either version of HTTP."""
    if isinstance(answer, Message):
        values = [value.decode("ascii") for value in answer.values("Cache-Status")]
        shown = f"{answer.status} {answer.reason!r} {answer.fields} {answer.body[:200]!r}"
    else:
        values = answer.values("cache-status")
        shown = f"{answer.headers}"
    assert values, f"there is no Cache-Status: {shown}"
    members = members_of_cache_status(", ".join(values))
    name, parameters = members[-1]
    assert name == "sallyport", f"the last cache is not ours: {shown}"
    assert [member for member, _ in members].count("sallyport") == 1, f"we stand there twice: {shown}"
    for key, kind in KINDS.items():
        assert isinstance(parameters.get(key, kind()), kind), f"{key} is no {kind.__name__}: {shown}"
    assert ("hit" in parameters) != ("fwd" in parameters), f"neither or both of hit and fwd: {shown}"
    assert parameters.get("fwd", "miss") in REASONS, f"no reason of RFC 9211: {shown}"
    return parameters


def check_hit(answer, body: bytes | None = None, stale: bool = False) -> dict:
    """It was answered of what is stored, without the origin, and says how old that is (RFC 9111, 5.1)."""
    parameters = cache_status(answer)
    assert parameters.get("hit"), parameters
    if "ttl" in parameters:
        assert (parameters["ttl"] <= 0) if stale else (parameters["ttl"] >= 0), parameters
    if isinstance(answer, Message):
        if answer.status < 400:
            assert re.fullmatch(rb"\d+", answer.value("Age") or b""), answer.fields
    if body is not None:
        assert answer.body == body
    return parameters


def check_forwarded(answer, reason: str | tuple[str, ...], body: bytes | None = None, **expected) -> dict:
    """The origin was asked, for this reason; `expected` are parameters of Cache-Status, with _ for - and None for none."""
    parameters = cache_status(answer)
    reasons = (reason,) if isinstance(reason, str) else reason
    assert parameters.get("fwd") in reasons, parameters
    for name, value in expected.items():
        assert parameters.get(name.replace("_", "-")) == value, (name, parameters)
    if body is not None:
        assert answer.body == body
    return parameters
