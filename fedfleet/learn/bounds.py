"""The two bounds between which federated learning lies: all data in one place, and everyone alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Algorithm, LocalPass
from fedfleet.core.records import Assignments, Cost, Ints, ServerState
from fedfleet.core.trees import Tree
from fedfleet.learn.folds import mean


def pooled(algorithm: Algorithm) -> Algorithm:
    """The upper bound: one trainer holds everybody's training data.

    One task a round, at the server, at no cost of communication; [choose] and [pace] do not apply.
    """
    return replace(algorithm, name="centralized", pooled=True)


def kept_home(algorithm: Algorithm) -> Algorithm:
    """The lower bound: every client trains its own model, and nothing travels.

    The clients' models live in their memory; read accuracy_clients, since no global model is learnt.
    """

    def local(client: int) -> LocalPass:
        inner = algorithm.local(client)
        if not isinstance(inner, LocalPass):
            raise BadInput(f"{algorithm.name} has an opaque local pass, so its parameters cannot be kept home")
        return replace(inner, keep=lambda name: True)

    def cost(server: ServerState, asked: Assignments, samples: Ints) -> Cost:
        nothing = np.zeros(len(asked.clients))
        return Cost(algorithm.cost(server, asked, samples).samples, nothing, nothing)

    def personal(params: Tree, memory: Tree) -> Tree:
        return {**params, **memory}

    return replace(
        algorithm,
        name="local_only",
        local=local,
        cost=cost,
        fold=mean(travels=lambda name: False),
        remembers=True,
        personal=personal,
    )
