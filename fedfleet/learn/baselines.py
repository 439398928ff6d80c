"""The two bounds between which federated learning lies: all data in one place, and everyone alone."""

from __future__ import annotations

from dataclasses import replace

from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import KEPT
from fedfleet.core.records import Slots
from fedfleet.core.trees import Tree
from fedfleet.learn.composition import with_pass
from fedfleet.learn.folds import mean


def pool_data(algorithm: Algorithm) -> Algorithm:
    """The upper bound: one trainer holds all clients' training data.

    One task a round, at the server, at no cost of communication; [choose] and [pace] do not apply.
    """
    return replace(algorithm, name="centralized", pooled=True)


def share_nothing(algorithm: Algorithm) -> Algorithm:
    """The lower bound: every client trains its own model, and nothing travels.

    The clients' models live in their memory; read accuracy_clients, since no global model is learnt.
    """
    alone = with_pass(algorithm, "its parameters cannot be kept home", lambda inner: replace(inner, keep=_every_leaf))
    return replace(alone, name="local_only", cost=None, fold=mean(travels=_no_leaf), personal=own_leaves)


def own_leaves(params: Tree, memory: Slots) -> Tree:
    """The global model with the leaves that this client keeps at home."""
    return {**params, **memory.get(KEPT, {})}


def _every_leaf(_name: str) -> bool:
    return True


def _no_leaf(_name: str) -> bool:
    return False
