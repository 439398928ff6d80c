"""Own data in files: every mistake names the file and the line, with its cure."""

import json

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.samples import data

HEAD = "a,b,label\n"


def written(folder, files):
    for name, content in files.items():
        if isinstance(content, str):
            (folder / name).write_text(content)
        else:
            np.savez(folder / name, **content)
    return folder


@pytest.mark.parametrize(
    ("text", "x", "labels"),
    [
        ("1,2,0\n3,4,1\n", [[1, 2], [3, 4]], [0, 1]),  # no names
        ("0,1,label\n1,2,walk\n", [[1, 2]], [0]),  # numbers as names
        ("0,1,klass\n1,2,0\n3,4,0\n", [[1, 2], [3, 4]], [0, 0]),
        ("1,2,walk\n3,4,run\n", [[1, 2], [3, 4]], [1, 0]),
        ("\ufefflabel;a;b\r\n1;2.5;3\r\n\r\n0;4;5\r\n", [[2.5, 3], [4, 5]], [1, 0]),
    ],
)
def test_a_table_with_and_without_names(tmp_path, text, x, labels):
    (tmp_path / "t.csv").write_bytes(text.encode())
    result = data(tmp_path / "t.csv")
    assert result.x.tolist() == x and result.y.tolist() == labels


def test_leaf_in_one_file_and_arrays_with_owners(tmp_path):
    held = {"user_data": {"u": {"x": [[1, 2]], "y": [3]}, "v": {"x": [[5, 6]], "y": [0]}}}
    (tmp_path / "leaf.json").write_text(json.dumps(held))
    result = data(tmp_path / "leaf.json")
    assert result.owners == ("u", "v") and result.y.tolist() == [1, 0] and result.labels == ("0", "3")
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 3)), y=[0, 1], owner=["p", "q"])
    assert data(tmp_path / "a.npz").owners == ("p", "q")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, ".json or .txt file, and no pictures"),
        ({"a.csv": HEAD + "1,2,0", "b.json": "{}"}, "contains .csv and .json files"),
        ({"a.csv": ""}, "a.csv is empty"),
        ({"a.csv": HEAD}, "a header line but no sample"),
        ({"a.csv": HEAD + "1,2,0\n1,x,0"}, "a.csv: line 3, column b: 'x' is not a number"),
        ({"a.csv": HEAD + "1,2"}, "a.csv: line 2 has 2 cells, but the first line has 3"),
        ({"a.csv": HEAD + "1,2,"}, "1 missing value: 1 in 'label', the first in"),
        ({"a.csv": "label\n1"}, "has only the column label"),
        ({"a.csv": "1,bob,0\n2,ann,1"}, "the first line has numbers and also 'bob'"),
        ({"a.csv": HEAD + "1,2,0", "b.csv": "a,label\n1,0"}, "b has 2 columns where a has other columns"),
        ({"a.csv": HEAD + "1,2,0", "b.csv": "b,a,label\n1,2,0"}, "in another order"),
        ({"a.csv": HEAD + "1,2,0", "b.csv": HEAD + "1,2,walk"}, "use names in all files"),
        ({"a.npz": {"x": np.zeros((2, 3))}}, "has no array y (x)"),
        ({"a.npz": {"x": np.zeros((2, 3)), "y": [0]}}, "give one row and one label for each sample"),
        ({"a.json": "{}"}, "has no user_data"),
        ({"a.json": "[1"}, "a.json cannot be read"),
        ({"a.json": '{"user_data": {"u": {"x": [[1]], "y": []}}}'}, "user u has 1 inputs and 0 labels"),
        ({"a.json": '{"user_data": {"u": {"x": [[1], [1, 2]], "y": [0, 1]}}}'}, "an input of user u has 2 numbers"),
        ({"a.json": '{"user_data": {"u": {"x": ["text"], "y": [0]}}}'}, "are text"),
        ({"a.json": '{"user_data": {}}'}, "holds no samples"),
    ],
)
def test_mistakes_in_a_folder(tmp_path, files, says):
    with pytest.raises(BadInput) as wrong:
        data(written(tmp_path, files))
    assert says in str(wrong.value) and "\n" not in str(wrong.value)


def test_mistakes_in_what_is_asked_for(tmp_path):
    written(tmp_path, {"ann.csv": HEAD + "1,2,0", "odd.doc": "", "bad.npz": "no archive"})
    for words, says in (
        ((tmp_path / "an.csv", {}), "/ann.csv?"),
        ((tmp_path / "none" / "x", {}), "give a folder of"),
        ((tmp_path / "odd.doc", {}), "unsupported file type"),
        ((tmp_path / "bad.npz", {}), "cannot be read as .npz"),
        ((tmp_path / "ann.csv", {"label": "labl"}), "did you mean 'label'"),
        ((tmp_path / "ann.csv", {"owner": "who"}), "owner='who' is not one of the columns a, b, label"),
        ((tmp_path / "ann.csv", {"input": ["c"]}), "input='c' is not one of"),
    ):
        with pytest.raises(BadInput) as wrong:
            data(words[0], **words[1])
        assert says in str(wrong.value)
    (tmp_path / "bad.npz").unlink()
    with pytest.raises(BadInput, match="names of the files are the owners"):
        data(tmp_path, owner="a")
