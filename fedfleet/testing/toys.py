"""Toy methods without torch: exact on every machine, for golden journals, laws and the benchmark of the engine."""

from __future__ import annotations

import numpy as np

from fedfleet.core.parts import Algorithm, Dataset, Executor, Job
from fedfleet.core.records import Assignments, Cost, Floats, Ints, Report, Score, ServerState
from fedfleet.core.rng import uniforms
from fedfleet.core.sources import DataSource, Split
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.learn.fedavg import add_to_model, whole_model
from fedfleet.learn.folds import mean

NOTHING: Tree = {}
_NO_ROWS: Ints = np.zeros(0, np.int64)
_NO_STATS: dict[str, float] = {}


def idle(*, samples: float = 10.0, model_bytes: float = 1e6) -> Algorithm:
    """An algorithm that trains nothing: what remains is the cost of the engine itself."""

    def local(job: Job, dataset: Dataset) -> Report:
        del dataset
        return Report(job.task, job.client, NOTHING, 1.0, _NO_STATS)

    return Algorithm(
        name="idle",
        init=ServerState,
        offer=whole_model(),
        local=lambda client, settings: local,
        cost=constant_cost(samples, model_bytes),
        fold=mean(),
        apply=add_to_model,
    )


def consensus(*, remembers: bool = False, model_bytes: float | None = None) -> Algorithm:
    """Each client pulls the model halfway to a vector of its own, in exact dyadic arithmetic.

    With `remembers`, a client also counts its folded reports in its memory and reports the count.
    """

    def local(job: Job, dataset: Dataset) -> Report:
        del dataset
        home = np.round(uniforms(job.seed, "home", np.full(4, job.key, np.uint64), np.arange(4)) * 256) / 256
        update = {"w": ((home - job.offer.params["w"]) / 2).astype(np.float32)}
        count = (job.memory["toy"]["count"] if job.memory else np.zeros(1)) + 1
        remembered = {"toy": {"count": count}} if remembers else None
        return Report(job.task, job.client, update, 1.0, {"loss": float(count[0])}, remembered)

    def cost(server: ServerState, assignments: Assignments, samples: Ints) -> Cost:
        size = np.full(
            len(assignments.clients), float(tree_nbytes(server.params)) if model_bytes is None else model_bytes
        )
        return Cost(np.asarray(assignments.share * samples, np.float64), size, size)

    return Algorithm(
        name="consensus",
        init=ServerState,
        offer=whole_model(),
        local=lambda client, settings: local,
        cost=cost,
        fold=mean(total_weight=2.0**12),
        apply=add_to_model,
        personal=(lambda params, memory: {**params, **memory.get("toy", {})}) if remembers else None,
    )


def consensus_start() -> Tree:
    """The first model of `consensus`."""
    return {"w": np.zeros(4, np.float32)}


def constant_cost(samples: float, model_bytes: float):
    """The same cost for every task."""

    def cost(server: ServerState, assignments: Assignments, sizes: Ints) -> Cost:
        del server, sizes
        n = len(assignments.clients)
        size: Floats = np.full(n, model_bytes)
        return Cost(np.full(n, samples), size, size)

    return cost


def no_data(clients: int, samples: int = 10) -> DataSource:
    """Clients that claim to hold samples, for methods that look at none."""
    sizes = np.full(clients, samples, np.int64)

    def shard(client: int, split: Split, round: int) -> Ints:
        del client, split, round
        return _NO_ROWS

    return DataSource(shard, lambda round: sizes, _NO_ROWS, _NO_ROWS)


def opaque_executor() -> Executor:
    """The literal executor for opaque passes, without torch; evaluation counts nothing."""
    dataset = Dataset(np.zeros((0, 1), np.float32), np.zeros(0, np.int64), 1)
    nothing = Score(0, 0, 0.0)

    def train(jobs):
        return (job.local(job, dataset) for job in jobs)

    return Executor("opaque", train, lambda trials: [nothing for _ in trials])
