"""All twenty severe fleets under all five pacings with default keys: none ends silently without a model."""

import pytest

from benchmarks.severe_fleets import PACINGS, walk


@pytest.mark.parametrize("fleet", range(20))
@pytest.mark.parametrize("pacing", PACINGS)
def test_it_learns_or_says_what_to_do(fleet, pacing):
    result = walk(fleet, pacing)
    assert result.says_what_to_do, result
