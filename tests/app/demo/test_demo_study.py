"""The demo's two study files, their runs, and its folder."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.demo import demo_study
from fedfleet.app.demo.demo_folder import take_demo_folder
from fedfleet.app.demo.demo_study import (
    CLIENTS,
    COHORT,
    DEVICES,
    FLEETS,
    HOURS,
    METHODS,
    STUDY,
    USER_STUDY,
    USERS,
    WAITING,
    WAYS,
    demo_runs,
    run_demo,
)
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from fedfleet.core.errors import BadInput, RunFailed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """By fleet and way, of the first seed."""
    runs = demo_runs(tmp_path_factory.mktemp("demo"))
    return {(run.fleet, run.way): run.cell.spec for run in runs if run.cell.seed == STUDY.seeds[0]}


def test_every_run_is_there_once_and_has_its_folder(tmp_path):
    runs = demo_runs(tmp_path)
    assert len({run.out for run in runs}) == len(runs) == len(STUDY.seeds) * 3 * 3 + len(USER_STUDY.seeds) * 3
    assert runs[0].fleet == "mild" and runs[-1].fleet == USERS
    folders = {run.out.relative_to(tmp_path).as_posix() for run in runs}
    assert {"runs/severe-deadline-7", "runs/mild-fedbuff-9", "runs/users-shufflefl-3"} <= folders
    assert {run.fleet for run in runs} == {*FLEETS, USERS}, "the page has words for each of them"
    assert {run.way for run in runs} == {*WAYS, *METHODS}


def test_other_seeds_make_other_runs_in_folders_of_their_own(tmp_path):
    shifted = demo_runs(tmp_path, shift=100)
    assert {run.cell.seed for run in shifted} == {seed + 100 for seed in STUDY.seeds}
    assert not {run.out for run in shifted} & {run.out for run in demo_runs(tmp_path)}


def test_fleets_begin_one_after_the_other_and_the_longest_runs_of_each_first(tmp_path, monkeypatch):
    begun = []

    def refuse(cells, *_, turns, **__):
        begun.extend(zip(turns, (cell.arm.partition(",")[0] for cell in cells), strict=True))
        return ["later"] * len(cells)

    monkeypatch.setattr(demo_study, "carry_out_runs", refuse)
    with pytest.raises(RunFailed):
        run_demo(tmp_path, WorkerSettings(1), quiet=True)
    assert list(dict.fromkeys(fleet for fleet, _ in begun)) == [*FLEETS, USERS]
    assert begun[0] == ("mild", "FedBuff") and ("users", "ShuffleFL") in begun


def test_the_runs_of_a_fleet_are_read_as_soon_as_they_are_finished(short, tmp_path):
    seen = []
    runs = run_demo(tmp_path, WorkerSettings(1), on_fleet=lambda fleet, done: seen.append((fleet, len(done))), quiet=True)
    assert seen == [("mild", 3), (USERS, 5)] and len(runs) == 5


def test_a_run_that_cannot_be_finished_is_reported(short, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_study, "carry_out_runs", lambda cells, *_, **__: ["the disk is full"] * len(cells))
    with pytest.raises(RunFailed, match="could not be finished: the disk is full"):
        run_demo(tmp_path, WorkerSettings(1), quiet=True)


def test_all_ways_meet_the_same_fleet(specs):
    setups = {way: assemble(specs["middle", way]) for way in WAYS}
    assert len(setups) == 3 and {s.plan.clients for s in setups.values()} == {CLIENTS}
    assert len({tuple(s.world.devices.kinds) for s in setups.values()}) == 1


def test_all_ways_have_the_same_hours_and_clients_at_work(specs):
    assert {specs[fleet, way].stop["virtual_seconds"] for fleet in FLEETS for way in WAYS} == {3600.0 * HOURS}
    assert {specs["mild", way].pace.get("concurrency", specs["mild", way].pace.get("cohort")) for way in WAYS} == {COHORT}


def test_fleets_go_from_mild_to_severe(specs):
    worlds = [assemble(specs[fleet, WAITING]).world for fleet in FLEETS]
    online = [np.mean([world.states.online(t) for t in np.arange(0, 2 * 86400, 3600.0)]) for world in worlds]
    assert online == sorted(online, reverse=True) and online[0] == 1.0


def test_flat_and_nested_runs_ask_for_as_many_devices(specs):
    plans = {name: assemble(specs[USERS, name]).plan for name in METHODS}
    assert plans["FedAvg"].clients == DEVICES
    assert plans["HierFL"].clients == plans["ShuffleFL"].clients < DEVICES / 2
    assert plans["FedAvg"].pace.cohort == 14 and plans["HierFL"].pace.cohort == 4


def test_an_earlier_demo_is_replaced(tmp_path):
    take_demo_folder(tmp_path / "demo")
    (tmp_path / "demo/report.html").write_text("old")
    take_demo_folder(tmp_path / "demo")
    assert not (tmp_path / "demo/report.html").exists()


def test_anything_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(BadInput, match="is not a demo; choose another folder with --out"):
        take_demo_folder(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    with pytest.raises(BadInput, match="cannot write to the folder"):
        take_demo_folder(tmp_path / "mine.txt" / "demo")
