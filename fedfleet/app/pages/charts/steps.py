"""Step lines over time, rounds or bytes: nothing is learnt between two evaluations; bands for seeds; labels on the lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from fedfleet.app.pages.charts import axes
from fedfleet.app.pages.charts.axes import Scale, Ticks, left_axis_width, number_ticks
from fedfleet.app.pages.charts.labels import ROW, Flag, cut_text, place_flags, separate, width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, box, dot, line, text

_MAX_LABEL_SHARE = 0.34  # of the sheet: the most that labels right of the plot may take
MOST = 1500  # points of a line that are drawn


@dataclass(frozen=True, slots=True)
class Line:
    """A named step line: `y` holds from its `x` to the next; `low` and `high` are the band of its seeds.

    `colour` is 1 to 5; `thin` tells apart what shares a colour, and ends in a hollow dot; `label_text` is its label (its name if empty).
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 1
    thin: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    label_text: str = ""

    @property
    def label(self) -> str:
        return self.label_text or self.name


@dataclass(frozen=True, slots=True)
class Plot:
    """What steps are drawn on: shares of one or plain numbers upwards; virtual time, or numbers with a `label`, to the right.

    `refs` are dotted lines (value, name); `shade` is a part of the x axis that the reader should look at, with its words; `height` of
    the plot without its labels and feet; `left` and `right` are the room beside the plot (None: as much as its numbers and labels
    need). The axis upwards goes from `low` to `top`; what lies outside is drawn at its edge. `title` stands above the plot.
    """

    shares: bool = True
    time: bool = True
    label: str = "virtual time"
    height: float = 250.0
    refs: Sequence[tuple[float, str]] = ()
    top: float | None = None
    last: float | None = None
    shade: tuple[float, float] | None = None
    words: Sequence[str] = ()
    right: float | None = None
    left: float | None = None
    low: float = 0.0
    title: str = ""


def steps(lines: Sequence[Line], sheet: Sheet, plot: Plot = Plot()) -> Drawing:  # noqa: B008 (a frozen record)
    """The chart. One line is labelled at its end; several at the right if they end there, else by leaders into a band above."""
    curves = [thin_line(one) for one in lines if len(one.x)]
    last = plot.last or max((float(one.x[-1]) for one in curves), default=1.0) or 1.0
    top, marks = _value_axis(curves, plot)
    left, right = margins(curves, sheet, plot)
    crowded = _labels_overlap(curves, last, sheet)
    first = min((float(one.x[1]) for one in curves if len(one.x) > 1 and one.x[1] > 0), default=0.0)
    span = axes.time_scale(last, left, sheet.width - right, first=first if plot.time and len(curves) > 1 else 0.0)
    x = span if plot.time else Scale(0.0, last, left, sheet.width - right)
    placements = place_flags([x(float(one.x[-1])) for one in curves], [width_of(o.label, strong=True) for o in curves], 0, sheet.width) if crowded else []  # fmt: skip
    roof = (max((f.row for f in placements), default=-1) + 1) * ROW + (30 if plot.title else 14)
    y = Scale(plot.low, top, roof + plot.height, roof)
    curves = [_inside(one, plot.low, top) for one in curves]
    result = [text(0, 13, plot.title)]
    if plot.shade:
        result.append(box(x(plot.shade[0]), y.end, x(plot.shade[1]) - x(plot.shade[0]), y.start - y.end, "aw"))
    result += axes.left_axis(y, marks, left, x.end)
    feet = axes.time_ticks(x, sheet) if plot.time else number_ticks(last, 4 if sheet.slim else 6)
    result += axes.foot_axis(x, feet, y.start, plot.label + (", logarithmic" if x.log else ""))
    for value, name in plot.refs:
        result += axes.reference(y, value, name, left, x.end)
    result += [_band(one, x, y) for one in curves if len(one.low)]
    for one in curves:
        run = "".join(f"H{x(a):.1f}V{y(b):.1f}" for a, b in zip(one.x[1:], one.y[1:], strict=True))
        title = "" if sheet.slim else f"<title>{escape(one.name)}</title>"
        kind = f"line s{one.colour}{' thin' if one.thin else ''}"
        result.append(f'<path d="M{x(one.x[0]):.1f} {y(one.y[0]):.1f}{run}" class="{kind}">{title}</path>')
        result.append(dot(x(float(one.x[-1])), y(float(one.y[-1])), 3.6, f"ring s{one.colour}" if one.thin else f"a{one.colour}"))
    result += _labels_above(curves, placements, x, y, sheet) if crowded else _labels_right(curves, x, y)
    result += _shade_words(plot, x, y)
    return Drawing(sheet.width, y.start + 42, result)


def _value_axis(lines: Sequence[Line], plot: Plot) -> tuple[float, Ticks]:
    """Where the axis upwards ends, and its ticks."""
    maxima = [float(np.max(one.high if len(one.high) else one.y)) for one in lines if len(one.y)]
    highest = max([*maxima, *(value for value, _ in plot.refs)], default=1.0)  # a line that is named is on the axis
    top = plot.top or min(axes.axis_end(highest), 1.0 if plot.shares else np.inf) or 1.0
    if plot.shares:
        return top, axes.share_ticks(top)
    return top, number_ticks(top, whole_only=False) if plot.low == 0 else axes.span_ticks(plot.low, top)


