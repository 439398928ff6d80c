"""Runs together in one process: to the last bit as alone, whatever their methods, and resumable whenever they stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import tomllib

import pytest

from fedfleet.app.runs import FinishedRun, perform
from fedfleet.app.runs.execution import Kernel
from fedfleet.app.spec import apply_overrides, resolve
from fedfleet.app.studies.grid import joint_jobs
from fedfleet.app.studies.grid.joint_jobs import FORMS_FILE, joint_groups, load_forms, perform_together
from fedfleet.app.studies.grid.study_runs import expand_study
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.core.events import ModelCommitted
from fedfleet.executors.stacked.form_choice import Form
from tests.app.specs import TINY
from tests.app.studies.tables import BASE, asked

pytestmark = pytest.mark.slow


def spec(*words):
    table = apply_overrides(tomllib.loads(TINY), ["run.execute=stacked", "stop.rounds=4", *words])
    return resolve(table, "tiny")


FORM = Form("merged", 1)  # not the fastest, which a busy machine may judge otherwise the next time
MERGED = Kernel(form=FORM)
# Pacing, fleets, seeds and methods differ: they meet at unlike times, with unlike stacks.
SPECS = [
    spec("seed=3"),
    spec("seed=4", "algorithm.use=fedprox", "pace={use='deadline',cohort=5,seconds=60}"),
    spec("seed=5", "algorithm.use=scaffold", "world.clients=17", "pace.cohort=6"),
    spec("seed=6", "algorithm.use=feddyn", "algorithm.epochs=2"),
    spec("seed=7", "algorithm.use=fedbuff", "pace={use='buffered',concurrency=6,k=3}", "stop.rounds=6"),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The digests of the runs, each by itself."""
    folder = tmp_path_factory.mktemp("alone")
    result = [perform(one, folder / str(i), kernel=MERGED) for i, one in enumerate(SPECS)]
    return [(one.metrics["digest"], one.metrics["accuracy"]) for one in result]


def digests(result):
    assert all(isinstance(one, FinishedRun) for one in result), result
    return [(one.metrics["digest"], one.metrics["accuracy"]) for one in result]


def outs(folder):
    return [folder / str(i) for i in range(len(SPECS))]


def together(folder, **more):
    return perform_together(SPECS, outs(folder), form=FORM, **more)


def test_runs_of_five_methods_together_end_as_alone(alone, tmp_path, monkeypatch):
    from fedfleet.executors import joint_runs

    met, train = [], joint_runs.train_parts
    monkeypatch.setattr(joint_runs, "train_parts", lambda w, p, k: (met.append(len(p)), train(w, p, k))[1])
    assert digests(together(tmp_path)) == alone
    assert max(met) >= len(SPECS), "all of them met"


@pytest.mark.parametrize("stopped", [pytest.param(2, marks=pytest.mark.soak), 9])
def test_an_interrupt_ends_all_and_all_resume_to_the_same_end(alone, tmp_path, stopped):
    left, lock = [stopped], threading.Lock()

    def watch(i, events):
        with lock:
            left[0] -= sum(isinstance(event, ModelCommitted) for event in events)
            if left[0] == 0:
                left[0] = -1
                os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C: it comes to the main thread

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        together(tmp_path, watch=watch)
    assert threading.active_count() == before, "nobody is left behind"
    assert any(not (out / "seal.json").exists() for out in outs(tmp_path))
    assert digests(together(tmp_path, resume=True)) == alone
    assert digests(together(tmp_path, resume=True)) == alone, "finished ones are read"


KILLED = """
import os, signal, sys
from pathlib import Path
from fedfleet.core.events import ModelCommitted
from tests.app.studies.grid.test_joint_jobs import together
left = [int(sys.argv[2])]
def watch(i, events):
    left[0] -= sum(isinstance(event, ModelCommitted) for event in events)
    if left[0] <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
together(Path(sys.argv[1]), watch=watch, resume=True)
"""


