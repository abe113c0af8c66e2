"""The rows of the bench: what is measured, of which proxies, and the bar that Sallyport must keep.

To add a row: write a function (bench, running proxy) → metrics, or use one that is here, and add a Row to ROWS. The names
of metrics, and how each is shown, are in METRICS. Part of bench.py.
"""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import alloc_count
import load
import measure
from processes import HOST, BenchError
from proxies import Running

SUBJECT = "sallyport"
FORWARD = ("sallyport", "haproxy", "haproxy-reverse", "squid", "tinyproxy", "pump")

WARM_UP_SECONDS = 1  # before each timed run: pools filled, caches warm; the least that wrk can be asked for

IDLE_CLIENTS = 10_000
IDLE_TUNNELS = 5_000
IDLE_WARM_UP = 64  # opened and closed before the first reading, so that what is made once is not shared out
DESCRIPTORS_RESERVED = 500  # of the limit: for listeners, logs, the pool, and the bench itself
# How many of the expected descriptors may be missing: connections to the origin that the proxy closed in the meantime.
DESCRIPTORS_SLACK = 20
OPEN_SECONDS_MAX = 120.0
SETTLE_SECONDS_MAX = 15.0
SETTLE_STEP_SECONDS = 0.5
SETTLE_BYTES = 64 * 1024  # two readings this close, one step apart, are the same: 6 bytes a client of 10,000
START_SETTLE_SECONDS = 1.0
SINK_BACKLOG = 4_096

ALLOCATION_CONNECTIONS = 4
ALLOCATION_WARM_UP = 64  # exchanges on each connection before the count begins
ALLOCATION_EXCHANGES = 200  # counted, on each connection
ALLOCATION_BYTES_MAX = 512 * 1024 * 1024  # of responses in one count: fewer exchanges where they are large

Metrics = dict[str, float]


@dataclass(frozen=True)
class Metric:
    label: str
    digits: int = 0


METRICS = {
    "cpu_us_per_request": Metric("CPU µs/req", 1),
    "cpu_s_per_gb": Metric("CPU s/GB", 3),
    "private_bytes_each": Metric("B each", 0),
    "pss_mb": Metric("PSS MB", 1),
    "rss_mb": Metric("RSS MB", 1),
    "requests_per_second": Metric("req/s"),
    "mb_per_second": Metric("MB/s"),
    "p50_us": Metric("p50 µs"),
    "p99_us": Metric("p99 µs"),
    "allocations_per_request": Metric("allocs/req", 2),
    "log_bytes_per_request": Metric("log B/req"),
    "opened": Metric("opened"),
    # Share of the proxy's CPU that other programs took meanwhile: what a reader looks at before believing a figure.
    "others_percent": Metric("others %"),
}


@dataclass(frozen=True)
class Bar:
    """`subject`'s median of `metric` against a number of its unit, or against `against` times that of another proxy."""

    metric: str
    limit: float
    against: str | None = None
    subject: str = SUBJECT
    below: bool = False  # must be below the limit; else may equal it

    def text(self) -> str:
        sign = "<" if self.below else "≤"
        of = f" × {self.against}" if self.against else ""
        return f"{self.subject} {METRICS[self.metric].label} {sign} {self.limit:g}{of}"

    def holds(self, value: float) -> bool:
        return value < self.limit if self.below else value <= self.limit


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    measure: Callable[["object", Running], Metrics]
    primary: str  # the metric of the ratio column
    proxies: tuple[str, ...] = FORWARD
    baseline: str = "haproxy"  # of the ratio column
    bars: tuple[Bar, ...] = ()
    # Bytes and counts hardly wobble: one round will do in --quick.
    counts_only: bool = False
    # Runs once for the proxy under test, in a process of its own whose allocations are counted.
    allocations: Callable[["object", Running], Metrics] | None = None


# Timed rows -----------------------------------------------------------------------------------------------------------


def timed(bench, running: Running, path: str, send: Callable[[int], load.Load]) -> Metrics:
    """What `send`, which takes seconds and asks for `path`, costs the proxy: its CPU time after less that before."""
    send(WARM_UP_SECONDS)
    running.empty_log()
    cpu, busy, started = running.cpu_ns(), bench.proxy_cpu_busy_ns(), time.monotonic_ns()
    done = send(bench.seconds)
    cpu, busy, elapsed = (running.cpu_ns() - cpu, bench.proxy_cpu_busy_ns() - busy, time.monotonic_ns() - started)
    running.must_be_alive()
    done.check(running, path)
    memory = running.memory()
    log_bytes = running.empty_log()
    if running.proxy.logs and log_bytes == 0:
        raise BenchError(f"{running.name} wrote no access log; the others did, so the figures cannot be compared")
    # Without a CPU of its own, nobody can be said to have taken it.
    others = {} if bench.proxy_cpu is None else {"others_percent": max(0.0, 100 * (busy - cpu) / elapsed)}
    return {
        "cpu_us_per_request": cpu / 1e3 / done.requests,
        "cpu_s_per_gb": cpu / done.bytes,  # ns a byte is s a GB
        "requests_per_second": done.requests / done.seconds,
        "mb_per_second": done.bytes / 1e6 / done.seconds,
        "p50_us": done.p50_us,
        "p99_us": done.p99_us,
        "pss_mb": memory.proportional / 1e6,
        "rss_mb": memory.resident / 1e6,
        "log_bytes_per_request": log_bytes / done.requests,
        **others,
    }


