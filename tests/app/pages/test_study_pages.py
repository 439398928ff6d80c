"""Every run of a study has its page, and the study one."""

from fedfleet.app.pages.study_pages import write_pages
from fedfleet.app.studies.grid.run_study import load_study, study
from fedfleet.app.studies.grid.study_jobs import WorkerSettings
from tests.app.studies.tables import LRS


def test_pages_are_written_once_and_failed_runs_have_none(tmp_path):
    done = study(load_study({**LRS, "seeds": 1}), tmp_path / "out", worker_settings=WorkerSettings(1))
    pages = [ran.out / "report.html" for ran in done.cells]
    pages[0].write_text("mine")
    result = write_pages(done)
    assert result.page == tmp_path / "out/report.html" and result.page.is_file()
    assert pages[0].read_text() == "mine" and pages[1].stat().st_size > 1000
