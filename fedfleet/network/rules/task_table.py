"""Tasks that were sent, and what becomes of each report that claims to be of one.

    open -> granted -> safe -> folded | rejected      granted, safe -> released (its frontend died) -> granted
    open -> refused (three strikes, the same faulty bytes twice, a lease that ended after a strike)
    open -> lost (its lease ended, its device declined)       any that lives -> withdrawn

A grant is the arrival: it is given once, and again only after a release. A lease ends when `expire` says so, not before: a good
report that is here is not turned away because a clock was looked at late.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from fedfleet.core.errors import RunFailed
from fedfleet.core.records import Floats, Ints
from fedfleet.network.rules.task_columns import (
    ARRIVED,
    KNOWN,
    LIVE,
    NO_FRONTEND,
    PAGE,
    REMEMBERED,
    SERVER,
    WAITING,
    Page,
    Phase,
    TaskColumns,
    add_strike,
    phase_of,
    strikes_of,
)

TRIES = 3  # faulty reports that end a task
BUSY_SECONDS = 0.2
MAX_REASON_LENGTH = 200  # characters of what is remembered of a fault
__all__ = ["NO_FRONTEND", "Claim", "ExpiredTask", "Phase", "TaskTable", "Verdict", "VerdictKind"]


class VerdictKind(Enum):
    """What is answered to a claim."""

    GRANT = auto()  # fold it: this is the arrival
    REGRANT = auto()  # fold it: it arrived before, and was lost with its frontend
    RETRY = auto()  # a fault, and tries are left
    REFUSE = auto()  # it counts as arrived and is rejected
    SAFE = auto()  # it is on disk already
    BUSY = auto()  # it was granted and is not on disk yet: ask again
    LATE = auto()  # its task was given up
    DUPLICATE = auto()  # another report of this task came before
    DECLINED = auto()  # the device will not do it: the task is lost
    STRANGER = auto()  # not this client's task, or never sent: a strike for the caller, not for the task


GRANT, REGRANT, RETRY, REFUSE, SAFE, BUSY, LATE, DUPLICATE, DECLINED, STRANGER = VerdictKind


class Claim(NamedTuple):
    """A whole report that wants to be counted; `fault` says why it cannot be folded, `declined` why there is none."""

    task: int
    client: int
    crc32c: int
    nbytes: int
    weight: float
    fault: str = ""
    declined: str = ""
    frontend: int = 0


class Verdict(NamedTuple):
    """The answer, what the device is told, and when it should try again. `arrived`: its arrival is in the journal already."""

    kind: VerdictKind
    reason: str = ""
    seconds: float = 0.0
    arrived: bool = False


class ExpiredTask(NamedTuple):
    """A task whose lease ended with a reason to reject it: it counts as arrived, now, unless it had `arrived` before."""

    task: int
    reason: str
    arrived: bool
    nbytes: int


class _Fault(NamedTuple):
    reason: str
    nbytes: int


class TaskTable:
    """The table of tasks that may still be claimed, and the ends of the newest that may not."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._columns = TaskColumns(remembered)
        self._faults: dict[int, _Fault] = {}  # by task that is open or released: its newest fault

    # ---- what the coordinator decided --------------------------------------------------------------------------------

    def send(self, first: int, clients: Ints, heaviest: Floats, until: float) -> None:
        """Tasks first, first + 1, .. go out to these clients; `heaviest`: the most that each report may weigh.

        A task that weighs nothing (an evaluation, a probe) has a heaviest of 0. `until`: when their lease ends.
        """
        ids = np.arange(first, first + len(clients), dtype=np.int64)
        self._columns.add(ids, clients, heaviest, until, phase=Phase.OPEN)

    def reopen(
        self, phase: Phase, tasks: Ints, clients: Ints, heaviest: Floats | float = 0.0, until: Floats | float = math.inf
    ) -> None:
        """Tasks of a server that was killed, in the phase in which the journal left them.

        What had arrived is GRANTED, by no frontend that is known: it is answered with BUSY until a frontend says with
        `release` that its disk holds it; when all have spoken, `release(NO_FRONTEND, ())` frees the rest.
        """
        has_arrived = phase in (Phase.GRANTED, Phase.RELEASED, Phase.SAFE, Phase.FOLDED, Phase.REJECTED, Phase.REFUSED)
        self._columns.add(tasks, clients, heaviest, until, phase=phase, mark=ARRIVED if has_arrived else 0)

    def strike_again(self, task: int, crc32c: int, nbytes: int, reason: str) -> None:
        """A task of a server that was killed was struck before: a report with this checksum could not be folded."""
        place = self._columns.find(task)
        if place is None or phase_of(place[0].mark[place[1]]) != Phase.OPEN:
            return
        page, at = place
        page.mark[at] = add_strike(page.mark[at]) | KNOWN
        page.crc[at] = crc32c
        self._faults[task] = _Fault(reason[:MAX_REASON_LENGTH], nbytes)

    def set_next_task(self, next_task: int) -> None:
        """All ids below this one were given to tasks once: who shows one that is not known is late, not a stranger."""
        self._columns.next = max(self._columns.next, next_task)

    def withdraw(self, tasks: Collection[int]) -> None:
        """These were given up: what comes now is late."""
        self._forget_faults(self._columns.move_all(tasks, LIVE, Phase.WITHDRAWN))

    def hand_in(self, tasks: Collection[int]) -> None:
        """The sums that hold these were handed to the processor: whatever becomes of their transmitters, they will be settled."""
        for _, page, at in self._columns.spans(tasks):
            held = at[np.isin(page.phases()[at], (Phase.GRANTED, Phase.SAFE))]
            self._columns.move_many(page, held, Phase.SAFE)
            if len(held):
                page.column("frontend")[held] = SERVER

    def settle(self, tasks: Collection[int], folded: bool) -> None:
        """These were gathered; their end is final."""
        end = Phase.FOLDED if folded else Phase.REJECTED
        self._forget_faults(self._columns.move_all(tasks, (Phase.GRANTED, Phase.SAFE, Phase.RELEASED), end))

    # ---- what happened -----------------------------------------------------------------------------------------------

    def decide(self, claim: Claim, now: float) -> Verdict:
        """What becomes of a report, now."""
        place = self._columns.find(claim.task)
        if not 0 <= claim.task < self._columns.next:
            return Verdict(STRANGER, "this is not a task that was given to you")
        if place is None or phase_of(place[0].mark[place[1]]) == Phase.NEVER:
            return Verdict(LATE, f"task {claim.task} ended so long ago that nothing is known of it")
        page, at = place
        if page.client[at] != claim.client:
            return Verdict(STRANGER, "this is not a task that was given to you")
        phase = phase_of(page.mark[at])
        if phase in WAITING:
            return self._decide_waiting(claim, page, at, now)
        if phase >= Phase.REFUSED:
            return _verdict_after_end(claim.task, phase, page, at)
        if claim.declined or (page.mark[at] & KNOWN and page.crc[at] != claim.crc32c):
            return Verdict(DUPLICATE, f"another report of task {claim.task} came before", arrived=True)
        if phase == Phase.GRANTED:
            return Verdict(BUSY, f"the report of task {claim.task} is not on disk yet", BUSY_SECONDS, arrived=True)
        if phase == Phase.REJECTED:
            return Verdict(DUPLICATE, f"the report of task {claim.task} was gathered and rejected", arrived=True)
        return Verdict(SAFE, arrived=True)

    def mark_safe(self, tasks: Collection[int]) -> None:
        """The reports of these granted tasks are on disk now."""
        self._columns.move_all(tasks, (Phase.GRANTED,), Phase.SAFE)

    def release(self, frontend: int, stored_tasks: Collection[int]) -> list[int]:
        """A frontend died and its disk holds the reports of `stored_tasks`; those of its tasks that it lacks may be granted again.

        Stored ones are safe. Also a task that was safe is released if the disk lacks it: then a disk lost what it had kept.
        """
        self._adopt(frontend, stored_tasks)
        stored = np.unique(np.fromiter(stored_tasks, np.int64, len(stored_tasks)))
        freed: list[int] = []
        for number in sorted(number for number, page in self._columns.pages.items() if page.live):
            page = self._columns.pages[number]
            phases = page.phases()
            in_memory = (page.column("frontend") == frontend) & ((phases == Phase.GRANTED) | (phases == Phase.SAFE))
            at = np.flatnonzero(in_memory)
            at = at[~np.isin(at + number * PAGE, stored)]
            self._columns.move_many(page, at, Phase.RELEASED)
            page.column("mark")[at] &= ~np.uint8(KNOWN)  # whatever comes next is as good
            freed += (at + number * PAGE).tolist()
        return freed

    def expire(self, now: float) -> tuple[list[int], list[ExpiredTask]]:
        """Leases that are over: tasks of which nothing came are lost; struck or released ones count as arrived and rejected."""
        lost: list[int] = []
        rejected: list[ExpiredTask] = []
        for number in sorted(n for n, page in self._columns.pages.items() if page.waiting and page.soonest <= now):
            page = self._columns.pages[number]
            waiting = np.isin(page.phases(), WAITING)
            until = page.column("until")
            due = np.flatnonzero(waiting & (until <= now))
            silent = page.nothing_came()[due]
            self._columns.move_many(page, due[silent], Phase.LOST)
            lost += (number * PAGE + due[silent]).tolist()
            for at in due[~silent].tolist():
                rejected.append(self._expired_task(number * PAGE + at, page.mark[at]))
                self._columns.move(page, at, Phase.REFUSED)
                page.mark[at] |= ARRIVED
            page.soonest = float(until[waiting & (until > now)].min(initial=math.inf))
        return lost, rejected

    # ---- questions ---------------------------------------------------------------------------------------------------

    def next_expiry(self) -> float | None:
        """When to call `expire` next: never after a lease ends, sometimes before."""
        soonest = min((page.soonest for page in self._columns.pages.values() if page.waiting), default=math.inf)
        return None if soonest == math.inf else soonest

    def unsafe_tasks(self, tasks: Collection[int]) -> list[int]:
        """Those of the tasks that were granted or released and are not on disk, in order."""
        result: list[int] = []
        for first, page, at in self._columns.spans(tasks):
            result += (first + at[np.isin(page.phases()[at], (Phase.GRANTED, Phase.RELEASED))]).tolist()
        return result

    def phase(self, task: int) -> Phase:
        """Where a task stands; NEVER also if it was forgotten."""
        place = self._columns.find(task) if task >= 0 else None
        return Phase.NEVER if place is None else Phase(phase_of(place[0].mark[place[1]]))

    def client(self, task: int) -> int | None:
        """Whose task it is, if it is remembered."""
        place = self._columns.find(task) if self.phase(task) else None
        return None if place is None else place[0].client[place[1]]

    def counts(self) -> dict[Phase, int]:
        """How many remembered tasks are in each phase."""
        return {phase: self._columns.counts[phase] for phase in Phase if phase}

    def nbytes(self) -> int:
        """What the columns take of memory."""
        return self._columns.nbytes()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _decide_waiting(self, claim: Claim, page: Page, at: int, now: float) -> Verdict:
        arrived = bool(page.mark[at] & ARRIVED)
        if claim.declined:
            self._faults.pop(claim.task, None)
            if arrived:  # the coordinator counts on it: it cannot be lost any more
                self._columns.move(page, at, Phase.REFUSED)
                return Verdict(REFUSE, f"it had arrived and was declined later: {claim.declined}", arrived=True)
            self._columns.move(page, at, Phase.LOST)
            return Verdict(DECLINED, claim.declined)
        fault = claim.fault or _weight_fault(claim.weight, page.heaviest[at])
        if fault:
            return self._strike(claim, fault, page, at, now)
        self._faults.pop(claim.task, None)
        self._columns.move(page, at, Phase.GRANTED)
        page.mark[at] |= ARRIVED | KNOWN
        page.crc[at] = claim.crc32c
        page.frontend[at] = claim.frontend
        return Verdict(REGRANT if arrived else GRANT, arrived=arrived)

    def _strike(self, claim: Claim, fault: str, page: Page, at: int, now: float) -> Verdict:
        before = page.mark[at]
        arrived = bool(before & ARRIVED)
        is_same_report = bool(before & KNOWN) and strikes_of(before) > 0 and page.crc[at] == claim.crc32c
        page.mark[at] = add_strike(before) | KNOWN
        page.crc[at] = claim.crc32c
        tries = strikes_of(page.mark[at])
        if tries < TRIES and not is_same_report and now < page.until[at]:
            self._faults[claim.task] = _Fault(fault[:MAX_REASON_LENGTH], claim.nbytes)
            return Verdict(RETRY, f"{fault}; {tries} of {TRIES} tries used", arrived=arrived)
        self._faults.pop(claim.task, None)
        self._columns.move(page, at, Phase.REFUSED)
        page.mark[at] |= ARRIVED
        return Verdict(REFUSE, fault, arrived=arrived)

    def _expired_task(self, task: int, mark: int) -> ExpiredTask:
        fault = self._faults.pop(task, None)
        if not mark & ARRIVED and fault is not None:
            return ExpiredTask(task, fault.reason, False, fault.nbytes)
        reason = "its report was lost with its transmitter" if fault is None else fault.reason
        return ExpiredTask(task, f"{reason}, and no better one came within its lease", True, 0)

    def _adopt(self, frontend: int, stored_tasks: Collection[int]) -> None:
        """What a frontend's disk holds is safe there, whichever frontend it was granted to."""
        for first, page, at in self._columns.spans(stored_tasks):
            phases, owner = page.phases()[at], page.column("frontend") if page.live else None
            if owner is None:
                continue
            held = np.isin(phases, (Phase.GRANTED, Phase.SAFE))
            held &= owner[at] != SERVER  # what was handed in is nobody else's any more
            granted_elsewhere = at[(held & ~np.isin(owner[at], (frontend, NO_FRONTEND))) | (phases == Phase.RELEASED)]
            if len(granted_elsewhere):
                raise RunFailed(
                    f"the report of task {first + int(granted_elsewhere[0])} is on the disk of frontend "
                    f"{frontend}, but another frontend "
                    "accepted it; stop the server and start it with --resume"
                )
            owner[at[held]] = frontend
            self._columns.move_many(page, at[held], Phase.SAFE)

    def _forget_faults(self, tasks: list[int]) -> None:
        if self._faults:
            for task in tasks:
                self._faults.pop(task, None)


def _verdict_after_end(task: int, phase: int, page: Page, at: int) -> Verdict:
    """A report of a task that was refused, lost or withdrawn: the first is late, what comes after it came before."""
    if page.mark[at] & ARRIVED:
        ending = "was refused" if phase == Phase.REFUSED else "is not wanted any more"
        return Verdict(DUPLICATE, f"a report of task {task} came before and {ending}", arrived=True)
    page.mark[at] |= ARRIVED
    return Verdict(LATE, f"task {task} was given up")


def _weight_fault(weight: float, heaviest: float) -> str:
    """Why a report may not weigh so much; NaN and infinity fail too. Where nothing may weigh, only 0 is right."""
    if 0.0 < weight <= heaviest < math.inf or weight == heaviest == 0.0:
        return ""
    return f"its weight is {weight:g}, but must be above 0 and at most {heaviest:g}"
