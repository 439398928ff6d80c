"""How each function of PyTorch is written down as an operation of a description. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedfleet.tasks.description.layer_calls import LAYER_CALLS, Untranslatable

# What gives the same numbers, or none that a model's output depends on.
IGNORED = frozenset({"dim", "size", "__get__", "numel", "is_floating_point", "__len__"})


def _same(writer: Any, result: Any, x: Any, *_: Any, **__: Any) -> None:
    writer.keep(result, writer.number(x))


def _to(writer: Any, result: Any, x: Any, *_: Any, **__: Any) -> None:
    if result.dtype != x.dtype and not (x.dtype.is_floating_point and result.dtype.is_floating_point):
        raise Untranslatable("to another type")
    writer.keep(result, writer.number(x))


def _reshape(writer: Any, result: Any, x: Any, *_: Any, **__: Any) -> None:
    writer.add(result, "reshape", [x], shape=list(result.shape))


def _broadcast(writer: Any, result: Any, x: Any, *_: Any, **__: Any) -> None:
    writer.add(result, "broadcast", [x], shape=list(result.shape))


def _permute(writer: Any, result: Any, x: Any, *axes: Any, dims: Any = None) -> None:
    chosen = dims if dims is not None else axes[0] if len(axes) == 1 and isinstance(axes[0], Sequence) else axes
    writer.add(result, "permute", [x], axes=[int(a) % x.ndim for a in chosen])


def _transpose(writer: Any, result: Any, x: Any, dim0: int = 0, dim1: int = 1) -> None:
    axes = list(range(x.ndim))
    a, b = dim0 % x.ndim, dim1 % x.ndim
    axes[a], axes[b] = axes[b], axes[a]
    writer.add(result, "permute", [x], axes=axes)


def _slice(writer: Any, result: Any, x: Any, index: Any) -> None:
    writer.add(result, "slice", [x], index=[_place(i) for i in (index if isinstance(index, tuple) else (index,))])


def _place(index: Any) -> Any:
    """One place of an index as JSON: a number, [start, stop, step], "others" for all between, or "new"."""
    match index:
        case None:
            return "new"
        case slice():
            return [index.start, index.stop, index.step]
        case int():
            return index
        case _ if index is Ellipsis:
            return "others"
    raise Untranslatable("with an index that is computed")


def _pieces(writer: Any, result: Any, x: Any, axis: int, *, keep: bool) -> None:
    """Every piece along an axis as a slice."""
    axis, start = axis % x.ndim, 0
    whole: list[Any] = [[None, None, None]] * axis
    for i, piece in enumerate(result):
        stop = start + (piece.shape[axis] if keep else 1)
        writer.add(piece, "slice", [x], index=[*whole, [start, stop, None] if keep else i])
        start = stop


def _unbind(writer: Any, result: Any, x: Any, dim: int = 0) -> None:
    _pieces(writer, result, x, dim, keep=False)


def _split(writer: Any, result: Any, x: Any, _: Any = None, dim: int = 0, **__: Any) -> None:
    _pieces(writer, result, x, dim, keep=True)


def _select(writer: Any, result: Any, x: Any, dim: int, index: int) -> None:
    writer.add(result, "slice", [x], index=[*[[None, None, None]] * (dim % x.ndim), int(index)])


def _concatenate(name: str) -> Callable[..., None]:
    def translate(writer: Any, result: Any, tensors: Any, dim: int = 0) -> None:
        writer.add(result, name, list(tensors), axis=dim % result.ndim)

    return translate


def _reduction(name: str) -> Callable[..., None]:
    def translate(writer: Any, result: Any, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> None:
        if dtype is not None and dtype != x.dtype:
            raise Untranslatable("to another type")
        axes = range(x.ndim) if dim is None else dim if isinstance(dim, Sequence) else [dim]
        writer.add(result, name, [x], axes=sorted(int(a) % x.ndim for a in axes), keep=keepdim)

    return translate


def _arithmetic(name: str, *, reverse: bool = False) -> Callable[..., None]:
    def translate(writer: Any, result: Any, x: Any, other: Any, *, alpha: float = 1, rounding_mode: Any = None) -> None:
        if alpha != 1 or rounding_mode is not None:
            raise Untranslatable("with alpha or rounding_mode")
        left, right = (other, x) if reverse else (x, other)
        numbers = [float(v) if isinstance(v, int | float) else None for v in (left, right)]
        inputs = [v for v, number in zip((left, right), numbers, strict=True) if number is None]
        writer.add(result, name, inputs, left=numbers[0], right=numbers[1])

    return translate


def _power(writer: Any, result: Any, x: Any, exponent: Any) -> None:
    if not isinstance(exponent, int | float):
        raise Untranslatable("with an exponent that is computed")
    writer.add(result, "power", [x], exponent=float(exponent))


def _negative(writer: Any, result: Any, x: Any) -> None:
    writer.add(result, "multiply", [x], left=None, right=-1.0)


def _matmul(writer: Any, result: Any, x: Any, other: Any) -> None:
    if x.ndim < 2 or other.ndim < 2:
        raise Untranslatable("with a vector")
    writer.add(result, "matmul", [x, other])


def _unary(name: str) -> Callable[..., None]:
    def translate(writer: Any, result: Any, x: Any, inplace: bool = False) -> None:
        del inplace  # the result is read from now on, under the same object where it is the same
        writer.add(result, name, [x])

    return translate


def _relu6(writer: Any, result: Any, x: Any, inplace: bool = False) -> None:
    del inplace
    writer.add(result, "clamp", [x], low=0.0, high=6.0)


def _clamp(writer: Any, result: Any, x: Any, min: Any = None, max: Any = None) -> None:
    if not all(v is None or isinstance(v, int | float) for v in (min, max)):
        raise Untranslatable("with limits that are computed")
    writer.add(result, "clamp", [x], low=min, high=max)


def _hardtanh(writer: Any, result: Any, x: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
    del inplace
    writer.add(result, "clamp", [x], low=float(min_val), high=float(max_val))


def _leaky_relu(writer: Any, result: Any, x: Any, negative_slope: float = 0.01, inplace: bool = False) -> None:
    del inplace
    writer.add(result, "leaky_relu", [x], slope=float(negative_slope))


def _gelu(writer: Any, result: Any, x: Any, *, approximate: str = "none") -> None:
    writer.add(result, "gelu", [x], tanh=approximate == "tanh")


def _softmax(name: str) -> Callable[..., None]:
    def translate(writer: Any, result: Any, x: Any, dim: int = -1, *_: Any, **__: Any) -> None:
        writer.add(result, name, [x], axis=dim % x.ndim)

    return translate


def _table() -> dict[str, Callable[..., Any]]:
    """By the name of a function or a method, also of the forms that change their input."""
    groups: dict[Callable[..., Any], str] = {
        _same: "contiguous clone detach identity alias requires_grad_",
        _to: "to float double type_as",
        _reshape: "view reshape flatten unflatten squeeze unsqueeze view_as reshape_as",
        _broadcast: "expand expand_as broadcast_to",
        _permute: "permute",
        _transpose: "transpose swapaxes swapdims",
        _slice: "__getitem__",
        _unbind: "unbind __iter__",
        _split: "split chunk",
        _select: "select",
        _concatenate("concatenate"): "cat concat concatenate",
        _concatenate("stack"): "stack",
        _reduction("mean"): "mean",
        _reduction("sum"): "sum",
        _arithmetic("add"): "add add_ __add__ __radd__ __iadd__",
        _arithmetic("subtract"): "sub sub_ __sub__ subtract __isub__",
        _arithmetic("subtract", reverse=True): "__rsub__ rsub",
        _arithmetic("multiply"): "mul mul_ __mul__ __rmul__ multiply __imul__",
        _arithmetic("divide"): "div div_ __truediv__ true_divide divide __itruediv__",
        _arithmetic("divide", reverse=True): "__rtruediv__ __rdiv__",
        _power: "pow __pow__",
        _negative: "neg __neg__",
        _matmul: "matmul __matmul__ bmm",
        _relu6: "relu6",
        _clamp: "clamp clip",
        _hardtanh: "hardtanh",
        _leaky_relu: "leaky_relu",
        _gelu: "gelu",
        _softmax("softmax"): "softmax",
        _softmax("log_softmax"): "log_softmax",
    }
    table = {name: translate for translate, names in groups.items() for name in names.split()}
    for name in ("relu", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid", "exp", "log", "sqrt", "erf"):
        table[name] = table[f"{name}_"] = _unary(name)
    return {**table, **LAYER_CALLS}


TRANSLATIONS = _table()
