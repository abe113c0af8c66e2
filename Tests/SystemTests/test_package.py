"""The Debian package: built from the program that is there, judged by lintian, and installed, upgraded, removed and
purged by dpkg in a Debian root, whose files are compared before and after.

Needs root, and a Debian mirror; without them the tests skip and say so.
"""

import re
import subprocess
from pathlib import Path

import pytest

from debian import ENABLE, UNITS, build, changed, control
from installation import BINARY, PROJECT, need, need_binary, run, version

CONFFILES = ["/etc/sallyport/policy.d/00-example.toml", "/etc/sallyport/sallyport.toml"]


# MARK: The package as a file


def test_the_name_holds_version_and_architecture(package):
    architecture = run("dpkg", "--print-architecture").stdout.strip()
    assert package.name == f"sallyport_{version()}_{architecture}.deb"
    assert control(package, "Version") == version()


def test_lintian_finds_no_error_and_no_warning(package):
    need("lintian")
    done = run("lintian", "--allow-root", "--fail-on", "error,warning", package, check=False)
    assert done.returncode == 0, done.stdout


def test_it_depends_on_every_library(package, tmp_path):
    """Each library that the program names is in a package that Depends names."""
    need("readelf")
    run("dpkg-deb", "--extract", package, tmp_path)
    dynamic = run("readelf", "--dynamic", "--wide", tmp_path / "usr/bin/sallyport").stdout
    depends = control(package, "Depends")
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        owners = re.findall(r"^([^:]+):", run("dpkg", "-S", f"*/{library}").stdout, re.MULTILINE)
        assert any(re.search(rf"\b{re.escape(owner)}\b", depends) for owner in owners), library
    assert "RUNPATH" not in dynamic and "RPATH" not in dynamic
    assert "BIND_NOW" in dynamic


# Mode of every file, of root all of them.
FILES = {
    "./etc/sallyport/sallyport.toml": "-rw-r--r--",
    "./etc/sallyport/policy.d/00-example.toml": "-rw-r--r--",
    "./lib/systemd/system/sallyport.service": "-rw-r--r--",
    "./lib/systemd/system/sallyport.socket": "-rw-r--r--",
    "./lib/systemd/system/sallyport-admin.socket": "-rw-r--r--",
    "./usr/bin/sallyport": "-rwxr-xr-x",
    "./usr/lib/sysusers.d/sallyport.conf": "-rw-r--r--",
    "./usr/lib/tmpfiles.d/sallyport.conf": "-rw-r--r--",
    "./usr/share/bash-completion/completions/sallyport": "-rw-r--r--",
    "./usr/share/fish/vendor_completions.d/sallyport.fish": "-rw-r--r--",
    "./usr/share/zsh/vendor-completions/_sallyport": "-rw-r--r--",
    "./usr/share/sallyport/grafana/sallyport.json": "-rw-r--r--",
    "./usr/share/sallyport/prometheus/sallyport.rules.yml": "-rw-r--r--",
    "./usr/share/man/man1/sallyport.1.gz": "-rw-r--r--",
    "./usr/share/man/man5/sallyport.toml.5.gz": "-rw-r--r--",
    "./usr/share/man/man7/sallyport-admin.7.gz": "-rw-r--r--",
    "./usr/share/lintian/overrides/sallyport": "-rw-r--r--",
    "./usr/share/doc/sallyport/README.Debian": "-rw-r--r--",
    "./usr/share/doc/sallyport/README.md.gz": "-rw-r--r--",
    "./usr/share/doc/sallyport/changelog.gz": "-rw-r--r--",
    "./usr/share/doc/sallyport/copyright": "-rw-r--r--",
}


def test_it_holds_these_files_and_no_others(package):
    found = {}
    for line in run("dpkg-deb", "--contents", package).stdout.splitlines():
        mode, owner, *_, path = line.split()
        assert owner == "root/root"
        if mode.startswith("d"):
            assert mode == "drwxr-xr-x"
        else:
            found[path] = mode
    assert found == FILES


def test_the_configuration_is_the_operators(package):
    assert run("dpkg-deb", "--info", package, "conffiles").stdout.split() == CONFFILES


def test_the_same_program_gives_the_same_bytes(package, tmp_path):
    assert build(tmp_path / "again").read_bytes() == package.read_bytes()


# MARK: make install


@pytest.fixture
def installed(tmp_path) -> Path:
    need_binary()
    make_install(tmp_path, "/usr/local")
    return tmp_path


