"""The state of a run: ended tasks in a chain that shares its past, and a state that steps never change in place."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.records import FATES, FOLDED, LOST, Stop
from fedfleet.engine.commands import carry_out
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import Ending, Phase, Progress, Reaction, RunState, endings, in_order_of_arrival
from fedfleet.pace.rounds import readiness
from fedfleet.simulation.simulator import new_simulation, next_fact
from fedfleet.testing.toys import opaque_executor
from tests.worlds import even_fleet, fleets, paces, toy_plan, world_of


def chain(tasks):
    last = None
    for task in tasks:
        last = Ending(last, task, None, 1.0, FOLDED)
    return last


@given(st.permutations(range(9)))
def test_ended_tasks_come_by_their_ids_or_as_they_ended(tasks):
    last = chain(tasks)
    assert [e.task for e in in_order_of_arrival(last)] == list(tasks)
    assert [e.task for e in endings(last)] == sorted(tasks)


def test_nothing_has_ended():
    assert endings(None) == in_order_of_arrival(None) == []


def test_appending_shares_everything_that_came_before():
    before = chain([3, 1])
    one, other = Ending(before, 2, None, 1.0, FOLDED), Ending(before, 5, None, 1.0, LOST)
    assert [e.task for e in in_order_of_arrival(one)] == [3, 1, 2]
    assert [e.task for e in in_order_of_arrival(other)] == [3, 1, 5]
    assert in_order_of_arrival(one)[0] is in_order_of_arrival(other)[0]


def test_a_long_chain_is_walked_and_shown_without_recursion():
    last = chain(range(20_000))
    assert len(endings(last)) == 20_000
    assert repr(last) == f"Ending(task=19999, seconds=1.0, fate={FATES[FOLDED]}, ..)"


def test_a_run_begins_with_judging_its_first_model_and_nothing_known():
    plan = toy_plan(readiness(2), 3)
    result = begin(plan)
    assert isinstance(result, Reaction)
    state = result.state
    assert (state.phase, state.next_task, len(state.running), state.ended, state.reason) == (
        Phase.EVALUATING,
        0,
        0,
        None,
        "",
    )
    assert state.progress == Progress(best=-math.inf, since=0, evaluated=-1, updates=0)
    assert all(np.array_equal(state.server.params[n], v) for n, v in plan.params.items())


def walked(plan, world):
    """Every state of a run, each with the fact that led on from it."""
    run = new_simulation(plan, world, opaque_executor())
    first = begin(plan)
    run.state = first.state
    for command in first.commands:
        carry_out(run, command)
    result = []
    while run.state.phase is not Phase.DONE:
        fact = run.facts.popleft() if run.facts else next_fact(run)
        result.append((run.state, fact))
        run.state, _, commands = step(plan, run.state, fact)
        for command in commands:
            carry_out(run, command)
    return [*result, (run.state, None)]


@settings(deadline=None, derandomize=True, max_examples=25)
@given(fleets(max_clients=5), paces().map(lambda pace: pace.policy()))
def test_steps_leave_every_state_before_as_it_was(fleet, policy):
    """What a step gives depends on state and fact alone, however far the run has gone on since."""
    plan, world = toy_plan(policy, len(fleet), stop=Stop(rounds=3, virtual_seconds=2000.0)), world_of(fleet)
    states = walked(plan, world)
    for (state, fact), (after, _) in list(pairwise(states))[::-1]:
        again = step(plan, state, fact).state
        assert again.book == after.book
        assert (again.phase, again.next_task, again.wake, again.reason) == (
            after.phase,
            after.next_task,
            after.wake,
            after.reason,
        )
        assert set(again.running) == set(after.running)
        assert [e.task for e in endings(again.ended)] == [e.task for e in endings(after.ended)]


def test_a_run_goes_through_its_phases_to_the_end():
    states = [state for state, _ in walked(toy_plan(readiness(2), 3, stop=Stop(rounds=2)), world_of(even_fleet(3)))]
    seen = list(dict.fromkeys(state.phase for state in states))
    assert seen[:3] == [Phase.EVALUATING, Phase.OPEN, Phase.GATHERING]
    assert seen[-1] is Phase.DONE
    assert states[-1].reason == "rounds"
    assert not states[-1].running


@pytest.mark.parametrize("name", ["server", "book", "running", "phase"])
def test_a_state_cannot_be_assigned_to(name):
    state = begin(toy_plan(readiness(2), 3)).state
    assert isinstance(state, RunState)
    with pytest.raises(AttributeError):
        setattr(state, name, None)
