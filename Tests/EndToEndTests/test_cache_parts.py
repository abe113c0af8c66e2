"""Stored answers that are parts: what is there of a 206 or of a download that broke off is used, and gone on with, where a strong
validator says that both are of one representation (RFC 9111, 3.3 and 3.4; RFC 9110, 15.3.7.3); and `resume`."""

import random
import re

import pytest

from cache_world import (
    FRESH,
    STALE,
    Said,
    cached,  # noqa: F401
    check_forwarded,
    check_hit,
    http_date,
    said,
)
from raw_client import Ended
from tls_world import authority, secure_client, secure_proxy, tls_origin, world  # noqa: F401
from test_cache_disk import ended, on_disk, wait_until_written  # noqa: F401

# A little behind a chunk of the store, so that ends and chunks do not meet.
WHOLE = random.Random(7).randbytes((3 << 20) + 777)
TAG = '"whole"'
RESUMES = "resume = true"


def ranged(body: bytes = WHOLE, tag: str | None = TAG, *fields: str, cut: int | None = None):
    """Gives parts by Range and If-Range as RFC 9110 has it; `cut`: the whole breaks off after so many bytes, each time."""

    def answer(connection, request) -> Said:
        lines = [FRESH, *([f"ETag: {tag}"] if tag else []), *fields]
        asked = request.value("Range")
        condition = request.value("If-Range")
        if asked is None or (condition is not None and condition.decode() != (tag or "none")):
            return said(*lines, body=body, cut=cut)
        first, last = re.fullmatch(rb"bytes=(\d*)-(\d*)", asked).groups()
        if not first:
            first, last = len(body) - int(last), len(body) - 1
        begin, end = int(first), min(int(last or len(body) - 1), len(body) - 1) + 1
        if begin >= len(body):
            return said(f"Content-Range: bytes */{len(body)}", status=416, body=b"")
        place = f"Content-Range: bytes {begin}-{end - 1}/{len(body)}"
        return said(*lines, place, status=206, body=body[begin:end])

    return answer


def part(stored, path: str, begin: int, end: int, *lines: str, body: bytes = WHOLE):
    """The bytes from `begin` to before `end`, as a client gets them."""
    answer = stored.ask(path, f"Range: bytes={begin}-{end - 1}", *lines)
    assert answer.status == 206, answer.fields
    assert answer.value("Content-Range") == f"bytes {begin}-{end - 1}/{len(body)}".encode()
    assert answer.body == body[begin:end]
    return answer


def break_off(stored, path: str, **knobs) -> None:
    """A client that gets less than it was promised."""
    with pytest.raises(Ended):
        stored.ask(path, **knobs)


# Parts that were asked for


@pytest.mark.parametrize("tag", [TAG, 'W/"whole"', None])
def test_a_part_answers_requests_within_it(tag, cached):
    stored = cached()
    stored.site.say("/x", ranged(WHOLE, tag))
    check_forwarded(part(stored, "/x", 1000, 9000), "uri-miss", stored=True)
    for begin, end in [(1000, 9000), (1000, 1001), (8999, 9000), (2000, 3000)]:
        check_hit(part(stored, "/x", begin, end))
    assert stored.count("/x") == 1
    head = stored.ask("/x", method="HEAD")
    assert (head.status, head.value("Content-Length")) == (200, str(len(WHOLE)).encode())


@pytest.mark.parametrize("begin, end", [(0, 1000), (999, 2000), (8000, 9001), (9000, 9001), (20000, 30000)])
def test_what_is_not_within_it_is_asked_for(begin, end, cached):
    stored = cached()
    stored.site.say("/x", ranged())
    part(stored, "/x", 1000, 9000)
    check_forwarded(part(stored, "/x", begin, end), "partial")
    assert stored.count("/x") == 2


def test_parts_that_meet_are_one(cached):
    stored = cached()
    stored.site.say("/x", ranged())
    ends = [0, 5, 1000, 65536, 65537, 200_000, 2_000_000, len(WHOLE)]
    for begin, end in zip(ends, ends[1:]):
        part(stored, "/x", begin, end)
    check_hit(part(stored, "/x", 4, 2_000_000))
    # Together they are the whole.
    check_hit(stored.ask("/x"), WHOLE)
    assert stored.count("/x") == len(ends) - 1


def test_parts_that_overlap_are_one(cached):
    stored = cached()
    stored.site.say("/x", ranged())
    part(stored, "/x", 10, 100_000)
    check_forwarded(part(stored, "/x", 50_000, 150_000), "partial", stored=True)
    check_hit(part(stored, "/x", 10, 150_000))
    assert stored.count("/x") == 2


