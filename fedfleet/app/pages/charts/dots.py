"""Dots on two axes, a device each: full, hatched or grey by what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedfleet.app.pages.charts.axes import Scale, Ticks, foot_axis, left_axis, left_axis_width
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, dot, line, text


@dataclass(frozen=True, slots=True)
class Point:
    """A dot: where, how large (radius in pixels), how it is painted, and its words (on wide sheets)."""

    x: float
    y: float
    radius: float = 3.0
    kind: str = "a1"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows: its limits, ticks and name; logarithmic or not."""

    low: float
    high: float
    ticks: Ticks
    label: str
    log: bool = False


def dots(
    points: Sequence[Point],
    sheet: Sheet,
    x: Axis,
    y: Axis,
    *,
    height: float = 300.0,
    mark: tuple[float, str] | None = None,
    diagonal: str = "",
) -> Drawing:
    """The chart; large dots are painted first. `mark`: a dotted line upwards at a value of x, with its words; `diagonal` names the
    line on which y is x."""
    left = left_axis_width(y.ticks)
    wide = width_of(mark[1]) if mark else 0.0
    mark_in_axis_row = mark is not None and not sheet.slim  # its words stand in the row of the axis' name, else in one of their own
    roof = 28.0 if mark_in_axis_row or mark is None else 46.0
    across = Scale(x.low, x.high, left, sheet.width - 14, x.log)
    up = Scale(y.low, y.high, roof + height, roof, y.log)
    result = [text(0, 13, y.label), *left_axis(up, y.ticks, left, across.end)]
    result += foot_axis(across, x.ticks, up.start, x.label)
    if mark:
        at = across(mark[0])
        start = min(max(at - wide / 2, width_of(y.label) + 14 if mark_in_axis_row else 0.0), sheet.width - wide)
        result.append(line(at, roof - 11, at, up.start, "ref"))
        result.append(text(start, roof - 15, mark[1], "ink"))
    if diagonal:
        low, high = max(x.low, y.low), min(x.high, y.high)
        result.append(line(across(low), up(low), across(high), up(high), "ref"))
        result.append(text(across(high) - 6, min(up(high) + 26, up.start - 6), diagonal, "halo ink", "end"))
    for p in sorted(points, key=lambda p: -p.radius):
        result.append(dot(across(p.x), up(p.y), p.radius, p.kind, "" if sheet.slim else p.title))
    return Drawing(sheet.width, up.start + 42, result)
