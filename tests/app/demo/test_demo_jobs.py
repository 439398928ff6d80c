"""Having the demo's runs done."""

import pytest

from fedfleet.app.demo import demo_jobs, demo_runs
from fedfleet.app.demo.demo_jobs import USERS, all_runs, run_demo, runs_in_order
from fedfleet.core.errors import RunFailed


def test_the_longest_begin_first_and_every_run_is_there_once(tmp_path):
    plan = all_runs(tmp_path)
    assert len({run.out for run in plan}) == len(plan) == len(demo_runs.SEEDS) * (3 * 6 + 3)
    assert [run.way for run in plan[:9]] == ["BiasPrompt+"] * 9 and plan[9].way == "ShuffleFL"
    told = runs_in_order(tmp_path)
    assert (
        {run.out for run in told} == {run.out for run in plan} and told[0].fleet == "mild" and told[-1].fleet == USERS
    )


def test_a_run_that_cannot_be_finished_is_told(short, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_jobs, "carry_out_runs", lambda cells, *_, **__: ["the disk is full"] * len(cells))
    with pytest.raises(RunFailed, match="could not be finished: the disk is full"):
        run_demo(tmp_path, quiet=True)
