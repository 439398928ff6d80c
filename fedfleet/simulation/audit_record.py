"""The record of a run, read from front to back beside a run that derives it again: the first row that differs lies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated, Event, ModelCommitted, Probed, ReportsGathered
from fedfleet.core.parts import Executor, Trial
from fedfleet.core.records import Rejection, Score
from fedfleet.core.trees import Tree
from fedfleet.store.journal_rows import COLUMNS, Kind, Row, UnreadableRow, Values, decode, describe_row, encode
from fedfleet.store.row_text import decode_scores

Numbered = tuple[int, Values]
T = TypeVar("T")
# Columns that only training can tell, by kind.
_UNCHECKED_COLUMNS = {Kind.COMMITTED: ("body", "note"), Kind.GATHERED: ("note",)}


class Mismatch(RunFailed):
    """A row of the journal that does not follow from what the run is; `row` is its number, 0: it is missing at the end."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(f"row {row} of the journal is wrong: {text}" if row else text)
        self.row = row


class RecordEnd(Exception):
    """Everything that was recorded of a run that is still going on has been derived again."""


def _recorded_measures(row: Values) -> Mapping[str, float]:
    """The measures in the row of an evaluation; none in any other."""
    if row[1] != Kind.EVALUATED or not row[8]:
        return {}
    try:
        return decode_scores(row[8])[1]
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


class Record:
    """The rows of a journal, without remarks, and how far they were derived again.

    Without `models`, what only training can tell is believed: the names of models, losses, scores and which reports were refused.
    """

    def __init__(self, rows: Sequence[Numbered], *, models: bool) -> None:
        self.rows = [pair for pair in rows if pair[1][1] != Kind.NOTE]
        self.models = models
        self.position = 0
        self.events = 0
        self.commits = 0
        self._complete = bool(self.rows) and self.rows[-1][1][1] == Kind.ENDED

    @property
    def number(self) -> int:
        """The number of the row that stands next; 0 at the end."""
        return self.rows[self.position][0] if self.position < len(self.rows) else 0

    def check_events(self, events: Sequence[Event]) -> None:
        """Compare events that were derived with the rows that stand next in the record."""
        for event in events:
            self.events += 1
            committed = type(event) is ModelCommitted
            self.commits += committed
            if committed and not self.models:
                event = replace(event, model_hash="")  # a name that is never read need not be found out
            if type(event) is Evaluated:
                event = self._with_believed_metrics(event)
            for row in encode(event)[0]:
                self._compare(row)

    def _with_believed_metrics(self, event: Evaluated) -> Evaluated:
        """The evaluation with what a person's own metrics said in the record, where their code is not run again."""
        row = self.rows[self.position][1] if self.position < len(self.rows) else None
        return event if row is None else replace(event, measures={**_recorded_measures(row), **event.measures})

    def with_believed_metrics(self, execute: Executor) -> Executor:
        """The executor, whose evaluations know what a person's own metrics said in the record: a stopping rule may go by them.

        The journal has the models in the order in which they are evaluated; one that is evaluated again has the same parameters.
        """
        by_version = {Row._make(row).version: _recorded_measures(row) for _, row in self.rows if row[1] == Kind.EVALUATED}
        recorded = iter(by_version.values())
        last: tuple[Tree, Mapping[str, float]] | None = None

        def evaluate(trials: Sequence[Trial]) -> Iterator[Score]:
            nonlocal last
            for trial, score in zip(trials, execute.evaluate(trials), strict=True):
                if not trial.measured:
                    yield score
                    continue
                if last is None or trial.params is not last[0]:
                    last = trial.params, next(recorded, {})
                yield replace(score, measures={**last[1], **score.measures})

        return replace(execute, evaluate=evaluate)

    def check_end(self) -> None:
        """The derived run is over: so must be the record."""
        if self.position < len(self.rows):
            number, row = self.rows[self.position]
            raise Mismatch(number, f"it says {describe_row(row)}, but the run was over before")

    def _compare(self, row: Values) -> None:
        if self.position == len(self.rows):
            if self._complete:
                raise Mismatch(0, f"the journal ends before a row that says {describe_row(row)}, which follows from the run")
            raise RecordEnd
        number, stored = self.rows[self.position]
        self.position += 1
        if stored == row:
            return
        unchecked = () if self.models else _UNCHECKED_COLUMNS.get(row[1], ())
        names = [n for n in COLUMNS if n not in unchecked]
        for name in names:
            old, new = (getattr(Row._make(r), name) for r in (stored, row))
            # The store keeps NaN as nothing.
            if old == new or (old is None and isinstance(new, float) and math.isnan(new)):
                continue
            old, new = (t if len(t) <= 60 else f"{t[:40]}.. ({len(t)} characters)" for t in (repr(old), repr(new)))
            raise Mismatch(number, f"in the row {describe_row(stored)!r}, {name} is {old}, but {new} follows from the run")

    # ---- what is believed where nothing is trained ---------------------------------------------------------------

    def recorded_gather(self, now: float, ahead: int) -> ReportsGathered:
        """Which reports could be used, as the record says, that many rows ahead of what was heard."""
        fact, row = self._recorded_fact(ReportsGathered, Kind.GATHERED, "reports are gathered", ahead)
        next_ = self.position + ahead + 1
        after = [r for _, r in self.rows[next_ : next_ + max(0, int(row[5]))]]
        rejected = tuple(Rejection(r[4], r[5], r[8] or "") for r in after if r[1] == Kind.REJECTED)
        return replace(fact, time=now, rejected=rejected)

    def recorded_evaluation(self, now: float, version: int, ahead: int) -> Evaluated:
        """How a model did, as the record says, that many rows ahead of what was heard."""
        fact, _ = self._recorded_fact(Evaluated, Kind.EVALUATED, "a model is evaluated", ahead)
        return replace(fact, time=now, version=version)

    def recorded_probe(self, now: float) -> Probed:
        """What clients answered, as the record says."""
        return replace(self._recorded_fact(Probed, Kind.PROBED, "clients are probed", 0)[0], time=now)

    def _recorded_fact(self, event: type[T], kind: int, what: str, ahead: int) -> tuple[T, Values]:
        # The row that will stand next when as many more are heard; remember that facts are derived before they are heard.
        if self.position + ahead >= len(self.rows):
            if self._complete:
                raise Mismatch(0, f"the journal ends where {what}")
            raise RecordEnd
        number, row = self.rows[self.position + ahead]
        if row[1] != kind:
            raise Mismatch(number, f"it says {describe_row(row)}, but in the run {what} here")
        try:
            fact = next(decode([row], number))
            int(row[5])
        except (UnreadableRow, ValueError, TypeError) as error:
            raise Mismatch(number, f"it cannot be read ({error})") from None
        assert isinstance(fact, event)
        return fact, row
