"""The six metrics and the single-state metric, over seeds, in parallel.

-R metrics (deadline-based): M_R = ln(1 + sum_i min(S_i, S_ideal)) / ln(1 + N S_ideal); higher is easier.
-T metrics (readiness-based): virtual time of `trips` trips over (trips / k) t_break; lower is easier.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import DeviceTable, StateTable
from fedfleet.core.records import Floats, Ints
from fedfleet.core.shared_rows import rows_of_all
from fedfleet.measure.montecarlo import reference_simulation
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.measure.statistics.means import interval95

NAMES = ("DevMC-R", "DevMC-T", "StatMC-R", "StatMC-T", "InterMC-R", "InterMC-T")
_MOST_SEEDS = 10_000
_KERNEL = "fedfleet.measure.montecarlo.kernel"
_SMALL = 50_000  # clients times rounds: the plain loop takes about a microsecond for each, and loading the kernel most of a second
_NO_INTS, _NO_FLOATS, _NO_ROWS = np.zeros(1, np.int64), np.zeros(0), np.zeros(0, np.int32)

Stop = NDArray[np.uint8]  # a simulation looks at it once a round, and ends where it is not 0
_NO_STOP: Stop = np.zeros(1, np.uint8)
Item = TypeVar("Item")
Output = TypeVar("Output")
Simulate = Callable[..., tuple[Ints, float]]


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A metric over seeds: mean, standard deviation with ddof 1 (0 for one seed), wall seconds, and each seed's value."""

    value: float
    sd: float
    seconds: float
    values: Floats

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean over seeds, by Student's t, cut at 0 (no metric is negative); None for one seed."""
        interval = interval95(self.values)
        return None if interval is None else (max(interval[0], 0.0), interval[1])


def load_kernel() -> Simulate:
    """The compiled simulation; says which extra brings numba when it is missing."""
    try:
        module: Any = import_module(_KERNEL)
    except ImportError:
        raise BadInput("the metrics need numba, which is not installed; install fedfleet[train]") from None
    return module.simulate


def simulate(
    settings: Settings,
    devices: DeviceTable | None,
    states: StateTable | None,
    *,
    seed: int,
    t_cost: float,
    by_deadline: bool,
    stop: Stop = _NO_STOP,
) -> tuple[Ints, float]:
    """One simulation: successes per client, virtual time at the end (infinite: no client is ever ready again)."""
    if _is_small(settings, devices, states, by_deadline=by_deadline):
        successes, end = reference_simulation.simulate(settings, devices, states, seed=seed, t_cost=t_cost, by_deadline=by_deadline)
        return np.array(successes, np.int64), end
    return simulate_compiled(settings, devices, states, seed=seed, t_cost=t_cost, by_deadline=by_deadline, stop=stop)


def _is_small(settings: Settings, devices: DeviceTable | None, states: StateTable | None, *, by_deadline: bool) -> bool:
    """Is the plain loop done before the compiled one is loaded (or even compiled, the first time on a machine)? Both give the same
    numbers. How many rounds it takes to count trips is not known beforehand where clients can be away."""
    if _KERNEL in sys.modules or not (by_deadline or states is None):
        return False
    rounds = settings.rounds if by_deadline else settings.trips / settings.k
    return rounds * settings.clients(devices, states) <= _SMALL


def simulate_compiled(
    settings: Settings,
    devices: DeviceTable | None,
    states: StateTable | None,
    *,
    seed: int,
    t_cost: float,
    by_deadline: bool,
    stop: Stop = _NO_STOP,
) -> tuple[Ints, float]:
    """The same by the compiled kernel."""
    n = settings.clients(devices, states)
    d, s = devices, states.traces if states is not None else None
    compute = settings.compute_seconds(1.0) * d.seconds_per_sample if d is not None else _NO_FLOATS
    return load_kernel()(
        np.uint64(seed), settings.k, by_deadline, settings.deadline if by_deadline else math.inf, settings.ready_share,
        settings.rounds, settings.trips, settings.most_empty_rounds(states), settings.t_break, settings.is_released, n,
        d is not None, settings.size_kb, rows_of_all(d.row_index, len(d.ids)) if d else _NO_ROWS,
        d.down if d else _NO_FLOATS, d.down_offsets if d else _NO_INTS,
        d.up if d else _NO_FLOATS, d.up_offsets if d else _NO_INTS, compute,
        s is not None, float(t_cost), rows_of_all(s.row_index, len(s.start)) if s else _NO_ROWS,
        s.start if s else _NO_FLOATS, s.period if s else _NO_FLOATS,
        s.offsets if s else _NO_INTS, s.begins if s else _NO_FLOATS, s.ends if s else _NO_FLOATS,
        s.total if s else _NO_FLOATS, stop,
    )  # fmt: skip


def ratio(settings: Settings, successes: Ints) -> float:
    """M_R: one logarithm of the clipped sum, over that of the ideal."""
    ideal = settings.s_ideal(len(successes))
    clipped = float(np.minimum(successes, ideal).sum())
    return math.log(clipped + 1.0) / math.log(len(successes) * ideal + 1.0)