def make_install(destination: Path, prefix: str) -> subprocess.CompletedProcess:
    return run(
        "make", "-C", PROJECT, "--no-print-directory", "install", f"BINARY={BINARY}", f"DESTDIR={destination}",
        f"PREFIX={prefix}",
    )


def test_install_keeps_to_its_prefix(installed):
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    etc = {path.removeprefix("/") for path in CONFFILES}
    assert etc <= files
    assert {path.split("/")[1] for path in files - etc} == {"local"}
    assert "usr/local/lib/systemd/system/sallyport.service" in files
    assert "usr/local/share/man/man5/sallyport.toml.5" in files


def test_the_installed_unit_starts_the_installed_program(installed):
    unit = (installed / "usr/local/lib/systemd/system/sallyport.service").read_text()
    commands = re.findall(r"^Exec\w+=(\S+)", unit, re.MULTILINE)
    assert commands == ["/usr/local/bin/sallyport"] * 2
    assert (installed / "usr/local/bin/sallyport").stat().st_mode & 0o7777 == 0o755


def test_install_overwrites_no_configuration(installed):
    edited = installed / "etc/sallyport/sallyport.toml"
    edited.write_text("# mine\n")
    make_install(installed, "/usr/local")
    assert edited.read_text() == "# mine\n"


# MARK: In a Debian root


def test_the_program_runs_where_only_dependencies_are(root, package):
    root.dpkg("--install", package)
    assert root("sallyport version").stdout == f"sallyport {version()}\n"
    assert "not found" not in root("ldd /usr/bin/sallyport").stdout
    checked = root("sallyport check --strict")
    assert checked.stdout.endswith("0 errors, 0 warnings\n")


def test_nothing_is_enabled_or_started_and_it_is_said_how(root, package):
    done = root.dpkg("--install", package)
    assert ENABLE in done.stdout
    for unit in UNITS:
        assert root(f"systemctl is-enabled {unit}", check=False).stdout.strip() == "disabled"
    assert not list(root.file("/etc/systemd/system").rglob("sallyport*"))


def test_the_user_and_its_directories(root, package):
    root.dpkg("--install", package)
    _, _, number, group, _, home, shell = root.user().split(":")
    assert 0 < int(number) < 1000 and home == "/var/lib/sallyport" and shell == "/usr/sbin/nologin"
    shadow = root.file("/etc/shadow").read_text()
    assert re.search(r"^sallyport:!", shadow, re.MULTILINE), "the account can log in"
    state = root.file("/var/lib/sallyport").stat()
    assert (state.st_uid, state.st_gid, state.st_mode & 0o7777) == (int(number), int(group), 0o755)
    # The configuration is read by the daemon, and written by root alone.
    status = root.file("/etc/sallyport/sallyport.toml").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (0, 0, 0o644)


def test_the_authority_is_made_by_the_user_of_the_service(root, package):
    """As the manual says it, before the service ever ran."""
    root.dpkg("--install", package)
    root("runuser -u sallyport -- sallyport ca init")
    number = int(root.user().split(":")[2])
    authority = root.file("/var/lib/sallyport/authority")
    assert {path.name: path.stat().st_mode & 0o777 for path in authority.glob("authority.*")} == {
        "authority.pem": 0o644, "authority.key": 0o600,
    }
    assert {path.stat().st_uid for path in authority.iterdir()} == {number}
    # Another user's programs must trust it.
    assert "BEGIN CERTIFICATE" in root("runuser -u nobody -- sallyport ca export").stdout


def test_systemd_accepts_the_installed_units(root, package):
    root.dpkg("--install", package)
    done = root(f"systemd-analyze --man=no verify {' '.join(UNITS)} 2>&1")
    assert "sallyport" not in done.stdout


def test_an_upgrade_keeps_what_was_edited(root, package, tmp_path):
    root.dpkg("--install", package)
    edited = root.file("/etc/sallyport/sallyport.toml")
    edited.write_text("# mine\n")
    root.dpkg("--install", changed(package, tmp_path, new_version="99.0"))
    assert edited.read_text() == "# mine\n"
    later = changed(package, tmp_path, new_version="99.1", configuration="# theirs\n")
    root.dpkg("--force-confdef", "--force-confold", "--install", later)
    assert edited.read_text() == "# mine\n"
    assert edited.with_name("sallyport.toml.dpkg-dist").read_text() == "# theirs\n"


