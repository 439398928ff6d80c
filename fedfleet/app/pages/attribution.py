"""Where the time went, as a figure: one bar for the whole run, and a column for each round or for a few that follow each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from fedfleet.app.pages.html import figure
from fedfleet.app.pages.svg import WIDTH, Axis, legend, number, ticks
from fedfleet.app.terminal.text import span
from fedfleet.measure.attribution.ledger import CAUSES, Attribution, RoundTime
from fedfleet.measure.attribution.sentences import MEANINGS, sentence, share

_LEFT, _RIGHT, _TOP = 62, 16, 14
_BAR, _GAP, _COLUMNS, _FOOT = 34, 34, 190, 44
_MOST = 120  # columns: more would be thinner than a hair
_SMALL = 0.004  # of all: too little for a colour of its own in the legend
_LETTER = 6.6  # pixels of a letter under the bar
_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


def _mixed(colour: int, part: int) -> str:
    return f"color-mix(in srgb, var(--c{colour}) {part}%, var(--page))"


# One family, one colour: moving bytes, computing, inside edges, nothing happens, for nothing.
_COLOURS: Mapping[str, str] = {
    "pause": _mixed(6, 55), "reachability": "var(--c6)", "probes": _mixed(5, 45), "latency": _mixed(1, 30),
    "download": _mixed(1, 60), "planning": _mixed(4, 35), "exchange": _mixed(4, 65), "averaging": "var(--c4)",
    "compute": "var(--c5)", "upload": "var(--c1)", "delivery": _mixed(1, 80), "stragglers": "var(--c2)",
    "slack": _mixed(6, 30), "failed": "var(--c3)", "server": _mixed(5, 70), "unknown": "var(--line)",
    "unfinished": _mixed(3, 35),
}  # fmt: skip


def attribution_figure(found: Attribution) -> str:
    """The figure with its caption; nothing if no time has passed."""
    if found.virtual_seconds <= 0:
        return ""
    there = [c for c in CAUSES if found.causes[c] > 0]
    rows = _grouped(found.rounds)
    height = _TOP + _BAR + _GAP + _COLUMNS + _FOOT
    parts = [*_bar(found, there), *_columns(rows, there, _TOP + _BAR + _GAP)]
    said = sentence(found)
    label = escape(said, quote=True)
    picture = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    named = [(c, _COLOURS[c], False) for c in there if found.causes[c] > _SMALL * found.virtual_seconds]
    each = "each round" if len(rows) == len(found.rounds) else f"the mean of {len(found.rounds) / len(rows):.1f} rounds"
    return figure(picture + legend(named), f"{said} The bar is the whole run, a column is {each}.")


def _bar(found: Attribution, there: Sequence[str]) -> list[str]:
    """The whole run as one bar; causes that are wide enough have their share written under them."""
    x = Axis(0.0, found.virtual_seconds, _LEFT, WIDTH - _RIGHT)
    parts, at = [f'<text x="{_LEFT - 8}" y="{_TOP + 21}" class="tick" text-anchor="end">run</text>'], 0.0
    for cause in there:
        seconds = found.causes[cause]
        begin, end = x(at), x(at + seconds)
        said = share(seconds, found.virtual_seconds)
        title = f"{cause}: {span(seconds)}, {said} of the time; {MEANINGS[cause]}"
        parts.append(_box(begin, _TOP, end - begin, _BAR, cause, title))
        label = f"{cause} {said}"
        if end - begin >= _LETTER * len(label):
            middle = (begin + end) / 2
            parts.append(
                f'<text x="{middle:.1f}" y="{_TOP + _BAR + 14}" class="tick" text-anchor="middle">{label}</text>'
            )
        at += seconds
    return parts


def _grouped(rounds: Sequence[RoundTime]) -> list[RoundTime]:
    """The rounds, or means over neighbours where there are too many to be drawn."""
    if len(rounds) <= _MOST:
        return list(rounds)
    edges = np.linspace(0, len(rounds), _MOST + 1).astype(np.int64)
    found: list[RoundTime] = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        some = rounds[a:b]
        causes = {c: math.fsum(r.causes.get(c, 0.0) for r in some) / len(some) for c in CAUSES}
        mean = some[0].start + math.fsum(causes.values())
        found.append(RoundTime(some[0].round, some[0].start, mean, {c: s for c, s in causes.items() if s > 0}))
    return found


def _columns(rows: Sequence[RoundTime], there: Sequence[str], top: int) -> list[str]:
    """One stacked column for each row, with axes."""
    high = max((r.seconds for r in rows), default=1.0) or 1.0
    base = top + _COLUMNS
    x, y = Axis(0.0, len(rows) or 1, _LEFT, WIDTH - _RIGHT), Axis(0.0, high, base, top)
    parts = _axes(rows, x, y, base)
    width = max((WIDTH - _LEFT - _RIGHT) / max(len(rows), 1) * 0.86, 0.6)
    for i, r in enumerate(rows):
        at = 0.0
        for cause in there:
            seconds = r.causes.get(cause, 0.0)
            if seconds > 0:
                tall = y(at) - y(at + seconds)
                title = f"round {r.round}: {cause} {span(seconds)} of {span(r.seconds)}{f'; {r.reason}' if r.reason else ''}"
                parts.append(_box(x(i), y(at + seconds), width, tall, cause, title))
            at += seconds
    return parts


def _axes(rows: Sequence[RoundTime], x: Axis, y: Axis, base: int) -> list[str]:
    parts = [f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}" class="axis"/>']
    unit, length = next((u for u in _UNITS if y.high >= 3 * u[1]), _UNITS[-1])
    for t in ticks(0.0, y.high / length, 4):
        at = y(t * length)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" class="tick" text-anchor="end">{number(t)}</text>')
    shown: list[int] = np.unique(np.linspace(0, len(rows) - 1, 7).astype(np.int64)).tolist()
    parts += [
        f'<text x="{x(i + 0.43):.1f}" y="{base + 16}" class="tick" text-anchor="middle">{number(rows[i].round)}</text>'
        for i in shown
    ]
    middle = (x.start + x.end) / 2
    parts.append(f'<text x="{middle:.1f}" y="{base + 36}" class="label" text-anchor="middle">rounds</text>')
    up = (y.start + y.end) / 2
    turned = f'transform="rotate(-90 14 {up:.1f})"'
    parts.append(f'<text x="14" y="{up:.1f}" class="label" text-anchor="middle" {turned}>{unit}</text>')
    return parts


def _box(x: float, y: float, width: float, height: float, cause: str, title: str) -> str:
    where = f'x="{x:.1f}" y="{y:.2f}" width="{max(width, 0.4):.2f}" height="{max(height, 0.2):.2f}"'
    return f'<rect {where} style="fill:{_COLOURS[cause]}"><title>{escape(title)}</title></rect>'