def requests_of(path: str, *, close: bool = False):
    """wrk's GETs of `path`."""

    def measure_row(bench, running: Running) -> Metrics:
        running.check()
        return timed(bench, running, path, lambda seconds: load.wrk(bench, running, path, seconds, close=close))

    return measure_row


def tunnels_of(path: str):
    """GETs of `path` inside tunnels."""

    def measure_row(bench, running: Running) -> Metrics:
        running.check_tunnel()
        metrics = timed(bench, running, path, lambda seconds: load.tunnels(bench, running, path, seconds))
        del metrics["log_bytes_per_request"]  # one line a tunnel, not a request
        return metrics

    return measure_row


# Memory rows ----------------------------------------------------------------------------------------------------------


def settled_memory(running: Running) -> measure.Memory:
    """Memory once the private part it no longer changes, so that buffers given back a little later are not counted."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    before = running.memory()
    while time.monotonic() < deadline:
        time.sleep(SETTLE_STEP_SECONDS)
        now = running.memory()
        if abs(now.private - before.private) <= SETTLE_BYTES:
            return now
        before = now
    return before


def wait_for_descriptors(running: Running, least: int):
    """Until the proxy has accepted what was connected; the kernel's queue says nothing of it."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while running.descriptors() < least:
        running.must_be_alive()
        if time.monotonic() > deadline:
            raise BenchError(f"{running.name} has {running.descriptors()} descriptors open, expected {least}: it does not "
                             "accept that many connections")
        time.sleep(SETTLE_STEP_SECONDS)


def private_bytes_each(running: Running, count: int, descriptors_each: int, open_one: Callable[[int], object]) -> Metrics:
    """Private memory that each of `count` idle connections adds. What `open_one` returns is held, and closed at the end."""
    for held in [open_one(index) for index in range(IDLE_WARM_UP)]:
        held.close()
    before = settled_memory(running)
    descriptors = running.descriptors()
    deadline = time.monotonic() + OPEN_SECONDS_MAX
    all_held = []
    try:
        for index in range(count):
            if time.monotonic() > deadline:
                raise BenchError(f"{running.name}: {index} of {count} connections opened in {OPEN_SECONDS_MAX:.0f} s")
            try:
                all_held.append(open_one(index))
            except OSError as error:
                raise BenchError(f"{running.name}: connection {index} of {count}: {error}") from error
        wait_for_descriptors(running, descriptors + count * descriptors_each - DESCRIPTORS_SLACK)
        after = settled_memory(running)
        running.must_be_alive()
    finally:
        running.child.stop()  # first, so that it does not spend its time on ten thousand ends of connections
        for held in all_held:
            held.close()
    return {"private_bytes_each": (after.private - before.private) / count, "opened": count,
            "pss_mb": after.proportional / 1e6, "rss_mb": after.resident / 1e6}


class HeldTunnel:
    """Both ends of an idle tunnel."""

    def __init__(self, client: load.Client, far_end: socket.socket):
        self.client, self.far_end = client, far_end

    def close(self):
        self.client.socket.close()
        self.far_end.close()


def idle_clients(*, one_request: bool):
    """Clients that hold a connection: after one kept-alive exchange, or without having sent a byte."""

    def measure_row(bench, running: Running) -> Metrics:
        running.check()

        def open_one(index: int):
            client = load.Client(running.port, load.source_address(index))
            if one_request:
                client.get(running.target("/1k"), bench.origin.authority)
            return client.socket

        count = min(IDLE_CLIENTS, bench.descriptors_max - DESCRIPTORS_RESERVED)
        return private_bytes_each(running, count, 1, open_one)

    return measure_row


