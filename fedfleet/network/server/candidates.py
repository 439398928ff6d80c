"""Devices as the server knows them: who enrols, who is there and idle, and when an ask for candidates is answered.

A call of a device is held, or it was told when to come back. It is present until that moment and some grace are over: a device
that was told so in good time is as good as one whose call is held, and one that stays away is not asked for ever."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from fedfleet.core.events import CandidatesSeen, Event
from fedfleet.core.parts import Plan
from fedfleet.core.records import Bools, Floats, Ints
from fedfleet.core.sources import World
from fedfleet.engine.candidates import clients_asked_this_round
from fedfleet.engine.state import Phase, RunState
from fedfleet.network.operations.logs import Log
from fedfleet.network.protocol import fleet_pb2 as pb
from fedfleet.network.protocol import inside_pb2 as inside
from fedfleet.network.security.enrolment_request import Admission
from fedfleet.network.security.secrets import secret_of, sign_config
from fedfleet.network.server.learned_speeds import LearnedSpeeds, with_learned_speeds
from fedfleet.network.server.options import ServeOptions
from fedfleet.network.server.recovery import ClientState
from fedfleet.network.server.served_plan import ServedRun, foresees
from fedfleet.network.server.turns import Effects, Note, React, Tell
from fedfleet.simulation.rosters import roster_of, unavailable_clients

HOLD_SECONDS = 30.0  # for which a call without work is held at most
GRACE_SECONDS = 10.0  # after which a device that did not come back counts as gone
_LEAST_WARNING_SECONDS = 10.0  # between two warnings of one ask


class Presence:
    """Until when each client is expected: 8 bytes a client."""

    def __init__(self, clients: int, grace: float = GRACE_SECONDS, hold: float = HOLD_SECONDS) -> None:
        self._grace = grace
        self._hold = hold
        self._expected_by = np.full(clients, -math.inf)

    def record_calls(self, clients: Ints, return_seconds: Floats, now: float) -> None:
        """These clients called; `return_seconds`: when each was told to come back, 0 while its call is held."""
        self._expected_by[clients] = now + np.where(return_seconds > 0, return_seconds, self._hold)

    def record_departures(self, clients: Ints) -> None:
        """These hung up or took their leave: they are not asked until they call again."""
        self._expected_by[clients] = -math.inf

    def present(self, now: float) -> Bools:
        """Who is there now."""
        return now <= self._expected_by + self._grace


def available_clients(present: Bools, busy: Bools, members: Bools | None = None) -> Ints:
    """Who could be asked: present, without a task, and a member where membership is limited.

    >>> available_clients(np.array([True, True, False]), np.array([False, True, False]))
    array([0])
    """
    idle = present & ~busy
    return np.flatnonzero(idle if members is None else idle & members)


def missing_devices(
    *, present: int, busy: int, declared: int, at_least: int, asked_at: float, now: float, patience: float
) -> int | None:
    """How many of the declared fleet are missing if an ask is answered now; None: it waits.

    It is answered when the declared fleet is there or busy, or after `patience` with those that are there. `present` are those
    that could be asked: who is busy is not among them. It waits for `at_least` of them, and for one in any case.

    >>> missing_devices(present=7, busy=3, declared=10, at_least=1, asked_at=0.0, now=0.1, patience=60.0)
    0
    >>> missing_devices(present=6, busy=3, declared=10, at_least=1, asked_at=0.0, now=59.9, patience=60.0)
    >>> missing_devices(present=6, busy=3, declared=10, at_least=1, asked_at=0.0, now=60.0, patience=60.0)
    1
    """
    missing = max(0, declared - present - busy)
    waits = present < max(1, at_least) or (missing and now < asked_at + patience)
    return None if waits else missing


def patience_end(*, asked_at: float, now: float, patience: float) -> float | None:
    """The moment at which patience ends; None: it has ended, or never will: then only a call can change the answer.

    >>> patience_end(asked_at=5.0, now=6.0, patience=60.0)
    65.0
    """
    ends = asked_at + patience
    return ends if now < ends < math.inf else None


class Candidates:
    """Presence of devices, which of them have a task, and since when an ask for candidates is out."""

    def __init__(self, plan: Plan, world: World, options: ServeOptions) -> None:
        self._plan, self._world, self._options = plan, world, options
        # Only where the selector foresees: of a large fleet it would be kept for nothing.
        self.speeds = LearnedSpeeds(plan.clients, world.devices) if foresees(plan.choose) else None
        self._presence = Presence(plan.clients, hold=options.hold_seconds)
        self.busy = np.zeros(plan.clients, np.bool_)
        self._asked_at: float | None = None
        # May this state's ask be answered? On an edge, once its server has asked for the average.
        self.ready: Callable[[RunState], bool] = lambda state: True
        # Whether any device has called since this server started: patience begins with the first.
        self._any_called = False
        # When to say again that an ask waits for more devices at once than there are; None: nothing was said of this ask yet.
        self._warn_at: float | None = None

    def on_events(self, events: Sequence[Event]) -> None:
        """Events of the run, as they happen, or those of a run that goes on."""
        if self.speeds is not None:
            self.speeds.on_events(events)

    def on_calls(self, clients: Ints, return_seconds: Floats, now: float) -> None:
        """These clients called; `return_seconds`: when each was told to come back, 0 while its call is held."""
        self._any_called |= bool(len(clients))
        self._presence.record_calls(clients, return_seconds, now)

    def on_departures(self, clients: Ints) -> None:
        """These hung up or left."""
        self._presence.record_departures(clients)

    def on_sent(self, clients: Ints) -> None:
        """These have a task."""
        self.busy[clients] = True

    def on_task_end(self, clients: Ints | int) -> None:
        """The tasks of these ended."""
        self.busy[clients] = False

    def present(self, now: float) -> Bools:
        """The clients that are there."""
        return self._presence.present(now)

    def idle(self, now: float) -> Ints:
        """The clients that are there and have no task."""
        return available_clients(self.present(now), self.busy).astype(np.int64)

    def on_ask(self, now: float) -> None:
        """The coordinator asks for candidates."""
        self._asked_at, self._warn_at = now, None

    def try_answer(self, state: RunState, now: float) -> Effects:
        """The answer to the ask that is out, if it is time."""
        if state.phase is not Phase.OPEN:
            return []
        if not self.ready(state):
            self._asked_at = now
            return []
        if self._asked_at is None:
            self._asked_at = now
        busy = unavailable_clients(self._plan, state, self.busy).copy()
        if state.others:
            busy[clients_asked_this_round(state)] = True
        present = self.present(now)
        idle = available_clients(present, busy)
        if not self._any_called and not state.next_task:
            # No device has come yet: patience begins with the first, and goes on when that one leaves.
            self._asked_at = now
        declared, patience = self._options.devices, self._options.patience
        outsiders = int((~self._plan.choose.may_ask(self._plan.clients))[idle].sum()) if state.at_least else 0
        missing = missing_devices(
            present=len(idle), busy=int(busy.sum()), declared=declared, at_least=state.at_least + outsiders,
            asked_at=self._asked_at, now=now, patience=patience,
        )  # fmt: skip
        if missing is None:
            return self._warn_of_few(state, len(idle) - outsiders, now)
        effects: Effects = []
        if missing:
            effects.append(
                Note(
                    f"round {state.book.round} was asked of {len(idle) + int(busy.sum())} of the {declared} declared "
                    f"devices: {missing} had not come after {patience:g} s of patience"
                )
            )
        self._asked_at = None
        world = self._world if self.speeds is None else with_learned_speeds(self._world, self.speeds)
        roster = roster_of(self._plan, world, state, idle.astype(np.int64))
        return [*effects, React(CandidatesSeen(now, roster))]

    def deadline(self, now: float) -> float | None:
        """When the patience with the ask that is out ends; None: patience decides nothing any more."""
        if self._asked_at is None:
            return None
        moment = patience_end(asked_at=self._asked_at, now=now, patience=self._options.patience)
        return self._warn_at if moment is None else moment

    def _warn_of_few(self, state: RunState, present: int, now: float) -> Effects:
        """Say that a round cannot begin although patience is over; again after pauses that double."""
        asked_at, patience = self._asked_at, self._options.patience
        if asked_at is None or not self._any_called or state.at_least <= max(present, 1):
            return []
        due = asked_at + patience if self._warn_at is None else self._warn_at
        if now < due:
            return []
        self._warn_at = now + max(now - asked_at, _LEAST_WARNING_SECONDS)
        return [Note(few_devices_text(state.book.round, present, state.at_least, now - asked_at))]


def few_devices_text(round: int, present: int, at_least: int, seconds: float) -> str:
    """Why no device gets a task although some come, and what to do.

    >>> few_devices_text(1, 1, 2, 90.0).partition(":")[0]
    'round 1 has waited 90 s for 2 devices at the same time; 1 is connected, and --patience does not lower this number'
    """
    connected = f"{present} {'is' if present == 1 else 'are'} connected"
    return (
        f"round {round} has waited {seconds:.0f} s for {at_least} devices at the same time; {connected}, and --patience does not "
        "lower this number: keep more connected, or, if devices come one after another, use --devices 1 and pace.use = "
        '"buffered" (or pace.min_clients = 1, pace.min_share = 0)'
    )


_REVOCATIONS_SECONDS = 1.0


class Membership:
    """Answers requests to enrol. A device that takes a place over has none of the memory of the one before."""

    def __init__(self, served: ServedRun, client_state: ClientState) -> None:
        self._served, self._client_state = served, client_state
        self._revocations_due = 0.0

    def on_requests(self, index: int, requests: Sequence[inside.Enrolling], next_task: int, log: Log) -> Effects:
        """Answer devices that want to enrol through frontend `index`; `next_task`: the first task that is not given yet."""
        served, answers = self._served, list[inside.Enrolled]()
        parsed = [(pb.EnrolRequest.FromString(r.request), r.peer) for r in requests]
        for request, outcome in zip(requests, served.registry.enrol_all(parsed, time.time(), next_task), strict=True):
            answer = inside.Enrolled(number=request.number)
            if isinstance(outcome, Admission):
                secret = secret_of(served.key, outcome.client, outcome.generation)
                config = served.client_config(outcome.client)
                reply = pb.EnrolReply(client=outcome.client, secret=secret, sheet=config, run=served.name)
                reply.signature = sign_config(secret, config)
                answer.reply = reply.SerializeToString()
                if outcome.new and outcome.generation > 1:
                    self._client_state.record_takeover(outcome.client, next_task)
                log("info", "a device enrolled", device=outcome.client, peer=request.peer)
            else:
                answer.refused = outcome.sentence
                log("warning", "a device was not admitted", reason=outcome.sentence, peer=request.peer)
            answers.append(answer)
        return [Tell(inside.ToTransmitter(enrolled=answers), index), _revocations(served.registry.take_changes())]

    def on_time(self, now: float) -> Effects:
        """Other processes revoke clients too: see once a second whether one did."""
        if now < self._revocations_due:
            return []
        self._revocations_due = now + _REVOCATIONS_SECONDS
        return [_revocations(self._served.registry.take_changes())]

    def on_frontend_start(self, index: int) -> Effects:
        """A frontend that starts knows of no revocation."""
        return [_revocations(self._served.registry.raised_generations(), index)]


def _revocations(changed: Sequence[tuple[int, int]], frontend: int | None = None) -> Tell:
    clients, generations = [client for client, _ in changed], [generation for _, generation in changed]
    return Tell(inside.ToTransmitter(revoked=clients, generations=generations), frontend)
