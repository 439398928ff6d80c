"""What a person gives: specs as files or tables, paths of any kind, models and data that are looked at once."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedfleet.app.api import inputs
from fedfleet.app.api.inputs import folder_of, given, kept_in, kept_once, resolving_of
from fedfleet.app.api.run_result import Result
from fedfleet.app.runs.custom_task import named
from fedfleet.core.errors import BadInput

SPEC = {"seed": 2, "world": {"clients": 6}, "pace": {"cohort": 3}, "stop": {"rounds": 1}}
X = np.random.default_rng(0).normal(size=(60, 3))
OWN = given(torch.nn.Linear(3, 2), (X, (X.sum(1) > 0).astype(int)), None)


def test_paths_are_text_or_paths():
    assert folder_of("out", "a/b") == folder_of("out", Path("a/b")) == Path("a/b")
    assert folder_of("out", "~/x") == Path.home() / "x"
    for odd in (5, "", None, b"a"):
        with pytest.raises(BadInput, match=r"out = .*give a path"):
            folder_of("out", odd)


def test_results_stand_for_their_folders():
    kept = Result({}, {}, [], Path("runs/a"))
    assert kept_in(kept, "report") == kept_in("runs/a", "report") == Path("runs/a")
    with pytest.raises(BadInput, match=r"kept in no folder; run it with out=\.\., then report it"):
        kept_in(Result({}, {}, [], None), "report")
    with pytest.raises(BadInput, match="compare: 5 is no folder"):
        kept_in(5, "compare")


def test_nothing_given_leaves_the_task_to_the_spec():
    assert resolving_of(given(None, None, None), "train") is named
    with pytest.raises(BadInput, match="give both model and data to predict your own model"):
        resolving_of(given(torch.nn.Linear(3, 2), None, None), "predict")
    with pytest.raises(BadInput, match="loss and metrics go with"):
        resolving_of(given(None, None, print), "train")
    with pytest.raises(BadInput, match=r"metrics: .* is not a dictionary"):
        given(None, None, None, [print])


def test_data_are_hashed_once_for_each_seed(monkeypatch):
    calls, real = [], inputs.content
    monkeypatch.setattr(inputs, "content", lambda task, seed: calls.append(seed) or real(task, seed))
    resolving = resolving_of(OWN, "tune")
    specs = [resolving({**SPEC, "seed": seed, "algorithm": {"lr": lr}}, "x")[0] for seed in (1, 2) for lr in (0.1, 0.2)]
    assert calls == [1, 2] and len({spec.digest for spec in specs}) == 4
    assert specs[0].task == specs[1].task and specs[0].task["use"] == "own"


def test_many_runs_share_one_file_of_data(tmp_path):
    resolving, prepare = kept_once(OWN, tmp_path, "tune")
    assert not list(tmp_path.iterdir())
    prepare()
    _, own = resolving(SPEC, "x")
    assert [own.file] == [str(file) for file in tmp_path.glob("data-*.npz")] and not own.copied
