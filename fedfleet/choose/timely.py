"""In time for the deadline: who would be late is asked for a smaller portion of the work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.limits import Positive, Share
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Floats, Roster

PORTION = "portion"
SEES = ("compute_seconds", "transfer_seconds", "upload_seconds", "latency_seconds")


def timely(selector: Selector | None = None, *, seconds: Positive = 120.0, least: Share = 0.05) -> Selector:
    """Clients that would miss the deadline get a smaller `portion`, with which they are in time; others do the whole work.

    FLHetBench's variant of TimelyFL (supplement VII.3), to go with algorithm.use = "timelyfl" and a deadline of so many `seconds`.
    Speeds are taken as known: of one trip of each candidate, without unavailable time. The portion p is the largest with
    down + p up + compute (1/3 + 2/3 p) + latency <= seconds; who has less than `least`, since even the output layer would be
    late, is not asked. `selector` picks among the rest (default: uniform).
    """
    inner = uniform() if selector is None else selector

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        portion = portions(*(roster.stats[name] for name in SEES), seconds=seconds)
        able = np.flatnonzero(portion >= least)
        asked = inner.pick(state, roster.only(able), n, draw)
        mine = portion[np.searchsorted(roster.clients, asked.clients)]
        return replace(asked, settings={**asked.settings, PORTION: mine})

    return replace(inner, name=f"timely({inner.name})", pick=pick, sees=tuple(dict.fromkeys((*inner.sees, *SEES))))


def portions(compute: Floats, transfer: Floats, upload: Floats, latency: Floats, *, seconds: float) -> Floats:
    """The largest portion with which each client is in time, 1 at most; 0 or less if none is small enough.

    Each of the first three columns holds the latency of a trip once. The forward pass, a third of the work, is made in any case.

    >>> portions(*(np.array([v]) for v in (60.0, 30.0, 20.0, 0.0)), seconds=60.0)
    array([0.5])
    """
    with np.errstate(
        divide="ignore", invalid="ignore", over="ignore"
    ):  # a device that cannot do it at all takes for ever
        work, up = compute - latency, upload - latency
        always = transfer - up + work / TRAINING_PASSES
        less = up + work * (1.0 - 1.0 / TRAINING_PASSES)
        late = ~(transfer + work <= seconds)
        found = np.where(late, np.minimum((seconds - always) / less, 1.0), 1.0)
    return np.where(np.isfinite(found), found, 0.0)
