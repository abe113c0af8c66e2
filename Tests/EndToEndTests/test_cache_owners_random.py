"""Random requests of several owners: with `share = "user"` or `"unit"` nobody ever gets what was made for another, and with
`"machine"` nobody gets what was made for credentials, or is private, unless the origin says that it is for all.

What a request is made of is drawn from a seed, which a failure prints: SALLYPORT_SEED=N repeats it. The origin says in each answer,
in its body, its ETag and a field, whose request it answered: each owner sends a word of its own with each request.
"""

import os
import random
import re
import signal
import threading

import pytest

from admin_client import AdminClient
from cache_world import policy
from cgroup_world import groups  # noqa: F401
from journal import DEADLINE_SECONDS
from origins import OriginConnection, unused_port
from raw_client import RawClient
from reachability_world import ADMIN
from strict_http import Message
from users_world import NAMED, NUMBERED, STRANGER, UserClient

SEED = os.environ.get("SALLYPORT_SEED")
SEEDS = [int(SEED)] if SEED else range(1, 5)
REQUESTS = 150
PATHS = [f"/{number}" for number in range(5)]

# Drawn by the origin. The first column: whether it is for everyone, whatever the request had.
ANSWERS = [
    ((), False),
    (("Cache-Control: max-age=3600",), False),
    (("Cache-Control: public, max-age=3600",), True),
    (("Cache-Control: s-maxage=3600",), True),
    (("Cache-Control: max-age=0, must-revalidate",), True),
    (("Cache-Control: max-age=60, stale-while-revalidate=600, stale-if-error=600", "Age: 100"), False),
    (("Cache-Control: no-cache",), False),
    (("Cache-Control: private, max-age=3600",), False),
    (("Cache-Control: private=\"X-Whose\", max-age=3600",), False),
    (("Cache-Control: no-store",), False),
    (("Expires: Thu, 01 Jan 2099 00:00:00 GMT",), False),
    (("Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT",), False),
]
VARY = [(), (), ("Vary: Accept",), ("Vary: Cookie",), ("Vary: Accept, Authorization",), ("Vary: *",)]
# Drawn by a client.
LINES = [
    ("Accept: a", "Accept: b", None),
    ("Cookie: session=1", "Cookie: session=2", None, None),
    ("Authorization: Basic eDp5", "Authorization: Bearer z", None, None, None),
    ("Cache-Control: no-cache", "Cache-Control: only-if-cached", "Cache-Control: max-stale=1000", "Pragma: no-cache", *(None,) * 6),
    ("Range: bytes=0-40", "Range: bytes=3-", *(None,) * 5),
]
METHODS = ["GET"] * 12 + ["HEAD", "HEAD", "POST", "DELETE", "OPTIONS"]


