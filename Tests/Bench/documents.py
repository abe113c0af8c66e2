"""The content that the rows of response serializers look at: an API's answer in JSON, the same bytes in every run.

A page of orders as services of this kind write them: without white space, short keys and short texts for the most part,
some text beyond ASCII and some escapes, integers and decimals, arrays of objects within objects, and nulls where a value
is not known. Part of bench.py; tested by test_bench.py.
"""

import itertools
import json
import random

DOCUMENT_BYTES = 90_000  # that of the bars; a document has so many, and at most one order more
SEED = 4
# Of a value that may be unknown. So every tenth of all values is null, as services write them that give every key.
UNKNOWN_CHANCE = 0.17
NAMES = ("Ana Sousa", "Björn Åkesson", "Chloé Lefèvre", "Dmitri Orlow", "Eun-ji Park", "山田 花子", "Grace O'Neil", "Håkon Vik")
WORDS = ("bottle", "case", "lid", "steel", "glass", "blue", "large", "travel", "spare", "insulated", "500 ml", '7" wide')
STATES = ("open", "paid", "packed", "sent", "returned")
CURRENCIES = ("EUR", "USD", "SEK", "JPY")


def document() -> bytes:
    """The document of at least DOCUMENT_BYTES."""
    chance = random.Random(SEED)
    orders = []
    size = 0
    for number in itertools.count(1):
        if size >= DOCUMENT_BYTES:
            return text({"page": 1, "next": None, "orders": orders})
        orders.append(_order(chance, number))
        size += len(text(orders[-1]))


def text(value) -> bytes:
    """A value as the document has it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def without_nulls(value):
    """A value without the members and elements that are null, at any depth; all others stay in their order."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(element) for element in value if element is not None]
    return value


def _order(chance: random.Random, number: int) -> dict:
    def known(value):
        return None if chance.random() < UNKNOWN_CHANCE else value

    lines = [{
        "sku": f"{chance.choice('ABCDEF')}{chance.randrange(10**7):07}",
        "title": known(" ".join(chance.sample(WORDS, chance.randint(2, 5)))),
        "quantity": known(chance.randint(1, 12)),
        "price": known(chance.randint(99, 99_999) / 100),
        "discount": known(chance.choice((0, 0.05, 0.1, 1e-3))),
        "serials": [known(chance.randrange(10**9)) for _ in range(chance.randint(0, 4))],
        "gift": known(chance.random() < 0.2),
    } for _ in range(chance.randint(1, 4))]
    return {
        "id": number + 48_000_000,
        "created": f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}T{chance.randint(0, 23):02}:15:00Z",
        "state": chance.choice(STATES),
        "currency": known(chance.choice(CURRENCIES)),
        "customer": {
            "name": known(chance.choice(NAMES)),
            "email": known(f"customer{chance.randrange(10**5)}@shop.example"),
            "phone": known(f"+4670{chance.randrange(10**7):07}"),
            "address": known({"street": f"Storgatan {chance.randint(1, 99)}", "zip": known("111 22"), "city": "Malmö",
                              "position": [known(round(chance.uniform(55, 69), 6)), round(chance.uniform(11, 24), 6)]}),
        },
        "lines": lines,
        "tags": [known(chance.choice(WORDS)) for _ in range(chance.randint(0, 4))],
        "note": known(chance.choice(("Leave it at the door.", "Ring twice,\nthen wait.", "Say \"hello\" to the dog", ""))),
        "url": f"https://shop.example/orders/{number}",
        "refund": known({"reason": known("damaged"), "amount": chance.randint(1, 500)}),
    }
