"""A round taken apart: who was asked when, what their time went into, what became of them and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core.events import (
    Event,
    ModelCommitted,
    ReportRejected,
    ReportUnwanted,
    RoundFailed,
    TaskLost,
    TasksSent,
    TasksSpent,
    TaskStruck,
)
from fedfleet.core.records import DROPPED, FATES, FOLDED, LOST, REJECTED, WASTED, Ints
from fedfleet.core.stages import STAGES
from fedfleet.measure.tasks import RUNNING, Tasks

Closing = ModelCommitted | RoundFailed
MOST = 24  # tasks of a round that are looked at one by one


@dataclass(frozen=True, slots=True)
class TaskSpan:
    """One task of a round: absolute times (`ended` NaN: it still runs), seconds by stage (None: nobody said), its end and why."""

    task: int
    client: int
    sent: float
    ended: float
    fate: str
    why: str
    spent: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class RoundTimeline:
    """A round from the end of the one before to its own.

    `asked` are its broadcasts (when, to how many); those after the first are `refills` where somebody is asked because another
    has ended, otherwise rebroadcasts. `fates` counts the tasks that ended in it, and those sent in it that are `running` on;
    `spans` are these tasks by their end, no more than asked for and spread evenly.
    """

    number: int
    opened: float
    closed: float
    version: int | None
    reason: str
    asked: tuple[tuple[float, int], ...]
    refills: bool
    fates: Mapping[str, int]
    spans: tuple[TaskSpan, ...]

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.closed - self.opened


def notable_rounds(log: Sequence[Event]) -> dict[str, int]:
    """The rounds that tell most: the `usual` one (of median length among those with a new model), and the `worst`: the longest of
    those that failed after somebody was asked, or the longest of all. One that would be both is the usual one."""
    closings = [e for e in log if isinstance(e, Closing)]
    active = {e.round for e in log if isinstance(e, TasksSent)}
    opened = dict(zip((e.round for e in closings), (_start_time(log), *(e.time for e in closings)), strict=False))
    length = {e.round: e.time - opened[e.round] for e in closings if e.round in active or isinstance(e, ModelCommitted)}
    committed = sorted((e.round for e in closings if isinstance(e, ModelCommitted)), key=lambda r: (length[r], r))
    failed = [e.round for e in closings if isinstance(e, RoundFailed) and e.round in length]
    result = {"usual": committed[(len(committed) - 1) // 2]} if committed else {}
    worst = max(failed or committed, key=lambda r: (length[r], -r), default=None)
    return result if worst is None or worst in result.values() else {**result, "worst": worst}


def describe_round(log: Sequence[Event], tasks: Tasks, number: int, *, most: int = MOST) -> RoundTimeline:
    """Take a round that has ended apart."""
    closings = [e for e in log if isinstance(e, Closing)]
    index = next(i for i, e in enumerate(closings) if e.round == number)
    end, opened = closings[index], closings[index - 1].time if index else _start_time(log)
    ended_in = (tasks.fate != RUNNING) & (tasks.ended > opened) & (tasks.ended <= end.time)
    involved = np.flatnonzero((tasks.rounds == number) | ended_in)
    order = involved[
        np.lexsort((involved, tasks.sent[involved], tasks.ended[involved]))
    ]  # NaN, still running, comes last
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(np.int64))]
    fates = np.where(ended_in[involved], tasks.fate[involved], RUNNING).astype(np.int64)
    counts = np.bincount(fates + 1, minlength=len(FATES) + 1).tolist()
    asked = tuple(
        (e.time, len(e.clients)) for e in log if isinstance(e, TasksSent) and e.round == number and len(e.clients)
    )
    refill_marks = np.isin([time for time, _ in asked[1:]], tasks.ended[ended_in])
    return RoundTimeline(
        number, opened, end.time,
        end.version if isinstance(end, ModelCommitted) else None,
        end.reason if isinstance(end, RoundFailed) else "",
        asked, bool(len(refill_marks) and refill_marks.mean() >= 0.5),
        {name: n for name, n in zip((*FATES, "running"), (*counts[1:], counts[0]), strict=True) if n},
        _task_spans(log, tasks, shown),
    )  # fmt: skip


def _start_time(log: Sequence[Event]) -> float:
    return log[0].time if log else 0.0


def _task_spans(log: Sequence[Event], tasks: Tasks, shown: Ints) -> tuple[TaskSpan, ...]:
    wanted = set(shown.tolist())
    stages, reasons = _stage_seconds(log, wanted), _reasons(log, wanted)
    return tuple(
        TaskSpan(
            t, int(tasks.clients[t]), float(tasks.sent[t]), float(tasks.ended[t]),
            "running" if tasks.fate[t] == RUNNING else FATES[tasks.fate[t]],
            _reason_text(int(tasks.fate[t]), int(tasks.folded_into[t]), reasons.get(t)), stages.get(t),
        )
        for t in shown.tolist()
    )  # fmt: skip


def _stage_seconds(log: Sequence[Event], wanted: set[int]) -> dict[int, Mapping[str, float]]:
    """Seconds by stage of these tasks, where they are known."""
    result: dict[int, Mapping[str, float]] = {}
    for event in log:
        if isinstance(event, TasksSpent):
            for i in np.flatnonzero(np.isin(event.tasks, list(wanted))).tolist():
                stages = {name: float(event.spent[name][i]) for name in STAGES if name in event.spent}
                if stages and not any(np.isnan(took) for took in stages.values()):
                    result[int(event.tasks[i])] = {name: took for name, took in stages.items() if took > 0}
    return result


def _reasons(log: Sequence[Event], wanted: set[int]) -> dict[int, str]:
    """What the journal says of these tasks' misfortunes; the first that happened is the cause."""
    result: dict[int, str] = {}
    for event in log:
        match event:
            case TaskLost() | TaskStruck() | ReportRejected() if event.task in wanted:
                result.setdefault(event.task, event.reason)
            case ReportUnwanted() if event.task in wanted and event.reason == "late":
                result.setdefault(event.task, "its report came too late")
            case _:
                pass
    return result


def _reason_text(fate: int, into: int, reason: str | None) -> str:
    if fate == FOLDED:
        return f"in model {into}"
    usual = {
        RUNNING: "still training", DROPPED: "too late, given up", LOST: "lost", REJECTED: "refused",
        WASTED: "in time, but the round failed",
    }  # fmt: skip
    return usual[fate] if reason is None else f"{FATES[fate]}: {reason}" if fate >= 0 else reason
