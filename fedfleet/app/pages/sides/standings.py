"""How the sides stand at one moment: a row for each, a dot for each seed, groups beside each other on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from fedfleet.app.pages.charts.axes import Scale
from fedfleet.app.pages.charts.labels import cut_names, width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, dot, draw_both, figure, line, text
from fedfleet.app.pages.sides.comparison_words import share_range, whole_percent
from fedfleet.app.pages.sides.run_looks import Side

_ROW, _HEAD, _GAP = 25.0, 26.0, 46.0
_MARKS = ((0.0, "0"), (0.5, "50"), (1.0, "100 %"))


def standings_figure(sides: Sequence[Side], title: str, how: str, *, at: float | None = None) -> str:
    """Accuracy of every side at a moment (None: of its last model); nothing if none is known."""
    if not any(accuracies_at(side, at) for side in sides):
        return ""
    wide, slim = draw_both(lambda sheet: standings(sides, sheet, at))
    return figure(title, how, wide, slim, _finding(sides, at))


def accuracies_at(side: Side, at: float | None) -> list[float]:
    """The accuracy of each seed at that moment, as far as it is known."""
    result = [one.last if at is None else one.accuracy_at(at) for one in side.runs]
    return [value for value in result if value is not None]


def highest_sides(sides: Sequence[Side], most: int) -> list[Side]:
    """As many sides as there is room for, those that end highest, in the order that all have: the best is never left out."""
    ends = [sum(result) / len(result) if (result := accuracies_at(side, None)) else -1.0 for side in sides]
    indices = sorted(range(len(sides)), key=lambda i: -ends[i])[:most]
    return [sides[i] for i in sorted(indices)]


def standings(sides: Sequence[Side], sheet: Sheet, at: float | None) -> Drawing:
    """The drawing: groups are panels, side by side on wide sheets and one below the other on slim ones."""
    groups = list(dict.fromkeys(side.group for side in sides))
    names = list(dict.fromkeys(side.name for side in sides))
    left = min(max(width_of(name, strong=True) for name in names) + 12, 0.45 * sheet.width)
    across = 1 if sheet.slim else len(groups)
    width = (sheet.width - left - _GAP * (across - 1) - 22) / across
    head = _HEAD if any(groups) else 8.0
    tall = head + _ROW * len(names) + 30
    result = list[str]()
    for g, group in enumerate(groups):
        row, column = divmod(g, across)
        start, top = left + column * (width + _GAP), row * (tall + 12)
        group_sides = {side.name: side for side in sides if side.group == group}
        result += _panel(
            group_sides,
            names,
            Scale(0.0, 1.0, start, start + width),
            top,
            head,
            at,
            sheet,
            with_names=column == 0,
            room=left - 8,
        )
    return Drawing(sheet.width, (tall + 12) * (-(-len(groups) // across)) - 12, result)


def _panel(
    sides: dict[str, Side],
    names: Sequence[str],
    x: Scale,
    top: float,
    head: float,
    at: float | None,
    sheet: Sheet,
    *,
    with_names: bool,
    room: float,
) -> list[str]:
    first = next(iter(sides.values()))
    base = top + head + _ROW * len(names)
    result = [text(x.start, top + 13, first.group, f"t{first.colour}")]
    for value, mark in _MARKS:
        result.append(line(x(value), top + head - 4, x(value), base, "grid"))
        result.append(text(x(value), base + 18, mark, anchor="middle"))
    for i, (name, label) in enumerate(zip(names, cut_names(names, room), strict=True)):
        y = top + head + (i + 0.5) * _ROW
        result.append(text(0, y + 4, label, "ink") if with_names else "")
        if name in sides:
            result += _seeds(sides[name], x, y, at, sheet)
    return result


def _seeds(side: Side, x: Scale, y: float, at: float | None, sheet: Sheet) -> list[str]:
    values = accuracies_at(side, at)
    if not values:
        return [text(x.start + 4, y + 4, "no model yet", "slanted")]
    low, high, mean = min(values), max(values), sum(values) / len(values)
    result = [line(x(low), y, x(high), y, f"s{side.colour} whisker")] if high > low else []
    title = "" if sheet.slim else f"{side.label}: {share_range(values)}"
    result += [dot(x(v), y, 2.4, f"a{side.colour} see") for v in values] if len(values) > 1 else []
    result.append(dot(x(mean), y, 4.6, f"a{side.colour}", title))
    label = whole_percent(mean) + ("" if len(values) == len(side.runs) else f" in {len(values)} of {len(side.runs)}")
    room = width_of(label, strong=True) + 10
    if x(low) - room > x.start:
        return [*result, text(x(low) - 9, y + 4, label, "strong halo", "end")]
    return [*result, text(x(high) + 9, y + 4, label, "strong halo")]


def _finding(sides: Sequence[Side], at: float | None) -> str:
    parts = [
        f"{side.label} {whole_percent(sum(v) / len(v))}"
        if (v := accuracies_at(side, at))
        else f"{side.label} no model yet"
        for side in sides
    ]
    return "Mean accuracy: " + "; ".join(parts) + "."
