"""[rule.request] encoding: parameters and forms in GB18030, Big5, Shift_JIS and latin1, held against Python's codecs.

A server of Python's library reads what arrives in the encoding, strictly. Python knows nothing of iconv(3).
"""

import json
import os
import unicodedata
import urllib.parse

import pytest

from form_servers import form_server, reading, stdlib
from origins import answering
from problems import check_problem
from proxy import command
from serializer_world import FORM, OK, adding, goes_on_or_is_closed, policy, post, toml
from tls_world import authority, secure_client, secure_proxy, tls_origin, world

# Each: the name in the configuration, that of Python's codec, and a text
ENCODINGS = {
    "gb18030": ("gb18030", "查询 €ä😀&="),
    "gbk": ("gbk", "查询丂"),
    "big5": ("big5", "許功蓋 測試"),
    "shift_jis": ("shift_jis", "表示 ソｱ"),
    "latin1": ("latin-1", "Größe + ÷"),
    "KOI8-R": ("koi8-r", "привет"),
}


def quoted(text: str, codec: str) -> str:
    return urllib.parse.quote(text, safe="-._~/?", encoding=codec)


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_parameters_in_a_query_and_a_form(name, secured, reading):
    codec, text = ENCODINGS[name]
    table = adding({text: {"k": [text]}}, f'encoding = "{name}"')
    for method in ("GET", "POST"):
        said = reading(stdlib(codec), table, method, path="/p", secured=secured)
        place = "query" if method == "GET" else "form"
        assert said[place] == {f"{text}[k][]": text}
        if method == "GET":
            assert said["raw"] == f"/p?{quoted(text + '[k][]', codec)}={quoted(text, codec)}"
        else:
            assert said["type"] == f"{FORM}; charset={name}"


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_form_that_is_merged(name, reading):
    codec, text = ENCODINGS[name]
    table = adding({"k": text}, f'encoding = "{name}"')
    body = urllib.parse.urlencode({"own": text}, encoding=codec).encode()
    said = reading(stdlib(codec), table, "POST", content_type=FORM, body=body)
    assert (said["form"], said["type"]) == ({"own": text, "k": text}, FORM)
    body = urllib.parse.urlencode({"own": text}).encode()
    said = reading(stdlib("utf-8"), table, "POST", content_type=FORM + "; charset=utf-8", body=body)
    assert said["form"] == {"own": text, "k": text}


def everything(codec: str) -> str:
    """All that Python's codec has of Chinese characters, kana and latin letters, but for what Big5 lays out in two ways."""
    places = [*range(0x4E00, 0x9FA6)] + ([] if codec == "big5" else [*range(0x3041, 0x30F6), *range(0xE0, 0x100)])
    found = []
    for place in places:
        try:
            chr(place).encode(codec)
        except UnicodeError:
            continue
        found.append(chr(place))
    return "".join(found)


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_character_of_a_form_that_is_transcoded(name, secured, reading):
    codec, text = ENCODINGS[name]
    text += everything(codec)
    assert len(text) > (20 if name in ("latin1", "KOI8-R") else 5000) or name == "KOI8-R"
    table = f'serializer = "json"\ntranscode = true\nencoding = "{name}"'
    body = urllib.parse.urlencode({"k": text, text[:9]: "x"}, encoding=codec).encode()
    said = reading("stdlib", table, "POST", content_type=FORM, body=body, secured=secured)
    assert said["form"] == {"k": text, text[:9]: "x"}
    assert said["type"] == "application/json"


# Each: the encoding, the client's type and body
REFUSED = {
    "bytes that are no character": ("gbk", FORM, b"a=%FF%FF"),
    "half of a character": ("big5", FORM, b"a=%B3"),
    "UTF-8 where GB18030 has no such character": ("gb18030", FORM, "a=ä".encode() + b"%FF"),
    "UTF-8 in Shift_JIS": ("shift_jis", FORM, b"a=%C3%A4%F0%9F%98%80"),
    "another charset": ("gbk", FORM + "; charset=big5", b"a=1"),
    "UTF-8 that is none, as the type says": ("gbk", FORM + "; charset=utf-8", b"a=%B2%E9"),
    "a part of another charset": (
        "gbk",
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: text/plain; charset=big5\r\n\r\n1\r\n--b--',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_form_that_is_not_in_the_encoding(name, sallyport, raw_origin, raw_client):
    encoding, content_type, body = REFUSED[name]
    table = f'serializer = "json"\ntranscode = true\nencoding = "{encoding}"'
    proxy, origin = sallyport(policy=policy(table)), raw_origin(answering(OK))
    client = raw_client(proxy)
    said = client.exchange(post(origin, body, content_type))
    problem = check_problem(said, 415, error="http_request_error", rule="r")
    assert encoding in json.loads(said.body)["detail"] or "UTF-8" in json.loads(said.body)["detail"]
    assert origin.requests() == [] and proxy.access_of(problem.reference)["status"] == 415
    goes_on_or_is_closed(client, origin, said)


def test_check_names_the_parameter(tmp_path):
    """And no value, which may be a secret."""
    file = tmp_path / "s.toml"
    file.write_text('[[rule]]\nname = "a"\n[rule.request]\nencoding = "latin1"\nparameters = { password = "1€23" }\n')
    file.chmod(0o600)
    done = command("check", "--config", str(file))
    assert done.returncode == 1
    assert "the parameter 'password' holds a character that the encoding 'latin1' does not have" in done.stdout + done.stderr
    assert "1€23" not in done.stdout + done.stderr
