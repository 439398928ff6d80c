"""TiFL: clients in tiers of like speed, and each round from one tier."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np

from fedfleet.choose.client_columns import CENSORED, SECONDS, empty_durations, update_durations
from fedfleet.choose.scores import best
from fedfleet.core.bounds import Ge, Le
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, NonNegative
from fedfleet.core.part_facts import FleetFacts, RunFacts
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Ended, Floats, Ints, Keys, Roster, whole_work
from fedfleet.core.rng import hash_keys, uniforms
from fedfleet.core.trees import Array

_TIER = "tier"  # of each client; -1: nothing is known of it
_NO_RUN_FACTS = RunFacts(clients=0, seed=0, rounds=0)


def tifl(
    tiers: Annotated[int, Ge(1), Le(100)] = 5,
    *,
    mode: Literal["static", "adaptive"] = "static",
    shares: list[NonNegative] = [],  # noqa: B006 - only read
    every: Count = 20,
    credits: Count | None = None,
    run: RunFacts = _NO_RUN_FACTS,
    fleet: FleetFacts = FleetFacts(),  # noqa: B008
) -> Selector:
    """Clients are put into tiers by their speed; each round draws a tier and picks evenly within it.

    TiFL (Chai et al., HPDC 2020). Tiers hold equally many clients, fastest first; equally fast ones are in the same. They are made
    from predicted trips and made anew `every` so many rounds, with the durations seen by then: of tasks that were cut off a lower
    bound. `static`: tier i is drawn with probability `shares[i]` (default: all alike). `adaptive`: `every` so many rounds, if the
    tier of the last round did not improve, tiers are ranked by how they do and the worst is drawn most often, the best not at all;
    a tier has `credits` rounds (default: twice its share of those planned), and a tier with none left is not drawn while another
    has. TiFL ranks by accuracy on test data of each tier; here the mean loss of the tier's reports stands in for it.

    A tier with too few candidates is filled up from the next faster ones, then from slower ones. It needs rounds.
    """
    if run.clients and tiers > run.clients:
        raise BadInput(f"choose.tiers: {tiers} tiers cannot be made of {run.clients} clients; lower choose.tiers")
    if shares and (len(shares) != tiers or sum(shares) <= 0):
        raise BadInput(f"choose.shares = {shares}: give {tiers} numbers, one for each tier, at least one of them above 0")
    weights = np.array(shares, np.float64) / sum(shares) if shares else np.full(tiers, 1.0 / tiers)
    budget = float(credits or max(1, math.ceil(2 * run.rounds / tiers)))

    def initial(clients: int) -> State:
        result = empty_durations(clients)
        if fleet.trip_seconds is not None and len(fleet.keys) == clients:
            result[SECONDS], result[CENSORED] = fleet.trip_seconds(), np.ones(clients, np.bool_)
        result |= {_TIER: tier_of(result[SECONDS], tiers), "weights": weights, "rounds": np.zeros(1, np.int64)}
        if mode == "adaptive":
            none = np.zeros(tiers)
            result |= {"credits": np.full(tiers, budget), "sum": none, "count": none, "loss": np.full(tiers, np.nan)}
        return result

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        own = state[_TIER][roster.clients].astype(np.int64)
        unknown = np.flatnonzero(own < 0)
        if len(unknown):  # an unknown client is in one tier by chance, always the same
            luck = hash_keys(draw.seed, "tier/unknown", roster.keys[unknown])
            own[unknown] = (luck % np.uint64(tiers)).astype(np.int64)
        odds = state["weights"]
        if mode == "adaptive" and (state["credits"] > 0).any():
            odds = np.where(state["credits"] > 0, odds, 0.0)
        tier = _draw_tier(odds, np.bincount(own, minlength=tiers), draw)
        # The drawn tier first, then faster ones from the nearest on, then slower ones.
        away = np.where(own <= tier, tier - own, own)
        return whole_work(roster.clients[best(-away.astype(np.float64), roster.keys, n, draw, "tier/pick")])

    def learn(state: State, ended: Ended, _now: float) -> State:
        rounds = int(state["rounds"][0]) + 1
        result = {**state, **update_durations(state, ended), "rounds": np.array([rounds])}
        if mode == "adaptive":
            result |= _review_tiers(state, ended, tiers, now=rounds % every == 0)
        if rounds % every == 0:
            result[_TIER] = tier_of(result[SECONDS], tiers)
        return result

    return Selector("tifl", pick, learn, initial=initial, by_round=True, by_reports=mode == "adaptive")


def tier_of(seconds: Floats, tiers: int) -> Array:
    """The tier of each client: equally many in each, equal seconds in the same; -1 where nothing is known.

    >>> tier_of(np.array([9.0, 1.0, np.nan, 5.0, 5.0, 7.0, np.inf]), 3).tolist()
    [2, 0, -1, 0, 0, 1, 2]
    """
    known = np.flatnonzero(~np.isnan(seconds))
    result = np.full(len(seconds), -1, np.int8)
    if len(known):
        own = seconds[known]
        last = [math.ceil(i * len(own) / tiers) - 1 for i in range(1, tiers)]  # of each tier but the slowest
        bounds = np.partition(own, last)[last] if last else own[:0]
        result[known] = np.searchsorted(bounds, own, side="left")
    return result


def ranked_odds(loss: Floats, credits: Floats) -> Floats:
    """How often each tier is drawn: of m with credits the i-th worst with (m - i) / (m (m - 1) / 2), unknown being the worst.

    >>> ranked_odds(np.array([0.5, 2.0, 1.0]), np.array([1.0, 1.0, 1.0])).round(9)
    array([0.        , 0.66666667, 0.33333333])
    """
    able = np.flatnonzero(credits > 0)
    if not len(able):
        return np.full(len(loss), 1.0 / len(loss))
    result = np.zeros(len(loss))
    worst_first = able[np.argsort(-np.where(np.isnan(loss), np.inf, loss)[able], kind="stable")]
    m = len(able)
    result[worst_first] = 1.0 if m == 1 else (m - np.arange(1, m + 1)) / (m * (m - 1) / 2)
    return result


def _draw_tier(odds: Floats, candidates: Ints, draw: Draw) -> int:
    """One tier that has candidates, the same for every pick of a round as long as it has."""
    odds = np.where(candidates > 0, odds, 0.0)
    if not odds.sum() > 0:
        odds = (candidates > 0).astype(np.float64)
    one: Keys = np.zeros(1, np.uint64)
    luck = float(uniforms(draw.seed, "tier", one, draw.round)[0])
    cumulative: Floats = np.cumsum(odds)
    return min(int(np.searchsorted(cumulative, luck * float(cumulative[-1]), side="right")), len(odds) - 1)


def _review_tiers(state: State, ended: Ended, tiers: int, *, now: bool) -> dict[str, Array]:
    """The credits, losses and odds of tiers after these tasks; odds change `now` if the tier at work did not improve."""
    own = state[_TIER][ended.clients].astype(np.int64)
    known = own >= 0
    used = np.bincount(own[known], minlength=tiers)
    credits = state["credits"] - used / max(1, int(used.sum()))
    loss = ended.stats.get("loss", np.full(len(own), np.nan))
    reported = known & np.isfinite(loss)
    total = state["sum"] + np.bincount(own[reported], loss[reported], minlength=tiers)
    count = state["count"] + np.bincount(own[reported], minlength=tiers)
    result = {"credits": credits, "sum": total, "count": count}
    if not now:
        return result
    mean = np.where(count > 0, total / np.maximum(count, 1), state["loss"])
    current_tier = int(used.argmax())
    if not mean[current_tier] < state["loss"][current_tier]:
        result["weights"] = ranked_odds(mean, credits)
    return {**result, "loss": mean, "sum": np.zeros(tiers), "count": np.zeros(tiers)}
