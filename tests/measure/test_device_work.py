"""Where work went: the columns of TasksSpent by fate, by stage, and beside tasks."""

import math

import numpy as np
import pytest

from fedfleet.core.events import Probed, TasksSpent
from fedfleet.measure.device_work import by_fate, probe_costs, spending, stage_seconds
from tests.measure.journals import LOG, TASKS, ints


def told(time, *tasks, **spent):
    return TasksSpent(time, ints(*tasks), ints(*tasks), {name: np.array(v, float) for name, v in spent.items()})


# Tasks 0 and 1 are folded, 2 is refused, 3 dropped, 4 lost, 5 arrived for nothing, 6 and 7 folded: see journals.
COSTS = [
    told(50.0, 0, 1, 2, 3, download=[2, 2, 2, 2], compute=[6, 10, 20, 18], upload=[2, 2, 2, 0],
         bytes_down=[100, 100, 100, 100], bytes_up=[50, 50, 50, 0], joules=[10, 20, 30, 15], grams=[1, 2, 3, 1.5]),
    told(90.0, 4, 5, compute=[0, 15], bytes_down=[0, 100], bytes_up=[0, 50], joules=[0, 25]),
    told(150.0, 6, 7, compute=[30, 10], bytes_down=[100, 100], bytes_up=[50, 50], joules=[40, 10]),
]  # fmt: skip
SPENT = spending([*LOG, *COSTS], 8)


def test_costs_are_found_by_task_and_a_column_that_is_not_there_is_nothing():
    assert SPENT.column("joules").tolist() == [10, 20, 30, 15, 0, 25, 40, 10]
    assert SPENT.column("grams").tolist() == [1, 2, 3, 1.5, 0, 0, 0, 0]
    assert SPENT.column("exchange").tolist() == [0.0] * 8
    assert SPENT.worked_seconds().tolist() == [10, 14, 24, 20, 0, 15, 30, 10]


def test_what_was_not_told_is_unknown():
    half = spending(COSTS[:1], 8)
    assert np.isnan(half.worked_seconds()[4:]).all() and np.isnan(half.column("upload")[4:]).all()
    assert half.column("upload")[:4].tolist() == [2, 2, 2, 0]
    assert np.isnan(spending([], 3).column("joules")).all()


def test_every_fate_has_its_cost_and_they_add_up():
    result = by_fate(TASKS, SPENT)
    assert {fate: row["tasks"] for fate, row in result.items()} == {
        "folded": 4, "rejected": 1, "wasted": 1, "lost": 1, "dropped": 1,
    }  # fmt: skip
    # Elapsed 10, 20, 40 and 10 seconds of the folded ones, of which 10, 14, 30 and 10 were worked.
    assert (result["folded"]["worked_seconds"], result["folded"]["waited_seconds"]) == (64.0, 16.0)
    assert (result["dropped"]["worked_seconds"], result["dropped"]["waited_seconds"]) == (20.0, 10.0)
    assert (result["rejected"]["bytes_down"], result["rejected"]["bytes_up"]) == (100.0, 50.0)
    for name in ("bytes_down", "bytes_up", "joules"):
        assert sum(row[name] for row in result.values()) == SPENT.column(name).sum()
    assert sum(row["worked_seconds"] for row in result.values()) == SPENT.worked_seconds().sum()


def test_a_task_of_which_nobody_knows_is_counted_as_such():
    wire = spending([told(50.0, *range(8), compute=[math.nan] * 8)], 8)
    result = by_fate(TASKS, wire)
    assert result["folded"]["unknown"] == 4 and result["folded"]["worked_seconds"] == 0.0


def test_stages_are_added_over_tasks():
    result = stage_seconds(SPENT)
    assert (result["download"], result["compute"], result["upload"], result["averaging"]) == (8.0, 109.0, 6.0, 0.0)


def test_probes_are_added_up():
    one = {"download": np.array([1.0, 1.0]), "compute": np.array([2.0, 0.0]), "bytes_down": np.array([9.0, 9.0])}
    seen = [
        Probed(1.0, "loss", ints(0, 1), np.array([0.5, math.nan]), {**one, "joules": np.array([3.0, 1.0])}),
        Probed(2.0, "loss", ints(2), np.array([0.5])),
    ]
    result = probe_costs(seen)
    assert (result.asked, result.answered, result.worked_seconds) == (3, 2, 4.0)
    assert (result.bytes_down, result.bytes_up, result.joules) == (18.0, 0.0, 4.0)
    assert probe_costs([]).asked == 0 and probe_costs([]).joules == pytest.approx(0.0)
