"""Where the time went: of one run as a bar and a column for each round, of several as bars side by side with the device work they took."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean
from typing import Any

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, foot_axis, left_axis, left_axis_width, ticks
from fedfleet.app.pages.charts.axes import format_number as said_number
from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, figure, paint_legend, stack_below, text
from fedfleet.app.pages.report.number_words import as_people
from fedfleet.app.pages.sides.comparison_words import mean_count, time_range, whole_percent
from fedfleet.app.pages.sides.page_runs import PageRun, Side, clock_name
from fedfleet.app.pages.time_units import linear_time_ticks
from fedfleet.app.studies.compare.arms import quote
from fedfleet.app.terminal.text import size, span
from fedfleet.measure.attribution.causes import CAUSES, Attribution, RoundTime
from fedfleet.measure.attribution.sentences import sentence, share

_MAX_COLUMNS = 120  # columns: more would be thinner than a hair
_BROADEST = 64.0  # pixels of a column: the few rounds of a short run are no wall
_MAX_BARS = 18  # of several runs
_NAMED = 6  # sides that a sentence names
_HOURS = 7200.0  # from here on work is in hours
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
    how = f"The bar is the whole run, a column is {each}; every second is charged to one cause."
    said = as_people(sentence(attribution), people, person)
    caption, legend, whole = said[:1].upper() + said[1:], family_key([attribution]), [run_bar("The whole run", attribution)]

    def chart(sheet: Sheet) -> Drawing:
        return stack_below(bars(whole, sheet, most=1.0), _columns(rows, sheet), gap=10)

    return figure("What the server was waiting for", how, chart, caption, legend=legend, note=caption)


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
    numbers = [r.round + 1 for r in rows] or [1]  # people count from 1, journals from 0
    feet = [
        t for t in ticks(numbers[0], max(numbers[-1], numbers[0] + 1), 4 if sheet.slim else 7) if t == int(t) and t <= numbers[-1]
    ]
    marks = [(said_number(t), bisect_right(numbers, t) - 0.5) for t in feet if rows]  # each under the column that holds it
    return Drawing(sheet.width, base + 42, result + foot_axis(x, marks, base, "rounds"))


# What a cause is to a reader who compares: (word, paint, causes).
SIDE_FAMILIES: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("moving the model", "a4", ("latency", "download", "upload", "delivery", "averaging", "exchange")),
    ("training", "a5", ("compute",)),
    ("waiting for clients out of reach", "a6", ("reachability",)),
    ("wasted: too late, or the round failed", "late-area", ("stragglers", "failed")),
    ("pause between rounds", "aw", ("pause",)),
    ("other causes", "ai pale", ("probes", "planning", "slack", "server", "unknown", "unfinished")),
)


def family_shares(run: PageRun) -> dict[str, float]:
    """Shares of a run's time by family; they add up to one."""
    total = sum(run.causes.values())
    return {word: sum(run.causes.get(c, 0.0) for c in causes) / total for word, _, causes in SIDE_FAMILIES} if total else {}


def mean_family_shares(side: Side) -> dict[str, float]:
    """The mean over seeds; nothing where no run has causes."""
    result = [shares for one in side.runs if (shares := family_shares(one))]
    return {word: fmean(mine[word] for mine in result) for word, _, _ in SIDE_FAMILIES} if result else {}


def time_section(sides: Sequence[Side]) -> str:
    """A sentence and the figure; nothing where nothing is known."""
    side_shares = [(side, found) for side in sides if (found := mean_family_shares(side))][:_MAX_BARS]
    if not side_shares:
        return ""
    rows, findings = list[Bar](), list[str]()
    for side, result in side_shares:
        named = [(word, kind, result[word]) for word, kind, _ in SIDE_FAMILIES]
        parts = [Part(value, kind, f"{100 * value:.0f} %", f"{word}: {share(value, 1.0)}") for word, kind, value in named]
        rows.append(Bar(side.label, parts, end_label=time_range([one.end for one in side.runs]), colour=side.colour))
        findings.append(f"{side.label}: {', '.join(f'{word} {whole_percent(value)}' for word, _, value in named if value >= 0.01)}")
    legend_entries = [(word, kind) for word, kind, _ in SIDE_FAMILIES if any(found[word] > 0.005 for _, found in side_shares)]
    finding = "; ".join(findings) + "."
    picture = figure(
        f"Share of {clock_name(sides)}, by what the server was waiting for",
        "The time of a round is counted for the client whose report came last of those that were used; total time at the right.",
        lambda sheet: bars(rows, sheet, names_left=True, most=1.0), finding, legend=paint_legend(legend_entries),
    )  # fmt: skip
    return f"<h2>Where the time went</h2><p>{escape(time_sentence([(s.label, f) for s, f in side_shares]))}</p>{picture}"


