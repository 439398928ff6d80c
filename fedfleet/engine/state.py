"""The state of a run: one immutable value, from which everything else follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, cast

from immutables import Map

from fedfleet.core.commands import Command, Probe
from fedfleet.core.events import Outcome
from fedfleet.core.parts import State
from fedfleet.core.records import FATES, FOLDED, Book, EvalScore, Roster, ServerState, Wave


class Phase(Enum):
    """What the coordinator is doing: pacing rounds, or waiting for an answer that it cannot go on without."""

    OPEN = "open"
    GATHERING = "gathering"
    EVALUATING = "evaluating"
    EVALUATING_MIDROUND = "looking"  # at the model in the middle of a round, of which the policy hears nothing
    CONSULT_AFTER_EVALUATION = "overtaken"  # the same, and meanwhile something happened that the policy is to hear of
    ENDING = "ending"
    DONE = "done"


class Ending(NamedTuple):
    """One ended task, linked to those that ended before: appending is O(1) and shares everything."""

    before: EndedChain | None
    task: int
    wave: Wave
    seconds: float
    fate: int  # index into FATES; a report that arrived counts as folded until it is known better

    def __repr__(self) -> str:
        return f"Ending(task={self.task}, seconds={self.seconds}, fate={FATES[self.fate]}, ..)"  # not the whole chain


class EndedTogether(NamedTuple):
    """Tasks that ended in the same way with nothing decided in between, linked like a single one."""

    before: EndedChain | None
    tasks: tuple[int, ...]
    waves: tuple[Wave, ...]
    seconds: tuple[float, ...]
    fate: int

    def __repr__(self) -> str:
        return f"EndedTogether({len(self.tasks)} tasks, ..)"  # not the whole chain


# The newest link of the tasks that ended.
EndedChain = Ending | EndedTogether


class EndedColumns(NamedTuple):
    """Ended tasks as columns."""

    tasks: list[int]
    waves: list[Wave]
    seconds: list[float]
    fates: list[int]


@dataclass(frozen=True, slots=True)
class Progress:
    """What the stopping rules need: the best accuracy so far and how many evaluations ago it was."""

    best: float = -math.inf
    since: int = 0
    evaluated: int = -1
    updates: int = 0
    tried: EvalScore | None = None  # how the model did that was evaluated last


class RunState(NamedTuple):
    """Everything that the coordinator knows. `running` maps a task to its wave and shares structure between steps.

    A named tuple, like the book: one of each is made for every task that ends, and a tuple is made four times faster.
    """

    server: ServerState
    selector: State
    book: Book
    running: Map[int, Wave]
    ended: EndedChain | None = None
    gathering: EndedChain | None = None
    unpaid: tuple[EndedChain, ...] = ()  # tasks whose rounds closed, and of which it was asked what they cost
    roster: Roster | None = None  # whom the selector looks at while a probe is out
    probe: Probe | None = None  # the probe that is out
    others: bool = False  # the ask that is out leaves out the clients that were asked in this round
    at_least: int = 0  # the ask that is out is answered when that many can be asked
    phase: Phase = Phase.OPEN
    next_task: int = 0
    wake: float | None = None
    progress: Progress = Progress()
    room: int = 0  # facts other than task ends that this instant may still see: the Zeno guard
    reason: str = ""  # why the run is ending
    look: float | None = None  # when the model is looked at next, where that goes by virtual time


_PLACES = {name: place for place, name in enumerate(RunState._fields)}
_new_tuple = cast(Any, tuple).__new__


def change(state: RunState, **changes: Any) -> RunState:
    """The state with these fields changed, in a third of the time of `_replace`: it happens many times a round."""
    fields: list[Any] = list(state)
    for name, value in changes.items():
        fields[_PLACES[name]] = value
    return _new_tuple(RunState, fields)


class Reaction(NamedTuple):
    """What follows from a fact: the next state, what was decided, what the runtime must do."""

    state: RunState
    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[Command, ...] = ()


def next_wake(state: RunState) -> float | None:
    """When the run is to be woken: for the policy, or to look at the model, whichever comes first."""
    if state.look is None or state.wake is None:
        return state.wake if state.look is None else state.look
    return min(state.wake, state.look)


def mark_overtaken(state: RunState) -> RunState:
    """The state in which something happened that the policy cannot be asked about now: whoever looks at a model on a real clock
    takes time, and has to ask it afterwards; whatever else is awaited does so anyway."""
    return change(state, phase=Phase.CONSULT_AFTER_EVALUATION) if state.phase is Phase.EVALUATING_MIDROUND else state


def endings(last: EndedChain | None) -> list[Ending]:
    """Ended tasks in the order of their ids."""
    return sorted(in_order_of_arrival(last), key=lambda e: e.task)


def in_order_of_arrival(last: EndedChain | None) -> list[Ending]:
    """Ended tasks in the order in which they ended."""
    result: list[Ending] = []
    for link in _links(last):
        if isinstance(link, Ending):
            result.append(link)
        else:
            rows = zip(link.tasks, link.waves, link.seconds, strict=True)
            result += [Ending(None, task, wave, seconds, link.fate) for task, wave, seconds in rows]
    return result


def ended_columns(last: EndedChain | None) -> EndedColumns:
    """Ended tasks in the order of their ids."""
    columns = _columns_by_arrival(last)
    order = sorted(range(len(columns.tasks)), key=columns.tasks.__getitem__)
    tasks, waves, seconds, fates = columns
    return EndedColumns(
        [tasks[i] for i in order], [waves[i] for i in order], [seconds[i] for i in order], [fates[i] for i in order]
    )


def ended_tasks(last: EndedChain | None) -> list[int]:
    """The ids of ended tasks, in their order."""
    tasks: list[int] = []
    while last is not None:
        tasks.extend((last.task,) if isinstance(last, Ending) else last.tasks)
        last = last.before
    return sorted(tasks)


def _columns_by_arrival(last: EndedChain | None) -> EndedColumns:
    columns = EndedColumns([], [], [], [])
    for link in _links(last):
        if isinstance(link, Ending):
            columns.tasks.append(link.task)
            columns.waves.append(link.wave)
            columns.seconds.append(link.seconds)
            columns.fates.append(link.fate)
        else:
            columns.tasks.extend(link.tasks)
            columns.waves.extend(link.waves)
            columns.seconds.extend(link.seconds)
            columns.fates.extend([link.fate] * len(link.tasks))
    return columns


def _links(last: EndedChain | None) -> list[EndedChain]:
    """The links of a chain, the oldest first."""
    result: list[EndedChain] = []
    while last is not None:
        result.append(last)
        last = last.before
    return result[::-1]


def open_endings(state: RunState) -> list[Ending]:
    """Ended tasks with which something is still to be done: fold their reports, or say what they cost; some may be there twice."""
    chains = (state.ended, state.gathering, *state.unpaid)
    return [ending for chain in chains for ending in in_order_of_arrival(chain)]


def uncommitted_arrivals(state: RunState) -> list[Ending]:
    """Tasks whose reports arrived and are not committed."""
    chains = (state.ended, state.gathering)
    return [e for chain in chains for e in in_order_of_arrival(chain) if e.fate == FOLDED]
