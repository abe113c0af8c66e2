#!/usr/bin/env python3
"""Compares Sallyport with its peers over loopback: CPU a request, memory, latency, and the bars it must keep.

    python3 Tests/Bench/bench.py                               # what `make bench` calls: every row, five rounds
    python3 Tests/Bench/bench.py --quick                       # shorter runs, three rounds
    python3 Tests/Bench/bench.py --rows keepalive-1k,close-1k --proxies sallyport,haproxy --json result.json
    python3 Tests/Bench/bench.py --list                        # rows with their bars, and proxies

How it measures: one proxy runs at a time, alone on CPU 0, with nginx and the load generator on CPU 1. In each round every
proxy is started anew, checked (does the request arrive in origin-form, is the connection to the origin reused, is a
certificate for another name refused), warmed up and timed; rounds rotate the order. What counts is the CPU time of the
proxy's process divided by requests, and its ratio to that of another proxy in the same run: other work on the machine
moves both. A run during which others took more of the proxy's CPU than a few percent is repeated, within limits, and
marked when that did not help. Everyone writes an access log, to a file in memory.

Rows that weigh a rule of Sallyport against the same rule without something have two of it running, each idle while the
other is loaded, in turns of a second; the figure of a round is the median of the differences between neighbours.

Exit status: 0 every bar that was measured is kept; 1 one is not, or something failed; 2 wrong usage. A bar whose proxy is
absent is SKIP, which is an error with --strict only. Needs: nginx, wrk, cc, openssl, and the peers that are to be compared
(on Debian: apt install nginx-light wrk haproxy squid-openssl tinyproxy gcc libssl-dev openssl). Python standard library
only.

The files: rows.py what is measured; proxies.py how each proxy is started; origin.py what is behind them; certificates.py
whom they trust; documents.py what a serializer looks at; load.py and scrape.py what is sent; measure.py what it cost;
report.py tables and verdicts; processes.py that nothing is left running; pump.c, tunnel-load.c, absolute.lua, alloc-count.c and
alloc_count.py the tools. test_bench.py tests them: python3 Tests/Bench/test_bench.py
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import platform
import resource
import shutil
import subprocess
import sys
import tempfile

import alloc_count
import measure
import processes
import report
from certificates import Certificates
from origin import Origin
from processes import BenchError
from proxies import PROXIES, Proxy, Running, remove_shared_memory
from report import FAIL, SKIP, ProxyResult, RowResult
from rows import ROWS, Metrics, Row

SOURCES = pathlib.Path(__file__).resolve().parent
DEFAULT_BINARY = SOURCES.parent.parent / ".build/release/sallyport"
# Seconds of each timed run, and rounds of which the median is taken: three is the least that has one.
FULL_SECONDS, FULL_ROUNDS = 4, 5
QUICK_SECONDS, QUICK_ROUNDS = 2, 3
SECONDS_MAX, ROUNDS_MAX = 60, 100
# How often a disturbed run is repeated; the least disturbed one counts. A machine that builds all day is not waited for.
REPEATS_MAX = 2
CONNECTIONS_DEFAULT, CONNECTIONS_MAX = 16, 1_000
COMPILER_FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror"]
LIBRARIES = {"tunnel-load": ["-lssl", "-lcrypto"]}
COMPILE_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 10
# Logs and the origin's files live in memory where there is room, so that no disk takes part.
MEMORY_DIRECTORY = pathlib.Path("/dev/shm")
MEMORY_BYTES_MIN = 2 * 1024 * 1024 * 1024


class Bench:
    """What all rows share: the options, the directory, the tools, the origin. A context manager that cleans up."""

    def __init__(self, options):
        self.binary = pathlib.Path(options.binary).absolute()
        self.seconds: int = options.seconds
        self.rounds: int = options.rounds
        self.quick: bool = options.quick
        self.connections: int = options.connections
        self.proxy_cpu: int | None = options.proxy_cpu
        self.load_cpu: int | None = options.load_cpu
        self.sources = SOURCES
        self._names = itertools.count(1)
        self.descriptors_max = raise_descriptor_limit()
        parent = MEMORY_DIRECTORY if memory_has_room() else None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-bench-", dir=parent))
        self.directory.chmod(0o755)  # Squid, started as root, becomes another user
        self.allocation_counters = self.directory / "allocations"

    def __enter__(self):
        try:
            if processes.find("wrk") is None:
                raise BenchError("wrk is not installed; on Debian: apt install wrk")
            self.pump = self._compile("pump")
            self.tunnel_load = self._compile("tunnel-load")
            self.alloc_library = alloc_count.build(self.directory)
            self.certificates = Certificates(self.new_path("certificates"))
            self.origin = Origin(self)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        processes.stop_all()
        remove_shared_memory()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _compile(self, name: str) -> pathlib.Path:
        program = self.directory / name
        subprocess.run([os.environ.get("CC", "cc"), *COMPILER_FLAGS, "-o", program, SOURCES / f"{name}.c",
                        *LIBRARIES.get(name, [])], check=True, timeout=COMPILE_SECONDS_MAX)
        return program

    def new_path(self, name: str) -> pathlib.Path:
        """A path in the bench's directory that nobody has used."""
        return self.directory / f"{next(self._names):04}-{name}"

    def proxy_cpu_busy_ns(self) -> int:
        return 0 if self.proxy_cpu is None else measure.busy_ns(self.proxy_cpu)

    def absence(self, proxy: Proxy) -> str | None:
        """Why a proxy cannot be started, if it cannot."""
        if proxy.program is not None:
            return None if processes.find(proxy.program) else f"{proxy.program} is not installed"
        if not proxy.is_subject or os.access(self.binary, os.X_OK):
            return None
        return f"{self.binary} is not built"


