"""Frozen weights: inside the module, once, and in nothing that travels."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from fedfleet.core.errors import BadInput, Refused
from fedfleet.core.trees import content_hash
from fedfleet.tasks.digits import digits_mlp
from fedfleet.tasks.frozen_weights import FixedNorm, freeze, freeze_module, frozen_names, replace_frozen
from fedfleet.tasks.text import char_lstm
from tests.executors.cohorts import convolutions, dense, small_task

X = torch.sin(torch.arange(4 * 144.0)).reshape(4, 1, 12, 12)


def biases(name):
    return "bias" in name


def outputs(task, params, x=X):
    module = task.build().eval()
    module.load_state_dict({n: torch.from_numpy(v) for n, v in params.items()})
    with torch.no_grad():
        return module(x)


@pytest.mark.parametrize("norm", [None, lambda: nn.GroupNorm(2, 6), lambda: nn.BatchNorm2d(6)])
def test_the_model_computes_what_it_did(norm):
    task = small_task(convolutions(norm))
    part = freeze(task, biases, 3)
    assert torch.allclose(outputs(part, part.init(3)), outputs(task, task.init(3)), atol=1e-6)


def test_what_is_frozen_and_what_travels_are_the_whole_model():
    task = small_task(dense())
    part = freeze(task, biases, 5)
    assert content_hash(part.whole(part.init(5))) == content_hash(task.init(5))
    assert {*part.build().state_dict()} == {*part.init(5)} == {n for n in task.init(5) if biases(n)}
    assert content_hash(part.frozen) == content_hash(freeze(task, biases, 5).frozen)
    assert part.frozen_name != freeze(task, biases, 6).frozen_name, "other weights have another name"
    assert task.frozen_name == ""


def test_every_module_holds_the_same_memory():
    part = freeze(small_task(dense()), biases, 0)
    first, second = part.build(), part.build()
    assert first[1].weight.data_ptr() == second[1].weight.data_ptr() == part.frozen["1.weight"].ctypes.data
    assert frozen_names(first[1]) == ["weight"]


def test_freezing_goes_on_from_what_is_frozen():
    task = small_task(dense())
    once = freeze(task, lambda name: name != "1.weight", 0)
    twice = freeze(once, biases, 0)
    assert {*twice.frozen} == {"1.weight", "3.weight"}
    assert torch.equal(outputs(twice, twice.init(0)), outputs(task, task.init(0)))


def test_statistics_that_are_frozen_do_not_move_and_neighbours_do_not_matter():
    part = freeze(small_task(convolutions(lambda: nn.BatchNorm2d(6))), biases, 0)
    module = part.build().train()
    assert any(isinstance(leaf, FixedNorm) for leaf in module.modules())
    before = copy.deepcopy(part.frozen)
    together, alone = module(X), module(X[:1])
    assert torch.allclose(together[:1], alone, atol=1e-6)
    assert all(np.array_equal(v, before[n]) for n, v in part.frozen.items())


def test_a_fixed_norm_is_batch_norm_when_judging():
    norm = nn.BatchNorm2d(3)
    norm(torch.randn(9, 3, 4, 4))
    plain = nn.BatchNorm1d(3, affine=False)
    plain(torch.randn(9, 3))
    x, flat = torch.randn(2, 3, 5, 5), torch.randn(2, 3)
    torch.testing.assert_close(FixedNorm(norm)(x), norm.eval()(x))
    torch.testing.assert_close(FixedNorm(plain)(flat), plain.eval()(flat))


def test_recurrent_layers_use_what_is_frozen():
    task = char_lstm(synthetic=True, samples=20)(0)
    part = freeze(task, lambda name: "bias" in name or name.startswith("head"), 0)
    x = torch.from_numpy(task.dataset.x[:2])
    assert torch.equal(outputs(part, part.init(0), x), outputs(task, task.init(0), x))


def test_freezing_everything_is_refused():
    with pytest.raises(BadInput, match="nothing to train"):
        freeze(small_task(dense()), lambda name: False, 0)


def test_holding_nothing_changes_nothing():
    module = dense()()
    assert {*freeze_module(module, {}).state_dict()} == {*dense()().state_dict()}


def test_frozen_weights_can_be_replaced_by_others_of_the_same_form():
    task = freeze(digits_mlp()(0), lambda name: name.startswith("3."), seed=0)
    others = {n: v + 1 for n, v in task.frozen.items()}
    changed = replace_frozen(task, others)
    assert changed.frozen is others
    built = dict(changed.build().named_buffers())
    assert all(np.array_equal(built[n].numpy(), v) for n, v in others.items())
    assert [n for n, _ in changed.build().named_parameters()] == ["3.weight", "3.bias"]
    with pytest.raises(Refused, match="not the frozen weights of 'digits_mlp'"):
        replace_frozen(task, {"1.weight": others["1.weight"]})
