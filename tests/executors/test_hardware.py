"""A GPU that is not here is refused; what computes has a name."""

import platform

import pytest
import torch

from fedfleet.core.errors import BadInput
from fedfleet.executors.hardware import hardware_name, keep_large_blocks, require_cuda


def test_cuda_must_be_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_cuda()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput, match="there is no CUDA device here; use cpu"):
        require_cuda()


def test_a_processor_has_a_name_and_an_absent_accelerator_none():
    assert hardware_name("cpu") == hardware_name("cpu") and " " in hardware_name("cpu")
    assert (hardware_name("cuda") == "none") == (not torch.cuda.is_available())


def test_glibc_can_be_told_and_others_just_go_on():
    assert keep_large_blocks() is (platform.libc_ver()[0] == "glibc")
    assert keep_large_blocks() == keep_large_blocks()
