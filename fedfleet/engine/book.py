"""Keeping the book: how one state follows from another, piece by piece.

Books and states are copied whole and then changed by name, with `_replace` or, where it matters, with what it does but
faster: so a new field can never be lost on the way.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np

from fedfleet.core.errors import error_context
from fedfleet.core.events import ReportsGathered, TaskArrivals, TaskArrived, TaskLost, TasksDropped
from fedfleet.core.parts import Plan
from fedfleet.core.records import DROPPED, FOLDED, LOST, REJECTED, WASTED, Book, Ended, Wave, clients_of_tasks
from fedfleet.engine.state import EndedColumns, EndedTogether, Ending, RunState, change, ended_columns

# The Zeno guard: facts less than a microsecond apart belong to one instant, in which task ends are free and each task that
# ran when it began allows for a candidate, a probe, a gathering and an evaluation, twice over.
INSTANT_SECONDS = 1e-6
FACTS_PER_INSTANT = 1000
FACTS_PER_TASK = 8

_NOW, _ARRIVED, _LOST, _RUNNING, _ANSWERED, _OWN_ARRIVED, _OWN_RUNNING = (
    Book._fields.index(name) for name in ("now", "arrived", "lost", "running", "answered", "own_arrived", "own_running")
)
_BOOK, _TASKS, _ENDED, _ROOM = (RunState._fields.index(name) for name in ("book", "running", "ended", "room"))
_BOOK_PLACES = {name: place for place, name in enumerate(Book._fields)}
_new_tuple = cast(Any, tuple).__new__


def facts_allowed(running: int) -> int:
    """How many facts other than task ends an instant may see, if that many tasks ran when it began."""
    return FACTS_PER_INSTANT + FACTS_PER_TASK * running


def end_task(state: RunState, fact: TaskArrived | TaskLost, wave: Wave) -> RunState:
    """The state after a task ended. The hot path: `_replace` for both records would cost it a tenth of its speed."""
    book: list[Any] = list(state.book)
    new: list[Any] = list(state)
    own, since = wave.round == state.book.round, fact.time - state.book.now
    book[_NOW], book[_ANSWERED] = fact.time, False
    book[_RUNNING] -= 1
    book[_OWN_RUNNING] -= own
    if type(fact) is TaskArrived:
        book[_ARRIVED] += 1
        book[_OWN_ARRIVED] += own
        new[_ENDED] = Ending(state.ended, fact.task, wave, fact.seconds, FOLDED)
    else:
        book[_LOST] += 1
        new[_ENDED] = Ending(state.ended, fact.task, wave, fact.seconds, LOST)
    new[_BOOK] = _new_tuple(Book, book)
    new[_TASKS] = state.running.delete(fact.task)
    if since >= INSTANT_SECONDS:
        new[_ROOM] = facts_allowed(state.book.running)
    return _new_tuple(RunState, new)


def end_arrived(state: RunState, arrivals: TaskArrivals, waves: tuple[Wave, ...]) -> RunState:
    """The state after these tasks ended one by one, as `end_task` would leave it."""
    book, times, n = state.book, arrivals.times, len(arrivals)
    own = sum(wave.round == book.round for wave in waves)
    edit = state.running.mutate()
    for task in arrivals.tasks:
        del edit[task]
    running = edit.finish()
    room, before = state.room, (book.now, *times)
    for i in range(n - 1, -1, -1):
        if times[i] - before[i] >= INSTANT_SECONDS:  # the last one before which time passed
            room = facts_allowed(book.running - i)
            break
    changed = book._replace(
        now=times[-1], answered=False, running=book.running - n, own_running=book.own_running - own, arrived=book.arrived + n,
        own_arrived=book.own_arrived + own,
    )  # fmt: skip
    ended = EndedTogether(state.ended, tuple(arrivals.tasks), waves, tuple(arrivals.seconds), FOLDED)
    return change(state, book=changed, running=running, ended=ended, room=room)


def with_book(state: RunState, **changes: Any) -> RunState:
    """The state with these entries of its book changed. It is called several times a round: `_replace` would take twice as long."""
    book: list[Any] = list(state.book)
    for name, value in changes.items():
        book[_BOOK_PLACES[name]] = value
    new: list[Any] = list(state)
    new[_BOOK] = _new_tuple(Book, book)
    return _new_tuple(RunState, new)


def send_wave(state: RunState, wave: Wave) -> RunState:
    """The state with the tasks of this wave running."""
    n, book = len(wave), state.book
    due = book.due
    if wave.assignments.due is not None:
        due = max(wave.time + wave.assignments.due, -math.inf if due is None else due)
    return with_book(
        change(
            state,
            running=state.running.update(dict.fromkeys(range(wave.first, wave.first + n), wave)),
            next_task=wave.first + n,
            progress=replace(state.progress, updates=state.progress.updates + n),
        ),
        sent_at=wave.time,
        first_sent_at=min(book.first_sent_at, wave.time),
        due=due,
        selected=book.selected + n,
        running=book.running + n,
        own_running=book.own_running + n,
    )


def drop_tasks(state: RunState, versions: int | None, before: float | None = None) -> tuple[RunState, TasksDropped | None]:
    """The state without the running tasks whose model is at least that many versions old, or that were sent before a time;
    and the event that says so."""
    newest = -1 if versions is None else state.book.version - versions
    earliest = -math.inf if before is None else before
    tasks = sorted(t for t, wave in state.running.items() if wave.version <= newest or wave.time < earliest)
    if not tasks:
        return state, None
    now, running = state.book.now, state.running
    waves = tuple(map(running.__getitem__, tasks))
    if len(tasks) == len(running):
        running = type(running)()
    else:
        with running.mutate() as edit:
            for task in tasks:
                del edit[task]
            running = edit.finish()
    clients = clients_of_tasks(tasks, waves)
    took = tuple(now - w.time for w in waves)
    ended, seconds = EndedTogether(state.ended, tuple(tasks), waves, took, DROPPED), np.array(took)
    event = TasksDropped(now, np.array(tasks, np.int64), clients, seconds)
    own = sum(w.round == state.book.round for w in waves)
    state = with_book(
        change(state, running=running, ended=ended),
        running=state.book.running - len(tasks),
        own_running=state.book.own_running - own,
    )
    return state, event


def update_selector(plan: Plan, state: RunState, fact: ReportsGathered | None) -> RunState:
    """The state after the selector learnt how the round's tasks ended; without a fact, arrivals came for nothing."""
    last = state.gathering if fact is not None else state.ended
    after = change(state, gathering=None) if fact is not None else with_book(change(state, ended=None), arrived=0)
    if plan.choose.learn is None or last is None:
        return after
    ended = _columns(ended_columns(last), fact)
    with error_context(f"selector {plan.choose.name!r}, while it learnt how {len(ended.tasks)} tasks ended,"):
        return change(after, selector=plan.choose.learn(state.selector, ended, state.book.now))


def _columns(ended_tasks: EndedColumns, fact: ReportsGathered | None) -> Ended:
    tasks = np.array(ended_tasks.tasks, np.int64)
    fate = np.array(ended_tasks.fates, np.int8)
    stats: dict[str, np.ndarray[Any, Any]] = {}
    if fact is None:
        fate[fate == FOLDED] = WASTED
    else:
        fate[np.isin(tasks, [r.task for r in fact.rejected])] = REJECTED
        at = np.searchsorted(tasks, fact.tasks)
        for name, values in fact.stats.items():
            stats[name] = np.full(len(tasks), np.nan)
            stats[name][at] = values
    clients = clients_of_tasks(ended_tasks.tasks, ended_tasks.waves)
    return Ended(tasks, clients, np.array(ended_tasks.seconds), fate, stats)


def next_round(state: RunState) -> RunState:
    """The state in which the next round has just opened; tasks still running go on, and so does an ask that is out."""
    book = state.book
    return with_book(
        state, round=book.round + 1, opened_at=book.now, wanted=book.wanted - book.selected if book.asking else 0,
        selected=0, lost=0, asks=0, answered=False, first_sent_at=math.inf, own_arrived=0, own_running=0, due=None,
    )  # fmt: skip
