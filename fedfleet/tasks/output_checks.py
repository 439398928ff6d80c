"""Outputs of an own model against the labels: shapes that no loss takes are refused, superfluous activations are named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from fedfleet.core.errors import BadInput, printable
from fedfleet.core.parts import Dataset

OUTPUTS: Mapping[str, str] = {
    "classification": "a row of scores for each sample, one for each class",
    "regression": "as many numbers for each sample as it has labels",
    "multilabel": "a row of scores for each sample, one for each label",
    "next_token": "a tensor (samples, places, tokens) of scores",
    "sequence_labels": "a tensor (samples, places, classes) of scores",
}
# Beyond this many times the classes, and this many more, the last layer is that of another dataset.
_FAR_TIMES, _FAR_MORE = 10, 32
_SUM_ERROR = 1e-4
_NAMED = 5  # labels in a sentence
_MANY = 16  # values that hardly lie between 0 and 1 by chance
# The range of each last layer, as a sentence names it.
_RANGES: Mapping[str, tuple[float, float]] = {
    "ReLU": (0.0, np.inf),
    "ReLU6": (0.0, 6.0),
    "Softplus": (0.0, np.inf),
    "Sigmoid": (0.0, 1.0),
    "Hardsigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
    "Hardtanh": (-1.0, 1.0),
}
_CROSS_ENTROPY = {"CrossEntropyLoss", "cross_entropy"}
_BINARY = {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits"}
_LIKELIHOOD = {"NLLLoss", "nll_loss"}
_SQUARED = {"MSELoss", "mse_loss", "L1Loss", "l1_loss", "SmoothL1Loss", "smooth_l1_loss", "HuberLoss", "huber_loss"}


def check_type(out: Any, dataset: Dataset) -> None:
    """Refuse outputs that are not one tensor."""
    if isinstance(out, torch.Tensor):
        return
    cure = "let it give one tensor"
    if isinstance(out, tuple | list) and out and isinstance(out[0], torch.Tensor):
        cure = f"return one tensor in forward(), such as the first, of shape {tuple(out[0].shape)}"
    elif isinstance(out, Mapping):
        keys = ", ".join(map(repr, list(out)[:3]))
        cure = f"return one of its tensors ({keys}) in forward(); FedFleet itself takes the one called 'logits'"
    raise BadInput(f"model: it gives a {type(out).__name__}; {cure}: {OUTPUTS[dataset.kind.name]}")


def check_shape(out: torch.Tensor, dataset: Dataset, samples: int) -> None:
    """Refuse outputs that are not what the kind of task needs, for that many samples."""
    kind = dataset.kind
    shape = tuple(out.shape)
    places = dataset.y.shape[1] if kind.places else 0
    if kind.name == "regression" and out.is_floating_point() and out.numel() == samples * dataset.classes:
        return
    dims = 3 if kind.places else 2
    fits = out.is_floating_point() and len(shape) == dims and shape[0] == samples
    if kind.places and fits and shape[1] != places and shape[2] == places:
        raise BadInput(
            f"model: for {samples} samples it gives a tensor of shape {shape}, with the {places} places last; let it give "
            f"{OUTPUTS[kind.name]}, for example with transpose(1, 2)"
        )
    if fits and kind.name == "regression":
        raise BadInput(
            f"model: it has {shape[-1]} outputs, and the labels are numbers, {dataset.classes} for each sample; give its last "
            f"layer {dataset.classes} output{'s' if dataset.classes > 1 else ''}, or make the labels integers 0, 1, .. if they are "
            "classes"
        )
    if not fits or (kind.places and shape[1] != places):
        raise BadInput(f"model: for {samples} samples it gives {out.dtype} of shape {shape}; let it give {OUTPUTS[kind.name]}")
    if kind.name == "multilabel" and shape[1] != dataset.classes:
        raise BadInput(
            f"model: it has {shape[1]} outputs, and the samples have {dataset.classes} labels; give its last layer "
            f"{dataset.classes} outputs"
        )
    if shape[-1] < dataset.classes:
        _refuse_few(shape[-1], dataset)


def _refuse_few(outputs: int, dataset: Dataset) -> None:
    """Too few outputs: the first label that has none is named."""
    cure = f"give its last layer {dataset.classes} outputs, or correct the labels"
    largest = dataset.y if dataset.y.ndim == 1 else dataset.y.max(1)
    row = int(np.argmax(largest))
    if int(largest[row]) < outputs:  # tokens that occur among the inputs alone
        raise BadInput(
            f"data: the inputs have tokens up to {dataset.classes - 1}, and the model has {outputs} outputs; give its last layer "
            f"{dataset.classes} outputs"
        )
    names = dataset.label_names if len(dataset.label_names) == dataset.classes else ()
    if names:
        raise BadInput(
            f"data: the labels are {dataset.classes} classes ({', '.join(printable(one, 40) for one in names[:_NAMED])}"
            f"{', ..' if len(names) > _NAMED else ''}), and the model has {outputs} outputs; {cure}: "
            f"{printable(names[int(largest[row])], 40)!r} in row {row} has no output"
        )
    raise BadInput(
        f"data: the label in row {row} is {largest[row]}, and the model has {outputs} outputs, for labels 0 to {outputs - 1}; "
        f"{cure}"
    )


def loss_name(loss: Callable[..., Any] | None, dataset: Dataset) -> str:
    """The loss of PyTorch that trains: that of the kind of task, or the one that was given; "" of any other."""
    if loss is None:
        if dataset.kind.name == "regression":
            return "mse_loss"
        return "binary_cross_entropy_with_logits" if dataset.kind.name == "multilabel" else "cross_entropy"
    whole = loss.func if isinstance(loss, partial) else loss
    name = type(whole).__name__ if isinstance(whole, torch.nn.Module) else getattr(whole, "__name__", "")
    holder = torch.nn if isinstance(whole, torch.nn.Module) else torch.nn.functional
    found = getattr(holder, name, None)
    return name if found is (type(whole) if isinstance(whole, torch.nn.Module) else whole) else ""


def output_warnings(out: torch.Tensor, dataset: Dataset, last: str, loss: str, *, bounded: bool = True) -> list[str]:
    """What is probably wrong with such outputs under this loss, one sentence each; `last` is the type of the last layer, `bounded`
    whether outputs stay where they are for inputs that are far larger."""
    low, high = (float(out.min()), float(out.max())) if out.numel() else (0.0, 0.0)
    found: list[str] = []
    if loss in _CROSS_ENTROPY and out.dim() >= 2:
        found += _cross_entropy_warnings(out, last, low)
    elif loss in _LIKELIHOOD and out.dim() == 2 and not _sums_to_one(out.exp()):
        found.append(
            f"model: its outputs are not log-probabilities, which {loss} needs; end the model with nn.LogSoftmax(1), or use "
            "cross-entropy, the default loss"
        )
    elif loss in _BINARY:
        found += _binary_warnings(out, last, low, high, bounded=bounded)
    elif loss in _SQUARED and dataset.kind.name == "regression":
        found += _range_warnings(out, dataset, last, low)
    return found + _far_outputs(out, dataset)


def _cross_entropy_warnings(out: torch.Tensor, last: str, low: float) -> list[str]:
    if low >= 0 and out.shape[-1] > 1 and _sums_to_one(out):
        return [
            "model: its outputs are probabilities (a Softmax), and cross-entropy applies a softmax itself, so training is slow and "
            "the loss cannot come near 0; remove the Softmax from the end of the model"
        ]
    if last in ("Sigmoid", "Hardsigmoid"):
        return [
            f"model: its last layer is a {last}, which limits its scores to 0..1, and cross-entropy applies a softmax itself, so "
            f"training is slow; remove the {last}"
        ]
    if last in ("ReLU", "ReLU6"):
        return [
            f"model: its last layer is a {last}, so a class whose scores are 0 for all samples is never learnt; remove the {last} "
            "from the end of the model"
        ]
    return []


def _binary_warnings(out: torch.Tensor, last: str, low: float, high: float, *, bounded: bool) -> list[str]:
    inside = out.numel() >= _MANY and low > 0.0 and high < 1.0 and bounded
    if last in ("Sigmoid", "Hardsigmoid", "Softmax") or inside:
        return [
            f"model: its outputs lie between 0 and 1 (a {last if last in _RANGES else 'Sigmoid'}), and binary cross-entropy "
            "applies a sigmoid itself, so every label is predicted for every sample; remove it from the end of the model"
        ]
    if last in ("ReLU", "ReLU6", "Softplus") or (low == 0.0 and out.numel() >= _MANY):
        return [
            "model: its outputs are never negative, and a label is predicted where its score is above 0; remove the "
            f"{last if last in _RANGES else 'ReLU'} from the end of the model"
        ]
    return []


def _range_warnings(out: torch.Tensor, dataset: Dataset, last: str, low: float) -> list[str]:
    """Targets that the last layer can never give; a ReLU that is a function shows by zeros among positive outputs."""
    name = last if last in _RANGES or low != 0.0 or not bool((out > 0).any()) else "ReLU"
    if name not in _RANGES:
        return []
    least, most = _RANGES[name]
    beyond = float(((dataset.y < least) | (dataset.y > most)).mean())
    if beyond == 0.0:
        return []
    limits = f"{least:g} or more" if most == np.inf else f"{least:g} to {most:g}"
    return [
        f"model: its last layer is a {name}, whose outputs are {limits}, and {beyond:.1%} of the labels lie outside; remove the "
        f"{name} from the end of the model, or scale the labels"
    ]


def _far_outputs(out: torch.Tensor, dataset: Dataset) -> list[str]:
    """A last layer for many more classes than there are; a vocabulary is often larger than the tokens of a dataset."""
    n, classes = out.shape[-1], dataset.classes
    if dataset.kind.name not in ("classification", "sequence_labels") or n < _FAR_TIMES * classes or n < classes + _FAR_MORE:
        return []
    return [f"model: it has {n} outputs, and the data have {classes} classes; give its last layer {classes} outputs"]


def _sums_to_one(rows: torch.Tensor) -> bool:
    return bool(((rows.sum(-1) - 1.0).abs() < _SUM_ERROR).all())
