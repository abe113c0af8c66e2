"""Stored answers on a disk: they outlive the daemon however it ends, and what is not whole is no answer."""

import hashlib
import os
import random
import signal

import pytest

from admin_client import AdminClient
from cache_world import FRESH, Stored, cached, check_forwarded, check_hit, numbered, policy, said  # noqa: F401
from origins import unused_port
from reachability_world import ADMIN

LARGE = random.Random(1).randbytes(3 << 20)
SMALL = {"/empty": b"", "/one": b"1", "/chunk": LARGE[: 64 << 10], "/more": LARGE[: (64 << 10) + 1]}


@pytest.fixture
def on_disk(cached, sallyport, raw_client, tmp_path):
    """A function that starts a daemon whose store is in one directory, all of them before the same origin."""
    first = []

    def start(directory=tmp_path / "store", memory: str = "8MiB", object: str = "1GiB") -> Stored:
        store = f'directory = "{directory}"\nmemory = "{memory}"\nobject = "{object}"'
        if not first:
            first.append(cached(store=store))
            return first[0]
        proxy = sallyport(policy=ADMIN + policy(store=store), listen=f'["127.0.0.1:{unused_port()}"]')
        proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")
        before = first[0]
        return Stored(proxy, before.site, before.origin, before.host, lambda: raw_client(proxy), False)

    return start


def store(stored, tmp_path) -> dict[str, bytes]:
    """Fetches some answers, and waits until they are on the disk."""
    bodies = {**SMALL, "/large": LARGE, "/chunked": LARGE}
    for path, body in bodies.items():
        framing = "chunked" if path == "/chunked" else "length"
        stored.site.say(path, said(FRESH, f'ETag: "{path[1:]}"', body=body, framing=framing))
        assert stored.ask(path).body == body
    wait_until_written(stored, len(bodies))
    return bodies


def wait_until_written(stored, count: int) -> None:
    stored.proxy.admin.asked_until("/v1/cache", lambda page: page["disk"]["answers"] == count)


def ended(stored, how: str) -> None:
    stored.proxy.expected_exit = {0, -signal.SIGKILL}
    getattr(stored.proxy.process, how)()
    stored.proxy.wait_for_exit()


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_answers_outlive_the_daemon(end, on_disk, tmp_path):
    before = on_disk()
    bodies = store(before, tmp_path)
    ended(before, end)
    after = on_disk()
    for path, body in bodies.items():
        check_hit(after.ask(path), body)
        assert before.count(path) == 1


def test_files_are_for_the_daemon_alone(on_disk, tmp_path):
    store(on_disk(), tmp_path)
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "store").rglob("*")}
    assert modes == {0}


@pytest.mark.parametrize("change", ["cut", "longer", "gone"])
def test_a_file_that_is_not_what_its_row_says_is_no_answer(change, on_disk, tmp_path):
    before = on_disk()
    store(before, tmp_path)
    ended(before, "kill")
    for path in (tmp_path / "store" / "objects").rglob("*"):
        if path.is_file() and change == "gone":
            path.unlink()
        elif path.is_file():
            content = path.read_bytes()
            path.write_bytes(content[:-1] if change == "cut" else content + b"more")
    after = on_disk()
    check_forwarded(after.ask("/large"), "uri-miss", LARGE)
    check_hit(after.ask("/large"), LARGE)


