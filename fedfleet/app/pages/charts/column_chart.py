"""Columns, one for each client, as small multiples on one scale; those without are drawn under the axis. Histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, axis_end, left_axis, left_axis_width, number_ticks
from fedfleet.app.pages.charts.labels import ROW, cut_names, width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, line, text
from fedfleet.core.records import Ints

MOST = 400  # columns of one panel: beyond that one stands for several people
_GAP = 30.0


@dataclass(frozen=True, slots=True)
class Column:
    """One person (or several of like rank): what counted, and hatched above it what came to nothing."""

    full: float
    hatched: float = 0.0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """From which person on, in how many words: who they are (strong) and what became of them."""

    start: float
    count: float
    name: str
    what: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: clients sorted from most to least. `late` and `never` are those at its end without any, and are drawn as a
    strip under the axis, hatched and grey; `groups` name parts of the axis; `captions` are lines of words below, the first strong."""

    columns: Sequence[Column]
    name: str = ""
    colour: int = 1
    people: int = 0
    late: int = 0
    never: int = 0
    groups: Sequence[Group] = ()
    captions: Sequence[str] = ()

    @property
    def size(self) -> int:
        return self.people or len(self.columns) or 1


def columns(
    panels: Sequence[Panel], sheet: Sheet, *, across: int = 3, height: float = 90.0, ref: tuple[float, str] | None = None
) -> Drawing:
    """The panels, `across` in a row (one on phones if they have groups, else two); all share both axes."""
    across = min(across, len(panels) or 1, 2 if sheet.slim else across)
    highest = max((c.full + c.hatched for p in panels for c in p.columns), default=1.0)
    high = axis_end(max(highest, ref[0] if ref else 0.0), 4)
    marks = number_ticks(high, 3 if across > 1 else 4)
    left = left_axis_width(marks)
    width = (sheet.width - left - (across - 1) * _GAP) / across
    result, y = list[str](), 0.0
    names = cut_names([panel.name for panel in panels], width + _GAP / 2, strong=True)
    for start in range(0, len(panels), across):
        row, tallest = panels[start : start + across], 0.0
        for i, panel in enumerate(row):
            at = left + i * (width + _GAP)
            head = 20.0 if panel.name else 8.0
            scale = Scale(0.0, high, y + head + height, y + head)
            result.append(text(at, y + 13, names[start + i], f"t{panel.colour}"))
            result += left_axis(scale, marks if i == 0 else [("", value) for _, value in marks], at, at + width)
            result += _panel(panel, at, width, scale, sheet)
            if ref:
                result += [line(at, scale(ref[0]), at + width, scale(ref[0]), "ref")]
                label = ref[1] if start == 0 and i == 0 else ""
                result.append(text(at + width, scale(ref[0]) - 5, label, "halo", "end"))
            marks_below, tall = _captions(panel, at, width, scale.start)
            result += marks_below
            tallest = max(tallest, head + height + tall)
        y += tallest + 14
    return Drawing(sheet.width, y, result)


def _panel(panel: Panel, at: float, width: float, y: Scale, sheet: Sheet) -> list[str]:
    each = width / max(len(panel.columns), 1)
    thick = each - 1.4
    result = _outlines(panel, at, each, y) if each <= 4 else []
    for i, column in enumerate(panel.columns if each > 4 else ()):
        x, full, all_ = at + i * each, y(column.full), y(column.full + column.hatched)
        title = "" if sheet.slim else column.title
        if column.hatched:
            result.append(box(x, all_, thick, full - all_, "late-area", title))
        if column.full:
            result.append(box(x, full, thick, y.start - full, f"a{panel.colour}", "" if column.hatched else title))
    person = width / panel.size
    ends = (panel.size - panel.never - panel.late, panel.size - panel.never, panel.size)
    for a, b, kind in ((*ends[:2], "late-area"), (*ends[1:], "a6")):
        if b > a:
            result.append(box(at + a * person, y.start + 3, (b - a) * person, 5, kind))
    return result


