"""Trees: flat dictionaries of arrays."""

import threading

import numpy as np
import pytest

from fedfleet.core.trees import ModelName, content_hash, difference, mismatch, model_name, tree_map, tree_nbytes


def tree():
    return {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([4], np.int64)}


def test_map_goes_leaf_by_leaf():
    assert tree_map(np.add, tree(), tree())["w"][1, 2] == 10.0


def test_integer_leaves_travel_as_they_are():
    after = {"w": tree()["w"] + 1, "n": np.array([9], np.int64)}
    delta = difference(after, tree())
    assert np.array_equal(delta["w"], np.ones((2, 3)))
    assert delta["n"] == 9


def test_bytes_of_all_leaves():
    assert tree_nbytes(tree()) == 6 * 4 + 8


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"extra": np.zeros(1)}, "leaf 'extra' is unknown"),
        ({"w": np.zeros((3, 2), np.float32)}, "leaf 'w' has shape (3, 2), not (2, 3)"),
        ({"w": np.zeros((2, 3))}, "leaf 'w' is float64, not float32"),
    ],
)
def test_a_mismatch_names_the_leaf(changes, why):
    assert mismatch(tree() | changes, tree()) == why


def test_a_missing_leaf_is_named():
    assert mismatch({"n": tree()["n"]}, tree()) == "leaf 'w' is missing"
    assert mismatch(tree(), tree()) is None


def test_the_same_content_has_the_same_hash_whatever_the_layout():
    one, w = tree(), tree()["w"]
    assert content_hash({"n": one["n"], "w": np.asfortranarray(w)}) == content_hash(one)
    assert content_hash({**one, "w": np.repeat(w, 2, axis=1)[:, ::2]}) == content_hash(one)


@pytest.mark.parametrize(
    "other",
    [
        {"w": np.arange(6, dtype=np.float32).reshape(3, 2)},
        {"w": np.arange(6, dtype=np.float32).reshape(2, 3) + np.float32(1e-6)},
        {"w": np.arange(6, dtype=np.int32).reshape(2, 3)},
        {"v": np.arange(6, dtype=np.float32).reshape(2, 3)},
    ],
)
def test_another_content_has_another_hash(other):
    assert content_hash(other) != content_hash({"w": tree()["w"]})


def test_a_scalar_is_not_a_vector_of_one():
    # Batch normalisation counts in a scalar; making it contiguous turns it into a vector behind one's back.
    assert content_hash({"n": np.zeros(())}) != content_hash({"n": np.zeros(1)})


def test_empty_leaves_have_a_hash():
    assert content_hash({"w": np.zeros((0, 3))}) != content_hash({"w": np.zeros((0, 4))})


LARGE = {"w": np.arange(1 << 15, dtype=np.float32)}


def test_a_small_model_is_named_at_once_and_a_large_one_on_first_use():
    small = {"w": np.zeros(4, np.float32)}
    assert model_name(small) == content_hash(small)
    assert isinstance(model_name(small), str)
    name = model_name(LARGE)
    assert isinstance(name, ModelName)
    assert not name.is_computed
    assert str(name) == content_hash(LARGE)
    assert name.is_computed


def test_it_compares_hashes_and_prints_as_the_string():
    name, text = ModelName(LARGE), content_hash(LARGE)
    assert name == text
    assert text == name
    assert name == ModelName(dict(LARGE))
    assert name != "another"
    assert name != ModelName({"w": LARGE["w"] + 1})
    assert (hash(name), repr(name), f"{name}") == (hash(text), repr(text), text)
    assert {name: 1}[text] == 1
    assert name != 3


def test_many_threads_find_the_same_name():
    name, result = ModelName(LARGE), []
    threads = [threading.Thread(target=lambda: result.append(str(name))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(result) == {content_hash(LARGE)}
