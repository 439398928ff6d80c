"""What no training changes is computed as ONNX says, with the types that ONNX gives it."""

import numpy as np
import pytest

from fedfleet.tasks.description.onnx_constants import FOLDED

INTEGERS = np.array([7, 4, 9])
FLOATS = np.array([1.0, 4.0, 9.0], np.float32)
GRID = np.arange(24).reshape(2, 3, 4)

CASES = [
    ("ConstantOfShape", [np.array([2, 1])], {}, np.zeros((2, 1), np.float32)),
    ("ConstantOfShape", [np.array([3])], {"value": np.array([5])}, np.array([5, 5, 5])),
    ("Gather", [GRID, np.array([2, 0])], {"axis": 1}, GRID[:, [2, 0]]),
    ("Gather", [INTEGERS, np.array(-1)], {}, np.array(9)),
    ("Concat", [np.array(2), INTEGERS], {"axis": 0}, np.array([2, 7, 4, 9])),
    ("Unsqueeze", [INTEGERS, np.array([0, 2])], {}, INTEGERS[None, :, None]),
    ("Unsqueeze", [INTEGERS], {"axes": [1]}, INTEGERS[:, None]),
    ("Squeeze", [INTEGERS[None], np.array([0])], {}, INTEGERS),
    ("Slice", [GRID, np.array([1]), np.array([3])], {}, GRID[1:3]),
    ("Slice", [GRID, np.array([-1]), np.array([-5]), np.array([2]), np.array([-1])], {}, GRID[:, :, ::-1]),
    ("Slice", [GRID, np.array([0]), np.array([3]), None, np.array([2])], {}, GRID[0:3:2]),
    ("Div", [INTEGERS, np.array(2)], {}, np.array([3, 2, 4])),
    ("Div", [FLOATS, np.float32(2)], {}, FLOATS / 2),
    ("Sub", [INTEGERS, np.array(4)], {}, np.array([3, 0, 5])),
    ("Mod", [INTEGERS, np.array(4)], {}, np.array([3, 0, 1])),
    ("Neg", [INTEGERS], {}, -INTEGERS),
    ("Sqrt", [FLOATS], {}, np.array([1.0, 2.0, 3.0], np.float32)),
    ("Cast", [FLOATS], {"to": 7}, np.array([1, 4, 9])),
    ("Cast", [np.array([0, 2])], {"to": 9}, np.array([False, True])),
    ("Range", [np.array(1), np.array(8), np.array(3)], {}, np.array([1, 4, 7])),
    ("Where", [INTEGERS > 5, INTEGERS, np.array(0)], {}, np.array([7, 0, 9])),
    ("Equal", [INTEGERS, np.array(4)], {}, np.array([False, True, False])),
    ("Expand", [INTEGERS, np.array([2, 1])], {}, np.array([[7, 4, 9]] * 2)),
    ("Reshape", [GRID, np.array([4, -1])], {}, GRID.reshape(4, 6)),
    ("ReduceProd", [INTEGERS], {}, np.array(252)),
]


@pytest.mark.parametrize(("operator", "inputs", "attributes", "expected"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_it_is_computed_as_onnx_says(operator, inputs, attributes, expected):
    found = np.asarray(FOLDED[operator](inputs, attributes))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape
