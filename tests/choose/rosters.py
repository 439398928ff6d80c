"""Candidates for tests of selectors: columns as they are given, keys as in a fleet of so many."""

import numpy as np

from fedfleet.core.records import FOLDED, Ended, Roster
from fedfleet.core.rng import client_keys

SEEN = ("compute_seconds", "transfer_seconds", "latency_seconds")


def roster(n, *, seconds=None, samples=10, clients=None, keys=None, **stats):
    """n candidates; `seconds` is what their trips are foreseen to take, half of it computing."""
    result = {name: np.broadcast_to(np.asarray(column, np.float64), n).copy() for name, column in stats.items()}
    trip = np.broadcast_to(np.asarray(8.0 if seconds is None else seconds, np.float64), n)
    result |= dict(zip(SEEN, (trip / 2 + 0.5, trip / 2 + 0.5, np.ones(n)), strict=True))
    result.setdefault("user", np.full(n, -1.0))
    for name in ("user_tasks", "untold", "time"):
        result.setdefault(name, np.zeros(n))
    own = np.arange(n) if clients is None else np.asarray(clients, np.int64)
    return Roster(own, client_keys(n) if keys is None else keys, np.broadcast_to(samples, n).astype(np.int64), result)


def ended(clients, *, seconds=8.0, fate=FOLDED, **stats):
    """Tasks of these clients that ended so."""
    n = len(clients)
    columns = {name: np.asarray(values, np.float64) for name, values in stats.items()}
    took = np.broadcast_to(np.asarray(seconds, np.float64), n).copy()
    return Ended(np.arange(n), np.asarray(clients, np.int64), took, np.broadcast_to(fate, n).astype(np.int8), columns)
