"""The record beside a run that derives it: the first row that differs is named, and the end of a run that goes on is no lie."""

import pytest

from fedfleet.core.events import TimerFired
from fedfleet.simulation.audit_record import Mismatch, Record, RecordEnd
from fedfleet.store.journal_rows import Kind, Row

TIMERS = [(i, tuple(Row(float(i), Kind.TIMER))) for i in range(1, 4)]
ENDED = (4, tuple(Row(3.0, Kind.ENDED, body="rounds")))


def test_what_agrees_is_counted_and_remarks_are_passed_over():
    remark = (2, tuple(Row(0.0, Kind.NOTE, note="hello")))
    record = Record([TIMERS[0], remark, TIMERS[1]], models=True)
    record.check_events([TimerFired(1.0), TimerFired(2.0)])
    assert record.events == 2 and record.number == 0
    record.check_end()


def test_the_end_of_a_run_that_goes_on_is_enough_and_of_one_that_ended_a_lie():
    with pytest.raises(RecordEnd):
        Record(TIMERS[:1], models=True).check_events([TimerFired(1.0), TimerFired(2.0)])
    with pytest.raises(Mismatch, match=r"of the journal is wrong: in the row 'ended at time 3.0', time is 3.0, but 1.0 follows"):
        Record([ENDED], models=True).check_events([TimerFired(1.0)])
    ended = Record([TIMERS[0], ENDED], models=True)
    ended.check_events([TimerFired(1.0)])
    with pytest.raises(Mismatch, match="the run was over before"):
        ended.check_end()


def test_a_fact_that_is_believed_must_stand_where_it_happens():
    record = Record(TIMERS, models=False)
    with pytest.raises(Mismatch, match="in the run a model is evaluated here"):
        record.recorded_evaluation(0.0, 0, 0)
    broken = Record([(1, tuple(Row(0.0, Kind.PROBED, body="{")))], models=False)
    with pytest.raises(Mismatch, match="cannot be read"):
        broken.recorded_probe(0.0)
