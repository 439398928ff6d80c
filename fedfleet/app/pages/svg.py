"""Figures as inline SVG: a few kinds of chart, with a tooltip on every mark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 14, 44
_DIGIT = 7.0  # width of a digit of a tick
# Distinguishable for most colour-blind readers; the page's style sheet defines both themes.
COLOURS = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)")


@dataclass(frozen=True, slots=True)
class Series:
    """A named line; `dashed` tells apart what shares a colour."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a timeline: its row, its span of time, its style, and its tooltip."""

    row: int
    start: float
    end: float
    style: str
    title: str


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale from data to pixels, with its ticks."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
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


def line_chart(series: Sequence[Series], x_label: str, y_label: str, *, y_percent: bool = False) -> str:
    """Lines over a common x axis that starts at zero."""
    x_high = max((max(s.x) for s in series if len(s.x)), default=1.0) or 1.0
    x = Axis(0, x_high, _LEFT, WIDTH - _RIGHT)
    return _lines(series, x, _x_axis(x, HEIGHT - _BOTTOM, x_label), y_label, lambda v: v, y_percent=y_percent)


def time_chart(series: Sequence[Series], y_label: str) -> str:
    """Shares between 0 and 1 over virtual time; on a logarithmic axis when the lines end at very different times."""
    ends = [max(s.x) for s in series if len(s.x) and max(s.x) > 0] or [1.0]
    if max(ends) < 8 * min(ends):
        unit, length = next((u for u in _UNITS if max(ends) >= 3 * u[1]), _UNITS[-1])
        scaled = [Series(s.name, [v / length for v in s.x], s.y, s.colour, s.dashed) for s in series]
        return line_chart(scaled, f"virtual {unit}", y_label, y_percent=True)
    first = min(min(v for v in s.x if v > 0) for s in series if len(s.x) > 1)
    x = Axis(math.log(first), math.log(max(ends)), _LEFT, WIDTH - _RIGHT)
    base = HEIGHT - _BOTTOM
    parts = [f'<line x1="{x.start}" x2="{x.end}" y1="{base}" y2="{base}" class="axis"/>']
    for said, seconds in _MOMENTS:
        if first <= seconds <= max(ends):
            at = x(math.log(seconds))
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{base}" class="grid"/>')
            parts.append(f'<text x="{at:.1f}" y="{base + 16}" class="tick" text-anchor="middle">{said}</text>')
    parts.append(
        f'<text x="{(x.start + x.end) / 2:.1f}" y="{base + 36}" class="label" text-anchor="middle">virtual time, logarithmic</text>'
    )
    return _lines(series, x, "".join(parts), y_label, lambda v: math.log(max(v, first)), y_percent=True)


_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
_MOMENTS = (
    ("10 s", 10.0), ("1 min", 60.0), ("5 min", 300.0), ("20 min", 1200.0), ("1 h", 3600.0), ("4 h", 14400.0), ("12 h", 43200.0),
    ("1 day", 86400.0), ("3 days", 259200.0), ("10 days", 864000.0), ("30 days", 2592000.0),
)  # fmt: skip


def _lines(
    series: Sequence[Series], x: Axis, x_axis: str, y_label: str, place: Callable[[float], float], *, y_percent: bool
) -> str:
    y_high = 1.0 if y_percent else max((max(s.y) for s in series if len(s.y)), default=1.0) or 1.0
    y = Axis(0, y_high, HEIGHT - _BOTTOM, _TOP)
    parts = [x_axis, _y_axis(y, y_label, y_percent=y_percent)]
    for s in series:
        points = " ".join(f"{x(place(a)):.1f},{y(b):.1f}" for a, b in zip(s.x, s.y, strict=True))
        dash = ' stroke-dasharray="6 4"' if s.dashed else ""
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{s.colour}" stroke-width="2"{dash}><title>{escape(s.name)}</title></polyline>'
        )
    return _svg(parts, HEIGHT) + legend([(s.name, s.colour, s.dashed) for s in series])


