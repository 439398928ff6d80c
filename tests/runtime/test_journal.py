"""The journal store: round trips, digests, reading while writing, truncation."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import CandidatesSeen, Evaluated, Probed, ReportsGathered, TasksSent
from fedfleet.core.records import ClientScores, Stop
from fedfleet.runtime import journal as journals
from fedfleet.runtime.rows import decode, digested, encode, read_spans, spans
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
        TasksSent(
            2.0, 1, 2, 7, few, np.array([0, 5]), np.array([1.0, 0.5]), np.array([3.0, 4.0]), np.array([1e6, 2e6])
        ),
        Evaluated(3.0, 4, 17, 20, 0.5, ClientScores(few, np.array([1, 2]), np.array([3, 4]))),
    ]
    back = list(decode(row for event in rare for row in encode(event)[0]))
    assert all(same(a, b) for a, b in zip(rare, back, strict=True))


def test_the_bytes_of_a_wave_are_those_of_its_rows():
    log, _ = events_of(toy_plan(commits_at(4, 2), 6), world_of(even_fleet(6)))
    for event in log:
        rows, data = encode(event)
        assert b"".join(map(digested, rows)) == data


@pytest.mark.parametrize("tasks", [[], [4], [0, 1, 2], [0, 2, 3, 9], [5, 6, 8, 9, 10, 12]])
def test_spans_of_tasks(tasks):
    assert read_spans(spans(np.array(tasks, np.int64))).tolist() == tasks


def test_it_can_be_read_while_it_is_written(tmp_path):
    log, _ = events_of(toy_plan(commits_at(3, 2), 5), world_of(even_fleet(5)))
    journal = journals.create(tmp_path / "run.db")
    journal.append(log[:10])
    assert list(journals.read(tmp_path / "run.db")) == [], "a batch appears whole"
    journal.flush()
    assert len(list(journals.read(tmp_path / "run.db"))) == 10
    journal.append(log[10:])
    journal.close()
    assert len(list(journals.read(tmp_path / "run.db"))) == len(log)
    assert journals.digest_of(tmp_path / "run.db") == journal.digest
    assert {p.name for p in tmp_path.iterdir()} == {"run.db"}, "no files are left beside it"


def test_truncation_takes_the_digest_up_again(tmp_path):
    log, _ = events_of(toy_plan(commits_at(3, 2), 5), world_of(even_fleet(5)))
    straight = journals.in_memory()
    straight.append(log)
    journal = journals.create(tmp_path / "run.db")
    journal.append(log[:12])
    journal.flush()
    kept = journal.position
    journal.append(log[:3])  # what a killed run had written after its checkpoint
    journal.close()
    again = journals.reopen(tmp_path / "run.db")
    again.truncate(kept)
    again.append(log[12:])
    again.close()
    assert again.digest == straight.digest


def test_diagnostics_stay_out_of_the_digest():
    one, two = journals.in_memory(), journals.in_memory()
    one.append([Evaluated(1.0, 1, 3, 4, 0.123)])
    two.append([Evaluated(1.0, 1, 3, 4, 0.456)])
    assert one.digest == two.digest
    two.append([Evaluated(1.0, 1, 2, 4, 0.456)])
    assert one.digest != two.digest


def test_a_full_disk_fails_the_run_and_says_so(tmp_path):
    journal = journals.create(tmp_path / "run.db")
    journal._db.execute("PRAGMA max_page_count = 3")
    log, _ = events_of(toy_plan(commits_at(3, 2), 5, stop=Stop(rounds=40)), world_of(even_fleet(5)))
    journal.append(log)
    with pytest.raises(RunFailed, match="free some space, then resume"):
        journal.flush()


def test_a_missing_journal_is_named(tmp_path):
    with pytest.raises(BadInput, match="no journal at"):
        list(journals.read(tmp_path / "run.db"))
