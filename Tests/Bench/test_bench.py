#!/usr/bin/env python3
"""Tests of the bench itself: that its tools count right, its verdicts fall right, and nothing of it is left running.

    python3 Tests/Bench/test_bench.py     # about half a minute; needs cc, and nginx, wrk and haproxy for the last ones
"""

import collections
import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCES = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SOURCES))

import alloc_count
import bench
import documents
import load
import measure
import processes
import report
import rows
from certificates import ORIGIN_NAME, UNCOVERED_NAME, Certificates
from processes import HOST, BenchError
from rows import ROWS, SUBJECT, Bar, Row, Sense

SECONDS_MAX = 60
ALLOCATING_PROGRAM = r"""
    #define _GNU_SOURCE
    #include <malloc.h>
    #include <pthread.h>
    #include <stdatomic.h>
    #include <stdlib.h>
    static _Atomic int threads_named;
    static void *volatile sink;  // volatile, so that no call is left out by the compiler
    static void *each_kind_once(void *rounds) {
      pthread_setname_np(pthread_self(), atomic_fetch_add(&threads_named, 1) == 0 ? "first-0" : "other");
      for (long i = 0; i < (long)rounds; i++) {
        sink = malloc(10);
        sink = calloc(3, 20);
        sink = realloc(NULL, 30);
        sink = reallocarray(NULL, 4, 10);
        sink = aligned_alloc(64, 128);
        sink = memalign(64, 50);
        void *block;
        if (posix_memalign(&block, 4096, 60) != 0 || (size_t)block % 4096 != 0) abort();
        sink = block;
        free(sink);
      }
      return NULL;
    }
    int main(int count, char **arguments) {
      pthread_t threads[4];
      for (int i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, each_kind_once, (void *)atol(arguments[count - 1]))) abort();
      }
      for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    }
"""
KINDS, BYTES_OF_ALL_KINDS, THREADS = 7, 10 + 60 + 30 + 40 + 128 + 50 + 60, 4


