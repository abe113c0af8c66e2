"""A disk that fails, is full, vanishes, is another's, or is somebody else's: clients get right answers all the same, the log says
why nothing is stored there, and what is stored after that is what it was changed to. And two daemons on one directory.
"""

import os
import random
import shutil
import signal
import sqlite3
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from admin_client import AdminClient
from cache_load import ChangingOrigin, Load
from cache_world import FRESH, Site, cache_status, cached, check_forwarded, check_hit, policy, said  # noqa: F401
from conftest import need, with_mounts
from disk_faults import disk_library, faulty_disk  # noqa: F401
from journal import DEADLINE_SECONDS
from origins import unused_port
from proxy import is_access
from reachability_world import ADMIN
from raw_client import RawClient
from serializer_world import request as absolute
from test_buffer_uploads import wait_until
from test_cache_disk import LARGE, wait_until_written
from users_world import STRANGER

# Both are purged on the way, and most is read from the disk again.
STORE = 'memory = "4MiB"\ndisk = "64MiB"'
ENOUGH = 200


@pytest.fixture
def origin():
    origin = ChangingOrigin(random.Random(1))
    yield origin
    origin.stop()


@pytest.fixture
def storing(sallyport):
    """A function that starts a daemon with its store in a directory."""

    def start(place: Path, store: str = STORE, **arguments):
        text = ADMIN + policy('schemes = ["http"]', store=f'directory = "{place}"\n{store}')
        proxy = sallyport(policy=text, listen=f'["127.0.0.1:{unused_port()}"]', **arguments)
        proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")
        return proxy

    return start


def get(proxy, origin, path: str):
    client = RawClient(proxy.address)
    answer = client.exchange(absolute(origin, path))
    client.close()
    return answer


def purge(proxy, query: str) -> bool:
    return proxy.admin.ask(f"/v1/cache/purge?{query}", method="POST").status == 200


def bear(proxy, origin, during=lambda: None) -> dict:
    """A load on this proxy, something that happens in the middle of it, and more of the load. Nothing may be wrong."""
    load = Load(proxy.address, origin, seed=1, purge=lambda url: purge(proxy, f"url={url}"))
    try:
        load.wait_for("whole", ENOUGH)
        during()
        load.wait_for("whole", 3 * ENOUGH)
    finally:
        load.stop()
    return load.counts


def cache_line(entry: dict) -> str:
    """What an entry of the log says of the store, if it does."""
    text = "" if is_access(entry) else entry.get("message", "")
    return text if text.startswith("cache: ") else ""


def cache_lines(proxy) -> list[str]:
    """What the log says of the store so far."""
    return [line for entry in proxy.log.snapshot() if (line := cache_line(entry))]


def wait_for_lines(proxy) -> list[str]:
    """The store says what is wrong from a thread of its own, so maybe after the answers that it did without."""
    proxy.log.wait_for(cache_line)
    return cache_lines(proxy)


def check_log(proxy, *words: str, most: int = 2) -> None:
    """It says in a line or two what is wrong, and names the directory. A word may be one of several, between bars."""
    lines = wait_for_lines(proxy)
    assert len(lines) <= most, lines
    for word in words:
        assert any(one in lines[0] for one in word.split("|")), lines


# Faults of reads and writes


@pytest.mark.parametrize(
    "what, reasons",
    [
        ("write", ("Input/output error", "disk I/O error")),
        ("all", ("Input/output error", "disk I/O error", "database disk image is malformed", "cannot be read")),
        ("full", ("No space left on device", "database or disk is full")),
    ],
)
def test_answers_are_right_while_the_disk_fails(what, reasons, storing, origin, faulty_disk, tmp_path):
    disk = faulty_disk(tmp_path / "store")
    proxy = storing(tmp_path / "store", environment=disk.environment)
    bear(proxy, origin, lambda: disk.fail(what))
    said = [line for line in wait_for_lines(proxy) if str(tmp_path / "store") in line]
    assert any(reason in line for line in said for reason in reasons), cache_lines(proxy)
    lines = [line for line in cache_lines(proxy) if "cannot be read" not in line]
    assert len(lines) <= 2, lines


def test_answers_are_right_while_nothing_can_be_read(storing, origin, faulty_disk, tmp_path):
    disk = faulty_disk(tmp_path / "store")
    proxy = storing(tmp_path / "store", environment=disk.environment)
    bear(proxy, origin, lambda: disk.fail("read"))
    lines = wait_for_lines(proxy)
    assert len(lines) <= 10, f"{len(lines)} lines: {lines[:12]}"