def raise_descriptor_limit() -> int:
    """Takes all descriptors that we may have, here and in every child, and says how many. Root may raise the hard limit
    too, but not on every machine: in containers and small virtual machines the capability is often missing."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (65_536, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, hard), max(wanted, hard)))
            return max(wanted, hard)
        except (ValueError, OSError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def memory_has_room() -> bool:
    try:
        status = os.statvfs(MEMORY_DIRECTORY)
    except OSError:
        return False
    return os.access(MEMORY_DIRECTORY, os.W_OK) and status.f_bavail * status.f_frsize >= MEMORY_BYTES_MIN


# A row ----------------------------------------------------------------------------------------------------------------


def say(text: str):
    """Progress, for whom waits: on stderr, so that stdout is the result alone."""
    print(text, file=sys.stderr, flush=True)


def measure_row(bench: Bench, row: Row, selected: list[str]) -> RowResult:
    """Every round of a row. A proxy that fails is reported with what went wrong, and the others go on."""
    result = RowResult(row, {name: ProxyResult(absent=bench.absence(PROXIES[name])) for name in selected})
    present = [name for name in selected if result.proxies[name].absent is None]
    if not present:
        return result
    rounds = 1 if bench.quick and row.counts_only else bench.rounds
    for number in range(rounds):
        first = number % len(present)
        for name in present[first:] + present[:first]:
            measured = result.proxies[name]
            try:
                sample = measure_once(bench, row, name)
                for _ in range(REPEATS_MAX):
                    if report.disturbance(sample) <= report.DISTURBED_PERCENT:
                        break
                    say(f"{row.name}  round {number + 1}/{rounds}  {name}  again: other programs took "
                        f"{report.disturbance(sample):.0f} % of its CPU")
                    sample = min(sample, measure_once(bench, row, name), key=report.disturbance)
                measured.samples.append(sample)
                seen = f"{sample[row.primary]:.3f}"
            except (BenchError, OSError, ValueError) as error:
                measured.errors.append(str(error))
                seen = f"ERROR {error}"
            say(f"{row.name}  round {number + 1}/{rounds}  {name}  {seen}")
    if row.allocations:
        count_allocations(bench, row, result)
    return result


def measure_once(bench: Bench, row: Row, name: str) -> Metrics:
    """One sample, of a proxy that is started for it, and of the one that it is weighed against."""
    with contextlib.ExitStack() as started:
        both = [started.enter_context(Running(bench, PROXIES[each])) for each in (name, row.without) if each]
        return row.measure(bench, *both)


def count_allocations(bench: Bench, row: Row, result: RowResult):
    """The one run with the counting library: apart from the timed ones, which it would slow down."""
    for name, measured in result.proxies.items():
        if not PROXIES[name].is_subject or measured.absent or measured.errors:
            continue
        environment = alloc_count.environment(bench.alloc_library, bench.allocation_counters)
        try:
            with Running(bench, PROXIES[name], environment) as running:
                measured.once = row.allocations(bench, running)
        except (BenchError, OSError, ValueError) as error:
            measured.errors.append(f"while counting allocations: {error}")


# The command ----------------------------------------------------------------------------------------------------------


def names(kind: str, known: dict):
    """An argument parser's type: a comma-separated list of names that are known."""

    def parse(text: str) -> list[str]:
        wanted = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in wanted if name not in known]
        if unknown or not wanted:
            raise argparse.ArgumentTypeError(f"unknown {kind} {', '.join(unknown)}; there are: {', '.join(known)}")
        return wanted

    return parse


def between(least: int, most: int):
    """An argument parser's type: a whole number within limits."""

    def parse(text: str) -> int:
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}, not '{text}'")
        return int(text)

    return parse


