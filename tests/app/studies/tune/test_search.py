"""A search finds its answer, goes on where it was killed, and gives the same answer as one undisturbed."""

import json
import shutil

import pytest

from fedfleet.app.runs import read_finished_run
from fedfleet.app.runs.run_folder import make_folder
from fedfleet.app.spec import load_spec
from fedfleet.app.studies.tune import search as search_module
from fedfleet.app.studies.tune.search import piece_of, run_piece, tune
from fedfleet.app.studies.tune.search_store import open_study
from fedfleet.core.errors import BadInput, RunFailed
from fedfleet.executors.worker_pool import WorkerMessage
from tests.app.studies.tune.searches import SPACE, searched

pytestmark = pytest.mark.slow


def kept(out):
    """What a search has found, without where it lies."""
    return (out / "tune.json").read_text()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("search") / "out"
    return tune(searched({"trials": 3}), out)


def test_the_best_is_a_spec_that_can_be_run(undisturbed):
    result = undisturbed
    best = result.winner
    assert best.value == max(row.value for row in result.rows if row.value is not None)
    assert result.rows[0].default and result.default_value == result.rows[0].value
    assert load_spec(result.out / "best.toml").algorithm["lr"] == best.values["algorithm.lr"]
    assert read_finished_run(result.out / "trials" / str(best.trial)).metrics["accuracy"] == best.value
    assert result.answer()["trials"] == 3


def test_a_search_killed_twice_ends_as_if_it_had_not_been(undisturbed, tmp_path, monkeypatch):
    from fedfleet.app.studies.tune import trial

    calls, performed = [], trial.perform

    def killed(spec, out, *, resume, custom_task, watch):
        calls.append(out.name)

        def cut(events):
            watch(events)
            if len(calls) in (2, 4) and any(type(e).__name__ == "ModelCommitted" for e in events):
                raise KeyboardInterrupt

        return performed(spec, out, resume=resume, custom_task=custom_task, watch=cut)

    monkeypatch.setattr(trial, "perform", killed)
    search = searched({"trials": 3})
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            tune(search, tmp_path / "out")
    result = tune(search, tmp_path / "out")
    assert calls == ["0", "1", "1", "2", "2"]
    assert kept(result.out) == kept(undisturbed.out)


def test_more_trials_are_added_to_those_that_are_there(undisturbed, tmp_path):
    out = shutil.copytree(undisturbed.out, tmp_path / "out")
    heard = []
    result = tune(searched({"trials": 4}), out, on_row=heard.append)
    assert [row.trial for row in heard] == [3] and result.rows[:3] == undisturbed.rows
    assert tune(searched({"trials": 2}), out, on_row=heard.append).rows == result.rows and len(heard) == 1


def test_a_grid_is_tried_whole_and_then_there_is_no_more(tmp_path):
    search = searched({"space": {"algorithm.batch": [8, 16], "algorithm.epochs": [1, 2]}, "sampler": "grid", "trials": 99})
    result = tune(search, tmp_path / "out")
    tried = [(row.values["algorithm.batch"], row.values["algorithm.epochs"]) for row in result.rows]
    assert sorted(tried) == [(8, 1), (8, 2), (16, 1), (16, 2)]


def test_where_no_trial_ends_there_is_no_best(tmp_path):
    result = tune(searched({"trials": 1}, pace={"use": "deadline", "cohort": 4, "seconds": 1e-3}), tmp_path / "out")
    assert result.best is None and result.answer()["best"] is None and result.count("failed") == 1
    assert not (tmp_path / "out/best.toml").exists()


def test_folders_that_are_no_searches(tmp_path):
    (tmp_path / "stranger").touch()
    with pytest.raises(BadInput, match="something other than a search"):
        tune(searched(), tmp_path)
    with pytest.raises(BadInput, match="is a file"):
        tune(searched(), tmp_path / "stranger")
    with pytest.raises(BadInput, match="a grid needs to know"):
        tune(searched({"sampler": "grid", "space": {"algorithm.lr": SPACE["algorithm.lr"]}}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_trial_whose_worker_died_has_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(search_module, "run_in_workers", lambda *a, **k: (said for said in ()))
    search = searched({"trials": 2})

    def begun(study, search, turn, number):
        return study.ask()

    out = tmp_path / "out"
    make_folder(out / "trials")
    study = search_module.open_study(out, search)
    begun(study, search, 0, None)
    search_module._in_processes(study, search, out, [(0, 0), (1, None)], 2, lambda row: None)
    assert "its worker died" in search_module.trial_rows(study, search, [0])[0].reason


@pytest.mark.soak
def test_several_workers_share_a_search(tmp_path):
    heard = []
    result = tune(searched({"trials": 5}), tmp_path / "out", workers=2, on_row=heard.append)
    assert sorted(row.trial for row in heard) == [0, 1, 2, 3, 4] and result.best is not None
    assert len({json.dumps(dict(row.values)) for row in result.rows}) == 5
    assert {row.state for row in result.rows} <= {"finished", "pruned"}


@pytest.mark.parametrize("seeds", [[5], [4, 5]])
def test_the_best_file_repeats_the_best_trial_on_a_seed_that_was_tried(tmp_path, seeds):
    result = tune(searched({"trials": 1, "seeds": seeds, "pruner": "none"}), tmp_path / "out")
    best = load_spec(tmp_path / "out" / "best.toml")
    assert best.seed == seeds[0], "the seed of the spec was none of the search"
    place = tmp_path / "out" / "trials" / str(result.winner.trial)
    trial = place if len(seeds) == 1 else place / f"seed-{seeds[0]}"
    assert best.digest == load_spec(trial / "spec.toml").digest


def test_a_worker_that_cannot_begin_a_trial_is_heard(tmp_path, monkeypatch):
    def worker_messages(command, pieces, workers, **more):
        yield WorkerMessage(0, {"trial": 0})
        yield WorkerMessage(0, {}, ended=True, failure="the database is locked")
        yield WorkerMessage(1, {}, ended=True, failure="nobody can write")

    monkeypatch.setattr(search_module, "run_in_workers", worker_messages)
    with pytest.raises(RunFailed, match=r"could not start: nobody can write"):
        tune(searched({"trials": 2}), tmp_path / "out", workers=2)


def test_a_piece_is_one_trial_and_begun_ones_go_on(tmp_path):
    search, told = searched({"pruner": "none"}), []
    piece = json.loads(json.dumps(piece_of(search, tmp_path, 0)))
    assert run_piece(piece, told.append) == {"trial": 0} and told == [{"trial": 0}]
    study = open_study(tmp_path, search)
    study.ask()  # and its worker died
    assert run_piece(piece_of(search, tmp_path, 1, 1), told.append) == {"trial": 1}
    states = [t.state.name for t in open_study(tmp_path, search).get_trials()]
    assert states == ["COMPLETE", "COMPLETE"]
