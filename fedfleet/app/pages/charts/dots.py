"""Dots on two axes, a device each: full, hatched or grey by what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedfleet.app.pages.charts.axes import Scale, Ticks, foot_axis, left_axis, room_for
from fedfleet.app.pages.charts.drawing import Drawing, Sheet, dot, line, text
from fedfleet.app.pages.charts.labels import width_of


@dataclass(frozen=True, slots=True)
class Point:
    """A dot: where, how large (radius in pixels), how it is painted, and its words (on wide sheets)."""

    x: float
    y: float
    radius: float = 3.0
    kind: str = "a1"
    title: str = ""


@dataclass(frozen=True, slots=True)
class Along:
    """What an axis shows: its limits, ticks and name; logarithmic or not."""

    low: float
    high: float
    ticks: Ticks
    label: str
    log: bool = False


def dots(
    points: Sequence[Point], sheet: Sheet, x: Along, y: Along, *, height: float = 300.0, mark: tuple[float, str] | None = None
) -> Drawing:  # fmt: skip
    """The chart; large dots are painted first. `mark`: a dotted line upwards at a value of x, with its words."""
    left, roof = room_for(y.ticks), 28.0
    across = Scale(x.low, x.high, left, sheet.width - 14, x.log)
    up = Scale(y.low, y.high, roof + height, roof, y.log)
    found = [text(0, 13, y.label), *left_axis(up, y.ticks, left, across.end)]
    found += foot_axis(across, x.ticks, up.start, x.label)
    if mark:
        at, wide = across(mark[0]), width_of(mark[1])
        fits = at + 6 + wide <= sheet.width
        found.append(line(at, roof - 4, at, up.start, "ref"))
        found.append(text(at + (6 if fits else -6), roof + 4, mark[1], "halo ink", "start" if fits else "end"))
    for p in sorted(points, key=lambda p: -p.radius):
        found.append(dot(across(p.x), up(p.y), p.radius, p.kind, "" if sheet.slim else p.title))
    return Drawing(sheet.width, up.start + 42, found)
