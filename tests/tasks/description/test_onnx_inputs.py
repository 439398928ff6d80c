"""What a node is given: settings by input or by attribute, and what a description cannot say is refused."""

import numpy as np
import pytest

from fedfleet.tasks.description.onnx_import import Fixed, Untrainable
from fedfleet.tasks.description.onnx_inputs import check_attributes, fixed_integers, fixed_number, needed_input
from tests.tasks.description.onnx_nodes import importer_for, node


def test_attributes_may_be_absent_or_as_expected():
    check_attributes(node("Gemm"), alpha=1.0)
    check_attributes(node("Gemm", alpha=1.0), alpha=1.0)
    with pytest.raises(Untrainable, match=r"with alpha = 2\.0"):
        check_attributes(node("Gemm", alpha=2.0), alpha=1.0)


def test_an_input_that_is_needed_is_there():
    assert needed_input(node("Relu", 3), 0) == 3
    for absent in (node("Relu"), node("Relu", None)):
        with pytest.raises(Untrainable, match="without an input that it needs"):
            needed_input(absent, 0)


def test_integers_are_an_input_a_tensor_of_the_file_or_an_attribute():
    importer = importer_for(4, axes=np.array([2, 0]))
    for given in (node("Squeeze", 0, np.array([2, 0])), node("Squeeze", 0, "axes"), node("Squeeze", 0, None, axes=[2, 0])):
        assert fixed_integers(importer, given, 1, "axes") == [2, 0]
    assert fixed_integers(importer, node("Squeeze", 0), 1, "axes") is None
    with pytest.raises(Untrainable, match="depends on the samples"):
        fixed_integers(importer, node("Squeeze", 0, 0), 1, "axes")
    with pytest.raises(Untrainable, match="depends on the batch"):
        fixed_integers(importer, node("Squeeze", 0, Fixed((np.array(2), np.array(3)))), 1, "axes")


def test_a_number_is_one_that_no_training_changes():
    importer = importer_for(4, half=np.array([0.5]), many=np.ones(3))
    assert fixed_number(importer, "half") == 0.5
    assert fixed_number(importer, Fixed((np.array(2), np.array(2)))) == 2.0
    assert [fixed_number(importer, v) for v in ("many", 0, None)] == [None] * 3
