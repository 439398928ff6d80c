"""Bytes moved and work done for nothing, by hand."""

import pytest

from fedfleet.measure.traffic import traffic, wasted_work
from tests.measure.journals import TASKS


def test_traffic_and_waste():
    moved = traffic(TASKS, 150.0)
    assert (moved.bytes_down, moved.bytes_up) == (800.0, 300.0)
    assert moved.bytes_per_second == pytest.approx(1100 / 150)
    waste = wasted_work(TASKS)
    assert waste.tasks == 4
    assert waste.seconds == 25.0 + 30.0 + 0.0 + 20.0
    assert waste.share == pytest.approx(75 / 155)
