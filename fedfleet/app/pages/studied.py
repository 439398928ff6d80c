"""All pages of a study: its own, and that of every run, which its rows open."""

from __future__ import annotations

from dataclasses import replace

from fedfleet.app.pages.report import write_report
from fedfleet.app.pages.study import write_study
from fedfleet.app.runs import finished
from fedfleet.app.studies.answering import Studied


def with_pages(studied: Studied) -> Studied:
    """Write the pages; one that a run has already is left as it is."""
    for ran in studied.cells:
        if ran.run is not None and not (ran.out / "report.html").is_file():
            write_report(finished(ran.out))
    return replace(studied, page=write_study(studied))
