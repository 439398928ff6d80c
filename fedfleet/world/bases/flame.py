"""Flame's availability traces (the fork with Felix): 300 trainers, each with six traces of three states.

File: id -> {training_delay_s, mobiperf_2st, mobiperf_3st_50, mobiperf_3st_75, syn_0, syn_20, syn_50}; a trace is a list
of [second, AVL_TRAIN | AVL_EVAL | UN_AVL], each state lasting until the next. Only AVL_TRAIN counts as ready. The mobiperf
traces cover six days, the syn ones a day; each repeats after that. In the published file all mobiperf traces begin with
300 seconds of AVL_TRAIN.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.fleet import StateTable
from fedfleet.world.bases.file_checks import join_spans, numbers, read_json, state_table

DAY = 86400.0
PERIODS: dict[str, float] = dict.fromkeys(("mobiperf_2st", "mobiperf_3st_50", "mobiperf_3st_75"), 6 * DAY)
PERIODS |= dict.fromkeys(("syn_0", "syn_20", "syn_50"), DAY)
READY = "AVL_TRAIN"
STATES = (READY, "AVL_EVAL", "UN_AVL")


def states(path: str) -> StateTable:
    """The states of PATH#TRACE (default mobiperf_2st); trainers that can never train are left out."""
    return states_and_left_out(path)[0]


def states_and_left_out(path: str) -> tuple[StateTable, int]:
    """The states, and how many trainers were left out because they can never train."""
    file, _, trace = path.partition("#")
    trace = trace or "mobiperf_2st"
    if trace not in PERIODS:
        raise BadInput(f"{path}: there is no trace called {trace!r}{suggest_name(trace, PERIODS)}")
    loaded = read_json(file)
    if not isinstance(loaded, dict) or not loaded:
        raise BadInput(f"{file}: a table of id -> traces is expected")
    result = {key: _ready(row, trace, f"{file}: state {key}") for key, row in loaded.items()}
    spans = {key: own for key, own in result.items() if own}
    if not spans:
        raise BadInput(f"{file}: none of its {len(result)} trainers can ever train in {trace}")
    return state_table((key, 0.0, PERIODS[trace], own) for key, own in spans.items()), len(result) - len(spans)


def _ready(row: Any, trace: str, where: str) -> list[tuple[float, float]]:
    """The ready spans within the period: the last state holds to its end, what lies beyond it is cut away."""
    changes = row.get(trace) if isinstance(row, dict) else None
    if not isinstance(changes, list) or not changes:
        raise BadInput(f"{where}: the trace {trace} is missing or empty")
    times, period = [], PERIODS[trace]
    for j, change in enumerate(changes):
        here = f"{where}: {trace}: change {j}"
        if not isinstance(change, list) or len(change) != 2 or change[1] not in STATES:
            raise BadInput(f"{here} must be [second, {' | '.join(STATES)}], not {change!r}")
        times.append(numbers(change[:1], here)[0])
        if j and times[j] < times[j - 1]:
            raise BadInput(f"{here} goes back in time")
    spans = pairwise([*times, max(period, times[-1])])
    return join_spans([(a, min(b, period)) for (a, b), change in zip(spans, changes, strict=True) if change[1] == READY])
