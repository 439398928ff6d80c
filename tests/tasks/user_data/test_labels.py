"""Which kind of task labels make, said or found; classes that are numbers keep their names."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.data_checks import checked_data
from fedfleet.tasks.user_data.labels import MOST_CLASSES
from fedfleet.tasks.user_data.samples import data
from tests.tasks.user_data.tables import Table


def of(**columns):
    rows = len(next(iter(columns.values())))
    return Table(x=list(range(rows)), **columns)


def test_classes_by_number_or_name():
    found = data(of(label=[5, 1, 7, 5]))
    assert found.y.tolist() == [1, 0, 2, 1] and found.labels == ("1", "5", "7") and "names of classes" in found.warnings[0]
    found = data(of(label=[1, 0, 2]))
    assert found.y.tolist() == [1, 0, 2] and found.labels == () and found.warnings == () and found.y.dtype == np.int64
    assert data(of(label=["10", "9"])).labels == ("10", "9")
    assert data(of(label=[True, False])).y.tolist() == [1, 0]
    assert data(of(label=[-1, 2.0])).labels == ("-1", "2")


def test_numbers_to_predict():
    found = data(of(label=[0.5, 2, 3]))
    assert found.kind.name == "regression" and found.y.tolist() == [[0.5], [2], [3]] and found.y.dtype == np.float32
    assert found.labels == ("label",) and "regression" in found.warnings[0] and "such as 0.5" in found.warnings[0]
    many = data(of(label=list(range(0, 2 * MOST_CLASSES + 2, 2))))
    assert many.kind.name == "regression" and "1,001 different whole numbers" in many.warnings[-1]
    assert data(of(label=list(range(0, 2 * MOST_CLASSES, 2)))).kind.name == "classification"
    asked = data(of(label=[1, 2, 3]), kind="regression")
    assert asked.kind.name == "regression" and asked.warnings == ()
    two = data(of(a=[1, 2], b=[0.5, 4]), input="x", label=["b", "a"])
    assert two.labels == ("b", "a") and two.y.tolist() == [[0.5, 1], [4, 2]]


def test_several_labels_at_once():
    found = data(of(wet=["yes", "no", "YES"], hot=[1, 0, 1]), input="x", label=["wet", "hot"])
    assert (
        found.kind.name == "multilabel"
        and found.y.tolist() == [[True, True], [False, False], [True, True]]
        and found.y.dtype == bool
    )
    assert found.labels == ("wet", "hot") and found.classes == 2 and found.warnings == ()
    single = data(of(p=[1, 0], q=[0, 1]), input="x", label=["p", "q"])
    assert single.kind.name == "multilabel" and "exactly one" in single.warnings[0]
    assert data(of(p=[1, 0], q=[0, 1]), input="x", label=["p", "q"], kind="regression").kind.name == "regression"
    assert data(of(label=["no", "yes"]), kind="multilabel").y.tolist() == [[False], [True]]


def test_one_class_and_one_owner_are_said():
    found = data(of(label=["walk"] * 3, who=["ann"] * 3), input="x", owner="who")
    assert "all 3 samples have the label 'walk'" in found.warnings[0] and "one owner, 'ann'" in found.warnings[1]
    assert repr(found) == "OwnData(3 samples of 1 owner, inputs (1,), 1 class, 2 warnings)"


@pytest.mark.parametrize(
    ("columns", "words", "says"),
    [
        ({"label": [0, 1.5]}, {"kind": "classification"}, "sample 1, column label: label 1 is 1.5"),
        ({"label": ["a", "b"]}, {"kind": "regression"}, "'a' is not a number, which a regression predicts"),
        ({"label": [0, 2]}, {"kind": "multilabel"}, "sample 1, column label: '2' is not 0, 1, yes or no"),
        ({"label": ["yes", "perhaps"]}, {"kind": "multilabel"}, "'perhaps' is not 0, 1"),
        ({"a": [0, 1], "b": ["u", "v"]}, {"label": ["a", "b"]}, "column b: 'u' is not a number; several columns"),
        ({"a": [0, 1], "b": [1, 0]}, {"label": ["a", "b"], "kind": "classification"}, "make a regression or a multilabel task"),
        ({"label": [0, 1]}, {"kind": "regresion"}, "is not a kind of task; the kinds are auto, classification"),
        ({"label": [0, 1]}, {"kind": "sequence_labels"}, "data: "),
        ({"label": [0, 1]}, {"label": []}, "not the name of a column, or a list"),
        ({"label": [0, 1]}, {"label": ["label", "label"]}, "list of different names"),
        ({"label": [0, 1]}, {"owner": 3}, "owner = 3 is not the name of a column"),
        ({"label": [0, 1]}, {"context": 1}, "whole number from 2 to"),
    ],
)
def test_mistakes(columns, words, says):
    with pytest.raises(BadInput) as wrong:
        data(of(**columns), **{"input": "x", **words})
    assert says in str(wrong.value)


def test_a_run_knows_the_names_behind_the_numbers():
    found = data(of(label=[5, 7, 9], who=["b", "a", "a"]), input="x", owner="who")
    dataset = checked_data(found)
    assert dataset.label_names == ("5", "7", "9") and dataset.owner_names == ("a", "b") and dataset.x.dtype == np.float32
    assert checked_data(found[:2]).label_names == () and checked_data(found, "regression").kind.name == "regression"


def test_sequences_of_labels_come_as_arrays(tmp_path):
    x = np.array([[3, 1, 2], [0, 0, 1]])
    np.savez(tmp_path / "s.npz", x=x, y=np.array([[1, 2, 0], [0, 1, -100]]))
    found = data(tmp_path / "s.npz")
    assert found.kind.name == "next_token" and found.x.dtype == np.int64 and found.classes == 4 == found.dataset().classes
    np.savez(tmp_path / "s.npz", x=x, y=np.array([[9, 2, 0], [0, 5, -100]]))
    assert data(tmp_path / "s.npz").kind.name == "sequence_labels"
