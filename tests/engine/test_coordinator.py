"""One round as a list of facts and what follows from each; no runtime, no mocks."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core import aggregation
from fedfleet.core.commands import Evaluate, FindCandidates, Forget, Gather, Send, WakeAt
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    ModelCommitted,
    Probed,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
    TasksSpent,
    TimerFired,
)
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Context, Decision, Report, Stop
from fedfleet.core.trees import content_hash
from fedfleet.engine.book import FACTS_PER_INSTANT
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import Phase
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.testing.toys import consensus_start
from tests.worlds import even_fleet, events_of, kinds_of, only, roster_of, toy_plan, world_of


def fed(plan, facts, state=None):
    """The last state, and all outcomes and commands on the way, after these facts."""
    first = begin(plan) if state is None else None
    state, outcomes, commands = (state, [], []) if first is None else (first.state, [*first.outcomes], [*first.commands])
    for fact in facts:
        state, new_outcomes, new_commands = step(plan, state, fact)
        outcomes += new_outcomes
        commands += new_commands
    return state, outcomes, commands


SENT = [Evaluated(0.0, 0, 1, 10, 0.0), TimerFired(20.0), CandidatesSeen(20.0, roster_of(0, 1, 2, 3))]


def aggregate_of(plan, state, *updates):
    fold = plan.algorithm.fold
    acc = aggregation.zero(fold, state.server)
    for value in updates:
        acc = aggregation.add(fold, acc, Report(0, 0, {"w": np.full(4, value, np.float32)}, 1.0, {}), Context(0, 1.0, 0))
    return acc


def test_a_run_begins_with_an_evaluation_of_the_untrained_model():
    plan = toy_plan(readiness(2), 4, seed=9)
    state, outcomes, commands = begin(plan)
    assert outcomes == (RunBegan(0.0, 9, 4, "", content_hash(consensus_start())),)
    assert kinds_of(commands) == ["Evaluate"]
    assert not commands[0].clients
    assert state.phase is Phase.EVALUATING


def test_one_round_of_readiness():
    plan = toy_plan(readiness(3, ready_share=0.6, t_break=20.0), 4)
    state, outcomes, commands = fed(plan, SENT)
    assert kinds_of(outcomes) == ["RunBegan", "TasksSent"]
    assert kinds_of(commands) == ["Evaluate", "WakeAt", "FindCandidates", "WakeAt", "Send"]
    assert commands[1] == WakeAt(20.0)
    assert commands[2] == FindCandidates(3, at_least=2)
    sent, wave = outcomes[1], only(Send, commands)[0].wave
    assert (sent.time, sent.round, sent.version, sent.first, len(sent.clients)) == (20.0, 0, 0, 0, 3)
    assert sent.clients is wave.assignments.clients
    assert sorted(state.running) == [0, 1, 2]
    assert (state.book.selected, state.book.running, state.book.sent_at) == (3, 3, 20.0)

    first, second, third = sent.clients.tolist()
    state, outcomes, commands = fed(plan, [TaskArrived(30.0, 1, second, 10.0, 16.0)], state)
    assert (outcomes, commands) == ([], [])
    assert (state.book.arrived, state.book.running) == (1, 2)

    state, outcomes, commands = fed(plan, [TaskArrived(34.0, 0, first, 14.0, 16.0)], state)
    (dropped,) = outcomes
    assert isinstance(dropped, TasksDropped)
    assert (dropped.tasks.tolist(), dropped.clients.tolist(), dropped.seconds.tolist()) == ([2], [third], [14.0])
    assert kinds_of(commands) == ["Forget", "Account", "Gather"]
    account, gather = commands[1:]
    assert (account.tasks, account.seconds) == ((0, 1, 2), (14.0, 10.0, 14.0))
    assert gather.tasks == (0, 1)  # by task, not by arrival
    assert gather.contexts == (Context(0, 14.0, first, task=0), Context(0, 10.0, second, task=1))
    assert state.phase is Phase.GATHERING

    spent = TasksSpent(34.0, np.arange(3), sent.clients, {"compute": np.ones(3)})
    state, outcomes, commands = fed(plan, [spent], state)
    assert (outcomes, commands, state.unpaid) == ([], [], ())
    folded = ReportsGathered(34.0, aggregate_of(plan, state, 1.0, 3.0), np.array([0, 1]), {"loss": np.array([4.0, 6.0])})
    state, outcomes, commands = fed(plan, [folded], state)
    assert kinds_of(outcomes) == ["ModelCommitted"]
    assert outcomes[0] == ModelCommitted(34.0, 0, 1, content_hash({"w": np.full(4, 2.0, np.float32)}), 2)
    assert outcomes[0].loss == 5.0
    assert kinds_of(commands) == ["Evaluate"]

    state, outcomes, commands = fed(plan, [Evaluated(34.0, 1, 5, 10, 0.0)], state)
    assert (outcomes, commands) == ([], [WakeAt(54.0)])
    assert (state.book.round, state.book.version, state.book.opened_at, state.book.wanted) == (1, 1, 34.0, 0)


def test_a_lost_task_is_not_waited_for():
    plan = toy_plan(readiness(2), 4)
    state, outcomes, _ = fed(plan, SENT)
    one, two = outcomes[1].clients.tolist()
    facts = [TaskLost(25.0, 0, one, 5.0, "gone"), TaskArrived(30.0, 1, two, 10.0, 16.0)]
    state, outcomes, commands = fed(plan, facts, state)
    assert (state.book.lost, state.book.running) == (1, 0)
    assert kinds_of(commands) == ["Account", "Gather"]
    assert commands[1].tasks == (1,)


def test_an_abandoned_round_counts_and_the_model_stays():
    plan = toy_plan(readiness(2, t_break=20.0, if_few="fail"), 4)
    state, outcomes, commands = fed(plan, [*SENT[:2], CandidatesSeen(20.0, roster_of(2))])
    assert kinds_of(outcomes) == ["RunBegan", "TasksSent", "TasksDropped", "RoundFailed"]
    assert outcomes[3] == RoundFailed(20.0, 0, "fewer than 2 clients could be selected")
    assert kinds_of(commands)[-4:] == ["Send", "Forget", "Account", "WakeAt"]
    assert commands[-1] == WakeAt(40.0)
    assert (state.book.round, state.book.version, len(state.running)) == (1, 0, 0)


def test_an_empty_roster_ends_the_round():
    plan = toy_plan(readiness(2, if_few="fail"), 4)
    _, outcomes, commands = fed(plan, [*SENT[:2], CandidatesSeen(20.0, roster_of())])
    assert kinds_of(outcomes) == ["RunBegan", "RoundFailed"]
    assert not only(Send, commands)


def at_the_deadline(plan, arrivals):
    """Everyone in `arrivals` reports at the very instant of the deadline, then its timer fires."""
    state, outcomes, commands = fed(plan, SENT)
    assert commands[-1] == WakeAt(30.0)
    clients = outcomes[1].clients.tolist()
    return fed(plan, [*(TaskArrived(30.0, t, clients[t], 10.0, 16.0) for t in arrivals), TimerFired(30.0)], state)


def test_everyone_who_arrives_exactly_at_the_deadline_counts():
    state, outcomes, commands = at_the_deadline(toy_plan(deadline(4, seconds=10.0), 4), [0, 1, 2, 3])
    assert (outcomes, kinds_of(commands)) == ([], ["Account", "Gather"])
    assert commands[0].tasks == (0, 1, 2, 3)
    assert state.phase is Phase.GATHERING


def test_a_prompt_policy_is_asked_after_each_arrival_even_when_it_is_woken_then():
    # All four arrive at 8, when it wakes; one that counts reports makes two models of two, not one of four.
    def decide(book):
        if book.arrived >= 2:
            return Decision(commit=True)
        return Decision(ask=4) if book.now == 0 and not book.asking and not book.selected else Decision(wake_at=book.now + 4)

    for prompt, sizes in ((True, [2, 2]), (False, [4])):
        plan = toy_plan(Policy("counts", decide, 4, prompt=prompt), 4, stop=Stop(virtual_seconds=12.0))
        events, _ = events_of(plan, world_of(even_fleet(4, 8.0), steady=True))
        assert [e.folded for e in only(ModelCommitted, events)] == sizes


def test_who_has_not_arrived_at_the_deadline_is_dropped():
    _, outcomes, commands = at_the_deadline(toy_plan(deadline(4, seconds=10.0), 4), [1, 3])
    assert outcomes[0].tasks.tolist() == [0, 2]
    assert only(Gather, commands)[0].tasks == (1, 3)
    assert only(Forget, commands)[0].clients.tolist() == outcomes[0].clients.tolist()


def test_arrivals_while_a_model_is_evaluated_wait_for_the_next_consultation():
    plan = toy_plan(readiness(4, ready_share=0.5), 4, stop=Stop(rounds=5))
    state, outcomes, _ = fed(plan, SENT)
    clients = outcomes[1].clients.tolist()
    state, _, _ = fed(plan, [TaskArrived(30.0, t, clients[t], 10.0, 16.0) for t in (0, 1)], state)
    folded = ReportsGathered(30.0, aggregate_of(plan, state, 1.0), np.array([0, 1]), {})
    state, _, commands = fed(plan, [folded], state)
    assert only(Evaluate, commands)[0].version == 1
    state, outcomes, commands = fed(plan, [TimerFired(31.0)], state)
    assert (outcomes, commands) == ([], [])
    assert state.phase is Phase.EVALUATING


def test_candidates_that_come_after_the_horizon_are_not_sent_out():
    # In simulation candidates are seen at once; a server may have to wait for them.
    plan = toy_plan(readiness(2), 4, stop=Stop(virtual_seconds=25.0))
    state, _, _ = fed(plan, [*SENT[:2], TimerFired(25.0)])
    assert state.phase is Phase.ENDING
    state, outcomes, commands = fed(plan, [CandidatesSeen(26.0, roster_of(0, 1, 2))], state)
    assert (outcomes, commands) == ([], [])
    assert not state.book.asking
    _, outcomes, _ = fed(plan, [Evaluated(27.0, 0, 1, 10, 0.0)], state)
    assert kinds_of(outcomes) == ["RunEnded"]


def test_a_probe_that_is_answered_after_the_horizon_is_not_followed():
    choose = replace(uniform(), probe=lambda state, roster, n, draw: (roster.clients, "seconds"))
    plan = toy_plan(readiness(2), 4, choose=choose, stop=Stop(virtual_seconds=25.0))
    state, _, commands = fed(plan, [*SENT, TimerFired(25.0)])
    assert "Probe" in kinds_of(commands)
    state, outcomes, commands = fed(plan, [Probed(26.0, "seconds", np.arange(4), np.ones(4))], state)
    assert (outcomes, commands) == ([], [])
    assert state.roster is None


def test_candidates_that_come_while_reports_are_gathered_do_not_start_a_second_commit():
    def decide(book):
        if book.arrived:
            return Decision(commit=True)
        return Decision(ask=1) if not book.asking and not book.answered else NOTHING

    plan = toy_plan(Policy("impatient", decide, 1), 4)
    facts = [SENT[0], CandidatesSeen(0.0, roster_of(0, 1, 2, 3)), TimerFired(1.0)]
    state, outcomes, commands = fed(plan, facts)
    assert state.book.asking  # for a second client, while the first is at work
    client = int(only(TasksSent, outcomes)[0].clients[0])
    state, _, commands = fed(plan, [TaskArrived(2.0, 0, client, 2.0, 16.0)], state)
    assert kinds_of(commands) == ["Account", "Gather"]
    state, outcomes, commands = fed(plan, [CandidatesSeen(2.5, roster_of(1, 2, 3))], state)
    assert kinds_of(outcomes) == ["TasksSent"]
    assert kinds_of(commands) == ["Send"]
    assert state.phase is Phase.GATHERING


def test_steps_do_not_change_the_state_they_start_from():
    plan = toy_plan(readiness(2), 4)
    state, outcomes, _ = fed(plan, SENT)
    arrived = TaskArrived(30.0, 0, int(outcomes[1].clients[0]), 10.0, 16.0)
    once, again = step(plan, state, arrived), step(plan, state, arrived)
    assert sorted(state.running) == [0, 1]
    assert once.state.book == again.state.book


def test_a_model_is_evaluated_as_often_as_asked():
    plan = toy_plan(readiness(2), 4, stop=Stop(rounds=9, evaluate_every=2))
    state, outcomes, _ = fed(plan, SENT)
    clients, time, evaluated = outcomes[1].clients.tolist(), 30.0, []
    for version in range(1, 5):
        first = 2 * (version - 1)
        arrived = [TaskArrived(time, first + i, clients[i], 10.0, 16.0) for i in range(2)]
        state, _, _ = fed(plan, arrived, state)
        folded = ReportsGathered(time, aggregate_of(plan, state, 1.0), np.array([first, first + 1]), {})
        state, _, commands = fed(plan, [folded], state)
        for command in only(Evaluate, commands):
            evaluated.append(command.version)
            state, _, _ = fed(plan, [Evaluated(time, command.version, 1, 10, 0.0)], state)
        state, outcomes, _ = fed(plan, [TimerFired(time + 20.0), CandidatesSeen(time + 20.0, roster_of(0, 1, 2, 3))], state)
        clients, time = only(TasksSent, outcomes)[0].clients.tolist(), time + 30.0
    assert evaluated == [2, 4]


# ---- whoever breaks the rules of facts is named -------------------------------------------------------------------


def broken(*_):
    raise KeyError("loss")


def after(plan, facts):
    """The state after these facts, and what was decided on the way."""
    state, outcomes, _ = fed(plan, facts)
    return state, outcomes


@pytest.mark.parametrize("fact", [TimerFired(19.0), TaskArrived(19.0, 0, 0, 1.0, 1.0), CandidatesSeen(19.0, roster_of(0))])
def test_time_may_not_fall(fact):
    plan = toy_plan(readiness(2), 4)
    state, _ = after(plan, SENT)
    with pytest.raises(RunFailed, match=f"time fell from 20.0 to 19.0 at {type(fact).__name__}; please report"):
        step(plan, state, fact)


def test_nothing_happens_after_the_end():
    plan = toy_plan(readiness(2), 4, stop=Stop(virtual_seconds=20.0))
    state, outcomes = after(plan, [SENT[0], TimerFired(20.0), Evaluated(20.0, 0, 1, 10, 0.0)])
    assert outcomes[-1].reason == "virtual_seconds"
    with pytest.raises(RunFailed, match=r"internal error: .*TimerFired .*; please report"):
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
        (CandidatesSeen(20.0, roster_of(0)), "internal error: unexpected candidates"),
        (ReportsGathered(20.0, None, np.zeros(0, np.int64), {}), "internal error: reports were gathered"),
        (Probed(20.0, "loss", np.array([0]), np.array([1.0])), "a probe was answered that was never sent"),
    ],
)
def test_answers_need_questions(fact, why):
    plan = toy_plan(readiness(2), 4)
    state, _ = after(plan, SENT)
    with pytest.raises(RunFailed, match=f"{why}.*; please report"):
        step(plan, state, fact)


def test_zeno_is_noticed():
    # Without a break between rounds a fleet of nobody is asked again and again at the same instant.
    plan = toy_plan(readiness(2, t_break=0.0, if_few="fail"), 4, stop=Stop(rounds=10_000))
    state, _ = after(plan, [SENT[0]])
    seen = 1
    while state.room:
        state, outcomes, _ = step(plan, state, CandidatesSeen(0.0, roster_of()))
        assert only(RoundFailed, outcomes)
        seen += 1
    assert seen == FACTS_PER_INSTANT
    with pytest.raises(RunFailed, match=r"at time 0.0: more than 1000 facts .* policy 'readiness' or selector 'uniform'"):
        step(plan, state, CandidatesSeen(0.0, roster_of()))


def test_many_arrivals_at_one_instant_are_no_zeno():
    fleet = even_fleet(1500, 8.0)
    events, _ = events_of(toy_plan(readiness(1500), 1500, stop=Stop(rounds=2)), world_of(fleet, steady=True))
    assert len(only(TaskArrived, events)) == 3000


def test_an_error_inside_an_algorithm_names_it():
    plan = toy_plan(readiness(2), 4)
    with pytest.raises(RunFailed, match="algorithm 'consensus', computing what 2 tasks cost, failed"):
        after(replace(plan, algorithm=replace(plan.algorithm, cost=broken)), SENT)
    with pytest.raises(RunFailed, match="algorithm 'consensus', making model 1 from 2 reports, failed"):
        events_of(replace(plan, algorithm=replace(plan.algorithm, apply=broken)), world_of(even_fleet(4)))
