"""Moves: the best of all, priced truly, for one sample and for many at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.shuffle.moves import best_move
from fedfleet.shuffle.simple_plans import identity
from tests.shuffle.users import batch_at, single_moves, true_value, users


@settings(deadline=None, derandomize=True, max_examples=40)
@given(users(most_devices=3, most_classes=4), st.sampled_from([1, 2, 4]))
def test_the_best_move_is_the_best_of_all_moves(problem, size):
    batch = batch_at(problem, identity(problem))
    change, value = best_move(batch, np.array([size]))
    every = [true_value(problem, p) for p in single_moves(batch.plan[0], size)]
    if not every:
        assert value[0] == np.inf
        return
    assert value[0] == pytest.approx(true_value(problem, batch.plan[0] + change[0]), rel=1e-9)
    assert value[0] == pytest.approx(min(every), rel=1e-9)