@pytest.mark.parametrize("tags", [('"a"', '"b"'), ('W/"a"', 'W/"a"'), (None, None)])
def test_parts_of_what_may_be_two_representations_are_not_put_together(tags, cached):
    stored = cached()
    stored.site.say("/x", ranged(WHOLE, tags[0]), ranged(WHOLE[::-1], tags[1]))
    part(stored, "/x", 0, 1000)
    part(stored, "/x", 1000, 2000, body=WHOLE[::-1])
    answer = part(stored, "/x", 0, 2000, body=WHOLE[::-1])
    check_forwarded(answer, "partial")


def test_another_coding_is_another_representation(cached):
    stored = cached()
    stored.site.say("/x", ranged(WHOLE, TAG), ranged(WHOLE, TAG, "Content-Encoding: x-other"))
    part(stored, "/x", 0, 1000)
    part(stored, "/x", 1000, 2000)
    check_forwarded(part(stored, "/x", 0, 2000), "partial")


def test_a_date_is_strong_where_it_is_old_enough(cached):
    stored = cached()
    for path, seconds, asked in [("/old", -3600, 2), ("/new", -2, 3)]:
        stored.site.say(path, ranged(WHOLE, None, f"Last-Modified: {http_date(seconds)}"))
        part(stored, path, 0, 1000)
        part(stored, path, 1000, 2000)
        part(stored, path, 0, 2000)
        assert stored.count(path) == asked, path


def test_the_rest_of_a_part_is_asked_for_where_all_is_wanted(cached):
    stored = cached()
    stored.site.say("/x", ranged())
    part(stored, "/x", 0, 100_000)
    check_forwarded(stored.ask("/x"), "partial", WHOLE, stored=True)
    rest = stored.site.requests("/x")[-1]
    assert (rest.value("Range"), rest.value("If-Range")) == (b"bytes=100000-", TAG.encode())
    check_hit(stored.ask("/x"), WHOLE)
    assert stored.count("/x") == 2


def test_a_part_from_the_middle_is_of_no_use_for_the_whole(cached):
    stored = cached()
    stored.site.say("/x", ranged())
    part(stored, "/x", 10, 100_000)
    check_forwarded(stored.ask("/x"), "partial", WHOLE, stored=True)
    assert stored.site.requests("/x")[-1].value("Range") is None
    check_hit(stored.ask("/x"), WHOLE)


def test_what_has_changed_meanwhile_comes_whole(cached):
    stored = cached()
    stored.site.say("/x", ranged(), ranged(b"another", '"b"'))
    part(stored, "/x", 0, 100_000)
    assert stored.ask("/x").body == b"another"
    check_hit(stored.ask("/x"), b"another")


@pytest.mark.parametrize(
    "wrong",
    [
        said(FRESH, f"ETag: {TAG}", "Content-Range: bytes 99999-100003/3146505", status=206, body=b"wrong"),
        said(FRESH, f"ETag: {TAG}", "Content-Range: bytes 100000-100004/77", status=206, body=b"wrong"),
        said(FRESH, f"ETag: {TAG}", status=206, body=b"wrong"),
        said(FRESH, 'ETag: "b"', f"Content-Range: bytes 100000-{len(WHOLE) - 1}/{len(WHOLE)}", status=206, body=WHOLE[100_000:]),
        said(f"Content-Range: bytes */{len(WHOLE)}", status=416, body=b""),
    ],
    ids=["elsewhere", "another length", "no place", "another tag", "416"],
)
def test_a_rest_that_does_not_fit_is_not_put_together(wrong, cached):
    stored = cached()
    stored.site.say("/x", ranged(), wrong, ranged())
    part(stored, "/x", 0, 100_000)
    assert stored.ask("/x").body == WHOLE
    assert stored.site.requests("/x")[-1].value("Range") is None


@pytest.mark.parametrize(
    "fields, body",
    [
        (["Content-Range: bytes 0-9/10"], b"12345"),
        (["Content-Range: bytes 5-2/10"], b"12345"),
        (["Content-Range: bytes 0-4/3"], b"12345"),
        (["Content-Range: bytes 0-4/*"], b"12345"),
        (["Content-Range: pages 0-4/10"], b"12345"),
        (["Content-Range: bytes 0-4/10", "Content-Range: bytes 5-9/10"], b"12345"),
        (["Content-Range: bytes 5-9/10"], b"12345"),
    ],
)
def test_a_part_that_contradicts_itself_is_not_stored(fields, body, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, f"ETag: {TAG}", *fields, status=206, body=body))
    for _ in range(2):
        stored.ask("/x", "Range: bytes=0-4")
    assert stored.count("/x") == 2


