"""Nested plans: an algorithm whose clients are edges, each with devices of its own that follow the algorithm inside.

What an edge decides and how long it takes is arithmetic and lies here; carrying it out is an executor's affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedfleet.core.cost import TRAINING_PASSES, cost_of, scale_cost
from fedfleet.core.edges import MAX_SYNCS, Abilities, EdgeFleet, EdgeRule, NestedPass, Turn, Visit
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Algorithm, Job
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Assignments, Cost, Floats, Ints, ServerState, Settings, Slots
from fedfleet.core.stages import STAGES, total

EDGE = "edge"  # the slot of an edge's memory
SLOTS = "slot"  # in an edge's memory: on which of its devices each row of its shard lies


def nest_algorithm(algorithm: Algorithm, rule: EdgeRule, fleet: EdgeFleet) -> Algorithm:
    """The algorithm one layer up: its clients are edges, whose devices do what its clients did.

    An edge's price is known when its turn is planned, and then its devices train at once: simulations run eagerly.
    """
    # Overrides may change the halves of some devices.
    passes = (algorithm.local(device, NO_SETTINGS) for device in range(len(fleet.keys)))
    halves, name = [half for half in passes if isinstance(half, LocalPass)], repr(algorithm.name)
    refusals = (
        (not algorithm.fold.streams, f"the fold of {name} collects whole reports, but edges forward sums; use the mean or "
         "norm_bound as algorithm.fold, or remove [edge]"),
        (algorithm.private is not None, "the report of an edge has the weight of all its devices, so noise cannot hide it; leave "
         "algorithm.private out, or remove [edge]"),
        (algorithm.accept is not None, f"{name} decodes what devices send, which edges cannot do yet; use another algorithm"),
        (any(half.remembers() for half in halves) or algorithm.personal is not None,
         f"{name} keeps something on every device, which edges cannot do yet; use another algorithm"),
        (algorithm.tune is not None, f"{name} lets every device tune the model before evaluation, which edges cannot do yet; leave "
         "fine-tuning out, or remove [edge]"),
        (any(half.up is not None or half.down is not None for half in halves), "up and down compress what a device and the server "
         "exchange, but edges forward exact sums that no codec can compress; leave up and down out of [algorithm], or remove "
         "[edge]"),
        (algorithm.fold.ages, f"{name} weighs reports by their staleness, which the sums of edges do not contain; use another "
         "algorithm"),
    )  # fmt: skip
    for refused, why in refusals:
        if refused:
            raise BadInput(f"edge.use = {rule.name!r}: {why}")
    inside = NestedPass(algorithm, rule, fleet)

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        one = cost_of(algorithm, server, assignments, samples)  # edge and server exchange one model, as client and server do
        return Cost(samples.astype(np.float64), one.bytes_down, one.bytes_up)

    def local(client: int, settings: Settings) -> NestedPass:
        del client, settings
        return inside

    return replace(algorithm, name=rule.name, local=local, cost=cost, priced_by_value=True)


def make_visits(jobs: Sequence[Job]) -> list[Visit]:
    """What the edges of a wave know before they plan."""
    result: list[Visit] = []
    for job in jobs:
        assert isinstance(job.local, NestedPass)
        fleet = job.local.fleet
        devices = fleet.users.devices_of(job.client)
        memory = job.memory.get(EDGE, {})
        slots = memory[SLOTS] if SLOTS in memory else fleet.first_slots(job.client)
        if len(slots) != len(job.rows):
            raise RunFailed(
                f"edge {job.client}: the task asks for {len(job.rows)} of {len(slots)} samples, "
                "but edges train on all that they hold"
            )
        rows = tuple(job.rows[slots == k] for k in range(len(devices)))
        abilities = fleet.abilities(devices, job.time, job.task)
        result.append(Visit(job.client, job.task, job.round, job.seed, devices, fleet.keys[devices], abilities, rows, memory))
    return result


def check_turn(visit: Visit, turn: Turn) -> None:
    """A turn must keep every sample on exactly one device, and must name what exists."""
    before, after = np.sort(np.concatenate(visit.rows)), np.sort(np.concatenate(turn.rows))
    if len(turn.rows) != len(visit.devices) or not np.array_equal(before, after):
        raise RunFailed(f"edge {visit.edge}: its rule lost or duplicated samples when it moved them")
    if not 0 < len(turn.syncs) <= MAX_SYNCS:
        raise RunFailed(f"edge {visit.edge}: a turn must have 1 to {MAX_SYNCS} averages, not {len(turn.syncs)}")
    for sync in turn.syncs:
        odd = len(np.unique(sync.slots)) != len(sync.slots) or not np.isin(sync.slots, range(len(visit.devices))).all()
        if odd or len(sync.rows) != len(sync.slots):
            raise RunFailed(f"edge {visit.edge}: an average of its rule names a device twice, or one that the edge does not have")


def turn_cost(job: Job, visit: Visit, turn: Turn) -> dict[str, float]:
    """What a turn costs: the seconds of its stages, which follow each other, and what all of its devices draw meanwhile.

    From the download of the model at the edge to the upload of its average: latency, download and upload are those of the edge's
    link to the server. Every average is a trip of the model to each of its devices and back (averaging) with training in between
    (compute), and takes as long as the device that is last; the exchange of samples comes before the first.
    """
    inside = job.local
    assert isinstance(inside, NestedPass)
    abilities, server, scale = visit.abilities, ServerState(job.offer.params), inside.fleet.byte_scale
    nothing = np.zeros(len(visit.devices))
    exchange = nothing if turn.exchange is None else turn.exchange
    model_cost = scale_cost(cost_of(inside.algorithm, server, _make_assignments(visit.devices[:1], 0), np.array([1])), scale)
    up, down, trip = inside.fleet.backhaul(visit.edge, abilities)
    result: dict[str, float] = {
        "latency": trip, "download": float(model_cost.bytes_down[0]) * 8.0 / down, "planning": turn.planning,
        "exchange": 0.0, "averaging": 0.0, "compute": 0.0, "upload": float(model_cost.bytes_up[0]) * 8.0 / up,
    }  # fmt: skip
    # Which device carries the model between edge and server: that with the best link in each direction, half of the trip each.
    carried = {stage: np.zeros(len(abilities.up_bps)) for stage in ("latency", "download", "upload")}
    for stage, speeds in (("download", abilities.down_bps), ("upload", abilities.up_bps)):
        best = int(speeds.argmax())
        carried[stage][best] = result[stage]
        carried["latency"][best] += 0.5 * trip
    energy = _energy_use(job, visit, carried)
    for sync in turn.syncs:
        assignments = _make_assignments(visit.devices[sync.slots], sync.steps)
        sizes = np.array([len(rows) for rows in sync.rows], np.int64)
        cost = scale_cost(cost_of(inside.algorithm, server, assignments, sizes), scale)
        busy = {"exchange": exchange}
        for stage, seconds in device_stages(cost, abilities, sync.slots).items():
            busy[stage] = nothing.copy()
            busy[stage][sync.slots] = seconds
        # The device that is waited for; among equals that of the smallest key, whatever their order.
        seconds = total(busy)
        last = min(np.flatnonzero(seconds == seconds.max()).tolist(), key=visit.keys.__getitem__)
        averaging = busy["latency"] + busy["download"] + busy["upload"]
        result["exchange"] += float(exchange[last])
        result["averaging"] += float(averaging[last])
        result["compute"] += float(busy["compute"][last])
        for name, value in _energy_use(job, visit, busy).items():
            energy[name] = energy.get(name, 0.0) + value
        exchange = nothing
    return {**result, **energy}


def turn_seconds(spent: Mapping[str, float]) -> float:
    """How long a turn takes: the sum of its stages, in their order."""
    return float(total({stage: np.array([spent[stage]]) for stage in STAGES if stage in spent})[0])


def device_stages(cost: Cost, abilities: Abilities, slots: Ints) -> dict[str, Floats]:
    """Model to the device, training, model back: what the device's own source would say of such a task."""
    compute = TRAINING_PASSES * cost.samples * abilities.seconds_per_sample[slots]
    if cost.batches is not None:
        compute = compute + abilities.batch_seconds()[slots] * cost.batches
    down, up = cost.bytes_down * 8.0 / abilities.down_bps[slots], cost.bytes_up * 8.0 / abilities.up_bps[slots]
    return {"latency": abilities.latencies()[slots], "download": down, "compute": compute, "upload": up}


