"""`sallyport env`: a shell that evaluates what it prints never goes around the proxy, whatever is wrong.

The namespace of the suite has one way out beside loopback: an origin on an address of its own, which counts its
connections. Real programs ask for it under what `env` prints in each situation. What each language makes of the values
is asked of the language.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from conftest import need
from origins import unused_port
from proxy import Proxy, binary, clean_environment

ORIGIN = "192.0.2.80"
DENY = 'default = "deny"\n'
REFUSING = "http://127.0.0.1:1"
NOBODY = "65534"
PROXY_VARIABLES = [
    name
    for word in ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
    for name in (word, word.upper())
]


class CountingOrigin:
    """Answers every connection to port 80 and 443, and counts them."""

    def __init__(self):
        self.connections = 0
        self.sockets = [socket.create_server((ORIGIN, port)) for port in (80, 443)]
        for listener in self.sockets:
            threading.Thread(target=self._serve, args=[listener], daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            with client:
                client.recv(65536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached")

    def stop(self) -> None:
        for listener in self.sockets:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


@pytest.fixture
def origin():
    address = f"{ORIGIN}/32"
    subprocess.run(["ip", "address", "replace", address, "dev", "lo"], check=True)
    origin = CountingOrigin()
    yield origin
    origin.stop()
    subprocess.run(["ip", "address", "del", address, "dev", "lo"], check=True)


@pytest.fixture
def place():
    """A directory that other users may look into."""
    directory = Path(tempfile.mkdtemp(prefix="sallyport-env-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def as_nobody() -> tuple[str, ...]:
    """What to put before a command so that it runs as a user without rights."""
    need("setpriv")
    prefix = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups")
    if os.geteuid() != 0 or subprocess.run([*prefix, binary(), "version"], capture_output=True).returncode != 0:
        pytest.skip("no other user here that may run the program")
    return prefix


def env(*arguments, prefix: tuple[str, ...] = (), **extra: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*prefix, binary(), "env", *arguments],
        capture_output=True, text=True, env=clean_environment(**extra), timeout=30,
    )


def values(script: str, interpreter: str = "sh") -> dict[str, str]:
    """What the lines set in a shell that knew none of them."""
    with tempfile.TemporaryDirectory() as home:  # fish writes into it
        done = subprocess.run(
            [interpreter, "-c", script + "\nenv -0"],
            capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": home}, check=True,
        )
    assert done.stderr == ""
    found = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)
    return {name: value for name, value in found.items() if value != home}


JAVA = """
public class Fetch {
  public static void main(String[] arguments) throws Exception {
    var connection = new java.net.URL(arguments[0]).openConnection();
    System.out.print(new String(connection.getInputStream().readAllBytes()));
  }
}
"""
PYTHON = shlex.quote(sys.executable)

# Each: the programs it needs, and how it asks for $URL.
PROGRAMS = {
    "curl": (["curl"], 'curl -sS --fail --max-time 20 "$URL"'),
    "curl of ftp": (["curl"], f"curl -sS --fail --max-time 20 ftp://{ORIGIN}:80/"),
    "wget": (["wget"], 'wget -q -O- --tries=1 --timeout=20 "$URL"'),
    "urllib": ([], f"{PYTHON} -c \"import os, urllib.request as u; print(u.urlopen(os.environ['URL']).read())\""),
    "requests": ([], f"{PYTHON} -c \"import os, requests as r; r.get(os.environ['URL']).raise_for_status()\""),
    "httpx": ([], f"{PYTHON} -c \"import os, httpx as r; r.get(os.environ['URL']).raise_for_status()\""),
    "git": (["git"], 'git ls-remote "$URL"'),
    "Java": (["java"], 'java Fetch.java "$URL"'),
}
# Programs that start fast are tried in every situation, each of them in one.
FEW = ["curl", "wget", "urllib"]


def assert_closed(script: str, origin: CountingOrigin, place: Path, programs=FEW) -> None:
    """Programs under `script` fail, and reach nothing."""
    (place / "Fetch.java").write_text(JAVA)
    for name in programs:
        needed, command = PROGRAMS[name]
        if any(not shutil.which(program) for program in needed):
            continue
        for scheme in ("http", "https"):
            done = subprocess.run(
                ["sh", "-c", f'eval "$SCRIPT"\n{command}'],
                capture_output=True, text=True, cwd=place, timeout=60,
                env=clean_environment(SCRIPT=script, URL=f"{scheme}://{ORIGIN}/", GIT_TERMINAL_PROMPT="0"),
            )
            assert done.returncode != 0 and "reached" not in done.stdout, f"{name}, {scheme}: {done}"
            assert origin.connections == 0, f"{name} went around the proxy to {scheme}: {done}"


def configure(place: Path, text: str, name: str = "sallyport.toml") -> Path:
    path = place / name
    path.write_text(text)
    path.chmod(0o644)
    return path


SECRET = '[[rule]]\nname = "r"\n[rule.request]\nauthorization = { username = "u", password = %s }\n'


@pytest.mark.own_network
def test_the_origin_is_reached_without_variables(origin, place):
    """What the other tests exclude does happen here."""
    need("curl")
    done = subprocess.run(["curl", "-sS", f"http://{ORIGIN}/"], capture_output=True, env=clean_environment())
    assert done.stdout == b"reached" and origin.connections == 1


# Situations


@pytest.mark.own_network
@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_daemon(program, origin, place, sallyport_binary):
    need(*PROGRAMS[program][0])
    port = unused_port()
    configuration = configure(place, f'[proxy]\nlisten = ["127.0.0.1:{port}"]\n{DENY}[admin]\nsocket = "a.sock"\n')
    done = env("-c", configuration)
    assert done.returncode == 0
    assert f"nothing listens on 127.0.0.1:{port} yet" in done.stderr
    assert values(done.stdout)["http_proxy"] == f"http://127.0.0.1:{port}"
    assert_closed(done.stdout, origin, place, [program])


@pytest.mark.own_network
@pytest.mark.parametrize("program", PROGRAMS)
def test_with_a_daemon_that_denies(program, origin, place, sallyport):
    need(*PROGRAMS[program][0])
    proxy = sallyport(
        directory=place, proxy=DENY, policy='[admin]\nsocket = "a.sock"\n', listen=f'["127.0.0.1:{unused_port()}"]'
    )
    done = env("--config", proxy.configuration)
    assert (done.returncode, done.stderr) == (0, "")
    assert_closed(done.stdout, origin, place, [program])
    assert proxy.access(lambda line: line["status"] in (400, 403))


SECRETS = {
    "a file": '{ file = "secret" }',
    "a credential": '{ credential = "api" }',
    "a variable": '{ env = "NOT_HERE" }',
}


@pytest.mark.own_network
@pytest.mark.parametrize("kind", SECRETS)
def test_with_secrets_that_only_the_service_can_read(kind, origin, place, sallyport):
    """It printed an error and no variables, and programs went straight out."""
    prefix = as_nobody()
    (place / "secret").write_text("word")
    (place / "secret").chmod(0o600)
    (place / "credentials").mkdir(mode=0o700)
    (place / "credentials/api").write_text("word")
    policy = '[admin]\nsocket = "a.sock"\n' + SECRET % SECRETS[kind]
    proxy = sallyport(
        directory=place, proxy=DENY, policy=policy, listen=f'["127.0.0.1:{unused_port()}"]',
        environment={"CREDENTIALS_DIRECTORY": str(place / "credentials"), "NOT_HERE": "word"},
    )
    done = env("-c", proxy.configuration, prefix=prefix)
    assert done.returncode == 0, done.stderr
    assert values(done.stdout)["https_proxy"] == proxy.url
    assert "word" not in done.stdout


@pytest.mark.own_network
def test_with_a_configuration_that_cannot_be_read(origin, place, sallyport_binary):
    prefix = as_nobody()
    configuration = configure(place, f'[proxy]\nlisten = ["127.0.0.1:{unused_port()}"]\n{DENY}')
    configuration.chmod(0o600)
    done = env("-c", configuration, prefix=prefix)
    assert done.returncode == 1
    assert str(configuration) in done.stderr and "which refuses every connection" in done.stderr
    assert {values(done.stdout)[name] for name in PROXY_VARIABLES} == {REFUSING}
    assert_closed(done.stdout, origin, place, PROGRAMS)


@pytest.mark.own_network
@pytest.mark.parametrize("text", ["[proxy]\nlisen = []\n", "[proxy\n", '[proxy]\nlisten = ["127.0.0.1:0"]\n'])
def test_with_a_configuration_that_says_nothing(text, origin, place, sallyport_binary):
    done = env("-c", configure(place, text))
    assert done.returncode == 1 and done.stderr
    assert values(done.stdout)["HTTPS_PROXY"] == REFUSING
    assert_closed(done.stdout, origin, place)


@pytest.mark.own_network
@pytest.mark.parametrize(
    "arguments, status",
    [(["--shell", "tcsh"], 2), (["--frobnicate"], 2), (["surplus"], 2), (["-c"], 2), (["-c", "/nowhere"], 1),
     (["--socket", "/nowhere"], 1)],
    ids=str,
)
def test_with_a_mistake_on_the_command_line(arguments, status, origin, place, sallyport_binary):
    done = env(*arguments)
    assert done.returncode == status and done.stderr
    assert values(done.stdout)["http_proxy"] == REFUSING
    assert_closed(done.stdout, origin, place, ["curl"])


@pytest.mark.own_network
def test_a_mistake_is_answered_in_the_language_that_was_asked_for(sallyport_binary):
    for shell in (["--shell", "json"], ["--shell=json"]):
        done = env(*shell, "--frobnicate")
        assert json.loads(done.stdout)["https_proxy"] == REFUSING


@pytest.mark.own_network
@pytest.mark.parametrize("program", FEW)
def test_with_a_socket_unit_on_another_port(program, origin, place, start_passed):
    """The sockets are systemd's: `listen` does not hold, and the daemon says what does."""
    need(*PROGRAMS[program][0])
    passed = socket.create_server(("127.0.0.1", 0))
    policy = '[admin]\nsocket = "a.sock"\n'
    proxy = start_passed(
        [("proxy", passed)], directory=place, proxy=DENY, policy=policy, listen=f'["127.0.0.1:{unused_port()}"]'
    )
    assert proxy.address == passed.getsockname()
    done = env("-c", proxy.configuration)
    assert done.returncode == 0 and done.stderr == ""
    assert values(done.stdout)["http_proxy"] == proxy.url
    assert env("--socket", place / "a.sock").stdout.splitlines()[0] == f"export http_proxy='{proxy.url}'"
    assert_closed(done.stdout, origin, place, [program])
    assert proxy.access(lambda line: line["decision"] == "deny")


