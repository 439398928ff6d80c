"""`fedfleet report`."""

import json

from tests.app.specs import refused


def test_report_of_a_folder(run_copy, tiny_run, fedfleet):
    (run_copy / "report.html").unlink()
    code, printed, _ = fedfleet("report", run_copy, "--json")
    got = json.loads(printed)
    assert code == 0
    assert got["digest"] == tiny_run.metrics["digest"]
    assert got["ended"] is True
    page = (run_copy / "report.html").read_text()
    assert got["report"] == str(run_copy / "report.html")
    assert "<svg" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", ""), "self-contained: nothing is fetched"


def test_people_get_one_measure_per_line(run_copy, fedfleet):
    _, out, _ = fedfleet("report", run_copy)
    assert "rounds " in out and "virtual_seconds" in out


def test_what_is_no_run_is_refused(fedfleet, tmp_path):
    refused(fedfleet("report", tmp_path / "none"), "no run folder")
    refused(fedfleet("report", tmp_path), "no journal")


def test_a_file_of_a_run_is_not_called_missing(fedfleet, run_copy):
    refused(fedfleet("report", run_copy / "report.html"), "is a file; name the folder of a run")
    refused(fedfleet("explain", run_copy / "run.db"), "is a file; name the folder of a run")


def test_the_folder_of_a_study_has_its_page_written(fedfleet, tmp_path):
    known = {"name": "s", "rows": [], "runs": [], "analyses": [], "verdict": "None."}
    known |= dict.fromkeys(("target", "baseline", "equal_time_seconds"))
    (tmp_path / "study.json").write_text(json.dumps(known))
    code, printed, _ = fedfleet("report", tmp_path, "--json")
    assert code == 0 and json.loads(printed)["report"] == str(tmp_path / "report.html")
    (tmp_path / "study.json").write_text("{}")
    refused(fedfleet("report", tmp_path), "study.json cannot be read", "run the study again")
