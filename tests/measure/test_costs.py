"""What runs cost, by hand: bytes, work for nothing, seconds by stage, joules, and what belongs to probes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import Probed, TasksSpent
from fedfleet.measure.costs import by_fate, energy, probe_costs, stage_seconds, traffic, wasted_work
from fedfleet.measure.run_record import read_record
from fedfleet.measure.tasks import task_table
from tests.measure.journals import LOG, TASKS, ints, sent
from tests.measure.test_tasks import FAULTY

LAWS = settings(deadline=None, derandomize=True, max_examples=50)


def spending(log):
    return read_record(log).tasks.spending()


def energy_of(log):
    record = read_record(log)
    return energy(TASKS, record.tasks.spending(), record.probes, record.progress.costs["grams"])


def told(time, *tasks, **spent):
    return TasksSpent(time, ints(*tasks), ints(*tasks), {name: np.array(v, float) for name, v in spent.items()})


EIGHT = sent(0.0, 0, 0, 0, *range(8))
# Tasks 0 and 1 are folded, 2 is refused, 3 dropped, 4 lost, 5 arrived for nothing, 6 and 7 folded: see journals.
COSTS = [
    told(50.0, 0, 1, 2, 3, download=[2, 2, 2, 2], compute=[6, 10, 20, 18], upload=[2, 2, 2, 0],
         bytes_down=[100, 100, 100, 100], bytes_up=[50, 50, 50, 0], joules=[10, 20, 30, 15], grams=[1, 2, 3, 1.5]),
    told(90.0, 4, 5, compute=[0, 15], bytes_down=[0, 100], bytes_up=[0, 50], joules=[0, 25]),
    told(150.0, 6, 7, compute=[30, 10], bytes_down=[100, 100], bytes_up=[50, 50], joules=[40, 10]),
]  # fmt: skip
SPENT = spending([*LOG, *COSTS])


def test_costs_are_found_by_task_and_a_column_that_is_not_there_is_nothing():
    assert SPENT.column("joules").tolist() == [10, 20, 30, 15, 0, 25, 40, 10]
    assert SPENT.column("grams").tolist() == [1, 2, 3, 1.5, 0, 0, 0, 0]
    assert SPENT.column("exchange").tolist() == [0.0] * 8
    assert SPENT.worked_seconds().tolist() == [10, 14, 24, 20, 0, 15, 30, 10]


def test_what_was_not_told_is_unknown():
    half = spending([EIGHT, *COSTS[:1]])
    assert np.isnan(half.worked_seconds()[4:]).all() and np.isnan(half.column("upload")[4:]).all()
    assert half.column("upload")[:4].tolist() == [2, 2, 2, 0]
    assert np.isnan(spending([EIGHT]).column("joules")).all()


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
    wire = spending([EIGHT, told(50.0, *range(8), compute=[math.nan] * 8)])
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
    result = probe_costs(read_record(seen).probes)
    assert (result.asked, result.answered, result.worked_seconds) == (3, 2, 4.0)
    assert (result.bytes_down, result.bytes_up, result.joules) == (18.0, 0.0, 4.0)
    nothing = probe_costs(read_record([]).probes)
    assert nothing.asked == 0 and nothing.joules == pytest.approx(0.0)


def test_what_was_folded_is_useful_and_all_else_wasted():
    got = energy_of([*LOG, *COSTS])
    assert (got.joules, got.useful, got.wasted, got.probes, got.grams) == (150.0, 80.0, 70.0, 0.0, 7.5)


def test_looking_counts_by_itself():
    look = Probed(5.0, "loss", ints(0), np.array([1.0]), {"joules": np.array([6.0]), "grams": np.array([0.5])})
    got = energy_of([*LOG, *COSTS, look])
    assert (got.joules, got.useful, got.wasted, got.probes, got.grams) == (156.0, 80.0, 70.0, 6.0, 8.0)


def test_what_nobody_counted_is_not_nothing():
    assert energy_of(LOG) is None
    bare = [replace(e, spent={n: v for n, v in e.spent.items() if n in ("compute", "joules")}) for e in COSTS]
    assert energy_of([*LOG, *bare]).grams is None


@LAWS
@given(st.lists(st.floats(0, 1e9), min_size=8, max_size=8), st.lists(st.floats(0, 1e9), max_size=4))
def test_joules_add_up(each, looked):
    log = [
        *LOG,
        *(Probed(1.0, "loss", ints(0), np.zeros(1), {"joules": np.array([j])}) for j in looked),
        TasksSpent(150.0, np.arange(8), np.arange(8), {"joules": np.array(each)}),
    ]
    got = energy_of(log)
    assert got.joules == got.useful + got.wasted + got.probes
    assert got.joules == pytest.approx(sum(each) + sum(looked))
    assert got.useful == pytest.approx(sum(each[task] for task in (0, 1, 6, 7)))


def test_traffic_and_waste():
    moved = traffic(TASKS, 150.0)
    assert (moved.bytes_down, moved.bytes_up) == (800.0, 300.0)
    assert moved.bytes_per_second == pytest.approx(1100 / 150)
    waste = wasted_work(TASKS)
    assert waste.tasks == 4
    assert waste.seconds == 25.0 + 30.0 + 0.0 + 20.0
    assert waste.share == pytest.approx(75 / 155)


def test_duplicates_and_probes_are_waste_and_late_reports_count_once():
    tasks, record = task_table(FAULTY), read_record(FAULTY)
    probes = probe_costs(record.probes)
    assert (record.duplicate_bytes, probes.bytes_down, probes.bytes_up) == (50.0, 200.0, 16.0)
    moved = traffic(tasks, 100.0, record.probes, record.duplicate_bytes)
    assert (moved.bytes_down, moved.bytes_up) == (430.0 + 200.0, 120.0 + 50.0 + 16.0)
    assert (moved.wasted_down, moved.wasted_up) == (330.0 + 200.0, 70.0 + 50.0 + 16.0)
    waste = wasted_work(tasks)
    assert (waste.tasks, waste.lost, waste.late, waste.duplicates) == (4, 2, 1, 1)
    assert waste.seconds == 4.0 + 20.0 + 20.0 + 5.0
