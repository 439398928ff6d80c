"""A described model as a PyTorch module: what trains a model that came from elsewhere, as from an ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedfleet.core.trees import Tree
from fedfleet.tasks.description.format import ModelDescription

Compute = Callable[[Sequence[Any], Mapping[str, Any], int], Any]


class DescribedModule(nn.Module):
    """Computes a description; its weights and buffers have the names of the description's leaves."""

    def __init__(self, description: ModelDescription, weights: Tree) -> None:
        super().__init__()
        self.description = description
        for name in description.leaves:
            *path, last = name.split(".")
            holder: nn.Module = self
            for part in path:
                if part not in holder._modules:
                    holder.add_module(part, nn.Module())
                holder = holder.get_submodule(part)
            value = torch.from_numpy(weights[name].copy())
            if name in description.trained:
                holder.register_parameter(last, nn.Parameter(value))
            else:
                holder.register_buffer(last, value)
        for number, operation in enumerate(description.operations):
            if operation.name == "dropout":
                self.add_module(_dropout(number), nn.Dropout(operation.settings["rate"]))
        self._constants = {n: torch.from_numpy(v.copy()) for n, v in description.constants.items()}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs for a batch."""
        return self.values(x)[self.description.output]

    def values(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Every value of the model for a batch."""
        leaves = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        constants = {n: v.to(x.device) for n, v in self._constants.items()}
        values: list[torch.Tensor] = [x]
        for number, operation in enumerate(self.description.operations):
            inputs = [values[i] if isinstance(i, int) else leaves[i] if i in leaves else constants[i] for i in operation.inputs]
            if operation.name == "batch_norm":
                counter = operation.settings["counter"]
                if self.training and counter is not None:
                    leaves[counter].add_(1)
                values.append(_batch_norm(inputs, operation.settings, training=self.training))
            elif operation.name == "dropout":
                values.append(self.get_submodule(_dropout(number))(inputs[0]))
            else:
                values.append(COMPUTE[operation.name](inputs, operation.settings, x.shape[0]))
        return values


def _dropout(number: int) -> str:
    return f"_dropout{number}"


def sizes(shape: Sequence[int], batch: int) -> list[int]:
    """A shape of a description for a batch of this size."""
    return [n if n >= 0 else -n * batch for n in shape]


