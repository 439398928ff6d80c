"""DPGMM: device fleets with a chosen number of kinds, spread and mean speed (FLHetBench, Theorem 3.1)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, mean_kbps, take_devices, unshared_devices
from fedfleet.core.records import Floats
from fedfleet.core.rng import stream
from fedfleet.core.sharing import rows_taken

_LIST = 25  # speeds per kind in paper semantics: normal quantiles, scaled to unit variance
_SLOWEST_KBPS = 1.0


def sample_dpgmm(
    base: DeviceTable,
    clients: int,
    *,
    kinds: int,
    sigma: float,
    mean_kbps_wanted: float,
    alpha: float,
    semantics: Literal["paper", "released"],
    seed: int,
) -> DeviceTable:
    """Devices of `clients` clients.

    `paper`: weights ~ Dir(alpha / K_n); mu_k ~ N(mu_0, (sigma sigma_0)^2); speeds of kind k ~ N(mu_k, sigma_k^2), as a list of
    quantiles, where sigma_k is the spread of a device drawn from the base; speeds below 1 kbit/s are cut off there.
    `released`: weights ~ Dir(alpha per component), and kind k is the base device whose mean is nearest to mu_k and not yet
    taken, with its own measurements; the draws are those of numpy's default_rng in the published order.
    """
    if semantics == "released":
        return _released(base, clients, kinds, sigma, mean_kbps_wanted, alpha, seed)
    return _paper(base, clients, kinds, sigma, mean_kbps_wanted, alpha, seed)


def _released(base: DeviceTable, n: int, kinds: int, sigma: float, mu: float, alpha: float, seed: int) -> DeviceTable:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet([alpha] * kinds)
    labels = rng.choice(kinds, size=n, p=weights)
    means = mean_kbps(base)
    occupied: list[int] = np.unique(labels).tolist()
    if len(occupied) > len(base):
        raise BadInput(
            f"{len(occupied)} kinds of device are needed, and the base has {len(base)}; lower kinds or clients"
        )
    sigma_0, free = float(means.std()), np.ones(len(base), np.bool_)
    chosen: dict[int, int] = {}
    for label in occupied:
        wanted = rng.normal(mu, sigma * sigma_0)
        gap = np.where(free, np.abs(means - wanted), np.inf)
        chosen[label] = int(np.argmin(gap))
        free[chosen[label]] = False
    device_of = np.zeros(kinds, np.int64)
    device_of[list(chosen)] = list(chosen.values())
    return take_devices(base, device_of[labels])


def _paper(base: DeviceTable, n: int, kinds: int, sigma: float, mu: float, alpha: float, seed: int) -> DeviceTable:
    rng = stream(seed, "dpgmm")
    weights = rng.dirichlet(np.full(kinds, alpha / kinds))
    labels = rng.choice(kinds, size=n, p=weights)
    sigma_0 = float(mean_kbps(base).std())
    centres = rng.normal(mu, sigma * sigma_0, kinds)
    model = rng.integers(len(base), size=kinds)  # whose spread, compute and latency a kind has
    spread = _spreads(base)[model]
    speeds = np.maximum(centres[:, None] + spread[:, None] * _unit_quantiles(), _SLOWEST_KBPS)
    used, of = rows_taken(None, kinds, labels)
    like, n_used = unshared_devices(take_devices(base, model[used])), len(used)
    return DeviceTable(
        np.array([f"kind-{kind}" for kind in used.tolist()], np.str_),
        speeds[used].ravel(), np.arange(n_used + 1, dtype=np.int64) * _LIST, np.zeros(0), np.zeros(n_used + 1, np.int64),
        like.seconds_per_sample, like.latency, like.cores, like.memory_mb, like.seconds_per_batch, of,
    )  # fmt: skip


def _spreads(base: DeviceTable) -> Floats:
    """The standard deviation of each device's measurements."""
    spans = np.split(base.down, base.down_offsets[1:-1])
    found = np.array([float(s.std()) for s in spans])
    return found if base.of is None else found[base.of]


def _unit_quantiles() -> Floats:
    """Quantiles of the standard normal at the middles of equal shares, scaled to variance one."""
    from statistics import NormalDist

    q = np.array([NormalDist().inv_cdf((i + 0.5) / _LIST) for i in range(_LIST)])
    return q / q.std()
