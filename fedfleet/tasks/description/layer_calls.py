"""How the functions of PyTorch that take weights, or look at windows, are written down. Nothing here imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any


class Untranslatable(Exception):
    """A call that no description has; the text says what about it."""


def _linear(writer: Any, result: Any, x: Any, weight: Any, bias: Any = None) -> None:
    writer.add(result, "linear", [x, weight] if bias is None else [x, weight, bias])


def _pair(value: Any, dimensions: int) -> list[int]:
    values = [int(v) for v in value] if isinstance(value, Sequence) else [int(value)] * dimensions
    return values if len(values) == dimensions else values * dimensions


def _convolution(dimensions: int) -> Callable[..., None]:
    def translate(
        writer: Any, result: Any, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> None:  # fmt: skip
        if x.ndim != dimensions + 2:
            raise Untranslatable("without a batch")
        if isinstance(padding, str):
            if padding == "same" and any(k % 2 == 0 for k in weight.shape[2:]):
                raise Untranslatable('with padding "same" and a kernel of even size')
            spread = _pair(dilation, dimensions)
            padding = [d * (k - 1) // 2 for d, k in zip(spread, weight.shape[2:], strict=True)] if padding == "same" else 0
        writer.add(
            result, "convolution", [x, weight] if bias is None else [x, weight, bias],
            stride=_pair(stride, dimensions), padding=_pair(padding, dimensions), dilation=_pair(dilation, dimensions),
            groups=int(groups),
        )  # fmt: skip

    return translate


def _max_pool(dimensions: int) -> Callable[..., None]:
    def translate(
        writer: Any, result: Any, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> None:  # fmt: skip
        if ceil_mode or return_indices or any(d != 1 for d in _pair(dilation, dimensions)):
            raise Untranslatable("with ceil_mode, return_indices or dilation")
        size = _pair(kernel_size, dimensions)
        step = size if stride is None or stride == [] else _pair(stride, dimensions)
        writer.add(result, "max_pool", [x], size=size, stride=step, padding=_pair(padding, dimensions))

    return translate


def _average_pool(dimensions: int) -> Callable[..., None]:
    def translate(
        writer: Any, result: Any, x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> None:  # fmt: skip
        pad = _pair(padding, dimensions)
        if ceil_mode or divisor_override is not None or (not count_include_pad and any(pad)):
            raise Untranslatable("with ceil_mode, divisor_override or count_include_pad=False")
        size = _pair(kernel_size, dimensions)
        step = size if stride is None or stride == [] else _pair(stride, dimensions)
        writer.add(result, "average_pool", [x], size=size, stride=step, padding=pad)

    return translate


def _adaptive_pool(dimensions: int) -> Callable[..., None]:
    def translate(writer: Any, result: Any, x: Any, output_size: Any) -> None:
        del output_size
        pairs = list(zip(x.shape[-dimensions:], result.shape[-dimensions:], strict=True))
        if any(whole % part for whole, part in pairs):
            raise Untranslatable("to a size that does not divide that of its input")
        size = [whole // part for whole, part in pairs]
        writer.add(result, "average_pool", [x], size=size, stride=size, padding=[0] * dimensions)

    return translate


def _embedding(
    writer: Any, result: Any, ids: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any
) -> None:
    if (padding_idx is not None and padding_idx >= 0) or max_norm is not None:
        raise Untranslatable("with padding_idx or max_norm")
    writer.add(result, "embedding", [ids, weight])


def _layer_norm(
    writer: Any, result: Any, x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> None:
    inputs = [v for v in (x, weight, bias) if v is not None]
    writer.add(
        result,
        "layer_norm",
        inputs,
        axes=len(normalized_shape),
        epsilon=float(eps),
        weighted=weight is not None,
        biased=bias is not None,
    )


def _group_norm(
    writer: Any, result: Any, x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> None:
    inputs = [v for v in (x, weight, bias) if v is not None]
    writer.add(
        result,
        "group_norm",
        inputs,
        groups=int(num_groups),
        epsilon=float(eps),
        weighted=weight is not None,
        biased=bias is not None,
    )


def _batch_norm(
    writer: Any, result: Any, x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: Any = 0.1, eps: float = 1e-5,
) -> None:  # fmt: skip
    del training
    if running_mean is None or running_var is None or momentum is None:
        raise Untranslatable("without running statistics or with their plain mean")
    inputs = [v for v in (x, running_mean, running_var, weight, bias) if v is not None]
    place = str(writer.number(running_mean)).rpartition(".")[0]
    counter = f"{place}.num_batches_tracked".lstrip(".")
    writer.add(
        result,
        "batch_norm",
        inputs,
        epsilon=float(eps),
        momentum=float(momentum),
        weighted=weight is not None,
        biased=bias is not None,
        counter=counter if counter in writer.leaves.values() else None,
    )


def _attention(
    writer: Any, result: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> None:  # fmt: skip
    if attn_mask is not None or dropout_p or enable_gqa:
        raise Untranslatable("with a mask, dropout or grouped queries")
    chosen = float(scale) if scale is not None else 1.0 / math.sqrt(query.shape[-1])
    writer.add(result, "attention", [query, key, value], causal=bool(is_causal), scale=chosen)


def _recurrence(name: str) -> Callable[..., None]:
    def translate(
        writer: Any, result: Any, x: Any, states: Any, weights: Any, has_biases: bool, num_layers: int, dropout: float,
        training: bool, bidirectional: bool, batch_first: bool,
    ) -> None:  # fmt: skip
        del training
        first = states if isinstance(states, list | tuple) else [states]
        if any(id(v) in writer.values for v in first) or any(float(v.abs().sum()) for v in first):
            raise Untranslatable("with a first state other than zeros")
        if dropout or bidirectional or not batch_first:
            raise Untranslatable("with dropout, in both directions or without batch_first")
        writer.add(result[0], name, [x, *weights], layers=int(num_layers), biased=bool(has_biases))

    return translate


def _functional_dropout(writer: Any, result: Any, x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> None:
    del inplace
    if training and p:
        raise Untranslatable("itself; use a layer nn.Dropout")
    writer.keep(result, writer.number(x))


LAYER_CALLS: dict[str, Callable[..., None]] = {
    "linear": _linear,
    "conv1d": _convolution(1),
    "conv2d": _convolution(2),
    "max_pool1d": _max_pool(1),
    "max_pool2d": _max_pool(2),
    "avg_pool1d": _average_pool(1),
    "avg_pool2d": _average_pool(2),
    "adaptive_avg_pool1d": _adaptive_pool(1),
    "adaptive_avg_pool2d": _adaptive_pool(2),
    "embedding": _embedding,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
    "scaled_dot_product_attention": _attention,
    "lstm": _recurrence("lstm"),
    "gru": _recurrence("gru"),
    "dropout": _functional_dropout,
}
