"""The exact mean as a fold: what it takes in, what it averages, what it refuses."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.assemble import assemble
from fedfleet.app.spec import resolve
from fedfleet.core import aggregation
from fedfleet.core.aggregation import Entry
from fedfleet.core.errors import BadInput, Refused, RunFailed
from fedfleet.core.records import Context, Report, ServerState
from fedfleet.learn.folds import combine_updates, krum, mean, median, multi_krum, norm_bound, trimmed_mean, with_fold
from fedfleet.learn.zoo import fedavg, fedprox
from tests.learn.digits import models, trained

pytestmark = pytest.mark.slow

NOW = Context(0, 1.0, 0)


def report(value, weight=1.0, **leaves):
    return Report(0, 0, {"w": np.full(2, value, np.float32), **leaves}, weight, {})


def refused(fold, server, report):
    return aggregation.refusal(fold, aggregation.zero(fold, server), report, NOW)


def test_the_mean_weighs_reports():
    fold, server = mean(), ServerState({"w": np.zeros(2, np.float32)})
    acc = aggregation.zero(fold, server)
    for one in (report(1.0, 3.0), report(5.0, 1.0)):
        assert aggregation.refusal(fold, acc, one, NOW) is None
        acc = aggregation.add(fold, acc, one, NOW)
    assert aggregation.finish(fold, acc).mean["w"].tolist() == [2.0, 2.0]
    assert aggregation.finish(fold, aggregation.load(fold, server, aggregation.save(acc))).mean["w"].tolist() == [
        2.0,
        2.0,
    ]


def test_integer_leaves_are_checked_but_not_averaged():
    fold = mean()
    server = ServerState({"w": np.zeros(2, np.float32), "n": np.array([3])})
    acc = aggregation.add(fold, aggregation.zero(fold, server), report(1.0, n=np.array([9])), NOW)
    assert set(aggregation.finish(fold, acc).mean) == {"w"}
    assert refused(fold, server, report(1.0)) == "leaf 'n' is missing"


def test_only_what_travels_is_averaged():
    fold = mean(travels=lambda name: name == "w")
    server = ServerState({"w": np.zeros(2, np.float32), "head": np.zeros(3, np.float32)})
    assert refused(fold, server, report(1.0)) is None
    assert refused(fold, server, report(1.0, head=np.zeros(3, np.float32))) == "leaf 'head' is unknown"
    assert aggregation.finish(fold, aggregation.add(fold, aggregation.zero(fold, server), report(1.0), NOW)).mean["w"].tolist() == [
        1.0,
        1.0,
    ]


def test_more_weight_than_was_declared_is_a_refusal_and_leaves_the_sums_alone():
    fold, server = mean(total_weight=4.0), ServerState({"w": np.zeros(2, np.float32)})

    def one():
        return aggregation.add(fold, aggregation.zero(fold, server), report(1.0, 3.0), NOW)

    full = one()
    with pytest.raises(Refused, match="total_weight"):
        aggregation.add(fold, full, report(5.0, 3.0), NOW)
    assert aggregation.finish(fold, full).mean["w"].tolist() == [1.0, 1.0]
    with pytest.raises(Refused, match="total_weight"):
        aggregation.merge(fold, full, one())
    assert (full.count, aggregation.finish(fold, full).weight) == (1, 3.0)


def test_bound_and_total_weight_fix_the_resolution():
    server = ServerState({"w": np.zeros(2, np.float32)})
    assert aggregation.zero(mean(), server).scales["w"].power == 28
    fine = mean(bound=2.0**-4, total_weight=2.0**6)
    assert aggregation.zero(fine, server).scales["w"].power == 60
    tiny = math.ldexp(1.0, -60)
    done = aggregation.finish(fine, aggregation.add(fine, aggregation.zero(fine, server), report(tiny), NOW))
    assert done.mean["w"].tolist() == [tiny, tiny]


def test_nothing_travels_and_still_the_report_counts():
    fold, server = mean(travels=lambda name: False), ServerState({"w": np.zeros(2, np.float32)})
    empty = Report(0, 0, {}, 3.0, {})
    assert fold.like(server) == {}
    done = aggregation.finish(fold, aggregation.add(fold, aggregation.zero(fold, server), empty, NOW))
    assert (done.mean, done.weight, done.count) == ({}, 3.0, 1)
    assert refused(fold, server, report(1.0)) == "leaf 'w' is unknown"


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf, 2.0**25])
def test_an_impossible_weight_is_refused(weight):
    assert "its weight" in refused(mean(), ServerState({"w": np.zeros(2, np.float32)}), report(1.0, weight))


rows = st.lists(st.lists(st.floats(-8, 8, width=16), min_size=3, max_size=3), min_size=5, max_size=9)
law = settings(deadline=None, derandomize=True, max_examples=60)


@law
@given(rows)
def test_the_median_is_that_of_numpy(updates):
    assert combine_updates(median(), updates) == pytest.approx(np.median(updates, axis=0).tolist(), abs=1e-6)


@law
@given(rows, st.floats(0.0, 0.49))
def test_the_trimmed_mean_is_that_of_what_lies_between(updates, share):
    n = len(updates)
    cut = min(int(np.ceil(share * n - 1e-9)), (n - 1) // 2)
    wanted = np.sort(np.array(updates), axis=0)[cut : n - cut].mean(0)
    assert combine_updates(trimmed_mean(share), updates) == pytest.approx(wanted.tolist(), abs=1e-5)


@law
@given(rows)
def test_trimming_nothing_is_the_mean_and_trimming_all_but_one_the_median(updates):
    assert combine_updates(trimmed_mean(0.0), updates) == pytest.approx(combine_updates(mean(), updates), abs=1e-5)
    odd = updates if len(updates) % 2 else updates[1:]
    assert combine_updates(trimmed_mean(0.499), odd) == combine_updates(median(), odd)


def literal_krum(updates, f):
    """Blanchard et al., as it is written there."""
    result = []
    for i, u in enumerate(updates):
        others = sorted(float(((u - v) ** 2).sum()) for j, v in enumerate(updates) if j != i)
        result.append(sum(others[: len(updates) - f - 2]))
    return result


@law
@given(st.integers(0, 1000), st.integers(0, 2), st.integers(7, 11))
def test_krum_takes_the_report_of_the_smallest_score(seed, f, n):
    updates = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    scores = literal_krum(updates.astype(np.float64), f)
    assert combine_updates(krum(f), updates.tolist()) == pytest.approx(updates[np.argmin(scores)].tolist(), abs=1e-5)
    best = np.argsort(scores)[: n - f]
    assert combine_updates(multi_krum(f), updates.tolist()) == pytest.approx(updates[best].mean(0).tolist(), abs=1e-5)
    assert combine_updates(multi_krum(f, 1), updates.tolist()) == combine_updates(krum(f), updates.tolist())


def test_of_equals_the_earlier_task_wins_whatever_the_order_of_arrival():
    same = [Report(t, t, {"w": np.array(v, np.float32)}, 1.0, {}) for t, v in ((4, [1, 0]), (2, [0, 1]), (9, [1, 1]))]
    fold, server = krum(0), ServerState({"w": np.zeros(2, np.float32)})
    for order in (same, same[::-1]):
        acc = aggregation.zero(fold, server)
        for report in order:
            aggregation.add(fold, acc, report, Context(0, 0.0, report.client))
        assert aggregation.finish(fold, acc).mean["w"].tolist() == [0, 1], "all three have a neighbour at distance 1"


@law
@given(rows, st.floats(100, 1e6))
def test_a_minority_cannot_lead_them_out_of_the_honest_range(updates, far):
    honest, bad = np.array(updates), [[far] * 3, [-far] * 3]
    low, high = honest.min(0) - 1e-3, honest.max(0) + 1e-3
    n = len(updates) + 2
    for fold in (median(), trimmed_mean(2 / n), krum(2) if n >= 7 else krum(1), multi_krum(2)):
        got = np.array(combine_updates(fold, [*updates, *bad]))
        assert (got >= low).all() and (got <= high).all()
    assert np.linalg.norm(combine_updates(norm_bound(0.5), [*updates, *bad])) <= 0.5 + 1e-6


def test_weights_are_claims_that_robust_folds_do_not_believe():
    for fold in (median(), trimmed_mean(0.2), multi_krum(1)):
        acc = aggregation.zero(fold, ServerState({"w": np.zeros(1, np.float32)}))
        for i, weight in enumerate((1.0, 1.0, 1.0, 1.0, 1e6)):
            aggregation.add(fold, acc, Report(i, i, {"w": np.array([float(i)], np.float32)}, weight, {}), Context(0, 0.0, i))
        assert aggregation.finish(fold, acc).mean["w"][0] < 3.0


def test_krum_of_twenty_models_of_a_million_parameters_takes_well_under_a_second():
    updates = [{"w": np.random.default_rng(i).standard_normal(1_000_000, np.float32)} for i in range(20)]
    inside = [(Report(i, i, u, 1.0, {}), Context(0, 0.0, i)) for i, u in enumerate(updates)]
    began = time.process_time()
    krum(4).combine(inside)
    assert time.process_time() - began < 5.0  # by naive distances it is 19 s; a busy machine is granted much


# ---- around algorithms --------------------------------------------------------------------------------------------


def test_the_mean_as_a_fold_is_the_algorithm_itself_bit_for_bit():
    plain, chosen = trained(fedprox(mu=0.1)), trained(with_fold(fedprox(mu=0.1), mean()))
    assert models(plain[0]) == models(chosen[0])


def test_a_norm_that_nobody_reaches_changes_no_bit():
    assert models(trained(fedavg())[0]) == models(trained(with_fold(fedavg(), norm_bound(1e6)))[0])


def test_what_a_report_holds_and_how_it_is_bounded_stays_the_algorithm_s_affair():
    inner = fedavg(bound=4.0)
    chosen = with_fold(inner, median()).fold
    assert (chosen.like, chosen.bound, chosen.streams) == (inner.fold.like, 4.0, False)
    assert with_fold(inner, mean(bound=8.0)).fold.bound == 8.0


SPECIAL = {
    "combines reports in a way of its own": {"combine": lambda inside: {}},
    "divides its sum by a fixed number": {"denominator": 5.0},
    "several sums": {"enter": lambda w, s, c: Entry(w, sum=f"{c.staleness}")},
    "parts of reports": {"enter": lambda w, s, c: Entry(w, parts={"w": 0.5})},
}


@pytest.mark.parametrize("why", SPECIAL)
def test_a_fold_of_its_own_kind_is_not_replaced(why):
    own = replace(fedavg(), name="special", fold=replace(fedavg().fold, **SPECIAL[why]))
    with pytest.raises(BadInput, match=rf"^algorithm.fold: 'special' .*{why}.*; leave `fold` out$"):
        with_fold(own, median())
    if "combine" not in SPECIAL[why]:
        assert with_fold(own, norm_bound(2.0)).fold.clip == 2.0


def spec(fold, **more):
    return {
        "task": "digits_logreg",
        "world": {"clients": 8},
        "pace": {"cohort": 4},
        "algorithm": {"fold": fold},
        **more,
    }


def test_a_cohort_that_is_too_small_is_refused_before_the_run():
    with pytest.raises(BadInput, match=r"algorithm.fold: the fold needs 5 reports, but a round of 'readiness' has at most 4"):
        assemble(resolve(spec({"use": "krum", "f": 1})))
    assemble(resolve(spec({"use": "krum", "f": 0})))


def test_a_buffer_that_is_too_small_is_refused_before_the_run():
    few = {"pace": {"use": "buffered", "k": 4, "concurrency": 8}}
    with pytest.raises(BadInput, match=r"the fold needs 5 reports, but a round of 'buffered' has at most 4; raise pace.k"):
        assemble(resolve({**spec({"use": "krum", "f": 1}), **few}))


def test_edges_forward_sums_so_a_fold_that_collects_is_refused():
    users = {"world": {"clients": 12, "users": {"use": "groups", "count": 3}}, "edge": "hierfl", "pace": {"cohort": 2}}
    with pytest.raises(BadInput, match=r"edge.use = 'hierfl': the fold of 'fedavg' collects whole reports, but edges forward sums"):
        assemble(resolve({**spec("median"), **users}))
    assemble(resolve({**spec("norm_bound"), **users}))


def test_a_fold_is_the_same_for_all_clients():
    other = {"override": [{"clients": [1], "algorithm": {"fold": "median"}}]}
    with pytest.raises(BadInput, match=r"override\[0\].algorithm.fold: .*server"):
        assemble(resolve({**spec("mean"), "algorithm": {}, **other}))


# ---- folds of one's own ---------------------------------------------------------------------------------------------


def by_loss(weight, stats, context):
    return Entry(weight / (1.0 + stats["loss"]))


def test_entries_and_denominators_of_a_fold_of_ones_own_reach_the_algorithm():
    own = replace(mean(bound=8.0), enter=by_loss, ages=True, denominator=5.0)
    fold = with_fold(fedavg(), own).fold
    assert (fold.enter, fold.ages, fold.denominator, fold.bound) == (by_loss, True, 5.0, 8.0)
    assert with_fold(fedprox(), mean()).fold.enter is fedprox().fold.enter


def test_entries_of_ones_own_do_not_go_around_others():
    inner = with_fold(fedavg(), replace(mean(), ages=True))
    with pytest.raises(BadInput, match="weighs reports by how late they are"):
        with_fold(inner, replace(mean(), enter=by_loss))
    with pytest.raises(BadInput, match="combines reports in a way of its own"):
        with_fold(with_fold(fedavg(), median()), replace(mean(), enter=by_loss))
    with pytest.raises(BadInput, match="weighs reports in a way of its own"):
        with_fold(replace(fedavg(), fold=replace(mean(), enter=by_loss)), replace(mean(), denominator=2.0))


def test_a_fold_brings_no_noise():
    from fedfleet.core.noise import Noise

    with pytest.raises(BadInput, match="noise of its own"):
        with_fold(fedavg(), replace(mean(), noise=object.__new__(Noise)))


@pytest.mark.parametrize("shape", [(), (1,), (1, 2)])
def test_an_aggregate_that_would_be_broadcast_over_the_model_is_refused(shape):
    fold = replace(mean(), combine=lambda collected: {"w": np.zeros(shape, np.float32)})
    acc = aggregation.add(fold, aggregation.zero(fold, ServerState({"w": np.zeros(2, np.float32)})), report(1.0), NOW)
    with pytest.raises(RunFailed, match="leaf 'w' of shape"):
        aggregation.finish(fold, acc)
