#!/usr/bin/env python3
"""What a stored answer costs: CPU a hit and a stored miss, against nginx, Squid, Varnish and Traffic Server in the same run.

    python3 Tests/Bench/cache_bench.py                         # every row, five rounds of three seconds
    python3 Tests/Bench/cache_bench.py --rounds 3 --rows hit-1k,disk-10m --before OLD_BINARY --json result.json

One program runs at a time, with one thread for requests, bound to CPU 0; nginx, the origin, and wrk are on CPU 1. In each round
every subject of a row is started anew, warmed up and timed, the order rotates, and the median of all rounds is what counts. The
CPU is that of the program and all that it started. Everyone writes one line a request to a file: for Varnish, varnishncsa does,
whose CPU is counted; `varnish-unlogged` is the same without. A program that is not installed, or does not start, is named.

Rows: `hit-1k` a stored answer of 1 KiB out of memory; `pass-1k` the same without a store, which is our own miss; `disk-10m` one of
10 MiB out of files; `miss-1k`, `miss-64k` a URL that was never asked for before, by a rule without a store, with one in memory,
and with one in a directory; `rule-1k` a rule without [rule.cache], with and without [cache] in the file, and by --before.

Exit status: 0 every bar is kept, 1 one is not or something failed, 2 wrong usage. Needs nginx and wrk. Standard library only.
"""

import argparse
import http.client
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

import measure
import processes
from processes import HOST, BenchError, Child
from proxies import SQUID_SERVICE, remove_shared_memory

SOURCES = pathlib.Path(__file__).resolve().parent
PROXY_CPU, LOAD_CPU = 0, 1
CONNECTIONS = 16
WARM_UP_SECONDS = 1
SIZES = {"1k": 1 << 10, "64k": 64 << 10, "10m": 10 << 20}
# Where Debian keeps Traffic Server's configuration.
TRAFFICSERVER_DEFAULTS = pathlib.Path("/etc/trafficserver")
# Of the proxy's CPU, by others, from which on a figure is marked.
OTHERS_PERCENT_MAX = 5.0

# Sends GET for one URL, or for a new one each time where BENCH_UNIQUE is a word that no run had before.
SCRIPT = """
local target, host, unique = os.getenv("BENCH_TARGET"), os.getenv("BENCH_HOST"), os.getenv("BENCH_UNIQUE")
local count = 0
wrk.path = target
wrk.headers["Host"] = host
if unique then
  function request()
    count = count + 1
    return "GET " .. target .. "?" .. unique .. count .. " HTTP/1.1\\r\\nHost: " .. host .. "\\r\\n\\r\\n"
  end
end
function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format('BENCH {"requests":%d,"bytes":%d,"seconds":%.6f,"errors":%d}', summary.requests, summary.bytes,
    summary.duration / 1e6, errors.connect + errors.write + errors.status + errors.timeout + errors.read))
end
"""


@dataclass(frozen=True)
class Subject:
    """A program in a configuration. `start(directory, port, origin port, log)` returns the commands that make it up, the first of
    which listens."""

    name: str
    program: str | None
    start: object
    forward: bool = True
    prints_line: bool = False
    stores: bool = True


def sallyport(cache: str = "", rule: str = "", binary: str | None = None):
    def start(directory, port, origin, log):
        configuration = directory / "sallyport.toml"
        table = cache.replace("DIRECTORY", str(directory / "store"))
        configuration.write_text(f'[proxy]\nlisten = ["{HOST}:{port}"]\nworkers = 1\n{table}\n[[rule]]\nname = "kept"\n'
                                 f'schemes = ["http"]\n{rule}\n')
        return [[binary or "BINARY", "run", "--config", str(configuration)]]

    return start


def nginx(directory, port, origin, log):
    user = "user root;" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(f"""
        daemon off; worker_processes 1; {user} pid {directory}/pid; error_log stderr error;
        events {{ worker_connections 1024; }}
        http {{
          proxy_cache_path {directory}/store levels=1:2 keys_zone=kept:64m max_size=8g inactive=1d use_temp_path=off;
          access_log {log}; keepalive_requests 100000000; sendfile on; tcp_nopush on;
          upstream origin {{ server {HOST}:{origin}; keepalive 32; }}
          server {{
            listen {HOST}:{port};
            location / {{
              proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_cache kept;
              proxy_cache_key $uri$is_args$args; add_header X-Cache $upstream_cache_status;
            }}
          }}
        }}""")
    return [[processes.find("nginx"), "-p", str(directory), "-c", str(directory / "nginx.conf")]]


