"""The compiled recurrence comes to what the one step by step comes to, also where units do not fill vectors."""

import pytest
import torch

from fedfleet.executors.stacked import products
from fedfleet.executors.stacked.compiled_lstm import CompiledRecurrence, recurrence_for
from fedfleet.executors.stacked.lstm import _Recurrence

pytestmark = pytest.mark.skipif(products._kernel() is None, reason="this processor has no vectors of 512 bits, or numba is missing")
SIZES = [(3, 8, 9, 16, 64), (2, 5, 4, 7, 37), (2, 1, 1, 3, 20), (1, 11, 5, 1, 16)]  # clients, batch, steps, inputs, hidden


def weights(c, n, h):
    draw = torch.Generator().manual_seed(0)
    return [0.3 * torch.randn(c, *shape, generator=draw) for shape in ((4 * h, n), (4 * h, h), (4 * h,), (4 * h,))]


def outcome(recurrence, x, leaves, dtype=torch.float32):
    """Outputs, and all gradients, of a sum in which every output has a weight of its own."""
    shared = [v.stride(0) == 0 for v in leaves]
    inputs = [x, *(v[:1] if s else v for v, s in zip(leaves, shared, strict=True))]
    inputs = [v.detach().to(dtype).requires_grad_() for v in inputs]
    own = [v.expand(len(x), *v.shape[1:]) if s else v for v, s in zip(inputs[1:], shared, strict=True)]
    outputs = recurrence.apply(inputs[0], *own)
    total = sum((out * torch.cos(torch.arange(out.numel(), dtype=dtype)).reshape(out.shape)).sum() for out in outputs)
    return [v.detach() for v in outputs], torch.autograd.grad(total, inputs)


def assert_alike(mine, truth):
    for a, b in zip((*mine[0], *mine[1]), (*truth[0], *truth[1]), strict=True):
        assert torch.allclose(a.double(), b, atol=2e-6 * float(b.abs().max()) + 1e-12)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_outputs_and_gradients_are_those_of_the_recurrence(size):
    c, b, t, n, h = size
    x = torch.randn(c, b, t, n, generator=torch.Generator().manual_seed(1))
    leaves = weights(c, n, h)
    assert_alike(outcome(CompiledRecurrence, x, leaves), outcome(_Recurrence, x, leaves, torch.float64))


def test_weights_that_all_share_may_stand_beside_biases_that_they_do_not():
    c, b, t, n, h = SIZES[0]
    x = torch.randn(c, b, t, n, generator=torch.Generator().manual_seed(1))
    own = weights(c, n, h)
    leaves = [own[0][:1].expand(c, -1, -1), own[1][:1].expand(c, -1, -1), *own[2:]]
    assert_alike(outcome(CompiledRecurrence, x, leaves), outcome(_Recurrence, x, leaves, torch.float64))


def test_a_client_alone_has_the_bits_that_it_has_among_others():
    c, b, t, n, h = SIZES[0]
    x, leaves = torch.randn(c, b, t, n), weights(c, n, h)
    together = CompiledRecurrence.apply(x, *leaves)[0]
    alone = [CompiledRecurrence.apply(x[i : i + 1], *(v[i : i + 1] for v in leaves))[0][0] for i in range(c)]
    assert all(map(torch.equal, together, alone))


def test_one_clients_nan_stays_its_own_and_stays_nan():
    c, b, t, n, h = SIZES[0]
    x, leaves = torch.randn(c, b, t, n), weights(c, n, h)
    x[1, 2, 3, 4] = torch.nan
    finite = CompiledRecurrence.apply(x, *leaves)[0].isfinite().all(3)
    assert not finite[1, 2, 3:].any()
    assert finite.sum() == c * b * t - (t - 3)


def test_its_backward_pass_runs_once():
    c, b, t, n, h = SIZES[1]
    x = torch.randn(c, b, t, n, requires_grad=True)
    total = CompiledRecurrence.apply(x, *weights(c, n, h))[0].sum()
    total.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="goes through its backward pass once"):
        total.backward()


def test_short_sequences_and_double_precision_stay_with_torch():
    assert recurrence_for(torch.zeros(20, 8, 32, 16), torch.zeros(20, 256, 64)) is not None
    assert recurrence_for(torch.zeros(900, 4, 4, 5), torch.zeros(900, 24, 6)) is None
    assert recurrence_for(torch.zeros(20, 8, 32, 16, dtype=torch.float64), torch.zeros(20, 256, 64, dtype=torch.float64)) is None
