"""What operators see of stored answers, and how they purge them: `sallyport cache`, /v1/cache, metrics, status and the log."""

import json
import re
import urllib.parse

import pytest

from admin_client import TIME
from admin_world import administered, rewrite, samples
from journal import Journal
from origins import RawOrigin, answering
from problems import check_problem
from proxy import command
from test_admin_rights import ask_as
from test_policy import get
from users_world import NUMBERED, STRANGER

FRESH = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nETag: \"v1\"\r\nVary: X-Kind\r\nContent-Length: 5\r\n\r\nfresh"
RULES = """
[[rule]]
name = "mirror"
hosts = ["a.test", "b.test"]
[rule.cache]
offline = "1d"
[[rule]]
name = "other"
hosts = ["c.test"]
[rule.cache]
"""
POLICY = f"[cache]\n{RULES}"


@pytest.fixture
def stocked(administered, raw_origin, raw_client):
    """A proxy that has stored an answer of each of three hosts; `stocked.origin` is where they came from."""
    proxy = administered(POLICY, admin=f"operators = [{NUMBERED}]\n")
    proxy.origin = raw_origin(answering(FRESH))
    for host in ("a.test", "b.test", "c.test"):
        assert raw_client(proxy).exchange(get(host, proxy.origin.port)).status == 200
        assert proxy.access(lambda line: host in line["target"])["cache"] == "stored"
    return proxy


def url(proxy, host: str) -> str:
    return f"http://{host}:{proxy.origin.port}/"


def listed(proxy, *options: str) -> set[str]:
    """The hosts of the answers that the command lists."""
    done = command("cache", "list", "--json", "--socket", proxy.admin.path, *options)
    assert done.returncode == 0 and done.stderr == ""
    return {answer["host"] for answer in json.loads(done.stdout)["answers"]}


def cache(proxy, *arguments: str):
    return command("cache", *arguments, "--socket", proxy.admin.path)


# What is stored


def test_how_much_is_stored(stocked, raw_client):
    assert raw_client(stocked).exchange(get("a.test", stocked.origin.port)).status == 200
    stocked.access(lambda line: line["cache"] == "hit")
    done = cache(stocked, "status")
    assert (done.returncode, done.stderr) == (0, "")
    stored, requests, from_it = done.stdout.splitlines()
    assert re.fullmatch(r"stored    3 answers, 3\.\d KiB of 64\.0 MiB; 0 evicted", stored), stored
    assert requests == "requests  4: 1 hit, 3 stored"
    assert re.fullmatch(r"from it   25 % of the requests, \d+ B|from it   25 % of the requests, 1\.\d KiB", from_it), from_it
    facts = json.loads(cache(stocked, "status", "--json").stdout)
    assert facts == stocked.admin.json("/v1/cache")
    assert (facts["answers"], facts["limit"], facts["evictions"]) == (3, 64 << 20, 0)
    assert facts["results"] == {
        "hit": 1, "stale": 0, "offline": 0, "revalidated": 0, "collapsed": 0, "stored": 3, "miss": 0
    }
    assert facts["bytes"] > 15 and facts["served_bytes"] > 20


