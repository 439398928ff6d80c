"""Differing keys, and arms of runs that repeat each other."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.studies.compare.arms import arm_names, arms, differing_keys, draws_of, flat, is_seed_key, seed_of
from tests.app.studies.compare.made import hurried, made, waiting


def test_what_differs_has_the_value_of_every_run_and_how_it_ran_is_no_difference():
    result = differing_keys([waiting(1), hurried(2), waiting(2)])
    assert result == {
        "seed": [1, 2, 2],
        "pace.use": ["readiness", "deadline", "readiness"],
        "pace.seconds": [None, 60.0, None],
    }
    assert differing_keys([waiting(1), waiting(1)]) == {}


def test_runs_that_differ_in_seeds_only_are_one_arm():
    seeds = {"fleet": 5, "data": 1, "training": 1}
    result = arms([waiting(1), hurried(1), waiting(2), made(1, seeds=seeds)])
    assert [(arm.name, [run.seed for run in arm.runs]) for arm in result] == [
        ("readiness", [1, 2, 1]),
        ("deadline", [1]),
    ]
    assert [is_seed_key(key) for key in ("seed", "seeds.fleet", "world.seed", "seedless")] == [True, True, False, False]
    assert "seeds.fleet" in differing_keys([waiting(1), made(1, seeds=seeds)])


def test_a_pair_has_all_seeds_in_common():
    assert seed_of(made(7)) == "7" == seed_of(made(7, seeds={"fleet": 7, "data": 7}))
    assert seed_of(made(7, seeds={"fleet": 3, "data": 7})) == "7 (fleet 3)"


def test_names_are_as_short_as_tells_arms_apart():
    assert arm_names([{"a.lr": 0.1, "b.x": 1}, {"a.lr": 0.5, "b.x": 2}]) == ["lr 0.1", "lr 0.5"]
    two = [{"a.lr": 0.1, "b.lr": 1}, {"a.lr": 0.1, "b.lr": 2}, {"a.lr": 0.3, "b.lr": 1}]
    assert arm_names(two) == ["a.lr 0.1, b.lr 1", "a.lr 0.1, b.lr 2", "a.lr 0.3, b.lr 1"]
    assert arm_names([{"edge.use": None}, {"edge.use": "hierfl"}]) == ["no edge", "hierfl"]
    assert arm_names([{"p.lease": math.inf}, {"p.lease": 5}]) == ["lease inf", "lease 5"]
    long = arm_names([{"x.y": ["a" * 99, 1]}, {"x.y": ["a" * 99, 2]}])
    assert len(set(long)) == 2 and all(len(name) < 60 for name in long)
    assert arm_names([{}]) == ["all runs"] and arm_names([]) == []


KEYS = st.fixed_dictionaries({k: st.sampled_from([None, 1, 2.5, "a", True]) for k in ("p.use", "q.use", "p.lr", "q.lr", "r.z")})


@given(st.lists(KEYS, min_size=1, max_size=6), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_every_run_is_in_one_arm_and_no_two_arms_share_a_name(tables, seeds):
    runs = [
        made(
            seed,
            name=str(i),
            p={"use": t["p.use"], "lr": t["p.lr"]},
            q={"use": t["q.use"], "lr": t["q.lr"]},
            r={"z": t["r.z"]},
        )
        for i, (t, seed) in enumerate(zip(tables, seeds, strict=False))
    ]
    result = arms(runs)
    assert sorted(run.name for arm in result for run in arm.runs) == sorted(run.name for run in runs)
    assert len({arm.name for arm in result}) == len(result)
    for arm in result:
        assert not [key for key in differing_keys(arm.runs) if not is_seed_key(key)]


def test_lists_of_tables_stay_whole_and_empty_tables_are_seen():
    assert flat({"override": [{"clients": [1]}], "edge": {}}) == {"override": [{"clients": [1]}], "edge": {}}


def test_a_run_is_drawn_from_its_seed_but_for_what_has_a_seed_of_its_own():
    assert draws_of(made(3)) == {"fleets": 3, "draws of data": 3, "trainings": 3}
    assert draws_of(made(3, seeds={"fleet": 9}))["fleets"] == 9


def test_whether_a_run_was_served_differs_only_where_some_were_not():
    one, other = made(1, name="a"), replace(made(1, name="b"), served=True)
    assert differing_keys([one, other]) == {"runtime.use": ["simulated", "served"]}
    assert differing_keys([other, replace(other, name="c")]) == {}


def test_specs_that_differ_in_very_much_are_called_as_people_called_their_runs():
    def run(seed, name, a, b, wide):
        return made(seed, name=name, choose={"use": a * wide}, algorithm={"use": b * wide})

    def names(wide):
        rows = ((0, "slow-0", "a", "c"), (1, "slow-1", "a", "c"), (0, "quick", "b", "c"), (0, "odd", "b", "d"))
        return [arm.name for arm in arms([run(*row, wide) for row in rows])]

    assert names(3) == ["aaa, ccc", "bbb, ccc", "bbb, ddd"] and names(38) == ["slow", "quick", "odd"]


def test_names_say_no_number_that_another_tells_too_nor_one_that_a_part_has_not():
    rows = [
        {"pace.use": "deadline", "pace.cohort": 10, "pace.seconds": 60.0},
        {"pace.use": "deadline", "pace.cohort": 10, "pace.seconds": 120.0},
        {"pace.use": "deadline", "pace.cohort": 20, "pace.seconds": 600.0},
        {"pace.use": "buffered", "pace.cohort": None, "pace.seconds": None},
    ]
    assert arm_names(rows) == ["deadline, seconds 60", "deadline, seconds 120", "deadline, seconds 600", "buffered"]
    assert arm_names([{"algorithm.lr": None}, {"algorithm.lr": 1.5}]) == ["no lr", "lr 1.5"]
