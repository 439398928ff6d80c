"""Bounds around a selector that goes by what devices report: no report is taken for more than it can be, and no client leads."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from fedfleet.choose.client_columns import full_column, ledger, look_up, write_rows
from fedfleet.choose.combinators import add_state
from fedfleet.choose.scores import best
from fedfleet.choose.uniform import uniform
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import FOLDED, Assignments, Bools, Ended, Floats, Ints, Roster
from fedfleet.core.trees import Array

# How many times `spread` a statistic may exceed its median: a squared one by the square.
_POWERS = {"loss": 1, "squared_loss": 2, "update_norm": 1}
_SAMPLES = "samples"
_SAMPLES_SPREAD = 10.0  # clients hold very unlike numbers of samples, and a server bounds what they say of them
_COLUMNS = {**dict.fromkeys((*_POWERS, _SAMPLES), np.float32), "tasks": np.int32}
_UNTOLD = "untold"

Times = Annotated[float, Ge(1), Le(1e6)]


def bounded(selector: Selector | None = None, *, spread: Times = 3.0, lead: Times = 2.0) -> Selector:
    """Around a selector that goes by what devices report, so that one that lies gains little: default: uniform.

    A loss or norm that a device reports, or answers to a probe, counts at most `spread` times the median of what all clients
    reported last (mean squared losses: `spread` squared); numbers of samples ten times theirs. A client with `lead` times as many
    tasks as the candidates have on average, of those that had any, is left out until others have caught up; where too few are
    left, those with the fewest tasks fill the places. What the server sees itself, such as how long a task took, stays as it is.
    """
    inner = uniform() if selector is None else selector

    def initial(clients: int) -> State:
        return ledger(clients, _COLUMNS)

    def learn(state: State, ended: Ended) -> State:
        clients, times = np.unique(ended.clients, return_counts=True)
        rows: dict[str, Array] = {name: np.array(look_up(state, name, clients)) for name in _COLUMNS}
        rows["tasks"] += times
        folded = ended.fate == FOLDED
        at = np.searchsorted(clients, ended.clients)
        for name in (*_POWERS, _SAMPLES):
            said = ended.stats.get(name)
            if said is not None:
                heard = folded & np.isfinite(said)
                rows[name][at[heard]] = np.minimum(np.abs(said[heard]), np.finfo(np.float32).max)
        return write_rows(state, clients, rows)

    def hear(state: State, ended: Ended) -> Ended:
        """What the selector inside is told."""
        stats = dict(ended.stats)
        for name in (*_POWERS, _SAMPLES):
            if name in stats:
                limit = _limit(full_column(state, name), name, spread)
                stats[name] = np.clip(stats[name], -limit, limit)
        return replace(ended, stats=stats)

    tracking = add_state(inner, initial, learn, (_UNTOLD,), hear)

    def followers(state: State, roster: Roster, n: int, draw: Draw) -> Roster:
        """The candidates without those that lead."""
        counts: Ints = look_up(state, "tasks", roster.clients) + roster.stats[_UNTOLD].astype(np.int64)
        allowed = _below_lead(counts, lead)
        missing = min(n, len(counts)) - int(allowed.sum())
        if missing > 0:
            others = np.flatnonzero(~allowed)
            fewest = best(-counts[others].astype(np.float64), roster.keys[others], missing, draw, "bounded")
            allowed[others[fewest]] = True
        return roster if allowed.all() else roster.only(allowed)

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        few = followers(state, roster, n, draw)
        return tracking.pick(state, _clip_answers(few, spread), min(n, len(few.clients)), draw)

    def probe(state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        assert tracking.probe is not None
        few = followers(state, roster, n, draw)
        return tracking.probe(state, few, min(n, len(few.clients)), draw)

    return replace(
        tracking, name=f"bounded({inner.name})", pick=pick, probe=None if tracking.probe is None else probe, bounded=True
    )


def _below_lead(counts: Ints, lead: float) -> Bools:
    """Which of these clients have not had `lead` times as many tasks as those that had any have on average.

    >>> _below_lead(np.array([0, 1, 1, 4]), 2.0).tolist(), _below_lead(np.array([0, 0]), 2.0).tolist()
    ([True, True, True, False], [True, True])
    """
    tried = counts[counts > 0]
    return counts < (np.ceil(lead * tried.mean()) if len(tried) else 1.0)


def _limit(reported: Array, name: str, spread: float) -> float:
    """How much is believed of a statistic, by what all clients reported last (0: nothing)."""
    values = reported[reported > 0]
    if not len(values):
        return np.inf
    median = float(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])
    return median * (_SAMPLES_SPREAD if name == _SAMPLES else spread ** _POWERS[name])


def _clip_answers(roster: Roster, spread: float) -> Roster:
    """The roster with what a probe brought, as far as it is believed."""
    answers: dict[str, Floats] = {}
    for name in _POWERS.keys() & roster.stats.keys():
        column = roster.stats[name]
        limit = _limit(np.nan_to_num(np.abs(column), nan=0.0), name, spread)
        answers[name] = np.clip(column, -limit, limit)
    return replace(roster, stats={**roster.stats, **answers}) if answers else roster
