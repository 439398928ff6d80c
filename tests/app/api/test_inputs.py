"""What a person gives: specs as files or tables, paths of any kind, models and data that are looked at once."""

from pathlib import Path

import numpy as np
import pytest
import torch

import fedfleet
from fedfleet.app.api import inputs
from fedfleet.app.api.inputs import as_path, resolver_for, result_folder, shared_resolver, take_study_inputs, user_inputs
from fedfleet.app.api.own_task import NO_COLUMNS
from fedfleet.app.api.run_result import Result
from fedfleet.app.runs.custom_task import resolve_named_task
from fedfleet.app.studies.grid.ready_studies import ready_table
from fedfleet.app.studies.grid.run_study import load_study
from fedfleet.app.studies.grid.study_runs import expand_study
from fedfleet.core.errors import BadInput

SPEC = {"seed": 2, "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 1}}
X = np.random.default_rng(0).normal(size=(60, 3))
OWN = user_inputs(torch.nn.Linear(3, 2), (X, (X.sum(1) > 0).astype(int)), None)


def test_paths_are_text_or_paths():
    assert as_path("out", "a/b") == as_path("out", Path("a/b")) == Path("a/b")
    assert as_path("out", "~/x") == Path.home() / "x"
    for odd in (5, "", None, b"a"):
        with pytest.raises(BadInput, match=r"out = .*give a path"):
            as_path("out", odd)


def test_results_stand_for_their_folders():
    kept = Result({}, {}, [], Path("runs/a"))
    assert result_folder(kept, "report") == result_folder("runs/a", "report") == Path("runs/a")
    with pytest.raises(BadInput, match=r"not saved in a folder; run it with out=\.\., then report it"):
        result_folder(Result({}, {}, [], None), "report")
    with pytest.raises(BadInput, match="compare: 5 is not a folder"):
        result_folder(5, "compare")


def test_nothing_given_leaves_the_task_to_the_spec():
    assert resolver_for(user_inputs(None, None, None), "train") is resolve_named_task
    with pytest.raises(BadInput, match="to predict your own model, give both model and data"):
        resolver_for(user_inputs(torch.nn.Linear(3, 2), None, None), "predict")
    with pytest.raises(BadInput, match="loss and metrics need"):
        resolver_for(user_inputs(None, None, print), "train")
    with pytest.raises(BadInput, match=r"metrics: .* is not a dictionary"):
        user_inputs(None, None, None, [print])


def test_data_are_hashed_once_for_each_seed(monkeypatch):
    calls, real = [], inputs.task_content_id
    monkeypatch.setattr(inputs, "task_content_id", lambda task, seed: calls.append(seed) or real(task, seed))
    resolving = resolver_for(OWN, "tune")
    specs = [resolving({**SPEC, "seed": seed, "algorithm": {"lr": lr}}, "x")[0] for seed in (1, 2) for lr in (0.1, 0.2)]
    assert calls == [1, 2] and len({spec.digest for spec in specs}) == 4
    assert specs[0].task == specs[1].task and specs[0].task["use"] == "own"


def test_many_runs_share_one_file_of_data(tmp_path):
    resolving, prepare = shared_resolver(OWN, tmp_path, "tune")
    assert not list(tmp_path.iterdir())
    prepare()
    _, own = resolving(SPEC, "x")
    assert [own.file] == [str(file) for file in tmp_path.glob("data-*.npz")] and not own.copy_data


OWNERS = np.arange(60) % 5


def dealt(world, data=(*OWN.data, OWNERS)):
    spec, own = resolver_for(user_inputs(OWN.model, data, None), "train")({**SPEC, "world": world}, "run")
    return spec.world["data"]["use"], spec.world["clients"], own.task.warnings


def test_owners_in_data_become_clients_unless_the_spec_says_otherwise():
    assert dealt({})[:2] == dealt({"clients": 5})[:2] == ("by_owner", 5)
    assert dealt({"data": "iid"})[:2] == ("iid", 100) and dealt({}, OWN.data)[:2] == ("iid", 100)
    how, clients, (warned,) = dealt({"clients": 6})
    assert (how, clients) == ("iid", 6) and "the owners in data are not used" in warned and "5 people" in warned


@pytest.mark.filterwarnings("ignore:model")
def test_a_run_that_was_dealt_otherwise_goes_on_as_it_was(tmp_path):
    spec = {**SPEC, "world": {"data": "iid", "clients": 5}}
    done = fedfleet.run(spec, model=OWN.model, data=(*OWN.data, OWNERS), out=tmp_path / "run")
    again = fedfleet.run(
        {**SPEC, "world": {"clients": 5}}, model=OWN.model, data=(*OWN.data, OWNERS), out=tmp_path / "run", resume=True
    )
    assert again.metrics["digest"] == done.metrics["digest"]


def test_a_study_that_ships_takes_a_model_and_data():
    study, given = take_study_inputs(
        load_study(ready_table("severe")), user_inputs(OWN.model, (*OWN.data, OWNERS), None), NO_COLUMNS, small_fleets=True
    )
    cells = expand_study(study, resolver_for(given, "study"))
    assert {cell.spec.world["clients"] for cell in cells} == {5} and len(cells) == 15
    assert {cell.spec.world["data"]["use"] for cell in cells} == {"by_owner"}
    assert {cell.spec.pace.get("cohort", cell.spec.pace.get("k")) for cell in cells} == {2}
