"""A journal small enough to see through: every kind of fate in 25 events."""

import numpy as np

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
from fedfleet.core.records import ClientScores
from fedfleet.measure.tasks import task_table


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
