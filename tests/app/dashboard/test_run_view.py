"""What a run is known by while it goes on agrees with what is measured of it at the end."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.dashboard.run_view import BACK, LATE, LOST, REFUSED, USED, WORKING, RunView, build_view, device_states
from fedfleet.core.events import RoundFailed, TasksSpent
from fedfleet.measure.summary import summary
from tests.app.dashboard.runs import END, STORY, floats, ints


def test_a_story_in_the_middle():
    run = build_view(STORY)
    assert (run.clients, run.seed, run.online, run.commits, run.time) == (8, 7, 5, 1, 160.0)
    assert [(r.number, r.asked, r.used, r.late, r.lost, r.ended) for r in run.rounds] == [
        (0, 3, 2, 1, 0, 1),
        (1, 3, 0, 0, 1, 0),
    ]
    assert run.in_model == {1, 2}
    assert [t.fate for t in run.turns] == [USED, USED, LATE, BACK, LOST, WORKING]
    assert +run.counts == {USED: 2, LATE: 1, BACK: 1, LOST: 1, WORKING: 1}
    assert run.bytes_down == 560.0 and run.bytes_up == 90.0  # of the late one only 60 bytes had gone down
    assert run.turns[2].reason == "went out of reach" and run.why_late.total() == 1  # 120 s, of which it worked for 30
    assert device_states(run) == "-rulxw--"
    assert device_states(run, "10111011" + "0" * 8) == "-oulxw--"
    assert device_states(run, "0" * 8) == "ooooowoo", "who is at work does not call meanwhile"
    assert run.scores[-1].accuracy == 0.6 and 0.09 < run.scores[-1].margin < 0.1


def test_a_story_at_its_end():
    run = build_view([*STORY, *END])
    assert run.ended == "rounds" and run.failed == {"too few reports": 1}
    assert run.turns[3].fate == REFUSED and run.rounds[1].ended == -1
    assert [f.words for f in run.faults] == [
        "late", "lost: its battery was empty", "its report was refused: it is not finite", "the round failed: too few reports",
    ]  # fmt: skip


def test_facts_are_the_measures_of_a_real_run(tiny_run):
    run, measures = build_view(tiny_run.events), summary(tiny_run.events)
    assert run.commits == measures["commits"] and len(run.rounds) == measures["rounds"]
    assert abs(run.bytes_up - measures["bytes_up"]) < 1 and abs(run.bytes_down - measures["bytes_down"]) < 1
    assert run.clients - len(run.in_model) == measures["participation"]["never"]
    assert run.scores[-1].accuracy == measures["accuracy"] and run.time == measures["virtual_seconds"]


@given(st.integers(0, len(STORY) + len(END)))
def test_every_beginning_can_be_shown_and_leads_to_the_same_end(cut):
    events = [*STORY, *END]
    run = RunView()
    for event in events[:cut]:
        run.apply(event)
    assert len(device_states(run)) == run.clients and sum(run.counts.values()) == len(run.turns)
    for event in events[cut:]:
        run.apply(event)
    assert run == build_view(events)


def test_events_of_tasks_that_nobody_knows_are_passed_over():
    run = build_view(STORY[:2] + [STORY[3], STORY[5], STORY[6], END[0]])
    assert run.turns == [] and device_states(run) == "-" * 8


def test_on_a_real_network_nobody_says_why_no_report_came():
    unknown = TasksSpent(120.0, ints(2), ints(3), {"compute": floats(math.nan), "bytes_down": floats(math.nan)})
    run = build_view([*STORY[:6], unknown])
    assert run.turns[2].reason == "no report came" and run.why_late == {"no report came": 1}


def test_why_a_round_failed_is_said_as_in_reports():
    few = [
        replace(e, reason="0 of at least 1 reports arrived") if isinstance(e, RoundFailed) else e
        for e in [*STORY, *END]
    ]
    result = build_view(few)
    assert list(result.failed) == ["no report came in time"] and result.faults[-1].words.endswith(
        "no report came in time"
    )
