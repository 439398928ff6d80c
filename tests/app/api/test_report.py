"""`fedfleet.report` is `fedfleet report`: of a result or a folder, and what has no page yet is said."""

import json

import pytest

import fedfleet as package
from fedfleet.app.api.report import Reported


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
        with pytest.raises(package.BadInput, match="is no folder"):
            package.report(odd)
    with pytest.raises(package.BadInput, match="no run folder"):
        package.report(tmp_path / "none")


def test_a_report_is_short(tmp_path):
    result = Reported("run", tmp_path / "report.html", "rounds 3", {"rounds": 3})
    assert repr(result) == f"Reported(run: {tmp_path}/report.html)" and str(result) == "rounds 3"
    assert result.answer() == {"rounds": 3}
