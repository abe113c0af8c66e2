"""The proxy as a process: started on a policy text, its log read as it is written, stopped and checked.

    proxy = Proxy.start(directory, proxy='default = "deny"', policy="[[rule]] …")
    proxy.access(lambda line: line["status"] == 200)       waits for that access line
    proxy.reload(policy="…")                               SIGHUP, returns the log line that speaks of the reload

The binary is .build/release/sallyport, or $SALLYPORT_BINARY. No test reads the proxy's sources.
"""

import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

from journal import DEADLINE_SECONDS, Journal

REPOSITORY = Path(__file__).resolve().parents[2]
# "reload: 3 rules" once every loop has them, or why nothing has changed.
RELOADED = re.compile(r"reload: (\d+ rules\b|.*nothing has changed)")
READY_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|\d+\.\d+\.\d+\.\d+):(\d+)")


def binary() -> Path:
    return Path(os.environ.get("SALLYPORT_BINARY", REPOSITORY / ".build/release/sallyport"))


def clean_environment(**extra: str) -> dict[str, str]:
    """The environment without anything that would name a proxy, a journal or a certificate authority."""
    unwanted = re.compile(
        r".*_proxy|NOTIFY_SOCKET|JOURNAL_STREAM|LISTEN_.*|.*SSL_.*|.*_CA_BUNDLE|PIP_.*|GIT_.*", re.IGNORECASE
    )
    return {key: value for key, value in os.environ.items() if not unwanted.fullmatch(key)} | extra


def configuration_text(proxy: str = "", policy: str = "", listen: str = '["127.0.0.1:0"]') -> str:
    """A configuration file: the lines of [proxy], then whatever other tables a test wants."""
    return f"[proxy]\nlisten = {listen}\n{proxy}\n\n{policy}\n"