@pytest.mark.soak
def test_a_process_that_is_killed_twice_ends_as_alone(alone, tmp_path):
    for commits in (7, 4):
        ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(commits)], check=False, timeout=120)
        assert ended.returncode == -signal.SIGKILL
    assert digests(together(tmp_path, resume=True)) == alone


def test_a_run_that_fails_leaves_the_others_alone(alone, tmp_path):
    def watch(i, events):
        if i == 1 and any(isinstance(event, ModelCommitted) for event in events):
            raise RunFailed("its world ended")

    (tmp_path / "2").write_text("no folder")
    result = together(tmp_path, watch=watch)
    assert isinstance(result[1], RunFailed) and isinstance(result[2], BadInput)
    assert digests([result[i] for i in (0, 3, 4)]) == [alone[i] for i in (0, 3, 4)]


def test_who_computes_otherwise_runs_beside_them(tmp_path):
    odd = spec("seed=8", "run.execute=inline")
    poisoned = spec("seed=9", "world.data={use='label_flip',of={use='iid'},share=0.5}")
    given = [SPECS[0], odd, poisoned]
    result = perform_together(given, [tmp_path / "j" / str(i) for i in range(3)], form=FORM)
    one_by_one = [perform(one, tmp_path / "a" / str(i), kernel=MERGED) for i, one in enumerate(given)]
    assert digests(result) == digests(one_by_one)


def test_groups_are_runs_of_one_task_on_the_processor_that_keep_their_bits():
    inline, cnn = spec("run.execute=inline"), spec("task.use=digits_cnn")
    mlp, narrow = spec("task.use=digits_mlp"), spec("task.use=digits_mlp", "task.hidden=7")
    assert joint_groups([*SPECS, inline, cnn, cnn]) == [[0, 1, 2, 3, 4], [5], [6], [7]]
    assert joint_groups([mlp, SPECS[0], mlp, SPECS[1]]) == [[0, 2], [1, 3]]
    assert joint_groups([narrow, narrow]) == [[0], [1]], "its bits depend on the stack"
    assert joint_groups([mlp]) == [[0]] and joint_groups([]) == []
    assert joint_groups([mlp] * 5, workers=2) == [[0, 2, 4], [1, 3]]
    assert joint_groups([mlp] * 3, workers=8) == [[0, 1, 2]], "a group of one is no group"
    fast, slow = (spec(f"algorithm.lr={rate}") for rate in (0.4, 0.2))
    assert joint_groups([fast, slow] * 4, workers=2) == [[0, 2, 4, 6], [1, 3, 5, 7]], "stacks of two rates are never one"
    assert max(len(group) for group in joint_groups([mlp] * 50)) <= joint_jobs.MOST_TOGETHER


def specs(**run):
    return [cell.spec for cell in expand_study(asked(base={**BASE, "run": run}))]


def test_what_was_chosen_first_stays_whatever_is_measured_later(tmp_path):
    stacked = specs(execute="stacked")
    asked_of = []

    def choose(name):
        return lambda spec: asked_of.append(spec) or Form(name, 2, {"x": 0.1})

    assert load_forms(tmp_path, stacked, choose("merged")) == [["merged", 2]] * 4
    assert len(asked_of) == 1, "runs of one shape are asked about once"
    assert load_forms(tmp_path, stacked[::-1], choose("loop")) == [["merged", 2]] * 4
    assert len(asked_of) == 1
    other = specs(execute="stacked", threads=2)
    assert load_forms(tmp_path, [*stacked, *other], choose("loop")) == [["merged", 2]] * 4 + [["loop", 2]] * 4


def test_runs_that_are_not_stacked_have_none_and_nothing_is_written(tmp_path):
    assert load_forms(tmp_path, specs(execute="inline")) == [None] * 4
    assert load_forms(tmp_path, specs(execute="stacked"), lambda spec: None) == [None] * 4
    assert not (tmp_path / FORMS_FILE).exists()


@pytest.mark.parametrize("text", ["{", "[1]", "3"])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / FORMS_FILE).write_text(text)
    with pytest.raises(BadInput, match=r"forms\.json cannot be read"):
        load_forms(tmp_path, specs(execute="stacked"))
