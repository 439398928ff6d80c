"""The central test set in its own size, and people who are held out altogether."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble.holdout import apply_holdouts, with_unseen
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.rng import client_keys
from fedfleet.tasks.task import hold_out
from fedfleet.world.partitions import by_owner, dirichlet, iid, make_shards

RNG = np.random.default_rng(0)
PEOPLE = np.repeat(np.arange(10), 30)
DATA = Dataset(RNG.normal(size=(300, 2)).astype(np.float32), RNG.integers(0, 3, 300), 3, PEOPLE)


def task_of(data=DATA, seed=0):
    return Task("toy", data, hold_out(data, seed, 0), lambda: None, lambda seed: {})


def spec_with(**world):
    return resolve({"seed": 5, "task": {"use": "digits_logreg"}, "world": world})


def held(task=None, **world):
    return apply_holdouts(spec_with(**world), task or task_of())


def test_without_the_keys_nothing_changes():
    task = task_of()
    assert apply_holdouts(spec_with(), task) is task


@pytest.mark.parametrize(("wanted", "size"), [(0.5, 150), (0.001, 1), (7, 7), (299, 299)])
def test_the_test_set_has_the_size_that_was_asked_for(wanted, size):
    result = held(holdout=wanted)
    assert len(result.holdout) == size and len(result.client_rows()) == 300 - size
    assert len(np.unique(result.holdout)) == size


def test_larger_test_sets_have_the_smaller_ones_inside_and_the_usual_one_is_one_of_them():
    small, large = held(holdout=30).holdout, held(holdout=0.4).holdout
    assert np.isin(small, large).all()
    assert np.array_equal(held(holdout=0.2).holdout, hold_out(DATA, 5, 0))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.floats(0.01, 0.9), st.integers(1, 9), st.lists(st.integers(0, 9), min_size=1, max_size=9, unique=True)
    ),
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


@pytest.mark.parametrize(
    ("world", "why"),
    [
        ({"holdout": 300}, r"world.holdout = 300: the data has 300 samples, .*hold out fewer"),
        ({"unseen": 10}, r"world.unseen: it holds out 10 of 10 people"),
        ({"unseen": [3, 77]}, r"world.unseen: there is no person 77; .* 0 to 9"),
        ({"unseen": []}, r"world.unseen: it names no person"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(world, why):
    with pytest.raises(BadInput, match=why):
        held(**world)


def test_data_without_owners_have_nobody_to_hold_out():
    with pytest.raises(BadInput, match=r"'toy' do not name the owner of each sample.*world.holdout"):
        held(task_of(replace(DATA, owner=None)), unseen=0.2)


def test_test_users_and_holdout_are_two_answers_to_one_question():
    spec = spec_with(holdout=0.1)
    with pytest.raises(BadInput, match=r"world.holdout: task.test_users"):
        apply_holdouts(replace(spec, task={**spec.task, "test_users": 2}), task_of())


@pytest.mark.parametrize(
    ("world", "why"),
    [
        ({"holdout": 0.0}, r"world.holdout = 0.0"), ({"holdout": 1.5}, r"world.holdout = 1.5"),
        ({"holdout": 0}, "world.holdout = 0"),
        ({"unseen": "all"}, r"world.unseen = 'all'"),
        ({"charge": "free"}, r"world.charge = 'free'"), ({"charge": 0}, "world.charge = 0"),
        ({"holdot": 0.2}, r"world has no key 'holdot'.*holdout"),
    ],
)  # fmt: skip
def test_keys_are_checked(world, why):
    with pytest.raises(BadInput, match=why):
        spec_with(**world)
