"""FLAME: devices by statistical, time and energy utility, and several devices of one user together."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from fedfleet.choose.client_columns import SEES, empty_durations, expected_seconds, owners, update_durations, within_user
from fedfleet.choose.scores import best
from fedfleet.core.errors import BadInput
from fedfleet.core.events import TasksSpent
from fedfleet.core.limits import Count, Positive, Share, Waiting
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Ended, Floats, Ints, Roster, whole_work
from fedfleet.core.trees import Array

_FIRST_LOSS = 10.0  # of a client that never reported
_FLOOR_JOULES = 1.0  # keeps the logarithm finite


def flame(
    by: Literal["best", "average"] = "best",
    *,
    seconds: Positive = 30.0,
    alpha: Share = 0.5,
    devices: Count = 4,
    energy: bool = False,
    budget: Positive = 3996.0,
    joules: Positive = 60.0,
    recharge: Waiting = math.inf,
) -> Selector:
    """FLAME: high losses and many samples first, slow devices and drained batteries last; the devices of one user together.

    Cho, Mathur, Kawsar, IMWUT 6(3), 2022. Utility = loss sqrt(samples) x time x energy: the loss is the last
    reported one, 10 before; time = 1 up to `seconds`, then alpha seconds / t, where t was seen or else is predicted; energy =
    ln(budget / drain), 0 from there on: such a device is dead and never asked. by = "best": the top K, in which every user has
    its `devices` best, at the cost of the tail; "average": user after user, by the mean of its `devices` best.

    The drain is what a device drew so far (where the world does not know joules, `joules` for each task that began) and what one
    more task is expected to draw: as the last, at first `joules`. The budget, a tenth of a battery of 3000 mAh and 3.7 V, is for
    the whole run, as in FLAME; with `recharge` = 86400 it is full again every day.
    """
    if energy and budget <= joules:
        raise BadInput(
            f"choose.budget: {budget:g} J is less than the energy of one task (choose.joules = {joules:g}); raise choose.budget"
        )

    def initial(clients: int) -> State:
        result = {"loss": np.full(clients, _FIRST_LOSS), **empty_durations(clients)}
        if energy:
            result |= {"drained": np.zeros(clients), "drew": np.full(clients, joules), "day": np.zeros(1)}
        return result

    def learn(state: State, ended: Ended, _now: float) -> State:
        loss, reported = state["loss"].copy(), ended.stats.get("loss")
        if reported is not None:  # one that is no number says nothing
            has_loss = np.isfinite(reported)
            loss[ended.clients[has_loss]] = reported[has_loss]
        return {**state, "loss": loss, **update_durations(state, ended)}

    def charge(state: State, spent: TasksSpent) -> State:
        return {**state, **_update_energy(state, spent, joules, _day(spent.time, recharge))}

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        if energy:
            day = _day(float(roster.stats["time"][0]) if len(roster.clients) else 0.0, recharge)
            # What each would have drawn since the last recharge after one more task.
            so_far = state["drained"][roster.clients] if day == state["day"][0] else 0.0
            power = energy_factor(so_far + state["drew"][roster.clients], budget)
            alive = power > 0
            if not alive.all():
                roster, power = roster.only(alive), power[alive]
        else:
            power = 1.0
        stat = state["loss"][roster.clients] * np.sqrt(roster.samples)
        worth = stat * time_factor(expected_seconds(state, roster), seconds, alpha) * power
        user = roster.stats["user"].astype(np.int64)
        chosen = (_best_devices if by == "best" else _best_users)(worth, user, roster, n, draw, devices)
        return whole_work(roster.clients[chosen])

    sees = (*SEES, "user", *(("time",) if energy else ()))
    return Selector("flame", pick, learn, initial=initial, sees=sees, charge=charge if energy else None, by_reports=True)


def time_factor(t: Floats, seconds: float, alpha: float) -> Floats:
    """What slowness takes: nothing up to `seconds`, then a factor alpha at once, and in proportion.

    >>> time_factor(np.array([30.0, 30.0 + 1e-12, 60.0]), 30.0, 0.5).round(9)
    array([1.  , 0.5 , 0.25])
    """
    with np.errstate(divide="ignore"):
        return np.where(t <= seconds, 1.0, seconds * alpha / t)


def energy_factor(drain: Floats, budget: float) -> Floats:
    """ln(budget / drain), and 0 for the dead.

    >>> energy_factor(np.array([100 / np.e, 100.0, 200.0]), 100.0).round(9)
    array([1., 0., 0.])
    """
    return np.where(drain < budget, np.log(budget / np.maximum(drain, _FLOOR_JOULES)), 0.0)


def _day(now: float, recharge: float) -> float:
    """How often batteries have been filled; not by math.floor, which knows no infinite quotient."""
    return float(np.floor(now / recharge))


def _update_energy(state: State, spent: TasksSpent, joules: float, day: float) -> dict[str, Array]:
    began = np.zeros(len(spent.tasks), np.bool_)
    for column in spent.spent.values():
        began |= column != 0  # NaN too: unknown is not nothing
    drawn = spent.spent.get("joules", np.full(len(spent.tasks), np.nan))
    drawn = np.where(began, np.where(np.isnan(drawn), joules, drawn), 0.0)
    drained, drew = state["drained"].copy(), state["drew"].copy()
    if day != state["day"][0]:
        drained[:] = 0.0
    np.add.at(drained, spent.clients, drawn)
    drew[spent.clients[began]] = drawn[began]
    return {"drained": drained, "drew": drew, "day": np.array([day], np.float64)}


def _best_devices(worth: Floats, user: Ints, roster: Roster, n: int, draw: Draw, devices: int) -> Ints:
    """The n best, in which each user's first `devices` stand where its best one stands; the tail makes room."""
    top = best(worth, roster.keys, n, draw, "flame")
    owners = user[top[user[top] >= 0]]
    if not len(owners):
        return top
    theirs = np.zeros(int(user.max()) + 1, np.bool_)
    theirs[owners] = True
    all_of = np.union1d(top, np.flatnonzero((user >= 0) & theirs[user]))
    order = all_of[best(worth[all_of], roster.keys[all_of], len(all_of), draw, "flame")]
    place, first = within_user(user[order])
    rank = np.arange(len(order))
    return order[np.lexsort((rank, np.where(place < devices, first, rank)))[:n]]


