"""The rows of the bench: what is measured, of which proxies, and the bar that Sallyport must keep.

To add a row: write a function (bench, running proxy) → metrics, or use one that is here, and add a Row to ROWS. The names
of metrics, and how each is shown, are in METRICS. Part of bench.py.
"""

import enum
import itertools
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import alloc_count
import load
import measure
from origin import API_1K, API_DOCUMENT, API_DOCUMENT_GZIP, numbered_host
from processes import HOST, BenchError
from proxies import Running

SUBJECT = "sallyport"
FORWARD = ("sallyport", "haproxy", "haproxy-reverse", "squid", "tinyproxy", "pump")
ORIGINATION = ("sallyport-tls", "haproxy-tls", "nginx-tls", "squid-bump")
INTERCEPTION = ("sallyport-intercept", "squid-peek", "squid-bump")

WARM_UP_SECONDS = 1  # before each timed run: pools filled, caches warm; the least that wrk can be asked for

# Rows that weigh one configuration against another run both by turns, in slices as short as wrk can be asked for: the
# slower ways of a machine then meet both halves of a pair alike. Two pairs for each second of another row's timed run
# are eight a round in a full run and four in --quick, of which a median is taken.
SLICE_SECONDS = 1
PAIRS_EACH_SECOND = 2

SCRAPES_A_SECOND = 1_000
# Of those that were due, below which the figure is that of a daemon which is asked less than the row says.
SCRAPES_ANSWERED_MIN = 0.9
SCRAPES_EXTRA_SECONDS = 0.5

IDLE_CLIENTS = 10_000
IDLE_TUNNELS = 5_000
IDLE_INTERCEPTED = 2_000  # a handshake of a millisecond or two each, on both sides
IDLE_ORIGINS = 1_000
IDLE_WARM_UP = 64  # opened and closed before the first reading, so that what is made once is not shared out
DESCRIPTORS_RESERVED = 500  # of the limit: for listeners, logs, the pool, and the bench itself
# How many of the expected descriptors may be missing: connections to the origin that the proxy closed in the meantime.
DESCRIPTORS_SLACK = 20
# Of pooled connections to TLS origins: Squid was seen to lose one in fifty at once.
DESCRIPTORS_SLACK_ORIGINS = IDLE_ORIGINS // 20
OPEN_SECONDS_MAX = 120.0
SETTLE_SECONDS_MAX = 15.0
SETTLE_STEP_SECONDS = 0.5
SETTLE_BYTES = 64 * 1024  # two readings this close, one step apart, are the same: 6 bytes a client of 10,000
START_SETTLE_SECONDS = 1.0
SINK_BACKLOG = 4_096

# One after another, 50 before the timed run.
NEW_HOSTS_WARM_UP, NEW_HOSTS = 50, 500

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
    # What a configuration costs more than another, and content for each second of it.
    "extra_us_per_request": Metric("extra µs/req", 2),
    "extra_gb_per_second": Metric("GB/s of extra CPU", 3),
    "extra_quartiles_us": Metric("± µs in a round", 2),
    "without_us_per_request": Metric("without µs/req", 1),
    "loops_times_without": Metric("loops' CPU/req × without", 3),
    "times_without": Metric("CPU/req × without", 3),
    "throughput_times_without": Metric("req/s × without", 3),
    "us_per_scrape": Metric("CPU µs/scrape", 1),
    "scrapes_per_second": Metric("scrapes/s"),
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


class Sense(enum.Enum):
    """On which side of its limit a figure must be."""

    AT_MOST = "≤"
    BELOW = "<"
    AT_LEAST = "≥"


