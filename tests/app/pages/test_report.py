"""The report of a run."""

import pytest

from fedfleet.app.pages.report import render, report_run
from fedfleet.core.errors import BadInput
from fedfleet.runtime import journal as journals


def test_the_report_shows_measures_spec_and_digest(tiny_run):
    page = (tiny_run.out / "report.html").read_text()
    assert "6 rounds with 12 clients" in page
    assert tiny_run.metrics["digest"] in page
    assert "cohort = 4" in page and "<td>virtual_seconds</td>" in page
    assert page.count("<svg") == 4


def test_remarks_of_the_journal_are_told(run_copy):
    assert "How it was computed" not in (run_copy / "report.html").read_text()
    journal = journals.reopen(run_copy / "run.db")
    for remark in ("trained by <a> loop", "12 % was padding"):
        journal.remark(remark)
    journal.close()
    metrics = report_run(run_copy)
    page = (run_copy / "report.html").read_text()
    assert "<h2>How it was computed</h2>" in page
    assert "<li>trained by &lt;a&gt; loop</li><li>12 % was padding</li>" in page
    assert metrics["rounds"] == 6, "a remark is no event"


def test_names_are_escaped(tiny_run):
    page = render("<b>", "x = '<i>'", tiny_run.metrics, tiny_run.events)
    assert "&lt;b&gt;" in page and "&lt;i&gt;" in page and "<b>" not in page.replace('<div class="tile"><b>', "")


def test_an_empty_journal_has_nothing_to_report(run_copy):
    journals.create(run_copy / "run.db").close()
    with pytest.raises(BadInput, match="nothing to report yet"):
        report_run(run_copy)
