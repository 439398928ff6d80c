"""Devices that change while they work: ShuffleFL's mobility, and FLHetBench's state-only setting."""

from __future__ import annotations

import numpy as np

from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.limits import Fraction, LogSpread, NonNegative, Positive
from fedfleet.core.records import Cost, Floats, Ints, Keys
from fedfleet.core.rng import normals, uniforms
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import StageSeconds, best_devices, source_from_stages, stages_of
from fedfleet.world.devices import DeviceRecipe


def mobile(devices: DeviceRecipe, *, sd: LogSpread = 0.2, load: Fraction = 0.5, period: Positive = 3600.0) -> DeviceRecipe:
    """ShuffleFL's dynamics: bandwidth times omega at every trip, computing time times a coefficient that changes by the hour.

    omega of Eq. (15), read as 1 if x <= 0, else min(x, 2), with x ~ N(1, sd). The Tracer dataset of the paper is not public,
    so the share of its speed that a device has left for training is drawn evenly between 1 - `load` and 1 for each client and
    `period`.
    """

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        return moving(devices(keys, seed), keys, seed)

    def moving(inner: DeviceSource, keys: Keys, seed: int) -> DeviceSource:
        def stages(clients: Ints, cost: Cost, start: float, tasks: Ints) -> StageSeconds:
            result = stages_of(inner, clients, cost, start, tasks)
            omega = coefficient(1.0 + sd * normals(seed, "omega", keys[clients], tasks))
            capability = 1.0 - load * uniforms(seed, "capability", keys[clients], int(start // period))
            slower = {"download": omega, "upload": omega, "compute": capability}
            return {name: seconds / slower[name] if name in slower else seconds for name, seconds in result.items()}

        best_inner = best_devices(inner)
        best = None if best_inner is None else lambda: moving(best_inner(), keys, seed)
        return source_from_stages(stages, inner.kinds, inner.memory_mb, best)

    return recipe


def coefficient(x: Floats) -> Floats:
    """Eq. (15) of ShuffleFL, which is printed with a hole between 0 and 1: 1 if x <= 0, else min(x, 2)."""
    return np.where(x <= 0, 1.0, np.minimum(x, 2.0))


def state_only(
    *, deadline: Positive = 120.0, seconds_per_sample: NonNegative = 0.0, seconds_per_batch: NonNegative = 0.0
) -> DeviceRecipe:
    """FLHetBench's state-only setting (III): one device for all, whose transfer takes N(d/1.05, 0.1 d/1.05) for deadline d."""
    mean = deadline / 1.05

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        def stages(clients: Ints, cost: Cost, _start: float, tasks: Ints) -> StageSeconds:
            transfer = mean * (1.0 + 0.1 * normals(seed, "transfer", keys[clients], tasks))
            batches = 0.0 if cost.batches is None else cost.batches
            half = 0.5 * np.maximum(transfer, 0.0)
            compute = TRAINING_PASSES * cost.samples * seconds_per_sample + batches * seconds_per_batch
            return {"download": half, "compute": compute, "upload": half}

        one = source_from_stages(stages, ["one"] * len(keys), best=lambda: one)  # which all have already
        return one

    return recipe
