"""First of two policies, and overcommitment."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.errors import BadInput
from fedfleet.core.events import ModelCommitted, PaceSet, TasksSent
from fedfleet.core.parts import Policy
from fedfleet.core.records import NOTHING, Book, Decision, Stop
from fedfleet.pace.asynchronous import buffered
from fedfleet.pace.combinators import first_of, overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.pace.timeout import timeout
from tests.worlds import even_fleet, events_of, fleets, only, plain, toy_plan, world_of

pytestmark = pytest.mark.slow


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
    policy = first_of(readiness(3, t_break=1.0, lease=20.0, if_few="fail"), timeout(3, goal=3, seconds=8.0, most=9, t_break=1.0))
    events, end = events_of(toy_plan(policy, 12, stop=Stop(rounds=1)), world_of(even_fleet(12, 1e9)))
    # The lease counts from the last broadcast: the next wait, of 32 s, is the first that outlives it.
    assert [(e.time, e.seconds) for e in only(PaceSet, events)] == [(0.0, 8.0), (9.0, 16.0), (25.0, 32.0)]
    assert events[-1].time == 45.0
    assert end.state.book.kept == (32.0, *end.state.book.kept[1:])


def test_a_policy_beside_an_overcommitting_one_may_ask_first():
    # The second asks at 1, for 4; the first would have asked at 10, and is content with those.
    policy = first_of(overcommit(deadline(2, seconds=30.0, t_break=10.0), factor=2.0), deadline(4, seconds=60.0, t_break=1.0))
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
    assert first_of(deadline(3), first_of(readiness(3), timeout(3))).name == "first_of(deadline, first_of(readiness, timeout))"


def test_nobody_overcommits_twice():
    for inside in (overcommit(readiness(3)), first_of(readiness(3), overcommit(deadline(3)))):
        with pytest.raises(BadInput, match="multiply the two factors"):
            overcommit(inside)


def spying(cohort, seen):
    """A policy that asks for its cohort and notes every book that it is shown."""

    def decide(book):
        seen.append(book)
        return Decision(ask=cohort) if book.wanted == 0 else NOTHING

    return Policy("spy", decide, cohort)


def asked_once(policy, book=None):
    """The memory of an overcommitting policy after it asked for its cohort at the beginning of a round."""
    decision = policy.decide(book or Book(now=20.0, kept=policy.initial))
    return {"kept": decision.keep, "wanted": decision.ask, "selected": decision.ask}


def test_it_asks_for_more():
    assert overcommit(readiness(10), factor=1.3).decide(Book(now=20.0)).ask == 13
    assert overcommit(readiness(4), factor=1.3).decide(Book(now=20.0)).ask == 6
    assert overcommit(readiness(3), factor=1.0).decide(Book(now=20.0)).ask == 3


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.integers(1, 5000), st.floats(1.0, 4.0))
def test_the_inner_policy_sees_what_it_wanted(cohort, factor):
    seen = []
    policy = overcommit(spying(cohort, seen), factor=factor)
    sent = asked_once(policy)
    assert cohort * factor - 1e-6 <= sent["wanted"] < cohort * factor + 1
    policy.decide(Book(**sent))
    policy.decide(Book(**{**sent, "selected": cohort - 1}))
    assert [(b.wanted, b.selected) for b in seen] == [(0, 0), (cohort, cohort), (cohort, cohort - 1)]


def test_the_rest_of_the_book_is_shown_as_it_is():
    seen = []
    book = Book(
        now=9.0, round=3, version=2, opened_at=1.0, sent_at=2.0, wanted=13, selected=13, arrived=4, lost=1, running=8,
        asks=1, first_sent_at=2.0, own_arrived=3, own_running=7, due=30.0, kept=(3.0, 10.0, 0.0, 0.0, 0.25),
    )  # fmt: skip
    overcommit(spying(10, seen), factor=1.3).decide(book)
    assert seen == [book._replace(wanted=10, selected=10, kept=(0.25,))]


def test_the_first_that_report_are_enough_and_the_others_are_dropped():
    policy = overcommit(readiness(4), factor=1.5)
    book = {"now": 30.0, "first_sent_at": 20.0, **asked_once(policy)}
    assert policy.decide(Book(arrived=3, running=3, **book)) == NOTHING
    assert policy.decide(Book(arrived=4, running=2, **book)) == Decision(commit=True, drop=0)


def test_the_deadline_of_the_inner_policy_holds():
    policy = overcommit(deadline(4, seconds=10.0), factor=1.5)
    book = {"first_sent_at": 20.0, "arrived": 2, "running": 4, **asked_once(policy)}
    assert policy.decide(Book(now=20.0, answered=True, **book)) == Decision(wake_at=30.0)
    assert policy.decide(Book(now=30.0, **book)) == Decision(commit=True, drop=0)


@pytest.mark.parametrize(("selected", "fails"), [(1, True), (2, False)])
def test_min_clients_is_about_the_clients_that_were_selected(selected, fails):
    policy = overcommit(readiness(4, min_clients=2, if_few="fail"), factor=2.0)
    sent = {**asked_once(policy), "selected": selected}
    decision = policy.decide(Book(now=20.0, first_sent_at=20.0, running=selected, answered=True, **sent))
    assert bool(decision.abandon) == fails


def test_min_share_is_of_what_the_inner_policy_wanted():
    # Half of the 4 wanted, not of the 8 asked.
    policy = overcommit(deadline(4, seconds=10.0, min_share=0.5), factor=2.0)
    book = {"now": 30.0, "first_sent_at": 20.0, **asked_once(policy)}
    assert policy.decide(Book(arrived=2, running=6, **book)).commit
    assert policy.decide(Book(arrived=1, running=7, **book)).abandon


def test_it_waits_for_as_many_as_the_inner_policy_does():
    policy = overcommit(deadline(40, seconds=9.0, if_few="wait"), factor=1.5)
    decision = policy.decide(Book(now=20.0, kept=policy.initial))
    assert (decision.ask, decision.at_least) == (60, 4)
    assert (policy.least, policy.patience) == (4, 9.0)
    assert overcommit(readiness(20, ready_share=0.05)).doubts == readiness(20, ready_share=0.05).doubts


def test_its_name_tells_what_it_wraps():
    policy = overcommit(deadline(4))
    assert policy.name == "overcommit(deadline)"
    assert policy.cohort == 4
    assert math.ceil(4 * 1.3) == policy.decide(Book(now=20.0)).ask


def asking_twice(seen):
    """A policy with a memory of its own that asks for 4, then for 2 more, and commits when 6 have come."""

    def decide(book):
        seen.append((book.wanted, book.selected, book.asks, book.kept))
        if book.arrived >= 6 or (book.arrived and not book.running and not book.asking):
            return Decision(commit=True, drop=0, keep=(0.0,))
        if book.wanted == 0:
            return Decision(ask=4, keep=(1.0,)) if book.now >= book.opened_at + 1 else Decision(wake_at=book.opened_at + 1)
        if book.asks == 1 and not book.answered and not book.asking:
            return Decision(ask=2, keep=(2.0,))
        return Decision(wake_at=book.sent_at + 1.0) if book.asks == 1 else NOTHING

    return Policy("twice", decide, 4, (0.0,))


def test_a_policy_that_asks_twice_in_a_round_sees_its_own_numbers():
    seen = []
    plan = toy_plan(overcommit(asking_twice(seen), factor=1.5), 30, stop=Stop(rounds=2))
    events, _ = events_of(plan, world_of(even_fleet(30, 8.0), steady=True))
    assert [len(e.clients) for e in only(TasksSent, events)] == [6, 3, 6, 3]
    assert [e.folded for e in only(ModelCommitted, events)] == [6, 6]
    a_round = [(0, 0, 0, (0.0,)), (4, 4, 1, (1.0,)), (6, 6, 2, (2.0,))]
    assert list(dict.fromkeys(seen)) == [*a_round], "the second round looks like the first"


def test_an_ask_that_outlives_its_round_keeps_its_numbers():
    # Four were wanted and six asked for; the round closed before the answer, which then brings six.
    seen = []
    policy = overcommit(spying(4, seen), factor=1.5)
    sent = asked_once(policy)
    policy.decide(Book(round=1, asking=True, wanted=6, selected=0, kept=sent["kept"]))
    policy.decide(Book(round=1, wanted=6, selected=6, kept=(1.0, 4.0, 0.0, 0.0)))
    assert [(b.wanted, b.selected) for b in seen[1:]] == [(4, 0), (4, 4)]


def test_what_somebody_else_asked_for_is_shown_as_it_is():
    seen = []
    overcommit(spying(4, seen), factor=1.5).decide(Book(wanted=9, selected=9, kept=(0.0, 0.0, 0.0, 0.0)))
    assert [(b.wanted, b.selected) for b in seen] == [(9, 9)]


def test_its_parameters_are_named_where_they_are():
    policy = overcommit(timeout(6, seconds=8.0), factor=1.5)
    assert (policy.key, policy.limit, policy.holds_key) == ("policy.cohort", "policy.ceiling", "policy.goal")
    assert policy.initial[policy.shows[0][1]] == 8.0
