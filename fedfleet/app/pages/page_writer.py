"""Writing report pages in worker processes: of many finished runs side by side, or of a study's runs as each finishes."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import read_finished_run
from fedfleet.app.studies.grid import study_worker
from fedfleet.core.errors import RunFailed
from fedfleet.executors.worker_pool import Body, Tell, WorkerPool

_TOGETHER = 5  # reports that a worker writes before it asks for more


def write_reports(folders: Sequence[Path], *, pool: WorkerPool | None = None, log: Path) -> None:
    """Write report.html into each of these folders of finished runs, here or by these workers of `perform_or_write`; an error names
    the folder's reason and the log."""
    if pool is None:
        for folder in folders:
            write_report(read_finished_run(folder))
        return
    pieces = [{"folders": [str(f.resolve()) for f in folders[i : i + _TOGETHER]]} for i in range(0, len(folders), _TOGETHER)]
    for message in [message for message in pool(pieces) if message.ended]:
        if message.failure:
            raise RunFailed(f"a report could not be written: {message.failure}; for details see {log}")


def perform_or_write(piece: Body, tell: Tell) -> Body:
    """Perform the runs of a piece, or write the reports of its folders, in a worker that does both."""
    return write_piece(piece, tell) if "folders" in piece else study_worker.work(piece, tell)


def write_piece(piece: Body, tell: Tell) -> Body:
    """Write the reports of a piece, in a worker."""
    del tell
    for folder in piece["folders"]:
        write_report(read_finished_run(Path(folder)))
    return {}


def run_and_write(piece: Body, tell: Tell) -> Body:
    """Perform the runs of a study's piece and write their pages, in a worker; a page that fails costs no run, and is tried again
    at the end of the study."""
    result = study_worker.work(piece, tell)
    for run, failure in zip(piece["runs"], result["failures"], strict=True):
        try:
            if not failure:
                write_report(read_finished_run(Path(run["out"])))
        except Exception:
            traceback.print_exc()
    return result
