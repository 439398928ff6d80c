"""Proofs from what is written down: the journal of a run, and the receipts that its devices got.

Each function answers with complaints, sentences; none means that it holds. They trust nothing of the server but its journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fedfleet.core import aggregation
from fedfleet.core.events import (
    Event,
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    ReportUnwanted,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.parts import Plan
from fedfleet.core.records import Context, Report
from fedfleet.core.trees import content_hash


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a device was told of a task: `status` in the words of the protocol."""

    task: int
    client: int
    status: str


def complaints(events: Sequence[Event], receipts: Iterable[Receipt] = (), *, ended: bool = True) -> list[str]:
    """Everything that is wrong with a run, from its journal and its devices' receipts."""
    return [*orderly(events, ended=ended), *once_each(events), *counted_once(events), *kept_promises(events, receipts)]


def orderly(events: Sequence[Event], *, ended: bool = True) -> list[str]:
    """One beginning, one end, times that never fall, versions one by one."""
    wrong = [f"time fell from {a.time} to {b.time} at {type(b).__name__}" for a, b in pairwise(events) if b.time < a.time]
    versions = [e.version for e in events if isinstance(e, ModelCommitted)]
    if versions != list(range(1, len(versions) + 1)):
        wrong.append(f"models are numbered {versions}")
    if [i for i, e in enumerate(events) if isinstance(e, RunBegan)] != [0]:
        wrong.append("it does not begin once, at the beginning")
    if ended and [i for i, e in enumerate(events) if isinstance(e, RunEnded)] != [len(events) - 1]:
        wrong.append("it does not end once, at the end")
    return wrong


def once_each(events: Iterable[Event]) -> list[str]:
    """Every task is sent once and ends once: arrived, lost or dropped; a client has one task at a time."""
    wrong: list[str] = []
    sent: dict[int, int] = {}
    running: dict[int, int] = {}  # client -> task
    ends: dict[int, str] = {}

    def end(task: int, how: str) -> None:
        if task not in sent:
            wrong.append(f"task {task} {how}, but was never sent")
        elif task in ends:
            wrong.append(f"task {task} {how}, but it had {ends[task]}")
        ends[task] = how
        running.pop(sent.get(task, -1), None)

    for event in events:
        match event:
            case TasksSent():
                for task, client in enumerate(event.clients.tolist(), event.first):
                    if task in sent:
                        wrong.append(f"task {task} was sent twice")
                    if client in running:
                        wrong.append(f"client {client} got task {task} while at work on {running[client]}")
                    sent[task] = client
                    running[client] = task
            case TaskArrived():
                end(event.task, "arrived")
            case TaskLost():
                end(event.task, "was lost")
            case TasksDropped():
                for task in event.tasks.tolist():
                    end(task, "was dropped")
            case _:
                pass
    return wrong


def counted_once(events: Iterable[Event]) -> list[str]:
    """What is folded or rejected has arrived, and no task is gathered twice; a model says how many it was made of."""
    wrong: list[str] = []
    arrived: set[int] = set()
    gathered: set[int] = set()
    folded = 0
    for event in events:
        match event:
            case TaskArrived():
                arrived.add(event.task)
            case ReportsGathered():
                folded = len(event.tasks)
                for task in event.tasks.tolist():
                    if task in gathered:
                        wrong.append(f"task {task} was counted twice")
                    if task not in arrived:
                        wrong.append(f"task {task} was counted, but never arrived")
                    gathered.add(task)
            case ReportRejected() if event.task in gathered:
                wrong.append(f"task {event.task} was rejected and counted")
            case ModelCommitted() if event.folded != folded:
                wrong.append(f"model {event.version} says that it is of {event.folded} reports, and {folded} were folded")
            case _:
                pass
    return wrong


def kept_promises(events: Sequence[Event], receipts: Iterable[Receipt]) -> list[str]:
    """What devices were told is what became of their reports.

    SAFE: it arrived, and the next gathering folds it, unless its round failed or the run ended first. REFUSED: it arrived and
    was rejected. UNWANTED: the journal has the fact, unless it came when the journal had ended, for a task that was given up.
    """
    arrived = {e.task: i for i, e in enumerate(events) if isinstance(e, TaskArrived)}
    folded = {t for e in events if isinstance(e, ReportsGathered) for t in e.tasks.tolist()}
    rejected = {e.task for e in events if isinstance(e, ReportRejected)}
    unwanted = {e.task for e in events if isinstance(e, ReportUnwanted)}
    excused = _excused(events)
    given_up = _given_up(events) if isinstance(events[-1], RunEnded) else set[int]()
    wrong: list[str] = []
    for got in receipts:
        name = f"task {got.task} of client {got.client}"
        if got.status == "SAFE":
            if got.task not in arrived:
                wrong.append(f"{name} was acknowledged, and the journal does not know that it arrived")
            elif got.task not in folded and got.task not in excused:
                wrong.append(f"{name} was acknowledged, and is in no model")
        elif got.status == "REFUSED" and (got.task not in rejected or got.task in folded):
            wrong.append(f"{name} was refused to its device, but not in the journal")
        elif got.status == "UNWANTED" and got.task not in unwanted | given_up:
            wrong.append(f"{name} was unwanted, and the journal does not say so")
    return wrong


def _given_up(events: Iterable[Event]) -> set[int]:
    """Tasks that were lost or dropped."""
    dropped = {t for e in events if isinstance(e, TasksDropped) for t in e.tasks.tolist()}
    return dropped | {e.task for e in events if isinstance(e, TaskLost)}


def _excused(events: Sequence[Event]) -> set[int]:
    """Tasks that arrived in a round that failed, or so late that no gathering had to take them.

    What comes while a model is being made waits for the next one, and no longer: whom that passes over is lost.
    """
    first, second, excused = set[int](), set[int](), set[int]()  # waiting for this gathering, or for the one after it
    for event in events:
        match event:
            case TaskArrived():
                second.add(event.task)
            case ReportsGathered():
                first, second = second - set(event.tasks.tolist()), set[int]()
            case RoundFailed():
                excused |= first | second
                first, second = set[int](), set[int]()
            case _:
                pass
    return excused | first | second


def models_again(plan: Plan, events: Iterable[Event], reports: Mapping[int, Report]) -> list[str]:
    """Every model made again from what devices really handed in, against its name in the journal.

    A report that was lost, counted twice or weighed otherwise gives another model.
    """
    algorithm = plan.algorithm
    server = algorithm.init(plan.params)
    wrong: list[str] = []
    for event in events:
        match event:
            case ReportsGathered() if len(event.tasks):
                acc = aggregation.zero(algorithm.fold, server)
                for task in event.tasks.tolist():
                    if task not in reports:
                        return [*wrong, f"task {task} was folded, and no device handed it in"]
                    refused = aggregation.check_and_add(algorithm.fold, acc, reports[task], Context(0, 0.0, reports[task].client))
                    if refused is not None:
                        wrong.append(f"task {task} was folded, although {refused}")
                whole = aggregation.finish(algorithm.fold, acc)
                server = server if whole is None else algorithm.apply(server, whole)
            case ModelCommitted() if str(event.model_hash) != content_hash(server.params):
                return [*wrong, f"model {event.version} is not made of the reports that it names"]
            case _:
                pass
    return wrong
