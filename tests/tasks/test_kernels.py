"""The kernels for accelerators do what plain torch does. They run where there is CUDA, or in Triton's interpreter:

TRITON_INTERPRET=1 python -m pytest tests/tasks/test_kernels.py
"""

import os

import pytest
import torch

pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("needs CUDA, or TRITON_INTERPRET=1", allow_module_level=True)

from fedfleet.executors.stacked import device_sums, layers
from fedfleet.tasks import dropout, kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHAPES = [
    ((3, 3), (1, 1), (1, 1), (0, 0)),
    ((5, 5), (1, 1), (1, 1), (2, 2)),
    ((1, 3), (1, 2), (1, 1), (0, 1)),
    ((3, 3), (2, 2), (2, 1), (1, 0)),
]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize(("kernel", "stride", "dilation", "padding"), SHAPES)
def test_patches_and_their_transpose(kernel, stride, dilation, padding):
    x = torch.randn(3, 2, 9 if kernel[0] > 1 else 1, 11, device=DEVICE)
    wanted = layers.gather_patches(x, kernel, stride, dilation, padding)
    assert torch.equal(wanted, kernels.gather_patches(x, kernel, stride, dilation, padding))
    grad = torch.randn_like(wanted)
    folded = torch.nn.functional.fold(grad, x.shape[2:], kernel, dilation, padding, stride)
    mine = kernels.scatter_patches(grad, tuple(x.shape[2:]), kernel, stride, dilation, padding)
    torch.testing.assert_close(mine, folded, rtol=1e-6, atol=1e-6)


def test_masks_are_the_same_everywhere():
    x, address = torch.randn(6, 700, device=DEVICE), torch.randint(-(2**60), 2**60, (3,), device=DEVICE)
    elements = dropout._element_hashes(1400, x.device)
    wanted = dropout.apply_dropout(x, address, elements, 12345, 0.25)
    assert torch.equal(wanted, kernels.apply_dropout(x, address, 12345, 0.25))
    assert 0.2 < float((wanted == 0).float().mean()) < 0.3


@pytest.mark.parametrize("begun", [True, False], ids=["from a start", "from nothing"])
def test_the_exact_sum_is_the_same_integer_and_nan_stays_out(begun):
    end = torch.randn(4, 5, 700, device=DEVICE)
    start = torch.randn(5, 700, device=DEVICE).unsqueeze(0).expand(4, 5, 700) if begun else None
    end[2, 1, 1] = float("nan")
    change = end - start if begun else end
    peaks, squares = kernels.peaks_and_squares(end, start)
    assert peaks.isinf().tolist() == [False, False, True, False]
    torch.testing.assert_close(peaks[0], change[0].abs().max())
    torch.testing.assert_close(squares[0], change[0].double().square().sum(), rtol=1e-6, atol=0.0)
    factor = torch.tensor([3.0, 1 / 3, 0.0, -5.0], dtype=torch.float64, device=DEVICE) * 2.0**40
    mine = torch.zeros(3500, dtype=torch.int64, device=DEVICE)
    kernels.add_exactly(mine, end, start, factor)
    wanted = torch.zeros(3500, dtype=torch.int64)
    device_sums.add_exactly(wanted, end.cpu(), None if start is None else start.cpu(), factor.cpu())
    assert torch.equal(mine.cpu(), wanted)
