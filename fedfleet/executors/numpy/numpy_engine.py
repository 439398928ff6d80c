"""The engine that needs numpy alone."""

from __future__ import annotations

from collections.abc import Mapping

from fedfleet.core.trees import Array
from fedfleet.executors.engine_model import BatchGradients
from fedfleet.executors.numpy.losses import loss_and_gradient
from fedfleet.executors.numpy.model import NumpyModel
from fedfleet.executors.numpy.operations import ForwardPass
from fedfleet.tasks.description.format import ModelDescription


class NumpyEngine:
    """Computes descriptions, and their gradients, with numpy."""

    name = "numpy"

    def load(self, description: ModelDescription) -> LoadedNumpyModel:
        """A model from its description."""
        return LoadedNumpyModel(description)

    def limit_threads(self, threads: int) -> None:
        """Let products of matrices use so many threads.

        A device says so in its environment before numpy is loaded; a simulation may share its process with what runs otherwise.
        """
        try:
            from threadpoolctl import threadpool_limits
        except ImportError:
            return
        threadpool_limits(limits=threads, user_api="blas")


class LoadedNumpyModel:
    """A described model, one operation after the other."""

    def __init__(self, description: ModelDescription) -> None:
        self.description = description
        self._model = NumpyModel(description)

    def train(self, leaves: Mapping[str, Array], x: Array, labels: Array, wanted: frozenset[str], dropout: int) -> BatchGradients:
        """The gradients of the wanted leaves for one batch."""
        tape = self._model.record(leaves, x, wanted, ForwardPass(len(x), training=True, dropout=dropout))
        losses, of_output = loss_and_gradient(tape.output, labels)
        return BatchGradients(losses, self._model.gradients(tape, of_output, wanted), tape.buffers)

    def evaluate(self, leaves: Mapping[str, Array], x: Array) -> Array:
        """The outputs for a batch."""
        return self._model.forward(leaves, x)
