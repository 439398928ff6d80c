"""Two questions and their duality: what accuracy a budget buys, and what a target costs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import Evaluated, Probed, ReportUnwanted, TasksSpent
from fedfleet.measure.budget import CostCurve, accuracy_under, budgets, cost_curve, cost_to_reach, targets
from tests.measure.journals import ints

LAWS = settings(deadline=None, derandomize=True, max_examples=80)


def paid(time, task, joules, down=0.0, up=0.0):
    spent = {"joules": np.array([joules]), "bytes_down": np.array([down]), "bytes_up": np.array([up])}
    return TasksSpent(time, ints(task), ints(0), spent)


LOG = [
    Evaluated(0.0, 0, 10, 100, 2.3),
    paid(10.0, 0, 5.0, 100.0, 50.0),
    Evaluated(10.0, 1, 60, 100, 1.0),
    Probed(12.0, "loss", ints(1), np.zeros(1), {"joules": np.array([1.0]), "bytes_down": np.array([30.0])}),
    paid(20.0, 1, 4.0, 100.0, 50.0),
    Evaluated(20.0, 2, 55, 100, 1.1),
    ReportUnwanted(22.0, 0, 0, 7.0, "again"),
    ReportUnwanted(23.0, 1, 0, 9.0, "late"),
    paid(30.0, 2, 10.0, 100.0, 50.0),
    Evaluated(30.0, 3, 90, 100, 0.3),
]


def test_accuracy_stands_against_all_that_was_paid_before_it():
    assert cost_curve(LOG, "joules").cost.tolist() == [0.0, 5.0, 10.0, 20.0]
    # The bytes of a late report are on its task's account, those of a second one on nobody's.
    assert cost_curve(LOG, "bytes").cost.tolist() == [0.0, 150.0, 330.0, 487.0]
    assert cost_curve(LOG, "seconds").cost.tolist() == [0.0, 10.0, 20.0, 30.0]
    assert cost_curve(LOG, "joules").best.tolist() == [0.1, 0.6, 0.6, 0.9]


def test_both_questions_by_hand():
    curve = cost_curve(LOG, "joules")
    assert (accuracy_under(curve, 4.9), accuracy_under(curve, 19.9), accuracy_under(curve, 20.0)) == (0.1, 0.6, 0.9)
    assert (cost_to_reach(curve, 0.6), cost_to_reach(curve, 0.61), cost_to_reach(curve, 0.91)) == (5.0, 20.0, None)
    assert budgets(LOG)["joules"][1] == {"budget": 10.0, "accuracy": 0.6}
    assert targets(LOG)[-1] == {"accuracy": 0.9, "seconds": 30.0, "joules": 20.0, "bytes": 487.0}
    assert [row["accuracy"] for row in targets(LOG)] == [0.5, 0.6, 0.7, 0.8, 0.9]


def test_what_is_not_counted_is_not_answered():
    free = [e for e in LOG if isinstance(e, Evaluated)]
    assert set(budgets(free)) == {"seconds"} and set(targets(free)[0]) == {"accuracy", "seconds"}
    assert budgets([]) == {} and targets([]) == []
    nothing = CostCurve(np.zeros(0), np.zeros(0))
    assert accuracy_under(nothing, 1.0) is None and cost_to_reach(nothing, 0.1) is None


@LAWS
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10)), min_size=1, max_size=12),
    st.integers(0, 60),
    st.integers(1, 10),
)
def test_a_budget_buys_a_target_exactly_if_the_target_costs_no_more(steps, budget, target):
    log = []
    for i, (joules, correct) in enumerate(steps):
        log += [paid(float(i), i, float(joules)), Evaluated(float(i), i, correct, 10, 1.0)]
    curve = cost_curve(log, "joules")
    got, needed = accuracy_under(curve, budget), cost_to_reach(curve, target / 10)
    assert (got is not None and got >= target / 10) == (needed is not None and needed <= budget)
