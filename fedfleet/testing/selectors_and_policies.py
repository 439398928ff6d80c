"""Conformance of selectors and policies: they steer the real engine through small worlds of every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import FedFleetError
from fedfleet.core.events import Event, ModelCommitted, RoundFailed
from fedfleet.core.parts import Draw, Plan, Policy, Selector, State
from fedfleet.core.records import Assignments, Book, Decision, Ended, Ints, Roster, Stop
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.simulation.simulator import simulate
from fedfleet.testing.toys import consensus, consensus_start, opaque_executor
from fedfleet.testing.worlds import Trial, trials

_SEED = 11
_HORIZON = 30 * 86400.0


def check_policy(policy: Policy, *, steps: int = 20_000) -> None:
    """A policy closes rounds in every world where clients report, asks and wakes within reason, and is a pure function.

    `steps` is how many events a world may take at most; one in which nobody reports may end before any round does.
    """
    assert policy.cohort >= 1, "a policy must say how many it wants at once"
    for trial in trials(max(2 * policy.cohort, policy.cohort + 20)):
        asked: list[tuple[Book, Decision]] = []
        spied = replace(policy, decide=_noting(policy.decide, asked))
        closed = _closed(_plan(trial, uniform(), spied), trial, steps)
        if trial.answers:
            rounds, commits = len(closed), sum(isinstance(e, ModelCommitted) for e in closed)
            assert rounds >= 3, f"only {rounds} rounds ended where {trial.name}: does it wait for ever?"
            assert commits, f"no round was committed where {trial.name}: {closed[0]}"
        for book, decision in asked[::-1]:
            assert policy.decide(book) == decision, (
                f"the same book must give the same decision, in whatever order it is asked: {book}"
            )


def check_selector(selector: Selector, *, clients: int = 50, rounds: int = 12) -> None:
    """A selector picks from the roster in every world, keeps its state in named arrays, and is a pure function."""
    for trial in trials(clients):
        state = selector.initial(len(trial.world.keys))
        _check_state(state)
        for policy in (readiness(7, min_clients=1), deadline(3, seconds=30.0, min_clients=1)):
            notes = _Notes()
            closed = _closed(_plan(trial, _guarded(selector, notes), policy, rounds), trial, 10_000)
            if trial.answers:
                commits = sum(isinstance(e, ModelCommitted) for e in closed)
                assert commits, f"no round could be committed where {trial.name}: {closed[:1]}"
            for again, first in notes.picks[::-1]:
                asked = again()
                same = all(np.array_equal(getattr(asked, n), getattr(first, n)) for n in ("clients", "steps", "share"))
                assert same and asked.due == first.due, (
                    "the same state, roster and address must give the same pick, in whatever order it is asked"
                )


@dataclass(slots=True)
class _Notes:
    """What a selector was asked, as functions that ask again, and what it answered."""

    picks: list[tuple[Callable[[], Assignments], Assignments]] = field(default_factory=list)


def _guarded(selector: Selector, notes: _Notes) -> Selector:
    """The selector with arrays that cannot be changed, every pick noted and every state looked at."""

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        _lock(state, roster)
        asked = selector.pick(state, roster, n, draw)
        assert len(asked.clients) <= n, f"asked for {n}, picked {len(asked.clients)}"
        notes.picks.append((lambda: selector.pick(state, roster, n, draw), asked))
        return asked

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        _lock(state, roster)
        assert selector.probe is not None
        return selector.probe(state, roster, n, draw)

    def learn(state: State, ended: Ended, now: float) -> State:
        assert selector.learn is not None
        _lock(state, ended)
        learnt = selector.learn(state, ended, now)
        _check_state(learnt)
        return learnt

    return replace(
        selector,
        pick=pick,
        probe=probe if selector.probe is not None else None,
        learn=learn if selector.learn is not None else None,
    )


def _lock(state: State, columns: Roster | Ended) -> None:
    """Whoever writes into what it was given is told so by numpy."""
    own = [
        getattr(columns, name) for name in ("clients", "keys", "samples", "tasks", "seconds") if hasattr(columns, name)
    ]
    for array in (*state.values(), *own, *columns.stats.values()):
        array.setflags(write=False)


def _check_state(state: Any) -> None:
    assert isinstance(state, dict) and all(isinstance(v, np.ndarray) for v in state.values()), (  # pyright: ignore[reportUnknownVariableType]
        f"a selector's state must be named arrays, not {state!r}"
    )


def _noting(decide: Callable[[Book], Decision], asked: list[tuple[Book, Decision]]) -> Callable[[Book], Decision]:
    def spied(book: Book) -> Decision:
        decision = decide(book)
        assert decision == decide(book), "the same book must give the same decision"
        asked.append((book, decision))
        return decision

    return spied


def _plan(trial: Trial, choose: Selector, pace: Policy, rounds: int = 12) -> Plan:
    stop = Stop(rounds=rounds, virtual_seconds=_HORIZON)
    return Plan(_SEED, consensus(), choose, pace, stop, consensus_start(), len(trial.world.keys))


class _LongEnough(Exception):
    """The world has been watched for as many events as were allowed."""


def _closed(plan: Plan, trial: Trial, most: int) -> list[ModelCommitted | RoundFailed]:
    """How rounds ended in this world, within so many events; what the engine refuses is a rule that was broken."""
    found: list[ModelCommitted | RoundFailed] = []
    seen = 0

    def watch(events: Sequence[Event]) -> None:
        nonlocal seen
        seen += len(events)
        found.extend(e for e in events if isinstance(e, ModelCommitted | RoundFailed))
        if seen > most:
            raise _LongEnough

    try:
        simulate(plan, trial.world, opaque_executor(), watch=watch)
    except _LongEnough:
        pass
    except FedFleetError as wrong:
        raise AssertionError(f"where {trial.name}: {wrong}") from wrong
    return found
