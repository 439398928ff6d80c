"""The samplers: the published numbers in released semantics, the theorems in paper semantics, the pool's distributions."""

import numpy as np
import pytest
from scipy import stats

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import StateTable, client_ids, device_table, mean_kbps
from fedfleet.core.records import Cost
from fedfleet.core.rng import client_keys, normals
from fedfleet.world.bases import load_devices
from fedfleet.world.devices import dpgmm, homogeneous, levelled, spread
from fedfleet.world.dynamics import coefficient, mobile, state_only
from fedfleet.world.samplers.dpcsm import ranked, released_topics, sample_dpcsm, stick
from fedfleet.world.samplers.dpgmm import sample_dpgmm
from fedfleet.world.samplers.pool72 import BETA_BINOMIAL, SIZE, allocate, beta_binomial, configurations, pool72, shares
from tests.real import DEVICE_BASE, needs_data
from tests.worlds import traces_of


def some_base(n=60):
    rng = np.random.default_rng(1)
    means = rng.uniform(20_000, 60_000, n)
    return device_table(
        [f"d{i}" for i in range(n)], [(m + rng.normal(0, 2000, 9)).tolist() for m in means], rng.uniform(0.2, 0.6, n)
    )


def drawn(base, **changes):
    asked = {"kinds": 50, "sigma": 0.7, "mean_kbps_wanted": 42_000.0, "alpha": 1000.0, "semantics": "paper", "seed": 0}
    return sample_dpgmm(base, 100, **{**asked, **changes})


@needs_data
def test_released_dpgmm_gives_the_published_numbers():
    base = load_devices(DEVICE_BASE)
    published = {0.1: 1412, 0.4: 5656, 0.7: 10305, 1.1: 15522, 1.4: 19777, 1.7: 21757, 2.0: 23823}
    for sigma, std in published.items():
        table = drawn(base, sigma=sigma, semantics="released", seed=42)
        assert len(set(table.ids)) == 45
        assert mean_kbps(table).std() == pytest.approx(std, abs=1)
    assert len(set(drawn(base, kinds=100, semantics="released", seed=42).ids)) == 64
    assert len(set(drawn(base, kinds=200, semantics="released", seed=42).ids)) == 80


def test_paper_dpgmm_has_the_variance_of_the_theorem():
    base = some_base()
    sigma_0 = mean_kbps(base).std()
    own = np.mean([np.var(base.down[a:b]) for a, b in zip(base.down_offsets[:-1], base.down_offsets[1:], strict=True)])
    for sigma in (0.1, 0.4, 0.7):
        found = [drawn(base, sigma=sigma, kinds=200, seed=s).down for s in range(30)]
        about = np.mean([np.mean((x - 42_000.0) ** 2) for x in found])  # around mu_0, which each sample's mean misses
        assert about == pytest.approx(own + (sigma * sigma_0) ** 2, rel=0.1)
        assert np.mean([x.mean() for x in found]) == pytest.approx(42_000.0, rel=0.02)


def test_heterogeneity_grows_with_kinds_and_sigma():
    base = some_base()
    distinct = [np.mean([len(set(drawn(base, kinds=k, seed=s).ids)) for s in range(5)]) for k in (5, 20, 80)]
    assert distinct == sorted(distinct)
    stds = [np.mean([mean_kbps(drawn(base, sigma=x, seed=s)).std() for s in range(5)]) for x in (0.1, 0.7, 2.0)]
    assert stds == sorted(stds)


def test_paper_dpgmm_cuts_negative_speeds_off():
    table = drawn(some_base(), sigma=50.0)
    assert (table.down >= 1.0).all()


def test_more_kinds_than_devices_is_refused():
    with pytest.raises(BadInput, match="the base has 3"):
        drawn(some_base(3), semantics="released")


def test_released_dpcsm_opens_as_many_states_as_published():
    found = [len(set(released_topics(100, alpha, 2022).tolist())) for alpha in (1, 2, 3, 4, 5, 10, 100)]
    assert found == [6, 8, 11, 13, 16, 27, 68]
    topics = released_topics(100, 4, 2022)
    assert topics[0] == 0
    assert set(topics.tolist()) == set(range(topics.max() + 1)), "ranks have no gaps"


