"""How hard the fleet of a spec is, by the metrics of `fedfleet measure`."""

import pytest

from fedfleet.app.spec import resolve
from fedfleet.app.studies.grid.fleet_metrics import fleet_metric
from fedfleet.core.errors import BadInput

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
