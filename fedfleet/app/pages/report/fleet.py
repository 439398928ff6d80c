"""The fleet: link speed and reachability of its devices, or how long their tasks take where nothing else is known."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from fedfleet.app.pages.charts.axes import format_number as said_number
from fedfleet.app.pages.charts.axes import number_ticks, share_ticks, ticks
from fedfleet.app.pages.charts.dots import Axis, Point, dots
from fedfleet.app.pages.charts.marks import figure
from fedfleet.app.pages.report.conclusion import usual_reachable
from fedfleet.app.pages.report.number_words import count_noun, duration, per_cent
from fedfleet.app.pages.report.report_facts import TOOK_PART, Facts
from fedfleet.app.pages.time_units import log_time_ticks, plain_time
from fedfleet.core.records import DROPPED, FOLDED, LOST, Bools, Floats, Ints
from fedfleet.measure.participation import contributions
from fedfleet.measure.tasks import RUNNING, Tasks

MOST = 600  # dots
_OFTEN = 0.2  # of the time: who is there so often needs no logarithm
_ALIKE = 1.25  # times as long: who differs by less needs no picture
_KINDS = ("", "late-area", "a6")


def fleet_section(f: Facts) -> list[str]:
    """The section; nothing for one place, or where no task has ended and the world is unknown."""
    if f.clients < 2:
        return []
    picture, devices = _reachability_figure(f) or _durations(f), int(f.spec.get("world", {}).get("clients", 0))
    sentences = [askable_sentence(f)]
    if "edge" in f.spec and devices:
        sentences.insert(0, f"{devices:,} devices belong to {f.clients:,} {f.people}, and work together for each.")
    if f.hindsight is not None and f.hindsight.people:
        sentences.insert(0, f"The data are dealt by owner: {f.hindsight.people}.")
    summary = " ".join(s for s in sentences if s)
    return ["<h2>The fleet</h2>", f"<p>{escape(summary)}</p>" if summary else "", picture] if picture or summary else []


def askable_sentence(f: Facts) -> str:
    """How many could be asked when rounds looked for clients."""
    result = usual_reachable(f)
    if result is None:
        return ""
    mean, short, total = result
    cohort = f.spec.get("pace", {}).get("cohort")
    if not short and mean > f.clients - 0.5:
        return f"Whenever a round began, all {f.clients:,} {f.people} could be asked."
    few = f", and in {short:,} of {total:,} rounds fewer than the {cohort:,} wanted" if short else ""
    return f"When a round began, {mean:,.0f} of {f.clients:,} {f.people} could be asked on average{few}."


def _reachability_figure(f: Facts) -> str:
    """Link speed by reachability, where the world has both and devices differ in the latter."""
    h = f.hindsight
    if h is None or not np.isfinite(h.mbps).any() or np.ptp(h.ready) < 1e-3:
        return ""
    known = np.flatnonzero(np.isfinite(h.mbps))
    chosen = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST)).astype(np.int64))]
    floor = max(float(h.ready[chosen].min()), 1e-3)
    horizon = "the first week" if h.horizon <= 604_800.0 else f"the {plain_time(h.horizon)} of the run"
    x, y = _speed_axis(h.mbps[chosen]), _reach_axis(h.ready[chosen], floor, f"reachable, share of {horizon}")
    most = max(int(f.used.max()), 1)
    points = [
        Point(float(h.mbps[c]), max(float(h.ready[c]), floor), 3.0 + 6.0 * float(np.sqrt(f.used[c] / most)),
              f"a{f.colour}" if f.kind[c] == TOOK_PART else _KINDS[f.kind[c]],
              f"{f.person} {c}: {h.mbps[c]:,.0f} Mbit/s, reachable {per_cent(float(h.ready[c]))}, asked {f.asked[c]:,}, used {f.used[c]:,}")
        for c in chosen.tolist()
    ]  # fmt: skip
    took, others = h.mbps[known][f.kind[known] == TOOK_PART], h.mbps[known][f.kind[known] != TOOK_PART]
    middles = f"; those who took part have {np.median(took):,.0f} in the middle, the others " if len(took) and len(others) else ""
    comparison = f"{middles}{np.median(others):,.0f}" if middles else ""
    finding = f"Each device by mean link speed, {h.mbps[known].min():,.0f} to {h.mbps[known].max():,.0f} Mbit/s{comparison}; and by reachability, {per_cent(float(h.ready.min()))} to {per_cent(float(h.ready.max()))} of the time."
    many_ = f" {len(chosen):,} of {f.clients:,} are drawn." if len(chosen) < f.clients else ""
    return figure(
        f"{f.clients:,} devices: link speed and reachability",
        f"Full: took part, larger the more often. Hatched: asked, nothing was used. Grey: never asked.{many_}",
        lambda sheet: dots(points, sheet, x, y, mark=speed_mark(f)), finding,
    )  # fmt: skip


def _speed_axis(mbps: Floats) -> Axis:
    low, high = float(mbps.min()), float(mbps.max())
    label = "mean link speed, Mbit/s"
    if high > 20 * max(low, 1e-9):
        known = (m * 10.0**p for p in range(-2, 5) for m in (1, 2, 5))
        marks = [(said_number(v), v) for v in known if low * 0.8 <= v <= high * 1.2]
        return Axis(max(low, 1e-3) * 0.85, high * 1.15, marks, label + ", logarithmic", log=True)
    pad = max((high - low) * 0.06, 1.0)
    return Axis(low - pad, high + pad, [(said_number(t), t) for t in ticks(low - pad, high + pad)], label)


def _reach_axis(ready: Floats, floor: float, label: str) -> Axis:
    """Linear where everybody is there for a good part of the time, logarithmic otherwise."""
    if floor >= _OFTEN:
        return Axis(0.0, 1.04, share_ticks(1.0), label)
    low, top = floor * 0.8, min(float(ready.max()) * 1.3, 1.05)
    inside, more = (
        [(f"{100 * value:g} %", value) for value in values if low <= value <= top]
        for values in ((0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0), (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0))
    )
    return Axis(low, top, inside if len(inside) > 1 or not more else more, f"{label}, logarithmic", log=True)


def speed_mark(f: Facts) -> tuple[float, str] | None:
    """The link speed at which a usual task is back just in time: both ways of the model, and training of median length."""
    t = f.tasks
    if f.deadline is None or not len(t.fate):
        return None
    moved = float(np.median(t.bytes_down)) + float(np.median(t.bytes_up[t.fate == FOLDED])) if (t.fate == FOLDED).any() else 0.0
    stages = f.metrics.get("stage_seconds") or {}
    used = int((t.fate == FOLDED).sum())
    training = float(stages.get("compute") or 0.0) / max(int((t.fate != RUNNING).sum()), 1)
    left = f.deadline - training
    if not moved or not used or left <= 0:
        return None
    mbps = 8e-6 * moved / left
    known = f.hindsight.mbps if f.hindsight is not None else np.zeros(0)
    if not len(known) or not np.nanmin(known) < mbps < np.nanmax(known):
        return None
    return (mbps, f"{mbps:,.0f} Mbit/s: back in {duration(f.deadline)} with {duration(float(round(training)))} of training")


@dataclass(frozen=True, slots=True)
class Speeds:
    """The clients that ended a task, as columns; `least`: none of its tasks was finished, so that it needs longer than this."""

    clients: Ints
    seconds: Floats
    used: Ints
    asked: Ints
    lower_bound: Bools


def speeds(tasks: Tasks, clients: int) -> Speeds:
    """The mean seconds of the reports that a client sent; of one that sent none, the longest that it was waited for."""
    ended = (tasks.fate != RUNNING) & np.isfinite(tasks.seconds)
    reported = ended & (tasks.fate != DROPPED) & (tasks.fate != LOST)
    reports = np.bincount(tasks.clients[reported], minlength=clients)
    means = np.bincount(tasks.clients[reported], tasks.seconds[reported], clients) / np.maximum(reports, 1)
    longest = np.zeros(clients)
    np.maximum.at(longest, tasks.clients[ended], tasks.seconds[ended])
    used, ended_counts = contributions(tasks, clients), np.bincount(tasks.clients[tasks.fate != RUNNING], minlength=clients)
    seconds = np.where(reports > 0, means, longest)
    indices = np.flatnonzero(seconds > 0)
    return Speeds(indices, seconds[indices], used[indices], ended_counts[indices], reports[indices] == 0)


def fast_half(result: Speeds) -> float | None:
    """The share of the used reports that the faster half of these clients gave; None if there was none, or nobody to compare."""
    if len(result.clients) < 2 or not result.used.sum():
        return None
    order = np.argsort(result.seconds, kind="stable")
    return float(result.used[order[: len(order) // 2]].sum() / result.used.sum())


def _durations(f: Facts) -> str:
    """How often each was used, by the time that its tasks take."""
    result = speeds(f.tasks, f.clients)
    if not len(result.clients):
        return ""
    chosen = np.unique(np.linspace(0, len(result.clients) - 1, min(len(result.clients), MOST)).astype(np.int64))
    low, high = float(result.seconds.min()), float(result.seconds.max())
    took = " to ".join(dict.fromkeys([plain_time(low), plain_time(high)]))
    if high < _ALIKE * low and not result.lower_bound.any():
        return f"<p>A task took {took} on each of {len(result.clients):,} {f.people}.</p>"
    if result.lower_bound.all():
        return f"<p>No task came back; those of {count_noun(len(result.clients), f.person, f.people)} ended after {took} at the latest.</p>"
    middle, reach = float(np.sqrt(low * high)), max(float(np.sqrt(high / low)) * 1.12, 2.0)
    most, start, end = max(int(result.used.max()), 1), middle / reach, middle * reach
    x = Axis(start, end, log_time_ticks(start, end, 6), "time a task takes, logarithmic", log=True)
    y = Axis(0.0, float(most) * 1.05, number_ticks(most), "reports used")
    points = [
        Point(float(result.seconds[i]), float(result.used[i]), 3.6, f"a{f.colour}" if result.used[i] else "late-area",
              f"{f.person} {result.clients[i]}: {result.used[i]:,} of {result.asked[i]:,} tasks used, {'more than ' if result.lower_bound[i] else ''}{plain_time(float(result.seconds[i]))} a task")
        for i in chosen.tolist()
    ]  # fmt: skip
    half = fast_half(result)
    hatched = " Hatched: nothing was used, and it needs at least so long." if (result.used == 0).any() else ""
    faster = "" if half is None else f" The faster half of {f.people} gave {per_cent(half)} of the reports that were used."
    finding = f"A task takes {plain_time(low)} to {plain_time(high)}.{faster}"
    left = f.clients - len(result.clients)
    unseen = f" {left:,} of {f.clients:,} {f.people} never ended a task, so how fast they are is not known." if left else ""
    some = f" {len(chosen):,} of {len(result.clients):,} are drawn." if len(chosen) < len(result.clients) else ""
    return figure(
        "How often work was used, by how long it takes", f"A dot is one {f.person}.{hatched}{some}",
        lambda sheet: dots(points, sheet, x, y, height=210), finding, note=finding + unseen,
    )  # fmt: skip
