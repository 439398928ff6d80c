"""Leaves of a stacked twin: each is, for every client, the layer that torch would have used, forward and backward."""

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812

from fedfleet.executors.stacked.layers import BatchNorm, gather_patches
from fedfleet.executors.stacked.linear_layers import Stack
from fedfleet.executors.stacked.stacked_model import make_twin
from fedfleet.tasks.nets.attention import Positions

CLIENTS, BATCH = 3, 4


class Last(nn.Module):
    """An LSTM by its outputs and its last states."""

    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(5, 6, num_layers=2, batch_first=True)

    def forward(self, x):
        out, (h, c) = self.inner(x)
        return torch.cat([out.flatten(1), h.transpose(0, 1).flatten(1), c.transpose(0, 1).flatten(1)], 1)


LEAVES = {
    "linear": (nn.Linear(5, 3), (5,)),
    "linear without bias on sequences": (nn.Linear(5, 3, bias=False), (7, 5)),
    "convolution": (nn.Conv2d(2, 3, 3), (2, 7, 6)),
    "strided, padded, dilated": (nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), (2, 9, 8)),
    "one dimension": (nn.Conv1d(2, 3, 3, stride=2, padding=1, bias=False), (2, 11)),
    "batch norm": (nn.BatchNorm2d(3), (3, 4, 4)),
    "batch norm of vectors": (nn.BatchNorm1d(3), (3,)),
    "layer norm": (nn.LayerNorm(5), (7, 5)),
    "layer norm without a shift": (nn.LayerNorm((7, 5), bias=False), (7, 5)),
    "group norm": (nn.GroupNorm(2, 4), (4, 3, 3)),
    "lstm": (Last(), (6, 5)),
    "table": (Positions(7, 5), (7, 5)),
}


def params_of(module, clients=CLIENTS):
    """Unlike parameters for each client, in double precision, and running statistics at their beginning."""
    result = {}
    for k, (name, value) in enumerate(module.state_dict().items()):
        each = []
        for c in range(clients):
            noise = torch.sin(torch.arange(float(value.numel())) * (k + 1) + c).reshape(value.shape).double()
            keep = not value.is_floating_point() or "running" in name
            each.append(value.clone() if not value.is_floating_point() else value.double() + (0 if keep else noise))
        result[name] = torch.stack(each)
    return result


def trained_names(module):
    return [n for n, _ in module.named_parameters()]


@pytest.mark.parametrize("name", LEAVES)
def test_a_leaf_is_each_clients_own_layer_forward_and_backward(name):
    module, shape = LEAVES[name]
    module = module.double().train()
    whole = params_of(module)
    mine = {n: v.clone().requires_grad_(v.is_floating_point() and n in trained_names(module)) for n, v in whole.items()}
    twin = make_twin(module)
    twin.load(mine, CLIENTS)
    x = torch.cos(torch.arange(float(CLIENTS * BATCH * torch.Size(shape).numel()))).double()
    x = x.reshape(CLIENTS * BATCH, *shape).requires_grad_(True)
    out = twin.module.train()(x)
    (out * torch.sin(out.detach())).sum().backward()
    for c in range(CLIENTS):
        own = {n: v[c].clone().requires_grad_(v.is_floating_point() and n in trained_names(module)) for n, v in whole.items()}
        part = x.detach()[c * BATCH : (c + 1) * BATCH].clone().requires_grad_(True)
        wanted = functional_call(module, own, (part,))
        (wanted * torch.sin(wanted.detach())).sum().backward()
        assert torch.allclose(out[c * BATCH : (c + 1) * BATCH], wanted, atol=1e-9)
        assert torch.allclose(x.grad[c * BATCH : (c + 1) * BATCH], part.grad, atol=1e-9)
        for n in trained_names(module):
            assert torch.allclose(mine[n].grad[c], own[n].grad, atol=1e-9), n
        for n in set(whole) - set(trained_names(module)):  # running statistics
            assert torch.allclose(mine[n][c].double(), own[n].double(), atol=1e-9), n


def test_an_embedding_looks_up_in_each_clients_own_table():
    module = nn.Embedding(9, 4)
    whole = params_of(module)
    twin = make_twin(module)
    twin.load(whole, CLIENTS)
    words = torch.arange(CLIENTS * BATCH * 2).reshape(-1, 2) % 9
    result = twin.module(words).reshape(CLIENTS, BATCH, 2, 4)
    for c in range(CLIENTS):
        assert torch.equal(result[c], whole["weight"][c][words.reshape(CLIENTS, BATCH, 2)[c]])


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding"),
    [((3, 3), (1, 1), (1, 1), (0, 0)), ((2, 3), (2, 1), (1, 2), (1, 2)), ((1, 5), (1, 3), (1, 1), (0, 2))],
)
def test_patches_are_torchs_unfolding(kernel, stride, dilation, padding):
    x = torch.sin(torch.arange(2 * 3 * 8 * 9.0)).reshape(2, 3, 8, 9)
    assert torch.equal(gather_patches(x, kernel, stride, dilation, padding), F.unfold(x, kernel, dilation, padding, stride))


def test_padding_is_no_part_of_a_batchs_statistics():
    like = nn.BatchNorm2d(3).double()
    whole = params_of(like, 2)
    stack = Stack(2, weights=torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]]))
    leaf = BatchNorm(stack, like)
    for name, value in whole.items():
        setattr(leaf, name, value.clone())
    x = torch.sin(torch.arange(8 * 3 * 4.0)).double().reshape(8, 3, 2, 2)
    out = leaf.train()(x)
    own = {n: v[1].clone() for n, v in whole.items()}
    assert torch.allclose(out[4:6], functional_call(like.train(), own, (x[4:6],)), atol=1e-9)
    assert torch.allclose(leaf.running_var[1], own["running_var"], atol=1e-9)
    assert leaf.num_batches_tracked.tolist() == [1, 1]


def test_judging_uses_and_keeps_the_running_statistics():
    like = nn.BatchNorm1d(3).double()
    twin = make_twin(like)
    whole = params_of(like)
    before = {n: v.clone() for n, v in whole.items()}
    twin.load(whole, CLIENTS)
    x = torch.cos(torch.arange(CLIENTS * 2 * 3.0)).double().reshape(-1, 3)
    result = twin.module.eval()(x)
    own = {n: v[2] for n, v in before.items()}
    assert torch.allclose(result[4:], functional_call(like.eval(), own, (x[4:],)), atol=1e-9)
    assert all(torch.equal(v, before[n]) for n, v in twin.read(list(before)).items())
