"""Quantities are found by name in measures, specs and fleets."""

from __future__ import annotations

import pytest

from fedfleet.app.spec import resolve
from fedfleet.app.studies.grid.quantities import (
    arms_of,
    equal_time,
    fleet_metric,
    number,
    quantity,
    resolve_target,
    time_to_reach,
)
from fedfleet.core.errors import BadInput
from tests.app.studies.tables import aims, asked, ran, with_run


@pytest.fixture
def cells():
    return ran(asked(), [0.5, 0.6, 0.8, None])


def test_names(cells):
    one = cells[2]
    seen = {
        n: quantity(one, n, aims(equal_time=15.0, target=0.4)) for n in ("accuracy", "accuracy_at_equal_time", "time_to_target")
    }
    assert seen == {"accuracy": 0.8, "accuracy_at_equal_time": 0.4, "time_to_target": 10.0}
    assert quantity(one, "participation.never", aims()) == 2
    assert quantity(one, "algorithm.lr", aims()) == 0.1
    assert quantity(one, "arm", aims()) == "algorithm.lr=0.1"
    assert quantity(one, "bytes", aims()) == 3000.0
    assert quantity(one, "stop.nothing.here", aims()) is None
    assert [quantity(one, f"seeds.{part}", aims()) for part in ("fleet", "data", "training", "flet")] == [0, 0, 0, None]
    hard = aims(hardness=lambda spec, name: (spec.algorithm["lr"], name))
    assert quantity(one, "measure.DevMC-R", hard) == (0.1, "DevMC-R")


def test_a_run_without_a_model_has_a_spec_and_the_accuracy_of_its_first_weights(cells):
    assert quantity(cells[3], "accuracy", aims()) is None
    assert quantity(cells[3], "algorithm.lr", aims()) == 0.1
    from dataclasses import replace

    run = cells[0].run
    empty = replace(cells[0], reason="no model", run=replace(run, first=None, seconds=run.seconds[:1], accuracy=run.accuracy[:1]))
    assert quantity(empty, "accuracy", aims()) == 0.1 == quantity(empty, "accuracy_at_equal_time", aims())
    untried = replace(empty, run=replace(empty.run, seconds=run.seconds[:0], accuracy=run.accuracy[:0]))
    assert quantity(untried, "accuracy", aims()) == 0.1, "that of chance"
    assert quantity(empty, "loss", aims()) is None
    assert quantity(empty, "virtual_seconds", aims()) == 20.0


def test_text_is_no_number(cells):
    assert number(cells[0], "pace.cohort", aims(), "x") == 4.0
    with pytest.raises(BadInput, match=r"analysis\[0\].x: 'pace.use' is 'readiness' in 'algorithm.lr=0.05, seed 0', not a number"):
        number(cells[0], "pace.use", aims(), "analysis[0].x")


def test_equal_time_is_the_end_of_the_shortest_run_that_made_a_model(cells):
    cells[1] = with_run(cells[1], end=12.0)
    assert equal_time(cells) == 12.0
    assert equal_time([cells[3]]) is None


def test_targets(cells):
    assert resolve_target(0.7, cells, None) == 0.7
    assert resolve_target(None, cells, None) is None
    assert resolve_target("0.5 of best of algorithm.lr=0.05", cells, None) == pytest.approx(0.275)
    assert resolve_target("1.0 of best of baseline", cells, "algorithm.lr=0.1") == pytest.approx(0.8)
    assert resolve_target("0.5 of best of baseline", [cells[3]], "algorithm.lr=0.1") is None
    assert (
        time_to_reach(cells[0], 0.25).seconds,
        time_to_reach(cells[0], 0.9).reached,
        time_to_reach(cells[3], 0.5),
    ) == (
        10.0,
        False,
        None,
    )


def test_arms_keep_the_order_of_the_file(cells):
    assert {name: len(mine) for name, mine in arms_of(cells).items()} == {"algorithm.lr=0.05": 2, "algorithm.lr=0.1": 2}


def test_keys_with_a_dot_are_found_and_what_is_no_number_any_more_is_none():
    study = asked()
    (one, *_) = ran(study, [0.5] * 4, time_to={"0.5": 12.0, "0.9": None}, loss=float("nan"))
    assert number(one, "time_to.0.5", aims(), "here") == 12.0 and number(one, "time_to.0.9", aims(), "here") is None
    assert number(one, "loss", aims(), "here") is None, "the run diverged, and its study is written all the same"


EASY = {"use": "dpgmm", "sigma": 0.1, "mean_mbps": 100.0}
HARD = {"use": "dpgmm", "sigma": 1.5, "mean_mbps": 20.0}


def spec(devices, seconds=120.0, states="always_on"):
    pace = {"use": "deadline", "cohort": 5, "seconds": seconds}
    return resolve({"world": {"clients": 30, "devices": devices, "states": states}, "pace": pace})


def test_a_harder_fleet_scores_lower_under_the_run_s_own_deadline():
    easy, hard = fleet_metric(spec(EASY), "DevMC-R"), fleet_metric(spec(HARD), "DevMC-R")
    assert easy > hard
    assert fleet_metric(spec(HARD, seconds=1e5), "DevMC-R") > hard


def test_states_count_where_there_are_any():
    some = spec(EASY, states={"use": "dpcsm", "alpha": 100.0, "start_rank": 150})
    assert 0 <= fleet_metric(some, "StatMC-R") <= 1.5
    with pytest.raises(BadInput, match=r"measure.StatMC-R: the fleet has no states"):
        fleet_metric(spec(EASY), "StatMC-R")


def test_devices_of_any_recipe_are_measured():
    near, far = ({"use": "spread", "mbps": 60.0, "link": link} for link in (0.1, 2.0))
    assert fleet_metric(spec(near), "DevMC-R") > fleet_metric(spec(far), "DevMC-R")
