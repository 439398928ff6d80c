"""A described model with numpy: its forward pass, and the gradients of its weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedfleet.core.errors import Refused
from fedfleet.core.trees import Array
from fedfleet.executors.numpy.matrix_layers import LAYERS
from fedfleet.executors.numpy.normalisation import NORMALISATIONS
from fedfleet.executors.numpy.operations import OPERATIONS, Backward, ForwardPass
from fedfleet.executors.numpy.recurrence import RECURRENCES
from fedfleet.tasks.description.format import ModelDescription

KNOWN = {**OPERATIONS, **NORMALISATIONS, **LAYERS, **RECURRENCES}


@dataclass(slots=True)
class Tape:
    """What a forward pass leaves for the backward pass: how to go back through each operation, and what it changed."""

    output: Array
    steps: list[tuple[int, tuple[int | str, ...], Backward]] = field(
        default_factory=list[tuple[int, tuple[int | str, ...], Backward]]
    )
    buffers: dict[str, Array] = field(default_factory=dict[str, Array])


class NumpyModel:
    """Computes a described model. It holds no weights: they are given to every call."""

    def __init__(self, description: ModelDescription) -> None:
        missing = sorted({o.name for o in description.operations} - KNOWN.keys())
        if missing:
            raise Refused(f"the numpy engine cannot compute {', '.join(missing)}")
        self.description = description

    def forward(self, leaves: Mapping[str, Array], x: Array) -> Array:
        """The outputs for a batch, as in evaluation."""
        return self.record(leaves, x, (), ForwardPass(len(x))).output

    def record(self, leaves: Mapping[str, Array], x: Array, wanted: Collection[str], now: ForwardPass) -> Tape:
        """The outputs for a batch, and what the gradients of the wanted leaves need."""
        values: list[Array] = [x]
        moving, tape = [False], Tape(x)
        constants = self.description.constants
        for number, operation in enumerate(self.description.operations):
            inputs = [values[i] if isinstance(i, int) else leaves[i] if i in leaves else constants[i] for i in operation.inputs]
            needs = [moving[i] if isinstance(i, int) else i in wanted for i in operation.inputs]
            now.names = operation.inputs
            value, backward = KNOWN[operation.name](inputs, operation.settings, needs, now)
            values.append(value)
            moving.append(any(needs))
            if moving[-1]:
                tape.steps.append((number + 1, operation.inputs, backward))
            if operation.name == "batch_norm" and now.training and operation.settings["counter"] is not None:
                counter = operation.settings["counter"]
                now.buffers[counter] = leaves[counter] + 1
        tape.output, tape.buffers = values[self.description.output], now.buffers
        return tape

    def gradients(self, tape: Tape, of_output: Array, wanted: Collection[str]) -> dict[str, Array]:
        """The gradients of the wanted leaves, from that of the output."""
        flows: dict[int | str, Array] = {self.description.output: of_output}
        for number, inputs, backward in reversed(tape.steps):
            gradient = flows.pop(number, None)
            if gradient is None:
                continue
            for place, part in zip(inputs, backward(gradient), strict=True):
                if part is None or (isinstance(place, str) and place not in wanted):
                    continue
                flows[place] = part if place not in flows else flows[place] + part
        return {name: np.asarray(flows[name]) for name in wanted if name in flows}