def test_a_directory_on_a_disk_that_fails_from_the_start(storing, origin, faulty_disk, tmp_path):
    disk = faulty_disk(tmp_path / "store")
    disk.fail("all")
    proxy = storing(tmp_path / "store", environment=disk.environment)
    counts = bear(proxy, origin)
    assert counts["hits"] > 0
    check_log(proxy, str(tmp_path / "store"))


def ended(proxy) -> None:
    proxy.expected_exit = {0, -signal.SIGKILL}
    proxy.process.kill()
    proxy.wait_for_exit()


@pytest.fixture
def old_on_disk(cached, storing, raw_client, faulty_disk, tmp_path):
    """/x is stored on a disk that can fail, and the daemon has been started again since, so that memory has it not."""
    disk = faulty_disk(tmp_path / "store")
    stored = cached()
    stored.site.say("/x", said(FRESH, body=b"old" * 1000))

    def start():
        stored.proxy = proxy = storing(tmp_path / "store", 'memory = "8MiB"', environment=disk.environment)
        stored.enter = lambda: raw_client(proxy)

    start()
    stored.start_again = lambda: (ended(stored.proxy), start())
    stored.ask("/x")
    wait_until_written(stored, 1)
    stored.disk = disk
    stored.start_again()
    return stored


CHANGES = {
    "an unsafe method": lambda stored: stored.ask("/x", method="DELETE").status == 204,
    "a purge of the URL": lambda stored: purge(stored.proxy, f"url=http://{stored.authority}/x"),
    "a purge of all": lambda stored: purge(stored.proxy, "all=yes"),
}


def change(stored, how: str) -> None:
    """From here on the origin says something else, and what is stored does not hold."""
    stored.site.say("/x", said(status=204)) if how == "an unsafe method" else None
    assert CHANGES[how](stored), "it was not changed"
    stored.site.say("/x", said(FRESH, body=b"new"))


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("what", ["write", "full"])
def test_what_was_changed_while_the_disk_failed_is_not_found_on_it_later(what, how, old_on_disk):
    stored = old_on_disk
    stored.disk.fail(what)
    change(stored, how)
    assert stored.ask("/x").body == b"new"
    stored.disk.heal()
    stored.start_again()
    assert stored.ask("/x").body == b"new"


@pytest.mark.parametrize("how", CHANGES)
def test_what_is_changed_while_it_is_read_from_the_disk_is_not_used_after_that(how, old_on_disk):
    stored = old_on_disk
    stored.disk.hold()
    client = stored.start("/x")
    stored.disk.wait_until_held()
    # A purge waits for the disk: it is asked for now, and done when that goes on.
    if how == "an unsafe method":
        change(stored, how)
        stored.disk.heal()
    else:
        stored.site.say("/x", said(FRESH, body=b"new"))
        query = "all=yes" if how == "a purge of all" else f"url=http://{stored.authority}/x"
        with stored.proxy.admin.connection() as admin:
            admin.send(f"POST /v1/cache/purge?{query} HTTP/1.1\r\nHost: sallyport\r\n\r\n".encode())
            wait_until_purging(stored)
            stored.disk.heal()
            assert admin.answer().status == 200
    assert client.answer().body in (b"old" * 1000, b"new")
    assert stored.ask("/x").body == b"new"


def wait_until_purging(stored) -> None:
    """Until the daemon has read the purge and waits: another question behind it is not answered, or has been."""
    stored.proxy.admin.json("/v1/status")


def test_what_cannot_be_read_is_fetched_again(old_on_disk):
    stored = old_on_disk
    stored.disk.fail("read")
    stored.site.say("/x", said(FRESH, body=b"new"))
    check_forwarded(stored.ask("/x"), "uri-miss", b"new")
    check_hit(stored.ask("/x"), b"new")


def test_readers_of_one_answer_that_is_read_from_the_disk_all_get_it(old_on_disk, raw_client):
    """They come to the same chunks at nearly the same time, and none has room for all of what is there."""
    stored = old_on_disk
    stored.site.say("/large", said(FRESH, body=LARGE))
    stored.ask("/large")
    wait_until_written(stored, 2)
    for _ in range(4):
        stored.start_again()
        stored.disk.fail("slow")
        clients = [raw_client(stored.proxy, receive_buffer=4096 << number % 4) for number in range(8)]
        threads = [threading.Thread(target=read_all, args=(client, stored.head("/large"))) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * DEADLINE_SECONDS)
        short = [len(client.received) for client in clients if not client.received.endswith(LARGE)]
        assert not short, f"so many bytes came of {len(LARGE)}: {short}"


