"""GET /v1/pins: what is pinned, how long it holds, when it was last seen, and what is warned of."""

import datetime
import re
import time

import pytest

from admin_client import AdminClient
from admin_world import ADMIN, ONE_PIN, TWO_PINS, administered, rewrite, samples
from origins import answering
from proxy import Proxy, configuration_text
from tls_world import (
    DAY,
    NOW,
    OK,
    OK_AND_CLOSE,
    answering_and_closing,
    certify,
    client_context,
    get,
    pins,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)


def test_pins_have_days_left_and_warnings(administered, tmp_path):
    near = certify("near its end", ends=NOW + 12.5 * DAY)
    (tmp_path / "near.pem").write_bytes(near.pem)
    far = certify("far from its end", ends=NOW + 300 * DAY)
    (tmp_path / "far.pem").write_bytes(far.pem)
    # Not NOW, when the run began: it may have been yesterday.
    began = datetime.datetime.now(datetime.timezone.utc)
    soon, gone, later = ((began + days * DAY).date() for days in (10, -40, 400))

    def pinned(name: str) -> str:
        return rule(f"of-{name}", f'hosts = ["{name}.test"]', security=f'pins = "{name}"')

    proxy = administered(
        pins("soon", 'mode = "public-key"', TWO_PINS, f"expires = {soon}")
        + pins("gone", 'mode = "public-key"', TWO_PINS, f"expires = {gone}", "enforce = false")
        + pins("later", 'mode = "public-key"', TWO_PINS, f"expires = {later}")
        + pins("near", 'mode = "certificate"', f'certificates = ["{tmp_path}/near.pem", "{tmp_path}/far.pem"]')
        + "".join(map(pinned, ["soon", "gone", "later", "near"]))
    )
    listed = {entry["name"]: entry for entry in proxy.admin.json("/v1/pins")}
    assert set(listed) == {"soon", "gone", "later", "near"}

    def days_left(day: datetime.date) -> set[int]:
        """A set holds to the end of its day. The daemon has read the clock since `began`."""
        end = datetime.datetime.combine(day + DAY, datetime.time(), datetime.timezone.utc)
        return {(end - moment).days for moment in (began, datetime.datetime.now(datetime.timezone.utc))}

    assert listed["soon"]["days_left"] in days_left(soon) and listed["soon"]["expires"]
    assert listed["gone"]["days_left"] < -30 and listed["gone"]["enforce"] is False
    assert listed["later"]["days_left"] in days_left(later)
    assert listed["near"]["expires"] is None and listed["near"]["days_left"] is None
    assert listed["soon"]["mode"] == "public-key" and listed["near"]["mode"] == "certificate"
    assert listed["soon"]["rules"] == ["of-soon"] and len(listed["soon"]["spki"]) == 2
    assert listed["soon"]["spki"][0] == {"pin": ONE_PIN.strip('"'), "last_seen": None, "seen_on": None}
    certificates = {entry["pin"]: entry for entry in listed["near"]["certificates"]}
    assert set(certificates) == {near.pin, far.pin}
    assert certificates[near.pin]["days_left"] == 12 and "near its end" in certificates[near.pin]["subject"]
    assert certificates[far.pin]["days_left"] in (299, 300)
    warnings = proxy.admin.json("/v1/status")["warnings"]
    assert len(warnings) == 3, warnings
    (of_soon,) = [text for text in warnings if "'soon'" in text]
    (of_gone,) = [text for text in warnings if "'gone'" in text]
    (of_near,) = [text for text in warnings if "'near'" in text]
    said = re.search(r"expires in (\d+) days", of_soon)
    assert said and int(said[1]) in days_left(soon) and "expired" in of_gone
    assert "near its end" in of_near and "12 days" in of_near
    assert far.pin in of_near or "far from its end" in of_near, f"it does not say which pin would remain: {of_near}"
    page = proxy.admin.text("/v1/status")
    assert all(text in page for text in warnings)
    metrics = samples(proxy)
    expiry = {
        dict(labels)["pins"] if "pins" in dict(labels) else dict(labels).get("set", dict(labels)): value
        for (name, labels), value in metrics.items()
        if name == "sallyport_pins_expiry_timestamp_seconds"
    }
    assert len(expiry) == 4
    assert int(near.certificate.not_valid_after_utc.timestamp()) in expiry.values()
    assert sum(value < time.time() for value in expiry.values()) == 1


