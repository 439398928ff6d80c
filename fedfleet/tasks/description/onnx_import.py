"""An ONNX file as a description and its weights, so that a model that was made elsewhere can be trained here.

Shapes are followed for two sizes of batch, as when a module is described: what grows with the batch is told from what is fixed,
also where a file computes shapes itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedfleet.core.errors import BadInput, nearest_file
from fedfleet.core.trees import Array, Tree
from fedfleet.tasks.description.format import ModelDescription, Operation, check_description
from fedfleet.tasks.description.module import COMPUTE
from fedfleet.tasks.description.onnx_export import TRAINED, require_onnx

MOST_BYTES = 512 << 20
_BATCHES = (2, 3)
_STATISTICS = (3, 4)  # of batch normalisation, by the place of the input


@dataclass(frozen=True, slots=True)
class Fixed:
    """An array that does not depend on the samples, for each of both sizes of batch."""

    values: tuple[Array, Array]

    @property
    def same(self) -> Array:
        """The array, which must be the same for every batch."""
        if not np.array_equal(*self.values):
            raise Untrainable("with a setting that depends on the batch")
        return self.values[0]

    def joint_shape(self) -> list[int]:
        """Integers as a description has them: a negative number is so many times the batch."""
        small, large = (v.reshape(-1).tolist() for v in self.values)
        return [_merge(int(a), int(b)) for a, b in zip(small, large, strict=True)]


class Untrainable(Exception):
    """What a description does not have; the text says what about it."""


# A value of the file: the number of a value, the name of a leaf, or what is fixed.
Value = int | str | Fixed


def _merge(small: int, large: int) -> int:
    if small == large:
        return small
    if small % _BATCHES[0] == 0 and small // _BATCHES[0] * _BATCHES[1] == large:
        return -(small // _BATCHES[0])
    raise Untrainable("with a shape that does not grow with the batch")


@dataclass(slots=True)
class Node:
    """One node of the file: its operator, what it takes, and its attributes."""

    operator: str
    inputs: list[Value | None]
    attributes: Mapping[str, Any]
    outputs: int
    version: int


@dataclass(slots=True)
class Importer:
    """Writes the operations of a description, and follows their shapes."""

    leaves: dict[str, Array]
    sample_shape: tuple[int, ...]
    sample_kind: torch.dtype
    operations: list[Operation] = field(default_factory=list[Operation])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    read: dict[str, Array] = field(default_factory=dict[str, Array])  # the leaves that operations take
    statistics: set[str] = field(default_factory=set[str])
    dropouts: int = 0
    _shapes: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list[tuple[torch.Tensor, torch.Tensor]])

    def __post_init__(self) -> None:
        self._shapes.append(self._both(lambda n: torch.zeros((n, *self.sample_shape), dtype=self.sample_kind, device="meta")))

    @staticmethod
    def _both(make: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return make(_BATCHES[0]), make(_BATCHES[1])

    def shapes(self, value: Value) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of a value for each size of batch."""
        small, large = self._meta(value)
        return tuple(small.shape), tuple(large.shape)

    def rank(self, value: Value) -> int:
        """How many axes it has."""
        return len(self.shapes(value)[0])

    def _meta(self, value: Value | str) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(value, int):
            return self._shapes[value]
        if isinstance(value, Fixed):
            small, large = (torch.from_numpy(np.array(v)).to("meta") for v in value.values)
            return small, large
        array = self.constants[value] if value in self.constants else self.leaves[value]
        meta = torch.from_numpy(np.array(array)).to("meta")
        return meta, meta

    def add(self, name: str, *inputs: Value, **settings: Any) -> int:
        """Write one operation; the number of its value."""
        taken = tuple(self._name_of(v) for v in inputs)
        metas = [self._meta(v) for v in taken]
        if name in ("batch_norm", "dropout"):
            results = metas[0]
        else:
            small, large = (COMPUTE[name]([m[i] for m in metas], settings, _BATCHES[i]) for i in range(2))
            results = small, large
        self.operations.append(Operation(name, taken, settings))
        self._shapes.append(results)
        return len(self.operations)

    def _name_of(self, value: Value) -> int | str:
        """The number or the name of what an operation takes; an array becomes a constant."""
        if isinstance(value, str):
            self.read[value] = self.leaves[value]
        if not isinstance(value, Fixed):
            return value
        array = value.same
        kind = {"f": np.float32, "i": np.int64, "u": np.int64, "b": np.bool_}[array.dtype.kind]
        name = f"constant {len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(array.astype(kind))
        return name

    def fixed_value(self, value: Value | None) -> Fixed | None:
        """What is fixed; a leaf that is a setting of an operator is no weight."""
        if isinstance(value, str):
            return Fixed((self.leaves[value], self.leaves[value]))
        if isinstance(value, int):
            raise Untrainable("with a setting that depends on the samples")
        return value


