"""How like the real traces a draw of the built-in base is: every comparison, with what each side shows.

`benchmarks.fit_builtin` chooses by it, `benchmarks.builtin_bands` judges by it. Reads $FEDFLEET_DATA (default ../shared/data).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.fleet import DeviceTable, StateTable, availability, mean_kbps, take_states
from fedfleet.core.records import Floats, Ints
from fedfleet.core.rng import stream
from fedfleet.measure.montecarlo.metrics import one_value, state_scores, warm_up
from fedfleet.measure.montecarlo.settings import Semantics, Settings
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.samplers.dpcsm import sample_dpcsm
from fedfleet.world.samplers.dpgmm import sample_dpgmm

DATA = Path(os.environ.get("FEDFLEET_DATA", "../shared/data")) / "flhetbench"
SEEDS = 10  # samples over which a state metric is averaged
NEAR, NEAR_SEEDS = range(326, 375, 4), 3  # start ranks near 350, and samples for each
ALPHAS, RANKS, SIGMAS, KINDS = (1, 4, 10, 100), (0, 100, 350), (0.1, 0.7, 1.4, 2.0), (50, 100)


def hourly(table: StateTable) -> Floats:
    """The mean availability at each hour of the day, each state counted alike."""
    t = table.traces
    owner = np.repeat(np.arange(len(table)), np.diff(t.offsets))

    def seconds(begins: Floats, ends: Floats, whose: Ints, hour: int) -> Floats:
        until = [np.floor(x / 86400.0) * 3600.0 + np.clip(x % 86400.0 - hour * 3600.0, 0.0, 3600.0) for x in (begins, ends)]
        return np.bincount(whose, until[1] - until[0], len(table)).astype(np.float64)

    begins, ends = t.begins + t.start[owner], t.ends + t.start[owner]
    each = np.arange(len(table))
    ready = [seconds(begins, ends, owner, hour) for hour in range(24)]
    whole = [seconds(t.start, t.start + t.period, each, hour) for hour in range(24)]
    return np.mean(np.array(ready) / np.array(whole), axis=1)


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: the real value, ours, and how far ours may be off (a difference, or a factor from 1)."""

    what: str
    real: float
    ours: float
    limit: float
    as_factor: bool
    held: bool = True  # False: shown, but not promised

    @property
    def off(self) -> float:
        """How far off, as a part of what is allowed."""
        if self.as_factor:
            return abs(float(np.log(self.ours / self.real))) / float(np.log(1.0 + self.limit))
        return abs(self.ours - self.real) / self.limit

    def __str__(self) -> str:
        off = f"x {self.ours / self.real:.3f}" if self.as_factor else f"{self.ours - self.real:+.4f}"
        verdict = "ok" if self.off <= 1.0 else "OFF"
        return f"{self.what:<44} {self.real:10.4f} {self.ours:10.4f} {off:>9}  {verdict if self.held else '(not held)'}"


def basics(real: StateTable, ours: StateTable) -> list[Row]:
    """Availability, session length and daily swing."""

    def swing(table: StateTable) -> float:
        at = hourly(table)
        return float(at.max() / at.min())

    functions: dict[str, Callable[[StateTable], float]] = {
        "mean availability": lambda t: float(availability(t).mean()),
        "median session, s": lambda t: float(np.median(t.traces.ends - t.traces.begins)),
        "daily swing": swing,
    }
    return [Row(name, f(real), f(ours), 0.1, True) for name, f in functions.items()]


def pooled(work: list[Callable[[], Floats]]) -> list[Floats]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda f: f(), work))


def dpgmm(base: DeviceTable, kinds: int, sigma: float, seed: int) -> DeviceTable:
    return sample_dpgmm(
        base, 100, kinds=kinds, sigma=sigma, mean_kbps_wanted=42_000.0, alpha=1000.0, semantics="released", seed=seed
    )


def device_values(base: DeviceTable, seeds: int = 5) -> dict[str, float]:
    """The slowest devices, and DevMC-R and DevMC-T of DPGMM samples, also with speeds raised to at least 1 Mbit/s."""
    asked = Settings(semantics="released")
    lifted = replace(base, down=np.maximum(base.down, 1000.0))

    def over_seeds(name: str, base: DeviceTable, kinds: int, sigma: float) -> float:
        return float(np.mean([one_value(name, asked, dpgmm(base, kinds, sigma, s), None, s) for s in range(seeds)]))

    means = mean_kbps(base)
    found = {"devices below 1 Mbit/s": float((means < 1000.0).sum()), "slowest device, kbit/s": float(means.min())}
    for kinds, sigma in product(KINDS, SIGMAS):
        where = f"K={kinds} sigma={sigma}"
        found[f"DevMC-R {where}"] = over_seeds("DevMC-R", base, kinds, sigma)
        found[f"DevMC-T {where}"] = over_seeds("DevMC-T", base, kinds, sigma)
        found[f"DevMC-T {where}, floor 1 Mbit/s"] = over_seeds("DevMC-T", lifted, kinds, sigma)
    return found


