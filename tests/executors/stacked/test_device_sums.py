"""Sums where the updates lie have the integers of core.aggregation: every field of a fold, every refusal, in the same words."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Entry
from fedfleet.core.noise import Noise
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import content_hash
from fedfleet.executors.gather import fold_in_order
from fedfleet.executors.stacked.device_sums import DeviceSums, add_exactly, changes, peaks_and_squares
from fedfleet.learn.folds import mean

CLIENTS = 5
CPU = torch.device("cpu")
SERVER = ServerState({"a": np.zeros((3, 2), np.float32), "b": np.zeros(4, np.float32), "n": np.zeros(1, np.int64)})
WEIGHTS = (3.0, 0.5, 17.0, 1 / 3, 2.0)


def drawn(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def both_ways(fold, *, stacks=((0, 1, 2, 3, 4),), apart=False, spoil=None):
    """The same updates added up on the device, stack by stack, and folded as reports one by one."""
    update = {"a": drawn(1, CLIENTS, 3, 2), "b": drawn(2, CLIENTS, 4, scale=1e-3)}
    start = {n: drawn(9, *v.shape) for n, v in update.items()} if apart else None
    if spoil is not None:
        spoil(update)
    end = {n: torch.from_numpy(v if start is None else start[n] + v) for n, v in update.items()}
    begun = None if start is None else {n: torch.from_numpy(v) for n, v in start.items()}
    up = {n: (v if begun is None else v - begun[n]).numpy() for n, v in end.items()}
    contexts = [Context(c % 3, 1.0, c, task=c) for c in range(CLIENTS)]
    sums, why = DeviceSums(fold, fold.like(SERVER), CPU), {}
    for places in map(list, stacks):
        part = {n: v[places] for n, v in end.items()}
        first = None if begun is None else {n: v[places] for n, v in begun.items()}
        peaks, _ = changes(part, first, list(sums.scales), len(places)).read()
        entries = [fold.enter(WEIGHTS[c], {"steps": 2.0 + c}, contexts[c]) for c in places]
        weights = [WEIGHTS[c] for c in places]
        why |= zip(places, sums.add(part, first, weights, entries, peaks), strict=True)
    reports = [
        Report(c, c, {**{n: v[c] for n, v in up.items()}, "n": np.zeros(1, np.int64)}, WEIGHTS[c], {"steps": 2.0 + c})
        for c in range(CLIENTS)
    ]
    wanted = fold_in_order(fold, SERVER, reports, contexts)
    assert {c: f"client {c}: {w}" for c, w in why.items() if w} == {r.client: r.reason for r in wanted.rejected}
    return sums, aggregation.finish(fold, sums.close()), aggregation.finish(fold, wanted.accumulator)


def bits(aggregate):
    return [f"{n} {m.weight} {m.count} {content_hash(m.tree)}" for n, m in sorted(aggregate.sums.items())]


def element_shares(weight, stats, context):
    """A client that trained only some elements of one leaf, and half of another."""
    mask = (np.arange(6).reshape(3, 2) + context.client) % 3 > 0
    return Entry(weight, parts={"a": mask.astype(np.float64), "b": 0.5 if context.client % 2 else 1.0})


def by_stats(weight, stats, context):
    return Entry(weight / stats["steps"], factor=-1.0 / (1 + context.staleness), sum="even" if context.client % 2 else "")


PLAIN = mean()
FOLDS = {
    "the mean": PLAIN,
    "parts per element": replace(PLAIN, enter=element_shares),
    "parts of whole leaves": replace(PLAIN, enter=lambda w, s, c: Entry(w, parts={"b": 0.25 * (c.client % 2)})),
    "nobody gave this leaf anything": replace(PLAIN, enter=lambda w, s, c: Entry(w, parts={"b": 0.0})),
    "two limbs": replace(PLAIN, fine=lambda name: name == "b"),
    "two limbs and parts": replace(PLAIN, fine=lambda name: True, enter=element_shares),
    "factors, weights, names": replace(PLAIN, enter=by_stats),
    "a factor of nothing": replace(PLAIN, fine=lambda name: name == "a", enter=lambda w, s, c: Entry(w, factor=0.0)),
    "a denominator": replace(PLAIN, denominator=7.0),
    "a denominator and parts": replace(PLAIN, denominator=7.0, enter=element_shares),
    "a clip": replace(PLAIN, clip=0.75),
    "a clip and factors": replace(PLAIN, clip=0.5, enter=by_stats),
    "a clip, parts and two limbs": replace(PLAIN, clip=0.5, fine=lambda name: True, enter=element_shares),
    "a clip that nobody reaches": replace(PLAIN, clip=1e3),
    "a clip and noise to come": replace(PLAIN, clip=0.5, noise=Noise(1.0), denominator=7.0),
    "a clip finer than rounding": replace(PLAIN, clip=1e-9),
    "a bound for each leaf": replace(PLAIN, bound=lambda name: 8.0 if name == "a" else 2.0**-6),
}


@pytest.mark.parametrize("apart", [False, True], ids=["updates", "ends and beginnings"])
@pytest.mark.parametrize("stacks", [((0, 1, 2, 3, 4),), ((3, 1), (4, 0, 2))], ids=["one stack", "two stacks"])
@pytest.mark.parametrize("name", FOLDS)
def test_sums_on_the_device_have_the_bits_of_folding_reports(name, stacks, apart):
    _, mine, theirs = both_ways(FOLDS[name], stacks=stacks, apart=apart)
    if name == "a clip finer than rounding":  # which both refuse, in the same words
        assert mine is None and theirs is None
        return
    assert bits(mine) == bits(theirs)


def test_sums_that_noise_will_be_added_to_are_not_divided_on_the_device():
    sums, _, _ = both_ways(FOLDS["a clip and noise to come"])
    assert all(part.final_mean is None for part in sums.close().sums.values())


@pytest.mark.parametrize("name", FOLDS)
def test_sums_of_two_threads_together_have_the_same_bits(name):
    fold, apart = FOLDS[name], []
    update = {"a": torch.from_numpy(drawn(1, CLIENTS, 3, 2)), "b": torch.from_numpy(drawn(2, CLIENTS, 4, scale=1e-3))}
    for places in ([0, 3, 1], [4, 2]):
        sums, part = DeviceSums(fold, fold.like(SERVER), CPU), {n: v[places] for n, v in update.items()}
        entries = [fold.enter(WEIGHTS[c], {"steps": 2.0 + c}, Context(c % 3, 1.0, c, task=c)) for c in places]
        peaks, _ = changes(part, None, list(sums.scales), len(places)).read()
        sums.add(part, None, [WEIGHTS[c] for c in places], entries, peaks)
        apart.append(sums)
    apart[0].absorb(apart[1])
    _, wanted, _ = both_ways(fold)
    mine = aggregation.finish(fold, apart[0].close())
    assert (mine and bits(mine)) == (wanted and bits(wanted))


def test_two_threads_that_weigh_too_much_together_are_full():
    fold = replace(PLAIN, total_weight=5.0)
    both = [DeviceSums(fold, fold.like(SERVER), CPU) for _ in range(2)]
    part = {"a": torch.zeros(1, 3, 2), "b": torch.zeros(1, 4)}
    for sums in both:
        sums.add(part, None, [3.0], [Entry(3.0)], np.zeros((2, 1)))
    both[0].absorb(both[1])
    assert both[0].full


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2e3], ids=str)
@pytest.mark.parametrize("name", ["the mean", "parts per element", "two limbs", "factors, weights, names"])
def test_a_refused_client_weighs_nothing_and_is_refused_in_the_same_words(name, bad):
    def spoil(update):
        update["a"][2, 1, 0] = bad
        update["b"][4, 3] = bad

    _, mine, theirs = both_ways(FOLDS[name], spoil=spoil)
    assert mine.count == 3
    assert bits(mine) == bits(theirs)


@pytest.mark.parametrize(
    "enter",
    [
        lambda w, s, c: Entry(w, factor=1.5 if c.client == 1 else 1.0),
        lambda w, s, c: Entry(-1.0 if c.client == 1 else w),
        lambda w, s, c: Entry(w, sum="a|b" if c.client == 1 else ""),
    ],
    ids=["factor", "weight", "name"],
)
def test_an_impossible_entry_is_refused_in_the_same_words(enter):
    _, mine, theirs = both_ways(replace(PLAIN, enter=enter))
    assert mine.count == 4
    assert bits(mine) == bits(theirs)


@pytest.mark.parametrize("stacks", [((0, 1, 2, 3, 4),), ((0, 1), (2, 3, 4))], ids=["one stack", "two stacks"])
@pytest.mark.parametrize("total", [4.0, 20.5, 22.0])
def test_the_limit_of_weight_is_kept_over_stacks(total, stacks):
    _, mine, theirs = both_ways(replace(PLAIN, total_weight=total), stacks=stacks)
    assert bits(mine) == bits(theirs)


def test_named_sums_have_limits_of_their_own():
    fold = replace(PLAIN, total_weight=20.5, enter=lambda w, s, c: Entry(w, sum=str(c.client % 2)))
    _, mine, theirs = both_ways(fold)
    assert bits(mine) == bits(theirs)
    assert mine.count == 4  # 3 + 17 leave no room for 2 more


def test_sums_that_are_to_be_added_to_come_back_undivided():
    fold = PLAIN
    sums, _, theirs = both_ways(fold)
    other = aggregation.zero(fold, SERVER)
    extra = Report(9, 9, {"a": drawn(5, 3, 2), "b": drawn(6, 4), "n": np.zeros(1, np.int64)}, 4.0, {})
    aggregation.add(fold, other, extra, Context(0, 1.0, 9))
    fresh = DeviceSums(fold, fold.like(SERVER), CPU)
    fresh.flat, fresh.fine, fresh.heads = sums.flat, sums.fine, sums.heads
    for head in fresh.heads.values():
        head.final_mean = None
    result = aggregation.finish(fold, fresh.close(other))
    assert (result.count, result.weight) == (theirs.count + 1, theirs.weight + 4.0)
    by_hand = (theirs.mean["a"].astype(np.float64) * theirs.weight + 4.0 * extra.update["a"]) / result.weight
    assert np.allclose(result.mean["a"], by_hand, atol=1e-6)


def test_nobody_gives_no_aggregate():
    assert aggregation.finish(PLAIN, DeviceSums(PLAIN, SERVER.params, CPU).close()) is None


@settings(deadline=None, derandomize=True, max_examples=60)
@given(clients=st.integers(1, 4), size=st.integers(1, 9), power=st.integers(0, 30), seed=st.integers(0, 99))
def test_adding_exactly_is_rounding_each_product_once(clients, size, power, seed):
    change, factor = drawn(seed, clients, size), np.ldexp(drawn(seed + 1, clients).astype(np.float64), power)
    factor[0] = 0.0
    change[0] = np.nan  # refused: it must not matter
    total = torch.ones(size, dtype=torch.int64)
    add_exactly(total, torch.from_numpy(change), None, torch.from_numpy(factor))
    wanted = 1 + sum(np.rint(change[c].astype(np.float64) * factor[c]).astype(np.int64) for c in range(1, clients))
    assert total.tolist() == np.broadcast_to(wanted, size).tolist()


def test_peaks_and_distances_against_numpy():
    end, start = drawn(3, 4, 5, 2), drawn(4, 4, 5, 2)
    peak, squares = peaks_and_squares(torch.from_numpy(end), torch.from_numpy(start))
    change = (end - start).reshape(4, -1)
    assert np.array_equal(peak, np.abs(change).max(1))
    assert np.allclose(squares, np.square(change.astype(np.float64)).sum(1))
    two = {"w": torch.from_numpy(end), "none": torch.zeros(4, 0), "v": torch.from_numpy(start)}
    peaks, norms = changes(two, None, ["w", "none", "v"], 4).read()
    assert peaks.shape == (2, 4)  # an empty leaf has no peak
    wanted = np.sqrt(sum(np.square(v.astype(np.float64)).reshape(4, -1).sum(1) for v in (end, start)))
    assert np.allclose(norms, wanted)
    assert [v.shape for v in changes(two, None, [], 4).read()] == [(0, 4), (4,)]


def test_looking_at_doubles_leaves_them_as_they_are():
    update = torch.full((2, 3), 0.5, dtype=torch.float64)
    peaks_and_squares(update, None)
    assert (update == 0.5).all()
