"""Nothing is refused or lost while the daemon is replaced or reloaded under load: 500 requests a second, with the units
as they are installed. (Tunnels that stay open are in test_booted_tunnels.py.)
"""

from collections import Counter

from steady_load import KEPT_CLIENTS, RATE, SteadyLoad

POLICY = "/etc/sallyport/policy.d/50-test.toml"
# Of restarts: fewer than five in ten seconds, which systemd would call too many.
RESTARTS, RELOADS = 3, 20
HALF_A_SECOND = RATE // 2


def test_no_request_is_lost_over_restarts(serving):
    with SteadyLoad(serving) as load:
        load.wait_for_answers(HALF_A_SECOND)
        for _ in range(RESTARTS):
            process = serving.main_process()
            serving("systemctl restart sallyport.service")
            assert serving.main_process() != process
            load.wait_for_answers(HALF_A_SECOND)
    load.check()
    # What a restart costs those who keep their connections: another one. Two, where the first reaches a loop of the old
    # daemon that has not heard yet that it stops.
    assert 0 < load.reconnected + load.crossed <= 2 * RESTARTS * KEPT_CLIENTS
    assert load.crossed <= load.reconnected
    # The log has lost nothing either. A stop brings what is left of it into the journal.
    serving("systemctl stop sallyport.service")
    serving.journal.wait_for_several(RESTARTS + 1, lambda entry: entry["MESSAGE"] == "stopped")
    lines = serving.entries("--unit=sallyport.service", "SALLYPORT_METHOD=GET")
    assert {entry["SALLYPORT_TARGET"] for entry in lines} == {
        f"http://{load.authority}/{number}" for number in range(load.sent)
    }
    assert load.sent <= len(lines) <= load.sent + load.crossed


def test_a_crash_loses_what_the_daemon_had_in_its_hands_and_refuses_nobody(serving):
    with SteadyLoad(serving) as load:
        load.wait_for_answers(HALF_A_SECOND)
        serving("systemctl kill --kill-whom=main --signal=SIGKILL sallyport.service")
        serving.said("Failed with result 'signal'")
        before = load.sent
        load.wait_for_answers(HALF_A_SECOND)
    assert load.failure is None
    assert serving.show("sallyport.service", "NRestarts") == "1"
    assert [reason for reason in load.lost.values() if "refused" in reason] == []
    assert all(number < before for number in load.lost), f"{load.lost}, and it was gone at {before}"
    assert load.answered + len(load.lost) == load.sent


def test_no_request_is_lost_over_reloads_and_each_is_in_force_at_once(serving):
    sent = []
    with SteadyLoad(serving) as load:
        load.wait_for_answers(HALF_A_SECOND)
        process = serving.main_process()
        for number in range(1, RELOADS + 1):
            serving.write(POLICY, (
                f'[[rule]]\nname = "policy-{number}"\n\n[rule.request]\nheaders.set = {{ X-Policy = "{number}" }}\n'
            ))
            serving("systemctl reload sallyport.service")
            # Every request from here on is decided by this policy, or by one behind it.
            sent.append(load.sent)
            load.wait_for_answers(RATE // 20)
    load.check()
    assert serving.main_process() == process
    # A reload closes nobody's connection.
    assert (load.reconnected, load.crossed) == (0, 0)
    for number, first in enumerate(sent, start=1):
        late = [request for request in range(first, load.sent) if int(load.arrived[request] or 0) < number]
        assert late == [], f"reload {number} was over, and policies decided: {Counter(map(load.arrived.get, late))}"
    assert load.arrived[load.sent - 1] == str(RELOADS)
