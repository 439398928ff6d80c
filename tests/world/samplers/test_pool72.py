"""FS-REAL's pool: 72 configurations in order, drawn by its distributions."""

import numpy as np
import pytest
from scipy import stats

from fedfleet.core.records import Cost
from fedfleet.core.rng import client_keys
from fedfleet.world.samplers.pool72 import BETA_BINOMIAL, SIZE, allocate, beta_binomial, configurations, pool72, shares


def test_the_pool_has_72_configurations_in_order():
    table = configurations()
    assert len(table) == SIZE == 72
    assert len(set(table.ids)) == 72
    assert table.ids[0] == "c1-b0-d0-m256"
    assert table.ids[-1] == "c4-b2-d2-m1024"
    assert table.latency.max() == 0.4, "delays are milliseconds"
    assert table.seconds_per_sample[-1] == table.seconds_per_sample[0] / 4
    assert set(np.unique(table.up)) == {58_000.0, 75_000.0, 340_000.0}


@pytest.mark.parametrize("name", ["homo", "uniform", "near_normal", "strong_heavy", "double_tails"])
def test_the_pool_follows_its_distributions(name):
    n = 40_000
    counts = np.bincount(allocate(name, client_keys(n), 7), minlength=72)
    if name in BETA_BINOMIAL:
        assert np.allclose(shares(name), stats.betabinom(71, *BETA_BINOMIAL[name]).pmf(np.arange(72)))
    hoped = shares(name) * n
    assert counts[hoped == 0].sum() == 0
    often = hoped >= 5
    seen, want = np.append(counts[often], counts[~often].sum()), np.append(hoped[often], hoped[~often].sum())
    kept = want > 0
    if kept.sum() > 1:
        assert stats.chisquare(seen[kept], want[kept]).pvalue > 1e-3
    assert beta_binomial(10, 10).sum() == pytest.approx(1.0)


def test_the_pool_reallocates_and_loses_what_does_not_fit():
    keys, cost = client_keys(200), Cost(np.ones(200), np.full(200, 1e6), np.full(200, 1e6))
    everyone = np.arange(200)
    source = pool72()(keys, 1)
    first, second = (source.seconds(everyone, cost, 0.0, np.full(200, t)) for t in (1, 2))
    assert (first != second).mean() > 0.5
    fixed = pool72(reallocate=False, distribution="uniform", peak_memory_mb=512)(keys, 1)
    took = fixed.seconds(everyone, cost, 0.0, everyone)
    small = np.array(["m256" in kind for kind in fixed.kinds])
    assert np.isinf(took[small]).all()
    assert np.isfinite(took[~small]).all()
