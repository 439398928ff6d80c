"""What studies need of a run, all at once: by every executor, resumed and audited, and the same whoever computes."""

import numpy as np
import pytest

import fedfleet as ff
from fedfleet.app.runs.run_audit import replay_run
from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated
from tests.app.runs.owned import blobs, row
from tests.app.runs.owning import spec_for, unfinished

NEEDS = {
    "seeds": {"fleet": 7, "data": 8},
    "world": {
        "clients": 6, "devices": {"use": "spread", "most_link": 13.0, "most_compute": 4.0}, "holdout": 50, "unseen": 2,
        "data": {"use": "by_owner", "merge_owners": True}, "charge": 1,
    },
    "pace": {"use": "deadline", "cohort": 3, "seconds": 0.25, "t_break": 1.0},
    "stop": {"rounds": 6, "evaluate_attempts": 1, "evaluate_seconds": 0.7},
}  # fmt: skip


def run(out=None, execute="inline", **more):
    return ff.run(spec_for(execute, **NEEDS), model=row(), data=blobs(owners=True), out=out, **more)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run(tmp_path_factory.mktemp("needs") / "run")


def test_unseen_people_are_judged_at_every_look(done):
    metrics, points = done.metrics, [e for e in done.events if isinstance(e, Evaluated)]
    held = {e.unseen.total for e in points}
    assert len(held) == 1 and 44 <= held.pop() <= 46, "two of nine people with 22 or 23 samples each"
    assert metrics["accuracy_unseen"] == metrics["curve"]["unseen"][-1] > 0.8
    assert {e.total for e in points} < {*range(30, 50)}, "of 50 samples those of unseen people are none of the test set"
    seconds = metrics["curve"]["seconds"]
    assert {round(0.7 * k, 9) for k in range(1, int(seconds[-1] / 0.7))} <= {round(s, 9) for s in seconds}
    assert metrics["curve"]["rounds"][-1] == 6 and {0, 1, 2, 3, 4, 5, 6} == {*metrics["curve"]["rounds"]}


def test_a_flat_charge_is_what_tasks_are_charged(done):
    sent = [e for e in done.events if type(e).__name__ == "TasksSent"]
    assert {value for e in sent for value in e.samples.tolist()} == {1.0}


@pytest.mark.parametrize("quick", [True, False])
def test_it_can_be_audited(done, quick):
    result = replay_run(done.out, quick=quick)
    assert result["ok"] and "metrics.json" in result["verified"] and "classes" not in result["not_verified"]


def test_a_killed_run_goes_on_to_the_same_end(done, tmp_path):
    left = unfinished(done, tmp_path / "run")
    again = ff.run(left / "spec.toml", out=left, resume=True)
    assert again.metrics["digest"] == done.metrics["digest"]
    same = ("curve", "time_to", "confusion", "accuracy_unseen", "accuracy_never", "accuracy_took_part")
    assert {k: again.metrics[k] for k in same} == {k: done.metrics[k] for k in same}


def test_in_stacks_and_in_memory_it_is_the_same_run(done):
    stacked = run(execute="stacked")
    assert stacked.metrics["curve"]["seconds"] == done.metrics["curve"]["seconds"]
    assert np.allclose(stacked.metrics["curve"]["unseen"], done.metrics["curve"]["unseen"], atol=0.05)
    assert run().metrics["digest"] == done.metrics["digest"]


def test_other_settings_are_another_run(done, tmp_path):
    left = unfinished(done, tmp_path / "run")
    with pytest.raises(BadInput, match=r"a different spec \(seeds.fleet is 7 there, 3 here\)"):
        ff.run(left / "spec.toml", "seeds.fleet=3", out=left, resume=True)