def test_what_was_being_written_when_it_was_killed_is_removed(on_disk, tmp_path):
    before = on_disk()
    held = before.site.hold("/held")
    client = before.start("/held")
    request = held.next()
    request.send(b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3145728\r\n\r\n" + LARGE[: 2 << 20])
    client.receive_until(LARGE[(1 << 20) : (1 << 20) + 64])
    ended(before, "kill")
    after = on_disk()
    after.site.say("/held", said(FRESH, body=LARGE))
    check_forwarded(after.ask("/held"), "uri-miss", LARGE)
    wait_until_written(after, 1)
    files = [path for path in (tmp_path / "store" / "objects").rglob("*") if path.is_file()]
    assert [hashlib.sha256(path.read_bytes()).digest() for path in files] == [hashlib.sha256(LARGE).digest()]


def test_another_daemon_on_the_directory_stores_in_memory_alone_and_says_so(on_disk, tmp_path):
    first = on_disk()
    store(first, tmp_path)
    second = on_disk()
    assert "another store has" in second.proxy.admin.text("/v1/cache")
    check_forwarded(second.ask("/large"), "uri-miss", LARGE)
    check_hit(first.ask("/large"), LARGE)


def test_a_reload_of_the_store_hands_its_directory_over(on_disk, tmp_path):
    """Otherwise what is removed afterwards would be back after a restart; and no thread of the old store stays."""
    stored = on_disk()

    def threads() -> int:
        return len(os.listdir(f"/proc/{stored.proxy.process.pid}/task"))

    stored.site.say("/x", numbered(FRESH))
    stored.ask("/x")
    wait_until_written(stored, 1)
    before = threads()
    for size in (9, 10, 11, 12):
        store = f'directory = "{tmp_path / "store"}"\nmemory = "{size}MiB"'
        stored.proxy.reload(policy=ADMIN + policy(store=store))
        stored.proxy.admin.asked_until("/v1/cache", lambda page: page["disk"]["answers"] == 1)
        check_hit(stored.ask("/x"), b"answer 1")
    assert not any("another store" in line.get("message", "") for line in stored.proxy.log.snapshot())
    stored.proxy.admin.asked_until("/v1/status", lambda page: threads() <= before)
    assert stored.ask("/x", method="POST").status == 200
    check_forwarded(stored.ask("/x"), "uri-miss", b"answer 3")
    # What is asked for in the millisecond of a change is not stored.
    while b"hit" not in (answer := stored.ask("/x")).value("Cache-Status"):
        pass
    wait_until_written(stored, 1)
    ended(stored, "kill")
    check_hit(on_disk().ask("/x"), answer.body)


def test_a_directory_that_is_none_is_said(on_disk, tmp_path):
    (tmp_path / "file").write_text("no directory")
    stored = on_disk(tmp_path / "file")
    stored.site.say("/x", said(FRESH))
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"one")
    assert (tmp_path / "file").read_text() == "no directory"


def test_a_purge_and_an_unsafe_method_remove_files(on_disk, tmp_path):
    before = on_disk()
    bodies = store(before, tmp_path)
    before.site.say("/one", said(status=204))
    before.ask("/one", method="DELETE")
    assert before.proxy.admin.ask("/v1/cache/purge?all=yes", method="POST").status == 200
    assert not [path for path in (tmp_path / "store" / "objects").rglob("*") if path.is_file()]
    assert "0 answers" in before.proxy.admin.text("/v1/cache")
    assert bodies


def test_a_purge_of_one_url_leaves_the_files_of_the_others(on_disk, tmp_path):
    """What only the disk has was asked for before the purge, too."""
    before = on_disk()
    bodies = store(before, tmp_path)
    ended(before, "terminate")
    after = on_disk()
    purged = f"/v1/cache/purge?url=http://{after.authority}/one"
    assert after.proxy.admin.ask(purged, method="POST").status == 200
    check_hit(after.ask("/large"), bodies["/large"])
    check_forwarded(after.ask("/one"), "uri-miss", bodies["/one"])


def test_what_turns_out_to_be_too_long_holds_no_file(on_disk, tmp_path):
    """The origin has not said how long it is, and others read it to its end."""
    stored = on_disk(object="1MiB")
    for number in range(3):
        stored.site.say(f"/{number}", said(FRESH, body=LARGE, framing="chunked"))
        assert stored.ask(f"/{number}").body == LARGE
    stored.site.say("/short", said(FRESH))
    stored.ask("/short")
    wait_until_written(stored, 1)
    directory = f"/proc/{stored.proxy.process.pid}/fd"

    def held() -> list[str]:
        links = [os.path.join(directory, name) for name in os.listdir(directory)]
        found = [os.readlink(link) for link in links if os.path.islink(link)]
        return [path for path in found if path.startswith(str(tmp_path)) and path.endswith(" (deleted)")]

    stored.proxy.admin.asked_until("/v1/cache", lambda page: not held())


def test_what_was_changed_while_it_was_written_is_not_found_again(on_disk, tmp_path):
    before = on_disk()
    held = before.site.hold("/x")
    client = before.start("/x")
    request = held.next()
    request.send(said(FRESH, body=LARGE).head() + LARGE[: 2 << 20])
    client.receive_until(LARGE[(1 << 20) : (1 << 20) + 64])
    before.site.say("/x", said(status=204))
    before.ask("/x", method="POST")
    request.send(LARGE[2 << 20 :])
    request.end()
    behind = (1 << 20) + 64
    assert client.receive_exactly(len(LARGE) - behind) == LARGE[behind:]
    before.site.say("/other", said(FRESH, body=LARGE))
    before.ask("/other")
    wait_until_written(before, 1)
    ended(before, "kill")
    after = on_disk()
    after.site.say("/x", said(FRESH, body=b"new"))
    check_forwarded(after.ask("/x"), "uri-miss", b"new")
    check_hit(after.ask("/other"), LARGE)
