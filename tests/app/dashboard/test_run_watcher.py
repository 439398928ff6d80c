"""Folders that appear, grow, are cut back, are sealed or damaged; and a writer who never notices that it is watched."""

import os
import shutil
import time

import pytest

from fedfleet.app.dashboard.run_view import seen
from fedfleet.app.dashboard.run_watcher import (
    DAMAGED,
    FINISHED,
    RUNNING,
    STOPPED,
    Tail,
    Watch,
    folder_of_runs,
    run_folders,
)
from fedfleet.core.errors import BadInput
from fedfleet.store import journal as journals
from fedfleet.store.journal_rows import decode
from fedfleet.store.lock import locked
from tests.app.dashboard.runs import END, STORY, folder_of


def facts(watch, name):
    return watch.view(name, lambda _, followed: followed.seen)


def test_a_journal_is_followed_while_it_is_written(tmp_path):
    folder = folder_of(tmp_path, "a", [])
    tail, heard = Tail(folder / "run.db"), []
    journal = journals.reopen(folder / "run.db")
    for event in [*STORY, *END]:
        journal.append([event])
        journal.flush()
        heard += decode(tail.fresh()[1])
        assert tail.fresh() == (False, [])
    journal.close()
    heard += decode(tail.fresh()[1])
    assert seen(heard) == seen([*STORY, *END])
    assert not (folder / "run.db-wal").exists()  # nobody kept the writer from making one file of it


def test_rows_reach_the_disk_within_a_second_or_so(tmp_path, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(journals.time, "monotonic", lambda: now)
    folder = folder_of(tmp_path, "a", [])
    journal = journals.reopen(folder / "run.db")
    journal.append(STORY[:3])
    assert Tail(folder / "run.db").fresh()[1] == []
    now += 1.5
    journal.append(STORY[3:4])
    assert list(decode(Tail(folder / "run.db").fresh()[1]))[-1] == STORY[3]
    journal.close()


def test_a_journal_that_was_cut_back_is_read_anew(tmp_path):
    folder = folder_of(tmp_path, "a")
    watch = Watch(tmp_path)
    watch.look()
    assert facts(watch, "a") == seen(STORY)
    journal = journals.reopen(folder / "run.db")
    journal.truncate(4)
    journal.append(STORY[3:4])
    journal.close()
    watch.look()
    assert facts(watch, "a").commits == 0 and len(facts(watch, "a").turns) < 6
    assert watch.glances["a"].commits == 0 and watch.glances["a"].scores == ()


def test_how_runs_stand(tmp_path):
    folder_of(tmp_path, "going")
    folder_of(tmp_path, "deep/er/done", [*STORY, *END], sealed=True)
    folder_of(tmp_path, "left")
    (folder_of(tmp_path, "odd") / "run.db").write_bytes(b"nothing of ours" * 100)
    (folder_of(tmp_path, "bad") / "spec.toml").write_text("= 3")
    (tmp_path / "none").mkdir()
    folder_of(tmp_path, "left/counterfactuals/one")  # what is inside a run is its own affair
    watch = Watch(tmp_path)
    with locked(tmp_path / "going"):
        found = watch.look()
        assert {name: g.status for name, g in found.items()} == {
            "going": RUNNING, "deep/er/done": FINISHED, "left": STOPPED, "odd": DAMAGED, "bad": DAMAGED,
        }  # fmt: skip
        assert next(iter(found)) == "going"
    assert watch.look()["going"].status == STOPPED
    done = found["deep/er/done"]
    assert (done.rounds, done.commits, done.time, done.accuracy, done.planned) == (2, 1, 240.0, 0.6, 4)
    assert "not a FedFleet journal" in found["odd"].fault and "not valid TOML" in found["bad"].fault
    assert watch.view("nobody", lambda *_: 1) is None
    assert watch.view("odd", lambda _, followed: followed.fault)


def test_a_run_that_is_deleted_is_forgotten(tmp_path):
    folder = folder_of(tmp_path, "a")
    watch = Watch(tmp_path)
    watch.look()
    shutil.rmtree(folder)
    assert watch.look() == {}
    folder_of(tmp_path, "a", STORY[:4])
    watch.look()
    assert facts(watch, "a") == seen(STORY[:4])


def test_one_run_can_be_watched_alone(tmp_path):
    folder = folder_of(tmp_path, "a")
    assert [name for name, _ in run_folders(folder)] == ["a"]


def test_a_reader_opens_nothing_for_writing(tmp_path):
    folder = folder_of(tmp_path, "a")
    before = (folder / "run.db").read_bytes()
    with pytest.raises(BadInput, match="readonly"), journals._reading(folder / "run.db", "ro") as db:
        db.execute("DELETE FROM events")
    assert (folder / "run.db").read_bytes() == before


def test_where_there_are_no_runs(tmp_path):
    with pytest.raises(BadInput, match="start a run first"):
        folder_of_runs(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="is a file"):
        folder_of_runs(tmp_path / "file")


def test_what_lies_in_one_folder_hides_no_other(tmp_path):
    folder_of(tmp_path, "good")
    (folder_of(tmp_path, "deep") / "spec.toml").write_text(".".join("a" * 3000) + " = 1\n")
    (folder_of(tmp_path, "odd") / "spec.toml").write_text("stop = 5\n")
    (folder_of(tmp_path, "lock") / "lock").write_text("[" * 100_000)
    folder_of(tmp_path, os.fsdecode(b"caf\xe9"))
    found = Watch(tmp_path).look()
    assert {name: run.status for name, run in found.items()} == {
        "good": STOPPED, "deep": DAMAGED, "odd": DAMAGED, "lock": STOPPED, "caf\\udce9": STOPPED,
    }  # fmt: skip
    assert "its stop is no table" in found["odd"].fault and found["odd"].planned is None
