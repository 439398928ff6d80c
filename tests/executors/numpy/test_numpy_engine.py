"""The numpy engine: it draws the units that drop from the number it is given, changes buffers only in training, limits threads."""

import sys

import numpy as np
import pytest

from fedfleet.executors.numpy.numpy_engine import LoadedNumpyModel, NumpyEngine
from fedfleet.tasks.description.format import ModelDescription, Operation

NORM = {"epsilon": 1e-5, "momentum": 0.25, "weighted": False, "biased": False, "counter": None}
VECTOR = ((3,), "<f4")


def test_a_batch_moves_statistics_and_an_evaluation_does_not():
    leaves = {"mean": np.zeros(3, np.float32), "variance": np.ones(3, np.float32)}
    kinds = {"mean": VECTOR, "variance": VECTOR}
    model = LoadedNumpyModel(
        ModelDescription((3,), "<f4", kinds, frozenset(), (Operation("batch_norm", (0, "mean", "variance"), NORM),), 1)
    )
    x = np.random.default_rng(1).normal(2.0, 3.0, (6, 3)).astype(np.float32)
    found = model.train(leaves, x, np.zeros(6, np.int64), frozenset(), 0)
    np.testing.assert_allclose(found.buffers["mean"], 0.25 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.buffers["variance"], 0.75 + 0.25 * x.var(0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(leaves, x), x / np.sqrt(1 + 1e-5), rtol=1e-5)


def test_the_number_says_which_units_drop():
    dropout = Operation("dropout", (0,), {"rate": 0.5, "layer": 0})
    weighted = Operation("multiply", (1, "w"), {"left": None, "right": None})
    model = NumpyEngine().load(ModelDescription((8,), "<f4", {"w": ((8,), "<f4")}, frozenset({"w"}), (dropout, weighted), 2))
    leaves, x, labels = {"w": np.ones(8, np.float32)}, np.ones((4, 8), np.float32), np.array([0, 3, 5, 7])
    first, again, other = (model.train(leaves, x, labels, frozenset({"w"}), number).gradients["w"] for number in (7, 7, 8))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.array_equal(model.evaluate(leaves, x), x)


def test_products_take_as_many_threads_as_it_is_told():
    pools = pytest.importorskip("threadpoolctl")
    with pools.threadpool_limits(user_api="blas"):
        NumpyEngine().limit_threads(1)
        assert {p["num_threads"] for p in pools.threadpool_info() if p["user_api"] == "blas"} == {1}


def test_without_the_package_that_limits_threads_nothing_is_limited(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    NumpyEngine().limit_threads(1)
