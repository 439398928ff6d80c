"""The record of a run as the dashboard shows it: what became of each task, what each device does now, why work was late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.core import records
from fedfleet.core.records import Ints
from fedfleet.core.stages import STAGES
from fedfleet.measure.run_progress import Round
from fedfleet.measure.run_record import RunRecord
from fedfleet.measure.tasks import ARRIVED, RUNNING

# What became of a task. BACK: its report is there, the round is not over yet.
WORKING, BACK, USED, LATE, LOST, REFUSED, WASTED = range(7)
# What a device does now, one letter each: training, reported this round, idle, late last round, lost, refused, offline (which
# only a server can know), never asked.
STATES = "wrulxno-"
_NEVER, _OFFLINE = "-", "o"
# Out of reach for less than that is rounding.
_AWAY_SECONDS = 0.5
TOO_SLOW, OUT_OF_REACH, NO_REPORT = "too slow", "went out of reach", "no report came"
_FATES = {
    RUNNING: WORKING, ARRIVED: BACK, records.FOLDED: USED, records.DROPPED: LATE, records.LOST: LOST,
    records.REJECTED: REFUSED, records.WASTED: WASTED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Turn:
    """One task of one device."""

    client: int
    round: int
    sent: float
    seconds: float
    down: float
    up: float
    fate: int
    reason: str


def turns(record: RunRecord, tasks: Sequence[int] | Ints) -> list[Turn]:
    """These tasks, each with what became of it and why."""
    which, known = np.asarray(tasks, np.int64), record.tasks.reasons
    c, fates, reasons = record.tasks.columns, task_fates(record, which).tolist(), lateness_reasons(record, which)
    return [
        Turn(
            int(c.clients[t]), int(c.rounds[t]), float(c.sent[t]), float(c.seconds[t]),
            float(c.bytes_down[t]), float(c.bytes_up[t]), fate,
            late if fate == LATE else "its round failed" if fate == WASTED else known.get(t, "") if fate in (LOST, REFUSED) else "",
        )
        for t, fate, late in zip(which.tolist(), fates, reasons, strict=True)
    ]  # fmt: skip


def current_turns(record: RunRecord) -> list[Turn]:
    """The tasks of the round that goes on, or of the last one."""
    last = current_round(record)
    return [] if last is None else turns(record, np.arange(last.first, last.first + last.asked))


def client_turns(record: RunRecord, client: int) -> list[Turn]:
    """All tasks of a client, in order."""
    return turns(record, np.flatnonzero(record.tasks.columns.clients[: record.tasks.count] == client))


def current_round(record: RunRecord) -> Round | None:
    """The round that goes on, or the last one."""
    return record.progress.rounds[-1] if record.progress.rounds else None


def task_fates(record: RunRecord, tasks: Ints | None = None) -> Ints:
    """What became of these tasks, or of all. A report that was gathered is back until its model is there."""
    which = slice(0, record.tasks.count) if tasks is None else tasks
    columns = record.tasks.columns
    codes = np.array([_FATES[code] for code in range(ARRIVED, len(records.FATES))], np.int64)
    result = codes[columns.fate[which].astype(np.int64) - ARRIVED]
    return np.where((result == USED) & (columns.folded_into[which] == 0), BACK, result)


def fate_counts(record: RunRecord) -> list[int]:
    """How many tasks came to which end, by code."""
    return np.bincount(task_fates(record), minlength=WASTED + 1).tolist()


def lateness_reasons(record: RunRecord, tasks: Ints) -> list[str]:
    """Why each of these tasks was late, as far as its costs say; "" for the others. On a real network the reason is unknown."""
    columns, known = record.tasks.columns, record.tasks
    late = (columns.fate[tasks] == records.DROPPED) & known.accounted[tasks]
    worked = sum((known.spent[stage][tasks] for stage in STAGES if stage in known.spent), np.zeros(len(tasks)))
    away = columns.seconds[tasks] - worked > _AWAY_SECONDS
    words = np.where(np.isnan(worked), NO_REPORT, np.where(away, OUT_OF_REACH, TOO_SLOW))
    return np.where(late, words, "").tolist()


def lateness_counts(record: RunRecord) -> dict[str, int]:
    """How many tasks were late for which reason, of those of which it is known."""
    reasons = lateness_reasons(record, np.flatnonzero(task_fates(record) == LATE))
    return {why: reasons.count(why) for why in (OUT_OF_REACH, TOO_SLOW, NO_REPORT) if why in reasons}


def clients_in_model(record: RunRecord) -> set[int]:
    """The clients with a report in at least one model."""
    count, columns = record.tasks.count, record.tasks.columns
    return set(columns.clients[:count][columns.folded_into[:count] > 0].tolist())


def bytes_moved(record: RunRecord) -> float:
    """What tasks moved in both directions, as far as it moved, used or not."""
    count, columns = record.tasks.count, record.tasks.columns
    return float(columns.bytes_down[:count].sum() + columns.bytes_up[:count].sum())


def device_states(record: RunRecord, present: str = "") -> str:
    """One letter of STATES for each device, in the order of their numbers; `present` says of each with 1 or 0 if it is there.

    A device that trains does not call its server: it is training, whether or not it counts as present.
    """
    clients, count = record.progress.clients, record.tasks.count
    last_task, of_task = np.full(clients, -1), record.tasks.columns.clients[:count]
    inside = of_task < clients
    # Of several tasks of a client the last assignment stays.
    last_task[of_task[inside]] = np.flatnonzero(inside)
    asked = np.flatnonzero(last_task >= 0)
    tasks = last_task[asked]
    last = current_round(record)
    fates = task_fates(record, tasks)
    done = np.isin(fates, (BACK, USED)) & (record.tasks.columns.rounds[tasks] == (last.number if last else 0))
    letters = np.full(clients, ord(_NEVER), np.uint8)
    letters[asked] = np.frombuffer(b"wuulxnu", np.uint8)[fates]
    letters[asked[done]] = ord("r")
    flags = np.frombuffer(present[:clients].encode(), np.uint8)
    letters[: len(flags)][(flags == ord("0")) & (letters[: len(flags)] != ord("w"))] = ord(_OFFLINE)
    return letters.tobytes().decode()
