"""A search lives in a database that goes on; what is not its own is refused in one sentence."""

import sqlite3
import sys

import pytest

from fedfleet.app.studies.tune import search_store
from fedfleet.app.studies.tune.search_store import (
    DATABASE,
    close_study,
    enqueue_grid,
    import_optuna,
    open_study,
    seed_sampler,
    suggest_value,
)
from fedfleet.core.errors import BadInput
from tests.app.studies.tune.searches import SPACE, searched

pytestmark = pytest.mark.slow


def test_the_spec_as_it_stands_comes_first_and_what_is_drawn_lies_on_the_axes(tmp_path):
    search = searched()
    study = open_study(tmp_path, search)
    drawn = []
    for turn in range(4):
        seed_sampler(study, search, turn)
        trial = study.ask()
        drawn.append({axis.key: suggest_value(trial, axis) for axis in search.space})
        assert all(axis.contains(drawn[-1][axis.key]) for axis in search.space)
        study.tell(trial, float(turn))
    assert drawn[0] == search.defaults()
    assert len({d["algorithm.lr"] for d in drawn}) == 4
    again = open_study(tmp_path, search)
    assert [t.value for t in again.get_trials()] == [0.0, 1.0, 2.0, 3.0]


def test_a_turn_has_its_own_draws_whatever_came_before(tmp_path):
    search = searched({"sampler": "random"})
    result = []
    for name, turns in (("a", (0, 1, 2)), ("b", (2,))):
        (tmp_path / name).mkdir()
        study = open_study(tmp_path / name, search)
        study.tell(study.ask(), 0.0)  # the spec as it stands
        for turn in turns:
            seed_sampler(study, search, turn)
            trial = study.ask()
            values = [suggest_value(trial, axis) for axis in search.space]
        result.append(values)
    assert result[0] == result[1]


def test_lists_and_tables_are_values_too(tmp_path):
    space = {"algorithm.up": [[], ["fp16"]], "choose": [{"use": "uniform"}, {"use": "oort"}]}
    search = searched({"space": space, "sampler": "grid"})
    study = open_study(tmp_path, search)
    seen = []
    for _ in range(4):
        trial = study.ask()
        if trial.user_attrs.get("inside", True):
            seen.append([suggest_value(trial, axis) for axis in search.space])
    assert [[], {"use": "oort"}] in seen and [["fp16"], {"use": "uniform"}] in seen


def spoilt(path, kind):
    if kind == "text":
        path.write_text("not a database at all, but long enough to be one " * 20)
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[:3000])
    elif kind == "foreign":
        path.unlink()
        with sqlite3.connect(path) as db:
            db.execute("create table notes (text)")
        db.close()
    else:
        with sqlite3.connect(path) as db:
            db.execute("update studies set study_name = 'somebody else'")
        db.close()


@pytest.mark.parametrize("kind", ["text", "cut", "foreign", "other"])
def test_a_database_that_is_not_ours_is_refused(tmp_path, kind):
    close_study(open_study(tmp_path, searched()))
    assert [p.name for p in tmp_path.iterdir()] == [DATABASE]
    spoilt(tmp_path / DATABASE, kind)
    with pytest.raises(BadInput, match=r"tune.db is .*; choose another folder with --out") as wrong:
        open_study(tmp_path, searched())
    assert "\n" not in str(wrong.value)


@pytest.mark.parametrize(
    ("tune", "changes", "said"),
    [
        (
            {"space": {**SPACE, "algorithm.batch": [8, 32]}},
            {},
            r'of "algorithm.batch": \[8, 16\] there, \[8, 32\] here',
        ),
        ({"metric": "loss"}, {}, "of metric: accuracy there, loss here"),
        ({"seeds": [1]}, {}, "of seeds"),
        ({}, {"pace": {"use": "readiness", "cohort": 5}}, "of the spec"),
    ],
)
def test_a_database_of_another_space_is_refused(tmp_path, tune, changes, said):
    open_study(tmp_path, searched())
    open_study(tmp_path, searched({"trials": 50, "pruner": "halving", "sampler": "random"}))  # how, not what
    with pytest.raises(BadInput, match=f"holds a search with different settings \\({said}"):
        open_study(tmp_path, searched(tune, **changes))


def test_the_extra_that_brings_the_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BadInput, match=r"pip install 'fedfleet\[app\]'"):
        import_optuna()


def test_whoever_is_killed_while_a_search_begins_leaves_nothing_behind(tmp_path, monkeypatch):
    search = searched({"space": {"algorithm.batch": [8, 16]}, "sampler": "grid"})
    with monkeypatch.context() as broken:
        broken.setattr(search_store, "enqueue_grid", lambda study, search: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            open_study(tmp_path, search)
    assert not (tmp_path / DATABASE).exists()
    study = open_study(tmp_path, search)
    states = [t.state.name for t in study.get_trials()]
    close_study(study)
    assert {*states} == {"WAITING"} and 2 <= len(states) <= 3, "the spec as it stands, and what the grid has beside it"
    assert not list(tmp_path.glob(f"{DATABASE}.part*")), "the draft is gone"


def test_a_grid_has_all_of_its_points_whatever_the_search_was_begun_with(tmp_path):
    space = {"algorithm.batch": [8, 16, 32]}
    close_study(open_study(tmp_path, searched({"space": space, "sampler": "random"})))
    search = searched({"space": space, "sampler": "grid"})
    study = open_study(tmp_path, search)
    for _ in range(2):  # and once only
        enqueue_grid(study, search)
    fixed = [t.system_attrs["fixed_params"].get("algorithm.batch") for t in study.get_trials()]
    close_study(study)
    assert {"8", "16", "32"} <= {*fixed} and len([f for f in fixed if f]) <= 4


def test_whole_numbers_and_others_are_not_one_space(tmp_path):
    close_study(open_study(tmp_path, searched({"space": {"pace.cohort": {"low": 2, "high": 4}}})))
    with pytest.raises(BadInput, match="different settings"):
        open_study(tmp_path, searched({"space": {"algorithm.lr": {"low": 2.0, "high": 4.0}}}))
    one = searched({"space": {"algorithm.lr": {"low": 1, "high": 2}}}).identity()
    assert one != searched({"space": {"algorithm.lr": {"low": 1.0, "high": 2.0}}}).identity()
