"""Values from the command line."""

import math

import pytest

from fedfleet.app.terminal.choices import one_of, positive, share
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
