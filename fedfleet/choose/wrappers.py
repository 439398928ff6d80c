"""Selectors around selectors: state of both side by side, candidates left out, picks put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedfleet.core.events import TasksSpent
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Bools, Ended, Ints, Roster

_INNER = "inner."  # what the names of an inner selector's columns begin with; they nest


def add_state(
    inner: Selector, initial: Callable[[int], State], learn: Callable[[State, Ended], State], sees: tuple[str, ...] = ()
) -> Selector:
    """The same selector with columns of another beside its own: `learn` sees and renews those alone."""

    def first(clients: int) -> State:
        return _join_states(initial(clients), inner.initial(clients))

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        return inner.pick(_inner_state(state), roster, n, draw)

    def learnt(state: State, ended: Ended, now: float) -> State:
        inner_state = _inner_state(state)
        return _join_states(
            learn(_outer_state(state), ended),
            inner_state if inner.learn is None else inner.learn(inner_state, ended, now),
        )

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert inner.probe is not None
        return inner.probe(_inner_state(state), roster, n, draw)

    def charge(state: State, spent: TasksSpent) -> State:
        assert inner.charge is not None
        return {**state, **_join_states({}, inner.charge(_inner_state(state), spent))}

    return replace(
        inner, pick=pick, learn=learnt, initial=first, equal_chance=False, sees=tuple(dict.fromkeys((*inner.sees, *sees))),
        probe=None if inner.probe is None else probe, charge=None if inner.charge is None else charge,
    )  # fmt: skip


def restrict_candidates(inner: Selector, allowed: Callable[[State, Roster], Bools], name: str) -> Selector:
    """The same selector, to which only allowed candidates are shown, when it probes and when it picks."""
    inner_probe = inner.probe

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        few = roster.only(allowed(state, roster))
        return inner.pick(state, few, min(n, len(few.clients)), draw)

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert inner_probe is not None
        few = roster.only(allowed(state, roster))
        return inner_probe(state, few, min(n, len(few.clients)), draw)

    return replace(inner, name=name, pick=pick, probe=None if inner_probe is None else probe, equal_chance=False)


def merge_picks(picks: list[Assignments]) -> Assignments:
    """Several picks of one selector as one; the latest time at which any of them is due holds for all."""
    some = [p for p in picks if len(p.clients)] or picks[:1]
    dues = [p.due for p in some if p.due is not None]
    return Assignments(
        np.concatenate([p.clients for p in some]),
        np.concatenate([p.steps for p in some]),
        np.concatenate([p.share for p in some]),
        {name: np.concatenate([p.settings[name] for p in some]) for name in some[0].settings},
        max(dues, default=None),
    )


def _join_states(own: State, inner: State) -> State:
    return {**own, **{_INNER + name: column for name, column in inner.items()}}


def _inner_state(state: State) -> State:
    return {name.removeprefix(_INNER): column for name, column in state.items() if name.startswith(_INNER)}


def _outer_state(state: State) -> State:
    return {name: column for name, column in state.items() if not name.startswith(_INNER)}
