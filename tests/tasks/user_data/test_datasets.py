"""Columns of somebody else's table as inputs, labels and owners."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.samples import data
from tests.tasks.user_data.tables import Table


class Picture:
    """As PIL has them: an array of bytes with bands."""

    def __init__(self, *shape):
        self.pixels = np.full(shape, 255, np.uint8)

    def getbands(self):
        return ("L",)

    def __array__(self, dtype=None, copy=None):
        return self.pixels


def test_pictures_labels_with_names_and_people():
    table = Table(names=["cat", "dog"], image=[Picture(4, 5, 3)] * 3, label=[0, 1, 1], user=["b", "a", "b"])
    result = data(table, input="image", label="label", owner="user")
    assert result.x.shape == (3, 3, 4, 5) and result.x.max() == 1.0
    assert (result.labels, result.owners, result.owner.tolist()) == (("cat", "dog"), ("a", "b"), [1, 0, 1])
    grey = data(Table(img=[Picture(4, 5)] * 2, label=[0, 1]))
    assert grey.x.shape == (2, 1, 4, 5) and grey.owner is None


def test_several_columns_of_numbers_stand_side_by_side():
    result = data(Table(a=[1, 2], b=[3.0, 4.0], label=["u", "v"]), input=["b", "a"])
    assert result.x.tolist() == [[3, 1], [4, 2]] and result.inputs == ("b", "a")
    assert data(Table(a=[[1, 2], [3, 4]], target=[1, 0])).x.tolist() == [[1, 2], [3, 4]]


def test_a_pandas_table_is_one_too():
    class Frame(Table):
        def __init__(self, **columns):
            super().__init__(**columns)
            self.columns = self.column_names
            del self.column_names, self.features

    assert data(Frame(x=[1.0, 2.0], y=["a", "b"])).labels == ("a", "b")


def test_all_columns_of_numbers_are_inputs_where_nothing_else_is_said_or_left():
    table = Table(p=[1, 2], q=[0.5, 1.5], label=["u", "v"], who=["ann", "bob"])
    assert data(table, owner="who").x.tolist() == [[1, 0.5], [2, 1.5]]


def test_columns_that_nobody_named_are_numbers_to_pandas():
    table = Table(label=["u", "v"])
    table.column_names, table._columns = [0, 1, "label"], {0: [1.0, 2.0], 1: [3.0, 4.0], "label": ["u", "v"]}
    assert data(table).x.tolist() == [[1, 3], [2, 4]]
    assert data(table, input="1").x.tolist() == [[3], [4]]


@pytest.mark.parametrize(
    ("table", "words", "says"),
    [
        (Table(x=[[1]], a=[0]), {}, "none of the columns x, a is called label"),
        (Table(x=[[1]], label=[0]), {"input": "y"}, "input='y' is not one of the columns x, label"),
        (Table(image=[[1]], label=[0]), {"label": "lable"}, "did you mean 'label'"),
        (Table(x=[[1]], label=[0]), {"owner": "user"}, "owner='user' is not one of"),
        (Table(p=[1], q=["far"], label=[0]), {}, "which of the columns p, q are the inputs"),
        (Table(p=[[1]], q=[1], label=[0]), {}, "which of the columns p, q are the inputs"),
        (Table(label=[0]), {}, "none is left"),
        (Table(x=[[1]], label=[0]), {"input": "label"}, "both input and label"),
        (Table(x=["a text"], label=[0]), {}, "are text; convert them into numbers"),
        (Table(x=[[1], [1, 2]], label=[0, 1]), {}, r"sample 1 has the shape \(2,\), but sample 0 has \(1,\)"),
        (Table(x=[[1], None], label=[0, 1]), {}, "sample 1 is empty"),
        (Table(x=[[[1], [1, 2]]], label=[0]), {}, "rows of different length"),
        (Table(x=[], label=[]), {}, "is empty"),
        (Table(x=[[1]], a=[[1]], label=[0]), {"input": ["x", "a"]}, "the only input"),
        (Table(x=[[1]], label=[0], user=[None]), {"owner": "user"}, "1 in 'user', the first in Table: sample 0"),
        (Table(x=[{"a": 1}], label=[0]), {}, "not an array of numbers"),
        (SimpleNamespace(column_names={"train": ["x"], "test": ["x"]}), {}, "splits train, test; give one of them"),
        (SimpleNamespace(column_names=["x"]), {}, "not streaming"),
        (3, {}, "int cannot be read; give a folder"),
    ],
)
def test_mistakes(table, words, says):
    with pytest.raises(BadInput, match=says):
        data(table, **words)
