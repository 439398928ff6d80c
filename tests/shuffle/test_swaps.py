"""Swaps: sizes stay, and the price is the true one."""

import pytest

from fedfleet.shuffle.simple_plans import identity
from fedfleet.shuffle.swaps import best_swap
from tests.shuffle.users import batch_at, true_value, user


def test_a_swap_keeps_sizes_and_is_priced_truly():
    problem = user(6, 4, 3, 40)
    batch = batch_at(problem, identity(problem))
    change, value = best_swap(batch)
    assert (change.sum(3) == 0).all(), "every sender still hands out what it has"
    assert (change.sum((1, 2)) == 0).all(), "every device keeps its size"
    assert value[0] == pytest.approx(true_value(problem, batch.plan[0] + change[0]), rel=1e-9)
