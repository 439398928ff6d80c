"""The leading eigenvectors of many symmetric matrices: as many as hold a share of the energy, the sum of all eigenvalues.

On a CPU, and where they are small, matrices are decomposed whole. On an accelerator, whose libraries decompose one matrix after
the other, only a block of leading vectors of a large one is found, by subspace iteration from a fixed beginning: the block is
multiplied by the matrix and made orthonormal, again and again, and its energies are read off within the subspace. A block is large
enough when half of its vectors hold the share, or when nothing is left outside it; else the next is twice as large. Each matrix is
judged alone, so that a client's vectors do not depend on its neighbours'.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

WHOLE = 256  # rows of a matrix that is decomposed whole
_BLOCK = 128  # vectors of the first block
_ITERATIONS = 5
_SHIFT = 1e-13  # of the trace: what keeps Cholesky's factor alive where vectors depend on each other
_REST = 1e-7  # of the energy: nothing


def leading_vectors(gram: Any, share: Any, *, in_blocks: bool | None = None) -> tuple[Any, Any]:
    """Orthonormal columns [matrices, rows, n] of ascending energy, and how many of the last of them hold `share` of the energy.

    `gram` are symmetric matrices [matrices, rows, rows] without negative eigenvalues; `share` one number for each, [matrices, 1].
    `in_blocks`: whether large ones are worked through in blocks (None: on an accelerator).
    """
    import torch

    rows = gram.shape[1]
    if rows <= WHOLE or not (gram.is_cuda if in_blocks is None else in_blocks):
        return _all_vectors(gram, share)
    pending, width = torch.arange(len(gram), device=gram.device), _BLOCK
    basis = gram.new_zeros(len(gram), rows, 0)
    rank = torch.zeros(len(gram), dtype=torch.int64, device=gram.device)
    while len(pending):
        if 2 * width >= rows:
            vectors, found = _all_vectors(gram[pending], share[pending])
            enough = torch.ones_like(found, dtype=torch.bool)
        else:
            vectors, found, enough = _block_vectors(gram[pending], share[pending], width)
        if vectors.shape[2] > basis.shape[2]:
            basis = torch.cat([basis.new_zeros(*basis.shape[:2], vectors.shape[2] - basis.shape[2]), basis], 2)
        basis[pending[enough]], rank[pending[enough]] = vectors[enough].to(basis.dtype), found[enough]
        pending, width = pending[~enough], 2 * width
    return basis, rank


def _all_vectors(gram: Any, share: Any) -> tuple[Any, Any]:
    values, vectors = eigh(gram)
    sums = values.double().clamp(min=0.0).flip(1).cumsum(1)
    return vectors, ((sums < share.double() * sums[:, -1:]).sum(1) + 1).clamp(max=gram.shape[1])


def _block_vectors(gram: Any, share: Any, width: int) -> tuple[Any, Any, Any]:
    """A block of leading vectors, how many hold the share, and whether the block was large enough."""
    import torch

    work = gram.double()  # on an accelerator it costs little, and products of single precision may be of less
    total = work.diagonal(dim1=1, dim2=2).sum(1, keepdim=True)
    work = work / total.clamp(min=torch.finfo(torch.float64).tiny).unsqueeze(2)
    draw = torch.randn(gram.shape[1], width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    block = work @ draw.to(work)
    for _ in range(_ITERATIONS):
        block = work @ _orthonormal(_orthonormal(block))
    block = _orthonormal(_orthonormal(block))
    inner = block.transpose(1, 2) @ (work @ block)
    values, turn = eigh((inner + inner.transpose(1, 2)) / 2)
    sums = values.clamp(min=0.0).flip(1).cumsum(1)
    whole = torch.where(total > 0, torch.ones_like(total), torch.zeros_like(total))
    wanted = share.double() * whole
    rank = ((sums < wanted).sum(1) + 1).clamp(max=width)
    held = sums[:, -1:] >= wanted
    enough = held & ((2 * rank.unsqueeze(1) <= width) | (sums[:, -1:] >= (1 - _REST) * whole))
    return block @ turn.to(block), rank, enough[:, 0]


def _orthonormal(block: Any) -> Any:
    """The columns made orthonormal, by Cholesky's factor of their products; those that depend on others come out short."""
    import torch

    products = block.transpose(1, 2) @ block
    trace = products.diagonal(dim1=1, dim2=2).sum(1).reshape(-1, 1, 1)
    shifted = products + (_SHIFT * trace + 1e-290) * torch.eye(products.shape[1], dtype=products.dtype, device=products.device)
    factor, _ = torch.linalg.cholesky_ex(shifted)
    return torch.linalg.solve_triangular(factor, block.transpose(1, 2), upper=False).transpose(1, 2)


def eigh(matrices: Any) -> tuple[Any, Any]:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices; from an accelerator on all cores of the host.

    The libraries of accelerators take one matrix after the other: a hundred of 128 rows took 150 ms on an H200.
    """
    import torch

    if not matrices.is_cuda:
        return torch.linalg.eigh(matrices)
    parts = matrices.cpu().tensor_split(max(1, min(len(os.sched_getaffinity(0)), len(matrices))))
    with ThreadPoolExecutor(len(parts), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        done = list(pool.map(torch.linalg.eigh, parts))
    values, vectors = (torch.cat(side).to(matrices.device) for side in zip(*done, strict=True))
    return values, vectors
