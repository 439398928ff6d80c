"""Kernels for pooling, for Adam, and for few rows with large weights do what plain torch does. They run where there is CUDA, or in
Triton's interpreter:

TRITON_INTERPRET=1 python -m pytest tests/tasks/test_other_kernels.py
"""

import os

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs CUDA, or TRITON_INTERPRET=1", allow_module_level=True)

from fedfleet.learn.optimisers import adam
from fedfleet.tasks import optimiser_kernels, pooling_kernels, product_kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize(("window", "size"), [((2, 2), (6, 8)), ((2, 2), (7, 9)), ((3, 2), (9, 9))])
def test_pooling_and_its_gradient(window, size):
    x = torch.relu(torch.randn(4, 3, *size, device=DEVICE)).requires_grad_(True)
    out = F.max_pool2d(x, window)
    grad = torch.randn_like(out)
    out.backward(grad)
    mine, best = pooling_kernels.max_pool(x.detach(), window)
    assert torch.equal(mine, out)
    assert torch.equal(pooling_kernels.max_pool_backward(grad, best, size, window), x.grad)


def test_what_is_not_a_number_is_passed_on():
    x = torch.zeros(1, 1, 2, 4, device=DEVICE)
    x[0, 0, 1, 0] = torch.nan
    assert torch.isnan(pooling_kernels.max_pool(x, (2, 2))[0]).tolist() == [[[[True, False]]]]


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("rate", [0.01, torch.tensor([0.1, 0.2, 0.3])], ids=["one rate", "rates of their own"])
def test_steps_of_adam(rate, decay):
    rule = adam(weight_decay=decay, decoupled=True)
    cpu = {"w": torch.randn(3, 5, 7)}
    mine, state = cpu["w"].to(DEVICE), rule.init(cpu)
    moments = torch.zeros_like(mine), torch.zeros_like(mine)
    own = isinstance(rate, torch.Tensor)
    for step in (1, 2, 3):
        grad = torch.randn(3, 5, 7)
        cpu, state = rule.update(cpu, {"w": grad}, state, {"w": rate.reshape(-1, 1, 1) if own else rate})
        mine = optimiser_kernels.adam_step(
            mine, grad.to(DEVICE), moments, rate.to(DEVICE) if own else rate, step, betas=(0.9, 0.999), eps=1e-8, decay=decay
        )
    assert torch.allclose(mine.cpu(), cpu["w"], atol=1e-6)


@pytest.mark.parametrize(("m", "k", "n"), [(16, 70, 130), (5, 33, 64), (20, 64, 40)])
def test_few_rows_with_weights_of_their_own(m, k, n, monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setattr(product_kernels, "precision", lambda: "ieee")
    x, turned, plain = (torch.randn(3, *shape, device=DEVICE) for shape in ((m, k), (n, k), (k, n)))
    for weight in (turned.transpose(1, 2), plain):
        wanted = x.double() @ weight.double()
        assert float((product_kernels.stack_product(x, weight).double() - wanted).norm() / wanted.norm()) < 1e-6


def test_small_products_are_the_libraries():
    x = torch.zeros(2, 16, 1024)
    assert product_kernels.takes(x, torch.zeros(2, 512, 1024).transpose(1, 2))
    assert not product_kernels.takes(x, torch.zeros(2, 16, 1024).transpose(1, 2)), "small weights"
    assert not product_kernels.takes(torch.zeros(2, 64, 1024), torch.zeros(2, 1024, 512)), "many rows"
