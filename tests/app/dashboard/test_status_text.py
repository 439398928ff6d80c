"""A run in words: how it stands beside the one that it repeats, who is at work, what went wrong."""

from dataclasses import replace

from fedfleet.app.dashboard.run_watcher import RunWatcher
from fedfleet.app.dashboard.status_text import (
    device_history,
    fault_lines,
    fault_summary,
    figures,
    most_similar_run,
    progress,
    round_rows,
    status_sentences,
)
from fedfleet.measure.run_record import read_record
from fedfleet.store.lock import hold_lock
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
    with hold_lock(root / "now"):
        return RunWatcher(root).refresh()


def test_the_nearest_finished_run_is_the_one_that_is_repeated(tmp_path):
    result = runs(tmp_path)
    other = most_similar_run(result["now"], result.values())
    assert other is not None and other.run.name == "before" and other.differs == (("pace.seconds", "120", "300"),)
    assert most_similar_run(result["other"], [result["now"]]) is None  # not finished, and too different
    assert most_similar_run(replace(result["now"], served=True), result.values()) is None, "real time lies beside no virtual time"


def test_how_a_run_stands(tmp_path):
    result = runs(tmp_path)
    now = result["now"]
    first, strong, rest = status_sentences(now, read_record(STORY), most_similar_run(now, result.values()))
    assert first == "Round 2 of 4 after 2.7 min of virtual time"
    assert strong == "60 % accurate. At this time before (pace.seconds = 120) stood at 60 %."
    assert rest.startswith("2 of 8 clients") and "one of the three" in rest
    assert "Ended after 1 model and" in status_sentences(result["before"], read_record([*STORY, *END]), None)[0]
    assert "getting ready" in status_sentences(now, read_record(STORY[:1]), None)[0]
    assert progress(now) == 0.25 and progress(result["before"]) == 1.0


def test_figures_have_units():
    assert [value for value, _ in figures(read_record(STORY))] == ["60.0 %", "5 of 8", "2 of 4", "2", "650 B", "0"]
    assert figures(read_record(STORY[:1]))[0] == ("-", "accuracy")
    assert figures(read_record(STORY), online=6)[1] == ("6 of 8", "online now, 2 offline")


def test_this_round_person_by_person():
    scale, rows, more = round_rows(read_record(STORY))
    assert scale == 120.0 and more == 0
    assert [(r.client, r.words) for r in rows] == [
        (1, "back after 30 s"),
        (5, "training"),
        (4, "its battery was empty"),
    ]
    assert round_rows(read_record([])) == (0.0, [], 0)


def test_faults_are_counted_and_alike_ones_are_one_line():
    run = read_record([*STORY, *END])
    assert fault_summary(run) == ("1 late so far: 1 went out of reach. 1 lost, 1 refused, 1 failed round (1: too few reports).")
    lines = fault_lines(run)
    assert [line.words for line in lines] == [
        "the round failed: too few reports", "client 1 its report was refused: it is not finite",
        "client 4 lost: its battery was empty", "client 3 late, given up after 2.0 min: went out of reach",
    ]  # fmt: skip
    assert [line.grave for line in lines] == [True, False, True, False]


def test_the_history_of_a_device():
    assert device_history(read_record(STORY), 1) == [
        (2, "2.0 min", "30 s", "back", "100 B / 30 B"),
        (1, "0 s", "40 s", "used", "100 B / 30 B"),
    ]
    assert device_history(read_record(STORY), 7) == []


def test_a_run_without_a_model_is_not_called_accurate(tmp_path):
    result = runs(tmp_path)["before"]
    none = read_record([*STORY, *END])
    none.progress.commits = 0
    assert status_sentences(result, none, None)[1] == "no model yet: the first weights are 60 % accurate."
    assert figures(none)[0][1].startswith("accuracy of the first weights, ±")
