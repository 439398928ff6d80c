"""`fedfleet report`: write the report of a run."""

from __future__ import annotations

from fedfleet.app.terminal.answers import AsJson, RunFolder, answer


def report(folder: RunFolder, as_json: AsJson = False) -> None:
    """Write the report of a run as one HTML file, and print its measures; also works while the run is going on."""
    from fedfleet.app.pages.report import report_run
    from fedfleet.app.terminal.text import shown_metrics

    answer(report_run(folder), as_json, shown_metrics)
