"""The columns in which the desk remembers tasks: pages of consecutive ids, 27 bytes a task that lives, 9 bytes one that ended.

Only storage and counting. What may follow what is in `tasks`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from enum import IntEnum

import numpy as np

from fedfleet.core.records import Floats, Ints

PAGE = 4096
REMEMBERED = 1 << 20  # tasks whose ends are known after they ended
NO_FRONTEND, SERVER = 0xFFFF, 0xFFFE  # in the column of transmitters
_PHASE, _STRIKE, _STRIKES, KNOWN, ARRIVED = 0x0F, 0x10, 0x30, 0x40, 0x80  # how a mark is made


class Phase(IntEnum):
    """Where a task stands; of those that live, the first four."""

    NEVER = 0  # sent, or so long ago that it was forgotten
    OPEN = 1  # no report was granted
    GRANTED = 2  # a frontend holds its report in memory
    RELEASED = 3  # its frontend died before the report was on disk
    SAFE = 4  # its report is on disk
    FOLDED = 5
    REJECTED = 6  # when it was gathered
    REFUSED = 7  # when it was claimed, or when its lease ended
    LOST = 8
    WITHDRAWN = 9


LIVE = (Phase.OPEN, Phase.GRANTED, Phase.RELEASED, Phase.SAFE)
WAITING = (Phase.OPEN, Phase.RELEASED)  # for a report; these have a lease that can end
_IS_LIVE = tuple(int(phase in LIVE) for phase in range(16))
_WAITS = tuple(int(phase in WAITING) for phase in range(16))


class Page:
    """Columns of PAGE consecutive tasks. Single entries are read through memoryviews, which is thrice as fast as numpy."""

    __slots__ = ("_arrays", "client", "crc", "frontend", "heaviest", "live", "mark", "soonest", "until", "waiting")

    def __init__(self) -> None:
        self._arrays = {"mark": np.zeros(PAGE, np.uint8), "client": np.zeros(PAGE, np.uint32)}
        self._arrays["crc"] = np.zeros(PAGE, np.uint32)
        self.mark, self.client, self.crc = (self._arrays[name].data for name in ("mark", "client", "crc"))
        self.widen()
        self.live = 0  # tasks that live
        self.waiting = 0  # tasks with a lease that can end
        self.soonest = math.inf  # no lease of a waiting task ends before this

    def column(self, name: str) -> np.ndarray:
        """A whole column."""
        return self._arrays[name]

    def phases(self) -> np.ndarray:
        """The phase of each task."""
        return self._arrays["mark"] & _PHASE

    def nothing_came(self) -> np.ndarray:
        """Of which tasks nothing ever came, not even something faulty."""
        return (self._arrays["mark"] & (_STRIKES | ARRIVED)) == 0

    def nbytes(self) -> int:
        """What the columns take."""
        return sum(column.nbytes for column in self._arrays.values())

    def widen(self) -> None:
        """Make room for what only living tasks need."""
        if "until" not in self._arrays:
            self._arrays["heaviest"] = np.zeros(PAGE, np.float64)
            self._arrays["until"] = np.zeros(PAGE, np.float64)
            self._arrays["frontend"] = np.full(PAGE, NO_FRONTEND, np.uint16)
        self.heaviest = self._arrays["heaviest"].data
        self.until = self._arrays["until"].data
        self.frontend = self._arrays["frontend"].data

    def narrow(self) -> None:
        """Let go of what only living tasks need."""
        for name in ("heaviest", "until", "frontend"):
            self._arrays.pop(name, None)
        self.heaviest = self.until = self.frontend = memoryview(b"")


def phase_of(mark: int) -> int:
    """The phase in a mark."""
    return mark & _PHASE


def strikes_of(mark: int) -> int:
    """How many faulty reports a mark counts, at most 3."""
    return (mark & _STRIKES) >> 4


def add_strike(mark: int) -> int:
    """The mark with one strike more."""
    return mark + _STRIKE if mark & _STRIKES != _STRIKES else mark


class TaskColumns:
    """All remembered tasks by page, and how many are in each phase."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self.pages: dict[int, Page] = {}
        self.next = 0  # above all ids that were ever here
        self.counts = [0] * 16
        self._most_pages = max(1, remembered // PAGE)

    def find(self, task: int) -> tuple[Page, int] | None:
        """Where a task is, if it is remembered."""
        page = self.pages.get(task // PAGE)
        return None if page is None else (page, task % PAGE)

    def spans(self, tasks: Collection[int] | Ints) -> Iterator[tuple[int, Page, Ints]]:
        """The first id, page and places of those tasks that are remembered, each once, by page in order."""
        wanted = np.unique(np.fromiter(tasks, np.int64, len(tasks)))
        wanted = wanted[wanted >= 0]
        numbers = wanted // PAGE
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for part in np.split(wanted, cuts) if len(wanted) else ():
            page = self.pages.get(int(part[0]) // PAGE)
            if page is not None:
                yield int(part[0]) // PAGE * PAGE, page, part % PAGE

    def add(
        self, tasks: Ints, clients: Ints, heaviest: Floats | float, until: Floats | float, *, phase: Phase, mark: int = 0
    ) -> None:
        """Remember tasks that were never here, in this phase, with the flags of `mark`; ids, and columns beside them."""
        order = np.argsort(tasks, kind="stable")
        if len(tasks) and (tasks[order[0]] < 0 or not np.all(np.diff(tasks[order]) > 0)):
            raise ValueError("task ids are natural numbers, each once")
        weights, ends = (np.broadcast_to(np.asarray(c, np.float64), tasks.shape) for c in (heaviest, until))
        pages_before = len(self.pages)
        for rows in np.split(order, np.flatnonzero(np.diff(tasks[order] // PAGE)) + 1) if len(tasks) else ():
            page = self._page(int(tasks[rows[0]]) // PAGE)
            at = tasks[rows] % PAGE
            if page.phases()[at].any():
                raise ValueError(f"a task of {int(tasks[rows[0]])} to {int(tasks[rows[-1]])} was sent before")
            page.column("client")[at] = clients[rows]
            page.column("mark")[at] = mark | phase
            page.column("heaviest")[at] = weights[rows]
            page.column("until")[at] = ends[rows]
            page.live += len(at) * _IS_LIVE[phase]
            page.waiting += len(at) * _WAITS[phase]
            if _WAITS[phase]:
                page.soonest = min(page.soonest, float(ends[rows].min()))
        self.counts[phase] += len(tasks)
        if len(tasks):
            self.next = max(self.next, int(tasks[order[-1]]) + 1)
        if len(self.pages) > pages_before:
            self._tidy()

    def move(self, page: Page, at: int, phase: Phase) -> None:
        """One task enters a phase; its flags stay."""
        mark = page.mark[at]
        before = mark & _PHASE
        page.mark[at] = mark & ~_PHASE | phase
        self.counts[before] -= 1
        self.counts[phase] += 1
        page.live += _IS_LIVE[phase] - _IS_LIVE[before]
        page.waiting += _WAITS[phase] - _WAITS[before]
        if _WAITS[phase]:
            page.soonest = min(page.soonest, page.until[at])

    def move_all(self, tasks: Collection[int] | Ints, before: Collection[Phase], phase: Phase) -> list[int]:
        """Those of the tasks that are in a phase of `before` enter another; which they were, in order."""
        moved: list[int] = []
        for first, page, at in self.spans(tasks):
            chosen = at[np.isin(page.phases()[at], list(before))]
            self.move_many(page, chosen, phase)
            moved += (first + chosen).tolist()
        return moved

    def move_many(self, page: Page, at: Ints, phase: Phase) -> None:
        """Many tasks of a page enter a phase; their flags stay."""
        if not len(at):
            return
        for before, count in enumerate(np.bincount(page.phases()[at], minlength=16).tolist()):
            self.counts[before] -= count
            page.live -= count * _IS_LIVE[before]
            page.waiting -= count * _WAITS[before]
        mark = page.column("mark")
        mark[at] = mark[at] & ~np.uint8(_PHASE) | np.uint8(phase)
        self.counts[phase] += len(at)
        page.live += len(at) * _IS_LIVE[phase]
        page.waiting += len(at) * _WAITS[phase]
        if _WAITS[phase]:
            page.soonest = min(page.soonest, float(page.column("until")[at].min()))

    def _page(self, number: int) -> Page:
        page = self.pages.get(number)
        if page is None:
            page = self.pages[number] = Page()
        page.widen()
        return page

    def _tidy(self) -> None:
        """Pages in which nothing lives shrink; the oldest of those are forgotten when there are too many."""
        newest = (self.next - 1) // PAGE
        ended = sorted(number for number, page in self.pages.items() if not page.live and number < newest)
        for number in ended[: max(0, len(self.pages) - self._most_pages)]:
            phases = self.pages.pop(number).phases()
            for phase, count in enumerate(np.bincount(phases, minlength=16).tolist()):
                self.counts[phase] -= count if phase else 0
        for number in ended:
            if number in self.pages:
                self.pages[number].narrow()

    def nbytes(self) -> int:
        """What all columns take of memory, without what Python adds for each page."""
        return sum(page.nbytes() for page in self.pages.values())
