"""Convolutions of many clients in kernels, against double precision. Planes need CUDA: an interpreter knows no bfloat16."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch")
if not torch.cuda.is_available():
    pytest.skip("needs CUDA", allow_module_level=True)

from types import SimpleNamespace

from fedfleet.executors.stacked.direct_convolution import DirectForm, DirectProduct, direct_form_fits
from fedfleet.tasks import convolution_kernels, shallow_convolution_kernels

SHAPES = [  # clients, samples, in, height, width, out, kernel, padding, dilation
    (3, 2, 16, 7, 6, 16, (3, 3), (1, 1), (1, 1)),
    (2, 16, 32, 14, 14, 64, (5, 5), (2, 2), (1, 1)),
    (5, 4, 48, 9, 9, 80, (3, 2), (0, 1), (1, 1)),
    (2, 1, 16, 9, 9, 32, (3, 3), (1, 1), (2, 2)),
    (2, 6, 1, 28, 28, 32, (5, 5), (2, 2), (1, 1)),
    (2, 5, 3, 1, 30, 16, (1, 3), (0, 1), (1, 1)),
]


@pytest.fixture(params=[False, True], ids=["fp32", "tf32"])
def tolerance(request):
    """How far results may lie from double precision, with PyTorch set to one of its precisions."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = request.param
    yield 4e-5 if request.param else 5e-7
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_outputs_and_gradients_are_those_of_double_precision(shape, tolerance):
    clients, samples, c, h, w, o, kernel, padding, dilation = shape
    torch.manual_seed(0)
    x = torch.randn(clients * samples, c, h, w, device="cuda")
    weight, bias = torch.randn(clients, o, c * kernel[0] * kernel[1], device="cuda"), torch.randn(clients, o, device="cuda")
    exact = [v.double().requires_grad_(True) for v in (x, weight, bias)]
    parts = zip(exact[0].chunk(clients), exact[1], exact[2], strict=True)
    wanted = torch.cat([F.conv2d(p, v.reshape(o, c, *kernel), b, 1, padding, dilation) for p, v, b in parts])
    mine = [v.requires_grad_(True) for v in (x, weight, bias)]
    conv = SimpleNamespace(stack=SimpleNamespace(clients=clients), kernel=kernel, stride=(1, 1), dilation=dilation, padding=padding)
    assert direct_form_fits(x, o, kernel, (1, 1), dilation, padding)
    out = DirectProduct.apply(*mine, DirectForm(conv))
    grad = torch.randn_like(out)
    out.backward(grad)
    wanted.backward(grad.double())
    for a, b in ((out, wanted), *((m.grad, e.grad) for m, e in zip(mine, exact, strict=True))):
        assert float((a.double() - b).norm() / b.norm()) < tolerance


def test_sums_are_cut_so_that_a_gpu_is_busy_and_come_out_whole():
    assert convolution_kernels.cut(16, 10_000) == 1
    assert convolution_kernels.cut(16, 1) == 16
    assert 10 % convolution_kernels.cut(10, 150) == 0
    parts = torch.randn(2, 3, 4, device="cuda")
    assert torch.equal(convolution_kernels.add_parts(parts), parts.sum(1))
    assert shallow_convolution_kernels.precision() in ("bf16x3", "bf16x6")
