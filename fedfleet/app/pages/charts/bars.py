"""Lying bars: one length or several parts each, hatched where work was wasted, with words above or at the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedfleet.app.pages.charts.labels import cut_names, cut_text, width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, text

_BAR = 17.0
_NAMES = 0.34  # of the sheet: the most that names at the left of bars may take


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar: its length, how it is painted (a kind of a box), and what stands in it if there is room."""

    value: float
    kind: str
    label: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A named bar; `end_label` stands behind its end, `note` at the right of its name (below the bar on phones).

    `colour` of the name: 0 is ink, 1 to 5 that of a series.
    """

    name: str
    parts: Sequence[Part]
    end_label: str = ""
    note: str = ""
    colour: int = 0


def bars(rows: Sequence[Bar], sheet: Sheet, *, names_left: bool = False, most: float | None = None) -> Drawing:
    """Bars on one scale. `names_left`: names stand at the left on wide sheets, else above; `most`: the value that fills the sheet."""
    longest = most or max((sum(p.value for p in row.parts) for row in rows), default=1.0) or 1.0
    widest = max((width_of(row.name, strong=True) for row in rows), default=0.0) + 14
    left = min(widest, _NAMES * sheet.width) if names_left and not sheet.slim else 0.0
    tail = max((width_of(row.end_label, strong=True) for row in rows), default=0.0)
    room = sheet.width - left - (tail + 10 if tail else 0.0)
    result, y = list[str](), 0.0
    for row, name in zip(rows, cut_names([row.name for row in rows], left - 8, strong=True), strict=True):
        top, beside, below = y, "", ""
        if not left:
            top, beside, below = y + 19, "" if sheet.slim else row.note, row.note if sheet.slim else ""
            name = cut_text(row.name, sheet.width - (width_of(beside) + 12 if beside else 0.0), strong=True)
        result.append(text(0, y + 13, name, f"t{row.colour}" if row.colour else "strong"))
        result += [text(sheet.width, y + 13, beside, anchor="end"), *_bar(row, left, top, room / longest, sheet)]
        result.append(text(0, top + _BAR + 15, below))
        y = top + _BAR + (9 if left else 26 if below else 12)
    return Drawing(sheet.width, max(y, 1.0), result)


def _bar(row: Bar, left: float, top: float, scale: float, sheet: Sheet) -> list[str]:
    result, at = list[str](), left
    for part in row.parts:
        wide = part.value * scale
        if part.value <= 0:
            continue
        result.append(box(at, top, max(wide - 0.8, 0.8), _BAR, part.kind, "" if sheet.slim else part.title))
        if part.label and width_of(part.label, strong=True) + 12 <= wide:
            result.append(_label_inside(part, at, top))
        at += wide
    return [*result, text(at + 8, top + 13, row.end_label, "strong")]


def _label_inside(part: Part, at: float, top: float) -> str:
    """Words on a fill; on hatching they get paper behind them."""
    if part.kind == "late-area":
        wide = width_of(part.label) + 6
        return box(at + 4, top + 2, wide, _BAR - 4, "ap") + text(at + 7, top + 13, part.label, "ink")
    kinds = {"a6": "on6", "aw": "ink"}
    return text(at + 7, top + 13, part.label, kinds.get(part.kind, "on" if "pale" not in part.kind else "ink"))
