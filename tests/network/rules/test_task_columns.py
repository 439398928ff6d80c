"""The columns of tasks: storage and counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.rules.task_columns import PAGE, Phase, TaskColumns, add_strike, strikes_of


def test_ids_may_come_in_any_order_and_over_pages():
    made = TaskColumns()
    ids = np.array([PAGE + 1, 3, PAGE - 1, 5 * PAGE])
    made.add(ids, ids * 2, 1.0, 9.0, phase=Phase.OPEN)
    for task in ids.tolist():
        page, at = made.find(task)
        assert (page.client[at], page.until[at]) == (2 * task, 9.0)
    assert made.move_all([5 * PAGE, 3, 3, 4, -1], (Phase.OPEN,), Phase.LOST) == [3, 5 * PAGE]
    assert (made.counts[Phase.OPEN], made.counts[Phase.LOST], made.next) == (2, 2, 5 * PAGE + 1)


@pytest.mark.parametrize("ids", [[1, 1], [-1]])
def test_ids_are_natural_and_single(ids):
    with pytest.raises(ValueError, match="natural"):
        TaskColumns().add(np.array(ids), np.zeros(len(ids), int), 1.0, 1.0, phase=Phase.OPEN)


def test_a_page_that_shrank_grows_again():
    made = TaskColumns()
    made.add(np.array([1, PAGE]), np.array([7, 7]), 1.0, 9.0, phase=Phase.FOLDED)
    made.add(np.array([2 * PAGE]), np.array([7]), 1.0, 9.0, phase=Phase.FOLDED)
    assert made.nbytes() == PAGE * (9 + 9 + 27)
    made.add(np.array([2]), np.array([8]), 3.0, 4.0, phase=Phase.OPEN)
    page, at = made.find(2)
    assert (page.client[at], page.heaviest[at], page.until[at], page.soonest) == (8, 3.0, 4.0, 4.0)


@given(st.lists(st.tuples(st.integers(0, 2 * PAGE), st.sampled_from(list(Phase)[1:])), max_size=40))
def test_one_by_one_and_together_count_the_same(steps):
    one, many = TaskColumns(), TaskColumns()
    ids = np.arange(2 * PAGE + 1)
    for columns in (one, many):
        columns.add(ids, ids, 1.0, 9.0, phase=Phase.OPEN)
    for task, phase in steps:
        one.move(*one.find(task), phase)
        many.move_all([task], list(Phase), phase)
    assert one.counts == many.counts
    for number, page in one.pages.items():
        other = many.pages[number]
        assert (page.live, page.waiting) == (other.live, other.waiting)
        assert np.array_equal(page.phases(), other.phases())


def test_strikes_stop_at_three_and_leave_the_rest_of_a_mark():
    mark = 0xC1
    for wanted in (1, 2, 3, 3):
        mark = add_strike(mark)
        assert (strikes_of(mark), mark & 0xCF) == (wanted, 0xC1)
