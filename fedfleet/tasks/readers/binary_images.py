"""Image sets in binary files: IDX (MNIST, Fashion-MNIST) and CIFAR-10's records. The pickled CIFAR is not read, for safety."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from fedfleet.core.parts import Dataset
from fedfleet.core.trees import Array
from fedfleet.tasks.data_files import pixels, sample_rows

PARTS = ("train", "t10k")


def read_idx(path: Path) -> Array:
    """The array of bytes in an IDX file."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path.name} is not an IDX file of bytes")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    shape = np.frombuffer(data[4:start], ">u4").astype(int)
    body = np.frombuffer(data, np.uint8, offset=start)
    if body.size != shape.prod():
        raise ValueError(f"{path.name} holds {body.size} bytes instead of {shape.prod()}")
    return body.reshape(shape)


def read_digits(path: Path, samples: int | None) -> Dataset:
    """The training and test images beside this file, one channel, in [0, 1]; their authors are unknown."""
    folder, ending = path.parent, ".gz" if path.suffix == ".gz" else ""
    x = np.concatenate([read_idx(folder / f"{part}-images-idx3-ubyte{ending}") for part in PARTS])
    y = np.concatenate([read_idx(folder / f"{part}-labels-idx1-ubyte{ending}") for part in PARTS])
    if len(x) != len(y) or y.max(initial=0) > 9:
        raise ValueError(f"{folder} holds {len(x)} images and {len(y)} labels, the largest {y.max(initial=0)}")
    rows = sample_rows(len(y), samples)
    return Dataset(pixels(x[rows])[:, None], y[rows].astype(np.int64), classes=10)


RECORD = 1 + 3 * 32 * 32
# Of the training images, per channel; the usual constants.
MEAN, SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def read_cifar(path: Path, samples: int | None) -> Dataset:
    """All batches beside this one, training before test, normalised per channel."""
    files = [*sorted(path.parent.glob("data_batch_*.bin")), path.parent / "test_batch.bin"]
    records = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, RECORD) for f in files if f.is_file()])
    records = records[sample_rows(len(records), samples)]
    y = records[:, 0].astype(np.int64)
    if y.max(initial=0) > 9:
        raise ValueError(f"a label is {y.max()}, but CIFAR-10 has ten classes")
    x = pixels(records[:, 1:].reshape(-1, 3, 32, 32))
    x -= np.array(MEAN, np.float32)[:, None, None]
    x /= np.array(SPREAD, np.float32)[:, None, None]
    return Dataset(x, y, classes=10)
