"""What simulation and server do alike around an executor: make jobs, fold reports, advance client memory, evaluate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.aggregation import TOO_FEW, Fold, Folding
from fedfleet.core.commands import Evaluate, Gather, Probe
from fedfleet.core.cost import settings_at
from fedfleet.core.decoders import Decoder
from fedfleet.core.errors import Refused
from fedfleet.core.events import Evaluated, ReportsGathered
from fedfleet.core.lazy_sequence import LazySequence
from fedfleet.core.noise import add_noise, seeded_key
from fedfleet.core.parts import Algorithm, Executor, FoldResult, Job, Plan, Trial
from fedfleet.core.passes import NO_MEMORY, NO_SETTINGS
from fedfleet.core.records import (
    ClientScores,
    Context,
    EvalScore,
    Floats,
    Rejection,
    Report,
    Score,
    ServerState,
    Slots,
    Tally,
    Wave,
)
from fedfleet.core.sources import World
from fedfleet.core.trees import Tree
from fedfleet.executors.personal_model import personal_model, share_of_rows, tune_models, tuning_job
from fedfleet.store.client_memory import ClientMemory

Accept = Callable[[ServerState, Report, Context], Report]


def jobs_for(plan: Plan, world: World, memory: ClientMemory, tasks: Iterable[int], waves: Iterable[Wave]) -> list[Job]:
    """The complete work of each task, from the model version that it was sent with."""
    algorithm, data, seed = plan.algorithm, world.data, plan.seed
    jobs: list[Job] = []
    for wave, group in _group_by_wave(tasks, waves):
        assignments, slots = wave.assignments, [task - wave.first for task in group]
        columns = (c[slots].tolist() for c in (assignments.clients, wave.keys, assignments.steps, assignments.share))
        for task, client, key, steps, share in zip(group, *columns, strict=True):
            settings = settings_at(assignments, task - wave.first) if assignments.settings else NO_SETTINGS
            rows = share_of_rows(data.shard(client, "train", wave.round), share)
            offer, local = algorithm.offer(wave.server, client, settings), algorithm.local(client, settings)
            client_slots = memory.slots_of_task(task) if memory.lent else NO_MEMORY
            jobs.append(Job(task, client, key, seed, offer, local, rows, steps, client_slots, settings, wave.round, wave.time))
    return jobs


def _group_by_wave(tasks: Iterable[int], waves: Iterable[Wave]) -> list[tuple[Wave, list[int]]]:
    """Tasks that stand together with the wave that they were sent in: a buffer holds a few of each of many waves."""
    groups: list[tuple[Wave, list[int]]] = []
    for task, wave in zip(tasks, waves, strict=True):
        if not groups or groups[-1][0] is not wave:
            groups.append((wave, []))
        groups[-1][1].append(task)
    return groups


def gather(
    plan: Plan,
    world: World,
    execute: Executor,
    memory: ClientMemory,
    command: Gather,
    now: float,
    reports: Iterable[Report] | None = None,
    key: bytes | None = None,
    jobs: Sequence[Job] | None = None,
) -> ReportsGathered:
    """Train (unless the reports are there already), check and fold, in task order. `key` addresses noise (None: the seed does).

    `jobs` are those of the tasks, where they have been made already.
    """
    algorithm, server, contexts = plan.algorithm, command.server, command.contexts
    noise_address = command.version, key
    if reports is not None:
        return fold_reports(plan, memory, server, contexts, reports, now, noise_address)
    if execute.fold is None or not folds_in_place(execute, algorithm):
        if jobs is None:
            jobs = jobs_for(plan, world, memory, command.tasks, command.waves)
        return fold_reports(plan, memory, server, contexts, execute.train(jobs), now, noise_address)
    if jobs is None:
        jobs = LazySequence(len(contexts), partial(jobs_for, plan, world, memory, command.tasks, command.waves))
    decode = algorithm.accept.stack if isinstance(algorithm.accept, Decoder) else None
    folded = execute.fold(jobs, contexts, algorithm.fold, server, decode)
    return finish_gather(plan, memory, contexts, folded, now, noise_address)


def folds_in_place(execute: Executor, algorithm: Algorithm) -> bool:
    """Can the executor add up this algorithm's updates where they are made?"""
    decodes_stacks = algorithm.accept is None or isinstance(algorithm.accept, Decoder)
    return execute.fold is not None and algorithm.fold.streams and decodes_stacks


