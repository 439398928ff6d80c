"""A GPU that is not here is refused."""

import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.executors.hardware import require_cuda


def test_cuda_must_be_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_cuda()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput, match="there is no CUDA device here; use cpu"):
        require_cuda()
