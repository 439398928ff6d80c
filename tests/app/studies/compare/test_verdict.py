"""Who wins, and above all when nobody does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedfleet.app.studies.compare.arms import arms
from fedfleet.app.studies.compare.moments import equal_time, sampling_error
from fedfleet.app.studies.compare.records import LEAST_SEEDS
from fedfleet.app.studies.compare.verdict import unlike_data, verdict
from tests.app.studies.compare.made import hurried, made, waiting

SEEDS = range(1, 6)


def judged(*runs):
    return verdict(arms(runs))


def slow(seed, gain=0.0):
    return waiting(seed, (1000.0, 0.1 + 0.01 * seed), (50_000.0, 0.8 + 0.01 * seed + gain))


def fast(seed, gain=0.0):
    return hurried(seed, (100.0, 0.5 + 0.012 * seed + gain), (2000.0, 0.6 + 0.012 * seed + gain))


def test_one_seed_describes_and_crowns_nobody():
    result = judged(slow(1), fast(1))
    assert not result.sure and result.winner is None and result.at_end.leader == "readiness"
    assert result.at_end.standings[0].test == pytest.approx(sampling_error(0.81, 400))
    assert "one common seed cannot show a difference" in result.sentence and "81.0 %" in result.sentence


def test_the_end_and_equal_time_can_have_different_winners_and_then_the_aim_decides():
    result = judged(*(run(seed) for seed in SEEDS for run in (slow, fast)))
    assert result.at_end.winner == "readiness" and result.at_equal_time.winner == "deadline"
    assert result.at_equal_time.seconds == 2000.0 and result.winner == "deadline" and result.sure
    assert any("'readiness' ends at 83.0 % after 13.9 h" in one for one in result.recommendation.tradeoffs)
    assert result.at_equal_time.standings[0].mean.value == pytest.approx(0.13), "the step before the shortest end"


def test_a_winner_is_ahead_of_all_others_on_common_seeds():
    result = judged(*(slow(s) for s in SEEDS), *(fast(s, 0.3) for s in SEEDS))
    assert result.winner == "deadline" == result.at_equal_time.winner and result.sure
    pair = result.at_end.pairs[0]
    assert pair.paired.n == 5 and pair.paired.low > 0 and pair.p < 0.05
    assert result.sentence.startswith("Use 'deadline': ") and "80.6 points more than 'readiness'" in result.sentence
    assert result.recommendation.difference == pytest.approx(0.806) == result.at_equal_time.pairs[0].paired.difference


def test_a_large_difference_between_seeds_that_are_not_common_is_no_proof():
    result = judged(*(slow(s) for s in (1, 2, 3)), *(fast(s, 0.3) for s in (4, 5, 6)))
    assert result.winner is None and result.at_end.pairs[0].paired is None
    assert "without common seeds no difference can be shown" in result.sentence and result.recommendation.seeds == 0
    assert any("not every arm has the seeds" in c for c in result.caveats)


def test_two_seeds_are_too_few_even_if_they_agree():
    result = judged(*(slow(s) for s in (1, 2)), *(hurried(s, (2000.0, 0.85 + 0.01 * s)) for s in (1, 2)))
    assert result.winner is None and "2 seeds are too few" in result.sentence and result.recommendation.more_seeds >= 1


def test_a_lucky_one_of_many_does_not_win():
    ends = {"a": [0.80, 0.82, 0.81, 0.83], "b": [0.78, 0.81, 0.785, 0.815]}
    two = [made(s, ((9.0, v),), name=f"{k}{s}", choose={"use": k}) for k, vs in ends.items() for s, v in enumerate(vs)]
    alone = judged(*two)
    assert alone.winner == "a"
    noisy = [made(s, ((9.0, v - 0.001 * s),), name=f"c{s}", choose={"use": "c"}) for s, v in enumerate([0.70, 0.84, 0.72, 0.9])]
    result = judged(*two, *noisy)
    assert result.winner is None and not result.recommendation.decided, "the third cannot be told from the first"
    assert result.recommendation.method == "unequal variances" and any("paired t tests, Holm" in c for c in result.caveats)
    ps = {pair.other: (pair.paired.p, pair.p) for pair in result.at_end.pairs}
    first_look = 0.05 / 0.04
    assert ps["b"][1] == pytest.approx(2 * ps["b"][0] * first_look) and ps["c"][1] == pytest.approx(ps["c"][0] * first_look)


def test_who_has_not_ended_wins_nothing_yet():
    runs = [waiting(s, (10.0, 0.1), (20.0, 0.2 + 0.01 * s)) for s in SEEDS]
    going = [hurried(s, (10.0, 0.7), (20.0, 0.9 + 0.003 * s), ended=s != 3) for s in SEEDS]
    result = judged(*runs, *going)
    assert result.at_equal_time.winner == "deadline" == result.winner and result.at_end.winner is None
    assert any("unfinished" in caveat and "deadline-3" in caveat for caveat in result.caveats)


def test_an_arm_without_any_model_is_beaten_and_one_of_which_some_failed_is_not_judged():
    good = [waiting(s, (10.0, 0.8 + 0.01 * s)) for s in SEEDS]
    result = judged(*good, *(hurried(s, end=500.0) for s in SEEDS))
    assert result.winner == "readiness" and "5 of 5 runs of 'deadline' had no model by then" in result.sentence
    assert equal_time(arms(good)) == 10.0 == result.at_equal_time.seconds
    some = judged(*good, hurried(1, end=500.0), *(hurried(s, (10.0, 0.2 + 0.001 * s)) for s in (2, 3, 4, 5)))
    first = some.at_end.standings[1]
    assert (first.without, first.missing, first.mean.value) == (1, 0, pytest.approx((0.1 + 0.2 * 4 + 0.014) / 5)), "chance counts"
    assert some.winner == "readiness" and "1 of 5 runs of 'deadline' had no model by then" in some.sentence
    assert any("made no model: deadline-1" in caveat for caveat in some.caveats)
    close = judged(*good, hurried(1, end=500.0), *(hurried(s, (10.0, 0.9 + 0.001 * s)) for s in (2, 3, 4, 5)))
    assert close.recommendation.arm == "readiness" and close.winner is None, "a run without a model is a reason, not a proof"
    silent = judged(*good, *(hurried(s, end=500.0, first=3.0) for s in SEEDS))
    assert silent.winner is None and any("made models but evaluated none: deadline-1" in c for c in silent.caveats)


def test_first_weights_are_evaluated_too_and_beat_nobody():
    good = [waiting(s, (0.0, 0.1), (10.0, 0.8 + 0.01 * s)) for s in SEEDS]
    bare = [hurried(s, (0.0, 0.1 + 0.001 * s), end=5.0, first=None) for s in SEEDS]
    result = judged(*good, *bare)
    assert result.winner == "readiness" and result.at_equal_time.seconds == 10.0, "a run that died at once ends no comparison"
    assert "5 of 5 runs of 'deadline' had no model by then" in result.sentence and result.at_end.standings[1].nothing
    assert judged(*bare, *(waiting(s, (0.0, 0.05), end=9.0, first=None) for s in SEEDS)).winner is None


def test_before_its_first_model_a_slow_arm_has_nothing():
    result = judged(*(waiting(s, (9000.0, 0.95)) for s in SEEDS), *(hurried(s, (50.0, 0.8 + 0.002 * s)) for s in SEEDS))
    assert result.at_equal_time.winner == "deadline" and result.at_equal_time.standings[0].nothing
    assert result.at_end.winner == "readiness" and result.winner == "deadline"
    assert "5 of 5 runs of 'readiness' had no model by then" in result.sentence and "ends at 95.0 %" in result.sentence


def test_nothing_evaluated_anywhere_is_nothing_to_judge():
    result = judged(waiting(1, end=5.0), hurried(1, end=5.0, first=2.0))
    assert result.at_equal_time is None and "nothing to compare" in result.sentence and not result.sure


def test_the_same_spec_and_seed_twice_counts_once():
    runs = [slow(1), made(1, ((1000.0, 0.11), (50_000.0, 0.81)), name="again"), fast(1), fast(2), slow(2)]
    result = judged(*runs)
    assert result.at_end.standings[0].mean.n == 2
    assert any("counted once: again" in caveat for caveat in result.caveats)
    alone = judged(slow(1), made(1, ((1000.0, 0.11),), name="again"))
    assert "runs of one spec with one seed" in alone.sentence and "journals differ" in alone.sentence


def test_seeds_alone_are_told_with_their_range():
    result = judged(*(waiting(s, (10.0, v)) for s, v in enumerate([0.46, 0.55, 0.62, 0.84])))
    assert "differ in seeds only" in result.sentence and "from 46.0 % to 84.0 % over 4 seeds" in result.sentence


@pytest.mark.parametrize(
    ("one", "other", "unlike"),
    [
        ({"use": "digits_mlp"}, {"use": "cifar_cnn"}, ["digits", "cifar"]),
        ({"use": "digits_mlp"}, {"use": "digits_cnn"}, []),
        ({"use": "digits_mlp", "hidden": 8}, {"use": "digits_mlp", "hidden": 9}, []),
        ({"use": "cifar_cnn", "synthetic": True}, {"use": "cifar_cnn"}, ["synthetic cifar", "cifar"]),
        (
            {"use": "own", "data": "aa", "model": "m"},
            {"use": "own", "data": "bb", "model": "m"},
            ["own data aa", "own data bb"],
        ),
        ({"use": "own", "data": "aa", "model": "m"}, {"use": "own", "data": "aa", "model": "n"}, []),
    ],
)
def test_accuracies_on_unlike_data_are_not_compared(one, other, unlike):
    runs = [made(s, ((10.0, v + s / 100),), name=f"{v}{s}", task=t) for t, v in ((one, 0.9), (other, 0.2)) for s in SEEDS]
    assert unlike_data(arms(runs)) == unlike
    result = judged(*runs)
    assert (result.winner is None) == bool(unlike) == ("cannot be compared" in result.sentence)


def test_tasks_of_like_names_with_other_test_sets_are_unlike():
    runs = [made(1, name="a"), made(1, name="b", task={"use": "digits_huge"}, tested=999)]
    assert unlike_data(arms(runs)) == ["digits_mlp", "digits_huge"]


def test_two_models_on_test_sets_that_two_seeds_drew_may_be_compared():
    """Lucky guesses differ between seeds; on one seed's test set they may not."""

    def run(seed, task, chance):
        one = made(seed, name=f"{task}{seed}", task={"use": task})
        return replace(one, metrics={**one.metrics, "chance": chance})

    apart = [run(1, "digits_mlp", 0.11), run(2, "digits_logreg", 0.12)]
    assert unlike_data(arms(apart)) == []
    assert unlike_data(arms([*apart, run(1, "digits_logreg", 0.5)])) == ["digits_mlp", "digits_logreg"]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 100), min_size=4, max_size=4), min_size=2, max_size=4),
    st.permutations(range(4)),
)
def test_the_order_of_runs_decides_nothing_and_a_winner_has_the_best_mean(table, order):
    runs = [
        made(s, ((9.0, v / 100),), name=f"{k}-{s}", choose={"use": "abcd"[k]})
        for k, row in enumerate(table)
        for s, v in enumerate(row)
    ]
    result = judged(*runs)
    turned = judged(*(runs[4 * k + s] for s in order for k in reversed(range(len(table)))))
    assert result.winner == turned.winner and result.sure == (result.winner is not None)
    if result.winner:
        means = {s.arm: s.mean.value for s in result.at_end.standings}
        assert all(means[result.winner] > v for arm, v in means.items() if arm != result.winner)
        assert all(pair.paired.low > 0 and pair.paired.n >= LEAST_SEEDS for pair in result.at_end.pairs)


