"""Replay: feed recorded facts and assignments back, and recheck every outcome. Pure; fetching aggregates is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

import numpy as np

from fedfleet.core.commands import Command, Gather
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    Event,
    Outcome,
    Probed,
    ReportsGathered,
    TaskArrived,
    TaskLost,
    TasksSent,
    TimerFired,
)
from fedfleet.core.parts import Draw, Plan, State
from fedfleet.core.records import Assignments, Ints, Keys, Roster
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.pending import pending
from fedfleet.engine.state import Reaction, RunState

_FACTS = (CandidatesSeen, Probed, TaskArrived, TaskLost, TimerFired, ReportsGathered, Evaluated)
T = TypeVar("T")
Regather = Callable[[Gather, float], ReportsGathered]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The state that the facts lead to, how much was rechecked, and the commands that no fact has answered yet."""

    state: RunState
    facts: int
    outcomes: int
    commits: int
    pending: tuple[Command, ...]


def replay(
    plan: Plan,
    events: Iterable[Event],
    keys: Keys,
    sizes: Callable[[int], Ints],
    regather: Regather,
    carry: Callable[[Command], None],
    *,
    start: RunState | None = None,
) -> Replayed:
    """Run the coordinator on recorded facts; the first outcome that differs from the record is an error.

    The journal keeps who was picked, not the roster, so that the pick is read from the record instead of made again.
    `regather` gives the aggregate of a commit: from what was kept, or by training again; `carry` sees all other commands.
    With `start`, the events are those that followed this state.
    """
    log = list(events)
    recorded: Iterator[Outcome] = (e for e in log if not isinstance(e, _FACTS))
    state, outcomes, commands = begin(plan) if start is None else Reaction(start, (), pending(plan, start))
    rechecked, facts = _recheck(outcomes, recorded), 0
    asked: Gather | None = None
    for i, event in enumerate(log):
        if not isinstance(event, _FACTS):
            continue
        for command in commands:
            if isinstance(command, Gather):
                asked = command
            else:
                carry(command)
        commands = ()
        fact, told = event, plan
        if isinstance(fact, CandidatesSeen | Probed):
            if plan.choose.probe is not None and _says_nothing_more(log, i):
                continue  # whom it would have probed is not known: the runtime has to ask again
            fact, told = _scripted(plan, log, i, keys, sizes(state.book.round))
        elif isinstance(fact, ReportsGathered):
            if asked is None:
                raise RunFailed(
                    f"the journal gathers reports at time {fact.time}, but the coordinator did not ask for them"
                )
            fact, asked = regather(asked, fact.time), None
        state, outcomes, commands = step(told, state, fact)
        rechecked += _recheck(outcomes, recorded)
        facts += 1
    extra = next(recorded, None)
    if extra is not None:
        raise RunFailed(
            f"the journal holds {type(extra).__name__} at time {extra.time}, which does not follow from its facts"
        )
    return Replayed(state, facts, rechecked, state.book.version, pending(plan, state))


def _says_nothing_more(log: list[Event], i: int) -> bool:
    seen = log[i]
    return isinstance(seen, CandidatesSeen) and len(seen.roster.clients) > 0 and i + 1 == len(log)


def _scripted(plan: Plan, log: list[Event], i: int, keys: Keys, sizes: Ints) -> tuple[CandidatesSeen | Probed, Plan]:
    """Candidates and a selector that lead to the recorded probe and pick, and to no others."""
    fact, none = log[i], np.zeros(0, np.int64)
    assert isinstance(fact, CandidatesSeen | Probed)
    pick = Assignments(none, none, np.zeros(0))
    look: tuple[Ints, str] = (none, "")
    if isinstance(fact, CandidatesSeen) and plan.choose.probe is not None:
        # Tasks may end between a probe and its answer, but no other candidates are seen.
        marks = (k for k in range(i + 1, len(log)) if isinstance(log[k], CandidatesSeen | Probed | TasksSent))
        answer = log[k] if (k := next(marks, None)) is not None else None
        if isinstance(answer, Probed) and k is not None:
            look, i = (answer.clients, answer.stat), k
    after = log[i + 1] if i + 1 < len(log) else None
    if isinstance(after, TasksSent):
        pick = Assignments(after.clients, after.steps, after.share, after.settings, after.due)

    probe = _always(look) if len(look[0]) else None
    told = replace(plan, choose=replace(plan.choose, pick=_always(pick), probe=probe))
    if isinstance(fact, Probed):
        return fact, told
    clients = np.union1d(pick.clients, look[0]).astype(np.int64)
    return CandidatesSeen(fact.time, Roster(clients, keys[clients], sizes[clients])), told


def _always(answer: T) -> Callable[[State, Roster, int, Draw], T]:
    """A function of a selector that knows the answer beforehand."""

    def say(state: State, roster: Roster, n: int, draw: Draw) -> T:
        del state, roster, n, draw
        return answer

    return say


def _recheck(outcomes: tuple[Outcome, ...], recorded: Iterator[Outcome]) -> int:
    for outcome in outcomes:
        other = next(recorded, None)
        if other is None:
            raise RunFailed(
                f"{type(outcome).__name__} at time {outcome.time} follows from the facts, but the journal ends before"
            )
        if type(other) is not type(outcome) or not _same(outcome, other):
            raise RunFailed(
                f"the journal says {_brief(other)}, but {_brief(outcome)} follows from its facts: not this run, or changed"
            )
    return len(outcomes)


def _same(a: Outcome, b: Outcome) -> bool:
    return all(_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.compare)


def _equal(x: object, y: object) -> bool:
    if isinstance(x, Mapping) and isinstance(y, Mapping):
        a, b = cast(Mapping[str, Any], x), cast(Mapping[str, Any], y)
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return bool(np.array_equal(cast(Any, x), cast(Any, y)))
    return x == y


def _brief(event: Event) -> str:
    shown = {
        f.name: getattr(event, f.name) for f in fields(event) if not isinstance(getattr(event, f.name), np.ndarray)
    }
    return f"{type(event).__name__}({', '.join(f'{n}={v!r}' for n, v in shown.items())})"
