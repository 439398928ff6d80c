"""The journal store: round trips, digests, reading while writing, truncation."""

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import Evaluated
from fedfleet.core.records import Stop
from fedfleet.runtime import journal as journals
from tests.worlds import commits_at, even_fleet, events_of, toy_plan, world_of


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
