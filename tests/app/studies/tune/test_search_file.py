"""What a search may change is read from one table; what cannot be searched is refused in one sentence."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.spec import resolve
from fedfleet.app.spec.spec_file import spec_table
from fedfleet.app.studies.tune.search_file import Axis, grid_points, load_search, search_of
from fedfleet.core.errors import BadInput
from tests.app.specs import TINY, written
from tests.app.studies.tune.searches import searched, table

TUNE = """
[tune]
trials = 5
[tune.space]
"algorithm.lr" = { low = 0.01, high = 1.0, log = true }
algorithm.batch = [8, 16]
pace.cohort = { low = 2, high = 6, step = 2 }
"""


def test_a_search_is_declared_in_the_spec_which_is_the_same_run_without_it(tmp_path):
    search = load_search(*spec_table(written(tmp_path, TINY + TUNE)))
    assert [axis.key for axis in search.space] == ["algorithm.lr", "algorithm.batch", "pace.cohort"]
    assert search.trials == 5 and search.seeds == (3,) and search.aim.metric == "accuracy" and not search.aim.minimise
    assert resolve(tomllib.loads(TINY + TUNE)).digest == resolve(tomllib.loads(TINY)).digest
    assert search.defaults() == {"algorithm.lr": 0.1, "algorithm.batch": 16, "pace.cohort": 4}


def test_a_space_may_stand_in_a_file_of_its_own_and_the_command_line_has_the_last_word(tmp_path):
    spec = written(tmp_path)
    for text in (TUNE, TUNE.replace("[tune]\n", "").replace("tune.space", "space")):
        table, name = spec_table(spec, ["stop.rounds=2"])
        space = written(tmp_path, text, "space.toml")
        result = load_search(table, name, space, trials=9, sampler="random", pruner="none")
        assert (result.trials, result.sampler, result.pruner, len(result.space)) == (9, "random", "none", 3)
        assert result.base["stop"]["rounds"] == 2


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ({"space": {}}, "there is nothing to search for"),
        ({"space": {"algorithm.lrr": [0.1]}}, r'"algorithm.lrr": algorithm has no key .*did you mean .lr.'),
        ({"space": {"algoritm.lr": [0.1]}}, "did you mean 'algorithm'"),
        ({"space": {"algorithm.lr": [0.1, -1.0]}}, "greater than 0"),
        ({"space": {"algorithm.lr": {"low": 0.0, "high": 1.0, "log": True}}}, "low must be more than 0"),
        ({"space": {"algorithm.lr": {"low": 1.0, "high": 0.1}}}, "must be less than high"),
        ({"space": {"algorithm.lr": {"low": 0.1, "hi": 1.0}}}, "write a list of values, or limits"),
        ({"space": {"algorithm.lr": {"low": 0.1, "high": 1.0, "lg": True}}}, "has no key 'lg'"),
        ({"space": {"algorithm.lr": {"low": 0.1, "high": 1.0, "step": 2.0}}}, "at most high - low"),
        ({"space": {"algorithm.lr": []}}, "different values"),
        ({"space": {"algorithm.lr": 0.1}}, "write a list of values, or limits"),
        ({"space": {"seed": [1, 2]}}, "which dice are thrown"),
        ({"space": {"run.threads": [1, 2]}}, "how to run"),
        ({"trials": 0}, "from 1 to"),
        ({"sampler": "tpee"}, "did you mean 'tpe'"),
        ({"pruner": "medain"}, "did you mean 'median'"),
        ({"metric": "acuracy"}, "did you mean 'accuracy'"),
        ({"seeds": []}, "give the number of seeds"),
        ({"algorithm.lr": [0.1]}, r"go into \[tune.space\]"),
        ({"trails": 3}, "did you mean 'trials'"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_sentence(tune, said):
    with pytest.raises(BadInput, match=said) as wrong:
        searched(tune)
    assert "\n" not in str(wrong.value)


def test_a_key_of_a_part_that_another_key_chooses_is_a_key():
    space = {"pace.use": ["readiness", "deadline"], "pace.seconds": {"low": 10.0, "high": 100.0}}
    search = searched({"space": space})
    assert search.spec({"pace.use": "deadline", "pace.seconds": 20.0}, 1).pace["seconds"] == 20.0
    with pytest.raises(BadInput, match="seconds"):
        searched({"space": {"pace.seconds": {"low": 10.0, "high": 100.0}}})


@given(st.integers(-20, 20), st.integers(1, 30), st.integers(1, 7), st.booleans())
def test_every_point_of_a_grid_lies_on_its_axis(low, width, step, whole):
    step = min(step, width)
    axis = Axis("a", low, low + width, step=step if whole else step / 8, whole=whole)
    points = axis.points()
    assert points[0] == low and all(axis.contains(point) for point in points) and len({*points}) == len(points)
    assert not axis.contains(low + width + 1) and not axis.contains(low - 1) and not axis.contains("x")


def test_a_grid_is_every_combination_and_needs_values():
    assert len(grid_points([Axis("a", values=(1, 2)), Axis("b", 0, 4, step=2, whole=True)])) == 6
    with pytest.raises(BadInput, match='which values "a" has'):
        grid_points([Axis("a", 0.0, 1.0)])
    with pytest.raises(BadInput, match="more than 100,000 points"):
        grid_points([Axis(f"a{i}", values=tuple(range(20))) for i in range(5)])


def test_other_seeds_other_metrics():
    search = search_of(table({"seeds": 2, "metric": "time_to.0.8"}), "x")
    assert search.seeds == (0, 1) and search.aim.minimise
    assert search.spec({"algorithm.lr": 0.5}, 1).algorithm["lr"] == 0.5 and search.spec({}, 1).seed == 1
