"""The runtime of a real fleet: the very same coordinator as in simulation, its commands carried out by devices.

One thread, the caller's, owns the state of the run; what devices do reaches it as facts from the desk. The clock of a
run is wall time since its beginning, on the monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedfleet.core.commands import Account, Evaluate, FindCandidates, Finish, Forget, Gather, Probe, Send, WakeAt
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Event, Fact, ModelCommitted, RoundFailed, TaskArrived, TaskLost, TasksSpent, TimerFired
from fedfleet.core.parts import Executor, Offer, Pass, Plan
from fedfleet.core.passes import NO_SETTINGS, LocalPass
from fedfleet.core.records import Report, Roster, Wave
from fedfleet.core.sources import World
from fedfleet.core.trees import tree_nbytes
from fedfleet.engine.asking import asked_in_this_round
from fedfleet.engine.coordinator import begin, step
from fedfleet.engine.state import Phase, RunState, endings
from fedfleet.runtime.acting import carry_out
from fedfleet.runtime.aggregates import keep_aggregate
from fedfleet.runtime.foreseen import check_sees, roster_of
from fedfleet.runtime.gather import evaluate, fold_reports
from fedfleet.runtime.journal import Journal
from fedfleet.runtime.memory import ClientMemory
from fedfleet.runtime.noise import SEEDED, Noising
from fedfleet.runtime.tracing import tracer
from fedfleet.runtime.wire.desk import Errand, TaskDesk
from fedfleet.runtime.wire.framing import offer_to_bytes

MEASURED = ("download", "compute")  # stages of whose length a device can tell
# At the end, how long devices that are still at work have to come and hear that it is over.
_FAREWELL_SECONDS = 5.0
# What a report may hold beside the model: names, statistics, framing.
_MESSAGE_SLACK = 1 << 20


@dataclass(frozen=True, slots=True)
class Said:
    """What is known of a task's cost on a real network: the bytes of its report, and what its device measured, by stage."""

    bytes_up: float
    spent: Mapping[str, float]


_UNSAID = Said(math.nan, {})


@dataclass(slots=True)
class Serving:
    """The mutable side of a served run; its thread alone touches it."""

    plan: Plan
    world: World
    execute: Executor
    desk: TaskDesk
    folder: Path
    state: RunState
    timer: float | None = None
    gathered: int = 0
    held: dict[int, Report] = field(default_factory=dict)  # arrived and not yet folded, by task
    memory: ClientMemory = field(default_factory=ClientMemory)  # stays empty: see `check_servable`
    noising: Noising = SEEDED
    said: dict[int, Said] = field(default_factory=dict)  # of arrived tasks that are not yet accounted for

    def find(self, command: FindCandidates) -> None:
        """The state itself says that it is asking, and `next_fact` answers as soon as someone, or `at_least` so many, are idle."""

    def probe(self, command: Probe) -> None:
        """Not yet: see `check_servable`."""
        raise RunFailed(
            f"selector {self.plan.choose.name!r} probes clients for {command.stat}, which the wire cannot do yet"
        )

    def send(self, command: Send) -> None:
        """Devices pull their work."""
        if command.wave.asked.settings:
            raise RunFailed(
                f"selector {self.plan.choose.name!r} gives clients settings of their own, which do not travel yet"
            )
        self.desk.hand_out(errands(self.plan, self.world, command.wave))

    def wake(self, command: WakeAt) -> None:
        """The desk looks at the clock."""
        self.timer = command.time

    def gather(self, command: Gather) -> None:
        """Fold what these tasks brought, in task order, and keep the aggregate before it becomes a fact."""
        reports = [self.held.pop(task) for task in command.tasks]
        now, making = self.state.book.now, (command.version, self.noising.key)
        fact = fold_reports(self.plan, self.memory, command.server, command.contexts, reports, now, making)
        keep_aggregate(self.folder, self.gathered, fact)
        self.gathered += 1
        self.desk.answer(fact)

    def forget(self, command: Forget) -> None:
        """Nobody waits for these tasks any more."""
        self.desk.withdraw(command.tasks.tolist())

    def account(self, command: Account) -> None:
        """What devices said that their work cost them; of the others, and of what nobody can measure, nobody knows."""
        said = [self.said.pop(task, _UNSAID) for task in command.tasks]
        self.desk.answer(spent_as_said(command, said, self.state.book.now))

    def evaluate(self, command: Evaluate) -> None:
        """The server's own machine tries the model."""
        now = self.state.book.now
        self.desk.answer(evaluate(self.plan, self.world, self.execute, self.memory, command, now))

    def finish(self, command: Finish) -> None:
        """Devices hear that it is over."""
        self.desk.finish(command.reason, _FAREWELL_SECONDS)


