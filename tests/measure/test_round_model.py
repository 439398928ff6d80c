"""Rounds walked through: equal to the run to the last bit, whatever the fleet and the numbers of the policy."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.uniform import uniform
from fedfleet.core.records import Cost, Stop
from fedfleet.core.round_rules import RoundRules
from fedfleet.measure.round_model import walk_rounds
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.dry_run import dry_run
from tests.worlds import even_fleet, fleets, toy_plan, world_of

RULES = st.builds(
    RoundRules,
    cohort=st.integers(2, 5),
    ready_share=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    seconds=st.one_of(st.just(math.inf), st.integers(1, 90).map(float)),
    t_break=st.integers(1, 20).map(float),
    min_clients=st.integers(0, 2),
    min_share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    wait_if_few=st.booleans(),
)
STOPS = st.builds(
    Stop,
    rounds=st.integers(1, 12),
    virtual_seconds=st.sampled_from([40.0, 200.0, 1e9]),
    updates=st.one_of(st.none(), st.integers(1, 20)),
)


def policy_of(rules):
    shared = {"t_break": rules.t_break, "min_clients": rules.min_clients, "min_share": rules.min_share}
    shared["if_few"] = "wait" if rules.wait_if_few else "fail"
    if rules.seconds < math.inf:
        return deadline(rules.cohort, seconds=rules.seconds, **shared)
    return readiness(rules.cohort, ready_share=rules.ready_share, **shared)


def free(clients, round):
    return Cost(np.zeros(len(clients)), np.zeros(len(clients)), np.zeros(len(clients)))


@settings(deadline=None, derandomize=True, max_examples=80)
@given(fleets(), RULES, STOPS)
def test_a_walk_is_the_run_without_its_coordinator(fleet, rules, stop):
    if rules.seconds < math.inf:
        rules = replace(rules, ready_share=1.0)
    world, plan = world_of(fleet), toy_plan(policy_of(rules), len(fleet), stop=stop)
    wanted, result = dry_run(plan, world), walk_rounds(rules, stop, uniform(), world, free, seed=plan.seed)
    for name in ("times", "commit", "clients", "share", "staleness", "asked"):
        assert getattr(result, name).tolist() == getattr(wanted, name).tolist(), name
    assert (result.rounds, result.seconds, result.failed) == (wanted.rounds, wanted.seconds, wanted.failed)


def test_a_walk_counts_who_arrived_too_late():
    rules = RoundRules(2, 1.0, 30.0, 1.0, 2, 0.1)
    result = walk_rounds(rules, Stop(rounds=20), uniform(), world_of(even_fleet(3, [5.0, 5.0, 80.0])), free, seed=1)
    assert result.folded_counts[2] == result.arrived[2] == 0 and result.asked[2] > 0
    assert result.commits == 20 and set(result.reports.tolist()) == {1, 2}
