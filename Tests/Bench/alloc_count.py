"""Counts the heap allocations of an unchanged program, with alloc-count.c as an LD_PRELOAD library.

    library = alloc_count.build(directory)
    process = Popen(command, env={**os.environ, **alloc_count.environment(library, counter_file)})
    before = alloc_count.read(counter_file)
    …                                           # what is to be measured
    allocations = alloc_count.read(counter_file) - before

The counters are those of the process and its children, and can be read while it runs. On the command line, for a look:

    python3 Tests/Bench/alloc_count.py COMMAND…     # runs it, then prints calls and bytes on stderr

Python standard library and cc only. Tested by test_bench.py.
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass

SOURCE = pathlib.Path(__file__).with_name("alloc-count.c")
FILE_VARIABLE = "ALLOC_COUNT_FILE"
THREADS_VARIABLE = "ALLOC_COUNT_THREADS"
# Two little-endian uint64: calls, bytes. The layout of `struct counters` in alloc-count.c.
LAYOUT = struct.Struct("<QQ")
COMPILER_FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
BUILD_SECONDS_MAX = 60


@dataclass(frozen=True)
class Counters:
    """Calls of malloc, calloc, realloc, memalign and their kin, and the bytes that they asked for."""

    calls: int
    bytes: int

    def __sub__(self, before: "Counters") -> "Counters":
        return Counters(self.calls - before.calls, self.bytes - before.bytes)


def build(directory) -> pathlib.Path:
    """Compiles the library into `directory` and returns its path. CalledProcessError when cc refuses."""
    library = pathlib.Path(directory) / "alloc-count.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, *COMPILER_FLAGS, "-o", str(library), str(SOURCE)], check=True, timeout=BUILD_SECONDS_MAX
    )
    return library


def environment(library, counter_file, threads: str = "") -> dict[str, str]:
    """The variables to add to the environment of the program. Makes the counter file, with both counters at zero.
    With `threads` only the threads whose names begin so are counted."""
    pathlib.Path(counter_file).write_bytes(LAYOUT.pack(0, 0))
    return {"LD_PRELOAD": str(library), FILE_VARIABLE: str(counter_file), THREADS_VARIABLE: threads}


def read(counter_file) -> Counters:
    """The counters so far. ValueError when nothing was counted: every program allocates before its main is done, so the
    library was not loaded (a static program, a setuid one, or the file could not be mapped)."""
    with open(counter_file, "rb") as file:
        calls, number_of_bytes = LAYOUT.unpack(file.read(LAYOUT.size))
    if calls == 0:
        raise ValueError(f"{counter_file}: nothing was counted; was the program started with alloc_count.environment()?")
    return Counters(calls, number_of_bytes)


def main(command: list[str]) -> int:
    if not command:
        print("usage: alloc_count.py COMMAND…", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="alloc-count-") as directory:
        counter_file = os.path.join(directory, "counters")
        status = subprocess.call(command, env={**os.environ, **environment(build(directory), counter_file)})
        counted = read(counter_file)
    print(f"{counted.calls} allocations, {counted.bytes} bytes", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
