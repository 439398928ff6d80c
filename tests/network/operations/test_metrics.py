"""Counters of several processes that die and begin again: their sum never falls and forgets nothing.

Metrics in the text form: one truth about several processes, parsed back by the field's own parser.
"""

import json
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from fedfleet.core.errors import BadInput
from fedfleet.core.events import Evaluated, ModelCommitted
from fedfleet.measure.run_progress import FATES, Progress
from fedfleet.network.operations.metrics import (
    BOUNDS,
    INFLIGHT_BYTES,
    OPEN_CALLS,
    Collector,
    Figures,
    Totals,
    buckets_of,
    count_call,
    count_report,
    end_process,
    exposition,
    figures_of,
    status_json,
    sum_totals,
    update_process,
)
from fedfleet.network.operations.process_memory import ProcessMemory
from fedfleet.network.operations.status import CONTRACT

# What happens at two transmitters: (place, what); a count, a level up, a level down, telling, or death.
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["count", "open", "close", "tell", "die", "noticed death"])),
    max_size=60,
)


@given(STEPS)
def test_the_sum_is_all_that_was_told_and_never_falls(steps):
    totals, lives, made = Totals(), [100, 200], [Counter(), Counter()]
    told_by: dict[int, float] = {}  # by life: what it told last
    before = 0.0
    for place, what in steps:
        if what == "count":
            made[place]["strikes"] += 1
        elif what in ("open", "close"):
            made[place][OPEN_CALLS] += 1 if what == "open" else -1
        elif what == "tell":
            said = dict(made[place])
            told_by[lives[place]] = said.get("strikes", told_by.get(lives[place], 0.0))
            totals = update_process(totals, place, lives[place], said)
        else:
            if what == "noticed death":
                totals = end_process(totals, place)
            lives[place], made[place] = lives[place] + 1, Counter()
        now = sum_totals(totals).get("strikes", 0.0)
        assert now == sum(told_by.values()) and now >= before
        before = now


def test_a_process_that_begins_anew_under_the_same_number_is_noticed_by_what_fell():
    totals = update_process(Totals(), 0, 7, {"bytes_up": 500.0, "strikes": 2.0})
    totals = update_process(totals, 0, 7, {"bytes_up": 10.0})
    assert sum_totals(totals) == {"bytes_up": 510.0, "strikes": 2.0}


def test_levels_rise_and_fall_and_go_with_their_process():
    totals = update_process(update_process(Totals(), 0, 1, {INFLIGHT_BYTES: 70.0}), 1, 2, {INFLIGHT_BYTES: 30.0})
    assert sum_totals(totals)[INFLIGHT_BYTES] == 100.0
    totals = update_process(totals, 0, 1, {INFLIGHT_BYTES: 5.0})
    assert sum_totals(totals)[INFLIGHT_BYTES] == 35.0
    assert sum_totals(end_process(totals, 0))[INFLIGHT_BYTES] == 30.0
    assert sum_totals(update_process(totals, 1, 3, {}))[INFLIGHT_BYTES] == 5.0
    assert end_process(totals, 9) is totals


def test_what_is_left_out_has_not_changed():
    totals = update_process(Totals(), 0, 1, {"bytes_up": 10.0})
    assert sum_totals(update_process(totals, 0, 1, {"strikes": 1.0})) == {"bytes_up": 10.0, "strikes": 1.0}


def test_nobody_can_make_up_names_of_methods_or_codes():
    counts = Counter()
    count_call(counts, "Hand")
    count_call(counts, "/etc/passwd", "UNIMPLEMENTED")
    count_call(counts, "Check", "NONSENSE")
    assert counts == {"calls/Hand/OK": 1, "calls/other/UNIMPLEMENTED": 1, "calls/Check/other": 1}


def test_methods_and_codes_are_those_of_the_service():
    import grpc

    from fedfleet.network.operations.metrics import CODES, METHODS
    from fedfleet.network.protocol import fleet_pb2

    service = fleet_pb2.DESCRIPTOR.services_by_name["Fleet"]
    assert set(METHODS) == {method.name for method in service.methods}
    assert set(CODES) <= {code.name for code in grpc.StatusCode}


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_the_histogram_counts_each_report_once(seconds):
    counts = Counter()
    for s in seconds:
        count_report(counts, s)
    result = buckets_of(counts)
    for bound, number in result:
        assert number == sum(s <= bound for s in seconds)
    assert [bound for bound, _ in result[:-1]] == list(BOUNDS)


FULL = Figures(
    "demo", 4, 3, 5, 6, 7, running=2, arrived=1, waiting_for="client 7", uptime_seconds=12.5, run_seconds=75.0, commits=3,
    failed_rounds=1, reports={"folded": 9, "late": 1}, seconds_since_commit=2.0, accuracy=0.91,
    counts={"calls/Hand/OK": 9.0, "strikes": 2.0, "bytes_up": 900.0, "bytes_down": 90.0, "snapshots": 4.0},
    transmitters=2, transmitters_up=2, restarts=1, max_samples=800.0, clipped=2,
    memory={"processor": ProcessMemory(100, 80), "t0": ProcessMemory(50)},
)  # fmt: skip


