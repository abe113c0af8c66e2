"""[rule.request] query_style: each style is read by a real server that knows it, in queries, forms and forms that are transcoded.

Express (qs) reads brackets, indices, repeated fields and, if it is told, commas; Flask and Python's own library read repeated
fields. Each plainly and inside an intercepted tunnel.
"""

import json
import subprocess

import pytest

from conftest import need
from form_servers import form_server, reading
from serializer_world import FORM, toml
from tls_world import authority, secure_client, secure_proxy, tls_origin, world

PARAMETERS = {"nums": [1, 2], "on": True, "q": "a b+c", "in": {"list": ["x,y", "z"]}}
BRACKETS = {"nums": ["1", "2"], "on": "1", "q": "a b+c", "in": {"list": ["x,y", "z"]}}
FLAT = {"nums": ["1", "2"], "on": "1", "q": "a b+c", "in[list]": ["x,y", "z"]}


def style(**keys: str) -> str:
    return f"parameters = {toml(PARAMETERS)}\nquery_style = {toml(keys)}"


# Each: the server, the style, and what the server reads
STYLES = {
    "brackets": ("express", {"arrays": "brackets"}, BRACKETS),
    "repeated fields": ("express", {"arrays": "repeat"}, BRACKETS),
    "repeated fields and Flask": ("flask", {"arrays": "repeat"}, FLAT),
    "repeated fields and Python's library": ("stdlib", {"arrays": "repeat"}, FLAT),
    "indices": ("express", {"arrays": "indices"}, BRACKETS),
    "commas": ("express with commas", {"arrays": "comma"}, BRACKETS),
    "words": ("express", {"booleans": "true/false"}, {**BRACKETS, "on": "true"}),
    "plus signs": ("express", {"space": "+"}, BRACKETS),
    "plus signs and Flask": ("flask", {"arrays": "repeat", "space": "+"}, FLAT),
}


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("name", STYLES)
def test_a_query_is_read(name, secured, reading):
    server, keys, expected = STYLES[name]
    said = reading(server, style(**keys), path="/p?own=0", secured=secured)
    assert said["query"] == {"own": "0", **expected}


@pytest.mark.parametrize("name", STYLES)
def test_a_form_that_is_merged_is_read(name, reading):
    """The client's own repeated field stays what it is."""
    server, keys, expected = STYLES[name]
    said = reading(server, style(**keys), "POST", content_type=FORM, body=b"own=1&own=2")
    assert said["form"] == {"own": ["1", "2"], **expected}
    assert said["type"] == FORM


# Each: the style, the client's form, and the JSON that arrives, beside the parameters
TRANSCODED = {
    "repeated fields": ("repeat", b"own=1&own=2&one=x", {"own": ["1", "2"], "one": "x"}),
    "brackets": ("brackets", b"own[]=1&own[]=2", {"own": ["1", "2"]}),
    "indices": ("indices", b"own%5B0%5D=1&own%5B1%5D=2", {"own": ["1", "2"]}),
    "commas": ("comma", b"own=1,2%2C3&one=x", {"own": ["1", "2,3"], "one": "x"}),
}


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("name", TRANSCODED)
def test_a_form_is_read_in_its_style(name, secured, reading):
    arrays, form, expected = TRANSCODED[name]
    table = style(arrays=arrays) + '\nserializer = "json"\ntranscode = true'
    said = reading("express", table, "POST", content_type=FORM, body=form, secured=secured)
    assert said["form"] == {**expected, **PARAMETERS}
    assert said["type"] == "application/json"


@pytest.mark.parametrize("arrays", ["indices", "repeat", "brackets"])
def test_what_qs_writes_is_read(arrays, reading, tmp_path):
    """The forms of qs itself, which many programs of JavaScript write."""
    need("node")
    tree = {"a": ["1", "2", "x,y"], "b": {"c": ["ü", "€"], "d": "&="}}
    script = "const qs = require('qs'); process.stdout.write(qs.stringify(JSON.parse(process.argv[1]), " \
        "{ arrayFormat: process.argv[2] }))"
    form = subprocess.run(
        ["node", "-e", script, json.dumps(tree), arrays],
        capture_output=True, check=True, env={"NODE_PATH": "/usr/share/nodejs", "PATH": "/usr/bin:/usr/local/bin"},
    ).stdout
    table = f'query_style = {{ arrays = "{arrays}" }}\nserializer = "json"\ntranscode = true'
    assert reading("express", table, "POST", content_type=FORM, body=form)["form"] == tree
