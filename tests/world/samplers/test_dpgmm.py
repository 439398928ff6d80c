"""DPGMM: the published numbers, the variance of the theorem, where speeds end, and heterogeneity that can be dialled."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import device_table, mean_kbps
from fedfleet.core.rng import client_keys
from fedfleet.measure.montecarlo.metrics import one_value
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices
from fedfleet.world.devices import dpgmm
from fedfleet.world.samplers.dpgmm import sample_dpgmm, truncate_normal
from tests.real import DEVICE_BASE, needs_data


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


@pytest.mark.parametrize(("support", "sigmas"), [("floor", (0.1, 0.4, 0.7)), ("base", (0.1, 0.4))])
def test_paper_dpgmm_has_the_variance_of_the_theorem(support, sigmas):
    base = some_base()
    sigma_0 = mean_kbps(base).std()
    own = np.mean([np.var(base.down[a:b]) for a, b in zip(base.down_offsets[:-1], base.down_offsets[1:], strict=True)])
    for sigma in sigmas:
        result = [drawn(base, sigma=sigma, kinds=200, seed=s, support=support).down for s in range(30)]
        about = np.mean([np.mean((x - 42_000.0) ** 2) for x in result])  # around mu_0, which each sample's mean misses
        assert about == pytest.approx(own + (sigma * sigma_0) ** 2, rel=0.1)
        assert np.mean([x.mean() for x in result]) == pytest.approx(42_000.0, rel=0.02)


@pytest.mark.parametrize("sigma", [0.7, 1.4, 2.0])
def test_beyond_that_it_has_the_variance_of_truncated_means(sigma):
    base = some_base()
    means, scale = mean_kbps(base), 42_000.0 / mean_kbps(base).mean()
    wide = sigma * means.std()
    low, high = ((scale * limit - 42_000.0) / wide for limit in (means.min(), means.max()))
    result = [mean_kbps(drawn(base, sigma=sigma, kinds=200, seed=s)) for s in range(30)]
    hoped = stats.truncnorm(low, high, 42_000.0, wide)
    assert np.mean([np.mean((x - hoped.mean()) ** 2) for x in result]) == pytest.approx(hoped.var(), rel=0.1)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 1.0), st.floats(1e-3, 1e3), st.floats(-3.0, 3.0), st.floats(1.0, 1e5), st.floats(-3.0, 3.0))
def test_truncated_normals_are_those_of_scipy(where, wide, low, width, z):
    high = low + width
    mu, sd = low + where * width, wide * width
    got = truncate_normal(np.array([mu]), np.array([sd]), np.array([[z]]), low, high)[0, 0]
    hoped = stats.truncnorm((low - mu) / sd, (high - mu) / sd, mu, sd).ppf(stats.norm.cdf(z))
    assert got == pytest.approx(hoped, rel=1e-5, abs=1e-5 * width)


def test_limits_of_truncation():
    one = np.array([5.0])
    scores = np.array([[-3.0, 0.0, 3.0]])
    assert truncate_normal(one, np.zeros(1), scores, 1.0, 9.0).tolist() == [[5.0] * 3], "no spread"
    uniform = truncate_normal(one, np.array([1e300]), scores, 1.0, 9.0)[0]
    assert uniform == pytest.approx(1.0 + 8.0 * stats.norm.cdf(scores[0]))
    assert truncate_normal(one, one, scores, 5.0, 5.0).tolist() == [[5.0] * 3], "no room"


@pytest.mark.parametrize("mean", [500.0, 42_000.0, 900_000.0])
def test_speeds_stay_within_those_of_the_base_brought_to_the_wanted_mean(mean):
    base = load_devices("builtin")
    scale = mean / mean_kbps(base).mean()
    for sigma in (0.0, 0.7, 2.0, 50.0):
        down = drawn(base, sigma=sigma, mean_kbps_wanted=mean).down
        assert scale * base.down.min() <= down.min() and down.max() <= scale * base.down.max()


def test_nothing_piles_up_at_a_floor_and_no_trip_takes_weeks():
    base, asked = load_devices("builtin"), Settings(rounds=500, trips=2000)
    slow = {support: [drawn(base, sigma=1.4, seed=s, support=support) for s in range(6)] for support in ("base", "floor")}
    assert min(table.down.min() for table in slow["base"]) > 10.0
    assert max((table.down == 1.0).sum() for table in slow["floor"]) > 5
    took = {name: [one_value("DevMC-T", asked, t, None, 0) for t in tables] for name, tables in slow.items()}
    assert max(took["base"]) < 2 * min(took["base"])
    assert max(took["floor"]) > 50 * min(took["floor"]), "one seed says nothing about another"


def test_the_floor_and_the_released_sampler_draw_what_they_always_drew():
    base, result = load_devices("builtin"), hashlib.sha256()
    for semantics in ("paper", "released"):
        for sigma in (0.0, 0.7, 2.0):
            table = drawn(base, kinds=20, sigma=sigma, semantics=semantics, support="floor")
            result.update("".join(table.ids).encode() + np.round(table.down, 6).tobytes() + table.row_index.tobytes())
    assert result.hexdigest()[:16] == "a4ad6433c40f090d"


def test_heterogeneity_grows_with_kinds_and_sigma():
    base = some_base()
    distinct = [np.mean([len(set(drawn(base, kinds=k, seed=s).ids)) for s in range(5)]) for k in (5, 20, 80)]
    assert distinct == sorted(distinct)
    stds = [np.mean([mean_kbps(drawn(base, sigma=x, seed=s)).std() for s in range(5)]) for x in (0.1, 0.7, 2.0)]
    assert stds == sorted(stds)


@pytest.mark.parametrize("support", ["base", "floor"])
def test_paper_dpgmm_cuts_negative_speeds_off(support):
    table = drawn(some_base(), sigma=50.0, support=support)
    assert (table.down >= 1.0).all()


def test_more_kinds_than_devices_is_refused():
    with pytest.raises(BadInput, match="the base has 3"):
        drawn(some_base(3), semantics="released")


@needs_data
def test_dpgmm_as_a_part_of_a_world():
    source = dpgmm(base=DEVICE_BASE, kinds=10)(client_keys(30), 4)
    assert len(source.kinds) == 30
    assert 2 <= len(set(source.kinds)) <= 10
