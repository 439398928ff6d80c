"""Device sources: how long download, training and upload take on each client's device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedfleet.core.cost import seconds_of
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import NonNegative, Positive
from fedfleet.core.parts import DeviceSource
from fedfleet.core.records import Cost, Floats, Ints, Keys
from fedfleet.core.rng import hash_keys, uniforms
from fedfleet.world.files import read_devices

DeviceRecipe = Callable[[Keys, int], DeviceSource]


def homogeneous(
    *, mbps: Positive = 42.0, up_mbps: Positive | None = None, seconds_per_sample: NonNegative = 0.05
) -> DeviceRecipe:
    """One kind of device for everyone, with constant speeds."""
    down = mbps * 1000.0
    up = down if up_mbps is None else up_mbps * 1000.0

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        del seed
        n = len(keys)
        return fixed_devices(np.full(n, down), np.full(n, up), np.full(n, seconds_per_sample), ["a"] * n)

    return recipe


def spread(
    *,
    mbps: Positive = 42.0,
    seconds_per_sample: Positive = 0.05,
    link: NonNegative = 1.0,
    compute: NonNegative = 0.5,
    jitter: NonNegative = 0.0,
) -> DeviceRecipe:
    """Devices spread log-normally around a median: `link` and `compute` are standard deviations of the natural logarithm.

    `jitter` varies the link from trip to trip in the same way. Kinds: slow, middle and fast thirds by link speed.
    """

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        kbps = mbps * 1000.0 * np.exp(link * _normals(seed, "link", keys))
        per_sample = seconds_per_sample * np.exp(compute * _normals(seed, "compute", keys))
        rank = np.argsort(np.argsort(kbps, kind="stable"), kind="stable")
        kinds = [("slow", "middle", "fast")[min(3 * int(r) // len(keys), 2)] for r in rank]
        return fixed_devices(kbps, kbps, per_sample, kinds, keys=keys, seed=seed, jitter=jitter)

    return recipe


def fixed_devices(
    down: Floats,
    up: Floats,
    per_sample: Floats,
    kinds: list[str],
    *,
    keys: Keys | None = None,
    seed: int = 0,
    jitter: float = 0.0,
) -> DeviceSource:
    """Each client's own speeds, constant or varied log-normally by `jitter` at every trip."""

    def seconds(clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        del start
        factor = 1.0
        if jitter and keys is not None:
            factor = np.exp(jitter * _normals(seed, "jitter", keys[clients], tasks))
        return seconds_of(
            cost, down[clients] * factor, up[clients] * factor, per_sample[clients], np.zeros(len(clients))
        )

    return DeviceSource(seconds, kinds)


def device_file(path: str) -> DeviceRecipe:
    """Client i has row i of a devices file; link speeds are drawn anew from the row's measurements at every trip."""

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        rows = read_devices(path)
        if len(rows.ids) < len(keys):
            raise BadInput(
                f"{path} has {len(rows.ids)} devices for {len(keys)} clients; lower world.clients or add devices"
            )
        # Absent upload measurements: draw from the download ones, independently.
        own_up = np.diff(rows.up_offsets) > 0

        def draw(label: str, values: Floats, offsets: Ints, clients: Ints, tasks: Ints) -> Floats:
            low, n = offsets[clients], offsets[clients + 1] - offsets[clients]
            return values[low + (uniforms(seed, label, keys[clients], tasks) * n).astype(np.int64)]

        def seconds(clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
            del start
            down = draw("down", rows.down, rows.down_offsets, clients, tasks)
            up = draw("up", rows.down, rows.down_offsets, clients, tasks)
            own = own_up[clients]
            if own.any():
                up[own] = draw("up", rows.up, rows.up_offsets, clients[own], tasks[own])
            low, high = rows.latency[clients, 0], rows.latency[clients, 1]
            latency = low + (high - low) * uniforms(seed, "latency", keys[clients], tasks)
            return seconds_of(cost, down, up, rows.seconds_per_sample[clients], latency)

        return DeviceSource(seconds, rows.ids[: len(keys)])

    return recipe


def _normals(seed: int, label: str, keys: Keys, *columns: Ints) -> Floats:
    """A standard normal per key by Box and Muller: the first uniform is kept away from zero."""
    u = ((hash_keys(seed, label, keys, *columns) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    v = uniforms(seed, label + "/angle", keys, *columns)
    return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)
