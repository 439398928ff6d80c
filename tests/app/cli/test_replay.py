"""`fedfleet replay`: the answer, and journals that are not what they should be."""

import json
import sqlite3

import pytest

from tests.app.specs import refused


def test_replay_rebuilds_and_says_so(tiny_run, fedfleet):
    code, printed, _ = fedfleet("replay", tiny_run.out, "--json")
    got = json.loads(printed)
    assert code == 0
    assert got["digest"] == tiny_run.metrics["digest"]
    assert got["commits"] == tiny_run.metrics["commits"]
    assert {"models", "arrivals", "picks", "scores"} <= set(got["verified"])
    assert got["not_verified"] == ["wall_seconds", "remarks", "checkpoints"]
    code, printed, _ = fedfleet("replay", tiny_run.out)
    assert "the replay matches" in printed


def test_a_quick_replay_trains_nothing_and_says_what_it_believed(tiny_run, fedfleet):
    code, printed, _ = fedfleet("replay", tiny_run.out, "--quick", "--json")
    got = json.loads(printed)
    assert code == 0
    assert {"models", "scores"} <= set(got["not_verified"]) and "arrivals" in got["verified"]
    assert "without --quick" in got["because"]


def test_a_folder_that_is_not_there_is_refused(fedfleet, tmp_path):
    refused(fedfleet("replay", tmp_path / "none"), "no run folder", "none")


@pytest.mark.parametrize("content", [b"not a database at all", b"SQLite format 3\x00" + b"\x07" * 4000])
def test_a_corrupt_journal_is_refused(run_copy, fedfleet, content):
    (run_copy / "run.db").write_bytes(content)
    refused(fedfleet("replay", run_copy), "run.db")
    refused(fedfleet("report", run_copy), "run.db")


def test_a_foreign_journal_is_refused(run_copy, fedfleet):
    (run_copy / "run.db").unlink()
    db = sqlite3.connect(run_copy / "run.db")
    db.execute("CREATE TABLE people (name TEXT)")
    db.close()
    refused(fedfleet("replay", run_copy), "was not written by FedFleet")


def test_a_journal_that_was_changed_does_not_replay(run_copy, fedfleet):
    db = sqlite3.connect(run_copy / "run.db")
    with db:
        db.execute("UPDATE events SET body = ? WHERE kind = 12 AND version = 2", ("0" * 64,))
    db.close()
    code, _, err = fedfleet("replay", run_copy)
    assert code == 1
    assert "of the journal lies" in err and "'committed at time" in err
    code, _, err = fedfleet("replay", run_copy, "--quick")
    assert code == 1
    assert "do not fit their link" in err