@dataclass(frozen=True)
class Bar:
    """`subject`'s median of `metric` against a number of its unit, or against `against` times that of another proxy."""

    metric: str
    limit: float
    against: str | None = None
    subject: str = SUBJECT
    sense: Sense = Sense.AT_MOST

    def text(self) -> str:
        of = f" × {self.against}" if self.against else ""
        return f"{self.subject} {METRICS[self.metric].label} {self.sense.value} {self.limit:g}{of}"

    def holds(self, value: float) -> bool:
        match self.sense:
            case Sense.AT_MOST:
                return value <= self.limit
            case Sense.BELOW:
                return value < self.limit
            case Sense.AT_LEAST:
                return value >= self.limit


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    # Takes the bench and the running proxy, and the one `without` where there is one.
    measure: Callable[..., Metrics]
    primary: str  # the metric of the ratio column
    proxies: tuple[str, ...] = FORWARD
    baseline: str | None = "haproxy"  # of the ratio column; None: the metric is a comparison already
    bars: tuple[Bar, ...] = ()
    # Runs beside each proxy of the row, to be compared with in short turns: what differs is what the row is about.
    without: str | None = None
    # Bytes and counts hardly wobble: one round will do in --quick.
    counts_only: bool = False
    # Runs once for the proxy under test, in a process of its own whose allocations are counted.
    allocations: Callable[["object", Running], Metrics] | None = None


# Timed rows -----------------------------------------------------------------------------------------------------------


def timed(bench, running: Running, path: str, send: Callable[[int], load.Load]) -> Metrics:
    """What `send`, which takes seconds and asks for `path`, costs a proxy that is warmed up with it."""
    send(WARM_UP_SECONDS)
    return cost(bench, running, path, send, bench.seconds)


def cost(bench, running: Running, path: str, send: Callable[[int], load.Load], seconds: int) -> Metrics:
    """What so many seconds of `send` cost the proxy: its CPU time after less that before."""
    running.empty_log()
    cpu, busy, started = running.cpu_ns(), bench.proxy_cpu_busy_ns(), time.monotonic_ns()
    done = send(seconds)
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


def requests_of(path: str, *, close: bool = False, secure: bool = False):
    """wrk's GETs of `path`; with `secure`, from the origin that speaks TLS."""

    def measure_row(bench, running: Running) -> Metrics:
        running.check(secure=secure)
        site = bench.origin.site(secure=secure)
        return timed(bench, running, path, lambda seconds: load.wrk(bench, running, site, path, seconds, close=close))

    return measure_row


def tunnels_of(path: str, *, close: bool = False, secure: bool = False):
    """GETs of `path` inside tunnels; with `secure`, over TLS inside them; with `close`, one in each."""

    def measure_row(bench, running: Running) -> Metrics:
        running.check_tunnel(secure=secure)
        site = bench.origin.site(secure=secure)
        metrics = timed(bench, running, path,
                        lambda seconds: load.tunnels(bench, running, site, path, seconds, close=close))
        if not close:
            del metrics["log_bytes_per_request"]  # one line a tunnel, not a request
        return metrics

    return measure_row


def new_hosts(bench, running: Running) -> Metrics:
    """Hosts that the proxy has not seen, one after another: from connecting to the end of the response."""
    running.check_tunnel(secure=True)
    runs = iter([(1, NEW_HOSTS_WARM_UP), (1 + NEW_HOSTS_WARM_UP, NEW_HOSTS)])
    return timed(bench, running, "/1k",
                 lambda _: load.new_hosts(bench, running, bench.origin.secure, "/1k", *next(runs)))


# Rows that weigh one configuration against another ---------------------------------------------------------------------


def extra_of(path: str, check: Callable[[Running], None], *, fields: dict[str, str] = load.NO_FIELDS,
             content: str | None = None, close: bool = False):
    """What the CPU time of a GET of `path` is above that under another configuration, both by turns. With `content`, a
    path whose file is what is worked on, also how much of it a second of that CPU time does."""

    def measure_row(bench, running: Running, without: Running) -> Metrics:
        site = bench.origin.plain

        def slice_of(each: Running, seconds: int) -> load.Load:
            return load.wrk(bench, each, site, path, seconds, fields=fields, close=close)

        for each in (running, without):
            each.check()
            check(each)
            slice_of(each, WARM_UP_SECONDS)
        pairs = []
        for number in range(PAIRS_EACH_SECOND * bench.seconds):
            # Each is the first of a pair as often as the other, so that what grows with time is not the second one's.
            turns = (running, without) if number % 2 == 0 else (without, running)
            slices = {each.name: cost(bench, each, path, lambda seconds, each=each: slice_of(each, seconds),
                                      SLICE_SECONDS) for each in turns}
            pairs.append((slices[running.name], slices[without.name]))
        return paired(pairs, len(bench.origin.files[content]) if content else None)

    return measure_row