def squid(directory, port, origin, log):
    (directory / "squid.conf").write_text(f"""
http_port {HOST}:{port}
http_access allow all
workers 1
cache_mem 256 MB
maximum_object_size_in_memory 16 MB
access_log stdio:{log} squid
cache_log {directory}/cache.log
pid_filename none
coredump_dir {directory}
netdb_filename none
pinger_enable off
logfile_rotate 0
dns_nameservers {HOST}
url_rewrite_extras "%>a"
store_id_extras "%>a"
shutdown_lifetime 0 seconds
""")
    return [[processes.find("squid"), "-N", "-d1", "-n", SQUID_SERVICE, "-f", str(directory / "squid.conf")]]


def varnish(logged: bool):
    def start(directory, port, origin, log):
        vcl = directory / "default.vcl"
        vcl.write_text(f'vcl 4.1;\nbackend default {{ .host = "{HOST}"; .port = "{origin}"; }}\n')
        place = str(directory / "varnish")
        commands = [[processes.find("varnishd"), "-F", "-j", "none", "-a", f"{HOST}:{port}", "-f", str(vcl), "-s", "malloc,256m", "-n", place,
                     "-p", "thread_pools=1", "-p", "thread_pool_min=20"]]
        if logged:
            commands.append([processes.find("varnishncsa"), "-n", place, "-w", str(log), "-t", "20"])
        return commands

    return start


def trafficserver(directory, port, origin, log):
    root = directory / "ats"
    places = root / "etc"
    shutil.copytree(TRAFFICSERVER_DEFAULTS, places)
    for name in ("run", "log", "cache"):
        (root / name).mkdir()
    below = {"sysconfdir": places, "datadir": root, "runtimedir": root / "run", "logdir": root / "log", "cachedir": root / "cache",
             "localstatedir": root}
    system = {"prefix": "/usr", "exec_prefix": "/usr", "bindir": "/usr/bin", "sbindir": "/usr/sbin", "includedir": "/usr/include",
              "libdir": "/usr/lib/trafficserver", "libexecdir": "/usr/lib/trafficserver/modules"}
    (root / "runroot.yaml").write_text("".join(f"{name}: {place}\n" for name, place in (system | below).items()))
    configuration = places / "records.config"
    configuration.write_text(f"""
CONFIG proxy.config.http.server_ports STRING {port}
CONFIG proxy.config.exec_thread.autoconfig.enabled INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.cache.ram_cache.size INT 268435456
CONFIG proxy.config.http.cache.http INT 1
CONFIG proxy.config.log.logging_enabled INT 3
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.http.cache.required_headers INT 1
CONFIG proxy.config.url_remap.remap_required INT 1
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 600
""")
    for name, text in {
        "remap.config": f"map / http://{HOST}:{origin}/\n",
        "storage.config": f"{root}/cache 256M\n",
        "logging.yaml": "logging:\n  formats:\n  - name: squid\n    format: '%<cqtq> %<ttms> %<chi> %<crc>/%<pssc> %<psql> %<cqhm> %<pquc>"
                        " %<caun> %<phr>/%<pqsn> %<psct>'\n  logs:\n  - filename: squid\n    format: squid\n    mode: ascii\n",
    }.items():
        (places / name).write_text(text)
    # As root it would be another user otherwise, who need not be able to write here.
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    return [[processes.find("traffic_server"), f"--run-root={root}"]]


MEMORY = '[cache]\nmemory = "256MiB"'
DISK = '[cache]\nmemory = "16MiB"\ndirectory = "DIRECTORY"\ndisk = "8GiB"'
KEPT = "[rule.cache]"

OURS = Subject("sallyport", None, sallyport(MEMORY, KEPT), prints_line=True)
PLAIN = Subject("sallyport, no store", None, sallyport(), prints_line=True, stores=False)
ON_DISK = Subject("sallyport, on disk", None, sallyport(DISK, KEPT), prints_line=True)
BESIDE = Subject("sallyport, rule without", None, sallyport(MEMORY, ""), prints_line=True, stores=False)
NGINX = Subject("nginx", "nginx", nginx, forward=False)
PEERS = [NGINX, Subject("squid", "squid", squid), Subject("varnish", "varnishd", varnish(True), forward=False),
         Subject("varnish, unlogged", "varnishd", varnish(False), forward=False),
         Subject("trafficserver", "traffic_server", trafficserver, forward=False)]


@dataclass(frozen=True)
class Row:
    name: str
    size: str
    subjects: list[Subject]
    is_unique: bool = False
    per_gigabyte: bool = False


def rows(before: str | None) -> list[Row]:
    old = [Subject("sallyport, before", None, sallyport(binary=before), prints_line=True, stores=False)] if before else []
    return [
        Row("hit-1k", "1k", [OURS, *PEERS, PLAIN]),
        Row("disk-10m", "10m", [ON_DISK, NGINX], per_gigabyte=True),
        Row("miss-1k", "1k", [PLAIN, OURS, ON_DISK, NGINX], is_unique=True),
        Row("miss-64k", "64k", [PLAIN, OURS, ON_DISK, NGINX], is_unique=True),
        Row("rule-1k", "1k", [PLAIN, BESIDE, *old]),
    ]


