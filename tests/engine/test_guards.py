"""Whoever breaks the rules is named: the runtime, the policy or the selector."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Probed,
    ReportsGathered,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksSent,
    TimerFired,
)
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import Assignments, Decision, Stop, whole_work
from fedfleet.engine.coordinator import FACTS_PER_INSTANT, begin, step
from fedfleet.pace.rounds import readiness
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


@pytest.mark.parametrize(
    "fact", [TimerFired(19.0), TaskArrived(19.0, 0, 0, 1.0, 1.0), CandidatesSeen(19.0, roster_of(0))]
)
def test_time_may_not_fall(fact):
    plan = toy_plan(readiness(2), 4)
    state, _ = after(plan, SENT)
    with pytest.raises(RunFailed, match=f"time fell from 20.0 to 19.0 at {type(fact).__name__}: the runtime"):
        step(plan, state, fact)


def test_nothing_happens_after_the_end():
    plan = toy_plan(readiness(2), 4, stop=Stop(virtual_seconds=20.0))
    state, outcomes = after(plan, [EVALUATED, TimerFired(20.0), EVALUATED.__class__(20.0, 0, 1, 10, 0.0)])
    assert outcomes[-1].reason == "virtual_seconds"
    with pytest.raises(RunFailed, match="TimerFired after the run had ended: the runtime"):
        step(plan, state, TimerFired(30.0))


@pytest.mark.parametrize("again", [TaskArrived(31.0, 0, 1, 1.0, 1.0), TaskLost(31.0, 0, 1, 1.0, "gone")])
def test_a_task_ends_once(again):
    plan = toy_plan(readiness(2), 4)
    state, _ = after(plan, [*SENT, TaskArrived(30.0, 0, 1, 10.0, 1.0)])
    with pytest.raises(RunFailed, match="task 0 of client 1 ended, but it is not running"):
        step(plan, state, again)


def test_a_task_that_was_never_sent_cannot_end():
    plan = toy_plan(readiness(2), 4)
    state, _ = after(plan, SENT)
    with pytest.raises(RunFailed, match="task 17 of client 3"):
        step(plan, state, TaskArrived(21.0, 17, 3, 1.0, 1.0))


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (CandidatesSeen(20.0, roster_of(0)), "candidates were reported without being asked for"),
        (ReportsGathered(20.0, None, np.zeros(0, np.int64), {}), "reports were gathered that nobody asked for"),
        (Probed(20.0, "loss", np.array([0]), np.array([1.0])), "a probe was answered that nobody asked for"),
    ],
)
def test_answers_need_questions(fact, why):
    plan = toy_plan(readiness(2), 4)
    state, _ = after(plan, SENT)
    with pytest.raises(RunFailed, match=f"{why}: the runtime"):
        step(plan, state, fact)


def test_candidates_may_not_be_asked_for_in_reply_to_candidates():
    plan = toy_plan(policy(lambda book: Decision(ask=2)), 4)
    state, _ = after(plan, [EVALUATED])
    with pytest.raises(RunFailed, match="policy 'stubborn' asks for candidates in reply to candidates"):
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


def test_zeno_is_noticed():
    # Without a break between rounds a fleet of nobody is asked again and again at the same instant.
    plan = toy_plan(readiness(2, t_break=0.0), 4, stop=Stop(rounds=10_000))
    state, _ = after(plan, [EVALUATED])
    while state.instant < FACTS_PER_INSTANT:
        state, outcomes, _ = step(plan, state, CandidatesSeen(0.0, roster_of()))
        assert only(RoundFailed, outcomes)
    with pytest.raises(
        RunFailed, match=r"more than 1000 facts at time 0.0 .*: policy 'readiness' or selector 'uniform'"
    ):
        step(plan, state, CandidatesSeen(0.0, roster_of()))


def test_many_arrivals_at_one_instant_are_no_zeno():
    fleet = even_fleet(1500, 8.0)
    events, _ = events_of(toy_plan(readiness(1500), 1500, stop=Stop(rounds=2)), world_of(fleet, steady=True))
    assert len(only(TaskArrived, events)) == 3000


def selector(pick, **parts):
    return Selector("greedy", pick, **parts)


@pytest.mark.parametrize(
    ("clients", "why"),
    [([1, 1], "picked 2 of 2"), ([1, 9], "picked 2 of 2"), ([-1, 1], "picked 2 of 2"), ([0, 1, 2], "picked 3 of 2")],
)
def test_a_selector_picks_from_the_roster_once_and_not_too_many(clients, why):
    plan = toy_plan(readiness(2), 10, choose=selector(lambda state, roster, n, draw: whole_work(np.array(clients))))
    with pytest.raises(RunFailed, match=f"selector 'greedy' {why} wanted, a client twice, or one not on the roster"):
        after(plan, SENT)


def test_a_selector_cannot_pick_from_nobody():
    plan = toy_plan(readiness(2), 10, choose=selector(lambda state, roster, n, draw: whole_work(np.array([0]))))
    with pytest.raises(RunFailed, match="selector 'greedy'"):
        after(plan, [*SENT[:2], CandidatesSeen(20.0, roster_of())])


def test_a_selector_probes_only_who_is_on_the_roster():
    choose = replace(uniform(), name="curious", probe=lambda state, roster, n, draw: (np.array([2, 8]), "loss"))
    with pytest.raises(RunFailed, match="selector 'curious' probes clients that are not on the roster"):
        after(toy_plan(readiness(2), 10, choose=choose), SENT)


def test_a_selector_may_pick_fewer_and_for_less_work():
    def pick(state, roster, n, draw):
        return Assignments(roster.clients[:1], np.array([3]), np.array([0.5]))

    plan = toy_plan(readiness(2, min_clients=1), 4, choose=selector(pick))
    (sent,) = only(TasksSent, after(plan, SENT)[1])
    assert (sent.clients.tolist(), sent.steps.tolist(), sent.share.tolist(), sent.samples.tolist()) == (
        [0],
        [3],
        [0.5],
        [5.0],
    )


def test_a_probe_for_what_clients_cannot_answer_is_refused_by_name():
    choose = replace(uniform(), name="curious", probe=lambda state, roster, n, draw: (roster.clients[:2], "mood"))
    with pytest.raises(RunFailed, match="selector 'curious' probes for 'mood'"):
        events_of(toy_plan(readiness(2), 4, choose=choose), world_of(even_fleet(4)))


def test_an_equal_decision_to_do_nothing_keeps_the_wake_up():
    # A record is a value: a fresh Decision() must wait on as NOTHING does, and not forget the timer.
    def decide(book):
        if book.wanted == 0:
            return Decision(ask=2)
        if book.answered:
            return Decision(wake_at=book.sent_at + 5.0)
        return Decision(commit=True, drop=0) if book.now >= book.sent_at + 5.0 else Decision()

    plan = toy_plan(policy(decide), 4)
    state, outcomes = after(plan, [EVALUATED, CandidatesSeen(0.0, roster_of(0, 1, 2))])
    client = int(only(TasksSent, outcomes)[0].clients[0])
    state, _, commands = step(plan, state, TaskArrived(1.0, 0, client, 1.0, 1.0))
    assert state.wake == 5.0
    assert commands == ()