def parts_of(name: str, devices: DeviceTable | None, states: StateTable | None) -> tuple[DeviceTable | None, StateTable | None]:
    """What a metric looks at: devices alone, states alone, or both."""
    if name.startswith("Dev"):
        return devices, None
    return (None, states) if name.startswith("Stat") else (devices, states)


def available_metrics(devices: DeviceTable | None, states: StateTable | None) -> list[str]:
    """The metrics that can be computed from what is there."""
    needs = {"Dev": devices is not None, "Stat": states is not None, "Inter": devices is not None and states is not None}
    return [name for name in NAMES if needs[name.partition("MC")[0]]]


def one_value(
    name: str, settings: Settings, devices: DeviceTable | None, states: StateTable | None, seed: int, stop: Stop = _NO_STOP
) -> float:
    """A metric for one seed."""
    by_deadline = name.endswith("-R")
    d, s = parts_of(name, devices, states)
    costs = settings.costs(by_deadline=by_deadline) if d is None else np.zeros(1)
    runs = [simulate(settings, d, s, seed=seed, t_cost=c, by_deadline=by_deadline, stop=stop) for c in costs.tolist()]
    if by_deadline:
        return float(np.mean([ratio(settings, successes) for successes, _ in runs]))
    if any(math.isinf(seconds) for _, seconds in runs):
        raise BadInput(
            f"{name}: rounds begin every {settings.t_break:g} s, and no client is ever ready at such a moment "
            f"({settings.most_empty_rounds(s):,} were tried); "
            "give another t_break, or states that are ready for longer"
        )
    scale = settings.trips / settings.k * settings.t_break_asked
    return float(np.mean([seconds for _, seconds in runs])) / scale


def warm_up(settings: Settings, devices: DeviceTable | None, states: StateTable | None, *, by_deadline: bool = True) -> None:
    """Compile, or load what was compiled before, outside of any measured time; nothing where the plain loop will do."""
    if not _is_small(settings, devices, states, by_deadline=by_deadline):
        tiny = Settings(settings.k, 1, 1, settings.deadline, semantics=settings.semantics)
        simulate_compiled(tiny, devices, states, seed=0, t_cost=1.0, by_deadline=True)


def measure(
    name: str,
    settings: Settings,
    devices: DeviceTable | None,
    states: StateTable | None,
    *,
    seeds: int = 3,
    until_se: float | None = None,
    threads: int = 2,
) -> MetricValue:
    """A metric over seeds 0, 1, ..; with `until_se` more seeds are added until the standard error is small enough."""
    if name not in available_metrics(devices, states):
        raise BadInput(f"{name} cannot be measured from these files: DevMC needs devices, StatMC states, InterMC both")
    warm_up(settings, *parts_of(name, devices, states), by_deadline=name.endswith("-R"))
    start = time.perf_counter()
    values: list[float] = []
    # First the seeds that were asked for, then as many again until the standard error is reached.
    batch = range(seeds if until_se is None else max(seeds, 2))
    while batch:
        values += map_in_threads(partial(one_value, name, settings, devices, states), batch, threads)
        n = len(values)
        done = until_se is None or float(np.std(values, ddof=1)) / math.sqrt(n) <= until_se or n >= _MOST_SEEDS
        batch = range(0) if done else range(n, min(2 * n, _MOST_SEEDS))
    seconds = time.perf_counter() - start
    array = np.array(values)
    sd = float(array.std(ddof=1)) if len(values) > 1 else 0.0
    return MetricValue(float(array.mean()), sd, seconds, array)


def map_in_threads(work: Callable[[Item, Stop], Output], items: Iterable[Item], threads: int = 1) -> list[Output]:
    """The work on every item, in order. Never in the main thread: there a long simulation would not hear Ctrl-C."""
    stop = np.zeros(1, np.uint8)
    pool = ThreadPoolExecutor(threads)

    def stoppable(item: Item) -> Output:
        return work(item, stop)

    try:
        return list(pool.map(stoppable, items))
    finally:
        stop[0] = 1  # for those that still run, after an error or an interrupt
        pool.shutdown(cancel_futures=True)


def state_scores(settings: Settings, states: StateTable, *, seeds: int = 1, threads: int = 2) -> Floats:
    """The single-state metric of each row, Eq. (18): min(S_i, S_ideal) / S_ideal, averaged over t_cost (and seeds)."""
    n = settings.clients(None, states)
    warm_up(settings, None, states)
    ideal = settings.s_ideal(n)
    work = [(seed, cost) for seed in range(seeds) for cost in settings.costs(by_deadline=True).tolist()]

    def score(item: tuple[int, float], stop: Stop) -> Floats:
        successes, _ = simulate(settings, None, states, seed=item[0], t_cost=item[1], by_deadline=True, stop=stop)
        return np.minimum(successes, ideal) / ideal

    return np.asarray(np.mean(map_in_threads(score, work, threads), axis=0), np.float64)


def per_state(states: StateTable, scores: Floats) -> dict[str, float]:
    """The mean score of the clients whose states have the same id."""
    names, where = np.unique(states.ids, return_inverse=True)
    where = where if states.traces.row_index is None else where[states.traces.row_index]
    sums = np.bincount(where, weights=scores) / np.bincount(where)
    return {str(name): float(value) for name, value in zip(names, sums, strict=True)}
