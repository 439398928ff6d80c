"""The page about one user's exchange of samples: what each device holds, and how long it takes, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, figure, line, paint_legend, text
from fedfleet.app.pages.html import key_figures, page, topline
from fedfleet.app.pages.time_units import plain_time
from fedfleet.core.records import Ints
from fedfleet.shuffle import Problem, identity, score
from fedfleet.shuffle.problem import effort

_GAP, _STRIP = 26.0, 46.0  # between before and after, and the height of a device's row


def user_page(problem: Problem, answer: dict[str, Any]) -> str:
    """One exchange: what changes, in numbers and figures."""
    plan = np.array(answer["plan"])
    before, after = score(problem, identity(problem)), score(problem, plan)
    faster = before.max_latency / max(after.max_latency, 1e-12)
    body = [
        "<h1>One user's devices exchange samples</h1>",
        f'<p class="lead">{len(problem.counts)} devices, {int(problem.counts.sum())} samples of {problem.counts.shape[1]} classes; '
        f"{answer['moved']} of them change device.</p>",
        key_figures([
            (f"{plain_time(before.max_latency)} to {plain_time(after.max_latency)}", f"slowest device, before and after ({faster:.1f}x)", ""),
            (f"{before.max_imbalance:.3f} to {after.max_imbalance:.3f}", "largest imbalance",
             "Jensen-Shannon divergence of a device's mixture of classes against an even one: 0 is even."),
            (f"{before.objective:,.1f} to {after.objective:,.1f}", "objective", "Slowest device, spread of all, and weighted imbalance: lower is better."),
        ]),
        holdings_figure(problem.counts, plan.sum(0)),
        durations_figure(problem, plan),
    ]  # fmt: skip
    return page("FedFleet: one user's exchange", body, top=topline("one user's exchange"))


def holdings_figure(before: Ints, after_by_class: Ints) -> str:
    """The figure of what devices hold: a small histogram over classes each, before and after. `after_by_class` is [classes, devices]."""
    after = after_by_class.T
    moved = int(np.abs(after - before).sum() // 2)
    finding = f"Samples by class on {len(before)} devices: {moved:,} of {int(before.sum()):,} lie elsewhere afterwards."
    subtitle = "Samples of each class, the first at the left; grey before, blue after; all on one scale."
    return figure("What each device holds, before and after", subtitle, lambda sheet: _strips(before, after, sheet), finding)


def _strips(before: Ints, after: Ints, sheet: Sheet) -> Drawing:
    highest = max(int(before.max()), int(after.max()), 1)
    left = 20.0 if sheet.slim else 62.0
    width = (sheet.width - left - _GAP) / 2
    result = [text(left, 12, "before", "strong"), text(left + width + _GAP, 12, "after", "strong")]
    for v in range(len(before)):
        top = 18 + v * _STRIP
        result.append(text(left - 7, top + _STRIP - 10, f"{v}" if sheet.slim else f"device {v}", anchor="end"))
        for counts, start, kind in ((before[v], left, "a6"), (after[v], left + width + _GAP, "a1")):
            base, step = top + _STRIP - 8, width / len(counts)
            result.append(line(start, base, start + width, base, "axis"))
            for i, n in enumerate(counts.tolist()):
                tall = max(n / highest * (_STRIP - 14), 1.0)
                title = "" if sheet.slim else f"device {v}, class {i}: {n} samples"
                result += [box(start + i * step, base - tall, max(step * 0.86, 0.6), tall, kind, title)] if n else []
    return Drawing(sheet.width, 18 + len(before) * _STRIP + 4, result)


def durations_figure(problem: Problem, plan: Ints, title: str = "How long each device takes") -> str:
    """The figure of how long each device takes: two bars, before, and after with the exchange's share apart."""
    work, samples_before, samples_after = effort(problem), problem.counts.sum(1), plan.sum((0, 1))
    before, after = work * samples_before, work * samples_after
    exchange_seconds = score(problem, plan).latency - after
    rows = list[Bar]()
    for v in range(len(before)):
        waiting, training, exchange = float(before[v]), float(after[v]), float(exchange_seconds[v])
        parts = [Part(training, "a5", title=f"training: {training:,.1f} s")]
        if exchange > 0:
            parts.append(Part(exchange, "a2", title=f"exchanging samples: {exchange:,.1f} s"))
        first = [Part(waiting, "a6", title=f"before: {waiting:,.1f} s")]
        rows.append(Bar(f"Device {v}, before", first, f"{plain_time(waiting)}, {samples_before[v]:,} samples"))
        rows.append(Bar("after", parts, f"{plain_time(training + exchange)}, {samples_after[v]:,} samples"))
    finding = f"The slowest device takes {plain_time(float(before.max()))} before, {plain_time(float((after + exchange_seconds).max()))} after."
    legend = paint_legend([("before", "a6"), ("after: training", "a5"), ("after: exchanging samples", "a2")])
    how = "Training on what it holds, and sending and receiving samples"
    return figure(title, how, lambda sheet: bars(rows, sheet, names_left=True), finding, legend=legend, note=finding)
