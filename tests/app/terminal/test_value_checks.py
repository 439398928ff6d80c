"""Values from the command line."""

import math

import numpy as np
import pytest

from fedfleet.app.terminal.value_checks import number, one_of, positive, positive_int, share
from fedfleet.core.errors import BadInput


def test_good_values_pass():
    assert one_of("--form", "loop", ("loop", "merged")) == "loop"
    assert positive("--deadline", 0.5) == 0.5
    assert share("--ready-share", 1.0) == 1.0


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_what_is_not_positive_is_refused(value):
    with pytest.raises(BadInput, match=r"--deadline .* must be positive and finite"):
        positive("--deadline", value)


@pytest.mark.parametrize("value", [0.0, 1.01, math.nan])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(BadInput, match=r"--ready-share .* at most 1"):
        share("--ready-share", value)


def test_an_unknown_word_hears_the_nearest():
    with pytest.raises(BadInput, match="--form 'looop' is not known; did you mean 'loop'"):
        one_of("--form", "looop", ("loop", "merged"))


@pytest.mark.parametrize("odd", [0, -1, 2.5, "3", True, None, 11])
def test_what_is_no_count_is_refused(odd):
    with pytest.raises(BadInput, match=r"--n = .*: give a whole number from 1 to 10"):
        positive_int("--n", odd, 10)


def test_numpys_numbers_are_numbers():
    assert positive_int("--n", np.int64(3)) == 3 and number("--n", np.float32(0.5)) == 0.5
    for odd in ("x", True, None, [1]):
        with pytest.raises(BadInput, match="is not a number"):
            number("--n", odd)
