"""Models and losses made of PyTorch's own layers, as plain data: kept and made again without anybody's code."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.tasks.logits_model import LogitsModel, needs_wrapping

Description = dict[str, Any]

# Only what is named here is ever made from a description; each takes plain values and holds no state but its parameters.
_LAYERS = frozenset({
    "Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "LayerNorm", "GroupNorm",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Flatten", "Identity", "Dropout", "Dropout1d", "Dropout2d",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "ReLU", "ReLU6", "LeakyReLU", "ELU", "GELU", "SiLU", "Mish", "Tanh",
    "Sigmoid", "Softplus", "Hardtanh", "PReLU", "Softmax", "LogSoftmax", "Embedding",
})  # fmt: skip
_LOSSES = frozenset({"CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"})
_FUNCTIONS = frozenset({"cross_entropy", "nll_loss", "multi_margin_loss"})
_SKIPPED = ("self", "device", "dtype", "size_average", "reduce")  # where it lies is the executor's; the last two are gone
_MAX_DEPTH = 32


def describe_model(module: nn.Module) -> Description | None:
    """A model of PyTorch's own layers in a row as data; None if it is anything else."""
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance] - people give anything
        return None
    names = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if len(names) != len(list(module.named_parameters())):
        return None  # parameters that two layers share would come apart
    description = _describe_layer(module, _LAYERS)
    return description if description is not None and _rebuilds(module, description) else None


def describe_loss(loss: Any) -> Description | None:
    """A loss of PyTorch's own as data; None if it is anything else."""
    if isinstance(loss, nn.Module):
        description = _describe_layer(loss, _LOSSES)
        return description if description is not None and repr(build_from(description)) == repr(loss) else None
    whole = loss if isinstance(loss, partial) else partial(loss)
    name = getattr(whole.func, "__name__", "")
    known = name in _FUNCTIONS and whole.func is getattr(nn.functional, name) and not whole.args
    return {"use": name, **whole.keywords} if known and all(map(_is_plain, whole.keywords.values())) else None


def build_from(description: Description, depth: int = 0) -> Any:
    """What a description says; whatever it does not know it refuses, and it never looks beyond `torch.nn`."""
    use, rest = description.get("use"), {k: v for k, v in description.items() if k != "use"}
    try:
        if use == "Sequential" and depth < _MAX_DEPTH:
            whole = nn.Sequential()
            for name, inner in rest["layers"]:
                whole.add_module(name, build_from(inner, depth + 1))
            return whole
        if use in _FUNCTIONS and all(map(_is_plain, rest.values())):
            return partial(getattr(nn.functional, str(use)), **rest)
        if use in _LAYERS | _LOSSES and all(map(_is_plain, rest.values())) and not set(rest) & set(_SKIPPED):
            return getattr(nn, str(use))(**{k: tuple(v) if isinstance(v, list) else v for k, v in rest.items()})
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise BadInput(f"cannot build a layer {str(use)[:40]!r} from its description: {error}") from None
    raise BadInput(f"a layer {str(use)[:40]!r} cannot be built from a description")


def build_matching(description: Description, weights: Mapping[str, Any]) -> Any:
    """The model that a description says, if it has just these parameters: it is tried without taking memory first."""
    with torch.device("meta"):
        shapes = {n: tuple(v.shape) for n, v in build_from(description).state_dict().items()}
    if shapes != {n: tuple(v.shape) for n, v in weights.items()}:
        raise BadInput("the description of the model does not fit its weights")
    return build_from(description)


def same_model(a: Any, b: Any, x: Any) -> bool:
    """Do two models have the same parameters, and give the same answers to these inputs with the same weights?"""
    if not isinstance(a, nn.Module) or not isinstance(b, nn.Module):
        return False
    first, second = a.state_dict(), b.state_dict()
    if {n: (v.shape, v.dtype) for n, v in first.items()} != {n: (v.shape, v.dtype) for n, v in second.items()}:
        return False
    b.load_state_dict(first)
    was_training = a.training
    try:
        a.eval()
        b.eval()
        with torch.no_grad():
            return bool(torch.equal(_answer(a, x), _answer(b, x)))
    except Exception:  # a model that cannot be tried is not known to be the same
        return False
    finally:
        a.train(was_training)


def _answer(model: nn.Module, x: Any) -> torch.Tensor:
    """The answer of a model as it is trained, be it an object with logits."""
    return (LogitsModel(model) if needs_wrapping(model, x) else model)(torch.from_numpy(x))


def _describe_layer(module: nn.Module, known: frozenset[str]) -> Description | None:
    kind = type(module)
    touched = "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    if touched or getattr(nn, kind.__name__, None) is not kind:
        return None
    if kind is nn.Sequential:
        inner = [(name, _describe_layer(child, known)) for name, child in module._modules.items() if child is not None]
        return None if any(d is None for _, d in inner) else {"use": "Sequential", "layers": [[n, d] for n, d in inner]}
    if kind.__name__ not in known:
        return None
    description: Description = {"use": kind.__name__}
    for name in inspect.signature(kind.__init__).parameters:
        if name in _SKIPPED or not hasattr(module, name):
            continue
        value = getattr(module, name)
        description[name] = value is not None if name == "bias" else list(value) if isinstance(value, tuple) else value
    return description if all(map(_is_plain, description.values())) else None


def _rebuilds(module: nn.Module, description: Description) -> bool:
    """Would following the description give this model again?"""
    try:
        with torch.device("meta"):
            rebuilt = build_from(description)
    except BadInput:
        return False
    shapes = {n: (v.shape, v.dtype) for n, v in rebuilt.state_dict().items()}
    return repr(rebuilt) == repr(module) and shapes == {n: (v.shape, v.dtype) for n, v in module.state_dict().items()}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(v is None or isinstance(v, int | float) for v in value)
    return value is None or isinstance(value, bool | int | float | str)
