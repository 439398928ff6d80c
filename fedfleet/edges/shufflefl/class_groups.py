"""Fewer classes for slow gateways: classes that look alike are moved as one group (paper, section 4.4)."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.rng import stream
from fedfleet.shuffle.divergence import Floats, Ints

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
    luck = int(stream(seed, "merging").integers(2**31))
    return renumber(_clusters(features, wanted, luck))


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
    _check_fit(plan, group_counts(counts, groups))
    devices, classes = counts.shape
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


def _check_fit(plan: Ints, held: Ints) -> None:
    devices, count = held.shape
    if plan.shape != (devices, count, devices):
        raise BadInput(
            f"shuffle: the plan has shape {plan.shape}, not {(devices, count, devices)}; make the plan for these groups"
        )
    wrong = np.argwhere((plan.sum(2) != held) | (plan < 0).any(2))
    if len(wrong):
        v, g = wrong[0].tolist()
        raise BadInput(
            f"shuffle: the plan hands out {plan[v, g].tolist()} of group {g} from device {v}, which holds {held[v, g]}; "
            "a row must hold whole numbers, 0 or more, that add up to what the device holds"
        )


def _clusters(features: Floats, wanted: int, luck: int) -> Ints:
    """t-SNE and k-means. The principal axes are t-SNE's usual start, where there are two and not all classes coincide."""
    try:
        cluster: Any = import_module("sklearn.cluster")  # not imported above: it takes seconds, and devices lack it
        manifold: Any = import_module("sklearn.manifold")
    except ImportError:
        raise BadInput(
            "shuffle: merging classes needs scikit-learn; install fedfleet[train] or set gamma = 1"
        ) from None
    differ = min(features.shape) > 1 and bool(np.ptp(features, axis=0).max() > 0.0)
    embed = manifold.TSNE(
        perplexity=min(_PERPLEXITY, (len(features) - 1) / 3.0),  # must stay below the number of points
        init="pca" if differ else "random",
        method="exact",  # few points: no approximation is needed
        random_state=luck,
    )
    plane = np.asarray(embed.fit_transform(features.astype(np.float64)), np.float64)
    return cluster.KMeans(wanted, n_init=10, random_state=luck).fit_predict(plane).astype(np.int64)
