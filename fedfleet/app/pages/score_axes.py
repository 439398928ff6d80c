"""Axes of scores and of other measures, by the kind of task: percentages from 0, R2 from where it begins, errors from 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedfleet.app.pages.charts.axes import Ticks, axis_end, share_ticks, span_ticks
from fedfleet.app.pages.charts.steps import Plot
from fedfleet.measure.measure_info import MeasureInfo
from fedfleet.measure.score_info import ScoreInfo

_LOWEST = -1.0  # of an axis of R2: what lies below is as bad as can be, and drawn at the edge
_STEP = 0.25  # of the lower end of such an axis
_TIMES = 3.0  # the middle of a curve: an error beyond is that of a beginning, or of a model that diverges


def score_limits(score: ScoreInfo, values: Iterable[float]) -> tuple[float, float]:
    """Where an axis of scores begins and ends.

    >>> from fedfleet.core.kinds import KINDS
    >>> score_limits(ScoreInfo(), [0.3, 0.9]), score_limits(ScoreInfo(KINDS["regression"]), [-0.05, 0.41])
    ((0.0, 1.0), (-0.25, 1.0))
    """
    if score.kind.percent:
        return 0.0, 1.0
    lowest = min((value for value in values if math.isfinite(value)), default=0.0)
    return max(_LOWEST, _STEP * math.floor(min(lowest, 0.0) / _STEP)), 1.0


def score_marks(score: ScoreInfo, low: float, high: float) -> Ticks:
    """The ticks of such an axis."""
    return share_ticks(high) if score.kind.percent else span_ticks(low, high)


def score_plot(score: ScoreInfo, values: Sequence[float], **more: Any) -> Plot:
    """What steps of scores are drawn on."""
    if score.kind.percent:
        return Plot(**more)
    low, _ = score_limits(score, values)
    high = max((value for value in values if math.isfinite(value)), default=1.0)
    return Plot(shares=False, low=low, **{"top": 1.0 if high > 0.8 else max(axis_end(high), 0.25), **more})


def measure_plot(info: MeasureInfo, values: Sequence[float], **more: Any) -> Plot:
    """What steps of another measure are drawn on, from 0; errors far beyond most others are drawn at the edge."""
    if info.percent:
        return Plot(**more)
    known = np.array([value for value in values if math.isfinite(value)])
    if not len(known):
        return Plot(shares=False, **more)
    if known.min() < 0:
        return Plot(shares=False, **{"low": float(known.min()), "top": axis_end(float(known.max())), **more})
    middle = float(np.median(known))
    top = min(float(known.max()), _TIMES * middle) if info.lower and middle > 0 else float(known.max())
    return Plot(shares=False, **{"top": axis_end(top), **more})
