"""Why nothing can be recommended, and what readers of the figures must know."""

from dataclasses import replace

import pytest

from fedfleet.app.studies.compare.arms import arms
from fedfleet.app.studies.compare.verdict import verdict
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
def test_sentences_with_a_full_stop_and_no_empty_words(case):
    said = verdict(arms(CASES[case])).sentence
    assert said.lstrip("'")[0].isalpha() and said.endswith(".") and not said.endswith("..")
    for odd in ("None", "nan", "  ", "()", " ,", "..", "and ,"):
        assert odd not in said, said


def test_caveats_tell_both_uncertainties_and_unlike_test_sets():
    result = verdict(arms(CASES["winner"])).caveats
    assert any("test set" in c and "mean over seeds" in c and c.count("±") == 2 for c in result)
    sizes = verdict(arms([waiting(1, (9.0, 0.5)), hurried(1, (9.0, 0.5), tested=80)])).caveats
    assert any("80 and 400 samples" in c for c in sizes)


def test_real_time_is_told_from_virtual_time():
    real = replace(waiting(1, (9.0, 0.5)), served=True)
    assert any("real, not virtual: readiness-1" in c for c in verdict(arms([real, hurried(1, (9.0, 0.4))])).caveats)


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


def test_the_method_is_named_where_there_is_a_p_value():
    assert not any("intervals and p" in said for said in verdict(arms(CASES["many arms"])).caveats)
    several = [made(s, ((9.0, 0.1 * i + s / 99),), name=f"{i}-{s}", algorithm={"lr": i}) for i in range(1, 4) for s in SEEDS]
    assert any("blocked design" in said and "3 arms" in said for said in verdict(arms(several)).caveats)


def test_arms_that_end_at_different_moments_by_their_rounds_say_why():
    stopped = {"metrics": {"stopped_by": "rounds"}}
    told = verdict(arms([waiting(1, (10.0, 0.5), end=7200.0, **stopped), hurried(1, (10.0, 0.5), end=600.0, **stopped)])).caveats
    assert any("from 10.0 min to 2.0 h" in one and "stop.virtual_seconds" in one for one in told)
    alike = verdict(arms([waiting(1, (10.0, 0.5), end=700.0, **stopped), hurried(1, (10.0, 0.5), end=600.0, **stopped)])).caveats
    asked = verdict(arms([waiting(1, (10.0, 0.5), end=7200.0), hurried(1, (10.0, 0.5), end=600.0)])).caveats
    assert not any("stop.virtual_seconds" in one for one in (*alike, *asked))