def read_onnx(path: str | Path) -> tuple[ModelDescription, Tree]:
    """The model in an ONNX file: its description and its weights. `BadInput` names what cannot be trained.

    Of the file's tensors those learn that it says, or all of floating point that are no statistics of batch normalisation.
    """
    path = Path(path).expanduser()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"model: {path} has more than {MOST_BYTES:,} bytes")
        return from_onnx(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise BadInput(f"model: there is no file {path}{nearest_file(path)}") from None
    except OSError as error:
        raise BadInput(f"model: {path} cannot be read ({error.strerror})") from None


def from_onnx(data: bytes, name: str) -> tuple[ModelDescription, Tree]:
    """The same from the bytes of a file with this name."""
    onnx = require_onnx()
    try:
        model = onnx.load_model_from_string(data)
        onnx.checker.check_model(model)
    except Exception as error:
        raise BadInput(f"model: {name} is not a valid ONNX file ({str(error).splitlines()[0][:200]})") from None
    graph = model.graph
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in graph.initializer):
        raise BadInput(f"model: {name} keeps weights in other files; save it as one file")
    leaves = {t.name: np.array(onnx.numpy_helper.to_array(t)) for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in leaves]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise BadInput(
            f"model: {name} has {len(inputs)} inputs and {len(graph.output)} outputs; FedFleet trains models with one of each"
        )
    importer, values = _begin(onnx, inputs[0], leaves, name), dict[str, Value | None]({inputs[0].name: 0, "": None})
    values |= {n: n for n in leaves}
    version = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    for number, node in enumerate(graph.node):
        _take_node(onnx, importer, node, values, version, f"model: node {number} of {name}")
    return _description_of(model, importer, values[graph.output[0].name], name)


def _begin(onnx: Any, given: Any, leaves: dict[str, Array], name: str) -> Importer:
    kind = given.type.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim]
    if not dims or any(d <= 0 for d in dims[1:]):
        raise BadInput(f"model: the input of {name} needs a fixed shape after the batch, and has {dims or 'none'}")
    if dims[0] > 0:
        raise BadInput(f"model: {name} takes batches of {dims[0]} alone; export it with a first axis that is free (dynamic)")
    kinds = {onnx.TensorProto.FLOAT: torch.float32, onnx.TensorProto.INT64: torch.int64}
    if kind.elem_type not in kinds:
        raise BadInput(f"model: the input of {name} is neither single precision nor 64 bit integers")
    return Importer(leaves, tuple(dims[1:]), kinds[kind.elem_type])


def _take_node(onnx: Any, importer: Importer, node: Any, values: dict[str, Value | None], version: int, where: str) -> None:
    """Write one node down, or compute it where it is fixed."""
    from fedfleet.tasks.description.onnx_constants import FOLDED
    from fedfleet.tasks.description.onnx_operators import OPERATORS

    missing = [n for n in node.input if n not in values]
    taken = [values[n] for n in node.input if n not in missing]
    attributes = {a.name: _attribute(onnx, a) for a in node.attribute}
    entry = Node(node.op_type, taken, attributes, len(node.output), version)
    try:
        if missing or node.domain not in ("", "ai.onnx"):
            raise Untrainable("of another domain" if not missing else "on something that is not computed before it")
        folds = node.op_type in FOLDED and all(v is None or isinstance(v, Fixed) or _is_integer(importer, v) for v in taken)
        if node.op_type == "Constant" or node.op_type == "Shape" or folds:
            results: Sequence[Value] = _fold_constants(importer, entry)
        elif node.op_type in OPERATORS:
            found = OPERATORS[node.op_type](importer, entry)
            results = found if isinstance(found, list) else [found]
        else:
            raise Untrainable("")
    except Untrainable as reason:
        raise BadInput(f"{where} is {node.op_type} {reason}".rstrip() + ", which FedFleet cannot train") from None
    except (ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError) as error:
        raise BadInput(f"{where} ({node.op_type}) does not fit what it takes ({str(error).splitlines()[0][:200]})") from None
    values.update(zip(node.output, results, strict=False))


def _attribute(onnx: Any, attribute: Any) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    return np.array(onnx.numpy_helper.to_array(value)) if isinstance(value, onnx.TensorProto) else value


def _is_integer(importer: Importer, value: Value) -> bool:
    """A tensor of the file that is a setting and no weight."""
    return isinstance(value, str) and importer.leaves[value].dtype.kind in "iu"


def _fold_constants(importer: Importer, node: Node) -> list[Value]:
    """What a node gives that does not depend on the samples."""
    from fedfleet.tasks.description.onnx_constants import FOLDED

    if node.operator == "Constant":
        keys = ("value", "value_float", "value_int", "value_floats", "value_ints")
        array = next(np.asarray(node.attributes[k]) for k in keys if k in node.attributes)
        return [Fixed((array, array))]
    if node.operator == "Shape":
        small, large = importer.shapes(node.inputs[0] if node.inputs[0] is not None else 0)
        span = slice(node.attributes.get("start", 0), node.attributes.get("end"))
        return [Fixed((np.array(small[span], np.int64), np.array(large[span], np.int64)))]
    fixed = [importer.fixed_value(v) for v in node.inputs]
    results = [FOLDED[node.operator]([None if f is None else f.values[i] for f in fixed], node.attributes) for i in range(2)]
    return [Fixed((np.asarray(results[0]), np.asarray(results[1])))]


def _description_of(model: Any, importer: Importer, output: Value | None, name: str) -> tuple[ModelDescription, Tree]:
    if not isinstance(output, int):
        raise BadInput(f"model: the output of {name} does not depend on its input")
    floats = {n for n, v in importer.read.items() if v.dtype == np.float32}
    odd = sorted(n for n in importer.read if n not in floats)
    if odd:
        raise BadInput(f"model: the tensor {odd[0]!r} of {name} is not of single precision")
    known = {p.key: p.value for p in model.metadata_props}.get(TRAINED)
    trained = floats - importer.statistics if known is None else floats & set(json.loads(known))
    weights = {n: np.ascontiguousarray(importer.read[n]) for n in importer.read}
    description = ModelDescription(
        importer.sample_shape,
        "<f4" if importer.sample_kind == torch.float32 else "<i8",
        {n: (tuple(v.shape), v.dtype.str) for n, v in weights.items()},
        frozenset(trained),
        tuple(importer.operations),
        output,
        importer.constants,
    )
    check_description(description)
    return description, weights
