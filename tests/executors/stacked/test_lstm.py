"""A stacked LSTM: each client's own recurrence, in single precision, over long sequences, and where nothing of it is trained."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from fedfleet.executors.stacked.linear_layers import Stack
from fedfleet.executors.stacked.lstm import Lstm

CLIENTS, BATCH, STEPS, INPUTS, HIDDEN = 3, 4, 40, 5, 6


def like(layers=1):
    return nn.LSTM(INPUTS, HIDDEN, num_layers=layers, batch_first=True)


def stack_of(module, spread=0.3):
    """Unlike weights for each client."""
    noise = torch.Generator().manual_seed(0)
    return {
        n: torch.stack([v + spread * torch.randn(v.shape, generator=noise) for _ in range(CLIENTS)])
        for n, v in module.state_dict().items()
    }


def leaf_with(module, weights):
    stack = Stack()
    stack.clients = CLIENTS
    leaf = Lstm(stack, module)
    for name, value in weights.items():
        setattr(leaf, name, value)
    return leaf


def samples(requires_grad=True):
    return torch.randn(CLIENTS * BATCH, STEPS, INPUTS, generator=torch.Generator().manual_seed(1)).requires_grad_(requires_grad)


def gap(a, b):
    """The largest difference in units of the largest value."""
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("use", ["every place", "the end"])
def test_each_client_has_its_own_recurrence(layers, use):
    module = like(layers)
    weights = {n: v.requires_grad_() for n, v in stack_of(module).items()}
    x = samples()

    def loss(outputs):
        out, (h, cell) = outputs
        return out.square().sum() if use == "every place" else (h * cell).sum() + h.sum()

    loss(leaf_with(module, weights)(x)).backward()
    for c in range(CLIENTS):
        own = {n: v[c].detach().clone().requires_grad_() for n, v in weights.items()}
        part = x.detach()[c * BATCH : (c + 1) * BATCH].clone().requires_grad_()
        loss(functional_call(module, own, (part,))).backward()
        assert gap(x.grad[c * BATCH : (c + 1) * BATCH], part.grad) < 1e-5
        for name, value in own.items():
            assert gap(weights[name].grad[c], value.grad) < 1e-5


def test_outputs_are_those_of_pytorch_in_all_three_parts():
    module, x = like(2), samples(requires_grad=False)
    weights = stack_of(module)
    out, (h, cell) = leaf_with(module, weights)(x)
    for c in range(CLIENTS):
        rows = slice(c * BATCH, (c + 1) * BATCH)
        wanted, (last, ends) = functional_call(module, {n: v[c] for n, v in weights.items()}, (x[rows],))
        assert gap(out[rows], wanted) < 1e-5
        assert gap(h[:, rows], last) < 1e-5
        assert gap(cell[:, rows], ends) < 1e-5


def test_frozen_weights_that_all_share_are_not_trained_and_hand_the_gradient_on():
    module, x = like(), samples()
    shared = {n: v.detach().unsqueeze(0).expand(CLIENTS, *v.shape) for n, v in module.state_dict().items()}
    leaf_with(module, shared)(x)[0].square().sum().backward()
    alone = samples()
    module(alone)[0].square().sum().backward()
    assert gap(x.grad, alone.grad) < 1e-5
    assert all(v.grad is None for v in shared.values())


def test_the_same_work_gives_the_same_bits():
    module = like()
    weights = stack_of(module)
    outs = [leaf_with(module, weights)(samples())[0] for _ in range(2)]
    assert torch.equal(*outs)


def test_large_and_small_values_stay_finite():
    module, x = like(), samples(requires_grad=False)
    weights = {n: (1e3 * v).requires_grad_() for n, v in stack_of(module).items()}
    out, _ = leaf_with(module, weights)(1e3 * x)
    out.sum().backward()
    assert out.isfinite().all() and out.abs().max() <= 1.0
    assert all(v.grad.isfinite().all() for v in weights.values())


def test_a_second_backward_pass_is_refused_and_not_wrong():
    out, _ = leaf_with(like(), {n: v.requires_grad_() for n, v in stack_of(like()).items()})(samples())
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward pass once"):
        out.sum().backward()
