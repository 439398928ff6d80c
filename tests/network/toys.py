"""Plans without torch for real servers: what a toy device computes, and what the same plan gives in simulation.

A toy is named by plain numbers, so that it can be told to a server process on its command line.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core.aggregation import Aggregate
from fedfleet.core.events import ModelCommitted
from fedfleet.core.noise import Noise
from fedfleet.core.parts import Algorithm, Dataset, Job, Offer, Plan, Policy
from fedfleet.core.records import Assignments, Cost, Ints, Report, ServerState, Stop
from fedfleet.core.rng import client_keys, uniforms
from fedfleet.core.room import with_room
from fedfleet.core.sources import Split, World
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.learn.fedavg import add_to_model, whole_model
from fedfleet.learn.folds import mean
from fedfleet.pace.asynchronous import buffered
from fedfleet.pace.rounds import deadline, readiness
from fedfleet.store.noise_source import SEEDED, NoiseSource
from tests.worlds import even_fleet, events_of, world_of

NOISE_KEY = bytes(range(32))
SAMPLES = 10  # that every client claims to hold
REFILL = 0.05  # seconds that an asynchronous server pauses between waves, for which a test that wants work has to wait
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Toy:
    """The numbers of a toy plan. `width` is the length of its one leaf; `cohort` 0: everybody, `seconds` 0: no deadline."""

    clients: int = 4
    cohort: int = 0
    rounds: int = 3
    width: int = 4
    seed: int = 3
    t_break: float = 0.01
    seconds: float = 0.0
    min_clients: int = 1
    buffer: int = 0  # commit at so many reports, `cohort` tasks running: asynchronous
    slow_seconds: float = 0.0  # that making a model takes
    collects: bool = False  # the fold needs all reports at once
    noise: float = 0.0  # in every sum, from a secret; updates are clipped then
    room: bool = False  # the sums are divided among the reports of a commit, as in a plan of a spec

    @property
    def asked(self) -> int:
        """How many clients a round wants."""
        return self.cohort or self.clients


def to_text(toy: Toy) -> str:
    """The toy as one word."""
    return json.dumps(asdict(toy))


def from_text(text: str) -> Toy:
    """The inverse of `to_text`."""
    return Toy(**json.loads(text))


def plan_of(toy: Toy) -> Plan:
    """What a server runs."""
    start, algorithm, pace = {"w": np.zeros(toy.width, np.float32)}, _pulling(toy), _pace(toy)
    if toy.room:
        algorithm = with_room(algorithm, pace, toy.clients, world_for(toy).data.sizes(0))
    return Plan(toy.seed, algorithm, uniform(), pace, Stop(rounds=toy.rounds), start, toy.clients, spec_digest="toy")


def world_for(toy: Toy) -> World:
    """A fleet that is always there; each device can judge on five samples."""
    world = world_of(even_fleet(toy.clients))

    def shard(client: int, split: Split, round: int) -> Ints:
        return np.arange(5) if split == "test" else world.data.shard(client, split, round)

    return replace(world, data=replace(world.data, shard=shard))


def reference(toy: Toy) -> tuple[list[str], Tree]:
    """The names of all models that the plan makes in simulation, and the last of them."""
    quick = replace(toy, slow_seconds=0.0)
    events, end = events_of(plan_of(quick), world_for(quick), noising=noising_of(quick))
    return [str(e.model_hash) for e in events if isinstance(e, ModelCommitted)], end.state.server.params


def noising_of(toy: Toy, folder: Path | None = None) -> NoiseSource:
    """Where the noise of a toy comes from; with noise, its aggregates are kept in this folder."""
    return NoiseSource(NOISE_KEY, folder) if toy.noise else SEEDED


def worked(toy: Toy, client: int, task: int, model: bytes) -> Report:
    """What an honest device makes of a task that came with this model."""
    offer = Offer(unpack_tree(model))
    key = int(client_keys(toy.clients)[client])
    return _local(Job(task, client, key, toy.seed, offer, _local, _NO_ROWS), None)


def payload_of(report: Report) -> bytes:
    """The bytes of a report's tensors as they travel."""
    return pack_tree(report.update)


def _local(job: Job, dataset: Dataset | None) -> Report:
    """Halfway to a place of its own: other numbers for every task, so that a lost or doubled one shows in the model."""
    del dataset
    start = job.offer.params["w"]
    at = np.arange(len(start))
    home = uniforms(job.seed, "home", np.full(len(start), job.key, np.uint64), at, np.full(len(start), job.task))
    update = {"w": ((np.round(home * 256) / 256 - start) / 2).astype(np.float32)}
    return Report(job.task, job.client, update, 1.0 + job.client % 3, {"loss": 1.0})


def _pulling(toy: Toy) -> Algorithm:
    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        size = np.full(len(asked.clients), float(tree_nbytes(server.params)))
        return Cost(np.asarray(asked.share * samples, np.float64), size, size)

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        if toy.slow_seconds:
            time.sleep(toy.slow_seconds)
        return add_to_model(server, aggregate)

    fold = mean(total_weight=2.0**12)
    if toy.collects:
        fold = replace(fold, combine=_weighed)
    if toy.noise:
        fold = replace(fold, noise=Noise(toy.noise), clip=1.0, denominator=float(toy.asked))
    return Algorithm(
        name="pulling",
        init=ServerState,
        offer=whole_model(),
        local=lambda client, settings: _local,
        cost=cost,
        fold=fold,
        apply=apply,
    )


def _weighed(inside: Any) -> Tree:
    """The middle of all reports, element by element: it needs all of them."""
    return {"w": np.median(np.stack([r.update["w"] for r, _ in inside]), axis=0).astype(np.float32)}


def _pace(toy: Toy) -> Policy:
    if toy.buffer:
        return buffered(k=toy.buffer, concurrency=toy.asked, refill=REFILL)
    if toy.seconds:
        return deadline(toy.asked, seconds=toy.seconds, t_break=toy.t_break, min_clients=toy.min_clients)
    return readiness(toy.asked, t_break=toy.t_break, min_clients=toy.min_clients)
