"""IDX files, the format of MNIST and Fashion-MNIST, plain or gzipped."""

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
        raise ValueError(f"{path.name} is no IDX file of bytes")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    shape = np.frombuffer(data[4:start], ">u4").astype(int)
    body = np.frombuffer(data, np.uint8, offset=start)
    if body.size != shape.prod():
        raise ValueError(f"{path.name} holds {body.size} bytes instead of {shape.prod()}")
    return body.reshape(shape)


def read_digits(path: Path, samples: int | None) -> Dataset:
    """The training and test images beside this file, one channel, in [0, 1]; nobody knows who made them."""
    folder, ending = path.parent, ".gz" if path.suffix == ".gz" else ""
    x = np.concatenate([read_idx(folder / f"{part}-images-idx3-ubyte{ending}") for part in PARTS])
    y = np.concatenate([read_idx(folder / f"{part}-labels-idx1-ubyte{ending}") for part in PARTS])
    if len(x) != len(y) or y.max(initial=0) > 9:
        raise ValueError(f"{folder} holds {len(x)} images and {len(y)} labels, the largest {y.max(initial=0)}")
    rows = sample_rows(len(y), samples)
    return Dataset(pixels(x[rows])[:, None], y[rows].astype(np.int64), classes=10)