def test_a_list_is_one_line_an_answer(stocked):
    done = cache(stocked, "list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = sorted(done.stdout.splitlines())
    for line, host in zip(lines, ("a.test", "b.test", "c.test"), strict=True):
        assert re.fullmatch(rf"200  5 B +for (59 min|1 h 0 min) +{re.escape(url(stocked, host))}", line), line
    assert listed(stocked) == {"a.test", "b.test", "c.test"}


@pytest.mark.parametrize(
    "options, hosts",
    [
        (["--host", "a.test"], {"a.test"}), (["--host", "A.Test"], {"a.test"}), (["--rule", "mirror"], {"a.test", "b.test"}),
        (["--rule", "other", "--host", "a.test"], set()), (["--host", "nobody.test"], set()),
    ],
)
def test_a_list_of_some(stocked, options, hosts):
    assert listed(stocked, *options) == hosts
    if not hosts:
        done = cache(stocked, "list", *options)
        assert (done.returncode, done.stdout) == (0, "nothing is stored\n")


def test_one_url_in_full(stocked):
    asked = url(stocked, "a.test")
    done = cache(stocked, "show", asked)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == asked and lines[1] == "  status   200, 5 B"
    assert re.fullmatch(rf"  stored   {TIME.pattern}, by rule mirror", lines[2])
    assert re.fullmatch(r"  age      \d+ s", lines[3])
    assert re.fullmatch(r"  fresh    for (59 min|1 h 0 min): 1 h 0 min by max-age", lines[4])
    assert lines[5:] == ['  etag     "v1"', "  varies   x-kind: (absent)"]
    (answer,) = json.loads(cache(stocked, "show", asked, "--json").stdout)["answers"]
    assert (answer["url"], answer["rule"], answer["lifetime_seconds"]) == (asked, "mirror", 3600)
    assert answer["because"] == "max-age" and answer["complete"] and answer["vary"] == {"x-kind": None}


def test_each_variant_of_a_url_is_shown(stocked, raw_client):
    stocked_url = url(stocked, "a.test")
    answer = raw_client(stocked).exchange(get("a.test", stocked.origin.port, lines="X-Kind: y\r\n"))
    assert answer.value("Cache-Status").startswith(b"sallyport; fwd=vary-miss; stored")
    shown = cache(stocked, "show", stocked_url).stdout
    assert "  varies   x-kind: (absent)\n" in shown and "  varies   x-kind: (not shown)\n" in shown
    done = cache(stocked, "purge", stocked_url)
    assert done.stdout == "purged 2 answers\n"


def test_no_secret_is_shown_whatever_an_origin_varies_by(administered, raw_origin, raw_client, tmp_path):
    """Vary may name what the policy adds; and a query may hold another user's token."""
    (tmp_path / "key").write_text("FILESECRET")
    rules = f"""
[cache]
[[rule]]
name = "keyed"
[rule.request]
headers.set = {{ X-Api-Key = {{ file = "{tmp_path}/key" }} }}
[rule.cache]
"""
    proxy = administered(rules, admin=f"operators = [{NUMBERED}]\n")
    vary = b"Vary: Cookie, X-Api-Key, Accept-Language"
    proxy.origin = raw_origin(answering(FRESH.replace(b"Vary: X-Kind", vary)))
    asked = f"http://a.test:{proxy.origin.port}/x?access_token=TOKEN"
    head = f"GET {asked} HTTP/1.1\r\nHost: a.test\r\nCookie: sid=SESSION\r\nAccept-Language: de\r\n\r\n"
    assert raw_client(proxy).exchange(head.encode()).status == 200
    assert proxy.access()["cache"] == "stored"
    for user, sees_query in ((NUMBERED, True), (STRANGER, False)):
        for path in ("/v1/cache/answers", f"/v1/cache?url={urllib.parse.quote(asked, safe='')}"):
            for lines in ("", "Accept: text/plain\r\n"):
                body = ask_as(user, proxy, path, lines=lines).body.decode()
                assert "FILESECRET" not in body and "SESSION" not in body, body
                assert ("TOKEN" in body) == sees_query, body
    (answer,) = proxy.admin.json("/v1/cache/answers")["answers"]
    assert answer["vary"] == {"cookie": "(not shown)", "x-api-key": "(not shown)", "accept-language": "de"}


def test_a_url_that_is_not_stored_is_said_and_is_a_no(stocked):
    done = cache(stocked, "show", url(stocked, "nobody.test"))
    assert (done.returncode, done.stdout) == (1, "") and "nothing is stored for this URL" in done.stderr
    done = cache(stocked, "show", url(stocked, "nobody.test"), "--json")
    assert done.returncode == 1 and json.loads(done.stdout) == {"answers": [], "more": 0}


# Purging


@pytest.mark.parametrize(
    "options, purged, left",
    [
        (["--host", "a.test"], 1, {"b.test", "c.test"}),
        (["--rule", "mirror"], 2, {"c.test"}),
        (["--rule", "mirror", "--host", "b.test"], 1, {"a.test", "c.test"}),
        (["--older", "1h"], 0, {"a.test", "b.test", "c.test"}),
        (["--older", "0s", "--rule", "other"], 1, {"a.test", "b.test"}),
        (["--all"], 3, set()),
    ],
)
def test_answers_are_purged(stocked, options, purged, left):
    done = cache(stocked, "purge", *options)
    noun = "answer" if purged == 1 else "answers"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"purged {purged} {noun}\n", "")
    assert listed(stocked) == left


