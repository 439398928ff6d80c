"""The record of a run is the same whether it is followed or read, and its figures are those that one counts by hand."""

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.events import (
    Evaluated,
    ModelCommitted,
    Probed,
    ReportRejected,
    RoundFailed,
    TaskArrived,
    TasksSent,
    TasksSpent,
)
from fedfleet.core.records import DROPPED, FOLDED, LOST, Stop
from fedfleet.measure.costs import energy
from fedfleet.measure.round_timeline import describe_round, notable_rounds
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.tasks import BYTES, RUNNING, Tasks, task_table
from fedfleet.world.energy import phones
from tests.faulty import world_of
from tests.laws.test_faults import wrongs
from tests.measure import plain_folds as plain
from tests.measure.journals import LOG
from tests.worlds import events_of, fleets, only, paces, toy_plan

law = settings(deadline=None, derandomize=True, max_examples=25)


def events_in(fleet, pace, wrong):
    stop = Stop(rounds=4, virtual_seconds=4096.0)
    return events_of(toy_plan(pace.policy(), len(fleet), stop=stop), world_of(fleet, wrong.recipe()))[0]


def same_tables(one, other):
    for column in fields(Tasks):
        np.testing.assert_array_equal(getattr(one, column.name), getattr(other, column.name), err_msg=column.name)


@law
@given(fleets(), paces(), wrongs)
def test_followed_or_read_at_any_moment_it_is_the_same(fleet, pace, wrong):
    events, record = events_in(fleet, pace, wrong), RunRecord()
    for i, event in enumerate(events, 1):
        record.on(event)
        if i in (len(events) // 3, len(events) // 2, len(events)):
            whole = read_record(events[:i])
            same_tables(record.tasks.table(), whole.tasks.table())
            same_tables(task_table(events[:i]), whole.tasks.table())
            assert repr(record.progress) == repr(whole.progress) and record.faults == whole.faults
            one, other = record.tasks.spending(), whole.tasks.spending()
            assert one.columns.keys() == other.columns.keys()
            for name in one.columns:
                np.testing.assert_array_equal(one.column(name), other.column(name))


@law
@given(fleets(), paces(), wrongs)
def test_it_counts_what_is_there(fleet, pace, wrong):
    events = events_in(fleet, pace, wrong)
    record, table = read_record(events), task_table(events)
    run, closings = record.progress, [e for e in events if isinstance(e, ModelCommitted | RoundFailed)]
    assert [(r.number, r.closed) for r in run.closed_rounds] == [(e.round, e.time) for e in closings]
    assert (run.commits, run.failed_rounds) == tuple(len(only(k, closings)) for k in (ModelCommitted, RoundFailed))
    assert run.failure_reasons == dict(Counter(e.reason for e in only(RoundFailed, events)).most_common())
    asked = Counter[int]()
    for event in only(TasksSent, events):
        asked[event.round] += len(event.clients)
    assert {r.number: r.asked for r in run.rounds if r.asked} == {r: n for r, n in asked.items() if n}
    assert all(a.closed == b.opened for a, b in zip(run.rounds, run.rounds[1:], strict=False))
    assert sum(r.bytes_up for r in run.rounds) + (run.current.bytes_up if run.current else 0.0) >= sum(
        e.bytes_up for e in only(TaskArrived, events)
    )
    assert [e.version for e in run.evaluations] == [e.version for e in only(Evaluated, events)]
    # Every task has one end: its own, or the run's.
    assert len(table.fate) == sum(asked.values()) and (table.folded_into[table.fate != FOLDED] == 0).all()
    assert np.isnan(table.ended[table.fate == RUNNING]).all() and not np.isnan(table.ended[table.fate == DROPPED]).any()
    accounted = record.tasks.spending().accounted
    assert accounted.sum() == sum(len(e.tasks) for e in only(TasksSpent, events))


@law
@given(fleets(), paces(), wrongs, st.sampled_from([0.0, 0.5]))
def test_it_says_what_folds_of_their_own_say(fleet, pace, wrong, tail):
    stop, world = Stop(rounds=4, virtual_seconds=4096.0), world_of(fleet, wrong.recipe())
    world = replace(world, energy=phones(tail=tail)(world.devices, world.keys, 0))
    events = events_of(toy_plan(pace.policy(), len(fleet), stop=stop), world)[0]
    probe = Probed(0.0, "loss", np.arange(2), np.array([1.0, np.nan]), {"joules": np.ones(2), "compute": np.ones(2)})
    for log in (events, [events[0], probe, *events[1:]], events[: len(events) // 2]):
        compare_with_plain_folds(log)


def compare_with_plain_folds(log):
    record = read_record(log)
    f, run, tasks, probes = record.failures, record.progress, record.tasks.table(), record.probes
    told = (f.causes, f.reachable, f.waited, f.fastest, f.unable, f.lost, f.last)
    assert told == plain.failures_of(log)
    assert (probes.asked, probes.answered, probes.worked_seconds) == plain.probes_of(log)
    for name in ("joules", *BYTES):
        assert probes.total(name) == (plain.column_sum(log, name, Probed) or 0.0)
    joules, grams = (plain.column_sum(log, name, Probed, TasksSpent) for name in ("joules", "grams"))
    used = energy(tasks, record.tasks.spending(), probes, run.costs["grams"])
    assert (used is None) == (joules is None)
    assert used is None or (used.joules == pytest.approx(joules) and used.grams == grams)
    assert record.duplicate_bytes == plain.duplicate_bytes_of(log) and record.waits == plain.waits_of(log)
    assert record.refused == [(e.client, e.reason) for e in only(ReportRejected, log)]
    assert notable_rounds(record) == plain.notable_of(log)
    for round_ in run.closed_rounds:
        taken = describe_round(record, tasks, round_.number, most=len(tasks.fate) + 1)
        assert taken.asked == plain.broadcasts_of(log, round_.number)
        closing = next(e for e in log if isinstance(e, ModelCommitted | RoundFailed) and e.round == round_.number)
        assert (taken.version, taken.reason) == (getattr(closing, "version", None), getattr(closing, "reason", ""))
        for span in taken.spans:
            assert span.spent == plain.stages_of(log, span.task)
            reason = plain.reason_of(log, span.task)
            assert reason is None or span.fate == "folded" or span.why.endswith(reason)


def test_a_journal_that_was_cut_is_read_as_far_as_it_goes():
    for cut in range(len(LOG) + 1):
        for log in (LOG[:cut], LOG[cut:]):
            record = read_record(log)
            assert len(record.tasks.table().fate) == record.tasks.count


def test_the_latest_faults_are_kept_with_their_reasons():
    record = read_record(LOG)
    assert [(f.round, f.client, f.kind, f.reason) for f in record.faults] == [
        (0, 3, "late", ""), (0, 2, "refused", "not finite"), (1, 4, "lost", "cannot"), (1, None, "failed", "too few"),
    ]  # fmt: skip
    assert record.tasks.reasons == {2: "not finite", 4: "cannot"} and record.tasks.table().fate[4] == LOST
