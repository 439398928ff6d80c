"""The literal simulation, piece by piece and by hand: it is what the fast one is held to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.fleet import StateTable, device_table, take_states
from fedfleet.measure.montecarlo.reference_simulation import (
    Draws,
    choose,
    is_ready,
    quantile,
    seconds_until_done,
    simulate,
    traces_of_clients,
)
from fedfleet.measure.montecarlo.settings import Settings
from tests.worlds import traces_of

STATES = StateTable(np.array(["a", "b"]), traces_of([((0.0, 10.0), (20.0, 25.0)), ((5.0, 6.0),)], [100.0, 10.0]))
TRACES = traces_of_clients(STATES)


def test_draws_repeat_and_stay_below():
    first, again = Draws(7), Draws(7)
    numbers = [first.below(5) for _ in range(200)]
    assert numbers == [again.below(5) for _ in range(200)]
    assert set(numbers) == set(range(5))


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.sets(st.integers(0, 29)), st.integers(1, 12), st.integers(0, 99))
def test_a_choice_has_no_repetition_and_only_ready_clients(ready, k, seed):
    chosen = choose(sorted(ready), k, 30, Draws(seed))
    assert len(chosen) == len(set(chosen)) == min(k, len(ready))
    assert set(chosen) <= ready


def test_ready_moments_and_elapsed_time():
    assert [is_ready(TRACES[0], t) for t in (0.0, 9.5, 10.0, 22.0, 25.0, 105.0)] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]
    assert seconds_until_done(TRACES[0], 0.0, 4.0) == 4.0
    assert seconds_until_done(TRACES[0], 0.0, 12.0) == 22.0, "two seconds of the second session"
    assert seconds_until_done(TRACES[0], 5.0, 11.0) == 96.0, "one second of the next period"
    assert seconds_until_done(TRACES[0], 5.0, 0.0) == 0.0
    shared = traces_of_clients(take_states(STATES, np.array([1, 0, 1])))
    assert [is_ready(shared[c], 5.5) for c in range(3)] == [True, True, True]
    assert [is_ready(shared[c], 21.0) for c in range(3)] == [False, True, False]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=9), st.floats(0, 1))
def test_the_quantile_is_numpys(values, q):
    assert quantile(values, q) == pytest.approx(float(np.quantile(values, q)), abs=1e-9)


def test_a_simulation_by_hand():
    # One device that needs one second each way and a sample of a third of a second (x 3): three seconds a trip.
    device = device_table(["a"], [[8.0]], [1 / 3])
    asked = Settings(k=1, rounds=4, trips=4, deadline=3.0, size_kb=1.0, t_break_asked=20.0)
    assert simulate(asked, device, None, seed=0, t_cost=0.0, by_deadline=True) == ([4], pytest.approx(4 * 23.0))
    hasty = Settings(k=1, rounds=4, deadline=2.9, size_kb=1.0, t_break_asked=20.0)
    assert simulate(hasty, device, None, seed=0, t_cost=0.0, by_deadline=True) == ([0], pytest.approx(4 * 22.9))
