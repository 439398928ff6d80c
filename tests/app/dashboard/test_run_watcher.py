"""Folders that appear, grow, are cut back, are sealed or damaged; and a writer who never notices that it is watched."""

import os
import shutil
import time

import pytest

from fedfleet.app.dashboard.run_view import turns
from fedfleet.app.dashboard.run_watcher import (
    DAMAGED,
    FINISHED,
    PRUNED,
    RUNNING,
    STOPPED,
    RunWatcher,
    Tail,
    folder_of_runs,
    run_folders,
)
from fedfleet.app.dashboard.status_text import status_sentences
from fedfleet.app.spec import load_spec
from fedfleet.core.errors import BadInput
from fedfleet.measure.run_record import read_record
from fedfleet.store import journal as journals
from fedfleet.store.journal_file import reader
from fedfleet.store.journal_rows import decode_with_numbers
from fedfleet.store.lock import hold_lock
from tests.app.dashboard.runs import END, STORY, folder_of


def facts(watch, name):
    return watch.inspect(name, lambda _, followed: contents(followed.record))


def contents(record):
    """A record as values that compare."""
    tasks = turns(record, range(record.tasks.count))
    return record.progress, [repr(task) for task in tasks], record.faults, record.online


def test_a_journal_is_followed_while_it_is_written(tmp_path):
    folder = folder_of(tmp_path, "a", [])
    tail, heard = Tail(folder / "run.db"), []
    journal = journals.reopen(folder / "run.db")
    for event in [*STORY, *END]:
        journal.append([event])
        journal.flush()
        heard += [event for _, event in decode_with_numbers(tail.read_new()[1])]
        assert tail.read_new() == (False, [])
    journal.close()
    heard += [event for _, event in decode_with_numbers(tail.read_new()[1])]
    assert contents(read_record(heard)) == contents(read_record([*STORY, *END]))
    assert not (folder / "run.db-wal").exists()  # nobody kept the writer from making one file of it


def test_rows_reach_the_disk_within_a_second_or_so(tmp_path, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(journals.time, "monotonic", lambda: now)
    folder = folder_of(tmp_path, "a", [])
    journal = journals.reopen(folder / "run.db")
    journal.append(STORY[:3])
    assert Tail(folder / "run.db").read_new()[1] == []
    now += 1.5
    journal.append(STORY[3:4])
    assert list(decode_with_numbers(Tail(folder / "run.db").read_new()[1]))[-1] == (6, STORY[3])
    journal.close()


def test_a_journal_that_was_cut_back_is_read_anew(tmp_path):
    folder = folder_of(tmp_path, "a")
    watch = RunWatcher(tmp_path)
    watch.refresh()
    assert facts(watch, "a") == contents(read_record(STORY))
    journal = journals.reopen(folder / "run.db")
    journal.truncate(4)
    journal.append(STORY[3:4])
    journal.close()
    watch.refresh()
    assert facts(watch, "a")[0].commits == 0 and len(facts(watch, "a")[1]) < 6
    assert watch.summaries["a"].commits == 0 and watch.summaries["a"].scores == ()


def test_how_runs_stand(tmp_path):
    folder_of(tmp_path, "going")
    folder_of(tmp_path, "deep/er/done", [*STORY, *END], sealed=True)
    folder_of(tmp_path, "left")
    (folder_of(tmp_path, "odd") / "run.db").write_bytes(b"nothing of ours" * 100)
    (folder_of(tmp_path, "bad") / "spec.toml").write_text("= 3")
    (tmp_path / "none").mkdir()
    folder_of(tmp_path, "left/counterfactuals/one")  # what is inside a run is its own affair
    watch = RunWatcher(tmp_path)
    with hold_lock(tmp_path / "going"):
        result = watch.refresh()
        assert {name: g.status for name, g in result.items()} == {
            "going": RUNNING, "deep/er/done": FINISHED, "left": STOPPED, "odd": DAMAGED, "bad": DAMAGED,
        }  # fmt: skip
        assert next(iter(result)) == "going"
    assert watch.refresh()["going"].status == STOPPED
    done = result["deep/er/done"]
    assert (done.rounds, done.commits, done.time, done.accuracy, done.planned_end) == (2, 1, 240.0, 0.6, 4)
    assert "not a FedFleet journal" in result["odd"].fault and "not valid TOML" in result["bad"].fault
    assert watch.inspect("nobody", lambda *_: 1) is None
    assert watch.inspect("odd", lambda _, followed: followed.fault)


def test_a_trial_that_its_search_stopped_early_is_pruned(tmp_path):
    (folder_of(tmp_path / "search/trials", "3") / "pruned.json").write_text("{}")
    watch = RunWatcher(tmp_path)
    [run] = watch.refresh().values()
    assert run.status == PRUNED
    said = watch.inspect(run.name, lambda summary, followed: status_sentences(summary, followed.record, None))
    assert said[0].startswith("Stopped by its search")


def test_a_finished_run_is_not_read_again_until_its_folder_changes(tmp_path):
    folder = folder_of(tmp_path, "done", [*STORY, *END], sealed=True)
    watch = RunWatcher(tmp_path)
    first = watch.refresh()["done"]
    assert watch.refresh()["done"] is first and first.digests[0] == load_spec(folder / "spec.toml").digest
    with hold_lock(folder):
        assert watch.refresh()["done"].status == RUNNING
    (folder / "seal.json").unlink()
    assert watch.refresh()["done"].status == STOPPED


def test_a_run_that_is_deleted_is_forgotten(tmp_path):
    folder = folder_of(tmp_path, "a")
    watch = RunWatcher(tmp_path)
    watch.refresh()
    shutil.rmtree(folder)
    assert watch.refresh() == {}
    folder_of(tmp_path, "a", STORY[:4])
    watch.refresh()
    assert facts(watch, "a") == contents(read_record(STORY[:4]))


def test_one_run_can_be_watched_alone(tmp_path):
    folder = folder_of(tmp_path, "a")
    assert [name for name, _ in run_folders(folder)] == ["a"]


def test_a_reader_opens_nothing_for_writing(tmp_path):
    folder = folder_of(tmp_path, "a")
    before = (folder / "run.db").read_bytes()
    with pytest.raises(BadInput, match="readonly"), reader(folder / "run.db", "ro") as db:
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
    result = RunWatcher(tmp_path).refresh()
    assert {name: run.status for name, run in result.items()} == {
        "good": STOPPED, "deep": DAMAGED, "odd": DAMAGED, "lock": STOPPED, "caf\\udce9": STOPPED,
    }  # fmt: skip
    assert "its key stop is not a table" in result["odd"].fault and result["odd"].planned_end is None
