"""The verdict is one sentence, with units and without loose ends."""

from dataclasses import replace

import pytest

from fedfleet.app.studies.compare.arms import arms
from fedfleet.app.studies.compare.records import Pair
from fedfleet.app.studies.compare.verdict import verdict
from fedfleet.app.studies.compare.verdict_text import uncertainty_text
from fedfleet.measure.statistics.paired_tests import PairedResult
from tests.app.studies.compare.made import hurried, made, waiting

SEEDS = range(1, 5)
CASES = {
    "one seed": [waiting(1, (9e5, 0.9)), hurried(1, (1e4, 0.5))],
    "many arms": [made(1, ((9.0, 0.1 * i),), name=str(i), algorithm={"lr": i}) for i in range(1, 8)],
    "winner": [waiting(s, (9.0, 0.9 + s / 100)) for s in SEEDS] + [hurried(s, (9.0, 0.5 + s / 99)) for s in SEEDS],
    "nobody": [waiting(s, (9.0, 0.5 + s / 10)) for s in SEEDS] + [hurried(s, (9.0, 0.9 - s / 10)) for s in SEEDS],
    "half known": [waiting(1, (9.0, 0.5)), hurried(1, end=90.0)],
    "nothing": [waiting(1, end=3.0), hurried(1)],
    "seeds": [waiting(1, (9.0, 0.5)), waiting(2, (9.0, 0.6))],
    "unlike": [made(1), made(2, task={"use": "cifar_cnn"}, name="other")],
}


@pytest.mark.parametrize("case", CASES)
def test_one_sentence_with_a_full_stop_and_no_empty_words(case):
    said = verdict(arms(CASES[case])).sentence
    assert said[0].isupper() and said.endswith(".") and ". " not in said.replace(" % ", " ")
    for odd in ("None", "nan", "  ", "()", " ,", "..", "and ,"):
        assert odd not in said, said


def test_long_spans_are_told_in_days_and_both_moments_are_named():
    said = verdict(arms(CASES["one seed"])).sentence
    assert "at the end" in said.lower() and "after 2.8 h of virtual time" in said
    assert "'readiness' no model yet" in said


def test_equal_moments_are_said_once():
    said = verdict(arms(CASES["winner"])).sentence
    assert said.count("ahead of") == 1 and "at the end and at equal virtual time" in said


def test_equal_arms_lead_nobody():
    said = verdict(arms([run(s, (9.0, s / 10)) for s in SEEDS for run in (waiting, hurried)])).sentence
    assert "o statistically significant winner" in said and "ahead" not in said
    assert "'readiness' and 'deadline' are equal on each of 4 common seeds" in said


def test_of_many_arms_a_few_are_named():
    said = verdict(arms(CASES["many arms"])).sentence
    assert "'lr 7' has 70.0 %" in said and "and 3 more" in said and "'lr 1'" not in said


def test_a_difference_carries_its_uncertainty():
    whole = Pair("a", "b", PairedResult(0.032, 0.01, 0.054, 0.004, 5), 0.012)
    text = uncertainty_text(whole)
    assert all(fact in text for fact in ("1.0 to 5.4", "p = 0.012", "5 common seeds")) and "not significant" not in text
    assert "p < 0.001" in uncertainty_text(Pair("a", "b", PairedResult(0.1, 0.09, 0.11, 1e-9, 5), 1e-9))
    assert "one common seed" in uncertainty_text(Pair("a", "b", PairedResult(0.1, None, None, None, 1), None))
    assert "without common seeds" in uncertainty_text(Pair("a", "b", None, None))


def test_caveats_tell_both_uncertainties_and_unlike_test_sets():
    result = verdict(arms(CASES["winner"])).caveats
    assert any("test set" in c and "mean over seeds" in c and c.count("±") == 2 for c in result)
    sizes = verdict(arms([waiting(1, (9.0, 0.5)), hurried(1, (9.0, 0.5), tested=80)])).caveats
    assert any("80 and 400 samples" in c for c in sizes)


def test_real_time_is_told_from_virtual_time():
    real = replace(waiting(1, (9.0, 0.5)), served=True)
    assert any("real, not virtual: readiness-1" in c for c in verdict(arms([real, hurried(1, (9.0, 0.4))])).caveats)