def admit(
    fold: Fold, server: ServerState, acc: Folding, report: Report, context: Context, accept: Accept | None = None
) -> str | None:
    """Decode, check and add one report; why it was refused, None if it was added."""
    if accept is not None:
        try:
            report = accept(server, report, context)
        except Refused as error:
            return str(error)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError) as error:  # it refuses the report, and ends no run
            return f"it cannot be decoded ({type(error).__name__}: {error})"
    return aggregation.check_and_add(fold, acc, report, context)


# For which version reports are folded, and the key that addresses its noise (None: the seed of the run does).
NoiseAddress = tuple[int, bytes | None]


def fold_reports(
    plan: Plan,
    memory: ClientMemory,
    server: ServerState,
    contexts: Sequence[Context],
    reports: Iterable[Report],
    now: float,
    noise_address: NoiseAddress = (1, None),
) -> ReportsGathered:
    """Reports in task order become one aggregate, and what their clients remember advances."""
    folded = fold_in_order(plan.algorithm.fold, server, reports, contexts, plan.algorithm.accept)
    return finish_gather(plan, memory, contexts, folded, now, noise_address)


def finish_gather(
    plan: Plan, memory: ClientMemory, contexts: Sequence[Context], folded: FoldResult, now: float, noise_address: NoiseAddress
) -> ReportsGathered:
    """The fact that follows from a finished fold; the clients in it remember what their reports say.

    Noise is added here, before there is a fact: nothing that outlives this call holds sums without it.
    """
    fold, (version, key) = plan.algorithm.fold, noise_address
    for task in (*folded.tasks.tolist(), *(r.task for r in folded.rejected)) if memory.open_tasks else ():
        memory.release_task(task)
    folded = _require_enough(fold, contexts, folded)
    if fold.noise is not None and len(folded.tasks):
        add_noise(fold.noise, folded.accumulator, seeded_key(plan.seed) if key is None else key, version)
    for client, slots in folded.memory.items():
        memory.advance(client, slots)
    return ReportsGathered(now, folded.accumulator if len(folded.tasks) else None, folded.tasks, folded.stats, folded.rejected)


def _require_enough(fold: Fold, contexts: Sequence[Context], folded: FoldResult) -> FoldResult:
    """The fold, or, if it has fewer reports than it needs, a refusal of them all: then the model stays as it was."""
    tasks = folded.tasks.tolist()
    if not 0 < len(tasks) < fold.least:
        return folded
    why = f"only {len(tasks)} reports could be folded, {TOO_FEW} {fold.least}"
    clients = {context.task: context.client for context in contexts}
    refusals = (Rejection(task, clients[task], f"client {clients[task]}: {why}") for task in tasks)
    rejected = sorted((*folded.rejected, *refusals), key=lambda r: r.task)
    return FoldResult(folded.accumulator, folded.tasks[:0], {}, tuple(rejected))


def fold_in_order(
    fold: Fold, server: ServerState, reports: Iterable[Report], contexts: Iterable[Context], accept: Accept | None = None
) -> FoldResult:
    """Check and add reports one by one; those that cannot be used are named with the reason."""
    acc = aggregation.zero(fold, server)
    tasks: list[int] = []
    stats: list[Mapping[str, float]] = []
    rejected: list[Rejection] = []
    memory: dict[int, Slots] = {}
    for report, context in zip(reports, contexts, strict=True):
        # Straight to the fold where nothing is decoded: one call less for every report.
        if accept is None:
            why = aggregation.check_and_add(fold, acc, report, context)
        else:
            why = admit(fold, server, acc, report, context, accept)
        if why is not None:
            rejected.append(Rejection(report.task, report.client, f"client {report.client}: {why}"))
            continue
        if report.memory is not None:  # if two tasks of one client are folded, the later one's slots stand
            memory[report.client] = {**memory.get(report.client, {}), **report.memory}
        tasks.append(report.task)
        stats.append(report.stats)
    return FoldResult(acc, np.array(tasks, np.int64), stat_columns(stats), tuple(rejected), memory)


