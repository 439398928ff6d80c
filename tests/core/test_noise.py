"""Noise in sums: addressed, Gaussian, and in a tree exactly that of the nodes that a commit is made of."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedfleet.core import aggregation
from fedfleet.core.errors import RunFailed
from fedfleet.core.noise import Noise, add_noise, normals, seeded_key, terms
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.learn.folds import mean

KEY = seeded_key(3)
SERVER = ServerState({"w": np.zeros(40, np.float32), "v": np.zeros((3, 3), np.float32)})


def sums(noise=None, commit=1, key=KEY, fold=None):
    fold = fold or mean()
    update = {n: np.full(v.shape, 0.25, np.float32) for n, v in SERVER.params.items()}
    acc = aggregation.add(fold, aggregation.zero(fold, SERVER), Report(0, 0, update, 1.0, {}), Context(0, 0.0, 0))
    acc = acc if noise is None else add_noise(noise, acc, key, commit)
    return np.concatenate([acc.sums[""].sums[n].reshape(-1) for n in ("w", "v")])


def test_draws_are_normal_independent_and_addressed():
    drawn = normals(KEY, "w", 0, 1, 100_001)
    assert len(drawn) == 100_001
    assert abs(drawn.mean()) < 0.02 and abs(drawn.std() - 1.0) < 0.02
    assert abs((np.abs(drawn) < 1.0).mean() - math.erf(1 / math.sqrt(2))) < 0.01
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.02
    assert np.array_equal(drawn[:1000], normals(KEY, "w", 0, 1, 1000)), "a shorter draw is its beginning"
    others = [normals(*a, 1000) for a in ((KEY, "w", 0, 2), (KEY, "w", 1, 1), (KEY, "v", 0, 1), (seeded_key(4), "w", 0, 1))]
    assert all(abs(np.corrcoef(drawn[:1000], other)[0, 1]) < 0.15 for other in others)


@pytest.mark.parametrize("count", range(1, 70))
def test_the_noise_after_a_commit_is_that_of_the_nodes_it_is_made_of(count):
    """All terms up to a commit together: whole nodes of a binary tree that cover its commits exactly once, each with sign 1."""
    held = {}
    for commit in range(1, count + 1):
        for sign, level, index in terms("tree", commit):
            held[level, index] = held.get((level, index), 0) + sign
    used = sorted(node for node, times in held.items() if times)
    assert all(held[node] == 1 for node in used)
    assert sorted(c for level, index in used for c in range(index << level, (index + 1) << level)) == list(range(count))
    assert len(used) == bin(count).count("1")


def test_fresh_noise_is_new_at_every_commit():
    assert [terms("fresh", c)[0][2] for c in (1, 2, 3)] == [1, 2, 3]
    plain = sums()
    first, second = (sums(Noise(1.0), c) - plain for c in (1, 2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.5 and not np.array_equal(first, second)


def test_the_standard_deviation_is_in_units_of_the_update():
    wide = ServerState({"w": np.zeros(50_000, np.float32)})
    fold = mean()
    acc = aggregation.zero(fold, wide)
    aggregation.add(fold, acc, Report(0, 0, {"w": np.zeros(50_000, np.float32)}, 1.0, {}), Context(0, 0.0, 0))
    noised = aggregation.finish(replace(fold, denominator=4.0), add_noise(Noise(0.5), acc, KEY, 1))
    assert noised.mean["w"].std() == pytest.approx(0.5 / 4.0, rel=0.02)


def test_tree_noise_telescopes_to_the_last_bit():
    """After eight commits everything but one node has cancelled: integers, not nearly."""
    plain, noise = sums(), Noise(0.7, "tree")
    total = sum(sums(noise, commit) - plain for commit in range(1, 9))
    leaves = [np.rint(normals(KEY, f"|{n}", 3, 0, v.size) * math.ldexp(0.7, 28)) for n, v in SERVER.params.items()]
    assert np.array_equal(total, np.concatenate(leaves).astype(np.int64))


def test_another_key_gives_other_noise_and_the_same_key_the_same():
    assert np.array_equal(sums(Noise(1.0)), sums(Noise(1.0)))
    assert not np.array_equal(sums(Noise(1.0)), sums(Noise(1.0), key=seeded_key(4)))


def test_noise_that_cannot_fit_is_refused():
    with pytest.raises(RunFailed, match=r"raise algorithm\.bound"):
        sums(Noise(1.0), fold=mean(bound=2.0**-20))
