"""What the dashboard shows of a run while it goes on agrees with what is measured of it at the end."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.dashboard.run_view import (
    BACK,
    LATE,
    LOST,
    NO_REPORT,
    OUT_OF_REACH,
    REFUSED,
    USED,
    WORKING,
    bytes_moved,
    client_turns,
    clients_in_model,
    current_turns,
    device_states,
    fate_counts,
    lateness_counts,
    turns,
)
from fedfleet.core.events import TasksSpent
from fedfleet.measure.run_record import RunRecord, read_record
from fedfleet.measure.summary import summary
from tests.app.dashboard.runs import END, STORY, floats, ints


def test_a_story_in_the_middle():
    record = read_record(STORY)
    run = record.progress
    assert (run.clients, run.seed, record.online, run.commits, run.time) == (8, 7, 5, 1, 160.0)
    assert [(r.number, r.asked, r.used, r.outcome) for r in run.rounds] == [(0, 3, 2, 1), (1, 3, 0, 0)]
    assert clients_in_model(record) == {1, 2}
    everything = turns(record, range(6))
    assert [t.fate for t in everything] == [USED, USED, LATE, BACK, LOST, WORKING]
    counts = fate_counts(record)
    assert [counts[fate] for fate in (USED, LATE, BACK, LOST, WORKING)] == [2, 1, 1, 1, 1] and sum(counts) == 6
    # Of the late one only 60 bytes had gone down.
    assert bytes_moved(record) == 560.0 + 90.0
    # 120 s, of which it worked for 30.
    assert everything[2].reason == OUT_OF_REACH and lateness_counts(record) == {OUT_OF_REACH: 1}
    assert repr(everything[3:]) == repr(current_turns(record)) and [t.round for t in client_turns(record, 1)] == [0, 1]
    assert device_states(record) == "-rulxw--"
    assert device_states(record, "10111011" + "0" * 8) == "-oulxw--"
    assert device_states(record, "0" * 8) == "ooooowoo", "a device that trains does not call its server"
    assert run.evaluations[-1].accuracy == 0.6 and 0.09 < run.evaluations[-1].margin < 0.1


def test_a_story_at_its_end():
    record = read_record([*STORY, *END])
    assert record.progress.ended == "rounds" and record.progress.failure_reasons == {"too few reports": 1}
    assert turns(record, [3])[0].fate == REFUSED and record.progress.rounds[1].outcome == -1
    assert [(f.kind, f.client, f.reason) for f in record.faults] == [
        ("late", 3, ""), ("lost", 4, "its battery was empty"), ("refused", 1, "it is not finite"),
        ("failed", None, "too few reports"),
    ]  # fmt: skip


def test_facts_are_the_measures_of_a_real_run(tiny_run):
    record, measures = read_record(tiny_run.events), summary(tiny_run.events)
    run = record.progress
    assert run.commits == measures["commits"] and len(run.rounds) == measures["rounds"]
    assert abs(bytes_moved(record) - measures["bytes_up"] - measures["bytes_down"]) < 1
    assert run.clients - len(clients_in_model(record)) == measures["participation"]["never"]
    assert run.evaluations[-1].accuracy == measures["accuracy"] and run.time == measures["virtual_seconds"]


@given(st.integers(0, len(STORY) + len(END)))
def test_every_beginning_can_be_shown_and_leads_to_the_same_end(cut):
    events, record = [*STORY, *END], RunRecord()
    for event in events[:cut]:
        record.on(event)
    assert len(device_states(record)) == record.progress.clients and sum(fate_counts(record)) == record.tasks.count
    for event in events[cut:]:
        record.on(event)
    whole = read_record(events)
    assert record.progress == whole.progress and record.faults == whole.faults
    assert repr(turns(record, range(5))) == repr(turns(whole, range(5))) and device_states(record) == device_states(whole)


def test_events_of_unknown_tasks_are_passed_over():
    record = read_record(STORY[:2] + [STORY[3], STORY[5], STORY[6], END[0]])
    assert record.tasks.count == 0 and device_states(record) == "-" * 8 and not record.faults


def test_on_a_real_network_it_is_unknown_why_no_report_came():
    unknown = TasksSpent(120.0, ints(2), ints(3), {"compute": floats(math.nan), "bytes_down": floats(math.nan)})
    record = read_record([*STORY[:6], unknown])
    assert turns(record, [2])[0].reason == NO_REPORT and lateness_counts(record) == {NO_REPORT: 1}
