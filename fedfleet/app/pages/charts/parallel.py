"""Parallel coordinates, lying: an axis under the other, and a line through all of them for each of many things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from fedfleet.app.pages.charts.axes import Scale, Ticks
from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, line, text

_ROW = 74.0  # from one axis to the next
_EDGE = 26.0  # room at the sides, for words under the ends of an axis


@dataclass(frozen=True, slots=True)
class Rail:
    """One axis: its name, its limits, and what stands under it."""

    name: str
    low: float
    high: float
    ticks: Ticks
    log: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """A line through all axes: where it crosses each (None: nowhere, and the line is broken there), its paint and its words."""

    places: Sequence[float | None]
    kind: str = "line thin s6"
    title: str = ""


def parallel(rails: Sequence[Rail], threads: Sequence[Thread], sheet: Sheet) -> Drawing:
    """The chart; threads are painted in their order, so that the last lies on top."""
    scales = [Scale(rail.low, rail.high, _EDGE, sheet.width - _EDGE, rail.log) for rail in rails]
    bases = [30.0 + _ROW * i for i in range(len(rails))]
    result = [_path(one, scales, bases, sheet) for one in threads]
    # What stands under an axis has paper of its own since lines pass behind; words that would meet are left out.
    for rail, x, base in zip(rails, scales, bases, strict=True):
        result.append(line(x.start, base, x.end, base, "axis"))
        right_edge = -1.0
        for label, value in rail.ticks:
            at, half = x(value), width_of(label) / 2
            place = min(max(at, half), sheet.width - half)
            result.append(line(at, base, at, base + 5, "axis"))
            if place - half > right_edge:
                result.append(text(place, base + 19, label, "halo", "middle"))
                right_edge = place + half + 6
    result += [text(0, base - 12, rail.name, "strong halo") for rail, base in zip(rails, bases, strict=True)]
    return Drawing(sheet.width, bases[-1] + 30 if bases else 1.0, result)


def _path(one: Thread, scales: Sequence[Scale], bases: Sequence[float], sheet: Sheet) -> str:
    run, pen = "", "M"
    for place, x, base in zip(one.places, scales, bases, strict=True):
        if place is None:
            pen = "M"
            continue
        run += f"{pen}{x(place):.1f} {base:.1f}"
        pen = "L"
    title = "" if sheet.slim or not one.title else f"<title>{escape(one.title)}</title>"
    return f'<path d="{run}" class="{one.kind}">{title}</path>' if run else ""
