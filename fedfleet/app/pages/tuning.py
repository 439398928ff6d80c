"""The page of a search."""

from __future__ import annotations

from pathlib import Path

from fedfleet.app.tuning.answering import Tuned


def write_tuning(found: Tuned) -> Path:
    """Write report.html into the folder of a search."""
    return found.out / "report.html"
