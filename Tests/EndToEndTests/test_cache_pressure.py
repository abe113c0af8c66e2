"""Where memory is short, what is stored in it makes room. The service manager says so by a FIFO, as systemd's MEMORY_PRESSURE.md has it."""

import os

import pytest

from cache_world import FRESH, cached, check_forwarded, check_hit, said  # noqa: F401

BODY = bytes(1 << 20)


@pytest.fixture
def pressure(tmp_path, monkeypatch):
    """A function that says that memory is short, to whoever is started from here on."""
    path = tmp_path / "pressure"
    os.mkfifo(path)
    held = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    monkeypatch.setenv("MEMORY_PRESSURE_WATCH", str(path))
    yield lambda: os.write(held, b"short")
    os.close(held)


@pytest.mark.parametrize("disk", [False, True])
def test_what_was_used_longest_ago_makes_room(disk, pressure, cached, tmp_path):
    stored = cached(store='purge_to = 0.5\nmemory = "64MiB"' + (f'\ndirectory = "{tmp_path}/store"' if disk else ""))
    for number in range(8):
        stored.site.say(f"/{number}", said(FRESH, body=BODY))
        stored.ask(f"/{number}")
    if disk:
        # A file is written aside: until it is, memory is all there is.
        stored.proxy.admin.asked_until("/v1/cache", lambda page: page["disk"]["answers"] == 8)
    pressure()
    expected = "memory is short; 4 stored answers were dropped from it"
    stored.proxy.log.wait_for(lambda entry: expected in entry.get("message", ""))
    check_hit(stored.ask("/7"), BODY)
    # What is in a file is there all the same.
    if disk:
        check_hit(stored.ask("/0"), BODY)
    else:
        check_forwarded(stored.ask("/0"), "uri-miss", BODY)


def test_an_empty_store_has_nothing_to_give(pressure, cached):
    stored = cached()
    pressure()
    stored.site.say("/x", said(FRESH))
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"one")
