"""The tour of README.md, typed word for word into a bash at a terminal, in a network of its own and an empty directory.

In the blocks of the tour a line that begins with `$ ` is typed, with the lines of its here-document; what follows up to
the next one is what the terminal must show. What differs from run to run is compared by its form: times, references,
ports, numbers of processes, durations, memory. A reference in a command is the one that came in the place of the
reference of the README.
"""

import os
import pty
import re
import select
import subprocess
import time
from dataclasses import dataclass, field

import pytest

from installation import BINARY, PROJECT, need, need_binary

PROMPT = "TOUR> "
DEADLINE_SECONDS = 30
REFERENCE = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{6}\b")
# curl prints names of fields in bold.
COLOR = re.compile(r"\x1b\[\d*m")
# What bash says of jobs that end, whenever it finds out.
JOB_NOTICE = re.compile(r"^\[\d\][+-]? +(Done|Terminated|Exit).*\n?", re.MULTILINE)

SHAPES = [
    (r"^\[(\d)\] \d+$", r"[\1] PROCESS"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
    (r"Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "Date: DATE"),
    (r"127\.0\.0\.1:\d{5}\b", "127.0.0.1:PORT"),
    (r"(up|last|read) \d+ s", r"\1 N s"),
    (r"\d+ loops?", "N loops"),
    (r"^network      \S+$", "network      LINK"),
    (r"\d+ kept", "N kept"),
    (r"^bytes        [\d.]+ \w+ from clients, [\d.]+ \w+ to clients$", "bytes"),
    (r"^memory       [\d.]+ MiB", "memory       N MiB"),
    (r"\buser=\S+( unit=\S+)?", "user=USER"),
    (r"\b(bytes_in|bytes_out|\w+_ms)=[\d.]+", r"\1=N"),
    (r"Content-Length: \d+", "Content-Length: N"),
    # Who asks stands in the rule that would allow it.
    (r"allow\.\w+\.ads", "allow.USER.ads"),
    (r'users   = \[\\"\w+\\"\]', "users   = [USER]"),
]


@dataclass
class Step:
    command: str
    expected: list[str] = field(default_factory=list)


def tour() -> list[Step]:
    """What is typed, and what is shown for it."""
    section = (PROJECT / "README.md").read_text().split("\n## Five minutes\n")[1].split("\n## ")[0]
    steps: list[Step] = []
    for block in re.findall(r"^(?:    .*\n|\n(?=    ))+", section, re.MULTILINE):
        lines = [line.removeprefix("    ") for line in block.rstrip("\n").split("\n")]
        while lines and not lines[0]:
            lines.pop(0)
        assert lines[0].startswith("$ "), f"a block of the tour begins with no command: {lines[0]!r}"
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                steps[-1].expected.append(line)
                continue
            typed = [line.removeprefix("$ ")]
            if document := re.search(r"<<'(\w+)'", line):
                while typed[-1] != document[1]:
                    typed.append(lines.pop(0))
            steps.append(Step("\n".join(typed)))
    return steps


def shape(text: str) -> str:
    text = JOB_NOTICE.sub("", COLOR.sub("", text))
    for pattern, replacement in SHAPES:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return REFERENCE.sub("REF", text).strip("\n")


class Terminal:
    """A bash at a terminal. It does not echo, so that all that comes is prompts and output."""

    def __init__(self, directory, prefix: tuple[str, ...]):
        self.descriptor, theirs = pty.openpty()
        environment = {
            "PATH": f"{directory / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(directory), "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
        }
        self.shell = subprocess.Popen(
            [*prefix, "bash", "--norc", "--noprofile", "--noediting", "-i"],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=directory, start_new_session=True,
        )
        os.close(theirs)
        self.type(f"stty -echo columns 1000; PS2=; PS1='{PROMPT}'")
        # The echo of this very line has the prompt in it, too; a line of its own shows that all of that is over.
        self.type("echo READY")
        self.read(lambda seen: seen.replace("\r", "").endswith(f"\nREADY\n{PROMPT}") or f"{PROMPT}READY\n{PROMPT}" in seen)

    def type(self, line: str) -> None:
        os.write(self.descriptor, line.encode() + b"\n")

    def read(self, is_enough) -> str:
        """What comes until it is enough, without carriage returns."""
        seen = ""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_enough(seen):
            ready, _, _ = select.select([self.descriptor], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"the terminal shows no more than:\n{seen}"
            seen += os.read(self.descriptor, 65536).decode("utf-8", "replace").replace("\r", "")
        return seen

    def run(self, step: Step) -> str:
        """Types a command; what is shown for it. A program in the background may speak after the prompt."""
        self.type(step.command)
        wanted = shape("\n".join(step.expected))
        is_background = step.command.endswith("&")
        return self.read(
            lambda seen: PROMPT in seen
            and (not is_background or len(seen.replace(PROMPT, "").splitlines()) >= len(wanted.splitlines()))
        ).replace(PROMPT, "")

    def stop(self) -> None:
        os.close(self.descriptor)
        self.shell.kill()
        self.shell.wait()


@pytest.fixture(params=["root", "nobody"])
def terminal(request, tmp_path_factory):
    need_binary()
    need("bash", "curl", "python3", "unshare", "ip", "setpriv")
    directory = tmp_path_factory.mktemp("tour")
    for parent in (directory, directory.parent, directory.parent.parent):
        if parent.name.startswith(("tour", "pytest-")):
            parent.chmod(0o755)
    (directory / "bin").mkdir()
    (directory / "bin/sallyport").symlink_to(BINARY)
    start = "ip link set lo up"
    if request.param == "nobody":
        os.chown(directory, 65534, 65534)
        start += "; exec setpriv --reuid 65534 --regid 65534 --clear-groups"
    else:
        start += "; exec"
    prefix = ("unshare", "--net", "sh", "-ec", f'{start} "$@"', "sh")
    if subprocess.run([*prefix, BINARY, "version"], capture_output=True).returncode != 0:
        pytest.skip("needs a network namespace, and another user that may run the program: root")
    terminal = Terminal(directory, prefix)
    yield terminal
    terminal.stop()


def test_the_tour_is_a_tour():
    commands = [step.command for step in tour()]
    assert len(commands) > 15
    for word in ("check", "explain", "run", "env", "reload", "status"):
        assert any(f"sallyport {word}" in command for command in commands), word


def test_the_tour_as_it_is_written(terminal):
    references: dict[str, str] = {}
    for step in tour():
        for theirs, ours in references.items():
            step.command = step.command.replace(theirs, ours)
        shown = terminal.run(step)
        expected = "\n".join(step.expected)
        assert shape(shown) == shape(expected), f"$ {step.command}\n{shown}"
        if found := re.search(r"\bref=(\w{6})", expected):
            references[found[1]] = re.search(r"\bref=(\w{6})", shown)[1]