def test_a_reload_takes_the_warnings_of_pins_along(administered):
    soon = (NOW + 10 * DAY).date().isoformat()
    pinned = rule("p", 'hosts = ["p.test"]', security='pins = "soon"')
    expiring = pins("soon", 'mode = "public-key"', TWO_PINS, f"expires = {soon}")
    proxy = administered(expiring + pinned)
    assert len(proxy.admin.json("/v1/status")["warnings"]) == 1
    rewrite(proxy, pins("soon", 'mode = "public-key"', TWO_PINS) + pinned)
    assert proxy.admin.ask("/v1/reload", "POST").status == 200
    assert proxy.admin.json("/v1/status")["warnings"] == []
    assert proxy.admin.json("/v1/pins")[0]["expires"] is None


# Seen


def watched_proxy(secure_proxy, set_lines: list[str], *rule_lines: str) -> Proxy:
    """A proxy under whose rule `pay` every host is pinned."""
    policy = ADMIN + pins("pay", *set_lines) + rule("pay", 'hosts = ["**.test"]', *rule_lines, security='pins = "pay"')
    proxy = secure_proxy(policy)
    proxy.admin = AdminClient(proxy.configuration.parent / "admin.sock")
    return proxy


def through(way: str, proxy: Proxy, secure_client, world, host: str, port: int) -> None:
    """One request whose certificate the proxy looks at."""
    client = secure_client(proxy)
    if way == "origination":
        assert client.exchange(get(host, port)).status == 200
    else:
        assert client.tunnel(host, port).status == 200
        client.shake_hands(client_context(world.root), host)
        assert client.get_inside(host).status == 200
    client.close()


@pytest.mark.parametrize("way", ["origination", "verify"])
def test_a_pin_that_was_seen_says_when_and_on_what(way, secure_proxy, secure_client, tls_origin, world):
    leaf, spare = world.leaf("pay.test", ends=NOW + 50.5 * DAY), certify("spare")
    proxy = watched_proxy(
        secure_proxy, ['mode = "public-key"', f'spki = ["{spare.pin}", "{leaf.pin}"]'],
        'connect = "verify"')
    (listed,) = proxy.admin.json("/v1/pins")
    assert [(pin["pin"], pin["last_seen"], pin["seen_on"]) for pin in listed["spki"]] == [
        (spare.pin, None, None),
        (leaf.pin, None, None),
    ]
    origin = tls_origin(answering(OK), world.context(leaf), tunnelled=way == "verify")
    through(way, proxy, secure_client, world, "pay.test", origin.port)
    line = proxy.access()
    of_spare, of_leaf = proxy.admin.json("/v1/pins")[0]["spki"]
    assert of_spare["last_seen"] is None and of_spare["seen_on"] is None
    assert of_leaf["last_seen"] >= line["time"][:19] and of_leaf["last_seen"].endswith("Z")
    seen = of_leaf["seen_on"]
    assert (seen["place"], seen["subject"], seen["superseded"]) == (f"pay.test port {origin.port}", subject(leaf), False)
    assert seen["days_left"] == 50 and seen["expires"][:10] == leaf.certificate.not_valid_after_utc.date().isoformat()
    assert proxy.admin.json("/v1/status")["warnings"] == []
    metrics = samples(proxy)
    labels = (("pin", leaf.pin), ("pins", "pay"))
    expiry = metrics["sallyport_pin_certificate_expiry_timestamp_seconds", labels]
    assert expiry == int(leaf.certificate.not_valid_after_utc.timestamp())
    assert abs(metrics["sallyport_pin_seen_timestamp_seconds", labels] - time.time()) < 60
    assert len([name for name, _ in metrics if name == "sallyport_pin_seen_timestamp_seconds"]) == 1
    assert metrics["sallyport_pin_warnings", ()] == 0


def subject(identity) -> str:
    return identity.certificate.subject.rfc4514_string()


