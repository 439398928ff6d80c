"""Device sources: how long download, training and upload take on each client's device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.cost import TRAINING_PASSES, stage_seconds
from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, take_devices
from fedfleet.core.limits import Kinds, LogSpread, NonNegative, Positive, Ratio
from fedfleet.core.records import Cost, Floats, Ints, Keys
from fedfleet.core.rng import normals, uniforms
from fedfleet.core.shared_rows import SharedNames, row_of, rows_of_all
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import StageSeconds, source_from_stages, stages_of
from fedfleet.world.bases import load_devices
from fedfleet.world.samplers.dpgmm import Support, sample_dpgmm

DeviceRecipe = Callable[[Keys, int], DeviceSource]
# The work by which devices are compared: a batch of so many samples, and so many bytes each way.
BATCH, TRANSFER = 20, 1e7
_REDRAWS = 64


def homogeneous(
    *,
    mbps: Positive = 42.0,
    up_mbps: Positive | None = None,
    seconds_per_sample: NonNegative = 0.05,
    seconds_per_batch: NonNegative = 0.0,
) -> DeviceRecipe:
    """One kind of device for everyone, with constant speeds.

    `seconds_per_sample` is inference time; `seconds_per_batch` is what each training batch takes besides its samples.
    """
    down = mbps * 1000.0
    up = down if up_mbps is None else up_mbps * 1000.0

    def recipe(keys: Keys, _seed: int) -> DeviceSource:
        n = len(keys)
        speeds = np.broadcast_to(down, n), np.broadcast_to(up, n)
        per_sample, per_batch = np.broadcast_to(seconds_per_sample, n), np.broadcast_to(seconds_per_batch, n)
        return fixed_devices(*speeds, per_sample, per_batch, SharedNames(np.array(["a"]), np.zeros(n, np.int32)))

    return recipe


def spread(
    *,
    mbps: Positive = 42.0,
    seconds_per_sample: Positive = 0.05,
    link: LogSpread = 1.0,
    compute: LogSpread = 0.5,
    jitter: LogSpread = 0.0,
    seconds_per_batch: NonNegative = 0.0,
    most_link: Ratio | None = None,
    most_compute: Ratio | None = None,
) -> DeviceRecipe:
    """Devices spread log-normally around a median: `link` and `compute` are standard deviations of the natural logarithm.

    `jitter` varies the link from trip to trip in the same way. Kinds: slow, middle and fast thirds by link speed. A device
    that is slow with samples is as slow with batches: `seconds_per_batch` spreads together with `seconds_per_sample`.
    `most_link` and `most_compute` say how many times faster the fastest link or processor may be than the slowest (measured
    fleets: 200 and 13): the distribution is cut on both sides of its median, and whoever would lie beyond is drawn again.
    """

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        kbps = mbps * 1000.0 * lognormals(seed, "link", keys, link, most_link)
        slowness = lognormals(seed, "compute", keys, compute, most_compute)
        per_sample, per_batch = seconds_per_sample * slowness, seconds_per_batch * slowness
        rank = np.argsort(np.argsort(kbps, kind="stable"), kind="stable")
        kinds = SharedNames(np.array(["slow", "middle", "fast"]), np.minimum(3 * rank // len(keys), 2).astype(np.int32))
        return fixed_devices(kbps, kbps, per_sample, per_batch, kinds, keys=keys, seed=seed, jitter=jitter)

    return recipe


def lognormals(seed: int, label: str, keys: Keys, sigma: float, most: float | None) -> Floats:
    """Factors around 1, log-normal; with `most` in [1 / sqrt(most), sqrt(most)]: those beyond are drawn again, the others stay."""
    deviations = sigma * normals(seed, label, keys)
    if most is None:
        return np.exp(deviations)
    edge = 0.5 * math.log(most)
    beyond = np.flatnonzero(np.abs(deviations) > edge)
    for again in range(1, _REDRAWS):
        if not len(beyond):
            break
        deviations[beyond] = sigma * normals(seed, f"{label}/again", keys[beyond], again)
        beyond = beyond[np.abs(deviations[beyond]) > edge]
    # Only between limits that lie close together is anybody left, and there the density is all but flat.
    deviations[beyond] = edge * (2.0 * uniforms(seed, f"{label}/between", keys[beyond]) - 1.0)
    return np.exp(deviations)


def fixed_devices(
    down: Floats,
    up: Floats,
    per_sample: Floats,
    per_batch: Floats,
    kinds: Sequence[str],
    *,
    keys: Keys | None = None,
    seed: int = 0,
    jitter: float = 0.0,
) -> DeviceSource:
    """Each client's own speeds, constant or varied log-normally by `jitter` at every trip."""

    def stages(clients: Ints, cost: Cost, _start: float, tasks: Ints) -> StageSeconds:
        factor = 1.0
        if jitter and keys is not None:
            factor = np.exp(jitter * normals(seed, "jitter", keys[clients], tasks))
        none = np.zeros(len(clients))
        return stage_seconds(
            cost, down[clients] * factor, up[clients] * factor, per_sample[clients], none, seconds_per_batch=per_batch[clients]
        )

    def best() -> DeviceSource:
        link, work = fastest(1.0 / down + 1.0 / up, down), fastest(batch_seconds(per_sample, per_batch), per_sample)
        speeds = np.broadcast_to(down[link], len(down)), np.broadcast_to(up[link], len(up))
        times = np.broadcast_to(per_sample[work], len(down)), np.broadcast_to(per_batch[work], len(down))
        return fixed_devices(*speeds, *times, kinds, keys=keys, seed=seed, jitter=jitter)

    return source_from_stages(stages, kinds, None, best)


