"""Audit: derive the journal of a run again, and report the first mismatch.

A simulation is run again, in full: its rosters, picks, arrivals, models and scores all follow from its spec. Where nothing can or
should be trained, the simulation runs on and believes the record in what only training tells; where even times follow from training
(edges, codecs priced by value) or picks from it (selectors that learn), the coordinator alone is run on the recorded facts. So it
is with a served run, whose facts cannot be derived: its models are made again from the aggregates that were kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fedfleet.core.aggregation import Aggregate, Fold, Folding
from fedfleet.core.commands import Command, Evaluate, Gather, Probe
from fedfleet.core.errors import RunFailed
from fedfleet.core.events import Evaluated, Event, Probed, ReportRejected, ReportsGathered
from fedfleet.core.parts import Executor, Plan
from fedfleet.core.records import Context, Rejection, Report, ServerState
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree
from fedfleet.engine.replay import Contradiction, Regather, replay
from fedfleet.executors.gather import evaluate
from fedfleet.simulation.audit_record import Mismatch, Numbered, Record, RecordEnd
from fedfleet.simulation.probes import probe_outcome
from fedfleet.simulation.simulator import Simulation, drive, new_simulation
from fedfleet.store.aggregates import load_aggregate
from fedfleet.store.client_memory import ClientMemory
from fedfleet.store.journal_checks import check_events
from fedfleet.store.journal_rows import Kind, Row, decode_with_numbers
from fedfleet.store.noise_source import NoiseSource
from fedfleet.store.row_text import evaluated_by_devices, spans

TRAINED = ("models", "scores", "losses")
WORLD = ("rosters", "picks", "arrivals")


def _refuse_work(work: Sequence[Any]) -> NoReturn:
    raise AssertionError(f"nothing should be trained or tried, but {len(work)} jobs were given")


# What was gathered where nothing is trained.
STAND_IN = Folding({}, {}, collected=[(Report(0, 0, {}, 1.0, {}), Context(0, 0.0, 0))])
_MEASURE_ERROR = 1e-6  # relative: measures are floats, and processors differ in their last digits
NO_EXECUTOR = Executor("nobody", _refuse_work, _refuse_work)


@dataclass(frozen=True, slots=True)
class Audit:
    """What was derived again and agrees with the record, and what was believed; the parameters where they were made again."""

    events: int
    commits: int
    verified: tuple[str, ...]
    believed: tuple[str, ...]
    params: Tree | None = None


def audit_by_rerun(
    plan: Plan, world: World, execute: Executor, rows: Sequence[Numbered], *, eager: bool = False, key: bytes | None = None
) -> Audit:
    """Everything derived from the plan and its world: simulate, and compare row by row. `key` is that of a secret run's noise."""
    record = Record(rows, models=True)
    tried = record.with_believed_metrics(execute)
    params = _compare(record, new_simulation(plan, world, tried, eager=eager, noising=NoiseSource(key)))
    return Audit(record.events, record.commits, ("decisions", *WORLD, *TRAINED), (), params)


def audit_decisions(plan: Plan, world: World, rows: Sequence[Numbered]) -> Audit:
    """Everything derived that needs no training; what training tells is believed."""
    plan = without_learning(plan)
    if plan.choose.learn is not None or plan.algorithm.priced_by_value:
        log = _read_log(rows)
        return _replay_facts(plan, world, log, _recorded_gathers(log.events))
    record, start = Record(rows, models=False), new_simulation(plan, world, NO_EXECUTOR)
    sim = RecordedSimulation(plan, world, NO_EXECUTOR, eager=False, state=start.state, busy=start.busy, record=record)
    _compare(record, sim)
    return Audit(record.events, record.commits, ("decisions", *WORLD), TRAINED)


