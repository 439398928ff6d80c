"""Pooling for all clients at once: what PyTorch's does, where windows stand side by side; elsewhere PyTorch's own."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from fedfleet.executors.stacked import max_pool as module
from fedfleet.executors.stacked.max_pool import WindowPooling, plain_window


def max_pool(x, window):
    """The kernel's work in plain torch."""
    out, index = F.max_pool2d(x, window, return_indices=True)
    width = x.shape[-1]
    row, column = index // width % window[0], index % width % window[1]
    return out, (row * window[1] + column).to(torch.int8)


def max_pool_backward(grad, best, size, window):
    (h, w), (kh, kw) = size, window
    out = torch.zeros(*grad.shape[:-2], h, w)
    for tap in range(kh * kw):
        out[..., tap // kw : grad.shape[-2] * kh : kh, tap % kw : grad.shape[-1] * kw : kw] = torch.where(best == tap, grad, 0.0)
    return out


@pytest.fixture
def kernels(monkeypatch):
    """Kernels that count how often they are asked."""
    calls = []
    forward = lambda x, window: (calls.append(window), max_pool(x, window))[1]  # noqa: E731
    fake = SimpleNamespace(max_pool=forward, max_pool_backward=max_pool_backward)
    monkeypatch.setattr(module, "kernels_for", lambda x, name: fake)
    return calls


POOLS = {"call": lambda x: F.max_pool2d(x, 2), "module": torch.nn.MaxPool2d((3, 2)), "torch": lambda x: torch.max_pool2d(x, 2)}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("size", [(6, 8), (7, 9)])
def test_windows_side_by_side_give_the_same_values_and_gradients(pool, size, kernels):
    x = torch.relu(torch.randn(4, 3, *size, generator=torch.Generator().manual_seed(0)))  # with ties: the first of them counts
    ends = []
    for mine in (False, True):
        leaf = x.clone().requires_grad_(True)
        if mine:
            with WindowPooling():
                out = pool(leaf)
        else:
            out = pool(leaf)
        (out * torch.cos(out.detach())).sum().backward()
        ends.append((out.detach(), leaf.grad))
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))
    assert len(kernels) == 1


@pytest.mark.parametrize(
    "given",
    [{"stride": 1}, {"padding": 1}, {"dilation": 2}, {"ceil_mode": True}, {"return_indices": True}, {"kernel_size": 9}],
    ids=lambda given: next(iter(given)),
)
def test_other_pooling_is_pytorchs(given, kernels):
    x = torch.randn(2, 1, 8, 8)
    asked = {"kernel_size": 2, **given}
    if asked["kernel_size"] < 8:
        with WindowPooling():
            F.max_pool2d(x, **asked)
    assert plain_window(x, **asked) is None and not kernels


def test_without_kernels_nothing_changes():
    assert plain_window(torch.randn(1, 1, 4, 4), 2) is None