def _arithmetic(function: Callable[[Any, Any], Any]) -> Compute:
    def compute(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
        del batch
        if len(inputs) == 2:
            return function(*inputs)
        (x,) = inputs
        return function(settings["left"], x) if settings["left"] is not None else function(x, settings["right"])

    return compute


def _convolution(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
    del batch
    function = functional.conv1d if inputs[0].ndim == 3 else functional.conv2d
    bias = inputs[2] if len(inputs) == 3 else None
    return function(
        inputs[0], inputs[1], bias, settings["stride"], settings["padding"], settings["dilation"], groups=settings["groups"]
    )


def _pool(for_series: Callable[..., Any], for_pictures: Callable[..., Any]) -> Compute:
    def compute(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
        del batch
        function = for_series if inputs[0].ndim == 3 else for_pictures
        return function(inputs[0], settings["size"], settings["stride"], settings["padding"])

    return compute


def _affine(inputs: Sequence[Any], settings: Mapping[str, Any], first: int) -> tuple[Any, Any]:
    rest = list(inputs[first:])
    weight = rest.pop(0) if settings["weighted"] else None
    return weight, rest.pop(0) if settings["biased"] else None


def _layer_norm(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
    del batch
    x = inputs[0]
    return functional.layer_norm(x, x.shape[x.ndim - settings["axes"] :], *_affine(inputs, settings, 1), settings["epsilon"])


def _group_norm(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
    del batch
    return functional.group_norm(inputs[0], settings["groups"], *_affine(inputs, settings, 1), settings["epsilon"])


def _batch_norm(inputs: Sequence[Any], settings: Mapping[str, Any], *, training: bool) -> Any:
    x, mean, variance = inputs[:3]
    weight, bias = _affine(inputs, settings, 3)
    return functional.batch_norm(x, mean, variance, weight, bias, training, settings["momentum"], settings["epsilon"])


def _recurrence(name: str) -> Compute:
    def compute(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
        x, weights = inputs[0], list(inputs[1:])
        zeros = torch.zeros(settings["layers"], batch, weights[1].shape[1], dtype=x.dtype, device=x.device)
        first = (zeros, zeros) if name == "lstm" else zeros
        function = torch.lstm if name == "lstm" else torch.gru
        return function(x, first, weights, settings["biased"], settings["layers"], 0.0, False, False, True)[0]  # type: ignore[call-overload]

    return compute


def _attention(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
    del batch
    return functional.scaled_dot_product_attention(*inputs, is_causal=settings["causal"], scale=settings["scale"])


def _slice(inputs: Sequence[Any], settings: Mapping[str, Any], batch: int) -> Any:
    del batch
    words: dict[str, Any] = {"new": None, "others": Ellipsis}
    index = tuple(slice(*i) if isinstance(i, list) else words[i] if isinstance(i, str) else i for i in settings["index"])
    return inputs[0][index]


def _reduction(name: str) -> Compute:
    return lambda inputs, settings, batch: getattr(inputs[0], name)(dim=tuple(settings["axes"]), keepdim=settings["keep"])


def _function(function: Callable[[Any], Any]) -> Compute:
    return lambda inputs, settings, batch: function(inputs[0])


COMPUTE: dict[str, Compute] = {
    "linear": lambda inputs, settings, batch: functional.linear(*inputs),
    "convolution": _convolution,
    "max_pool": _pool(functional.max_pool1d, functional.max_pool2d),
    "average_pool": _pool(functional.avg_pool1d, functional.avg_pool2d),
    "embedding": lambda inputs, settings, batch: functional.embedding(*inputs),
    "lstm": _recurrence("lstm"),
    "gru": _recurrence("gru"),
    "attention": _attention,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "matmul": lambda inputs, settings, batch: inputs[0] @ inputs[1],
    "add": _arithmetic(lambda a, b: a + b),
    "subtract": _arithmetic(lambda a, b: a - b),
    "multiply": _arithmetic(lambda a, b: a * b),
    "divide": _arithmetic(lambda a, b: a / b),
    "power": lambda inputs, settings, batch: inputs[0] ** settings["exponent"],
    "softmax": lambda inputs, settings, batch: inputs[0].softmax(settings["axis"]),
    "log_softmax": lambda inputs, settings, batch: inputs[0].log_softmax(settings["axis"]),
    "clamp": lambda inputs, settings, batch: inputs[0].clamp(settings["low"], settings["high"]),
    "leaky_relu": lambda inputs, settings, batch: functional.leaky_relu(inputs[0], settings["slope"]),
    "gelu": lambda inputs, settings, batch: functional.gelu(inputs[0], approximate="tanh" if settings["tanh"] else "none"),
    "mean": _reduction("mean"),
    "sum": _reduction("sum"),
    "reshape": lambda inputs, settings, batch: inputs[0].reshape(sizes(settings["shape"], batch)),
    "broadcast": lambda inputs, settings, batch: inputs[0].expand(sizes(settings["shape"], batch)),
    "permute": lambda inputs, settings, batch: inputs[0].permute(settings["axes"]),
    "slice": _slice,
    "concatenate": lambda inputs, settings, batch: torch.cat(list(inputs), settings["axis"]),
    "stack": lambda inputs, settings, batch: torch.stack(list(inputs), settings["axis"]),
    "relu": _function(torch.relu),
    "tanh": _function(torch.tanh),
    "sigmoid": _function(torch.sigmoid),
    "silu": _function(functional.silu),
    "hardswish": _function(functional.hardswish),
    "hardsigmoid": _function(functional.hardsigmoid),
    "exp": _function(torch.exp),
    "log": _function(torch.log),
    "sqrt": _function(torch.sqrt),
    "erf": _function(torch.erf),
}


def shapes_of(description: ModelDescription, weights: Tree, batch: int) -> list[tuple[int, ...]]:
    """The shape of every value for a batch of this size; nothing is computed."""
    module = DescribedModule(description, weights).eval().to("meta")
    kind = torch.from_numpy(np.zeros(0, description.sample_type)).dtype
    with torch.no_grad():
        values = module.values(torch.zeros((batch, *description.sample_shape), dtype=kind, device="meta"))
    return [tuple(value.shape) for value in values]
