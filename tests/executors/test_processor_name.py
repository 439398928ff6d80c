"""The name of what computes."""

from fedfleet.executors.processor_name import processor


def test_a_processor_has_a_name_and_an_absent_accelerator_none():
    import torch

    assert processor("cpu") == processor("cpu") and " " in processor("cpu")
    assert (processor("cuda") == "none") == (not torch.cuda.is_available())
