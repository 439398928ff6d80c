"""The name of what computes."""

from fedfleet.executors.processor_name import hardware_name


def test_a_processor_has_a_name_and_an_absent_accelerator_none():
    import torch

    assert hardware_name("cpu") == hardware_name("cpu") and " " in hardware_name("cpu")
    assert (hardware_name("cuda") == "none") == (not torch.cuda.is_available())
