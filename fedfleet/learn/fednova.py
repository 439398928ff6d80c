"""Normalised averaging: clients that take many steps must not pull the model harder than those that take few."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import NO_SETTINGS, After, LocalPass, Passed, ProximalTerm
from fedfleet.core.records import Floats, ServerState
from fedfleet.core.trees import Tree
from fedfleet.learn.composition import split_aggregate, with_pass
from fedfleet.learn.drift_correction import weights_of
from fedfleet.learn.leaves import column, is_floating
from fedfleet.learn.leaves import like as in_kind_of
from fedfleet.learn.server_optimisers import with_rule

_PREFIX = "walked/"
_INTACT_REASON = "sends with each update how far its training went"


def with_normalised_updates(algorithm: Algorithm) -> Algorithm:
    """FedNova: each update is divided by how far its client walks in its steps, a_k, and the mean multiplied by the mean a_k.

    Wang et al. 2020: w <- w + (sum_k p_k a_k) sum_k p_k (w_k - w) / a_k, where a_k = steps for plain SGD; momentum and FedProx's
    pull (`mu`) are counted in. With equal a_k it is FedAvg; with unlike ones FedAvg converges to a point that favours those
    who take many steps, and this does not. Running statistics are averaged plainly. One number more goes up.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> one = with_normalised_updates(fedavg())
    >>> sums = {"w": np.full(1, 0.5, np.float32), "walked/steps": np.full(1, 4.0, np.float32)}
    >>> one.apply(ServerState({"w": np.zeros(1, np.float32)}), Aggregate(sums, 1.0, 1)).params["w"].tolist()
    [2.0]
    """

    def like(server: ServerState) -> Tree:
        return {**algorithm.fold.like(server), _PREFIX + "steps": np.zeros(1, np.float32)}

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        model, lengths = split_aggregate(aggregate, _PREFIX)
        length = lengths["steps"]
        weights = weights_of(model.mean)
        rule = with_rule(algorithm, lambda state, mean: ({}, {n: length * v if n in weights else v for n, v in mean.items()}))
        return rule.apply(server, model)

    def add_division(local: LocalPass) -> LocalPass:
        linear = local.optimiser.linear
        if linear is None or local.then is not None:
            raise BadInput('fednova needs one pass of SGD, because it must know how far the steps go; set optimiser = "sgd"')
        pull = sum(term.mu for term in local.terms if isinstance(term, ProximalTerm))
        return replace(local, after=(*local.after, _division_hook(linear.momentum, pull)))

    result = with_pass(algorithm, "how far its clients walk is unknown", add_division)
    result.local(0, NO_SETTINGS)  # so that what cannot be normalised is refused before anything runs
    return replace(result, name="fednova", fold=replace(algorithm.fold, like=like, intact=_INTACT_REASON), apply=apply)


@cache
def _division_hook(momentum: float, pull: float) -> After:
    """The hook of these settings, one object for all clients: passes are compared by value."""

    def divide(passed: Passed) -> Passed:
        lengths = walk_lengths(passed.steps, momentum, pull * passed.rates)
        names = weights_of({n: np.empty(0, np.float32) for n, v in passed.update.items() if is_floating(v)})
        update = {n: v * column(1.0 / lengths, v) if n in names else v for n, v in passed.update.items()}
        floating = next(v for v in passed.update.values() if is_floating(v))
        return replace(passed, update={**update, _PREFIX + "steps": in_kind_of(lengths, floating).reshape(-1, 1)})

    return divide


def walk_lengths(steps: Floats, momentum: float, pull: Floats) -> Floats:
    """How far each client walks under a gradient of one, in learning rates: a_k of the paper, whatever the linear rule.

    >>> walk_lengths(np.array([3.0, 2.0]), 0.0, np.zeros(2)).tolist(), walk_lengths(np.array([3.0]), 0.5, np.zeros(1)).tolist()
    ([3.0, 2.0], [4.25])
    """
    lengths, speed = np.zeros(len(steps)), np.zeros(len(steps))
    for step in range(int(steps.max())):
        speed = momentum * speed + 1.0 - pull * lengths
        lengths = np.where(step < steps, lengths + speed, lengths)
    return lengths
