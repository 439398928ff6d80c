"""Single nodes of ONNX files, written as operations and computed, without a file."""

import numpy as np
import torch

from fedfleet.tasks.description.format import ModelDescription
from fedfleet.tasks.description.module import DescribedModule
from fedfleet.tasks.description.onnx_import import Fixed, Importer, Node


def importer_for(*sample_shape, kind=torch.float32, **leaves):
    """An importer for samples of this shape, with these tensors of a file."""
    return Importer({n: np.asarray(v) for n, v in leaves.items()}, sample_shape, kind)


def node(operator, *inputs, outputs=1, version=17, **attributes):
    """A node; arrays and numbers of numpy among its inputs are fixed."""
    taken = [Fixed((np.asarray(i), np.asarray(i))) if isinstance(i, np.ndarray | np.generic) else i for i in inputs]
    return Node(operator, taken, attributes, outputs, version)


def computed(importer, output, x):
    """What the operations that were written give for a batch."""
    leaves = {n: np.asarray(v, np.float32) for n, v in importer.read.items()}
    kinds = {n: (v.shape, "<f4") for n, v in leaves.items()}
    trained = frozenset(leaves.keys() - importer.statistics)
    shape, operations = importer.sample_shape, tuple(importer.operations)
    description = ModelDescription(shape, "<f4", kinds, trained, operations, output, importer.constants)
    with torch.no_grad():
        return DescribedModule(description, leaves).eval()(torch.from_numpy(x)).numpy()
