#!/usr/bin/env python3
"""A store of a hundred thousand answers: how fast it fills and starts, and what a list and a purge of one host cost everyone else.

    python3 Tests/Bench/cache_scale.py                         # on disk and in memory, 100,000 answers of 1 KiB of 100 hosts
    python3 Tests/Bench/cache_scale.py --answers 10000 --only disk --binary .build/release/sallyport

The hosts are addresses of loopback, nginx answers all of them, and wrk asks for each URL once. After that the daemon is ended in
both ways and started again, one host is listed and another one purged over the socket of [admin], while a client on a kept
connection asks for one stored answer after another: its longest wait is what an exchange of that loop may notice. The daemon's
own watchdog says the same from inside: sallyport_loop_turn_seconds, whose buckets are compared before and after. Nothing is bound
to a CPU: what the disk's thread and the operators' does must find another one than the loop's. On a machine that builds something
meanwhile the turns say nothing.

Exit status: 0 every bar is kept; 1 one is not; 2 wrong usage. Needs nginx and wrk. Python standard library only.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time

import measure
import processes
from processes import HOST, BenchError, Child

SOURCES = pathlib.Path(__file__).resolve().parent
HOSTS = 100
BODY_BYTES = 1024
# What issue and manual promise, in milliseconds.
START_MS_MAX, LIST_MS_MAX, PURGE_MS_MAX, TURN_MS_MAX = 1000, 50, 50, 1
ROUNDS = 5
FILL_SECONDS_MAX = 300
CONNECTIONS = 16
PROBE_BEFORE_SECONDS = 3
# The daemon is asked how far it is, which takes a turn of a loop.
POLL_SECONDS = 0.2

# Each URL once, host by host in turn, so that every host has as many; then from the beginning.
FILL = """
local hosts, answers, port = {hosts}, {answers}, {port}
local asked = 0
function request()
  local number = asked % answers
  asked = asked + 1
  local host = "127.0.1." .. (number % hosts + 1) .. ":" .. port
  return "GET http://" .. host .. "/" .. math.floor(number / hosts) .. " HTTP/1.1\\r\\nHost: " .. host .. "\\r\\n\\r\\n"
