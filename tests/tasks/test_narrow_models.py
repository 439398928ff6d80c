"""Narrower models: as many units as they should have, the same inputs and outputs, and slices that fit into the whole."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedfleet.core.errors import BadInput
from fedfleet.core.registry import builder, names, parameters
from fedfleet.tasks.narrow_models import at_width, shape_at, units
from fedfleet.tasks.nets.attention import Attention
from fedfleet.tasks.task import make_task
from tests.tasks.test_nets import _one_thread  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow

TASKS = names("tasks")


@cache
def made(name):
    build = builder("tasks", name)
    return build(**({"synthetic": True, "samples": 250} if "synthetic" in parameters(build) else {}))(0)


@given(st.integers(1, 500), st.floats(1e-6, 1.0), st.integers(1, 8))
def test_units_are_the_smallest_whole_multiple_that_is_enough(n, scale, multiple):
    n *= multiple
    result = units(n, scale, multiple)
    assert result % multiple == 0 and multiple <= result <= n
    assert result >= scale * n - 1e-6 and result - multiple < max(scale * n, 1e-6)
    assert units(n, 1.0, multiple) == n and units(n, scale / 2, multiple) <= result


@pytest.mark.parametrize("name", TASKS)
def test_every_task_narrows_between_the_same_inputs_and_outputs(name):
    task = made(name)
    if task.narrow is None:
        pytest.skip("its model has one size only")
    whole, half = task.build(), task.narrow(0.5)
    same = {n: v.shape for n, v in whole.state_dict().items()}
    assert same == {n: v.shape for n, v in task.narrow(1.0).state_dict().items()}, "at its whole width it is the model itself"
    small = {n: v.shape for n, v in half.state_dict().items()}
    assert small.keys() == same.keys() and all(a <= b for n in same for a, b in zip(small[n], same[n], strict=True))
    with torch.no_grad():
        x = torch.from_numpy(task.dataset.x[:2])
        assert half.eval()(x).shape == whole.eval()(x).shape
    if any("head" in n for n in same):  # what has a hidden layer becomes smaller
        count = [sum(math.prod(s) for s in result.values()) for result in (small, same)]
        assert count[0] < 0.62 * count[1]


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn", "mlp", "har_cnn", "char_lstm", "kws_cnn", "femnist_cnn"])
@pytest.mark.parametrize("width", [0.5, 0.3])
def test_the_slice_of_a_model_is_the_model_without_its_other_units(name, width):
    """Whatever lies outside the slice is set to zero in the whole model: then both give the same answers."""
    task = made(name)
    places, whole = shape_at(task, width).places, task.build().eval()
    narrow = at_width(task, width).build().eval()
    values = {n: v.clone() for n, v in whole.state_dict().items()}
    narrow.load_state_dict({n: v[np.ix_(*places[n])] for n, v in values.items()})
    for n, value in values.items():
        inside = torch.zeros_like(value)
        inside[np.ix_(*places[n])] = 1.0
        value.mul_(inside)
    whole.load_state_dict(values)
    x = torch.from_numpy(task.dataset.x[:4])
    with torch.no_grad():
        torch.testing.assert_close(narrow(x), whole(x), rtol=1e-4, atol=1e-6)


def test_each_head_of_attention_keeps_its_first_units():
    result = shape_at(made("vit_tiny"), 0.5).places
    rows = [64 * block + j for block in range(9) for j in range(32)]  # query, key and value of three heads
    assert result["layers.0.attention.qkv.weight"][0].tolist() == result["layers.0.attention.qkv.bias"][0].tolist() == rows
    assert result["layers.0.attention.out.weight"][1].tolist() == rows[:96]
    assert result["layers.0.attention.out.weight"][0].tolist() == list(range(96)), "the stream is cut as everywhere"


def test_narrower_heads_are_heads_without_their_other_units():
    whole, narrow = Attention(12, 3), Attention(6, 3)
    inside = [4 * block + j for block in range(9) for j in range(2)]
    values = {n: torch.zeros_like(v) for n, v in whole.state_dict().items()}
    small = narrow.state_dict()
    values["qkv.weight"][np.ix_(inside, range(6))], values["qkv.bias"][inside] = small["qkv.weight"], small["qkv.bias"]
    values["out.weight"][np.ix_(range(6), inside[:6])], values["out.bias"][:6] = small["out.weight"], small["out.bias"]
    for name in ("qkv.weight", "qkv.bias"):  # scores are divided by the root of a head's width
        values[name][:12] *= 2.0**0.5
    whole.load_state_dict(values)
    x = torch.randn(2, 5, 6)
    with torch.no_grad():
        torch.testing.assert_close(whole(torch.cat([x, x], dim=2))[..., :6], narrow(x))


def test_narrower_slices_lie_inside_wider_ones():
    for name in ("digits_cnn", "char_lstm", "vit_tiny", "resnet18_gn"):
        task = made(name)
        result = [shape_at(task, w).places for w in (1.0, 0.5, 0.25)]
        for wide, thin in itertools.pairwise(result):
            assert all(set(a.tolist()) <= set(b.tolist()) for n in wide for a, b in zip(thin[n], wide[n], strict=True))


def test_work_is_counted_in_multiply_adds():
    dense = shape_at(made("digits_mlp"), 0.5)
    assert dense.work == {"1.weight": 64 * 32, "1.bias": 0, "3.weight": 32 * 10, "3.bias": 0}
    assert dense.activations == 2 * (32 + 10)
    image = shape_at(made("digits_cnn"), 1.0)
    assert image.work["first.weight"] == 64 * 9 * 8 and image.work["second.weight"] == 16 * 9 * 8 * 16
    text = shape_at(made("char_lstm"), 1.0)
    assert text.work["lstm.weight_hh_l0"] == 80 * 4 * 256 * 256 and text.work["head.weight"] == 256 * 80


# ---- what cannot be sliced ----------------------------------------------------------------------------------------


def test_a_model_without_a_width_is_one_sentence():
    own = make_task("own", lambda: made("digits_mlp").dataset, lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))(0)
    with pytest.raises(BadInput, match="'own' does not say how its model becomes narrower"):
        at_width(own, 0.5)
    assert at_width(own, 1.0) is own
    assert sum(shape_at(own, 1.0).work.values()) == 640


def test_running_statistics_are_one_sentence():
    def normed(scale=1.0):
        n = units(8, scale)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, n), nn.BatchNorm1d(n), nn.Linear(n, 10))

    task = replace(made("digits_mlp"), build=normed, narrow=normed)
    with pytest.raises(BadInput, match=r"running statistic .* GroupNorm"):
        shape_at(task, 0.5)
    assert shape_at(task, 1.0).places["2.running_mean"][0].tolist() == list(range(8)), "alone, it is as ever"
