"""`fedfleet export`: give a run to a tracking tool, from its journal."""

from __future__ import annotations

from typing import Annotated

import typer

from fedfleet.app.terminal.answers import AsJson, RunFolder, answer, warn


def export(
    folder: RunFolder,
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="TOOL:WHERE", help="tensorboard:DIR, mlflow:URI or jsonl:FILE; may be repeated."),
    ],
    as_json: AsJson = False,
) -> None:
    """Write a run, finished or not, to TensorBoard, MLflow or a file of JSON lines, from its journal."""
    from fedfleet.app.runs import open_run, read_finished_run
    from fedfleet.app.tracking.run_follower import export_events
    from fedfleet.app.tracking.sink import sinks_of
    from fedfleet.store.seals import SEAL

    sinks = sinks_of(to)
    spec, events, _ = open_run(folder)
    metrics = read_finished_run(folder).metrics if (folder / SEAL).is_file() else None
    written = export_events(sinks, spec, folder.resolve().name, events, metrics, lambda message: warn([message]))
    result = {"run": str(folder), "to": written, "failed": [sink.name for sink in sinks if sink.name not in written]}
    answer(result, as_json, lambda a: f"{a['run']} is in {', '.join(a['to']) or 'none of them'}")
    if result["failed"]:
        raise typer.Exit(1)
