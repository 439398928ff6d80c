"""One user's exchange of samples as a checked record: who holds what, how fast devices and links are, and what a plan costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.shuffle.divergence import Floats, Ints, imbalance

_NEEDED = ("counts", "seconds_per_sample", "up_bps", "down_bps", "bits_per_sample", "alpha")
_LARGEST = 1e300  # beyond it sums overflow
MOST_SAMPLES, MOST_MOVES = 10_000_000, 10_000_000  # of one user; memory grows with both
_OPTIONAL = ("epochs", "time_balance", "js_root")


@dataclass(frozen=True, slots=True)
class Problem:
    """One user's devices and samples; make it with `problem_from`, which checks.

    `time_balance=False` drops the standard deviation of latencies from the objective (the paper's ablation);
    `js_root=True` measures imbalance by the square root of the divergence, as scipy's `jensenshannon` does.
    """

    counts: Ints  # [V, c] samples of each class on each device
    seconds_per_sample: Floats  # [V] inference; training costs three times that
    up_bps: Floats  # [V]
    down_bps: Floats  # [V]
    bits_per_sample: float
    epochs: float
    alpha: float
    time_balance: bool = True
    js_root: bool = False


def problem_from(data: Mapping[str, Any]) -> Problem:
    """A checked problem from a mapping such as parsed JSON; `alpha` may be "auto".

    >>> p = problem_from({"counts": [[4, 0], [0, 4]], "seconds_per_sample": [0.1, 0.1], "up_bps": [1e6, 1e6],
    ...                   "down_bps": [1e6, 1e6], "bits_per_sample": 8e3, "alpha": "auto"})
    >>> round(p.alpha, 3)
    27.808
    """
    for key in data:
        if key not in _NEEDED + _OPTIONAL:
            raise BadInput(f"shuffle: there is no key {key!r}{suggest_name(str(key), _NEEDED + _OPTIONAL)}")
    for key in _NEEDED:
        if key not in data:
            raise BadInput(f"shuffle: the key {key!r} is missing; give {', '.join(_NEEDED)}")
    counts = _counts(data["counts"])
    devices = len(counts)
    seconds, up, down = (_positive_list(k, data[k], devices) for k in ("seconds_per_sample", "up_bps", "down_bps"))
    bits = _number("bits_per_sample", data["bits_per_sample"], above=0.0)
    epochs = _number("epochs", data.get("epochs", 5), above=0.0)
    balance, root = (_flag("time_balance", data.get("time_balance", True)), _flag("js_root", data.get("js_root", False)))
    alpha = _alpha(data["alpha"], counts, 3.0 * epochs * seconds, root=root)
    return Problem(counts, seconds, up, down, bits, epochs, alpha, balance, root)


def effort(problem: Problem) -> Floats:
    """Seconds that one sample costs each device in a round, 3 epochs p_v (Eq. 6 without its floor)."""
    return 3.0 * problem.epochs * problem.seconds_per_sample


def link(problem: Problem) -> Floats:
    """Seconds that one sample needs from device v to device j, s (1/up_v + 1/down_j); nothing to itself (Eq. 5)."""
    seconds = problem.bits_per_sample * (1.0 / problem.up_bps[:, None] + 1.0 / problem.down_bps[None, :])
    np.fill_diagonal(seconds, 0.0)
    return seconds


def _counts(value: Any) -> Ints:
    """The table of samples, checked cell by cell."""
    rows = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in rows):
        raise BadInput("shuffle: counts must be a list with one list of class counts per device")
    if rows and len(rows) ** 2 * len(rows[0]) > MOST_MOVES:
        raise BadInput(
            f"shuffle: {len(rows)} devices with {len(rows[0])} classes have more than {MOST_MOVES:,} possible moves; merge "
            "some classes"
        )
    if not rows or not rows[0]:
        raise BadInput("shuffle: counts has no devices or no classes; give one list of class counts per device")
    for v, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise BadInput(f"shuffle: counts of device {v} has {len(row)} classes but device 0 has {len(rows[0])}; make them equal")
        for i, n in enumerate(row):
            # Compared first, since no float can say whether an integer beyond its range is finite.
            number = isinstance(n, (int, float)) and not isinstance(n, bool)
            if not number or not 0 <= n <= 2**40 or n != int(n):
                raise BadInput(f"shuffle: counts of device {v}, class {i} is {n!r}; give a whole number, 0 or more")
    counts = np.array(rows, np.int64)
    if counts.sum() == 0:
        raise BadInput("shuffle: no device holds any sample; give at least one positive count")
    if counts.sum() > MOST_SAMPLES:
        raise BadInput(f"shuffle: {counts.sum():,} samples are more than one user's {MOST_SAMPLES:,}; count them in bundles")
    return counts


def _positive_list(key: str, value: Any, devices: int) -> Floats:
    """One positive finite number per device."""
    values = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(values, (list, tuple)):
        raise BadInput(f"shuffle: {key} must be a list with one number per device")
    if len(values) != devices:
        raise BadInput(f"shuffle: {key} has {len(values)} entries but counts has {devices} devices; give one per device")
    return np.array([_number(f"{key} of device {v}", x, above=0.0) for v, x in enumerate(values)], float)


def _number(what: str, value: Any, *, above: float | None = None) -> float:
    """A finite number: above 0 where that is asked for, else 0 or more."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 <= value <= _LARGEST or (above is not None and value <= above):
        raise BadInput(f"shuffle: {what} is {value!r}; give a number{', 0 or more' if above is None else ' above 0'}")
    return float(value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise BadInput(f"shuffle: {key} is {value!r}; give true or false")
    return bool(value)


def _alpha(value: Any, counts: Ints, seconds: Floats, *, root: bool) -> float:
    """The weight of imbalance; "auto" makes it worth the best possible computing time when nothing is shuffled."""
    if isinstance(value, str):
        if value != "auto":
            raise BadInput(f'shuffle: alpha is {value!r}; give a number, 0 or more, or "auto"')
        worst = float(imbalance(counts.T.astype(float)).max())
        worst = math.sqrt(worst) if root else worst
        return float(counts.sum() / (1.0 / seconds).sum() / worst) if worst > 0.0 else 0.0
    return _number("alpha", value)


# ---- objective ----------------------------------------------------------------------------------------------------
# What a plan costs: Eq. (7), max SL + std SL + alpha max DI, with each term, for whole or fractional plans.


@dataclass(frozen=True, slots=True)
class PlanScore:
    """The objective of one plan and what it is made of; `moved` counts each sample that changes device once."""

    objective: float
    max_latency: float
    std_latency: float
    max_imbalance: float
    latency: Floats  # [V]
    imbalance: Floats  # [V]
    moved: float


def latencies(flows: Floats, seconds: Floats, links: Floats) -> Floats:
    """SL_v: both ends pay for each of `flows` [.., V, V] (Eq. 5), and `seconds` [.., V] per sample held (Eq. 6 without floor)."""
    paid = flows * links
    return paid.sum(-1) + paid.sum(-2) + seconds * flows.sum(-2)


def score(problem: Problem, plan: Ints | Floats) -> PlanScore:
    """Eq. (7) of plan[v][i][j], the class-i samples that v hands to j; the standard deviation is the population's."""
    flows = plan.sum(1).astype(float)
    latency = latencies(flows, effort(problem), link(problem))
    uneven = imbalance(plan.sum(0).astype(float))
    if problem.js_root:
        uneven = np.sqrt(uneven)
    slowest, deviation, worst = float(latency.max()), float(latency.std()), float(uneven.max())
    total = slowest + problem.time_balance * deviation + problem.alpha * worst
    return PlanScore(total, slowest, deviation, worst, latency, uneven, float(flows.sum() - np.trace(flows)))
