"""Columns in a journal row come back to the last bit; notes that programs read are found, in the words of earlier versions too."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.store.row_text import decode_columns, devices_note, encode_columns, evaluated_by_devices


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(allow_nan=True, width=64), min_size=1, max_size=6))
def test_columns_come_back(values):
    column = np.array(values, np.float64)
    back = decode_columns(json.loads(json.dumps(encode_columns({"a": column, "none": np.zeros(len(values))}))), len(values))
    assert "none" not in back
    result = back.get("a", np.zeros(len(values)))
    assert np.array_equal(result, column, equal_nan=True)


def test_columns_of_another_length_are_refused():
    with pytest.raises(ValueError, match="'a' has 2 entries, not 3"):
        decode_columns(encode_columns({"a": np.array([1.0, 2.0])}), 3)


def test_versions_that_devices_evaluated_are_found():
    notes = [
        devices_note("evaluated", 12, 1, 4, 1, 2),
        devices_note("probed", 13, 1, 4, 1, 2),
        "version 7 was judged by 2 of 6 devices: 0 declined, 4 were silent",
        "patience ended",
    ]
    assert evaluated_by_devices(notes) == {12, 7}
