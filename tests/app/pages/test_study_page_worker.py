"""A worker of a study draws the pages of its runs."""

from fedfleet.app.pages import study_page_worker
from fedfleet.app.studies.grid.study_runs import expand_study
from fedfleet.app.studies.grid.study_worker import piece_of
from tests.app.studies.tables import asked


def test_every_finished_run_has_its_page_and_a_page_that_fails_costs_no_run(tmp_path, monkeypatch, capsys):
    cells = expand_study(asked())[:3]
    outs = [tmp_path / name for name in "abc"]
    outs[1].write_text("a file")
    drawn = study_page_worker.write_report

    def write_report(done):
        if done.out == outs[2]:
            raise KeyError("no ink")
        return drawn(done)

    monkeypatch.setattr(study_page_worker, "write_report", write_report)
    first, second, third = study_page_worker.work(piece_of([c.spec for c in cells], outs), lambda body: None)[
        "failures"
    ]
    assert (first, third) == ("", "") and "is a file" in second
    assert (outs[0] / "report.html").is_file() and not (outs[2] / "report.html").exists()
    assert "no ink" in capsys.readouterr().err