def paired(pairs: list[tuple[Metrics, Metrics]], content_bytes: int | None = None) -> Metrics:
    """From slices with and without, the medians of those with, and of the difference within each pair. A slice that was
    disturbed spoils its pair alone."""
    metrics = {metric: statistics.median(of_one[metric] for of_one, _ in pairs) for metric in pairs[0][0]}
    differences = [of_one["cpu_us_per_request"] - other["cpu_us_per_request"] for of_one, other in pairs]
    low, extra_us, high = statistics.quantiles(differences, n=4, method="inclusive")
    metrics["extra_us_per_request"] = extra_us
    metrics["extra_quartiles_us"] = (high - low) / 2
    metrics["without_us_per_request"] = statistics.median(other["cpu_us_per_request"] for _, other in pairs)
    metrics["times_without"] = 1 + extra_us / metrics["without_us_per_request"]
    if "others_percent" in metrics:
        metrics["others_percent"] = statistics.median(each["others_percent"] for pair in pairs for each in pair)
    if content_bytes:
        if extra_us <= 0:
            raise BenchError(f"work on {content_bytes} bytes seemed to cost {extra_us:.1f} µs: noise hides what it costs")
        metrics["extra_gb_per_second"] = content_bytes / (extra_us * 1000)  # bytes a ns are GB a s
    return metrics


def recorded(path: str):
    """What the CPU time of a GET of `path` is, of all threads and of the loops alone, of what it is without a history, both by
    turns."""

    def measure_row(bench, running: Running, without: Running) -> Metrics:
        site = bench.origin.plain

        def slice_of(each: Running) -> Metrics:
            loops = each.loops_ns()
            metrics = cost(bench, each, path, lambda seconds: load.wrk(bench, each, site, path, seconds), SLICE_SECONDS)
            metrics["loops_us"] = (each.loops_ns() - loops) / metrics["requests_per_second"] / 1e3
            return metrics

        for each in (running, without):
            each.check()
            slice_of(each)
        pairs = []
        for number in range(PAIRS_EACH_SECOND * bench.seconds):
            turns = (running, without) if number % 2 == 0 else (without, running)
            slices = {each.name: slice_of(each) for each in turns}
            pairs.append((slices[running.name], slices[without.name]))
        metrics = paired(pairs)
        metrics["loops_times_without"] = statistics.median(one["loops_us"] / other["loops_us"] for one, other in pairs)
        del metrics["loops_us"]
        return metrics

    return measure_row


def scraped(path: str):
    """What the CPU time of a GET of `path`, and how many of them are done, is while /metrics is scraped, of what it is
    without, both by turns of the same process. All the CPU time of the process counts, whichever thread's it is."""

    def measure_row(bench, running: Running) -> Metrics:
        running.check()
        site = bench.origin.plain

        def send(seconds: int) -> load.Load:
            return load.wrk(bench, running, site, path, seconds)

        def with_scrapes() -> Metrics:
            # Somewhat longer than the slice, which wrk takes a moment to begin and to end.
            with load.scraping(bench, running, SCRAPES_A_SECOND, SLICE_SECONDS + SCRAPES_EXTRA_SECONDS) as outcome:
                metrics = cost(bench, running, path, send, SLICE_SECONDS)
                seen = outcome()
            rate = seen["scrapes"] / seen["seconds"]
            if rate < SCRAPES_A_SECOND * SCRAPES_ANSWERED_MIN:
                raise BenchError(f"{running.name}: {rate:.0f} scrapes a second were answered, {SCRAPES_A_SECOND} were due; "
                                 f"{seen['skipped']} found every connection busy")
            return metrics | {"scrapes_per_second": rate}

        send(WARM_UP_SECONDS)
        with_scrapes()
        pairs = []
        for number in range(PAIRS_EACH_SECOND * bench.seconds):
            first = number % 2 == 0
            slices = {scraping: with_scrapes() if scraping else cost(bench, running, path, send, SLICE_SECONDS)
                      for scraping in (first, not first)}
            pairs.append((slices[True], slices[False]))
        return compared(pairs)

    return measure_row


