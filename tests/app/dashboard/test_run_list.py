"""The list: groups that open and shut, arms with their seeds, ticks that stay, and a page that stays small."""

import time

import pytest

from fedfleet.app.dashboard.run_groups import RunGrouper, Selection
from fedfleet.app.dashboard.run_list import ListState, run_list, run_rows
from fedfleet.app.dashboard.run_watcher import RunWatcher
from tests.app.dashboard.runs import END, STORY, folder_of


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    root = tmp_path_factory.mktemp("list")
    for study in ("one", "two", "three", "four"):
        for i, use in enumerate(("readiness", "deadline", "buffered")):
            for seed in (0, 1):
                table = {"seed": seed, "pace": {"use": use}}
                folder_of(
                    root / study / "runs", f"{use}-s{seed}-0123456789abc{i}{seed}f", [*STORY, *END], table, sealed=use != "buffered"
                )
        (root / study / "study.toml").write_text("")
    folder_of(root, "alone", STORY)
    watcher = RunWatcher(root)
    runs, grouper = watcher.refresh(), RunGrouper(root)
    return lambda state=ListState(): run_rows(runs, grouper.group(runs), state)  # noqa: B008


def test_groups_are_shut_and_say_what_is_in_them(listed):
    rows = listed()
    assert rows.count('class="grp"') == 4 and 'class="many' not in rows and rows.count('aria-expanded="false"') == 4
    assert 'study: 6 runs in 3 arms, <span class="st stopped">2 stopped</span>' in rows and "best</span> 60 %" in rows
    assert 'name="run" value="alone"' in rows


def test_a_group_opens_and_shows_its_arms_with_their_seeds(listed):
    rows = listed(ListState(open=["one"]))
    assert rows.count('class="many') == 3 and '<input type="hidden" name="open" value="one">' in rows
    assert ">deadline</a>" in rows and 'title="mean of 2 runs"' in rows
    assert '<a href="/runs/one/runs/deadline-s1-0123456789abc11f" title=' in rows


def test_a_filter_opens_what_it_finds_and_the_reader_may_shut_it(listed):
    assert listed(ListState("deadline one")).count('class="many') == 1
    assert "2 of 6 runs" in listed(ListState("deadline one"))
    assert listed(ListState("deadline one", shut=["one"])).count('class="many') == 0
    assert listed(ListState("deadline")).count('class="many') == 0  # in four groups: too much at once


def test_the_group_of_the_current_run_is_open(listed):
    rows = listed(ListState(current="two/runs/deadline-s0-0123456789abc10f"))
    assert rows.count('class="many') == 3 and 'class="many cur"' in rows and "aria-current=true" in rows


def test_a_group_is_ticked_as_a_whole(listed):
    shut, opened = (listed(ListState(open=o, selection=Selection(groups=["one"]))) for o in ([], ["one"]))
    assert "Compare 6 ticked" in shut and "Compare 6 ticked" in opened and opened.count(" checked") == 1 + 3
    assert 'value="one" aria-label="compare 6 runs of one" checked' in shut


def test_a_group_that_was_ticked_under_a_filter_keeps_it(listed):
    token = "one//deadline one"
    assert f'value="{token}"' in listed(ListState("deadline one"))
    rows = listed(ListState("no-such-run", selection=Selection(groups=[token])))
    assert "Compare 2 ticked" in rows and 'class="kept"' in rows and "one (deadline one), 2 runs" in rows


def test_arms_that_are_ticked_stay_in_sight(listed):
    rows = listed(ListState("alone", selection=Selection(arms=["one/runs/deadline-s0-0123456789abc10f"])))
    assert "one: deadline, 2 runs" in rows and "Compare 2 ticked" in rows


def test_runs_can_be_listed_one_by_one_and_in_any_order(listed):
    rows = listed(ListState(is_flat=True, by="name"))
    assert rows.count('type="checkbox" name="run"') == 25 and "one: deadline, seed 1" in rows and 'class="grp"' not in rows
    for by in ("acc", "time", "name"):
        assert listed(ListState(by=by, open=["one"])).count('class="many') == 3
    assert '<option value="all" selected>' in run_list("", ListState(is_flat=True))


def test_a_list_is_quick(listed):
    listed()
    start = time.process_time()
    listed(ListState("deadline"))
    assert time.process_time() - start < 1.0