def test_an_issuer_that_is_pinned_is_what_was_seen(secure_proxy, secure_client, tls_origin, world):
    """The certificate of the issuer carries the pin, and a leaf that expires soon is nobody's concern."""
    proxy = watched_proxy(secure_proxy, ['mode = "public-key"', f'spki = ["{world.issuing.pin}", {ONE_PIN}]'])
    origin = tls_origin(answering(OK), world.context(world.leaf("a.test", ends=NOW + 3 * DAY)))
    through("origination", proxy, secure_client, world, "a.test", origin.port)
    seen = proxy.admin.json("/v1/pins")[0]["spki"][0]["seen_on"]
    assert seen["subject"] == subject(world.issuing)
    assert not any("which carries" in warning for warning in proxy.admin.json("/v1/status")["warnings"])


def test_where_certificates_are_pinned_the_one_that_was_seen_says_so(
    secure_proxy, secure_client, tls_origin, world, tmp_path
):
    """Two certificates of one key, as after a renewal: only the one that is shown was seen."""
    old = world.leaf("pay.test", ends=NOW + 39.5 * DAY)
    new = world.leaf("pay.test", ends=NOW + 89.5 * DAY, key=old.key)
    for name, identity in (("old", old), ("new", new)):
        (tmp_path / f"{name}.pem").write_bytes(identity.pem)
    proxy = watched_proxy(
        secure_proxy, ['mode = "certificate"', f'certificates = ["{tmp_path}/old.pem", "{tmp_path}/new.pem"]'])
    origin = tls_origin(answering(OK), world.context(new))
    through("origination", proxy, secure_client, world, "pay.test", origin.port)
    certificates = proxy.admin.json("/v1/pins")[0]["certificates"]
    seen = {certificate["days_left"] // 10: certificate["last_seen"] for certificate in certificates}
    assert set(seen) == {3, 8} and seen[3] is None and seen[8] is not None


def test_what_is_refused_was_not_seen(secure_proxy, secure_client, tls_origin, world):
    proxy = watched_proxy(secure_proxy, ['mode = "public-key"', TWO_PINS])
    origin = tls_origin(answering(OK), world.context(world.leaf("pay.test")))
    assert secure_client(proxy).exchange(get("pay.test", origin.port)).status == 502
    assert [pin["last_seen"] for pin in proxy.admin.json("/v1/pins")[0]["spki"]] == [None, None]


def test_a_certificate_about_to_be_replaced_says_which_pins_would_remain(
    secure_proxy, secure_client, tls_origin, world
):
    """In the log at once, in the status and the metrics; and not any more when another one has taken its place."""
    ending = world.leaf("pay.test", ends=NOW + 12.5 * DAY)
    next_one = world.leaf("pay.test", ends=NOW + 90 * DAY)
    proxy = watched_proxy(
        secure_proxy, ['mode = "public-key"', f'spki = ["{ending.pin}", "{next_one.pin}"]'])
    current = [ending]
    origin = tls_origin(answering_and_closing(OK_AND_CLOSE), lambda number, hello: world.context(current[0]))
    through("origination", proxy, secure_client, world, "pay.test", origin.port)
    warning = (
        f"pin set 'pay': the certificate {subject(ending)} of pay.test port {origin.port}, which carries {ending.pin},"
        f" expires in 12 days; {next_one.pin} would remain"
    )
    proxy.log.wait_for(lambda entry: entry.get("message") == warning)
    assert proxy.admin.json("/v1/status")["warnings"] == [warning]
    assert warning in proxy.admin.text("/v1/status")
    assert samples(proxy)["sallyport_pin_warnings", ()] == 1
    current[0] = next_one
    # A session of the old one would be resumed; a reload of a set with another end is another policy, and forgets them.
    rewritten = ADMIN + pins(
        "pay", 'mode = "public-key"', f'spki = ["{ending.pin}", "{next_one.pin}"]', "expires = 2099-01-01")
    rewritten += rule("pay", 'hosts = ["**.test"]', security='pins = "pay"')
    proxy.configuration.write_text(
        configuration_text("", proxy.head + rewritten, f'["{proxy.authority}"]'))
    assert proxy.admin.ask("/v1/reload", "POST").status == 200
    through("origination", proxy, secure_client, world, "pay.test", origin.port)
    assert proxy.admin.json("/v1/status")["warnings"] == []
    of_ending, of_next = proxy.admin.json("/v1/pins")[0]["spki"]
    assert of_ending["seen_on"]["superseded"] and of_next["last_seen"] >= of_ending["last_seen"]
