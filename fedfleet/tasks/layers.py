"""Models and losses made of PyTorch's own layers, as plain data: kept and made again without anybody's code."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from fedfleet.core.errors import BadInput

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
_NEVER = ("self", "device", "dtype", "size_average", "reduce")  # where it lies is the executor's; the last two are gone
_DEEPEST = 32


def described(module: nn.Module) -> Description | None:
    """A model of PyTorch's own layers in a row as data; None if it is anything else."""
    if not isinstance(module, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance] - people give anything
        return None
    named = [name for name, _ in module.named_parameters(remove_duplicate=False)]
    if len(named) != len(list(module.named_parameters())):
        return None  # parameters that two layers share would come apart
    found = _described(module, _LAYERS)
    return found if found is not None and _fits(module, found) else None


def described_loss(loss: Any) -> Description | None:
    """A loss of PyTorch's own as data; None if it is anything else."""
    if isinstance(loss, nn.Module):
        found = _described(loss, _LOSSES)
        return found if found is not None and repr(made(found)) == repr(loss) else None
    whole = loss if isinstance(loss, partial) else partial(loss)
    name = getattr(whole.func, "__name__", "")
    known = name in _FUNCTIONS and whole.func is getattr(nn.functional, name) and not whole.args
    return {"use": name, **whole.keywords} if known and all(map(_plain, whole.keywords.values())) else None


def made(found: Description, depth: int = 0) -> Any:
    """What a description says; whatever it does not know it refuses, and it never looks beyond `torch.nn`."""
    use, rest = found.get("use"), {k: v for k, v in found.items() if k != "use"}
    try:
        if use == "Sequential" and depth < _DEEPEST:
            whole = nn.Sequential()
            for name, inner in rest["layers"]:
                whole.add_module(name, made(inner, depth + 1))
            return whole
        if use in _FUNCTIONS and all(map(_plain, rest.values())):
            return partial(getattr(nn.functional, str(use)), **rest)
        if use in _LAYERS | _LOSSES and all(map(_plain, rest.values())) and not set(rest) & set(_NEVER):
            return getattr(nn, str(use))(**{k: tuple(v) if isinstance(v, list) else v for k, v in rest.items()})
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as wrong:
        raise BadInput(f"the description of a layer {str(use)[:40]!r} cannot be followed: {wrong}") from None
    raise BadInput(f"there is no layer {str(use)[:40]!r} that can be made from a description")


def made_like(found: Description, weights: Mapping[str, Any]) -> Any:
    """The model that a description says, if it has just these parameters: it is tried without taking memory first."""
    with torch.device("meta"):
        shapes = {n: tuple(v.shape) for n, v in made(found).state_dict().items()}
    if shapes != {n: tuple(v.shape) for n, v in weights.items()}:
        raise BadInput("the description of the model does not fit its weights")
    return made(found)


def alike(a: Any, b: Any, x: Any) -> bool:
    """Do two models have the same parameters, and give the same answers to these inputs with the same weights?"""
    if not isinstance(a, nn.Module) or not isinstance(b, nn.Module):
        return False
    first, second = a.state_dict(), b.state_dict()
    if {n: (v.shape, v.dtype) for n, v in first.items()} != {n: (v.shape, v.dtype) for n, v in second.items()}:
        return False
    b.load_state_dict(first)
    was = a.training
    try:
        a.eval()
        b.eval()
        with torch.no_grad():
            return bool(torch.equal(a(torch.from_numpy(x)), b(torch.from_numpy(x))))
    except Exception:  # a model that cannot be tried is not known to be the same
        return False
    finally:
        a.train(was)


def _described(module: nn.Module, known: frozenset[str]) -> Description | None:
    kind = type(module)
    touched = "forward" in vars(module) or module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    if touched or getattr(nn, kind.__name__, None) is not kind:
        return None
    if kind is nn.Sequential:
        inner = [(name, _described(child, known)) for name, child in module._modules.items() if child is not None]
        return None if any(d is None for _, d in inner) else {"use": "Sequential", "layers": [[n, d] for n, d in inner]}
    if kind.__name__ not in known:
        return None
    found: Description = {"use": kind.__name__}
    for name in inspect.signature(kind.__init__).parameters:
        if name in _NEVER or not hasattr(module, name):
            continue
        value = getattr(module, name)
        found[name] = value is not None if name == "bias" else list(value) if isinstance(value, tuple) else value
    return found if all(map(_plain, found.values())) else None


def _fits(module: nn.Module, found: Description) -> bool:
    """Would following the description give this model again?"""
    try:
        with torch.device("meta"):
            again = made(found)
    except BadInput:
        return False
    same = {n: (v.shape, v.dtype) for n, v in again.state_dict().items()}
    return repr(again) == repr(module) and same == {n: (v.shape, v.dtype) for n, v in module.state_dict().items()}


def _plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(v is None or isinstance(v, int | float) for v in value)
    return value is None or isinstance(value, bool | int | float | str)
