"""FLAME: its three factors, users together, and the dead left alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.choose.flame import energy_factor, flame, time_factor
from fedfleet.core.errors import BadInput
from fedfleet.core.events import TasksSpent
from fedfleet.core.parts import Draw
from fedfleet.core.records import DROPPED
from fedfleet.core.rng import stream
from fedfleet.testing import check_selector
from tests.choose.rosters import ended, roster

pytestmark = pytest.mark.slow


def chosen(selector, state, there, n):
    return selector.pick(state, there, n, Draw(1, 0)).clients.tolist()


def with_losses(selector, losses, seconds=8.0):
    """The state after every client reported this loss."""
    return selector.learn(selector.initial(len(losses)), ended(range(len(losses)), seconds=seconds, loss=losses), 0.0)


def spent(clients, time=0.0, **columns):
    columns = {name: np.asarray(v, np.float64) for name, v in columns.items()}
    return TasksSpent(time, np.arange(len(clients)), np.asarray(clients), columns)


@given(st.floats(1.0, 1e3), st.floats(0.01, 1.0))
def test_at_the_limit_the_factor_falls_by_alpha_at_once(limit, alpha):
    at, after, twice = time_factor(np.array([limit, np.nextafter(limit, np.inf), 2 * limit]), limit, alpha)
    assert at == 1.0
    assert after == pytest.approx(alpha) and twice == pytest.approx(alpha / 2)
    assert time_factor(np.array([np.inf]), limit, alpha)[0] == 0.0


def test_alpha_decides_whether_the_slow_are_chosen():
    # 31 s instead of 30: utility 10 against 9 with alpha 1, but 5 with alpha a half.
    there = roster(2, seconds=[31.0, 30.0])
    state = with_losses(flame(), [10.4, 9.0], seconds=[31.0, 30.0])
    assert chosen(flame(alpha=1.0), state, there, 1) == [0]
    assert chosen(flame(alpha=0.5), state, there, 1) == [1]


def test_without_energy_with_alpha_one_and_a_device_for_each_user_it_is_the_top_by_loss_root_n_and_speed():
    draws, n = stream(1, "flame"), 60
    losses, seconds, samples = draws.uniform(0.1, 3, n), draws.uniform(5, 90, n), draws.integers(1, 200, n)
    worth = losses * np.sqrt(samples) * np.minimum(1.0, 30.0 / seconds)
    for users in (np.full(n, -1.0), draws.permutation(n).astype(float)):
        for by in ("best", "average"):
            part = flame(by, alpha=1.0)
            there = roster(n, seconds=seconds, samples=samples, user=users)
            result = chosen(part, with_losses(part, losses, seconds), there, 20)
            assert result == np.argsort(-worth)[:20].tolist()


def test_who_never_reported_has_a_loss_of_ten_and_foreseen_seconds():
    part = flame()
    state = part.learn(part.initial(3), ended([0, 1], loss=[9.0, np.nan]), 0.0)
    assert state["loss"].tolist() == [9.0, 10.0, 10.0]
    assert chosen(part, part.initial(2), roster(2, seconds=[31.0, 29.0]), 1) == [1]


def test_durations_of_dropped_tasks_are_lower_bounds():
    part = flame()
    state = part.learn(part.initial(2), ended([0], seconds=200.0, fate=DROPPED), 0.0)
    assert chosen(part, state, roster(2, seconds=20.0), 1) == [1]


def test_users_with_a_device_in_the_top_bring_their_best_others_and_the_tail_goes():
    part = flame(devices=3)
    users = [0, 1, 2, 3, 0, 0, 0, 1]
    there = roster(8, user=users)
    state = with_losses(part, [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0])
    assert chosen(part, state, there, 4) == [0, 4, 5, 1], "user 0 has three, and users 2 and 3 made room"
    assert chosen(part, state, there, 5) == [0, 4, 5, 1, 7]
    assert chosen(part, state, there, 8) == [0, 4, 5, 1, 7, 2, 3, 6], "a fourth device stands where it stands"
    assert chosen(flame(devices=1), state, there, 4) == [0, 1, 2, 3]


def test_by_average_users_stand_by_the_mean_of_their_best():
    part = flame("average", devices=2)
    users = [0, 1, 1, 0, 0]
    state = with_losses(part, [9.0, 6.0, 5.0, 1.0, 0.5])  # user 0: 5.0, user 1: 5.5
    assert chosen(part, state, roster(5, user=users), 3) == [1, 2, 0]
    assert chosen(part, state, roster(5, user=users), 5) == [1, 2, 0, 3, 4]


def test_the_energy_factor_is_a_logarithm_and_ends_at_the_budget():
    assert energy_factor(np.array([1.0, 50.0, 100.0, 101.0]), 100.0) == pytest.approx([np.log(100), np.log(2), 0, 0])


def test_a_dead_device_is_never_chosen():
    part = flame(energy=True, budget=200.0)
    state = part.initial(3)
    assert sorted(chosen(part, state, roster(3), 3)) == [0, 1, 2]
    state = part.charge(state, spent([0, 1], joules=[150.0, 20.0], compute=[1.0, 1.0]))
    # The first drew 150 and would draw as much again; of the others one more task is 20 and 60.
    assert sorted(chosen(part, state, roster(3), 3)) == [1, 2]
    state = part.charge(state, spent([1, 2], joules=[20.0, 199.0], compute=[1.0, 1.0]))
    assert chosen(part, state, roster(3), 3) == [1]
    state = part.charge(state, spent([1] * 9, joules=[20.0] * 9, compute=[1.0] * 9))
    assert chosen(part, state, roster(3), 3) == []


def test_a_drained_device_comes_after_a_fresh_one():
    part = flame(energy=True)
    state = part.charge(part.initial(2), spent([0], joules=[900.0], compute=[1.0]))
    assert chosen(part, state, roster(2), 1) == [1]
    assert chosen(flame(), flame().initial(2), roster(2, samples=[11, 10]), 1) == [0], "without energy it would be the first"


def test_where_the_world_knows_no_joules_a_task_that_began_counts_sixty():
    part = flame(energy=True)
    state = part.charge(part.initial(3), spent([0, 1, 2], compute=[1.0, 0.0, np.nan]))
    assert state["drained"].tolist() == [60.0, 0.0, 60.0]
    told = part.charge(part.initial(2), spent([0, 1], compute=[1.0, 1.0], joules=[5.0, np.nan]))
    assert told["drained"].tolist() == [5.0, 60.0]


def test_with_recharge_the_budget_is_full_again_the_next_day():
    part = flame(energy=True, budget=200.0, recharge=86400.0)
    state = part.charge(part.initial(1), spent([0], time=80_000.0, joules=[150.0], compute=[1.0]))
    assert chosen(part, state, roster(1, time=86_000.0), 1) == []
    assert chosen(part, state, roster(1, time=86_400.0), 1) == [0], "though nothing was charged meanwhile"
    state = part.charge(state, spent([0], time=90_000.0, joules=[30.0], compute=[1.0]))
    assert state["drained"].tolist() == [30.0]
    for_ever = flame(energy=True, budget=200.0)
    assert chosen(for_ever, for_ever.charge(for_ever.initial(1), spent([0], joules=[150.0])), roster(1, time=1e9), 1) == []


def test_a_recharge_shorter_than_any_moment_breaks_nothing():
    part = flame(energy=True, recharge=5e-324)
    state = part.charge(part.initial(1), spent([0], time=9.0, joules=[1.0]))
    assert chosen(part, state, roster(1, time=10.0), 1) == [0]


@pytest.mark.parametrize("part", [flame(), flame("average", energy=True), flame(energy=True, recharge=60.0)])
def test_it_is_a_selector_as_others_are(part):
    check_selector(part)


def test_a_budget_that_no_task_fits_into_is_refused():
    with pytest.raises(BadInput, match=r"choose.budget: 50 J is less than the energy of one task \(choose.joules = 60\)"):
        assemble(resolve({"choose": {"use": "flame", "energy": True, "budget": 50.0}}))
