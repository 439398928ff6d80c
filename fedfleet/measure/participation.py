"""Who took part: utilisation, staleness, fairness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedfleet.core.records import FOLDED, Ints
from fedfleet.measure.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Contributions per client and hour, over all clients."""

    mean: float
    sd: float


def contributions(tasks: Tasks, clients: int, until: float = np.inf) -> Ints:
    """How many of each client's reports were folded, up to a time."""
    mask = (tasks.fate == FOLDED) & (tasks.ended <= until)
    return np.bincount(tasks.clients[mask], minlength=clients)


def utilisation(tasks: Tasks, clients: int, convergence_seconds: float) -> Utilisation:
    """Contributions per client-hour up to convergence (FS-REAL's client utilisation)."""
    if convergence_seconds <= 0:
        return Utilisation(0.0, 0.0)
    per_hour = contributions(tasks, clients, convergence_seconds) / (convergence_seconds / 3600.0)
    return Utilisation(float(per_hour.mean()), float(per_hour.std()))


def staleness_histogram(tasks: Tasks) -> Ints:
    """How many folded reports were 0, 1, 2, .. versions old when they were folded."""
    folded = tasks.folded_into > 0
    return np.bincount(tasks.folded_into[folded] - 1 - tasks.versions[folded])


@dataclass(frozen=True, slots=True)
class Fairness:
    """How evenly contributions spread: Jain's index (1: all equal, 1/n: one does all), who never contributed, and Gini's
    coefficient (0: all equal, 1 - 1/n: one does all)."""

    jain: float
    never: int
    gini: float


def participation_fairness(counts: Ints) -> Fairness:
    """Jain, Chiu and Hawe 1984: (sum x)^2 / (n sum x^2). Gini 1912: half the mean difference of two clients over the mean."""
    square = float((counts.astype(np.float64) ** 2).sum())
    jain = float(counts.sum()) ** 2 / (len(counts) * square) if square else 0.0
    # Gini by ranks: sum (2 i - n - 1) x_i / (n sum x), with the x in ascending order; 0 if there are none.
    ordered, n = np.sort(counts).astype(np.float64), len(counts)
    total = float(ordered.sum())
    gini = float(((2.0 * np.arange(1, n + 1) - n - 1.0) * ordered).sum() / (n * total)) if total else 0.0
    return Fairness(jain, int((counts == 0).sum()), gini)
