"""Runs find their study, search, demo or folder; arms have short names of their own; what is ticked becomes runs."""

import pytest

from fedfleet.app.dashboard.run_filter import filter_runs
from fedfleet.app.dashboard.run_groups import DEMO, FOLDER, SEARCH, STUDY, RunGrouper, Selection
from fedfleet.app.dashboard.run_watcher import RunWatcher
from tests.app.dashboard.runs import END, STORY, folder_of


def policy(name, seed=0, **more):
    return {"seed": seed, "pace": {"use": name, **more}}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("groups")
    for name, use in (("severe-oort", "readiness"), ("severe-fair", "deadline")):
        for seed in (0, 1):
            folder_of(root / "study/runs", f"{name}-s{seed}-0123456789abcd{seed}f", [*STORY, *END], policy(use, seed), sealed=True)
    (root / "study/study.toml").write_text("[[runs]]\nname = 'severe, oort'\n[[runs]]\nname = 'severe, fair'\n")
    (root / "study/report.html").write_text("")
    for i, lr in enumerate((0.1, 0.2)):
        for seed in (0, 1):
            folder_of(root / f"search/trials/{i}", f"seed-{seed}", STORY, {"seed": seed, "algorithm": {"lr": lr}})
    (root / "search/tune.json").write_text("{}")
    folder_of(root / "demo/runs", "mild-1", STORY)
    (root / "demo/.fedfleet-demo").touch()
    folder_of(root / "october", "first", STORY)
    folder_of(root / "october/runs", "second", STORY)  # no study, whatever the folder is called
    folder_of(root, "alone", STORY)
    return root


@pytest.fixture(scope="module")
def runs(root):
    return RunWatcher(root).refresh()


@pytest.fixture(scope="module")
def grouped(root, runs):
    return RunGrouper(root).group(runs)


def test_every_run_finds_its_group(grouped):
    assert {key: (group.kind, len(group.runs)) for key, group in grouped.groups.items()} == {
        "study": (STUDY, 4), "search": (SEARCH, 4), "demo": (DEMO, 1), "october": (FOLDER, 1), "october/runs": (FOLDER, 1),
    }  # fmt: skip
    assert [run.name for run in grouped.singles] == ["alone"]
    assert grouped.groups["study"].page == "report.html" and grouped.groups["search"].page == ""


def test_arms_are_called_by_what_differs_in_their_group(grouped):
    arms = {group.key: [(arm.name, len(arm.runs)) for arm in group.arms] for group in grouped.groups.values()}
    assert arms["study"] == [("oort", 2), ("fair", 2)]  # as the study's file calls them, and in its order
    assert arms["search"] == [("lr 0.1", 2), ("lr 0.2", 2)] and arms["october"] == [("first", 1)]
    assert grouped.groups["study"].best.accuracy == 0.6


def test_a_run_of_a_study_has_a_title(grouped, runs):
    titles = {grouped.title(run) for run in runs.values()}
    assert {"study: fair, seed 1", "search: lr 0.2, seed 0", "demo: all runs", "october/first", "alone"} <= titles


def test_a_study_alone_is_a_group(root):
    for folder in (root / "study", root / "study/runs"):
        watcher = RunWatcher(folder)
        grouped = RunGrouper(folder).group(watcher.refresh())
        assert [group.name for group in grouped.groups.values()] == (["study"] if folder.name == "study" else [])


def test_nothing_is_named_anew_while_nothing_changes(root):
    watcher = RunWatcher(root)
    grouper = RunGrouper(root)
    first = grouper.group(watcher.refresh())
    assert grouper.group(watcher.summaries) is first
    again = grouper.group(watcher.refresh())
    assert again.groups == first.groups and grouper._layouts["study"][1] is grouper._layouts["study"][1]


def test_what_is_ticked_becomes_runs(grouped, runs):
    def selected(**ticked):
        find = lambda words: [run.name for run in filter_runs(runs.values(), words).runs]  # noqa: E731
        return [run.name for run in Selection(**ticked).runs_of(grouped, runs, find)]

    arm = grouped.groups["study"].arms[0]
    assert len(selected(groups=["study"])) == 4 and len(selected(groups=["study"], arms=[arm.runs[0].name], runs=["alone"])) == 5
    assert selected(arms=[arm.runs[1].name]) == [run.name for run in arm.runs]
    assert all("fair" in name for name in selected(groups=["study//fair"])) and len(selected(groups=["study//fair"])) == 2
    assert selected(runs=["gone"], arms=["gone"], groups=["gone", "gone//fair"]) == []


def test_a_damaged_run_is_an_arm_of_its_own(tmp_path):
    folder_of(tmp_path / "s/runs", "a", STORY)
    (folder_of(tmp_path / "s/runs", "b", STORY) / "spec.toml").write_text("= 3")
    (tmp_path / "s/study.toml").write_text("")
    group = RunGrouper(tmp_path).group(RunWatcher(tmp_path).refresh()).groups["s"]
    assert [arm.name for arm in group.arms] == ["all runs", "b"]
