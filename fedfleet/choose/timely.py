"""In time: who would be late is asked for a smaller portion of the work, and who has time to spare may do more."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from fedfleet.choose.combinators import restrict_candidates
from fedfleet.choose.uniform import uniform
from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.limits import MAX_COUNT, Count, Epochs, Positive, Share
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Bools, Floats, Ints, Roster

PORTION = "portion"
SEES = ("compute_seconds", "transfer_seconds", "upload_seconds", "latency_seconds")
_SLACK = 1e-9  # of an interval: a client that needs exactly that is in time, however its seconds are added up


def timely(selector: Selector | None = None, *, seconds: Positive = 120.0, least: Share = 0.05) -> Selector:
    """Clients that would miss the deadline get a smaller `portion`, with which they are in time; others do the whole work.

    FLHetBench's variant of TimelyFL (supplement VII.3), to go with algorithm.use = "timelyfl" and a deadline of so many `seconds`.
    Speeds are taken as known: of one trip of each candidate, without unavailable time. The portion p is the largest with
    down + p up + compute (1/3 + 2/3 p) + latency <= seconds; who has less than `least`, since even the output layer would be
    late, is not asked. `selector` picks among the rest (default: uniform).
    """
    inner = uniform() if selector is None else selector

    def is_in_time(_state: State, roster: Roster) -> Bools:
        return portions(*_columns(roster), seconds=seconds) >= least

    filtered = restrict_candidates(inner, is_in_time, f"timely({inner.name})")

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        assignments = filtered.pick(state, roster, n, draw)
        own_portions = portions(*_columns(roster), seconds=seconds)[np.searchsorted(roster.clients, assignments.clients)]
        return replace(assignments, settings={**assignments.settings, PORTION: own_portions})

    return replace(filtered, pick=pick, sees=tuple(dict.fromkeys((*inner.sees, *SEES))), tailors=True)


def timely_interval(
    selector: Selector | None = None,
    *,
    k: Count = 10,
    least: Share = 0.05,
    portion: Literal["linear", "in_time"] = "linear",
    most_passes: Epochs = 10_000,
) -> Selector:
    """TimelyFL's interval: reports are due when the `k`-th fastest would be done, and each client gets work to fit that.

    Zhang et al. 2023, with speeds taken as known. Of those that `selector` picks (default: uniform), with t_cmp and t_com the
    predicted seconds of the algorithm's work and of its transfers, T is the k-th smallest t_cmp + t_com. Who is faster makes
    max(floor((T - t_com) / t_cmp), 1) times the local steps, `most_passes` at most; who is slower gets the portion
    T / (t_cmp + t_com) of the model, which algorithm.use = "timelyfl" trains. That supposes that everything shrinks with it;
    download and forward pass do not, so that portion = "in_time" takes the largest that fits instead, and leaves out who would
    have less than `least`.
    Reports are due after T, which pace.use = "deadline" goes by. With k at the cohort every client has the whole model.
    """
    inner = uniform() if selector is None else selector

    def can_finish(_state: State, roster: Roster) -> Bools:
        return np.isfinite(_work_seconds(*_columns(roster)))

    filtered = restrict_candidates(inner, can_finish, f"timely_interval({inner.name})")

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        assignments = filtered.pick(state, roster, n, draw)
        if not len(assignments.clients):
            return assignments
        picked = roster.only(np.flatnonzero(np.isin(roster.clients, assignments.clients)))
        order = np.searchsorted(picked.clients, assignments.clients)
        columns = [column[order] for column in _columns(picked)]
        seconds = float(np.sort(_work_seconds(*columns))[min(k, len(order)) - 1])
        times = np.minimum(passes(*columns, seconds=seconds), most_passes)
        many = times > 1  # one pass is what the algorithm does by itself
        usual = np.where(assignments.steps > 0, assignments.steps, picked.stats["steps"][order])
        steps = np.where(many & np.isfinite(usual), times * np.nan_to_num(usual), assignments.steps).astype(np.int64)
        linear = portion == "linear"
        own_portions = np.minimum(seconds / _work_seconds(*columns), 1.0) if linear else portions(*columns, seconds=seconds)
        result = replace(
            assignments, steps=steps, settings={**assignments.settings, PORTION: own_portions}, due=seconds * (1.0 + _SLACK)
        )
        return result.only(np.flatnonzero(own_portions >= (0.0 if linear else least)))

    return replace(filtered, pick=pick, sees=tuple(dict.fromkeys((*inner.sees, *SEES, "steps"))), tailors=True)


def _columns(roster: Roster) -> list[Floats]:
    return [roster.stats[name] for name in SEES]


def _work_seconds(compute: Floats, transfer: Floats, _upload: Floats, latency: Floats) -> Floats:
    """The predicted seconds of the whole work: two of these columns hold the latency of a trip, which passes once."""
    with np.errstate(invalid="ignore"):  # a device that cannot do it at all takes for ever
        return compute + transfer - latency


def passes(compute: Floats, transfer: Floats, _upload: Floats, latency: Floats, *, seconds: float) -> Ints:
    """How many times each client can do the computing within an interval; once at least.

    >>> passes(*(np.array([v, 2 * v]) for v in (10.0, 5.0, 2.0, 0.0)), seconds=36.0).tolist()
    [3, 1]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result = np.floor((seconds - transfer) / (compute - latency) + _SLACK)
    return np.where(np.isfinite(result), np.clip(result, 1.0, MAX_COUNT), 1.0).astype(np.int64)


def portions(compute: Floats, transfer: Floats, upload: Floats, latency: Floats, *, seconds: float) -> Floats:
    """The largest portion with which each client is in time, 1 at most; 0 or less if none is small enough.

    Each of the first three columns holds the latency of a trip once. The forward pass, a third of the work, is made in any case.

    >>> portions(*(np.array([v]) for v in (60.0, 30.0, 20.0, 0.0)), seconds=60.0)
    array([0.5])
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a device that cannot do it at all takes for ever
        work, up = compute - latency, upload - latency
        always = transfer - up + work / TRAINING_PASSES
        less = up + work * (1.0 - 1.0 / TRAINING_PASSES)
        result = np.where(~(transfer + work <= seconds), np.minimum((seconds - always) / less, 1.0), 1.0)
    return np.where(np.isfinite(result), result, 0.0)
