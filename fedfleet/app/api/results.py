"""What the Python calls find: records with units in their names, whose text is what the command line prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedfleet.app.terminal.hardness_text import hardness_text
from fedfleet.app.terminal.prediction_text import prediction_text, sweep_text
from fedfleet.app.terminal.text import fleet_metrics_text, percent, span
from fedfleet.measure.run_tables import Columns


@dataclass(frozen=True, slots=True)
class Range:
    """A value and between what it lies: nine times of ten for an accuracy, over all draws for what is counted."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class Predicted:
    """What a run will come to, before it is trained; `print` shows it in words.

    `curve` has columns seconds (virtual), commits, accuracy, low and high, the band around it: `pandas.DataFrame(found.curve)`.
    `left_out` says who will be in no model and what they have in common, `clock` how far each label is learnt, in commits of an
    ideal fleet; `band` where the error band is from, `notes` what the prediction cannot see.
    """

    accuracy: Range
    ideal_accuracy: float
    commits: Range
    rounds: float
    failed_rounds: Mapping[str, float]
    virtual_seconds: Range
    curve: Columns
    clock: Mapping[str, float]
    left_out: Mapping[str, Any]
    band: str
    notes: tuple[str, ...]
    page: Path | None = None
    json_answer: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def answer(self) -> dict[str, Any]:
        """What `fedfleet predict --json` answers."""
        return dict(self.json_answer)

    def __repr__(self) -> str:
        if not self.commits.high:
            return (
                f"Predicted(no model in {self.rounds:.0f} rounds, {span(self.virtual_seconds.value)} of virtual time)"
            )
        between = f"{percent(self.accuracy.low)} to {percent(self.accuracy.high)}"
        return (
            f"Predicted({percent(self.accuracy.value)} at the end ({between}), {self.commits.value:.0f} models of "
            f"{self.rounds:.0f} rounds, {span(self.virtual_seconds.value)} of virtual time, "
            f"{percent(self.left_out['never'])} of clients in no model)"
        )

    def __str__(self) -> str:
        return prediction_text(self.answer())


def make_predicted(json_answer: dict[str, Any], page: Path | None = None) -> Predicted:
    """The record of a prediction's JSON object."""
    return Predicted(
        Range(**json_answer["accuracy"]),
        json_answer["ideal_accuracy"],
        Range(**json_answer["commits"]),
        json_answer["rounds"],
        json_answer["failed_rounds"],
        Range(**json_answer["virtual_seconds"]),
        {name: np.array(values) for name, values in json_answer["curve"].items()},
        json_answer["clock"],
        json_answer["left_out"],
        json_answer["band"],
        tuple(json_answer["notes"]),
        page,
        json_answer,
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
    sentence: str
    page: Path | None = None
    json_answer: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def answer(self) -> dict[str, Any]:
        """What `fedfleet predict --sweep --json` answers."""
        return dict(self.json_answer)

    def __repr__(self) -> str:
        return f"Swept({self.key} at {len(self.rows)} values: {self.sentence})"

    def __str__(self) -> str:
        return sweep_text(self.answer())


def make_swept(json_answer: dict[str, Any], page: Path | None = None) -> Swept:
    """The record of a sweep's JSON object."""
    return Swept(
        json_answer["key"],
        json_answer["rows"],
        json_answer["target"],
        json_answer["best"],
        json_answer["sentence"],
        page,
        json_answer,
    )


@dataclass(frozen=True, slots=True)
class Metric:
    """One of the six metrics over seeds. `value` is the metric itself, `comes_to` what that means, in `unit`: the share of fair
    work that gets through (R), or the seconds of a round (T); `ci95` is the 95 % interval of that, None for one seed. `word` says
    how hard that is, where a spec says for what."""

    value: float
    sd: float
    comes_to: float
    unit: Literal["share of fair work", "seconds of a round"]
    ci95: tuple[float, float] | None
    seeds: int
    word: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Measured:
    """How hard a fleet is, by the names of the metrics (DevMC-R ..); `print` shows it in words.

    Of a spec: `verdict` in words, `clock`, the class clock (None: `not_measured` says why), and what all of it was measured
    `under`. Of files: `per_state`, the score of each state, and `against`, the distances to another fleet, where one was named.
    """

    metrics: Mapping[str, Metric]
    verdict: str = ""
    clock: Mapping[str, Any] | None = None
    under: Mapping[str, Any] = field(default_factory=dict[str, Any])
    not_measured: tuple[str, ...] = ()
    per_state: Mapping[str, float] | None = None
    against: Mapping[str, float] | None = None
    page: Path | None = None
    json_answer: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def answer(self) -> dict[str, Any]:
        """What `fedfleet measure --json` answers."""
        return dict(self.json_answer)

    def __repr__(self) -> str:
        parts = [f"{name} {metric.value:.4g}: {_metric_text(metric)}" for name, metric in self.metrics.items()]
        return f"Measured({'; '.join(parts) or self.verdict})"

    def __str__(self) -> str:
        return hardness_text(self.answer()) if self.under else fleet_metrics_text(self.answer())


def make_measured(json_answer: dict[str, Any], page: Path | None = None) -> Measured:
    """The record of a fleet's JSON object, be it of a spec or of files."""
    metrics = {name: _metric(name, entry) for name, entry in json_answer.items() if "MC-" in name}
    return Measured(
        metrics,
        json_answer.get("verdict", ""),
        json_answer.get("clock"),
        json_answer.get("under", {}),
        tuple(json_answer.get("not_measured", ())),
        json_answer.get("per_state"),
        json_answer.get("against"),
        page,
        json_answer,
    )


def _metric(name: str, entry: Mapping[str, Any]) -> Metric:
    by_share = name.endswith("-R")
    comes_to, unit = (
        (entry["fair_work"], "share of fair work") if by_share else (entry["round_seconds"], "seconds of a round")
    )
    interval = entry.get("comes_to_ci95", entry["ci95"])  # of a spec the interval is of what it comes to
    return Metric(
        entry["value"],
        entry["sd"],
        comes_to,
        unit,
        None if interval is None else (interval[0], interval[1]),
        entry["seeds"],
        entry.get("word"),
        tuple(entry["notes"]),
    )


def _metric_text(metric: Metric) -> str:
    text = (
        f"{percent(metric.comes_to)} of fair work"
        if metric.unit == "share of fair work"
        else f"{span(metric.comes_to)} a round"
    )
    return text if metric.word is None else f"{text}, {metric.word}"


@dataclass(frozen=True, slots=True, repr=False)
class Reported:
    """The page of a run, a study or a search that was written; `told` is what `fedfleet report --json` answers."""

    kind: Literal["run", "study", "search"]
    page: Path
    text: str
    json_answer: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def answer(self) -> dict[str, Any]:
        """What `fedfleet report --json` answers."""
        return dict(self.json_answer)

    def __repr__(self) -> str:
        return f"Reported({self.kind}: {self.page})"

    def __str__(self) -> str:
        return self.text
