"""Accuracy of several sides against time: steps, seeds as bands, labels on the lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedfleet.app.pages.charts.labels import cut_names
from fedfleet.app.pages.charts.marks import SLIM, WIDE, Drawing, figure, text
from fedfleet.app.pages.charts.steps import Line, Plot, axis_top, steps
from fedfleet.app.pages.sides.comparison_words import time_text, whole_percent
from fedfleet.app.pages.sides.run_looks import PageRun, Side, clock_name
from fedfleet.app.pages.sides.standings import highest_sides
from fedfleet.core.records import Floats

MOST = 8  # lines of one chart
_BANDS = 6  # lines whose seeds are drawn as bands: more would hide each other
_WIDE, _SLIM = 280.0, 155.0  # pixels of a name on a line
_ALIKE = 1.02  # seeds whose ends differ by less have one end in words
_POINTS = 400  # of a line
_NEIGHBOURS = 5  # evaluations of which one seed's line shows the median, where many lines meet


def accuracy_figure(sides: Sequence[Side], *, title: str = "", target: float | None = None) -> str:
    """The figure; nothing if no side has ever been tried."""
    tried = [side for side in sides if any(len(run.seconds) for run in side.runs)]
    if not tried:
        return ""
    shown_sides = highest_sides(tried, MOST)
    bands = len(shown_sides) <= _BANDS
    smooth = len(shown_sides) > 3 and all(len(side.runs) == 1 for side in shown_sides)
    refs = [(target, f"target: {whole_percent(target)}")] if target else []
    time_label = clock_name(shown_sides)
    title = title or f"Accuracy against {time_label}"
    names = cut_names([side.label for side in shown_sides], _WIDE, strong=True)
    lines = [curve(side, name, smooth=smooth, band=bands) for side, name in zip(shown_sides, names, strict=True)]
    wide = steps(lines, WIDE, Plot(refs=refs, height=300.0, label=time_label))
    top = axis_top(lines, Plot(refs=refs))
    slim = stack_drawings(
        [_slim(group_sides, refs, top, smooth=smooth, band=bands) for group_sides in _groups(shown_sides)]
    )
    return figure(
        title,
        _subtitle(shown_sides, bands=bands),
        wide,
        slim,
        _finding(shown_sides),
        note=_note(shown_sides, len(tried), smooth=smooth),
    )


def _groups(sides: Sequence[Side]) -> list[list[Side]]:
    return [[side for side in sides if side.group == group] for group in dict.fromkeys(side.group for side in sides)]


def _slim(
    sides: Sequence[Side], refs: Sequence[tuple[float, str]], top: float, *, smooth: bool, band: bool
) -> tuple[str, Drawing]:
    """One group on a phone, under its name: fewer lines, shorter labels, the axis upwards of all groups."""
    names = cut_names([side.name for side in sides], _SLIM, strong=True)
    lines = [curve(side, name, smooth=smooth, band=band) for side, name in zip(sides, names, strict=True)]
    return sides[0].group, steps(
        lines, SLIM, Plot(refs=refs, height=190.0 if sides[0].group else 250.0, label=clock_name(sides), top=top)
    )


def stack_drawings(drawings: Sequence[tuple[str, Drawing]]) -> Drawing:
    """Drawings one below the other, each under its name."""
    marks, y = list[str](), 0.0
    for name, one in drawings:
        marks.append(text(0, y + 13, name, "strong"))
        y += 24.0 if name else 0.0
        marks.append(f'<g transform="translate(0 {y:.0f})">{"".join(one.marks)}</g>')
        y += one.height + 12
    return Drawing(SLIM.width, y, marks)


def curve(side: Side, name: str = "", *, smooth: bool = False, band: bool = True) -> Line:
    """The mean of the seeds, with a band from the lowest to the highest if that is wanted; a run that has ended keeps its last model.

    `name` is what its label calls it; its own if empty.
    """
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
        label_text=f"{name or side.label}: {whole_percent(float(mean[-1]))} {within} {time_text(float(grid[-1]))}",
    )  # fmt: skip


def accuracy_steps(run: PageRun, grid: Floats, *, smooth: bool = False) -> Floats:
    """A run's accuracy at these times; `calm`: the median of the evaluations up to each."""
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


def _subtitle(sides: Sequence[Side], *, bands: bool) -> str:
    seeds = max(len(side.runs) for side in sides)
    reach = ", bands reach from the lowest to the highest" if bands else ""
    band = f" Lines are means of {seeds} seeds{reach}." if seeds > 1 else ""
    thin = (
        " Thin lines end in hollow dots."
        if any(side.thin for side in sides) and any(not side.thin for side in sides)
        else ""
    )
    two = " Time is real in runs that were served, virtual in the others." if clock_name(sides) == "time" else ""
    return f"Steps: nothing is learnt between two evaluations.{band}{thin}{two}"


def _note(shown_sides: Sequence[Side], tried: int, *, smooth: bool) -> str:
    note = "Median of five neighbouring evaluations; the figures are those of the last model." if smooth else ""
    if tried > len(shown_sides):
        note += f" Drawn are the {len(shown_sides)} of {tried} that end highest; the table below has all."
    return note.strip()


def _finding(sides: Sequence[Side]) -> str:
    lines = [curve(side) for side in sides]
    return f"Accuracy against {clock_name(sides)}. " + "; ".join(one.label for one in lines) + "."