def spent_as_said(command: Account, said: Sequence[Said], now: float) -> TasksSpent:
    """What ended tasks cost, as far as it is known; who claims more seconds than passed is not believed.

    How long an upload takes only its two ends together could say, so that nobody knows of any.
    """
    n = len(command.tasks)
    spent = {name: np.full(n, np.nan) for name in (*MEASURED, "upload", "bytes_down", "bytes_up")}
    clients = np.zeros(n, np.int64)
    for i, (task, wave, seconds) in enumerate(zip(command.tasks, command.waves, command.seconds, strict=True)):
        slot, told = task - wave.first, said[i]
        clients[i], spent["bytes_up"][i] = wave.asked.clients[slot], told.bytes_up
        if not math.isnan(told.bytes_up):
            spent["bytes_down"][i] = wave.cost.bytes_down[slot]
        if sum(told.spent.values()) <= seconds:
            for name in MEASURED:
                spent[name][i] = told.spent.get(name, math.nan)
    return TasksSpent(now, np.array(command.tasks, np.int64), clients, spent)


def check_servable(plan: Plan, devices: int) -> None:
    """Refuse what this skeleton cannot do yet, with one sentence each."""
    found = (
        plan.algorithm.local(client, NO_SETTINGS) for client in range(plan.clients)
    )  # overrides may change some of them
    halves = [half for half in found if isinstance(half, LocalPass)]
    if any(half.remembers() for half in halves) or plan.algorithm.personal is not None:
        raise BadInput(
            f"algorithm {plan.algorithm.name!r} lets clients remember, and memory does not travel over the wire yet; "
            "simulate it with fedfleet run, or serve an algorithm without memory, such as fedavg"
        )
    if plan.algorithm.accept is not None and any(half.up is not None for half in halves):
        raise BadInput(
            f"algorithm {plan.algorithm.name!r} decodes what clients send by itself, and no codec can stand before that on the "
            "wire yet; leave up out of [algorithm], or simulate it with fedfleet run"
        )
    promise = plan.algorithm.private
    if promise is not None and promise.mechanism == "local":
        raise BadInput(
            "algorithm.private: local noise would be drawn from the seed, which the server knows, so that on a real network it "
            "protects nobody yet; use gaussian or tree, or simulate it with fedfleet run"
        )
    if plan.choose.probe is not None:
        raise BadInput(
            f"selector {plan.choose.name!r} probes clients before it picks, which the wire cannot do yet; use uniform"
        )
    check_sees(plan)
    unseen = [name for name in plan.choose.sees if name.endswith("_seconds")]
    if unseen:
        raise BadInput(
            f"selector {plan.choose.name!r} wants to see {unseen[0]} of clients, which nobody can foresee on a real network; "
            "use uniform"
        )
    if not 1 <= devices <= plan.clients:
        raise BadInput(
            f"--devices: cannot wait for {devices} devices in a fleet of {plan.clients} clients; say 1 to {plan.clients}"
        )


def largest_message(plan: Plan) -> int:
    """The most bytes that a device may send at once: twice the model, and some room."""
    return 2 * tree_nbytes(plan.params) + _MESSAGE_SLACK


