"""`fedfleet stress`."""

import json
from dataclasses import replace

import pytest

from fedfleet.app.api.stress import stress_text
from fedfleet.network.stress import stress_run
from fedfleet.network.stress.raw_grpc import raw_rates
from fedfleet.network.stress.stress_plan import Dummy
from fedfleet.network.stress.stress_run import Stress, answer_of, run_ablation
from tests.app.specs import refused
from tests.network.stress.outcomes import outcome, tally

pytestmark = pytest.mark.slow

CONTRACT = {
    "round_seconds", "updates_per_second", "raw_grpc_updates_per_second", "peak_rss_mb", "clients", "payload_bytes",
}  # fmt: skip


@pytest.mark.slow
def test_stress_answers_by_the_contract(fedfleet, monkeypatch):
    # Here nobody compares rates, so that raw gRPC need not be measured for 6 s.
    monkeypatch.setattr(stress_run, "raw_rates", lambda raw: raw_rates(replace(raw, seconds=0.2)))
    code, out, _ = fedfleet("stress", "--clients", 10, "--payload-bytes", 4000, "--rounds", 2, "--no-durable", "--json")
    assert code == 0
    got = json.loads(out)
    assert set(got) >= CONTRACT
    assert (len(got["round_seconds"]), got["clients"], got["payload_bytes"]) == (2, 10, 4000)
    assert got["raw_grpc_updates_per_second"] > 0
    assert got["durable"] is False


def test_bad_input(fedfleet):
    refused(fedfleet("stress", "--mode", "fedbuf"), "--mode", "did you mean 'fedbuff'")
    refused(fedfleet("stress", "--payload-bytes", 4001), "--payload-bytes", "multiple of 4")
    refused(fedfleet("stress", "--rounds", 1), "--rounds")
    refused(fedfleet("stress", "--sweep", "10,x"), "--sweep")
    refused(fedfleet("stress", "--clients", 2, "--generators", 3), "--generators")


ASKED = Stress(Dummy(15, 400, 3), transmitters=2)


def test_a_row_says_rates_and_memory():
    shown = stress_text(answer_of(outcome(ASKED)))
    assert "400 bytes each way, sync, durable, 2 transmitters" in shown
    row = next(line for line in shown.splitlines() if "15" in line and "50%" in line)
    for word in ("1.500", "10", "20", "100"):
        assert word in row


def test_a_sweep_has_a_row_for_each_size_and_troubles_are_told():
    rows = [answer_of(outcome(ASKED)), answer_of(outcome(ASKED, tallies=[tally(failures={"UNAVAILABLE": 3})]))]
    shown = stress_text({**rows[-1], "sweep": rows})
    assert sum("50%" in line for line in shown.splitlines()) == 2
    assert "calls that failed: {'UNAVAILABLE': 3}" in shown


def test_an_ablation_has_a_row_for_each_step():
    shown = stress_text({**answer_of(outcome(ASKED, raw={})), "ablation": [*run_ablation(ASKED, outcome)]})
    for step in ("one process", "+ pools", "+ durability"):
        assert step in shown
    assert " - " in shown  # no raw gRPC to compare with