def command(*arguments: str | Path, cwd: Path | None = None, **extra: str) -> subprocess.CompletedProcess:
    """One run of a command of sallyport, to its end."""
    return subprocess.run(
        [binary(), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean_environment(**extra),
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE_SECONDS,
    )


class Line(dict):
    """A line of the log: what it does not say is None."""

    def __missing__(self, member: str) -> None:
        return None


class Proxy:
    """A running `sallyport run`."""

    def __init__(self, process: subprocess.Popen, configuration: Path):
        self.process = process
        self.configuration = configuration
        self.log = Journal("the log")
        self.raw_log: list[str] = []
        self.addresses: list[tuple[str, int]] = []
        self.secrets: list[str] = []
        self.test_begins = 0  # index in `log`: what came before is of tests that shared this proxy earlier
        self.expected_exit: set[int] = {0}
        self.log_thread = threading.Thread(target=self._read_log, daemon=True)
        self.log_thread.start()

    @staticmethod
    def start(
        directory: Path,
        proxy: str = "",
        policy: str = "",
        listen: str = '["127.0.0.1:0"]',
        prefix: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> "Proxy":
        """Write the configuration, start the proxy (behind a `prefix` command such as prlimit), wait until it is ready."""
        configuration = directory / "sallyport.toml"
        configuration.write_text(configuration_text(proxy, policy, listen))
        process = subprocess.Popen(
            [*prefix, binary(), "run", "--config", configuration],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(**(environment or {})),
            cwd=directory,
        )
        running = Proxy(process, configuration)
        running._wait_until_ready()
        return running

    def _wait_until_ready(self) -> None:
        timer = threading.Timer(DEADLINE_SECONDS, self.process.kill)
        timer.start()
        line = self.process.stdout.readline().decode("utf-8", "replace")
        timer.cancel()
        self.addresses = [(host.strip("[]"), int(port)) for host, port in READY_ADDRESS.findall(line)]
        if not self.addresses:
            self.process.kill()
            self.process.wait()
            self.log_thread.join(DEADLINE_SECONDS)
            raise AssertionError(
                f"no ready line with an address, but {line!r}; stderr:\n" + "".join(self.raw_log)
            )

    def _read_log(self) -> None:
        for line in self.process.stderr:
            text = line.decode("utf-8", "replace")
            self.raw_log.append(text)
            try:
                entry = Line(json.loads(text))
            except ValueError:
                entry = {"not_json": text}
            self.log.append(entry)
        self.log.append({"end_of_log": True})

    # Where it is

    @property
    def address(self) -> tuple[str, int]:
        return self.addresses[0]

    @property
    def authority(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}"

    # What it says

    def access(self, predicate=lambda line: True) -> dict:
        """Wait for the first access line of this test that the predicate holds for."""
        return self.log.wait_for(lambda entry: is_access(entry) and predicate(entry), self.test_begins)

    def access_lines(self) -> list[dict]:
        return [entry for entry in self.log.snapshot()[self.test_begins :] if is_access(entry)]

    def access_of(self, reference: str) -> dict:
        """The access line of the answer that carried this reference."""
        return self.access(lambda line: line.get("ref") == reference)

    # What is done to it

    def reload(self, proxy: str = "", policy: str = "") -> dict:
        """Replace the configuration, send SIGHUP, wait for the line of its outcome: a warning comes before the loops have it."""
        self.configuration.write_text(configuration_text(proxy, policy, f'["{self.authority}"]'))
        before = len(self.log.snapshot())
        self.process.send_signal(signal.SIGHUP)
        return self.log.wait_for(
            lambda entry: not is_access(entry) and RELOADED.search(json.dumps(entry)), after=before
        )

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait_for_exit(self) -> int:
        status = self.process.wait(DEADLINE_SECONDS)
        self.log_thread.join(DEADLINE_SECONDS)
        return status

    def stop(self) -> None:
        """End it at once and check that it had lived well: no crash, a log of JSON lines only, no secret in it."""
        early = self.process.poll()
        if early is None:
            self.terminate()
            try:
                self.process.wait(0.2)
            except subprocess.TimeoutExpired:
                self.terminate()  # clients of the test are still there: the second one ends the drain
        try:
            status = self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("two SIGTERM did not end the proxy")
        finally:
            self.log_thread.join(DEADLINE_SECONDS)
            self.process.stdout.close()
            self.process.stderr.close()
        text = "".join(self.raw_log)
        assert status >= 0 or -status in (
            signal.SIGTERM,
            signal.SIGKILL,
        ), f"the proxy crashed ({status}):\n{text}"
        assert early is None or early in self.expected_exit, f"the proxy left early ({early}):\n{text}"
        entries = self.log.snapshot()
        while (
            entries and "not_json" in entries[0]
        ):  # the diagnostics of the configuration, before the first line
            entries.pop(0)
        not_json = [entry["not_json"] for entry in entries if "not_json" in entry]
        assert not not_json, "lines of the log that are no JSON:\n" + "".join(not_json[:100])
        for secret in self.secrets:
            assert secret not in text, f"the secret {secret!r} is in the log"

    # What it costs

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run_delays(self, named: str) -> list[float]:
        """Seconds that each thread whose name begins so was ready to run and had no processor (proc_pid_schedstat)."""
        tasks = sorted(Path(f"/proc/{self.process.pid}/task").iterdir())
        return [run_delay(task) for task in tasks if (task / "comm").read_text().startswith(named)]

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def private_bytes(self) -> int:
        """Memory that the proxy has written and nobody else has. Pages of the program's file are none of it: they become
        private when another proxy of the same file ends. 0 under sanitizers, for their shadow memory and quarantine.
        """
        if "SALLYPORT_SANITIZED" in os.environ:
            return 0
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Private_Dirty:\s+(\d+) kB", rollup, re.MULTILINE)[1]) * 1024


def run_delay(task: Path) -> float:
    return int((task / "schedstat").read_text().split()[1]) / 1e9


def is_access(entry: dict) -> bool:
    """An access line is told from other lines of the log by its total time."""
    return "total_ms" in entry
