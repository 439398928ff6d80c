"""Runs are processes of their own: refused ones say why, running ones stop and go on, foreign ones are left alone."""

import os
import signal
import subprocess
import sys
import time

import pytest

from fedfleet.app.dashboard.run_processes import MAX_RUNS, STATE_FOLDER, StartedRun, Starter, end_reason
from fedfleet.app.dashboard.run_watcher import RUNNING, STOPPED, RunWatcher
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput, RunFailed
from tests.app.dashboard.runs import END, STORY, folder_of

pytestmark = pytest.mark.slow


@pytest.fixture
def starter(tmp_path):
    result = Starter(tmp_path)
    yield result
    for run in result.started.values():
        if run.is_running:
            run.process.kill()
        run.process.wait()


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_run_is_started_stopped_and_resumed(starter, tmp_path):
    table = {
        "task": {"use": "digits_logreg"},
        "world": {"clients": 12},
        "pace": {"cohort": 4},
        "stop": {"rounds": 100_000},
        "run": {"checkpoint_every": 1},
    }
    started = starter.start("mine", resolve(table, "mine").toml())
    assert starter.wait_for_start(started, 60) == "" and started.is_running
    watch = RunWatcher(tmp_path)
    until(lambda: watch.refresh().get("mine") is not None and watch.summaries["mine"].commits > 0)
    run = watch.summaries["mine"]
    assert run.status == RUNNING and run.holder is not None and run.holder.pid == started.process.pid
    with pytest.raises(BadInput, match="nothing to resume"):
        starter.resume(run)
    starter.stop(run)
    assert started.process.wait(60) == 130
    assert "resume with" in end_reason(started) and starter.output_lines("mine")
    left = watch.refresh()["mine"]
    assert left.status == STOPPED
    again = starter.resume(left)
    until(lambda: watch.refresh()["mine"].status == RUNNING and watch.summaries["mine"].commits > left.commits)
    starter.stop(watch.summaries["mine"])
    assert again.process.wait(60) == 130


def test_a_run_that_is_refused_says_why(starter):
    table = {"task": {"use": "digits_logreg"}, "world": {"clients": 12}, "pace": {"cohort": 400}}
    started = starter.start("wide", resolve(table, "wide").toml())
    assert "lower pace.cohort or raise world.clients" in starter.wait_for_start(started, 60)
    assert not (starter.root / "wide").exists()
    assert (starter.root / STATE_FOLDER / "wide.toml").is_file()


def test_only_runs_of_this_machine_that_go_on_are_stopped(starter, tmp_path):
    folder_of(tmp_path, "left")
    with pytest.raises(BadInput, match="nothing to stop"):
        starter.stop(RunWatcher(tmp_path).refresh()["left"])
    (tmp_path / "left" / "lock").write_text(f'{{"pid": {os.getpid()}, "host": "elsewhere", "command": "x", "since": 9e9}}')
    with pytest.raises(BadInput, match="nothing to stop"):
        starter.stop(RunWatcher(tmp_path).refresh()["left"])


def test_the_process_that_the_lock_names_hears_ctrl_c(starter, tmp_path):
    folder_of(tmp_path, "theirs")
    imports = "import sys, time; from pathlib import Path; from fedfleet.store.lock import hold_lock"
    code = f"{imports}\nwith hold_lock(Path(sys.argv[1])): time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path / "theirs"], stderr=subprocess.DEVNULL)
    try:
        watch = RunWatcher(tmp_path)
        until(lambda: watch.refresh()["theirs"].status == RUNNING)
        starter.stop(watch.summaries["theirs"])
        assert other.wait(60) in (-signal.SIGINT, 1, 130)
    finally:
        other.kill()
        other.wait()


def test_what_cannot_be_resumed_is_said(starter, tmp_path):
    folder_of(tmp_path, "done", [*STORY, *END], sealed=True)
    (folder_of(tmp_path, "wired") / "wire").mkdir()
    result = RunWatcher(tmp_path).refresh()
    with pytest.raises(BadInput, match="is finished"):
        starter.resume(result["done"])
    with pytest.raises(BadInput, match=r"resume it with: fedfleet serve .*spec.toml --out .* --resume"):
        starter.resume(result["wired"])


def test_not_more_than_so_many_at_once(starter, tmp_path):
    class Going:
        pid, returncode = 0, None

        def poll(self):
            return None

        kill = wait = poll

    starter.started = {str(i): StartedRun(str(i), tmp_path, tmp_path, Going()) for i in range(MAX_RUNS)}
    with pytest.raises(BadInput, match=f"{MAX_RUNS} runs"):
        starter.start("one-more", "")


def test_what_a_progress_bar_wrote_over_is_gone(starter, tmp_path):
    (tmp_path / STATE_FOLDER).mkdir()
    (tmp_path / STATE_FOLDER / "a+b.log").write_bytes(b"one\r two\nthree \xff\n\n")
    assert starter.output_lines("a/b") == ["two", "three \ufffd"]
    assert starter.output_lines("none") == []


def test_a_second_start_of_a_name_leaves_the_spec_of_the_first_alone(starter, tmp_path):
    asleep = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    starter.started["mine"] = StartedRun("mine", tmp_path / "mine", tmp_path / "log", asleep)
    (tmp_path / STATE_FOLDER).mkdir()
    spec = tmp_path / STATE_FOLDER / "mine.toml"
    spec.write_text("seed = 1\n")  # which the first has not read yet
    with pytest.raises(BadInput, match="already starting"):
        starter.start("mine", "seed = 2\n")
    assert spec.read_text() == "seed = 1\n"


def test_a_spec_that_finds_no_room_is_one_sentence(starter, tmp_path):
    (tmp_path / STATE_FOLDER / "mine.toml").mkdir(parents=True)  # nothing can be written there
    with pytest.raises(RunFailed, match=r"could not be started: .* cannot be written"):
        starter.start("mine", "seed = 2\n")
