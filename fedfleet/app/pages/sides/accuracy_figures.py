"""The score of several sides: against time, with bands over seeds, and at one moment, with a dot for each seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedfleet.app.pages.charts.axes import Scale, span_ticks
from fedfleet.app.pages.charts.labels import cut_names, width_of
from fedfleet.app.pages.charts.marks import Drawing, Sheet, dot, figure, line, text
from fedfleet.app.pages.charts.steps import Line, Plot, axis_top, steps
from fedfleet.app.pages.score_axes import measure_plot, score_limits, score_plot
from fedfleet.app.pages.sides.comparison_words import score_range, time_text
from fedfleet.app.pages.sides.page_runs import PageRun, Side, clock_name
from fedfleet.core.limits import read_target
from fedfleet.core.records import Floats
from fedfleet.measure.goal import Target
from fedfleet.measure.measure_info import OWN, measure_info

MOST = 8  # lines of one chart
_BANDS = 6  # lines whose seeds are drawn as bands: more would hide each other
_WIDE, _SLIM = 280.0, 155.0  # pixels of a name on a line
_ALIKE = 1.02  # seeds whose ends differ by less have one end in words
_POINTS = 400  # of a line
_NEIGHBOURS = 5  # evaluations of which one seed's line shows the median, where many lines meet


def accuracy_figure(sides: Sequence[Side], *, title: str = "", target: Target | None = None) -> str:
    """The figure; nothing if no side has ever been tried."""
    tried = [side for side in sides if any(len(run.seconds) for run in side.runs)]
    if not tried:
        return ""
    shown_sides = highest_sides(tried, MOST)
    bands = len(shown_sides) <= _BANDS
    smooth = len(shown_sides) > 3 and all(len(side.runs) == 1 for side in shown_sides)
    score = shown_sides[0].score
    refs = [(target, f"target: {score.brief(target)}")] if isinstance(target, float) and target else []
    time_label = clock_name(shown_sides)
    title = title or f"{score.title} against {time_label}"
    values = [float(value) for side in shown_sides for run in side.runs for value in run.accuracy]
    plot = score_plot(score, values, refs=refs)
    how, note = _subtitle(shown_sides, score.name, bands=bands), _note(shown_sides, len(tried), smooth=smooth)
    return _steps_figure(shown_sides, title, how, plot, score.brief, note, smooth=smooth, bands=bands)


def measure_figure(sides: Sequence[Side], name: str, *, target: Target | None = None) -> str:
    """The same of another measure; nothing where no run has it."""
    tried = [side for side in sides if any(len(run.seconds) for run in side.runs)]
    shown_sides = [side for one in highest_sides(tried, MOST) if (side := _side_of_measure(one, name)).runs]
    if not shown_sides:
        return ""
    info = measure_info(name, shown_sides[0].score)
    parsed = read_target(target) if isinstance(target, str) else None
    refs = [(parsed[2], f"target: {info.text(parsed[2])}")] if parsed and parsed[0].removeprefix(OWN) == name else []
    values = [float(value) for side in shown_sides for run in side.runs for value in run.accuracy]
    bands = len(shown_sides) <= _BANDS
    how = f"{_subtitle(shown_sides, info.label, bands=bands)} {'Less' if info.lower else 'More'} is better."
    label = info.label[:1].upper() + info.label[1:]
    title, plot = f"{label} against {clock_name(shown_sides)}", measure_plot(info, values, refs=refs)
    return _steps_figure(shown_sides, title, how, plot, info.text, "", smooth=False, bands=bands)


def _side_of_measure(side: Side, name: str) -> Side:
    """The side with a measure in the place of the score, of the runs that have it."""
    runs = list[PageRun]()
    for run in side.runs:
        values = run.measures.get(name)
        known = None if values is None else np.isfinite(values)
        if values is not None and known is not None and known.any():
            runs.append(replace(run, seconds=run.seconds[known], accuracy=values[known]))
    return replace(side, runs=tuple(runs))


def _steps_figure(
    shown_sides: Sequence[Side],
    title: str,
    how: str,
    plot: Plot,
    say: Callable[[float], str],
    note: str,
    *,
    smooth: bool,
    bands: bool,
) -> str:
    """Steps of every side against time."""
    top = axis_top(_lines(shown_sides, _WIDE, say, smooth=smooth, band=bands), plot)

    def chart(sheet: Sheet) -> Drawing:
        """All lines on one plot; on phones a plot for each group under its name, with one axis upwards and shorter labels."""
        if not sheet.slim:
            lines = _lines(shown_sides, _WIDE, say, smooth=smooth, band=bands)
            return steps(lines, sheet, replace(plot, height=300.0, label=clock_name(shown_sides)))
        plots = list[tuple[str, Drawing]]()
        for group in dict.fromkeys(side.group for side in shown_sides):
            sides = [side for side in shown_sides if side.group == group]
            lines = _lines(sides, _SLIM, say, smooth=smooth, band=bands, short=True)
            slim = replace(plot, height=190.0 if group else 250.0, label=clock_name(sides), top=top)
            plots.append((group, steps(lines, sheet, slim)))
        return stack_drawings(plots, sheet)

    return figure(title, how, chart, _finding(shown_sides, title, say), note=note)


def _lines(
    sides: Sequence[Side], room: float, say: Callable[[float], str], *, smooth: bool, band: bool, short: bool = False
) -> list[Line]:
    """The lines of these sides, with as much of each name as there is room for; `short`: without that of the group."""
    names = cut_names([side.name if short else side.label for side in sides], room, strong=True)
    return [curve(side, name, say, smooth=smooth, band=band) for side, name in zip(sides, names, strict=True)]


def stack_drawings(drawings: Sequence[tuple[str, Drawing]], sheet: Sheet) -> Drawing:
    """Drawings one below the other, each under its name."""
    marks, y = list[str](), 0.0
    for name, one in drawings:
        marks.append(text(0, y + 13, name, "strong"))
        y += 24.0 if name else 0.0
        marks.append(f'<g transform="translate(0 {y:.0f})">{"".join(one.marks)}</g>')
        y += one.height + 12
    return Drawing(sheet.width, y, marks)


def curve(
    side: Side, name: str = "", say: Callable[[float], str] | None = None, *, smooth: bool = False, band: bool = True
) -> Line:
    """The mean of the seeds, with a band from the lowest to the highest if that is wanted; a run that has ended keeps its last model.

    `name` is what its label calls it; its own if empty. `say` writes its values, by default as the score of its runs.
    """
    say = say or side.score.brief
    runs = [one for one in side.runs if len(one.seconds)]
    grid = _grid(runs)
    values = np.array([accuracy_steps(one, grid, smooth=smooth) for one in runs])
    mean = values.mean(0)
    several = band and len(runs) > 1
    ends = [one.end for one in runs]
    within = "in up to" if max(ends) > _ALIKE * min(ends) else "in"  # the line ends with the seed that takes longest
    return Line(
        side.label, grid.tolist(), mean.tolist(), side.colour, side.thin,
        low=values.min(0).tolist() if several else (), high=values.max(0).tolist() if several else (),
        label_text=f"{name or side.label}: {say(float(mean[-1]))} {within} {time_text(float(grid[-1]))}",
    )  # fmt: skip


def accuracy_steps(run: PageRun, grid: Floats, *, smooth: bool = False) -> Floats:
    """A run's accuracy at these times; `smooth`: the median of the evaluations up to each."""
    accuracy = _smooth_accuracy(run.accuracy) if smooth else run.accuracy
    at = np.clip(np.searchsorted(run.seconds, grid, side="right") - 1, 0, None)
    return accuracy[at]