def compared(pairs: list[tuple[Metrics, Metrics]]) -> Metrics:
    """From slices with scrapes and without, what `paired` says, and the medians of what each pair differs by."""
    metrics = paired(pairs)
    metrics["times_without"] = statistics.median(
        of_one["cpu_us_per_request"] / other["cpu_us_per_request"] for of_one, other in pairs)
    metrics["throughput_times_without"] = statistics.median(
        of_one["requests_per_second"] / other["requests_per_second"] for of_one, other in pairs)
    metrics["us_per_scrape"] = statistics.median(
        (of_one["cpu_us_per_request"] - other["cpu_us_per_request"]) * of_one["requests_per_second"]
        / of_one["scrapes_per_second"] for of_one, other in pairs)
    return metrics


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


def private_bytes_each(running: Running, count: int, descriptors_each: int, open_one: Callable[[int], object],
                       slack: int = DESCRIPTORS_SLACK) -> Metrics:
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
        wait_for_descriptors(running, descriptors + count * descriptors_each - slack)
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
        site = bench.origin.plain

        def open_one(index: int):
            client = load.Client(running.port, load.source_address(index))
            if one_request:
                client.get(running.target(site, "/1k"), site.authority)
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


def idle_intercepted(bench, running: Running) -> Metrics:
    """Clients that have done one exchange inside a tunnel that the proxy decrypts."""
    running.check_tunnel(secure=True)
    site = bench.origin.secure

    def open_one(index: int):
        client = load.Client(running.port, load.source_address(index))
        client.connect_tunnel(site.authority)
        client.start_tls(running.tunnel_ca(), site.host)
        client.get("/1k", site.authority)
        return client.socket

    return private_bytes_each(running, min(IDLE_INTERCEPTED, bench.descriptors_max - DESCRIPTORS_RESERVED), 1, open_one)


def idle_origins(bench, running: Running) -> Metrics:
    """Connections to TLS origins, each to another host, that are kept for the next request; no client is left."""
    running.check(secure=True)
    numbers = itertools.count(1)

    def open_one(_index: int):
        site = replace(bench.origin.secure, host=numbered_host(next(numbers)))
        with load.Client(running.port) as client:
            client.get(running.target(site, "/1k"), site.authority)
        return client.socket

    count = min(IDLE_ORIGINS, bench.descriptors_max - DESCRIPTORS_RESERVED)
    return private_bytes_each(running, count, 1, open_one, DESCRIPTORS_SLACK_ORIGINS)


def idle_process(bench, running: Running) -> Metrics:
    """A process that is ready and has served nothing."""
    time.sleep(START_SETTLE_SECONDS)
    running.must_be_alive()
    memory = running.memory()
    return {"pss_mb": memory.proportional / 1e6, "rss_mb": memory.resident / 1e6}


# Allocations ----------------------------------------------------------------------------------------------------------


