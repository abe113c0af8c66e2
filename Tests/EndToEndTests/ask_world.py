"""Requests that wait for an operator: a proxy whose rule asks, an origin behind it, and the operator.

    asked = asking()                         a proxy with an API, one rule that asks, an origin that answers "ok"
    client = asked.start("/x")               a client that has asked and waits
    question = asked.question()              what the operator is asked, once it is one question
    asked.allow(question), asked.deny(question, "for=1h")      the operator's word

Whoever waits for a question asks /v1/asks until it is there: no test waits for the clock.
"""

import json
from pathlib import Path

import pytest

from admin_client import AdminClient
from origins import answering, unused_port
from problems import Problem, check_problem
from reachability_world import ADMIN

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ASK = '[[rule]]\nname = "ask"\naction = "ask"\n'
DENY = 'default = "deny"'
MEMBERS = (
    "ref since until waiting user uid unit program client method url host port path rule place allow"
).split()
TEMPORARY = "id verdict host scheme port method path user uid unit client since until by".split()


def terms(wait: str = "", remember: str = "") -> str:
    lines = [f'{name} = "{value}"' for name, value in (("wait", wait), ("remember", remember)) if value]
    return "\n".join(["[rule.ask]", *lines, ""])


def word(number: int) -> str:
    """A word of letters alone, another one for each number: no number, hash or id."""
    letters = "ghijklmnopqrstuvwxyz"
    return "".join(letters[number // len(letters) ** place % len(letters)] for place in range(3))


class Asked:
    def __init__(self, proxy, origin, clients):
        self.proxy, self.origin, self.clients = proxy, origin, clients
        self.admin: AdminClient = proxy.admin

    # Clients

    def head(self, path: str, lines: str = "", method: str = "GET", origin=None) -> bytes:
        origin = origin or self.origin
        return f"{method} {origin.url}{path} HTTP/1.1\r\nHost: {origin.authority}\r\n{lines}\r\n".encode()

    def connect_head(self, origin=None) -> bytes:
        authority = (origin or self.origin).authority
        return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()

    def client(self):
        return self.clients(self.proxy)

    def start(self, path: str, lines: str = "", method: str = "GET", body: bytes = b""):
        client = self.client()
        client.send(self.head(path, lines, method) + body)
        return client

    def get(self, path: str):
        """An answer that comes without a question."""
        return self.start(path).answer()

    # The operator

    def asks(self) -> list[dict]:
        return self.admin.json("/v1/asks")["asks"]

    def temporary(self) -> list[dict]:
        return self.admin.json("/v1/asks")["temporary"]

    def questions(self, count: int, waiting: int | None = None) -> list[dict]:
        """The questions, once they are so many, of so many requests."""

        def holds(page) -> bool:
            asks = page["asks"]
            return len(asks) == count and sum(ask["waiting"] for ask in asks) == (waiting or count)

        return self.admin.asked_until("/v1/asks", holds)["asks"]

    def question(self, waiting: int = 1) -> dict:
        return self.questions(1, waiting)[0]

    def none_waits(self) -> None:
        self.admin.asked_until("/v1/asks", lambda page: page["asks"] == [])

    def post(self, verb: str, query: str):
        return self.admin.ask(f"/v1/{verb}?{query}", method="POST")

    def answer(self, verb: str, question: dict | str, query: str = "") -> dict:
        reference = question if isinstance(question, str) else question["ref"]
        answer = self.post(verb, f"ref={reference}" + (f"&{query}" if query else ""))
        assert answer.status == 200, f"{answer.status} {answer.body!r}"
        return json.loads(answer.body)

    def allow(self, question: dict | str, query: str = "") -> dict:
        return self.answer("allow", question, query)

    def deny(self, question: dict | str, query: str = "") -> dict:
        return self.answer("deny", question, query)

    def rule(self, verb: str, query: str) -> dict:
        """A temporary rule that nobody asked for."""
        answer = self.post(verb, query)
        assert answer.status == 200, f"{answer.status} {answer.body!r}"
        return json.loads(answer.body)["rule"]

    # What came of it

    def line(self, path: str, origin=None) -> dict:
        """The line of the log of this URL."""
        url = (origin or self.origin).url + path
        return self.proxy.access(lambda line: line["target"] == url)

    def asked_paths(self) -> list[str]:
        return [request.target.decode() for request in self.origin.requests()]


def refused(answer, token: str = "denied", **members) -> Problem:
    """A refusal, with these members in its problem."""
    problem = check_problem(answer, 403, error="http_request_denied")
    assert problem.token == token, problem
    for name, value in members.items():
        assert problem.body.get(name) == value, (name, problem.body)
    return problem


@pytest.fixture
def asking(sallyport, raw_origin, raw_client):
    """A function that starts a proxy whose rule asks, or on another policy."""

    def start(policy: str = ASK, proxy: str = "workers = 1", script=None, admin: str = "", **arguments) -> Asked:
        origin = raw_origin(script or answering(OK))
        arguments.setdefault("listen", f'["127.0.0.1:{unused_port()}"]')
        started = sallyport(proxy=proxy, policy=ADMIN + admin + policy, **arguments)
        started.admin = AdminClient(started.configuration.parent / "admin.sock")
        return Asked(started, origin, raw_client)

    return start


@pytest.fixture
def state(tmp_path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    return directory


def reload(asked: Asked, policy: str, proxy: str = "workers = 1") -> None:
    said = asked.proxy.reload(proxy=proxy, policy=policy)
    assert asked.admin.json("/v1/status")["policy"]["failure"] is None, said
