#!/usr/bin/env python3
"""What a request of HTTP/2 costs: CPU through interception, against our own HTTP/1.1, HAProxy, nginx and mitmproxy in one run.

    python3 Tests/Bench/h2_bench.py                            # every row, three rounds of three seconds
    python3 Tests/Bench/h2_bench.py --rows h2-1k --rounds 5 --mitmdump /path/to/mitmdump

h2load asks, nginx answers by HTTP/1.1 over TLS, and each proxy verifies it. All are reached through socat, which
opens the tunnels of the forward proxies; HAProxy and nginx end the client's TLS themselves, and have the same relay before them,
as how requests arrive makes half of what one costs. One proxy runs at a time, with one thread for requests, on
CPU 0; everything else is on CPU 1. Each subject is started anew in each round, warmed up and timed; medians count. The CPU is
the proxy's alone. Everyone writes one line a request to a file.

Rows: `h2-1k` 1 KiB, 16 connections with one request at a time; `streams-1k` 100 requests at a time on one connection, against 100
connections of HTTP/1.1; `h2-10m` 10 MiB, four connections; `idle` is no time but memory: private KiB of a client that has asked
once and waits, over HTTP/2 and over HTTP/1.1, whose difference is what HTTP/2 adds to a connection with its TLS.

Exit status: 0 every bar is kept, 1 one is not or something failed. Needs h2load, socat and nginx.
"""

import argparse
import os
import pathlib
import re
import shutil
import socket
import ssl
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass

import measure
import processes
from certificates import ORIGIN_NAME, Certificates
from processes import HOST, BenchError, Child

SOURCES = pathlib.Path(__file__).resolve().parent
PROXY_CPU, LOAD_CPU = 0, 1
WARM_UP_SECONDS = 1
SIZES = {"1k": 1 << 10, "10m": 10 << 20}
IDLE_CLIENTS = 300
IDLE_KIB_MAX = 16
# Longer than what a connection keeps for a next request at once.
IDLE_SECONDS = 3
# Preface, empty SETTINGS; GET / on stream 1 but for its authority (HPACK: three of the static table, a literal after that).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
GET = b"\x82\x87\x04\x03/1k\x01"
END_STREAM = 1


@dataclass(frozen=True)
class Subject:
    name: str
    start: object
    clients: int
    streams: int = 1
    http1: bool = False
    tunnels: bool = True
    prints_line: bool = False
    # mitmproxy resolves no name below .localhost; the certificate is still looked at for the name that the client gives.
    destination: str = ORIGIN_NAME


def sallyport(bench, directory, port, log):
    configuration = directory / "sallyport.toml"
    configuration.write_text(
        f'[proxy]\nlisten = ["{HOST}:{port}"]\nworkers = 1\n[trust]\nanchors = "{bench.certificates.ca}"\n'
        f'[authority]\ndirectory = "{bench.certificates.authority_directory}"\n'
        '[[rule]]\nname = "read"\nconnect = "intercept"\n[rule.security]\nprofile = "private"\n')
    return [str(bench.options.binary), "run", "--config", str(configuration)]


def haproxy(bench, directory, port, log):
    (directory / "haproxy.cfg").write_text(f"""
global
  nbthread 1
  log stdout len 2048 format raw local0
defaults
  mode http
  log global
  option httplog
  timeout client 60s
  timeout server 60s
  timeout connect 5s
frontend clients
  bind {HOST}:{port} ssl crt {bench.stand_in} alpn h2,http/1.1
  default_backend origin
backend origin
  http-reuse always
  server origin {HOST}:{bench.origin_port} ssl verify required ca-file {bench.certificates.ca} sni str({ORIGIN_NAME}) verifyhost {ORIGIN_NAME}
""")
    return [processes.find("haproxy"), "-W", "-db", "-f", str(directory / "haproxy.cfg")]


def nginx(bench, directory, port, log):
    user = "user root;" if os.geteuid() == 0 else ""
    (directory / "nginx.conf").write_text(f"""
        daemon off; worker_processes 1; {user} pid {directory}/pid; error_log stderr error;
        events {{ worker_connections 1024; }}
        http {{
          access_log {log}; keepalive_requests 100000000; proxy_buffering on;
          upstream origin {{ server {HOST}:{bench.origin_port}; keepalive 128; }}
          server {{
            listen {HOST}:{port} ssl http2;
            ssl_certificate {bench.certificates.origin}; ssl_certificate_key {bench.certificates.origin_key};
            location / {{
              proxy_pass https://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
              proxy_ssl_verify on; proxy_ssl_trusted_certificate {bench.certificates.ca}; proxy_ssl_name {ORIGIN_NAME};
              proxy_ssl_server_name on; proxy_max_temp_file_size 0;
            }}
          }}
        }}""")
    return [processes.find("nginx"), "-p", str(directory), "-c", str(directory / "nginx.conf")]


def mitmproxy(bench, directory, port, log):
    return [str(bench.options.mitmdump), "--listen-host", HOST, "--listen-port", str(port), "--set", f"confdir={directory}",
            "--set", f"ssl_verify_upstream_trusted_ca={bench.certificates.ca}", "--set", "flow_detail=1"]


