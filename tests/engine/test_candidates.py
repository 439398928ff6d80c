"""Asking: who is probed and picked, what a selector may say, and what becomes of asks within and between rounds."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import smallest, uniform
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    ModelCommitted,
    Probed,
    ReportsGathered,
    RoundFailed,
    TaskArrived,
    TasksSent,
    TimerFired,
)
from fedfleet.core.parts import Policy, Selector
from fedfleet.core.records import NOTHING, Assignments, Decision, Stop, whole_work
from fedfleet.engine.coordinator import begin, step
from fedfleet.pace.rounds import readiness
from fedfleet.testing.toys import idle
from tests.worlds import buffered, even_fleet, events_of, kinds_of, only, roster_of, toy_plan, world_of

pytestmark = pytest.mark.slow

EVALUATED = Evaluated(0.0, 0, 1, 10, 0.0)
SENT = [EVALUATED, TimerFired(20.0), CandidatesSeen(20.0, roster_of(0, 1, 2, 3))]


def after(plan, facts):
    """The state after these facts, and what was decided on the way."""
    state, outcomes, _ = begin(plan)
    for fact in facts:
        state, new, _ = step(plan, state, fact)
        outcomes += new
    return state, outcomes


def broken(*_):
    raise KeyError("loss")


def selector(pick, **parts):
    return Selector("greedy", pick, **parts)


@pytest.mark.parametrize(
    ("clients", "why"),
    [
        ([1, 1], "picked 2 clients where 2"),
        ([1, 9], "picked 2 clients where 2"),
        ([-1, 1], "picked 2 clients where 2"),
        ([0, 1, 2], "picked 3 clients where 2"),
    ],
)
def test_a_selector_picks_from_the_roster_once_and_not_too_many(clients, why):
    plan = toy_plan(readiness(2), 10, choose=selector(lambda state, roster, n, draw: whole_work(np.array(clients))))
    with pytest.raises(RunFailed, match=f"selector 'greedy' {why} .*wanted.* not on the roster"):
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


def test_an_error_inside_a_selector_names_it():
    with pytest.raises(RunFailed, match="selector 'greedy', picking 2 of 4 candidates, failed: KeyError"):
        after(toy_plan(readiness(2), 4, choose=selector(broken)), SENT)
    with pytest.raises(RunFailed, match="selector 'greedy', choosing which of 4 candidates to probe, failed"):
        after(toy_plan(readiness(2), 4, choose=selector(broken, probe=broken)), SENT)
    with pytest.raises(RunFailed, match="selector 'greedy', making its first state for 4 clients, failed"):
        begin(toy_plan(readiness(2), 4, choose=selector(broken, initial=broken)))
    unlearned = replace(uniform(), name="greedy", learn=broken)
    with pytest.raises(RunFailed, match="selector 'greedy', while it learnt how 2 tasks ended, failed"):
        events_of(toy_plan(readiness(2), 4, choose=unlearned), world_of(even_fleet(4)))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (Assignments(np.array([0]), np.array([-1]), np.ones(1)), "impossible work"),
        (Assignments(np.array([0]), np.array([0]), np.zeros(1)), "impossible work"),
        (Assignments(np.array([0]), np.array([0]), np.ones(2)), "'share' has another length"),
        (Assignments(np.array([0]), np.array([0]), np.ones(1), {"part": np.ones(3)}), "'part' has another length"),
        (Assignments(np.array([0]), np.array([0]), np.ones(1), {}, -1.0), "due -1.0 seconds after sending"),
    ],
)
def test_assignments_that_cannot_be_sent_name_the_selector(asked, why):
    plan = toy_plan(readiness(2), 4, choose=selector(lambda state, roster, n, draw: asked))
    with pytest.raises(RunFailed, match=f"selector 'greedy' .*{why}"):
        after(plan, SENT)


def fastest(looks_at):
    """Look at some candidates' speed, then pick the fastest of them."""

    def probe(state, roster, n, draw):
        return roster.clients[smallest(roster.keys, looks_at)], "seconds"

    def pick(state, roster, n, draw):
        seconds = roster.stats["seconds"]
        return whole_work(roster.clients[np.argsort(seconds, kind="stable")[: min(n, int(np.isfinite(seconds).sum()))]])

    return Selector("fastest", pick, probe=probe)


