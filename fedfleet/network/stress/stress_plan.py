"""What a stress run serves: a model of any size, clients that would train nothing, an exact mean (FS-REAL's protocol).

Rounds are synchronous over all clients, or FedBuff's over a share of them. The plan is made without torch, and alike in the
server and in the load generators: these send one and the same update all the time, which the server cannot know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedfleet.choose.uniform import uniform
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm, Dataset, Job, Plan
from fedfleet.core.records import Assignments, Cost, Ints, Report, ServerState, Stop
from fedfleet.core.tensor_format import pack_tree
from fedfleet.core.trees import Tree
from fedfleet.learn.fedavg import add_to_model, whole_model
from fedfleet.learn.folds import mean
from fedfleet.pace.asynchronous import buffered
from fedfleet.pace.rounds import readiness

Mode = Literal["sync", "fedbuff"]
SAMPLES = 10  # that each client claims to hold
STEP = 2.0**-10  # of every element of an update: exact in any order and number
_SHARES = (0.5, 0.25, 0.125)  # of the elements, by leaf; the last leaf has the rest
_LEAST_BYTES = 16
_BREAK = 0.001  # seconds between rounds


@dataclass(frozen=True, slots=True)
class Dummy:
    """What decides the plan of a stress run."""

    clients: int
    payload_bytes: int
    rounds: int
    mode: Mode = "sync"
    buffer: int = 0  # reports of a FedBuff commit; 0: a tenth of the clients

    @property
    def per_commit(self) -> int:
        """How many reports make a model."""
        return self.clients if self.mode == "sync" else min(self.clients, self.buffer or max(1, self.clients // 10))


def dummy_plan(dummy: Dummy) -> Plan:
    """The plan of a stress run: all clients a round, or FedBuff with a fifth of them at work."""
    k = dummy.per_commit
    if dummy.mode == "sync":
        pace = readiness(dummy.clients, t_break=_BREAK, min_clients=min(2, dummy.clients))
    else:
        concurrency = min(dummy.clients, 2 * k)
        pace = buffered(k=k, concurrency=concurrency, refill=_BREAK, batch=max(1, concurrency // 100))
    return Plan(
        seed=1,
        algorithm=_idle_algorithm(),
        choose=uniform(),
        pace=pace,
        stop=Stop(rounds=dummy.rounds, commits=dummy.rounds, evaluate_every=dummy.rounds + 1),
        params=dummy_params(dummy.payload_bytes),
        clients=dummy.clients,
    )


def check_bytes(nbytes: int) -> None:
    """Refuse a payload that cannot be made of floats."""
    if nbytes < _LEAST_BYTES or nbytes % 4:
        raise BadInput(
            f"--payload-bytes: {nbytes} bytes cannot be filled with float32 numbers; give a multiple of 4, at least {_LEAST_BYTES}"
        )


def dummy_params(nbytes: int) -> Tree:
    """Zeros in four leaves of float32, of so many bytes in all.

    >>> sum(leaf.nbytes for leaf in dummy_params(1000).values())
    1000
    """
    check_bytes(nbytes)
    elements = nbytes // 4
    counts = [int(elements * share) for share in _SHARES]
    counts.append(elements - sum(counts))
    return {f"layer{i}.weight": np.zeros(n, np.float32) for i, n in enumerate(counts)}


def dummy_update(nbytes: int) -> bytes:
    """The report that every client sends, as it travels."""
    return pack_tree({name: leaf + np.float32(STEP) for name, leaf in dummy_params(nbytes).items()})


def _idle_algorithm() -> Algorithm:
    """An algorithm whose local half is never carried out where updates are invented."""

    def local(job: Job, dataset: Dataset) -> Report:
        del dataset
        update = {name: leaf * 0 + np.float32(STEP) for name, leaf in job.offer.params.items()}
        return Report(job.task, job.client, update, 1.0, {})

    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        size = np.full(len(asked.clients), float(sum(leaf.nbytes for leaf in server.params.values())))
        return Cost(np.asarray(asked.share * samples, np.float64), size, size)

    return Algorithm(
        name="stress",
        init=ServerState,
        offer=whole_model(),
        local=lambda client, settings: local,
        fold=mean(),
        apply=add_to_model,
        cost=cost,
    )
