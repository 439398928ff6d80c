"""FedGS (Li et al., 2022): at every average an edge asks those devices whose next batches together look like the world's data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np

from fedfleet.core.bounds import Ge, Le
from fedfleet.core.edges import MAX_SYNCS, EdgeRule, Sync, Turn, Visit
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Natural
from fedfleet.core.part_facts import LabelsOf, Prior
from fedfleet.core.records import Bools, Floats, Ints
from fedfleet.core.rng import hash_keys, uniforms

# In an edge's memory, one entry per device: which pass over its rows it is in, and how far it has come.
EPOCH, CURSOR = "epoch", "cursor"


def fedgs(
    *,
    per_sync: Count = 10,
    random: Natural = 2,
    syncs: Annotated[int, Ge(1), Le(MAX_SYNCS)] = 50,
    batch: Count = 32,
    labels: LabelsOf,
    prior: Prior,
) -> EdgeRule:
    """One step between averages at the edge, which asks devices whose next batches together look like the world's data.

    Each of `syncs` averages asks `per_sync` devices: `random` of them evenly drawn, the rest chosen by GBP-CS so that the
    labels of all their batches come close to the world's shares.

    A device walks through its rows in a new order each pass, the last batch of a pass being what is left, and moves on only
    when it is chosen. Edges with no more devices than `per_sync` ask all that hold data. At the server all edges weigh the
    same. The algorithm's own batch should not be smaller than `batch`, or its step sees only a part.
    """
    if random > per_sync:
        raise BadInput(f"edge.random = {random} is more than edge.per_sync = {per_sync}; lower edge.random")

    def turn(visit: Visit, shares: Floats) -> Turn:
        devices = len(visit.devices)
        epoch, cursor = (visit.memory.get(name, np.zeros(devices, np.int64)).copy() for name in (EPOCH, CURSOR))
        orders: list[Ints] = [shuffle_rows(visit, k, int(epoch[k])) for k in range(devices)]
        batches: list[Ints] = [np.empty(0, np.int64)] * devices
        histograms = np.zeros((devices, len(shares)), np.int64)

        def draw_next(k: int) -> None:
            if cursor[k] >= len(orders[k]) > 0:  # also where rows went away since the last turn
                epoch[k], cursor[k] = epoch[k] + 1, 0
                orders[k] = shuffle_rows(visit, k, int(epoch[k]))
            batches[k] = orders[k][cursor[k] : cursor[k] + batch]
            histograms[k] = np.bincount(labels(batches[k]), minlength=len(shares))

        for k in range(devices):
            draw_next(k)
        planned_syncs, distance = list[Sync](), 0.0
        for sync in range(syncs):
            slots = choose_devices(visit, histograms, shares, per_sync, random, sync)
            planned_syncs.append(Sync(slots, tuple(batches[k] for k in slots.tolist()), 1))
            seen = histograms[slots].sum(0)
            distance += 0.5 * float(np.abs(seen / max(1, seen.sum()) - shares).sum()) / syncs
            for k in slots.tolist():
                cursor[k] += len(batches[k])
                draw_next(k)
        memory, stats = {EPOCH: epoch, CURSOR: cursor}, {"label_distance": distance}
        return Turn(visit.rows, tuple(planned_syncs), weight=float(per_sync), memory=memory, stats=stats)

    def plan(visits: Sequence[Visit]) -> list[Turn]:
        shares = prior()
        return [turn(visit, shares) for visit in visits]

    return EdgeRule("fedgs", plan, by_labels=True)


def shuffle_rows(visit: Visit, slot: int, epoch: int) -> Ints:
    """A device's rows in the order of one pass: by a hash of row, device and pass, so that no other device matters."""
    rows = visit.rows[slot]
    luck = hash_keys(visit.seed, "fedgs/order", rows.astype(np.uint64), int(visit.keys[slot]), epoch)
    return rows[np.argsort(luck, kind="stable")]


def choose_devices(visit: Visit, histograms: Ints, shares: Floats, per_sync: int, random: int, sync: int) -> Ints:
    """Places of the devices that take part in one average, ascending: some drawn at random, the others to complete them.

    The target of GBP-CS is n L p - b: n the size of a batch, L = `per_sync`, p the world's shares, b the labels of
    those drawn. Batches at the end of a pass are short, so n is the mean size of what there is.
    """
    sizes = histograms.sum(1)
    held = np.flatnonzero(sizes > 0)
    if per_sync >= len(held):
        return held
    random_devices = np.argsort(uniforms(visit.seed, "fedgs", visit.keys[held], visit.task, sync), kind="stable")[:random]
    others = np.delete(held, random_devices)
    target = sizes[held].mean() * per_sync * shares - histograms[held[random_devices]].sum(0)
    return np.sort(np.concatenate([held[random_devices], others[match_devices(histograms[others], target, per_sync - random)]]))


def match_devices(histograms: Ints | Floats, target: Floats, wanted: int) -> Bools:
    """The `wanted` devices whose histograms [devices, classes] add up close to `target`, by GBP-CS.

    That is a local optimum of ||A x - y||^2 over binary x with that many ones; A has a histogram in each column.

    >>> match_devices(np.array([[4, 0], [4, 0], [0, 4]]), np.array([4.0, 4.0]), 2).tolist()
    [True, False, True]
    """
    *_, (last, _) = match_path(histograms, target, wanted)
    return last


def match_path(histograms: Ints | Floats, target: Floats, wanted: int) -> Iterator[tuple[Bools, float]]:
    """Choices and squared distances on the way: first the top of pinv(A) y, then swaps of largest and smallest g = A'(A x - y)."""
    every = histograms.astype(np.float64)
    scores = np.linalg.pinv(every.T) @ target
    # Rounded, so that devices with equal batches tie and noise in the last digits, which machines differ in, cannot choose.
    scores = np.round(scores / (np.abs(scores).max(initial=0.0) or 1.0), 9)
    choice = np.zeros(len(every), np.bool_)
    choice[np.argsort(-scores, kind="stable")[:wanted]] = True
    gap = choice @ every - target
    distance = float(gap @ gap)
    yield choice, distance
    while choice.any() and not choice.all():
        slope = every @ gap
        out = int(np.argmax(np.where(choice, slope, -np.inf)))
        into = int(np.argmin(np.where(choice, np.inf, slope)))
        choice = choice.copy()
        choice[out], choice[into] = False, True
        gap = choice @ every - target
        before, distance = distance, float(gap @ gap)
        if distance >= before:
            return
        yield choice, distance