def test_a_probing_selector_sees_what_it_asked_for():
    fleet = even_fleet(6, [5.0, 3.0, 9.0, 1.0, 7.0, 2.0])
    plan = toy_plan(readiness(2), 6, choose=fastest(6), stop=Stop(rounds=2))
    events, _ = events_of(plan, world_of(fleet, steady=True))
    for probed in only(Probed, events):
        assert probed.stat == "seconds"
        assert probed.values.tolist() == [fleet.seconds[c] for c in probed.clients]
    assert [e.clients.tolist() for e in only(TasksSent, events)] == [[3, 5], [3, 5]]
    kinds = kinds_of(events)
    at = kinds.index("Probed")
    assert kinds[at - 1 : at + 2] == ["CandidatesSeen", "Probed", "TasksSent"]


def test_who_was_not_probed_has_no_number():
    fleet = even_fleet(6, [5.0, 3.0, 9.0, 1.0, 7.0, 2.0])
    events, _ = events_of(toy_plan(readiness(2), 6, choose=fastest(3), stop=Stop(rounds=1)), world_of(fleet, steady=True))
    looked_at = only(Probed, events)[0].clients.tolist()
    assert len(looked_at) == 3
    best = sorted(looked_at, key=lambda c: fleet.seconds[c])[:2]
    assert only(TasksSent, events)[0].clients.tolist() == best


def test_probing_nobody_picks_at_once():
    choose = replace(uniform(), probe=lambda state, roster, n, draw: (roster.clients[:0], "seconds"))
    events, _ = events_of(toy_plan(readiness(2), 4, choose=choose, stop=Stop(rounds=1)), world_of(even_fleet(4)))
    assert not only(Probed, events)
    assert only(ModelCommitted, events)


def test_a_probing_selector_finds_its_column_when_nobody_is_online():
    world = world_of(even_fleet(4))
    nobody = replace(world, states=replace(world.states, online=lambda time: np.zeros(4, np.bool_)))
    events, _ = events_of(toy_plan(readiness(2, if_few="fail"), 4, choose=fastest(3), stop=Stop(rounds=3)), nobody)
    assert [e.reason for e in only(RoundFailed, events)] == ["fewer than 2 clients could be selected"] * 3


def seen_by(sees, world, plan_clients):
    """What a selector that names these columns finds on its first roster."""
    result = []

    def pick(state, roster, n, draw):
        result.append(roster)
        return whole_work(roster.clients[:n])

    plan = toy_plan(readiness(2), plan_clients, choose=Selector("seeing", pick, sees=sees), stop=Stop(rounds=1))
    events_of(plan, world)
    return result[0]


def test_an_empty_roster_has_the_columns_that_the_selector_sees():
    world = world_of(even_fleet(4))
    nobody = replace(world, states=replace(world.states, online=lambda time: np.zeros(4, np.bool_)))
    roster = seen_by(("compute_seconds", "transfer_seconds", "steps", "user"), nobody, 4)
    assert {name: len(column) for name, column in roster.stats.items()} == dict.fromkeys(
        ("compute_seconds", "transfer_seconds", "steps", "user"), 0
    )


# ---- draws --------------------------------------------------------------------------------------------------------


def test_a_selector_is_made_for_its_fleet():
    sizes = []

    def initial(clients):
        sizes.append(clients)
        return {}

    begin(toy_plan(readiness(2), 200, choose=replace(uniform(), initial=initial)))
    assert sizes == [200]


