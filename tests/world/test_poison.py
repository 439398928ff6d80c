"""Poisoned labels: attackers' training data alone, and never what anyone is judged by."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble, rebuild
from fedfleet.app.spec import resolve
from fedfleet.core.rng import attackers, client_keys
from fedfleet.tasks.digits import digits_logreg
from fedfleet.world.partitions import dirichlet, make_shards
from fedfleet.world.poison import label_flip, poison_task

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
        np.array_equal(data.shard(c, s, 0), plain.shard(c, s, 0))
        for c in range(CLIENTS)
        for s in ("train", "valid", "test")
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