def _energy_use(job: Job, visit: Visit, busy: Mapping[str, Floats]) -> dict[str, float]:
    """What seconds by stage draw from the batteries of an edge's devices, all together."""
    assert isinstance(job.local, NestedPass)
    draws = job.local.fleet.energy_draws
    return {} if draws is None else dict(draws(visit.devices, busy, job.time))


def memory_after(job: Job, turn: Turn, seconds: float) -> Slots:
    """What an edge remembers of its turn: where each row lies, how long it took, and what its rule wants to keep."""
    slots = np.empty(len(job.rows), np.int64)
    for k, rows in enumerate(turn.rows):
        slots[np.isin(job.rows, rows)] = k
    return {EDGE: {**turn.memory, SLOTS: slots, "seconds": np.array([seconds])}}


def turn_stats(visit: Visit, turn: Turn, seconds: float) -> Mapping[str, float]:
    """What people may want to know of a turn."""
    moved = sum(int((~np.isin(after, before)).sum()) for before, after in zip(visit.rows, turn.rows, strict=True))
    return {**turn.stats, "edge_seconds": seconds, "planning_seconds": turn.planning, "moved": float(moved)}


def _make_assignments(devices: Ints, steps: int) -> Assignments:
    return Assignments(devices, np.full(len(devices), steps, np.int64), np.ones(len(devices)))