end
"""


def host(number: int) -> str:
    return f"127.0.1.{number % HOSTS + 1}"


class Store:
    """The daemon with its store, and the origin."""

    def __init__(self, options, directory: pathlib.Path, kind: str):
        self.options, self.directory, self.kind = options, directory, kind
        self.port, self.origin_port = processes.free_port(), processes.free_port()
        self.admin_socket = directory / "admin.sock"
        self.store = directory / "store"
        self.origin = self._start_origin()
        self.daemon: Child | None = None

    def _start_origin(self) -> Child:
        configuration = self.directory / "nginx.conf"
        configuration.write_text(f"""
            daemon off; worker_processes 1; {"user root;" if os.geteuid() == 0 else ""}
            pid {self.directory}/pid; error_log stderr error;
            events {{ worker_connections 1024; }}
            http {{
              access_log off; keepalive_requests 1000000; default_type text/plain;
              server {{
                listen 0.0.0.0:{self.origin_port};
                location / {{ add_header Cache-Control max-age=86400; return 200 "{"x" * BODY_BYTES}"; }}
              }}
            }}""")
        child = Child("nginx", [processes.find("nginx"), "-p", str(self.directory), "-c", str(configuration)], cpu=None,
                      output=self.directory / "nginx.err")
        child.wait_for_port(self.origin_port)
        return child

    def start(self) -> float:
        """Milliseconds until it says that it is ready."""
        place = f'directory = "{self.store}"\ndisk = "8GiB"\nmemory = "32MiB"' if self.kind == "disk" else 'memory = "4GiB"'
        configuration = self.directory / "sallyport.toml"
        configuration.write_text(
            f'[proxy]\nlisten = ["{HOST}:{self.port}"]\nworkers = 1\n[admin]\nsocket = "{self.admin_socket}"\n[cache]\n{place}\n'
            '[[rule]]\nname = "kept"\nschemes = ["http"]\n[rule.cache]\n')
        began = time.monotonic()
        self.daemon = Child("sallyport", [str(self.options.binary), "run", "--config", str(configuration)],
                            cpu=None, output=self.directory / "log", read_stdout=True)
        self.daemon.wait_for_line()
        return (time.monotonic() - began) * 1000

    def end(self, number: int):
        os.kill(self.daemon.pid, number)
        self.daemon.process.wait(30)
        self.daemon.stop()

    def stop(self):
        for child in (self.daemon, self.origin):
            if child:
                child.stop()

    def fill(self) -> float:
        """Answers a second."""
        script = self.directory / "fill.lua"
        script.write_text(FILL.format(hosts=HOSTS, answers=self.options.answers, port=self.origin_port))
        command = [processes.find("wrk"), "-t1", f"-c{CONNECTIONS}", f"-d{FILL_SECONDS_MAX}s", "-s", str(script),
                   f"http://{HOST}:{self.port}/"]
        began = time.monotonic()
        with Child("wrk", command, cpu=None, output=self.directory / "wrk.err"):
            self.wait_until_stored(self.options.answers)
        return self.options.answers / (time.monotonic() - began)

    # The admin API

    def ask(self, path: str, method: str = "GET") -> tuple[bytes, float]:
        """The body of what it says, and milliseconds."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.admin_socket))
            began = time.monotonic()
            connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: sallyport\r\nAccept: application/json\r\n"
                               "Connection: close\r\n\r\n".encode())
            parts = []
            while part := connection.recv(1 << 20):
                parts.append(part)
        taken = (time.monotonic() - began) * 1000
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            raise BenchError(f"{method} {path}: {head.splitlines()[0].decode()} {body[:300]!r}")
        return body, taken

    def stored(self) -> int:
        name = "sallyport_cache_disk_answers" if self.kind == "disk" else "sallyport_cache_answers"
        return int(re.search(rf"^{name} (\d+)$", self.ask("/metrics")[0].decode(), re.MULTILINE)[1])

    def wait_until_stored(self, count: int):
        end = time.monotonic() + FILL_SECONDS_MAX
        while (stored := self.stored()) < count:
            if time.monotonic() > end:
                raise BenchError(f"{stored} answers are stored, not {count}")
            time.sleep(POLL_SECONDS)

    def turns(self) -> list[tuple[float, int]]:
        """How many turns took at most so many milliseconds, from the shortest on; the last is all of them."""
        page = self.ask("/metrics")[0].decode()
        found = re.findall(r'^sallyport_loop_turn_seconds_bucket\{[^}]*le="([^"]+)"[^}]*\} (\d+)', page, re.MULTILINE)
        sums: dict[float, int] = {}
        for limit, count in found:
            sums[float(limit) * 1000] = sums.get(float(limit) * 1000, 0) + int(count)
        return sorted(sums.items())


