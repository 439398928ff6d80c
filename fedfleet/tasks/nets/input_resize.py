"""Bringing samples into the shape that a backbone was trained on."""

from __future__ import annotations

import torch
from torch import nn


class InputResize(nn.Module):
    """Pictures [channels, height, width] in [0, 1] as normalised colour pictures of side x side, stretched linearly.

    Stretching is two products with fixed matrices: the same on every device, and its gradient too, which a border needs.
    """

    def __init__(self, shape: tuple[int, ...], side: int, mean: tuple[float, ...], spread: tuple[float, ...]) -> None:
        super().__init__()
        self.rows: torch.Tensor
        self.columns: torch.Tensor
        self.mean: torch.Tensor
        self.spread: torch.Tensor
        self.register_buffer("rows", resize_matrix(shape[1], side), persistent=False)
        self.register_buffer("columns", resize_matrix(shape[2], side), persistent=False)
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1), persistent=False)
        self.register_buffer("spread", torch.tensor(spread).reshape(-1, 1, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.rows @ x @ self.columns.T
        return (x.expand(-1, len(self.mean), -1, -1) - self.mean) / self.spread


def resize_matrix(old: int, new: int) -> torch.Tensor:
    """The matrix [new, old] that takes `old` points to `new`, linearly between the nearest two.

    >>> resize_matrix(2, 4).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """
    points = ((torch.arange(new, dtype=torch.float64) + 0.5) * old / new - 0.5).clamp(0, old - 1)
    left = points.floor().long()
    share = points - left
    matrix = torch.zeros(new, old, dtype=torch.float64)
    matrix[torch.arange(new), left] += 1 - share
    matrix[torch.arange(new), (left + 1).clamp(max=old - 1)] += share
    return matrix.float()
