"""Conformance of the server's half: what is done with an aggregate follows from it and from the state alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.errors import FedFleetError
from fedfleet.core.parts import Algorithm
from fedfleet.core.records import ServerState
from fedfleet.core.rng import stream
from fedfleet.core.tensor_format import pack_tree, unpack_tree
from fedfleet.core.trees import Array, Tree, mismatch, tree_map
from fedfleet.testing.conformance import CheckLog, fingerprint
from fedfleet.testing.surroundings import Surroundings

_COMMITS = 12  # so many that what counts calls in secret comes to another count


def check_server(algorithm: Algorithm, server: ServerState, aggregate: Aggregate, log: CheckLog) -> ServerState:
    """Every commit follows from state and aggregate; the model keeps names, shapes and types; the state survives a checkpoint."""
    before, given = fingerprint(server), fingerprint(aggregate)
    around = Surroundings(algorithm)
    with around(1, leaves_generators="apply"):
        after = apply(algorithm, server, aggregate)
    assert fingerprint(server) == before, (
        "apply must not change the state it was given: it writes into an array or a dict of it; copy first"
    )
    assert fingerprint(aggregate) == given, "apply must not change the aggregate that it was given; copy an array before you write"
    check_state(server, after)
    with around(2, leaves_generators="apply"):
        again = apply(algorithm, server, aggregate)
    assert fingerprint(again) == fingerprint(after), (
        "the same state and aggregate must give the same model every time, and give another one when asked again: what a rule "
        "remembers belongs in ServerState.extra, randomness has an address (core.rng.stream), and there is no clock"
    )
    log.answer(after)
    log.checked("apply changes nothing that it is given, and keeps the names, shapes and types of the model")
    _check_chain(algorithm, server, aggregate, around, log)
    still = apply(algorithm, server, _with_values(aggregate, lambda v: np.zeros_like(v)))
    assert all(np.isfinite(v).all() for v in still.params.values()), (
        "where no client changed anything the new model must be finite: a rule that divides by a norm needs a floor"
    )
    _check_broadcast(algorithm, server, aggregate)
    log.checked("an aggregate of zeros gives a finite model, and no step is broadcast over a leaf")
    if algorithm.tick is not None:
        assert fingerprint(algorithm.tick(server)) == fingerprint(algorithm.tick(server)), "the same state must tick the same"
    assert fingerprint(server) == before, "what the server computes must not change a state that it was given before"
    return after


def apply(algorithm: Algorithm, server: ServerState, aggregate: Aggregate) -> ServerState:
    """The next state; what FedFleet refuses is a rule that was broken."""
    try:
        return algorithm.apply(server, aggregate)
    except FedFleetError as error:
        raise AssertionError(f"apply must accept an aggregate of healthy reports: {error}") from error


def check_state(server: ServerState, after: ServerState) -> None:
    """The model is of the same shapes and types, and finite; all else are named arrays."""
    for what, tree in (("params", after.params), ("extra", after.extra)):
        for name, leaf in tree.items():
            assert isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biuf", (
                f"{what}[{name!r}] of the server's state must be an array of numbers, and is {type(leaf).__name__}; only arrays "
                "are kept in a checkpoint: np.asarray(..)"
            )
    odd = mismatch(after.params, server.params)
    assert odd is None, (
        f"the new model must have the names, shapes and types of the old one, and {odd}; "
        "multiply arrays by float(..), since a numpy number turns float32 into float64"
    )
    assert all(np.isfinite(v).all() for v in after.params.values()), "the new model must be finite"


def _check_chain(algorithm: Algorithm, server: ServerState, aggregate: Aggregate, around: Surroundings, log: CheckLog) -> None:
    """Some commits, twice: the second time the state goes through a checkpoint before each of them."""
    aggregates = [aggregate, _with_values(aggregate, lambda v: v * np.float32(-0.5))]
    states = [server]
    with around(3):
        for commit in range(_COMMITS):
            states.append(apply(algorithm, states[-1], aggregates[commit % 2]))
    for commit, (one, expected) in enumerate(pairwise(states)):
        thawed = ServerState(unpack_tree(pack_tree(one.params)), unpack_tree(pack_tree(one.extra)))
        with around(4 + commit):
            result = apply(algorithm, thawed, aggregates[commit % 2])
            assert fingerprint(result) == fingerprint(expected), (
                f"commit {commit + 1} from a saved state must give the model that it gave without saving, at any time: a run that "
                "was resumed would go another way; put all that the rule remembers into ServerState.extra"
            )
    log.answer(states[-1])
    log.checked("twelve commits give the same models again, each from a state that was saved and loaded")


def _check_broadcast(algorithm: Algorithm, server: ServerState, aggregate: Aggregate) -> None:
    """Elements that differ in the aggregate may not all get the same step: then something was broadcast."""
    rng = stream(5, "check broadcast")
    noise = _with_values(aggregate, lambda v: (rng.standard_normal(v.shape) * 0.01).astype(v.dtype))
    check_state(server, apply(algorithm, server, _with_values(noise, lambda v: v * np.float32(100.0))))
    nothing = replace(server, params=tree_map(np.zeros_like, server.params))
    after = apply(algorithm, nothing, noise)
    for name, change in after.params.items():
        mean = noise.mean.get(name)
        if mean is None or mean.shape != change.shape or not change.any():
            continue
        for axis, length in enumerate(change.shape):
            flat = length > 2 and not np.ptp(change, axis).any()
            assert not flat or not np.ptp(mean, axis).any(), (
                f"leaf {name!r}, of shape {change.shape}, gets the same step all along axis {axis}, where the aggregate differs: a "
                "step of another shape was broadcast; give one number for each element"
            )


def _with_values(aggregate: Aggregate, change: Callable[[Array], Array]) -> Aggregate:
    """The aggregate with other values in all floating leaves."""

    def changed(tree: Tree) -> Tree:
        return {n: change(v) if np.issubdtype(v.dtype, np.floating) else v for n, v in tree.items()}

    sums = {name: replace(mean, tree=changed(mean.tree)) for name, mean in aggregate.sums.items()}
    plain = sums[""].tree if "" in sums else changed(aggregate.mean)
    return replace(aggregate, mean=plain, sums=sums)
