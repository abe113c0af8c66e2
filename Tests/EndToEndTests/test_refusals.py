"""What the proxy must refuse, and never repair: requests with 400, responses with 502.

Each row of the tables is a sentence and its bytes. Every row is delivered whole, byte by byte, and with more bytes right
behind it. Whatever the row: the proxy answers before it closes, the answer is a well-formed problem with a reference
that the log has too, no invalid byte reaches the origin (none at all, where the head is at fault), nothing behind the
fault is served, and the next client is served. The rows come from RFC 9112, from the public collections of request
smuggling (CL.TE, TE.CL, TE.TE, chunk tricks), and from what strays into a proxy's port.
"""

import time

import pytest

import strict_http
from conftest import stop_all
from journal import DEADLINE_SECONDS
from origins import ClosedByProxy, answering, check_received
from problems import check_problem
from proxy import Proxy
from raw_client import Ended, RawClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SMUGGLED = b"GET http://ORIGIN/smuggled HTTP/1.1\r\nHost: ORIGIN\r\n\r\n"
DELIVERIES = ["whole", "byte by byte", "with trailing data"]
HEAD_OVER_A_LIMIT = (431,)


def start(line: bytes) -> bytes:
    """A request with this request line."""
    return line + b"\r\nHost: ORIGIN\r\n\r\n"


def to(target: bytes, method: bytes = b"GET") -> bytes:
    return start(method + b" " + target + b" HTTP/1.1")


def get(lines: bytes) -> bytes:
    """A GET with these bytes among its field lines."""
    return b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n" + lines + b"\r\n\r\n"


def hosted(lines: bytes) -> bytes:
    """A GET whose only field lines are these."""
    return b"GET http://ORIGIN/ HTTP/1.1\r\n" + lines + b"\r\n\r\n"


def post(lines: bytes, body: bytes = b"hello") -> bytes:
    return b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n" + lines + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", body)


EMPTY_CHUNKED = b"0\r\n\r\n"

START_LINES = {
    "HTTP/0.9": b"GET /\r\n",
    "HTTP/0.9 with a full target": b"GET http://ORIGIN/\r\n",
    "a version in small letters": start(b"GET http://ORIGIN/ http/1.1"),
    "version 2.0": start(b"GET http://ORIGIN/ HTTP/2.0"),
    "version 3": start(b"GET http://ORIGIN/ HTTP/3"),
    "version 0.9, spelled out": start(b"GET http://ORIGIN/ HTTP/0.9"),
    "version 1.10": start(b"GET http://ORIGIN/ HTTP/1.10"),
    "version 01.1": start(b"GET http://ORIGIN/ HTTP/01.1"),
    "version 1": start(b"GET http://ORIGIN/ HTTP/1"),
    "version 1 with a dot and nothing behind it": start(b"GET http://ORIGIN/ HTTP/1."),
    "version with a comma": start(b"GET http://ORIGIN/ HTTP/1,1"),
    "version with a sign": start(b"GET http://ORIGIN/ HTTP/+1.1"),
    "version of another protocol": start(b"GET http://ORIGIN/ XTTP/1.1"),
    "version HTTPS": start(b"GET http://ORIGIN/ HTTPS/1.1"),
    "version without a slash": start(b"GET http://ORIGIN/ HTTP1.1"),
    "space within the version": start(b"GET http://ORIGIN/ HTTP /1.1"),
    "space behind the version": start(b"GET http://ORIGIN/ HTTP/1.1 "),
    "a word behind the version": start(b"GET http://ORIGIN/ HTTP/1.1 x"),
    "NUL behind the version": start(b"GET http://ORIGIN/ HTTP/1.1\0"),
    "two versions": start(b"GET http://ORIGIN/ HTTP/1.1 HTTP/1.1"),
    "two spaces behind the method": start(b"GET  http://ORIGIN/ HTTP/1.1"),
    "two spaces before the version": start(b"GET http://ORIGIN/  HTTP/1.1"),
    "a tab behind the method": start(b"GET\thttp://ORIGIN/ HTTP/1.1"),
    "a tab before the version": start(b"GET http://ORIGIN/\tHTTP/1.1"),
    "a form feed before the version": start(b"GET http://ORIGIN/\x0cHTTP/1.1"),
    "a space before the method": start(b" GET http://ORIGIN/ HTTP/1.1"),
    "bare LF behind the request line": b"GET http://ORIGIN/ HTTP/1.1\nHost: ORIGIN\r\n\r\n",
    "bare LF everywhere": b"GET http://ORIGIN/ HTTP/1.1\nHost: ORIGIN\n\n",
    "bare CR behind the request line": b"GET http://ORIGIN/ HTTP/1.1\rHost: ORIGIN\r\n\r\n",
    "CR CR LF behind the request line": b"GET http://ORIGIN/ HTTP/1.1\r\r\nHost: ORIGIN\r\n\r\n",
    "bare LF before the request line": b"\nGET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
    "bare CR before the request line": b"\rGET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
    "NUL before the request line": b"\0GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
    "a byte order mark before the request line": b"\xef\xbb\xbfGET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
    "a line of the method alone": start(b"GET"),
    "only spaces": start(b"   "),
}

METHODS = {
    "no method": start(b" http://ORIGIN/ HTTP/1.1"),
    "a method with a colon": to(b"http://ORIGIN/", b"GET:"),
    "a method with a slash": to(b"http://ORIGIN/", b"GET/"),
    "a method in brackets": to(b"http://ORIGIN/", b"(GET)"),
    "a method in quotes": to(b"http://ORIGIN/", b'"GET"'),
    "a method with a comma": to(b"http://ORIGIN/", b"GET,POST"),
    "a method with an at sign": to(b"http://ORIGIN/", b"G@T"),
    "a method with NUL": to(b"http://ORIGIN/", b"GET\0"),
    "a method of UTF-8": to(b"http://ORIGIN/", "GÉT".encode()),
    "a method with a vertical tab": to(b"http://ORIGIN/", b"GET\x0b"),
}

