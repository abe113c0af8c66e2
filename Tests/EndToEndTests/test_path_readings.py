"""Paths that servers read in several ways: whatever a real server answers from a denied handler was refused.

Each of the servers of path_servers.py × each spelling × a deny-list and an allow-list, over plain http; inside an intercepted
tunnel the session decides by the same code (test_intercept.py). The servers say which spellings are dangerous: each is
asked without the proxy as well, so that a test that could not fail is seen.
"""

import pytest

from origins import answering
from path_servers import ADMIN, PUBLIC, SERVERS, PathServer
from raw_client import RawClient
from tls_world import OK

SPELLINGS = """
/admin /admin/ /admin/x /Admin /ADMIN/x /aDmin/ /adm%69n /%61dmin /%61%64%6d%69%6e/x /%2561dmin /adm%2569n
//admin ///admin /./admin /x/../admin /public/../admin /public/%2e%2e/admin /public/%2E%2E/admin /public/.%2e/admin
/public/%2e./admin /public%2f..%2fadmin /public/..%2fadmin /public/s/..%2f..%2fadmin /public/x/..%2f../admin
/public/%2e%2e%2fadmin /public/%252e%252e/admin /public/..%252fadmin /%2fadmin /%2f%61dmin /%2fadmin/x /admin%2fx
/admin%2f /admin%252fx /admin;x /admin;x/y /;/admin /;x/admin /;x=1/admin/x /public/..;/admin /public/..;x=1/admin
/public/..;%2fadmin /public/%2e%2e;/admin /public/..%3b/admin /admin%3bx /admin%3b/x /.;/admin /admin. /admin./x
/admin.. /admin%2e /admin%20 /admin%20/x /%20admin /admin%00 /admin%00/x /admin%0a /admin%09 /admin%0d%0a /admin%3f
/admin%3fx /admin%23 /admin%23x /admin/%2e%2e/public/x /admin/../public/x /admin/s/..%2f..%2fpublic/x
/admin%2f..%2fpublic/x /admin/..;/public/x /admin//../public/x /admin/x/../../public/x /public//../admin
/public/x//../../admin /public/x/..//../admin /public\\..\\admin /\\admin /public/..\\admin /%5cadmin /%5c%61dmin
/public%5c..%5cadmin /public/..%5cadmin /public/%2e%2e%5cadmin /public/..%255cadmin /admin%5cx /admin\\x
/public/..%c0%afadmin /public/%c0%ae%c0%ae/admin /%c1%a1dmin /%u0061dmin /public/%u002e%u002e/admin
/public/..%u002fadmin /public/%u002e./admin /public/..%ef%bc%8fadmin /public/..%u2216admin /%ef%bd%81dmin
/public/.../admin /public/..../admin /public/...%2fadmin /public/../../admin /../admin /..%2fadmin /%2e%2e/admin
/../../admin /public/..//admin /public/..%2f%2fadmin /public/%2e/../admin /public/./../admin
/public/x/%2e%2e/%2e%2e/admin /public/x/..;/..;/admin /admin/. /admin/.. /admin/./x /admin/x/.. /%2e/admin
/%2e%2fadmin /./%61dmin /public/..%00/admin /public/.%00./admin /public%00/../admin /admin?x /admin;?x /%61dmin;x
/public;/../admin /public;x/../admin /public/;/../admin /public/x;/../../admin /public/;/..;/..;/admin
/x%2f..%2fadmin /x%252f..%252fadmin /%25%36%31dmin /%2561%2564min /%zz/../admin /%/../admin /public/%2e%2e%2e/admin
/public/..%20/admin /public/.%2e;/admin //admin/x /public//admin //x/../admin //a.test/../admin
/public/x%2f..%2f..%2fadmin /public%3b/../admin /public%253b/../admin
""".split()

# What programs really ask for. A server that answers one from its handler of /public answers it through the proxy.
PLAIN = """
/public /public/ /public/x /public/x.tar.gz /public/v1.2/x /public/.well-known/x /public/a%20b /public/%C3%BC
/public/a+b,c:d@e /public/~user /public/%7Euser /public/100%25 /public/x?y=/admin/../z%2fw;v /public/x;v=1 /public/a%2Fb
/public/administrator /public/admin /public/a-b_c!$&'()* /public/...x /public/x..y
""".split()

HIDDEN = 'request.headers.set = { X-Added = "by-the-rule" }'
DENY_LIST = """
[[rule]]
name = "no-admin"
action = "deny"
paths = ["/admin", "/admin/*"]
"""
ALLOW_LIST = f"""
[[rule]]
name = "only-public"
paths = ["/public", "/public/*"]
{HIDDEN}
"""


@pytest.fixture(scope="module", params=SERVERS)
def server(request, tmp_path_factory):
    running = PathServer(request.param, tmp_path_factory.mktemp(request.param))
    yield running
    running.stop()


def ask(address: tuple[str, int], port: int, path: str) -> bytes:
    """All that comes back for this path, of a proxy, or of the server itself."""
    target = f"http://127.0.0.1:{port}{path}" if address[1] != port else path
    client = RawClient(address)
    client.send(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    while client.receive_some():
        pass
    client.close()
    return bytes(client.received)


def answers(address: tuple[str, int], port: int, paths: list[str], handler: bytes) -> list[str]:
    """The paths, of these, that are answered from this handler."""
    return [path for path in paths if handler in ask(address, port, path)]


def test_what_a_server_takes_for_a_denied_path_is_refused(server, sallyport):
    dangerous = answers(("127.0.0.1", server.port), server.port, SPELLINGS, ADMIN)
    assert len(dangerous) > 10, f"{server.name} has hardly a handler of /admin: {dangerous}"
    denying = sallyport(policy=DENY_LIST)
    assert answers(denying.address, server.port, SPELLINGS, ADMIN) == []
    allowing = sallyport(proxy='default = "deny"', policy=ALLOW_LIST)
    assert answers(allowing.address, server.port, SPELLINGS, ADMIN) == []


def test_plain_paths_are_not_refused(server, sallyport):
    plain = answers(("127.0.0.1", server.port), server.port, PLAIN, PUBLIC)
    assert len(plain) > len(PLAIN) // 2, f"{server.name} has hardly a handler of /public: {plain}"
    denying = sallyport(policy=DENY_LIST)
    assert answers(denying.address, server.port, plain, PUBLIC) == plain
    allowing = sallyport(proxy='default = "deny"', policy=ALLOW_LIST)
    assert answers(allowing.address, server.port, plain, PUBLIC) == plain


@pytest.mark.parametrize(
    "path, reading",
    [
        ("/public/..%2fadmin", "'/admin'"),
        ("/public/..;/admin", "parameters cut, dot segments removed"),
        ("//admin", "slashes merged"),
    ],
)
def test_a_rule_that_adds_is_passed_over_where_a_reading_is_not_its_own(sallyport, raw_origin, raw_client, path, reading):
    """With `default = "allow"` such a request leaves without what the rule adds."""
    origin = raw_origin(answering(OK))
    proxy = sallyport(policy=ALLOW_LIST)
    for asked in (path, "/public/x"):
        target = f"127.0.0.1:{origin.port}"
        answer = raw_client(proxy).exchange(f"GET http://{target}{asked} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        assert answer.status == 200
    assert [request.values("X-Added") for request in origin.requests()] == [[], [b"by-the-rule"]]
