"""Nested plans: an algorithm whose clients are edges, each with devices of its own that follow the algorithm inside.

What an edge decides and how long it takes is arithmetic and lies here; carrying it out is an executor's affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedfleet.core.charging import cost_of
from fedfleet.core.cost import TRAINING_PASSES, scaled
from fedfleet.core.edges import SYNCS, Abilities, EdgeFleet, EdgeRule, NestedPass, Turn, Visit
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.parts import Algorithm, Job
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Assignments, Cost, Floats, Ints, ServerState, Settings, Slots

EDGE = "edge"  # the slot of an edge's memory
SLOTS = "slot"  # in an edge's memory: on which of its devices each row of its shard lies


def nested(algorithm: Algorithm, rule: EdgeRule, fleet: EdgeFleet) -> Algorithm:
    """The algorithm one layer up: its clients are edges, whose devices do what its clients did.

    An edge's price is known when its turn is planned, and then its devices train at once: simulations run eagerly.
    """
    if not algorithm.fold.streams:
        raise BadInput(
            f"edge.use = {rule.name!r}: the fold of {algorithm.name!r} collects whole reports, and edges forward sums; use the "
            "mean or norm_bound as algorithm.fold, or remove [edge]"
        )
    if algorithm.private is not None:
        raise BadInput(
            f"edge.use = {rule.name!r}: an edge weighs as many devices as it has, so that no noise could cover it; leave "
            "algorithm.private out, or remove [edge]"
        )
    found = (
        algorithm.local(device, NO_SETTINGS) for device in range(len(fleet.keys))
    )  # overrides may change some of them
    halves = [half for half in found if isinstance(half, LocalPass)]
    if algorithm.accept is not None:
        raise BadInput(
            f"edge.use = {rule.name!r}: {algorithm.name!r} decodes what devices send, which edges cannot do yet; "
            "use another algorithm"
        )
    if any(half.remembers() for half in halves) or algorithm.personal is not None:
        raise BadInput(
            f"edge.use = {rule.name!r}: {algorithm.name!r} keeps something on every device, which edges cannot do yet; "
            "use another algorithm"
        )
    if algorithm.tune is not None:
        raise BadInput(
            f"edge.use = {rule.name!r}: {algorithm.name!r} lets every device tune the model before it is judged, which edges "
            "cannot do yet; leave fine-tuning out, or remove [edge]"
        )
    if any(half.up is not None or half.down is not None for half in halves):
        raise BadInput(
            f"edge.use = {rule.name!r}: up and down make small what a device and the server exchange, and edges forward exact sums "
            "that no codec takes; leave up and down out of [algorithm], or remove [edge]"
        )
    if algorithm.fold.ages:
        raise BadInput(
            f"edge.use = {rule.name!r}: {algorithm.name!r} weighs reports by how late they are, which the sums of edges do not "
            "tell; use another algorithm"
        )
    inside = NestedPass(algorithm, rule, fleet)

    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        one = cost_of(algorithm, server, asked, samples)  # edge and server exchange one model, as client and server do
        return Cost(samples.astype(np.float64), one.bytes_down, one.bytes_up)

    def local(client: int, settings: Settings) -> NestedPass:
        del client, settings
        return inside

    return replace(algorithm, name=rule.name, local=local, cost=cost, priced_by_value=True)


def visits_of(jobs: Sequence[Job]) -> list[Visit]:
    """What the edges of a wave know before they plan."""
    found: list[Visit] = []
    for job in jobs:
        assert isinstance(job.local, NestedPass)
        fleet = job.local.fleet
        devices = fleet.users.devices_of(job.client)
        memory = job.memory.get(EDGE, {})
        slots = memory[SLOTS] if SLOTS in memory else fleet.first_slots(job.client)
        if len(slots) != len(job.rows):
            raise RunFailed(
                f"edge {job.client}: {len(job.rows)} samples were asked for of {len(slots)}; edges train on all they hold"
            )
        rows = tuple(job.rows[slots == k] for k in range(len(devices)))
        able = fleet.able(devices, job.time, job.task)
        found.append(Visit(job.client, job.task, job.round, job.seed, devices, fleet.keys[devices], able, rows, memory))
    return found


def check_turn(visit: Visit, turn: Turn) -> None:
    """A turn must keep every sample on exactly one device, and must name what exists."""
    before, after = np.sort(np.concatenate(visit.rows)), np.sort(np.concatenate(turn.rows))
    if len(turn.rows) != len(visit.devices) or not np.array_equal(before, after):
        raise RunFailed(f"edge {visit.edge}: its rule lost or doubled samples while it moved them")
    if not 0 < len(turn.syncs) <= SYNCS:
        raise RunFailed(f"edge {visit.edge}: a turn has 1 to {SYNCS} averages, not {len(turn.syncs)}")
    for sync in turn.syncs:
        odd = len(np.unique(sync.slots)) != len(sync.slots) or not np.isin(sync.slots, range(len(visit.devices))).all()
        if odd or len(sync.rows) != len(sync.slots):
            raise RunFailed(f"edge {visit.edge}: an average of its rule names a device twice, or one that is not there")


def turn_seconds(job: Job, visit: Visit, turn: Turn) -> float:
    """From the download of the model at the edge to the upload of its average: planning, exchange, training, transfers.

    Every average is a trip of the model to each of its devices and back, and the turn itself one to the server and back.
    """
    inside = job.local
    assert isinstance(inside, NestedPass)
    able, server = visit.able, ServerState(job.offer.params)
    exchange = np.zeros(len(visit.devices)) if turn.exchange is None else turn.exchange
    total, waited = turn.planning, exchange
    whole = scaled(
        cost_of(inside.algorithm, server, _asked(visit.devices[:1], 0), np.array([1])), inside.fleet.byte_scale
    )
    for sync in turn.syncs:
        asked = _asked(visit.devices[sync.slots], sync.steps)
        sizes = np.array([len(rows) for rows in sync.rows], np.int64)
        cost = scaled(cost_of(inside.algorithm, server, asked, sizes), inside.fleet.byte_scale)
        busy = waited.copy()
        busy[sync.slots] += device_seconds(cost, able, sync.slots)
        total += float(busy.max(initial=0.0))
        waited = np.zeros(len(visit.devices))
    up, down, trip = inside.fleet.backhaul(visit.edge, able)
    return total + float(whole.bytes_down[0]) * 8.0 / down + float(whole.bytes_up[0]) * 8.0 / up + trip


def device_seconds(cost: Cost, able: Abilities, slots: Ints) -> Floats:
    """Model to the device, training, model back: what the device's own source would say of such a task."""
    moved = cost.bytes_down * 8.0 / able.down_bps[slots] + cost.bytes_up * 8.0 / able.up_bps[slots]
    seconds = moved + TRAINING_PASSES * cost.samples * able.seconds_per_sample[slots] + able.latencies()[slots]
    return seconds if cost.batches is None else seconds + able.batch_seconds()[slots] * cost.batches


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


def _asked(devices: Ints, steps: int) -> Assignments:
    return Assignments(devices, np.full(len(devices), steps, np.int64), np.ones(len(devices)))
