"""Bring your own data: what is read is what was written; every mistake is one sentence with its cure."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedfleet
from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.samples import OwnData, read_user_data
from tests.tasks.user_data.tables import Table

law = settings(deadline=None, derandomize=True, max_examples=25)
names = st.from_regex(r"[a-z]{1,6}", fullmatch=True)
samples = st.lists(st.tuples(st.floats(-1e6, 1e6, width=32), st.integers(0, 5)), min_size=1, max_size=4)
SPEC = {"world": {"clients": 4, "data": "by_owner"}, "pace": {"cohort": 2, "min_clients": 1}, "stop": {"rounds": 2}}


@law
@given(st.dictionaries(names, samples, min_size=1, max_size=4), st.sampled_from(["npz", "csv", "json"]))
def test_a_folder_reads_back_whatever_its_kind(tmp_path_factory, people, kind):
    folder = tmp_path_factory.mktemp("own")
    for name, samples in people.items():
        x, y = [[v, 1.0] for v, _ in samples], [c for _, c in samples]
        if kind == "npz":
            np.savez(folder / f"{name}.npz", x=np.array(x, np.float32), y=y)
        elif kind == "csv":
            (folder / f"{name}.csv").write_text(
                "\n".join(["a,b,label", *(f"{p!r},{q!r},{c}" for (p, q), c in zip(x, y, strict=True))])
            )
        else:
            (folder / f"{name}.json").write_text(json.dumps({"users": [name], "user_data": {name: {"x": x, "y": y}}}))
    result = fedfleet.data(folder)
    order = sorted(people)
    assert result.owners == tuple(order)
    classes = [int(name) for name in result.labels] or range(6)
    assert [classes[y] for y in result.y] == [c for name in order for _, c in people[name]]
    assert result.x[:, 0].tolist() == [np.float32(v) for name in order for v, _ in people[name]]
    assert [result.owners[i] for i in result.owner] == [name for name in order for _ in people[name]]


def test_arrays_unpack_and_names_are_kept(tmp_path):
    (tmp_path / "all.csv").write_text("who,a,b,activity\nbob,1,2,walk\nann,3,4,run\nbob,5,6,walk\n")
    result = fedfleet.data(tmp_path / "all.csv", owner="who")
    x, y, owner = result
    assert (x.tolist(), y.tolist(), owner.tolist()) == ([[1, 2], [3, 4], [5, 6]], [1, 0, 1], [1, 0, 1])
    assert (result.labels, result.owners) == (("run", "walk"), ("ann", "bob"))
    assert repr(result) == "OwnData(3 samples of 2 owners, inputs (2,), 2 classes)" and len(result[:2]) == 2
    some = fedfleet.data(tmp_path / "all.csv", input="b", label="activity")
    assert some.x.tolist() == [[2], [4], [6]] and len(some) == 2


def test_what_run_takes_itself_stays_as_it_is(tmp_path):
    arrays = (np.zeros((2, 1)), np.zeros(2, int))
    assert read_user_data(arrays) is arrays and read_user_data("a.npz") == "a.npz" and read_user_data(None) is None
    (tmp_path / "a.csv").write_text("1,0\n2,1\n")
    assert isinstance(read_user_data(tmp_path), OwnData) and isinstance(read_user_data(str(tmp_path / "a.csv")), OwnData)


@pytest.mark.filterwarnings("ignore:the model is no")
def test_a_folder_can_be_trained_on_by_its_name(tmp_path):
    import torch

    for name in "abcd":
        np.savez(tmp_path / f"{name}.npz", x=np.eye(8, 3), y=[0, 1] * 4)
    result = fedfleet.run(SPEC, model=torch.nn.Linear(3, 2), data=tmp_path)
    assert result.metrics["rounds"] == 2
    table = Table(x=list(np.eye(8, 3)) * 4, label=[0, 1] * 16)
    with pytest.raises(BadInput, match="by_owner needs to know who made each sample"):
        fedfleet.run(SPEC, model=torch.nn.Linear(3, 2), data=table)


def test_the_example_is_short():
    file = Path(__file__).parents[3] / "examples/own_folder.py"
    code = [line for line in file.read_text().splitlines() if line and not line.startswith(('"""', "#", "import", "from"))]
    assert 5 < len(code) <= 20


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ([0.0, float("nan")], "1 in 'label', the first in sample 1"),
        (["a", None], "1 in 'label', the first in sample 1"),
        (["a", float("nan")], "1 in 'label', the first in sample 1"),
        ([0.0, float("inf")], "sample 1, column label: the label is inf"),
        ([0.0, {}], "sample 1 is '{}', neither a number nor text"),
    ],
)
def test_labels_that_are_none(labels, says):
    with pytest.raises(BadInput, match=says):
        fedfleet.data(Table(x=[[1.0], [2.0]], label=labels))


def test_inputs_that_are_not_finite_are_named():
    with pytest.raises(BadInput, match="1 in 'x', the first in sample 1"):
        fedfleet.data(Table(x=[[1.0], [float("nan")]], label=[0, 1]))
    for value in (float("inf"), 1e39):
        with pytest.raises(BadInput, match=r"sample 1, column x: .* not finite in float32, as are inputs of 1 of 2"):
            fedfleet.data(Table(x=[1.0, value], label=[0, 1]))


def test_reading_loads_no_library_that_it_does_not_need(tmp_path):
    (tmp_path / "a.csv").write_text("a,label\n1,w\n2,r\n")
    heavy = "torch", "pyarrow", "pandas", "PIL", "scipy"
    code = f"import sys, fedfleet; fedfleet.data({str(tmp_path / 'a.csv')!r}); print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_decisions_are_said_where_nobody_looks_at_them(tmp_path):
    (tmp_path / "a.csv").write_text("a,label\n1,5\n2,7\n")
    with pytest.warns(UserWarning, match="names of classes: 5, 7"):
        assert read_user_data(tmp_path / "a.csv").labels == ("5", "7")


def test_files_by_endings_in_capitals_and_from_home(tmp_path, monkeypatch):
    (tmp_path / "A.CSV").write_text("a,label\n1,w\n2,r\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fedfleet.data("~/A.CSV").labels == ("r", "w")
    with pytest.raises(BadInput, match=r"did you mean .*A\.CSV"):
        fedfleet.data(tmp_path / "A.CSX")
