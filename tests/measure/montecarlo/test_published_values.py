"""Published fleets, and where a fleet lies among them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.measure.montecarlo.published_values import PUBLISHED, fair_work, ideal_fair_work, placement_text


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
    ranks = [next(i for i, said in enumerate(order) if placement_text(name, share).startswith(said)) for share in sorted((a, b))]
    assert ranks[0] <= ranks[1]


def test_both_together_is_harder_than_either_in_every_word():
    for i in range(3):
        assert PUBLISHED["InterMC-R"][i].share < min(PUBLISHED["DevMC-R"][i].share, PUBLISHED["StatMC-R"][i].share)


@pytest.mark.parametrize(("k", "rounds", "clients"), [(1, 1, 7), (4, 9, 10), (10, 77, 100), (3, 400, 5)])
def test_an_ideal_fleet_is_as_fair_as_chance(k, rounds, clients):
    rng = np.random.default_rng(0)
    mean = k * rounds / clients
    drawn = np.minimum(rng.binomial(rounds, k / clients, 40_000), mean).mean() / mean
    assert ideal_fair_work(k, rounds, clients) == pytest.approx(drawn, abs=0.01)


def test_more_rounds_are_fairer_and_the_normal_law_goes_on_where_sums_end():
    result = [ideal_fair_work(10, rounds, 100) for rounds in (1, 10, 100, 1000, 100_000, 100_001)]
    assert result[:5] == sorted(result[:5]) and result[5] == pytest.approx(result[4], abs=1e-6) and result[5] < 1
    assert ideal_fair_work(5, 3, 5) == 1.0


def test_the_page_has_the_same_figures():
    said = (Path(__file__).parents[3] / "docs/how-to/fleets.md").read_text()
    for name, known in PUBLISHED.items():
        metrics = ", ".join(f"{p.metric:g}".removeprefix("0") for p in known)
        row = next(line for line in said.splitlines() if f"({name} {metrics}" in line)
        assert row.endswith("".join(f" {100 * p.share:.1f} % |" for p in known))
    assert f"{100 * ideal_fair_work(10, 77, 100):.0f} % in 77 rounds with 10 of" in said
