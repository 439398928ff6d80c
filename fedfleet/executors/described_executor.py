"""The executor without PyTorch: one client after the other, one step after the other, on a described model, with any engine.

A device whose engine is numpy or MNN trains with it, and `run.execute = "numpy"` or "mnn" simulates such devices, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from fedfleet.core.edges import NestedPass
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm, Executor, Job, Task, Trial
from fedfleet.core.passes import SECOND, Carry, LocalPass
from fedfleet.core.records import Report, Score
from fedfleet.core.rng import hash_keys
from fedfleet.core.trees import Array, Tree
from fedfleet.executors.array_library import NUMPY
from fedfleet.executors.client_half import (
    STAGE_STRIDE,
    PreparedJob,
    Tallies,
    TrainedStack,
    batches,
    client_errors,
    prepare_job,
    reports,
    second_model_stages,
)
from fedfleet.executors.engine_model import Engine, LoadedModel
from fedfleet.executors.numpy.losses import loss_and_gradient, place_losses, sample_counts
from fedfleet.tasks.description.format import ModelDescription, check_leaves
from fedfleet.tasks.measures import Measuring, needs_measures, spread_of

EVALUATION_BATCH = 256
# The description of a task's model at a share of its width.
Describe = Callable[[float], ModelDescription]
_CURE = 'use run.execute = "inline" or "stacked", or devices with --engine torch'


def load_engine(name: str) -> Engine:
    """The engine of this name; `BadInput` if this machine lacks it."""
    match name:
        case "numpy":
            from fedfleet.executors.numpy.numpy_engine import NumpyEngine

            return NumpyEngine()
        case "mnn":
            from fedfleet.executors.mnn.mnn_engine import MnnEngine

            return MnnEngine()
        case _:
            raise ValueError(f"no engine is named {name!r}")


def described_executor(engine_name: str, task: Task, describe: Describe | None = None, *, threads: int = 1) -> Executor:
    """An executor that needs no PyTorch. `describe` gives the model where it came as a description; else PyTorch traces it."""
    engine = load_engine(engine_name)
    engine.limit_threads(threads)
    if task.loss is not None:
        raise BadInput(
            f"the {engine.name} engine trains on the losses of the kinds of task alone, and this task brings its own; {_CURE}"
        )
    describe = describe or (lambda width: _trace(task, width))
    models: dict[float, LoadedModel] = {}
    data, spread = task.dataset, spread_of(task)

    def model_at(width: float) -> LoadedModel:
        if width not in models:
            models[width] = engine.load(describe(width))
        return models[width]

    model_at(1.0)

    def train(jobs: Sequence[Job]) -> Iterator[Report]:
        for job in jobs:
            with client_errors(job):
                if isinstance(job.local, LocalPass):
                    report = _train_client(model_at, task.frozen, job, data.x, data.y)
                elif isinstance(job.local, NestedPass):
                    raise ValueError("it is an edge, and needs the nested executor")
                else:
                    report = job.local(job, data)
            yield report

    def evaluate(trials: Sequence[Trial]) -> Iterable[Score]:
        for trial in trials:
            yield _score(model_at(1.0), task, trial, spread)

    return Executor(engine.name, train, evaluate)


def check_trainable(engine_name: str, algorithm: Algorithm, task: Task) -> None:
    """Refuse, before anything runs, a method or a model that an engine cannot train."""
    engine, objective = load_engine(engine_name), torch_objective(algorithm)
    if objective is not None:
        raise BadInput(f'run.execute = "{engine.name}": {objective}; use run.execute = "inline" or "stacked"')
    engine.load(_trace(task, 1.0))


def torch_objective(algorithm: Algorithm) -> str | None:
    """Why a method's passes need PyTorch, by that of its first client; None if they do not."""
    local = algorithm.local(0, {})
    stages = local.work() if isinstance(local, LocalPass) else ()
    if any(stage.objective is not None for stage in stages):
        return f"the training objective of {algorithm.name} is written for PyTorch"
    return None


def _trace(task: Task, width: float) -> ModelDescription:
    from fedfleet.tasks.description.tracer import describe_task  # late: it loads PyTorch

    return describe_task(task, width)


