"""`fedfleet demo`: the study that comes with the package."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, answer


def demo(
    out: Annotated[Path, typer.Option(help="The folder to write; an earlier demo there is replaced.")] = Path("demo"),
    as_json: AsJson = False,
) -> None:
    """Train on three fleets, from mild to severe, and by six methods; writes an HTML report. About a minute."""
    from fedfleet.app.demo import methods, study, users
    from fedfleet.app.demo.folder import take_demo_folder
    from fedfleet.app.pages.demo import write_demo
    from fedfleet.app.terminal.text import shown_demo

    start = time.perf_counter()
    take_demo_folder(out)
    runs = study.run_fleets(out, quiet=as_json)
    metrics = {fleet: study.fleet_metrics(fleet) for fleet in study.FLEETS}
    grouped = users.run_users(out, quiet=as_json)
    zoo = methods.run_methods(out, quiet=as_json)
    page = write_demo(out, runs, metrics, grouped, zoo)
    found = {
        "runs": [study.result_row(fleet, pace, done) for (fleet, pace), done in runs.items()],
        "users": [users.result_row(name, done) for name, done in grouped.items()],
        "methods": [methods.result_row(name, done) for name, done in zoo.items()],
        "metrics": metrics,
        "report": str(page),
        "wall_seconds": time.perf_counter() - start,
    }
    answer(found, as_json, shown_demo)
