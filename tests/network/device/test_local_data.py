"""A person's own samples, in every form that the help names, and what is wrong with them."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.network.device.local_data import ModelInputs, fit_to_model, read_samples, split_counts, split_rows

PICTURES = ModelInputs((1, 2, 2), "<f4", 3)


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_an_npz(tmp_path):
    x, y = read_samples(npz(tmp_path / "a.npz", x=np.arange(12, dtype=np.uint8).reshape(3, 2, 2), y=[0, 2, 1]))
    assert x.shape == (3, 2, 2) and y.tolist() == [0, 2, 1] and y.dtype == np.int64
    got = fit_to_model(x, y, PICTURES, tmp_path)
    assert got.shape == (3, 1, 2, 2) and got.dtype == np.float32
    assert got.max() == np.float32(11 / 255)  # bytes become 0 to 1


def test_a_table(tmp_path):
    (tmp_path / "a.csv").write_text("one,Label,two\n0.5,1,2\n\n3,0,4.5\n")
    x, y = read_samples(tmp_path / "a.csv")
    assert x.tolist() == [[0.5, 2], [3, 4.5]] and y.tolist() == [1, 0]


def test_a_folder_of_classes(tmp_path):
    for name in ("0", "2-bicycle"):
        (tmp_path / name).mkdir()
    np.save(tmp_path / "0" / "b.npy", np.ones(4))
    np.save(tmp_path / "0" / "a.npy", np.zeros(4))
    (tmp_path / "2-bicycle" / "rows.csv").write_text("1,2,3,4\n5,6,7,8\n")
    (tmp_path / "2-bicycle" / "notes.txt").write_text("not a sample")
    x, y = read_samples(tmp_path)
    assert y.tolist() == [0, 0, 2, 2] and x[:, 0].tolist() == [0, 1, 1, 5]


def test_tokens_stay_whole_numbers(tmp_path):
    x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])
    assert fit_to_model(x, y, ModelInputs((2,), "<i8", 2), tmp_path).dtype == np.int64
    with pytest.raises(BadInput, match="takes whole numbers"):
        fit_to_model(x + 0.5, y, ModelInputs((2,), "<i8", 2), tmp_path)


def test_the_split_is_seeded_whole_and_of_the_announced_size():
    for n in (2, 5, 57, 1000):
        train, test = split_rows(n, 7, 99)
        assert (len(train), len(test)) == split_counts(n)
        assert sorted([*train, *test]) == list(range(n))
        assert np.array_equal(train, split_rows(n, 7, 99)[0])
    assert not np.array_equal(split_rows(1000, 7, 99)[0], split_rows(1000, 7, 98)[0])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p / "none", "does not exist"),
        (lambda p: npz(p / "a.npz", x=np.zeros((3, 4))), "cannot be read"),
        (lambda p: npz(p / "a.npz", x=np.zeros((3, 4)), y=[0, 1]), "one label for each"),
        (lambda p: npz(p / "a.npz", x=np.zeros((3, 4)), y=[0, 1, -1]), "numbers of classes"),
        (lambda p: npz(p / "a.npz", x=np.zeros((3, 4)), y=[0, 1, 0.5]), "numbers of classes"),
        (lambda p: npz(p / "a.npz", x=np.zeros((1, 4)), y=[0]), "at least two samples"),
        (lambda p: npz(p / "a.npz", x=np.array([object()] * 2), y=[0, 1]), "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(tmp_path, make, said):
    with pytest.raises(BadInput, match=f"--data: .*{said}"):
        read_samples(make(tmp_path))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "one,two\n1,2\n", "no column called label"),
        ("a.csv", "", "no column called label"),
        ("a.csv", "label,x\n1,hello\n", "cannot be read"),
        ("a.csv", "label,x,z\n1,2,3\n0,2\n", "cannot be read"),
        ("a.txt", "label", "file type that cannot be read"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=said):
        read_samples(tmp_path / name)


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(BadInput, match="holds no samples"):
        read_samples(tmp_path)
    (tmp_path / "cats").mkdir()
    with pytest.raises(BadInput, match="begin with the number of a class"):
        read_samples(tmp_path)


def test_samples_that_do_not_fit_the_model(tmp_path):
    x, y = np.zeros((2, 4), np.float32), np.array([0, 1])
    with pytest.raises(BadInput, match=r"sample 1 is of class 7, but this run has 3 classes"):
        fit_to_model(x, np.array([0, 7]), PICTURES, tmp_path)
    with pytest.raises(BadInput, match=r"shape \(5,\), but this run's model takes \(1, 2, 2\)"):
        fit_to_model(np.zeros((2, 5)), y, PICTURES, tmp_path)
    with pytest.raises(BadInput, match="sample 1 holds values that are not finite"):
        fit_to_model(np.array([[0.0] * 4, [1e300] * 4]), y, PICTURES, tmp_path)
