"""A list that threads append to and that tests wait on: how every test here waits for an event instead of sleeping."""

import select
import threading
import time

# A safety net, not a measure: no event that these tests wait for takes a tenth of it on a loaded machine.
DEADLINE_SECONDS = 20.0


def wait_until(holds) -> None:
    """Asks again and again for what no event tells of."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.001)


class Journal:
    """Grows only. `wait_for` returns at once when the event has happened already."""

    def __init__(self, name: str):
        self.name = name
        self.entries: list = []
        self.changed = threading.Condition()

    def append(self, entry) -> None:
        with self.changed:
            self.entries.append(entry)
            self.changed.notify_all()

    def snapshot(self) -> list:
        with self.changed:
            return list(self.entries)

    def wait_for(self, predicate=lambda entry: True, after: int = 0, deadline: float = DEADLINE_SECONDS):
        """The first entry, from index `after` on, that the predicate holds for."""
        return self.wait_for_several(1, predicate, after, deadline)[0]

    def wait_for_several(
        self, count: int, predicate=lambda entry: True, after: int = 0, deadline=DEADLINE_SECONDS
    ):
        """The first `count` entries that the predicate holds for, once there are so many."""
        end = time.monotonic() + deadline
        with self.changed:
            while True:
                found = [entry for entry in self.entries[after:] if predicate(entry)]
                if len(found) >= count:
                    return found[:count]
                remaining = end - time.monotonic()
                if remaining <= 0 or not self.changed.wait(remaining):
                    raise AssertionError(
                        f"{self.name}: waited {deadline} s for {count} entries, {len(found)} came; all entries:\n"
                        + "\n".join(repr(entry) for entry in self.entries[-40:])
                    )


def readable(source, seconds: float = 0) -> bool:
    """Whether bytes, or the end, can be read of a socket now or within so long. (select() stops at 1,024 descriptors.)"""
    return happens(source, select.POLLIN, seconds)


def writable(sink, seconds: float = 0) -> bool:
    return happens(sink, select.POLLOUT, seconds)


def happens(source, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(source, event)
    return bool(poll.poll(seconds * 1000))
