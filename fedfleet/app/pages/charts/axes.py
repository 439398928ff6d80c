"""Scales and axes: round numbers, shares with one per cent sign, and time in units that people use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedfleet.app.pages.charts.labels import width_of
from fedfleet.app.pages.charts.marks import Sheet, line, text
from fedfleet.app.pages.time_units import linear_time_ticks, log_time_ticks
from fedfleet.measure.score_info import MINUS

Ticks = list[tuple[str, float]]  # (label, value)

DECADES = 100.0  # a span of time over more than this is drawn on a logarithmic axis


@dataclass(frozen=True, slots=True)
class Scale:
    """From data to pixels, linear or logarithmic; what lies outside is moved to the edge of a logarithmic one."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(min(max(value, low), high)), math.log(low), math.log(high)
        share = (value - low) / ((high - low) or 1.0)
        return self.start + share * (self.end - self.start)


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two limits.

    >>> ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / count or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(s - raw))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def format_number(value: float) -> str:
    """A tick's number without needless digits.

    >>> format_number(12_000.0), format_number(0.25), format_number(3.0)
    ('12,000', '0.25', '3')
    """
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:g}"


def axis_end(value: float, count: int = 4) -> float:
    """The round number at which an axis from 0 ends, so that it holds this value.

    >>> axis_end(0.65), axis_end(7), axis_end(0)
    (0.8, 8.0, 1.0)
    """
    if value < 1e-9:  # ticks have twelve decimal digits: the steps of such an axis would be 0
        return 1.0
    top = value
    for _ in range(4):  # the step may grow with the axis; it settles at once
        result = ticks(0, top, count)
        step = result[1] - result[0] if len(result) > 1 else top
        top = float(f"{math.ceil(value / step - 1e-9) * step:.12g}")
    return top


def number_ticks(high: float, count: int = 4, *, whole_only: bool = True) -> Ticks:
    """Numbers from 0 up; only whole ones where halves mean nothing."""
    return [(format_number(t), t) for t in ticks(0, high, count) if not whole_only or t == int(t)]


def span_ticks(low: float, high: float, count: int = 4) -> Ticks:
    """Round numbers between two limits of which the lower one may lie below 0.

    >>> span_ticks(-0.5, 1.0)
    [('−0.5', -0.5), ('0', 0.0), ('0.5', 0.5), ('1', 1.0)]
    """
    return [(format_number(t).replace("-", MINUS), t) for t in ticks(low, high, count)]


def share_ticks(high: float = 1.0, count: int = 4) -> Ticks:
    """Shares of one as per cent; the topmost alone carries the sign.

    >>> share_ticks(0.4, 2)
    [('0', 0.0), ('20', 0.2), ('40 %', 0.4)]
    """
    result = ticks(0, high, count)
    return [(f"{100 * t:.3g}{' %' if t == result[-1] else ''}", t) for t in result]


def time_scale(last: float, start: float, end: float, *, first: float = 0.0) -> Scale:
    """Virtual time: linear from 0, logarithmic if the times from `first` to `last` span more than two decades."""
    if first > 0 and last > DECADES * first:
        return Scale(first, last, start, end, log=True)
    return Scale(0.0, last or 1.0, start, end)


_LOG_TICKS: Ticks = [
    ("10 s", 10.0), ("1 min", 60.0), ("5 min", 300.0), ("20 min", 1200.0), ("1 h", 3600.0), ("4 h", 14400.0), ("1 day", 86400.0),
    ("4 days", 345600.0), ("20 days", 1728000.0), ("100 days", 8640000.0), ("1 year", 31536000.0),
]  # fmt: skip


def time_ticks(x: Scale, sheet: Sheet) -> Ticks:
    """Moments of such a scale."""
    if not x.log:
        return [(label if at else "start", at) for label, at in linear_time_ticks(x.low, x.high, 4 if sheet.slim else 7)]
    result = [(words, at) for words, at in _LOG_TICKS if x.low <= at <= x.high]
    return result if len(result) >= 3 else log_time_ticks(x.low, x.high, 4 if sheet.slim else 8)


def left_axis(y: Scale, marks: Ticks, start: float, end: float) -> list[str]:
    """Hairlines across, with their numbers at the left; the lowest is the axis itself if it is 0."""
    result = list[str]()
    for words, value in marks:
        at = y(value)
        result.append(line(start, at, end, at, "axis" if value == y.low == 0 else "grid"))
        result.append(text(start - 7, at + 4, words, anchor="end"))
    return result


def foot_axis(x: Scale, marks: Ticks, base: float, label: str = "", *, rule: bool = True) -> list[str]:
    """The axis at the foot with ticks; words that would run into those before them or leave the sheet are moved or left out."""
    result = [line(x.start, base, x.end, base, "axis")] if rule else []
    right_edge, edge = -math.inf, x.end + 12
    for words, value in marks:
        at, wide = x(value), width_of(words)
        result.append(line(at, base, at, base + 5, "axis"))
        place, anchor = (at, "middle") if at + wide / 2 <= edge else (edge, "end")
        left = place - wide / 2 if anchor == "middle" else place - wide
        if left > right_edge:
            result.append(text(place, base + 19, words, anchor=anchor))
            right_edge = left + wide + 6
    return [*result, text(x.end, base + 37, label, anchor="end")]


def reference(y: Scale, value: float, words: str, start: float, end: float, *, above_line: bool = True) -> list[str]:
    """A dotted line across, named on the line at its left end: there lines that rise have not come yet."""
    at = y(value)
    return [line(start, at, end, at, "ref"), text(start + 6, at - 5 if above_line else at + 15, words, "halo ink")]


def left_axis_width(marks: Sequence[tuple[str, float]]) -> float:
    """How much room the numbers of a left axis need."""
    return max([*(width_of(words) for words, _ in marks), 20.0]) + 9
