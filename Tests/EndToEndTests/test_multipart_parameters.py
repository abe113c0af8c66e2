"""[rule.request] parameters and multipart/form-data: they arrive as parts of their own, before those of the client.

Read by Flask, plainly and inside an intercepted tunnel; sent by curl -F and by requests; and to the byte, with a raw origin.
"""

import json

import pytest
import requests

from conftest import need
from form_servers import form_server, reading
from origins import answering
from problems import check_problem
from serializer_world import OK, adding, goes_on, goes_on_or_is_closed, policy, post, post_chunked
from test_clients import run
from test_request_transcoding import MULTIPART, field, multipart
from tls_world import authority, secure_client, secure_proxy, tls_origin, world

PHOTO = bytes(range(256)) * 40
UPLOAD = multipart(
    (field("caption"), "ü".encode()),
    (field("photo", '; filename="a.png"') + "\r\nContent-Type: image/png", PHOTO),
    boundary="the-boundary",
)
PARAMETERS = {"username": "123", "in": {"list": ["x", "é"]}, "on": True}
READ = {"username": "123", "in[list][]": ["x", "é"], "on": "1"}


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("serializer", ["http", "json", "plist"])
def test_an_upload_gets_the_parameters(serializer, secured, reading):
    """Whatever the serializer is, as AFNetworking's multipartFormRequest."""
    table = adding(PARAMETERS, f'serializer = "{serializer}"')
    said = reading(
        "flask", table, "POST", content_type=MULTIPART + "the-boundary", body=UPLOAD, secured=secured
    )
    assert said["form"] == {"caption": "ü", **READ}
    assert said["files"] == {"photo": ["a.png", "image/png", len(PHOTO)]}
    assert said["type"] == MULTIPART + "the-boundary"


def test_the_style_of_the_query_is_that_of_the_parts(reading):
    table = adding(PARAMETERS, 'query_style = { arrays = "repeat", booleans = "true/false" }')
    said = reading("flask", table, "POST", content_type=MULTIPART + "the-boundary", body=UPLOAD)
    assert said["form"] == {"caption": "ü", "username": "123", "in[list]": ["x", "é"], "on": "true"}


@pytest.mark.parametrize("how", ["sized", "chunked"])
def test_the_body_to_the_byte(how, sallyport, raw_origin, raw_client):
    """The length is that of what is sent: strict_http holds the framing to it."""
    proxy, origin = sallyport(policy=policy(adding({"b": "2", "a": ["1"]}))), raw_origin(answering(OK))
    client = raw_client(proxy)
    build = post if how == "sized" else post_chunked
    for _ in range(2):
        assert client.exchange(build(origin, UPLOAD, MULTIPART + "the-boundary")).status == 200
    goes_on(client, origin)
    added = multipart((field("a[]"), b"1"), (field("b"), b"2"), boundary="the-boundary")
    for message in origin.requests()[:2]:
        assert message.body == added.removesuffix(b"--the-boundary--\r\n") + UPLOAD
        assert (message.framing, message.value("Content-Type").decode()) == ("length", MULTIPART + "the-boundary")


def test_a_method_with_its_parameters_in_the_query_keeps_its_upload(sallyport, raw_origin, raw_client):
    proxy = sallyport(policy=policy(adding({"a": "b"}, 'parameters_in_uri = ["POST"]')))
    origin = raw_origin(answering(OK))
    assert raw_client(proxy).exchange(post(origin, UPLOAD, MULTIPART + "the-boundary")).status == 200
    (message,) = origin.requests()
    assert (message.target, message.body) == (b"/?a=b", UPLOAD)


# Each: the boundary that the type names, the body, the parameters
REFUSED = {
    "no end": ("b", multipart((field("a"), b"1"))[:-6], {"k": "v"}),
    "another boundary": ("c", multipart((field("a"), b"1")), {"k": "v"}),
    "a part without a name": ("b", multipart(("Content-Disposition: form-data", b"1")), {"k": "v"}),
    "no boundary in the type": ('""', multipart((field("a"), b"1")), {"k": "v"}),
    "text before the parts": ("b", multipart((field("a"), b"1"), before=b"x\r\n"), {"k": "v"}),
    "text behind the parts": ("b", multipart((field("a"), b"1"), after=b"x"), {"k": "v"}),
    "a boundary that a parameter holds": ("b", multipart((field("a"), b"1")), {"k": "1\r\n--b--\r\n"}),
}


@pytest.mark.parametrize("on_conflict", ["reject", "pass"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_merged(name, on_conflict, sallyport, raw_origin, raw_client):
    boundary, body, parameters = REFUSED[name]
    proxy = sallyport(policy=policy(adding(parameters, f'on_conflict = "{on_conflict}"')))
    origin, client = raw_origin(answering(OK)), raw_client(proxy)
    said = client.exchange(post(origin, body, MULTIPART + boundary))
    if on_conflict == "reject":
        check_problem(said, 415, error="http_request_error", rule="r")
        assert origin.requests() == []
    else:
        assert [message.body for message in origin.requests()] == [body]
    goes_on_or_is_closed(client, origin, said)


def test_curl_and_requests(form_server, sallyport, tmp_path):
    need("curl")
    server = form_server("flask")
    proxy = sallyport(policy=policy(adding(PARAMETERS)))
    photo = tmp_path / "photo.png"
    photo.write_bytes(PHOTO)
    url = f"http://{server.authority}/upload"
    curl = ["curl", "-sS", "--fail", "--max-time", "15", "--proxy", proxy.url, "--noproxy", ""]
    said = json.loads(run(*curl, "-F", "caption=ü", "-F", f"photo=@{photo};type=image/png", url))
    assert said["form"] == {"caption": "ü", **READ}
    assert said["files"] == {"photo": ["photo.png", "image/png", len(PHOTO)]}
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"http": proxy.url}
        answer = session.post(url, data={"caption": "ü"}, files={"photo": ("a.png", PHOTO, "image/png")})
        assert answer.json()["form"] == {"caption": "ü", **READ}
        assert answer.json()["files"] == {"photo": ["a.png", "image/png", len(PHOTO)]}
