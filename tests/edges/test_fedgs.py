"""FedGS: choices that only get closer to the target, and devices that walk through their rows in order."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedfleet.app.spec.parameter_text import describe
from fedfleet.app.spec.table_checks import build_part, resolve_part
from fedfleet.core.edges import Abilities, Visit
from fedfleet.core.errors import BadInput
from fedfleet.core.part_facts import LabelsOf, Prior
from fedfleet.core.rng import client_keys
from fedfleet.edges.fedgs import CURSOR, EPOCH, fedgs, match_devices, match_path, shuffle_rows

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
CLASSES = 4


@st.composite
def cases(draw, most=9):
    """Histograms of whole numbers, a target that need not be reachable, and how many devices are wanted."""
    n, c = draw(st.integers(1, most)), draw(st.integers(1, 5))
    histograms = draw(hnp.arrays(np.int64, (n, c), elements=st.integers(0, 8)))
    target = draw(hnp.arrays(np.float64, c, elements=st.floats(-10, 60)))
    return histograms, target, draw(st.integers(0, n))


def distance(histograms, target, choice):
    return float(((choice @ histograms - target) ** 2).sum())


@LAWS
@given(cases())
def test_every_swap_comes_closer_and_keeps_the_number(case):
    histograms, target, wanted = case
    path = list(match_path(histograms, target, wanted))
    seen = [d for _, d in path]
    assert all(after < before for before, after in pairwise(seen))
    for choice, said in path:
        assert choice.sum() == wanted
        assert said == pytest.approx(distance(histograms, target, choice), abs=1e-9)
    final = match_devices(histograms, target, wanted)
    assert np.array_equal(final, path[-1][0])
    assert distance(histograms, target, final) <= seen[0]


@LAWS
@given(cases(most=7))
def test_never_better_than_the_best_choice(case):
    histograms, target, wanted = case
    choices = [np.isin(np.arange(len(histograms)), c) for c in combinations(range(len(histograms)), wanted)]
    best = min(distance(histograms, target, c) for c in choices)
    assert distance(histograms, target, match_devices(histograms, target, wanted)) >= best - 1e-9


def test_a_reachable_target_is_often_reached_and_always_nearer_than_chance():
    result = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        histograms = rng.multinomial(32, rng.dirichlet(np.full(10, 0.3), 35))
        target = np.full(10, 8 * 3.2)
        mine = distance(histograms, target, match_devices(histograms, target, 8))
        chance = [distance(histograms, target, np.isin(np.arange(35), rng.permutation(35)[:8])) for _ in range(200)]
        result.append(mine / np.mean(chance))
    assert max(result) < 0.6 and np.mean(result) < 0.25


@LAWS
@given(hnp.arrays(np.int64, 4, elements=st.integers(0, 9)), st.integers(2, 8), st.data())
def test_among_identical_devices_every_choice_is_as_good(histogram, n, data):
    wanted = data.draw(st.integers(1, n))
    every = np.tile(histogram, (n, 1))
    path = list(match_path(every, np.full(4, 7.0), wanted))
    assert len(path) == 1 and np.array_equal(np.flatnonzero(path[0][0]), np.arange(wanted))


@LAWS
@given(st.integers(0, 10_000), st.integers(2, 12))
def test_renaming_devices_renames_the_choice(seed, n):
    rng = np.random.default_rng(seed)
    histograms, target = rng.uniform(0, 9, (n, 5)), rng.uniform(0, 30, 5)  # real numbers: no ties
    order, wanted = rng.permutation(n), int(rng.integers(n + 1))
    assert np.array_equal(match_devices(histograms[order], target, wanted), match_devices(histograms, target, wanted)[order])


def labels_of(rows):
    return rows % CLASSES


def prior():
    return np.full(CLASSES, 1 / CLASSES)


def visit(sizes, memory=None, *, task=0, seed=3):
    """Devices of these sizes; their rows are numbered through, and row r has label r mod 4."""
    n, ends = len(sizes), np.cumsum(sizes)
    rows = tuple(np.arange(end - size, end) for end, size in zip(ends.tolist(), sizes, strict=True))
    able = Abilities(np.ones(n), np.ones(n), np.ones(n))
    return Visit(1, task, task, seed, np.arange(n), client_keys(n), able, rows, memory or {})


def rule(**given_):
    return fedgs(**given_, labels=labels_of, prior=prior)


def turns(plan, sizes, count):
    """Turns in succession, each with the memory of the one before."""
    memory, made = {}, []
    for task in range(count):
        made.append(plan([visit(sizes, memory, task=task)])[0])
        memory = {**made[-1].memory, "slot": np.zeros(1), "seconds": np.ones(1)}
    return made


def walks(made, devices):
    """The rows that each device trained on, one after the other."""
    result = [[] for _ in range(devices)]
    for turn in made:
        for sync in turn.syncs:
            for slot, rows in zip(sync.slots.tolist(), sync.rows, strict=True):
                result[slot] += rows.tolist()
    return result


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    st.lists(st.integers(0, 23), min_size=1, max_size=9).filter(any),
    st.integers(1, 5), st.integers(1, 7), st.integers(1, 9), st.data(),
)  # fmt: skip
def test_every_row_is_visited_once_in_each_pass(sizes, per_sync, batch, syncs, data):
    plan = rule(per_sync=per_sync, random=data.draw(st.integers(0, per_sync)), syncs=syncs, batch=batch).plan
    made = turns(plan, sizes, 4)
    first = visit(sizes)
    for turn in made:
        assert all(np.array_equal(a, b) for a, b in zip(turn.rows, first.rows, strict=True))
        assert len(turn.syncs) == syncs and turn.weight == per_sync
        for sync in turn.syncs:
            assert len(sync.slots) == min(per_sync, sum(size > 0 for size in sizes)) and sync.steps == 1
            assert all(0 < len(rows) <= batch for rows in sync.rows)
    for k, walk in enumerate(walks(made, len(sizes))):
        passes = [walk[at : at + sizes[k]] for at in range(0, len(walk), sizes[k] or 1)]
        for epoch, rows in enumerate(passes):
            assert rows == shuffle_rows(first, k, epoch)[: len(rows)].tolist()
        assert made[-1].memory[EPOCH][k] * sizes[k] + made[-1].memory[CURSOR][k] == len(walk)


def test_passes_are_in_different_orders_and_devices_do_not_share_them():
    one = visit([20, 20])
    assert sorted(shuffle_rows(one, 0, 0)) == sorted(shuffle_rows(one, 0, 1)) == one.rows[0].tolist()
    assert shuffle_rows(one, 0, 0).tolist() != shuffle_rows(one, 0, 1).tolist()
    assert (shuffle_rows(one, 0, 0) + 20).tolist() != shuffle_rows(one, 1, 0).tolist()


def test_the_same_visit_gives_the_same_turn_and_memory_is_not_written_into():
    plan = rule(per_sync=3, random=1, syncs=6, batch=4).plan
    sizes = [9, 14, 5, 22, 8]
    memory = turns(plan, sizes, 1)[0].memory
    before = {name: leaf.copy() for name, leaf in memory.items()}
    one, two = (plan([visit(sizes, memory, task=1)])[0] for _ in range(2))
    assert all(np.array_equal(memory[name], before[name]) for name in before)
    for a, b in zip(one.syncs, two.syncs, strict=True):
        assert np.array_equal(a.slots, b.slots)
        assert all(np.array_equal(x, y) for x, y in zip(a.rows, b.rows, strict=True))
    other = plan([visit(sizes, memory, task=2)])[0]
    assert any(not np.array_equal(a.slots, b.slots) for a, b in zip(one.syncs, other.syncs, strict=True))


def test_edges_do_not_depend_on_each_other():
    plan = rule(per_sync=2, random=1, syncs=4, batch=4).plan
    several = plan([visit([9, 9, 9]), visit([4, 8, 12, 3], task=5)])
    alone = plan([visit([4, 8, 12, 3], task=5)])[0]
    assert [s.slots.tolist() for s in several[1].syncs] == [s.slots.tolist() for s in alone.syncs]


def test_chosen_batches_look_more_like_the_world_than_random_ones():
    rng = np.random.default_rng(0)
    kinds = rng.dirichlet(np.full(10, 0.2), 35)
    world = np.concatenate([rng.choice(10, 60, p=kind) for kind in kinds])
    shares = np.bincount(world, minlength=10) / len(world)
    apart = []
    for random in (2, 10):
        made = fedgs(random=random, labels=lambda rows: world[rows], prior=lambda: shares).plan([visit([60] * 35)])[0]
        apart.append(made.stats["label_distance"])
        assert len(made.syncs) == 50 and all(len(s.slots) == 10 for s in made.syncs)
    assert apart[0] < 0.6 * apart[1]


def test_all_of_few_devices_take_part_and_empty_ones_never():
    made = rule(syncs=3, batch=8).plan([visit([5, 0, 7])])[0]
    assert all(s.slots.tolist() == [0, 2] for s in made.syncs)


def test_rows_that_went_away_begin_a_new_pass():
    memory = {EPOCH: np.array([2, 0]), CURSOR: np.array([12, 0])}
    made = rule(syncs=1, batch=4).plan([visit([10, 4], memory)])[0]
    assert made.syncs[0].rows[0].tolist() == shuffle_rows(visit([10, 4]), 0, 3)[:4].tolist()


def test_labels_and_prior_are_provided_and_no_spec_can_say_them():
    assert set(describe(fedgs)) == {"per_sync", "random", "syncs", "batch"}
    table = resolve_part("edges", {"use": "fedgs", "syncs": 2}, "edge")
    made = build_part("edges", table, {LabelsOf: labels_of, Prior: prior})
    assert len(made.plan([visit([8, 8])])[0].syncs) == 2
    with pytest.raises(BadInput, match="per_sync"):
        rule(per_sync=2, random=3)
