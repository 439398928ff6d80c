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

from fedfleet.core.bounds import Ge, Le
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
        raise BadInput("codec 'lowrank' needs either rank or energy; give rank = 8, or energy = 0.95")
    sized = energy is None
    return Codec(
        "lowrank", (("rank", rank), ("energy", energy)), "select", _error_bounds, sized=sized, expand=_expand,
        squeeze=lambda stack, where: _squeeze(stack, rank, energy),
        pack=None if sized else _trim_columns, unpack=None if sized else _restore_columns,
    )  # fmt: skip


def factor_columns(shape: tuple[int, ...], rank: int | None) -> int:
    """The columns of the two factors; none where they would be no smaller than the leaf. Without a rank, as many as can be.

    >>> factor_columns((1024, 3136), 8), factor_columns((64, 32, 5, 5), None), factor_columns((10,), 2), factor_columns((4, 4), 3)
    (8, 59, 0, 0)
    """
    if len(shape) < 2 or not math.prod(shape):
        return 0
    rows, columns = shape[0], math.prod(shape[1:])
    most = (rows * columns - 1) // (rows + columns)
    return most if rank is None else rank if rank <= most else 0


def _squeeze(stack: Stack, rank: int | None, energy: float | None) -> Stack:
    import torch

    result: dict[str, Any] = {}
    for name, value in stack.items():
        columns = factor_columns(tuple(value.shape[1:]), rank)
        if not columns:
            result[name] = value
            continue
        with _one_thread():  # more threads make small decompositions slower, and their number must not change a bit
            parts = [_factors(one, columns, energy) for one in value.detach().cpu().flatten(2)]
        factors = [torch.stack(side).to(value.device) for side in zip(*(p[:2] for p in parts), strict=True)]
        result[f"{name}{LEFT}"], result[f"{name}{RIGHT}"] = factors
        if energy is not None:
            result[f"{name}{RANK}"] = torch.tensor([[p[2]] for p in parts], dtype=torch.int32)
    return result


def _factors(matrix: Any, columns: int, energy: float | None) -> tuple[Any, Any, int]:
    """The two factors of one matrix, zero beyond the columns that are needed; NaN where it is not finite."""
    import torch

    rows, width = matrix.shape
    if not bool(torch.isfinite(matrix).all()):
        return matrix.new_full((rows, columns), torch.nan), matrix.new_full((width, columns), torch.nan), columns
    left, values, right = torch.linalg.svd(matrix.clone(), full_matrices=False)
    used = columns
    if energy is not None:
        squares = values.double().square().numpy()
        total = squares.sum()
        used = min(columns, int(np.searchsorted(np.cumsum(squares), energy * total * (1 - 1e-12))) + 1 if total else 1)
    scales = torch.where(torch.arange(columns) < used, values[:columns], values.new_zeros(()))
    return left[:, :columns] * scales, right[:columns].T * (scales != 0), used


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    try:
        if threads != 1:
            torch.set_num_threads(1)
        yield
    finally:
        if threads != 1:
            torch.set_num_threads(threads)


def _expand(stack: Stack, like: Tree) -> Stack:
    import torch

    result: dict[str, Any] = {}
    for name, leaf in like.items():
        if name in stack:
            result[name] = stack[name]
            continue
        left, right = stack[f"{name}{LEFT}"], stack[f"{name}{RIGHT}"]
        with _one_thread():  # one client after the other: a product of many matrices at once may add up in another order
            products = [a.contiguous() @ b.T.contiguous() for a, b in zip(left.cpu(), right.cpu(), strict=True)]
        result[name] = torch.stack(products).to(left.device).reshape(-1, *leaf.shape)
    return result


def _trim_columns(tree: Tree) -> Tree:
    """Without the columns that hold nothing."""
    return {
        n: v[:, : int(tree[_rank_of(n)][0])] if n.endswith((LEFT, RIGHT)) and _rank_of(n) in tree else v for n, v in tree.items()
    }


def _restore_columns(tree: Tree, like: Tree) -> Tree:
    """With those columns again."""
    result: Tree = {}
    for name, leaf in tree.items():
        if name in like and name.endswith((LEFT, RIGHT)) and _rank_of(name) in like:
            if leaf.dtype != np.float32:  # it would be cast without a word
                raise ValueError(f"leaf {name!r} is {leaf.dtype}, not float32")
            full = np.zeros(like[name].shape, np.float32)
            full[:, : leaf.shape[1]] = leaf
            leaf = full
        result[name] = leaf
    return result


def _rank_of(name: str) -> str:
    return name.removesuffix(LEFT).removesuffix(RIGHT) + RANK


def _error_bounds(tree: Tree) -> Tree:
    """What is dropped is orthogonal to what is kept, so that no error is longer than the leaf itself."""
    result: Tree = {}
    for name, leaf in tree.items():
        coded = leaf.dtype == np.float32 and factor_columns(leaf.shape, None)
        norm = math.sqrt(float(np.square(leaf.astype(np.float64)).sum())) if coded else 0.0
        result[name] = np.full(leaf.shape, norm * (1 + 1e-5))
    return result
