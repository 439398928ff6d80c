"""Toy methods without torch, exact on every machine, and small worlds of every kind: in them checks let the real engine run.

Golden journals, laws and the benchmark of the engine use them too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Fold
from fedfleet.core.decoders import StackDecoder
from fedfleet.core.edges import UserSource
from fedfleet.core.exact import weight_units
from fedfleet.core.parts import Algorithm, Dataset, Executor, FoldResult, Job
from fedfleet.core.quorum import earliest_by_polling
from fedfleet.core.records import Assignments, Bools, Context, Cost, Floats, Ints, Keys, Report, Score, ServerState
from fedfleet.core.rng import client_keys, hash_keys, uniforms
from fedfleet.core.sources import DataSource, DeviceSource, Split, StateSource, World
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.learn.fedavg import add_to_model, whole_model
from fedfleet.learn.folds import mean
from fedfleet.world.faults import FaultRecipe, all_of, crashes, delayed, lossy, outages, reachable_states, repeated, slowed

NOTHING: Tree = {}
_NO_ROWS: Ints = np.zeros(0, np.int64)
_NO_STATS: dict[str, float] = {}


def idle(*, samples: float = 10.0, model_bytes: float = 1e6) -> Algorithm:
    """An algorithm that trains nothing: what remains is the cost of the engine itself."""

    def local(job: Job, dataset: Dataset) -> Report:
        del dataset
        return Report(job.task, job.client, NOTHING, 1.0, _NO_STATS)

    half, cost = (lambda client, settings: local), constant_cost(samples, model_bytes)
    return Algorithm("idle", ServerState, whole_model(), half, fold=mean(), apply=add_to_model, cost=cost)


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
        size = np.full(len(assignments.clients), float(tree_nbytes(server.params)) if model_bytes is None else model_bytes)
        return Cost(np.asarray(assignments.share * samples, np.float64), size, size)

    half, fold = (lambda client, settings: local), mean(total_weight=2.0**12)
    personal = (lambda params, memory: {**params, **memory.get("toy", {})}) if remembers else None
    return Algorithm("consensus", ServerState, whole_model(), half, fold=fold, apply=add_to_model, cost=cost, personal=personal)


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


def idle_executor() -> Executor:
    """An executor for `idle` that makes no reports: each counts with weight 1, as if it had come."""
    opaque = opaque_executor()

    def fold(
        jobs: Sequence[Job], contexts: Sequence[Context], rule: Fold, server: ServerState, decode: StackDecoder | None = None, /
    ) -> FoldResult:
        del decode
        acc, tasks = aggregation.zero(rule, server), np.array([context.task for context in contexts], np.int64)
        total = aggregation.sum_for(acc, "")
        total.weight, total.count = len(jobs) * weight_units(1.0), len(jobs)
        return FoldResult(acc, tasks, {}, ())

    return replace(opaque, name="idle", fold=fold)


@dataclass(frozen=True, slots=True)
class TrialWorld:
    """A world by its name. `answers`: everyone who is asked reports in the end, so that rounds must succeed. `alike`: nobody is
    faster than others, so that there is no reason to leave anybody out."""

    name: str
    world: World
    answers: bool
    alike: bool = False


def trial_worlds(clients: int) -> tuple[TrialWorld, ...]:
    """Every kind of world that a selector or a policy has to live in."""
    ragged = 1.0 + hash_keys(1, "seconds", client_keys(clients)).astype(np.float64) % 97
    late = all_of([delayed(share=0.5, seconds=20.0), repeated(share=0.5, seconds=30.0), slowed(share=0.5, factor=2.0)])
    noticed = lossy(download=0.1, compute=0.1, upload=0.1, noticed=True)
    down = all_of([lossy(), noticed, crashes(rate=0.2, seconds=120.0, period=600.0), outages(rate=0.3, seconds=300.0)])
    some_lost = np.where(np.arange(clients) % 3 == 0, math.inf, ragged)
    return (
        TrialWorld("everyone is there, at unlike speeds", _world(ragged), answers=True),
        TrialWorld("everyone is there and equally fast", _world(np.full(clients, 8.0)), answers=True, alike=True),
        TrialWorld("clients come and go", _world(ragged, comes_and_goes=True), answers=True),
        TrialWorld("a third of the devices cannot do the work", _world(some_lost), answers=False),
        TrialWorld("nobody can do the work", _world(np.full(clients, math.inf)), answers=False),
        TrialWorld("nobody ever reports", _world(np.full(clients, 1e15)), answers=False),
        TrialWorld("nobody is online", _world(ragged, there=False), answers=False),
        TrialWorld("there is one client", _world(ragged[:1]), answers=False),
        TrialWorld("reports come late and twice, from slow devices", _with_faults(_world(ragged), late), answers=True),
        TrialWorld("tasks are lost and clients go down", _with_faults(_world(ragged), down), answers=False),
    )


def _with_faults(world: World, faults: FaultRecipe) -> World:
    """The same world, in which things go wrong."""
    fault_source = faults(world.keys, 1)
    return replace(world, states=reachable_states(world.states, fault_source), faults=fault_source)


def renamed_worlds(clients: int) -> tuple[World, World, Ints]:
    """A world in which everyone is there, the same one with its clients in another order, and who is who: old index by new."""
    keys = client_keys(clients)
    order = np.argsort(hash_keys(3, "renamed", keys), kind="stable")
    ragged = 1.0 + hash_keys(1, "seconds", keys).astype(np.float64) % 97
    users = np.arange(clients, dtype=np.int64) // 2
    return _world(ragged), _world(ragged[order], keys=keys[order], users=users[order]), order


def _world(
    shortest: Floats, *, there: bool = True, comes_and_goes: bool = False, keys: Keys | None = None, users: Ints | None = None
) -> World:
    n = len(shortest)
    keys = client_keys(n) if keys is None else keys

    def seconds(clients: Ints, cost: Cost, start: float, tasks: Ints) -> Floats:
        del cost, start
        return shortest[clients] * (1.0 + (tasks % 3 if comes_and_goes else 0))

    def online(time: float) -> Bools:
        if not comes_and_goes:
            return np.full(n, there)
        return (np.arange(n) + int(time // 60)) % 4 > 0  # a quarter of them is away at any time

    def finish(clients: Ints, start: float, seconds: Floats) -> Floats:
        del clients
        return start + seconds

    earliest = earliest_by_polling(online, 60.0, repeats=240.0)
    owners = UserSource(np.arange(n, dtype=np.int64) // 2 if users is None else users)
    return World(keys, DeviceSource(seconds, ["toy"] * n), StateSource(online, finish, earliest), no_data(n), owners)