TARGETS = {
    "origin-form, which is not for proxies": to(b"/"),
    "a relative target": to(b"index.html"),
    "one slash behind the scheme": to(b"http:/ORIGIN/"),
    "no slash behind the scheme": to(b"http:ORIGIN/"),
    "no scheme": to(b"//ORIGIN/"),
    "an empty scheme": to(b"://ORIGIN/"),
    "a scheme with a space": to(b"ht tp://ORIGIN/"),
    "a scheme that begins with a digit": to(b"1http://ORIGIN/"),
    "another scheme: ftp": to(b"ftp://ORIGIN/"),
    "another scheme: file": to(b"file:///etc/passwd"),
    "another scheme: gopher": to(b"gopher://ORIGIN/"),
    "another scheme: javascript": to(b"javascript:alert(1)"),
    "an empty host": to(b"http:///"),
    "an empty host with a port": to(b"http://:80/"),
    "nothing behind the slashes": to(b"http://"),
    "a user": to(b"http://user@ORIGIN/"),
    "a user and a password": to(b"http://user:word@ORIGIN/"),
    "an empty user": to(b"http://@ORIGIN/"),
    "a host that looks like a user of another": to(b"http://ORIGIN@127.0.0.1:9/"),
    "a backslash behind the host": to(b"http://ORIGIN\\@127.0.0.1:9/"),
    "a port that is a word": to(b"http://127.0.0.1:http/"),
    "a port with a sign": to(b"http://127.0.0.1:+80/"),
    "a negative port": to(b"http://127.0.0.1:-80/"),
    "a port above 65535": to(b"http://127.0.0.1:65536/"),
    "a port that overflows": to(b"http://127.0.0.1:4294967376/"),
    "two ports": to(b"http://127.0.0.1:80:80/"),
    "a port with a letter behind it": to(b"http://127.0.0.1:80a/"),
    "IPv6 without its bracket": to(b"http://[::1/"),
    "IPv6 without brackets": to(b"http://::1/"),
    "IPv6 with a letter behind the bracket": to(b"http://[::1]x/"),
    "IPv6 that is none": to(b"http://[::g]/"),
    "IPv6 with a zone": to(b"http://[fe80::1%25lo]/"),
    "an empty bracket": to(b"http://[]/"),
    "a future literal": to(b"http://[v1.a]/"),
    "a host with a percent-encoded letter": to(b"http://%6cocalhost/"),
    "a host with a percent-encoded NUL": to(b"http://localhost%00/"),
    "a host with a percent-encoded slash": to(b"http://localhost%2f/"),
    "a host of UTF-8": to("http://exämple.test/".encode()),
    "a host with an empty label": to(b"http://a..example/"),
    "a fragment": to(b"http://ORIGIN/#top"),
    "a fragment right behind the host": to(b"http://ORIGIN#top"),
    "a space in the path": to(b"http://ORIGIN/a b"),
    "NUL in the path": to(b"http://ORIGIN/a\0b"),
    "DEL in the path": to(b"http://ORIGIN/a\x7fb"),
    "UTF-8 in the path": to("http://ORIGIN/é".encode()),
    "Latin-1 in the query": to(b"http://ORIGIN/?\xe9"),
    "* with another method than OPTIONS": to(b"*"),
    "host and port with another method than CONNECT": to(b"ORIGIN"),
    "an empty target": start(b"GET  HTTP/1.1"),
    "CONNECT to a URL": to(b"http://ORIGIN/", b"CONNECT"),
    "CONNECT to a path": to(b"/", b"CONNECT"),
    "CONNECT to *": to(b"*", b"CONNECT"),
    "CONNECT with a path behind the port": to(b"ORIGIN/x", b"CONNECT"),
    "CONNECT without a port": to(b"127.0.0.1", b"CONNECT"),
    "CONNECT with an empty port": to(b"127.0.0.1:", b"CONNECT"),
    "CONNECT without a host": to(b":443", b"CONNECT"),
    "CONNECT to port 0": to(b"127.0.0.1:0", b"CONNECT"),
    "CONNECT to a port above 65535": to(b"127.0.0.1:65979", b"CONNECT"),
    "CONNECT to two ports": to(b"127.0.0.1:443:443", b"CONNECT"),
    "CONNECT with a user": to(b"user@ORIGIN", b"CONNECT"),
    "CONNECT to IPv6 without brackets": to(b"::1:443", b"CONNECT"),
    "CONNECT with a query": to(b"ORIGIN?x", b"CONNECT"),
}

HOSTS = {
    "no Host": hosted(b"Accept: */*"),
    "two Hosts that differ": hosted(b"Host: ORIGIN\r\nHost: 127.0.0.1:9"),
    "two Hosts that are the same": hosted(b"Host: ORIGIN\r\nHost: ORIGIN"),
    "two Hosts, one in other letters": hosted(b"Host: ORIGIN\r\nhOST: ORIGIN"),
    "two Hosts far apart": hosted(b"Host: ORIGIN\r\nAccept: */*\r\nX: y\r\nHost: b"),
    "Host with a space": hosted(b"Host: a b"),
    "Host with a tab": hosted(b"Host: a\tb"),
    "Host with a path": hosted(b"Host: ORIGIN/path"),
    "Host with a query": hosted(b"Host: ORIGIN?x"),
    "Host with a fragment": hosted(b"Host: ORIGIN#x"),
    "Host with a user": hosted(b"Host: user@ORIGIN"),
    "Host with a scheme": hosted(b"Host: http://ORIGIN/"),
    "Host with a comma and another host": hosted(b"Host: ORIGIN, b"),
    "Host with a port that is a word": hosted(b"Host: a:http"),
    "Host with two ports": hosted(b"Host: a:80:80"),
    "Host with a port above 65535": hosted(b"Host: a:65536"),
    "Host with an open bracket": hosted(b"Host: [::1"),
    "Host with IPv6 without brackets": hosted(b"Host: ::1"),
    "Host with a backslash": hosted(b"Host: a\\b"),
    "Host of UTF-8": hosted("Host: exämple.test".encode()),
    "Host with NUL": hosted(b"Host: a\0"),
    "Host with a space before the colon": hosted(b"Host : ORIGIN"),
    "Host that is folded": hosted(b"Host: ORIGIN\r\n /x"),
    "Host in a second line after a bare LF": hosted(b"Host: ORIGIN\nHost: b"),
    "CONNECT of HTTP/1.1 without Host": b"CONNECT ORIGIN HTTP/1.1\r\n\r\n",
    "CONNECT with two Hosts": b"CONNECT ORIGIN HTTP/1.1\r\nHost: ORIGIN\r\nHost: b\r\n\r\n",
}

FIELDS = {
    "space before the colon": get(b"X-A : b"),
    "tab before the colon": get(b"X-A\t: b"),
    "a folded line": get(b"X-A: b\r\n c"),
    "a line folded by a tab": get(b"X-A: b\r\n\tc"),
    "a folded line that is empty": get(b"X-A: b\r\n "),
    "a first line that begins with a space": hosted(b" X-A: b\r\nHost: ORIGIN"),
    "a line without a colon": get(b"X-A"),
    "an empty name": get(b": b"),
    "a name with a space": get(b"X A: b"),
    "a name in brackets": get(b"X(A): b"),
    "a name with a quote": get(b'X"A: b'),
    "a name with NUL": get(b"X\0A: b"),
    "a name with DEL": get(b"X\x7fA: b"),
    "a name of UTF-8": get("Xé: b".encode()),
    "a name with a slash": get(b"X/A: b"),
    "NUL in a value": get(b"X-A: b\0c"),
    "BEL in a value": get(b"X-A: b\x07c"),
    "ESC in a value": get(b"X-A: \x1b[0m"),
    "DEL in a value": get(b"X-A: b\x7fc"),
    "a vertical tab in a value": get(b"X-A: b\x0bc"),
    "bare CR in a value": get(b"X-A: b\rc"),
    "bare CR that would begin a field": get(b"X-A: b\rX-B: c"),
    "bare LF that would begin a field": get(b"X-A: b\nX-B: c"),
    "bare LF behind a field": get(b"X-A: b\nX-B: c\r\nX-C: d"),
    "CR CR LF behind a field": get(b"X-A: b\r"),
    "bare LF as the empty line": b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\n",
    "CR CR LF as the empty line": b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\r\n",
    "bare CR as the empty line": b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\rX",
    "a request line among the fields": get(b"GET http://ORIGIN/ HTTP/1.1"),
}

