"""Runs are carried out in every way there is, with the same journals, and what one cannot do stops no other."""

import pytest

from fedfleet.app.runs import read_finished_run
from fedfleet.app.studies.grid import study_jobs
from fedfleet.app.studies.grid.study_jobs import RunNews, WorkerSettings, carry_out_runs
from fedfleet.app.studies.grid.study_runs import expand_study, has_seal, run_folders
from fedfleet.app.studies.grid.study_worker import work
from fedfleet.executors.ray import Cluster
from fedfleet.executors.worker_pool import WorkerMessage
from tests.app.studies.tables import BASE, asked


def digests(outs):
    return [read_finished_run(out).metrics["digest"] for out in outs]


@pytest.mark.soak
def test_processes_and_this_process_write_the_same_journals_and_finished_runs_are_left_alone(tmp_path):
    cells = expand_study(asked())
    here, there = run_folders(tmp_path / "here", cells), run_folders(tmp_path / "there", cells)
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
    news = []
    assert carry_out_runs(cells, here, WorkerSettings(1), log=tmp_path / "log", on_news=news.append) == [""] * 4
    assert {n.cell for n in news if n.over} == {0, 1, 2, 3}
    assert carry_out_runs(cells, there, WorkerSettings(2), log=tmp_path / "log") == [""] * 4
    assert digests(here) == digests(there)
    before = [(out / "seal.json").stat().st_mtime_ns for out in here]
    assert carry_out_runs(cells, here, WorkerSettings(1), log=tmp_path / "log", on_news=news.append) == [""] * 4
    assert [(out / "seal.json").stat().st_mtime_ns for out in here] == before


def test_a_folder_that_is_something_else_fails_alone(tmp_path):
    cells = expand_study(asked(seeds=1))
    outs = run_folders(tmp_path, cells)
    outs[0].mkdir(parents=True)
    (outs[0] / "stranger").touch()
    first, second = carry_out_runs(cells, outs, WorkerSettings(1), log=tmp_path / "log")
    assert "is not a run" in first and second == ""
    assert has_seal(outs[1]) and not has_seal(outs[0])


def test_runs_of_a_group_that_nobody_came_back_from_are_tried_alone(tmp_path, monkeypatch):
    cells = expand_study(asked())
    outs, pieces = run_folders(tmp_path, cells), []
    monkeypatch.setattr(study_jobs, "joint_groups", lambda specs, workers: [[0, 1], [2, 3]])

    def worker_messages(job, given, workers, **_):
        assert job is work
        for i, piece in enumerate(given):
            pieces.append([run["name"] for run in piece["runs"]])
            several = len(piece["runs"]) > 1
            yield WorkerMessage(i, {"run": 0, "round": 2})
            if several or piece["runs"][0]["out"] == str(outs[3].resolve()):
                yield WorkerMessage(i, {}, deaths=1)
                yield WorkerMessage(i, {}, ended=True, failure="its worker died 3 times", deaths=3)
            else:
                yield WorkerMessage(i, {"failures": [""]}, ended=True)

    monkeypatch.setattr(study_jobs, "run_in_workers", worker_messages)
    news = []
    result = carry_out_runs(cells, outs, WorkerSettings(2), log=tmp_path / "log", on_news=news.append)
    assert [len(p) for p in pieces] == [2, 2, 1, 1, 1, 1]
    assert result == ["", "", "", "its worker died 3 times"]
    assert RunNews(0, round=2) in news and RunNews(1, worker_deaths=1) in news
    assert RunNews(3, is_over=True, failure="its worker died 3 times", worker_deaths=3) in news


def test_ray_gets_groups_for_all_its_workers_and_what_it_finished_elsewhere_is_said(tmp_path, monkeypatch):
    cells = expand_study(asked(seeds=2, base={**BASE, "run": {"execute": "stacked", "threads": 3}}))
    asked_for, closed = {}, []

    def connect(workers, address, threads):
        asked_for.update(workers=workers, address=address, threads=threads)
        return Cluster(None, 2, lambda: closed.append(True))

    def errands(cluster, work, pieces, *, gpus):
        asked_for.update(work=work, runs=[len(piece["runs"]) for piece in pieces], gpus=gpus)
        yield from (WorkerMessage(i, {"failures": [""] * len(p["runs"])}, ended=True) for i, p in enumerate(pieces))

    monkeypatch.setattr("fedfleet.executors.ray.connect", connect)
    monkeypatch.setattr("fedfleet.executors.ray_jobs.run_ray_jobs", errands)
    monkeypatch.setattr(study_jobs, "load_forms", lambda folder, specs: [None] * len(specs))
    settings = WorkerSettings(0, ray=True, address="ray://there:1")
    result = carry_out_runs(cells, run_folders(tmp_path, cells), settings, log=tmp_path / "log")
    assert len(result) == 4 and all("all machines of the cluster share" in why for why in result)
    there = {"workers": None, "address": "ray://there:1", "threads": 3}
    assert asked_for == {**there, "work": study_jobs.work, "runs": [2, 2], "gpus": 0}
    assert closed == [True]


@pytest.mark.soak
def test_a_real_cluster_writes_the_same_journals(tmp_path):
    cells = expand_study(asked(seeds=1))
    here, there = run_folders(tmp_path / "here", cells), run_folders(tmp_path / "there", cells)
    log = tmp_path / "log"
    assert (
        carry_out_runs(cells, here, WorkerSettings(1), log=log)
        == carry_out_runs(cells, there, WorkerSettings(2, ray=True), log=log)
        == ["", ""]
    )
    assert digests(here) == digests(there)