class WithDirectory(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="sallyport-bench-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def compile(self, source: pathlib.Path, compiler: str = "cc", *flags: str) -> pathlib.Path:
        program = self.directory / f"{source.stem}-{compiler}"
        subprocess.run([compiler, *bench.COMPILER_FLAGS, *flags, "-o", program, source,
                        *bench.LIBRARIES.get(source.stem, [])], check=True, timeout=SECONDS_MAX)
        return program

    def child(self, *command, name="child") -> processes.Child:
        child = processes.Child(name, [str(part) for part in command], cpu=None, output=self.directory / "output")
        self.addCleanup(child.stop)
        return child


class CSources(WithDirectory):
    def test_every_c_source_is_clean_under_every_compiler_there_is(self):
        for compiler in filter(shutil.which, ("gcc", "clang")):
            for source in SOURCES.glob("*.c"):
                with self.subTest(compiler=compiler, source=source.name):
                    self.compile(source, compiler, *(["-shared", "-fPIC"] if source.stem == "alloc-count" else []))


class AllocationCounts(WithDirectory):
    def count(self, rounds: int, threads: str = "") -> alloc_count.Counters:
        source = self.directory / "allocating.c"
        source.write_text(ALLOCATING_PROGRAM)
        program = self.compile(source, "cc", "-pthread")
        library, counters = alloc_count.build(self.directory), self.directory / "counters"
        environment = alloc_count.environment(library, counters, threads)
        subprocess.run([program, str(rounds)], env={**os.environ, **environment}, check=True, timeout=SECONDS_MAX)
        return alloc_count.read(counters)

    def test_each_kind_of_call_is_counted_once_in_every_thread(self):
        counted = self.count(1000) - self.count(0)
        self.assertEqual(counted.calls, 1000 * KINDS * THREADS)
        self.assertEqual(counted.bytes, 1000 * BYTES_OF_ALL_KINDS * THREADS)

    def test_with_a_name_only_the_threads_of_that_name_are_counted(self):
        counted = self.count(1001, "first-") - self.count(1, "first-")
        self.assertEqual((counted.calls, counted.bytes), (1000 * KINDS, 1000 * BYTES_OF_ALL_KINDS))
        with self.assertRaisesRegex(ValueError, "nothing was counted"):
            self.count(1, "nobody")

    def test_a_program_that_was_not_counted_is_an_error_and_no_zero(self):
        alloc_count.environment("unused.so", self.directory / "counters")
        with self.assertRaisesRegex(ValueError, "nothing was counted"):
            alloc_count.read(self.directory / "counters")


class Pump(WithDirectory):
    def start(self, target_port: int) -> int:
        port = processes.free_port()
        self.child(self.compile(SOURCES / "pump.c"), port, target_port, name="pump").wait_for_port(port)
        return port

    def test_bytes_arrive_whole_and_in_order_when_the_reader_is_slow_and_the_end_is_passed_on(self):
        sent = os.urandom(16 * 1024 * 1024)  # more than all socket buffers on the way hold
        with socket.create_server((HOST, 0)) as origin:
            port = self.start(origin.getsockname()[1])
            origin.settimeout(SECONDS_MAX)
            origin.accept()[0].close()  # the one that wait_for_port made
            with socket.create_connection((HOST, port), SECONDS_MAX) as client, origin.accept()[0] as far_end:
                far_end.settimeout(SECONDS_MAX)
                received = []

                def receive():
                    time.sleep(0.3)
                    while part := far_end.recv(1 << 20):
                        received.append(part)
                    far_end.sendall(b"got it")

                reader = threading.Thread(target=receive)
                reader.start()
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                self.assertEqual(client.recv(100), b"got it")  # the other direction outlives the first one's end
                reader.join(SECONDS_MAX)
                self.assertTrue(b"".join(received) == sent, "what arrived is not what was sent")


class Tunnels(WithDirectory):
    """tunnel-load against a server of a few lines, which is proxy and origin in one."""

    hello = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nX: y\r\n\r\nhello"

    def setUp(self):
        super().setUp()
        self.program = self.compile(SOURCES / "tunnel-load.c")
        self.connects = []  # the heads of CONNECT that arrived

    def serve(self, response: bytes, tls: ssl.SSLContext | None = None) -> int:
        """The port of a server that answers CONNECT with 200, then every request with `response`, under `tls` if given."""
        server = socket.create_server((HOST, 0))
        self.addCleanup(server.close)

        def converse(connection):
            with contextlib.suppress(OSError):
                with connection:
                    while request := connection.recv(4096):
                        if request.startswith(b"CONNECT "):
                            self.connects.append(request)
                            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                            connection = tls.wrap_socket(connection, server_side=True) if tls else connection
                        else:
                            connection.sendall(response)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=converse, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return server.getsockname()[1]

    def serve_tls(self, response: bytes) -> tuple[int, pathlib.Path]:
        """The port, and the CA of the server, which has a certificate for the names of the bench's origin."""
        certificates = Certificates(self.directory / "certificates")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.origin, certificates.origin_key)
        return self.serve(response, context), certificates.ca

    def run_load(self, port: int, *options: str, **more):
        done = subprocess.run([self.program, "--proxy", str(port), "--origin", "1", "--connections", "3",
                               "--milliseconds", "300", *map(str, options)], stdout=subprocess.PIPE, text=True,
                              timeout=SECONDS_MAX, **more)
        return done.returncode, load.Load(**json.loads(done.stdout)), done.stderr

    def test_responses_are_counted_by_their_content_length(self):
        port = self.serve(self.hello)
        for options in ([], ["--direct"]):
            status, counted, _ = self.run_load(port, *options)
            self.assertEqual((status, counted.errors), (0, 0))
            self.assertGreater(counted.requests, 100)
            self.assertEqual(counted.bytes, 5 * counted.requests)
            self.assertTrue(0 < counted.p50_us <= counted.p99_us < 300_000)

    def test_with_close_each_request_has_a_tunnel_of_its_own(self):
        status, counted, _ = self.run_load(self.serve(self.hello), "--close")
        self.assertEqual((status, counted.errors), (0, 0))
        self.assertGreater(counted.requests, 10)
        # Of those that were opened last, some have no response yet.
        self.assertTrue(counted.requests <= len(self.connects) <= counted.requests + 3)

    def test_tls_inside_the_tunnel_carries_responses_of_several_records(self):
        body = os.urandom(100_000)
        port, ca = self.serve_tls(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + body)
        for options in ([], ["--close"]):
            status, counted, _ = self.run_load(port, "--ca", ca, "--host", ORIGIN_NAME, *options)
            self.assertEqual((status, counted.errors), (0, 0))
            self.assertGreater(counted.requests, 5)
            # What arrived of a response that the end of the run cut off is counted too.
            self.assertTrue(0 <= counted.bytes - 100_000 * counted.requests <= 3 * 100_000)

    def test_a_certificate_of_another_ca_or_name_is_a_failure_that_says_why(self):
        port, ca = self.serve_tls(self.hello)
        other = Certificates(self.directory / "others").ca
        for options, reason in ((["--ca", other, "--host", ORIGIN_NAME], "unable to get local issuer certificate"),
                                (["--ca", ca, "--host", UNCOVERED_NAME], "hostname mismatch")):
            with self.subTest(reason=reason):
                status, counted, said = self.run_load(port, *options, stderr=subprocess.PIPE)
                self.assertEqual((status, counted.requests), (1, 0))
                self.assertIn(reason, said)

    def test_each_of_the_hosts_is_asked_once(self):
        port, ca = self.serve_tls(self.hello)
        status, counted, _ = self.run_load(port, "--ca", ca, "--host", "bench.localhost", "--first-host", "7", "--hosts",
                                           "5", "--milliseconds", str(SECONDS_MAX * 1000))
        self.assertEqual((status, counted.requests, counted.errors), (0, 5, 0))
        names = [head.split()[1].decode() for head in self.connects]
        self.assertCountEqual(names, [f"h{number}.bench.localhost:1" for number in range(7, 12)])

    def test_answers_that_are_no_responses_end_the_run_as_a_failure(self):
        for response in (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n",
                         b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxx", b"\r\n\r\n"):
            with self.subTest(response=response):
                status, counted, _ = self.run_load(self.serve(response), stderr=subprocess.DEVNULL)
                self.assertEqual((status, counted.requests), (1, 0))


class Fields(WithDirectory):
    """Of a row of header rules: who counts allocations must send what was timed."""

    def setUp(self):
        super().setUp()
        self.heads = []
        server = socket.create_server((HOST, 0))
        self.addCleanup(server.close)
        self.port = server.getsockname()[1]

        def converse(connection):
            with contextlib.suppress(OSError), connection:
                while head := connection.recv(4096):
                    self.heads.append(head.decode())
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=converse, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

    def expect(self, fields: dict[str, str]):
        self.assertEqual({head.split("\r\n")[0] for head in self.heads}, {"GET /x HTTP/1.1"})
        expected = {"Host: there:80", *(f"{name}: {value}" for name, value in fields.items()), ""}
        self.assertEqual({line for head in self.heads for line in head.split("\r\n")[1:]}, expected)

    def test_our_client_sends_them(self):
        for fields in (load.FIELDS, load.NO_FIELDS):
            self.heads.clear()
            with load.Client(self.port) as client:
                client.get("/x", "there:80", fields=fields)
            self.expect(fields)

    @unittest.skipUnless(processes.find("wrk"), "needs wrk")
    def test_wrk_sends_them(self):
        class Running:
            port = self.port
            target = staticmethod(lambda site, path: path)

        class Bench:
            connections, load_cpu, sources, directory = 1, None, SOURCES, self.directory

        self.assertGreater(load.wrk(Bench, Running, load.Site("http", "there", 80), "/x", 1, fields=load.FIELDS).requests, 0)
        self.expect(load.FIELDS)


class Measuring(WithDirectory):
    def test_cpu_time_includes_threads_and_children_that_have_ended(self):
        burn = "t = time.thread_time()\n while time.thread_time() - t < 0.2: pass"
        script = (f"import os, threading, time\ndef burn():\n {burn}\n"
                  "thread = threading.Thread(target=burn); thread.start(); thread.join()\n"
                  "pid = os.fork()\nif pid == 0: burn(); os._exit(0)\n"
                  "os.wait(); print('done', flush=True); time.sleep(60)")
        child = processes.Child("burner", [sys.executable, "-c", script], cpu=None, output=self.directory / "output",
                                read_stdout=True)
        with child:
            self.assertEqual(child.wait_for_line(), "done")
            self.assertGreaterEqual(measure.cpu_ns(child.pid), 0.38e9)  # 0.4, less a tick and rounding
            self.assertLess(measure.cpu_ns(child.pid), 5e9)

    def test_memory_and_descriptors_are_those_of_the_whole_tree(self):
        hold = "x = b'x' * 30_000_000; f = [open('/dev/null') for _ in range(50)]"
        script = f"import os, time\nos.fork()\n{hold}\nprint('up', flush=True)\ntime.sleep(60)"
        child = processes.Child("holder", [sys.executable, "-c", script], cpu=None, output=self.directory / "output",
                                read_stdout=True)
        with child:
            child.wait_for_line(), child.wait_for_line()
            self.assertEqual(len(measure.process_tree(child.pid)), 2)
            self.assertGreaterEqual(measure.memory(child.pid).private, 60_000_000)
            self.assertGreaterEqual(measure.descriptors(child.pid), 100)


class Verdicts(unittest.TestCase):
    ratio = Bar("cpu_us_per_request", 0.5, "haproxy")
    absolute = Bar("private_bytes_each", 1024, sense=Sense.BELOW)

    def verdict(self, bar: Bar, **proxies: report.ProxyResult):
        row = Row("row", "a row", lambda *_: {}, bar.metric, bars=(bar,))
        return report.RowResult(row, proxies).verdict(bar)

    def samples(self, *values: float, metric="cpu_us_per_request", **more):
        return report.ProxyResult([{metric: value} for value in values], **more)

    def test_a_ratio_is_that_of_medians_and_may_equal_its_bar(self):
        haproxy = self.samples(20, 10, 900)
        self.assertEqual(self.verdict(self.ratio, sallyport=self.samples(1, 10, 99), haproxy=haproxy), ("PASS", 0.5, ""))
        self.assertEqual(self.verdict(self.ratio, sallyport=self.samples(11), haproxy=haproxy)[0], "FAIL")

    def test_a_bar_of_bytes_must_be_kept_below(self):
        for value, expected in ((1023, "PASS"), (1024, "FAIL")):
            sallyport = self.samples(value, metric="private_bytes_each")
            self.assertEqual(self.verdict(self.absolute, sallyport=sallyport)[0], expected)

    def test_a_bar_of_what_is_done_in_a_second_must_be_reached(self):
        bar = Bar("extra_gb_per_second", 1, sense=Sense.AT_LEAST)
        for value, expected in ((1.01, "PASS"), (1, "PASS"), (0.99, "FAIL")):
            sallyport = self.samples(value, metric="extra_gb_per_second")
            self.assertEqual(self.verdict(bar, sallyport=sallyport)[0], expected)
        self.assertEqual(bar.text(), "sallyport GB/s of extra CPU ≥ 1")

    def test_a_row_that_is_a_comparison_already_has_no_column_of_ratios(self):
        for baseline, expected in ((None, 0), ("haproxy", 1)):
            row = Row("row", "a row", lambda *_: {}, "cpu_us_per_request", baseline=baseline)
            text = report.row_text(report.RowResult(row, {"sallyport": self.samples(10), "haproxy": self.samples(20)}))
            self.assertEqual(text.count("×"), expected)
            self.assertEqual(text.count("0.50"), expected)

    def test_what_is_absent_or_not_selected_is_skipped_with_the_reason(self):
        absent = report.ProxyResult(absent="x is not built")
        verdict = self.verdict(self.ratio, sallyport=absent, haproxy=self.samples(1))
        self.assertEqual(verdict, ("SKIP", None, "x is not built"))
        self.assertEqual(self.verdict(self.ratio, sallyport=self.samples(1))[0], "SKIP")

    def test_an_error_in_one_round_is_a_failure_even_if_the_others_worked(self):
        broken = self.samples(1, errors=["it fell over"])
        self.assertEqual(self.verdict(self.ratio, sallyport=broken, haproxy=self.samples(10))[0], "FAIL")
        self.assertEqual(self.verdict(self.ratio, sallyport=self.samples(1), haproxy=broken)[0], "FAIL")

    def test_every_row_names_proxies_and_metrics_that_exist(self):
        for row in ROWS.values():
            named = {*row.proxies, row.baseline or SUBJECT, row.without or SUBJECT, *(bar.subject for bar in row.bars),
                     *(bar.against for bar in row.bars if bar.against)}
            self.assertLessEqual(named, set(bench.PROXIES), row.name)
            self.assertLessEqual({bar.subject for bar in row.bars}, set(row.proxies), row.name)
            self.assertLessEqual({row.primary, *(bar.metric for bar in row.bars)}, set(report.METRICS), row.name)

    def test_errors_and_short_responses_make_a_load_worthless(self):
        class Running:
            name = "x"

            class proxy:
                closes_unannounced = False

            def content(path):
                return {"/1k": bytes(1024)}[path]

        good = dict(requests=1000, bytes=1024 * 1000, seconds=1, p50_us=1, p99_us=1, errors=1)
        load.Load(**good).check(Running, "/1k")
        for bad in ({"errors": 2}, {"ended": 1}, {"bytes": 1024 * 1000 - 1}, {"requests": 0}):
            with self.subTest(bad=bad), self.assertRaises(BenchError):
                load.Load(**{**good, **bad}).check(Running, "/1k")


class Pairs(unittest.TestCase):
    """What is made of slices with and without."""

    def paired(self, *costs: tuple[float, float], content_bytes: int | None = None):
        return rows.paired([tuple({"cpu_us_per_request": cost, "others_percent": cost} for cost in pair)
                            for pair in costs], content_bytes)

    def test_the_figure_is_the_median_of_differences_not_the_difference_of_medians(self):
        # The machine slows down from pair to pair: medians of each side would differ by 9.
        metrics = self.paired((12, 10), (13, 11), (30, 28), (32, 20), (33, 30))
        self.assertEqual(metrics["extra_us_per_request"], 2)
        self.assertEqual((metrics["cpu_us_per_request"], metrics["without_us_per_request"]), (30, 20))

    def test_one_disturbed_pair_moves_neither_the_figure_nor_the_quartiles_beyond_its_neighbours(self):
        quiet = self.paired((11, 10), (11.2, 10), (11.4, 10), (11.6, 10), (11.8, 10))
        self.assertAlmostEqual(quiet["extra_us_per_request"], 1.4)
        self.assertAlmostEqual(quiet["extra_quartiles_us"], 0.2)
        disturbed = self.paired((11, 10), (11.2, 10), (11.4, 10), (11.6, 10), (90, 10))
        self.assertAlmostEqual(disturbed["extra_us_per_request"], 1.4)
        self.assertAlmostEqual(disturbed["extra_quartiles_us"], 0.2)

    def test_bytes_in_a_nanosecond_are_gigabytes_in_a_second(self):
        metrics = self.paired((145, 100), (146, 101), content_bytes=90_000)
        self.assertAlmostEqual(metrics["extra_gb_per_second"], 2)

    def test_what_costs_less_than_nothing_is_noise_where_work_is_done_and_a_figure_where_none_is_sure(self):
        self.assertEqual(self.paired((9, 10), (9, 10))["extra_us_per_request"], -1)
        with self.assertRaisesRegex(BenchError, "noise hides"):
            self.paired((9, 10), (9, 10), content_bytes=90_000)


class Scrapes(WithDirectory):
    """A daemon that answers scrapes after a while, and what is made of slices with them."""

    def serve(self, delay_seconds: float = 0, status: str = "200 OK") -> pathlib.Path:
        path = self.directory / "admin.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        self.addCleanup(listener.close)

        def answer(accepted: socket.socket):
            with accepted, contextlib.suppress(OSError):
                while accepted.recv(4096):
                    time.sleep(delay_seconds)
                    accepted.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n".encode())
                    accepted.sendall(b"a 1\n\n")

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return path

    def scrape(self, path: pathlib.Path, rate: int, seconds: float) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, SOURCES / "scrape.py", path, str(rate), str(seconds)],
                              capture_output=True, text=True, timeout=SECONDS_MAX)

    def test_what_is_due_is_asked_and_counted(self):
        done = self.scrape(self.serve(), 100, 0.5)
        begun, outcome = done.stdout.splitlines()
        seen = json.loads(outcome)
        self.assertEqual((begun, seen["skipped"]), ("begun", 0))
        self.assertTrue(40 <= seen["scrapes"] <= 51, seen)
        self.assertEqual(seen["bytes"], len("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na 1\n\n"))

    def test_a_daemon_that_cannot_follow_is_asked_less(self):
        seen = json.loads(self.scrape(self.serve(0.2), 1000, 0.5).stdout.splitlines()[1])
        self.assertTrue(0 < seen["scrapes"] < 100 < seen["skipped"], seen)

    def test_an_error_page_is_no_scrape(self):
        done = self.scrape(self.serve(status="503 Service Unavailable"), 10, 0.5)
        self.assertEqual(done.returncode, 1)
        self.assertIn("not 200", done.stderr)

    def test_what_a_scrape_costs_is_what_all_of_them_cost_in_a_second(self):
        # 50,000 requests of 20 µs, or 40,000 of 25 and a thousand scrapes: 200,000 µs for those.
        pairs = [({"cpu_us_per_request": 25.0, "requests_per_second": 40_000.0, "scrapes_per_second": 1000.0},
                  {"cpu_us_per_request": 20.0, "requests_per_second": 50_000.0})] * 3
        metrics = rows.compared(pairs)
        self.assertAlmostEqual(metrics["times_without"], 1.25)
        self.assertAlmostEqual(metrics["throughput_times_without"], 0.8)
        self.assertAlmostEqual(metrics["us_per_scrape"], 200)


