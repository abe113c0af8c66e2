"""Responses that are odd but real (Tests/Responses/corpus.txt): what all clients read in one way reaches the proxy's client,
strict; what they read in different ways does not.

What reaches the client is judged by strict_http. That the readings in the file are true is tried again with those clients that
are installed in the version that was recorded; those of Chromium are only recorded, by readings.py.
"""

import os
from pathlib import Path

import pytest

import readings
from conftest import need
from problems import check_problem
from raw_client import Ended
from readings import CaseOrigin, NginxBefore, REFUSED, load, reading
from serializer_world import annotation

CASES = load()
NUMBERS = {case.name: number for number, case in enumerate(CASES)}
# Where a value differs from what the clients read: they keep a control character, and Python the line ends of a fold.
WRITTEN_ANEW = ("control-character", "obs-fold", "space-before-colon")


@pytest.fixture(scope="module")
def case_origin():
    origin = CaseOrigin(CASES)
    yield origin
    origin.stop()


@pytest.fixture
def get(raw_client, case_origin):
    """A function that asks for a case through a proxy: the answer, or None where it is cut short, and its access line."""

    def ask(proxy, name: str):
        authority = f"127.0.0.1:{case_origin.port}"
        target = f"http://{authority}/{NUMBERS[name]}"
        client = raw_client(proxy)
        client.send(f"GET {target} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n".encode())
        try:
            answer = client.answer()
        except Ended:
            answer = None
        return answer, proxy.access(lambda line: line["target"] == target)

    return ask


def test_there_are_enough():
    assert len(CASES) >= 100 and all(set(case.readings) == set(readings.CLIENTS) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_is_what_the_readings_say(case):
    """Without a reason of its own a case passes where all four read it in one way, and is mended only there."""
    verdict, why = case.entries["verdict"].split()[0], case.entries.get("why")
    if case.agreement not in (None, REFUSED):
        assert verdict in ("pass", "mend") or why, f"all read {case.agreement}, and it is refused"
    elif verdict == "mend":
        assert why, "they differ, and it is mended"
    if verdict in ("pass", "mend"):
        gets = case.entries["gets"]
        if case.agreement and not any(word in case.entries["verdict"] for word in WRITTEN_ANEW):
            assert gets == case.agreement
        # Whoever reads it at all reads the same body, unless there is a reason to follow the standard.
        bodies = {seen.split('"')[1] for seen in case.readings.values() if seen != REFUSED}
        assert why or {gets.split('"')[1]} == bodies
    else:
        assert "gets" not in case.entries


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case(case, plain_proxy, get):
    verdict, _, words = case.entries["verdict"].partition(" ")
    answer, line = get(plain_proxy, case.name)
    if verdict == "cut":
        assert answer is None and line["outcome"] == "upstream-broke-off"
        return
    if verdict == "refuse":
        # Where a fault stands in the body, the head may have left already.
        assert answer is None and line["outcome"] == "malformed-body" or check_problem(answer, 502), line
        assert line["outcome"] in ("malformed-response", "malformed-body", "connection-closed"), line
        return
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.fields]
    assert reading(answer.status, answer.body, fields) == case.entries["gets"]
    assert line["outcome"] == "done" and line["mended"] == (words or None)
    if words:
        assert annotation(answer)["details"] == f"mended: {words}"
    else:
        assert annotation(answer) is None


def test_reject_mends_nothing(sallyport, get):
    proxy = sallyport(policy='[[rule]]\nname = "r"\n[rule.response]\nmalformed = "reject"\n')
    for case in CASES:
        answer, line = get(proxy, case.name)
        if case.entries["verdict"].startswith("mend"):
            assert check_problem(answer, 502, error="http_protocol_error", rule="r").token == "malformed-response"
            assert line["mended"] is None
        elif case.entries["verdict"] == "pass":
            # A rule that speaks of nothing but heads judges nothing.
            assert answer.status != 502 and annotation(answer) is None


def test_the_defaults_reject_too_and_a_rule_mends_all_the_same(sallyport, get):
    policy = '[defaults.response]\nmalformed = "reject"\n[[rule]]\nname = "r"\nhosts = ["127.0.0.1"]\n'
    answer, _ = get(sallyport(policy=policy), "LF everywhere")
    assert answer.status == 502
    answer, line = get(sallyport(policy=policy + '[rule.response]\nmalformed = "mend"\n'), "LF everywhere")
    assert answer.status == 200 and line["mended"] == "bare-lf"


def test_a_rule_that_is_not_enforced_reports_and_mends(sallyport, get):
    policy = '[[rule]]\nname = "r"\nenforce = false\n[rule.response]\nmalformed = "reject"\n'
    answer, line = get(sallyport(policy=policy), "LF everywhere")
    assert answer.status == 200 and answer.body == b"ok"
    assert line["report"] == "malformed-response" and line["mended"] == "bare-lf"


def test_a_connection_is_not_used_again_after_a_head_that_was_mended(plain_proxy, raw_origin, raw_client):
    def script(connection):
        while True:
            connection.read_request()
            connection.send(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok")

    origin, client = raw_origin(script), raw_client(plain_proxy)
    for _ in range(2):
        request = f"GET http://{origin.authority}/ HTTP/1.1\r\nHost: {origin.authority}\r\n\r\n"
        assert client.exchange(request.encode()).body == b"ok"
    assert len(origin.connections) == 2


def recorded(client: str) -> None:
    """Skip unless the installed client is the one whose readings were recorded."""
    versions = readings.installed_versions()
    if versions.get(client) != readings.recorded_versions()[client]:
        pytest.skip(f"{client} is {versions.get(client)}; recorded: {readings.recorded_versions()[client]}")


def test_python_reads_as_recorded(case_origin):
    recorded("python")
    for number, case in enumerate(CASES):
        assert readings.python_reads(case_origin.port, f"/{number}") == case.entries["python"], case.name


def test_curl_reads_as_recorded(case_origin):
    recorded("curl")
    for number, case in enumerate(CASES):
        assert readings.curl_reads(case_origin.port, f"/{number}") == case.entries["curl"], case.name


def test_nginx_reads_as_recorded(case_origin, tmp_path: Path):
    need("nginx")
    recorded("nginx")
    for directory in (tmp_path, *list(tmp_path.parents)[:3]):
        os.chmod(directory, 0o755)
    server = NginxBefore(tmp_path, case_origin.port)
    try:
        for number, case in enumerate(CASES):
            assert server.reads(f"/{number}") == case.entries["nginx"], case.name
    finally:
        server.stop()
