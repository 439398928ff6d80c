"""Writing the reports of many runs side by side, in processes; `python -m fedfleet.app.pages.page_writer` is one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedfleet.app.runs import read_finished_run
from fedfleet.core.errors import RunFailed
from fedfleet.executors.worker_pool import run_in_workers, run_worker

COMMAND = (sys.executable, "-P", "-m", "fedfleet.app.pages.page_writer")
_MIN_REPORTS = 6  # reports that are worth a second process


def write_reports(folders: Sequence[Path], *, workers: int, log: Path) -> None:
    """Write report.html into each of these folders of finished runs; what goes wrong is told with the folder."""
    if workers < 2 or len(folders) < _MIN_REPORTS:
        for folder in folders:
            _write_folder(folder)
        return
    pieces = [{"folders": [str(f.resolve()) for f in folders[i::workers]]} for i in range(workers)]
    python_path = os.pathsep.join(filter(None, (str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH"))))
    ends = [
        said
        for said in run_in_workers(COMMAND, pieces, workers, log=log, env={**os.environ, "PYTHONPATH": python_path})
        if said.ended
    ]
    for message in ends:
        if message.failure:
            raise RunFailed(f"a report could not be written: {message.failure}; {log} says more")


def _write_folder(folder: Path) -> None:
    from fedfleet.app.pages.report_page import write_report

    write_report(read_finished_run(folder))


def work(piece: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Write the reports of a piece."""
    del tell
    for folder in piece["folders"]:
        _write_folder(Path(folder))
    return {}


if __name__ == "__main__":
    run_worker(work)
