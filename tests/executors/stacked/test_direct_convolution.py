"""Convolutions without patches: with sound kernels a layer is the layer that patches make, also when it moves itself."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from fedfleet.executors.stacked import direct_convolution, layers
from fedfleet.executors.stacked.direct_convolution import direct_form_fits
from fedfleet.executors.stacked.fused_step import Move
from fedfleet.executors.stacked.stacked_model import make_twin

CLIENTS, BATCH = 3, 4


def pad(x, padding):
    return F.pad(x, (padding[1], padding[1], padding[0], padding[0]))


def convolve(x, weight, bias, kernel, stride, dilation, *, turned=False):
    """Client by client, in plain torch; `x` is padded already."""
    out = []
    for c, part in enumerate(x.chunk(len(weight))):
        w = weight[c].reshape(len(weight[c]), -1, *kernel)
        w = w.transpose(0, 1).flip(2, 3) if turned else w
        out.append(F.conv2d(part, w, None if bias is None else bias[c], stride, 0, dilation))
    return torch.cat(out)


def weight_gradient(x, grad, clients, kernel, stride, dilation, *, bias):
    planes, grad = (v if isinstance(v, torch.Tensor) else v.values for v in (x, grad))
    rows = []
    for part, g in zip(planes.chunk(clients), grad.chunk(clients), strict=True):
        patches = layers.gather_patches(part, kernel, stride, dilation, (0, 0))
        rows.append(torch.bmm(g.flatten(2), patches.transpose(1, 2)).sum(0))
    return torch.stack(rows), torch.stack([g.sum((0, 2, 3)) for g in grad.chunk(clients)]) if bias else None


def inner(grad, padding):
    """The gradient itself, out of its padded planes."""
    (ph, pw), (h, w) = padding, grad.shape[2:]
    return grad[:, :, ph : h - ph, pw : w - pw]


PLANES = SimpleNamespace(
    takes_planes=lambda *channels: all(n % 16 == 0 for n in channels),
    split=lambda x, padding: SimpleNamespace(values=pad(x, padding), padding=padding),
    convolve=lambda x, *rest, **more: convolve(x.values, *rest, **more),
    weight_gradient=lambda x, grad, *rest, **more: weight_gradient(x, inner(grad.values, grad.padding), *rest, **more),
)
SHALLOW = SimpleNamespace(
    convolve=lambda x, w, b, k, s, d, p: convolve(pad(x, p), w, b, k, s, d),
    weight_gradient=lambda x, g, clients, k, s, d, p, *, bias: weight_gradient(pad(x, p), g, clients, k, s, d, bias=bias),
)
LAYERS = {
    "few channels": nn.Conv2d(2, 16, 3, padding=1),
    "many": nn.Conv2d(16, 32, (3, 2), padding=(1, 0)),
    "dilated, without a bias": nn.Conv2d(16, 16, 3, padding=2, dilation=2, bias=False),
    "one dimension": nn.Conv1d(16, 16, 3, padding=1),
}


def run(module, direct, monkeypatch, *, moves):
    """Outputs, gradient of the input, and weights after a step (or their gradients)."""
    module = module.double()
    monkeypatch.setattr(direct_convolution, "convolutions_for", lambda x: PLANES if direct else None)
    monkeypatch.setattr(direct_convolution, "kernels_for", lambda x, name: SHALLOW)
    draw = torch.Generator().manual_seed(0)
    stacks = {n: torch.randn(CLIENTS, *v.shape, generator=draw, dtype=torch.float64) for n, v in module.state_dict().items()}
    sides = (7,) if isinstance(module, nn.Conv1d) else (6, 7)
    x = torch.randn(CLIENTS * BATCH, module.in_channels, *sides, generator=draw, dtype=torch.float64).requires_grad_(True)
    twin = make_twin(module)
    if moves:
        twin.stack.move, twin.stack.trigger = Move(0.1), torch.zeros((), requires_grad=True)
    else:
        stacks = {n: v.requires_grad_(True) for n, v in stacks.items()}
    twin.load(stacks, CLIENTS)
    out = twin.module.train()(x)
    (out * torch.cos(out.detach())).sum().backward()
    ends = twin.read(list(stacks)) if moves else {n: v.grad for n, v in stacks.items()}
    return [out.detach(), x.grad, *(ends[n].reshape(stacks[n].shape) for n in stacks)]


@pytest.mark.parametrize("moves", [True, False], ids=["moves itself", "by autograd"])
@pytest.mark.parametrize("name", LAYERS)
def test_it_is_the_layer_that_patches_make(name, moves, monkeypatch):
    wanted, found = (run(LAYERS[name], direct, monkeypatch, moves=moves) for direct in (False, True))
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(wanted, found, strict=True))


def test_it_fits_where_there_are_kernels_and_the_way_back_is_a_convolution(monkeypatch):
    x, one = torch.zeros(1, 16, 5, 5), (1, 1)
    assert not direct_form_fits(x, 16, (3, 3), one, one, (1, 1)), "no kernels on a CPU"
    monkeypatch.setattr(direct_convolution, "convolutions_for", lambda x: PLANES)
    assert direct_form_fits(x, 16, (3, 3), one, one, (1, 1))
    assert not direct_form_fits(x, 6, (3, 3), one, one, (1, 1)), "too few output channels"
    assert not direct_form_fits(x, 16, (3, 3), (2, 2), one, (1, 1)), "strided"
    assert not direct_form_fits(x, 16, (3, 3), one, one, (3, 3)), "padded beyond the kernel's reach"
