"""Readers of /v1/events who are slow, or deaf: what they cost, what they lose, and that they are told."""

from admin_world import DENY, administered, many_refusals, samples
from journal import DEADLINE_SECONDS, readable
from problems import check_problem
from test_policy import get

MOST_WATCHERS = 16
# 1 MiB of each, in a block that has grown by doubling, and what waits for all of them.
BYTES_OF_ALL_READERS = 36 * 1024 * 1024


def test_what_is_lost_of_other_kinds_is_not_told(administered, raw_client):
    """A reader of reloads has none to miss, however much else goes by while it does not read."""
    proxy = administered(DENY + "[log]\naccess = false\n")
    with proxy.admin.events("reload") as quiet, proxy.admin.events() as loud:
        many_refusals(raw_client(proxy), 10_000)
        assert proxy.admin.ask("/v1/reload", "POST").status == 200
        assert quiet.next().kind == "reload"
        lost = samples(proxy)["sallyport_lost_events_total", ()]
        told = loud.until("lost")["count"]
        while told < lost:
            told += loud.until("lost")["count"]
        assert told == lost > 0


def test_a_reader_that_never_reads_is_not_felt(administered, raw_client):
    """60,000 events, some 30 MB, for as many readers as may be: what they hold together has a bound, and what they do not
    take is counted as lost, to the last one."""
    proxy = administered(DENY + "[log]\naccess = false\n")
    client = raw_client(proxy)
    many_refusals(client, 5000)
    # The end of the last one is posted after its answer has gone, and must not reach a reader that comes now.
    proxy.admin.asked_until("/v1/status", lambda page: page["exchanges"]["total"] == 5000)
    before = proxy.private_bytes()
    deaf = [proxy.admin.events("finished", "reload") for _ in range(MOST_WATCHERS)]
    many_refusals(client, 20_000)
    full = proxy.private_bytes()
    assert full - before < BYTES_OF_ALL_READERS
    many_refusals(client, 40_000)
    assert proxy.private_bytes() - full < 2 * 1024 * 1024, "it grows with what is not read"
    assert proxy.admin.json("/v1/status")["exchanges"]["total"] == 65_000
    lost = samples(proxy)[("sallyport_lost_events_total", ())]
    got = told = posted = 0
    for watcher in deaf:
        # Each event, those of the reloads too, comes or is told to be lost: until all are accounted for there is more to read.
        seen = 0
        while seen < 60_000 + posted:
            while watcher.nothing_came() and b"\n\n" not in watcher.unread():
                proxy.admin.ask("/v1/reload", "POST")  # the next event brings word of those that were lost
                posted += 1
                if readable(watcher.socket, DEADLINE_SECONDS):
                    break
            event = watcher.next()
            got += event.kind == "finished"
            told += event.data["count"] if event.kind == "lost" else 0
            seen += event.data["count"] if event.kind == "lost" else event.kind in ("finished", "reload")
        assert seen == 60_000 + posted
        watcher.close()
    assert lost > 0 and got > 0
    reloads = samples(proxy)[("sallyport_reloads_total", (("result", "done"),))]
    assert 0 <= got + told - len(deaf) * 60_000 <= len(deaf) * reloads, f"{got} came, {told} told to be lost"
    assert told == samples(proxy)[("sallyport_lost_events_total", ())]


def test_a_reader_that_reads_again_is_told_what_it_lost_though_nothing_more_happens(administered, raw_client):
    proxy = administered(DENY + "[log]\naccess = false\n")
    with proxy.admin.events() as watcher:
        many_refusals(raw_client(proxy), 20_000)
        lost = samples(proxy)[("sallyport_lost_events_total", ())]
        told = watcher.until("lost")["count"]
        while told < lost:
            told += watcher.until("lost")["count"]
        assert told == lost > 0


def test_a_deaf_reader_takes_nothing_from_one_that_listens(administered, raw_client):
    proxy = administered(DENY + "[log]\naccess = false\n")
    deaf, listening = proxy.admin.events(), proxy.admin.events("finished")
    client = raw_client(proxy)
    many_refusals(client, 6000)
    # Once it has caught up, which it is told, it misses nothing.
    assert listening.until("lost")["count"] > 0
    wanted = [check_problem(client.exchange(get("x.ads.test", 80)), 403).reference for _ in range(100)]
    finished = [listening.until("finished")["ref"]]
    while finished[-1] != wanted[-1]:
        finished.append(listening.until("finished")["ref"])
    assert finished[-100:] == wanted
    deaf.close()
    listening.close()
