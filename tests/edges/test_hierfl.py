"""HierFL: who takes part in an average at the edge, and for how many steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.rng import client_keys
from fedfleet.edges.hierfl import draw_devices, hierfl
from tests.edges.test_fedgs import visit

pytestmark = pytest.mark.slow

LAWS = settings(deadline=None, derandomize=True, max_examples=80)
some_sizes = st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any)
shares = st.floats(0.01, 1.0)


@LAWS
@given(some_sizes, shares, st.integers(1, 6), st.integers(1, 9))
def test_each_average_asks_its_share_of_the_devices_that_hold_something(sizes, share, kappa1, kappa2):
    asked = visit(sizes)
    turn = hierfl(kappa1=kappa1, kappa2=kappa2, share=share).plan([asked])[0]
    held = sum(size > 0 for size in sizes)
    assert len(turn.syncs) == kappa2
    for sync in turn.syncs:
        assert sync.steps == kappa1
        assert len(sync.slots) == max(1, round(share * held))
        assert (np.diff(sync.slots) > 0).all()
        for slot, rows in zip(sync.slots.tolist(), sync.rows, strict=True):
            assert len(rows) == sizes[slot] > 0
            assert np.array_equal(rows, asked.rows[slot])
    assert turn.rows is asked.rows and turn.weight is None and turn.planning == 0.0 and turn.exchange is None


@LAWS
@given(some_sizes)
def test_with_full_participation_everybody_who_holds_something_takes_part(sizes):
    turn = hierfl(kappa2=3).plan([visit(sizes)])[0]
    assert all(sync.slots.tolist() == np.flatnonzero(sizes).tolist() for sync in turn.syncs)


def choices(sizes, **given_):
    return [s.slots.tolist() for s in hierfl(kappa2=6, share=0.4).plan([visit(sizes, **given_)])[0].syncs]


def test_choices_repeat_but_differ_between_averages_tasks_and_seeds():
    sizes = list(range(5, 17))
    assert choices(sizes) == choices(sizes)
    assert len({tuple(c) for c in choices(sizes)}) > 1
    assert choices(sizes) != choices(sizes, task=1)
    assert choices(sizes) != choices(sizes, seed=4)


def test_edges_do_not_depend_on_each_other():
    plan = hierfl(kappa2=4, share=0.5).plan
    other, mine = visit([9, 9, 9]), visit([4, 8, 12, 3], task=5)
    several, alone = plan([other, mine])[1], plan([mine])[0]
    assert [s.slots.tolist() for s in several.syncs] == [s.slots.tolist() for s in alone.syncs]


def test_devices_are_drawn_in_proportion_to_their_samples():
    sizes = [1, 3, 0, 6]
    first = [draw_devices(visit(sizes, task=task), 0.25, 0).tolist() for task in range(3000)]
    counts = np.bincount(np.concatenate(first), minlength=4) / len(first)
    np.testing.assert_allclose(counts, [0.1, 0.3, 0.0, 0.6], atol=0.03)


@LAWS
@given(st.permutations(range(6)), st.integers(0, 1000))
def test_renaming_devices_renames_the_draw(order, task):
    sizes = np.array([4, 9, 2, 7, 7, 3])
    one = visit(sizes.tolist(), task=task)
    renamed = visit(sizes[order].tolist(), task=task)
    renamed.keys[:] = client_keys(6)[order]
    assert sorted(np.array(order)[draw_devices(renamed, 0.5, 2)].tolist()) == draw_devices(one, 0.5, 2).tolist()
