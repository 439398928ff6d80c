"""Looking for candidates in a world: when enough clients are reachable, and who they are.

The moment follows from the state and the world alone, however often and from wherever it is looked for: a run that is taken
up again finds the same one, and so does an audit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedfleet.core.cost import cost_of, scale_cost, steps_of
from fedfleet.core.errors import BadInput, error_context, suggest_name
from fedfleet.core.parts import Plan
from fedfleet.core.passes import NO_SETTINGS, remembers
from fedfleet.core.quorum import earliest_by_polling
from fedfleet.core.records import FOLDED, Assignments, Bools, Cost, Floats, Ints, Roster, whole_work
from fedfleet.core.sources import World
from fedfleet.core.stages import stages_of, total
from fedfleet.engine.candidates import clients_asked_this_round
from fedfleet.engine.state import RunState, in_order_of_arrival

# States that do not say when enough clients can be reached are looked at whenever a multiple of these seconds has passed.
LOOK_SECONDS = 20.0


class AwaitedMoment(NamedTuple):
    """A moment that was looked for: what of the state it depends on (None: it has come), and the number of its entry in the
    queue, which grows from search to search."""

    state: tuple[int, int, bool, int] | None = None
    number: int = 0


def moment_inputs(state: RunState) -> tuple[int, int, bool, int]:
    """What decides when enough clients are there. While an ask is out no task is sent, so that how many run tells which."""
    return len(state.running), state.book.round, state.others, state.at_least


def unavailable_clients(plan: Plan, state: RunState, busy: Bools) -> Bools:
    """Who cannot be asked: those at work, and those whose report waits for its commit if it changes what they remember.

    A second task would begin with a memory without the first one's, and only the later of the two would stand: a client's control
    variate would lack what the server has counted, and what a codec lost would be sent twice.
    """
    endings = (*in_order_of_arrival(state.ended), *in_order_of_arrival(state.gathering))
    reporters = {int(e.wave.assignments.clients[e.task - e.wave.first]) for e in endings if e.fate == FOLDED}
    waiting = [client for client in reporters if remembers(plan.algorithm.local(client, NO_SETTINGS))]
    if not waiting:
        return busy
    unavailable = busy.copy()
    unavailable[waiting] = True
    return unavailable


def earliest_moment(plan: Plan, world: World, state: RunState, busy: Bools) -> float:
    """The first moment from now on at which as many clients as the ask wants are reachable and free; infinite if there is none
    before the run's horizon. Clients that the selector never asks do not count."""
    earliest = world.states.earliest
    free = ~unavailable_clients(plan, state, busy) & plan.choose.may_ask(plan.clients)
    if state.others:
        free[clients_asked_this_round(state)] = False
    now = state.book.now
    with error_context(f"the world, asked at time {now} when {state.at_least} clients can be reached,"):
        if earliest is None:
            # Never between two looks: a run that is resumed there would see other moments.
            earliest, now = earliest_by_polling(world.states.online, LOOK_SECONDS), math.ceil(now / LOOK_SECONDS) * LOOK_SECONDS
        return float(earliest(free, state.at_least, now, plan.stop.virtual_seconds))


def roster_of(plan: Plan, world: World, state: RunState, clients: Ints) -> Roster:
    """These clients as candidates, at the time and in the round of a state."""
    samples = world.data.sizes(state.book.round)[clients]
    view = _View(plan, world, state, clients, samples)
    stats = {name: COLUMNS[name](view) for name in plan.choose.sees}
    return Roster(clients, world.keys[clients], samples, stats)


def check_sees(plan: Plan) -> None:
    """Refuse a selector that wants to see a column that no runtime has."""
    for name in plan.choose.sees:
        if name not in COLUMNS:
            raise BadInput(
                f"selector {plan.choose.name!r} asks for an unknown column {name!r} of clients{suggest_name(name, COLUMNS)}"
            )


def expected_cost(plan: Plan, state: RunState, clients: Ints, samples: Ints) -> Cost:
    """What the whole work would cost these clients with the newest model."""
    return scale_cost(cost_of(plan.algorithm, state.server, whole_work(clients), samples), plan.byte_scale, plan.charge)