def _kept_aggregates(plan: Plan, folder: Path, number_of: Callable[[Gather], int]) -> Regather:
    """Gatherings from the aggregates that were kept under these numbers."""

    def regather(command: Gather, fact: ReportsGathered) -> ReportsGathered:
        aggregate = load_aggregate(plan, folder, command.server, number_of(command), fact.time)
        if spans(aggregate.tasks) != spans(fact.tasks):
            raise RunFailed("the kept aggregate does not contain the same reports as the journal")
        return aggregate

    return regather


def audit_served_run(plan: Plan, world: World, execute: Executor | None, rows: Sequence[Numbered], folder: Path) -> Audit:
    """The decisions of a served run, and its models from the aggregates that were kept; its facts are believed.

    Without an executor the scores of the models are believed too, and those that devices gave in any case.
    """
    notes = (row.note for row in (Row._make(r) for _, r in rows) if row.kind == Kind.NOTE and row.note)
    numbers, by_devices = count(), evaluated_by_devices(notes)
    regather = _kept_aggregates(plan, folder, lambda command: next(numbers))
    result = _replay_facts(plan, world, _read_log(rows), regather, execute, models=True, by_devices=by_devices)
    trained = ("models", "scores") if execute is not None else ("models",)
    scores = ("scores",) if execute is None else ("scores by devices",) if by_devices else ()
    return replace(result, verified=("decisions", *trained), believed=("aggregates", "losses", *WORLD, *scores))


def audit_from_aggregates(plan: Plan, world: World, execute: Executor | None, rows: Sequence[Numbered], folder: Path) -> Audit:
    """A simulation whose noise comes from a secret that is not here: its models from the noised aggregates that were kept.

    What clients keep at home is not known then, so that the scores of personal models are believed.
    """
    log = _read_log(rows)
    recorded, kept = _recorded_gathers(log.events), _kept_aggregates(plan, folder, lambda command: command.version)
    evaluator = execute if plan.algorithm.personal is None else None

    def regather(command: Gather, fact: ReportsGathered) -> ReportsGathered:
        believed_fact = recorded(command, fact)
        return kept(command, fact) if len(fact.tasks) else believed_fact

    result = _replay_facts(plan, world, log, regather, evaluator, models=True)
    trained = ("models", "scores") if evaluator is not None else ("models",)
    believed = ("aggregates", "losses", *WORLD, *(() if evaluator is not None else ("scores",)))
    return replace(result, verified=("decisions", *trained), believed=believed)


def without_learning(plan: Plan) -> Plan:
    """The same decisions with an algorithm that folds nothing and leaves its model as it was."""
    nothing, tick = Fold(plan.algorithm.fold.like, combine=lambda inside: {}), plan.algorithm.tick

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        del aggregate
        return server if tick is None else tick(server)

    return replace(plan, algorithm=replace(plan.algorithm, fold=nothing, apply=apply))


def _with_stand_in(fact: ReportsGathered) -> ReportsGathered:
    """A gathering as it was recorded, with something for `without_learning` to fold."""
    return replace(fact, aggregate=STAND_IN if len(fact.tasks) else None, stats={})


def _recorded_gathers(events: list[Event]) -> Regather:
    """Gatherings as they were recorded, with the refusals that follow them."""
    refused = {e.task: Rejection(e.task, e.client, e.reason) for e in events if isinstance(e, ReportRejected)}

    def regather(command: Gather, fact: ReportsGathered) -> ReportsGathered:
        refused_tasks = sorted(set(command.tasks) - set(fact.tasks.tolist()))
        if set(fact.tasks.tolist()) - set(command.tasks) or not refused.keys() >= set(refused_tasks):
            raise RunFailed("the reports that had arrived differ from those in the journal")
        return replace(_with_stand_in(fact), rejected=tuple(refused[task] for task in refused_tasks))

    return regather


