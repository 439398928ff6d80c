"""The study file: what it may say, and how it is told what is wrong."""

import tomllib
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.studies.grid.study_file import flatten, read_study, study_of, study_text
from fedfleet.app.studies.grid.study_runs import expand_study
from fedfleet.core.errors import BadInput
from tests.app.studies.tables import BASE, LRS, asked


def test_a_grid_is_every_combination_in_the_order_of_the_file():
    result = asked(grid={"algorithm.lr": [0.05, 0.1], "pace.cohort": [2, 4]})
    assert [dict(arm.settings) for arm in result.arms] == [
        {"algorithm.lr": lr, "pace.cohort": c} for lr, c in product([0.05, 0.1], [2, 4])
    ]
    assert result.arms[0].name == "algorithm.lr=0.05, pace.cohort=2"
    assert result.seeds == (0, 1)


def test_named_runs_are_arms_and_are_run_at_every_point_of_a_grid():
    runs = [
        {"name": "patient", "pace": {"use": "readiness"}},
        {"name": "strict", "pace": {"use": "deadline", "seconds": 9.0}},
    ]
    alone = study_of({"base": BASE, "runs": runs})
    assert [arm.name for arm in alone.arms] == ["patient", "strict"]
    assert dict(alone.arms[1].settings) == {"pace.use": "deadline", "pace.seconds": 9.0}
    assert alone.seeds == (0,)
    both = asked(runs=runs)
    assert [arm.name for arm in both.arms] == [
        "patient, algorithm.lr=0.05", "patient, algorithm.lr=0.1", "strict, algorithm.lr=0.05", "strict, algorithm.lr=0.1",
    ]  # fmt: skip


def test_a_table_in_a_grid_may_have_a_name_by_which_its_arms_are_called():
    worlds = [{"name": "few", "clients": 5}, {"name": "many", "devices": {"use": "spread"}}]
    result = asked(runs=[{"name": "patient", "pace": "readiness"}], grid={"world": worlds})
    assert [arm.name for arm in result.arms] == ["patient, few", "patient, many"]
    assert [dict(arm.settings) for arm in result.arms] == [
        {"pace.use": "readiness", "world.clients": 5},
        {"pace.use": "readiness", "world.devices.use": "spread"},
    ]
    with pytest.raises(BadInput, match=r"grid\.world\.name must be a name in quotes"):
        asked(grid={"world": [{"name": 3}]})


def test_seeds_are_counted_or_listed_and_those_of_parts_are_repetitions_not_arms():
    assert asked(seeds=3).seeds == (0, 1, 2)
    result = asked(grid={"seeds.fleet": [5, 6], "algorithm.lr": [0.05, 0.1]})
    assert len(result.arms) == 2
    assert result.draws == ({"seeds.fleet": 5}, {"seeds.fleet": 6})


def test_a_scale_changes_the_base_the_seeds_and_lists_of_the_grid():
    scaled = {
        **LRS,
        "scale": {"quick": {"seeds": 1, "stop": {"rounds": 2}, "grid": {"algorithm.lr": [0.3]}}, "full": {}},
    }
    quick, full, plain = (study_of(scaled, scale=name) for name in ("quick", "full", None))
    assert (quick.seeds, quick.base["stop"]["rounds"], len(quick.arms)) == ((0,), 2, 1)
    assert full.base == plain.base == BASE
    assert (full.arms, full.seeds) == (plain.arms, plain.seeds)