def test_the_pair_that_is_told_is_the_one_that_decides():
    near = {"a": 0.80, "b": 0.78, "c": 0.70}  # b is surely behind; c is farther behind, but nobody knows how far
    wild = {1: 0.25, 2: -0.2, 3: 0.1, 4: -0.12}
    runs = [
        made(s, ((9.0, v + s / 1000 + (wild[s] if k == "c" else 0.001 * s * (k == "b"))),), name=f"{k}{s}", choose={"use": k})
        for k, v in near.items()
        for s in SEEDS
    ]  # fmt: skip
    result = verdict(arms(runs))
    assert result.winner is None and "ahead of 'c', the least certain of 2 others" in result.sentence


def test_nobody_leads_by_less_than_nothing():
    runs = [waiting(s, (9.0, v)) for s, v in ((1, 0.5), (2, 0.52), (3, 0.51), (4, 0.99))]
    result = verdict(arms([*runs, *(hurried(s, (9.0, v)) for s, v in ((1, 0.6), (2, 0.61), (3, 0.62)))]))
    assert result.winner is None and "ahead" not in result.sentence
    assert "on the common ones is 10.0 points behind 'deadline'" in result.sentence
    swaying = [waiting(s, (9.0, 0.5 + gap)) for s, gap in ((1, 0.1), (2, -0.1), (3, 0.0))]
    level = verdict(arms([*swaying, *(hurried(s, (9.0, 0.5)) for s in (1, 2, 3))]))
    assert "'readiness' and 'deadline' are level, 0.0 points apart (95 % interval -" in level.sentence


def test_alike_differences_are_told_as_such():
    alike = Pair("a", "b", PairedResult(0.1, None, None, 0.25, 3), 0.25)
    text = uncertainty_text(alike)
    assert all(fact in text for fact in ("the same on each of 3 common seeds", "p = 0.25", "not significant"))


def test_arms_that_differ_in_fleet_and_method_at_once_are_pointed_out():
    fleets = [made(s, ((9.0, 0.5),), name=f"a{s}", world={"clients": 9}) for s in SEEDS]
    both = [made(s, ((9.0, 0.6),), name=f"b{s}", world={"clients": 99}, choose={"use": "oort"}) for s in SEEDS]
    assert any("(world.clients) and in choose.use at once" in c for c in verdict(arms([*fleets, *both])).caveats)
    alone = [made(s, ((9.0, 0.6),), name=f"c{s}", world={"clients": 99}) for s in SEEDS]
    assert not any("at once" in c for c in verdict(arms([*fleets, *alone])).caveats)


def real(run, **more):
    return replace(run, name=f"{run.name}-served", out=run.out.with_name(f"{run.name}-served"), served=True, **more)


def test_served_and_simulated_are_two_arms_whose_times_are_not_compared():
    virtual = replace(waiting(1, (9e5, 0.9)), model="m")
    same = verdict(arms([virtual, real(virtual, model="m", end=12.0)]))
    assert same.at_equal_time is None and same.winner is None and [s.arm for s in same.at_end.standings] == ["simulated", "served"]
    facts = ("the same model, bit for bit", "90.0 %", "10.4 days of virtual time", "12 s of real time")
    assert all(fact in same.sentence for fact in facts)
    assert "different models" in verdict(arms([virtual, real(virtual, model="n")])).sentence
    many = [replace(waiting(s, (9.0, 0.9)), model="m") for s in SEEDS]
    each = verdict(arms([*many, *(real(run) for run in many)]))
    assert "the runs of each seed end with the same model" in each.sentence and not each.sure
    other = verdict(arms([virtual, real(hurried(1, (5.0, 0.5)))]))
    assert "real and virtual time cannot be compared, so no winner is named" in other.sentence


def test_where_all_were_served_time_is_real():
    said = verdict(arms([real(waiting(1, (90.0, 0.9))), real(hurried(1, (60.0, 0.5), (99.0, 0.6)))]))
    assert "after 1.5 min of real time" in said.sentence and said.at_end.clock == "real"
    one = waiting(1, (9.0, 0.5))
    twice = [real(one, model="m"), real(real(one), model="m", digest="another")]
    assert "they end with the same model" in verdict(arms(twice)).sentence


def test_one_seed_has_no_p_value_to_correct():
    assert not any("Holm" in said for said in verdict(arms(CASES["many arms"])).caveats)
    several = [made(s, ((9.0, 0.1 * i + s / 99),), name=f"{i}-{s}", algorithm={"lr": i}) for i in range(1, 4) for s in SEEDS]
    assert any("Holm" in said for said in verdict(arms(several)).caveats)
