"""Flame's availability traces: only AVL_TRAIN is ready, each trace repeats after its days."""

import json

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import availability
from fedfleet.world.bases import load_devices, load_states
from fedfleet.world.bases.flame import DAY, PERIODS, states_and_left_out
from tests.real import ROOT

pytestmark = pytest.mark.slow

FILE = ROOT / "mobile" / "flame_avail_300.json"
needs_flame = pytest.mark.skipif(not FILE.is_file(), reason=f"Flame's traces are not in {ROOT} ($FEDFLEET_DATA)")
TRAIN, EVAL, AWAY = "AVL_TRAIN", "AVL_EVAL", "UN_AVL"


def row(**traces):
    return {"training_delay_s": 4.0} | {name: [[0, TRAIN]] for name in PERIODS} | traces


def written(folder, rows, trace=""):
    (folder / "f.json").write_text(json.dumps(rows))
    return f"{folder / 'f.json'}{trace}"


def spans(table):
    return list(zip(table.traces.begins.tolist(), table.traces.ends.tolist(), strict=True))


def test_only_trainable_time_is_ready_and_the_default_is_two_states(tmp_path):
    two = [[0, TRAIN], [300, AWAY], [400, TRAIN], [400, AWAY], [500, TRAIN], [600, TRAIN], [700, AWAY]]
    three = [[50, TRAIN], [60, EVAL], [70, TRAIN], [80, AWAY]]
    rows = {"1": row(mobiperf_2st=two, mobiperf_3st_50=three)}
    table = load_states("flame:" + written(tmp_path, rows))
    assert spans(table) == [(0.0, 300.0), (500.0, 700.0)]
    assert table.traces.period.tolist() == [6 * DAY]
    assert spans(load_states("flame:" + written(tmp_path, rows, "#mobiperf_3st_50"))) == [(50.0, 60.0), (70.0, 80.0)]
    day = load_states("flame:" + written(tmp_path, rows, "#syn_0"))
    assert spans(day) == [(0.0, DAY)]
    assert day.traces.period.tolist() == [DAY]


def test_the_last_state_holds_to_the_end_of_the_period_and_nothing_goes_beyond(tmp_path):
    rows = {
        "open": row(syn_20=[[10, AWAY], [80000, TRAIN]]),
        "beyond": row(syn_20=[[80000, TRAIN], [90000, AWAY], [91000, TRAIN]]),
        "never": row(syn_20=[[0, AWAY], [86400, TRAIN]]),
        "briefly": row(syn_20=[[0, TRAIN], [0, EVAL]]),
    }
    table, left_out = states_and_left_out(written(tmp_path, rows, "#syn_20"))
    assert table.ids.tolist() == ["open", "beyond"]
    assert left_out == 2
    assert spans(table) == [(80000.0, DAY), (80000.0, DAY)]


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        (None, "missing or empty"),
        ([], "missing or empty"),
        ("x", "missing or empty"),
        ([[0, "AVL"]], "change 0 must be"),
        ([[0, TRAIN], [1]], "change 1 must be"),
        ([[0, TRAIN], 7], "change 1 must be"),
        ([[-1, TRAIN]], "-1 is not"),
        ([["0", TRAIN]], "change 0"),
        ([[float("nan"), TRAIN]], "nan is not"),
        ([[5, TRAIN], [4, AWAY]], "change 1 goes back in time"),
    ],
)
def test_malformed_traces_are_refused_by_name(tmp_path, trace, why):
    path = written(tmp_path, {"1": row(), "bad": row(mobiperf_2st=trace)})
    with pytest.raises(BadInput, match="state bad") as told:
        load_states("flame:" + path)
    assert why in str(told.value) and path in str(told.value)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match="did you mean 'mobiperf_2st'"):
        load_states("flame:" + written(tmp_path, {"1": row()}, "#mobiperf_2"))
    with pytest.raises(BadInput, match="none of its 1 trainers"):
        load_states("flame:" + written(tmp_path, {"1": row(mobiperf_2st=[[0, AWAY]])}))
    for rows in ({}, [], {"bad": 3}):
        with pytest.raises(BadInput, match=r"f\.json"):
            load_states("flame:" + written(tmp_path, rows))
    with pytest.raises(BadInput, match="no file"):
        load_states(f"flame:{tmp_path}/absent")
    with pytest.raises(BadInput, match="has no devices"):
        load_devices(f"flame:{tmp_path}/absent")


@needs_flame
@pytest.mark.parametrize("trace", PERIODS)
def test_real_traces(trace):
    table, left_out = states_and_left_out(f"{FILE}#{trace}")
    assert (len(table), left_out) == (300, 0)
    share = availability(table)
    assert share.max() <= 1.0
    if trace == "mobiperf_2st":
        assert (share.mean(), np.median(share)) == pytest.approx((0.16, 0.13), abs=0.005)
    if trace == "syn_0":
        assert (share == 1.0).all()
