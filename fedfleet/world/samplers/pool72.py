"""FS-REAL's device pool: 72 configurations, and five ways to fill a fleet with them."""

from __future__ import annotations

import math
from itertools import product
from typing import Literal

import numpy as np

from fedfleet.core.cost import stage_seconds
from fedfleet.core.fleet import DeviceTable, device_table, take_devices
from fedfleet.core.limits import NonNegative, Positive
from fedfleet.core.records import Cost, Floats, Ints, Keys
from fedfleet.core.rng import uniforms
from fedfleet.core.shared_rows import SharedNames
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import StageSeconds, source_from_stages
from fedfleet.world.devices import best_table, table_devices

Distribution = Literal["homo", "uniform", "near_normal", "strong_heavy", "double_tails"]
# From weakest to strongest. Delays are milliseconds, whatever the paper prints; bandwidths are (up, down) in kbit/s.
CORES = (1, 2, 3, 4)
MEMORY_MB = (256, 1024)
DELAYS_MS = ((80.0, 400.0), (35.0, 200.0), (0.0, 0.0))
KBPS = ((58_000.0, 173_000.0), (75_000.0, 285_000.0), (340_000.0, 1_024_000.0))
BETA_BINOMIAL = {"near_normal": (10.0, 10.0), "strong_heavy": (10.0, 2.0), "double_tails": (0.2, 0.2)}
SIZE = len(CORES) * len(MEMORY_MB) * len(DELAYS_MS) * len(KBPS)


def configurations(seconds_per_sample: float = 0.05) -> DeviceTable:
    """The 72 devices from weakest to strongest: by the sum of ranks, then cores, bandwidth, delay, memory; seconds of one core."""
    ranks = product(range(len(CORES)), range(len(KBPS)), range(len(DELAYS_MS)), range(len(MEMORY_MB)))
    ordered = sorted(ranks, key=lambda r: (sum(r), *r))
    ids = [f"c{CORES[c]}-b{b}-d{d}-m{MEMORY_MB[m]}" for c, b, d, m in ordered]
    return device_table(
        ids,
        [[KBPS[b][1]] for _, b, _, _ in ordered],
        [seconds_per_sample / CORES[c] for c, _, _, _ in ordered],
        [[KBPS[b][0]] for _, b, _, _ in ordered],
        np.array([DELAYS_MS[d] for _, _, d, _ in ordered]) / 1000.0,
        np.array([float(CORES[c]) for c, _, _, _ in ordered]),
        np.array([float(MEMORY_MB[m]) for _, _, _, m in ordered]),
    )


def shares(distribution: Distribution) -> Floats:
    """The probability of each configuration; `homo` is the middle one."""
    if distribution == "homo":
        return np.eye(SIZE)[SIZE // 2]
    if distribution == "uniform":
        return np.full(SIZE, 1.0 / SIZE)
    return beta_binomial(*BETA_BINOMIAL[distribution])


def beta_binomial(a: float, b: float, n: int = SIZE - 1) -> Floats:
    """P(X = x) for x = 0..n: C(n, x) B(x + a, n - x + b) / B(a, b)."""

    def log_beta(p: float, q: float) -> float:
        return math.lgamma(p) + math.lgamma(q) - math.lgamma(p + q)

    logs = [
        math.lgamma(n + 1) - math.lgamma(x + 1) - math.lgamma(n - x + 1) + log_beta(x + a, n - x + b) - log_beta(a, b)
        for x in range(n + 1)
    ]
    result = np.exp(logs)
    return result / result.sum()


def allocate(distribution: Distribution, keys: Keys, seed: int, *columns: Ints | int) -> Ints:
    """A configuration for each key at this address."""
    edges = np.cumsum(shares(distribution))
    return np.minimum(np.searchsorted(edges, uniforms(seed, "pool72", keys, *columns), side="right"), SIZE - 1)


def pool72(
    *,
    distribution: Distribution = "near_normal",
    seconds_per_sample: Positive = 0.05,
    reallocate: bool = True,
    peak_memory_mb: NonNegative = 0.0,
):
    """FS-REAL's pool of 72 devices: homo, uniform, near_normal BB(10,10), strong_heavy BB(10,2), double_tails BB(0.2,0.2).

    With `reallocate` a client gets another device at every trip, as in the paper; a task that needs more memory than its
    device has is lost.
    """

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        table = configurations(seconds_per_sample)
        fixed = allocate(distribution, keys, seed)

        def stages(clients: Ints, cost: Cost, _start: float, tasks: Ints) -> StageSeconds:
            row = allocate(distribution, keys[clients], seed, tasks) if reallocate else fixed[clients]
            low, high = table.latency[row, 0], table.latency[row, 1]
            latency = low + (high - low) * uniforms(seed, "latency", keys[clients], tasks)
            latency = np.where(table.memory_mb[row] < peak_memory_mb, np.inf, latency)  # it never even begins
            return stage_seconds(cost, table.down[row], table.up[row], table.seconds_per_sample[row], latency)

        kinds = ["pool"] * len(keys) if reallocate else SharedNames(table.ids, fixed.astype(np.int32))
        rows = np.flatnonzero(shares(distribution)) if reallocate else np.unique(fixed)
        memory_mb = None if reallocate else lambda clients: table.memory_mb[fixed[clients]]
        return source_from_stages(
            stages,
            kinds,
            memory_mb,
            best=lambda: table_devices(best_table(table, rows, len(keys)), keys, seed),
            table=lambda: take_devices(table, fixed),
        )

    return recipe
