"""A trial ends with a value, stopped inside a run, or with the reason why it has none."""

import json

import pytest

from fedfleet.app.runs import open_run as read_folder
from fedfleet.app.runs import perform
from fedfleet.app.studies.tune.search_store import open_study
from fedfleet.app.studies.tune.trial import PRUNED_FILE, TRIALS, run_trial, take_trial
from tests.app.studies.tune.searches import searched, table

pytestmark = pytest.mark.slow


def tried(search, out, turns=1):
    study = open_study(out, search)
    for turn in range(turns):
        run_trial(study, search, take_trial(study, search, turn), out)
    return study.get_trials()


def test_a_trial_is_a_run_and_its_value_the_metric_of_it(tmp_path):
    search = searched()
    (trial,) = tried(search, tmp_path)
    spec, _, ended = read_folder(tmp_path / TRIALS / "0")
    assert ended and spec.digest == search.spec({}, 3).digest
    assert trial.value == json.loads((tmp_path / TRIALS / "0/metrics.json").read_text())["accuracy"]
    assert trial.user_attrs["rounds"] == 3 and [*trial.intermediate_values] == [1, 2, 3]


def test_a_trial_that_is_stopped_says_so_in_its_folder_and_can_still_go_on(tmp_path, monkeypatch):
    search = searched()

    def at_the_second_mark(trial):
        return trial.number == 1 and max(trial._get_latest_trial().intermediate_values) == 2

    monkeypatch.setattr("optuna.trial.Trial.should_prune", at_the_second_mark)
    first, second = tried(search, tmp_path, 2)
    assert (first.state.name, second.state.name) == ("COMPLETE", "PRUNED")
    folder = tmp_path / TRIALS / "1"
    said = json.loads((folder / PRUNED_FILE).read_text())
    assert said["pruned_after_rounds"] == 2 == second.user_attrs["rounds"] and "2 of 3 rounds" in said["reason"]
    spec, _, ended = read_folder(folder)
    assert not ended and not (folder / "seal.json").exists()
    assert perform(spec, folder, resume=True).metrics["rounds"] == 3


@pytest.mark.parametrize(
    ("tune", "changes", "said"),
    [
        ({"space": {"world.clients": [12, 2_000_000]}, "sampler": "grid"}, {}, "clients"),
        ({"metric": "accuracy_unseen"}, {}, "accuracy_unseen is not a number"),
        ({}, {"pace": {"use": "deadline", "cohort": 4, "seconds": 1e-3}}, "no model was made in 3 rounds"),
    ],
)
def test_a_trial_that_fails_has_a_reason_and_the_search_goes_on(tmp_path, tune, changes, said):
    *_, last = tried(searched(tune, **changes), tmp_path, 2)
    assert last.state.name == "FAIL" and said in last.user_attrs["reason"]


def test_an_error_of_a_part_fails_the_trial_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("fedfleet.app.studies.tune.trial.perform", lambda *a, **k: 1 / 0)
    (trial,) = tried(searched(), tmp_path)
    assert trial.user_attrs["reason"] == "ZeroDivisionError: division by zero"


def test_several_seeds_are_averaged_and_judged_together(tmp_path):
    search = searched({"seeds": [3, 4]})
    (trial,) = tried(search, tmp_path)
    ends = [json.loads((tmp_path / TRIALS / f"0/seed-{s}/metrics.json").read_text())["accuracy"] for s in (3, 4)]
    assert trial.value == sum(ends) / 2 and [*trial.intermediate_values] == [1, 2, 3, 21, 22, 23]
    assert trial.intermediate_values[23] == pytest.approx(trial.value) and trial.user_attrs["rounds"] == 6


def test_a_spec_that_was_tried_is_not_run_again(tmp_path):
    search = searched({"space": {"algorithm.batch": [16]}})
    first, second = tried(search, tmp_path, 2)
    assert second.value == first.value and second.user_attrs["same_as"] == 0
    assert not (tmp_path / TRIALS / "1").exists()


def test_a_spec_outside_of_the_space_is_tried_first_all_the_same(tmp_path):
    search = searched({"space": {"algorithm.lr": [0.5, 0.6]}})
    first, second = tried(search, tmp_path, 2)
    assert first.params == {} and first.user_attrs["values"] == {"algorithm.lr": 0.1} and first.user_attrs["value"] > 0
    assert first.state.name == "FAIL" and second.params and table()["seed"] == 3
