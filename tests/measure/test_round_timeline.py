"""A round taken apart."""

import numpy as np
import pytest

from fedfleet.core.events import (
    ModelCommitted,
    ReportsGathered,
    ReportUnwanted,
    RoundFailed,
    RunBegan,
    TaskArrived,
    TasksDropped,
    TasksSent,
    TasksSpent,
    TaskStruck,
)
from fedfleet.measure.round_timeline import describe_round, notable_rounds
from fedfleet.measure.run_record import read_record


def sent(time, round_, first, clients):
    n = len(clients)
    return TasksSent(time, round_, 0, first, np.array(clients), np.zeros(n, np.int64), np.ones(n), np.ones(n), np.ones(n))


def described(events, number, **how):
    record = read_record(events)
    return describe_round(record, record.tasks.table(), number, **how)


def gathered(time, *tasks):
    return ReportsGathered(time, None, np.array(tasks), {})


SPENT = {"download": np.array([1.0, 2.0, 0.0]), "upload": np.array([3.0, 0.0, np.nan])}


def log():
    """Round 0 makes a model, with a rebroadcast; round 1 fails after a loss that nobody noticed; round 2 makes a model at once."""
    return [
        RunBegan(0.0, 1, 9, "", ""),
        sent(10.0, 0, 0, [3, 4]),
        TaskArrived(14.0, 0, 3, 4.0, 5.0),
        sent(20.0, 0, 2, [5]),
        TaskArrived(26.0, 2, 5, 6.0, 5.0),
        TasksDropped(30.0, np.array([1]), np.array([4]), np.array([20.0])),
        gathered(30.0, 0, 2),
        ModelCommitted(30.0, 0, 1, "a", 2),
        TasksSpent(30.0, np.array([0, 1, 2]), np.array([3, 4, 5]), SPENT),
        sent(40.0, 1, 3, [6, 7]),
        TaskStruck(45.0, 3, 6, 5.0, "lost in upload"),
        TasksDropped(60.0, np.array([3, 4]), np.array([6, 7]), np.array([20.0, 20.0])),
        RoundFailed(60.0, 1, "nobody reported"),
        ReportUnwanted(61.0, 4, 7, 5.0, "late"),
        sent(62.0, 2, 5, [8]),
        TaskArrived(65.0, 5, 8, 3.0, 5.0),
        gathered(65.0, 5),
        ModelCommitted(65.0, 2, 2, "b", 1),
    ]


def test_the_usual_round_is_of_median_length_and_the_worst_one_failed():
    assert notable_rounds(read_record(log())) == {"usual": 2, "worst": 1}
    assert notable_rounds(read_record(log()[:9])) == {"usual": 0}, "one round is not shown twice"
    assert notable_rounds(read_record([])) == {}
    failed = [RunBegan(0.0, 1, 2, "", ""), RoundFailed(5.0, 0, "few"), RoundFailed(9.0, 1, "few")]
    assert notable_rounds(read_record(failed)) == {}, "nobody was asked: there is nothing to see"


def test_a_round_says_who_was_asked_when_and_what_became_of_them():
    events = log()
    result = described(events, 0)
    assert (result.opened, result.closed, result.seconds, result.version, result.reason) == (0.0, 30.0, 30.0, 1, "")
    assert result.asked == ((10.0, 2), (20.0, 1)) and not result.refills
    assert result.fates == {"folded": 2, "dropped": 1}
    assert [(s.client, s.why) for s in result.spans] == [
        (3, "in model 1"),
        (5, "in model 1"),
        (4, "too late, given up"),
    ]
    assert result.spans[0].spent == {"download": 1.0, "upload": 3.0}
    assert result.spans[1].spent is None, "a stage of which nobody knows makes the rest a guess"


def test_why_a_task_came_to_nothing_is_told():
    events = log()
    result = described(events, 1)
    assert (result.opened, result.closed, result.version, result.reason) == (30.0, 60.0, None, "nobody reported")
    said = {s.client: s.why for s in result.spans}
    assert "lost in upload" in said[6] and "came too late" in said[7]


def test_asking_because_others_ended_is_no_rebroadcast():
    events = [
        RunBegan(0.0, 1, 9, "", ""), sent(0.0, 0, 0, [1, 2]), TaskArrived(5.0, 0, 1, 5.0, 1.0), sent(5.0, 0, 2, [3]),
        TaskArrived(7.0, 1, 2, 7.0, 1.0), gathered(7.0, 0, 1), ModelCommitted(7.0, 0, 1, "a", 2), sent(7.0, 1, 3, [4]),
        TaskArrived(9.0, 2, 3, 4.0, 1.0), sent(9.0, 1, 4, [1]), TaskArrived(12.0, 3, 4, 5.0, 1.0), gathered(12.0, 2, 3),
        ModelCommitted(12.0, 1, 2, "b", 2),
    ]  # fmt: skip
    assert described(events, 0).refills and described(events, 1).refills
    second = described(events, 1)
    assert second.fates == {"folded": 2, "running": 1}, "what ended in it, and what was sent in it and goes on"
    assert [s.client for s in second.spans] == [3, 4, 1]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_of_many_tasks_a_few_are_looked_at_the_first_and_the_last_among_them(most):
    events = log()
    result = described(events, 0, most=most)
    assert len(result.spans) == most and result.spans[0].client == 3 and sum(result.fates.values()) == 3
    assert most == 1 or result.spans[-1].client == 4
