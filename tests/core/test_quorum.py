"""The first moment at which enough clients can be reached, against looking at every second."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.fleet import StateTable, take_states
from fedfleet.core.quorum import earliest_by_polling
from fedfleet.world.states import interval_states
from tests.worlds import spans_within, traces_of

pytestmark = pytest.mark.slow

laws = settings(deadline=None, derandomize=True, max_examples=200)
UNTIL = 5000


@st.composite
def worlds(draw):
    """Up to six traces of whole seconds: spans, periods, starts."""
    periods = draw(st.lists(st.integers(2, 14), min_size=1, max_size=6))
    return [draw(spans_within(p)) for p in periods], periods, [draw(st.integers(-20, 20)) for _ in periods]


def scanned(world, among, n, start, until):
    """Looking at `start` and at every second after it."""
    spans, periods, starts = world

    def ready(time):
        return [
            any(a <= (time - begin) % period < b for a, b in own) for own, period, begin in zip(spans, periods, starts, strict=True)
        ]

    for time in (start, *range(math.floor(start) + 1, math.ceil(until))):
        if sum(r and a for r, a in zip(ready(time), among, strict=True)) >= n:
            return float(time)
    return math.inf


@laws
@given(worlds(), st.data(), st.integers(0, 160).map(lambda quarters: quarters / 4))
def test_the_moment_is_the_one_that_looking_at_every_second_finds(world, data, start):
    among = data.draw(st.lists(st.booleans(), min_size=len(world[0]), max_size=len(world[0])))
    n, until = data.draw(st.integers(1, len(among))), data.draw(st.sampled_from([start + 30.0, 400.0]))
    source = interval_states(traces_of(*world))
    result = source.earliest(np.array(among), n, start, until)
    assert result == scanned(world, among, n, start, until)
    if result < math.inf:
        assert np.count_nonzero(source.online(result) & among) >= n


@laws
@given(worlds(), st.data())
def test_whoever_looks_later_finds_the_same_moment(world, data):
    # Thirds and an old clock: times that are rounded, as those of real traces are.
    spans, periods, starts = world
    scale, old = data.draw(st.sampled_from([1.0, 1 / 3, 0.1])), data.draw(st.sampled_from([0.0, 1e6, -1e9]))
    t = traces_of(
        [tuple((a * scale, b * scale) for a, b in own) for own in spans],
        np.array(periods) * scale,
        np.array(starts) * scale + old,
    )
    everyone, n = np.ones(len(periods), np.bool_), data.draw(st.integers(1, len(periods)))
    result = interval_states(t).earliest(everyone, n, 0.0, 400.0)
    if result == math.inf:
        return
    source = interval_states(t)
    for share in (0.0, 0.3, 0.7, 1.0):
        source.online(result * share)  # what a source remembers must not matter
        assert source.earliest(everyone, n, result * share, 400.0) == result
    assert np.count_nonzero(source.online(result)) >= n


@laws
@given(worlds(), st.data())
def test_doubling_all_times_doubles_the_moment(world, data):
    spans, periods, starts = world
    n, start = data.draw(st.integers(1, len(periods))), data.draw(st.integers(0, 40)) / 3

    def found(k):
        t = traces_of(
            [tuple((a * k / 3, b * k / 3) for a, b in own) for own in spans],
            np.array(periods) * k / 3,
            np.array(starts) * k / 3,
        )
        return interval_states(t).earliest(np.ones(len(periods), np.bool_), n, start * k, 300.0 * k)

    assert 2 * found(1) == found(2)


@laws
@given(worlds(), st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 30))
def test_clients_that_share_a_trace_count_each(world, of, n):
    t, of = traces_of(*world), np.array(of) % len(world[0])
    shared = interval_states(take_states(StateTable(np.array([str(i) for i in range(len(t))]), t), of).traces)
    among = np.arange(len(of)) % 3 > 0
    alone = tuple([column[i] for i in of] for column in world)
    assert shared.earliest(among, n, 3.0, 300.0) == scanned(alone, among.tolist(), n, 3.0, 300)


def test_it_ends_where_everything_begins_anew():
    # The two are never there together; without a common period the search would last for a thousand years.
    t = traces_of([((0.0, 1.0),), ((2.0, 3.0),)], [4.0, 8.0])
    both = np.ones(2, np.bool_)
    assert interval_states(t).earliest(both, 2, 0.0, 3e10) == math.inf
    assert interval_states(t).earliest(both, 1, 1.0, 3e10) == 2.0


def test_a_trace_that_changes_every_second_does_not_hide_a_slow_one():
    fast = ((0.0, 0.5),)
    t = traces_of([fast, fast, ((5000.0, 5000.25),)], [1.0, 1.0, 6000.0])
    assert interval_states(t).earliest(np.ones(3, np.bool_), 3, 10.0, 1e6) == 5000.0


def test_many_traces_are_followed_in_pieces(monkeypatch):
    monkeypatch.setattr("fedfleet.core.quorum._FIRST_CHANGES", 2)
    monkeypatch.setattr("fedfleet.core.quorum._MAX_CHANGES", 3)
    spans = [((float(i), float(i + 10)),) for i in range(40)]
    source = interval_states(traces_of(spans, [50.0] * 40))
    everyone = np.ones(40, np.bool_)
    assert [source.earliest(everyone, n, 0.0, 1e9) for n in (1, 2, 9, 10, 11)] == [0.0, 1.0, 8.0, 9.0, math.inf]


def test_nobody_is_found_at_the_horizon_or_after_it():
    source = interval_states(traces_of([((5.0, 6.0),)], [10.0]))
    one = np.ones(1, np.bool_)
    assert source.earliest(one, 1, 0.0, 5.0) == math.inf
    assert source.earliest(one, 1, 0.0, 5.5) == 5.0
    assert source.earliest(one, 1, 5.0, 5.0) == math.inf
    assert source.earliest(~one, 1, 0.0, 1e9) == math.inf


@pytest.mark.parametrize(("start", "n", "expected"), [(0.0, 1, 0.0), (5.0, 2, 60.0), (60.0, 2, 60.0), (70.0, 3, math.inf)])
def test_looking_every_so_often(start, n, expected):
    def online(time):
        return np.array([True, time // 60 % 2 == 1, False])

    look = earliest_by_polling(online, 60.0, repeats=120.0)
    assert look(np.ones(3, np.bool_), n, start, 1e12) == expected


@laws
@given(worlds(), st.lists(st.integers(1, 4), min_size=6, max_size=6), st.integers(1, 24), st.sampled_from([1.0, 7.3]))
def test_asking_whether_so_many_can_come_at_all_changes_nothing(world, weights, n, scale):
    spans, periods, starts = world
    t = traces_of(
        [tuple((a * scale, b * scale) for a, b in own) for own in spans],
        np.array(periods) * scale,
        np.array(starts) * scale,
    )
    of = np.repeat(np.arange(len(t)), weights[: len(t)])
    shared = interval_states(take_states(StateTable(np.array([str(i) for i in range(len(t))]), t), of).traces)
    everyone = np.ones(len(of), np.bool_)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedfleet.core.quorum._FIRST_CHANGES", 1)
        patch.setattr("fedfleet.core.quorum._PATIENCE", 2)
        asked = shared.earliest(everyone, n, 0.0, 2000.0)
        patch.setattr("fedfleet.core.quorum._PATIENCE", -1)
        assert shared.earliest(everyone, n, 0.0, 2000.0) == asked
