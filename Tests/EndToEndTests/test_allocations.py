"""The steady state of a kept-alive request takes nothing from the heap: counted with a malloc hook, not believed.

The hook is Tests/Bench/alloc-count.c, an LD_PRELOAD library. What warms up is left out: a round may still see a buffer
grow to the size that this machine's scheduling asks of it, so that the best of a few rounds counts. An allocation for
each request would show in every one of them.
"""

import os
import sys

import pytest

from conftest import need
from proxy import REPOSITORY

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


# The thread that writes the history allocates pages of the database for each batch, and how many exchanges a batch has
# depends on how busy the machine is: where there is a history, only the loop is counted.
COUNTED_THREADS = {"a history": "worker-"}


@pytest.mark.skipif("SALLYPORT_SANITIZED" in os.environ, reason="sanitizers bring a malloc of their own")
@pytest.mark.parametrize("body_bytes", [1024, 64 * 1024])
@pytest.mark.parametrize("name", POLICIES)
def test_a_kept_alive_request_allocates_nothing(
    name, body_bytes, sallyport, raw_origin, raw_client, tmp_path
):
    need("cc")
    library = alloc_count.build(tmp_path)
    counters = tmp_path / "counters"
    proxy = sallyport(
        proxy="workers = 1",
        policy=POLICIES[name],
        environment=alloc_count.environment(library, counters, COUNTED_THREADS.get(name, "")),
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

    origin = raw_origin(script)
    client = raw_client(proxy)
    request = (
        b"GET http://%s/path?query HTTP/1.1\r\nHost: x\r\nX-Remove: 1\r\nCookie: a=b\r\nAccept: */*\r\n\r\n"
        % origin.authority.encode()
    )

    def run(count: int) -> None:
        for _ in range(count):
            client.socket.sendall(request)
            got = b""
            while b"\r\n\r\n" not in got:
                got += client.socket.recv(262144)
            missing = body_bytes - len(got.split(b"\r\n\r\n", 1)[1])
            while missing > 0:
                missing -= len(client.socket.recv(262144))

    run(WARM_UP_REQUESTS)
    rounds = []
    for _ in range(ROUNDS):
        before = alloc_count.read(counters)
        run(ROUND_REQUESTS)
        rounds.append((alloc_count.read(counters) - before).calls)
        if rounds[-1] == 0:
            return
    pytest.fail(f"allocations in {ROUNDS} rounds of {ROUND_REQUESTS} requests: {rounds}")
