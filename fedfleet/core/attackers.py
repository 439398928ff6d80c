"""Who attacks: the same clients whatever they do and whichever method they attack, addressed by seed and key."""

from __future__ import annotations

import numpy as np

from fedfleet.core.records import Bools, Keys
from fedfleet.core.rng import client_keys, hash_keys


def attackers(seed: int, keys: Keys, share: float, clients: int) -> Bools:
    """Which of these clients attack: those of the smallest hashes, this share of a fleet of so many.

    >>> int(attackers(3, client_keys(50), 0.2, 50).sum())
    10
    """
    wanted = round(share * clients)
    if not wanted:
        return np.zeros(len(keys), np.bool_)
    # A threshold instead of ranks: whoever sees only some of the clients comes to the same answer.
    threshold = np.partition(hash_keys(seed, "attackers", client_keys(clients)), wanted - 1)[wanted - 1]
    return hash_keys(seed, "attackers", keys) <= threshold
