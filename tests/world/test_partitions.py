"""Partitions: every row is held once, nobody goes short, and skew is what was asked for."""

from dataclasses import replace

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, rebuild
from fedfleet.app.spec import resolve
from fedfleet.core.errors import BadInput
from fedfleet.core.parts import Dataset, Task
from fedfleet.core.rng import attackers, client_keys, stream
from fedfleet.tasks.digits import digits_logreg
from fedfleet.world.partitions import by_label, by_owner, dirichlet, iid, label_flip, make_shards, poison_task

SPLITS = ("train", "valid", "test")
RECIPES = {
    "iid": iid(),
    "dirichlet": dirichlet(0.3),
    "tiny alpha": dirichlet(1e-6),
    "by_label": by_label(2),
    "by_owner": by_owner(),
}


def toy_task(*, rows=1000, classes=10, people=15, holdout=100):
    """Balanced labels, made by people of unlike diligence."""
    rng = stream(1, "toy task")
    y = np.arange(rows) % classes
    owner = np.minimum(rng.geometric(0.2, rows), people) - 1
    dataset = Dataset(np.zeros((rows, 1), np.float32), y, classes, owner)
    return Task("toy", dataset, np.sort(rng.permutation(rows)[:holdout]), lambda: None, lambda seed: {})


def shards(data, clients):
    return [np.concatenate([data.shard(c, split, 0) for split in SPLITS]) for c in range(clients)]


@pytest.mark.parametrize("clients", [1, 7, 40, 180])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_row_is_held_exactly_once(recipe, clients):
    task = toy_task()
    data = make_shards(RECIPES[recipe], task, client_keys(clients), seed=4)
    held = np.concatenate([*shards(data, clients), data.holdout])
    assert np.array_equal(np.sort(held), np.arange(1000))
    assert np.array_equal(data.holdout, task.holdout)


@pytest.mark.parametrize("recipe", RECIPES)
def test_everyone_has_min_samples(recipe):
    data = make_shards(RECIPES[recipe], toy_task(), client_keys(100), seed=4, min_samples=8)
    assert min(map(len, shards(data, 100))) >= 8


@pytest.mark.parametrize("recipe", RECIPES)
def test_sizes_testers_and_splits_agree(recipe):
    data = make_shards(RECIPES[recipe], toy_task(), client_keys(60), seed=4)
    assert data.sizes(0).tolist() == [len(data.shard(c, "train", 0)) for c in range(60)]
    assert data.sizes(0).min() >= 1
    assert data.testers.tolist() == [c for c in range(60) if len(data.shard(c, "test", 0))]
    total = [sum(len(data.shard(c, split, 0)) for c in range(60)) for split in SPLITS]
    assert np.allclose(np.array(total) / 900, [0.6, 0.2, 0.2], atol=0.04)


def test_a_client_without_test_samples_is_no_tester():
    data = make_shards(iid(), toy_task(), client_keys(10), seed=4, split=(8, 2, 0))
    assert len(data.testers) == 0
    assert data.sizes(0).sum() == 720


def test_the_same_seed_deals_the_same_and_another_does_not():
    one, same, other = (shards(make_shards(dirichlet(0.5), toy_task(), client_keys(20), seed=s), 20) for s in (4, 4, 5))
    assert all(map(np.array_equal, one, same))
    assert not all(map(np.array_equal, one, other))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_renamed_client_takes_its_shard_along(recipe):
    keys, order = client_keys(20), stream(0, "names").permutation(20)
    before = shards(make_shards(RECIPES[recipe], toy_task(), keys, seed=4), 20)
    after = shards(make_shards(RECIPES[recipe], toy_task(), keys[order], seed=4), 20)
    assert all(np.array_equal(before[old], after[new]) for new, old in enumerate(order))


def skew(recipe, clients=20):
    """The mean share of a client's most frequent label."""
    task = toy_task(rows=5000)
    held = shards(make_shards(recipe, task, client_keys(clients), seed=4), clients)
    return np.mean([np.bincount(task.dataset.y[rows]).max() / len(rows) for rows in held])


def test_iid_clients_are_alike():
    data = make_shards(iid(), toy_task(), client_keys(7), seed=4)
    sizes = [len(s) for s in shards(data, 7)]
    assert max(sizes) - min(sizes) <= 1
    assert skew(iid()) < 0.2


def test_smaller_alpha_means_more_skew():
    result = [skew(dirichlet(alpha)) for alpha in (100.0, 1.0, 0.1)]
    assert result == sorted(result)
    assert result[0] < 0.2
    assert result[2] > 0.45


def test_an_alpha_so_small_that_all_draws_underflow_is_still_the_most_skewed():
    task = toy_task(rows=5000)
    rows = np.arange(5000)
    client = dirichlet(1e-6)(task.dataset, rows, 20, stream(4, "deal"))
    holders = [len(np.unique(client[task.dataset.y == label])) for label in range(10)]
    assert holders == [1] * 10
    assert len(np.unique(client)) > 1


