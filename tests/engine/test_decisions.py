"""Whoever breaks the rules is named: the runtime, the policy or the selector."""

import math
from dataclasses import replace

import pytest

from fedfleet.core.commands import WakeAt
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    PaceSet,
    TaskArrived,
    TasksSent,
    TimerFired,
)
from fedfleet.core.parts import Policy
from fedfleet.core.records import Decision, Stop
from fedfleet.engine.coordinator import begin, step
from tests.worlds import even_fleet, events_of, only, roster_of, toy_plan, world_of

EVALUATED = Evaluated(0.0, 0, 1, 10, 0.0)
SENT = [EVALUATED, TimerFired(20.0), CandidatesSeen(20.0, roster_of(0, 1, 2, 3))]


def after(plan, facts):
    """The state after these facts, and what was decided on the way."""
    state, outcomes, _ = begin(plan)
    for fact in facts:
        state, new, _ = step(plan, state, fact)
        outcomes += new
    return state, outcomes


def policy(decide, cohort=2):
    return Policy("stubborn", decide, cohort)


def test_candidates_may_not_be_asked_for_in_reply_to_candidates():
    plan = toy_plan(policy(lambda book: Decision(ask=2)), 4)
    state, _ = after(plan, [EVALUATED])
    with pytest.raises(RunFailed, match="policy 'stubborn' asks for candidates again"):
        step(plan, state, CandidatesSeen(0.0, roster_of()))


@pytest.mark.parametrize("wake", [0.0, -1.0])
def test_a_wake_up_lies_in_the_future(wake):
    plan = toy_plan(policy(lambda book: Decision(wake_at=book.now + wake)), 4)
    with pytest.raises(RunFailed, match=r"policy 'stubborn' wants to wake at .*, which is not after 0.0"):
        after(plan, [EVALUATED])


def test_abandoning_round_after_round_is_noticed():
    plan = toy_plan(policy(lambda book: Decision(abandon="no mood")), 4, stop=Stop(rounds=10_000))
    with pytest.raises(RunFailed, match="policy 'stubborn' abandons round after round"):
        after(plan, [EVALUATED])


@pytest.mark.parametrize(("restates", "wake"), [(True, 5.0), (False, Stop().virtual_seconds)])
def test_every_decision_restates_its_wake_up(restates, wake):
    def decide(book):
        if book.wanted == 0:
            return Decision(ask=2)
        if book.answered or restates:
            return Decision(wake_at=book.sent_at + 5.0)
        return Decision()

    plan = toy_plan(policy(decide), 4)
    state, outcomes = after(plan, [EVALUATED, CandidatesSeen(0.0, roster_of(0, 1, 2))])
    assert state.wake == 5.0
    client = int(only(TasksSent, outcomes)[0].clients[0])
    state, _, commands = step(plan, state, TaskArrived(1.0, 0, client, 1.0, 1.0))
    assert state.wake == wake
    assert commands == (() if restates else (WakeAt(wake),))


# ---- nothing for ever, something without end ----------------------------------------------------------------------


def test_a_run_in_which_nothing_can_happen_any_more_fails_at_once():
    def decide(book):
        return Decision(ask=2) if book.wanted == 0 else Decision()

    plan = toy_plan(policy(decide), 4)
    with pytest.raises(RunFailed, match=r"policy 'stubborn' waits forever at time 0.0: no task is running"):
        after(plan, [EVALUATED, CandidatesSeen(0.0, roster_of())])


@pytest.mark.parametrize("never", [None, math.inf])
def test_a_wake_up_that_never_comes_is_none(never):
    with pytest.raises(RunFailed, match="waits forever"):
        after(toy_plan(policy(lambda book: Decision(wake_at=never)), 4), [EVALUATED])


def test_who_wakes_at_the_next_moment_that_a_clock_can_show_is_caught():
    plan = toy_plan(policy(lambda book: Decision(wake_at=math.nextafter(book.now, math.inf))), 4)
    with pytest.raises(RunFailed, match=r"more than 1000 facts .* policy 'stubborn'"):
        events_of(plan, world_of(even_fleet(4)))
    late = toy_plan(policy(lambda book: Decision(wake_at=max(1e8, math.nextafter(book.now, math.inf)))), 4, stop=Stop())
    with pytest.raises(RunFailed, match=r"at time 1000.*: more than 1000 facts"):
        events_of(late, world_of(even_fleet(4)))


def test_a_policy_cannot_commit_nothing_nor_commit_and_abandon():
    with pytest.raises(RunFailed, match=r"policy 'stubborn' commits at time 0.0, but nothing has arrived"):
        after(toy_plan(policy(lambda book: Decision(commit=True)), 4), [EVALUATED])
    with pytest.raises(RunFailed, match="policy 'stubborn' commits and abandons"):
        after(toy_plan(policy(lambda book: Decision(commit=True, abandon="both")), 4), [EVALUATED])


# ---- errors inside parts ------------------------------------------------------------------------------------------


def broken(*_):
    raise KeyError("loss")


def test_an_error_inside_a_policy_names_it():
    with pytest.raises(RunFailed, match=r"policy 'stubborn', asked at time 0.0 in round 0, failed: KeyError: 'loss'"):
        after(toy_plan(policy(broken), 4), [EVALUATED])
    with pytest.raises(RunFailed, match=r"policy 'stubborn'.*failed: TypeError"):
        after(toy_plan(policy(lambda book: None), 4), [EVALUATED])


def test_an_error_of_our_own_is_not_wrapped():
    def refuse(*_):
        raise BadInput("loss: there is none")

    with pytest.raises(BadInput, match=r"^loss: there is none$"):
        after(toy_plan(policy(refuse), 4), [EVALUATED])


def test_what_a_policy_shows_of_its_memory_is_told_when_it_changes():
    def decide(book):
        count, wait = book.kept
        if count >= 3:
            return Decision(abandon="done", keep=(0.0, wait))
        return Decision(wake_at=book.now + wait, keep=(count + 1, wait * 2 if count == 1 else wait))

    plan = toy_plan(replace(policy(decide), initial=(0.0, 5.0), shows=(("wait", 1),)), 4, stop=Stop(rounds=1))
    events, _ = events_of(plan, world_of(even_fleet(4)))
    assert only(PaceSet, events) == [PaceSet(0.0, "wait", 5.0), PaceSet(5.0, "wait", 10.0)]
    assert type(events[1]) is PaceSet, "the first follows the beginning of the run"
