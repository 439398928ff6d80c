"""What an engine is: something that loads a described model, trains it on a batch, and computes its outputs.

Numpy and MNN are such engines, and share one executor (`described_executor`). PyTorch trains modules instead of descriptions, in
the executors inline and stacked, because methods may bring objectives of their own that are written for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedfleet.core.trees import Array
from fedfleet.tasks.description.format import ModelDescription


@dataclass(frozen=True, slots=True)
class BatchGradients:
    """What one batch says: the loss of each sample, the gradients of their mean, and the buffers that the batch changed."""

    losses: Array
    gradients: Mapping[str, Array]
    buffers: Mapping[str, Array]


class LoadedModel(Protocol):
    """A model in an engine. It holds no weights: they are given to every call."""

    @property
    def description(self) -> ModelDescription:
        """What was loaded."""
        ...

    def train(self, leaves: Mapping[str, Array], x: Array, labels: Array, wanted: frozenset[str], dropout: int) -> BatchGradients:
        """The gradients of the wanted leaves for one batch; `dropout` says which units drop. The weights stay as they are."""
        ...

    def evaluate(self, leaves: Mapping[str, Array], x: Array) -> Array:
        """The outputs for a batch."""
        ...


class Engine(Protocol):
    """What trains on a device without PyTorch."""

    @property
    def name(self) -> str:
        """As in `run.execute` and `fedfleet device --engine`."""
        ...

    def load(self, description: ModelDescription) -> LoadedModel:
        """A model from its description; `Refused` names what the engine cannot compute."""
        ...

    def limit_threads(self, threads: int) -> None:
        """Compute with so many threads: another number may round otherwise."""
        ...
