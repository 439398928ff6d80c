"""A round taken apart: who was asked when, what their time went into, what became of them and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedfleet.core.records import DROPPED, FATES, FOLDED, LOST, REJECTED, WASTED, Ints
from fedfleet.core.stages import STAGES
from fedfleet.measure.run_progress import COMMITTED, FAILED
from fedfleet.measure.run_record import RunRecord
from fedfleet.measure.tasks import RUNNING, TaskColumns, Tasks

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

    `asked` are its broadcasts (when, to how many); those after the first are `refills` where somebody is asked because another has
    ended, otherwise rebroadcasts. `fates` counts the tasks that ended in it, and those sent in it that are `running` on; `spans`
    are these tasks by their end, no more than asked for and spread evenly.
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


def notable_rounds(record: RunRecord) -> dict[str, int]:
    """The rounds that tell most: the `usual` one (of median length among those with a new model), and the `worst`: the longest of
    those that failed after somebody was asked, or the longest of all. One that would be both is the usual one."""
    closed = record.progress.closed_rounds
    length = {r.number: r.closed - r.opened for r in closed}
    committed = sorted((r.number for r in closed if r.outcome == COMMITTED), key=lambda n: (length[n], n))
    failed = [r.number for r in closed if r.outcome == FAILED and r.waves]
    result = {"usual": committed[(len(committed) - 1) // 2]} if committed else {}
    worst = max(failed or committed, key=lambda n: (length[n], -n), default=None)
    return result if worst is None or worst in result.values() else {**result, "worst": worst}


def describe_round(record: RunRecord, tasks: Tasks, number: int, *, most: int = MOST) -> RoundTimeline:
    """Take a round that has ended apart; `tasks` are those of the record."""
    end = next(r for r in record.progress.closed_rounds if r.number == number)
    ended_in = (tasks.fate != RUNNING) & (tasks.ended > end.opened) & (tasks.ended <= end.closed)
    involved = np.flatnonzero((tasks.rounds == number) | ended_in)
    # NaN, still running, comes last.
    order = involved[np.lexsort((involved, tasks.sent[involved], tasks.ended[involved]))]
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(np.int64))]
    fates = np.where(ended_in[involved], tasks.fate[involved], RUNNING).astype(np.int64)
    counts = np.bincount(fates + 1, minlength=len(FATES) + 1).tolist()
    firsts: Ints = np.array(record.tasks.broadcasts, np.int64)
    sizes = np.diff(firsts, append=record.tasks.count)
    in_round = tasks.rounds[firsts] == number
    asked = tuple(zip(tasks.sent[firsts[in_round]].tolist(), sizes[in_round].tolist(), strict=True))
    refill_marks = np.isin([time for time, _ in asked[1:]], tasks.ended[ended_in])
    refills = bool(len(refill_marks) and refill_marks.mean() >= 0.5)
    by_fate = {name: n for name, n in zip((*FATES, "running"), (*counts[1:], counts[0]), strict=True) if n}
    spans = tuple(_task_span(record.tasks, tasks, task) for task in shown.tolist())
    return RoundTimeline(number, end.opened, end.closed, end.version, end.reason, asked, refills, by_fate, spans)


def _task_span(columns: TaskColumns, tasks: Tasks, task: int) -> TaskSpan:
    fate, spent = int(tasks.fate[task]), None
    reason = columns.reasons.get(task, "its report came too late" if tasks.late[task] else None)
    if columns.staged[task]:
        stages = {name: float(columns.spent[name][task]) for name in STAGES if name in columns.spent}
        if not any(np.isnan(seconds) for seconds in stages.values()):
            spent = {name: seconds for name, seconds in stages.items() if seconds > 0}
    why, name = _reason_text(fate, int(tasks.folded_into[task]), reason), "running" if fate == RUNNING else FATES[fate]
    return TaskSpan(task, int(tasks.clients[task]), float(tasks.sent[task]), float(tasks.ended[task]), name, why, spent)


def _reason_text(fate: int, into: int, reason: str | None) -> str:
    if fate == FOLDED:
        return f"in model {into}"
    usual = {
        RUNNING: "still training", DROPPED: "too late, given up", LOST: "lost", REJECTED: "refused",
        WASTED: "in time, but the round failed",
    }  # fmt: skip
    return usual[fate] if reason is None else f"{FATES[fate]}: {reason}" if fate >= 0 else reason