def allocations_of(path: str, size: int, *, close: bool = False, secure: bool = False,
                   fields: dict[str, str] = load.NO_FIELDS):
    """Heap allocations a request, in the steady state: of connections that were used before, or, with `close`, of a
    proxy that has served such connections before."""

    def count_allocations(bench, running: Running) -> Metrics:
        exchanges = max(1, min(ALLOCATION_EXCHANGES, ALLOCATION_BYTES_MAX // ALLOCATION_CONNECTIONS // size))
        warm_up = min(ALLOCATION_WARM_UP, exchanges)
        site = bench.origin.site(secure=secure)
        target = running.target(site, path)

        def exchange_on_new(rounds: int):
            for _ in range(rounds * ALLOCATION_CONNECTIONS):
                with load.Client(running.port) as client:
                    client.get(target, site.authority, close=True, fields=fields)

        clients = [] if close else [load.Client(running.port) for _ in range(ALLOCATION_CONNECTIONS)]

        def exchange_on_kept(rounds: int):
            for _ in range(rounds):
                for client in clients:
                    client.get(target, site.authority, fields=fields)

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
            bars=(Bar("private_bytes_each", 1024, sense=Sense.BELOW),)),
        Row("idle-client-silent", "idle clients that have sent nothing", idle_clients(one_request=False),
            "private_bytes_each", proxies=("sallyport", "haproxy", "squid"), counts_only=True,
            bars=(Bar("private_bytes_each", 1024, sense=Sense.BELOW),)),
        Row("idle-tunnel", "idle CONNECT tunnels", idle_tunnels, "private_bytes_each",
            proxies=("sallyport", "squid"), baseline="squid", counts_only=True,
            bars=(Bar("private_bytes_each", 2048, sense=Sense.BELOW),)),
        Row("idle-process", "a process that has served nothing", idle_process, "pss_mb",
            proxies=("sallyport", "haproxy", "squid", "tinyproxy", "pump"), counts_only=True,
            bars=(Bar("pss_mb", 9, sense=Sense.BELOW),)),
        Row("rules-10000", "1 KiB responses under a policy of 10,000 hosts", requests_of("/1k"), "cpu_us_per_request",
            proxies=("sallyport-rules-10", "sallyport-rules-10000"), baseline="sallyport-rules-10",
            bars=(Bar("cpu_us_per_request", 2.0, "sallyport-rules-10", subject="sallyport-rules-10000"),)),
        Row("tls-origin-1k", "1 KiB from an origin that speaks TLS and is verified, kept alive",
            requests_of("/1k", secure=True), "cpu_us_per_request", proxies=ORIGINATION, baseline="haproxy-tls",
            bars=(Bar("cpu_us_per_request", 1.0, "haproxy-tls", subject="sallyport-tls"),),
            allocations=allocations_of("/1k", 1024, secure=True)),
        Row("tls-origin-64k", "64 KiB from an origin that speaks TLS and is verified, kept alive",
            requests_of("/64k", secure=True), "cpu_us_per_request", proxies=ORIGINATION, baseline="haproxy-tls",
            bars=(Bar("cpu_us_per_request", 1.0, "haproxy-tls", subject="sallyport-tls"),),
            allocations=allocations_of("/64k", 64 * 1024, secure=True)),
        Row("verify-tunnel", "a tunnel with TLS and one request of 1 KiB inside, verified and not",
            tunnels_of("/1k", secure=True, close=True), "cpu_us_per_request",
            proxies=("sallyport-tls", "sallyport-verify"), baseline="sallyport-tls",
            bars=(Bar("cpu_us_per_request", 1.1, "sallyport-tls", subject="sallyport-verify"),)),
        Row("intercept-1k", "1 KiB responses inside intercepted tunnels, kept alive", tunnels_of("/1k", secure=True),
            "cpu_us_per_request", proxies=INTERCEPTION, baseline="squid-peek",
            bars=(Bar("cpu_us_per_request", 0.6, "squid-peek", subject="sallyport-intercept"),)),
        Row("intercept-close-1k", "1 KiB responses, one intercepted tunnel each",
            tunnels_of("/1k", secure=True, close=True), "cpu_us_per_request", proxies=INTERCEPTION,
            baseline="squid-peek",
            bars=(Bar("cpu_us_per_request", 0.4, "squid-peek", subject="sallyport-intercept"),
                  Bar("cpu_us_per_request", 1.0, "squid-bump", subject="sallyport-intercept"))),
        # Two full handshakes with OpenSSL are most of it, whoever does them: the second bar is what is left to be saved.
        Row("intercept-new-host", "hosts never seen before, intercepted: time to the response, one after another",
            new_hosts, "p50_us", proxies=(*INTERCEPTION, "haproxy-handshakes"), baseline="squid-peek",
            bars=(Bar("p50_us", 0.2, "squid-peek", subject="sallyport-intercept"),
                  Bar("p50_us", 1.25, "haproxy-handshakes", subject="sallyport-intercept"))),
        Row("idle-origin", "idle pooled connections to TLS origins, each to a host of its own", idle_origins,
            "private_bytes_each", proxies=("sallyport-tls", "haproxy-tls-hosts", "squid-bump"),
            baseline="haproxy-tls-hosts", counts_only=True,
            bars=(Bar("private_bytes_each", 24 * 1024, subject="sallyport-tls", sense=Sense.BELOW),)),
        Row("idle-intercepted", "idle intercepted clients that have done one exchange", idle_intercepted,
            "private_bytes_each", proxies=INTERCEPTION, baseline="squid-peek", counts_only=True,
            bars=(Bar("private_bytes_each", 16 * 1024, subject="sallyport-intercept", sense=Sense.BELOW),)),
        # How much of a full load it takes depends on how much of a CPU there is, what one costs does not: the bar is 2 %
        # of one for each hundred.
        Row("scrapes-1000", "1 KiB responses while /metrics is scraped 1,000 times a second: against the same without",
            scraped("/1k"), "us_per_scrape", proxies=("sallyport",), baseline=None,
            bars=(Bar("us_per_scrape", 200),)),
        Row("history-1k", "1 KiB responses with a history: against the same without", recorded("/1k"), "times_without",
            proxies=("sallyport-history",), without="sallyport", baseline=None,
            bars=(Bar("times_without", 1.25, subject="sallyport-history"),
                  Bar("loops_times_without", 1.03, subject="sallyport-history"))),
        Row("json-check-90k", "a JSON document of 90 KB, checked: against the same rule without a serializer",
            extra_of(API_DOCUMENT, Running.check_documents, content=API_DOCUMENT), "extra_gb_per_second",
            proxies=("sallyport-json",), without="sallyport-rule", baseline=None,
            bars=(Bar("extra_gb_per_second", 1, subject="sallyport-json", sense=Sense.AT_LEAST),)),
        Row("nulls-90k", "the same document, every tenth value of which is a null that is removed",
            extra_of(API_DOCUMENT, Running.check_documents, content=API_DOCUMENT), "extra_gb_per_second",
            proxies=("sallyport-nulls",), without="sallyport-rule", baseline=None,
            bars=(Bar("extra_gb_per_second", 0.3, subject="sallyport-nulls", sense=Sense.AT_LEAST),)),
        # For the record: inflating is most of it, and no bar speaks of that.
        Row("json-check-90k-gzip", "the same document in gzip, decoded and checked, and sent on as it came",
            extra_of(API_DOCUMENT_GZIP, Running.check_documents, content=API_DOCUMENT), "extra_gb_per_second",
            proxies=("sallyport-json",), without="sallyport-rule", baseline=None),
        Row("header-rules-1k", "1 KiB responses under header rules: against the same rule without them",
            extra_of(API_1K, Running.check_fields, fields=load.FIELDS), "extra_us_per_request",
            proxies=("sallyport-headers",), without="sallyport-rule", baseline=None,
            bars=(Bar("extra_us_per_request", 1, subject="sallyport-headers", sense=Sense.BELOW),
                  Bar("allocations_per_request", 0, subject="sallyport-headers")),
            allocations=allocations_of(API_1K, 1024, fields=load.FIELDS)),
        Row("query-parameter-1k", "1 KiB responses with a parameter for the query: against the same rule without it",
            extra_of(API_1K, Running.check_fields, fields=load.FIELDS), "extra_us_per_request",
            proxies=("sallyport-parameter",), without="sallyport-rule", baseline=None,
            bars=(Bar("extra_us_per_request", 1, subject="sallyport-parameter", sense=Sense.BELOW),),
            allocations=allocations_of(API_1K, 1024, fields=load.FIELDS)),
        Row("routes-1k", "1 KiB responses under a rule with `when` and three routes: against the same rule without them",
            extra_of(API_1K, Running.check_fields, fields=load.FIELDS), "times_without",
            proxies=("sallyport-routes",), without="sallyport-rule", baseline=None,
            bars=(Bar("times_without", 1.03, subject="sallyport-routes"),),
            allocations=allocations_of(API_1K, 1024, fields=load.FIELDS)),
        Row("users-1k", "one request a connection under a rule with `users`: against the same rule without it",
            extra_of(API_1K, Running.check_fields, fields=load.FIELDS, close=True), "extra_us_per_request",
            proxies=("sallyport-users",), without="sallyport-rule", baseline=None,
            bars=(Bar("extra_us_per_request", 5, subject="sallyport-users"),)),
    ]
}
