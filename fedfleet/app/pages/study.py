"""The page of a study."""

from __future__ import annotations

import html
from pathlib import Path

from fedfleet.app.studies.answering import Studied
from fedfleet.app.studies.tables import aligned, shown_table


def write_study(studied: Studied) -> Path:
    """Write the page of a study into its folder."""
    table = aligned(*shown_table(studied.rows, studied.study.baseline, studied.aims))
    path = studied.out / "report.html"
    path.write_text(
        f"<!doctype html><title>{html.escape(studied.study.name)}</title><p>{html.escape(studied.verdict)}</p><pre>{html.escape(table)}</pre>"
    )
    return path
