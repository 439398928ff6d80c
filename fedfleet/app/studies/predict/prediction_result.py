"""What a prediction says: records whose fields are the JSON answer, and whose text is what the command line prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.app.terminal.text import failure_lines, percent, span
from fedfleet.measure.run_tables import Columns

_MARKS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Range:
    """A value and between what it lies: the 90 % interval of an accuracy, all draws of what is counted."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class Predicted:
    """What a run will come to, before it is trained; `print` shows it in words.

    `curve` has columns seconds (virtual), commits, accuracy, low and high, the band around it: `pandas.DataFrame(found.curve)`.
    `left_out` says who will be in no model and what they have in common, `clock` how far each label is learnt, in commits of an
    ideal fleet; `band` where the error band is from, `notes` what the prediction cannot see.

    Of other tasks than classification no score is predicted: `accuracy`, `ideal_accuracy` and `reference` are None, and `curve` has
    seconds and commits. `score` is what their score is called, `by` what the entries of `clock` are: labels, or ranges of the
    target.
    """

    accuracy: Range | None
    ideal_accuracy: float | None
    commits: Range
    rounds: float
    failed_rounds: Mapping[str, float]
    virtual_seconds: Range
    target: Mapping[str, float | None] | None
    curve: Columns
    clock: Mapping[str, float]
    effective: float
    noise: float
    exponent: float
    cohort: int
    closed_form: Mapping[str, Any] | None
    left_out: Mapping[str, Any]
    draws: int
    reference: Mapping[str, Any] | None
    band: str
    notes: tuple[str, ...]
    seconds: float
    score: str = "accuracy"
    by: str = "label"
    page: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """What `fedfleet predict --json` answers."""
        left_out = {"page"} if self.accuracy is None else {"page", "score", "by"}  # of a classification both are known
        return {f.name: _json_value(getattr(self, f.name)) for f in fields(self) if f.name not in left_out}

    answer = to_dict  # its name before

    def __repr__(self) -> str:
        if not self.commits.high:
            return f"Predicted(no model in {self.rounds:.0f} rounds, {span(self.virtual_seconds.value)} of virtual time)"
        if self.accuracy is None:
            return (
                f"Predicted({self.commits.value:.0f} models of {self.rounds:.0f} rounds, {span(self.virtual_seconds.value)} of "
                f"virtual time, {percent(self.left_out['never'])} of clients in no model; {self.score} is not predicted)"
            )
        between = f"{percent(self.accuracy.low)} to {percent(self.accuracy.high)}"
        return (
            f"Predicted({percent(self.accuracy.value)} at the end ({between}), {self.commits.value:.0f} models of "
            f"{self.rounds:.0f} rounds, {span(self.virtual_seconds.value)} of virtual time, "
            f"{percent(self.left_out['never'])} of clients in no model)"
        )

    def __str__(self) -> str:
        ideal = f"an ideal fleet (all clients alike and always available) reaches {percent(self.ideal_accuracy)}"
        known, after, has_model = self.reference is not None, "", self.commits.high > 0
        if self.reference is not None:
            reference = f"{self.reference['seconds']:.0f} s{' (cached)' if self.reference['kept'] else ''}"
            after = f", after reference runs of {reference}"
        lines = [
            *(self._accuracy_lines(ideal) if has_model else [self._no_model_line(ideal if known else "")]),
            *failure_lines(self.failed_rounds),
            *([self._curve_line()] if has_model and known else []),
            *self._target_lines(),
            self.left_out["sentence"],
            *([self._clock_line()] if has_model else []),
            *(f"limitation: {note}" for note in self.notes),
            f"{self.draws} draws with other seeds than the run's own in {self.seconds:.2g} s{after}",
            *([f"source of the error band: {self.band}"] if has_model and known else []),
        ]
        return "\n".join(lines)

    def _accuracy_lines(self, ideal: str) -> list[str]:
        accuracy, commits = self.accuracy, self.commits
        return [
            f"accuracy at the end: {percent(accuracy.value)}, 90 % interval: {percent(accuracy.low)} to {percent(accuracy.high)}; "
            f"{ideal}"
            if accuracy is not None
            else f"{self.score} at the end: not predicted",
            f"{commits.value:.0f} commits ({commits.low:.0f} to {commits.high:.0f}) in {self.rounds:.0f} rounds and "
            f"{span(self.virtual_seconds.value)} of virtual time",
        ]

    def _no_model_line(self, ideal: str) -> str:
        return (
            f"no model: none of {self.rounds:.0f} rounds in {span(self.virtual_seconds.value)} of virtual time ends with a commit"
            f"{'; ' if ideal else ''}{ideal}"
        )

    def _curve_line(self) -> str:
        marks = [round(share * (len(self.curve["seconds"]) - 1)) for share in _MARKS]
        points = [f"{percent(self.curve['accuracy'][i])} after {span(self.curve['seconds'][i])}" for i in marks]
        return f"on the way: {', '.join(points)}"

    def _target_lines(self) -> list[str]:
        if self.target is None:
            return []
        seconds = self.target["seconds"]
        when = "not reached within these rounds" if seconds is None else f"reached after {span(seconds)}"
        return [f"target accuracy of the spec, {percent(self.target['accuracy'])}: {when}"]

    def _clock_line(self) -> str:
        effective = f"the models rest on {percent(self.effective)} of the fleet's samples"
        if len(self.clock) == 1:
            return f"clock: the data are learnt as by {max(self.clock.values()):.0f} commits of an ideal fleet; {effective}"
        low, high = min(self.clock, key=lambda c: self.clock[c]), max(self.clock, key=lambda c: self.clock[c])
        name = "class clock: labels are" if self.by == "label" else f"clock by {self.by}: its ranges are"
        return (
            f"{name} learnt as by {self.clock[low]:.0f} ({self.by} {low}) to {self.clock[high]:.0f} ({self.by} {high}) "
            f"commits of an ideal fleet; {effective}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Swept:
    """One key at many values, each predicted: `rows` in the order of the values, with accuracy, commits, virtual_seconds,
    seconds_to_target (None: never) and never, the share of clients in no model: `pandas.DataFrame(found.rows)`.

    `best` reaches the accuracy `target` first, or comes nearest to it for its time; `sentence` says it.
    """

    key: str
    rows: Sequence[Mapping[str, Any]]
    target: float
    best: float | int
    seconds: float
    reference: Mapping[str, Any]
    sentence: str
    page: Path | None = None

    def to_dict(self) -> dict[str, Any]:
        """What `fedfleet predict --sweep --json` answers."""
        return {f.name: _json_value(getattr(self, f.name)) for f in fields(self) if f.name != "page"}

    answer = to_dict  # its name before

    def __repr__(self) -> str:
        return f"Swept({self.key} at {len(self.rows)} values: {self.sentence})"

    def __str__(self) -> str:
        width = max(len(self.key), 12)
        head = f"{self.key:>{width}}  {'accuracy':>9}  {'commits':>7}  {'ends after':>10}  {'to target':>10}  {'never in':>8}"
        rows = [
            f"{row['value']:>{width}}  {percent(row['accuracy']) if row['commits'] else 'no model':>9}  {row['commits']:>7.0f}  "
            f"{span(row['virtual_seconds']):>10}  "
            f"{'-' if row['seconds_to_target'] is None else span(row['seconds_to_target']):>10}  {percent(row['never']):>8}"
            for row in self.rows
        ]
        note = f"target: {percent(self.target)}, 90 % of what an ideal fleet reaches; {self.seconds:.2g} s"
        return "\n".join([head, *rows, note, self.sentence])


def _json_value(value: Any) -> Any:
    if isinstance(value, Range):
        return asdict(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {key: one.tolist() if isinstance(one, np.ndarray) else one for key, one in value.items()}
    return value
