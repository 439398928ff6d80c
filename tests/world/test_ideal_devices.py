"""Everyone with an ideal device: what is taken away is gone, and what was never there changes no bit."""

import numpy as np
import pytest

from fedfleet.core.records import Cost
from fedfleet.core.rng import client_keys
from fedfleet.core.sources import DeviceSource
from fedfleet.core.stages import stages_of
from fedfleet.testing import check_device_source
from fedfleet.world.devices import dpgmm, homogeneous, median_devices, spread
from fedfleet.world.dynamics import mobile, state_only
from fedfleet.world.ideal_devices import differences, equal_devices, equalled, ideal_devices
from fedfleet.world.samplers.pool72 import pool72

N = 40
KEYS, EVERYONE = client_keys(N), np.arange(N)
COST = Cost(np.full(N, 30.0), np.full(N, 3e6), np.full(N, 2e6), np.full(N, 2.0))
LINKS, COMPUTE, BOTH = frozenset({"links"}), frozenset({"compute"}), frozenset({"links", "compute"})


def stages(source, task=0, start=0.0):
    return stages_of(source, EVERYONE, COST, start, np.arange(task, task + N))


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


ALIKE = {
    "homogeneous": homogeneous(seconds_per_batch=0.01),
    "jittered": spread(link=0.0, compute=0.0, jitter=0.5),
    "state_only": state_only(seconds_per_sample=0.01),
    "mobile": mobile(homogeneous()),
    "pool of one": pool72(distribution="homo"),
    "levelled": lambda keys, seed: median_devices(dpgmm()(keys, seed)),
}


@pytest.mark.parametrize("name", ALIKE)
def test_devices_that_are_alike_stay_as_they_are_to_the_last_bit(name):
    source = ALIKE[name](KEYS, 7)
    assert differences(source, KEYS) == frozenset()
    both = equalled(ALIKE[name], links=True, compute=True)(KEYS, 7)
    for start in (0.0, 5000.0):
        assert same(stages(source, 3, start), stages(both, 3, start))
        args = EVERYONE, COST, start, EVERYONE
        assert np.array_equal(source.seconds(*args), both.seconds(*args))


UNLIKE = {
    "spread": (spread(jitter=0.3), BOTH),
    "only links": (spread(compute=0.0), LINKS),
    "only compute": (spread(link=0.0), COMPUTE),
    "dpgmm": (dpgmm(kinds=20), BOTH),
    "mobile": (mobile(spread()), BOTH),
    "pool72": (pool72(), BOTH),
    "a fixed pool": (pool72(reallocate=False, distribution="uniform"), BOTH),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_one_cause_is_removed_and_the_other_stays(name):
    recipe, expected = UNLIKE[name]
    source = recipe(KEYS, 7)
    assert differences(source, KEYS) == expected
    before, links, compute = (stages(s) for s in (source, equal_devices(source, KEYS, LINKS), equal_devices(source, KEYS, COMPUTE)))
    for name in ("latency", "download", "upload"):
        assert np.array_equal(before[name], compute[name])
        assert links[name].mean() <= before[name].mean() * (1 + 1e-12)
    assert np.array_equal(before["compute"], links["compute"])
    assert (compute["compute"] <= before["compute"]).all()
    assert differences(equal_devices(source, KEYS, BOTH), KEYS) == frozenset()
    check_device_source(equalled(recipe, links=True, compute=True)(KEYS, 7), N)


def test_constant_devices_all_get_the_fastest():
    source, equal = spread()(KEYS, 3), equalled(spread(), links=True, compute=True)(KEYS, 3)
    before, after = stages(source), stages(equal)
    for name in ("download", "compute", "upload"):
        assert np.unique(after[name]).tolist() == [before[name].min()]
    assert list(equal.kinds) == list(source.kinds)


def test_what_varies_from_trip_to_trip_still_does_by_each_clients_own_draws():
    recipe = spread(jitter=0.4)
    equal, alike = (
        equalled(recipe, links=True)(KEYS, 3),
        spread(link=0.0, jitter=0.4)(KEYS, 3),
    )
    factor = stages(equal)["download"] / stages(alike)["download"]
    assert np.allclose(factor, factor[0], rtol=1e-12)
    assert len(np.unique(stages(equal)["download"])) == N


def test_renaming_clients_renames_what_they_get():
    for recipe in (spread(), mobile(spread()), unsaid(spread(jitter=0.2))):
        here, there = (equalled(recipe, links=True, compute=True)(keys, 5) for keys in (KEYS, KEYS[::-1].copy()))
        result, renamed = (
            here.seconds(EVERYONE, COST, 0.0, EVERYONE),
            there.seconds(EVERYONE, COST, 0.0, EVERYONE[::-1]),
        )
        assert np.array_equal(result, renamed[::-1])


def unsaid(recipe):
    """The same devices from someone who says neither stages nor the best."""

    def silent(keys, seed):
        source = recipe(keys, seed)
        return DeviceSource(lambda *work: source.seconds(*work), source.kinds)

    return silent


def test_sources_that_do_not_say_are_measured():
    source = unsaid(spread())(KEYS, 3)
    assert differences(source, KEYS) == BOTH
    after = stages(equal_devices(source, KEYS, BOTH))
    assert np.allclose(after["upload"], stages(spread()(KEYS, 3))["upload"].min())
    assert np.allclose(after["compute"], stages(spread()(KEYS, 3))["compute"].min())
    alike = unsaid(homogeneous())(KEYS, 3)
    assert equal_devices(alike, KEYS, BOTH) is alike
    assert ideal_devices(alike, KEYS) is not alike


def test_who_cannot_do_the_work_still_cannot():
    weak = pool72(peak_memory_mb=500.0, reallocate=False, distribution="uniform")
    source, equal = weak(KEYS, 1), equalled(weak, links=True, compute=True)(KEYS, 1)
    lost = ~np.isfinite(source.seconds(EVERYONE, COST, 0.0, EVERYONE))
    assert 0 < lost.sum() < N
    assert np.array_equal(lost, ~np.isfinite(equal.seconds(EVERYONE, COST, 0.0, EVERYONE)))
