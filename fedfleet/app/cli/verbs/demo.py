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
    from fedfleet.app.demo.demo_study import run_demo, take_demo_folder
    from fedfleet.app.pages.demo_page import write_demo
    from fedfleet.app.pages.page_writer import write_reports
    from fedfleet.app.studies.grid.study_jobs import LOG, processor_count
    from fedfleet.app.terminal.text import demo_text

    start = time.perf_counter()
    take_demo_folder(out)
    runs_by_way = run_demo(out, quiet=as_json)
    training_seconds = time.perf_counter() - start
    write_reports([run.out for runs in runs_by_way.values() for run in runs], workers=processor_count(), log=out / LOG)
    report_seconds = time.perf_counter() - start
    page = write_demo(out, runs_by_way)
    json_answer = {
        "answer": found.paragraph(runs_by_way),
        "finding": found.headline(runs_by_way),
        "runs": found.result_rows(runs_by_way),
        "ways": found.way_rows(runs_by_way),
        "report": str(page),
        "wall_seconds": time.perf_counter() - start,
        "wall": {
            "runs": training_seconds,
            "reports": report_seconds - training_seconds,
            "page": time.perf_counter() - start - report_seconds,
        },
    }
    answer(json_answer, as_json, demo_text)
