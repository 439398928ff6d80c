"""Reports of many runs, written side by side."""

import shutil

import pytest

from fedfleet.app.pages import page_writer
from fedfleet.app.pages.page_writer import perform_or_write, write_piece, write_reports
from fedfleet.app.studies.grid.study_runs import expand_study
from fedfleet.app.studies.grid.study_worker import piece_of
from fedfleet.core.errors import RunFailed
from fedfleet.executors.worker_pool import open_workers
from tests.app.studies.tables import asked


def copies(run, folder, n):
    result = [shutil.copytree(run, folder / str(i)) for i in range(n)]
    for out in result:
        (out / "report.html").unlink()
    return result


def test_a_piece_of_work_is_its_folders(run_copy, tmp_path):
    (run_copy / "report.html").unlink()
    assert write_piece({"folders": [str(run_copy)]}, lambda said: None) == {}
    assert "<h1>" in (run_copy / "report.html").read_text()


@pytest.mark.soak
def test_processes_write_all_of_them(tiny_run, tmp_path):
    folders = copies(tiny_run.out, tmp_path, 6)
    log = tmp_path / "log"
    with open_workers("fedfleet.app.pages.page_writer:perform_or_write", 2, log=log) as pool:
        write_reports(folders, pool=pool, log=log)
        assert all((out / "report.html").is_file() for out in folders)
        (folders[3] / "metrics.json").write_text("{}")
        with pytest.raises(RunFailed, match="a report could not be written"):
            write_reports(folders, pool=pool, log=log)


def test_without_workers_this_process_writes_them(tiny_run, tmp_path):
    folders = copies(tiny_run.out, tmp_path, 2)
    write_reports(folders, log=tmp_path / "log")
    assert all((out / "report.html").is_file() for out in folders) and not (tmp_path / "log").exists()


def test_one_worker_performs_runs_and_writes_reports(run_copy, tmp_path):
    (cell,) = expand_study(asked())[:1]
    assert perform_or_write(piece_of([cell.spec], [tmp_path / "a"]), lambda body: None) == {"failures": [""]}
    (run_copy / "report.html").unlink()
    assert perform_or_write({"folders": [str(run_copy)]}, lambda body: None) == {}
    assert (run_copy / "report.html").is_file()


def test_every_finished_run_has_its_page_and_a_page_that_fails_costs_no_run(tmp_path, monkeypatch, capsys):
    cells = expand_study(asked())[:3]
    outs = [tmp_path / name for name in "abc"]
    outs[1].write_text("a file")
    drawn = page_writer.write_report

    def write_report(done):
        if done.out == outs[2]:
            raise KeyError("no ink")
        return drawn(done)

    monkeypatch.setattr(page_writer, "write_report", write_report)
    first, second, third = page_writer.run_and_write(piece_of([c.spec for c in cells], outs), lambda body: None)["failures"]
    assert (first, third) == ("", "") and "is a file" in second
    assert (outs[0] / "report.html").is_file() and not (outs[2] / "report.html").exists()
    assert "no ink" in capsys.readouterr().err
