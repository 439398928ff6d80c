"""Where the time of each side went, and what device work it took, as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean
from typing import Any

from fedfleet.app.pages.charts.bars import Bar, Part, bars
from fedfleet.app.pages.charts.marks import figure, paint_legend
from fedfleet.app.pages.sides.comparison_words import mean_count, time_range, whole_percent
from fedfleet.app.pages.sides.page_runs import PageRun, Side, clock_name
from fedfleet.app.studies.compare.arms import quote
from fedfleet.app.terminal.text import size
from fedfleet.measure.attribution.sentences import share

MOST = 18  # bars
_NAMED = 6  # sides that a sentence names
_HOURS = 7200.0  # from here on work is in hours
# What a cause is to a reader who compares: (word, paint, causes).
FAMILIES: Sequence[tuple[str, str, tuple[str, ...]]] = (
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
    return {word: sum(run.causes.get(c, 0.0) for c in causes) / total for word, _, causes in FAMILIES} if total else {}


def mean_family_shares(side: Side) -> dict[str, float]:
    """The mean over seeds; nothing where no run has causes."""
    result = [shares for one in side.runs if (shares := family_shares(one))]
    return {word: fmean(mine[word] for mine in result) for word, _, _ in FAMILIES} if result else {}


def time_section(sides: Sequence[Side]) -> str:
    """A sentence and the figure; nothing where nothing is known."""
    side_shares = [(side, found) for side in sides if (found := mean_family_shares(side))][:MOST]
    if not side_shares:
        return ""
    rows = [
        Bar(side.label, [_part(word, kind, result[word]) for word, kind, _ in FAMILIES], end_label=time_range([o.end for o in side.runs]), colour=side.colour)
        for side, result in side_shares
    ]  # fmt: skip
    legend_entries = [(word, kind) for word, kind, _ in FAMILIES if any(found[word] > 0.005 for _, found in side_shares)]
    finding = "; ".join(f"{side.label}: {_share_list(found)}" for side, found in side_shares) + "."
    picture = figure(
        f"Share of {clock_name(sides)}, by what the server was waiting for",
        "Each round is charged to the last report that it used; total time at the right.",
        lambda sheet: bars(rows, sheet, names_left=True, most=1.0), finding, legend=paint_legend(legend_entries),
    )  # fmt: skip
    return f"<h2>Where the time went</h2><p>{escape(sentence([(s.label, f) for s, f in side_shares]))}</p>{picture}"


def sentence(side_shares: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """What took most of the time of each side, those that agree together."""
    by: dict[str, list[tuple[str, float]]] = {}
    for name, result in side_shares:
        word = max(result, key=lambda w: result[w])
        by.setdefault(word, []).append((name, result[word]))
    parts = list[str]()
    for word, members in sorted(by.items(), key=lambda item: -len(item[1])):
        low, high = min(v for _, v in members), max(v for _, v in members)
        share_text = (
            whole_percent(low) if whole_percent(low) == whole_percent(high) else f"{100 * low:.0f} to {whole_percent(high)}"
        )
        whose = (
            "everywhere" if len(by) == 1 and len(side_shares) > 1 else f"with {_name_list([quote(name) for name, _ in members])}"
        )
        parts.append(f"into {word.partition(':')[0]} {whose} ({share_text})")
    return f"Most of the time went {', and '.join(parts)}."


def _name_list(names: Sequence[str]) -> str:
    """Names in a row, the first few; with semicolons where they hold commas themselves."""
    shown, more = list(names[:_NAMED]), len(names) - _NAMED
    between = "; " if any("," in name for name in shown) else ", "
    return between.join(shown) + (f" and {more} more" if more > 0 else "")


def _share_list(result: Mapping[str, float]) -> str:
    return ", ".join(f"{word} {whole_percent(result[word])}" for word in result if result[word] >= 0.01)


def _part(word: str, kind: str, value: float) -> Part:
    return Part(value, kind, f"{100 * value:.0f} %", f"{word}: {share(value, 1.0)}")


def cost_section(sides: Sequence[Side]) -> str:
    """Hours of device work, used and wasted; nothing where no work is known."""
    rows, parts = list[Bar](), list[str]()
    works = {
        side.label: tuple(fmean(v) for v in zip(*(device_work(one.metrics) for one in side.runs), strict=True))
        for side in sides[:MOST]
    }
    length, unit = (3600.0, "h") if max((u + v for u, v, _ in works.values()), default=0.0) >= _HOURS else (60.0, "min")
    for side in sides[:MOST]:
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
