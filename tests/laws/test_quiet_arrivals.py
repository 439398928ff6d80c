"""Arrivals that are taken at once change nothing: events, digests and states are those of a policy that is asked every time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from fedfleet.core.equality import same
from fedfleet.core.events import TaskArrivals, TaskArrived
from fedfleet.core.parts import UNSTEADY, Steady, SteadyDecide
from fedfleet.core.records import Stop
from fedfleet.engine.checkpoint import freeze
from fedfleet.engine.coordinator import handle_arrivals, quiet_arrivals, step
from fedfleet.pace.asynchronous import buffered, semi_async
from fedfleet.pace.combinators import first_of, overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.pace.timeout import timeout
from fedfleet.simulation import simulator
from fedfleet.simulation.simulator import simulate
from fedfleet.store.journal import memory_journal
from fedfleet.testing.toys import consensus, idle, idle_executor, opaque_executor, trial_worlds
from tests.portions import examples
from tests.worlds import even_fleet, fleets, paces, plain, toy_plan, world_of

POLICIES = {
    "readiness": readiness(8, ready_share=0.75),
    "readiness, late reports": readiness(8, ready_share=0.5, max_staleness=3),
    "readiness with a lease": readiness(8, lease=50.0),
    "deadline": deadline(8, seconds=60.0),
    "deadline, late reports": deadline(8, seconds=30.0, max_staleness=2),
    "overcommit": overcommit(deadline(6, seconds=60.0)),
    "timeout": timeout(8, seconds=40.0),
    "timeout, late reports": timeout(8, seconds=20.0, max_staleness=2),
    "first_of": first_of(timeout(8, seconds=40.0), deadline(6, seconds=50.0)),
    "buffered": buffered(k=5, concurrency=12, refill=15.0),
    "buffered in batches": buffered(k=9, concurrency=12, batch=4, lease=500.0, refill=7.0),
    "semi_async": semi_async(40.0, concurrency=12, refill=5.0),
}


def asked_every_time(policy):
    """The same policy without its promise."""
    assert isinstance(policy.decide, SteadyDecide)
    return replace(policy, decide=policy.decide.decide)


def run(policy, world, clients, *, rounds=12, algorithm=None, executor=None):
    """The digest of a run, its events, its last state, and how many times arrivals were taken at once."""
    batches, events, journal = [], [], memory_journal()

    def watch(batch):
        batches.append(batch)
        events.extend(batch)

    plan = toy_plan(
        policy, clients, algorithm=algorithm or consensus(remembers=True), stop=Stop(rounds=rounds, virtual_seconds=1e5)
    )
    if algorithm is not None:
        plan = replace(plan, params={})
    end = simulate(plan, world, executor or opaque_executor(), journal=journal, watch=watch)
    return journal.digest, events, end.state, sum(isinstance(batch, TaskArrivals) for batch in batches)


def check_equal(policy, world, clients):
    digest, events, state, together = run(policy, world, clients)
    other_digest, other_events, other_state, alone = run(asked_every_time(policy), world, clients)
    assert alone == 0
    assert [plain(e) for e in events] == [plain(e) for e in other_events]
    assert digest == other_digest
    (meta, arrays), (other_meta, other_arrays) = freeze(state), freeze(other_state)
    assert meta == other_meta
    assert same(arrays, other_arrays)
    return together


@pytest.mark.parametrize("name", POLICIES)
def test_runs_are_the_same_in_every_world(name):
    together = sum(check_equal(POLICIES[name], trial.world, len(trial.world.keys)) for trial in trial_worlds(40))
    assert together > 0


@examples(15, soak=60)
@given(fleets(), paces())
def test_runs_are_the_same_with_any_fleet_and_pace(fleet, pace):
    policy = pace.policy()
    if isinstance(policy.decide, SteadyDecide):
        check_equal(policy, world_of(fleet), len(fleet))


@pytest.mark.parametrize("name", POLICIES)
def test_states_on_the_way_are_those_of_single_steps(name, monkeypatch):
    taken = []

    def handle(state, arrivals):
        after = handle_arrivals(state, arrivals)
        one_by_one = state
        for fact in arrivals:
            one_by_one, outcomes, commands = step(plan, one_by_one, fact)
            assert (outcomes, commands) == ((), ())
        assert freeze(one_by_one)[0] == freeze(after)[0]
        taken.append(len(arrivals))
        return after

    monkeypatch.setattr(simulator, "handle_arrivals", handle)
    world = trial_worlds(40)[0].world
    plan = toy_plan(POLICIES[name], 40, stop=Stop(rounds=12, virtual_seconds=1e5))
    simulate(plan, world, opaque_executor())
    assert sum(taken) > len(taken) > 0


def test_a_promise_that_is_not_kept_would_be_seen():
    policy = readiness(8, ready_share=0.75)
    honest = policy.decide
    hasty = replace(policy, decide=SteadyDecide(honest, lambda book: honest.steady(book)._replace(arrivals=book.running - 1)))
    with pytest.raises(AssertionError):
        check_equal(hasty, trial_worlds(40)[0].world, 40)


def test_a_policy_around_another_promises_nothing_by_itself():
    policy = readiness(8)
    wrapped = replace(policy, decide=lambda book: policy.decide(book))
    assert run(wrapped, trial_worlds(20)[0].world, 20)[3] == 0


def test_only_arrivals_before_the_wake_up_that_is_set_are_quiet():
    plan = toy_plan(readiness(4), 8)
    state = simulate(replace(plan, stop=Stop(rounds=1)), world_of(even_fleet(8)), opaque_executor()).state
    assert quiet_arrivals(plan, state) == 0  # it is over
    assert Steady(0) == UNSTEADY


def test_an_executor_that_makes_no_reports_gives_the_same_run():
    world = trial_worlds(40)[0].world
    for policy in (POLICIES["deadline"], POLICIES["buffered"]):
        literal, without = (run(policy, world, 40, algorithm=idle(), executor=made()) for made in (opaque_executor, idle_executor))
        assert literal[0] == without[0]
        assert literal[2].book == without[2].book


def test_arrivals_are_a_sequence_of_events():
    arrivals = TaskArrivals([1.0, 2.0], [5, 3], [7, 8], [0.5, 1.5], [10.0, 20.0])
    first, second = TaskArrived(1.0, 5, 7, 0.5, 10.0), TaskArrived(2.0, 3, 8, 1.5, 20.0)
    assert (len(arrivals), list(arrivals), arrivals[1]) == (2, [first, second], second)
    assert list(arrivals[1:]) == [second]
    assert np.array_equal(arrivals[:1].times, [1.0])
