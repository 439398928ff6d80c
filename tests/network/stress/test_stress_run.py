from itertools import pairwise

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.protocol.frames import INLINE_BYTES
from fedfleet.network.stress.raw_grpc import RawRate
from fedfleet.network.stress.stress_plan import Dummy
from fedfleet.network.stress.stress_run import (
    STEPS,
    Stress,
    answer_of,
    run_ablation,
    run_stress,
    run_sweep,
    sizes_of,
    steps_of,
    sum_counts,
)
from tests.network.stress.outcomes import outcome, tally

pytestmark = pytest.mark.slow

ECHO = "tests.network.stress.echo_host"
CONTRACT = {
    "round_seconds", "updates_per_second", "raw_grpc_updates_per_second", "peak_rss_mb", "clients", "payload_bytes",
}  # fmt: skip


def test_a_run_against_an_echo_is_measured_whole():
    stress = Stress(Dummy(20, 4000, 3), in_flight=8, generators=2, raw=False, host=ECHO)
    done = run_stress(stress)
    got = answer_of(done)
    assert set(got) >= CONTRACT
    assert len(got["round_seconds"]) == 3
    assert all(s >= 0 for s in got["round_seconds"])
    assert got["receipts"] == {"SAFE": 60}
    assert got["failed_calls"] == {}
    assert 10 < got["peak_rss_mb"] < 1000
    assert len(done.tallies) == 2


def test_rates_leave_the_first_round_out():
    got = answer_of(outcome(Stress(Dummy(15, 400, 3))))
    assert got["round_seconds"] == [5.0, 1.0, 2.0]
    assert got["updates_per_second"] == 10.0  # two rounds of 15 in three seconds
    assert got["raw_grpc_updates_per_second"] == 20.0
    assert got["share_of_raw"] == 0.5
    assert got["calls_per_update"] == 2.0
    assert got["cpu_ms_per_update"] == {"server": 10.0, "processor": 10.0, "generators": 2.0, "raw_grpc": 1.5}


def test_the_better_form_of_raw_grpc_is_the_limit():
    got = answer_of(outcome(Stress(Dummy(15, 400, 3)), raw={"unary": RawRate(5.0, 3.0), "stream": RawRate(40.0, 1.0)}))
    assert (got["raw_grpc_updates_per_second"], got["share_of_raw"]) == (40.0, 0.25)
    assert answer_of(outcome(Stress(Dummy(15, 400, 3)), raw={}))["share_of_raw"] is None


def test_fedbuff_counts_what_a_commit_holds():
    got = answer_of(outcome(Stress(Dummy(100, 400, 3, "fedbuff"))))
    assert got["updates_per_second"] == pytest.approx(2 * 10 / 3, rel=0.01)


def test_generators_add_up():
    two = [tally(), tally(failures={"UNAVAILABLE": 1}, check={"140": 30})]
    got = answer_of(outcome(Stress(Dummy(15, 400, 3)), tallies=two))
    assert got["failed_calls"] == {"UNAVAILABLE": 1}
    assert got["check_ms"]["p50"] < got["check_ms"]["p99"]
    assert sum_counts([{"a": 1}, {"a": 2, "b": 1}]) == {"a": 3, "b": 1}


def test_what_is_left_open_fits_the_payload():
    assert Stress(Dummy(15, 400, 3)).with_defaults().in_flight > Stress(Dummy(15, INLINE_BYTES * 4, 3)).with_defaults().in_flight
    assert Stress(Dummy(15, 400, 3), transmitters=0).with_defaults().transmitters == 0
    assert Stress(Dummy(15, 400, 3)).with_defaults().transmitters >= 1


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(BadInput, match="--rounds"):
        run_stress(Stress(Dummy(5, 400, 1)))
    with pytest.raises(BadInput, match="--generators"):
        run_stress(Stress(Dummy(2, 400, 2), generators=3))


FLAGS = ("transmitters", "encode_once", "streaming", "durable")


@pytest.mark.parametrize(
    ("nbytes", "tls"), [(4000, True), pytest.param(2_000_000, False, marks=pytest.mark.soak)], ids=["small, TLS", "large"]
)
def test_clients_may_call_over_http(nbytes, tls):
    outcome = run_stress(Stress(Dummy(6, nbytes, 2), transmitters=0, raw=False, http=True, tls=tls))
    got = answer_of(outcome)
    assert got["http"] and got["receipts"]["SAFE"] >= 12 and len(got["round_seconds"]) == 2
    assert (sum(tally["fetched_bytes"] for tally in outcome.tallies) > 0) is (nbytes > INLINE_BYTES)


def test_every_step_adds_one_mechanism_and_keeps_the_others():
    steps = [step for _, step in steps_of(Stress(Dummy(10, 400, 3)))]
    assert len(steps) == 6
    for before, after in pairwise(steps):
        assert sum(getattr(before, name) != getattr(after, name) for name in FLAGS) == 1
    assert [getattr(steps[-1], name) for name in FLAGS] == [2, True, True, True]
    assert not any(step.raw for step in steps)


def test_each_step_is_run_and_named():
    seen = []

    def run(stress):
        seen.append(stress)
        return outcome(stress)

    rows = [*run_ablation(Stress(Dummy(10, 400, 3)), run)]
    assert [row["step"] for row in rows] == [name for name, _ in STEPS]
    assert len(seen) == len(rows)
    assert all(row["round_seconds"] == [5.0, 1.0, 2.0] for row in rows)


@pytest.mark.parametrize("text", ["", "10,", "a", "0", "-5", "1.5"])
def test_what_is_no_list_of_sizes_is_refused(text):
    with pytest.raises(BadInput, match="--sweep"):
        sizes_of(text)


def test_sizes_are_sorted_and_told_once():
    assert sizes_of("1000, 10,1000") == [10, 1000]


def test_memory_per_client_is_against_the_first_size():
    def run(stress):
        return outcome(stress, peak_mb=50 + stress.dummy.clients * 500 / 1e6)

    rows = [*run_sweep(Stress(Dummy(1, 400, 3)), [1000, 100_000], run)]
    assert [row["clients"] for row in rows] == [1000, 100_000]
    assert [row["bytes_per_client"] for row in rows] == [None, pytest.approx(500, rel=0.01)]