def _train_client(model_at: Callable[[float], LoadedModel], frozen: Tree, job: Job, x: Array, y: Array) -> Report:
    """One client's whole half: from what was offered (and kept at home) to a report."""
    prepared = prepare_job(job)
    model = model_at(prepared.local.width)
    carry = Carry(prepared.memory, prepared.extra)
    state, start = dict(prepared.start), prepared.start
    check_leaves(model.description, {**frozen, **start})  # numpy would broadcast what does not fit
    second_stages = second_model_stages(prepared.local)
    tallies: Tallies | None = None
    for number, stage in enumerate(prepared.local.stages()):
        state, tally = _train_stage(model, frozen, prepared, stage, start, carry, x, y, number, state)
        tallies = tally if tallies is None else tallies.add(tally)
    assert tallies is not None
    second: Mapping[str, Array] = {}
    if second_stages:
        second = dict(prepared.memory[SECOND])
        others = Carry({slot: tree for slot, tree in prepared.memory.items() if slot != SECOND}, prepared.extra)
        for number, stage in second_stages:
            second, _ = _train_stage(model, frozen, prepared, stage, start, others, x, y, number, second)
    stacked = Carry({slot: _stack(tree) for slot, tree in carry.memory.items()}, _stack(carry.given))
    trained = TrainedStack(NUMPY, _stack(start), _stack(state), tallies, stacked, _stack(second))
    return next(reports([prepared], trained))


def _train_stage(
    model: LoadedModel, frozen: Tree, prepared: PreparedJob, stage: LocalPass, start: Tree, carry: Carry, x: Array, y: Array,
    number: int, state: Mapping[str, Array],
) -> tuple[dict[str, Array], Tallies]:  # fmt: skip
    """One stage of one client's pass from these weights on."""
    if stage.objective is not None:
        raise ValueError(f"its training objective is written for PyTorch; {_CURE}")
    job, state = prepared.job, dict(state)
    names = [n for n in state if n in model.description.trained and (stage.train is None or stage.train(n))]
    wanted = frozenset(names)
    params = {n: state[n] for n in names}
    rates = dict.fromkeys(names, np.float32(prepared.rate(stage)))
    optimiser = stage.optimiser.init(params)
    loss_sum = squared = 0.0
    samples = steps = 0
    for rows in batches(stage.batches, job, number):
        address = _dropout_address(job, steps + STAGE_STRIDE * number)
        batch = model.train({**frozen, **state, **params}, x[rows], y[rows], wanted, address)
        grads = {n: batch.gradients.get(n, np.zeros_like(p)) for n, p in params.items()}
        for term in stage.terms:
            for name, extra in term(params, start, carry).items():
                grads[name] = grads[name] + extra
        params, optimiser = stage.optimiser.update(params, grads, optimiser, rates)
        state |= batch.buffers
        loss_sum += float(batch.losses.sum())
        squared += float(np.square(batch.losses).sum())
        samples += len(rows)
        steps += 1
    tally = Tallies(*(np.array([v], np.float64) for v in (loss_sum, squared, samples, steps)))
    return {**state, **params}, tally


def _dropout_address(job: Job, step: int) -> int:
    """Which units dropout drops in this step: the number that PyTorch's kernels take."""
    key, task = np.array([job.key], np.uint64), np.array([job.task])
    return int(hash_keys(job.seed, "dropout", key, task, step)[0])


def _score(model: LoadedModel, task: Task, trial: Trial, spread: Array | None) -> Score:
    """How the model does on the rows of a trial."""
    data, leaves, correct, total, loss = task.dataset, {**task.frozen, **trial.params}, 0, 0, 0.0
    measuring = Measuring(task) if needs_measures(task, trial) else None
    for a in range(0, len(trial.rows), EVALUATION_BATCH):
        rows = trial.rows[a : a + EVALUATION_BATCH]
        labels, outputs = data.y[rows], model.evaluate(leaves, data.x[rows])
        right, possible = sample_counts(outputs, labels, spread)
        correct, total = correct + int(right.sum()), total + int(possible.sum())
        loss += float(loss_and_gradient(outputs, labels)[0].sum())
        if measuring is not None:
            places = float(place_losses(outputs, labels).sum(dtype=np.float64)) if data.kind.places else 0.0
            measuring.add(outputs, labels, places)
    result = Score(correct, total, loss / max(len(trial.rows), 1))
    return result if measuring is None else measuring.finish(result)


def _stack(tree: Mapping[str, Array]) -> dict[str, Array]:
    """A stack of one."""
    return {n: np.asarray(v)[None] for n, v in tree.items()}
