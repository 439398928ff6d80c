"""FLASH's folder: phones with interpolated times and their users' speeds, and state traces in the original format."""

import json
from datetime import timedelta
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from fedfleet.core.errors import BadInput
from fedfleet.core.fleet import availability, mean_kbps
from fedfleet.world.bases import flash, flhetbench, load_devices, load_states
from tests.real import ROOT, needs_data

FLASH = ROOT / "flash"
needs_flash = pytest.mark.skipif(not FLASH.is_dir(), reason=f"FLASH's tables are not in {ROOT} ($FEDFLEET_DATA)")
USER = {"down_u": 4000.0, "down_sigma": 1000.0, "up_u": 500.0, "up_sigma": 0.0}
WILD = {"down_u": 1000.0, "down_sigma": 5000.0, "up_u": 300.0, "up_sigma": 900.0}
PHONE = {"Model": "Google Pixel 4", "RAM": "6GB", "CPU_F_AI_Score": "3212", "AI_Score": " 33289 1"}


def folder(path, **files):
    """FLASH's files with this content, in a folder; speeds too, unless they are given."""
    for name, value in ({"speed_distri": {"u1": USER, "u2": WILD}} | files).items():
        (path / f"{name}.json").write_text(json.dumps(value))
    return f"flash:{path}"


def trace(*lines, start="2020-01-30", **more):
    """A trace from lines of time and state."""
    return {"guid": "g", "model": "m", "messages": "\n".join(f"{start} {t}\t{s}" for t, s in lines)} | more


def states_of(path, traces, option=""):
    (path / "state_traces.json").write_text(json.dumps(traces))
    return flash.states_and_left_out(f"{path}{option}")


# devices


def test_time_follows_the_score_between_and_beyond_the_measured_phones():
    at = flash.seconds_per_sample
    for score, seconds in zip(flash.CPU_FLOAT_SCORES, flash.BATCH_SECONDS, strict=True):
        assert at(score) == pytest.approx(seconds / 30)
    middle = (192 * 2057) ** 0.5
    assert at(middle) == pytest.approx((1.642 * 0.588) ** 0.5 / 30), "the middle in logarithms of both"
    assert at(96) == pytest.approx(2 * at(192))
    assert at(6424) == pytest.approx(at(3212) / 2)
    times = [at(score) for score in np.linspace(50, 5000, 200)]
    assert all(a > b for a, b in pairwise(times)), "a better score is always faster"


def test_devices_from_the_benchmark_list(tmp_path):
    low = {"Model": "Old", "RAM": "0.75GB", "CPU_F_AI_Score": "96"}
    where = folder(tmp_path, raw_ai_benchmark_list=[PHONE, low, PHONE | {"CPU_F_AI_Score": 2057, "RAM": None}])
    table = load_devices(where)
    assert table.ids.tolist() == ["Google Pixel 4", "Old", "Google Pixel 4 #2"]
    assert table.seconds_per_sample == pytest.approx([0.179 / 30, 2 * 1.642 / 30, 0.588 / 30])
    assert table.memory_mb.tolist()[:2] == [6144.0, 768.0] and np.isnan(table.memory_mb[2])
    assert np.diff(table.down_offsets).tolist() == np.diff(table.up_offsets).tolist() == [15, 15, 15]


def test_devices_from_overall_scores_only(tmp_path):
    table = load_devices(folder(tmp_path, benchmark2score={"Google Nexus S": 383, "Fast": 2 * 33289}))
    assert table.seconds_per_sample == pytest.approx([1.642 / 30, 0.179 / 60])
    assert np.isnan(table.memory_mb).all()


def test_a_phone_keeps_its_user_whoever_else_is_in_the_file(tmp_path):
    scores = {f"phone {i}": 1000 + i for i in range(60)}
    users = {f"u{i}": USER | {"down_u": 1000.0 * (i + 1), "down_sigma": 0.0} for i in range(19)}
    table = load_devices(folder(tmp_path, benchmark2score=scores, speed_distri=users))
    speed = dict(zip(scores, mean_kbps(table).tolist(), strict=True))
    assert set(speed.values()) <= {8000.0 * (i + 1) for i in range(19)}
    assert len(set(speed.values())) > 12
    fewer = dict(list(scores.items())[::-3])
    shuffled = dict(reversed(users.items()))
    again = load_devices(folder(tmp_path, benchmark2score=fewer, speed_distri=shuffled))
    assert mean_kbps(again).tolist() == [speed[name] for name in fewer]


