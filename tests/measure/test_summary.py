"""The summary of a run says it all."""

import math
from dataclasses import replace

from fedfleet.core.events import TaskLost
from fedfleet.measure.summary import summary
from tests.measure.journals import LOG


def test_the_summary_says_it_all():
    got = summary(LOG)
    assert (got["rounds"], got["commits"], got["rounds_failed"]) == (4, 3, 1)
    assert got["stopped_by"] == "rounds"
    assert got["best_accuracy"] == 0.9
    assert got["reports_rejected"] == 1
    assert got["virtual_seconds"] == 150.0
    assert got["staleness"] == [3, 1]


def test_a_task_that_could_not_be_done_wasted_no_time():
    # Its seconds are not a number; every measure must stay one.
    unable = [replace(e, seconds=math.nan) if isinstance(e, TaskLost) else e for e in LOG]
    assert summary(unable) == summary(LOG)
