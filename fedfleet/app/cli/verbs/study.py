"""`fedfleet study`: a question as one file, an answer as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, Interrupted, answer, say


def study(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A study file in TOML.")],
    scale: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Apply the study's table 'scale.NAME', for example quick or full."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write; default: runs/NAME, or runs/NAME-SCALE.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="In how many processes to run; default: one for each processor."),
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run on a Ray cluster, started here if no address is given.")
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(help="Run on the Ray cluster at this address; --out must lie on a folder that it shares."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run every arm of a study with every seed, and compare them: tables, analyses and one page. What is finished stays."""
    from fedfleet.app.pages.page_writer import run_and_write
    from fedfleet.app.pages.study_pages import write_pages
    from fedfleet.app.studies.grid.run_study import study as carry_out
    from fedfleet.app.studies.grid.study_jobs import WorkerSettings

    means = WorkerSettings(workers or 0, ray=ray or ray_address is not None, address=ray_address, work=run_and_write)
    try:
        done = write_pages(carry_out(file, out, scale=scale, worker_settings=means, quiet=as_json))
    except KeyboardInterrupt:
        raise Interrupted("interrupted; what has been run is kept: say the same again to go on") from None
    answer(done.answer(), as_json, lambda _: str(done))
    for note in done.notes:
        say(note)
    if done.unfinished:
        say(
            f"{done.unfinished} of {len(done.cells)} runs have no result; mend why and say the same again: only they are tried"
        )
    if done.unfinished or done.failed == len(done.cells):
        raise typer.Exit(1)  # runs are missing, or none made a model; one that ended in order without is a finding
