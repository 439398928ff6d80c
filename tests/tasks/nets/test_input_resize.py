"""Stretching pictures by products."""

import pytest
import torch

from fedfleet.tasks.nets.input_resize import InputResize, resize_matrix


@pytest.mark.parametrize(("old", "new"), [(8, 32), (7, 20), (5, 5), (1, 4)])
def test_enlarging_is_torchs_own(old, new):
    x = torch.rand(2, 1, old, old)
    wanted = torch.nn.functional.interpolate(x, size=(new, new), mode="bilinear", align_corners=False)
    result = resize_matrix(old, new) @ x @ resize_matrix(old, new).T
    torch.testing.assert_close(result, wanted)


def test_rows_sum_to_one_and_nothing_is_trained():
    assert torch.allclose(resize_matrix(9, 4).sum(1), torch.ones(4))
    fit = InputResize((1, 8, 8), 16, (0.5,) * 3, (0.5,) * 3)
    assert not fit.state_dict() and not list(fit.parameters())
