"""The class clock: the formula literally, what an ideal fleet gives, and that the noise and the closed form are found again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.choose.uniform import uniform
from fedfleet.core.records import Cost, Stop
from fedfleet.core.round_rules import RoundRules
from fedfleet.measure.class_clock import (
    Ideal,
    Participation,
    always_on_clock,
    class_clock,
    clock_score,
    curve_at,
    effective_share,
    evidence,
    fit_monotone,
    predict_accuracy,
    progress,
    scarcity,
)
from fedfleet.measure.round_model import walk_rounds
from tests.worlds import even_fleet, world_of

pytestmark = pytest.mark.slow

LABELS = np.array([[4, 0, 1], [2, 2, 2], [0, 6, 3], [1, 1, 8]])
TEST = np.array([0.5, 0.3, 0.2])
CURVE = 0.9 - 0.8 * 0.95 ** np.arange(200)


def members(*commits, clients=4):
    """Who is in which model, one commit every ten seconds."""
    who = np.array([c for commit in commits for c in commit], np.int64)
    n = len(commits)
    return Participation(
        10.0 * np.arange(1, n + 1), np.repeat(np.arange(n), [len(c) for c in commits]), who, np.ones(len(who)),
        np.zeros(len(who), np.int64), np.bincount(who, minlength=clients), np.bincount(who, minlength=clients), {}, n, 10.0 * n,
    )  # fmt: skip


COMMITS = st.lists(st.sets(st.integers(0, 3), min_size=1).map(sorted), min_size=1, max_size=6)


@given(COMMITS, st.sampled_from([0.0, 0.7, 5.0, np.inf]))
def test_the_clock_is_its_formula(commits, noise):
    result = class_clock(members(*commits), LABELS, cohort=4, noise=noise)
    sizes, held = LABELS.sum(axis=1), LABELS.sum(axis=0)
    for c in range(3):
        clock, added = 0.0, np.zeros(4)
        for t, commit in enumerate(commits):
            many = len(commit)
            worth = many / 4 if noise == np.inf else (1 + noise / 4) / (1 + noise / many)
            whole = sum(sizes[i] for i in commit)
            for i in commit:
                added[i] += worth * sizes[i] / whole
                clock += worth * sizes[i] / whole * LABELS[i, c] / sizes[i] / (held[c] / held.sum())
            assert result.classes[t + 1, c] == pytest.approx(clock)
            share = added * LABELS[:, c] / sizes
            there = [i for i in range(4) if share[i]]
            chi = sum((share[i] / share.sum()) ** 2 / (LABELS[i, c] / held[c]) for i in there) or np.inf
            assert result.diversity[t + 1, c] == pytest.approx(1 / chi)
    assert (result.diversity <= 1 + 1e-9).all() and (np.diff(result.classes, axis=0) >= -1e-12).all()


def test_where_everyone_is_in_every_model_each_commit_counts_one():
    result = class_clock(members(*[range(4)] * 5), LABELS, cohort=4, noise=3.0)
    assert result.classes == pytest.approx(np.arange(6.0)[:, None] * np.ones(3))
    assert result.diversity[1:] == pytest.approx(1.0) and result.effective == pytest.approx(1.0)


@given(COMMITS)
def test_names_and_units_change_nothing(commits):
    order = [2, 0, 3, 1]
    back = {old: new for new, old in enumerate(order)}
    one = class_clock(members(*commits), LABELS, cohort=4, noise=1.0)
    other = class_clock(members(*[[back[c] for c in commit] for commit in commits]), 7 * LABELS[order], cohort=4, noise=1.0)
    assert other.classes == pytest.approx(one.classes) and other.diversity == pytest.approx(one.diversity)
    assert other.effective == pytest.approx(one.effective)


@given(st.integers(2, 50), st.floats(0, 1e6))
def test_evidence_grows_with_reports_up_to_one(cohort, noise):
    result = evidence(np.arange(cohort + 1), cohort, noise)
    assert result[0] == 0 and result[-1] == pytest.approx(1.0) and (np.diff(result) >= -1e-12).all()
    assert (result >= np.arange(cohort + 1) / cohort - 1e-9).all()


def test_without_a_single_model_nothing_is_learnt():
    nothing = members()
    result = class_clock(nothing, LABELS, cohort=4)
    ideal = Ideal(CURVE, np.ones((200, 3)), 0.0, 4)
    assert predict_accuracy(result, ideal, TEST).tolist() == [CURVE[0]] and result.effective == 0.0
    assert clock_score(result, 10).tolist() == [0.0]


def test_an_ideal_fleet_is_foretold_its_own_curve():
    part = members(*[range(4)] * 30)
    clock = class_clock(part, LABELS, cohort=4)
    result = predict_accuracy(clock, Ideal(CURVE, clock.diversity, 2.0, 4), TEST)
    assert result == pytest.approx(CURVE[:31])
    assert clock_score(class_clock(members(*[range(4)] * 10), LABELS, cohort=4), 10)[-1] == pytest.approx(1.0)


def test_who_is_never_seen_costs_its_labels_and_the_same_few_cost_more():
    labels = np.array([[9, 0], [9, 0], [0, 9], [9, 9]])
    ideal = Ideal(CURVE, np.ones((200, 2)), 0.0, 4)
    half = np.array([0.5, 0.5])

    def after(*commit):
        return predict_accuracy(class_clock(members(*[list(commit)] * 100), labels, cohort=4), ideal, half)[-1]

    assert after(0, 1) <= 0.5 < after(1, 2) < after(1, 2, 3) <= CURVE[-1]
    assert after(0, 2) < after(0, 1, 2)  # the same labels from fewer people


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_rising_curve_is_the_nearest_that_never_falls(values):
    result = fit_monotone(np.array(values))
    assert len(result) == len(values) and (np.diff(result) >= 0).all()
    assert result.sum() == pytest.approx(sum(values))
    best = ((result - values) ** 2).sum()
    for other in (
        np.maximum.accumulate(values),
        np.minimum.accumulate(values[::-1])[::-1],
        np.full(len(values), np.mean(values)),
    ):
        assert best <= ((other - values) ** 2).sum() + 1e-9


SKEWED = np.array([[9, 0], [9, 0], [0, 9], [9, 9]])


@given(COMMITS)
def test_without_gamma_a_class_is_learnt_by_its_own_clock_alone(commits):
    clock = class_clock(members(*commits), SKEWED, cohort=4)
    ideal = Ideal(CURVE, np.ones((200, 2)), 0.0, 4, 0.0)
    one = predict_accuracy(clock, ideal, np.array([1.0, 0.0]))
    others = replace(clock, classes=clock.classes * [1, 7], diversity=clock.diversity / 3)
    assert predict_accuracy(others, ideal, np.array([1.0, 0.0])) == pytest.approx(one)
    assert one == pytest.approx(np.interp(clock.classes[:, 0], np.arange(200), CURVE))


@given(COMMITS, st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_the_larger_gamma_is_the_less_is_foretold(commits, some, more):
    clock, ideal = class_clock(members(*commits), SKEWED, cohort=4), Ideal(CURVE, np.ones((200, 2)), 0.0, 4)
    less, least = (predict_accuracy(clock, replace(ideal, exponent=e), np.ones(2)) for e in (some, some + more))
    assert (least <= less + 1e-12).all() and (
        less <= predict_accuracy(clock, replace(ideal, exponent=0.0), np.ones(2)) + 1e-12
    ).all()
    assert (scarcity(clock, ideal) <= 1).all() and (scarcity(clock, ideal) > 0).all()


def test_few_people_cost_the_more_the_further_training_is():
    part, ideal = members(*[[0]] * 150), Ideal(CURVE, np.ones((200, 3)), 0.0, 1, 0.3)
    clock = class_clock(part, LABELS[:, [1, 1, 1]] + 1, cohort=1)
    lost = (1 - predict_accuracy(clock, ideal, TEST)) / (1 - curve_at(CURVE, clock.classes[:, 0]))
    assert lost[:2] == pytest.approx(1.0, abs=0.1) and (np.diff(lost) >= -1e-9).all() and lost[-1] > 1.3
    assert progress(CURVE, np.array([0.0, CURVE[0], CURVE[-1], 1.0])).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert progress(np.full(3, 0.5), np.array([0.5, 0.7])).tolist() == [0.0, 0.0]  # nothing was learnt


def test_effective_share_is_the_share_that_takes_part():
    for n in (1, 3, 10):
        assert effective_share(np.repeat([1.0, 0.0], [n, 10 - n]), np.full(10, 5.0)) == pytest.approx(n / 10)
    assert effective_share(np.zeros(3), np.ones(3)) == 0.0


@settings(deadline=None, derandomize=True, max_examples=3)
@given(st.integers(0, 1000))
def test_where_everyone_is_always_on_the_closed_form_is_what_walks_give(seed):
    rng = np.random.default_rng(seed)
    labels, clients, rounds = rng.integers(0, 9, (40, 3)) + 1, 40, 1000
    shortest = rng.integers(1, 40, clients).astype(float)
    rules = RoundRules(10, 1.0, 50.0, 1.0, 2, 0.2)
    # A trip takes one, two or three times the shortest.
    success = np.mean([shortest * m <= 50.0 for m in (1, 2, 3)], axis=0)
    commits, clock = always_on_clock(success, labels, cohort=10, rounds=rounds, least=2, noise=2.0)
    part = walk_rounds(rules, Stop(rounds=rounds), uniform(), world_of(even_fleet(clients, shortest.tolist())), _free, seed=seed)
    result = class_clock(part, labels, cohort=10, noise=2.0).classes[-1]
    assert part.commits == pytest.approx(commits, rel=0.03)
    assert result == pytest.approx(clock, rel=0.05)


def _free(clients, round):
    none = np.zeros(len(clients))
    return Cost(none, none, none)
