"""Writing report pages in worker processes: of many finished runs side by side, or of a study's runs as each finishes."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from fedfleet.app.pages.report_page import write_report
from fedfleet.app.runs import read_finished_run
from fedfleet.app.studies.grid import study_worker
from fedfleet.core.errors import RunFailed
from fedfleet.executors.worker_pool import Body, Tell, run_in_workers

_MIN_REPORTS = 6  # reports that are worth a second process


def write_reports(folders: Sequence[Path], *, workers: int, log: Path) -> None:
    """Write report.html into each of these folders of finished runs; an error names the folder's reason and the log."""
    if workers < 2 or len(folders) < _MIN_REPORTS:
        for folder in folders:
            write_report(read_finished_run(folder))
        return
    pieces = [{"folders": [str(f.resolve()) for f in folders[i::workers]]} for i in range(workers)]
    ends = [message for message in run_in_workers(write_piece, pieces, workers, log=log) if message.ended]
    for message in ends:
        if message.failure:
            raise RunFailed(f"a report could not be written: {message.failure}; for details see {log}")


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
