"""Losses and scores of a model's outputs, by the kind of its task: what training minimises, and what an evaluation says.

The labels show their kind by type and shape (core.kinds). Outputs are scores of classes [n, classes], numbers [n, outputs], a score
for each label [n, labels], or scores of classes at every place of a sequence [n, places, classes].
"""

from __future__ import annotations

import torch
from torch.nn import functional

from fedfleet.core.kinds import IGNORED, LOWEST, UNIT
from fedfleet.core.parts import Task
from fedfleet.tasks.measures import Measuring, spread_of

Counts = tuple[torch.Tensor, torch.Tensor]  # what of a score each sample has, and how much it could have


def sample_losses(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of each sample: cross-entropy, squared error, binary cross-entropy, or the mean cross-entropy of its places."""
    if labels.dtype.is_floating_point:
        return (outputs.reshape(labels.shape) - labels).square().mean(1)
    if labels.dtype == torch.bool:
        return functional.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), reduction="none").mean(1)
    if labels.dim() == 1:
        return functional.cross_entropy(outputs, labels, reduction="none")
    return place_losses(outputs, labels).sum(1) / (labels != IGNORED).sum(1).clamp(min=1)


def place_losses(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The cross-entropy at every place of sequences, 0 where nothing counts."""
    flat = functional.cross_entropy(
        outputs.reshape(-1, outputs.shape[-1]), labels.reshape(-1), reduction="none", ignore_index=IGNORED
    )
    return flat.reshape(labels.shape)


def sample_counts(outputs: torch.Tensor, labels: torch.Tensor, spread: torch.Tensor | None = None) -> Counts:
    """Each sample's part of the score, in integers that add up: right answers of one, of its places, twice its true positives of
    what F1 divides by, or what is left of the variance of its outputs in millionths."""
    if labels.dtype.is_floating_point:
        errors = (outputs.reshape(labels.shape).double() - labels.double()).square()
        share = errors if spread is None else errors / spread
        most = float(UNIT - LOWEST)
        lost = torch.nan_to_num(UNIT * share, nan=most, posinf=most).clamp(max=most).round().long()
        return (UNIT - lost).sum(1), torch.full_like(lost[:, 0], UNIT * labels.shape[1])
    if labels.dtype == torch.bool:
        guess = outputs > 0
        hits = 2 * (guess & labels).sum(1)
        return hits, hits + (guess ^ labels).sum(1)
    if labels.dim() == 1:
        right = (outputs.argmax(1) == labels).long()
        return right, torch.ones_like(right)
    counted = labels != IGNORED
    return ((outputs.argmax(2) == labels) & counted).sum(1), counted.sum(1)


def spread_tensor(task: Task, device: torch.device | None = None) -> torch.Tensor | None:
    """The same as a tensor on a device."""
    spread = spread_of(task)
    return None if spread is None else torch.from_numpy(spread).to(device or "cpu")


def measure_batch(measuring: Measuring, outputs: torch.Tensor, labels: torch.Tensor) -> None:
    """Let the measures of an evaluation take one batch."""
    places = measuring.task.dataset.kind.places
    loss = float(place_losses(outputs, labels).double().sum()) if places else 0.0
    measuring.add(outputs.cpu().numpy(), labels.cpu().numpy(), loss)