def test_a_stale_part_is_validated(cached):
    def answer(connection, request):
        if request.values("If-None-Match"):
            return said(FRESH, f"ETag: {TAG}", status=304, body=b"")
        return said(*STALE, f"ETag: {TAG}", "Content-Range: bytes 2-4/10", status=206, body=b"234")

    stored = cached()
    stored.site.say("/x", answer)
    for result in ["uri-miss", "stale"]:
        got = stored.ask("/x", "Range: bytes=2-4")
        assert (got.status, got.body) == (206, b"234")
        check_forwarded(got, result)
    check_hit(stored.ask("/x", "Range: bytes=3-4"), b"34")


@pytest.mark.parametrize("directive", ["Cache-Control: no-cache", "Cache-Control: no-store"])
def test_a_request_may_refuse_what_is_stored_of_it(directive, cached):
    stored = cached()
    stored.site.say("/x", ranged())
    part(stored, "/x", 0, 1000)
    assert stored.ask("/x", directive).body == WHOLE
    assert stored.count("/x") == 2


# Downloads that broke off


@pytest.mark.parametrize("cut", [1, 1000, 65536, 1_500_000, len(WHOLE) - 1])
def test_a_download_that_broke_off_is_gone_on_with(cut, cached):
    stored = cached()
    stored.site.say("/x", ranged(cut=cut), ranged())
    break_off(stored, "/x")
    check_forwarded(stored.ask("/x"), "partial", WHOLE, stored=True)
    assert stored.site.requests("/x")[-1].value("Range") == f"bytes={cut}-".encode()
    check_hit(stored.ask("/x"), WHOLE)


def test_what_a_client_left_behind_is_gone_on_with(cached):
    stored = cached()
    held = stored.site.hold("/x")
    client = stored.start("/x")
    request = held.next()
    head = said(FRESH, f"ETag: {TAG}", body=WHOLE).head()
    request.send(head + WHOLE[:70_000])
    client.receive_until(b"\r\n\r\n")
    client.close()
    assert request.wait_for_end()
    stored.site.say("/x", ranged())
    check_forwarded(stored.ask("/x"), "partial", WHOLE)


@pytest.mark.parametrize(
    "fields", [[], ['ETag: W/"a"'], ['ETag: "a"', "Accept-Ranges: none"]], ids=["no validator", "weak", "no ranges"]
)
def test_one_that_cannot_be_gone_on_with_is_asked_for_whole(fields, cached):
    stored = cached()
    stored.site.say("/x", said(FRESH, *fields, body=WHOLE, cut=1000), said(FRESH, *fields, body=WHOLE))
    break_off(stored, "/x")
    check_forwarded(stored.ask("/x"), "uri-miss", WHOLE)
    assert not any(request.value("Range") for request in stored.site.requests("/x"))


def test_one_of_unknown_length_is_asked_for_whole(cached):
    stored = cached()
    fields = (FRESH, f"ETag: {TAG}")
    stored.site.say("/x", said(*fields, body=WHOLE, framing="chunked", cut=70_000), said(*fields, body=WHOLE))
    break_off(stored, "/x")
    check_forwarded(stored.ask("/x"), "uri-miss", WHOLE)


def test_an_old_answer_that_is_whole_stays_where_a_new_one_breaks_off(cached):
    stored = cached(cache='offline = "1d"')
    stored.site.say("/x", said(*STALE, 'ETag: "old"', body=b"old"), ranged(cut=1000))
    stored.ask("/x")
    break_off(stored, "/x")
    stored.leave()
    assert stored.ask("/x").body == b"old"


@pytest.mark.parametrize("cut", [1000, 1_500_000])
def test_it_is_gone_on_with_after_the_daemon_has_ended(cut, on_disk, tmp_path):
    stored = on_disk()
    stored.site.say("/x", ranged(cut=cut), ranged())
    break_off(stored, "/x")
    wait_until_written(stored, 1)
    ended(stored, "terminate")
    again = on_disk()
    check_forwarded(again.ask("/x"), "partial", WHOLE)
    # Its end may be asked for once more: bytes go behind whole chunks of the file.
    begin = int(re.fullmatch(rb"bytes=(\d+)-", again.site.requests("/x")[-1].value("Range"))[1])
    assert cut - (64 << 10) < begin <= cut
    wait_until_written(again, 1)
    ended(again, "kill")
    check_hit(on_disk().ask("/x"), WHOLE)


# `resume`


def test_the_client_notices_a_pause(cached):
    stored = cached(request=RESUMES)
    stored.site.say("/x", ranged(cut=1_500_000), ranged())
    check_forwarded(stored.ask("/x"), "uri-miss", WHOLE, stored=True)
    whole, rest = stored.site.requests("/x")
    assert whole.value("Range") is None
    assert (rest.value("Range"), rest.value("If-Range")) == (b"bytes=1500000-", TAG.encode())
    check_hit(stored.ask("/x"), WHOLE)


