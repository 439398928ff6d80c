"""Events as rows: round trips, digested bytes, spans."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.core.events import CandidatesSeen, Evaluated, PaceSet, Probed, ReportsGathered, TaskLost, TasksSent
from fedfleet.core.records import ClientScores, Stop, Tally
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import Kind, Row, decode, digest_bytes, encode
from fedfleet.store.row_text import read_spans, spans
from tests.worlds import commits_at, even_fleet, events_of, fleets, paces, toy_plan, world_of


def same(a, b):
    """Equal but for what the journal does not keep: rosters and aggregates."""
    if type(a) is not type(b) or a.time != b.time:
        return False
    if isinstance(a, CandidatesSeen):
        return len(a.roster.clients) == len(b.roster.clients)
    if isinstance(a, ReportsGathered):
        return np.array_equal(a.tasks, b.tasks)
    return all(_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))


def _equal(x, y):
    if isinstance(x, ClientScores):
        return all(_equal(getattr(x, f.name), getattr(y, f.name)) for f in fields(x))
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_equal(x[name], y[name]) for name in x)
    if isinstance(x, float) and np.isnan(x):
        return np.isnan(y)
    return bool(np.array_equal(x, y))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(fleets(), paces())
def test_events_come_back_from_their_rows(fleet, pace):
    log, _ = events_of(toy_plan(pace.policy(), len(fleet), stop=Stop(rounds=3)), world_of(fleet))
    back = list(decode(row for event in log for row in encode(event)[0]))
    assert len(back) == len(log)
    assert all(same(a, b) for a, b in zip(log, back, strict=True))


def test_rare_events_come_back_too():
    few = np.array([3, 9], np.int64)
    rare = [
        Probed(1.5, "loss", few, np.array([0.25, 2.0])),
        TasksSent(2.0, 1, 2, 7, few, np.array([0, 5]), np.array([1.0, 0.5]), np.array([3.0, 4.0]), np.array([1e6, 2e6])),
        PaceSet(2.5, "t_o", 120.0),
        Evaluated(3.0, 4, 17, 20, 0.5, ClientScores(few, np.array([1, 2]), np.array([3, 4]))),
        Evaluated(3.0, 4, 17, 20, 0.5, None, Tally(0, 7)),
    ]
    back = list(decode(row for event in rare for row in encode(event)[0]))
    assert all(same(a, b) for a, b in zip(rare, back, strict=True))


def test_the_bytes_of_a_wave_are_those_of_its_rows():
    log, _ = events_of(toy_plan(commits_at(4, 2), 6), world_of(even_fleet(6)))
    for event in log:
        rows, data = encode(event)
        assert b"".join(map(digest_bytes, rows)) == data


@pytest.mark.parametrize("tasks", [[], [4], [0, 1, 2], [0, 2, 3, 9], [5, 6, 8, 9, 10, 12]])
def test_spans_of_tasks(tasks):
    assert read_spans(spans(np.array(tasks, np.int64)), 13).tolist() == tasks


@pytest.mark.parametrize("text", ["0-150000000", "13", "-3", "2 1", "0-4 4", "5-3", "a", "0-99999999999999999999", "1-2-3"])
def test_spans_that_no_run_writes_take_no_room(text):
    with pytest.raises(ValueError, match=r"ascending|invalid literal"):
        read_spans(text, 13)


def test_settings_and_due_times_come_back():
    few = np.array([3, 9], np.int64)
    columns = {"portion": np.array([0.25, 0.5]), "rate": np.array([1e-3, math.pi])}
    sent = TasksSent(2.0, 1, 2, 7, few, np.zeros(2, np.int64), np.ones(2), np.ones(2), np.ones(2), columns, 12.5)
    rows, data = encode(sent)
    (back,) = decode(rows)
    assert isinstance(back, TasksSent)
    assert (back.due, {n: v.tolist() for n, v in back.settings.items()}) == (
        12.5,
        {n: v.tolist() for n, v in columns.items()},
    )
    assert b"".join(map(digest_bytes, rows)) == data


def test_seconds_that_are_no_number_survive_the_store(tmp_path):
    lost = [TaskLost(1.0, 2, 3, nan, "cannot") for nan in (math.nan, -math.nan, math.inf - math.inf)]
    journal = journals.create(tmp_path / "run.db")
    journal.append(lost)
    journal.close()
    back = list(decode(journals.rows_of(tmp_path / "run.db")))
    assert [math.isnan(e.seconds) for e in back] == [True] * 3
    assert journals.digest_of(tmp_path / "run.db") == journal.digest
    assert len({encode(e)[1] for e in lost}) == 1, "every NaN is digested alike"


def test_kinds_keep_their_numbers():
    # They are in every journal on every disk.
    numbers = [value for name, value in vars(Kind).items() if name.isupper()]
    assert numbers == [*range(18), 99]
    assert Row(1.0, Kind.TIMER) == (1.0, 6, 0, 0, 0, 0, 0.0, 0.0, None, None)
