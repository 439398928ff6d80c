"""The description of a model: a list of operations on arrays, without code, that engines other than PyTorch can train.

Value 0 is the batch, and operation i makes value i + 1. An operation takes earlier values by number, and leaves (weights, buffers)
and constants by name. In a shape, a negative number -k stands for k times the size of the batch. A description is JSON, bounded,
and checked before an engine sees it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedfleet.core.errors import Refused
from fedfleet.core.trees import Array, Tree

VERSION = 1
MOST_OPERATIONS = 20_000
MOST_BYTES = 8 << 20
# What each operation takes: the fewest and the most inputs, and the settings that it must have.
OPERATIONS: Mapping[str, tuple[int, int, frozenset[str]]] = {
    name: (fewest, most, frozenset(settings.split()))
    for name, fewest, most, settings in (
        ("linear", 2, 3, ""),
        ("convolution", 2, 3, "stride padding dilation groups"),
        ("max_pool", 1, 1, "size stride padding"),
        ("average_pool", 1, 1, "size stride padding"),
        ("embedding", 2, 2, ""),
        ("lstm", 3, 1024, "layers biased"),
        ("gru", 3, 1024, "layers biased"),
        ("attention", 3, 3, "causal scale"),
        ("layer_norm", 1, 3, "axes epsilon weighted biased"),
        ("group_norm", 1, 3, "groups epsilon weighted biased"),
        ("batch_norm", 3, 5, "epsilon momentum weighted biased counter"),
        ("dropout", 1, 1, "rate layer"),
        ("matmul", 2, 2, ""),
        ("add", 1, 2, "left right"),
        ("subtract", 1, 2, "left right"),
        ("multiply", 1, 2, "left right"),
        ("divide", 1, 2, "left right"),
        ("power", 1, 1, "exponent"),
        ("softmax", 1, 1, "axis"),
        ("log_softmax", 1, 1, "axis"),
        ("clamp", 1, 1, "low high"),
        ("leaky_relu", 1, 1, "slope"),
        ("gelu", 1, 1, "tanh"),
        ("mean", 1, 1, "axes keep"),
        ("sum", 1, 1, "axes keep"),
        ("reshape", 1, 1, "shape"),
        ("broadcast", 1, 1, "shape"),
        ("permute", 1, 1, "axes"),
        ("slice", 1, 1, "index"),
        ("concatenate", 1, 1024, "axis"),
        ("stack", 1, 1024, "axis"),
        *(
            (name, 1, 1, "")
            for name in ("relu", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid", "exp", "log", "sqrt", "erf")
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a model: what it computes, from which values (numbers) and leaves (names), and how."""

    name: str
    inputs: tuple[int | str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as data: the shape and type of one sample, those of its leaves, its operations in order, and which value it gives.

    `constants` are arrays that no training changes and no checkpoint holds, such as a mask; `trained` names the leaves that learn.
    """

    sample_shape: tuple[int, ...]
    sample_type: str
    leaves: Mapping[str, tuple[tuple[int, ...], str]]
    trained: frozenset[str]
    operations: tuple[Operation, ...]
    output: int
    constants: Mapping[str, Array] = field(default_factory=dict[str, Array], compare=False)

    def to_json(self) -> str:
        """The description as text: equal models give equal bytes."""
        table = {
            "version": VERSION,
            "sample": {"shape": list(self.sample_shape), "type": self.sample_type},
            "leaves": {n: {"shape": list(shape), "type": kind} for n, (shape, kind) in self.leaves.items()},
            "trained": sorted(self.trained),
            "operations": [
                {"name": o.name, "inputs": list(o.inputs), **({"settings": dict(o.settings)} if o.settings else {})}
                for o in self.operations
            ],
            "output": self.output,
            "constants": {n: _encode(value) for n, value in self.constants.items()},
        }
        return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)


def description_from_json(text: str | bytes) -> ModelDescription:
    """The description in this text; `Refused` if it is not one that engines can trust.

    >>> identity = ModelDescription((3,), "<f4", {}, frozenset(), (), 0)
    >>> description_from_json(identity.to_json()) == identity
    True
    """
    if len(text) > MOST_BYTES:
        raise Refused(f"the description of the model has {len(text):,} bytes; at most {MOST_BYTES:,} are read")
    try:
        table = json.loads(text)
        if table["version"] != VERSION:
            raise Refused(f"the description of the model is of version {table['version']}; this FedFleet reads version {VERSION}")
        result = ModelDescription(
            _shape(table["sample"]["shape"]),
            str(table["sample"]["type"]),
            {str(n): (_shape(leaf["shape"]), str(leaf["type"])) for n, leaf in table["leaves"].items()},
            frozenset(str(n) for n in table["trained"]),
            tuple(Operation(str(o["name"]), tuple(o["inputs"]), dict(o.get("settings", {}))) for o in table["operations"]),
            int(table["output"]),
            {str(n): _decode(entry) for n, entry in table["constants"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise Refused(f"the description of the model cannot be read ({type(error).__name__})") from None
    check_description(result)
    return result


def check_description(description: ModelDescription) -> None:
    """Refuse a description whose operations do not fit together."""
    if len(description.operations) > MOST_OPERATIONS:
        raise Refused(
            f"the description of the model has {len(description.operations):,} operations; at most {MOST_OPERATIONS:,} are read"
        )
    if not description.trained <= description.leaves.keys():
        raise Refused("the description of the model trains leaves that it does not have")
    for number, operation in enumerate(description.operations):
        rule = OPERATIONS.get(operation.name)
        if rule is None:
            raise Refused(f"operation {number} of the model is {operation.name!r}, which this version of FedFleet does not know")
        fewest, most, settings = rule
        if not fewest <= len(operation.inputs) <= most or operation.settings.keys() != settings:
            raise Refused(f"operation {number} of the model ({operation.name}) does not have the inputs or settings that it needs")
        if not all(_is_known(value, number, description) for value in operation.inputs):
            raise Refused(f"operation {number} of the model ({operation.name}) reads something that does not exist before it")
    if not 0 <= description.output <= len(description.operations):
        raise Refused("the description of the model gives a value that it does not compute")


def check_leaves(description: ModelDescription, leaves: Tree) -> None:
    """Refuse weights that are not those of the description."""
    for name, (shape, kind) in description.leaves.items():
        value = leaves.get(name)
        if value is None or value.shape != shape or value.dtype.str != kind:
            raise Refused(f"the weights {name!r} do not have the shape and the type that the description of the model says")


def _is_known(value: int | str, number: int, description: ModelDescription) -> bool:
    if isinstance(value, str):
        return value in description.leaves or value in description.constants
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= number


def _shape(values: Any) -> tuple[int, ...]:
    shape = tuple(int(v) for v in values)
    if any(v < 0 for v in shape) or math.prod(shape) > 1 << 40 or len(shape) > 8:
        raise ValueError("an impossible shape")
    return shape


def _encode(value: Array) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return {"shape": list(value.shape), "type": value.dtype.str, "data": data}


def _decode(entry: Mapping[str, Any]) -> Array:
    if entry["type"] not in ("<f4", "<i8", "|b1"):
        raise ValueError("a constant of another type")
    return np.frombuffer(base64.b64decode(entry["data"]), entry["type"]).reshape(_shape(entry["shape"]))
