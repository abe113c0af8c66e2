"""The steady state of a kept-alive request takes nothing from the heap: counted with a malloc hook, not believed.

The hook is Tests/Bench/alloc-count.c, an LD_PRELOAD library. What warms up is left out: a round may still see a buffer
grow to the size that this machine's scheduling asks of it, so that the best of a few rounds counts. An allocation for
each request would show in every one of them.
"""

import os
import sys
import time

import pytest

from admin_client import AdminClient
from conftest import need
from proxy import REPOSITORY
from reachability_world import ADMIN
from test_buffer_uploads import wait_until

sys.path.insert(0, str(REPOSITORY / "Tests/Bench"))
import alloc_count  # noqa: E402

WARM_UP_REQUESTS = 3000
ROUNDS = 5
ROUND_REQUESTS = 1000

POLICIES = {
    "no rule": "",
    "header rules": """
[[rule]]
name = "other"
hosts = ["**.other.example"]
action = "deny"
[[rule]]
name = "edit"
hosts = ["127.0.0.0/8"]
methods = ["GET"]
paths = ["/*"]
[rule.request]
headers.set = { X-Client = "kiosk-7" }
headers.default = { Accept-Language = "en" }
headers.remove = ["X-Remove"]
user_agent = "counted"
timeout = "30s"
cookies = false
""",
    "a history": '[history]\nfile = "history.db"\n',
}


LOOPS, HISTORY = "worker-", "history"
# SQLite takes three for each row, and some two dozen for a transaction; the thread collects exchanges for half a second
# before it writes them.
MOST_OF_A_ROW, MOST_OF_A_BATCH, BATCH_SECONDS = 3, 100, 0.5
BATCH_REQUESTS = 2000


class Counted:
    """A proxy of which the allocations of some threads are counted, and one client that asks one origin."""

    def __init__(self, start, origin_of, client_of, directory, policy: str, threads: str, body_bytes: int):
        need("cc")
        library = alloc_count.build(directory)
        self.counters = directory / "counters"
        self.proxy = start(
            proxy="workers = 1",
            policy=policy,
            environment=alloc_count.environment(library, self.counters, threads),
        )
        body = b"b" * body_bytes
        answer = (
            b"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )

        def script(connection) -> None:
            requests = b""
            while data := connection.socket.recv(65536):
                requests += data
                while b"\r\n\r\n" in requests:
                    requests = requests.split(b"\r\n\r\n", 1)[1]
                    connection.socket.sendall(answer)

        origin = origin_of(script)
        self.client, self.body_bytes = client_of(self.proxy), body_bytes
        self.request = (
            b"GET http://%s/path?query HTTP/1.1\r\nHost: x\r\nX-Remove: 1\r\nCookie: a=b\r\nAccept: */*\r\n\r\n"
            % origin.authority.encode()
        )

    def run(self, count: int) -> None:
        for _ in range(count):
            self.client.socket.sendall(self.request)
            got = b""
            while b"\r\n\r\n" not in got:
                got += self.client.socket.recv(262144)
            missing = self.body_bytes - len(got.split(b"\r\n\r\n", 1)[1])
            while missing > 0:
                missing -= len(self.client.socket.recv(262144))

    def calls(self) -> int:
        return alloc_count.read(self.counters).calls


@pytest.fixture
def counted(sallyport, raw_origin, raw_client, tmp_path):
    def start(policy: str, threads: str = "", body_bytes: int = 1024) -> Counted:
        return Counted(sallyport, raw_origin, raw_client, tmp_path, policy, threads, body_bytes)

    return start


pytestmark = pytest.mark.skipif("SALLYPORT_SANITIZED" in os.environ, reason="sanitizers bring a malloc of their own")


@pytest.mark.parametrize("body_bytes", [1024, 64 * 1024])
@pytest.mark.parametrize("name", POLICIES)
def test_a_kept_alive_request_allocates_nothing(name, body_bytes, counted):
    """With a history, no loop does: what the thread that writes it takes is below."""
    proxy = counted(POLICIES[name], LOOPS if "history" in name else "", body_bytes)
    proxy.run(WARM_UP_REQUESTS)
    rounds = []
    for _ in range(ROUNDS):
        before = proxy.calls()
        proxy.run(ROUND_REQUESTS)
        rounds.append(proxy.calls() - before)
        if rounds[-1] == 0:
            return
    pytest.fail(f"allocations in {ROUNDS} rounds of {ROUND_REQUESTS} requests: {rounds}")


def test_the_history_allocates_for_rows_and_batches_alone(counted):
    recorded = counted(ADMIN + POLICIES["a history"], HISTORY)
    admin = AdminClient(recorded.proxy.configuration.parent / "admin.sock")

    def run(count: int, written: int) -> float:
        """How long it took until so many were written."""
        begun = time.monotonic()
        recorded.run(count)
        sample = f'sallyport_history_exchanges_total{{result="written"}} {written}\n'
        wait_until(lambda: sample in admin.ask("/metrics").body.decode())
        return time.monotonic() - begun

    run(WARM_UP_REQUESTS, WARM_UP_REQUESTS)
    before = recorded.calls()
    batches = run(BATCH_REQUESTS, WARM_UP_REQUESTS + BATCH_REQUESTS) / BATCH_SECONDS + 1
    assert recorded.calls() - before <= MOST_OF_A_ROW * BATCH_REQUESTS + MOST_OF_A_BATCH * batches
