"""Bytes moved and work done for nothing, by hand."""

import pytest

from fedfleet.measure.tasks import task_table
from fedfleet.measure.traffic import extra_traffic, traffic, wasted_work
from tests.measure.journals import TASKS
from tests.measure.test_tasks import FAULTY


def test_traffic_and_waste():
    moved = traffic(TASKS, 150.0)
    assert (moved.bytes_down, moved.bytes_up) == (800.0, 300.0)
    assert moved.bytes_per_second == pytest.approx(1100 / 150)
    waste = wasted_work(TASKS)
    assert waste.tasks == 4
    assert waste.seconds == 25.0 + 30.0 + 0.0 + 20.0
    assert waste.share == pytest.approx(75 / 155)


def test_duplicates_and_probes_are_waste_and_late_reports_count_once():
    tasks, more = task_table(FAULTY), extra_traffic(FAULTY)
    assert (more.again_up, more.probes_down, more.probes_up) == (50.0, 200.0, 16.0)
    moved = traffic(tasks, 100.0, more)
    assert (moved.bytes_down, moved.bytes_up) == (430.0 + 200.0, 120.0 + 50.0 + 16.0)
    assert (moved.wasted_down, moved.wasted_up) == (330.0 + 200.0, 70.0 + 50.0 + 16.0)
    waste = wasted_work(tasks)
    assert (waste.tasks, waste.lost, waste.late, waste.duplicates) == (4, 2, 1, 1)
    assert waste.seconds == 4.0 + 20.0 + 20.0 + 5.0