def stat_columns(stats: Sequence[Mapping[str, float]]) -> dict[str, Floats]:
    """Statistics by name; one that a device leaves out is not a number, and does not end the run."""
    names = dict.fromkeys(name for row in stats for name in row)
    return {name: np.array([result.get(name, math.nan) for result in stats]) for name in names}


def evaluate(plan: Plan, world: World, execute: Executor, memory: ClientMemory, command: Evaluate, now: float) -> Evaluated:
    """The model on the central test set and on people held out, and on all clients' own test shards if that is asked."""
    if command.known is not None:
        return known_evaluation(command.version, command.known, now)
    params, data = command.server.params, world.data
    sets = [data.holdout, data.unseen] if len(data.unseen) else [data.holdout]
    central, *others = execute.evaluate([Trial(params, rows, measured=i == 0) for i, rows in enumerate(sets)])
    unseen = Tally(others[0].correct, others[0].total) if others else None
    scores = client_scores(plan, world, execute, memory, command.server) if command.clients else None
    return Evaluated(now, command.version, central.correct, central.total, central.loss, scores, unseen, central.measures)


def known_evaluation(version: int, known: EvalScore, now: float) -> Evaluated:
    """A point of the curve for a model that was tried before: nothing is computed."""
    score = known.score
    return Evaluated(now, version, score.correct, score.total, score.loss, None, known.unseen, score.measures)


_PERSONAL_BATCH = 256  # personal models that lie in memory together


def client_scores(plan: Plan, world: World, execute: Executor, memory: ClientMemory, server: ServerState) -> ClientScores:
    """Each client's own test shard, with the model that this client would use."""
    data, clients, scores = world.data, world.data.testers.tolist(), list[Score]()
    shared_model = plan.algorithm.personal is None and plan.algorithm.tune is None
    step = max(1, len(clients)) if shared_model else _PERSONAL_BATCH
    for a in range(0, len(clients), step):
        part = clients[a : a + step]
        models = models_of(plan, world, execute, memory, server, part)
        scores += execute.evaluate([Trial(m, data.shard(c, "test", 0)) for m, c in zip(models, part, strict=True)])
    correct, total = (np.array(values, np.int64) for values in ([s.correct for s in scores], [s.total for s in scores]))
    known = total > 0  # sequences and labels may leave nothing to be right about
    return ClientScores(data.testers[known], correct[known], total[known])


def probe_losses(plan: Plan, world: World, execute: Executor, memory: ClientMemory, command: Probe, round: int) -> Floats:
    """The loss of the model on each named client's training shard."""
    clients = command.clients.tolist()
    trials = [Trial(model_of(plan, memory, command.server.params, c), world.data.shard(c, "train", round)) for c in clients]
    return np.array([s.loss for s in execute.evaluate(trials)])


def model_of(plan: Plan, memory: ClientMemory, params: Tree, client: int) -> Tree:
    """The model that a client would use: the global one, or its own version of it."""
    return personal_model(plan.algorithm, params, lambda: memory.slots_of(client))


def models_of(
    plan: Plan, world: World, execute: Executor, memory: ClientMemory, server: ServerState, clients: list[int]
) -> list[Tree]:
    """The models with which clients are evaluated: their own, tuned on their own data where the algorithm asks for that."""
    models, algorithm = [model_of(plan, memory, server.params, c) for c in clients], plan.algorithm
    if algorithm.tune is None:
        return models
    jobs = [
        tuning_job(algorithm, c, int(world.keys[c]), plan.seed, model, world.data.shard(c, "train", 0))
        for c, model in zip(clients, models, strict=True)
    ]
    return tune_models(execute, models, jobs)
