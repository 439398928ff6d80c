"""Networks for sequences: characters, and windows of motion sensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import max_pool1d

from fedfleet.tasks.narrow_models import units

EMBEDDING = 8  # LEAF's


class CharLstm(nn.Module):
    """LEAF's next-character model: an 8-dimensional embedding, two LSTM layers of 256, a head on the last hidden state."""

    def __init__(self, vocabulary: int, *, embedding: int = EMBEDDING, hidden: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.lstm(self.embedding(x))
        return self.head(out[:, -1])


class WindowCnn(nn.Module):
    """Two convolutions along time with pooling, a hidden layer, a head: for windows [channels, time]."""

    def __init__(self, shape: Sequence[int], hidden: int, classes: int, *, scale: float = 1.0) -> None:
        super().__init__()
        channels, time = shape
        first, second, hidden = (units(n, scale) for n in (32, 64, hidden))
        self.conv1 = nn.Conv1d(channels, first, 9, padding=4)
        self.conv2 = nn.Conv1d(first, second, 9, padding=4)
        self.hidden = nn.Linear(second * (time // 4), hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = max_pool1d(torch.relu(self.conv1(x)), 2)
        x = max_pool1d(torch.relu(self.conv2(x)), 2)
        return self.head(torch.relu(self.hidden(x.flatten(1))))
