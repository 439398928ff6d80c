"""Oort: clients that teach much and take little time, with a share of places for clients that are still unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedfleet.choose.client_columns import full_column, ledger, look_up, write_rows
from fedfleet.choose.scores import (
    Singles,
    largest,
    normalise_utility,
    nth_largest,
    penalise_slow,
    preferred_seconds,
    statistical_utility,
    temporal_uncertainty,
    weighted_sample,
)
from fedfleet.choose.uniform import smallest
from fedfleet.core.limits import Count, Fraction, Natural, NonNegative, Share
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import DROPPED, FOLDED, LOST, Assignments, Bools, Ended, Floats, Ints, Keys, Roster, whole_work
from fedfleet.core.rng import hash_keys, uniforms

# What is known of each client: utility and the round of the report that told it (0: none did), seconds of its last trip or how long
# it was waited for in vain (0: not known, infinite: its device cannot do the work), and how many of its tasks have ended.
_COLUMNS = {"utility": np.float32, "last": np.int32, "seconds": np.float32, "times": np.uint16}
_MIN_SECONDS = 1e-30
_FLAT, _SHARP = 0.1, 5.0  # changes of utility that make the pacer patient, and impatient
_MAX_BLACKLISTED = 0.3  # of those who could be asked


@dataclass(frozen=True, slots=True)
class _Rules:
    """The numbers of the method."""

    explore: float
    decay: float
    floor: float
    window: float
    cut_off: float
    clip: float
    uncertainty: float
    penalty: float
    preferred: float
    pacer_step: int
    pacer_delta: float
    blacklist: int


def oort(
    *,
    explore: Fraction = 0.9,
    decay: Share = 0.98,
    floor: Fraction = 0.2,
    window: NonNegative = 5.0,
    cut_off: Fraction = 0.95,
    clip: Fraction = 0.95,
    uncertainty: NonNegative = 0.1,
    penalty: NonNegative = 2.0,
    preferred: Fraction = 0.1,
    pacer_step: Count = 20,
    pacer_delta: Fraction = 0.05,
    blacklist: Natural = 0,
) -> Selector:
    """Those whose data teach much, unless they are slow, and a falling share of newcomers: Oort.

    Lai et al., OSDI 2021. A client that reported is worth U = |B| sqrt(mean squared loss) and scores
    (min(U, `clip` quantile) - U_min) / (U_max - U_min) + sqrt(`uncertainty` ln R / L), R the present round and L that of its last
    report; a trip of t > T seconds multiplies it by (T / t)^`penalty`, T being the `preferred` quantile of known durations.
    max(`explore` `decay`^R, `floor`) of the places go to newcomers, drawn by their number of samples from the `window` times as
    many that have most (slow ones penalised alike); the others are drawn by score from all above `cut_off` times the score
    of the last that would be in. Every `pacer_step` rounds, if the utility of those who were picked by score changed by less
    than 10 % from one such span to the next, the `preferred` quantile grows by `pacer_delta` (0: never); if fivefold, it falls.
    A client with more than `blacklist` tasks (0: no limit) is left out, up to 30 % of those in reach. Over-commitment is a matter
    of pace: pace.use = "overcommit".

    `decay`, `clip` and `cut_off` are those of the paper's text; the released code has 0.95, 0.98, 0.7. The pacer is the released
    one, which moves a quantile, not seconds. Fractions of a place are rounded at random. A task that was dropped or lost says
    only how long its client takes at least; a device that cannot do the work is asked when no other is left. Who was asked
    f times and never reported is a newcomer still, worth 1 / (1 + f) of its samples.
    """
    rules = _Rules(
        explore, decay, floor, window, cut_off, clip, uncertainty, penalty, preferred, pacer_step, pacer_delta, blacklist
    )

    def initial(clients: int) -> State:
        own = {"rounds": np.zeros(1, np.int64), "preferred": np.array([preferred])}
        return {**ledger(clients, _COLUMNS), **own, "history": np.full(2 * pacer_step, np.nan)}

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        seconds, last = (look_up(state, name, roster.clients) for name in ("seconds", "last"))
        share = float(state["preferred"][0])
        longest = preferred_seconds(full_column(state, "seconds"), share) if penalty else math.inf
        context = _PickContext(rules, state, roster, draw, seconds, last, longest)
        return whole_work(roster.clients[_choose_clients(context, min(n, len(roster.clients)))])

    return Selector("oort", pick, lambda state, ended, now: _learn(rules, state, ended), initial=initial, by_reports=True)


# ---- picking ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PickContext:
    """What one pick looks at: the columns are as long as the roster."""

    rules: _Rules
    state: State
    roster: Roster
    draw: Draw
    seconds: Singles
    last: NDArray[np.int32]
    preferred: float

    def luck(self, label: str, at: Ints) -> Keys:
        """One hash for each of these places, of this pick and for this purpose alone."""
        pick = self.draw.round << 32 ^ self.draw.first
        return hash_keys(self.draw.seed, f"oort/{label}", self.roster.keys[at], pick)


def _choose_clients(context: _PickContext, n: int) -> Ints:
    """The places of those who are asked on the roster."""
    able = context.seconds < np.inf
    willing = able & ~_blacklist_mask(context, able)
    reported = context.last > 0
    known, new = np.flatnonzero(willing & reported), np.flatnonzero(willing & ~reported)
    by_score = _places_by_score(context, n, len(known), len(new))
    parts = [_pick_by_score(context, known, by_score), _pick_newcomers(context, new, min(n - by_score, len(new)))]
    for spare in (able & ~willing, ~able):  # no other client is left
        short = n - sum(len(part) for part in parts)
        if short > 0:
            at = np.flatnonzero(spare)
            parts.append(at[smallest(context.luck("spare", at), short)])
    return np.concatenate(parts)


def _blacklist_mask(context: _PickContext, able: Bools) -> Bools:
    """Who had its share of tasks; if that would be too many, those who had most."""
    result = np.zeros(len(able), np.bool_)
    if context.rules.blacklist:
        times = look_up(context.state, "times", context.roster.clients)
        over = np.flatnonzero(able & (times > context.rules.blacklist))
        most = int(_MAX_BLACKLISTED * len(able))
        result[over[largest(times[over], most, lambda at: context.luck("barred", over[at]))]] = True
    return result


def _places_by_score(context: _PickContext, n: int, known: int, new: int) -> int:
    """How many are picked by score: a fraction of a place is rounded at random; what one side cannot fill is the other's."""
    rules, draw = context.rules, context.draw
    share = max(rules.explore * rules.decay ** int(context.state["rounds"][0]), rules.floor)
    coin = float(uniforms(draw.seed, "oort/places", np.array([draw.round], np.uint64), draw.first)[0])
    return min(max(int(n * (1.0 - share) + coin), n - new), known)