def idle_tunnels(bench, running: Running) -> Metrics:
    """Tunnels to a socket of ours, through which nothing flows."""
    with socket.create_server((HOST, 0), backlog=SINK_BACKLOG) as sink:
        sink.settimeout(load.EXCHANGE_SECONDS_MAX)
        authority = f"{HOST}:{sink.getsockname()[1]}"

        def open_one(index: int):
            client = load.Client(running.port, load.source_address(index))
            client.connect_tunnel(authority)
            return HeldTunnel(client, sink.accept()[0])

        # The proxy has two descriptors of each tunnel, and so have we.
        count = min(IDLE_TUNNELS, (bench.descriptors_max - DESCRIPTORS_RESERVED) // 2)
        return private_bytes_each(running, count, 2, open_one)


def idle_process(bench, running: Running) -> Metrics:
    """A process that is ready and has served nothing."""
    time.sleep(START_SETTLE_SECONDS)
    running.must_be_alive()
    memory = running.memory()
    return {"pss_mb": memory.proportional / 1e6, "rss_mb": memory.resident / 1e6}


# Allocations ----------------------------------------------------------------------------------------------------------


def allocations_of(path: str, size: int, *, close: bool = False):
    """Heap allocations a request, in the steady state: of connections that were used before, or, with `close`, of a
    proxy that has served such connections before."""

    def count_allocations(bench, running: Running) -> Metrics:
        exchanges = max(1, min(ALLOCATION_EXCHANGES, ALLOCATION_BYTES_MAX // ALLOCATION_CONNECTIONS // size))
        warm_up = min(ALLOCATION_WARM_UP, exchanges)
        origin = bench.origin.authority

        def exchange_on_new(rounds: int):
            for _ in range(rounds * ALLOCATION_CONNECTIONS):
                with load.Client(running.port) as client:
                    client.get(running.target(path), origin, close=True)

        clients = [] if close else [load.Client(running.port) for _ in range(ALLOCATION_CONNECTIONS)]

        def exchange_on_kept(rounds: int):
            for _ in range(rounds):
                for client in clients:
                    client.get(running.target(path), origin)

        exchange = exchange_on_new if close else exchange_on_kept
        try:
            exchange(warm_up)
            before = alloc_count.read(bench.allocation_counters)
            exchange(exchanges)
            counted = alloc_count.read(bench.allocation_counters) - before
        finally:
            for client in clients:
                client.socket.close()
        requests = exchanges * ALLOCATION_CONNECTIONS
        return {"allocations_per_request": counted.calls / requests,
                "allocated_bytes_per_request": counted.bytes / requests}

    return count_allocations


# The list -------------------------------------------------------------------------------------------------------------

ROWS = {
    row.name: row
    for row in [
        Row("keepalive-1k", "1 KiB responses on kept-alive connections", requests_of("/1k"), "cpu_us_per_request",
            bars=(Bar("cpu_us_per_request", 1.0, "haproxy"),), allocations=allocations_of("/1k", 1024)),
        Row("keepalive-64k", "64 KiB responses on kept-alive connections", requests_of("/64k"), "cpu_us_per_request",
            bars=(Bar("cpu_us_per_request", 1.0, "haproxy"),), allocations=allocations_of("/64k", 64 * 1024)),
        Row("large-10m", "10 MiB responses on kept-alive connections", requests_of("/10m"), "cpu_s_per_gb",
            proxies=("sallyport", "haproxy", "haproxy-splice", "haproxy-splice-response", "squid",
                     "tinyproxy", "pump"),
            bars=(Bar("cpu_s_per_gb", 0.5, "haproxy"), Bar("cpu_s_per_gb", 1.0, "haproxy-splice")),
            allocations=allocations_of("/10m", 10 * 1024 * 1024)),
        Row("close-1k", "1 KiB responses, one request a client connection", requests_of("/1k", close=True),
            "cpu_us_per_request", bars=(Bar("cpu_us_per_request", 1.0, "haproxy"),),
            allocations=allocations_of("/1k", 1024, close=True)),
        Row("tunnel-64k", "64 KiB responses inside CONNECT tunnels", tunnels_of("/64k"), "cpu_us_per_request",
            proxies=("sallyport", "squid", "tinyproxy", "pump"), baseline="squid",
            bars=(Bar("cpu_us_per_request", 0.5, "squid"),)),
        Row("idle-client", "idle clients that have done one exchange", idle_clients(one_request=True),
            "private_bytes_each", proxies=("sallyport", "haproxy", "squid"), counts_only=True,
            bars=(Bar("private_bytes_each", 1024, below=True),)),
        Row("idle-client-silent", "idle clients that have sent nothing", idle_clients(one_request=False),
            "private_bytes_each", proxies=("sallyport", "haproxy", "squid"), counts_only=True,
            bars=(Bar("private_bytes_each", 1024, below=True),)),
        Row("idle-tunnel", "idle CONNECT tunnels", idle_tunnels, "private_bytes_each",
            proxies=("sallyport", "squid"), baseline="squid", counts_only=True,
            bars=(Bar("private_bytes_each", 2048, below=True),)),
        Row("idle-process", "a process that has served nothing", idle_process, "pss_mb",
            proxies=("sallyport", "haproxy", "squid", "tinyproxy", "pump"), counts_only=True,
            bars=(Bar("pss_mb", 12, below=True),)),
        Row("rules-10000", "1 KiB responses under a policy of 10,000 hosts", requests_of("/1k"), "cpu_us_per_request",
            proxies=("sallyport-rules-10", "sallyport-rules-10000"), baseline="sallyport-rules-10",
            bars=(Bar("cpu_us_per_request", 2.0, "sallyport-rules-10", subject="sallyport-rules-10000"),)),
    ]
}
