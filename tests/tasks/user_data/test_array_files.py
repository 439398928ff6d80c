"""Arrays in .npz: x and y, or arrays of other names; pickles are never loaded."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.array_files import read_npz
from fedfleet.tasks.user_data.columns import Choice
from fedfleet.tasks.user_data.samples import data


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_names_of_arrays_can_be_chosen(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.zeros((3, 2, 2)), target=["w", "r", "w"], who=[5, 7, 5], at=[1, 2, 3])
    found = data(tmp_path / "a.npz", input="features", label="target", owner="who", time="at")
    assert found.labels == ("r", "w") and found.owners == ("5", "7") and found.time.tolist() == [1, 2, 3]
    assert read_npz(tmp_path / "a.npz", Choice(("features",), ("target",))).where == str(tmp_path / "a.npz")


def test_a_pickle_is_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([Trap()] * 2, object), y=[0, 1])
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 2)), y=np.array([Trap()] * 2, object))
    for name in "ab":
        with pytest.raises(BadInput, match=r"cannot be read as \.npz"):
            data(tmp_path / f"{name}.npz")


@pytest.mark.parametrize(
    ("arrays", "words", "says"),
    [
        ({"x": np.zeros((2, 2))}, {}, "has no array y (x)"),
        ({"x": np.zeros((2, 2)), "labels": [0, 1]}, {"label": "label"}, "did you mean 'labels'"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0)}, {}, "give one row and one label"),
        ({"x": np.array([["a"], ["b"]]), "y": [0, 1]}, {}, "give numbers with one row"),
        ({"x": np.zeros((2, 2)), "y": [0, 1], "owner": [0]}, {}, "owner has the shape (1,)"),
        ({"x": np.zeros((2, 2)), "y": [0, 1]}, {"input": ["x", "y"]}, "name one array"),
    ],
)
def test_mistakes(tmp_path, arrays, words, says):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BadInput) as wrong:
        data(tmp_path / "a.npz", **words)
    assert says in str(wrong.value)


def test_clients_whose_labels_differ_in_shape(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 2)), y=[0, 1])
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 2)), y=np.zeros((2, 3)))
    with pytest.raises(BadInput, match=r"labels of b and of a in .* differ in shape"):
        data(tmp_path)
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-40])
    with pytest.raises(BadInput, match=r"b\.npz cannot be read"):
        data(tmp_path)


def test_a_single_array_has_no_name(tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.zeros((2, 2)))
    with pytest.raises(BadInput, match="a single array without a name"):
        data(tmp_path / "a.npz")


def test_owners_in_the_files_of_a_folder_are_said_to_be_unused(tmp_path):
    np.savez(tmp_path / "ann.npz", x=np.zeros((2, 2)), y=[0, 1], owner=["p", "q"])
    found = data(tmp_path)
    assert found.owners == ("ann",) and "owner of ann" in found.warnings[0] and "one owner, 'ann'" in found.warnings[1]
