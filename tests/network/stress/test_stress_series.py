from itertools import pairwise

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.stress.stress_plan import Dummy
from fedfleet.network.stress.stress_run import Stress
from fedfleet.network.stress.stress_series import STEPS, run_ablation, run_sweep, sizes_of, steps_of
from tests.network.stress.outcomes import outcome

FLAGS = ("transmitters", "encode_once", "streaming", "durable")


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