def test_speeds_are_quantiles_of_the_truncated_normal_in_kbit(tmp_path):
    table = load_devices(folder(tmp_path, benchmark2score={"a": 500}, speed_distri={"u": USER}))
    assert table.down[7] == pytest.approx(8 * 4000.0, rel=1e-4)
    assert table.down.tolist() == sorted(table.down)
    assert table.down.mean() == pytest.approx(32000.0, rel=1e-3)
    assert table.down.std() == pytest.approx(8000.0, rel=0.1)
    assert set(table.up.tolist()) == {4000.0}
    wild = load_devices(folder(tmp_path, benchmark2score={"a": 500}, speed_distri={"u": WILD}))
    assert wild.down.min() > 8.0
    normal, below = NormalDist(1000.0, 5000.0), NormalDist(1000.0, 5000.0).cdf(1.0)
    assert wild.down[7] / 8 == pytest.approx(normal.inv_cdf(below + 0.5 * (1 - below)))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "has neither"),
        ({"raw_ai_benchmark_list": []}, "a list of phones"),
        ({"raw_ai_benchmark_list": [PHONE, {}]}, "row 1 has no Model"),
        ({"raw_ai_benchmark_list": [PHONE, 3]}, "row 1 has no Model"),
        ({"raw_ai_benchmark_list": [PHONE | {"CPU_F_AI_Score": "fast"}]}, "CPU_F_AI_Score: 'fast'"),
        ({"raw_ai_benchmark_list": [PHONE | {"CPU_F_AI_Score": "-3"}]}, "CPU_F_AI_Score: -3.0 is not positive"),
        ({"raw_ai_benchmark_list": [PHONE | {"CPU_F_AI_Score": "nan"}]}, "CPU_F_AI_Score: nan"),
        ({"raw_ai_benchmark_list": [PHONE | {"CPU_F_AI_Score": None}]}, "CPU_F_AI_Score must be"),
        ({"raw_ai_benchmark_list": [PHONE | {"RAM": "lots"}]}, "RAM: 'lots' is not a number of GB"),
        ({"benchmark2score": {"a": 0}}, "phone a: AI score: 0 is not positive"),
        ({"benchmark2score": {"a": "1"}}, "phone a: AI score must be"),
        ({"benchmark2score": []}, "phone -> AI score"),
        ({"benchmark2score": {"a": 1}, "speed_distri": {}}, "user -> speeds"),
        ({"benchmark2score": {"a": 1}, "speed_distri": {"u": 1}}, "user u"),
        ({"benchmark2score": {"a": 1}, "speed_distri": {"u": {"down_u": 1.0}}}, "user u: down_sigma must be"),
        ({"benchmark2score": {"a": 1}, "speed_distri": {"u": USER | {"up_sigma": -1}}}, "user u: up_sigma: -1"),
        ({"benchmark2score": {"a": 1}, "speed_distri": {"u": USER | {"down_u": 0.5}}}, "below 1 kB/s"),
    ],
)
def test_malformed_devices_are_refused_by_name(tmp_path, files, why):
    with pytest.raises(BadInput, match=str(tmp_path)) as told:
        load_devices(folder(tmp_path, **files))
    assert why in str(told.value)


def test_a_folder_without_speeds_is_refused(tmp_path):
    folder(tmp_path, benchmark2score={"a": 1})
    (tmp_path / "speed_distri.json").unlink()
    with pytest.raises(BadInput, match=r"speed_distri\.json"):
        load_devices(f"flash:{tmp_path}")


@needs_flash
def test_real_phones():
    table = load_devices(f"flash:{FLASH}")
    assert len(table) == len(set(table.ids.tolist())) == 333
    assert 0.001 < table.seconds_per_sample.min() < table.seconds_per_sample.max() < 0.2
    assert 2000 < mean_kbps(table).min() < mean_kbps(table).max() < 200_000
    rows = {r["Model"]: r for r in json.loads((FLASH / "raw_ai_benchmark_list.json").read_text())}
    scores = json.loads((FLASH / "benchmark2score.json").read_text())
    measured = json.loads((FLASH / "supported_devices.json").read_text())
    assert [float(rows[name]["CPU_F_AI_Score"]) for name in measured] == list(flash.CPU_FLOAT_SCORES)
    assert [scores[name] for name in measured] == list(flash.AI_SCORES)


# states


def test_ready_is_locked_and_wifi_and_charging(tmp_path):
    lines = [
        ("10:00:00", "87.0%"),
        ("10:00:05", "screen_off"),
        ("10:00:10", "battery_charged_on"),
        ("10:00:20", "WiFi"),
        ("10:01:00", "screen_lock"),  # ready from here
        ("10:01:30", "screen_on"),  # does not matter
        ("10:02:00", "4g"),  # to here
        ("10:03:00", "wifi"),  # ready again
        ("10:04:00", "screen_unlock"),
        ("10:05:00", "screen_lock"),  # and again
        ("10:06:00", "battery_charged_off"),
        ("11:00:00", "unknown"),
    ]
    table, left_out = states_of(tmp_path, {"a": trace(*lines, guid=37)})
    start = 28 * 86400 + 10 * 3600.0
    assert left_out == 0
    assert table.ids.tolist() == ["37"]
    assert (table.traces.start[0], table.traces.period[0]) == (start, 3600.0)
    assert table.traces.begins.tolist() == [60.0, 180.0, 300.0]
    assert table.traces.ends.tolist() == [121.0, 241.0, 361.0], "a pair covers its last second too"


