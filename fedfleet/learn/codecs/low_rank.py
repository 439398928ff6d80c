"""Matrices as products of two thin ones, by the singular value decomposition.

Wu et al. 2022 (FedKD) send as many singular values as hold a share of the energy; a fixed rank is Konecny et al. 2016's low-rank
form with the best factors instead of random ones. A leaf of two or more dimensions is a matrix of its leading axis by the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Le

from fedfleet.core.codec import Codec, Stack
from fedfleet.core.errors import BadInput
from fedfleet.core.limits import SMALLEST, Count
from fedfleet.core.trees import Tree

LEFT, RIGHT, RANK = "|left", "|right", "|rank"
Energy = Annotated[float, Ge(SMALLEST), Le(1)]


def lowrank(*, rank: Count | None = None, energy: Energy | None = None) -> Codec:
    """Each matrix as a product of two thin ones, of `rank` columns, or of as many as hold this share of the `energy`.

    One of the two is given. Leaves that would not get smaller travel as they are. By energy the bytes depend on the values, and
    only gzip, deflate or zstd can follow.
    """
    if (rank is None) == (energy is None):
        raise BadInput("codec 'lowrank' needs rank or energy, one of the two; say rank = 8, or energy = 0.95")
    codec = Codec("lowrank", (("rank", rank), ("energy", energy)), "select", _within, expand=_expand,
                  squeeze=lambda stack, where: _squeeze(stack, rank, energy))  # fmt: skip
    if energy is None:
        return codec
    return Codec(
        codec.name, codec.settings, codec.level, _within, sized=False,
        squeeze=codec.squeeze, expand=_expand, pack=_trimmed, unpack=_filled,
    )  # fmt: skip


def thin(shape: tuple[int, ...], rank: int | None) -> int:
    """The columns of the two factors; none where they would be no smaller than the leaf. Without a rank, as many as can be.

    >>> thin((1024, 3136), 8), thin((64, 32, 5, 5), None), thin((10,), 2), thin((4, 4), 3)
    (8, 59, 0, 0)
    """
    if len(shape) < 2 or not math.prod(shape):
        return 0
    rows, columns = shape[0], math.prod(shape[1:])
    most = (rows * columns - 1) // (rows + columns)
    return most if rank is None else rank if rank <= most else 0


def _squeeze(stack: Stack, rank: int | None, energy: float | None) -> Stack:
    import torch

    found: dict[str, Any] = {}
    for name, value in stack.items():
        columns = thin(tuple(value.shape[1:]), rank)
        if not columns:
            found[name] = value
            continue
        with _one_thread():  # more threads make small decompositions slower, and their number must not change a bit
            parts = [_factors(one, columns, energy) for one in value.detach().cpu().flatten(2)]
        both = [torch.stack(side).to(value.device) for side in zip(*(p[:2] for p in parts), strict=True)]
        found[f"{name}{LEFT}"], found[f"{name}{RIGHT}"] = both
        if energy is not None:
            found[f"{name}{RANK}"] = torch.tensor([[p[2]] for p in parts], dtype=torch.int32)
    return found


def _factors(matrix: Any, columns: int, energy: float | None) -> tuple[Any, Any, int]:
    """The two factors of one matrix, zero beyond the columns that are needed; NaN where it is not finite."""
    import torch

    rows, width = matrix.shape
    if not bool(torch.isfinite(matrix).all()):
        return matrix.new_full((rows, columns), torch.nan), matrix.new_full((width, columns), torch.nan), columns
    left, values, right = torch.linalg.svd(matrix.clone(), full_matrices=False)
    needed = columns if energy is None else min(columns, _needed(values.double().square().numpy(), energy))
    kept = torch.where(torch.arange(columns) < needed, values[:columns], values.new_zeros(()))
    return left[:, :columns] * kept, right[:columns].T * (kept != 0), needed


def _needed(squares: Any, energy: float) -> int:
    total = squares.sum()
    return int(np.searchsorted(np.cumsum(squares), energy * total * (1 - 1e-12))) + 1 if total else 1


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    try:
        if before != 1:
            torch.set_num_threads(1)
        yield
    finally:
        if before != 1:
            torch.set_num_threads(before)


def _expand(stack: Stack, like: Tree) -> Stack:
    import torch

    found: dict[str, Any] = {}
    for name, leaf in like.items():
        if name in stack:
            found[name] = stack[name]
            continue
        left, right = stack[f"{name}{LEFT}"], stack[f"{name}{RIGHT}"]
        with (
            _one_thread()
        ):  # one client after the other: a product of many matrices at once may add up in another order
            each = [a.contiguous() @ b.T.contiguous() for a, b in zip(left.cpu(), right.cpu(), strict=True)]
        found[name] = torch.stack(each).to(left.device).reshape(-1, *leaf.shape)
    return found


def _trimmed(tree: Tree) -> Tree:
    """Without the columns that hold nothing."""
    return {
        n: v[:, : int(tree[_rank_of(n)][0])] if n.endswith((LEFT, RIGHT)) and _rank_of(n) in tree else v
        for n, v in tree.items()
    }


def _filled(tree: Tree, like: Tree) -> Tree:
    """With those columns again."""
    found: Tree = {}
    for name, leaf in tree.items():
        if name in like and name.endswith((LEFT, RIGHT)) and _rank_of(name) in like:
            if leaf.dtype != np.float32:  # it would be cast without a word
                raise ValueError(f"leaf {name!r} is {leaf.dtype}, not float32")
            whole = np.zeros(like[name].shape, np.float32)
            whole[:, : leaf.shape[1]] = leaf
            leaf = whole
        found[name] = leaf
    return found


def _rank_of(name: str) -> str:
    return name.removesuffix(LEFT).removesuffix(RIGHT) + RANK


def _within(tree: Tree) -> Tree:
    """What is dropped is orthogonal to what is kept, so that no error is longer than the leaf itself."""
    found: Tree = {}
    for name, leaf in tree.items():
        coded = leaf.dtype == np.float32 and thin(leaf.shape, None)
        far = math.sqrt(float(np.square(leaf.astype(np.float64)).sum())) if coded else 0.0
        found[name] = np.full(leaf.shape, far * (1 + 1e-5))
    return found