def _inside(one: Line, low: float, top: float) -> Line:
    """The line with what lies outside of the axis at its edge."""
    columns = {key: list(np.clip(getattr(one, key), low, top)) for key in ("y", "low", "high") if len(getattr(one, key))}
    return replace(one, **columns)


def axis_top(lines: Sequence[Line], plot: Plot) -> float:
    """Where the axis upwards of such a chart ends, for charts that share it."""
    return _value_axis(lines, plot)[0]


def margins(lines: Sequence[Line], sheet: Sheet, plot: Plot) -> tuple[float, float]:
    """The room left and right of the plot, for drawings below on the same axis."""
    last = plot.last or max((float(one.x[-1]) for one in lines if len(one.x)), default=1.0) or 1.0
    words = max((width_of(one.label, strong=True) for one in lines), default=0.0) + 14
    overlap = _labels_overlap([one for one in lines if len(one.x)], last, sheet)
    right = 10.0 if overlap else min(words, _MAX_LABEL_SHARE * sheet.width)
    left = left_axis_width(_value_axis(lines, plot)[1])
    return left if plot.left is None else plot.left, right if plot.right is None else plot.right


def _shade_words(plot: Plot, x: Scale, y: Scale) -> list[str]:
    """The words of the shade, at its foot, on the side that has room; the last line is strong."""
    if plot.shade is None:
        return []
    wide = max((width_of(phrase, strong=True) for phrase in plot.words), default=0.0)
    before, after = x(plot.shade[0]), x(plot.shade[1])
    at, anchor = (before - 8, "end") if before - 8 - wide >= x.start else (after + 8, "start")
    foot, n = y.start - 12, len(plot.words)
    kinds = ["halo"] * (n - 1) + ["strong halo"]
    return [text(at, foot - (n - 1 - i) * ROW, plot.words[i], kinds[i], anchor) for i in range(n)]


def _labels_overlap(lines: Sequence[Line], last: float, sheet: Sheet) -> bool:
    """Whether labels at the right would not be on their lines, which end at different times, or would not fit there."""
    wide = max((width_of(one.label, strong=True) for one in lines), default=0.0) + 14
    return any(float(one.x[-1]) < 0.9 * last for one in lines) or wide > _MAX_LABEL_SHARE * sheet.width


def _band(one: Line, x: Scale, y: Scale) -> str:
    """From the lowest to the highest seed, as steps."""
    forward = "".join(f"H{x(a):.1f}V{y(b):.1f}" for a, b in zip(one.x[1:], one.high[1:], strict=True))
    places, lows = list(one.x), list(one.low)
    back = "".join(f"V{y(lows[i]):.1f}H{x(places[i]):.1f}" for i in range(len(lows) - 1, -1, -1))
    return f'<path d="M{x(places[0]):.1f} {y(one.high[0]):.1f}{forward}{back}Z" class="band a{one.colour}"/>'


def _labels_right(lines: Sequence[Line], x: Scale, y: Scale) -> list[str]:
    """Labels right of the ends, pushed apart where these crowd, then with a leader."""
    if not lines:
        return []
    ends = [y(float(one.y[-1])) for one in lines]
    places = separate(ends, ROW, y.end + 4, y.start - 2)
    result = list[str]()
    for one, end, place in zip(lines, ends, places, strict=True):
        at = x(float(one.x[-1]))
        if abs(place - end) > 3:
            result.append(line(at + 4, end, at + 9, place, "leader"))
        result.append(text(at + 11, place + 4, one.label, f"t{one.colour}"))
    return result


def _labels_above(lines: Sequence[Line], placements: Sequence[Flag], x: Scale, y: Scale, sheet: Sheet) -> list[str]:
    """Labels in the band above, each with a leader down to its end; those that fit on neither side stand over it."""
    leaders, words = list[str](), list[str]()
    for one, flag in zip(lines, placements, strict=True):
        at, last = x(float(one.x[-1])), y(float(one.y[-1]))
        foot = y.end - 6 - flag.row * ROW
        leaders.append(line(at, foot - 9, at, last - 4, "leader"))
        label = cut_text(one.label, sheet.width - 8.0, strong=True)
        wide = width_of(label, strong=True)
        start = min(max(at - 5 - wide if flag.left else at + 5, 0.0), sheet.width - wide)
        end = flag.left and start > 0  # true letters are narrower than their estimate: the side of the leader is exact
        words.append(text(start + wide if end else start, foot, label, f"t{one.colour} halo", "end" if end else "start"))
    return leaders + words


def thin_line(one: Line) -> Line:
    """The line with at most MOST points, the first and the last among them."""
    n = len(one.x)
    if n <= MOST:
        return one
    indices: list[int] = np.linspace(0, n - 1, MOST).astype(np.int64).tolist()
    columns = ("x", "y", "low", "high")
    return replace(one, **{k: [v[i] for i in indices] if len(v) else [] for k in columns for v in (getattr(one, k),)})
