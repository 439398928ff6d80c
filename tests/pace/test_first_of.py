"""Two policies for one round: whichever closes it first, each with its own memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, PaceSet, TasksSent
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision, Stop
from fedfleet.pace.buffered import buffered
from fedfleet.pace.first_of import first_of
from fedfleet.pace.overcommit import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.pace.timeout import timeout
from tests.worlds import even_fleet, events_of, fleets, only, plain, toy_plan, world_of


def run(policy, fleet, rounds=5):
    plan = toy_plan(policy, len(fleet), stop=Stop(rounds=rounds, virtual_seconds=1e5))
    return [plain(e) for e in events_of(plan, world_of(fleet))[0][1:]]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(fleets(), st.integers(1, 4), st.integers(1, 60), st.sampled_from([0.25, 0.5, 1.0]), st.integers(0, 1))
def test_readiness_or_a_deadline_is_readiness_with_a_lease(fleet, cohort, seconds, share, few):
    common = {"min_clients": few, "min_share": 0.0, "t_break": 3.0}
    waits = readiness(cohort, ready_share=share, **common)
    ends = deadline(cohort, seconds=float(seconds), **common)
    leased = run(readiness(cohort, ready_share=share, lease=float(seconds), **common), fleet)
    assert run(first_of(waits, ends), fleet) == leased
    assert run(first_of(ends, waits), fleet) == leased, "and it does not matter which is named first"


@settings(deadline=None, derandomize=True, max_examples=30)
@given(fleets(), st.integers(2, 4), st.integers(1, 30))
def test_with_a_policy_that_never_closes_first_it_is_the_other(fleet, cohort, seconds):
    ends = deadline(cohort, seconds=float(seconds))
    assert run(first_of(ends, deadline(cohort, seconds=1e7)), fleet) == run(ends, fleet)


def saying(name, decision, memory=(0.0,)):
    return Policy(name, lambda book: decision, 2, memory)


def told(a, b, **book):
    return first_of(saying("a", a), saying("b", b)).decide(Book(**{"kept": (1.0, 2.0), "now": 5.0, **book}))


def test_an_open_round_follows_both():
    a = Decision(ask=3, wake_at=9.0, drop_before=1.0, at_least=2, keep=(7.0,))
    b = Decision(ask=5, wake_at=7.0, others=True, drop=4)
    assert told(a, b) == Decision(ask=5, wake_at=7.0, others=True, drop=4, drop_before=1.0, at_least=2, keep=(7.0, 2.0))
    assert told(NOTHING, NOTHING) == NOTHING


def test_whoever_closes_a_round_decides_alone():
    asks = Decision(ask=3, wake_at=9.0, keep=(7.0,))
    commit, fail = Decision(commit=True, drop=2, keep=(8.0,)), Decision(abandon="too few", drop=0)
    assert told(asks, commit) == Decision(commit=True, drop=2, keep=(1.0, 8.0)), "the other was not asked"
    assert told(fail, asks) == fail
    assert told(fail, commit) == Decision(commit=True, drop=2, keep=(1.0, 8.0)), "a model goes before a failure"
    assert told(commit, Decision(commit=True, drop=0, keep=(9.0,))) == Decision(commit=True, drop=2, keep=(8.0, 9.0))


def test_each_keeps_its_memory_and_the_journal_shows_it():
    policy = first_of(readiness(3, t_break=1.0, lease=20.0), timeout(3, goal=3, seconds=8.0, most=9, t_break=1.0))
    events, end = events_of(toy_plan(policy, 12, stop=Stop(rounds=1)), world_of(even_fleet(12, 1e9)))
    # The lease counts from the last broadcast: the next wait, of 32 s, is the first that outlives it.
    assert [(e.time, e.seconds) for e in only(PaceSet, events)] == [(0.0, 8.0), (9.0, 16.0), (25.0, 32.0)]
    assert events[-1].time == 45.0
    assert end.state.book.kept == (32.0, *end.state.book.kept[1:])


def test_a_policy_beside_an_overcommitting_one_may_ask_first():
    # The second asks at 1, for 4; the first would have asked at 10, and is content with those.
    policy = first_of(
        overcommit(deadline(2, seconds=30.0, t_break=10.0), factor=2.0), deadline(4, seconds=60.0, t_break=1.0)
    )
    events, _ = events_of(toy_plan(policy, 9, stop=Stop(rounds=2)), world_of(even_fleet(9, 40.0), steady=True))
    assert [len(e.clients) for e in only(TasksSent, events)] == [4, 4]
    assert not only(ModelCommitted, events), "the shorter deadline closes the rounds"


def test_what_is_known_of_its_rounds():
    policy = first_of(readiness(4), deadline(9, seconds=7.0, min_clients=3))
    assert (policy.cohort, policy.key, policy.patience, policy.limit) == (9, "second.cohort", 7.0, "second.seconds")
    assert (policy.least, policy.endless, policy.rounds, policy.holds) == (2, False, True, None)
    mixed = first_of(buffered(k=3, concurrency=5), timeout(6))
    assert (mixed.rounds, mixed.holds, mixed.holds_key, mixed.prompt) == (False, 4, "second.goal", False)
    assert mixed.shows == (("t_o", 3),)
    two = first_of(timeout(3), timeout(4))
    assert [name for name, _ in two.shows] == ["first.t_o", "second.t_o"], "two timelines are not one"
    assert [two.initial[at] for _, at in two.shows] == [60.0, 60.0]
    assert first_of(readiness(3), readiness(4)).endless


def test_the_same_policy_twice_is_refused():
    policy = readiness(3)
    with pytest.raises(BadInput, match="first_of: both policies are the same"):
        first_of(policy, policy)
    assert (
        first_of(deadline(3), first_of(readiness(3), timeout(3))).name
        == "first_of(deadline, first_of(readiness, timeout))"
    )


def test_nobody_overcommits_twice():
    for inside in (overcommit(readiness(3)), first_of(readiness(3), overcommit(deadline(3)))):
        with pytest.raises(BadInput, match="asks for more clients than it needs already; multiply the two factors"):
            overcommit(inside)
