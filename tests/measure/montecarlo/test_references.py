"""Published fleets, and where a fleet lies among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.measure.montecarlo.references import PUBLISHED, fair_work, placed


@given(st.floats(0, 1), st.floats(10, 1e6))
def test_fair_work_undoes_the_logarithm(share, ideal):
    metric = np.log1p(share * ideal) / np.log1p(ideal)
    assert fair_work(float(metric), ideal) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_fleets_lie_from_severe_to_mild(name):
    shares = [p.share for p in PUBLISHED[name]]
    assert [p.word for p in PUBLISHED[name]] == ["severe", "moderate", "mild"]
    assert 0 < shares[0] < shares[1] < shares[2] < 1


@given(st.sampled_from(sorted(PUBLISHED)), st.floats(0, 1), st.floats(0, 1))
def test_more_fair_work_is_never_called_more_severe(name, a, b):
    order = ["more severe", "between their severe", "between their moderate", "milder"]
    ranks = [
        next(i for i, said in enumerate(order) if placed(name, share).startswith(said)) for share in sorted((a, b))
    ]
    assert ranks[0] <= ranks[1]


def test_both_together_is_harder_than_either_in_every_word():
    for i in range(3):
        assert PUBLISHED["InterMC-R"][i].share < min(PUBLISHED["DevMC-R"][i].share, PUBLISHED["StatMC-R"][i].share)