def serve(
    plan: Plan,
    world: World,
    execute: Executor,
    desk: TaskDesk,
    *,
    devices: int,
    journal: Journal,
    folder: Path,
    watch: Callable[[Sequence[Event]], None] | None = None,
    noising: Noising = SEEDED,
) -> RunState:
    """Wait for `devices` enrolments, run a plan with them to its end, and return where it ended.

    Events go to `journal` and, batch by batch, to `watch`; every aggregate is kept in `folder`, for a replay needs it.
    """

    trace = tracer()

    def tell(events: Sequence[Event]) -> None:
        journal.append(events)
        if trace is not None:
            trace("event", events)
        if any(isinstance(e, ModelCommitted | RoundFailed) for e in events):
            journal.flush()  # what happened in reality cannot be computed again
        if watch is not None:
            watch(events)

    desk.await_enrolled(devices)
    first = begin(plan)
    run = Serving(plan, world, execute, desk, folder, first.state, noising=noising)
    tell(first.outcomes)
    for command in first.commands:
        carry_out(run, command)
    while run.state.phase is not Phase.DONE:
        fact = next_fact(run)
        run.state, outcomes, commands = step(plan, run.state, fact)
        tell((fact, *outcomes))
        if any(isinstance(e, RoundFailed) for e in outcomes):
            forget_wasted(run)
        if trace is not None:
            trace("command", commands)
        for command in commands:
            carry_out(run, command)
    return run.state


def next_fact(run: Serving) -> Fact:
    """What happens next. What ended after it was given up is no fact: it stays as if it had come too late."""

    def candidates(idle: list[int]) -> Roster:
        return roster_of(run.plan, run.world, run.state, np.array(idle, np.int64))

    while True:
        state = run.state
        busy = {int(wave.asked.clients[task - wave.first]) for task, wave in state.running.items()}
        asking = state.book.asking and state.phase is Phase.OPEN
        if asking and state.at_least and state.others:  # whoever will be left out must not be counted
            busy.update(asked_in_this_round(state).tolist())
        fact, report = run.desk.next_fact(
            run.timer, busy, candidates if asking else None, at_least=max(state.at_least, 1)
        )
        if isinstance(fact, TaskArrived | TaskLost) and fact.task not in state.running:
            continue
        if report is not None and isinstance(fact, TaskArrived):
            run.held[report.task] = report
            run.said[report.task] = Said(fact.bytes_up, report.spent or {})
        if isinstance(fact, TimerFired):
            run.timer = None
        return fact


def errands(plan: Plan, world: World, wave: Wave) -> list[Errand]:
    """The tasks of a wave as they travel; a model that is offered to many is encoded once."""
    sizes = world.data.sizes(wave.round)
    encoded: dict[tuple[int, ...], tuple[Offer, bytes]] = {}  # the offer is held too, so that no other can take its id
    found: list[Errand] = []
    like = plan.algorithm.fold.like(wave.server)
    for slot, client in enumerate(wave.asked.clients.tolist()):
        offered, share = plan.algorithm.offer(wave.server, client, NO_SETTINGS), float(wave.asked.share[slot])
        mark = id(offered.params), id(offered.extra) if offered.extra else 0, id(offered.encoded)
        if mark not in encoded:
            encoded[mark] = (offered, offer_to_bytes(offered))
        tensors, steps = encoded[mark][1], int(wave.asked.steps[slot])
        half = plan.algorithm.local(client, NO_SETTINGS)
        heaviest = heaviest_report(half, math.ceil(share * sizes[client]))
        up = half.up if isinstance(half, LocalPass) else None
        sent = (wave.first + slot, client, wave.round, tensors, steps, share, plan.seed, wave.time, heaviest)
        found.append(Errand(*sent, up, like))
    return found


def heaviest_report(local: Pass, samples: int) -> float:
    """The most that an honest report can weigh; an opaque pass may weigh its reports as it likes.

    Without this limit one device could claim so much weight that the fold's total overflows and the run fails.
    """
    if not isinstance(local, LocalPass):
        return math.inf
    return float(samples) if local.weigh == "samples" else 1.0


def forget_wasted(run: Serving) -> None:
    """A round failed: reports that arrived for it will never be gathered."""
    awaited = {e.task for e in endings(run.state.ended)} | {e.task for e in endings(run.state.gathering)}
    run.held = {task: report for task, report in run.held.items() if task in awaited}
