"""Federated averaging: train locally, fold the deltas into their mean, add it to the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Bound, Count, Epochs, Fraction, NonNegative, Positive, Steps
from fedfleet.core.parts import Algorithm, Offer
from fedfleet.core.passes import BatchPlan, LocalPass
from fedfleet.core.records import ServerState, Settings
from fedfleet.learn import optimisers
from fedfleet.learn.folds import mean
from fedfleet.learn.optimisers import OptimiserName


def fedavg(
    *,
    lr: Positive = 0.1,
    epochs: Epochs = 2,
    steps: Steps | None = None,
    batch: Count = 16,
    optimiser: OptimiserName = "sgd",
    momentum: Fraction = 0.0,
    weight_decay: NonNegative = 0.0,
    weigh: Literal["samples", "one"] = "samples",
    max_samples: Count | None = None,
    bound: Bound = 2.0**10,
) -> Algorithm:
    """FedAvg: local SGD (or Adam, AdamW) for some epochs or steps, then the mean of the updates, by samples or plain.

    McMahan et al. 2017. `steps` replaces `epochs` when given; `bound` limits each element of an update. With `max_samples` a client
    with more samples weighs as much as one that has so many, so that no client weighs more, whatever it holds or claims to hold;
    with weigh = "one" all weigh the same.
    """
    if momentum and optimiser != "sgd":
        raise BadInput(f"momentum belongs to sgd; {optimiser} has its own, so leave momentum at 0")
    if max_samples is not None and weigh == "one":
        raise BadInput('max_samples limits weights by samples, and with weigh = "one" every report weighs 1; leave one of them out')
    local = LocalPass(
        optimisers.build_optimiser(optimiser, momentum=momentum, weight_decay=weight_decay),
        BatchPlan(batch, epochs, steps),
        rate=lr,
        weigh=weigh,
        max_samples=max_samples,
    )
    return Algorithm(
        name="fedavg",
        init=ServerState,
        offer=whole_model(),
        local=lambda client, settings: local,
        fold=mean(bound=bound),
        apply=add_to_model,
    )


def whole_model() -> Callable[[ServerState, int, Settings], Offer]:
    """The `offer` of the model as it is, the same object as long as the model is, so that a cohort trains in one stack."""
    newest = [Offer({})]

    def offer(server: ServerState, _client: int, _settings: Settings) -> Offer:
        if newest[0].params is not server.params:
            newest[0] = Offer(server.params)
        return newest[0]

    return offer


def add_to_model(server: ServerState, aggregate: Aggregate) -> ServerState:
    """The model plus the mean update; leaves that do not travel stay."""
    change = aggregate.mean
    return ServerState({n: v + change[n] if n in change else v for n, v in server.params.items()}, server.extra)
