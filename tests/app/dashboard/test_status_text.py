"""A run in words: how it stands beside the one that it repeats, who is at work, what went wrong."""

from dataclasses import replace

from fedfleet.app.dashboard.run_view import seen
from fedfleet.app.dashboard.run_watcher import Watch
from fedfleet.app.dashboard.status_text import (
    fault_lines,
    fault_summary,
    figures,
    history,
    progress,
    repeated,
    round_rows,
    standing,
)
from fedfleet.store.lock import locked
from tests.app.dashboard.runs import END, STORY, folder_of


def runs(root):
    folder_of(
        root,
        "before",
        [*STORY, *END],
        {"pace": {"use": "deadline", "seconds": 120.0}, "stop": {"rounds": 4}},
        sealed=True,
    )
    folder_of(
        root,
        "other",
        [*STORY, *END],
        {"pace": {"use": "readiness", "cohort": 3}, "seed": 9, "stop": {"rounds": 7}},
        sealed=True,
    )
    folder_of(root, "now", STORY, {"pace": {"use": "deadline", "seconds": 300.0}, "stop": {"rounds": 4}})
    with locked(root / "now"):
        return Watch(root).look()


def test_the_nearest_finished_run_is_the_one_that_is_repeated(tmp_path):
    found = runs(tmp_path)
    other = repeated(found["now"], found.values())
    assert other is not None and other.run.name == "before" and other.differs == (("pace.seconds", "120", "300"),)
    assert repeated(found["other"], [found["now"]]) is None  # not finished, and too different
    assert repeated(replace(found["now"], served=True), found.values()) is None, "real time lies beside no virtual time"


def test_how_a_run_stands(tmp_path):
    found = runs(tmp_path)
    now = found["now"]
    first, strong, rest = standing(now, seen(STORY), repeated(now, found.values()))
    assert first == "Round 2 of 4 after 2.7 min of virtual time"
    assert strong == "60 % accurate. At this time before (pace.seconds = 120) stood at 60 %."
    assert rest.startswith("2 of 8 people are in the model; one of the three who were asked has not come back yet.")
    assert "Ended after 1 model and" in standing(found["before"], seen([*STORY, *END]), None)[0]
    assert "getting ready" in standing(now, seen(STORY[:1]), None)[0]
    assert progress(now) == 0.25 and progress(found["before"]) == 1.0


def test_figures_have_units():
    assert [value for value, _ in figures(seen(STORY))] == ["60.0 %", "5 of 8", "2 of 4", "2", "650 B", "0"]
    assert figures(seen(STORY[:1]))[0] == ("-", "accuracy")
    assert figures(seen(STORY), online=6)[1] == ("6 of 8", "online now, 2 offline")


def test_this_round_person_by_person():
    scale, rows, more = round_rows(seen(STORY))
    assert scale == 120.0 and more == 0
    assert [(r.client, r.words) for r in rows] == [(1, "back after 30 s"), (5, "at work"), (4, "its battery was empty")]
    assert round_rows(seen([])) == (0.0, [], 0)


def test_faults_are_counted_and_alike_ones_are_one_line():
    run = seen([*STORY, *END])
    assert fault_summary(run) == (
        "1 late so far: 1 went out of reach. 1 lost, 1 refused, 1 failed round (1: too few reports)."
    )
    lines = fault_lines(run)
    assert [line.words for line in lines] == [
        "the round failed: too few reports", "person 1 its report was refused: it is not finite",
        "person 4 lost: its battery was empty", "person 3 late, given up after 2.0 min: went out of reach",
    ]  # fmt: skip
    assert [line.grave for line in lines] == [True, False, True, False]


def test_the_history_of_a_device():
    assert history(seen(STORY), 1) == [
        (2, "2.0 min", "30 s", "back", "100 B / 30 B"),
        (1, "0 s", "40 s", "used", "100 B / 30 B"),
    ]
    assert history(seen(STORY), 7) == []


def test_a_run_without_a_model_is_not_called_accurate(tmp_path):
    found = runs(tmp_path)["before"]
    none = replace(seen([*STORY, *END]), commits=0)
    assert standing(found, none, None)[1] == "no model yet: the first weights are 60 % accurate."
    assert figures(none)[0][1].startswith("accuracy of the first weights, ±")