def test_chance_alone_names_few_winners():
    import numpy as np

    random = np.random.default_rng(0)
    won = 0
    for _ in range(100):
        runs = [made(s, ((9.0, random.normal(0.6, 0.1)),), name=f"{k}{s}", choose={"use": k}) for k in "abc" for s in SEEDS]
        won += judged(*runs).sure
    assert won <= 10


def test_one_sample_of_the_test_set_crowns_nobody():
    runs = [run(s, (9.0, 0.5 + s / 50 + gain)) for s in SEEDS[:3] for run, gain in ((waiting, 1 / 400), (hurried, 0.0))]
    result = judged(*runs)
    assert result.winner is None and result.at_end.pairs[0].p > 0.2, "the same by chance on three seeds is not certain"


def test_many_seeds_on_two_fleets_tell_of_two_fleets():
    def on(fleet, seed, gain, kind):
        return kind(seed, (9.0, 0.5 + gain + 0.001 * seed * seed), seeds={"fleet": fleet}, name=f"{kind.__name__}{fleet}{seed}")

    runs = [on(f, s, 0.0, waiting) for f in (7, 8) for s in SEEDS]
    better = [on(f, s, gain + 0.0003 * s, hurried) for f, gain in ((7, 0.01), (8, 0.09)) for s in SEEDS]
    result = judged(*runs, *better)
    assert result.winner is None and (result.at_end.pairs[0].paired.n, result.at_end.pairs[0].paired.unit) == (
        2,
        "fleets",
    )
    assert any("runs share fleets" in c and "2 fleets" in c for c in result.caveats)


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ({"task": {"use": "transfer", "pictures": "covid"}}, {"task": {"use": "transfer", "pictures": "dogs"}}, "pictures dogs"),
        ({"task": {"use": "cifar_cnn"}}, {"task": {"use": "cifar_cnn", "samples": 100}}, "samples 100"),
        ({"world": {"holdout": 0.2}}, {"world": {"holdout": 0.5}}, "holdout 0.5"),
        ({}, {"choose": {"use": "oort"}, "tested": 80}, "a test set of 80 samples"),
    ],
)  # fmt: skip
def test_other_samples_of_one_task_are_unlike_data(one, other, word):
    runs = [made(s, ((10.0, v + s / 100),), name=f"{v}{s}", **more) for more, v in ((one, 0.9), (other, 0.2)) for s in SEEDS]
    result = judged(*runs)
    assert result.winner is None and "cannot be compared" in result.sentence and word in result.sentence


def test_real_seconds_and_virtual_ones_are_never_equal():
    runs = [replace(waiting(s, (9.0, 0.9 + s / 100)), served=True) for s in SEEDS]
    result = judged(*runs, *(hurried(s, (9.0, 0.5 + s / 99)) for s in SEEDS))
    assert result.winner is None and "real and virtual time cannot be compared" in result.sentence