@pytest.mark.parametrize("how", ["a purge", "an unsafe method", "room for others"])
def test_what_is_removed_while_it_is_read_from_the_disk_is_read_to_its_end(how, cached, storing, raw_client, tmp_path):
    """A reader that has begun gets all of it: nothing is wrong with the disk."""
    stored = cached()
    store = 'memory = "2MiB"\ndisk = "10MiB"'
    for number in range(8):
        stored.site.say(f"/{number}", said(FRESH, body=LARGE))
    stored.enter = lambda: raw_client(stored.proxy)
    for _ in range(6):
        stored.proxy = storing(tmp_path / "store", store)
        stored.site.say("/0", said(FRESH, body=LARGE))
        stored.ask("/0")
        wait_until_written(stored, 1)
        ended(stored.proxy)
        stored.proxy = storing(tmp_path / "store", store)
        client = raw_client(stored.proxy, receive_buffer=4096)
        client.send(stored.head("/0"))
        client.receive_until(b"\r\n\r\n")
        if how == "a purge":
            assert purge(stored.proxy, "all=yes")
        elif how == "an unsafe method":
            stored.site.say("/0", said(status=204))
            stored.ask("/0", method="DELETE")
        else:
            for number in range(1, 8):
                assert stored.ask(f"/{number}").body == LARGE
        assert client.receive_exactly(len(LARGE)) == LARGE
        assert not cache_lines(stored.proxy)
        assert purge(stored.proxy, "all=yes")
        ended(stored.proxy)


def test_a_slow_reader_of_what_is_still_coming_gets_it_from_the_disk(cached, storing, raw_client, faulty_disk, tmp_path):
    """More comes while the next chunk is read for it and its client has no room; then it has room, and after that the chunk is there."""
    disk = faulty_disk(tmp_path / "store")
    stored = cached()
    held = stored.site.hold("/x")
    stored.proxy = proxy = storing(tmp_path / "store", 'memory = "8MiB"', environment=disk.environment, proxy="workers = 1")
    stored.enter = lambda: raw_client(proxy)
    first, chunk = stored.start("/x"), 64 << 10
    fetch = held.next()
    fetch.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: %d\r\n\r\n" % len(LARGE) + LARGE[: 32 * chunk])
    first.receive_until(b"\r\n\r\n")
    first.receive_exactly(32 * chunk)
    while sum(path.stat().st_size for path in (tmp_path / "store" / "objects").rglob("*") if path.is_file()) < 28 * chunk:
        pass
    disk.hold(after=1)
    slow = raw_client(proxy, receive_buffer=4096)
    slow.send(stored.head("/x"))
    slow.receive_until(b"\r\n\r\n")
    disk.wait_until_held()
    fetch.send(LARGE[32 * chunk : 33 * chunk])
    first.receive_exactly(chunk)
    slow.receive_exactly(chunk)
    proxy.admin.asked_until("/v1/connections", lambda all: any(chunk < entry["bytes_out"] < 2 * chunk for entry in all))
    disk.heal()
    fetch.send(LARGE[33 * chunk :])
    fetch.end()
    for client, had in ((first, 33), (slow, 1)):
        assert client.receive_exactly(len(LARGE) - had * chunk) == LARGE[had * chunk :]


def read_all(client, head: bytes) -> None:
    client.send(head)
    try:
        while len(client.received) < len(LARGE) or not client.received.endswith(LARGE[-100:]):
            if not client.receive_some():
                return
    except AssertionError:
        pass  # nothing came for long


# Directories


def with_small_disk(directory: Path, size: str = "3m") -> tuple[str, ...]:
    directory.mkdir()
    return with_mounts(f"mount -t tmpfs -o size={size} tmpfs {directory}")


def test_a_full_disk(storing, origin, tmp_path):
    proxy = storing(tmp_path / "store", prefix=with_small_disk(tmp_path / "store"))
    counts = bear(proxy, origin)
    assert counts["hits"] > 0
    check_log(proxy, "No space left on device|database or disk is full", str(tmp_path / "store"))


def test_a_disk_that_is_full_from_the_start(storing, origin, tmp_path):
    """There is not even room for an empty table."""
    proxy = storing(tmp_path / "store", prefix=with_small_disk(tmp_path / "store", "4k"))
    counts = bear(proxy, origin)
    assert counts["hits"] > 0
    check_log(proxy, str(tmp_path / "store"))


