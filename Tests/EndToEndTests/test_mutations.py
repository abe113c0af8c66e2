"""Mutations of valid messages, thousands of them, from a fixed seed: never an invalid stream, never a close without a word.

The tables of test_refusals.py hold what people have thought of; this holds what they have not. Each mutated request goes
in over a connection of its own, as do mutated answers from the origin. What then leaves the proxy, on either side, is
checked under the strict grammar; no expectation is made of which mutation is refused.
"""

import random
import re

import pytest

import strict_http
from dns_server import NO_SUCH_NAME, Answer
from origins import check_received
from raw_client import Ended

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SEED = 2
BATCH = 100  # so many connections at once: those that must run into a time-out do so together
BATCHES = 15

REQUESTS = [
    b"GET http://ORIGIN/path?query HTTP/1.1\r\nHost: ORIGIN\r\nAccept: */*\r\n\r\n",
    b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 5\r\n\r\nhello",
    b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nVia: 1.1 a\r\n\r\n",
    b"POST http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    b"HEAD http://ORIGIN/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"PUT http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nContent-Length: 3\r\n\r\nputGET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\n\r\n",
    b"GET http://ORIGIN/ HTTP/1.1\r\nHost: ORIGIN\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
]
ANSWERS = [
    OK,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
    b"HTTP/1.1 204 No Content\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the close",
    b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 9\r\n\r\n',
]
INSERTIONS = [
    *[
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b"\0",
        b" ",
        b"\t",
        b"\x0b",
        b"\x7f",
        b"\x80",
        b"\xff",
        b":",
        b";",
        b",",
    ],
    *[
        b"0",
        b"9",
        b"a",
        b"-",
        b"+",
        b"0x",
        b'"',
        b"\\",
        b"%",
        b"@",
        b"#",
        b"/",
        b"*",
        b"[",
        b"]",
        b"HTTP/1.1",
        b"0\r\n\r\n",
    ],
    *[
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: x\r\n",
    ],
    *[
        b"Host: b\r\n",
        b"Connection: close\r\n",
        b"Connection: content-length\r\n",
        b" folded\r\n",
        b"Upgrade: websocket\r\n",
    ],
]


def mutated(message: bytes, chance: random.Random) -> bytes:
    """One to three changes: bytes inserted, removed, replaced, turned; lines doubled, swapped, dropped; or cut short."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(message) or 1)
        kind = chance.randrange(8)
        lines = message.split(b"\r\n")
        line = chance.randrange(len(lines))
        if kind < 3:
            message = message[:at] + chance.choice(INSERTIONS) + message[at:]
        elif kind == 3:
            message = message[:at] + message[at + chance.randint(1, 4) :]
        elif kind == 4:
            message = message[:at] + bytes([chance.randrange(256)]) + message[at + 1 :]
        elif kind == 5:
            message = b"\r\n".join(lines[: line + 1] + lines[line:])
        elif kind == 6:
            message = b"\r\n".join(lines[:line] + lines[line + 1 :])
        elif chance.randrange(4) == 0:
            message = message[:at]
    return message


@pytest.fixture
def quick_proxy(sallyport, dns_server):
    """Short time-outs, for what waits for bytes that a mutation took away; and a name server that knows nobody."""
    server = dns_server({}, otherwise=Answer(code=NO_SUCH_NAME))
    return sallyport(
        policy='[proxy.timeouts]\nclient_header = "400ms"\nclient_idle = "400ms"\nbody_stall = "400ms"\n'
        f'response_header = "400ms"\nconnect = "400ms"\ntunnel_idle = "400ms"\n[dns]\nservers = ["{server.address}"]\n'
    )


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutated_requests(batch, quick_proxy, raw_origin, raw_client):
    def answer_each(connection) -> None:
        while True:
            connection.read_request()
            connection.send(OK)

    chance = random.Random(f"{SEED} requests {batch}")
    origin = raw_origin(answer_each)
    authority = origin.authority.encode()
    clients = []
    for _ in range(BATCH):
        clients.append(raw_client(quick_proxy))
        # A mutated port would be somebody else's: what is mutated holds the word, what is sent the address.
        clients[-1].send(mutated(chance.choice(REQUESTS), chance).replace(b"ORIGIN", authority))
    unanswered = []
    for client in clients:
        client.wait_for_end()
        if not re.match(rb"HTTP/1\.1 [1-5]", client.received) and client.sent.strip(b"\r\n"):
            unanswered.append((bytes(client.sent), client.ended))
        client.check()
    assert not unanswered, f"{len(unanswered)} of {BATCH} closed without a word, the first: {unanswered[0]}"
    for connection in origin.connections:
        check_received(bytes(connection.received))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutated_answers(batch, quick_proxy, raw_origin, raw_client):
    chance = random.Random(f"{SEED} answers {batch}")
    answers = [mutated(chance.choice(ANSWERS), chance) for _ in range(BATCH)]

    def answer_as_asked(connection) -> None:
        number = int(connection.read_request().target[1:])
        connection.send(answers[number])
        if number % 2:
            connection.close()
        else:
            connection.wait_for_end()

    origin = raw_origin(answer_as_asked)
    clients = []
    for number in range(BATCH):
        clients.append(raw_client(quick_proxy))
        lines = b"GET http://%s/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (origin.authority.encode(), number)
        clients[-1].send(lines)
    for number, client in enumerate(clients):
        try:
            client.answer()
        except Ended:
            pass
        except strict_http.Violation as violation:
            raise AssertionError(
                f"{answers[number]!r} became {bytes(client.received)!r}: {violation}"
            ) from None
        assert client.received, f"{answers[number]!r} became a close without a word"
