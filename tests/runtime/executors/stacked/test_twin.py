"""The stacked twin: the same forward for a stack of clients, what it can fuse and share, and what it cannot stack."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from fedfleet.learn.zoo import fedavg
from fedfleet.runtime.executors.stacked.executor import stacked
from fedfleet.runtime.executors.stacked.twin import CannotStack, make_twin, used_again
from tests.runtime.executors.cohorts import Odd, Twice, compare, convolutions, dense, small_task

SAMPLE = torch.zeros(2, 1, 12, 12)


def stacks(build, clients=3):
    """Parameters of unlike clients, one after the other, and the clients' own."""
    own = []
    for c in range(clients):
        torch.manual_seed(c)
        own.append({n: v.clone() for n, v in build().state_dict().items()})
    return {n: torch.stack([tree[n] for tree in own]) for n in own[0]}, own


@pytest.mark.parametrize(
    "build",
    [convolutions(), convolutions(lambda: nn.GroupNorm(2, 6)), convolutions(lambda: nn.BatchNorm2d(6)), dense(), Twice],
    ids=["convolutions", "group norm", "batch norm", "dense", "twice"],
)
def test_a_twin_is_each_clients_own_model_on_its_own_batch(build):
    whole, own = stacks(build)
    twin, module = make_twin(build(), SAMPLE), build()
    x = torch.sin(torch.arange(3 * 4 * 144.0)).reshape(12, 1, 12, 12)
    twin.load(whole, 3)
    found = twin.module.eval()(x)
    wanted = [functional_call(module.eval(), own[c], (x[c * 4 : c * 4 + 4],)) for c in range(3)]
    assert torch.allclose(found, torch.cat(wanted), atol=1e-5)
    back = twin.read(list(whole))
    assert all(torch.equal(v, back[n]) for n, v in whole.items())


def test_a_layer_that_is_used_twice_waits_for_its_whole_gradient():
    task = small_task(Twice)
    twin = make_twin(Twice(), torch.zeros(2, 1, 12, 12))
    assert {"again.weight", "again.bias"}.isdisjoint(twin.fusable)
    compare(task, fedavg(lr=0.1), (9, 20, 3))


def test_looking_at_which_leaves_are_used_again_leaves_no_trace():
    module = Twice().train()
    assert used_again(module, SAMPLE) == {"again"}
    assert module.training
    assert not any(leaf._forward_hooks for leaf in module.modules())


def test_linear_and_convolution_can_be_fused_and_only_linear_weights_shared():
    twin = make_twin(convolutions(lambda: nn.GroupNorm(2, 6))(), SAMPLE)
    assert twin.fusable == {"0.weight", "3.weight", "3.bias", "6.weight", "6.bias"}
    assert twin.shareable == {"6.weight"}
    assert twin.flat == {"0.weight", "3.weight"}


def test_a_leaf_is_frozen_whole_or_not_at_all():
    twin = make_twin(dense()(), SAMPLE)
    assert twin.freeze({"3.weight", "3.bias"})
    assert [twin.places[n][0].frozen for n in ("1.weight", "3.weight")] == [True, False]
    assert twin.freeze(None)
    assert [twin.places[n][0].frozen for n in ("1.weight", "3.weight")] == [False, False]
    assert not twin.freeze({"3.weight"})  # its bias would stay while its weight moves


def test_a_model_that_cannot_be_stacked_is_trained_by_the_loop_and_says_so():
    with pytest.raises(CannotStack, match="Odd"):
        make_twin(Odd())
    task = small_task(Odd)
    execute = stacked(task)
    assert execute.name == "stacked-loop"
    assert "cannot be stacked" in execute.notes[0]
    compare(task, fedavg(lr=0.05), (9, 20))


@pytest.mark.parametrize(
    ("leaf", "why"),
    [
        (nn.Conv2d(4, 4, 3, groups=2), "without groups"),
        (nn.Conv2d(4, 4, 3, padding="same"), "zero-padded"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), "zero-padded"),
        (nn.BatchNorm2d(4, momentum=None), "running statistics"),
        (nn.LSTM(4, 4, bidirectional=True, batch_first=True), "unidirectional"),
        (nn.LSTM(4, 4), "batch-first"),
        (nn.Bilinear(2, 2, 2), "Bilinear, which has parameters and no stacked form"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_a_leaf_that_cannot_be_stacked_is_named_with_the_reason(leaf, why):
    with pytest.raises(CannotStack, match=rf"^inside\.0.*{why}"):
        make_twin(nn.ModuleDict({"inside": nn.Sequential(leaf)}))


def test_the_model_itself_may_be_one_leaf():
    twin = make_twin(nn.Linear(4, 2))
    twin.load({"weight": torch.ones(2, 2, 4), "bias": torch.zeros(2, 2)}, 2)
    assert twin.module(torch.ones(6, 4)).tolist() == [[4.0, 4.0]] * 6