@pytest.mark.own_network
def test_with_a_socket_unit_on_another_port_and_no_right_to_ask(origin, place, start_passed):
    """What the configuration says is known to be wrong: nothing listens there."""
    prefix = as_nobody()
    passed = socket.create_server(("127.0.0.1", 0))
    policy = '[admin]\nsocket = "a.sock"\n'
    listen = f"127.0.0.1:{unused_port()}"
    proxy = start_passed([("proxy", passed)], directory=place, proxy=DENY, policy=policy, listen=f'["{listen}"]')
    proxy.configuration.chmod(0o644)
    done = env("-c", proxy.configuration, prefix=prefix)
    assert done.returncode == 1
    assert listen in done.stderr and "member of the socket's group" in done.stderr
    assert values(done.stdout)["http_proxy"] == REFUSING
    assert_closed(done.stdout, origin, place)


@pytest.mark.own_network
def test_after_a_change_of_listen(place, sallyport):
    """The file says another port, and a mistake beside; the daemon still has the one that it began with."""
    socket_line = '[admin]\nsocket = "a.sock"\n'
    proxy = sallyport(directory=place, policy=socket_line, listen=f'["127.0.0.1:{unused_port()}"]')
    for more in ("", "[nonsense]\n"):
        proxy.configuration.write_text(f'[proxy]\nlisten = ["127.0.0.1:{unused_port()}"]\n{socket_line}{more}')
        done = env("-c", proxy.configuration)
        assert done.returncode == 0
        assert values(done.stdout)["http_proxy"] == proxy.url