class Bench:
    def __init__(self, options, directory: pathlib.Path):
        self.options, self.directory, self.number = options, directory, 0
        self.origin_port = processes.free_port()
        self._start_origin()
        self.script = directory / "load.lua"
        self.script.write_text(SCRIPT)

    def _start_origin(self):
        root = self.directory / "files"
        root.mkdir()
        for name, size in SIZES.items():
            (root / name).write_bytes(os.urandom(size))
        user = "user root;" if os.geteuid() == 0 else ""
        (self.directory / "origin.conf").write_text(f"""
            daemon off; worker_processes 1; {user} pid {self.directory}/origin.pid; error_log stderr error;
            events {{ worker_connections 1024; }}
            http {{
              access_log off; keepalive_requests 100000000; sendfile off; default_type application/octet-stream;
              server {{ listen {HOST}:{self.origin_port}; root {root}; add_header Cache-Control max-age=86400;
                        add_header X-Answer "$connection $connection_requests"; }}
            }}""")
        command = [processes.find("nginx"), "-p", str(self.directory), "-c", str(self.directory / "origin.conf")]
        self.origin = Child("the origin", command, cpu=LOAD_CPU, output=self.directory / "origin.err")
        self.origin.wait_for_port(self.origin_port)

    def measured(self, row: Row, subject: Subject) -> dict:
        self.number += 1
        directory = self.directory / f"run{self.number}"
        directory.mkdir()
        log = directory / "log"
        for path, mode in ((directory, 0o777), (log, 0o666)):
            path.touch() if path == log else None
            path.chmod(mode)
        port = processes.free_port()
        children = []
        try:
            for command in subject.start(directory, port, self.origin_port, log):
                command = [str(self.options.binary) if word == "BINARY" else word for word in command]
                first = not children
                children.append(Child(subject.name, command, cpu=PROXY_CPU, output=log if subject.prints_line else directory / "said",
                                      directory=directory, read_stdout=first and subject.prints_line))
                if first:
                    children[0].wait_for_line() if subject.prints_line else children[0].wait_for_port(port)
            self._load(row, subject, port, WARM_UP_SECONDS)
            if not row.is_unique:
                self._check(row, subject, port)
            pids = [child.pid for child in children]
            busy, before, began = measure.busy_ns(PROXY_CPU), sum(map(measure.cpu_ns, pids)), time.monotonic()
            done = self._load(row, subject, port, self.options.seconds)
            used, lasted = sum(map(measure.cpu_ns, pids)) - before, time.monotonic() - began
            others = measure.busy_ns(PROXY_CPU) - busy - used
        finally:
            for child in reversed(children):
                child.stop()
            remove_shared_memory()
            shutil.rmtree(directory, ignore_errors=True)
        if done["errors"] > done["requests"] / 1000 or not done["requests"]:
            raise BenchError(f"{subject.name}: {done['errors']} errors in {done['requests']} requests")
        figure = used / done["bytes"] if row.per_gigabyte else used / done["requests"] / 1000
        return {"figure": figure, "per_second": done["requests"] / done["seconds"], "others": max(0, others) / lasted / 1e7}

    def _check(self, row: Row, subject: Subject, port: int):
        """That it is answered from the store, or is not: the origin numbers its answers."""
        seen = set()
        for _ in range(2):
            connection = http.client.HTTPConnection(HOST, port, timeout=30)
            authority = f"{HOST}:{self.origin_port}"
            connection.request("GET", f"http://{authority}/{row.size}" if subject.forward else f"/{row.size}", headers={"Host": authority})
            answer = connection.getresponse()
            if answer.status != 200 or len(answer.read()) != SIZES[row.size]:
                raise BenchError(f"{subject.name}: {answer.status} of another length than {SIZES[row.size]}")
            seen.add(answer.headers["X-Answer"])
            connection.close()
        if (len(seen) == 1) != subject.stores:
            raise BenchError(f"{subject.name} {'stores nothing' if subject.stores else 'stores'}: its answers were the origin's {seen}")

    def _load(self, row: Row, subject: Subject, port: int, seconds: int) -> dict:
        authority = f"{HOST}:{self.origin_port}"
        environment = {"BENCH_TARGET": f"http://{authority}/{row.size}" if subject.forward else f"/{row.size}", "BENCH_HOST": authority}
        if row.is_unique:
            environment["BENCH_UNIQUE"] = f"{self.number}-{time.monotonic_ns()}-"
        text = processes.run(
            "wrk", [processes.find("wrk"), "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s", "-s", str(self.script),
                    f"http://{HOST}:{port}/"],
            cpu=LOAD_CPU, output=self.directory / "wrk.err", seconds_max=seconds + 60, environment=environment)
        for line in text.splitlines():
            if line.startswith("BENCH "):
                return json.loads(line.removeprefix("BENCH "))
        raise BenchError(f"wrk printed no BENCH line, but: {processes.tail(text)}")


