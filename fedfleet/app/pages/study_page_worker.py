"""A worker of a study that also draws the page of every run that it finished: `python -m fedfleet.app.pages.study_page_worker`."""

from __future__ import annotations

import traceback
from pathlib import Path

from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import finished
from fedfleet.app.studies.grid import study_worker
from fedfleet.executors.worker_pool import Body, Tell, attend


def work(piece: Body, tell: Tell) -> Body:
    """Perform the runs of a piece and draw their pages; a page that cannot be drawn costs no run, and is tried again at the end."""
    found = study_worker.work(piece, tell)
    for run, failure in zip(piece["runs"], found["failures"], strict=True):
        try:
            if not failure:
                write_report(finished(Path(run["out"])))
        except Exception:
            traceback.print_exc()
    return found


if __name__ == "__main__":
    attend(work)