@pytest.mark.parametrize(("labels", "clients"), [(1, 10), (2, 10), (2, 50), (5, 20)])
def test_by_label_gives_few_labels(labels, clients):
    # Blocks that divide the classes evenly hold one label each.
    task = replace(toy_task(holdout=0), holdout=np.zeros(0, np.int64))
    data = make_shards(by_label(labels), task, client_keys(clients), seed=4)
    for rows in shards(data, clients):
        assert len(np.unique(task.dataset.y[rows])) <= labels
        assert len(rows) == 1000 // clients


def test_fewer_clients_than_people_merges_whole_people():
    task = toy_task()
    held = shards(make_shards(by_owner(), task, client_keys(6), seed=4, min_samples=1), 6)
    people = [set(task.dataset.owner[rows].tolist()) for rows in held]
    assert sum(map(len, people)) == len(set().union(*people)) == 15
    assert all(2 <= len(p) <= 3 for p in people)


def test_as_many_clients_as_people_are_the_people():
    task = toy_task()
    held = shards(make_shards(by_owner(), task, client_keys(15), seed=4, min_samples=1), 15)
    assert sorted(len(set(task.dataset.owner[rows].tolist())) for rows in held) == [1] * 15


def test_more_clients_than_people_splits_those_with_most():
    task = toy_task()
    held = shards(make_shards(by_owner(), task, client_keys(30), seed=4, min_samples=1), 30)
    owners = task.dataset.owner
    assert all(len(np.unique(owners[rows])) == 1 for rows in held)
    parts = np.bincount([owners[rows[0]] for rows in held], minlength=15)
    rows_of = np.bincount(np.delete(owners, task.holdout), minlength=15)
    split = parts > 1
    assert parts[np.argmax(rows_of)] == parts.max() > 1
    # Nobody's parts are larger than the parts of a split person were before the last cut.
    assert (rows_of / parts).max() <= (rows_of[split] / (parts[split] - 1)).min()


def test_by_owner_needs_owners():
    task = toy_task()
    nameless = replace(task, dataset=replace(task.dataset, owner=None))
    with pytest.raises(BadInput, match="by_owner"):
        make_shards(by_owner(), nameless, client_keys(5), seed=4)


@pytest.mark.parametrize("recipe", RECIPES)
def test_too_many_clients_are_refused_with_the_numbers(recipe):
    with pytest.raises(BadInput, match=r"world.clients: 181 clients .* need 905 samples, .* leaves 900"):
        make_shards(RECIPES[recipe], toy_task(), client_keys(181), seed=4)


CLIENTS = 15
TASK = digits_logreg()(0)
KEYS = client_keys(CLIENTS)


def made(share=0.4):
    deal = label_flip(dirichlet(0.5), share)
    data = make_shards(deal, TASK, KEYS, 3)
    return data, poison_task(deal, TASK, data, KEYS, 3)


def test_who_holds_what_is_dealt_by_the_partition_inside():
    data, _ = made()
    plain = make_shards(dirichlet(0.5), TASK, KEYS, 3)
    assert all(
        np.array_equal(data.shard(c, s, 0), plain.shard(c, s, 0)) for c in range(CLIENTS) for s in ("train", "valid", "test")
    )


def test_only_the_training_labels_of_attackers_are_flipped():
    data, task = made()
    bad, true = attackers(3, KEYS, 0.4, CLIENTS), TASK.dataset.y
    assert bad.sum() == 6
    for client in range(CLIENTS):
        rows = data.shard(client, "train", 0)
        wanted = 9 - true[rows] if bad[client] else true[rows]
        assert np.array_equal(task.dataset.y[rows], wanted)
        for split in ("valid", "test"):
            assert np.array_equal(task.dataset.y[data.shard(client, split, 0)], true[data.shard(client, split, 0)])
    assert np.array_equal(task.dataset.y[task.holdout], true[task.holdout])
    assert task.dataset.x is TASK.dataset.x and not np.array_equal(true, task.dataset.y)


def test_a_partition_without_poison_leaves_the_task_alone():
    data = make_shards(dirichlet(0.5), TASK, KEYS, 3)
    assert poison_task(dirichlet(0.5), TASK, data, KEYS, 3) is TASK
    assert np.array_equal(made(0.0)[1].dataset.y, TASK.dataset.y)


POISON = {"use": "label_flip", "of": "dirichlet", "share": 0.4}
SPEC = {"seed": 3, "task": "digits_logreg", "world": {"clients": CLIENTS, "data": POISON}}


@pytest.mark.parametrize("users", [{}, {"users": {"use": "groups", "count": 5}}], ids=["flat", "users"])
def test_a_spec_poisons_the_same_rows_here_and_where_it_is_built_again(users):
    spec = resolve({**SPEC, "world": {**SPEC["world"], **users}, "pace": {"cohort": 4}})
    here, there = assemble(spec), rebuild(spec.toml())
    assert np.array_equal(here.task.dataset.y, there.task.dataset.y)
    flipped = np.flatnonzero(here.task.dataset.y != TASK.dataset.y)
    bad = np.flatnonzero(attackers(3, here.world.keys, 0.4, CLIENTS)).tolist()
    assert len(flipped) and set(flipped.tolist()) == {int(r) for c in bad for r in here.world.data.shard(c, "train", 0)}
