"""How much evenness a user should ask for, given how slow it was: the adaptive scaling factor (paper, Eq. 8-10).

A user that needed h seconds the last time, and whose devices and links have changed since, should now need about beta h.
Users quicker than the mean can afford to even out their data, slower ones look after their time.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import numpy as np

from fedfleet.core.edges import Abilities
from fedfleet.core.records import Floats
from fedfleet.core.trees import Tree


@dataclass(frozen=True, slots=True)
class History:
    """A user's last participation: how long it took, the means over its devices then, what it held and what it moved."""

    seconds: float  # h, from the download of the model to the upload of the user's own
    seconds_per_sample: float  # mean of p
    bandwidth: float  # mean of (up + down) / 2
    samples: float
    moved: float  # samples that changed device


def means(abilities: Abilities) -> tuple[float, float]:
    """Mean seconds per sample and mean bandwidth (up + down) / 2 of a user's devices (below Eq. 8)."""
    return float(abilities.seconds_per_sample.mean()), float((0.5 * (abilities.up_bps + abilities.down_bps)).mean())


def kappa(samples: float, moved: float, *, epochs: float) -> float:
    """The share of computing in a user's time, 3 E sum|D| / (3 E sum|D| + moved); 1 where there is nothing at all (Eq. 9).

    The paper prints it without E, though each sample is trained on E times (Eq. 6) and moved once: say epochs=1 for that.

    >>> kappa(100, 60, epochs=5) > kappa(100, 60, epochs=1)
    True
    """
    work = 3.0 * epochs * samples
    return work / (work + moved) if work + moved > 0.0 else 1.0


def slowdown_factor(history: History, pbar: float, bbar: float, kappa: float, *, printed: bool = False) -> float:
    """beta, by which a user's time has changed since: kappa p_now / p_then + (1 - kappa) b_then / b_now.

    Time grows with seconds per sample and falls with bandwidth, as the paper itself says below Eq. 8. The equation as
    `printed` has both ratios the other way round, which calls a user quick when its devices have become slow.
    """
    computing, links = (pbar, history.seconds_per_sample), (history.bandwidth, bbar)
    if printed:
        computing, links = computing[::-1], links[::-1]
    slower, thinner = _ratio(*computing), _ratio(*links)
    return kappa * slower + (1.0 - kappa) * thinner


def _ratio(after: float, before: float) -> float:
    """after / before: 1 where nothing changed, even from nothing (devices that need no time), NaN where none can be said."""
    if after == before:
        return 1.0
    return after / before if before > 0.0 else float("nan")


def estimate(history: History | None, pbar: float, bbar: float, *, epochs: float, printed: bool = False) -> float:
    """The seconds that a user should need now, beta h; NaN at its first participation.

    Users keep what they hold, so that the samples then are those of Eq. 9 now.
    """
    if history is None:
        return float("nan")
    computing = kappa(history.samples, history.moved, epochs=epochs)
    return slowdown_factor(history, pbar, bbar, computing, printed=printed) * history.seconds


def alphas(base: Floats, estimates: Floats) -> Floats:
    """alpha_u = alpha mean(h) / h_u (Eq. 10): the mean is over users with an estimate, the others keep their alpha.

    >>> alphas(np.full(3, 8.0), np.array([10.0, 30.0, np.nan])).round(3).tolist()
    [16.0, 5.333, 8.0]
    """
    known = np.isfinite(estimates) & (estimates > 0.0)
    result = base.astype(np.float64)
    if known.any():
        result[known] *= estimates[known].mean() / estimates[known]
    return result


def history_to_memory(history: History) -> Tree:
    """A history as arrays, for an edge's memory.

    The engine writes the "seconds" of a turn there itself, once they are known: a rule that plans may leave them NaN.
    """
    return {f.name: np.array([value], np.float64) for f, value in zip(fields(history), astuple(history), strict=True)}


def history_from_memory(memory: Tree) -> History | None:
    """The history in an edge's memory; None if the edge was never asked."""
    names = [f.name for f in fields(History)]
    if not all(name in memory for name in names):
        return None
    return History(*(float(memory[name][0]) for name in names))
