"""Rosters: who could be asked, with the columns that a selector wants to see before it picks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedfleet.core.cost import scale_cost
from fedfleet.core.errors import BadInput, suggest_name
from fedfleet.core.parts import Plan
from fedfleet.core.records import Assignments, Cost, Floats, Ints, Roster, whole_work
from fedfleet.core.sources import World
from fedfleet.core.stages import stages_of, total
from fedfleet.core.task_cost import cost_of, steps_of
from fedfleet.engine.state import RunState, in_order_of_arrival

# What a roster can hold: by name, a function of (plan, world, state, clients, samples).
Column = Callable[[Plan, World, RunState, Ints, Ints], Floats]


def roster_of(plan: Plan, world: World, state: RunState, clients: Ints) -> Roster:
    """These clients as candidates, at the time and in the round of a state."""
    samples = world.data.sizes(state.book.round)[clients]
    stats = {name: COLUMNS[name](plan, world, state, clients, samples) for name in plan.choose.sees}
    return Roster(clients, world.keys[clients], samples, stats)


def check_sees(plan: Plan) -> None:
    """Refuse a selector that wants to see what nobody can show it."""
    for name in plan.choose.sees:
        if name not in COLUMNS:
            raise BadInput(
                f"selector {plan.choose.name!r} wants to see {name!r} of clients{suggest_name(name, COLUMNS)}"
            )


def expected_cost(plan: Plan, state: RunState, clients: Ints, samples: Ints) -> Cost:
    """What the whole work would cost these clients with the newest model."""
    return scale_cost(cost_of(plan.algorithm, state.server, whole_work(clients), samples), plan.byte_scale, plan.charge)


def expected_seconds(world: World, state: RunState, clients: Ints, cost: Cost) -> Floats:
    """How long such work would take on these devices now, without the time in which they are not available."""
    trips = np.full(len(clients), state.next_task)
    return world.devices.seconds(clients, cost, state.book.now, trips)


def _compute_seconds(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    cost, none = expected_cost(plan, state, clients, samples), np.zeros(len(clients))
    return expected_seconds(world, state, clients, Cost(cost.samples, none, none, cost.batches))


def _transfer_seconds(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    cost, none = expected_cost(plan, state, clients, samples), np.zeros(len(clients))
    return expected_seconds(world, state, clients, Cost(none, cost.bytes_down, cost.bytes_up))


def _upload_seconds(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    cost, none = expected_cost(plan, state, clients, samples), np.zeros(len(clients))
    return expected_seconds(world, state, clients, Cost(none, none, cost.bytes_up))


def _latency_seconds(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    del plan, samples
    none = np.zeros(len(clients))
    return expected_seconds(world, state, clients, Cost(none, none, none))


def _joules(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    """What the whole work would draw from these devices: infinite for those that cannot do it, NaN if nobody knows."""
    cost, starts = expected_cost(plan, state, clients, samples), np.full(len(clients), state.book.now)
    stages = stages_of(world.devices, clients, cost, state.book.now, np.full(len(clients), state.next_task))
    able = np.isfinite(total(stages))
    busy = {name: np.where(able, took, 0.0) for name, took in stages.items()}
    result = {} if world.energy is None else world.energy.charges(clients, busy, starts)
    return np.where(able, result.get("joules", np.full(len(clients), np.nan)), np.inf)


def _step_seconds(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    n = len(clients)
    one = Assignments(clients, np.ones(n, np.int64), np.ones(n))
    cost, none = cost_of(plan.algorithm, state.server, one, samples), np.zeros(n)
    return expected_seconds(world, state, clients, Cost(cost.samples, none, none, cost.batches))


def _batch_seconds(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    del plan, samples
    none = np.zeros(len(clients))
    return expected_seconds(world, state, clients, Cost(none, none, none, np.ones(len(clients))))


def _steps(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    del world, state
    return steps_of(plan.algorithm, clients, samples)


def _user(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    del plan, state, samples
    return np.full(len(clients), -1.0) if world.users is None else world.users.user_of[clients].astype(np.float64)


def _user_tasks(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    del plan, samples
    if world.users is None or not state.running:
        return np.zeros(len(clients))
    user_of = world.users.user_of
    busy = np.array([wave.assignments.clients[task - wave.first] for task, wave in state.running.items()], np.int64)
    return np.bincount(user_of[busy], minlength=len(world.users))[user_of[clients]].astype(np.float64)


def _ended_tasks(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    del world, samples
    endings = [e for chain in (state.ended, state.gathering) for e in in_order_of_arrival(chain)]
    clients_of_tasks = np.array([e.wave.assignments.clients[e.task - e.wave.first] for e in endings], np.int64)
    return np.bincount(clients_of_tasks, minlength=plan.clients)[clients].astype(np.float64)


def _time(plan: Plan, world: World, state: RunState, clients: Ints, samples: Ints) -> Floats:
    del plan, world, samples
    return np.full(len(clients), state.book.now)


COLUMNS: dict[str, Column] = {
    "compute_seconds": _compute_seconds,
    "transfer_seconds": _transfer_seconds,
    "upload_seconds": _upload_seconds,
    "latency_seconds": _latency_seconds,
    "joules": _joules,
    "step_seconds": _step_seconds,
    "batch_seconds": _batch_seconds,
    "steps": _steps,
    "user": _user,
    "user_tasks": _user_tasks,
    "untold": _ended_tasks,
    "time": _time,
}
