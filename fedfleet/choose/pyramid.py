"""PyramidFL: within a cohort, who taught less lately trains on less of its data, and who would be early makes more steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np

from fedfleet.choose.client_columns import ledger, look_up, write_rows
from fedfleet.choose.combinators import add_state
from fedfleet.choose.oort import oort
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Fraction, NonNegative, Share, Waiting
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import FOLDED, Assignments, Ended, Floats, Ints, Roster
from fedfleet.core.rng import hash_keys

SEES = ("compute_seconds", "transfer_seconds", "latency_seconds", "step_seconds", "batch_seconds", "steps")
_FAINTEST = 1e-30  # of a gradient that is known: 0 means that none is known
_SLACK = 1e-9  # of a step, so that a sum in another order is not late by its last bit


def pyramidfl(
    selector: Selector | None = None,
    *,
    low: Annotated[float, Ge(0), Le(0.99)] = 0.1,
    high: Annotated[float, Ge(0), Le(0.99)] = 0.6,
    slack: Fraction = 1.0,
    most: NonNegative = 10.0,
    wait_for: Share = 1.0,
    seconds: Waiting = math.inf,
) -> Selector:
    """A cohort whose members do unlike work: less data where little was learnt, more steps where there is time: PyramidFL.

    Li et al., MobiCom 2022. `selector` picks (default: oort). The n picked are ranked by gradient utility, the norm of a client's
    last update times its samples, those who have not told theirs first; rank r leaves `low` + r (`high` - `low`) / n of its data
    out. A client that would be done t seconds before the round ends makes up to floor(`slack` t / time of a step) steps
    more than the whole work, `most` times the whole work at most. The round ends with the ceil(`wait_for` n)-th fastest
    (1 / factor under overcommit), and after `seconds` at the latest (under a deadline). `low` = `high` = 0 and `slack` = 0
    leave both out. Times are predicted without unavailable time, and cautiously: a step counts as a full batch, and without
    variation from trip to trip no client that makes more steps ends after the round.

    The released code drops tensors of the update instead, each with that chance, and takes all communication to be shorter by
    that; here it is the data, which any algorithm understands. It thinks in rounds: under asynchronous pacing it is refused.
    """
    if low > high:
        raise BadInput(
            f"low = {low:g} is more than high = {high:g}: the best clients would leave out more data than the worst; swap low "
            "and high"
        )
    inner = oort() if selector is None else selector

    tracking = add_state(inner, lambda clients: ledger(clients, {"gradient": np.float32}), _learn, SEES)

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        assignments = tracking.pick(state, roster, n, draw)
        at = np.searchsorted(roster.clients, assignments.clients)
        left = low + _ranks(state, roster, at, draw) * (high - low) / max(len(at), 1)
        columns = {name: roster.stats[name][at] for name in SEES}
        more = step_counts(columns, 1.0 - left, wait_for=wait_for, seconds=seconds, slack=slack, most=most)
        steps = np.where(assignments.steps > 0, assignments.steps, more)
        return replace(assignments, share=assignments.share * (1.0 - left), steps=steps)

    return replace(tracking, name=f"pyramidfl({inner.name})", pick=pick, by_round=True, tailors=True, by_reports=True)


def step_counts(
    columns: Mapping[str, Floats], share: Floats, *, wait_for: float, seconds: float, slack: float, most: float
) -> Ints:
    """How many steps each member makes so that it ends, with full batches, by the earliest end of the round; 0: the usual work."""
    compute, transfer, latency, step, batch, steps = (columns[name] for name in SEES)
    with np.errstate(invalid="ignore", divide="ignore"):
        compute, step, batch = compute - latency, step - latency, batch - latency
        part = share < 1.0
        soonest = transfer + np.where(part, share * np.maximum(compute - steps * batch, 0.0), compute)
        latest = transfer + np.where(part, steps * step, compute)
        able = np.sort(soonest[np.isfinite(soonest)])
        if not len(able):
            return np.zeros(len(share), np.int64)
        last = min(math.ceil(wait_for * len(share) - 1e-9), len(able)) - 1
        end = min(float(able[last]), seconds)
        more = np.minimum(np.floor(slack * np.maximum(end - latest, 0.0) / step - _SLACK), np.floor(most * steps))
        result = np.where(np.isfinite(more) & (more >= 1.0), steps + more, 0.0)
    return result.astype(np.int64)


def _ranks(state: State, roster: Roster, at: Ints, draw: Draw) -> Ints:
    """The rank of each of these places by gradient utility, from 0; who is unknown comes first, with more samples before less."""
    clients = roster.clients[at]
    order = np.argsort(clients)
    gradient = np.zeros(len(at))
    gradient[order] = look_up(state, "gradient", clients[order])
    luck = hash_keys(draw.seed, "pyramid", roster.keys[at], draw.round << 32 ^ draw.first)
    ranks = np.empty(len(at), np.int64)
    ranks[np.lexsort((luck, -roster.samples[at], np.where(gradient > 0, -gradient, -np.inf)))] = np.arange(len(at))
    return ranks


def _learn(state: State, ended: Ended) -> State:
    """The gradient utility of those whose reports were folded, where they told it."""
    none = np.full(len(ended.tasks), np.nan)
    utility = ended.stats.get("update_norm", none) * ended.stats.get("samples", np.ones(len(none)))
    reported = np.flatnonzero(np.isfinite(utility) & (ended.fate == FOLDED))
    if not len(reported):
        return state
    clients, at = np.unique(ended.clients[reported], return_inverse=True)
    gradient = np.zeros(len(clients))
    gradient[at] = np.clip(utility[reported], _FAINTEST, np.finfo(np.float32).max)
    return write_rows(state, clients, {"gradient": gradient})
