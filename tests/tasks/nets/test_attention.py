"""Transformers: tokens, positions, attention."""

import pytest
import torch

from fedfleet.tasks.nets.attention import ClassToken, Positions


@pytest.fixture(autouse=True)
def _one_thread():
    """Small batches gain nothing from threads, and lose much where other tests use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_tokens_and_positions():
    x = torch.randn(2, 4, 6)
    token, positions = ClassToken(6), Positions(5, 6)
    with torch.no_grad():
        out = positions(token(x))
        assert torch.allclose(out[:, 1:], x + positions.table[1:])
        assert torch.allclose(out[0, 0], token.token + positions.table[0])
