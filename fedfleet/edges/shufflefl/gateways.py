"""Gateways: what planning costs a user, on the paper's seven and with our own solver, and fewer classes for slow ones.

Seconds of the paper's solver are facts of its Tables 6-10, shrinkage ratios of its Table 5. They were measured for 5
(HARBox), 8 (RealWorld), 35 (Google Speech), 62 (FEMNIST) and 80 (Shakespeare) classes.
Classes that look alike are moved as one group (section 4.4).
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.records import Keys
from fedfleet.core.rng import stream, uniforms
from fedfleet.shuffle.divergence import Floats, Ints

NAMES = ("raspberry_pi4", "jetson_nano_1", "jetson_nano_2", "jetson_tx2_1", "jetson_tx2_2", "jetson_xavier_1", "jetson_xavier_2")
MIXED = "mixed"

# By number of classes: for each number of devices, the seconds of each gateway in the order of NAMES.
_Table = dict[int, dict[int, tuple[float, ...]]]
_WHOLE: _Table = {
    5: {
        3: (4.35, 5.72, 9.59, 3.02, 5.33, 2.70, 3.50),
        4: (8.24, 13.24, 19.41, 10.42, 16.05, 7.17, 8.87),
        5: (17.09, 28.04, 44.48, 21.83, 35.94, 15.83, 19.23),
    },
    8: {7: (25.26, 41.51, 53.60, 30.05, 49.47, 16.20, 35.54)},
    35: {
        3: (20.25, 69.92, 129.17, 52.38, 73.32, 7.80, 29.20),
        4: (60.08, 260.99, 453.31, 195.09, 486.84, 56.31, 167.66),
        5: (246.37, 1220.90, 2111.91, 943.78, 1506.74, 160.70, 449.16),
        6: (1899.56, 3683.57, 5446.48, 3669.90, 4169.65, 759.64, 2248.08),
    },
    62: {
        3: (25.24, 239.02, 305.87, 51.64, 245.77, 22.49, 35.89),
        4: (1353.06, 2159.08, 3050.94, 1548.95, 2524.30, 209.06, 1498.59),
        5: (3693.89, 4785.39, 9875.78, 4103.72, 6460.34, 2583.75, 3988.52),
        6: (11718.22, 19256.10, 42039.11, 18119.44, 28600.39, 11572.61, 13212.79),
    },
    80: {
        3: (65.68, 240.41, 829.14, 135.62, 625.10, 37.03, 107.66),
        4: (500.82, 994.04, 1573.03, 799.27, 1132.73, 486.08, 623.84),
        5: (2066.64, 3068.35, 4964.06, 3048.65, 3522.68, 1612.25, 2448.82),
        6: (10059.33, 13564.07, 38270.15, 12728.67, 18645.53, 8726.23, 10080.24),
    },
}
_MERGED: _Table = {
    35: {
        3: (5.40, 4.85, 10.16, 5.11, 7.14, 4.54, 7.49),
        4: (15.10, 17.05, 24.49, 15.24, 20.57, 11.94, 12.93),
        5: (26.93, 30.18, 44.47, 19.69, 35.95, 13.28, 28.94),
        6: (48.62, 63.56, 78.07, 54.97, 75.94, 43.28, 57.65),
    },
    62: {
        3: (7.56, 6.05, 9.40, 4.34, 8.34, 3.36, 5.06),
        4: (13.63, 18.93, 29.33, 13.18, 23.12, 9.07, 10.85),
        5: (29.98, 33.79, 56.35, 30.72, 44.83, 17.86, 24.54),
        6: (63.60, 69.91, 96.03, 62.34, 99.71, 48.78, 58.47),
    },
    80: {
        3: (4.06, 4.77, 7.67, 4.07, 9.08, 3.84, 4.57),
        4: (12.85, 13.68, 26.10, 17.68, 23.38, 12.56, 21.38),
        5: (26.85, 31.95, 66.93, 30.50, 60.54, 30.13, 34.90),
        6: (56.88, 73.01, 95.48, 67.42, 85.36, 55.29, 64.31),
    },
}
_GAMMA = {
    35: (0.35, 0.20, 0.20, 0.25, 0.25, 0.35, 0.30),
    62: (0.25, 0.10, 0.10, 0.15, 0.15, 0.25, 0.20),
    80: (0.20, 0.10, 0.10, 0.125, 0.125, 0.20, 0.15),
}


def planning_seconds(profile: str, classes: int, devices: float, *, merged: bool) -> float:
    """Seconds that the paper's solver takes on a gateway, with classes `merged` by its `gamma` or not.

    The table is that of the nearest number of classes, the smaller of two equally near. Between measured numbers of devices
    (3 to 6; to 5 for 5 classes, 7 alone for 8) seconds are interpolated geometrically, outside they are those of the nearest.
    For 5 and 8 classes the paper never merged any. A single device has nothing to plan, which takes 0 seconds.

    >>> planning_seconds("raspberry_pi4", 62, 5, merged=True), planning_seconds("raspberry_pi4", 47, 9, merged=False)
    (29.98, 1899.56)
    """
    place, like = _place(profile), _nearest_classes(classes)
    if devices <= 1:
        return 0.0
    table = _MERGED[like] if merged and like in _MERGED else _WHOLE[like]
    seconds = [row[place] for row in table.values()]
    return round(float(np.exp(np.interp(devices, list(table), np.log(seconds)))), 6)


def gamma(profile: str, classes: int) -> float:
    """The share of classes that a gateway plans with (Table 5), by the nearest number of classes; 1 for 5 and 8.

    >>> gamma("jetson_tx2_1", 80), gamma("jetson_tx2_1", 10)
    (0.125, 1.0)
    """
    place, like = _place(profile), _nearest_classes(classes)
    return _GAMMA[like][place] if like in _GAMMA else 1.0


def exact_seconds(classes: int, devices: int, samples: int = 400) -> float:
    """Seconds of our own solver for a user, V^0.69 (0.0152 + N (3.21e-5 + 2.04e-6 c)), and 0 for one device.

    Fitted to the processor seconds of `solve(problem, quick=True)` on one server core, with 5 to 80 classes, 2 to 7
    devices and 128 to 4778 samples: within a factor of 1.4 of each mean of five users, but for those with few samples of many
    classes, for which a plan is searched up to three times as long. A formula instead of a clock, since simulated time must be
    the same on every machine.
    """
    if devices <= 1:
        return 0.0
    return devices**0.69 * (0.0152 + samples * (3.21e-5 + 2.04e-6 * classes))


def profile_of(user_keys: Keys, mix: str = MIXED, *, seed: int = 0) -> list[str]:
    """The gateway of each user: evenly drawn by its key if `mix` is "mixed", else the one that `mix` names.

    >>> profile_of(np.array([7], np.uint64), "jetson_nano_2")
    ['jetson_nano_2']
    """
    if mix != MIXED:
        return [NAMES[_place(mix)]] * len(user_keys)
    places = (uniforms(seed, "gateway", user_keys) * len(NAMES)).astype(np.int64)
    return [NAMES[k] for k in places.tolist()]


def _place(profile: str) -> int:
    if profile not in NAMES:
        raise BadInput(f"shuffle: there is no gateway {profile!r}{suggest_name(profile, (*NAMES, MIXED))}")
    return NAMES.index(profile)


def _nearest_classes(classes: int) -> int:
    return min(_WHOLE, key=lambda known: (abs(known - classes), known))


_PERPLEXITY = 30.0  # what t-SNE's authors call usual; fewer classes need less


def merge_classes(features: Floats, gamma: float, seed: int) -> Ints:
    """The group of each class, from the mean hidden features of its samples [classes, d].

    t-SNE brings them to the plane, k-means into k = max(1, floor(classes gamma)) groups, which are numbered in the order in
    which classes first name them. gamma = 1 leaves every class its own group. Equal features may leave fewer groups than k.

    >>> merge_classes(np.eye(4), 1.0, seed=0).tolist()
    [0, 1, 2, 3]
    """
    if not 0.0 < gamma <= 1.0:
        raise BadInput(f"shuffle: gamma is {gamma!r}; give a number above 0 and up to 1")
    classes = len(features)
    wanted = group_count(classes, gamma)
    if wanted == classes:
        return np.arange(classes)
    if not np.isfinite(features).all():
        odd = int(np.flatnonzero(~np.isfinite(features).all(1))[0])
        raise BadInput(f"shuffle: the features of class {odd} are not numbers; use zeros for classes without samples")
    if wanted == 1:
        return np.zeros(classes, np.int64)
    return renumber(_clusters(features, wanted, int(stream(seed, "merging").integers(2**31))))


def group_count(classes: int, gamma: float) -> int:
    """floor(classes gamma), at least 1; what rounding of gamma took below a whole number is given back.

    >>> group_count(100, 0.29), math.floor(100 * 0.29)
    (29, 28)
    """
    return max(1, math.floor(classes * gamma + 1e-9))


def renumber(names: Ints) -> Ints:
    """The same groups, numbered 0, 1, .. by first appearance.

    >>> renumber(np.array([5, 2, 5, 0])).tolist()
    [0, 1, 0, 2]
    """
    _, first, place = np.unique(names, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]


def group_counts(counts: Ints, groups: Ints) -> Ints:
    """Samples of each group on each device [V, k], from those of each class [V, c]."""
    return counts @ (groups[:, None] == np.arange(int(groups.max()) + 1)).astype(np.int64)


def ungroup(plan: Ints, counts: Ints, groups: Ints, rng: np.random.Generator) -> Ints:
    """The plan by class [V, c, V] of a plan by group [V, k, V]: the samples that go are drawn at random from their group.

    For each sender and group, receiver after receiver draws from what is left without replacement (multivariate
    hypergeometric), and the sender keeps the rest: every class is handed out exactly.
    """
    devices, classes = counts.shape
    held = group_counts(counts, groups)
    if plan.shape != (devices, held.shape[1], devices):
        expected = (devices, held.shape[1], devices)
        raise BadInput(f"shuffle: the plan has shape {plan.shape}, not {expected}; make the plan for these groups")
    wrong = np.argwhere((plan.sum(2) != held) | (plan < 0).any(2))
    if len(wrong):
        v, g = wrong[0].tolist()
        raise BadInput(
            f"shuffle: the plan hands out {plan[v, g].tolist()} of group {g} from device {v}, which holds {held[v, g]}; "
            "a row must hold whole numbers, 0 or more, that add up to what the device holds"
        )
    result = np.zeros((devices, classes, devices), np.int64)
    for g in range(plan.shape[1]):
        members = np.flatnonzero(groups == g)
        for v in range(devices):
            left = counts[v, members]
            for j in np.flatnonzero(plan[v, g]).tolist():
                if j != v:
                    sent = rng.multivariate_hypergeometric(left, plan[v, g, j]) if len(members) > 1 else plan[v, g, [j]]
                    result[v, members, j] = sent
                    left = left - sent
            result[v, members, v] = left
    return result


def _clusters(features: Floats, wanted: int, luck: int) -> Ints:
    """t-SNE and k-means. The principal axes are t-SNE's usual start, where there are two and not all classes coincide."""
    try:
        cluster: Any = import_module("sklearn.cluster")  # not imported above: it takes seconds, and devices lack it
        manifold: Any = import_module("sklearn.manifold")
    except ImportError:
        raise BadInput("shuffle: merging classes needs scikit-learn; install fedfleet[train] or set gamma = 1") from None
    differ = min(features.shape) > 1 and bool(np.ptp(features, axis=0).max() > 0.0)
    embed = manifold.TSNE(
        perplexity=min(_PERPLEXITY, (len(features) - 1) / 3.0),  # must stay below the number of points
        init="pca" if differ else "random",
        method="exact",  # few points: no approximation is needed
        random_state=luck,
    )
    plane = np.asarray(embed.fit_transform(features.astype(np.float64)), np.float64)
    return cluster.KMeans(wanted, n_init=10, random_state=luck).fit_predict(plane).astype(np.int64)