def bar_chart(
    values: Sequence[float],
    x_label: str,
    y_label: str,
    colours: Sequence[str],
    titles: Sequence[str],
    *,
    numbered: bool = True,
    over: int | None = None,
) -> str:
    """One thin bar per value, in the order given; `numbered` counts them along the axis, or the `over` things behind them."""
    y_high = max(values, default=0) or 1.0
    count = len(values) if over is None else over
    x, y = Axis(0, count or 1, _LEFT, WIDTH - _RIGHT), Axis(0, y_high, HEIGHT - _BOTTOM, _TOP)
    parts = [_x_axis(x, HEIGHT - _BOTTOM, x_label, numbered=numbered), _y_axis(y, y_label)]
    width = max((WIDTH - _LEFT - _RIGHT) / max(len(values), 1) * 0.82, 0.5)
    for i, (value, colour, title) in enumerate(zip(values, colours, titles, strict=True)):
        height = max(y(0) - y(value), 1.5)  # so that a zero can still be hovered over
        parts.append(
            f'<rect x="{x(i * count / len(values)):.1f}" y="{y(0) - height:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"><title>{escape(title)}</title></rect>'
        )
    return _svg(parts, HEIGHT)


def timeline(
    bars: Sequence[Bar], rows: Sequence[str], marks: Sequence[tuple[float, str]], colours: dict[str, str]
) -> str:
    """Spans of work by row, with vertical marks for decisions."""
    row_height = 16
    height = _TOP + row_height * len(rows) + _BOTTOM
    low = min((b.start for b in bars), default=0.0)
    high = max([b.end for b in bars] + [m[0] for m in marks], default=1.0)
    x = Axis(low, high if high > low else low + 1, _LEFT, WIDTH - _RIGHT)
    base = _TOP + row_height * len(rows)
    parts = [_x_axis(x, base, "virtual seconds")]
    for i, name in enumerate(rows):
        parts.append(
            f'<text x="{_LEFT - 8}" y="{_TOP + row_height * i + 11}" class="tick" text-anchor="end">{escape(name)}</text>'
        )
    for time, title in marks:
        parts.append(
            f'<line x1="{x(time):.1f}" x2="{x(time):.1f}" y1="{_TOP}" y2="{base}" class="mark"><title>{escape(title)}</title></line>'
        )
    for b in bars:
        width = max(x(b.end) - x(b.start), 1.5)
        top = _TOP + row_height * b.row + 3
        parts.append(
            f'<rect x="{x(b.start):.1f}" y="{top}" width="{width:.1f}" height="10" rx="2" fill="{colours[b.style]}"><title>{escape(b.title)}</title></rect>'
        )
    used = {b.style for b in bars}
    return _svg(parts, height) + legend([(s, c, False) for s, c in colours.items() if s in used])


def legend(entries: Sequence[tuple[str, str, bool]]) -> str:
    """What the colours mean."""
    items = "".join(
        f'<span><i style="border-top:3px {"dashed" if dashed else "solid"} {colour}"></i>{escape(name)}</span>'
        for name, colour, dashed in entries
    )
    return f'<div class="legend">{items}</div>'


def number(value: float) -> str:
    """A tick's number without needless digits."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:g}"


def _y_axis(y: Axis, y_label: str, *, y_percent: bool = False) -> str:
    parts = list[str]()
    for t in ticks(y.low, y.high):
        said = f"{100 * t:.0f} %" if y_percent else number(t)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(t):.1f}" y2="{y(t):.1f}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(t) + 4:.1f}" class="tick" text-anchor="end">{said}</text>')
    middle = (y.start + y.end) / 2
    parts.append(
        f'<text x="14" y="{middle:.1f}" class="label" text-anchor="middle" transform="rotate(-90 14 {middle:.1f})">{escape(y_label)}</text>'
    )
    return "".join(parts)


def _x_axis(x: Axis, base: float, label: str, *, numbered: bool = True) -> str:
    parts = [f'<line x1="{x.start}" x2="{x.end}" y1="{base}" y2="{base}" class="axis"/>']
    for t in ticks(x.low, x.high, 7 if len(number(x.high)) < 8 else 4) if numbered else ():
        said = number(t)
        # A long number at the right end would leave the picture if it stood in the middle of its tick.
        outside = x(t) + _DIGIT * len(said) / 2 > WIDTH
        at, anchor = (WIDTH - 1.0, "end") if outside else (x(t), "middle")
        parts.append(f'<text x="{at:.1f}" y="{base + 16}" class="tick" text-anchor="{anchor}">{said}</text>')
    parts.append(
        f'<text x="{(x.start + x.end) / 2:.1f}" y="{base + 36}" class="label" text-anchor="middle">{escape(label)}</text>'
    )
    return "".join(parts)


def _svg(parts: Sequence[str], height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'
