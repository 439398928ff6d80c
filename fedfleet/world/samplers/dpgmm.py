"""DPGMM: device fleets with a chosen number of kinds, spread and mean speed (FLHetBench, Theorem 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Literal

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, mean_kbps, take_devices, unshared_devices
from fedfleet.core.records import Floats
from fedfleet.core.rng import stream
from fedfleet.core.shared_rows import compact_rows

_SPEEDS_PER_KIND = 25  # speeds per kind in paper semantics: normal quantiles, scaled to unit variance
_SLOWEST_KBPS = 1.0
_WIDE = 1e6  # a normal so many times wider than its support is uniform on it, to rounding

Support = Literal["base", "floor"]


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
    support: Support = "base",
) -> DeviceTable:
    """Devices of `clients` clients.

    `paper`: weights ~ Dir(alpha / K_n); mu_k ~ N(mu_0, (sigma sigma_0)^2); speeds of kind k ~ N(mu_k, sigma_k^2), as a list of
    quantiles, where sigma_k is the spread of a device drawn from the base. Normals reach below zero, where no speed is, and
    the theorem does not say what becomes of that part. `support` does:

    - `base` truncates: mu_k is drawn given that it lies within the means of the base's devices, and speeds given that they
      lie within its measurements, both scaled so that the base's mean is mu_0. Nothing piles up at a limit.
    - `floor` raises what lies below 1 kbit/s to it, as earlier versions did. From sigma = 1 on a part of the speeds sits
      there, each such trip takes weeks, and these trips alone decide DevMC-T and InterMC-T.

    `released`: weights ~ Dir(alpha per component), and kind k is the base device whose mean is nearest to mu_k and not yet
    taken, with its own measurements; the draws are those of numpy's default_rng in the published order.
    """
    if semantics == "released":
        return _sample_released(base, clients, kinds, sigma, mean_kbps_wanted, alpha, seed)
    return _sample_paper(base, clients, kinds, sigma, mean_kbps_wanted, alpha, seed, support)


def _sample_released(base: DeviceTable, n: int, kinds: int, sigma: float, mu: float, alpha: float, seed: int) -> DeviceTable:
    rng = np.random.default_rng(seed)
    labels = rng.choice(kinds, size=n, p=rng.dirichlet([alpha] * kinds))
    means = mean_kbps(base)
    occupied: list[int] = np.unique(labels).tolist()
    if len(occupied) > len(base):
        raise BadInput(f"{len(occupied)} kinds of device are needed, and the base has {len(base)}; lower kinds or clients")
    sigma_0, free = float(means.std()), np.ones(len(base), np.bool_)
    chosen: dict[int, int] = {}
    for label in occupied:
        chosen[label] = int(np.argmin(np.where(free, np.abs(means - rng.normal(mu, sigma * sigma_0)), np.inf)))
        free[chosen[label]] = False
    device_of = np.zeros(kinds, np.int64)
    device_of[list(chosen)] = list(chosen.values())
    return take_devices(base, device_of[labels])


def _sample_paper(
    base: DeviceTable, n: int, kinds: int, sigma: float, mu: float, alpha: float, seed: int, support: Support
) -> DeviceTable:
    rng = stream(seed, "dpgmm")
    labels = rng.choice(kinds, size=n, p=rng.dirichlet(np.full(kinds, alpha / kinds)))
    wide = sigma * float(mean_kbps(base).std())
    centres = rng.normal(mu, wide, kinds)
    model = rng.integers(len(base), size=kinds)  # whose spread, compute and latency a kind has
    used, row_index = compact_rows(None, kinds, labels)
    spreads = np.array([float(s.std()) for s in np.split(base.down, base.down_offsets[1:-1])])  # of each device's measurements
    rows = model[used] if base.row_index is None else base.row_index[model[used]]
    spread, n_used = spreads[rows], len(used)
    if support == "floor":
        speeds = np.maximum(centres[used, None] + spread[:, None] * _unit_quantiles(), _SLOWEST_KBPS)
    else:
        speeds = _speeds_within(base, mu, (centres[used] - mu) / (wide or 1.0), wide, spread)
    like = unshared_devices(take_devices(base, model[used]))
    return DeviceTable(
        np.array([f"kind-{kind}" for kind in used.tolist()], np.str_),
        speeds.ravel(), np.arange(n_used + 1, dtype=np.int64) * _SPEEDS_PER_KIND, np.zeros(0), np.zeros(n_used + 1, np.int64),
        like.seconds_per_sample, like.latency, like.cores, like.memory_mb, like.seconds_per_batch, row_index,
    )  # fmt: skip


def _speeds_within(base: DeviceTable, mu: float, z: Floats, wide: float, spread: Floats) -> Floats:
    """The speeds of kinds whose means stand at these normal scores, inside the base's support brought to the mean mu."""
    means = mean_kbps(base)
    scale = mu / float(means.mean())
    centres = truncate_normal(np.full(len(z), mu), np.full(len(z), wide), z[:, None], scale * means.min(), scale * means.max())
    return truncate_normal(centres[:, 0], spread, _unit_quantiles()[None, :], scale * base.down.min(), scale * base.down.max())


def truncate_normal(mu: Floats, sd: Floats, z: Floats, low: float, high: float) -> Floats:
    """Standard normal scores z [rows or 1, columns] as values of N(mu, sd^2) given low <= x <= high; ranks stay.

    Where the limits are far away that is mu + sd z. `mu` must lie within them.

    >>> truncate_normal(np.array([5.0]), np.array([1.0]), np.array([[-1.0, 0.0]]), -100.0, 100.0).round(9)
    array([[4., 5.]])
    """
    safe = np.where(sd > 0, sd, 1.0)
    below, above = (_apply_each(NormalDist().cdf, (limit - mu) / safe)[:, None] for limit in (low, high))
    share = _apply_each(NormalDist().cdf, z)
    place = np.clip(below + share * (above - below), 2.0**-1000, 1.0 - 2.0**-53)
    result = mu[:, None] + safe[:, None] * _apply_each(NormalDist().inv_cdf, place)
    # Rounding of `place` would show there: the limit of a very wide normal is uniform, that of a narrow one its mean.
    result = np.where((sd > _WIDE * (high - low))[:, None], low + share * (high - low), result)
    return np.clip(np.where((sd > 0)[:, None], result, mu[:, None]), low, high)


def _apply_each(function: Callable[[float], float], values: Floats) -> Floats:
    return np.array([function(x) for x in values.ravel().tolist()]).reshape(values.shape)


def _unit_quantiles() -> Floats:
    """Quantiles of the standard normal at the middles of equal shares, scaled to variance one."""
    q = np.array([NormalDist().inv_cdf((i + 0.5) / _SPEEDS_PER_KIND) for i in range(_SPEEDS_PER_KIND)])
    return q / q.std()