def _pick_by_score(context: _PickContext, known: Ints, n: int) -> Ints:
    """Drawn by score, from all who are nearly as good as the n-th."""
    if n <= 0:
        return known[:0]
    rules, state = context.rules, context.state
    score = normalise_utility(look_up(state, "utility", context.roster.clients[known]), rules.clip)
    score += temporal_uncertainty(context.last[known], int(state["rounds"][0]) + 1, rules.uncertainty)
    score = penalise_slow(score, context.seconds[known], context.preferred, rules.penalty)
    pool = np.flatnonzero(score >= rules.cut_off * nth_largest(score, n))
    return known[pool[weighted_sample(score[pool], context.luck("exploit", known[pool]), n)]]


def _pick_newcomers(context: _PickContext, new: Ints, n: int) -> Ints:
    """Drawn by how many samples they hold, from those who hold most."""
    if n <= 0:
        return new[:0]
    rules, roster = context.rules, context.roster
    size = roster.samples[new].astype(np.float32)
    size /= 1 + look_up(context.state, "times", roster.clients[new]).astype(np.float32)
    size = penalise_slow(size, context.seconds[new], context.preferred, rules.penalty)
    most = largest(size, max(n, math.ceil(min(rules.window * n, len(new)))), lambda at: context.luck("edge", new[at]))
    return new[most[weighted_sample(size[most], context.luck("explore", new[most]), n)]]


# ---- learning -----------------------------------------------------------------------------------------------------


def _learn(rules: _Rules, state: State, ended: Ended) -> State:
    """The state after these tasks ended."""
    rounds = int(state["rounds"][0]) + 1
    clients, at, times = np.unique(ended.clients, return_inverse=True, return_counts=True)
    rows = {name: np.array(look_up(state, name, clients)) for name in _COLUMNS}
    rows["times"] = np.minimum(rows["times"] + times, np.iinfo(np.uint16).max)
    # Durations of those who reported; the others took at least as long as they were waited for.
    known, unable, silent = rows["seconds"], np.isnan(ended.seconds), np.isin(ended.fate, (LOST, DROPPED))
    came, waited = ~unable & ~silent, ~unable & silent
    known[at[came]] = np.maximum(ended.seconds[came], _MIN_SECONDS)
    np.maximum.at(known, at[waited], ended.seconds[waited].astype(np.float32))
    known[at[unable]] = np.inf
    useful = _utilities(ended)
    reported = np.flatnonzero(np.isfinite(useful))
    again = reported[rows["last"][at[reported]] > 0]
    rows["utility"][at[reported]], rows["last"][at[reported]] = useful[reported], rounds
    mean_utility = float(useful[again].mean()) if len(again) else math.nan
    history = np.append(state["history"][1:], mean_utility)
    return {
        **write_rows(state, clients, rows),
        "rounds": np.array([rounds]),
        "history": history,
        "preferred": np.array([_update_preferred(rules, float(state["preferred"][0]), rounds, history)]),
    }


def _utilities(ended: Ended) -> Floats:
    """The utility of each folded report; NaN where a task has none, or a loss that is not finite."""
    none = np.full(len(ended.tasks), np.nan)
    loss = ended.stats.get("loss", none)
    with np.errstate(over="ignore"):
        squared = ended.stats["squared_loss"] if "squared_loss" in ended.stats else loss * loss
    return statistical_utility(ended.stats.get("samples", np.ones(len(none))), np.where(ended.fate == FOLDED, squared, np.nan))


def _update_preferred(rules: _Rules, preferred: float, rounds: int, history: NDArray[np.float64]) -> float:
    """The quantile of durations that is preferred from now on."""
    step = rules.pacer_step
    if rounds < 2 * step or rounds % step or not rules.pacer_delta:
        return preferred
    before, lately = (span[np.isfinite(span)] for span in (history[:step], history[step:]))
    if not len(before) or not len(lately):
        return preferred
    mean = float(before.mean())
    change = abs(float(lately.mean()) - mean)
    if change <= _FLAT * mean:
        return min(preferred + rules.pacer_delta, 1.0)
    if change >= _SHARP * mean:
        return max(preferred - rules.pacer_delta, min(preferred, rules.pacer_delta))
    return preferred
