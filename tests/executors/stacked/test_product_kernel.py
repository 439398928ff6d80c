"""The compiled product: every number of rows, columns and steps of the sum, and nothing written beside them."""

import pytest
import torch

from fedfleet.executors.stacked import products

kernel = products._kernel()
pytestmark = pytest.mark.skipif(kernel is None, reason="this processor has no vectors of 512 bits, or numba is missing")


def multiply(a, b, out, init=None, alpha=1.0):
    start = (0, 0, 0) if init is None else (init.data_ptr(), *init.stride()[:2])
    c, m, k = a.shape
    n = b.shape[2]
    kernel.multiply(
        c, m, n, k, a.data_ptr(), *a.stride(), b.data_ptr(), b.stride(0), 32, b.stride(1), out.data_ptr(), *out.stride()[:2],
        *start, alpha,
    )  # fmt: skip


@pytest.mark.parametrize("rows", [*range(1, 27), 97])
@pytest.mark.parametrize("columns", [1, 16, 17, 32, 45])
def test_every_size_is_the_product_and_nothing_is_written_beside_it(rows, columns):
    draw = torch.Generator().manual_seed(rows)
    a, b = torch.randn(2, rows, 5, generator=draw), torch.randn(2, 5, columns, generator=draw)
    room = torch.full((2, rows + 2, columns + 7), 3.0)
    multiply(a, b, room[:, 1:-1, 2 : 2 + columns])
    wanted = torch.full((2, rows + 2, columns + 7), 3.0, dtype=torch.float64)
    wanted[:, 1:-1, 2 : 2 + columns] = torch.bmm(a.double(), b.double())
    assert torch.allclose(room.double(), wanted, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 255, 256, 257, 600])
@pytest.mark.parametrize("starts", [False, True], ids=["fresh", "added"])
def test_long_sums_are_made_in_spans(steps, starts):
    draw = torch.Generator().manual_seed(steps)
    a, b = torch.randn(2, 9, steps, generator=draw), torch.randn(2, steps, 40, generator=draw)
    out, init = torch.empty(2, 9, 40), torch.randn(2, 9, 40, generator=draw) if starts else None
    multiply(a, b, out, init, alpha=0.5)
    wanted = 0.5 * torch.bmm(a.double(), b.double()) + (0.0 if init is None else init.double())
    assert torch.allclose(out.double(), wanted, atol=1e-4)


@pytest.mark.parametrize("columns", [3, 32, 70])
def test_panels_hold_every_number(columns):
    b = torch.randn(2, columns, 6).transpose(1, 2)
    panels = torch.zeros(2, -(-columns // 32), 6, 32)
    kernel.pack(panels.numpy(), b.numpy())
    whole = panels.transpose(1, 2).flatten(2)
    assert torch.equal(whole[:, :, :columns], b)
    assert not whole[:, :, columns:].any()