def _smooth_accuracy(accuracy: Floats) -> Floats:
    """Medians of neighbours; the last stays what it is."""
    half = _NEIGHBOURS // 2
    result = np.array([np.median(accuracy[max(i - half, 0) : i + half + 1]) for i in range(len(accuracy))])
    result[-1:] = accuracy[-1:]
    return result


def _grid(runs: Sequence[PageRun]) -> Floats:
    """All moments at which something changed, from when every seed has been tried, thinned evenly."""
    start = max(float(one.seconds[0]) for one in runs)
    every = np.unique(np.concatenate([one.seconds for one in runs] + [[max(one.end for one in runs)]]))
    every = every[every >= start]
    if len(every) <= _POINTS:
        return every
    return every[np.unique(np.linspace(0, len(every) - 1, _POINTS).astype(np.int64))]


def _subtitle(sides: Sequence[Side], name: str, *, bands: bool) -> str:
    seeds = max(len(side.runs) for side in sides)
    reach = ", bands reach from the lowest to the highest" if bands else ""
    band = f" Lines are means of {seeds} seeds{reach}." if seeds > 1 else ""
    thin = " Thin lines end in hollow dots." if any(side.thin for side in sides) and any(not side.thin for side in sides) else ""
    two = " Time is real in runs that were served, virtual in the others." if clock_name(sides) == "time" else ""
    return f"Steps: {name} is known at evaluations only.{band}{thin}{two}"


