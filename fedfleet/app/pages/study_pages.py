"""All pages of a study: its own, and that of every run, which its rows open."""

from __future__ import annotations

from dataclasses import replace

from fedfleet.app.pages.study_page import write_study
from fedfleet.app.studies.grid.run_study import Studied


def write_pages(studied: Studied) -> Studied:
    """Write the pages, and say where the study's is; one that a run has already is left as it is."""
    return replace(studied, page=write_study(studied))
