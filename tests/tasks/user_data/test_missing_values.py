"""Missing values: counted by column, left out or filled, never guessed where labels and people are concerned."""

import numpy as np
import pytest

import fedfleet
from fedfleet.core.errors import BadInput
from fedfleet.tasks.user_data.columns import MISSING
from fedfleet.tasks.user_data.missing_values import fill_means
from tests.tasks.user_data.tables import Table

TEXT = "who,age,kind,ok,label\nann,1,car,yes,w\nann,3,,no,r\nbob,?,car,NA,r\nbob,5,bus,yes,w\n"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "my.csv").write_text(TEXT)
    return tmp_path / "my.csv"


def test_they_are_counted_by_column(path):
    with pytest.raises(BadInput) as wrong:
        fedfleet.data(path, owner="who")
    says = str(wrong.value)
    assert "3 missing values: 1 in 'age', 1 in 'kind', 1 in 'ok'" in says and "line 3" in says
    assert 'use missing = "mean", or missing = "drop", which leaves out 2 of 4 samples' in says


def test_samples_are_left_out(path):
    found = fedfleet.data(path, owner="who", missing="drop")
    assert found.x.tolist() == [[1, 0, 1, 1], [5, 1, 0, 1]] and found.y.tolist() == [0, 0] and found.owner.tolist() == [0, 1]
    assert found.labels == ("w",) and "2 of 4 samples" in found.warnings[0]


def test_inputs_are_filled_with_the_mean_of_their_column(path):
    found = fedfleet.data(path, owner="who", missing="mean")
    assert found.inputs == ("age", "kind=bus", "kind=car", "ok")
    assert found.x[2].tolist() == [3, 0, 1, 2 / 3] and found.x[1].tolist() == [3, 1 / 3, 2 / 3, 0]
    assert "3 missing values are filled" in found.warnings[0]


@pytest.mark.parametrize("word", sorted(MISSING - {""}))
def test_what_counts_as_missing(tmp_path, word):
    (tmp_path / "my.csv").write_text(f"a,label\n{word},w\n2,r\n3,{word}\n")
    with pytest.raises(BadInput, match="2 missing values: 1 in 'a', 1 in 'label'"):
        fedfleet.data(tmp_path / "my.csv")
    assert fedfleet.data(tmp_path / "my.csv", missing="drop").x.tolist() == [[2]]


@pytest.mark.parametrize(("column", "words"), [("label", {}), ("who", {"owner": "who"}), ("t", {"time": "t"})])
def test_labels_people_and_times_are_never_filled(tmp_path, column, words):
    rows = {name: ["1", "2", "3"] for name in ("who", "t", "a", "label")}
    rows[column][1] = "NA"
    lines = [",".join(rows), *map(",".join, zip(*rows.values(), strict=True))]
    (tmp_path / "my.csv").write_text("\n".join(lines))
    with pytest.raises(BadInput, match=f"'{column}' cannot be filled"):
        fedfleet.data(tmp_path / "my.csv", missing="mean", input="a", **words)
    with pytest.raises(BadInput) as wrong:
        fedfleet.data(tmp_path / "my.csv", input="a", **words)
    assert "fill them in" in str(wrong.value) and "mean" not in str(wrong.value)
    assert len(fedfleet.data(tmp_path / "my.csv", missing="drop", input="a", **words).y) == 2


def test_nothing_left_and_nothing_to_average():
    table = Table(a=[None, None], b=[1, None], label=[0, 1])
    with pytest.raises(BadInput, match=r"every sample of Table lacks a value \(2 of 2 in 'a'\)"):
        fedfleet.data(table, missing="drop")
    with pytest.raises(BadInput, match="all values of 'a' are missing"):
        fedfleet.data(table, missing="mean")
    with pytest.raises(BadInput, match=r"missing = 'dropp' is not one of .*did you mean 'drop'"):
        fedfleet.data(table, missing="dropp")


def test_means_are_the_same_from_sums_of_owners():
    rng = np.random.default_rng(1)
    x = np.where(rng.random((200, 3)) < 0.2, np.nan, rng.normal(size=(200, 3)) + 1e6)
    whole = fill_means(x, None, "x")
    assert np.allclose(fill_means(x, rng.integers(0, 9, 200), "x"), whole, rtol=1e-12) and not np.isnan(whole).any()
    assert np.allclose(whole[np.isnan(x)], np.take(np.nanmean(x, 0), np.nonzero(np.isnan(x))[1]))


def test_arrays_have_missing_values_too(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([[[1.0, 2]], [[np.nan, 4]]]), y=[0, 1])
    with pytest.raises(BadInput, match=r"1 missing value: 1 in 'x', the first in .*sample 1"):
        fedfleet.data(tmp_path / "a.npz")
    assert fedfleet.data(tmp_path / "a.npz", missing="mean").x.tolist() == [[[1, 2]], [[1, 4]]]
