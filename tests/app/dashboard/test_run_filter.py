"""A few words find runs, and words that mean nothing are said to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedfleet.app.dashboard.run_filter import ORDERS, filter_runs
from fedfleet.app.dashboard.run_watcher import RunWatcher
from fedfleet.app.spec import load_spec
from tests.app.dashboard.runs import END, STORY, folder_of


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("filter")
    folder_of(root, "severe-one", STORY, {"pace": {"use": "deadline", "seconds": 300.0}})
    folder_of(root, "mild-one", [*STORY, *END], {"pace": {"use": "readiness"}}, sealed=True)
    return list(RunWatcher(root).refresh().values())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {"severe-one", "mild-one"}),
        ("severe", {"severe-one"}),
        ("one, deadline", {"severe-one"}),
        ("finished", {"mild-one"}),
        ("acc>50", {"severe-one", "mild-one"}),
        ("acc > 90", set()),
        ("acc>=60% rounds>1", {"mild-one"}),
        ("pace.seconds=300", {"severe-one"}),
        ("policy=readiness", {"mild-one"}),
        ("task=digits_cnn method=fedavg", {"severe-one", "mild-one"}),
        ("nothing-like-this", set()),
    ],
)
def test_words(runs, words, expected):
    assert {g.name for g in filter_runs(runs, words).runs} == expected


def test_a_digest_and_the_name_of_an_arm_are_found(runs):
    severe = next(run for run in runs if run.name == "severe-one")
    assert severe.digests[0] == load_spec(severe.folder / "spec.toml").digest
    assert [run.name for run in filter_runs(runs, severe.digests[0][:12]).runs] == ["severe-one"]
    assert [run.name for run in filter_runs(runs, "patient", label=lambda run: "Patient" if run is severe else "").runs] == [
        "severe-one"
    ]


def test_odd_words_are_said(runs):
    assert "did you mean 'acc'" in filter_runs(runs, "acx>9").problem
    assert "compared with a number" in filter_runs(runs, "acc>much").problem


@given(st.text(max_size=60))
def test_no_words_trip_it(runs, words):
    filter_runs(runs, words)


@pytest.mark.parametrize("by", [*ORDERS, "no such order"])
def test_an_order_loses_nobody(runs, by):
    result = filter_runs(runs, "", by).runs
    assert sorted(g.name for g in result) == sorted(g.name for g in runs)
    assert by not in ("", "no such order") or result == runs
    assert by != "time" or [g.time for g in result] == sorted((g.time for g in runs), reverse=True)
