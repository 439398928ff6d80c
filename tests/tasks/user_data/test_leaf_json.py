"""LEAF's JSON, in one file or in several."""

import json

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.leaf_json import read_leaf
from fedfleet.tasks.user_data.samples import data


def written(path, **users):
    path.write_text(json.dumps({"users": list(users), "user_data": {name: {"x": x, "y": y} for name, (x, y) in users.items()}}))
    return path


def test_users_of_several_files_are_owners(tmp_path):
    written(tmp_path / "a.json", ann=([[1, 2]], [0]))
    written(tmp_path / "b.json", bob=([[3, 4], [5, 6]], [1, 0]))
    found = data(tmp_path)
    assert found.owners == ("ann", "bob") and found.x.tolist() == [[1, 2], [3, 4], [5, 6]] and found.y.tolist() == [0, 1, 0]
    assert read_leaf([tmp_path / "a.json"]).where == str(tmp_path / "a.json")


def test_numbers_and_rows_to_predict(tmp_path):
    assert data(written(tmp_path / "a.json", ann=([1, 2, 3], [0.5, 1, 2]))).kind.name == "regression"
    found = data(written(tmp_path / "a.json", ann=([[1], [2]], [[1, 0, 1], [0, 0, 1]])))
    assert found.kind.name == "multilabel" and found.y.dtype == bool


def test_a_missing_value_is_null(tmp_path):
    path = written(tmp_path / "a.json", ann=([[1, None], [3, 4]], [0, 1]))
    with pytest.raises(BadInput, match=r"1 missing value: 1 in 'x', the first in .*sample 0"):
        data(path)
    assert data(path, missing="mean").x.tolist() == [[1, 4], [3, 4]]
    with pytest.raises(BadInput, match="1 in 'y'"):
        data(written(tmp_path / "a.json", ann=([[1], [3]], [0, None])))


@pytest.mark.parametrize(
    ("users", "says"),
    [
        ({"ann": ([[1, 2], [[3], [4]]], [0, 1])}, "data: "),
        ({"ann": ([{"a": 1}], [0])}, "data: "),
        ({"ann": (3, [0])}, "cannot be read"),
        ({"ann": ([[1], [2]], [[0], [1, 2]])}, "rows of different length"),
        ({"ann": (["a"], [0])}, "are text"),
    ],
)
def test_mistakes(tmp_path, users, says):
    with pytest.raises(BadInput, match=says):
        data(written(tmp_path / "a.json", **users))


def test_deep_nesting_is_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"user_data": {"u": {"x": ' + "[" * 100_000 + "]" * 100_000 + ', "y": [0]}}}')
    with pytest.raises(BadInput, match="cannot be read"):
        data(tmp_path / "a.json")
    assert np.isfinite(data(written(tmp_path / "a.json", u=([[1]], [0]))).x).all()