def some_states(n=40):
    spans = [((0.0, 1.0 + i),) for i in range(n)]
    return StateTable(np.array([f"s{i:02d}" for i in range(n)]), traces_of(spans, [100.0] * n))


def test_ranks_go_by_score_then_availability_then_id():
    states = some_states(4)
    assert ranked(states, np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [1, 2, 0, 3]
    same = StateTable(np.array(["b", "a"]), traces_of([((0.0, 5.0),)] * 2, [10.0] * 2))
    assert ranked(same, np.ones(2)).tolist() == [1, 0]
    with pytest.raises(BadInput, match="3 scores for 4 states"):
        ranked(states, np.ones(3))


def test_dpcsm_starts_at_its_rank_and_ends_at_the_last():
    states, scores = some_states(), np.linspace(1, 0, 40)
    for semantics in ("paper", "released"):
        table = sample_dpcsm(states, 300, scores, alpha=5.0, start_rank=30, semantics=semantics, seed=1)
        assert set(table.ids) <= {f"s{i}" for i in range(30, 40)}
    with pytest.raises(BadInput, match="start_rank 40"):
        sample_dpcsm(states, 5, scores, alpha=5.0, start_rank=40, semantics="paper", seed=1)


def test_paper_dpcsm_draws_independently_from_the_stick():
    states, scores, n = some_states(), np.linspace(1, 0, 40), 4000
    for alpha in (1.0, 4.0):
        weights = stick(alpha, 40, 3)
        assert weights.sum() == pytest.approx(1.0)
        table = sample_dpcsm(states, n, scores, alpha=alpha, start_rank=0, semantics="paper", seed=3)
        counts = np.array([(client_ids(table) == i).sum() for i in states.ids])
        often = weights * n >= 5
        seen = np.append(counts[often], counts[~often].sum())
        hoped = np.append(weights[often], weights[~often].sum()) * n
        kept = hoped > 0
        assert stats.chisquare(seen[kept], hoped[kept]).pvalue > 1e-3


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


def test_omega_is_read_without_its_hole():
    assert coefficient(np.array([-0.5, 0.0, 0.3, 1.0, 1.7, 5.0])).tolist() == [1.0, 1.0, 0.3, 1.0, 1.7, 2.0]


def test_mobility_changes_links_by_trip_and_compute_by_the_hour():
    keys = client_keys(500)
    everyone, none = np.arange(500), np.zeros(500)
    source = mobile(homogeneous(mbps=8.0, seconds_per_sample=0.1))(keys, 3)
    moved = source.seconds(everyone, Cost(none, none + 1e6, none), 0.0, everyone)
    assert moved.mean() == pytest.approx(
        1.0 / np.mean(coefficient(1 + 0.2 * normals(3, "omega", keys, everyone))), rel=0.1
    )
    now, later, same = (
        source.seconds(everyone, Cost(none + 10, none, none), t, everyone) for t in (0.0, 4000.0, 100.0)
    )
    assert (now == same).all()
    assert (now != later).all()
    assert ((now >= 3.0 - 1e-9) & (now <= 6.0 + 1e-9)).all()


def test_the_state_only_setting_straddles_its_deadline():
    keys = client_keys(5000)
    everyone = np.arange(5000)
    took = state_only(deadline=120.0)(keys, 1).seconds(
        everyone, Cost(np.ones(5000), np.ones(5000), np.ones(5000)), 0.0, everyone
    )
    assert took.mean() == pytest.approx(120 / 1.05, rel=0.01)
    assert took.std() == pytest.approx(12 / 1.05, rel=0.05)


def test_levelled_devices_are_all_the_median_one():
    keys = client_keys(51)
    cost = Cost(np.ones(51), np.full(51, 1e7), np.full(51, 1e7))
    source = spread()(keys, 2)
    took = source.seconds(np.arange(51), cost, 0.0, np.zeros(51, np.int64))
    flat = levelled(source).seconds(np.arange(51), cost, 0.0, np.zeros(51, np.int64))
    assert (flat == np.median(took)).all()


@needs_data
def test_dpgmm_as_a_part_of_a_world():
    source = dpgmm(base=DEVICE_BASE, kinds=10)(client_keys(30), 4)
    assert len(source.kinds) == 30
    assert 2 <= len(set(source.kinds)) <= 10
