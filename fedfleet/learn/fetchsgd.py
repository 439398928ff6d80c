"""Sketches: updates go up as a small table that adds up as they do, and the server finds the large coordinates in the sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedfleet.core.aggregation import Aggregate
from fedfleet.core.limits import Count, Depth, Fraction, Positive
from fedfleet.core.memory_limit import check_memory
from fedfleet.core.part_facts import RunFacts
from fedfleet.core.parts import Algorithm
from fedfleet.core.passes import Passed
from fedfleet.core.records import ServerState
from fedfleet.core.rng import hash_keys
from fedfleet.core.trees import Array, Tree
from fedfleet.learn.composition import with_pass
from fedfleet.learn.leaves import is_floating, join

_BYTES = 16.0  # of memory for each number of a sketch, and for each row of each weight
_SKETCH, _MOMENTUM, _ERROR = "sketch", "sketch/momentum", "sketch/error"


def with_sketch(
    algorithm: Algorithm,
    *,
    rows: Depth = 3,
    columns: Count | None = None,
    k: Count | None = None,
    server_momentum: Fraction = 0.9,
    server_lr: Positive = 1.0,
    semantics: Literal["paper", "released"] = "released",
    facts: RunFacts,
) -> Algorithm:
    """FetchSGD: clients send a count sketch of their update; momentum and what was left out live at the server, as sketches.

    Rothchild et al. 2020, on the updates of local passes: u <- server_momentum u + mean; e <- e + server_lr u; the `k` largest
    coordinates found in e are added to the model, and the cells of e and u that they fall into are cleared, as the published
    code does. `semantics = "paper"` takes their sketch out of e instead and leaves u, as Algorithm 1 prints it; where k is not far
    below `columns`, two chosen coordinates of one cell then overshoot, and training diverges. `rows` x `columns` numbers go up.
    Left out, `columns` and `k` are a tenth of the model (published: 5 rows of 500,000, k 50,000). With as many columns as there
    are weights, k of all of them, no momentum and a rate of 1 it is FedAvg. The model goes down whole.

    >>> from fedfleet.learn.fedavg import fedavg
    >>> one = with_sketch(fedavg(), rows=2, columns=5, k=3, facts=RunFacts(clients=10, seed=0, rounds=2))
    >>> server = one.init({"w": np.zeros((4, 5), np.float32)})
    >>> {n: v.shape for n, v in one.fold.like(server).items()}
    {'sketch': (2, 5)}
    """

    def table_of_size(size: int) -> Table:
        width = columns or math.ceil(size / 10)
        what = f"algorithm: a sketch of {rows} rows of {width:,} numbers"
        check_memory(_BYTES * rows * (size + width), what, "ask for fewer columns or rows")
        return table_of(facts.seed, size, rows, width)

    def table(tree: Tree) -> Table:
        return table_of_size(sum(v.size for v in _floating_leaves(tree).values()))

    def like(server: ServerState) -> Tree:
        return {_SKETCH: np.zeros((rows, table(algorithm.fold.like(server)).columns), np.float32)}

    def apply(server: ServerState, aggregate: Aggregate) -> ServerState:
        shape = _floating_leaves(algorithm.fold.like(server))
        sketch_table = table(shape)
        momentum = server_momentum * server.extra.get(_MOMENTUM, 0.0) + aggregate.mean[_SKETCH]
        error = server.extra.get(_ERROR, 0.0) + server_lr * momentum
        chosen = largest(sketch_table.unsketch(error), k or math.ceil(sketch_table.size / 10))
        chosen_sketch = sketch_table.sketch(chosen[None])[0]
        if semantics == "paper":
            error = error - chosen_sketch
        else:
            momentum, error = (np.where(chosen_sketch == 0.0, v, np.float32(0.0)) for v in (momentum, error))
        parts = np.split(chosen, np.cumsum([v.size for v in shape.values()])[:-1])
        mean = {n: part.reshape(v.shape) for (n, v), part in zip(shape.items(), parts, strict=True)}
        new_state = algorithm.apply(server, replace(aggregate, mean=mean, sums={}))
        return replace(new_state, extra={**new_state.extra, _MOMENTUM: momentum, _ERROR: error})

    def encode(passed: Passed) -> Passed:
        leaves = [passed.update[n] for n in sorted(passed.update) if is_floating(passed.update[n])]
        flat = join([leaf.reshape(len(leaf), -1) for leaf in leaves])
        return replace(passed, update={_SKETCH: table_of_size(flat.shape[1]).sketch(flat)})

    with_hook = with_pass(algorithm, "its updates cannot be sketched", lambda p: replace(p, after=(*p.after, encode)))
    return replace(with_hook, name="fetchsgd", fold=replace(algorithm.fold, like=like), apply=apply)


def _floating_leaves(tree: Tree) -> Tree:
    return {n: tree[n] for n in sorted(tree) if np.issubdtype(tree[n].dtype, np.floating)}


def largest(values: Array, k: int) -> Array:
    """The k values of largest size, zero elsewhere; of equals the first ones.

    >>> largest(np.array([1.0, -3.0, 1.0, 2.0]), 3).tolist()
    [1.0, -3.0, 0.0, 2.0]
    """
    if k >= len(values):
        return values
    size = np.abs(values)
    last = np.partition(size, -k)[-k]
    inside = size > last
    inside[np.flatnonzero(size == last)[: k - int(inside.sum())]] = True
    return np.where(inside, values, np.zeros_like(values))


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Which coordinate falls into which cell of each row, and with which sign; the same on every machine.

    Coordinates are shuffled and dealt out to the columns in turn, instead of each by a hash of its own. Two of them meet as seldom,
    no cell gets more than its share, as many columns as coordinates give no collision at all, and a sketch is a
    gather and a sum, which accelerators do in the same order every time.
    """

    size: int
    columns: int
    order: NDArray[np.int64]  # [rows, deals x columns]: which coordinate lies where
    signs: NDArray[np.float32]  # of the same shape; 0 where nothing lies
    cells: NDArray[np.int64]  # [rows, size]: where each coordinate fell
    own_signs: NDArray[np.float32]  # [rows, size]
    device_copies: dict[Any, Any]  # order and signs on other devices

    def sketch(self, flat: Any) -> Any:
        """[n, size] -> [n, rows, columns], of numpy's arrays or torch's; linear."""
        order, signs = self._on_device_of(flat)
        deals = order.shape[1] // self.columns
        sums = [(flat[:, o] * s).reshape(len(flat), deals, self.columns).sum(1) for o, s in zip(order, signs, strict=True)]
        if isinstance(flat, np.ndarray):
            return np.stack(sums, 1)
        import torch

        return torch.stack(sums, 1)

    def unsketch(self, table: Array) -> Array:
        """The estimate of every coordinate: the median of what its cells say."""
        estimates = [row[cells] * signs for row, cells, signs in zip(table, self.cells, self.own_signs, strict=True)]
        return estimates[0] if len(estimates) == 1 else np.median(np.stack(estimates), axis=0).astype(np.float32)

    def _on_device_of(self, flat: Any) -> tuple[Any, Any]:
        if isinstance(flat, np.ndarray):
            return self.order, self.signs
        if flat.device not in self.device_copies:
            import torch

            self.device_copies[flat.device] = tuple(torch.from_numpy(v).to(flat.device) for v in (self.order, self.signs))
        order, signs = self.device_copies[flat.device]
        return order, signs.to(flat.dtype)


@lru_cache(maxsize=4)
def table_of(seed: int, size: int, rows: int, columns: int) -> Table:
    """The table of an address: coordinates are ranked by their hashes, a bit more of which is the sign."""
    deals = math.ceil(size / columns)
    order, signs = np.zeros((rows, deals * columns), np.int64), np.zeros((rows, deals * columns), np.float32)
    cells, own_signs = np.empty((rows, size), np.int64), np.empty((rows, size), np.float32)
    keys = np.arange(size, dtype=np.uint64)
    for row in range(rows):
        shuffled = np.argsort(hash_keys(seed, "sketch", keys, row), kind="stable")
        own_signs[row] = np.where(hash_keys(seed, "sketch/sign", keys, row) & np.uint64(1), 1.0, -1.0)
        order[row, :size], signs[row, :size] = shuffled, own_signs[row, shuffled]
        cells[row, shuffled] = np.arange(size) % columns
    return Table(size, columns, order, signs, cells, own_signs, {})
