"""`fedfleet.report` is `fedfleet report`: of a result or a folder, and what has no page yet is said."""

import json

import pytest

import fedfleet as package
from fedfleet.app.api.report import Reported
from tests.app.specs import refused


def test_the_call_and_the_verb_write_the_same(run_copy, tiny_run, fedfleet):
    result = package.report(str(run_copy))
    written = result.page.read_bytes()
    _, out, _ = fedfleet("report", run_copy, "--json")
    assert json.loads(out) == json.loads(json.dumps(result.answer())) and result.page.read_bytes() == written
    assert result.kind == "run" and result.answer()["digest"] == tiny_run.metrics["digest"]
    assert package.report(package.load(run_copy)).page == result.page


@pytest.mark.parametrize(("file", "what"), [("study.toml", "study"), ("tune.db", "search")])
def test_what_has_not_ended_is_said(tmp_path, file, what):
    (tmp_path / file).write_text("")
    with pytest.raises(package.BadInput, match=f"the {what} in .* has not ended"):
        package.report(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path):
    for odd in (5, None, ""):
        with pytest.raises(package.BadInput, match="is not a folder"):
            package.report(odd)
    with pytest.raises(package.BadInput, match="no run folder"):
        package.report(tmp_path / "none")


def test_a_report_is_short(tmp_path):
    result = Reported("run", tmp_path / "report.html", "rounds 3", {"rounds": 3})
    assert repr(result) == f"Reported(run: {tmp_path}/report.html)" and str(result) == "rounds 3"
    assert result.answer() == {"rounds": 3}


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


def test_a_folder_of_runs_is_answered_with_the_runs_in_it(fedfleet, tmp_path):
    for name in ("second", "first"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.db").touch()
    refused(fedfleet("report", tmp_path / "runs"), "runs/first and", "runs/second", "name one of them")
