"""Stored answers while the clock of the machine is set: freshness does not grow with it, and no age or time to live is absurd.

    clock.set(-3600)        the time of day is set back by an hour, for the proxy and for the origin
    clock.run(60)           a minute passes, for the time of day and for what is measured
"""

import itertools
import json
import os
import re
import subprocess

import pytest

from cache_world import FRESH, cache_status, cached, check_forwarded, check_hit, http_date, said
from conftest import need
from proxy import clean_environment, command

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  char text[64] = "";
  long day = 0, measured = 0;
  int file = open(getenv("CLOCK_OFFSETS"), O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) > 0) sscanf(text, "%ld %ld", &day, &measured);
    close(file);
  }
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += day;
  if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME) now->tv_sec += measured;
  return result;
}

time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where) *where = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
"""

HOUR, DAY, YEAR = 3600, 86_400, 365 * 86_400
# More than any answer of these tests is old, fresh or stale for: what is said beyond that is said of no answer.
ABSURD = 45 * YEAR


class SetClock:
    def __init__(self, file, environment):
        self.file, self.environment = file, environment
        self.day = self.measured = 0

    def _write(self) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(f"{self.day} {self.measured}")
        new.rename(self.file)

    def set(self, seconds: int) -> None:
        self.day += seconds
        self._write()

    def run(self, seconds: int) -> None:
        self.day += seconds
        self.measured += seconds
        self._write()


@pytest.fixture(scope="session")
def clock_library(tmp_path_factory):
    need("gcc")
    if "SALLYPORT_SANITIZED" in os.environ:
        pytest.skip("a sanitizer wants to be the first library")
    directory = tmp_path_factory.mktemp("clock")
    (directory / "clock.c").write_text(LIBRARY)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", directory / "clock.so", directory / "clock.c"], check=True)
    return directory / "clock.so"


@pytest.fixture
def clock(clock_library, tmp_path, monkeypatch):
    """The clock of the proxies that are started from here on."""
    clock = SetClock(tmp_path / "offsets", {"LD_PRELOAD": str(clock_library), "CLOCK_OFFSETS": str(tmp_path / "offsets")})
    clock._write()
    monkeypatch.setattr("proxy.clean_environment", with_clock(clock.environment))
    return clock


def with_clock(added: dict):
    return lambda **extra: clean_environment(**{**added, **extra})


def shown(stored, path: str = "/x") -> list[dict]:
    """What `sallyport cache show` says of a URL, as JSON and as text."""
    where = ("--socket", stored.proxy.admin.path)
    url = f"http://{stored.authority}{path}"
    text = command("cache", "show", *where, url).stdout
    assert not re.search(r"^ +age +-", text, re.MULTILINE), text
    done = command("cache", "show", "--json", *where, url)
    return json.loads(done.stdout)["answers"] if done.returncode == 0 else []


def check_sane(stored, answer, path: str = "/x") -> dict:
    """Neither the answer nor the operators' view says of a time what cannot be."""
    parameters = cache_status(answer)
    age = answer.value("Age")
    assert age is None or int(age) < ABSURD, answer.fields
    assert abs(parameters.get("ttl", 0)) < ABSURD, parameters
    for entry in shown(stored, path):
        for name, value in entry.items():
            if name not in ("bytes", "status") and isinstance(value, (int, float)):
                assert -ABSURD < value < ABSURD, f"{name}: {entry}"
            if "age" in name and isinstance(value, (int, float)):
                assert value >= 0, entry
    return parameters


def dated(clock, *fields: str, body: bytes = b"", **knobs):
    """An answer whose Date is of the clock that is set; without a body of its own each gets another: `b"answer 1"`, …"""
    count = itertools.count(1)

    def answer(connection, request):
        date = f"Date: {http_date(clock.day)}"
        return said(date, *fields, body=body or b"answer %d" % next(count), **knobs)

    return answer


STEPS = {"a second": 1, "a minute": 60, "an hour": HOUR, "a year": YEAR, "40 years": 40 * YEAR}


@pytest.mark.parametrize("step", STEPS)
def test_set_back(step, clock, cached):
    """It is not known how old it is, so the origin is asked; what it then says is stored and fresh by the new clock."""
    stored = cached()
    stored.site.say("/x", dated(clock, "Cache-Control: max-age=100"))
    stored.ask("/x")
    clock.set(-STEPS[step])
    check_sane(stored, stored.ask("/x"))
    clock.run(101)
    check_sane(stored, answer := stored.ask("/x"))
    check_forwarded(answer, "stale")
    check_sane(stored, answer := stored.ask("/x"))
    check_hit(answer)


@pytest.mark.parametrize("step", STEPS)
def test_set_forward(step, clock, cached):
    stored = cached()
    stored.site.say("/x", dated(clock, "Cache-Control: max-age=100"))
    stored.ask("/x")
    clock.set(STEPS[step])
    answer = stored.ask("/x")
    if STEPS[step] > 100:
        check_forwarded(answer, "stale", b"answer 2")
        check_hit(stored.ask("/x"), b"answer 2")
    check_sane(stored, stored.ask("/x"))
    # What came by the wrong clock is not fresh for all the time until that.
    clock.set(-STEPS[step])
    check_sane(stored, stored.ask("/x"))
    clock.run(101)
    check_forwarded(stored.ask("/x"), "stale")