def _best_users(worth: Floats, user: Ints, roster: Roster, n: int, draw: Draw, devices: int) -> Ints:
    """Users by the mean of their best `devices`, each with these; then the remaining clients, by utility."""
    own = owners(user)
    mean, there = _means(worth, own, devices)
    keys = np.full(len(mean), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(keys, own, roster.keys)  # a user's luck is that of one of its devices, whichever place that has
    users = there[best(mean[there], keys[there], n, draw, "flame/users")]  # n users have n devices at least
    rank_of = np.full(len(mean), len(users))
    rank_of[users] = np.arange(len(users))
    theirs = np.flatnonzero(rank_of[own] < len(users))
    order = theirs[best(worth[theirs], roster.keys[theirs], len(theirs), draw, "flame")]
    place, _ = within_user(user[order])
    return order[np.lexsort((np.arange(len(order)), np.where(place < devices, rank_of[own[order]], len(users))))[:n]]


def _means(worth: Floats, own: Ints, devices: int) -> tuple[Floats, Ints]:
    """The mean of the best `devices` of each user, and which users there are."""
    held = np.bincount(own)
    there = np.flatnonzero(held)
    counted = np.flatnonzero(held[own] <= devices)
    if len(counted) < len(own):  # only those with more have to be sorted
        many = np.flatnonzero(held[own] > devices)
        many = many[np.argsort(-worth[many], kind="stable")]
        place, _ = within_user(own[many])
        counted = np.concatenate([counted, many[place < devices]])
    return np.bincount(own[counted], worth[counted], minlength=len(held)) / np.clip(held, 1, devices), there