def fastest(seconds: Floats, then: NDArray[Any]) -> int:
    """The place of the smallest number; among equals that of the smallest in `then`, so that no order of clients decides."""
    return int(np.lexsort((then, seconds))[0])


def batch_seconds(per_sample: Floats, per_batch: Floats) -> Floats:
    """What a training batch of usual size takes: by this processors are compared."""
    return TRAINING_PASSES * BATCH * per_sample + per_batch


def device_file(path: str) -> DeviceRecipe:
    """Client i has row i of a devices file or base; link speeds are drawn anew from the row's measurements at every trip.

    `path` is a file (.json, .csv, .npz), or a base with its prefix, for example flhetbench:PATH.
    """

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        rows = load_devices(path)
        if len(rows) < len(keys):
            raise BadInput(f"{path} has {len(rows)} devices for {len(keys)} clients; lower world.clients or add devices")
        return table_devices(rows, keys, seed)

    return recipe


def dpgmm(
    *,
    base: str = "builtin",
    kinds: Kinds = 50,
    sigma: NonNegative = 1.0,
    mean_mbps: Positive = 42.0,
    alpha: Positive = 1000.0,
    semantics: Literal["paper", "released"] = "paper",
    support: Support = "base",
) -> DeviceRecipe:
    """FLHetBench's DPGMM: about `kinds` kinds of device around a mean speed; `sigma` dials how far they lie apart.

    `sigma` is in units of the base's own spread. `paper` follows Theorem 3.1, `released` the published sampler. `support` says
    where the theorem's normals end: at the speeds that the base has (`base`), or with everything slower than 1 kbit/s raised
    to it (`floor`), which lets a few clients decide how long rounds take; `released` has the base's speeds in any case.
    """

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        table = sample_dpgmm(
            load_devices(base), len(keys), kinds=kinds, sigma=sigma, mean_kbps_wanted=mean_mbps * 1000.0,
            alpha=alpha, semantics=semantics, seed=seed, support=support,
        )  # fmt: skip
        return table_devices(table, keys, seed)

    return recipe