@pytest.mark.own_network
def test_in_a_container(origin, place, sallyport):
    """The daemon's socket is there, its loopback is another one."""
    need("unshare", "ip")
    proxy = sallyport(
        directory=place, proxy=DENY, policy='[admin]\nsocket = "a.sock"\n', listen=f'["127.0.0.1:{unused_port()}"]',
        prefix=("unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"),
    )
    done = env("--socket", place / "a.sock")
    assert values(done.stdout)["http_proxy"] == proxy.url
    assert_closed(done.stdout, origin, place)
    nothing = env("-c", configure(place, '[admin]\nsocket = "b.sock"\n', "other.toml"))
    assert_closed(nothing.stdout, origin, place)


@pytest.mark.own_network
def test_with_a_daemon_that_does_not_answer(origin, place, sallyport_binary):
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(place / "a.sock"))
    silent.listen()
    done = env("--socket", place / "a.sock")
    assert done.returncode == 1 and "did not answer within" in done.stderr
    assert values(done.stdout)["http_proxy"] == REFUSING
    silent.close()


@pytest.mark.own_network
def test_the_daemon_says_that_it_asks_for_credentials(place, sallyport):
    (place / "passwords").write_text("ada:word\n")
    (place / "passwords").chmod(0o600)
    proxy = sallyport(
        directory=place, proxy='credentials = { file = "passwords" }', policy='[admin]\nsocket = "a.sock"\n',
        listen=f'["127.0.0.1:{unused_port()}"]',
    )
    done = env("--socket", place / "a.sock")
    assert f"# The proxy asks for credentials: write http://USER:PASSWORD@{proxy.authority}" in done.stdout


