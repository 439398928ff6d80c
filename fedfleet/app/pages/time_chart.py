"""Where the time went, as a figure: one bar for the whole run, and a column for each round or for a few that follow each other."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, Ticks, foot_axis, left_axis, left_axis_width, ticks
from fedfleet.app.pages.charts.axes import format_number as said_number
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, figure, paint_legend, stack_below, text
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.app.pages.time_units import linear_time_ticks
from fedfleet.app.terminal.text import span
from fedfleet.measure.attribution.causes import CAUSES, Attribution, RoundTime
from fedfleet.measure.attribution.sentences import sentence, share

_MAX_COLUMNS = 120  # columns: more would be thinner than a hair
_BROADEST = 64.0  # pixels of a column: the few rounds of a short run are no wall
# (name, causes, paint), in the order in which they are drawn.
FAMILIES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("moving the model", ("latency", "download", "upload", "delivery"), "a4"),
    ("training", ("compute",), "a5"),
    ("inside users: planning, exchanging, averaging", ("planning", "exchange", "averaging"), "a2"),
    ("probes before selection", ("probes",), "a1"),
    ("the server's own work", ("server",), "ai"),
    ("waiting for clients to be reachable", ("reachability", "slack"), "a6"),
    ("wasted: late, failed or unfinished", ("stragglers", "failed", "unfinished"), "late-area"),
    ("pause between rounds", ("pause",), "aw"),
    ("unknown", ("unknown",), "a6 pale"),
)


def by_family(causes: Mapping[str, float]) -> dict[str, float]:
    """Seconds by family; families without any are left out.

    >>> by_family({"download": 2.0, "upload": 1.0, "pause": 0.5})
    {'moving the model': 3.0, 'pause between rounds': 0.5}
    """
    result = {name: math.fsum(causes.get(c, 0.0) for c in family) for name, family, _ in FAMILIES}
    return {name: seconds for name, seconds in result.items() if seconds > 0}


def run_bar(name: str, attribution: Attribution, colour: int = 0) -> Bar:
    """A run's time as one stacked bar of shares, with its length behind: for pages that compare runs."""
    total = attribution.virtual_seconds or 1.0
    paints = {family: kind for family, _, kind in FAMILIES}
    parts = [
        Part(seconds / total, paints[family], share(seconds, total), f"{family}: {span(seconds)}, {share(seconds, total)}")
        for family, seconds in by_family(attribution.causes).items()
    ]
    return Bar(name, parts, span(attribution.virtual_seconds), colour=colour)


def family_key(attributions: Sequence[Attribution]) -> str:
    """What the paints mean, of those that are there."""
    families = {family for attribution in attributions for family in by_family(attribution.causes)}
    return paint_legend([(name, kind) for name, _, kind in FAMILIES if name in families])


def attribution_figure(attribution: Attribution, people: str = "people", person: str = "person") -> str:
    """The figure with its caption, in which clients are called so; nothing if no time has passed."""
    if attribution.virtual_seconds <= 0:
        return ""
    rows = _merge_rounds(attribution.rounds)
    each = "each round" if len(rows) == len(attribution.rounds) else f"the mean of {len(attribution.rounds) / len(rows):.1f} rounds"
    caption = as_people(sentence(attribution), people, person)
    caption = caption[:1].upper() + caption[1:]
    return figure(
        "What the server was waiting for", f"The bar is the whole run, a column is {each}; every second is charged to one cause.", lambda sheet: stack_below( bars([run_bar("The whole run", attribution)], sheet, most=1.0), _columns(rows, sheet), gap=10 ),
        caption, legend=family_key([attribution]), note=caption,
    )  # fmt: skip


def _merge_rounds(rounds: Sequence[RoundTime]) -> list[RoundTime]:
    """The rounds, or means over neighbours where there are too many to be drawn."""
    if len(rounds) <= _MAX_COLUMNS:
        return list(rounds)
    edges = np.linspace(0, len(rounds), _MAX_COLUMNS + 1).astype(np.int64)
    result: list[RoundTime] = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        neighbours = rounds[a:b]
        causes = {c: math.fsum(r.causes.get(c, 0.0) for r in neighbours) / len(neighbours) for c in CAUSES}
        mean = neighbours[0].start + math.fsum(causes.values())
        result.append(RoundTime(neighbours[0].round, neighbours[0].start, mean, {c: s for c, s in causes.items() if s > 0}))
    return result


def _columns(rows: Sequence[RoundTime], sheet: Sheet) -> Drawing:
    """One stacked column for each row, on axes of time and rounds."""
    high = max((r.seconds for r in rows), default=1.0) or 1.0
    marks = linear_time_ticks(0.0, high, 4)
    left, base, top = left_axis_width(marks), 160.0, 24.0
    width = min((sheet.width - 8 - left) / max(len(rows), 1), _BROADEST)
    x, y = Scale(0.0, len(rows) or 1, left, left + width * (len(rows) or 1)), Scale(0.0, high, base, top)
    result = [text(0, 12, "time of each round"), *left_axis(y, marks, left, sheet.width - 8)]
    thick = max(width - (1.2 if width > 4 else 0.0), 0.6)
    paints = {family: kind for family, _, kind in FAMILIES}
    for i, r in enumerate(rows):
        at = 0.0
        for family, seconds in by_family(r.causes).items():
            why = f"; {as_people(r.reason)}" if r.reason else ""
            title = "" if sheet.slim else f"round {r.round + 1}: {family} {span(seconds)} of {span(r.seconds)}{why}"
            result.append(box(x(i), y(at + seconds), thick, y(at) - y(at + seconds), paints[family], title))
            at += seconds
    return Drawing(sheet.width, base + 42, result + foot_axis(x, _round_ticks(rows, 4 if sheet.slim else 7), base, "rounds"))


def _round_ticks(rows: Sequence[RoundTime], most: int) -> Ticks:
    """Round numbers of rounds, each under the column that holds it."""
    if not rows:
        return []
    numbers = [r.round + 1 for r in rows]  # people count from 1, journals from 0
    tick_values = [t for t in ticks(numbers[0], max(numbers[-1], numbers[0] + 1), most) if t == int(t) and t <= numbers[-1]]
    return [(said_number(t), bisect_right(numbers, t) - 0.5) for t in tick_values]
