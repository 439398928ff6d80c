"""Kinds of tasks: names, measures and which of them are better when lower."""

import pytest

from fedfleet.core.kinds import KIND_NAMES, KINDS, LOWEST, UNIT


def test_every_kind_has_a_record_under_its_name():
    assert tuple(KINDS) == KIND_NAMES
    assert all(kind.name == name for name, kind in KINDS.items())


@pytest.mark.parametrize("name", KIND_NAMES)
def test_what_is_better_when_lower_is_a_measure_of_the_kind(name):
    kind = KINDS[name]
    assert set(kind.lower) <= set(kind.measures)
    assert kind.score not in kind.measures


def test_a_sum_of_the_lowest_scores_fits_64_bits_for_a_billion_samples():
    assert LOWEST == -1000 * UNIT
    assert abs(LOWEST) * 10**9 < 2**63
