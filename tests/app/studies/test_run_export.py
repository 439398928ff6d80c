"""Runs that are over are written once each; a tool that fails, and a run that cannot be read, cost a warning."""

import json
import shutil

from fedfleet.app.studies.run_export import export_run, run_tracker
from fedfleet.app.studies.tune.trial import trial_runs
from fedfleet.app.tracking.sink import sinks_of


def events(path):
    return [(line["run"], line["event"]) for line in map(json.loads, path.read_text().splitlines())]


def test_a_run_is_written_once_and_under_the_name_that_it_is_given(tiny_run, tmp_path):
    log = tmp_path / "log.jsonl"
    tracker = run_tracker(f"jsonl:{log}")
    tracker.write(tiny_run.out, "mine")
    tracker.write(tiny_run.out, "mine")
    assert [event for event in events(log) if event[1] in ("begun", "ended")] == [("mine", "begun"), ("mine", "ended")]
    assert tracker.warnings == []


def test_a_tool_that_fails_gets_no_more_runs_and_a_run_that_is_spoilt_stops_no_other(tiny_run, run_copy, tmp_path):
    (run_copy / "metrics.json").write_text("{}")
    other = shutil.copytree(tiny_run.out, tmp_path / "other")
    tracker = run_tracker([f"jsonl:{tmp_path}", f"jsonl:{tmp_path / 'log.jsonl'}"])  # a folder is no file
    tracker.write(tiny_run.out)
    assert tracker.words == [f"jsonl:{tmp_path / 'log.jsonl'}"]
    tracker.write(run_copy)
    tracker.write(other)
    assert len(tracker.warnings) == 2 and "failed and is not written to" in tracker.warnings[0]
    assert f"{run_copy} is not tracked" in tracker.warnings[1]
    assert ("other", "ended") in events(tmp_path / "log.jsonl")


def test_a_run_that_is_not_finished_is_written_as_stopped(run_copy, tmp_path):
    (run_copy / "seal.json").unlink()
    log = tmp_path / "log.jsonl"
    assert export_run(run_copy, sinks_of(f"jsonl:{log}"), print) == [f"jsonl:{log}"]
    assert events(log)[-1] == ("copy", "stopped")


def test_the_runs_of_a_trial_have_its_number_and_their_seeds(tmp_path):
    assert trial_runs(tmp_path, 3) == {}
    for folder in ("trials/3/seed-0", "trials/3/seed-1", "trials/4"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "run.db").touch()
    assert trial_runs(tmp_path, 3) == {f"trial-3-seed-{i}": tmp_path / f"trials/3/seed-{i}" for i in (0, 1)}
    assert trial_runs(tmp_path, 4) == {"trial-4": tmp_path / "trials/4"}
