"""Cells of text that no spreadsheet takes for a formula, and that come back as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.core.csv_cells import guard_cell, unguard_cell

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
texts = st.text(st.sampled_from("'=+-@\t\r\n19.eE a"), max_size=8) | st.text(max_size=20)


@given(texts)
def test_every_text_comes_back(text):
    assert unguard_cell(str(guard_cell(text))) == text


@given(texts)
def test_no_cell_begins_a_formula_unless_it_is_a_number(text):
    cell = str(guard_cell(text))
    if cell.startswith(FORMULAS):
        assert float(cell) == float(text)


@pytest.mark.parametrize("value", [-1.5, 0, None, "-1.5", "+3", "-2e-05", "-inf", "phone", "a=b", ""])
def test_numbers_and_plain_words_stay(value):
    assert guard_cell(value) is value
