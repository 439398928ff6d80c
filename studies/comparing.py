"""Means over seeds with intervals, times that were not reached, and who wins: as tables and in words.

A time to accuracy is restricted to the horizon: a run that does not get there counts as the whole horizon, and the mean is marked
(restricted mean, as for lifetimes). Intervals are Student's, 95 %, over seeds. A winner is named only if its interval lies clear of
all others in the table; there is no correction for how many are compared.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fedfleet.measure.statistics.means import mean_of

MARK = "†"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave, or why there is none."""

    accuracy: float | None = None
    seconds_to_target: float | None = None
    commits: int = 0
    seconds: float = 0.0  # of real time; 0: it was there
    refused: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Cell:
    """A selector under a policy on a fleet: over seeds, or why it is empty."""

    task: str
    fleet: str
    selector: str
    policy: str
    seeds: int
    target: float
    horizon: float
    time: Mean | None
    late: int  # seeds that did not reach the target
    accuracy: Mean | None
    commits: float
    reason: str


def interval(values: Sequence[float], least: float, most: float) -> Mean:
    """The mean and Student's 95 % interval, within what is possible; of one value nothing is known but itself.

    >>> interval([1.0, 2.0, 3.0], 0.0, 4.0)
    Mean(value=2.0, low=0.0, high=4.0)
    """
    found = mean_of(values, least=least, most=most)
    return Mean(found.value, least if found.low is None else found.low, most if found.high is None else found.high)


def cell_of(pair: tuple[str, str, str, str], got: Sequence[Outcome], *, target: float, horizon: float) -> Cell:
    """Put the seeds of a pair together; if one was refused or failed, the cell is empty and says why."""
    reason = next((g.refused or g.failed for g in got if g.refused or g.failed), "")
    if reason:
        return Cell(*pair, len(got), target, horizon, None, 0, None, 0.0, reason)
    times = [horizon if g.seconds_to_target is None else min(g.seconds_to_target, horizon) for g in got]
    late = sum(g.seconds_to_target is None or g.seconds_to_target > horizon for g in got)
    ends = [g.accuracy or 0.0 for g in got]
    commits = statistics.fmean(g.commits for g in got)
    return Cell(*pair, len(got), target, horizon, interval(times, 0.0, horizon), late, interval(ends, 0.0, 1.0), commits, "")


def verdict(cells: Sequence[Cell], *, by_time: bool) -> str:
    """Who wins among these, in words; nobody, where the intervals overlap."""
    there = [c for c in cells if c.time is not None and (not by_time or c.late < c.seeds)]
    if not there:
        return "nobody reached the target" if by_time else "there is nothing to compare"

    def mine(c: Cell) -> Mean:
        found = c.time if by_time else c.accuracy
        assert found is not None
        return found

    best = min(there, key=lambda c: mine(c).value if by_time else -mine(c).value)
    near = [c for c in there if c is not best and mine(c).low <= mine(best).high and mine(best).low <= mine(c).high]
    if not near:
        return f"{_name(best, cells)} wins" if len(there) > 1 else f"only {_name(best, cells)}"
    others = ", ".join(_name(c, cells) for c in near[:4]) + (f" and {len(near) - 4} more" if len(near) > 4 else "")
    return f"no winner: {_name(best, cells)} has the best mean, and cannot be told from {others}"


def _name(cell: Cell, cells: Sequence[Cell]) -> str:
    return cell.selector if len({c.policy for c in cells}) == 1 else f"{cell.selector} under {cell.policy}"


def markdown(cells: Sequence[Cell], *, seeds: int, seconds: float) -> str:
    """Two tables for each task and fleet, the verdicts, and why cells are empty."""
    lines = [f"{seeds} seeds, mean and 95 % interval; made in {seconds / 60:.1f} minutes.", ""]
    reasons: dict[str, int] = {}
    for task, fleet in dict.fromkeys((c.task, c.fleet) for c in cells):
        here = [c for c in cells if (c.task, c.fleet) == (task, fleet)]
        lines += [f"## {task} on the fleet {fleet}", ""]
        lines += [f"Minutes of virtual time to {100 * here[0].target:.0f} % (of {here[0].horizon / 60:,.0f}; {MARK}n: n seeds did not get there and count as all of them):", ""]  # fmt: skip
        lines += _table(here, reasons, by_time=True)
        lines += ["", "Accuracy at the end, per cent:", "", *_table(here, reasons, by_time=False), ""]
        for policy in dict.fromkeys(c.policy for c in here):
            column = [c for c in here if c.policy == policy]
            if any(c.time for c in column):
                lines.append(f"- {policy}: to the target, {verdict(column, by_time=True)}; at the end, {verdict(column, by_time=False)}.")  # fmt: skip
        lines += [f"- all pairs: to the target, {verdict(here, by_time=True)}; at the end, {verdict(here, by_time=False)}.", ""]  # fmt: skip
    if reasons:
        lines += ["Empty cells:", "", *(f"{number}. {reason}" for reason, number in reasons.items()), ""]
    return "\n".join(lines)


def _table(cells: Sequence[Cell], reasons: dict[str, int], *, by_time: bool) -> list[str]:
    policies = list(dict.fromkeys(c.policy for c in cells))
    found = {(c.selector, c.policy): c for c in cells}
    rows = [f"| | {' | '.join(policies)} |", f"| --- |{' --- |' * len(policies)}"]
    for selector in dict.fromkeys(c.selector for c in cells):
        said = [_said(found[selector, policy], reasons, by_time=by_time) for policy in policies]
        rows.append(f"| {selector} | {' | '.join(said)} |")
    return rows


def _said(cell: Cell, reasons: dict[str, int], *, by_time: bool) -> str:
    mean, scale = (cell.time, 1 / 60) if by_time else (cell.accuracy, 100.0)
    if mean is None:
        return f"({reasons.setdefault(cell.reason, len(reasons) + 1)})"
    if by_time and cell.late == cell.seeds:
        return f"never{MARK}{cell.late}"
    value, low, high = (f"{v * scale:.{0 if by_time and cell.horizon > 6000 else 1}f}" for v in (mean.value, mean.low, mean.high))
    return f"{value} ({low} to {high})" + (f" {MARK}{cell.late}" if by_time and cell.late else "")


def comma_separated(cells: Sequence[Cell]) -> str:
    """All figures, one line a cell, times in seconds."""
    to = io.StringIO()
    sheet = csv.writer(to, lineterminator="\n")
    head = ["task", "fleet", "selector", "policy", "seeds", "target", "horizon", "time", "time_low", "time_high", "not_reached", "accuracy", "accuracy_low", "accuracy_high", "commits", "reason"]  # fmt: skip
    sheet.writerow(head)
    for c in cells:
        sheet.writerow([c.task, c.fleet, c.selector, c.policy, c.seeds, c.target, c.horizon, *_three(c.time), c.late, *_three(c.accuracy), c.commits, c.reason])  # fmt: skip
    return to.getvalue()


def _three(mean: Mean | None) -> tuple[float | str, ...]:
    return ("", "", "") if mean is None else (mean.value, mean.low, mean.high)
