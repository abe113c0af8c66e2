"""The server's side of Digest, written from RFC 7616 and RFC 2069 and from nothing else.

    Digest(user, password, …)     one protection space: `challenge` and `judge`
    guarding(digest, …)           a script of an origin that answers only who is right, on connections that it keeps

It accepts what the RFC demands and no more: every parameter is there once, quoted or not as 3.4 says, the count goes up by
one, and a nonce is good for as long as `lasts` says. Tests: test_digest.py asks it by curl.
"""

import hashlib
import itertools
import re
import threading

HASHES = {
    "MD5": hashlib.md5,
    "SHA-256": hashlib.sha256,
    "SHA-512-256": lambda data: hashlib.new("sha512_256", data),
}
QUOTED = {"username", "realm", "nonce", "uri", "response", "cnonce", "opaque"}
BARE = {"algorithm", "qop", "nc", "userhash", "username*"}
PARAMETER = re.compile(
    rb'([A-Za-z*]+)=(?:"((?:[^"\\]|\\.)*)"|([!#$%&\'*+\-.^_`|~0-9A-Za-z]+))(?:, |$)'
)


class Refused(Exception):
    """Why credentials are not right."""


def read(value: bytes) -> dict[str, bytes]:
    assert value.startswith(b"Digest "), value
    rest, found = value[len(b"Digest ") :], {}
    while rest:
        match = PARAMETER.match(rest)
        assert match, rest
        name = match[1].decode()
        assert name in (QUOTED if match[2] is not None else BARE), (name, value)
        assert name not in found, value
        found[name] = match[3] if match[2] is None else re.sub(rb"\\(.)", rb"\1", match[2])
        rest = rest[match.end() :]
    return found


class Digest:
    def __init__(
        self,
        user: str,
        password: str,
        algorithm: str | None = "MD5",
        qop: str | None = "auth",
        realm: str = "staff only",
        lasts: int = 1_000_000,
        userhash: bool = False,
        utf8: bool = False,
        opaque: str | None = 'o"paque',
        status: int = 401,
        names_next: bool = False,
    ):
        self.user, self.password, self.realm = user.encode(), password.encode(), realm.encode()
        self.algorithm, self.qop, self.lasts = algorithm, qop, lasts
        self.userhash, self.utf8, self.opaque, self.status = userhash, utf8, opaque, status
        self.names_next = names_next
        self.numbers = itertools.count(1)
        self.nonces: dict[bytes, list[int]] = {}  # the counts that came
        self.session: dict[bytes, bytes] = {}  # the client's nonce of the first
        self.lock = threading.Lock()

    @property
    def fields(self) -> tuple[str, str]:
        return ("WWW-Authenticate", "Authorization") if self.status == 401 else ("Proxy-Authenticate", "Proxy-Authorization")

    def hash(self, *parts: bytes) -> bytes:
        name = (self.algorithm or "MD5").removesuffix("-sess")
        return HASHES[name](b":".join(parts)).hexdigest().encode()

    def nonce(self) -> str:
        nonce = f'n"{next(self.numbers)}'
        self.nonces[nonce.encode()] = []
        return nonce

    def challenge(self, stale: bool = False) -> str:
        def quoted(text: str) -> str:
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

        parts = [f"realm={quoted(self.realm.decode())}", f"nonce={quoted(self.nonce())}"]
        if self.qop:
            parts.append(f'qop="{self.qop}"')
        if self.algorithm:
            parts.append(f"algorithm={self.algorithm}")
        if self.opaque:
            parts.append(f"opaque={quoted(self.opaque)}")
        parts += ["userhash=true"] * self.userhash + ["charset=UTF-8"] * self.utf8 + ["stale=TRUE"] * stale
        return "Digest " + ", ".join(parts)

    def judge(self, value: bytes, method: bytes, target: bytes) -> None:
        """Raises Refused; `stale` is its text where only the nonce is wrong."""
        with self.lock:
            self._judge(read(value), method, target)

    def _judge(self, given: dict[str, bytes], method: bytes, target: bytes) -> None:
        assert given["realm"] == self.realm and given["uri"] == target, given
        assert given.get("opaque") == (self.opaque.encode() if self.opaque else None), given
        assert given.get("algorithm") == (self.algorithm.encode() if self.algorithm else None), given
        if self.userhash:
            assert given["userhash"] == b"true" and "username*" not in given, given
            name = self.hash(self.user, self.realm)
        else:
            assert "userhash" not in given, given
            name = self.user
        if not self.userhash and self.utf8 and not self.user.isascii():
            percent = "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02X}" for b in self.user)
            assert given["username*"] == b"UTF-8''" + percent.encode(), given
        elif given["username"] != name:
            raise Refused("user")
        counts = self.nonces.get(given["nonce"])
        key = self.hash(self.user, self.realm, self.password)
        if (self.algorithm or "").endswith("-sess"):
            first = self.session.setdefault(given["nonce"], given["cnonce"])
            key = self.hash(key, given["nonce"], first)
        subject = self.hash(method, target)
        if self.qop:
            assert given["qop"] == b"auth" and len(given["nc"]) == 8 and len(given["cnonce"]) >= 16, given
            expected = self.hash(key, given["nonce"], given["nc"], given["cnonce"], b"auth", subject)
        else:
            assert not {"qop", "nc"} & given.keys(), given
            expected = self.hash(key, given["nonce"], subject)
        if given["response"] != expected:
            raise Refused("password")
        if counts is None:
            raise Refused("stale")
        count = int(given["nc"], 16) if self.qop else len(counts) + 1
        if count != len(counts) + 1 or count > self.lasts:
            raise Refused("stale")
        counts.append(count)


