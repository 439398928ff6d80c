"""The file of a journal: ours and of this format, or refused by a sentence; one file when it is closed."""

import sqlite3
import threading

import pytest

from fedfleet.core.errors import BadInput
from fedfleet.store import journal as journals
from fedfleet.store.journal_file import FORMAT, open_file, reader


def test_a_missing_journal_is_named(tmp_path):
    with pytest.raises(BadInput, match="no journal at"):
        list(journals.read(tmp_path / "run.db"))


def test_a_database_of_another_program_or_format_is_refused(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE events (seq INTEGER)")
    with pytest.raises(BadInput, match="was not written by FedFleet"):
        open_file(path, "ro")
    journals.create(tmp_path / "run.db").close()
    with sqlite3.connect(tmp_path / "run.db") as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(BadInput, match=f"has format {FORMAT + 1}, not {FORMAT}"):
        open_file(tmp_path / "run.db", "ro")


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "run.db").write_bytes(b"no database at all, but long enough to be looked at" * 20)
    with pytest.raises(BadInput, match="is not a FedFleet journal"), reader(tmp_path / "run.db"):
        pass


def test_a_reader_who_comes_and_goes_does_not_keep_the_writer_from_making_one_file(tmp_path):
    path = tmp_path / "run.db"
    journal = journals.create(path)
    journal.remark("a word")
    journal.flush()
    reader = sqlite3.connect(path, check_same_thread=False)
    reader.execute("SELECT * FROM events").fetchall()
    leaves = threading.Timer(0.15, reader.close)
    leaves.start()
    journal.close()
    leaves.join()
    assert [p.name for p in tmp_path.iterdir()] == ["run.db"]
