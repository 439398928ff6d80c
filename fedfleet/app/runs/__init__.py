"""Running a spec in a folder, and what can be done with such a folder afterwards."""

from fedfleet.app.runs.execution import perform
from fedfleet.app.runs.run_folder import (
    FinishedRun,
    open_run,
    read_finished_run,
    stored_first_weights,
    stored_score,
    stored_user_metrics,
    stored_warnings,
    stored_weights,
)

__all__ = [
    "FinishedRun",
    "open_run",
    "perform",
    "read_finished_run",
    "stored_first_weights",
    "stored_score",
    "stored_user_metrics",
    "stored_warnings",
    "stored_weights",
]
