"""Samples of one device in the form of a run: its columns, its numbers for labels, its scale."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.kinds import CLASSIFICATION, NEXT_TOKEN, REGRESSION
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
        ("what,colour,a\nfly,red,1\nsit,red,2\n", "'fly' is not one of this run, whose labels are run, sit, walk"),
        ("what,colour\nwalk,red\nsit,red\n", "me.csv has no column 'a', which this run's model reads"),
        ("colour,a,b\nred,1,2\nred,2,3\n", "me.csv has no column 'what', which has this run's labels"),
        ("what,colour,a\nwalk,red,fast\nsit,red,slow\n", "the column 'a' holds text, such as 'fast'"),
        ("what,colour,a\nwalk,red,1\nsit,red,2\nrun,red,slow\n", "line 4, column a: 'slow' is not a number; correct it"),
        ("what,colour,a\nwalk,red,1\nsit,red,?\n", "1 missing value: 1 in 'a', the first in line 3; fill them in"),
    ],
)
def test_what_the_run_does_not_know_is_named(text, facts, tmp_path):
    path = written(tmp_path / "me.csv", text)
    with pytest.raises(BadInput) as refused:
        fit_samples(path, PLAN)
    assert facts in str(refused.value) and str(refused.value).startswith("--data: ")
    assert "=.." not in str(refused.value) and "missing =" not in str(refused.value), "no cure that a device does not have"


def test_numbers_to_predict_are_on_the_scale_of_the_run(tmp_path):
    path = written(tmp_path / "me.csv", "a,height\n1,170\n2,190\n")
    plan = ColumnPlan(REGRESSION, (1,), 1, columns=("a",), labels=("height",), target_scale=((180.0, 10.0),))
    assert fit_samples(path, plan).y.tolist() == [[-1], [1]]


def test_classes_that_are_numbers_stay_what_they_are(tmp_path):
    path = written(tmp_path / "d.csv", "speed,label\n1,2\n2,1\n")
    assert fit_samples(path, ColumnPlan(CLASSIFICATION, (1,), 3, ("speed",))).y.tolist() == [2, 1]
    with pytest.raises(BadInput, match="the label '2' is not one of this run"):
        fit_samples(path, ColumnPlan(CLASSIFICATION, (1,), 2, ("speed",)))


def test_characters_have_the_numbers_of_the_run(tmp_path):
    path = written(tmp_path / "d.txt", "cabcab")
    plan = ColumnPlan(NEXT_TOKEN, (3,), 4, (), ("x", "a", "b", "c"), context=3)
    found = fit_samples(path, plan)
    assert found.x.tolist() == [[3, 1, 2]] and found.y.tolist() == [[1, 2, 3]] and found.x.dtype == np.int64
    with pytest.raises(BadInput, match="the character 'z' is not one that this run's model knows"):
        fit_samples(written(path, "cabz"), plan)


def test_a_device_with_one_sample_of_a_word_is_no_text(tmp_path):
    path = written(tmp_path / "me.csv", "what,colour,a\nwalk,red,1\nsit,blue,2\n")
    assert fit_samples(path, PLAN).x.tolist() == [[0, 0, 1], [0.5, 1, 0]]
