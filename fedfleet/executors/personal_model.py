"""The model that one client uses, for simulation, workers and devices alike: its own version of the server's model, tuned before
an evaluation. Like `client_half`, this module does not import torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fedfleet.core.parts import Algorithm, Executor, Job, Offer, Pass
from fedfleet.core.records import Ints, Settings, Slots
from fedfleet.core.trees import Tree


def share_of_rows(rows: Ints, share: float) -> Ints:
    """The rows that a task trains on: the first `share` of those that its client holds."""
    return rows if share >= 1.0 else rows[: math.ceil(share * len(rows))]


def personal_model(algorithm: Algorithm, params: Tree, memory: Callable[[], Slots]) -> Tree:
    """The model that a client would use: the server's, or its own version of it; memory is only read for that."""
    return params if algorithm.personal is None else algorithm.personal(params, memory())


def pass_of_task(algorithm: Algorithm, client: int, task: int, settings: Settings) -> Pass:
    """What a client trains in a task: its half of the algorithm, or what tunes its model before an evaluation."""
    tuning = algorithm.tune(client) if task < 0 and algorithm.tune is not None else None
    return algorithm.local(client, settings) if tuning is None else tuning


def tuning_job(algorithm: Algorithm, client: int, key: int, seed: int, model: Tree, rows: Ints) -> Job | None:
    """The job that tunes a client's model on its own training rows; None where the algorithm asks for none.

    Its task is negative, which addresses batches that no task of a round has.
    """
    local = None if algorithm.tune is None else algorithm.tune(client)
    if local is None or not len(rows):
        return None
    return Job(-1 - client, client, key, seed, Offer(model), local, rows)


def tune_models(execute: Executor, models: Sequence[Tree], jobs: Sequence[Job | None]) -> list[Tree]:
    """The models after their tuning jobs, trained together; a model without a job stays as it is."""
    reports = iter(execute.train([job for job in jobs if job is not None]) if any(jobs) else ())
    return [model if job is None else _moved(model, next(reports).update) for model, job in zip(models, jobs, strict=True)]


def _moved(model: Tree, update: Tree) -> Tree:
    return {n: v + update[n] if n in update and v.dtype.kind == "f" else v for n, v in model.items()}
