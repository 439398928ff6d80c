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
    """Train on three fleets, from mild to severe, by six methods over three seeds; writes one HTML page. Two to three minutes."""
    from fedfleet.app.demo import demo_findings as found
    from fedfleet.app.demo.demo_folder import take_demo_folder
    from fedfleet.app.demo.demo_jobs import run_demo, workers
    from fedfleet.app.pages.demo_page import write_demo
    from fedfleet.app.pages.page_writer import write_reports
    from fedfleet.app.studies.grid.study_jobs import LOG
    from fedfleet.app.terminal.text import shown_demo

    start = time.perf_counter()
    take_demo_folder(out)
    done = run_demo(out, quiet=as_json)
    trained = time.perf_counter() - start
    write_reports([run.out for runs in done.values() for run in runs], workers=workers(), log=out / LOG)
    reported = time.perf_counter() - start
    page = write_demo(out, done)
    told = {
        "answer": found.paragraph(done),
        "finding": found.headline(done),
        "runs": found.result_rows(done),
        "ways": found.way_rows(done),
        "report": str(page),
        "wall_seconds": time.perf_counter() - start,
        "wall": {"runs": trained, "reports": reported - trained, "page": time.perf_counter() - start - reported},
    }
    answer(told, as_json, shown_demo)
