"""What a node of an ONNX file is given: inputs that it needs, settings that are fixed, and what makes a value of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedfleet.tasks.description.onnx_import import Fixed, Importer, Node, Untrainable, Value

# What writes a node as operations of a description, and gives its outputs.
Reader = Callable[[Importer, Node], Value | list[Value]]


def check_attributes(node: Node, **expected: Any) -> None:
    """Refuse attributes that say something else than a description can."""
    for name, value in expected.items():
        if node.attributes.get(name, value) != value:
            raise Untrainable(f"with {name} = {node.attributes[name]!r}")


def needed_input(node: Node, place: int) -> Value:
    """The input at this place; `Untrainable` if there is none."""
    value = node.inputs[place] if place < len(node.inputs) else None
    if value is None:
        raise Untrainable("without an input that it needs")
    return value


def fixed_integers(importer: Importer, node: Node, place: int, attribute: str) -> list[int] | None:
    """A setting that is an input in newer files and an attribute in older ones."""
    if place < len(node.inputs) and node.inputs[place] is not None:
        fixed = importer.fixed_value(node.inputs[place])
        assert fixed is not None
        return [int(v) for v in fixed.same.reshape(-1)]
    found = node.attributes.get(attribute)
    return None if found is None else [int(v) for v in found]


def fixed_number(importer: Importer, value: Value | None) -> float | None:
    """A number that no training changes; None if it is none."""
    if isinstance(value, str) and importer.leaves[value].size == 1:
        return float(importer.leaves[value].reshape(-1)[0])
    if isinstance(value, Fixed) and value.values[0].size == 1:
        return float(value.same.reshape(-1)[0])
    return None
