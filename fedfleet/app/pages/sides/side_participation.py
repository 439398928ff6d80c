"""Who took part, side by side on one scale; those who were left out are drawn too."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean

import numpy as np

from fedfleet.app.pages.charts.column_chart import Column, Panel, columns, ranks
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import both, figure
from fedfleet.app.pages.sides.comparison_words import points, whole
from fedfleet.app.pages.sides.run_looks import Side
from fedfleet.core.records import Floats

MOST = 12  # panels
_SLIM = 150.0  # pixels of a name that has half of a phone
_UNLIKE = 5.0  # sides whose fair shares differ by more would be flat on one scale
_ALIKE = 1.1  # sides whose fair shares differ by less have one line for it


def who_took_part(sides: Sequence[Side]) -> str:
    """A sentence and the figure; nothing where nobody was asked."""
    asked = [side for side in sides if any(len(one.used) for one in side.looks)]
    if not asked:
        return ""
    shown = _in_rows(asked)[:MOST]
    fair = [fmean(float((one.used + one.late).mean()) for one in side.looks) for side in shown]
    same, apart = max(fair) <= _ALIKE * min(fair), min(fair) > 0 and max(fair) > _UNLIKE * min(fair)
    ref = (fmean(fair), f"fair share: {whole(fmean(fair))}") if same else (1.0, "equal share") if apart else None
    panels = [panel(side, unit=each if apart else 1.0) for side, each in zip(shown, fair, strict=True)]
    across = 3 if len(shown) % 3 == 0 or len(shown) > 4 else 2
    alone = any(width_of(side.label, strong=True) > _SLIM for side in shown)
    wide, slim = both(lambda sheet: columns(panels, sheet, across=1 if sheet.slim and alone else across, ref=ref))
    scale = (
        "in equal shares of all that were asked for, since these runs asked unlike often"
        if apart
        else "all on one scale"
    )
    how = f"People sorted from most to least; {scale}. Under the axis, hatched: asked, and always too late; grey: never asked."
    seeds = max(len(side.looks) for side in shown)
    how += f" Means over {seeds} seeds, rank by rank." if seeds > 1 else ""
    note = f"The first {MOST} of {len(asked)} are drawn." if len(asked) > MOST else ""
    body = figure("How many of each person's reports were used", how, wide, slim, _finding(shown), note=note)
    return f"<h2>Who took part</h2><p>{escape(sentence(shown))}</p>{body}"


def _in_rows(sides: Sequence[Side]) -> list[Side]:
    """Groups in columns: what has one name stands in one row."""
    names = list(dict.fromkeys(side.name for side in sides))
    return (
        sorted(sides, key=lambda side: names.index(side.name))
        if len({side.group for side in sides}) > 1
        else list(sides)
    )


def sentence(sides: Sequence[Side]) -> str:
    """Where work was most uneven, in one sentence."""
    tops = [(top_tenth(side), side) for side in sides if any(len(one.used) >= 10 for one in side.looks)]
    if not tops:
        return "A model learns from those whose reports arrive in time."
    share, side = max(tops, key=lambda found: found[0])
    return f"A model learns from those whose reports arrive in time. Under {side.label} a tenth of the people gave {points(share)} of all reports that were used."


def top_tenth(side: Side) -> float:
    """The share of used reports that came from the busiest tenth; the mean over seeds."""
    shares = list[float]()
    for one in side.looks:
        ordered = np.sort(one.used)[::-1]
        shares.append(float(ordered[: -(-len(ordered) // 10)].sum() / ordered.sum()) if ordered.sum() else 0.0)
    return fmean(shares) if shares else 0.0


def panel(side: Side, unit: float = 1.0) -> Panel:
    """Means over seeds in this unit, rank by rank, with those who never took part counted apart."""
    people = min(len(one.used) for one in side.looks)
    counts: Floats = np.mean([np.sort(one.used)[::-1][:people] for one in side.looks], axis=0)
    late = fmean(float(((one.used == 0) & (one.late > 0)).sum()) for one in side.looks)
    never = fmean(float(((one.used == 0) & (one.late == 0)).sum()) for one in side.looks)
    edges = ranks(people, 120)
    bars = [
        Column(float(counts[a:b].mean()) / unit, title=f"person {a + 1}: {whole(float(counts[a]))} reports")
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if counts[a] > 0
    ]
    # Columns stand for all people of the panel; those with nothing are empty places.
    bars += [Column(0.0)] * (len(edges) - 1 - len(bars))
    return Panel(
        bars, side.label, side.colour, people=people, late=round(late), never=round(late + never) - round(late),
        under=_under(late, never, people),
    )  # fmt: skip


def _under(late: float, never: float, people: int) -> list[str]:
    if late + never < 0.05:
        return ["everyone took part"]
    parts = [f"{whole(late)} too late"] if late >= 0.05 else []
    parts += [f"{whole(never)} not asked"] if never >= 0.05 else []
    return [f"{whole(late + never)} of {people:,} never took part", ", ".join(parts)]


def _finding(sides: Sequence[Side]) -> str:
    told = list[str]()
    for side in sides:
        never = fmean(float((one.used == 0).sum()) for one in side.looks)
        told.append(f"{side.label}: {whole(never)} of {len(side.looks[0].used):,} never took part")
    return "; ".join(told) + "."
