"""JSON that is checked, against Python's reader: both accept and refuse the same texts.

Texts are made by a seeded chance: valid ones, which are then damaged a little, and short runs of telling bytes. Python
reads numbers of any size as the proxy does. Where it is laxer than RFC 8259, it is told not to be.
"""

import json
import random

import pytest

from serializer_world import ONE_WORKER, REJECT_ALL, answer, policy, request, serving

ROUNDS = 1000  # texts of a kind: a few seconds each, and enough that a changed line of the grammar is seen
TELLING = ["{", "}", "[", "]", ":", ",", '"', "\\", " ", "\n", "\t", "\x1f", "\x7f", "é", "0", "1", "9", "-", "+", ".", "e", "E",
           "\\u00e9", "\\ud83d\\ude00", "\\ud800", "\\udc00", "n", "null", "true", "false", "NaN", "Infinity", "\\x"]
TELLING = [text.encode() for text in TELLING] + [b"\x80", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xff"]


def is_json(body: bytes) -> bool:
    def refuse(word: str):
        raise ValueError(word)

    try:
        value = json.loads(body.decode("utf-8"), parse_constant=refuse)
        # An unpaired surrogate is no character (RFC 8259, 8.2).
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ValueError:
        return False
    return True


def some_value(chance: random.Random, depth: int = 3):
    kind = chance.randrange(8 if depth else 5)
    if kind == 0:
        return chance.choice([None, True, False])
    if kind == 1:
        return chance.choice([0, -1, 7, 10**25, -(10**18)])
    if kind == 2:
        return chance.choice([0.5, -1e-7, 1e300, 12.25])
    if kind < 5:
        return "".join(chance.choice(["a", "é", "😀", '"', "\\", "\n", "\x01", "/", "z" * 9]) for _ in range(chance.randrange(5)))
    if kind == 5:
        return {f"k{number}": some_value(chance, depth - 1) for number in range(chance.randrange(4))}
    return [some_value(chance, depth - 1) for _ in range(chance.randrange(4))]


def damaged(chance: random.Random) -> bytes:
    text = json.dumps(some_value(chance), ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, None, 1])).encode()
    for _ in range(chance.randrange(3)):
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(TELLING + [b""]) + text[at + chance.randrange(2):]
        if not text:
            return b"0"
    return text


def short(chance: random.Random) -> bytes:
    text = b"".join(chance.choice(TELLING) for _ in range(chance.randrange(1, 7)))
    return chance.choice([text, b"[" + text + b"]", b'["' + text + b'"]', b'{"a":' + text + b"}"])


@pytest.mark.parametrize("make", [damaged, short], ids=lambda make: make.__name__)
def test_it_is_read_as_python_reads_it(make, sallyport, raw_origin, raw_client):
    chance = random.Random(8259)
    # One space is no JSON text, and passes all the same: it is what Rails sends for nothing.
    bodies = [body for body in (make(chance) for _ in range(ROUNDS)) if body != b" "]
    expected = [is_json(body) for body in bodies]
    assert 0.05 < sum(expected) / len(expected) < 0.95, "damage that always kills, or never does, would compare nothing"
    origin = raw_origin(serving(*(answer(body) for body in bodies)))
    client = raw_client(sallyport(proxy=ONE_WORKER, policy=policy(response=f'serializer = "json"\n{REJECT_ALL}\n')))
    differ = [(body, is_valid) for body, is_valid in zip(bodies, expected)
              if client.exchange(request(origin, "/r")).status != (200 if is_valid else 502)]
    assert not differ, f"{len(differ)} differ, among them {differ[:5]}"
