"""The page about one user's exchange of samples: what each device holds, and how long it takes, before and after."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from fedfleet.app.pages.html import figure, page, tiles
from fedfleet.app.pages.svg import COLOURS, WIDTH, legend
from fedfleet.core.records import Floats, Ints
from fedfleet.shuffle import Problem, identity, score
from fedfleet.shuffle.problem import effort

_LABEL, _GAP, _STRIP = 62, 26, 46  # width of a device's name, between before and after, and height of its row


def user_page(problem: Problem, got: dict[str, Any]) -> str:
    """One exchange: what changes, in numbers and figures."""
    plan = np.array(got["plan"])
    before, after = score(problem, identity(problem)), score(problem, plan)
    faster = before.max_latency / max(after.max_latency, 1e-12)
    body = [
        "<h1>One user's devices exchange samples</h1>",
        f'<p class="lead">{len(problem.counts)} devices, {int(problem.counts.sum())} samples of {problem.counts.shape[1]} classes; '
        f"{got['moved']} of them change device.</p>",
        tiles([
            ("slowest device, before and after", f"{before.max_latency:,.0f} to {after.max_latency:,.0f} s ({faster:.1f}x)"),
            ("largest imbalance (Jensen-Shannon)", f"{before.max_imbalance:.3f} to {after.max_imbalance:.3f}"),
            ("objective", f"{before.objective:,.1f} to {after.objective:,.1f}"),
        ]),
        figure(holdings(problem.counts, plan.sum(0)), "How many samples of each class, the first on the left, a device holds before and after; all bars have the same scale."),
        figure(durations(problem, plan), "How long each device takes: training on what it holds, and sending and receiving samples."),
    ]  # fmt: skip
    return page("FedFleet: one user's exchange", body)


def holdings(before: Ints, after_by_class: Ints) -> str:
    """A small histogram over classes for each device, before and after. `after_by_class` is [classes, devices]."""
    after = after_by_class.T
    highest = max(int(before.max()), int(after.max()), 1)
    width = (WIDTH - _LABEL - _GAP) / 2
    parts = [_heading(_LABEL + width / 2, "before"), _heading(_LABEL + width * 1.5 + _GAP, "after")]
    for v in range(len(before)):
        top = 22 + v * _STRIP
        parts.append(f'<text x="{_LABEL - 8}" y="{top + _STRIP - 14}" class="tick" text-anchor="end">device {v}</text>')
        for counts, left, colour in ((before[v], _LABEL, COLOURS[5]), (after[v], _LABEL + width + _GAP, COLOURS[0])):
            parts.append(_strip(counts, left, top, width, highest, colour, v))
    height = 22 + len(before) * _STRIP + 6
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _heading(x: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="12" class="label" text-anchor="middle">{text}</text>'


def _strip(counts: Ints, left: float, top: float, width: float, highest: int, colour: str, device: int) -> str:
    base, step = top + _STRIP - 8, width / len(counts)
    bars = [f'<line x1="{left:.1f}" x2="{left + width:.1f}" y1="{base}" y2="{base}" class="axis"/>']
    for i, n in enumerate(counts.tolist()):
        if n:
            tall = max(n / highest * (_STRIP - 14), 1.0)
            bars.append(
                f'<rect x="{left + i * step:.2f}" y="{base - tall:.1f}" width="{max(step * 0.86, 0.6):.2f}" height="{tall:.1f}" fill="{colour}">'
                f"<title>{escape(f'device {device}, class {i}: {n} samples')}</title></rect>"
            )
    return "".join(bars)


def durations(problem: Problem, plan: Ints) -> str:
    """Two bars per device: before, and after with the exchange's share apart."""
    work, paid = effort(problem), _exchange(problem, plan)
    before, after = work * problem.counts.sum(1), work * plan.sum((0, 1))
    longest = max(float(before.max()), float((after + paid).max()), 1e-12)
    room = WIDTH - _LABEL - 90
    parts: list[str] = []
    for v in range(len(before)):
        top = 8 + v * 40
        parts.append(f'<text x="{_LABEL - 8}" y="{top + 18}" class="tick" text-anchor="end">device {v}</text>')
        parts.append(_bar(top, 0.0, before[v], longest, room, COLOURS[5], f"before: {before[v]:,.1f} s"))
        parts.append(_bar(top + 14, 0.0, after[v], longest, room, COLOURS[0], f"training: {after[v]:,.1f} s"))
        parts.append(
            _bar(top + 14, after[v], paid[v], longest, room, COLOURS[1], f"exchanging samples: {paid[v]:,.1f} s")
        )
        for y, value in ((top + 9, before[v]), (top + 23, after[v] + paid[v])):
            x = _LABEL + value / longest * room + 6
            parts.append(f'<text x="{x:.1f}" y="{y}" class="tick">{value:,.0f} s</text>')
    picture = f'<svg viewBox="0 0 {WIDTH} {8 + len(before) * 40}" role="img">{"".join(parts)}</svg>'
    names = [
        ("before", COLOURS[5], False),
        ("after: training", COLOURS[0], False),
        ("after: exchanging samples", COLOURS[1], False),
    ]
    return picture + legend(names)


def _exchange(problem: Problem, plan: Ints) -> Floats:
    latency = score(problem, plan).latency
    return latency - effort(problem) * plan.sum((0, 1))


def _bar(top: float, start: float, length: float, longest: float, room: float, colour: str, title: str) -> str:
    x, width = _LABEL + start / longest * room, length / longest * room
    if width <= 0:
        return ""
    return f'<rect x="{x:.1f}" y="{top}" width="{max(width, 1.0):.1f}" height="11" rx="1" fill="{colour}"><title>{escape(title)}</title></rect>'