LENGTHS = {
    "Content-Length with a plus": post(b"Content-Length: +5"),
    "Content-Length with a minus": post(b"Content-Length: -5"),
    "Content-Length -0": post(b"Content-Length: -0", b""),
    "Content-Length with a space inside": post(b"Content-Length: 5 5"),
    "Content-Length of hexadecimal digits": post(b"Content-Length: 0x5"),
    "Content-Length with a letter": post(b"Content-Length: 5a"),
    "Content-Length with a fraction": post(b"Content-Length: 5.0"),
    "Content-Length with an exponent": post(b"Content-Length: 5e0"),
    "Content-Length with an underscore": post(b"Content-Length: 1_0"),
    "Content-Length with a semicolon": post(b"Content-Length: 5;"),
    "Content-Length in quotes": post(b'Content-Length: "5"'),
    "Content-Length that is a word": post(b"Content-Length: five"),
    "Content-Length that is empty": post(b"Content-Length:"),
    "Content-Length of blanks": post(b"Content-Length:  \t "),
    "Content-Length of digits that are not ASCII": post("Content-Length: ５".encode()),
    "Content-Length of superscript digits": post(b"Content-Length: \xb2"),
    "Content-Length with NUL": post(b"Content-Length: 5\0"),
    "Content-Length with a vertical tab": post(b"Content-Length: \x0b5"),
    "Content-Length as a list that differs": post(b"Content-Length: 5, 6"),
    "Content-Length as a list with an empty member": post(b"Content-Length: 5,"),
    "Content-Length twice, different": post(b"Content-Length: 5\r\nContent-Length: 6"),
    "Content-Length twice, one of them 0": post(b"Content-Length: 0\r\nContent-Length: 5"),
    "Content-Length twice, one malformed": post(b"Content-Length: 5\r\nContent-Length: x"),
    "Content-Length of 2^63": post(b"Content-Length: 9223372036854775808"),
    "Content-Length of 2^64": post(b"Content-Length: 18446744073709551616"),
    "Content-Length of 2^64 and 5": post(b"Content-Length: 18446744073709551621"),
    "Content-Length of a hundred digits": post(b"Content-Length: " + b"9" * 100),
    "Content-Length with a space before the colon": post(b"Content-Length : 5"),
    "Content-Length folded": post(b"Content-Length:\r\n 5"),
    "Content-Length behind a bare LF": post(b"X: y\nContent-Length: 5"),
    "Content-Length behind a bare CR": post(b"X: y\rContent-Length: 5"),
    "a malformed Content-Length on a GET": get(b"Content-Length: x"),
    "a malformed Content-Length on HTTP/1.0": b"POST http://ORIGIN/ HTTP/1.0\r\nContent-Length: x\r\n\r\nhello",
}

CODINGS = {
    "CL.TE: Content-Length before Transfer-Encoding": post(
        b"Content-Length: 6\r\nTransfer-Encoding: chunked", b"0\r\n\r\nG"
    ),
    "TE.CL: Transfer-Encoding before Content-Length": post(
        b"Transfer-Encoding: chunked\r\nContent-Length: 4", b"12\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n"
    ),
    "CL.TE with a length of 0": post(b"Content-Length: 0\r\nTransfer-Encoding: chunked", EMPTY_CHUNKED),
    "Content-Length with a Transfer-Encoding that nobody knows": post(
        b"Content-Length: 5\r\nTransfer-Encoding: x"
    ),
    "Content-Length with an empty Transfer-Encoding": post(b"Content-Length: 5\r\nTransfer-Encoding:"),
    "Transfer-Encoding identity": post(b"Transfer-Encoding: identity", b""),
    "Transfer-Encoding gzip": post(b"Transfer-Encoding: gzip", b""),
    "Transfer-Encoding gzip, chunked": post(b"Transfer-Encoding: gzip, chunked", EMPTY_CHUNKED),
    "Transfer-Encoding chunked, gzip": post(b"Transfer-Encoding: chunked, gzip", EMPTY_CHUNKED),
    "Transfer-Encoding chunked, identity": post(b"Transfer-Encoding: chunked, identity", EMPTY_CHUNKED),
    "Transfer-Encoding identity, chunked": post(b"Transfer-Encoding: identity, chunked", EMPTY_CHUNKED),
    "Transfer-Encoding chunked, chunked": post(b"Transfer-Encoding: chunked, chunked", EMPTY_CHUNKED),
    "Transfer-Encoding with a comma before": post(b"Transfer-Encoding: , chunked", EMPTY_CHUNKED),
    "Transfer-Encoding with a comma behind": post(b"Transfer-Encoding: chunked,", EMPTY_CHUNKED),
    "Transfer-Encoding xchunked": post(b"Transfer-Encoding: xchunked", EMPTY_CHUNKED),
    "Transfer-Encoding chunke": post(b"Transfer-Encoding: chunke", EMPTY_CHUNKED),
    "Transfer-Encoding chunked with a parameter": post(b"Transfer-Encoding: chunked;q=1", EMPTY_CHUNKED),
    "Transfer-Encoding in quotes": post(b'Transfer-Encoding: "chunked"', EMPTY_CHUNKED),
    "Transfer-Encoding in single quotes": post(b"Transfer-Encoding: 'chunked'", EMPTY_CHUNKED),
    "Transfer-Encoding of two words": post(b"Transfer-Encoding: chunked chunked", EMPTY_CHUNKED),
    "Transfer-Encoding that is empty": post(b"Transfer-Encoding:", EMPTY_CHUNKED),
    "Transfer-Encoding with NUL": post(b"Transfer-Encoding: chunked\0", EMPTY_CHUNKED),
    "Transfer-Encoding with a vertical tab": post(b"Transfer-Encoding: \x0bchunked", EMPTY_CHUNKED),
    "Transfer-Encoding with a form feed": post(b"Transfer-Encoding: chunked\x0c", EMPTY_CHUNKED),
    "Transfer-Encoding with a byte above 0x7f": post(b"Transfer-Encoding: chunked\xa0", EMPTY_CHUNKED),
    "Transfer-Encoding with a bare CR": post(b"Transfer-Encoding: chu\rnked", EMPTY_CHUNKED),
    "Transfer-Encoding folded": post(b"Transfer-Encoding:\r\n chunked", EMPTY_CHUNKED),
    "Transfer-Encoding folded by a tab": post(b"Transfer-Encoding: \r\n\tchunked", EMPTY_CHUNKED),
    "Transfer-Encoding twice": post(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", EMPTY_CHUNKED
    ),
    "Transfer-Encoding twice, the second unknown": post(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: cow", EMPTY_CHUNKED
    ),
    "Transfer-Encoding twice, the first unknown": post(
        b"Transfer-Encoding: cow\r\nTransfer-Encoding: chunked", EMPTY_CHUNKED
    ),
    "Transfer-Encoding with a space before the colon": post(b"Transfer-Encoding : chunked", EMPTY_CHUNKED),
    "Transfer-Encoding with a tab before the colon": post(b"Transfer-Encoding\t: chunked", EMPTY_CHUNKED),
    "Transfer-Encoding with a vertical tab before the colon": post(
        b"Transfer-Encoding\x0b: chunked", EMPTY_CHUNKED
    ),
    "Transfer-Encoding with a space before the name": post(b" Transfer-Encoding: chunked", EMPTY_CHUNKED),
    "Transfer Encoding": post(b"Transfer Encoding: chunked", EMPTY_CHUNKED),
    "Transfer-Encoding behind a bare LF": post(b"X: y\nTransfer-Encoding: chunked", EMPTY_CHUNKED),
    "Transfer-Encoding behind a bare CR": post(b"X: y\rTransfer-Encoding: chunked", EMPTY_CHUNKED),
    "Transfer-Encoding with a Content-Length behind a bare LF": post(
        b"Transfer-Encoding: chunked\nContent-Length: 5", EMPTY_CHUNKED
    ),
    "Transfer-Encoding in HTTP/1.0": b"POST http://ORIGIN/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding and Content-Length in HTTP/1.0": (
        b"POST http://ORIGIN/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
    ),
}

