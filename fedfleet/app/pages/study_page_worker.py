"""A worker of a study that also draws the page of every run that it finished: `python -m fedfleet.app.pages.study_page_worker`."""

from __future__ import annotations

import traceback
from pathlib import Path

from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import read_finished_run
from fedfleet.app.studies.grid import study_worker
from fedfleet.executors.worker_pool import Body, Tell, run_worker


def work(piece: Body, tell: Tell) -> Body:
    """Perform the runs of a piece and draw their pages; a page that cannot be drawn costs no run, and is tried again at the end."""
    result = study_worker.work(piece, tell)
    for run, failure in zip(piece["runs"], result["failures"], strict=True):
        try:
            if not failure:
                write_report(read_finished_run(Path(run["out"])))
        except Exception:
            traceback.print_exc()
    return result


if __name__ == "__main__":
    run_worker(work)