def samples(figures):
    """All samples by name and labels, as Prometheus would read them."""
    return {
        (s.name, *sorted(s.labels.items())): s.value
        for family in text_string_to_metric_families(exposition(figures).decode())
        for s in family.samples
    }


def test_two_transmitters_of_which_one_is_restarted():
    totals, seen = Totals(), []
    one, two = Counter(), Counter()

    def scrape():
        result = samples(Figures("demo", counts=sum_totals(totals)))
        seen.append(result)
        return result

    for counts, place, pid in ((one, 0, 10), (two, 1, 20)):
        count_call(counts, "Hand")
        count_report(counts, 0.03)
        counts.update({"bytes_up": 1000, INFLIGHT_BYTES: 500, "receive_seconds_sum": 0.03})
        totals = update_process(totals, place, pid, counts)
    found = scrape()
    assert found["fedfleet_calls_total", ("code", "OK"), ("method", "Hand")] == 2
    assert found["fedfleet_bytes_total", ("direction", "up")] == 2000
    assert found[("fedfleet_inflight_bytes",)] == 1000
    totals = end_process(totals, 0)
    found = scrape()
    assert found["fedfleet_bytes_total", ("direction", "up")] == 2000 and found[("fedfleet_inflight_bytes",)] == 500
    again = Counter(bytes_up=50, receive_seconds_sum=7.0)
    count_call(again, "Hand")
    count_report(again, 7.0)
    totals = update_process(totals, 0, 11, again)
    found = scrape()
    assert found["fedfleet_calls_total", ("code", "OK"), ("method", "Hand")] == 3
    assert found["fedfleet_bytes_total", ("direction", "up")] == 2050
    assert found["fedfleet_receive_seconds_bucket", ("le", "0.05")] == 2
    assert found["fedfleet_receive_seconds_bucket", ("le", "+Inf")] == found[("fedfleet_receive_seconds_count",)] == 3
    assert found[("fedfleet_receive_seconds_sum",)] == pytest.approx(7.06)
    for before, after in pairwise(seen):
        fell = [n for n, v in before.items() if n[0].endswith(("_total", "_bucket", "_count")) and after[n] < v]
        assert not fell


def test_what_nobody_knows_yet_is_left_out():
    result = samples(Figures("demo"))
    assert ("fedfleet_accuracy",) not in result and ("fedfleet_seconds_since_commit",) not in result
    assert ("fedfleet_accuracy",) not in samples(Figures("demo", accuracy=math.nan))
    assert result[("fedfleet_round",)] == 0


def test_every_figure_is_told():
    result = samples(FULL)
    assert result[("fedfleet_accuracy",)] == 0.91 and result[("fedfleet_transmitters_up",)] == 2
    assert result["fedfleet_reports_total", ("fate", "folded")] == 9
    assert result["fedfleet_process_proportional_bytes", ("process", "processor")] == 80
    assert result["fedfleet_process_resident_bytes", ("process", "t0")] == 50
    assert ("fedfleet_process_proportional_bytes", ("process", "t0")) not in result
    assert result["fedfleet_run_info", ("protocol", "4"), ("run", "demo")] == 1


def test_names_from_elsewhere_cannot_break_the_text():
    result = samples(Figures('a "run"\nwith_lines{} 1\\'))
    assert [name for name in result if name[0] == "with_lines"] == []


def test_every_metric_is_in_the_documentation():
    said = (Path(__file__).parents[3] / "docs/how-to/operate.md").read_text()
    told = set(re.findall(r"^\| `(fedfleet_\w+)", said, re.M))
    assert told == {f"{m.name}_total" if m.type == "counter" else f"{m.name}_info" if m.type == "info" else m.name
                    for m in Collector(lambda: FULL).collect()}  # fmt: skip


def test_figures_follow_the_events_of_the_run():
    progress = Progress()
    progress.on(ModelCommitted(10.0, 1, 1, "x", 3))
    progress.on(Evaluated(11.0, 1, 8, 10, 0.5))
    figures = figures_of(progress, "demo", run_seconds=15.0, devices_online=3, declared=3)
    assert (figures.round, figures.version, figures.commits, figures.accuracy) == (2, 1, 1, 0.8)
    assert figures.seconds_since_commit == 5.0 and set(figures.reports) == set(FATES)
    progress.on(ModelCommitted(20.0, 2, 2, "x", 3))
    assert figures.reports["folded"] == 3, "figures that were given away must not change"


def test_the_status_keeps_the_contract():
    said = json.loads(status_json(FULL))
    assert set(CONTRACT) <= said.keys()
    assert {name: said[name] for name in CONTRACT} == {
        "run": "demo", "round": 4, "version": 3, "devices_online": 5, "running": 2, "waiting_for": "client 7",
        "uptime_seconds": 12.5,
    }  # fmt: skip


def test_without_prometheus_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client", None)
    with pytest.raises(BadInput, match=r"fedfleet\[server\]"):
        exposition(FULL)
