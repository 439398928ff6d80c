"""Conformance of selectors and policies: they steer the real engine through small worlds of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event, ModelCommitted, RoundFailed
from fedfleet.core.parts import Draw, Plan, Policy, Selector, State
from fedfleet.core.records import Assignments, Book, Decision, Ended, Ints, Roster, Stop
from fedfleet.pace.rounds import deadline, readiness, round_policy
from fedfleet.simulation.simulator import simulate
from fedfleet.testing.toys import TrialWorld, consensus, consensus_start, opaque_executor, trial_worlds

_SEED = 11
_HORIZON = 30 * 86400.0


def check_policy(policy: Policy, *, steps: int = 20_000) -> None:
    """A policy closes rounds in every world where clients report, asks and wakes within reason, and is a pure function.

    `steps` is how many events a world may take at most; one in which no client reports may end before any round does.
    """
    assert policy.cohort >= 1, "a policy must say how many it wants at once"
    declared = None if policy.round_rules is None else round_policy(policy.name, policy.round_rules)
    for trial in trial_worlds(max(2 * policy.cohort, policy.cohort + 20)):
        decisions: list[tuple[Book, Decision]] = []

        def decide(book: Book, decisions: list[tuple[Book, Decision]] = decisions) -> Decision:
            decision = policy.decide(book)
            assert decision == policy.decide(book), "the same book must give the same decision"
            decisions.append((book, decision))
            return decision

        recording = replace(policy, decide=decide)
        ends = _round_ends(_plan(trial, uniform(), recording), trial, steps)
        if trial.answers:
            rounds, commits = len(ends), sum(isinstance(e, ModelCommitted) for e in ends)
            assert rounds >= 3, f"only {rounds} rounds ended where {trial.name}: does it wait for ever?"
            assert commits, f"no round was committed where {trial.name}: {ends[0]}"
        for book, decision in decisions[::-1]:
            assert policy.decide(book) == decision, (
                f"the same book must give the same decision, in whatever order it is asked: {book}"
            )
            assert declared is None or _outcome(decision) == _outcome(declared.decide(book)), (
                f"by its round_rules it would decide otherwise than it does; correct them, or leave them out: {book}"
            )


def _outcome(decision: Decision) -> tuple[int, bool, bool]:
    """What a decision does to the round: how many it asks, whether it commits, and whether it gives up."""
    return decision.ask, decision.commit, bool(decision.abandon)


def check_selector(selector: Selector, *, clients: int = 50, rounds: int = 12) -> None:
    """A selector picks from the roster in every world, keeps its state in named arrays, and is a pure function."""
    assert not (selector.equal_chance and (selector.learn or selector.probe)), (
        "with equal_chance nothing that happened may decide, and this selector learns or probes"
    )
    for trial in trial_worlds(clients):
        state = selector.initial(len(trial.world.keys))
        _check_state(state)
        # Rounds that do not wait for clients show the selector an empty roster too.
        for policy in (readiness(7, min_clients=1, if_few="fail"), deadline(3, seconds=30.0, min_clients=1)):
            picks: _Picks = []
            ends = _round_ends(_plan(trial, _guard(selector, picks), policy, rounds), trial, 10_000)
            if trial.answers:
                commits = sum(isinstance(e, ModelCommitted) for e in ends)
                assert commits, f"no round could be committed where {trial.name}: {ends[:1]}"
            for again, first in picks[::-1]:
                repeated = again()
                same = all(np.array_equal(getattr(repeated, n), getattr(first, n)) for n in ("clients", "steps", "share"))
                assert same and repeated.due == first.due, (
                    "the same state, roster and address must give the same pick, in whatever order it is asked"
                )


# What a selector was asked, as functions that ask again, and what it answered.
_Picks = list[tuple[Callable[[], Assignments], Assignments]]


def _guard(selector: Selector, picks: _Picks) -> Selector:
    """The selector with arrays that cannot be changed, every pick noted and every state looked at."""

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        _lock(state, roster)
        assignments = selector.pick(state, roster, n, draw)
        assert len(assignments.clients) <= n, f"asked for {n}, picked {len(assignments.clients)}"
        picks.append((lambda: selector.pick(state, roster, n, draw), assignments))
        return assignments

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        _lock(state, roster)
        assert selector.probe is not None
        return selector.probe(state, roster, n, draw)

    def learn(state: State, ended: Ended, now: float) -> State:
        assert selector.learn is not None
        _lock(state, ended)
        new_state = selector.learn(state, ended, now)
        _check_state(new_state)
        return new_state

    probe_or_none, learn_or_none = probe if selector.probe is not None else None, learn if selector.learn is not None else None
    return replace(selector, pick=pick, probe=probe_or_none, learn=learn_or_none)


def _lock(state: State, columns: Roster | Ended) -> None:
    """Numpy refuses writes into what was given."""
    arrays = [getattr(columns, name) for name in ("clients", "keys", "samples", "tasks", "seconds") if hasattr(columns, name)]
    for array in (*state.values(), *arrays, *columns.stats.values()):
        array.setflags(write=False)


def _check_state(state: Any) -> None:
    assert isinstance(state, dict) and all(isinstance(v, np.ndarray) for v in state.values()), (  # pyright: ignore[reportUnknownVariableType]
        f"a selector's state must be named arrays, not {state!r}"
    )


def _plan(trial: TrialWorld, choose: Selector, pace: Policy, rounds: int = 12) -> Plan:
    stop = Stop(rounds=rounds, virtual_seconds=_HORIZON)
    return Plan(_SEED, consensus(), choose, pace, stop, consensus_start(), len(trial.world.keys))


class _TooManyEvents(Exception):
    """The world has been watched for as many events as were allowed."""


def _round_ends(plan: Plan, trial: TrialWorld, most: int) -> list[ModelCommitted | RoundFailed]:
    """How rounds ended in this world, within that many events; what the engine refuses is a rule that was broken."""
    result: list[ModelCommitted | RoundFailed] = []
    seen = 0

    def watch(events: Sequence[Event]) -> None:
        nonlocal seen
        seen += len(events)
        result.extend(e for e in events if isinstance(e, ModelCommitted | RoundFailed))
        if seen > most:
            raise _TooManyEvents

    try:
        simulate(plan, trial.world, opaque_executor(), watch=watch)
    except _TooManyEvents:
        pass
    except FedFleetError as error:
        raise AssertionError(f"where {trial.name}: {error}") from error
    return result