def test_every_pick_is_a_draw_of_its_own():
    # One task at a time from 40 equal clients, 200 times: with one draw a round the same few would be picked for ever.
    plan = toy_plan(buffered(50, 10), 40, stop=Stop(rounds=4))
    events, _ = events_of(plan, world_of(even_fleet(40, [float(1 + i % 7) for i in range(40)]), steady=True))
    counts = np.bincount(np.concatenate([e.clients for e in only(TasksSent, events)]), minlength=40)
    assert (counts > 0).sum() >= 38
    draws = []

    def pick(state, roster, n, draw):
        draws.append((draw.round, draw.first))
        return whole_work(roster.clients[:n])

    events_of(toy_plan(buffered(5, 2), 8, choose=Selector("noting", pick), stop=Stop(rounds=3)), world_of(even_fleet(8)))
    assert len(set(draws)) == len(draws)
    assert [first for _, first in draws] == sorted(first for _, first in draws)


# ---- asks within and between rounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("cohort", [1, 3, 5])
def test_buffered_with_room_for_its_cohort_is_readiness(cohort):
    # Equal devices report at one instant: all of them before candidates are seen, so that the next wave is whole.
    world, stop = world_of(even_fleet(12, 8.0), steady=True), Stop(rounds=6)
    runs = [
        events_of(toy_plan(policy, 12, stop=stop), world)[0]
        for policy in (buffered(cohort, cohort), readiness(cohort, t_break=0.0, min_clients=1))
    ]
    ours, theirs = ([(e.time, e.version, e.model_hash) for e in only(ModelCommitted, run)] for run in runs)
    assert ours == theirs
    assert len(ours) == 6
    sent = [[(e.time, e.round, e.version, e.clients.tolist()) for e in only(TasksSent, run)] for run in runs]
    assert sent[0] == sent[1]


@pytest.mark.parametrize(("enough", "batch"), [(1, 1), (10, 1), (100, 50), (1000, 1)])
def test_a_thousand_equal_devices_are_replaced_one_by_one_and_in_batches(enough, batch):
    stop = Stop(rounds=2500 // enough, evaluate_every=1)
    plan = toy_plan(buffered(enough, 1000, batch=batch), 2000, algorithm=idle(), stop=stop)
    plan = replace(plan, params={})
    events, end = events_of(plan, world_of(even_fleet(2000, 8.0), steady=True))
    assert end.state.book.version == stop.rounds
    assert [len(e.clients) for e in only(TasksSent, events)][:2] == [1000, 1000]
    assert [e.time for e in only(TasksSent, events)][:2] == [0.0, 8.0]


def test_asking_while_an_ask_is_out_tops_it_up():
    def decide(book):
        return Decision(ask=1) if book.wanted < 3 and not book.answered else Decision(wake_at=book.now + 1)

    plan = toy_plan(Policy("drops", decide, 1), 6)
    state, _, commands = step(plan, begin(plan).state, EVALUATED)
    assert (kinds_of(commands), state.book.wanted) == (["FindCandidates", "WakeAt"], 1)
    for wanted in (2, 3):
        state, _, commands = step(plan, state, TimerFired(float(wanted)))
        assert state.book.wanted == wanted
        assert "FindCandidates" not in kinds_of(commands), "one answer serves all"
    state, outcomes, _ = step(plan, state, CandidatesSeen(4.0, roster_of(0, 1, 2, 3)))
    assert len(outcomes[0].clients) == 3
    assert (state.book.asks, state.book.selected, state.book.asking) == (1, 3, False)


def test_an_ask_that_is_out_when_its_round_closes_is_answered_in_the_next():
    def decide(book):
        if book.arrived:
            return Decision(commit=True)
        return Decision(ask=2) if not book.asking and not book.answered and book.running < 4 else NOTHING

    plan = toy_plan(Policy("asking", decide, 2), 8, stop=Stop(rounds=5, evaluate_every=100))
    state, outcomes = after(plan, [EVALUATED, CandidatesSeen(0.0, roster_of(0, 1, 2, 3)), TimerFired(1.0)])
    assert state.book.asking
    client = int(only(TasksSent, outcomes)[0].clients[0])
    state = step(plan, state, TaskArrived(2.0, 0, client, 2.0, 16.0)).state
    state, outcomes, commands = step(plan, state, ReportsGathered(2.0, None, np.zeros(0, np.int64), {}))
    assert kinds_of(outcomes) == ["RoundFailed"]
    assert (state.book.round, state.book.asking, state.book.wanted, state.book.selected) == (1, True, 2, 0)
    assert "FindCandidates" not in kinds_of(commands)
    state, outcomes, _ = step(plan, state, CandidatesSeen(3.0, roster_of(4, 5, 6)))
    assert (outcomes[0].round, len(outcomes[0].clients)) == (1, 2)


def asks_again(others):
    """Ask for 4, and after 2 seconds for 4 more; commit when nobody runs."""

    def decide(book):
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=4) if book.now >= book.opened_at + 1 else Decision(wake_at=book.opened_at + 1)
        if book.asks == 1:
            if book.now >= book.first_sent_at + 2:
                return Decision(ask=4, others=others)
            return Decision(wake_at=book.first_sent_at + 2)
        return NOTHING if book.running else Decision(commit=True)

    return Policy("asks_again", decide, 4)


