"""What a proxy costs, read from /proc: CPU time, memory, descriptors; and what else ran on its CPU meanwhile.

All figures are of the proxy's process and everything below it, so that Squid's and nginx's children count.
Part of bench.py; tested by test_bench.py.
"""

import os
import pathlib
import time
from dataclasses import dataclass

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# The kernel's clock id of a process's CPU time (CPUCLOCK_SCHED, process-wide): what clock_getcpuclockid(3) computes.
CPUCLOCK_SCHED = 2
# Fields of /proc/PID/stat, counted from 0 behind the parenthesised name: proc(5) counts from 1 and includes pid and name.
STAT_PARENT = 4 - 3
STAT_CHILDREN_USER, STAT_CHILDREN_SYSTEM = 16 - 3, 17 - 3
# Fields of a cpu line of /proc/stat that are time spent working: user nice system irq softirq. Not idle, iowait, steal.
CPU_BUSY_FIELDS = (1, 2, 3, 6, 7)


def _stat(pid: int) -> list[str]:
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2:].split()


def process_tree(root: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                children.setdefault(int(_stat(int(entry))[STAT_PARENT]), []).append(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
    tree = [root]
    for pid in tree:
        tree += children.get(pid, [])
    return tree


def cpu_ns(root: int) -> int:
    """User and system time of the tree so far, in nanoseconds.

    The process clock is the sum of what /proc/PID/task/*/schedstat shows, plus the threads that have ended: tinyproxy
    runs one for each connection. Children that were waited for are in the parent's stat, in ticks.
    """
    total = 0
    for pid in process_tree(root):
        try:
            fields = _stat(pid)
            total += time.clock_gettime_ns((~pid << 3) | CPUCLOCK_SCHED)
        except OSError:
            continue
        total += (int(fields[STAT_CHILDREN_USER]) + int(fields[STAT_CHILDREN_SYSTEM])) * TICK_NS
    return total


def threads_ns(pid: int, prefix: str) -> int:
    """The same of the threads of one process whose names begin so."""
    total = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (thread / "comm").read_text().startswith(prefix):
            total += int((thread / "schedstat").read_text().split()[0])
    return total


@dataclass(frozen=True)
class Memory:
    """Bytes. Private is what would be free if the process ended: Private_Clean + Private_Dirty."""

    proportional: int
    resident: int
    private: int


def memory(root: int) -> Memory:
    totals = {"Pss": 0, "Rss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    for pid in process_tree(root):
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in lines:
            name, value = line.split(":")
            if name in totals:
                totals[name] += int(value.split()[0]) * 1024  # the kernel's kB are KiB
    return Memory(totals["Pss"], totals["Rss"], totals["Private_Clean"] + totals["Private_Dirty"])


def descriptors(root: int) -> int:
    """Open file descriptors of the tree."""
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in process_tree(root))


def busy_ns(cpu: int) -> int:
    """How long a CPU has worked, for whomever, in ticks of 10 ms: to see who else was on the proxy's CPU."""
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        fields = line.split()
        if fields[0] == f"cpu{cpu}":
            return sum(int(fields[i]) for i in CPU_BUSY_FIELDS) * TICK_NS
    raise ValueError(f"/proc/stat knows no cpu{cpu}")
