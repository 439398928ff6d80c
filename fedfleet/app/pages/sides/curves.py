"""Accuracy of several sides against time: steps, seeds as bands, labels on the lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedfleet.app.pages.charts.labels import cut_apart
from fedfleet.app.pages.charts.marks import SLIM, WIDE, Drawing, figure, text
from fedfleet.app.pages.charts.steps import Line, Plot, roof_of, steps
from fedfleet.app.pages.sides.comparison_words import points, time
from fedfleet.app.pages.sides.run_looks import Look, Side, clock
from fedfleet.app.pages.sides.standings import foremost
from fedfleet.core.records import Floats

MOST = 8  # lines of one chart
_BANDS = 6  # lines whose seeds are drawn as bands: more would hide each other
_WIDE, _SLIM = 280.0, 155.0  # pixels of a name on a line
_ALIKE = 1.02  # seeds whose ends differ by less have one end in words
_POINTS = 400  # of a line
_NEIGHBOURS = 5  # evaluations of which one seed's line shows the median, where many lines meet


def accuracy_figure(sides: Sequence[Side], *, title: str = "", target: float | None = None) -> str:
    """The figure; nothing if no side has ever been tried."""
    tried = [side for side in sides if any(len(look.seconds) for look in side.looks)]
    if not tried:
        return ""
    drawn = foremost(tried, MOST)
    bands = len(drawn) <= _BANDS
    calm = len(drawn) > 3 and all(len(side.looks) == 1 for side in drawn)
    refs = [(target, f"target: {points(target)}")] if target else []
    passes = clock(drawn)
    title = title or f"Accuracy against {passes}"
    names = cut_apart([side.label for side in drawn], _WIDE, strong=True)
    lines = [curve(side, name, calm=calm, band=bands) for side, name in zip(drawn, names, strict=True)]
    wide = steps(lines, WIDE, Plot(refs=refs, height=300.0, label=passes))
    top = roof_of(lines, Plot(refs=refs))
    slim = stacked([_slim(mine, refs, top, calm=calm, band=bands) for mine in _groups(drawn)])
    return figure(
        title, _how(drawn, bands=bands), wide, slim, _finding(drawn), note=_note(drawn, len(tried), calm=calm)
    )


def _groups(sides: Sequence[Side]) -> list[list[Side]]:
    return [[side for side in sides if side.group == group] for group in dict.fromkeys(side.group for side in sides)]


def _slim(
    sides: Sequence[Side], refs: Sequence[tuple[float, str]], top: float, *, calm: bool, band: bool
) -> tuple[str, Drawing]:
    """One group on a phone, under its name: fewer lines, shorter labels, the axis upwards of all groups."""
    names = cut_apart([side.name for side in sides], _SLIM, strong=True)
    lines = [curve(side, name, calm=calm, band=band) for side, name in zip(sides, names, strict=True)]
    return sides[0].group, steps(
        lines, SLIM, Plot(refs=refs, height=190.0 if sides[0].group else 250.0, label=clock(sides), top=top)
    )


def stacked(drawings: Sequence[tuple[str, Drawing]]) -> Drawing:
    """Drawings one below the other, each under its name."""
    marks, y = list[str](), 0.0
    for name, one in drawings:
        marks.append(text(0, y + 13, name, "strong"))
        y += 24.0 if name else 0.0
        marks.append(f'<g transform="translate(0 {y:.0f})">{"".join(one.marks)}</g>')
        y += one.height + 12
    return Drawing(SLIM.width, y, marks)


def curve(side: Side, name: str = "", *, calm: bool = False, band: bool = True) -> Line:
    """The mean of the seeds, with a band from the lowest to the highest if that is wanted; a run that has ended keeps its last model.

    `name` is what its label calls it; its own if empty.
    """
    looks = [one for one in side.looks if len(one.seconds)]
    grid = _grid(looks)
    values = np.array([stepped(one, grid, calm=calm) for one in looks])
    mean = values.mean(0)
    several = band and len(looks) > 1
    ends = [one.end for one in looks]
    within = "in up to" if max(ends) > _ALIKE * min(ends) else "in"  # the line ends with the seed that takes longest
    return Line(
        side.label, grid.tolist(), mean.tolist(), side.colour, side.thin,
        low=values.min(0).tolist() if several else (), high=values.max(0).tolist() if several else (),
        said=f"{name or side.label}: {points(float(mean[-1]))} {within} {time(float(grid[-1]))}",
    )  # fmt: skip


def stepped(look: Look, grid: Floats, *, calm: bool = False) -> Floats:
    """A run's accuracy at these times; `calm`: the median of the evaluations up to each."""
    accuracy = _calmed(look.accuracy) if calm else look.accuracy
    at = np.clip(np.searchsorted(look.seconds, grid, side="right") - 1, 0, None)
    return accuracy[at]


def _calmed(accuracy: Floats) -> Floats:
    """Medians of neighbours; the last stays what it is."""
    half = _NEIGHBOURS // 2
    found = np.array([np.median(accuracy[max(i - half, 0) : i + half + 1]) for i in range(len(accuracy))])
    found[-1:] = accuracy[-1:]
    return found


def _grid(looks: Sequence[Look]) -> Floats:
    """All moments at which something changed, from when every seed has been tried, thinned evenly."""
    start = max(float(one.seconds[0]) for one in looks)
    every = np.unique(np.concatenate([one.seconds for one in looks] + [[max(one.end for one in looks)]]))
    every = every[every >= start]
    if len(every) <= _POINTS:
        return every
    return every[np.unique(np.linspace(0, len(every) - 1, _POINTS).astype(np.int64))]


def _how(sides: Sequence[Side], *, bands: bool) -> str:
    seeds = max(len(side.looks) for side in sides)
    reach = ", bands reach from the lowest to the highest" if bands else ""
    band = f" Lines are means of {seeds} seeds{reach}." if seeds > 1 else ""
    thin = (
        " Thin lines end in hollow dots."
        if any(side.thin for side in sides) and any(not side.thin for side in sides)
        else ""
    )
    two = " Time is real in runs that were served, virtual in the others." if clock(sides) == "time" else ""
    return f"Steps: nothing is learnt between two evaluations.{band}{thin}{two}"


def _note(drawn: Sequence[Side], tried: int, *, calm: bool) -> str:
    said = "Median of five neighbouring evaluations; the figures are those of the last model." if calm else ""
    if tried > len(drawn):
        said += f" Drawn are the {len(drawn)} of {tried} that end highest; the table below has all."
    return said.strip()


def _finding(sides: Sequence[Side]) -> str:
    lines = [curve(side) for side in sides]
    return f"Accuracy against {clock(sides)}. " + "; ".join(one.label for one in lines) + "."
