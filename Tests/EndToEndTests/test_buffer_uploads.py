"""buffer_uploads: a chunked body is taken whole, in memory or in a file, and leaves with its length.

The file has no name; what is seen of it is a descriptor of the daemon's that names a deleted file.
"""

import hashlib
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from journal import DEADLINE_SECONDS, wait_until
from origins import answering
from parents import routed
from problems import check_problem
from proxy import command
from scripted_parents import scripted_parent, scripted_secure_parent, socks_server
from serializer_world import request
from tls_world import OK, authority, rule, secure_client, secure_proxy, tls_origin, world
from ways import way

BUFFERED = "buffer_uploads = true"
SMALL = '[proxy.limits]\nbuffered_body = "64KiB"\nheld_bodies = "64KiB"\n'
LARGE = hashlib.shake_256(b"an upload").digest(3 << 20)
CHUNKED = "Transfer-Encoding: chunked\r\n"


def chunks(body: bytes, size: int = 50_000, trailers: bytes = b"") -> bytes:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n" + trailers + b"\r\n"


def files_of(proxy) -> list[str]:
    """Files without a name that the daemon has open."""
    found = []
    for entry in Path(f"/proc/{proxy.process.pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:
            continue
        if target.endswith(" (deleted)") and target.startswith("/"):
            found.append(target)
    return found


def check_arrived(message, body: bytes) -> None:
    assert message.values("Content-Length") == [b"%d" % len(body)]
    assert message.values("Transfer-Encoding") == [] and message.values("Trailer") == []
    assert message.body == body


@pytest.mark.parametrize("body", [b"", b"little", LARGE], ids=["empty", "little", "large"])
def test_a_chunked_body_leaves_with_its_length_on_every_way(body, way):
    started = way(request=BUFFERED)
    client = started.enter()
    answer = client.exchange(started.head("POST", CHUNKED + "Trailer: X-Sum\r\n") + chunks(body, trailers=b"X-Sum: 1\r\n"))
    assert answer.status == 200
    check_arrived(started.requests[-1], body)
    # The connection goes on, and other bodies are as they were.
    assert client.exchange(started.head("POST", "Content-Length: 2\r\n") + b"hi").status == 200
    assert started.requests[-1].body == b"hi"
    wait_until(lambda: files_of(started.proxy) == [])


def test_what_is_more_than_may_be_held_is_in_a_file_that_goes_with_the_request(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=SMALL + rule("r", request=BUFFERED)), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(request(origin, lines=CHUNKED, method="PUT") + chunks(LARGE)[:-5])
    wait_until(lambda: len(files_of(proxy)) == 1)
    assert origin.requests() == []
    client.send(b"0\r\n\r\n")
    assert client.answer().status == 200
    check_arrived(origin.requests()[0], LARGE)
    wait_until(lambda: files_of(proxy) == [])
    assert client.exchange(request(origin)).status == 200


def test_a_client_that_leaves_half_way_leaves_nothing(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=SMALL + rule("r", request=BUFFERED)), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.looked_at = False
    client.send(request(origin, lines=CHUNKED, method="PUT") + chunks(LARGE)[:-5])
    wait_until(lambda: len(files_of(proxy)) == 1)
    client.reset()
    wait_until(lambda: files_of(proxy) == [])
    assert origin.requests() == []


def test_an_origin_that_answers_early_ends_the_upload(sallyport, raw_origin, raw_client):
    def refusing(connection) -> None:
        head = connection.read_head()
        connection.read_to = head.end
        connection.looked_at = False
        connection.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
        connection.close()

    proxy, origin = sallyport(policy=SMALL + rule("r", request=BUFFERED)), raw_origin(refusing)
    answer = raw_client(proxy).exchange(request(origin, lines=CHUNKED, method="PUT") + chunks(LARGE * 4))
    assert answer.status == 413
    wait_until(lambda: files_of(proxy) == [])


def test_a_request_after_an_early_answer_has_a_file_of_its_own(sallyport, raw_origin, raw_client):
    """The second body begins while a piece of the first is read from its file. Now and then, so it is tried."""

    def hasty(connection) -> None:
        connection.looked_at = False
        connection.read_to = connection.read_head().end
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        connection.wait_for_end()

    limits = '[log]\nwho = false\n[proxy.limits]\nbuffered_body = "64KiB"\nheld_bodies = "8MiB"\n'
    proxy, origin = sallyport(policy=limits + rule("r", request=BUFFERED), proxy="workers = 1"), raw_origin(hasty)
    head = request(origin, lines=CHUNKED, method="PUT")
    for _ in range(60):
        client = raw_client(proxy)
        client.send(head + 18 * (b"ea60\r\n" + bytes(60_000) + b"\r\n") + b"0\r\n\r\n" + head + b"4\r\nbody\r\n")
        assert client.answer().status == 200
        client.send(b"0\r\n\r\n")
        assert client.answer().status == 200


def test_the_client_is_bidden_to_go_on(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=rule("r", request=BUFFERED)), raw_origin(answering(OK))
    client = raw_client(proxy)
    client.send(request(origin, lines=CHUNKED + "Expect: 100-continue\r\n", method="PUT"))
    assert client.message().status == 100
    client.send(chunks(b"body"))
    assert client.answer().status == 200
    check_arrived(origin.requests()[0], b"body")
    assert origin.requests()[0].values("Expect") == []


def test_a_directory_that_is_not_there_is_507(sallyport, raw_origin, raw_client, tmp_path):
    proxy = sallyport(
        policy=SMALL + rule("r", request=BUFFERED), environment={"TMPDIR": str(tmp_path / "none")}
    )
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    client.looked_at = False
    client.send(request(origin, lines=CHUNKED, method="PUT") + chunks(LARGE))
    answer = client.answer()
    check_problem(answer, 507)
    assert b"No such file or directory" in answer.body and str(tmp_path).encode() in answer.body
    assert origin.requests() == []


def test_a_full_disk_is_507(sallyport, raw_origin, raw_client, tmp_path):
    """A file system of 1 MiB, where one may be mounted."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"needs a file system of its own: {made.stderr}")
    try:
        proxy = sallyport(policy=SMALL + rule("r", request=BUFFERED), environment={"TMPDIR": str(tmp_path)})
        origin, client = raw_origin(answering(OK)), raw_client(proxy)
        client.looked_at = False
        client.send(request(origin, lines=CHUNKED, method="PUT") + chunks(LARGE))
        answer = client.answer()
        check_problem(answer, 507)
        assert b"No space left on device" in answer.body
        assert origin.requests() == []
        wait_until(lambda: files_of(proxy) == [])
        # There is room again.
        assert raw_client(proxy).exchange(
            request(origin, lines=CHUNKED, method="PUT") + chunks(LARGE[: 512 << 10])
        ).status == 200
        assert origin.requests()[0].body == LARGE[: 512 << 10]
        wait_until(lambda: files_of(proxy) == [])
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_uploads_at_once_have_a_file_each(sallyport, raw_origin, raw_client):
    proxy, origin = sallyport(policy=SMALL + rule("r", request=BUFFERED)), raw_origin(answering(OK))
    bodies = [hashlib.shake_256(b"%d" % number).digest(700_000 + number) for number in range(8)]
    failures: list[BaseException] = []

    def upload(body: bytes) -> None:
        try:
            answer = raw_client(proxy).exchange(request(origin, lines=CHUNKED, method="PUT") + chunks(body, 9999))
            assert answer.status == 200
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=upload, args=[body]) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert failures == []
    assert sorted(message.body for message in origin.requests()) == sorted(bodies)
    wait_until(lambda: files_of(proxy) == [])


def test_a_paced_upload_from_a_file(sallyport, raw_origin, raw_client):
    table = BUFFERED + '\nthrottle = { packet = "512KiB", delay = "50ms" }'
    proxy, origin = sallyport(policy=SMALL + rule("r", request=table)), raw_origin(answering(OK))
    client = raw_client(proxy)
    begun = time.monotonic()
    assert client.exchange(request(origin, lines=CHUNKED, method="PUT") + chunks(LARGE)).status == 200
    assert time.monotonic() - begun >= 5 * 0.05
    check_arrived(origin.requests()[0], LARGE)


def test_explain_and_check_know_it(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(rule("r", request=BUFFERED))
    assert "'buffer_uploads' has no effect on https" in "".join(
        [(checked := command("check", "--config", str(file))).stdout, checked.stderr]
    )
    told = command("explain", "--config", str(file), "PUT", "http://a.test/").stdout
    assert "uploads: a body of unknown length is taken whole" in told