def rows(options) -> dict[str, tuple[str, list[Subject]]]:
    def all_of(clients: int) -> list[Subject]:
        subjects = [
            Subject("sallyport", sallyport, clients, prints_line=True),
            Subject("sallyport, HTTP/1.1", sallyport, clients, http1=True, prints_line=True),
            Subject("haproxy", haproxy, clients, tunnels=False), Subject("nginx", nginx, clients, tunnels=False),
        ]
        return subjects + ([Subject("mitmproxy", mitmproxy, clients, destination=HOST)] if options.mitmdump else [])

    return {
        "h2-1k": ("1k", all_of(16)),
        "streams-1k": ("1k", [
            Subject("sallyport", sallyport, 1, streams=100, prints_line=True),
            Subject("sallyport, HTTP/1.1", sallyport, 100, http1=True, prints_line=True)]),
        "h2-10m": ("10m", [subject for subject in all_of(4) if subject.name != "mitmproxy"]),
    }


class Bench:
    def __init__(self, options, directory: pathlib.Path):
        self.options, self.directory, self.number = options, directory, 0
        self.certificates = Certificates(directory / "certificates")
        self.stand_in = directory / "haproxy.pem"
        self.stand_in.write_bytes(self.certificates.origin.read_bytes() + self.certificates.origin_key.read_bytes())
        self.origin_port = processes.free_port()
        files = directory / "files"
        files.mkdir()
        for name, size in SIZES.items():
            (files / name).write_bytes(os.urandom(size))
        user = "user root;" if os.geteuid() == 0 else ""
        (directory / "origin.conf").write_text(f"""
            daemon off; worker_processes 1; {user} pid {directory}/origin.pid; error_log stderr error;
            events {{ worker_connections 1024; }}
            http {{
              access_log off; keepalive_requests 100000000; default_type application/octet-stream;
              server {{ listen {HOST}:{self.origin_port} ssl; root {files};
                        ssl_certificate {self.certificates.origin}; ssl_certificate_key {self.certificates.origin_key}; }}
            }}""")
        self.origin = Child("the origin", [processes.find("nginx"), "-p", str(directory), "-c", str(directory / "origin.conf")],
                            cpu=LOAD_CPU, output=directory / "origin.err")
        self.origin.wait_for_port(self.origin_port)

    def measured(self, size: str, subject: Subject) -> float:
        self.number += 1
        directory = self.directory / f"run{self.number}"
        directory.mkdir()
        log = directory / "log"
        log.touch()
        port, relay_port = processes.free_port(), processes.free_port()
        children = []
        try:
            proxy = Child(subject.name, subject.start(self, directory, port, log), cpu=PROXY_CPU, directory=directory,
                          output=log if subject.prints_line else directory / "said", read_stdout=subject.prints_line)
            children.append(proxy)
            proxy.wait_for_line() if subject.prints_line else proxy.wait_for_port(port)
            way = f"PROXY:{HOST}:{subject.destination}:{self.origin_port},proxyport={port}" if subject.tunnels else f"TCP:{HOST}:{port}"
            relay = Child("socat", [processes.find("socat"), f"TCP-LISTEN:{relay_port},bind={HOST},reuseaddr,fork,nodelay,backlog=512",
                                    way + ",nodelay"], cpu=LOAD_CPU, output=directory / "socat.err")
            children.append(relay)
            relay.wait_for_port(relay_port)
            self._load(subject, size, relay_port, WARM_UP_SECONDS)
            before = measure.cpu_ns(proxy.pid)
            requests = self._load(subject, size, relay_port, self.options.seconds)
            used = measure.cpu_ns(proxy.pid) - before
        finally:
            for child in reversed(children):
                child.stop()
            shutil.rmtree(directory, ignore_errors=True)
        return used / requests / 1000

    def idle(self, protocol: str) -> float:
        """Private KiB of a client that has asked once over this protocol and waits since."""
        self.number += 1
        directory = self.directory / f"run{self.number}"
        directory.mkdir()
        with Child("sallyport", sallyport(self, directory, port := processes.free_port(), None), cpu=PROXY_CPU, directory=directory,
                   output=directory / "said", read_stdout=True) as proxy:
            proxy.wait_for_line()
            # The first ones pay for what all of them use.
            clients = [self._ask_once(port, protocol) for _ in range(IDLE_CLIENTS // 10)]
            time.sleep(IDLE_SECONDS)
            before = measure.memory(proxy.pid).private
            clients += [self._ask_once(port, protocol) for _ in range(IDLE_CLIENTS)]
            time.sleep(IDLE_SECONDS)
            used = measure.memory(proxy.pid).private - before
            for client in clients:
                client.close()
        return used / IDLE_CLIENTS / 1024

    def _ask_once(self, port: int, protocol: str) -> ssl.SSLSocket:
        authority = f"{ORIGIN_NAME}:{self.origin_port}"
        raw = socket.create_connection((HOST, port), 30)
        raw.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (byte := raw.recv(1)):
                raise BenchError(f"the tunnel of an idle client ended: {head!r}")
            head += byte
        context = ssl.create_default_context(cafile=self.certificates.authority)
        context.set_alpn_protocols([protocol])
        client = context.wrap_socket(raw, server_hostname=ORIGIN_NAME)
        answer = client.makefile("rb")
        if protocol == "h2":
            block = GET + bytes([len(authority)]) + authority.encode()
            client.sendall(PREFACE + len(block).to_bytes(3, "big") + b"\1\5\0\0\0\1" + block)
            kind, flags = None, 0
            while kind != 0 or not flags & END_STREAM:
                length, kind, flags = int.from_bytes(answer.read(3), "big"), *answer.read(6)[:2]
                answer.read(length)
        else:
            client.sendall(f"GET /1k HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
            while answer.readline().strip():
                pass
            answer.read(SIZES["1k"])
        return client

    def _load(self, subject: Subject, size: str, port: int, seconds: int) -> int:
        command = [processes.find("h2load"), f"--duration={seconds}", f"-c{subject.clients}", f"-m{subject.streams}", "-t1",
                   f"--connect-to={HOST}:{port}", *(["--h1"] if subject.http1 else []),
                   f"https://{ORIGIN_NAME}:{self.origin_port}/{size}"]
        text = processes.run("h2load", command, cpu=LOAD_CPU, output=self.directory / "h2load.err", seconds_max=seconds + 60)
        counts = re.search(r"requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored", text)
        statuses = re.search(r"status codes: (\d+) 2xx", text)
        if not counts or not statuses or int(counts[2]) or not int(statuses[1]):
            raise BenchError(f"{subject.name}: h2load reports {processes.tail(text)}")
        return int(statuses[1])


def verdicts(figures: dict[str, dict[str, float]]) -> list[tuple[str, bool]]:
    found = []

    def hold(row: str, peer: str, most: float, ours: str = "sallyport"):
        values = figures.get(row, {})
        if ours in values and peer in values:
            ratio = values[ours] / values[peer]
            found.append((f"{row}: {ratio:.3f} of {peer} (at most {most:.3f})", ratio <= most))

    hold("h2-1k", "sallyport, HTTP/1.1", 1.15)
    for peer in ("haproxy", "nginx"):
        hold("h2-1k", peer, 1.0)
    hold("h2-1k", "mitmproxy", 1 / 30)
    hold("streams-1k", "sallyport, HTTP/1.1", 1.0)
    hold("h2-10m", "nginx", 1.1)
    if idle := figures.get("idle"):
        added = idle["sallyport"] - idle["sallyport, HTTP/1.1"]
        found.append((f"idle: {added:.1f} KiB more than over HTTP/1.1 (at most {IDLE_KIB_MAX})", added <= IDLE_KIB_MAX))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--binary", type=pathlib.Path, default=SOURCES.parent.parent / ".build/release/sallyport")
    parser.add_argument("--mitmdump", type=pathlib.Path, default=shutil.which("mitmdump"), help="where mitmproxy's command is")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rows", help="some of them, with commas between")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    names = options.rows.split(",") if options.rows else [*rows(options), "idle"]
    chosen = {name: row for name, row in rows(options).items() if name in names}
    missing = [name for name in ("h2load", "socat", "nginx", "haproxy") if not processes.find(name)]
    if missing or not (chosen or "idle" in names) or not options.binary.exists():
        parser.error(f"not there: {', '.join(missing) or options.rows or options.binary}")
    processes.raise_on_signals()
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f}; {options.rounds} rounds of {options.seconds} s")
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="h2-bench-") as directory:
        bench = Bench(options, pathlib.Path(directory))
        try:
            for name, (size, subjects) in chosen.items():
                print(f"\n{name}, CPU µs/req")
                runs: dict[str, list[float]] = {subject.name: [] for subject in subjects}
                for number in range(options.rounds):
                    turn = number % len(subjects)
                    for subject in subjects[turn:] + subjects[:turn]:
                        runs[subject.name].append(bench.measured(size, subject))
                figures[name] = {subject: statistics.median(several) for subject, several in runs.items()}
                for subject, several in runs.items():
                    print(f"  {subject:22} {figures[name][subject]:10.1f}  {[round(each, 1) for each in several]}")
            if "idle" in names:
                print("\nidle, private KiB a client")
                for subject, protocol in (("sallyport", "h2"), ("sallyport, HTTP/1.1", "http/1.1")):
                    runs = [bench.idle(protocol) for _ in range(options.rounds)]
                    figures.setdefault("idle", {})[subject] = statistics.median(runs)
                    print(f"  {subject:22} {figures['idle'][subject]:10.1f}  {[round(each, 1) for each in runs]}")
        finally:
            bench.origin.stop()
    kept = True
    for sentence, holds in verdicts(figures):
        print(f"{'kept' if holds else 'BROKEN':7} {sentence}")
        kept &= holds
    return 0 if kept else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"h2_bench: {error}")
