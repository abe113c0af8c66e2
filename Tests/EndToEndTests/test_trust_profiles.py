"""What a path must keep to beyond what OpenSSL asks holds on each way, and the profile decides where the two differ.

The table of requirements itself is walked by PathRequirementTests.
"""

import pytest

from origins import answering
from problems import check_problem
from tls_world import (
    OK,
    authority,
    client_context,
    get,
    rule,
    secure_client,
    secure_proxy,
    tls_origin,
    world,
)

LEAVES = {
    # By name: what the leaf is made with, and the profiles that refuse it.
    "sound": ({}, ()),
    "without a purpose": ({"purpose": None}, ("public",)),
    "that may sign certificates": ({"authority": True}, ("public", "private")),
}


@pytest.mark.parametrize("way", ["origination", "upgrade", "verify", "intercept"])
@pytest.mark.parametrize("profile", ["public", "private"])
@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf(name, profile, way, secure_proxy, tls_origin, raw_client, secure_client, authority, world):
    arguments, refusing = LEAVES[name]
    keys = {"verify": 'connect = "verify"', "intercept": 'connect = "intercept"', "upgrade": "upgrade = true"}
    table = authority.table if way == "intercept" else ""
    proxy = secure_proxy(table + rule("r", keys.get(way, ""), security=f'profile = "{profile}"'))
    server = tls_origin(answering(OK), world.context(world.leaf("a.test", **arguments)))
    if way in ("origination", "upgrade"):
        scheme = "https" if way == "origination" else "http"
        answer = raw_client(proxy).exchange(get("a.test", server.port, scheme=scheme))
    else:
        client = secure_client(proxy)
        answer = client.tunnel("a.test", server.port)
        if way == "intercept":
            assert answer.status == 200
            client.shake_hands(client_context(), "a.test")
            answer = client.get_inside(f"a.test:{server.port}")
    if profile in refusing:
        problem = check_problem(answer, 502, error="tls_certificate_error", rule="r")
        # Who reads it learns what was expected, of which certificate, and what asks for it.
        assert "Leaf a.test" in problem.body["detail"] and ("RFC" in problem.body["detail"] or "BR" in problem.body["detail"])
        assert not server.requests()
    else:
        assert answer.status == 200