@pytest.mark.parametrize("others", [False, True])
def test_whoever_was_asked_in_this_round_need_not_be_asked_again(others):
    # Everyone reports after one second, so that all ten are idle when the policy asks again.
    plan = toy_plan(asks_again(others), 10, stop=Stop(rounds=8))
    events, _ = events_of(plan, world_of(even_fleet(10, 1.0), steady=True))
    rounds = {}
    for event in only(TasksSent, events):
        rounds.setdefault(event.round, []).append(set(event.clients.tolist()))
    assert all(len(waves) == 2 for waves in rounds.values())
    assert any(a & b for a, b in rounds.values()) != others


def test_the_book_counts_the_tasks_of_its_own_round():
    books = []

    def decide(book):
        books.append(book)
        if book.asking:
            return NOTHING
        if book.arrived >= 2:
            return Decision(commit=True)
        if book.wanted == 0:
            return Decision(ask=3 - book.running)
        return NOTHING

    plan = toy_plan(Policy("counting", decide, 3), 6, stop=Stop(rounds=3))
    events_of(plan, world_of(even_fleet(6, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), steady=True))
    for book in books:
        assert 0 <= book.own_running <= book.running
        assert 0 <= book.own_arrived <= book.arrived
        assert (book.first_sent_at < float("inf")) == (book.selected > 0)
    stale = [b for b in books if b.running > b.own_running and b.selected]
    assert stale, "tasks of an earlier round run on"


@pytest.mark.parametrize(("drop_before", "when"), [(0.0, None), (1.5, 3.0), (100.0, 1.5)])
def test_tasks_sent_before_a_time_can_be_given_up(drop_before, when):
    def decide(book):
        if book.asking:
            return NOTHING
        if book.arrived >= 2:
            return Decision(commit=True, drop_before=drop_before if book.version or drop_before > 50 else None)
        if book.wanted == 0:
            start = book.opened_at + 0.5
            return Decision(ask=3) if book.now >= start else Decision(wake_at=start)
        return NOTHING

    everyone = Selector("everyone", lambda state, roster, n, draw: whole_work(roster.clients[:n]))
    plan = toy_plan(Policy("giving_up", decide, 3), 3, choose=everyone, stop=Stop(rounds=4))
    events, _ = events_of(plan, world_of(even_fleet(3, [100.0, 1.0, 1.0]), steady=True))
    dropped = [e for e in events if type(e).__name__ == "TasksDropped"]
    first = next((e.time for e in dropped if e.tasks.tolist() == [0]), None)
    assert first == (when if when is not None else 6.0), "at the end of the run everyone is given up"


# ---- what a selector says beside who ------------------------------------------------------------------------------
