"""Whoever breaks the rules is named: the runtime, the policy or the selector."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.commands import WakeAt
from fedfleet.core.errors import BadInput, RunFailed
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
from fedfleet.engine.book import FACTS_PER_INSTANT
from fedfleet.engine.coordinator import begin, step
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
    seen = 1
    while state.room:
        state, outcomes, _ = step(plan, state, CandidatesSeen(0.0, roster_of()))
        assert only(RoundFailed, outcomes)
        seen += 1
    assert seen == FACTS_PER_INSTANT
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
    with pytest.raises(RunFailed, match=r"policy 'stubborn' waits for ever at time 0.0: no task is running"):
        after(plan, [EVALUATED, CandidatesSeen(0.0, roster_of())])


@pytest.mark.parametrize("never", [None, math.inf])
def test_a_wake_up_that_never_comes_is_none(never):
    with pytest.raises(RunFailed, match="waits for ever"):
        after(toy_plan(policy(lambda book: Decision(wake_at=never)), 4), [EVALUATED])


def test_who_wakes_at_the_next_moment_that_a_clock_can_show_is_caught():
    plan = toy_plan(policy(lambda book: Decision(wake_at=math.nextafter(book.now, math.inf))), 4)
    with pytest.raises(RunFailed, match=r"more than 1000 facts .* policy 'stubborn'"):
        events_of(plan, world_of(even_fleet(4)))
    late = toy_plan(policy(lambda book: Decision(wake_at=max(1e8, math.nextafter(book.now, math.inf)))), 4, stop=Stop())
    with pytest.raises(RunFailed, match="more than 1000 facts at time 1000"):
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


def test_an_error_inside_a_selector_names_it():
    with pytest.raises(RunFailed, match="selector 'greedy', picking 2 of 4 candidates, failed: KeyError"):
        after(toy_plan(readiness(2), 4, choose=selector(broken)), SENT)
    with pytest.raises(RunFailed, match="selector 'greedy', asked whom of 4 candidates to probe, failed"):
        after(toy_plan(readiness(2), 4, choose=selector(broken, probe=broken)), SENT)
    with pytest.raises(RunFailed, match="selector 'greedy', making its first state for 4 clients, failed"):
        begin(toy_plan(readiness(2), 4, choose=selector(broken, initial=broken)))
    unlearned = replace(uniform(), name="greedy", learn=broken)
    with pytest.raises(RunFailed, match="selector 'greedy', while it learnt how 2 tasks ended, failed"):
        events_of(toy_plan(readiness(2), 4, choose=unlearned), world_of(even_fleet(4)))


def test_an_error_inside_an_algorithm_names_it():
    plan = toy_plan(readiness(2), 4)
    with pytest.raises(RunFailed, match="algorithm 'consensus', reckoning what 2 tasks cost, failed"):
        after(replace(plan, algorithm=replace(plan.algorithm, cost=broken)), SENT)
    with pytest.raises(RunFailed, match="algorithm 'consensus', making model 1 from 2 reports, failed"):
        events_of(replace(plan, algorithm=replace(plan.algorithm, apply=broken)), world_of(even_fleet(4)))


def test_an_error_of_our_own_is_not_wrapped():
    def refuse(*_):
        raise BadInput("loss: there is none")

    with pytest.raises(BadInput, match=r"^loss: there is none$"):
        after(toy_plan(policy(refuse), 4), [EVALUATED])


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Assignments(np.array([0]), np.array([-1]), np.ones(1)), "work that is not possible"),
        (Assignments(np.array([0]), np.array([0]), np.zeros(1)), "work that is not possible"),
        (Assignments(np.array([0]), np.array([0]), np.ones(2)), "'share' has another length"),
        (Assignments(np.array([0]), np.array([0]), np.ones(1), {"part": np.ones(3)}), "'part' has another length"),
        (Assignments(np.array([0]), np.array([0]), np.ones(1), {}, -1.0), "due -1.0 seconds after sending"),
    ],
)
def test_assignments_that_cannot_be_sent_name_the_selector(asked, why):
    plan = toy_plan(readiness(2), 4, choose=selector(lambda state, roster, n, draw: asked))
    with pytest.raises(RunFailed, match=f"selector 'greedy' .*{why}"):
        after(plan, SENT)
