"""What `fedfleet.measure` finds: the metrics of a fleet with their units, and the text that the command line prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any, Literal

from fedfleet.app.terminal.text import percent, size, span

_WIDTH = 118
_PARTS = {"Dev": "devices alone", "Stat": "reachability alone", "Inter": "both together"}
_MEANING = {
    "DevMC-R": "devices, rounds with a deadline: higher is easier",
    "DevMC-T": "devices, waiting for a share of the cohort: lower is easier",
    "StatMC-R": "reachability, rounds with a deadline: higher is easier",
    "StatMC-T": "reachability, waiting for a share of the cohort: lower is easier",
    "InterMC-R": "both, rounds with a deadline: higher is easier",
    "InterMC-T": "both, waiting for a share of the cohort: lower is easier",
}


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
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def to_dict(self) -> dict[str, Any]:
        """What `fedfleet measure --json` answers."""
        return dict(self.values)

    answer = to_dict  # its name before

    def __repr__(self) -> str:
        parts = [f"{name} {metric.value:.4g}: {_metric_text(metric)}" for name, metric in self.metrics.items()]
        return f"Measured({'; '.join(parts) or self.verdict})"

    def __str__(self) -> str:
        return _spec_text(self.values) if self.under else _files_text(self.values)


def make_measured(values: dict[str, Any], page: Path | None = None) -> Measured:
    """The record of what was measured, be it of a spec or of files; it keeps `values`, the JSON object, as it is."""
    return Measured(
        {name: _metric(name, entry) for name, entry in values.items() if "MC-" in name},
        values.get("verdict", ""),
        values.get("clock"),
        values.get("under", {}),
        tuple(values.get("not_measured", ())),
        values.get("per_state"),
        values.get("against"),
        page,
        values,
    )


def _metric(name: str, entry: Mapping[str, Any]) -> Metric:
    by_share = name.endswith("-R")
    interval = entry.get("comes_to_ci95", entry["ci95"])  # of a spec the interval is of what it comes to
    return Metric(
        entry["value"],
        entry["sd"],
        entry["fair_work"] if by_share else entry["round_seconds"],
        "share of fair work" if by_share else "seconds of a round",
        None if interval is None else (interval[0], interval[1]),
        entry["seeds"],
        entry.get("word"),
        tuple(entry["notes"]),
    )


def _metric_text(metric: Metric) -> str:
    by_share = metric.unit == "share of fair work"
    text = f"{percent(metric.comes_to)} of fair work" if by_share else f"{span(metric.comes_to)} a round"
    return text if metric.word is None else f"{text}, {metric.word}"


def _files_text(values: Mapping[str, Any]) -> str:
    """The metrics of a fleet of files, each with its meaning."""
    found = {name: values[name] for name in _MEANING if name in values}
    lines = [
        f"{name:<10} {m['value']:>10.4g}  {_seeds_interval(m):<46} {_MEANING[name]}; {_round_meaning(m)}"
        for name, m in found.items()
    ]
    lines += [f"note: {note}" for m in found.values() for note in m["notes"]]
    scores = sorted((values.get("per_state") or {}).values())
    if scores:
        worst, median, best = scores[0], scores[len(scores) // 2], scores[-1]
        lines.append(f"{len(scores)} different states: the worst scores {worst:.3f}, the median {median:.3f}, the best {best:.3f}")
    if "against" in values:
        lines.append(", ".join(f"{k} {v:.4g}" for k, v in values["against"].items()))
    return "\n".join(lines)


def _seeds_interval(metric: Mapping[str, Any]) -> str:
    """The labelled interval of a metric.

    >>> _seeds_interval({"ci95": [0.9, 1.1], "seeds": 3})
    '95 % interval 0.9 to 1.1 over 3 seeds'
    """
    if metric["ci95"] is None:
        return "one seed, so no interval"
    low, high = metric["ci95"]
    return f"95 % interval {low:.4g} to {high:.4g} over {metric['seeds']} seeds"


def _round_meaning(metric: Mapping[str, Any]) -> str:
    if "fair_work" in metric:
        return f"{percent(metric['fair_work'])} of fair work gets through"
    return f"a round takes {span(metric['round_seconds'])}"


def _spec_text(values: Mapping[str, Any]) -> str:
    """The verdict first, then each metric with its unit and interval, the clock, and what all of it was measured under."""
    conditions = values["under"]
    shares = {n: m for n, m in values.items() if n.endswith("MC-R")}
    waits = {n: m for n, m in values.items() if n.endswith("MC-T")}
    lines = [fill(values["verdict"], _WIDTH)]
    if shares:
        deadline = "" if conditions["deadline_seconds"] is None else f" within {span(conditions['deadline_seconds'])}"
        title = (
            f"Fair work that gets through{deadline}: reports in time, at most an equal share for each client. An ideal "
            f"fleet, in which all clients are always in time, gets {percent(conditions['ideal_fair_work'])}, since chance selects "
            "some clients more often than others. The words (easy .. very hard) are relative to that; mild, moderate and severe "
            "are FLHetBench's fleets"
        )
        lines += ["", fill(title, _WIDTH), *(_share_line(n, m) for n, m in shares.items())]
    if waits:
        share_text = "all" if conditions["ready_share"] == 1.0 else percent(conditions["ready_share"])
        instead = " instead" if shares else ""
        title = f"A round that waits for {share_text} of its {conditions['cohort']} clients{instead}, pause included"
        lines += ["", title, *(_wait_line(n, m) for n, m in waits.items())]
    lines += [f"note: {note}" for m in (*shares.values(), *waits.values()) for note in m["notes"]]
    lines += [*_clock_lines(values["clock"]), "", fill(_conditions_text(conditions), _WIDTH)]
    return "\n".join([*lines, *(fill(f"not measured: {reason}", _WIDTH) for reason in values["not_measured"])])


def _share_line(name: str, m: Mapping[str, Any]) -> str:
    end = f"{name} {m['value']:.4g}; {m['beside']}"
    return f"  {_measured_part(name):<19} {percent(m['fair_work']):>8}  {_range_text(m, percent):<22} {m['word']:<9}  {end}"


def _wait_line(name: str, m: Mapping[str, Any]) -> str:
    end = f"{name} {m['value']:.4g}; {m['times_undisturbed']:.3g} times an undisturbed round"
    return f"  {_measured_part(name):<19} {span(m['round_seconds']):>8}  {_range_text(m, span):<22} {m['word']:<9}  {end}"


def _measured_part(name: str) -> str:
    return _PARTS[name.partition("MC")[0]]


def _range_text(m: Mapping[str, Any], format_value: Callable[[float], str]) -> str:
    return "(one seed)" if m["ci95"] is None else f"({format_value(m['ci95'][0])} to {format_value(m['ci95'][1])})"


def _clock_lines(clock: Mapping[str, Any] | None) -> list[str]:
    """The class clock with its gloss, as many labels in a line as fit."""
    if clock is None:
        return []
    shown = {"label": "each label", "target": "each range of the target"}.get(clock.get("by", "label"), "the data")
    head = "Class clock" if clock.get("by", "label") == "label" else "Clock"
    label_values = ", ".join(f"{label}: {value:.3g}" for label, value in clock["classes"].items())
    gloss = (
        f"{head}: how many rounds of an ideal fleet (all clients alike and always available) would show {shown} as much as "
        f"{clock['rounds_done']:.0f} rounds of this one do, of which {clock['commits']:.3g} give a model"
    )
    effective = (
        f"n_eff: the models rest on {percent(clock['effective'])} of the fleet's samples; the less, the more often the same few "
        "clients are selected"
    )
    labels = fill(label_values, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return ["", fill(gloss, _WIDTH), labels, fill(effective, _WIDTH), *(f"note: {note}" for note in clock["notes"])]


def _conditions_text(conditions: Mapping[str, Any]) -> str:
    trip = f" (a usual trip takes {span(conditions['trip_seconds'])})" if conditions["trip_seconds"] else ""
    seeds = f"95 % intervals over {conditions['seeds']} seeds" if conditions["seeds"] > 1 else "one seed, so no intervals"
    return (
        f"Simulated without training, under the spec's own pacing: {conditions['clients']:,} clients, "
        f"{conditions['cohort']} at a time, {conditions['rounds']:,} rounds, {size(conditions['model_bytes'])} each way, "
        f"{conditions['samples']:,.0f} samples a task{trip}, a pause of {span(conditions['pause_seconds'])} before each round; "
        f"{seeds}. Only the clock counts rounds that fail for too few reports, and data of different size."
    )