@dataclass(slots=True)
class RecordedSimulation(Simulation):
    """A simulation that trains nothing: what only training tells is read from the record."""

    record: Record = field(kw_only=True)

    def gather(self, command: Gather) -> None:
        """Which reports could be folded is believed, but they must be among those that arrived."""
        fact = self.record.recorded_gather(self.state.book.now, len(self.facts))  # a row for each
        tasks = sorted([*fact.tasks.tolist(), *(r.task for r in fact.rejected)])
        if tasks != sorted(command.tasks):
            raise Mismatch(self.record.number, f"it gathers the tasks {spans(fact.tasks)!r}, but others had arrived")
        self.facts.append(_with_stand_in(fact))

    def evaluate(self, command: Evaluate) -> None:
        """Scores are believed."""
        self.facts.append(self.record.recorded_evaluation(self.state.book.now, command.version, len(self.facts)))

    def answer(self, command: Probe, time: float) -> Probed:
        """Losses are believed; everything else follows from the world."""
        if command.stat != "loss":
            return Simulation.answer(self, command, time)
        fact = self.record.recorded_probe(time)
        if fact.stat != command.stat or not np.array_equal(fact.clients, command.clients):
            raise Mismatch(self.record.number, "other clients are probed in the run")
        outcome = probe_outcome(self.plan, self.world, self.state, command)
        return replace(fact, values=np.where(outcome.answered, fact.values, np.nan), spent=outcome.spent)


def _compare(record: Record, sim: Simulation) -> Tree:
    """Let a simulation tell the record its events; the parameters where the record ends."""
    try:
        drive(sim, record.check_events)
        record.check_end()
    except RecordEnd:  # the run was still going on
        pass
    return sim.state.server.params


class EventLog(NamedTuple):
    """The events of a journal, and the number of the first row of each."""

    numbers: list[int]
    events: list[Event]


def _read_log(rows: Sequence[Numbered]) -> EventLog:
    pairs = list(check_events(decode_with_numbers(rows)))
    return EventLog([number for number, _ in pairs], [event for _, event in pairs])


def _replay_facts(
    plan: Plan,
    world: World,
    log: EventLog,
    regather: Regather,
    execute: Executor | None = None,
    *,
    models: bool = False,
    by_devices: Collection[int] = (),
) -> Audit:
    """The coordinator on recorded facts; with an executor, every model is evaluated again, as far as the server did."""
    scores = iter([(n, e) for n, e in zip(*log, strict=True) if isinstance(e, Evaluated)])

    def check_command(command: Command) -> None:
        if isinstance(command, Evaluate):
            number, recorded = next(scores, (0, None))
            if recorded is not None and command.version in by_devices:
                each = recorded.clients
                if each is not None and (recorded.correct, recorded.total) == (int(each.correct.sum()), int(each.total.sum())):
                    return  # what clients found, added up, and nothing of the server's own
                command, recorded = replace(command, clients=False), replace(recorded, clients=None)
            if execute is not None and recorded is not None:
                derived = evaluate(plan, world, execute, ClientMemory(), command, recorded.time)
                for name in ("version", "correct", "total", "unseen"):
                    old, new = getattr(recorded, name), getattr(derived, name)
                    if old != new:
                        raise Mismatch(number, f"{name} is {old}, but {new} follows from the model")
                for name, new in derived.measures.items():
                    old = recorded.measures.get(name, math.nan)
                    if not math.isclose(old, new, rel_tol=_MEASURE_ERROR):
                        raise Mismatch(number, f"{name} is {old}, but {new} follows from the model")
                scores_of = [None if e.clients is None else [c.tolist() for c in astuple(e.clients)] for e in (derived, recorded)]
                if scores_of[0] != scores_of[1]:
                    raise Mismatch(number, "the scores of clients are not those of the model")

    try:
        result = replay(plan, log.events, world.keys, world.data.sizes, regather, check_command, models=models)
    except Contradiction as error:
        raise Mismatch(log.numbers[error.at] if error.at >= 0 else 0, str(error)) from error
    return Audit(
        len(log.events), result.commits, ("decisions",), (*TRAINED, *WORLD), result.state.server.params if models else None
    )