def test_dpkg_asks_before_it_replaces_what_was_edited(root, package, tmp_path):
    root.dpkg("--install", package)
    edited = root.file("/etc/sallyport/sallyport.toml")
    edited.write_text("# mine\n")
    later = changed(package, tmp_path, new_version="99.1", configuration="# theirs\n")
    done = root.dpkg("--install", later, check=False)
    assert done.returncode != 0 and "end of file on stdin at conffile prompt" in done.stderr
    assert edited.read_text() == "# mine\n"


def test_an_upgrade_renews_what_was_not_edited(root, package, tmp_path):
    root.dpkg("--install", package)
    root.dpkg("--install", changed(package, tmp_path, new_version="99.0", configuration="# theirs\n"))
    assert root.file("/etc/sallyport/sallyport.toml").read_text() == "# theirs\n"


def test_an_upgrade_brings_nothing_back_that_was_deleted(root, package, tmp_path):
    root.dpkg("--install", package)
    deleted = root.file("/etc/sallyport/policy.d/00-example.toml")
    deleted.unlink()
    root.dpkg("--install", changed(package, tmp_path, new_version="99.0"))
    assert not deleted.exists()


def test_an_upgrade_leaves_user_state_and_enablement(root, package, tmp_path):
    root.dpkg("--install", package)
    root("runuser -u sallyport -- sallyport ca init")
    root(f"systemctl enable {' '.join(UNITS)}")
    user, key = root.user(), root.file("/var/lib/sallyport/authority/authority.key")
    before = key.read_bytes()
    done = root.dpkg("--install", changed(package, tmp_path, new_version="99.0"))
    assert (root.user(), key.read_bytes()) == (user, before)
    for unit in UNITS:
        assert root(f"systemctl is-enabled {unit}").stdout.strip() == "enabled"
    assert "systemctl enable" not in done.stdout, "an upgrade need not be told how to begin"


def test_removal_keeps_configuration_and_state(root, package):
    root.dpkg("--install", package)
    root("runuser -u sallyport -- sallyport ca init")
    root.file("/etc/sallyport/sallyport.toml").write_text("# mine\n")
    root.dpkg("--remove", "sallyport")
    assert root.file("/etc/sallyport/sallyport.toml").read_text() == "# mine\n"
    assert root.file("/var/lib/sallyport/authority/authority.key").exists()
    assert not root.file("/usr/bin/sallyport").exists()
    assert not root.file("/lib/systemd/system/sallyport.service").exists()
    assert root.user()
    root.dpkg("--install", package)
    assert root.file("/etc/sallyport/sallyport.toml").read_text() == "# mine\n"


# What dpkg and the making of a user change themselves.
BOOKKEEPING = re.compile(
    r"/(root/sallyport_.*|etc/(passwd|shadow|group|gshadow)-?|etc/\.pwd\.lock|var/(lib/dpkg|log|cache|lib/systemd)/?.*"
    r"|var/lib/systemd|proc.*)"
)


def test_purge_leaves_nothing(root, package):
    before = root.snapshot()
    root.dpkg("--install", package)
    root("runuser -u sallyport -- sallyport ca init")
    root(f"systemctl enable {' '.join(UNITS)}")
    root.file("/etc/sallyport/sallyport.toml").write_text("# mine\n")
    root.dpkg("--purge", "sallyport")
    after = root.snapshot()
    changes = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert {path for path in changes if not BOOKKEEPING.fullmatch(path)} == set()
    # The number of the user must not go to another, who would own what the operator has left.
    assert root.user()


def test_purge_leaves_the_files_of_the_operator(root, package):
    root.dpkg("--install", package)
    own = root.file("/etc/sallyport/policy.d/payments.toml")
    own.write_text("# mine\n")
    dropin = root.file("/etc/systemd/system/sallyport.service.d/override.conf")
    dropin.parent.mkdir(parents=True)
    dropin.write_text("[Service]\n")
    done = root.dpkg("--purge", "sallyport")
    assert own.read_text() == "# mine\n" and dropin.exists()
    assert [path.name for path in root.file("/etc/sallyport").rglob("*")] == ["policy.d", "payments.toml"]
    assert done.stderr == "" or "not empty" in done.stderr


def test_it_can_be_installed_again_behind_a_purge(root, package):
    root.dpkg("--install", package)
    user = root.user()
    root.dpkg("--purge", "sallyport")
    root.dpkg("--install", package)
    assert root.user() == user
    assert root.file("/var/lib/sallyport").stat().st_uid == int(user.split(":")[2])
    assert root.file("/etc/sallyport/sallyport.toml").exists()
