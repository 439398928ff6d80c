"""The demo's two study files, their runs, and its folder."""

import numpy as np
import pytest

from fedfleet.app.assemble import assemble
from fedfleet.app.demo import demo_study
from fedfleet.app.demo.demo_study import (
    CLIENTS,
    DEVICES,
    FLEETS,
    HOURS,
    METHODS,
    STUDY,
    USERS,
    WAITING,
    WAYS,
    demo_runs,
    run_demo,
    take_demo_folder,
)
from fedfleet.core.errors import BadInput, RunFailed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """By fleet and way, of the first seed."""
    runs = demo_runs(tmp_path_factory.mktemp("demo"))
    return {(run.fleet, run.way): run.cell.spec for run in runs if run.cell.seed == STUDY.seeds[0]}


def test_every_run_is_there_once_and_has_its_folder(tmp_path):
    runs = demo_runs(tmp_path)
    assert len({run.out for run in runs}) == len(runs) == len(STUDY.seeds) * (3 * 6 + 3)
    assert runs[0].fleet == "mild" and runs[-1].fleet == USERS
    folders = {run.out.relative_to(tmp_path).as_posix() for run in runs}
    assert {"runs/severe-deadline-7", "runs/mild-biasprompt-9", "runs/users-shufflefl-8"} <= folders
    assert {run.fleet for run in runs} == {*FLEETS, USERS}, "the page has words for each of them"
    assert {run.way for run in runs} == {*WAYS, *METHODS}


def test_the_longest_begin_first(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(demo_study, "carry_out_runs", lambda cells, *_, **__: begun.extend(cells) or ["later"] * 63)
    with pytest.raises(RunFailed):
        run_demo(tmp_path, quiet=True)
    ways = [cell.arm.partition(",")[0] for cell in begun]
    assert ways[:9] == ["BiasPrompt+"] * 9 and ways[9] == "ShuffleFL"


def test_a_run_that_cannot_be_finished_is_reported(short, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_study, "carry_out_runs", lambda cells, *_, **__: ["the disk is full"] * len(cells))
    with pytest.raises(RunFailed, match="could not be finished: the disk is full"):
        run_demo(tmp_path, quiet=True)


def test_six_ways_meet_the_same_fleet(specs):
    setups = {way: assemble(specs["middle", way]) for way in WAYS}
    assert len(setups) == 6 and {s.plan.clients for s in setups.values()} == {CLIENTS}
    assert len({tuple(s.world.devices.kinds) for s in setups.values()}) == 1


def test_all_but_waiting_have_the_same_hours(specs):
    assert {specs["mild", way].stop["virtual_seconds"] for way in WAYS if way != WAITING} == {3600.0 * HOURS}


def test_fleets_go_from_mild_to_severe(specs):
    worlds = [assemble(specs[fleet, WAITING]).world for fleet in FLEETS]
    online = [np.mean([world.states.online(t) for t in np.arange(0, 2 * 86400, 3600.0)]) for world in worlds]
    assert online == sorted(online, reverse=True) and online[0] == 1.0


def test_what_travels_of_a_frozen_backbone_is_small(specs):
    frozen = assemble(specs["mild", "BiasPrompt+"])
    sizes = [sum(v.nbytes for v in tree.values()) for tree in (frozen.plan.params, frozen.task.frozen)]
    assert sizes[0] < 0.1 * sizes[1]


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
