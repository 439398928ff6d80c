"""What every runtime does alike: make jobs, fold reports, advance client memory, evaluate."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.core.commands import Evaluate, Gather, Probe
from fedfleet.core.events import Evaluated, ReportsGathered
from fedfleet.core.parts import DataSource, Executor, Job, Plan, Trial, World
from fedfleet.core.records import ClientScores, Context, Floats, Ints, Rejected, Report, ServerState, Wave
from fedfleet.core.trees import Tree


@dataclass(slots=True)
class ClientMemory:
    """What clients remember between tasks. It advances only when a report is folded.

    A task sees the memory that its client had when the task was sent, even if another of its reports is folded since. What
    was lent is kept until the last task of its wave has ended: edges are weighed against all others of their wave, also by
    a run that was resumed in between.
    """

    own: dict[int, Tree] = field(default_factory=dict)
    lent: dict[int, Tree] = field(default_factory=dict)
    out: dict[int, set[int]] = field(
        default_factory=dict
    )  # by the first task of a wave: those of it that have not ended
    wave_of: dict[int, tuple[int, int]] = field(
        default_factory=dict
    )  # of such a task: first task and length of its wave

    def lend(self, wave: Wave) -> None:
        """Note what each client of a wave remembers now."""
        for slot, client in enumerate(wave.asked.clients.tolist()):
            if client in self.own:
                self.lent[wave.first + slot] = self.own[client]
        self.expect(wave, range(wave.first, wave.first + len(wave)))

    def expect(self, wave: Wave, tasks: Iterable[int]) -> None:
        """These tasks of a wave have still to end."""
        for task in tasks:
            self.out.setdefault(wave.first, set()).add(task)
            self.wave_of[task] = wave.first, len(wave)

    def take_back(self, task: int) -> None:
        """This task has ended."""
        if task not in self.wave_of:
            return
        first, n = self.wave_of.pop(task)
        self.out[first].discard(task)
        if not self.out[first]:
            del self.out[first]
            for ended in range(first, first + n):
                self.lent.pop(ended, None)


def jobs_for(plan: Plan, world: World, memory: ClientMemory, tasks: Iterable[int], waves: Iterable[Wave]) -> list[Job]:
    """The complete work of each task, from the model version that it was sent with."""
    algorithm, data, seed = plan.algorithm, world.data, plan.seed
    lent = memory.lent if algorithm.remembers else {}
    jobs: list[Job] = []
    wave: Wave | None = None
    columns: tuple[list[Any], ...] = ()
    for task, own in zip(tasks, waves, strict=True):
        if own is not wave:  # tasks of one wave come together: its columns become plain lists once
            wave = own
            columns = tuple(c.tolist() for c in (own.asked.clients, own.keys, own.asked.steps, own.asked.share))
        slot = task - own.first
        client, key, steps, share = (column[slot] for column in columns)
        rows = training_rows(data, client, own.round, share)
        offered = algorithm.offer(own.server, client)
        local, own_memory = algorithm.local(client), lent.get(task)
        jobs.append(Job(task, client, key, seed, offered, local, rows, steps, own_memory, own.round, own.time))
    return jobs


def training_rows(data: DataSource, client: int, round: int, share: float) -> Ints:
    """The rows that a task trains on: the first `share` of its client's shard."""
    rows = data.shard(client, "train", round)
    return rows if share >= 1.0 else rows[: math.ceil(share * len(rows))]


def gather(
    plan: Plan,
    world: World,
    execute: Executor,
    memory: ClientMemory,
    command: Gather,
    now: float,
    reports: Iterable[Report] | None = None,
) -> ReportsGathered:
    """Train (unless the reports are there already), check and fold, in task order."""
    mean = plan.algorithm.fold.exact
    if reports is None and execute.fold is not None and mean is not None and not plan.algorithm.remembers:
        jobs = jobs_for(plan, world, memory, command.tasks, command.waves)
        done = execute.fold(jobs, mean(command.server))
        acc = done.accumulator if len(done.tasks) else None
        return ReportsGathered(now, acc, done.tasks, done.stats, done.rejected)
    if reports is None:
        reports = execute.train(jobs_for(plan, world, memory, command.tasks, command.waves))
    return fold_reports(plan, memory, command.server, command.contexts, reports, now)


def fold_reports(
    plan: Plan,
    memory: ClientMemory,
    server: ServerState,
    contexts: Iterable[Context],
    reports: Iterable[Report],
    now: float,
) -> ReportsGathered:
    """Reports in task order become one aggregate; those that cannot be used are named with the reason."""
    fold, remembers = plan.algorithm.fold, plan.algorithm.remembers
    acc = fold.zero(server)
    tasks: list[int] = []
    stats: list[dict[str, float]] = []
    rejected: list[Rejected] = []
    for report, context in zip(reports, contexts, strict=True):
        why = fold.check(server, report)
        if remembers:
            memory.take_back(report.task)
        if why is not None:
            rejected.append(Rejected(report.task, report.client, f"client {report.client}: {why}"))
            continue
        acc = fold.add(acc, report, context) if report.forwarded is None else fold.merge(acc, report.forwarded)
        if remembers and report.memory is not None:
            memory.own[report.client] = report.memory
        tasks.append(report.task)
        stats.append(dict(report.stats))
    # A foreign device may leave a statistic out, and must not stop the run with that.
    names = dict.fromkeys(name for found in stats for name in found)
    columns = {name: np.array([found.get(name, math.nan) for found in stats]) for name in names}
    return ReportsGathered(now, acc if tasks else None, np.array(tasks, np.int64), columns, tuple(rejected))


def evaluate(
    plan: Plan, world: World, execute: Executor, memory: ClientMemory, command: Evaluate, now: float
) -> Evaluated:
    """The model on the central test set, and on all clients' own test shards if that is asked."""
    params = command.server.params
    central = next(iter(execute.evaluate([Trial(params, world.data.holdout)])))
    scores = client_scores(plan, world.data, execute, memory, params) if command.clients else None
    return Evaluated(now, command.version, central.correct, central.total, central.loss, scores)


def client_scores(plan: Plan, data: DataSource, execute: Executor, memory: ClientMemory, params: Tree) -> ClientScores:
    """Each client's own test shard, with the model that this client would use."""
    clients = data.testers.tolist()
    trials = [Trial(model_of(plan, memory, params, c), data.shard(c, "test", 0)) for c in clients]
    found = list(execute.evaluate(trials))
    correct: Ints = np.array([s.correct for s in found], np.int64)
    return ClientScores(data.testers, correct, np.array([s.total for s in found], np.int64))


def probe_losses(
    plan: Plan, world: World, execute: Executor, memory: ClientMemory, command: Probe, round: int
) -> Floats:
    """The loss of the model on each named client's training shard."""
    params = command.server.params
    clients = command.clients.tolist()
    trials = [Trial(model_of(plan, memory, params, c), world.data.shard(c, "train", round)) for c in clients]
    return np.array([s.loss for s in execute.evaluate(trials)])


def model_of(plan: Plan, memory: ClientMemory, params: Tree, client: int) -> Tree:
    """The model that a client would use: the global one, or its own version of it."""
    personal = plan.algorithm.personal
    return params if personal is None else personal(params, memory.own.get(client, {}))
