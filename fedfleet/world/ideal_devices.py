"""Differences between devices taken away: everyone has the link, or the processor, of an ideal device."""

from __future__ import annotations

import numpy as np

from fedfleet.core.records import Cost, Floats, Ints, Keys
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import StagedSeconds, StageSeconds, best_devices, source_from_stages, stages_of
from fedfleet.world.devices import BATCH, TRANSFER, DeviceRecipe

LINKS, COMPUTE = "links", "compute"
# What goes with the link, and what with the processor; stages of an edge's own belong to neither.
_STAGES = {LINKS: ("latency", "download", "upload"), COMPUTE: ("compute",)}
_TRIPS = 16  # links vary from trip to trip


def equalled(devices: DeviceRecipe, *, links: bool = False, compute: bool = False) -> DeviceRecipe:
    """Everyone has the fastest link of these devices (`links`), or their fastest processor (`compute`), or both.

    The reference is an ideal device, not the median one: removing what slows a fleet down cannot make anyone slower on average.
    Latency goes with the link. What varies from trip to trip still does, by each client's own draws, so that nothing changes, to
    the last bit, if all devices are alike. Kinds and memory stay, and whoever cannot do the work still cannot.
    """
    wanted = frozenset(name for name, on in ((LINKS, links), (COMPUTE, compute)) if on)

    def recipe(keys: Keys, seed: int) -> DeviceSource:
        return equal_devices(devices(keys, seed), keys, wanted)

    return recipe


def equal_devices(inner: DeviceSource, keys: Keys, wanted: frozenset[str]) -> DeviceSource:
    """These devices with the ideal one's link, processor, both or neither."""
    if not wanted or (not isinstance(inner.seconds, StagedSeconds) and not wanted & differences(inner, keys)):
        return inner  # stages that are derived add up to the seconds only nearly
    ideal = ideal_devices(inner, keys)
    replaced = [stage for name in sorted(wanted) for stage in _STAGES[name]]

    def stages(clients: Ints, cost: Cost, start: float, tasks: Ints) -> StageSeconds:
        own = stages_of(inner, clients, cost, start, tasks)
        better = stages_of(ideal, clients, cost, start, tasks)
        return {
            name: np.where(np.isfinite(took), better[name], took) if name in replaced and name in better else took
            for name, took in own.items()
        }

    return source_from_stages(stages, inner.kinds, inner.memory_mb, best_devices(inner))


def differences(devices: DeviceSource, keys: Keys) -> frozenset[str]:
    """In what the devices of a fleet differ from the ideal one, as trips show: links, compute, both or neither."""
    ideal, n = ideal_devices(devices, keys), len(keys)
    everyone, result = np.arange(n), set[str]()
    for trip in range(_TRIPS):
        own, better = (stages_of(d, everyone, _unit_cost(n), 0.0, np.full(n, trip)) for d in (devices, ideal))
        for name, kept in _STAGES.items():
            # Are these equal wherever the work can be done at all?
            pairs = [(own[stage], better[stage]) for stage in kept if stage in own and stage in better]
            result |= {name for a, b in pairs if not np.all((a == b) | ~np.isfinite(a))}
    return frozenset(result)


def ideal_devices(devices: DeviceSource, keys: Keys) -> DeviceSource:
    """The same clients with the fleet's fastest link and processor: said by the source, or measured as means over some trips."""
    best = best_devices(devices)
    if best is not None:
        return best()
    n = len(keys)
    means = {name: np.zeros(n) for name in _STAGES}
    for trip in range(_TRIPS):
        took = stages_of(devices, np.arange(n), _unit_cost(n), 0.0, np.full(n, trip))
        for name, kept in _STAGES.items():
            means[name] += sum((took[stage] for stage in kept if stage in took), np.zeros(n))
    chosen = {name: int(np.lexsort((keys, seconds))[0]) for name, seconds in means.items()}

    def stages(clients: Ints, cost: Cost, start: float, tasks: Ints) -> StageSeconds:
        result: dict[str, Floats] = {}
        for name, kept in _STAGES.items():
            as_one = stages_of(devices, np.full(len(clients), chosen[name]), cost, start, tasks)
            result |= {stage: took for stage, took in as_one.items() if stage in kept}
        return result

    return source_from_stages(stages, devices.kinds, devices.memory_mb)


def _unit_cost(n: int) -> Cost:
    ones = np.ones(n)
    return Cost(ones * BATCH, ones * TRANSFER, ones * TRANSFER, ones)
