"""Every registered selector and policy passes; the checks catch every kind of bad part, and let good ones pass."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.choose.uniform import uniform
from fedfleet.core.parts import UNSTEADY, Policy, Selector, Steady, SteadyDecide
from fedfleet.core.records import NOTHING, Decision, whole_work
from fedfleet.core.registry import names
from fedfleet.core.rng import hash_keys
from fedfleet.pace.combinators import overcommit
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.testing import check_policy, check_selector
from tests.testing.registered import built
from tests.worlds import buffered, commits_at

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", names("selectors"))
def test_selectors(name):
    check_selector(built("selectors", name), quiet=True)


@pytest.mark.parametrize("name", names("policies"))
def test_policies(name):
    check_policy(built("policies", name), quiet=True)


def policy(decide, **parts):
    return Policy("toy", decide, 3, **parts)


def asks_once(then):
    """Ask at the beginning of a round, and go on as `then` says."""

    def decide(book):
        if book.asking:
            return NOTHING
        return Decision(ask=3) if book.wanted == 0 and not book.answered else then(book)

    return decide


def forgetful():
    calls = []

    def decide(book):
        calls.append(book)
        return Decision(wake_at=book.now + len(calls))

    return decide


def drifting():
    """Pure twice in a row, and yet another later: it notes the latest time that it was asked at."""
    latest = [0.0]

    def decide(book):
        latest[0] = max(latest[0], book.now)
        if book.asking:
            return NOTHING
        if book.wanted == 0:
            return Decision(ask=3) if book.now >= book.opened_at + 1 else Decision(wake_at=latest[0] + 1)
        if not book.running:
            return Decision(commit=True) if book.arrived else Decision(abandon="nobody")
        return NOTHING

    return decide


BAD_POLICIES = {
    "asks in reply to candidates": (policy(lambda book: Decision(ask=3)), "asks for candidates again"),
    "wakes in the past": (policy(lambda book: Decision(wake_at=book.now - 1)), "which is not after"),
    "wakes at once": (policy(lambda book: Decision(wake_at=math.nextafter(book.now, math.inf))), "keeps asking"),
    "waits for ever": (policy(asks_once(lambda book: NOTHING)), "does it wait for ever|waits forever"),
    "wakes for ever": (policy(lambda book: Decision(wake_at=book.now + 1)), "does it wait for ever"),
    "commits nothing": (policy(asks_once(lambda book: Decision(commit=True))), "nothing has arrived"),
    "abandons every round": (
        policy(
            asks_once(lambda book: Decision(abandon="no mood") if book.now > book.opened_at else Decision(wake_at=book.now + 1))
        ),
        "no round was committed",
    ),
    "abandons at once": (policy(lambda book: Decision(abandon="no mood")), "no round was committed"),
    "forgets what it said": (policy(forgetful()), "same book must give the same decision"),
    "keeps a mutable memory": (policy(drifting()), "same book must give the same decision"),
    "raises": (policy(lambda book: Decision(wake_at=book.nonsense)), "AttributeError"),
    "waits for fewer than nobody": (policy(lambda book: Decision(ask=3, at_least=-1)), "at least -1"),
    "wants nobody": (Policy("toy", lambda book: NOTHING, 0), "how many it wants"),
}


@pytest.mark.parametrize("name", BAD_POLICIES)
def test_a_bad_policy_is_caught(name):
    bad, why = BAD_POLICIES[name]
    with pytest.raises(AssertionError, match=why):
        check_policy(bad)


def test_a_policy_that_asks_in_reply_to_candidates_is_caught():
    with pytest.raises(AssertionError, match="asks for candidates again"):
        check_policy(Policy("greedy", lambda book: Decision(ask=3), 3))


@pytest.mark.parametrize("wrong", [Steady(3, 1e9), Steady(3)], ids=["a later wake-up", "no wake-up"])
def test_a_policy_that_promises_too_much_is_caught(wrong):
    policy = deadline(5, seconds=30.0)
    lavish = replace(policy, decide=SteadyDecide(policy.decide.decide, lambda book: wrong if book.selected else UNSTEADY))
    with pytest.raises(AssertionError, match="its `steady` says"):
        check_policy(lavish)


def test_a_policy_that_never_ends_a_round_is_caught():
    with pytest.raises(AssertionError, match="for ever"):
        check_policy(Policy("asleep", lambda book: Decision(wake_at=book.now + 1), 3))


@pytest.mark.parametrize(
    "good",
    [
        commits_at(3, 2), buffered(2, 6, at_least=5), readiness(20, if_few="wait"),
        pytest.param(buffered(2, 6), marks=pytest.mark.soak), pytest.param(buffered(4, 4), marks=pytest.mark.soak),
        deadline(20, seconds=30.0, if_few="wait"), overcommit(readiness(5, if_few="wait")),
    ],
    ids=lambda p: p.name,
)  # fmt: skip
def test_a_good_policy_passes(good):
    check_policy(good)


def selector(pick, **parts):
    return Selector("toy", pick, **parts)


def first(state, roster, n, draw):
    return whole_work(roster.clients[:n])


def counts_in_place(state, ended, now):
    state["seen"][ended.clients] += 1
    return state


def remembering():
    """It picks whoever it has not picked before, and keeps that to itself."""
    asked = set()

    def pick(state, roster, n, draw):
        new = [c for c in roster.clients.tolist() if c not in asked] or roster.clients.tolist()
        asked.update(new[:n])
        return whole_work(np.array(new[:n], np.int64))

    return pick


BAD_SELECTORS = {
    "picks a stranger": (selector(lambda state, roster, n, draw: whole_work(np.array([10**6]))), "not on the roster"),
    "picks twice": (
        selector(lambda state, roster, n, draw: whole_work(np.repeat(roster.clients[:1], min(n, 2)))),
        "twice",
    ),
    "picks too many": (selector(lambda state, roster, n, draw: whole_work(roster.clients)), "asked for 7, picked"),
    "picks nobody": (selector(lambda state, roster, n, draw: whole_work(roster.clients[:0])), "no round"),
    "changes its state in place": (
        selector(first, learn=counts_in_place, initial=lambda clients: {"seen": np.zeros(clients)}),
        "read-only",
    ),
    "changes the roster": (
        selector(lambda state, roster, n, draw: whole_work(np.sort(roster.clients.__imul__(1))[:n])),
        "read-only",
    ),
    "keeps a list": (selector(first, initial=lambda clients: {"seen": []}), "named arrays"),
    "remembers on its own": (selector(remembering()), "in whatever order"),
    "knows one size of fleet": (
        selector(
            lambda state, roster, n, draw: whole_work(roster.clients[np.argsort(state["seen"][roster.clients])[:n]]),
            initial=lambda clients: {"seen": np.zeros(20)},
        ),
        "IndexError",
    ),
    "cannot bear an empty roster": (
        selector(lambda state, roster, n, draw: whole_work(roster.clients[: max(1, n)] + 0 * roster.clients.max())),
        "nobody is online: .*ValueError",
    ),
    "looks for a column that is not there": (
        selector(lambda state, roster, n, draw: whole_work(roster.clients[np.argsort(roster.stats["speed"])[:n]])),
        "KeyError: 'speed'",
    ),
    "takes the lowest numbers": (selector(first), "must not go by the numbers of clients"),
    "breaks ties by number": (
        selector(lambda state, roster, n, draw: whole_work(roster.clients[np.argsort(roster.samples, kind="stable")[:n]])),
        "must not go by the numbers of clients",
    ),
    "is unfair and says otherwise": (
        selector(
            lambda state, roster, n, draw: whole_work(roster.clients[np.argsort(luck(roster, draw) // (1 + roster.keys % 2))[:n]]),
            equal_chance=True,
        ),
        "it says equal_chance",
    ),
    "wants to see nonsense": (selector(first, sees=("compute_second",)), "did you mean 'compute_seconds'"),
}


@pytest.mark.parametrize("name", BAD_SELECTORS)
def test_a_bad_selector_is_caught(name):
    bad, why = BAD_SELECTORS[name]
    with pytest.raises(AssertionError, match=why):
        check_selector(bad)


def test_a_selector_that_picks_twice_is_caught():
    twice = Selector("twice", lambda state, roster, n, draw: whole_work(np.repeat(roster.clients[:1], min(n, 2))))
    with pytest.raises(AssertionError, match="twice"):
        check_selector(twice)


def luck(roster, draw):
    return hash_keys(draw.seed, "toy", roster.keys, draw.round, draw.first)


def fastest(state, roster, n, draw):
    return whole_work(roster.clients[np.lexsort((luck(roster, draw), roster.stats["seconds"]))[:n]])


def nine(state, roster, n, draw):
    return roster.clients[np.sort(np.argsort(luck(roster, draw), kind="stable")[:9])], "seconds"


def seeing(state, roster, n, draw):
    seconds = roster.stats["compute_seconds"] + roster.stats["transfer_seconds"]
    return whole_work(roster.clients[np.lexsort((luck(roster, draw), seconds))[:n]])


def lottery(state, roster, n, draw):
    return whole_work(roster.clients[np.argsort(luck(roster, draw))[:n]])


GOOD_SELECTORS = {
    "uniform": uniform(),
    "lottery": selector(lottery, equal_chance=True),
    "probing": selector(fastest, probe=nine),
    "its members, by number": selector(
        lambda state, roster, n, draw: whole_work(roster.clients[roster.clients < 30][:n]), members=np.arange(30)
    ),
    "seeing": selector(seeing, sees=("compute_seconds", "transfer_seconds", "steps", "user")),
}


@pytest.mark.parametrize("name", GOOD_SELECTORS)
def test_a_good_selector_passes(name):
    check_selector(GOOD_SELECTORS[name])
