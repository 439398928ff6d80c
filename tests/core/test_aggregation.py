"""Folds as data: whatever a feature changes in one, everyone who folds obeys, and no order of arrival changes a bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.core import aggregation
from fedfleet.core.aggregation import Entry, Fold
from fedfleet.core.errors import Refused
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.core.trees import content_hash

SERVER = ServerState({"w": np.zeros(3, np.float32), "v": np.zeros((2, 2), np.float32), "n": np.array(3)})
MEAN = Fold(lambda server: server.params)


def report(task, value, weight=1.0, **stats):
    update = {"w": np.full(3, value, np.float32), "v": np.full((2, 2), value, np.float32), "n": np.array(3)}
    return Report(task, task, update, weight, stats)


def context(task, staleness=0, **given):
    return Context(staleness, 1.0, task, given, task)


def folded(fold, pairs):
    acc = aggregation.zero(fold, SERVER)
    for one, where in pairs:
        assert aggregation.refusal(fold, acc, one, where) is None
        aggregation.add(fold, acc, one, where)
    return acc


def test_the_plain_fold_is_the_weighted_mean_and_knows_its_weight():
    got = aggregation.finish(MEAN, folded(MEAN, [(report(0, 1.0, 3.0), context(0)), (report(1, 5.0), context(1))]))
    assert got.mean["w"].tolist() == [2.0] * 3
    assert set(got.mean) == {"w", "v"}, "integers are not averaged"
    assert (got.weight, got.count) == (4.0, 2)


def test_a_factor_scales_the_update_and_not_its_weight():
    damped = replace(MEAN, enter=lambda weight, stats, c: Entry(weight, factor=0.5**c.staleness))
    got = aggregation.finish(damped, folded(damped, [(report(0, 4.0), context(0)), (report(1, 4.0), context(1, 2))]))
    assert got.mean["w"].tolist() == [(4.0 + 1.0) / 2] * 3
    assert got.weight == 2.0


def test_a_weight_may_come_from_statistics_and_settings():
    fold = replace(MEAN, enter=lambda weight, stats, c: Entry(stats["steps"] * c.settings["portion"]))
    pairs = [(report(0, 1.0, steps=2.0), context(0, portion=0.5)), (report(1, 4.0, steps=4.0), context(1, portion=0.5))]
    got = aggregation.finish(fold, folded(fold, pairs))
    assert got.mean["w"].tolist() == [3.0] * 3
    assert got.weight == 3.0


def test_what_a_report_did_not_train_weighs_nothing_whatever_the_fold_gives():
    half = replace(MEAN, enter=lambda weight, stats, c: Entry(weight, parts={"w": 0.5, "v": 1.0}))
    untrained = np.array([[1.0, 0.0], [1.0, 0.0]])
    pairs = [(replace(report(0, 6.0), parts={"w": 0.0, "v": untrained}), context(0)), (report(1, 2.0), context(1))]
    for fold in (MEAN, half):
        got = aggregation.finish(fold, folded(fold, pairs))
        assert got.mean["w"].tolist() == [2.0] * 3
        assert got.mean["v"].tolist() == [[4.0, 2.0], [4.0, 2.0]]
    only = aggregation.finish(MEAN, folded(MEAN, pairs[:1]))
    assert only.mean["w"].tolist() == [0.0] * 3 and only.mean["v"].tolist() == [[6.0, 0.0], [6.0, 0.0]]


def test_a_fold_that_collects_says_that_it_cannot_weigh_parts():
    fold = replace(MEAN, combine=lambda collected: collected[0][0].update)
    why = aggregation.check_and_add(fold, aggregation.zero(fold, SERVER), replace(report(0, 1.0), parts={"w": 0.0}), context(0))
    assert why is not None and "a fold that collects cannot weigh" in why


def test_parts_leave_the_denominator_of_their_leaf_and_of_their_elements():
    def enter(weight, stats, c):
        return Entry(weight, parts={"w": 0.0} if c.task == 0 else {"v": np.array([[1.0, 0.0], [0.5, 1.0]])})

    fold = replace(MEAN, enter=enter)
    got = aggregation.finish(fold, folded(fold, [(report(0, 2.0), context(0)), (report(1, 6.0), context(1))]))
    assert got.mean["w"].tolist() == [6.0] * 3, "only the second trained it"
    assert got.mean["v"].ravel().tolist() == pytest.approx([4.0, 2.0, (2.0 + 3.0) / 1.5, 4.0])


def test_what_nobody_trained_stays_where_it_is():
    fold = replace(MEAN, enter=lambda weight, stats, c: Entry(weight, parts={"w": 0.0, "v": np.zeros((2, 2))}))
    got = aggregation.finish(fold, folded(fold, [(report(0, 2.0, 7.0), context(0)), (report(1, 3.0, 0.1), context(1))]))
    assert not got.mean["w"].any()
    assert not got.mean["v"].any()


def test_sums_stand_side_by_side_by_name():
    fold = replace(MEAN, enter=lambda weight, stats, c: Entry(weight, sum=f"stale {c.staleness}"))
    pairs = [(report(i, float(i)), context(i, i % 2)) for i in range(4)]
    got = aggregation.finish(fold, folded(fold, pairs))
    assert got.mean == {}
    assert {n: (m.tree["w"][0], m.count) for n, m in got.sums.items()} == {"stale 0": (1.0, 2), "stale 1": (2.0, 2)}
    assert (got.count, got.weight) == (4, 4.0)


def test_a_fixed_denominator_takes_the_place_of_the_weights():
    fold = replace(MEAN, denominator=8.0)
    got = aggregation.finish(fold, folded(fold, [(report(0, 4.0), context(0)), (report(1, 4.0), context(1))]))
    assert got.mean["w"].tolist() == [1.0] * 3


def test_a_collecting_fold_gets_all_reports_in_the_order_of_their_tasks():
    def median(pairs):
        assert [r.task for r, _ in pairs] == sorted(r.task for r, _ in pairs)
        return {n: np.median([r.update[n] for r, _ in pairs], axis=0).astype(np.float32) for n in ("w", "v")}

    fold = replace(MEAN, combine=median)
    assert not fold.streams
    pairs = [(report(i, v), context(i)) for i, v in ((2, 9.0), (0, 1.0), (1, 2.0))]
    got = aggregation.finish(fold, folded(fold, pairs))
    assert got.mean["w"].tolist() == [2.0] * 3
    spoilt = report(3, float("nan"))
    assert aggregation.refusal(fold, aggregation.zero(fold, SERVER), spoilt, context(3)) == "leaf 'w' is not finite"
    kept = aggregation.load(fold, SERVER, aggregation.save(folded(fold, pairs)))
    assert aggregation.finish(fold, kept).mean["w"].tolist() == [2.0] * 3
    assert kept.collected[0][1] == context(0) or kept.collected[0][1].client == 0


RULES = {
    "mean": MEAN,
    "factor": replace(MEAN, enter=lambda w, s, c: Entry(w, factor=1 / (1 + c.staleness))),
    "named": replace(MEAN, enter=lambda w, s, c: Entry(w, sum=str(c.staleness))),
    "parts": replace(MEAN, enter=lambda w, s, c: Entry(w, parts={"w": float(c.task % 2), "v": np.eye(2) * (c.task % 3) / 2})),
    "fine": replace(MEAN, fine=lambda name: name == "v"),
    "fixed": replace(MEAN, denominator=3.0),
}


def bits(fold, acc):
    got = aggregation.finish(fold, acc)
    return [(n, m.weight, m.count, content_hash(m.tree)) for n, m in sorted(got.sums.items())]


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.sampled_from(sorted(RULES)),
    st.lists(st.tuples(st.floats(-9, 9), st.floats(0.1, 50), st.integers(0, 3)), min_size=2, max_size=9),
    st.randoms(use_true_random=False),
)
def test_no_order_chunking_or_forwarding_changes_a_bit(rule, given_reports, random):
    fold = RULES[rule]
    pairs = [(report(i, v, w), context(i, s)) for i, (v, w, s) in enumerate(given_reports)]
    whole = bits(fold, folded(fold, pairs))
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert bits(fold, folded(fold, shuffled)) == whole
    cut = random.randrange(1, len(pairs))
    parts = [aggregation.load(fold, SERVER, aggregation.save(folded(fold, p))) for p in (shuffled[:cut], shuffled[cut:])]
    edges = [Report(i, i, {}, 1.0, {}, forwarded=p) for i, p in enumerate(parts)]
    assert bits(fold, folded(fold, [(e, context(0)) for e in edges])) == whole


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (Entry(1.0, factor=1.5), "its factor 1.5 is not in"),
        (Entry(1.0, factor=float("nan")), "its factor nan"),
        (Entry(0.0), "its weight 0.0 is not in"),
        (Entry(1.0, sum="a|b"), "names hold no |"),
    ],
)
def test_an_entry_that_could_spoil_the_sums_is_refused(entry, says):
    fold = replace(MEAN, enter=lambda weight, stats, c: entry)
    assert says in aggregation.refusal(fold, aggregation.zero(fold, SERVER), report(0, 1.0), context(0))


def test_forwarded_sums_that_no_honest_reports_could_make_are_refused():
    honest = folded(MEAN, [(report(0, 3.0, 2.0), context(0))])
    acc = aggregation.zero(MEAN, SERVER)
    assert aggregation.refusal(MEAN, acc, Report(0, 0, {}, 1.0, {}, forwarded=honest), context(0)) is None
    honest.sums[""].sums["w"] += np.int64(2) ** 61
    why = aggregation.refusal(MEAN, acc, Report(0, 0, {}, 1.0, {}, forwarded=honest), context(0))
    assert why == "leaf 'w' of its sums reaches further than reports of weight 2 can"
    heavy = folded(MEAN, [(report(0, 3.0, 2.0), context(0))])
    heavy.sums[""].weight = 1 << 90
    assert "is not in [0, 1.67772e+07]" in aggregation.refusal(MEAN, acc, Report(0, 0, {}, 1.0, {}, forwarded=heavy), context(0))
    other = aggregation.zero(MEAN, ServerState({"w": np.zeros(2, np.float32)}))
    assert "another shape" in aggregation.refusal(MEAN, acc, Report(0, 0, {}, 1.0, {}, forwarded=other), context(0))


def test_too_much_weight_refuses_the_report_and_not_the_run():
    fold = replace(MEAN, total_weight=4.0)
    acc = folded(fold, [(report(0, 1.0, 3.0), context(0))])
    with pytest.raises(Refused, match="would exceed 4"):
        aggregation.add(fold, acc, report(1, 9.0, 2.0), context(1))
    assert aggregation.finish(fold, acc).mean["w"].tolist() == [1.0] * 3
    named = replace(fold, enter=lambda weight, stats, c: Entry(weight, sum=str(c.task)))
    both = folded(named, [(report(0, 1.0, 3.0), context(0)), (report(1, 1.0, 3.0), context(1))])
    assert both.count == 2, "each sum has a limit of its own"


def test_a_clip_scales_long_updates_down_and_leaves_short_ones_alone():
    clipped = replace(MEAN, clip=1.0)
    long, short = report(0, 5.0), report(1, 0.125)
    one = aggregation.finish(clipped, folded(clipped, [(long, context(0))])).mean
    norm = np.sqrt(sum(float((v.astype(np.float64) ** 2).sum()) for v in one.values()))
    assert norm == pytest.approx(1.0, rel=1e-6) and norm <= 1.0 + 1e-7
    same = aggregation.finish(clipped, folded(clipped, [(short, context(1))])).mean
    assert same["w"].tolist() == short.update["w"].tolist()


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.tuples(st.floats(-900, 900, width=32), st.floats(0.1, 9)), min_size=1, max_size=6), st.floats(0.01, 50))
def test_a_clipped_fold_streams_in_any_order(given_, clip):
    fold = replace(MEAN, clip=clip)
    pairs = [(report(i, value, weight), context(i)) for i, (value, weight) in enumerate(given_)]
    whole = aggregation.finish(fold, folded(fold, pairs)).mean
    assert content_hash(aggregation.finish(fold, folded(fold, pairs[::-1])).mean) == content_hash(whole)
    assert np.sqrt(sum(float((v.astype(np.float64) ** 2).sum()) for v in whole.values())) <= clip * (1 + 1e-6)


def test_what_a_collecting_fold_makes_is_the_unnamed_sum_too():
    fold = replace(MEAN, combine=lambda inside: dict(inside[0][0].update))
    got = aggregation.finish(fold, folded(fold, [(report(0, 2.0, 3.0), context(0))]))
    assert got.sums[""].tree is got.mean
    assert (got.sums[""].weight, got.sums[""].count) == (3.0, 1)