def guarding(digest: Digest, body: bytes = b"ok", challenge_body: bytes = b"who are you?", chunked=False, closes=False, also=()):
    """`also`: lines of other challenges, ahead of the one that counts. `closes`: the connection ends after a challenge."""
    names = digest.fields
    # A parent is taken at its word alone, see RouteState.
    kept = "Connection: keep-alive\r\n" if digest.status == 407 else ""

    def script(connection) -> None:
        while True:
            request = connection.read_request()
            if request.method == b"CONNECT" and digest.status == 401:
                connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
                continue
            stale = False
            values = request.values(names[1])
            try:
                if not values:
                    raise Refused("nothing")
                target = target_at_origin(request.target) if digest.status == 401 else request.target
                digest.judge(values[0], request.method, target)
            except Refused as why:
                stale = str(why) == "stale"
            else:
                if request.method == b"CONNECT":
                    connection.switch_protocol()
                    connection.send(b"HTTP/1.1 200 Opened\r\n\r\n")
                    connection.wait_for_end()
                    return
                more = f'Authentication-Info: nextnonce="{plain(digest.nonce())}", rspauth="00"\r\n' if digest.names_next else ""
                connection.send(
                    f"HTTP/1.1 200 OK\r\n{more}{kept}Content-Length: {len(body)}\r\n\r\n".encode()
                    + (b"" if request.method == b"HEAD" else body)
                )
                continue
            lines = [*also, digest.challenge(stale)]
            head = f"HTTP/1.1 {digest.status} Who\r\n{'' if closes else kept}" + "".join(f"{names[0]}: {line}\r\n" for line in lines)
            if closes:
                head += "Connection: close\r\n"
            if chunked:
                framed = b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n%s\r\n0\r\nX-Trailer: 1\r\n\r\n" % (
                    len(challenge_body),
                    challenge_body,
                )
            else:
                framed = b"Content-Length: %d\r\n\r\n%s" % (
                    len(challenge_body),
                    b"" if request.method == b"HEAD" else challenge_body,
                )
            connection.send(head.encode() + framed)
            if closes:
                connection.close()
                return

    return script


def target_at_origin(target: bytes) -> bytes:
    """What an origin gets of a request that reaches a parent in absolute-form."""
    return re.sub(rb"^http://[^/]*", b"", target)


def plain(nonce: str) -> str:
    return nonce.replace('"', '\\"')
