"""Measuring fleets."""

import json

import numpy as np
import pytest

from fedfleet.app.fleets.metrics import measure_fleet, parse_t_cost, save_devices, save_states
from fedfleet.core.errors import BadInput
from fedfleet.measure.montecarlo.settings import Settings
from fedfleet.world.bases import load_devices, load_states
from tests.app.specs import fleet

QUICK = Settings(k=5, rounds=100, trips=200)


def test_what_can_be_measured_depends_on_what_is_given(tmp_path):
    devices, states = map(str, fleet(tmp_path))
    assert set(measure_fleet(devices, None, QUICK, seeds=1)) == {"DevMC-R", "DevMC-T"}
    assert set(measure_fleet(None, states, QUICK, seeds=1)) == {"StatMC-R", "StatMC-T", "per_state"}
    assert set(measure_fleet(devices, states, QUICK, seeds=1, only=["InterMC-T"])) == {"InterMC-T"}
    got = measure_fleet(devices, None, QUICK, seeds=3, only=["DevMC-R"])["DevMC-R"]
    assert got["seeds"] == 3 and got["sd"] >= 0


def test_every_metric_has_an_interval_and_says_what_decides_it(tmp_path):
    slow = [{"id": "slow", "down_kbps": [1.0], "up_kbps": None, "seconds_per_sample": 0.05}]
    fast = [{"id": f"d{i}", "down_kbps": [4e4], "up_kbps": None, "seconds_per_sample": 0.05} for i in range(29)]
    (tmp_path / "d.json").write_text(json.dumps({"format": "fedfleet/devices@1", "devices": slow + fast}))
    got = measure_fleet(str(tmp_path / "d.json"), None, QUICK, seeds=3)
    low, high = got["DevMC-T"]["ci95"]
    assert low <= got["DevMC-T"]["value"] <= high
    (note,) = got["DevMC-T"]["notes"]
    assert note.startswith("one device, slow (1 of 30 clients), decides DevMC-T")
    assert got["DevMC-R"]["notes"] == []
    assert measure_fleet(str(tmp_path / "d.json"), None, QUICK, seeds=1)["DevMC-R"]["ci95"] is None
    assert json.dumps(got), "plain numbers"


def test_a_fleet_lies_at_no_distance_from_itself(tmp_path):
    devices, states = map(str, fleet(tmp_path))
    got = measure_fleet(devices, None, QUICK, seeds=1, only=["DevMC-R"], against=devices)["against"]
    assert got["ks"] == 0 and got["js"] == pytest.approx(0) and got["std"] == got["std_other"] > 0
    assert measure_fleet(devices, None, QUICK, seeds=1, only=["DevMC-R"], against="fsreal")["against"]["ks"] > 0
    assert measure_fleet(None, states, QUICK, seeds=1, only=["StatMC-R"], against=states)["against"]["ks"] == 0


def test_an_unknown_metric_is_refused(tmp_path):
    with pytest.raises(BadInput, match="did you mean 'DevMC-"):
        measure_fleet(str(fleet(tmp_path)[0]), None, QUICK, seeds=1, only=["DevMC"])


def test_fleets_are_saved_and_summed_up(tmp_path):
    devices, states = fleet(tmp_path)
    told = save_devices(load_devices(str(devices)), tmp_path / "d.npz")
    assert (told["clients"], told["distinct"]) == (30, 7)
    means = [(20000 + 1000 * (i % 7) + 50000) / 2 for i in range(30)]
    assert told["mean_kbps"] == pytest.approx(np.mean(means)) and told["std_kbps"] == pytest.approx(np.std(means))
    assert len(load_devices(told["out"])) == 30
    told = save_states(load_states(str(states)), None)
    assert (told["clients"], told["distinct"], told["out"]) == (30, 5, None)
    assert told["mean_availability"] == pytest.approx(40001 / 86400)
    assert json.dumps(told), "plain numbers"


def test_costs_are_words_or_seconds():
    assert [parse_t_cost(t) for t in ("uniform", "deadline", "30")] == ["uniform", "deadline", 30.0]
    for text in ("often", "-1", "inf", "nan"):
        with pytest.raises(BadInput, match="--t-cost"):
            parse_t_cost(text)
