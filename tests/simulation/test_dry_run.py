"""Dry runs: under every policy, on every fleet, who is in which model is what the trained run has; only training is missing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, RoundFailed
from fedfleet.core.records import FOLDED, Stop
from fedfleet.measure.tasks import task_table
from fedfleet.pace.rounds import deadline
from fedfleet.simulation.dry_run import dry_run
from fedfleet.testing.toys import consensus
from fedfleet.world.faults import lossy
from tests.worlds import even_fleet, events_of, fleets, only, paces, toy_plan, world_of

PACE = deadline(4, seconds=30.0, t_break=1.0)


def same_as_trained(plan, world):
    """The dry run has the commits, members, times and failures of the trained one."""
    log, end = events_of(plan, world)
    dry, tasks = dry_run(plan, world), task_table(log)
    assert dry.times.tolist() == [e.time for e in only(ModelCommitted, log)]
    assert dry.rounds == len(dry.times) + len(only(RoundFailed, log)) and dry.seconds == end.state.book.now
    inside = np.flatnonzero(tasks.folded_into > 0)
    inside = inside[np.lexsort((inside, tasks.folded_into[inside]))]
    assert dry.clients.tolist() == tasks.clients[inside].tolist()
    assert (dry.commit + 1).tolist() == tasks.folded_into[inside].tolist()
    assert dry.staleness.tolist() == (tasks.folded_into - 1 - tasks.versions)[inside].tolist()
    assert dry.folded_counts.tolist() == np.bincount(tasks.clients[tasks.folded_into > 0], minlength=plan.clients).tolist()
    assert dry.asked.tolist() == np.bincount(tasks.clients, minlength=plan.clients).tolist()
    assert (tasks.fate == FOLDED).sum() == len(dry.clients)
    return dry


@settings(deadline=None, derandomize=True, max_examples=30)
@given(fleets(), paces())
def test_a_dry_run_is_the_run_without_its_training(fleet, pace):
    plan = toy_plan(pace.policy(), len(fleet), algorithm=consensus(remembers=True), stop=Stop(rounds=6, virtual_seconds=900.0))
    same_as_trained(plan, world_of(fleet))


def test_what_goes_wrong_on_the_way_is_foreseen():
    fleet = even_fleet(6)
    world = replace(world_of(fleet), faults=lossy(upload=0.4)(fleet.keys, 1))
    plan = toy_plan(PACE, 6, stop=Stop(rounds=12))
    assert same_as_trained(plan, world).arrived.sum() < same_as_trained(plan, world_of(fleet)).arrived.sum()


def test_rules_about_accuracy_end_no_dry_run():
    plan = toy_plan(PACE, 5, stop=Stop(rounds=7, target_accuracy=0.01, patience=1))
    assert dry_run(plan, world_of(even_fleet(5))).rounds == 7


def test_another_seed_draws_other_choices_on_the_same_fleet():
    plan, world = toy_plan(PACE, 9, stop=Stop(rounds=8)), world_of(even_fleet(9))
    own, other = dry_run(plan, world), dry_run(plan, world, seed=99)
    assert own.clients.tolist() == dry_run(plan, world, seed=plan.seed).clients.tolist()
    assert own.clients.tolist() != other.clients.tolist() and own.commits == other.commits


def test_whoever_chooses_by_reports_is_refused():
    plan = toy_plan(PACE, 5, choose=replace(uniform(), name="greedy", by_reports=True))
    with pytest.raises(BadInput, match="'greedy' chooses by what trained reports say"):
        dry_run(plan, world_of(even_fleet(5)))
