"""`sallyport ca` by root, in a directory that belongs to the daemon's user, who is hostile here.

Whatever that user puts there, and whenever, root reads, changes and gives away nothing anywhere else.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy import binary, clean_environment, command
from test_ca import ca, init, snapshot

HOSTILE = (12345, 12346)
FILES = ["authority.pem", "authority.key", "next.pem", "next.key", "authorities.pem", "bundle.pem"]
SECRET = b"root's alone\n"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def state(sallyport_binary, tmp_path) -> Path:
    """The daemon's directory."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o755)
    os.chown(directory, *HOSTILE)
    return directory


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    """A directory of root's, with a file that nobody else may read."""
    directory = tmp_path / "elsewhere"
    directory.mkdir(mode=0o700)
    (directory / "secret").write_bytes(SECRET)
    (directory / "secret").chmod(0o600)
    return directory


def check_untouched(directory: Path) -> None:
    assert snapshot(directory) == {"secret": SECRET}
    for path in (directory, directory / "secret"):
        status = path.lstat()
        assert (status.st_uid, status.st_gid) == (0, 0), path
    assert (directory / "secret").stat().st_mode & 0o777 == 0o600


def link(at: Path, to: Path | str) -> None:
    at.symlink_to(to)
    os.lchown(at, *HOSTILE)


PLACES = {
    "the directory itself": ("authority", "authority"),
    "one above it": ("link", "link/authority"),
    "one above it, with more to be made": ("link", "link/not/there/authority"),
    "one behind dots": ("link", "./link/./sub/../authority"),
}


@pytest.mark.parametrize("command_name", ["init", "activate", "show", "export"])
@pytest.mark.parametrize("name", PLACES)
def test_a_link_in_the_place_of_a_directory_is_not_followed(name, command_name, state, elsewhere):
    planted, asked = PLACES[name]
    link(state / planted, elsewhere)
    done = ca(command_name, "--directory", state / asked, expect=1)
    assert "symbolic link" in done.stderr or "no authority" in done.stderr or "there is no" in done.stderr
    check_untouched(elsewhere)


@pytest.mark.parametrize("target", ["../../elsewhere/secret", "../../elsewhere/new", "../../elsewhere"])
@pytest.mark.parametrize("file", FILES)
def test_a_link_in_the_place_of_a_file_is_not_followed(file, target, state, elsewhere):
    directory = state / "authority"
    if file.startswith(("next", "authorities", "bundle")):
        init(directory)
    else:
        directory.mkdir()
        os.chown(directory, *HOSTILE)
    (directory / file).unlink(missing_ok=True)
    link(directory / file, target)
    for arguments in (("init",), ("show",), ("export",), ("activate",)):
        done = command("ca", *arguments, "--directory", str(directory))
        assert SECRET.decode().strip() not in done.stdout + done.stderr
    check_untouched(elsewhere)


def test_a_certificate_behind_a_link_is_not_shown(state, tmp_path):
    """Not even what anybody could have made of it."""
    other = init(tmp_path / "private" / "authority")
    directory = state / "authority"
    directory.mkdir()
    os.chown(directory, *HOSTILE)
    link(directory / "authority.pem", other / "authority.pem")
    for arguments in (("show",), ("export",)):
        done = ca(*arguments, "--directory", directory, expect=1)
        assert "symbolic link" in done.stderr and "BEGIN" not in done.stdout


def test_a_second_name_of_what_is_roots_is_not_read(state, tmp_path):
    """A kernel may let users make hard links to files of others (fs.protected_hardlinks = 0)."""
    other = init(tmp_path / "private" / "authority")
    directory = state / "authority"
    directory.mkdir()
    os.chown(directory, *HOSTILE)
    os.link(other / "authority.pem", directory / "authority.pem")
    done = ca("show", "--directory", directory, expect=1)
    assert "Operation not permitted" in done.stderr


@pytest.mark.parametrize("file", ["authority.pem", "authorities.pem"])
def test_a_pipe_holds_nobody_up(file, state):
    directory = init(state / "authority")
    (directory / file).unlink()
    os.mkfifo(directory / file)
    os.chown(directory / file, *HOSTILE)
    done = command("ca", "export", "--directory", str(directory))
    assert done.returncode == (1 if file == "authority.pem" else 0)
    command("env", "--config", "/dev/null")
    ca("init", "--directory", directory, expect=1 if file == "authority.pem" else 0)


def test_links_of_root_in_roots_directories_are_followed(sallyport_binary, tmp_path):
    """/var/lib/sallyport may be a link to another disk, as systemd makes one where the user is dynamic."""
    real = tmp_path / "disk" / "state"
    real.mkdir(parents=True)
    os.chown(real, *HOSTILE)
    (tmp_path / "lib").symlink_to("disk/./state")
    (tmp_path / "second").symlink_to(tmp_path / "lib")
    directory = init(tmp_path / "second" / "authority")
    assert sorted(os.listdir(real / "authority")) == sorted(
        ["authorities.pem", "authority.key", "authority.pem", "bundle.pem", "truststore.jks"]
    )
    for path in [real / "authority", *(real / "authority").iterdir()]:
        assert (path.stat().st_uid, path.stat().st_gid) == HOSTILE, path
    moved = real / "authority" / "authority.pem"
    ca("show", "--directory", directory)
    shutil.move(moved, tmp_path / "kept.pem")
    directory = init(tmp_path / "own" / "authority")
    (directory / "authority.pem").rename(tmp_path / "own" / "kept.pem")
    (directory / "authority.pem").symlink_to("../kept.pem")
    ca("show", "--directory", directory)


def test_links_that_lead_in_a_circle_end(sallyport_binary, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    ca("init", "--directory", tmp_path / "a" / "authority", expect=1)


# Exchanges the directory and the link for each other as fast as it can, as the hostile user.
SWAPPER = f"""
import ctypes, os, sys
state, elsewhere = sys.argv[1:]
os.chdir(state)
os.setgroups([]); os.setgid({HOSTILE[1]}); os.setuid({HOSTILE[0]})
libc = ctypes.CDLL(None, use_errno=True)
os.symlink(elsewhere, "link")
os.mkdir("decoy")
print("ready", flush=True)
names = [b"authority", b"link", b"decoy"]
while True:
    for first, second in ((0, 1), (0, 2), (1, 2)):
        libc.renameat2(-100, names[first], -100, names[second], 2)
        libc.renameat2(-100, b"authority/authorities.pem", -100, b"link", 2)
    try:
        os.rmdir("authority")
    except OSError:
        pass
"""

RUNS = 60


def test_a_swap_in_the_middle_gives_nothing_away(state, elsewhere):
    swapper = subprocess.Popen(
        [sys.executable, "-c", SWAPPER, str(state), str(elsewhere)], stdout=subprocess.PIPE
    )
    try:
        assert swapper.stdout.readline() == b"ready\n"
        outcomes = set()
        for _ in range(RUNS):
            for name in ("init", "activate", "show"):
                done = subprocess.run(
                    [binary(), "ca", name, "--directory", str(state / "authority")],
                    capture_output=True,
                    env=clean_environment(),
                )
                outcomes.add((name, done.returncode))
                assert done.returncode in (0, 1), done
        check_untouched(elsewhere)
        # Both sides have had their turns.
        assert ("init", 1) in outcomes
    finally:
        swapper.kill()
        swapper.wait()
        swapper.stdout.close()
