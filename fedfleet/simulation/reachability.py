"""Waiting for clients: when, in virtual time, an ask that wants at least so many can be answered.

The moment follows from the state and the world alone, however often and from wherever it is looked for: a run that is taken
up again finds the same one, and so does whoever audits it.
"""

from __future__ import annotations

from typing import NamedTuple

from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import RunFailed, error_context
from fedfleet.core.parts import Pass, Plan
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import FOLDED, Bools
from fedfleet.core.sources import World
from fedfleet.engine.candidates import clients_asked_this_round
from fedfleet.engine.state import RunState, in_order_of_arrival


class AwaitedMoment(NamedTuple):
    """A moment that was looked for: what of the state it depends on (None: no ask waits), and the number of its entry in the
    queue, which counts how often a moment was looked for."""

    state: tuple[int, int, bool, int] | None
    number: int


NO_MOMENT = AwaitedMoment(None, 0)


def moment_inputs(state: RunState) -> tuple[int, int, bool, int]:
    """What decides when enough clients are there. While an ask is out no task is sent, so that how many run tells which."""
    return len(state.running), state.book.round, state.others, state.at_least


def unavailable_clients(plan: Plan, state: RunState, busy: Bools) -> Bools:
    """Who cannot be asked: those at work, and those whose report waits for its commit if it changes what they remember.

    A second task would begin with a memory without the first one's, and only the later of the two would stand: a client's
    control variate would lack what the server has counted, and what a codec lost would be sent twice.
    """
    endings = (*in_order_of_arrival(state.ended), *in_order_of_arrival(state.gathering))
    reporters = {int(e.wave.assignments.clients[e.task - e.wave.first]) for e in endings if e.fate == FOLDED}
    waiting = [client for client in reporters if remembers(plan.algorithm.local(client, NO_SETTINGS))]
    if not waiting:
        return busy
    unavailable = busy.copy()
    unavailable[waiting] = True
    return unavailable


def remembers(half: Pass) -> bool:
    """Does a client with this half keep anything for the next time?"""
    return isinstance(half, NestedPass) or (isinstance(half, LocalPass) and half.remembers())


def earliest_moment(plan: Plan, world: World, state: RunState, busy: Bools) -> float:
    """The first moment from now on at which as many clients as the ask wants are reachable and free; infinite if there is none
    before the run's horizon."""
    earliest = world.states.earliest
    if earliest is None:
        raise RunFailed(
            f"policy {plan.pace.name!r} wants at least {state.at_least} clients, but the states of this world do not say when so "
            "many can be reached; give the StateSource an `earliest`, or use a policy that does not wait for clients"
        )
    free = ~unavailable_clients(plan, state, busy)
    if state.others:
        free[clients_asked_this_round(state)] = False
    now = state.book.now
    with error_context(f"the world, asked at time {now} when {state.at_least} clients can be reached,"):
        return float(earliest(free, state.at_least, now, plan.stop.virtual_seconds))
