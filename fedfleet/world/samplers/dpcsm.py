"""DPCSM: state fleets that dial how good, and how alike, states are (FLHetBench, Theorem 3.2)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateTable, availability, client_ids, take_states
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import stream

RELEASED_SEED = 2022
LARGEST_ALPHA = 100.0  # where the paper's grid ends
_MAX_STICK_LEFT = 0.05  # so much of the stick may be left for the last state before the dial turns round


def warnings(alpha: float, *, states: int | None = None, semantics: Literal["paper", "released"] = "paper") -> list[str]:
    """What to say about an alpha beyond the range in which a larger one gives more different states: 0 < alpha <= 100.

    A stick over `states` states (from the start rank downwards) leaves (alpha / (1 + alpha))^(states - 1) to the last of them on
    average. Of 700 states, 100 clients have 71 different ones at alpha = 100, 79 at 200, 47 at 1,000 and 7 at 10,000; a small base
    turns round earlier. The released sampler opens states one by one and does not turn round.

    >>> warnings(4.0), len(warnings(1000.0)), warnings(1000.0, semantics="released")
    ([], 1, [])
    """
    left = 0.0 if states is None or states < 2 else math.exp(-(states - 1) * math.log1p(1.0 / alpha))
    if semantics == "released" or (alpha <= LARGEST_ALPHA and left <= _MAX_STICK_LEFT):
        return []
    effect = "what is left of the stick goes to the worst state"
    if states is not None:
        effect = f"about {100 * left:.0f} % of the clients get the worst of the {states} states"
    return [
        f"alpha {alpha:g} is beyond DPCSM's range (at most {LARGEST_ALPHA:g}, less for a small base): {effect}, and a larger alpha "
        "gives fewer different states; lower alpha, or draw states uniformly"
    ]


def rank_states(base: StateTable, scores: Floats) -> Ints:
    """Rows from the best state to the worst: by score, ties by availability, then by id."""
    if len(scores) != len(base):
        raise BadInput(f"{len(scores)} scores for {len(base)} states; give one score per state")
    return np.lexsort((client_ids(base), -availability(base), -scores))


def sample_dpcsm(
    base: StateTable,
    clients: int,
    scores: Floats,
    *,
    alpha: float,
    start_rank: int,
    semantics: Literal["paper", "released"],
    seed: int | None,
) -> StateTable:
    """States of `clients` clients, taken from rank `start_rank` (0-based) downwards; alpha up to 100, see `warnings`.

    `paper`: clients are drawn independently from the stick b_i ~ Beta(1, alpha), pi_i = b_i (1 - what is broken off before),
    the rest to the last state. `released`: sticks are broken one after the other, as clients ask for a new one, so that the
    ranks used have no gaps; drawn by numpy's default_rng in the published order, seed 2022 unless told otherwise.
    """
    order = rank_states(base, scores)
    if not 0 <= start_rank < len(order):
        raise BadInput(f"start_rank {start_rank} is not in 0..{len(order) - 1}")
    if semantics == "released":
        topics = released_topics(clients, alpha, RELEASED_SEED if seed is None else seed)
    else:
        weights = stick(alpha, len(order) - start_rank, seed or 0)
        topics = stream(seed or 0, "dpcsm", 1).choice(len(weights), size=clients, p=weights / weights.sum())
    return take_states(base, order[np.minimum(topics + start_rank, len(order) - 1)])


def released_topics(clients: int, alpha: float, seed: int) -> Ints:
    """The place on the stick of each client, opened one at a time: client 0 opens the first."""
    rng = np.random.default_rng(seed)
    pieces = [float(rng.beta(1, alpha))]
    left = 1.0 - pieces[0]
    topics = [0]
    for _ in range(clients - 1):
        chances = np.array([left, *pieces])
        choice = int(rng.choice(len(chances), p=chances / chances.sum()))
        if choice == 0:
            piece = float(rng.beta(1, alpha)) * left
            left -= piece
            pieces.append(piece)
            topics.append(len(pieces) - 1)
        else:
            topics.append(choice - 1)
    return np.array(topics, np.int64)


def stick(alpha: float, length: int, seed: int) -> Floats:
    """The lengths of the pieces of one broken stick; the last piece is whatever is left."""
    cuts = stream(seed, "dpcsm", 0).beta(1.0, alpha, length)
    cuts[-1] = 1.0
    return cuts * np.concatenate([[1.0], np.cumprod(1.0 - cuts[:-1])])
