"""Losses and scores of outputs with numpy, by the kind of task: the counterpart of `tasks.scores`, with gradients."""

from __future__ import annotations

import numpy as np

from fedfleet.core.kinds import IGNORED, LOWEST, UNIT
from fedfleet.core.trees import Array
from fedfleet.executors.numpy.operations import log_shares, sigmoid


def loss_and_gradient(outputs: Array, labels: Array) -> tuple[Array, Array]:
    """The loss of each sample, and the gradient of their mean with respect to the outputs."""
    n = outputs.dtype.type(max(len(labels), 1))
    if labels.dtype.kind == "f":
        errors = outputs.reshape(labels.shape) - labels
        width = outputs.dtype.type(labels.shape[1])
        return np.square(errors).mean(1), (2 * errors / (n * width)).reshape(outputs.shape)
    if labels.dtype.kind == "b":
        truth, width = labels.astype(outputs.dtype), outputs.dtype.type(labels.shape[1])
        losses = np.maximum(outputs, 0) - outputs * truth + np.log1p(np.exp(-np.abs(outputs)))
        return losses.mean(1), (sigmoid(outputs) - truth) / (n * width)
    if labels.ndim == 1:
        logarithms, rows = log_shares(outputs, 1), np.arange(len(labels))
        gradient = np.exp(logarithms)
        gradient[rows, labels] -= 1
        return -logarithms[rows, labels], gradient / n
    losses, gradient = _places(outputs, labels)
    counted = np.maximum((labels != IGNORED).sum(1), 1).astype(outputs.dtype)
    return losses.sum(1) / counted, gradient / (n * counted[:, None, None])


def place_losses(outputs: Array, labels: Array) -> Array:
    """The cross-entropy at every place of sequences, 0 where nothing counts."""
    return _places(outputs, labels)[0]


def _places(outputs: Array, labels: Array) -> tuple[Array, Array]:
    counted = labels != IGNORED
    truth = np.where(counted, labels, 0)[..., None]
    logarithms = log_shares(outputs, 2)
    losses = np.where(counted, -np.take_along_axis(logarithms, truth, 2)[..., 0], outputs.dtype.type(0))
    gradient = np.exp(logarithms)
    np.put_along_axis(gradient, truth, np.take_along_axis(gradient, truth, 2) - 1, 2)
    return losses, gradient * counted[..., None]


def sample_counts(outputs: Array, labels: Array, spread: Array | None) -> tuple[Array, Array]:
    """Each sample's part of the score and how much it could have, in integers that add up."""
    if labels.dtype.kind == "f":
        errors = np.square(outputs.reshape(labels.shape).astype(np.float64) - labels.astype(np.float64))
        share, most = errors if spread is None else errors / spread, float(UNIT - LOWEST)
        lost = np.rint(np.minimum(np.nan_to_num(UNIT * share, nan=most, posinf=most), most)).astype(np.int64)
        return (UNIT - lost).sum(1), np.full(len(lost), UNIT * labels.shape[1])
    if labels.dtype.kind == "b":
        guess = outputs > 0
        hits = 2 * (guess & labels).sum(1)
        return hits, hits + (guess ^ labels).sum(1)
    if labels.ndim == 1:
        right = (outputs.argmax(1) == labels).astype(np.int64)
        return right, np.ones_like(right)
    counted = labels != IGNORED
    return ((outputs.argmax(2) == labels) & counted).sum(1), counted.sum(1)
