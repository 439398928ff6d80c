"""Evaluation in large batches: one model on many shards is one pass with sums per shard, many models are a stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.func import functional_call

from fedfleet.core.parts import Loss, Trial
from fedfleet.core.records import Score
from fedfleet.executors.stacked.stacked_model import Twin

BATCH = 4096


def score_trials(
    module: torch.nn.Module,
    twins: Sequence[Twin],
    x: torch.Tensor,
    y: torch.Tensor,
    trials: Sequence[Trial],
    device: torch.device,
    custom_loss: Loss | None = None,
) -> Iterator[Score]:
    """Scores in input order: neighbours with the same parameters in one pass, models of their own in stacks.

    A loss that gives one value for many samples is asked about each shard alone.
    """
    runs: list[list[Trial]] = []
    joint_loss = custom_loss is not None and custom_loss.joint
    for trial in trials:
        if runs and trial.params is runs[-1][0].params and not joint_loss:
            runs[-1].append(trial)
        else:
            runs.append([trial])
    if custom_loss is None and twins and len(runs) > 1 and len(runs) == len(trials):
        yield from _score_models(twins[0], x, y, trials, device)
        return
    for run in runs:
        params = {n: torch.from_numpy(np.array(v)).to(device) for n, v in run[0].params.items()}
        yield from _score_shards(module, params, x, y, [t.rows for t in run], device, custom_loss)


def _score_shards(
    module,
    params,
    x: torch.Tensor,
    y: torch.Tensor,
    shards: list[np.ndarray],
    device: torch.device,
    custom_loss: Loss | None = None,
) -> Iterator[Score]:
    rows = torch.from_numpy(np.concatenate(shards) if shards else np.zeros(0, np.int64)).to(x.device)
    owner = np.repeat(np.arange(len(shards)), [len(s) for s in shards])
    right, losses = [], []
    with torch.no_grad():
        for part in rows.split(BATCH if device.type == "cpu" else 4 * BATCH):
            truth = y[part].to(device)
            logits = functional_call(module, params, (x[part].to(device),))
            right.append(logits.argmax(1) == truth)
            losses.append(_sample_losses(logits, truth, custom_loss))
        # Fetched once at the end: each trip across the bus would wait for the device.
        right = torch.cat(right).cpu().numpy() if right else None
        losses = torch.cat(losses).cpu().numpy().astype(np.float64) if losses else None
    correct = np.bincount(owner, right, len(shards))
    loss = np.bincount(owner, losses, len(shards))
    for i, shard in enumerate(shards):
        yield Score(int(correct[i]), len(shard), float(loss[i] / max(len(shard), 1)))


def _sample_losses(logits: torch.Tensor, truth: torch.Tensor, custom_loss: Loss | None) -> torch.Tensor:
    """The loss of each sample; of a joint one, its share in the value for all of them."""
    if custom_loss is None:
        return torch.nn.functional.cross_entropy(logits, truth, reduction="none")
    losses = custom_loss.compute(logits, truth)
    return losses.reshape(()).expand(len(truth)) if custom_loss.joint else losses.reshape(len(truth), -1).mean(1)


def _score_models(twin: Twin, x: torch.Tensor, y: torch.Tensor, trials: Sequence[Trial], device: torch.device) -> Iterator[Score]:
    """Each client's own model on its own shard: like lengths together, as many as make a large batch."""
    scores: dict[int, Score] = {}
    order = sorted(range(len(trials)), key=lambda i: len(trials[i].rows))
    while order:
        width = max(1, len(trials[order[-1]].rows))
        part, order = order[-max(1, BATCH // width) :], order[: -max(1, BATCH // width)]
        scores |= zip(part, _score_stack(twin, x, y, [trials[i] for i in part], width, device), strict=True)
    yield from (scores[i] for i in range(len(trials)))


def _score_stack(
    twin: Twin, x: torch.Tensor, y: torch.Tensor, trials: list[Trial], width: int, device: torch.device
) -> Iterator[Score]:
    sizes = np.array([len(t.rows) for t in trials])
    rows = np.zeros((len(trials), width), np.int64)
    for row, trial in zip(rows, trials, strict=True):
        row[: len(trial.rows)] = trial.rows
    flat = torch.from_numpy(rows.reshape(-1)).to(x.device)
    names = [n for n in trials[0].params if n in twin.places]
    params = {n: torch.from_numpy(np.stack([t.params[n] for t in trials])).to(device) for n in names}
    twin.stack.move = twin.stack.trigger = twin.stack.weights = None
    twin.load(params, len(trials))
    twin.module.eval()
    with torch.no_grad():
        logits, truth = twin.module(x[flat].to(device)), y[flat].to(device)
        right = (logits.argmax(1) == truth).reshape(len(trials), width).cpu().numpy()
        each = torch.nn.functional.cross_entropy(logits, truth, reduction="none")
        losses = each.reshape(len(trials), width).double().cpu().numpy()
    real = np.arange(width) < sizes[:, None]
    for correct, loss, n in zip((right & real).sum(1), (losses * real).sum(1), sizes.tolist(), strict=True):
        yield Score(int(correct), n, float(loss / max(n, 1)))
