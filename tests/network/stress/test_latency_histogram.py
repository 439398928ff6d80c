import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.network.stress.latency_histogram import Latency, merge

SECONDS = st.lists(st.floats(2e-5, 50.0), min_size=1, max_size=60)


@given(SECONDS, st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_right_within_a_bin(seconds, share):
    seen = Latency()
    for s in seconds:
        seen.add(s)
    exact = float(np.quantile(seconds, share, method="inverted_cdf"))
    assert seen.quantile(share) == pytest.approx(exact, rel=0.05)


@given(st.lists(SECONDS, min_size=1, max_size=4))
def test_processes_add_up(parts):
    whole, each = Latency(), []
    for part in parts:
        own = Latency()
        for s in part:
            whole.add(s)
            own.add(s)
        each.append(own.to_json())
    assert merge(each).bins == whole.bins


def test_nothing_has_no_quantile():
    assert Latency().quantile(0.5) == 0.0
    assert merge([]).count() == 0