class Documents(unittest.TestCase):
    def test_the_document_is_the_same_in_every_run_and_as_long_as_the_bars_say(self):
        document = documents.document()
        self.assertEqual(document, documents.document())
        self.assertTrue(documents.DOCUMENT_BYTES <= len(document) <= documents.DOCUMENT_BYTES * 1.02, len(document))
        self.assertEqual(documents.text(json.loads(document)), document)

    def test_it_has_every_kind_of_value_and_every_tenth_is_null(self):
        kinds = collections.Counter()
        pending = [json.loads(documents.document())]
        while pending:
            value = pending.pop()
            kinds[type(value)] += 1
            if isinstance(value, (dict, list)):
                pending += value.values() if isinstance(value, dict) else value
        self.assertEqual(set(kinds), {dict, list, str, int, float, bool, type(None)})
        self.assertAlmostEqual(kinds[type(None)] / kinds.total(), 0.1, delta=0.01)

    def test_it_has_text_beyond_ascii_and_escapes(self):
        text = documents.document().decode()
        self.assertFalse(text.isascii())
        for escape in ("\\n", '\\"'):
            self.assertIn(escape, text)

    def test_nulls_go_at_any_depth_and_what_is_left_keeps_its_order(self):
        for value, expected in ((None, b"null"), ([None], b"[]"), ({"a": None}, b"{}"), ([0, False, "", {}], None),
                                ({"b": [None, [None, 1]], "a": {"c": None, "d": ""}}, b'{"b":[[1]],"a":{"d":""}}')):
            with self.subTest(value=value):
                self.assertEqual(documents.text(documents.without_nulls(value)), expected or documents.text(value))