def medians(bench: Bench, row: Row, options) -> dict[str, dict]:
    runs: dict[str, list[dict]] = {subject.name: [] for subject in row.subjects}
    absent: dict[str, str] = {}
    for number in range(options.rounds):
        turn = number % len(row.subjects)
        for subject in row.subjects[turn:] + row.subjects[:turn]:
            if subject.name in absent:
                continue
            if subject.program and not processes.find(subject.program):
                absent[subject.name] = f"{subject.program} is not installed"
                continue
            try:
                runs[subject.name].append(bench.measured(row, subject))
            except BenchError as error:
                absent[subject.name] = str(error)
    result = {}
    for name, several in runs.items():
        if name in absent or not several:
            result[name] = {"absent": absent.get(name, "no run")}
        else:
            result[name] = {key: statistics.median(each[key] for each in several) for key in several[0]}
            result[name]["all"] = [round(each["figure"], 3) for each in several]
    return result


def verdicts(results: dict) -> list[tuple[str, bool]]:
    """The bars that were measured."""
    found = []

    def figure(row: str, name: str) -> float | None:
        return results.get(row, {}).get(name, {}).get("figure")

    def hold(sentence: str, value: float | None, limit: float | None):
        if value is not None and limit is not None:
            found.append((f"{sentence}: {value:.3f} ≤ {limit:.3f}", value <= limit))

    for peer in ("nginx", "squid", "varnish", "trafficserver"):
        hold(f"a hit costs at most that of {peer}", figure("hit-1k", "sallyport"), figure("hit-1k", peer))
    passes = figure("hit-1k", "sallyport, no store")
    hold("a hit costs at most 0.6 of a miss", figure("hit-1k", "sallyport"), passes and 0.6 * passes)
    hold("10 MiB from disk, s of CPU a GB", figure("disk-10m", "sallyport, on disk"), 0.35)
    for row in ("miss-1k", "miss-64k"):
        plain = figure(row, "sallyport, no store")
        for kind in ("sallyport", "sallyport, on disk"):
            hold(f"{row}, {kind}: storing adds at most a quarter", figure(row, kind), plain and 1.25 * plain)
    plain = figure("rule-1k", "sallyport, no store")
    hold("a rule without a store costs what it did (5 %)", figure("rule-1k", "sallyport, rule without"), plain and 1.05 * plain)
    before = figure("rule-1k", "sallyport, before")
    hold("and what it did before (5 %)", plain, before and 1.05 * before)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", type=pathlib.Path, default=SOURCES.parent.parent / ".build/release/sallyport")
    parser.add_argument("--before", help="another binary, to compare a rule without a store with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rows", help="some of them, with commas between")
    parser.add_argument("--directory", type=pathlib.Path, help="where files are; a temporary directory")
    parser.add_argument("--priority", type=int, default=0, help="of all that is started (nice); below 0 takes root")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    wanted = options.rows.split(",") if options.rows else None
    chosen = [row for row in rows(options.before) if wanted is None or row.name in wanted]
    missing = [name for name in ("nginx", "wrk") if not processes.find(name)] + ([] if options.binary.exists() else [str(options.binary)])
    if missing or not chosen:
        parser.error(f"not there: {', '.join(missing) or options.rows}")
    processes.raise_on_signals()
    processes.set_priority(options.priority)
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f}; {options.rounds} rounds of {options.seconds} s")
    results = {}
    with tempfile.TemporaryDirectory(prefix="cache-bench-", dir=options.directory) as directory:
        pathlib.Path(directory).chmod(0o755)
        bench = Bench(options, pathlib.Path(directory))
        try:
            for row in chosen:
                results[row.name] = medians(bench, row, options)
                show(row, results[row.name])
        finally:
            bench.origin.stop()
    kept = True
    for sentence, holds in verdicts(results):
        print(f"{'kept' if holds else 'BROKEN':7} {sentence}")
        kept &= holds
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    return 0 if kept else 1


def show(row: Row, result: dict):
    unit = "s/GB" if row.per_gigabyte else "µs/req"
    print(f"\n{row.name}, CPU {unit}")
    for name, figures in result.items():
        if "absent" in figures:
            print(f"  {name:26} absent: {figures['absent']}")
        else:
            mark = f"   others had {figures['others']:.0f} % of its CPU" if figures["others"] > OTHERS_PERCENT_MAX else ""
            print(f"  {name:26} {figures['figure']:9.3f}  {figures['per_second']:9.0f} req/s  {figures['all']}{mark}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"cache_bench: {error}")
