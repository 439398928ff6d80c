"""Layers with weights, pooling and normalisation in ONNX, as operations of a description."""

from __future__ import annotations

from collections.abc import Sequence

from fedfleet.tasks.description.onnx_import import Fixed, Importer, Node, Untrainable, Value
from fedfleet.tasks.description.onnx_inputs import Reader, check_attributes, needed_input


def _product(importer: Importer, x: Value, weight: Value) -> Value:
    """A product of matrices; that with a weight is a linear layer."""
    if not isinstance(weight, int) and importer.rank(weight) == 2:
        return importer.add("linear", x, importer.add("permute", weight, axes=[1, 0]))
    return importer.add("matmul", x, weight)


def _gemm(importer: Importer, node: Node) -> Value:
    check_attributes(node, alpha=1.0, beta=1.0, transA=0)
    x, weight, bias = needed_input(node, 0), needed_input(node, 1), node.inputs[2:3]
    if not node.attributes.get("transB", 0):
        weight = importer.add("permute", weight, axes=[1, 0])
    plain = bool(bias) and bias[0] is not None and importer.rank(bias[0]) == 1
    y = importer.add("linear", x, weight, *(bias if plain else ()))  # type: ignore[arg-type]
    return y if plain or not bias or bias[0] is None else importer.add("add", y, bias[0], left=None, right=None)


def _windows(node: Node, *, dimensions: int) -> tuple[list[int], list[int], list[int]]:
    """Stride, padding and dilation of a window."""
    if node.attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise Untrainable("with auto_pad")
    pads = list(node.attributes.get("pads", [0] * (2 * dimensions)))
    if pads[:dimensions] != pads[dimensions:]:
        raise Untrainable("with other padding before than after")
    stride = list(node.attributes.get("strides", [1] * dimensions))
    return stride, pads[:dimensions], list(node.attributes.get("dilations", [1] * dimensions))


def _convolution(importer: Importer, node: Node) -> Value:
    dimensions = importer.rank(needed_input(node, 0)) - 2
    if dimensions not in (1, 2):
        raise Untrainable(f"in {dimensions} dimensions")
    stride, padding, dilation = _windows(node, dimensions=dimensions)
    inputs = [v for v in node.inputs if v is not None]
    groups = node.attributes.get("group", 1)
    return importer.add("convolution", *inputs, stride=stride, padding=padding, dilation=dilation, groups=groups)


def _pool(name: str) -> Reader:
    def read(importer: Importer, node: Node) -> Value:
        check_attributes(node, ceil_mode=0, storage_order=0)
        size = list(node.attributes["kernel_shape"])
        stride, padding, dilation = _windows(node, dimensions=len(size))
        if any(d != 1 for d in dilation) or len(size) not in (1, 2):
            raise Untrainable("with dilation or in three dimensions")
        if name == "average_pool" and any(padding):
            check_attributes(node, count_include_pad=1)
            if "count_include_pad" not in node.attributes:
                raise Untrainable("with count_include_pad = 0")
        return importer.add(name, needed_input(node, 0), size=size, stride=stride, padding=padding)

    return read


def _global_average(importer: Importer, node: Node) -> Value:
    x = needed_input(node, 0)
    return importer.add("mean", x, axes=list(range(2, importer.rank(x))), keep=True)


def _batch_norm(importer: Importer, node: Node) -> Value:
    check_attributes(node, training_mode=0)
    x, weight, bias, mean, variance = (needed_input(node, i) for i in range(5))
    if not isinstance(mean, str) or not isinstance(variance, str):
        raise Untrainable("with statistics that are no tensors of the file")
    importer.statistics |= {mean, variance}
    settings = {"epsilon": float(node.attributes.get("epsilon", 1e-5)), "momentum": 1 - float(node.attributes.get("momentum", 0.9))}
    return importer.add("batch_norm", x, mean, variance, weight, bias, **settings, weighted=True, biased=True, counter=None)


def _layer_norm(importer: Importer, node: Node) -> Value:
    x, rank = needed_input(node, 0), importer.rank(needed_input(node, 0))
    inputs = [v for v in node.inputs if v is not None]
    axes = rank - node.attributes.get("axis", -1) % rank
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return importer.add("layer_norm", x, *inputs[1:], axes=axes, epsilon=epsilon, weighted=True, biased=len(inputs) == 3)


def _group_norm(importer: Importer, node: Node) -> Value:
    x, weight, bias = (needed_input(node, i) for i in range(3))
    alone = node.operator == "InstanceNormalization"
    channels = importer.shapes(x)[0][1]
    if importer.shapes(weight)[0] != (channels,):
        raise Untrainable("with a weight for each group; write it with opset 21")
    groups = channels if alone else int(node.attributes["num_groups"])
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    return importer.add("group_norm", x, weight, bias, groups=groups, epsilon=epsilon, weighted=True, biased=True)


def _recurrence(name: str, gates: Sequence[int]) -> Reader:
    """One layer, whose gates are brought into PyTorch's order."""

    def read(importer: Importer, node: Node) -> Value:
        if node.attributes.get("direction", b"forward") != b"forward":
            raise Untrainable("in another direction than forward")
        lengths, states = node.inputs[4:5], node.inputs[5:]
        if (
            any(v is not None for v in lengths)
            or not all(v is None or _is_zero(v) for v in states)
            or "activations" in node.attributes
            or "clip" in node.attributes
        ):
            raise Untrainable("with first states, lengths of sequences, peepholes, activations or clip")
        check_attributes(node, layout=0, input_forget=0)
        if name == "gru" and node.attributes.get("linear_before_reset", 0) != 1:
            raise Untrainable("with linear_before_reset = 0")
        hidden = node.attributes["hidden_size"]

        def reorder_gates(value: Value, start: int) -> Value:
            pieces = [importer.add("slice", value, index=[0, [start + g * hidden, start + (g + 1) * hidden, None]]) for g in gates]
            return importer.add("concatenate", *pieces, axis=0)

        weights = [reorder_gates(needed_input(node, 1), 0), reorder_gates(needed_input(node, 2), 0)]
        bias = node.inputs[3] if len(node.inputs) > 3 else None
        if bias is not None:
            weights += [reorder_gates(bias, 0), reorder_gates(bias, len(gates) * hidden)]
        x = importer.add("permute", needed_input(node, 0), axes=[1, 0, 2])
        y = importer.add(name, x, *weights, layers=1, biased=bias is not None)
        # Back to [places, directions, batch, hidden].
        return importer.add("slice", importer.add("permute", y, axes=[1, 0, 2]), index=[[None, None, None], "new"])

    return read


def _is_zero(value: Value) -> bool:
    return isinstance(value, Fixed) and not any(v.any() for v in value.values)


LAYERS: dict[str, Reader] = {
    "Gemm": _gemm,
    "MatMul": lambda importer, node: _product(importer, needed_input(node, 0), needed_input(node, 1)),
    "Conv": _convolution,
    "MaxPool": _pool("max_pool"),
    "AveragePool": _pool("average_pool"),
    "GlobalAveragePool": _global_average,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _group_norm,
    "GroupNormalization": _group_norm,
    "LSTM": _recurrence("lstm", (0, 2, 3, 1)),
    "GRU": _recurrence("gru", (1, 0, 2)),
}
