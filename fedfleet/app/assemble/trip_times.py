"""How long a task takes the devices of a fleet, and what follows for a policy that does not wait for all: too short a wait, and a
wait that would do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedfleet.core.cost import cost_of, scale_cost
from fedfleet.core.events import Event, ModelCommitted, RoundFailed
from fedfleet.core.parts import Plan
from fedfleet.core.records import Floats, Ints, whole_work
from fedfleet.core.sources import World
from fedfleet.measure.failures import Cause
from fedfleet.measure.run_record import read_record
from fedfleet.measure.statistics.means import scipy_special

_TRIPS = 8  # links vary from trip to trip
_MOST_TRIED, _CLIENTS_AT_ONCE = 1 << 16, 1 << 12  # clients whose trips are tried, and how many at once
_HALF, _MANY = 0.5, 0.9  # shares of trips that sentences speak of
_ROUNDING = 1e-12  # of a probability


def hopeless_trips(plan: Plan, world: World) -> list[str]:
    """Whether no client can report in time, or at all. Times that depend on trained values are not known before the run."""
    if plan.algorithm.priced_by_value:
        return []
    n, patience = plan.clients, plan.pace.patience
    sample = np.arange(n) if n <= _MOST_TRIED else np.linspace(0, n - 1, _MOST_TRIED).astype(np.int64)
    fastest = _fastest_trip(plan, world, sample, patience)
    if fastest == math.inf:
        return ["no device can do this work at all; choose other devices in world.devices, or less work in [algorithm]"]
    if fastest <= patience:
        return _rare_trips(plan, world)
    return [
        f"no client can report within {patience:,.4g} s: of {_TRIPS} trips simulated on each of {len(sample):,} devices the "
        f"fastest takes {fastest:,.4g} s{_usual_trips(plan, world)}; {_longer_wait(plan, world)}, or lower the work in "
        "[algorithm] or world.model_bytes"
    ]


def _rare_trips(plan: Plan, world: World) -> list[str]:
    """Whether so few devices are fast enough for a deadline that most rounds will fail."""
    rules = plan.pace.round_rules
    if rules is None or rules.time_limit == math.inf or rules.max_staleness:
        return []
    trips, need = _trips(plan, world), rules.need(rules.cohort, rules.cohort)
    in_time = float((trips <= rules.time_limit).mean())
    # scipy.stats has it too, but loading that would take half a second of every run.
    if float(scipy_special().bdtr(need - 1, rules.cohort, in_time)) <= _HALF + _ROUNDING:
        return []
    return [
        f"most rounds will fail: {100 * in_time:.2g} % of trips take no more than pace.seconds = {rules.time_limit:,.4g} s, and a "
        f"round needs {need} of {rules.cohort} reports{_usual_trips(plan, world)}; {_longer_wait(plan, world)}, or lower "
        "pace.min_share or the work"
    ]


def late_reports_advice(plan: Plan, world: World, events: Sequence[Event]) -> list[str]:
    """What would do for a run most of whose rounds failed because reports came too late."""
    failed = sum(isinstance(event, RoundFailed) for event in events)
    commits = sum(isinstance(event, ModelCommitted) for event in events)
    if failed <= commits or plan.pace.patience == math.inf or plan.algorithm.priced_by_value:
        return []
    if read_record(events).failures.causes.most_common(1)[0][0] is not Cause.LATE:
        return []
    trips, patience = _trips(plan, world), plan.pace.patience
    if np.quantile(trips, _MANY) <= patience:
        return [
            f"tasks were given up after {patience:,.4g} s because they were interrupted, since nine in ten take no more than "
            f'{np.quantile(trips, _MANY):,.3g} s on a device that stays reachable; wait for reports with pace.use = "readiness", '
            f"or raise pace.{plan.pace.limit}"
        ]
    return [f"tasks were given up after {patience:,.4g} s{_usual_trips(plan, world)}; {_longer_wait(plan, world)}"]


def _usual_trips(plan: Plan, world: World) -> str:
    """How long a task takes, as a part of a sentence."""
    trips = _trips(plan, world)
    half, many = (float(np.quantile(trips, share, method="inverted_cdf")) for share in (_HALF, _MANY))
    if half == math.inf:
        return ", and more than half of the devices cannot do it at all"
    rest = "" if many == math.inf else f", nine in ten no more than {many:,.3g} s"
    return f", half of all trips take no more than {half:,.3g} s{rest}"


def _longer_wait(plan: Plan, world: World) -> str:
    """By how much a policy should wait longer."""
    trips, pace = _trips(plan, world), plan.pace
    enough = next((q for share in (_MANY, _HALF) if (q := float(np.quantile(trips, share, method="inverted_cdf"))) < math.inf), 0.0)
    factor = max(enough / pace.patience, 1.0)
    by_seconds = pace.round_rules is not None and pace.round_rules.time_limit == pace.patience
    to = f"to {_rounded_up(enough):,.3g}" if by_seconds else f"{_rounded_up(factor):.3g} times"
    return f'raise pace.{pace.limit} {to}, or wait as long as it takes with pace.use = "readiness"'


def _rounded_up(value: float) -> float:
    """A number above this one that is easy to say.

    >>> _rounded_up(341.0), _rounded_up(3.02)
    (350.0, 3.1)
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / unit - 1e-9) * unit, 9)


def _trips(plan: Plan, world: World) -> Floats:
    """How long trips with the first model take when nothing interrupts them, on devices spread over the fleet."""
    n = min(plan.clients, _CLIENTS_AT_ONCE)
    sample: Ints = np.linspace(0, plan.clients - 1, n).astype(np.int64)
    server, sizes = plan.algorithm.init(plan.params), world.data.sizes(0)
    cost = scale_cost(cost_of(plan.algorithm, server, whole_work(sample), sizes[sample]), plan.byte_scale, plan.charge)
    return np.concatenate([world.devices.seconds(sample, cost, 0.0, np.full(n, trip)) for trip in range(_TRIPS)])


def _fastest_trip(plan: Plan, world: World, sample: Ints, patience: float) -> float:
    """The seconds of the fastest trip with the first model, or of the first that is fast enough."""
    server, sizes, best = plan.algorithm.init(plan.params), world.data.sizes(0), math.inf
    parts = max(1, len(sample) // _CLIENTS_AT_ONCE)
    for i in range(parts):
        some = sample[i::parts]  # spread over the fleet, so that one fast kind is met early
        cost = scale_cost(cost_of(plan.algorithm, server, whole_work(some), sizes[some]), plan.byte_scale, plan.charge)
        for trip in range(_TRIPS):
            seconds = world.devices.seconds(some, cost, 0.0, np.full(len(some), trip))
            best = min(best, float(seconds.min()))
        if best < math.inf and best <= patience:
            break
    return best
