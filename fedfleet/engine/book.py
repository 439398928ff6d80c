"""Keeping the book: how one state follows from another, piece by piece."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedfleet.core.events import ReportsGathered, TasksDropped
from fedfleet.core.parts import Plan
from fedfleet.core.records import DROPPED, FOLDED, REJECTED, WASTED, Ended, Wave
from fedfleet.engine.state import Ending, RunState, endings


def with_book(state: RunState, **changes: Any) -> RunState:
    """The state with these entries of its book changed."""
    return state._replace(book=state.book._replace(**changes))


def changed(state: RunState, **changes: Any) -> RunState:
    """The state with these fields changed."""
    return state._replace(**changes)


def sent_out(state: RunState, wave: Wave) -> RunState:
    """The state with the tasks of this wave running."""
    n = len(wave)
    return state._replace(
        running=state.running.update(dict.fromkeys(range(wave.first, wave.first + n), wave)),
        next_task=wave.first + n,
        progress=replace(state.progress, updates=state.progress.updates + n),
    )


def dropped(state: RunState, rounds_ago: int) -> tuple[RunState, TasksDropped | None]:
    """The state without the running tasks that were sent at least `rounds_ago` rounds ago, and the event that says so."""
    newest = state.book.round - rounds_ago
    tasks = sorted(task for task, wave in state.running.items() if wave.round <= newest)
    if not tasks:
        return state, None
    now, running, ended = state.book.now, state.running, state.ended
    waves = [running[t] for t in tasks]
    if len(tasks) == len(running):
        running = type(running)()
    else:
        with running.mutate() as edit:
            for task in tasks:
                del edit[task]
            running = edit.finish()
    for task, wave in zip(tasks, waves, strict=True):
        ended = Ending(ended, task, wave, now - wave.time, DROPPED)
    clients = np.array([w.asked.clients[t - w.first] for t, w in zip(tasks, waves, strict=True)], np.int64)
    seconds = np.array([now - w.time for w in waves])
    event = TasksDropped(now, np.array(tasks, np.int64), clients, seconds)
    return with_book(state._replace(running=running, ended=ended), running=state.book.running - len(tasks)), event


def learnt(plan: Plan, state: RunState, fact: ReportsGathered | None) -> RunState:
    """The state after the selector learnt how the round's tasks ended; without a fact, arrivals came for nothing."""
    last = state.gathering if fact is not None else state.ended
    after = state._replace(gathering=None) if fact is not None else with_book(state._replace(ended=None), arrived=0)
    if plan.choose.learn is None or last is None:
        return after
    found = endings(last)
    ended = _columns(found, fact)
    return after._replace(selector=plan.choose.learn(state.selector, ended, state.book.now))


def _columns(found: list[Ending], fact: ReportsGathered | None) -> Ended:
    tasks = np.array([e.task for e in found], np.int64)
    fate = np.array([e.fate for e in found], np.int8)
    stats: dict[str, np.ndarray[Any, Any]] = {}
    if fact is None:
        fate[fate == FOLDED] = WASTED
    else:
        fate[np.isin(tasks, [r.task for r in fact.rejected])] = REJECTED
        at = np.searchsorted(tasks, fact.tasks)
        for name, values in fact.stats.items():
            stats[name] = np.full(len(tasks), np.nan)
            stats[name][at] = values
    clients = np.array([e.wave.asked.clients[e.task - e.wave.first] for e in found], np.int64)
    return Ended(tasks, clients, np.array([e.seconds for e in found]), fate, stats)


def next_round(state: RunState) -> RunState:
    """The state in which the next round has just opened; tasks still running go on."""
    book = state.book
    return with_book(state, round=book.round + 1, opened_at=book.now, wanted=0, selected=0, lost=0, answered=False)
