"""kill -9 under a load that stores, reads, changes and purges: no answer that is whole by its framing is cut, mixed or older than
what was known before its request left. SALLYPORT_KILLS says how often (200 takes some minutes), SALLYPORT_SEED which requests.
"""

import os
import random
import re
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from admin_client import AdminClient
from cache_load import ChangingOrigin, Load, content
from cache_world import policy
from origins import unused_port
from proxy import Proxy
from reachability_world import ADMIN

KILLS = int(os.environ.get("SALLYPORT_KILLS", "12"))
SEED = int(os.environ.get("SALLYPORT_SEED", "1"))
# Room for a part of the objects: memory and disk are both purged on the way.
STORE = 'memory = "6MiB"\ndisk = "48MiB"'


class Killed:
    """A daemon that is started again on its directory whenever it was killed."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.store = directory / "store"
        self.port = unused_port()
        self.slowest_start = 0.0
        self.proxy: Proxy | None = None
        self.start()

    def start(self) -> None:
        began = time.monotonic()
        text = ADMIN + policy(store=f'directory = "{self.store}"\n{STORE}')
        self.proxy = Proxy.start(self.directory, policy=text, listen=f'["127.0.0.1:{self.port}"]')
        self.slowest_start = max(self.slowest_start, time.monotonic() - began)
        self.proxy.expected_exit = {0, -signal.SIGKILL}

    def kill(self) -> None:
        self.proxy.process.kill()
        self.proxy.stop()

    def purge(self, url: str) -> bool:
        """Whether it is known to be done."""
        admin = AdminClient(self.directory / "admin.sock")
        try:
            return admin.ask(f"/v1/cache/purge?url={url}", method="POST").status == 200
        except Exception:
            return False  # killed meanwhile


@pytest.fixture
def daemon(sallyport_binary, tmp_path):
    daemon = Killed(tmp_path)
    yield daemon
    daemon.proxy.stop()


@pytest.fixture
def origin():
    origin = ChangingOrigin(random.Random(SEED))
    yield origin
    origin.stop()


@pytest.mark.timeout(60 + 5 * KILLS)
def test_no_answer_is_wrong_however_often_it_is_killed(daemon, origin):
    chance = random.Random(SEED)
    load = Load(("127.0.0.1", daemon.port), origin, SEED, daemon.purge)
    never = threading.Event()
    try:
        for _ in range(KILLS):
            # Either at any moment, or just when a change has been answered, which no old answer may outlive.
            never.wait(chance.uniform(0.02, 0.6))
            if chance.random() < 0.5:
                load.changed.clear()
                load.changed.wait(1)
            load.is_up.clear()
            daemon.kill()
            daemon.start()
            load.is_up.set()
        never.wait(0.3)
    finally:
        print(f"{KILLS} kills, seed {SEED}: {load.counts}, slowest start {daemon.slowest_start * 1000:.0f} ms")
        load.stop()
    for what in ("whole", "hits", "changed", "purged"):
        assert load.counts[what] > KILLS, load.counts
    daemon.kill()
    daemon.start()
    daemon.proxy.stop()
    check_files(daemon.store, origin)


def check_files(store: Path, origin: ChangingOrigin) -> None:
    """What is stored when it has ended by itself: each row has its file, all of one version; no file is without a row."""
    with sqlite3.connect(store / "index.db") as database:
        rows = database.execute("SELECT file, url, fields, bytes, part_offset FROM answers").fetchall()
    files = {int(path.name, 16): path for path in (store / "objects").rglob("*") if path.is_file()}
    assert set(files) <= {row[0] for row in rows}, "files that no row knows"
    assert rows
    for file, url, fields, count, begin in rows:
        version = int(re.search(rb'(?i)etag: "(\d+)"', fields)[1])
        data = files[file].read_bytes() if file in files else b""
        assert file in files and len(data) == count, f"{url}: {len(data)} bytes of {count}"
        whole = content(url.removeprefix(f"http://{origin.authority}"), version)
        # What came of a download that broke off is a part of it.
        assert data == (whole if begin is None else whole[begin : begin + count]), url
