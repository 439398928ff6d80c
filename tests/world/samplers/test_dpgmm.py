"""DPGMM: the published numbers, the variance of the theorem, and heterogeneity that can be dialled."""

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import device_table, mean_kbps
from fedfleet.core.rng import client_keys
from fedfleet.world.bases import load_devices
from fedfleet.world.devices import dpgmm
from fedfleet.world.samplers.dpgmm import sample_dpgmm
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


@needs_data
def test_dpgmm_as_a_part_of_a_world():
    source = dpgmm(base=DEVICE_BASE, kinds=10)(client_keys(30), 4)
    assert len(source.kinds) == 30
    assert 2 <= len(set(source.kinds)) <= 10