def table_devices(table: DeviceTable, keys: Keys, seed: int) -> DeviceSource:
    """Client i has the i-th device of a table; its link is measured anew at every trip."""
    # Absent upload measurements: drawn from the download ones, independently.
    own_up = np.diff(table.up_offsets) > 0

    def draw(label: str, values: Floats, offsets: Ints, rows: Ints, own_keys: Keys, tasks: Ints) -> Floats:
        low, n = offsets[rows], offsets[rows + 1] - offsets[rows]
        return values[low + (uniforms(seed, label, own_keys, tasks) * n).astype(np.int64)]

    def stages(clients: Ints, cost: Cost, _start: float, tasks: Ints) -> StageSeconds:
        rows, own_keys = row_of(table.row_index, clients), keys[clients]
        down = draw("down", table.down, table.down_offsets, rows, own_keys, tasks)
        up = draw("up", table.down, table.down_offsets, rows, own_keys, tasks)
        own = own_up[rows]
        if own.any():
            up[own] = draw("up", table.up, table.up_offsets, rows[own], own_keys[own], tasks[own])
        low, high = table.latency[rows, 0], table.latency[rows, 1]
        latency = low + (high - low) * uniforms(seed, "latency", own_keys, tasks)
        return stage_seconds(
            cost, down, up, table.seconds_per_sample[rows], latency, seconds_per_batch=table.seconds_per_batch[rows]
        )

    everyones = rows_of_all(table.row_index, len(table.ids))[: len(keys)]

    def best() -> DeviceSource:
        return table_devices(best_table(table, np.unique(everyones).astype(np.int64), len(keys)), keys, seed)

    def own_rows() -> DeviceTable:
        return table if len(table) == len(keys) else take_devices(table, np.arange(len(keys)))

    return source_from_stages(stages, SharedNames(table.ids, everyones), memory_of(table), best, own_rows)


def best_table(table: DeviceTable, rows: Ints, clients: int) -> DeviceTable:
    """A table that gives all clients the fastest link and the fastest processor among these rows, by their mean times."""
    bits = 8.0 / 1000.0
    down = _span_means(bits * TRANSFER / table.down, table.down_offsets)
    up = np.where(np.diff(table.up_offsets) > 0, _span_means(bits * TRANSFER / table.up, table.up_offsets), down)
    links = (down + up + table.latency.mean(axis=1))[rows]
    works = batch_seconds(table.seconds_per_sample, table.seconds_per_batch)[rows]
    link, work = rows[fastest(links, table.ids[rows])], rows[fastest(works, table.ids[rows])]
    one = take_devices(replace(table, row_index=None), np.array([link]))
    return replace(
        one, seconds_per_sample=table.seconds_per_sample[[work]], seconds_per_batch=table.seconds_per_batch[[work]],
        row_index=np.zeros(clients, np.int32),
    )  # fmt: skip


def _span_means(values: Floats, offsets: Ints) -> Floats:
    """The mean of each row's span; NaN of an empty one."""
    some = np.diff(offsets) > 0
    result = np.full(len(some), np.nan)
    if some.any():
        result[some] = np.add.reduceat(values, offsets[:-1][some]) / np.diff(offsets)[some]
    return result


def memory_of(table: DeviceTable) -> Callable[[Ints], Floats] | None:
    """What a table knows of its clients' memory; None if it knows nothing."""
    if np.isnan(table.memory_mb).all():
        return None
    return lambda clients: table.memory_mb[row_of(table.row_index, clients)]


def median_devices(source: DeviceSource) -> DeviceSource:
    """Device heterogeneity switched off: everyone has the device of the fleet's median client."""
    n = len(source.kinds)
    everyone, ones = np.arange(n), np.ones(n)
    reference = source.seconds(everyone, Cost(ones, ones * 1e7, ones * 1e7), 0.0, np.zeros(n, np.int64))
    median = int(np.argsort(reference, kind="stable")[n // 2])

    def stages(clients: Ints, cost: Cost, start: float, tasks: Ints) -> StageSeconds:
        return stages_of(source, np.full(len(clients), median), cost, start, tasks)

    inner_memory_mb = source.memory_mb
    memory_mb = None if inner_memory_mb is None else lambda clients: inner_memory_mb(np.full(len(clients), median))
    kinds: Sequence[str] = [source.kinds[median]] * n
    if isinstance(source.kinds, SharedNames):  # whoever names another kind of this fleet names one that there is
        kinds = SharedNames(source.kinds.names, np.full(n, source.kinds.row_index[median]))
    source_of_median = source_from_stages(stages, kinds, memory_mb, lambda: source_of_median)
    return source_of_median
