"""Reports of many runs, written side by side."""

import shutil

import pytest

from fedfleet.app.pages.page_writer import work, write_reports
from fedfleet.core.errors import RunFailed


def copies(run, folder, n):
    result = [shutil.copytree(run, folder / str(i)) for i in range(n)]
    for out in result:
        (out / "report.html").unlink()
    return result


def test_a_piece_of_work_is_its_folders(run_copy, tmp_path):
    (run_copy / "report.html").unlink()
    assert work({"folders": [str(run_copy)]}, lambda said: None) == {}
    assert "<h1>" in (run_copy / "report.html").read_text()


@pytest.mark.soak
def test_processes_write_all_of_them(tiny_run, tmp_path):
    folders = copies(tiny_run.out, tmp_path, 6)
    write_reports(folders, workers=2, log=tmp_path / "log")
    assert all((out / "report.html").is_file() for out in folders)
    (folders[3] / "metrics.json").write_text("{}")
    with pytest.raises(RunFailed, match="a report could not be written"):
        write_reports(folders, workers=2, log=tmp_path / "log")


def test_few_reports_need_no_process(tiny_run, tmp_path):
    folders = copies(tiny_run.out, tmp_path, 2)
    write_reports(folders, workers=2, log=tmp_path / "log")
    assert all((out / "report.html").is_file() for out in folders) and not (tmp_path / "log").exists()
