"""What the proxy says when it answers itself: the reason phrase, Proxy-Status and the problem body, checked together.

`HTTP/1.1 403 denied rule=payments ref=7F3K2A`, RFC 9209, RFC 9457.
"""

import json
import re
from dataclasses import dataclass

from strict_http import Message

REASON_BYTES_MAXIMUM = 60
REASON = re.compile(r"(?P<token>[a-z][a-z0-9-]*)(?: rule=(?P<rule>\S+))? ref=(?P<reference>[0-9A-Z]{6})")
# RFC 9209 §2.3: the registered error types.
ERROR_TYPES = set("""
    dns_timeout dns_error destination_not_found destination_unavailable destination_ip_prohibited
    destination_ip_unroutable connection_refused connection_terminated connection_timeout connection_read_timeout
    connection_write_timeout connection_limit_reached tls_protocol_error tls_certificate_error tls_alert_received
    http_request_error http_request_denied http_response_incomplete http_response_header_section_size
    http_response_header_size http_response_body_size http_response_trailer_section_size http_response_trailer_size
    http_response_transfer_coding http_response_content_coding http_response_timeout http_upgrade_failed
    http_protocol_error proxy_internal_response proxy_internal_error proxy_configuration_error proxy_loop_detected
    """.split())
PARAMETER = re.compile(
    r';\s*([a-z*][a-z0-9_\-.*]*)=("(?:[ !\x23-\x5b\x5d-\x7e]|\\["\\])*"|[A-Za-z0-9*:/!#$%&\'+\-.^_`|~]+)'
)


@dataclass(frozen=True)
class Problem:
    token: str
    reference: str
    rule: str | None
    error: str | None
    details: str | None
    body: dict


def read_proxy_status(value: str) -> tuple[str, dict[str, str]]:
    """One member of Proxy-Status: who speaks, and its parameters without their quotes."""
    name = value.partition(";")[0]
    parameters = PARAMETER.findall(value)
    assert PARAMETER.sub("", value[len(name) :]) == "", f"Proxy-Status is no structured field: {value!r}"
    unquoted = {
        key: re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text for key, text in parameters
    }
    return name, unquoted


def check_problem(
    answer: Message,
    status: int,
    error: str | None = None,
    rule: str | None = None,
    proxy_name: str = "sallyport",
) -> Problem:
    """The answer is one that the proxy made itself, complete and consistent; returns what it said."""
    shown = f"{answer.status} {answer.reason!r} {answer.fields} {answer.body!r}"
    assert answer.status == status, f"expected {status}, got {shown}"
    reason = answer.reason.decode("ascii")
    match = REASON.fullmatch(reason)
    assert match, f"the reason carries no token and reference: {shown}"
    assert len(reason) <= REASON_BYTES_MAXIMUM, f"the reason is too long: {shown}"
    assert (answer.value("Content-Type") or b"").startswith(b"application/problem+json"), shown
    body = json.loads(answer.body)
    assert body["type"] == f"urn:sallyport:problem:{match['token']}", shown
    assert body["status"] == status and body["title"] and body["detail"], shown
    name, parameters = read_proxy_status((answer.value("Proxy-Status") or b"").decode("ascii"))
    assert name == proxy_name and parameters.get("error") in ERROR_TYPES, shown
    assert body.get("error") == parameters["error"], shown
    if error is not None:
        assert parameters["error"] == error, shown
    if rule is not None:
        assert match["rule"] == rule and body["rule"] == rule and parameters["rule"] == rule, shown
    return Problem(
        match["token"],
        match["reference"],
        match["rule"],
        parameters["error"],
        parameters.get("details"),
        body,
    )
