"""Which arm is recommended, by which aim, and with what uncertainty."""

from __future__ import annotations

import numpy as np
import pytest

from fedfleet.app.studies.compare.arms import arms
from fedfleet.app.studies.compare.recommendation import recommend
from fedfleet.app.studies.compare.records import Arm
from fedfleet.core.errors import BadInput
from fedfleet.measure.statistics.blocked_design import POOLED
from fedfleet.measure.statistics.paired_tests import paired_test
from tests.app.studies.compare.made import hurried, made, waiting

SEEDS = range(1, 6)
SHIFT = [0.0, 0.05, -0.04, 0.08, -0.06]  # of each seed, the same for all arms
REST = {"a": [1, -2, 0, 1, 0], "b": [-1, 1, 1, -2, 1], "c": [0, 1, -1, 1, -1]}


def arm(name, mean, *, spread=0.01, end=3600.0, seeds=SEEDS, never=0, rest=None, **more):
    """Runs of an arm: every seed has its shift and a small rest; the first model comes after a minute."""
    runs = []
    for i, seed in enumerate(seeds):
        value = mean + SHIFT[i] + spread * (REST[name[0]] if rest is None else rest)[i]
        metrics = {"participation": {"never": never}, **more.pop("metrics", {})}
        points = ((60.0, 0.2), (end, value))
        runs.append(made(seed, points, name=f"{name}{seed}", metrics=metrics, world={"clients": 36}, choose={"use": name}, **more))
    return Arm(name, {}, tuple(runs))


def test_the_best_arm_is_recommended_with_its_distance_to_the_closest():
    found = recommend([arm("a", 0.7), arm("b", 0.6), arm("c", 0.5)])
    assert (found.arm, found.against, found.decided, found.method) == ("a", "b", True, POOLED)
    assert found.difference == pytest.approx(0.1) and found.low > 0 and found.p < 0.05 and found.more_seeds is None
    assert all(fact in found.sentence for fact in ("Use 'a':", "10.0 points more than 'b'", "closest of 2 others", "5 seeds"))


def test_pooled_residuals_are_sharper_than_a_pair_alone():
    found = recommend([arm("a", 0.7), arm("b", 0.6), arm("c", 0.5)])
    pair = next(pair for pair in found.pairs if pair.other == "b")
    values = [[m + SHIFT[i] + 0.01 * REST[k][i] for i in range(5)] for k, m in (("a", 0.7), ("b", 0.6))]
    alone = paired_test(*values)
    assert pair.paired.difference == pytest.approx(alone.difference) and pair.paired.p < alone.p


def test_what_is_not_decided_says_how_many_seeds_would():
    found = recommend([arm("a", 0.62, spread=0.02), arm("b", 0.6, spread=0.02), arm("c", 0.5, spread=0.02)])
    assert (found.arm, found.decided, found.against) == ("a", False, "b")
    assert found.low < 0 < found.high and found.more_seeds > 0
    assert "for now" in found.sentence and f"about {found.more_seeds} more seeds would decide it" in found.sentence
    closer = recommend([arm("a", 0.61, spread=0.02), arm("b", 0.6, spread=0.02), arm("c", 0.5, spread=0.02)])
    assert closer.more_seeds is None or closer.more_seeds > found.more_seeds, "a smaller difference needs more"


def test_equal_arms_are_told_apart_by_whom_they_leave_out():
    found = recommend([arm("a", 0.601, spread=0.002, never=30), arm("b", 0.6, spread=0.002, never=2), arm("c", 0.4, spread=0.002)])
    assert (found.arm, found.decided) == ("b", True) and 0 < found.equal_within < 0.02
    assert found.against == "a" and found.difference == pytest.approx(-0.001)
    assert "leaves out 28 more of 36 clients" in found.sentence and "95 % interval" in found.sentence
    alike = recommend([arm("a", 0.6, rest=[0] * 5), arm("b", 0.6, rest=[0] * 5)])
    assert alike.equal_within is not None and "Use 'a' or 'b'" in alike.sentence


