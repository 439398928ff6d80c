"""Every command reaches the one thing that carries it out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.events import CandidatesSeen, Evaluated, Probed, ReportsGathered, TasksSpent, TimerFired
from fedfleet.core.parts import Selector
from fedfleet.core.records import ServerState, Stop, whole_work
from fedfleet.engine.commands import carry_out, pending_commands
from fedfleet.engine.coordinator import begin, step
from fedfleet.simulation.simulator import new_simulation, next_fact
from fedfleet.testing.toys import opaque_executor
from tests.worlds import buffered, fleets, paces, toy_plan, world_of

# Which fact ends which command; a newer wake-up replaces the one before.
ANSWERS = {
    CandidatesSeen: FindCandidates, Probed: Probe, ReportsGathered: Gather, Evaluated: Evaluate, TimerFired: WakeAt,
    TasksSpent: Account,
}  # fmt: skip


def probing():
    def pick(state, roster, n, draw):
        return whole_work(roster.clients[np.argsort(roster.stats["seconds"], kind="stable")[:n]])

    return Selector("probing", pick, probe=lambda state, roster, n, draw: (roster.clients[: n + 1], "seconds"))


def same(a, b):
    """Commands by their values; what they carry is compared by identity."""
    match a, b:
        case WakeAt(), WakeAt():
            return a == b
        case FindCandidates(), FindCandidates():
            return a.at_least == b.at_least
        case Probe(), Probe():
            return a is b
        case Gather(), Gather():
            return (a.tasks, a.contexts) == (b.tasks, b.contexts) and a.server is b.server
        case Account(), Account():
            return (a.tasks, a.seconds) == (b.tasks, b.seconds)
        case Evaluate(), Evaluate():
            return (a.version, a.clients) == (b.version, b.clients) and a.server is b.server
        case _:
            return type(a) is type(b)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    fleets(max_clients=5),
    st.one_of(
        paces().map(lambda pace: pace.policy()),
        st.sampled_from([buffered(2, 3, pause=11.0), buffered(1, 3, at_least=2)]),
    ),
    st.booleans(),
    st.sampled_from([None, 13.0, 90.0]),
)
def test_what_is_owed_is_what_was_commanded_and_not_answered(fleet, policy, probes, looks):
    stop = Stop(rounds=4, virtual_seconds=400.0, evaluate_seconds=looks)
    plan = toy_plan(policy, len(fleet), choose=probing() if probes else None, stop=stop)
    sim = new_simulation(plan, world_of(fleet), opaque_executor())
    owed = {}
    sim.state, _, commands = begin(plan)
    while True:
        owed |= {type(c): c for c in commands if type(c) in ANSWERS.values()}
        result = {type(c): c for c in pending_commands(plan, sim.state)}
        if sim.state.phase.value == "done":
            assert not result
            return
        assert result.keys() == owed.keys()
        assert all(same(result[kind], owed[kind]) for kind in result)
        for command in commands:
            carry_out(sim, command)
        fact = sim.facts.popleft() if sim.facts else next_fact(sim)
        owed.pop(ANSWERS.get(type(fact)), None)
        sim.state, _, commands = step(plan, sim.state, fact)


@pytest.mark.parametrize("wanted", [1, 3])
def test_how_many_are_still_wanted_is_said_anew(wanted):
    plan = toy_plan(buffered(2, wanted), 5)
    state = step(plan, begin(plan).state, Evaluated(0.0, 0, 1, 2, 0.0)).state
    assert FindCandidates(wanted) in pending_commands(plan, state)


NONE, SERVER = np.zeros(0, np.int64), ServerState({})
COMMANDS = {
    "find": FindCandidates(3),
    "probe": Probe(NONE, "loss", SERVER),
    "send": Send(None),
    "wake": WakeAt(1.0),
    "gather": Gather((), (), (), SERVER),
    "forget": Forget(NONE, NONE),
    "evaluate": Evaluate(0, SERVER, False),
    "finish": Finish("rounds"),
}


class Noting:
    """An actor that notes what it was asked to do."""

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        return lambda command: self.done.append((name, command))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_carried_out(name):
    actor = Noting()
    carry_out(actor, COMMANDS[name])
    assert [(n, c is COMMANDS[name]) for n, c in actor.done] == [(name, True)]


def test_what_is_no_command_is_refused():
    with pytest.raises(AssertionError):
        carry_out(Noting(), "finish")
