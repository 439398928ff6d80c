"""Evaluation in large batches: the same model on many shards is one pass with sums per shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.func import functional_call  # type: ignore[attr-defined]

from fedfleet.core.parts import Trial
from fedfleet.core.records import Score

BATCH = 4096


def score_trials(module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, trials: Sequence[Trial]) -> Iterator[Score]:
    """Scores in input order; neighbouring trials of the same parameters are computed together."""
    a = 0
    while a < len(trials):
        b = a
        while b < len(trials) and trials[b].params is trials[a].params:
            b += 1
        params = {n: torch.from_numpy(np.array(v)).to(x.device) for n, v in trials[a].params.items()}
        yield from _together(module, params, x, y, [t.rows for t in trials[a:b]])
        a = b


def _together(module, params, x: torch.Tensor, y: torch.Tensor, shards: list[np.ndarray]) -> Iterator[Score]:
    rows = torch.from_numpy(np.concatenate(shards) if shards else np.zeros(0, np.int64)).to(x.device)
    owner = np.repeat(np.arange(len(shards)), [len(s) for s in shards])
    right, losses = [], []
    with torch.no_grad():
        for part in rows.split(BATCH):
            logits = functional_call(module, params, (x[part],))
            right.append((logits.argmax(1) == y[part]).cpu().numpy())
            losses.append(torch.nn.functional.cross_entropy(logits, y[part], reduction="none").cpu().numpy())
    correct = np.bincount(owner, np.concatenate(right) if right else None, len(shards))
    loss = np.bincount(owner, np.concatenate(losses).astype(np.float64) if losses else None, len(shards))
    for i, shard in enumerate(shards):
        yield Score(int(correct[i]), len(shard), float(loss[i] / max(len(shard), 1)))
