"""Held-out samples and people: whoever is held out is nowhere else, and is drawn from the seed of the data."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core.parts import Dataset, Task
from fedfleet.core.rng import client_keys
from fedfleet.tasks.task import hold_out
from fedfleet.world.holdouts import with_holdouts, with_unseen
from fedfleet.world.partitions import by_owner, dirichlet, iid, make_shards

RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(10), 30)
DATA = Dataset(RNG.normal(size=(300, 2)).astype(np.float32), RNG.integers(0, 3, 300), 3, PEOPLE)


def task_of(seed=0):
    return Task("toy", DATA, hold_out(DATA, seed, 0), lambda: None, lambda seed: {})


def test_both_are_held_out_together():
    result = with_holdouts(task_of(), {"holdout": 50, "unseen": [3]}, 5)
    assert set(PEOPLE[result.unseen]) == {3} and 40 <= len(result.holdout) <= 50
    assert not np.isin(result.client_rows(), [*result.unseen, *result.holdout]).any()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.one_of(st.floats(0.01, 0.9), st.integers(1, 9), st.lists(st.integers(0, 9), min_size=1, max_size=9, unique=True)),
    st.sampled_from([iid, dirichlet, by_owner]),
    st.integers(0, 3),
)
def test_nobody_trains_on_people_who_are_held_out(unseen, partition, seed):
    result = with_unseen(task_of(), unseen, seed)
    data = make_shards(partition(), result, client_keys(5), seed, min_samples=1)
    used = np.concatenate([data.shard(c, split, 0) for c in range(5) for split in ("train", "valid", "test")])
    gone, there = {*PEOPLE[data.unseen]}, {*PEOPLE[used], *PEOPLE[data.holdout]}
    assert gone and there and not gone & there
    assert len(data.unseen) == 30 * len(gone), "everything of theirs"
    assert len(data.unseen) + len(used) + len(data.holdout) == 300, "every sample has one place"
    if isinstance(unseen, list):
        assert gone == {*unseen}
    else:
        assert len(gone) == (unseen if isinstance(unseen, int) else max(1, round(10 * unseen)))


def test_people_are_drawn_from_the_seed_of_the_data():
    some = [tuple(np.unique(PEOPLE[with_unseen(task_of(), 3, seed).unseen])) for seed in range(5)]
    assert len({*some}) > 1 and some[0] == tuple(np.unique(PEOPLE[with_unseen(task_of(), 3, 0).unseen]))
