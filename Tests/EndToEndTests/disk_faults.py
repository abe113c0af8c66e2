"""Faults of a disk for one directory of a program: a library to load before the C library, and a file that says what fails.

    disk = faulty_disk(directory)          a fixture; disk.environment goes to the program
    disk.fail("write")                     every write below the directory fails with EIO, reads are as ever
    disk.fail("read") / ("all") / ("full") reads; both; writes fail with ENOSPC
    disk.fail("slow")                      reads of content take 5 ms each
    disk.hold()                            reads of content wait until disk.heal(); disk.wait_until_held() for the first
    disk.hold(after=1)                     one of them does not
"""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import need
from journal import readable

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Reads of content that have begun since the last fault, and how many of them are let through.
static int begun, allowed;

// What the file says, past this library: 'r', 'w', 'a', 'f', 's', 'h' and a number, or 0.
static char mode(void) {
  static const char *path;
  if (!path) path = getenv("DISK_FAULTS");
  char said[32] = "";
  int file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    if (syscall(SYS_read, file, said, sizeof said - 1) < 0) said[0] = 0;
    syscall(SYS_close, file);
  }
  if (said[0] == 'h') allowed = atoi(said + 1); else begun = 0;
  return said[0];
}

static int is_below(int file, const char *part) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t count = readlink(link, path, sizeof path - 1);
  if (count < 0) return 0;
  path[count] = 0;
  const char *directory = getenv("DISK_FAULTS_DIRECTORY");
  return !strncmp(path, directory, strlen(directory)) && strstr(path + strlen(directory), part);
}

static int fails_write(int file) {
  char said = mode();
  if (!strchr("waf", said) || !said || !is_below(file, "")) return 0;
  errno = said == 'f' ? ENOSPC : EIO;
  return 1;
}

static int fails_read(int file) {
  char said = mode();
  if (said == 'h' && is_below(file, "/objects/") && ++begun > allowed) {
    int bell = open(getenv("DISK_FAULTS_HELD"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (bell >= 0) syscall(SYS_write, bell, "h", 1), close(bell);
    while (mode() == 'h') usleep(1000);
  }
  if (said == 's' && is_below(file, "/objects/")) usleep(5000);
  if (!strchr("ra", said) || !said || !is_below(file, "")) return 0;
  errno = EIO;
  return 1;
}

#define FORWARD(result, name, fails, parameters, ...)                      \
  result name parameters {                                                \
    static result(*next) parameters;                                      \
    if (!next) next = (result(*) parameters)dlsym(RTLD_NEXT, #name);       \
    return fails ? -1 : next(__VA_ARGS__);                                 \
  }

FORWARD(ssize_t, pread, fails_read(f), (int f, void *b, size_t n, off_t o), f, b, n, o)
FORWARD(ssize_t, pread64, fails_read(f), (int f, void *b, size_t n, off_t o), f, b, n, o)
FORWARD(ssize_t, pwrite, fails_write(f), (int f, const void *b, size_t n, off_t o), f, b, n, o)
FORWARD(ssize_t, pwrite64, fails_write(f), (int f, const void *b, size_t n, off_t o), f, b, n, o)
FORWARD(int, ftruncate, fails_write(f), (int f, off_t n), f, n)
FORWARD(int, ftruncate64, fails_write(f), (int f, off_t n), f, n)
FORWARD(int, fsync, fails_write(f), (int f), f)
FORWARD(int, fdatasync, fails_write(f), (int f), f)
"""


class FaultyDisk:
    def __init__(self, library: Path, place: Path, directory: Path):
        self.said, bell = place / "faults", place / "held"
        os.mkfifo(bell)
        self.bell = os.open(bell, os.O_RDONLY | os.O_NONBLOCK)
        self.environment = {
            "LD_PRELOAD": str(library),
            "DISK_FAULTS": str(self.said),
            "DISK_FAULTS_DIRECTORY": str(directory),
            "DISK_FAULTS_HELD": str(bell),
        }

    def fail(self, what: str) -> None:
        """At once: a reader sees the old file or the new one."""
        new = self.said.with_suffix(".new")
        new.write_text(what)
        new.rename(self.said)

    def hold(self, after: int = 0) -> None:
        self.fail(f"h{after}")

    def wait_until_held(self) -> None:
        assert readable(self.bell, 20), "nothing of the content was read"
        os.read(self.bell, 4096)

    def heal(self) -> None:
        self.said.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def disk_library(tmp_path_factory) -> Path:
    need("gcc")
    if "SALLYPORT_SANITIZED" in os.environ:
        pytest.skip("a sanitizer wants to be the first library")
    directory = tmp_path_factory.mktemp("faults")
    source, library = directory / "faults.c", directory / "faults.so"
    source.write_text(LIBRARY)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.fixture
def faulty_disk(disk_library, tmp_path_factory):
    """A function: faults of what a program has below a directory."""
    disks = []

    def make(directory: Path) -> FaultyDisk:
        disks.append(FaultyDisk(disk_library, tmp_path_factory.mktemp("disk"), directory))
        return disks[-1]

    yield make
    for disk in disks:
        disk.heal()
        os.close(disk.bell)
