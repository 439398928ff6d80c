"""CIFAR-10 in its binary version: records of one label and 3,072 bytes. The pickled version is not read, for safety."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedfleet.core.parts import Dataset
from fedfleet.tasks.data_files import pixels, sample_rows

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