def test_without_it_the_client_is_told_that_it_broke_off(cached):
    stored = cached()
    stored.site.say("/x", ranged(cut=1_500_000), ranged())
    break_off(stored, "/x")


@pytest.mark.parametrize("secure", [False, True])
def test_it_breaks_off_three_times_and_goes_on(secure, cached):
    cuts = iter([1000, 70_000, 500_000])

    def answer(connection, request):
        whole = ranged()(connection, request)
        cut = next(cuts, None)
        return whole if cut is None else said(*whole.fields, status=whole.status, body=whole.body, cut=cut)

    stored = cached(request=RESUMES, secure=secure)
    stored.site.say("/x", answer)
    assert stored.ask("/x").body == WHOLE
    begins = [request.value("Range") for request in stored.site.requests("/x")]
    assert begins == [None, b"bytes=1000-", b"bytes=71000-", b"bytes=571000-"]
    # The parts are one exchange of one client.
    stored.ask("/x")
    lines = stored.proxy.log.wait_for_several(2, lambda line: line.get("target", "").endswith("/x"))
    assert [(line["outcome"], line["cache"]) for line in lines] == [("done", "stored"), ("done", "hit")]


def test_after_three_times_it_has_broken_off(cached):
    stored = cached(request=RESUMES)
    stored.site.say("/x", ranged(cut=1000), said(status=503, body=b"later"))
    break_off(stored, "/x")
    assert stored.count("/x") == 4
    stored.site.say("/x", ranged())
    check_forwarded(stored.ask("/x"), "partial", WHOLE)


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_one_of_unknown_length_goes_on(framing, cached):
    stored = cached(request=RESUMES)
    stored.site.say("/x", said(FRESH, f"ETag: {TAG}", body=WHOLE, framing="chunked", cut=70_000), ranged())
    answer = stored.ask("/x")
    assert answer.body == WHOLE
    check_hit(stored.ask("/x"), WHOLE)


def test_what_has_changed_is_not_gone_on_with(cached):
    stored = cached(request=RESUMES)
    stored.site.say("/x", ranged(cut=1000), ranged(WHOLE[::-1], '"b"'))
    break_off(stored, "/x")
    assert stored.count("/x") == 2


def test_a_part_goes_on_too(cached):
    def answer(connection, request):
        whole = ranged()(connection, request)
        return said(*whole.fields, status=whole.status, body=whole.body, cut=300 if stored.count("/x") == 1 else None)

    stored = cached(request=RESUMES)
    stored.site.say("/x", answer)
    part(stored, "/x", 1000, 9000)
    assert stored.site.requests("/x")[-1].value("Range") == b"bytes=1300-8999"


def test_all_who_read_get_the_rest(cached):
    stored = cached(request=RESUMES)
    held = stored.site.hold("/x")
    clients = [stored.start("/x")]
    first = held.next()
    clients += stored.start_several(5, "/x")
    stored.wait_until_asked(6)
    stored.site.say("/x", ranged())
    first.send(said(FRESH, f"ETag: {TAG}", body=WHOLE).head() + WHOLE[:100_000])
    first.break_off()
    for client in clients:
        assert client.answer().body == WHOLE
    assert stored.count("/x") == 2


def test_nobody_asks_for_the_rest_where_nobody_waits(cached):
    stored = cached(request=RESUMES)
    held = stored.site.hold("/x")
    client = stored.start("/x")
    first = held.next()
    first.send(said(FRESH, f"ETag: {TAG}", body=WHOLE).head() + WHOLE[:100_000])
    client.receive_until(b"\r\n\r\n")
    client.close()
    first.wait_for_end()
    stored.site.say("/x", ranged())
    check_forwarded(stored.ask("/x"), "partial", WHOLE)
    assert stored.count("/x") == 2


def test_one_who_leaves_while_it_pauses_ends_it(cached):
    stored = cached(request=RESUMES)
    rest = stored.site.hold("/x")
    first_client = stored.start("/x")
    first = rest.next()
    first.send(said(FRESH, f"ETag: {TAG}", body=WHOLE).head() + WHOLE[:100_000])
    first.break_off()
    asked = rest.next()
    assert asked.request.value("Range") == b"bytes=100000-"
    first_client.close()
    # The question for the rest is nobody's any more.
    assert asked.wait_for_end()


def test_a_judged_answer_goes_on(cached):
    body = b'{"a": "' + b"x" * 300_000 + b'"}'
    whole = ranged(body, TAG, "Content-Type: application/json", cut=100_000)
    stored = cached(request=RESUMES, response='serializer = "json"')
    stored.site.say("/x", whole, ranged(body, TAG, "Content-Type: application/json"))
    assert stored.ask("/x").body == body

