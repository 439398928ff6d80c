"""Published values of the metrics, so that a fleet can be placed beside fleets that others have trained on.

R metrics grow with the logarithm of the reports that were possible, so that values of short and long runs must not be compared as
they are. What can be compared is the share of fair work behind them: reports in time, none counted beyond an equal share each, over
as many as there would be if every client were always in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

_MANY = 100_000  # rounds
TRIPS = 60_000.0  # of the published simulations: 20 clients in each of 3,000 rounds
SOURCE = "FLHetBench (CVPR 2024), supplement, section III and Table S1: 100 clients, 20 a round, ViT-B/16, a deadline of 120 s"


@dataclass(frozen=True, slots=True)
class PublishedFleet:
    """One published fleet: what it is called there, its metric, and the share of fair work behind it."""

    word: str
    metric: float
    share: float


def fair_work(metric: float, ideal: float) -> float:
    """The share of fair work behind an R metric, ((1 + ideal)^M - 1) / ideal, where `ideal` reports are possible.

    >>> round(fair_work(1.0, 1000.0), 3), round(fair_work(0.925, 1000.0), 2)
    (1.0, 0.6)
    """
    return math.expm1(metric * math.log1p(ideal)) / ideal


def ideal_fair_work(k: int, rounds: int, clients: int) -> float:
    """The share of fair work of an ideal fleet, all clients always in time, if chance chooses k of its clients each round: some are
    asked more often than others, and what lies beyond an equal share does not count. E min(S, m) / m, S binomial with mean m.

    >>> ideal_fair_work(10, 5, 10), round(ideal_fair_work(20, 3000, 100), 3), round(ideal_fair_work(10, 20, 100), 2)
    (1.0, 0.985, 0.74)
    """
    p = min(k / clients, 1.0)
    mean = p * rounds
    if p == 1.0:
        return 1.0
    if rounds > _MANY:  # the normal law
        return 1.0 - math.sqrt((1.0 - p) / (2.0 * math.pi * mean))
    s = np.arange(rounds)
    steps = np.log((rounds - s) / (s + 1.0)) + math.log(p / (1.0 - p))
    chance = np.exp(rounds * math.log1p(-p) + np.concatenate([[0.0], np.cumsum(steps)]))
    return float((chance * np.minimum(np.arange(rounds + 1), mean)).sum() / mean)


def _published_fleets(**metrics: float) -> tuple[PublishedFleet, ...]:
    return tuple(PublishedFleet(word, metric, fair_work(metric, TRIPS)) for word, metric in metrics.items())


# From hard to easy. The supplement names the extremes of devices and of states "mild to severe", and three of the sixteen pairs by
# word. StatMC-R was printed for tasks that take the whole deadline.
PUBLISHED: dict[str, tuple[PublishedFleet, ...]] = {
    "DevMC-R": _published_fleets(severe=0.806, moderate=0.896, mild=0.928),
    "StatMC-R": _published_fleets(severe=0.752, moderate=0.858, mild=0.956),
    "InterMC-R": _published_fleets(severe=0.56, moderate=0.73, mild=0.86),
}


def placement_text(name: str, share: float) -> str:
    """Where a share of fair work lies among the published fleets, in words; nothing where none were published.

    >>> placement_text("InterMC-R", 0.5), placement_text("InterMC-R", 0.1)
    ('milder than their mild one', 'between their moderate and their mild one')
    >>> placement_text("InterMC-R", 0.001), placement_text("InterMC-T", 3.0)
    ('more severe than their severe one', '')
    """
    fleets = PUBLISHED.get(name, ())
    if not fleets:
        return ""
    if share < fleets[0].share:
        return "more severe than their severe one"
    for low, high in pairwise(fleets):
        if share < high.share:
            return f"between their {low.word} and their {high.word} one"
    return "milder than their mild one"
