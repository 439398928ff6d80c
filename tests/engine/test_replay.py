"""Replay: from the beginning or from a frozen state, with the selector learning what it learnt, and what is still owed."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import CandidatesSeen, Probed, TaskArrived, TasksSent
from fedfleet.core.parts import Selector
from fedfleet.core.records import Assignments, Stop
from fedfleet.core.trees import content_hash
from fedfleet.engine.commands import pending_commands
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.replay import replay
from fedfleet.executors.gather import ClientMemory, gather
from fedfleet.pace.rounds import readiness
from fedfleet.store.journal_rows import decode, encode
from fedfleet.testing.toys import opaque_executor
from tests.worlds import buffered, even_fleet, events_of, kinds_of, toy_plan, world_of

FLEET = even_fleet(6, [1.0, 2.0, 3.0, 5.0, 8.0, 13.0])


def stored(log):
    """Events as the journal gives them back."""
    return list(decode(row for event in log for row in encode(event)[0]))


def replayed(plan, events, start=None):
    world, memory = world_of(FLEET), ClientMemory()

    def regather(command, fact):
        return gather(plan, world, opaque_executor(), memory, command, fact.time)

    return replay(plan, events, world.keys, world.data.sizes, regather, lambda command: None, start=start)


def setting():
    """Two of the candidates, probed first, with settings, a due time, and a memory of who was asked."""

    def pick(state, roster, n, draw):
        order = np.lexsort((roster.stats["seconds"], state["asked"][roster.clients]))[:n]
        clients = roster.clients[order]
        return Assignments(clients, np.full(len(order), 3), np.full(len(order), 0.5), {"rate": clients / 8.0}, 20.0)

    def learn(state, ended, now):
        return {"asked": state["asked"] + np.bincount(ended.clients, minlength=len(state["asked"]))}

    def probe(state, roster, n, draw):
        return roster.clients[-4:], "seconds"

    return Selector("setting", pick, learn, probe, lambda clients: {"asked": np.zeros(clients, np.int64)})


@pytest.mark.parametrize("pace", [readiness(2, t_break=1.0), buffered(2, 3)], ids=lambda p: p.name)
def test_settings_due_times_probes_and_what_was_learnt_are_replayed(pace):
    plan = toy_plan(pace, 6, choose=setting(), stop=Stop(rounds=5))
    log, end = events_of(plan, world_of(FLEET))
    assert any(isinstance(e, Probed) for e in log)
    result = replayed(plan, stored(log))
    assert result.state.book == end.state.book
    assert np.array_equal(result.state.selector["asked"], end.state.selector["asked"])
    assert content_hash(result.state.server.params) == content_hash(end.state.server.params)
    assert result.pending == ()


def test_a_selector_learns_of_rounds_that_fail_at_once_in_replay_too():
    def learn(state, ended, now):
        return {"n": state["n"] + len(ended.tasks)}

    choose = replace(uniform(), learn=learn, initial=lambda clients: {"n": np.zeros(1, np.int64)})
    few = replace(choose, pick=lambda state, roster, n, draw: uniform().pick(state, roster, 1, draw))
    plan = toy_plan(readiness(3, min_clients=2, if_few="fail"), 6, choose=few, stop=Stop(rounds=4))
    log, end = events_of(plan, world_of(FLEET))
    assert end.state.selector["n"] == 4
    assert replayed(plan, stored(log)).state.selector["n"] == 4


def test_replay_starts_at_any_state_and_says_what_is_owed():
    plan = toy_plan(buffered(2, 3), 6, choose=setting(), stop=Stop(rounds=3))
    log, end = events_of(plan, world_of(FLEET))
    facts = [i for i, e in enumerate(log) if hasattr(e, "time") and kinds_of([e])[0] in _FACTS]
    for cut in facts:
        marks = [e for e in log[:cut] if isinstance(e, CandidatesSeen | Probed | TasksSent)]
        if marks and isinstance(marks[-1], CandidatesSeen):
            continue  # the journal does not hold whom a roster had, so that a probe under way is asked anew
        before = replayed(plan, log[:cut])
        assert kinds_of(before.pending) == kinds_of(pending_commands(plan, before.state))
        after = replayed(plan, log[cut:], start=before.state)
        assert after.state.book == end.state.book
        assert before.facts + after.facts == len(facts)
        assert content_hash(after.state.server.params) == content_hash(end.state.server.params)


_FACTS = {
    "CandidatesSeen",
    "Probed",
    "TaskArrived",
    "TaskLost",
    "TimerFired",
    "TasksSpent",
    "ReportsGathered",
    "Evaluated",
}


def test_a_journal_that_ends_at_candidates_asks_for_them_again():
    plan = toy_plan(readiness(2, t_break=1.0), 6, choose=setting(), stop=Stop(rounds=3))
    log, _ = events_of(plan, world_of(FLEET))
    seen = next(i for i, e in enumerate(log) if isinstance(e, CandidatesSeen))
    result = replayed(plan, log[: seen + 1])
    assert "FindCandidates" in kinds_of(result.pending)


@pytest.mark.parametrize("column", ["settings", "due"])
def test_changed_settings_are_followed_and_changed_clients_are_not(column):
    plan = toy_plan(readiness(2, t_break=1.0), 6, choose=setting(), stop=Stop(rounds=2))
    log = stored(events_of(plan, world_of(FLEET))[0])
    at = next(i for i, e in enumerate(log) if isinstance(e, TasksSent))
    told = {"settings": {"rate": np.zeros(2)}, "due": 30.0}[column]
    assert replayed(plan, [*log[:at], replace(log[at], **{column: told}), *log[at + 1 :]]).commits == 2
    moved = replace(log[at], first=log[at].first + 1)
    with pytest.raises(RunFailed):
        replayed(plan, [*log[:at], moved, *log[at + 1 :]])


def test_a_step_from_a_replayed_state_goes_on():
    plan = toy_plan(readiness(2, t_break=1.0), 6, stop=Stop(rounds=2))
    log, _ = events_of(plan, world_of(FLEET))
    arrived = next(i for i, e in enumerate(log) if isinstance(e, TaskArrived))
    state = replayed(plan, log[:arrived]).state
    assert step(plan, state, log[arrived]).state.book.arrived == 1
    assert begin(plan).state.book.arrived == 0