STRANGERS = {
    "a TLS ClientHello": bytes.fromhex("16030100f7010000f30303") + bytes(range(256))[:240],
    "a ClientHello of SSL 2": bytes.fromhex("802e0100020015000000100100800700c0"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "SMTP": b"EHLO client.example\r\n",
    "SOCKS 5": b"\x05\x01\x00",
    "SOCKS 4": b"\x04\x01\x00\x50\x7f\x00\x00\x01user\0",
    "the PROXY protocol, version 1": b"PROXY TCP4 127.0.0.1 127.0.0.1 4000 3128\r\n" + get(b"X: y"),
    "the PROXY protocol, version 2": b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12),
    "Redis": b"*1\r\n$4\r\nPING\r\n",
    "memcached": b"get key\r\n",
    "RTSP": start(b"OPTIONS rtsp://ORIGIN/ RTSP/1.0"),
    "SIP": start(b"OPTIONS sip:user@ORIGIN SIP/2.0"),
    "a response instead of a request": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a line of JSON": b'{"jsonrpc":"2.0","method":"x"}\r\n',
    "NUL bytes": bytes(64),
    "bytes above 0x7f": b"\xff" * 64 + b"\r\n\r\n",
}

# Well-formed but for a version that is not spoken here (RFC 9110, 15.6.6).
OTHER_VERSIONS = {"version 2.0", "version 0.9, spelled out", "the preface of HTTP/2"}
HEADS = START_LINES | METHODS | TARGETS | HOSTS | FIELDS | LENGTHS | CODINGS | STRANGERS

