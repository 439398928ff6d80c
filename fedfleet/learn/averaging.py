"""Federated averaging: train locally, fold the deltas into their mean, add it to the model."""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Fraction, NonNegative, Positive
from fedfleet.core.parts import Algorithm, BatchPlan, LocalPass
from fedfleet.core.records import Assignments, Cost, Ints, ServerState
from fedfleet.core.trees import Tree, tree_nbytes
from fedfleet.learn import optimisers
from fedfleet.learn.folds import mean
from fedfleet.learn.optimisers import OptimiserName


def fedavg(
    *,
    lr: Positive = 0.1,
    epochs: Count = 2,
    steps: Count | None = None,
    batch: Count = 16,
    optimiser: OptimiserName = "sgd",
    momentum: Fraction = 0.0,
    weight_decay: NonNegative = 0.0,
    weigh: Literal["samples", "one"] = "samples",
    bound: Positive = 2.0**10,
) -> Algorithm:
    """FedAvg: local SGD (or Adam, AdamW) for some epochs or steps, then the mean of the updates, by samples or plain.

    McMahan et al. 2017. `steps` replaces `epochs` when given; `bound` limits each element of an update.
    """
    if momentum and optimiser != "sgd":
        raise BadInput(f"momentum belongs to sgd; {optimiser} has its own, so leave momentum at 0")
    local = LocalPass(
        optimisers.named(optimiser, lr, momentum=momentum, weight_decay=weight_decay),
        BatchPlan(batch, epochs, steps),
        weigh=weigh,
    )
    return Algorithm(
        name="fedavg",
        init=ServerState,
        offer=lambda server, client: server.params,
        local=lambda client: local,
        cost=full_model_cost(local.batches),
        fold=mean(bound=bound),
        apply=add_to_model,
    )


def add_to_model(server: ServerState, aggregate: Tree) -> ServerState:
    """The model plus the mean update; leaves that do not travel stay."""
    return ServerState({n: v + aggregate[n] if n in aggregate else v for n, v in server.params.items()}, server.extra)


def full_model_cost(batches: BatchPlan):
    """Cost when the whole model goes down and up and every sample of the plan is processed."""

    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        n = len(asked.clients)
        size = np.full(n, float(tree_nbytes(server.params)))
        return Cost(samples_processed(batches, asked, samples), size, size)

    return cost


def samples_processed(batches: BatchPlan, asked: Assignments, samples: Ints) -> np.ndarray:
    """How many samples each assignment trains on, repetitions counted."""
    shard = np.ceil(asked.share * samples)
    steps = np.where(asked.steps > 0, asked.steps, batches.steps or 0)
    # The last batch of a pass is short, so that whole passes are counted by the shard and only the rest by batches.
    passes, rest = np.divmod(steps, np.maximum(np.ceil(shard / batches.size), 1.0))
    return np.where(steps > 0, passes * shard + rest * batches.size, batches.epochs * shard)
