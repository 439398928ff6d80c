"""What a private run gave away about one client, from its journal: no assumption about sampling, only who took part when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.events import Event
from fedfleet.core.parts import Promise
from fedfleet.core.records import Floats, Ints
from fedfleet.measure.tasks import Tasks, task_table

_CLAIM = {
    "gaussian": "an observer of all models learns at most this about whether one client's updates were real or zero",
    "tree": "an observer of all models learns at most this about whether one client's updates were real or zero",
    "local": "an observer of all that one client sent learns at most this about whether its updates were real or zero",
}


def privacy_loss(promise: Promise, log: Sequence[Event], tasks: Tasks | None = None) -> dict[str, Any]:
    """Epsilon at the delta that was granted, of the client that took part most, with the claim in one sentence."""
    tasks = task_table(log) if tasks is None else tasks
    squared, times = exposure(promise, tasks)
    epsilon = gaussian_epsilon(promise.noise, squared, promise.delta)
    return {
        "mechanism": promise.mechanism,
        "epsilon": epsilon,
        "delta": promise.delta,
        "participations": times,
        "claim": f"{_CLAIM[promise.mechanism]}, with the {times} participations at most of this run; no amplification by sampling "
        "is claimed, and losses, scores and who took part are not covered",
    }


def exposure(promise: Promise, tasks: Tasks) -> tuple[float, int]:
    """How much of the most exposed client is in what was released: the squared norm of its reports, each of norm 1, through
    everything that noise was added to; and how often any client took part at most."""
    if promise.mechanism == "local":  # whatever was sent was seen, folded or not
        clients, commits = tasks.clients, np.arange(len(tasks.clients))
    else:
        folded = tasks.folded_into > 0
        clients, commits = tasks.clients[folded], tasks.folded_into[folded] - 1
    if not len(clients):
        return 0.0, 0
    times, total = int(np.bincount(clients).max()), np.zeros(int(clients.max()) + 1)
    if promise.mechanism != "tree":
        return float(_squares(clients, commits, len(total)).max()), times
    commit_count = int(commits.max()) + 1
    for level in range(commit_count.bit_length()):
        nodes = commits >> level
        # Only whole nodes, and of two sisters only the first, are released.
        used = (nodes < commit_count >> level) & (nodes % 2 == 0)
        total += _squares(clients[used], nodes[used], len(total))
    return float(total.max()), times


def _squares(clients: Ints, nodes: Ints, n: int) -> Floats:
    """For each client, the sum over nodes of its squared number of reports there."""
    pairs, counts = np.unique(np.stack([clients, nodes]), axis=1, return_counts=True)
    return np.asarray(np.bincount(pairs[0], weights=counts.astype(np.float64) ** 2, minlength=n), np.float64)


def gaussian_epsilon(noise: float, squared: float, delta: float) -> float | None:
    """Epsilon of Gaussian noise, `noise` times as large as one report, when reports of this squared norm went through it.

    Gaussian mechanisms compose to one whose squared sensitivities add up, also when later ones depend on what earlier ones
    released. None: no finite number.
    """
    if squared == 0.0:
        return 0.0
    epsilon = float(_library().get_epsilon_gaussian(noise / math.sqrt(squared), delta))
    return epsilon if math.isfinite(epsilon) else None


def require_accountant() -> None:
    """Refuse to begin what could not be accounted for at the end."""
    _library()


def _library() -> Any:
    try:
        import dp_accounting  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise BadInput(
            "algorithm.private needs the accountant dp-accounting, which is not installed; install it with: pip install "
            "'fedfleet[private]'"
        ) from None
    return dp_accounting