def expected_seconds(world: World, state: RunState, clients: Ints, cost: Cost) -> Floats:
    """How long such work would take on these devices now, without the time in which they are not available."""
    trips = np.full(len(clients), state.next_task)
    return world.devices.seconds(clients, cost, state.book.now, trips)


class _View(NamedTuple):
    """Clients of which a selector wants to see columns, and what these depend on."""

    plan: Plan
    world: World
    state: RunState
    clients: Ints
    samples: Ints

    def whole_cost(self) -> Cost:
        return expected_cost(self.plan, self.state, self.clients, self.samples)

    def seconds(self, samples: Any = 0.0, down: Any = 0.0, up: Any = 0.0, batches: Floats | None = None) -> Floats:
        """How long work of this size would take."""
        none = np.zeros(len(self.clients))
        return expected_seconds(self.world, self.state, self.clients, Cost(none + samples, none + down, none + up, batches))


def _compute_seconds(view: _View) -> Floats:
    cost = view.whole_cost()
    return view.seconds(cost.samples, batches=cost.batches)


def _transfer_seconds(view: _View) -> Floats:
    cost = view.whole_cost()
    return view.seconds(down=cost.bytes_down, up=cost.bytes_up)


def _step_seconds(view: _View) -> Floats:
    one = Assignments(view.clients, np.ones(len(view.clients), np.int64), np.ones(len(view.clients)))
    cost = cost_of(view.plan.algorithm, view.state.server, one, view.samples)
    return view.seconds(cost.samples, batches=cost.batches)


def _joules(view: _View) -> Floats:
    """What the whole work would draw from these devices: infinite for those that cannot do it, NaN if unknown."""
    clients, world, now = view.clients, view.world, view.state.book.now
    stages = stages_of(world.devices, clients, view.whole_cost(), now, np.full(len(clients), view.state.next_task))
    able = np.isfinite(total(stages))
    busy = {name: np.where(able, took, 0.0) for name, took in stages.items()}
    result = {} if world.energy is None else world.energy.charges(clients, busy, np.full(len(clients), now))
    return np.where(able, result.get("joules", np.full(len(clients), np.nan)), np.inf)


def _user_tasks(view: _View) -> Floats:
    users, running = view.world.users, view.state.running
    if users is None or not running:
        return np.zeros(len(view.clients))
    busy = np.array([wave.assignments.clients[task - wave.first] for task, wave in running.items()], np.int64)
    return np.bincount(users.user_of[busy], minlength=len(users))[users.user_of[view.clients]].astype(np.float64)


def _ended_tasks(view: _View) -> Floats:
    endings = [e for chain in (view.state.ended, view.state.gathering) for e in in_order_of_arrival(chain)]
    clients_of_tasks = np.array([e.wave.assignments.clients[e.task - e.wave.first] for e in endings], np.int64)
    return np.bincount(clients_of_tasks, minlength=view.plan.clients)[view.clients].astype(np.float64)


def _user(view: _View) -> Floats:
    users = view.world.users
    return np.full(len(view.clients), -1.0) if users is None else users.user_of[view.clients].astype(np.float64)


# What a roster can hold, by name.
COLUMNS: dict[str, Callable[[_View], Floats]] = {
    "compute_seconds": _compute_seconds,
    "transfer_seconds": _transfer_seconds,
    "upload_seconds": lambda view: view.seconds(up=view.whole_cost().bytes_up),
    "latency_seconds": lambda view: view.seconds(),
    "joules": _joules,
    "step_seconds": _step_seconds,
    "batch_seconds": lambda view: view.seconds(batches=np.ones(len(view.clients))),
    "steps": lambda view: steps_of(view.plan.algorithm, view.clients, view.samples),
    "user": _user,
    "user_tasks": _user_tasks,
    "untold": _ended_tasks,
    "time": lambda view: np.full(len(view.clients), view.state.book.now),
}
