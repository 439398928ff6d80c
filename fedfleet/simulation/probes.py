"""Probes in a simulation: clients are asked for one number before they are picked, which takes time and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedfleet.core.commands import Probe
from fedfleet.core.cost import TRAINING_PASSES
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Probed
from fedfleet.core.parts import Executor, Plan
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Bools, Cost, Floats
from fedfleet.core.sources import World
from fedfleet.core.stages import STAGES, fraction_done, stages_after, stages_of, total
from fedfleet.engine.state import RunState
from fedfleet.executors.gather import probe_losses
from fedfleet.simulation.rosters import expected_cost, expected_seconds
from fedfleet.simulation.trips import ready_seconds
from fedfleet.store.client_memory import ClientMemory

ANSWER_BYTES = 8.0  # one number


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """When a probe is over, who has answered by then, and what it cost, as in TasksSpent."""

    ends: float
    answered: Bools
    spent: Mapping[str, Floats]


def probe_outcome(plan: Plan, world: World, state: RunState, command: Probe) -> ProbeOutcome:
    """How a probe goes: clients fetch the model, try it on their data (`loss`) or train one batch (`seconds`), and answer.

    It is over when the last one answered, or when its time is up. Faults leave probes alone.
    """
    n = len(command.clients)
    if world.free_probes:
        return ProbeOutcome(max(command.time, state.book.now), np.ones(n, np.bool_), {})
    sizes = world.data.sizes(command.round)[command.clients]
    whole_cost = expected_cost(plan, state._replace(server=command.server), command.clients, sizes)
    if command.stat == "loss":  # trying a sample is the forward pass alone, a third of training it
        samples = sizes / TRAINING_PASSES
    else:  # one batch; everything where an opaque pass does not say how large that is
        halves = [plan.algorithm.local(client, NO_SETTINGS) for client in command.clients.tolist()]
        samples = np.minimum([h.batches.size if isinstance(h, LocalPass) else np.inf for h in halves], sizes)
    cost = Cost(np.asarray(samples, np.float64), whole_cost.bytes_down, np.full(n, ANSWER_BYTES))
    trips = np.full(n, state.next_task)
    stages = stages_of(world.devices, command.clients, cost, command.time, trips)
    seconds = total(stages)
    able = np.isfinite(seconds)
    ends = np.full(n, np.inf)
    if able.any():
        ends[able] = world.states.finish(command.clients[able], command.time, seconds[able])
    limit = command.time + command.within
    answered = able & (ends <= limit)
    last = limit if not answered.all() and limit < np.inf else float(ends[answered].max(initial=command.time))
    worked_seconds = np.where(answered, seconds, 0.0)
    cut = np.flatnonzero(able & ~answered)  # they worked for it until its time was up
    if len(cut):
        stop = np.full(len(cut), limit)
        worked_seconds[cut] = np.minimum(seconds[cut], ready_seconds(world.states, command.clients[cut], command.time, stop))
    tried_stages = {name: np.where(able, took, 0.0) for name, took in stages.items()}
    spent = stages_after(tried_stages, worked_seconds)
    spent |= {
        "bytes_down": np.where(able, cost.bytes_down * fraction_done(tried_stages, "download", worked_seconds), 0.0),
        "bytes_up": np.where(answered, cost.bytes_up, cost.bytes_up * able * fraction_done(tried_stages, "upload", worked_seconds)),
    }
    if world.energy is not None:
        starts = np.full(n, command.time)
        spent |= world.energy.charges(command.clients, {s: spent[s] for s in STAGES if s in spent}, starts)
    return ProbeOutcome(max(last, state.book.now), answered, {name: values for name, values in spent.items() if values.any()})


def probe_answer(
    plan: Plan, world: World, state: RunState, execute: Executor, memory: ClientMemory, command: Probe, time: float
) -> Probed:
    """What the clients of a probe say."""
    outcome = probe_outcome(plan, world, state, command)
    match command.stat:
        case "loss":
            values = probe_losses(plan, world, execute, memory, command, command.round)
        case "seconds":
            sizes = world.data.sizes(command.round)[command.clients]
            cost = expected_cost(plan, state, command.clients, sizes)
            values = expected_seconds(world, state, command.clients, cost)
        case other:
            raise RunFailed(f"selector {plan.choose.name!r} probes for {other!r}; clients can answer loss or seconds")
    return Probed(time, command.stat, command.clients, np.where(outcome.answered, values, np.nan), outcome.spent)