def test_answers_are_purged_by_their_urls(stocked):
    one, two = url(stocked, "a.test"), url(stocked, "c.test")
    done = cache(stocked, "purge", one, two, url(stocked, "nobody.test"))
    assert (done.returncode, done.stdout) == (0, "purged 1 answer\npurged 1 answer\npurged 0 answers\n")
    assert listed(stocked) == {"b.test"}
    done = cache(stocked, "purge", url(stocked, "b.test"), "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"purged": 1})


def test_what_is_purged_is_fetched_again(stocked, raw_client):
    asked = sum(len(connection.requests) for connection in stocked.origin.connections)
    cache(stocked, "purge", "--all")
    answer = raw_client(stocked).exchange(get("a.test", stocked.origin.port))
    assert answer.value("Cache-Status").startswith(b"sallyport; fwd=uri-miss; stored; ttl=")
    assert sum(len(connection.requests) for connection in stocked.origin.connections) > asked


USAGE = [
    ["purge"],
    ["purge", "--all", "http://a.test/"],
    ["purge", "--all", "--host", "a.test"],
    ["purge", "--host", "a.test", "http://a.test/"],
    ["purge", "--older", "7", "--host", "a.test"],
    ["purge", "--older", "soon"],
    ["show"],
    ["show", "http://a.test/", "http://b.test/"],
    ["list", "surplus"],
    ["list", "--older", "7d"],
    ["status", "surplus"],
    ["prune"],
    [],
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_usage(arguments, sallyport_binary):
    done = command("cache", *arguments)
    assert done.returncode == 2 and done.stdout == "" and "Try 'sallyport" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "query, said",
    [
        ("", "expected what to purge"), ("?nobody=1", "unknown name 'nobody'"), ("?all=no", "expected 'all=yes'"),
        ("?host=a&host=b", "expected one 'host'"), ("?older=-1", "expected a number of seconds as 'older'"),
        ("?older=7d", "expected a number of seconds as 'older'"), ("?url=%ff", "expected text without blanks and control characters"),
    ],
)
def test_a_purge_that_means_nothing_purges_nothing(stocked, query, said):
    answer = stocked.admin.ask(f"/v1/cache/purge{query}", "POST")
    assert answer.status == 400 and said in json.loads(answer.body)["detail"]
    assert listed(stocked) == {"a.test", "b.test", "c.test"}


def test_methods_of_the_resources(stocked):
    for path in ("/v1/cache", "/v1/cache/answers"):
        answer = stocked.admin.ask(path, "POST")
        assert (answer.status, answer.value("Allow")) == (405, b"GET, HEAD, OPTIONS")
    answer = stocked.admin.ask("/v1/cache/purge?all=yes")
    assert (answer.status, answer.value("Allow")) == (405, b"POST, OPTIONS")
    assert len(listed(stocked)) == 3


# Who may, and where there is none


def test_readers_may_look_and_operators_may_purge(stocked):
    for path in ("/v1/cache", "/v1/cache/answers", f"/v1/cache?url={url(stocked, 'a.test')}"):
        assert ask_as(STRANGER, stocked, path).status == 200, path
    answer = ask_as(STRANGER, stocked, "/v1/cache/purge?all=yes", "POST")
    assert answer.status == 403 and f"user {STRANGER}" in json.loads(answer.body)["detail"]
    assert len(listed(stocked)) == 3
    answer = ask_as(NUMBERED, stocked, "/v1/cache/purge?all=yes", "POST")
    assert (answer.status, json.loads(answer.body)) == (200, {"purged": 3})


@pytest.mark.parametrize(
    "arguments", [["status"], ["list"], ["show", "http://a.test/"], ["purge", "--all"]], ids=lambda arguments: arguments[0]
)
def test_without_a_store_all_say_so(administered, arguments):
    proxy = administered()
    done = cache(proxy, *arguments)
    assert (done.returncode, done.stdout) == (1, "") and "no [cache]" in done.stderr, done.stderr
    done = cache(proxy, *arguments, "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["status"] == 404


def test_without_a_store_nothing_else_speaks_of_one(administered):
    proxy = administered()
    assert not [name for name, _ in samples(proxy) if "sallyport_cache" in name]
    assert "cache" not in proxy.admin.text("/v1/status")


@pytest.mark.parametrize(
    "arguments", [["status"], ["list"], ["show", "http://a.test/"], ["purge", "--all"]], ids=lambda arguments: arguments[0]
)
def test_without_a_daemon(sallyport_binary, tmp_path, arguments):
    done = command("cache", *arguments, "--socket", tmp_path / "nobody.sock")
    assert done.returncode == 1 and done.stdout == "" and str(tmp_path / "nobody.sock") in done.stderr


# Over a reload


def test_a_reload_keeps_what_is_stored_unless_the_table_changes(stocked):
    assert stocked.admin.ask("/v1/reload", "POST").status == 200
    assert len(listed(stocked)) == 3
    rewrite(stocked, f'[cache]\nmemory = "8MiB"\n{RULES}')
    assert stocked.admin.ask("/v1/reload", "POST").status == 200
    facts = stocked.admin.json("/v1/cache")
    assert (facts["answers"], facts["limit"], facts["results"]["stored"]) == (0, 8 << 20, 0)


# Elsewhere


def test_the_metrics_and_the_status(stocked, raw_client):
    for _ in range(2):
        raw_client(stocked).exchange(get("a.test", stocked.origin.port))
    stocked.log.wait_for(lambda _: sum(line["cache"] == "hit" for line in stocked.access_lines()) == 2)
    seen = samples(stocked)
    assert seen["sallyport_cache_requests_total", (("result", "hit"),)] == 2
    assert seen["sallyport_cache_requests_total", (("result", "stored"),)] == 3
    assert seen["sallyport_cache_requests_total", (("result", "offline"),)] == 0
    facts = stocked.admin.json("/v1/cache")
    for name, member in (("answers", "answers"), ("bytes", "bytes"), ("evictions_total", "evictions")):
        assert seen[f"sallyport_cache_{name}", ()] == facts[member], name
    assert seen["sallyport_cache_served_bytes_total", ()] == facts["served_bytes"]
    line = re.search(r"^cache +(.*)$", stocked.admin.text("/v1/status"), re.MULTILINE)[1]
    assert re.fullmatch(r"3 answers, 3\.\d KiB of 64\.0 MiB; 40 % of 5 requests out of it", line), line


def test_the_log_says_how_the_store_took_part(administered, raw_client):
    proxy, origin = administered(POLICY), RawOrigin(answering(FRESH.replace(b"3600", b"0"), FRESH))
    for path in ("/old", "/fresh"):
        assert raw_client(proxy).exchange(get("a.test", origin.port, path)).status == 200
    origin.stop()
    for path, word in (("/fresh", "hit"), ("/old", "offline")):
        answer = raw_client(proxy).exchange(get("a.test", origin.port, path))
        assert answer.status == 200 and answer.value("Cache-Status").startswith(b"sallyport; hit; ttl=")
        reference = proxy.access(lambda line, word=word: line["cache"] == word)["ref"]
        assert proxy.admin.json(f"/v1/decisions/{reference}")["cache"] == word
        assert f" cache={word} " in proxy.admin.text(f"/v1/decisions/{reference}")
    answer = raw_client(proxy).exchange(get("a.test", origin.port, "/new", "Cache-Control: only-if-cached\r\n"))
    problem = check_problem(answer, 504, rule="mirror")
    assert problem.token == "not-stored" and problem.error == "proxy_internal_response"
    assert proxy.access_of(problem.reference)["cache"] == "miss"


def test_the_log_as_text(administered, raw_origin, raw_client):
    proxy = administered(f'[log]\nformat = "text"\n{POLICY}')
    origin = raw_origin(answering(FRESH))
    with proxy.admin.events("finished", lines="Accept: text/plain\r\n") as watcher:
        for word in ("stored", "hit"):
            raw_client(proxy).exchange(get("a.test", origin.port))
            assert f" cache={word} " in watcher.next_line()
    proxy.terminate()
    proxy.wait_for_exit()
    lines = [line for line in proxy.raw_log if "a.test" in line]
    assert [re.search(r" cache=(\w+)", line)[1] for line in lines] == ["stored", "hit"]
    proxy.log = Journal("nothing: this log is meant to be text")
