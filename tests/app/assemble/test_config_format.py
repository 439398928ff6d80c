"""How server and device compare the samples of a rehearsal."""

from dataclasses import replace

import numpy as np

from fedfleet.app.assemble.config_format import checksum
from fedfleet.core.parts import Dataset

DATA = Dataset(np.arange(12, dtype=np.float32).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1]), 2)
TRAIN, TEST = np.array([0, 2, 3]), np.array([5])


def test_it_sees_samples_labels_rows_and_which_are_for_training():
    others = [
        (DATA, TRAIN[::-1], TEST),
        (DATA, TRAIN[:2], np.array([3, 5])[:1]),
        (replace(DATA, y=1 - DATA.y), TRAIN, TEST),
        (replace(DATA, x=DATA.x + 1), TRAIN, TEST),
    ]
    assert checksum(DATA, TRAIN, TEST) not in [checksum(*other) for other in others]


def test_rows_that_are_not_a_client_s_do_not_count():
    x = DATA.x.copy()
    x[1] = -1
    assert checksum(replace(DATA, x=x), TRAIN, TEST) == checksum(DATA, TRAIN, TEST)
