"""People against clients: who is merged, split or refused, and what is said of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble.dealt_people import DealtPeople, dealt_people
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.rng import client_keys
from fedfleet.world.partitions import by_owner, iid, label_flip, make_shards

OWNER = np.repeat(np.arange(8), [3, 9, 20, 20, 20, 20, 20, 40])
TASK = Task("toy", Dataset(np.zeros((152, 1), np.float32), np.arange(152) % 3, 3, OWNER), np.zeros(0, np.int64), lambda: None, dict)


def test_other_partitions_have_no_people():
    assert dealt_people(iid(), TASK, 3, 5) is None
    assert dealt_people(label_flip(iid()), TASK, 3, 5) is None
    assert str(dealt_people(label_flip(by_owner()), TASK, 8, 5)) == "8 people as 8 clients"


@pytest.mark.parametrize(("clients", "key", "other"), [(7, "merge_owners", "split_owners"), (9, "split_owners", "merge_owners")])
def test_another_number_needs_the_word_for_it(clients, key, other):
    for words in ({}, {other: True}):
        with pytest.raises(BadInput, match=rf"world\.clients = {clients}: .*8 people.*leave world\.clients out.*{key} = true"):
            dealt_people(by_owner(**words), TASK, clients, 5)
    people = dealt_people(by_owner(**{key: True}), TASK, clients, 5)
    assert people is not None and (people.people, people.holders) == (8, clients) and not people.warnings


def test_people_who_are_filled_up_are_named_as_people():
    assert dealt_people(by_owner(), TASK, 8, 1).warnings == ()
    (warning,) = dealt_people(by_owner(), TASK, 8, 10).warnings
    assert "2 of 8 people have fewer than world.min_samples = 10" in warning
    assert "1 of 8 people has" in dealt_people(by_owner(), TASK, 8, 5).warnings[0]
    with pytest.raises(BadInput, match=r"8 clients of 8 people with at least 20 samples .*world\.min_samples"):
        make_shards(by_owner(), TASK, client_keys(8), 0, min_samples=20)


def test_the_text_counts_both():
    assert str(DealtPeople(36, 36, "client", 0, 5)) == "36 people as 36 clients"
    assert str(DealtPeople(36, 10, "client", 0, 5)) == "36 people merged into 10 clients"
    assert str(DealtPeople(1, 1200, "user", 0, 5)) == "1 person split into 1,200 users"


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(1, 30), st.integers(0, 3), st.booleans())
def test_merged_people_stay_whole_and_split_people_stay_apart(clients, seed, flipped):
    recipe = by_owner(merge_owners=True, split_owners=True)
    deal = label_flip(recipe) if flipped else recipe
    data = make_shards(deal, TASK, client_keys(clients), seed, min_samples=1)
    held = [np.concatenate([data.shard(c, split, 0) for split in ("train", "valid", "test")]) for c in range(clients)]
    assert sorted(np.concatenate(held).tolist()) == list(range(152)), "every sample has one client"
    people = [set(OWNER[rows].tolist()) for rows in held]
    if clients <= 8:
        assert sum(map(len, people)) == 8, "nobody is divided"
    else:
        assert all(len(one) == 1 for one in people), "nobody shares a client"
    again = make_shards(deal, TASK, client_keys(clients), seed, min_samples=1)
    assert all(np.array_equal(data.shard(c, "train", 0), again.shard(c, "train", 0)) for c in range(clients))
