"""FS-REAL's pool as a base of devices."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.world.bases import fsreal
from fedfleet.world.samplers.pool72 import SIZE


def test_all_configurations_weakest_first():
    table = fsreal.devices("")
    assert len(table) == len(set(table.ids.tolist())) == SIZE == 72
    assert (table.cores[0], table.cores[-1]) == (1.0, 4.0)
    assert table.latency[0].tolist() == [0.08, 0.4] and not table.latency[-1].any()
    assert np.array_equal(table.seconds_per_sample * table.cores, np.full(72, 0.05)), "cores share the work"


def test_there_is_no_file_to_name():
    with pytest.raises(BadInput, match="takes no path, but got 'x'"):
        fsreal.devices("x")
