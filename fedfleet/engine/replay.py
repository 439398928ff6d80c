"""Replay: feed recorded facts and assignments back, and recheck every outcome. Pure; fetching aggregates is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

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
from fedfleet.core.parts import Plan, Selector
from fedfleet.core.records import Assignments, Ints, Keys, Roster
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import RunState

_FACTS = (CandidatesSeen, Probed, TaskArrived, TaskLost, TimerFired, ReportsGathered, Evaluated)
Regather = Callable[[Gather, float], ReportsGathered]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The state that the facts lead to, and how much was rechecked."""

    state: RunState
    facts: int
    outcomes: int
    commits: int


def replay(
    plan: Plan,
    events: Iterable[Event],
    keys: Keys,
    sizes: Callable[[int], Ints],
    regather: Regather,
    carry: Callable[[Command], None],
) -> Replayed:
    """Run the coordinator on recorded facts; the first outcome that differs from the record is an error.

    The journal keeps who was picked, not the roster, so that the pick is read from the record instead of made again.
    `regather` gives the aggregate of a commit: from what was kept, or by training again; `carry` sees all other commands.
    """
    log = list(events)
    recorded: Iterator[Outcome] = (e for e in log if not isinstance(e, _FACTS))
    state, outcomes, commands = begin(plan)
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
            if _next_fact(log, i, Probed):
                continue  # probed before picking: the pick follows from the answer to the probe
            sent = log[i + 1] if i + 1 < len(log) else None
            fact, told = _scripted(plan, fact.time, sent, keys, sizes(state.book.round))
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
    return Replayed(state, facts, rechecked, state.book.version)


def _next_fact(log: list[Event], i: int, kind: type[Any]) -> bool:
    following = next((e for e in log[i + 1 :] if isinstance(e, _FACTS)), None)
    return isinstance(following, kind)


def _scripted(plan: Plan, time: float, sent: Event | None, keys: Keys, sizes: Ints) -> tuple[CandidatesSeen, Plan]:
    """Candidates and a selector that lead to the recorded pick, and to no other."""
    none = np.zeros(0, np.int64)
    pick = (
        Assignments(sent.clients, sent.steps, sent.share)
        if isinstance(sent, TasksSent)
        else Assignments(none, none, np.zeros(0))
    )
    clients = np.sort(pick.clients)
    seen = CandidatesSeen(time, Roster(clients, keys[clients], sizes[clients]))
    return seen, replace(plan, choose=Selector(plan.choose.name, lambda state, roster, n, draw: pick))


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
    for field in fields(a):
        x: Any = getattr(a, field.name)
        y: Any = getattr(b, field.name)
        if field.compare and not np.array_equal(x, y):
            return False
    return True


def _brief(event: Event) -> str:
    shown = {
        f.name: getattr(event, f.name) for f in fields(event) if not isinstance(getattr(event, f.name), np.ndarray)
    }
    return f"{type(event).__name__}({', '.join(f'{n}={v!r}' for n, v in shown.items())})"
