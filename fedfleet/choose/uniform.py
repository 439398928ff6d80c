"""Uniform selection without replacement."""

from __future__ import annotations

import numpy as np

from fedfleet.core.parts import Draw, Selector, State
from fedfleet.core.records import Assignments, Ints, Roster, whole_work
from fedfleet.core.rng import hash_keys


def uniform() -> Selector:
    """Every candidate has the same chance.

    Those with the n smallest hashes are picked. A client's luck depends on its key, the round and the first task of the pick
    alone: renaming clients renames the choice, and every pick of a round is a draw of its own.
    """

    def choose(_state: State, roster: Roster, n: int, draw: Draw) -> Assignments:
        pick = draw.round << 32 ^ draw.first  # one address, since every column of it costs a pass over the roster
        return whole_work(roster.clients[smallest(hash_keys(draw.seed, "select", roster.keys, pick), n)])

    return Selector("uniform", choose, by_reports=False, equal_chance=True)


def smallest(values: np.ndarray[tuple[int], np.dtype[np.uint64]], n: int) -> Ints:
    """The places of the n smallest values, smallest first."""
    if n >= len(values):
        return np.argsort(values, kind="stable")
    if n * 8 < len(values):
        # Few of many: only hashes below a threshold can be among the n smallest; a generous one nearly always suffices.
        near = np.flatnonzero(values < np.uint64(min(2**64 - 1, int((n + 6 * n**0.5 + 16) / len(values) * 2.0**64))))
        if len(near) >= n:
            return near[np.argsort(values[near], kind="stable")[:n]]
    near = np.argpartition(values, n)[:n]
    return near[np.argsort(values[near], kind="stable")]
