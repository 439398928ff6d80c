"""Joules add up: useful, wasted and looking are all there is."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import Probed, TasksSpent
from fedfleet.measure.device_work import spending
from fedfleet.measure.energy import energy
from tests.measure.journals import LOG, TASKS, ints
from tests.measure.test_device_work import COSTS

LAWS = settings(deadline=None, derandomize=True, max_examples=50)


def found_in(log):
    return energy(log, TASKS, spending(log, 8))


def test_what_was_folded_is_useful_and_all_else_wasted():
    got = found_in([*LOG, *COSTS])
    assert (got.joules, got.useful, got.wasted, got.probes, got.grams) == (150.0, 80.0, 70.0, 0.0, 7.5)


def test_looking_counts_by_itself():
    look = Probed(5.0, "loss", ints(0), np.array([1.0]), {"joules": np.array([6.0]), "grams": np.array([0.5])})
    got = found_in([*LOG, *COSTS, look])
    assert (got.joules, got.useful, got.wasted, got.probes, got.grams) == (156.0, 80.0, 70.0, 6.0, 8.0)


def test_what_nobody_counted_is_not_nothing():
    assert found_in(LOG) is None
    bare = [replace(e, spent={n: v for n, v in e.spent.items() if n in ("compute", "joules")}) for e in COSTS]
    assert found_in([*LOG, *bare]).grams is None


@LAWS
@given(st.lists(st.floats(0, 1e9), min_size=8, max_size=8), st.lists(st.floats(0, 1e9), max_size=4))
def test_joules_add_up(each, looked):
    log = [
        *LOG,
        *(Probed(1.0, "loss", ints(0), np.zeros(1), {"joules": np.array([j])}) for j in looked),
        TasksSpent(150.0, np.arange(8), np.arange(8), {"joules": np.array(each)}),
    ]
    got = found_in(log)
    assert got.joules == got.useful + got.wasted + got.probes
    assert got.joules == pytest.approx(sum(each) + sum(looked))
    assert got.useful == pytest.approx(sum(each[task] for task in (0, 1, 6, 7)))
