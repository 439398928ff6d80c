"""Participation of clients, side by side on one scale; those that never took part are drawn too."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean

import numpy as np

from fedfleet.app.pages.charts.column_chart import Column, Panel, columns, rank_edges
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import figure
from fedfleet.app.pages.sides.comparison_words import mean_count, whole_percent
from fedfleet.app.pages.sides.page_runs import Side
from fedfleet.app.studies.compare.arms import quote
from fedfleet.core.records import Floats

MOST = 12  # panels
_SLIM = 150.0  # pixels of a name that has half of a phone
_UNLIKE = 5.0  # sides whose fair shares differ by more would be flat on one scale
_ALIKE = 1.1  # sides whose fair shares differ by less have one line for it


def participation_section(sides: Sequence[Side]) -> str:
    """A sentence and the figure; nothing where no client was selected."""
    asked_sides = [side for side in sides if any(len(one.used) for one in side.runs)]
    if not asked_sides:
        return ""
    shown = _align_groups(asked_sides)[:MOST]
    fair = [fmean(float((one.used + one.late).mean()) for one in side.runs) for side in shown]
    same, apart = max(fair) <= _ALIKE * min(fair), min(fair) > 0 and max(fair) > _UNLIKE * min(fair)
    ref = (fmean(fair), f"fair share: {mean_count(fmean(fair))}") if same else (1.0, "equal share") if apart else None
    panels = [panel(side, unit=each if apart else 1.0) for side, each in zip(shown, fair, strict=True)]
    across = 3 if len(shown) % 3 == 0 or len(shown) > 4 else 2
    alone = any(width_of(side.label, strong=True) > _SLIM for side in shown)
    scale = (
        "in equal shares of all reports that were asked for, since these runs selected clients unequally often"
        if apart
        else "all on one scale"
    )
    how = (
        f"Clients sorted from most to least; {scale}. Under the axis, hatched: selected, and always too late; grey: never selected."
    )
    seeds = max(len(side.runs) for side in shown)
    how += f" Means over {seeds} seeds, rank by rank." if seeds > 1 else ""
    note = f"The first {MOST} of {len(asked_sides)} are drawn." if len(asked_sides) > MOST else ""
    body = figure(
        "How many reports of each client were used",
        how,
        lambda sheet: columns(panels, sheet, across=1 if sheet.slim and alone else across, ref=ref),
        _finding(shown),
        note=note,
    )
    return f"<h2>Participation</h2><p>{escape(sentence(shown))}</p>{body}"


def _align_groups(sides: Sequence[Side]) -> list[Side]:
    """Groups in columns: what has one name stands in one row."""
    names = list(dict.fromkeys(side.name for side in sides))
    return sorted(sides, key=lambda side: names.index(side.name)) if len({side.group for side in sides}) > 1 else list(sides)


def sentence(sides: Sequence[Side]) -> str:
    """Where participation was most uneven, in one sentence."""
    tops = [(top_tenth(side), side) for side in sides if any(len(one.used) >= 10 for one in side.runs)]
    if not tops:
        return "A model learns from the clients whose reports arrive in time."
    share, side = max(tops, key=lambda found: found[0])
    who = f"With {quote(side.label)} a tenth of the clients sent {whole_percent(share)} of all reports that were used."
    return f"A model learns from the clients whose reports arrive in time. {who}"


def top_tenth(side: Side) -> float:
    """The share of used reports that came from the busiest tenth; the mean over seeds."""
    shares = list[float]()
    for one in side.runs:
        ordered = np.sort(one.used)[::-1]
        shares.append(float(ordered[: -(-len(ordered) // 10)].sum() / ordered.sum()) if ordered.sum() else 0.0)
    return fmean(shares) if shares else 0.0


def panel(side: Side, unit: float = 1.0) -> Panel:
    """Means over seeds in this unit, rank by rank, with those who never took part counted apart."""
    people = min(len(one.used) for one in side.runs)
    counts: Floats = np.mean([np.sort(one.used)[::-1][:people] for one in side.runs], axis=0)
    late = fmean(float(((one.used == 0) & (one.late > 0)).sum()) for one in side.runs)
    never = fmean(float(((one.used == 0) & (one.late == 0)).sum()) for one in side.runs)
    edges = rank_edges(people, 120)
    bars = [
        Column(float(counts[a:b].mean()) / unit, title=f"client {a + 1}: {mean_count(float(counts[a]))} reports")
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if counts[a] > 0
    ]
    # Columns stand for all clients of the panel; those with nothing are empty places.
    bars += [Column(0.0)] * (len(edges) - 1 - len(bars))
    return Panel(
        bars, side.label, side.colour, people=people, late=round(late), never=round(late + never) - round(late),
        captions=_panel_captions(late, never, people),
    )  # fmt: skip


def _panel_captions(late: float, never: float, people: int) -> list[str]:
    if late + never < 0.05:
        return ["all took part"]
    parts = [f"{mean_count(late)} too late"] if late >= 0.05 else []
    parts += [f"{mean_count(never)} not selected"] if never >= 0.05 else []
    return [f"{mean_count(late + never)} of {people:,} never took part", ", ".join(parts)]


def _finding(sides: Sequence[Side]) -> str:
    parts = list[str]()
    for side in sides:
        never = fmean(float((one.used == 0).sum()) for one in side.runs)
        parts.append(f"{side.label}: {mean_count(never)} of {len(side.runs[0].used):,} never took part")
    return "; ".join(parts) + "."