class Telling:
    """An origin whose answers say for whom they were made: `for=WORD; number=N; authorized=0; open=0`, and more of the same."""

    def __init__(self, seed: int):
        self.chance, self.lock = random.Random(f"origin {seed}"), threading.Lock()
        self.count = 0
        self.fails = 0.05

    def __call__(self, connection: OriginConnection) -> None:
        while True:
            request = connection.read_request()
            with self.lock:
                self.count += 1
                number, fails = self.count, self.chance.random() < self.fails
                (lines, is_open), vary = self.chance.choice(ANSWERS), self.chance.choice(VARY)
                status = self.chance.choice(("200 OK",) * 8 + ("404 Not Found", "301 Moved Permanently", "503 Busy"))
                length, is_chunked = self.chance.choice((80, 3000, 200_000)), self.chance.random() < 0.3
            if fails:
                return
            word = request.value("X-Word").decode()
            is_private = any("private" in line or "no-store" in line for line in lines)
            is_authorized = request.value("Authorization") is not None
            told = f"for={word}; number={number}; closed={int(is_private or is_authorized and not is_open)};"
            body = (told.encode() + b" ") * (length // (len(told) + 1) + 1)
            head = [f"HTTP/1.1 {status}", *lines, *vary, f'ETag: "{word}-{number}"', f"X-Whose: {word}"]
            tag = f'"{word}-'.encode()
            if request.method == b"GET" and tag in (request.value("If-None-Match") or b"") and self.chance.random() < 0.7:
                given = request.value("If-None-Match").decode()
                connection.send("\r\n".join(["HTTP/1.1 304 Not Modified", f"ETag: {given.split(', ')[0]}", *lines, "", ""]).encode())
                continue
            if is_chunked and request.method != b"HEAD":
                head.append("Transfer-Encoding: chunked")
                body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            else:
                head.append(f"Content-Length: {len(body)}")
            connection.send("\r\n".join([*head, "", ""]).encode() + (b"" if request.method == b"HEAD" else body))


class Owner:
    """Asks from sockets of its own. `connect`: a client that is this owner's; `group`: who may have its answers."""

    def __init__(self, word: str, group: str, connect):
        self.word, self.group, self.connect = word, group, connect


def whose(answer: Message) -> set[str]:
    """All owners that an answer speaks of."""
    named = set(re.findall(rb"for=([a-z]+[0-9])", answer.body))
    named |= {value for value in answer.values("X-Whose")}
    named |= {match for value in answer.values("ETag") for match in re.findall(rb'"([a-z]+[0-9])-', value)}
    return {name.decode() for name in named}


class Asking:
    """Owners that ask at the same time, each by a thread."""

    def __init__(self, owners: list[Owner], authority: str, share: str, seed: int):
        self.owners, self.authority, self.share, self.seed = owners, authority, share, seed
        self.failures: list[BaseException] = []
        self.hits = self.shared = 0
        self.tags: list[str] = []  # of everyone: who knows another's must not learn from it

    def run(self, part: int, proxy) -> None:
        threads = [
            threading.Thread(target=self._ask_all, args=(owner, proxy, random.Random(f"{self.seed} {part} {number}")), daemon=True)
            for number, owner in enumerate(self.owners)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5 * DEADLINE_SECONDS)
        if self.failures:
            raise self.failures[0]

    def _ask_all(self, owner: Owner, proxy, chance: random.Random) -> None:
        client = None
        try:
            for _ in range(REQUESTS):
                if client is None or chance.random() < 0.2:
                    if client:
                        client.close()
                    client = owner.connect(proxy)
                client = self._ask(owner, client, chance)
        except BaseException as failure:
            self.failures.append(failure)
        if client:
            client.close()

    def _ask(self, owner: Owner, client: RawClient, chance: random.Random) -> RawClient | None:
        """None: the connection has ended."""
        method, path = chance.choice(METHODS), chance.choice(PATHS)
        lines = [line for several in LINES if (line := chance.choice(several))]
        if method == "GET" and self.tags and chance.random() < 0.15:
            lines.append(f"If-None-Match: {chance.choice(self.tags)}")
        if method in ("POST", "DELETE"):
            lines = [line for line in lines if not line.startswith("Range")] + ["Content-Length: 0"]
        head = [f"{method} http://{self.authority}{path} HTTP/1.1", f"Host: {self.authority}", f"X-Word: {owner.word}", *lines, "", ""]
        try:
            answer = client.exchange("\r\n".join(head).encode())
        except Exception as ended:
            if type(ended).__name__ != "Ended":
                raise
            return None
        self._judge(owner, answer, " | ".join(head))
        self.tags = [*self.tags[-20:], *(value.decode() for value in answer.values("ETag"))]
        return None if b"close" in (answer.value("Connection") or b"") else client

    def _judge(self, owner: Owner, answer: Message, asked: str) -> None:
        status = (answer.value("Cache-Status") or b"").decode()
        self.hits += "; hit" in status
        others = {word for word in whose(answer) if group_of(word, self.owners) != owner.group}
        self.shared += bool(others)
        shown = (
            f"seed {self.seed}: {owner.word} asked {asked} and got what is {sorted(others)}'s:"
            f" {answer.status} {answer.fields} {answer.body[:120]!r}"
        )
        if self.share == "machine":
            # Whoever it was made for, if it was made for credentials or is private it is for the one who asked for it.
            others = {match.decode() for match in re.findall(rb"for=([a-z]+[0-9]); number=\d+; closed=1", answer.body)}
            assert others <= {owner.word}, shown
        else:
            assert not others, shown


def group_of(word: str, owners: list[Owner]) -> str:
    return next(owner.group for owner in owners if owner.word == word)


@pytest.fixture
def crowd(sallyport, raw_origin, tmp_path):
    """A function: random requests of these owners, before and after the daemon is killed and started again on its directory."""

    def ask(share: str, owners: list[Owner], seed: int) -> Asking:
        telling = Telling(seed)
        origin = raw_origin(telling)
        store = f'directory = "{tmp_path / "store"}"\nmemory = "2MiB"'
        rule = policy(store=store, cache=f'share = "{share}"\noffline = "1d"\nstale_if_error = "1d"')
        asking = Asking(owners, origin.authority, share, seed)
        for part in range(2):
            proxy = sallyport(policy=ADMIN + rule, listen=f'["127.0.0.1:{unused_port()}"]')
            proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")
            asking.run(part, proxy)
            # In the last part nobody can be reached: what is old stands in.
            if part == 1:
                telling.fails = 1
                asking.run(2, proxy)
            proxy.expected_exit = {0, -signal.SIGKILL}
            proxy.process.kill()
            proxy.wait_for_exit()
        assert asking.hits > REQUESTS / 10, f"only {asking.hits} hits"
        return asking

    return ask


def user(number: int, word: str) -> Owner:
    return Owner(word, f"user {number}", lambda proxy: UserClient(proxy.address, number))


@pytest.mark.parametrize("seed", SEEDS)
def test_users(seed, crowd):
    owners = [user(NUMBERED, "ada1"), user(STRANGER, "bob1"), user(NAMED, "eve1"), user(NUMBERED, "ada2")]
    assert crowd("user", owners, seed).shared == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_machine(seed, crowd):
    """Here they do get each other's answers, so the test that they never do would see it."""
    owners = [user(NUMBERED, "ada1"), user(STRANGER, "bob1"), user(NAMED, "eve1")]
    assert crowd("machine", owners, seed).shared > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_units(seed, crowd, groups):
    """Two units of one user, and a unit of the same name of another."""
    place = groups.own_slice()
    units = [groups.make(f"{place}/{name}.service") for name in ("one", "two")]
    who = [(units[0], NUMBERED, "ada1"), (units[1], NUMBERED, "bob1"), (units[0], STRANGER, "eve1"), (units[0], NUMBERED, "ada2")]
    owners = [unit(groups, *each) for each in who]
    assert crowd("unit", owners, seed).shared == 0


# One program makes the sockets of all of them.
MAKING = threading.Lock()


def unit(groups, place: str, number: int, word: str) -> Owner:
    def connect(proxy) -> RawClient:
        with MAKING:
            made = groups.socket(place, number)
        return RawClient(proxy.address, made=made)

    return Owner(word, f"{place} of {number}", connect)
