from itertools import pairwise

from fedfleet.network.stress.ablation import STEPS, run_ablation, steps_of
from fedfleet.network.stress.stress_plan import Dummy
from fedfleet.network.stress.stress_run import Stress
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