def test_the_base_lies_beside_the_study(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/spec.toml").write_text("[stop]\nrounds = 7\n")
    (tmp_path / "study.toml").write_text('base = "deep/spec.toml"\n')
    result = read_study(tmp_path / "study.toml")
    assert (result.name, result.base) == ("study", {"stop": {"rounds": 7}})
    assert [arm.name for arm in result.arms] == ["base"]


def test_what_was_carried_out_can_be_written_down_and_read_again():
    more = {
        "baseline": "algorithm.lr=0.1, choose=oort",
        "target": "0.9 of best of baseline",
        "analysis": [{"kind": "pearson", "x": "seed"}],
    }
    scaled = {**LRS, **more, "scale": {"quick": {"stop.rounds": 2}}}
    scaled["grid"] = {**LRS["grid"], "choose": ["uniform", {"use": "oort"}], "seeds.fleet": [3, 4]}
    first = study_of(scaled, "mine", scale="quick")
    again = study_of(tomllib.loads(study_text(first)))
    assert again.name == "mine"
    assert again.arms == first.arms
    assert (again.base, again.seeds, again.draws, again.baseline, again.target, again.analyses) == (
        first.base, first.seeds, first.draws, first.baseline, first.target, first.analyses,
    )  # fmt: skip


def test_the_runs_of_a_study_that_was_written_down_are_the_same():
    first = asked(grid={"algorithm.lr": [0.1, 0.2], "choose": ["uniform", {"use": "oort"}]})
    again = study_of(tomllib.loads(study_text(first)))
    assert [c.spec.digest for c in expand_study(again)] == [c.spec.digest for c in expand_study(first)]


WRONG = [
    ({"grids": {}}, "the study has no key 'grids'; did you mean 'grid'?"),
    ({"stop": {"rounds": 3}}, "keys of a spec go below base, as in base.stop"),
    ({"base": 7}, "neither the path of a spec nor a table"),
    ({"seeds": 0}, "seeds = 0: give the number of seeds"),
    ({"seeds": [1, 1]}, "different whole numbers"),
    ({"seeds": [True]}, "different whole numbers"),
    ({"seeds": {"fleet": 1}}, "give the number of seeds, or a list"),
    ({"grid": {"algorithm.lr": 0.1}}, '"algorithm.lr" = 0.1 is not a list of values'),
    ({"grid": {"algorithm.lr": []}}, "is not a list of values"),
    ({"grid": {"algorithm.lr": [0.1, 0.1]}}, "names a value twice"),
    ({"grid": {"algoritm.lr": [0.1]}}, "no spec has a key 'algoritm.lr'; did you mean 'algorithm'?"),
    ({"grid": {"seed": [0, 1]}}, "write seeds = [..]"),
    ({"grid": {"run.threads": [1, 2]}}, "sets how to run, not what to run"),
    ({"grid": 3}, "grid = 3 is not a table"),
    ({"runs": {"name": "a"}}, "write [[runs]], with two brackets"),
    ({"runs": [{"pace.cohort": 3}]}, "runs[0].name must be a name in quotes"),
    ({"runs": [{"name": "a", "pase": {"cohort": 3}}]}, "(a): an arm cannot set the key 'pase.cohort'; did you mean 'pace'?"),
    ({"runs": [{"name": "a"}, {"name": "a"}]}, "there is already a run called 'a'"),
    ({"baseline": "algorithm.lr=0.5"}, "is not an arm of this study; did you mean 'algorithm.lr=0.05'?"),
    ({"target": 80}, "write an accuracy between 0 and 1"),
    ({"target": "0.95 of best of nobody"}, "'nobody' is not an arm of this study"),
    ({"target": "0.95 of best of baseline"}, "the study names no baseline"),
    ({"scale": {"quick": {"sed": 1}}}, "scale.quick has no key 'sed'; did you mean 'seeds'?"),
    ({"scale": {"quick": {"grid": {"algorithm.rate": [1]}}}}, "which [grid] does not have; did you mean 'algorithm.lr'?"),
    ({"analysis": {"kind": "table"}}, "write [[analysis]], with two brackets"),
    ({"analysis": [{"kind": "tabel"}]}, "there is no analysis 'tabel'; did you mean 'table'?"),
    ({"analysis": [{"kind": "pearson"}]}, "analysis[0] needs the key 'x'"),
    ({"analysis": [{"kind": "time_to_accuracy"}]}, "needs a target accuracy"),
    ({"analysis": [{"kind": "paired_test"}]}, "needs an arm to compare with"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), WRONG, ids=lambda w: str(w)[:40])
def test_what_is_wrong_is_named_with_its_place_and_cure(change, said):
    with pytest.raises(BadInput) as wrong:
        study_of({**LRS, **change})
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_a_scale_that_is_not_there_is_named():
    with pytest.raises(BadInput, match="it has no scales, so leave --scale out"):
        study_of(LRS, scale="quick")
    with pytest.raises(BadInput, match="did you mean 'quick'"):
        study_of({**LRS, "scale": {"quick": {}}}, scale="quik")


def test_files_that_cannot_be_read_are_one_sentence(tmp_path):
    (tmp_path / "broken.toml").write_text("base = ")
    for path, said in (
        ("none.toml", "there is no study file"),
        (".", "is a folder"),
        ("broken.toml", "is not valid TOML"),
    ):
        with pytest.raises(BadInput, match=said):
            read_study(tmp_path / path)
    (tmp_path / "study.toml").write_text('base = "gone.toml"\n')
    with pytest.raises(BadInput, match=r"study\.toml: there is no spec file .*gone\.toml"):
        read_study(tmp_path / "study.toml")


def test_a_bare_name_stands_for_its_part_and_keeps_what_the_base_says_of_the_same_one():
    first, second = expand_study(asked(seeds=1, grid={"pace": ["readiness", "buffered"]}))
    assert (first.arm, first.spec.pace["cohort"], second.spec.pace["use"]) == ("pace=readiness", 4, "buffered")


leaves = st.one_of(st.integers(), st.text(), st.lists(st.integers()), st.booleans())
tables = st.dictionaries(
    st.text("abc", min_size=1), leaves | st.dictionaries(st.text("abc", min_size=1), leaves, min_size=1), min_size=1
)


@given(tables)
def test_flattened_keeps_every_leaf(table):
    flat = flatten(table)
    assert sum(len(v) if isinstance(v, dict) else 1 for v in table.values()) == len(flat)
    for key, value in flat.items():
        first, _, rest = key.partition(".")
        assert (table[first][rest] if rest else table[first]) == value


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\x00", "\u202eabc"])
def test_names_that_cannot_be_printed_are_refused(name):
    for table in ({"name": name}, {"grid": {}, "runs": [{"name": name}]}):
        with pytest.raises(BadInput, match="cannot be printed"):
            asked(**table)


def test_the_aim_is_a_key_and_is_written_back():
    study = study_of({**LRS, "aim": "time"})
    assert study.aim == "time" and study_of(tomllib.loads(study_text(study))).aim == "time"
    assert study_of(LRS).aim == "accuracy" and "aim" not in tomllib.loads(study_text(study_of(LRS)))
    with pytest.raises(BadInput, match="aim: there is no aim 'speed'"):
        study_of({**LRS, "aim": "speed"})