def time_sentence(side_shares: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """What took most of the time of each side, those that agree together."""
    by: dict[str, list[tuple[str, float]]] = {}
    for name, result in side_shares:
        word = max(result, key=lambda w: result[w])
        by.setdefault(word, []).append((name, result[word]))
    parts = list[str]()
    for word, members in sorted(by.items(), key=lambda item: -len(item[1])):
        low, high = min(v for _, v in members), max(v for _, v in members)
        shares = whole_percent(low) if whole_percent(low) == whole_percent(high) else f"{100 * low:.0f} to {whole_percent(high)}"
        # The first few names in a row, with semicolons where they hold commas themselves.
        shown, more = [quote(name) for name, _ in members[:_NAMED]], len(members) - _NAMED
        names = ("; " if any("," in name for name in shown) else ", ").join(shown) + (f" and {more} more" if more > 0 else "")
        whose = "everywhere" if len(by) == 1 and len(side_shares) > 1 else f"with {names}"
        parts.append(f"into {word.partition(':')[0]} {whose} ({shares})")
    return f"Most of the time went {', and '.join(parts)}."


def cost_section(sides: Sequence[Side]) -> str:
    """Hours of device work, used and wasted; nothing where no work is known."""
    rows, parts = list[Bar](), list[str]()
    works = {
        side.label: tuple(fmean(v) for v in zip(*(device_work(one.metrics) for one in side.runs), strict=True))
        for side in sides[:_MAX_BARS]
    }
    length, unit = (3600.0, "h") if max((u + v for u, v, _ in works.values()), default=0.0) >= _HOURS else (60.0, "min")
    for side in sides[:_MAX_BARS]:
        used, lost, moved = works[side.label]
        if used + lost <= 0:
            continue
        waste_note = f", {_length_text(lost / length)} {unit} wasted with {size(moved)}" if lost > 0 else ""
        label = f"{f'{_length_text(used / length)} {unit}' if used else 'nothing'} used{waste_note}"
        rows.append(Bar(side.label, [Part(used, "a4", title=label), Part(lost, "late-area")], end_label=label, colour=side.colour))
        parts.append(f"{side.label}: {label}")
    if not rows:
        return ""
    slim_rows = [Bar(row.name, row.parts, note=row.end_label, colour=row.colour) for row in rows]
    picture = figure(
        "Device work, used and wasted",
        "Time that devices spend on downloading, training and uploading. Hatched: the report entered no model.",
        lambda sheet: bars(slim_rows if sheet.slim else rows, sheet, names_left=True), "; ".join(parts) + ".",
    )  # fmt: skip
    return f"<h2>Cost</h2>{picture}"


def _length_text(value: float) -> str:
    """A length of time that is not nothing.

    >>> _length_text(0.01), _length_text(0.7), _length_text(12.0)
    ('under 0.1', '0.7', '12')
    """
    return mean_count(value) if value >= 0.05 else "under 0.1"


def device_work(metrics: Mapping[str, Any]) -> tuple[float, float, float]:
    """Seconds of device work that entered a model and that did not, and the bytes of the latter."""
    fates: Mapping[str, Mapping[str, float]] = metrics.get("fates", {})
    used = float(fates.get("folded", {}).get("worked_seconds", 0.0))
    lost = [fate for name, fate in fates.items() if name != "folded"]
    moved = sum(float(f["bytes_down"]) + float(f["bytes_up"]) for f in lost)
    return used, sum(float(f["worked_seconds"]) for f in lost), moved