def device_rows(real: dict[str, float], ours: dict[str, float]) -> Iterator[Row]:
    """The values of devices, ours against real.

    Where raising speeds below 1 Mbit/s to it would change the real DevMC-T by over 5 %, it hangs on a device or two:
    both sides are then compared with that floor, and the values without it are shown.
    """
    for what, value in real.items():
        plain = real.get(what.removesuffix(", floor 1 Mbit/s"), value)
        hangs = abs(real.get(f"{what}, floor 1 Mbit/s", plain) / plain - 1.0) > 0.05
        if what.startswith("DevMC-R"):
            yield Row(what, value, ours[what], 0.05, False)
        elif what.endswith("floor 1 Mbit/s"):
            if abs(value / plain - 1.0) > 0.05:
                yield Row(what, value, ours[what], 0.15, True)
        elif what.startswith("DevMC-T"):
            yield Row(what, value, ours[what], 0.15, True, not hangs)
        elif what.startswith("slowest"):
            yield Row(what, value, ours[what], 4.0, True)
        else:
            yield Row(what, value, ours[what], 0.5, False)


def state_values(states: StateTable, devices: DeviceTable, semantics: Semantics, seeds: int) -> dict[tuple[Any, ...], Floats]:
    """StatMC-R, StatMC-T and InterMC-R of each kind of sample, averaged over samples: DPCSM, and 100 drawn uniformly."""
    asked = Settings(semantics=semantics)
    warm_up(asked, dpgmm(devices, 50, 0.7, 0), take_states(states, np.arange(100)))
    order = state_scores(Settings(k=20, rounds=3000, semantics=semantics), states)

    def values(sample: StateTable, seed: int) -> Floats:
        d = dpgmm(devices, 50, 0.7, seed)
        return np.array([one_value(name, asked, d, sample, seed) for name in ("StatMC-R", "StatMC-T", "InterMC-R")])

    def sticks(alpha: int, rank: int, seed: int) -> Floats:
        return values(sample_dpcsm(states, 100, order, alpha=alpha, start_rank=rank, semantics=semantics, seed=seed), seed)

    def uniform(seed: int) -> Floats:
        return values(take_states(states, stream(seed, "fit").choice(len(states), 100, replace=False)), seed)

    jobs: list[tuple[tuple[Any, ...], Callable[[], Floats]]] = []
    for alpha, rank, seed in product(ALPHAS, RANKS, range(seeds)):
        jobs.append(((alpha, rank), partial(sticks, alpha, rank, seed)))
    for rank, seed in product(NEAR, range(NEAR_SEEDS)):
        jobs.append(((1, f"{NEAR[0]}..{NEAR[-1]}"), partial(sticks, 1, rank, seed)))
    jobs += [(("uniform",), partial(uniform, seed)) for seed in range(2 * seeds)]
    found: dict[tuple[Any, ...], list[Floats]] = {}
    for (where, _), value in zip(jobs, pooled([job for _, job in jobs]), strict=True):
        found.setdefault(where, []).append(value)
    return {where: np.mean(value, axis=0) for where, value in found.items()}


def state_rows(real: dict[tuple[Any, ...], Floats], ours: dict[tuple[Any, ...], Floats], semantics: str) -> list[Row]:
    """StatMC-R, InterMC-R and StatMC-T of samples; ours against real."""
    rows = []
    for where, value in real.items():
        # alpha = 1 from rank 350 is two or three states: which ones these are is luck. The released order has an unlucky
        # one there (see the documentation), so that the mean over start ranks near 350 is held instead.
        held = (semantics, where) != ("released", (1, 350))
        name = f"{semantics} " + (f"alpha={where[0]} rank {where[1]}" if len(where) == 2 else "uniform")
        for column, (metric, limit) in enumerate((("StatMC-R", 0.05), ("StatMC-T", 0.5), ("InterMC-R", 0.05))):
            pair = float(value[column]), float(ours[where][column])
            rows.append(Row(f"{metric} {name}", *pair, limit, metric == "StatMC-T", held))
    return rows


@dataclass(frozen=True, slots=True)
class Goal:
    """The real base, and its measured values."""

    devices: DeviceTable
    states: StateTable
    device_values: dict[str, float]
    values: dict[Semantics, dict[tuple[Any, ...], Floats]]


def real_goal(seeds: int = SEEDS) -> Goal:
    devices = load_devices(f"flhetbench:{DATA}/device/base_union_168devices.json")
    states = load_states(f"flhetbench:{DATA}/state/cached_timers.json")
    own = device_values(devices)
    return Goal(devices, states, own, {how: state_values(states, devices, how, seeds) for how in ("released", "paper")})


def device_goodness(goal: Goal, devices: DeviceTable) -> Iterator[Row]:
    """Every comparison of devices."""
    return device_rows(goal.device_values, device_values(devices))


def state_goodness(goal: Goal, devices: DeviceTable, states: StateTable) -> Iterator[Row]:
    """Every comparison of states, the quick ones first; the devices go into InterMC."""
    yield from basics(goal.states, states)
    for semantics, values in goal.values.items():
        yield from state_rows(values, state_values(states, devices, semantics, SEEDS), semantics)