# Languages


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh"])
def test_a_shell_sets_what_it_is_told(shell, sallyport_binary):
    need(shell)
    done = env("--shell", shell)
    found = values(done.stdout, shell)
    assert set(PROXY_VARIABLES) <= set(found)
    assert found["NODE_USE_ENV_PROXY"] == "1"
    assert "-Dhttps.proxyPort=3128 " in found["JAVA_TOOL_OPTIONS"]


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_an_eval_without_quotes_sets_the_same(shell, sallyport_binary):
    """All lines come as one, which ends at the first comment."""
    need(shell)
    found = values(f"eval $({shlex.quote(str(binary()))} env 2>/dev/null)", shell)
    wanted = values(env().stdout, shell)
    assert {name: found.get(name) for name in wanted if name not in ("_", "PWD", "SHLVL")} == {
        name: value for name, value in wanted.items() if name not in ("_", "PWD", "SHLVL")
    }


def test_fish_sets_what_it_is_told(sallyport_binary):
    need("fish")
    found = values("env -0 >/dev/null\n" + env("--shell", "fish").stdout, "fish")
    assert set(PROXY_VARIABLES) <= set(found) and "-Dhttp.proxyHost=127.0.0.1" in found["JAVA_TOOL_OPTIONS"]


def test_an_interactive_zsh_takes_the_comments(sallyport_binary):
    need("zsh")
    done = subprocess.run(
        ["zsh", "-f", "-i", "-c", 'eval "$("$BINARY" env 2>/dev/null)"; echo $http_proxy'],
        capture_output=True, text=True, env=clean_environment(BINARY=str(binary())),
    )
    assert done.stdout.strip() == "http://127.0.0.1:3128" and "not found" not in done.stderr


def test_json_is_one_object(sallyport_binary):
    done = env("--shell", "json")
    found = json.loads(done.stdout)
    assert set(PROXY_VARIABLES) <= set(found) and all(isinstance(value, str) for value in found.values())


def test_a_file_of_variables_is_read_by_node(sallyport_binary, tmp_path):
    """docker takes the same lines: a name, '=', and the rest of the line as it is."""
    done = env("--shell", "env-file")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    found = dict(line.split("=", 1) for line in lines)
    assert found["https_proxy"] == "http://127.0.0.1:3128" and '"' not in done.stdout.split("#")[0]
    need("node")
    path = tmp_path / "proxy.env"
    path.write_text(done.stdout)
    script = "console.log(JSON.stringify(process.env))"
    seen = subprocess.run(
        ["node", f"--env-file={path}", "-e", script], capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    if seen.returncode == 9:
        pytest.skip("this Node.js has no --env-file")
    assert found.items() <= json.loads(seen.stdout).items()


def test_comments_name_programs_that_need_more(sallyport_binary):
    comments = [line for line in env().stdout.splitlines() if line.startswith("# ")]
    for program in ("sudo", "systemd units", "containers", "Node.js", "Maven", "Firefox", "snapd", "ssh"):
        assert any(program in line for line in comments), program
