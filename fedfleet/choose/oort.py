"""Oort: clients that teach much and take little time, with a share of places for clients that are still unknown."""

from __future__ import annotations

import math

import numpy as np

from fedfleet.choose.client_columns import full_column, ledger, look_up, write_rows
from fedfleet.choose.scores import (
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
from fedfleet.core.records import DROPPED, FOLDED, LOST, Assignments, Ended, Floats, Ints, Keys, Roster, whole_work
from fedfleet.core.rng import hash_keys, uniforms

# What is known of each client: utility and the round of the report that told it (0: none did), seconds of its last trip or how long
# it was waited for in vain (0: not known, infinite: its device cannot do the work), and how many of its tasks have ended.
_COLUMNS = {"utility": np.float32, "last": np.int32, "seconds": np.float32, "times": np.uint16}
_MIN_SECONDS = 1e-30
_FLAT, _SHARP = 0.1, 5.0  # changes of utility that make the pacer patient, and impatient
_MAX_BLACKLISTED = 0.3  # of those who could be asked


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

    def initial(clients: int) -> State:
        own = {"rounds": np.zeros(1, np.int64), "preferred": np.array([preferred])}
        return {**ledger(clients, _COLUMNS), **own, "history": np.full(2 * pacer_step, np.nan)}

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        n, rounds = min(n, len(roster.clients)), int(state["rounds"][0])
        seconds, last = (look_up(state, name, roster.clients) for name in ("seconds", "last"))
        longest = preferred_seconds(full_column(state, "seconds"), float(state["preferred"][0])) if penalty else math.inf

        def luck(label: str, at: Ints) -> Keys:
            """One hash for each of these places, of this pick and for this purpose alone."""
            return hash_keys(draw.seed, f"oort/{label}", roster.keys[at], draw.round << 32 ^ draw.first)

        able, barred = seconds < np.inf, np.zeros(len(seconds), np.bool_)
        if blacklist:  # who had its share of tasks; if that would be too many, those who had most
            times = look_up(state, "times", roster.clients)
            over = np.flatnonzero(able & (times > blacklist))
            most = int(_MAX_BLACKLISTED * len(able))
            barred[over[largest(times[over], most, lambda at: luck("barred", over[at]))]] = True
        willing, reported = able & ~barred, last > 0
        known, new = np.flatnonzero(willing & reported), np.flatnonzero(willing & ~reported)

        # A fraction of a place is rounded at random; what one side cannot fill is the other's.
        coin = float(uniforms(draw.seed, "oort/places", np.array([draw.round], np.uint64), draw.first)[0])
        by_score = min(max(int(n * (1.0 - max(explore * decay**rounds, floor)) + coin), n - len(new)), len(known))
        newcomers, parts = min(n - by_score, len(new)), list[Ints]()
        if by_score > 0:  # drawn by score, from all who are nearly as good as the last that would be in
            score = normalise_utility(look_up(state, "utility", roster.clients[known]), clip)
            score += temporal_uncertainty(last[known], rounds + 1, uncertainty)
            score = penalise_slow(score, seconds[known], longest, penalty)
            pool = np.flatnonzero(score >= cut_off * nth_largest(score, by_score))
            parts.append(known[pool[weighted_sample(score[pool], luck("exploit", known[pool]), by_score)]])
        if newcomers > 0:  # drawn by how many samples they hold, from those who hold most
            size = roster.samples[new].astype(np.float32)
            size /= 1 + look_up(state, "times", roster.clients[new]).astype(np.float32)
            size = penalise_slow(size, seconds[new], longest, penalty)
            width = max(newcomers, math.ceil(min(window * newcomers, len(new))))
            most = largest(size, width, lambda at: luck("edge", new[at]))
            parts.append(new[most[weighted_sample(size[most], luck("explore", new[most]), newcomers)]])
        for spare in (able & ~willing, ~able):  # no other client is left
            at, short = np.flatnonzero(spare), n - sum(map(len, parts))
            if short > 0:
                parts.append(at[smallest(luck("spare", at), short)])
        return whole_work(roster.clients[np.concatenate([*parts, np.zeros(0, np.int64)])])

    def learn(state: State, ended: Ended, _now: float) -> State:
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
        history = np.append(state["history"][1:], float(useful[again].mean()) if len(again) else math.nan)
        quantile = float(state["preferred"][0])
        if rounds >= 2 * pacer_step and rounds % pacer_step == 0 and pacer_delta:
            quantile = _paced(quantile, pacer_delta, history[:pacer_step], history[pacer_step:])
        new = {"rounds": np.array([rounds]), "history": history, "preferred": np.array([quantile])}
        return {**write_rows(state, clients, rows), **new}

    return Selector("oort", pick, learn, initial=initial, by_reports=True)


def _utilities(ended: Ended) -> Floats:
    """The utility of each folded report; NaN where a task has none, or a loss that is not finite."""
    none = np.full(len(ended.tasks), np.nan)
    loss = ended.stats.get("loss", none)
    with np.errstate(over="ignore"):
        squared = ended.stats["squared_loss"] if "squared_loss" in ended.stats else loss * loss
    return statistical_utility(ended.stats.get("samples", np.ones(len(none))), np.where(ended.fate == FOLDED, squared, np.nan))


def _paced(preferred: float, delta: float, before: Floats, lately: Floats) -> float:
    """The quantile of durations that is preferred from now on, by the utilities of two spans of rounds."""
    before, lately = (span[np.isfinite(span)] for span in (before, lately))
    if not len(before) or not len(lately):
        return preferred
    mean = float(before.mean())
    change = abs(float(lately.mean()) - mean)
    if change <= _FLAT * mean:
        return min(preferred + delta, 1.0)
    return max(preferred - delta, min(preferred, delta)) if change >= _SHARP * mean else preferred