def _outlines(panel: Panel, at: float, each: float, y: Scale) -> list[str]:
    """Columns too thin to stand apart: one shape for all that counted, one above it for what came to nothing."""
    full = [y(c.full) for c in panel.columns]
    totals = [y(c.full + c.hatched) for c in panel.columns]
    floor = [y.start] * len(full)
    result = list[str]()
    for tops, feet, kind in ((totals, full, "late-area"), (full, floor, f"a{panel.colour}")):
        if tops == feet:
            continue
        forward = "".join(f"V{top:.1f}H{at + (i + 1) * each:.1f}" for i, top in enumerate(tops))
        back = "".join(f"V{feet[i]:.1f}H{at + i * each:.1f}" for i in range(len(feet) - 1, -1, -1))
        result.append(f'<path d="M{at:.1f} {feet[0]:.1f}{forward}{back}Z" class="{kind}"/>')
    return result


def _captions(panel: Panel, at: float, width: float, base: float) -> tuple[list[str], float]:
    """What stands under a panel, and how high that is: groups side by side where they fit, else in further rows."""
    result, y = list[str](), base + 24.0
    ends: list[float] = []  # of each row, where its last words end
    for group in panel.groups:
        x = at + group.start / panel.size * width
        wide = max(width_of(group.name, strong=True), width_of(group.what)) + 12
        x = max(min(x, at + width - wide + 12), 0.0)
        row = next((r for r, end in enumerate(ends) if end <= x), len(ends))
        ends[row : row + 1] = [x + wide]
        top = y + row * 2.2 * ROW
        result += [text(x, top, group.name, "strong"), text(x, top + ROW, group.what)]
    y += len(ends) * 2.2 * ROW
    for i, caption in enumerate(panel.captions):
        result.append(text(at + width, y + i * ROW, caption, "strong" if i == 0 else "", "end"))
    return result, y + len(panel.captions) * ROW - base - 6


def rank_edges(n: int, most: int = MOST) -> Ints:
    """Where each column begins and the last one ends, if n clients share at most that many columns.

    >>> rank_edges(3).tolist(), len(rank_edges(400)), len(rank_edges(1_000_000))
    ([0, 1, 2, 3], 401, 401)
    """
    return np.arange(n + 1) if n <= most else np.linspace(0, n, most + 1).astype(np.int64)


def histogram(
    counts: Sequence[int], sheet: Sheet, feet: Sequence[str], *, kinds: Sequence[str] = (), label: str = "", height: float = 150.0
) -> Drawing:
    """One column for each count; `feet` stand under them (empty: nothing), `kinds` paint them, `label` names the axis.

    Counts that would lie over each other or over a higher column beside them are left out.
    """
    y = Scale(0.0, max(counts, default=0) or 1, height + 22, 22)
    each = sheet.width / max(len(counts), 1)
    result = [line(0, y.start, sheet.width, y.start, "axis")]
    right_edge = -1.0

    def is_covered(i: int, wide: float) -> bool:
        beside = [k for k in (i - 1, i + 1) if 0 <= k < len(counts)]
        return wide / 2 > 0.56 * each and any(y(counts[k]) < y(counts[i]) - 2 for k in beside)

    for i, count in enumerate(counts):
        middle = (i + 0.5) * each
        result.append(box(i * each + 0.06 * each, y(count), 0.88 * each, y.start - y(count), kinds[i] if kinds else "a6"))
        count_text, wide = f"{count:,}" if count else "", width_of(f"{count:,}")
        at = min(max(middle, wide / 2), sheet.width - wide / 2)
        if count_text and at - wide / 2 > right_edge and not is_covered(i, wide):
            result.append(text(at, y(count) - 6, count_text, "strong" if kinds and kinds[i] != "a6" else "", "middle"))
            right_edge = at + wide / 2
        foot = feet[i] if i < len(feet) else ""
        half = width_of(foot) / 2
        result.append(text(min(max(middle, half), sheet.width - half), y.start + 19, foot, "", "middle"))
    result.append(text(sheet.width, y.start + 37, label, anchor="end"))
    return Drawing(sheet.width, y.start + 42, result)
