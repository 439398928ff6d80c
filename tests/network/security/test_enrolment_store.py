"""The store of tokens and enrolments: private, whole or not at all, shared by server and command line."""

import sqlite3
import stat

import pytest

from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.network.security.enrolment_store import (
    all_enrolments,
    end_enrolment,
    open_store,
    revoke_client,
    transaction,
)

ROW = """INSERT INTO enrolments (client, generation, samples, test_samples, memory_bytes, data, peer, enrolled)
VALUES (?, ?, 5, 0, 0, '', '', 1.0)"""


@pytest.fixture
def db(tmp_path):
    db = open_store(tmp_path / "devices.db")
    yield db
    db.close()


def test_only_the_owner_can_read_it_nor_its_companions(tmp_path, db):
    with transaction(db):
        db.execute(ROW, (1, 1))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert "devices.db-wal" in modes and set(modes.values()) == {0o600}


def test_it_is_written_through_to_the_disk(db):
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_transaction_is_whole_or_nothing(db):
    with pytest.raises(ZeroDivisionError), transaction(db):
        db.execute(ROW, (1, 1 // len(db.execute(ROW, (2, 1)).fetchall())))
    assert all_enrolments(db) == []
    with pytest.raises(RunFailed, match="cannot be written"), transaction(db):
        db.executemany(ROW, [(1, 1), (1, 1)])  # nobody else can have the same place in the same generation
    assert all_enrolments(db) == []


def test_what_was_read_in_a_transaction_stays_true_until_its_end(tmp_path, db):
    other = sqlite3.connect(tmp_path / "devices.db", timeout=0.0, isolation_level=None)
    with transaction(db):
        assert all_enrolments(db) == []
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute(ROW, (1, 1))
    other.close()


def test_two_have_it_open_at_once(tmp_path, db):
    other = open_store(tmp_path / "devices.db")
    with transaction(other):
        other.execute(ROW, (4, 1))
    assert [e.client for e in all_enrolments(db)] == [4]
    revoke_client(db, 4, 9.0)
    assert [e.revoked for e in all_enrolments(other)] == [9.0]
    other.close()


def test_only_who_is_there_can_be_put_out(db):
    with pytest.raises(BadInput, match="client 3"):
        revoke_client(db, 3, 1.0)
    with transaction(db):
        db.execute(ROW, (3, 1))
        assert end_enrolment(db, 3, 1.0)
        assert not end_enrolment(db, 3, 2.0)


def test_files_of_others_are_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"not a database, and long enough to be looked at" * 50)
    with pytest.raises(RunFailed, match="not a usable store"):
        open_store(tmp_path / "text")
    with pytest.raises(RunFailed, match="cannot be opened"):
        open_store(tmp_path / "none" / "devices.db")
    foreign = sqlite3.connect(tmp_path / "foreign.db")
    foreign.execute("PRAGMA user_version = 7")
    foreign.close()
    with pytest.raises(BadInput, match="this version"):
        open_store(tmp_path / "foreign.db")
