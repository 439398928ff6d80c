"""What became of each task, by hand."""

import numpy as np

from fedfleet.core.events import (
    ModelCommitted,
    Probed,
    ReportUnwanted,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSpent,
    TaskStruck,
)
from fedfleet.core.records import FATES
from fedfleet.measure.tasks import RUNNING, task_table
from tests.measure.journals import LOG, TASKS, gathered, ints, sent


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


# Task 0 arrives, and once more; 1 is lost without a word, 2 comes late, 3 is dropped, 4 is lost and the server knows.
FAULTY = [
    sent(0.0, 0, 0, 0, 0, 1, 2, 3, 4),
    TaskStruck(4.0, 1, 1, 4.0, "lost in upload"),
    TaskLost(5.0, 4, 4, 5.0, "lost in download"),
    TaskArrived(10.0, 0, 0, 10.0, 50.0),
    ReportUnwanted(15.0, 0, 0, 50.0, "again"),
    TasksDropped(20.0, ints(1, 2, 3), ints(1, 2, 3), np.full(3, 20.0)),
    TasksSpent(20.0, ints(0, 1, 2, 3, 4), ints(0, 1, 2, 3, 4), {
        "bytes_down": np.array([100.0, 100.0, 100.0, 100.0, 30.0]), "bytes_up": np.array([50.0, 20.0, 50.0, 0.0, 0.0])}),
    gathered(20.0, 0),
    ModelCommitted(20.0, 0, 1, "a", 1),
    ReportUnwanted(25.0, 2, 2, 50.0, "late"),
    Probed(30.0, "loss", ints(1, 2), np.ones(2), {"bytes_down": np.array([100.0, 100.0]), "bytes_up": np.full(2, 8.0)}),
]  # fmt: skip


def test_what_went_wrong_is_told_with_the_bytes_that_moved():
    tasks = task_table(FAULTY)
    assert [FATES[f] for f in tasks.fate] == ["folded", "lost", "dropped", "dropped", "lost"]
    assert tasks.seconds.tolist() == [10.0, 4.0, 20.0, 20.0, 5.0] and tasks.ended[1] == 4.0
    assert tasks.late.tolist() == [False, False, True, False, False]
    assert tasks.again.tolist() == [True, False, False, False, False]
    assert tasks.bytes_down.tolist() == [100.0, 100.0, 100.0, 100.0, 30.0]
    assert tasks.bytes_up.tolist() == [50.0, 20.0, 50.0, 0.0, 0.0]


def test_bytes_that_nobody_knows_are_those_that_were_sent_or_arrived():
    unknown = TasksSpent(
        20.0, ints(0, 1, 2, 3, 4), ints(0, 1, 2, 3, 4), dict.fromkeys(("bytes_down", "bytes_up"), np.full(5, np.nan))
    )
    tasks = task_table([unknown if isinstance(e, TasksSpent) else e for e in FAULTY])
    assert tasks.bytes_down.tolist() == [100.0] * 5 and tasks.bytes_up.tolist() == [50.0, 0.0, 0.0, 0.0, 0.0]
