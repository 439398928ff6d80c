"""Number types with limits: what a builder's signature lets through."""

import pytest
from pydantic import TypeAdapter, ValidationError

from fedfleet.core.limits import Count, Fraction, Natural, NonNegative, Positive, Share

CASES = {
    "Positive": (Positive, (1e-9, 7.0), (0.0, -1.0)),
    "NonNegative": (NonNegative, (0.0, 7.0), (-1e-9,)),
    "Share": (Share, (0.1, 1.0), (0.0, 1.1)),
    "Fraction": (Fraction, (0.0, 1.0), (-0.1, 1.1)),
    "Count": (Count, (1, 9), (0, -1, 1.5)),
    "Natural": (Natural, (0, 9), (-1, 0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_limits_are_where_the_names_say(name):
    kind, fine, wrong = CASES[name]
    check = TypeAdapter(kind)
    assert [check.validate_python(value) for value in fine] == list(fine)
    for value in wrong:
        with pytest.raises(ValidationError):
            check.validate_python(value)
