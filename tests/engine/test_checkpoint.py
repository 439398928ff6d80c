"""Frozen at any step, in any phase, a run thaws to the same state and goes on to the same end."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.uniform import uniform
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import Assignments, Decision, Stop
from fedfleet.engine.checkpoint import freeze, thaw
from fedfleet.engine.commands import carry_out, pending_commands
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import RunState, in_order_of_arrival
from fedfleet.simulation.simulator import Simulation, new_simulation, next_fact, resume_simulation, simulate
from fedfleet.store.journal_rows import encode
from fedfleet.testing.toys import opaque_executor
from tests.worlds import buffered, fleets, kinds_of, paces, toy_plan, world_of

pytestmark = pytest.mark.slow


def settling():
    """A selector that probes, sees, sets and remembers: nothing of it may be lost."""

    def pick(state, roster, n, draw):
        order = np.lexsort((roster.clients, roster.stats["user"], state["seen"][roster.clients]))[:n]
        clients = roster.clients[order]
        return Assignments(clients, np.zeros(len(order), np.int64), np.ones(len(order)), {"portion": 1.0 / (1.0 + clients)}, 40.0)

    def learn(state, ended, now):
        return {"seen": state["seen"] + np.bincount(ended.clients, minlength=len(state["seen"]))}

    def probe(state, roster, n, draw):
        return roster.clients[: n + 1], "seconds"

    return Selector("settling", pick, learn, probe, lambda clients: {"seen": np.zeros(clients, np.int64)}, ("user",))


def remembering(policy):
    """The policy with a memory: how often it was asked while tasks ran, and when it closed a round last."""

    def decide(book):
        (count, closed), inner = book.kept[:2], book.kept[2:]
        decision = policy.decide(book._replace(kept=inner))
        inner = inner if decision.keep is None else decision.keep
        if decision.commit or decision.abandon:
            return decision._replace(keep=(count, book.now, *inner))
        return decision._replace(keep=(count + (decision.ask > 0), closed, *inner))

    return Policy(f"remembering({policy.name})", decide, policy.cohort, (0.0, -1.0, *policy.initial))


def through_json(state):
    """The state as it comes back from a disk."""
    meta, arrays = freeze(state)
    return thaw(json.loads(json.dumps(meta)), {name: np.array(value) for name, value in arrays.items()})


def run_step_by_step(plan, world):
    """The states of a run after every fact, and the journal's bytes from there on."""
    sim = new_simulation(plan, world, opaque_executor())
    first = begin(plan)
    states, data = [sim.state], [b"".join(encode(e)[1] for e in first.outcomes)]
    for command in first.commands:
        carry_out(sim, command)
    while sim.state.phase.value != "done":
        fact = sim.facts.popleft() if sim.facts else next_fact(sim)
        sim.state, outcomes, commands = step(plan, sim.state, fact)
        states.append(sim.state)
        data.append(b"".join(encode(e)[1] for e in (fact, *outcomes)))
        for command in commands:
            carry_out(sim, command)
    return states, data


policies = st.one_of(
    paces().map(lambda pace: pace.policy()),
    st.sampled_from(
        [
            buffered(2, 3, pause=11.0),
            buffered(2, 4, batch=2, pause=11.0),
            buffered(1, 4, pause=11.0, at_least=2),
        ]
    ),
)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(fleets(max_clients=5), policies, st.booleans())
def test_from_every_step_the_rest_of_the_journal_is_the_same(fleet, policy, rich):
    world = world_of(fleet)
    choose = settling() if rich else uniform()
    often = {"evaluate_attempts": 1, "evaluate_seconds": 90.0} if rich else {}
    stop = Stop(rounds=3, virtual_seconds=250.0, **often)
    plan = toy_plan(remembering(policy), len(fleet), choose=choose, stop=stop)
    states, data = run_step_by_step(plan, world)
    for i, state in enumerate(states):
        thawed = through_json(state)
        assert same_state(thawed, state)
        busy = np.zeros(len(fleet), np.bool_)
        sim = Simulation(plan, world, opaque_executor(), False, thawed, busy=busy)
        rest = []
        simulate(plan, world, opaque_executor(), resume=resume_simulation(sim), watch=rest.extend)
        assert b"".join(encode(e)[1] for e in rest) == b"".join(data[i + 1 :])


def same_state(a, b):
    """Equal field by field, with arrays by their values and waves by their first task."""
    if a.book != b.book or a.progress != b.progress or sorted(a.running) != sorted(b.running):
        return False
    plain = ("others", "at_least", "phase", "next_task", "wake", "room", "reason", "look")
    chains = [
        [[(e.task, e.wave.first, repr(e.seconds), e.fate) for e in in_order_of_arrival(chain)] for chain in pair]
        for pair in ((a.ended, b.ended), (a.gathering, b.gathering))
    ]
    return (
        all(getattr(a, name) == getattr(b, name) for name in plain)
        and all(one == other for one, other in chains)
        and (a.probe is None) == (b.probe is None)
        and np.array_equal(a.server.params["w"], b.server.params["w"])
        and all(np.array_equal(a.selector[n], b.selector[n]) for n in b.selector)
    )


def test_the_law_meets_every_phase():
    # Without probing, gathering, evaluating and ending states among its steps the law above would say little.
    from tests.worlds import even_fleet

    plan = toy_plan(buffered(2, 3), 5, choose=settling(), stop=Stop(rounds=3, evaluate_seconds=7.0))
    states, _ = run_step_by_step(plan, world_of(even_fleet(5)))
    owed = {kind for state in states for kind in kinds_of(pending_commands(plan, state))}
    assert owed == {"FindCandidates", "Probe", "Account", "Gather", "Evaluate", "WakeAt"}
    assert {state.phase.value for state in states} == {"open", "gathering", "evaluating", "looking", "ending", "done"}
    assert pending_commands(plan, states[-1]) == ()


@pytest.mark.parametrize("field", RunState._fields)
def test_no_field_of_a_state_is_left_out(field):
    """A field that is added and not frozen is noticed here."""
    from tests.worlds import even_fleet

    stop = Stop(rounds=3, evaluate_seconds=7.0)
    plan = toy_plan(remembering(buffered(2, 3)), 5, choose=settling(), stop=stop)
    states, _ = run_step_by_step(plan, world_of(even_fleet(5)))
    default = RunState._field_defaults.get(field)
    changed = [s for s in states if getattr(s, field) is not None and getattr(s, field) != default]
    if field in ("others", "at_least"):  # this policy does not want it
        changed = [s._replace(**{field: 3 if field == "at_least" else True}) for s in states[:1]]
    assert changed
    for state in changed:
        before, thawed = getattr(state, field), getattr(through_json(state), field)
        assert thawed is not None
        if field in ("ended", "gathering"):  # links of tasks that ended together come back as links of single ones
            before, thawed = (repr(in_order_of_arrival(last)) for last in (before, thawed))
            assert thawed == before
        assert type(thawed) is type(before)
        assert thawed != default or default is None


def test_decisions_of_a_thawed_policy_are_those_of_its_memory():
    plan = toy_plan(replace(buffered(2, 3), initial=(1.5,)), 4)
    state = begin(plan).state
    assert state.book.kept == (1.5,)
    assert through_json(state).book == state.book
    assert Decision().keep is None