class Probe:
    """A client on a kept connection that asks for stored answers, one after another, and remembers how long each took."""

    def __init__(self, store: Store):
        self.store = store
        self.waits: list[float] = []
        self.misses = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()

    def _run(self):
        with socket.create_connection((HOST, self.store.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            authority = f"{host(0)}:{self.store.origin_port}"
            # One that stays in memory: it is used all the time, and is of a host that nobody purges.
            request = f"GET http://{authority}/0 HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()
            while not self.stopped.is_set():
                began = time.monotonic()
                connection.sendall(request)
                answer = connection.recv(1 << 16)
                while b"\r\n\r\n" not in answer or len(answer.partition(b"\r\n\r\n")[2]) < BODY_BYTES:
                    answer += connection.recv(1 << 16)
                self.waits.append((time.monotonic() - began) * 1000)
                self.misses += b"sallyport; hit" not in answer

    def take(self) -> dict:
        waits, self.waits = self.waits, []
        ordered = sorted(waits)
        if not ordered:
            return {}
        return {"hits": len(ordered), "p50_ms": round(ordered[len(ordered) // 2], 3),
                "p999_ms": round(ordered[int(len(ordered) * 0.999)], 3), "longest_ms": round(ordered[-1], 2)}


def turns_between(before: list, after: list) -> dict[str, int]:
    """Turns that took longer than each limit."""
    counts = {limit: count - dict(before).get(limit, 0) for limit, count in after}
    total = max(counts.values(), default=0)
    return {f"> {limit:g} ms": total - count for limit, count in sorted(counts.items()) if limit != float("inf")}


def over(turns: dict[str, int], limit: float) -> int:
    """Turns longer than a limit of the buckets; where it is none of them, the next lower one."""
    below = [(float(name[2:-3]), count) for name, count in turns.items() if float(name[2:-3]) <= limit]
    return max(below)[1] if below else 0


def measured(store: Store, options) -> dict:
    figures: dict = {"answers": options.answers, "start_empty_ms": store.start()}
    figures["stored_per_second"] = store.fill()
    figures["private_mb"] = measure.memory(store.daemon.pid).private / 1e6
    if store.kind == "disk":
        figures["start_ms"] = [restart(store, number) for number in (signal.SIGTERM, signal.SIGKILL) * ROUNDS]
        figures["private_after_start_mb"] = measure.memory(store.daemon.pid).private / 1e6
        store.wait_until_stored(options.answers)
    with Probe(store) as probe:
        before = store.turns()
        time.sleep(PROBE_BEFORE_SECONDS)
        figures["alone"] = {"probe": probe.take(), "turns": turns_between(before, store.turns())}
        for name, path, method in (("list", "/v1/cache/answers?host={}", "GET"), ("purge", "/v1/cache/purge?host={}", "POST"),
                                   ("purge_url", "/v1/cache/purge?url=http://{}:%d/1" % store.origin_port, "POST")):
            before = store.turns()
            probe.take()
            taken, count = [], 0
            for number in range(ROUNDS):
                body, milliseconds = store.ask(path.format(host(1 + number + (20 if name == "purge_url" else 0))), method)
                taken.append(milliseconds)
                document = json.loads(body)
                count += document["purged"] if method == "POST" else len(document["answers"])
            figures[name] = {"ms": [round(each, 1) for each in taken], "answers": count, "probe": probe.take(),
                             "turns": turns_between(before, store.turns())}
    if probe.misses > 1:
        raise BenchError(f"{probe.misses} of the probe's requests were no hits")
    return figures


def restart(store: Store, number: int) -> float:
    store.end(number)
    return store.start()


def verdicts(figures: dict) -> list[tuple[str, bool]]:
    rows = []
    if "start_ms" in figures:
        slowest = max(figures["start_ms"])
        rows.append((f"starts in {slowest:.0f} ms ≤ {START_MS_MAX}", slowest <= START_MS_MAX))
    for name, most in (("list", LIST_MS_MAX), ("purge", PURGE_MS_MAX), ("purge_url", PURGE_MS_MAX)):
        taken = statistics.median(figures[name]["ms"])
        rows.append((f"{name} in {taken:.1f} ms ≤ {most}", taken <= most))
        longer = over(figures[name]["turns"], TURN_MS_MAX)
        # Where others take the CPU of a loop, its turns say nothing of what it did.
        if over(figures["alone"]["turns"], TURN_MS_MAX) == 0:
            rows.append((f"{name}: {longer} turns longer than {TURN_MS_MAX} ms", longer == 0))
    return rows


def show(kind: str, figures: dict):
    print(kind)
    for name, value in figures.items():
        if isinstance(value, float):
            value = round(value, 1)
        elif isinstance(value, list):
            value = [round(each) for each in value]
        elif isinstance(value, dict) and "turns" in value:
            value = {**value, "turns": ", ".join(f"{count} {limit}" for limit, count in value["turns"].items() if count)}
        print(f"  {name:24} {value}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", type=pathlib.Path, default=SOURCES.parent.parent / ".build/release/sallyport")
    parser.add_argument("--answers", type=int, default=100_000)
    parser.add_argument("--only", choices=("disk", "memory"))
    parser.add_argument("--directory", type=pathlib.Path, help="where the store is; a temporary directory")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    absent = [name for name in ("nginx", "wrk") if not processes.find(name)] + ([] if options.binary.exists() else [str(options.binary)])
    if absent:
        parser.error(f"not there: {', '.join(absent)}")
    processes.raise_on_signals()
    kept, results = True, {}
    for kind in ("disk", "memory"):
        if options.only in (None, kind):
            with tempfile.TemporaryDirectory(prefix="cache-scale-", dir=options.directory) as directory:
                store = Store(options, pathlib.Path(directory), kind)
                try:
                    results[kind] = measured(store, options)
                finally:
                    store.stop()
            show(kind, results[kind])
            for sentence, holds in verdicts(results[kind]):
                print(f"  {'kept' if holds else 'BROKEN'}  {sentence}")
                kept &= holds
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0 if kept else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"cache_scale: {error}")