def _note(shown_sides: Sequence[Side], tried: int, *, smooth: bool) -> str:
    note = "Lines: median of five neighbouring evaluations; figures: the last model." if smooth else ""
    if tried > len(shown_sides):
        note += f" Drawn are the {len(shown_sides)} of {tried} that end highest; the table below has all."
    return note.strip()


def _finding(sides: Sequence[Side], title: str, say: Callable[[float], str]) -> str:
    lines = [curve(side, say=say) for side in sides]
    return f"{title}. " + "; ".join(one.label for one in lines) + "."


_ROW, _HEAD, _GAP = 25.0, 26.0, 46.0
_PARTLY = "In brackets: how many runs had a model by then; the others count with their first weights."
_MARKS = (("0", 0.0), ("50", 0.5), ("100 %", 1.0))  # of percentages


def standings_figure(sides: Sequence[Side], title: str, how: str, *, at: float | None = None) -> str:
    """Accuracy of every side at a moment (None: of its last model); nothing if none is known."""
    if not any(accuracies_at(side, at) and any(one.has_model(at) for one in side.runs) for side in sides):
        return ""
    partly = any(0 < sum(one.has_model(at) for one in side.runs) < len(side.runs) for side in sides)
    how += f" {_PARTLY}" if partly else ""
    return figure(title, how, lambda sheet: standings(sides, sheet, at), _standings_text(sides, at))


def accuracies_at(side: Side, at: float | None) -> list[float]:
    """The accuracy of each seed at that moment, as far as it is known; without a model that of the first weights."""
    result = [one.last if at is None else one.accuracy_at(at) for one in side.runs]
    return [value for value in result if value is not None]


def highest_sides(sides: Sequence[Side], most: int) -> list[Side]:
    """As many sides as there is room for, those that end highest, in the order that all have: the best is never left out."""
    ends = [sum(result) / len(result) if (result := accuracies_at(side, None)) else -np.inf for side in sides]
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
    result, score = list[str](), sides[0].score
    known = [value for side in sides for value in accuracies_at(side, at)]
    low, high = score_limits(score, known)
    for g, group in enumerate(groups):
        row, column = divmod(g, across)
        start, top = left + column * (width + _GAP), row * (tall + 12)
        group_sides = {side.name: side for side in sides if side.group == group}
        result += _panel(
            group_sides, names, Scale(low, high, start, start + width), top, head, at, sheet, with_names=column == 0, room=left - 8
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
    for mark, value in _MARKS if first.score.kind.percent else span_ticks(x.low, x.high, 3):
        result.append(line(x(value), top + head - 4, x(value), base, "grid"))
        result.append(text(x(value), base + 18, mark, anchor="middle"))
    for i, (name, label) in enumerate(zip(names, cut_names(names, room), strict=True)):
        y = top + head + (i + 0.5) * _ROW
        result.append(text(0, y + 4, label, "ink") if with_names else "")
        if name in sides:
            result += _seeds(sides[name], x, y, at, sheet)
    return result


def _seeds(side: Side, x: Scale, y: float, at: float | None, sheet: Sheet) -> list[str]:
    score, values = side.score, accuracies_at(side, at)
    without = sum(not one.has_model(at) for one in side.runs)
    if not values or without == len(side.runs):
        return [text(x.start + 4, y + 4, "no model yet", "slanted")]
    text_range, average = score_range(score, values), sum(values) / len(values)
    values = [min(max(value, x.low), x.high) for value in values]  # a score far below is drawn at the edge
    low, high, mean = min(values), max(values), min(max(average, x.low), x.high)
    result = [line(x(low), y, x(high), y, f"s{side.colour} whisker")] if high > low else []
    title = "" if sheet.slim else f"{side.label}: {text_range}"
    result += [dot(x(v), y, 2.4, f"a{side.colour} see") for v in values] if len(values) > 1 else []
    result.append(dot(x(mean), y, 4.6, f"a{side.colour}", title))
    label = score.brief(average) + (f" ({len(side.runs) - without} of {len(side.runs)})" if without else "")
    room = width_of(label, strong=True) + 10
    if x(low) - room > x.start:
        return [*result, text(x(low) - 9, y + 4, label, "strong halo", "end")]
    return [*result, text(x(high) + 9, y + 4, label, "strong halo")]


def _standings_text(sides: Sequence[Side], at: float | None) -> str:
    parts = [
        f"{side.label} {side.score.brief(sum(v) / len(v))}"
        if (v := accuracies_at(side, at)) and any(one.has_model(at) for one in side.runs)
        else f"{side.label} no model yet"
        for side in sides
    ]
    return f"Mean {sides[0].score.name}: " + "; ".join(parts) + "."