def test_a_directory_that_vanishes(storing, origin, tmp_path):
    proxy = storing(tmp_path / "store")

    def vanish() -> None:
        # Whole, and at once: the daemon makes files in it all the time.
        (tmp_path / "store").rename(tmp_path / "gone")
        shutil.rmtree(tmp_path / "gone", ignore_errors=True)

    counts = bear(proxy, origin, vanish)
    assert counts["hits"] > 0
    assert any(str(tmp_path / "store") in line for line in wait_for_lines(proxy)), cache_lines(proxy)
    assert len(cache_lines(proxy)) <= 10, cache_lines(proxy)[:12]


def test_a_read_only_directory(storing, origin, tmp_path):
    (tmp_path / "store").mkdir()
    prefix = with_mounts(f"mount -t tmpfs tmpfs {tmp_path}/store; mount -o remount,ro {tmp_path}/store")
    proxy = storing(tmp_path / "store", prefix=prefix)
    assert bear(proxy, origin)["hits"] > 0
    check_log(proxy, "Read-only file system", str(tmp_path / "store"), most=1)


@pytest.fixture
def open_directory():
    """A directory that everyone may enter."""
    directory = Path(tempfile.mkdtemp(prefix="sallyport-", dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_a_directory_of_somebody_else(storing, origin, open_directory):
    """The daemon is no root, and the directory is another user's."""
    need("setpriv")
    (open_directory / "store").mkdir(mode=0o700)
    (place := open_directory / "daemon").mkdir()
    os.chown(place, STRANGER, STRANGER)
    prefix = ("setpriv", "--reuid", str(STRANGER), "--regid", str(STRANGER), "--clear-groups")
    proxy = storing(open_directory / "store", prefix=prefix, directory=place)
    assert bear(proxy, origin)["hits"] > 0
    check_log(proxy, "another user", str(open_directory / "store"), most=1)
    assert not list((open_directory / "store").iterdir())


def test_no_answers_of_another_user_are_used(cached, storing, raw_client, open_directory):
    """A directory that a user made and filled is not the daemon's, even if it may write there: what is in it is that user's word."""
    stored = cached()
    store = open_directory / "store"
    stored.site.say("/x", said(FRESH, body=b"planted"))
    stored.proxy = storing(store)
    stored.enter = lambda: raw_client(stored.proxy)
    stored.ask("/x")
    wait_until_written(stored, 1)
    stored.proxy.stop()
    for path in [store, *store.rglob("*")]:
        os.chown(path, STRANGER, STRANGER)
    stored.site.say("/x", said(FRESH, body=b"genuine"))
    stored.proxy = proxy = storing(store)
    assert stored.ask("/x").body == b"genuine"
    check_log(proxy, str(store))


# What others put there

STRANGE_FILES = {
    "README": b"not a cache",
    "lock": b"12345\n",
    "index.db": b"something of another program, and no database",
    "objects/notes.txt": b"mine",
    "objects/ab/0123456789abcdef0123456789abcdef012345": b"a git object",
    "objects/00/00000000000000ff": b"a name like one of ours, at another place",
    "objects/00/00000000000000FF": b"nearly a name like one of ours",
    "objects/0000000000000000": b"too high",
}


def snapshot(directory: Path) -> dict[str, tuple]:
    """All that stands there, but for directories' times."""
    found = {}
    for path in sorted(directory.rglob("*")):
        state = path.lstat()
        is_file = stat.S_ISREG(state.st_mode)
        content = path.read_bytes() if is_file else os.readlink(path) if path.is_symlink() else None
        found[str(path.relative_to(directory))] = (state.st_mode, state.st_uid, content, state.st_mtime_ns if is_file else 0)
    return found


def check_untouched(before: dict, directory: Path) -> None:
    after = snapshot(directory)
    changed = {name for name, what in before.items() if after.get(name) != what}
    assert not changed, f"changed or gone: {changed}"


def put(directory: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


def test_a_directory_of_another_program(storing, origin, tmp_path):
    store = tmp_path / "store"
    put(store, STRANGE_FILES)
    before = snapshot(store)
    proxy = storing(store)
    assert bear(proxy, origin)["hits"] > 0
    check_log(proxy, str(store), most=1)
    proxy.stop()
    check_untouched(before, store)


def test_a_database_of_another_program(storing, origin, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    with sqlite3.connect(store / "index.db") as database:
        database.execute("CREATE TABLE answers (question TEXT, answer TEXT)")
        database.execute("INSERT INTO answers VALUES ('life', '42')")
    database.close()
    before = snapshot(store)
    proxy = storing(store)
    assert bear(proxy, origin)["hits"] > 0
    check_log(proxy, "index.db", most=1)
    proxy.stop()
    check_untouched(before, store)


@pytest.mark.parametrize("column", ["bytes", "received", "lifetime"])
def test_a_row_with_a_number_that_cannot_be(column, storing, raw_origin, tmp_path):
    """It is dropped, and the rest is used."""
    store = tmp_path / "store"
    site = Site()
    origin = raw_origin(site)
    for path in ("/one", "/two"):
        site.say(path, said(FRESH))

    def ask(proxy, path: str):
        return cache_status(get(proxy, origin, path))

    proxy = storing(store)
    for path in ("/one", "/two"):
        ask(proxy, path)
    proxy.admin.asked_until("/v1/cache", lambda page: page["disk"]["answers"] == 2)
    proxy.stop()
    with sqlite3.connect(store / "index.db") as database:
        database.execute(f"UPDATE answers SET {column} = {-1 << 62} WHERE url LIKE '%/one'")
    database.close()
    proxy = storing(store)
    assert ask(proxy, "/two").get("hit")
    assert ask(proxy, "/one").get("fwd") == "uri-miss"
    site.release()


def test_removed_files_give_their_space_back(storing, raw_origin, tmp_path):
    """Nobody reads them any more: they are not kept open."""
    site = Site()
    origin = raw_origin(site)
    proxy = storing(tmp_path / "store", 'memory = "2MiB"\ndisk = "16MiB"')
    for number in range(12):
        site.say(f"/{number}", said(FRESH, body=bytes(4_000_000)))
        assert get(proxy, origin, f"/{number}").status == 200

    def open_ones() -> int:
        links = []
        for entry in Path(f"/proc/{proxy.process.pid}/fd").iterdir():
            try:
                links.append(os.readlink(entry))
            except FileNotFoundError:
                pass
        return sum("objects" in link and link.endswith("(deleted)") for link in links)

    wait_until(lambda: open_ones() <= 2)
    assert purge(proxy, "all=yes")
    wait_until(lambda: open_ones() <= 2)
    site.release()


def test_files_of_others_beside_ours(storing, origin, tmp_path):
    """No table is there yet, so the directory is taken; the files that are in it stay."""
    store = tmp_path / "store"
    put(store, {name: content for name, content in STRANGE_FILES.items() if "index" not in name and name != "lock"})
    before = snapshot(store)
    proxy = storing(store)
    assert bear(proxy, origin)["hits"] > 0
    proxy.stop()
    storing(store).stop()
    check_untouched(before, store)


@pytest.mark.parametrize("link", ["objects", "index.db", "lock", "objects/00"])
def test_nothing_is_changed_behind_a_link(link, storing, origin, tmp_path):
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    put(elsewhere, {"00/00000000000000ff": b"theirs", "notes": b"theirs"})
    (store / link).parent.mkdir(parents=True)
    (store / link).symlink_to(elsewhere / "notes" if link in ("index.db", "lock") else elsewhere)
    before = snapshot(elsewhere)
    proxy = storing(store)
    assert bear(proxy, origin)["hits"] > 0
    proxy.stop()
    check_untouched(before, elsewhere)


# Two daemons


def test_two_daemons_on_one_directory(storing, origin, tmp_path):
    store = tmp_path / "store"
    first = storing(store)
    second = storing(store)
    bear(second, origin)
    check_log(second, "another store has", str(store), most=1)
    load = Load(first.address, origin, seed=2, purge=lambda url: purge(first, f"url={url}"), only=("fixed", "validated"))
    load.wait_for("whole", ENOUGH)
    load.stop()
    assert cache_lines(first) == []
    first.stop()
    second.log.wait_for(lambda entry: "in use now" in str(entry), deadline=DEADLINE_SECONDS)


def test_a_daemon_that_takes_a_directory_over_has_not_forgotten_what_was_changed_through_it(
    cached, storing, raw_client, tmp_path
):
    stored = cached()
    first = storing(tmp_path / "store")
    stored.proxy, stored.enter = first, lambda: raw_client(stored.proxy)
    stored.site.say("/x", said(FRESH, body=b"old"))
    stored.ask("/x")
    wait_until_written(stored, 1)
    stored.proxy = second = storing(tmp_path / "store")
    stored.site.say("/x", said(status=204))
    assert stored.ask("/x", method="DELETE").status == 204
    stored.site.say("/x", said(FRESH, "Vary: Accept", body=b"new"))
    first.stop()
    second.log.wait_for(lambda entry: "in use now" in str(entry), deadline=DEADLINE_SECONDS)
    assert stored.ask("/x").body == b"new"
