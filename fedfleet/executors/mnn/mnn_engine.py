"""The engine that computes with MNN: a graph for each size of batch, read in one piece."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from fedfleet.core.errors import Refused
from fedfleet.core.kinds import IGNORED
from fedfleet.core.trees import Array
from fedfleet.executors.engine_model import BatchGradients
from fedfleet.executors.mnn.expressions import OPERATIONS, Graph, with_shape
from fedfleet.executors.mnn.layer_expressions import LAYERS
from fedfleet.executors.mnn.library import Var, constant, gradient_graphs, mnn, placeholder, read, write
from fedfleet.executors.numpy.losses import loss_and_gradient
from fedfleet.executors.numpy.model import NumpyModel
from fedfleet.executors.numpy.operations import kept_units
from fedfleet.tasks.description.format import ModelDescription

KNOWN = {**OPERATIONS, **LAYERS}
# MNN's numbers for these modes.
_CPU, _HIGH_PRECISION = 0, 1
_MOST_GRAPHS = 16  # a graph holds the memory of all its values


class MnnEngine:
    """Computes descriptions, and their gradients, with MNN; `BadInput` where the package is missing."""

    name = "mnn"

    def __init__(self) -> None:
        mnn()

    def load(self, description: ModelDescription) -> LoadedMnnModel:
        """A model from its description."""
        return LoadedMnnModel(description)

    def limit_threads(self, threads: int) -> None:
        """Compute with so many threads, on the processor, in full single precision."""
        mnn().set_global_executor_config(_CPU, _HIGH_PRECISION, threads)


class LoadedMnnModel:
    """A described model as graphs of MNN."""

    def __init__(self, description: ModelDescription) -> None:
        missing = sorted({o.name for o in description.operations} - KNOWN.keys())
        if missing:
            raise Refused(f"the mnn engine cannot compute {', '.join(missing)}")
        # What operations read; a counter of batches is read by none.
        self._read = sorted({i for o in description.operations for i in o.inputs if isinstance(i, str)})
        wide = [n for n in self._read if n in description.leaves and description.leaves[n][1] != "<f4"]
        if wide:
            raise Refused(f"the mnn engine computes in single precision, and the weights {wide[0]!r} are of another type")
        _check_shapes(description)
        self.description = description
        self._graphs: OrderedDict[Any, _TrainingGraph | _ForwardGraph] = OrderedDict()

    def train(self, leaves: Mapping[str, Array], x: Array, labels: Array, wanted: frozenset[str], dropout: int) -> BatchGradients:
        """The gradients of the wanted leaves for one batch."""
        key = (len(x), wanted, labels.dtype.kind, labels.shape[1:])
        if key not in self._graphs:
            self._keep(key, _TrainingGraph(self.description, self._read, x, labels, wanted))
        return self._recent(key).step(leaves, x, labels, dropout)

    def evaluate(self, leaves: Mapping[str, Array], x: Array) -> Array:
        """The outputs for a batch, filled up to a power of two, so that few graphs are made."""
        rows = 1 << max(len(x) - 1, 0).bit_length()
        if rows not in self._graphs:
            self._keep(rows, _ForwardGraph(self.description, self._read, rows, x))
        filled = np.concatenate([x, np.zeros((rows - len(x), *x.shape[1:]), x.dtype)]) if rows > len(x) else x
        return self._recent(rows).outputs(leaves, filled)[: len(x)]

    def _keep(self, key: Any, graph: _TrainingGraph | _ForwardGraph) -> None:
        self._graphs[key] = graph
        while len(self._graphs) > _MOST_GRAPHS:
            self._graphs.popitem(last=False)

    def _recent(self, key: Any) -> Any:
        self._graphs.move_to_end(key)
        return self._graphs[key]


def _check_shapes(description: ModelDescription) -> None:
    """Refuse operations whose shapes do not fit, by computing one sample with numpy: where they do not, MNN may end the process."""
    leaves = {n: np.zeros(shape, kind) for n, (shape, kind) in description.leaves.items()}
    try:
        with np.errstate(all="ignore"):
            NumpyModel(description).forward(leaves, np.zeros((1, *description.sample_shape), description.sample_type))
    except (ValueError, IndexError, TypeError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise Refused(f"the description of the model does not fit together: {error}") from None


class _Inputs:
    """The placeholders of a graph: the batch, the leaves that operations read, and its output."""

    def __init__(self, description: ModelDescription, names: Collection[str], rows: int, x: Array, graph: Graph) -> None:
        self.x = placeholder((rows, *x.shape[1:]), integers=x.dtype.kind in "iu")
        self.leaves = {n: placeholder(description.leaves[n][0]) for n in names if n in description.leaves}
        named = {**self.leaves, **{n: constant(v) for n, v in description.constants.items() if n in names}}
        values: list[Var] = [self.x]
        for operation in description.operations:
            graph.names = operation.inputs
            taken = [values[i] if isinstance(i, int) else named[i] for i in operation.inputs]
            values.append(KNOWN[operation.name](taken, operation.settings, graph))
        self.output = values[description.output]

    def write(self, leaves: Mapping[str, Array], x: Array) -> None:
        """Give all their values."""
        write(self.x, x)
        for name, var in self.leaves.items():
            write(var, leaves[name])


class _ForwardGraph:
    def __init__(self, description: ModelDescription, names: Collection[str], rows: int, x: Array) -> None:
        self._inputs = _Inputs(description, names, rows, x, Graph(rows, training=False))

    def outputs(self, leaves: Mapping[str, Array], x: Array) -> Array:
        """The outputs for a batch."""
        self._inputs.write(leaves, x)
        return read(self._inputs.output).reshape(self._inputs.output.shape)


class _TrainingGraph:
    """Outputs, gradients and statistics of one size of batch.

    The gradient of every loss with respect to the outputs is (shares - target) * factor, where shares are a softmax, a sigmoid or
    the outputs themselves. All that is asked comes as one array: MNN computes each array that is read from the start.
    """

    def __init__(
        self, description: ModelDescription, names: Collection[str], x: Array, labels: Array, wanted: frozenset[str]
    ) -> None:
        self._description, self._graph = description, Graph(len(x), training=True)
        self._inputs = _Inputs(description, names, len(x), x, self._graph)
        lib, output = mnn(), self._inputs.output
        shape = tuple(output.shape)
        self._target, self._factor = placeholder(shape), placeholder((*shape[:-1], 1))
        of_output = (_shares(output, labels) - self._target) * self._factor
        variables = [self._inputs.leaves[n] for n in sorted(wanted & self._inputs.leaves.keys())]
        self._names = sorted(wanted & self._inputs.leaves.keys())
        found = [] if not variables else self._gradients(output, of_output, variables)
        pieces = [output, *found, *(var for _, var, _, _ in self._graph.statistics)]
        self._shapes = [tuple(v.shape) for v in pieces]
        self._all = lib.concat([with_shape(v, [int(np.prod(v.shape))]) for v in pieces], 0)

    def _gradients(self, output: Var, of_output: Var, variables: list[Var]) -> list[Var]:
        """The graph of each leaf's gradient, in their order."""
        for name, var in zip(self._names, variables, strict=True):
            var.name = name
        have, gradients = gradient_graphs().grad([output], [of_output], variables)
        missing = sorted(set(self._names) - {v.name for v in have})
        if missing:
            raise Refused(f"the mnn engine finds no gradient of the weights {missing[0]!r}")
        lib = mnn()
        return [lib.convert(g, lib.NCHW) if g.data_format != lib.NCHW else g for g in gradients]

    def step(self, leaves: Mapping[str, Array], x: Array, labels: Array, dropout: int) -> BatchGradients:
        """One batch."""
        self._inputs.write(leaves, x)
        target, factor = _target(labels, tuple(self._target.shape))
        write(self._target, target)
        write(self._factor, factor)
        for settings, kept in self._graph.dropouts:
            write(kept, kept_units(settings, tuple(kept.shape), dropout, np.dtype(np.float32)))
        flat, pieces, start = read(self._all), list[Array](), 0
        for shape in self._shapes:
            stop = start + int(np.prod(shape))
            pieces.append(flat[start:stop].reshape(shape))
            start = stop
        outputs, gradients, seen = pieces[0], pieces[1 : 1 + len(self._names)], pieces[1 + len(self._names) :]
        buffers: dict[str, Array] = {}
        for (name, _, share, unbiased), value in zip(self._graph.statistics, seen, strict=True):
            new = value.reshape(leaves[name].shape) * np.float32(unbiased)
            buffers[name] = (1 - np.float32(share)) * leaves[name] + np.float32(share) * new
        for operation in self._description.operations:
            counter = operation.settings.get("counter")
            if counter is not None:
                buffers[counter] = leaves[counter] + 1
        shaped_gradients = {n: g.reshape(leaves[n].shape) for n, g in zip(self._names, gradients, strict=True)}
        return BatchGradients(loss_and_gradient(outputs, labels)[0], shaped_gradients, buffers)


def _shares(output: Var, labels: Array) -> Var:
    if labels.dtype.kind == "f":
        return output
    return mnn().sigmoid(output) if labels.dtype.kind == "b" else mnn().softmax(output, len(output.shape) - 1)


def _target(labels: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """What the shares should be, and how much a difference counts in the mean of the samples' losses."""
    n = max(len(labels), 1)
    if labels.dtype.kind in "fb":
        factor = (2 if labels.dtype.kind == "f" else 1) / (n * labels.shape[1])
        return labels.reshape(shape).astype(np.float32), np.full((*shape[:-1], 1), factor, np.float32)
    counted = labels != IGNORED
    target = np.zeros(shape, np.float32)
    np.put_along_axis(target, np.where(counted, labels, 0)[..., None], 1, len(shape) - 1)
    if labels.ndim == 1:
        return target, np.full((n, 1), 1 / n, np.float32)
    each = np.maximum(counted.sum(1, keepdims=True), 1)
    return target, (counted / (n * each)).astype(np.float32)[..., None]
