"""Accuracy of several sides against time: steps, seeds as bands, labels on the lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedfleet.app.pages.charts.drawing import SLIM, WIDE, Drawing, figure, text
from fedfleet.app.pages.charts.steps import Line, Plot, steps
from fedfleet.app.pages.compared.looking import Look, Side, clock
from fedfleet.app.pages.compared.words import points, time
from fedfleet.core.records import Floats

MOST = 8  # lines of one chart
_BANDS = 6  # lines whose seeds are drawn as bands: more would hide each other
_POINTS = 400  # of a line
_NEIGHBOURS = 5  # evaluations of which one seed's line shows the median, where many lines meet


def accuracy_figure(sides: Sequence[Side], *, title: str = "", target: float | None = None) -> str:
    """The figure; nothing if no side has ever been tried."""
    tried = [side for side in sides if any(len(look.seconds) for look in side.looks)]
    if not tried:
        return ""
    drawn = tried[:MOST]
    bands = len(drawn) <= _BANDS
    calm = len(drawn) > 3 and all(len(side.looks) == 1 for side in drawn)
    refs = [(target, f"target: {points(target)}")] if target else []
    passes = clock(drawn)
    title = title or f"Accuracy against {passes}"
    wide = steps(
        [curve(side, calm=calm, band=bands) for side in drawn], WIDE, Plot(refs=refs, height=300.0, label=passes)
    )
    slim = stacked([_slim(mine, refs, calm=calm, band=bands) for mine in _groups(drawn)])
    return figure(
        title, _how(drawn, bands=bands), wide, slim, _finding(drawn), note=_note(drawn, len(tried), calm=calm)
    )


def _groups(sides: Sequence[Side]) -> list[list[Side]]:
    return [[side for side in sides if side.group == group] for group in dict.fromkeys(side.group for side in sides)]


def _slim(sides: Sequence[Side], refs: Sequence[tuple[float, str]], *, calm: bool, band: bool) -> tuple[str, Drawing]:
    """One group on a phone, under its name: fewer lines, shorter labels."""
    lines = [curve(side, calm=calm, short=True, band=band) for side in sides]
    return sides[0].group, steps(
        lines, SLIM, Plot(refs=refs, height=190.0 if sides[0].group else 250.0, label=clock(sides))
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


def curve(side: Side, *, calm: bool = False, short: bool = False, band: bool = True) -> Line:
    """The mean of the seeds, with a band from the lowest to the highest if that is wanted; a run that has ended keeps its last model."""
    looks = [one for one in side.looks if len(one.seconds)]
    grid = _grid(looks)
    values = np.array([stepped(one, grid, calm=calm) for one in looks])
    mean = values.mean(0)
    several = band and len(looks) > 1
    return Line(
        side.label, grid.tolist(), mean.tolist(), side.colour, side.thin,
        low=values.min(0).tolist() if several else (), high=values.max(0).tolist() if several else (),
        said=f"{_cut(side.name, 22) if short else _cut(side.label, 40)}: {points(float(mean[-1]))} in {time(float(grid[-1]))}",
    )  # fmt: skip


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 2]}.."


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
        said += f" The first {len(drawn)} of {tried} are drawn; the table below has all."
    return said.strip()


def _finding(sides: Sequence[Side]) -> str:
    lines = [curve(side) for side in sides]
    return f"Accuracy against {clock(sides)}. " + "; ".join(one.label for one in lines) + "."