def test_one_seed_and_no_common_seeds_say_what_to_run():
    one = recommend([arm("a", 0.7, seeds=[1]), arm("b", 0.6, seeds=[1])])
    assert not one.decided and one.p is None and "one common seed cannot show" in one.sentence and "seeds = 5" in one.sentence
    none = recommend([arm("a", 0.7, seeds=[1, 2]), arm("b", 0.6, seeds=[3, 4])])
    assert not none.decided and none.difference is None and "without common seeds" in none.sentence


def test_a_later_look_has_to_be_surer():
    apart = [arm("a", 0.63), arm("b", 0.6), arm("c", 0.55)]
    first, third = recommend(apart), recommend(apart, look=3)
    assert third.high - third.low > first.high - first.low and third.p > first.p


def test_costs_are_shares_of_the_time_to_the_target():
    found = recommend([arm("a", 0.7, end=3600.0), arm("b", 0.7, end=7200.0)], aim="time", target=0.6)
    assert (found.arm, found.difference, found.value) == ("a", pytest.approx(0.5), 3600.0)
    assert "reaches 60.0 % after 60.0 min" in found.sentence and "50 % less time than 'b'" in found.sentence
    lost = recommend([arm("a", 0.7), arm("b", 0.5)], aim="time", target=0.6)
    assert lost.arm == "a" and lost.decided and "5 of 5 runs of 'b' did not reach 60.0 %" in lost.sentence
    nobody = recommend([arm("a", 0.7), arm("b", 0.5)], aim="time", target=0.95)
    assert nobody.arm is None and "choose a lower --target" in nobody.sentence


def test_bytes_and_joules_are_counted_until_the_target():
    from dataclasses import replace

    def counted(one, total):
        runs = tuple(replace(run, traffic=np.array([1.0, total]), joules=np.array([1.0, total])) for run in one.runs)
        return replace(one, runs=runs)

    pair = [counted(arm("a", 0.7), 4e9), counted(arm("b", 0.7), 1e9)]
    for aim, word in (("bytes", "75 % less traffic"), ("joules", "75 % less energy")):
        found = recommend(pair, aim=aim, target=0.6)
        assert found.arm == "b" and found.difference == pytest.approx(0.75) and word in found.sentence
    assert recommend([arm("a", 0.7), arm("b", 0.6)], aim="joules").arm is None


def test_fairness_is_of_the_worst_tenth():
    fair = [arm("a", 0.7, metrics={"accuracy_bottom10": 0.3}), arm("b", 0.6, metrics={"accuracy_bottom10": 0.5})]
    found = recommend(fair, aim="fairness")
    assert found.arm == "b" and found.difference == pytest.approx(0.2)


def test_arms_with_runs_without_a_model_are_no_contenders_and_their_means_count_chance():
    runs = [hurried(s, (10.0, 0.9), (100.0, 0.9 + s / 1000)) for s in SEEDS[1:]]
    failing = [hurried(1, end=100.0), *runs]
    found = recommend(arms([*(waiting(s, (10.0, 0.5), (100.0, 0.6 + s / 500)) for s in SEEDS), *failing]))
    assert found.arm == "readiness" and not found.decided
    assert "1 of 5 runs of 'deadline' had no model by then" in found.failures and found.failures in found.sentence


def test_who_leaves_out_fewer_clients_is_a_trade_off():
    found = recommend([arm("a", 0.72, never=33), arm("b", 0.64, never=0), arm("c", 0.5, never=10)])
    assert any(
        "leaves out 33 of 36 clients" in one and "'b' leaves out none and is 8.0 points behind" in one for one in found.tradeoffs
    )
    assert found.sentence.endswith(f"Trade-off: {'; '.join(found.tradeoffs)}.")


def test_a_baseline_is_compared_by_dunnetts_test():
    three = [arm("a", 0.63), arm("b", 0.6), arm("c", 0.55)]
    plain, known = recommend(three), recommend(three, baseline="b")
    assert known.arm == plain.arm and known.p > plain.p, "against the nearest arm, Dunnett allows for both others"


def test_an_unknown_aim_is_refused():
    with pytest.raises(BadInput, match=r"--aim.*accuracy"):
        recommend([arm("a", 0.7), arm("b", 0.6)], aim="acuracy")
