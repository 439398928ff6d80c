"""Events that cannot stand in one journal are refused where they are read, with the row that is wrong."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.core.errors import BadInput
from fedfleet.core.events import (
    CandidatesSeen,
    Evaluated,
    ModelCommitted,
    PaceSet,
    Probed,
    ReportRejected,
    ReportsGathered,
    RoundFailed,
    RunBegan,
    RunEnded,
    TaskArrived,
    TaskLost,
    TasksDropped,
    TasksSpent,
    TimerFired,
)
from fedfleet.core.records import ClientScores, Roster, Stop
from fedfleet.store.journal_checks import JournalCheck, check_events, read_events
from fedfleet.store.journal_rows import UnreadableRow, encode
from tests.measure.journals import ints, sent
from tests.worlds import events_of, fleets, paces, toy_plan, world_of

BEGAN = RunBegan(0.0, 7, 4, "spec", "model")
# Two tasks of a round of which one report became a model, and one was refused.
STORY = [
    BEGAN,
    sent(1.0, 0, 0, 0, 0, 2, 3),
    TaskArrived(2.0, 0, 0, 1.0, 5.0),
    TaskArrived(2.5, 1, 2, 1.5, 5.0),
    TasksDropped(3.0, ints(2), ints(3), np.array([2.0])),
    TasksSpent(3.0, ints(0, 1, 2), ints(0, 2, 3), {"compute": np.array([0.5, 0.5, np.nan])}),
    ReportsGathered(3.0, None, ints(0), {}),
    ReportRejected(3.0, 1, 2, "not finite"),
    ModelCommitted(3.0, 0, 1, "name", 1),
    Evaluated(3.0, 1, 8, 10, 0.5, ClientScores(ints(0, 3), ints(1, 2), ints(2, 2)), None, {"rmse": 2.0}),
    sent(4.0, 1, 1, 3, 1),
    TaskLost(5.0, 3, 1, 1.0, "gone"),
    RoundFailed(6.0, 1, "too few"),
    RunEnded(6.0, "rounds"),
]


def read(events, clients=None):
    rows = [row for event in events for row in encode(event)[0]]
    return list(read_events(enumerate(rows, 1), clients))


def refused(events, says):
    with pytest.raises(UnreadableRow, match=says) as wrong:
        read(events)
    assert "\n" not in str(wrong.value) and "row " in str(wrong.value) and len(str(wrong.value)) < 400
    assert wrong.value.exit_code == 2


@settings(deadline=None, derandomize=True, max_examples=30)
@given(fleets(), paces())
def test_what_a_run_writes_is_read(fleet, pace):
    log, _ = events_of(toy_plan(pace.policy(), len(fleet), stop=Stop(rounds=3)), world_of(fleet))
    assert len(read(log, len(fleet))) == len(log)
    check = JournalCheck(len(fleet))
    for number, event in enumerate(log):  # in pieces, as those read who follow a run
        assert list(check_events([(number, event)], check)) == [(number, event)]


def test_a_story_of_every_fate_is_read():
    assert len(read(STORY)) == len(STORY)


def changed(kind, **fields):
    """The story with the first event of this kind changed."""
    at = next(i for i, event in enumerate(STORY) if isinstance(event, kind))
    return [*STORY[:at], replace(STORY[at], **fields), *STORY[at + 1 :]]


ONE = np.ones(1)


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (STORY[1:], "begins with the beginning"),
        ([BEGAN, *STORY], "the run began before"),
        ([*STORY, TimerFired(7.0)], "had ended before"),
        ([*STORY[:3], replace(STORY[3], time=1.9)], "does not follow"),
        (changed(RunBegan, clients=0), "number of clients"),
        (changed(RunBegan, clients=10**12), "number of clients"),
        (changed(RunBegan, seed="7"), "does not name its seed"),
        (changed(TaskArrived, task=-1), "task -1 was not sent"),
        (changed(TaskArrived, task=3), "task 3 was not sent"),
        (changed(TaskArrived, client=1), "sent to client 0, not to client 1"),
        (changed(TaskArrived, seconds=-1.0), "seconds -1.0 is not between"),
        (changed(TaskArrived, bytes_up=np.inf), "bytes inf is not between"),
        ([*STORY[:3], STORY[2]], "had ended before"),
        (changed(TasksDropped, tasks=ints(0)), "sent to client 0, not to client 3"),
        (changed(TasksDropped, seconds=np.array([1e300])), "is not between"),
        (changed(ReportsGathered, tasks=ints(2)), "no report of task 2 waits"),
        (changed(ReportRejected, task=0, client=0), "no report of task 0 waits"),
        ([*STORY[:6], STORY[5]], "was said before"),
        (changed(TasksSpent, clients=ints(0, 2, 2)), "task 2 was sent to client 3"),
        (changed(ModelCommitted, version=2), "model 2 follows model 0"),
        (changed(ModelCommitted, round=5), "round 5 ends"),
        (changed(ModelCommitted, folded=9), "of 9 reports"),
        (changed(RoundFailed, round=0), "round 0 ends"),
        (changed(Evaluated, version=2), "model 2 is evaluated"),
        (changed(Evaluated, total=-1), "not a ratio"),
        (changed(Evaluated, clients=ClientScores(ints(0, 4), ints(1, 2), ints(2, 2))), "not one of the 4 clients"),
        (changed(Evaluated, clients=ClientScores(ints(0, 1), ints(1, 2), ints(2, 0))), "not a ratio"),
        (changed(Evaluated, clients=ClientScores(ints(0, 1), ints(1), ints(2, 2))), "different length"),
        (changed(Evaluated, measures={f"m{i}": 1.0 for i in range(300)}), "more than 256 names"),
        ([BEGAN, sent(1.0, 0, 0, 0, 4)], "not one of the 4 clients"),
        ([BEGAN, sent(1.0, 0, 0, 1, 0)], "task 1 is sent"),
        ([BEGAN, sent(1.0, 1, 0, 0, 0)], "are sent in round 0 with model 0"),
        ([BEGAN, Probed(1.0, "loss", ints(9), ONE)], "not one of the 4 clients"),
        ([BEGAN, CandidatesSeen(1.0, Roster(ints(*range(9)), np.zeros(9, np.uint64), ints(*range(9))))], "9 candidates"),
        ([BEGAN, *(PaceSet(1.0, f"p{i}", 1.0) for i in range(300))], "more than 256 names"),
    ],
)
def test_what_does_not_fit_is_refused(events, says):
    refused(events, says)


def test_a_run_has_no_more_clients_than_its_spec_says():
    assert read(STORY, 4) and read(STORY, 9)
    with pytest.raises(BadInput, match="has 4 clients, and its spec 3"):
        read(STORY, 3)