# Here the head is right and may have been forwarded: the origin may get it, and a body that never ends.
CHUNKS = {
    "chunk size with a plus": chunked(b"+5\r\nhello\r\n0\r\n\r\n"),
    "chunk size with a minus": chunked(b"-5\r\nhello\r\n0\r\n\r\n"),
    "chunk size with a space before": chunked(b" 5\r\nhello\r\n0\r\n\r\n"),
    "chunk size with a space behind": chunked(b"5 \r\nhello\r\n0\r\n\r\n"),
    "chunk size with a tab behind": chunked(b"5\t\r\nhello\r\n0\r\n\r\n"),
    "chunk size with 0x": chunked(b"0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size with x": chunked(b"x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size with h behind": chunked(b"5h\r\nhello\r\n0\r\n\r\n"),
    "chunk size with an underscore": chunked(b"0_5\r\nhello\r\n0\r\n\r\n"),
    "chunk size that is empty": chunked(b"\r\nhello\r\n0\r\n\r\n"),
    "chunk size that is only an extension": chunked(b";a=b\r\nhello\r\n0\r\n\r\n"),
    "chunk size that is no digit": chunked(b"g\r\nhello\r\n0\r\n\r\n"),
    "chunk size with NUL": chunked(b"5\0\r\nhello\r\n0\r\n\r\n"),
    "chunk size with a comma": chunked(b"5,5\r\nhello\r\n0\r\n\r\n"),
    "chunk size of digits that are not ASCII": chunked("５\r\nhello\r\n0\r\n\r\n".encode()),
    "chunk size of 2^64": chunked(b"10000000000000000\r\nhello\r\n0\r\n\r\n"),
    "chunk size of 2^64 and 5": chunked(b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    "chunk size of 2^32 times 2^32 and 5": chunked(
        b"100000000000000000000000000000005\r\nhello\r\n0\r\n\r\n"
    ),
    "chunk size of 17 F": chunked(b"FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"),
    "chunk size with a bare LF": chunked(b"5\nhello\r\n0\r\n\r\n"),
    "chunk size with a bare CR": chunked(b"5\rhello\r\n0\r\n\r\n"),
    "chunk size with CR CR LF": chunked(b"5\r\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with a bare LF": chunked(b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with a bare CR": chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with NUL": chunked(b"5;a=\0\r\nhello\r\n0\r\n\r\n"),
    "chunk extension with a control byte in quotes": chunked(b'5;a="\x01"\r\nhello\r\n0\r\n\r\n'),
    "chunk extension of 64 KiB": chunked(b"5;" + b"a" * 65536 + b"\r\nhello\r\n0\r\n\r\n"),
    "a chunk size of 64 KiB of zeros": chunked(b"0" * 65536 + b"5\r\nhello\r\n0\r\n\r\n"),
    "chunks of one byte with extensions of a thousand": chunked(
        (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 100 + b"0\r\n\r\n"
    ),
    "data that is longer than the size": chunked(b"5\r\nhello!\r\n0\r\n\r\n"),
    "data without CRLF behind it": chunked(b"5\r\nhello0\r\n\r\n"),
    "data with a bare LF behind it": chunked(b"5\r\nhello\n0\r\n\r\n"),
    "data with a bare CR behind it": chunked(b"5\r\nhello\r0\r\n\r\n"),
    "data with LF CR behind it": chunked(b"5\r\nhello\n\r0\r\n\r\n"),
    "the last chunk with a bare LF": chunked(b"5\r\nhello\r\n0\n\r\n"),
    "the last chunk with 0x": chunked(b"5\r\nhello\r\n0x0\r\n\r\n"),
    "the last chunk with a minus": chunked(b"5\r\nhello\r\n-0\r\n\r\n"),
    "the last empty line with a bare LF": chunked(b"5\r\nhello\r\n0\r\n\n"),
    "the last empty line with CR CR LF": chunked(b"5\r\nhello\r\n0\r\n\r\r\n"),
    "a trailer without a colon": chunked(b"0\r\nX-A\r\n\r\n"),
    "a trailer with a space before the colon": chunked(b"0\r\nX-A : b\r\n\r\n"),
    "a trailer that is folded": chunked(b"0\r\nX-A: b\r\n c\r\n\r\n"),
    "a trailer with a bare LF": chunked(b"0\r\nX-A: b\nX-B: c\r\n\r\n"),
    "a trailer with a bare CR": chunked(b"0\r\nX-A: b\rX-B: c\r\n\r\n"),
    "a trailer with NUL": chunked(b"0\r\nX-A: \0\r\n\r\n"),
    "a trailer with an empty name": chunked(b"0\r\n: b\r\n\r\n"),
    "a request line as a trailer": chunked(b"0\r\nGET http://ORIGIN/ HTTP/1.1\r\n\r\n"),
}

# A valid request first, which is answered, and then what is none.
SECOND_REQUESTS = {
    "a body that a GET did not announce": get(b"X: y") + b"hello\r\n\r\n",
    "a body that is longer than Content-Length": post(b"Content-Length: 4", b"hello\r\n\r\n"),
    "a chunk behind the last": chunked(b"0\r\n\r\n") + b"5\r\nhello\r\n0\r\n\r\n",
    "a malformed request behind a good one": get(b"X: y") + get(b"X : y"),
    "a ClientHello behind a good request": get(b"X: y") + STRANGERS["a TLS ClientHello"],
    "a bare LF behind a good request": get(b"X: y") + b"\n" + get(b"X: y"),
}

# RFC 9112 lets a recipient choose: refuse with 400, or forward exactly one valid request.
EITHER = {
    "version 1.2, a later minor version": start(b"GET http://ORIGIN/ HTTP/1.2"),
    "Content-Length as a list that agrees": post(b"Content-Length: 5, 5"),
    "Content-Length twice, the same": post(b"Content-Length: 5\r\nContent-Length: 5"),
    "Content-Length with leading zeros": post(b"Content-Length: 0005"),
    "a chunk size with leading zeros": chunked(b"0005\r\nhello\r\n0\r\n\r\n"),
    "spaces around a chunk extension": chunked(b'5 ; a = "b"\r\nhello\r\n0\r\n\r\n'),
    "Content-Length in a trailer": chunked(b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n"),
    "Transfer-Encoding in a trailer": chunked(b"5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "Host in a trailer": chunked(b"5\r\nhello\r\n0\r\nHost: b\r\n\r\n"),
    "Connection naming Content-Length": post(b"Connection: content-length\r\nContent-Length: 5"),
    "Connection naming Transfer-Encoding": post(
        b"Connection: transfer-encoding\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "Connection naming Host": get(b"Connection: host"),
    "Connection naming Via": get(b"Connection: via"),
    "Connection that is no list of tokens": get(b"Connection: close;x, (a)"),
    "an empty Host where the target has one": hosted(b"Host:"),
    "Expect that nobody knows": get(b"Expect: 200-ok"),
    "a body on TRACE": b"TRACE http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 5\r\n\r\nhello",
    "a Max-Forwards that is no number": to(b"http://ORIGIN/", b"OPTIONS")[:-2] + b"Max-Forwards: x\r\n\r\n",
}

OVERSIZED = {
    "a request line above header_bytes": to(b"http://ORIGIN/" + b"a" * 70_000),
    "a method above header_bytes": to(b"http://ORIGIN/", b"G" * 70_000),
    "a value above header_bytes": get(b"X: " + b"a" * 70_000),
    "a name above header_bytes": get(b"X" * 70_000 + b": a"),
    "too many fields": get(b"\r\n".join(b"X%d: y" % number for number in range(200))),
    "a line that never ends": b"GET http://ORIGIN/" + b"a" * 200_000,
}


def deliver(client: RawClient, data: bytes, how: str, trailing: bytes) -> None:
    if how == "byte by byte":
        client.send_bytewise(data)
    else:
        client.send(data + (trailing if how == "with trailing data" else b""))


def expect_refusal(
    proxy, client: RawClient, origin, statuses, served: int = 0, body_at_fault: bool = False
) -> None:
    """Reads to the end, and checks the answer, the log, and what had reached the origin."""
    assert (
        client.wait_for_end() == "closed"
    ), f"reset instead of closed, answers may be lost: {bytes(client.received)!r}"
    stream = client.check()
    assert stream.ended == "between messages", f"the answer was cut short: {bytes(client.received)!r}"
    statuses_seen = [message.status for message in stream.messages if message.status >= 200]
    assert len(statuses_seen) == served + 1, f"{statuses_seen} is not {served} answers and one refusal"
    assert statuses_seen[:served] == [200] * served
    refusal = stream.messages[-1]
    assert refusal.status in statuses, f"{refusal.status} {refusal.reason!r}, not {statuses}"
    problem = check_problem(refusal, refusal.status)
    assert b"close" in refusal.options("Connection"), "a refusal that ends the connection must say so"
    assert proxy.access_of(problem.reference)["status"] == refusal.status
    reached = [check_received(bytes(connection.received)) for connection in origin.connections]
    whole = [message for stream in reached for message in stream.messages]
    assert len(whole) == served, f"the origin got {len(whole)} whole requests, not {served}: {whole}"
    assert not any(b"smuggled" in message.target for message in whole)
    if not body_at_fault:
        assert all(stream.ended == "between messages" for stream in reached), f"bytes leaked: {reached}"


def expect_service(raw_client, proxy, origin) -> None:
    """The next client is served."""
    request = b"GET http://%s/next HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (
        (origin.authority.encode(),) * 2
    )
    assert raw_client(proxy).exchange(request).body == b"ok"


@pytest.fixture
def refused(plain_proxy, raw_origin, raw_client):
    """A function that delivers a row and checks everything that holds for every refusal."""

    def check(data: bytes, how: str, statuses=(400,), served: int = 0, body_at_fault: bool = False) -> None:
        origin = raw_origin(answering(OK))
        authority = origin.authority.encode()
        client = raw_client(plain_proxy)
        deliver(client, data.replace(b"ORIGIN", authority), how, SMUGGLED.replace(b"ORIGIN", authority) * 3)
        expect_refusal(plain_proxy, client, origin, statuses, served, body_at_fault)
        expect_service(raw_client, plain_proxy, origin)

    return check


def test_there_are_more_rows_than_the_73_of_the_comparison():
    assert len(HEADS) + len(CHUNKS) + len(SECOND_REQUESTS) >= 73


@pytest.mark.parametrize("how", DELIVERIES)
@pytest.mark.parametrize("name", HEADS)
def test_a_malformed_head_is_refused(name, how, refused):
    refused(HEADS[name], how, statuses=(505,) if name in OTHER_VERSIONS else (400,))


@pytest.mark.parametrize("how", DELIVERIES)
@pytest.mark.parametrize("name", CHUNKS)
def test_a_malformed_chunked_body_is_refused(name, how, refused):
    refused(CHUNKS[name], how, body_at_fault=True)


@pytest.mark.parametrize("how", DELIVERIES)
@pytest.mark.parametrize("name", SECOND_REQUESTS)
def test_a_malformed_second_request_is_refused_after_the_first_is_served(name, how, refused):
    refused(SECOND_REQUESTS[name], how, served=1)


@pytest.mark.parametrize("how", ["whole", "with trailing data"])
@pytest.mark.parametrize("name", OVERSIZED)
def test_a_head_above_a_limit_is_refused(name, how, refused):
    refused(OVERSIZED[name], how, statuses=HEAD_OVER_A_LIMIT)


@pytest.mark.parametrize("how", ["whole", "byte by byte"])
@pytest.mark.parametrize("name", EITHER)
def test_what_may_be_refused_or_served_is_one_of_both(name, how, plain_proxy, raw_origin, raw_client):
    origin = raw_origin(answering(OK))
    client = raw_client(plain_proxy)
    deliver(client, EITHER[name].replace(b"ORIGIN", origin.authority.encode()), how, b"")
    answer = client.answer()
    if answer.status == 200:
        assert [message.end for message in origin.requests()] == [len(origin.connections[0].received)]
    else:
        assert client.wait_for_end() == "closed"
        check_problem(answer, 417 if answer.status == 417 else 400)
        assert not any(
            check_received(bytes(connection.received)).messages for connection in origin.connections
        )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HEAD / HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", id="its target"),
        pytest.param(b"HEAD http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nX : y\r\n\r\n", id="a field"),
        pytest.param(b"HEAD http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nHost: ORIGIN\r\n\r\n", id="its Host"),
        pytest.param(
            b"HEAD http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: x\r\n\r\n", id="its length"
        ),
    ],
)
def test_a_refused_head_request_gets_no_body(data, plain_proxy, raw_client):
    """Whatever else was wrong, HEAD was understood, and no client expects a body of it (RFC 9110 §9.3.2)."""
    client = raw_client(plain_proxy)
    client.looked_at = False  # the checker takes what is no request for a GET
    client.send(data.replace(b"ORIGIN", b"127.0.0.1:9"))
    assert client.wait_for_end() == "closed"
    head, _, body = bytes(client.received).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"ref=" in head
    assert body == b""


# Every byte value that is not allowed, in every place

TCHAR = frozenset(b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
CONTROLS = frozenset(range(32)) | {127}
FORBIDDEN_BYTES = {
    "the method": (b"GE\xaaT http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n", frozenset(range(256)) - TCHAR),
    "the path": (
        b"GET http://ORIGIN/a\xaab HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' #"<>'),
    ),
    "the query": (
        b"GET http://ORIGIN/?\xaab HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' #"<>'),
    ),
    "the host of the target": (
        b"GET http://a\xaab.test/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' "<>@[\\]^`{|}%'),
    ),
    "the version": (
        b"GET http://ORIGIN/ HTTP/1\xaa1\r\nHost: ORIGIN\r\n\r\n",
        frozenset(range(256)) - set(b"."),
    ),
    "Host": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: a\xaab\r\n\r\n",
        CONTROLS | set(range(127, 256)) | set(b' "#/<>?@[\\]^`{|}'),
    ),
    "a field name": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nX\xaaA: b\r\n\r\n",
        frozenset(range(256)) - TCHAR - set(b":"),
    ),
    "a field value": (
        b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nX-A: b\xaac\r\n\r\n",
        CONTROLS - set(b"\t"),
    ),
    "Content-Length": (
        b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 1\xaa\r\n\r\n",
        frozenset(range(256)) - set(b"0123456789 \t"),
    ),
}


@pytest.mark.parametrize("where", FORBIDDEN_BYTES)
def test_every_byte_that_is_not_allowed_is_refused(where, plain_proxy, raw_origin, raw_client):
    template, forbidden = FORBIDDEN_BYTES[where]
    origin = raw_origin(answering(OK))
    wrong = {}
    for byte in sorted(forbidden):
        client = raw_client(plain_proxy)
        client.send(template.replace(b"\xaa", bytes([byte])).replace(b"ORIGIN", origin.authority.encode()))
        ended = client.wait_for_end()
        if ended != "closed" or not bytes(client.received).startswith(b"HTTP/1.1 400 "):
            wrong[byte] = (ended, bytes(client.received[:60]))
        client.close()
    assert not wrong, f"bytes that were not refused with 400: {wrong}"
    assert not any(connection.received for connection in origin.connections)


# Requests that are cut short

WHOLE = {
    "a GET": get(b"X-A: b"),
    "a sized POST": post(b"Content-Length: 5"),
    "a chunked POST with a trailer": chunked(b"5;a=b\r\nhello\r\n3\r\n!!!\r\n0\r\nX-Sum: 1\r\n\r\n"),
    "a CONNECT": b"CONNECT ORIGIN HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_request_that_is_cut_short_is_answered_and_leaves_a_valid_stream(
    name, plain_proxy, raw_origin, raw_client
):
    """The client says half a request and closes its side: it is told, and the origin gets no whole request."""
    origin = raw_origin(answering(OK))
    data = WHOLE[name].replace(b"ORIGIN", origin.authority.encode())
    unanswered = []
    for length in range(1, len(data)):
        client = raw_client(plain_proxy)
        client.send(data[:length])
        client.half_close()
        client.wait_for_end()
        if not bytes(client.received).startswith(b"HTTP/1.1 400 "):
            unanswered.append((data[:length], client.ended, bytes(client.received[:60])))
        client.close()
    assert (
        not unanswered
    ), f"{len(unanswered)} of {len(data) - 1} not answered with 400, the first: {unanswered[0]}"
    whole = [check_received(bytes(connection.received)).messages for connection in origin.connections]
    assert not any(whole), "half a request became a whole one"


@pytest.mark.parametrize("name", WHOLE)
def test_a_client_that_resets_within_a_request_leaves_a_valid_stream(
    name, plain_proxy, raw_origin, raw_client
):
    origin = raw_origin(answering(OK))
    data = WHOLE[name].replace(b"ORIGIN", origin.authority.encode())
    for length in range(1, len(data)):
        client = raw_client(plain_proxy)
        client.send(data[:length])
        client.reset()
    expect_service(raw_client, plain_proxy, origin)


# Responses: an upstream that says it gets 502 said to the client, and its connection closed


def response(lines: bytes, body: bytes = b"hello", status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return status + b"\r\n" + lines + (b"\r\n" if lines else b"") + b"\r\n" + body


def sized(status: bytes) -> bytes:
    return response(b"Content-Length: 5", status=status)


RESPONSE_HEADS = {
    "HTTP/0.9": b"<html>hello</html>\r\n\r\n",
    "version 2": sized(b"HTTP/2 200 OK"),
    "version 2.0": sized(b"HTTP/2.0 200 OK"),
    "version 1.10": sized(b"HTTP/1.10 200 OK"),
    "a version in small letters": sized(b"http/1.1 200 OK"),
    "a version of another protocol": sized(b"ICY 200 OK"),
    "no space behind the version": sized(b"HTTP/1.1200 OK"),
    "two spaces behind the version": sized(b"HTTP/1.1  200 OK"),
    "a tab behind the version": sized(b"HTTP/1.1\t200 OK"),
    "a status of two digits": sized(b"HTTP/1.1 20 OK"),
    "a status of four digits": sized(b"HTTP/1.1 2000 OK"),
    "a status with a letter": sized(b"HTTP/1.1 2x0 OK"),
    "a status with a sign": sized(b"HTTP/1.1 +20 OK"),
    "a negative status": sized(b"HTTP/1.1 -200 OK"),
    "a status below 100": sized(b"HTTP/1.1 099 OK"),
    "no status": sized(b"HTTP/1.1 OK"),
    "a letter behind the status": sized(b"HTTP/1.1 200OK"),
    "NUL in the reason": sized(b"HTTP/1.1 200 O\0K"),
    "ESC in the reason": sized(b"HTTP/1.1 200 \x1b[31mOK"),
    "bare CR in the reason": sized(b"HTTP/1.1 200 O\rK"),
    "bare LF behind the status line": b"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello",
    "bare LF everywhere": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "bare CR behind the status line": b"HTTP/1.1 200 OK\rContent-Length: 5\r\n\r\nhello",
    "CR CR LF behind the status line": b"HTTP/1.1 200 OK\r\r\nContent-Length: 5\r\n\r\nhello",
    "a space before the status line": sized(b" HTTP/1.1 200 OK"),
    "a TLS alert": b"\x15\x03\x01\x00\x02\x02\x46" * 4,
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "SMTP": b"220 mail.example ESMTP\r\n",
    "a request instead of a response": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "space before the colon": response(b"X-A : b\r\nContent-Length: 5"),
    "tab before the colon": response(b"X-A\t: b\r\nContent-Length: 5"),
    "a folded line": response(b"X-A: b\r\n c\r\nContent-Length: 5"),
    "a first line that begins with a space": response(b" X-A: b\r\nContent-Length: 5"),
    "a line without a colon": response(b"X-A\r\nContent-Length: 5"),
    "an empty name": response(b": b\r\nContent-Length: 5"),
    "a name with a space": response(b"X A: b\r\nContent-Length: 5"),
    "a name with NUL": response(b"X\0A: b\r\nContent-Length: 5"),
    "a name of UTF-8": response("Xé: b\r\nContent-Length: 5".encode()),
    "NUL in a value": response(b"X-A: b\0c\r\nContent-Length: 5"),
    "ESC in a value": response(b"X-A: \x1b[0m\r\nContent-Length: 5"),
    "DEL in a value": response(b"X-A: b\x7fc\r\nContent-Length: 5"),
    "bare CR in a value": response(b"X-A: b\rc\r\nContent-Length: 5"),
    "bare CR that would begin a field": response(b"X-A: b\rSet-Cookie: c\r\nContent-Length: 5"),
    "bare LF that would begin a field": response(b"X-A: b\nSet-Cookie: c\r\nContent-Length: 5"),
    "bare LF as the empty line": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\nhello",
    "CR CR LF as the empty line": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\r\nhello",
    "Content-Length with a plus": response(b"Content-Length: +5"),
    "Content-Length with a minus": response(b"Content-Length: -5"),
    "Content-Length with a space inside": response(b"Content-Length: 5 5"),
    "Content-Length of hexadecimal digits": response(b"Content-Length: 0x5"),
    "Content-Length with a letter": response(b"Content-Length: 5a"),
    "Content-Length that is empty": response(b"Content-Length:"),
    "Content-Length of 2^64 and 5": response(b"Content-Length: 18446744073709551621"),
    "Content-Length as a list that differs": response(b"Content-Length: 5, 6"),
    "Content-Length twice, different": response(b"Content-Length: 5\r\nContent-Length: 6"),
    "Content-Length with a space before the colon": response(b"Content-Length : 5"),
    "Content-Length folded": response(b"Content-Length:\r\n 5"),
    "Content-Length with Transfer-Encoding": response(
        b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "Transfer-Encoding with Content-Length": response(
        b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"5\r\nhello\r\n0\r\n\r\n"
    ),
    "Transfer-Encoding identity": response(b"Transfer-Encoding: identity"),
    "Transfer-Encoding gzip, chunked": response(b"Transfer-Encoding: gzip, chunked", EMPTY_CHUNKED),
    "Transfer-Encoding chunked, gzip": response(b"Transfer-Encoding: chunked, gzip", EMPTY_CHUNKED),
    "Transfer-Encoding chunked, chunked": response(b"Transfer-Encoding: chunked, chunked", EMPTY_CHUNKED),
    "Transfer-Encoding xchunked": response(b"Transfer-Encoding: xchunked", EMPTY_CHUNKED),
    "Transfer-Encoding with a vertical tab": response(b"Transfer-Encoding: \x0bchunked", EMPTY_CHUNKED),
    "Transfer-Encoding that is empty": response(b"Transfer-Encoding:", EMPTY_CHUNKED),
    "Transfer-Encoding twice": response(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", EMPTY_CHUNKED
    ),
    "Transfer-Encoding with a space before the colon": response(
        b"Transfer-Encoding : chunked", EMPTY_CHUNKED
    ),
    "Transfer-Encoding in HTTP/1.0": response(
        b"Transfer-Encoding: chunked", EMPTY_CHUNKED, b"HTTP/1.0 200 OK"
    ),
    "101 that nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a malformed 103 before the answer": b"HTTP/1.1 103 Early\r\nLink : x\r\n\r\n"
    + sized(b"HTTP/1.1 200 OK"),
    "garbage behind a 100": b"HTTP/1.1 100 Continue\r\n\r\nhello\r\n\r\n" + sized(b"HTTP/1.1 200 OK"),
}

RESPONSE_CHUNKS = {
    name: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data.partition(b"\r\n\r\n")[2]
    for name, data in CHUNKS.items()
}

SECRET_BEHIND = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled"


def saying(data: bytes, how: str):
    """A script for an origin that answers its first request with this, in that delivery, and waits for the end."""

    def script(connection) -> None:
        connection.read_request()
        if connection.number > 0:
            connection.send(OK)
            connection.wait_for_end()
            return
        try:
            if how == "byte by byte":
                connection.send_bytewise(data)
            else:
                connection.send(data + (SECRET_BEHIND if how == "with trailing data" else b""))
            connection.wait_for_end()
        except ClosedByProxy:
            pass
        connection.ended = connection.ended or "reset"

    return script


def ask(raw_client, proxy, origin) -> RawClient:
    client = raw_client(proxy)
    client.send(b"GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n" % ((origin.authority.encode(),) * 2))
    return client


@pytest.fixture(scope="module")
def rejecting_proxies(sallyport_binary, tmp_path_factory):
    policy = '[defaults.response]\nmalformed = "reject"\n'
    running = [Proxy.start(tmp_path_factory.mktemp("rejecting"), policy=policy)]
    yield running
    stop_all(running)


@pytest.fixture
def rejecting_proxy(rejecting_proxies) -> Proxy:
    """A proxy that mends no head of a response; test_odd_responses.py says what one that mends takes."""
    proxy = rejecting_proxies[0]
    proxy.test_begins = len(proxy.log.snapshot())
    yield proxy
    assert proxy.process.poll() is None


@pytest.mark.parametrize("how", DELIVERIES)
@pytest.mark.parametrize("name", RESPONSE_HEADS)
def test_a_malformed_response_head_becomes_502(name, how, rejecting_proxy, raw_origin, raw_client):
    origin = raw_origin(saying(RESPONSE_HEADS[name], how))
    client = ask(raw_client, rejecting_proxy, origin)
    answer = client.answer()
    problem = check_problem(answer, 502)
    assert rejecting_proxy.access_of(problem.reference)["status"] == 502
    origin.wait_for("done", 0)
    if b"close" in answer.options("Connection"):
        assert client.wait_for_end() == "closed"
        assert client.unread() == b""
    expect_service(raw_client, rejecting_proxy, origin)


@pytest.mark.parametrize("how", DELIVERIES)
@pytest.mark.parametrize("name", RESPONSE_CHUNKS)
def test_a_malformed_chunked_response_never_looks_whole(name, how, plain_proxy, raw_origin, raw_client):
    """502 where nothing had been sent; else the answer is cut short and the connection closed."""
    origin = raw_origin(saying(RESPONSE_CHUNKS[name], how))
    client = ask(raw_client, plain_proxy, origin)
    expect_502_or_cut_short(client)
    assert b"smuggled" not in client.received
    origin.wait_for("done", 0)
    line = plain_proxy.access(lambda line: line["upstream"] == origin.authority)
    assert line["outcome"] != "done", "the log must say that the answer was malformed"
    expect_service(raw_client, plain_proxy, origin)


def expect_502_or_cut_short(client: RawClient) -> None:
    """A broken body: a problem where the head had not gone out, else the client's connection ends within the message."""
    try:
        answer = client.answer()
    except Ended:
        assert bytes(client.received).startswith(b"HTTP/1.1 200 ") and not client.check().messages
    else:
        check_problem(answer, 502)


CUT_RESPONSES = {
    "nothing at all": b"",
    "half a status line": b"HTTP/1.1 20",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a head without its empty line": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
    "only a 100": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("name", CUT_RESPONSES)
def test_an_origin_that_leaves_within_the_head_becomes_502(name, plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(CUT_RESPONSES[name])
        connection.close()

    client = ask(raw_client, plain_proxy, raw_origin(script))
    problem = check_problem(client.answer(), 502)
    assert problem.error in ("http_response_incomplete", "connection_terminated")


CUT_BODIES = {
    "a sized body": response(b"Content-Length: 10"),
    "a chunk": response(b"Transfer-Encoding: chunked", b"a\r\nhello"),
    "between two chunks": response(b"Transfer-Encoding: chunked", b"5\r\nhello\r\n"),
    "the trailers": response(b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\nX-A: b\r\n"),
}


@pytest.mark.parametrize("name", CUT_BODIES)
def test_an_origin_that_leaves_within_the_body_never_looks_whole(name, plain_proxy, raw_origin, raw_client):
    def script(connection) -> None:
        connection.read_request()
        connection.send(CUT_BODIES[name])
        connection.close()

    expect_502_or_cut_short(ask(raw_client, plain_proxy, raw_origin(script)))


FORBIDDEN_RESPONSE_BYTES = {
    "the reason": (b"HTTP/1.1 200 O\xaaK\r\nContent-Length: 0\r\n\r\n", CONTROLS - set(b"\t")),
    "the status": (
        b"HTTP/1.1 2\xaa0 OK\r\nContent-Length: 0\r\n\r\n",
        frozenset(range(256)) - set(b"0123456789"),
    ),
    "a name": (
        b"HTTP/1.1 200 OK\r\nX\xaaA: b\r\nContent-Length: 0\r\n\r\n",
        frozenset(range(256)) - TCHAR - set(b":"),
    ),
    "a value": (b"HTTP/1.1 200 OK\r\nX: a\xaab\r\nContent-Length: 0\r\n\r\n", CONTROLS - set(b"\t")),
}


@pytest.mark.parametrize("where", FORBIDDEN_RESPONSE_BYTES)
def test_every_byte_that_is_not_allowed_in_a_response_becomes_502(
    where, rejecting_proxy, raw_origin, raw_client
):
    template, forbidden = FORBIDDEN_RESPONSE_BYTES[where]
    wrong = {}

    def script(connection) -> None:
        target = connection.read_request().target
        connection.send(template.replace(b"\xaa", bytes([int(target[1:])])))
        connection.wait_for_end()

    origin = raw_origin(script)
    for byte in sorted(forbidden):
        client = raw_client(rejecting_proxy)
        client.send(b"GET http://%s/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (origin.authority.encode(), byte))
        try:
            answer = client.answer()
        except strict_http.Violation as violation:
            wrong[byte] = str(violation)
            client.looked_at = False
            continue
        if answer.status != 502:
            wrong[byte] = answer.status
        client.close()
    assert not wrong, f"bytes in {where} that did not become 502: {wrong}"


# The proxy closes with nothing lost even when the client keeps sending


def test_the_answer_is_not_lost_when_the_client_sends_on(plain_proxy, raw_client):
    """A close with unread bytes would reset the connection and could take the answer with it (RFC 9112 §9.6)."""
    client = raw_client(plain_proxy)
    client.send(get(b"X : y"))
    for _ in range(64):
        client.send(b"x" * 16384)
    assert client.wait_for_end() == "closed"
    assert bytes(client.received).startswith(b"HTTP/1.1 400 ")


def test_a_refused_client_that_never_leaves_is_closed(plain_proxy, raw_client):
    """The lingering close ends by itself: it does not wait for a client that stays for ever."""
    client = raw_client(plain_proxy)
    client.send(get(b"X : y"))
    assert client.wait_for_end() == "closed"
    client.socket.settimeout(0.01)
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        try:
            client.socket.send(b"x")  # once the proxy has closed for good, its kernel answers this with RST
            client.socket.recv(1)
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            return
    raise AssertionError(f"{DEADLINE_SECONDS} s after its answer the proxy still held the connection")
