"""Power of choice: of some candidates drawn by their samples, those with the highest losses."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedfleet.choose.scores import best, pick_number, weighted_sample
from fedfleet.core.limits import Count, Waiting
from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Ended, Floats, Ints, Roster, whole_work
from fedfleet.core.rng import hash_keys

_LOSS = "loss"


def power_of_choice(d: Count = 30, *, losses: Literal["probed", "stale"] = "probed", probe_seconds: Waiting = 120.0) -> Selector:
    """Of d candidates, drawn in proportion to their samples, those on whose data the model has the highest loss.

    Cho, Wang, Joshi, "Towards understanding biased client selection in federated learning", AISTATS 2022: pi_pow-d. Probing costs
    the d candidates a download and a forward pass over their data, unless world.free_probes; who has not answered after
    `probe_seconds` comes last. losses = "stale" (the paper's pi_rpow-d) probes no client: it goes by the loss that a client
    reported last, and those that never did come first. With d as large as the pick no client is probed: the draw decides.
    """

    def draw_candidates(roster: Roster, n: int, draw: Draw) -> Ints:
        """Who is looked at, in the order of the draw."""
        luck = hash_keys(draw.seed, "power", roster.keys, pick_number(draw))
        return weighted_sample(roster.samples.astype(np.float32), luck, max(d, n))

    def probe(_state: State, roster: Roster, n: int, draw: Draw) -> tuple[Ints, str]:
        chosen = draw_candidates(roster, n, draw)
        return roster.clients[chosen if len(chosen) > n else chosen[:0]], _LOSS

    def pick(state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        chosen = draw_candidates(roster, n, draw)
        if losses == "stale":
            known = state[_LOSS][roster.clients[chosen]]
            loss_values = np.where(np.isnan(known), np.inf, known)
        else:
            loss_values = roster.stats[_LOSS][chosen]
        return whole_work(roster.clients[chosen[_highest(loss_values, roster.keys[chosen], n, draw)]])

    def learn(state: State, ended: Ended, _now: float) -> State:
        reported = ended.stats.get(_LOSS)
        if reported is None:
            return state
        known, has_loss = state[_LOSS].copy(), ~np.isnan(reported)
        known[ended.clients[has_loss]] = reported[has_loss]
        return {_LOSS: known}

    if losses == "stale":
        return Selector("power_of_choice", pick, learn, initial=lambda clients: {_LOSS: np.full(clients, np.nan)}, by_reports=True)
    return Selector("power_of_choice", pick, probe=probe, probe_seconds=probe_seconds, by_reports=True)


def _highest(losses: Floats, keys: np.ndarray[tuple[int], np.dtype[np.uint64]], n: int, draw: Draw) -> Ints:
    """The places of the n highest; without any answer, the first of the draw."""
    silent = np.isnan(losses)
    if silent.all():
        return np.arange(min(n, len(losses)))
    order = best(losses, keys, len(losses), draw, "power/ties")
    return np.concatenate([order[~silent[order]], np.flatnonzero(silent)])[:n]
