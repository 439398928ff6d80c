"""Own kernels are for CUDA tensors with Triton; everything else gets plain torch."""

import sys

import pytest
import torch

from fedfleet.tasks import kernel_choice


def test_tensors_of_the_cpu_have_no_kernels():
    assert kernel_choice.kernels_for(torch.zeros(1)) is None


def test_without_triton_there_are_no_kernels(monkeypatch):
    monkeypatch.setitem(sys.modules, "fedfleet.tasks.kernels", None)  # what an import that fails looks like
    monkeypatch.delattr("fedfleet.tasks.kernels", raising=False)  # where Triton is there, another test has imported it
    kernel_choice._kernels.cache_clear()
    assert kernel_choice._kernels("kernels") is None
    kernel_choice._kernels.cache_clear()


def test_with_triton_the_kernels_are_found():
    pytest.importorskip("triton", reason="Triton comes with CUDA builds of torch")
    result = kernel_choice._kernels("kernels")
    assert result is not None and callable(result.apply_dropout)


def test_numbers_are_split_only_on_a_gpu_that_has_units_for_it():
    assert kernel_choice.convolutions_for(torch.zeros(1)) is None
    assert not kernel_choice.splits_numbers(torch.zeros(1)) and not kernel_choice.splits_numbers(torch.zeros(1).double())
