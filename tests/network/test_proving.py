"""Proofs hold for a sound run and fail for every lie that a server could tell: a sound journal is falsified in each way."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core.events import (
    ModelCommitted,
    ReportRejected,
    ReportsGathered,
    ReportUnwanted,
    RoundFailed,
    TaskArrived,
    TaskLost,
    TasksSent,
    without_sums,
)
from fedfleet.core.tensor_format import pack_tree
from tests.network.proving import Receipt, complaints, models_again
from tests.network.toys import Toy, plan_of, worked, world_for
from tests.worlds import events_of, only

TOY = Toy(clients=4, cohort=3, rounds=3)
PLAN = plan_of(TOY)


@pytest.fixture(scope="module")
def events():
    """A sound run."""
    return without_sums(events_of(PLAN, world_for(TOY))[0])


@pytest.fixture(scope="module")
def receipts(events):
    return [Receipt(e.task, e.client, "SAFE") for e in only(TaskArrived, events)]


def handed_in(events):
    """What honest devices handed in, task by task, each made from the model of its time."""
    from fedfleet.core import aggregation
    from fedfleet.core.records import Context

    server, reports = PLAN.algorithm.init(PLAN.params), {}
    for event in events:
        if isinstance(event, TasksSent):
            for task, client in enumerate(event.clients.tolist(), event.first):
                reports[task] = worked(TOY, client, task, pack_tree(server.params))
        elif isinstance(event, ReportsGathered):
            acc = aggregation.zero(PLAN.algorithm.fold, server)
            for task in event.tasks.tolist():
                aggregation.add(PLAN.algorithm.fold, acc, reports[task], Context(0, 0.0, 0))
            server = PLAN.algorithm.apply(server, aggregation.finish(PLAN.algorithm.fold, acc))
    return reports


def without(events, kind, n=0):
    """The events without the n-th of a kind."""
    result = only(kind, events)[n]
    return [e for e in events if e is not result]


def changed(events, kind, change):
    """The events with the first of a kind replaced."""
    result = only(kind, events)[0]
    return [change(e) if e is result else e for e in events]


def twice(events, kind):
    result = only(kind, events)[0]
    return [copy for e in events for copy in ((e, e) if e is result else (e,))]


def test_a_sound_run_gives_no_cause_for_complaint(events, receipts):
    assert complaints(events, receipts) == []
    assert models_again(PLAN, events, handed_in(events)) == []


FOLDED = ReportsGathered
LIES = {
    "an arrival is missing": (lambda ev: without(ev, TaskArrived), "never arrived"),
    "a task arrives twice": (lambda ev: twice(ev, TaskArrived), "but it had arrived"),
    "a task is lost and arrives": (
        lambda ev: [ev[0], *(f for e in ev[1:] for f in ((e, TaskLost(e.time, e.task, e.client, 1.0, "?"))
                                                         if isinstance(e, TaskArrived) and e.task == 0 else (e,)))],
        "but it had arrived",
    ),
    "tasks are sent twice": (lambda ev: twice(ev, TasksSent), "sent twice"),
    "a client works on two tasks": (
        lambda ev: changed(ev, TasksSent, lambda e: replace(e, clients=np.zeros_like(e.clients))), "while at work",
    ),
    "an acknowledged report is in no model": (
        lambda ev: changed(ev, FOLDED, lambda e: replace(e, tasks=e.tasks[1:])), "is in no model",
    ),
    "a report counts twice": (
        lambda ev: changed(ev, FOLDED, lambda e: replace(e, tasks=np.append(e.tasks, e.tasks[0]))), "counted twice",
    ),
    "a report of the last round counts again": (
        lambda ev: [replace(e, tasks=np.append(e.tasks, 0)) if e is only(FOLDED, ev)[1] else e for e in ev],
        "counted twice",
    ),
    "a rejected report counts": (
        lambda ev: [f for e in ev for f in ((e, ReportRejected(e.time, int(e.tasks[0]), 0, "?"))
                                            if e is only(FOLDED, ev)[0] else (e,))],
        "rejected and counted",
    ),
    "a version is skipped": (lambda ev: without(ev, ModelCommitted), "numbered"),
    "time falls": (lambda ev: changed(ev, TaskArrived, lambda e: replace(e, time=-1.0)), "time fell"),
    "there is no end": (lambda ev: ev[:-1], "does not end"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_found(lie, events, receipts):
    falsify, word = LIES[lie]
    said = complaints(falsify(list(events)), receipts)
    assert any(word in text for text in said), said


@pytest.mark.parametrize(
    ("got", "word"),
    [
        (Receipt(999, 0, "SAFE"), "does not know that it arrived"),
        (Receipt(0, 0, "REFUSED"), "not in the journal"),
        (Receipt(0, 0, "UNWANTED"), "does not say so"),
    ],
)
def test_a_promise_that_was_not_kept_is_found(got, word, events):
    assert any(word in text for text in complaints(events, [got]))


def test_a_refused_and_an_unwanted_report_are_what_the_journal_says(events):
    first, last = only(TaskArrived, events)[0], events[-1]
    told = changed(events, FOLDED, lambda e: replace(e, tasks=e.tasks[e.tasks != first.task]))
    told = changed(told, ModelCommitted, lambda e: replace(e, folded=e.folded - 1))
    at = told.index(only(ModelCommitted, told)[0])
    told = [*told[:at], ReportRejected(told[at].time, first.task, first.client, "NaN"), *told[at:-1],
            ReportUnwanted(last.time, first.task, first.client, 9.0, "again"), last]  # fmt: skip
    got = [Receipt(first.task, first.client, status) for status in ("REFUSED", "UNWANTED")]
    assert complaints(told, got) == []


def test_a_report_of_a_round_that_failed_is_excused(events, receipts):
    gathering = only(FOLDED, events)[-1]
    at = next(i for i, e in enumerate(events) if e is gathering)
    end = events[-1]
    told = [*events[:at], RoundFailed(gathering.time, 2, "given up"), end]
    assert complaints(told, receipts) == []


def test_a_model_of_other_reports_is_found(events):
    reports = handed_in(events)
    heavier = {**reports, 0: replace(reports[0], weight=reports[0].weight + 1)}
    assert models_again(PLAN, events, heavier) == ["model 1 is not made of the reports that it names"]
    missing = {task: report for task, report in reports.items() if task != 1}
    assert models_again(PLAN, events, missing) == ["task 1 was folded, and no device handed it in"]
    fewer = changed(events, FOLDED, lambda e: replace(e, tasks=e.tasks[1:]))
    assert models_again(PLAN, fewer, reports) == ["model 1 is not made of the reports that it names"]


def test_what_comes_while_a_model_is_made_waits_for_the_next_and_no_longer(events, receipts):
    """A report that two gatherings pass over is lost."""
    early, gatherings = only(TaskArrived, events)[0], only(FOLDED, events)
    told = [e for e in events if e is not early]
    at = next(i for i, e in enumerate(told) if e is gatherings[0])
    told[at] = replace(gatherings[0], tasks=gatherings[0].tasks[gatherings[0].tasks != early.task])
    told.insert(at, replace(early, time=told[at].time))  # it came just before the first model was there
    late = [replace(e, tasks=np.append(e.tasks, early.task)) if e is gatherings[1] else e for e in told]
    word = f"task {early.task} of client {early.client} was acknowledged, and is in no model"
    assert word not in complaints(late, receipts)
    assert word in complaints(told, receipts)
