"""Users: every device has one owner, every row lies on one device, whatever was drawn."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedfleet.core.edges import UserSource
from fedfleet.core.errors import BadInput
from fedfleet.core.sources import DataSource
from fedfleet.world.users import groups, households, on_devices, spread_inside

LAWS = settings(deadline=None, derandomize=True, max_examples=80)
SPLITS = ("train", "valid", "test")
seeds = st.integers(0, 10_000)


@st.composite
def ranges(draw):
    low = draw(st.integers(1, 5))
    return [low, draw(st.integers(low, 8))]


def sizes_of(users):
    """How many devices each user has; every device must be somebody's."""
    assert np.array_equal(np.unique(users.user_of), np.arange(len(users)))
    result = [users.devices_of(u) for u in range(len(users))]
    assert np.array_equal(np.sort(np.concatenate(result)), np.arange(len(users.user_of)))
    return np.array([len(mine) for mine in result])


@LAWS
@given(ranges(), st.integers(1, 60), seeds)
def test_households_have_sizes_in_range_but_for_what_is_left_over(between, devices, seed):
    users = households(between).assign(devices, seed)
    sizes = sizes_of(users)
    assert sizes.max() <= between[1]
    assert (sizes < between[0]).sum() <= 1
    assert np.array_equal(users.user_of, households(between).assign(devices, seed).user_of)


@LAWS
@given(st.floats(0, 1), st.integers(1, 60), seeds)
def test_loners_are_users_of_one_device(loners, devices, seed):
    sizes = sizes_of(households([3, 5], loners=loners).assign(devices, seed))
    alone = round(loners * devices)
    assert alone <= (sizes == 1).sum() <= alone + 1
    assert (sizes[sizes > 1] >= 2).all() and (sizes == 2).sum() <= 1


def test_households_are_drawn_evenly_and_by_their_seed():
    sizes = sizes_of(households([2, 5]).assign(7000, 1))
    counts = np.bincount(sizes, minlength=6)[2:]
    assert counts.min() > 0.85 * len(sizes) / 4 and counts.max() < 1.15 * len(sizes) / 4
    assert not np.array_equal(sizes[:50], sizes_of(households([2, 5]).assign(7000, 2))[:50])


@LAWS
@given(st.integers(1, 20), st.integers(0, 60))
def test_groups_are_even(count, more):
    sizes = sizes_of(groups(count).assign(count + more, 0))
    assert len(sizes) == count and np.ptp(sizes) <= 1


def test_ranges_and_counts_that_cannot_be_are_refused():
    for devices in ([5, 2], [2], [2, 3, 4]):
        with pytest.raises(BadInput, match="smallest and the largest number of devices"):
            households(devices)
    with pytest.raises(BadInput, match="5 groups are more than the 4 devices"):
        groups(5).assign(4, 0)


@st.composite
def homes(draw):
    """Users with rows in three splits; row r has label labels[r]; a user may hold few rows, or none outside training."""
    users = households(draw(ranges())).assign(draw(st.integers(1, 12)), draw(seeds))
    rng = np.random.default_rng(draw(seeds))
    counts = rng.integers(0, draw(st.sampled_from([1, 3, 40])), (len(users), 3)) + [1, 0, 0]
    rows = rng.permutation(int(counts.sum()) + 5)  # some belong to nobody
    shards = np.split(rows, np.cumsum(counts.ravel()))
    labels = rng.integers(0, draw(st.integers(1, 6)), len(rows))

    def shard(user, split, round):
        return shards[3 * user + SPLITS.index(split)]

    return users, DataSource(shard, lambda round: counts[:, 0], np.flatnonzero(counts[:, 2]), rows[-3:]), labels


@LAWS
@given(homes(), st.sampled_from([1e-300, 1e-3, 0.5, 100.0]), seeds)
def test_every_row_lies_on_one_device_and_every_device_has_something_to_train_on(home, mu, seed):
    users, data, labels = home
    slots = spread_inside(users, data, labels, mu, seed)
    for user in range(len(users)):
        n = len(users.devices_of(user))
        for split in SPLITS:
            held = slots[user][split]
            assert len(held) == len(data.shard(user, split, 0))
            assert ((held >= 0) & (held < n)).all()
        rows = len(slots[user]["train"])
        assert len(np.unique(slots[user]["train"])) >= min(n, rows)


@LAWS
@given(homes(), seeds)
def test_devices_together_hold_exactly_what_their_user_holds(home, seed):
    users, data, labels = home
    flat = on_devices(users, data, spread_inside(users, data, labels, 0.5, seed))
    for user in range(len(users)):
        for split in SPLITS:
            parts = [flat.shard(int(d), split, 0) for d in users.devices_of(user)]
            assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(data.shard(user, split, 0)))
    devices = range(len(users.user_of))
    assert flat.sizes(0).tolist() == [len(flat.shard(d, "train", 0)) for d in devices]
    assert flat.testers.tolist() == [d for d in devices if len(flat.shard(d, "test", 0))]
    assert flat.holdout is data.holdout


def one_user(devices, rows, classes=4):
    """One user with so many training rows, as many of each class."""
    everything = np.arange(rows)
    data = DataSource(
        lambda user, split, round: everything if split == "train" else everything[:0], lambda round: np.array([rows]),
        np.zeros(0, np.int64), everything[:0],
    )  # fmt: skip
    return UserSource(np.zeros(devices, np.int64)), data, everything % classes


def class_counts(mu, seed):
    users, data, labels = one_user(4, 400)
    slots = spread_inside(users, data, labels, mu, seed)[0]["train"]
    return np.array([[((slots == k) & (labels == c)).sum() for c in range(4)] for k in range(4)])


def test_a_large_mu_spreads_every_class_evenly_and_a_small_one_gives_it_to_one_device():
    assert np.abs(class_counts(1e9, 0) - 25).max() <= 1
    assert sorted(class_counts(1e-3, 0).max(0).tolist())[0] >= 97
    assert not np.array_equal(class_counts(0.5, 0), class_counts(0.5, 1))
    assert np.array_equal(class_counts(0.5, 3), class_counts(0.5, 3))


@LAWS
@given(st.integers(1, 6), st.integers(1, 8), seeds)
def test_few_rows_go_to_as_many_devices_as_there_are_rows(devices, rows, seed):
    assume(rows <= devices)
    users, data, labels = one_user(devices, rows)
    slots = spread_inside(users, data, labels, 1e-3, seed)[0]["train"]
    assert len(np.unique(slots)) == rows
