"""Every number that we publish, by hand on a journal small enough to see through."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.events import (
    Evaluated,
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSent,
)
from fedfleet.core.records import FATES, ClientScores
from fedfleet.measure.learning import (
    client_accuracy,
    convergence_time,
    final_accuracy,
    learning_curve,
    time_to_accuracy,
)
from fedfleet.measure.participation import contributions, participation_fairness, staleness_histogram, utilisation
from fedfleet.measure.summary import summary
from fedfleet.measure.tasks import RUNNING, task_table
from fedfleet.measure.traffic import traffic, wasted_work


def ints(*values):
    return np.array(values, np.int64)


def sent(time, round_, version, first, *clients):
    n = len(clients)
    return TasksSent(
        time,
        round_,
        version,
        first,
        ints(*clients),
        np.zeros(n, np.int64),
        np.ones(n),
        np.full(n, 5.0),
        np.full(n, 100.0),
    )


def gathered(time, *tasks):
    return ReportsGathered(time, None, ints(*tasks), {})


# Round 0: tasks 0 and 1 are folded, 2 is refused, 3 is dropped. Round 1: 4 is lost, 5 arrives for nothing.
# Round 2: 6 is folded late, in round 3 with 7, as 1 version old.
LOG = [
    RunBegan(0.0, 1, 6, "", ""),
    Evaluated(0.0, 0, 10, 100, 2.3),
    sent(20.0, 0, 0, 0, 0, 1, 2, 3),
    TaskArrived(30.0, 0, 0, 10.0, 50.0),
    TaskArrived(40.0, 1, 1, 20.0, 50.0),
    TaskArrived(45.0, 2, 2, 25.0, 50.0),
    TasksDropped(50.0, ints(3), ints(3), np.array([30.0])),
    gathered(50.0, 0, 1),
    ReportRejected(50.0, 2, 2, "not finite"),
    ModelCommitted(50.0, 0, 1, "a", 2),
    Evaluated(50.0, 1, 50, 100, 1.5),
    sent(70.0, 1, 1, 4, 4, 0),
    TaskLost(70.0, 4, 4, 0.0, "cannot"),
    TaskArrived(90.0, 5, 0, 20.0, 50.0),
    RoundFailed(90.0, 1, "too few"),
    sent(110.0, 2, 1, 6, 1, 2),
    TaskArrived(120.0, 7, 2, 10.0, 50.0),
    gathered(120.0, 7),
    ModelCommitted(120.0, 2, 2, "b", 1),
    Evaluated(120.0, 2, 90, 100, 0.5),
    TaskArrived(150.0, 6, 1, 40.0, 50.0),
    gathered(150.0, 6),
    ModelCommitted(150.0, 3, 3, "c", 1),
    Evaluated(150.0, 3, 80, 100, 0.6, ClientScores(ints(0, 1, 2), ints(5, 0, 3), ints(10, 2, 4))),
    RunEnded(150.0, "rounds"),
]
TASKS = task_table(LOG)


def test_a_task_that_could_not_be_done_wasted_no_time():
    # Its seconds are not a number; every measure must stay one.
    unable = [replace(e, seconds=math.nan) if isinstance(e, TaskLost) else e for e in LOG]
    assert summary(unable) == summary(LOG)


def test_fates():
    assert [FATES[f] for f in TASKS.fate] == [
        "folded",
        "folded",
        "rejected",
        "dropped",
        "lost",
        "wasted",
        "folded",
        "folded",
    ]
    assert TASKS.folded_into.tolist() == [1, 1, 0, 0, 0, 0, 3, 2]
    assert TASKS.rounds.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]


def test_a_journal_that_is_still_written_has_running_tasks():
    assert task_table(LOG[:4]).fate.tolist() == [2, RUNNING, RUNNING, RUNNING]


def test_learning():
    curve = learning_curve(LOG)
    assert curve.accuracy.tolist() == [0.1, 0.5, 0.9, 0.8]
    assert curve.seconds.tolist() == [0.0, 50.0, 120.0, 150.0]
    assert final_accuracy(LOG) == 0.8
    assert time_to_accuracy(LOG, 0.5) == 50.0
    assert time_to_accuracy(LOG, 0.95) is None
    assert convergence_time(LOG) == 120.0


def test_clients():
    own = client_accuracy(LOG)
    shares = np.array([0.5, 0.0, 0.75])
    assert own.mean == pytest.approx(8 / 16)
    assert own.bottom10 == pytest.approx(np.percentile(shares, 10))
    assert own.std == pytest.approx(shares.std())
    assert client_accuracy(LOG[:5]) is None


def test_traffic_and_waste():
    moved = traffic(TASKS, 150.0)
    assert (moved.bytes_down, moved.bytes_up) == (800.0, 300.0)
    assert moved.bytes_per_second == pytest.approx(1100 / 150)
    waste = wasted_work(TASKS)
    assert waste.tasks == 4
    assert waste.seconds == 25.0 + 30.0 + 0.0 + 20.0
    assert waste.share == pytest.approx(75 / 155)


def test_participation():
    counts = contributions(TASKS, 6)
    assert counts.tolist() == [1, 2, 1, 0, 0, 0]
    assert staleness_histogram(TASKS).tolist() == [3, 1]
    fair = participation_fairness(counts)
    assert fair.jain == pytest.approx(16 / (6 * 6))
    assert fair.never == 3
    # Up to the best evaluation, at 120 s, three reports had come in and been folded.
    used = utilisation(TASKS, 6, 120.0)
    per_hour = np.array([1, 1, 1, 0, 0, 0]) / (120 / 3600)
    assert used.mean == pytest.approx(per_hour.mean())
    assert used.sd == pytest.approx(per_hour.std())
    assert participation_fairness(ints(3, 3, 3)).jain == pytest.approx(1.0)


def test_the_summary_says_it_all():
    got = summary(LOG)
    assert (got["rounds"], got["commits"], got["rounds_failed"]) == (4, 3, 1)
    assert got["stopped_by"] == "rounds"
    assert got["best_accuracy"] == 0.9
    assert got["reports_rejected"] == 1
    assert got["virtual_seconds"] == 150.0
    assert got["staleness"] == [3, 1]
