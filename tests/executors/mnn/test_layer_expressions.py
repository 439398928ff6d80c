"""Layers as expressions of MNN against PyTorch and by their laws, where the order of axes, groups or equal numbers decides."""

import numpy as np
import pytest
import torch

from fedfleet.executors.mnn.expressions import OPERATIONS, Graph
from fedfleet.executors.mnn.layer_expressions import LAYERS, product
from fedfleet.executors.mnn.library import constant, read
from tests.executors.mnn.gradients import value_and_gradients

pytest.importorskip("_mnncengine")


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def drawn(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def layer(name, settings, *, training=True):
    return lambda *inputs: LAYERS[name](inputs, settings, Graph(inputs[0].shape[0], training))


def test_each_operation_has_one_place():
    assert not LAYERS.keys() & OPERATIONS.keys()


@pytest.mark.parametrize("transposed", [False, True])
def test_products_broadcast_the_axes_before(rng, transposed):
    a, b = drawn(rng, 2, 1, 3, 4), drawn(rng, 5, *((6, 4) if transposed else (4, 6)))
    direction = drawn(rng, 2, 5, 3, 6)
    y, gradients = value_and_gradients(lambda *v: product(*v, transposed=transposed), direction, a, b)
    first, second = (torch.from_numpy(v).requires_grad_() for v in (a, b))
    expected = first @ (second.mT if transposed else second)
    np.testing.assert_allclose(y, expected.detach().numpy(), atol=1e-5)
    for mine, theirs in zip(gradients, torch.autograd.grad(expected, (first, second), torch.from_numpy(direction)), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-5)


def test_rows_of_a_table_that_are_read_twice_learn_twice(rng):
    table, tokens = drawn(rng, 5, 2), np.array([[1, 3, 1]])
    look_up = LAYERS["embedding"]
    y, (gradient,) = value_and_gradients(lambda v: look_up([constant(tokens), v], {}, Graph(1, training=True)), 1.0, table)
    np.testing.assert_allclose(y, table[tokens], atol=1e-6)
    np.testing.assert_array_equal(gradient[:, 0], [0, 2, 0, 1, 0])


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolutions_of_a_series_take_their_groups(rng, groups):
    x, weight, bias = drawn(rng, 3, 4, 9), drawn(rng, 4, 4 // groups, 3), drawn(rng, 4)
    settings = {"stride": [2], "padding": [1], "dilation": [1], "groups": groups}
    y, gradients = value_and_gradients(layer("convolution", settings), 1.0, x, weight, bias)
    tensors = [torch.from_numpy(v).requires_grad_() for v in (x, weight, bias)]
    expected = torch.nn.functional.conv1d(*tensors, stride=2, padding=1, groups=groups)
    np.testing.assert_allclose(y, expected.detach().numpy(), atol=1e-5)
    for mine, theirs in zip(gradients, torch.autograd.grad(expected.sum(), tensors), strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-4)


def test_of_equal_numbers_in_a_window_the_first_takes_the_gradient():
    settings = {"size": [2, 2], "stride": [2, 2], "padding": [0, 0]}
    pool = layer("max_pool", settings)
    y, (gradient,) = value_and_gradients(pool, 1.0, np.zeros((1, 1, 2, 4), np.float32))
    np.testing.assert_array_equal(y, np.zeros((1, 1, 1, 2)))
    np.testing.assert_array_equal(gradient[0, 0], [[1, 0, 1, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("training", [False, True])
def test_pooling_is_the_same_in_training_and_evaluation(rng, training):
    x = drawn(rng, 2, 3, 7, 6)
    settings = {"size": [3, 2], "stride": [2, 1], "padding": [1, 0]}
    y = layer("max_pool", settings, training=training)(constant(x))
    expected = torch.nn.functional.max_pool2d(torch.from_numpy(x), (3, 2), (2, 1), (1, 0)).numpy()
    np.testing.assert_array_equal(read(y).reshape(y.shape), expected)


def test_batch_normalisation_hands_out_its_statistics_in_training_alone(rng):
    x, mean, variance = drawn(rng, 6, 2), drawn(rng, 2), np.array([4.0, 0.25], np.float32)
    settings = {"epsilon": 0.0, "momentum": 0.1, "weighted": False, "biased": False}
    inputs = [constant(v) for v in (x, mean, variance)]
    graph = Graph(6, training=False)
    y = LAYERS["batch_norm"](inputs, settings, graph)
    np.testing.assert_allclose(read(y).reshape(6, 2), (x - mean) / np.sqrt(variance), rtol=1e-4, atol=1e-5)
    assert graph.statistics == []
    graph = Graph(6, training=True, names=(0, "mean", "variance"))
    y = LAYERS["batch_norm"](inputs, settings, graph)
    np.testing.assert_allclose(read(y).reshape(6, 2), (x - x.mean(0)) / x.std(0), rtol=1e-4, atol=1e-5)
    (first, middle, *_), (second, spread, share, unbiased) = graph.statistics
    assert (first, second, share, unbiased) == ("mean", "variance", 0.1, 6 / 5)
    np.testing.assert_allclose(read(middle).reshape(2), x.mean(0), atol=1e-6)
    np.testing.assert_allclose(read(spread).reshape(2), x.var(0), rtol=1e-5)


def test_causal_attention_does_not_see_what_comes_later(rng):
    query, key, value = (drawn(rng, 1, 4, 3) for _ in range(3))
    settings = {"scale": 0.5, "causal": True}
    direction = np.zeros((1, 4, 3))
    direction[:, 1] = 1.0
    y, (_, of_key, of_value) = value_and_gradients(layer("attention", settings), direction, query, key, value)
    np.testing.assert_allclose(y[:, 0], value[:, 0], atol=1e-6)
    for gradient in (of_key, of_value):
        assert np.abs(gradient[:, :2]).max() > 0 and not gradient[:, 2:].any()