def test_phones_that_are_never_ready_are_left_out(tmp_path):
    ready = [("10:00:00", "wifi"), ("10:00:00", "screen_lock"), ("10:00:00", "battery_charged_on")]
    traces = {
        "fine": trace(*ready, ("10:00:09", "2g"), ("10:01:00", "5.5%"), guid="fine"),
        "never": trace(("10:00:00", "wifi"), ("11:00:00", "3g")),
        "open": trace(*ready, ("11:00:00", "50%")),  # FLASH does not count what does not end
        "moment": trace(*ready, ("10:00:00", "2g")),
        "at the end": trace(("09:00:00", "50%"), *ready, ("10:00:00", "2g")),
        "empty": {"messages": "\n\n"},
    }
    table, left_out = states_of(tmp_path, traces)
    assert table.ids.tolist() == ["fine"]
    assert left_out == 5
    assert table.traces.ends.tolist() == [10.0]
    with pytest.raises(BadInput, match="none of its 5 phones"):
        states_of(tmp_path, {key: row for key, row in traces.items() if key != "fine"})


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (trace(("10:00:00", "wifi"), ("10:00:01", "wify")), "line 2: there is no state 'wify'; did you mean 'wifi'?"),
        (trace(("10:00:01", "wifi"), ("10:00:00", "2g")), "line 2 goes back in time"),
        (trace(("25:00:00", "wifi")), "line 1"),
        (trace(("10:00", "wifi")), "line 1"),
        (trace(("10:00:00", "")), "line 1"),
        (trace(("10:00:00", "x%")), "line 1"),
        ({"messages": "junk"}, "'junk' is not"),
        ({"messages": None}, "no messages"),
        ({}, "no messages"),
        (7, "no messages"),
    ],
)
def test_malformed_traces_are_refused_by_name_or_skipped_on_request(tmp_path, row, why):
    ready = [("10:00:00", "wifi"), ("10:00:00", "screen_lock"), ("10:00:00", "battery_charged_on")]
    good = trace(*ready, ("10:00:09", "2g"), ("10:01:00", "5.5%"))
    with pytest.raises(BadInput, match=r"state_traces\.json: state bad") as told:
        states_of(tmp_path, {"good": good, "bad": row})
    assert why in str(told.value) and "#skip" in str(told.value)
    table, left_out = states_of(tmp_path, {"good": good, "bad": row}, "#skip")
    assert (len(table), left_out) == (1, 1)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"state_traces\.json"):
        load_states(f"flash:{tmp_path}")
    with pytest.raises(BadInput, match="no option 'skp'"):
        states_of(tmp_path, {}, "#skp")
    for wrong in ({}, []):
        with pytest.raises(BadInput, match="id -> trace"):
            states_of(tmp_path, wrong)


@needs_data
def test_parsed_traces_equal_the_timers_that_flash_made_of_them(tmp_path):
    """Messages written back from FLHetBench's cached timers give the same states as the timers themselves."""
    timers = json.loads((ROOT / "flhetbench/state/cached_timers.json").read_text())
    chosen = [key for key, row in timers.items() if row["isSuccess"]][:60]
    traces = {}
    for key in chosen:
        row = timers[key]
        changes = [(s, "battery_charged_on") for s, _ in row["ready_time"]]
        changes += [(e, "battery_charged_off") for _, e in row["ready_time"]]
        # A stable sort keeps a charge of no length in its order: on, then off.
        changes = sorted(changes, key=lambda change: change[0])
        events = [
            (row["trace_start"], "wifi"),
            (row["trace_start"], "screen_lock"),
            *changes,
            (row["trace_end"], "9.0%"),
        ]
        lines = [f"{flash.ORIGIN + timedelta(seconds=second)}\t{state}" for second, state in events]
        traces[key] = {"guid": key, "model": "m", "messages": "\n".join(lines)}
    ours, left_out = states_of(tmp_path, traces)
    (tmp_path / "ids.json").write_text(json.dumps(chosen))
    theirs = flhetbench.states(f"{ROOT}/flhetbench/state/cached_timers.json#{tmp_path}/ids.json")
    assert left_out == 0
    assert ours.ids.tolist() == theirs.ids.tolist()
    for column in ("start", "period", "offsets", "begins", "ends"):
        assert np.array_equal(getattr(ours.traces, column), getattr(theirs.traces, column)), column
    assert availability(ours).mean() > 0.01
