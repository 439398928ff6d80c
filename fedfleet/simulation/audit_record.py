"""The record of a run, read from front to back beside a run that derives it again: the first row that differs lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated, Event, ModelCommitted, Probed, ReportsGathered
from fedfleet.core.records import Rejected
from fedfleet.store.journal_rows import COLUMNS, Kind, Row, Unreadable, Values, decode, described, encode

Numbered = tuple[int, Values]
T = TypeVar("T")
# Columns that only training can tell, by kind.
_BELIEVED = {Kind.COMMITTED: ("body", "note"), Kind.GATHERED: ("note",)}


class Lie(RunFailed):
    """A row of the journal that does not follow from what the run is; `row` is its number, 0: it is missing at the end."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(f"row {row} of the journal lies: {text}" if row else text)
        self.row = row


class Enough(Exception):
    """Everything that was recorded of a run that is still going on has been derived again."""


class Record:
    """The rows of a journal, without remarks, and how far they were derived again.

    Without `models`, what only training can tell is believed: the names of models, losses, scores and which reports were refused.
    """

    def __init__(self, rows: Sequence[Numbered], *, models: bool) -> None:
        self.rows = [pair for pair in rows if pair[1][1] != Kind.NOTE]
        self.models = models
        self.at = 0
        self.events = 0
        self.commits = 0
        self._complete = bool(self.rows) and self.rows[-1][1][1] == Kind.ENDED

    @property
    def number(self) -> int:
        """The number of the row that stands next; 0 at the end."""
        return self.rows[self.at][0] if self.at < len(self.rows) else 0

    def hear(self, events: Sequence[Event]) -> None:
        """Compare events that were derived with the rows that stand next in the record."""
        for event in events:
            self.events += 1
            committed = type(event) is ModelCommitted
            self.commits += committed
            if committed and not self.models:
                event = replace(event, model_hash="")  # a name that nobody looks at need not be found out
            for row in encode(event)[0]:
                self._compare(row)

    def check_end(self) -> None:
        """The derived run is over: so must be the record."""
        if self.at < len(self.rows):
            number, row = self.rows[self.at]
            raise Lie(number, f"it says {described(row)}, but the run was over before")

    def _compare(self, row: Values) -> None:
        if self.at == len(self.rows):
            if self._complete:
                raise Lie(0, f"the journal ends before a row that says {described(row)}, which follows from the run")
            raise Enough
        number, stored = self.rows[self.at]
        self.at += 1
        if stored == row:
            return
        believed = () if self.models else _BELIEVED.get(row[1], ())
        names = [n for n in COLUMNS if n not in believed]
        odd = next((n for n in names if not _alike(getattr(Row._make(stored), n), getattr(Row._make(row), n))), None)
        if odd is not None:
            says, follows = (_short(getattr(Row._make(r), odd)) for r in (stored, row))
            raise Lie(number, f"in the row {described(stored)!r}, {odd} is {says}, but {follows} follows from the run")

    # ---- what is believed where nothing is trained ---------------------------------------------------------------

    def gathered(self, now: float, ahead: int) -> ReportsGathered:
        """Which reports could be used, as the record says, so many rows ahead of what was heard."""
        fact, row = self._believed(ReportsGathered, Kind.GATHERED, "reports are gathered", ahead)
        next_ = self.at + ahead + 1
        after = [r for _, r in self.rows[next_ : next_ + max(0, int(row[5]))]]
        rejected = tuple(Rejected(r[4], r[5], r[8] or "") for r in after if r[1] == Kind.REJECTED)
        return replace(fact, time=now, rejected=rejected)

    def evaluated(self, now: float, version: int, ahead: int) -> Evaluated:
        """How a model did, as the record says, so many rows ahead of what was heard."""
        fact, _ = self._believed(Evaluated, Kind.EVALUATED, "a model is evaluated", ahead)
        return replace(fact, time=now, version=version)

    def probed(self, now: float) -> Probed:
        """What clients answered, as the record says."""
        return replace(self._believed(Probed, Kind.PROBED, "clients are probed", 0)[0], time=now)

    def _believed(self, event: type[T], kind: int, what: str, ahead: int) -> tuple[T, Values]:
        row = self._next(kind, what, ahead)
        try:
            fact = next(iter(decode([row])))
            int(row[5])
        except (Unreadable, ValueError, TypeError) as wrong:
            raise Lie(self.rows[self.at + ahead][0], f"it cannot be read ({wrong})") from None
        assert isinstance(fact, event)
        return fact, row

    def _next(self, kind: int, what: str, ahead: int) -> Values:
        """The row that will stand next when as many more are heard; remember that facts are derived before they are heard."""
        if self.at + ahead >= len(self.rows):
            if self._complete:
                raise Lie(0, f"the journal ends where {what}")
            raise Enough
        number, row = self.rows[self.at + ahead]
        if row[1] != kind:
            raise Lie(number, f"it says {described(row)}, but in the run {what} here")
        return row


def _alike(stored: object, derived: object) -> bool:
    """Equal, where the store keeps NaN as nothing."""
    return stored == derived or (stored is None and isinstance(derived, float) and math.isnan(derived))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}.. ({len(text)} characters)"