def cpu(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdigit() or int(text) not in os.sched_getaffinity(0):
        raise argparse.ArgumentTypeError(f"'{text}' is no CPU that this process may use, nor 'none'")
    return int(text)


def parse_options(arguments: list[str]):
    usable = sorted(os.sched_getaffinity(0))
    pinned = len(usable) > 1
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default=DEFAULT_BINARY, help="the sallyport to measure (default: %(default)s)")
    parser.add_argument("--rows", type=names("row", ROWS), default=list(ROWS), help="a,b: these rows only")
    parser.add_argument("--proxies", type=names("proxy", PROXIES), help="a,b: these proxies only")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds of {QUICK_SECONDS} s")
    parser.add_argument("--rounds", type=between(1, ROUNDS_MAX), help=f"default: {FULL_ROUNDS}")
    parser.add_argument("--seconds", type=between(1, SECONDS_MAX), help=f"of a timed run; default: {FULL_SECONDS}")
    parser.add_argument("--connections", type=between(1, CONNECTIONS_MAX), default=CONNECTIONS_DEFAULT,
                        help="client connections (default: %(default)s)")
    parser.add_argument("--proxy-cpu", type=cpu, default=usable[0] if pinned else None, metavar="N|none",
                        help="where the proxy runs (default: %(default)s)")
    parser.add_argument("--load-cpu", type=cpu, default=usable[1] if pinned else None, metavar="N|none",
                        help="where the origin and the load generator run (default: %(default)s)")
    parser.add_argument("--priority", type=int, choices=range(-20, 20), default=0, metavar="-20…19",
                        help="nice value of all that is started; below 0 (root only) steadies figures on a busy machine")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything that was measured there too")
    parser.add_argument("--strict", action="store_true", help="a bar that was skipped is a failure")
    parser.add_argument("--list", action="store_true", help="say which rows and proxies there are")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else FULL_SECONDS)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else FULL_ROUNDS)
    return options


def select(row: Row, wanted: list[str] | None) -> list[str]:
    """The proxies of a row that --proxies leaves. `sallyport` means every configuration of it."""
    if wanted is None:
        return list(row.proxies)
    return [name for name in row.proxies if name in wanted or (PROXIES[name].is_subject and "sallyport" in wanted)]


def list_everything():
    for row in ROWS.values():
        print(f"{row.name}: {row.what}")
        print(f"    proxies: {', '.join(row.proxies)}{f' against {row.without}' if row.without else ''}")
        for bar in row.bars:
            print(f"    bar: {bar.text()}")
    print()
    for proxy in PROXIES.values():
        print(f"{proxy.name}: {proxy.what}{'; ' + proxy.note if proxy.note else ''}")


def first_line(command: list[str]) -> str | None:
    """What a program says of its version."""
    path = processes.find(command[0])
    if path is None:
        return None
    done = subprocess.run([path, *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=COMMAND_SECONDS_MAX)
    return next(iter(done.stdout.splitlines()), "").strip()


def surroundings(bench: Bench, options) -> dict:
    """What the figures depend on besides the proxies."""
    model = [line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    revision = first_line(["git", "-C", str(SOURCES), "rev-parse", "--short", "HEAD"])
    return {
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "revision": revision, "kernel": platform.release(), "cpu": model[0] if model else platform.machine(),
        "cpus": os.cpu_count(), "load_average": os.getloadavg()[0], "descriptors_max": bench.descriptors_max,
        "rounds": bench.rounds, "seconds": bench.seconds, "connections": bench.connections,
        "proxy_cpu": bench.proxy_cpu, "load_cpu": bench.load_cpu, "priority": options.priority,
        "versions": {name: first_line(command) for name, command in {
            "nginx": ["nginx", "-v"], "haproxy": ["haproxy", "-v"], "squid": ["squid", "-v"],
            "tinyproxy": ["tinyproxy", "-v"], "wrk": ["wrk", "-v"]}.items()},
    }


def header_text(about: dict) -> str:
    return (f"Sallyport bench, {about['when']}, revision {about['revision']}\n"
            f"{about['cpus']} × {about['cpu']}, Linux {about['kernel']}, load average {about['load_average']:.2f}; "
            f"medians of {about['rounds']} rounds of {about['seconds']} s, {about['connections']} connections")


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    if options.list:
        list_everything()
        return 0
    processes.raise_on_signals()
    processes.set_priority(options.priority)
    results = []
    try:
        with Bench(options) as bench:
            about = surroundings(bench, options)
            print(header_text(about), flush=True)
            for name in options.rows:
                row = ROWS[name]
                selected = select(row, options.proxies)
                if not selected:
                    continue
                results.append(measure_row(bench, row, selected))
                print("\n" + report.row_text(results[-1]), flush=True)
    except (BenchError, OSError, subprocess.SubprocessError) as error:
        say(f"bench: {error}")
        return 1
    except KeyboardInterrupt:
        say("bench: interrupted; everything it started is stopped")
        return 130
    print("\n" + report.summary_text(results))
    if options.json:
        document = {"environment": about, "rows": [report.as_json(result) for result in results]}
        options.json.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    verdicts = report.verdicts(results)
    errors = any(proxy.errors for result in results for proxy in result.proxies.values())
    return 1 if FAIL in verdicts or errors or (options.strict and SKIP in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
