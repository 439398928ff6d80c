"""Faults of single tasks: how often, where and by how much; several together."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.rng import client_keys
from fedfleet.core.stages import COMPUTE, DOWNLOAD, UPLOAD
from fedfleet.testing import check_state_source
from fedfleet.world.faults import (
    all_of,
    combine_faults,
    crashes,
    delayed,
    lossy,
    no_faults,
    outages,
    reachable_states,
    repeated,
    slowed,
)
from fedfleet.world.states import always_on, daily

N = 20_000
KEYS = client_keys(100)
CLIENTS, TASKS = np.arange(N) % 100, np.arange(N)


def befallen(recipe, seed=3):
    return recipe(KEYS, seed).draw(CLIENTS, 0.0, np.full(N, 100.0), TASKS)


def near(share, of):
    """Within five standard deviations."""
    return pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / of))


def test_tasks_are_lost_as_often_as_asked_the_first_stage_first_and_evenly_inside():
    result = befallen(lossy(download=0.2, compute=0.5, upload=0.3))
    shares = [np.mean(result.stage == place) for place in (DOWNLOAD, COMPUTE, UPLOAD)]
    assert shares == [near(0.2, N), near(0.8 * 0.5, N), near(0.4 * 0.3, N)]
    parts = result.part[result.stage >= 0]
    assert np.histogram(parts, 4, (0, 1))[0] / len(parts) == near(0.25, len(parts))
    assert not result.noticed.any() and np.isinf(result.crash).all() and not result.late.any()
    assert befallen(lossy(noticed=True)).noticed.all()


def test_who_cannot_lose_a_task_silences_nobody():
    silent = {"all": lossy(), "none": lossy(download=0.0, compute=0.0, upload=0.0), "heard": lossy(noticed=True)}
    assert {n: r(KEYS, 1).silences for n, r in silent.items()} == {"all": True, "none": False, "heard": False}
    assert (befallen(silent["none"]).stage == -1).all()


@pytest.mark.parametrize(("recipe", "column", "usual"), [(delayed, "late", 0.0), (repeated, "again", math.inf)])
def test_reports_are_late_or_come_twice(recipe, column, usual):
    values = getattr(befallen(recipe(share=0.3, seconds=50.0)), column)
    hit = values[values != usual]
    assert len(hit) / N == near(0.3, N)
    assert hit.mean() == pytest.approx(50.0, rel=0.05) and hit.min() >= 0 and hit.max() < 100.0


def test_some_tasks_are_slow():
    factors = slowed(share=0.25, factor=3.0)(KEYS, 1).slowdown(CLIENTS, 0.0, TASKS)
    assert set(factors) == {1.0, 3.0} and np.mean(factors == 3.0) == near(0.25, N)


def test_another_task_and_another_seed_draw_anew():
    one, other = (befallen(lossy(compute=0.5), seed).stage for seed in (3, 4))
    assert 0.2 < np.mean(one != other) < 0.8
    assert 0.2 < np.mean(one[:10_000] != one[10_000:]) < 0.8  # the same clients


def test_together_the_earliest_loss_counts_and_the_rest_adds_up():
    def always(**columns):
        source = lossy()(KEYS, 1)
        told = {n: np.array([v]) for n, v in columns.items()}
        return type(source)(lambda c, s, t: np.full(1, 2.0), lambda c, s, e, t: no_faults(1, **told))

    late = {"late": 3.0, "again": 7.0}
    result = combine_faults(
        [
            always(stage=UPLOAD, part=0.1, noticed=True, crash=9.0, **late),
            always(stage=COMPUTE, part=0.7, crash=8.0, late=4.0),
            always(stage=COMPUTE, part=0.6, noticed=True, again=5.0),
            always(stage=COMPUTE, part=0.65),
        ]
    )
    told = result.draw(np.zeros(1, np.int64), 0.0, np.ones(1), np.zeros(1, np.int64))
    columns = [getattr(told, n)[0] for n in ("stage", "part", "crash", "noticed", "late", "again")]
    assert columns == [COMPUTE, 0.6, 8.0, True, 7.0, 5.0]
    assert result.slowdown(np.zeros(1, np.int64), 0.0, np.zeros(1, np.int64)).tolist() == [16.0]


def test_a_list_of_one_is_that_one_and_the_same_kind_twice_strikes_twice():
    one, alone, twice = (befallen(r).stage >= 0 for r in (
        lossy(upload=0.5), all_of([lossy(upload=0.5)]), all_of([lossy(upload=0.5), lossy(upload=0.5)])))  # fmt: skip
    assert np.array_equal(one, alone)
    kept = (1 - 0.02) * (1 - 0.05) * 0.5
    assert np.mean(twice) == near(1 - kept**2, N)


def test_who_is_away_for_one_reason_is_away():
    both = all_of([crashes(rate=0.5), lossy(), crashes(rate=0.3, seconds=60.0)])(KEYS, 1)
    one, other = (crashes(rate=0.5)(KEYS, 1), both)
    assert all((other.away(t) >= one.away(t)).all() for t in np.arange(0.0, 40_000.0, 500.0))
    assert all(other.back(t) <= one.back(t) for t in np.arange(0.0, 40_000.0, 500.0))


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ({"use": "lossy", "upload": 1.5}, r"world.faults.upload = 1.5: must be at most 1"),
        ({"use": "crashes", "rate": -0.1}, "world.faults.rate"),
        ({"use": "slowed", "factor": 0.5}, "world.faults.factor"),
        ([{"use": "delayed", "share": 2.0}], r"world.faults.faults\[0\].share"),
        ("losy", "unknown fault source 'losy'; did you mean 'lossy'"),
    ],
)
def test_rates_over_one_and_the_like_are_bad_input(faults, why):
    with pytest.raises(BadInput, match=why):
        resolve({"world": {"faults": faults}})


def test_a_spec_may_give_a_list_or_one():
    assert resolve({"world": {"faults": "lossy"}}).world["faults"]["use"] == "lossy"
    many = resolve({"world": {"faults": ["lossy", {"use": "crashes", "rate": 0.5}]}})
    assert [f["use"] for f in many.world["faults"]["faults"]] == ["lossy", "crashes"]
    assert resolve(many.table()) == many
    with pytest.raises(BadInput, match=r"world\.faults: the list is empty"):
        all_of([])


pytestmark = pytest.mark.slow

KEYS = client_keys(200)
EVERYONE = np.arange(200)


def seen(source, times):
    return np.stack([source.away(float(t)) for t in times])


def test_clients_are_down_for_their_share_of_the_time():
    source = crashes(rate=0.4, seconds=90.0, period=360.0)(KEYS, 1)
    assert seen(source, np.arange(0.0, 72_000.0, 37.0)).mean() == pytest.approx(0.4 * 0.25, rel=0.05)


def test_who_goes_down_stays_so_for_its_seconds_and_at_most_once_in_a_window():
    source = crashes(rate=1.0, seconds=50.0, period=200.0)(KEYS[:20], 1)
    for window in range(5):
        down = seen(source, window * 200.0 + np.arange(200))
        assert (down.sum(axis=0) == 50).all()
        assert (np.diff(down.astype(int), axis=0, prepend=0, append=0) == 1).sum() == 20


def test_clients_crash_alone_and_groups_together():
    alone, together = crashes(rate=0.5)(KEYS, 1), outages(rate=0.5, period=3600.0, groups=4)(KEYS, 1)
    times = np.arange(0.0, 100_000.0, 333.0)
    patterns = np.unique(seen(together, times).T, axis=0)
    assert len(patterns) == 4
    assert len(np.unique(seen(alone, times).T, axis=0)) > 150


def test_a_task_is_struck_at_the_first_moment_at_which_its_client_is_down():
    source = crashes(rate=0.3, seconds=64.0, period=256.0)(KEYS, 1)
    start = 1000.0
    ends = start + 50.0 * EVERYONE
    struck = source.draw(EVERYONE, start, ends, EVERYONE).crash
    down = seen(source, np.arange(start, ends.max(), 1.0))
    for client in EVERYONE.tolist():
        mine = np.flatnonzero(down[: int(ends[client] - start), client])
        if len(mine):
            assert start + mine[0] - 1 < struck[client] <= start + mine[0]
        else:
            assert struck[client] == math.inf or struck[client] > ends[client] - 1
    assert 20 < np.isfinite(struck).sum() < 199


def test_who_is_down_when_its_task_comes_loses_it_at_once():
    source = crashes(rate=1.0, seconds=200.0, period=200.0)(KEYS[:5], 1)
    assert source.draw(np.arange(5), 17.0, np.full(5, 30.0), np.arange(5)).crash.tolist() == [17.0] * 5
    assert np.isinf(source.draw(np.arange(5), 17.0, np.full(5, 17.0), np.arange(5)).crash).all()  # it takes no time


def test_a_task_that_never_ends_is_not_followed_for_ever():
    rare = crashes(rate=1e-9)(KEYS, 1)
    assert np.isinf(rare.draw(EVERYONE[:3], 0.0, np.full(3, 1e15), EVERYONE[:3]).crash).all()
    often = crashes(rate=0.5)(KEYS, 1)
    assert np.isfinite(often.draw(EVERYONE, 0.0, np.full(200, 1e15), EVERYONE).crash).all()


def test_down_for_longer_than_a_period_is_bad_input():
    for make in (crashes, outages):
        with pytest.raises(BadInput, match=r"seconds = 90 does not fit into period = 60"):
            make(seconds=90.0, period=60.0)


# ---- who can be reached -------------------------------------------------------------------------------------------


def test_states_without_downtime_are_as_they_were():
    states = always_on()(KEYS, 1)
    assert reachable_states(states, None) is states
    assert reachable_states(states, lossy()(KEYS, 1)) is states


@pytest.mark.parametrize("states", [always_on(), daily(sessions=8, ready=0.6)])
def test_whom_nobody_can_reach_is_not_online(states):
    source = outages(rate=0.5, seconds=2000.0, period=7200.0, groups=3)(KEYS[:30], 1)
    inner = states(KEYS[:30], 1)
    under = reachable_states(inner, source)
    for t in np.arange(0.0, 50_000.0, 911.0).tolist():
        assert np.array_equal(under.online(t), inner.online(t) & ~source.away(t))
    check_state_source(under, 30)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(0, 3000), st.sampled_from([0.2, 0.6, 1.0]))
def test_the_first_moment_at_which_enough_are_up(seed, n, start, rate):
    # Down for whole seconds from whole seconds on, so that looking at every second finds all there is.
    keys = client_keys(6)
    source = crashes(rate=rate, seconds=512.0, period=512.0)(keys, seed)
    under = reachable_states(always_on()(keys, 0), source)
    among = np.arange(6) % 5 > 0 if seed % 2 else np.ones(6, np.bool_)
    until = start + 5000.0
    looks = [t for t in range(start, start + 5000) if np.count_nonzero(under.online(float(t)) & among) >= n]
    expected = float(looks[0]) if looks else math.inf
    assert under.earliest(among, n, float(start), until) == expected
