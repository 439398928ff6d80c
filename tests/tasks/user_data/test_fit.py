"""Samples of one device in the form of a run: its columns, its numbers for labels, its scale."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import CLASSIFICATION, REGRESSION
from fedfleet.tasks.user_data.fit import ColumnPlan, fit_samples

PLAN = ColumnPlan(
    CLASSIFICATION, (3,), 3, columns=("a", "colour=blue", "colour=red"), labels=("run", "sit", "walk"), label="what",
    scale=(np.array([1.0, 0, 0]), np.array([2.0, 1, 1])),
)  # fmt: skip


def written(path, text):
    path.write_text(text)
    return path


def test_columns_labels_and_scale_are_those_of_the_run(tmp_path):
    path = written(tmp_path / "me.csv", "user,what,colour,a\nme,walk,red,3\nme,sit,red,5\n")
    found = fit_samples(path, PLAN)
    assert found.x.tolist() == [[1, 0, 1], [2, 0, 1]] and found.x.dtype == np.float32
    assert found.y.tolist() == [2, 1] and found.classes == 3


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("what,colour\nwalk,red\nsit,red\n", "'a'"),
        ("what,colour,a\nwalk,green\nsit,red\n".replace("green", "green,1").replace("red", "red,1", 1), "green"),
        ("what,colour,a\nfly,red,1\nsit,red,2\n", "'fly'"),
    ],
)
def test_what_the_run_does_not_know_is_named(text, facts, tmp_path):
    path = written(tmp_path / "me.csv", text)
    with pytest.raises(BadInput) as refused:
        fit_samples(path, PLAN)
    assert facts in str(refused.value)


def test_numbers_to_predict_are_on_the_scale_of_the_run(tmp_path):
    path = written(tmp_path / "me.csv", "a,height\n1,170\n2,190\n")
    plan = ColumnPlan(REGRESSION, (1,), 1, columns=("a",), labels=("height",), target_scale=((180.0, 10.0),))
    assert fit_samples(path, plan).y.tolist() == [[-1], [1]]