def test_set_back_again_and_again(clock, cached):
    """As a machine whose clock is corrected each minute: time passes all the same, and after 100 s the answer is stale."""
    stored = cached()
    stored.site.say("/x", dated(clock, "Cache-Control: max-age=100"))
    stored.ask("/x")
    clock.run(10)
    for _ in range(20):
        clock.run(50)
        clock.set(-50)
    # 1010 s old by any clock that is not set.
    check_forwarded(stored.ask("/x"), "stale", b"answer 2")


def test_set_back_by_less_than_the_age(clock, cached):
    stored = cached()
    stored.site.say("/x", dated(clock, "Cache-Control: max-age=100"))
    stored.ask("/x")
    clock.run(90)
    clock.set(-80)
    clock.run(50)
    answer = stored.ask("/x")
    check_forwarded(answer, "stale", b"answer 2")


@pytest.mark.parametrize("step", [-40 * YEAR, -HOUR, YEAR, 40 * YEAR])
def test_offline_after_it_was_set(step, clock, cached):
    """A machine without a clock of its own starts in 1970, or where it was switched off, and has no network yet."""
    stored = cached(cache='offline = "60d"\nstale_if_error = "60d"')
    stored.site.say("/x", dated(clock, "Cache-Control: max-age=100", 'ETag: "a"', body=b"one"))
    stored.ask("/x")
    clock.set(step)
    stored.leave()
    answer = stored.ask("/x")
    if step < 0:
        assert (answer.status, answer.body) == (200, b"one")
    check_sane(stored, answer)


@pytest.mark.parametrize("step", [-40 * YEAR, -HOUR, HOUR, 20 * YEAR])
def test_however_old_it_is(step, clock, cached):
    stored = cached(request='cache_policy = "return-cache-else-load"')
    stored.site.say("/x", dated(clock, "Cache-Control: max-age=100", body=b"one"))
    stored.ask("/x")
    clock.set(step)
    answer = stored.ask("/x")
    # Set back, the store's own clock goes on: no time has passed.
    check_hit(answer, b"one", stale=step > 0)
    check_sane(stored, answer)


@pytest.mark.parametrize("step", [-40 * YEAR, -HOUR, HOUR, 40 * YEAR])
def test_stale_while_revalidate_after_it_was_set(step, clock, cached):
    stored = cached()
    stored.site.say("/x", dated(clock, "Cache-Control: max-age=100, stale-while-revalidate=100", 'ETag: "a"'))
    stored.ask("/x")
    clock.set(step)
    check_sane(stored, stored.ask("/x"))
    check_sane(stored, stored.ask("/x"))


def test_the_clock_is_set_right_after_the_first_answers(clock, cached):
    """From 1970 to now: what came before is stale."""
    clock.set(-50 * YEAR)
    stored = cached()
    stored.site.say("/x", dated(clock, FRESH))
    check_sane(stored, stored.ask("/x"))
    check_sane(stored, stored.ask("/x"))
    clock.set(50 * YEAR)
    answer = stored.ask("/x")
    check_sane(stored, answer)
    check_sane(stored, answer := stored.ask("/x"))
    check_hit(answer)


def test_what_an_old_request_brings_is_not_stored_over_a_change(clock, cached):
    """The request left before the change, although the clock says that it left after."""
    stored = cached()
    held = stored.site.hold("/x")
    client = stored.start("/x")
    fetch = held.next()
    clock.set(-HOUR)
    stored.site.say("/x", said(status=204))
    assert stored.ask("/x", method="DELETE").status == 204
    fetch.say(said(FRESH, body=b"old"))
    assert client.answer().body == b"old"
    stored.site.say("/x", said(FRESH, body=b"new"))
    assert stored.ask("/x").body == b"new"


def test_a_url_that_was_changed_is_stored_after_it_was_set_back(clock, cached):
    stored = cached()
    stored.site.say("/x", said(status=204))
    stored.ask("/x", method="DELETE")
    stored.site.say("/x", dated(clock, FRESH))
    clock.set(-HOUR)
    stored.ask("/x")
    check_hit(stored.ask("/x"), b"answer 1")


def test_validation_over_a_clock_that_is_set(clock, cached):
    """304 makes it fresh by the new clock."""
    stored = cached()
    fields = ('ETag: "a"', "Cache-Control: max-age=100")
    stored.site.say("/x", dated(clock, *fields, body=b"one"), dated(clock, *fields, status=304))
    stored.ask("/x")
    for step in (-HOUR, 2 * HOUR, -YEAR, 2 * YEAR):
        clock.set(step)
        answer = stored.ask("/x")
        check_sane(stored, answer)
        # Set back, the store's own clock goes on: no time has passed.
        if step < 0:
            check_hit(answer, b"one")
        else:
            check_forwarded(answer, "stale", b"one", fwd_status=304)
        check_hit(stored.ask("/x"), b"one")


def test_a_purge_by_age(clock, cached):
    """`--older` takes what is older by any clock, and does not take what came just now."""
    stored = cached()
    stored.site.say("/x", said(FRESH))
    stored.ask("/x")
    done = command("cache", "purge", "--older", "1h", "--json", "--socket", stored.proxy.admin.path)
    assert json.loads(done.stdout)["purged"] == 0
    clock.run(2 * HOUR)
    done = command("cache", "purge", "--older", "1h", "--json", "--socket", stored.proxy.admin.path)
    assert json.loads(done.stdout)["purged"] == 1