@unittest.skipUnless(all(map(processes.find, ("nginx", "wrk", "haproxy"))), "needs nginx, wrk and haproxy")
class TheCommand(WithDirectory):
    absent = ["--binary", "/nonexistent/sallyport"]

    def test_a_row_without_sallyport_measures_the_others_and_says_skip(self):
        result = self.directory / "result.json"
        command = [sys.executable, SOURCES / "bench.py", *self.absent, "--rows", "keepalive-1k", "--proxies",
                   "sallyport,haproxy,pump", "--rounds", "1", "--seconds", "1", "--json", result]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("sallyport: SKIP, /nonexistent/sallyport is not built", done.stdout)
        row, = json.loads(result.read_text())["rows"]
        self.assertEqual(row["bars"][0]["verdict"], "SKIP")
        self.assertGreater(row["proxies"]["haproxy"]["median"]["cpu_us_per_request"], 1)
        self.assertLess(row["proxies"]["pump"]["ratio"], 1, "a pump that parses nothing costs more than HAProxy")

    def test_whatever_ends_the_bench_nothing_of_it_is_left(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)):
            with self.subTest(signal=number.name):
                command = [sys.executable, SOURCES / "bench.py", *self.absent, "--rows", "keepalive-1k",
                           "--proxies", "haproxy"]
                running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(running.kill)
                # nginx with its worker, HAProxy and wrk: in the middle of a timed run.
                deadline = time.monotonic() + SECONDS_MAX
                while len(tree := measure.process_tree(running.pid)) < 5:
                    self.assertLess(time.monotonic(), deadline, "the bench did not get to a run")
                    time.sleep(0.05)
                running.send_signal(number)
                self.assertEqual(running.wait(SECONDS_MAX), status)
                left = [pid for pid in tree if pathlib.Path(f"/proc/{pid}").exists()]
                self.assertEqual(left, [], "processes of the bench outlived it")

    def test_wrong_usage_names_what_there_is(self):
        for wrong in (["--rows", "nonsense"], ["--rounds", "0"], ["--proxy-cpu", "x"]):
            with self.subTest(wrong=wrong), contextlib.redirect_stderr(io.StringIO()) as said:
                with self.assertRaises(SystemExit) as ended:
                    bench.parse_options(wrong)
                self.assertEqual(ended.exception.code, 2)
                self.assertIn(wrong[0], said.getvalue())


if __name__ == "__main__":
    unittest.main()
