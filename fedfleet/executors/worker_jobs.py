"""Jobs as plain data, and what a worker process does with them. Nothing here knows who carries parcels to and fro.

A parcel holds no code: the worker rebuilds algorithm and task from a text (a spec), once per process, and keeps them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from fedfleet.core.errors import FedFleetError, RunFailed
from fedfleet.core.parts import Algorithm, Executor, Job, Offer, Trial
from fedfleet.core.records import Ints, Report, Settings, Slots
from fedfleet.core.trees import Tree, tree_map
from fedfleet.executors.personal_model import pass_of_task

# What a recipe's function makes of its text: the algorithm, whose client's half is wanted, and an executor right here.
Rebuild = Callable[[str], tuple[Algorithm, Executor]]


def versions() -> tuple[tuple[str, str], ...]:
    """What decides the bits of a run and must be the same wherever it computes."""

    def version_of(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "missing"

    return tuple((name, version_of(name)) for name in ("fedfleet", "numpy", "torch"))


def check_versions(expected: tuple[tuple[str, str], ...]) -> None:
    """Refuse to compute with something else than the one who asks."""
    for (name, wanted_version), (_, own_version) in zip(expected, versions(), strict=True):
        if wanted_version != own_version:
            raise RunFailed(
                f"this worker has {name} {own_version}, but the run began with {wanted_version}; install the same version "
                "everywhere"
            )


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a worker comes by algorithm and task: a `Rebuild` as importable "module:function", and the text it is given."""

    rebuild: str
    text: str
    versions: tuple[tuple[str, str], ...] = field(default_factory=versions)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A job without its code and without what was offered, which travels beside it, once for many."""

    task: int
    client: int
    key: int
    seed: int
    rows: Ints
    steps: int
    memory: Slots
    settings: Settings

    @property
    def name(self) -> str:
        """Whom it concerns."""
        return f"client {self.client}, task {self.task}"


@dataclass(frozen=True, slots=True)
class TrialParcel:
    """A trial without its parameters; `place` counts the trials of one evaluation."""

    place: int
    rows: Ints
    measured: bool = False

    @property
    def name(self) -> str:
        """Whom it concerns."""
        return f"evaluation {self.place}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a chunk of parcels gave, in order; or one sentence that says why not, and the calls that led there."""

    results: list[Any]
    failure: str = ""
    trace: str = ""


def to_parcel(job: Job) -> Parcel:
    """The plain data of a job."""
    return Parcel(job.task, job.client, job.key, job.seed, job.rows, job.steps, job.memory, job.settings)


def without_encoder(offer: Offer) -> Offer:
    """The offer as it arrived, without the way to encode it again, which is code."""
    return offer if offer.encoded is None else Offer(offer.params, offer.extra, offer.nbytes)


def copy_report(report: Report) -> Report:
    """The report with arrays of its own: views into what a chunk came in would keep the whole chunk alive."""
    memory = None if report.memory is None else {slot: tree_map(np.array, tree) for slot, tree in report.memory.items()}
    return replace(report, update=tree_map(np.array, report.update), memory=memory)


# ---- in the worker ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def rebuild_parts(recipe: Recipe) -> tuple[Algorithm, Executor]:
    """Algorithm and executor of a recipe, made when a process first needs them and then kept."""
    check_versions(recipe.versions)
    module, _, function = recipe.rebuild.partition(":")
    return getattr(import_module(module), function)(recipe.text)


def train_chunk(recipe: Recipe, parcels: Sequence[Parcel], indices: Sequence[int], *offers: Offer) -> Answer:
    """Train parcels, one after the other unless the executor wants them together; `indices` say for each what was offered."""
    reports: list[Any] = []
    name = "a worker could not rebuild the spec"
    try:
        algorithm, executor = rebuild_parts(recipe)
        if executor.together:
            name = f"{parcels[0].name} and {len(parcels) - 1} more"
            jobs = [_to_job(parcel, offers[i], algorithm) for parcel, i in zip(parcels, indices, strict=True)]
            return Answer(list(executor.train(jobs)))
        for parcel, i in zip(parcels, indices, strict=True):
            name = parcel.name
            reports.extend(executor.train([_to_job(parcel, offers[i], algorithm)]))
    except Exception as error:
        return _failure_answer(name, error)
    return Answer(reports)


def score_chunk(recipe: Recipe, parcels: Sequence[TrialParcel], indices: Sequence[int], *trees: Tree) -> Answer:
    """Evaluate one after the other; `indices` say for each with which parameters."""
    name = "a worker could not rebuild the spec"
    try:
        executor = rebuild_parts(recipe)[1]
        name = f"from {parcels[0].name} on"
        # What comes out of shared memory cannot be written to, and torch complains about such rows.
        trials = [Trial(trees[i], np.array(parcel.rows), parcel.measured) for parcel, i in zip(parcels, indices, strict=True)]
        return Answer(list(executor.evaluate(trials)))
    except Exception as error:
        return _failure_answer(name, error)


def _to_job(parcel: Parcel, offer: Offer, algorithm: Algorithm) -> Job:
    return Job(
        task=parcel.task,
        client=parcel.client,
        key=parcel.key,
        seed=parcel.seed,
        offer=offer,
        local=pass_of_task(algorithm, parcel.client, parcel.task, parcel.settings),
        rows=parcel.rows,
        steps=parcel.steps,
        memory=parcel.memory,
        settings=parcel.settings,
    )


def _failure_answer(name: str, error: Exception) -> Answer:
    """An answer that names the client and the task, unless the error already does."""
    text = str(error) if isinstance(error, FedFleetError) else f"{type(error).__name__}: {error}"
    return Answer([], text if text.startswith(name) else f"{name}: {text}", traceback.format_exc())
